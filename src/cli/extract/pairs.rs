//! dedup-extract pairs: every pair of documents that share enough text.

use super::{
    super::{
        args::MORE,
        exclusions::{ExcludeArgs, PassageArgs},
        exit_code,
        pair_output::PairFormat,
        source::{Reading, Source, SourceArgs},
        value_help::{pair_format_help, pair_format_names},
    },
    PROGRAM,
    records::{OutputArgs, tell_what_stays, with_bar, write_records, write_with},
    scoring::{CompareWhichArgs, ScoreArgs, leave_out},
    texts::AlignedTexts,
};
use crate::{
    base::error::Result,
    commands::{
        Cutoff, Extract, ExtractOptions, LeaveOut, Observer, PassageOptions, Preset,
        extract_aligned, extract_passages,
    },
    report::{Format, PanXmlDirectory},
};
use anyhow::Context;
use clap::Args;
use std::{path::PathBuf, process::ExitCode};

#[derive(Args, Debug)]
pub struct PairsArgs {
    #[command(flatten)]
    scores: ScoreArgs,
    /// Also list the passages that the documents of each pair share
    ///
    /// Where their texts can be read; see TEXTS.
    #[arg(long)]
    passages: bool,
    /// Where the documents of the index are: a directory, or files (repeatable)
    #[arg(long, value_name = "PATH", requires = "passages")]
    corpus: Vec<PathBuf>,
    #[arg(long, help = pair_format_names(), long_help = pair_format_help(), value_name = "FORMAT", hide_possible_values = true, requires_ifs = [("pan-xml", "passages"), ("pan-xml", "output")])]
    format: Option<PairFormat>,
    #[command(flatten)]
    file: OutputArgs,
    /// Count the offsets of passages in characters, not in bytes
    #[arg(long, requires = "passages", help_heading = MORE)]
    chars: bool,
    /// Add the probability that unrelated texts share such a passage
    ///
    /// For passages of words. See PASSAGES in dedup-query(1).
    #[arg(long, requires = "passages", help_heading = MORE)]
    p_values: bool,
    #[command(flatten)]
    passage: PassageArgs,
    #[command(flatten)]
    excluded: ExcludeArgs,
    #[command(flatten)]
    which: CompareWhichArgs,
    #[command(flatten)]
    source: SourceArgs,
}

impl PairsArgs {
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let reading = if self.passages {
            Reading::ById
        } else {
            Reading::Never
        };
        let source = self.source.open(PROGRAM, reading, false)?;
        let preset = Preset::of_index(&source.index)?;
        let Cutoff { score, threshold } = self.scores.cutoff(preset.pairs)?;
        let options = ExtractOptions {
            what: Extract::Pairs(self.format()),
            score,
            threshold,
            common: self.excluded.common_text(preset.common),
            limits: self.source.limits(),
        };
        let leave_out = leave_out(&self.excluded, self.which.pairs());
        tell_what_stays(&self.source, &source, &self.excluded);
        if self.format == Some(PairFormat::PanXml) {
            return self.write_xml(&source, &options, &leave_out);
        }
        let output = self.file.open(self.format())?;
        if !self.passages {
            return write_records(&self.source, &source, &options, &leave_out, output);
        }
        write_with(&self.source, &source, output, |out, watch, done| {
            let passages = self.passage_options(&options, &source, watch)?;
            extract_passages(
                &options,
                &passages,
                &leave_out,
                &source.index,
                out,
                watch,
                done,
            )
        })
    }

    /// The format of records.
    fn format(&self) -> Format {
        match self.format {
            Some(PairFormat::Records(format)) => format,
            Some(PairFormat::PanXml) => Format::Ndjson,
            None => self.file.format(),
        }
    }

    /// Writes a file of XML for each pair into a directory.
    fn write_xml(
        &self,
        source: &Source,
        options: &ExtractOptions,
        leave_out: &LeaveOut,
    ) -> Result<ExitCode, anyhow::Error> {
        let directory = self.file.output.as_deref();
        let mut out = PanXmlDirectory::create(directory.context("pan-xml needs -o DIR")?)?;
        let problems = with_bar(&self.source, |watch, done| {
            let passages = self.passage_options(options, source, watch)?;
            extract_aligned(
                options,
                &passages,
                leave_out,
                &source.index,
                &mut |pair| out.write(&pair),
                watch,
                done,
            )
        })?;
        out.finish()?;
        Ok(exit_code(
            problems + source.problems,
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
            in_chars: self.chars || self.format == Some(PairFormat::PanXml),
            with_excerpts: self.format().is_table(),
            passage: &self.passage,
            excluded: &self.excluded,
        };
        let passages = texts.options(options.limits, watch)?;
        if self.p_values {
            passages.with_p_values()
        } else {
            Ok(passages)
        }
    }
}
