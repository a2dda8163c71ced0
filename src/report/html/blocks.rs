//! A text cut into blocks that a page can show one at a time.
//!
//! A *segment* is text that is in the same passages from its first to its last character; the page needs no offsets, only segments. A *block* is a
//! few kilobytes of segments, which the page draws or discards as a unit when the reader scrolls. Text far from every passage is in blocks
//! that start folded.
//!
//! ```text
//! text      ······································███████·······▒▒▒▒▒██████··························
//! segments  |      folded      |     context     | 0     | ctx | 1  | 0,1 |  context |  folded  |
//! as JSON   [3120,"…"],         [0,"…",[[0],"…"],"…",[[1],"…"],[[0,1],"…"],"…"],      [810,"…"]
//! ```

use super::escape::put_json;
use crate::base::num::ToUsize;
use crate::text::{stream::Span, token::squeeze};
use std::{borrow::Cow, collections::BTreeSet, io::Write};

/// A block ends at the first good place after this many bytes …
const BLOCK_BYTES: usize = 4096;
/// … or at any place after this many more.
const BLOCK_SLACK_BYTES: usize = 1024;
/// About how much text stays visible around a passage, and how much more there must be to make folding worthwhile.
const CONTEXT_BYTES: usize = 320;
const FOLD_BYTES: usize = 400;
/// No segment names more passages than this, so that texts where everything overlaps stay linear.
const MAX_OVERLAP: usize = 64;

/// Where a passage is in this text, and its number on the page.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    pub bytes: Span,
    pub passage: u32,
}

/// The text to show.
#[derive(Debug, Clone, Copy)]
pub struct Text<'t> {
    pub text: &'t str,
    /// Collapse white space, as in text whose markup was stripped.
    pub is_squeezed: bool,
}

/// A stretch that does not count, and why.
#[derive(Debug, Clone, Copy)]
pub struct LeftOut {
    pub bytes: Span,
    pub why: &'static str,
}

/// Appends the blocks of a text as a JSON array of `[folded, segment, …]`; `folded` is 0, or how many words the block has if it starts folded; a segment is
/// a string, or `[[passage, …], string]`, or `[[passage, …], string, why]` for what does not count. `words` counts the words of a stretch.
/// Stretches that do not count come in the order of the text, and do not overlap.
///
/// Memory: O(marks). Time: O(text + marks × log marks).
pub fn put_blocks(
    out: &mut Vec<u8>,
    text: Text<'_>,
    marks: &[Mark],
    left_out: &[LeftOut],
    words: impl Fn(Span) -> u32,
) {
    let Text { text, is_squeezed } = text;
    let mut writer = Writer {
        out,
        text,
        is_squeezed,
        left_out,
        is_first: true,
        open: None,
    };
    writer.out.push(b'[');
    for (bytes, passages) in segments(text, marks) {
        if !passages.is_empty() {
            writer.put(bytes, &passages);
            continue;
        }
        let has_marks = !marks.is_empty();
        match fold(text, bytes).filter(|_| has_marks) {
            Some((start, end)) => {
                writer.put((bytes.0, start), &[]);
                writer.put_folded((start, end), &words);
                writer.put((end, bytes.1), &[]);
            }
            None => writer.put(bytes, &[]),
        }
    }
    writer.close();
    writer.out.push(b']');
}

type Bytes = (usize, usize);

/// The text between neighbouring boundaries of passages, with the passages that cover it.
fn segments<'t>(
    text: &'t str,
    marks: &[Mark],
) -> impl Iterator<Item = (Bytes, Vec<u32>)> + use<'t> {
    // At the same place, ends come before starts.
    let mut events: Vec<(usize, bool, u32)> = Vec::with_capacity(2 * marks.len());
    for mark in marks {
        let (start, end) = (
            boundary(text, mark.bytes.start.to_usize()),
            boundary(text, mark.bytes.end.to_usize()),
        );
        if start < end {
            events.extend([(start, true, mark.passage), (end, false, mark.passage)]);
        }
    }
    events.sort_unstable();
    events.push((text.len(), false, u32::MAX));
    let (mut at, mut here) = (0, BTreeSet::new());
    events
        .into_iter()
        .filter_map(move |(place, is_start, passage)| {
            let segment = (place > at).then(|| {
                (
                    (at, place),
                    here.iter().take(MAX_OVERLAP).copied().collect(),
                )
            });
            at = at.max(place);
            if is_start {
                here.insert(passage);
            } else {
                here.remove(&passage);
            }
            segment
        })
}

