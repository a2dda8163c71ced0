//! Compares documents with a history, and adds them to it.

use crate::base::num::ToU64;
use crate::{
    base::{
        error::{At, Error, Problem, Result},
        parallel::{self, Budget},
    },
    blot::DocumentPrinter,
    commands::{
        DocumentStage, Observer, QueryOutcome, Settings, StageOutput,
        input_problems::InputProblems, run,
    },
    history::{
        self, History, MatchLimits, Request,
        backend::{
            self, BackendSource, HistoryBackend, MatchReply, ProblemReporter, ensure_id_is_short,
            put_reply,
        },
    },
    text::{
        corpus::{
            Account, Chunk, DocumentReader, InputDocument, RecordWithoutText, SkippedInput, Source,
            copy_lines,
        },
        scheme::PrintScheme,
        stream::{Print, StreamKind},
        token::Tokenizer,
    },
};
use std::{
    collections::BTreeMap,
    io::Write,
    ops::Range,
    path::Path,
    sync::{Arc, atomic::Ordering},
};

/// How documents are compared with a history.
#[derive(Clone)]
pub struct HistoryOptions {
    /// Where the history is.
    pub of: BackendSource,
    /// `None`: as in the input stream, or that of the history.
    pub tokenizer: Option<Tokenizer>,
    /// Which matches are reported.
    pub wanted: MatchLimits,
    /// Documents are added, so that later ones are compared with them, too.
    pub add: bool,
    /// Receives messages about entries that were lost in a crash or on the way to a server.
    pub tell: ProblemReporter,
}

/// Writes the best matches of each document in the order of the documents, and adds them to the history. The input may be empty.
pub fn ask_history(
    options: &HistoryOptions,
    settings: &Settings,
    out: &mut impl Write,
    observer: &mut dyn Observer,
) -> Result<QueryOutcome> {
    let (source, prints, mut history) = open(options, settings)?;
    let (mut asked, mut lines) = (QueryOutcome::default(), Vec::new());
    let summary = run(
        &PrintStage(prints),
        source,
        settings,
        observer,
        |gathered, ids| {
            let requests: Vec<_> = ids
                .iter()
                .zip(&gathered.0)
                .map(|((id, _), &print)| Request {
                    id,
                    print,
                    add: options.add,
                })
                .collect();
            let replies = history.ask(&requests)?;
            lines.clear();
            for (request, reply) in requests.iter().zip(&replies) {
                asked.matches += reply.matches.len().to_u64();
                put_reply(&mut lines, request.id, reply, options.wanted.top > 1);
            }
            // A client that sends documents one by one waits for each answer.
            out.write_all(&lines)
                .and_then(|()| out.flush())
                .map_err(Error::output)
        },
    )?;
    history.close()?;
    asked.problems = summary.problems;
    Ok(asked)
}

