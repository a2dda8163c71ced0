//! The engine `ssh`: hosts that run tasks, each reached over wires of its own: one for each slot, one for what comes, one for what goes.

use super::{
    board::{HERE, Place, Takes},
    client::{Client, relay},
    engine::{Brought, Crew, Inventory, Local, Outcome, Trouble, Verdict, log_of},
    gather::gather_needs,
    plan::{Host, PLAN_FILE, Plan, Task, TaskKind},
    protocol::{Cause, Message, Peer, Talk},
    state::has_file,
    store::remove,
    transfer::{Fault, send_file},
};
use crate::{
    base::error::Error,
    cluster::remote::{Address, Transport},
    commands::{BUILD_RECORD, BuildRecord, PARTIAL_BUILD_RECORD},
    text::corpus::CorpusSlice,
};
use std::{
    collections::{BTreeSet, HashMap},
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    slice,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use xxhash_rust::xxh3::xxh3_64;

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
    /// Hosts that it could not reach, by place, and when.
    unreached: Mutex<HashMap<usize, Instant>>,
    /// How many wires to it are being made, and a bell for when one is.
    connects: (Mutex<usize>, Condvar),
    /// Of all attempts: so that those that were refused together do not come again together.
    attempts: AtomicU32,
}

/// All hosts of a run, and this machine for the last task.
pub struct Fleet<'p> {
    here: Local<'p>,
    hosts: Vec<Remote>,
    options: FleetOptions,
    /// Who writes in the directory of the run.
    writing: Mutex<()>,
}

