//! Searches an index for documents that share text with others.

use crate::base::num::ToU64;
use crate::{
    align::PreparedText,
    base::{
        codec::clear_buffer,
        error::{Error, Problem, Result},
        files,
    },
    blot::select,
    commands::{
        BlotOptions, DocumentStage, Observer, Settings, StageOutput,
        blot::DocumentBlotter,
        document_groups::{DocumentGroups, Grouping},
        excluded_text::{blots_of_files, open_reference},
        passage_options::{PassageOptions, SharedText},
        run,
        text_cache::TextCache,
    },
    index::Index,
    report::{
        Excerpts, Format, Ndjson, Sink,
        html::DocumentPage,
        records::{MatchRecord, PassageRow, QueryAnswer, QueryMatch},
    },
    similar::{
        DocumentSize, ExcludedBlots, IdFilter, IndexSearch, Measure, Score, SearchMatch,
        SearchScratch,
    },
    text::corpus::{Content, InputDocument, Source},
};
use std::{
    collections::HashSet,
    fs,
    io::Write,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

/// What to search for, and how to write answers.
#[derive(Debug, Clone)]
pub struct QueryOptions {
    /// Options that are set must be those of the index.
    pub blots: BlotOptions,
    /// How similarity is computed.
    pub score: Score,
    /// The least score of a match.
    pub threshold: f64,
    /// The most matches for a document: the best ones.
    pub top: usize,
    /// Blots of more documents do not count.
    pub max_df: Option<u64>,
    /// Files whose blots do not count.
    pub exclude: Vec<PathBuf>,
    /// Indexes whose blots do not count.
    pub exclude_indexes: Vec<PathBuf>,
    /// Files and directories of base text, whose blots do not count.
    pub base: Vec<PathBuf>,
    /// If set: documents of the same group as the query are skipped.
    pub groups: Option<Grouping>,
    /// How answers are written.
    pub answers: AnswerFormat,
    /// If set: also find the shared passages.
    pub passages: Option<PassageOptions>,
    /// The index was made of files of this machine just now, so that two paths may name one document. A document
    /// with the id of the query is never a match: it is the query itself.
    pub compares_paths: bool,
}

/// How answers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerFormat {
    /// A record for each match.
    Matches(Format),
    /// A line of JSON for each document, whether or not anything was found.
    Documents,
    /// Excerpts, for a person to read.
    Excerpts {
        /// With escape sequences for colours.
        with_color: bool,
    },
    /// A page for a browser; of one document only.
    Page,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryOutcome {
    /// Matches that were written.
    pub matches: u64,
    /// Inputs that could not be used.
    pub problems: u64,
    /// Documents that were asked about.
    pub documents: u64,
    /// Those with no more than one blot: they are not longer than a window of the index.
    pub short_documents: u64,
}

/// Writes the best matches of each document, in the order of the documents.
pub fn query(
    options: &QueryOptions,
    index: &Index,
    settings: &Settings,
    out: &mut impl Write,
    observer: &mut dyn Observer,
) -> Result<QueryOutcome> {
    let blots = DocumentBlotter::for_comparison(&options.blots, index)?;
    let selection =
        (!select::is_complete(&index.scheme.select)).then(|| select::rate(&index.scheme.select));
    let measure = Measure {
        score: options.score,
        threshold: options.threshold,
        selection,
    };
    let reference = options
        .exclude_indexes
        .iter()
        .map(|path| open_reference(path, index))
        .collect::<Result<Vec<_>>>()?;
    let files = [&options.exclude[..], &options.base].concat();
    let excluded = ExcludedBlots::new(
        index,
        blots_of_files(&files, &blots, settings, observer)?,
        &reference,
    )?;
    let groups = options
        .groups
        .as_ref()
        .map(DocumentGroups::read)
        .transpose()?
        .map(|groups| GroupFilter {
            groups,
            asked: Mutex::default(),
        });
    let search = IndexSearch {
        index,
        measure,
        top: options.top,
        max_df: options.max_df.unwrap_or(u64::MAX),
        excluded,
    };
    let mut source = Source::new(settings.corpus.clone(), settings.limits.threads)?;
    blots.expect_in(&mut source);
    let mut head = Vec::new();
    if let AnswerFormat::Matches(format) = options.answers {
        let is_estimate = search.measure.selection.is_some();
        put_head(format, is_estimate, options.passages.is_some(), &mut head)?;
    }
    out.write_all(&head).map_err(Error::output)?;
    let texts = options
        .passages
        .as_ref()
        .map(|passages| TextCache::new(passages, index, 2 * settings.limits.threads));
    let (distinct, scratch) = (Vec::new(), SearchScratch::default());
    let stage = SearchStage {
        blots: blots.only_blots(),
        search: &search,
        answers: options.answers,
        texts: texts.as_ref(),
        groups: groups.as_ref(),
        compares_paths: options.compares_paths,
        notice: None,
        distinct,
        scratch,
    };
    let mut asked = QueryOutcome::default();
    let summary = run(&stage, source, settings, observer, |answers, _| {
        asked.matches += answers.matches;
        asked.documents += answers.documents;
        asked.short_documents += answers.short_documents;
        if options.answers == AnswerFormat::Page && asked.documents > 1 {
            return Err(Error::Usage(
                "a page is of one document; ask about one after the other".to_owned(),
            ));
        }
        files::ensure_whole()?;
        out.write_all(&answers.bytes).map_err(Error::output)?;
        // A client that sends documents one by one waits for each answer.
        out.flush().map_err(Error::output)
    })?;
    let summary = summary.ensure_documents(settings)?;
    asked.problems = summary.problems + texts.map_or(0, |texts| texts.report_unread(observer));
    for problem in groups.map_or(Ok(Vec::new()), |groups| groups.unknown(index))? {
        asked.problems += 1;
        observer.problem(&problem);
    }
    Ok(asked)
}

/// Appends what stands before all matches in this format; in tables each passage is a row, if there are any.
pub fn put_head(
    format: Format,
    is_estimate: bool,
    with_passages: bool,
    out: &mut Vec<u8>,
) -> Result<()> {
    if with_passages && format.is_table() {
        return format.put_head(&PassageRow::default(), out);
    }
    let found = MatchRecord {
        estimate: is_estimate,
        ..MatchRecord::default()
    };
    let shape = QueryMatch {
        found,
        ..QueryMatch::default()
    };
    format.put_head(&shape, out)
}

/// Whether two ids are paths of one file.
fn is_same_file(a: &str, b: &str) -> bool {
    let file = |id: &str| fs::canonicalize(id).ok().filter(|path| path.is_file());
    file(a).is_some_and(|path| file(b) == Some(path))
}

/// The groups of documents, and of queries, which need not be in the index.
pub(super) struct GroupFilter {
    groups: DocumentGroups,
    asked: Mutex<HashSet<String>>,
}

impl GroupFilter {
    fn ask(&self, id: &str) {
        self.asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id.to_owned());
    }

    fn unknown(self, index: &Index) -> Result<Vec<Problem>> {
        let asked = self
            .asked
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        self.groups
            .unknown(|id| Ok(asked.contains(id) || index.find_id(id)?.is_some()))
    }
}

