//! dedup-query SOURCE DOC…: what shares text with a document.

use super::{
    super::{
        args::{CommonArgs, InputArgs, MORE, ReadArgs, RunArgs},
        exclusions::{ExcludeArgs, GroupArgs, PassageArgs},
        output::PackedOutput,
        progress::say,
        shared_only::{tell_not_excluded, tell_unseen},
        source::{MakingArgs, Reading, Source, ensure_exists, is_index},
        threshold::{Threshold, cutoff, score_name, score_named},
        value_help::{format_names, query_score_names, score_help},
        watched,
    },
    PROGRAM, VERBS, found_code,
    server::ServerArgs,
};
use crate::{
    align,
    commands::{
        AnswerFormat, Cutoff, PassageOptions, Preset, QueryOptions, QueryOutcome, put_head, query,
        query_elsewhere,
    },
    report::Format,
    service::RemoteSearch,
    similar::Score,
    text::stream::Form,
};
use anyhow::{Context, bail};
use clap::{ArgGroup, Args, builder::PossibleValuesParser};
use std::{
    io::{IsTerminal, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
};

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("shows_passages").args(["passages", "html"]).multiple(true))]
pub struct SearchArgs {
    /// An index, or documents: a file, a directory, - for stdin
    #[arg(help_heading = None::<&str>, value_name = "SOURCE", required_unless_present = "server")]
    source: Option<PathBuf>,
    /// What to look for: files, directories, - for stdin (also without any)
    #[arg(help_heading = None::<&str>, value_name = "DOC")]
    documents: Vec<PathBuf>,
    /// Show the passages that a document shares with each one found
    ///
    /// As excerpts on a terminal, in the records otherwise.
    #[arg(long, conflicts_with = "stream")]
    passages: bool,
    /// Make a page for a browser: the document and all that was found
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "chars", "stream"])]
    html: Option<PathBuf>,
    /// The best N documents for each DOC [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
    #[arg(long, help = query_score_names(), value_name = "SCORE", hide_possible_values = true, value_parser = PossibleValuesParser::new(Score::NAMES.map(|(name, ..)| name)), long_help = score_help())]
    score: Option<String>,
    /// The least score that counts, such as 0.5 or 50% [default: 0]
    ///
    /// A document that is found has at least one blot in common.
    #[arg(long, value_name = "X|P%", allow_negative_numbers = true)]
    threshold: Option<Threshold>,
    #[arg(
        long,
        help = format_names(),
        value_name = "FORMAT",
        hide_possible_values = true,
        conflicts_with = "stream"
    )]
    format: Option<Format>,
    /// One line of JSON for each DOC as it comes, also if nothing is found
    #[arg(long)]
    stream: bool,
    /// Where the documents of the index are: a directory, or files (repeatable)
    #[arg(long, value_name = "PATH", requires = "shows_passages")]
    corpus: Vec<PathBuf>,
    /// Count the offsets of passages in characters, not in bytes
    #[arg(long, requires = "passages", help_heading = MORE)]
    chars: bool,
    /// Add the probability that unrelated texts share such a passage
    ///
    /// For passages of words. See PASSAGES.
    #[arg(long, requires = "passages", conflicts_with = "html", help_heading = MORE)]
    p_values: bool,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    passage: PassageArgs,
    #[command(flatten)]
    excluded: ExcludeArgs,
    #[command(flatten)]
    groups: GroupArgs,
    #[command(flatten)]
    making: MakingArgs,
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    common: CommonArgs,
}

