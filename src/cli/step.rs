//! dedup-index step: from the runs of slices to an index, step by step.

use super::{args::QuietArgs, index::MeansArgs};
use crate::{
    commands::{
        CountRange, StepOptions, count_range, finish_part, join_sets, number_documents,
        reduce_range, stage_base, stage_ranges,
    },
    index::{Manifest, SegmentFiles, Since},
};
use clap::{Args, Subcommand};
use std::{ops::Range, path::PathBuf};

#[derive(Args, Debug)]
pub struct StepArgs {
    #[command(subcommand)]
    step: Step,
}

#[derive(Subcommand, Debug)]
enum Step {
    /// Number the documents of all slices: DIR/docs, and DIR/targets for who has their postings
    Number {
        /// The docs of each slice, in order
        #[arg(value_name = "DOCS", required = true)]
        slices: Vec<PathBuf>,
        #[command(flatten)]
        how: HowArgs,
    },
    /// Make of the runs of one range its DIR/postings and DIR/sets
    Reduce {
        /// What number made
        #[arg(long, value_name = "TARGETS")]
        targets: PathBuf,
        /// Also make DIR/words of the words that stand beside the runs
        #[arg(long)]
        dictionary: bool,
        /// The runs of the range, of each slice, in order
        #[arg(value_name = "RUNS", required = true)]
        runs: Vec<PathBuf>,
        #[command(flatten)]
        how: HowArgs,
    },
    /// Join the sets of all ranges: DIR/sets, and the numbers they have there in DIR/000.numbers and so on
    Sets {
        /// The sets of each range, in order
        #[arg(value_name = "SETS", required = true)]
        ranges: Vec<PathBuf>,
        #[command(flatten)]
        how: HowArgs,
    },
    /// Make the part of the index that has the postings of one range: DIR/part
    Part {
        /// The numbers of the range
        #[arg(long, value_name = "NUMBERS")]
        numbers: PathBuf,
        /// The postings of the range
        #[arg(value_name = "POSTINGS")]
        postings: PathBuf,
        #[command(flatten)]
        how: HowArgs,
    },
    /// Make a directory of links to the files of an index; if its segments pile up, they are made into one there
    Base {
        /// The index must be in the state whose manifest has this checksum
        #[arg(long, value_name = "HEX")]
        checksum: String,
        /// The index
        #[arg(value_name = "IDX")]
        index: PathBuf,
        #[command(flatten)]
        how: HowArgs,
    },
    /// Make, for each range, a directory of links to what count needs there: DIR/000 and so on
    Ranges {
        /// How many ranges
        #[arg(long, value_name = "N")]
        parts: u32,
        /// The index
        #[arg(value_name = "IDX")]
        index: PathBuf,
        #[command(flatten)]
        how: HowArgs,
    },
    /// Count what pairs of documents share in one range of an index, for dedup-extract table --counts: DIR/counts
    Count {
        /// Which range of how many, from 0: 3/8
        #[arg(long, value_name = "P/N", value_parser = parse_range)]
        range: Range<usize>,
        /// Leave out blots of more than N documents
        #[arg(long, value_name = "N", conflicts_with = "since")]
        max_df: Option<u64>,
        /// Only pairs of documents that were added, replaced or removed since commit GEN, before and after
        #[arg(long, value_name = "GEN|PIN")]
        since: Option<Since>,
        /// The index; of its parts only those of the range need be there
        #[arg(value_name = "IDX")]
        index: PathBuf,
        #[command(flatten)]
        how: HowArgs,
    },
}

/// The buckets of a range such as 3/8.
fn parse_range(text: &str) -> Result<Range<usize>, String> {
    let wrong = || format!("'{text}' is not a range such as 0/4, the first of four");
    let (part, parts) = text.split_once('/').ok_or_else(wrong)?;
    let ranges = SegmentFiles::parts(parts.parse().map_err(|_| wrong())?)
        .map_err(|error| error.to_string())?;
    ranges
        .get(part.parse::<usize>().map_err(|_| wrong())?)
        .cloned()
        .ok_or_else(wrong)
}

/// What all steps have in common.
#[derive(Args, Debug)]
struct HowArgs {
    /// The directory to make; it must not be there yet
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// What it is for: stands in DIR/built.json
    #[arg(long, value_name = "NAME")]
    of: Option<String>,
    #[command(flatten)]
    _quiet: QuietArgs,
    #[command(flatten)]
    means: MeansArgs,
    /// How many threads work [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
}

impl HowArgs {
    fn options(&self) -> StepOptions {
        StepOptions {
            of: self.of.clone(),
            means: self.means.means(self.threads),
        }
    }
}

pub fn run_step(args: &StepArgs) -> Result<(), anyhow::Error> {
    match &args.step {
        Step::Number { slices, how } => number_documents(&how.options(), slices, &how.output)?,
        Step::Reduce {
            targets,
            dictionary,
            runs,
            how,
        } => reduce_range(&how.options(), targets, runs, *dictionary, &how.output)?,
        Step::Sets { ranges, how } => {
            let buckets = SegmentFiles::parts(u32::try_from(ranges.len()).unwrap_or(u32::MAX))?;
            join_sets(&how.options(), &buckets, ranges, &how.output)?;
        }
        Step::Part {
            numbers,
            postings,
            how,
        } => finish_part(&how.options(), numbers, postings, &how.output)?,
        Step::Base {
            checksum,
            index,
            how,
        } => stage_base(&how.options(), index, checksum, &how.output)?,
        Step::Ranges { parts, index, how } => stage_ranges(index, *parts, &how.output)?,
        Step::Count {
            range,
            max_df,
            since,
            index,
            how,
        } => {
            let resolve = |since: &Since| Manifest::read(index)?.resolve(index, since);
            let of = CountRange {
                buckets: range.clone(),
                max_df: *max_df,
                since: since.as_ref().map(resolve).transpose()?,
            };
            count_range(&how.options(), index, &of, &how.output)?;
        }
    }
    Ok(())
}
