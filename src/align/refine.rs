//! Moves the boundaries of a cluster, sentence by sentence.
//!
//! A sentence next to a cluster belongs to it if its words are on the other side *and are not yet
//! accounted for there*. Text on the same subject uses the same words too, but the words of a true
//! source are used up by the sentences that came from it. Each term of the sentence adds the
//! log-likelihood ratio of finding it, or not finding it, among the unused terms of the other side:
//! in copied text against any text. If a share h of the words survives rewording, and q is the
//! probability that a term is in the other span anyway, this is
//!
//! ```text
//! unused: ln((h + (1 − h)·q) ÷ q)       not there, or used: ln(1 − h)
//! ```
//!
//! With h = ½, a rare term (q = 0.02) that is there adds ln 25.5 = 3.2, "the" (q = 1) adds nothing,
//! and each missing term adds −0.7.

use super::{
    pair::{Pair, PairSide},
    seed_cluster::SeedCluster,
};
use crate::base::num::{ToU32, ToUsize};

/// Moves the boundaries of clusters. For each term of a side: its count in the other span minus its
/// count in the own span.
pub(super) struct BoundaryRefiner {
    unused_a: Vec<i32>,
    unused_b: Vec<i32>,
}

/// The most rounds in which each side is fitted to the other.
const ROUNDS: usize = 3;
/// The most useless sentences to skip on the way to one that belongs to the cluster.
const REACH: usize = 4;
/// The number of sentences next to the other span that may match a new sentence, though they are
/// not in the cluster yet.
const MARGIN: u32 = 1;
/// The share h of words that survive rewording.
const SURVIVING: f32 = 0.5;
/// The least gain of a sentence.
const SENTENCE_COST: f32 = 1.0;

impl BoundaryRefiner {
    pub fn new(pair: &Pair<'_>) -> Self {
        Self {
            unused_a: vec![0; pair.a.weights.len()],
            unused_b: vec![0; pair.b.weights.len()],
        }
    }

    /// Fits each side to the other until nothing changes.
    pub fn refine(&mut self, pair: &Pair<'_>, cluster: &mut SeedCluster) {
        for _ in 0..ROUNDS {
            let (a, b) = (cluster.a, cluster.b);
            cluster.a = fit(&pair.a, &pair.b, a, b, &mut self.unused_a);
            cluster.b = fit(&pair.b, &pair.a, b, a, &mut self.unused_b);
            if (a, b) == (cluster.a, cluster.b) {
                break;
            }
        }
    }
}

/// The sentences of one side that match sentences of the other.
fn fit(
    one: &PairSide<'_>,
    two: &PairSide<'_>,
    own: (u32, u32),
    other: (u32, u32),
    unused: &mut [i32],
) -> (u32, u32) {
    let last = two.document.sentences.len().to_u32() - 1;
    let other = (other.0.saturating_sub(MARGIN), (other.1 + MARGIN).min(last));
    count(one, two, own, other, unused, 1);
    let mut search = BoundarySearch {
        one,
        unused,
        others: (other.1 - other.0 + 1) as f32,
        used: Vec::new(),
    };
    let end = search.grow(own.1, own.1 + 1..one.document.sentences.len().to_u32());
    let start = search.grow(own.0, (0..own.0).rev());
    count(one, two, own, other, unused, -1);
    (start, end)
}

/// Adds the terms of the other span and subtracts those of the own span; with `sign` −1 undoes
/// that.
fn count(
    one: &PairSide<'_>,
    two: &PairSide<'_>,
    own: (u32, u32),
    other: (u32, u32),
    unused: &mut [i32],
    sign: i32,
) {
    for &(term, count) in (other.0..=other.1).flat_map(|sentence| two.bags.get(sentence.to_usize()))
    {
        if let Some(term) = two.other(term) {
            unused[term] += sign * count as i32;
        }
    }
    for &(term, count) in (own.0..=own.1).flat_map(|sentence| one.bags.get(sentence.to_usize())) {
        unused[term.to_usize()] -= sign * count as i32;
    }
}

/// Extends a span sentence by sentence.
struct BoundarySearch<'s> {
    one: &'s PairSide<'s>,
    unused: &'s mut [i32],
    /// The number of sentences of the other span.
    others: f32,
    /// The terms that the visited sentences used up.
    used: Vec<(u32, u32)>,
}

impl BoundarySearch<'_> {
    /// The last sentence up to which the total gain is positive and highest, or `end`. Sentences
    /// use up the terms they match, so this ends even in a text that repeats itself.
    fn grow(&mut self, end: u32, sentences: impl Iterator<Item = u32>) -> u32 {
        let (mut sum, mut best, mut end, mut skipped) = (0.0, 0.0, end, 0);
        for sentence in sentences {
            sum += self.use_sentence(sentence) - SENTENCE_COST;
            skipped += 1;
            if sum > best {
                (best, end, skipped) = (sum, sentence, 0);
            }
            if skipped > REACH {
                break;
            }
        }
        for (term, count) in self.used.drain(..) {
            self.unused[term.to_usize()] += count as i32;
        }
        end
    }

    /// The gain of a sentence; uses up its terms.
    fn use_sentence(&mut self, sentence: u32) -> f32 {
        let mut sum = 0.0;
        for &(term, count) in self.one.bags.get(sentence.to_usize()) {
            if self.unused[term.to_usize()] > 0 {
                let chance = (1.0 - (1.0 - self.one.shares[term.to_usize()]).powf(self.others))
                    .max(f32::MIN_POSITIVE);
                sum += ((SURVIVING + (1.0 - SURVIVING) * chance) / chance).ln();
            } else {
                sum += (1.0 - SURVIVING).ln();
            }
            self.unused[term.to_usize()] -= count as i32;
            self.used.push((term, count));
        }
        sum
    }
}
