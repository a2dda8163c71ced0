//! Row by row through the cells that are alive.

use super::{
    AlignedArea, DROP, EDIT, MATCH, SEED, STRAY, TokenSequence, choose,
    trigrams::{TrigramTable, seeds},
};
use crate::base::num::{ToU32, ToU64, ToUsize};

/// A cell that is alive, of the last row or of this one.
#[derive(Debug, Clone, Copy)]
struct Cell {
    column: u32,
    score: i32,
    /// Equal tokens on the way.
    tokens: u32,
    /// Which of the areas that are under way.
    area: u32,
}

/// An area that is under way: where it began, and where its best end is.
#[derive(Debug, Clone, Copy)]
struct OpenArea {
    start: [u32; 2],
    end: [u32; 2],
    best: i32,
    tokens: u32,
}

/// What three tokens score.
const CHANCE_SCORE: u32 = SEED as u32 * MATCH as u32;

/// Compares one document with others: `a` is prepared once. A thread has one.
#[derive(Default)]
pub struct Comparer {
    table: TrigramTable,
    /// The cells of the last row, and of this one.
    last: Vec<Cell>,
    next: Vec<Cell>,
    drafts: Vec<OpenArea>,
    /// Rows in which areas may begin, and where they may in this one.
    hits: Vec<u32>,
    places: Vec<u32>,
    found: Vec<AlignedArea>,
}

impl Comparer {
    /// Takes the document that others are compared with.
    pub fn prepare(&mut self, a: TokenSequence<'_>) {
        self.table.fill(a);
    }

    /// The areas of `a`, which must be what was prepared, and `b` with at least a score, the best first.
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
                choose(&mut self.found);
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
                self.settle(floor);
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
        self.settle(floor);
    }

    /// Whether all areas that may begin in a row end after three tokens: so do most that documents have by chance. Nothing else is alive, and none of the three
    /// rows after it begins an area, so that the fourth tokens differ. Then one edit leaves a score of 5, and unless the next tokens are equal that is the end.
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

    /// Finds the cells of a row from those of the last.
    fn step(&mut self, a: TokenSequence<'_>, b: TokenSequence<'_>, row: u32) {
        let Self {
            last,
            next,
            drafts,
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
            let cell = grow(
                drafts,
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

    /// Nothing is alive: what was under way is an area, or not.
    fn settle(&mut self, floor: u32) {
        let areas = self
            .drafts
            .drain(..)
            .filter(|draft| draft.best.unsigned_abs() >= floor)
            .map(|draft| {
                let [a, b] = [0, 1].map(|side| draft.start[side]..draft.end[side] + 1);
                AlignedArea {
                    a,
                    b,
                    tokens: draft.tokens,
                    score: draft.best.unsigned_abs(),
                }
            });
        self.found.extend(areas);
    }
}

/// What a cell may come from.
struct CellSources {
    diagonal: Option<Cell>,
    above: Option<Cell>,
    left: Option<Cell>,
    /// Three tokens of the same hash begin here.
    is_new: bool,
}

/// The cell at a column and a row, if it is alive.
fn grow(
    drafts: &mut Vec<OpenArea>,
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
        } = drafts[area.to_usize()];
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
        let area = drafts.len().to_u32();
        drafts.push(OpenArea {
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
    let draft = &mut drafts[best.area.to_usize()];
    if best.score > draft.best {
        (draft.best, draft.end, draft.tokens) = (best.score, place, best.tokens);
    }
    Some(best)
}

/// Whether three equal tokens begin at a place.
fn begins(a: TokenSequence<'_>, b: TokenSequence<'_>, [column, row]: [u32; 2]) -> bool {
    let [of_a, of_b] = [(a.tokens, column.to_usize()), (b.tokens, row.to_usize())]
        .map(|(tokens, first)| tokens.get(first..first + SEED));
    of_a.is_some() && of_a == of_b
}
