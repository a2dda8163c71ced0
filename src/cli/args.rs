//! Arguments that the tools have in common.

use super::{
    generate::What,
    value_help::{preset_help, preset_names},
};
use crate::{
    base::{error::Error, parallel::Limits},
    blot::{self, select},
    commands::{BlotOptions, PRESETS, Preset, Settings, TEXT},
    text::{
        corpus::{self, AdapterLimits, AdapterRule, Records},
        scheme::BITS,
        stream::{Form, LineParser},
        token::{self, Rule, Rules, Tokenizer},
    },
};
use clap::{Args, builder::PossibleValuesParser};
use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    thread,
};

/// The heading of the flags that few people need.
pub const MORE: &str = "More options";

/// Which documents to read, and how.
#[derive(Args, Debug, Clone)]
pub struct InputArgs {
    /// Files, directories, or - for stdin (also when nothing is given)
    ///
    /// Directories are walked in sorted order; hidden files in them are left out. The first bytes of a
    /// file, and then its name, decide how it is read: text, office documents and PDF are one document;
    /// NDJSON, CSV, Parquet and WARC hold many; archives are read like directories. What cannot be read
    /// is counted in the account that ends the run; dedup(7) has the list.
    #[arg(help_heading = None::<&str>, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub read: ReadArgs,
}

/// The encoding of all texts, or none if each decides for itself.
#[derive(Debug, Clone)]
pub struct EncodingChoice(Option<String>);

fn parse_encoding(name: &str) -> Result<EncodingChoice, String> {
    corpus::parse_encoding(name).map(EncodingChoice)
}

/// How files become text.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = MORE)]
pub struct ConvertArgs {
    /// Encoding of all texts: auto, utf-8, windows-1252 … [default: auto]
    ///
    /// auto: UTF-8; UTF-16 where a byte-order mark or the bytes show it; a legacy encoding where the
    /// bytes leave no doubt. The account counts the texts that were decoded.
    #[arg(long, value_name = "NAME", default_value = "auto", hide_default_value = true, value_parser = parse_encoding)]
    pub encoding: EncodingChoice,
    /// Read HTML files as they are, with their tags
    #[arg(long, hide_short_help = true)]
    pub keep_markup: bool,
    /// Turn files that match GLOB into text with COMMAND (repeatable)
    ///
    /// The file goes to the standard input of COMMAND, or its path into the place of {}; its standard
    /// output is the text. No shell is involved, unless COMMAND is one: 'sh -c …'.
    #[arg(long = "adapter", value_name = "GLOB=COMMAND", value_parser = AdapterRule::parse)]
    pub adapters: Vec<AdapterRule>,
    /// Keep extracted texts in DIR, or nowhere with none [default: ~/.cache/dedup]
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub adapter_cache: Option<PathBuf>,
    /// Stop an adapter after N seconds [default: 120]
    #[arg(
        long,
        value_name = "N",
        default_value = "120",
        hide_default_value = true,
        hide_short_help = true
    )]
    pub adapter_timeout: u64,
    /// Memory of an adapter [default: 4G]
    #[arg(long, value_name = "SIZE", default_value = "4G", hide_default_value = true, hide_short_help = true, value_parser = parse_size)]
    pub adapter_memory: u64,
    /// Read images and scanned pages in language LANG, with tesseract
    ///
    /// LANG is a language of tesseract, such as eng or deu+eng.
    #[arg(long, value_name = "LANG")]
    pub ocr: Option<String>,
}

impl Default for ConvertArgs {
    /// As if no flag were given.
    fn default() -> Self {
        Self {
            encoding: EncodingChoice(None),
            keep_markup: false,
            adapters: Vec::new(),
            adapter_cache: None,
            adapter_timeout: AdapterLimits::default().seconds,
            adapter_memory: AdapterLimits::default().memory_bytes,
            ocr: None,
        }
    }
}

