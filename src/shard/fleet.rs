//! The engine `ssh`: hosts that run tasks, each reached over wires of its own: one for each slot, one for what comes, one for what goes.

use super::{
    board::{HERE, Place, Takes},
    client::{Client, relay},
    engine::{Crew, Inventory, Local, Outcome, Trouble, Verdict, log_of},
    gather::gather_needs,
    hosts::Host,
    plan::{Kind, NAME, Plan, Task},
    protocol::{Cause, Message, Peer, Talk},
    store::remove,
    transfer::{Fault, send_file},
};
use crate::{
    corpus::Slice,
    error::Error,
    pipeline::{BUILT, Built},
    remote::{Address, Transport},
};
use std::{
    collections::{BTreeSet, HashSet},
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

/// How workers are started, and watched.
#[derive(Debug, Clone)]
pub struct FleetOptions {
    /// dedup-shard on the hosts.
    pub program: String,
    /// Copy this program there instead.
    pub ship: Option<PathBuf>,
    /// The command by which hosts reach each other, if they may.
    pub peer_rsh: Option<Vec<String>>,
    /// For all that comes before the first word of a worker.
    pub hello: Duration,
    /// How long a worker may be silent.
    pub stall: Duration,
    /// How much stays on a host for later runs.
    pub cache_bytes: u64,
    pub cache_age: Duration,
}

type Cell = Mutex<Option<Client>>;

struct Remote {
    host: Host,
    transport: Box<dyn Transport>,
    /// It works in the directory of the run.
    is_shared: bool,
    /// The worker and its arguments.
    worker: Mutex<Option<Vec<String>>>,
    inbox: Cell,
    outbox: Cell,
    slots: Vec<Cell>,
    /// Hosts that it cannot reach, by place.
    unreached: Mutex<HashSet<usize>>,
}

/// All hosts of a run, and this machine for the last task.
pub struct Fleet<'p> {
    here: Local<'p>,
    hosts: Vec<Remote>,
    options: FleetOptions,
    /// Who writes in the directory of the run.
    writing: Mutex<()>,
}

