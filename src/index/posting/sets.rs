//! Distinct sets of documents, and their numbers.

use crate::base::{
    codec::{clear_buffer, put_varint},
    error::Result,
    files::{TempFile, TempReader},
    ids::SetNo,
    num::{ToU32, ToU64, ToUsize},
};
use std::{cmp::Reverse, hint::black_box};

/// Numbers distinct sets, and counts the uses of each.
#[derive(Default)]
pub struct SetDictionary {
    sets: NumberLists,
    uses: Vec<u64>,
    hashes: Vec<u64>,
    /// A hash table with open addressing: the upper half of the hash of a set and its number plus
    /// one, or 0. With the hash here a look-up reads distant memory once less.
    table: Vec<u64>,
}

/// The bits of the hash in an entry of the table.
const HASH_BITS: u64 = u64::MAX << 32;

/// Lists of numbers in one allocation.
#[derive(Default)]
pub(super) struct NumberLists {
    numbers: Vec<u32>,
    ends: Vec<usize>,
}

impl NumberLists {
    pub fn push(&mut self, list: &[u32]) {
        self.numbers.extend_from_slice(list);
        self.ends.push(self.numbers.len());
    }

    pub fn get(&self, index: usize) -> &[u32] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.numbers[start..self.ends[index]]
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }
}

/// Sets that are numbered together.
#[derive(Default)]
pub struct ListBatch {
    lists: NumberLists,
    hashes: Vec<u64>,
}

impl ListBatch {
    /// Removes all sets.
    pub fn clear(&mut self) {
        clear_buffer(&mut self.lists.numbers);
        self.lists.ends.clear();
        self.hashes.clear();
    }

    /// Adds a set.
    pub fn push(&mut self, set: impl Iterator<Item = u32>) {
        self.lists.numbers.extend(set);
        self.lists.ends.push(self.lists.numbers.len());
        let set = self.lists.get(self.lists.len() - 1);
        self.hashes.push(hash(set));
    }
}

/// The first two numbers of a list as one: most lists differ in them.
pub(super) fn head_of(list: &[u32]) -> u64 {
    u64::from(list[0]) << 32 | u64::from(list[1])
}

impl SetDictionary {
    /// The number of this set. Counts one more use.
    pub fn number(&mut self, set: &[u32]) -> SetNo {
        self.count(set, 1)
    }

    /// Counts one more use of the set with this number.
    pub fn again(&mut self, number: SetNo) {
        self.uses[number.index()] += 1;
    }

    /// Counts this many more uses of a set.
    pub fn add(&mut self, set: &[u32], uses: u64) {
        self.count(set, uses);
    }

    /// Counts one use less of the set with this number.
    pub fn once_less(&mut self, number: SetNo) {
        self.uses[number.index()] -= 1;
    }

    /// The documents of the set with this number.
    pub fn get(&self, number: SetNo) -> &[u32] {
        self.sets.get(number.index())
    }

    /// Whether there are no sets.
    pub fn is_empty(&self) -> bool {
        self.uses.is_empty()
    }

    /// The memory that the dictionary takes.
    pub fn bytes(&self) -> u64 {
        let words = self.sets.ends.capacity()
            + self.uses.capacity()
            + self.hashes.capacity()
            + self.table.capacity();
        (8 * words + 4 * self.sets.numbers.capacity()) as u64
    }

    /// The numbers of the sets in the order of their lists, and the lists with their uses.
    pub(super) fn into_sorted(self) -> (Vec<SetNo>, NumberLists, Vec<u64>) {
        let Self { sets, uses, .. } = self;
        let mut order: Vec<(u64, SetNo)> = SetNo::first(sets.len())
            .map(|number| (head_of(sets.get(number.index())), number))
            .collect();
        order.sort_unstable_by(|one, two| {
            one.0
                .cmp(&two.0)
                .then_with(|| sets.get(one.1.index())[2..].cmp(&sets.get(two.1.index())[2..]))
        });
        (
            order.into_iter().map(|(_, number)| number).collect(),
            sets,
            uses,
        )
    }

    /// Appends the number of each set, and counts one more use of each.
    ///
    /// The sets of neighbouring blots have nothing to do with each other, so that each step of each
    /// look-up reads distant memory. Here the reads of all sets overlap, which halves the time.
    pub fn number_all(&mut self, sets: &ListBatch, out: &mut Vec<SetNo>) {
        if !self.table.is_empty() {
            let slots = sets
                .hashes
                .iter()
                .map(|&hash| self.table[self.slot_of(hash)]);
            let numbers = slots.map(|entry| (entry & !HASH_BITS).to_usize().wrapping_sub(1));
            let end = |number: usize| self.sets.ends.get(number).copied().unwrap_or_default();
            black_box(numbers.clone().fold(0, |sum, number| sum ^ number));
            black_box(numbers.clone().fold(0, |sum, number| sum ^ end(number)));
            let last = |number: usize| self.sets.numbers.get(end(number).wrapping_sub(1));
            black_box(numbers.fold(0, |sum, number| sum ^ last(number).copied().unwrap_or(0)));
        }
        let all = (0..sets.lists.len()).map(|at| (sets.lists.get(at), sets.hashes[at]));
        out.extend(all.map(|(set, hash)| self.count_hashed(set, hash, 1)));
    }