/// Answers for each document.
pub(super) struct SearchStage<'s> {
    pub blots: DocumentBlotter,
    pub search: &'s IndexSearch<'s>,
    pub answers: AnswerFormat,
    pub texts: Option<&'s TextCache<'s>>,
    pub groups: Option<&'s GroupFilter>,
    pub compares_paths: bool,
    /// A sentence on pages, which then also lead to the form of a server.
    pub notice: Option<&'s str>,
    pub distinct: Vec<u64>,
    pub scratch: SearchScratch,
}

impl Clone for SearchStage<'_> {
    fn clone(&self) -> Self {
        let Self {
            blots,
            search,
            answers,
            texts,
            groups,
            compares_paths,
            notice,
            ..
        } = self;
        let (distinct, scratch) = (Vec::new(), SearchScratch::default());
        Self {
            blots: blots.clone(),
            search,
            answers: *answers,
            texts: *texts,
            groups: *groups,
            compares_paths: *compares_paths,
            notice: *notice,
            distinct,
            scratch,
        }
    }
}

/// Answers as they are written.
#[derive(Default)]
pub(super) struct EncodedAnswers {
    pub bytes: Vec<u8>,
    pub documents: u64,
    pub short_documents: u64,
    pub matches: u64,
}

impl StageOutput for EncodedAnswers {
    fn drop_documents(&mut self, _: &[usize]) {}

