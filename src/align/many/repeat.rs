//! Maximal repeats: token sequences that several places share and that cannot be extended.
//!
//! The tokens of all texts are concatenated, each text between two tokens that occur nowhere else.
//! Places that start with the same window form a tree by the tokens that follow; each inner node is
//! a set of places and the number of tokens they have in common. Such a set is a *repeat*. It is
//! maximal if the tokens before its places are not all equal: then it can be extended neither to
//! the left nor to the right.
//!
//! The tree is found by comparing with a pivot. All places are compared with the pivot once, which
//! gives the depth at which they leave it. Those that leave at the same depth with the same token
//! are compared further among themselves, from there on. So every token is compared about once for
//! each place that shares it. For the places `1: a b c d`, `2: a b c e`, `3: a b f g`, `4: a b f h`
//! and pivot 2, the nodes are {1 2} with three tokens, {1 2 3 4} with two, and, after one more
//! comparison, {3 4} with three.
//!
//! A sequence that repeats without a gap (a line of dashes, rows of zeros) would have as many
//! repeats as tokens, so only its first and last repetition are places, which keep the *period*: the
//! number of tokens after which the text repeats. Repeats of last repetitions may start further left,
//! in repetitions that were skipped, and are therefore extended to the left at the end. The places
//! that were skipped follow from the period: [`RepeatPlace::repetitions`].

use super::text_bounds::TextBounds;
use crate::base::num::{ToU32, ToU64, ToUsize};
use std::{cmp::Reverse, ops::Range};

/// The hash of a token, as in a file.
pub type TokenHash = [u8; 8];

/// A set of places that share a sequence of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaximalRepeat {
    /// The length of the sequence.
    pub tokens: u32,
    /// The index of its first place in [`RepeatFinder::places`].
    pub first: usize,
    /// The number of places.
    pub count: usize,
    /// The number of tokens that the repeat starts before its places.
    pub before: u32,
    /// The start of the repeat at its first place.
    pub start: u64,
    /// The number of places in all documents, copies of texts included.
    pub copies: u64,
}

/// The number of bits of a token position.
pub const PLACE_BITS: u32 = 40;
/// Periods are shorter than this.
const PERIODS: u64 = 1 << (u64::BITS - PLACE_BITS);

/// A place of a repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepeatPlace {
    /// Its first token.
    pub at: u64,
    /// If repetitions next to it were skipped, the number of tokens of each; else 0.
    pub period: u64,
}

impl RepeatPlace {
    /// As it is stored.
    pub fn to_bytes(self) -> [u8; 8] {
        (self.period << PLACE_BITS | self.at).to_le_bytes()
    }

    /// A stored place.
    pub fn from_bytes(bytes: [u8; 8]) -> Self {
        let stored = u64::from_le_bytes(bytes);
        Self {
            at: stored & ((1 << PLACE_BITS) - 1),
            period: stored >> PLACE_BITS,
        }
    }

    /// Appends the ranges of `length` tokens that equal those at this place: itself, and those among
    /// the repetitions around it. Ranges that overlap are appended as one.
    pub fn repetitions(self, tokens: &[TokenHash], length: u64, out: &mut Vec<Range<u64>>) {
        let (range, period) = (self.at..self.at + length, self.period.to_usize());
        if period == 0 {
            out.push(range);
            return;
        }
        let at = self.at.to_usize();
        let after = common(&tokens[at..], &tokens[at + period..]).to_u64() + self.period;
        let before = common_suffix(&tokens[..at], &tokens[..at + period]).to_u64();
        // Only what is periodic as a whole is found again one period earlier.
        let earlier = if after >= length {
            before / self.period
        } else {
            0
        };
        let later = after.saturating_sub(length) / self.period;
        let first = range.start - earlier * self.period;
        if length >= self.period {
            out.push(first..range.end + later * self.period);
        } else {
            let starts = (0..=earlier + later).map(|number| first + number * self.period);
            out.extend(starts.map(|start| start..start + length));
        }
    }
}

/// A place where a repeat may start.
#[derive(Debug, Clone, Copy)]
struct ComparedPlace {
    at: u64,
    text: u32,
    /// Repetitions before it were skipped.
    is_last: bool,
    /// If repetitions before or after it were skipped, their length.
    period: u64,
    /// The number of tokens in common with the pivot.
    common: u32,
    /// The first token that differs from the pivot.
    next: TokenHash,
}

