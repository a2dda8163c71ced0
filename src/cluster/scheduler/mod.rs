//! Runs a plan on machines, or resumes it: each machine has a mover thread, which transfers inputs
//! of tasks, and a thread for each slot, which runs tasks.

mod machines;
mod placement;
mod schedule;
mod scheduled_task;

pub use machines::{Inventory, MachineError, Machines, TaskOutcome, Transferred};
pub use schedule::{Accepts, LOCAL, Machine};

use crate::{
    base::{error::Result, files::atomic_dir},
    cluster::{
        engines::{Failure, RunObserver, RunOptions, RunOutcome, Verdict},
        plan::{PLAN_FILE, Plan, TaskKind},
        run::{
            event_log::{Event, EventKind, EventLog, transfer_kind},
            gather::gather_needs,
            output_state::unfinished_tasks,
        },
    },
};
use schedule::{Action, POLL_INTERVAL, RunEnd, Schedule};
use std::{
    path::Path,
    sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

/// What the threads of a run share.
struct Scheduler<'a> {
    plan: &'a Plan,
    machines: &'a dyn Machines,
    schedule: Mutex<Schedule>,
    changed: Condvar,
    events: EventLog,
    notices: mpsc::Sender<RunNotice>,
}

/// What the threads of a run report to the observer.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RunNotice {
    /// A task is done, or was done before; its number.
    Done(usize),
    /// A host cannot be reached at first, and why.
    HostUnreachable(String),
    /// A host gets no more tasks, and why.
    HostGivenUp(String),
    /// Hosts do not reach each other, so that transfers go through this machine.
    Relayed(String),
    /// The run has ended.
    End,
}

impl RunNotice {
    fn report(&self, plan: &Plan, observer: &mut dyn RunObserver) {
        match self {
            Self::Done(task) => observer.task_done(&plan.tasks[*task]),
            Self::HostUnreachable(what) => observer.warning(&format!("{what}; trying again")),
            Self::HostGivenUp(what) => observer.warning(&format!("{what}; it gets no more tasks")),
            Self::Relayed(what) => observer.warning(&format!(
                "{what}; what goes between them goes through this machine"
            )),
            Self::End => {}
        }
    }
}

/// Runs the tasks that are not done yet. After a failure no other task starts.
pub fn run_on_machines(
    plan: &Plan,
    run: &Path,
    machines: &dyn Machines,
    options: RunOptions,
    observer: &mut dyn RunObserver,
) -> Result<RunOutcome> {
    atomic_dir::sweep(run);
    TaskKind::ALL
        .iter()
        .filter_map(|kind| kind.directory())
        .for_each(|name| atomic_dir::sweep(&run.join(name)));
    if unfinished_tasks(plan, run).is_empty() {
        plan.tasks.iter().for_each(|task| observer.task_done(task));
        return Ok(RunOutcome::Done);
    }
    let list = machines.list();
    let slots: Vec<u32> = list.iter().map(|machine| machine.slots).collect();
    let (send, notices) = mpsc::channel();
    let schedule = Schedule::new(plan, &gather_needs(plan), list, options.retries)
        .with_max_tasks(options.max_tasks)
        .with_hub(machines.is_hub());
    let scheduler = Scheduler {
        plan,
        machines,
        schedule: Mutex::new(schedule),
        changed: Condvar::new(),
        events: EventLog::append(run)?,
        notices: send,
    };
    // The files of this machine are known before any host is asked.
    scheduler.connect(LOCAL);
    thread::scope(|scope| {
        let scheduler = &scheduler;
        for (machine, &slots) in slots.iter().enumerate() {
            scope.spawn(move || scheduler.serve(machine, slots));
        }
        scope.spawn(move || scheduler.wait_for_end());
        notices
            .iter()
            .take_while(|notice| *notice != RunNotice::End)
            .for_each(|notice| notice.report(plan, observer));
    });
    let end = scheduler.schedule().end().cloned();
    Ok(end.map_or(RunOutcome::Done, RunEnd::outcome))
}

impl RunEnd {
    fn outcome(self) -> RunOutcome {
        let (task, verdict) = match self {
            Self::Done => return RunOutcome::Done,
            Self::Failed(task, what) => (task, Verdict::Failed(what)),
            Self::Lost(task, what) => (task, Verdict::Lost(what)),
            Self::NoHostLeft(hosts) => {
                let what = format!(
                    "no host is left; run it again when one is back ({})",
                    hosts.join("; ")
                );
                ("run".to_owned(), Verdict::Lost(what))
            }
        };
        RunOutcome::Failed(vec![Failure { task, verdict }])
    }
}

/// The kind of transfer that staging documents is.
const DOCUMENTS: &str = "documents";

