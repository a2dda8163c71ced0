//! How many blots pairs of contents share, counted range by range and added up: what one machine finds at once, in pieces that many can work on.
//!
//! A file has, for each content that shares anything with a later one, in rising order: how many contents are left out before it, how many partners it has
//! less one, and of each partner how many contents are left out before it, and how many blots of the range both have, less one. All are varints.
//!
//! Pairs that are in one set of more than [`LONG_SET_MEMBERS`] contents are not counted one by one, as their number grows with the square of its length. Such a
//! set is in the file itself: how many blots of the range lead to it, how many contents it has, and of each how many are left out before it.

use super::{
    long_sets::LONG_SET_MEMBERS,
    scores::{DocumentSize, Measure, Overlap},
};
use crate::base::ids::ContentNo;
use crate::base::num::{ToU32, ToU64, ToUsize};
use crate::{
    base::{
        codec::{Fields, put_varint},
        error::{Error, Result},
        files::{Mapping, Sealed, SealedWriter, TempDir, TempFile},
        parallel::Limits,
    },
    index::{
        View,
        posting::{BUCKETS, Buckets, SetDictionary, Sets},
    },
};
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{BufWriter, Write},
    ops::Range,
    path::{Path, PathBuf},
};

const KIND: &str = "counts 2";
/// Each lot reads all sets.
const LEAST_LOT: u64 = 1 << 16;

#[derive(Debug, Serialize, Deserialize)]
struct Description {
    kind: String,
    /// Of the manifest of the index.
    index: String,
    /// Only pairs of contents that were recomputed since this commit are here: they are the first ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<u64>,
    buckets: [u32; 2],
    contents: u64,
    max_df: u64,
    /// Where the pairs are, as start and length.
    pairs: [u64; 2],
    /// Where the long sets are.
    #[serde(default)]
    long_sets: [u64; 2],
    /// Where it says, of each content, how many of its blots other contents have as well, and how many of these do not count; 4 bytes each. Nothing if all count.
    sides: [u64; 2],
}

/// What is counted.
pub struct PairCountOptions<'a> {
    /// The checksum of the manifest.
    pub index: &'a str,
    /// The range, by the top eight bits of its blots.
    pub buckets: Range<usize>,
    /// Blots of more documents do not count; `u64::MAX` for no such limit.
    pub max_df: u64,
    /// Only the pairs of the first so many contents are counted, which were recomputed since this commit.
    pub since: Option<(u64, u32)>,
    pub limits: Limits,
}

/// Counts what pairs share in a range.
///
/// Memory: the sets of the range, 12 bytes a content, and a quarter of what is allowed.
pub fn write_pair_counts(
    path: &Path,
    view: &View<'_>,
    options: &PairCountOptions<'_>,
) -> Result<()> {
    let failed = |error| Error::io(path.display(), error);
    let mut out = SealedWriter::create(path).map_err(failed)?;
    let sets = view.sets_in(&options.buckets, options.limits.threads)?;
    let df = |set: &[u32]| {
        set.iter()
            .map(|&content| view.documents_of(ContentNo::new(content)).len().to_u64())
            .sum::<u64>()
    };
    let counts: Vec<bool> = (0..sets.len())
        .map(|set| sets.uses()[set] > 0 && df(sets.get(set)) <= options.max_df)
        .collect();
    let start = out.position();
    let rows = options
        .since
        .map_or(view.contents().len(), |(_, recomputed)| {
            recomputed.to_usize()
        });
    let counting = Counting {
        sets: &sets,
        counts: &counts,
        contents: view.contents().len(),
        rows,
    };
    counting
        .write(&mut out, options.limits.memory_bytes / 16)
        .map_err(failed)?;
    let pairs = [start, out.position() - start];
    counting.write_long(&mut out).map_err(failed)?;
    let long_sets = [start + pairs[1], out.position() - start - pairs[1]];
    let mut sides = vec![
        [0_u32; 2];
        if options.max_df == u64::MAX {
            0
        } else {
            view.contents().len()
        }
    ];
    if !sides.is_empty() {
        for (set, &uses) in sets.uses().iter().enumerate() {
            let left_out = if counts[set] { 0 } else { uses.to_u32() };
            sets.get(set).iter().for_each(|&content| {
                let [shared, less] = &mut sides[content.to_usize()];
                (*shared, *less) = (
                    shared.saturating_add(uses.to_u32()),
                    less.saturating_add(left_out),
                );
            });
        }
    }
    let at = out.position();
    sides
        .as_flattened()
        .iter()
        .try_for_each(|count| out.write_all(&count.to_le_bytes()))
        .map_err(failed)?;
    let description = Description {
        kind: KIND.to_owned(),
        index: options.index.to_owned(),
        since: options.since.map(|(generation, _)| generation),
        buckets: [options.buckets.start.to_u32(), options.buckets.end.to_u32()],
        contents: view.contents().len().to_u64(),
        max_df: options.max_df,
        pairs,
        long_sets,
        sides: [at, out.position() - at],
    };
    out.finish(&description).map(drop).map_err(failed)
}

