//! What the log has, whether that fits the history, and whether it is within reach.

use super::{Applier, PROBE};
use crate::{
    base::{
        error::{Error, Place, Problem, Result},
        setting::Setting,
    },
    history::{
        log::{
            LogExtent,
            replicated::{LogStatus, WhenLost},
        },
        store::log_cursor::LogCursor,
    },
};
use std::{sync::PoisonError, time::Instant};

/// Questions for the extent whose answers may still come.
const QUESTIONS: usize = 256;

impl Applier {
    pub(super) fn is_out_of_reach(&self) -> bool {
        self.trouble.is_some() && self.options.when_lost == WhenLost::Say
    }

    pub(super) fn lose(&mut self, why: &str) {
        if self.trouble.is_none() || !self.is_following {
            let place = Place::file(self.options.name.as_str());
            let what = match self.options.when_lost {
                WhenLost::Say => {
                    "answers name it as missing, and nothing is added, until it is back"
                }
                WhenLost::Wait => "requests wait until it is back",
            };
            (self.tell)(&Problem::new(place, format!("{why}; {what}")));
        }
        self.trouble = Some(format!("the log is out of reach: {why}"));
        self.answered = None;
        self.leader = None;
    }

    pub(super) fn ask_extent(&mut self) -> u64 {
        self.asked += 1;
        self.positions_asked.push_back((self.asked, self.position));
        if self.positions_asked.len() > QUESTIONS {
            self.positions_asked.pop_front();
        }
        self.asked_at = Some(Instant::now());
        self.log.ask_extent(self.asked);
        self.asked
    }

    /// Asks for the extent, but not all the time.
    pub(super) fn probe(&mut self) {
        if self.asked_at.is_none_or(|at| at.elapsed() >= PROBE) {
            self.ask_extent();
        }
    }

    pub(super) fn note_extent(
        &mut self,
        number: u64,
        result: Result<LogExtent, String>,
    ) -> Result<()> {
        let Ok(extent) = result else {
            // It counts as lost when the patience of a request is over, or as nothing is heard.
            if self.trouble.is_none() && self.own.is_none() {
                self.lose("it does not answer");
            }
            return Ok(());
        };
        // An answer may be late: entries that were applied after the question do not count.
        let asked = self.positions_asked.iter().find(|(of, _)| *of == number);
        let applied = asked.map_or(0, |&(_, position)| position);
        self.ensure_fits(&extent, applied)?;
        if !self.is_following && self.short_since.is_none() {
            self.is_following = true;
            self.is_checked = self.position == 0 || extent.first > self.position;
            // The last one once more, to see that it is the same.
            self.log.follow(self.position.saturating_sub(1));
        }
        if self
            .answered
            .as_ref()
            .is_none_or(|(last, _)| *last < number)
        {
            self.answered = Some((number, extent));
        }
        self.note_progress();
        Ok(())
    }

    /// Notes whether all entries were applied that the log had when it last answered.
    pub(super) fn note_progress(&mut self) {
        let Some((_, extent)) = &self.answered else {
            return;
        };
        let is_same = self.is_checked && self.short_since.is_none();
        if self.position >= extent.last && is_same {
            if self.trouble.take().is_some() && self.position > 0 {
                (self.tell)(&Problem::new(
                    Place::file(self.options.name.as_str()),
                    format!("caught up with entry {}", self.position),
                ));
            }
        } else if self.trouble.is_some() {
            self.trouble = Some(format!(
                "has applied {} of {} entries of the log",
                self.position, extent.last
            ));
        }
    }

    /// Refuses a log that is not that of this history, or lacks entries: it must end after those
    /// that were applied when it was asked.
    fn ensure_fits(&mut self, extent: &LogExtent, applied: u64) -> Result<()> {
        let is_empty = extent.last == 0 || extent.first > extent.last;
        let follows = |cursor: &&LogCursor| !self.may_follow_another(cursor, extent);
        let Some(cursor) = self.history.log_cursor().filter(follows) else {
            let has_entries = self.history.next_sequence() > 0;
            if has_entries && !(self.options.begins && extent.last == 0) {
                return Err(self.refused(&if extent.last == 0 {
                    format!(
                        "the history has entries, and the log has none; to begin the log with them, start this server once with {}, and \
                         give the other servers a backup of it",
                        Setting::LogBegin
                    )
                } else {
                    "the history has entries of its own, and has never followed this log; start with an empty directory, or with a backup of \
                     another server"
                        .to_owned()
                }));
            }
            if extent.first > 1 && !is_empty || extent.last > 0 && is_empty {
                return Err(self.refused(&format!(
                    "it no longer has the entries before {}; restore a backup of another server",
                    extent.first
                )));
            }
            self.begins = has_entries;
            self.position = 0;
            return self.history.follow_log(extent.identity.clone());
        };
        if cursor.log != extent.identity {
            let what = format!(
                "it is {}, and the history follows {}; give the address of that one, or restore a backup",
                extent.identity, cursor.log
            );
            return Err(self.refused(&what));
        }
        if extent.first > self.position + 1 {
            return Err(self.refused(&format!(
                "it no longer has the entries from {} to {}; restore a newer backup of another server",
                self.position + 1,
                extent.first - 1
            )));
        }
        if extent.last >= applied {
            self.short_since = None;
            return Ok(());
        }
        let since = *self.short_since.get_or_insert_with(Instant::now);
        if since.elapsed() < self.options.cut_after {
            self.trouble = Some(format!(
                "the log seems to end with entry {}, and {applied} was applied",
                extent.last
            ));
            return Ok(());
        }
        Err(self.refused(&format!(
            "it ends with entry {}, but this history has applied {}: the log has lost entries; begin a new one with the server that has \
             applied most (history stats shows it), as the manual says",
            extent.last, applied
        )))
    }

    /// Whether a history that has a log may follow this one, from its beginning: it has nothing yet,
    /// or shall begin an empty log.
    fn may_follow_another(&self, cursor: &LogCursor, extent: &LogExtent) -> bool {
        let has_nothing = cursor.position == 0 && self.history.next_sequence() == 0;
        cursor.log != extent.identity && (has_nothing || self.options.begins && extent.last == 0)
    }

    pub(super) fn refused(&self, what: &str) -> Error {
        Error::damaged(Place::file(self.options.name.as_str()), what)
    }

    pub(super) fn not_ready(&self) -> Option<String> {
        match &self.failed {
            Some(what) => Some(what.clone()),
            None => self.trouble.clone(),
        }
    }

    /// The last entry of the log, as far as it is known.
    pub(super) fn last_known(&self) -> u64 {
        self.answered
            .as_ref()
            .map_or(0, |(_, extent)| extent.last.max(self.position))
    }

    pub(super) fn publish_status(&self) {
        let status = LogStatus {
            position: self.position,
            last: self.last_known(),
            not_ready: self.not_ready(),
        };
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}
