//! dedup-index: build an index, and look after it.

use super::{
    Manual, Tool,
    args::{
        BlotArgs, QuietArgs, RunArgs, TokenArgs, machine_memory, parse_size, read_list, threads_of,
    },
    exit_code,
    generate::{What, examples},
    main_of, name,
    output::Output,
    progress::Complaints,
    stats::{StatsArgs, grouped, run_stats},
    watched,
};
use crate::{
    base::{codec::escape_unsafe, files::TempDir},
    commands::{
        BlotOptions, BuildOptions, ChangeOptions, ChangeSummary, MaxRemove, Settings, SyncOptions,
        add, build, compact, dump, dump_blot, dump_dictionary, merge, pin, remove, split, sync,
        unpin,
    },
    index::{Index, Manifest, Resources, verify},
    text::stream::Form,
};
use clap::{Args, Parser, Subcommand};
use std::{
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Build an index of blots, and look after it
///
/// An index is a directory. It knows for every blot which documents have it, each distinct set of documents stored once. The same documents give the same bytes, whatever
/// the threads, the memory and the way they came: as files, as a token stream or as a blot stream.
#[derive(Parser, Debug)]
#[command(name = "dedup-index", version, after_help = examples(&MANUAL), max_term_width = 110, arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[arg(long, value_name = "WHAT", hide = true)]
    generate: Option<What>,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Build an index of documents, or of a token or blot stream
    Build(Box<BuildArgs>),
    /// Add documents to an index: one with a known id and another text replaces the old one
    Add(Box<AddArgs>),
    /// Remove documents from an index, by id
    Remove(RemoveArgs),
    /// Make an index follow its files: add what is new, replace what has changed, remove what is gone
    Sync(Box<SyncArgs>),
    /// Join indexes of one scheme, all range parts of one index, or the parts of one range of several indexes
    Merge(MergeArgs),
    /// Cut an index into range parts, which merge joins again
    Split(SplitArgs),
    /// Make all segments of an index into one
    Compact(CompactArgs),
    /// Keep the state of a generation under a name, for dedup-extract --since NAME
    Pin(PinArgs),
    /// Let go of a state that pin kept
    Unpin(UnpinArgs),
    /// Show what an index holds: documents, blots, sets, bytes on disk
    Stats(StatsArgs),
    /// Check every checksum, order, count and cross-reference of an index
    Verify(VerifyArgs),
    /// Write an index as a blot stream that build reads back, or what one blot leads to
    Dump(DumpArgs),
}

/// How much to use.
#[derive(Args, Debug)]
pub(super) struct MeansArgs {
    /// How much memory to use before sorted runs go to disk: 256M, 4G [default: a quarter of what there is]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
    /// Where sorted runs go [default: $TMPDIR or /tmp]
    #[arg(long, value_name = "DIR")]
    tmp_dir: Option<PathBuf>,
}

impl MeansArgs {
    fn memory_bytes(&self) -> u64 {
        self.memory.unwrap_or_else(|| machine_memory() / 4)
    }

    pub(super) fn resources(&self, threads: Option<u32>) -> Resources {
        Resources {
            memory_bytes: self.memory_bytes(),
            threads: threads_of(threads),
            tmp_dir: TempDir(self.tmp_dir.clone()),
        }
    }

    /// What is under way takes its share, but needs no more than this.
    fn under_way(&self) -> u64 {
        (self.memory_bytes() / 4).min(128 << 20)
    }
}

#[derive(Args, Debug)]
struct BuildArgs {
    /// The directory to make; it must not be there yet
    #[arg(short, long, value_name = "IDX")]
    output: PathBuf,
    /// Cut the postings into N range parts, 1 to 256
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    parts: u32,
    /// Also keep a dictionary: how often each word stands in which document, for dedup-extract --method gdic
    #[arg(long)]
    dictionary: bool,
    #[command(flatten)]
    resources: MeansArgs,
    #[command(flatten)]
    blots: BlotArgs,
    #[command(flatten)]
    tokens: TokenArgs,
    #[command(flatten)]
    run: RunArgs,
}

