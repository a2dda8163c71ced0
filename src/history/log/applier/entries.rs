//! The entries of the log, and what they do.

use super::{Applier, busy};
use crate::{
    base::error::{Error, Place, Problem, Result},
    history::{
        Request,
        log::{
            LogEvent,
            message::{LogMessage, LogOperation},
            own_message::{Outcome, OwnedRequest, is_own},
            replicated::{Event, Job},
        },
        store::log_cursor::LogMark,
    },
};
use std::time::Instant;

/// Entries that are applied before the journal is synced, while no client waits for an answer.
const UNSYNCED_ENTRIES: u32 = 64;
/// Entries that can be compared with those of other servers.
const MARKS: usize = 4096;

impl Applier {
    /// Takes events until one changed something, or the time is over. Returns whether publishing
    /// failed.
    pub(super) fn receive(&mut self, until: Instant) -> bool {
        let wait = until.saturating_duration_since(Instant::now());
        match self.events.recv_timeout(wait) {
            Ok(Event::Log(event)) => {
                let failed = matches!(&event, LogEvent::Published { id, result: Err(_) }
                    if self.own.as_ref().is_some_and(|own| own.number == *id));
                self.take(event);
                failed
            }
            // Another thread may ask for this meanwhile.
            Ok(Event::Job(Job::Hello(reply))) => {
                let _ = reply.send(self.hello());
                false
            }
            Ok(Event::Job(Job::Ask(_, reply))) => {
                let _ = reply.send(Err(busy()));
                false
            }
            Ok(Event::Job(Job::Remove(_, reply))) => {
                let _ = reply.send(Err(busy()));
                false
            }
            Ok(Event::Job(Job::Close(reply))) => {
                let _ = reply.send(Err(busy()));
                false
            }
            Err(_) => false,
        }
    }

    pub(super) fn take(&mut self, event: LogEvent) {
        let taken = match event {
            LogEvent::Entry { position, bytes } => self.apply(position, &bytes),
            LogEvent::Published { id, result } => {
                if let Some(own) = self.own.as_mut().filter(|own| own.number == id) {
                    own.is_acknowledged |= result.is_ok();
                }
                Ok(())
            }
            LogEvent::Extent { number, result } => self.note_extent(number, result),
        };
        if let Err(error) = taken {
            (self.tell)(&Problem::new(
                Place::file(self.options.name.as_str()),
                error.to_string(),
            ));
            self.fail(&error);
        }
    }

    fn apply(&mut self, position: u64, bytes: &[u8]) -> Result<()> {
        if self.failed.is_some() {
            return Ok(());
        }
        if position > self.position + 1 {
            let what = format!(
                "entry {} is followed by {position}; restore a backup of another server",
                self.position
            );
            return Err(self.refused(&what));
        }
        let message = LogMessage::parse(bytes)
            .map_err(|what| self.refused(&format!("entry {position}: {what}")))?;
        let mark = message.mark(position);
        if position < self.position {
            return self.ensure_is_same(&mark);
        }
        if position == self.position {
            return self.ensure_is_last(&message);
        }
        if self.differs(&message.after) {
            // Either this server or that one has applied what the log does not have.
            self.log.read(message.after.position);
        }
        let is_own = is_own(self.own.as_ref(), self.publisher, &message);
        let cursor = self.history.log_cursor();
        if !cursor.is_some_and(|cursor| cursor.has_seen(&mark)) {
            let outcome = self.execute(&message, is_own)?;
            if let Some(own) = self.own.as_mut().filter(|_| is_own) {
                own.outcome = Some(outcome);
            }
        }
        self.unsynced += 1;
        let sync = is_own || self.unsynced >= UNSYNCED_ENTRIES;
        self.history.end_log_entry(mark, sync)?;
        if sync {
            self.unsynced = 0;
        }
        self.position = position;
        if self.marks.len() == MARKS {
            self.marks.pop_front();
        }
        self.marks.push_back(mark);
        self.note_progress();
        Ok(())
    }

    /// Whether this server has applied another entry at the same position.
    fn differs(&self, mark: &LogMark) -> bool {
        let applied = self.marks.iter().rev();
        let own = applied
            .take_while(|own| own.position >= mark.position)
            .last();
        own.is_some_and(|own| own.position == mark.position && own != mark)
    }

    /// Refuses a log that now has another entry at a position than the one that was applied: a
    /// node can deliver an entry that the others never get, if it dies at that moment.
    fn ensure_is_same(&self, mark: &LogMark) -> Result<()> {
        if self.differs(mark) {
            return Err(self.is_another(mark.position));
        }
        Ok(())
    }

    fn is_another(&self, position: u64) -> Error {
        self.refused(&format!(
            "entry {position} is another one than this history has applied: the log has lost that one; if other servers go on, start with a \
             backup of one of them or with an empty directory, and if none does, begin a new log, as the manual says"
        ))
    }

    /// Refuses a log in which another entry is where the last applied one was.
    fn ensure_is_last(&mut self, message: &LogMessage) -> Result<()> {
        let mark = message.mark(self.position);
        let cursor = self.history.log_cursor();
        if cursor.is_some_and(|cursor| cursor.has_seen(&mark)) {
            self.is_checked = true;
            self.note_progress();
            return Ok(());
        }
        Err(self.is_another(self.position))
    }

    /// Does what a message says; the requests of our own are answered at its place.
    fn execute(&mut self, message: &LogMessage, is_own: bool) -> Result<Outcome> {
        let time = message.time.max(self.history.last_time());
        self.history.forget(message.forgotten)?;
        if let Some(own) = self
            .own
            .as_ref()
            .filter(|own| is_own && !own.requests.is_empty())
        {
            let requests: Vec<_> = own.requests.iter().map(OwnedRequest::request).collect();
            let answers = self.history.ask_at(time, &requests, &self.limits)?;
            return Ok(Outcome::Answers(answers));
        }
        let mut removed = 0;
        let is_addition = |operation: &LogOperation| matches!(operation, LogOperation::Add { .. });
        for run in message
            .operations
            .chunk_by(|one, two| is_addition(one) && is_addition(two))
        {
            match run {
                [LogOperation::Remove { id }] => {
                    removed += self.history.remove(id)?;
                    continue;
                }
                [
                    LogOperation::Begin {
                        history,
                        next_sequence,
                    },
                ] => {
                    self.ensure_continues(history, *next_sequence)?;
                    continue;
                }
                _ => {}
            }
            let requests: Vec<Request<'_>> = run
                .iter()
                .filter_map(|operation| self.addition(operation))
                .collect();
            // Nothing is asked: only documents that are stored already are looked for.
            self.history.add_at(time, &requests)?;
        }
        Ok(Outcome::Removed(removed))
    }

    /// Refuses the log of a history whose first entries this one does not have.
    fn ensure_continues(&self, history: &str, next_sequence: u64) -> Result<()> {
        if self.history.identity() == history && self.history.next_sequence() >= next_sequence {
            return Ok(());
        }
        Err(self.refused(&format!(
            "the log continues a history of {next_sequence} entries, which this one does not have; restore a backup of another server"
        )))
    }

    fn addition<'o>(&self, operation: &'o LogOperation) -> Option<Request<'o>> {
        match operation {
            LogOperation::Add { id, print } if self.buckets.contains(print.cardinality()) => {
                Some(Request {
                    id,
                    print: Some(*print),
                    add: true,
                })
            }
            _ => None,
        }
    }

    pub(super) fn sync(&mut self) -> Result<()> {
        if self.unsynced > 0 && self.failed.is_none() {
            self.history.sync()?;
            self.unsynced = 0;
        }
        Ok(())
    }
}
