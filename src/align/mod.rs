//! Passages: which stretch of one document was taken from which stretch of another, word by word or in other words.
//!
//! ```text
//! text ──► words ──► windows ──► runs ──► copies ─────────┐
//!   │      [PreparedText]            [runs]   [verbatim]      ├──► drafts ──► passages
//!   └────► sentences ──► seeds ──► clusters ──► parts ────┘    [draft]    summaries
//!                        [seeds]   [cluster]    [reworded]                [summary]
//! ```
//!
//! **Word by word.** Both documents' windows of `k` words are hashed to blots. A window that both have is extended to the longest run
//! of equal words; runs with at most `k` words between them on both sides are chained. What has `2·k` words or more is a *copy*: verbatim if it is one run,
//! edited if it is a chain. Its ends are those of its first and last word, with the punctuation that both texts have around
//! them, so that a verbatim passage is exact to the character.
//!
//! **In other words.** What was copied is taken out of the sentences; then what is left is compared, each sentence with each. Words are cut to their
//! first letters, and weighed by how few sentences of the two documents have them: there are no lists of words and nothing that only some
//! languages have. Sentences are *seeds* if the cosine of their weight vectors and the Dice coefficient of their sets of words are large
//! enough, and no other sentence is much more alike. Seeds are grouped where they are close on both sides: split at gaps of one side, then of the other,
//! until nothing splits any more. A group whose sides are not alike as a whole is split at smaller gaps. The ends are moved sentence by
//! sentence, to where the words of the one side are accounted for by those of the other ([`refine`] has the formula).
//! What is left after overlaps are resolved counts if there is enough evidence: the weight of the common words times the share that they are of all.
//!
//! **Both.** A copy and reworded sentences beside it, on both sides, are one edited passage. Stretches that follow each other in `a` and come from all over
//! `b` are one *summary* of `b`, and of a stretch of `a` that several places of `b` have the longest is told. Apart from that, and from ties, it makes no
//! difference which document is called `a`.
//!
//! **Other tokens than words.** The windows of all tokenizers are compared in the same way; of lines one window is a passage, of runs of letters 64 of
//! them. Only words are looked for in other words. Of bases the other strand is compared, too, and unknown ones are like no other. Markup that the tokenizer strips is in no
//! text, no count and no passage; [`to_document_offsets`] leads back to the document.
//!
//! The grouping follows Kong et al. (2012), sentence seeds and their validation Sanchez-Perez et al. (2014, 2015). Taking verbatim copies out
//! first, accounting for words to find the ends, and one measure of evidence for what counts are this aligner's own.
//!
//! **Bounds.** With n words in both documents: memory is O(n), about 100 bytes a word. Runs cost O(k · n). Sentences are compared through
//! their common words; the most frequent words are left out until that is no more than [`AlignOptions::sentence_pairs`] steps, and a
//! sentence keeps its best few seeds, so that everything after it is O(n log n). No text makes it quadratic, panic or differ from run to run.

mod candidate;
/// Text that does not count: quotations, lists of references, templates.
pub mod exclusions;
mod offsets;
mod overlap_counter;
mod pair;
mod prepared_text;
mod refine;
pub mod repeat;
mod reworded;
mod runs;
mod seed_cluster;
mod seeds;
mod sentence;
mod summary;
mod verbatim;

#[cfg(test)]
mod tests;

use crate::base::num::ToU32;
use crate::text::{
    stream::Span,
    token::{Rule, Tokenization},
};
use candidate::{CandidatePassage, joined};
pub use offsets::{in_chars, to_document_offsets};
use overlap_counter::OverlapCounter;
use pair::Pair;
pub use prepared_text::{PassageCoverage, PreparedText};

/// What counts as a passage. The defaults were fitted on half of a corpus of plagiarism cases and confirmed on the other.
#[derive(Debug, Clone, PartialEq)]
pub struct AlignOptions {
    /// How documents become tokens. The documents must have been prepared with the same, as with the same window.
    pub tokenization: Tokenization,
    /// Words that must follow each other on both sides for a run to be seen; twice as many are a passage. The documents must have been prepared
    /// with the same number.
    pub window_tokens: u32,
    /// Two sentences are alike from this cosine and this Dice coefficient on.
    pub min_cosine: f32,
    pub min_dice: f32,
    /// Sentences that are alike belong together over gaps of so many bytes.
    pub max_gap_bytes: u32,
    /// The least cosine of the sides of a reworded passage.
    pub min_cluster_cosine: f32,
    /// The least evidence for a reworded passage: the weight of the common words × the share that they are of all, in units of what a word weighs that is
    /// in one sentence of either document. Ten such words that are 60 % of all are evidence 6.
    pub min_evidence: f32,
    /// The most steps that comparing sentences may take.
    pub sentence_pairs: u64,
}

/// The usual window.
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
        }
    }
}

/// The least number of letters in a passage: some twelve words.
const LEAST_GRAMS: u32 = 64;

