//! Measures what two spans have in common.

use super::{
    pair::{Pair, PairSide},
    prepared_text::NO_TERM,
    word_range::WordRange,
};
use crate::base::num::{ToU32, ToUsize};

/// The terms that two spans have in common.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct CommonTerms {
    /// The number of words that both have, each counted as often as both have it.
    pub words: u32,
    /// The weight of these words.
    pub weight: f32,
    /// The weight of all words of `a`.
    pub weight_a: f32,
    /// The weight of all words of `b`.
    pub weight_b: f32,
}

impl CommonTerms {
    /// The Dice coefficient: 2 × common weight ÷ total weight.
    pub fn dice(&self) -> f32 {
        ratio(2.0 * self.weight, self.weight_a + self.weight_b)
    }

    /// Common weight ÷ weight of the lighter side.
    pub fn containment(&self) -> f32 {
        ratio(self.weight, self.weight_a.min(self.weight_b))
    }

    /// The evidence that this is no coincidence: common weight × Dice coefficient. Both factors
    /// matter: long texts on one subject have many words in common, and two short texts may be
    /// similar by chance.
    pub fn evidence(&self) -> f32 {
        self.weight * self.dice()
    }
}

fn ratio(part: f32, whole: f32) -> f32 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Counts terms; reuses its buffers from call to call.
pub(super) struct OverlapCounter {
    /// For each term of `a`: how often it is in the span of `a` and in the span of `b`.
    counts: Vec<[u32; 2]>,
    touched: Vec<u32>,
}

impl OverlapCounter {
    pub fn new(pair: &Pair<'_>) -> Self {
        Self {
            counts: vec![[0; 2]; pair.a.weights.len()],
            touched: Vec::new(),
        }
    }

    /// Compares all words of two ranges.
    pub fn words(&mut self, pair: &Pair<'_>, a: WordRange, b: WordRange) -> CommonTerms {
        let terms = |side: &PairSide<'_>, words: WordRange| {
            let terms = &side.document.terms[words.range()];
            terms
                .iter()
                .filter(|&&term| term != NO_TERM)
                .map(|&term| (term, 1))
                .collect::<Vec<_>>()
        };
        self.bags(
            pair,
            terms(&pair.a, a).into_iter(),
            terms(&pair.b, b).into_iter(),
        )
        .0
    }

    /// Compares the uncopied terms of sentences `a.0..=a.1` with those of `b.0..=b.1`; also returns
    /// the cosine.
    pub fn sentences(
        &mut self,
        pair: &Pair<'_>,
        a: (u32, u32),
        b: (u32, u32),
    ) -> (CommonTerms, f32) {
        let bags_a =
            (a.0..=a.1).flat_map(|sentence| pair.a.bags.get(sentence.to_usize()).iter().copied());
        let bags_b =
            (b.0..=b.1).flat_map(|sentence| pair.b.bags.get(sentence.to_usize()).iter().copied());
        self.bags(pair, bags_a, bags_b)
    }

    fn bags(
        &mut self,
        pair: &Pair<'_>,
        a: impl Iterator<Item = (u32, u32)>,
        b: impl Iterator<Item = (u32, u32)>,
    ) -> (CommonTerms, f32) {
        let mut common = CommonTerms::default();
        let mut squares_b = 0.0;
        for (term, count) in a {
            self.add(term, 0, count);
        }
        let mut only_b: Vec<(u32, u32)> = Vec::new();
        for (term, count) in b {
            match pair.b.other(term) {
                Some(other) => self.add(other.to_u32(), 1, count),
                None => only_b.push((term, count)),
            }
        }
        only_b.sort_unstable();
        for same in only_b.chunk_by(|one, two| one.0 == two.0) {
            let count: u32 = same.iter().map(|entry| entry.1).sum();
            let weight = pair.b.weights[same[0].0.to_usize()] * count as f32;
            common.weight_b += weight;
            squares_b += weight * weight;
        }
        let (mut dot, mut squares_a) = (0.0, 0.0);
        // Sorted, so that floating-point sums are the same in every run.
        self.touched.sort_unstable();
        for term in self.touched.drain(..) {
            let [in_a, in_b] = std::mem::take(&mut self.counts[term.to_usize()]);
            let weight = pair.a.weights[term.to_usize()];
            let (one, two) = (in_a as f32 * weight, in_b as f32 * weight);
            common.words += in_a.min(in_b);
            common.weight += one.min(two);
            common.weight_a += one;
            common.weight_b += two;
            dot += one * two;
            squares_a += one * one;
            squares_b += two * two;
        }
        (common, ratio(dot, (squares_a * squares_b).sqrt()))
    }

    fn add(&mut self, term: u32, side: usize, count: u32) {
        let counts = &mut self.counts[term.to_usize()];
        if *counts == [0; 2] {
            self.touched.push(term);
        }
        counts[side] += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::align::{AlignOptions, PreparedText};

    #[test]
    fn what_two_texts_have_in_common() {
        let options = AlignOptions::default();
        let prepare = |text: &str| PreparedText::new(text, &options);
        let (a, b) = (
            prepare("One two two three."),
            prepare("Two three three four five."),
        );
        let pair = Pair::new(&a, &b, &[]);
        let common = OverlapCounter::new(&pair).words(
            &pair,
            WordRange { start: 0, end: 4 },
            WordRange { start: 0, end: 5 },
        );
        // Two sentences, plus one: a term of both weighs ln(3/2), a term of one weighs ln 3.
        let (both, one) = (1.5_f32.ln(), 3.0_f32.ln());
        assert_eq!(common.words, 2);
        for (found, expected) in [
            (common.weight, 2.0 * both),
            (common.weight_a, one + 3.0 * both),
            (common.weight_b, 3.0 * both + 2.0 * one),
        ] {
            assert!((found - expected).abs() < 1e-5, "{found} is not {expected}");
        }
        assert!((common.dice() - 4.0 * both / (6.0 * both + 3.0 * one)).abs() < 1e-5);
        assert!((common.containment() - 2.0 * both / (3.0 * both + one)).abs() < 1e-5);
        assert_eq!(CommonTerms::default().dice(), 0.0);
    }
}
