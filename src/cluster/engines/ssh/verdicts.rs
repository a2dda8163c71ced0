//! Judges the tasks that hosts ran.

use super::{
    super::{Verdict, open_log},
    SshHosts,
    host::SshHost,
};
use crate::{
    base::error::{Error, Result},
    cluster::{EXIT_LOST, plan::Task, scheduler::MachineError},
};
use std::{fs, io::Write, path::Path};

impl SshHosts<'_> {
    /// Judges a task by its exit status. The log is kept if it did not succeed.
    pub(super) fn verdict_of(
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
pub(super) fn document_verdict(path: &Path, bytes: u64, modified: i64) -> Option<MachineError> {
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

pub(super) fn changed(path: &Path) -> MachineError {
    MachineError::Failed(format!(
        "{}: changed while it was read; plan anew",
        path.display()
    ))
}
