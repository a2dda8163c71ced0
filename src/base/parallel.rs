//! Work on many threads: an ordered pipeline with a bounded backlog, and rayon pools.
//!
//! [`ordered`] draws items from one source, works on them on several threads, and passes the results
//! to a sink that runs on the calling thread, in the order of the source. Output therefore depends on
//! the input only, never on the number of threads. A [`Budget`] bounds the items in flight between
//! source and sink: a worker that would exceed it waits until the sink has caught up. One item larger
//! than the whole budget passes alone.
//!
//! Why this exists beside rayon: rayon is for fork-join work over data that is already in memory
//! (use [`pool`] there). Documents come from readers that must not run ahead of the slowest consumer,
//! and their results must come out in input order while later input is still being read. rayon's
//! `par_bridge` does not keep the order, its indexed iterators need the whole input up front, and
//! neither bounds the bytes in flight.

use super::num::ToU64;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::{
    collections::BTreeMap,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

/// What a command may use: threads, and memory for the data it works on.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// At least 1.
    pub threads: usize,
    /// Bytes of memory.
    pub memory_bytes: u64,
}

impl Limits {
    /// These limits; no threads means one.
    pub fn new(threads: usize, memory_bytes: u64) -> Self {
        Self {
            threads: threads.max(1),
            memory_bytes,
        }
    }
}

/// How much may be in flight between the source and the sink of [`ordered`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// The sizes of items and results, as [`Weighted::bytes`] and `weigh` give them.
    Bytes(u64),
    /// The number of items, regardless of their size.
    Items(u64),
}

impl Budget {
    /// Enough items to keep this many threads busy while the sink works.
    pub fn items_for(threads: usize) -> Self {
        Self::Items(2 * threads.to_u64())
    }

    /// The limit, in the unit of [`Budget::cost`].
    fn limit(self) -> u64 {
        match self {
            Self::Bytes(limit) | Self::Items(limit) => limit,
        }
    }

    /// What something of this size takes of the budget.
    fn cost(self, bytes: u64) -> u64 {
        match self {
            Self::Bytes(_) => bytes,
            Self::Items(_) => 1,
        }
    }
}

/// An item of a source, and the bytes of memory that it holds.
pub struct Weighted<T> {
    /// The item.
    pub item: T,
    /// Its size in memory.
    pub bytes: u64,
}

/// A rayon pool for fork-join work: see [`pool`].
#[derive(Debug)]
pub struct Pool(Option<ThreadPool>);

/// A rayon pool of `threads` threads, or of fewer if the system refuses to start as many.
///
/// If it starts no thread at all, the calling thread is the pool: work must be installed from there.
pub fn pool(threads: usize) -> Pool {
    let halves = std::iter::successors(Some(threads.max(1)), |n| (*n > 1).then_some(n / 2));
    let mut pools = halves.map(|n| ThreadPoolBuilder::new().num_threads(n).build());
    let current = || {
        let builder = ThreadPoolBuilder::new().num_threads(1);
        builder.use_current_thread().build().ok()
    };
    Pool(pools.find_map(Result::ok).or_else(current))
}

impl Pool {
    /// Runs `work` so that every rayon call in it uses the threads of this pool.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.0 {
            Some(pool) => pool.install(work),
            // The calling thread is in another pool already, which does the work.
            None => work(),
        }
    }

    /// The number of threads that were started.
    pub fn threads(&self) -> usize {
        self.0.as_ref().map_or(1, ThreadPool::current_num_threads)
    }
}

