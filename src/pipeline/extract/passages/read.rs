//! Documents to what passages are found in: their tokens, where these are in the texts, and windows that other texts share.

use super::{
    super::spans::indexed,
    marks::{ALONE, Marks},
};
use crate::{
    corpus::{Content, Item},
    error::{Error, Result},
    format::{Fields, Span, Tokens, put_varint},
    index::{At, Index},
    pipeline::{Gathered, Stage, blot::ToBlots},
    posting::{Buckets, TempDir, TempFile},
};
use memmap2::Mmap;
use xxhash_rust::xxh3::xxh3_64;

/// So many blots are looked up at once.
const AT_ONCE: usize = 128;
/// Spans are found from the nearest of those that stand every so many tokens.
const SPAN_STEP: usize = 32;
/// Bits of the place of a token among all.
const PLACE_BITS: u32 = 40;
const NONE: u32 = u32::MAX;

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
    documents: Vec<One>,
    tokens: Vec<[u8; 8]>,
    spans: Vec<u8>,
    texts: Vec<u8>,
    /// Ranks and the places of windows in their document.
    windows: Vec<u64>,
}

/// A document, and where what was read of it ends.
struct One {
    at: At,
    representative: u32,
    has_text: bool,
    is_dropped: bool,
    ends: [usize; 4],
}

impl Gathered for Read {
    fn drop_documents(&mut self, dropped: &[usize]) {
        dropped.iter().for_each(|&index| self.documents[index].is_dropped = true);
    }

    fn weight(&self) -> u64 {
        let bytes = self.spans.capacity() + self.texts.capacity() + 8 * (self.tokens.capacity() + self.windows.capacity());
        (bytes + size_of_val(&self.documents[..])) as u64
    }
}

impl Stage for ToTexts<'_> {
    type Out = Read;

    fn take(&mut self, item: &Item<'_>, out: &mut Read) -> Result<(), String> {
        let Self { blots, index, marks, hashes, ranks, .. } = self;
        let (tokens, blots, hash) = blots.parts(item)?;
        let (at, row) = indexed(index, item.id, hash)?;
        hash_tokens(tokens, self.is_dna.then_some(row.number), hashes);
        ranks.clear();
        for (some, positions) in blots.values.chunks(AT_ONCE).zip(blots.positions.chunks(AT_ONCE)) {
            let first = ranks.len();
            marks.rank(some, ranks);
            for (&rank, &position) in ranks[first..].iter().zip(positions).filter(|(rank, _)| **rank != ALONE) {
                marks.mark(rank, position.checked_sub(1).map(|before| hashes[before as usize]));
            }
        }
        put_windows(&blots.positions, ranks, hashes.len(), [self.reach, self.min_tokens], &mut out.windows);
        out.tokens.extend(hashes.iter().map(|hash| hash.to_le_bytes()));
        put_spans(tokens.spans().unwrap_or_default(), &mut out.spans);
        if let Content::Text(text) = item.content {
            out.texts.extend_from_slice(text.as_bytes());
        }
        let ends = [out.tokens.len(), out.spans.len(), out.texts.len(), out.windows.len()];
        let has_text = matches!(item.content, Content::Text(_));
        out.documents.push(One { at, representative: row.representative, has_text, is_dropped: false, ends });
        Ok(())
    }

    fn finish(&mut self, _: &mut Read) {
        self.blots.give_back();
        crate::format::empty(&mut self.hashes);
        crate::format::empty(&mut self.ranks);
    }
}

/// Replaces `out` by the hashes of tokens. Of a document of bases the number is given: those that are unknown must be like no other anywhere.
pub fn hash_tokens(tokens: &Tokens, number: Option<u32>, out: &mut Vec<u64>) {
    crate::format::empty(out);
    out.extend(tokens.iter().map(xxh3_64));
    if let Some(number) = number {
        for (place, (token, hash)) in
            tokens.iter().zip(out).enumerate().filter(|(_, (token, _))| !matches!(token, [b'a' | b'c' | b'g' | b't']))
        {
            *hash = xxh3_64(&[token, &number.to_le_bytes()[..], &place.to_le_bytes()].concat());
        }
    }
}

