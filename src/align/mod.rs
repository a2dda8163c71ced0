//! Finds the passages that two documents share: copied word for word, edited, reworded or
//! summarized.
//!
//! ```text
//! text ──► words ──► windows ──► runs ──► copied parts ────┐
//!   │      [PreparedText]        [runs]   [verbatim]       ├──► candidates ──► passages
//!   └────► sentences ──► seeds ──► clusters ──► reworded ──┘    [candidate]    summaries
//!                        [seeds]   [seed_cluster] [reworded]                   [summary]
//! ```
//!
//! # Copied text
//!
//! Every window of `k` words of both documents is hashed to a blot. Each window that both have is
//! extended to the longest run of equal words, and runs with at most `k` words between them on both
//! sides are chained. A chain of `2·k` words or more is a *copied part*: verbatim if it is a single
//! run, else edited. It starts with its first word and ends with its last one, plus the punctuation
//! around them that both texts have, so a verbatim passage is exact to the character.
//!
//! With `k` = 3, the texts *a b c X d e f* and *a b c Y Z d e f* have the runs *a b c* and *d e f*.
//! At most two words lie between them, so they are one chain of 6 = 2·3 words: an edited passage.
//!
//! Words of scripts without spaces count by their length (`word_weight`), and about 40 characters in a row are enough
//! if they are equal to the character. Such a copy may start and end inside words; the equal characters around its
//! words belong to it.
//!
//! # Reworded text
//!
//! The copied words are removed, and the rest of the sentences is compared. A word counts by its
//! *term*, its first six letters, so most endings make no difference. A term weighs −ln p, where p
//! is the share of the sentences of both documents that have it. In 100 sentences a term of 50
//! sentences weighs ln 2 = 0.69, and one of two sentences weighs ln 50 = 3.9. No word lists are
//! needed, and nothing that only some languages have.
//!
//! 1. Two sentences are a *seed* if the cosine of their weight vectors and the Dice coefficient of
//!    their sets of terms are large enough, and neither has a much more similar partner.
//! 2. Seeds are grouped into *clusters*: split at gaps of one side, then at gaps of the other,
//!    until nothing splits any more. A cluster whose two sides are not similar as a whole is split
//!    again at smaller gaps.
//! 3. The boundaries of a cluster move sentence by sentence, to where the words of one side are
//!    accounted for by those of the other. `refine` has the formula.
//! 4. Of clusters that overlap, the one with more *evidence* remains. A cluster is a passage if it
//!    has enough: evidence = weight of the common terms × Dice coefficient of the two sides. Ten
//!    rare words in common that are 60 % of all words give 10 × 0.6 = 6.
//! 5. A passage also needs *information*: unrelated texts of the same lengths must be very unlikely
//!    to share these terms. Terms of many letters carry more of it than terms of few, so texts of a
//!    script without spaces, where a term may be a single character, are no passages because of the
//!    characters they share. `information` has the formula.
//!
//! A p-value says how unlikely that is; `p_value` has the formula.
//!
//! # Both together
//!
//! A copied part and the reworded sentences next to it on both sides form one edited passage.
//! Fragments that follow each other in both documents are one passage if the gaps between them are
//! narrow in relation to their lengths; `chain` has the rule. Spans that follow each other in `a`
//! and come from all over `b` form a *summary* of `b`. If several
//! places of `b` match the same span of `a`, the longest one is reported. Apart from that, and from
//! ties, swapping `a` and `b` gives the same passages.
//!
//! # Tokens other than words
//!
//! All tokenizers are compared by their windows. One window of lines is a passage; character
//! n-grams need 64. Only words are searched for rewording. DNA is compared on both strands, and
//! unknown bases match nothing. Markup that the tokenizer strips is in no text, count or passage;
//! [`to_document_offsets`] maps spans back to the document.
//!
//! # Origins
//!
//! The clustering follows Kong et al. (2012), the sentence seeds and their validation Sanchez-Perez
//! et al. (2014, 2015). New here: verbatim copies are removed first, boundaries account for words,
//! and one counter of evidence decides.
//!
//! # Bounds
//!
//! For n words in both documents, memory is O(n), about 100 bytes per word. Finding runs takes O(k
//! · n). Sentences are compared by the terms they share; the most frequent terms are skipped until
//! that takes at most [`AlignOptions::sentence_pairs`] steps. Each sentence keeps its best few
//! seeds, so the rest is O(n log n). No text makes it quadratic, makes it panic, or gives different
//! results in different runs.

mod candidate;
mod chain;
pub mod exclusions;
mod information;
pub mod many;
mod offsets;
mod overlap_counter;
mod p_value;
mod pair;
mod prepared_text;
mod refine;
mod reworded;
mod runs;
mod seed_cluster;
mod seeds;
mod sentence;
mod summary;
mod verbatim;
mod word_range;
mod word_weight;

#[cfg(test)]
mod tests;

