//! The postings of one range of the blot space.
//!
//! Two sections of blots in rising order: those of several documents with the number of their set, and those of one document with its
//! number. A section is cut into buckets by the top bits of the blot, about 32 to 64 blots each; a list of bucket starts makes a look-up
//! one step. What is in a bucket is told in [`bucket`].

use super::{
    bucket::{self, BrokenBucket, EncodedBucket, NumberCodec, NumberShape},
    id_section::Section,
    sections,
};
use crate::{
    base::{
        codec::{BitWriter, NumberCode},
        error::{Error, Result},
        files::{Sealed, SealedWriter},
        parallel,
    },
    index::posting::{BUCKETS, FINE_POSTINGS, Inverted, Key, first_blot},
};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, fs::File, io::BufWriter, io::Write, ops::Range, path::Path};

/// Blots in a bucket: this many, up to twice that.
const BUCKET_BLOTS: u64 = 32;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PartDescription {
    pub kind: String,
    pub scheme: String,
    pub bits: u8,
    /// The top eight bits of its blots are from the first to, but not including, the second.
    pub buckets: [u32; 2],
    pub shared: SectionLayout,
    pub single: SectionLayout,
}

/// How a section is laid out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SectionLayout {
    pub blots: u64,
    /// A bucket is what agrees in so many top bits.
    bucket_bits: u8,
    rice: u8,
    numbers: NumberShape,
    pub data: Section,
    pub directory: Section,
}

/// What a blot leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlotTarget {
    /// The number of a set of documents.
    Set(u32),
    /// The only document.
    One(u32),
}

/// The buckets of part `part` of `parts`.
pub fn buckets_of(part: u32, parts: u32) -> Range<usize> {
    let border = |part: u32| part as usize * BUCKETS / parts as usize;
    border(part)..border(part + 1)
}

/// Writes the postings of a range of buckets.
pub fn write<K: Key>(
    path: &Path,
    inverted: &Inverted<K>,
    scheme: &str,
    buckets: Range<usize>,
    threads: usize,
) -> Result<()> {
    let failed = |error| Error::io(path.display(), error);
    let mut out = SealedWriter::create(path).map_err(failed)?;
    let units = inverted.units_in(&buckets);
    let is_fine = inverted.postings >= FINE_POSTINGS;
    let first_blot = |unit| first_blot(inverted.bucket(unit), inverted.bits);
    let writer = SectionWriter {
        bits: inverted.bits,
        buckets: buckets.clone(),
        first_blot: &first_blot,
        is_fine,
        threads,
        failed: &failed,
    };
    let count = |kind: usize| units.clone().map(|unit| inverted.lengths(unit)[kind]).sum();
    let shared = writer.write(&mut out, set_numbers(inverted), &units, count(0), |unit| {
        inverted.shared(unit).map(Cow::Owned)
    })?;
    let single = writer.write(
        &mut out,
        place_numbers(inverted.documents),
        &units,
        count(1),
        |unit| inverted.single(unit),
    )?;
    let buckets = [buckets.start as u32, buckets.end as u32];
    let description = PartDescription {
        kind: sections::PART.kind.to_owned(),
        scheme: scheme.to_owned(),
        bits: inverted.bits,
        buckets,
        shared,
        single,
    };
    out.finish(&description).map_err(failed)?;
    Ok(())
}

/// Places among so many documents, all in one width.
pub(super) fn place_numbers(documents: u32) -> NumberCodec {
    NumberCodec::Fixed(32 - documents.saturating_sub(1).leading_zeros())
}

/// The code that fits how often each set is used.
fn set_numbers<K: Key>(inverted: &Inverted<K>) -> NumberCodec {
    NumberCodec::Code(NumberCode::for_counts(&inverted.sets.uses_by_length()))
}

pub(super) struct SectionWriter<'a> {
    pub bits: u8,
    pub buckets: Range<usize>,
    /// Of the bucket of a unit.
    pub first_blot: &'a (dyn Fn(usize) -> u64 + Sync),
    pub is_fine: bool,
    pub threads: usize,
    pub failed: &'a dyn Fn(std::io::Error) -> Error,
}

