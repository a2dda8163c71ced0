//! The machines that run tasks, as the scheduler sees them.

use super::schedule::Machine;
use crate::{
    base::error::Error,
    cluster::{engines::Verdict, plan::Task},
};

/// Why something could not be done on a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MachineError {
    /// The machine or the connection failed; it may work again later.
    Lost(String),
    /// The machine cannot be used, now or later.
    Refused(String),
    /// The copies that another machine has of these paths are damaged or missing.
    SourceDamaged(Vec<String>, String),
    /// The machine that has the files, or the connection to it, failed.
    SourceLost(String),
    /// The task can run on this machine only.
    CentralOnly,
    /// Trying again will not help anywhere.
    Failed(String),
    /// This machine cannot go on now: its disk is full, or gone.
    LocalDiskFull(String),
}

impl MachineError {
    /// The error of this machine.
    pub fn local(error: &Error) -> Self {
        if error.is_of_machine() {
            Self::LocalDiskFull(error.to_string())
        } else {
            Self::Failed(error.to_string())
        }
    }
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskOutcome {
    /// What became of it.
    pub verdict: Verdict,
    /// The size of its output.
    pub bytes_out: u64,
}

/// What a machine has when a run starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Outputs and inputs of tasks, by path.
    pub paths: Vec<String>,
    /// The numbers of tasks whose outputs are damaged: they run again even if nothing needs them.
    pub damaged: Vec<usize>,
    /// The mark of the directory where it keeps files: machines with the same mark share it.
    pub directory: Option<String>,
    /// The bytes that were sent to find this out.
    pub moved: u64,
}

/// What was transferred.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transferred {
    /// The number of bytes.
    pub bytes: u64,
    /// They went from host to host, not through this machine.
    pub is_direct: bool,
    /// Why they went through this machine although hosts should reach each other.
    pub detour: Option<String>,
}

impl Transferred {
    /// A transfer to or from this machine.
    pub fn of(bytes: u64) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }
}

/// All machines of a run. Machine 0 is this machine. A store has the number of the machine that
/// holds its files. Many threads call it at a time.
pub trait Machines: Sync {
    /// Lists the machines, this one first.
    fn list(&self) -> Vec<Machine>;

    /// Whether this machine collects what map tasks make, and hands it out: with little of it, many
    /// hosts are served sooner in this way than by each other.
    fn is_hub(&self) -> bool {
        false
    }

    /// Connects to a machine, and lists what it has.
    fn connect(&self, machine: usize) -> Result<Inventory, MachineError>;

    /// Copies files from one store to another, each whole or not at all.
    fn transfer(
        &self,
        to: usize,
        from: usize,
        paths: &[String],
    ) -> Result<Transferred, MachineError>;

    /// Sends the documents of a task to a machine. Returns the number of bytes.
    fn stage(&self, machine: usize, task: &Task) -> Result<u64, MachineError>;

    /// Runs a task to its end.
    fn run(&self, machine: usize, slot: u32, task: &Task) -> Result<TaskOutcome, MachineError>;

    /// Ends the connection; nothing is running there. `is_lost`: the machine does not answer.
    fn disconnect(&self, machine: usize, is_lost: bool);
}
