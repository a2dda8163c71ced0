//! An allocator that puts large blocks into temporary files where memory is limited.
//!
//! Much of what the programs hold is an array with an element for each document: numbers, rows,
//! orders, counts. Each such array is one large block. Once the large blocks in memory exceed a share
//! of the limit, further ones are mapped from files without a name: the system writes their pages out
//! when it needs the memory, and reads them again when they are used. Results do not depend on where a
//! block is. So an array per document needs no code of its own to be counted and to leave memory, and
//! a new one cannot be forgotten.
//!
//! The alternative, a type for such arrays, was rejected: every buffer, hash table and sort that grows
//! with the documents, those of other crates too, would have to know it.
//!
//! Arrays that are visited in order cost little on disk. Code that visits them at random, such as a
//! hash table, runs at full speed as long as the system has memory to spare for the pages of files.

#[cfg(target_os = "linux")]
use super::blocks::{Blocks, LEAST_BYTES};
#[cfg(not(target_os = "linux"))]
use super::no_blocks::{Blocks, LEAST_BYTES};
use super::{heap::Heap, temp::TempDir};
use crate::base::error::Error;
use std::alloc::{GlobalAlloc, Layout};

/// The allocator of the programs. Without a limit it is that of the system, or mimalloc in static programs.
pub struct SpillingAllocator;

/// What the blocks of this process take.
static BLOCKS: Blocks = Blocks::new();

/// Limits the large blocks in memory to a share of `memory_bytes`; others go to files in
/// `directory`, which have no name and vanish with the process. Only the first call has an effect.
///
/// It has none in a program whose allocator is another than [`SpillingAllocator`].
pub fn limit_large_blocks(memory_bytes: u64, directory: &TempDir) {
    BLOCKS.limit(memory_bytes, directory);
}

/// Why large blocks stayed in memory that should have gone to files, if there were any.
pub fn spill_failure() -> Option<Error> {
    BLOCKS.failure()
}

// SAFETY: blocks are either those of the system's allocator, or mappings that nothing else knows; which of the two is looked up by address.
unsafe impl GlobalAlloc for SpillingAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() < LEAST_BYTES {
            // SAFETY: as the caller of this function ensures.
            return unsafe { Heap.alloc(layout) };
        }
        // SAFETY: the same.
        BLOCKS.alloc(layout, || unsafe { Heap.alloc(layout) })
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() < LEAST_BYTES {
            // SAFETY: as the caller of this function ensures.
            return unsafe { Heap.alloc_zeroed(layout) };
        }
        // SAFETY: the same. New files read as zeros.
        BLOCKS.alloc(layout, || unsafe { Heap.alloc_zeroed(layout) })
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.size() >= LEAST_BYTES && BLOCKS.dealloc(block, layout.size()) {
            return;
        }
        // SAFETY: as the caller of this function ensures; the block is one of the system.
        unsafe { Heap.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if layout.size().max(bytes) < LEAST_BYTES {
            // SAFETY: as the caller of this function ensures.
            return unsafe { Heap.realloc(block, layout, bytes) };
        }
        // SAFETY: the same.
        unsafe { BLOCKS.realloc(block, layout, bytes) }
    }
}