impl SectionWriter<'_> {
    /// Writes a section: units are encoded in parallel, and written in order.
    pub fn write<'k, K: Key>(
        &self,
        out: &mut SealedWriter<BufWriter<File>>,
        numbers: NumberCodec,
        units: &Range<usize>,
        blots: u64,
        keys: impl Fn(usize) -> Result<Cow<'k, [K]>> + Sync,
    ) -> Result<SectionLayout> {
        let (bucket_bits, rice) = self.layout(blots);
        let shift = self.bits - bucket_bits;
        let start = out.position();
        let first_bucket = (self.buckets.start as u64) << (bucket_bits - 8);
        let mut directory: Vec<u64> = Vec::new();
        let source = units.clone();
        let encode = |unit| {
            keys(unit).map(|keys| {
                encode(
                    &keys,
                    (self.first_blot)(unit),
                    shift,
                    u32::from(rice),
                    &numbers,
                )
            })
        };
        parallel::ordered_items(
            self.threads,
            source,
            || encode,
            |encoded: Result<EncodedUnit>| {
                let encoded = encoded?;
                let mut at = out.position() - start;
                for (bucket, length) in encoded.buckets {
                    directory.resize((bucket - first_bucket) as usize + 1, at);
                    at += u64::from(length);
                }
                out.write_all(&encoded.bytes).map_err(self.failed)
            },
        )?;
        let length = out.position() - start;
        let buckets = self.buckets.len() << (bucket_bits - 8);
        directory.resize(buckets + 1, length);
        let (width, directory_start) = (border_bytes(length) as usize, out.position());
        directory
            .iter()
            .try_for_each(|at| out.write_all(&at.to_le_bytes()[..width]))
            .map_err(self.failed)?;
        let directory = [directory_start, out.position() - directory_start];
        Ok(SectionLayout {
            blots,
            bucket_bits,
            rice,
            numbers: numbers.shape(),
            data: [start, length],
            directory,
        })
    }

    /// How many top bits make a bucket, and the parameter of the Rice code: about log2 of 0.69 times the mean gap.
    fn layout(&self, blots: u64) -> (u8, u8) {
        let all = blots * BUCKETS as u64 / self.buckets.len() as u64;
        let least = if self.is_fine { 12 } else { 8 };
        let bucket_bits =
            ((all / BUCKET_BLOTS).max(1).ilog2() as u8).clamp(least, self.bits.min(40));
        let gap = ((709_u128 << self.bits) / 1024 / u128::from(all.max(1))).max(1);
        (
            bucket_bits,
            gap.ilog2().min(u32::from(self.bits - bucket_bits)) as u8,
        )
    }
}

/// Bytes of a border in the directory of so much data.
fn border_bytes(data: u64) -> u64 {
    if data <= u64::from(u32::MAX) { 4 } else { 8 }
}

struct EncodedUnit {
    bytes: Vec<u8>,
    /// The number and length of each bucket that is not empty.
    buckets: Vec<(u64, u32)>,
}

/// Encodes the keys of a unit; `first_blot` is the least one of its bucket, whose bits the keys may miss.
fn encode<K: Key>(
    keys: &[K],
    first_blot: u64,
    shift: u8,
    rice: u32,
    numbers: &NumberCodec,
) -> EncodedUnit {
    let (mut bytes, mut bits, mut buckets) = (Vec::new(), BitWriter::default(), Vec::new());
    for keys in keys.chunk_by(|one, two| one.blot() >> shift == two.blot() >> shift) {
        let (start, number) = (bytes.len(), (first_blot | keys[0].blot()) >> shift);
        bucket::put(
            &mut bytes,
            &mut bits,
            keys,
            number << shift,
            |key| first_blot | key.blot(),
            rice,
            numbers,
        );
        buckets.push((number, (bytes.len() - start) as u32));
    }
    EncodedUnit { bytes, buckets }
}

/// A section, its numbers, and what they stand for.
type BlotSection<'a> = (&'a SectionLayout, &'a NumberCodec, fn(u32) -> BlotTarget);

/// A part, read as it is asked.
pub struct Part {
    file: Sealed,
    description: PartDescription,
    shared: NumberCodec,
    single: NumberCodec,
}

impl Part {
    pub fn open(path: &Path) -> Result<Self> {
        let file = Sealed::open(path)?;
        let description: PartDescription = file.describe()?;
        let wrong = || file.damaged(0, "the description of the part contradicts itself");
        let PartDescription {
            bits,
            buckets: [first, end],
            shared,
            single,
            ..
        } = &description;
        let fits = description.kind == sections::PART.kind
            && crate::text::scheme::BITS.contains(bits)
            && first < end
            && *end as usize <= BUCKETS;
        if !fits
            || ![shared, single]
                .iter()
                .all(|shape| shape.fits(*bits, u64::from(end - first)))
        {
            return Err(wrong());
        }
        let (shared, single) = (
            NumberCodec::of(&shared.numbers).ok_or_else(wrong)?,
            NumberCodec::of(&single.numbers).ok_or_else(wrong)?,
        );
        Ok(Self {
            file,
            description,
            shared,
            single,
        })
    }

    pub fn file(&self) -> &Sealed {
        &self.file
    }

    pub fn scheme(&self) -> &str {
        &self.description.scheme
    }

    /// The range of its blots, by their top eight bits.
    pub fn buckets(&self) -> Range<usize> {
        let [first, end] = self.description.buckets;
        first as usize..end as usize
    }

    pub fn shared_blots(&self) -> u64 {
        self.description.shared.blots
    }

