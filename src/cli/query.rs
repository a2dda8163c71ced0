//! dedup-query: what in an index shares text with a document.

use super::{
    Manual, Tool,
    args::{BlotArgs, RunArgs, TokenArgs},
    generate::{What, examples},
    main_of,
    output::Output,
    watched,
};
use crate::{
    format::Form,
    index::Index,
    pipeline::{Answers, QueryOptions, blot_text, query},
    report::Format,
    similar::Score,
    token::Tokenizer,
};
use anyhow::{Context, bail};
use clap::{Parser, builder::PossibleValuesParser};
use std::{
    io::{BufWriter, Write},
    path::PathBuf,
    process::ExitCode,
};

/// Find what in an index shares text with a document
///
/// Prints the documents of an index that share text with each document that is given, the most similar first. Line breaks, case and punctuation make no difference. The
/// documents that are asked about need not be in the index, and are not added to it.
#[derive(Parser, Debug)]
#[command(name = "dedup-query", version, after_help = examples(&MANUAL), max_term_width = 110, arg_required_else_help = true)]
struct Arguments {
    /// The directory of the index
    #[arg(value_name = "IDX", required_unless_present = "generate")]
    index: Option<PathBuf>,
    /// The best N documents for each that is asked about
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    top: u32,
    /// What a document is judged by: containment, jaccard, s1, s2, s3, s4
    #[arg(long, value_name = "SCORE", default_value = "containment", value_parser = PossibleValuesParser::new(Score::NAMES.map(|(name, ..)| name)))]
    score: String,
    /// The least score that counts; a document has at least one blot in common
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    threshold: f64,
    /// ndjson or tsv [default: ndjson]
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(["ndjson", "tsv"]))]
    format: Option<String>,
    /// One line of JSON for each document, in their order and as they come, also if nothing is found
    #[arg(long)]
    stream: bool,
    /// Text of FILE, such as a template, does not count; may be given several times
    #[arg(long, value_name = "FILE")]
    exclude: Vec<PathBuf>,
    /// Text that is in another index does not count; may be given several times
    #[arg(long, value_name = "IDX")]
    exclude_index: Vec<PathBuf>,
    /// Text that more than N documents have does not count
    #[arg(long, value_name = "N", visible_alias = "max-df")]
    ignore_df: Option<u64>,
    /// Show the documents that have this blot, and the text behind it
    #[arg(long, value_name = "HEX", conflicts_with_all = ["stream", "format"])]
    blot: Option<String>,
    /// Where the documents of the index are, for --blot, if their ids are relative
    #[arg(long, value_name = "ROOT", requires = "blot")]
    corpus: Option<PathBuf>,
    #[command(flatten)]
    blots: BlotArgs,
    #[command(flatten)]
    tokens: TokenArgs,
    #[command(flatten)]
    run: RunArgs,
    #[arg(long, value_name = "WHAT", hide = true)]
    generate: Option<What>,
}

const MANUAL: Manual = Manual {
    examples: &[
        ("dedup-query my.idx essay.txt", "What shares text with an essay"),
        ("dedup-query my.idx essay.txt --exclude template.txt --threshold 0.1", "Leaving out what the template gave"),
        ("zstdcat articles.jsonl.zst | dedup-query my.idx --stream", "An answer for each line, as they come"),
        ("dedup-query my.idx --format tsv --top 3 scans/", "The best three of each, as a table"),
        ("dedup-query my.idx --blot 2db9c479", "Who has this blot, and what text it is"),
    ],
    sections: &[
        (
            "RECORDS",
            &[
                "query, rank, doc (ids), shared (distinct blots that both have), a_in_b (shared ÷ blots of the document that is asked about), b_in_a (shared ÷ blots of the one that was found), score. Of equal scores the document that \
                 the index has longer comes first. Exact duplicates in the index are named one by one.",
                "With --stream: doc, and matches, a list of doc, shared, a_in_b, b_in_a, score.",
                "With --blot: blot, doc, and, where the id is the path of a file that can be read, bytes (where the text starts and ends) and text.",
                "On an index of selected blots shared and s1 to s4 are estimates, and the records say so; see dedup-extract(1).",
            ],
        ),
        (
            "WHAT DOES NOT COUNT",
            &[
                "Text of --exclude files counts on neither side: not as shared, not in what the shares are of. Text that --exclude-index or --ignore-df take out is not counted as shared, nor as part of the document that is asked \
                 about; the documents of the index are still measured by all they have.",
            ],
        ),
        ("EXIT STATUS", &["0: something was found. 1: nothing was found. 2: an error, or some input could not be used."]),
    ],
    see_also: &[("dedup", 7), ("dedup-index", 1), ("dedup-extract", 1)],
};

impl Tool for Arguments {
    const MANUAL: Manual = MANUAL;

    fn generate(&self) -> Option<What> {
        self.generate
    }

    fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let index = Index::open_whole(self.index.as_deref().context("say which index")?)?;
        let mut out = BufWriter::with_capacity(1 << 16, Output::open(None, false)?);
        if let Some(hex) = &self.blot {
            let blot = index.scheme.parse_blot(hex).map_err(anyhow::Error::msg)?;
            let is_found = blot_text(&index, &self.blots.options(&self.tokens), blot, self.corpus.as_deref(), &mut out)?;
            out.flush()?;
            return Ok(ExitCode::from(u8::from(!is_found)));
        }
        let is_dna = Tokenizer::is_dna(&index.scheme.tokens);
        let settings = self.run.settings(Form::Ndjson, 64 << 20, is_dna);
        let options = self.options()?;
        let asked = watched::<Self, _>(&self.run, true, |watch| Ok(query(&options, &index, &settings, &mut out, watch)?))?;
        out.flush()?;
        let has_problems = asked.problems > 0 && !self.run.input.skip_bad;
        Ok(ExitCode::from(if has_problems { 2 } else { u8::from(asked.matches == 0) }))
    }
}

impl Arguments {
    fn options(&self) -> Result<QueryOptions, anyhow::Error> {
        if !self.threshold.is_finite() {
            bail!("the threshold is {}; it must be a number", self.threshold);
        }
        let answers = match (self.stream, self.format.as_deref()) {
            (true, None | Some("ndjson")) => Answers::Documents,
            (true, Some(_)) => bail!("--stream answers with a line of JSON for each document; leave out --format"),
            (false, Some("tsv")) => Answers::Matches(Format::Tsv),
            (false, _) => Answers::Matches(Format::Ndjson),
        };
        let score = Score::NAMES.iter().find(|row| row.0 == self.score).map_or(Score::Containment, |row| row.1);
        Ok(QueryOptions {
            blots: self.blots.options(&self.tokens),
            score,
            threshold: self.threshold,
            top: self.top as usize,
            max_df: self.ignore_df,
            exclude: self.exclude.clone(),
            exclude_indexes: self.exclude_index.clone(),
            answers,
        })
    }
}

pub fn main() -> ExitCode {
    main_of::<Arguments>()
}