impl SearchArgs {
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        if self.server.is_given() {
            return self.ask_server();
        }
        let source = self.open()?;
        let preset = Preset::of_index(&source.index)?;
        let mut options = self.options(preset)?;
        options.compares_paths = source.is_made;
        if !self.common.quiet && !source.is_made {
            self.report_limits(&source)?;
        }
        let index = &source.index;
        let run = self.run_args(self.documents.clone());
        let is_dna = index.scheme.tokens.is_dna();
        let settings = run.settings(Form::Ndjson, 64 << 20, is_dna);
        let mut out = self.output(options.answers)?;
        let mut asked = watched(PROGRAM, &run, true, |watch| {
            if let Some(passages) = options.passages.take() {
                let passages = PassageOptions {
                    corpus: source.corpus(&self.corpus),
                    ..passages.of_index(index)?
                };
                let passages = if self.p_values {
                    passages.with_p_values()?
                } else {
                    passages
                };
                options.passages = Some(self.passage.apply(
                    preset,
                    &self.excluded.base,
                    passages,
                    false,
                    &settings,
                    watch,
                )?);
            }
            Ok(query(&options, index, &settings, &mut out, watch)?)
        })?;
        out.commit()?;
        if asked.matches == 0 && !self.common.quiet && !self.stream {
            self.explain_nothing(&asked, &options, &source);
        }
        asked.problems += source.problems;
        Ok(found_code(&asked, self.read.skip_bad))
    }

    /// Asks a server; all paths are documents.
    fn ask_server(&self) -> Result<ExitCode, anyhow::Error> {
        let paths = self.source.iter().chain(&self.documents).cloned();
        let run = self.run_args(paths.collect());
        let settings = run.settings(Form::Ndjson, 64 << 20, false);
        let answers = self.answers()?;
        let (accept, mut head) = (accept(answers)?, Vec::new());
        if let AnswerFormat::Matches(format) = answers {
            put_head(format, false, self.shows_passages(), &mut head)?;
        }
        let search = RemoteSearch {
            index: None,
            score: self.score.clone(),
            threshold: self.threshold.map(|threshold| threshold.value),
            top: self.top,
            max_df: self.excluded.max_df()?,
            passages: self.shows_passages(),
            chars: self.chars,
            p_values: self.p_values,
            exclude_quotes: self.passage.quotes(),
            exclude_bibliography: self.passage.bibliography(),
            min_match_words: self.passage.min_match_words,
        };
        let server = self.server.search(search, accept)?;
        let mut out = self.output(answers)?;
        let asked = watched(PROGRAM, &run, true, |watch| {
            Ok(query_elsewhere(&server, &head, &settings, &mut out, watch)?)
        })?;
        out.commit()?;
        Ok(found_code(&asked, self.read.skip_bad))
    }

    /// Opens the index, or makes one of documents.
    fn open(&self) -> Result<Source, anyhow::Error> {
        let path = self
            .source
            .as_deref()
            .context("say which index or documents")?;
        let is_stdin = path.as_os_str() == "-";
        if is_stdin && self.run_args(self.documents.clone()).input.reads_stdin() {
            bail!("both SOURCE and DOC are stdin; give one of them as a file");
        }
        let reading = if self.shows_passages() {
            Reading::ById
        } else {
            Reading::Never
        };
        open_source(path, &self.making, &self.read, &self.common, reading)
    }

    fn run_args(&self, paths: Vec<PathBuf>) -> RunArgs {
        RunArgs {
            input: InputArgs {
                paths,
                read: self.read.clone(),
            },
            common: self.common.clone(),
        }
    }

    /// Where answers go, or the page.
    fn output(&self, answers: AnswerFormat) -> Result<PackedOutput, anyhow::Error> {
        match answers {
            AnswerFormat::Matches(format) => PackedOutput::for_records(None, format),
            _ => PackedOutput::open(self.html.as_deref()),
        }
    }

    /// Says what an index of shared chunks does not find.
    fn report_limits(&self, source: &Source) -> Result<(), anyhow::Error> {
        tell_unseen(PROGRAM, &source.index)?;
        if self.excluded.names_text() {
            tell_not_excluded(PROGRAM, &source.index);
        }
        Ok(())
    }

    /// Says why nothing was found, where it is known.
    fn explain_nothing(&self, asked: &QueryOutcome, options: &QueryOptions, source: &Source) {
        if asked.short_documents > 0 && asked.short_documents == asked.documents {
            let remedy = if source.is_made {
                "compare"
            } else {
                "build an index of"
            };
            let question = if asked.documents == 1 {
                "the question"
            } else {
                "every question"
            };
            say(&format!(
                "{PROGRAM}: {question} is no longer than a window ({}), so only the same words from first to last are found; ask with more text, or {remedy} shorter windows (-k 4)",
                source.index.scheme.windows
            ));
        } else if asked.documents > 0 && options.threshold > 0.0 && self.threshold.is_none() {
            say(&format!(
                "{PROGRAM}: nothing reaches a score ({}) of {}; --threshold 0 lists all that has any text in common",
                score_name(options.score),
                options.threshold
            ));
        }
    }

    fn options(&self, preset: &Preset) -> Result<QueryOptions, anyhow::Error> {
        let score = score_named(self.score.as_deref(), preset.query.score);
        let Cutoff { threshold, .. } = cutoff(score, self.threshold, preset.query, 0.0)?;
        Ok(QueryOptions {
            blots: self.making.blots.options(&self.making.tokens),
            score,
            threshold,
            top: self.top.unwrap_or(10) as usize,
            max_df: self.excluded.max_df()?,
            exclude: self.excluded.exclude_text.clone(),
            exclude_indexes: self.excluded.exclude_index.clone(),
            base: self.excluded.base.base.clone(),
            groups: self.groups.grouping(),
            answers: self.answers()?,
            passages: self.shows_passages().then(|| self.passage_options()),
            compares_paths: false,
        })
    }

    fn answers(&self) -> Result<AnswerFormat, anyhow::Error> {
        Ok(match (self.passages, self.format) {
            _ if self.stream => AnswerFormat::Documents,
            _ if self.html.is_some() => AnswerFormat::Page,
            (true, None) if stdout().is_terminal() => AnswerFormat::Excerpts {
                with_color: wants_color(),
            },
            (_, Some(format)) => AnswerFormat::Matches(format),
            _ => AnswerFormat::Matches(Format::Ndjson),
        })
    }

    fn shows_passages(&self) -> bool {
        self.passages || self.html.is_some()
    }

    fn passage_options(&self) -> PassageOptions {
        PassageOptions {
            passages: align::AlignOptions {
                window_tokens: self.making.blots.k.unwrap_or(align::WINDOW_TOKENS),
                ..align::AlignOptions::default()
            },
            in_chars: self.chars,
            with_excerpts: self.format.is_some_and(Format::is_table),
            reading: self.run_args(Vec::new()).input.options(false),
            ..PassageOptions::default()
        }
    }
}

