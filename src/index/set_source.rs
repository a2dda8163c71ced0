//! The document sets of a view, visited one after the other, as often as needed.
//!
//! Blots that are too narrow make hundreds of millions of sets. Code that visits them here holds
//! none of them in memory, and keeps only those that matter for its question.

use super::{merge::NONE, open::Segment, set_uses::SetUses, view::View};
use crate::{
    base::{
        error::{Error, Result},
        ids::SetNo,
        num::{ToU64, ToUsize},
        parallel::{self, Limits},
    },
    index::posting::{Sets, StoredSets, blots_of},
};
use rayon::prelude::*;
use std::{
    ops::Range,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

/// However little memory there is, the blots of this many sets are counted at a time.
const LEAST_COUNTED: u64 = 1 << 16;

/// Where the sets of a view come from.
pub enum SetSource<'v> {
    /// They are in memory, or those of one blot in a temporary file.
    Held(Sets),
    /// They are in the files of the only segment.
    Stored(StoredSetSource<'v>),
}

/// The sets of a segment whose documents all count.
pub struct StoredSetSource<'v> {
    segment: &'v Segment,
    /// The content of each place.
    contents: &'v [u32],
    /// The number of blots of each set; sets that follow have one blot each.
    uses: Vec<u32>,
    /// The numbers of sets are in the order that [`Sets`] describes, for the contents of the view.
    is_ordered: bool,
}

impl<'v> SetSource<'v> {
    /// The sets of a view, with numbers that any view of the same documents gives them only if
    /// `is_ordered` is asked for: scores that add up fractions need that.
    pub fn of(view: &'v View<'v>, limits: Limits, is_ordered: bool) -> Result<Self> {
        match StoredSetSource::of(view, limits)? {
            Some(stored) if stored.is_ordered || !is_ordered => Ok(Self::Stored(stored)),
            _ => view.sets_within(limits).map(Self::Held),
        }
    }

    /// The sets of a view of an index that was made at once, whose parts need not be there: `uses`
    /// has what they tell. The same sets as [`SetSource::of`] gives.
    ///
    /// Memory: all sets, if the order is asked for and the stored one is another.
    pub fn with_uses(view: &'v View<'v>, uses: &SetUses, is_ordered: bool) -> Result<Self> {
        let stored = StoredSetSource::with_uses(view, uses)?;
        if stored.is_ordered || !is_ordered {
            return Ok(Self::Stored(stored));
        }
        let mut sets = StoredSets::default();
        stored.for_each(|_, uses, contents| sets.push(contents, uses))?;
        Ok(Self::Held(sets.reordered()))
    }

    /// The number of sets.
    pub fn len(&self) -> u64 {
        match self {
            Self::Held(sets) => sets.len().to_u64(),
            Self::Stored(stored) => stored.segment.sets.len(),
        }
    }

    /// Whether there are no sets.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `each` with the number of every set, in order, the number of its blots, and its
    /// contents, which ascend.
    pub fn for_each(&self, each: impl FnMut(SetNo, u64, &[u32])) -> Result<()> {
        match self {
            Self::Held(sets) => for_each_held(sets, each),
            Self::Stored(stored) => stored.for_each(each),
        }
    }
}

fn for_each_held(sets: &Sets, mut each: impl FnMut(SetNo, u64, &[u32])) -> Result<()> {
    let mut uses = sets.uses().iter().copied();
    let mut number = 0;
    sets.for_each(|contents| {
        each(SetNo::new(number), uses.next().unwrap_or(1), contents);
        number = number.wrapping_add(1);
        Ok(())
    })
}

impl SetUses {
    /// Counts the uses of the sets of an index that was made at once, which needs all of its parts.
    pub fn count(view: &View<'_>, limits: Limits) -> Result<Self> {
        let Some(stored) = StoredSetSource::of(view, limits)? else {
            return Err(not_made_at_once());
        };
        let sets = stored.segment.sets.len();
        Ok(Self::falling(stored.uses.iter().copied(), sets))
    }
}

