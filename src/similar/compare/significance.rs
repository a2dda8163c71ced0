//! How likely unrelated texts of the same collection are to be as similar.
//!
//! The similarity of two unrelated texts is the best of very many chance matches, so it has an
//! extreme value distribution, as in the statistics of Karlin and Altschul for sequences. For texts
//! of n and m tokens, the expected number of areas with the score x or more is
//!
//! ```text
//! E = K · (n·m)^γ · e^(−λ·x)          p = 1 − e^(−E)
//! ```
//!
//! and p is the probability that there is one: the *p-value* of the similarity x. K, γ and λ depend
//! on the language and on how alike the documents of a collection are, so they are fitted to a sample
//! of its pairs ([`ChanceModel::fit`]):
//!
//! - the *base* is the least score that no more than half of the pairs reach;
//! - γ compares how many pairs with a short and with a long n·m reach the base;
//! - K makes the expected number of pairs that reach the base the observed one;
//! - λ follows from the base and from the highest score that one pair in twenty reaches.
//!
//! A sample may contain copies. Only their number matters, not their scores: if one pair in a
//! thousand is a copy, the fit changes by about a thousandth. If copies or templates are frequent, λ
//! is too small and p too large, so that a small p can always be trusted.
//!
//! Worked example, pairs of English web pages: K·(n·m)^γ·e^(−15·λ) = 0.5 for two pages of 700 words,
//! and λ = 0.43. A similarity of 20 has p = 1 − e^(−0.5·e^(−5·0.43)) = 0.06; 40 has 0.00001.

use crate::base::num::ToUsize;

/// The similarity of a pair that was not chosen because of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampledPair {
    /// The number of tokens of both texts.
    pub tokens: [u32; 2],
    /// The similarity; 0 if they have no area.
    pub score: u32,
}

/// The distribution of the similarity of unrelated texts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChanceModel {
    /// ln K, at the base score.
    ln_k: f64,
    /// The power of n·m.
    gamma: f64,
    /// The decrease of ln E for each point of the score.
    lambda: f64,
    /// The base score.
    base: u32,
}

/// The least number of pairs that a model is fitted to.
pub const LEAST_PAIRS: usize = 100;
/// At most this share of the pairs reaches the base score.
const BASE_SHARE: f64 = 0.5;
/// At least this share, and this number of pairs, reaches the higher score that gives λ. It must be
/// above the share of copies in the collection.
const TAIL_SHARE: f64 = 0.05;
const TAIL_PAIRS: usize = 10;
/// γ cannot be estimated well from documents of about the same length.
const GAMMA: std::ops::RangeInclusive<f64> = 0.5..=1.5;

impl ChanceModel {
    /// Fits a model to pairs; `None` if there are fewer than [`LEAST_PAIRS`].
    pub fn fit(pairs: &[SampledPair]) -> Option<Self> {
        if pairs.len() < LEAST_PAIRS {
            return None;
        }
        let mut scores: Vec<u32> = pairs.iter().map(|pair| pair.score).collect();
        scores.sort_unstable();
        let share = |score: u32| {
            let below = scores.partition_point(|&one| one < score);
            (scores.len() - below) as f64 / scores.len() as f64
        };
        let middle = (scores.len() as f64 * (1.0 - BASE_SHARE)).ceil() as usize;
        let base = scores[middle.min(scores.len() - 1)..]
            .iter()
            .copied()
            .find(|&score| score > 0 && share(score) <= BASE_SHARE)
            .unwrap_or(scores[scores.len() - 1] + 1);
        let gamma = gamma(pairs, base);
        Some(Self {
            ln_k: ln_k(pairs, base, gamma),
            gamma,
            lambda: lambda(&scores, base, share),
            base,
        })
    }

    /// The probability that unrelated texts of these numbers of tokens reach the score; more than 0.
    pub fn p_value(&self, tokens: [u32; 2], score: u32) -> f64 {
        let above = f64::from(score) - f64::from(self.base);
        let expected = self.ln_k + self.gamma * ln_product(tokens) - self.lambda * above;
        (-(-expected.exp()).exp_m1()).clamp(f64::MIN_POSITIVE, 1.0)
    }
}

fn ln_product(tokens: [u32; 2]) -> f64 {
    tokens
        .map(|count| f64::from(count.max(1)).ln())
        .iter()
        .sum()
}

/// Compares the shorter half of the pairs with the longer one.
fn gamma(pairs: &[SampledPair], base: u32) -> f64 {
    let mut by_length: Vec<(f64, bool)> = pairs
        .iter()
        .map(|pair| (ln_product(pair.tokens), pair.score >= base))
        .collect();
    by_length.sort_by(|one, two| one.0.total_cmp(&two.0));
    let (short, long) = by_length.split_at(by_length.len() / 2);
    let mean =
        |half: &[(f64, bool)]| half.iter().map(|pair| pair.0).sum::<f64>() / half.len() as f64;
    let distance = mean(long) - mean(short);
    if distance < 0.1 {
        return 1.0;
    }
    // Half a pair more, so that neither logarithm is of 0.
    let expected = |half: &[(f64, bool)]| {
        let reached = half.iter().filter(|pair| pair.1).count() as f64;
        (-(-(reached + 0.5) / (half.len() as f64 + 1.0)).ln_1p()).ln()
    };
    ((expected(long) - expected(short)) / distance).clamp(*GAMMA.start(), *GAMMA.end())
}