/// Rests before attempts to connect, in milliseconds, and up to as much again: a server may refuse when many come at once.
const CONNECTS_MS: [u64; 5] = [0, 250, 500, 1000, 2000];
/// How many wires to one host are made at a time: OpenSSH may refuse the eleventh.
const MOST_CONNECTS: usize = 8;
/// How long it is believed that a host cannot reach another.
const DETOUR: Duration = Duration::from_secs(300);
/// How long a worker may take to say good-bye, if that is not too long for any sign of life.
const LEAVE: Duration = Duration::from_secs(15);

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'p> Fleet<'p> {
    /// `here` runs what must be run on this machine; `transports`: one for each host of its plan.
    pub fn new(
        here: Local<'p>,
        options: FleetOptions,
        transports: Vec<Box<dyn Transport>>,
    ) -> Self {
        let host = |(host, transport): (&Host, Box<dyn Transport>)| Remote {
            host: host.clone(),
            transport,
            is_shared: host
                .shared
                .as_ref()
                .is_some_and(|shared| here.run.starts_with(shared)),
            worker: Mutex::new(None),
            inbox: Cell::default(),
            outbox: Cell::default(),
            slots: (0..host.slots).map(|_| Cell::default()).collect(),
            unreached: Mutex::default(),
            connects: Default::default(),
            attempts: AtomicU32::new(0),
        };
        let hosts = here.plan.hosts.iter().zip(transports).map(host).collect();
        Self {
            here,
            hosts,
            options,
            writing: Mutex::new(()),
        }
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
            remote.with(&self.options, &self.here, &remote.inbox, |client| {
                client.order(&Message::Clean)
            })?;
            if let Some(client) = lock(&remote.inbox).take() {
                client.leave()?;
            }
            Ok::<_, Fault>(())
        };
        let failed = |remote: &Remote| {
            clean(remote)
                .err()
                .map(|fault| format!("{}: {}", remote.host.label(), text_of(&fault)))
        };
        self.hosts
            .iter()
            .filter(|remote| !remote.is_shared)
            .filter_map(failed)
            .collect()
    }

    /// Copies something from a host to the directory of the run, with the record of what it is of: so that it is known again.
    fn bring_here(&self, from: usize, paths: &[String]) -> Result<u64, Trouble> {
        let _writing = lock(&self.writing);
        let (remote, mut sum) = (self.host(from), 0);
        for path in paths {
            let maker = self.plan().maker(path);
            let record = maker
                .map(|task| format!("{}/{BUILD_RECORD}", task.output))
                .filter(|record| record != path);
            let missing = record.filter(|record| !self.target_here(record).exists());
            for path in missing.iter().chain([path]) {
                let target = self.target_here(path);
                let keep = maker.is_some_and(|task| task.kind() == TaskKind::Part);
                let get = |client: &mut Client| {
                    remove(&target)?;
                    client.get(path, keep, &target, None)
                };
                let got = remote.with(&self.options, &self.here, &remote.outbox, get);
                sum += got
                    .map_err(|fault| source_trouble(remote, slice::from_ref(path), fault))?
                    .0;
            }
            let output = maker.map(|task| self.here.run.join(&task.output));
            output
                .map_or(Ok(()), |output| BuildRecord::settle(&output))
                .map_err(|error| trouble(remote, Fault::Own(error)))?;
        }
        Ok(sum)
    }

    /// Where something goes that is brought here. The record of an output has another name until all of that is here.
    fn target_here(&self, path: &str) -> PathBuf {
        let target = self.here.run.join(path);
        if target.file_name().is_some_and(|name| name == BUILD_RECORD) && !target.exists() {
            target.with_file_name(PARTIAL_BUILD_RECORD)
        } else {
            target
        }
    }

    /// Copies something of the run to a host.
    fn bring_there(&self, to: usize, paths: &[String]) -> Result<u64, Trouble> {
        let remote = self.host(to);
        let put = |client: &mut Client| {
            paths.iter().try_fold(0, |sum, path| {
                Ok(sum + client.put(path, self.plan().is_kept(path), &self.here.run.join(path))?)
            })
        };
        remote
            .with(&self.options, &self.here, &remote.inbox, put)
            .map_err(|fault| trouble(remote, fault))
    }

    /// Copies something from host to host, by itself or through here.
    fn bring_across(&self, to: usize, from: usize, paths: &[String]) -> Result<Brought, Trouble> {
        let (target, source) = (self.host(to), self.host(from));
        let keep = paths.iter().all(|path| self.plan().is_kept(path));
        let mut detour = None;
        let is_unreached = || {
            lock(&target.unreached)
                .get(&from)
                .is_some_and(|since| since.elapsed() < DETOUR)
        };
        if let Some(rsh) = self.options.peer_rsh.as_ref().filter(|_| !is_unreached()) {
            let worker = source.worker_words(&self.options, &self.here);
            let worker = worker.map_err(|error| trouble(source, error.into()))?;
            let Address { name, user, port } = source.host.address();
            let peer = Peer {
                name,
                user,
                port,
                rsh: rsh.clone(),
                worker,
            };
            match target.with(&self.options, &self.here, &target.inbox, |client| {
                client.fetch(peer.clone(), paths, keep)
            }) {
                Ok(bytes) => {
                    return Ok(Brought {
                        bytes,
                        is_direct: true,
                        detour: None,
                    });
                }
                Err(Fault::Told(Cause::Peer, what)) => {
                    // Once is enough to tell.
                    if lock(&target.unreached)
                        .insert(from, Instant::now())
                        .is_none()
                    {
                        detour = Some(format!("{} does not reach {what}", target.host.label()));
                    }
                }
                Err(fault @ (Fault::Told(Cause::Source, _) | Fault::Spoilt(..))) => {
                    return Err(source_trouble(source, paths, fault));
                }
                Err(fault) => return Err(trouble(target, fault)),
            }
        }
        let bytes = paths
            .iter()
            .try_fold(0, |sum, path| Ok(sum + self.pass_on(target, source, path)?))?;
        Ok(Brought {
            bytes,
            is_direct: false,
            detour,
        })
    }

    fn pass_on(&self, target: &Remote, source: &Remote, path: &str) -> Result<u64, Trouble> {
        let (mut inbox, mut outbox) = (lock(&target.inbox), lock(&source.outbox));
        let to = target
            .open(&self.options, &self.here, &mut inbox)
            .map_err(|fault| trouble(target, fault))?;
        let from = source
            .open(&self.options, &self.here, &mut outbox)
            .map_err(|fault| source_trouble(source, &[path.to_owned()], fault))?;
        relay(from, to, path, self.plan().is_kept(path)).map_err(|(is_source, fault)| {
            if matches!(fault, Fault::Link(_) | Fault::Own(_)) {
                (*inbox, *outbox) = (None, None);
            }
            if is_source {
                source_trouble(source, &[path.to_owned()], fault)
            } else {
                trouble(target, fault)
            }
        })
    }

    /// Whether a host reads the documents of a task where they are.
    fn shares_documents(&self, remote: &Remote, slice: &CorpusSlice) -> bool {
        let directory = Path::new(&self.plan().options.directory);
        let shared = remote.host.shared.as_ref().filter(|_| remote.is_shared);
        shared.is_some_and(|shared| {
            slice
                .documents()
                .all(|file| directory.join(file.path).starts_with(shared))
        })
    }

    fn slice(&self, task: &Task) -> Result<Option<CorpusSlice>, Trouble> {
        let input = task.inputs.first().filter(|_| task.kind() == TaskKind::Map);
        let open = |input: &String| {
            CorpusSlice::open(&self.here.run.join(input))
                .map_err(|error| Trouble::Failed(error.to_string()))
        };
        input.map(open).transpose()
    }
}

