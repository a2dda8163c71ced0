//! The description of a segment file: its counts, and where its sections begin.

use crate::{
    base::num::{ToU32, ToUsize},
    history::search::{
        part_keys::{PART_BITS, PARTS, PartMasks, are_valid_masks},
        part_table::{MAX_ADDRESS_BITS, TableSections},
    },
};
use serde::{Deserialize, Serialize};

/// The number of groups of cardinality, as published.
pub const GROUPS: usize = 27;
/// No section begins after this many bytes.
const FAR: u64 = 1 << 60;
const KIND: &str = "history segment";

/// The group of a cardinality, which is at most 256.
pub fn group_of(cardinality: u32) -> usize {
    cardinality.to_usize() * GROUPS / 257
}

/// The highest cardinality of a group.
pub fn top_of(group: usize) -> u32 {
    ((257 * (group + 1)).div_ceil(GROUPS) - 1).to_u32()
}

/// The description at the end of a segment file: its counts and where its sections begin. The names
/// of its fields are those in the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SegmentDescription {
    pub dedup: String,
    pub entries: u32,
    /// The number of bits of the addresses of tables; and the greatest of those of part 0.
    pub address_bits: u32,
    pub ordered_bits: u32,
    /// For each part the bits of its address, and those of its rest.
    pub masks: Vec<PartMasks>,
    /// The groups of cardinality, and the end.
    pub groups: Vec<CardinalityGroup>,
    /// The lowest and the highest sequence number, and the first and the last time.
    pub sequences: [u64; 2],
    pub times: [u32; 2],
    pub bodies: u64,
    pub directory: u64,
    pub heads: u64,
    pub tables: Vec<TableSections>,
    pub numbers: u64,
    pub stamps: u64,
    pub id_blocks: u64,
    pub ids: [u64; 2],
    pub id_index: u64,
}

/// A group of cardinality.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct CardinalityGroup {
    pub start: u32,
    pub address_bits: u32,
    /// Where its addresses begin in the directory of part 0.
    pub directory: u32,
}

impl SegmentDescription {
    pub fn new(entries: u32) -> Self {
        let none = [0, 0];
        Self {
            dedup: KIND.to_owned(),
            entries,
            address_bits: 0,
            ordered_bits: 0,
            masks: Vec::new(),
            groups: Vec::new(),
            sequences: none,
            times: [0, 0],
            bodies: 0,
            directory: 0,
            heads: 0,
            tables: Vec::new(),
            numbers: 0,
            stamps: 0,
            id_blocks: 0,
            ids: none,
            id_index: 0,
        }
    }

    /// The number of address bits of a part.
    pub fn bits_of(&self, part: usize) -> u32 {
        if part == 0 {
            self.ordered_bits
        } else {
            self.address_bits
        }
    }

    /// Whether the numbers are plausible; places are checked when they are read.
    pub fn is_sound(&self) -> bool {
        self.dedup == KIND
            && self.entries > 0
            && self.address_bits <= MAX_ADDRESS_BITS
            && self.ordered_bits <= 30
            && are_valid_masks(&self.masks, |part| self.bits_of(part), PART_BITS.to_u32())
            && self.tables.len() == PARTS - 1
            && self.groups.len() == GROUPS + 1
            && self.groups.iter().is_sorted_by_key(|group| group.start)
            && self
                .groups
                .iter()
                .all(|group| group.address_bits <= self.ordered_bits && group.start <= self.entries)
            && self.sequences[0] <= self.sequences[1]
            && self
                .tables
                .iter()
                .flat_map(|table| [table.directory, table.buckets])
                .all(|at| at <= FAR)
            && [
                self.bodies,
                self.directory,
                self.heads,
                self.numbers,
                self.stamps,
                self.id_blocks,
                self.id_index,
            ]
            .iter()
            .all(|&at| at <= FAR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_tops() {
        for cardinality in 0..=256 {
            let group = group_of(cardinality);
            assert!(cardinality <= top_of(group) && group_of(top_of(group)) == group);
        }
    }
}