/// How documents are read.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = MORE)]
pub struct ReadArgs {
    /// Field or column that holds a document's id [default: id]
    ///
    /// A dot leads into a nested field: meta.url. A record without it gets the id FILE:NUMBER.
    #[arg(
        long,
        value_name = "FIELD",
        default_value = "id",
        hide_default_value = true
    )]
    pub id_field: String,
    /// Field or column that holds a document's text [default: text]
    #[arg(
        long,
        value_name = "FIELD",
        default_value = "text",
        hide_default_value = true
    )]
    pub text_field: String,
    /// Format of all files: text, ndjson, json, csv, tsv, parquet, warc …
    ///
    /// text: one document; ndjson: a JSON object a line; json: an array of objects; csv, tsv: a row, with
    /// the names of the columns in the first; parquet: a row; warc: a record; lines: a line, called
    /// FILE:LINE; fasta: sequences, each after a line with > and its id. Without it the first bytes
    /// and the name of a file decide.
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, value_parser = PossibleValuesParser::new(Records::NAMES.map(|(name, _)| name)))]
    pub records: Option<String>,
    /// Read more paths from LIST, one a line (- for stdin)
    #[arg(long, value_name = "LIST")]
    pub files_from: Option<PathBuf>,
    /// Paths in LIST end with NUL, as find -print0 writes them
    #[arg(short = '0', requires = "files_from", hide_short_help = true)]
    pub null: bool,
    /// Read only files that match GLOB, as in .gitignore (repeatable)
    #[arg(long, value_name = "GLOB")]
    pub include: Vec<String>,
    /// Pass over files and directories that match GLOB (repeatable)
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
    /// Pass over what .gitignore files name
    #[arg(long, hide_short_help = true)]
    pub gitignore: bool,
    /// Read hidden files and directories, too
    #[arg(long, hide_short_help = true)]
    pub hidden: bool,
    /// Leave the root of a walked directory out of the ids
    #[arg(long, hide_short_help = true)]
    pub relative: bool,
    /// Read text that is not UTF-8, with ? for each wrong byte
    ///
    /// Otherwise such a document is named and skipped.
    #[arg(long, hide_short_help = true)]
    pub lossy: bool,
    #[command(flatten)]
    pub convert: ConvertArgs,
    /// Leave out documents longer than SIZE [default: 1G]
    ///
    /// The size counts after unpacking, and can be at most 4G.
    #[arg(long, value_name = "SIZE", default_value = "1G", hide_default_value = true, hide_short_help = true, value_parser = parse_size)]
    pub max_document: u64,
    /// Exit with 0 although some input could not be used
    #[arg(long)]
    pub skip_bad: bool,
}

impl Default for ReadArgs {
    /// As if no flag were given.
    fn default() -> Self {
        Self {
            id_field: "id".to_owned(),
            text_field: "text".to_owned(),
            records: None,
            files_from: None,
            null: false,
            include: Vec::new(),
            exclude: Vec::new(),
            gitignore: false,
            hidden: false,
            relative: false,
            lossy: false,
            convert: ConvertArgs::default(),
            max_document: 1 << 30,
            skip_bad: false,
        }
    }
}

/// How to run.
#[derive(Args, Debug, Clone)]
pub struct RunArgs {
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

/// What every program that reads documents takes.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = MORE)]
pub struct CommonArgs {
    /// Number of threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// No progress bar and no account of what was read
    ///
    /// Errors are still reported, unless --skip-bad turns them into warnings.
    #[arg(short, long)]
    pub quiet: bool,
    /// Name every file that is left out, not just five of a kind
    #[arg(short, long)]
    pub verbose: bool,
    #[command(flatten)]
    pub account: AccountArgs,
}

/// Where the account of the input goes. `account_file` finds the flag by its name.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = MORE)]
pub struct AccountArgs {
    /// Write the account of the input to FILE, as JSON
    ///
    /// It has what the last line on stderr has, and each file that was left out. It appears when the run
    /// ends, also if it fails.
    #[allow(dead_code, reason = "read from the matches, for any verb")]
    #[arg(long, value_name = "FILE")]
    account: Option<PathBuf>,
}

/// How to write a stream.
#[derive(Args, Debug, Clone)]
pub struct StreamArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Write the binary form of the stream: smaller and faster
    #[arg(long = "binary")]
    pub is_binary: bool,
    /// Write to FILE, which appears when it is complete
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Memory to use, such as 64M or 1G [default: 128M]
    ///
    /// The largest document is not counted; it takes about four times its size if its tokens are
    /// words.
    #[arg(long, value_name = "SIZE", help_heading = MORE, default_value = "128M", hide_default_value = true, value_parser = parse_size)]
    pub memory: u64,
    #[arg(long, value_name = "WHAT", hide = true)]
    pub generate: Option<What>,
}

impl StreamArgs {
    pub fn settings(&self, prefer_fasta: bool) -> Settings {
        let form = if self.is_binary {
            Form::Binary
        } else {
            Form::Ndjson
        };
        self.run.settings(form, self.memory, prefer_fasta)
    }
}

