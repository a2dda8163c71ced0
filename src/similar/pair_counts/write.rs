//! Counts the blots that pairs of contents share in a range of the blot space.

use super::{CountDescription, KIND};
use crate::{
    base::{
        codec::put_varint,
        error::{Error, Result},
        files::SealedWriter,
        ids::{ContentNo, SetNo},
        num::{ToU32, ToU64, ToUsize},
        parallel::Limits,
    },
    index::{
        View,
        posting::{BucketRange, Sets},
    },
    similar::long_sets::LONG_SET_MEMBERS,
};
use std::{
    fs::File,
    io::{self, BufWriter, Write},
    ops::Range,
    path::Path,
};

type CountWriter = SealedWriter<BufWriter<File>>;

/// Each lot reads all sets, so a lot has at least this many sets of contents.
const LEAST_LOT_SETS: u64 = 1 << 16;

/// What to count.
pub struct PairCountOptions<'a> {
    /// The checksum of the manifest.
    pub index: &'a str,
    /// The range, by the top eight bits of its blots.
    pub buckets: Range<usize>,
    /// Blots of more documents are ignored; `u64::MAX` for no limit.
    pub max_df: u64,
    /// A commit and the number of contents that were recomputed since: only their pairs are counted,
    /// and they come first.
    pub since: Option<(u64, u32)>,
    /// Threads and memory.
    pub limits: Limits,
}

/// Counts the blots that pairs of contents share in a range.
///
/// Memory: the sets of the range, 12 bytes per content, and a quarter of the limit.
pub fn write_pair_counts(
    path: &Path,
    view: &View<'_>,
    options: &PairCountOptions<'_>,
) -> Result<()> {
    let failed = |error| Error::io(path.display(), error);
    let mut out = SealedWriter::create(path).map_err(failed)?;
    let sets = view.sets_in(&options.buckets, options.limits.threads)?;
    let contents = view.contents().len();
    let counter = PairCounter {
        sets: &sets,
        is_counted: &counted_sets(view, &sets, options.max_df),
        contents,
        rows: options
            .since
            .map_or(contents, |(_, recomputed)| recomputed.to_usize()),
    };
    let most_sets = options.limits.memory_bytes / 16;
    let pairs = section(&mut out, |out| counter.write_pairs(out, most_sets)).map_err(failed)?;
    let long_sets = section(&mut out, |out| counter.write_long_sets(out)).map_err(failed)?;
    let sides = section(&mut out, |out| match options.max_df {
        u64::MAX => Ok(()),
        _ => counter.write_ignored_blots(out),
    })
    .map_err(failed)?;
    let description = CountDescription {
        kind: KIND.to_owned(),
        index: options.index.to_owned(),
        since: options.since.map(|(generation, _)| generation),
        buckets: BucketRange::from(&options.buckets),
        contents: contents.to_u64(),
        max_df: options.max_df,
        pairs,
        long_sets,
        sides,
    };
    out.finish(&description).map(drop).map_err(failed)
}

/// Writes a section; returns its start and length.
fn section(
    out: &mut CountWriter,
    write: impl FnOnce(&mut CountWriter) -> io::Result<()>,
) -> io::Result<[u64; 2]> {
    let start = out.position();
    write(out)?;
    Ok([start, out.position() - start])
}

/// Marks the sets that are used and have at most `max_df` documents.
fn counted_sets(view: &View<'_>, sets: &Sets, max_df: u64) -> Vec<bool> {
    let df = |set: &[u32]| {
        set.iter()
            .map(|&content| view.documents_of(ContentNo::new(content)).len().to_u64())
            .sum::<u64>()
    };
    SetNo::first(sets.len())
        .map(|set| sets.uses()[set.index()] > 0 && df(sets.get(set)) <= max_df)
        .collect()
}

/// Sets, and which of them count.
struct PairCounter<'a> {
    sets: &'a Sets,
    is_counted: &'a [bool],
    contents: usize,
    /// Only pairs of the first contents, up to this one, are counted.
    rows: usize,
}

/// The sets of a range of contents, one content after the other.
struct SetsOfContents {
    contents: Range<usize>,
    sets: Vec<SetNo>,
    /// Where those of each content end.
    ends: Vec<usize>,
}

impl SetsOfContents {
    fn get(&self, content: usize) -> &[SetNo] {
        let at = content - self.contents.start;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.sets[start..self.ends[at]]
    }
}

