//! dedup-query history: each document against all that came before it.

use super::{
    super::{
        args::{CommonArgs, InputArgs, MORE, QuietArgs, ReadArgs, RunArgs, TokenArgs, read_list},
        exit_code,
        output::{Output, grouped},
        progress::Complaints,
        watched,
    },
    PROGRAM, found_code,
    history_tools::{BackupArgs, DumpArgs, MergeArgs, RepairArgs, SplitArgs, VerifyArgs},
    serve::report_to_stderr,
};
use crate::{
    commands::{HistoryOptions, ask_history, filter_by_history, remove_from_history},
    history::{
        self, HistoryStats, MatchLimits, Ratio, StoreOptions, SyncPolicy,
        backend::{BackendSource, CardinalityRange, LogSource, ServiceAddress},
        log::{LogAddress, LogOptions, WhenLost},
    },
    text::stream::Form,
};
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use std::{
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// How long to wait for the log before it counts as out of reach.
const LOG_PATIENCE: Duration = Duration::from_secs(2);
/// How long a log may seem to end before what was applied.
const LOG_CUT_AFTER: Duration = Duration::from_secs(30);
/// Entries that are kept in memory and in a journal before they make a file.
const FILE_ENTRIES: u32 = 262_144;

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct HistoryArgs {
    #[command(subcommand)]
    verb: Option<HistoryVerb>,
    /// Directory of the history; it is created if it does not exist
    #[arg(help_heading = None::<&str>, value_name = "DIR", required_unless_present = "upstream")]
    directory: Option<PathBuf>,
    /// Documents: files, directories, - for stdin (also without any)
    #[arg(help_heading = None::<&str>, value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    ask: AskArgs,
    /// Pass on the documents that are new, unchanged, instead of answers
    #[arg(long, conflicts_with = "top")]
    only_new: bool,
    #[command(flatten)]
    store: StoreArgs,
    /// Ask a server instead of a directory; once for each server
    ///
    /// A server is started with dedup-query serve --buckets A..B.
    #[arg(long, value_name = "ADDR", help_heading = MORE)]
    upstream: Vec<ServiceAddress>,
    #[command(flatten)]
    tokens: TokenArgs,
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// How to search a history, and whether to add documents.
#[derive(Args, Debug, Clone)]
pub struct AskArgs {
    /// The least similarity that counts, also as 94% [default: 0.94]
    ///
    /// It is the Jaccard coefficient of the bits of two prints.
    #[arg(
        long,
        value_name = "X",
        default_value = "0.94",
        hide_default_value = true
    )]
    pub min_similarity: Ratio,
    /// The best N documents [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub top: Option<u32>,
    /// Add nothing to the history
    #[arg(long)]
    pub no_add: bool,
}

impl AskArgs {
    pub fn wanted(&self) -> MatchLimits {
        MatchLimits {
            min_similarity: self.min_similarity,
            top: self.top.unwrap_or(1) as usize,
        }
    }
}

/// How a history is kept.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = MORE)]
pub struct StoreArgs {
    /// Sync to disk: each, never, or after a time [default: 100ms]
    ///
    /// When what was added must be on disk: each (before its answer), never (at the end), or at most
    /// so long after it, plus the time of a sync.
    #[arg(long, value_name = "WHEN", default_value = "100ms", hide_default_value = true, value_parser = parse_sync, conflicts_with_all = ["no_add", "upstream"])]
    pub sync_every: SyncPolicy,
    /// Forget entries that are older, such as 90m, 12h or 30d
    #[arg(long, value_name = "AGE", value_parser = parse_age, conflicts_with = "upstream")]
    pub max_age: Option<u32>,
    /// Forget all but the newest N entries
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "upstream")]
    pub max_entries: Option<u64>,
    /// Write a file for every N new entries [default: 262144]
    ///
    /// Until then they are in memory and in a journal. More files are smaller, and more work.
    #[arg(long, value_name = "N", default_value_t = FILE_ENTRIES, hide_default_value = true, value_parser = clap::value_parser!(u32).range(1..=i64::from(FILE_ENTRIES)), conflicts_with_all = ["no_add", "upstream"])]
    pub file_entries: u32,
    /// Keep only prints with A to B bits set, both included
    ///
    /// That is a part of a history over several machines; see SEVERAL SERVERS.
    #[arg(long, value_name = "A..B", conflicts_with = "upstream")]
    pub buckets: Option<CardinalityRange>,
    #[command(flatten)]
    pub log: LogArgs,
}

