//! The best pairs of an index, and counts of all of them.

use super::pages::PairPages;
use crate::base::num::ToU64;
use crate::{
    base::{
        error::Result,
        ids::{ContentNo, DocNo},
    },
    commands::extract::Progress,
    index::View,
    report::html::{BINS, bin_of},
    similar::{Discovery, Neighbour},
};
use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, HashMap},
    sync::Arc,
};

/// A pair, ordered by score, then by the order of the corpus; the best pair is the greatest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FoundPair {
    /// The score by which pairs are ranked.
    pub score: f64,
    /// The document that is shown on the left, and the other one.
    pub a: DocNo,
    pub b: DocNo,
    /// The shares of the blots of both that the other one has.
    pub shares: [f64; 2],
}

impl FoundPair {
    /// How similar two documents are: the larger of the two shares.
    pub fn share(&self) -> f64 {
        self.shares[0].max(self.shares[1])
    }
}

impl Eq for FoundPair {}

impl Ord for FoundPair {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score
            .total_cmp(&other.score)
            .then_with(|| (other.a, other.b).cmp(&(self.a, self.b)))
    }
}

impl PartialOrd for FoundPair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The best pairs, and counts of all. Documents with the same words stand for each other: of the pairs of two contents only
/// the first counts.
#[derive(Debug, Default)]
pub struct FoundPairs {
    /// The best pairs, the best first.
    pub best: Vec<FoundPair>,
    /// All pairs.
    pub pairs: u64,
    /// All pairs by similarity.
    bins: [u64; BINS],
    /// With how many contents each content shares text.
    partners: Vec<u32>,
}

/// What one thread found.
#[derive(Default)]
struct Batch {
    documents: u64,
    pairs: u64,
    bins: [u64; BINS],
    partners: Vec<ContentNo>,
    best: BinaryHeap<Reverse<FoundPair>>,
}

impl FoundPairs {
    /// Finds all pairs, and keeps the best `most`.
    pub fn find(
        discovery: &Discovery<'_>,
        most: usize,
        progress: &mut Progress<'_>,
    ) -> Result<Self> {
        let view = discovery.view;
        let work = |document: DocNo, neighbours: &Arc<[Neighbour]>, found: &mut Batch| {
            found.documents += 1;
            for (other, neighbour) in discovery.partners_after(document, neighbours) {
                if is_first_of_contents(discovery, document, other) {
                    found.add(pair(view, document, other, neighbour), view, most);
                }
            }
        };
        let (mut all, mut best, mut documents) = (Self::default(), BinaryHeap::new(), 0);
        all.partners = vec![0; view.contents().len()];
        discovery.for_each_document(
            work,
            |found| {
                (size_of::<FoundPair>() * found.best.len()
                    + size_of::<ContentNo>() * found.partners.len())
                .to_u64()
            },
            |found| {
                documents += found.documents;
                progress(documents, view.documents().to_u64());
                all.add(&found);
                best.extend(found.best);
                while best.len() > most {
                    best.pop();
                }
                Ok(())
            },
        )?;
        all.best = best.into_iter().map(|Reverse(pair)| pair).collect();
        all.best.sort_unstable_by(|one, two| two.cmp(one));
        Ok(all)
    }

    fn add(&mut self, found: &Batch) {
        self.pairs += found.pairs;
        for (sum, pairs) in self.bins.iter_mut().zip(found.bins) {
            *sum += pairs;
        }
        for content in &found.partners {
            self.partners[content.index()] += 1;
        }
    }

    /// The numbers of pairs by similarity that are not among the best.
    pub fn bins_beyond_best(&self) -> [u64; BINS] {
        let mut bins = self.bins;
        for pair in &self.best {
            let bin = &mut bins[bin_of(pair.share())];
            *bin = bin.saturating_sub(1);
        }
        bins
    }

