//! Summaries: a stretch of one document that says what is in all of another.

use super::{AlignOptions, PassageKind, candidate::CandidatePassage};
use crate::text::stream::Span;

/// A summary is at most this share of what it sums up, or this one if its sentences are from one place …
const MAX_SHARE: f32 = 0.5;
const MAX_SHARE_ALONE: f32 = 0.25;
/// … and draws on this share of the other document, from the first to the last place: then it is of all of it.
const MIN_REACH: f32 = 0.2;
/// The least evidence without the part that has most: that one alone would be a passage.
const MIN_OTHER_EVIDENCE: f32 = 1.6;
/// Who sums up takes a sentence or two at a time: no part has more evidence than this.
const MAX_PART_EVIDENCE: f32 = 24.0;
/// Sentences that are copied word by word may be part of it, beside two or more that are in other words; and those must be evidence enough.
const MIN_REWORDED: usize = 2;
const MIN_REWORDED_EVIDENCE: f32 = 6.0;

/// Takes summaries of a document of `length_bytes` out of the drafts, which are sorted by their place.
pub(super) fn take(
    drafts: &mut Vec<CandidatePassage>,
    length_bytes: u32,
    options: &AlignOptions,
) -> Vec<CandidatePassage> {
    let follows = |one: &CandidatePassage, two: &CandidatePassage| {
        two.a.start <= one.a.end.saturating_add(options.max_gap_bytes)
    };
    let (mut summaries, mut rest) = (Vec::new(), Vec::new());
    for group in drafts.chunk_by(follows) {
        match summary(group, length_bytes) {
            Some(summary) => summaries.push(summary),
            None => rest.extend_from_slice(group),
        }
    }
    *drafts = rest;
    summaries
}

/// The summary that a group of neighbouring drafts makes, if it does.
fn summary(group: &[CandidatePassage], length_bytes: u32) -> Option<CandidatePassage> {
    let (first, others) = group.split_first()?;
    let whole = others.iter().fold(
        CandidatePassage {
            kind: PassageKind::Summary,
            ..*first
        },
        |whole, draft| whole.with(draft, PassageKind::Summary),
    );
    let most = group.iter().map(|draft| draft.evidence).fold(0.0, f32::max);
    let reworded: Vec<_> = group
        .iter()
        .filter(|draft| draft.kind == PassageKind::Reworded)
        .map(|draft| draft.evidence)
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
