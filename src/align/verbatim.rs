//! Finds copied text: word for word, or with a few words changed.

use super::{
    AlignOptions,
    prepared_text::PreparedText,
    runs::{WordRun, runs},
    word_range::WordRange,
    word_weight::{CHAR_WEIGHT, WORD_WEIGHT, unspaced_weight},
};
use crate::base::num::{ToU32, ToUsize};
use crate::text::{
    stream::Span,
    token::{CharClass, class_of},
};
use std::cmp::Reverse;

/// A chain of equal runs of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CopiedPart {
    /// The words of `a`, from the first to the last equal one.
    pub a: WordRange,
    /// The same of `b`.
    pub b: WordRange,
    /// The number of equal words.
    pub words: u32,
    /// The weight of these words.
    weight: u64,
    /// The heaviest of the runs.
    heaviest: WordRun,
}

impl CopiedPart {
    /// Whether both sides are equal word for word.
    pub fn is_exact(&self) -> bool {
        self.words == self.a.len() && self.words == self.b.len()
    }

    /// Whether the other one makes this one redundant: see [`without_echoes`].
    fn is_echo_of(&self, other: &Self) -> bool {
        let (in_a, in_b) = (self.a.is_mostly_in(other.a), self.b.is_mostly_in(other.b));
        let is_much_longer = 4 * u64::from(other.words) > 5 * u64::from(self.words);
        in_a && (in_b || is_much_longer)
    }

    fn of(run: WordRun, a: &PreparedText) -> Self {
        let words = |start| WordRange {
            start,
            end: start + run.length,
        };
        Self {
            a: words(run.a),
            b: words(run.b),
            words: run.length,
            weight: run_weight(a, run),
            heaviest: run,
        }
    }

    /// Appends a run that follows within `gap` words on both sides; returns whether it did.
    fn append(
        &mut self,
        mut run: WordRun,
        gap: u32,
        (a, b): (&PreparedText, &PreparedText),
    ) -> bool {
        // In "a b c c d" and "a b c d" both "a b c" and "c d" are runs: the second c counts once.
        let overlap = self
            .a
            .end
            .saturating_sub(run.a)
            .max(self.b.end.saturating_sub(run.b));
        if overlap >= run.length || overlap > gap || run.a < self.a.start || run.b < self.b.start {
            return false;
        }
        run = WordRun {
            a: run.a + overlap,
            b: run.b + overlap,
            length: run.length - overlap,
        };
        let widest = WORD_WEIGHT * u64::from(gap);
        let follows =
            a.weights.of(self.a.end..run.a) <= widest && b.weights.of(self.b.end..run.b) <= widest;
        if follows {
            (self.a.end, self.b.end) = (run.a + run.length, run.b + run.length);
            self.words += run.length;
            self.weight += run_weight(a, run);
            if run_weight(a, run) > run_weight(a, self.heaviest) {
                self.heaviest = run;
            }
        }
        follows
    }
}

/// The number of earlier chains to extend: only texts that repeat themselves start more within a
/// few words.
const OPEN_CHAINS: usize = 16;

/// The copied parts, sorted by `a`, then `b`: runs of at least `k` words, chained over small gaps.
/// For words, `k` is also the longest gap, and `2·k` equal words are needed; for other tokens see
/// [`AlignOptions::gap_tokens`] and [`AlignOptions::least_tokens`].
///
/// Runs are searched from both sides, so that all copies are found of text that one document has
/// once and the other several times.
pub(super) fn copies(
    a: &PreparedText,
    b: &PreparedText,
    options: &AlignOptions,
) -> Vec<CopiedPart> {
    let (k, gap) = (options.window_tokens, options.gap_tokens());
    let mut found = runs(a, b, k);
    found.extend(runs(b, a, k).into_iter().map(|run| WordRun {
        a: run.b,
        b: run.a,
        length: run.length,
    }));
    found.sort_unstable();
    found.dedup();
    let mut copies: Vec<CopiedPart> = Vec::new();
    for run in found {
        // Fewer words than a window has, but heavy ones: such a run counts alone or not at all.
        let is_short = |words| words < k;
        let mut open = copies.iter_mut().rev().take(OPEN_CHAINS);
        let appended = !is_short(run.length)
            && open.any(|copy| !is_short(copy.words) && copy.append(run, gap, (a, b)));
        if !appended {
            copies.push(CopiedPart::of(run, a));
        }
    }
    copies.retain(|copy| is_copy(a, b, copy, options));
    without_echoes(copies, (a.words.len(), b.words.len()))
}

