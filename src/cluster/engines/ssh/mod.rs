//! The engine `ssh`: the hosts of the plan run the tasks; central tasks run on this machine.

mod host;

pub use host::SshEngineOptions;

use super::{
    Engine, EngineSetup, Failure, LocalMachine, RunObserver, RunOptions, RunOutcome, Verdict,
    open_log,
};
use crate::{
    base::{
        error::{Error, Result},
        num::ToUsize,
    },
    cluster::{
        EXIT_LOST,
        plan::{Host, PLAN_FILE, Plan, Task, TaskKind},
        remote::{Address, Transport},
        run::{
            gather::gather_needs,
            output_state::has_file,
            programs::{lacks, programs_of},
        },
        scheduler::{
            Accepts, Inventory, LOCAL, Machine, MachineError, Machines, TaskOutcome, Transferred,
            run_on_machines,
        },
        worker::{
            Client, Conversation, ErrorCause, Message, Peer, TransferError, relay, remove,
            send_file,
        },
    },
    commands::{BUILD_RECORD, BuildRecord, PARTIAL_BUILD_RECORD},
    text::corpus::{CorpusSlice, NeededProgram},
};
use host::{ClientCell, SshHost, lock, source_error, target_error, text_of};
use std::{
    collections::BTreeSet,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    slice,
    sync::{Mutex, atomic::AtomicU32},
    thread,
    time::{Duration, Instant},
};

/// How the hosts of a plan are reached.
pub struct SshSetup {
    /// How workers are started and supervised.
    pub options: SshEngineOptions,
    /// One transport for each host of the plan.
    pub transports: Vec<Box<dyn Transport>>,
}

/// Makes the engine for a run.
pub fn build(mut setup: EngineSetup<'_>) -> Result<Box<dyn Engine + '_>> {
    let Some(hosts) = setup.ssh.take() else {
        return Err(Error::Usage(
            "the engine ssh needs a transport for each host".to_owned(),
        ));
    };
    Ok(Box::new(SshEngine::new(
        setup.local_machine(),
        setup.options,
        hosts,
    )))
}

/// Runs tasks on the hosts of a plan, over SSH.
pub struct SshEngine<'p> {
    hosts: SshHosts<'p>,
    options: RunOptions,
}

impl<'p> SshEngine<'p> {
    /// `local` runs the central tasks.
    pub fn new(local: LocalMachine<'p>, options: RunOptions, hosts: SshSetup) -> Self {
        Self {
            hosts: SshHosts::new(local, hosts.options, hosts.transports),
            options,
        }
    }
}

impl Engine for SshEngine<'_> {
    fn run(&self, observer: &mut dyn RunObserver) -> Result<RunOutcome> {
        let LocalMachine { plan, run, .. } = &self.hosts.here;
        let failures = self.hosts.check_programs(observer);
        if !failures.is_empty() {
            return Ok(RunOutcome::Failed(failures));
        }
        run_on_machines(plan, run, &self.hosts, self.options, observer)
    }

    fn clean(&self) -> Vec<String> {
        self.hosts.clean()
    }
}

/// All hosts of a run, and this machine for central tasks.
struct SshHosts<'p> {
    here: LocalMachine<'p>,
    hosts: Vec<SshHost>,
    options: SshEngineOptions,
    /// The programs that every host must have.
    required: Mutex<Vec<NeededProgram>>,
    /// Held while files are written to the directory of the run.
    writing: Mutex<()>,
}

/// How long a host is not asked again to connect to another that it could not reach.
const DETOUR: Duration = Duration::from_secs(300);
/// How long a worker may take to say goodbye, unless [`SshEngineOptions::stall`] is shorter.
const LEAVE: Duration = Duration::from_secs(15);

impl<'p> SshHosts<'p> {
    /// `here` runs the central tasks; `transports`: one for each host of its plan.
    pub fn new(
        here: LocalMachine<'p>,
        options: SshEngineOptions,
        transports: Vec<Box<dyn Transport>>,
    ) -> Self {
        let host = |(host, transport): (&Host, Box<dyn Transport>)| SshHost {
            host: host.clone(),
            transport,
            is_shared: host
                .shared
                .as_ref()
                .is_some_and(|shared| here.run.starts_with(shared)),
            worker: Mutex::new(None),
            inbox: ClientCell::default(),
            outbox: ClientCell::default(),
            slots: (0..host.slots).map(|_| ClientCell::default()).collect(),
            unreached: Mutex::default(),
            connects: Default::default(),
            attempts: AtomicU32::new(0),
        };
        let hosts = here.plan.hosts.iter().zip(transports).map(host).collect();
        Self {
            here,
            hosts,
            options,
            required: Mutex::default(),
            writing: Mutex::new(()),
        }
    }