/// Copies the lines of documents that are similar to no earlier one, unchanged, and adds all documents to the history.
///
/// A document is stored only after its line was written and flushed. So whenever the process dies, the same input once more passes every
/// new document at least once. A line that is no document is reported, and kept: nothing is lost that was not found elsewhere.
pub fn filter_by_history(
    options: &HistoryOptions,
    settings: &Settings,
    out: &mut impl Write,
    observer: &mut dyn Observer,
) -> Result<QueryOutcome> {
    let (source, prints, mut history) = open(options, settings)?;
    let (mut asked, mut flaws, stop) = (
        QueryOutcome::default(),
        InputProblems::default(),
        source.stop(),
    );
    observer.account(&Account::default());
    let reading = source.reading();
    let worker = || {
        let (mut prints, mut reader) = (prints.clone(), DocumentReader::new(&reading));
        move |chunk: Chunk| read_lines(&mut prints, &mut reader, chunk)
    };
    let weigh = |lines: &Result<InputLines>| lines.as_ref().map_or(0, InputLines::weight);
    let budget = Budget::Bytes(settings.limits.memory_bytes);
    parallel::ordered(
        settings.limits.threads,
        budget,
        source,
        worker,
        weigh,
        |lines| {
            let lines = lines?;
            flaws.report(
                &lines.flaws,
                lines.file.as_ref(),
                lines.documents.len().to_u64(),
                observer,
            );
            observer.account(&lines.account);
            observer.progress(lines.bytes.len().to_u64(), lines.documents.len().to_u64());
            let mut pass = LinePass {
                lines: &lines,
                next_line: 0,
                next_document: 0,
                kept: Vec::new(),
                out,
            };
            let requests: Vec<_> = lines
                .documents
                .iter()
                .map(|(id, print)| Request {
                    id,
                    print: *print,
                    add: options.add,
                })
                .collect();
            let passed = history.ask_and_deliver(&requests, &mut |replies| {
                asked.matches += replies
                    .iter()
                    .filter(|reply| !reply.matches.is_empty())
                    .count()
                    .to_u64();
                pass.pass(replies)
            });
            // There may be lines without any document.
            passed
                .and_then(|()| pass.pass(&[]))
                .inspect_err(|_| stop.store(true, Ordering::Relaxed))
        },
    )?;
    history.close()?;
    flaws.finish(observer);
    asked.problems = flaws.problems;
    Ok(asked)
}

/// Copies the lines of a chunk, up to the last document with an answer.
struct LinePass<'l, W> {
    lines: &'l InputLines,
    next_line: usize,
    next_document: usize,
    kept: Vec<u8>,
    out: &'l mut W,
}

impl<W: Write> LinePass<'_, W> {
    /// Writes the lines of the next documents that are like nothing, and all lines up to the first document after them.
    fn pass(&mut self, replies: &[MatchReply]) -> Result<()> {
        self.kept.clear();
        while let Some((line, document)) = self.lines.lines.get(self.next_line) {
            let reply = document.map(|document| replies.get(document - self.next_document));
            match reply {
                Some(None) => break,
                Some(Some(reply)) if !reply.matches.is_empty() => {}
                Some(Some(_)) | None => {
                    self.kept.extend_from_slice(&self.lines.bytes[line.clone()])
                }
            }
            self.next_line += 1;
        }
        self.next_document += replies.len();
        // A last line without a line feed must not run into the next file.
        if self.kept.last().is_some_and(|&last| last != b'\n') {
            self.kept.push(b'\n');
        }
        self.out
            .write_all(&self.kept)
            .and_then(|()| self.out.flush())
            .map_err(Error::output)
    }
}

/// Removes all entries that have one of these ids. Returns their number, and reports each id without an entry.
pub fn remove_from_history(
    directory: &Path,
    options: &history::StoreOptions,
    ids: impl Iterator<Item = Result<String>>,
    observer: &mut dyn Observer,
) -> Result<(u64, u64)> {
    history::ensure_history_exists(directory)?;
    let (mut history, notes) = History::open(directory, options.clone())?;
    notes.iter().for_each(|note| observer.problem(note));
    let (mut removed, mut unknown) = (0, 0);
    for id in ids {
        let id = id?;
        let count = history.remove(&id)?;
        removed += count;
        if count == 0 {
            unknown += 1;
            observer.problem(&Problem::new(
                crate::base::error::Place::path(directory),
                format!("no entry has the id '{id}'"),
            ));
        }
    }
    history
        .close()?
        .iter()
        .for_each(|note| observer.problem(note));
    Ok((removed, unknown))
}

