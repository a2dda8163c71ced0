//! Finds the passages that many documents share: families of repeats, with all their places.
//!
//! # Repeats
//!
//! A *repeat* is a sequence of at least `min_tokens` tokens that occurs in two or more documents
//! and is maximal: no token extends all its places, to the left or to the right. Repeats within a
//! document are places like others. Copies of one text share the whole text. Exact duplicates are
//! documents of their own. Both strands of DNA are searched.
//!
//! # Families
//!
//! A passage that many authors adapted has thousands of repeats: the part before the name of the
//! author, the part after it, each of them with one more word. They form one *family*. Repeats are
//! taken by falling weight, which is tokens × places; of equal weights the one with the first place
//! comes first. For each of them:
//!
//! 1. If all its windows of `min_tokens` tokens are in listed places, it adds nothing.
//! 2. If in half of its places or more at least half of its tokens belong to a family, or three
//!    quarters of them to several, it *varies* the one that has most of them: its places become
//!    places of this family. Its tokens do not belong to the family, so that no family grows step by
//!    step into the text beside it.
//! 3. If it lies beside a family in more than half of its places and in more than half of those of
//!    the family, it *continues* this family: its places become places of the family, and its tokens
//!    belong to it. Beside means with a gap of at most `min_tokens` tokens, or a quarter of the
//!    shorter of the two.
//! 4. Otherwise it starts a family.
//!
//! A token belongs to the first family that got it. Within a document, places of a family that
//! overlap, or that follow each other in the order of the family with such a gap, become one place.
//! So every window of `min_tokens` tokens that two documents share lies in a listed place, wherever
//! it occurs, and each place of a family adds text to it: a licence in 20,000 files, each with
//! another name in the middle, is one family of 20,000 places.
//!
//! Take `min_tokens` = 8, a licence of 200 tokens, the name after 120, in 50 files, and one file with
//! only the first 60 tokens of it. The repeat of 120 tokens weighs 120 × 50 = 6,000 and starts a
//! family. That of the last 79 tokens weighs 3,950; it is one token away from the first in all
//! places, and continues the family. The first 60 tokens weigh 60 × 51 = 3,060; in 50 of 51 places
//! they belong to the family, so that the new place is one of the family.
//!
//! # Text with errors
//!
//! Scanned or reworded text has few exact repeats. Of an index of letters or content words, families
//! are made from chains of equal blots instead: [`reprints`](ReprintFinder).
//!
//! # Text that is not of interest
//!
//! Excluded text is cut out of each repeat, wherever the two have `min_tokens` tokens in common;
//! what remains must have `min_tokens` tokens.
//!
//! ```text
//! documents ──► tokens, spans, texts ──► on disk ─────────────────────┐
//!          └──► windows ──► shared, with different tokens before ──► repeats ──► by weight ──► families
//!                           [shared_windows]                        [repeat]  [ranked_repeats] [family_builder]
//! ```
//!
//! Tokens are compared by 64-bit hashes, so colliding blots make no passage. The index says which
//! windows several texts have. Only those that are not always preceded by the same token, a small
//! part of copied text, are sorted and compared.

mod differences;
mod excluded_texts;
mod families;
mod family_builder;
mod owners;
mod ranked_repeats;
mod repeat;
mod reprints;
mod shared_windows;
mod text_bounds;
mod token_set;

pub use differences::differing_tokens;
pub use excluded_texts::{ExcludedTexts, ExcludedWindows, hash_windows};
pub use families::{Families, FamilyPlace};
pub use family_builder::FamilyBuilder;
pub use ranked_repeats::{RankedRepeat, RankedRepeats, RepeatRanker};
pub use repeat::{MaximalRepeat, PLACE_BITS, RepeatFinder, RepeatPlace, TokenHash};
pub use reprints::ReprintFinder;
pub use shared_windows::{SharedWindows, UNSHARED};
pub use text_bounds::TextBounds;
pub use token_set::TokenSet;