    /// Asks all hosts for the programs that documents need. A host that lacks one which another has
    /// is a failure: the index would depend on which host read which file. A program that none has
    /// is a warning: the same files are left out everywhere.
    fn check_programs(&self, observer: &mut dyn RunObserver) -> Vec<Failure> {
        let needed = programs_of(self.plan(), &self.here.run);
        if needed.is_empty() {
            return Vec::new();
        }
        let names: Vec<String> = needed.iter().map(|it| it.program.clone()).collect();
        let ask = |remote: &SshHost| {
            // A host that cannot be reached now is asked when it connects.
            remote
                .with(&self.options, &self.here, &remote.inbox, |client| {
                    client.lacking_programs(&names)
                })
                .ok()
        };
        let answers: Vec<Option<Vec<String>>> = thread::scope(|scope| {
            let asked: Vec<_> = self
                .hosts
                .iter()
                .map(|remote| scope.spawn(move || ask(remote)))
                .collect();
            let answer = |asked: thread::ScopedJoinHandle<'_, _>| asked.join().ok().flatten();
            asked.into_iter().map(answer).collect()
        });
        let answers = self.hosts.iter().zip(answers);
        let answers: Vec<_> = answers
            .filter_map(|(remote, lacking)| Some((remote, lacking?)))
            .collect();
        let mut failures = Vec::new();
        for needed in needed {
            let lacking = |(_, names): &&(&SshHost, Vec<String>)| names.contains(&needed.program);
            let hosts: Vec<_> = answers.iter().filter(lacking).collect();
            let messages = hosts
                .iter()
                .map(|(remote, _)| format!("{}: {}", remote.host.label(), lacks(&needed)));
            if !answers.is_empty() && hosts.len() == answers.len() {
                messages.for_each(|what| observer.warning(&what));
                continue;
            }
            failures.extend(messages.map(|what| Failure {
                task: "run".to_owned(),
                verdict: Verdict::Failed(what),
            }));
            lock(&self.required).push(needed);
        }
        failures
    }

    /// Refuses a host that came later, and lacks what others have.
    fn ensure_programs(&self, client: &mut Client) -> Result<(), TransferError> {
        let required = lock(&self.required).clone();
        if required.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = required.iter().map(|it| it.program.clone()).collect();
        let lacking = client.lacking_programs(&names)?;
        match required.iter().find(|it| lacking.contains(&it.program)) {
            None => Ok(()),
            Some(needed) => Err(TransferError::Reported(ErrorCause::Failed, lacks(needed))),
        }
    }

