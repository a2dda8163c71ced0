//! dedup-spex: which chunks of a collection occur more than once.

use super::{
    Manual, Tool,
    args::{RunArgs, TokenArgs, parse_size, threads_of},
    exit_code,
    generate::{What, examples},
    main_of, name,
    output::Output,
    progress::say,
    watched,
    width::warn_of_written,
};
use crate::{
    base::files::TempDir,
    commands::{SpexOptions, SpexOutput, SpexSummary, TEXT, spex, spex_add},
    index::Resources,
    report::plot_passes,
    text::stream::Form,
};
use anyhow::bail;
use clap::Parser;
use std::{
    io::{BufWriter, Write},
    path::PathBuf,
    process::ExitCode,
};

/// Find every chunk of text that occurs more than once, in little memory
///
/// A chunk is a run of tokens. Without -o each shared chunk is a line of JSON with its text and its documents; with it they make an index that dedup-extract and dedup-query
/// read like any other, a fraction of the size of one of all chunks. Nothing that two of its documents share is missing, and their shares and scores are those of a full index; what only one of them has is not in it, so dedup-query
/// does not find text that was copied from a single document.
#[derive(Parser, Debug)]
#[command(name = "dedup-spex", version, after_help = examples(&MANUAL), max_term_width = 110)]
pub struct Arguments {
    /// Tokens of a chunk [default: 8, or that of the preset]
    #[arg(short = 'l', long = "length", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    length: Option<u32>,
    /// The size of a hash counter, four fields a byte; two are in memory at a time
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_size)]
    memory: u64,
    /// Lengths of chunks that are counted, one after the other: 1,2,4,8 [default: three eighths of the length and the length: 3,8]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    schedule: Vec<u32>,
    /// Keep chunks that at least two documents have (the default)
    #[arg(long, conflicts_with = "within")]
    across: bool,
    /// Keep chunks, too, that one document has several times
    #[arg(long)]
    within: bool,
    /// Which of the shared chunks to keep: spex for all, or spex,mod:N
    #[arg(long, value_name = "WHICH", default_value = "spex")]
    select: String,
    /// Make an index of the shared chunks, in a new directory
    #[arg(short, long, value_name = "IDX")]
    output: Option<PathBuf>,
    /// Add documents to an index of shared chunks: the result is that of a run over all documents, but only the new ones are read
    #[arg(long, value_name = "IDX", conflicts_with_all = ["output", "within", "select", "parts", "with_text"])]
    add: Option<PathBuf>,
    /// Keep nothing in the index that only --add would need: the hashes of all tokens, two to three bytes each
    #[arg(long = "final", requires = "output")]
    is_final: bool,
    /// Keep the text of chunks, for dedup-query between and blot
    ///
    /// Such an index cannot grow.
    #[arg(long, requires = "output")]
    with_text: bool,
    /// Cut the postings of the index into N range parts, 1 to 256
    #[arg(long, value_name = "N", requires = "output", value_parser = clap::value_parser!(u32).range(1..=256))]
    parts: Option<u32>,
    /// Write the last counter to FILE, for --select spex:FILE of dedup-blot and dedup-index; without -o nothing else is written
    #[arg(long, value_name = "FILE")]
    filter_out: Option<PathBuf>,
    /// Draw what each pass did, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Where hashes and sorted runs go [default: $TMPDIR or /tmp]
    #[arg(long, value_name = "DIR")]
    tmp_dir: Option<PathBuf>,
    #[command(flatten)]
    tokens: TokenArgs,
    #[command(flatten)]
    run: RunArgs,
    #[arg(long, value_name = "WHAT", hide = true)]
    generate: Option<What>,
}