use crate::base::num::ToU32;
use crate::text::{
    stream::Span,
    token::{Rule, Tokenization},
};
use candidate::{CandidatePassage, merge_neighbours};
use information::InformationCounter;
pub use offsets::{to_char_offsets, to_document_offsets};
use overlap_counter::OverlapCounter;
use p_value::p_value;
use pair::Pair;
pub use prepared_text::{PassageCoverage, PreparedText};
pub use word_range::WordRange;

/// Decides what counts as a passage. The defaults were fitted on half of a corpus of plagiarism
/// cases and confirmed on the other half.
#[derive(Debug, Clone, PartialEq)]
pub struct AlignOptions {
    /// The tokenizer. Both documents must have been prepared with it.
    pub tokenization: Tokenization,
    /// The number of equal words in a row that start a run; twice as many are a passage. Both
    /// documents must have been prepared with it.
    pub window_tokens: u32,
    /// Two sentences are a seed from this cosine on.
    pub min_cosine: f32,
    /// Two sentences are a seed from this Dice coefficient on.
    pub min_dice: f32,
    /// The widest gap inside a cluster of seeds, in bytes of text.
    pub max_gap_bytes: u32,
    /// The lowest cosine of the two sides of a cluster.
    pub min_cluster_cosine: f32,
    /// The least evidence of a reworded passage: weight of the common terms × Dice coefficient, in
    /// units of the weight of a term that is in one sentence of each document. Ten such terms that
    /// are 60 % of all are evidence 6.
    pub min_evidence: f32,
    /// The most steps that comparing sentences may take.
    pub sentence_pairs: u64,
    /// Whether passages get a p-value. Only words have one: its formula is calibrated on them.
    pub with_p_values: bool,
}

/// The default window.
pub const WINDOW_TOKENS: u32 = 8;

impl Default for AlignOptions {
    fn default() -> Self {
        Self {
            tokenization: Tokenization::default(),
            window_tokens: WINDOW_TOKENS,
            min_cosine: 0.25,
            min_dice: 0.25,
            max_gap_bytes: 300,
            min_cluster_cosine: 0.28,
            min_evidence: 6.0,
            sentence_pairs: 1 << 26,
            with_p_values: false,
        }
    }
}

/// The least number of n-grams in a passage of character n-grams: about twelve words.
const LEAST_GRAMS: u32 = 64;

impl AlignOptions {
    /// The least number of equal tokens in a copied part: two windows. A line says more than a
    /// word, so one window of lines is enough.
    fn least_tokens(&self) -> u32 {
        match self.tokenization.rule {
            Rule::Line => self.window_tokens,
            Rule::Char(_) => LEAST_GRAMS.max(2 * self.window_tokens),
            _ => 2 * self.window_tokens,
        }
    }

    /// The widest gap, in tokens, inside a copied part. A changed letter changes as many n-grams as
    /// an n-gram has letters.
    fn gap_tokens(&self) -> u32 {
        match self.tokenization.rule {
            Rule::Char(letters) => self.window_tokens + letters.to_u32() - 1,
            _ => self.window_tokens,
        }
    }

    /// Whether to search for reworded text: only words can be reworded.
    fn finds_reworded(&self) -> bool {
        self.tokenization.rule.is_words()
    }
}

/// How a passage was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PassageKind {
    /// Word for word, apart from white space, case and punctuation.
    Verbatim,
    /// Mostly word for word.
    Edited,
    /// In other words or another order.
    Reworded,
    /// A short version of all of `b`.
    Summary,
}

impl PassageKind {
    /// The name that records use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Verbatim => "verbatim",
            Self::Edited => "edited",
            Self::Reworded => "reworded",
            Self::Summary => "summary",
        }
    }
}

/// A span of one document and the matching span of the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Passage {
    /// The span in the text of `a`, in bytes, on character boundaries.
    pub a: Span,
    /// The span in the text of `b`.
    pub b: Span,
    /// The number of words that both spans have, each counted as often as both have it, whatever
    /// its ending.
    pub tokens: u32,
    /// The similarity, from 0 to 1: weight of the common words ÷ weight of all words; for a summary
    /// ÷ weight of the words of the shorter side.
    pub score: f64,
    /// The probability that unrelated texts share a passage with as much in common, if the options
    /// ask for it.
    pub p_value: Option<f64>,
    /// How it was copied.
    pub kind: PassageKind,
    /// For DNA: `b` has the reverse complement.
    pub is_reversed: bool,
}

/// The passages that two documents share, sorted by place in `a`, then in `b`. DNA is compared on
/// both strands.
pub fn align(a: &PreparedText, b: &PreparedText, options: &AlignOptions) -> Vec<Passage> {
    let mut passages = align_strand(a, b, options);
    if let Some(reverse) = b.reverse(options) {
        let to_this_strand = |passage: Passage| Passage {
            b: b.opposite_span(reverse.words_in(passage.b)),
            is_reversed: true,
            ..passage
        };
        passages.extend(
            align_strand(a, reverse, options)
                .into_iter()
                .map(to_this_strand),
        );
        passages.sort_by_key(|passage| {
            (
                passage.a.start,
                passage.b.start,
                passage.a.end,
                passage.b.end,
            )
        });
    }
    passages
}

