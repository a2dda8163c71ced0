//! Text out of files that are one document each: office files, books, notebooks, web pages.
//!
//! One file per kind; to add one: a file here and a row of [`KINDS`]. All kinds follow the same rules:
//!
//! - The text is what a reader sees in the body, in reading order. Paragraphs, headings, table cells and list items
//!   become lines; labels of lists (bullets and numbers) are not text.
//! - Footnotes and endnotes follow the body, in the order of their references, so that a note never splits the sentence
//!   that refers to it. A text box follows the paragraph that it is anchored in, for the same reason.
//! - Headers, footers, comments, deleted text, the origin of moved text, alternative texts of pictures and speaker notes
//!   are left out.
//! - Optional hyphens vanish, non-breaking ones stay.
//!
//! Bytes are hostile: nothing recurses on the depth of the input, what is unpacked is counted while it is unpacked,
//! and parts of an archive are found by name in memory, never on disk.

mod alternatives;
mod code_page;
mod docx;
mod epub;
mod flow;
mod html;
mod ipynb;
mod odt;
mod ooxml;
mod pptx;
mod rtf;
mod xml_text;
mod zip_member;

pub use html::text_of_html;
pub(super) use zip_member::no_directory;

use std::path::Path;

/// Why a file gives no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExtractError {
    /// Damaged: the place inside (a part of the archive, a byte) and the reason.
    #[error("{0}")]
    Damaged(String),
    /// It cannot be read without a password or a licence.
    #[error("is encrypted; save it without a password")]
    Encrypted,
    /// Its pages are images.
    #[error("has no text")]
    NoText,
    /// A program that reads images finds no text in it.
    #[error("no text was recognised in it")]
    NothingRecognised,
    /// The text, or what must be unpacked to get it, exceeds the bound.
    #[error("the text, or what must be unpacked for it, exceeds the bound for a document")]
    TooLarge,
}

impl ExtractError {
    fn damaged(place: &str, reason: impl std::fmt::Display) -> Self {
        Self::Damaged(format!("{place}: {reason}"))
    }
}

/// A kind of file that is one document, and how to get its text.
pub trait DocumentKind: Sync {
    /// What messages and accounts call it.
    fn name(&self) -> &'static str;

    /// How names of such files end, in lower case.
    fn extensions(&self) -> &'static [&'static str];

    /// Whether a file is of this kind, by its first bytes (8 KiB, unpacked), and its name where these do not tell.
    fn recognises(&self, head: &[u8], name: &Path) -> bool;

    /// The text of a file, of at most `most_bytes`.
    ///
    /// Besides the file and the text, it needs memory for the part of an archive that it reads: as XML at most 64 MiB,
    /// as HTML at most `most_bytes` and the space that stripping takes.
    fn extract(&self, bytes: &[u8], most_bytes: u64) -> Result<String, ExtractError>;
}

/// All kinds; the first that recognises a file reads it.
pub const KINDS: [&dyn DocumentKind; 8] = [
    &docx::Docx,
    &pptx::Pptx,
    &odt::ODT,
    &odt::ODP,
    &epub::Epub,
    &rtf::Rtf,
    &ipynb::Ipynb,
    &html::Html,
];

/// The kind that reads this file, if any does.
pub fn kind_of(head: &[u8], name: &Path) -> Option<&'static dyn DocumentKind> {
    KINDS.into_iter().find(|kind| kind.recognises(head, name))
}

/// Whether the name ends with one of the extensions of this kind.
fn has_extension(kind: &dyn DocumentKind, name: &Path) -> bool {
    let extension = super::skipped_kind::extension(name);
    extension.is_some_and(|extension| kind.extensions().contains(&extension.as_str()))
}

#[cfg(test)]
mod tests;