/// Opens an index, or makes one of documents.
pub(super) fn open_source(
    path: &Path,
    making: &MakingArgs,
    read: &ReadArgs,
    common: &CommonArgs,
    reading: Reading,
) -> Result<Source, anyhow::Error> {
    ensure_exists(PROGRAM, VERBS, path)?;
    if is_index(path) {
        return Source::of_index(path, Vec::new());
    }
    let run = RunArgs {
        input: InputArgs {
            paths: vec![path.to_owned()],
            read: ReadArgs {
                files_from: None,
                null: false,
                ..read.clone()
            },
        },
        common: common.clone(),
    };
    making.make_index(PROGRAM, &run, reading, false)
}

/// What a client of a server accepts.
fn accept(answers: AnswerFormat) -> Result<&'static str, anyhow::Error> {
    Ok(match answers {
        AnswerFormat::Matches(Format::Ndjson) => "application/x-ndjson",
        AnswerFormat::Matches(Format::Tsv) => "text/tab-separated-values; header=absent",
        AnswerFormat::Matches(Format::Csv) => "text/csv; header=absent",
        AnswerFormat::Excerpts { .. } => "text/plain",
        AnswerFormat::Page => "text/html",
        AnswerFormat::Matches(_) | AnswerFormat::Documents => {
            bail!("a server answers in ndjson, tsv or csv")
        }
    })
}

/// <https://no-color.org>
fn wants_color() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
