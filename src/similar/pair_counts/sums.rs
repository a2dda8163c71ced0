//! Adds up the pair counts of all ranges.

use super::count_file::{CountFile, ExpectedCounts};
use crate::{
    base::{
        error::{Error, Result},
        files::{Mapping, TempDir, TempFile},
        ids::{ContentNo, SetNo},
        num::{ToU32, ToU64, ToUsize},
    },
    index::{
        View,
        posting::{BUCKETS, Buckets, SetDictionary, Sets},
    },
    similar::scores::{DocumentSize, Measure, Overlap},
};
use std::{ops::Range, path::PathBuf};

/// The long sets of all ranges, each once.
fn long_sets(files: &[CountFile]) -> Result<Sets> {
    let mut sets = SetDictionary::default();
    files
        .iter()
        .try_for_each(|file| file.for_each_long_set(|contents, uses| sets.add(contents, uses)))?;
    Ok(Sets::join(vec![sets]).0)
}

/// The number of blots that each content has in some sets.
pub fn blots_in_sets(sets: &Sets, contents: usize) -> Vec<u32> {
    let mut blots = vec![0_u32; contents];
    for (set, &uses) in SetNo::first(sets.len()).zip(sets.uses()) {
        let uses = u32::try_from(uses).unwrap_or(u32::MAX);
        for &content in sets.get(set) {
            let blots = &mut blots[content.to_usize()];
            *blots = blots.saturating_add(uses);
        }
    }
    blots
}

/// The neighbours of all contents by short sets, on disk, and the long sets.
///
/// Memory: 8 bytes per content, and 4 per member of a long set.
pub struct PairCounts {
    neighbours: Option<Mapping>,
    /// Where the neighbours of each content end.
    ends: Vec<u64>,
    /// For each content: the number of its blots that are ignored; empty if none are.
    pub ignored_blots: Vec<u32>,
    /// The long sets.
    pub long_sets: Sets,
}

impl PairCounts {
    /// Adds up the counts of all ranges, and keeps the pairs that can reach the threshold, as far as
    /// they are of `wanted` contents.
    ///
    /// Memory: about half of `memory_bytes`, and some 16 bytes per content.
    pub fn read(
        view: &View<'_>,
        index: &str,
        files: &[PathBuf],
        wanted: &dyn Fn(ContentNo) -> bool,
        measure: &Measure,
        max_df: u64,
        memory_bytes: u64,
    ) -> Result<Self> {
        let contents = view.contents().len();
        let expected = ExpectedCounts {
            index,
            since: None,
            contents,
            max_df,
        };
        let files = open_all(files, &expected)?;
        let ignored_blots = ignored_blots(view, &files, max_df)?;
        let long_sets = long_sets(&files)?;
        let filter = ReachablePairs {
            view,
            wanted,
            measure,
            ignored_blots: &ignored_blots,
            long_blots: blots_in_sets(&long_sets, contents),
        };
        let buckets = filter.collect(&files, memory_bytes / 2)?;
        let (file, ends) = write_neighbours(&buckets, contents)?;
        let neighbours = (file.bytes() > 0).then(|| file.map()).transpose()?;
        Ok(Self {
            neighbours,
            ends,
            ignored_blots,
            long_sets,
        })
    }

    /// Calls `each` with every possible neighbour of a content, in ascending order, and the number of
    /// blots of short sets that they share.
    pub(in crate::similar) fn for_each(
        &self,
        content: ContentNo,
        each: &mut dyn FnMut(ContentNo, u32),
    ) {
        let content = content.index();
        let start = if content == 0 {
            0
        } else {
            self.ends[content - 1]
        };
        let bytes = self
            .neighbours
            .as_deref()
            .and_then(|bytes| bytes.get(start.to_usize()..self.ends[content].to_usize()));
        for record in bytes.unwrap_or_default().as_chunks::<4>().0.chunks_exact(2) {
            let [other, shared] = [record[0], record[1]].map(u32::from_le_bytes);
            each(ContentNo::new(other), shared);
        }
    }
}

/// Selects the pairs that can reach the threshold.
struct ReachablePairs<'a> {
    view: &'a View<'a>,
    wanted: &'a dyn Fn(ContentNo) -> bool,
    measure: &'a Measure,
    ignored_blots: &'a [u32],
    /// For each content: the number of its blots in long sets.
    long_blots: Vec<u32>,
}

/// Pairs in both directions: the contents as one number, and the number of shared blots.
type PairBuckets = Buckets<2>;

impl ReachablePairs<'_> {
    fn size(&self, content: ContentNo) -> DocumentSize {
        let content = content.index();
        let ignored = self.ignored_blots.get(content).copied().unwrap_or_default();
        let blots = self.view.contents()[content].blots;
        DocumentSize {
            blots: blots.saturating_sub(ignored),
        }
    }

    fn can_reach(&self, one: ContentNo, other: ContentNo, shared: u32) -> bool {
        let long_blots = self.long_blots[one.index()];
        let most = Overlap::of_blots(shared.saturating_add(long_blots));
        self.measure
            .can_reach(self.size(one), self.size(other), most)
    }

    /// Adds up the counts of all files; buckets are ranges of contents.
    fn collect(&self, files: &[CountFile], memory_bytes: u64) -> Result<PairBuckets> {
        let contents = self.view.contents().len();
        let mut buckets = PairBuckets::new(BUCKETS, memory_bytes, TempDir(None));
        let bucket_of = |content: ContentNo| content.index() * BUCKETS / contents.max(1);
        add_up(files, |content, partner, shared| {
            for [one, other] in [[content, partner], [partner, content]] {
                if (self.wanted)(one) && self.can_reach(one, other, shared) {
                    let pair = u64::from(one.get()) << 32 | u64::from(other.get());
                    buckets.push(bucket_of(one), [pair, shared.into()]);
                }
            }
            buckets.settle()
        })?;
        Ok(buckets)
    }
}

