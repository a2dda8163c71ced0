//! A history in this process.

use super::{
    CardinalityRange, HelloReply, HistoryBackend, MatchReply, ProblemReporter, RemovalReply,
    ReplyMatch,
};
use crate::{
    base::error::Result,
    history::{Answer, History, MatchLimits, Request, StoreOptions},
    text::{scheme::PrintScheme, stream::Print},
};
use std::path::Path;

/// A history, and the cardinalities of the prints that are added to it.
pub struct LocalHistory {
    history: History,
    buckets: CardinalityRange,
    limits: MatchLimits,
    tell: ProblemReporter,
}

impl LocalHistory {
    /// Opens or creates a history, and reports what was lost in a crash.
    pub fn open(
        directory: &Path,
        options: StoreOptions,
        limits: MatchLimits,
        tell: ProblemReporter,
    ) -> Result<Self> {
        let (history, notes) = History::open(directory, options)?;
        notes.iter().for_each(|note| tell(note));
        Ok(Self {
            buckets: history.cardinalities(),
            history,
            limits,
            tell,
        })
    }

    fn report_problems(&mut self) {
        self.history
            .take_problems()
            .iter()
            .for_each(|note| (self.tell)(note));
    }

    fn keeps(&self, print: Option<Print>) -> bool {
        print.is_none_or(|print| self.buckets.contains(print.cardinality()))
    }

    /// The same requests, adding only prints in the range of cardinalities.
    fn kept<'r>(&self, requests: &[Request<'r>]) -> Vec<Request<'r>> {
        requests
            .iter()
            .map(|request| Request {
                add: request.add && self.keeps(request.print),
                ..*request
            })
            .collect()
    }
}

fn replies(
    answers: Vec<Answer>,
    requests: &[Request<'_>],
    kept: &[Request<'_>],
) -> Vec<MatchReply> {
    let reply = |(answer, (asked, kept)): (Answer, (&Request<'_>, &Request<'_>))| {
        let found = answer.matches.into_iter().map(|found| ReplyMatch {
            similarity: found.similarity.to_f64(),
            id: found.id,
        });
        MatchReply {
            matches: found.collect(),
            is_left_out: asked.add && !kept.add,
            missing: Vec::new(),
        }
    };
    answers
        .into_iter()
        .zip(requests.iter().zip(kept))
        .map(reply)
        .collect()
}

impl HistoryBackend for LocalHistory {
    fn scheme(&self) -> &PrintScheme {
        self.history.scheme()
    }

    fn hello(&self) -> HelloReply {
        HelloReply {
            scheme: self.history.scheme().to_string(),
            buckets: self.buckets,
            entries: self.history.searchable_entries().unwrap_or_default(),
            min_similarity: self.limits.min_similarity.to_f64(),
            top: self.limits.top,
            identity: self.history.identity().to_owned(),
            arrived: self.history.next_sequence(),
            log: None,
        }
    }

    fn unsynced_bytes(&self) -> u64 {
        self.history.unsynced_bytes()
    }

    fn ask(&mut self, requests: &[Request<'_>]) -> Result<Vec<MatchReply>> {
        let kept = self.kept(requests);
        let answers = self.history.ask(&kept, &self.limits)?;
        self.report_problems();
        Ok(replies(answers, requests, &kept))
    }

    fn ask_and_deliver(
        &mut self,
        requests: &[Request<'_>],
        deliver: &mut dyn FnMut(&[MatchReply]) -> Result<()>,
    ) -> Result<()> {
        let (kept, mut done) = (self.kept(requests), 0);
        self.history
            .ask_and_deliver(&kept, &self.limits, &mut |answers| {
                let some = done..done + answers.len();
                done = some.end;
                deliver(&replies(answers, &requests[some.clone()], &kept[some]))
            })?;
        self.report_problems();
        Ok(())
    }

    fn remove(&mut self, id: &str) -> Result<RemovalReply> {
        let count = self.history.remove(id)?;
        self.report_problems();
        Ok(RemovalReply {
            count,
            missing: Vec::new(),
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.history
            .close()?
            .iter()
            .for_each(|note| (self.tell)(note));
        Ok(())
    }
}