/// Sets, and which of them count.
struct Counting<'a> {
    sets: &'a Sets,
    counts: &'a [bool],
    contents: usize,
    /// The pairs of the first so many contents are counted.
    rows: usize,
}

impl Counting<'_> {
    /// The sets whose pairs are counted.
    fn counted(&self) -> impl Iterator<Item = usize> {
        (0..self.sets.len())
            .filter(|&set| self.counts[set] && self.sets.get(set).len() <= LONG_SET_MEMBERS)
    }

    /// Writes the sets that have too many pairs, if they have a content that pairs are wanted of.
    fn write_long(&self, out: &mut SealedWriter<BufWriter<File>>) -> std::io::Result<()> {
        let is_long =
            |set: &usize| self.counts[*set] && self.sets.get(*set).len() > LONG_SET_MEMBERS;
        let mut bytes = Vec::new();
        for set in (0..self.sets.len()).filter(is_long) {
            let contents = self.sets.get(set);
            if contents[0].to_usize() >= self.rows {
                continue;
            }
            bytes.clear();
            put_varint(&mut bytes, self.sets.uses()[set]);
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

    /// Writes the partners of each content, a lot of contents at a time: as many as have no more than so many sets.
    fn write(
        &self,
        out: &mut SealedWriter<BufWriter<File>>,
        most_sets: u64,
    ) -> std::io::Result<()> {
        let mut sets_of = vec![0_u32; self.contents];
        self.counted().for_each(|set| {
            self.sets
                .get(set)
                .iter()
                .for_each(|&content| sets_of[content.to_usize()] += 1)
        });
        let (mut shared, mut partners, mut bytes) =
            (vec![0_u32; self.contents], Vec::new(), Vec::new());
        let (mut start, mut next) = (0, 0);
        while start < self.rows {
            let (mut end, mut sum) = (start, 0);
            while end < self.rows
                && (end == start || sum + u64::from(sets_of[end]) <= most_sets.max(LEAST_LOT))
            {
                sum += u64::from(sets_of[end]);
                end += 1;
            }
            let (forward, ends) = self.forward(start..end, &sets_of);
            for content in start..end {
                let from = if content == start {
                    0
                } else {
                    ends[content - start - 1]
                };
                self.count(
                    content.to_u32(),
                    &forward[from..ends[content - start]],
                    &mut shared,
                    &mut partners,
                );
                if partners.is_empty() {
                    continue;
                }
                bytes.clear();
                put_varint(&mut bytes, (content - next).to_u64());
                put_varint(&mut bytes, partners.len().to_u64() - 1);
                next = content + 1;
                let mut expected = next.to_u32();
                for &partner in &partners {
                    let count = std::mem::take(&mut shared[partner.to_usize()]);
                    put_varint(&mut bytes, u64::from(partner - expected));
                    put_varint(&mut bytes, u64::from(count) - 1);
                    expected = partner + 1;
                }
                out.write_all(&bytes)?;
            }
            start = end;
        }
        Ok(())
    }

    /// The sets of some contents, one content after the other, and where those of each end.
    fn forward(&self, contents: Range<usize>, sets_of: &[u32]) -> (Vec<u32>, Vec<usize>) {
        let mut sum = 0;
        let mut ends: Vec<usize> = sets_of[contents.clone()]
            .iter()
            .map(|&count| {
                sum += count.to_usize();
                sum - count.to_usize()
            })
            .collect();
        let mut forward = vec![0; sum];
        for set in self.counted() {
            for &content in self
                .sets
                .get(set)
                .iter()
                .filter(|&&content| contents.contains(&(content.to_usize())))
            {
                let end = &mut ends[content.to_usize() - contents.start];
                forward[*end] = set.to_u32();
                *end += 1;
            }
        }
        (forward, ends)
    }

    /// What a content shares with each later one, and which these are, in order.
    fn count(&self, content: u32, sets: &[u32], shared: &mut [u32], partners: &mut Vec<u32>) {
        partners.clear();
        for &set in sets {
            let (members, uses) = (
                self.sets.get(set.to_usize()),
                self.sets.uses()[set.to_usize()].to_u32(),
            );
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
}

/// Counts of one range.
struct CountFile {
    file: Sealed,
    description: Description,
}

impl CountFile {
    fn open(
        path: &Path,
        index: &str,
        since: Option<u64>,
        contents: usize,
        max_df: u64,
    ) -> Result<Self> {
        let file = Sealed::open(path)?;
        let description: Description = file.describe()?;
        let Description {
            kind,
            buckets: [first, end],
            sides,
            ..
        } = &description;
        let expected = if max_df == u64::MAX {
            0
        } else {
            8 * contents.to_u64()
        };
        if kind != KIND {
            return Err(file.damaged(
                0,
                format!("this is '{kind}', not '{KIND}': another version counted; count again"),
            ));
        }
        if first >= end || end.to_usize() > BUCKETS {
            return Err(file.damaged(0, "the description of the counts contradicts itself"));
        }
        if description.max_df != max_df {
            return Err(file.damaged(0, "counted with another --max-df"));
        }
        if description.since != since {
            let told = |since: Option<u64>| {
                since.map_or_else(
                    || "without --since".to_owned(),
                    |since| format!("with --since {since}"),
                )
            };
            return Err(file.damaged(
                0,
                format!(
                    "counted {}, and {} is asked for",
                    told(description.since),
                    told(since)
                ),
            ));
        }
        if description.index != index
            || description.contents != contents.to_u64()
            || sides[1] != expected
        {
            return Err(file.damaged(
                0,
                "the counts of another index, or of an earlier state of it",
            ));
        }
        Ok(Self { file, description })
    }

    /// Calls `each` with every long set, and how many blots lead to it.
    fn for_each_long(&self, mut each: impl FnMut(&[u32], u64)) -> Result<()> {
        let [start, length] = self.description.long_sets;
        let (mut fields, mut contents) = (Fields::new(self.file.bytes(start, length)?), Vec::new());
        while !fields.is_empty() {
            let at = start + length - fields.left();
            let uses = self
                .read_long(&mut fields, &mut contents)
                .map_err(|what| self.file.damaged(at, what))?;
            each(&contents, uses);
        }
        Ok(())
    }

    fn read_long(&self, fields: &mut Fields<'_>, contents: &mut Vec<u32>) -> Result<u64, String> {
        let (uses, count) = (
            fields.varint("uses of a set")?,
            fields.varint("length of a set")?,
        );
        let (all, mut next) = (self.description.contents, 0_u64);
        contents.clear();
        for _ in 0..count.min(fields.left()) {
            let content = next.saturating_add(fields.varint("content of a set")?);
            if content >= all {
                return Err(format!("a set has content {content}, of {all}"));
            }
            contents.push(content.to_u32());
            next = content + 1;
        }
        if contents.len().to_u64() == count && count > 1 {
            Ok(uses)
        } else {
            Err(format!("a set of {count} contents is cut short"))
        }
    }

    fn rows(&self) -> Result<Rows<'_>> {
        let [start, length] = self.description.pairs;
        let fields = Fields::new(self.file.bytes(start, length)?);
        let mut rows = Rows {
            of: self,
            fields,
            next: 0,
            content: None,
            partners: Vec::new(),
        };
        rows.advance()?;
        Ok(rows)
    }
}

/// Reads a file content by content.
struct Rows<'f> {
    of: &'f CountFile,
    fields: Fields<'f>,
    next: u64,
    content: Option<u32>,
    /// Partners of the content, and what they share.
    partners: Vec<(u32, u32)>,
}

impl Rows<'_> {
    fn advance(&mut self) -> Result<()> {
        self.content = None;
        if self.fields.is_empty() {
            return Ok(());
        }
        let [start, length] = self.of.description.pairs;
        let at = start + length - self.fields.left();
        self.read().map_err(|what| self.of.file.damaged(at, what))
    }

    fn read(&mut self) -> Result<(), String> {
        let contents = self.of.description.contents;
        let content = self.next.saturating_add(self.fields.varint("content")?);
        let count = self.fields.varint("number of partners")?;
        self.partners.clear();
        let mut next = content.saturating_add(1);
        for _ in 0..=count.min(self.fields.left()) {
            let partner = next.saturating_add(self.fields.varint("partner")?);
            let shared = self.fields.varint("shared blots")?.saturating_add(1);
            match (u32::try_from(partner), u32::try_from(shared)) {
                (Ok(partner), Ok(shared)) if u64::from(partner) < contents => {
                    self.partners.push((partner, shared))
                }
                _ => {
                    return Err(format!(
                        "content {content} shares {shared} blots with {partner}, of {contents}"
                    ));
                }
            }
            next = partner + 1;
        }
        self.content = Some(content.to_u32());
        self.next = content + 1;
        Ok(())
    }
}