/// Appends the windows that are shared, with those that follow them as far as a passage must reach.
fn put_windows(positions: &[u32], ranks: &[u32], tokens: usize, [reach, min_tokens]: [u32; 2], out: &mut Vec<u64>) {
    let (first, needed) = (out.len(), min_tokens - reach + 1);
    let (mut following, mut next) = (0, u32::MAX);
    for (&position, &rank) in positions.iter().zip(ranks).rev() {
        // A text of fewer tokens than a window has one blot all the same.
        if rank == ALONE || position as usize + reach as usize > tokens {
            following = 0;
            continue;
        }
        following = if following > 0 && position + 1 == next { following + 1 } else { 1 };
        next = position;
        if following >= needed {
            out.push(u64::from(rank) << 32 | u64::from(position));
        }
    }
    out[first..].reverse();
}

/// Appends spans: where some of them are, then all, by what they differ from the one before.
fn put_spans(spans: &[Span], out: &mut Vec<u8>) {
    let (mut marks, mut all, mut before) = (Vec::new(), Vec::with_capacity(2 * spans.len()), 0_u32);
    for (number, Span { start, end }) in spans.iter().enumerate() {
        if number % SPAN_STEP == 0 {
            marks.extend(before.to_le_bytes());
            marks.extend((all.len() as u32).to_le_bytes());
        }
        put_varint(&mut all, u64::from(start.wrapping_sub(before)));
        put_varint(&mut all, u64::from(end.wrapping_sub(*start)));
        before = *start;
    }
    out.extend(marks);
    out.extend(all);
}

/// Span number `number` of `count` that [`put_spans`] wrote.
fn span(bytes: &[u8], count: usize, number: usize) -> Option<Span> {
    let mark = number / SPAN_STEP;
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let (mut start, offset) = (word(8 * mark)?, word(8 * mark + 4)? as usize);
    let mut fields = Fields::new(bytes.get(8 * count.div_ceil(SPAN_STEP) + offset..)?);
    let mut end = start;
    for _ in 0..=number % SPAN_STEP {
        start = start.wrapping_add(fields.varint("a start").ok()? as u32);
        end = start.wrapping_add(fields.varint("a length").ok()? as u32);
    }
    Some(Span { start, end })
}

/// A distinct text.
pub struct Text {
    pub start: u64,
    pub tokens: u32,
    /// Where it is in the file of texts, if it came as text.
    text: Option<(u64, u32)>,
}

/// A document that was read.
pub struct Document {
    pub at: At,
    pub text: u32,
    spans: u64,
}

/// All that was read, on disk.
///
/// Memory: some 60 bytes a document, and windows as far as they may be.
pub struct Store {
    pub texts: Vec<Text>,
    pub documents: Vec<Document>,
    /// Of each number of a document whose postings are those of a text, the text.
    text_of: Vec<u32>,
    tokens: TempFile,
    spans: TempFile,
    bytes: TempFile,
    pub windows: Buckets<1>,
    /// Ranks of a bucket agree in all but so many bits.
    rank_bits: u32,
}

impl Store {
    pub fn new(index: &Index, ranks: u64, memory_bytes: u64) -> Result<Self> {
        let all_bits = u64::BITS - ranks.saturating_sub(1).leading_zeros();
        let (rank_bits, directory) = (all_bits.saturating_sub(12), TempDir(None));
        let mut tokens = TempFile::new(&directory)?;
        // A token that is no other comes before each text, and after the last.
        tokens.append(&0_u64.to_le_bytes())?;
        Ok(Self {
            texts: Vec::new(),
            documents: Vec::new(),
            text_of: vec![NONE; index.manifest.numbers as usize],
            tokens,
            spans: TempFile::new(&directory)?,
            bytes: TempFile::new(&directory)?,
            windows: Buckets::new((ranks >> rank_bits) as usize + 1, memory_bytes, directory),
            rank_bits,
        })
    }