fn align_strand(a: &PreparedText, b: &PreparedText, options: &AlignOptions) -> Vec<Passage> {
    if a.words.is_empty() || b.words.is_empty() {
        return Vec::new();
    }
    let copies = verbatim::copies(a, b, options);
    let copied: Vec<_> = copies.iter().map(|copy| (copy.a, copy.b)).collect();
    let pair = Pair::new(a, b, &copied);
    let mut counter = OverlapCounter::new(&pair);
    let mut information = InformationCounter::default();
    let mut candidates: Vec<CandidatePassage> = copies
        .iter()
        .map(|copy| CandidatePassage::from_copied_part(&pair, copy, &mut counter))
        .collect();
    if options.finds_reworded() {
        let parts = reworded::parts(&pair, options, &mut counter);
        let parts = parts
            .iter()
            .map(|part| CandidatePassage::from_reworded_part(&pair, part));
        candidates
            .extend(parts.filter(|part| information.nats_of(&pair, part) >= MIN_HINT_INFORMATION));
    }
    candidates.sort_by_key(CandidatePassage::place);
    let summaries = if options.finds_reworded() {
        summary::take(&mut candidates, b.text().len().to_u32(), options)
    } else {
        Vec::new()
    };
    let mut candidates = merge_neighbours(&pair, candidates, options.max_gap_bytes);
    if options.finds_reworded() {
        candidates = chain::chain(&pair, candidates);
        let least = least_evidence(&pair, &copies, options);
        drop_weak(&pair, &mut candidates, least, options, &mut information);
    }
    candidates.extend(summaries);
    let has_p_values = options.with_p_values && options.finds_reworded();
    candidates.sort_by_key(CandidatePassage::place);
    candidates
        .into_iter()
        .map(|candidate| Passage {
            p_value: has_p_values.then(|| {
                let nats = information.nats_of(&pair, &candidate);
                p_value(nats, [a.words.len(), b.words.len()])
            }),
            ..passage(&pair, &candidate, &mut counter)
        })
        .collect()
}

/// A reworded part with less information is not even a hint.
const MIN_HINT_INFORMATION: f32 = 1.0;
/// The least information of a reworded passage: unrelated texts of the same words would have it once
/// in 160,000 cases.
const MIN_INFORMATION: f32 = 12.0;
/// Documents that share a passage are on one subject, so that they have more words in common by
/// chance. A passage that is alone needs only this share of the evidence.
const EVIDENCE_ALONE: f32 = 5.0 / 6.0;

/// Drops reworded candidates that unrelated texts could have as well.
fn drop_weak(
    pair: &Pair<'_>,
    candidates: &mut Vec<CandidatePassage>,
    least: f32,
    options: &AlignOptions,
    information: &mut InformationCounter,
) {
    let is_strong = |candidate: &CandidatePassage| candidate.evidence >= options.min_evidence;
    let strong = candidates.iter().filter(|one| is_strong(one)).count();
    candidates.retain(|candidate| {
        let is_alone = strong == usize::from(is_strong(candidate));
        let least = if is_alone {
            EVIDENCE_ALONE * least
        } else {
            least
        };
        candidate.kind != PassageKind::Reworded
            || candidate.evidence >= least
                && candidate.words >= options.window_tokens
                && information.nats_of(pair, candidate) >= MIN_INFORMATION
    });
}

/// Someone who copies word for word rarely rewords as well, so next to a copied part of this many
/// windows a reworded passage needs more evidence.
const LONG_COPY_WINDOWS: u32 = 4;
const EVIDENCE_BESIDE_COPY: f32 = 2.0;
/// A few sentences do not show which terms are frequent: in documents of n sentences together,
/// passages need 1 + 2/n times the evidence.
const FEW_SENTENCES: f32 = 2.0;

/// The least evidence of a reworded passage of these two documents.
fn least_evidence(pair: &Pair<'_>, copies: &[verbatim::CopiedPart], options: &AlignOptions) -> f32 {
    let has_long_copy = copies
        .iter()
        .any(|copy| copy.words >= LONG_COPY_WINDOWS * options.window_tokens);
    let factor = if has_long_copy {
        EVIDENCE_BESIDE_COPY
    } else {
        1.0
    };
    let sentences = pair.a.document.sentences.len() + pair.b.document.sentences.len();
    factor * options.min_evidence * (1.0 + FEW_SENTENCES / sentences as f32)
}

/// Scores a candidate.
fn passage(pair: &Pair<'_>, candidate: &CandidatePassage, counter: &mut OverlapCounter) -> Passage {
    let common = counter.words(
        pair,
        pair.a.document.words_in(candidate.a),
        pair.b.document.words_in(candidate.b),
    );
    let score = match candidate.kind {
        PassageKind::Verbatim => 1.0,
        PassageKind::Summary => common.containment(),
        PassageKind::Edited | PassageKind::Reworded => common.dice(),
    };
    Passage {
        a: candidate.a,
        b: candidate.b,
        tokens: common.words,
        score: f64::from(score),
        p_value: None,
        kind: candidate.kind,
        is_reversed: false,
    }
}
