//! dedup-tokenize: documents to tokens.

use super::{
    Manual, Tool,
    args::{StreamArgs, TokenArgs},
    generate::{What, examples},
    main_of, run_stream,
};
use crate::commands::{TokenizeOptions, tokenize};
use clap::Parser;
use std::process::ExitCode;

/// Turn documents into tokens
///
/// Reads documents and writes a record for each with its normalised tokens: one JSON object a line, or the binary form of the same. Two documents whose tokens are equal
/// have the same hash: they are exact duplicates. A token stream is read, too, and written in the form asked for.
#[derive(Parser, Debug)]
#[command(name = "dedup-tokenize", version, after_help = examples(&MANUAL), max_term_width = 110)]
pub struct Arguments {
    #[command(flatten)]
    tokens: TokenArgs,
    /// Add each token's byte span in the original text
    #[arg(long, help_heading = "Tokens")]
    spans: bool,
    #[command(flatten)]
    stream: StreamArgs,
}

const MANUAL: Manual = Manual {
    examples: &[
        (
            "dedup-tokenize corpus/ | dedup-blot | head -3",
            "Blots of all files in a directory",
        ),
        (
            "dedup-tokenize --spans essay.txt",
            "The words of one text, and where they stand",
        ),
        (
            "dedup-tokenize --binary -o corpus.tokens articles.jsonl.zst",
            "A compressed collection of JSON lines, kept in binary form",
        ),
        (
            "find src -name '*.rs' -print0 | dedup-tokenize --tokenizer code --files-from - -0",
            "Source code",
        ),
        ("dedup-tokenize < corpus.tokens", "Binary form to NDJSON"),
    ],
    sections: &[(
        "TOKENIZERS",
        &[
            "word: runs of letters, marks and digits. Full case folding (Straße and STRASSE agree), compatibility forms unified (ﬁ and fi, full-width and plain letters), both normal forms of accented \
             letters agree, an apostrophe inside a word is dropped (doesn't, doesn’t and doesnt agree), soft hyphens and joiners too. Each Han or kana character, and each Thai, Lao, Khmer or Myanmar \
             cluster, is a token of its own.",
            "char:N: overlapping runs of N letters; everything else vanishes, so that split, joined and hyphenated words agree. For text from scanners.",
            "line: lines that are not blank, white space folded, case kept.",
            "code: identifiers, numbers, strings, operators and brackets of source code in any of the usual languages; comments are dropped. code-norm: the same, with names (but keywords), numbers and \
             strings each reduced to a class, so that renaming hides nothing.",
            "dna: the bases a, c, g, t of FASTA records, n for any other. Blots are made so that a strand and its reverse complement share them.",
        ],
    )],
    see_also: &[("dedup", 7), ("dedup-blot", 1), ("dedup-stream", 5)],
};

impl Tool for Arguments {
    const MANUAL: Manual = MANUAL;

    fn generate(&self) -> Option<What> {
        self.stream.generate
    }

    fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let options = TokenizeOptions {
            tokenizer: self.tokens.tokenizer(),
            with_spans: self.spans,
        };
        let settings = self.stream.settings(self.tokens.is_dna());
        run_stream::<Self>(&self.stream, |out, watch| {
            Ok(tokenize(&options, &settings, out, watch)?)
        })
    }
}

/// Runs dedup-tokenize with the arguments of the process.
pub fn main() -> ExitCode {
    main_of::<Arguments>()
}
