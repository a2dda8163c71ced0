//! Whether an index of shared chunks is smaller than one of all chunks.

use crate::{
    base::{
        error::Result,
        num::{ToF64, ToU64},
    },
    index::{FileSeal, Index, Manifest, View},
};
use std::path::Path;

/// The size of an index of shared chunks, and of an index of all chunks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexSizes {
    /// The bytes of the shared chunks, with the rows of all documents.
    pub shared: u64,
    /// The bytes of the tokens that changes need.
    pub tokens: u64,
    /// About the bytes of an index of all chunks, of the same width.
    pub all: u64,
}

impl IndexSizes {
    /// Whether an index of all chunks would be smaller.
    pub fn is_larger_than_all(&self) -> bool {
        self.shared + self.tokens > self.all
    }

    /// The sizes of an index whose files are written.
    pub fn of(directory: &Path, manifest: &Manifest) -> Result<Self> {
        let files = |files: &[FileSeal]| -> u64 { files.iter().map(|file| file.bytes).sum() };
        let index = Index::open_as_of(directory, manifest)?;
        let view = View::of(&index)?;
        let unposted = view
            .contents()
            .iter()
            .map(|content| u64::from(content.blots - content.posted));
        let segments = manifest.segments.iter();
        let shared = segments.map(|segment| files(&segment.files)).sum();
        let singles = single_bytes(
            unposted.sum(),
            view.documents().to_u64(),
            f64::from(index.scheme.bits),
        );
        Ok(Self {
            shared,
            tokens: files(&manifest.state)
                + manifest.texts.iter().map(|file| file.bytes).sum::<u64>(),
            all: shared + singles,
        })
    }
}

/// About the bytes that blots of one document each take in a part.
///
/// A gap between n blots of b bits takes b − log2 n + 1.6 bits in the Rice code, a document as many
/// bits as the last number; a bucket of about 45 blots has a head of two bytes and four bytes in the
/// directory. 9.5 M blots of 40 bits in 12,000 documents: 40 − 23.2 + 1.6 + 14 bits and 1.1 bits, 40 MB.
fn single_bytes(blots: u64, documents: u64, bits: f64) -> u64 {
    if blots == 0 {
        return 0;
    }
    let gap = (bits - blots.to_f64().log2()).max(0.0) + 1.6;
    let number = documents.max(2).to_f64().log2().ceil();
    let bucket = 8.0 * 6.0 / 45.0;
    (blots.to_f64() * (gap + number + bucket) / 8.0) as u64
}
