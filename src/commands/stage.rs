//! Runs a stage over a corpus: reads chunks, works on them in parallel, and hands on results in
//! input order.
//!
//! Output depends on input and options only, never on the number of threads. Memory is bounded by
//! the budget for input and results under way, by what each thread works on, by the largest single
//! document, by about 5 MiB that are read ahead, and by [`SeenIds`].

use super::input_problems::InputProblems;
use crate::base::num::ToU64;
use crate::{
    base::{
        error::{Error, Place, Problem, Result},
        parallel::{self, Budget, Limits},
    },
    similar::Boilerplate,
    text::{
        corpus::{
            self, Account, Chunk, DocumentReader, IdSet, InputDocument, SkippedFile, SkippedInput,
            Source,
        },
        stream::{Batch, Form, Header, StreamWriter},
    },
};
use std::{
    io::Write,
    sync::{Arc, atomic::Ordering},
};

/// How a stage reads its input and runs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The form of the stream that it writes.
    pub form: Form,
    /// Threads and memory.
    pub limits: Limits,
    /// The input.
    pub corpus: corpus::Options,
}

/// Receives progress and problems, in the order of the input.
pub trait Observer {
    /// An input could not be used; the rest goes on.
    fn problem(&mut self, problem: &Problem);
    /// `bytes` more bytes were read, and `documents` more documents written.
    fn progress(&mut self, bytes: u64, documents: u64);
    /// A file was left out. Whether that is an error depends on its kind, and on whether the user named it.
    fn left_out(&mut self, left: &SkippedFile) {
        if left.is_error() {
            self.problem(&left.problem);
        }
    }
    /// The account of the next part of the input.
    fn account(&mut self, _: &Account) {}
    /// Text that was taken for boilerplate, and is ignored.
    fn boilerplate(&mut self, _: &Boilerplate) {}
}

/// Observes nothing.
pub struct NoObserver;

impl Observer for NoObserver {
    fn problem(&mut self, _: &Problem) {}
    fn progress(&mut self, _: u64, _: u64) {}
}

/// Passes on problems only. For input besides the documents, such as text that does not count.
pub(super) struct ProblemsOnly<'w>(pub &'w mut dyn Observer);

impl Observer for ProblemsOnly<'_> {
    fn problem(&mut self, problem: &Problem) {
        self.0.problem(problem);
    }

    fn progress(&mut self, _: u64, _: u64) {}
}

/// The result of a stage.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Inputs that could not be used.
    pub problems: u64,
    /// The input that was read, and the input that was left out.
    pub account: Account,
}

impl Summary {
    /// See [`Account::ensure_documents`].
    pub(super) fn ensure_documents(self, settings: &Settings) -> Result<Self> {
        self.account
            .ensure_documents(&settings.corpus)
            .map(|()| self)
    }
}

/// Turns documents into results, which are collected chunk by chunk. Each thread has its own copy.
pub(super) trait DocumentStage: Clone + Send + Sync {
    type Out: StageOutput;
    /// Whether only the first document of each id is wanted.
    const IDS_ARE_UNIQUE: bool = true;

    /// Adds the result for a document, or returns why it cannot.
    fn take(&mut self, item: &InputDocument<'_>, out: &mut Self::Out) -> Result<(), String>;

    /// Called at the end of a chunk, to release large buffers and to put the results in order.
    fn finish(&mut self, out: &mut Self::Out);
}

/// The results of a stage for one chunk.
pub(super) trait StageOutput: Default + Send {
    /// Removes documents, given by their places in rising order.
    fn drop_documents(&mut self, dropped: &[usize]);

    /// The approximate memory, in bytes.
    fn weight(&self) -> u64;
}

impl StageOutput for Batch {
    fn drop_documents(&mut self, dropped: &[usize]) {
        self.drop_records(dropped);
    }

