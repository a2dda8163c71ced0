//! Documents against an index: what shares text with them.

use super::{BlotOptions, Gathered, Settings, Stage, Watch, blot::ToBlots, run};
use crate::{
    corpus::{self, Item, Source},
    error::{Error, Place, Result},
    index::Index,
    report::{Format, Value, put_id, put_names, put_record},
    select,
    similar::{Excluded, Measure, Score, Search, SearchScratch},
};
use std::{
    collections::HashSet,
    io::Write,
    path::{Path, PathBuf},
};

#[derive(Debug, Clone)]
pub struct QueryOptions {
    /// They must be those of the index, as far as they are given.
    pub blots: BlotOptions,
    pub score: Score,
    pub threshold: f64,
    /// The best so many.
    pub top: usize,
    /// Blots of more documents do not count.
    pub max_df: Option<u64>,
    /// Files whose blots do not count.
    pub exclude: Vec<PathBuf>,
    /// Indexes whose blots do not count.
    pub exclude_indexes: Vec<PathBuf>,
    pub answers: Answers,
}

/// How answers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// A record for each match.
    Matches(Format),
    /// A line of JSON for each document, whether or not anything was found.
    Documents,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    pub matches: u64,
    /// Inputs that could not be used.
    pub problems: u64,
}

/// Writes the best matches of each document, in the order of the documents.
pub fn query(options: &QueryOptions, index: &Index, settings: &Settings, out: &mut impl Write, watch: &mut dyn Watch) -> Result<Asked> {
    let blots = ToBlots::as_index(&options.blots, &index.manifest, &index.directory)?;
    let selection = (index.scheme.select != "all").then(|| select::rate(&index.scheme.select));
    let measure = Measure { score: options.score, threshold: options.threshold, selection };
    let reference = options.exclude_indexes.iter().map(|path| open_reference(path, index)).collect::<Result<Vec<_>>>()?;
    let excluded = Excluded::new(index, blots_of_files(&options.exclude, &blots, settings, watch)?, &reference)?;
    let search = Search { index, measure, top: options.top, max_df: options.max_df.unwrap_or(u64::MAX), excluded };
    let mut source = Source::new(settings.corpus.clone(), settings.limits.threads)?;
    blots.expect_in(&mut source);
    let mut names = Vec::new();
    if let Answers::Matches(format) = options.answers {
        put_names(&mut names, format, shown(&search, &NAMES));
    }
    out.write_all(&names).map_err(Error::output)?;
    let stage = Ask { blots, search: &search, answers: options.answers, distinct: Vec::new(), scratch: SearchScratch::default() };
    let mut asked = Asked::default();
    let summary = run(&stage, source, settings, watch, |answers, _| {
        asked.matches += answers.matches;
        out.write_all(&answers.bytes).map_err(Error::output)?;
        // Whoever asks as documents come waits for the answer.
        out.flush().map_err(Error::output)
    })?;
    asked.problems = summary.problems;
    Ok(asked)
}

/// Opens an index whose blots are to be left out.
pub(super) fn open_reference(path: &Path, index: &Index) -> Result<Index> {
    let reference = Index::open_whole(path)?;
    if reference.manifest.scheme == index.manifest.scheme {
        return Ok(reference);
    }
    Err(Error::Scheme {
        place: Place::path(path),
        found: reference.manifest.scheme.clone(),
        expected: index.manifest.scheme.clone(),
        remedy: "blots of another scheme cannot be compared; build it with the same options",
    })
}

/// The blots of all files that are to be left out. One that cannot be read is an error: more would be found than there is.
pub(super) fn blots_of_files(files: &[PathBuf], blots: &ToBlots, settings: &Settings, watch: &mut dyn Watch) -> Result<HashSet<u64>> {
    let mut found = HashSet::new();
    if files.is_empty() {
        return Ok(found);
    }
    let corpus = corpus::Options { paths: files.to_vec(), files_from: None, ..settings.corpus.clone() };
    let mut source = Source::new(corpus, settings.limits.threads)?;
    blots.expect_in(&mut source);
    let summary = run(&Collect(blots.clone()), source, settings, watch, |collected, _| {
        found.extend(collected.0);
        Ok(())
    })?;
    if summary.problems > 0 {
        return Err(Error::Usage("some of what is to be left out could not be read: see above".to_owned()));
    }
    Ok(found)
}

/// Gathers blots, whichever document they are of.
#[derive(Clone)]
struct Collect(ToBlots);

#[derive(Default)]
struct Collected(Vec<u64>);

impl Gathered for Collected {
    fn drop_documents(&mut self, _: &[usize]) {}

    fn weight(&self) -> u64 {
        size_of_val(&self.0[..]) as u64
    }
}

impl Stage for Collect {
    type Out = Collected;
    const IDS_ARE_UNIQUE: bool = false;

    fn take(&mut self, item: &Item<'_>, out: &mut Collected) -> Result<(), String> {
        out.0.extend_from_slice(&self.0.blots(item)?.0.values);
        Ok(())
    }

    fn finish(&mut self, _: &mut Collected) {
        self.0.give_back();
    }
}

