//! Throttling of long background work, so that it does not delay answers.
//!
//! A low priority alone is not enough. A scheduler lets a running thread finish its time slice of
//! some milliseconds before a thread that has just woken up; and it sends that one to an idle
//! processor, not to one that runs unimportant work. So background work yields every tenth of a
//! millisecond or two, and while clients wait for answers it pauses twice as long as it worked. Then
//! a server and a client on two processors do not share one of them, in slices of 4 ms, while the
//! other one writes a file.

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Items after which a loop yields.
pub const YIELD_INTERVAL: usize = 1 << 10;
/// After less work there is no pause.
const MIN_WORK: Duration = Duration::from_micros(100);
/// The length of a pause, as a multiple of the work before it.
const PAUSE_FACTOR: u32 = 2;
const MAX_PAUSE: Duration = Duration::from_millis(2);

thread_local! {
    /// For a throttled thread: when it began to work, and whether its work is urgent.
    static THROTTLE: RefCell<Option<(Instant, Arc<AtomicBool>)>> = const { RefCell::new(None) };
}

/// From now on [`yield_now`] pauses this thread unless its work is urgent.
pub fn throttle_unless(is_urgent: Arc<AtomicBool>) {
    THROTTLE.set(Some((Instant::now(), is_urgent)));
}

/// Lets other threads have the processor.
pub fn yield_now() {
    THROTTLE.with_borrow_mut(|throttle| match throttle {
        Some((since, is_urgent)) if !is_urgent.load(Ordering::Relaxed) => {
            let worked = since.elapsed();
            if worked >= MIN_WORK {
                thread::sleep((PAUSE_FACTOR * worked).min(MAX_PAUSE));
                *since = Instant::now();
            }
        }
        _ => thread::yield_now(),
    });
}

/// The items in order, yielding after every [`YIELD_INTERVAL`] of them.
pub fn throttled<T>(items: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    items.enumerate().map(|(at, item)| {
        if at % YIELD_INTERVAL == YIELD_INTERVAL - 1 {
            yield_now();
        }
        item
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgent_work_is_not_paused() {
        let pauses = |is_urgent: bool| {
            let work = move || {
                throttle_unless(Arc::new(AtomicBool::new(is_urgent)));
                let a_second = Duration::from_secs(1);
                THROTTLE.with_borrow_mut(|throttle| throttle.as_mut().unwrap().0 -= a_second);
                let start = Instant::now();
                yield_now();
                let since = THROTTLE.with_borrow(|throttle| throttle.as_ref().unwrap().0);
                (start.elapsed() >= MAX_PAUSE, since > start)
            };
            thread::spawn(work).join().unwrap()
        };
        assert_eq!(pauses(false), (true, true));
        assert!(!pauses(true).1);
    }
}
