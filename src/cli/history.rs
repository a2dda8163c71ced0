//! dedup-query --history and dedup-query history: the arguments, and the work.

use super::{
    args::read_list,
    output::Output,
    service::{self, ServiceArgs},
    stats::grouped,
};
use crate::{
    base::error::Result,
    commands::{
        Asked, HistoryOptions, Settings, Watch, ask_history, remove_from_history, sift_by_history,
    },
    history::{
        self, HistoryStats, MatchLimits, Ratio, StoreOptions, SyncPolicy,
        backend::{BackendSource, CardinalityRange, ProblemReporter},
    },
    text::{scheme::PrintScheme, token::Tokenizer},
};
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use std::{io::Write, path::PathBuf, time::Duration};

/// What can be done with a history beside asking it.
#[derive(Subcommand, Debug)]
pub enum HistoryVerb {
    /// Check every checksum, order, count and cross-reference of a history; what is wrong is named by file and byte
    Verify {
        /// The directory of the history
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// Show what a history holds: entries, files, journals, bytes on disk
    Stats {
        /// The directory of the history
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        /// As one JSON object
        #[arg(long)]
        json: bool,
    },
}

impl HistoryVerb {
    pub fn run(&self) -> Result<(), anyhow::Error> {
        match self {
            Self::Verify { directory } => history::verify(directory).map(drop)?,
            Self::Stats { directory, json } => {
                let (stats, mut out) = (history::stats(directory)?, Output::open(None, false)?);
                let text = if *json {
                    serde_json::to_string(&stats)? + "\n"
                } else {
                    stats_table(&stats)
                };
                out.write_all(text.as_bytes())?;
            }
        }
        Ok(())
    }
}

fn stats_table(stats: &HistoryStats) -> String {
    let row = |name: &str, value: u64| format!("{name:24}{:>16}\n", grouped(value));
    let mut table = format!("{:24}{}\n", "scheme", stats.scheme);
    for (name, value) in [
        ("entries", stats.entries),
        ("  removed, on disk", stats.removed),
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

#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "History")]
pub struct HistoryArgs {
    /// Compare documents with all that came before, by their prints, and add them; DIR is made if it is not there. No index is needed
    ///
    /// A line of JSON for each document, as they come: doc, and best, which is null or has the doc and the similarity of the one that is most alike.
    #[arg(long, value_name = "DIR", group = "online", conflicts_with_all = ["pairs", "passages", "chars", "output", "html", "score", "threshold", "format", "stream", "exclude", "exclude_index", "ignore_df", "blot", "between", "corpus", "exclude_quotes", "exclude_bibliography", "min_match_words", "base", "groups", "group_by", "k", "scheme", "interleave", "bits", "select"])]
    pub history: Option<PathBuf>,
    /// The least similarity that counts, such as 0.94 or 94%: the Jaccard coefficient of the bits of two prints
    #[arg(long, value_name = "X", requires = "online")]
    pub min_similarity: Option<Ratio>,
    /// Add each document to the history (what is done anyway)
    #[arg(long, requires = "online")]
    pub add: bool,
    /// Add nothing: the history is only read
    #[arg(long, requires = "online", conflicts_with = "add")]
    pub no_add: bool,
    /// Instead of answers, pass on the lines of documents that are like none before them, each as it came
    #[arg(long, requires = "online", conflicts_with = "top")]
    pub only_new: bool,
    /// When what was added must be on disk: each (before its answer), never (at the end), or so long after it, plus the time of a sync, at most
    #[arg(long, value_name = "WHEN", requires = "history", default_value = "100ms", value_parser = parse_sync, conflicts_with = "no_add")]
    pub sync_every: SyncPolicy,
    /// Forget entries that are older, such as 90m, 12h or 30d
    #[arg(long, value_name = "AGE", requires = "history", value_parser = parse_age)]
    pub max_age: Option<u32>,
    /// Forget all but the newest N entries
    #[arg(long, value_name = "N", requires = "history", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_entries: Option<u64>,
    /// Let N new entries make a file; until then they are in memory and in a journal. More files are smaller, and more work
    #[arg(long, value_name = "N", requires = "history", default_value = "262144", value_parser = clap::value_parser!(u32).range(1..=262_144), conflicts_with = "no_add")]
    pub file_entries: u32,
    /// Remove all entries of these documents, by their ids; nothing is read
    #[arg(long, value_name = "ID", requires = "history", num_args = 1.., conflicts_with_all = ["index", "paths", "files_from", "min_similarity", "add", "no_add", "only_new", "top"])]
    pub remove: Vec<String>,
    /// Remove all entries of the documents in LIST, an id a line (- for stdin)
    #[arg(long, value_name = "LIST", requires = "history", conflicts_with_all = ["index", "paths", "files_from", "min_similarity", "add", "no_add", "only_new", "top"])]
    pub remove_from: Option<PathBuf>,
}

impl HistoryArgs {
    /// Whether entries are to be removed, and nothing else is asked.
    pub fn removes(&self) -> bool {
        !self.remove.is_empty() || self.remove_from.is_some()
    }

    fn options(&self, threads: usize) -> StoreOptions {
        StoreOptions {
            threads,
            sync: self.sync_every,
            max_age_seconds: self.max_age,
            max_entries: self.max_entries,
            read_only: self.no_add,
            memtable_entries: self.file_entries,
            ..StoreOptions::default()
        }
    }

    /// What is asked for, of a history here or of servers.
    pub fn asked(
        &self,
        service: &ServiceArgs,
        top: usize,
        threads: usize,
        tokenizer: Option<&Tokenizer>,
    ) -> Result<service::Asked, anyhow::Error> {
        let min_similarity = self
            .min_similarity
            .context("say from which similarity on documents are alike: --min-similarity 0.94")?;
        let of = match &self.history {
            Some(directory) => BackendSource::Directory {
                directory: directory.clone(),
                options: StoreOptions {
                    serves: service.listen.is_some(),
                    ..self.options(threads)
                },
                cardinalities: service.buckets.unwrap_or(CardinalityRange::ALL),
            },
            None => BackendSource::Upstreams(service.upstream.clone()),
        };
        let scheme = tokenizer.map(|tokenizer| PrintScheme {
            tokens: tokenizer.scheme(),
        });
        Ok(service::Asked {
            of,
            scheme,
            wanted: MatchLimits {
                min_similarity,
                top,
            },
            add: !self.no_add,
        })
    }

    /// Answers, or passes on what is new.
    pub fn ask(
        &self,
        asked: service::Asked,
        tokenizer: Option<Tokenizer>,
        settings: &Settings,
        out: &mut impl Write,
        (watch, tell): (&mut dyn Watch, ProblemReporter),
    ) -> Result<Asked> {
        let service::Asked {
            of, wanted, add, ..
        } = asked;
        let options = HistoryOptions {
            of,
            tokenizer,
            wanted,
            add,
            tell,
        };
        if self.only_new {
            sift_by_history(&options, settings, out, watch)
        } else {
            ask_history(&options, settings, out, watch)
        }
    }

    /// Removes entries; says how many, and how many ids had none.
    pub fn remove(
        &self,
        directory: &std::path::Path,
        watch: &mut dyn Watch,
    ) -> Result<(u64, u64), anyhow::Error> {
        let listed = self
            .remove_from
            .as_deref()
            .map(|list| read_list(list, false))
            .transpose()?;
        let ids = self
            .remove
            .iter()
            .cloned()
            .map(Ok)
            .chain(listed.into_iter().flatten());
        Ok(remove_from_history(
            directory,
            &self.options(1),
            ids,
            watch,
        )?)
    }
}

/// Reads each, never, or a time such as 100ms.
fn parse_sync(text: &str) -> Result<SyncPolicy, anyhow::Error> {
    match text {
        "each" => Ok(SyncPolicy::Each),
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
            ("each", SyncPolicy::Each),
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
