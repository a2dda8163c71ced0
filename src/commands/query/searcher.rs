//! An open index that answers one query after the other, from any thread.

use super::search::{AnswerFormat, EncodedAnswers, SearchStage};
use crate::{
    align::{AlignOptions, exclusions::ExclusionRules},
    base::{
        error::{Error, Problem, Result},
        parallel::lock,
    },
    blot::select,
    commands::{
        BlotOptions, PassageOptions, Preset, blot::DocumentBlotter, indexed_texts::IndexedTexts,
        text_cache::TextCache,
    },
    index::Index,
    similar::{ExcludedBlots, IndexSearch, Measure, Score, SearchScratch},
    text::{
        corpus::{self, Content, InputDocument},
        stream::Tokens,
    },
};
use std::{
    collections::HashSet,
    path::PathBuf,
    sync::{Arc, Mutex},
};

/// An index that is ready for queries.
pub struct IndexSearcher {
    index: Arc<Index>,
    preset: &'static Preset,
    blots: DocumentBlotter,
    library: Arc<IndexedTexts<'static>>,
    passages: Option<PassageOptions>,
    documents: u64,
    /// Buffers that no query is using: four bytes per document each.
    scratches: Mutex<Vec<SearchScratch>>,
}

/// What a query wants to know.
#[derive(Debug, Clone)]
pub struct SearchOptions {
    /// How similarity is computed.
    pub score: Score,
    /// The least score of a match.
    pub threshold: f64,
    /// The most matches: the best ones.
    pub top: usize,
    /// Blots of more documents do not count.
    pub max_df: Option<u64>,
    /// Texts whose blots do not count.
    pub exclude_texts: Vec<String>,
    /// How the answer is written.
    pub answers: AnswerFormat,
    /// If set: also find the shared passages.
    pub passages: Option<SearchPassages>,
    /// A sentence on a page, which then also leads to the form of the server.
    pub notice: Option<&'static str>,
}

/// Which passages a query wants.
#[derive(Debug, Clone, Copy, Default)]
pub struct SearchPassages {
    /// Spans count Unicode characters instead of bytes.
    pub in_chars: bool,
    /// With the probability that unrelated texts share such a passage.
    pub with_p_values: bool,
    /// Whether quotations count; `None`: as the preset of the index has it.
    pub exclude_quotes: Option<bool>,
    /// Whether the list of references counts.
    pub exclude_bibliography: Option<bool>,
    /// Passages of fewer words in common do not count.
    pub min_match_words: u32,
}