fn not_made_at_once() -> Error {
    let what = "only an index that was made at once can be worked on in shares";
    Error::Usage(what.to_owned())
}

impl<'v> StoredSetSource<'v> {
    /// The stored sets; none if those of the view are others.
    pub(super) fn of(view: &'v View<'v>, limits: Limits) -> Result<Option<Self>> {
        let ([segment], [contents]) = (&view.segments[..], &view.content_at[..]) else {
            return Ok(None);
        };
        // Where a set has a document that does not count any more, or is not there, the merger
        // finds the sets of the view, or reports the damage.
        let is_dead = |place: u32| {
            let content = contents.get(place.to_usize());
            content.is_none_or(|&content| content == NONE)
        };
        let uses = if has_place(segment, is_dead)? {
            None
        } else {
            stored_uses(view, segment, limits)?
        };
        let is_ordered = view.has_stored_order();
        Ok(uses.map(|uses| Self {
            segment,
            contents,
            uses,
            is_ordered,
        }))
    }

    /// The stored sets, where the number of blots of each is known.
    fn with_uses(view: &'v View<'v>, uses: &SetUses) -> Result<Self> {
        let ([segment], [contents]) = (&view.segments[..], &view.content_at[..]) else {
            return Err(not_made_at_once());
        };
        let is_wrong = |place: u32| {
            let content = contents.get(place.to_usize());
            content.is_none_or(|&content| content == NONE)
        };
        if uses.sets() != segment.sets.len() || has_place(segment, is_wrong)? {
            let what = "has other documents or sets than those that were counted";
            return Err(segment.sets.file().damaged(0, what));
        }
        Ok(Self {
            segment,
            contents,
            uses: uses.above_one(),
            is_ordered: view.has_stored_order(),
        })
    }

    pub(super) fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    pub(super) fn for_each(&self, mut each: impl FnMut(SetNo, u64, &[u32])) -> Result<()> {
        let mut set = Vec::new();
        self.segment.sets.for_each(|number, places| {
            set.clear();
            set.extend(places.iter().map(|place| self.contents[place.to_usize()]));
            if !set.is_sorted() {
                set.sort_unstable();
            }
            let uses = self.uses.get(number.index()).copied().unwrap_or(1);
            each(number, uses.into(), &set);
            Ok(())
        })
    }
}

/// Whether a set has such a place.
fn has_place(segment: &Segment, is_it: impl Fn(u32) -> bool) -> Result<bool> {
    let mut has = false;
    segment.sets.for_each(|_, places| {
        has = has || places.iter().any(|&place| is_it(place));
        Ok(())
    })?;
    Ok(has)
}

/// The number of blots of each set of a segment, without the sets of one blot, which come last;
/// none if the numbers of sets contradict that.
///
/// Memory: four bytes a set, an eighth of the limit at most. With more sets, blots are read several
/// times.
fn stored_uses(view: &View<'_>, segment: &Segment, limits: Limits) -> Result<Option<Vec<u32>>> {
    let sets = segment.sets.len();
    let at_a_time = (limits.memory_bytes / 8 / 4).max(LEAST_COUNTED);
    let mut uses: Vec<u32> = Vec::new();
    while uses.len().to_u64() < sets {
        let start = uses.len().to_u64();
        let counted = start..sets.min(start + at_a_time);
        let Some(more) = uses_of(view, segment, &counted, limits.threads)? else {
            return Ok(None);
        };
        let is_last = more.last() == Some(&1);
        uses.extend(more);
        if is_last {
            break;
        }
    }
    let is_falling = uses.is_sorted_by(|one, two| one >= two);
    let shared: u64 = segment.parts.iter().map(|part| part.shared_blots()).sum();
    let counted: u64 = uses.iter().map(|&uses| u64::from(uses)).sum();
    let is_sound = is_falling && counted + (sets - uses.len().to_u64()) == shared;
    uses.truncate(uses.partition_point(|&uses| uses > 1));
    uses.shrink_to_fit();
    Ok(is_sound.then_some(uses))
}

