//! dedup-shard status: how far a run got, how fast, and where.

use super::super::output::Output;
use crate::{
    base::{codec, num::ToU64},
    cluster::{
        EventLog, Host, OutputState, Plan, RunSummary, Task, TaskStage, output_states, ranges,
        size, time, write_report,
    },
};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::{collections::HashSet, io::Write, path::Path};

#[derive(Args, Debug)]
pub struct StatusArgs {
    /// The directory that plan made
    #[arg(value_name = "RUN")]
    pub run: std::path::PathBuf,
    #[command(flatten)]
    _quiet: super::super::args::QuietArgs,
    /// Only the ids of tasks that are not done, one a line
    #[arg(long, conflicts_with = "json")]
    missing: bool,
    /// How to list missing tasks: ids, or for each kind the numbers of its tasks, such as 0,3-5, for the array of a Slurm job
    #[arg(long = "as", value_enum, value_name = "FORM", default_value_t = Form::Ids, requires = "missing")]
    form: Form,
    /// Everything as one JSON object
    #[arg(long)]
    json: bool,
    /// Also write RUN/report.html: when each task ran, and where
    #[arg(long)]
    report: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Ids,
    Array,
}

/// The state of the files on disk.
struct Found<'p> {
    stages: Vec<TaskStage<'p>>,
    states: Vec<(&'p Task, OutputState)>,
    /// Tasks whose outputs are not here, but on the hosts that did them, as far as is known.
    elsewhere: HashSet<&'p str>,
}

impl<'p> Found<'p> {
    fn new(plan: &'p Plan, run: &Path, summary: &RunSummary) -> Self {
        let shares = |host: &&Host| {
            host.shared
                .as_ref()
                .is_some_and(|shared| run.starts_with(shared))
        };
        let hosts: Vec<String> = plan
            .hosts
            .iter()
            .filter(|host| !shares(host))
            .map(Host::label)
            .collect();
        let states = output_states(plan, run);
        let done = summary.done_on(&hosts);
        let is_elsewhere = |(task, state): &&(&'p Task, OutputState)| {
            matches!(state, OutputState::Missing | OutputState::Partial)
                && !task.kind().is_central()
                && done.contains(task.id.as_str())
        };
        let elsewhere = states
            .iter()
            .filter(is_elsewhere)
            .map(|(task, _)| task.id.as_str())
            .collect();
        Self {
            stages: TaskStage::all(plan),
            states,
            elsewhere,
        }
    }

    /// Outputs that no host is known to have.
    fn to_do(&self) -> Vec<&'p Task> {
        self.missing()
            .into_iter()
            .filter(|task| !self.elsewhere.contains(task.id.as_str()))
            .collect()
    }

    fn missing(&self) -> Vec<&'p Task> {
        self.states
            .iter()
            .filter(|(_, state)| *state != OutputState::Done)
            .map(|(task, _)| *task)
            .collect()
    }

    fn damaged(&self) -> impl Iterator<Item = (&str, &str)> {
        self.states.iter().filter_map(|(task, state)| match state {
            OutputState::Damaged(what) => Some((task.id.as_str(), what.as_str())),
            OutputState::Missing | OutputState::Partial | OutputState::Done => None,
        })
    }

    /// Of each kind: its name, tasks done and in all, their bytes done and in all, and how many of those done are not here.
    fn kinds(&self) -> Vec<(&str, [u64; 5])> {
        let missing = self.to_do();
        let mut kinds = Vec::new();
        for stage in &self.stages {
            let todo = || {
                stage
                    .tasks
                    .iter()
                    .filter(|task| missing.iter().any(|other| other.id == task.id))
            };
            let elsewhere = stage
                .tasks
                .iter()
                .filter(|task| self.elsewhere.contains(task.id.as_str()))
                .count()
                .to_u64();
            let (all, bytes) = (
                stage.tasks.len().to_u64(),
                stage.tasks.iter().map(|task| task.bytes).sum::<u64>(),
            );
            let done = [
                all - todo().count().to_u64(),
                all,
                bytes - todo().map(|task| task.bytes).sum::<u64>(),
                bytes,
                elsewhere,
            ];
            kinds.push((stage.name.as_str(), done));
        }
        kinds
    }
}

