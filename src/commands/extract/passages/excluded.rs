//! Reads the documents whose passages are not listed.

use super::super::stored_tokens::hash_tokens;
use crate::base::num::{ToU64, ToUsize};
use crate::{
    align::many::{ExcludedTexts, TokenHash, hash_windows},
    base::error::Result,
    commands::{
        DocumentStage, Observer, Settings, StageOutput, blot::DocumentBlotter,
        excluded_text::read_excluded,
    },
    text::corpus::InputDocument,
};
use std::path::PathBuf;

/// Reads files and directories that are cut out of passages.
pub fn read_excluded_texts(
    paths: &[PathBuf],
    blots: &DocumentBlotter,
    min_tokens: u32,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<ExcludedTexts> {
    let mut excluded = ExcludedTexts::new(min_tokens);
    let stage = HashTexts {
        blots: blots.clone(),
        min_tokens: min_tokens.to_usize(),
        hashes: Vec::new(),
    };
    read_excluded(paths, &stage, blots, settings, observer, |collected| {
        excluded.add(collected.tokens, &collected.windows);
    })?;
    excluded.sort();
    Ok(excluded)
}

/// Hashes the tokens and windows of documents.
#[derive(Clone)]
struct HashTexts {
    blots: DocumentBlotter,
    min_tokens: usize,
    hashes: Vec<u64>,
}

/// The tokens of some documents, and the hash and first token of each window.
#[derive(Default)]
struct HashedTexts {
    tokens: Vec<TokenHash>,
    windows: Vec<(u64, u64)>,
}

impl StageOutput for HashedTexts {
    fn drop_documents(&mut self, _: &[usize]) {}

    fn weight(&self) -> u64 {
        (size_of_val(&self.tokens[..]) + size_of_val(&self.windows[..])).to_u64()
    }
}

impl DocumentStage for HashTexts {
    type Out = HashedTexts;
    const IDS_ARE_UNIQUE: bool = false;

    fn take(&mut self, item: &InputDocument<'_>, out: &mut HashedTexts) -> Result<(), String> {
        let tokens = self.blots.parts(item)?.tokens;
        hash_tokens(tokens, None, &mut self.hashes);
        out.tokens.push([0; 8]);
        let first = out.tokens.len().to_u64();
        out.windows.extend(
            hash_windows(&self.hashes, self.min_tokens)
                .into_iter()
                .zip(first..),
        );
        out.tokens
            .extend(self.hashes.iter().map(|hash| hash.to_le_bytes()));
        Ok(())
    }

    fn finish(&mut self, _: &mut HashedTexts) {
        self.blots.release_buffers();
        crate::base::codec::clear_buffer(&mut self.hashes);
    }
}
