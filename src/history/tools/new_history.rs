//! Writes a history of given entries to a new directory.

use super::ordered_entries::{EntryRow, OrderedEntries};
use crate::{
    base::{
        error::Result,
        num::{ToU32, ToU64},
    },
    history::{
        search::searchable::EntrySource,
        store::{
            compaction::level_of,
            history::SegmentState,
            journal::{JournalDirectory, SyncPolicy},
            manifest::{HistoryManifest, segment_path},
            segment_writer::write_segment,
            synced_lengths::SyncedLengths,
        },
    },
};
use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

/// The entries of a segment: a writer merges no larger ones soon.
const SEGMENT_ENTRIES: usize = 1 << 25;

/// A history to write.
pub struct NewHistory<'n> {
    /// Its manifest, without segments.
    pub manifest: HistoryManifest,
    /// The sequence number of the next entry.
    pub next_sequence: u64,
    /// All sources that rows refer to.
    pub sources: &'n [&'n dyn EntrySource],
    /// The entries, in order of arrival.
    pub rows: &'n [EntryRow],
    /// Whether entries get new sequence numbers, from 0 on.
    pub renumbers: bool,
}

impl NewHistory<'_> {
    /// Writes all files; the caller syncs the directory.
    ///
    /// Memory: as for writing a segment of 33 million entries, 16 bytes an entry.
    pub fn write(mut self, directory: &Path) -> Result<()> {
        let stop = AtomicBool::new(false);
        for (rows, at) in self.rows.chunks(SEGMENT_ENTRIES).zip(0_u64..) {
            let entries = OrderedEntries {
                sources: self.sources,
                rows,
                renumber_from: self.renumbers.then_some(at * SEGMENT_ENTRIES.to_u64()),
            };
            let (number, level) = (self.manifest.next_segment, level_of(rows.len().to_u32()));
            let path = segment_path(directory, number);
            let segment = write_segment(&[&entries], &|_, _| true, level, &path, &stop)?;
            let written = segment.map(|segment| SegmentState {
                segment: Arc::new(segment),
                is_merging: false,
                removed: 0,
            });
            self.manifest
                .segments
                .extend(written.map(|held| held.file()));
            self.manifest.next_segment += 1;
        }
        SyncedLengths::create(directory)?;
        let journals = JournalDirectory {
            directory: directory.to_owned(),
            sync: SyncPolicy::Never,
            synced_lengths: Arc::new(SyncedLengths::open(directory, self.manifest.journal)?),
        };
        drop(journals.create(self.manifest.journal, self.next_sequence)?);
        self.manifest.commit(directory)
    }
}
