//! The engine `local`: processes of this machine.

use super::{Engine, EngineSetup, RunObserver, RunOptions, RunOutcome, Verdict};
use crate::{
    base::error::{Error, Result},
    cluster::{
        plan::{Plan, Task},
        remote::{die_with_parent, lower_priority},
        run::{
            event_log::bytes_of,
            output_state::{OutputState, needed_outputs},
            programs::lacking_here,
        },
        scheduler::{
            Accepts, Inventory, LOCAL, Machine, MachineError, Machines, TaskOutcome, Transferred,
            run_on_machines,
        },
    },
};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Makes the engine for a run. The slots alone limit the number of tasks.
pub fn build(setup: EngineSetup<'_>) -> Result<Box<dyn Engine + '_>> {
    Ok(Box::new(LocalEngine {
        machine: setup.local_machine(),
        options: RunOptions {
            max_tasks: None,
            ..setup.options
        },
    }))
}

/// Runs tasks as processes of this machine.
pub struct LocalEngine<'p> {
    /// The machine, with its slots.
    pub machine: LocalMachine<'p>,
    /// How the run is carried out.
    pub options: RunOptions,
}

impl Engine for LocalEngine<'_> {
    fn run(&self, observer: &mut dyn RunObserver) -> Result<RunOutcome> {
        let LocalMachine { plan, run, .. } = &self.machine;
        for what in lacking_here(plan, run) {
            observer.warning(&what);
        }
        run_on_machines(plan, run, &self.machine, self.options, observer)
    }
}

/// This machine: each task is a process.
pub struct LocalMachine<'p> {
    /// The plan.
    pub plan: &'p Plan,
    /// dedup-shard itself.
    pub program: PathBuf,
    /// The directory of the run.
    pub run: PathBuf,
    /// How many tasks run at a time.
    pub slots: u32,
}

impl Machines for LocalMachine<'_> {
    fn list(&self) -> Vec<Machine> {
        vec![Machine {
            name: "here".to_owned(),
            slots: self.slots,
            accepts: Accepts::Any,
            is_shared: true,
        }]
    }

    fn connect(&self, _: usize) -> Result<Inventory, MachineError> {
        Ok(self.inventory())
    }

    fn transfer(&self, _: usize, _: usize, _: &[String]) -> Result<Transferred, MachineError> {
        Ok(Transferred::default())
    }

    fn stage(&self, _: usize, _: &Task) -> Result<u64, MachineError> {
        Ok(0)
    }

    fn run(&self, _: usize, _: u32, task: &Task) -> Result<TaskOutcome, MachineError> {
        let verdict = self
            .run_process(task)
            .map_err(|error| MachineError::local(&error))?;
        Ok(TaskOutcome {
            verdict,
            bytes_out: bytes_of(&self.run.join(&task.output)),
        })
    }

    fn disconnect(&self, machine: usize, _: bool) {
        debug_assert_eq!(machine, LOCAL);
    }
}

impl LocalMachine<'_> {
    /// Lists the outputs that are on disk and intact. Reads every byte of them.
    pub fn inventory(&self) -> Inventory {
        let mut inventory = Inventory::default();
        for (number, (task, state)) in needed_outputs(self.plan, &self.run).into_iter().enumerate()
        {
            match state {
                OutputState::Done => inventory.paths.push(task.output.clone()),
                OutputState::Damaged(_) => inventory.damaged.push(number),
                OutputState::Missing | OutputState::Partial => {}
            }
        }
        inventory
    }

    /// All tasks run here: with the lowest priority that any host asks for.
    fn nice(&self) -> u8 {
        let asked = self.plan.hosts.iter().map(|host| host.nice);
        asked.max().unwrap_or(0)
    }

    /// Runs a task as a process, and keeps what it writes to stderr in a log.
    pub fn run_process(&self, task: &Task) -> Result<Verdict> {
        let (log, file) = open_log(&self.run, &task.id)?;
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
        lower_priority(&mut command, self.nice());
        let status = command
            .status()
            .map_err(|error| Error::io(self.program.display(), error))?;
        let text = fs::read_to_string(&log).unwrap_or_default();
        let last = text.lines().last().unwrap_or("it wrote nothing to stderr");
        Ok(Verdict::of(
            status,
            format!("{last}; see {}", log.display()),
        ))
    }
}

/// Creates the log of an attempt at a task: `NAME.log`, then `NAME.2.log` and so on.
pub fn open_log(run: &Path, name: &str) -> Result<(PathBuf, File)> {
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
