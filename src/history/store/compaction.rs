//! Compaction: which segments are merged, when, and how the result replaces them.

use super::{
    background::{CommitJob, JobInputs, SegmentJob, SegmentJobResult},
    history::{History, SegmentState},
    manifest::{SegmentFile, journal_path},
    memtable::MAX_MEMTABLE_ENTRIES,
    retry::{BuiltSegment, JobKind, count_within},
    segment::Segment,
};
use crate::{
    base::{error::Result, num::ToU32},
    index::FileSeal,
};
use std::{
    ops::Range,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
};

/// Segments of a level that are merged into one. With fewer, there are fewer files to search, but
/// each entry is written more often.
const MERGE_FAN_IN: usize = 3;
/// From this level on a merge takes long, so it has a worker of its own.
const LARGE_LEVEL: u32 = 3;
/// Memtables that may wait to be flushed; one more, and adding waits.
const MAX_FLUSHING: usize = 3;
/// Segments that may wait to be merged; with more of them, adding waits.
const MAX_SEGMENTS: usize = 40;

/// The level of a segment with this number of entries.
pub(in crate::history) fn level_of(entries: u32) -> u32 {
    let fan_in = MERGE_FAN_IN.to_u32();
    (entries / MAX_MEMTABLE_ENTRIES)
        .checked_ilog(fan_in)
        .unwrap_or(0)
}

impl History {
    /// Starts all merges of neighbouring segments of one level.
    pub(in crate::history) fn start_merges(&mut self) {
        while let Some(run) = next_merge(&self.segments).filter(|_| self.may_try(JobKind::Merge)) {
            let level = self.segments[run.start].segment.level + 1;
            self.rewrite(run, level);
        }
    }

    /// Starts to rewrite segments into one.
    fn rewrite(&mut self, run: Range<usize>, level: u32) {
        let states = &mut self.segments[run];
        states.iter_mut().for_each(|state| state.is_merging = true);
        let inputs = states.iter().map(|state| state.segment.clone()).collect();
        let drop_filter = self.drop_filter();
        let path = self.next_segment_path();
        if let Some(writer) = &mut self.writer {
            writer.merge_workers[usize::from(level >= LARGE_LEVEL)].submit(SegmentJob {
                inputs: JobInputs::Segments(inputs),
                journal: None,
                level,
                path,
                drop_filter,
            });
        }
    }

    /// Installs the results of finished background jobs; with `wait_for_all`, waits until there is
    /// nothing left to do.
    pub(in crate::history) fn collect_finished_jobs(&mut self, wait_for_all: bool) -> Result<()> {
        loop {
            let is_behind = self.flushing.len() > MAX_FLUSHING;
            self.retry_failed(wait_for_all || is_behind);
            let Some(done) = self.next_finished_job(wait_for_all, is_behind)? else {
                break;
            };
            self.install(done, wait_for_all, is_behind)?;
            self.drop_dead_entries();
            self.start_merges();
        }
        while let Some(writer) = &mut self.writer
            && let Some(committed) = writer.commit_worker.take(wait_for_all)?
        {
            self.note_commit(committed, wait_for_all)?;
        }
        Ok(())
    }

    /// A finished job; waits for one if too much work is waiting.
    fn next_finished_job(
        &mut self,
        wait_for_all: bool,
        is_behind: bool,
    ) -> Result<Option<SegmentJobResult>> {
        let segments = self.segments.len();
        let Some(writer) = &mut self.writer else {
            return Ok(None);
        };
        let is_urgent = wait_for_all || self.flushing.len() > 1 || segments > MAX_SEGMENTS / 2;
        writer.is_urgent.store(is_urgent, Ordering::Relaxed);
        let mut done = writer.flush_worker.take(wait_for_all || is_behind)?;
        for worker in &mut writer.merge_workers {
            if done.is_none() {
                done = worker.take(wait_for_all || segments > MAX_SEGMENTS)?;
            }
        }
        Ok(done)
    }

    /// Replaces the inputs of a job by its segment, and commits.
    fn install(&mut self, done: SegmentJobResult, is_last: bool, is_behind: bool) -> Result<()> {
        let Some(built) = self.check_result(done, is_last, is_behind)? else {
            return Ok(());
        };
        let BuiltSegment {
            inputs,
            segment,
            dropped,
        } = built;
        if !dropped.is_empty() {
            let removed = Arc::make_mut(&mut self.removed);
            for sequence in &dropped {
                removed.remove(sequence);
            }
        }
        let state = segment.map(|segment| SegmentState {
            removed: count_within(&self.removed, segment.description.sequences),
            segment: Arc::new(segment),
            is_merging: false,
        });
        let obsolete = self.replace_inputs(&inputs, state);
        self.commit(obsolete, Some(inputs));
        Ok(())
    }