impl BuildArgs {
    fn settings(&self) -> Settings {
        self.run.settings(
            Form::Binary,
            self.resources.under_way(),
            self.tokens.is_dna(),
        )
    }
}

/// What add and sync have in common.
#[derive(Args, Debug)]
struct ChangeArgs {
    #[command(flatten)]
    resources: MeansArgs,
    /// Leave segments as they are, however many there are
    #[arg(long)]
    no_compact: bool,
    #[command(flatten)]
    blots: BlotArgs,
    #[command(flatten)]
    tokens: TokenArgs,
    #[command(flatten)]
    run: RunArgs,
}

impl ChangeArgs {
    fn options(&self) -> ChangeOptions {
        ChangeOptions {
            blots: self.blots.options(&self.tokens),
            resources: self.resources.resources(self.run.common.threads),
            compacts: !self.no_compact,
        }
    }

    /// Documents of an index of DNA are read as FASTA.
    fn settings(&self, directory: &Path) -> Result<Settings, anyhow::Error> {
        let scheme = Manifest::read(directory)?.scheme(directory)?;
        let is_dna = scheme.tokens.is_dna();
        Ok(self
            .run
            .settings(Form::Binary, self.resources.under_way(), is_dna))
    }
}

#[derive(Args, Debug)]
struct AddArgs {
    #[command(flatten)]
    of: IndexArgs,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Args, Debug)]
struct RemoveArgs {
    #[command(flatten)]
    of: IndexArgs,
    /// Ids of documents
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Read more ids from LIST, one a line (- for stdin)
    #[arg(long, value_name = "LIST")]
    files_from: Option<PathBuf>,
    /// The ids in LIST end with NUL
    #[arg(short = '0', requires = "files_from")]
    null: bool,
    #[command(flatten)]
    resources: MeansArgs,
    /// Leave segments as they are, however many there are
    #[arg(long)]
    no_compact: bool,
    /// Exit with 0 although the index lacks some of the documents
    #[arg(long)]
    skip_bad: bool,
    /// No word on what was done, and with --skip-bad none on documents that the index does not have
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Args, Debug)]
struct SyncArgs {
    #[command(flatten)]
    of: IndexArgs,
    /// Read every file, though its size and time are as they were
    #[arg(long)]
    checksum: bool,
    /// Only say what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// How many documents may be removed, as a number or a share; more is refused, and nothing is changed [default: 50%]
    #[arg(long, value_name = "N|P%")]
    max_remove: Option<MaxRemove>,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Args, Debug)]
struct MergeArgs {
    /// The directory to make; it must not be there yet
    #[arg(short, long, value_name = "IDX")]
    output: PathBuf,
    /// Indexes, all parts of one, or the parts of one range of several
    #[arg(value_name = "IDX", required = true)]
    inputs: Vec<PathBuf>,
    /// Cut the postings into N range parts, 1 to 256 [default: as many as the first has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    parts: Option<u32>,
    #[command(flatten)]
    resources: MeansArgs,
    /// How many threads work [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Exit with 0 although some documents have the id of another
    #[arg(long)]
    skip_bad: bool,
    /// With --skip-bad, no word on documents that have the id of another; without, these are errors
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Args, Debug)]
struct SplitArgs {
    #[command(flatten)]
    of: IndexArgs,
    #[command(flatten)]
    _quiet: QuietArgs,
    /// How many parts, 1 to 256
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    parts: u32,
    /// Where the parts go: DIR/000, DIR/001 and so on
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    #[command(flatten)]
    resources: MeansArgs,
    /// How many threads work [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
}

#[derive(Args, Debug)]
struct CompactArgs {
    #[command(flatten)]
    of: IndexArgs,
    #[command(flatten)]
    _quiet: QuietArgs,
    #[command(flatten)]
    resources: MeansArgs,
    /// How many threads work [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
}

