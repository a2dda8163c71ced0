//! Chains fragments of one passage.
//!
//! A long reworded passage has sentences that share too few words with their sources, or moved, or
//! were added. They break it into fragments that follow each other in both documents. The more of
//! the passage is known, the more of it may be missing in between: fragments are chained if the gap
//! on each side is at most [`GAP_SHARE`] of the words of both fragments together, or
//! [`MIN_GAP_WORDS`]. Two fragments of 100 and 300 words may be 200 words apart.
//!
//! Gaps are counted in words, so they do not depend on the script. Two verbatim copies are never
//! chained: each is exact, and a gap between them is text of its own. A reworded fragment beside a copied
//! part needs more evidence than one beside another reworded fragment: it would move exact boundaries.

use super::{
    PassageKind, PreparedText,
    candidate::{CandidatePassage, LOOK_BACK, MIN_EVIDENCE_BESIDE_COPY},
    pair::Pair,
};
use crate::text::stream::Span;

/// The widest gap, as a share of the words of both fragments.
const GAP_SHARE: f32 = 0.5;
/// A gap of this many words is always narrow enough: two or three sentences.
const MIN_GAP_WORDS: f32 = 50.0;
/// The least evidence of a fragment.
const MIN_EVIDENCE: f32 = 1.5;

/// Chains candidates that follow each other in both documents. `candidates` must be sorted by place.
pub(super) fn chain(pair: &Pair<'_>, candidates: Vec<CandidatePassage>) -> Vec<CandidatePassage> {
    let mut chained: Vec<CandidatePassage> = Vec::with_capacity(candidates.len());
    for mut candidate in candidates {
        // A chain is longer than its last fragment, so it may reach farther back.
        while let Some(back) = chained
            .iter()
            .rev()
            .take(LOOK_BACK)
            .position(|other| can_chain(pair, other, &candidate))
        {
            let other = chained.remove(chained.len() - 1 - back);
            candidate = other.union(&candidate, kind_of_both(&other, &candidate));
        }
        chained.push(candidate);
    }
    chained
}

fn kind_of_both(one: &CandidatePassage, two: &CandidatePassage) -> PassageKind {
    let is_reworded = |candidate: &CandidatePassage| candidate.kind == PassageKind::Reworded;
    if is_reworded(one) && is_reworded(two) {
        PassageKind::Reworded
    } else {
        PassageKind::Edited
    }
}

/// Whether `two` follows `one` on both sides, after gaps that are narrow enough.
fn can_chain(pair: &Pair<'_>, one: &CandidatePassage, two: &CandidatePassage) -> bool {
    let are_verbatim = one.kind == PassageKind::Verbatim && two.kind == PassageKind::Verbatim;
    let (a, b) = (pair.a.document, pair.b.document);
    let widest = MIN_GAP_WORDS.max(GAP_SHARE * (words(pair, one) + words(pair, two)) as f32);
    !are_verbatim
        && are_sure(one, two)
        && is_before(one.a, two.a)
        && is_before(one.b, two.b)
        && gap_words(a, one.a, two.a).max(gap_words(b, one.b, two.b)) as f32 <= widest
        && !a.is_separated(one.a, two.a)
        && !b.is_separated(one.b, two.b)
}

/// Whether both have enough evidence; beside a copied part, as much as moves its boundaries.
fn are_sure(one: &CandidatePassage, two: &CandidatePassage) -> bool {
    let is_reworded = |candidate: &CandidatePassage| candidate.kind == PassageKind::Reworded;
    let least = if is_reworded(one) && is_reworded(two) {
        MIN_EVIDENCE
    } else {
        MIN_EVIDENCE_BESIDE_COPY
    };
    [one, two]
        .iter()
        .all(|candidate| !is_reworded(candidate) || candidate.evidence >= least)
}

/// Whether the middle of a span is before that of another: they may overlap.
fn is_before(one: Span, two: Span) -> bool {
    let twice_middle = |span: Span| u64::from(span.start) + u64::from(span.end);
    twice_middle(one) <= twice_middle(two)
}

