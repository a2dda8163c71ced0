//! Find copied text in large document collections.
//!
//! The modules follow the data flow, and each uses only modules declared above it
//! (`scripts/dev/check-layers` enforces this):
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

/// What everything else stands on: errors, files that survive a power loss, codecs, parallel work.
pub mod base;

/// Documents and tokens: reading a corpus, tokenizers, schemes, and the streams between programs.
pub mod text;

/// Tokens to blots: one file per scheme, one per selection, and SPEX.
pub mod blot;

/// The index: postings sorted within bounded memory, segments, manifest, commits.
pub mod index;

/// Which documents are similar, and how similar they are.
pub mod similar;

/// Which passages of one document were taken from another.
pub mod align;

/// Results as records and the formats they are written in.
pub mod report;

/// Prints of all documents seen so far, on disk, and the service that answers from them.
pub mod history;

/// What each program does: one folder per program, one file per verb.
pub mod commands;

/// The same work on many machines: a plan, and the engines that carry it out.
pub mod cluster;

/// The command line: flags to options, one call, exit status.
pub mod cli;
