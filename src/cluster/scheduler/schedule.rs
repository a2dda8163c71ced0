//! Decides what runs where: the state of tasks, of machines, and of the files that each machine
//! has. Nothing here waits, reads or writes.
//!
//! Machine 0 is this machine, the others are hosts. A task runs only if a result needs its output
//! and no machine has it: the outputs of a lost host are made again only if a task still needs
//! them.

use super::{
    machines::Inventory,
    scheduled_task::{Assignment, Contact, MachineState, Requirement, ScheduledTask, maker_of},
};
use crate::cluster::plan::{Plan, Task};
use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

/// The number of this machine, and of the directory of the run.
pub const LOCAL: usize = 0;
/// A host that fails this often in a row gets no more tasks.
const MAX_FAILURES: u32 = 3;
/// How long a thread waits before it looks again, if it is not woken.
pub const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The pause of a host after its first failure; it doubles with each more.
const BACKOFF: Duration = Duration::from_millis(300);
/// The most files that are prefetched in one go.
const MAX_PREFETCH: usize = 64;

/// Which tasks a machine accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepts {
    /// All tasks.
    Any,
    /// All but central tasks.
    Distributed,
    /// Central tasks only.
    Central,
}

/// A machine that runs tasks.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The name that messages and events use.
    pub name: String,
    /// How many tasks it runs at a time.
    pub slots: u32,
    /// Which tasks it accepts.
    pub accepts: Accepts,
    /// It works in the directory of the run, so that nothing is copied.
    pub is_shared: bool,
}

/// What the mover of a machine does next.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Transfer the inputs of a task from these stores; then it can run.
    Stage {
        /// The task.
        task: usize,
        /// The stores, and the paths to transfer from each.
        transfer: Vec<(usize, Vec<String>)>,
    },
    /// Transfer files that will be needed.
    Prefetch {
        /// The store that has them.
        from: usize,
        /// The files.
        paths: Vec<String>,
    },
    /// Nothing to do for this long.
    Wait(Duration),
    /// Nothing to do any more.
    Stop,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnd {
    /// All results are there.
    Done,
    /// A task failed, and why.
    Failed(String, String),
    /// A task was lost too often, and why.
    Lost(String, String),
    /// No host is left; why each failed.
    NoHostLeft(Vec<String>),
}

/// The state of a run: its tasks, its machines, and who has which files.
pub struct Schedule {
    pub(super) ids: Vec<String>,
    pub(super) outputs: Vec<String>,
    pub(super) jobs: Vec<ScheduledTask>,
    pub(super) states: Vec<MachineState>,
    pub(super) retries: u32,
    /// The most tasks that run at a time.
    pub(super) max_tasks: usize,
    /// See [`super::Machines::is_hub`].
    pub(super) is_hub: bool,
    /// By task: the stores that have its output.
    pub(super) made: Vec<BTreeSet<usize>>,
    /// By path: the stores that have a copy of it.
    pub(super) copies: HashMap<String, BTreeSet<usize>>,
    /// Tasks whose outputs are results of the run.
    pub(super) results: Vec<usize>,
    /// Tasks that run even if nothing needs their output.
    pub(super) forced: BTreeSet<usize>,
    pub(super) end: Option<RunEnd>,
    /// The time of the last decision.
    pub(super) now: Instant,
}

impl Schedule {
    /// `needs`: by task, the files it needs beside its inputs.
    pub fn new(
        plan: &Plan,
        needs: &HashMap<String, Vec<String>>,
        machines: Vec<Machine>,
        retries: u32,
    ) -> Self {
        let makers: HashMap<&str, usize> = plan
            .tasks
            .iter()
            .enumerate()
            .map(|(number, task)| (task.output.as_str(), number))
            .collect();
        let hosts = machines.len() - 1;
        let scheduled = |task: &Task| {
            let more = needs.get(&task.id).into_iter().flatten();
            let needs = task.inputs.iter().chain(more).map(|path| Requirement {
                path: path.clone(),
                maker: maker_of(&makers, path),
            });
            ScheduledTask::new(plan, task, needs.collect(), hosts)
        };
        let jobs: Vec<ScheduledTask> = plan.tasks.iter().map(scheduled).collect();
        let needed: BTreeSet<usize> = jobs
            .iter()
            .flat_map(|job| &job.needs)
            .filter_map(|need| need.maker)
            .collect();
        Self {
            ids: plan.tasks.iter().map(|task| task.id.clone()).collect(),
            outputs: plan.tasks.iter().map(|task| task.output.clone()).collect(),
            made: vec![BTreeSet::new(); jobs.len()],
            results: (0..jobs.len())
                .filter(|task| !needed.contains(task) || plan.tasks[*task].kind().is_one_file())
                .collect(),
            jobs,
            states: machines
                .into_iter()
                .enumerate()
                .map(|(number, machine)| MachineState::new(number, machine))
                .collect(),
            retries,
            max_tasks: usize::MAX,
            is_hub: false,
            copies: HashMap::new(),
            forced: BTreeSet::new(),
            end: None,
            now: Instant::now(),
        }
    }

