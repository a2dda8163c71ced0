//! Passages as a person reads them on a terminal: the lines of the document with a line of context, as `grep -C` would.

use super::passage::told_tally;
use crate::{
    format::Span,
    passage::{Kind, Passage, Tally},
};
use std::io::Write;

/// Lines of context on either side.
const CONTEXT_LINES: usize = 1;
/// A passage of more lines is folded in the middle, and so many are left at its start and at its end.
const MOST_LINES: usize = 8;
const KEPT_LINES: [usize; 2] = [4, 2];
/// Of a line, so many characters are shown around what matters.
const LINE_CHARS: usize = 160;

/// A document and one that shares text with it.
pub struct Excerpts<'a> {
    pub ids: [&'a str; 2],
    pub texts: [&'a str; 2],
    /// The share of the words of either that are in passages.
    pub shares: [f64; 2],
    pub passages: &'a [Passage],
    /// What the words of either are counted as.
    pub tallies: [Tally; 2],
    pub with_color: bool,
}

impl Excerpts<'_> {
    /// Appends a heading, and each passage with the lines of the first document that it is in.
    pub fn put(&self, out: &mut Vec<u8>) {
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        let [a, b] = self.ids.map(visible);
        let heading = format!("{a} and {b}: {} of the first, {} of the second", percent(self.shares[0]), percent(self.shares[1]));
        // Writing to a vector cannot fail.
        let _ = writeln!(out, "{}", self.styled("1", &heading));
        for told in [(&a, &self.tallies[0]), (&b, &self.tallies[1])].into_iter().filter_map(|(id, tally)| told_tally(id, tally)) {
            let _ = writeln!(out, "  {}", self.styled("2", &told));
        }
        let starts = self.texts.map(line_starts);
        for passage in self.passages {
            let lines = [(passage.a, &starts[0], &a), (passage.b, &starts[1], &b)].map(|(span, starts, id)| {
                let (first, last) = lines_of(starts, span);
                let to = if last > first { format!("-{}", last + 1) } else { String::new() };
                format!("{id}:{}{to}", first + 1)
            });
            let Passage { tokens, kind, .. } = passage;
            let _ = writeln!(out, "  {}, {tokens} words: {} from {}", self.styled(color_of(*kind), kind.name()), lines[0], lines[1]);
            self.put_lines(out, passage, &starts[0]);
        }
    }

    fn put_lines(&self, out: &mut Vec<u8>, passage: &Passage, starts: &[usize]) {
        let (first, last) = lines_of(starts, passage.a);
        let end = (last + CONTEXT_LINES + 1).min(starts.len());
        let folded = if last - first >= MOST_LINES { first + KEPT_LINES[0]..last + 1 - KEPT_LINES[1] } else { 0..0 };
        for line in first.saturating_sub(CONTEXT_LINES)..end {
            if folded.contains(&line) {
                if line == folded.start {
                    let _ = writeln!(out, "{:>8}  {}", "⋮", self.styled("2", &format!("{} more lines", folded.len())));
                }
                continue;
            }
            let text = self.line(line, starts, passage);
            if !text.trim().is_empty() {
                let _ = writeln!(out, "{:>8}  {text}", line + 1);
            }
        }
    }

    /// A line, with the part that is in the passage made to stand out.
    fn line(&self, line: usize, starts: &[usize], passage: &Passage) -> String {
        let end = starts.get(line + 1).map_or(self.texts[0].len(), |&next| next);
        let (start, span) = (starts[line], passage.a);
        let inside = (span.start as usize).clamp(start, end)..(span.end as usize).clamp(start, end);
        let text = |from: usize, to: usize| visible(self.texts[0].get(from..to).unwrap_or_default().trim_end_matches(['\n', '\r']));
        let (before, within, after) = (text(start, inside.start), text(inside.start, inside.end), text(inside.end, end));
        let left = LINE_CHARS.saturating_sub(within.chars().count()) / 2;
        let (before, after) = (last_chars(&before, left), first_chars(&after, left));
        let within = first_chars(&within, LINE_CHARS);
        format!("{}{}{}", self.styled("2", &before), self.styled(color_of(passage.kind), &within), self.styled("2", &after))
    }

    fn styled(&self, style: &str, text: &str) -> String {
        if self.with_color && !text.is_empty() { format!("\x1b[{style}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn color_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Verbatim => "1;31",
        Kind::Edited => "1;33",
        Kind::Reworded => "1;36",
        Kind::Summary => "1;35",
    }
}

/// Where each line starts.
fn line_starts(text: &str) -> Vec<usize> {
    let mut starts = vec![0];
    starts.extend(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1).filter(|&start| start < text.len()));
    starts
}

/// The first and the last line of a span.
fn lines_of(starts: &[usize], span: Span) -> (usize, usize) {
    let line = |at: u32| starts.partition_point(|&start| start <= at as usize).saturating_sub(1);
    (line(span.start), line(span.end.saturating_sub(1).max(span.start)))
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
    if skipped > 0 { format!("…{last}") } else { last }
}

/// What a terminal would obey is not passed on to it.
fn visible(text: &str) -> String {
    let shown = |c: char| match c {
        '\t' => ' ',
        c if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}') => '\u{fffd}',
        c => c,
    };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, a: (usize, usize), with_color: bool) -> String {
        let span = |(start, end): (usize, usize)| Span { start: start as u32, end: end as u32 };
        let passage = Passage { a: span(a), b: span((0, 3)), tokens: 7, score: 1.0, kind: Kind::Verbatim };
        let excerpts = Excerpts {
            ids: ["a", "b\x1b"],
            texts: [text, "abc"],
            shares: [0.5, 1.0],
            passages: &[passage],
            tallies: [Tally { words: 14, left_out: [0, 4, 0], matched: 5 }, Tally::default()],
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
        assert!(shown(text, (14, 18), true).contains("\x1b[2mthree \x1b[0m\x1b[1;31mfour\x1b[0m\n"));
    }

    #[test]
    fn long_passages_are_folded_and_nothing_is_obeyed() {
        let text: String = (0..30).map(|n| format!("line {n}\x1b[31m\n")).collect();
        let folded = shown(&text, (0, text.len()), false);
        assert!(folded.contains("24 more lines") && folded.lines().count() == 10 && !folded.contains('\x1b'), "{folded}");
        let wide = shown(&"wide ".repeat(400), (1000, 1100), false);
        assert!(wide.lines().all(|line| line.chars().count() < 200) && wide.contains("…"), "{wide}");
        assert!(!shown("", (0, 0), true).is_empty());
    }
}
