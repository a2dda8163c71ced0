//! dedup-blot: documents or tokens to blots.

use super::{
    Manual, Tool,
    args::{RunArgs, TokenArgs},
    generate::examples,
    main_of,
};
use crate::{
    blot,
    pipeline::{self, BlotOptions, Summary, Watch},
    scheme::BITS,
};
use clap::Parser;
use std::{io::Write, process::ExitCode};

/// Turn documents or tokens into blots
///
/// A blot is the hash of a window of k tokens. Documents that share text share blots. Reads what dedup-tokenize writes, or documents as it reads them, and writes a record
/// for each document with its blots: one JSON object a line, or the binary form of the same. A blot stream is read, too, and written in the form asked for.
#[derive(Parser, Debug)]
#[command(name = "dedup-blot", version, after_help = examples(&MANUAL), max_term_width = 110)]
struct Arguments {
    #[command(flatten)]
    blots: BlotArgs,
    #[command(flatten)]
    tokens: TokenArgs,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Blots")]
struct BlotArgs {
    /// Tokens of a window [default: 8, for dna 31]
    #[arg(short, value_name = "N", value_parser = clap::value_parser!(u32).range(range(blot::K)))]
    k: Option<u32>,
    /// ordered or xor [default: ordered]
    ///
    /// ordered: the order of tokens counts. xor: it does not, and words that occur twice in a window cancel (as dupi does it).
    #[arg(long, value_name = "NAME")]
    scheme: Option<String>,
    /// Make windows of every Nth token: N streams, token i in stream i mod N [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(range(blot::INTERLEAVE)))]
    interleave: Option<u32>,
    /// Width of a blot, 16 to 64 [default: 32]
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u8).range(i64::from(*BITS.start())..=i64::from(*BITS.end())))]
    bits: Option<u8>,
    /// Which blots to keep: all, mod:N, every:N, winnow:W, anchor:FILE, or several with commas [default: all]
    ///
    /// mod:N: blots that N divides. every:N: the first of each N. winnow:W: the least of each W neighbours, so that W+k-1 shared tokens in a row always share a blot.
    /// anchor:FILE: windows that start with a phrase of FILE, one a line; a * at its end stands for any ending. A chain keeps what all of it keep.
    #[arg(long, value_name = "WHICH")]
    select: Option<String>,
    /// Add the number of each window's first token
    #[arg(long)]
    positions: bool,
}

fn range(range: std::ops::RangeInclusive<u32>) -> std::ops::RangeInclusive<i64> {
    i64::from(*range.start())..=i64::from(*range.end())
}

const MANUAL: Manual = Manual {
    examples: &[
        ("dedup-tokenize corpus/ | dedup-blot > corpus.blots", "Blots of all files in a directory, step by step"),
        ("dedup-blot corpus/ > corpus.blots", "The same in one step"),
        ("dedup-blot --select winnow:4 --binary -o corpus.blots corpus/", "Two in five blots, and no shared run of 11 words missed"),
        ("dedup-blot --scheme xor -k 10 --interleave 2 scans/", "dupi's blots for noisy text"),
        ("dedup-blot --tokenizer dna genomes.fa.gz", "Sequences, whichever strand was read"),
    ],
    sections: &[(
        "BLOTS",
        &[
            "Every window of k tokens gives a blot, the first one too; a document of fewer than k tokens gives one blot of all it has, one without tokens none. A narrow blot is the beginning of the wide \
             one. How they are computed is in dedup-stream(5), and will not change.",
            "ordered is the right scheme for most work. xor finds windows whose words were swapped, at the price of many more chance matches. --interleave N makes windows of every Nth token, so that one \
             wrong token spoils fewer neighbours.",
            "winnow is the right way to keep fewer blots: unlike mod and every it guarantees that no long enough copy is missed. It keeps about 2/(W+1) of them.",
        ],
    )],
    see_also: &[("dedup", 7), ("dedup-tokenize", 1), ("dedup-stream", 5)],
};

impl Tool for Arguments {
    const MANUAL: Manual = MANUAL;

    fn run_args(&self) -> &RunArgs {
        &self.run
    }

    fn run(&self, out: &mut dyn Write, watch: &mut dyn Watch) -> Result<Summary, anyhow::Error> {
        let blots = &self.blots;
        let options = BlotOptions {
            tokenizer: self.tokens.tokenizer(),
            scheme: blots.scheme.clone(),
            k: blots.k,
            interleave: blots.interleave,
            bits: blots.bits,
            select: blots.select.clone(),
            with_positions: blots.positions,
        };
        Ok(pipeline::blot(&options, &self.run.settings(self.tokens.is_dna()), out, watch)?)
    }
}

pub fn main() -> ExitCode {
    main_of::<Arguments>()
}