    fn count(&mut self, set: &[u32], uses: u64) -> SetNo {
        self.count_hashed(set, hash(set), uses)
    }

    fn slot_of(&self, hash: u64) -> usize {
        hash as usize & (self.table.len() - 1)
    }

    fn count_hashed(&mut self, set: &[u32], hash: u64, uses: u64) -> SetNo {
        if 2 * self.sets.len() >= self.table.len() {
            self.grow();
        }
        let mask = self.table.len() - 1;
        let mut slot = self.slot_of(hash);
        while self.table[slot] != 0 {
            let found = (self.table[slot] & !HASH_BITS).to_usize() - 1;
            let may_be_it = (self.table[slot] ^ hash) & HASH_BITS == 0;
            if may_be_it && are_equal(self.sets.get(found), set) {
                self.uses[found] += uses;
                return SetNo::from_index(found);
            }
            slot = (slot + 1) & mask;
        }
        self.sets.push(set);
        self.uses.push(uses);
        self.hashes.push(hash);
        self.table[slot] = hash & HASH_BITS | self.sets.len().to_u64();
        SetNo::from_index(self.sets.len() - 1)
    }

    fn grow(&mut self) {
        let size = (2 * self.table.len()).max(1 << 10);
        self.table = vec![0; size];
        for (number, &hash) in self.hashes.iter().enumerate() {
            let mut slot = hash as usize & (size - 1);
            while self.table[slot] != 0 {
                slot = (slot + 1) & (size - 1);
            }
            self.table[slot] = hash & HASH_BITS | (number.to_u64() + 1);
        }
    }
}

/// Whether two lists are equal. Most are so short that a call of `memcmp` takes longer than comparing them.
fn are_equal(one: &[u32], two: &[u32]) -> bool {
    const SHORT: usize = 8;
    one.len() == two.len()
        && if one.len() <= SHORT {
            one.iter().zip(two).all(|(one, two)| one == two)
        } else {
            one == two
        }
}

