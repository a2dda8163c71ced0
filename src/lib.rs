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
//! `ARCHITECTURE.md` has the way of a document through the modules; `examples/` has programs that
//! build an index, query it, align two texts and read a stream.
//!
//! # Align two texts
//!
//! ```
//! use dedup::align::{AlignOptions, PassageKind, PreparedText, align};
//!
//! let original = "The keeper wrote into a large black book what ships had passed, \
//!                 and how the wind had turned since noon, every evening of his life.";
//! let copy = format!("Nobody knows why. {original} Then he slept.");
//! let options = AlignOptions::default();
//! let passages = align(
//!     &PreparedText::new(original, &options),
//!     &PreparedText::new(copy.as_str(), &options),
//!     &options,
//! );
//! assert_eq!(passages.len(), 1);
//! assert_eq!(passages[0].kind, PassageKind::Verbatim);
//! assert_eq!(&copy[18..18 + original.len()], original);
//! ```
//!
//! # Read a stream
//!
//! ```
//! use dedup::text::corpus::{Content, DocumentReader, Options, Source};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("blots.jsonl");
//! // What `dedup-blot` writes, or any other program.
//! std::fs::write(&path, r#"{"doc":"a","tokens":9,"blots":["2db9c479","00c0ffee"]}"#)?;
//!
//! let options = Options::of_files(vec![path]);
//! let mut reader = DocumentReader::new(&options);
//! for chunk in Source::new(options, 1)? {
//!     reader.read(chunk?.item, &mut |document| match document {
//!         Ok(document) => match document.content {
//!             Content::Blots(blots) => assert_eq!(blots.values, [0x2db9c479, 0x00c0ffee]),
//!             _ => panic!("{}: not a blot record", document.id),
//!         },
//!         Err(problem) => panic!("{problem:?}"),
//!     })?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Build an index and query it
//!
//! ```
//! use dedup::{
//!     base::{error::Problem, files::TempDir, parallel::Limits},
//!     commands::{
//!         AnswerFormat, BlotOptions, BuildOptions, Observer, QueryOptions, Settings, build, query,
//!     },
//!     index::{Index, Resources},
//!     similar::Score,
//!     text::{corpus, stream::Form},
//! };
//!
//! /// Receives problems and progress; a program would print them.
//! struct Quiet;
//!
//! impl Observer for Quiet {
//!     fn problem(&mut self, problem: &Problem) {
//!         panic!("{problem}");
//!     }
//!     fn progress(&mut self, _bytes: u64, _documents: u64) {}
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = |name: &str| directory.path().join(name);
//! let text = "one two three four five six seven eight nine ten eleven twelve";
//! std::fs::write(path("original.txt"), text)?;
//! std::fs::write(path("copy.txt"), format!("They said: {}!", text.to_uppercase()))?;
//!
//! let settings = |name| Settings {
//!     form: Form::Ndjson,
//!     limits: Limits::new(1, 64 << 20),
//!     corpus: corpus::Options::of_files(vec![path(name)]),
//! };
//! let resources = Resources { memory_bytes: 64 << 20, threads: 1, tmp_dir: TempDir(None) };
//! let options = BuildOptions { blots: BlotOptions::default(), parts: 1, dictionary: false, resources };
//! build(&options, &settings("original.txt"), &path("my.idx"), &mut Quiet)?;
//!
//! let options = QueryOptions {
//!     blots: BlotOptions::default(),
//!     score: Score::Containment,
//!     threshold: 0.5,
//!     top: 10,
//!     max_df: None,
//!     exclude: Vec::new(),
//!     exclude_indexes: Vec::new(),
//!     base: Vec::new(),
//!     groups: None,
//!     answers: AnswerFormat::Documents,
//!     passages: None,
//!     compares_paths: false,
//! };
//! let mut lines = Vec::new();
//! let index = Index::open(&path("my.idx"))?;
//! let found = query(&options, &index, &settings("copy.txt"), &mut lines, &mut Quiet)?;
//! assert_eq!(found.matches, 1);
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]

// What everything else stands on: errors, files that survive a power loss, codecs, parallel work.
pub mod base;

// Documents and tokens: reading a corpus, tokenizers, schemes, and the streams between programs.
pub mod text;

// Tokens to blots: one file per scheme, one per selection, and SPEX.
pub mod blot;

// The index: postings sorted within bounded memory, segments, manifest, commits.
pub mod index;

// Which documents are similar, and how similar they are.
pub mod similar;

// Which passages of one document were taken from another.
pub mod align;

// Results as records and the formats they are written in.
pub mod report;

// Prints of all documents seen so far, on disk.
pub mod history;

// What each program does: one folder per program, one file per verb.
pub mod commands;

// Indexes and a history for many clients at once, over sockets.
pub mod service;

// The same work on many machines: a plan, and the engines that carry it out.
pub mod cluster;

// The command line: flags to options, one call, exit status.
pub mod cli;
