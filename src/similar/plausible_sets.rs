//! Leaves out sets that no pair above the threshold can share, most of which are chance matches.
//!
//! Windows that have the same blot by chance are in a set of their own, mostly of one blot and two
//! contents. There is at most one such set for each pair of contents. So a pair shares at most one
//! blot more than either content shares in all other sets: if that is too little for the threshold,
//! the pair needs not be counted. For example, a document of 1,500 blots with 400 chance matches
//! in pairs and 60 in larger sets shares at most 61 blots with any other one, which is 4 %. A set
//! is left out if that holds for each pair of its members.

use super::scores::{DocumentSize, Measure, Overlap};
use crate::base::num::ToUsize;

/// Sets of more contents are kept: looking at each pair would take longer than counting them.
const SHORT: usize = 8;

/// The sets that a pair above the threshold may share. Memory: 8 bytes per content.
pub(super) struct PlausibleSets {
    measure: Measure,
    /// The most blots that each content can share with any other one.
    most: Vec<u32>,
    sizes: Vec<DocumentSize>,
}

impl PlausibleSets {
    /// None if the measure adds up fractions: a content that is compared with itself needs all of
    /// them.
    pub fn for_measure(measure: &Measure, contents: usize) -> Option<Self> {
        (!measure.score.needs_rarity()).then(|| Self {
            measure: *measure,
            most: vec![1; contents],
            sizes: Vec::new(),
        })
    }

    /// Counts a set; all must be counted before [`PlausibleSets::contains`] is asked.
    pub fn count(&mut self, blots: u32, members: &[u32]) {
        if blots == 1 && members.len() == 2 {
            return;
        }
        for content in members {
            let most = &mut self.most[content.to_usize()];
            *most = most.saturating_add(blots);
        }
    }

    /// Sets the size of each content.
    pub fn set_sizes(&mut self, sizes: &[DocumentSize]) {
        self.sizes = sizes.to_vec();
    }

    /// Whether a pair of these contents may reach the threshold.
    pub fn contains(&self, members: &[u32]) -> bool {
        members.len() > SHORT
            || members.iter().enumerate().any(|(at, &one)| {
                let mut others = members[at + 1..].iter();
                others.any(|&two| self.may_pair(one, two))
            })
    }

    fn may_pair(&self, one: u32, two: u32) -> bool {
        let [one, two] = [one, two].map(ToUsize::to_usize);
        let most = Overlap::of_blots(self.most[one].min(self.most[two]));
        let (a, b) = (self.sizes[one], self.sizes[two]);
        self.measure.can_reach(a, b, most) || self.measure.can_reach(b, a, most)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        CommonTextRule, Discovery, DiscoveryOptions, KeepRule, Neighbour, Score, clusters,
    };
    use super::*;
    use crate::base::ids::{ContentNo, DocNo};
    use crate::base::num::{ToF64, ToU32, ToU64};
    use crate::base::parallel::Limits;
    use crate::index::{Index, View, test_files};
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    /// A pair of documents, the blots that they share, and the score as bits.
    type Found = (DocNo, ContentNo, u32, u64);

    struct Answers {
        neighbours: Vec<Found>,
        best: Vec<Found>,
        groups: Vec<Vec<DocNo>>,
    }

    fn answers(
        view: &View<'_>,
        measure: Measure,
        memory_bytes: u64,
        common: CommonTextRule,
    ) -> Answers {
        let options = DiscoveryOptions {
            measure,
            common,
            limits: Limits::new(2, memory_bytes),
        };
        let discovery = Discovery::new(view, options).unwrap();
        assert!(
            memory_bytes > 1 || discovery.sets.is_partial() || discovery.sets.members_count() == 0
        );
        let list = |document: DocNo, neighbours: &Arc<[Neighbour]>, out: &mut Vec<Found>| {
            out.extend(neighbours.iter().map(|neighbour| {
                let Neighbour {
                    content,
                    shared,
                    score,
                } = *neighbour;
                (document, content, shared, score.to_bits())
            }));
        };
        let (mut neighbours, mut best, mut groups) = (Vec::new(), Vec::new(), Vec::new());
        discovery
            .for_each_document(
                list,
                |_| 1,
                |found| {
                    neighbours.extend(found);
                    Ok(())
                },
            )
            .unwrap();
        if measure.score == Score::Inclusion {
            discovery
                .for_each_best(
                    2,
                    list,
                    |_| 1,
                    |found| {
                        best.extend(found);
                        Ok(())
                    },
                )
                .unwrap();
        } else {
            clusters(&discovery, KeepRule::First, |cluster| {
                groups.push(cluster.members.clone());
                Ok(())
            })
            .unwrap();
        }
        Answers {
            neighbours,
            best,
            groups,
        }
    }

