//! Families of passages, on disk.

use super::{excluded_texts::ExcludedWindows, owners::along, text_bounds::TextBounds};
use crate::{
    base::{error::Result, num::ToU32},
    index::posting::Buckets,
};
use std::ops::Range;

/// A place of a family, on the first strand of its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FamilyPlace {
    /// Its first token.
    pub start: u64,
    /// The token after its last one.
    pub end: u64,
    /// Whether the text of the family is on the other strand.
    pub is_reversed: bool,
    /// The token of the family at which the place starts, counted from the start of the repeat that
    /// started the family.
    pub offset: i64,
}

impl FamilyPlace {
    /// The tokens.
    pub fn range(&self) -> Range<u64> {
        self.start..self.end
    }

    pub(super) fn to_record(&self, family: u32) -> [u64; 4] {
        [
            u64::from(family) << 1 | u64::from(self.is_reversed),
            self.start,
            self.end,
            self.offset.cast_unsigned(),
        ]
    }

    fn of_record([family, start, end, offset]: [u64; 4]) -> (u32, Self) {
        let place = Self {
            start,
            end,
            is_reversed: family & 1 == 1,
            offset: offset.cast_signed(),
        };
        ((family >> 1).to_u32(), place)
    }

    fn along(&self) -> i64 {
        along(&self.range(), self.is_reversed)
    }
}

/// The widest gap between two parts of a passage: `min_tokens`, or a quarter of the shorter part.
pub(super) fn gap_limit(min_tokens: u64, one: u64, two: u64) -> u64 {
    min_tokens.max(one.min(two) / 4)
}

/// All families, in the order of the weights of the repeats that started them.
pub struct Families<'t> {
    places: Buckets<4>,
    texts: &'t TextBounds,
    min_tokens: u64,
    excluded: Option<&'t ExcludedWindows>,
}

impl<'t> Families<'t> {
    pub(super) fn new(
        places: Buckets<4>,
        texts: &'t TextBounds,
        min_tokens: u64,
        excluded: Option<&'t ExcludedWindows>,
    ) -> Self {
        Self {
            places,
            texts,
            min_tokens,
            excluded,
        }
    }

    /// Calls `each` with the places of every family, in ascending order, until it returns false.
    pub fn for_each(&self, mut each: impl FnMut(&[FamilyPlace]) -> Result<bool>) -> Result<()> {
        for bucket in 0..self.places.len() {
            let mut records = self.places.take(bucket)?;
            records.sort_unstable();
            for family in records.chunk_by(|one, two| one[0] >> 1 == two[0] >> 1) {
                let places = family
                    .iter()
                    .map(|&record| FamilyPlace::of_record(record).1)
                    .collect();
                if !each(&self.join(places))? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Joins places that overlap or follow each other, and sorts them.
    fn join(&self, mut places: Vec<FamilyPlace>) -> Vec<FamilyPlace> {
        places.sort_unstable_by_key(|place| {
            (place.is_reversed, place.along(), place.offset, place.end)
        });
        let mut joined: Vec<FamilyPlace> = Vec::with_capacity(places.len());
        for place in places {
            match joined.last_mut() {
                Some(last) if self.belong_together(last, &place) => {
                    last.start = last.start.min(place.start);
                    last.end = last.end.max(place.end);
                }
                _ => joined.push(place),
            }
        }
        joined.sort_unstable_by_key(|place| (place.start, place.end, place.is_reversed));
        joined
    }

    /// Whether two places, in the order of their family, are parts of one.
    fn belong_together(&self, one: &FamilyPlace, two: &FamilyPlace) -> bool {
        if one.is_reversed != two.is_reversed {
            return false;
        }
        let hull = one.start.min(two.start)..one.end.max(two.end);
        if self
            .excluded
            .is_some_and(|excluded| excluded.is_within(&hull))
        {
            return false;
        }
        let gap = one.end.min(two.end)..one.start.max(two.start);
        if gap.start > gap.end {
            return true;
        }
        let tokens = |place: &FamilyPlace| place.end - place.start;
        let limit = gap_limit(self.min_tokens, tokens(one), tokens(two));
        let steps = two.along() - one.along();
        let shift = (two.offset - one.offset - steps).unsigned_abs();
        gap.end - gap.start <= limit
            && two.offset > one.offset
            && shift <= limit
            && self.texts.of(one.start) == self.texts.of(two.start)
    }
}
