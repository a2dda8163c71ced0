//! The scheme of a stream or an index: how its tokens, blots or prints were made.
//!
//! A scheme is text in files and messages, and a value everywhere else: it is parsed once, when a
//! header or a manifest is read. Two streams can be mixed only if their schemes are equal.
//!
//! ```text
//! words@18.0/49                           tokens: the tokenizer, its versions of Unicode and dictionaries
//! words@18.0/49 ordered:8:32 all          blots: windows of 8 tokens, 32 bits, all are kept
//! word+html@18.0 xor:10x2:18 winnow:4     two interleaved streams of windows of 10 tokens
//! code+code-norm@18.0 code=ordered:16,code-norm=ordered:16:32 all
//!                                         two tokenizers, each with its own windows
//! words@18.0/49 minhash:256@2             prints: 256 bits of MinHash, version 2 of the definition
//! ```
//!
//! Several tokenizers may share an index. Each makes its own tokens of a document, and its own blots. One token record carries the
//! tokens of all of them, so that the programs in a pipe make the same index as one that does all steps.
//!
//! - Score: blots of all tokenizers count alike. What two documents share is the sum of what they share by each tokenizer, and their
//!   sizes are the sums of their sizes: the score is computed from these two as of one tokenizer.
//! - Hash: over the tokens of all tokenizers, so that an exact duplicate, which has no postings of its own, has the same blots by each.
//! - The first tokenizer gives the number of tokens, the dictionary, passages and spans.
//! - Prints of MinHash and the shared chunks of SPEX are of one tokenizer only.
//!
//! A scheme may come from another program: unknown names are kept unchanged.

mod blots;
mod prints;
mod tokens;

pub use blots::{BITS, BlotScheme, SchemeTerm, SelectScheme, WindowScheme, WindowSchemes};
pub use prints::PrintScheme;
pub use tokens::TokenScheme;