/// The part of a stretch without passages that starts folded. At the ends of the text there is no passage to give context to.
fn fold(text: &str, (start, end): Bytes) -> Option<Bytes> {
    let (mut from, mut to) = (start, end);
    if start > 0 {
        from = good_break(
            text,
            boundary(text, start + CONTEXT_BYTES),
            start + 2 * CONTEXT_BYTES,
        );
    }
    if end < text.len() {
        to = good_break(
            text,
            boundary(text, end.saturating_sub(2 * CONTEXT_BYTES)),
            end.saturating_sub(CONTEXT_BYTES),
        );
    }
    (from + FOLD_BYTES <= to && start <= from && to <= end).then_some((from, to))
}

/// The best place in a range to break the text: after a paragraph, a line, a sentence, a word.
fn good_break(text: &str, from: usize, to: usize) -> usize {
    let to = boundary(text, to).max(from);
    let window = text.get(from..to).unwrap_or_default();
    let after = |mark: &str| window.find(mark).map(|at| from + at + mark.len());
    after("\n\n")
        .or_else(|| after("\n"))
        .or_else(|| after(". "))
        .or_else(|| after("。"))
        .or_else(|| after(" "))
        .unwrap_or(to)
}

/// The place, or the next one before it where a character begins.
fn boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at)
        .rev()
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or(0)
}

struct Writer<'w> {
    out: &'w mut Vec<u8>,
    text: &'w str,
    is_squeezed: bool,
    left_out: &'w [LeftOut],
    is_first: bool,
    /// The size of the open block.
    open: Option<usize>,
}

impl Writer<'_> {
    /// Text that is shown from the start.
    fn put(&mut self, (mut start, end): Bytes, passages: &[u32]) {
        while start < end {
            let has = *self.open.get_or_insert_with(|| {
                begin(self.out, &mut self.is_first, 0);
                0
            });
            let room = start + BLOCK_BYTES.saturating_sub(has);
            let stop = if room < end {
                good_break(
                    self.text,
                    boundary(self.text, room),
                    room + BLOCK_SLACK_BYTES,
                )
                .min(end)
            } else {
                end
            };
            self.put_segment((start, stop), passages);
            self.open = Some(has + (stop - start));
            if has + (stop - start) >= BLOCK_BYTES {
                self.close();
            }
            start = stop;
        }
    }

    fn put_folded(&mut self, (mut start, end): Bytes, words: impl Fn(Span) -> u32) {
        self.close();
        while start < end {
            let room = start + BLOCK_BYTES;
            let stop = if room < end {
                good_break(
                    self.text,
                    boundary(self.text, room),
                    room + BLOCK_SLACK_BYTES,
                )
                .min(end)
            } else {
                end
            };
            // A folded block without words still needs a number that is not 0.
            let count = words(Span {
                start: start as u32,
                end: stop as u32,
            })
            .max(1);
            begin(self.out, &mut self.is_first, count);
            self.open = Some(0);
            self.put_segment((start, stop), &[]);
            self.close();
            start = stop;
        }
    }

    fn put_segment(&mut self, (mut start, end): Bytes, passages: &[u32]) {
        let first = self
            .left_out
            .partition_point(|stretch| stretch.bytes.end.to_usize() <= start);
        for &LeftOut { bytes, why } in &self.left_out[first..] {
            let (from, to) = (
                (bytes.start.to_usize()).clamp(start, end),
                (bytes.end.to_usize()).clamp(start, end),
            );
            if from == to {
                break;
            }
            self.put_piece((start, from), passages, None);
            self.put_piece((from, to), passages, Some(why));
            start = to;
        }
        self.put_piece((start, end), passages, None);
    }

    fn put_piece(&mut self, (start, end): Bytes, passages: &[u32], why: Option<&str>) {
        if start == end {
            return;
        }
        let text = self.text.get(start..end).unwrap_or_default();
        let text = if self.is_squeezed {
            Cow::Owned(squeeze(text))
        } else {
            Cow::Borrowed(text)
        };
        self.out.push(b',');
        if passages.is_empty() && why.is_none() {
            return put_json(self.out, &text);
        }
        self.out.extend_from_slice(b"[[");
        for (at, passage) in passages.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let _ = write!(self.out, "{comma}{passage}");
        }
        self.out.extend_from_slice(b"],");
        put_json(self.out, &text);
        if let Some(why) = why {
            self.out.push(b',');
            put_json(self.out, why);
        }
        self.out.push(b']');
    }

    fn close(&mut self) {
        if self.open.take().is_some() {
            self.out.push(b']');
        }
    }
}