/// The sets of all ranges that have too many pairs to be counted, each once.
fn long_sets(files: &[CountFile]) -> Result<Sets> {
    let mut sets = SetDictionary::default();
    files
        .iter()
        .try_for_each(|file| file.for_each_long(|contents, uses| sets.add(contents, uses)))?;
    Ok(Sets::join(vec![sets]).0)
}

/// Of each content, how many blots of long sets it has.
pub(super) fn long_blots(sets: &Sets, contents: usize) -> Vec<u32> {
    let mut blots = vec![0_u32; contents];
    for (set, &uses) in sets.uses().iter().enumerate() {
        let uses = u32::try_from(uses).unwrap_or(u32::MAX);
        sets.get(set).iter().for_each(|&content| {
            blots[content.to_usize()] = blots[content.to_usize()].saturating_add(uses)
        });
    }
    blots
}

/// The lower 32 bits.
fn low_half(value: u64) -> u32 {
    (value & u64::from(u32::MAX)).to_u32()
}

/// The neighbours of all contents by short sets, on disk, and the long sets. Memory: 8 bytes a content, and 4 for each member of a long set.
pub struct PairCounts {
    neighbours: Option<Mapping>,
    /// Where those of each content end.
    ends: Vec<u64>,
    /// Of each content, how many of its blots do not count.
    pub less: Vec<u32>,
    pub long_sets: Sets,
}

