//! Work on many threads, results in the order of the source.
//!
//! Workers draw items from one source, work on them, and hand the results to a sink that runs on the
//! calling thread in the order of the source. So output depends on the input only, never on the number
//! of threads. What is between source and sink is bounded by weight (bytes): a worker that would
//! exceed the budget waits for the sink. One item heavier than the whole budget passes alone.

use std::{
    collections::BTreeMap,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

/// How many threads work, and how many bytes of input may be under way at once.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub threads: usize,
    pub budget_bytes: u64,
}

impl Limits {
    pub fn new(threads: usize, budget_bytes: u64) -> Self {
        Self {
            threads: threads.max(1),
            budget_bytes,
        }
    }
}

/// An item of the source and the bytes it holds on to.
pub struct Weighted<T> {
    pub item: T,
    pub bytes: u64,
}

/// Draws every item of `source`, runs a worker on it, gives the results to `sink` in order.
///
/// `worker` is called once a thread, so a worker may own scratch space. What `weigh` says of a result counts from when it is made: it
/// may be much more than what went in. The first error, of the
/// source or of the sink, ends the run; results before it have reached the sink. With one thread
/// everything happens on the calling thread.
pub fn ordered<T, R, E, W>(
    limits: Limits,
    mut source: impl Iterator<Item = Result<Weighted<T>, E>> + Send,
    worker: impl Fn() -> W + Sync,
    weigh: impl Fn(&R) -> u64 + Sync,
    mut sink: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E>
where
    T: Send,
    R: Send,
    E: Send,
    W: FnMut(T) -> R,
{
    if limits.threads == 1 {
        let mut work = worker();
        return source.try_for_each(|next| sink(work(next?.item)));
    }
    let queue = Queue::new(limits.budget_bytes);
    let source = Mutex::new((0, source));
    thread::scope(|scope| {
        let mut started = 0;
        for _ in 0..limits.threads {
            let body = || {
                let _end = WorkerEnd(&queue);
                let mut work = worker();
                while let Some((turn, next)) = draw(&source, &queue) {
                    match next {
                        Ok(next) => {
                            let result = work(next.item);
                            let bytes = weigh(&result);
                            queue.put(turn, Ok(result), next.bytes, bytes);
                        }
                        Err(error) => queue.put(turn, Err(error), 0, 0),
                    }
                }
            };
            // With fewer threads than were asked for it takes longer, that is all.
            started += usize::from(thread::Builder::new().spawn_scoped(scope, body).is_ok());
        }
        queue.workers_started(started);
        let _stop = StopOnDrop(&queue);
        if started == 0 {
            let mut work = worker();
            return lock(&source).1.try_for_each(|next| sink(work(next?.item)));
        }
        while let Some((result, bytes)) = queue.take() {
            sink(result?)?;
            queue.release(bytes);
        }
        Ok(())
    })
}

/// The next item and its turn, once there is room for it.
fn draw<T, R, E>(
    source: &Mutex<(u64, impl Iterator<Item = Result<Weighted<T>, E>>)>,
    queue: &Queue<Result<R, E>>,
) -> Option<(u64, Result<Weighted<T>, E>)> {
    let mut guard = lock(source);
    if queue.stopped() {
        return None;
    }
    let next = guard.1.next()?;
    let turn = guard.0;
    guard.0 += 1;
    let bytes = next.as_ref().map_or(0, |next| next.bytes);
    queue.wait_for_room(bytes).then_some((turn, next))
}

/// Results that wait for their turn, and the weight of all that is under way.
struct Queue<R> {
    state: Mutex<State<R>>,
    ready: Condvar,
    room: Condvar,
    budget_bytes: u64,
}

struct State<R> {
    results: BTreeMap<u64, (R, u64)>,
    next_turn: u64,
    bytes: u64,
    workers: usize,
    finished: usize,
    stopped: bool,
}

impl<R> Queue<R> {
    fn new(budget_bytes: u64) -> Self {
        let state = State {
            results: BTreeMap::new(),
            next_turn: 0,
            bytes: 0,
            workers: usize::MAX,
            finished: 0,
            stopped: false,
        };
        Self {
            state: Mutex::new(state),
            ready: Condvar::new(),
            room: Condvar::new(),
            budget_bytes,
        }
    }

    fn workers_started(&self, workers: usize) {
        lock(&self.state).workers = workers;
    }

    fn stopped(&self) -> bool {
        lock(&self.state).stopped
    }

    /// False when the run has stopped meanwhile.
    fn wait_for_room(&self, bytes: u64) -> bool {
        let mut state = lock(&self.state);
        while !state.stopped && state.bytes > 0 && state.bytes + bytes > self.budget_bytes {
            state = self
                .room
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.bytes += bytes;
        !state.stopped
    }

    /// Takes a result that weighs so much, made of an item that weighed so much.
    fn put(&self, turn: u64, result: R, was_bytes: u64, bytes: u64) {
        let mut state = lock(&self.state);
        state.bytes = state.bytes - was_bytes + bytes;
        state.results.insert(turn, (result, bytes));
        if turn == state.next_turn {
            self.ready.notify_one();
        }
        if bytes < was_bytes {
            self.room.notify_all();
        }
    }

    /// The result whose turn it is; none once every worker has ended.
    fn take(&self) -> Option<(R, u64)> {
        let mut state = lock(&self.state);
        loop {
            let turn = state.next_turn;
            if let Some(found) = state.results.remove(&turn) {
                state.next_turn += 1;
                return Some(found);
            }
            if state.finished == state.workers {
                return None;
            }
            state = self
                .ready
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn release(&self, bytes: u64) {
        lock(&self.state).bytes -= bytes;
        self.room.notify_all();
    }
}

/// Counts a worker out, also when it panicked, so that the sink never waits for it.
struct WorkerEnd<'a, R>(&'a Queue<R>);

impl<R> Drop for WorkerEnd<'_, R> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.finished += 1;
        state.stopped |= thread::panicking();
        self.0.ready.notify_one();
        self.0.room.notify_all();
    }
}

/// Lets the workers go when the sink has ended, for whatever reason.
struct StopOnDrop<'a, R>(&'a Queue<R>);

