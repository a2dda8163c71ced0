//! Finds the passages that many documents share: maximal repeats, with all their places.
//!
//! A *passage* is a sequence of at least `min_tokens` tokens that occurs in two or more documents
//! and is maximal: no token extends all its places, to the left or to the right. Repeats within a
//! document are places like others, but of text that repeats right after itself only the first and
//! the last repetition count. Copies of one text share the whole text. Exact duplicates are
//! documents of their own.
//!
//! Passages are sorted by falling weight, which is tokens × places; of equal weights the one with the
//! first place comes first. A passage is listed unless all its places but one lie within places that
//! were listed before: a licence in 5,000 files is one passage, and its paragraphs are not listed
//! again. A passage of 200 tokens in 50 places weighs 10,000; its first half, in the same 50 places
//! and one more, weighs 5,100 and has one new place, so it is not listed.
//!
//! ```text
//! documents ──► tokens, spans, texts ──► on disk ──────────────────────┐
//!          └──► windows ──► shared, with different tokens before ──► repeats ──► by weight ──► passages
//!                           [shared_windows]                         [repeat]   [ranked_repeats]
//! ```
//!
//! Tokens are compared by 64-bit hashes, so colliding blots make no passage. The index says which
//! windows several texts have. Only those that are not always preceded by the same token, a small
//! part of copied text, are sorted and compared.

mod excluded_texts;
mod ranked_repeats;
mod repeat;
mod shared_windows;
mod token_set;

pub use excluded_texts::{ExcludedTexts, hash_windows};
pub use ranked_repeats::{RankedRepeat, RankedRepeats, RepeatRanker};
pub use repeat::{MaximalRepeat, RepeatFinder, TextBounds, TokenHash};
pub use shared_windows::{SharedWindows, UNSHARED};
pub use token_set::TokenSet;