const MANUAL: Manual = Manual {
    examples: &[
        (
            "dedup-spex corpus/",
            "Every run of eight words that two files have, and which",
        ),
        (
            "dedup-spex -o shared.idx corpus/ && dedup-extract shared.idx",
            "Pairs of documents, by way of a small index",
        ),
        (
            "dedup-spex --add shared.idx more/",
            "The index that a build with more/ would have made",
        ),
        (
            "dedup-spex -l 20 --within manual.txt",
            "Text that occurs twice in one document",
        ),
        (
            "dedup-spex -v --schedule 1,2,3,4,5,6,7,8 -o shared.idx corpus/",
            "The schedule of the paper, with figures for each pass",
        ),
        (
            "dedup-spex --filter-out corpus.filter corpus/ && dedup-blot --select spex:corpus.filter corpus/",
            "Only blots that may be shared",
        ),
    ],
    sections: &[
        (
            "RECORDS",
            &[
                "blot (the chunk's hash, 64 bits), text (its tokens), documents: a list of doc and count (how often it occurs in the document). Exact duplicates are listed one by one. Chunks are sorted by blot.",
            ],
        ),
        (
            "HOW IT WORKS",
            &[
                "A chunk can occur twice only if all shorter chunks in it do (SPEX, Bernstein and Zobel 2006). Chunks of the first length of the schedule are counted in fields of two bits, found by hash; of the next length only those are counted \
                 whose parts all occurred more than once, and so on. Because of collisions, some chunks that occur once survive; they are found and dropped when the survivors are sorted. So the result is exact with any amount \
                 of memory; more memory only saves work.",
                "The text is read once. The hashes of its tokens, eight bytes each, go to a temporary file, which every pass makes smaller.",
                "Exact duplicates are found first, and count as documents: all chunks of a text that occurs twice are shared. A text with fewer tokens than a chunk is one chunk.",
            ],
        ),
        (
            "THE INDEX",
            &[
                "Its blots have 64 bits and its selection is spex. It stores how many distinct chunks each document has in total, so that pairs, tables, clusters, cleaning and all scores are those of an index that dedup-index build --bits 64 makes of the same documents. With \
                 --select spex,mod:N they are those of an index of --select mod:N: estimates.",
                "It lacks chunks of a single document. So dedup-query does not find text that was copied from only one document of the collection, and says so; and --exclude-text, --exclude-index and --base do not see text that only one document has. Two such indexes cannot be merged. For all of this build a full index.",
                "A filter (--filter-out, then --select spex:FILE) belongs to its collection: it lacks chunks that other documents share with each other, or with these.",
                "--add filters the hashes of all tokens again, which the index keeps unless it was made with --final, --within or --with-text, and rewrites its postings: one commit, as with dedup-index add. No document is read again. A document with an id that the \
                 index has is skipped if its text is the same; if its text differs, it is an error.",
            ],
        ),
    ],
    see_also: &[
        ("dedup", 7),
        ("dedup-index", 1),
        ("dedup-extract", 1),
        ("dedup-blot", 1),
    ],
};

impl Tool for Arguments {
    const MANUAL: Manual = MANUAL;

    fn generate(&self) -> Option<What> {
        self.generate
    }

    fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let options = self.options()?;
        let settings = self.run.settings(Form::Ndjson, 64 << 20, false);
        let mut filter = self
            .filter_out
            .as_deref()
            .map(|path| Output::open(Some(path), true).map(BufWriter::new))
            .transpose()?;
        let is_listed = self.output.is_none() && self.add.is_none() && self.filter_out.is_none();
        let mut lines = is_listed
            .then(|| Output::open(None, false))
            .transpose()?
            .map(BufWriter::new);
        let found = watched(&name::<Self>(), &self.run, lines.is_some(), |watch| {
            let filter = filter.as_mut().map(|filter| filter as &mut dyn Write);
            if let Some(index) = &self.add {
                return Ok(spex_add(&options, &settings, index, filter, watch)?);
            }
            let output = match (&self.output, &mut lines) {
                (Some(directory), _) => SpexOutput::Index {
                    directory,
                    parts: self.parts.unwrap_or(1),
                    is_final: self.is_final,
                    with_text: self.with_text,
                },
                (None, Some(lines)) => SpexOutput::Lines(lines),
                (None, None) => SpexOutput::Nothing,
            };
            Ok(spex(&options, &settings, output, filter, watch)?)
        })?;
        for written in [filter, lines].into_iter().flatten() {
            written
                .into_inner()
                .map_err(|error| error.into_error())?
                .commit()?;
        }
        if let Some(path) = &self.plot {
            let mut out = Output::open(Some(path), false)?;
            out.write_all(plot_passes(&found.passes).as_bytes())?;
            out.commit()?;
        }
        if let Some(index) = self.output.as_ref().or(self.add.as_ref()) {
            warn_of_written(&name::<Self>(), index, self.run.common.quiet)?;
        }
        if self.run.common.verbose {
            tell(
                &found,
                is_listed || self.output.is_some() || self.add.is_some(),
            );
        }
        Ok(exit_code(
            found.summary.problems,
            self.run.input.read.skip_bad,
        ))
    }
}

impl Arguments {
    fn options(&self) -> Result<SpexOptions, anyhow::Error> {
        let preset = self.tokens.preset.unwrap_or(&TEXT);
        if preset.scheme.is_some() {
            bail!(
                "--preset {}: its blots are not chunks of consecutive tokens; use dedup-index build",
                preset.name
            );
        }
        let length = self.length.or(preset.k).unwrap_or(DEFAULT_LENGTH);
        let lengths = match &self.schedule[..] {
            [] => default_schedule(length),
            [.., last] if *last != length => {
                bail!("the schedule ends with {last}, but chunks are of {length} tokens (-l)")
            }
            lengths => lengths.to_vec(),
        };
        // One counter is left when postings are sorted: they may have what the other one had.
        let memory_bytes = self.memory.max(LEAST_MEMORY);
        let resources = Resources {
            memory_bytes,
            threads: threads_of(self.run.common.threads),
            tmp_dir: TempDir(self.tmp_dir.clone()),
        };
        let (tokenizer, select) = (self.tokens.tokenizer(), self.select.clone());
        Ok(SpexOptions {
            tokenizer,
            lengths,
            counter_bytes: self.memory,
            select: select.into(),
            within: self.within,
            preset: preset.kept_name(),
            resources,
        })
    }
}

/// Tokens in a chunk.
const DEFAULT_LENGTH: u32 = 8;

/// For sorting what was found.
const LEAST_MEMORY: u64 = 64 << 20;

/// Chunks of three tokens out of eight tell most that are unique; more passes cost more than they save (BENCHMARKS.md).
fn default_schedule(length: u32) -> Vec<u32> {
    let mut lengths = vec![(length * 3 / 8).max(1), length];
    lengths.dedup();
    lengths
}

/// A table of what each pass did, as figure 3 of the paper. If only a filter is wanted, the remaining chunks are not counted.
fn tell(found: &SpexSummary, is_looked_at: bool) {
    say(&format!(
        "{:>6} {:>15} {:>15} {:>15} {:>15} {:>7}",
        "length", "tokens left", "chunks counted", "fields hit once", "more than once", "full %"
    ));
    for pass in &found.passes {
        let hit = pass.occupancy.once + pass.occupancy.more;
        let full = 100.0 * hit as f64 / pass.fields as f64;
        say(&format!(
            "{:>6} {:>15} {:>15} {:>15} {:>15} {full:>7.2}",
            pass.length, pass.tokens, pass.counted, pass.occupancy.once, pass.occupancy.more
        ));
    }
    if is_looked_at {
        say(&format!(
            "{} of {} chunks are left, without exact duplicates",
            found.survivors, found.chunks
        ));
    }
}

/// Runs dedup-spex with the arguments of the process.
pub fn main() -> ExitCode {
    main_of::<Arguments>()
}