impl Scheduler<'_> {
    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds to the event log. A run goes on if that fails.
    fn log_event(&self, task: &str, machine: usize, slot: u32, what: EventKind) {
        let host = self.schedule().machine(machine).name.clone();
        let _ = self.events.write(&Event::now(task, &host, slot, what));
    }

    /// Waits for the end of the run, and tells the observer.
    fn wait_for_end(&self) {
        let mut schedule = self.schedule();
        while schedule.end().is_none() {
            schedule = self.wait(schedule, POLL_INTERVAL);
        }
        drop(schedule);
        self.send(RunNotice::End);
    }

    /// Connects to a machine, and tries again until it is given up. Returns false if it was.
    fn connect(&self, machine: usize) -> bool {
        let mut is_first = true;
        loop {
            let started = Instant::now();
            match self.machines.connect(machine) {
                Ok(inventory) => {
                    self.connected(machine, started, &inventory);
                    return true;
                }
                Err(MachineError::Failed(what)) => self.schedule().give_up("run".to_owned(), &what),
                Err(MachineError::LocalDiskFull(what)) => self.schedule().stop(&what),
                Err(error) => {
                    if let MachineError::Lost(what) = &error
                        && std::mem::take(&mut is_first)
                    {
                        self.send(RunNotice::HostUnreachable(what.clone()));
                    }
                    self.note_failure(machine, &error);
                }
            }
            if !self.wait_for_backoff(machine) {
                return false;
            }
        }
    }

    fn connected(&self, machine: usize, started: Instant, inventory: &Inventory) {
        let moved = Transferred::of(inventory.moved);
        self.log_transfer(machine, LOCAL, transfer_kind(PLAN_FILE), started, &moved);
        self.schedule().connected(machine, inventory);
        let task_of = |path: &String| self.plan.tasks.iter().position(|task| task.output == *path);
        for task in inventory.paths.iter().filter_map(task_of) {
            self.send(RunNotice::Done(task));
        }
        self.changed.notify_all();
    }

    /// Waits until the pause of a machine is over. Returns false if it gets no more tasks.
    fn wait_for_backoff(&self, machine: usize) -> bool {
        let mut schedule = self.schedule();
        while let Some(rest) = schedule
            .backoff(machine, Instant::now())
            .filter(|_| !schedule.is_closed(machine))
        {
            schedule = self.wait(schedule, rest);
        }
        !schedule.is_closed(machine)
    }

    /// Releases the schedule until it changes, or for this long.
    fn wait<'s>(
        &self,
        schedule: MutexGuard<'s, Schedule>,
        time: Duration,
    ) -> MutexGuard<'s, Schedule> {
        self.changed
            .wait_timeout(schedule, time)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }

    /// The observer gets this in its own thread; after the end nothing is received.
    fn send(&self, notice: RunNotice) {
        let _ = self.notices.send(notice);
    }

    /// Records that a machine failed, and reports if it is given up.
    fn note_failure(&self, machine: usize, error: &MachineError) {
        let (is_out, what) = match error {
            MachineError::Refused(what) => (self.schedule().give_up_machine(machine, what), what),
            MachineError::Lost(what) => (
                self.schedule()
                    .record_failure(machine, what, Instant::now()),
                what,
            ),
            _ => return,
        };
        if is_out {
            self.send(RunNotice::HostGivenUp(what.clone()));
            self.log_event("", machine, 0, EventKind::HostOut(what.clone()));
        }
        self.changed.notify_all();
    }

    /// Runs the mover and the slots of a machine; disconnects when all have ended.
    fn serve(&self, machine: usize, slots: u32) {
        thread::scope(|scope| {
            for slot in 0..slots {
                scope.spawn(move || self.run_slot(machine, slot));
            }
            self.run_mover(machine);
        });
        let is_out = self.schedule().is_out(machine);
        self.machines.disconnect(machine, is_out);
    }

    fn run_mover(&self, machine: usize) {
        if machine == LOCAL || self.connect(machine) {
            while self.move_next(machine) {
                self.changed.notify_all();
            }
        }
        self.changed.notify_all();
    }

    /// Does the next transfer. Returns false if there is nothing to do any more.
    fn move_next(&self, machine: usize) -> bool {
        let mut schedule = self.schedule();
        let action = loop {
            match schedule.next(machine, Instant::now()) {
                Action::Wait(limit) => schedule = self.wait(schedule, limit),
                action => break action,
            }
        };
        let store = if schedule.machine(machine).is_shared {
            LOCAL
        } else {
            machine
        };
        drop(schedule);
        match action {
            Action::Stage { task, transfer } => self.stage(machine, store, task, &transfer),
            Action::Prefetch { from, paths } => {
                if let Err(error) = self.transfer(store, from, &paths) {
                    self.note_transfer_failure(machine, from, &error);
                    match error {
                        MachineError::Failed(what) => {
                            self.schedule().give_up("run".to_owned(), &what)
                        }
                        MachineError::LocalDiskFull(what) => self.schedule().stop(&what),
                        _ => {}
                    }
                }
            }
            Action::Wait(_) => {}
            Action::Stop => return false,
        }
        true
    }

    /// Transfers what a task needs to a machine, and hands it to its slots.
    fn stage(&self, machine: usize, store: usize, task: usize, transfer: &[(usize, Vec<String>)]) {
        let mut from = LOCAL;
        let transferred = transfer.iter().try_for_each(|(source, paths)| {
            from = *source;
            self.transfer(store, *source, paths)
        });
        let started = Instant::now();
        let staged =
            transferred.and_then(|()| self.machines.stage(machine, &self.plan.tasks[task]));
        match staged {
            Ok(bytes) => {
                self.log_transfer(machine, LOCAL, DOCUMENTS, started, &Transferred::of(bytes));
                self.schedule().staged(machine, task);
            }
            Err(error) => {
                self.note_transfer_failure(machine, from, &error);
                self.resolve(machine, task, error);
            }
        }
    }

    /// Transfers one kind of file after the other, so that the log says what each of them cost.
    fn transfer(&self, to: usize, from: usize, paths: &[String]) -> Result<(), MachineError> {
        let mut rest = paths.to_vec();
        while let Some(first) = rest.first() {
            let kind = transfer_kind(first);
            let (these, others): (Vec<String>, Vec<String>) = rest
                .into_iter()
                .partition(|path| transfer_kind(path) == kind);
            let started = Instant::now();
            let transferred = self.machines.transfer(to, from, &these)?;
            self.log_transfer(to, from, kind, started, &transferred);
            self.schedule().received(to, &these);
            rest = others;
        }
        Ok(())
    }

    fn log_transfer(
        &self,
        to: usize,
        from: usize,
        kind: &str,
        started: Instant,
        transferred: &Transferred,
    ) {
        let &Transferred {
            bytes,
            is_direct: direct,
            ref detour,
        } = transferred;
        if let Some(what) = detour {
            self.send(RunNotice::Relayed(what.clone()));
        }
        if bytes > 0 {
            let from = self.schedule().machine(from).name.clone();
            let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.log_event(
                "",
                to,
                0,
                EventKind::Moved {
                    from,
                    kind: kind.to_owned(),
                    bytes,
                    ms,
                    direct,
                },
            );
        }
    }

    fn note_transfer_failure(&self, machine: usize, from: usize, error: &MachineError) {
        match error {
            MachineError::SourceDamaged(paths, what) => {
                self.schedule().forget(from, paths);
                self.note_failure(from, &MachineError::Lost(what.clone()));
            }
            MachineError::SourceLost(what) => {
                self.note_failure(from, &MachineError::Lost(what.clone()))
            }
            _ => self.note_failure(machine, error),
        }
    }

    /// Decides what becomes of a task that did not run to its end.
    fn resolve(&self, machine: usize, task: usize, error: MachineError) {
        let mut schedule = self.schedule();
        match error {
            MachineError::Lost(what) | MachineError::Refused(what) => {
                schedule.lost(machine, task, &what)
            }
            MachineError::SourceDamaged(..) | MachineError::SourceLost(_) => {
                schedule.release_claim(machine, task)
            }
            MachineError::CentralOnly => schedule.restrict_to_central(machine, task),
            MachineError::Failed(what) => schedule.failed(task, &what),
            MachineError::LocalDiskFull(what) => schedule.stop(&what),
        }
    }

    /// Runs tasks until the machine gets no more.
    fn run_slot(&self, machine: usize, slot: u32) {
        loop {
            let mut schedule = self.schedule();
            let task = loop {
                if let Some(task) = schedule.take(machine, Instant::now()) {
                    break task;
                }
                if schedule.is_closed(machine) {
                    return;
                }
                schedule = self.wait(schedule, POLL_INTERVAL);
            };
            drop(schedule);
            self.run_once(machine, slot, task);
            self.changed.notify_all();
        }
    }

    fn run_once(&self, machine: usize, slot: u32, number: usize) {
        let task = &self.plan.tasks[number];
        self.log_event(&task.id, machine, slot, EventKind::Start);
        let outcome = match self.machines.run(machine, slot, task) {
            Ok(outcome) => outcome,
            Err(error) => return self.not_run(machine, slot, number, error),
        };
        let kind = match &outcome.verdict {
            Verdict::Done => EventKind::Done {
                bytes_in: task.bytes,
                bytes_out: outcome.bytes_out,
            },
            Verdict::Lost(what) => EventKind::Lost(what.clone()),
            Verdict::Failed(what) => EventKind::Failed(what.clone()),
        };
        self.log_event(&task.id, machine, slot, kind);
        match outcome.verdict {
            Verdict::Done => {
                self.send(RunNotice::Done(number));
                self.schedule().done(machine, number);
            }
            Verdict::Lost(what) => {
                self.schedule().lost(machine, number, &what);
                self.note_failure(machine, &MachineError::Lost(what));
            }
            Verdict::Failed(what) => self.schedule().failed(number, &what),
        }
    }

    /// The machine failed before the task ended.
    fn not_run(&self, machine: usize, slot: u32, number: usize, error: MachineError) {
        if let MachineError::Lost(what)
        | MachineError::Refused(what)
        | MachineError::SourceDamaged(_, what)
        | MachineError::LocalDiskFull(what) = &error
        {
            let lost = EventKind::Lost(what.clone());
            self.log_event(&self.plan.tasks[number].id, machine, slot, lost);
        }
        self.note_transfer_failure(machine, machine, &error);
        self.resolve(machine, number, error);
    }
}

#[cfg(test)]
mod tests;
