//! How far a history has followed a replicated log, and what the log has forgotten.
//!
//! All servers of a log apply its entries in order, so all must be in the same state after each of
//! them. The position is therefore kept with the entries: a group of the journal ends with a record
//! of it, and a commit of the manifest syncs the journal first, so that nothing is in the files
//! that the position does not cover.

use super::{
    history::{History, SegmentState},
    journal_format::JournalRecord,
};
use crate::{
    base::error::Result,
    history::{Answer, MatchLimits, Ratio, Request},
};
use serde::{Deserialize, Serialize};

/// The publishers whose last message is remembered, to recognize one that comes twice.
const PUBLISHERS: usize = 64;

/// An applied entry of a log: its position, and which message of which publisher it was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogMark {
    /// The number of the entry in the log, from 1.
    pub position: u64,
    /// A random number of the process that published it.
    pub publisher: u64,
    /// Counts the messages of a publisher, from 1.
    pub number: u64,
}

/// The log that a history follows, and how far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogCursor {
    /// The identity of the log.
    pub log: String,
    /// The last entry that was applied; 0 if none was.
    pub position: u64,
    /// For each publisher its last message, and the position of that.
    pub publishers: Vec<[u64; 3]>,
}

impl LogCursor {
    /// Whether a message was applied already: a publisher that got no answer publishes it again.
    pub fn has_seen(&self, mark: &LogMark) -> bool {
        self.publishers
            .iter()
            .any(|&[publisher, number, _]| publisher == mark.publisher && mark.number <= number)
    }

    /// Notes an entry. All servers forget the same publishers.
    pub fn note(&mut self, mark: &LogMark) {
        self.position = mark.position;
        let seen = self.has_seen(mark);
        if seen {
            return;
        }
        self.publishers
            .retain(|&[publisher, ..]| publisher != mark.publisher);
        if self.publishers.len() == PUBLISHERS {
            self.publishers.remove(0);
        }
        // In order of their positions.
        self.publishers
            .push([mark.publisher, mark.number, mark.position]);
    }
}

/// Entries that are forgotten, by sequence number and by time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgotten {
    /// Entries with lower sequence numbers are forgotten.
    pub first_sequence: u64,
    /// Older entries are forgotten.
    pub first_time: u32,
}

impl Forgotten {
    /// What both forget.
    pub fn and(self, other: Self) -> Self {
        Self {
            first_sequence: self.first_sequence.max(other.first_sequence),
            first_time: self.first_time.max(other.first_time),
        }
    }
}

impl History {
    /// The log that it follows, if any.
    pub fn log_cursor(&self) -> Option<&LogCursor> {
        self.manifest.log.as_ref()
    }

    /// What the log has forgotten.
    pub fn forgotten(&self) -> Forgotten {
        self.manifest.forgotten.unwrap_or_default()
    }

    /// The time of the newest entry.
    pub fn last_time(&self) -> u32 {
        self.last_time
    }

    /// The sequence number of the next entry.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// From now on the history follows a log, of which it has applied nothing yet; on disk when
    /// this returns.
    pub fn follow_log(&mut self, log: String) -> Result<()> {
        if self.manifest.log.is_some() {
            // The journals have positions in the log that it followed.
            self.rotate_journal()?;
        }
        self.collect_finished_jobs(true)?;
        self.manifest.log = Some(LogCursor {
            log,
            ..LogCursor::default()
        });
        self.commit_now()
    }

    /// Commits the live segments, on this thread. No background job is running.
    pub(in crate::history) fn commit_now(&mut self) -> Result<()> {
        self.manifest.segments = self.segments.iter().map(SegmentState::file).collect();
        let mut manifest = self.manifest.clone();
        manifest.removed = self.removed.iter().copied().collect();
        manifest.removed.sort_unstable();
        manifest.commit(&self.directory)
    }

    /// As [`Self::ask`], at a time that the log says. Nothing is synced: see [`Self::end_log_entry`].
    pub fn ask_at(
        &mut self,
        time: u32,
        requests: &[Request<'_>],
        limits: &MatchLimits,
    ) -> Result<Vec<Answer>> {
        self.log_time = Some(time);
        self.ask(requests, limits)
    }

    /// Adds documents that are not stored yet, without looking for similar ones; not yet synced.
    pub fn add_at(&mut self, time: u32, requests: &[Request<'_>]) -> Result<()> {
        // A stored document is found by its print.
        let equal = MatchLimits {
            min_similarity: Ratio::ALL,
            top: 1,
        };
        self.ask_at(time, requests, &equal).map(drop)
    }

    /// Forgets entries; not yet synced.
    pub fn forget(&mut self, forgotten: Forgotten) -> Result<()> {
        if self.forgotten().and(forgotten) == self.forgotten() {
            return Ok(());
        }
        let records = [JournalRecord::Forget(forgotten)];
        self.writer()?.journal.append(&records)?;
        self.apply(&records);
        Ok(())
    }

    /// Notes that an entry of the log was applied; with `sync`, returns when all that is on disk.
    ///
    /// If the process dies before, the entry is applied again: its documents are stored already, or
    /// are removed already, so that the state is the same.
    pub fn end_log_entry(&mut self, mark: LogMark, sync: bool) -> Result<()> {
        let records = [JournalRecord::Log(mark)];
        self.writer()?.journal.append(&records)?;
        self.apply(&records);
        if sync { self.sync() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_come_twice_are_recognized() {
        let mut cursor = LogCursor::default();
        let mark = |position, publisher, number| LogMark {
            position,
            publisher,
            number,
        };
        for publisher in 0..70 {
            cursor.note(&mark(publisher + 1, publisher, 5));
        }
        assert_eq!(cursor.publishers.len(), PUBLISHERS);
        assert!(cursor.has_seen(&mark(71, 69, 5)) && cursor.has_seen(&mark(71, 6, 4)));
        assert!(!cursor.has_seen(&mark(71, 69, 6)) && !cursor.has_seen(&mark(71, 5, 5)));
        // A repeated one moves the position only.
        cursor.note(&mark(71, 69, 3));
        assert_eq!((cursor.position, cursor.publishers[63]), (71, [69, 5, 70]));
    }
}
