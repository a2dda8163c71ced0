//! A pair of documents: the terms they share, the weights of terms, and the sentences without
//! copied words.

use super::{
    prepared_text::{PreparedText, SparseRows},
    word_range::WordRange,
};
use crate::base::num::{ToU32, ToUsize};
use std::{borrow::Cow, cmp::Ordering};

/// Two documents and the weights of their terms.
pub(super) struct Pair<'d> {
    pub a: PairSide<'d>,
    pub b: PairSide<'d>,
}

/// One document of the pair.
pub(super) struct PairSide<'d> {
    pub document: &'d PreparedText,
    /// For each term: the share p of the sentences of both documents that have it.
    pub shares: Vec<f32>,
    /// For each term: its weight −ln p. A term of few sentences weighs much, a term of all
    /// sentences nothing, so no stop words are needed. In 100 sentences a word of 50 weighs ln 2 =
    /// 0.69, a word of two ln 50 = 3.9.
    pub weights: Vec<f32>,
    /// For each term: its number in the other document, or [`NONE`].
    pub others: Vec<u32>,
    /// The terms of each sentence and their counts, without the words that were copied verbatim.
    pub bags: Cow<'d, SparseRows>,
    /// The sentences of each term.
    pub postings: Cow<'d, SparseRows>,
    /// The Euclidean norm of the weight vector of each sentence.
    pub norms: Vec<f32>,
}

/// A term that the other document does not have.
pub(super) const NONE: u32 = u32::MAX;

impl<'d> Pair<'d> {
    /// `copied`: the words of `a` and `b` that copied parts cover.
    pub fn new(
        a: &'d PreparedText,
        b: &'d PreparedText,
        copied: &[(WordRange, WordRange)],
    ) -> Self {
        let (others_a, others_b) = match_terms(&a.vocabulary, &b.vocabulary);
        let words_a: Vec<WordRange> = copied.iter().map(|copy| copy.0).collect();
        let words_b: Vec<WordRange> = copied.iter().map(|copy| copy.1).collect();
        Self {
            a: PairSide::new(a, b, others_a, &words_a),
            b: PairSide::new(b, a, others_b, &words_b),
        }
    }
}

impl Pair<'_> {
    /// The weight of a term that is in one sentence of each document.
    pub fn rare_weight(&self) -> f32 {
        let sentences = self.a.document.sentences.len() + self.b.document.sentences.len();
        ((sentences + 1) as f32 / 2.0).ln()
    }
}

impl<'d> PairSide<'d> {
    fn new(
        one: &'d PreparedText,
        two: &PreparedText,
        others: Vec<u32>,
        copied: &[WordRange],
    ) -> Self {
        // One more sentence that has none of the terms: every term has some weight, even if both
        // documents are one sentence.
        let sentences = (one.sentences.len() + two.sentences.len() + 1) as f32;
        let share = |(term, &other): (usize, &u32)| {
            let elsewhere = if other == NONE {
                0
            } else {
                two.postings.get(other.to_usize()).len()
            };
            (one.postings.get(term).len() + elsewhere) as f32 / sentences
        };
        let shares: Vec<f32> = others.iter().enumerate().map(share).collect();
        let weights: Vec<f32> = shares.iter().map(|share| -share.ln()).collect();
        let (bags, postings) = if copied.is_empty() {
            (Cow::Borrowed(&one.bags), Cow::Borrowed(&one.postings))
        } else {
            let bags = one.bags_without(copied);
            let postings = bags.inverted(one.vocabulary.len());
            (Cow::Owned(bags), Cow::Owned(postings))
        };
        let norms = (0..one.sentences.len())
            .map(|sentence| norm(bags.get(sentence), &weights))
            .collect();
        Self {
            document: one,
            shares,
            weights,
            others,
            bags,
            postings,
            norms,
        }
    }

    /// The number of a term in the other document.
    pub fn other(&self, term: u32) -> Option<usize> {
        let other = self.others[term.to_usize()];
        (other != NONE).then_some(other.to_usize())
    }
}

fn norm(bag: &[(u32, u32)], weights: &[f32]) -> f32 {
    bag.iter()
        .map(|&(term, count)| (count as f32 * weights[term.to_usize()]).powi(2))
        .sum::<f32>()
        .sqrt()
}

/// For each entry of one sorted list: its place in the other.
fn match_terms(a: &[u64], b: &[u64]) -> (Vec<u32>, Vec<u32>) {
    let (mut of_a, mut of_b) = (vec![NONE; a.len()], vec![NONE; b.len()]);
    let (mut at, mut bt) = (0, 0);
    while at < a.len() && bt < b.len() {
        match a[at].cmp(&b[bt]) {
            Ordering::Less => at += 1,
            Ordering::Greater => bt += 1,
            Ordering::Equal => {
                (of_a[at], of_b[bt]) = (bt.to_u32(), at.to_u32());
                (at, bt) = (at + 1, bt + 1);
            }
        }
    }
    (of_a, of_b)
}
