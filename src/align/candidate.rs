//! Candidate passages, before it is decided which of them are reported.

use super::{
    PassageKind,
    overlap_counter::OverlapCounter,
    pair::Pair,
    reworded::RewordedPart,
    verbatim::{self, CopiedPart},
    word_range::is_mostly_in,
};
use crate::text::stream::Span;

/// A candidate passage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CandidatePassage {
    /// The span in the text of `a`, in bytes.
    pub a: Span,
    /// The span in the text of `b`.
    pub b: Span,
    pub kind: PassageKind,
    /// The number of words that both sides have.
    pub words: u32,
    /// The evidence, in the unit of
    /// [`AlignOptions::min_evidence`](super::AlignOptions::min_evidence).
    pub evidence: f32,
}

impl CandidatePassage {
    pub fn from_copied_part(
        pair: &Pair<'_>,
        copy: &CopiedPart,
        counter: &mut OverlapCounter,
    ) -> Self {
        let (a, b) = verbatim::bytes(pair.a.document, pair.b.document, copy);
        let kind = if copy.is_exact() {
            PassageKind::Verbatim
        } else {
            PassageKind::Edited
        };
        let evidence = counter.words(pair, copy.a, copy.b).evidence() / pair.rare_weight();
        Self {
            a,
            b,
            kind,
            words: copy.words,
            evidence,
        }
    }

    pub fn from_reworded_part(pair: &Pair<'_>, part: &RewordedPart) -> Self {
        let evidence = part.common.evidence() / pair.rare_weight();
        Self {
            a: part.a,
            b: part.b,
            kind: PassageKind::Reworded,
            words: part.common.words,
            evidence,
        }
    }

    /// The sort key.
    pub fn place(&self) -> (u32, u32, u32, u32) {
        (self.a.start, self.b.start, self.a.end, self.b.end)
    }

    /// The smallest candidate that covers both.
    pub fn union(self, other: &Self, kind: PassageKind) -> Self {
        let hull = |one: Span, two: Span| Span {
            start: one.start.min(two.start),
            end: one.end.max(two.end),
        };
        let (words, evidence) = (self.words + other.words, self.evidence + other.evidence);
        Self {
            a: hull(self.a, other.a),
            b: hull(self.b, other.b),
            kind,
            words,
            evidence,
        }
    }

    /// Whether both belong to one passage: they are close on both sides, and at least one is
    /// copied.
    fn can_merge(&self, other: &Self, pair: &Pair<'_>, gap_bytes: u32) -> bool {
        let is_near = |one: Span, two: Span| {
            one.start.max(two.start) <= one.end.min(two.end).saturating_add(gap_bytes)
        };
        let is_sure = |candidate: &Self| {
            candidate.kind != PassageKind::Reworded
                || candidate.evidence >= MIN_EVIDENCE_BESIDE_COPY
        };
        // If a phrase occurs once in one document and twice, close together, in the other, these
        // are two copies.
        let is_within = |one: Span, two: Span| {
            is_mostly_in(one.start..one.end, two.start..two.end)
                || is_mostly_in(two.start..two.end, one.start..one.end)
        };
        let are_copies = self.kind != PassageKind::Reworded && other.kind != PassageKind::Reworded;
        let has_copy = self.kind != PassageKind::Reworded || other.kind != PassageKind::Reworded;
        has_copy
            && is_sure(self)
            && is_sure(other)
            && is_near(self.a, other.a)
            && is_near(self.b, other.b)
            && (!are_copies || is_within(self.a, other.a) == is_within(self.b, other.b))
            && !pair.a.document.is_separated(self.a, other.a)
            && !pair.b.document.is_separated(self.b, other.b)
    }
}

/// The least evidence of a reworded span that may move the boundaries of a copied part.
pub(super) const MIN_EVIDENCE_BESIDE_COPY: f32 = 4.5;
/// The number of earlier candidates to try: only texts that repeat themselves have more nearby.
pub(super) const LOOK_BACK: usize = 16;

/// Merges copied parts with the reworded spans and the copied parts next to them. `candidates` must
/// be sorted by place.
pub(super) fn merge_neighbours(
    pair: &Pair<'_>,
    candidates: Vec<CandidatePassage>,
    gap_bytes: u32,
) -> Vec<CandidatePassage> {
    let mut merged: Vec<CandidatePassage> = Vec::with_capacity(candidates.len());
    for mut candidate in candidates {
        // A merged candidate reaches farther, so it may merge with others.
        while let Some(back) = merged
            .iter()
            .rev()
            .take(LOOK_BACK)
            .position(|other| other.can_merge(&candidate, pair, gap_bytes))
        {
            let other = merged.remove(merged.len() - 1 - back);
            candidate = candidate.union(&other, PassageKind::Edited);
        }
        merged.push(candidate);
    }
    merged
}
