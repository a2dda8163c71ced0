//! dedup-extract report: pages for a browser.

use super::{
    super::{
        exclusions::{ExcludeArgs, PassageArgs},
        exit_code,
        progress::say,
        source::{Reading, Source, SourceArgs},
    },
    PROGRAM,
    records::{tell_what_stays, with_bar},
    scoring::{CompareWhichArgs, ScoreArgs, leave_out},
    texts::AlignedTexts,
};
use crate::{
    base::error::Result,
    commands::{
        Cutoff, Extract, ExtractOptions, Observer, PassageOptions, Preset, ReportOptions,
        write_report,
    },
    report::Format,
};
use clap::Args;
use std::{path::PathBuf, process::ExitCode};

/// Few people read more pages, and a directory of a hundred thousand files is a nuisance.
const MOST_PAGES: u32 = 500;

#[derive(Args, Debug)]
pub struct ReportArgs {
    /// Directory for the pages; open DIR/index.html in a browser
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Where the documents of the index are: a directory, or files (repeatable)
    #[arg(long, value_name = "PATH")]
    corpus: Vec<PathBuf>,
    /// Pages for the N pairs with the highest scores [default: 500]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
    #[command(flatten)]
    scores: ScoreArgs,
    #[command(flatten)]
    passage: PassageArgs,
    #[command(flatten)]
    excluded: ExcludeArgs,
    #[command(flatten)]
    which: CompareWhichArgs,
    #[command(flatten)]
    source: SourceArgs,
}

impl ReportArgs {
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let source = self.source.open(PROGRAM, Reading::ById, false)?;
        let preset = Preset::of_index(&source.index)?;
        let Cutoff { score, threshold } = self.scores.cutoff(preset.pairs)?;
        let options = ExtractOptions {
            what: Extract::Pairs(Format::Ndjson),
            score,
            threshold,
            common: self.excluded.common_text(preset.common),
            limits: self.source.limits(),
        };
        tell_what_stays(&self.source, &source, &self.excluded);
        let leave_out = leave_out(&self.excluded, self.which.pairs());
        let top = self.top.unwrap_or(MOST_PAGES);
        let paged = with_bar(&self.source, |watch, done| {
            let pages = ReportOptions {
                directory: self.output.clone(),
                title: source.name.clone(),
                input: source.account.clone(),
                top: top as usize,
                passages: self.passage_options(&options, &source, watch)?,
            };
            write_report(&options, &pages, &leave_out, &source.index, watch, done)
        })?;
        if paged.pairs > u64::from(top) && !self.source.common.quiet {
            say(&format!(
                "{PROGRAM}: pages for the {top} pairs with the highest scores; there are {} in all, --top N gives more",
                paged.pairs
            ));
        }
        Ok(exit_code(
            paged.problems + source.problems,
            self.source.read.skip_bad,
        ))
    }

    fn passage_options(
        &self,
        options: &ExtractOptions,
        source: &Source,
        watch: &mut dyn Observer,
    ) -> Result<PassageOptions> {
        let texts = AlignedTexts {
            args: &self.source,
            source,
            corpus: &self.corpus,
            in_chars: false,
            passage: &self.passage,
            excluded: &self.excluded,
        };
        texts.options(options.limits, watch)
    }
}