/// The log that a history follows.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = MORE)]
pub struct LogArgs {
    /// Follow a stream of NATS JetStream: nats://HOST:PORT/STREAM
    ///
    /// All servers of a log answer as one history; see HIGH AVAILABILITY. More nodes follow after
    /// commas: nats://one:4222,two:4222,three:4222/history.
    #[arg(long, value_name = "URL", conflicts_with = "upstream")]
    pub log: Option<LogAddress>,
    /// Keep each entry of a new log on N nodes [default: 3]
    #[arg(long, value_name = "N", default_value = "3", hide_default_value = true, requires = "log", value_parser = clap::value_parser!(u8).range(1..=5))]
    pub log_replicas: u8,
    /// While the log is out of reach, say so in answers, or wait [default: say]
    #[arg(
        long,
        value_name = "say|wait",
        default_value = "say",
        hide_default_value = true,
        requires = "log"
    )]
    pub log_lost: LogLost,
    /// Begin an empty log with a history that has entries
    ///
    /// All other servers of the log then start with a backup of it.
    #[arg(long, requires = "log")]
    pub log_begin: bool,
}

/// What requests do while the log is out of reach.
#[derive(clap::ValueEnum, Debug, Clone, Copy)]
pub enum LogLost {
    /// Answers name the log in `missing`, and nothing is added.
    Say,
    /// Requests wait until it is back.
    Wait,
}

impl LogArgs {
    fn source(&self) -> Option<Box<LogSource>> {
        let address = self.log.clone()?;
        Some(Box::new(LogSource {
            options: LogOptions {
                name: address.to_string(),
                when_lost: match self.log_lost {
                    LogLost::Say => WhenLost::Say,
                    LogLost::Wait => WhenLost::Wait,
                },
                patience: LOG_PATIENCE,
                cut_after: LOG_CUT_AFTER,
                begins: self.log_begin,
            },
            address,
            replicas: usize::from(self.log_replicas),
        }))
    }
}

impl StoreArgs {
    /// The history in a directory.
    pub fn of_directory(
        &self,
        directory: &Path,
        read_only: bool,
        options: StoreOptions,
    ) -> BackendSource {
        let log = self.log.source();
        // A history that follows a log is written, also if nothing may be added through it.
        let read_only = read_only && log.is_none();
        BackendSource::Directory {
            directory: directory.to_owned(),
            log,
            options: StoreOptions {
                sync: self.sync_every,
                max_age_seconds: self.max_age,
                max_entries: self.max_entries,
                read_only,
                memtable_entries: self.file_entries,
                cardinalities: self.buckets,
                ..options
            },
        }
    }
}

/// What can be done with a history besides asking it.
#[derive(Subcommand, Debug)]
enum HistoryVerb {
    /// Show what a history holds: entries, files, journals, bytes on disk
    Stats(HistoryStatsArgs),
    /// Check every checksum, order, count and cross-reference of a history
    Verify(VerifyArgs),
    /// Write all entries as a stream of prints, in order of arrival
    Dump(DumpArgs),
    /// Copy a history, also one that a server is writing
    Backup(BackupArgs),
    /// Remove all entries of documents, by id
    Remove(HistoryRemoveArgs),
    /// Divide a history by cardinality, for several machines
    Split(SplitArgs),
    /// Join parts of a history, or other histories
    Merge(MergeArgs),
    /// Cut damaged journals after their last readable entry
    Repair(RepairArgs),
}

