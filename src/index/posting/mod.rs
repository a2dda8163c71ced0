//! Sorts postings by blot, within bounded memory.
//!
//! Blots come document by document and leave sorted by blot, each with its set of documents.
//!
//! ```text
//! (blot, document) ──► buckets ──► sorted runs on disk ──► ranges ──► (blot, set)       shared
//!                    [Collector]   only if the buckets    [invert]    (blot, document)  single
//!                                  exceed the memory
//! ```
//!
//! The windows of a copied passage all occur in the same documents, so there are far fewer distinct
//! sets than blots: a [`SetDictionary`] stores each set once. The most used set gets number 0,
//! which makes numbers short on disk. The numbers are canonical: the same postings give the same
//! numbers however they were cut into ranges. Dictionaries that exceed the memory are written to
//! disk and merged at the end.

mod blot_counts;
mod bucket_range;
mod buckets;
mod collect;
mod invert;
mod inverted;
mod key;
mod packed_keys;
mod ranges;
mod run_file;
mod set_runs;
mod sets;
mod sort;
mod spilled_sets;
mod word_collector;

pub use bucket_range::BucketRange;
pub use buckets::Buckets;
pub use collect::{Collector, Postings, SLICES, blots_of};
pub use invert::{DocumentBlots, Inversion, InvertRanges, invert};
pub use inverted::{Inverted, InvertedRange};
pub use key::{BUCKETS, Key, NARROW_BITS, bucket_of, first_blot};
pub use packed_keys::{put_keys, take_keys};
pub use ranges::{FINE_POSTINGS, whole_buckets};
pub use run_file::{RangeRuns, RunFile};
pub use set_runs::{RangeSetNumbers, SharedSetNumbers, join_set_runs, write_set_runs};
pub use sets::{SetDictionary, Sets, StoredSets};
pub use spilled_sets::SpillTo;
pub use word_collector::{
    CollectedWords, WordCollector, WordCount, WordCounter, WordCounts, WordLists, WordSink,
    bucket_of_word,
};