/// Answers for each document.
struct Ask<'s> {
    blots: ToBlots,
    search: &'s Search<'s>,
    answers: Answers,
    distinct: Vec<u64>,
    scratch: SearchScratch,
}

impl Clone for Ask<'_> {
    fn clone(&self) -> Self {
        let Self { blots, search, answers, .. } = self;
        Self { blots: blots.clone(), search, answers: *answers, distinct: Vec::new(), scratch: SearchScratch::default() }
    }
}

/// Answers as they are written.
#[derive(Default)]
struct Written {
    bytes: Vec<u8>,
    documents: u64,
    matches: u64,
}

impl Gathered for Written {
    fn drop_documents(&mut self, _: &[usize]) {}

    fn weight(&self) -> u64 {
        self.bytes.capacity() as u64
    }
}

impl Stage for Ask<'_> {
    type Out = Written;
    const IDS_ARE_UNIQUE: bool = false;

    fn take(&mut self, item: &Item<'_>, out: &mut Written) -> Result<(), String> {
        let (blots, _) = self.blots.blots(item)?;
        let tokens = u32::try_from(blots.tokens).unwrap_or(u32::MAX);
        self.distinct.clear();
        self.distinct.extend_from_slice(&blots.values);
        self.distinct.sort_unstable();
        self.distinct.dedup();
        // Whoever asks about one document wants little memory; whoever asks about many, speed.
        let is_lean = self.answers != Answers::Documents && out.documents == 0;
        out.documents += 1;
        let start = out.bytes.len();
        let written = self.answer(item.id, tokens, is_lean, out);
        written.map_err(|error| {
            out.bytes.truncate(start);
            error.to_string()
        })
    }

    fn finish(&mut self, _: &mut Written) {
        self.blots.give_back();
    }
}

const NAMES: [&str; 8] = ["query", "rank", "doc", "shared", "a_in_b", "b_in_a", "score", "estimate"];

/// An estimate says so: the last field is for estimates only.
fn shown<'f, T>(search: &Search<'_>, fields: &'f [T]) -> &'f [T] {
    &fields[..fields.len() - usize::from(search.measure.selection.is_none())]
}

impl Ask<'_> {
    fn answer(&mut self, id: &str, tokens: u32, is_lean: bool, out: &mut Written) -> Result<()> {
        let Self { search, distinct, scratch, answers, .. } = self;
        let (matches, counted) = search.matches(distinct, tokens, scratch, is_lean)?;
        out.matches += matches.len() as u64;
        let format = match answers {
            Answers::Matches(format) => *format,
            Answers::Documents => Format::Ndjson,
        };
        let is_nested = *answers == Answers::Documents;
        let (mut query, mut doc) = (Vec::new(), Vec::new());
        put_id(&mut query, format, id);
        if is_nested {
            out.bytes.extend_from_slice(b"{\"doc\":");
            out.bytes.extend_from_slice(&query);
            out.bytes.extend_from_slice(b",\"matches\":[");
        }
        for (rank, found) in matches.iter().enumerate() {
            doc.clear();
            put_id(&mut doc, format, &search.index.id(found.document)?);
            let part = |blots: u32| Value::Number(f64::from(found.shared) / f64::from(blots.max(1)));
            let fields = [
                ("query", Value::Id(&query)),
                ("rank", Value::Count(rank as u64 + 1)),
                ("doc", Value::Id(&doc)),
                ("shared", Value::Count(search.measure.scaled(found.shared))),
                ("a_in_b", part(counted)),
                ("b_in_a", part(found.blots)),
                ("score", Value::Number(found.score)),
                ("estimate", Value::Flag(true)),
            ];
            let fields = shown(search, &fields);
            if is_nested {
                if rank > 0 {
                    out.bytes.push(b',');
                }
                put_record(&mut out.bytes, format, &fields[2..]);
                out.bytes.pop();
            } else {
                put_record(&mut out.bytes, format, fields);
            }
        }
        if is_nested {
            out.bytes.extend_from_slice(b"]}\n");
        }
        Ok(())
    }
}

/// Writes every document of a blot with the text behind it, as far as its file can be read; false if there is none.
///
/// Ids are paths, below `root` if one is given.
pub fn blot_text(index: &Index, options: &BlotOptions, blot: u64, root: Option<&Path>, out: &mut impl Write) -> Result<bool> {
    let mut blots = ToBlots::as_index(options, &index.manifest, &index.directory)?;
    let documents = index.ids_with(blot)?;
    let digits = usize::from(index.scheme.bits.div_ceil(4));
    for id in &documents {
        let path = root.map_or_else(|| PathBuf::from(id), |root| root.join(id));
        let mut line = serde_json::json!({ "blot": format!("{blot:0digits$x}"), "doc": id });
        // A document of a stream, or one that is elsewhere now, has no text to show.
        let text = corpus::read_text(&path, false).ok();
        if let Some((span, text)) = text.and_then(|text| blots.text_of(&text, blot)) {
            line["bytes"] = serde_json::json!([span.start, span.end]);
            line["text"] = text.into();
        }
        writeln!(out, "{line}").map_err(Error::output)?;
    }
    Ok(!documents.is_empty())
}
