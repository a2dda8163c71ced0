//! dedup-spex: which chunks of a collection occur more than once.

use super::{
    Manual, Tool,
    args::{RunArgs, TokenArgs, parse_size, read_list, threads_of},
    exit_code,
    generate::{What, examples},
    main_of, name,
    output::Output,
    progress::{Complaints, say},
    watched,
    width::warn_of_written,
};
use crate::{
    base::files::TempDir,
    commands::{
        IndexSizes, SpexIndex, SpexOptions, SpexOutput, SpexSummary, TEXT, spex, spex_add,
        spex_remove,
    },
    index::Resources,
    report::plot_passes,
    text::{scheme::BITS, stream::Form},
};
use anyhow::bail;
use clap::Parser;
use std::{
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Find every chunk of text that occurs more than once, in little memory
///
/// A chunk is a run of tokens. Without -o each shared chunk is a line of JSON with its text and its documents; with it they make an index that dedup-extract and dedup-query
/// read like any other, smaller than one of all chunks. Nothing that two of its documents share is missing, and their shares and scores are those of a full index; what only one of them has is not in it, so dedup-query
/// does not find text that was copied from a single document.
///
/// It pays where little is shared, and with --final. Where most text occurs twice, dedup-index build is the better choice.
#[derive(Parser, Debug)]
#[command(name = "dedup-spex", version, after_help = examples(&MANUAL), max_term_width = 110)]
pub struct Arguments {
    /// Tokens of a chunk [default: 8, or that of the preset]
    #[arg(short = 'l', long = "length", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    length: Option<u32>,
    /// Memory for sorting [default: 256M], or for each of two counters [64M]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
    /// Lengths of chunks that are counted, one after the other: 1,2,4,8 [default: three eighths of the length and the length: 3,8]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    schedule: Vec<u32>,
    /// Keep chunks that at least two documents have (the default)
    #[arg(long, conflicts_with = "within")]
    across: bool,
    /// Keep chunks, too, that one document has several times
    #[arg(long)]
    within: bool,
    /// Which shared chunks to keep: spex for all, or spex,mod:N
    #[arg(long, value_name = "WHICH", default_value = "spex")]
    select: String,
    /// Make an index of the shared chunks, in a new directory
    #[arg(short, long, value_name = "IDX")]
    output: Option<PathBuf>,
    /// Add documents to an index, or replace those with the same ids: only these are read
    #[arg(long, visible_alias = "replace", value_name = "IDX", conflicts_with_all = ["output", "within", "select", "parts", "with_text"])]
    add: Option<PathBuf>,
    /// Remove documents from an index: PATH… and --files-from are their ids
    #[arg(long, value_name = "IDX", conflicts_with_all = ["add", "output", "within", "select", "parts", "with_text", "filter_out", "plot"])]
    remove: Option<PathBuf>,
    /// Width of the blots of an index, 16 to 64 [default: as dedup-index build]
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u8).range(i64::from(*BITS.start())..=i64::from(*BITS.end())))]
    bits: Option<u8>,
    /// Keep no tokens: a smaller index, which --add and --remove refuse
    #[arg(long = "final", requires = "output")]
    is_final: bool,
    /// With --final or --within: keep the tokens, for the text of chunks in dedup-query between and blot
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
            "dedup-spex --remove shared.idx corpus/old.txt",
            "The index that a build without old.txt would have made",
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
                 of memory; more memory only saves work. This is how chunks are listed and how the filter is made.",
                "The text is read once. The hashes of its tokens, eight bytes each, go to a temporary file, which every pass makes smaller.",
                "For an index all chunks are sorted, as dedup-index does it, and those of single documents are dropped: that takes less time than the passes. With -v or --plot the passes run as well, for their figures.",
                "Exact duplicates are found first, and count as documents: all chunks of a text that occurs twice are shared. A text with fewer tokens than a chunk is one chunk.",
            ],
        ),
        (
            "THE INDEX",
            &[
                "Its selection is spex, and its blots are as wide as those of other indexes unless --bits says otherwise. It stores how many distinct chunks each document has in total, so that pairs, tables, clusters, cleaning and all scores are those of an index that dedup-index build makes of the same documents with the same --bits. With \
                 --select spex,mod:N they are those of an index of --select mod:N: estimates.",
                "It lacks chunks of a single document. So dedup-query does not find text that was copied from only one document of the collection, and says so; and --exclude-text, --exclude-index and --base do not see text that only one document has. Two such indexes cannot be merged. For all of this build a full index.",
                "A filter (--filter-out, then --select spex:FILE) belongs to its collection: it lacks chunks that other documents share with each other, or with these.",
            ],
        ),
        (
            "CHANGES",
            &[
                "Unless it was made with --final or --within, the index keeps the tokens of all distinct texts, compressed. From them --add and --remove find out what is shared after a change. --add takes new documents; one that has the id of another takes its place, unless its text is the same. \
                 --remove takes ids. No other document is read again, and the index has the same bytes, but for its manifest and the names of its files, as one that is made of the documents that there are then, in the order of the index and then of the input. Each run is one commit, as with dedup-index add.",
                "The tokens also hold the text of chunks, for dedup-query between and blot; with --final or --within --with-text keeps them for that alone.",
            ],
        ),
        (
            "WHEN IT PAYS",
            &[
                "The shared chunks always take less than all chunks of the same width: a fiftieth where nearly all text occurs once, most of it where nearly all occurs twice. The tokens for later changes take between one byte and one and a half bytes a word: less where much is shared, most where every word is a surprise. \
                 Where that makes the index larger than one of all chunks, the program says so, with both sizes. Then dedup-index build is the better choice: it is made in less time, it is extended in less time (dedup-index add), and dedup-query finds everything in it.",
                "So make an index of shared chunks of a large collection with little in common, for pairs, tables and clusters; with --final, if it will not change.",
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
        if let Some(index) = &self.remove {
            return self.remove_from(index, &options);
        }
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
                (Some(directory), _) => SpexOutput::Index(SpexIndex {
                    directory,
                    parts: self.parts.unwrap_or(1),
                    is_final: self.is_final,
                    with_text: self.with_text,
                }),
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
        self.tell_change(&found);
        Ok(exit_code(
            found.summary.problems,
            self.run.input.read.skip_bad,
        ))
    }
}

