//! Copies files between hosts and the directory of the run.

use super::{
    DETOUR, SshHosts,
    host::{SshHost, lock, source_error, target_error},
};
use crate::{
    base::error::Result,
    cluster::{
        plan::{Task, TaskKind},
        remote::Address,
        scheduler::{MachineError, Transferred},
        worker::{Client, ErrorCause, Message, Peer, TransferError, relay, remove},
    },
    commands::{BUILD_RECORD, BuildRecord, PARTIAL_BUILD_RECORD},
    text::corpus::CorpusSlice,
};
use std::{
    path::{Path, PathBuf},
    slice,
    time::Instant,
};

impl SshHosts<'_> {
    /// Copies paths from a host to the directory of the run, with the record of their output, so
    /// that they can be verified later.
    pub(super) fn fetch_to_run(&self, from: usize, paths: &[String]) -> Result<u64, MachineError> {
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
            paths.iter().try_fold(0, |sum, path| {
                Ok(sum + client.put(path, self.plan().is_kept(path), &self.here.run.join(path))?)
            })
        };
        remote
            .with(&self.options, &self.here, &remote.inbox, put)
            .map_err(|fault| target_error(remote, fault))
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

    pub(super) fn relay_through_here(
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
