//! The commands of Slurm: squeue, scancel, scontrol and others.

use crate::base::error::{Error, Result};
use std::{
    io::Write,
    process::{Command, Stdio},
};

/// The default of Slurm, if scontrol does not say.
const MAX_ARRAY_SIZE: usize = 1001;

/// A job of this run in the queue of Slurm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedJob {
    /// The id of its array.
    pub array: String,
    /// Its index in the array.
    pub index: String,
    /// Its state, as Slurm names it.
    pub state: String,
    /// Where it runs, or why it does not.
    pub at: String,
}

/// The indices of an array must be below this.
pub(super) fn max_array_size() -> usize {
    let text = call("scontrol", &["show".to_owned(), "config".to_owned()], "").unwrap_or_default();
    let line = text.lines().find_map(|line| {
        line.strip_prefix("MaxArraySize")?
            .trim()
            .strip_prefix('=')?
            .trim()
            .parse()
            .ok()
    });
    line.filter(|&size| size > 0).unwrap_or(MAX_ARRAY_SIZE)
}

/// Lists the jobs with these names, each element by itself.
pub(super) fn queue(names: &[String]) -> Result<Vec<QueuedJob>> {
    let words = ["-h", "-r", "-o", "%F|%K|%T|%R"].map(str::to_owned);
    let output = call(
        "squeue",
        &[words.as_slice(), &[format!("--name={}", names.join(","))]].concat(),
        "",
    )?;
    let job = |line: &str| {
        let mut fields = line.trim().splitn(4, '|').map(str::to_owned);
        Some(QueuedJob {
            array: fields.next()?,
            index: fields.next()?,
            state: fields.next()?,
            at: fields.next()?,
        })
    };
    Ok(output.lines().filter_map(job).collect())
}

/// Cancels jobs, best effort: jobs that are missed end by themselves.
pub(super) fn cancel<'a>(ids: impl Iterator<Item = &'a str>, only_pending: bool) {
    let ids: Vec<String> = ids.map(str::to_owned).collect();
    if !ids.is_empty() {
        let words = if only_pending {
            vec!["--state=PENDING".to_owned()]
        } else {
            Vec::new()
        };
        let _ = call("scancel", &[words, ids].concat(), "");
    }
}

/// Runs a program of Slurm, and returns its stdout.
pub(super) fn call(program: &str, words: &[String], stdin: &str) -> Result<String> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::Usage(format!(
            "{program} is not on the PATH; is this a machine of a Slurm cluster?"
        )),
        _ => Error::io(program, error),
    };
    let mut command = Command::new(program);
    let mut child = command
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut pipe) = child.stdin.take() {
        // If the program ends early, its status says why.
        let _ = pipe.write_all(stdin.as_bytes());
    }
    let output = child.wait_with_output().map_err(failed)?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::Usage(format!(
            "{program} failed ({}): {stderr}",
            output.status
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
