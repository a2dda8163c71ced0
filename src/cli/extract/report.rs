//! dedup-extract report: pages for a browser.

use super::{
    super::{
        args::{MORE, parse_size},
        exclusions::{ExcludeArgs, PassageArgs},
        exit_code,
        progress::say,
        source::{Reading, Source, SourceArgs},
        threshold::score_name,
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
        ReportSummary, date_of, write_report,
    },
    report::{
        Format,
        html::{OVERVIEW, ReportFacts, counted},
    },
};
use clap::Args;
use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, UNIX_EPOCH},
};

/// Few people read more pages, and a directory of a hundred thousand files is a nuisance.
const MOST_PAGES: u32 = 500;
/// As much as an archive that is sent to somebody may have.
const MOST_BYTES: u64 = 100 << 20;

#[derive(Args, Debug)]
pub struct ReportArgs {
    /// Directory for the pages; open DIR/index.html in a browser
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Where the documents of the index are: a directory, or files (repeatable)
    #[arg(long, value_name = "PATH")]
    corpus: Vec<PathBuf>,
    /// Pages for N pairs and N documents, the best ones [default: 500]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
    /// About how large all pages may be together [default: 100M]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = MORE)]
    max_size: Option<u64>,
    /// What was checked, for the heading [default: SOURCE]
    #[arg(long, value_name = "TEXT", help_heading = MORE)]
    title: Option<String>,
    /// The date that the report bears, such as 2026-11-18
    ///
    /// Without it, the day of $SOURCE_DATE_EPOCH, if that is set. The clock is not asked: the same documents and options give
    /// the same pages. The date of the newest document is always given.
    #[arg(long, value_name = "DATE", value_parser = parse_date, help_heading = MORE)]
    date: Option<String>,
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
        let facts = self.facts(&source, &options)?;
        let paged = with_bar(&self.source, |watch, done| {
            let pages = ReportOptions {
                directory: self.output.clone(),
                title: self.title.clone().unwrap_or_else(|| source.name.clone()),
                input: source.account.clone(),
                unread: source.unread.clone(),
                facts: facts.clone(),
                top: top as usize,
                page_bytes: self.max_size.unwrap_or(MOST_BYTES),
                passages: self.passage_options(&options, &source, watch)?,
            };
            write_report(&options, &pages, &leave_out, &source.index, watch, done)
        })?;
        if !self.source.common.quiet {
            say(&summary_line(&self.output, &paged));
        }
        Ok(exit_code(
            paged.problems + source.problems,
            self.source.read.skip_bad,
        ))
    }

    /// What decides which pairs and passages are found.
    fn facts(
        &self,
        source: &Source,
        options: &ExtractOptions,
    ) -> Result<ReportFacts, anyhow::Error> {
        let scheme = &source.index.scheme;
        let mut settings = vec![
            ("Preset", Preset::of_index(&source.index)?.name.to_owned()),
            ("Windows compared", scheme.to_string()),
            ("Pairs listed", self.pairs_listed(options)),
        ];
        let passage = &self.passage;
        let passages = [
            (passage.exclude_quotes, "--exclude-quotes".to_owned()),
            (
                passage.exclude_bibliography,
                "--exclude-bibliography".to_owned(),
            ),
            (passage.count_quotes, "--count-quotes".to_owned()),
        ];
        let given = passages.into_iter().filter(|(is_given, _)| *is_given);
        let mut given: Vec<String> = given.map(|(_, flag)| flag).collect();
        if let Some(words) = passage.min_match_words {
            given.push(format!("--min-match-words {words}"));
        }
        if let Some(df) = options.common.max_df() {
            given.push(format!("--max-df {df}"));
        }
        for (flag, paths) in [
            ("--base", &self.excluded.base.base),
            ("--exclude-text", &self.excluded.exclude_text),
            ("--exclude-index", &self.excluded.exclude_index),
        ] {
            given.extend(
                paths
                    .iter()
                    .map(|path| format!("{flag} {}", path.display())),
            );
        }
        if !given.is_empty() {
            settings.push(("Left out of account", given.join(", ")));
        }
        let settings = settings.into_iter();
        Ok(ReportFacts {
            program: format!("{PROGRAM} {}", env!("CARGO_PKG_VERSION")),
            date: self.date(),
            newest: None,
            settings: settings
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        })
    }

    fn pairs_listed(&self, options: &ExtractOptions) -> String {
        let (score, least) = (score_name(options.score), options.threshold);
        let new = &self.which;
        let is_all = new.new.is_empty() && new.new_from.is_none() && new.new_since.is_none();
        let which = if is_all { "" } else { ", of which one is new" };
        format!("{score} of at least {least}{which}")
    }

    /// The date that was given, or that of a reproducible build: <https://reproducible-builds.org/specs/source-date-epoch/>.
    fn date(&self) -> Option<String> {
        let of_build = || {
            let seconds = std::env::var("SOURCE_DATE_EPOCH").ok()?.parse().ok()?;
            date_of(UNIX_EPOCH.checked_add(Duration::from_secs(seconds))?)
        };
        self.date.clone().or_else(of_build)
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
            with_excerpts: false,
            passage: &self.passage,
            excluded: &self.excluded,
        };
        texts.options(options.limits, watch)
    }
}

/// What was made, and where to look.
fn summary_line(directory: &Path, made: &ReportSummary) -> String {
    format!(
        "{PROGRAM}: checked {}, found {}; pages for {} and {}: open {}",
        counted(made.documents, "document"),
        counted(made.pairs, "pair"),
        counted(made.pages, "pair"),
        counted(made.document_pages, "document"),
        directory.join(OVERVIEW).display()
    )
}

/// A date as in ISO 8601.
fn parse_date(text: &str) -> Result<String, String> {
    let parts: Vec<&str> = text.split('-').collect();
    let number = |part: &str, digits: usize, range: RangeInclusive<u32>| {
        part.len() == digits && part.parse().is_ok_and(|number| range.contains(&number))
    };
    match parts[..] {
        [year, month, day]
            if number(year, 4, 0..=9999) && number(month, 2, 1..=12) && number(day, 2, 1..=31) =>
        {
            Ok(text.to_owned())
        }
        _ => Err("write it as year-month-day, such as 2026-11-18".to_owned()),
    }
}
