//! Finds the longest runs of equal words.

use super::prepared_text::PreparedText;
use crate::base::num::{ToU32, ToUsize};
use std::ops::Range;

/// `length` equal words, from word `a` of one document and word `b` of the other on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WordRun {
    pub a: u32,
    pub b: u32,
    pub length: u32,
}

/// The most places of a window to try: texts that repeat themselves have very many.
const MAX_PLACES: usize = 16;
/// The most words to extend a run backwards: more only help in texts that repeat themselves.
const MAX_BACK: usize = 1 << 10;

/// For every window of `a` that is in `b`, the longest run that covers it.
///
/// Of a window with more than [`MAX_PLACES`] places in `b`, tries the first places and those that
/// the rarest of the next windows points to. A window that a run covers is not looked up again, so
/// this takes O((k · MAX_PLACES + MAX_BACK) · words) at worst, and O(words) for most texts.
pub(super) fn runs(a: &PreparedText, b: &PreparedText, k: u32) -> Vec<WordRun> {
    let places = places(a, b);
    let mut runs: Vec<WordRun> = Vec::new();
    let mut at = 0;
    while at < places.len() {
        if places[at].is_empty() {
            at += 1;
            continue;
        }
        let expected = runs
            .last()
            .map_or(0, |run| i64::from(run.b) + at as i64 - i64::from(run.a));
        let candidates = candidates(&places, b, at, k.to_usize());
        let measured = candidates.map(|bt| (ahead(a, b, at, bt), bt));
        let best = measured
            .max_by_key(|&(length, bt)| (length, -(bt as i64 - expected).abs(), -(bt as i64)));
        let Some((length, bt)) = best.filter(|&(length, _)| at + length >= a.window_end(at)) else {
            at += 1;
            continue;
        };
        // Back to the start of the previous run: anything that reaches farther would have been
        // found from there.
        let floor = runs.last().map_or(0, |run| run.a.to_usize());
        let back = (1..=(at - floor).min(bt).min(MAX_BACK))
            .take_while(|&step| is_same(a, b, at - step, bt - step))
            .count();
        runs.push(WordRun {
            a: (at - back).to_u32(),
            b: (bt - back).to_u32(),
            length: (length + back).to_u32(),
        });
        let end = at + length;
        at += 1;
        while at < places.len() && a.window_end(at) <= end {
            at += 1;
        }
    }
    runs
}

/// The places in `b` where the window at `at` may be.
fn candidates<'p>(
    places: &'p [Range<u32>],
    b: &'p PreparedText,
    at: usize,
    k: usize,
) -> impl Iterator<Item = usize> + 'p {
    let own = &places[at];
    let near = (at..(at + k).min(places.len())).filter(|&near| !places[near].is_empty());
    let rarest = near.min_by_key(|&near| places[near].len()).unwrap_or(at);
    let shift = rarest - at;
    let of = move |range: &Range<u32>| {
        b.grams[range.start.to_usize()..range.end.to_usize()]
            .iter()
            .take(MAX_PLACES)
    };
    let others =
        of(&places[rarest]).filter_map(move |&(_, place)| (place.to_usize()).checked_sub(shift));
    of(own)
        .map(|&(_, place)| place.to_usize())
        .chain(others.filter(move |_| shift > 0))
}

/// The number of equal words from here on.
fn ahead(a: &PreparedText, b: &PreparedText, at: usize, bt: usize) -> usize {
    let words = a.words[at..].iter().zip(&b.words[bt..]);
    words
        .enumerate()
        .take_while(|&(step, (one, two))| one == two && counts(a, b, at + step, bt + step))
        .count()
}

fn is_same(a: &PreparedText, b: &PreparedText, at: usize, bt: usize) -> bool {
    a.words[at] == b.words[bt] && counts(a, b, at, bt)
}

/// Whether neither word is excluded: an excluded word equals no other.
fn counts(a: &PreparedText, b: &PreparedText, at: usize, bt: usize) -> bool {
    a.counts(at.to_u32()) && b.counts(bt.to_u32())
}

/// For each window of `a`: the range of equal windows in `b.grams`.
fn places(a: &PreparedText, b: &PreparedText) -> Vec<Range<u32>> {
    let windows = a
        .grams
        .iter()
        .map(|&(_, at)| at.to_usize() + 1)
        .max()
        .unwrap_or(0);
    let mut places = vec![0..0; windows];
    let mut start = 0;
    for same in a.grams.chunk_by(|one, two| one.0 == two.0) {
        let gram = same[0].0;
        while start < b.grams.len() && b.grams[start].0 < gram {
            start += 1;
        }
        let count = b.grams[start..]
            .iter()
            .take_while(|other| other.0 == gram)
            .count();
        for &(_, at) in same {
            places[at.to_usize()] = start.to_u32()..(start + count).to_u32();
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::align::AlignOptions;

    fn found(a: &str, b: &str) -> Vec<(u32, u32, u32)> {
        let options = AlignOptions {
            window_tokens: 3,
            ..AlignOptions::default()
        };
        let (a, b) = (
            PreparedText::new(a, &options),
            PreparedText::new(b, &options),
        );
        runs(&a, &b, 3)
            .iter()
            .map(|run| (run.a, run.b, run.length))
            .collect()
    }

    #[test]
    fn runs_are_as_long_as_they_go() {
        assert_eq!(found("x a b c d y", "a b c d z"), [(1, 0, 4)]);
        assert_eq!(found("a b c", "a b c"), [(0, 0, 3)]);
        assert_eq!(found("a b", "a b"), []);
        assert_eq!(found("", "a b c"), []);
        // The longer of two runs, then one that goes beyond it, back to its start.
        assert_eq!(
            found("a b c d e f", "a b c d x b c d e f"),
            [(0, 0, 4), (1, 5, 5)]
        );
    }

    #[test]
    fn the_nearest_of_equals() {
        assert_eq!(
            found("a b c x a b c", "a b c y a b c"),
            [(0, 0, 3), (4, 4, 3)]
        );
    }

    #[test]
    fn the_right_place_of_a_frequent_window() {
        // A hundred places of "a b c", one of them with the right continuation.
        let b = format!(
            "{} a b c d e f {}",
            "a b c z ".repeat(60),
            "a b c z ".repeat(40)
        );
        assert_eq!(found("a b c d e f", &b), [(0, 240, 6)]);
    }
}
