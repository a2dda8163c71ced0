//! Reads documents: their tokens, the spans of these in the texts, and the windows that other texts
//! share.

use super::super::{
    spans::indexed,
    stored_tokens::{self, Document, PLACE_BITS, Stored, TokenBatch, hash_tokens},
};
use crate::base::num::{ToU32, ToU64, ToUsize};
use crate::{
    align::many::{SharedWindows, UNSHARED},
    base::{
        error::Result,
        files::{Mapping, TempDir, TempFile},
    },
    commands::{DocumentStage, StageOutput, blot::DocumentBlotter},
    index::{Index, posting::Buckets},
    text::{
        corpus::{Content, InputDocument},
        stream::Span,
    },
};

/// The number of blots to look up at once.
const LOOKUP_CHUNK: usize = 128;

/// Turns documents into tokens and shared windows.
#[derive(Clone)]
pub struct TextStage<'s> {
    pub blots: DocumentBlotter,
    pub index: &'s Index,
    pub shared: &'s SharedWindows,
    /// The number of tokens that a window of the index covers.
    pub reach: u32,
    pub min_tokens: u32,
    /// The tokens are bases: unknown ones equal no other.
    pub is_dna: bool,
    pub hashes: Vec<u64>,
    pub ranks: Vec<u32>,
}

/// The texts, tokens and windows of some documents, one after the other.
#[derive(Default)]
pub struct ReadTexts {
    tokens: TokenBatch,
    /// For each document: whether it has a text, and where its text and windows end.
    ends: Vec<(bool, [usize; 2])>,
    texts: Vec<u8>,
    /// The rank of each window, and its place in its document.
    windows: Vec<u64>,
}

impl StageOutput for ReadTexts {
    fn drop_documents(&mut self, dropped: &[usize]) {
        self.tokens.drop_documents(dropped);
    }

    fn weight(&self) -> u64 {
        let bytes =
            self.texts.capacity() + 8 * self.windows.capacity() + size_of_val(&self.ends[..]);
        self.tokens.weight() + bytes.to_u64()
    }
}

impl DocumentStage for TextStage<'_> {
    type Out = ReadTexts;

    fn take(&mut self, item: &InputDocument<'_>, out: &mut ReadTexts) -> Result<(), String> {
        let Self {
            blots,
            index,
            shared,
            hashes,
            ranks,
            ..
        } = self;
        let (tokens, blots, hash) = blots.parts(item)?;
        let (at, row) = indexed(index, item.id, hash)?;
        hash_tokens(tokens, self.is_dna.then_some(row.number), hashes);
        ranks.clear();
        for (some, positions) in blots
            .values
            .chunks(LOOKUP_CHUNK)
            .zip(blots.positions.chunks(LOOKUP_CHUNK))
        {
            let first = ranks.len();
            shared.rank(some, ranks);
            for (&rank, &position) in ranks[first..]
                .iter()
                .zip(positions)
                .filter(|(rank, _)| **rank != UNSHARED)
            {
                shared.add_predecessor(
                    rank,
                    position
                        .checked_sub(1)
                        .map(|before| hashes[before.to_usize()]),
                );
            }
        }
        append_windows(
            &blots.positions,
            ranks,
            hashes.len(),
            [self.reach, self.min_tokens],
            &mut out.windows,
        );
        out.tokens.push(at, &row, tokens, hashes);
        if let Content::Text(text) = item.content {
            out.texts.extend_from_slice(text.as_bytes());
        }
        out.ends.push((
            matches!(item.content, Content::Text(_)),
            [out.texts.len(), out.windows.len()],
        ));
        Ok(())
    }

    fn finish(&mut self, _: &mut ReadTexts) {
        self.blots.release_buffers();
        crate::base::codec::clear_buffer(&mut self.hashes);
        crate::base::codec::clear_buffer(&mut self.ranks);
    }
}

/// Appends the windows that start `min_tokens` tokens of shared windows.
fn append_windows(
    positions: &[u32],
    ranks: &[u32],
    tokens: usize,
    [reach, min_tokens]: [u32; 2],
    out: &mut Vec<u64>,
) {
    let (first, needed) = (out.len(), min_tokens - reach + 1);
    let (mut following, mut next) = (0, u32::MAX);
    for (&position, &rank) in positions.iter().zip(ranks).rev() {
        // A text of fewer tokens than a window has one blot nevertheless.
        if rank == UNSHARED || position.to_usize() + reach.to_usize() > tokens {
            following = 0;
            continue;
        }
        following = if following > 0 && position + 1 == next {
            following + 1
        } else {
            1
        };
        next = position;
        if following >= needed {
            out.push(u64::from(rank) << 32 | u64::from(position));
        }
    }
    out[first..].reverse();
}