#[derive(Args, Debug)]
struct PinArgs {
    #[command(flatten)]
    of: IndexArgs,
    /// Letters, digits, '.', '_' and '-'; a pin that has this name moves
    #[arg(value_name = "NAME")]
    name: String,
    /// Which state: one that stats lists [default: the last one]
    #[arg(long, value_name = "N")]
    generation: Option<u64>,
    /// Do not say what was done
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Args, Debug)]
struct UnpinArgs {
    #[command(flatten)]
    of: IndexArgs,
    /// The name that it was given
    #[arg(value_name = "NAME")]
    name: String,
    /// Do not say what was done
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Args, Debug)]
pub(super) struct IndexArgs {
    /// The directory of the index
    #[arg(value_name = "IDX")]
    pub index: PathBuf,
}

#[derive(Args, Debug)]
struct VerifyArgs {
    #[command(flatten)]
    of: IndexArgs,
    #[command(flatten)]
    _quiet: QuietArgs,
}

#[derive(Args, Debug)]
struct DumpArgs {
    #[command(flatten)]
    of: IndexArgs,
    #[command(flatten)]
    _quiet: QuietArgs,
    /// Only the documents that have this blot
    #[arg(long, value_name = "HEX")]
    blot: Option<String>,
    /// The dictionary instead: a line for each word, with its documents and how often it stands in each
    #[arg(long, conflicts_with = "blot")]
    dictionary: bool,
    /// How much memory to use at a time; with less the index is read more often
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    memory: u64,
}

const MANUAL: Manual = Manual {
    examples: &[
        (
            "dedup-index build -o my.idx corpus/",
            "An index of all files in a directory",
        ),
        (
            "dedup-tokenize corpus/ | dedup-blot | dedup-index build -o piped.idx",
            "The same index, byte for byte, step by step",
        ),
        (
            "dedup-index build -o small.idx --select winnow:4 --memory 256M corpus/",
            "Fewer blots, little memory",
        ),
        (
            "dedup-index sync my.idx corpus/",
            "Bring it up to date with its files",
        ),
        (
            "dedup-index add my.idx new/ && dedup-index remove my.idx new/old.txt",
            "Documents in and out, one commit each",
        ),
        (
            "dedup-index pin my.idx monday",
            "Keep this state, for dedup-extract table my.idx --since monday",
        ),
        ("dedup-index stats my.idx", "What it holds"),
        ("dedup-index verify my.idx", "Whether it is whole"),
        (
            "dedup-index dump my.idx | dedup-index build -o copy.idx",
            "Out and in again",
        ),
        (
            "dedup-index split my.idx --parts 4 -o parts && dedup-index merge -o joined.idx parts/*",
            "Into range parts, and the same index again",
        ),
    ],
    sections: &[
        (
            "EXACT DUPLICATES",
            &[
                "Documents with the same tokens are posted once: the first is the representative, the others are its aliases, which every count still includes. If the representative is removed, an alias takes its place, and nothing is read again.",
            ],
        ),
        (
            "CHANGES",
            &[
                "add, remove and sync make one commit each, and cost as much as what they change, whatever the size of the index. A crash at any instant leaves the index as it was or as it was to be. One process can write at a time; another is refused at once, and told which one is at work. Readers are never in the way, nor are they disturbed.",
                "add: a document with an id that the index has replaces the one that had it, unless its text is the same. remove: by id. Numbers of removed documents are used again.",
                "sync makes the index hold the documents of the given files and directories, and no others. Files whose size and times are those of the last sync are not read; --checksum reads them all. What is known of files is kept beside the index, in IDX.sync; without it all files are read. If a directory cannot be read, nothing is removed; a file that cannot be used keeps the documents it had.",
                "sync refuses to remove more than half of the documents, or any while a directory that was named is empty, and changes nothing then; --max-remove N or P% says how many may go. It remembers how it was called (the files and directories, --relative, --records, --id-field, --text-field, --lossy), and refuses to be called in another way, as ids would change and documents go; more directories than before are welcome. Remove IDX.sync to start over.",
                "Each commit adds a segment. When eight of them pile up the smaller ones are made into one, before the next commit; --no-compact leaves that to compact, which makes one of all. What compact leaves is what build makes of the same documents.",
                "pin gives the state of a generation a name. dedup-extract --since NAME, --new-since NAME find it for as long as it is pinned: segments before a pinned generation are not made into one with those after it, also by compact, and the postings of documents that were removed since are kept. A pin of the same name moves. unpin lets it go. merge and split make indexes without pins.",
            ],
        ),
        (
            "PARTS",
            &[
                "split cuts an index by ranges of blots; each part is a directory that can be copied to another machine, looked at with stats, verify and dump, and joined with the others by merge. Parts that overlap, that leave a gap, or that are of another index are refused.",
                "merge also joins whole indexes of one scheme. Of documents with one id the first is kept; if the others have another text they are named, and the exit status is 2. Parts of one range of several indexes are joined in the same way, to the part of that range of the joined index.",
            ],
        ),
    ],
    see_also: &[
        ("dedup", 7),
        ("dedup-blot", 1),
        ("dedup-index", 5),
        ("dedup-stream", 5),
    ],
};

