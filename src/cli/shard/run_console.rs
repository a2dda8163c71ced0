//! The progress of a run on stderr, and the signals that stop it.

use super::super::progress::{TaskBar, say_lines};
use crate::cluster::{QueuedJob, RunObserver, Task};
use anyhow::Context;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};
use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

/// Shows a bar, messages and warnings; an engine that waits for jobs can be stopped by a signal.
pub struct RunConsole {
    tool: String,
    bar: TaskBar,
    is_quiet: bool,
    signals: Option<Receiver<()>>,
}

impl RunConsole {
    /// Messages start with the name of the program.
    pub fn new(tool: String, bar: TaskBar, is_quiet: bool) -> Self {
        Self {
            tool,
            bar,
            is_quiet,
            signals: None,
        }
    }

    /// Ctrl-C and SIGTERM end the next pause instead of the process.
    pub fn catch_signals(&mut self) -> Result<(), anyhow::Error> {
        let (send, signals) = channel();
        let mut caught = Signals::new([SIGINT, SIGTERM]).context("a handler of signals")?;
        thread::spawn(move || caught.forever().try_for_each(|_| send.send(())));
        self.signals = Some(signals);
        Ok(())
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish();
    }
}

impl RunObserver for RunConsole {
    fn task_done(&mut self, task: &Task) {
        self.bar.done(task.bytes);
    }

    fn message(&mut self, text: &str) {
        self.bar
            .suspend(|| say_lines(&format!("{}: {text}", self.tool)));
    }

    fn warning(&mut self, text: &str) {
        if !self.is_quiet {
            self.message(&format!("warning: {text}"));
        }
    }

    fn jobs(&mut self, jobs: &[QueuedJob]) {
        let mut hosts: Vec<&str> = jobs
            .iter()
            .filter(|job| job.state == "RUNNING")
            .map(|job| job.at.as_str())
            .collect();
        hosts.sort_unstable();
        let waiting = jobs.len() - hosts.len();
        let on = if hosts.is_empty() {
            String::new()
        } else {
            format!(" on {}", hosts.join(" "))
        };
        self.bar
            .runs(&format!("{} run{on}, {waiting} wait", hosts.len()));
    }

    fn pause(&mut self, time: Duration) -> bool {
        match &self.signals {
            Some(signals) => !matches!(signals.recv_timeout(time), Err(RecvTimeoutError::Timeout)),
            None => {
                thread::sleep(time);
                false
            }
        }
    }
}
