//! Compares with the definition: every cell of the whole matrix.

use super::*;
use crate::base::num::ToU32;
use proptest::prelude::*;
use std::collections::HashMap;

/// A document of small numbers for words.
struct Document {
    tokens: Vec<[u8; 8]>,
    trigrams: Vec<[u8; 4]>,
}

impl Document {
    fn new(words: &[u16]) -> Self {
        let tokens: Vec<_> = words
            .iter()
            .map(|&word| {
                (u64::from(word) + 1)
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    .to_le_bytes()
            })
            .collect();
        let mut trigrams = Vec::new();
        append_trigrams(&tokens, &mut trigrams);
        Self { tokens, trigrams }
    }

    fn sequence(&self) -> TokenSequence<'_> {
        TokenSequence {
            tokens: &self.tokens,
            trigrams: &self.trigrams,
        }
    }
}

fn areas(a: &[u16], b: &[u16], floor: u32) -> Vec<AlignedArea> {
    let (a, b) = (Document::new(a), Document::new(b));
    let mut comparer = Comparer::default();
    comparer.prepare(a.sequence());
    comparer.areas(a.sequence(), b.sequence(), floor).to_vec()
}

/// The number of occurrences of each trigram.
fn counts(words: &[u16]) -> HashMap<&[u16], usize> {
    let mut counts = HashMap::new();
    words
        .windows(SEED)
        .for_each(|three| *counts.entry(three).or_default() += 1);
    counts
}

#[derive(Clone, Copy)]
struct Way {
    score: i32,
    tokens: u32,
    area: usize,
}

/// The areas by the definition, without optimization.
fn by_definition(a: &[u16], b: &[u16], floor: u32) -> Vec<AlignedArea> {
    let (of_a, of_b) = (counts(a), counts(b));
    let begins = |i: usize, j: usize| {
        let (Some(one), Some(two)) = (a.get(i..i + SEED), b.get(j..j + SEED)) else {
            return false;
        };
        one == two && of_a[one] <= MOST_PLACES && of_b[two] <= MOST_PLACES
    };
    let mut cells: Vec<Vec<Option<Way>>> = vec![vec![None; a.len() + 1]; b.len() + 1];
    let mut drafts: Vec<AlignedArea> = Vec::new();
    for j in 0..b.len() {
        for i in 0..a.len() {
            // The cell of (i, j) stands at (i + 1, j + 1).
            let step = if a[i] == b[j] { (MATCH, 1) } else { (-EDIT, 0) };
            let ways = [
                (cells[j][i], step),
                (cells[j][i + 1], (-EDIT, 0)),
                (cells[j + 1][i], (-EDIT, 0)),
            ];
            let ways = ways.into_iter().filter_map(|(way, (change, more))| {
                let Way {
                    score,
                    tokens,
                    area,
                } = way?;
                let draft = &drafts[area];
                let strayed = (i as i64 - i64::from(draft.a.start) - j as i64
                    + i64::from(draft.b.start))
                .unsigned_abs();
                let is_alive = score + change > 0
                    && score + change >= draft.score as i32 - DROP
                    && strayed <= u64::from(STRAY);
                is_alive.then_some(Way {
                    score: score + change,
                    tokens: tokens + more,
                    area,
                })
            });
            let mut best = ways.reduce(|best, way| if way.score > best.score { way } else { best });
            let [column, row] = [i.to_u32(), j.to_u32()];
            if begins(i, j) && best.is_none_or(|best| best.score < MATCH) {
                best = Some(Way {
                    score: MATCH,
                    tokens: 1,
                    area: drafts.len(),
                });
                drafts.push(AlignedArea {
                    a: column..column + 1,
                    b: row..row + 1,
                    tokens: 1,
                    score: MATCH as u32,
                });
            }
            if let Some(best) = best {
                let draft = &mut drafts[best.area];
                if best.score > draft.score as i32 {
                    *draft = AlignedArea {
                        a: draft.a.start..column + 1,
                        b: draft.b.start..row + 1,
                        tokens: best.tokens,
                        score: best.score.unsigned_abs(),
                    };
                }
            }
            cells[j + 1][i + 1] = best;
        }
    }
    drafts.retain(|draft| draft.score >= floor);
    keep_reported(&mut drafts);
    drafts
}

/// A text and a copy of it with a few edits.
fn edited() -> impl Strategy<Value = (Vec<u16>, Vec<u16>)> {
    let edit = (any::<prop::sample::Index>(), 0..3_u8, 1000..1100_u16);
    (
        prop::collection::vec(0..300_u16, 1..160),
        prop::collection::vec(edit, 0..30),
        any::<prop::sample::Index>(),
    )
        .prop_map(|(text, edits, turn)| {
            let mut copy = text.clone();
            for (place, kind, word) in edits {
                let at = place.index(copy.len().max(1));
                match kind {
                    0 if at < copy.len() => copy[at] = word,
                    1 if at < copy.len() => drop(copy.remove(at)),
                    _ => copy.insert(at, word),
                }
            }
            let turn = turn.index(copy.len() + 1);
            copy.rotate_left(turn);
            (text, copy)
        })
}

