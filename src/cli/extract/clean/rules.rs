//! Which documents and passages go: the flags that every program has which cleans a collection.

use crate::{
    base::num::ToU64,
    cli::{progress::say, source::is_index, threshold::parse_share},
    commands::{BlotOptions, CleanRules, CutLengths, Levels, Preference, ShardList},
    similar::Score,
};
use anyhow::bail;
use clap::{Args, ValueEnum};
use std::{path::PathBuf, str::FromStr};

#[derive(Args, Debug)]
pub struct RuleArgs {
    /// Drop a document if one that stays has this share of it [default: 80%]
    #[arg(long, value_name = "P%|off")]
    pub near: Option<Near>,
    /// Cut out passages of N tokens that an earlier one has [default: off]
    ///
    /// 50 is usual for training data.
    #[arg(long, value_name = "N|off")]
    pub cut_spans: Option<CutSpans>,
    /// Also compare with other collections: indexes or documents; after SOURCE
    #[arg(long, value_name = "IDX|PATH", num_args = 1..)]
    pub against: Vec<PathBuf>,
    /// Which one stays: first, last, longest, FIELD:max … [default: first]
    ///
    /// first, last, longest, shortest, none, FIELD:max or FIELD:min. Length is counted in tokens. A field is one of the records; numbers are
    /// compared as numbers, and a document without it is preferred least. With none all copies go.
    #[arg(long, value_name = "WHICH")]
    pub keep: Option<Preference>,
    /// Prefer documents whose file or id starts with PREFIX; after SOURCE
    #[arg(long, value_name = "PREFIX", num_args = 1..)]
    pub prefer: Vec<String>,
    /// drop, or annotate: all stay, with a field dedup [default: drop]
    #[arg(long, value_name = "MODE", hide_possible_values = true)]
    pub mode: Option<CleanMode>,
    /// Write a record for each document that goes to FILE
    #[arg(long, value_name = "FILE")]
    pub dropped: Option<PathBuf>,
    /// Write a record for each passage that is cut out to FILE
    #[arg(long, value_name = "FILE")]
    pub cuts: Option<PathBuf>,
    /// Write the account to FILE, as JSON
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// What the share is of: containment (what goes), jaccard (both)
    #[arg(long, value_name = "SCORE", hide_possible_values = true)]
    pub by: Option<CleanScore>,
    /// on, or off: documents with the same tokens count as near [default: on]
    #[arg(long, value_name = "WHEN", hide_possible_values = true)]
    pub exact: Option<Switch>,
    /// Drop a document if fewer than N tokens are left of it [default: 1]
    #[arg(long, value_name = "N", requires = "cut_spans")]
    pub min_left: Option<u32>,
    /// Tokens of passages that other collections have [default: 13]
    #[arg(long, value_name = "N", requires_all = ["cut_spans", "against"])]
    pub against_span: Option<u32>,
}

/// How much of a document must be in another one for it to go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Near {
    Off,
    Share(f64),
}

impl FromStr for Near {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            _ => match parse_share(text)? {
                0.0 => Err("it must be above 0, or every document would go".to_owned()),
                share => Ok(Self::Share(share)),
            },
        }
    }
}

const DEFAULT_NEAR: f64 = 0.8;
/// What is usual for near duplicates.
const DEFAULT_WINDOW: u32 = 5;
/// Of passages that are in another collection, as for GPT-3.
const DEFAULT_AGAINST: u32 = 13;

/// How long passages are that are cut out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutSpans {
    Off,
    Tokens(u32),
}

