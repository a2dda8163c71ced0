//! A pool of threads for work that takes long; the threads of the runtime never do it.

use crate::base::error::{Error, Result};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::{
    io,
    panic::{self, AssertUnwindSafe},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::timeout,
};

/// Tasks that wait for a thread, for each thread. More are refused at once.
const QUEUED_PER_THREAD: usize = 64;
/// How long a task waits for a thread before it is refused.
const PATIENCE: Duration = Duration::from_secs(10);

/// Threads for tasks that take long.
#[derive(Clone)]
pub struct Workers {
    pool: Arc<ThreadPool>,
    /// One permit for each thread.
    free: Arc<Semaphore>,
    /// One permit for each task that runs or waits.
    queue: Arc<Semaphore>,
}

/// Why there is no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkError {
    /// All threads are busy, and enough tasks wait already.
    Busy,
    /// The task panicked.
    Panicked,
}

impl Workers {
    pub fn start(threads: usize) -> Result<Self> {
        let threads = threads.max(1);
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|number| format!("worker {number}"))
            .build()
            .map_err(|error| Error::io("the threads of the service", io::Error::other(error)))?;
        Ok(Self {
            pool: Arc::new(pool),
            free: Arc::new(Semaphore::new(threads)),
            queue: Arc::new(Semaphore::new((1 + QUEUED_PER_THREAD) * threads)),
        })
    }

    /// Runs a task, if there is a thread soon enough.
    pub async fn run<T: Send + 'static>(
        &self,
        task: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, WorkError> {
        let queued = self.queue.clone().try_acquire_owned();
        let queued = queued.map_err(|_| WorkError::Busy)?;
        let thread = timeout(PATIENCE, self.free.clone().acquire_owned()).await;
        let Ok(Ok(thread)) = thread else {
            return Err(WorkError::Busy);
        };
        self.spawn(task, (thread, queued)).await
    }

    /// Runs a task, however long it waits for a thread.
    pub async fn run_in_turn<T: Send + 'static>(
        &self,
        task: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, WorkError> {
        match self.free.clone().acquire_owned().await {
            Ok(thread) => self.spawn(task, thread).await,
            Err(_) => Err(WorkError::Busy),
        }
    }

    /// The permits are given back when the task is done, even if its client is gone by then.
    async fn spawn<T: Send + 'static, P: Permits>(
        &self,
        task: impl FnOnce() -> T + Send + 'static,
        permits: P,
    ) -> Result<T, WorkError> {
        let (send, done) = oneshot::channel();
        self.pool.spawn(move || {
            let result = panic::catch_unwind(AssertUnwindSafe(task));
            drop(permits);
            // The client may be gone.
            drop(send.send(result));
        });
        match done.await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(_)) | Err(_) => Err(WorkError::Panicked),
        }
    }
}

/// What a task holds while it runs.
trait Permits: Send + 'static {}
impl Permits for OwnedSemaphorePermit {}
impl Permits for (OwnedSemaphorePermit, OwnedSemaphorePermit) {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn tasks_beyond_the_queue_are_refused_and_panics_are_errors() {
        let workers = Workers::start(1).unwrap();
        let (go, wait) = mpsc::channel::<()>();
        let (started, has_started) = oneshot::channel();
        let busy = workers.clone();
        let first = tokio::spawn(async move {
            busy.run(move || {
                started.send(()).unwrap();
                wait.recv().unwrap();
            })
            .await
        });
        has_started.await.unwrap();
        let others: Vec<_> = (0..QUEUED_PER_THREAD)
            .map(|number| {
                let workers = workers.clone();
                tokio::spawn(async move { workers.run(move || number).await })
            })
            .collect();
        while workers.queue.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(workers.run(|| ()).await, Err(WorkError::Busy));
        go.send(()).unwrap();
        assert_eq!(first.await.unwrap(), Ok(()));
        for (number, other) in others.into_iter().enumerate() {
            assert_eq!(other.await.unwrap(), Ok(number));
        }
        let panicked: Result<(), _> = workers.run(|| panic!("on purpose")).await;
        assert_eq!(panicked, Err(WorkError::Panicked));
        assert_eq!(workers.run_in_turn(|| 1).await, Ok(1));
    }
}
