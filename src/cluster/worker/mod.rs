//! The worker: the process on a host that serves a run, and ends with the connection to it.

mod client;
mod file_cache;
mod host_store;
mod link;
mod peers;
mod protocol;
mod session;
mod task_process;
mod transfer;

pub use client::{Client, connect_patiently, relay};
pub use host_store::{HostStore, remove};
pub use link::Link;
pub use protocol::{Conversation, ErrorCause, Message, Parcel, Peer};
pub use transfer::{Shelf, TransferError, checksum_of, list, send_extent};

use crate::{
    base::error::{Error, Result},
    cluster::{
        plan::Plan,
        remote::{Frame, FrameKind, read_frame, write_frame},
    },
};
use peers::Peers;
use protocol::hello;
use session::WorkerSession;
use std::{
    collections::HashMap,
    io::{self, BufReader, Write},
    path::PathBuf,
    process::ExitStatus,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    },
    thread,
    time::Duration,
};

/// How a worker is started.
pub struct WorkerOptions {
    /// dedup-shard itself.
    pub program: PathBuf,
    /// The files of the run.
    pub store: HostStore,
    /// The interval between signs of life.
    pub beat: Duration,
}

/// How many frames of a conversation wait before reading stops.
const WAITING_FRAMES: usize = 8;

enum WorkerEvent {
    Frame(FrameKind, Vec<u8>),
    /// The run closed the connection, or this conversation.
    Gone,
    Ended(io::Result<ExitStatus>),
}

/// What all conversations of a worker share.
struct Worker<'o> {
    options: &'o WorkerOptions,
    out: Mutex<io::Stdout>,
    plan: Mutex<Option<Arc<Plan>>>,
    peers: Peers,
}

/// The worker's end of a conversation with the run.
struct WorkerConnection<'w> {
    channel: u16,
    events: Receiver<WorkerEvent>,
    worker: &'w Worker<'w>,
    pending: Vec<u8>,
}

/// Serves the requests on stdin until it is closed. Each conversation has a thread.
pub fn serve(options: &WorkerOptions) -> Result<()> {
    let worker = Worker {
        options,
        out: Mutex::new(io::stdout()),
        plan: Mutex::new(None),
        peers: Peers::default(),
    };
    worker.write(hello().as_bytes()).map_err(Error::output)?;
    thread::scope(|scope| {
        // Ends when it is dropped.
        let (_alive, is_over) = mpsc::channel::<()>();
        scope.spawn(|| worker.beat(options.beat, is_over));
        let mut input = BufReader::with_capacity(1 << 16, io::stdin());
        let mut conversations: HashMap<u16, SyncSender<WorkerEvent>> = HashMap::new();
        // A connection that breaks is the usual end.
        while let Ok(Frame {
            kind,
            channel,
            payload,
        }) = read_frame(&mut input)
        {
            match kind {
                FrameKind::Beat => {}
                FrameKind::Close => {
                    if let Some(send) = conversations.remove(&channel) {
                        let _ = send.send(WorkerEvent::Gone);
                    }
                }
                FrameKind::Message | FrameKind::Data => {
                    let send = conversations.entry(channel).or_insert_with(|| {
                        let (send, events) = mpsc::sync_channel(WAITING_FRAMES);
                        let (worker, own) = (&worker, send.clone());
                        scope.spawn(move || worker.converse(channel, own, events));
                        send
                    });
                    // The end of a conversation was announced.
                    let _ = send.send(WorkerEvent::Frame(kind, payload));
                }
            }
        }
        worker.peers.close();
        for send in conversations.values() {
            let _ = send.send(WorkerEvent::Gone);
        }
    });
    Ok(())
}

impl Worker<'_> {
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(bytes).and_then(|()| out.flush())
    }

    /// Shows signs of life until it is stopped.
    fn beat(&self, interval: Duration, is_over: Receiver<()>) {
        let mut frame = Vec::new();
        let made = write_frame(&mut frame, FrameKind::Beat, 0, &[]);
        while made.is_ok()
            && is_over.recv_timeout(interval) == Err(RecvTimeoutError::Timeout)
            && self.write(&frame).is_ok()
        {}
    }

    /// Serves the requests of one conversation to its end.
    fn converse(&self, channel: u16, send: SyncSender<WorkerEvent>, events: Receiver<WorkerEvent>) {
        let connection = WorkerConnection {
            channel,
            events,
            worker: self,
            pending: Vec::new(),
        };
        let mut session = WorkerSession::new(self, connection, send);
        while session.serve_one().is_ok() {}
        drop(session);
        let mut frame = Vec::new();
        if write_frame(&mut frame, FrameKind::Close, channel, &[]).is_ok() {
            let _ = self.write(&frame);
        }
    }

    /// The plan of the run, which is read once.
    fn plan(&self) -> Result<Arc<Plan>> {
        let mut known = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = &*known {
            return Ok(plan.clone());
        }
        let plan = self.options.store.plan()?;
        self.options.store.ensure_plan(&plan)?;
        Ok(known.insert(Arc::new(plan)).clone())
    }
}

impl Conversation for WorkerConnection<'_> {
    fn send(&mut self, kind: FrameKind, payload: &[u8]) -> io::Result<()> {
        write_frame(&mut self.pending, kind, self.channel, payload)?;
        if self.pending.len() > 1 << 18 {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.worker.write(&self.pending)?;
        self.pending.clear();
        Ok(())
    }

    fn receive(&mut self, payload: &mut Vec<u8>) -> io::Result<FrameKind> {
        loop {
            match self.events.recv() {
                Ok(WorkerEvent::Ended(_)) => {}
                Ok(WorkerEvent::Frame(kind, bytes)) => {
                    *payload = bytes;
                    return Ok(kind);
                }
                Ok(WorkerEvent::Gone) | Err(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }
}
