//! The postings of one range of the blot space.
//!
//! Two sections of blots in rising order: those of several documents with the number of their set,
//! and those of one document with its number. A section is cut into buckets by the top bits of the
//! blot, about 32 to 64 blots each; a list of bucket starts makes a look-up one step.
//! [`bucket`](super::bucket) has the format of a bucket.

use super::{
    bucket::{BrokenBucket, EncodedBucket, NumberCodec, NumberShape},
    id_section::Section,
    sections,
};
use crate::{
    base::{
        error::{Error, Result},
        files::Sealed,
        ids::{PartNo, SetNo},
        num::{ToU64, ToUsize},
    },
    index::posting::{BUCKETS, BucketRange},
};
use serde::{Deserialize, Serialize};
use std::{ops::Range, path::Path};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PartDescription {
    /// The kind of the section.
    pub kind: String,
    /// The scheme of the blots.
    pub scheme: String,
    /// How many bits a blot has.
    pub bits: u8,
    /// The top eight bits of its blots are from the first to, but not including, the second.
    pub buckets: BucketRange,
    /// The blots of several documents.
    pub shared: SectionLayout,
    /// The blots of one document.
    pub single: SectionLayout,
}

/// How a section is laid out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SectionLayout {
    /// How many blots it has.
    pub blots: u64,
    /// The blots of a bucket agree in this many top bits.
    pub bucket_bits: u8,
    /// The parameter of the Rice code of the gaps between blots.
    pub rice: u8,
    /// How sets or documents are encoded.
    pub numbers: NumberShape,
    /// Where the buckets are.
    pub data: Section,
    /// Where the starts of the buckets are.
    pub directory: Section,
    /// Where the number of each rank is, four bytes each, if numbers are ranked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub places: Option<Section>,
}

/// What a blot leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlotTarget {
    /// A set of several documents of the segment.
    Set(SetNo),
    /// The only document, by its place in the segment.
    One(u32),
}

/// The buckets of a part, where the blots are cut into `parts` of about equal size.
pub fn buckets_of(part: PartNo, parts: u32) -> Range<usize> {
    let border = |part: usize| part * BUCKETS / parts.to_usize();
    border(part.index())..border(part.index() + 1)
}

/// A section, its numbers, and what they stand for.
type BlotSection<'a> = (
    &'a SectionLayout,
    &'a NumberCodec,
    fn(&Part, u32) -> Result<BlotTarget>,
);

/// An open part; blots are read from it as they are looked up.
pub struct Part {
    file: Sealed,
    description: PartDescription,
    shared: NumberCodec,
    single: NumberCodec,
}

