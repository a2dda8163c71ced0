//! The worker: what runs on a host while a coordinator talks to it, and not a moment longer.

use super::{
    client::Client,
    engine::Inventory,
    plan::{Plan, Task},
    protocol::{Cause, Message, Peer, Talk, hello, push_frame},
    store::{Store, View, remove},
    transfer::{Fault, out_of_turn, receive_file, receive_wanted, send_wanted},
};
use crate::{
    base::error::{Error, Result},
    cluster::remote::{Address, Frame, Process, Transport, die_with_parent, end_group, read_frame},
};
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

/// What a worker is told when it is started.
pub struct WorkerOptions {
    /// dedup-shard itself.
    pub program: PathBuf,
    pub store: Store,
    /// How often it shows that it lives.
    pub beat: Duration,
}

/// Exit of a task that will fail again, with the same inputs.
const FAILED: i32 = 1;
/// How many bytes of a log go back.
const SAID_BYTES: u64 = 4096;
/// How long another host may take to answer.
const PEER_LIMIT: Duration = Duration::from_secs(30);

enum Event {
    Frame(Frame, Vec<u8>),
    /// Nobody is there any more.
    Gone,
    Ended(io::Result<ExitStatus>),
}

/// The worker's end of the conversation.
struct Ear {
    events: Receiver<Event>,
    out: Arc<Mutex<io::Stdout>>,
    pending: Vec<u8>,
}

/// Serves whoever is at stdin until that is closed.
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
    let ear = Ear {
        events,
        out,
        pending: Vec::new(),
    };
    let mut worker = Worker {
        ear,
        send,
        options,
        plan: None,
        peers: HashMap::new(),
    };
    // A conversation that breaks off is the usual end.
    while worker.serve_one().unwrap_or(false) {}
    Ok(())
}

fn read_all(send: &SyncSender<Event>) {
    let mut input = BufReader::with_capacity(1 << 16, io::stdin());
    loop {
        let mut payload = Vec::new();
        let event = read_frame(&mut input, &mut payload)
            .map_or(Event::Gone, |kind| Event::Frame(kind, payload));
        let is_gone = matches!(event, Event::Gone);
        if send.send(event).is_err() || is_gone {
            return;
        }
    }
}