/// Attempts to connect, with a rest before each but the first: a server may refuse when many come at once.
const CONNECTS: [Duration; 3] = [Duration::ZERO, Duration::from_millis(250), Duration::from_millis(1000)];

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'p> Fleet<'p> {
    /// `here` runs what must be run on this machine; `transports`: one for each host of its plan.
    pub fn new(here: Local<'p>, options: FleetOptions, transports: Vec<Box<dyn Transport>>) -> Self {
        let host = |(host, transport): (&Host, Box<dyn Transport>)| Remote {
            host: host.clone(),
            transport,
            is_shared: host.shared.as_ref().is_some_and(|shared| here.run.starts_with(shared)),
            worker: Mutex::new(None),
            inbox: Cell::default(),
            outbox: Cell::default(),
            slots: (0..host.slots).map(|_| Cell::default()).collect(),
            unreached: Mutex::default(),
        };
        let hosts = here.plan.hosts.iter().zip(transports).map(host).collect();
        Self { here, hosts, options, writing: Mutex::new(()) }
    }

    fn plan(&self) -> &'p Plan {
        self.here.plan
    }

    fn host(&self, place: usize) -> &Remote {
        &self.hosts[place - 1]
    }

    /// Removes what the run left on each host. Gives what could not be reached, and why.
    pub fn clean(&self) -> Vec<String> {
        let clean = |remote: &Remote| {
            remote.with(&self.options, &self.here, &remote.inbox, |client| client.order(&Message::Clean))?;
            if let Some(client) = lock(&remote.inbox).take() {
                client.leave()?;
            }
            Ok::<_, Fault>(())
        };
        let failed = |remote: &Remote| clean(remote).err().map(|fault| format!("{}: {}", remote.host.label(), text_of(&fault)));
        self.hosts.iter().filter(|remote| !remote.is_shared).filter_map(failed).collect()
    }

    /// Copies something from a host to the directory of the run, with the record of what it is of: so that it is known again.
    fn bring_here(&self, from: usize, paths: &[String]) -> Result<u64, Trouble> {
        let _writing = lock(&self.writing);
        let (remote, mut sum) = (self.host(from), 0);
        for path in paths {
            let maker = self.plan().maker(path);
            let record = maker.map(|task| format!("{}/{BUILT}", task.output)).filter(|record| record != path);
            let missing = record.filter(|record| !self.here.run.join(record).exists());
            for path in missing.iter().chain([path]) {
                let target = self.here.run.join(path);
                let keep = maker.is_some_and(|task| task.kind == Kind::Part);
                let get = |client: &mut Client| {
                    remove(&target)?;
                    client.get(path, keep, &target, None)
                };
                let got = remote.with(&self.options, &self.here, &remote.outbox, get);
                sum += got.map_err(|fault| source_trouble(remote, path, fault))?.0;
            }
        }
        Ok(sum)
    }

    /// Whether something that a task made is here and whole, though not all of its output is.
    fn is_piece_here(&self, path: &str) -> bool {
        let Some(task) = self.plan().maker(path) else { return false };
        let output = self.here.run.join(&task.output);
        let Some(built) = Built::read(&output).ok().filter(|built| built.of == Some(self.plan().output_of(task))) else { return false };
        let name = Path::new(path).strip_prefix(&task.output).unwrap_or(Path::new(""));
        name == Path::new(BUILT) || built.is_whole(&output, name)
    }

    /// Copies something of the run to a host.
    fn bring_there(&self, to: usize, paths: &[String]) -> Result<u64, Trouble> {
        let remote = self.host(to);
        let put = |client: &mut Client| {
            paths.iter().try_fold(0, |sum, path| Ok(sum + client.put(path, self.plan().is_kept(path), &self.here.run.join(path))?))
        };
        remote.with(&self.options, &self.here, &remote.inbox, put).map_err(|fault| trouble(remote, fault))
    }

    /// Copies something from host to host, by itself or through here.
    fn bring_across(&self, to: usize, from: usize, paths: &[String]) -> Result<u64, Trouble> {
        let (target, source) = (self.host(to), self.host(from));
        let keep = paths.iter().all(|path| self.plan().is_kept(path));
        if let Some(rsh) = self.options.peer_rsh.as_ref().filter(|_| !lock(&target.unreached).contains(&from)) {
            let worker = source.worker_words(&self.options, &self.here);
            let worker = worker.map_err(|error| trouble(source, error.into()))?;
            let Address { name, user, port } = source.host.address();
            let peer = Peer { name, user, port, rsh: rsh.clone(), worker };
            match target.with(&self.options, &self.here, &target.inbox, |client| client.fetch(peer.clone(), paths, keep)) {
                Ok(bytes) => return Ok(bytes),
                Err(Fault::Told(Cause::Peer, _)) => drop(lock(&target.unreached).insert(from)),
                Err(Fault::Told(Cause::Source, what)) => {
                    return Err(Trouble::Source(paths.to_vec(), format!("{}: {what}", source.host.label())));
                }
                Err(fault) => return Err(trouble(target, fault)),
            }
        }
        paths.iter().try_fold(0, |sum, path| Ok(sum + self.pass_on(target, source, path)?))
    }

    fn pass_on(&self, target: &Remote, source: &Remote, path: &str) -> Result<u64, Trouble> {
        let (mut inbox, mut outbox) = (lock(&target.inbox), lock(&source.outbox));
        let to = target.open(&self.options, &self.here, &mut inbox).map_err(|fault| trouble(target, fault))?;
        let from = source.open(&self.options, &self.here, &mut outbox).map_err(|fault| source_trouble(source, path, fault))?;
        relay(from, to, path, self.plan().is_kept(path)).map_err(|(is_source, fault)| {
            if matches!(fault, Fault::Link(_) | Fault::Own(_)) {
                (*inbox, *outbox) = (None, None);
            }
            if is_source { source_trouble(source, path, fault) } else { trouble(target, fault) }
        })
    }

    /// Whether a host reads the documents of a task where they are.
    fn shares_documents(&self, remote: &Remote, slice: &Slice) -> bool {
        let directory = Path::new(&self.plan().options.directory);
        let shared = remote.host.shared.as_ref().filter(|_| remote.is_shared);
        shared.is_some_and(|shared| slice.documents().all(|file| directory.join(file.path).starts_with(shared)))
    }

    fn slice(&self, task: &Task) -> Result<Option<Slice>, Trouble> {
        let input = task.inputs.first().filter(|_| task.kind == Kind::Map);
        let open = |input: &String| Slice::open(&self.here.run.join(input)).map_err(|error| Trouble::Failed(error.to_string()));
        input.map(open).transpose()
    }
}

