//! Where blocks in files are not supported, all are in memory.

use super::{heap::Heap, temp::TempDir};
use crate::base::error::Error;
use std::alloc::{GlobalAlloc, Layout};

/// No block is counted.
pub const LEAST_BYTES: usize = usize::MAX;

/// Nothing is known of the blocks.
pub struct Blocks;

impl Blocks {
    pub const fn new() -> Self {
        Self
    }

    pub fn limit(&self, _memory_bytes: u64, _directory: &TempDir) {}

    pub fn failure(&self) -> Option<Error> {
        None
    }

    pub fn alloc(&self, _layout: Layout, in_memory: impl Fn() -> *mut u8) -> *mut u8 {
        in_memory()
    }

    pub fn dealloc(&self, _block: *mut u8, _bytes: usize) -> bool {
        false
    }

    /// # Safety
    ///
    /// As for [`GlobalAlloc::realloc`].
    pub unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as the caller ensures.
        unsafe { Heap.realloc(block, layout, bytes) }
    }
}
