//! The worker: the process on a host that serves a run, and ends with the connection to it.

mod client;
mod file_cache;
mod host_store;
mod protocol;
mod transfer;

pub use client::{Client, relay};
pub use host_store::{HostStore, remove};
pub use protocol::{Conversation, ErrorCause, Message, Peer};
pub use transfer::{TransferError, checksum_of, send_file};

use crate::cluster::{
    plan::{Plan, Task},
    scheduler::Inventory,
};
use crate::text::corpus::is_program_installed;
use crate::{
    base::error::{Error, Result},
    cluster::remote::{
        Address, FrameKind, RemoteCommand, Transport, die_with_parent, end_group, read_frame,
    },
};
use host_store::TaskView;
use protocol::{hello, push_frame};
use std::{
    collections::{HashMap, hash_map::Entry},
    fs::{self, File},
    io::{self, BufReader, Read, Seek, SeekFrom, Write},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, SyncSender},
    },
    thread,
    time::Duration,
};
use transfer::{out_of_turn, receive_file, receive_wanted, send_wanted};

/// How a worker is started.
pub struct WorkerOptions {
    /// dedup-shard itself.
    pub program: PathBuf,
    /// The files of the run.
    pub store: HostStore,
    /// The interval between signs of life.
    pub beat: Duration,
}

/// The exit status of a task that would fail again with the same inputs.
const FAILED: i32 = 1;
/// The most bytes of a log that are sent back.
const LOG_END_BYTES: u64 = 4096;
/// How long another host may take to answer.
const PEER_LIMIT: Duration = Duration::from_secs(30);

enum WorkerEvent {
    Frame(FrameKind, Vec<u8>),
    /// The run closed the connection.
    Gone,
    Ended(io::Result<ExitStatus>),
}

/// The worker's end of the connection to the run.
struct WorkerConnection {
    events: Receiver<WorkerEvent>,
    out: Arc<Mutex<io::Stdout>>,
    pending: Vec<u8>,
}

/// Serves the requests on stdin until it is closed.
pub fn serve(options: &WorkerOptions) -> Result<()> {
    let out = Arc::new(Mutex::new(io::stdout()));
    let first = hello();
    let greet = |out: &mut io::Stdout| out.write_all(first.as_bytes()).and_then(|()| out.flush());
    greet(&mut out.lock().unwrap_or_else(PoisonError::into_inner)).map_err(Error::output)?;
    let (send, events) = mpsc::sync_channel(8);
    let reader = send.clone();
    let failed = |error| Error::io("a thread", error);
    thread::Builder::new()
        .spawn(move || read_all(&reader))
        .map_err(failed)?;
    let (beat, beating) = (options.beat, out.clone());
    thread::Builder::new()
        .spawn(move || beat_for_ever(&beating, beat))
        .map_err(failed)?;
    let connection = WorkerConnection {
        events,
        out,
        pending: Vec::new(),
    };
    let mut worker = WorkerSession {
        connection,
        send,
        options,
        plan: None,
        peers: HashMap::new(),
    };
    // A connection that breaks is the usual end.
    while worker.serve_one().unwrap_or(false) {}
    Ok(())
}

fn read_all(send: &SyncSender<WorkerEvent>) {
    let mut input = BufReader::with_capacity(1 << 16, io::stdin());
    loop {
        let mut payload = Vec::new();
        let event = read_frame(&mut input, &mut payload)
            .map_or(WorkerEvent::Gone, |kind| WorkerEvent::Frame(kind, payload));
        let is_gone = matches!(event, WorkerEvent::Gone);
        if send.send(event).is_err() || is_gone {
            return;
        }
    }
}

