//! Turns documents into the postings of all their chunks, and keeps their tokens.

use super::tokens::{ChunkScheme, token_count, tokens_of};
use crate::{
    base::{
        codec::clear_buffer,
        num::{ToU32, ToU64, ToUsize},
    },
    blot::{ordered_windows, select::Selection},
    commands::{DocumentStage, StageOutput, stage::IdsAndPlaces},
    index::{
        DocumentRow,
        posting::{Key, Postings},
    },
    text::{
        corpus::InputDocument,
        stream::{Blots, Tokens},
        token::SchemeTokenizer,
    },
};
use std::marker::PhantomData;
use xxhash_rust::xxh3::xxh3_64;

/// Makes chunks of tokens.
pub struct ChunkStage<K> {
    tokenize: SchemeTokenizer,
    tokens: Tokens,
    hashes: Vec<u64>,
    windows: Blots,
    length: usize,
    bits: u8,
    /// None if all chunks are kept.
    selection: Option<Selection>,
    keeps: KeptOfDocuments,
    of: PhantomData<fn() -> K>,
}

/// What is kept of documents besides their postings.
#[derive(Debug, Clone, Copy, Default)]
pub struct KeptOfDocuments {
    /// Their tokens.
    pub tokens: bool,
    /// The blots that a document has several times.
    pub repeated: bool,
    /// All their blots.
    pub blots: bool,
}

impl<K> ChunkStage<K> {
    pub fn new(chunks: &ChunkScheme, keeps: KeptOfDocuments) -> Self {
        Self {
            tokenize: SchemeTokenizer::new(&chunks.scheme.tokens),
            tokens: Tokens::default(),
            hashes: Vec::new(),
            windows: Blots::default(),
            length: chunks.length.to_usize(),
            bits: chunks.scheme.bits,
            selection: chunks.is_sample().then(|| chunks.selection.clone()),
            keeps,
            of: PhantomData,
        }
    }
}

impl<K> Clone for ChunkStage<K> {
    fn clone(&self) -> Self {
        Self {
            tokenize: self.tokenize.clone(),
            tokens: self.tokens.clone(),
            hashes: self.hashes.clone(),
            windows: self.windows.clone(),
            length: self.length,
            bits: self.bits,
            selection: self.selection.clone(),
            keeps: self.keeps,
            of: self.of,
        }
    }
}

/// Rows, postings and tokens of some documents, numbered from 0.
pub struct ChunkBatch<K> {
    pub documents: Vec<ChunkedDocument>,
    /// The blots of all documents, and where those of each end.
    blots: Vec<u64>,
    ends: Vec<usize>,
    pub postings: Postings<K>,
}

/// A document without its postings.
pub struct ChunkedDocument {
    pub row: DocumentRow,
    /// The tokens, each followed by a separator, if they are kept.
    pub text: Vec<u8>,
    /// See [`KeptOfDocuments`].
    pub repeated: Vec<u64>,
    pub blots: Vec<u64>,
}

impl<K: Key> Default for ChunkBatch<K> {
    fn default() -> Self {
        Self {
            documents: Vec::new(),
            blots: Vec::new(),
            ends: Vec::new(),
            postings: Postings::default(),
        }
    }
}

impl<K: Key> ChunkBatch<K> {
    /// The rows with their ids.
    pub fn named(&self, ids: IdsAndPlaces) -> Vec<(Box<str>, DocumentRow)> {
        let rows = self.documents.iter().map(|document| document.row);
        ids.into_iter().map(|(id, _)| id).zip(rows).collect()
    }
}

impl<K: Key> StageOutput for ChunkBatch<K> {
    fn drop_documents(&mut self, dropped: &[usize]) {
        let before = |number: u32| dropped.partition_point(|&dropped| dropped < number.to_usize());
        self.postings.renumber(|number| {
            let is_dropped = dropped.binary_search(&number.to_usize()).is_ok();
            (!is_dropped).then(|| number - before(number).to_u32())
        });
        let mut at = 0;
        self.documents.retain(|_| {
            at += 1;
            dropped.binary_search(&(at - 1)).is_err()
        });
    }

    fn weight(&self) -> u64 {
        let kept = self.documents.iter().map(|document| {
            let ChunkedDocument {
                text,
                repeated,
                blots,
                ..
            } = document;
            size_of::<ChunkedDocument>()
                + text.len()
                + size_of_val(&repeated[..])
                + size_of_val(&blots[..])
        });
        size_of_val(self.postings.keys()).to_u64() + kept.sum::<usize>().to_u64()
    }
}

impl<K: Key> DocumentStage for ChunkStage<K> {
    type Out = ChunkBatch<K>;

    fn take(&mut self, item: &InputDocument<'_>, out: &mut ChunkBatch<K>) -> Result<(), String> {
        let tokens = tokens_of(item, &mut self.tokenize, &mut self.tokens)?;
        let row = DocumentRow::new(
            item.bytes,
            token_count(tokens)?,
            Some(item.hash.unwrap_or_else(|| tokens.hash())),
        );
        let Self {
            hashes,
            windows,
            keeps,
            ..
        } = self;
        hashes.clear();
        hashes.extend(tokens.iter().map(xxh3_64));
        windows.clear();
        ordered_windows(hashes, self.length, &mut windows.values);
        let shift = 64 - u32::from(self.bits);
        windows.values.iter_mut().for_each(|value| *value >>= shift);
        if let Some(selection) = &mut self.selection {
            windows.positions.resize(windows.values.len(), 0);
            selection.apply(&Tokens::default(), windows);
        }
        let mut document = ChunkedDocument {
            row,
            text: Vec::new(),
            repeated: Vec::new(),
            blots: Vec::new(),
        };
        if keeps.tokens {
            document.text.clone_from(&tokens.text);
        }
        out.blots.extend_from_slice(&windows.values);
        out.ends.push(out.blots.len());
        if keeps.repeated {
            windows.values.sort_unstable();
            let pairs = windows.values.windows(2);
            let repeated = pairs.filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
            document.repeated.extend(repeated);
        }
        if keeps.blots {
            document.blots.clone_from(&windows.values);
        }
        out.documents.push(document);
        Ok(())
    }

    fn finish(&mut self, out: &mut ChunkBatch<K>) {
        self.tokens.clear();
        self.windows.clear();
        clear_buffer(&mut self.hashes);
        self.tokenize.release_buffers();
        let blots = std::mem::take(&mut out.blots);
        let ends = std::mem::take(&mut out.ends);
        out.postings = Postings::new(&blots, &ends, self.bits);
    }
}