impl Tool for Arguments {
    const MANUAL: Manual = MANUAL;

    fn generate(&self) -> Option<What> {
        self.generate
    }

    fn run(&self) -> Result<ExitCode, anyhow::Error> {
        match &self.command {
            Some(Command::Build(args)) => run_build(args),
            Some(Command::Add(args)) => run_add(args),
            Some(Command::Remove(args)) => run_remove(args),
            Some(Command::Sync(args)) => run_sync(args),
            Some(Command::Merge(args)) => run_merge(args),
            Some(Command::Split(args)) => {
                split(
                    &args.of.index,
                    args.parts,
                    &args.output,
                    &args.resources.resources(args.threads),
                )?;
                Ok(ExitCode::SUCCESS)
            }
            Some(Command::Compact(args)) => Ok(compact(
                &args.of.index,
                &args.resources.resources(args.threads),
            )
            .map(|()| ExitCode::SUCCESS)?),
            Some(Command::Pin(PinArgs {
                of,
                name,
                generation,
                quiet,
            })) => {
                let generation = pin(&of.index, name, *generation)?;
                say_done(
                    *quiet,
                    &of.index,
                    &format!("generation {generation} is pinned as {name}"),
                )
            }
            Some(Command::Unpin(UnpinArgs { of, name, quiet })) => {
                let generation = unpin(&of.index, name)?;
                say_done(
                    *quiet,
                    &of.index,
                    &format!("generation {generation} is not pinned as {name} any more"),
                )
            }
            Some(Command::Stats(args)) => run_stats(args),
            Some(Command::Verify(args)) => {
                Ok(verify(&Index::open(&args.of.index)?).map(|()| ExitCode::SUCCESS)?)
            }
            Some(Command::Dump(args)) => run_dump(args),
            None => {
                anyhow::bail!(
                    "say what to do: build, add, remove, sync, merge, split, compact, pin, unpin, stats, verify or dump"
                )
            }
        }
    }
}

fn run_build(args: &BuildArgs) -> Result<ExitCode, anyhow::Error> {
    let (blots, resources) = (
        args.blots.options(&args.tokens),
        args.resources.resources(args.run.common.threads),
    );
    let options = BuildOptions {
        blots,
        parts: args.parts,
        dictionary: args.dictionary,
        resources,
    };
    let settings = args.settings();
    let summary = watched(&name::<Arguments>(), &args.run, false, |watch| {
        Ok(build(&options, &settings, &args.output, watch)?)
    })?;
    Ok(exit_code(summary.problems, args.run.input.read.skip_bad))
}

fn run_add(args: &AddArgs) -> Result<ExitCode, anyhow::Error> {
    let (options, settings) = (args.change.options(), args.change.settings(&args.of.index)?);
    let run = &args.change.run;
    let changed = watched(&name::<Arguments>(), run, false, |watch| {
        Ok(add(&options, &settings, &args.of.index, watch)?)
    })?;
    tell(&changed, &args.of.index, run.common.quiet, false);
    Ok(exit_code(changed.problems, run.input.read.skip_bad))
}

