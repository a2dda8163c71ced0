use super::*;
use crate::{
    cluster::{Host, PlanOptions, Task},
    text::corpus::{FileEntry, WalkItem},
};
use proptest::prelude::*;
use std::{
    collections::{HashMap, HashSet},
    sync::atomic::{AtomicUsize, Ordering},
};

fn plan(files: usize, hosts: usize) -> Plan {
    let file = |number: usize| {
        let name = number.to_string();
        let (path, id) = (name.clone().into(), name.into());
        WalkItem::File(FileEntry {
            path,
            copy: None,
            beneath: None,
            id,
            is_named: false,
            is_regular: true,
            bytes: 1000,
            modified: [0; 2],
            part: None,
        })
    };
    let host = |number| Host {
        name: format!("h{number}"),
        user: None,
        port: None,
        slots: 2,
        dir: None,
        shared: None,
        nice: 0,
    };
    Plan::new(
        (0..files).map(file).collect(),
        (0..hosts).map(host).collect(),
        PlanOptions::example(4),
        &[],
        &HashMap::new(),
    )
    .unwrap()
    .0
}

/// Simulated machines, which fail as a list of numbers says.
struct SimulatedMachines<'p> {
    plan: &'p Plan,
    stores: Vec<Mutex<HashSet<String>>>,
    /// The host that dies, and after how many calls.
    dies: (usize, usize),
    fails: Vec<u8>,
    calls: AtomicUsize,
    /// How often a task that runs on this machine is lost.
    lost_here: AtomicUsize,
    running: AtomicUsize,
    runs: Mutex<Vec<String>>,
}

impl SimulatedMachines<'_> {
    fn has(&self, store: usize, path: &str) -> bool {
        let store = self.stores[store].lock().unwrap();
        store.contains(path)
            || self
                .plan
                .maker(path)
                .is_some_and(|task| store.contains(&task.output))
            || path.starts_with("slices/")
    }

    fn call(&self, machine: usize) -> Result<(), MachineError> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let is_dead = machine == self.dies.0 && call >= self.dies.1;
        let is_bad = machine != LOCAL && self.fails.get(call).is_some_and(|&fails| fails == 0);
        if is_dead || is_bad {
            Err(MachineError::Lost(format!("call {call}")))
        } else {
            Ok(())
        }
    }
}

impl Machines for SimulatedMachines<'_> {
    fn list(&self) -> Vec<Machine> {
        let machine = |number| Machine {
            name: format!("p{number}"),
            slots: 2,
            accepts: if number == LOCAL {
                Accepts::Central
            } else {
                Accepts::Distributed
            },
            is_shared: number == LOCAL,
        };
        (0..self.stores.len()).map(machine).collect()
    }

    fn connect(&self, machine: usize) -> Result<Inventory, MachineError> {
        self.call(machine).map(|()| Inventory::default())
    }

    fn transfer(
        &self,
        to: usize,
        from: usize,
        paths: &[String],
    ) -> Result<Transferred, MachineError> {
        if from != LOCAL {
            self.call(from)
                .map_err(|_| MachineError::SourceLost("the source".to_owned()))?;
        }
        self.call(to)?;
        for path in paths {
            assert!(self.has(from, path), "{from} has no {path}");
            self.stores[to].lock().unwrap().insert(path.clone());
        }
        Ok(Transferred {
            bytes: 1,
            is_direct: true,
            detour: None,
        })
    }

    fn stage(&self, machine: usize, _: &Task) -> Result<u64, MachineError> {
        self.call(machine).map(|()| 1)
    }

    fn run(&self, machine: usize, _: u32, task: &Task) -> Result<TaskOutcome, MachineError> {
        self.call(machine)?;
        let running = self.running.fetch_add(1, Ordering::SeqCst);
        thread::yield_now();
        self.running.fetch_sub(1, Ordering::SeqCst);
        assert!(
            running == 0 || self.dies.1 != ONE_AT_A_TIME,
            "{running} at a time"
        );
        if machine == LOCAL
            && self
                .lost_here
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                    left.checked_sub(1)
                })
                .is_ok()
        {
            return Ok(TaskOutcome {
                verdict: Verdict::Lost("killed".to_owned()),
                bytes_out: 0,
            });
        }
        assert!(
            task.inputs.iter().all(|input| self.has(machine, input)),
            "{} at {machine}",
            task.id
        );
        self.stores[machine]
            .lock()
            .unwrap()
            .insert(task.output.clone());
        self.runs.lock().unwrap().push(task.id.clone());
        Ok(TaskOutcome {
            verdict: Verdict::Done,
            bytes_out: 1,
        })
    }

    fn disconnect(&self, _: usize, _: bool) {}
}

