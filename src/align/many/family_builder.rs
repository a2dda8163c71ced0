//! Gathers repeats into families, the heaviest first.

use super::{
    excluded_texts::ExcludedWindows,
    families::{Families, FamilyPlace, gap_limit},
    owners::{OwnedRange, Owners, along, diagonal},
    ranked_repeats::RankedRepeat,
    repeat::TokenHash,
    text_bounds::TextBounds,
    token_set::TokenSet,
};
use crate::{
    base::{
        error::Result,
        files::TempDir,
        num::{ToU32, ToU64, ToUsize},
    },
    index::posting::Buckets,
};
use std::{collections::BTreeMap, ops::Range};

/// The number of buckets of places: each is sorted in memory.
const BUCKETS: u64 = 1 << 12;
/// Of the ranges beside a place this many are looked at, on each side.
const NEIGHBOURS: usize = 8;

/// Gathers repeats into families: [`super`] says how.
///
/// Memory: a bit per token, about 50 bytes per place that starts or continues a family, 16 bytes per
/// family, and places within the limit; the rest is on disk.
pub struct FamilyBuilder<'t> {
    tokens: &'t [TokenHash],
    texts: &'t TextBounds,
    min_tokens: u64,
    excluded: Option<&'t ExcludedWindows>,
    /// The first tokens of all windows in listed places.
    listed: TokenSet,
    owners: Owners,
    families: Vec<Origin>,
    places: Buckets<4>,
    /// The number of repeats; there are seldom more families.
    expected_families: u64,
    found: Vec<StrandPlace>,
    ranges: Vec<Range<u64>>,
}

/// The repeat that started a family.
struct Origin {
    tokens: u64,
    copies: u64,
}

/// A place of a repeat, on the first strand.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct StrandPlace {
    start: u64,
    end: u64,
    is_reversed: bool,
    copies: u32,
}

impl StrandPlace {
    fn range(&self) -> Range<u64> {
        self.start..self.end
    }

    fn tokens(&self) -> u64 {
        self.end - self.start
    }
}

/// What a family has of a place.
struct Share {
    /// The first range of the family at the place or beside it.
    first: OwnedRange,
    /// The tokens of the place that belong to it.
    tokens: u64,
    /// Whether the family is near enough to go on with the place.
    is_near: bool,
}

/// How a repeat lies to a family.
#[derive(Debug, Clone, Copy, Default)]
struct Relation {
    /// Places, in all documents, most of whose tokens belong to families, and more to this one than
    /// to any other.
    inside: u64,
    /// Places that are inside, overlap it or lie beside it.
    near: u64,
    /// How the repeat runs through the family, as at its first place.
    course: Course,
}

/// How a repeat runs through a family.
#[derive(Debug, Clone, Copy, Default)]
struct Course {
    /// The token of the family at which the repeat starts.
    offset: i64,
    /// Whether the two run in opposite directions.
    is_reversed: bool,
}

impl<'t> FamilyBuilder<'t> {
    /// For `repeats` repeats of these texts, with at least `min_tokens` tokens.
    pub fn new(
        tokens: &'t [TokenHash],
        texts: &'t TextBounds,
        min_tokens: u32,
        excluded: Option<&'t ExcludedWindows>,
        repeats: u64,
        memory_bytes: u64,
    ) -> Self {
        let buckets = repeats.clamp(1, BUCKETS).to_usize();
        Self {
            tokens,
            texts,
            min_tokens: min_tokens.into(),
            excluded,
            listed: TokenSet::new(tokens.len()),
            owners: Owners::default(),
            families: Vec::new(),
            places: Buckets::new(buckets, memory_bytes, TempDir(None)),
            expected_families: repeats.max(1),
            found: Vec::new(),
            ranges: Vec::new(),
        }
    }

    /// Adds a repeat that is not heavier than any before.
    pub fn add(&mut self, repeat: &RankedRepeat<'_>) -> Result<()> {
        let whole = 0..u64::from(repeat.tokens);
        let Some(excluded) = self.excluded else {
            return self.add_part(repeat, whole);
        };
        let Some(first) = repeat.places().next() else {
            return Ok(());
        };
        for part in excluded.without(first.at..first.at + whole.end) {
            self.add_part(repeat, part.start - first.at..part.end - first.at)?;
        }
        Ok(())
    }