impl Crew for Fleet<'_> {
    fn places(&self) -> Vec<Place> {
        let here = Place {
            name: "here".to_owned(),
            slots: 1,
            takes: Takes::Own,
            is_shared: true,
        };
        let host = |remote: &Remote| Place {
            name: remote.host.label(),
            slots: remote.host.slots,
            takes: Takes::Common,
            is_shared: remote.is_shared,
        };
        [here]
            .into_iter()
            .chain(self.hosts.iter().map(host))
            .collect()
    }

    fn begin(&self, place: usize) -> Result<Inventory, Trouble> {
        if place == HERE {
            let mut inventory = self.here.look();
            let central = self
                .plan()
                .tasks
                .iter()
                .filter(|task| task.kind().is_central())
                .flat_map(|task| task.inputs.clone());
            let needs: BTreeSet<String> = central
                .chain(gather_needs(self.plan()).into_values().flatten())
                .collect();
            inventory.paths.extend(
                needs
                    .into_iter()
                    .filter(|path| has_file(self.plan(), path, &self.here.run)),
            );
            inventory.damaged.clear();
            return Ok(inventory);
        }
        let remote = self.host(place);
        let open = |client: &mut Client| {
            if remote.is_shared {
                return Ok((0, Vec::new()));
            }
            Ok((
                client.put(PLAN_FILE, false, &self.here.run.join(PLAN_FILE))?,
                client.inventory()?,
            ))
        };
        let (moved, paths) = remote
            .with(&self.options, &self.here, &remote.inbox, open)
            .map_err(|fault| trouble(remote, fault))?;
        Ok(Inventory {
            paths,
            damaged: Vec::new(),
            moved,
        })
    }

    fn bring(&self, to: usize, from: usize, paths: &[String]) -> Result<Brought, Trouble> {
        let bytes = match (to, from) {
            (HERE, HERE) => 0,
            (HERE, from) => self.bring_here(from, paths)?,
            (to, HERE) => self.bring_there(to, paths)?,
            (to, from) => return self.bring_across(to, from, paths),
        };
        Ok(Brought::of(bytes))
    }

    fn stage(&self, place: usize, task: &Task) -> Result<u64, Trouble> {
        if place == HERE {
            return Ok(0);
        }
        let (remote, Some(slice)) = (self.host(place), self.slice(task)?) else {
            return Ok(0);
        };
        if self.shares_documents(remote, &slice) {
            return Ok(0);
        }
        let mut found = None;
        let sent = remote.with(&self.options, &self.here, &remote.inbox, |client| {
            client.say(&Message::Stage {
                task: task.id.clone(),
            })?;
            for file in slice.documents() {
                let path = Path::new(&self.plan().options.directory).join(file.path);
                let verdict = match document_verdict(&path, file.bytes, file.modified) {
                    Some(verdict) => Err(verdict),
                    None => {
                        client.say_later(&Message::Document {
                            number: file.number,
                            bytes: file.bytes,
                        })?;
                        send_file(client, &path, file.bytes)?.map_err(|_| changed(file.path))
                    }
                };
                if let Err(verdict) = verdict {
                    found = Some(verdict);
                    return client.order(&Message::error(Cause::Failed, String::new()));
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
        if place == HERE {
            return self.here.run(place, slot, task);
        }
        let remote = self.host(place);
        let is_staged = self
            .slice(task)?
            .is_some_and(|slice| !self.shares_documents(remote, &slice));
        let request = Message::Run {
            task: task.id.clone(),
            is_staged,
        };
        let cell = remote.slots.get(slot as usize).unwrap_or(&remote.outbox);
        let answer = remote
            .with(&self.options, &self.here, cell, |client| {
                client.ask(&request)
            })
            .map_err(|fault| trouble(remote, fault))?;
        let Message::Ran {
            code,
            signal,
            said,
            bytes,
        } = answer
        else {
            return Err(Trouble::Lost(format!(
                "{}: something came out of turn",
                remote.host.label()
            )));
        };
        let verdict = self
            .judge(remote, task, code, signal, &said)
            .map_err(|error| Trouble::own(&error))?;
        Ok(Outcome {
            verdict,
            bytes_out: bytes,
        })
    }

    fn leave(&self, place: usize, is_lost: bool) {
        if place == HERE {
            return;
        }
        let (remote, mut is_lost) = (self.host(place), is_lost);
        let (bytes, seconds) = (self.options.cache_bytes, self.options.cache_age.as_secs());
        // The one that removes things is the last: nobody else is at work there then.
        for cell in remote.slots.iter().chain([&remote.outbox, &remote.inbox]) {
            let Some(mut client) = lock(cell).take() else {
                continue;
            };
            if is_lost {
                // Dropped, it is cut.
                continue;
            }
            client.set_limit(self.options.stall.min(LEAVE));
            if std::ptr::eq(cell, &raw const remote.inbox) {
                let _ = client.order(&Message::Prune { bytes, seconds });
            }
            is_lost = client
                .leave()
                .is_err_and(|error| error.kind() == io::ErrorKind::TimedOut);
        }
    }
}

impl Fleet<'_> {
    /// What became of a task. What it said is kept if it did not end well.
    fn judge(
        &self,
        remote: &Remote,
        task: &Task,
        code: Option<i32>,
        signal: Option<i32>,
        said: &str,
    ) -> Result<Verdict, Error> {
        if code == Some(0) {
            return Ok(Verdict::Done);
        }
        let (log, mut file) = log_of(
            &self.here.run,
            &format!("{}@{}", task.id, remote.host.label()),
        )?;
        file.write_all(said.as_bytes())
            .map_err(|error| Error::io(log.display(), error))?;
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
            Some(program) => super::ship::ship(
                self.transport.as_ref(),
                program,
                self.host.dir.as_deref(),
                options.hello,
            )?,
            None => vec![options.program.clone(), "worker".to_owned()],
        };
        let beat = (options.stall / 6).min(Duration::from_secs(5)).as_millis();
        words.push(format!("--beat-ms={beat}"));
        if self.is_shared {
            words.push(format!("--in={}", here.run.display()));
        } else {
            words.push(format!(
                "--run={}-{}",
                here.plan.checksum(),
                owner(&here.run)
            ));
            words.extend(self.host.dir.as_ref().map(|dir| format!("--dir={dir}")));
        }
        Ok(known.insert(words).clone())
    }

    fn connect(&self, options: &FleetOptions, here: &Local<'_>) -> io::Result<Client> {
        let mut last = io::Error::from(io::ErrorKind::NotConnected);
        for rest_ms in CONNECTS_MS {
            // The golden ratio deals them out evenly.
            let attempt = u64::from(self.attempts.fetch_add(1, Ordering::Relaxed));
            thread::sleep(Duration::from_millis(
                rest_ms + rest_ms * (attempt * 618 % 1000) / 1000,
            ));
            match self.connect_once(options, here) {
                Err(error) if is_passing(&error) => last = error,
                client => return client,
            }
        }
        Err(last)
    }

    fn connect_once(&self, options: &FleetOptions, here: &Local<'_>) -> io::Result<Client> {
        let words = self.worker_words(options, here)?;
        let (count, bell) = &self.connects;
        let mut open = lock(count);
        while *open >= MOST_CONNECTS {
            open = bell.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
        *open += 1;
        drop(open);
        let wire = self.transport.spawn(&words, options.hello);
        let client = wire.and_then(|wire| Client::greet(wire, options.hello, options.stall));
        *lock(count) -= 1;
        bell.notify_one();
        client
    }

    fn open<'c>(
        &self,
        options: &FleetOptions,
        here: &Local<'_>,
        cell: &'c mut Option<Client>,
    ) -> Result<&'c mut Client, Fault> {
        if cell.as_ref().is_none_or(Client::is_stale) {
            *cell = None;
            *cell = Some(
                self.connect(options, here)
                    .map_err(|error| match error.kind() {
                        io::ErrorKind::PermissionDenied => {
                            Fault::Told(Cause::Failed, error.to_string())
                        }
                        _ => Fault::Link(error.to_string()),
                    })?,
            );
        }
        cell.as_mut()
            .ok_or_else(|| Fault::Link("there is no connection".to_owned()))
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

/// Tells the run apart from others with the same plan: by this machine and its directory.
fn owner(run: &Path) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!(
        "{:016x}",
        xxh3_64(format!("{}\0{}", host.trim(), run.display()).as_bytes())
    )
}

/// Whether a server may take the next attempt: what OpenSSH does when many come at once.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::Interrupted
    )
}

