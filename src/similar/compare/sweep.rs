//! Computes the living cells row by row.

use super::{
    AlignedArea, DROP, EDIT, MATCH, SEED, STRAY, TokenSequence, keep_reported,
    trigrams::{TrigramTable, seeds},
};
use crate::base::num::{ToU32, ToU64, ToUsize};

/// A living cell of the last row or the current one.
#[derive(Debug, Clone, Copy)]
struct Cell {
    column: u32,
    score: i32,
    /// The number of equal tokens so far.
    tokens: u32,
    /// The index of its open area.
    area: u32,
}

/// An open area: its start, and its best end so far.
#[derive(Debug, Clone, Copy)]
struct OpenArea {
    start: [u32; 2],
    end: [u32; 2],
    best: i32,
    tokens: u32,
}

/// The score of three equal tokens.
const CHANCE_SCORE: u32 = SEED as u32 * MATCH as u32;

/// Compares one document, which is prepared once, with others. Each thread has its own comparer.
#[derive(Default)]
pub struct Comparer {
    table: TrigramTable,
    /// The cells of the last row.
    last: Vec<Cell>,
    /// The cells of the current row.
    next: Vec<Cell>,
    open_areas: Vec<OpenArea>,
    /// Rows in which areas may begin.
    hits: Vec<u32>,
    /// Columns in which areas may begin in the current row.
    places: Vec<u32>,
    found: Vec<AlignedArea>,
}

impl Comparer {
    /// Prepares the document to compare with others.
    pub fn prepare(&mut self, a: TokenSequence<'_>) {
        self.table.fill(a);
    }

    /// The areas of `a`, which must be the prepared document, and `b` with at least the score
    /// `floor`, best first.
    pub fn areas(
        &mut self,
        a: TokenSequence<'_>,
        b: TokenSequence<'_>,
        floor: u32,
    ) -> &[AlignedArea] {
        self.found.clear();
        if a.tokens.len().min(b.tokens.len()).to_u64() * MATCH as u64 >= u64::from(floor) {
            let count = self.table.find(seeds(b), &mut self.hits);
            if count.to_u64() >= u64::from(floor.div_ceil(MATCH as u32)).saturating_sub(2) {
                let hits = std::mem::take(&mut self.hits);
                self.sweep(a, b, &hits[..count], floor);
                self.hits = hits;
                keep_reported(&mut self.found);
            }
        }
        &self.found
    }

    fn sweep(&mut self, a: TokenSequence<'_>, b: TokenSequence<'_>, hits: &[u32], floor: u32) {
        let (mut row, mut hit) = (0, 0);
        self.last.clear();
        loop {
            let next = hits.get(hit).copied();
            if self.last.is_empty() {
                self.close_areas(floor);
                let Some(next) = next else { break };
                row = next;
            } else if row.to_usize() >= b.tokens.len() {
                break;
            }
            self.places.clear();
            if next == Some(row) {
                self.table
                    .places(a, b.trigrams[row.to_usize()], &mut self.places);
                hit += 1;
            }
            let is_alone = || hits.get(hit).is_none_or(|&next| next > row + SEED as u32);
            if self.last.is_empty()
                && floor > CHANCE_SCORE
                && is_alone()
                && self.are_by_chance(a, b, row)
            {
                continue;
            }
            self.step(a, b, row);
            row += 1;
        }
        self.close_areas(floor);
    }

    /// Whether all areas that may begin in a row end after three tokens, as most chance matches do.
    /// No cell is alive and none of the next three rows begins an area, so the fourth tokens
    /// differ. After one edit the score is 5, and the area ends unless the next tokens are equal.
    fn are_by_chance(&self, a: TokenSequence<'_>, b: TokenSequence<'_>, row: u32) -> bool {
        let goes_on = |column: u32, [more_of_a, more_of_b]: [usize; 2]| {
            let (one, other) = (
                a.tokens.get(column.to_usize() + more_of_a),
                b.tokens.get(row.to_usize() + more_of_b),
            );
            one.is_some() && one == other
        };
        let after_edit = [[SEED + 1, SEED + 1], [SEED, SEED + 1], [SEED + 1, SEED]];
        !self
            .places
            .iter()
            .any(|&column| after_edit.iter().any(|&more| goes_on(column, more)))
    }