/// Writes the neighbours of each content and their counts to a file; returns where those of each
/// content end.
fn write_neighbours(buckets: &PairBuckets, contents: usize) -> Result<(TempFile, Vec<u64>)> {
    let mut file = TempFile::new(&TempDir(None))?;
    let mut ends = vec![0; contents];
    for bucket in 0..BUCKETS {
        let mut records = buckets.take(bucket)?;
        records.sort_unstable();
        let bytes: Vec<u8> = records
            .iter()
            .flat_map(|&[pair, shared]| [low_half(pair), shared.to_u32()])
            .flat_map(u32::to_le_bytes)
            .collect();
        file.append(&bytes)?;
        for [pair, _] in records {
            ends[(pair >> 32).to_usize()] += 8;
        }
    }
    let mut sum = 0;
    for end in &mut ends {
        sum += *end;
        *end = sum;
    }
    Ok((file, ends))
}

/// The lower 32 bits.
fn low_half(value: u64) -> u32 {
    (value & u64::from(u32::MAX)).to_u32()
}

/// The blots that recomputed contents share, by the counts of all ranges.
pub struct RecomputedPairs {
    files: Vec<CountFile>,
    /// The long sets that have a recomputed content.
    pub long_sets: Sets,
}

impl RecomputedPairs {
    /// Opens the counts of contents that were recomputed since a commit.
    pub fn open(view: &View<'_>, index: &str, since: u64, files: &[PathBuf]) -> Result<Self> {
        let expected = ExpectedCounts {
            index,
            since: Some(since),
            contents: view.contents().len(),
            max_df: u64::MAX,
        };
        let files = open_all(files, &expected)?;
        let long_sets = long_sets(&files)?;
        Ok(Self { files, long_sets })
    }

    /// Calls `each` with every pair, and the number of blots that it shares in short sets.
    pub fn for_each(&self, each: &mut dyn FnMut(ContentNo, ContentNo, u32)) -> Result<()> {
        add_up(&self.files, |one, two, shared| {
            each(one, two, shared);
            Ok(())
        })
    }
}

/// Opens the counts of all ranges, in the order of the ranges.
fn open_all(files: &[PathBuf], expected: &ExpectedCounts<'_>) -> Result<Vec<CountFile>> {
    let mut files = files
        .iter()
        .map(|path| CountFile::open(path, expected))
        .collect::<Result<Vec<_>>>()?;
    files.sort_by_key(|file| file.description.buckets);
    ensure_all_ranges(&files)?;
    Ok(files)
}

fn ensure_all_ranges(files: &[CountFile]) -> Result<()> {
    let mut next = 0;
    for CountFile { file, description } in files {
        let Range { start: first, end } = description.buckets.range();
        if first != next {
            return Err(file.damaged(
                0,
                format!("counts from {first:02x} on; those from {next:02x} on are expected"),
            ));
        }
        next = end;
    }
    if next == BUCKETS {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "the counts of blots that begin with {next:02x} to ff are missing"
    )))
}

/// For each content: the number of its blots that are ignored, as too many documents have them;
/// empty if there is no limit.
fn ignored_blots(view: &View<'_>, files: &[CountFile], max_df: u64) -> Result<Vec<u32>> {
    if max_df == u64::MAX {
        return Ok(Vec::new());
    }
    let mut sides = vec![[0_u32; 2]; view.contents().len()];
    for CountFile { file, description } in files {
        let [start, length] = description.sides;
        let words = file.bytes(start, length)?.as_chunks::<4>().0;
        for (side, more) in sides.as_flattened_mut().iter_mut().zip(words) {
            *side = side.saturating_add(u32::from_le_bytes(*more));
        }
    }
    let ignored = |(content, [shared, ignored]): (ContentNo, [u32; 2])| {
        let has_many_copies = view.documents_of(content).len().to_u64() > max_df;
        let blots = view.contents()[content.index()].blots;
        let own = if has_many_copies {
            blots.saturating_sub(shared)
        } else {
            0
        };
        ignored.saturating_add(own)
    };
    Ok(ContentNo::first(sides.len())
        .zip(sides)
        .map(ignored)
        .collect())
}

/// Calls `each` with every pair in ascending order, and the number of blots that it shares in all
/// ranges together.
fn add_up(
    files: &[CountFile],
    mut each: impl FnMut(ContentNo, ContentNo, u32) -> Result<()>,
) -> Result<()> {
    let mut rows = files
        .iter()
        .map(CountFile::rows)
        .collect::<Result<Vec<_>>>()?;
    let mut partners: Vec<(ContentNo, u32)> = Vec::new();
    while let Some(content) = rows.iter().filter_map(|rows| rows.content).min() {
        partners.clear();
        for rows in rows.iter_mut().filter(|rows| rows.content == Some(content)) {
            partners.extend_from_slice(&rows.partners);
            rows.advance()?;
        }
        partners.sort_unstable();
        for same in partners.chunk_by(|one, two| one.0 == two.0) {
            let sum = |sum: u32, (_, shared): &(ContentNo, u32)| sum.saturating_add(*shared);
            each(content, same[0].0, same.iter().fold(0, sum))?;
        }
    }
    Ok(())
}