/// All documents, on disk.
///
/// Memory: about 70 bytes per document, and windows within the limit.
pub struct TextStore {
    pub stored: Stored,
    /// The place of each text in the file of texts, if it came as text.
    shown: Vec<Option<(u64, u32)>>,
    bytes: TempFile,
    pub windows: Buckets<1>,
    /// The number of low bits in which the ranks of a bucket differ.
    rank_bits: u32,
}

impl TextStore {
    pub fn new(index: &Index, ranks: u64, memory_bytes: u64) -> Result<Self> {
        let all_bits = u64::BITS - ranks.saturating_sub(1).leading_zeros();
        let (rank_bits, directory) = (all_bits.saturating_sub(12), TempDir(None));
        Ok(Self {
            stored: Stored::new(index, &directory)?,
            shown: Vec::new(),
            bytes: TempFile::new(&directory)?,
            windows: Buckets::new((ranks >> rank_bits).to_usize() + 1, memory_bytes, directory),
            rank_bits,
        })
    }

    /// Adds documents, in the order in which they are read.
    pub fn add(&mut self, read: &ReadTexts) -> Result<()> {
        let Self {
            stored,
            shown,
            bytes,
            windows,
            rank_bits,
        } = self;
        let (mut texts, mut start) = (Vec::with_capacity(read.texts.len()), [0; 2]);
        stored.add(&read.tokens, |document, _, text| {
            let (has_text, ends) = read.ends[document];
            let [of_text, of_windows] = std::array::from_fn(|at| start[at]..ends[at]);
            start = ends;
            let Some(text) = text else { return };
            shown.push(
                has_text.then_some((bytes.bytes() + texts.len().to_u64(), of_text.len().to_u32())),
            );
            texts.extend_from_slice(&read.texts[of_text]);
            for window in &read.windows[of_windows] {
                let (rank, place) = (window >> 32, text.start + (window & u64::from(u32::MAX)));
                let low = rank & ((1 << *rank_bits) - 1);
                windows.push((rank >> *rank_bits).to_usize(), [low << PLACE_BITS | place]);
            }
        })?;
        bytes.append(&texts)?;
        windows.settle()
    }

    /// The windows of a bucket at which a passage may begin, sorted by rank, then by place.
    pub fn windows_of(&self, bucket: usize, shared: &SharedWindows) -> Result<Vec<u64>> {
        let rank =
            |window: u64| ((bucket.to_u64()) << self.rank_bits | window >> PLACE_BITS).to_u32();
        let windows = self
            .windows
            .take(bucket)?
            .into_iter()
            .map(|[window]| window);
        let mut windows: Vec<u64> = windows
            .filter(|&window| shared.may_begin(rank(window)))
            .collect();
        windows.sort_unstable();
        Ok(windows)
    }

    pub fn map(&self) -> Result<MappedTexts<'_>> {
        Ok(MappedTexts {
            store: self,
            stored: self.stored.map()?,
            bytes: self.bytes.map()?,
        })
    }
}

/// The rank of a window among those of its bucket, and its place.
pub fn rank_and_place(window: u64) -> (u64, u64) {
    (window >> PLACE_BITS, window & ((1 << PLACE_BITS) - 1))
}

/// All documents, mapped.
pub struct MappedTexts<'s> {
    store: &'s TextStore,
    stored: stored_tokens::Mapped,
    bytes: Mapping,
}

impl MappedTexts<'_> {
    pub fn tokens(&self) -> &[[u8; 8]] {
        self.stored.tokens()
    }

    /// The span of some tokens of a document.
    pub fn span(&self, document: &Document, first: usize, last: usize) -> Option<Span> {
        self.stored.span(
            document,
            &self.store.stored.texts[document.text.to_usize()],
            first,
            last,
        )
    }

    /// A part of the text of the first document with a text.
    pub fn text(&self, text: u32, span: Span) -> Option<&str> {
        let (start, length) = self.store.shown[text.to_usize()]?;
        let whole = self
            .bytes
            .get(start.to_usize()..start.to_usize() + length.to_usize())?;
        std::str::from_utf8(whole.get(span.range())?).ok()
    }
}
