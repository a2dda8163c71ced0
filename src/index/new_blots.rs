//! The blots that each content is the first to have.
//!
//! A reader of documents that asks of each window whether an earlier document has it would look all
//! of them up in a table of all blots: a cache miss each, which takes longer than making the blots.
//! This is the table turned round. Each content has a short list of its own, which stays in the
//! cache while the content is read.

use super::{
    merge::{MergedTarget, NONE},
    part::BlotTarget,
    posting::blots_of,
    view::View,
};
use crate::base::{codec::clear_buffer, error::Result, num::ToUsize, parallel};
use rayon::prelude::*;
use std::ops::Range;

/// For each content, the blots that it has and no earlier one.
///
/// Memory: 8 bytes per blot, and while they are collected up to 16.
pub struct NewBlots {
    /// Contents are in groups of 2 to the power of this.
    group_bits: u32,
    groups: Vec<ContentGroup>,
}

/// The blots of some contents.
struct ContentGroup {
    /// Where the blots of each content start; at the end, where the last ones end.
    starts: Vec<u32>,
    blots: Vec<u64>,
}

/// There are about this many groups, so that the end of each is in the cache while blots are collected.
const GROUPS_BITS: u32 = 9;
/// There are never more groups than this.
const MOST_GROUPS: usize = 1 << 16;
/// There are never more blots than this: 2 GiB.
const MOST_BLOTS: u64 = 1 << 28;

impl NewBlots {
    /// Reads all blots of a view. `None` if there are too many of them, or they are too wide to be
    /// sorted by content.
    pub fn new(view: &View<'_>, threads: usize) -> Result<Option<Self>> {
        let (bits, contents) = (u32::from(view.bits), view.contents().len());
        let number_bits = usize::BITS - contents.leading_zeros();
        // Blots are sorted with the number of their content in its group above them. With 64 bits,
        // no number would be free to say that there is no blot.
        let group_bits = number_bits.saturating_sub(GROUPS_BITS).min(64 - bits);
        let groups = (contents >> group_bits) + 1;
        if view.stored_blots() > MOST_BLOTS || groups > MOST_GROUPS || bits == 64 {
            return Ok(None);
        }
        let collected = collect(
            view,
            threads,
            |content, blot, collected: &mut Vec<Vec<u64>>| {
                collected.resize_with(groups, Vec::new);
                let in_group = u64::from(content) & ((1 << group_bits) - 1);
                collected[content.to_usize() >> group_bits].push(in_group << bits | blot);
            },
        )?;
        let group = |number: usize| {
            let keys: Vec<&[u64]> = collected
                .iter()
                .filter_map(|collected| collected.get(number).map(Vec::as_slice))
                .collect();
            ContentGroup::new(&keys, bits, 1 << group_bits)
        };
        let pool = parallel::pool(threads);
        let groups = pool.install(|| (0..groups).into_par_iter().map(group).collect());
        Ok(Some(Self { group_bits, groups }))
    }

    /// The blots that this content is the first to have, in any order.
    pub fn of(&self, content: u32) -> &[u64] {
        let group = &self.groups[content.to_usize() >> self.group_bits];
        let in_group = content.to_usize() & ((1 << self.group_bits) - 1);
        &group.blots[group.starts[in_group].to_usize()..group.starts[in_group + 1].to_usize()]
    }
}

/// Calls `each` with every blot and its first content, in any order; each thread has its own collection.
fn collect<T: Default + Send>(
    view: &View<'_>,
    threads: usize,
    each: impl Fn(u32, u64, &mut T) + Sync,
) -> Result<Vec<T>> {
    let ranges = view.ranges();
    let first_of_set = first_of_sets(view)?;
    let collect_share = |share: usize| {
        let (mut merger, mut collected) = (view.merger(), T::default());
        for slices in ranges.iter().skip(share).step_by(threads) {
            match &first_of_set {
                Some(first_of_set) => {
                    for_each_in_segment(view, first_of_set, slices, |content, blot| {
                        each(content, blot, &mut collected)
                    })?
                }
                None => merger.for_each_unordered(slices, |blot, target, sets| {
                    let first = match target {
                        MergedTarget::One(content) => content,
                        MergedTarget::Set(set) => sets.get(set)[0],
                    };
                    each(first, blot, &mut collected)
                })?,
            }
        }
        Ok(collected)
    };
    parallel::pool(threads).install(|| (0..threads).into_par_iter().map(collect_share).collect())
}

/// The first content of each set; `None` if there are several segments, whose sets have to be united.
///
/// That takes a third of the time of translating whole sets.
fn first_of_sets(view: &View<'_>) -> Result<Option<Vec<u32>>> {
    let ([segment], [contents]) = (&view.segments[..], &view.content_at[..]) else {
        return Ok(None);
    };
    let mut first = Vec::new();
    segment.sets.for_each(|_, places| {
        let mut least = NONE;
        for place in places {
            let content = contents.get(place.to_usize()).ok_or_else(|| {
                let what = format!("the document at place {place} of a set is not there");
                segment.sets.file().damaged(0, what)
            })?;
            least = least.min(*content);
        }
        first.push(least);
        Ok(())
    })?;
    Ok(Some(first))
}

