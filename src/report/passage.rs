//! Passages as JSON, and as the XML that evaluations of plagiarism detection read.

use super::{record::put_number, xml::xml_text};
use crate::{format::Span, passage::Passage};
use std::io::Write;

/// Appends an array: `[{"a":[s,e],"b":[s,e],"tokens":n,"score":z,"kind":"verbatim"},…]`.
pub fn put_passages(out: &mut Vec<u8>, passages: &[Passage]) {
    out.push(b'[');
    for (at, passage) in passages.iter().enumerate() {
        let Passage { a, b, tokens, score, kind } = passage;
        let comma = if at > 0 { "," } else { "" };
        // Writing to a vector cannot fail.
        let _ = write!(out, "{comma}{{\"a\":[{},{}],\"b\":[{},{}],\"tokens\":{tokens},\"score\":", a.start, a.end, b.start, b.end);
        put_number(out, *score);
        let _ = write!(out, ",\"kind\":\"{}\"}}", kind.name());
    }
    out.push(b']');
}

/// Appends a document as PAN has it (<https://pan.webis.de>): the passages of `a` that are from `b`. Offsets must count characters.
pub fn put_pan_xml(out: &mut Vec<u8>, a: &str, b: &str, passages: &[Passage]) {
    let (a, b) = (xml_text(a), xml_text(b));
    let length = |span: Span| span.end - span.start;
    let _ = writeln!(out, "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<document reference=\"{a}\">");
    for passage in passages {
        let (this, source) = (passage.a, passage.b);
        let _ = writeln!(
            out,
            "<feature name=\"detected-plagiarism\" this_offset=\"{}\" this_length=\"{}\" source_reference=\"{b}\" source_offset=\"{}\" source_length=\"{}\" />",
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
    use crate::passage::Kind;

    fn passage() -> Passage {
        Passage { a: Span { start: 1, end: 4 }, b: Span { start: 0, end: 9 }, tokens: 2, score: 2.0 / 3.0, kind: Kind::Edited }
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
    fn xml() {
        let mut out = Vec::new();
        put_pan_xml(&mut out, "a\"<&>\u{7}", "b.txt", &[passage()]);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<document reference=\"a&quot;&lt;&amp;&gt;\u{fffd}\">\n\
             <feature name=\"detected-plagiarism\" this_offset=\"1\" this_length=\"3\" source_reference=\"b.txt\" source_offset=\"0\" source_length=\"9\" />\n\
             </document>\n"
        );
    }
}