    /// Computes the cells of a row from those of the last one.
    fn step(&mut self, a: TokenSequence<'_>, b: TokenSequence<'_>, row: u32) {
        let Self {
            last,
            next,
            open_areas,
            places,
            ..
        } = self;
        let (mut at, mut place) = (0, 0);
        let first_of = |at: usize, place: usize| {
            let [above, new] = [
                last.get(at).map(|cell| cell.column),
                places.get(place).copied(),
            ];
            above.into_iter().chain(new).min()
        };
        next.clear();
        let mut columns = first_of(at, place);
        while let Some(column) = columns.filter(|&column| (column.to_usize()) < a.tokens.len()) {
            let before = |cells: &[Cell]| {
                cells
                    .last()
                    .copied()
                    .filter(|cell| cell.column + 1 == column)
            };
            let (diagonal, left) = (before(&last[..at]), before(next));
            let above = last.get(at).copied().filter(|cell| cell.column == column);
            at += usize::from(above.is_some());
            let is_new = places.get(place) == Some(&column);
            place += usize::from(is_new);
            let cell = next_cell(
                open_areas,
                a,
                b,
                [column, row],
                CellSources {
                    diagonal,
                    above,
                    left,
                    is_new,
                },
            );
            next.extend(cell);
            columns = if above.is_some() || cell.is_some_and(|cell| cell.score > EDIT) {
                Some(column + 1)
            } else {
                first_of(at, place)
            };
        }
        std::mem::swap(last, next);
    }

    /// No cell is alive: closes the open areas, and keeps those with at least the score `floor`.
    fn close_areas(&mut self, floor: u32) {
        let areas = self
            .open_areas
            .drain(..)
            .filter(|open| open.best.unsigned_abs() >= floor)
            .map(|open| {
                let [a, b] = [0, 1].map(|side| open.start[side]..open.end[side] + 1);
                AlignedArea {
                    a,
                    b,
                    tokens: open.tokens,
                    score: open.best.unsigned_abs(),
                }
            });
        self.found.extend(areas);
    }
}

/// The cells from which a cell may come.
struct CellSources {
    diagonal: Option<Cell>,
    above: Option<Cell>,
    left: Option<Cell>,
    /// Three tokens with the same hash begin here.
    is_new: bool,
}

/// The cell at a column and a row, if it is alive.
fn next_cell(
    open_areas: &mut Vec<OpenArea>,
    a: TokenSequence<'_>,
    b: TokenSequence<'_>,
    place: [u32; 2],
    ways: CellSources,
) -> Option<Cell> {
    let [column, row] = place;
    let mut best = Cell {
        column,
        score: 0,
        tokens: 0,
        area: 0,
    };
    let mut offer = |from: Option<Cell>, change: i32, more: u32| {
        let Some(Cell {
            score,
            tokens,
            area,
            ..
        }) = from.filter(|from| from.score + change > best.score)
        else {
            return;
        };
        let OpenArea {
            start,
            best: highest,
            ..
        } = open_areas[area.to_usize()];
        if score + change >= highest - DROP && (column - start[0]).abs_diff(row - start[1]) <= STRAY
        {
            best = Cell {
                column,
                score: score + change,
                tokens: tokens + more,
                area,
            };
        }
    };
    let is_equal = a.tokens[column.to_usize()] == b.tokens[row.to_usize()];
    if is_equal {
        offer(ways.diagonal, MATCH, 1)
    } else {
        offer(ways.diagonal, -EDIT, 0)
    }
    offer(ways.above, -EDIT, 0);
    offer(ways.left, -EDIT, 0);
    if ways.is_new && best.score < MATCH && begins(a, b, place) {
        let area = open_areas.len().to_u32();
        open_areas.push(OpenArea {
            start: place,
            end: place,
            best: MATCH,
            tokens: 1,
        });
        return Some(Cell {
            column,
            score: MATCH,
            tokens: 1,
            area,
        });
    }
    if best.score == 0 {
        return None;
    }
    let open = &mut open_areas[best.area.to_usize()];
    if best.score > open.best {
        (open.best, open.end, open.tokens) = (best.score, place, best.tokens);
    }
    Some(best)
}

/// Whether three equal tokens begin at a place.
fn begins(a: TokenSequence<'_>, b: TokenSequence<'_>, [column, row]: [u32; 2]) -> bool {
    let [of_a, of_b] = [(a.tokens, column.to_usize()), (b.tokens, row.to_usize())]
        .map(|(tokens, first)| tokens.get(first..first + SEED));
    of_a.is_some() && of_a == of_b
}
