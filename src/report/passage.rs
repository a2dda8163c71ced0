//! Passages as JSON, and as the XML that evaluations of plagiarism detection read.

use super::{record::put_number, xml::xml_text};
use crate::{
    align::{Passage, PassageCoverage, exclusions::ExclusionReason},
    text::stream::Span,
};
use std::io::Write;

/// Appends an array: `[{"a":[s,e],"b":[s,e],"tokens":n,"score":z,"kind":"verbatim"},…]`, with `"reverse":true` where `b` has the reverse complement of bases.
pub fn put_passages(out: &mut Vec<u8>, passages: &[Passage]) {
    out.push(b'[');
    for (at, passage) in passages.iter().enumerate() {
        let Passage {
            a,
            b,
            tokens,
            score,
            kind,
            is_reversed,
        } = passage;
        let comma = if at > 0 { "," } else { "" };
        // Writing to a vector cannot fail.
        let _ = write!(
            out,
            "{comma}{{\"a\":[{},{}],\"b\":[{},{}],\"tokens\":{tokens},\"score\":",
            a.start, a.end, b.start, b.end
        );
        put_number(out, *score);
        let reverse = if *is_reversed {
            ",\"reverse\":true"
        } else {
            ""
        };
        let _ = write!(out, ",\"kind\":\"{}\"{reverse}}}", kind.name());
    }
    out.push(b']');
}

/// Appends what the words of a document are counted as:
/// `{"words":n,"excluded":{"base":n,"bibliography":n,"quotes":n},"counted":n,"matched":n,"share":x}`.
pub fn put_tally(out: &mut Vec<u8>, tally: &PassageCoverage) {
    let _ = write!(out, "{{\"words\":{},\"excluded\":{{", tally.words);
    for (at, (reason, words)) in ExclusionReason::ALL.iter().zip(tally.left_out).enumerate() {
        let _ = write!(
            out,
            "{}\"{}\":{words}",
            if at > 0 { "," } else { "" },
            reason.name()
        );
    }
    let _ = write!(
        out,
        "}},\"counted\":{},\"matched\":{},\"share\":",
        tally.counted(),
        tally.matched
    );
    put_number(out, tally.share());
    out.push(b'}');
}

/// What the words of a document are counted as, for a person: "of 120 words of essay.txt 100 count; left out: 20 in quotations".
/// None if all count.
pub fn told_tally(id: &str, tally: &PassageCoverage) -> Option<String> {
    let left_out = ExclusionReason::ALL
        .iter()
        .zip(tally.left_out)
        .filter(|(_, words)| *words > 0);
    let parts: Vec<String> = left_out
        .map(|(reason, words)| format!("{words} {}", reason.place()))
        .collect();
    let counted = tally.counted();
    (!parts.is_empty()).then(|| {
        format!(
            "of {} words of {id} {counted} count; left out: {}",
            tally.words,
            parts.join(", ")
        )
    })
}

/// Appends a document as PAN has it (<https://pan.webis.de>): the passages of `a` that are from `b`. Offsets must count characters. `names` are what the evaluations
/// know the documents by; the ids tell apart those of one name.
pub fn put_pan_xml(out: &mut Vec<u8>, ids: [&str; 2], names: [&str; 2], passages: &[[Span; 2]]) {
    let ([a_id, b_id], [a, b]) = (ids.map(xml_text), names.map(xml_text));
    let length = |span: Span| span.end - span.start;
    let _ = writeln!(
        out,
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<document reference=\"{a}\" id=\"{a_id}\">"
    );
    for &[this, source] in passages {
        let _ = writeln!(
            out,
            "<feature name=\"detected-plagiarism\" this_offset=\"{}\" this_length=\"{}\" source_reference=\"{b}\" source_id=\"{b_id}\" source_offset=\"{}\" source_length=\"{}\" />",
            this.start,
            length(this),
            source.start,
            length(source)
        );
    }
    let _ = writeln!(out, "</document>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::align::PassageKind;

    fn passage() -> Passage {
        Passage {
            a: Span { start: 1, end: 4 },
            b: Span { start: 0, end: 9 },
            tokens: 2,
            score: 2.0 / 3.0,
            kind: PassageKind::Edited,
            is_reversed: false,
        }
    }

    #[test]
    fn json() {
        let mut out = Vec::new();
        put_passages(&mut out, &[]);
        put_passages(&mut out, &[passage(), passage()]);
        let one = "{\"a\":[1,4],\"b\":[0,9],\"tokens\":2,\"score\":0.666667,\"kind\":\"edited\"}";
        assert_eq!(String::from_utf8(out).unwrap(), format!("[][{one},{one}]"));
    }

    #[test]
    fn what_words_are_counted_as() {
        let tally = PassageCoverage {
            words: 120,
            left_out: [10, 0, 20],
            matched: 30,
        };
        let mut out = Vec::new();
        put_tally(&mut out, &tally);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"words\":120,\"excluded\":{\"base\":10,\"bibliography\":0,\"quotes\":20},\"counted\":90,\"matched\":30,\"share\":0.333333}"
        );
        assert_eq!(
            told_tally("a.txt", &tally).unwrap(),
            "of 120 words of a.txt 90 count; left out: 10 of the base text, 20 in quotations"
        );
        assert_eq!(
            told_tally(
                "a.txt",
                &PassageCoverage {
                    words: 9,
                    ..PassageCoverage::default()
                }
            ),
            None
        );
    }

    #[test]
    fn xml() {
        let mut out = Vec::new();
        put_pan_xml(
            &mut out,
            ["x/a\"<&>\u{7}", "b.txt"],
            ["a\"<&>\u{7}", "b.txt"],
            &[[passage().a, passage().b]],
        );
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<document reference=\"a&quot;&lt;&amp;&gt;\u{fffd}\" id=\"x/a&quot;&lt;&amp;&gt;\u{fffd}\">\n\
             <feature name=\"detected-plagiarism\" this_offset=\"1\" this_length=\"3\" source_reference=\"b.txt\" source_id=\"b.txt\" source_offset=\"0\" source_length=\"9\" />\n\
             </document>\n"
        );
    }
}