fn text_of(fault: &Fault) -> String {
    match fault {
        Fault::Link(what)
        | Fault::Told(_, what)
        | Fault::Damaged(what)
        | Fault::Spoilt(_, what) => what.clone(),
        Fault::Own(error) => error.to_string(),
    }
}

/// What a host's failure means for the run.
fn trouble(remote: &Remote, fault: Fault) -> Trouble {
    let what = format!("{}: {}", remote.host.label(), text_of(&fault));
    match fault {
        Fault::Told(Cause::Failed, _) => Trouble::Refused(what),
        // A disk of this machine: there is no elsewhere.
        Fault::Own(error) => Trouble::own(&error),
        Fault::Spoilt(paths, _) => Trouble::Source(paths, what),
        _ => Trouble::Lost(what),
    }
}

/// The same, where something was wanted from it.
fn source_trouble(remote: &Remote, paths: &[String], fault: Fault) -> Trouble {
    let what = format!("{}: {}", remote.host.label(), text_of(&fault));
    match fault {
        Fault::Damaged(_) | Fault::Told(Cause::Source, _) => Trouble::Source(paths.to_vec(), what),
        Fault::Spoilt(paths, _) => Trouble::Source(paths, what),
        Fault::Own(error) => Trouble::own(&error),
        _ => Trouble::From(what),
    }
}

/// Why a document cannot be copied, if so. One that cannot be read is a problem of the task, which then is run here.
fn document_verdict(path: &Path, bytes: u64, modified: i64) -> Option<Trouble> {
    use std::os::unix::fs::MetadataExt;
    let Ok(metadata) = fs::metadata(path) else {
        return Some(Trouble::Here);
    };
    let now = metadata
        .mtime()
        .saturating_mul(1_000_000_000)
        .saturating_add(metadata.mtime_nsec());
    let is_same = metadata.len() == bytes && now == modified;
    (!is_same || fs::File::open(path).is_err()).then_some(Trouble::Here)
}

fn changed(path: &Path) -> Trouble {
    Trouble::Failed(format!(
        "{}: changed while it was read; plan anew",
        path.display()
    ))
}