impl RunArgs {
    pub fn settings(&self, form: Form, memory_bytes: u64, prefer_fasta: bool) -> Settings {
        Settings {
            form,
            // The input in flight, together with its results, takes about eight times its size.
            limits: Limits::new(threads_of(self.common.threads), memory_bytes / 8),
            corpus: self.input.options(prefer_fasta),
        }
    }
}

/// Bytes of memory of this machine, or a guess.
pub fn machine_memory() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = info.lines().find_map(|line| {
        line.strip_prefix("MemTotal:")?
            .trim()
            .strip_suffix(" kB")?
            .parse::<u64>()
            .ok()
    });
    total.map_or(4 << 30, |kilobytes| kilobytes << 10)
}

/// The given number of threads, or one for each core.
pub fn threads_of(asked: Option<u32>) -> usize {
    asked.map_or_else(
        || thread::available_parallelism().map_or(1, usize::from),
        |threads| threads as usize,
    )
}

/// Iterates over the entries of a list, one a line, without reading all of it first.
pub fn read_list(
    list: &Path,
    is_nul_separated: bool,
) -> Result<impl Iterator<Item = Result<String, Error>> + use<>, Error> {
    let input: Box<dyn BufRead> = if list.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        Box::new(BufReader::new(
            File::open(list).map_err(|error| Error::io(list.display(), error))?,
        ))
    };
    let name = list.display().to_string();
    let lines = input.split(if is_nul_separated { 0 } else { b'\n' });
    let text = move |line: io::Result<Vec<u8>>| {
        let line = line.map_err(|error| Error::io(&name, error))?;
        String::from_utf8(line).map_err(|_| {
            Error::io(
                &name,
                io::Error::other(
                    "an entry of the list is not UTF-8; rename the file, or name its directory",
                ),
            )
        })
    };
    Ok(lines
        .map(text)
        .filter(|line| !line.as_ref().is_ok_and(String::is_empty)))
}

impl InputArgs {
    pub fn reads_stdin(&self) -> bool {
        let is_stdin = |path: &PathBuf| path.as_os_str() == "-";
        let is_nothing_named = self.paths.is_empty() && self.read.files_from.is_none();
        is_nothing_named || self.paths.iter().chain(&self.read.files_from).any(is_stdin)
    }

    pub fn options(&self, prefer_fasta: bool) -> corpus::Options {
        let named = |name: &String| {
            Records::NAMES
                .iter()
                .find(|(known, _)| known == name)
                .map(|&(_, records)| records)
        };
        corpus::Options {
            paths: self.paths.clone(),
            files_from: self.read.files_from.clone(),
            slice: None,
            copies: None,
            nul_separated: self.read.null,
            include: self.read.include.clone(),
            exclude: self.read.exclude.clone(),
            gitignore: self.read.gitignore,
            hidden: self.read.hidden,
            records: self.read.records.as_ref().and_then(named),
            fields: LineParser {
                id_field: self.read.id_field.clone(),
                text_field: self.read.text_field.clone(),
            },
            relative: self.read.relative,
            lossy: self.read.lossy,
            encoding: self.read.convert.encoding.0.clone(),
            prefer_fasta,
            keep_markup: self.read.convert.keep_markup,
            adapters: self.read.convert.adapters.clone(),
            adapter_limits: AdapterLimits {
                seconds: self.read.convert.adapter_timeout,
                memory_bytes: self.read.convert.adapter_memory,
            },
            adapter_cache: cache_directory(self.read.convert.adapter_cache.as_deref()),
            ocr: self.read.convert.ocr.clone(),
            max_document: self.read.max_document.min(corpus::MOST_BYTES),
            placed_ids: false,
            needs_documents: true,
        }
    }
}

/// Where extracted texts are kept: as asked, or in the cache directory of the user, if there is one.
fn cache_directory(asked: Option<&Path>) -> Option<PathBuf> {
    match asked {
        Some(path) if path == Path::new("none") => None,
        Some(path) => Some(path.to_owned()),
        None => corpus::default_cache(),
    }
}

/// For verbs that print little but errors anyway: every verb of every program accepts -q.
#[derive(Args, Debug, Clone, Copy)]
pub struct QuietArgs {
    /// Print only errors
    #[arg(short, long)]
    pub quiet: bool,
}

