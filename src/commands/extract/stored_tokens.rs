//! Token hashes and token spans of the documents of an index, in temporary files: the hashes once for each distinct text, the spans for
//! each document.

use crate::base::ids::DocNo;
use crate::base::num::{ToU32, ToU64, ToUsize};
use crate::{
    align::many::PLACE_BITS,
    base::{
        codec::{Fields, put_varint},
        error::{Error, Place, Problem, Result},
        files::{Mapping, TempDir, TempFile},
    },
    commands::Settings,
    index::{DocumentRow, Index, RowLocation, View},
    text::{
        corpus::{FileBeneath, FileEntry, Source, WalkItem, containers_of, find_beneath},
        stream::{Span, Tokens},
    },
};
use std::{
    collections::HashSet,
    io,
    ops::Range,
    path::{Path, PathBuf},
};
use xxhash_rust::xxh3::xxh3_64;

/// Every this many tokens the position of a span is stored, so that any span is found from the nearest of these.
const SPAN_STEP: usize = 32;
const NONE: u32 = u32::MAX;

/// Opens the documents of an index: with `by_id` the files that their ids name, below the first of these directories that has them, or below the current one; else those of the settings.
pub fn open(view: &View<'_>, by_id: Option<&[PathBuf]>, settings: &Settings) -> Result<Source> {
    match by_id {
        Some(roots) => open_by_id(view, roots, settings),
        None => Source::new(settings.corpus.clone(), settings.limits.threads),
    }
}

/// The files that the ids name, in the order of the index.
fn open_by_id(view: &View<'_>, roots: &[PathBuf], settings: &Settings) -> Result<Source> {
    let ids = (0..view.documents())
        .map(|document| view.id(DocNo::from_index(document)))
        .collect::<Result<Vec<_>>>()?;
    let roots = if roots.is_empty() {
        vec![PathBuf::new()]
    } else {
        roots.to_vec()
    };
    let mut opened = HashSet::new();
    let open = move |id: String| {
        let refused = |path: &Path, error: io::Error| {
            let what =
                format!("{error}; if ids are no paths, say where the documents are with PATH");
            Problem::new(Place::path(path), what)
        };
        let find = |id: &str| {
            let named = find_beneath(&roots, id).map_err(|(path, error)| refused(&path, error));
            named.and_then(|FileBeneath { root, name, .. }| {
                FileEntry::beneath(&root, &name, id)
                    .map_err(|error| refused(&root.join(&name), error))
            })
        };
        let container = || containers_of(&id).find_map(|name| Some((name, find(name).ok()?)));
        match find(&id) {
            Ok(entry) => Some(WalkItem::File(entry)),
            // All documents of an archive or a table come with the first.
            Err(problem) => match container() {
                Some((name, entry)) => opened
                    .insert(name.to_owned())
                    .then_some(WalkItem::File(entry)),
                None => Some(WalkItem::Problem(problem)),
            },
        }
    };
    Source::over(
        Box::new(ids.into_iter().filter_map(open)),
        settings.corpus.clone(),
        settings.limits.threads,
    )
}

/// Replaces `out` by the hashes of tokens. For DNA, `number` is that of the document: it makes each unknown base differ from all others.
pub fn hash_tokens(tokens: &Tokens, number: Option<u32>, out: &mut Vec<u64>) {
    crate::base::codec::clear_buffer(out);
    out.extend(tokens.iter().map(xxh3_64));
    if let Some(number) = number {
        for (place, (token, hash)) in tokens
            .iter()
            .zip(out)
            .enumerate()
            .filter(|(_, (token, _))| !matches!(token, [b'a' | b'c' | b'g' | b't']))
        {
            *hash = xxh3_64(&[token, &number.to_le_bytes()[..], &place.to_le_bytes()].concat());
        }
    }
}

/// Tokens and spans of some documents, one after the other.
#[derive(Default)]
pub struct TokenBatch {
    documents: Vec<One>,
    pub tokens: Vec<[u8; 8]>,
    /// Of each document the tokens of its other strand; empty if there are no strands.
    reverse: Vec<[u8; 8]>,
    spans: Vec<u8>,
}

/// A document, and where its tokens and spans end in the buffers.
struct One {
    at: RowLocation,
    number: u32,
    representative: u32,
    is_dropped: bool,
    tokens_end: usize,
    spans_end: usize,
}

impl TokenBatch {
    /// Adds a document that the index has.
    pub fn push(&mut self, at: RowLocation, row: &DocumentRow, tokens: &Tokens, hashes: &[u64]) {
        self.tokens
            .extend(hashes.iter().map(|hash| hash.to_le_bytes()));
        put_spans(tokens.spans().unwrap_or_default(), &mut self.spans);
        let (tokens_end, spans_end) = (self.tokens.len(), self.spans.len());
        let DocumentRow {
            number,
            representative,
            ..
        } = *row;
        self.documents.push(One {
            at,
            number,
            representative,
            is_dropped: false,
            tokens_end,
            spans_end,
        });
    }

    /// Adds the other strand of the document that was added last; either all have one, or none.
    pub fn push_reverse(&mut self, hashes: &[u64]) {
        self.reverse
            .extend(hashes.iter().map(|hash| hash.to_le_bytes()));
    }