    fn plan(&self) -> &'p Plan {
        self.here.plan
    }

    fn host(&self, machine: usize) -> &SshHost {
        &self.hosts[machine - 1]
    }

    /// Removes the files of the run from each host. Returns the hosts that could not be reached,
    /// and why.
    pub fn clean(&self) -> Vec<String> {
        let clean = |remote: &SshHost| {
            remote.with(&self.options, &self.here, &remote.inbox, |client| {
                client.order(&Message::Clean)
            })?;
            if let Some(client) = lock(&remote.inbox).take() {
                client.disconnect()?;
            }
            Ok::<_, TransferError>(())
        };
        let failed = |remote: &SshHost| {
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

    /// Copies paths from a host to the directory of the run, with the record of their output, so
    /// that they can be verified later.
    fn fetch_to_run(&self, from: usize, paths: &[String]) -> Result<u64, MachineError> {
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
                    .map_err(|fault| source_error(remote, slice::from_ref(path), fault))?
                    .0;
            }
            let output = maker.map(|task| self.here.run.join(&task.output));
            output
                .map_or(Ok(()), |output| BuildRecord::settle(&output))
                .map_err(|error| target_error(remote, TransferError::Local(error)))?;
        }
        Ok(sum)
    }

    /// Where a path of the run is received. The record of an output has another name until all of
    /// its files are here.
    fn target_here(&self, path: &str) -> PathBuf {
        let target = self.here.run.join(path);
        if target.file_name().is_some_and(|name| name == BUILD_RECORD) && !target.exists() {
            target.with_file_name(PARTIAL_BUILD_RECORD)
        } else {
            target
        }
    }

    /// Copies paths of the run to a host.
    fn send_to_host(&self, to: usize, paths: &[String]) -> Result<u64, MachineError> {
        let remote = self.host(to);
        let put = |client: &mut Client| {
            paths.iter().try_fold(0, |sum, path| {
                Ok(sum + client.put(path, self.plan().is_kept(path), &self.here.run.join(path))?)
            })
        };
        remote
            .with(&self.options, &self.here, &remote.inbox, put)
            .map_err(|fault| target_error(remote, fault))
    }

    /// Copies paths from host to host, directly or through this machine.
    fn transfer_between(
        &self,
        to: usize,
        from: usize,
        paths: &[String],
    ) -> Result<Transferred, MachineError> {
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
            let worker = worker.map_err(|error| target_error(source, error.into()))?;
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
                    return Ok(Transferred {
                        bytes,
                        is_direct: true,
                        detour: None,
                    });
                }
                Err(TransferError::Reported(ErrorCause::Peer, what)) => {
                    // It is reported once.
                    if lock(&target.unreached)
                        .insert(from, Instant::now())
                        .is_none()
                    {
                        detour = Some(format!("{} does not reach {what}", target.host.label()));
                    }
                }
                Err(
                    fault @ (TransferError::Reported(ErrorCause::Source, _)
                    | TransferError::DamagedFiles(..)),
                ) => {
                    return Err(source_error(source, paths, fault));
                }
                Err(fault) => return Err(target_error(target, fault)),
            }
        }
        let bytes = paths.iter().try_fold(0, |sum, path| {
            Ok(sum + self.relay_through_here(target, source, path)?)
        })?;
        Ok(Transferred {
            bytes,
            is_direct: false,
            detour,
        })
    }

    fn relay_through_here(
        &self,
        target: &SshHost,
        source: &SshHost,
        path: &str,
    ) -> Result<u64, MachineError> {
        let (mut inbox, mut outbox) = (lock(&target.inbox), lock(&source.outbox));
        let to = target
            .open(&self.options, &self.here, &mut inbox)
            .map_err(|fault| target_error(target, fault))?;
        let from = source
            .open(&self.options, &self.here, &mut outbox)
            .map_err(|fault| source_error(source, &[path.to_owned()], fault))?;
        relay(from, to, path, self.plan().is_kept(path)).map_err(|(is_source, fault)| {
            if matches!(
                fault,
                TransferError::Disconnected(_) | TransferError::Local(_)
            ) {
                (*inbox, *outbox) = (None, None);
            }
            if is_source {
                source_error(source, &[path.to_owned()], fault)
            } else {
                target_error(target, fault)
            }
        })
    }

    /// Whether a host reads the documents of a task in place.
    fn shares_documents(&self, remote: &SshHost, slice: &CorpusSlice) -> bool {
        let directory = Path::new(&self.plan().options.directory);
        let shared = remote.host.shared.as_ref().filter(|_| remote.is_shared);
        shared.is_some_and(|shared| {
            slice
                .documents()
                .all(|file| directory.join(file.path).starts_with(shared))
        })
    }

    fn slice(&self, task: &Task) -> Result<Option<CorpusSlice>, MachineError> {
        let input = task.inputs.first().filter(|_| task.kind() == TaskKind::Map);
        let open = |input: &String| {
            CorpusSlice::open(&self.here.run.join(input))
                .map_err(|error| MachineError::Failed(error.to_string()))
        };
        input.map(open).transpose()
    }
}

