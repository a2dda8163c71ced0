//! Copies files between hosts and the directory of the run.

use super::{
    DETOUR, SshHosts,
    host::{SshHost, source_error, target_error},
};
use crate::{
    base::{error::Result, parallel::lock},
    cluster::{
        plan::{PLAN_FILE, Task, TaskKind},
        remote::Address,
        scheduler::{MachineError, Transferred},
        worker::{
            Client, ErrorCause, Message, Parcel, Peer, Shelf, TransferError, list, relay, remove,
        },
    },
    commands::{BUILD_RECORD, BuildRecord, PARTIAL_BUILD_RECORD},
    text::corpus::CorpusSlice,
};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Instant,
};

/// The most paths that are sent in one go: their list is one message.
const MOST_PARCELS: usize = 64;

impl SshHosts<'_> {
    /// Copies paths from a host to the directory of the run, with the records of their outputs, so
    /// that they can be verified later.
    pub(super) fn fetch_to_run(&self, from: usize, paths: &[String]) -> Result<u64, MachineError> {
        let _writing = lock(&self.writing);
        let batches = paths.chunks(MOST_PARCELS);
        batches.map(|paths| self.fetch_batch(from, paths)).sum()
    }

    fn fetch_batch(&self, from: usize, paths: &[String]) -> Result<u64, MachineError> {
        let remote = self.host(from);
        let makers: Vec<&Task> = paths
            .iter()
            .filter_map(|path| self.plan().maker(path))
            .collect();
        // Parts stay on the host for later runs.
        let keep = makers.iter().any(|task| task.kind() == TaskKind::Part);
        let outputs: BTreeSet<&String> = makers.iter().map(|task| &task.output).collect();
        let records = outputs
            .iter()
            .filter(|output| !paths.contains(**output))
            .map(|output| format!("{output}/{BUILD_RECORD}"))
            .filter(|record| !paths.contains(record) && !self.target_here(record).exists());
        let wanted: Vec<String> = records.chain(paths.iter().cloned()).collect();
        let targets: Vec<PathBuf> = wanted.iter().map(|path| self.target_here(path)).collect();
        let get = |client: &mut Client| {
            targets.iter().try_for_each(|target| remove(target))?;
            client.get(&wanted, &targets, keep, None)
        };
        let (bytes, _) = remote
            .with(&self.options, &self.here, &remote.outbox, get)
            .map_err(|fault| source_error(remote, &wanted, fault))?;
        for output in outputs {
            BuildRecord::settle(&self.here.run.join(output))
                .map_err(|error| target_error(remote, TransferError::Local(error)))?;
        }
        Ok(bytes)
    }

    /// Paths of the run, with their files.
    pub(super) fn shelves(&self, paths: &[String]) -> Result<Vec<Shelf>, TransferError> {
        let shelf = |path: &String| {
            let root = self.here.run.join(path);
            let parcel = Parcel {
                path: path.clone(),
                items: list(&root)?,
                keep: path != PLAN_FILE && self.plan().is_kept(path),
            };
            Ok(Shelf { root, parcel })
        };
        paths.iter().map(shelf).collect()
    }

    /// Where a path of the run is received. The record of an output has another name until all of
    /// its files are here.
    pub(super) fn target_here(&self, path: &str) -> PathBuf {
        let target = self.here.run.join(path);
        if target.file_name().is_some_and(|name| name == BUILD_RECORD) && !target.exists() {
            target.with_file_name(PARTIAL_BUILD_RECORD)
        } else {
            target
        }
    }

    /// Copies paths of the run to a host.
    pub(super) fn send_to_host(&self, to: usize, paths: &[String]) -> Result<u64, MachineError> {
        let remote = self.host(to);
        let put = |client: &mut Client| {
            let batches = paths.chunks(MOST_PARCELS);
            batches.map(|paths| client.put(&self.shelves(paths)?)).sum()
        };
        let sent = remote.with(&self.options, &self.here, &remote.inbox, put);
        sent.map_err(|fault| match fault {
            // They were whole when they were sent.
            TransferError::DamagedFiles(_, what) => {
                target_error(remote, TransferError::Damaged(what))
            }
            fault => target_error(remote, fault),
        })
    }

    /// Copies paths from host to host, directly or through this machine.
    pub(super) fn transfer_between(
        &self,
        to: usize,
        from: usize,
        paths: &[String],
    ) -> Result<Transferred, MachineError> {
        let (target, source) = (self.host(to), self.host(from));
        let keep = paths.iter().all(|path| self.plan().is_kept(path));
        if target.shares_directory(source)
            && let Some(linked) = self.link_between(target, source, paths, keep)
        {
            return linked;
        }
        let mut detour = None;
        if self.is_direct && !self.is_unreached(to, from) {
            match self.transfer_directly(to, from, paths, keep) {
                Err(TransferError::Reported(ErrorCause::Peer, what)) => {
                    detour = self.note_unreached(to, from, &what);
                }
                transferred => {
                    let bytes = transferred.map_err(|fault| self.blame(to, from, paths, fault))?;
                    return Ok(Transferred {
                        bytes,
                        is_direct: true,
                        detour: None,
                    });
                }
            }
        }
        let batches = paths.chunks(MOST_PARCELS);
        let bytes = batches.map(|paths| self.relay_through_here(target, source, paths));
        Ok(Transferred {
            bytes: bytes.sum::<Result<u64, _>>()?,
            is_direct: false,
            detour,
        })
    }

    /// Of two hosts, the one that connects to the other, and the other. There is one connection for
    /// both directions.
    fn caller_and_callee(to: usize, from: usize) -> (usize, usize) {
        (to.min(from), to.max(from))
    }

    fn transfer_directly(
        &self,
        to: usize,
        from: usize,
        paths: &[String],
        keep: bool,
    ) -> Result<u64, TransferError> {
        let (caller, callee) = Self::caller_and_callee(to, from);
        let (calling, called) = (self.host(caller), self.host(callee));
        let worker = called.worker_words(&self.options, &self.here)?;
        let Address { name, user, port } = called.host.address();
        let peer = Peer {
            name,
            user,
            port,
            rsh: self.options.peer_rsh.clone().unwrap_or_default(),
            worker,
        };
        // What a host receives and what it sends does not wait for each other.
        let cell = if caller == to {
            &calling.inbox
        } else {
            &calling.outbox
        };
        let order = |message: &Message| {
            calling.with(&self.options, &self.here, cell, |client| {
                client.order(message)
            })
        };
        if !lock(&self.acquainted).contains(&(caller, callee)) {
            let meet = Message::Meet { peer: peer.clone() };
            called.while_connecting(|| order(&meet))?;
            lock(&self.acquainted).insert((caller, callee));
        }
        let batches = paths.chunks(MOST_PARCELS).map(|paths| {
            let (peer, paths) = (peer.clone(), paths.to_vec());
            order(&if caller == to {
                Message::Fetch { peer, paths, keep }
            } else {
                Message::Push { peer, paths, keep }
            })
        });
        batches.sum()
    }

    /// Whose fault it is that a direct transfer failed.
    fn blame(
        &self,
        to: usize,
        from: usize,
        paths: &[String],
        fault: TransferError,
    ) -> MachineError {
        let (target, source) = (self.host(to), self.host(from));
        let is_of_source = match fault {
            TransferError::Reported(ErrorCause::Source, _) | TransferError::DamagedFiles(..) => {
                true
            }
            TransferError::Reported(ErrorCause::Target, _) => false,
            // It is that of the host that was asked.
            _ => from < to,
        };
        if is_of_source {
            source_error(source, paths, fault)
        } else {
            target_error(target, fault)
        }
    }

    fn is_unreached(&self, to: usize, from: usize) -> bool {
        let (caller, callee) = Self::caller_and_callee(to, from);
        lock(&self.host(caller).unreached)
            .get(&callee)
            .is_some_and(|since| since.elapsed() < DETOUR)
    }

    /// Notes that two hosts do not reach each other. Returns what to say, once.
    fn note_unreached(&self, to: usize, from: usize, what: &str) -> Option<String> {
        let (caller, callee) = Self::caller_and_callee(to, from);
        lock(&self.acquainted).remove(&(caller, callee));
        let calling = self.host(caller);
        let before = lock(&calling.unreached).insert(callee, Instant::now());
        let is_first = before.is_none();
        is_first.then(|| format!("{} does not reach {what}", calling.host.label()))
    }

    /// Links to files of a host that shares its directory with the target. None if they are not to
    /// be seen there, or are damaged: then they are copied, which tells which.
    fn link_between(
        &self,
        target: &SshHost,
        source: &SshHost,
        paths: &[String],
        keep: bool,
    ) -> Option<Result<Transferred, MachineError>> {
        let request = Message::Link {
            run: source.run_name(&self.here),
            paths: paths.to_vec(),
            keep,
        };
        let linked = target.with(&self.options, &self.here, &target.inbox, |client| {
            client.order(&request)
        });
        match linked {
            Ok(bytes) => Some(Ok(Transferred {
                bytes,
                is_direct: true,
                detour: None,
            })),
            Err(
                TransferError::Reported(ErrorCause::Source, _) | TransferError::DamagedFiles(..),
            ) => None,
            Err(fault) => Some(Err(target_error(target, fault))),
        }
    }

    fn relay_through_here(
        &self,
        target: &SshHost,
        source: &SshHost,
        paths: &[String],
    ) -> Result<u64, MachineError> {
        let (mut inbox, mut outbox) = (lock(&target.inbox), lock(&source.outbox));
        let to = target
            .open(&self.options, &self.here, &mut inbox)
            .map_err(|fault| target_error(target, fault))?;
        let from = source
            .open(&self.options, &self.here, &mut outbox)
            .map_err(|fault| source_error(source, paths, fault))?;
        let parcels: Vec<(String, bool)> = paths
            .iter()
            .map(|path| (path.clone(), self.plan().is_kept(path)))
            .collect();
        relay(from, to, &parcels).map_err(|(is_source, fault)| {
            if matches!(
                fault,
                TransferError::Disconnected(_) | TransferError::Local(_)
            ) {
                (*inbox, *outbox) = (None, None);
            }
            if is_source {
                source_error(source, paths, fault)
            } else {
                target_error(target, fault)
            }
        })
    }

    /// Whether a host reads the documents of a task in place.
    pub(super) fn shares_documents(&self, remote: &SshHost, slice: &CorpusSlice) -> bool {
        let directory = Path::new(&self.plan().options.directory);
        let shared = remote.host.shared.as_ref().filter(|_| remote.is_shared);
        shared.is_some_and(|shared| {
            slice
                .documents()
                .all(|file| directory.join(file.path).starts_with(shared))
        })
    }

    pub(super) fn slice(&self, task: &Task) -> Result<Option<CorpusSlice>, MachineError> {
        let input = task.inputs.first().filter(|_| task.kind().is_of_slice());
        let open = |input: &String| {
            CorpusSlice::open(&self.here.run.join(input))
                .map_err(|error| MachineError::Failed(error.to_string()))
        };
        input.map(open).transpose()
    }
}
