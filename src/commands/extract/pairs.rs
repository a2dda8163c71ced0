//! Every pair of documents that share enough text.

use super::{
    Progress, put,
    rows::{PairNumbers, RowWriter, for_each_pair, is_estimate},
};
use crate::{
    base::{error::Result, ids::DocNo},
    commands::{passage_options::SharedText, text_cache::TextCache},
    report::{
        DocumentIds, EncodedIds, Format, Sink,
        records::{AlignedPair, EncodedText, PairRecord, PassageRow},
    },
    similar::{Discovery, Neighbour},
};
use std::io::Write;

/// Makes records of pairs.
struct PairMaker<'d> {
    discovery: &'d Discovery<'d>,
    ids: DocumentIds,
}

impl<'d> PairMaker<'d> {
    fn new(discovery: &'d Discovery<'d>) -> Result<Self> {
        let ids = DocumentIds::read(discovery.view)?;
        Ok(Self { discovery, ids })
    }

    fn ids(&self, document: DocNo, other: DocNo) -> [&str; 2] {
        [document, other].map(|document| self.ids.get(document))
    }

    fn pair(&self, document: DocNo, partner: (DocNo, &Neighbour)) -> PairRecord<&str> {
        let ids = self.ids(document, partner.0);
        pair_record(self.discovery, ids, document, partner.1)
    }
}

/// A record that stands for all others where only the fields matter.
fn shape<Id: Default>(discovery: &Discovery<'_>) -> PairRecord<Id> {
    PairRecord {
        estimate: is_estimate(discovery),
        ..PairRecord::default()
    }
}

fn pair_record<Id: Default>(
    discovery: &Discovery<'_>,
    [a, b]: [Id; 2],
    document: DocNo,
    neighbour: &Neighbour,
) -> PairRecord<Id> {
    let content = discovery.view.content_of(document);
    let numbers = PairNumbers::new(discovery, content, neighbour);
    PairRecord {
        a,
        b,
        shared: numbers.shared,
        a_in_b: numbers.a_in_b,
        b_in_a: numbers.b_in_a,
        score: neighbour.score,
        ..shape(discovery)
    }
}

/// Writes every pair.
pub fn write_pairs(
    discovery: &Discovery<'_>,
    format: Format,
    out: &mut impl Write,
    progress: &mut Progress<'_>,
) -> Result<()> {
    let ids = EncodedIds::read(discovery.view, format)?;
    let mut head = Vec::new();
    format.put_head(&shape::<&str>(discovery), &mut head)?;
    put(out, &head)?;
    let put_row = |rows: &mut Vec<u8>, document: DocNo, (other, neighbour): (DocNo, &Neighbour)| {
        let ids = [document, other].map(|document| EncodedText(ids.get(document)));
        format.put_record(&pair_record(discovery, ids, document, neighbour), rows)
    };
    RowWriter::new(discovery, None, &for_each_pair(discovery, put_row))
        .write(|rows: &mut Vec<u8>| put(out, rows), progress)
}

/// Aligns the texts of pairs.
struct IndexedPairAligner<'d> {
    pairs: PairMaker<'d>,
    texts: &'d TextCache<'d>,
}

/// What the texts of a pair have in common.
enum PairText {
    Shared(SharedText),
    /// All that they share does not count.
    NothingLeft,
    Unreadable,
}

impl IndexedPairAligner<'_> {
    fn align(&self, document: DocNo, other: DocNo) -> PairText {
        let view = self.pairs.discovery.view;
        let text = |document: DocNo| self.texts.get(&view.id(document).ok()?);
        // Both are read, so that both are reported if they cannot be read.
        let (a, b) = (text(document), text(other));
        match (a, b) {
            (Some(a), Some(b)) => {
                let shared = self.texts.options.shared(&a, &b);
                if self.counts_words() && shared.passages.is_empty() {
                    PairText::NothingLeft
                } else {
                    PairText::Shared(shared)
                }
            }
            _ => PairText::Unreadable,
        }
    }

    /// Whether some words may not count.
    fn counts_words(&self) -> bool {
        self.texts.options.leaves_out()
    }

    fn record(&self, document: DocNo, partner: (DocNo, &Neighbour)) -> Option<PairRecord<&str>> {
        let pair = self.pairs.pair(document, partner);
        match self.align(document, partner.0) {
            PairText::Unreadable => Some(pair),
            PairText::NothingLeft => None,
            PairText::Shared(shared) => {
                let aligned = self.texts.options.pair_passages(&shared);
                Some(PairRecord {
                    a_words: aligned.a_words,
                    b_words: aligned.b_words,
                    passages: Some(aligned.passages),
                    ..pair
                })
            }
        }
    }

    fn aligned_pair(&self, document: DocNo, other: DocNo) -> Option<AlignedPair> {
        let PairText::Shared(shared) = self.align(document, other) else {
            return None;
        };
        let [a, b] = self.pairs.ids(document, other).map(str::to_owned);
        let aligned = self.texts.options.pair_passages(&shared);
        Some(AlignedPair {
            a,
            b,
            a_in_b: shared.a_in_b,
            b_in_a: shared.b_in_a,
            a_words: aligned.a_words,
            b_words: aligned.b_words,
            passages: aligned.passages,
        })
    }
}

/// Writes every pair with the passages of those whose texts can be read; in tables, a row for each
/// passage.
pub fn write_aligned(
    discovery: &Discovery<'_>,
    texts: &TextCache<'_>,
    format: Format,
    out: &mut impl Write,
    progress: &mut Progress<'_>,
) -> Result<()> {
    let pairs = IndexedPairAligner {
        pairs: PairMaker::new(discovery)?,
        texts,
    };
    let mut head = Vec::new();
    format.put_head(&PassageRow::default(), &mut head)?;
    put(out, &head)?;
    let put_row = |rows: &mut Vec<u8>, document: DocNo, partner: (DocNo, &Neighbour)| {
        let Some(pair) = pairs.record(document, partner) else {
            return Ok(());
        };
        if !format.is_table() {
            return format.put_record(&pair, rows);
        }
        let passages = pair.passages.as_deref().unwrap_or_default();
        PassageRow::of_pair(pair.a, pair.b, passages)
            .try_for_each(|row| format.put_record(&row, rows))
    };
    RowWriter::new(discovery, None, &for_each_pair(discovery, put_row))
        .write(|rows: &mut Vec<u8>| put(out, rows), progress)
}

/// Calls `sink` with every pair whose texts can be read, and its passages.
pub fn for_each_aligned(
    discovery: &Discovery<'_>,
    texts: &TextCache<'_>,
    sink: &mut dyn FnMut(AlignedPair) -> Result<()>,
    progress: &mut Progress<'_>,
) -> Result<()> {
    let pairs = IndexedPairAligner {
        pairs: PairMaker::new(discovery)?,
        texts,
    };
    let put_row = |rows: &mut Vec<AlignedPair>, document: DocNo, partner: (DocNo, &Neighbour)| {
        rows.extend(pairs.aligned_pair(document, partner.0));
        Ok(())
    };
    RowWriter::new(discovery, None, &for_each_pair(discovery, put_row)).write(
        |rows: &mut Vec<AlignedPair>| rows.drain(..).try_for_each(&mut *sink),
        progress,
    )
}