fn beat_for_ever(out: &Mutex<io::Stdout>, beat: Duration) {
    let mut frame = Vec::new();
    if push_frame(&mut frame, Frame::Beat, &[]).is_err() {
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

impl Talk for Ear {
    fn send(&mut self, kind: Frame, payload: &[u8]) -> io::Result<()> {
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

    fn receive(&mut self, payload: &mut Vec<u8>) -> io::Result<Frame> {
        loop {
            match self.events.recv() {
                Ok(Event::Frame(Frame::Beat, _) | Event::Ended(_)) => {}
                Ok(Event::Frame(kind, bytes)) => {
                    *payload = bytes;
                    return Ok(kind);
                }
                Ok(Event::Gone) | Err(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }
}

struct Worker<'o> {
    ear: Ear,
    send: SyncSender<Event>,
    options: &'o WorkerOptions,
    plan: Option<Plan>,
    peers: HashMap<String, Client>,
}

impl Worker<'_> {
    /// False when it is over.
    fn serve_one(&mut self) -> io::Result<bool> {
        let request = self.ear.hear()?;
        let is_bye = request == Message::Bye;
        let answer = match self.answer(request) {
            Ok(answer) => answer,
            Err(Fault::Link(what)) => return Err(io::Error::other(what)),
            Err(Fault::Told(cause, what)) => Message::error(cause, what),
            Err(Fault::Damaged(what)) => Message::error(Cause::Source, what),
            Err(Fault::Spoilt(paths, what)) => Message::Error {
                cause: Cause::Source,
                what,
                paths,
            },
            // A disk that is full or gone is the host's fault; and what else can it be?
            Err(Fault::Own(error)) => Message::error(Cause::Lost, error.to_string()),
        };
        self.ear.say(&answer)?;
        Ok(!is_bye)
    }

    fn answer(&mut self, request: Message) -> Result<Message, Fault> {
        let store = &self.options.store;
        let done = |bytes| Ok(Message::Done { bytes });
        match request {
            Message::Inventory => {
                let Inventory { paths, .. } = store.inventory(self.plan()?)?;
                Ok(Message::Have { paths })
            }
            Message::Put { path, items, keep } => {
                let target = store.target(&path)?;
                remove(&target)?;
                let bytes = receive_wanted(&mut self.ear, &target, &items, store.cache())?;
                store.brought(&path, &items, keep)?;
                done(bytes)
            }
            Message::Get { path, keep } => {
                let (root, items) = store.items(&path)?;
                self.ear.say(&Message::Items {
                    items: items.clone(),
                })?;
                let bytes = send_wanted(&mut self.ear, &root, &items)?;
                if keep {
                    store.keep(&root, &items);
                }
                done(bytes)
            }
            Message::Stage { task } => done(self.stage(&task)?),
            Message::Fetch { peer, paths, keep } => done(self.fetch(&peer, &paths, keep)?),
            Message::Run { task, is_staged } => self.run(&task, is_staged),
            Message::Clean => store.clean().map_err(Fault::Own).and_then(|()| done(0)),
            Message::Prune { bytes, seconds } => {
                store.sweep();
                store.prune(bytes, Duration::from_secs(seconds), &self.options.program);
                done(0)
            }
            Message::Bye => Ok(Message::Bye),
            _ => Err(out_of_turn()),
        }
    }

    fn plan(&mut self) -> Result<&Plan, Fault> {
        if self.plan.is_none() {
            let plan = self.options.store.plan()?;
            self.options.store.ensure_plan(&plan)?;
            self.plan = Some(plan);
        }
        self.plan.as_ref().ok_or_else(out_of_turn)
    }

    fn task(&mut self, id: &str) -> Result<Task, Fault> {
        Ok(self.plan()?.task(id)?.clone())
    }

    /// Takes in the documents of a task.
    fn stage(&mut self, id: &str) -> Result<u64, Fault> {
        let directory = self.options.store.documents(&self.task(id)?);
        remove(&directory)?;
        let mut trouble = fs::create_dir_all(&directory)
            .map_err(|error| Error::io(directory.display(), error))
            .err();
        let mut sum = 0;
        loop {
            match self.ear.hear()? {
                Message::Document { number, bytes } => {
                    let received =
                        receive_file(&mut self.ear, &directory.join(number.to_string()), bytes)?;
                    trouble = trouble.or(received.err());
                    sum += bytes;
                }
                Message::End => return trouble.map_or(Ok(sum), |error| Err(Fault::Own(error))),
                Message::Error { cause, what, .. } => {
                    remove(&directory)?;
                    return Err(Fault::Told(cause, what));
                }
                _ => return Err(out_of_turn()),
            }
        }
    }

    /// Gets something from a worker on another host.
    fn fetch(&mut self, peer: &Peer, paths: &[String], keep: bool) -> Result<u64, Fault> {
        let mut sum = 0;
        for path in paths {
            // A wire may have been closed while it was not used: a fresh one tells.
            let got = match self.fetch_one(peer, path, keep) {
                Err(Fault::Link(_)) => self.fetch_one(peer, path, keep),
                got => got,
            };
            sum += got.map_err(|fault| match fault {
                Fault::Link(what) => Fault::Told(Cause::Peer, format!("{}: {what}", peer.name)),
                Fault::Damaged(what) | Fault::Told(Cause::Source, what) => {
                    Fault::Spoilt(vec![path.clone()], what)
                }
                fault => fault,
            })?;
        }
        Ok(sum)
    }

    fn fetch_one(&mut self, peer: &Peer, path: &str, keep: bool) -> Result<u64, Fault> {
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
                let wire = Process::new(rsh, &address).spawn(worker, PEER_LIMIT)?;
                new.insert(
                    Client::greet(wire, PEER_LIMIT, PEER_LIMIT * 2)
                        .map_err(|error| Fault::Link(error.to_string()))?,
                )
            }
        };
        let store = &self.options.store;
        let target = store.target(path)?;
        remove(&target)?;
        let got = client.get(path, false, &target, store.cache());
        if matches!(got, Err(Fault::Link(_))) {
            self.peers.remove(&key);
        }
        let (bytes, items) = got?;
        store.brought(path, &items, keep)?;
        Ok(bytes)
    }

    fn run(&mut self, id: &str, is_staged: bool) -> Result<Message, Fault> {
        let task = self.task(id)?;
        let store = &self.options.store;
        let plan = self.plan.as_ref().ok_or_else(out_of_turn)?;
        if store.is_output_there(plan, &task) {
            return Ok(Message::Ran {
                code: Some(0),
                signal: None,
                said: String::new(),
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
            &self.ear.events,
        );
        let ran = ran.and_then(|(status, said)| {
            let bytes = if status.success() {
                store.accept(plan, &task, &view)?
            } else {
                0
            };
            Ok(Message::Ran {
                code: status.code(),
                signal: status.signal(),
                said,
                bytes,
            })
        });
        store.close(&task, &view);
        // One that fails may have been given what is not whole any more.
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
                return Err(Fault::Spoilt(spoilt, what));
            }
        }
        ran
    }
}

/// Runs a task as a process of its own. If the coordinator goes, it goes, too.
fn run_child(
    program: &Path,
    task: &Task,
    view: &View,
    (log, file): (PathBuf, File),
    send: &SyncSender<Event>,
    events: &Receiver<Event>,
) -> Result<(ExitStatus, String), Fault> {
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
    let waiter = thread::Builder::new().spawn(move || drop(send.send(Event::Ended(child.wait()))));
    waiter.map_err(|error| Error::io("a thread", error))?;
    let mut is_gone = false;
    loop {
        match events.recv() {
            Ok(Event::Ended(_)) if is_gone => {
                return Err(Fault::Link("nobody is there any more".to_owned()));
            }
            Ok(Event::Ended(status)) => {
                let status = status.map_err(|error| Error::io(program.display(), error))?;
                return Ok((status, end_of(&log)));
            }
            Ok(Event::Frame(Frame::Beat, _)) => {}
            // Nothing may be asked before the answer has come.
            Ok(Event::Frame(..) | Event::Gone) | Err(_) => {
                end_group(leader);
                is_gone = true;
            }
        }
    }
}

/// The end of a log.
fn end_of(log: &Path) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let bytes = file.metadata()?.len();
        file.seek(SeekFrom::Start(bytes.saturating_sub(SAID_BYTES)))?;
        let mut said = Vec::new();
        file.take(SAID_BYTES).read_to_end(&mut said)?;
        Ok(said)
    };
    String::from_utf8_lossy(&read().unwrap_or_default())
        .trim()
        .to_owned()
}