/// Hashes a set; the numbers in memory depend on it, those on disk do not.
fn hash(set: &[u32]) -> u64 {
    let sum = set.iter().fold(set.len() as u64, |sum, &number| {
        (sum.rotate_left(23) ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    sum ^ sum >> 29
}

/// All sets of a commit, numbered by falling use; of sets with equal use the lesser list comes
/// first.
///
/// The sets of one blot have the last numbers. If there are too many of them, they are on disk, and
/// can only be read in order.
#[derive(Default)]
pub struct Sets {
    lists: NumberLists,
    /// For each number, the index of its list.
    pub(super) order: Vec<u32>,
    uses: Vec<u64>,
    pub(super) tail: Option<SpilledTail>,
}

/// Sets of one blot each, in a temporary file.
pub(super) struct SpilledTail {
    pub file: TempFile,
    pub sets: u64,
}

impl Sets {
    /// Joins dictionaries; returns, for each of them, the final numbers of its sets.
    ///
    /// The first dictionary grows to hold all sets; the others are freed one by one.
    pub fn join(dictionaries: Vec<SetDictionary>) -> (Self, Vec<Vec<SetNo>>) {
        let mut dictionaries = dictionaries.into_iter();
        let mut all = dictionaries.next().unwrap_or_default();
        let mut joined: Vec<Vec<SetNo>> = vec![SetNo::first(all.sets.len()).collect()];
        joined.extend(dictionaries.map(|one| {
            (0..one.sets.len())
                .map(|index| all.count(one.sets.get(index), one.uses[index]))
                .collect()
        }));
        let SetDictionary { sets, uses, .. } = all;
        let (sets, place) = Self::ordered(sets, &uses, None);
        joined
            .iter_mut()
            .flatten()
            .for_each(|number| *number = place[number.index()]);
        (sets, joined)
    }

    /// Numbers lists; returns the number of each.
    pub(super) fn ordered(
        lists: NumberLists,
        uses: &[u64],
        tail: Option<SpilledTail>,
    ) -> (Self, Vec<SetNo>) {
        let mut order: Vec<u32> = (0..lists.len().to_u32()).collect();
        order.sort_unstable_by_key(|list| {
            let list = list.to_usize();
            (Reverse(uses[list]), lists.get(list))
        });
        let mut place = vec![SetNo::default(); order.len()];
        SetNo::first(order.len())
            .zip(&order)
            .for_each(|(number, list)| place[list.to_usize()] = number);
        let uses = order.iter().map(|list| uses[list.to_usize()]).collect();
        (
            Self {
                lists,
                order,
                uses,
                tail,
            },
            place,
        )
    }

    /// The number of sets.
    pub fn len(&self) -> usize {
        self.order.len() + self.tail.as_ref().map_or(0, |tail| tail.sets as usize)
    }

    /// Whether there are no sets.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The documents of a set that is in memory, as all are if nothing was spilled.
    pub fn get(&self, number: SetNo) -> &[u32] {
        self.lists.get(self.order[number.index()].to_usize())
    }

    /// The number of blots of each set that is in memory.
    pub fn uses(&self) -> &[u64] {
        &self.uses
    }

    /// For each bit length, the number of blots whose set number has this length.
    pub fn uses_by_length(&self) -> [u64; 33] {
        let mut counts = [0; 33];
        for (number, uses) in self.uses.iter().enumerate() {
            counts[32 - (number as u32).leading_zeros() as usize] += uses;
        }
        let (first, end) = (self.uses.len() as u64, self.len() as u64);
        for (length, count) in counts.iter_mut().enumerate() {
            let least = if length == 0 { 0 } else { 1 << (length - 1) };
            *count += end.min(1 << length).saturating_sub(first.max(least));
        }
        counts
    }

    /// Calls `each` with every set and the number of its blots, in the order of their numbers.
    pub fn for_each_used(&self, mut each: impl FnMut(&[u32], u64)) -> Result<()> {
        let mut uses = self.uses.iter();
        self.for_each(|set| {
            // Sets on disk have one blot each.
            each(set, uses.next().copied().unwrap_or(1));
            Ok(())
        })
    }

    /// Calls `each` with every set, in the order of their numbers.
    pub fn for_each(&self, mut each: impl FnMut(&[u32]) -> Result<()>) -> Result<()> {
        SetNo::first(self.order.len()).try_for_each(|number| each(self.get(number)))?;
        let Some(tail) = &self.tail else {
            return Ok(());
        };
        let mut reader = TempReader::new(&tail.file, 0..tail.file.bytes(), 1 << 16);
        let mut list = Vec::new();
        while !reader.is_at_end() {
            read_list(&mut reader, &mut list)?;
            each(&list)?;
        }
        Ok(())
    }
}

/// Collects sets that come in the order of their numbers.
#[derive(Default)]
pub struct StoredSets {
    lists: NumberLists,
    uses: Vec<u64>,
}

impl StoredSets {
    /// Adds the next set, and the number of its blots.
    pub fn push(&mut self, set: &[u32], uses: u64) {
        self.lists.push(set);
        self.uses.push(uses);
    }

    /// All sets, numbered anew by falling use.
    pub fn reordered(self) -> Sets {
        Sets::ordered(self.lists, &self.uses, None).0
    }

    /// All sets, with the numbers in which they came.
    pub fn done(self) -> Sets {
        Sets {
            order: (0..self.lists.len().to_u32()).collect(),
            lists: self.lists,
            uses: self.uses,
            tail: None,
        }
    }
}

/// Appends a list: its length, and the gap from each number to the next.
pub(super) fn put_list(out: &mut Vec<u8>, list: &[u32]) {
    put_varint(out, list.len() as u64);
    let mut last = 0;
    for &number in list {
        put_varint(out, u64::from(number - last));
        last = number;
    }
}

/// Reads a list that [`put_list`] wrote.
pub(super) fn read_list(reader: &mut TempReader<'_>, out: &mut Vec<u32>) -> Result<()> {
    out.clear();
    let mut last = 0;
    for _ in 0..reader.varint()? {
        last += reader.varint()? as u32;
        out.push(last);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn the_most_used_set_comes_first_however_the_sets_were_split() {
        let sets: [&[u32]; 6] = [&[1, 2], &[3, 9, 11], &[1, 2], &[0, 5], &[0, 4], &[3, 9, 11]];
        let expected: Vec<&[u32]> = vec![&[1, 2], &[3, 9, 11], &[0, 4], &[0, 5]];
        for cut in 0..=sets.len() {
            let mut parts = [SetDictionary::default(), SetDictionary::default()];
            let numbers: Vec<_> = sets
                .iter()
                .enumerate()
                .map(|(at, set)| {
                    (
                        usize::from(at >= cut),
                        parts[usize::from(at >= cut)].number(set),
                    )
                })
                .collect();
            let (joined, places) = Sets::join(parts.into());
            assert_eq!(
                SetNo::first(joined.len())
                    .map(|number| joined.get(number))
                    .collect::<Vec<_>>(),
                expected
            );
            assert_eq!(joined.uses(), [2, 2, 1, 1]);
            for (&(part, number), set) in numbers.iter().zip(sets) {
                assert_eq!(joined.get(places[part][number.index()]), set);
            }
        }
    }

    #[test]
    fn many_sets_have_different_numbers() {
        let mut dictionary = SetDictionary::default();
        let numbers: HashMap<SetNo, [u32; 2]> = (0..5000)
            .map(|n| {
                (
                    dictionary.number(&[n % 70, 100 + n / 70]),
                    [n % 70, 100 + n / 70],
                )
            })
            .collect();
        assert_eq!(numbers.len(), 5000);
        assert!(
            numbers
                .iter()
                .all(|(&number, set)| dictionary.number(set) == number)
        );
    }
}