impl Crew for Fleet<'_> {
    fn places(&self) -> Vec<Place> {
        let here = Place { name: "here".to_owned(), slots: 1, takes: Takes::Own, is_shared: true };
        let host = |remote: &Remote| Place {
            name: remote.host.label(),
            slots: remote.host.slots,
            takes: Takes::Common,
            is_shared: remote.is_shared,
        };
        [here].into_iter().chain(self.hosts.iter().map(host)).collect()
    }

    fn begin(&self, place: usize) -> Result<Inventory, Trouble> {
        if place == HERE {
            let mut inventory = self.here.look();
            let central = self.plan().tasks.iter().filter(|task| task.kind.is_central()).flat_map(|task| task.inputs.clone());
            let needs: BTreeSet<String> = central.chain(gather_needs(self.plan()).into_values().flatten()).collect();
            inventory.paths.extend(needs.into_iter().filter(|path| self.is_piece_here(path)));
            inventory.damaged.clear();
            return Ok(inventory);
        }
        let remote = self.host(place);
        let open = |client: &mut Client| {
            if remote.is_shared {
                return Ok(Vec::new());
            }
            client.put(NAME, false, &self.here.run.join(NAME))?;
            client.inventory()
        };
        let paths = remote.with(&self.options, &self.here, &remote.inbox, open).map_err(|fault| trouble(remote, fault))?;
        Ok(Inventory { paths, damaged: Vec::new() })
    }

    fn bring(&self, to: usize, from: usize, paths: &[String]) -> Result<u64, Trouble> {
        match (to, from) {
            (HERE, HERE) => Ok(0),
            (HERE, from) => self.bring_here(from, paths),
            (to, HERE) => self.bring_there(to, paths),
            (to, from) => self.bring_across(to, from, paths),
        }
    }

    fn stage(&self, place: usize, task: &Task) -> Result<u64, Trouble> {
        if place == HERE {
            return Ok(0);
        }
        let (remote, Some(slice)) = (self.host(place), self.slice(task)?) else { return Ok(0) };
        if self.shares_documents(remote, &slice) {
            return Ok(0);
        }
        let mut found = None;
        let sent = remote.with(&self.options, &self.here, &remote.inbox, |client| {
            client.say(&Message::Stage { task: task.id.clone() })?;
            for file in slice.documents() {
                let path = Path::new(&self.plan().options.directory).join(file.path);
                let verdict = match document_verdict(&path, file.bytes, file.modified) {
                    Some(verdict) => Err(verdict),
                    None => {
                        client.say_later(&Message::Document { number: file.number, bytes: file.bytes })?;
                        send_file(client, &path, file.bytes)?.map_err(|_| changed(file.path))
                    }
                };
                if let Err(verdict) = verdict {
                    found = Some(verdict);
                    return client.order(&Message::Error { cause: Cause::Failed, what: String::new() });
                }
            }
            client.order(&Message::End)
        });
        match found {
            Some(verdict) => Err(verdict),
            None => sent.map_err(|fault| trouble(remote, fault)),
        }
    }

    fn run(&self, place: usize, slot: u32, task: &Task) -> Result<Outcome, Trouble> {
        let failed = |error: Error| Trouble::Failed(error.to_string());
        if place == HERE {
            return self.here.run(place, slot, task);
        }
        let remote = self.host(place);
        let is_staged = self.slice(task)?.is_some_and(|slice| !self.shares_documents(remote, &slice));
        let request = Message::Run { task: task.id.clone(), is_staged };
        let cell = remote.slots.get(slot as usize).unwrap_or(&remote.outbox);
        let answer = remote.with(&self.options, &self.here, cell, |client| client.ask(&request)).map_err(|fault| trouble(remote, fault))?;
        let Message::Ran { code, signal, said, bytes } = answer else {
            return Err(Trouble::Lost(format!("{}: something came out of turn", remote.host.label())));
        };
        let verdict = self.judge(remote, task, code, signal, &said).map_err(failed)?;
        Ok(Outcome { verdict, bytes_out: bytes })
    }

    fn leave(&self, place: usize) {
        if place == HERE {
            return;
        }
        let remote = self.host(place);
        if let Some(client) = lock(&remote.inbox).as_mut() {
            let (bytes, seconds) = (self.options.cache_bytes, self.options.cache_age.as_secs());
            let _ = client.order(&Message::Prune { bytes, seconds });
        }
        for cell in [&remote.inbox, &remote.outbox].into_iter().chain(&remote.slots) {
            // One that is in use is left by its user.
            if let Some(client) = cell.try_lock().ok().and_then(|mut cell| cell.take()) {
                let _ = client.leave();
            }
        }
    }
}

impl Fleet<'_> {
    /// What became of a task. What it said is kept if it did not end well.
    fn judge(&self, remote: &Remote, task: &Task, code: Option<i32>, signal: Option<i32>, said: &str) -> Result<Verdict, Error> {
        if code == Some(0) {
            return Ok(Verdict::Done);
        }
        let log = log_of(&self.here.run, &format!("{}@{}", task.id, remote.host.label()))?;
        fs::write(&log, said).map_err(|error| Error::io(log.display(), error))?;
        let last = said.lines().last().unwrap_or("it said nothing");
        let what = format!("on {}: {last}; see {}", remote.host.label(), log.display());
        Ok(match (code, signal) {
            (Some(code), _) if code != i32::from(super::engine::LOST) => Verdict::Failed(what),
            (None, Some(signal)) => Verdict::Lost(format!("killed by signal {signal} {what}")),
            _ => Verdict::Lost(what),
        })
    }
}

