//! The first pass: turns text into hashes, and keeps of each document what later passes need.

use super::tokens::{chunks_of, token_count, tokens_of};
use crate::base::num::{ToU32, ToU64, ToUsize};
use crate::{
    base::{
        codec::clear_buffer,
        error::{Error, Result},
        files::{TempDir, TempFile},
        parallel::Limits,
    },
    blot::{
        ordered_windows,
        spex::{ChunkCounter, TokenBlock},
    },
    commands::{DocumentStage, StageOutput, stage::IdsAndPlaces},
    index::{DocumentRow, Resources},
    text::{corpus::InputDocument, scheme::TokenScheme, stream::Tokens, token::SchemeTokenizer},
};
use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
use xxhash_rust::xxh3::xxh3_64;

/// Threads, and the bytes of hashes that may be in flight.
pub fn block_limits(resources: &Resources) -> Limits {
    Limits::new(resources.threads, 16 << 20)
}

/// Hashes tokens, and counts the shortest chunks.
#[derive(Clone)]
pub struct HashStage<'c> {
    tokenize: SchemeTokenizer,
    tokens: Tokens,
    counter: &'c ChunkCounter,
    length: usize,
    counted: &'c AtomicU64,
    with_text: bool,
    chunks: Vec<u64>,
}

/// What [`Hash`] does with tokens.
pub struct HashOptions<'c> {
    pub scheme: &'c TokenScheme,
    /// Counts the shortest chunks, of `length` tokens.
    pub counter: &'c ChunkCounter,
    pub length: u32,
    pub counted: &'c AtomicU64,
    pub with_text: bool,
}

impl<'c> HashStage<'c> {
    pub fn new(options: HashOptions<'c>) -> Self {
        let HashOptions {
            scheme,
            counter,
            length,
            counted,
            with_text,
        } = options;
        Self {
            tokenize: SchemeTokenizer::new(scheme),
            tokens: Tokens::default(),
            counter,
            length: length.to_usize(),
            counted,
            with_text,
            chunks: Vec::new(),
        }
    }
}

/// The hashes of the documents of one chunk of input.
#[derive(Default)]
pub struct HashedDocuments {
    documents: Vec<HashedDocument>,
}

struct HashedDocument {
    row: DocumentRow,
    hashes: Vec<u64>,
    /// The tokens, one a line, and where each ends.
    text: Vec<u8>,
    ends: Vec<u32>,
}

impl StageOutput for HashedDocuments {
    fn drop_documents(&mut self, dropped: &[usize]) {
        let mut at = 0;
        self.documents.retain(|_| {
            at += 1;
            dropped.binary_search(&(at - 1)).is_err()
        });
    }

    fn weight(&self) -> u64 {
        self.documents
            .iter()
            .map(|document| {
                (80 + 8 * document.hashes.len() + document.text.len() + 4 * document.ends.len())
                    as u64
            })
            .sum()
    }
}

impl DocumentStage for HashStage<'_> {
    type Out = HashedDocuments;

    fn take(&mut self, item: &InputDocument<'_>, out: &mut HashedDocuments) -> Result<(), String> {
        let tokens = tokens_of(item, &mut self.tokenize, &mut self.tokens)?;
        let count = token_count(tokens)?;
        let hashes: Vec<u64> = tokens.iter().map(xxh3_64).collect();
        self.chunks.clear();
        ordered_windows(&hashes, self.length, &mut self.chunks);
        self.counter.count(&self.chunks);
        self.counted.fetch_add(self.chunks.len().to_u64(), Relaxed);
        let row = DocumentRow::new(
            item.bytes,
            count,
            Some(item.hash.unwrap_or_else(|| tokens.hash())),
        );
        let (text, ends) = if self.with_text {
            (tokens.text.clone(), tokens.ends.clone())
        } else {
            Default::default()
        };
        out.documents.push(HashedDocument {
            row,
            hashes,
            text,
            ends,
        });
        Ok(())
    }

    fn finish(&mut self, _: &mut HashedDocuments) {
        self.tokens.clear();
        clear_buffer(&mut self.chunks);
        self.tokenize.release_buffers();
    }
}

