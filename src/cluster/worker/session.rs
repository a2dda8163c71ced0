//! One conversation of a worker: requests of the run, or of another worker, and their answers.

use super::{
    Conversation, ErrorCause, Message, Parcel, Shelf, TransferError, Worker, WorkerConnection,
    WorkerEvent, WorkerOptions,
    host_store::remove,
    task_process::run_child,
    transfer::{out_of_turn, receive_extents, receive_wanted, send_wanted},
};
use crate::{
    base::error::Error,
    cluster::{plan::Task, scheduler::Inventory},
    text::corpus::is_program_installed,
};
use std::{fs, io, os::unix::process::ExitStatusExt, sync::mpsc::SyncSender, time::Duration};

/// The exit status of a task that would fail again with the same inputs.
const FAILED: i32 = 1;

pub(super) struct WorkerSession<'w> {
    worker: &'w Worker<'w>,
    connection: WorkerConnection<'w>,
    send: SyncSender<WorkerEvent>,
}

impl<'w> WorkerSession<'w> {
    /// `send`: where events of the connection come from.
    pub(super) fn new(
        worker: &'w Worker<'w>,
        connection: WorkerConnection<'w>,
        send: SyncSender<WorkerEvent>,
    ) -> Self {
        Self {
            worker,
            connection,
            send,
        }
    }

    /// Serves one request. An error ends the conversation.
    pub(super) fn serve_one(&mut self) -> io::Result<()> {
        let request = self.connection.receive_message()?;
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
        self.connection.send_message(&answer)
    }

    fn answer(&mut self, request: Message) -> Result<Message, TransferError> {
        let (store, peers) = (&self.worker.options.store, &self.worker.peers);
        let done = |bytes| Ok(Message::Done { bytes });
        match request {
            Message::Inventory => {
                let Inventory { paths, .. } = store.inventory(&*self.worker.plan()?)?;
                let directory = store.directory_id()?;
                Ok(Message::Have { paths, directory })
            }
            Message::Programs { mut names } => {
                names.retain(|name| !is_program_installed(name));
                Ok(Message::Lack { names })
            }
            Message::Put { parcels } => done(self.put(parcels)?),
            Message::Get { paths, keep } => done(self.get(&paths, keep)?),
            Message::Stage { task } => done(self.stage(&task)?),
            Message::Link { run, paths, keep } => {
                let neighbour = store.neighbour(&run)?;
                for path in &paths {
                    store.link(&neighbour, path, keep)?;
                }
                done(0)
            }
            Message::Meet { peer } => peers.meet(&peer).and_then(|()| done(0)),
            Message::Fetch { peer, paths, keep } => done(peers.fetch(store, &peer, &paths, keep)?),
            Message::Push { peer, paths, keep } => done(peers.push(store, &peer, &paths, keep)?),
            Message::Run { task, is_staged } => self.run(&task, is_staged),
            Message::Clean => store
                .clean()
                .map_err(TransferError::Local)
                .and_then(|()| done(0)),
            Message::Prune { bytes, seconds } => {
                store.sweep();
                let program = &self.worker.options.program;
                store.prune(bytes, Duration::from_secs(seconds), program);
                done(0)
            }
            _ => Err(out_of_turn()),
        }
    }

    fn task(&self, id: &str) -> Result<Task, TransferError> {
        Ok(self.worker.plan()?.task(id)?.clone())
    }

    /// Receives paths.
    fn put(&mut self, parcels: Vec<Parcel>) -> Result<u64, TransferError> {
        let store = &self.worker.options.store;
        let mut shelves = Vec::with_capacity(parcels.len());
        for parcel in parcels {
            let root = store.target(&parcel.path)?;
            remove(&root)?;
            shelves.push(Shelf { root, parcel });
        }
        let bytes = receive_wanted(&mut self.connection, &shelves, store.cache())?;
        for Shelf { parcel, .. } in &shelves {
            store.brought(&parcel.path, &parcel.items, parcel.keep)?;
        }
        Ok(bytes)
    }

    /// Sends paths.
    fn get(&mut self, paths: &[String], keep: bool) -> Result<u64, TransferError> {
        let store = &self.worker.options.store;
        let shelves = store.shelves(paths, false)?;
        let parcels = shelves.iter().map(|shelf| shelf.parcel.clone()).collect();
        self.connection.send_message(&Message::Items { parcels })?;
        let bytes = send_wanted(&mut self.connection, &shelves)?;
        for Shelf { root, parcel } in shelves.iter().filter(|_| keep) {
            store.keep(root, &parcel.items);
        }
        Ok(bytes)
    }

    /// Receives the documents of a task.
    fn stage(&mut self, id: &str) -> Result<u64, TransferError> {
        let directory = self.worker.options.store.documents(&self.task(id)?);
        remove(&directory)?;
        let mut machine_error = fs::create_dir_all(&directory)
            .map_err(|error| Error::io(directory.display(), error))
            .err();
        let mut sum = 0;
        loop {
            match self.connection.receive_message()? {
                Message::Document {
                    number,
                    bytes,
                    extents,
                } => {
                    let copy = directory.join(number.to_string());
                    let of_file = [[0, bytes]];
                    let extents = if extents.is_empty() {
                        &of_file[..]
                    } else {
                        &extents
                    };
                    let received = receive_extents(&mut self.connection, &copy, bytes, extents)?;
                    machine_error = machine_error.or(received.err());
                    let of_extent = |[start, end]: &[u64; 2]| end.saturating_sub(*start);
                    sum += extents.iter().map(of_extent).sum::<u64>();
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

    fn run(&mut self, id: &str, is_staged: bool) -> Result<Message, TransferError> {
        let task = self.task(id)?;
        let WorkerOptions { store, program, .. } = self.worker.options;
        let plan = &*self.worker.plan()?;
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
            program,
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