#[derive(Args, Debug)]
struct HistoryStatsArgs {
    /// Directory of the history
    #[arg(help_heading = None::<&str>, value_name = "DIR")]
    directory: PathBuf,
    /// As one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    _quiet: QuietArgs,
}

#[derive(Args, Debug)]
struct HistoryRemoveArgs {
    /// Directory of the history
    #[arg(help_heading = None::<&str>, value_name = "DIR")]
    directory: PathBuf,
    /// Ids of documents
    #[arg(value_name = "ID", required_unless_present = "files_from")]
    ids: Vec<String>,
    /// Read more ids from LIST, one a line (- for stdin)
    #[arg(long, value_name = "LIST")]
    files_from: Option<PathBuf>,
    /// Ids in LIST end with NUL
    #[arg(short = '0', requires = "files_from")]
    null: bool,
    /// Exit with 0 although some ids have no entries
    #[arg(long)]
    skip_bad: bool,
    /// With --skip-bad, do not name ids that have no entries
    #[arg(short, long)]
    quiet: bool,
}

impl HistoryArgs {
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        match &self.verb {
            None => self.ask(),
            Some(HistoryVerb::Stats(args)) => args.run(),
            Some(HistoryVerb::Verify(args)) => args.run(),
            Some(HistoryVerb::Dump(args)) => args.run(),
            Some(HistoryVerb::Backup(args)) => args.run(),
            Some(HistoryVerb::Remove(args)) => args.run(),
            Some(HistoryVerb::Split(args)) => args.run(),
            Some(HistoryVerb::Merge(args)) => args.run(),
            Some(HistoryVerb::Repair(args)) => args.run(),
        }
    }

    /// Writes an answer for each document, or copies the new documents.
    fn ask(&self) -> Result<ExitCode, anyhow::Error> {
        let run = self.run_args();
        let settings = run.settings(Form::Ndjson, 64 << 20, self.tokens.is_dna());
        let options = HistoryOptions {
            of: self.history(settings.limits.threads),
            tokenizer: self.tokens.tokenizer(),
            wanted: self.ask.wanted(),
            add: !self.ask.no_add,
            tell: report_to_stderr(self.common.quiet),
        };
        let mut out = BufWriter::with_capacity(1 << 16, Output::open(None, false)?);
        let asked = watched(PROGRAM, &run, true, |watch| {
            Ok(if self.only_new {
                filter_by_history(&options, &settings, &mut out, watch)?
            } else {
                ask_history(&options, &settings, &mut out, watch)?
            })
        })?;
        if self.only_new {
            Ok(exit_code(asked.problems, self.read.skip_bad))
        } else {
            Ok(found_code(&asked, self.read.skip_bad))
        }
    }

    fn history(&self, threads: usize) -> BackendSource {
        match &self.directory {
            Some(directory) if self.upstream.is_empty() => {
                let options = StoreOptions {
                    threads,
                    ..StoreOptions::default()
                };
                self.store.of_directory(directory, self.ask.no_add, options)
            }
            _ => BackendSource::Upstreams(self.upstream.clone()),
        }
    }

    fn run_args(&self) -> RunArgs {
        // With servers there is no directory: the first argument is a document, too.
        let first = self.directory.iter().filter(|_| !self.upstream.is_empty());
        RunArgs {
            input: InputArgs {
                paths: first.chain(&self.paths).cloned().collect(),
                read: self.read.clone(),
            },
            common: self.common.clone(),
        }
    }
}

impl HistoryStatsArgs {
    fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let stats = history::stats(&self.directory)?;
        let text = if self.json {
            serde_json::to_string(&stats)? + "\n"
        } else {
            stats_table(&stats)
        };
        Output::open(None, false)?.write_all(text.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }
}