fn run_weight(a: &PreparedText, run: WordRun) -> u64 {
    a.weights.of(run.a..run.a + run.length)
}

/// Whether a chain is long enough. In a script without spaces a copy of a few long words may be, but only as a single
/// run that is equal to the character: legal and other texts repeat their formulas, with other words between them. A
/// chain needs a quarter more words there than elsewhere.
fn is_copy(a: &PreparedText, b: &PreparedText, copy: &CopiedPart, options: &AlignOptions) -> bool {
    let least = WORD_WEIGHT * u64::from(options.least_tokens());
    let has_unspaced = copy.weight != WORD_WEIGHT * u64::from(copy.words);
    let many = options.least_tokens() + options.least_tokens() / 4;
    (copy.weight >= least && (!has_unspaced || copy.words >= many))
        || (has_unspaced && exact_weight(a, b, copy.heaviest).is_some_and(|weight| weight >= least))
}

/// The most characters that count between two words: a full stop and a space, not a line of dots.
const MAX_GAP_CHARS: usize = 2;

/// The weight of a run that is equal to the character, with the spaces and punctuation between its words, and with
/// equal characters of cut words around it.
fn exact_weight(a: &PreparedText, b: &PreparedText, run: WordRun) -> Option<u64> {
    let run = CopiedPart::of(run, a);
    let (one, two) = (a.bytes_of(run.a), b.bytes_of(run.b));
    if a.text()[one.range()] != b.text()[two.range()] {
        return None;
    }
    let words = &a.spans[run.a.range()];
    let between = |pair: &[Span]| {
        let gap = pair[0].end.to_usize()..pair[1].start.to_usize();
        a.text()
            .get(gap)
            .map_or(0, |gap| gap.chars().take(MAX_GAP_CHARS).count())
    };
    let separators: usize = words.windows(2).map(between).sum();
    Some(run.weight + CHAR_WEIGHT * separators as u64 + cut_words(a, b, &run).weight())
}

/// The most further places of `b` to report for one span of `a`.
const MAX_OTHERS: usize = 64;

/// Drops echoes: parts that lie mostly within another one on both sides, or within a much longer
/// one in `a`, such as a phrase of a long copy that `b` also has elsewhere. Text that `a` has in
/// several places is reported for each of them.
fn without_echoes(mut copies: Vec<CopiedPart>, words: (usize, usize)) -> Vec<CopiedPart> {
    copies.sort_by_key(|copy| (Reverse(copy.words), copy.a.start, copy.b.start));
    // The kept parts, and for each the number of others with the same words of `a`.
    let (mut kept, mut others): (Vec<CopiedPart>, Vec<usize>) = Default::default();
    // For each word: the longest part that has it. A part that lies mostly in another has its
    // middle there.
    let (mut owners_a, mut owners_b) = (vec![None; words.0], vec![None; words.1]);
    for copy in copies {
        let owners = [owners_a[copy.a.middle()], owners_b[copy.b.middle()]];
        if owners
            .into_iter()
            .flatten()
            .any(|at: usize| copy.is_echo_of(&kept[at]))
        {
            continue;
        }
        if let Some(owner) = owners[0] {
            others[owner] += 1;
            if others[owner] > MAX_OTHERS {
                continue;
            }
        }
        for (owners, words) in [(&mut owners_a, copy.a), (&mut owners_b, copy.b)] {
            let free = owners[words.range()]
                .iter_mut()
                .filter(|owner| owner.is_none());
            free.for_each(|owner| *owner = Some(kept.len()));
        }
        kept.push(copy);
        others.push(0);
    }
    kept.sort_unstable_by_key(|copy| (copy.a.start, copy.b.start));
    kept
}