    /// The best sources of each content among the best pairs, with the share of it that each has: in passages, if the texts were
    /// aligned.
    pub fn best_sources(
        &self,
        view: &View<'_>,
        made: &PairPages,
    ) -> HashMap<ContentNo, Vec<(DocNo, f64)>> {
        const SOURCES: usize = 3;
        let mut sources: HashMap<ContentNo, Vec<(DocNo, f64)>> = HashMap::new();
        for (at, pair) in self.best.iter().enumerate() {
            if made.nothing_left.contains(&at) {
                continue;
            }
            let aligned = made.rows.get(&at).map(|row| [row.a_in_b, row.b_in_a]);
            let shares = aligned.unwrap_or(pair.shares);
            for (document, other, share) in
                [(pair.a, pair.b, shares[0]), (pair.b, pair.a, shares[1])]
            {
                if share <= 0.0 {
                    continue;
                }
                let of = sources.entry(view.content_of(document)).or_default();
                // Both sides may be of one content.
                if !of.contains(&(document, share)) {
                    of.push((other, share));
                }
            }
        }
        for of in sources.values_mut() {
            of.sort_by(|one, two| two.1.total_cmp(&one.1).then(one.0.cmp(&two.0)));
            of.truncate(SOURCES);
        }
        sources
    }

    /// With how many documents a document shares text, where those with the same words count once.
    pub fn partners_of(&self, view: &View<'_>, document: DocNo) -> u64 {
        u64::from(self.partners[view.content_of(document).index()])
    }
}

impl Batch {
    fn add(&mut self, pair: FoundPair, view: &View<'_>, most: usize) {
        self.pairs += 1;
        self.bins[bin_of(pair.share())] += 1;
        let contents = [pair.a, pair.b].map(|document| view.content_of(document));
        let different = if contents[0] == contents[1] { 1 } else { 2 };
        self.partners.extend(&contents[..different]);
        self.best.push(Reverse(pair));
        if self.best.len() > most {
            self.best.pop();
        }
    }
}

fn pair(view: &View<'_>, a: DocNo, b: DocNo, neighbour: &Neighbour) -> FoundPair {
    let share = |document: DocNo| {
        let blots = view.contents()[view.content_of(document).index()].blots;
        (f64::from(neighbour.shared) / f64::from(blots.max(1))).min(1.0)
    };
    let is_same = view.content_of(a) == view.content_of(b);
    FoundPair {
        score: neighbour.score,
        a,
        b,
        shares: if is_same {
            [1.0, 1.0]
        } else {
            [share(a), share(b)]
        },
    }
}

/// Looking at more documents with the same words takes too long.
const LOOKED_AT: usize = 64;

/// Whether a pair, with `a` before `b`, is the first one that counts of all pairs of documents with the same words as these two.
fn is_first_of_contents(discovery: &Discovery<'_>, a: DocNo, b: DocNo) -> bool {
    let view = discovery.view;
    let members = |document| {
        let all = view.documents_of(view.content_of(document));
        all.iter().copied().take(LOOKED_AT)
    };
    let pairs = members(a).flat_map(|one| members(b).map(move |two| (one.min(two), one.max(two))));
    let wanted = pairs.filter(|&(one, two)| one != two && discovery.pair_filter.allows(one, two));
    wanted.min().is_none_or(|first| (a, b) <= first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_pair_is_the_greatest() {
        let pair = |score, a, b| FoundPair {
            score,
            a: DocNo::new(a),
            b: DocNo::new(b),
            shares: [0.2, 0.6],
        };
        let mut pairs = [pair(0.5, 1, 2), pair(1.0, 3, 4), pair(0.5, 0, 7)];
        pairs.sort_unstable_by(|one, two| two.cmp(one));
        assert_eq!(pairs, [pair(1.0, 3, 4), pair(0.5, 0, 7), pair(0.5, 1, 2)]);
        assert_eq!(pairs[0].share(), 0.6);
    }
}
