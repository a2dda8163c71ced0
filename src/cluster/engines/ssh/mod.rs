//! The engine `ssh`: the hosts of the plan run the tasks; central tasks run on this machine.

mod host;
mod transfers;
mod verdicts;

pub use host::SshEngineOptions;

use super::{
    Engine, EngineSetup, Failure, LocalMachine, RunObserver, RunOptions, RunOutcome, Verdict,
};
use crate::{
    base::{
        error::{Error, Result},
        num::{ToU64, ToUsize},
        parallel::lock,
    },
    cluster::{
        plan::{Host, PLAN_FILE, Plan, Task},
        remote::Transport,
        run::{
            gather::gather_needs,
            output_state::has_file,
            programs::{lacks, programs_of},
        },
        scheduler::{
            Accepts, Inventory, LOCAL, Machine, MachineError, Machines, TaskOutcome, Transferred,
            run_on_machines,
        },
        worker::{Client, Conversation, ErrorCause, Message, TransferError, send_extent},
    },
    text::corpus::NeededProgram,
};
use host::{ClientCell, SshHost, target_error, text_of};
use std::{
    collections::{BTreeSet, HashSet},
    path::Path,
    sync::{Mutex, atomic::AtomicU32},
    thread,
    time::Duration,
};
use verdicts::{changed, document_verdict};

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
    /// Hosts connect to each other.
    is_direct: bool,
    /// This machine collects what map tasks make, and hands it out.
    is_hub: bool,
    /// The programs that every host must have.
    required: Mutex<Vec<NeededProgram>>,
    /// Held while files are written to the directory of the run.
    writing: Mutex<()>,
    /// The pairs of hosts that have connected to each other, the lower number first.
    acquainted: Mutex<HashSet<(usize, usize)>>,
}

/// How long a host is not asked again to connect to another that it could not reach.
const DETOUR: Duration = Duration::from_secs(300);
/// How long a worker may take to say goodbye, unless [`SshEngineOptions::stall`] is shorter.
const LEAVE: Duration = Duration::from_secs(15);

/// As many hosts connect to each other in any case.
const FEW_HOSTS: u64 = 8;
/// What a pair of hosts must have for each other, so that a connection is worth its login.
const LEAST_PAIR_BYTES: u64 = 4 << 20;
/// The most that this machine collects and hands out.
const MOST_COLLECTED_BYTES: u64 = 1 << 30;

/// Whether hosts have so much for each other that each pair should have a connection. Sorted
/// postings are about as large as the documents.
fn are_connections_worth(plan: &Plan) -> bool {
    let hosts = plan.hosts.len().to_u64();
    let bytes: u64 = plan.slices.iter().map(|slice| slice.bytes).sum();
    hosts <= FEW_HOSTS
        || bytes > MOST_COLLECTED_BYTES
        || bytes / (hosts * (hosts - 1) / 2) >= LEAST_PAIR_BYTES
}

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
            directory: Mutex::new(None),
            link: Mutex::default(),
            inbox: ClientCell::default(),
            outbox: ClientCell::default(),
            slots: (0..host.slots).map(|_| ClientCell::default()).collect(),
            unreached: Mutex::default(),
            connects: Default::default(),
            attempts: AtomicU32::new(0),
        };
        let hosts: Vec<SshHost> = here.plan.hosts.iter().zip(transports).map(host).collect();
        let are_connections_worth = are_connections_worth(here.plan);
        Self {
            is_direct: are_connections_worth && options.peer_rsh.is_some(),
            is_hub: !are_connections_worth,
            here,
            hosts,
            options,
            required: Mutex::default(),
            writing: Mutex::new(()),
            acquainted: Mutex::default(),
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
            *lock(&remote.inbox) = None;
            if let Some(link) = lock(&remote.link).take() {
                link.finish()?;
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
}

impl Machines for SshHosts<'_> {
    fn is_hub(&self) -> bool {
        self.is_hub
    }

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
                return Ok((0, (Vec::new(), None)));
            }
            Ok((
                client.put(&self.shelves(&[PLAN_FILE.to_owned()])?)?,
                client.inventory()?,
            ))
        };
        let (moved, (paths, directory)) = remote
            .with(&self.options, &self.here, &remote.inbox, open)
            .map_err(|fault| target_error(remote, fault))?;
        lock(&remote.directory).clone_from(&directory);
        Ok(Inventory {
            paths,
            damaged: Vec::new(),
            directory,
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
                        let extents = file.part.map(|part| part.extents.clone());
                        client.queue_message(&Message::Document {
                            number: file.number,
                            bytes: file.bytes,
                            extents: extents.clone().unwrap_or_default(),
                        })?;
                        let of_file = vec![[0, file.bytes]];
                        let mut sent = Ok(());
                        for [start, end] in extents.unwrap_or(of_file) {
                            if sent.is_ok() {
                                sent = send_extent(client, &path, start..end)?;
                            }
                        }
                        sent.map_err(|_| changed(file.path))
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
        let remote = self.host(machine);
        let (bytes, seconds) = (self.options.cache_bytes, self.options.cache_age.as_secs());
        for cell in remote.slots.iter().chain([&remote.outbox]) {
            *lock(cell) = None;
        }
        let (client, link) = (lock(&remote.inbox).take(), lock(&remote.link).take());
        // Dropping a link closes the connection.
        if let Some(link) = link.filter(|_| !is_lost) {
            link.set_limit(self.options.stall.min(LEAVE));
            // No task is running any more.
            if let Some(mut client) = client {
                let _ = client.order(&Message::Prune { bytes, seconds });
            }
            let _ = link.finish();
        }
    }
}