impl Arguments {
    /// Removes documents from an index.
    fn remove_from(&self, index: &Path, options: &SpexOptions) -> Result<ExitCode, anyhow::Error> {
        let input = &self.run.input;
        let listed = input.read.files_from.as_ref();
        let listed = listed
            .map(|list| read_list(list, input.read.null))
            .transpose()?;
        if listed.is_none() && input.paths.is_empty() {
            bail!("say which documents to remove");
        }
        let named = input
            .paths
            .iter()
            .map(|id| Ok(id.to_string_lossy().into_owned()));
        let (quiet, skip_bad) = (self.run.common.quiet, input.read.skip_bad);
        let found = spex_remove(
            options,
            named.chain(listed.into_iter().flatten()),
            index,
            &mut Complaints::new(name::<Self>(), quiet && skip_bad),
        )?;
        if self.run.common.verbose {
            tell(&found, true);
        }
        self.tell_change(&found);
        Ok(exit_code(found.summary.problems, skip_bad))
    }

    /// Says what became of documents, and if an index of all chunks would be smaller.
    fn tell_change(&self, found: &SpexSummary) {
        let SpexSummary {
            added,
            replaced,
            removed,
            known,
            ..
        } = found;
        if self.run.common.quiet {
            return;
        }
        if self.add.is_some() || self.remove.is_some() {
            say(&format!(
                "added {added}, replaced {replaced}, removed {removed}, unchanged {known}"
            ));
        }
        if let Some(sizes) = found.sizes.filter(IndexSizes::is_larger_than_all) {
            let [shared, tokens, all] = [sizes.shared, sizes.tokens, sizes.all]
                .map(|bytes| format!("{:.1} MB", bytes as f64 / 1e6));
            let what = if sizes.tokens == 0 {
                format!("the index takes {shared}")
            } else {
                format!(
                    "the index takes {shared}, and {tokens} of tokens for later changes (none with --final)"
                )
            };
            say(&format!(
                "{}: {what}; an index of all chunks (dedup-index build) would take about {all}",
                name::<Self>()
            ));
        }
    }

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
        let resources = Resources {
            memory_bytes: self.memory.unwrap_or(SORT_MEMORY).max(LEAST_MEMORY),
            threads: threads_of(self.run.common.threads),
            tmp_dir: TempDir(self.tmp_dir.clone()),
        };
        let (tokenizer, select) = (self.tokens.tokenizer(), self.select.clone());
        Ok(SpexOptions {
            tokenizer,
            lengths,
            bits: self.bits,
            counter_bytes: self.memory.unwrap_or(COUNTER_MEMORY),
            select: select.into(),
            within: self.within,
            with_figures: self.run.common.verbose || self.plot.is_some(),
            preset: preset.kept_name(),
            resources,
        })
    }
}

/// Tokens in a chunk.
const DEFAULT_LENGTH: u32 = 8;

/// For sorting: by default, and at least.
const SORT_MEMORY: u64 = 256 << 20;
const LEAST_MEMORY: u64 = 64 << 20;
/// For each of two counters.
const COUNTER_MEMORY: u64 = 64 << 20;

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
