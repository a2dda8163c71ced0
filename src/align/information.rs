//! How unlikely it is that unrelated texts share the words that two spans share.
//!
//! Each distinct term of one span is found in the other or not. In unrelated text a term with the
//! share p of all words is in a span of n words with probability q = 1 − (1 − p)ⁿ. If a share h of
//! the words survives rewording, it is there with probability h + (1 − h)·q. The sum of the
//! log-likelihood ratios
//!
//! ```text
//! found: ln((h + (1 − h)·q) ÷ q)       missing: ln(1 − h)
//! ```
//!
//! is the *information*, in nats. Whatever the terms are, unrelated texts have the information x or
//! more with a probability of at most e⁻ˣ, because the mean of a likelihood ratio is 1 if its
//! denominator is true. A term that any text has (q ≈ 1) adds nothing, so a hundred common letters
//! of Thai say less than ten rare words: the threshold needs no number of words, and does not
//! depend on the language.
//!
//! Two short texts do not show how frequent a term is. So p comes from the occurrences in both
//! documents, without the one of each span that is being judged, and from [`PRIOR_WORDS`] words of
//! imaginary text in which a term of n letters has the share e^(−1.5 − n): 0.011 for three letters,
//! 0.0006 for six. A Chinese character counts as three letters, a Hangul syllable as two.
//!
//! In a copy word for word each word has a single place in the other text, so n = 1.
//!
//! Worked example: both spans have 20 words, and "budget" is in both and nowhere else in documents of
//! 1,000 words. p = 200 · 0.0006 ÷ 1,200 = 0.0001, q = 0.002, and the term adds ln(0.501 ÷ 0.002) =
//! 5.5 nats at h = ½. "the" with 60 more occurrences has p = 0.052, q = 0.65 and adds 0.24.

use super::{
    PassageKind,
    candidate::CandidatePassage,
    pair::{Pair, PairSide},
    prepared_text::NO_TERM,
    word_range::WordRange,
};
use crate::base::num::ToUsize;

/// Words of imaginary text that the frequency of a term is estimated from, besides the documents.
const PRIOR_WORDS: f32 = 200.0;
/// Shares of words that survive rewording; the most likely one counts.
const SURVIVING: [f32; 4] = [0.2, 0.4, 0.6, 0.8];

/// Measures information; reuses its buffers from call to call.
#[derive(Default)]
pub(super) struct InformationCounter {
    /// For each term of a side: whether the other span has it.
    is_there: Vec<bool>,
    /// For each term of `a` and of `b`: how often both documents have it. Counted when it is first
    /// needed: most pairs have no reworded part.
    occurrences: Option<[Vec<u32>; 2]>,
}

impl InformationCounter {
    /// The information of a candidate.
    pub fn nats_of(&mut self, pair: &Pair<'_>, candidate: &CandidatePassage) -> f32 {
        let a = pair.a.document.words_in(candidate.a);
        let b = pair.b.document.words_in(candidate.b);
        self.nats(pair, a, b, candidate.kind == PassageKind::Verbatim)
    }

    /// The information of two spans: the larger one of both directions. `is_exact`: each word has
    /// the same place in both.
    fn nats(&mut self, pair: &Pair<'_>, a: WordRange, b: WordRange, is_exact: bool) -> f32 {
        let [of_a, of_b] = self
            .occurrences
            .get_or_insert_with(|| [occurrences(&pair.a, &pair.b), occurrences(&pair.b, &pair.a)]);
        let terms = of_a.len().max(of_b.len());
        self.is_there.resize(terms, false);
        let places = |other: WordRange| if is_exact { 1.0 } else { other.len() as f32 };
        let is_there = &mut self.is_there;
        let forward = one_way((&pair.a, a), (&pair.b, b), places(b), of_a, is_there);
        let backward = one_way((&pair.b, b), (&pair.a, a), places(a), of_b, is_there);
        forward.max(backward)
    }
}

