//! Documents to what passages are found in: their tokens, where these are in the texts, and windows that other texts share.

use super::{
    super::{
        spans::indexed,
        stored::{self, Document, PLACE_BITS, SomeTokens, Stored, hash_tokens},
    },
    marks::{ALONE, Marks},
};
use crate::base::num::{ToU32, ToU64, ToUsize};
use crate::{
    base::{
        error::Result,
        files::{Mapping, TempDir, TempFile},
    },
    commands::{Gathered, Stage, blot::ToBlots},
    index::{Index, posting::Buckets},
    text::{
        corpus::{Content, InputDocument},
        stream::Span,
    },
};

/// So many blots are looked up at once.
const AT_ONCE: usize = 128;

/// Reads documents.
#[derive(Clone)]
pub struct ToTexts<'s> {
    pub blots: ToBlots,
    pub index: &'s Index,
    pub marks: &'s Marks,
    /// Tokens that a window of the index reaches over.
    pub reach: u32,
    pub min_tokens: u32,
    /// Unknown bases are like no other.
    pub is_dna: bool,
    pub hashes: Vec<u64>,
    pub ranks: Vec<u32>,
}

/// What was read of some documents, one after the other.
#[derive(Default)]
pub struct Read {
    tokens: SomeTokens,
    /// Of each document whether it has a text, and where what was read of it ends.
    ends: Vec<(bool, [usize; 2])>,
    texts: Vec<u8>,
    /// Ranks and the places of windows in their document.
    windows: Vec<u64>,
}

impl Gathered for Read {
    fn drop_documents(&mut self, dropped: &[usize]) {
        self.tokens.drop_documents(dropped);
    }

    fn weight(&self) -> u64 {
        let bytes =
            self.texts.capacity() + 8 * self.windows.capacity() + size_of_val(&self.ends[..]);
        self.tokens.weight() + bytes.to_u64()
    }
}

impl Stage for ToTexts<'_> {
    type Out = Read;

    fn take(&mut self, item: &InputDocument<'_>, out: &mut Read) -> Result<(), String> {
        let Self {
            blots,
            index,
            marks,
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
            .chunks(AT_ONCE)
            .zip(blots.positions.chunks(AT_ONCE))
        {
            let first = ranks.len();
            marks.rank(some, ranks);
            for (&rank, &position) in ranks[first..]
                .iter()
                .zip(positions)
                .filter(|(rank, _)| **rank != ALONE)
            {
                marks.mark(
                    rank,
                    position
                        .checked_sub(1)
                        .map(|before| hashes[before.to_usize()]),
                );
            }
        }
        put_windows(
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

    fn finish(&mut self, _: &mut Read) {
        self.blots.release_buffers();
        crate::base::codec::clear_buffer(&mut self.hashes);
        crate::base::codec::clear_buffer(&mut self.ranks);
    }
}

/// Appends the windows that are shared, with those that follow them as far as a passage must reach.
fn put_windows(
    positions: &[u32],
    ranks: &[u32],
    tokens: usize,
    [reach, min_tokens]: [u32; 2],
    out: &mut Vec<u64>,
) {
    let (first, needed) = (out.len(), min_tokens - reach + 1);
    let (mut following, mut next) = (0, u32::MAX);
    for (&position, &rank) in positions.iter().zip(ranks).rev() {
        // A text of fewer tokens than a window has one blot all the same.
        if rank == ALONE || position.to_usize() + reach.to_usize() > tokens {
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

/// All that was read, on disk.
///
/// Memory: some 70 bytes a document, and windows as far as they may be.
pub struct Store {
    pub stored: Stored,
    /// Where each text is in the file of texts, if it came as text.
    shown: Vec<Option<(u64, u32)>>,
    bytes: TempFile,
    pub windows: Buckets<1>,
    /// Ranks of a bucket agree in all but so many bits.
    rank_bits: u32,
}

impl Store {
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

    /// Takes documents in the order in which they are read.
    pub fn add(&mut self, read: &Read) -> Result<()> {
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

    /// The windows of a bucket that a passage may begin at: ranks, each with its places, in rising order of both.
    pub fn windows_of(&self, bucket: usize, marks: &Marks) -> Result<Vec<u64>> {
        let rank =
            |window: u64| ((bucket.to_u64()) << self.rank_bits | window >> PLACE_BITS).to_u32();
        let windows = self
            .windows
            .take(bucket)?
            .into_iter()
            .map(|[window]| window);
        let mut windows: Vec<u64> = windows
            .filter(|&window| marks.may_begin(rank(window)))
            .collect();
        windows.sort_unstable();
        Ok(windows)
    }

    pub fn map(&self) -> Result<Mapped<'_>> {
        Ok(Mapped {
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

/// What was read, as memory that the system may take back.
pub struct Mapped<'s> {
    store: &'s Store,
    stored: stored::Mapped,
    bytes: Mapping,
}

impl Mapped<'_> {
    pub fn tokens(&self) -> &[[u8; 8]] {
        self.stored.tokens()
    }

    /// The bytes of some tokens of a document.
    pub fn span(&self, document: &Document, first: usize, last: usize) -> Option<Span> {
        self.stored.span(
            document,
            &self.store.stored.texts[document.text.to_usize()],
            first,
            last,
        )
    }

    /// Some bytes of the first document with a text.
    pub fn text(&self, text: u32, span: Span) -> Option<&str> {
        let (start, length) = self.store.shown[text.to_usize()]?;
        let whole = self
            .bytes
            .get(start.to_usize()..start.to_usize() + length.to_usize())?;
        std::str::from_utf8(whole.get(span.range())?).ok()
    }
}
