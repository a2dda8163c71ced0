//! Finds similar sentences.

use super::{
    AlignOptions,
    pair::{NONE, Pair},
};
use crate::base::num::{ToU32, ToU64, ToUsize};

/// Sentence `a` of one document is similar to sentence `b` of the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Seed {
    pub a: u32,
    pub b: u32,
    pub cosine: f32,
}

/// The least number of common terms; fewer may be a coincidence.
const MIN_TERMS: u32 = 2;
/// A seed is kept if its cosine is at least this share of the best one of its sentences.
const BEST_SHARE: f32 = 0.8;
/// The most seeds of a sentence: a sentence that a document has a thousand times says nothing about
/// its source.
const MAX_SEEDS: usize = 16;

/// The sums over the common terms of two sentences.
#[derive(Clone, Copy, Default)]
struct SentenceSum {
    dot: f32,
    terms: u32,
}

/// All pairs of sentences with enough cosine and Dice coefficient, sorted by `a`, then `b`.
///
/// Cost: over all terms, the sum of sentences of `a` with the term × sentences of `b` with it. The
/// most frequent terms are skipped until that is at most [`AlignOptions::sentence_pairs`].
pub(super) fn seeds(pair: &Pair<'_>, options: &AlignOptions) -> Vec<Seed> {
    let (a, b) = (&pair.a, &pair.b);
    let is_used = used_terms(pair, options.sentence_pairs);
    let mut sums = vec![SentenceSum::default(); b.document.sentences.len()];
    let mut touched = Vec::new();
    let mut seeds = Vec::new();
    for at in 0..a.document.sentences.len() {
        let bag = a.bags.get(at);
        for &(term, count) in bag.iter().filter(|(term, _)| is_used[term.to_usize()]) {
            let weight = a.weights[term.to_usize()];
            let factor = weight * weight * count as f32;
            for &(sentence, count) in b.postings.get(a.others[term.to_usize()].to_usize()) {
                let sum = &mut sums[sentence.to_usize()];
                if sum.terms == 0 {
                    touched.push(sentence);
                }
                sum.terms += 1;
                sum.dot += factor * count as f32;
            }
        }
        touched.sort_unstable();
        let first = seeds.len();
        for &bt in &touched {
            let sum = std::mem::take(&mut sums[bt.to_usize()]);
            let cosine = sum.dot / (a.norms[at] * b.norms[bt.to_usize()]);
            let dice =
                2.0 * sum.terms as f32 / (bag.len() + b.bags.get(bt.to_usize()).len()) as f32;
            if sum.terms >= MIN_TERMS && cosine > options.min_cosine && dice > options.min_dice {
                seeds.push(Seed {
                    a: at.to_u32(),
                    b: bt,
                    cosine,
                });
            }
        }
        touched.clear();
        keep_few(&mut seeds, first);
    }
    keep_best(&mut seeds, pair);
    seeds
}

/// Keeps the best few of the seeds from `first` on, sorted by `b`.
fn keep_few(seeds: &mut Vec<Seed>, first: usize) {
    let own = &mut seeds[first..];
    if own.len() > MAX_SEEDS {
        own.sort_by(|one, two| two.cosine.total_cmp(&one.cosine).then(one.b.cmp(&two.b)));
        own[..MAX_SEEDS].sort_unstable_by_key(|seed| seed.b);
        seeds.truncate(first + MAX_SEEDS);
    }
}

/// A sentence that resembles several others comes from the most similar one: keeps the seeds that
/// are close to the best one of both sentences.
fn keep_best(seeds: &mut Vec<Seed>, pair: &Pair<'_>) {
    let mut best_a = vec![0.0_f32; pair.a.document.sentences.len()];
    let mut best_b = vec![0.0_f32; pair.b.document.sentences.len()];
    for seed in seeds.iter() {
        let (a, b) = (
            &mut best_a[seed.a.to_usize()],
            &mut best_b[seed.b.to_usize()],
        );
        (*a, *b) = (a.max(seed.cosine), b.max(seed.cosine));
    }
    seeds.retain(|seed| {
        seed.cosine >= BEST_SHARE * best_a[seed.a.to_usize()].max(best_b[seed.b.to_usize()])
    });
}

/// The terms of `a` to look up: terms of both documents, rarest first, as far as `limit` allows.
fn used_terms(pair: &Pair<'_>, limit: u64) -> Vec<bool> {
    let (a, b) = (&pair.a, &pair.b);
    let cost = |term: usize| match a.others[term] {
        NONE => 0,
        other => {
            a.postings.get(term).len().to_u64() * b.postings.get(other.to_usize()).len().to_u64()
        }
    };
    let costs: Vec<u64> = (0..a.others.len()).map(cost).collect();
    let mut most = u64::MAX;
    if costs.iter().sum::<u64>() > limit {
        let mut sorted = costs.clone();
        sorted.sort_unstable();
        let mut left = limit;
        most = sorted
            .iter()
            .copied()
            .take_while(|&cost| left.checked_sub(cost).map(|rest| left = rest).is_some())
            .last()
            .unwrap_or(0);
    }
    costs
        .iter()
        .zip(&a.weights)
        .map(|(&cost, &weight)| cost > 0 && cost <= most && weight > 0.0)
        .collect()
}
