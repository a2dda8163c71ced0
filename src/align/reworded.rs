//! Finds reworded text: similar sentences, clustered, fitted and weighed.

use super::{
    AlignOptions,
    overlap_counter::{CommonTerms, OverlapCounter},
    pair::Pair,
    refine::BoundaryRefiner,
    seed_cluster::{SeedCluster, clusters},
    seeds::{Seed, seeds},
    sentence::Sentence,
};
use crate::base::num::ToUsize;
use crate::text::stream::Span;

/// Sentences of both documents that match, and their common terms.
#[derive(Debug, Clone, Copy)]
pub(super) struct RewordedPart {
    /// The span in the text of `a`, in bytes.
    pub a: Span,
    /// The span in the text of `b`.
    pub b: Span,
    pub common: CommonTerms,
}

/// A part with less evidence is not even a hint.
const MIN_HINT: f32 = 1.0;

/// The reworded parts of two documents; no two overlap on either side.
pub(super) fn parts(
    pair: &Pair<'_>,
    options: &AlignOptions,
    counter: &mut OverlapCounter,
) -> Vec<RewordedPart> {
    let mut clusters = Vec::new();
    collect_clusters(
        pair,
        seeds(pair, options),
        options.max_gap_bytes,
        options,
        counter,
        &mut clusters,
    );
    let mut refiner = BoundaryRefiner::new(pair);
    let mut measured = Vec::with_capacity(clusters.len());
    for mut cluster in clusters {
        refiner.refine(pair, &mut cluster);
        let (common, _) = counter.sentences(pair, cluster.a, cluster.b);
        if common.evidence() >= MIN_HINT * pair.rare_weight() {
            measured.push((cluster, common));
        }
    }
    let sentences = (
        &pair.a.document.sentences[..],
        &pair.b.document.sentences[..],
    );
    let part = |(cluster, common): (SeedCluster, CommonTerms)| RewordedPart {
        a: bytes(sentences.0, cluster.a),
        b: bytes(sentences.1, cluster.b),
        common,
    };
    without_overlaps(measured, sentences)
        .into_iter()
        .map(part)
        .collect()
}

fn bytes(sentences: &[Sentence], range: (u32, u32)) -> Span {
    Span {
        start: sentences[range.0.to_usize()].bytes.start,
        end: sentences[range.1.to_usize()].bytes.end,
    }
}

/// Collects the clusters whose sides are similar as a whole; splits the others again at smaller
/// gaps.
fn collect_clusters(
    pair: &Pair<'_>,
    seeds: Vec<Seed>,
    gap_bytes: u32,
    options: &AlignOptions,
    counter: &mut OverlapCounter,
    found: &mut Vec<SeedCluster>,
) {
    let sentences = (
        &pair.a.document.sentences[..],
        &pair.b.document.sentences[..],
    );
    for cluster in clusters(seeds, sentences, gap_bytes) {
        let (_, cosine) = counter.sentences(pair, cluster.a, cluster.b);
        if cosine > options.min_cluster_cosine {
            found.push(cluster);
        } else if gap_bytes > 0 {
            let narrower = if gap_bytes > MIN_GAP_BYTES {
                gap_bytes * 3 / 4
            } else {
                0
            };
            collect_clusters(pair, cluster.seeds, narrower, options, counter, found);
        }
    }
}

/// The smallest gap at which clusters are split.
const MIN_GAP_BYTES: u32 = 20;

/// Of clusters that overlap on either side, keeps the one with more evidence.
fn without_overlaps(
    mut parts: Vec<(SeedCluster, CommonTerms)>,
    sentences: (&[Sentence], &[Sentence]),
) -> Vec<(SeedCluster, CommonTerms)> {
    parts.sort_by(|(one, of_one), (two, of_two)| {
        of_two
            .evidence()
            .total_cmp(&of_one.evidence())
            .then((one.a, one.b).cmp(&(two.a, two.b)))
    });
    let (mut taken_a, mut taken_b) = (
        vec![false; sentences.0.len()],
        vec![false; sentences.1.len()],
    );
    parts.retain(|(cluster, _)| {
        let a = &mut taken_a[cluster.a.0.to_usize()..=cluster.a.1.to_usize()];
        let b = &mut taken_b[cluster.b.0.to_usize()..=cluster.b.1.to_usize()];
        let is_free = !a.contains(&true) && !b.contains(&true);
        if is_free {
            a.fill(true);
            b.fill(true);
        }
        is_free
    });
    parts
}
