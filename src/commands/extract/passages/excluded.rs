//! Reads the documents whose passages are not listed.

use super::super::stored_tokens::hash_tokens;
use crate::base::num::{ToU64, ToUsize};
use crate::{
    align::many::{ExcludedTexts, TokenHash, hash_windows},
    base::error::{Error, Result},
    commands::{
        DocumentStage, Observer, ProblemsOnly, Settings, StageOutput, blot::DocumentBlotter, run,
    },
    text::corpus::{self, InputDocument, Source},
};
use std::path::PathBuf;

/// Reads files and directories whose passages are not to be listed. All of them must be readable,
/// or their passages would be listed.
pub fn read_excluded_texts(
    paths: &[PathBuf],
    blots: &DocumentBlotter,
    min_tokens: u32,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<ExcludedTexts> {
    let mut excluded = ExcludedTexts::new(min_tokens);
    if paths.is_empty() {
        return Ok(excluded);
    }
    let corpus = corpus::Options {
        paths: paths.to_vec(),
        files_from: None,
        ..settings.corpus.clone()
    };
    let mut source = Source::new(corpus, settings.limits.threads)?;
    blots.expect_in(&mut source);
    let stage = HashTexts {
        blots: blots.clone(),
        min_tokens: min_tokens.to_usize(),
        hashes: Vec::new(),
    };
    let summary = run(
        &stage,
        source,
        settings,
        &mut ProblemsOnly(observer),
        |collected, _| {
            excluded.add(collected.tokens, &collected.windows);
            Ok(())
        },
    )?;
    if summary.problems > 0 {
        return Err(Error::Usage(
            "some taboo text could not be read: see above".to_owned(),
        ));
    }
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
        let (tokens, ..) = self.blots.parts(item)?;
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