/// How text becomes tokens.
#[derive(Args, Debug, Clone)]
pub struct TokenArgs {
    /// words, word, char:N, line, code, code-norm or dna [default: words]
    #[arg(long, value_name = "NAME", value_parser = Rules::parse, long_help = long_help("How text becomes tokens", &token::help(), "words"))]
    pub tokenizer: Option<Rules>,
    /// Strip HTML: tags, scripts and styles; decode entities
    #[arg(long)]
    pub strip_html: bool,
    #[arg(long, help = preset_names(), value_name = "NAME", value_parser = parse_preset, long_help = preset_help())]
    pub preset: Option<&'static Preset>,
}

fn parse_preset(name: &str) -> Result<&'static Preset, String> {
    Preset::named(name).ok_or_else(|| {
        let names: Vec<_> = PRESETS.iter().map(|preset| preset.name).collect();
        format!(
            "there is no preset '{name}'; there are {}",
            names.join(", ")
        )
    })
}

impl TokenArgs {
    /// `None` if no flag was given: an input stream may name its own tokenizer.
    pub fn tokenizer(&self) -> Option<Tokenizer> {
        let rules = self.rules();
        let is_asked = rules.is_some() || self.strip_html;
        let rules = || rules.unwrap_or_else(|| Rule::default().into());
        is_asked.then(|| Tokenizer::new(rules(), self.strip_html))
    }

    /// The tokenizers that were given, or those of the preset.
    fn rules(&self) -> Option<Rules> {
        let of_preset = || Rules::parse(self.preset?.tokenizer?).ok();
        self.tokenizer.clone().or_else(of_preset)
    }

    pub fn is_dna(&self) -> bool {
        let is_dna = |rules: Rules| rules.first() == Rule::Dna;
        self.rules().is_some_and(is_dna)
    }
}

/// How tokens become blots.
#[derive(Args, Debug, Clone)]
pub struct BlotArgs {
    /// Tokens in a window [default: 8, for dna 31, for code-norm 16]
    #[arg(short, value_name = "N", value_parser = clap::value_parser!(u32).range(range(blot::K)))]
    pub k: Option<u32>,
    /// What of a window counts: ordered, xor, sorted … [default: ordered]
    #[arg(long, value_name = "NAME", long_help = long_help("What of a window counts", &blot::help(), "ordered"))]
    pub scheme: Option<String>,
    /// Make windows of every Nth token [default: 1]
    ///
    /// There are N streams, with token i in stream i mod N.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(range(blot::INTERLEAVE)))]
    pub interleave: Option<u32>,
    /// Width of a blot, 16 to 64 [default: 40]
    ///
    /// With n postings, one for each distinct window of each document, about n²/2^(BITS+1) pairs of
    /// windows have the same blot by chance. 40 bits are enough for some 80 GB of new text. Programs
    /// that write or read an index say when its blots are too narrow, and which width would do.
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u8).range(i64::from(*BITS.start())..=i64::from(*BITS.end())))]
    pub bits: Option<u8>,
    /// Blots to keep: all, winnow:W, mod:N, every:N … [default: all]
    #[arg(long, value_name = "WHICH", long_help = long_help("Which blots to keep", &select::help(), "all"))]
    pub select: Option<String>,
}

impl BlotArgs {
    pub fn options(&self, tokens: &TokenArgs) -> BlotOptions {
        let preset = tokens.preset.unwrap_or(&TEXT);
        // Its windows go with its scheme.
        let scheme = self.scheme.as_deref();
        BlotOptions {
            tokenizer: tokens.tokenizer(),
            k: self.k.or(preset.k.filter(|_| scheme.is_none())),
            scheme: scheme.or(preset.scheme).map(Into::into),
            interleave: self.interleave,
            bits: self.bits,
            select: self.select.as_deref().or(preset.select).map(Into::into),
            preset: preset.kept_name(),
        }
    }
}

fn range(range: std::ops::RangeInclusive<u32>) -> std::ops::RangeInclusive<i64> {
    i64::from(*range.start())..=i64::from(*range.end())
}

fn long_help(what: &str, rows: &str, default: &str) -> String {
    format!("{what}\n\n{rows}\n\n[default: {default}]")
}

/// Reads 512, 64K, 256M, 2G; K is 1024.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a size such as 512K, 64M or 2G");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..]
        .to_ascii_uppercase()
        .trim_end_matches('B')
        .trim_end_matches('I')
    {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(wrong()),
    };
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(1 << shift))
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(
            ["512", "64K", "2m", "1GiB", "3TB"].map(parse_size),
            [Ok(512), Ok(64 << 10), Ok(2 << 20), Ok(1 << 30), Ok(3 << 40)]
        );
        for wrong in ["", "M", "1X", "-1", "1.5G", "99999999999T"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
