//! Joins histories: the parts of one, or independent ones.

use super::{
    HistoryCopy,
    backup::open_read_only,
    new_history::NewHistory,
    ordered_entries::{EntryRow, count_of, live_rows, sources_of},
    split::part_manifest,
};
use crate::{
    base::{
        error::{Error, Place, Result},
        files::atomic_dir,
        num::{ToU32, ToUsize},
    },
    history::{
        History, backend::CardinalityRange, search::searchable::EntrySource,
        store::manifest::HistoryManifest,
    },
};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};
use xxhash_rust::xxh3::xxh3_64;

/// Writes the entries of several histories to a new one. Parts of one history keep the order in
/// which its entries arrived. Other histories are joined by time, and at the same time in the order
/// of their directories; a document that two of them have, with the same id and the same print, is
/// stored once, as if it had come twice.
///
/// Memory: 16 bytes an entry, 64 with independent histories.
pub fn merge(target: &Path, directories: &[PathBuf]) -> Result<HistoryCopy> {
    let opened: Result<Vec<History>> = directories
        .iter()
        .map(|directory| open_read_only(directory))
        .collect();
    let opened = opened?;
    let Some(first) = opened.first() else {
        return Err(Error::Usage("no history to join".to_owned()));
    };
    ensure_same_scheme(first, &opened)?;
    let are_parts = opened
        .iter()
        .all(|other| other.identity() == first.identity());
    if are_parts {
        ensure_disjoint(&opened)?;
    }
    let (mut sources, mut rows) = (Vec::new(), Vec::new());
    for history in &opened {
        let (own, first_source) = (sources_of(history), sources.len().to_u32());
        rows.extend(live_rows(&own, &history.live_now(), first_source)?);
        sources.extend(own);
    }
    if are_parts {
        rows.sort_unstable();
    } else {
        order_by_time(&sources, &mut rows)?;
        drop_repeated(&sources, &mut rows)?;
    }
    let history = NewHistory {
        manifest: joined_manifest(&opened, are_parts),
        next_sequence: if are_parts {
            opened
                .iter()
                .map(|history| history.next_sequence)
                .max()
                .unwrap_or_default()
        } else {
            count_of(&rows)
        },
        sources: &sources,
        rows: &rows,
        renumbers: !are_parts,
    };
    atomic_dir::create(target, |beside| history.write(beside))?;
    Ok(HistoryCopy {
        directory: target.to_owned(),
        entries: count_of(&rows),
    })
}

/// The manifest of parts joined: that of the part that has followed the log least far, as entries of
/// the log may be applied again, but not left out.
fn joined_manifest(parts: &[History], are_parts: bool) -> HistoryManifest {
    let position = |history: &&History| history.log_cursor().map(|cursor| cursor.position);
    let Some(least) = parts.iter().min_by_key(position) else {
        return HistoryManifest::new(String::new());
    };
    if !are_parts {
        return HistoryManifest::new(least.scheme().to_string());
    }
    let ranges = || parts.iter().map(History::cardinalities);
    let (first, last) = (
        ranges().map(|range| range.first).min().unwrap_or_default(),
        ranges().map(|range| range.last).max().unwrap_or_default(),
    );
    let kept: u32 = ranges().map(|range| range.last - range.first + 1).sum();
    // With a gap, it keeps all: what is missing can be added.
    let whole = CardinalityRange::new(first, last)
        .filter(|range| kept == last - first + 1 && *range != CardinalityRange::ALL);
    HistoryManifest {
        buckets: whole.map(|range| range.to_string()),
        ..part_manifest(&least.manifest)
    }
}

fn ensure_same_scheme(first: &History, all: &[History]) -> Result<()> {
    match all.iter().find(|other| other.scheme() != first.scheme()) {
        None => Ok(()),
        Some(other) => Err(Error::Scheme {
            place: Place::path(&other.directory),
            found: other.scheme().to_string(),
            expected: first.scheme().to_string(),
            remedy: "prints of two schemes cannot be compared; join histories of one scheme",
        }),
    }
}

/// Refuses two copies of the same history, parts that overlap, and parts at different places of a log.
fn ensure_disjoint(parts: &[History]) -> Result<()> {
    let position = |history: &History| history.log_cursor().map(|cursor| cursor.position);
    for (at, part) in parts.iter().enumerate() {
        let range = part.cardinalities();
        let refused = |what: String| Err(Error::damaged(Place::path(&part.directory), what));
        for other in &parts[..at] {
            if other.cardinalities().overlaps(&(range.first..=range.last)) {
                return refused(format!(
                    "keeps cardinalities {range} of the same history as {}, which keeps {}; join parts that do not overlap",
                    other.directory.display(),
                    other.cardinalities()
                ));
            }
            if position(part) != position(other) {
                return refused(format!(
                    "has followed the log to entry {}, and {} to {}; let both catch up",
                    position(part).unwrap_or_default(),
                    other.directory.display(),
                    position(other).unwrap_or_default()
                ));
            }
        }
    }
    Ok(())
}

/// Sorts by time; rows of one history come by sequence number, and stay in that order.
fn order_by_time(sources: &[&dyn EntrySource], rows: &mut [EntryRow]) -> Result<()> {
    for row in rows.iter_mut() {
        row.order = u64::from(sources[row.source.to_usize()].time(row.entry)?);
    }
    rows.sort_by_key(|row| row.order);
    Ok(())
}

/// Drops entries with the id and the print of an earlier one.
fn drop_repeated(sources: &[&dyn EntrySource], rows: &mut Vec<EntryRow>) -> Result<()> {
    let of = |row: &EntryRow| {
        let source = sources[row.source.to_usize()];
        Ok::<_, Error>((source.id(row.entry)?, source.print(row.entry)?))
    };
    let mut seen: HashMap<u64, Vec<usize>> = HashMap::with_capacity(rows.len());
    let mut kept: Vec<EntryRow> = Vec::with_capacity(rows.len());
    for row in rows.iter() {
        let (id, print) = of(row)?;
        let hash = xxh3_64(id.as_bytes()) ^ print.0[0].wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let equal = seen.entry(hash).or_default();
        let mut is_new = true;
        for &at in equal.iter() {
            is_new &= of(&kept[at])? != (id, print);
        }
        if is_new {
            equal.push(kept.len());
            kept.push(*row);
        }
    }
    *rows = kept;
    Ok(())
}
