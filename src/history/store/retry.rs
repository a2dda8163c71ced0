//! What is done when files cannot be made: what they were to be made of stays as it is, and it is tried again.
//!
//! As long as the journal can be written nothing is lost, and answers are right. Only what is in memory must not grow for ever.

use super::{
    background::{BackgroundWorker, CommitResult, JobInputs, SegmentJob, SegmentJobResult},
    history::History,
    segment::Segment,
};

use crate::base::error::{Error, Place, Problem, Result};
use std::{
    collections::HashSet,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

/// When what failed is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// What can fail.
#[derive(Debug, Clone, Copy)]
pub enum JobKind {
    First,
    Merge,
    CommitJob,
}

/// What failed, and is tried again.
#[derive(Default)]
pub struct RetryQueue {
    /// Of each kind, when; none if all is well.
    retry: [Option<Instant>; 3],
    /// What is in memory and was to be made into files, the oldest first.
    failed: Vec<JobInputs>,
    /// What the next commit has to remove.
    obsolete: Vec<PathBuf>,
    notes: Vec<Problem>,
}

impl RetryQueue {
    pub fn take_obsolete(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.obsolete)
    }

    fn may_try(&self, kind: JobKind) -> bool {
        self.retry[kind as usize].is_none_or(|due| due <= Instant::now())
    }

    /// Notes a failure; the first is told.
    fn fail(&mut self, kind: JobKind, error: &Error) {
        if self.retry[kind as usize]
            .replace(Instant::now() + RETRY)
            .is_none()
        {
            let (place, what) = match error {
                Error::Io { file, cause } => (file.as_str(), cause.to_string()),
                other => ("history", other.to_string()),
            };
            self.notes.push(Problem::new(
                Place::file(place),
                format!("{what}; nothing is lost, and it is tried again"),
            ));
        }
    }
}

/// What a job was done with, what it made, and which removed entries are in no file any more.
type BuiltSegment = (JobInputs, Option<Segment>, Vec<u64>);

impl History {
    /// What went wrong meanwhile and is no reason to end.
    pub fn notes(&mut self) -> Vec<Problem> {
        self.writing
            .as_mut()
            .map(|writing| std::mem::take(&mut writing.upkeep.notes))
            .unwrap_or_default()
    }

    pub(in crate::history) fn may_try(&self, kind: JobKind) -> bool {
        self.writing
            .as_ref()
            .is_some_and(|writing| writing.upkeep.may_try(kind))
    }

    /// Notes that an entry is removed.
    pub(in crate::history) fn note_removed(&mut self, sequence: u64) {
        if self.removed.contains(&sequence) {
            return;
        }
        Arc::make_mut(&mut self.removed).insert(sequence);
        let at = self
            .segments
            .partition_point(|held| held.segment.description.sequences[1] < sequence);
        if let Some(held) = self
            .segments
            .get_mut(at)
            .filter(|held| held.segment.description.sequences[0] <= sequence)
        {
            held.removed += 1;
        }
    }

    /// Lets go of removals that journals tell of, and whose entries are in no file any more: all before `first` that is in none.
    pub(in crate::history) fn drop_stray_removals(&mut self, first: u64) {
        let segments = &self.segments;
        let is_in_file = |sequence: u64| {
            let at =
                segments.partition_point(|held| held.segment.description.sequences[1] < sequence);
            segments
                .get(at)
                .is_some_and(|held| held.segment.description.sequences[0] <= sequence)
        };
        if self
            .removed
            .iter()
            .any(|&sequence| sequence < first && !is_in_file(sequence))
        {
            Arc::make_mut(&mut self.removed)
                .retain(|&sequence| sequence >= first || is_in_file(sequence));
        }
    }

