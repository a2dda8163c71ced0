//! Sets of documents, each kept once.

use std::cmp::Reverse;

/// Finds the number of a set, and counts how often each is asked for.
#[derive(Default)]
pub struct SetDictionary {
    sets: Lists,
    uses: Vec<u64>,
    hashes: Vec<u64>,
    /// Open addressing: the number of a set plus one, or 0.
    table: Vec<u32>,
}

/// Lists of numbers in one piece of memory.
#[derive(Default, Clone)]
struct Lists {
    numbers: Vec<u32>,
    ends: Vec<usize>,
}

impl Lists {
    fn push(&mut self, list: &[u32]) {
        self.numbers.extend_from_slice(list);
        self.ends.push(self.numbers.len());
    }

    fn get(&self, index: usize) -> &[u32] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.numbers[start..self.ends[index]]
    }

    fn len(&self) -> usize {
        self.ends.len()
    }
}

impl SetDictionary {
    /// The number of this set, counted once more.
    pub fn number(&mut self, set: &[u32]) -> u32 {
        self.count(set, 1)
    }

    /// Counts a set once more that has this number.
    pub fn again(&mut self, number: u32) {
        self.uses[number as usize] += 1;
    }

    /// Counts a set once less.
    pub fn once_less(&mut self, number: u32) {
        self.uses[number as usize] -= 1;
    }

    pub fn get(&self, number: u32) -> &[u32] {
        self.sets.get(number as usize)
    }

    fn count(&mut self, set: &[u32], uses: u64) -> u32 {
        if 2 * self.sets.len() >= self.table.len() {
            self.grow();
        }
        let hash = hash(set);
        let mask = self.table.len() - 1;
        let mut slot = hash as usize & mask;
        while let Some(found) = (self.table[slot] as usize).checked_sub(1) {
            if self.hashes[found] == hash && self.sets.get(found) == set {
                self.uses[found] += uses;
                return found as u32;
            }
            slot = (slot + 1) & mask;
        }
        self.sets.push(set);
        self.uses.push(uses);
        self.hashes.push(hash);
        self.table[slot] = self.sets.len() as u32;
        self.sets.len() as u32 - 1
    }

    fn grow(&mut self) {
        let size = (2 * self.table.len()).max(1 << 10);
        self.table = vec![0; size];
        for (number, &hash) in self.hashes.iter().enumerate() {
            let mut slot = hash as usize & (size - 1);
            while self.table[slot] != 0 {
                slot = (slot + 1) & (size - 1);
            }
            self.table[slot] = number as u32 + 1;
        }
    }
}

fn hash(set: &[u32]) -> u64 {
    let sum =
        set.iter().fold(set.len() as u64, |sum, &number| (sum.rotate_left(23) ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    sum ^ sum >> 29
}

/// All sets of a commit, numbered by falling use; of equal ones the lesser list comes first.
#[derive(Default, Clone)]
pub struct Sets {
    lists: Lists,
    uses: Vec<u64>,
}

impl Sets {
    /// Joins dictionaries; also gives, for each of them, the number of each of its sets in the whole.
    pub fn join(dictionaries: Vec<SetDictionary>) -> (Self, Vec<Vec<u32>>) {
        let mut all = SetDictionary::default();
        let joined: Vec<Vec<u32>> = dictionaries
            .iter()
            .map(|one| (0..one.sets.len()).map(|index| all.count(one.sets.get(index), one.uses[index])).collect())
            .collect();
        let mut order: Vec<u32> = (0..all.sets.len() as u32).collect();
        order.sort_unstable_by_key(|&number| (Reverse(all.uses[number as usize]), all.sets.get(number as usize)));
        let mut place = vec![0; order.len()];
        let mut sets = Self::default();
        for (number, &old) in order.iter().enumerate() {
            place[old as usize] = number as u32;
            sets.lists.push(all.sets.get(old as usize));
            sets.uses.push(all.uses[old as usize]);
        }
        (sets, joined.into_iter().map(|numbers| numbers.into_iter().map(|old| place[old as usize]).collect()).collect())
    }

    pub fn len(&self) -> usize {
        self.lists.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, number: usize) -> &[u32] {
        self.lists.get(number)
    }

    /// How many blots have each set.
    pub fn uses(&self) -> &[u64] {
        &self.uses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn numbers_fall_with_use_however_the_sets_were_split() {
        let sets: [&[u32]; 6] = [&[1, 2], &[3, 9, 11], &[1, 2], &[0, 5], &[0, 4], &[3, 9, 11]];
        let expected: Vec<&[u32]> = vec![&[1, 2], &[3, 9, 11], &[0, 4], &[0, 5]];
        for cut in 0..=sets.len() {
            let mut parts = [SetDictionary::default(), SetDictionary::default()];
            let numbers: Vec<_> =
                sets.iter().enumerate().map(|(at, set)| (usize::from(at >= cut), parts[usize::from(at >= cut)].number(set))).collect();
            let (joined, places) = Sets::join(parts.into());
            assert_eq!((0..joined.len()).map(|number| joined.get(number)).collect::<Vec<_>>(), expected);
            assert_eq!(joined.uses(), [2, 2, 1, 1]);
            for (&(part, number), set) in numbers.iter().zip(sets) {
                assert_eq!(joined.get(places[part][number as usize] as usize), set);
            }
        }
    }

    #[test]
    fn many_sets_are_told_apart() {
        let mut dictionary = SetDictionary::default();
        let numbers: HashMap<u32, [u32; 2]> =
            (0..5000).map(|n| (dictionary.number(&[n % 70, 100 + n / 70]), [n % 70, 100 + n / 70])).collect();
        assert_eq!(numbers.len(), 5000);
        assert!(numbers.iter().all(|(&number, set)| dictionary.number(set) == number));
    }
}
