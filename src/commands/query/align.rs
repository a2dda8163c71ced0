//! Aligns given pairs of documents; needs no index.

use crate::base::num::ToU64;
use crate::{
    align::{PreparedText, exclusions::ExclusionRules},
    base::{
        error::{Error, Place, Problem, Result},
        parallel::{self, Budget, Limits, Weighted},
    },
    commands::{
        Observer, QueryOutcome,
        passage_options::{PassageOptions, SharedText},
    },
    report::{
        html::{PageLinks, PairPage},
        records::AlignedPair,
    },
};
use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Which pairs are aligned, and how.
#[derive(Debug, Clone)]
pub struct PairsOptions {
    /// A file with two paths a line, a tab between them; `-` for stdin.
    pub list: PathBuf,
    /// How passages are found.
    pub passages: PassageOptions,
    /// Make a page for each pair.
    pub with_pages: bool,
}

/// Two documents that were aligned.
#[derive(Debug, Clone, PartialEq)]
pub struct Aligned {
    /// The passages that they share.
    pub pair: AlignedPair,
    /// The page of the pair, if pages are wanted.
    pub page: Option<PairPage>,
}

impl Aligned {
    /// The approximate memory, in bytes.
    fn weight(&self) -> u64 {
        let page = self.page.as_ref().map_or(0, |page| page.html.len());
        (size_of_val(&self.pair.passages[..]) + page) as u64
    }
}

/// Aligns all pairs of a list on many threads; the sink gets them in the order of the list.
///
/// Memory: some 30 times the size of the documents that are worked on, two for each thread, with pages some 34 times; large ones are worked on one pair
/// at a time.
pub fn align_pairs(
    options: &PairsOptions,
    limits: Limits,
    mut sink: impl FnMut(Aligned) -> Result<()>,
    observer: &mut dyn Observer,
) -> Result<QueryOutcome> {
    let worker = || {
        let mut aligner = PairAligner {
            options,
            a: None,
            b: None,
        };
        move |line: PairLine| (line.text.len().to_u64() + 1, aligner.align(&line))
    };
    let weigh = |(_, done): &AlignedLine| done.as_ref().map_or(0, Aligned::weight);
    let mut asked = QueryOutcome::default();
    parallel::ordered(
        limits.threads,
        Budget::Bytes(limits.memory_bytes),
        PairList::open(&options.list)?,
        worker,
        weigh,
        |(bytes, done)| {
            observer.progress(bytes, 1);
            match done {
                Ok(aligned) => {
                    asked.matches += aligned.pair.passages.len().to_u64();
                    sink(aligned)
                }
                Err(problems) => {
                    asked.problems += problems.len().to_u64();
                    problems
                        .iter()
                        .for_each(|problem| observer.problem(problem));
                    Ok(())
                }
            }
        },
    )?;
    Ok(asked)
}

/// The length of a line, and its result.
type AlignedLine = (u64, Result<Aligned, Vec<Problem>>);

/// A line of the list.
struct PairLine {
    place: Place,
    text: String,
}

impl PairLine {
    fn paths(&self) -> Option<(&str, &str)> {
        self.text
            .split_once('\t')
            .filter(|(a, b)| !a.is_empty() && !b.is_empty() && !b.contains('\t'))
    }
}

/// The lines of a list that are not empty.
struct PairList {
    name: Arc<str>,
    input: Box<dyn BufRead + Send>,
    number: u64,
}

impl PairList {
    fn open(list: &Path) -> Result<Self> {
        let input: Box<dyn BufRead + Send> = if list.as_os_str() == "-" {
            Box::new(BufReader::new(io::stdin()))
        } else {
            Box::new(BufReader::new(
                File::open(list).map_err(|error| Error::io(list.display(), error))?,
            ))
        };
        Ok(Self {
            name: list.display().to_string().into(),
            input,
            number: 0,
        })
    }