impl Part {
    /// Opens the file and checks that its description makes sense.
    pub fn open(path: &Path) -> Result<Self> {
        let file = Sealed::open(path)?;
        let description: PartDescription = file.describe()?;
        let wrong = || file.damaged(0, "the description of the part contradicts itself");
        let PartDescription {
            bits,
            buckets,
            shared,
            single,
            ..
        } = &description;
        let fits = description.kind == sections::PART.kind && buckets.is_valid_for(*bits);
        if !fits
            || ![shared, single]
                .iter()
                .all(|shape| shape.fits(*bits, buckets.range().len().to_u64()))
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

    /// The file itself.
    pub fn file(&self) -> &Sealed {
        &self.file
    }

    /// The scheme of its blots.
    pub fn scheme(&self) -> &str {
        &self.description.scheme
    }

    /// The range of its blots, by their top eight bits.
    pub fn buckets(&self) -> Range<usize> {
        self.description.buckets.range()
    }

    /// How many blots several documents have.
    pub fn shared_blots(&self) -> u64 {
        self.description.shared.blots
    }

    /// How many blots one document has.
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
            single.directory[1] + single.places.map_or(0, |[_, length]| length),
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

    /// Looks up what was not yet found: first all directory entries, then all buckets are touched,
    /// so that memory that is far away comes for many of them at once.
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
                .map(|number| posted(self, number))
                .transpose()?;
        }
        Ok(())
    }

    /// Calls `each` with every blot of several documents and its set, in order.
    pub fn for_each_shared(&self, mut each: impl FnMut(u64, SetNo) -> Result<()>) -> Result<()> {
        self.for_each(&self.description.shared, &self.shared, |blot, set| {
            each(blot, SetNo::new(set))
        })
    }

    /// Calls `each` with every blot of one document and that document, in order.
    pub fn for_each_single(&self, mut each: impl FnMut(u64, u32) -> Result<()>) -> Result<()> {
        self.for_each(&self.description.single, &self.single, |blot, number| {
            each(blot, self.place(number)?)
        })
    }

    /// The document that a number in the section of single blots stands for.
    fn place(&self, number: u32) -> Result<u32> {
        let Some([start, length]) = self.description.single.places else {
            return Ok(number);
        };
        if u64::from(number) >= length / 4 {
            let what = format!("rank {number} of {} documents", length / 4);
            return Err(self.file.damaged(start, what));
        }
        let bytes = self.file.bytes(start + 4 * u64::from(number), 4)?;
        Ok(u32::from_le_bytes(std::array::from_fn(|at| bytes[at])))
    }

    fn sections(&self) -> [BlotSection<'_>; 2] {
        [
            (&self.description.shared, &self.shared, |_, set| {
                Ok(BlotTarget::Set(SetNo::new(set)))
            }),
            (&self.description.single, &self.single, |part, number| {
                part.place(number).map(BlotTarget::One)
            }),
        ]
    }

    fn first_bucket(&self, shape: &SectionLayout) -> u64 {
        self.buckets().start.to_u64() << (shape.bucket_bits - 8)
    }

    /// Calls `each` with every blot from `first` to `last` and what it leads to: first those of
    /// several documents, then those of one.
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

    /// As [`Part::for_each_between`], with blots of several documents only.
    pub fn for_each_shared_between(
        &self,
        first: u64,
        last: u64,
        each: impl FnMut(u64, BlotTarget) -> Result<()>,
    ) -> Result<()> {
        self.for_each_in_section(self.sections()[0], first, last, each)
    }

    /// As [`Part::for_each_between`], with blots of one document only.
    pub fn for_each_single_between(
        &self,
        first: u64,
        last: u64,
        each: impl FnMut(u64, BlotTarget) -> Result<()>,
    ) -> Result<()> {
        self.for_each_in_section(self.sections()[1], first, last, each)
    }

    /// Calls `each` with the set of every blot of several documents in buckets that begin from
    /// `first` to `last`.
    pub fn for_each_set_between(
        &self,
        first: u64,
        last: u64,
        mut each: impl FnMut(SetNo),
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
                .for_each_number(&self.shared, |set| each(SetNo::new(set)))
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
                    each(blot, posted(self, number)?)
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
    /// The byte of the directory entry of a bucket.
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
            && self.places.is_some() == matches!(self.numbers, NumberShape::Ranked(_))
            && buckets
                .checked_shl(u32::from(self.bucket_bits) - 8)
                .and_then(|buckets| border_bytes(self.data[1]).checked_mul(buckets + 1))
                == Some(self.directory[1])
    }
}

