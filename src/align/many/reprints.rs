//! Families of passages that agree only in parts, such as reprints read by a scanner.
//!
//! Blots of letters or of content words that several texts have are *seeds*. Each place of a seed is
//! linked with the first places of the seed and with the one before it, so that a text in 1,000
//! documents has some thousand links and not a million. The links of two texts form *chains*:
//! they go on in both, with at most [`MAX_GAP`] tokens between two of them, about as many on both
//! sides. A chain of [`MIN_SEEDS`] places or more over at least `min_tokens` tokens says that the two
//! spans have the same text, if so many seeds are not to be expected by chance.
//!
//! A seed that has `p` places among `n` tokens meets another link by chance once in `n / (600 p)`
//! times: some 50 seeds may follow within [`MAX_GAP`], each where any of 12 tokens would do. So it
//! counts `log2(n / (600 p))`, and 1 at least, and a chain must count `2 log2(n / 600)`. Of 288,000
//! tokens three seeds that only two texts have are enough: each counts 7.9, together more than 17.8.
//! Of those that are in a hundred places, such as parts of `the government of`, eight are needed. Below
//! some 1,700 tokens any three will do.
//!
//! The two spans of a chain belong to one family, and so do spans of one text that have in common at
//! least a third of the longer one. A family has the spans that are connected in this way; those that
//! overlap are one place. Spans of 90 and 60 tokens that have 40 in common are one place of 110
//! tokens, because 40 ≥ 90 / 3.
//!
//! Families come by falling number of tokens of all their places. If in half of its places or more at
//! least half of the tokens belong to an earlier family, all places become places of that one: where
//! much is misread, only parts of a text are found in some pairs of documents.

use super::{
    families::{Families, FamilyPlace},
    owners::{OwnedRange, Owners},
    text_bounds::TextBounds,
};
use crate::{
    base::{
        error::Result,
        files::TempDir,
        num::{ToF64, ToU32, ToU64, ToUsize},
    },
    index::posting::Buckets,
};
use std::{cmp::Reverse, collections::BTreeMap, ops::Range};

/// The most tokens between two seeds of a chain.
const MAX_GAP: u64 = 50;
/// The fewest places of a chain at which seeds start.
const MIN_SEEDS: u32 = 3;
/// Seeds that may follow within [`MAX_GAP`], times the tokens where each may be.
const CHANCES: f64 = 600.0;
/// The number of places of a seed is kept in the low bits of a link, up to this many.
const PLACES_BITS: u32 = 16;
/// Each place of a seed is linked with this many of its first places.
const FIRST_PLACES: usize = 4;
/// The most chains of two texts that are extended at a time.
const OPEN_CHAINS: usize = 32;
/// The number of buckets of links, and of places.
const BUCKETS: usize = 1 << 10;

/// Finds families by seeds.
///
/// Memory: links within the limit, and 80 bytes per chain.
pub struct ReprintFinder<'t> {
    texts: &'t TextBounds,
    min_tokens: u64,
    /// For each token at which a seed starts the number of tokens that it covers.
    reaches: &'t [u8],
    links: Buckets<3>,
    spans: Vec<Range<u64>>,
    memory_bytes: u64,
}

/// Links of two texts that go on in both.
#[derive(Debug, Clone, Copy)]
struct Chain {
    first: [u64; 2],
    last: [u64; 2],
    seeds: u32,
    /// Bits by which chance is excluded.
    evidence: f64,
}

impl<'t> ReprintFinder<'t> {
    /// Finds passages of at least `min_tokens` tokens.
    pub fn new(
        texts: &'t TextBounds,
        min_tokens: u32,
        reaches: &'t [u8],
        memory_bytes: u64,
    ) -> Self {
        Self {
            texts,
            min_tokens: min_tokens.into(),
            reaches,
            links: Buckets::new(BUCKETS, memory_bytes, TempDir(None)),
            spans: Vec::new(),
            memory_bytes,
        }
    }

