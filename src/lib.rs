//! Find copied text in large document collections.
//!
//! The modules stand in the order of the data's way, and each uses only those above it
//! (`scripts/check-layers` holds them to it):
//!
//! ```text
//! corpus ──► tokens ──► blots ──► index ──► pairs, table, clusters, …
//!   files      dedup-     dedup-    dedup-    dedup-
//!   NDJSON     tokenize   blot      index     extract
//!   stdin                 └────► passages of two documents
//!                                dedup-query
//! ```
//!
//! A *document* is an id and a text. A *token* is a normalised unit of that text with its byte span.
//! A *blot* is the hash of one window of `k` tokens; documents that share text share blots.
//!
//! The library never reads arguments, prints or exits: that is what [`cli`] is for.

// The ground.
pub mod error;
pub mod parallel;
/// Files that outlive a power loss, and files that are read as memory.
pub mod files;
pub mod scheme;
/// Records on the wire: NDJSON and binary twins, headers, checksums, end records.
pub mod format;

// Corpus to tokens.
/// Documents in: files, directories, NDJSON, FASTA, stdin, compressed or not.
pub mod corpus;
/// Text to tokens: one file a tokenizer.
pub mod token;

// Tokens to blots.
/// Tokens to blots: one file a scheme.
pub mod blot;
/// Which blots are kept: one file a heuristic.
pub mod select;

// Blots to postings.
/// Postings sorted by blot, within bounded memory.
pub mod posting;
/// Which chunks of tokens occur more than once, in little memory.
pub mod spex;

// Postings to an index.
/// The index on disk.
pub mod index;

// Index to likeness.
/// Which documents are alike, and how much.
pub mod similar;
/// Prints of all documents that came, on disk, and which of them a new one is like.
pub mod history;
/// Text that does not count: quotations, lists of references, templates.
pub mod exempt;
/// Which stretch of one document was taken from which of another.
pub mod passage;
/// Where two documents are alike, by local alignment of their tokens.
pub mod compare;

// Answers.
/// Results as lines of JSON, as tables, as graphs.
pub mod report;
/// Answers while documents come: from a history here, or from servers that each keep a part of one.
pub mod online;

// The stages, each one verb.
pub mod pipeline;
/// The same answers for many clients at once, over a socket.
pub mod serve;

// Many machines.
/// Programs on other machines, and the way there.
pub mod remote;
/// An index built in slices and ranges: a plan, and who carries it out.
pub mod shard;

// The shell.
pub mod cli;
