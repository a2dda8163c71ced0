//! Documents whose passages are of no interest.

use super::super::stored::hash_tokens;
use crate::base::num::{ToU64, ToUsize};
use crate::{
    align::repeat::TokenHash,
    base::error::{Error, Result},
    blot,
    commands::{Beside, Gathered, Settings, Stage, Watch, blot::ToBlots, run},
    text::corpus::{self, InputDocument, Source},
};
use std::path::PathBuf;

/// Memory: 24 bytes a token.
#[derive(Default)]
pub struct Taboo {
    min_tokens: usize,
    /// All documents, each after a token that is no other.
    tokens: Vec<TokenHash>,
    /// Windows of as many tokens as a passage must have, sorted, and where they are.
    windows: Vec<(u64, u64)>,
}

impl Taboo {
    /// Reads files and directories. All of them must be there: what was to be left out would be listed.
    pub fn read(
        paths: &[PathBuf],
        blots: &ToBlots,
        min_tokens: u32,
        settings: &Settings,
        watch: &mut dyn Watch,
    ) -> Result<Self> {
        let mut taboo = Self {
            min_tokens: min_tokens.to_usize(),
            ..Self::default()
        };
        if paths.is_empty() {
            return Ok(taboo);
        }
        let corpus = corpus::Options {
            paths: paths.to_vec(),
            files_from: None,
            ..settings.corpus.clone()
        };
        let mut source = Source::new(corpus, settings.limits.threads)?;
        blots.expect_in(&mut source);
        let stage = Collect {
            blots: blots.clone(),
            min_tokens: min_tokens.to_usize(),
            hashes: Vec::new(),
        };
        let summary = run(
            &stage,
            source,
            settings,
            &mut Beside(watch),
            |collected, _| {
                let start = taboo.tokens.len().to_u64();
                taboo.tokens.extend(collected.tokens);
                taboo.windows.extend(
                    collected
                        .windows
                        .iter()
                        .map(|&(window, place)| (window, start + place)),
                );
                Ok(())
            },
        )?;
        if summary.problems > 0 {
            return Err(Error::Usage(
                "some of what is taboo could not be read: see above".to_owned(),
            ));
        }
        taboo.windows.sort_unstable();
        Ok(taboo)
    }

    /// Whether a document has all of this.
    pub fn has(&self, passage: &[TokenHash]) -> bool {
        if self.windows.is_empty() {
            return false;
        }
        let hashes: Vec<u64> = passage
            .iter()
            .map(|token| u64::from_le_bytes(*token))
            .collect();
        let mut least: Option<(usize, &[(u64, u64)])> = None;
        for (offset, window) in windows_of(&hashes, self.min_tokens).into_iter().enumerate() {
            let first = self.windows.partition_point(|found| found.0 < window);
            let count = self.windows[first..].partition_point(|found| found.0 == window);
            if count == 0 {
                return false;
            }
            if least.is_none_or(|(_, least)| count < least.len()) {
                least = Some((offset, &self.windows[first..first + count]));
            }
        }
        // Where it has fewest places, there is least to compare.
        least.is_some_and(|(offset, places)| {
            places.iter().any(|&(_, place)| {
                let start = (place.to_usize()).checked_sub(offset);
                start
                    .and_then(|start| self.tokens.get(start..start + passage.len()))
                    .is_some_and(|tokens| tokens == passage)
            })
        })
    }
}

/// A number for each window, if there is any.
fn windows_of(hashes: &[u64], tokens: usize) -> Vec<u64> {
    let mut windows = Vec::new();
    if hashes.len() >= tokens {
        blot::ordered_windows(hashes, tokens, &mut windows);
    }
    windows
}

#[derive(Clone)]
struct Collect {
    blots: ToBlots,
    min_tokens: usize,
    hashes: Vec<u64>,
}

#[derive(Default)]
struct Collected {
    tokens: Vec<TokenHash>,
    windows: Vec<(u64, u64)>,
}

impl Gathered for Collected {
    fn drop_documents(&mut self, _: &[usize]) {}

    fn weight(&self) -> u64 {
        (size_of_val(&self.tokens[..]) + size_of_val(&self.windows[..])).to_u64()
    }
}

impl Stage for Collect {
    type Out = Collected;
    const IDS_ARE_UNIQUE: bool = false;

    fn take(&mut self, item: &InputDocument<'_>, out: &mut Collected) -> Result<(), String> {
        let (tokens, ..) = self.blots.parts(item)?;
        hash_tokens(tokens, None, &mut self.hashes);
        out.tokens.push([0; 8]);
        let first = out.tokens.len().to_u64();
        out.windows.extend(
            windows_of(&self.hashes, self.min_tokens)
                .into_iter()
                .zip(first..),
        );
        out.tokens
            .extend(self.hashes.iter().map(|hash| hash.to_le_bytes()));
        Ok(())
    }

    fn finish(&mut self, _: &mut Collected) {
        self.blots.release_buffers();
        crate::base::codec::clear_buffer(&mut self.hashes);
    }
}
