//! The process that runs a task on a host.

use super::{TransferError, WorkerEvent, host_store::TaskView};
use crate::{
    base::error::Error,
    cluster::{
        plan::Task,
        remote::{die_with_parent, end_group},
    },
};
use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, SyncSender},
    thread,
};

/// The most bytes of a log that are sent back.
const LOG_END_BYTES: u64 = 4096;

/// Runs a task as a process, which is killed if the run disconnects.
pub(super) fn run_child(
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