/// The spans of a copied part in the texts, with the punctuation around it that both have: what
/// touches its first and last word, and the rest of their lines if no other word is there. The full
/// stop of the previous sentence is not part of it; a bullet is.
pub(super) fn bytes(a: &PreparedText, b: &PreparedText, copy: &CopiedPart) -> (Span, Span) {
    let (one, two) = (a.bytes_of(copy.a), b.bytes_of(copy.b));
    let after = common_punctuation(after(a, copy.a), after(b, copy.b), str::trim_end, |gap| {
        gap.chars().collect()
    });
    let before = common_punctuation(
        before(a, copy.a),
        before(b, copy.b),
        str::trim_start,
        |gap| gap.chars().rev().collect(),
    );
    let cut = cut_words(a, b, copy);
    let (before, after) = (before.max(cut.before.bytes), after.max(cut.after.bytes));
    (
        Span {
            start: one.start - before,
            end: one.end + after,
        },
        Span {
            start: two.start - before,
            end: two.end + after,
        },
    )
}

/// Text at both ends of a copied part that both documents have, but cut into other words: in a script without
/// spaces, the words at the ends of a copy depend on the text around it.
#[derive(Default)]
struct CutWords {
    before: CommonText,
    after: CommonText,
}

impl CutWords {
    fn weight(&self) -> u64 {
        unspaced_weight(self.before.letters) + unspaced_weight(self.after.letters)
    }
}

#[derive(Default)]
struct CommonText {
    bytes: u32,
    /// The number of letters of scripts without spaces, and their marks.
    letters: usize,
}

/// The most characters of [`CommonText`]: more than a few words are equal only in texts that repeat themselves.
const MAX_CUT_CHARS: usize = 64;

fn cut_words(a: &PreparedText, b: &PreparedText, copy: &CopiedPart) -> CutWords {
    if a.weights.are_equal() || b.weights.are_equal() {
        return CutWords::default();
    }
    let (one, two) = (a.bytes_of(copy.a), b.bytes_of(copy.b));
    CutWords {
        before: common_unspaced(
            a.text()[..one.start.to_usize()].chars().rev(),
            b.text()[..two.start.to_usize()].chars().rev(),
        ),
        after: common_unspaced(
            a.text()[one.end.to_usize()..].chars(),
            b.text()[two.end.to_usize()..].chars(),
        ),
    }
}

/// The equal characters of two texts, up to the last letter of a script without spaces, and as long as no other
/// letter comes.
fn common_unspaced(one: impl Iterator<Item = char>, two: impl Iterator<Item = char>) -> CommonText {
    let mut common = CommonText::default();
    let (mut bytes, mut letters) = (0, 0);
    for (c, _) in one.zip(two).take(MAX_CUT_CHARS).take_while(|(c, d)| c == d) {
        bytes += c.len_utf8().to_u32();
        match class_of(c) {
            CharClass::Letter | CharClass::Digit => break,
            CharClass::Solo | CharClass::Mark => {
                letters += 1;
                common = CommonText { bytes, letters };
            }
            CharClass::Separator | CharClass::Apostrophe | CharClass::Ignorable => {}
        }
    }
    common
}

/// The text between some words and the next one; and the part of it on the line of the last word,
/// if no word follows on that line.
fn after(document: &PreparedText, words: WordRange) -> (&str, Option<&str>) {
    let start = document.spans[words.end.to_usize() - 1].end;
    let next = document.spans.get(words.end.to_usize());
    let end = next.map_or(document.text().len().to_u32(), |next| next.start.max(start));
    let gap = &document.text()[start.to_usize()..end.to_usize()];
    (
        gap,
        gap.split_once('\n')
            .map(|(line, _)| line)
            .or(next.is_none().then_some(gap)),
    )
}