    /// Adds a text of several documents, as a whole.
    pub fn add_copied_text(&mut self, range: Range<u64>) {
        if range.end - range.start >= self.min_tokens {
            // Both spans are the same.
            self.spans.extend([range.clone(), range]);
        }
    }

    /// Adds a seed with all its places, in ascending order.
    pub fn add_seed(&mut self, places: &[u64]) -> Result<()> {
        let count = places.len().to_u64().min((1 << PLACES_BITS) - 1);
        for (number, &place) in places.iter().enumerate().skip(1) {
            let first = &places[..number.min(FIRST_PLACES)];
            let before = (number > FIRST_PLACES).then(|| places[number - 1]);
            let text = self.texts.of(place);
            for &earlier in first.iter().chain(&before) {
                let other = self.texts.of(earlier);
                if other != text {
                    let pair = u64::from(text) << 32 | u64::from(other);
                    self.links.push(
                        text.to_usize() % BUCKETS,
                        [pair, place, earlier << PLACES_BITS | count],
                    );
                }
            }
        }
        self.links.settle()
    }

    /// All families.
    pub fn finish(mut self) -> Result<Families<'t>> {
        for bucket in 0..self.links.len() {
            let mut links = self.links.take(bucket)?;
            links.sort_unstable();
            links.dedup();
            for pair in links.chunk_by(|one, two| one[0] == two[0]) {
                self.chain(pair);
            }
        }
        let families = Connections::new(&self.spans, self.texts).families();
        let buckets = families.len().clamp(1, BUCKETS);
        let mut places = Buckets::new(buckets, self.memory_bytes, TempDir(None));
        for (number, family) in families.iter().enumerate() {
            for range in family {
                let place = FamilyPlace {
                    start: range.start,
                    end: range.end,
                    is_reversed: false,
                    offset: 0,
                };
                places.push(
                    number * buckets / families.len(),
                    place.to_record(number.to_u32()),
                );
            }
            places.settle()?;
        }
        Ok(Families::new(places, self.texts, self.min_tokens, None))
    }

    /// Chains the links of two texts, which ascend in the first.
    fn chain(&mut self, links: &[[u64; 3]]) {
        let mut open: Vec<Chain> = Vec::new();
        for &[_, one, packed] in links {
            let two = packed >> PLACES_BITS;
            let weight = self.evidence_of(packed & ((1 << PLACES_BITS) - 1));
            let is_old = |chain: &Chain| one - chain.last[0] > MAX_GAP;
            for at in (0..open.len()).rev() {
                if is_old(&open[at]) || open.len() > OPEN_CHAINS {
                    let chain = open.remove(at);
                    self.close(&chain);
                }
            }
            let shift = |chain: &Chain| {
                let steps = [one - chain.last[0], two.checked_sub(chain.last[1])?];
                let shift = steps[0].abs_diff(steps[1]);
                (steps[1] <= MAX_GAP && shift <= 2 + steps[0].max(steps[1]) / 4).then_some(shift)
            };
            let best = open
                .iter_mut()
                .filter_map(|chain| Some((shift(chain)?, chain)))
                .min_by_key(|(shift, _)| *shift);
            match best {
                Some((_, chain)) => {
                    if one > chain.last[0] && two > chain.last[1] {
                        chain.seeds += 1;
                        chain.evidence += weight;
                    }
                    chain.last = [one, two];
                }
                None => open.push(Chain {
                    first: [one, two],
                    last: [one, two],
                    seeds: 1,
                    evidence: weight,
                }),
            }
        }
        open.iter().for_each(|chain| self.close(chain));
    }

    /// Keeps the spans of a chain that is long enough.
    fn close(&mut self, chain: &Chain) {
        let span = |side: usize| {
            let last = chain.last[side];
            let reach = self.reaches.get(last.to_usize()).copied().unwrap_or(1);
            chain.first[side]..last + u64::from(reach.max(1))
        };
        let spans = [span(0), span(1)];
        let is_long = |span: &Range<u64>| span.end - span.start >= self.min_tokens;
        let is_no_chance = chain.evidence >= 2.0 * self.evidence_of(1);
        if chain.seeds >= MIN_SEEDS && is_no_chance && spans.iter().all(is_long) {
            self.spans.extend(spans);
        }
    }

    /// What a seed with this many places counts.
    fn evidence_of(&self, places: u64) -> f64 {
        let tokens = self.reaches.len().to_f64();
        (tokens / (CHANCES * places.to_f64())).log2().max(1.0)
    }
}