impl HistoryRemoveArgs {
    fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let listed = self
            .files_from
            .as_deref()
            .map(|list| read_list(list, self.null))
            .transpose()?;
        let ids = self.ids.iter().cloned().map(Ok);
        let options = StoreOptions {
            threads: 1,
            memtable_entries: FILE_ENTRIES,
            ..StoreOptions::default()
        };
        let mut complaints = Complaints::new(PROGRAM.to_owned(), self.quiet && self.skip_bad);
        let (_, unknown) = remove_from_history(
            &self.directory,
            &options,
            ids.chain(listed.into_iter().flatten()),
            &mut complaints,
        )?;
        Ok(exit_code(unknown, self.skip_bad))
    }
}

fn stats_table(stats: &HistoryStats) -> String {
    let row = |name: &str, value: u64| format!("{name:24}{:>16}\n", grouped(value));
    let mut table = format!("{:24}{}\n", "scheme", stats.scheme);
    for (name, value) in [
        ("entries", stats.entries),
        ("  not yet dropped", stats.removed),
        ("entries that ever came", stats.arrived),
    ] {
        table += &row(name, value);
    }
    for (name, seconds) in [
        ("first came, Unix time", stats.first_time),
        ("last came, Unix time", stats.last_time),
    ] {
        table += &seconds
            .map(|seconds| format!("{name:24}{seconds:>16}\n"))
            .unwrap_or_default();
    }
    table += &format!("{:24}{}\n", "identity", stats.identity);
    table += &format!("{:24}{}\n", "cardinalities", stats.buckets);
    if let Some(log) = &stats.log {
        table += &format!("{:24}{}\n", "log", log.identity);
        table += &row("  applied up to entry", log.position);
    }
    table += &row("bytes on disk", stats.bytes);
    let segments = stats
        .segments
        .iter()
        .map(|segment| (&segment.file, segment.entries, segment.bytes, 0));
    let journals = stats.journals.iter().map(|journal| {
        (
            &journal.file,
            journal.entries,
            journal.bytes,
            journal.unfinished_bytes,
        )
    });
    for (file, entries, bytes, unfinished_bytes) in segments.chain(journals) {
        table += &format!(
            "  {file:22}{:>16} bytes{:>16} entries\n",
            grouped(bytes),
            grouped(u64::from(entries))
        );
        if unfinished_bytes > 0 {
            table += &row("    unfinished, in bytes", unfinished_bytes);
        }
    }
    table
}

/// Reads each, never, or a time such as 100ms.
fn parse_sync(text: &str) -> Result<SyncPolicy, anyhow::Error> {
    match text {
        "each" => Ok(SyncPolicy::EveryBatch),
        "never" => Ok(SyncPolicy::Never),
        _ => match parse_milliseconds(text) {
            Some(milliseconds @ 1..=86_400_000) => {
                Ok(SyncPolicy::Interval(Duration::from_millis(milliseconds)))
            }
            _ => bail!("'{text}' is neither each, never nor a time such as 100ms or 1m"),
        },
    }
}

fn parse_age(text: &str) -> Result<u32, anyhow::Error> {
    let seconds = parse_milliseconds(text)
        .and_then(|milliseconds| u32::try_from(milliseconds / 1000).ok())
        .filter(|&seconds| seconds > 0);
    seconds.with_context(|| format!("'{text}' is not an age such as 90m, 12h or 30d"))
}

/// Reads 100ms, 5s, 90m, 12h or 30d.
fn parse_milliseconds(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let interval = |milliseconds| SyncPolicy::Interval(Duration::from_millis(milliseconds));
        for (text, expected) in [
            ("each", SyncPolicy::EveryBatch),
            ("never", SyncPolicy::Never),
            ("100ms", interval(100)),
            ("2m", interval(120_000)),
        ] {
            assert_eq!(parse_sync(text).unwrap(), expected);
        }
        assert_eq!(
            [
                parse_age("90m").unwrap(),
                parse_age("12h").unwrap(),
                parse_age("30d").unwrap()
            ],
            [5400, 43_200, 2_592_000]
        );
        for wrong in ["", "5", "0ms", "2d", "always", "-1s"] {
            assert!(parse_sync(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "30", "5ms", "99999999d", "1y"] {
            assert!(parse_age(wrong).is_err(), "{wrong}");
        }
    }
}
