//! A row of the documents of a segment: all that an index knows of a document, except its id.

use xxhash_rust::xxh3::xxh3_64;

/// What an index stores about a document besides its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentRow {
    /// Its number in the index.
    pub number: u32,
    /// Whose postings are those of this content: the first document that had it. It may be gone
    /// itself, its number stays taken.
    pub representative: u32,
    /// Of the text; none if the program that made the blots did not tell.
    pub bytes: Option<u64>,
    /// How many tokens it has.
    pub tokens: u32,
    /// The number of distinct blots of the document, including those that an index of shared
    /// chunks leaves out; shares refer to it.
    pub blots: u32,
    /// The number of them that the index holds.
    pub posted: u32,
    /// The hash of the tokens; none if the input did not have it.
    pub hash: Option<u128>,
    pub(super) id_hash: u64,
}

/// Bytes of a row in a file.
pub(super) const ROW_BYTES: usize = 52;
const UNKNOWN_BYTES: u64 = u64::MAX;

impl DocumentRow {
    /// A document that has no number yet.
    pub fn new(bytes: Option<u64>, tokens: u32, hash: Option<u128>) -> Self {
        Self {
            number: 0,
            representative: 0,
            bytes,
            tokens,
            blots: 0,
            posted: 0,
            hash,
            id_hash: 0,
        }
    }

    pub(super) fn numbered(self, number: u32, representative: u32) -> Self {
        Self {
            number,
            representative,
            ..self
        }
    }

    /// A document with at least this number of distinct blots, posted or not.
    pub fn with_blots(self, blots: u32) -> Self {
        Self { blots, ..self }
    }

    /// It has at least as many blots as are posted.
    pub(super) fn with_posted(self, blots: u32, posted: u32) -> Self {
        Self {
            blots: blots.max(posted),
            posted,
            ..self
        }
    }

    pub(super) fn id_hash(&self) -> u64 {
        self.id_hash
    }

    /// Whether the postings of this content belong to another document.
    pub fn is_alias(&self) -> bool {
        self.number != self.representative
    }

    /// The row of a document with this id.
    pub(super) fn of_id(self, id: &str) -> Self {
        let id_hash = xxh3_64(id.as_bytes());
        Self { id_hash, ..self }
    }

    /// The bytes of the row.
    pub(super) fn to_bytes(self) -> [u8; ROW_BYTES] {
        let mut out = [0; ROW_BYTES];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.number.to_le_bytes());
        put(4, &self.representative.to_le_bytes());
        put(8, &self.bytes.unwrap_or(UNKNOWN_BYTES).to_le_bytes());
        put(16, &self.tokens.to_le_bytes());
        put(20, &self.blots.to_le_bytes());
        put(24, &self.hash.unwrap_or_default().to_le_bytes());
        put(40, &self.id_hash.to_le_bytes());
        put(48, &self.posted.to_le_bytes());
        out
    }

    /// Reads a row from its bytes.
    pub(super) fn read(bytes: &[u8]) -> Self {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|index| bytes[at + index]));
        let wide = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let hash = u128::from(wide(24)) | u128::from(wide(32)) << 64;
        Self {
            number: word(0),
            representative: word(4),
            bytes: Some(wide(8)).filter(|&bytes| bytes != UNKNOWN_BYTES),
            tokens: word(16),
            blots: word(20),
            hash: Some(hash).filter(|&hash| hash != 0),
            id_hash: wide(40),
            posted: word(48),
        }
    }
}
