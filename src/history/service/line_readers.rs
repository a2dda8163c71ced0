//! A thread pool that parses long lines, and so computes the prints of documents.

use super::request_reader::{RequestReader, ServiceRequest};
use crate::base::error::{Error, Result};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::{
    io,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, Receiver, Sender},
    },
    thread,
};

/// Complete lines of a client; the last one without its line feed.
#[derive(Debug, PartialEq)]
pub struct LineBlock {
    /// The number of the client.
    pub client: usize,
    /// The lines.
    pub lines: Vec<u8>,
    /// The number of the first line.
    pub first_line: u64,
}

/// The requests in a block of lines.
pub struct ParsedBlock {
    /// The number of the client.
    pub client: usize,
    /// The requests.
    pub requests: Vec<ServiceRequest>,
    /// The number of lines.
    pub lines: u64,
}

/// Parses blocks of lines on a pool of threads, in any order.
pub struct LineReaders {
    pool: ThreadPool,
    shared: Arc<SharedReaders>,
    done: Receiver<thread::Result<ParsedBlock>>,
    /// The number of blocks that were not taken back yet.
    pub pending: usize,
}

/// What the tasks of the pool share.
struct SharedReaders {
    /// Readers that no task is using; their number is at most that of the threads.
    idle: Mutex<Vec<RequestReader>>,
    template: RequestReader,
    done: Mutex<Sender<thread::Result<ParsedBlock>>>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl LineReaders {
    /// A task calls `wake` when a block is ready to be taken.
    pub fn start(
        threads: usize,
        reader: &RequestReader,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self> {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        let failed = |error| Error::io("the threads that read lines", io::Error::other(error));
        let (send, done) = mpsc::channel();
        Ok(Self {
            pool: pool.map_err(failed)?,
            shared: Arc::new(SharedReaders {
                idle: Mutex::default(),
                template: reader.clone(),
                done: Mutex::new(send),
                wake: Box::new(wake),
            }),
            done,
            pending: 0,
        })
    }

    /// Queues a block.
    pub fn submit(&mut self, block: LineBlock) {
        let shared = self.shared.clone();
        self.pool.spawn(move || shared.parse(block));
        self.pending += 1;
    }

    /// A parsed block, if there is one.
    pub fn take(&mut self) -> Result<Option<ParsedBlock>> {
        let Ok(parsed) = self.done.try_recv() else {
            return Ok(None);
        };
        self.pending -= 1;
        parsed
            .map(Some)
            .map_err(|_| Error::Usage("a thread that reads lines panicked".to_owned()))
    }
}

impl SharedReaders {
    fn parse(&self, block: LineBlock) {
        let idle = lock(&self.idle).pop();
        let mut reader = idle.unwrap_or_else(|| self.template.clone());
        let parsed = panic::catch_unwind(AssertUnwindSafe(|| block.parse(&mut reader)));
        if parsed.is_ok() {
            lock(&self.idle).push(reader);
        }
        if lock(&self.done).send(parsed).is_ok() {
            (self.wake)();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LineBlock {
    /// Parses all lines.
    pub fn parse(mut self, reader: &mut RequestReader) -> ParsedBlock {
        let mut requests = Vec::new();
        let mut lines = 0;
        for line in self.lines.split_mut(|&byte| byte == b'\n') {
            requests.extend(reader.read(line, self.first_line + lines));
            lines += 1;
        }
        reader.release_buffers();
        ParsedBlock {
            client: self.client,
            requests,
            lines,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        history::{MatchLimits, Ratio},
        text::{
            corpus,
            scheme::PrintScheme,
            token::{Rule, Tokenizer},
        },
    };

    fn readers(count: usize) -> (LineReaders, Receiver<()>) {
        let scheme = PrintScheme {
            tokens: Tokenizer::new(Rule::Word, false).scheme(),
        };
        let reader = RequestReader::new(
            &corpus::Options::default(),
            &scheme,
            MatchLimits {
                min_similarity: Ratio::ALL,
                top: 1,
            },
        )
        .unwrap();
        let (send, woken) = mpsc::channel();
        (
            LineReaders::start(count, &reader, move || send.send(()).unwrap_or(())).unwrap(),
            woken,
        )
    }

    #[test]
    fn lines_are_parsed_in_order_and_counted() {
        let (mut readers, woken) = readers(3);
        for client in 0..20 {
            let lines =
                format!("{{\"id\":\"{client}\",\"text\":\"a\"}}\n\nno\n{{\"remove\":\"b\"}}");
            readers.submit(LineBlock {
                client,
                lines: lines.into(),
                first_line: 5,
            });
        }
        let mut seen = [false; 20];
        while readers.pending > 0 {
            woken.recv().unwrap();
            let ParsedBlock {
                client,
                requests,
                lines,
            } = readers.take().unwrap().unwrap();
            assert_eq!(lines, 4);
            assert!(
                matches!(&requests[0], ServiceRequest::Like { id, .. } if **id == client.to_string())
            );
            assert_eq!(
                requests[1],
                ServiceRequest::Wrong("line 7: not JSON: expected ident at column 2".to_owned())
            );
            assert_eq!(requests[2..], [ServiceRequest::Remove("b".into())]);
            assert!(!std::mem::replace(&mut seen[client], true));
        }
        assert!(seen.iter().all(|seen| *seen));
        assert!(readers.take().unwrap().is_none());
    }
}
