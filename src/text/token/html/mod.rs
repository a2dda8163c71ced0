//! Extracts the text that a reader sees from HTML, and maps it back to the bytes it came from.
//!
//! ```text
//! <p>one&nbsp;<b>t</b>wo<br>3 &lt; 4      becomes      ⏎one two⏎3 < 4
//! ```
//!
//! Tags that can occur inside a word (`scanner::INLINE`) vanish, any other tag becomes a line feed: `foo<b>bar</b>` is
//! one word, `foo<td>bar` is two. The scanner is not a parser: it finds where tags, comments and entities start and end,
//! and does not know which element may contain which. Everything else is text.
//!
//! Linear in time: the scanner does not repeat a search that failed, see `MarkupScanner`.

mod scanner;

use std::ops::Range;

use scanner::{Markup, MarkupScanner};

use crate::{base::codec::clear_buffer, text::stream::Span};

/// The text of a page, in buffers that are reused for the next document. Memory: the text, and at most 32 bytes for each
/// tag or entity.
#[derive(Debug, Default, Clone)]
pub struct Stripped {
    /// The text without markup.
    pub text: String,
    /// The parts of `text`, in order and without gaps.
    parts: Vec<StrippedPart>,
}

/// A part of the stripped text, and the bytes `start..end` of the original that it came from.
#[derive(Debug, Clone, Copy)]
struct StrippedPart {
    /// Where it starts in the stripped text.
    at: u32,
    start: u32,
    end: u32,
    /// Copied byte for byte; otherwise a decoded entity or the line feed of a tag, which cannot be divided.
    verbatim: bool,
}

impl Stripped {
    /// Replaces the text with that of `html`.
    pub fn strip(&mut self, html: &str) {
        let mut text = std::mem::take(&mut self.text).into_bytes();
        clear_buffer(&mut text);
        self.text = String::from_utf8(text).unwrap_or_default();
        clear_buffer(&mut self.parts);
        let mut done = 0;
        for (markup, range) in MarkupScanner::new(html) {
            self.copy(html, done..range.start);
            done = range.end;
            match markup {
                Markup::Nothing => {}
                Markup::LineFeed => self.put("\n", range),
                Markup::Entity(decoded) => self.put(&decoded, range),
            }
        }
        self.copy(html, done..html.len());
    }

    /// The bytes of the original that the bytes `span` of the text came from.
    ///
    /// `x<b>&lt;y</b>` becomes `x<y`; its `<y`, bytes 1 to 3, are bytes 4 to 9 of the original: from the `&` up to and
    /// including the `y`. A span across tags starts with the first byte of its first part and ends with the last byte of
    /// its last part.
    pub fn original(&self, span: Span) -> Span {
        let first = self.parts[..self.parts.partition_point(|part| part.at <= span.start)].last();
        let last = self.parts[..self.parts.partition_point(|part| part.at < span.end)].last();
        let start = first.map_or(0, |part| {
            if part.verbatim {
                part.inside(span.start)
            } else {
                part.start
            }
        });
        let end = last.map_or(0, |part| {
            if part.verbatim {
                part.inside(span.end)
            } else {
                part.end
            }
        });
        // An empty span between two parts would end before it starts.
        Span {
            start,
            end: end.max(start),
        }
    }

    fn copy(&mut self, html: &str, range: Range<usize>) {
        if !range.is_empty() {
            self.parts
                .push(StrippedPart::new(self.text.len(), &range, true));
            self.text.push_str(&html[range]);
        }
    }

    fn put(&mut self, text: &str, range: Range<usize>) {
        self.parts
            .push(StrippedPart::new(self.text.len(), &range, false));
        self.text.push_str(text);
    }
}

impl StrippedPart {
    /// Offsets end at 4 GiB, and so do spans.
    fn new(at: usize, range: &Range<usize>, verbatim: bool) -> Self {
        let offset = |at| u32::try_from(at).unwrap_or(u32::MAX);
        Self {
            at: offset(at),
            start: offset(range.start),
            end: offset(range.end),
            verbatim,
        }
    }

    /// The byte of the original for the byte `at` of the stripped text, in a part that is copied.
    fn inside(&self, at: u32) -> u32 {
        self.start.saturating_add(at - self.at).min(self.end)
    }
}

#[cfg(test)]
mod tests;
