//! Giving way: work that takes seconds is done on processors that those who answer may want.
//!
//! A low priority alone would not do: systems let whoever runs have its time slice, some milliseconds, before another one that has just
//! woken up; and who wakes up is sent to a processor that has nothing to do, not to one whose work is of little importance. So whoever works
//! long gives way every tenth of a millisecond or two, and while somebody waits for answers it rests twice as long as it worked. Then two
//! who answer and ask do not have to share one processor, in turns of 4 ms, while the other one makes a file.

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Entries after which others may have the processor.
pub const STEP: usize = 1 << 10;
/// What is too short to rest after it; how much longer than the work a rest is, and how long at most.
const SHORT: Duration = Duration::from_micros(100);
const REST: u32 = 2;
const MOST_REST: Duration = Duration::from_millis(2);

thread_local! {
    /// Of a thread that rests: when it began to work, and whether there is no time for rests.
    static WORK: RefCell<Option<(Instant, Arc<AtomicBool>)>> = const { RefCell::new(None) };
}

/// From now on this thread rests when it gives way, unless there is a hurry.
pub fn rest_unless(hurry: Arc<AtomicBool>) {
    WORK.set(Some((Instant::now(), hurry)));
}

/// Lets others have the processor.
pub fn give_way() {
    WORK.with_borrow_mut(|work| match work {
        Some((since, hurry)) if !hurry.load(Ordering::Relaxed) => {
            let worked = since.elapsed();
            if worked >= SHORT {
                thread::sleep((REST * worked).min(MOST_REST));
                *since = Instant::now();
            }
        }
        _ => thread::yield_now(),
    });
}

/// Items in their order; after some of them others may have the processor.
pub fn politely<T>(items: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    items.enumerate().map(|(at, item)| {
        if at % STEP == STEP - 1 {
            give_way();
        }
        item
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_in_a_hurry_does_not_rest() {
        let rest_after = |hurry: bool| {
            let work = move || {
                rest_unless(Arc::new(AtomicBool::new(hurry)));
                WORK.with_borrow_mut(|work| work.as_mut().unwrap().0 -= Duration::from_secs(1));
                let start = Instant::now();
                give_way();
                (
                    start.elapsed() >= MOST_REST,
                    WORK.with_borrow(|work| work.as_ref().unwrap().0) > start,
                )
            };
            thread::spawn(work).join().unwrap()
        };
        assert_eq!(rest_after(false), (true, true));
        assert!(!rest_after(true).1);
    }
}
