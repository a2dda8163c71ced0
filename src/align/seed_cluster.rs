//! Groups seeds that are close to each other on both sides.

use super::{seeds::Seed, sentence::Sentence};
use crate::base::num::ToUsize;

/// Sentences `a.0..=a.1` of one document and `b.0..=b.1` of the other.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SeedCluster {
    pub a: (u32, u32),
    pub b: (u32, u32),
    pub seeds: Vec<Seed>,
}

/// Splits seeds at gaps of more than `gap_bytes` between the sentences of one side, then of the
/// other, until nothing splits any more.
pub(super) fn clusters(
    seeds: Vec<Seed>,
    sentences: (&[Sentence], &[Sentence]),
    gap_bytes: u32,
) -> Vec<SeedCluster> {
    let mut found = Vec::new();
    // Seeds, how many times in a row they did not split, and whether to split by `a` next.
    let mut open = vec![(seeds, 0, true)];
    while let Some((mut seeds, stable, by_a)) = open.pop() {
        if stable == 2 {
            found.extend(cluster(seeds));
            continue;
        }
        let key = |seed: &Seed| {
            if by_a {
                (seed.a, seed.b)
            } else {
                (seed.b, seed.a)
            }
        };
        let list = if by_a { sentences.0 } else { sentences.1 };
        let is_near = |one: u32, two: u32| {
            two <= one + 1
                || list[two.to_usize()].bytes.start - list[one.to_usize()].bytes.end <= gap_bytes
        };
        seeds.sort_unstable_by_key(key);
        let parts: Vec<_> = seeds
            .chunk_by(|one, two| is_near(key(one).0, key(two).0))
            .map(<[Seed]>::to_vec)
            .collect();
        let stable = if parts.len() == 1 { stable + 1 } else { 1 };
        open.extend(parts.into_iter().map(|part| (part, stable, !by_a)));
    }
    found.sort_unstable_by_key(|cluster| (cluster.a, cluster.b));
    found
}

fn cluster(seeds: Vec<Seed>) -> Option<SeedCluster> {
    let first = seeds.first()?;
    let start = ((first.a, first.a), (first.b, first.b));
    let (a, b) = seeds.iter().fold(start, |(a, b), seed| {
        (
            (a.0.min(seed.a), a.1.max(seed.a)),
            (b.0.min(seed.b), b.1.max(seed.b)),
        )
    });
    Some(SeedCluster { a, b, seeds })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{align::WordRange, text::stream::Span};

    /// Sentences of nine bytes, one byte apart.
    fn sentences(count: u32) -> Vec<Sentence> {
        let sentence = |at| Sentence {
            words: WordRange {
                start: at,
                end: at + 1,
            },
            bytes: Span {
                start: 10 * at,
                end: 10 * at + 9,
            },
        };
        (0..count).map(sentence).collect()
    }

    fn ranges(seeds: &[(u32, u32)], gap_bytes: u32) -> Vec<[(u32, u32); 2]> {
        let seeds = seeds
            .iter()
            .map(|&(a, b)| Seed { a, b, cosine: 0.5 })
            .collect();
        let sentences = sentences(100);
        clusters(seeds, (&sentences, &sentences), gap_bytes)
            .into_iter()
            .map(|cluster| [cluster.a, cluster.b])
            .collect()
    }

    #[test]
    fn a_gap_on_either_side_splits() {
        assert_eq!(ranges(&[(1, 1), (2, 2), (3, 3)], 0), [[(1, 3), (1, 3)]]);
        assert_eq!(
            ranges(&[(1, 1), (3, 3)], 10),
            [[(1, 1), (1, 1)], [(3, 3), (3, 3)]]
        );
        assert_eq!(ranges(&[(1, 1), (3, 3)], 11), [[(1, 3), (1, 3)]]);
        assert_eq!(
            ranges(&[(1, 50), (2, 10), (3, 51), (4, 11)], 11),
            [[(1, 3), (50, 51)], [(2, 4), (10, 11)]]
        );
    }

    #[test]
    fn until_nothing_splits_any_more() {
        // All are close in `a`. Splitting by `b` separates them, and only then does `a` show a gap.
        assert_eq!(
            ranges(&[(1, 1), (2, 50), (3, 2)], 0),
            [[(1, 1), (1, 1)], [(2, 2), (50, 50)], [(3, 3), (2, 2)]]
        );
        assert_eq!(ranges(&[], 5), [[(0, 0); 2]; 0]);
    }
}