impl Remote {
    /// The worker that is to be started there.
    fn worker_words(&self, options: &FleetOptions, here: &Local<'_>) -> io::Result<Vec<String>> {
        let mut known = lock(&self.worker);
        if let Some(words) = &*known {
            return Ok(words.clone());
        }
        let mut words = match &options.ship {
            Some(program) => super::ship::ship(self.transport.as_ref(), program, self.host.dir.as_deref(), options.hello)?,
            None => vec![options.program.clone(), "worker".to_owned()],
        };
        let beat = (options.stall / 6).min(Duration::from_secs(5)).as_millis();
        words.push(format!("--beat-ms={beat}"));
        if self.is_shared {
            words.push(format!("--in={}", here.run.display()));
        } else {
            words.push(format!("--run={}", here.plan.checksum()));
            words.extend(self.host.dir.as_ref().map(|dir| format!("--dir={dir}")));
        }
        Ok(known.insert(words).clone())
    }

    fn connect(&self, options: &FleetOptions, here: &Local<'_>) -> io::Result<Client> {
        let mut last = io::Error::from(io::ErrorKind::NotConnected);
        for rest in CONNECTS {
            thread::sleep(rest);
            let client = self
                .worker_words(options, here)
                .and_then(|words| self.transport.spawn(&words, options.hello))
                .and_then(|wire| Client::greet(wire, options.hello, options.stall));
            match client {
                Err(error) if is_passing(&error) => last = error,
                client => return client,
            }
        }
        Err(last)
    }

    fn open<'c>(&self, options: &FleetOptions, here: &Local<'_>, cell: &'c mut Option<Client>) -> Result<&'c mut Client, Fault> {
        if cell.as_ref().is_none_or(Client::is_stale) {
            *cell = None;
            *cell = Some(self.connect(options, here).map_err(|error| match error.kind() {
                io::ErrorKind::PermissionDenied => Fault::Told(Cause::Failed, error.to_string()),
                _ => Fault::Link(error.to_string()),
            })?);
        }
        cell.as_mut().ok_or_else(|| Fault::Link("there is no connection".to_owned()))
    }

    /// Talks to a worker; one whose conversation broke off is not used again.
    fn with<T>(
        &self,
        options: &FleetOptions,
        here: &Local<'_>,
        cell: &Cell,
        talk: impl FnOnce(&mut Client) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut cell = lock(cell);
        let done = talk(self.open(options, here, &mut cell)?);
        if matches!(done, Err(Fault::Link(_))) {
            *cell = None;
        }
        done
    }
}

/// Whether a server may take the next attempt: what OpenSSH does when many come at once.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted)
}

fn text_of(fault: &Fault) -> String {
    match fault {
        Fault::Link(what) | Fault::Told(_, what) | Fault::Damaged(what) => what.clone(),
        Fault::Own(error) => error.to_string(),
    }
}

/// What a host's failure means for the run.
fn trouble(remote: &Remote, fault: Fault) -> Trouble {
    let what = format!("{}: {}", remote.host.label(), text_of(&fault));
    match fault {
        Fault::Told(Cause::Failed, _) => Trouble::Refused(what),
        // A disk of this machine: there is no elsewhere.
        Fault::Own(_) => Trouble::Failed(text_of(&fault)),
        _ => Trouble::Lost(what),
    }
}

/// The same, where something was wanted from it.
fn source_trouble(remote: &Remote, path: &str, fault: Fault) -> Trouble {
    let what = format!("{}: {}", remote.host.label(), text_of(&fault));
    match fault {
        Fault::Damaged(_) | Fault::Told(Cause::Source, _) => Trouble::Source(vec![path.to_owned()], what),
        Fault::Own(_) => Trouble::Failed(text_of(&fault)),
        _ => Trouble::From(what),
    }
}

/// Why a document cannot be copied, if so. One that cannot be read is a problem of the task, which then is run here.
fn document_verdict(path: &Path, bytes: u64, modified: i64) -> Option<Trouble> {
    use std::os::unix::fs::MetadataExt;
    let Ok(metadata) = fs::metadata(path) else { return Some(Trouble::Here) };
    let now = metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
    let is_same = metadata.len() == bytes && now == modified;
    (!is_same || fs::File::open(path).is_err()).then_some(Trouble::Here)
}

fn changed(path: &Path) -> Trouble {
    Trouble::Failed(format!("{}: changed while it was read; plan anew", path.display()))
}
