//! A host of a run and the connection to its worker. It carries a conversation for each slot, one
//! for what the host receives, and one for what it sends.

use crate::base::parallel::lock;
use crate::cluster::{
    engines::{LocalMachine, ship_program::ship},
    plan::Host,
    remote::Transport,
    scheduler::MachineError,
    worker::{Client, ErrorCause, Link, TransferError, connect_patiently},
};
use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Condvar, Mutex, PoisonError, atomic::AtomicU32},
    time::{Duration, Instant},
};
use xxhash_rust::xxh3::xxh3_64;

/// How workers are started and supervised.
#[derive(Debug, Clone)]
pub struct SshEngineOptions {
    /// The path of dedup-shard on the hosts.
    pub program: String,
    /// Copy this program to the hosts instead.
    pub ship: Option<PathBuf>,
    /// The command by which hosts connect to each other, if they may.
    pub peer_rsh: Option<Vec<String>>,
    /// The time until the first line of a worker.
    pub hello: Duration,
    /// The longest silence of a worker.
    pub stall: Duration,
    /// The size of the cache of a host.
    pub cache_bytes: u64,
    /// How long unused files stay in the cache of a host.
    pub cache_age: Duration,
}

pub(super) type ClientCell = Mutex<Option<Client>>;

pub(super) struct SshHost {
    pub(super) host: Host,
    pub(super) transport: Box<dyn Transport>,
    /// The host works in the directory of the run.
    pub(super) is_shared: bool,
    /// The worker and its arguments.
    pub(super) worker: Mutex<Option<Vec<String>>>,
    /// The mark of the directory where it keeps files, once it is connected.
    pub(super) directory: Mutex<Option<String>>,
    pub(super) link: Mutex<Option<Link>>,
    pub(super) inbox: ClientCell,
    pub(super) outbox: ClientCell,
    pub(super) slots: Vec<ClientCell>,
    /// The machines that it could not reach, and when.
    pub(super) unreached: Mutex<HashMap<usize, Instant>>,
    /// The number of connections that are being opened, and a signal for when one is open.
    pub(super) connects: (Mutex<usize>, Condvar),
    /// The number of attempts, to spread repeated attempts over time.
    pub(super) attempts: AtomicU32,
}

/// The most connections to one host that are opened at a time: OpenSSH may refuse the eleventh.
const MOST_CONNECTS: usize = 8;

impl SshHost {
    /// The name of the directory of its files of the run.
    pub(super) fn run_name(&self, here: &LocalMachine<'_>) -> String {
        format!("{}-{}", here.plan.checksum(), owner(&here.run, &self.host))
    }

    /// Whether it keeps files in the same directory as another host: they have one home.
    pub(super) fn shares_directory(&self, other: &Self) -> bool {
        let own = lock(&self.directory).clone();
        own.is_some() && own == *lock(&other.directory)
    }

    /// The command that starts a worker on the host.
    pub(super) fn worker_words(
        &self,
        options: &SshEngineOptions,
        here: &LocalMachine<'_>,
    ) -> io::Result<Vec<String>> {
        let mut known = lock(&self.worker);
        if let Some(words) = &*known {
            return Ok(words.clone());
        }
        let mut words = match &options.ship {
            Some(program) => ship(
                self.transport.as_ref(),
                program,
                self.host.dir.as_deref(),
                options.hello,
            )?,
            None => vec![options.program.clone(), "worker".to_owned()],
        };
        let beat = (options.stall / 6).min(Duration::from_secs(5)).as_millis();
        words.push(format!("--beat-ms={beat}"));
        if self.host.nice > 0 {
            words.push(format!("--nice={}", self.host.nice));
        }
        if self.is_shared {
            words.push(format!("--in={}", here.run.display()));
        } else {
            words.push(format!("--run={}", self.run_name(here)));
            words.extend(self.host.dir.as_ref().map(|dir| format!("--dir={dir}")));
        }
        Ok(known.insert(words).clone())
    }