    pub fn single_blots(&self) -> u64 {
        self.description.single.blots
    }

    /// Bytes of shared data, shared directory, single data, single directory.
    pub fn section_bytes(&self) -> [u64; 4] {
        let PartDescription { shared, single, .. } = &self.description;
        [
            shared.data[1],
            shared.directory[1],
            single.data[1],
            single.directory[1],
        ]
    }

    /// Appends what each blot leads to.
    pub fn find_all(&self, blots: &[u64], out: &mut Vec<Option<BlotTarget>>) -> Result<()> {
        let start = out.len();
        out.resize(start + blots.len(), None);
        self.sections()
            .into_iter()
            .try_for_each(|section| self.find_in_section(section, blots, &mut out[start..]))
    }

    /// Looks up what was not yet found: first all directory entries, then all buckets are touched, so that memory that is far away comes for many
    /// of them at once.
    fn find_in_section(
        &self,
        (shape, numbers, posted): BlotSection<'_>,
        blots: &[u64],
        found: &mut [Option<BlotTarget>],
    ) -> Result<()> {
        let bucket_of = |blot: u64| {
            (blot >> (self.description.bits - shape.bucket_bits))
                .checked_sub(self.first_bucket(shape))
        };
        let buckets: Vec<(usize, u64)> = (0..blots.len())
            .filter(|&at| found[at].is_none())
            .filter_map(|at| {
                bucket_of(blots[at])
                    .filter(|&bucket| bucket < shape.buckets())
                    .map(|bucket| (at, bucket))
            })
            .collect();
        self.file
            .touch(buckets.iter().map(|&(_, bucket)| shape.entry(bucket)));
        let borders = buckets
            .iter()
            .map(|&(_, bucket)| self.borders(shape, bucket))
            .collect::<Result<Vec<_>>>()?;
        self.file.touch(borders.iter().map(|borders| borders.start));
        for ((at, _), borders) in buckets.into_iter().zip(borders) {
            let Some(bucket) = self.bucket(shape, &borders)? else {
                continue;
            };
            found[at] = bucket
                .find(blots[at], numbers)
                .map_err(|BrokenBucket| self.broken(borders.start))?
                .map(posted);
        }
        Ok(())
    }

    /// Calls `each` with every blot of several documents and its set, in order.
    pub fn for_each_shared(&self, each: impl FnMut(u64, u32) -> Result<()>) -> Result<()> {
        self.for_each(&self.description.shared, &self.shared, each)
    }

    /// Calls `each` with every blot of one document and that document, in order.
    pub fn for_each_single(&self, each: impl FnMut(u64, u32) -> Result<()>) -> Result<()> {
        self.for_each(&self.description.single, &self.single, each)
    }

    fn sections(&self) -> [BlotSection<'_>; 2] {
        [
            (&self.description.shared, &self.shared, BlotTarget::Set),
            (&self.description.single, &self.single, BlotTarget::One),
        ]
    }

    fn first_bucket(&self, shape: &SectionLayout) -> u64 {
        u64::from(self.description.buckets[0]) << (shape.bucket_bits - 8)
    }

    /// Calls `each` with every blot from `first` to `last` and what it leads to: first those of several documents, then those of one.
    pub fn for_each_between(
        &self,
        first: u64,
        last: u64,
        mut each: impl FnMut(u64, BlotTarget) -> Result<()>,
    ) -> Result<()> {
        self.sections()
            .into_iter()
            .try_for_each(|section| self.for_each_in_section(section, first, last, &mut each))
    }

    /// The same with those of several documents only.
    pub fn for_each_shared_between(
        &self,
        first: u64,
        last: u64,
        each: impl FnMut(u64, BlotTarget) -> Result<()>,
    ) -> Result<()> {
        self.for_each_in_section(self.sections()[0], first, last, each)
    }

    /// Calls `each` with the set of every blot of several documents in buckets that begin from `first` to `last`.
    pub fn for_each_set_between(
        &self,
        first: u64,
        last: u64,
        mut each: impl FnMut(u32),
    ) -> Result<()> {
        let shape = &self.description.shared;
        for bucket in self.buckets_between(shape, first, last) {
            let borders = self.borders(shape, bucket)?;
            if borders.range[0] < first {
                continue;
            }
            let Some(bucket) = self.bucket(shape, &borders)? else {
                continue;
            };
            bucket
                .for_each_number(&self.shared, &mut each)
                .map_err(|BrokenBucket| self.broken(borders.start))?;
        }
        Ok(())
    }

    /// The buckets of a section that may have blots from `first` to `last`.
    fn buckets_between(&self, shape: &SectionLayout, first: u64, last: u64) -> Range<u64> {
        let (shift, start) = (
            self.description.bits - shape.bucket_bits,
            self.first_bucket(shape),
        );
        let [first, end] = [first >> shift, (last >> shift) + 1]
            .map(|bucket| bucket.saturating_sub(start).min(shape.buckets()));
        first..end
    }

