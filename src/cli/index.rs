//! dedup-index: build an index, and look after it.

use super::{
    Manual, Tool,
    args::{BlotArgs, RunArgs, TokenArgs, parse_size},
    exit_code,
    generate::{What, examples},
    main_of,
    output::Output,
    watched,
};
use crate::{
    format::Form,
    index::{Index, Stats, stats, verify},
    pipeline::{BuildOptions, build, dump, dump_blot},
};
use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use std::{
    io::{BufWriter, Write},
    path::PathBuf,
    process::ExitCode,
};

/// Build an index of blots, and look after it
///
/// An index is a directory. It knows for every blot which documents have it, each distinct set of documents stored once. The same documents give the same bytes, whatever
/// the threads, the memory and the way they came: as files, as a token stream or as a blot stream.
#[derive(Parser, Debug)]
#[command(name = "dedup-index", version, after_help = examples(&MANUAL), max_term_width = 110, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[arg(long, value_name = "WHAT", hide = true)]
    generate: Option<What>,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Build an index of documents, or of a token or blot stream
    Build(Box<BuildArgs>),
    /// Show what an index holds: documents, blots, sets, bytes on disk
    Stats(StatsArgs),
    /// Check every checksum, order, count and cross-reference of an index
    Verify(IndexArgs),
    /// Write an index as a blot stream that build reads back, or what one blot leads to
    Dump(DumpArgs),
}

#[derive(Args, Debug)]
struct BuildArgs {
    /// The directory to make; it must not be there yet
    #[arg(short, long, value_name = "IDX")]
    output: PathBuf,
    /// Cut the postings into N range parts, 1 to 256
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    parts: u32,
    /// How much memory to use before sorted runs go to disk: 256M, 4G [default: a quarter of what there is]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
    /// Where sorted runs go [default: $TMPDIR or /tmp]
    #[arg(long, value_name = "DIR")]
    tmp_dir: Option<PathBuf>,
    #[command(flatten)]
    blots: BlotArgs,
    #[command(flatten)]
    tokens: TokenArgs,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Args, Debug)]
struct IndexArgs {
    /// The directory of the index
    #[arg(value_name = "IDX")]
    index: PathBuf,
}

#[derive(Args, Debug)]
struct StatsArgs {
    #[command(flatten)]
    of: IndexArgs,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct DumpArgs {
    #[command(flatten)]
    of: IndexArgs,
    /// Only the documents that have this blot
    #[arg(long, value_name = "HEX")]
    blot: Option<String>,
    /// How much memory to use at a time; with less the index is read more often
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    memory: u64,
}

const MANUAL: Manual = Manual {
    examples: &[
        ("dedup-index build -o my.idx corpus/", "An index of all files in a directory"),
        ("dedup-tokenize corpus/ | dedup-blot | dedup-index build -o piped.idx", "The same index, byte for byte, step by step"),
        ("dedup-index build -o small.idx --select winnow:4 --memory 256M corpus/", "Fewer blots, little memory"),
        ("dedup-index stats my.idx", "What it holds"),
        ("dedup-index verify my.idx", "Whether it is whole"),
        ("dedup-index dump my.idx | dedup-index build -o copy.idx", "Out and in again"),
    ],
    sections: &[(
        "EXACT DUPLICATES",
        &[
            "Documents with the same tokens are posted once: the first is the representative, the others are its aliases, which every count still includes.",
        ],
    )],
    see_also: &[("dedup", 7), ("dedup-blot", 1), ("dedup-index", 5), ("dedup-stream", 5)],
};

impl Tool for Arguments {
    const MANUAL: Manual = MANUAL;

    fn generate(&self) -> Option<What> {
        self.generate
    }

    fn run(&self) -> Result<ExitCode, anyhow::Error> {
        match &self.command {
            Some(Command::Build(args)) => run_build(args),
            Some(Command::Stats(args)) => run_stats(args),
            Some(Command::Verify(args)) => Ok(verify(&Index::open(&args.index)?).map(|()| ExitCode::SUCCESS)?),
            Some(Command::Dump(args)) => run_dump(args),
            None => anyhow::bail!("say what to do: build, stats, verify or dump"),
        }
    }
}

fn run_build(args: &BuildArgs) -> Result<ExitCode, anyhow::Error> {
    let memory_bytes = args.memory.unwrap_or_else(|| machine_memory() / 4);
    let options = BuildOptions { blots: args.blots.options(&args.tokens), parts: args.parts, memory_bytes, tmp_dir: args.tmp_dir.clone() };
    // What is under way takes its share, but needs no more than this.
    let settings = args.run.settings(Form::Binary, (memory_bytes / 4).min(128 << 20), args.tokens.is_dna());
    let summary = watched::<Arguments>(&args.run, |watch| Ok(build(&options, &settings, &args.output, watch)?))?;
    Ok(exit_code(&summary, &args.run))
}

/// Bytes of memory of this machine, or a guess.
pub(super) fn machine_memory() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    total.map_or(4 << 30, |kilobytes| kilobytes << 10)
}

fn run_stats(args: &StatsArgs) -> Result<ExitCode, anyhow::Error> {
    let stats = stats(&Index::open(&args.of.index)?)?;
    let mut out = Output::open(None, false)?;
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&stats)?)?;
    } else {
        out.write_all(stats_table(&stats).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn stats_table(stats: &Stats) -> String {
    let number = |name: &str, value: u64| format!("{name:24}{:>16}\n", grouped(value));
    let mut table = format!("{:24}{}\n", "scheme", stats.scheme);
    for (name, value) in [
        ("generation", stats.generation),
        ("segments", stats.segments),
        ("parts", stats.parts),
        ("documents", stats.documents),
        ("  aliases", stats.aliases),
        ("bytes of text", stats.bytes),
        ("tokens", stats.tokens),
        ("postings", stats.postings),
        ("  stored", stats.postings_stored),
        ("distinct blots", stats.blots),
        ("  singletons", stats.singletons),
        ("document sets", stats.sets),
        ("  members", stats.set_members),
        ("bytes on disk", stats.disk_total),
    ] {
        table += &number(name, value);
    }
    stats.disk.iter().for_each(|(name, &bytes)| table += &number(&format!("  {name}"), bytes));
    let bits = [
        ("bits a posting", stats.bits_per_posting),
        ("bits a shared blot", stats.bits_per_shared_blot),
        ("bits a singleton", stats.bits_per_singleton),
    ];
    let df = [("documents a blot, mean", stats.df.mean), ("  sigma", stats.df.sigma)];
    bits.iter().chain(&df).for_each(|(name, value)| table += &format!("{name:24}{value:>16.2}\n"));
    let top: Vec<_> = stats.df.top.iter().map(|(length, blots)| format!("{} ({} blots)", grouped(*length), grouped(*blots))).collect();
    table + &format!("{:24}{}\n", "  most", top.join(", "))
}

/// 1234567 as 1,234,567.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

fn run_dump(args: &DumpArgs) -> Result<ExitCode, anyhow::Error> {
    let index = Index::open(&args.of.index)?;
    let mut out = BufWriter::with_capacity(1 << 18, Output::open(None, false)?);
    match &args.blot {
        None => dump(&index, args.memory, &mut out)?,
        Some(hex) => {
            let blot = u64::from_str_radix(hex, 16).ok().filter(|&blot| index.scheme.bits == 64 || blot >> index.scheme.bits == 0);
            let blot = blot.with_context(|| format!("'{hex}' is not a blot of {} bits in hex", index.scheme.bits))?;
            dump_blot(&index, blot, &mut out)?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

pub fn main() -> ExitCode {
    main_of::<Arguments>()
}
