//! Who runs a task: here a process of this machine.

use super::plan::Task;
use crate::error::{Error, Result};
use std::{
    fs::{self, File},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Command, Stdio},
};

/// What became of a task. Only what is on disk counts in the end; this says whether to try again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Done,
    /// To run it again will not help.
    Failed(String),
    /// The host, its disk or its memory is gone: it may be run elsewhere, or later.
    Lost(String),
}

/// Runs tasks, on several threads at a time.
pub trait Engine: Sync {
    /// How many at a time.
    fn slots(&self) -> usize;

    /// Runs a task to its end.
    fn run(&self, task: &Task) -> Result<Verdict>;
}

/// Exit of a task that was lost, from sysexits: try again later.
pub const LOST: u8 = 75;

/// Processes of this machine.
pub struct Local {
    /// dedup-shard itself.
    pub program: PathBuf,
    pub run: PathBuf,
    pub slots: usize,
}

impl Engine for Local {
    fn slots(&self) -> usize {
        self.slots
    }

    fn run(&self, task: &Task) -> Result<Verdict> {
        let logs = self.run.join("logs");
        let log = logs.join(format!("{}.log", task.id));
        let file = fs::create_dir_all(&logs).and_then(|()| File::create(&log)).map_err(|error| Error::io(log.display(), error))?;
        let mut command = Command::new(&self.program);
        command.arg("task").arg("--").arg(&self.run).arg(&task.id).stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let status = command.status().map_err(|error| Error::io(self.program.display(), error))?;
        let said = fs::read_to_string(&log).unwrap_or_default();
        let last = said.lines().last().unwrap_or("it said nothing");
        let what = format!("{last}; see {}", log.display());
        Ok(match (status.code(), status.signal()) {
            (Some(0), _) => Verdict::Done,
            (Some(code), _) if code == i32::from(LOST) => Verdict::Lost(what),
            (None, Some(signal)) => Verdict::Lost(format!("killed by signal {signal}; {what}")),
            _ => Verdict::Failed(what),
        })
    }
}