    /// Puts a segment in the place of the job's inputs, and returns the paths of their files.
    fn replace_inputs(&mut self, inputs: &JobInputs, new: Option<SegmentState>) -> Vec<PathBuf> {
        match inputs {
            // Memtables are flushed in order, so their segment is the newest one.
            JobInputs::Memtable(memtable, journal_number) => {
                self.flushing.retain(|other| !Arc::ptr_eq(other, memtable));
                self.segments.extend(new);
                let first = self.manifest.journal;
                self.manifest.journal = journal_number + 1;
                (first..=*journal_number)
                    .map(|number| journal_path(&self.directory, number))
                    .collect()
            }
            JobInputs::Segments(inputs) => {
                let is_input = |state: &SegmentState| state.is_one_of(inputs);
                let at = self.segments.iter().position(is_input).unwrap_or_default();
                self.segments.retain(|state| !is_input(state));
                self.segments.splice(at..at, new);
                inputs.iter().map(|input| input.path()).collect()
            }
        }
    }

    /// Starts a commit of the live segments, after which the obsolete files are deleted.
    pub(in crate::history) fn commit(
        &mut self,
        mut obsolete: Vec<PathBuf>,
        inputs: Option<JobInputs>,
    ) {
        self.manifest.segments = self.segments.iter().map(SegmentState::file).collect();
        if let Some(writer) = &mut self.writer {
            obsolete.append(&mut writer.retries.take_obsolete());
            // The position in the log must cover all that the manifest names.
            let synced = match &self.manifest.log {
                Some(_) => writer.journal.finish(),
                None => Ok(()),
            };
            if let Err(error) = synced {
                return writer.retries.postpone_commit(&error, obsolete);
            }
            writer.commit_worker.submit(CommitJob {
                manifest: self.manifest.clone(),
                removed: self.removed.clone(),
                directory: self.directory.clone(),
                obsolete,
                inputs,
            });
        }
    }

    /// Drops segments without a live entry, and starts to rewrite those with less than half.
    pub(in crate::history) fn drop_dead_entries(&mut self) {
        let live = self.live_now();
        let first_sequence = live.first_sequence;
        let first_time = live.first_time;
        let has_limits = (first_sequence, first_time) != (0, 0);
        if self.writer.is_none() || !has_limits && self.removed.is_empty() {
            return;
        }
        let is_dead = |state: &mut SegmentState| {
            let segment = &state.segment;
            let is_forgotten =
                segment.last_sequence() < first_sequence || segment.last_time() < first_time;
            !state.is_merging && is_forgotten
        };
        let dead: Vec<_> = self.segments.extract_if(.., is_dead).collect();
        let is_mostly_dead = |state: &SegmentState| {
            !state.is_merging
                && (state.is_mostly_removed()
                    || is_mostly_forgotten(&state.segment, first_sequence, first_time))
        };
        while let Some(at) = self
            .segments
            .iter()
            .position(is_mostly_dead)
            .filter(|_| self.may_try(JobKind::Merge))
        {
            self.rewrite(at..at + 1, self.segments[at].segment.level);
        }
        if !dead.is_empty() {
            self.delete_segments(dead);
        }
    }

    /// Commits without these segments, and deletes their files.
    fn delete_segments(&mut self, dead: Vec<SegmentState>) {
        let is_dead =
            |sequence: u64| (dead.iter()).any(|state| state.segment.may_contain(sequence));
        Arc::make_mut(&mut self.removed).retain(|&sequence| !is_dead(sequence));
        let obsolete = dead.iter().map(|state| state.segment.path()).collect();
        let segments = dead.into_iter().map(|state| state.segment).collect();
        self.commit(obsolete, Some(JobInputs::Segments(segments)));
    }
}

impl SegmentState {
    /// Whether it is one of the inputs of a job.
    pub(in crate::history) fn is_one_of(&self, inputs: &[Arc<Segment>]) -> bool {
        inputs.iter().any(|input| Arc::ptr_eq(input, &self.segment))
    }

    /// Its entry in the manifest.
    pub(in crate::history) fn file(&self) -> SegmentFile {
        let Segment { file, level, .. } = &*self.segment;
        let name = file.name().rsplit('/').next().unwrap_or_default();
        SegmentFile {
            level: *level,
            file: FileSeal {
                name: name.to_owned(),
                bytes: file.file_bytes(),
                seal: file.seal(),
            },
        }
    }
}

/// Whether more than half of a segment is forgotten, estimated from its first and last entry.
fn is_mostly_forgotten(segment: &Segment, first_sequence: u64, first_time: u32) -> bool {
    let half = |[first, last]: [u64; 2]| first + (last - first).div_ceil(2);
    let times = segment.description.times.map(u64::from);
    first_sequence > half(segment.description.sequences) || u64::from(first_time) > half(times)
}

/// The next neighbouring segments of one level to merge.
fn next_merge(segments: &[SegmentState]) -> Option<Range<usize>> {
    let level = |state: &SegmentState| (!state.is_merging).then_some(state.segment.level);
    let mut start = 0;
    for (at, state) in segments.iter().enumerate() {
        if level(state).is_none() {
            start = at + 1;
            continue;
        }
        if level(state) != level(&segments[start]) {
            start = at;
        }
        if at + 1 - start == MERGE_FAN_IN {
            return Some(start..at + 1);
        }
    }
    None
}
