//! Scores of a pair of documents, and which pairs can still reach a threshold.
//!
//! Every bound is found by the very formula that gives the score. Its steps are correctly rounded, so it never falls when what is shared grows:
//! a pair is never lost, or added, by rounding.

/// What a pair is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Score {
    /// The larger of a→b and b→a: shared ÷ the lesser number of blots.
    ///
    /// 30 shared, 40 and 120 blots: 30/40 = 0.75.
    Containment,
    /// Shared ÷ blots in either.
    ///
    /// 30 shared, 40 and 120 blots: 30/(40+120−30) = 0.230769….
    Jaccard,
    /// Shared.
    ///
    /// 30 shared: 30.
    S1,
    /// Shared ÷ the lesser number of distinct blots: what containment is.
    ///
    /// 30 shared, 40 and 120 blots: 30/40 = 0.75. A page of 2,213 words with 110 distinct blots, and the same page again: 110/110 = 1.
    S2,
    /// Shared ÷ the mean number of distinct blots.
    ///
    /// 30 shared, 40 and 120 blots: 30/80 = 0.375. A page of 2,213 words with 110 distinct blots, and the same page again: 110/110 = 1.
    S3,
    /// The sum of 1/df over what is shared ÷ the mean number of distinct blots.
    ///
    /// 20 shared blots of 2 documents each and 10 of 5 each, 40 and 120 blots: (20/2+10/5)/80 = 0.15. The sum is taken set by set, rarest first.
    S4,
    /// The sum of 1/df over what is shared: what few others have counts more, and long documents have no advantage. What to look for sources with.
    ///
    /// 20 shared blots of 2 documents each and 10 of 5 each: 20/2+10/5 = 12.
    Rarity,
    /// a→b: shared ÷ blots of a. Not symmetric; what a table is ranked by.
    ///
    /// 30 shared, 40 and 120 blots: 30/40 = 0.75, and the other way round 30/120 = 0.25.
    Inclusion,
}

impl Score {
    /// What can be asked for, and the threshold where none is given.
    ///
    /// Of the DECO paper's thresholds T1 to T5 on Linux documentation (its table 3) these found most pairs with fewest wrong ones: s1 20 (100 % of the pairs, 70 % of those
    /// found right), s2 0.1 (100 %, 92 %), s3 0.1 (94 %, 100 %), s4 0.05 (96 %, 91 %; at 0.2 no group of six copies would be found, each of their blots being worth a sixth).
    /// Half of a document, or of both together, is what most would call a copy. A rarity of 2 finds sources of reworded text with `context:3`
    /// (BENCHMARKS.md).
    pub const NAMES: [(&'static str, Self, f64); 7] = [
        ("containment", Self::Containment, 0.5),
        ("jaccard", Self::Jaccard, 0.5),
        ("s1", Self::S1, 20.0),
        ("s2", Self::S2, 0.1),
        ("s3", Self::S3, 0.1),
        ("s4", Self::S4, 0.05),
        ("rarity", Self::Rarity, 2.0),
    ];

    /// Whether it asks how many documents have what is shared.
    pub fn needs_rarity(self) -> bool {
        matches!(self, Self::S4 | Self::Rarity)
    }

    pub fn default_threshold(self) -> f64 {
        Self::NAMES
            .iter()
            .find(|(_, score, _)| *score == self)
            .map_or(0.1, |row| row.2)
    }
}

/// A document of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Side {
    /// The document's distinct blots, however often each occurs in it.
    pub blots: u32,
}

/// What two documents have in common.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Overlap {
    pub shared: u32,
    /// The sum of 1/df over the shared blots; only some scores ask for it.
    pub rarity: f64,
}

/// A score and the least that counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measure {
    pub score: Score,
    pub threshold: f64,
    /// If the index keeps only a sample of the blots: how many blots each kept one stands for. [`Score::S1`] and [`Score::Rarity`] are counts, so they
    /// are multiplied by it; every other score is a ratio of two counts of the same sample.
    pub selection: Option<f64>,
}

