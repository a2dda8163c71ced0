//! Finds summaries: a span of one document that condenses all of the other.

use super::{AlignOptions, PassageKind, candidate::CandidatePassage};
use crate::text::stream::Span;

/// The most that a summary is of the text it condenses, if its sentences come from several places.
const MAX_SHARE: f32 = 0.5;
/// The same if they come from one place.
const MAX_SHARE_ALONE: f32 = 0.25;
/// The least share of the other document between the first and the last place it draws on.
const MIN_REACH: f32 = 0.2;
/// The least evidence without the strongest part, which alone would be a passage.
const MIN_OTHER_EVIDENCE: f32 = 1.6;
/// The most evidence of one part: a summary takes a sentence or two at a time.
const MAX_PART_EVIDENCE: f32 = 24.0;
/// The least number of reworded parts; sentences copied word for word may be part of a summary as
/// well.
const MIN_REWORDED: usize = 2;
/// The least evidence of the reworded parts together.
const MIN_REWORDED_EVIDENCE: f32 = 6.0;

/// Removes the candidates that form summaries of a document of `length_bytes`, and returns the
/// summaries. `candidates` must be sorted by place.
pub(super) fn take(
    candidates: &mut Vec<CandidatePassage>,
    length_bytes: u32,
    options: &AlignOptions,
) -> Vec<CandidatePassage> {
    let follows = |one: &CandidatePassage, two: &CandidatePassage| {
        two.a.start <= one.a.end.saturating_add(options.max_gap_bytes)
    };
    let (mut summaries, mut rest) = (Vec::new(), Vec::new());
    for group in candidates.chunk_by(follows) {
        match summary(group, length_bytes) {
            Some(summary) => summaries.push(summary),
            None => rest.extend_from_slice(group),
        }
    }
    *candidates = rest;
    summaries
}

/// The summary that a group of neighbouring candidates forms, if any.
fn summary(group: &[CandidatePassage], length_bytes: u32) -> Option<CandidatePassage> {
    let (first, others) = group.split_first()?;
    let whole = others.iter().fold(
        CandidatePassage {
            kind: PassageKind::Summary,
            ..*first
        },
        |whole, candidate| whole.union(candidate, PassageKind::Summary),
    );
    let most = group
        .iter()
        .map(|candidate| candidate.evidence)
        .fold(0.0, f32::max);
    let reworded: Vec<_> = group
        .iter()
        .filter(|candidate| candidate.kind == PassageKind::Reworded)
        .map(|candidate| candidate.evidence)
        .collect();
    let [short, long] = [whole.a, whole.b].map(|span| (span.end - span.start) as f32);
    let is_short = if others.is_empty() {
        short <= MAX_SHARE_ALONE * long
    } else {
        short <= MAX_SHARE * long && whole.evidence - most >= MIN_OTHER_EVIDENCE
    };
    let is_summary = is_short
        && long >= MIN_REACH * length_bytes as f32
        && most <= MAX_PART_EVIDENCE
        && reworded.len() >= MIN_REWORDED.min(group.len())
        && reworded.iter().sum::<f32>() >= MIN_REWORDED_EVIDENCE;
    is_summary.then_some(CandidatePassage {
        b: Span {
            start: 0,
            end: length_bytes,
        },
        ..whole
    })
}