/// A few words repeated between others.
fn repeats() -> impl Strategy<Value = Vec<u16>> {
    let part = (
        prop::collection::vec(0..4_u16, 1..6),
        1..40_usize,
        prop::collection::vec(0..12_u16, 0..10),
    );
    prop::collection::vec(part, 0..4).prop_map(|parts| {
        parts
            .into_iter()
            .flat_map(|(few, times, other)| [few.repeat(times), other].concat())
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn words_at_random((a, b, floor) in (2..30_u16).prop_flat_map(|words| {
        (prop::collection::vec(0..words, 0..150), prop::collection::vec(0..words, 0..150), 15..60_u32)
    })) {
        prop_assert_eq!(areas(&a, &b, floor), by_definition(&a, &b, floor));
    }

    #[test]
    fn copies_with_edits((a, b) in edited(), floor in 15..200_u32) {
        prop_assert_eq!(areas(&a, &b, floor), by_definition(&a, &b, floor));
    }

    #[test]
    fn text_that_repeats(a in repeats(), b in repeats(), floor in 15..200_u32) {
        prop_assert_eq!(areas(&a, &b, floor), by_definition(&a, &b, floor));
    }
}

fn words(range: Range<u16>) -> Vec<u16> {
    range.collect()
}

#[test]
fn a_worked_example() {
    assert_eq!(
        areas(&[1, 2, 3, 4, 5], &[1, 2, 3, 9, 4, 5], 15),
        [AlignedArea {
            a: 0..3,
            b: 0..3,
            tokens: 3,
            score: 15
        }]
    );
    let longer = areas(&[1, 2, 3, 4, 5, 6], &[1, 2, 3, 9, 4, 5, 6], 15);
    assert_eq!(
        longer,
        [AlignedArea {
            a: 0..6,
            b: 0..7,
            tokens: 6,
            score: 20
        }]
    );
}

#[test]
fn twenty_words_are_a_hundred() {
    let (a, b) = (
        [words(0..20), words(500..540)].concat(),
        [words(600..650), words(0..20)].concat(),
    );
    assert_eq!(
        areas(&a, &b, 100),
        [AlignedArea {
            a: 0..20,
            b: 50..70,
            tokens: 20,
            score: 100
        }]
    );
    assert_eq!(areas(&a, &b, 101), []);
}

#[test]
fn an_area_survives_ten_edits_but_not_eleven() {
    for (gap, count) in [(10, 1), (11, 2)] {
        let (a, b) = (
            words(0..200),
            [words(0..100), words(900..900 + gap), words(100 + gap..200)].concat(),
        );
        assert_eq!(areas(&a, &b, 100).len(), count, "{gap}");
    }
}

#[test]
fn documents_of_very_few_words() {
    for words in [&[][..], &[1], &[1, 2]] {
        assert_eq!(areas(words, words, 1), []);
        assert_eq!(areas(words, &[1, 2, 3, 4], 1), []);
        assert_eq!(areas(&[1, 2, 3, 4], words, 1), []);
    }
    assert_eq!(areas(&[1, 2, 3], &[1, 2, 3], 15), [AlignedArea::whole(3)]);
}

#[test]
fn a_repeated_word_begins_no_area_and_takes_no_time() {
    let (many, begun) = (vec![7; 60_000], [words(0..3), vec![7; 60_000]].concat());
    assert_eq!(areas(&many, &many, 100), []);
    assert_eq!(areas(&begun, &begun, 100), [AlignedArea::whole(60_003)]);
    let (few, most) = (vec![7; 66], vec![7; 67]);
    assert_eq!(
        (areas(&few, &few, 100).len(), areas(&most, &most, 100).len()),
        (1, 0)
    );
}

#[test]
fn an_area_does_not_stray() {
    // Nine of each hundred words are deleted.
    let a = words(0..10_000);
    let b: Vec<u16> = a.iter().copied().filter(|word| word % 100 >= 9).collect();
    let found = areas(&a, &b, 100);
    assert!(
        found.len() > 1
            && found
                .iter()
                .all(|area| area.a.len() - area.b.len() <= STRAY as usize)
    );
}

#[test]
fn areas_that_overlap_in_both_documents_are_reported_once() {
    let copy = words(0..40);
    let twice = [copy.clone(), words(700..800), copy.clone()].concat();
    let found = areas(&twice, &copy, 100);
    assert_eq!(
        found
            .iter()
            .map(|area| (area.a.start, area.score))
            .collect::<Vec<_>>(),
        [(0, 200), (140, 200)]
    );
}