    /// Sets the most tasks that run at a time.
    pub fn with_max_tasks(self, max_tasks: Option<usize>) -> Self {
        Self {
            max_tasks: max_tasks.unwrap_or(usize::MAX),
            ..self
        }
    }

    /// Sets whether this machine hands out what map tasks make.
    pub fn with_hub(self, is_hub: bool) -> Self {
        Self { is_hub, ..self }
    }

    pub fn end(&self) -> Option<&RunEnd> {
        self.end.as_ref()
    }

    pub fn machine(&self, machine: usize) -> &Machine {
        &self.states[machine].machine
    }

    /// A machine is connected, and has these outputs and inputs of tasks; damaged ones must be made
    /// again in any case.
    pub fn connected(&mut self, machine: usize, inventory: &Inventory) {
        let state = &mut self.states[machine];
        state.contact = Contact::Alive;
        state.failures = 0;
        state.directory.clone_from(&inventory.directory);
        self.received(self.states[machine].store, &inventory.paths);
        self.forced.extend(&inventory.damaged);
        self.check_end();
    }

    /// A store has received these files.
    pub fn received(&mut self, store: usize, paths: &[String]) {
        for path in paths {
            let task = self.outputs.iter().position(|output| output == path);
            let stores = task.map_or_else(
                || self.copies.entry(path.clone()).or_default(),
                |task| &mut self.made[task],
            );
            stores.insert(store);
        }
        self.check_end();
    }

    /// All inputs of a task are at the machine.
    pub fn staged(&mut self, machine: usize, task: usize) {
        if self.jobs[task].assignment == Assignment::Claimed(machine) {
            self.jobs[task].assignment = Assignment::Staged(machine);
        }
    }

    /// Starts the next task of a slot, the largest first; none if there is nothing to run now.
    pub fn take(&mut self, machine: usize, now: Instant) -> Option<usize> {
        let running = self
            .jobs
            .iter()
            .filter(|job| matches!(job.assignment, Assignment::Running(_)))
            .count();
        if self.backoff(machine, now).is_some() || self.end.is_some() || running >= self.max_tasks {
            return None;
        }
        let staged = (0..self.jobs.len())
            .filter(|&task| self.jobs[task].assignment == Assignment::Staged(machine));
        let task = staged.max_by_key(|&task| (self.jobs[task].bytes, std::cmp::Reverse(task)))?;
        self.jobs[task].assignment = Assignment::Running(machine);
        Some(task)
    }

    /// Whether a machine gets no more tasks.
    pub fn is_closed(&self, machine: usize) -> bool {
        self.end.is_some() || self.is_out(machine)
    }

    pub fn done(&mut self, machine: usize, task: usize) {
        if !self.is_closed(machine) {
            self.states[machine].failures = 0;
            self.made[task].insert(self.states[machine].store);
        }
        self.release(machine, task);
        self.forced.remove(&task);
        self.check_end();
    }

    /// A task failed, and running it again will not help.
    pub fn failed(&mut self, task: usize, why: &str) {
        let id = self.ids[task].clone();
        self.give_up(id, why);
    }

    /// Ends the run with a failure.
    pub fn give_up(&mut self, task: String, why: &str) {
        self.end
            .get_or_insert_with(|| RunEnd::Failed(task, why.to_owned()));
    }

    /// Ends the run because of this machine; it may succeed later.
    pub fn stop(&mut self, why: &str) {
        self.end.get_or_insert_with(|| {
            RunEnd::Lost(
                "run".to_owned(),
                format!("{why}; run it again when there is room"),
            )
        });
    }

    /// Whether a machine was given up.
    pub fn is_out(&self, machine: usize) -> bool {
        matches!(self.states[machine].contact, Contact::GivenUp(_))
    }

    /// A task was lost on a machine; it may run again, on another machine if one accepts it.
    pub fn lost(&mut self, machine: usize, task: usize, why: &str) {
        if self.jobs[task].assignment.machine() != Some(machine) {
            return;
        }
        self.release(machine, task);
        let job = &mut self.jobs[task];
        job.losses += 1;
        job.avoid.insert(machine);
        if job.losses > self.retries {
            let what = format!(
                "lost {} times, the last time on {}: {why}",
                job.losses, self.states[machine].machine.name
            );
            self.end
                .get_or_insert_with(|| RunEnd::Lost(self.ids[task].clone(), what));
        }
    }