    /// Adds some tokens of a repeat.
    fn add_part(&mut self, repeat: &RankedRepeat<'_>, part: Range<u64>) -> Result<()> {
        self.find_places(repeat, &part);
        if self.found.iter().all(|place| self.is_listed(place)) {
            return Ok(());
        }
        let copies = self.found.iter().map(|place| u64::from(place.copies)).sum();
        let tokens = part.end - part.start;
        let relations = self.relations();
        let best = |votes: fn(&Relation) -> u64| {
            let by_votes = relations
                .iter()
                .max_by_key(|(family, relation)| (votes(relation), std::cmp::Reverse(**family)));
            by_votes.map(|(&family, relation)| (family, *relation))
        };
        let inside: u64 = relations.values().map(|relation| relation.inside).sum();
        let varied = best(|relation| relation.inside)
            .filter(|(_, relation)| relation.inside > 0 && 2 * inside >= copies);
        let continued = || {
            best(|relation| relation.near).filter(|(family, relation)| {
                let origin = &self.families[family.to_usize()];
                2 * relation.near > copies && 2 * relation.near > origin.copies
            })
        };
        if let Some((family, relation)) = varied {
            self.extend(family, relation.course, false)
        } else if let Some((family, relation)) = continued() {
            self.extend(family, relation.course, true)
        } else {
            let family = self.families.len().to_u32();
            self.families.push(Origin { tokens, copies });
            self.start(family)
        }
    }

    /// Finds the places of a part of a repeat, in ascending order.
    fn find_places(&mut self, repeat: &RankedRepeat<'_>, part: &Range<u64>) {
        self.found.clear();
        for place in repeat.places() {
            self.ranges.clear();
            let place = super::RepeatPlace {
                at: place.at + part.start,
                ..place
            };
            place.repetitions(self.tokens, part.end - part.start, &mut self.ranges);
            for range in &self.ranges {
                let (range, is_reversed) = self.texts.to_first_strand(range.clone());
                self.found.push(StrandPlace {
                    start: range.start,
                    end: range.end,
                    is_reversed,
                    copies: self.texts.copies(self.texts.of(range.start)),
                });
            }
        }
        self.found.sort_unstable();
        // First and last repetitions give the same ranges, and so do both strands of a palindrome.
        self.found
            .dedup_by(|next, kept| (next.start, next.end) == (kept.start, kept.end));
    }

    fn windows(&self, range: &Range<u64>) -> Range<u64> {
        range.start..(range.end + 1).saturating_sub(self.min_tokens)
    }

    fn is_listed(&self, place: &StrandPlace) -> bool {
        self.listed.contains(&self.windows(&place.range()))
    }

    /// How the places lie to the families around them.
    fn relations(&self) -> BTreeMap<u32, Relation> {
        let mut relations: BTreeMap<u32, Relation> = BTreeMap::new();
        for place in &self.found {
            let here = self.look_around(place);
            let owner = owner(place, &here);
            for (&family, share) in &here {
                let relation = relations.entry(family).or_insert_with(|| Relation {
                    course: course(place, &share.first),
                    ..Relation::default()
                });
                if owner == Some(family) {
                    relation.inside += u64::from(place.copies);
                }
                if share.is_near {
                    relation.near += u64::from(place.copies);
                }
            }
        }
        relations
    }

    /// The ranges of families at a place and beside it.
    fn neighbours(&self, place: &StrandPlace) -> Vec<OwnedRange> {
        let reach = gap_limit(self.min_tokens, place.tokens(), u64::MAX);
        let before = place.start.saturating_sub(reach)..place.start;
        let after = place.end..place.end + reach + 1;
        let mut found: Vec<OwnedRange> = self
            .owners
            .overlapping(before)
            .filter(|owned| owned.end <= place.start)
            .copied()
            .collect();
        found.drain(..found.len().saturating_sub(NEIGHBOURS));
        found.extend(self.owners.overlapping(place.range()));
        let after = self.owners.overlapping(after);
        found.extend(
            after
                .filter(|owned| owned.start >= place.end)
                .take(NEIGHBOURS),
        );
        found
    }

    /// The families at a place and beside it.
    fn look_around(&self, place: &StrandPlace) -> BTreeMap<u32, Share> {
        let mut here: BTreeMap<u32, Share> = BTreeMap::new();
        for owned in self.neighbours(place) {
            let common = owned.start.max(place.start)..owned.end.min(place.end);
            let share = here.entry(owned.family).or_insert(Share {
                first: owned,
                tokens: 0,
                is_near: false,
            });
            share.tokens += common.end.saturating_sub(common.start);
            share.is_near |= self.is_near(place, &owned);
        }
        here
    }

