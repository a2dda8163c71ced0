//! The first pass: turns text into hashes, and keeps of each document what later passes need.

use crate::base::ids::DocNo;
use crate::base::num::{ToU32, ToU64, ToUsize};
use crate::base::setting::Setting;
use crate::{
    base::{
        codec::clear_buffer,
        error::{Error, Result},
        files::{TempDir, TempFile},
        parallel::Limits,
    },
    blot::{
        ordered_windows,
        select::Selection,
        spex::{ChunkCounter, TokenBlock},
    },
    commands::{DocumentStage, StageOutput, stage::IdsAndPlaces},
    index::{DocumentRow, Index, Resources, View},
    text::{
        corpus::{Content, InputDocument},
        scheme::TokenScheme,
        stream::{Blots, Tokens},
        token::SchemeTokenizer,
    },
};
use std::{
    collections::HashMap,
    ops::Range,
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
    /// The number of tokens of the chunks to find; the selection may leave some of them out.
    target: usize,
    selection: Selection,
    windows: Blots,
}

/// What [`Hash`] does with tokens.
pub struct HashOptions<'c> {
    pub scheme: &'c TokenScheme,
    /// Counts the shortest chunks, of `length` tokens.
    pub counter: &'c ChunkCounter,
    pub length: u32,
    pub counted: &'c AtomicU64,
    /// The number of tokens of the chunks to find.
    pub target: u32,
    pub selection: Selection,
    pub with_text: bool,
}

impl<'c> HashStage<'c> {
    pub fn new(options: HashOptions<'c>) -> Self {
        let HashOptions {
            scheme,
            counter,
            length,
            counted,
            target,
            selection,
            with_text,
        } = options;
        let (tokenize, tokens) = (SchemeTokenizer::new(scheme), Tokens::default());
        let (length, target, chunks, windows) = (
            length.to_usize(),
            target.to_usize(),
            Vec::new(),
            Blots::default(),
        );
        Self {
            tokenize,
            tokens,
            counter,
            length,
            counted,
            with_text,
            chunks,
            target,
            selection,
            windows,
        }
    }

    /// The number of distinct chunks of a document, shared or not, that the selection keeps.
    fn distinct(&mut self, hashes: &[u64]) -> Result<u32, String> {
        let Self {
            windows, chunks, ..
        } = self;
        windows.clear();
        ordered_windows(hashes, self.target, &mut windows.values);
        windows.positions.resize(windows.values.len(), 0);
        chunks.clear();
        self.selection
            .apply_counting(&Tokens::default(), windows, chunks);
        chunks.sort_unstable();
        chunks.dedup();
        Ok(u32::try_from(chunks.len())
            .map_err(|_| "a document of more than 4 G chunks; split it")?)
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
        let tokens = match item.content {
            Content::Text(text) => {
                self.tokenize.tokenize(text, &mut self.tokens)?;
                &self.tokens
            }
            Content::Tokens(tokens) => tokens,
            Content::Blots(_) => {
                return Err("blots, where documents or tokens are expected".to_owned());
            }
            Content::Print(_) => {
                return Err("a print, where documents or tokens are expected".to_owned());
            }
        };
        let count = u32::try_from(tokens.len())
            .map_err(|_| "a document of more than 4 G tokens; split it")?;
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
        let row = row.with_blots(self.distinct(&hashes)?);
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
        self.windows.clear();
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
    /// Documents that an index has, by the hash of their ids.
    by_id: HashMap<u64, u32>,
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
            by_id: HashMap::new(),
            texts,
        })
    }

    /// The documents of an index, without their tokens.
    pub fn of_index(index: &Index, directory: &TempDir) -> Result<Self> {
        let (mut documents, view) = (Self::new(directory, false)?, View::of(index)?);
        for number in 0..view.documents() {
            let row = view.row(DocNo::from_index(number))?;
            documents.push(
                view.id(DocNo::from_index(number))?.into(),
                DocumentRow::new(row.bytes, row.tokens, row.hash).with_blots(row.blots),
            );
        }
        documents.by_id = documents
            .rows
            .iter()
            .zip(0..)
            .map(|((id, _), number)| (xxh3_64(id.as_bytes()), number))
            .collect();
        Ok(documents)
    }

    pub fn has_texts(&self) -> bool {
        self.texts.is_some()
    }

    /// Whether the index has a document already. One with the same id and another text is an error.
    fn is_known(&self, id: &str, row: &DocumentRow) -> Result<bool> {
        let Some((known_id, known)) = self
            .by_id
            .get(&xxh3_64(id.as_bytes()))
            .map(|&number| &self.rows[number.to_usize()])
        else {
            return Ok(false);
        };
        if **known_id == *id && known.hash != row.hash {
            return Err(Error::Usage(format!(
                "the index has a document '{id}' with another text; build a new index with dedup-spex {}",
                Setting::Output
            )));
        }
        Ok(**known_id == *id)
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
            if self.is_known(&id, &row)? {
                continue;
            }
            let number = self.len();
            if self.push(id, row) == number {
                block.push(number, 0, &hashes);
            }
            if let Some(texts) = &mut self.texts {
                texts.places.push((texts.text.bytes(), texts.ends.bytes()));
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

    pub fn rows(&self, numbers: Range<u32>) -> Vec<(Box<str>, DocumentRow)> {
        self.rows[numbers.start.to_usize()..numbers.end as usize].to_vec()
    }

    /// The number of chunks of a length.
    pub fn chunks(&self, length: u32) -> u64 {
        let of = |tokens: u32| {
            if tokens == 0 {
                0
            } else {
                u64::from((tokens + 1).saturating_sub(length).max(1))
            }
        };
        self.rows.iter().map(|(_, row)| of(row.tokens)).sum()
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