    fn weight(&self) -> u64 {
        Self::weight(self) as u64
    }
}

/// Runs a stage over a corpus and writes a whole stream.
pub(super) fn run_to_stream(
    stage: &impl DocumentStage<Out = Batch>,
    source: Source,
    header: &Header,
    settings: &Settings,
    out: impl Write,
    observer: &mut dyn Observer,
) -> Result<Summary> {
    let mut stream = StreamWriter::new(out, settings.form, header).map_err(Error::output)?;
    let summary = run(stage, source, settings, observer, |batch, _| {
        stream.write(&batch).map_err(Error::output)
    })?;
    let summary = summary.ensure_documents(settings)?;
    stream.finish().map_err(Error::output)?;
    Ok(summary)
}

/// Ids of documents, and where each was found.
pub(super) type IdsAndPlaces = Vec<(Box<str>, Place)>;

/// Runs a stage over a corpus; the sink receives the results of each chunk, in input order, and the documents they are of.
pub(super) fn run<S: DocumentStage>(
    stage: &S,
    source: Source,
    settings: &Settings,
    observer: &mut dyn Observer,
    mut sink: impl FnMut(S::Out, IdsAndPlaces) -> Result<()>,
) -> Result<Summary> {
    let (mut seen, mut account, mut flaws, stop) = (
        IdSet::default(),
        Account::default(),
        InputProblems::default(),
        source.stop(),
    );
    // An empty input has an account, too.
    observer.account(&account);
    let reading = source.reading();
    let worker = || {
        let (mut stage, mut reader) = (stage.clone(), DocumentReader::new(&reading));
        move |chunk| work(&mut stage, &mut reader, chunk)
    };
    let weigh = |worked: &Result<Worked<S::Out>>| worked.as_ref().map_or(0, Worked::weight);
    let budget = Budget::Bytes(settings.limits.memory_bytes);
    parallel::ordered(
        settings.limits.threads,
        budget,
        source,
        worker,
        weigh,
        |worked| {
            let mut worked = worked?;
            if S::IDS_ARE_UNIQUE {
                worked.drop_duplicates(&mut seen)?;
            }
            let documents = worked.ids.len().to_u64();
            // Documents with a repeated id have a text, too.
            flaws.report(
                &worked.flaws,
                worked.file.as_ref(),
                worked.sizes.len().to_u64(),
                observer,
            );
            observer.progress(worked.bytes, documents);
            observer.account(&worked.account);
            account.add(&worked.account);
            // A reader blocked on input never sees a sink error such as a closed pipe, so tell it to stop.
            sink(worked.out, worked.ids).inspect_err(|_| stop.store(true, Ordering::Relaxed))
        },
    )?;
    flaws.finish(observer);
    Ok(Summary {
        problems: flaws.problems,
        account,
    })
}

/// A chunk after the stage.
#[derive(Default)]
struct Worked<O> {
    out: O,
    /// The id and place of each document.
    ids: IdsAndPlaces,
    /// The size of each document's text, as far as it is known.
    sizes: Vec<u64>,
    flaws: Vec<SkippedInput>,
    account: Account,
    /// The file of many documents that the chunk is a part of.
    file: Option<Arc<str>>,
    bytes: u64,
}

fn work<S: DocumentStage>(
    stage: &mut S,
    reader: &mut DocumentReader,
    chunk: Chunk,
) -> Result<Worked<S::Out>> {
    let mut worked = Worked {
        bytes: chunk.input_bytes(),
        file: chunk.container().map(|of| of.file.clone()),
        ..Worked::default()
    };
    let mut refused = Vec::new();
    let account = reader.read(chunk, &mut |found| match found {
        Err(flaw) => worked.flaws.push(flaw),
        Ok(item) => refused.extend(worked.add(stage, &item)),
    })?;
    worked.account = account;
    refused
        .iter()
        .for_each(|&bytes| worked.account.drop_document(bytes));
    stage.finish(&mut worked.out);
    Ok(worked)
}

impl<O: StageOutput> Worked<O> {
    /// The approximate memory, in bytes: an id or a message takes about forty on the heap.
    fn weight(&self) -> u64 {
        let parts = self.ids.len() * (size_of::<(Box<str>, Place)>() + 40)
            + self.flaws.len() * (size_of::<SkippedInput>() + 120);
        self.out.weight() + parts as u64
    }