    fn connect(&self, options: &SshEngineOptions, here: &LocalMachine<'_>) -> io::Result<Link> {
        connect_patiently(&self.attempts, || {
            let words = self.worker_words(options, here)?;
            self.while_connecting(|| {
                let connection = self.transport.spawn(&words, options.hello)?;
                Link::greet(connection, options.hello, options.stall)
            })
        })
    }

    /// Opens a connection to this host while few others are being opened.
    pub(super) fn while_connecting<T>(&self, connect: impl FnOnce() -> T) -> T {
        let (count, changed) = &self.connects;
        let mut open = lock(count);
        while *open >= MOST_CONNECTS {
            open = changed.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
        *open += 1;
        drop(open);
        let connected = connect();
        *lock(count) -= 1;
        changed.notify_one();
        connected
    }

    /// Starts a conversation, after connecting if need be.
    pub(super) fn open<'c>(
        &self,
        options: &SshEngineOptions,
        here: &LocalMachine<'_>,
        cell: &'c mut Option<Client>,
    ) -> Result<&'c mut Client, TransferError> {
        if cell.is_none() {
            let mut link = lock(&self.link);
            if link.as_ref().is_none_or(|link| !link.is_alive()) {
                *link = None;
                *link = Some(
                    self.connect(options, here)
                        .map_err(|error| match error.kind() {
                            io::ErrorKind::PermissionDenied => {
                                TransferError::Reported(ErrorCause::Failed, error.to_string())
                            }
                            _ => TransferError::Disconnected(error.to_string()),
                        })?,
                );
            }
            *cell = link.as_ref().map(Client::new);
        }
        cell.as_mut()
            .ok_or_else(|| TransferError::Disconnected("there is no connection".to_owned()))
    }

    /// Calls `talk` with a conversation with the worker. One that broke is not used again.
    pub(super) fn with<T>(
        &self,
        options: &SshEngineOptions,
        here: &LocalMachine<'_>,
        cell: &ClientCell,
        talk: impl FnOnce(&mut Client) -> Result<T, TransferError>,
    ) -> Result<T, TransferError> {
        let mut cell = lock(cell);
        let done = talk(self.open(options, here, &mut cell)?);
        if matches!(done, Err(TransferError::Disconnected(_))) {
            *cell = None;
        }
        done
    }
}

/// Distinguishes the files of a host from those of other runs with the same plan, by this machine
/// and its directory, and from those of other hosts: hosts may share a home.
fn owner(run: &Path, host: &Host) -> String {
    let here = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let names = format!("{}\0{}\0{}", here.trim(), run.display(), host.label());
    format!("{:016x}", xxh3_64(names.as_bytes()))
}

pub(super) fn text_of(fault: &TransferError) -> String {
    match fault {
        TransferError::Disconnected(what)
        | TransferError::Reported(_, what)
        | TransferError::Damaged(what)
        | TransferError::DamagedFiles(_, what) => what.clone(),
        TransferError::Local(error) => error.to_string(),
    }
}

/// What the failure of a host means for the run.
pub(super) fn target_error(remote: &SshHost, fault: TransferError) -> MachineError {
    let what = format!("{}: {}", remote.host.label(), text_of(&fault));
    match fault {
        TransferError::Reported(ErrorCause::Failed, _) => MachineError::Refused(what),
        // The disk of this machine failed: no other machine can help.
        TransferError::Local(error) => MachineError::local(&error),
        TransferError::DamagedFiles(paths, _) => MachineError::SourceDamaged(paths, what),
        _ => MachineError::Lost(what),
    }
}

/// The same for a host that was to send files.
pub(super) fn source_error(
    remote: &SshHost,
    paths: &[String],
    fault: TransferError,
) -> MachineError {
    let what = format!("{}: {}", remote.host.label(), text_of(&fault));
    match fault {
        TransferError::Damaged(_) | TransferError::Reported(ErrorCause::Source, _) => {
            MachineError::SourceDamaged(paths.to_vec(), what)
        }
        TransferError::DamagedFiles(paths, _) => MachineError::SourceDamaged(paths, what),
        TransferError::Local(error) => MachineError::local(&error),
        _ => MachineError::SourceLost(what),
    }
}