/// All documents: ids, rows, and which ones are exact duplicates. The tokens are on disk.
pub struct SpexDocuments {
    rows: Vec<(Box<str>, DocumentRow)>,
    by_hash: HashMap<u128, u32>,
    /// The exact duplicates of a document, if it has any.
    aliases: HashMap<u32, Vec<u32>>,
    texts: Option<TextStore>,
}

/// The tokens of documents, on disk.
struct TextStore {
    text: TempFile,
    ends: TempFile,
    /// Where the tokens of each document start.
    places: Vec<(u64, u64)>,
}

impl SpexDocuments {
    pub fn new(directory: &TempDir, with_text: bool) -> Result<Self> {
        let texts = || {
            Ok::<_, Error>(TextStore {
                text: TempFile::new(directory)?,
                ends: TempFile::new(directory)?,
                places: Vec::new(),
            })
        };
        let texts = with_text.then(texts).transpose()?;
        Ok(Self {
            rows: Vec::new(),
            by_hash: HashMap::new(),
            aliases: HashMap::new(),
            texts,
        })
    }

    /// Adds the next document. Returns the number of the document that it is a duplicate of: its own, if of none.
    fn push(&mut self, id: Box<str>, row: DocumentRow) -> u32 {
        let number = self.len();
        let first = row
            .hash
            .map_or(number, |hash| *self.by_hash.entry(hash).or_insert(number));
        self.rows.push((id, row));
        if first != number {
            self.aliases.entry(first).or_default().push(number);
        }
        first
    }

    pub fn len(&self) -> u32 {
        self.rows.len().to_u32()
    }

    /// Adds the next documents. Returns the hashes to sift, without exact duplicates of earlier documents.
    pub fn add(&mut self, hashed: HashedDocuments, ids: IdsAndPlaces) -> Result<TokenBlock> {
        if self.rows.len() + ids.len() >= u32::MAX.to_usize() {
            return Err(Error::Usage(
                "more than 4 G documents; split the collection".to_owned(),
            ));
        }
        let mut block = TokenBlock::default();
        for (
            HashedDocument {
                row,
                hashes,
                text,
                ends,
            },
            (id, _),
        ) in hashed.documents.into_iter().zip(ids)
        {
            let number = self.len();
            let is_first = self.push(id, row) == number;
            if is_first {
                block.push(number, 0, &hashes);
            }
            if let Some(texts) = &mut self.texts {
                texts.places.push((texts.text.bytes(), texts.ends.bytes()));
                if !is_first {
                    continue;
                }
                texts.text.append(&text)?;
                texts.ends.append(
                    &ends
                        .iter()
                        .flat_map(|end| end.to_le_bytes())
                        .collect::<Vec<u8>>(),
                )?;
            }
        }
        Ok(block)
    }

    pub fn has_alias(&self, document: u32) -> bool {
        self.aliases.contains_key(&document)
    }

    /// A document and its exact duplicates.
    pub fn alike(&self, document: u32) -> impl Iterator<Item = &str> {
        let aliases = self.aliases.get(&document).map_or(&[][..], Vec::as_slice);
        std::iter::once(document)
            .chain(aliases.iter().copied())
            .map(|number| &*self.rows[number.to_usize()].0)
    }

    /// The number of chunks of a length.
    pub fn chunks(&self, length: u32) -> u64 {
        let rows = self.rows.iter();
        rows.map(|(_, row)| chunks_of(row.tokens, length)).sum()
    }

    /// The tokens of a chunk, with a space between them.
    pub fn text(&self, document: u32, first: u32, length: u32) -> Result<Vec<u8>> {
        let Some(TextStore { text, ends, places }) = &self.texts else {
            return Ok(Vec::new());
        };
        let (text_start, ends_start) = places[document.to_usize()];
        let length = length.min(self.rows[document.to_usize()].1.tokens - first);
        let end_of = |token: u32| -> Result<u64> {
            let mut bytes = [0; 4];
            ends.read_at(&mut bytes, ends_start + 4 * u64::from(token))?;
            Ok(u32::from_le_bytes(bytes).into())
        };
        let start = if first == 0 {
            0
        } else {
            end_of(first - 1)? + 1
        };
        let mut bytes = vec![0; (end_of(first + length - 1)? - start) as usize];
        text.read_at(&mut bytes, text_start + start)?;
        bytes
            .iter_mut()
            .filter(|byte| **byte == b'\n')
            .for_each(|byte| *byte = b' ');
        Ok(bytes)
    }
}