    /// Whether a place and a range of a family are in one text, with a small gap between them.
    fn is_near(&self, place: &StrandPlace, owned: &OwnedRange) -> bool {
        let gap = owned.end.min(place.end)..owned.start.max(place.start);
        if gap.start >= gap.end {
            return true;
        }
        let origin = &self.families[owned.family.to_usize()];
        gap.end - gap.start <= gap_limit(self.min_tokens, place.tokens(), origin.tokens)
            && self.texts.of(owned.start) == self.texts.of(place.start)
    }

    /// Makes the places those of a new family.
    fn start(&mut self, family: u32) -> Result<()> {
        for place in std::mem::take(&mut self.found) {
            self.put(family, &place, Course::default());
            self.claim(family, &place, Course::default());
        }
        self.places.settle()
    }

    /// Adds the places that are not listed yet to a family.
    fn extend(&mut self, family: u32, course: Course, is_continued: bool) -> Result<()> {
        for place in std::mem::take(&mut self.found) {
            if is_continued {
                let (whole, offset) = self.with_neighbours(family, &place, course);
                self.put(family, &whole, Course { offset, ..course });
                self.claim(family, &place, course);
            } else if !self.is_listed(&place) {
                self.put(family, &place, course);
            }
        }
        self.places.settle()
    }

    /// A place together with the ranges of its family beside it, and what lies between them; and the
    /// token of the family at which that starts.
    fn with_neighbours(
        &self,
        family: u32,
        place: &StrandPlace,
        course: Course,
    ) -> (StrandPlace, i64) {
        let is_reversed = place.is_reversed ^ course.is_reversed;
        let own = diagonal(&place.range(), is_reversed, course.offset);
        let mut whole = place.clone();
        let mut offset = course.offset;
        for owned in self.neighbours(place) {
            let limit = gap_limit(self.min_tokens, place.tokens(), owned.end - owned.start);
            let hull = whole.start.min(owned.start)..whole.end.max(owned.end);
            if owned.family == family
                && owned.is_reversed == is_reversed
                && (own - owned.diagonal).unsigned_abs() <= limit
                && self.is_near(place, &owned)
                && self.is_free_of_excluded(&hull)
            {
                let owned_offset = along(&(owned.start..owned.end), is_reversed) - owned.diagonal;
                offset = offset.min(owned_offset);
                (whole.start, whole.end) = (hull.start, hull.end);
            }
        }
        (whole, offset)
    }

    fn is_free_of_excluded(&self, range: &Range<u64>) -> bool {
        self.excluded
            .is_none_or(|excluded| !excluded.is_within(range))
    }

    fn put(&mut self, family: u32, place: &StrandPlace, course: Course) {
        self.listed.insert(&self.windows(&place.range()));
        let place = FamilyPlace {
            start: place.start,
            end: place.end,
            is_reversed: place.is_reversed ^ course.is_reversed,
            offset: course.offset,
        };
        let buckets = self.places.len().to_u64();
        // If repeats are cut into parts, there may be more families than repeats.
        let bucket = (u64::from(family) * buckets / self.expected_families).min(buckets - 1);
        self.places.push(bucket.to_usize(), place.to_record(family));
    }

    fn claim(&mut self, family: u32, place: &StrandPlace, course: Course) {
        let is_reversed = place.is_reversed ^ course.is_reversed;
        self.owners.claim(OwnedRange {
            start: place.start,
            end: place.end,
            family,
            is_reversed,
            diagonal: diagonal(&place.range(), is_reversed, course.offset),
        });
    }

    /// All families.
    pub fn finish(self) -> Families<'t> {
        Families::new(self.places, self.texts, self.min_tokens, self.excluded)
    }
}

/// How a repeat that has this place runs through the family that has this range.
fn course(place: &StrandPlace, owned: &OwnedRange) -> Course {
    Course {
        offset: along(&place.range(), owned.is_reversed) - owned.diagonal,
        is_reversed: place.is_reversed ^ owned.is_reversed,
    }
}

/// The family to which most tokens of a place belong, if that is half of them, or if three quarters
/// belong to families.
fn owner(place: &StrandPlace, here: &BTreeMap<u32, Share>) -> Option<u32> {
    let owned: u64 = here.values().map(|share| share.tokens).sum();
    let (family, share) = here
        .iter()
        .max_by_key(|(family, share)| (share.tokens, std::cmp::Reverse(**family)))?;
    let is_most = 2 * share.tokens >= place.tokens() || 4 * owned >= 3 * place.tokens();
    is_most.then_some(*family)
}
