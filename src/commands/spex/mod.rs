//! Finds the chunks of text that occur more than once.

mod change;
mod chunk_stage;
mod chunks;
mod contents;
mod documents;
mod index;
mod lines;
mod scan;
mod sieve;
mod sizes;
mod tokens;

pub use change::{spex_add, spex_remove};
pub use sizes::IndexSizes;

use crate::{
    base::error::Result,
    blot::spex::Pass,
    commands::{Observer, Settings, Summary},
    index::Resources,
    text::{scheme::SelectScheme, token::Tokenizer},
};
use std::{io::Write, path::Path};

/// Which chunks are looked for.
#[derive(Debug, Clone)]
pub struct SpexOptions {
    /// How texts become tokens; `None`: as in the input stream, or words.
    pub tokenizer: Option<Tokenizer>,
    /// The lengths of chunks that are counted in turn, rising; the last is the length of the chunks to find.
    pub lengths: Vec<u32>,
    /// The bits of the blots of an index; `None`: as in other indexes, or as in the index that is changed.
    pub bits: Option<u8>,
    /// The size of a counter; two are in memory at a time.
    pub counter_bytes: u64,
    /// Which of the shared chunks are kept: `spex`, `spex,mod:16`.
    pub select: SelectScheme,
    /// Also find chunks that occur several times in one document only.
    pub within: bool,
    /// Count chunks in passes although an index does not need it, for the figures.
    pub with_figures: bool,
    /// The name of the preset that the index keeps.
    pub preset: Option<String>,
    /// Memory, threads and temporary files for all steps but counting.
    pub resources: Resources,
}

/// An index of shared chunks to make.
#[derive(Debug, Clone, Copy)]
pub struct SpexIndex<'o> {
    /// The directory to make.
    pub directory: &'o Path,
    /// The number of range parts.
    pub parts: u32,
    /// Do not keep the tokens that changes need. Implied by `within`.
    pub is_final: bool,
    /// Keep the tokens nevertheless, for the text of chunks.
    pub with_text: bool,
}

/// Where the chunks go.
pub enum SpexOutput<'o> {
    /// An index of them.
    Index(SpexIndex<'o>),
    /// A line of JSON for each chunk, by rising blot.
    Lines(&'o mut dyn Write),
    /// Nowhere: the caller wants only the filter.
    Nothing,
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct SpexSummary {
    /// The input that was read.
    pub summary: Summary,
    /// The figures of each pass, if there were passes.
    pub passes: Vec<Pass>,
    /// The number of chunks of all documents; a chunk that occurs twice counts twice.
    pub chunks: u64,
    /// The number of these that are left after all passes, if they were counted.
    pub survivors: u64,
    /// The size of the index, if one was written.
    pub sizes: Option<IndexSizes>,
    /// Of a change: new documents.
    pub added: u64,
    /// Documents that have another text now.
    pub replaced: u64,
    /// Documents that were the same already.
    pub known: u64,
    /// Documents that were removed.
    pub removed: u64,
}

/// Finds all chunks that occur more than once. Writes the last counter to `filter`, as a filter for blots.
pub fn spex(
    options: &SpexOptions,
    settings: &Settings,
    output: SpexOutput<'_>,
    filter: Option<&mut dyn Write>,
    observer: &mut dyn Observer,
) -> Result<SpexSummary> {
    match output {
        SpexOutput::Index(index) => index::write(options, settings, &index, filter, observer),
        SpexOutput::Lines(out) => lines::write(options, settings, Some(out), filter, observer),
        SpexOutput::Nothing => lines::write(options, settings, None, filter, observer),
    }
}
