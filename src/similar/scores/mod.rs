//! Scores of a pair of documents, and which pairs can still reach a threshold.
//!
//! Each score is a type in a file of its own that implements [`ScoreFormula`], and a row of the
//! table below. The trait requires the bounds by which a join drops candidates early, so a score
//! without them does not compile.
//!
//! Each bound applies the formula that gives the score. Its steps are correctly rounded, so it is
//! monotonic: rounding neither loses a pair nor adds one.

mod containment;
mod inclusion;
mod jaccard;
mod rarity;
mod relative_rarity;
mod s1;
mod s2;
mod s3;
mod s4;

/// How a score is computed, and how large it can still become.
pub trait ScoreFormula {
    /// The name by which users select it.
    const NAME: &'static str;
    /// The formula in words, one line for the help.
    const HELP: &'static str;
    /// The threshold if the user sets none.
    ///
    /// Bernstein and Zobel tried thresholds T1 to T5 on the Linux documentation (DECO, table 3).
    /// These found most pairs with the fewest wrong ones: s1 20 (100 % of the pairs, 70 % of those
    /// found are right), s2 0.1 (100 %, 92 %), s3 0.1 (94 %, 100 %), s4 0.05 (96 %, 91 %; at 0.2 a
    /// group of six copies would be missed, as each of their blots counts a sixth). Half of one
    /// document, or of both together, is what most people call a copy. A rarity of 2 finds the
    /// sources of reworded text with `context:3` (BENCHMARKS.md).
    const DEFAULT_THRESHOLD: f64;
    /// Whether it counts blots. A count grows with the rate at which an index samples blots; a ratio
    /// of two counts of the same sample does not.
    const IS_COUNT: bool;
    /// Whether it uses [`Overlap::rarity`].
    const NEEDS_RARITY: bool;

    /// The score of two documents with this overlap.
    fn score(a: DocumentSize, b: DocumentSize, overlap: Overlap) -> f64;

    /// The highest score of two documents that share at most `most`. It never rises with the size
    /// of `b`.
    fn upper_bound(a: DocumentSize, b: DocumentSize, most: Overlap) -> f64;

    /// The highest score of two documents of these sizes, if `b` is the smaller one, for any
    /// overlap. It never falls as `b` grows. Infinite if it does not follow from the sizes.
    fn size_bound(a: DocumentSize, b: DocumentSize) -> f64;

    /// The factor that makes up for a sample in which each blot stands for this many.
    fn sample_factor(blots: f64) -> f64 {
        if Self::IS_COUNT { blots } else { 1.0 }
    }
}