/// Opens the input, then the history, which must have the same scheme.
fn open(
    options: &HistoryOptions,
    settings: &Settings,
) -> Result<(Source, DocumentPrinter, Box<dyn HistoryBackend>)> {
    let mut source = Source::new(settings.corpus.clone(), settings.limits.threads)?;
    let first = source.first_header().cloned();
    let is_told = options.tokenizer.is_some()
        || first
            .as_ref()
            .is_some_and(|(header, _)| header.kind != StreamKind::Blots);
    let scheme = is_told
        .then(|| PrintScheme::of(options.tokenizer.as_ref(), first.as_ref()))
        .transpose()?;
    scheme
        .clone()
        .map_or(Ok(()), |scheme| DocumentPrinter::new(scheme).map(drop))?;
    let history = backend::open(&options.of, scheme, options.wanted, &options.tell)?;
    let prints = DocumentPrinter::new(history.scheme().clone())?;
    prints.expect_in(&mut source);
    Ok((source, prints, history))
}

/// Gathers the prints of documents.
#[derive(Clone)]
struct PrintStage(DocumentPrinter);

#[derive(Default)]
struct CollectedPrints(Vec<Option<Print>>);

impl StageOutput for CollectedPrints {
    fn drop_documents(&mut self, _: &[usize]) {}

    fn weight(&self) -> u64 {
        size_of_val(&self.0[..]).to_u64()
    }
}

impl DocumentStage for PrintStage {
    type Out = CollectedPrints;
    const IDS_ARE_UNIQUE: bool = false;

    fn take(&mut self, item: &InputDocument<'_>, out: &mut CollectedPrints) -> Result<(), String> {
        ensure_id_is_short(item.id)?;
        out.0.push(self.0.print(item)?.0.print);
        Ok(())
    }

    fn finish(&mut self, _: &mut CollectedPrints) {
        self.0.release_buffers();
    }
}

/// The lines of a chunk, and the documents in them.
struct InputLines {
    bytes: Vec<u8>,
    /// Each line with its line feed, and the number of its document.
    lines: Vec<(Range<usize>, Option<usize>)>,
    documents: Vec<(Box<str>, Option<Print>)>,
    flaws: Vec<SkippedInput>,
    account: Account,
    file: Option<Arc<str>>,
}

impl InputLines {
    fn weight(&self) -> u64 {
        (self.bytes.capacity() + self.lines.len() * 120 + self.flaws.len() * 240) as u64
    }
}

fn read_lines(
    prints: &mut DocumentPrinter,
    reader: &mut DocumentReader,
    chunk: Chunk,
) -> Result<InputLines> {
    let (bytes, first_line) = copy_lines(&chunk)?;
    let (mut documents, mut flaws, mut at_line) = (Vec::new(), Vec::new(), BTreeMap::new());
    let (mut refused, file) = (Vec::new(), chunk.container().map(|of| of.file.clone()));
    let kept = |what: &str| format!("{what}; the line is kept");
    let mut account = reader.read(chunk, &mut |found| match found {
        Err(SkippedInput::Problem(Problem { place, what })) => {
            flaws.push(Problem::new(place, kept(&what)).into())
        }
        Err(SkippedInput::NoText(textless)) => {
            flaws.push(SkippedInput::NoText(RecordWithoutText {
                what: kept(&textless.what),
                ..textless
            }))
        }
        Err(left) => flaws.push(left),
        Ok(item) => match ensure_id_is_short(item.id).and_then(|()| prints.print(&item)) {
            Err(what) => {
                refused.push(item.bytes.unwrap_or(0));
                flaws.push(Problem::new(item.place(), kept(&what)).into());
            }
            Ok((printed, _)) => {
                if let At::Line(line) = item.place().at {
                    at_line.insert(line, documents.len());
                }
                documents.push((item.id.into(), printed.print));
            }
        },
    })?;
    refused
        .iter()
        .for_each(|&bytes| account.drop_document(bytes));
    prints.release_buffers();
    let (mut lines, mut start) = (Vec::new(), 0);
    for (line, number) in bytes
        .split_inclusive(|&byte| byte == b'\n')
        .zip(first_line..)
    {
        lines.push((start..start + line.len(), at_line.get(&number).copied()));
        start += line.len();
    }
    Ok(InputLines {
        bytes,
        lines,
        documents,
        flaws,
        account,
        file,
    })
}
