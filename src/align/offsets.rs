//! Converts the spans of passages: to offsets in the documents as read, or to character offsets.

use super::{Passage, PreparedText};
use crate::base::num::{ToU32, ToUsize};

/// Converts spans in the compared texts to spans in the documents, which include the markup.
pub fn to_document_offsets(passages: &mut [Passage], a: &PreparedText, b: &PreparedText) {
    for passage in passages {
        (passage.a, passage.b) = (
            a.plain().in_document(passage.a),
            b.plain().in_document(passage.b),
        );
    }
}

/// Converts byte offsets to Unicode character offsets, given the two texts.
pub fn to_char_offsets(passages: &mut [Passage], a: &str, b: &str) {
    convert(
        a,
        passages
            .iter_mut()
            .flat_map(|passage| [&mut passage.a.start, &mut passage.a.end])
            .collect(),
    );
    convert(
        b,
        passages
            .iter_mut()
            .flat_map(|passage| [&mut passage.b.start, &mut passage.b.end])
            .collect(),
    );
}

/// Replaces byte offsets by character offsets, in one pass over the text.
fn convert(text: &str, mut offsets: Vec<&mut u32>) {
    if text.is_ascii() {
        return;
    }
    offsets.sort_unstable();
    let (mut bytes, mut chars) = (0, 0);
    for offset in offsets {
        let at = offset.to_usize();
        chars += text.as_bytes()[bytes..at]
            .iter()
            .filter(|&&byte| byte & 0xc0 != 0x80)
            .count()
            .to_u32();
        bytes = at;
        *offset = chars;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{align::PassageKind, text::stream::Span};

    #[test]
    fn spans_that_overlap_and_meet() {
        let text = "žluťoučký kůň";
        let span = |start, end| Span { start, end };
        let of = |a, b| Passage {
            a,
            b,
            tokens: 1,
            score: 1.0,
            p_value: None,
            kind: PassageKind::Verbatim,
            is_reversed: false,
        };
        let mut passages = [
            of(span(0, 13), span(0, 3)),
            of(span(3, 19), span(1, 2)),
            of(span(13, 13), span(3, 3)),
        ];
        to_char_offsets(&mut passages, text, "abc");
        assert_eq!(
            passages.map(|passage| (passage.a, passage.b)),
            [
                (span(0, 9), span(0, 3)),
                (span(2, 13), span(1, 2)),
                (span(9, 9), span(3, 3))
            ]
        );
    }
}