/// The number of blots of some sets; none if a blot leads to a missing set.
fn uses_of(
    view: &View<'_>,
    segment: &Segment,
    counted: &Range<u64>,
    threads: usize,
) -> Result<Option<Vec<u32>>> {
    let uses: Vec<AtomicU32> = counted.clone().map(|_| AtomicU32::new(0)).collect();
    let (sets, are_all_there) = (segment.sets.len(), AtomicBool::new(true));
    let count = |set: SetNo| {
        let number = u64::from(set.get());
        let at = number.wrapping_sub(counted.start).to_usize();
        if let Some(uses) = uses.get(at) {
            uses.fetch_add(1, Ordering::Relaxed);
        } else if number >= sets {
            are_all_there.store(false, Ordering::Relaxed);
        }
    };
    let count_range = |slices: &Range<usize>| {
        let (first, last) = blots_of(slices, view.bits);
        let mut parts = segment.parts.iter();
        parts.try_for_each(|part| part.for_each_set_between(first, last, count))
    };
    let ranges = view.ranges();
    let error = parallel::pool(threads).install(|| {
        let ranges = ranges.par_iter();
        ranges.find_map_first(|slices| count_range(slices).err())
    });
    if let Some(error) = error {
        return Err(error);
    }
    Ok(are_all_there
        .into_inner()
        .then(|| uses.into_iter().map(AtomicU32::into_inner).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{Index, test_files};

    type Listed = Vec<(u64, Vec<u32>)>;

    fn listed(source: &SetSource<'_>) -> Listed {
        let mut sets = Vec::new();
        source
            .for_each(|number, uses, contents| {
                assert_eq!(number.index(), sets.len());
                sets.push((uses, contents.to_vec()));
            })
            .unwrap();
        assert_eq!(sets.len().to_u64(), source.len());
        sets
    }

    #[test]
    fn stored_sets_are_those_of_the_view_however_little_memory_there_is() {
        let directory = tempfile::tempdir().unwrap();
        let blots = |step: u64| (0..90).map(|number| number * step % 1_009).collect();
        let rows: Vec<(String, u64, Vec<u64>)> = (1..40_u64)
            .map(|step| {
                let mut blots: Vec<u64> = blots(step);
                blots.sort_unstable();
                blots.dedup();
                (format!("{:02}", 50 - step), step, blots)
            })
            .collect();
        let rows: Vec<_> = rows
            .iter()
            .map(|(id, hash, blots)| (id.as_str(), *hash, blots.clone()))
            .collect();
        test_files::commit(directory.path(), &rows, &[]);
        let index = Index::open(directory.path()).unwrap();
        for view in [View::of(&index).unwrap(), View::by_id(&index).unwrap()] {
            let held = listed(&SetSource::Held(view.sets(1).unwrap()));
            assert!(held.len() > 100);
            let uses = SetUses::of(&View::of(&index).unwrap().sets(1).unwrap());
            let path = directory.path().join("uses");
            uses.write(&path).unwrap();
            assert_eq!(
                SetUses::count(&view, Limits::new(1, 1 << 20)).unwrap(),
                uses
            );
            assert_eq!(SetUses::read(&path).unwrap(), uses);
            for is_ordered in [false, true] {
                let sets = SetSource::with_uses(&view, &uses, is_ordered).unwrap();
                let mut sets = listed(&sets);
                if !is_ordered {
                    sets.sort_by(|one, two| two.0.cmp(&one.0).then_with(|| one.1.cmp(&two.1)));
                }
                assert_eq!(sets, held);
            }
            for memory_bytes in [1, 1 << 20] {
                let limits = Limits::new(2, memory_bytes);
                let mut stored = listed(&SetSource::of(&view, limits, false).unwrap());
                assert_eq!(listed(&SetSource::of(&view, limits, true).unwrap()), held);
                stored.sort_by(|one, two| two.0.cmp(&one.0).then_with(|| one.1.cmp(&two.1)));
                assert_eq!(stored, held);
            }
        }
    }
}
