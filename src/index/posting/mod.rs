//! Postings sorted by blot, within bounded memory.
//!
//! Inversion in bounded memory: blots come document by document and leave sorted by blot, each with its set of documents.
//!
//! ```text
//! (blot, document) ──► buckets by range ──► sorted runs on disk ──► ranges ──► (blot, set) and (blot, document)
//!                       [Collector]          only when they exceed   [invert]    shared          singletons
//!                                            the memory
//! ```
//!
//! Windows of one copied passage all occur in the same documents, so there are far fewer distinct sets than blots: a
//! [`SetDictionary`] keeps each once. Sets are numbered by falling use, which makes their numbers cheap to write, and
//! canonical: the same postings give the same numbers however they were cut into ranges. Dictionaries that outgrow the memory are
//! written to disk, and merged at the end.

mod blot_counts;
mod buckets;
mod collect;
mod invert;
mod key;
mod packed_keys;
mod run_file;
mod set_runs;
mod sets;
mod sort;
mod spilled_sets;
mod word_collector;

pub use buckets::Buckets;
pub use collect::{Collector, Postings, SLICES, blots_of};
pub use invert::{
    FINE_POSTINGS, Inversion, InvertRanges, Inverted, InvertedRange, invert, whole_buckets,
};
pub use key::{BUCKETS, Key, NARROW_BITS, bucket_of, first_blot};
pub use packed_keys::{put_keys, take_keys};
pub use run_file::{RangeRuns, RunFile};
pub use set_runs::{RangeSetNumbers, join_set_runs, write_set_runs};
pub use sets::{SetDictionary, Sets, StoredSets};
pub use spilled_sets::SpillTo;
pub use word_collector::{
    CollectedWords, WordCollector, WordCount, WordCounter, WordCounts, WordLists, WordSink,
    bucket_of_word,
};