/// A document that a query asks about.
#[derive(Debug, Clone, Copy)]
pub enum QueryDocument<'d> {
    /// Its text.
    Text(&'d str),
    /// Its tokens.
    Tokens(&'d Tokens),
}

/// The result of a query.
#[derive(Debug, Clone, Default)]
pub struct SearchOutcome {
    /// The answer as it is written, without what stands before all matches.
    pub bytes: Vec<u8>,
    /// The number of matches.
    pub matches: u64,
    /// Documents whose text could not be read, so that their passages are missing.
    pub unread: Vec<Problem>,
}

impl IndexSearcher {
    /// `corpus` and `reading` say where the texts of the documents are, and how they are read.
    pub fn new(index: Index, corpus: &[PathBuf], reading: &corpus::Options) -> Result<Self> {
        let index = Arc::new(index);
        let blots = DocumentBlotter::for_comparison(&BlotOptions::default(), &index)?;
        let options = PassageOptions {
            passages: AlignOptions::default(),
            reading: reading.clone(),
            corpus: corpus.to_vec(),
            ..PassageOptions::default()
        };
        Ok(Self {
            preset: Preset::of_index(&index)?,
            blots: blots.only_blots(),
            library: Arc::new(IndexedTexts::new(index.clone(), corpus, reading)),
            passages: options.of_index(&index).ok(),
            documents: index.coverage()?.documents,
            index,
            scratches: Mutex::default(),
        })
    }

    /// The index.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The number of its documents.
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// The preset that the index was made with.
    pub fn preset(&self) -> &'static Preset {
        self.preset
    }

    /// Whether scores are estimates, as only some blots were kept.
    pub fn is_estimate(&self) -> bool {
        !select::is_complete(&self.index.scheme.select)
    }

    /// Answers a query.
    pub fn answer(
        &self,
        options: &SearchOptions,
        id: &str,
        document: QueryDocument<'_>,
    ) -> Result<SearchOutcome> {
        let search = self.search(options)?;
        let passages = options
            .passages
            .map(|wanted| self.passage_options(wanted))
            .transpose()?;
        let texts = passages
            .as_ref()
            .map(|passages| TextCache::of_library(passages, self.library.clone(), 1));
        let needs_rarity = options.score.needs_rarity();
        let scratch = lock(&self.scratches).pop().filter(|_| !needs_rarity);
        let mut stage = SearchStage {
            blots: self.blots.clone(),
            search: &search,
            answers: options.answers,
            texts: texts.as_ref(),
            groups: None,
            compares_paths: false,
            notice: options.notice,
            distinct: Vec::new(),
            scratch: scratch.unwrap_or_default(),
        };
        let item = InputDocument {
            id,
            file: &Arc::from("-"),
            line: None,
            record: 0,
            bytes: None,
            hash: None,
            content: match document {
                QueryDocument::Text(text) => Content::Text(text),
                QueryDocument::Tokens(tokens) => Content::Tokens(tokens),
            },
        };
        let mut out = EncodedAnswers::default();
        stage.take_one(&item, &mut out)?;
        if !needs_rarity {
            let scratch = std::mem::take(&mut stage.scratch);
            lock(&self.scratches).push(scratch);
        }
        drop(stage);
        Ok(SearchOutcome {
            bytes: out.bytes,
            matches: out.matches,
            unread: texts.map(TextCache::into_unread).unwrap_or_default(),
        })
    }

    fn search(&self, options: &SearchOptions) -> Result<IndexSearch<'_>> {
        let scheme = &self.index.scheme;
        let excluded = self.excluded_blots(&options.exclude_texts)?;
        Ok(IndexSearch {
            index: &self.index,
            measure: Measure {
                score: options.score,
                threshold: options.threshold,
                selection: self.is_estimate().then(|| select::rate(&scheme.select)),
            },
            top: options.top,
            max_df: options.max_df.unwrap_or(u64::MAX),
            excluded: ExcludedBlots::new(&self.index, excluded, &[])?,
        })
    }

    fn excluded_blots(&self, texts: &[String]) -> Result<HashSet<u64>> {
        let mut found = HashSet::new();
        let mut blots = self.blots.clone();
        for text in texts {
            let item = InputDocument {
                id: "",
                file: &Arc::from("-"),
                line: None,
                record: 0,
                bytes: None,
                hash: None,
                content: Content::Text(text),
            };
            let made = blots.blots(&item).map_err(Error::Usage)?;
            found.extend(made.0.values.iter().copied());
        }
        Ok(found)
    }

    fn passage_options(&self, wanted: SearchPassages) -> Result<PassageOptions> {
        let options = match &self.passages {
            Some(options) => options.clone(),
            // Says why there are none.
            None => PassageOptions::default().of_index(&self.index)?,
        };
        let options = if wanted.with_p_values {
            options.with_p_values()?
        } else {
            options
        };
        let of_preset = self.preset.excludes_quotes;
        let rules = ExclusionRules {
            quotes: wanted.exclude_quotes.unwrap_or(of_preset),
            bibliography: wanted.exclude_bibliography.unwrap_or(of_preset),
            ..options.rules.clone()
        };
        Ok(PassageOptions {
            in_chars: wanted.in_chars,
            source_rules: rules.base_text_only(),
            rules,
            min_match_words: wanted.min_match_words,
            ..options
        })
    }
}