/// The information of finding the terms of `own` in the other span, at one of some places.
fn one_way(
    (one, own): (&PairSide<'_>, WordRange),
    (two, other): (&PairSide<'_>, WordRange),
    places: f32,
    occurrences: &[u32],
    is_there: &mut [bool],
) -> f32 {
    mark(two, other, is_there, true);
    let mut distinct = one.document.terms[own.range()].to_vec();
    distinct.retain(|&term| term != NO_TERM);
    distinct.sort_unstable();
    distinct.dedup();
    let all = (one.document.words.len() + two.document.words.len()) as f32 + PRIOR_WORDS;
    let mut sums = [0.0_f32; SURVIVING.len()];
    for term in distinct.into_iter().map(ToUsize::to_usize) {
        let judged = 1 + u32::from(is_there[term]);
        let others = occurrences[term].saturating_sub(judged) as f32;
        let share = (others + PRIOR_WORDS * prior_share(one.document.letters[term])) / all;
        let chance = 1.0 - (1.0 - share.min(1.0)).powf(places);
        let chance = chance.max(f32::MIN_POSITIVE);
        for (sum, surviving) in sums.iter_mut().zip(SURVIVING) {
            *sum += if is_there[term] {
                ((surviving + (1.0 - surviving) * chance) / chance).ln()
            } else {
                (1.0 - surviving).ln()
            };
        }
    }
    mark(two, other, is_there, false);
    sums.into_iter().fold(0.0, f32::max)
}

/// Marks the terms that words of one side and the other document have, or unmarks them.
fn mark(side: &PairSide<'_>, words: WordRange, is_there: &mut [bool], value: bool) {
    let terms = side.document.terms[words.range()].iter();
    for term in terms
        .filter(|&&term| term != NO_TERM)
        .filter_map(|&term| side.other(term))
    {
        is_there[term] = value;
    }
}

/// For each term of a side: how often both documents have it.
fn occurrences(one: &PairSide<'_>, two: &PairSide<'_>) -> Vec<u32> {
    let mut counts = vec![0; one.others.len()];
    let own = one.document.terms.iter().filter(|&&term| term != NO_TERM);
    let others = two.document.terms.iter().filter(|&&term| term != NO_TERM);
    own.map(|term| term.to_usize())
        .chain(others.filter_map(|&term| two.other(term)))
        .for_each(|term| counts[term] += 1);
    counts
}

/// The share of all words that a term of this many letters has in imaginary text: 0.011 for three
/// letters, 0.0006 for six.
fn prior_share(letters: u8) -> f32 {
    (-1.5 - f32::from(letters)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::align::{AlignOptions, PreparedText};
    use proptest::prelude::*;

    /// The information of two texts as a whole.
    fn nats(a: &str, b: &str) -> f32 {
        let options = AlignOptions::default();
        let (a, b) = (
            PreparedText::new(a, &options),
            PreparedText::new(b, &options),
        );
        let pair = Pair::new(&a, &b, &[]);
        let all = |document: &PreparedText| WordRange {
            start: 0,
            end: document.words.len() as u32,
        };
        InformationCounter::default().nats(&pair, all(&a), all(&b), false)
    }

    #[test]
    fn rare_words_say_more_than_frequent_ones() {
        let long = nats(
            "Budget committees postponed decisions.",
            "Decisions that budget committees postponed.",
        );
        let short = nats("It is as it was.", "As it was, it is so.");
        assert!(long > 15.0, "{long}");
        assert!(short < 10.0, "{short}");
        assert_eq!(nats("one two three", "four five six"), 0.0);
    }

    #[test]
    fn letters_of_a_script_without_spaces_say_little() {
        let one = "ทุกคนมีสิทธิในการศึกษา การศึกษาจะต้องให้เปล่าอย่างน้อยในชั้นประถมศึกษา";
        let two = "บุคคลมีสิทธิในมาตรฐานการครองชีพอันเพียงพอสำหรับสุขภาพและความอยู่ดีของตน";
        let found = nats(one, two);
        assert!(found < 5.0, "{found}");
    }

    proptest! {
        #[test]
        fn symmetric_and_never_negative(a in "[a-d ]{0,60}", b in "[a-d ]{0,60}") {
            let (one, two) = (nats(&a, &b), nats(&b, &a));
            prop_assert!(one >= 0.0 && one.is_finite());
            prop_assert!((one - two).abs() <= 1e-3 * one.max(1.0));
        }
    }
}
