//! dedup-index: build an index, and look after it.

mod add;
mod build;
mod change;
mod compact;
mod dump;
mod merge;
mod pin;
mod remove;
mod resources;
mod split;
mod stats;
mod sync;
mod verify;

use super::{
    Manual, Tool,
    generate::{What, examples},
    main_of, missing_verb,
    value_help::preset_table,
};
use clap::{Args, Parser, Subcommand};
pub use resources::ResourceArgs;
use std::{path::PathBuf, process::ExitCode};

const PROGRAM: &str = "dedup-index";

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
    Build(Box<build::BuildArgs>),
    /// Add documents to an index: one with a known id and another text replaces the old one
    Add(Box<add::AddArgs>),
    /// Remove documents from an index, by id
    Remove(remove::RemoveArgs),
    /// Make an index follow its files: add what is new, replace what has changed, remove what is gone
    Sync(Box<sync::SyncArgs>),
    /// Join indexes of one scheme, all range parts of one index, or the parts of one range of several indexes
    Merge(merge::MergeArgs),
    /// Cut an index into range parts, which merge joins again
    Split(split::SplitArgs),
    /// Make all segments of an index into one
    Compact(compact::CompactArgs),
    /// Keep the state of a generation under a name, for dedup-extract --since NAME
    Pin(pin::PinArgs),
    /// Let go of a state that pin kept
    Unpin(pin::UnpinArgs),
    /// Show what an index holds: documents, blots, sets, bytes on disk
    Stats(stats::StatsArgs),
    /// Check every checksum, order, count and cross-reference of an index
    Verify(verify::VerifyArgs),
    /// Write an index as a blot stream that build reads back, or what one blot leads to
    Dump(dump::DumpArgs),
}

/// The index that a verb works on.
#[derive(Args, Debug)]
pub struct IndexArgs {
    /// The directory of the index
    #[arg(value_name = "IDX")]
    pub index: PathBuf,
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
                "Documents with the same tokens are posted once: the first is the representative, the others are its aliases. Aliases are included \
                 in every count. If the representative is removed, an alias takes its place, without reading any document again.",
            ],
        ),
        (
            "CHANGES",
            &[
                "add, remove and sync make one commit each. Their cost depends on the size of the change, not on the size of the index. A crash at \
                 any instant leaves the index as it was before or as it is after the commit. One process can write at a time; a second one is \
                 refused at once, with the number of the first. Readers neither wait for writers nor disturb them.",
                "add: a document replaces the one with the same id, unless its text is the same. remove: by id. Numbers of removed documents are \
                 used again.",
                "sync makes the index hold the documents of the given files and directories, and no others. It skips files whose size and times are \
                 those of the last sync; --checksum reads them all. The state of files is kept beside the index, in IDX.sync; without it all files \
                 are read. If a directory cannot be read, nothing is removed; a file that cannot be used keeps the documents it had.",
                "sync refuses to remove more than half of the documents, or any while a named directory is empty, and then changes nothing; \
                 --max-remove N or P% sets another limit. It remembers how it was called (the files and directories, --relative, --records, \
                 --id-field, --text-field, --lossy), and refuses to be called in another way, as ids would change and documents be removed; \
                 additional directories are allowed. Remove IDX.sync to start over.",
                "Each commit adds a segment. When there are eight, the smaller ones are merged before the next commit; --no-compact leaves that to \
                 compact, which merges all of them. The compacted index has the same bytes as one that build makes of the same documents.",
                "pin gives the state of a generation a name. dedup-extract --since NAME and --new-since NAME find it for as long as it is pinned: \
                 segments before a pinned generation are not merged with those after it, not even by compact, and the postings of documents that \
                 were removed since are kept. A pin of the same name moves. unpin removes it. merge and split make indexes without pins.",
            ],
        ),
        (
            "PARTS",
            &[
                "split cuts an index by ranges of blots. Each part is a directory that can be copied to another machine, examined with stats, \
                 verify and dump, and joined with the others by merge. merge refuses parts that overlap, leave a gap, or belong to another index.",
                "merge also joins whole indexes of one scheme. Of documents with one id the first is kept; others with another text are reported, \
                 and the exit status is 2. Parts of one range of several indexes are joined in the same way, to the part of that range of the \
                 joined index.",
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

    fn adjust(command: clap::Command) -> clap::Command {
        command.mut_subcommand("build", |build| {
            build.mut_arg("preset", |flag| flag.help(preset_table()))
        })
    }

    fn generate(&self) -> Option<What> {
        self.generate
    }

    fn run(&self) -> Result<ExitCode, anyhow::Error> {
        match &self.command {
            Some(Command::Build(args)) => build::run_build(args),
            Some(Command::Add(args)) => add::run_add(args),
            Some(Command::Remove(args)) => remove::run_remove(args),
            Some(Command::Sync(args)) => sync::run_sync(args),
            Some(Command::Merge(args)) => merge::run_merge(args),
            Some(Command::Split(args)) => split::run_split(args),
            Some(Command::Compact(args)) => compact::run_compact(args),
            Some(Command::Pin(args)) => pin::run_pin(args),
            Some(Command::Unpin(args)) => pin::run_unpin(args),
            Some(Command::Stats(args)) => stats::run_stats(args),
            Some(Command::Verify(args)) => verify::run_verify(args),
            Some(Command::Dump(args)) => dump::run_dump(args),
            None => Err(missing_verb::<Self>()),
        }
    }
}

/// Runs dedup-index with the arguments of the process.
pub fn main() -> ExitCode {
    main_of::<Arguments>()
}
