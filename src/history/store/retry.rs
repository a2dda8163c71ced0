//! Failed background jobs: their inputs stay as they are, and the jobs are tried again.
//!
//! As long as the journal can be written nothing is lost, and answers are right. Only the memtables
//! in memory must not grow without limit.

use super::{
    background::{BackgroundWorker, CommitResult, JobInputs, SegmentJobResult},
    history::{History, SegmentState},
    segment::Segment,
};
use crate::base::{
    error::{Error, Place, Problem, Result},
    num::ToU64,
};
use std::{
    collections::HashSet,
    fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

/// The time until a failed job is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The kinds of jobs that can fail.
#[derive(Debug, Clone, Copy)]
pub enum JobKind {
    /// A memtable is written to a segment.
    Flush,
    /// Segments are merged.
    Merge,
    /// The manifest is replaced.
    Commit,
}

/// The failed jobs, and when they are tried again.
#[derive(Default)]
pub struct RetryQueue {
    /// For each [`JobKind`] when to try again; `None` if the last one succeeded.
    retry_at: [Option<Instant>; 3],
    /// The memtables that could not be written, oldest first.
    failed: Vec<JobInputs>,
    /// The files that the next commit has to delete.
    obsolete: Vec<PathBuf>,
    problems: Vec<Problem>,
}

impl RetryQueue {
    /// Hands over the files that the next commit has to delete.
    pub fn take_obsolete(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.obsolete)
    }

    /// Notes that nothing could be committed, and which files the next commit has to delete.
    pub fn postpone_commit(&mut self, error: &Error, obsolete: Vec<PathBuf>) {
        self.fail(JobKind::Commit, error);
        self.obsolete = obsolete;
    }

    fn retry_at(&mut self, kind: JobKind) -> &mut Option<Instant> {
        &mut self.retry_at[kind as usize]
    }

    fn may_try(&self, kind: JobKind) -> bool {
        self.retry_at[kind as usize].is_none_or(|due| due <= Instant::now())
    }

    /// Notes a failure; the first of a row is reported.
    fn fail(&mut self, kind: JobKind, error: &Error) {
        let due = Instant::now() + RETRY_AFTER;
        if self.retry_at(kind).replace(due).is_none() {
            let (place, what) = match error {
                Error::Io { file, cause } => (file.as_str(), cause.to_string()),
                other => ("history", other.to_string()),
            };
            self.problems.push(Problem::new(
                Place::file(place),
                format!("{what}; nothing is lost, and it is tried again"),
            ));
        }
    }
}

/// A segment that is ready to replace its inputs.
pub struct BuiltSegment {
    pub inputs: JobInputs,
    /// `None` if no entry was left.
    pub segment: Option<Segment>,
    /// The removed entries that no file contains any more.
    pub dropped: Vec<u64>,
}

impl History {
    /// The problems since the last call that did not stop the history.
    pub fn take_problems(&mut self) -> Vec<Problem> {
        self.writer
            .as_mut()
            .map(|writer| std::mem::take(&mut writer.retries.problems))
            .unwrap_or_default()
    }

    pub(in crate::history) fn may_try(&self, kind: JobKind) -> bool {
        self.writer
            .as_ref()
            .is_some_and(|writer| writer.retries.may_try(kind))
    }

    /// Notes that an entry is removed.
    pub(in crate::history) fn note_removed(&mut self, sequence: u64) {
        if self.removed.contains(&sequence) {
            return;
        }
        Arc::make_mut(&mut self.removed).insert(sequence);
        if let Some(at) = find_segment(&self.segments, sequence) {
            self.segments[at].removed += 1;
        }
    }

    /// Forgets removals of entries before `first` that no segment contains any more: journals may
    /// still mention them.
    pub(in crate::history) fn forget_stale_removals(&mut self, first: u64) {
        let segments = &self.segments;
        let is_stale =
            |sequence: u64| sequence < first && find_segment(segments, sequence).is_none();
        if self.removed.iter().any(|&sequence| is_stale(sequence)) {
            Arc::make_mut(&mut self.removed).retain(|&sequence| !is_stale(sequence));
        }
    }

