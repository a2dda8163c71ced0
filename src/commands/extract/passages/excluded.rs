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

/// Reads files and directories that are cut out of passages.
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
    let stage = HashTexts {
        blots: blots.clone(),
        min_tokens: min_tokens.to_usize(),
        hashes: Vec::new(),
    };
    read_all(paths, &stage, blots, settings, observer, |collected| {
        excluded.add(collected.tokens, &collected.windows);
    })?;
    excluded.sort();
    Ok(excluded)
}

/// The blots of files and directories, sorted. They are not seeds of passages.
pub fn read_excluded_blots(
    paths: &[PathBuf],
    blots: &DocumentBlotter,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<Vec<u64>> {
    let mut excluded = Vec::new();
    if !paths.is_empty() {
        let stage = CollectBlots(blots.clone());
        read_all(paths, &stage, blots, settings, observer, |collected| {
            excluded.extend(collected.0);
        })?;
    }
    excluded.sort_unstable();
    excluded.dedup();
    Ok(excluded)
}

/// Runs a stage over all excluded texts. All of them must be readable, or their passages would be
/// listed.
fn read_all<S: DocumentStage>(
    paths: &[PathBuf],
    stage: &S,
    blots: &DocumentBlotter,
    settings: &Settings,
    observer: &mut dyn Observer,
    mut collect: impl FnMut(S::Out),
) -> Result<()> {
    let corpus = corpus::Options {
        paths: paths.to_vec(),
        files_from: None,
        ..settings.corpus.clone()
    };
    let mut source = Source::new(corpus, settings.limits.threads)?;
    blots.expect_in(&mut source);
    let summary = run(
        stage,
        source,
        settings,
        &mut ProblemsOnly(observer),
        |collected, _| {
            collect(collected);
            Ok(())
        },
    )?;
    if summary.problems > 0 {
        return Err(Error::Usage(
            "some taboo text could not be read: see above".to_owned(),
        ));
    }
    Ok(())
}

/// Collects the blots of documents.
#[derive(Clone)]
struct CollectBlots(DocumentBlotter);

/// The blots of some documents.
#[derive(Default)]
struct CollectedBlots(Vec<u64>);

impl StageOutput for CollectedBlots {
    fn drop_documents(&mut self, _: &[usize]) {}

    fn weight(&self) -> u64 {
        size_of_val(&self.0[..]).to_u64()
    }
}

impl DocumentStage for CollectBlots {
    type Out = CollectedBlots;
    const IDS_ARE_UNIQUE: bool = false;

    fn take(&mut self, item: &InputDocument<'_>, out: &mut CollectedBlots) -> Result<(), String> {
        out.0.extend_from_slice(&self.0.blots(item)?.0.values);
        Ok(())
    }

    fn finish(&mut self, _: &mut CollectedBlots) {
        self.0.release_buffers();
    }
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
