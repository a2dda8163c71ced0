//! Blots that several texts have, and what stands before them.
//!
//! A window that the same token stands before, wherever it is, begins no passage: one that began there could be longer. That is most windows of what
//! was copied, and they are told as documents are read, so that only the others are ever sorted.

use crate::base::num::{ToU32, ToU64, ToUsize};
use crate::{base::error::Result, index::View};
use std::{
    hint::black_box,
    sync::atomic::{AtomicU64, Ordering},
};

/// A table has this many entries at most: 8 bytes each, and 2 to find them. Beyond, all windows are sorted.
const MOST_ENTRIES: u64 = 1 << 28;
/// Of a blot, so many bits are kept beside those that say where it is. Should two blots agree in all of them, they are taken for one: passages
/// are told by their tokens.
const LOW_BITS: u8 = 12;
/// The rest of an entry is what stands before: nothing yet, a token, or several.
const BEFORE: u64 = u64::MAX >> LOW_BITS;
const SEVERAL: u64 = BEFORE;

/// Blots by rank.
pub struct Marks {
    bits: u8,
    table: Option<Table>,
}

struct Table {
    entries: Vec<AtomicU64>,
    /// Where those start that agree in so many top bits.
    starts: Vec<u32>,
    start_bits: u8,
    low_bits: u8,
}

/// No text shares it.
pub const ALONE: u32 = u32::MAX;

impl Marks {
    /// `most`: of so many blots there is a table.
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
                let kept = blot >> (bits - start_bits - low_bits);
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
            table: Some(Table {
                entries,
                starts,
                start_bits,
                low_bits,
            }),
        })
    }

    /// Ranks are less.
    pub fn ranks(&self) -> u64 {
        self.table
            .as_ref()
            .map_or(1 << self.bits.min(32), |table| table.entries.len().to_u64())
    }

    /// Appends the rank of each blot, or [`ALONE`].
    pub fn rank(&self, blots: &[u64], out: &mut Vec<u32>) {
        match &self.table {
            Some(table) => table.rank(blots, self.bits, out),
            None => out.extend(
                blots
                    .iter()
                    .map(|blot| ((blot >> self.bits.saturating_sub(32)).to_u32()).min(ALONE - 1)),
            ),
        }
    }

    /// A blot of this rank stands after a token; or, if there is none, at the start of a text.
    pub fn mark(&self, rank: u32, before: Option<u64>) {
        let Some(table) = &self.table else { return };
        let entry = &table.entries[rank.to_usize()];
        let before = before.map_or(SEVERAL, |hash| (hash & BEFORE).clamp(1, SEVERAL - 1));
        let mut known = entry.load(Ordering::Relaxed);
        loop {
            let next = match known & BEFORE {
                0 => known | before,
                same if same == before || same == SEVERAL => return,
                _ => known | SEVERAL,
            };
            match entry.compare_exchange_weak(known, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => known = now,
            }
        }
    }

    /// Whether a passage may begin there, once all are marked.
    pub fn may_begin(&self, rank: u32) -> bool {
        self.table.as_ref().is_none_or(|table| {
            table.entries[rank.to_usize()].load(Ordering::Relaxed) & BEFORE == SEVERAL
        })
    }
}

impl Table {
    fn rank(&self, blots: &[u64], bits: u8, out: &mut Vec<u32>) {
        let kept = |blot: u64| blot >> (bits - self.start_bits - self.low_bits);
        let start = |blot: u64| self.starts[(kept(blot) >> self.low_bits).to_usize()].to_usize();
        // Memory that is far away comes for all of them together.
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
                .map_or(ALONE, |at| at.to_u32())
        }));
    }
}
