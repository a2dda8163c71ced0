//! The stages, one verb each: read, work in parallel, write in order.
//!
//! Output depends on input and options only, never on the number of threads. Memory is bounded by
//! [`Limits::budget_bytes`] of input under way (what is made of it takes a few times that), by the
//! largest single document, and by [`SeenIds`].

mod blot;
mod tokenize;

pub use blot::{BlotOptions, blot};
pub use tokenize::{TokenizeOptions, tokenize};

use crate::{
    corpus::{self, Chunk, Item, Reader, SeenIds, Source},
    error::{Error, Place, Problem, Result},
    format::{Batch, Form, Header, StreamWriter},
    parallel::{self, Limits},
};
use std::io::Write;

/// How a stage runs, whatever it does.
#[derive(Debug, Clone)]
pub struct Settings {
    pub form: Form,
    pub limits: Limits,
    pub corpus: corpus::Options,
}

/// Is told what happens, in the order of the input.
pub trait Watch {
    /// An input could not be used; the rest goes on.
    fn problem(&mut self, problem: &Problem);
    /// So many more bytes were read, and so many documents written.
    fn progress(&mut self, bytes: u64, documents: u64);
}

/// What a stage did.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Summary {
    pub documents: u64,
    pub problems: u64,
}

/// One document in, one record out; a copy works on each thread.
trait Stage: Clone + Send + Sync {
    fn encode(&mut self, item: &Item<'_>, out: &mut Vec<u8>) -> Result<(), String>;
}

/// Runs a stage over a corpus, and writes a whole stream.
fn run(
    stage: &impl Stage,
    source: Source,
    header: &Header,
    settings: &Settings,
    out: impl Write,
    watch: &mut dyn Watch,
) -> Result<Summary> {
    let mut stream = StreamWriter::new(out, settings.form, header).map_err(Error::output)?;
    let (mut seen, mut summary) = (SeenIds::default(), Summary::default());
    let worker = || {
        let (mut stage, mut reader) = (stage.clone(), Reader::new(&settings.corpus));
        move |chunk| work(&mut stage, &mut reader, chunk)
    };
    parallel::ordered(settings.limits, source, worker, |worked: Result<Worked>| {
        let mut worked = worked?;
        worked.drop_duplicates(&mut seen)?;
        worked.problems.iter().for_each(|problem| watch.problem(problem));
        stream.write(&worked.batch).map_err(Error::output)?;
        let documents = worked.batch.ends.len() as u64;
        summary.documents += documents;
        summary.problems += worked.problems.len() as u64;
        watch.progress(worked.bytes, documents);
        Ok(())
    })?;
    stream.finish().map_err(Error::output)?;
    Ok(summary)
}

/// What became of a chunk.
#[derive(Default)]
struct Worked {
    batch: Batch,
    /// Of each record in the batch.
    ids: Vec<(Box<str>, Place)>,
    problems: Vec<Problem>,
    bytes: u64,
}

fn work(stage: &mut impl Stage, reader: &mut Reader, chunk: Chunk) -> Result<Worked> {
    let mut worked = Worked::default();
    reader.read(chunk, &mut |found| match found {
        Err(problem) => worked.problems.push(problem),
        Ok(item) => worked.add(stage, &item),
    })?;
    Ok(worked)
}

impl Worked {
    fn add(&mut self, stage: &mut impl Stage, item: &Item<'_>) {
        let start = self.batch.bytes.len();
        self.bytes += item.bytes.unwrap_or_default();
        match stage.encode(item, &mut self.batch.bytes) {
            Ok(()) => {
                self.batch.finish_record();
                self.ids.push((item.id.into(), item.place()));
            }
            Err(what) => {
                self.batch.bytes.truncate(start);
                self.problems.push(Problem::new(item.place(), what));
            }
        }
    }

    /// Of documents with one id the first is kept.
    fn drop_duplicates(&mut self, seen: &mut SeenIds) -> Result<()> {
        let mut dropped = Vec::new();
        for (index, (id, place)) in self.ids.iter().enumerate() {
            if !seen.insert(SeenIds::hash(id))? {
                dropped.push(index);
                self.problems
                    .push(Problem::new(place.clone(), format!("a document with the id '{id}' came before; the first one is kept")));
            }
        }
        if !dropped.is_empty() {
            self.batch.drop_records(&dropped);
            self.problems.sort_by_key(|problem| problem.place.at);
        }
        Ok(())
    }
}