struct NoObserver;

impl RunObserver for NoObserver {
    fn task_done(&mut self, _: &Task) {}
    fn message(&mut self, _: &str) {}
    fn warning(&mut self, _: &str) {}
}

/// No host dies, and the first task that runs on this machine is lost.
const LOSES_ONE_HERE: usize = usize::MAX;

/// No host dies, and no two tasks run at the same time.
const ONE_AT_A_TIME: usize = usize::MAX - 1;

fn run_simulated(
    plan: &Plan,
    hosts: usize,
    dies: (usize, usize),
    fails: Vec<u8>,
) -> (Vec<Failure>, Vec<String>) {
    let directory = tempfile::tempdir().unwrap();
    let stores = (0..=hosts).map(|_| Mutex::default()).collect();
    let lost_here = AtomicUsize::new(usize::from(dies.1 == LOSES_ONE_HERE));
    let max_tasks = (dies.1 == ONE_AT_A_TIME).then_some(1);
    let machines = SimulatedMachines {
        plan,
        stores,
        dies,
        fails,
        calls: AtomicUsize::new(0),
        lost_here,
        running: AtomicUsize::new(0),
        runs: Mutex::default(),
    };
    let outcome = run_on_machines(
        plan,
        directory.path(),
        &machines,
        RunOptions {
            retries: 5,
            max_tasks,
        },
        &mut NoObserver,
    )
    .unwrap();
    let failures = match outcome {
        RunOutcome::Failed(failures) => failures,
        RunOutcome::Done | RunOutcome::Stopped => Vec::new(),
    };
    (failures, machines.runs.into_inner().unwrap())
}

#[test]
fn each_task_runs_once_if_nothing_fails() {
    let plan = plan(9, 3);
    let (failures, mut runs) = run_simulated(&plan, 3, (9, 0), Vec::new());
    let mut ids: Vec<String> = plan.tasks.iter().map(|task| task.id.clone()).collect();
    runs.sort();
    ids.sort();
    assert_eq!((failures, runs), (Vec::new(), ids));
}

#[test]
fn the_number_of_tasks_at_a_time_is_bounded() {
    let plan = plan(6, 3);
    let (failures, runs) = run_simulated(&plan, 3, (2, ONE_AT_A_TIME), Vec::new());
    assert_eq!((failures, runs.len()), (Vec::new(), plan.tasks.len()));
}

#[test]
fn a_task_lost_on_this_machine_runs_there_again() {
    let plan = plan(4, 2);
    let (failures, runs) = run_simulated(&plan, 2, (2, LOSES_ONE_HERE), Vec::new());
    assert_eq!((failures, runs.len()), (Vec::new(), plan.tasks.len()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// A host dies at some moment, and calls fail now and then: the others do all tasks, and no
    /// task runs without its inputs.
    #[test]
    fn a_run_survives_a_host_that_dies(after in 0_usize..60, fails in prop::collection::vec(0_u8..40, 80)) {
        let plan = plan(6, 3);
        let (failures, runs) = run_simulated(&plan, 3, (2, after), fails);
        // If all hosts fail, the outcome says so, and names no failed task.
        prop_assert!(failures.iter().all(|failure| matches!(failure.verdict, Verdict::Lost(_))));
        prop_assert!(!failures.is_empty() || runs.iter().any(|id| id == "gather"));
    }
}
