//! Similarity search over prints: the algorithms, whichever storage the prints are in.
//!
//! [`searcher::search`] answers many queries against one set of entries: a segment in a file or a
//! memtable, both of which implement [`searchable::SearchableEntries`]. A print of 256 bits is cut
//! into eight parts ([`part_keys`]); by the pigeonhole principle two prints that differ in few bits
//! are nearly equal in one of them, so looking up all parts with a few bits flipped finds all
//! similar prints. [`plan`] decides how many bits to flip in which part, and when a scan of all
//! entries is cheaper; [`scan`] has the vectorised inner loops.

pub(super) mod part_keys;
pub(super) mod part_table;
pub(super) mod plan;
pub(super) mod print_halves;
mod probes;
pub(super) mod scan;
pub(super) mod searchable;
pub(super) mod searcher;
pub(super) mod similarity;

/// The lower 32 bits of a word.
#[inline(always)]
pub(super) fn low_half(word: u64) -> u32 {
    word as u32
}

/// The upper 32 bits of a word.
#[inline(always)]
pub(super) fn high_half(word: u64) -> u32 {
    low_half(word >> 32)
}