/// Writes what was asked for.
pub fn show(args: &StatusArgs, plan: &Plan, run: &Path) -> Result<(), anyhow::Error> {
    let mut out = Output::open(None, false)?;
    if args.missing {
        return Ok(show_missing(
            &Found::new(plan, run, &RunSummary::default()),
            args.form,
            &mut out,
        )?);
    }
    let summary = RunSummary::new(plan, &EventLog::read(run)?);
    let found = Found::new(plan, run, &summary);
    if args.report {
        write_report(plan, &summary, run)?;
    }
    if args.json {
        return Ok(writeln!(
            out,
            "{}",
            codec::to_json(&to_json(plan, &found, &summary))
        )?);
    }
    for (name, [done, all, bytes_done, bytes, elsewhere]) in found.kinds() {
        let on_hosts = if elsewhere > 0 {
            format!(", {elsewhere} on hosts")
        } else {
            String::new()
        };
        writeln!(
            out,
            "{name:8}{done:>5} of {all:<5}{bytes_done:>15} of {bytes} bytes{on_hosts}"
        )?;
    }
    for (task, what) in found.damaged() {
        writeln!(
            out,
            "{task}: {}; it will be made again",
            what.escape_debug()
        )?;
    }
    Ok(show_hosts(plan, &found, &summary, &mut out)?)
}

fn show_missing(found: &Found<'_>, form: Form, out: &mut impl Write) -> std::io::Result<()> {
    let missing = found.missing();
    if form == Form::Ids {
        return missing
            .iter()
            .try_for_each(|task| writeln!(out, "{}", task.id));
    }
    for stage in &found.stages {
        let places = stage
            .tasks
            .iter()
            .enumerate()
            .filter(|(_, task)| missing.iter().any(|other| other.id == task.id));
        let places: Vec<usize> = places.map(|(place, _)| place).collect();
        if !places.is_empty() {
            writeln!(out, "{} {}", stage.name, ranges(&places))?;
        }
    }
    Ok(())
}

fn show_hosts(
    plan: &Plan,
    found: &Found<'_>,
    summary: &RunSummary,
    out: &mut impl Write,
) -> std::io::Result<()> {
    if summary.hosts.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n{:20}{:>6}{:>8}{:>6}{:>12}{:>14}{:>12}",
        "host", "slots", "done", "lost", "documents", "a slot's rate", "moved"
    )?;
    for host in &summary.hosts {
        let (bytes, rate) = (
            size(host.bytes),
            format!("{}/s", size(host.bytes_per_second())),
        );
        // Names come from others.
        let name = host.name.escape_debug().to_string();
        write!(
            out,
            "{name:20}{:>6}{:>8}{:>6}{bytes:>12}{rate:>14}{:>12}",
            host.slots,
            host.tasks,
            host.lost,
            size(host.moved)
        )?;
        match &host.out {
            Some(what) => writeln!(out, "  out: {}", what.escape_debug())?,
            None => writeln!(out)?,
        }
    }
    if !summary.transfers.is_empty() {
        writeln!(
            out,
            "\n{:20}{:>6}{:>12}{:>22}",
            "moved", "moves", "bytes", "from host to host"
        )?;
    }
    for (kind, of) in summary.by_kind() {
        writeln!(
            out,
            "{:20}{:>6}{:>12}{:>22}",
            kind.escape_debug().to_string(),
            of.transfers,
            size(of.bytes),
            size(of.direct)
        )?;
    }
    let missing = found.to_do();
    match summary.seconds_left(plan, &missing) {
        Some(seconds) if !missing.is_empty() => writeln!(
            out,
            "about {} left, at the rates so far",
            time(1000 * seconds)
        ),
        _ => Ok(()),
    }
}

fn to_json(plan: &Plan, found: &Found<'_>, summary: &RunSummary) -> serde_json::Value {
    let kinds = found.kinds().into_iter().map(
        |(kind, [done, all, bytes_done, bytes, elsewhere])| json!({"kind": kind, "done": done, "tasks": all, "bytes_done": bytes_done, "bytes": bytes, "on_hosts": elsewhere}),
    );
    let goods =
        summary.by_kind().into_iter().map(|(kind, of)| json!({"goods": kind, "moves": of.transfers, "bytes": of.bytes, "direct": of.direct}));
    let hosts = summary.hosts.iter().map(|host| {
        json!({"host": host.name, "slots": host.slots, "tasks": host.tasks, "lost": host.lost, "busy_ms": host.busy_ms, "bytes": host.bytes,
               "bytes_per_slot_second": host.bytes_per_second(), "moved": host.moved, "out": host.out})
    });
    let missing = found.missing();
    let ids: Vec<&str> = missing.iter().map(|task| task.id.as_str()).collect();
    json!({
        "kinds": kinds.collect::<Vec<_>>(),
        "missing": ids,
        "damaged": found.damaged().map(|(task, what)| json!({"task": task, "what": what})).collect::<Vec<_>>(),
        "hosts": hosts.collect::<Vec<_>>(),
        "rates": summary.rates(plan),
        "moved": summary.moved(),
        "moved_by_goods": goods.collect::<Vec<_>>(),
        "seconds_left": summary.seconds_left(plan, &found.to_do()),
    })
}