/// The text between some words and the one before; and the part of it on the line of the first
/// word, if no word precedes it on that line.
fn before(document: &PreparedText, words: WordRange) -> (&str, Option<&str>) {
    let end = document.spans[words.start.to_usize()].start;
    let last = (words.start.to_usize())
        .checked_sub(1)
        .map(|last| document.spans[last]);
    let start = last.map_or(0, |last| last.end.min(end));
    let gap = &document.text()[start.to_usize()..end.to_usize()];
    (
        gap,
        gap.rsplit_once('\n')
            .map(|(_, line)| line)
            .or(last.is_none().then_some(gap)),
    )
}

type TextGap<'t> = (&'t str, Option<&'t str>);

/// The number of bytes of punctuation that two gaps have in common. `outwards`: the characters of a
/// gap, starting next to the copied part.
fn common_punctuation(
    one: TextGap<'_>,
    two: TextGap<'_>,
    trim: fn(&str) -> &str,
    outwards: fn(&str) -> Vec<char>,
) -> u32 {
    if let (Some(one), Some(two)) = (one.1.map(trim), two.1.map(trim))
        && one == two
    {
        return one.len().to_u32();
    }
    let pairs = outwards(one.0).into_iter().zip(outwards(two.0));
    pairs
        .take_while(|(one, two)| one == two && !one.is_whitespace())
        .map(|(c, _)| c.len_utf8().to_u32())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(a: &str, b: &str) -> Vec<(String, String, u32)> {
        let options = AlignOptions {
            window_tokens: 3,
            ..AlignOptions::default()
        };
        let (a, b) = (
            PreparedText::new(a, &options),
            PreparedText::new(b, &options),
        );
        let text = |document: &PreparedText, span: Span| document.text()[span.range()].to_owned();
        let shown = |copy: &CopiedPart| {
            let (one, two) = bytes(&a, &b, copy);
            (text(&a, one), text(&b, two), copy.words)
        };
        copies(&a, &b, &options).iter().map(shown).collect()
    }

    #[track_caller]
    fn check(a: &str, b: &str, expected: &[(&str, &str, u32)]) {
        let expected: Vec<_> = expected
            .iter()
            .map(|&(a, b, words)| (a.to_owned(), b.to_owned(), words))
            .collect();
        assert_eq!(found(a, b), expected);
    }

    #[test]
    fn runs_are_chained_over_small_gaps() {
        check(
            "a b c d e f",
            "a b c d e f",
            &[("a b c d e f", "a b c d e f", 6)],
        );
        check(
            "a b c X d e f",
            "a b c Y Z d e f",
            &[("a b c X d e f", "a b c Y Z d e f", 6)],
        );
        check(
            "a b c d d e f g",
            "a b c d e f g",
            &[("a b c d d e f g", "a b c d e f g", 7)],
        );
        check("a b c 1 2 3 4 d e f", "a b c d e f", &[]);
        check("a b c d e", "a b c d e", &[]);
    }

    #[test]
    fn punctuation_that_both_have() {
        check(
            "x (a b c d e f). y",
            "z. (a b c d e f). Z",
            &[("(a b c d e f).", "(a b c d e f).", 6)],
        );
        check(
            "x. A b c d e f. y",
            "z. A b c d e f! Z",
            &[("A b c d e f", "A b c d e f", 6)],
        );
        check(
            "x.\n - a b c d e f ;-)\ny",
            " - a b c d e f ;-)",
            &[("- a b c d e f ;-)", "- a b c d e f ;-)", 6)],
        );
        check(
            "x.\n - a b c d e f",
            "* a b c d e f",
            &[("a b c d e f", "a b c d e f", 6)],
        );
    }

    #[test]
    fn echoes_are_left_out() {
        let long = "a b c d e f g h i j";
        check(long, &format!("{long} x d e f g h i"), &[(long, long, 10)]);
        check(
            &format!("{long} x d e f g h i"),
            long,
            &[(long, long, 10), ("d e f g h i", "d e f g h i", 6)],
        );
        check(
            &format!("{long} x {long}"),
            long,
            &[(long, long, 10), (long, long, 10)],
        );
        check(
            long,
            &format!("{long} x {long}"),
            &[(long, long, 10), (long, long, 10)],
        );
    }
}
