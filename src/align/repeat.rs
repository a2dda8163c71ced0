//! Maximal repeats: what several places have in common, and could not have more of.
//!
//! The tokens of all texts stand one after the other, each text between two tokens that stand nowhere else. Places that begin with the same
//! window form a tree by what follows: its inner nodes are the sets of places that have just so many tokens in common. Such a set is a
//! *repeat*, and a maximal one if the tokens before its places are not all the same: then it cannot be made longer to either side.
//!
//! The tree is found with a place in the middle as a pivot. All others are compared with it once, which says where they part from it; those that part
//! at one depth by one token are compared further among themselves, from there on. So every token is looked at about once for each place that
//! has it in common with another. Of the places `1: a b c d`, `2: a b c e`, `3: a b f g`, `4: a b f h` and pivot 2 the nodes are {1 2} with three tokens,
//! {1 2 3 4} with two, and, compared once more from there, {3 4} with three.
//!
//! Text that repeats itself without a gap (a line of dashes, rows of zeros) would have as many repeats as tokens: of the repetitions only the first and the last are
//! places. What is common to last ones may begin further left, in repetitions that do not count; so it is made longer to the left at the end.

use crate::base::num::{ToU32, ToUsize};
use std::{cmp::Reverse, ops::Range};

/// The hash of a token, as it stands in a file.
pub type TokenHash = [u8; 8];

/// Where texts are among the tokens, and how often each is there.
pub struct TextBounds {
    /// The first token of each, in rising order.
    starts: Vec<u64>,
    /// How many documents have it.
    copies: Vec<u32>,
    /// For every so many tokens, the text that they begin in.
    hints: Vec<u32>,
}

const HINT_BITS: u32 = 9;

impl TextBounds {
    /// `starts` are in rising order, the first token of all is before the first of them, and the last text ends before `end`.
    pub fn new(starts: Vec<u64>, copies: Vec<u32>, end: u64) -> Self {
        let mut text = 0;
        let hints = (0..=end >> HINT_BITS).map(|hint| {
            while starts
                .get(text.to_usize() + 1)
                .is_some_and(|&start| start <= hint << HINT_BITS)
            {
                text += 1;
            }
            text
        });
        Self {
            hints: hints.collect(),
            starts,
            copies,
        }
    }

    /// The text that a token is of.
    pub fn of(&self, at: u64) -> u32 {
        let mut text = self.hints[(at >> HINT_BITS).to_usize()];
        while self
            .starts
            .get(text.to_usize() + 1)
            .is_some_and(|&start| start <= at)
        {
            text += 1;
        }
        text
    }

    pub fn start(&self, text: u32) -> u64 {
        self.starts[text.to_usize()]
    }

    pub fn copies(&self, text: u32) -> u32 {
        self.copies[text.to_usize()]
    }
}

/// A set of places that have so many tokens in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaximalRepeat {
    pub tokens: u32,
    /// The places: these of [`RepeatFinder::places`].
    pub first: usize,
    pub count: usize,
    /// The repeat starts so many tokens before them.
    pub before: u32,
    /// The least place, where the repeat starts.
    pub start: u64,
    /// How many places there are, with all copies of their texts.
    pub copies: u64,
}

#[derive(Debug, Clone, Copy)]
struct RepeatPlace {
    at: u64,
    text: u32,
    /// Repetitions before it were left out.
    is_last: bool,
    /// How many tokens it has in common with the pivot.
    common: u32,
    /// What follows then.
    next: TokenHash,
}

/// Finds repeats; owns the space that it takes.
pub struct RepeatFinder<'t> {
    tokens: &'t [TokenHash],
    texts: &'t TextBounds,
    min_tokens: u32,
    places: Vec<RepeatPlace>,
    to_do: Vec<(Range<usize>, u32)>,
}

impl<'t> RepeatFinder<'t> {
    pub fn new(tokens: &'t [TokenHash], texts: &'t TextBounds, min_tokens: u32) -> Self {
        Self {
            tokens,
            texts,
            min_tokens,
            places: Vec::new(),
            to_do: Vec::new(),
        }
    }

    /// Replaces the places by these, and `found` by all maximal repeats of two or more texts among them. They are given in rising order, and are likely to begin with the
    /// same tokens, but need not.
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
            // What begins one token earlier has as many places.
            if same.iter().all(|&at| before(at) == before(same[0])) {
                continue;
            }
            let first = self.places.len();
            self.add_places(same);
            self.to_do.push((first..self.places.len(), self.min_tokens));
        }
        while let Some((some, common)) = self.to_do.pop() {
            self.compare(some.clone(), common);
            self.step(some, found);
        }
    }

    /// Where they are, in an order in which those of each repeat stand together.
    pub fn places(&self) -> impl Iterator<Item = u64> {
        self.places.iter().map(|place| place.at)
    }

    /// Takes places that begin alike, but of text that repeats itself only the first and the last.
    fn add_places(&mut self, same: &[u64]) {
        // How far apart the last two are, if the one repeats the other.
        let mut period = None;
        for &at in same {
            let text = self.texts.of(at);
            let last = self
                .places
                .last()
                .map(|last| (last.at, last.text))
                .filter(|&(last, of)| last < at && of == text);
            let now = last
                .filter(|&(last, _)| self.is_repeated(last, at))
                .map(|(last, _)| at - last);
            if now.is_some() && now == period {
                self.places.pop();
            }
            self.places.push(RepeatPlace {
                at,
                text,
                is_last: now.is_some(),
                common: 0,
                next: [0; 8],
            });
            period = now;
        }
    }

    /// Whether what is between two places is there once more.
    fn is_repeated(&self, one: u64, two: u64) -> bool {
        let (one, two) = (one.to_usize(), two.to_usize());
        let again = self.tokens.get(two..two + (two - one));
        // Most differ right behind the window, however far they are apart.
        again.is_some_and(|again| common(&self.tokens[one..two], again) == again.len())
    }

    /// Puts those that have most in common with one of them first, and those that go on with the same token together.
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

    /// Tells of the repeats that the pivot is in, and leaves the others for later.
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
                    self.to_do.push((first..first + alike.len(), tokens));
                }
                first += alike.len();
            }
            at = end;
        }
    }

    fn before(&self, at: u64) -> TokenHash {
        self.tokens[at.to_usize() - 1]
    }

    /// How many tokens before some places are all the same.
    fn common_before(&self, some: Range<usize>) -> u32 {
        let pivot = &self.tokens[..self.places[some.start].at.to_usize()];
        let same = |place: &RepeatPlace| {
            let tokens = &self.tokens[..place.at.to_usize()];
            pivot
                .iter()
                .rev()
                .zip(tokens.iter().rev())
                .take_while(|(one, two)| one == two)
                .count()
        };
        self.places[some.start + 1..some.end]
            .iter()
            .map(same)
            .min()
            .unwrap_or_default()
            .to_u32()
    }
}

/// How many tokens are the same from the start.
pub fn common(one: &[TokenHash], two: &[TokenHash]) -> usize {
    // Most differ soon; where they do not, blocks are faster.
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
