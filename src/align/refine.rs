//! Where a passage starts and ends, sentence by sentence.
//!
//! A sentence next to a passage belongs to it if its words are found on the other side *and are not yet accounted for there*: what
//! is on the same subject uses the same words, but those of a true source are all used up by the sentences that came from it. For each
//! term of the sentence that is still free over there, or not, one adds the logarithm of how much likelier that is in copied text than in any
//! other. With a share h of the words surviving, and q the chance that a term is in the other stretch anyway, those are
//!
//! ```text
//! free: ln((h + (1 − h)·q) ÷ q)       not free: ln(1 − h)
//! ```
//!
//! With h = ½ a rare term (q = 0.02) that is there counts ln 25.5 = 3.2, "the" (q = 1) nothing, and each that is not there −0.7.

use super::{
    pair::{Pair, PairSide},
    seed_cluster::SeedCluster,
};
use crate::base::num::{ToU32, ToUsize};

/// Moves the ends of clusters. Of each term of either side: how often it is in the other stretch and not in the own one.
pub(super) struct BoundaryRefiner {
    free_a: Vec<i32>,
    free_b: Vec<i32>,
}

/// Each side is fitted to the other so often, at most.
const ROUNDS: usize = 3;
/// Sentences of no use that are passed over on the way to one that belongs to the passage.
const REACH: usize = 4;
/// Sentences beside the other stretch that may be what belongs to the sentence in question: neither is in the passage yet.
const MARGIN: u32 = 1;
/// The share of words that survive when a text is reworded, h.
const SURVIVING: f32 = 0.5;
/// What a sentence must be worth at least.
const SENTENCE_COST: f32 = 1.0;

impl BoundaryRefiner {
    pub fn new(pair: &Pair<'_>) -> Self {
        Self {
            free_a: vec![0; pair.a.weights.len()],
            free_b: vec![0; pair.b.weights.len()],
        }
    }

    pub fn refine(&mut self, pair: &Pair<'_>, cluster: &mut SeedCluster) {
        for _ in 0..ROUNDS {
            let (a, b) = (cluster.a, cluster.b);
            cluster.a = fit(&pair.a, &pair.b, a, b, &mut self.free_a);
            cluster.b = fit(&pair.b, &pair.a, b, a, &mut self.free_b);
            if (a, b) == (cluster.a, cluster.b) {
                break;
            }
        }
    }
}

/// The sentences of one side that go with sentences of the other.
fn fit(
    one: &PairSide<'_>,
    two: &PairSide<'_>,
    own: (u32, u32),
    other: (u32, u32),
    free: &mut [i32],
) -> (u32, u32) {
    let last = two.document.sentences.len().to_u32() - 1;
    let other = (other.0.saturating_sub(MARGIN), (other.1 + MARGIN).min(last));
    count(one, two, own, other, free, 1);
    let mut gains = BoundarySearch {
        one,
        free,
        others: (other.1 - other.0 + 1) as f32,
        taken: Vec::new(),
    };
    let end = gains.grow(own.1, own.1 + 1..one.document.sentences.len().to_u32());
    let start = gains.grow(own.0, (0..own.0).rev());
    count(one, two, own, other, free, -1);
    (start, end)
}

/// Adds what is in the other stretch and takes off what is in the own one; with `sign` −1 undoes that.
fn count(
    one: &PairSide<'_>,
    two: &PairSide<'_>,
    own: (u32, u32),
    other: (u32, u32),
    free: &mut [i32],
    sign: i32,
) {
    for &(term, count) in (other.0..=other.1).flat_map(|sentence| two.bags.get(sentence.to_usize()))
    {
        if let Some(term) = two.other(term) {
            free[term] += sign * count as i32;
        }
    }
    for &(term, count) in (own.0..=own.1).flat_map(|sentence| one.bags.get(sentence.to_usize())) {
        free[term.to_usize()] -= sign * count as i32;
    }
}

struct BoundarySearch<'s> {
    one: &'s PairSide<'s>,
    free: &'s mut [i32],
    /// How many sentences the other stretch has.
    others: f32,
    /// What the sentences that were looked at took.
    taken: Vec<(u32, u32)>,
}

impl BoundarySearch<'_> {
    /// The farthest of the sentences up to which there is more to gain than to lose, or `end`. What the sentences take is no longer free for
    /// those behind them, so that this ends, however often a text repeats itself.
    fn grow(&mut self, end: u32, sentences: impl Iterator<Item = u32>) -> u32 {
        let (mut sum, mut best, mut end, mut passed) = (0.0, 0.0, end, 0);
        for sentence in sentences {
            sum += self.take(sentence) - SENTENCE_COST;
            passed += 1;
            if sum > best {
                (best, end, passed) = (sum, sentence, 0);
            }
            if passed > REACH {
                break;
            }
        }
        for (term, count) in self.taken.drain(..) {
            self.free[term.to_usize()] += count as i32;
        }
        end
    }

    /// What a sentence counts; takes its words.
    fn take(&mut self, sentence: u32) -> f32 {
        let mut sum = 0.0;
        for &(term, count) in self.one.bags.get(sentence.to_usize()) {
            if self.free[term.to_usize()] > 0 {
                let chance = (1.0 - (1.0 - self.one.shares[term.to_usize()]).powf(self.others))
                    .max(f32::MIN_POSITIVE);
                sum += ((SURVIVING + (1.0 - SURVIVING) * chance) / chance).ln();
            } else {
                sum += (1.0 - SURVIVING).ln();
            }
            self.free[term.to_usize()] -= count as i32;
            self.taken.push((term, count));
        }
        sum
    }
}