/// Spans, each with the next one in pairs, and which of them are connected.
struct Connections<'s> {
    spans: &'s [Range<u64>],
    texts: &'s TextBounds,
    parents: Vec<u32>,
}

impl<'s> Connections<'s> {
    fn new(spans: &'s [Range<u64>], texts: &'s TextBounds) -> Self {
        let parents = (0..spans.len().to_u32()).collect();
        Self {
            spans,
            texts,
            parents,
        }
    }

    fn root(&mut self, mut at: u32) -> u32 {
        while self.parents[at.to_usize()] != at {
            let parent = self.parents[at.to_usize()];
            self.parents[at.to_usize()] = self.parents[parent.to_usize()];
            at = parent;
        }
        at
    }

    /// Connects two spans. The root is the smaller number, whatever the order of calls.
    fn connect(&mut self, one: u32, two: u32) {
        let [one, two] = [one, two].map(|at| self.root(at));
        self.parents[one.max(two).to_usize()] = one.min(two);
    }

    /// The places of each family.
    fn families(mut self) -> Vec<Vec<Range<u64>>> {
        for pair in 0..self.spans.len().to_u32() / 2 {
            self.connect(2 * pair, 2 * pair + 1);
        }
        self.connect_overlapping();
        let mut by_root: BTreeMap<u32, Vec<Range<u64>>> = BTreeMap::new();
        for at in 0..self.spans.len() {
            let root = self.root(at.to_u32());
            by_root
                .entry(root)
                .or_default()
                .push(self.spans[at].clone());
        }
        let mut families: Vec<_> = by_root.into_values().map(join).collect();
        let texts = self.texts;
        let weight = |family: &Vec<Range<u64>>| -> u64 {
            let tokens = |place: &Range<u64>| {
                (place.end - place.start) * u64::from(texts.copies(texts.of(place.start)))
            };
            family.iter().map(tokens).sum()
        };
        families.sort_by_cached_key(|family| {
            (
                Reverse(weight(family)),
                family.first().map(|place| place.start),
            )
        });
        absorb_parts(families, texts)
    }

    /// Connects spans that have in common a third of the longer one.
    ///
    /// Longer spans come first. A span is connected with those that stand for others, of which few
    /// overlap: two of about the same length have less than a third in common.
    fn connect_overlapping(&mut self) {
        let mut order: Vec<u32> = (0..self.spans.len().to_u32()).collect();
        let length = |span: &Range<u64>| span.end - span.start;
        let spans = self.spans;
        order.sort_by_key(|&at| {
            let span = &spans[at.to_usize()];
            (Reverse(length(span)), span.start, at)
        });
        // For each power of two the spans of at least this length, by their starts.
        let mut leaders: Vec<BTreeMap<u64, u32>> = vec![BTreeMap::new(); 64];
        for at in order {
            let span = &spans[at.to_usize()];
            let octave = length(span).max(1).ilog2().to_usize();
            let mut is_new = true;
            // A span that is three times as long has too little in common.
            for (power, leaders) in (octave..).zip(&leaders[octave..leaders.len().min(octave + 3)])
            {
                let from = span.start.saturating_sub(2 << power);
                for &leader in leaders.range(from..span.end).map(|(_, leader)| leader) {
                    let other = &spans[leader.to_usize()];
                    let common = span
                        .end
                        .min(other.end)
                        .saturating_sub(span.start.max(other.start));
                    if 3 * common >= length(other) {
                        self.connect(at, leader);
                        is_new = false;
                    }
                }
            }
            if is_new {
                leaders[octave].insert(span.start, at);
            }
        }
    }
}