    /// A task can run on this machine only.
    pub fn restrict_to_central(&mut self, machine: usize, task: usize) {
        self.jobs[task].is_central = true;
        self.release(machine, task);
    }

    /// The files that a store has of these are damaged or out of reach.
    pub fn forget(&mut self, store: usize, paths: &[String]) {
        for path in paths {
            self.copies.entry(path.clone()).or_default().remove(&store);
            if let Some(task) = self
                .jobs
                .iter()
                .flat_map(|job| &job.needs)
                .find(|need| need.path == *path)
                .and_then(|need| need.maker)
            {
                self.made[task].remove(&store);
            } else if let Some(task) = self.outputs.iter().position(|output| output == path) {
                self.made[task].remove(&store);
            }
        }
    }

    /// Records that a machine failed. Returns true if it gets no more tasks. Failures during its
    /// pause have the same cause and do not count.
    pub fn record_failure(&mut self, machine: usize, why: &str, now: Instant) -> bool {
        if self.backoff(machine, now).is_some() {
            return false;
        }
        let state = &mut self.states[machine];
        state.failures += 1;
        state.backoff_until = Some(now + BACKOFF * (1 << state.failures.min(6)));
        state.failures >= MAX_FAILURES && self.give_up_machine(machine, why)
    }

    /// Gives a machine no more tasks; its files are out of reach. Returns false if it was given up
    /// before.
    pub fn give_up_machine(&mut self, machine: usize, why: &str) -> bool {
        if matches!(self.states[machine].contact, Contact::GivenUp(_)) {
            return false;
        }
        self.states[machine].contact = Contact::GivenUp(why.to_owned());
        let store = self.states[machine].store;
        if store != LOCAL {
            for stores in self.made.iter_mut().chain(self.copies.values_mut()) {
                stores.remove(&store);
            }
        }
        for job in self
            .jobs
            .iter_mut()
            .filter(|job| job.assignment.machine() == Some(machine))
        {
            job.assignment = Assignment::Free;
        }
        if machine == LOCAL {
            self.end = Some(RunEnd::NoHostLeft(
                self.states
                    .iter()
                    .filter_map(MachineState::failure_message)
                    .collect(),
            ));
        }
        true
    }

    /// Decides what the mover of a machine does now.
    pub fn next(&mut self, machine: usize, now: Instant) -> Action {
        if self.is_closed(machine) {
            return Action::Stop;
        }
        if let Some(rest) = self.backoff(machine, now) {
            return Action::Wait(rest);
        }
        // The missing files are known only after all machines have listed theirs.
        if self
            .states
            .iter()
            .any(|state| state.contact == Contact::Unknown && state.failures == 0)
        {
            return Action::Wait(POLL_INTERVAL);
        }
        self.now = now;
        let wanted = self.wanted();
        if let Some(task) = self.pick(machine, &wanted).or_else(|| self.steal(machine)) {
            self.jobs[task].assignment = Assignment::Claimed(machine);
            return Action::Stage {
                task,
                transfer: self.missing(self.states[machine].store, self.jobs[task].needs.iter()),
            };
        }
        if let Some((from, mut paths)) = self.prefetch(machine, &wanted) {
            paths.truncate(MAX_PREFETCH);
            return Action::Prefetch { from, paths };
        }
        if machine == LOCAL && self.is_stuck(&wanted) {
            self.end = Some(RunEnd::NoHostLeft(
                self.states
                    .iter()
                    .filter_map(MachineState::failure_message)
                    .collect(),
            ));
            return Action::Stop;
        }
        Action::Wait(POLL_INTERVAL)
    }

    /// A task is free again; the machine is not to blame.
    pub fn release_claim(&mut self, machine: usize, task: usize) {
        self.release(machine, task);
    }

    pub(super) fn release(&mut self, machine: usize, task: usize) {
        if self.jobs[task].assignment.machine() == Some(machine) {
            self.jobs[task].assignment = Assignment::Free;
        }
    }

    pub(super) fn check_end(&mut self) {
        if self.forced.is_empty()
            && self
                .results
                .iter()
                .all(|&task| self.made[task].contains(&LOCAL))
        {
            self.end.get_or_insert(RunEnd::Done);
        }
    }

    /// The rest of the pause of a machine.
    pub fn backoff(&self, machine: usize, now: Instant) -> Option<Duration> {
        self.states[machine]
            .backoff_until
            .and_then(|until| until.checked_duration_since(now))
            .filter(|rest| !rest.is_zero())
    }
}