impl Measure {
    pub fn score(&self, a: Side, b: Side, overlap: Overlap) -> f64 {
        let (shared, rate) = (f64::from(overlap.shared), self.selection.unwrap_or(1.0));
        let mean = (f64::from(a.blots) + f64::from(b.blots)) / 2.0;
        match self.score {
            Score::Containment | Score::S2 => shared / f64::from(a.blots.min(b.blots)),
            Score::Jaccard => shared / (f64::from(a.blots) + f64::from(b.blots) - shared),
            Score::S1 => shared * rate,
            Score::S3 => shared / mean,
            Score::S4 => overlap.rarity / mean,
            Score::Rarity => overlap.rarity * rate,
            Score::Inclusion => shared / f64::from(a.blots),
        }
    }

    /// How many blots are shared, or would be had all been kept.
    ///
    /// 30 shared in an index of `mod:16`: 480.
    pub fn scaled(&self, shared: u32) -> u64 {
        (f64::from(shared) * self.selection.unwrap_or(1.0)).round() as u64
    }

    /// Whether a pair with this in common counts. A pair with nothing in common never does.
    pub fn accepts(&self, a: Side, b: Side, overlap: Overlap) -> bool {
        overlap.shared > 0 && self.score(a, b, overlap) >= self.threshold
    }

    /// Whether `b` can count with no more in common than `most`. Never true again for a larger `b` once it is false.
    pub fn can_reach(&self, a: Side, b: Side, most: Overlap) -> bool {
        self.accepts(
            a,
            b,
            Overlap {
                shared: most.shared.min(a.blots),
                rarity: most.rarity * ABOVE_ROUNDING,
            },
        )
    }

    /// Whether `b` has too few blots, whatever is shared. Never true again for a larger `b` once it is false.
    pub fn is_too_small(&self, a: Side, b: Side) -> bool {
        match self.score {
            // How rare a shared blot is does not follow from the number of blots.
            Score::S4 | Score::Rarity => false,
            Score::Containment
            | Score::Jaccard
            | Score::S1
            | Score::S2
            | Score::S3
            | Score::Inclusion => {
                b.blots < a.blots
                    && !self.accepts(
                        a,
                        b,
                        Overlap {
                            shared: b.blots,
                            rarity: 0.0,
                        },
                    )
            }
        }
    }
}

/// Sums of up to 2^32 terms in another order differ by less than this.
const ABOVE_ROUNDING: f64 = 1.0 + 1e-6;

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
        let (a, b) = (Side { blots: 40 }, Side { blots: 120 });
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
    }

    #[test]
    fn nothing_in_common_is_no_pair() {
        let side = Side { blots: 0 };
        assert!(
            Score::NAMES
                .iter()
                .all(|&(_, score, _)| !measure(score, 0.0).accepts(side, side, Overlap::default()))
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
        /// What counts passes every bound that holds for it.
        #[test]
        fn bounds_lose_nothing(
            score in score(), threshold in 0.0..1.1, a in 1_u32..60, b in 1_u32..60, shared in 1_u32..60, more in 0_u32..9,
        ) {
            let (a, b) = (Side { blots: a }, Side { blots: b });
            let overlap = |shared: u32| Overlap { shared, rarity: f64::from(shared) / 3.0 };
            let (measure, shared) = (measure(score, threshold), shared.min(a.blots).min(b.blots));
            if measure.accepts(a, b, overlap(shared)) {
                prop_assert!(!measure.is_too_small(a, b));
                prop_assert!(measure.can_reach(a, b, overlap(shared + more)));
            }
        }

        /// Partners by rising size: those too small come first, those that cannot reach it last.
        #[test]
        fn bounds_are_borders(score in score(), threshold in 0.0..1.1, a in 1_u32..60, shared in 1_u32..60) {
            let measure = measure(score, threshold);
            let a = Side { blots: a };
            let sides: Vec<_> = (1..130).map(|size| Side { blots: size }).collect();
            prop_assert!(sides.is_sorted_by_key(|&b| !measure.is_too_small(a, b)));
            let most = Overlap { shared, rarity: f64::from(shared) };
            prop_assert!(sides.is_sorted_by_key(|&b| !measure.can_reach(a, b, most)));
        }
    }
}