/// Adds the places of families that are parts of earlier ones to these.
fn absorb_parts(families: Vec<Vec<Range<u64>>>, texts: &TextBounds) -> Vec<Vec<Range<u64>>> {
    let mut owners = Owners::default();
    let mut kept: Vec<Vec<Range<u64>>> = Vec::new();
    for family in families {
        if let Some(whole) = whole_of(&family, &owners, texts) {
            kept[whole.to_usize()].extend(family);
            continue;
        }
        for place in &family {
            owners.claim(OwnedRange {
                start: place.start,
                end: place.end,
                family: kept.len().to_u32(),
                is_reversed: false,
                diagonal: 0,
            });
        }
        kept.push(family);
    }
    kept.into_iter().map(join).collect()
}

/// The family to which at least half of the tokens of half of these places belong.
fn whole_of(places: &[Range<u64>], owners: &Owners, texts: &TextBounds) -> Option<u32> {
    let mut votes: BTreeMap<u32, u64> = BTreeMap::new();
    let mut all = 0;
    for place in places {
        let copies = u64::from(texts.copies(texts.of(place.start)));
        all += copies;
        let mut tokens: BTreeMap<u32, u64> = BTreeMap::new();
        for owned in owners.overlapping(place.clone()) {
            *tokens.entry(owned.family).or_default() +=
                owned.end.min(place.end) - owned.start.max(place.start);
        }
        let is_half = |tokens: &u64| 2 * tokens >= place.end - place.start;
        for (family, _) in tokens.into_iter().filter(|(_, tokens)| is_half(tokens)) {
            *votes.entry(family).or_default() += copies;
        }
    }
    let most = votes
        .into_iter()
        .max_by_key(|&(family, votes)| (votes, Reverse(family)));
    most.filter(|(_, votes)| 2 * votes >= all)
        .map(|(family, _)| family)
}

/// Joins ranges that overlap; the others ascend.
fn join(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end > range.start => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three texts of 100 tokens each.
    fn texts() -> TextBounds {
        TextBounds::new(vec![1, 102, 203], vec![1, 1, 2], 304)
    }

    fn found(seeds: &[Vec<u64>]) -> Vec<Vec<(u64, u64)>> {
        let (texts, reaches) = (texts(), vec![4; 304]);
        let mut finder = ReprintFinder::new(&texts, 20, &reaches, 0);
        for seed in seeds {
            finder.add_seed(seed).unwrap();
        }
        let mut families = Vec::new();
        let collect = |places: &[FamilyPlace]| {
            families.push(
                places
                    .iter()
                    .map(|place| (place.start, place.end))
                    .collect(),
            );
            Ok(true)
        };
        finder.finish().unwrap().for_each(collect).unwrap();
        families
    }

    #[test]
    fn chains_make_families() {
        // The first two texts share seeds at the same places, apart from a few tokens; the third
        // shares others of them with each.
        let seeds = [
            vec![11, 112],
            vec![15, 117, 215],
            vec![20, 122, 220],
            vec![31, 231],
            vec![34, 134],
            vec![140, 236],
        ];
        assert_eq!(found(&seeds), [[(11, 38), (112, 144), (215, 240)]]);
        assert_eq!(found(&seeds[..2]), Vec::<Vec<(u64, u64)>>::new());
    }

    #[test]
    fn what_is_in_another_order_makes_no_chain() {
        assert!(found(&[vec![11, 140], vec![25, 120], vec![40, 110]]).is_empty());
    }
}
