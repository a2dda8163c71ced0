//! The scheme of a stream or an index: how its tokens, blots or prints were made.
//!
//! A scheme is text in files and messages, and a value everywhere else: it is parsed once, when a
//! header or a manifest is read. Two streams can be mixed only if their schemes are equal.
//!
//! ```text
//! words@18.0/49                           tokens: the tokenizer, its versions of Unicode and dictionaries
//! words@18.0/49 ordered:8:32 all          blots: windows of 8 tokens, 32 bits, all are kept
//! word+html@18.0 xor:10x2:18 winnow:4     two interleaved streams of windows of 10 tokens
//! words@18.0/49 minhash:256@2             prints: 256 bits of MinHash, version 2 of the definition
//! ```
//!
//! A scheme may come from another program: unknown names are kept unchanged.

mod blots;
mod prints;
mod tokens;

pub use blots::{BITS, BlotScheme, SchemeTerm, SelectScheme, WindowScheme, WindowSchemes};
pub use prints::PrintScheme;
pub use tokens::TokenScheme;
