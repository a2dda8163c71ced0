//! A history of this process.

use super::{Answering, Buckets, Found, Hello, Removed, Reply, Tell};
use crate::{
    error::Result,
    format::Print,
    history::{Answer, History, Options, Request, Wanted},
    scheme::PrintScheme,
};
use std::path::Path;

/// A history, and which prints are added to it.
pub struct Kept {
    history: History,
    buckets: Buckets,
    wanted: Wanted,
    tell: Tell,
}

impl Kept {
    /// Opens a history or makes one, and tells what of it was lost to a crash.
    pub fn open(directory: &Path, options: Options, buckets: Buckets, wanted: Wanted, tell: Tell) -> Result<Self> {
        let (history, notes) = History::open(directory, options)?;
        notes.iter().for_each(|note| tell(note));
        Ok(Self { history, buckets, wanted, tell })
    }

    fn tell_notes(&mut self) {
        self.history.notes().iter().for_each(|note| (self.tell)(note));
    }

    fn keeps(&self, print: Option<Print>) -> bool {
        print.is_none_or(|print| self.buckets.contains(print.cardinality()))
    }
}

impl Answering for Kept {
    fn scheme(&self) -> &PrintScheme {
        self.history.scheme()
    }

    fn hello(&self) -> Hello {
        Hello {
            scheme: self.history.scheme().to_string(),
            buckets: self.buckets,
            entries: self.history.entries(),
            min_similarity: self.wanted.least.to_f64(),
            top: self.wanted.top,
        }
    }

    fn ask(&mut self, requests: &[Request<'_>]) -> Result<Vec<Reply>> {
        let kept: Vec<_> = requests.iter().map(|request| Request { add: request.add && self.keeps(request.print), ..*request }).collect();
        let answers = self.history.ask(&kept, &self.wanted)?;
        self.tell_notes();
        let reply = |(answer, (asked, kept)): (Answer, (&Request<'_>, &Request<'_>))| {
            let found = answer.matches.into_iter().map(|found| Found { similarity: found.likeness.similarity(), id: found.id });
            Reply { matches: found.collect(), is_left_out: asked.add && !kept.add, missing: Vec::new() }
        };
        Ok(answers.into_iter().zip(requests.iter().zip(&kept)).map(reply).collect())
    }

    fn remove(&mut self, id: &str) -> Result<Removed> {
        let count = self.history.remove(id)?;
        self.tell_notes();
        Ok(Removed { count, missing: Vec::new() })
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.history.close()?.iter().for_each(|note| (self.tell)(note));
        Ok(())
    }
}
