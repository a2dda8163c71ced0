//! Blots, words and chunks, and the documents that have them.

use crate::base::ids::Blot;
use serde::Serialize;

/// A blot in hexadecimal digits, as many as its width has.
pub fn hex_blot(blot: Blot, bits: u8) -> String {
    let digits = usize::from(bits.div_ceil(4));
    format!("{blot:0digits$x}")
}

/// A blot and all documents that have it.
#[derive(Debug, Default, Serialize)]
pub struct BlotRecord<'r> {
    /// In hexadecimal digits.
    pub blot: String,
    /// The number of documents.
    pub df: u64,
    /// All documents.
    pub docs: Vec<&'r str>,
}

/// Text that was taken for boilerplate: the blots that the same documents have.
#[derive(Debug, Default, Serialize)]
pub struct BoilerplateRecord<'r> {
    /// The number of documents.
    pub df: u64,
    /// The number of blots.
    pub blots: u64,
    /// The first few documents.
    pub docs: Vec<&'r str>,
}

/// A document that has a blot, and the text of the blot there.
#[derive(Debug, Serialize)]
pub struct BlotText<'r> {
    /// In hexadecimal digits.
    pub blot: &'r str,
    /// Where its text is, if the document could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<[usize; 2]>,
    /// The id of the document.
    pub doc: &'r str,
    /// The text, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A blot that two documents share.
#[derive(Debug, Serialize)]
pub struct SharedBlot {
    /// In hexadecimal digits.
    pub blot: String,
    /// Its text, if the index has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A document that has a blot.
#[derive(Debug, Serialize)]
pub struct BlotPosting<'r> {
    /// In hexadecimal digits.
    pub blot: &'r str,
    /// The id of the document.
    pub doc: &'r str,
}

/// A word of the dictionary of an index.
#[derive(Debug, Serialize)]
pub struct DictionaryWord<'r> {
    /// The word.
    pub word: &'r str,
    /// The number of documents that have it.
    pub df: usize,
    /// These documents.
    pub docs: &'r [String],
    /// How often each of them has it.
    pub times: &'r [u32],
}

/// A chunk that several documents share.
#[derive(Debug, Serialize)]
pub struct ChunkRecord<'r> {
    /// Its hash, in hexadecimal digits.
    pub blot: String,
    /// Its text.
    pub text: &'r str,
    /// The documents that have it.
    pub documents: Vec<ChunkDocument<'r>>,
}

/// A document that has a chunk.
#[derive(Debug, Serialize)]
pub struct ChunkDocument<'r> {
    /// The id of the document.
    pub doc: &'r str,
    /// How often it has the chunk.
    pub count: usize,
}