impl FromStr for CutSpans {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            _ => match text.parse() {
                Ok(0) | Err(_) => Err("give a number of tokens, or off".to_owned()),
                Ok(tokens) => Ok(Self::Tokens(tokens)),
            },
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CleanScore {
    Containment,
    Jaccard,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CleanMode {
    Drop,
    Annotate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

impl RuleArgs {
    /// The ids of all flags.
    pub const IDS: [&'static str; 13] = [
        "near",
        "cut_spans",
        "against",
        "keep",
        "prefer",
        "mode",
        "dropped",
        "cuts",
        "report",
        "by",
        "exact",
        "min_left",
        "against_span",
    ];

    /// Which documents and passages go.
    pub fn rules(&self) -> CleanRules {
        let near = self.near.unwrap_or(Near::Share(DEFAULT_NEAR));
        CleanRules {
            levels: Levels {
                exact: self.exact != Some(Switch::Off),
                near: near != Near::Off,
            },
            score: match self.by {
                Some(CleanScore::Jaccard) => Score::Jaccard,
                Some(CleanScore::Containment) | None => Score::Inclusion,
            },
            threshold: match near {
                Near::Off => 1.0,
                Near::Share(share) => share,
            },
            cut: self.cut_tokens().map(|within| CutLengths {
                within,
                against: self.against_span.unwrap_or(DEFAULT_AGAINST),
            }),
            min_left: self.min_left.unwrap_or(1),
            keep: self.keep.clone().unwrap_or(Preference::First),
            prefer: self.prefer.clone(),
            annotate: self.annotates(),
        }
    }

    /// The first flag that was given.
    pub fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("--near", self.near.is_some()),
            ("--cut-spans", self.cut_spans.is_some()),
            ("--against", !self.against.is_empty()),
            ("--keep", self.keep.is_some()),
            ("--prefer", !self.prefer.is_empty()),
            ("--mode", self.mode.is_some()),
            ("--dropped", self.dropped.is_some()),
            ("--cuts", self.cuts.is_some()),
            ("--report", self.report.is_some()),
            ("--by", self.by.is_some()),
            ("--exact", self.exact.is_some()),
            ("--min-left", self.min_left.is_some()),
            ("--against-span", self.against_span.is_some()),
        ];
        let first = given.iter().find(|(_, is_given)| *is_given);
        first.map(|(flag, _)| *flag)
    }

    pub fn cut_tokens(&self) -> Option<u32> {
        match self.cut_spans {
            None | Some(CutSpans::Off) => None,
            Some(CutSpans::Tokens(tokens)) => Some(tokens),
        }
    }

    pub fn annotates(&self) -> bool {
        self.mode == Some(CleanMode::Annotate)
    }

    /// The indexes of other collections, and the documents of others.
    pub fn against(&self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let paths = self.against.iter().cloned();
        paths.partition(|path| is_index(path))
    }

    /// Refuses two records in one file. `has_stdout`: records may go to stdout.
    pub fn ensure_outputs_differ(&self, has_stdout: bool) -> Result<(), anyhow::Error> {
        let named = [
            ("--dropped", &self.dropped),
            ("--cuts", &self.cuts),
            ("--report", &self.report),
        ];
        for (number, (flag, path)) in named.iter().enumerate() {
            let Some(path) = path else { continue };
            if path.as_os_str() == "-" && !has_stdout {
                bail!("what stays and {flag} would both go to stdout; give one of them a file");
            }
            let same = |(_, other): &&(&str, &Option<PathBuf>)| other.as_ref() == Some(path);
            if let Some((other, _)) = named[..number].iter().find(same) {
                bail!("{flag} and {other} name the same file; give each its own");
            }
        }
        if self.cuts.is_some() && self.cut_tokens().is_none() {
            bail!("--cuts lists passages that are cut out; say which with --cut-spans N");
        }
        Ok(())
    }

    pub fn ensure_records_have_fields(&self, shards: &ShardList) -> Result<(), anyhow::Error> {
        let without = shards.shards.iter().find(|shard| !shard.form.has_fields());
        match without.filter(|_| self.annotates()) {
            None => Ok(()),
            Some(shard) => bail!(
                "{}: its records have no fields, so that none can be added; --mode annotate is for JSON, CSV, TSV and Parquet",
                shard.entry.name()
            ),
        }
    }
}

/// Blots of five tokens, unless others are asked for.
pub fn default_blots(blots: BlotOptions, is_dna: bool) -> BlotOptions {
    let is_default = blots.k.is_none() && blots.scheme.is_none() && !is_dna;
    BlotOptions {
        k: if is_default {
            Some(DEFAULT_WINDOW)
        } else {
            blots.k
        },
        ..blots
    }
}

/// Files that are named before a message about all of them.
const NAMED: usize = 5;

/// Names the files that cannot be written again, and returns how many there are. Refuses a collection that has no others.
pub fn ensure_shards(
    shards: &ShardList,
    program: &str,
    is_silent: bool,
) -> Result<u64, anyhow::Error> {
    for skipped in shards.left_out.iter().filter(|_| !is_silent) {
        say(&format!("{program}: {}", skipped.problem));
    }
    if shards.shards.is_empty() {
        for passed in shards.passed.iter().take(NAMED) {
            say(&format!("{program}: {passed}"));
        }
        bail!("no file that can be cleaned; name files or directories that hold documents");
    }
    Ok(shards.left_out.len().to_u64())
}
