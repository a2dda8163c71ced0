//! Reads documents: their tokens, the spans of these in the texts, and the windows that other texts
//! share.

use super::super::{
    spans::indexed,
    stored_tokens::{self, Document, Stored, TokenBatch, hash_tokens},
};
use crate::base::num::{ToU32, ToU64, ToUsize};
use crate::{
    align::many::{PLACE_BITS, SharedWindows, UNSHARED},
    base::{
        error::Result,
        files::{Mapping, TempDir, TempFile},
    },
    commands::{
        DocumentStage, StageOutput,
        blot::{DocumentBlotter, DocumentParts},
    },
    index::{Index, posting::Buckets},
    text::{
        corpus::{Content, InputDocument},
        stream::{Span, Tokens},
        token::dna,
    },
};
use xxhash_rust::xxh3::xxh3_64;

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
    /// The tokens of the other strand.
    pub reverse: Vec<u64>,
    pub ranks: Vec<u32>,
}

/// The texts, tokens and windows of some documents, one after the other.
#[derive(Default)]
pub struct ReadTexts {
    pub tokens: TokenBatch,
    /// For each document: whether it has a text, and where its text and windows end.
    ends: Vec<(bool, [usize; 2])>,
    texts: Vec<u8>,
    /// For each token the number of tokens of the windows that start there; empty if all windows
    /// have the same length.
    pub reaches: Vec<u8>,
    /// The rank of each window, and its place in its document; with strands, places on the other
    /// one follow after one more token.
    pub windows: Vec<u64>,
}

impl ReadTexts {
    /// Ends a document, whose tokens and windows were added.
    pub fn end_document(&mut self, item: &InputDocument<'_>) {
        if let Content::Text(text) = item.content {
            self.texts.extend_from_slice(text.as_bytes());
        }
        self.ends.push((
            matches!(item.content, Content::Text(_)),
            [self.texts.len(), self.windows.len()],
        ));
    }
}

impl StageOutput for ReadTexts {
    fn drop_documents(&mut self, dropped: &[usize]) {
        self.tokens.drop_documents(dropped);
    }

    fn weight(&self) -> u64 {
        let bytes = self.reaches.capacity()
            + self.texts.capacity()
            + 8 * self.windows.capacity()
            + size_of_val(&self.ends[..]);
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
            reverse,
            ranks,
            ..
        } = self;
        let DocumentParts {
            tokens,
            blots,
            hash,
            token_hashes,
        } = blots.parts(item)?;
        let (at, row) = indexed(index, item.id, hash)?;
        // Hashing takes as long as finding the words, so what the blots have left is used again.
        let hashes = if token_hashes.len() == tokens.len() && !self.is_dna {
            token_hashes
        } else {
            hash_tokens(tokens, self.is_dna.then_some(row.number), hashes);
            &hashes[..]
        };
        if self.is_dna {
            if 2 * hashes.len() >= u32::MAX.to_usize() {
                return Err("more than 2,147,483,646 bases; split the sequence".to_owned());
            }
            reverse_strand(tokens, hashes, reverse);
        }
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
                // A window and the opposite one have one blot, and different tokens before them.
                let before = position.checked_sub(1).filter(|_| !self.is_dna);
                shared.add_predecessor(rank, before.map(|before| hashes[before.to_usize()]));
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
        if self.is_dna {
            out.tokens.push_reverse(reverse);
            let lengths = [self.reach, self.min_tokens];
            append_opposite_windows(
                &blots.positions,
                ranks,
                hashes.len(),
                lengths,
                &mut out.windows,
            );
        }
        out.end_document(item);
        Ok(())
    }

    fn finish(&mut self, _: &mut ReadTexts) {
        self.blots.release_buffers();
        crate::base::codec::clear_buffer(&mut self.hashes);
        crate::base::codec::clear_buffer(&mut self.reverse);
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

/// Replaces `out` by the tokens of the other strand. An unknown base equals only itself.
fn reverse_strand(tokens: &Tokens, hashes: &[u64], out: &mut Vec<u64>) {
    crate::base::codec::clear_buffer(out);
    out.extend(tokens.iter().zip(hashes).map(|(base, &hash)| {
        let opposite = dna::complement(base);
        if opposite == dna::UNKNOWN {
            hash
        } else {
            xxh3_64(opposite)
        }
    }));
    out.reverse();
}

/// Appends the windows of the other strand, which starts one token after the end of the first.
fn append_opposite_windows(
    positions: &[u32],
    ranks: &[u32],
    tokens: usize,
    lengths: [u32; 2],
    out: &mut Vec<u64>,
) {
    let opposite = |&position: &u32| tokens.to_u32().checked_sub(lengths[0] + position);
    let windows = positions.iter().zip(ranks).rev();
    let (positions, ranks): (Vec<u32>, Vec<u32>) = windows
        .filter_map(|(position, &rank)| Some((opposite(position)?, rank)))
        .unzip();
    let first = out.len();
    append_windows(&positions, &ranks, tokens, lengths, out);
    out[first..]
        .iter_mut()
        .for_each(|window| *window += tokens.to_u64() + 1);
}

/// All documents, on disk.
///
/// Memory: about 70 bytes per document, and windows within the limit.
pub struct TextStore {
    pub stored: Stored,
    /// The place of each text in the file of texts, if it came as text.
    shown: Vec<Option<(u64, u32)>>,
    bytes: TempFile,
    /// One byte per token, as [`ReadTexts::reaches`].
    reaches: TempFile,
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
            reaches: TempFile::new(&directory)?,
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
            reaches,
            windows,
            rank_bits,
        } = self;
        let (mut texts, mut start) = (Vec::with_capacity(read.texts.len()), [0; 2]);
        let mut of_texts = Vec::with_capacity(read.reaches.len());
        stored.add(&read.tokens, |document, tokens, text| {
            let (has_text, ends) = read.ends[document];
            let [of_text, of_windows] = std::array::from_fn(|at| start[at]..ends[at]);
            start = ends;
            let Some(text) = text else { return };
            shown.push(
                has_text.then_some((bytes.bytes() + texts.len().to_u64(), of_text.len().to_u32())),
            );
            texts.extend_from_slice(&read.texts[of_text]);
            // Each text follows a token that is in none.
            of_texts.push(0);
            of_texts.extend_from_slice(read.reaches.get(tokens).unwrap_or_default());
            for window in &read.windows[of_windows] {
                let (rank, place) = (window >> 32, text.start + (window & u64::from(u32::MAX)));
                let low = rank & ((1 << *rank_bits) - 1);
                windows.push((rank >> *rank_bits).to_usize(), [low << PLACE_BITS | place]);
            }
        })?;
        bytes.append(&texts)?;
        if !read.reaches.is_empty() {
            reaches.append(&of_texts)?;
        }
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
            reaches: self.reaches.map()?,
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
    reaches: Mapping,
}

impl MappedTexts<'_> {
    /// For each token the number of tokens of the windows that start there, if they differ.
    pub fn reaches(&self) -> &[u8] {
        &self.reaches
    }

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
