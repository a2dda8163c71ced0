//! The text of the chunks of one content, without its documents.

use super::TokenStore;
use crate::{
    base::{
        error::Result,
        ids::{Blot, ContentNo},
    },
    blot::ordered_windows,
    index::{open::Index, view::View},
};
use std::collections::HashMap;
use xxhash_rust::xxh3::xxh3_64;

/// The chunks of a content, by blot.
pub struct ChunkTexts {
    tokens: Vec<String>,
    /// The first token of each chunk.
    places: HashMap<u64, usize>,
    length: usize,
}

impl ChunkTexts {
    /// The chunks of a content, if the index keeps tokens.
    pub fn of(index: &Index, view: &View<'_>, content: ContentNo) -> Result<Option<Self>> {
        let Some(store) = TokenStore::of(&index.manifest, &index.directory, view)? else {
            return Ok(None);
        };
        let Some(length) = chunk_length(index) else {
            return Ok(None);
        };
        let tokens = store.tokens(content)?;
        let hashes: Vec<u64> = tokens
            .iter()
            .map(|token| xxh3_64(token.as_bytes()))
            .collect();
        let mut chunks = Vec::new();
        ordered_windows(&hashes, length, &mut chunks);
        let shift = 64 - index.scheme.bits;
        let mut places = HashMap::with_capacity(chunks.len());
        for (place, chunk) in chunks.iter().enumerate() {
            places.entry(chunk >> shift).or_insert(place);
        }
        Ok(Some(Self {
            tokens,
            places,
            length,
        }))
    }

    /// The tokens of a chunk, with a space between them.
    pub fn text(&self, blot: Blot) -> Option<String> {
        let &place = self.places.get(&blot.get())?;
        let end = self.tokens.len().min(place + self.length);
        Some(self.tokens[place..end].join(" "))
    }
}

/// The number of tokens of a chunk, as the scheme of the index says.
fn chunk_length(index: &Index) -> Option<usize> {
    let windows = index.scheme.windows.to_string();
    windows.strip_prefix("ordered:")?.parse().ok()
}
