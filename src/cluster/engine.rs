//! Who runs tasks: places, and what can happen there.

use super::{
    board::{HERE, Place, Takes},
    plan::{Plan, Task},
    state::{State, needed},
};
use crate::{
    base::error::{Error, Result},
    cluster::remote::die_with_parent,
};
use std::{
    fs::{self, File},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
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

impl Verdict {
    /// Of a process that was a task. `what`: the end of what it said, and where all of it is.
    pub fn of(status: ExitStatus, what: String) -> Self {
        match (status.code(), status.signal()) {
            (Some(0), _) => Self::Done,
            (Some(code), _) if code == i32::from(LOST) => Self::Lost(what),
            (None, Some(signal)) => Self::Lost(format!("killed by signal {signal}; {what}")),
            _ => Self::Failed(what),
        }
    }
}

/// Exit of a task that was lost, from sysexits: try again later.
pub const LOST: u8 = 75;

/// Why something could not be done at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// The place, or the way to it, failed: it may do better next time.
    Lost(String),
    /// The place is of no use, now and later.
    Refused(String),
    /// What another store has of these paths is not whole.
    Source(Vec<String>, String),
    /// The place where it is, or the way to it, failed.
    From(String),
    /// It can be done here only.
    Here,
    /// To try again will not help anywhere.
    Failed(String),
    /// This machine cannot go on now: its disk is full, or gone.
    NoRoom(String),
}

impl Trouble {
    /// Of this machine.
    pub fn own(error: &Error) -> Self {
        if error.is_of_machine() {
            Self::NoRoom(error.to_string())
        } else {
            Self::Failed(error.to_string())
        }
    }
}

/// How a task that was run ended, and what it cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub verdict: Verdict,
    pub bytes_out: u64,
}

/// What is at a place when a run begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Outputs and inputs of tasks, by path.
    pub paths: Vec<String>,
    /// Tasks to be done whether or not anybody needs it, by number: their outputs are damaged.
    pub damaged: Vec<usize>,
    /// Bytes that went to find this out.
    pub moved: u64,
}

/// What was brought.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Brought {
    pub bytes: u64,
    /// From host to host, without going through here.
    pub is_direct: bool,
    /// Why it went through here, though it should not have.
    pub detour: Option<String>,
}

impl Brought {
    pub fn of(bytes: u64) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }
}

/// All places of a run. Place 0 is this machine. A store has the number of the place whose files it has. Many threads call it at a time.
pub trait Crew: Sync {
    fn places(&self) -> Vec<Place>;

    /// Connects to a place, and looks at what it has.
    fn begin(&self, place: usize) -> Result<Inventory, Trouble>;

    /// Copies from one store to another, whole or not at all.
    fn bring(&self, to: usize, from: usize, paths: &[String]) -> Result<Brought, Trouble>;

    /// Makes ready what a task reads beside its inputs: its documents. Gives the bytes that went.
    fn stage(&self, place: usize, task: &Task) -> Result<u64, Trouble>;

    /// Runs a task to its end.
    fn run(&self, place: usize, slot: u32, task: &Task) -> Result<Outcome, Trouble>;

    /// The run is over, for now, and nothing is under way there. `is_lost`: it does not answer.
    fn leave(&self, place: usize, is_lost: bool);
}

/// Processes of this machine.
pub struct Local<'p> {
    pub plan: &'p Plan,
    /// dedup-shard itself.
    pub program: PathBuf,
    pub run: PathBuf,
    pub slots: u32,
}

impl Crew for Local<'_> {
    fn places(&self) -> Vec<Place> {
        vec![Place {
            name: "here".to_owned(),
            slots: self.slots,
            takes: Takes::All,
            is_shared: true,
        }]
    }

    fn begin(&self, _: usize) -> Result<Inventory, Trouble> {
        Ok(self.look())
    }

    fn bring(&self, _: usize, _: usize, _: &[String]) -> Result<Brought, Trouble> {
        Ok(Brought::default())
    }

    fn stage(&self, _: usize, _: &Task) -> Result<u64, Trouble> {
        Ok(0)
    }

    fn run(&self, _: usize, _: u32, task: &Task) -> Result<Outcome, Trouble> {
        let verdict = self.run_here(task).map_err(|error| Trouble::own(&error))?;
        Ok(Outcome {
            verdict,
            bytes_out: super::events::bytes_of(&self.run.join(&task.output)),
        })
    }

    fn leave(&self, place: usize, _: bool) {
        debug_assert_eq!(place, HERE);
    }
}

impl Local<'_> {
    /// What is on disk, every byte of it read.
    pub fn look(&self) -> Inventory {
        let mut inventory = Inventory::default();
        for (number, (task, state)) in needed(self.plan, &self.run).into_iter().enumerate() {
            match state {
                State::Done => inventory.paths.push(task.output.clone()),
                State::Damaged(_) => inventory.damaged.push(number),
                State::Missing | State::Partial => {}
            }
        }
        inventory
    }

    pub fn run_here(&self, task: &Task) -> Result<Verdict> {
        let (log, file) = log_of(&self.run, &task.id)?;
        let mut command = Command::new(&self.program);
        command
            .arg("task")
            .arg("--")
            .arg(&self.run)
            .arg(&task.id)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file);
        die_with_parent(&mut command);
        let status = command
            .status()
            .map_err(|error| Error::io(self.program.display(), error))?;
        let said = fs::read_to_string(&log).unwrap_or_default();
        let last = said.lines().last().unwrap_or("it said nothing");
        Ok(Verdict::of(
            status,
            format!("{last}; see {}", log.display()),
        ))
    }
}

/// A log for an attempt at a task: `PLAN_FILE.log`, and for those after it `PLAN_FILE.2.log` and so on.
pub fn log_of(run: &Path, name: &str) -> Result<(PathBuf, File)> {
    let logs = run.join("logs");
    fs::create_dir_all(&logs).map_err(|error| Error::io(logs.display(), error))?;
    let mut attempt = 1_u32;
    loop {
        let path = logs.join(if attempt == 1 {
            format!("{name}.log")
        } else {
            format!("{name}.{attempt}.log")
        });
        match File::create_new(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => attempt += 1,
            Err(error) => return Err(Error::io(path.display(), error)),
        }
    }
}
