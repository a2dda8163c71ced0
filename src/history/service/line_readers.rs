//! Threads that read long lines, and so make the prints of documents.

use super::request_reader::{RequestReader, ServiceRequest};
use crate::base::error::{Error, Result};
use std::{
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, Sender},
    },
    thread,
};

/// Whole lines of a client, to be read elsewhere; the last without its end.
#[derive(Debug, PartialEq)]
pub struct LineBlock {
    pub client: usize,
    pub lines: Vec<u8>,
    pub first_line: u64,
}

/// What the lines of a client ask for, and how many they were.
pub struct ParsedBlock {
    pub client: usize,
    pub asked: Vec<ServiceRequest>,
    pub lines: u64,
}

/// Some threads, who take pieces as they come.
pub struct LineReaders {
    pieces: Option<Sender<LineBlock>>,
    read: Receiver<thread::Result<ParsedBlock>>,
    /// How many pieces are not back yet.
    pub pending: usize,
    threads: Vec<thread::JoinHandle<()>>,
}

impl LineReaders {
    /// `wake` is called when there is something to take.
    pub fn start(
        count: usize,
        reader: &RequestReader,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self> {
        let (pieces, waiting) = mpsc::channel::<LineBlock>();
        let (send, read) = mpsc::channel();
        let (waiting, wake) = (Arc::new(Mutex::new(waiting)), Arc::new(wake));
        let mut threads = Vec::new();
        for _ in 0..count {
            let (mut reader, waiting, send, wake) =
                (reader.clone(), waiting.clone(), send.clone(), wake.clone());
            let next = move || {
                waiting
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .recv()
            };
            let body = move || {
                while let Ok(piece) = next() {
                    let read = panic::catch_unwind(AssertUnwindSafe(|| piece.read(&mut reader)));
                    if send.send(read).is_err() {
                        break;
                    }
                    wake();
                }
            };
            threads.push(
                thread::Builder::new()
                    .spawn(body)
                    .map_err(|error| Error::io("a thread that reads lines", error))?,
            );
        }
        Ok(Self {
            pieces: Some(pieces),
            read,
            pending: 0,
            threads,
        })
    }

    pub fn submit(&mut self, piece: LineBlock) {
        // They end when this does, and not before.
        let _ = self.pieces.as_ref().map(|pieces| pieces.send(piece));
        self.pending += 1;
    }

    /// A piece that was read.
    pub fn take(&mut self) -> Result<Option<ParsedBlock>> {
        let Ok(read) = self.read.try_recv() else {
            return Ok(None);
        };
        self.pending -= 1;
        read.map(Some)
            .map_err(|_| Error::Usage("a thread that reads lines died".to_owned()))
    }
}

impl Drop for LineReaders {
    fn drop(&mut self) {
        drop(self.pieces.take());
        for thread in self.threads.drain(..) {
            // Its panics are told where they happen.
            let _ = thread.join();
        }
    }
}

impl LineBlock {
    pub fn read(mut self, reader: &mut RequestReader) -> ParsedBlock {
        let (mut asked, mut lines) = (Vec::new(), 0);
        for line in self.lines.split_mut(|&byte| byte == b'\n') {
            asked.extend(reader.read(line, self.first_line + lines));
            lines += 1;
        }
        reader.release_buffers();
        ParsedBlock {
            client: self.client,
            asked,
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
    fn lines_are_read_in_order_and_counted() {
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
                asked,
                lines,
            } = readers.take().unwrap().unwrap();
            assert_eq!(lines, 4);
            assert!(
                matches!(&asked[0], ServiceRequest::Like { id, .. } if **id == client.to_string())
            );
            assert_eq!(
                asked[1],
                ServiceRequest::Wrong("line 7: not JSON: expected ident at column 2".to_owned())
            );
            assert_eq!(asked[2..], [ServiceRequest::Remove("b".into())]);
            assert!(!std::mem::replace(&mut seen[client], true));
        }
        assert!(seen.iter().all(|seen| *seen));
        assert!(readers.take().unwrap().is_none());
    }
}