    pub fn drop_documents(&mut self, dropped: &[usize]) {
        dropped
            .iter()
            .for_each(|&index| self.documents[index].is_dropped = true);
    }

    /// The approximate memory, in bytes.
    pub fn weight(&self) -> u64 {
        let tokens = self.tokens.capacity() + self.reverse.capacity();
        (self.spans.capacity() + 8 * tokens + size_of_val(&self.documents[..])) as u64
    }
}

/// Appends spans: first where some of them stand, for random access, then all of them as differences to the one before.
fn put_spans(spans: &[Span], out: &mut Vec<u8>) {
    let (mut marks, mut all, mut before) = (Vec::new(), Vec::with_capacity(2 * spans.len()), 0_u32);
    for (number, Span { start, end }) in spans.iter().enumerate() {
        if number % SPAN_STEP == 0 {
            marks.extend(before.to_le_bytes());
            marks.extend((all.len().to_u32()).to_le_bytes());
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

/// A distinct text: its tokens start at position `start` of all tokens.
#[derive(Debug, Clone, Copy, Default)]
pub struct Text {
    pub start: u64,
    pub tokens: u32,
}

/// A document that was read.
pub struct Document {
    pub at: RowLocation,
    /// Its row in the index.
    pub number: u32,
    pub text: u32,
    spans: u64,
}

/// The tokens and spans of all documents, on disk.
///
/// Memory: about 50 bytes a document.
pub struct Stored {
    pub texts: Vec<Text>,
    pub documents: Vec<Document>,
    /// The text of each document number that has postings.
    text_of: Vec<u32>,
    tokens: TempFile,
    spans: TempFile,
}

impl Stored {
    pub fn new(index: &Index, directory: &TempDir) -> Result<Self> {
        let mut tokens = TempFile::new(directory)?;
        // A unique token separates texts, so that no passage crosses from one to the next.
        tokens.append(&0_u64.to_le_bytes())?;
        let text_of = vec![NONE; index.manifest.numbers.to_usize()];
        Ok(Self {
            texts: Vec::new(),
            documents: Vec::new(),
            text_of,
            tokens,
            spans: TempFile::new(directory)?,
        })
    }

    /// Stores documents in input order. Calls `each` for every one: with its place in `read`, the range of its tokens there, and its text if that is new.
    pub fn add(
        &mut self,
        read: &TokenBatch,
        mut each: impl FnMut(usize, Range<usize>, Option<Text>),
    ) -> Result<()> {
        let (mut tokens, mut first, mut spans_start) =
            (Vec::with_capacity(read.tokens.len()), 0, 0);
        let (base, spans) = (self.tokens.bytes(), self.spans.append(&read.spans)?.start);
        for (at, document) in read.documents.iter().enumerate() {
            let (of_tokens, of_spans) =
                (first..document.tokens_end, spans_start..document.spans_end);
            (first, spans_start) = (document.tokens_end, document.spans_end);
            let known = &mut self.text_of[document.representative.to_usize()];
            let is_new = *known == NONE && !document.is_dropped;
            let text = Text {
                start: base / 8 + tokens.len().to_u64(),
                tokens: of_tokens.len().to_u32(),
            };
            if is_new {
                *known = self.texts.len().to_u32();
                self.texts.push(text);
                tokens.extend_from_slice(&read.tokens[of_tokens.clone()]);
                tokens.push(u64::from(*known + 1).to_le_bytes());
                if !read.reverse.is_empty() {
                    tokens.extend_from_slice(&read.reverse[of_tokens.clone()]);
                    tokens.push((!u64::from(*known)).to_le_bytes());
                }
            }
            each(at, of_tokens, is_new.then_some(text));
            if !document.is_dropped {
                let One { at, number, .. } = *document;
                self.documents.push(Document {
                    at,
                    number,
                    text: *known,
                    spans: spans + of_spans.start as u64,
                });
            }
        }
        self.tokens.append(tokens.as_flattened())?;
        if self.tokens.bytes() >> (PLACE_BITS + 3) > 0 {
            return Err(Error::Usage(
                "more than a million million tokens; split the collection".to_owned(),
            ));
        }
        Ok(())
    }

    pub fn map(&self) -> Result<Mapped> {
        Ok(Mapped {
            tokens: self.tokens.map()?,
            spans: self.spans.map()?,
        })
    }
}

/// The stored tokens and spans, mapped into memory.
pub struct Mapped {
    tokens: Mapping,
    spans: Mapping,
}

impl Mapped {
    pub fn tokens(&self) -> &[[u8; 8]] {
        self.tokens.as_chunks().0
    }

    /// The bytes of some tokens of a document.
    pub fn span(
        &self,
        document: &Document,
        text: &Text,
        first: usize,
        last: usize,
    ) -> Option<Span> {
        let spans = self.spans.get(document.spans.to_usize()..)?;
        let [first, last] = [first, last].map(|number| span(spans, text.tokens.to_usize(), number));
        Some(Span {
            start: first?.start,
            end: last?.end,
        })
    }
}