/// Bytes of an entry in the directory of this many bytes of data.
pub(super) fn border_bytes(data: u64) -> u64 {
    if data <= u64::from(u32::MAX) { 4 } else { 8 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::files::TempDir,
        index::{
            part_writer,
            posting::{Collector, Inverted, Postings, invert},
            test_files,
        },
    };
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Inverts the blots, of 32 bits, of some documents.
    fn inverted(documents: &[BTreeSet<u64>]) -> Inverted<u64> {
        let mut collector = Collector::<u64>::new(32, 1 << 24, 1, TempDir(None));
        for (place, blots) in (0..).zip(documents) {
            let blots: Vec<u64> = blots.iter().copied().collect();
            let postings = Postings::new(&blots, &[blots.len()], 32);
            collector.add(&postings, &[Some(place)]).unwrap();
        }
        invert(collector, documents.len() as u32, 1 << 24, None)
            .unwrap()
            .0
    }

    fn write_part(path: &Path, inverted: &Inverted<u64>, buckets: Range<usize>) {
        part_writer::write(path, inverted, test_files::SCHEME, buckets, 1).unwrap();
    }

    /// What a blot leads to, with the documents of its set.
    fn documents_of(target: BlotTarget, inverted: &Inverted<u64>) -> Vec<u32> {
        match target {
            BlotTarget::One(place) => vec![place],
            BlotTarget::Set(set) => inverted.sets.get(set).to_vec(),
        }
    }

    fn any_documents() -> impl Strategy<Value = Vec<BTreeSet<u64>>> {
        let blot = prop_oneof![0_u64..99, any::<u32>().prop_map(u64::from)];
        prop::collection::vec(prop::collection::btree_set(blot, 0..50), 1..9)
    }

    proptest! {
        #[test]
        fn every_blot_leads_to_its_documents(documents in any_documents(), border in 1_usize..BUCKETS) {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("part");
            let inverted = inverted(&documents);
            let mut simple = BTreeMap::<u64, Vec<u32>>::new();
            for (place, blots) in (0..).zip(&documents) {
                blots.iter().for_each(|&blot| simple.entry(blot).or_default().push(place));
            }
            for buckets in [0..border, border..BUCKETS] {
                write_part(&path, &inverted, buckets.clone());
                let part = Part::open(&path).unwrap();
                prop_assert_eq!(part.buckets(), buckets.clone());
                let is_here = |blot: u64| buckets.contains(&((blot >> 24) as usize));
                let sought: Vec<u64> = simple.keys().flat_map(|&blot| [blot, blot ^ 1]).collect();
                let mut found = Vec::new();
                part.find_all(&sought, &mut found).unwrap();
                for (blot, target) in sought.into_iter().zip(found) {
                    let target = target.map(|target| documents_of(target, &inverted));
                    let expected = simple.get(&blot).filter(|_| is_here(blot));
                    prop_assert_eq!(target.as_ref(), expected);
                }
                let mut listed = BTreeMap::new();
                part.for_each_between(0, u64::from(u32::MAX), |blot, target| {
                    listed.insert(blot, documents_of(target, &inverted));
                    Ok(())
                }).unwrap();
                let here: BTreeMap<u64, Vec<u32>> = simple.clone().into_iter()
                    .filter(|(blot, _)| is_here(*blot))
                    .collect();
                prop_assert_eq!(part.shared_blots() + part.single_blots(), here.len() as u64);
                prop_assert_eq!(listed, here);
            }
        }
    }

    #[test]
    fn a_damaged_part_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("part");
        let documents: Vec<BTreeSet<u64>> = (1..5_u64)
            .map(|step| {
                (0..40)
                    .map(|number| number * step * 77_777_777 % (1 << 32))
                    .collect()
            })
            .collect();
        write_part(&path, &inverted(&documents), 0..BUCKETS);
        let sought: Vec<u64> = documents.iter().flatten().copied().collect();
        let body = test_files::body(&path);
        let mut errors = 0;
        for at in body
            .clone()
            .filter(|at| at % 3 == 0 || *at < body.start + 200)
        {
            let flipped = test_files::with_flipped_byte(&path, at);
            let error = Part::open(&flipped).and_then(|part| part.file().verify());
            let text = error.unwrap_err().to_string();
            assert!(text.contains("flipped: byte "), "{text}");
            for value in [0, 0xff] {
                let resealed = test_files::resealed_with_byte(&path, at, value);
                let part = Part::open(&resealed).unwrap();
                let results = [
                    part.find_all(&sought, &mut Vec::new()),
                    part.for_each_shared(|_, _| Ok(())),
                    part.for_each_single(|_, _| Ok(())),
                ];
                for error in results.into_iter().filter_map(Result::err) {
                    assert!(error.to_string().contains("resealed: byte "), "{error}");
                    errors += 1;
                }
            }
        }
        assert!(errors > 0);
    }
}
