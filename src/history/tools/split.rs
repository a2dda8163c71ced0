//! Divides a history by cardinality.

use super::{
    HistoryCopy,
    backup::open_read_only,
    new_history::NewHistory,
    ordered_entries::{EntryRow, count_of, live_rows, sources_of},
};
use crate::{
    base::{
        error::{Error, Place, Result},
        files::atomic_dir,
        num::ToUsize,
    },
    history::{
        backend::CardinalityRange, search::searchable::EntrySource,
        store::manifest::HistoryManifest,
    },
};
use std::path::Path;

/// How to divide a history.
#[derive(Debug, Clone)]
pub enum HistoryParts {
    /// Into the entries of these cardinalities.
    Ranges(Vec<CardinalityRange>),
    /// Into this number of parts with about as many entries each, which together have all.
    Number(usize),
}

/// Writes parts of a history to new directories in a new directory, each named after the
/// cardinalities that it keeps. What is added to the history meanwhile is in no part.
///
/// Memory: 32 bytes an entry.
pub fn split(directory: &Path, target: &Path, parts: &HistoryParts) -> Result<Vec<HistoryCopy>> {
    let history = open_read_only(directory)?;
    let sources = sources_of(&history);
    let rows = live_rows(&sources, &history.live_now(), 0)?;
    let mut cardinalities = Vec::with_capacity(rows.len());
    for row in &rows {
        let print = sources[row.source.to_usize()].print(row.entry)?;
        cardinalities.push(print.cardinality());
    }
    let ranges = match parts {
        HistoryParts::Ranges(ranges) => ranges.clone(),
        HistoryParts::Number(number) => {
            even_ranges(history.cardinalities(), &cardinalities, *number)
        }
    };
    ensure_disjoint(directory, history.cardinalities(), &ranges)?;
    atomic_dir::create(target, |beside| {
        let part = |range: &CardinalityRange| {
            let kept: Vec<EntryRow> = rows
                .iter()
                .zip(&cardinalities)
                .filter(|&(_, &cardinality)| range.contains(cardinality))
                .map(|(row, _)| *row)
                .collect();
            let manifest = HistoryManifest {
                buckets: (*range != CardinalityRange::ALL).then(|| range.to_string()),
                ..part_manifest(&history.manifest)
            };
            write_part(
                &beside.join(name_of(*range)),
                manifest,
                history.next_sequence,
                &sources,
                &kept,
            )?;
            Ok(HistoryCopy {
                directory: target.join(name_of(*range)),
                entries: count_of(&kept),
            })
        };
        ranges.iter().map(part).collect()
    })
}

/// The manifest of a part: the same history, without the files.
pub(super) fn part_manifest(whole: &HistoryManifest) -> HistoryManifest {
    HistoryManifest {
        identity: whole.identity.clone(),
        log: whole.log.clone(),
        forgotten: whole.forgotten,
        ..HistoryManifest::new(whole.scheme.clone())
    }
}

fn write_part(
    directory: &Path,
    manifest: HistoryManifest,
    next_sequence: u64,
    sources: &[&dyn EntrySource],
    rows: &[EntryRow],
) -> Result<()> {
    std::fs::create_dir(directory).map_err(|error| Error::io(directory.display(), error))?;
    let part = NewHistory {
        manifest,
        next_sequence,
        sources,
        rows,
        renumbers: false,
    };
    part.write(directory)
}

/// `000-126`
fn name_of(range: CardinalityRange) -> String {
    format!("{:03}-{:03}", range.first, range.last)
}

/// Ranges that together are `all`, cut where about as many entries are on either side.
fn even_ranges(
    all: CardinalityRange,
    cardinalities: &[u32],
    parts: usize,
) -> Vec<CardinalityRange> {
    let mut sorted = cardinalities.to_vec();
    sorted.sort_unstable();
    let mut ranges = Vec::new();
    let mut first = all.first;
    for part in 1..parts {
        let cut = sorted.get(sorted.len() * part / parts).copied();
        // The last cardinality of this part; each part has one at least.
        let last = cut.unwrap_or(first).saturating_sub(1).max(first);
        if last < all.last {
            ranges.extend(CardinalityRange::new(first, last));
            first = last + 1;
        }
    }
    ranges.extend(CardinalityRange::new(first, all.last));
    ranges
}

fn ensure_disjoint(
    directory: &Path,
    all: CardinalityRange,
    ranges: &[CardinalityRange],
) -> Result<()> {
    let refused = |what: String| Err(Error::damaged(Place::path(directory), what));
    for (at, range) in ranges.iter().enumerate() {
        let wider = range.first < all.first || range.last > all.last;
        if wider {
            return refused(format!("keeps cardinalities {all}, which {range} exceeds"));
        }
        let other = ranges[..at]
            .iter()
            .find(|other| other.overlaps(&(range.first..=range.last)));
        if let Some(other) = other {
            return refused(format!(
                "cannot be cut into {other} and {range}, which overlap"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_even_and_complete() {
        let ranges = |cardinalities: &[u32], parts: usize| -> Vec<String> {
            even_ranges(CardinalityRange::ALL, cardinalities, parts)
                .iter()
                .map(CardinalityRange::to_string)
                .collect()
        };
        let spread: Vec<u32> = (100..160).collect();
        assert_eq!(ranges(&spread, 3), ["0..119", "120..139", "140..256"]);
        assert_eq!(ranges(&[], 2), ["0..0", "1..256"]);
        assert_eq!(ranges(&[130; 50], 1), ["0..256"]);
        assert_eq!(ranges(&[130; 50], 3), ["0..129", "130..130", "131..256"]);
        assert_eq!(ranges(&[256; 5], 4), ["0..255", "256..256"]);
    }
}