/// Solves: expected number of pairs that reach the base = observed number. The former rises with K.
fn ln_k(pairs: &[SampledPair], base: u32, gamma: f64) -> f64 {
    let observed = pairs.iter().filter(|pair| pair.score >= base).count() as f64 + 0.5;
    let logs: Vec<f64> = pairs
        .iter()
        .map(|pair| gamma * ln_product(pair.tokens))
        .collect();
    let expected = |ln_k: f64| {
        logs.iter()
            .map(|log| -(-(ln_k + log).exp()).exp_m1())
            .sum::<f64>()
    };
    let (mut low, mut high) = (-100.0, 100.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if expected(middle) < observed {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// The decrease of ln E from the base to the highest score that enough pairs reach.
fn lambda(scores: &[u32], base: u32, share: impl Fn(u32) -> f64) -> f64 {
    let enough = TAIL_PAIRS.max((TAIL_SHARE * scores.len() as f64).ceil() as usize);
    let tail = scores[scores.len() - enough.min(scores.len())];
    let expected = |share: f64| -(-share).ln_1p();
    let next = scores.iter().copied().find(|&score| score > base);
    match (tail > base, next) {
        (true, _) => (expected(share(base)) / expected(share(tail))).ln() / f64::from(tail - base),
        // Few pairs are above the base: those that are, and one more.
        (false, Some(next)) => {
            let reached = share(next) + 1.0 / scores.len() as f64;
            (expected(share(base)) / expected(reached)).ln().max(0.05) / f64::from(next - base)
        }
        (false, None) => (scores.len() as f64 * expected(share(base))).ln().max(0.25) / 5.0,
    }
}

/// Pairs of `count` texts that are far from each other in the collection, so that few are versions
/// of one text: each of up to √`pairs` texts with as many others, both evenly spread. All pairs if
/// there are not many more.
pub fn spread_pairs(count: u32, pairs: u64) -> Vec<(u32, u32)> {
    let all = u64::from(count) * u64::from(count.saturating_sub(1)) / 2;
    if all <= 2 * pairs {
        return (0..count)
            .flat_map(|a| (a + 1..count).map(move |b| (a, b)))
            .collect();
    }
    let rows = pairs.isqrt().min(u64::from(count));
    let place = |number: u64, shift: u64| {
        ((2 * number + shift) * u64::from(count) / (2 * rows)).min(u64::from(count) - 1) as u32
    };
    let mut found: Vec<(u32, u32)> = (0..rows)
        .flat_map(|row| (0..rows).map(move |other| (place(row, 0), place(other, 1))))
        .filter(|(a, b)| a != b)
        .map(|(a, b)| (a.min(b), a.max(b)))
        .collect();
    found.sort_unstable();
    found.dedup();
    debug_assert!(
        found
            .iter()
            .all(|pair| pair.1.to_usize() < count.to_usize())
    );
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Numbers from 0 to 1 that look random.
    fn chance(state: &mut u64) -> f64 {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*state >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Pairs with scores by the law, in steps of 5, of which a share are copies.
    fn sample(count: usize, copies: f64, seed: u64) -> Vec<SampledPair> {
        let mut state = seed;
        (0..count)
            .map(|_| {
                let tokens = [0, 1].map(|_| (200.0 * (3.0 * chance(&mut state)).exp()) as u32);
                let ln_e = -13.0 + 0.9 * ln_product(tokens);
                let gumbel = (ln_e - (-chance(&mut state).ln()).ln()) / 0.4 + 15.0;
                let score = if chance(&mut state) < copies {
                    800
                } else {
                    5 * (gumbel / 5.0).max(0.0) as u32
                };
                SampledPair {
                    tokens,
                    score: if score < 15 { 0 } else { score },
                }
            })
            .collect()
    }

    #[test]
    fn a_share_p_of_unrelated_pairs_has_a_p_value_of_p() {
        for copies in [0.0, 0.002] {
            let model = ChanceModel::fit(&sample(10_000, copies, 1)).unwrap();
            let others = sample(50_000, 0.0, 2);
            for p in [0.1, 0.05, 0.01, 0.001] {
                let reached = others
                    .iter()
                    .filter(|pair| model.p_value(pair.tokens, pair.score) <= p);
                let share = reached.count() as f64 / others.len() as f64;
                assert!(
                    share <= 1.3 * p + 0.0002,
                    "{share} of unrelated pairs have p ≤ {p}"
                );
            }
            assert!(model.p_value([700, 700], 100) < 1e-6);
        }
    }

    proptest! {
        /// Higher scores and shorter texts are less likely; every p-value is a probability.
        #[test]
        fn p_values_are_monotonic(
            scores in prop::collection::vec((1_u32..100_000, 1_u32..100_000, 0_u32..60), 100..300),
            tokens in (1_u32..1_000_000, 1_u32..1_000_000), score in 0_u32..2_000,
        ) {
            let pairs: Vec<_> = scores.iter().map(|&(a, b, score)| SampledPair { tokens: [a, b], score: 5 * score }).collect();
            let model = ChanceModel::fit(&pairs).unwrap();
            let p = |a, b, score| model.p_value([a, b], score);
            let here = p(tokens.0, tokens.1, score);
            prop_assert!(here > 0.0 && here <= 1.0);
            prop_assert!(p(tokens.0, tokens.1, score + 5) <= here);
            prop_assert!(p(tokens.0 + 1, tokens.1, score) >= here);
        }

        #[test]
        fn spread_pairs_are_distinct(count in 0_u32..400, pairs in 1_u64..500) {
            let found = spread_pairs(count, pairs);
            prop_assert!(found.is_sorted_by(|one, two| one < two));
            prop_assert!(found.iter().all(|&(a, b)| a < b && b < count));
            prop_assert!(count < 2 || !found.is_empty());
        }
    }
}