    fn read(&mut self) -> Result<Option<PairLine>> {
        let mut bytes = Vec::new();
        while self
            .input
            .read_until(b'\n', &mut bytes)
            .map_err(|error| Error::io(&self.name, error))?
            > 0
        {
            self.number += 1;
            let place = Place::line(&self.name, self.number);
            let text = String::from_utf8(bytes).map_err(|_| {
                Error::damaged(
                    place.clone(),
                    "the line is not UTF-8; paths that are not cannot be listed, rename the files",
                )
            })?;
            let text = text.trim_end_matches(['\n', '\r']).to_owned();
            if !text.is_empty() {
                return Ok(Some(PairLine { place, text }));
            }
            bytes = Vec::new();
        }
        Ok(None)
    }
}

impl Iterator for PairList {
    type Item = Result<Weighted<PairLine>>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.read().transpose()?;
        Some(line.map(|line| {
            let size = |path: &str| fs::metadata(path).map_or(0, |metadata| metadata.len());
            let bytes = line.paths().map_or(0, |(a, b)| size(a) + size(b));
            // A unit of the budget stands for eight bytes of memory.
            Weighted {
                item: line,
                bytes: 4 * bytes,
            }
        }))
    }
}

/// Aligns one pair after the other. A document that comes again, on the same side, is not read again.
struct PairAligner<'o> {
    options: &'o PairsOptions,
    a: Option<(String, PreparedText)>,
    b: Option<(String, PreparedText)>,
}

impl PairAligner<'_> {
    fn align(&mut self, line: &PairLine) -> Result<Aligned, Vec<Problem>> {
        let Some((path_a, path_b)) = line.paths() else {
            let what = "expected two paths with a tab between them";
            return Err(vec![Problem::new(line.place.clone(), what)]);
        };
        let options = &self.options.passages;
        let (a, b) = match (
            load(&mut self.a, path_a, options, &options.rules),
            load(&mut self.b, path_b, options, &options.source_rules),
        ) {
            (Ok(a), Ok(b)) => (a, b),
            (a, b) => return Err([a.err(), b.err()].into_iter().flatten().collect()),
        };
        let mut shared = options.shared_text(a, b);
        let notes = options.notes("the first text");
        let page = self
            .options
            .with_pages
            .then(|| {
                PairPage::of(
                    (path_a, a),
                    (path_b, b),
                    &shared.passages,
                    &notes,
                    PageLinks::default(),
                )
            })
            .transpose();
        let page =
            page.map_err(|error| vec![Problem::new(line.place.clone(), error.to_string())])?;
        options.place(&mut shared.passages, a, b);
        let pair = aligned_pair(options, (path_a, path_b), &shared);
        Ok(Aligned { pair, page })
    }
}

/// Aligns two texts.
pub fn align_texts(options: &PassageOptions, a: (&str, &str), b: (&str, &str)) -> AlignedPair {
    let prepared = |text: &str, rules: &ExclusionRules| {
        PreparedText::with_exclusions(text.to_owned(), &options.passages, rules)
    };
    let first = prepared(a.1, &options.rules);
    let second = prepared(b.1, &options.source_rules);
    let shared = options.shared(&first, &second);
    aligned_pair(options, (a.0, b.0), &shared)
}

/// The record of two documents.
fn aligned_pair(
    options: &PassageOptions,
    (a, b): (&str, &str),
    shared: &SharedText,
) -> AlignedPair {
    let aligned = options.pair_passages(shared);
    AlignedPair {
        a: a.to_owned(),
        b: b.to_owned(),
        a_in_b: shared.a_in_b,
        b_in_a: shared.b_in_a,
        a_words: aligned.a_words,
        b_words: aligned.b_words,
        passages: aligned.passages,
    }
}

/// The document of a slot; reads it first if the slot has another one.
fn load<'s>(
    slot: &'s mut Option<(String, PreparedText)>,
    path: &str,
    options: &PassageOptions,
    rules: &ExclusionRules,
) -> Result<&'s PreparedText, Problem> {
    if slot.as_ref().is_none_or(|(loaded, _)| loaded != path) {
        // Release the old document first: two large ones at a time would exceed the bound.
        *slot = None;
        *slot = Some((path.to_owned(), options.prepared(path, rules)?));
    }
    match slot {
        Some((_, document)) => Ok(document),
        None => Err(Problem::new(Place::file(path), "could not be read")),
    }
}