impl Machines for SshHosts<'_> {
    fn list(&self) -> Vec<Machine> {
        let here = Machine {
            name: "here".to_owned(),
            slots: 1,
            accepts: Accepts::Central,
            is_shared: true,
        };
        let host = |remote: &SshHost| Machine {
            name: remote.host.label(),
            slots: remote.host.slots,
            accepts: Accepts::Distributed,
            is_shared: remote.is_shared,
        };
        [here]
            .into_iter()
            .chain(self.hosts.iter().map(host))
            .collect()
    }

    fn connect(&self, machine: usize) -> Result<Inventory, MachineError> {
        if machine == LOCAL {
            let mut inventory = self.here.inventory();
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
        let remote = self.host(machine);
        let open = |client: &mut Client| {
            self.ensure_programs(client)?;
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
            .map_err(|fault| target_error(remote, fault))?;
        Ok(Inventory {
            paths,
            damaged: Vec::new(),
            moved,
        })
    }

    fn transfer(
        &self,
        to: usize,
        from: usize,
        paths: &[String],
    ) -> Result<Transferred, MachineError> {
        let bytes = match (to, from) {
            (LOCAL, LOCAL) => 0,
            (LOCAL, from) => self.fetch_to_run(from, paths)?,
            (to, LOCAL) => self.send_to_host(to, paths)?,
            (to, from) => return self.transfer_between(to, from, paths),
        };
        Ok(Transferred::of(bytes))
    }

    fn stage(&self, machine: usize, task: &Task) -> Result<u64, MachineError> {
        if machine == LOCAL {
            return Ok(0);
        }
        let (remote, Some(slice)) = (self.host(machine), self.slice(task)?) else {
            return Ok(0);
        };
        if self.shares_documents(remote, &slice) {
            return Ok(0);
        }
        let mut found = None;
        let sent = remote.with(&self.options, &self.here, &remote.inbox, |client| {
            client.send_message(&Message::Stage {
                task: task.id.clone(),
            })?;
            for file in slice.documents() {
                let path = Path::new(&self.plan().options.directory).join(file.path);
                let verdict = match document_verdict(&path, file.bytes, file.modified) {
                    Some(verdict) => Err(verdict),
                    None => {
                        client.queue_message(&Message::Document {
                            number: file.number,
                            bytes: file.bytes,
                        })?;
                        send_file(client, &path, file.bytes)?.map_err(|_| changed(file.path))
                    }
                };
                if let Err(verdict) = verdict {
                    found = Some(verdict);
                    return client.order(&Message::error(ErrorCause::Failed, String::new()));
                }
            }
            client.order(&Message::End)
        });
        match found {
            Some(verdict) => Err(verdict),
            None => sent.map_err(|fault| target_error(remote, fault)),
        }
    }

    fn run(&self, machine: usize, slot: u32, task: &Task) -> Result<TaskOutcome, MachineError> {
        if machine == LOCAL {
            return self.here.run(machine, slot, task);
        }
        let remote = self.host(machine);
        let is_staged = self
            .slice(task)?
            .is_some_and(|slice| !self.shares_documents(remote, &slice));
        let request = Message::Run {
            task: task.id.clone(),
            is_staged,
        };
        let cell = remote.slots.get(slot.to_usize()).unwrap_or(&remote.outbox);
        let answer = remote
            .with(&self.options, &self.here, cell, |client| {
                client.ask(&request)
            })
            .map_err(|fault| target_error(remote, fault))?;
        let Message::Ran {
            code,
            signal,
            log_end,
            bytes,
        } = answer
        else {
            return Err(MachineError::Lost(format!(
                "{}: something came out of turn",
                remote.host.label()
            )));
        };
        let verdict = self
            .verdict_of(remote, task, code, signal, &log_end)
            .map_err(|error| MachineError::local(&error))?;
        Ok(TaskOutcome {
            verdict,
            bytes_out: bytes,
        })
    }

    fn disconnect(&self, machine: usize, is_lost: bool) {
        if machine == LOCAL {
            return;
        }
        let (remote, mut is_lost) = (self.host(machine), is_lost);
        let (bytes, seconds) = (self.options.cache_bytes, self.options.cache_age.as_secs());
        // The connection that removes files is the last: no other worker is running then.
        for cell in remote.slots.iter().chain([&remote.outbox, &remote.inbox]) {
            let Some(mut client) = lock(cell).take() else {
                continue;
            };
            if is_lost {
                // Dropping it closes the connection.
                continue;
            }
            client.set_limit(self.options.stall.min(LEAVE));
            if std::ptr::eq(cell, &raw const remote.inbox) {
                let _ = client.order(&Message::Prune { bytes, seconds });
            }
            is_lost = client
                .disconnect()
                .is_err_and(|error| error.kind() == io::ErrorKind::TimedOut);
        }
    }
}

impl SshHosts<'_> {
    /// Judges a task by its exit status. The log is kept if it did not succeed.
    fn verdict_of(
        &self,
        remote: &SshHost,
        task: &Task,
        code: Option<i32>,
        signal: Option<i32>,
        log_end: &str,
    ) -> Result<Verdict, Error> {
        if code == Some(0) {
            return Ok(Verdict::Done);
        }
        let (log, mut file) = open_log(
            &self.here.run,
            &format!("{}@{}", task.id, remote.host.label()),
        )?;
        file.write_all(log_end.as_bytes())
            .map_err(|error| Error::io(log.display(), error))?;
        let last = log_end.lines().last().unwrap_or("it said nothing");
        let what = format!("on {}: {last}; see {}", remote.host.label(), log.display());
        Ok(match (code, signal) {
            (Some(code), _) if code != i32::from(EXIT_LOST) => Verdict::Failed(what),
            (None, Some(signal)) => Verdict::Lost(format!("killed by signal {signal} {what}")),
            _ => Verdict::Lost(what),
        })
    }
}

/// Why a document cannot be sent, if so. If it has changed or cannot be read, the task runs on this
/// machine and reports it.
fn document_verdict(path: &Path, bytes: u64, modified: i64) -> Option<MachineError> {
    use std::os::unix::fs::MetadataExt;
    let Ok(metadata) = fs::metadata(path) else {
        return Some(MachineError::CentralOnly);
    };
    let now = metadata
        .mtime()
        .saturating_mul(1_000_000_000)
        .saturating_add(metadata.mtime_nsec());
    let is_same = metadata.len() == bytes && now == modified;
    (!is_same || fs::File::open(path).is_err()).then_some(MachineError::CentralOnly)
}

fn changed(path: &Path) -> MachineError {
    MachineError::Failed(format!(
        "{}: changed while it was read; plan anew",
        path.display()
    ))
}