/// The number of words of the shorter side.
fn words(pair: &Pair<'_>, candidate: &CandidatePassage) -> u32 {
    let a = pair.a.document.words_in(candidate.a);
    let b = pair.b.document.words_in(candidate.b);
    a.len().min(b.len())
}

/// The number of words after one span and before the other.
fn gap_words(document: &PreparedText, one: Span, two: Span) -> u32 {
    let (start, end) = (one.end, two.start.max(one.end));
    document.words_in(Span { start, end }).len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::align::AlignOptions;
    use proptest::prelude::*;

    /// 1,000 words of five bytes with a space.
    fn document() -> PreparedText {
        let text: String = (0..1000).map(|word| format!("w{word:04} ")).collect();
        PreparedText::new(text, &AlignOptions::default())
    }

    fn candidate(a: (u32, u32), b: (u32, u32), kind: PassageKind) -> CandidatePassage {
        let span = |words: (u32, u32)| Span {
            start: 6 * words.0,
            end: 6 * words.1 - 1,
        };
        CandidatePassage {
            a: span(a),
            b: span(b),
            kind,
            words: 10,
            evidence: 3.0,
        }
    }

    fn chains(candidates: &[CandidatePassage]) -> usize {
        let document = document();
        let pair = Pair::new(&document, &document, &[]);
        chain(&pair, candidates.to_vec()).len()
    }

    #[test]
    fn the_gap_follows_from_the_lengths() {
        use PassageKind::{Edited, Reworded, Verbatim};
        let fragments = |gap: u32, kinds: [PassageKind; 2]| {
            let (one, two) = ((0, 100), (100 + gap, 400 + gap));
            [candidate(one, one, kinds[0]), candidate(two, two, kinds[1])]
        };
        assert_eq!(chains(&fragments(200, [Reworded, Reworded])), 1);
        assert_eq!(chains(&fragments(201, [Reworded, Reworded])), 2);
        assert_eq!(chains(&fragments(200, [Verbatim, Edited])), 1);
        // Evidence 3 is too little to move the boundaries of a copy.
        assert_eq!(chains(&fragments(10, [Verbatim, Reworded])), 2);
        assert_eq!(chains(&fragments(10, [Verbatim, Verbatim])), 2);
        let short = [
            candidate((0, 10), (0, 10), Reworded),
            candidate((60, 70), (60, 70), Reworded),
        ];
        assert_eq!(chains(&short), 1);
    }

    #[test]
    fn fragments_must_follow_each_other_on_both_sides() {
        let crossed = [
            candidate((0, 100), (300, 400), PassageKind::Reworded),
            candidate((110, 200), (100, 200), PassageKind::Reworded),
        ];
        assert_eq!(chains(&crossed), 2);
    }

    proptest! {
        /// Every fragment is part of a chain, and chains have the evidence of their fragments.
        #[test]
        fn nothing_is_lost(places in prop::collection::vec((0_u32..900, 1_u32..100, 0_u32..900, 1_u32..100), 0..12)) {
            let document = document();
            let pair = Pair::new(&document, &document, &[]);
            let mut candidates: Vec<_> = places
                .into_iter()
                .map(|(a, long, b, wide)| candidate((a, a + long), (b, b + wide), PassageKind::Reworded))
                .collect();
            candidates.sort_by_key(CandidatePassage::place);
            let chained = chain(&pair, candidates.clone());
            let is_in = |one: Span, whole: Span| whole.start <= one.start && one.end <= whole.end;
            for one in &candidates {
                prop_assert!(chained.iter().any(|whole| is_in(one.a, whole.a) && is_in(one.b, whole.b)));
            }
            let sum = |all: &[CandidatePassage]| all.iter().map(|one| one.evidence).sum::<f32>();
            prop_assert!((sum(&candidates) - sum(&chained)).abs() < 0.01);
        }
    }
}
