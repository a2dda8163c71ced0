//! Searches that something else answers, such as a server: documents go out, answers come back.

use super::search::{EncodedAnswers, QueryOutcome};
use crate::{
    base::{
        error::{Error, Problem, Result},
        files,
    },
    commands::{DocumentStage, Observer, Settings, run},
    text::corpus::{Content, InputDocument, Source},
};
use std::{
    io::Write,
    sync::atomic::{AtomicU64, Ordering},
};

/// Answers for documents, from any thread.
pub trait DocumentAsker: Send + Sync {
    /// The answer for a document.
    fn ask(&self, id: &str, text: &str) -> Result<AskedMatches>;
}

/// What was found for a document.
#[derive(Debug, Clone, Default)]
pub struct AskedMatches {
    /// As it is written.
    pub bytes: Vec<u8>,
    /// The number of matches.
    pub matches: u64,
    /// The number of documents whose text could not be read.
    pub unread: u64,
}

/// Writes the answers for all documents, in their order, after `head`.
pub fn query_elsewhere(
    asker: &dyn DocumentAsker,
    head: &[u8],
    settings: &Settings,
    out: &mut impl Write,
    observer: &mut dyn Observer,
) -> Result<QueryOutcome> {
    let source = Source::new(settings.corpus.clone(), settings.limits.threads)?;
    let unread = AtomicU64::new(0);
    let stage = AskingStage {
        asker,
        unread: &unread,
    };
    out.write_all(head).map_err(Error::output)?;
    let mut asked = QueryOutcome::default();
    let summary = run(&stage, source, settings, observer, |answers, _| {
        asked.matches += answers.matches;
        files::ensure_whole()?;
        out.write_all(&answers.bytes).map_err(Error::output)?;
        out.flush().map_err(Error::output)
    })?;
    asked.problems = summary.ensure_documents(settings)?.problems;
    let unread = unread.into_inner();
    if unread > 0 {
        asked.problems += unread;
        let what = format!("the texts of {unread} documents could not be read there");
        observer.problem(&Problem::new(
            crate::base::error::Place::file("server"),
            what,
        ));
    }
    Ok(asked)
}

#[derive(Clone)]
struct AskingStage<'a> {
    asker: &'a dyn DocumentAsker,
    unread: &'a AtomicU64,
}

impl DocumentStage for AskingStage<'_> {
    type Out = EncodedAnswers;
    const IDS_ARE_UNIQUE: bool = false;

    fn take(&mut self, item: &InputDocument<'_>, out: &mut EncodedAnswers) -> Result<(), String> {
        let Content::Text(text) = item.content else {
            return Err("a server is asked about texts; these are tokens or blots".to_owned());
        };
        let answer = self.asker.ask(item.id, text);
        let answer = answer.map_err(|error| error.to_string())?;
        out.documents += 1;
        out.matches += answer.matches;
        out.bytes.extend_from_slice(&answer.bytes);
        self.unread.fetch_add(answer.unread, Ordering::Relaxed);
        Ok(())
    }

    fn finish(&mut self, _: &mut EncodedAnswers) {}
}