impl PairCounts {
    /// Adds up what was counted in all ranges, and keeps what can count.
    ///
    /// Memory: about half of what is allowed, and some 16 bytes a content.
    pub fn read(
        view: &View<'_>,
        index: &str,
        files: &[PathBuf],
        measure: &Measure,
        max_df: u64,
        memory_bytes: u64,
    ) -> Result<Self> {
        let open =
            |path: &PathBuf| CountFile::open(path, index, None, view.contents().len(), max_df);
        let files = open_all(files, open)?;
        let less = less_of(view, &files, max_df)?;
        let side = |content: u32| {
            let of = &view.contents()[content.to_usize()];
            DocumentSize {
                blots: of
                    .blots
                    .saturating_sub(less.get(content.to_usize()).copied().unwrap_or_default()),
            }
        };
        let contents = view.contents().len();
        let long_sets = long_sets(&files)?;
        let long = long_blots(&long_sets, contents);
        let mut buckets = Buckets::<2>::new(BUCKETS, memory_bytes / 2, TempDir(None));
        let bucket_of = |content: u32| content.to_usize() * BUCKETS / contents.max(1);
        add_up(&files, |content, partner, shared| {
            for [one, other] in [[content, partner], [partner, content]] {
                let most = Overlap {
                    shared: shared.saturating_add(long[one.to_usize()]),
                    rarity: 0.0,
                };
                if measure.can_reach(side(one), side(other), most) {
                    buckets.push(
                        bucket_of(one),
                        [u64::from(one) << 32 | u64::from(other), shared.into()],
                    );
                }
            }
            buckets.settle()
        })?;
        let (mut file, mut ends) = (TempFile::new(&TempDir(None))?, vec![0; contents]);
        for bucket in 0..BUCKETS {
            let mut records = buckets.take(bucket)?;
            records.sort_unstable();
            let bytes: Vec<u8> = records
                .iter()
                .flat_map(|&[pair, shared]| [low_half(pair), shared.to_u32()])
                .flat_map(u32::to_le_bytes)
                .collect();
            file.append(&bytes)?;
            records
                .iter()
                .for_each(|[pair, _]| ends[(pair >> 32).to_usize()] += 8);
        }
        let mut sum = 0;
        for end in &mut ends {
            sum += *end;
            *end = sum;
        }
        let neighbours = (file.bytes() > 0).then(|| file.map()).transpose()?;
        Ok(Self {
            neighbours,
            ends,
            less,
            long_sets,
        })
    }