/// Defines [`Score`] from the table of formulas, and calls the formula of a score.
macro_rules! scores {
    (
        selectable { $($(#[$doc:meta])* $score:ident => $formula:ty,)* }
        internal { $($(#[$internal_doc:meta])* $internal:ident => $internal_formula:ty,)* }
    ) => {
        /// The score by which a pair is judged.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Score {
            $($(#[$doc])* $score,)*
            $($(#[$internal_doc])* $internal,)*
        }

        impl Score {
            /// The scores that users can select: name, score and default threshold.
            pub const NAMES: [(&'static str, Self, f64); [$(stringify!($score)),*].len()] = [
                $((
                    <$formula as ScoreFormula>::NAME,
                    Self::$score,
                    <$formula as ScoreFormula>::DEFAULT_THRESHOLD,
                ),)*
            ];

            /// The formula of each score that users can select, in words, in the same order.
            pub const HELP: [&'static str; Self::NAMES.len()] =
                [$(<$formula as ScoreFormula>::HELP,)*];

            /// Whether it depends on how many documents have each shared blot.
            pub fn needs_rarity(self) -> bool {
                match self {
                    $(Self::$score => <$formula as ScoreFormula>::NEEDS_RARITY,)*
                    $(Self::$internal => <$internal_formula as ScoreFormula>::NEEDS_RARITY,)*
                }
            }

            /// The threshold if the user sets none.
            pub fn default_threshold(self) -> f64 {
                match self {
                    $(Self::$score => <$formula as ScoreFormula>::DEFAULT_THRESHOLD,)*
                    $(Self::$internal => <$internal_formula as ScoreFormula>::DEFAULT_THRESHOLD,)*
                }
            }

            /// Whether it counts blots, and has no highest value; otherwise it is a share from 0 to 1.
            pub fn is_count(self) -> bool {
                match self {
                    $(Self::$score => <$formula as ScoreFormula>::IS_COUNT,)*
                    $(Self::$internal => <$internal_formula as ScoreFormula>::IS_COUNT,)*
                }
            }

            fn sample_factor(self, blots: f64) -> f64 {
                match self {
                    $(Self::$score => <$formula as ScoreFormula>::sample_factor(blots),)*
                    $(Self::$internal => <$internal_formula as ScoreFormula>::sample_factor(blots),)*
                }
            }

            fn score(self, a: DocumentSize, b: DocumentSize, overlap: Overlap) -> f64 {
                match self {
                    $(Self::$score => <$formula as ScoreFormula>::score(a, b, overlap),)*
                    $(Self::$internal => <$internal_formula as ScoreFormula>::score(a, b, overlap),)*
                }
            }

            fn upper_bound(self, a: DocumentSize, b: DocumentSize, most: Overlap) -> f64 {
                match self {
                    $(Self::$score => <$formula as ScoreFormula>::upper_bound(a, b, most),)*
                    $(Self::$internal => {
                        <$internal_formula as ScoreFormula>::upper_bound(a, b, most)
                    })*
                }
            }

            fn size_bound(self, a: DocumentSize, b: DocumentSize) -> f64 {
                match self {
                    $(Self::$score => <$formula as ScoreFormula>::size_bound(a, b),)*
                    $(Self::$internal => <$internal_formula as ScoreFormula>::size_bound(a, b),)*
                }
            }
        }
    };
}

scores! {
    selectable {
        /// Shared ÷ the lesser number of blots: the larger of a→b and b→a.
        ///
        /// 30 shared, 40 and 120 blots: 30/40 = 0.75.
        Containment => containment::Containment,
        /// Shared ÷ blots in either.
        ///
        /// 30 shared, 40 and 120 blots: 30/(40+120−30) = 0.230769….
        Jaccard => jaccard::Jaccard,
        /// The number of shared blots.
        ///
        /// 30 shared: 30.
        S1 => s1::S1,
        /// Shared ÷ the lesser number of distinct blots, as containment.
        ///
        /// 30 shared, 40 and 120 blots: 30/40 = 0.75. A page of 2,213 words with 110 distinct blots
        /// and a copy of it: 110/110 = 1.
        S2 => s2::S2,
        /// Shared ÷ the mean number of distinct blots.
        ///
        /// 30 shared, 40 and 120 blots: 30/80 = 0.375. A page of 2,213 words with 110 distinct blots
        /// and a copy of it: 110/110 = 1.
        S3 => s3::S3,
        /// The sum of 1/df over the shared blots ÷ the mean number of distinct blots.
        ///
        /// 20 shared blots of 2 documents each and 10 of 5 each, 40 and 120 blots:
        /// (20/2+10/5)/80 = 0.15. The sum is taken set by set, rarest first.
        S4 => s4::S4,
        /// The sum of 1/df over the shared blots: what few documents have counts more, and long
        /// documents have no advantage. Suits the search for sources.
        ///
        /// 20 shared blots of 2 documents each and 10 of 5 each: 20/2+10/5 = 12.
        Rarity => rarity::Rarity,
        /// Rarity ÷ the fourth root of the product of the numbers of blots in thousands: unrelated
        /// documents of any length get about the same.
        ///
        /// A rarity of 12, documents of 2,000 and 8,000 blots: 12/(2·8)^¼ = 6.
        RelativeRarity => relative_rarity::RelativeRarity,
    }
    internal {
        /// a→b: shared ÷ blots of a. Not symmetric; tables are ranked by it.
        ///
        /// 30 shared, 40 and 120 blots: 30/40 = 0.75, and the other way round 30/120 = 0.25.
        Inclusion => inclusion::Inclusion,
    }
}

/// The size of a document of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DocumentSize {
    /// The number of distinct blots, however often each occurs in the document.
    pub blots: u32,
}

fn mean_blots(a: DocumentSize, b: DocumentSize) -> f64 {
    (f64::from(a.blots) + f64::from(b.blots)) / 2.0
}

/// What two documents have in common.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Overlap {
    /// The number of shared blots.
    pub shared: u32,
    /// The sum of 1/df over the shared blots; 0 unless the score needs it.
    pub rarity: f64,
}

/// Sums of up to 2³² terms in another order differ by less than this factor.
const ABOVE_ROUNDING: f64 = 1.0 + 1e-6;

impl Overlap {
    /// This number of shared blots, for scores that do not need their rarity.
    pub fn of_blots(shared: u32) -> Self {
        Self {
            shared,
            rarity: 0.0,
        }
    }

    /// All blots of a document, for scores that do not need their rarity.
    fn all_of(document: DocumentSize) -> Self {
        Self::of_blots(document.blots)
    }

    /// The largest overlap that `a` can have, if there is no more than this to share.
    fn capped(self, a: DocumentSize) -> Self {
        Self {
            shared: self.shared.min(a.blots),
            rarity: self.rarity * ABOVE_ROUNDING,
        }
    }
}

/// A score and the threshold that a pair must reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measure {
    /// The score.
    pub score: Score,
    /// The lowest score of a pair that is reported.
    pub threshold: f64,
    /// If the index keeps a sample of the blots: the number of blots that each kept one stands for.
    /// Counts ([`Score::S1`], [`Score::Rarity`]) are multiplied by it.
    pub selection: Option<f64>,
}

impl Measure {
    /// The score of two documents.
    pub fn score(&self, a: DocumentSize, b: DocumentSize, overlap: Overlap) -> f64 {
        self.scale(self.score.score(a, b, overlap))
    }

    /// Estimates the score in an index of all blots.
    fn scale(&self, score: f64) -> f64 {
        let blots = self.selection.unwrap_or(1.0);
        score * self.score.sample_factor(blots)
    }

    /// Estimates how many blots are shared in an index of all blots.
    ///
    /// 30 shared in an index of `mod:16`: 480.
    pub fn scaled(&self, shared: u32) -> u64 {
        (f64::from(shared) * self.selection.unwrap_or(1.0)).round() as u64
    }

    /// Whether the pair reaches the threshold. A pair that shares nothing never does.
    pub fn accepts(&self, a: DocumentSize, b: DocumentSize, overlap: Overlap) -> bool {
        overlap.shared > 0 && self.score(a, b, overlap) >= self.threshold
    }

    /// Whether the pair can reach the threshold if it shares at most `most`. Once false, it stays
    /// false for every larger `b`.
    pub fn can_reach(&self, a: DocumentSize, b: DocumentSize, most: Overlap) -> bool {
        most.shared.min(a.blots) > 0
            && self.scale(self.score.upper_bound(a, b, most)) >= self.threshold
    }

    /// Whether `b` has too few blots to reach the threshold with any overlap. Once false, it stays
    /// false for every larger `b`.
    pub fn is_too_small(&self, a: DocumentSize, b: DocumentSize) -> bool {
        let can_suffice = || self.scale(self.score.size_bound(a, b)) >= self.threshold;
        b.blots < a.blots && !can_suffice()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn measure(score: Score, threshold: f64) -> Measure {
        Measure {
            score,
            threshold,
            selection: None,
        }
    }

    #[test]
    fn the_worked_examples() {
        let (a, b) = (DocumentSize { blots: 40 }, DocumentSize { blots: 120 });
        let overlap = Overlap {
            shared: 30,
            rarity: 20.0 / 2.0 + 10.0 / 5.0,
        };
        for (score, expected) in [
            (Score::Containment, 0.75),
            (Score::Jaccard, 30.0 / 130.0),
            (Score::S1, 30.0),
            (Score::S2, 0.75),
            (Score::S3, 0.375),
            (Score::S4, 0.15),
            (Score::Rarity, 12.0),
            (Score::Inclusion, 0.75),
        ] {
            assert_eq!(
                measure(score, 0.0).score(a, b, overlap),
                expected,
                "{score:?}"
            );
        }
        assert_eq!(measure(Score::Inclusion, 0.0).score(b, a, overlap), 0.25);
        let [two, eight] = [2_000, 8_000].map(|blots| DocumentSize { blots });
        let relative = measure(Score::RelativeRarity, 0.0);
        assert_eq!(relative.score(two, eight, overlap), 6.0);
        let sampled = |score| Measure {
            score,
            threshold: 0.0,
            selection: Some(16.0),
        };
        assert_eq!(sampled(Score::S1).scaled(30), 480);
        assert_eq!(
            [Score::S1, Score::S2, Score::Rarity].map(|score| sampled(score).score(a, b, overlap)),
            [480.0, 0.75, 192.0]
        );
        assert_eq!(
            sampled(Score::RelativeRarity).score(two, eight, overlap),
            4.0 * 6.0
        );
    }

    #[test]
    fn documents_without_common_blots_are_no_pair() {
        let empty = DocumentSize { blots: 0 };
        assert!(
            Score::NAMES
                .iter()
                .all(|&(_, score, _)| !measure(score, 0.0).accepts(
                    empty,
                    empty,
                    Overlap::default()
                ))
        );
    }

    fn score() -> impl Strategy<Value = Score> {
        prop::sample::select(
            Score::NAMES
                .map(|(_, score, _)| score)
                .into_iter()
                .chain([Score::Inclusion])
                .collect::<Vec<_>>(),
        )
    }

    proptest! {
        /// No bound is below the score that a pair reaches.
        #[test]
        fn bounds_are_never_below_the_score(
            score in score(), a in 1_u32..60, b in 1_u32..60, shared in 1_u32..60, more in 0_u32..9,
        ) {
            let sizes = [a, b].map(|blots| DocumentSize { blots });
            let shared = shared.min(a).min(b);
            let overlap = |shared: u32| Overlap { shared, rarity: f64::from(shared) / 3.0 };
            let reached = score.score(sizes[0], sizes[1], overlap(shared));
            prop_assert!(score.upper_bound(sizes[0], sizes[1], overlap(shared + more)) >= reached);
            if b < a {
                prop_assert!(score.size_bound(sizes[0], sizes[1]) >= reached);
            }
        }

        /// A pair that reaches the threshold passes every bound.
        #[test]
        fn pairs_that_count_pass_all_bounds(
            score in score(), threshold in 0.0..1.1, a in 1_u32..60, b in 1_u32..60, shared in 1_u32..60, more in 0_u32..9,
        ) {
            let (a, b) = (DocumentSize { blots: a }, DocumentSize { blots: b });
            let overlap = |shared: u32| Overlap { shared, rarity: f64::from(shared) / 3.0 };
            let (measure, shared) = (measure(score, threshold), shared.min(a.blots).min(b.blots));
            if measure.accepts(a, b, overlap(shared)) {
                prop_assert!(!measure.is_too_small(a, b));
                prop_assert!(measure.can_reach(a, b, overlap(shared + more)));
            }
        }

        /// By rising size, partners that are too small come first, those that cannot reach the
        /// threshold come last.
        #[test]
        fn bounds_split_partners_by_size(score in score(), threshold in 0.0..1.1, a in 1_u32..60, shared in 1_u32..60) {
            let measure = measure(score, threshold);
            let a = DocumentSize { blots: a };
            let sizes: Vec<_> = (1..130).map(|size| DocumentSize { blots: size }).collect();
            prop_assert!(sizes.is_sorted_by_key(|&b| !measure.is_too_small(a, b)));
            let most = Overlap { shared, rarity: f64::from(shared) };
            prop_assert!(sizes.is_sorted_by_key(|&b| !measure.can_reach(a, b, most)));
        }
    }
}
