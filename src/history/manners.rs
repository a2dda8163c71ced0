//! Giving way: work that takes seconds is done on processors that those who answer may want.
//!
//! A low priority alone would not do: systems let whoever runs have its time slice, some milliseconds, before another one that has just
//! woken up. So whoever works long gives way every tenth of a millisecond or two.

use std::thread;

/// Entries after which others may have the processor.
pub const STEP: usize = 1 << 10;

/// Items in their order; after some of them others may have the processor.
pub fn politely<T>(items: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    items.enumerate().map(|(at, item)| {
        if at % STEP == STEP - 1 {
            thread::yield_now();
        }
        item
    })
}
