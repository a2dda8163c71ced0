//! The state of one task and of one machine in a schedule.

use super::schedule::{LOCAL, Machine};
use crate::cluster::plan::{Plan, Task, TaskKind};
use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
    time::Instant,
};

/// Which machine works on a task, and how far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Assignment {
    Free,
    Claimed(usize),
    Staged(usize),
    Running(usize),
}

impl Assignment {
    pub(super) fn machine(self) -> Option<usize> {
        match self {
            Self::Free => None,
            Self::Claimed(machine) | Self::Staged(machine) | Self::Running(machine) => {
                Some(machine)
            }
        }
    }
}

pub(super) struct Requirement {
    pub(super) path: String,
    /// The task that makes it; none for files of the plan.
    pub(super) maker: Option<usize>,
}

pub(super) struct ScheduledTask {
    pub(super) needs: Vec<Requirement>,
    pub(super) assignment: Assignment,
    pub(super) losses: u32,
    /// The machines that lost it.
    pub(super) avoid: BTreeSet<usize>,
    pub(super) is_central: bool,
    pub(super) is_map: bool,
    pub(super) home: Option<usize>,
    /// Its inputs are large and stay at its home from run to run: it waits for a slot there while
    /// the host lives.
    pub(super) is_bound_to_home: bool,
    pub(super) bytes: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Contact {
    Unknown,
    Alive,
    GivenUp(String),
}

pub(super) struct MachineState {
    pub(super) machine: Machine,
    pub(super) store: usize,
    /// The mark of its directory, see [`super::Inventory::directory`].
    pub(super) directory: Option<String>,
    pub(super) contact: Contact,
    pub(super) failures: u32,
    pub(super) backoff_until: Option<Instant>,
}

impl ScheduledTask {
    /// A task that no machine works on; tasks of a range have the host of the range as home.
    pub(super) fn new(plan: &Plan, task: &Task, needs: Vec<Requirement>, hosts: usize) -> Self {
        let kind = task.kind();
        let is_of_range = !kind.is_of_slice() && !kind.is_central();
        let home = plan
            .ranges
            .get(task.number)
            .filter(|_| is_of_range)
            .map(|range| range.host + 1);
        Self {
            needs,
            assignment: Assignment::Free,
            losses: 0,
            avoid: BTreeSet::new(),
            is_central: kind.is_central(),
            is_map: kind == TaskKind::Map,
            home: home.filter(|&home| home <= hosts),
            is_bound_to_home: kind == TaskKind::Count && plan.options.base.is_some(),
            bytes: task.bytes,
        }
    }
}

impl MachineState {
    /// A machine that was not contacted yet.
    pub(super) fn new(number: usize, machine: Machine) -> Self {
        let store = if machine.is_shared { LOCAL } else { number };
        Self {
            machine,
            store,
            directory: None,
            contact: Contact::Unknown,
            failures: 0,
            backoff_until: None,
        }
    }

    pub(super) fn failure_message(&self) -> Option<String> {
        match &self.contact {
            Contact::GivenUp(why) => Some(format!("{}: {why}", self.machine.name)),
            _ => None,
        }
    }
}

/// The task whose output a path is, or is in.
pub(super) fn maker_of(makers: &HashMap<&str, usize>, path: &str) -> Option<usize> {
    Path::new(path)
        .ancestors()
        .find_map(|path| makers.get(path.to_str()?).copied())
}
