//! Turns documents into what `compare` needs: tokens, and hashes of three in a row, in temporary files.

use super::super::{
    spans::indexed,
    stored_tokens::{self, Document, Stored, Text, TokenBatch, hash_tokens},
};
use crate::base::ids::DocNo;
use crate::base::num::{ToU64, ToUsize};
use crate::{
    base::{
        error::Result,
        files::{Mapping, TempDir, TempFile},
    },
    commands::{
        BlotOptions, DocumentStage, Observer, Settings, StageOutput, blot::DocumentBlotter, run,
    },
    index::{Index, View},
    similar::compare::{TokenSequence, append_trigrams},
    text::{corpus::InputDocument, stream::Span},
};

/// Reads documents.
#[derive(Clone)]
struct SequenceStage<'s> {
    blots: DocumentBlotter,
    index: &'s Index,
    hashes: Vec<u64>,
}

/// What was read of some documents, one after the other.
#[derive(Default)]
struct SequenceBatch {
    tokens: TokenBatch,
    trigrams: Vec<[u8; 4]>,
}

impl StageOutput for SequenceBatch {
    fn drop_documents(&mut self, dropped: &[usize]) {
        self.tokens.drop_documents(dropped);
    }

    fn weight(&self) -> u64 {
        self.tokens.weight() + 4 * self.trigrams.capacity().to_u64()
    }
}

impl DocumentStage for SequenceStage<'_> {
    type Out = SequenceBatch;

    fn take(&mut self, item: &InputDocument<'_>, out: &mut SequenceBatch) -> Result<(), String> {
        let (tokens, hash) = self.blots.located(item)?;
        let (at, row) = indexed(self.index, item.id, hash)?;
        hash_tokens(tokens, None, &mut self.hashes);
        let first = out.tokens.tokens.len();
        out.tokens.push(at, &row, tokens, &self.hashes);
        append_trigrams(&out.tokens.tokens[first..], &mut out.trigrams);
        Ok(())
    }

    fn finish(&mut self, _: &mut SequenceBatch) {
        self.blots.release_buffers();
        crate::base::codec::clear_buffer(&mut self.hashes);
    }
}

/// The texts of an index, by content, as memory that the system may take back.
///
/// Memory: some 70 bytes a document. Temporary files take 12 bytes a token for every distinct text, 3 bytes a token for every document.
pub struct TokenizedTexts {
    stored: Stored,
    mapped: stored_tokens::Mapped,
    trigrams: Mapping,
    /// Of each content; one that was not read has no tokens.
    texts: Vec<Text>,
    /// For each document of the index the number of the document read, or [`NONE`].
    read: Vec<u32>,
    /// Inputs that could not be used.
    pub problems: u64,
}

const NONE: u32 = u32::MAX;

impl TokenizedTexts {
    /// Reads the documents of an index.
    pub fn read(
        index: &Index,
        view: &View<'_>,
        by_id: Option<&[std::path::PathBuf]>,
        settings: &Settings,
        observer: &mut dyn Observer,
    ) -> Result<Self> {
        let blots = DocumentBlotter::for_comparison(&BlotOptions::default(), index)?.with_spans();
        let mut source = stored_tokens::open(view, by_id, settings)?;
        blots.expect_in(&mut source);
        let mut stored = Stored::new(index, &TempDir(None))?;
        let mut file = TempFile::new(&TempDir(None))?;
        // Trigrams stand where the tokens do that they begin with.
        file.append(&[0; 4])?;
        let stage = SequenceStage {
            blots,
            index,
            hashes: Vec::new(),
        };
        let summary = run(&stage, source, settings, observer, |read, _| {
            let mut trigrams = Vec::with_capacity(read.trigrams.len());
            stored.add(&read.tokens, |_, range, text| {
                if text.is_some() {
                    trigrams.extend_from_slice(&read.trigrams[range]);
                    trigrams.push([0; 4]);
                }
            })?;
            file.append(trigrams.as_flattened()).map(drop)
        })?
        .ensure_documents(settings)?;
        let (mapped, trigrams) = (stored.map()?, file.map()?);
        let (texts, read) = by_view(&stored, index, view)?;
        Ok(Self {
            stored,
            mapped,
            trigrams,
            texts,
            read,
            problems: summary.problems,
        })
    }

    /// How many tokens a content has, as far as it was read.
    pub fn tokens_of(&self, content: u32) -> u32 {
        self.texts[content.to_usize()].tokens
    }

    /// Tokens of an average text.
    pub fn mean_tokens(&self) -> u64 {
        self.texts
            .iter()
            .map(|text| u64::from(text.tokens))
            .sum::<u64>()
            / self.texts.len().max(1) as u64
    }

    pub fn get(&self, content: u32) -> TokenSequence<'_> {
        let Text { start, tokens } = self.texts[content.to_usize()];
        let range = start.to_usize()..start as usize + tokens.to_usize();
        TokenSequence {
            tokens: &self.mapped.tokens()[range.clone()],
            trigrams: &self.trigrams.as_chunks().0[range],
        }
    }

    /// A document of the index, if it was read.
    pub fn document(&self, document: u32) -> Option<&Document> {
        self.stored
            .documents
            .get(self.read[document.to_usize()] as usize)
    }

    /// The bytes of some tokens of a document.
    pub fn span(&self, document: &Document, tokens: &std::ops::Range<u32>) -> Option<Span> {
        let last = tokens.end.checked_sub(1)?;
        self.mapped.span(
            document,
            &self.stored.texts[document.text.to_usize()],
            tokens.start.to_usize(),
            last.to_usize(),
        )
    }
}

/// What was read, by contents and documents of a view.
fn by_view(stored: &Stored, index: &Index, view: &View<'_>) -> Result<(Vec<Text>, Vec<u32>)> {
    let mut by_number = vec![NONE; index.manifest.numbers.to_usize()];
    (0..)
        .zip(&stored.documents)
        .for_each(|(at, document)| by_number[document.number.to_usize()] = at);
    let (mut texts, mut read) = (
        vec![Text::default(); view.contents().len()],
        Vec::with_capacity(view.documents()),
    );
    for document in 0..view.documents() {
        let at = by_number[view.row(DocNo::from_index(document))?.number as usize];
        if let Some(found) = stored.documents.get(at.to_usize()) {
            texts[view.content_of(DocNo::from_index(document)).index()] =
                stored.texts[found.text.to_usize()];
        }
        read.push(at);
    }
    Ok((texts, read))
}