/// Calls `each` with the first content of every blot of some slices of the only segment. Blots of removed documents have none.
fn for_each_in_segment(
    view: &View<'_>,
    first_of_set: &[u32],
    slices: &Range<usize>,
    mut each: impl FnMut(u32, u64),
) -> Result<()> {
    let (first, last) = blots_of(slices, view.bits);
    let segment = view.segments[0];
    for part in &segment.parts {
        part.for_each_between(first, last, |blot, target| {
            let (firsts, number) = match target {
                BlotTarget::One(place) => (&view.content_at[0][..], place),
                BlotTarget::Set(set) => (first_of_set, set.get()),
            };
            let Some(&first) = firsts.get(number.to_usize()) else {
                return Err(part.file().damaged(
                    0,
                    format!("blot {blot:x} leads to a document or set that is not there"),
                ));
            };
            if first != NONE {
                each(first, blot);
            }
            Ok(())
        })?;
    }
    Ok(())
}

impl ContentGroup {
    /// Sorts blots by the number above their `bits` bits, which is less than `contents`.
    fn new(keys: &[&[u64]], bits: u32, contents: usize) -> Self {
        let number = |key: u64| (key >> bits).to_usize();
        let keys = || keys.iter().copied().flatten().copied();
        let mut starts = vec![0_u32; contents + 1];
        keys().for_each(|key| starts[number(key) + 1] += 1);
        for at in 0..contents {
            starts[at + 1] += starts[at];
        }
        let mut blots = vec![0; starts[contents].to_usize()];
        let mut ends = starts.clone();
        for key in keys() {
            let end = &mut ends[number(key)];
            blots[end.to_usize()] = key & ((1 << bits) - 1);
            *end += 1;
        }
        Self { starts, blots }
    }
}

/// A set of blots of fewer than 64 bits, in a table that is reused.
#[derive(Clone)]
pub struct BlotTable {
    /// At most a quarter of them hold a blot, so that most look-ups end at the first.
    slots: Vec<u64>,
    shift: u32,
}

/// A slot without a blot.
const EMPTY: u64 = u64::MAX;

impl Default for BlotTable {
    fn default() -> Self {
        Self {
            slots: vec![EMPTY; 2],
            shift: 63,
        }
    }
}

impl BlotTable {
    /// Replaces the blots.
    pub fn fill(&mut self, blots: &[u64]) {
        let size = (4 * blots.len()).next_power_of_two().max(2);
        clear_buffer(&mut self.slots);
        self.slots.resize(size, EMPTY);
        self.shift = u64::BITS - size.ilog2();
        for &blot in blots {
            let slot = self.slot_of(blot);
            self.slots[slot] = blot;
        }
    }

    /// Whether it has a blot.
    pub fn contains(&self, blot: u64) -> bool {
        self.slots[self.slot_of(blot)] == blot
    }

    /// The slot of a blot, or the empty one where it would be.
    fn slot_of(&self, blot: u64) -> usize {
        // Blots are hashes, but those of several tokenizers may agree in some bits.
        let mut slot = (blot.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift).to_usize();
        while self.slots[slot] != blot && self.slots[slot] != EMPTY {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{Index, test_files::commit};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Documents of some commits, by their blots.
    fn commits() -> impl Strategy<Value = Vec<Vec<BTreeSet<u64>>>> {
        let blots = prop::collection::btree_set(0_u64..40, 0..12);
        prop::collection::vec(prop::collection::vec(blots, 1..8), 1..4)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn each_blot_is_new_in_its_first_content(commits in commits(), threads in 1_usize..4, removes in any::<bool>()) {
            let directory = tempfile::tempdir().unwrap();
            let mut number = 0;
            for documents in &commits {
                let documents: Vec<(String, u64, Vec<u64>)> = documents.iter().map(|blots| {
                    number += 1;
                    (format!("d{}", 97 * number % 100), number, blots.iter().map(|blot| blot * 0x600_0001).collect())
                }).collect();
                let documents: Vec<_> = documents.iter().map(|(id, content, blots)| (id.as_str(), *content, blots.clone())).collect();
                commit(directory.path(), &documents, &[]);
            }
            if removes {
                commit(directory.path(), &[], &["d97"]);
            }
            let index = Index::open(directory.path()).unwrap();
            for view in [View::of(&index).unwrap(), View::by_id(&index).unwrap()] {
                let mut expected = vec![Vec::new(); view.contents().len()];
                view.for_each_blot(|blot, contents| {
                    expected[contents[0] as usize].push(blot.get());
                    Ok(())
                }).unwrap();
                let new = NewBlots::new(&view, threads).unwrap().unwrap();
                for (content, expected) in (0..).zip(expected) {
                    let mut found = new.of(content).to_vec();
                    found.sort_unstable();
                    prop_assert_eq!(found, expected);
                }
            }
        }

        #[test]
        fn a_table_has_the_blots_that_it_was_filled_with(sets in prop::collection::vec(prop::collection::btree_set(0_u64..200, 0..60), 1..4)) {
            let mut table = BlotTable::default();
            prop_assert!(!table.contains(0));
            for blots in sets {
                table.fill(&blots.iter().copied().collect::<Vec<_>>());
                for blot in 0..200 {
                    prop_assert_eq!(table.contains(blot), blots.contains(&blot));
                }
            }
        }
    }
}