    /// Returns the size of a document that the stage refused.
    fn add<S: DocumentStage<Out = O>>(
        &mut self,
        stage: &mut S,
        item: &InputDocument<'_>,
    ) -> Option<u64> {
        let bytes = item.bytes.unwrap_or(0);
        match stage.take(item, &mut self.out) {
            Ok(()) => {
                self.ids.push((item.id.into(), item.place()));
                self.sizes.push(bytes);
                None
            }
            Err(what) => {
                self.flaws.push(Problem::new(item.place(), what).into());
                Some(bytes)
            }
        }
    }

    /// Of documents with one id the first is kept.
    fn drop_duplicates(&mut self, seen: &mut IdSet) -> Result<()> {
        let mut dropped = Vec::new();
        for (index, (id, place)) in self.ids.iter().enumerate() {
            if !seen.insert(IdSet::hash(id))? {
                dropped.push(index);
                self.account.drop_document(self.sizes[index]);
                let what =
                    format!("a document with the id '{id}' came before; the first one is kept");
                self.flaws.push(Problem::new(place.clone(), what).into());
            }
        }
        if !dropped.is_empty() {
            self.out.drop_documents(&dropped);
            self.flaws.sort_by_key(|flaw| flaw.place().at);
            let mut dropped = dropped.iter().rev();
            dropped
                .by_ref()
                .for_each(|&index| drop(self.ids.remove(index)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{BlotOptions, blot};
    use proptest::prelude::*;

    /// An observer that keeps what it receives.
    #[derive(Default)]
    struct Notes(Vec<String>);

    impl Observer for Notes {
        fn problem(&mut self, problem: &Problem) {
            self.0.push(problem.to_string());
        }

        fn progress(&mut self, _: u64, _: u64) {}
    }

    fn run_with(
        paths: &[std::path::PathBuf],
        threads: usize,
        form: Form,
    ) -> (Vec<u8>, Vec<String>) {
        let corpus = corpus::Options {
            relative: true,
            ..corpus::Options::of_files(paths.to_vec())
        };
        let settings = Settings {
            form,
            limits: Limits::new(threads, 1 << 12),
            corpus,
        };
        let (mut out, mut notes) = (Vec::new(), Notes::default());
        let done = blot(
            &BlotOptions {
                k: Some(3),
                ..BlotOptions::default()
            },
            true,
            &settings,
            &mut out,
            &mut notes,
        );
        notes.0.push(done.map_or_else(
            |error| error.to_string(),
            |summary| summary.account.to_string(),
        ));
        (out, notes.0)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn any_number_of_threads_gives_the_same(
            texts in prop::collection::vec("([a-c]{1,2}[ \n]){0,30}", 0..60), lines in prop::collection::vec((0_u8..40, "[a-z ]{0,20}"), 0..200), binary: bool,
        ) {
            let directory = tempfile::tempdir().unwrap();
            for (number, text) in texts.iter().enumerate() {
                std::fs::write(directory.path().join(format!("{number}.txt")), text).unwrap();
            }
            let lines: Vec<_> = lines.iter().map(|(id, text)| format!("{{\"id\":{id},\"text\":\"{text}\"}}\n")).collect();
            std::fs::write(directory.path().join("a.jsonl"), lines.concat()).unwrap();
            let form = if binary { Form::Binary } else { Form::Ndjson };
            let [one, two, eight] = [1, 2, 8].map(|threads| run_with(&[directory.path().to_owned()], threads, form));
            prop_assert_eq!(&one, &two);
            prop_assert_eq!(&one, &eight);
        }
    }
}