/// Runs a worker on every item and passes the results to `sink` in order, with few items in flight.
///
/// As [`ordered`], for a source that cannot fail and whose items are small or already in memory.
pub fn ordered_items<T, R, E, W>(
    threads: usize,
    source: impl Iterator<Item = T> + Send,
    worker: impl Fn() -> W + Sync,
    sink: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E>
where
    T: Send,
    R: Send,
    E: Send,
    W: FnMut(T) -> R,
{
    let source = source.map(|item| Ok(Weighted { item, bytes: 1 }));
    ordered(
        threads,
        Budget::items_for(threads),
        source,
        worker,
        |_| 1,
        sink,
    )
}

/// Runs a worker on every item of `source` and passes the results to `sink` in order.
///
/// `worker` is called once per thread, so that each thread owns its scratch space. `weigh` gives the
/// size of a result, which replaces the size of its item in the budget as soon as it is made, and may
/// be much larger. The first error, of the source or of the sink, ends the run; the results before it
/// have reached the sink. With one thread everything runs on the calling thread.
pub fn ordered<T, R, E, W>(
    threads: usize,
    budget: Budget,
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
    if threads <= 1 {
        let mut work = worker();
        return source.try_for_each(|next| sink(work(next?.item)));
    }
    let queue = Queue::new(budget);
    let source = Mutex::new((0, source));
    thread::scope(|scope| {
        let body = || {
            let _end = WorkerEnd(&queue);
            run_worker(&source, &queue, worker(), &weigh);
        };
        // A thread that the system refuses to start only makes the run slower.
        let start = |_: &usize| thread::Builder::new().spawn_scoped(scope, body).is_ok();
        let started = (0..threads).filter(start).count();
        queue.set_workers(started);
        let _stop = StopOnDrop(&queue);
        if started == 0 {
            let mut work = worker();
            return lock(&source).1.try_for_each(|next| sink(work(next?.item)));
        }
        while let Some((result, cost)) = queue.take() {
            sink(result?)?;
            queue.release(cost);
        }
        Ok(())
    })
}

/// Works on items until there are none left or the run has stopped.
fn run_worker<T, R, E>(
    source: &Mutex<(u64, impl Iterator<Item = Result<Weighted<T>, E>>)>,
    queue: &Queue<Result<R, E>>,
    mut work: impl FnMut(T) -> R,
    weigh: &impl Fn(&R) -> u64,
) {
    while let Some((turn, next)) = draw(source, queue) {
        match next {
            Ok(next) => {
                let result = work(next.item);
                let bytes = weigh(&result);
                queue.put(turn, Ok(result), next.bytes, bytes);
            }
            Err(error) => queue.put_error(turn, Err(error)),
        }
    }
}

/// The next item and its turn, once the budget has room for it.
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
    let has_room = match &next {
        Ok(next) => queue.wait_for_room(next.bytes),
        Err(_) => !queue.stopped(),
    };
    has_room.then_some((turn, next))
}

/// Results that wait for their turn, and the items in flight.
struct Queue<R> {
    state: Mutex<QueueState<R>>,
    ready: Condvar,
    room: Condvar,
    budget: Budget,
}

struct QueueState<R> {
    /// By turn: a result, and what it takes of the budget.
    results: BTreeMap<u64, (R, u64)>,
    next_turn: u64,
    /// How much of the budget the items in flight take.
    in_flight: u64,
    workers: usize,
    finished: usize,
    stopped: bool,
}

impl<R> Queue<R> {
    fn new(budget: Budget) -> Self {
        let state = QueueState {
            results: BTreeMap::new(),
            next_turn: 0,
            in_flight: 0,
            workers: usize::MAX,
            finished: 0,
            stopped: false,
        };
        Self {
            state: Mutex::new(state),
            ready: Condvar::new(),
            room: Condvar::new(),
            budget,
        }
    }

    fn set_workers(&self, workers: usize) {
        lock(&self.state).workers = workers;
    }

    fn stopped(&self) -> bool {
        lock(&self.state).stopped
    }

    /// Returns false if the run has stopped meanwhile.
    fn wait_for_room(&self, bytes: u64) -> bool {
        let cost = self.budget.cost(bytes);
        let limit = self.budget.limit();
        let mut state = lock(&self.state);
        while !state.stopped && state.in_flight > 0 && state.in_flight + cost > limit {
            state = wait(&self.room, state);
        }
        state.in_flight += cost;
        !state.stopped
    }

    /// Takes a result of `bytes`, made from an item of `item_bytes`.
    fn put(&self, turn: u64, result: R, item_bytes: u64, bytes: u64) {
        let item_cost = self.budget.cost(item_bytes);
        let cost = self.budget.cost(bytes);
        let mut state = lock(&self.state);
        state.in_flight = state.in_flight - item_cost + cost;
        state.results.insert(turn, (result, cost));
        if turn == state.next_turn {
            self.ready.notify_one();
        }
        if cost < item_cost {
            self.room.notify_all();
        }
    }

    /// Takes an error of the source, which costs nothing.
    fn put_error(&self, turn: u64, error: R) {
        let mut state = lock(&self.state);
        state.results.insert(turn, (error, 0));
        if turn == state.next_turn {
            self.ready.notify_one();
        }
    }

