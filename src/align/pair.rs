//! Two documents side by side: which terms they share, what each term weighs, and what is left of their sentences.

use super::prepared_text::{PreparedText, SparseRows};
use crate::base::num::{ToU32, ToUsize};
use crate::text::stream::Span;
use std::{borrow::Cow, cmp::Ordering};

/// Two documents and what their terms weigh.
pub(super) struct Pair<'d> {
    pub a: PairSide<'d>,
    pub b: PairSide<'d>,
}

/// One of the two.
pub(super) struct PairSide<'d> {
    pub document: &'d PreparedText,
    /// Of each term the share of the sentences of both documents that have it, p.
    pub shares: Vec<f32>,
    /// Of each term what it weighs: −ln p. A term that is in few sentences says much, one that is in all of them nothing; that takes the
    /// place of a list of stop words. In 100 sentences a word of 50 weighs ln 2 = 0.69, a word of two ln 50 = 3.9.
    pub weights: Vec<f32>,
    /// Of each term what it is called in the other document; [`NONE`] if it is not there.
    pub others: Vec<u32>,
    /// The terms of each sentence and how often they occur, without the words that were copied verbatim.
    pub bags: Cow<'d, SparseRows>,
    /// The sentences of each term.
    pub postings: Cow<'d, SparseRows>,
    /// The length of each sentence's vector of weights.
    pub norms: Vec<f32>,
}

pub(super) const NONE: u32 = u32::MAX;

impl<'d> Pair<'d> {
    /// `copied` are the words of either side that are accounted for.
    pub fn new(a: &'d PreparedText, b: &'d PreparedText, copied: &[(Span, Span)]) -> Self {
        let (others_a, others_b) = shared(&a.vocabulary, &b.vocabulary);
        let words_a: Vec<Span> = copied.iter().map(|copy| copy.0).collect();
        let words_b: Vec<Span> = copied.iter().map(|copy| copy.1).collect();
        Self {
            a: PairSide::new(a, b, others_a, &words_a),
            b: PairSide::new(b, a, others_b, &words_b),
        }
    }
}

impl Pair<'_> {
    /// What a term weighs that is in one sentence of either document.
    pub fn rare_weight(&self) -> f32 {
        let sentences = self.a.document.sentences.len() + self.b.document.sentences.len();
        ((sentences + 1) as f32 / 2.0).ln()
    }
}

impl<'d> PairSide<'d> {
    fn new(one: &'d PreparedText, two: &PreparedText, others: Vec<u32>, copied: &[Span]) -> Self {
        // And one more that has none of them: no word is worth nothing, even if both documents are one sentence.
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

    /// What all that is left weighs.
    pub fn weight(&self) -> f32 {
        let bags = (0..self.document.sentences.len()).flat_map(|sentence| self.bags.get(sentence));
        bags.map(|&(term, count)| count as f32 * self.weights[term.to_usize()])
            .sum()
    }

    /// What a term is called on the other side.
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

/// For each entry of one sorted list its place in the other.
fn shared(a: &[u64], b: &[u64]) -> (Vec<u32>, Vec<u32>) {
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