fn run_sync(args: &SyncArgs) -> Result<ExitCode, anyhow::Error> {
    let run = &args.change.run;
    if run.input.reads_stdin() {
        anyhow::bail!("say which files and directories the index is to follow");
    }
    let max_remove = args.max_remove.unwrap_or_default();
    let options = SyncOptions {
        change: args.change.options(),
        checksum: args.checksum,
        dry_run: args.dry_run,
        max_remove,
    };
    let settings = args.change.settings(&args.of.index)?;
    let changed = watched(&name::<Arguments>(), run, false, |watch| {
        Ok(sync(&options, &settings, &args.of.index, watch)?)
    })?;
    tell(&changed, &args.of.index, run.common.quiet, args.dry_run);
    if let Some(refusal) = &changed.refusal {
        anyhow::bail!(
            "{}: it would be refused: {refusal}",
            args.of.index.display()
        );
    }
    Ok(exit_code(changed.problems, run.input.read.skip_bad))
}

fn run_remove(args: &RemoveArgs) -> Result<ExitCode, anyhow::Error> {
    let options = ChangeOptions {
        blots: BlotOptions::default(),
        resources: args.resources.resources(None),
        compacts: !args.no_compact,
    };
    let listed = args
        .files_from
        .as_ref()
        .map(|list| read_list(list, args.null))
        .transpose()?;
    if listed.is_none() && args.ids.is_empty() {
        anyhow::bail!("say which documents to remove");
    }
    let ids = args
        .ids
        .iter()
        .cloned()
        .map(Ok)
        .chain(listed.into_iter().flatten());
    let changed = remove(
        &options,
        ids,
        &args.of.index,
        &mut Complaints::new(name::<Arguments>(), args.quiet && args.skip_bad),
    )?;
    tell(&changed, &args.of.index, args.quiet, false);
    Ok(exit_code(changed.problems, args.skip_bad))
}

fn run_merge(args: &MergeArgs) -> Result<ExitCode, anyhow::Error> {
    let resources = args.resources.resources(args.threads);
    let complaints = &mut Complaints::new(name::<Arguments>(), args.quiet && args.skip_bad);
    let summary = merge(
        &args.inputs,
        args.parts,
        &args.output,
        &resources,
        complaints,
    )?;
    Ok(exit_code(summary.problems, args.skip_bad))
}

/// One line on what a commit did.
fn tell(changed: &ChangeSummary, directory: &Path, quiet: bool, is_dry: bool) {
    if quiet {
        return;
    }
    let ChangeSummary {
        added,
        known,
        removed,
        generation,
        ..
    } = changed;
    let counts: Vec<String> = [
        (added, "added or replaced"),
        (removed, "removed"),
        (known, "known already"),
    ]
    .into_iter()
    .filter(|(count, _)| **count > 0)
    .map(|(count, what)| format!("{} {what}", grouped(*count)))
    .collect();
    let what = if counts.is_empty() {
        "nothing to do".to_owned()
    } else {
        counts.join(", ")
    };
    let when = if is_dry {
        "nothing was written".to_owned()
    } else {
        format!("generation {generation}")
    };
    let _ = say_done(quiet, directory, &format!("{what}; {when}"));
}

/// One line on what was done, on stdout.
fn say_done(quiet: bool, directory: &Path, what: &str) -> Result<ExitCode, anyhow::Error> {
    if !quiet {
        let _ = writeln!(
            std::io::stdout(),
            "{}: {what}",
            escape_unsafe(&directory.display().to_string())
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn run_dump(args: &DumpArgs) -> Result<ExitCode, anyhow::Error> {
    let index = Index::open(&args.of.index)?;
    let mut out = BufWriter::with_capacity(1 << 18, Output::open(None, false)?);
    match &args.blot {
        None if args.dictionary => dump_dictionary(&index, &mut out)?,
        None => dump(&index, args.memory, &mut out)?,
        Some(hex) => {
            let blot = index.scheme.parse_blot(hex).map_err(anyhow::Error::msg)?;
            dump_blot(&index, blot, &mut out)?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

pub fn main() -> ExitCode {
    main_of::<Arguments>()
}