    /// Tries failed jobs again if it is time, or now.
    pub(in crate::history) fn retry_failed(&mut self, now: bool) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        let is_due = |kind| now || writer.retries.may_try(kind);
        let can_flush = is_due(JobKind::Flush) && writer.flush_worker.pending == 0;
        let can_commit = is_due(JobKind::Commit) && writer.commit_worker.pending == 0;
        let must_commit = can_commit && !writer.retries.obsolete.is_empty();
        let failed = if can_flush {
            std::mem::take(&mut writer.retries.failed)
        } else {
            Vec::new()
        };
        for inputs in failed {
            self.submit_flush(inputs, None);
        }
        if must_commit {
            self.commit(Vec::new(), None);
        }
    }

    /// The new segment of a job; `None` if it failed and is tried again later. When closing, and
    /// when too many memtables wait already, a failure is an error.
    pub(in crate::history) fn check_result(
        &mut self,
        result: SegmentJobResult,
        is_last: bool,
        is_behind: bool,
    ) -> Result<Option<BuiltSegment>> {
        let SegmentJobResult {
            inputs,
            dropped,
            synced,
            segment,
        } = result;
        // A failed sync breaks the promise of the sync policy.
        synced?;
        let retries = &mut self.writer()?.retries;
        let (kind, is_next) = match &inputs {
            JobInputs::Memtable(..) => (JobKind::Flush, retries.failed.is_empty()),
            JobInputs::Segments(_) => (JobKind::Merge, true),
        };
        match segment {
            // Memtables are committed in order: a later one would delete the journals of this one.
            Ok(segment) if is_next => {
                *retries.retry_at(kind) = None;
                return Ok(Some(BuiltSegment {
                    inputs,
                    segment,
                    dropped,
                }));
            }
            Ok(segment) => drop(segment.map(|segment| fs::remove_file(segment.path()))),
            Err(error) => {
                let failed_before = retries.retry_at(kind).is_some();
                let is_fatal = match kind {
                    JobKind::Flush => failed_before && (is_last || is_behind),
                    JobKind::Merge | JobKind::Commit => is_last,
                };
                if is_fatal {
                    return Err(error);
                }
                retries.fail(kind, &error);
            }
        }
        self.restore_inputs(inputs)?;
        Ok(None)
    }

    /// Keeps the inputs of a failed job for the next attempt.
    fn restore_inputs(&mut self, inputs: JobInputs) -> Result<()> {
        match inputs {
            JobInputs::Memtable(..) => self.writer()?.retries.failed.push(inputs),
            JobInputs::Segments(inputs) => self
                .segments
                .iter_mut()
                .filter(|state| state.is_one_of(&inputs))
                .for_each(|state| state.is_merging = false),
        }
        Ok(())
    }

    /// Notes the result of a commit. If it failed, the previous manifest is valid: its files are
    /// all there.
    pub(in crate::history) fn note_commit(
        &mut self,
        result: CommitResult,
        is_last: bool,
    ) -> Result<()> {
        let retries = &mut self.writer()?.retries;
        retries.obsolete.extend(result.obsolete);
        match result.done {
            Ok(()) => *retries.retry_at(JobKind::Commit) = None,
            Err(error) if is_last => return Err(error),
            Err(error) => retries.fail(JobKind::Commit, &error),
        }
        Ok(())
    }

    /// Abandons running jobs; the next writer deletes their files and repeats them. Waits for
    /// commits.
    pub(in crate::history) fn abandon_jobs(&mut self) -> Result<()> {
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        writer.flush_worker.stop();
        writer.merge_workers.iter().for_each(BackgroundWorker::stop);
        while let Some(committed) = writer.commit_worker.take(true)? {
            committed.done?;
        }
        Ok(())
    }
}

/// The segment whose range contains a sequence number.
fn find_segment(segments: &[SegmentState], sequence: u64) -> Option<usize> {
    let at = segments.partition_point(|state| state.segment.last_sequence() < sequence);
    let state = segments.get(at)?;
    state.segment.may_contain(sequence).then_some(at)
}

/// The number of removed entries from the first to the last sequence number.
pub fn count_within(removed: &HashSet<u64>, [first, last]: [u64; 2]) -> u32 {
    // Loops over the smaller of the two.
    let count = if last - first < removed.len().to_u64() {
        (first..=last)
            .filter(|sequence| removed.contains(sequence))
            .count()
    } else {
        let is_within = |sequence: &&u64| (first..=last).contains(*sequence);
        removed.iter().filter(is_within).count()
    };
    u32::try_from(count).unwrap_or(u32::MAX)
}