/// Finds repeats; reuses its buffers from call to call.
pub struct RepeatFinder<'t> {
    tokens: &'t [TokenHash],
    texts: &'t TextBounds,
    min_tokens: u32,
    places: Vec<ComparedPlace>,
    pending: Vec<(Range<usize>, u32)>,
}

impl<'t> RepeatFinder<'t> {
    /// A finder of repeats of at least `min_tokens` tokens.
    pub fn new(tokens: &'t [TokenHash], texts: &'t TextBounds, min_tokens: u32) -> Self {
        Self {
            tokens,
            texts,
            min_tokens,
            places: Vec::new(),
            pending: Vec::new(),
        }
    }

    /// Replaces `found` by all maximal repeats of two or more texts among these places, which
    /// ascend and are expected, but not required, to start with the same tokens.
    pub fn find(&mut self, starts: &mut [u64], found: &mut Vec<MaximalRepeat>) {
        self.places.clear();
        found.clear();
        let (tokens, min_tokens) = (self.tokens, self.min_tokens.to_usize());
        let window = |at: u64| &tokens[at.to_usize()..at.to_usize() + min_tokens];
        if starts.iter().any(|&at| window(at) != window(starts[0])) {
            starts.sort_unstable_by_key(|&at| (window(at), at));
        }
        let before = |at: u64| tokens[at.to_usize() - 1];
        for same in starts.chunk_by(|&one, &two| window(one) == window(two)) {
            // The repeat that starts one token earlier has as many places.
            if same.iter().all(|&at| before(at) == before(same[0])) {
                continue;
            }
            let first = self.places.len();
            self.add_places(same);
            self.pending
                .push((first..self.places.len(), self.min_tokens));
        }
        while let Some((some, common)) = self.pending.pop() {
            self.compare(some.clone(), common);
            self.step(some, found);
        }
    }

    /// All places; those of each repeat are contiguous.
    pub fn places(&self) -> impl Iterator<Item = RepeatPlace> {
        self.places.iter().map(|place| RepeatPlace {
            at: place.at,
            period: place.period,
        })
    }

    /// Whether a repeat is the one to keep of two that face each other on the two strands: that whose
    /// first place on the first strand of the first text comes earlier.
    pub fn is_first_strand(&self, repeat: &MaximalRepeat) -> bool {
        let places = &self.places[repeat.first..repeat.first + repeat.count];
        let first_text = places.iter().map(|place| place.text).min();
        let (mut own, mut opposite) = (u64::MAX, u64::MAX);
        for place in places.iter().filter(|place| Some(place.text) == first_text) {
            let start = place.at - u64::from(repeat.before);
            let range = start..start + u64::from(repeat.tokens);
            match self.texts.to_first_strand(range) {
                (range, false) => own = own.min(range.start),
                (range, true) => opposite = opposite.min(range.start),
            }
        }
        own <= opposite
    }

    /// Adds places that start alike; of text that repeats itself only the first and the last.
    fn add_places(&mut self, same: &[u64]) {
        // The distance of the last two places, if one repeats the other.
        let mut period = None;
        for &at in same {
            let text = self.texts.of(at);
            let last = self
                .places
                .last()
                .map(|last| (last.at, last.text))
                .filter(|&(last, of)| last < at && of == text);
            let now = last
                .map(|(last, _)| at - last)
                .filter(|&period| period < PERIODS && self.is_repeated(at - period, at));
            let is_skipped = now.is_some() && now == period;
            if is_skipped {
                self.places.pop();
                if let Some(first) = self.places.last_mut() {
                    first.period = now.unwrap_or_default();
                }
            }
            self.places.push(ComparedPlace {
                at,
                text,
                is_last: now.is_some(),
                period: now.filter(|_| is_skipped).unwrap_or_default(),
                common: 0,
                next: [0; 8],
            });
            period = now;
        }
    }

    /// Whether the tokens between two places follow once more.
    fn is_repeated(&self, one: u64, two: u64) -> bool {
        let (one, two) = (one.to_usize(), two.to_usize());
        let again = self.tokens.get(two..two + (two - one));
        // Most differ right after the window, however far apart they are.
        again.is_some_and(|again| common(&self.tokens[one..two], again) == again.len())
    }

