//! dedup-extract clean: NDJSON files without their duplicates.

use super::{
    super::{
        exclusions::ExcludeArgs,
        exit_code,
        output::Packed,
        progress::say,
        source::{Reading, Source, SourceArgs},
        threshold::parse_share,
        watched,
    },
    PROGRAM,
    keep::KeepArgs,
    records::{OutputArgs, tell_what_stays},
    scoring::leave_out,
};
use crate::{
    commands::{CleanOptions, Cleaned, WantedPairs, clean},
    similar::Score,
};
use anyhow::bail;
use clap::{Args, ValueEnum};
use indicatif::{BinaryBytes, HumanCount};
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    str::FromStr,
};

#[derive(Args, Debug)]
pub struct CleanArgs {
    #[command(flatten)]
    file: OutputArgs,
    /// Drop a document if this share of it is in one that stays [default: 80%]
    ///
    /// With off only exact duplicates are dropped.
    #[arg(long, value_name = "P%|off")]
    near: Option<Near>,
    #[command(flatten)]
    keep: KeepArgs,
    /// Write a record for each document that is dropped to FILE
    #[arg(long, value_name = "FILE")]
    dropped: Option<PathBuf>,
    /// What the share is of: containment (the document), jaccard (both)
    #[arg(long, value_name = "SCORE", hide_possible_values = true)]
    by: Option<CleanScore>,
    #[command(flatten)]
    excluded: ExcludeArgs,
    #[command(flatten)]
    source: SourceArgs,
}

/// How much of a document must be in another one for it to go.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Near {
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

impl Near {
    const DEFAULT: Self = Self::Share(0.8);

    /// No share reaches the threshold of `Off`.
    fn threshold(self) -> f64 {
        match self {
            Self::Off => 2.0,
            Self::Share(share) => share,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum CleanScore {
    Containment,
    Jaccard,
}

impl CleanArgs {
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        self.ensure_outputs_differ()?;
        let source = self.source.open(PROGRAM, Reading::Again, false)?;
        tell_what_stays(&self.source, &source, &self.excluded);
        let options = self.options();
        let mut out = Packed::open(self.file.output.as_deref())?;
        let mut dropped = self
            .dropped
            .as_deref()
            .map(|path| Packed::open(Some(path)))
            .transpose()?;
        let run = self.source.run(source.paths.clone());
        let settings = self.source.settings(source.paths.clone(), false);
        let cleaned = watched(PROGRAM, &run, true, |watch| {
            let dropped = dropped.as_mut().map(|dropped| dropped as &mut dyn Write);
            Ok(clean(
                &options,
                &source.index,
                &settings,
                &mut out,
                dropped,
                watch,
            )?)
        })?;
        dropped.map_or(Ok(()), Packed::commit)?;
        out.commit()?;
        if !self.source.common.quiet {
            print_account(&source, &cleaned);
        }
        Ok(exit_code(cleaned.problems, self.source.read.skip_bad))
    }

    fn options(&self) -> CleanOptions {
        CleanOptions {
            score: match self.by {
                Some(CleanScore::Jaccard) => Score::Jaccard,
                Some(CleanScore::Containment) | None => Score::Inclusion,
            },
            threshold: self.near.unwrap_or(Near::DEFAULT).threshold(),
            max_df: self.excluded.max_df,
            keep: self.keep.keep(),
            limits: self.source.limits(),
            leave_out: leave_out(&self.excluded, WantedPairs::default()),
        }
    }

    fn ensure_outputs_differ(&self) -> Result<(), anyhow::Error> {
        let is_stdout = |path: Option<&Path>| path.is_none_or(|path| path.as_os_str() == "-");
        let output = self.file.output.as_deref();
        if let Some(dropped) = self.dropped.as_deref()
            && (is_stdout(Some(dropped)) && is_stdout(output) || output == Some(dropped))
        {
            bail!(
                "what is kept and what is dropped would go to one place; give -o and --dropped two files"
            );
        }
        Ok(())
    }
}

/// Says on stderr what was read, kept and dropped, and what may be wrong.
fn print_account(source: &Source, cleaned: &Cleaned) {
    for line in account(&source.name, cleaned) {
        say(&format!("{PROGRAM}: {line}"));
    }
}

fn account(index: &str, cleaned: &Cleaned) -> Vec<String> {
    let Cleaned {
        read,
        dropped_exact,
        dropped_near,
        unknown,
        changed,
        ..
    } = *cleaned;
    let mut lines = vec![format!(
        "{} documents read ({}), {} kept ({}), {} dropped as exact duplicates, {} as near duplicates",
        HumanCount(read),
        BinaryBytes(cleaned.bytes_read),
        HumanCount(cleaned.kept()),
        BinaryBytes(cleaned.bytes_kept),
        HumanCount(dropped_exact),
        HumanCount(dropped_near),
    )];
    if !cleaned.largest.is_empty() {
        let group = |(id, dropped): &(String, u64)| {
            format!("'{}' ({})", id.escape_debug(), HumanCount(*dropped))
        };
        lines.push(format!(
            "most were dropped for {}",
            cleaned
                .largest
                .iter()
                .map(group)
                .collect::<Vec<_>>()
                .join(", ")
        ));
    }
    if unknown > 0 {
        let hint = if unknown == read {
            "; is it the index of this corpus, and --id-field as it was built with?"
        } else {
            ""
        };
        lines.push(format!(
            "{unknown} of {read} documents are not in {index}, and are kept{hint}"
        ));
    }
    if changed > 0 {
        lines.push(format!("{changed} of {read} documents have another text than in {index}, and are kept; bring the index up to date"));
    }
    if cleaned.dropped() > cleaned.kept() {
        let remedy = "look at --dropped FILE before you throw the originals away; a higher --near, --max-df or --exclude-text keep more";
        lines.push(format!(
            "warning: more than half of the documents were dropped; {remedy}"
        ));
    }
    lines
}

/// The section of the manual.
pub const CLEAN: &[&str] = &[
    "clean copies the lines of NDJSON files as they are, byte for byte and in their order, but for those of duplicates. Documents are visited in order of preference (--keep: first, the order of the lines; last; longest; shortest; of equals \
                 the first line). Each is decided when it is visited: it is dropped if a document that stays has the same tokens (exact), or if at least 80 % (--near) of its own distinct blots are in a single document that stays (near; --near off drops exact duplicates only). So \
                 a long document is never dropped because a short one is in it, there are no chains, and the answer is the same whatever commits made the index. With --by jaccard what both share is divided by what either has.",
    "Only documents of the input count: nothing is dropped because of a document that the index has and the input does not. Files may be packed (.gz, .zst); --records ndjson reads files of other names. --keep first needs no more than a look at each line; for the others all lines are \
                 stored in a temporary file first, packed, in the directory that TMPDIR names. --exclude-text, --exclude-index, --base and --max-df leave out boilerplate, which then counts on neither side.",
    "Nothing else is lost: a document that the index does not have, or has with another text, is kept and counted; a line that is no document (not JSON, no text) is kept and named, and the status is 2 (0 with --skip-bad); so is a \
                 second line with an id that came before. A blank line is kept. A last line without a line feed gets one. A file that is cut or damaged ends the run with status 2: -o leaves no file then.",
    "--dropped FILE gets for each line that was dropped doc, duplicate_of (a document that was kept: the one that has most of it, of equals the one visited first), reason (exact or near), shared (blots), share (shared ÷ blots of doc). \
                 At the end stderr has an account: documents and bytes read and kept, documents dropped as exact and near duplicates, those for which most others were dropped, and a warning if more than half went; -q silences it.",
];