    /// Calls `each` with the number of each content that may be a neighbour, and how many blots of short sets are shared, in rising order.
    pub(super) fn for_each(&self, content: u32, each: &mut dyn FnMut(u32, u32)) {
        let start = if content == 0 {
            0
        } else {
            self.ends[content.to_usize() - 1]
        };
        let bytes = self.neighbours.as_deref().and_then(|bytes| {
            bytes.get(start.to_usize()..self.ends[content.to_usize()].to_usize())
        });
        for record in bytes.unwrap_or_default().as_chunks::<4>().0.chunks_exact(2) {
            each(u32::from_le_bytes(record[0]), u32::from_le_bytes(record[1]));
        }
    }
}

/// What recomputed contents share, by counts of all ranges.
pub struct RecomputedPairs {
    files: Vec<CountFile>,
    /// Those with a recomputed content that have too many pairs to be counted.
    pub long_sets: Sets,
}

impl RecomputedPairs {
    pub fn open(view: &View<'_>, index: &str, since: u64, files: &[PathBuf]) -> Result<Self> {
        let open = |path: &PathBuf| {
            CountFile::open(path, index, Some(since), view.contents().len(), u64::MAX)
        };
        let files = open_all(files, open)?;
        let long_sets = long_sets(&files)?;
        Ok(Self { files, long_sets })
    }

    /// Calls `each` with every pair, and what it shares in short sets.
    pub fn for_each(&self, each: &mut dyn FnMut(u32, u32, u32)) -> Result<()> {
        add_up(&self.files, |one, two, shared| {
            each(one, two, shared);
            Ok(())
        })
    }
}

/// The counts of all ranges, in their order.
fn open_all(
    files: &[PathBuf],
    open: impl Fn(&PathBuf) -> Result<CountFile>,
) -> Result<Vec<CountFile>> {
    let mut files = files.iter().map(open).collect::<Result<Vec<_>>>()?;
    files.sort_by_key(|file| file.description.buckets);
    ensure_all_ranges(&files)?;
    Ok(files)
}

fn ensure_all_ranges(files: &[CountFile]) -> Result<()> {
    let mut next = 0;
    for CountFile { file, description } in files {
        if description.buckets[0] != next {
            return Err(file.damaged(
                0,
                format!(
                    "counts from {:02x} on; those from {next:02x} on are expected",
                    description.buckets[0]
                ),
            ));
        }
        next = description.buckets[1];
    }
    if next.to_usize() == BUCKETS {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "the counts of blots that begin with {next:02x} to ff are missing"
    )))
}

/// Of each content, how many of its blots do not count, as too many documents have them; none if there is no such limit.
fn less_of(view: &View<'_>, files: &[CountFile], max_df: u64) -> Result<Vec<u32>> {
    if max_df == u64::MAX {
        return Ok(Vec::new());
    }
    let mut sides = vec![[0_u32; 2]; view.contents().len()];
    for CountFile { file, description } in files {
        let words = file
            .bytes(description.sides[0], description.sides[1])?
            .as_chunks::<4>()
            .0;
        for (side, more) in sides.as_flattened_mut().iter_mut().zip(words) {
            *side = side.saturating_add(u32::from_le_bytes(*more));
        }
    }
    let less = |(content, [shared, left_out]): (u32, [u32; 2])| {
        let has_many_copies = view.documents_of(ContentNo::new(content)).len().to_u64() > max_df;
        let own = if has_many_copies {
            view.contents()[content.to_usize()]
                .blots
                .saturating_sub(shared)
        } else {
            0
        };
        left_out.saturating_add(own)
    };
    Ok((0..).zip(sides).map(less).collect())
}

/// Calls `each` with every pair and what they share in all ranges together, in rising order.
fn add_up(files: &[CountFile], mut each: impl FnMut(u32, u32, u32) -> Result<()>) -> Result<()> {
    let mut rows = files
        .iter()
        .map(CountFile::rows)
        .collect::<Result<Vec<_>>>()?;
    let mut partners: Vec<(u32, u32)> = Vec::new();
    while let Some(content) = rows.iter().filter_map(|rows| rows.content).min() {
        partners.clear();
        for rows in rows.iter_mut().filter(|rows| rows.content == Some(content)) {
            partners.extend_from_slice(&rows.partners);
            rows.advance()?;
        }
        partners.sort_unstable();
        for same in partners.chunk_by(|one, two| one.0 == two.0) {
            each(
                content,
                same[0].0,
                same.iter()
                    .fold(0_u32, |sum, (_, shared)| sum.saturating_add(*shared)),
            )?;
        }
    }
    Ok(())
}