    /// Moves the pivot to the front, and sorts the others by falling number of common tokens, then
    /// by the token that follows.
    fn compare(&mut self, some: Range<usize>, known: u32) {
        let places = &mut self.places[some];
        places.swap(0, places.len() / 2);
        let from = |at: u64| &self.tokens[at.to_usize() + known.to_usize()..];
        let pivot = from(places[0].at);
        for place in &mut places[1..] {
            let tokens = from(place.at);
            let more = common(pivot, tokens);
            place.common = known + more.to_u32();
            place.next = tokens.get(more).copied().unwrap_or_default();
        }
        if places.len() > 2 {
            places[1..].sort_unstable_by_key(|place| (Reverse(place.common), place.next, place.at));
        }
    }

    /// Reports the repeats of the pivot, and leaves the other places for later.
    fn step(&mut self, some: Range<usize>, found: &mut Vec<MaximalRepeat>) {
        let pivot = self.places[some.start];
        let (mut start, mut copies) = (pivot.at, u64::from(self.texts.copies(pivot.text)));
        let (mut in_several, mut is_diverse, mut has_last) = (false, false, pivot.is_last);
        let mut at = some.start + 1;
        while at < some.end {
            let tokens = self.places[at].common;
            let end = at
                + self.places[at..some.end]
                    .iter()
                    .take_while(|place| place.common == tokens)
                    .count();
            for place in &self.places[at..end] {
                start = start.min(place.at);
                copies += u64::from(self.texts.copies(place.text));
                in_several |= place.text != pivot.text;
                is_diverse |= self.before(place.at) != self.before(pivot.at);
                has_last |= place.is_last;
            }
            if in_several && (is_diverse || has_last) {
                let before = if is_diverse {
                    0
                } else {
                    self.common_before(some.start..end)
                };
                let repeat = MaximalRepeat {
                    tokens: tokens + before,
                    first: some.start,
                    count: end - some.start,
                    before,
                    start,
                    copies,
                };
                found.push(MaximalRepeat {
                    start: start - u64::from(before),
                    ..repeat
                });
            }
            let mut first = at;
            for alike in self.places[at..end].chunk_by(|one, two| one.next == two.next) {
                if alike.len() > 1 {
                    self.pending.push((first..first + alike.len(), tokens));
                }
                first += alike.len();
            }
            at = end;
        }
    }

    fn before(&self, at: u64) -> TokenHash {
        self.tokens[at.to_usize() - 1]
    }

    /// The number of equal tokens before some places.
    fn common_before(&self, some: Range<usize>) -> u32 {
        let before = |place: &ComparedPlace| &self.tokens[..place.at.to_usize()];
        let pivot = before(&self.places[some.start]);
        let same = |place: &ComparedPlace| common_suffix(pivot, before(place));
        self.places[some.start + 1..some.end]
            .iter()
            .map(same)
            .min()
            .unwrap_or_default()
            .to_u32()
    }
}

/// The length of the common prefix.
pub fn common(one: &[TokenHash], two: &[TokenHash]) -> usize {
    // Most differ soon; where they do not, comparing blocks is faster.
    const BLOCK: usize = 8;
    let (first, second) = (one.as_chunks::<BLOCK>().0, two.as_chunks::<BLOCK>().0);
    let differ = |one: &[TokenHash; BLOCK], two: &[TokenHash; BLOCK]| {
        (0..BLOCK).fold(0, |sum, at| {
            sum | (u64::from_ne_bytes(one[at]) ^ u64::from_ne_bytes(two[at]))
        })
    };
    let same = BLOCK
        * first
            .iter()
            .zip(second)
            .take_while(|(one, two)| differ(one, two) == 0)
            .count();
    same + one[same..]
        .iter()
        .zip(&two[same..])
        .take_while(|(one, two)| one == two)
        .count()
}

/// The length of the common suffix.
fn common_suffix(one: &[TokenHash], two: &[TokenHash]) -> usize {
    let both = one.iter().rev().zip(two.iter().rev());
    both.take_while(|(one, two)| one == two).count()
}
