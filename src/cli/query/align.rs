//! dedup-query align: the passages that two files share.

use super::{
    super::{
        args::{CommonArgs, ConvertArgs, InputArgs, MORE, ReadArgs, RunArgs, TokenArgs},
        exclusions::{BaseArgs, PassageArgs},
        pair_output::{Destination, PairFormat},
        value_help::align_format_names,
        watched,
    },
    PROGRAM, found_code,
};
use crate::{
    align,
    blot::K,
    commands::{
        Observer, PairsOptions, PassageOptions, QueryOutcome, Settings, TEXT, align_pairs,
        default_window,
    },
    report::Format,
    text::{stream::Form, token::Tokenization},
};
use anyhow::{Context, bail};
use clap::Args;
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

#[derive(Args, Debug)]
pub struct AlignArgs {
    /// The file whose passages are looked for
    #[arg(value_name = "A", required_unless_present = "pairs", requires = "b")]
    a: Option<PathBuf>,
    /// The file they may be from
    #[arg(value_name = "B")]
    b: Option<PathBuf>,
    /// Align many pairs: FILE has "A TAB B" lines (- for stdin)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["a", "b"])]
    pairs: Option<PathBuf>,
    /// Write pages for a browser into DIR: an overview, and one for each pair
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "format", "chars"])]
    html: Option<PathBuf>,
    #[arg(
        long,
        help = align_format_names(),
        value_name = "FORMAT",
        hide_possible_values = true,
        requires_if("pan-xml", "output")
    )]
    format: Option<PairFormat>,
    /// Write to a file, or for pan-xml into a directory
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    #[command(flatten)]
    tokens: TokenArgs,
    /// Tokens in a window [default: 8, for dna 31]
    #[arg(short, value_name = "N", value_parser = clap::value_parser!(u32).range(i64::from(*K.start())..=i64::from(*K.end())))]
    k: Option<u32>,
    /// Count offsets in characters, not in bytes
    #[arg(long, help_heading = MORE)]
    chars: bool,
    /// Add the probability that unrelated texts share such a passage
    ///
    /// For passages of words. See PASSAGES.
    #[arg(long, conflicts_with = "html", help_heading = MORE)]
    p_values: bool,
    #[command(flatten)]
    passage: PassageArgs,
    #[command(flatten)]
    base: BaseArgs,
    #[command(flatten)]
    convert: ConvertArgs,
    /// Read text that is not UTF-8, with ? for each wrong byte
    #[arg(long, help_heading = MORE)]
    lossy: bool,
    /// Leave out documents longer than SIZE [default: 1G]
    #[arg(long, value_name = "SIZE", help_heading = MORE, default_value = "1G", hide_default_value = true, value_parser = super::super::args::parse_size)]
    max_document: u64,
    /// Exit with 0 although some files could not be read
    #[arg(long, help_heading = MORE)]
    skip_bad: bool,
    #[command(flatten)]
    common: CommonArgs,
}

impl AlignArgs {
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        // Two files are a list of one pair.
        let one = self.list_of_one()?;
        let list = one
            .as_ref()
            .map(tempfile::NamedTempFile::path)
            .or(self.pairs.as_deref())
            .context("say which files: dedup-query align A B")?;
        let run = self.run_args(list);
        let settings = run.settings(Form::Ndjson, 256 << 20, false);
        let asked = watched(PROGRAM, &run, true, |watch| {
            self.align(list, &settings, watch)
        })?;
        Ok(found_code(&asked, self.skip_bad))
    }

    fn align(
        &self,
        list: &Path,
        settings: &Settings,
        watch: &mut dyn Observer,
    ) -> Result<QueryOutcome, anyhow::Error> {
        let passages = self.passage_options(settings);
        let passages = if self.p_values {
            passages.with_p_values()?
        } else {
            passages
        };
        let preset = self.tokens.preset.unwrap_or(&TEXT);
        let passages = self
            .passage
            .apply(preset, &self.base, passages, false, settings, watch)?;
        let title = match (&self.pairs, &self.a, &self.b) {
            (None, Some(a), Some(b)) => format!("{} and {}", a.display(), b.display()),
            _ if list.as_os_str() == "-" => "these pairs".to_owned(),
            _ => list.display().to_string(),
        };
        let mut out = match (&self.html, &self.output) {
            (Some(directory), _) => {
                Destination::pages(directory, &title, &passages.notes("the first text"))?
            }
            (None, Some(directory)) if self.is_xml() => Destination::files(directory)?,
            (None, output) => Destination::records(output.as_deref(), self.format())?,
        };
        let options = PairsOptions {
            list: list.to_owned(),
            passages,
            with_pages: self.html.is_some(),
        };
        let asked = align_pairs(
            &options,
            settings.limits,
            |aligned| out.write(&aligned),
            watch,
        )?;
        out.commit()?;
        Ok(asked)
    }

    /// The list of pairs that A and B make.
    fn list_of_one(&self) -> Result<Option<tempfile::NamedTempFile>, anyhow::Error> {
        let (Some(a), Some(b)) = (&self.a, &self.b) else {
            return Ok(None);
        };
        let name = |path: &PathBuf| match path.to_str() {
            Some(name) if !name.contains(['\t', '\n']) => Ok(name.to_owned()),
            _ => bail!(
                "{}: names with tabs or line feeds, or that are not UTF-8, cannot be aligned",
                path.display()
            ),
        };
        let mut list = tempfile::NamedTempFile::new().context("a temporary file")?;
        writeln!(list, "{}\t{}", name(a)?, name(b)?).context("a temporary file")?;
        Ok(Some(list))
    }

    /// The format of records.
    fn format(&self) -> Format {
        match self.format {
            Some(PairFormat::Records(format)) => format,
            Some(PairFormat::PanXml) | None => self
                .output
                .as_deref()
                .and_then(Format::of_file)
                .unwrap_or(Format::Ndjson),
        }
    }

    fn is_xml(&self) -> bool {
        self.format == Some(PairFormat::PanXml)
    }

    fn passage_options(&self, settings: &Settings) -> PassageOptions {
        let tokenization = self
            .tokens
            .tokenizer()
            .map_or_else(Tokenization::default, |tokenizer| tokenizer.tokenization());
        PassageOptions {
            passages: align::AlignOptions {
                tokenization,
                window_tokens: self.k.unwrap_or_else(|| default_window(tokenization.rule)),
                ..align::AlignOptions::default()
            },
            in_chars: self.chars || self.is_xml(),
            with_excerpts: self.format().is_table(),
            reading: settings.corpus.clone(),
            ..PassageOptions::default()
        }
    }

    /// Reads the pairs from a list, line by line.
    fn run_args(&self, list: &Path) -> RunArgs {
        RunArgs {
            input: InputArgs {
                paths: vec![list.to_owned()],
                read: ReadArgs {
                    lossy: self.lossy,
                    convert: self.convert.clone(),
                    max_document: self.max_document,
                    skip_bad: self.skip_bad,
                    ..ReadArgs::default()
                },
            },
            common: self.common.clone(),
        }
    }
}