impl AlignOptions {
    /// The least number of tokens that a copy has in common: two windows; of lines, each of which says much, one.
    fn least_tokens(&self) -> u32 {
        match self.tokenization.rule {
            Rule::Line => self.window_tokens,
            Rule::Char(_) => LEAST_GRAMS.max(2 * self.window_tokens),
            _ => 2 * self.window_tokens,
        }
    }

    /// The widest gap, in tokens, over which runs are one copy. A letter that was changed is in as many runs of letters as these have letters.
    fn gap_tokens(&self) -> u32 {
        match self.tokenization.rule {
            Rule::Char(letters) => self.window_tokens + letters.to_u32() - 1,
            _ => self.window_tokens,
        }
    }

    /// Only words can be said in other words.
    fn finds_reworded(&self) -> bool {
        self.tokenization.rule == Rule::Word
    }
}

/// How a passage was taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PassageKind {
    /// Word by word; white space, case and punctuation aside.
    Verbatim,
    /// Word by word for the most part.
    Edited,
    /// In other words or another order.
    Reworded,
    /// What is in all of `b`, in few words.
    Summary,
}

impl PassageKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Verbatim => "verbatim",
            Self::Edited => "edited",
            Self::Reworded => "reworded",
            Self::Summary => "summary",
        }
    }
}

/// A stretch of one document and the stretch of the other that goes with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Passage {
    /// Bytes of either text; both ends are ends of characters.
    pub a: Span,
    pub b: Span,
    /// How many words both have, each as often as both have it; endings make no difference.
    pub tokens: u32,
    /// How alike the two are, from 0 to 1: what the common words weigh ÷ what all weigh; for a summary ÷ what those of the shorter side weigh.
    pub score: f64,
    pub kind: PassageKind,
    /// Of bases: `b` has the reverse complement.
    pub is_reversed: bool,
}

/// The passages that two documents share, by their place in `a`, then in `b`. Of bases both strands are looked at.
pub fn align(a: &PreparedText, b: &PreparedText, options: &AlignOptions) -> Vec<Passage> {
    let mut passages = align_strand(a, b, options);
    if let Some(reverse) = b.reverse(options) {
        let facing = |passage: Passage| Passage {
            b: b.facing(reverse.words_in(passage.b)),
            is_reversed: true,
            ..passage
        };
        passages.extend(align_strand(a, reverse, options).into_iter().map(facing));
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
    let mut measure = OverlapCounter::new(&pair);
    let mut drafts: Vec<CandidatePassage> = copies
        .iter()
        .map(|copy| CandidatePassage::of_copy(&pair, copy, &mut measure))
        .collect();
    if options.finds_reworded() {
        drafts.extend(
            reworded::parts(&pair, options, &mut measure)
                .iter()
                .map(|part| CandidatePassage::of_part(&pair, part)),
        );
    }
    drafts.sort_by_key(CandidatePassage::place);
    let summaries = if options.finds_reworded() {
        summary::take(&mut drafts, b.text().len().to_u32(), options)
    } else {
        Vec::new()
    };
    let least = least_evidence(&pair, &copies, options);
    let mut drafts = joined(&pair, drafts, options.max_gap_bytes);
    let counts =
        |draft: &CandidatePassage| draft.evidence >= least && draft.words >= options.window_tokens;
    drafts.retain(|draft| draft.kind != PassageKind::Reworded || counts(draft));
    drafts.extend(summaries);
    drafts.sort_by_key(CandidatePassage::place);
    drafts
        .into_iter()
        .map(|draft| passage(&pair, &draft, &mut measure))
        .collect()
}

/// Who copies word by word does not often reword as well: beside a copy of so many windows a reworded passage needs more evidence.
const LONG_COPY_WINDOWS: u32 = 4;
const EVIDENCE_BESIDE_COPY: f32 = 2.0;
/// A document of a few sentences cannot give much: this share of all there is in it will do.
const SHARE_OF_ALL: f32 = 0.25;

/// The least evidence for a reworded passage of these documents.
fn least_evidence(pair: &Pair<'_>, copies: &[verbatim::CopiedPart], options: &AlignOptions) -> f32 {
    let has_long_copy = copies
        .iter()
        .any(|copy| copy.words >= LONG_COPY_WINDOWS * options.window_tokens);
    let factor = if has_long_copy {
        EVIDENCE_BESIDE_COPY
    } else {
        1.0
    };
    let all = pair.a.weight().min(pair.b.weight()) / pair.rare_weight();
    factor * options.min_evidence.min(SHARE_OF_ALL * all)
}

fn passage(pair: &Pair<'_>, draft: &CandidatePassage, measure: &mut OverlapCounter) -> Passage {
    let common = measure.words(
        pair,
        pair.a.document.words_in(draft.a),
        pair.b.document.words_in(draft.b),
    );
    let score = match draft.kind {
        PassageKind::Verbatim => 1.0,
        PassageKind::Summary => common.containment(),
        PassageKind::Edited | PassageKind::Reworded => common.dice(),
    };
    Passage {
        a: draft.a,
        b: draft.b,
        tokens: common.words,
        score: f64::from(score),
        kind: draft.kind,
        is_reversed: false,
    }
}
