//! The results of all programs: one type per record. A new column is one field.
//!
//! Fields stand in the order in which they are written. A field of the type `Option` that is
//! `None` is `null` in JSON and an empty cell in tables, unless its comment says that it is left out.

mod blots;
mod clean;
mod graph;
mod groups;
mod headers;
mod pairs;
mod passages;
mod query;

pub use blots::{
    BlotPosting, BlotRecord, BlotText, BoilerplateRecord, ChunkDocument, ChunkRecord,
    DictionaryWord, SharedBlot, hex_blot,
};
pub use clean::{CutPassage, CutRecord, DropReason, DroppedDocument, KeepNote};
pub use graph::{GraphEdge, GraphElement, GraphNode};
pub use groups::{ClusterRecord, ClusterRow, DroppedMember, ExactGroup, ExactRow};
pub use headers::{ExtractHeader, PassagesHeader};
pub use pairs::{
    AreaList, AreaRecord, CandidatePair, ComparedPair, EncodedText, PairRecord, RowChange,
    TableChange, TableRow,
};
pub use passages::{
    AlignedPair, CountedWords, ExcludedWords, PairPassages, PassageFamily, PassagePlace,
    PassageRecord, PassageRow, PlaceRow, SpansRecord,
};
pub use query::{HistoryAnswer, HistoryMatch, MatchRecord, QueryAnswer, QueryMatch};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{align::PassageCoverage, report::put_json};
    use serde::Serialize;

    fn json(record: &impl Serialize) -> String {
        let mut out = Vec::new();
        put_json(record, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn passages_have_only_the_fields_that_apply() {
        let mut passage = PassageRecord {
            a: [1, 4],
            b: [0, 9],
            tokens: 2,
            score: 2.0 / 3.0,
            p_value: None,
            kind: "edited",
            reverse: false,
            excerpts: Default::default(),
        };
        let expected =
            "{\"a\":[1,4],\"b\":[0,9],\"tokens\":2,\"score\":0.666667,\"kind\":\"edited\"}";
        assert_eq!(json(&passage), expected);
        passage.reverse = true;
        assert_eq!(json(&passage), expected.replace('}', ",\"reverse\":true}"));
        (passage.reverse, passage.p_value) = (false, Some(3.25e-19));
        assert_eq!(
            json(&passage),
            expected.replace(",\"kind", ",\"p_value\":3.25e-19,\"kind")
        );
    }

    #[test]
    fn words_are_counted_by_reason() {
        let tally = PassageCoverage {
            words: 120,
            excluded: [10, 0, 20],
            matched: 30,
        };
        assert_eq!(
            json(&CountedWords::from(&tally)),
            "{\"words\":120,\"excluded\":{\"base\":10,\"bibliography\":0,\"quotes\":20},\"counted\":90,\"matched\":30,\"share\":0.333333}"
        );
    }

    #[test]
    fn a_pair_names_its_fields_in_order() {
        assert_eq!(
            json(&PairRecord {
                a: "x",
                b: "y",
                estimate: true,
                passages: Some(Vec::new()),
                ..PairRecord::default()
            }),
            "{\"a\":\"x\",\"b\":\"y\",\"shared\":0,\"a_in_b\":0,\"b_in_a\":0,\"score\":0,\"estimate\":true,\"passages\":[]}"
        );
    }
}
