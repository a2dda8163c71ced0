//! Passages in the making.

use super::{
    PassageKind,
    overlap_counter::OverlapCounter,
    pair::Pair,
    reworded::RewordedPart,
    verbatim::{self, CopiedPart},
};
use crate::text::stream::Span;

/// A passage, as long as it is open whether it stays one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CandidatePassage {
    /// Bytes of either text.
    pub a: Span,
    pub b: Span,
    pub kind: PassageKind,
    /// How many words both sides have.
    pub words: u32,
    /// As [`AlignOptions::min_evidence`](super::AlignOptions::min_evidence) counts it.
    pub evidence: f32,
}

impl CandidatePassage {
    pub fn of_copy(pair: &Pair<'_>, copy: &CopiedPart, measure: &mut OverlapCounter) -> Self {
        let (a, b) = verbatim::bytes(pair.a.document, pair.b.document, copy);
        let kind = if copy.is_exact() {
            PassageKind::Verbatim
        } else {
            PassageKind::Edited
        };
        let evidence = measure.words(pair, copy.a, copy.b).evidence() / pair.rare_weight();
        Self {
            a,
            b,
            kind,
            words: copy.words,
            evidence,
        }
    }

    pub fn of_part(pair: &Pair<'_>, part: &RewordedPart) -> Self {
        let evidence = part.common.evidence() / pair.rare_weight();
        Self {
            a: part.a,
            b: part.b,
            kind: PassageKind::Reworded,
            words: part.common.words,
            evidence,
        }
    }

    /// What passages are sorted by.
    pub fn place(&self) -> (u32, u32, u32, u32) {
        (self.a.start, self.b.start, self.a.end, self.b.end)
    }

    /// The shortest that has both.
    pub fn with(self, other: &Self, kind: PassageKind) -> Self {
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

    /// Whether both are one passage that is copied in part: they are close on both sides, and not both are reworded.
    fn joins(&self, other: &Self, pair: &Pair<'_>, gap_bytes: u32) -> bool {
        let is_near = |one: Span, two: Span| {
            one.start.max(two.start) <= one.end.min(two.end).saturating_add(gap_bytes)
        };
        let is_sure =
            |draft: &Self| draft.kind != PassageKind::Reworded || draft.evidence >= MIN_EVIDENCE;
        // A phrase that one document has once and the other twice, close together, is two copies.
        let is_within = |one: Span, two: Span| {
            verbatim::is_mostly_in(one, two) || verbatim::is_mostly_in(two, one)
        };
        let are_copies = self.kind != PassageKind::Reworded && other.kind != PassageKind::Reworded;
        let has_copy = self.kind != PassageKind::Reworded || other.kind != PassageKind::Reworded;
        has_copy
            && is_sure(self)
            && is_sure(other)
            && is_near(self.a, other.a)
            && is_near(self.b, other.b)
            && (!are_copies || is_within(self.a, other.a) == is_within(self.b, other.b))
            && !pair.a.document.is_parted(self.a, other.a)
            && !pair.b.document.is_parted(self.b, other.b)
    }
}

/// What a reworded stretch must have to move the ends of a copy.
const MIN_EVIDENCE: f32 = 4.5;
/// So many of the drafts before are looked at: more are close only in texts that repeat themselves.
const LOOK_BACK: usize = 16;

/// Joins what was copied with what was reworded beside it, and copies with other copies beside them. `drafts` are sorted by their place.
pub(super) fn joined(
    pair: &Pair<'_>,
    drafts: Vec<CandidatePassage>,
    gap_bytes: u32,
) -> Vec<CandidatePassage> {
    let mut done: Vec<CandidatePassage> = Vec::with_capacity(drafts.len());
    for mut draft in drafts {
        // What has been joined reaches farther: it may join others.
        while let Some(back) = done
            .iter()
            .rev()
            .take(LOOK_BACK)
            .position(|other| other.joins(&draft, pair, gap_bytes))
        {
            let other = done.remove(done.len() - 1 - back);
            draft = draft.with(&other, PassageKind::Edited);
        }
        done.push(draft);
    }
    done
}