impl PairCounter<'_> {
    /// The sets whose pairs are counted.
    fn short_sets(&self) -> impl Iterator<Item = SetNo> {
        SetNo::first(self.sets.len()).filter(|&set| {
            self.is_counted[set.index()] && self.sets.get(set).len() <= LONG_SET_MEMBERS
        })
    }

    /// Writes the sets that have too many pairs, if one of their contents has pairs to count.
    fn write_long_sets(&self, out: &mut CountWriter) -> io::Result<()> {
        let is_long = |set: &SetNo| {
            self.is_counted[set.index()] && self.sets.get(*set).len() > LONG_SET_MEMBERS
        };
        let mut bytes = Vec::new();
        for set in SetNo::first(self.sets.len()).filter(is_long) {
            let contents = self.sets.get(set);
            if contents[0].to_usize() >= self.rows {
                continue;
            }
            bytes.clear();
            put_varint(&mut bytes, self.sets.uses()[set.index()]);
            put_varint(&mut bytes, contents.len().to_u64());
            let mut next = 0;
            for &content in contents {
                put_varint(&mut bytes, u64::from(content - next));
                next = content + 1;
            }
            out.write_all(&bytes)?;
        }
        Ok(())
    }

    /// Writes the partners of each content, lot by lot; the contents of a lot have at most
    /// `most_sets` sets.
    fn write_pairs(&self, out: &mut CountWriter, most_sets: u64) -> io::Result<()> {
        let set_counts = self.set_counts();
        let mut shared = vec![0_u32; self.contents];
        let mut partners = Vec::new();
        let mut bytes = Vec::new();
        let mut start = 0;
        let mut next = 0;
        while start < self.rows {
            let lot = start..self.lot_end(start, &set_counts, most_sets.max(LEAST_LOT_SETS));
            let sets = self.sets_of(lot.clone(), &set_counts);
            for content in lot.clone() {
                self.count(
                    content.to_u32(),
                    sets.get(content),
                    &mut shared,
                    &mut partners,
                );
                if !partners.is_empty() {
                    bytes.clear();
                    put_varint(&mut bytes, (content - next).to_u64());
                    next = content + 1;
                    put_partners(&mut bytes, next.to_u32(), &partners, &mut shared);
                    out.write_all(&bytes)?;
                }
            }
            start = lot.end;
        }
        Ok(())
    }

    /// The number of short sets of each content.
    fn set_counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.contents];
        for set in self.short_sets() {
            for &content in self.sets.get(set) {
                counts[content.to_usize()] += 1;
            }
        }
        counts
    }

    /// The end of the lot that begins here; a lot has at least one content.
    fn lot_end(&self, start: usize, set_counts: &[u32], most_sets: u64) -> usize {
        let mut sum = 0;
        let fits = |content: &usize| {
            sum += u64::from(set_counts[*content]);
            *content == start || sum <= most_sets
        };
        start + (start..self.rows).take_while(fits).count()
    }

    fn sets_of(&self, contents: Range<usize>, set_counts: &[u32]) -> SetsOfContents {
        let mut sum = 0;
        // Until a content is filled this is its start; filling moves it to its end.
        let mut ends: Vec<usize> = set_counts[contents.clone()]
            .iter()
            .map(|count| {
                sum += count.to_usize();
                sum - count.to_usize()
            })
            .collect();
        let mut sets = vec![SetNo::default(); sum];
        for set in self.short_sets() {
            for content in self.sets.get(set).iter().map(|content| content.to_usize()) {
                if contents.contains(&content) {
                    let end = &mut ends[content - contents.start];
                    sets[*end] = set;
                    *end += 1;
                }
            }
        }
        SetsOfContents {
            contents,
            sets,
            ends,
        }
    }

    /// Counts the blots that a content shares with each later one, and lists these in order.
    fn count(&self, content: u32, sets: &[SetNo], shared: &mut [u32], partners: &mut Vec<u32>) {
        partners.clear();
        for &set in sets {
            let members = self.sets.get(set);
            let uses = self.sets.uses()[set.index()].to_u32();
            for &partner in &members[members.partition_point(|&member| member <= content)..] {
                let count = &mut shared[partner.to_usize()];
                if *count == 0 {
                    partners.push(partner);
                }
                *count = count.saturating_add(uses);
            }
        }
        partners.sort_unstable();
    }

    /// Writes for each content how many of its blots others share, and how many of these are ignored.
    fn write_ignored_blots(&self, out: &mut CountWriter) -> io::Result<()> {
        let mut sides = vec![[0_u32; 2]; self.contents];
        for (set, &uses) in SetNo::first(self.sets.len()).zip(self.sets.uses()) {
            let ignored_uses = if self.is_counted[set.index()] {
                0
            } else {
                uses.to_u32()
            };
            for &content in self.sets.get(set) {
                let [shared, ignored] = &mut sides[content.to_usize()];
                *shared = shared.saturating_add(uses.to_u32());
                *ignored = ignored.saturating_add(ignored_uses);
            }
        }
        sides
            .as_flattened()
            .iter()
            .try_for_each(|count| out.write_all(&count.to_le_bytes()))
    }
}

/// Appends the partners of a content and their counts, which are reset. `next`: the content after it.
fn put_partners(bytes: &mut Vec<u8>, mut next: u32, partners: &[u32], shared: &mut [u32]) {
    put_varint(bytes, partners.len().to_u64() - 1);
    for &partner in partners {
        let count = std::mem::take(&mut shared[partner.to_usize()]);
        put_varint(bytes, u64::from(partner - next));
        put_varint(bytes, u64::from(count) - 1);
        next = partner + 1;
    }
}