impl<R> Drop for StopOnDrop<'_, R> {
    fn drop(&mut self) {
        lock(&self.0.state).stopped = true;
        self.0.room.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn numbers(count: u64, bytes: u64) -> impl Iterator<Item = Result<Weighted<u64>, String>> {
        (0..count).map(move |item| Ok(Weighted { item, bytes }))
    }

    fn uneven(n: u64) -> u64 {
        (0..(n * 7919) % 1000).fold(n, |a, b| std::hint::black_box(a ^ b ^ b))
    }

    #[test]
    fn results_come_in_the_order_of_the_source() {
        for threads in [1, 2, 8] {
            let mut seen = Vec::new();
            ordered(
                Limits::new(threads, 5),
                numbers(1000, 1),
                || uneven,
                |_| 1,
                |n| {
                    seen.push(n);
                    Ok(())
                },
            )
            .unwrap();
            assert_eq!(seen, (0..1000).collect::<Vec<_>>());
        }
    }

    #[test]
    fn no_more_than_the_budget_is_under_way() {
        let (now, most) = (AtomicU64::new(0), AtomicU64::new(0));
        let work = |n| {
            most.fetch_max(now.fetch_add(10, Ordering::SeqCst) + 10, Ordering::SeqCst);
            uneven(n)
        };
        ordered(
            Limits::new(8, 30),
            numbers(500, 10),
            || work,
            |_| 10,
            |_| {
                now.fetch_sub(10, Ordering::SeqCst);
                Ok(())
            },
        )
        .unwrap();
        assert!(most.load(Ordering::SeqCst) <= 30);
    }

    #[test]
    fn an_item_heavier_than_the_budget_passes() {
        let mut count = 0;
        ordered(
            Limits::new(4, 1),
            numbers(20, 100),
            || |n| n,
            |_| 1,
            |_| {
                count += 1;
                Ok(())
            },
        )
        .unwrap();
        assert_eq!(count, 20);
    }

    #[test]
    fn an_error_ends_the_run_after_what_came_before_it() {
        for threads in [1, 4] {
            let source = numbers(50, 1)
                .chain([Err("source".to_owned())])
                .chain(numbers(50, 1));
            let mut count = 0;
            let end = ordered(
                Limits::new(threads, 8),
                source,
                || |n| n,
                |_| 1,
                |_| {
                    count += 1;
                    Ok(())
                },
            );
            assert_eq!((end, count), (Err("source".to_owned()), 50));
            let end = ordered(
                Limits::new(threads, 8),
                numbers(100_000, 1),
                || |n| n,
                |_| 1,
                |n| {
                    if n == 7 {
                        Err("sink".to_owned())
                    } else {
                        Ok(())
                    }
                },
            );
            assert_eq!(end, Err("sink".to_owned()));
        }
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_of_a_worker_is_not_a_hang() {
        let _ = ordered(
            Limits::new(2, 8),
            numbers(100, 1),
            || |n| assert_ne!(n, 50),
            |()| 1,
            |()| Ok(()),
        );
    }
}
