//! The blots that several texts have, and the tokens before their windows.
//!
//! A window that always follows the same token begins no passage: the passage could be extended to
//! the left. That holds for most windows of copied text, and shows as documents are read, so that
//! only the others are ever sorted.

use crate::base::num::{ToU32, ToU64, ToUsize};
use crate::{base::error::Result, index::View};
use std::{
    hint::black_box,
    sync::atomic::{AtomicU64, Ordering},
};

/// The most entries of a table: 8 bytes each, and 2 to find them. If there are more blots, all
/// windows are sorted.
const MOST_ENTRIES: u64 = 1 << 28;
/// The number of bits of a blot that are kept besides those that say where it is. Two blots that
/// agree in all of them are treated as one: passages are compared by their tokens anyway.
const LOW_BITS: u8 = 12;
/// The other bits of an entry: no token before the window yet, the only one, or several.
const PREDECESSOR: u64 = u64::MAX >> LOW_BITS;
const SEVERAL_PREDECESSORS: u64 = PREDECESSOR;

/// The blots that several texts have, by rank.
pub struct SharedWindows {
    bits: u8,
    table: Option<SharedWindowTable>,
}

struct SharedWindowTable {
    entries: Vec<AtomicU64>,
    /// The first entry of the blots with the same top bits.
    starts: Vec<u32>,
    start_bits: u8,
    low_bits: u8,
}

/// The rank of a blot that only one text has.
pub const UNSHARED: u32 = u32::MAX;

impl SharedWindows {
    /// Reads the shared blots of a view; more than `most` get no table.
    pub fn new(view: &View<'_>, bits: u8, threads: usize, most: Option<u64>) -> Result<Self> {
        let blots = view.stored_blots();
        if blots > most.unwrap_or(MOST_ENTRIES) {
            return Ok(Self { bits, table: None });
        }
        let start_bits = (blots.max(1).ilog2() as u8)
            .saturating_sub(1)
            .clamp(1, bits);
        let low_bits = (bits - start_bits).min(LOW_BITS);
        let (mut entries, mut starts) = (Vec::new(), Vec::with_capacity((1 << start_bits) + 1));
        let mut last = None;
        view.for_each_shared(
            threads,
            |_| (),
            |blot, ()| {
                let kept = blot.get() >> (bits - start_bits - low_bits);
                if last.replace(kept) != Some(kept) {
                    starts.resize((kept >> low_bits).to_usize() + 1, entries.len().to_u32());
                    entries.push(AtomicU64::new(
                        (kept & ((1 << low_bits) - 1)) << (64 - LOW_BITS),
                    ));
                }
                Ok(())
            },
        )?;
        starts.resize((1 << start_bits) + 1, entries.len().to_u32());
        Ok(Self {
            bits,
            table: Some(SharedWindowTable {
                entries,
                starts,
                start_bits,
                low_bits,
            }),
        })
    }

    /// All ranks are below this.
    pub fn ranks(&self) -> u64 {
        self.table
            .as_ref()
            .map_or(1 << self.bits.min(32), |table| table.entries.len().to_u64())
    }

    /// Appends the rank of each blot, or [`UNSHARED`].
    pub fn rank(&self, blots: &[u64], out: &mut Vec<u32>) {
        match &self.table {
            Some(table) => table.rank(blots, self.bits, out),
            None => {
                out.extend(blots.iter().map(|blot| {
                    ((blot >> self.bits.saturating_sub(32)).to_u32()).min(UNSHARED - 1)
                }))
            }
        }
    }

    /// Records the token before a window with a blot of this rank; `None` at the start of a text.
    pub fn add_predecessor(&self, rank: u32, before: Option<u64>) {
        let Some(table) = &self.table else { return };
        let entry = &table.entries[rank.to_usize()];
        let before = before.map_or(SEVERAL_PREDECESSORS, |hash| {
            (hash & PREDECESSOR).clamp(1, SEVERAL_PREDECESSORS - 1)
        });
        let mut known = entry.load(Ordering::Relaxed);
        loop {
            let next = match known & PREDECESSOR {
                0 => known | before,
                same if same == before || same == SEVERAL_PREDECESSORS => return,
                _ => known | SEVERAL_PREDECESSORS,
            };
            match entry.compare_exchange_weak(known, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => known = now,
            }
        }
    }

    /// Whether a passage may begin at a window of this rank, once all are recorded.
    pub fn may_begin(&self, rank: u32) -> bool {
        self.table.as_ref().is_none_or(|table| {
            table.entries[rank.to_usize()].load(Ordering::Relaxed) & PREDECESSOR
                == SEVERAL_PREDECESSORS
        })
    }
}

impl SharedWindowTable {
    fn rank(&self, blots: &[u64], bits: u8, out: &mut Vec<u32>) {
        let kept = |blot: u64| blot >> (bits - self.start_bits - self.low_bits);
        let start = |blot: u64| self.starts[(kept(blot) >> self.low_bits).to_usize()].to_usize();
        // Loads distant memory for all blots at once.
        black_box(blots.iter().fold(0, |sum, &blot| sum ^ start(blot)));
        let load = |at: usize| {
            self.entries
                .get(at)
                .map_or(0, |entry| entry.load(Ordering::Relaxed))
        };
        black_box(blots.iter().fold(0, |sum, &blot| sum ^ load(start(blot))));
        out.extend(blots.iter().map(|&blot| {
            let (low, first) = (kept(blot) & ((1 << self.low_bits) - 1), start(blot));
            let end = self.starts[(kept(blot) >> self.low_bits).to_usize() + 1].to_usize();
            let low_of = |entry: &AtomicU64| entry.load(Ordering::Relaxed) >> (64 - LOW_BITS);
            let at = self.entries[first..end]
                .iter()
                .position(|entry| low_of(entry) >= low);
            at.map(|at| first + at)
                .filter(|&at| low_of(&self.entries[at]) == low)
                .map_or(UNSHARED, |at| at.to_u32())
        }));
    }
}
