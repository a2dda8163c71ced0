//! dedup-blot: documents or tokens to blots.

use super::{
    Manual, Tool,
    args::{BlotArgs, StreamArgs, TokenArgs},
    generate::{What, examples},
    main_of, run_stream,
};
use crate::commands;
use clap::Parser;
use std::process::ExitCode;

/// Turn documents or tokens into blots
///
/// A blot is the hash of a window of k tokens. Documents that share text share blots. Reads what dedup-tokenize writes, or documents as it reads them, and writes a record
/// for each document with its blots: one JSON object a line, or the binary form of the same. A blot stream is read, too, and written in the form asked for.
#[derive(Parser, Debug)]
#[command(name = "dedup-blot", version, after_help = examples(&MANUAL), max_term_width = 110)]
pub struct Arguments {
    #[command(flatten)]
    blots: BlotArgs,
    /// Add the number of each window's first token
    #[arg(long, help_heading = "Blots")]
    positions: bool,
    #[command(flatten)]
    tokens: TokenArgs,
    #[command(flatten)]
    stream: StreamArgs,
}

const MANUAL: Manual = Manual {
    examples: &[
        (
            "dedup-tokenize corpus/ | dedup-blot > corpus.blots",
            "Blots of all files in a directory, step by step",
        ),
        ("dedup-blot corpus/ > corpus.blots", "The same in one step"),
        (
            "dedup-blot --select winnow:4 --binary -o corpus.blots corpus/",
            "Two in five blots, and no shared run of 11 words missed",
        ),
        (
            "dedup-blot --scheme xor -k 10 --interleave 2 scans/",
            "dupi's blots for noisy text",
        ),
        (
            "dedup-blot --tokenizer dna genomes.fa.gz",
            "Sequences, whichever strand was read",
        ),
        (
            "dedup-blot --scheme minhash:256 corpus/ > corpus.prints",
            "One print of 256 bits for each, for dedup-query history",
        ),
    ],
    sections: &[(
        "BLOTS",
        &[
            "Every window of k tokens gives a blot, the first one too; a document of fewer than k tokens gives one blot of all it has, one without tokens none. A narrow blot is the beginning of the wide \
             one. How they are computed is in dedup-stream(5), and will not change.",
            "ordered is the right scheme for most work. xor finds windows whose words were swapped, at the price of many more chance matches. --interleave N makes windows of every Nth token, so that one \
             wrong token spoils fewer neighbours.",
            "winnow is the right way to keep fewer blots: unlike mod and every it guarantees that no long enough copy is missed: W+k\u{2212}1 tokens in a row, or with --interleave N, W+(k\u{2212}1)·N. It keeps about 2/(W+1) of them.",
            "minhash:256 makes no blots but one print of each document: 256 bits that differ as much as the sets of words do. dedup-query history finds the nearest of millions of them; an index needs blots.",
        ],
    )],
    see_also: &[("dedup", 7), ("dedup-tokenize", 1), ("dedup-stream", 5)],
};

impl Tool for Arguments {
    const MANUAL: Manual = MANUAL;

    fn generate(&self) -> Option<What> {
        self.stream.generate
    }

    fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let options = self.blots.options(&self.tokens);
        let settings = self.stream.settings(self.tokens.is_dna());
        run_stream::<Self>(&self.stream, |out, watch| {
            Ok(commands::blot(
                &options,
                self.positions,
                &settings,
                out,
                watch,
            )?)
        })
    }
}

/// Runs dedup-blot with the arguments of the process.
pub fn main() -> ExitCode {
    main_of::<Arguments>()
}