    /// Takes documents in the order in which they are read.
    pub fn add(&mut self, read: &Read) -> Result<()> {
        let (mut tokens, mut start) = (Vec::with_capacity(read.tokens.len()), [0; 4]);
        let (base, mut bytes) = (self.tokens.bytes(), Vec::with_capacity(read.texts.len()));
        let spans = self.spans.append(&read.spans)?.start;
        for document in &read.documents {
            let [of_tokens, of_spans, of_text, of_windows] = std::array::from_fn(|at| start[at]..document.ends[at]);
            start = document.ends;
            if document.is_dropped {
                continue;
            }
            let known = &mut self.text_of[document.representative as usize];
            if *known == NONE {
                *known = self.texts.len() as u32;
                let first = base / 8 + tokens.len() as u64;
                let text = document.has_text.then_some((self.bytes.bytes() + bytes.len() as u64, of_text.len() as u32));
                self.texts.push(Text { start: first, tokens: of_tokens.len() as u32, text });
                tokens.extend_from_slice(&read.tokens[of_tokens]);
                tokens.push(u64::from(*known + 1).to_le_bytes());
                bytes.extend_from_slice(&read.texts[of_text]);
                for window in &read.windows[of_windows] {
                    let (rank, place) = (window >> 32, first + (window & u64::from(u32::MAX)));
                    let low = rank & ((1 << self.rank_bits) - 1);
                    self.windows.push((rank >> self.rank_bits) as usize, [low << PLACE_BITS | place]);
                }
            }
            self.documents.push(Document { at: document.at, text: *known, spans: spans + of_spans.start as u64 });
        }
        self.tokens.append(tokens.as_flattened())?;
        self.bytes.append(&bytes)?;
        if self.tokens.bytes() >> (PLACE_BITS + 3) > 0 {
            return Err(Error::Usage("more than a million million tokens; split the collection".to_owned()));
        }
        self.windows.settle()
    }

    /// The windows of a bucket that a passage may begin at: ranks, each with its places, in rising order of both.
    pub fn windows_of(&self, bucket: usize, marks: &Marks) -> Result<Vec<u64>> {
        let rank = |window: u64| ((bucket as u64) << self.rank_bits | window >> PLACE_BITS) as u32;
        let windows = self.windows.take(bucket)?.into_iter().map(|[window]| window);
        let mut windows: Vec<u64> = windows.filter(|&window| marks.may_begin(rank(window))).collect();
        windows.sort_unstable();
        Ok(windows)
    }

    pub fn map(&self) -> Result<Mapped> {
        Ok(Mapped { tokens: self.tokens.map()?, spans: self.spans.map()?, bytes: self.bytes.map()? })
    }
}

/// The rank of a window among those of its bucket, and its place.
pub fn rank_and_place(window: u64) -> (u64, u64) {
    (window >> PLACE_BITS, window & ((1 << PLACE_BITS) - 1))
}

/// What was read, as memory that the system may take back.
pub struct Mapped {
    tokens: Mmap,
    spans: Mmap,
    bytes: Mmap,
}

impl Mapped {
    pub fn tokens(&self) -> &[[u8; 8]] {
        self.tokens.as_chunks().0
    }

    /// The bytes of some tokens of a document.
    pub fn span(&self, document: &Document, text: &Text, first: usize, last: usize) -> Option<Span> {
        let spans = self.spans.get(document.spans as usize..)?;
        let [first, last] = [first, last].map(|number| span(spans, text.tokens as usize, number));
        Some(Span { start: first?.start, end: last?.end })
    }

    /// Some bytes of the first document with a text.
    pub fn text(&self, text: &Text, span: Span) -> Option<&str> {
        let (start, length) = text.text?;
        let whole = self.bytes.get(start as usize..start as usize + length as usize)?;
        std::str::from_utf8(whole.get(span.start as usize..span.end as usize)?).ok()
    }
}