    /// The result whose turn it is and its cost; none once every worker has ended.
    fn take(&self) -> Option<(R, u64)> {
        let mut state = lock(&self.state);
        loop {
            let turn = state.next_turn;
            if let Some(result) = state.results.remove(&turn) {
                state.next_turn += 1;
                return Some(result);
            }
            if state.finished == state.workers {
                return None;
            }
            state = wait(&self.ready, state);
        }
    }

    fn release(&self, cost: u64) {
        lock(&self.state).in_flight -= cost;
        self.room.notify_all();
    }
}

/// Counts a worker as finished, also when it panics, so that the sink never waits for it.
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

/// Stops the workers when the sink has ended, also if it failed.
struct StopOnDrop<'a, R>(&'a Queue<R>);

impl<R> Drop for StopOnDrop<'_, R> {
    fn drop(&mut self) {
        lock(&self.0.state).stopped = true;
        self.0.room.notify_all();
    }
}

/// Locks; data that a thread left when it panicked are used as they are.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition
        .wait(guard)
        .unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn numbers(count: u64, bytes: u64) -> impl Iterator<Item = Result<Weighted<u64>, String>> {
        (0..count).map(move |item| Ok(Weighted { item, bytes }))
    }

    /// Takes longer for some numbers than for others.
    fn uneven(n: u64) -> u64 {
        (0..(n * 7919) % 1000).fold(n, |a, b| std::hint::black_box(a ^ b ^ b))
    }

    #[test]
    fn results_come_in_source_order() {
        for threads in [1, 2, 8] {
            let mut seen = Vec::new();
            let sink = |n| {
                seen.push(n);
                Ok(())
            };
            let bytes = Budget::Bytes(5);
            ordered(threads, bytes, numbers(1000, 1), || uneven, |_| 1, sink).unwrap();
            assert_eq!(seen, (0..1000).collect::<Vec<_>>());
        }
    }

    /// The most work in flight at once, 10 bytes per item.
    fn most_in_flight(budget: Budget) -> u64 {
        let now = AtomicU64::new(0);
        let most = AtomicU64::new(0);
        let work = |n| {
            most.fetch_max(now.fetch_add(10, Ordering::SeqCst) + 10, Ordering::SeqCst);
            uneven(n)
        };
        let sink = |_| {
            now.fetch_sub(10, Ordering::SeqCst);
            Ok(())
        };
        ordered(8, budget, numbers(500, 10), || work, |_| 10, sink).unwrap();
        most.into_inner()
    }

    #[test]
    fn the_budget_bounds_bytes_or_items_in_flight() {
        assert!(most_in_flight(Budget::Bytes(30)) <= 30);
        assert!(most_in_flight(Budget::Items(4)) <= 40);
    }

    #[test]
    fn an_item_larger_than_the_budget_passes() {
        let mut count = 0;
        let sink = |_| {
            count += 1;
            Ok(())
        };
        ordered(4, Budget::Bytes(1), numbers(20, 100), || |n| n, |_| 1, sink).unwrap();
        assert_eq!(count, 20);
    }

    #[test]
    fn an_error_ends_the_run_after_the_results_before_it() {
        for threads in [1, 4] {
            for budget in [Budget::Bytes(8), Budget::Items(8)] {
                let failing = numbers(50, 1).chain([Err("source".to_owned())]);
                let source = failing.chain(numbers(50, 1));
                let mut count = 0;
                let sink = |_| {
                    count += 1;
                    Ok(())
                };
                let end = ordered(threads, budget, source, || |n| n, |_| 1, sink);
                assert_eq!((end, count), (Err("source".to_owned()), 50));
                let sink = |n| (n != 7).then_some(()).ok_or("sink".to_owned());
                let end = ordered(threads, budget, numbers(100_000, 1), || |n| n, |_| 1, sink);
                assert_eq!(end, Err("sink".to_owned()));
            }
        }
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_of_a_worker_does_not_hang() {
        let work = || |n| assert_ne!(n, 50);
        let _ = ordered_items(2, 0..100, work, |()| Ok::<_, String>(()));
    }

    #[test]
    fn a_pool_runs_rayon_calls_on_its_threads() {
        let pool = pool(3);
        assert_eq!(pool.threads(), 3);
        assert_eq!(pool.install(rayon::current_num_threads), 3);
        assert_eq!(super::pool(0).threads(), 1);
    }
}