    /// All pairs by the definition; documents of one content are not compared.
    fn by_definition(documents: &[BTreeSet<u64>], measure: Measure) -> Vec<Found> {
        let mut found = Vec::new();
        let df = |blot: &u64| {
            documents
                .iter()
                .filter(|blots| blots.contains(blot))
                .count()
        };
        for (a, one) in documents.iter().enumerate() {
            for (b, two) in documents.iter().enumerate().filter(|&(b, _)| b != a) {
                let [one_size, two_size] = [one, two].map(|blots| DocumentSize {
                    blots: blots.len().to_u32(),
                });
                let overlap = Overlap {
                    shared: one.intersection(two).count().to_u32(),
                    rarity: one
                        .intersection(two)
                        .map(|blot| 1.0 / df(blot).to_u64().to_f64())
                        .sum(),
                };
                if measure.accepts(one_size, two_size, overlap) {
                    let score = measure.score(one_size, two_size, overlap).to_bits();
                    found.push((
                        DocNo::from_index(a),
                        ContentNo::from_index(b),
                        overlap.shared,
                        score,
                    ));
                }
            }
        }
        found
    }

    fn measure(score: Score, threshold: f64) -> Measure {
        Measure {
            score,
            threshold,
            selection: None,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(80))]
        #[test]
        fn chance_matches_change_no_answer_and_neither_does_memory(
            groups in prop::collection::vec((1_usize..5, 3_u64..30), 1..12),
            few_bits in 6_u32..14, seed in any::<u64>(), threshold in 0.0_f64..1.0,
            score in prop::sample::select(vec![
                Score::Containment, Score::Jaccard, Score::S1, Score::S3, Score::Inclusion, Score::S4,
            ]),
        ) {
            // Copies with changes, and blots so narrow that unrelated documents share some.
            let mut random = seed;
            let mut next = |below: u64| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (random >> 33) % below
            };
            let mut documents: Vec<BTreeSet<u64>> = Vec::new();
            for &(copies, length) in &groups {
                let text: Vec<u64> = (0..length).map(|_| next(1 << few_bits)).collect();
                for _ in 0..copies {
                    let changed = |blot: &u64| if next(6) == 0 { next(1 << few_bits) } else { *blot };
                    let blots: BTreeSet<u64> = text.iter().map(changed).collect();
                    if !documents.contains(&blots) {
                        documents.push(blots);
                    }
                }
            }
            let directory = tempfile::tempdir().unwrap();
            let ids: Vec<String> = (0..documents.len()).map(|at| format!("{at:05}")).collect();
            let rows: Vec<_> = ids.iter().zip(&documents).enumerate()
                .map(|(at, (id, blots))| (id.as_str(), at.to_u64(), blots.iter().copied().collect()))
                .collect();
            test_files::commit(directory.path(), &rows, &[]);
            let index = Index::open(directory.path()).unwrap();
            let view = View::by_id(&index).unwrap();
            let threshold = if score == Score::S1 { (20.0 * threshold).floor() } else { threshold };
            let measure = measure(score, threshold);
            let common = CommonTextRule::Counts;
            let [tiny, large] = [1, 1 << 30].map(|memory| answers(&view, measure, memory, common));
            if !score.needs_rarity() {
                prop_assert_eq!(&large.neighbours, &by_definition(&documents, measure));
            }
            prop_assert_eq!(tiny.neighbours, large.neighbours);
            prop_assert_eq!(tiny.best, large.best);
            prop_assert_eq!(tiny.groups, large.groups);
        }
    }
}
