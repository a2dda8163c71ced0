//! Passages as a person reads them on a terminal: the lines of the document with a line of context, as `grep -C` would.

use super::tally::describe_tally;
use crate::base::num::ToUsize;
use crate::{
    align::{Passage, PassageCoverage, PassageKind, PreparedText},
    base::codec::is_unsafe,
    text::stream::Span,
};
use std::io::Write;

/// Lines of context on either side.
const CONTEXT_LINES: usize = 1;
/// A passage of more lines is folded in the middle.
const MOST_LINES: usize = 8;
/// The lines that a folded passage keeps at its start and at its end.
const KEPT_LINES: [usize; 2] = [4, 2];
/// The number of characters of a line that are shown around the passage.
const LINE_CHARS: usize = 160;

/// A document and one that shares text with it.
pub struct Excerpts<'a> {
    /// The ids of both.
    pub ids: [&'a str; 2],
    /// The texts of both.
    pub documents: [&'a PreparedText; 2],
    /// The share of the words of either that are in passages.
    pub shares: [f64; 2],
    /// With spans in the texts of the documents.
    pub passages: &'a [Passage],
    /// How the words of each are counted.
    pub tallies: [PassageCoverage; 2],
    /// With escape sequences for colours.
    pub with_color: bool,
}

impl Excerpts<'_> {
    /// Appends a heading, and each passage with the lines of the first document that it is in.
    pub fn put(&self, out: &mut Vec<u8>) {
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        let [a, b] = self.ids.map(visible);
        let heading = format!(
            "{a} and {b}: {} of the first, {} of the second",
            percent(self.shares[0]),
            percent(self.shares[1])
        );
        // Writing to a vector cannot fail.
        let _ = writeln!(out, "{}", self.styled("1", &heading));
        for line in [(&a, &self.tallies[0]), (&b, &self.tallies[1])]
            .into_iter()
            .filter_map(|(id, tally)| describe_tally(id, tally))
        {
            let _ = writeln!(out, "  {}", self.styled("2", &line));
        }
        let sides = self.documents.map(Lines::of);
        for passage in self.passages {
            let lines =
                [(passage.a, &sides[0], &a), (passage.b, &sides[1], &b)].map(|(span, side, id)| {
                    let (first, last) =
                        lines_of(&side.in_document, side.document.plain().in_document(span));
                    let to = if last > first {
                        format!("-{}", last + 1)
                    } else {
                        String::new()
                    };
                    format!("{id}:{}{to}", first + 1)
                });
            let Passage { tokens, kind, .. } = passage;
            let _ = writeln!(
                out,
                "  {}, {tokens} words: {} from {}",
                self.styled(color_of(*kind), kind.name()),
                lines[0],
                lines[1]
            );
            self.put_lines(out, passage, &sides[0]);
        }
    }

    fn put_lines(&self, out: &mut Vec<u8>, passage: &Passage, lines: &Lines<'_>) {
        let (first, last) = lines_of(&lines.in_text, passage.a);
        let end = (last + CONTEXT_LINES + 1).min(lines.in_text.len());
        let folded = if last - first >= MOST_LINES {
            first + KEPT_LINES[0]..last + 1 - KEPT_LINES[1]
        } else {
            0..0
        };
        for line in first.saturating_sub(CONTEXT_LINES)..end {
            if folded.contains(&line) {
                if line == folded.start {
                    let _ = writeln!(
                        out,
                        "{:>8}  {}",
                        "⋮",
                        self.styled("2", &format!("{} more lines", folded.len()))
                    );
                }
                continue;
            }
            let text = self.line(line, lines, passage);
            if !text.trim().is_empty() {
                let _ = writeln!(out, "{:>8}  {text}", lines.number(line) + 1);
            }
        }
    }

    /// A line, with the part that is in the passage made to stand out.
    fn line(&self, line: usize, lines: &Lines<'_>, passage: &Passage) -> String {
        let (all, starts, span) = (lines.document.text(), &lines.in_text, passage.a);
        let (start, end) = (
            starts[line],
            starts.get(line + 1).map_or(all.len(), |&next| next),
        );
        let inside =
            (span.start.to_usize()).clamp(start, end)..(span.end.to_usize()).clamp(start, end);
        // Two lines of a stripped text are separated by the white space around the markup.
        let is_end = |c: char| {
            matches!(c, '\n' | '\r') || lines.document.plain().is_stripped() && c.is_whitespace()
        };
        let text = |from: usize, to: usize| {
            visible(
                all.get(from..to)
                    .unwrap_or_default()
                    .trim_end_matches(is_end),
            )
        };
        let (before, within, after) = (
            text(start, inside.start),
            text(inside.start, inside.end),
            text(inside.end, end),
        );
        let left = LINE_CHARS.saturating_sub(within.chars().count()) / 2;
        let (before, after) = (last_chars(&before, left), first_chars(&after, left));
        let within = first_chars(&within, LINE_CHARS);
        format!(
            "{}{}{}",
            self.styled("2", &before),
            self.styled(color_of(passage.kind), &within),
            self.styled("2", &after)
        )
    }

    fn styled(&self, style: &str, text: &str) -> String {
        if self.with_color && !text.is_empty() {
            format!("\x1b[{style}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

fn color_of(kind: PassageKind) -> &'static str {
    match kind {
        PassageKind::Verbatim => "1;31",
        PassageKind::Edited => "1;33",
        PassageKind::Reworded => "1;36",
        PassageKind::Summary => "1;35",
    }
}

/// Where the lines of a document start: in its text, and in the document as it was read.
struct Lines<'a> {
    document: &'a PreparedText,
    /// Where markup was stripped, only of lines that are not blank, from their first letter on.
    in_text: Vec<usize>,
    in_document: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(document: &'a PreparedText) -> Self {
        let (text, plain) = (document.text(), document.plain());
        let mut in_text = line_starts(text);
        if plain.is_stripped() {
            let ends = in_text
                .iter()
                .skip(1)
                .copied()
                .chain([text.len()])
                .collect::<Vec<_>>();
            let first_letter = |(start, end): (usize, usize)| {
                text[start..end]
                    .find(|c: char| !c.is_whitespace())
                    .map(|at| start + at)
            };
            in_text = in_text
                .into_iter()
                .zip(ends)
                .filter_map(first_letter)
                .collect();
        }
        if in_text.is_empty() {
            in_text.push(0);
        }
        Self {
            document,
            in_text,
            in_document: line_starts(plain.document()),
        }
    }

    /// The line of the document that a line of its text comes from.
    fn number(&self, line: usize) -> usize {
        let start = self.in_text[line] as u32;
        lines_of(
            &self.in_document,
            self.document.plain().in_document(Span {
                start,
                end: start + 1,
            }),
        )
        .0
    }
}

/// Where each line starts.
fn line_starts(text: &str) -> Vec<usize> {
    let mut starts = vec![0];
    starts.extend(
        memchr::memchr_iter(b'\n', text.as_bytes())
            .map(|at| at + 1)
            .filter(|&start| start < text.len()),
    );
    starts
}

/// The first and the last line of a span.
fn lines_of(starts: &[usize], span: Span) -> (usize, usize) {
    let line = |at: u32| {
        starts
            .partition_point(|&start| start <= at.to_usize())
            .saturating_sub(1)
    };
    (
        line(span.start),
        line(span.end.saturating_sub(1).max(span.start)),
    )
}

fn first_chars(text: &str, count: usize) -> String {
    let mut chars = text.chars();
    let mut first: String = chars.by_ref().take(count).collect();
    if chars.next().is_some() {
        first.push('…');
    }
    first
}

fn last_chars(text: &str, count: usize) -> String {
    let skipped = text.chars().count().saturating_sub(count);
    let last: String = text.chars().skip(skipped).collect();
    if skipped > 0 {
        format!("…{last}")
    } else {
        last
    }
}

/// What a terminal would obey is not passed on to it.
fn visible(text: &str) -> String {
    let shown = |c: char| match c {
        '\t' => ' ',
        c if is_unsafe(c) => '\u{fffd}',
        c => c,
    };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        align::AlignOptions,
        text::token::{Rule, Tokenization},
    };

    fn shown(text: &str, a: (usize, usize), with_color: bool) -> String {
        shown_as(
            PreparedText::new(text, &AlignOptions::default()),
            a,
            with_color,
        )
    }

    fn shown_as(document: PreparedText, a: (usize, usize), with_color: bool) -> String {
        let span = |(start, end): (usize, usize)| Span {
            start: start as u32,
            end: end as u32,
        };
        let source = PreparedText::new("abc", &AlignOptions::default());
        let passage = Passage {
            a: span(a),
            b: span((0, 3)),
            tokens: 7,
            score: 1.0,
            p_value: None,
            kind: PassageKind::Verbatim,
            is_reversed: false,
        };
        let excerpts = Excerpts {
            ids: ["a", "b\x1b"],
            documents: [&document, &source],
            shares: [0.5, 1.0],
            passages: &[passage],
            tallies: [
                PassageCoverage {
                    words: 14,
                    excluded: [0, 4, 0],
                    matched: 5,
                },
                PassageCoverage::default(),
            ],
            with_color,
        };
        let mut out = Vec::new();
        excerpts.put(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_stand_with_their_neighbours() {
        let text = "one\ntwo\nthree four\nfive\nsix\n";
        assert_eq!(
            shown(text, (14, 23), false),
            "a and b\u{fffd}: 50 % of the first, 100 % of the second\n  of 14 words of a 10 count; left out: 4 in the list of references\n  verbatim, 7 words: a:3-4 from b\u{fffd}:1\n       2  two\n       3  three four\n       4  five\n       5  six\n"
        );
        assert!(
            shown(text, (14, 18), true).contains("\x1b[2mthree \x1b[0m\x1b[1;31mfour\x1b[0m\n")
        );
    }

    #[test]
    fn markup_is_not_shown_and_lines_are_those_of_the_document() {
        let options = AlignOptions {
            tokenization: Tokenization {
                rule: Rule::Word,
                strips_html: true,
            },
            ..AlignOptions::default()
        };
        let page = "<html>\n<style>\np {}\n</style>\n<p>one\n  two</p>\n\n<ul>\n<li>three <b>four</b></li>\n</ul>";
        let document = PreparedText::new(page, &options);
        let start = document.text().find("two").unwrap();
        assert_eq!(
            shown_as(document, (start, start + 3), false)
                .lines()
                .skip(2)
                .collect::<Vec<_>>(),
            [
                "  verbatim, 7 words: a:6 from b\u{fffd}:1",
                "       5  one",
                "       6  two",
                "       9  three four"
            ]
        );
    }

    #[test]
    fn long_passages_are_folded_and_nothing_is_obeyed() {
        let text: String = (0..30).map(|n| format!("line {n}\x1b[31m\n")).collect();
        let folded = shown(&text, (0, text.len()), false);
        assert!(
            folded.contains("24 more lines")
                && folded.lines().count() == 10
                && !folded.contains('\x1b'),
            "{folded}"
        );
        let wide = shown(&"wide ".repeat(400), (1000, 1100), false);
        assert!(
            wide.lines().all(|line| line.chars().count() < 200) && wide.contains("…"),
            "{wide}"
        );
        assert!(!shown("", (0, 0), true).is_empty());
    }
}
