//! The distinct texts of a collection, whose tokens an index of shared chunks keeps.

use super::{SpexOptions, sieve::SiftedChunks, tokens::ChunkScheme};
use crate::{
    base::{
        error::Result,
        files::{TempDir, TempFile},
        num::ToUsize,
    },
    blot::spex::Pass,
    index::{ContentTokens, DocumentRow, Frame, TokenSource, TokenStore},
    text::stream::SEPARATOR,
};
use std::{
    collections::{HashMap, HashSet},
    io::Write,
};
use xxhash_rust::xxh3::xxh3_64;

/// All contents, in the order of their first documents.
pub struct Contents {
    /// The tokens of new documents.
    pub texts: TempFile,
    pub list: Vec<ContentTokens>,
    /// The first document of each content.
    pub numbers: Vec<u32>,
    by_hash: HashMap<u128, usize>,
    /// First documents that have exact duplicates.
    with_alias: HashSet<u32>,
}

impl Contents {
    pub fn new(directory: &TempDir) -> Result<Self> {
        Ok(Self {
            texts: TempFile::new(directory)?,
            list: Vec::new(),
            numbers: Vec::new(),
            by_hash: HashMap::new(),
            with_alias: HashSet::new(),
        })
    }

    /// Adds a document. Calls `source` for the place of its tokens, unless an earlier document has the
    /// same; returns the first document that has them.
    pub fn add(
        &mut self,
        number: u32,
        row: &DocumentRow,
        source: impl FnOnce(&mut TempFile) -> Result<TokenSource>,
    ) -> Result<u32> {
        let hash = row.hash.unwrap_or_default();
        if let Some(&content) = self.by_hash.get(&hash) {
            self.with_alias.insert(self.numbers[content]);
            return Ok(self.numbers[content]);
        }
        self.by_hash.insert(hash, self.list.len());
        self.list.push(ContentTokens {
            hash,
            tokens: row.tokens,
            source: source(&mut self.texts)?,
        });
        self.numbers.push(number);
        Ok(number)
    }

    /// The first document of a content, if there is one.
    pub fn first_document(&self, hash: u128) -> Option<u32> {
        self.by_hash
            .get(&hash)
            .map(|&content| self.numbers[content])
    }

    /// Runs the passes of SPEX over all contents, and writes the last counter to `filter`. Returns the
    /// figures of each pass, and the number of places that are left.
    pub fn sift(
        &self,
        options: &SpexOptions,
        chunks: &ChunkScheme,
        old: Option<&TokenStore>,
        filter: Option<&mut dyn Write>,
    ) -> Result<(Vec<Pass>, u64)> {
        let has_alias = |number: u32| self.with_alias.contains(&number);
        let mut reader = HashReader {
            texts: &self.texts,
            old,
            frame: None,
            text: Vec::new(),
            hashes: Vec::new(),
        };
        let sifted = SiftedChunks::of_contents(
            options,
            |push| {
                for (content, &number) in self.list.iter().zip(&self.numbers) {
                    push(number, reader.read(&content.source)?)?;
                }
                Ok(())
            },
            &has_alias,
        )?;
        let survivors = sifted.survivors(options, &has_alias)?;
        if let Some(out) = filter {
            sifted.write_filter(&chunks.scheme, out)?;
        }
        Ok((sifted.passes, survivors))
    }
}

/// Reads the hashes of the tokens of contents.
struct HashReader<'a> {
    texts: &'a TempFile,
    old: Option<&'a TokenStore>,
    /// The frame that was read last, and the hashes of its words.
    frame: Option<(usize, Frame, Vec<u64>)>,
    text: Vec<u8>,
    hashes: Vec<u64>,
}

impl HashReader<'_> {
    fn read(&mut self, source: &TokenSource) -> Result<&[u64]> {
        self.hashes.clear();
        match (source, self.old) {
            (TokenSource::New(range), _) => {
                self.text.resize((range.end - range.start).to_usize(), 0);
                self.texts.read_at(&mut self.text, range.start)?;
                let mut start = 0;
                for end in memchr::memchr_iter(SEPARATOR, &self.text) {
                    self.hashes.push(xxh3_64(&self.text[start..end]));
                    start = end + 1;
                }
            }
            (TokenSource::Stored(content), Some(old)) => {
                let number = old.frame_of(*content);
                if self.frame.as_ref().is_none_or(|(read, ..)| *read != number) {
                    let frame = old.read(number)?;
                    let words = frame.hashes();
                    self.frame = Some((number, frame, words));
                }
                if let Some((_, frame, words)) = &self.frame {
                    let tokens = frame.tokens[old.place(*content)].iter();
                    self.hashes
                        .extend(tokens.map(|word| words[word.to_usize()]));
                }
            }
            (TokenSource::Stored(_), None) => {}
        }
        Ok(&self.hashes)
    }
}