fn begin(out: &mut Vec<u8>, is_first: &mut bool, folded_words: u32) {
    if !std::mem::take(is_first) {
        out.push(b',');
    }
    // Writing to a vector cannot fail.
    let _ = write!(out, "[{folded_words}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::num::ToU32;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn mark(start: usize, end: usize, passage: u32) -> Mark {
        Mark {
            bytes: Span {
                start: start as u32,
                end: end as u32,
            },
            passage,
        }
    }

    fn blocks(text: &str, marks: &[Mark]) -> Vec<Vec<Value>> {
        blocks_without(text, marks, &[])
    }

    fn blocks_without(text: &str, marks: &[Mark], left_out: &[LeftOut]) -> Vec<Vec<Value>> {
        let mut out = Vec::new();
        put_blocks(
            &mut out,
            Text {
                text,
                is_squeezed: false,
            },
            marks,
            left_out,
            |bytes| (bytes.end - bytes.start) / 5,
        );
        serde_json::from_slice(&out).unwrap()
    }

    /// The text of the segments that `wanted` says yes to.
    fn text_of(blocks: &[Vec<Value>], wanted: impl Fn(&[Value]) -> bool) -> String {
        let parts = |segment: &Value| match segment {
            Value::Array(both) => (
                both[0].as_array().unwrap().clone(),
                both[1].as_str().unwrap().to_owned(),
            ),
            text => (Vec::new(), text.as_str().unwrap().to_owned()),
        };
        let segments = blocks.iter().flat_map(|block| &block[1..]).map(parts);
        segments
            .filter(|(passages, _)| wanted(passages))
            .map(|(_, text)| text)
            .collect()
    }

    #[test]
    fn passages_may_overlap_and_touch() {
        let found = blocks(
            "0123456789é",
            &[mark(2, 6, 0), mark(4, 8, 1), mark(8, 12, 2)],
        );
        assert_eq!(
            found,
            [[
                json!(0),
                json!("01"),
                json!([[0], "23"]),
                json!([[0, 1], "45"]),
                json!([[1], "67"]),
                json!([[2], "89é"])
            ]]
        );
        assert_eq!(blocks("", &[]), Vec::<Vec<Value>>::new());
        assert_eq!(blocks("plain", &[]), [[json!(0), json!("plain")]]);
    }

    #[test]
    fn what_does_not_count_is_told() {
        let out = |start, end| LeftOut {
            bytes: Span { start, end },
            why: "quoted",
        };
        let found = blocks_without(
            "0123456789",
            &[mark(2, 6, 0)],
            &[out(0, 1), out(3, 5), out(6, 8)],
        );
        let part = |passages: &[u32], text: &str| json!([passages, text, "quoted"]);
        let expected = [
            json!(0),
            part(&[], "0"),
            json!("1"),
            json!([[0], "2"]),
            part(&[0], "34"),
            json!([[0], "5"]),
            part(&[], "67"),
            json!("89"),
        ];
        assert_eq!(found, [expected]);
    }

    #[test]
    fn what_is_far_from_passages_is_folded() {
        let far = "word ".repeat(2000);
        let text = format!("{far}PASSAGE {far}");
        let found = blocks(&text, &[mark(far.len(), far.len() + 7, 0)]);
        let is_folded: Vec<bool> = found.iter().map(|block| block[0] != json!(0)).collect();
        assert_eq!(is_folded, [true, true, true, false, true, true, true]);
        let words: u64 = found.iter().map(|block| block[0].as_u64().unwrap()).sum();
        assert!((3740..=3880).contains(&words), "{words}");
        // Without passages there is nothing to keep in view: all of it is.
        assert!(blocks(&far, &[]).iter().all(|block| block[0] == json!(0)));
    }

    #[test]
    fn blocks_are_small() {
        for text in [
            "x".repeat(100_000),
            "é".repeat(50_000),
            "a sentence. ".repeat(9000),
            "a line\n".repeat(12_000),
        ] {
            let found = blocks(&text, &[mark(0, text.len(), 7)]);
            let longest = found
                .iter()
                .flat_map(|block| &block[1..])
                .map(|segment| segment[1].as_str().unwrap().len())
                .max();
            assert!(longest.unwrap() <= BLOCK_BYTES + BLOCK_SLACK_BYTES);
            assert_eq!(text_of(&found, |passages| passages == [json!(7)]), text);
        }
    }

    proptest! {
        #[test]
        fn no_character_is_lost(
            text in "([a-zé ]|\n|\\. ){0,3000}", places in prop::collection::vec((0_usize..4000, 0_usize..900), 0..9),
        ) {
            let marks: Vec<_> = places.iter().enumerate().map(|(at, &(start, length))| mark(start, start + length, at.to_u32())).collect();
            let found = blocks(&text, &marks);
            prop_assert_eq!(text_of(&found, |_| true), text.clone());
            for (at, mark) in marks.iter().enumerate() {
                let (start, end) = (boundary(&text, mark.bytes.start.to_usize()), boundary(&text, mark.bytes.end.to_usize()));
                prop_assert_eq!(text_of(&found, |passages| passages.contains(&json!(at))), &text[start..end]);
            }
        }
    }
}