fn beat_for_ever(out: &Mutex<io::Stdout>, beat: Duration) {
    let mut frame = Vec::new();
    if push_frame(&mut frame, FrameKind::Beat, &[]).is_err() {
        return;
    }
    loop {
        thread::sleep(beat);
        let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
        if out.write_all(&frame).and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

impl Conversation for WorkerConnection {
    fn send(&mut self, kind: FrameKind, payload: &[u8]) -> io::Result<()> {
        push_frame(&mut self.pending, kind, payload)?;
        if self.pending.len() > 1 << 18 {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(&self.pending).and_then(|()| out.flush())?;
        self.pending.clear();
        Ok(())
    }

    fn receive(&mut self, payload: &mut Vec<u8>) -> io::Result<FrameKind> {
        loop {
            match self.events.recv() {
                Ok(WorkerEvent::Frame(FrameKind::Beat, _) | WorkerEvent::Ended(_)) => {}
                Ok(WorkerEvent::Frame(kind, bytes)) => {
                    *payload = bytes;
                    return Ok(kind);
                }
                Ok(WorkerEvent::Gone) | Err(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }
}

struct WorkerSession<'o> {
    connection: WorkerConnection,
    send: SyncSender<WorkerEvent>,
    options: &'o WorkerOptions,
    plan: Option<Plan>,
    peers: HashMap<String, Client>,
}

impl WorkerSession<'_> {
    /// Serves one request. Returns false after the last.
    fn serve_one(&mut self) -> io::Result<bool> {
        let request = self.connection.receive_message()?;
        let is_bye = request == Message::Bye;
        let answer = match self.answer(request) {
            Ok(answer) => answer,
            Err(TransferError::Disconnected(what)) => return Err(io::Error::other(what)),
            Err(TransferError::Reported(cause, what)) => Message::error(cause, what),
            Err(TransferError::Damaged(what)) => Message::error(ErrorCause::Source, what),
            Err(TransferError::DamagedFiles(paths, what)) => Message::Error {
                cause: ErrorCause::Source,
                what,
                paths,
            },
            // Errors of this machine are mostly of its disk: the host is lost, not the task.
            Err(TransferError::Local(error)) => Message::error(ErrorCause::Lost, error.to_string()),
        };
        self.connection.send_message(&answer)?;
        Ok(!is_bye)
    }

    fn answer(&mut self, request: Message) -> Result<Message, TransferError> {
        let store = &self.options.store;
        let done = |bytes| Ok(Message::Done { bytes });
        match request {
            Message::Inventory => {
                let Inventory { paths, .. } = store.inventory(self.plan()?)?;
                let directory = store.directory_id()?;
                Ok(Message::Have { paths, directory })
            }
            Message::Programs { mut names } => {
                names.retain(|name| !is_program_installed(name));
                Ok(Message::Lack { names })
            }
            Message::Put { path, items, keep } => {
                let target = store.target(&path)?;
                remove(&target)?;
                let bytes = receive_wanted(&mut self.connection, &target, &items, store.cache())?;
                store.brought(&path, &items, keep)?;
                done(bytes)
            }
            Message::Get { path, keep } => {
                let (root, items) = store.items(&path)?;
                self.connection.send_message(&Message::Items {
                    items: items.clone(),
                })?;
                let bytes = send_wanted(&mut self.connection, &root, &items)?;
                if keep {
                    store.keep(&root, &items);
                }
                done(bytes)
            }
            Message::Stage { task } => done(self.stage(&task)?),
            Message::Link { run, paths, keep } => {
                let neighbour = store.neighbour(&run)?;
                for path in &paths {
                    store.link(&neighbour, path, keep)?;
                }
                done(0)
            }
            Message::Fetch { peer, paths, keep } => done(self.fetch(&peer, &paths, keep)?),
            Message::Run { task, is_staged } => self.run(&task, is_staged),
            Message::Clean => store
                .clean()
                .map_err(TransferError::Local)
                .and_then(|()| done(0)),
            Message::Prune { bytes, seconds } => {
                store.sweep();
                store.prune(bytes, Duration::from_secs(seconds), &self.options.program);
                done(0)
            }
            Message::Bye => Ok(Message::Bye),
            _ => Err(out_of_turn()),
        }
    }

    fn plan(&mut self) -> Result<&Plan, TransferError> {
        if self.plan.is_none() {
            let plan = self.options.store.plan()?;
            self.options.store.ensure_plan(&plan)?;
            self.plan = Some(plan);
        }
        self.plan.as_ref().ok_or_else(out_of_turn)
    }

    fn task(&mut self, id: &str) -> Result<Task, TransferError> {
        Ok(self.plan()?.task(id)?.clone())
    }

    /// Receives the documents of a task.
    fn stage(&mut self, id: &str) -> Result<u64, TransferError> {
        let directory = self.options.store.documents(&self.task(id)?);
        remove(&directory)?;
        let mut machine_error = fs::create_dir_all(&directory)
            .map_err(|error| Error::io(directory.display(), error))
            .err();
        let mut sum = 0;
        loop {
            match self.connection.receive_message()? {
                Message::Document { number, bytes } => {
                    let received = receive_file(
                        &mut self.connection,
                        &directory.join(number.to_string()),
                        bytes,
                    )?;
                    machine_error = machine_error.or(received.err());
                    sum += bytes;
                }
                Message::End => {
                    return machine_error.map_or(Ok(sum), |error| Err(TransferError::Local(error)));
                }
                Message::Error { cause, what, .. } => {
                    remove(&directory)?;
                    return Err(TransferError::Reported(cause, what));
                }
                _ => return Err(out_of_turn()),
            }
        }
    }

    /// Copies paths from a worker on another host.
    fn fetch(&mut self, peer: &Peer, paths: &[String], keep: bool) -> Result<u64, TransferError> {
        let mut sum = 0;
        for path in paths {
            // A connection may have been closed while it was idle, so try once more with a new one.
            let got = match self.fetch_one(peer, path, keep) {
                Err(TransferError::Disconnected(_)) => self.fetch_one(peer, path, keep),
                got => got,
            };
            sum += got.map_err(|fault| match fault {
                TransferError::Disconnected(what) => {
                    TransferError::Reported(ErrorCause::Peer, format!("{}: {what}", peer.name))
                }
                TransferError::Damaged(what)
                | TransferError::Reported(ErrorCause::Source, what) => {
                    TransferError::DamagedFiles(vec![path.clone()], what)
                }
                fault => fault,
            })?;
        }
        Ok(sum)
    }

    fn fetch_one(&mut self, peer: &Peer, path: &str, keep: bool) -> Result<u64, TransferError> {
        let Peer {
            name,
            user,
            port,
            rsh,
            worker,
        } = peer;
        let key = format!("{user:?}{name}{port:?}");
        let client = match self.peers.entry(key.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let address = Address {
                    name: name.clone(),
                    user: user.clone(),
                    port: *port,
                };
                let connection = RemoteCommand::new(rsh, &address).spawn(worker, PEER_LIMIT)?;
                new.insert(
                    Client::greet(connection, PEER_LIMIT, PEER_LIMIT * 2)
                        .map_err(|error| TransferError::Disconnected(error.to_string()))?,
                )
            }
        };
        let store = &self.options.store;
        let target = store.target(path)?;
        remove(&target)?;
        let got = client.get(path, false, &target, store.cache());
        if matches!(got, Err(TransferError::Disconnected(_))) {
            self.peers.remove(&key);
        }
        let (bytes, items) = got?;
        store.brought(path, &items, keep)?;
        Ok(bytes)
    }

    fn run(&mut self, id: &str, is_staged: bool) -> Result<Message, TransferError> {
        let task = self.task(id)?;
        let store = &self.options.store;
        let plan = self.plan.as_ref().ok_or_else(out_of_turn)?;
        if store.is_output_there(plan, &task) {
            return Ok(Message::Ran {
                code: Some(0),
                signal: None,
                log_end: String::new(),
                bytes: 0,
            });
        }
        let view = store.view(&task, is_staged)?;
        let ran = run_child(
            &self.options.program,
            &task,
            &view,
            store.log(&task)?,
            &self.send,
            &self.connection.events,
        );
        let ran = ran.and_then(|(status, log_end)| {
            let bytes = if status.success() {
                store.accept(plan, &task, &view)?
            } else {
                0
            };
            Ok(Message::Ran {
                code: status.code(),
                signal: status.signal(),
                log_end,
                bytes,
            })
        });
        store.close(&task, &view);
        // A task may fail because its inputs were damaged meanwhile.
        if matches!(
            &ran,
            Ok(Message::Ran {
                code: Some(FAILED),
                ..
            })
        ) {
            let spoilt = store.spoilt(&task)?;
            if let Some(first) = spoilt.first() {
                let what = format!("{first}: is not what it was when it came, or was made here");
                return Err(TransferError::DamagedFiles(spoilt, what));
            }
        }
        ran
    }
}

/// Runs a task as a process, which is killed if the run disconnects.
fn run_child(
    program: &Path,
    task: &Task,
    view: &TaskView,
    (log, file): (PathBuf, File),
    send: &SyncSender<WorkerEvent>,
    events: &Receiver<WorkerEvent>,
) -> Result<(ExitStatus, String), TransferError> {
    let mut command = Command::new(program);
    command.arg("task");
    if let Some(copies) = &view.copies {
        command.arg("--copies").arg(copies);
    }
    command
        .arg("--")
        .arg(&view.run)
        .arg(&task.id)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(file);
    die_with_parent(&mut command);
    let mut child = command
        .spawn()
        .map_err(|error| Error::io(program.display(), error))?;
    let (leader, send) = (child.id(), send.clone());
    let waiter =
        thread::Builder::new().spawn(move || drop(send.send(WorkerEvent::Ended(child.wait()))));
    waiter.map_err(|error| Error::io("a thread", error))?;
    let mut is_gone = false;
    loop {
        match events.recv() {
            Ok(WorkerEvent::Ended(_)) if is_gone => {
                return Err(TransferError::Disconnected(
                    "the run has disconnected".to_owned(),
                ));
            }
            Ok(WorkerEvent::Ended(status)) => {
                let status = status.map_err(|error| Error::io(program.display(), error))?;
                return Ok((status, end_of(&log)));
            }
            Ok(WorkerEvent::Frame(FrameKind::Beat, _)) => {}
            // A request before the answer is an error of the other end.
            Ok(WorkerEvent::Frame(..) | WorkerEvent::Gone) | Err(_) => {
                end_group(leader);
                is_gone = true;
            }
        }
    }
}

/// Reads the end of a log.
fn end_of(log: &Path) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let bytes = file.metadata()?.len();
        file.seek(SeekFrom::Start(bytes.saturating_sub(LOG_END_BYTES)))?;
        let mut log_end = Vec::new();
        file.take(LOG_END_BYTES).read_to_end(&mut log_end)?;
        Ok(log_end)
    };
    String::from_utf8_lossy(&read().unwrap_or_default())
        .trim()
        .to_owned()
}