    fn weight(&self) -> u64 {
        self.bytes.capacity().to_u64()
    }
}

impl DocumentStage for SearchStage<'_> {
    type Out = EncodedAnswers;
    const IDS_ARE_UNIQUE: bool = false;

    fn take(&mut self, item: &InputDocument<'_>, out: &mut EncodedAnswers) -> Result<(), String> {
        let all = u32::try_from(self.blots.distinct(item, &mut self.distinct)?).unwrap_or(u32::MAX);
        // A single query should take little memory; for many queries, speed matters more.
        let is_lean = self.answers != AnswerFormat::Documents && out.documents == 0;
        out.documents += 1;
        out.short_documents += u64::from(all <= 1);
        let start = out.bytes.len();
        let written = self.answer(item, DocumentSize { blots: all }, is_lean, out);
        written.map_err(|error| {
            out.bytes.truncate(start);
            error.to_string()
        })
    }

    fn finish(&mut self, _: &mut EncodedAnswers) {
        self.blots.release_buffers();
        clear_buffer(&mut self.distinct);
    }
}

impl SearchStage<'_> {
    /// Answers for a single document. Errors of usage are about the document, others about the index.
    pub fn take_one(&mut self, item: &InputDocument<'_>, out: &mut EncodedAnswers) -> Result<()> {
        let all = self
            .blots
            .distinct(item, &mut self.distinct)
            .map_err(Error::Usage)?;
        let size = DocumentSize {
            blots: u32::try_from(all).unwrap_or(u32::MAX),
        };
        self.answer(item, size, false, out)
    }

    fn answer(
        &mut self,
        item: &InputDocument<'_>,
        side: DocumentSize,
        is_lean: bool,
        out: &mut EncodedAnswers,
    ) -> Result<()> {
        if let Some(groups) = self.groups {
            groups.ask(item.id);
        }
        let (groups, compares_paths) = (self.groups, self.compares_paths);
        let is_wanted: &IdFilter<'_> = &|id: &str| {
            let is_together = groups.is_some_and(|groups| groups.groups.are_together(item.id, id));
            let is_itself = item.id == id || compares_paths && is_same_file(item.id, id);
            !is_together && !is_itself
        };
        let (matches, counted) = self.search.matches(
            &self.distinct,
            side,
            &mut self.scratch,
            is_lean,
            Some(is_wanted),
        )?;
        // Release it now: aligning texts, which follows, takes more memory.
        clear_buffer(&mut self.distinct);
        let is_aligned = !matches.is_empty() && self.answers != AnswerFormat::Page;
        let text = self
            .texts
            .filter(|_| is_aligned)
            .map(|texts| prepared(texts, item))
            .transpose()?;
        match self.answers {
            AnswerFormat::Documents => {
                out.matches += matches.len().to_u64();
                self.put_nested(item.id, &matches, counted, out)
            }
            AnswerFormat::Page => self.put_page(item, &matches, out),
            _ => {
                let mut rank = 1;
                for found in &matches {
                    rank += u64::from(self.put_match(
                        item.id,
                        rank,
                        found,
                        counted,
                        text.as_ref(),
                        out,
                    )?);
                }
                out.matches += rank - 1;
                Ok(())
            }
        }
    }

    /// A page with all matches, even if there are none.
    fn put_page(
        &self,
        item: &InputDocument<'_>,
        matches: &[SearchMatch],
        out: &mut EncodedAnswers,
    ) -> Result<()> {
        let Some(texts) = self.texts else {
            return Ok(());
        };
        let text = prepared(texts, item)?;
        let mut notes = texts.options.notes("the document");
        let mut missing = 0_u64;
        let mut page = DocumentPage::new(item.id, &text).with_notice(self.notice);
        if self.notice.is_some() {
            page = page.with_link("Another document", "/");
        }
        for found in matches {
            let id = self.search.index.id(found.document)?;
            let Some(other) = texts.get(&id).filter(|_| id != item.id) else {
                out.matches += 1;
                missing += 1;
                continue;
            };
            let shared = texts.options.shared_text(&text, &other);
            if !is_all_left_out(texts, &shared) {
                page.add_source(&id, &other, &shared.passages)?;
                out.matches += 1;
            }
        }
        if self.notice.is_some() && missing > 0 {
            notes.push(format!(
                "Of {missing} more documents that share text the server could not read the text: they are not shown."
            ));
        }
        page.with_notes(&notes).write(&mut out.bytes)?;
        Ok(())
    }

    /// One line of JSON for the document, with all that was found.
    fn put_nested(
        &self,
        id: &str,
        matches: &[SearchMatch],
        counted: u32,
        out: &mut EncodedAnswers,
    ) -> Result<()> {
        let matches = matches
            .iter()
            .map(|found| Ok(self.record(self.search.index.id(found.document)?, found, counted)))
            .collect::<Result<_>>()?;
        Ndjson.put_record(&QueryAnswer { doc: id, matches }, &mut out.bytes)
    }

    /// Writes a record, or excerpts, for one match; returns false if nothing that they share counts.
    fn put_match(
        &self,
        id: &str,
        rank: u64,
        found: &SearchMatch,
        counted: u32,
        text: Option<&PreparedText>,
        out: &mut EncodedAnswers,
    ) -> Result<bool> {
        let other_id = self.search.index.id(found.document)?;
        let shared = self.texts.zip(text).and_then(|(texts, text)| {
            let (options, other) = (texts.options, texts.get(&other_id)?);
            let is_shown = matches!(self.answers, AnswerFormat::Excerpts { .. });
            Some((
                if is_shown {
                    options.shared_text(text, &other)
                } else {
                    options.shared(text, &other)
                },
                other,
            ))
        });
        if self
            .texts
            .zip(shared.as_ref())
            .is_some_and(|(texts, (shared, _))| is_all_left_out(texts, shared))
        {
            return Ok(false);
        }
        if let (AnswerFormat::Excerpts { with_color }, Some((shared, other)), Some(text)) =
            (self.answers, &shared, text)
        {
            let (ids, documents, shares) = (
                [id, &other_id],
                [text, other],
                [shared.a_in_b, shared.b_in_a],
            );
            Excerpts {
                ids,
                documents,
                shares,
                passages: &shared.passages,
                tallies: shared.tallies,
                with_color,
            }
            .put(&mut out.bytes);
            return Ok(true);
        }
        let format = if let AnswerFormat::Matches(format) = self.answers {
            format
        } else {
            Format::Ndjson
        };
        let aligned = self
            .texts
            .zip(shared.as_ref())
            .map(|(texts, (shared, _))| texts.options.pair_passages(shared));
        if self.texts.is_some() && format.is_table() {
            let passages = aligned.map_or_else(Vec::new, |aligned| aligned.passages);
            PassageRow::of_pair(id, &other_id, &passages)
                .try_for_each(|row| format.put_record(&row, &mut out.bytes))?;
            return Ok(true);
        }
        let record = QueryMatch {
            query: id,
            rank,
            found: self.record(other_id, found, counted),
            aligned,
        };
        format.put_record(&record, &mut out.bytes)?;
        Ok(true)
    }

    fn record(&self, doc: String, found: &SearchMatch, counted: u32) -> MatchRecord {
        let share = |blots: u32| f64::from(found.shared) / f64::from(blots.max(1));
        MatchRecord {
            doc,
            shared: self.search.measure.scaled(found.shared),
            a_in_b: share(counted),
            b_in_a: share(found.blots),
            score: found.score,
            estimate: self.search.measure.selection.is_some(),
        }
    }
}

/// Whether two documents share nothing but what does not count.
fn is_all_left_out(texts: &TextCache<'_>, shared: &SharedText) -> bool {
    texts.options.leaves_out() && shared.passages.is_empty()
}

/// The document that is asked about, made ready to be aligned.
fn prepared(texts: &TextCache<'_>, item: &InputDocument<'_>) -> Result<PreparedText> {
    match item.content {
        Content::Text(text) => Ok(PreparedText::with_exclusions(
            text,
            &texts.options.passages,
            &texts.options.rules,
        )),
        _ => Err(Error::Usage(
            "passages need the text of a document; tokens and blots do not have it".to_owned(),
        )),
    }
}