    fn for_each_in_section(
        &self,
        (shape, numbers, posted): BlotSection<'_>,
        first: u64,
        last: u64,
        mut each: impl FnMut(u64, BlotTarget) -> Result<()>,
    ) -> Result<()> {
        for bucket in self.buckets_between(shape, first, last) {
            self.read_bucket(shape, numbers, bucket, |blot, number| {
                if (first..=last).contains(&blot) {
                    each(blot, posted(number))
                } else {
                    Ok(())
                }
            })?;
        }
        Ok(())
    }

    fn for_each(
        &self,
        shape: &SectionLayout,
        numbers: &NumberCodec,
        mut each: impl FnMut(u64, u32) -> Result<()>,
    ) -> Result<()> {
        let mut blots = 0;
        for bucket in 0..shape.buckets() {
            self.read_bucket(shape, numbers, bucket, |blot, number| {
                blots += 1;
                each(blot, number)
            })?;
        }
        if blots == shape.blots {
            return Ok(());
        }
        Err(self.file.damaged(
            shape.data[0],
            format!(
                "{blots} blots are here, the description says {}",
                shape.blots
            ),
        ))
    }

    fn read_bucket(
        &self,
        shape: &SectionLayout,
        numbers: &NumberCodec,
        bucket: u64,
        mut each: impl FnMut(u64, u32) -> Result<()>,
    ) -> Result<()> {
        let borders = self.borders(shape, bucket)?;
        let Some(bucket) = self.bucket(shape, &borders)? else {
            return Ok(());
        };
        bucket
            .for_each(numbers, |blot, number| {
                each(blot, number).map_err(ReadStop::Error)
            })
            .map_err(|stop| match stop {
                ReadStop::BrokenBucket => self.broken(borders.start),
                ReadStop::Error(error) => error,
            })
    }

    fn borders(&self, shape: &SectionLayout, bucket: u64) -> Result<Borders> {
        let at = shape.entry(bucket);
        let borders = self.file.bytes(at, 2 * border_bytes(shape.data[1]))?;
        let (start, end) = match borders.first_chunk() {
            Some(both) if borders.len() == both.len() => {
                let both = u64::from_le_bytes(*both);
                (both & 0xffff_ffff, both >> 32)
            }
            _ => {
                let both = u128::from_le_bytes(std::array::from_fn(|index| borders[index]));
                (both as u64, (both >> 64) as u64)
            }
        };
        if start > end || end > shape.data[1] {
            return Err(self
                .file
                .damaged(at, "a bucket lies outside of its section"));
        }
        let shift = self.description.bits - shape.bucket_bits;
        let first = (self.first_bucket(shape) + bucket) << shift;
        let range = [first, first + (((1_u128 << shift) - 1) as u64)];
        Ok(Borders {
            start: shape.data[0] + start,
            length: end - start,
            range,
        })
    }

    fn bucket(
        &self,
        shape: &SectionLayout,
        borders: &Borders,
    ) -> Result<Option<EncodedBucket<'_>>> {
        if borders.length == 0 {
            return Ok(None);
        }
        let bytes = self.file.bytes(borders.start, borders.length)?;
        EncodedBucket::new(bytes, borders.range, u32::from(shape.rice))
            .map(Some)
            .map_err(|BrokenBucket| self.broken(borders.start))
    }

    fn broken(&self, at: u64) -> Error {
        self.file.damaged(
            at,
            "a bucket does not decode; the file was not made by this program",
        )
    }
}

/// Where a bucket is, and the least and the greatest blot that it may have.
#[derive(Debug, Clone, Copy, Default)]
struct Borders {
    start: u64,
    length: u64,
    range: [u64; 2],
}

/// Why a bucket was not read to its end.
enum ReadStop {
    BrokenBucket,
    Error(Error),
}

impl From<BrokenBucket> for ReadStop {
    fn from(_: BrokenBucket) -> Self {
        Self::BrokenBucket
    }
}

impl SectionLayout {
    /// Where the directory says where a bucket is.
    fn entry(&self, bucket: u64) -> u64 {
        self.directory[0] + border_bytes(self.data[1]) * bucket
    }

    fn buckets(&self) -> u64 {
        (self.directory[1] / border_bytes(self.data[1])).saturating_sub(1)
    }

    fn fits(&self, bits: u8, buckets: u64) -> bool {
        (8..=bits).contains(&self.bucket_bits)
            && self.bucket_bits <= 40
            && self.rice < 60
            && buckets
                .checked_shl(u32::from(self.bucket_bits) - 8)
                .and_then(|buckets| border_bytes(self.data[1]).checked_mul(buckets + 1))
                == Some(self.directory[1])
    }
}