    /// Tries what failed once more, if it is time or must be now.
    pub(in crate::history) fn try_again(&mut self, now: bool) {
        let Some(writing) = &mut self.writing else {
            return;
        };
        let is_due = |kind| now || writing.upkeep.may_try(kind);
        let (first, commit) = (
            is_due(JobKind::First) && writing.small.pending == 0,
            is_due(JobKind::CommitJob) && writing.commits.pending == 0,
        );
        let failed = if first {
            std::mem::take(&mut writing.upkeep.failed)
        } else {
            Vec::new()
        };
        let must_commit = commit && !writing.upkeep.obsolete.is_empty();
        for inputs in failed {
            let (dropped, path) = (self.dropped(), self.next_path());
            if let Some(writing) = &mut self.writing {
                writing.small.submit(SegmentJob {
                    inputs,
                    journal: None,
                    level: 0,
                    path,
                    dropped,
                });
            }
        }
        if must_commit {
            self.commit(Vec::new(), None);
        }
    }

    /// What was made; none if that failed, and is tried again later. At the end, and if too much waits in memory already, it is an error.
    pub(in crate::history) fn ensure_made(
        &mut self,
        done: SegmentJobResult,
        is_last: bool,
        is_behind: bool,
    ) -> Result<Option<BuiltSegment>> {
        let SegmentJobResult {
            inputs,
            dropped,
            synced,
            made,
        } = done;
        // What a journal promised must be so.
        synced?;
        let upkeep = &mut self.writing()?.upkeep;
        let (kind, is_next) = match &inputs {
            JobInputs::Memtable(..) => (JobKind::First, upkeep.failed.is_empty()),
            JobInputs::Segments(_) => (JobKind::Merge, true),
        };
        match made {
            // Files are made in their order: with one that is missing the journals before it would go.
            Ok(made) if is_next => {
                upkeep.retry[kind as usize] = None;
                return Ok(Some((inputs, made, dropped)));
            }
            Ok(made) => drop(made.map(|segment| std::fs::remove_file(segment.path()))),
            Err(error) => {
                let is_again = upkeep.retry[kind as usize].is_some();
                let must_be = match kind {
                    JobKind::First => is_again && (is_last || is_behind),
                    _ => is_last,
                };
                if must_be {
                    return Err(error);
                }
                upkeep.fail(kind, &error);
            }
        }
        match inputs {
            JobInputs::Memtable(..) => upkeep.failed.push(inputs),
            JobInputs::Segments(inputs) => {
                let is_input = |held: &&mut super::history::SegmentState| {
                    inputs.iter().any(|input| Arc::ptr_eq(input, &held.segment))
                };
                self.segments
                    .iter_mut()
                    .filter(is_input)
                    .for_each(|held| held.is_busy = false);
            }
        }
        Ok(None)
    }

    /// Notes what became of a commit. If it failed, the one before it holds: its files are all there.
    pub(in crate::history) fn note_commit(
        &mut self,
        committed: CommitResult,
        is_last: bool,
    ) -> Result<()> {
        let CommitResult { done, obsolete } = committed;
        let upkeep = &mut self.writing()?.upkeep;
        upkeep.obsolete.extend(obsolete);
        match done {
            Ok(()) => upkeep.retry[JobKind::CommitJob as usize] = None,
            Err(error) if is_last => return Err(error),
            Err(error) => upkeep.fail(JobKind::CommitJob, &error),
        }
        Ok(())
    }

    /// Ends what threads have under way: what they make is swept by the next writer, who makes it again. Commits are waited for.
    pub(in crate::history) fn give_up(&mut self) -> Result<()> {
        let Some(writing) = &mut self.writing else {
            return Ok(());
        };
        writing.small.stop();
        writing.merges.iter().for_each(BackgroundWorker::stop);
        while let Some(committed) = writing.commits.take(true)? {
            committed.done?;
        }
        Ok(())
    }
}

/// How many of these are from the first to the last.
pub fn count_within(removed: &HashSet<u64>, [first, last]: [u64; 2]) -> u32 {
    let is_within = |sequence: &&u64| (first..=last).contains(*sequence);
    // Whichever are fewer are looked at.
    let count = if last - first < removed.len() as u64 {
        (first..=last)
            .filter(|sequence| removed.contains(sequence))
            .count()
    } else {
        removed.iter().filter(is_within).count()
    };
    u32::try_from(count).unwrap_or(u32::MAX)
}
