//! Writes the postings of one range of the blots; [`Part`](super::part::Part) reads them.

use super::{
    bucket::{self, NumberCodec},
    document_code::{document_code, table_bytes},
    id_section::section,
    part::{PartDescription, SectionLayout, border_bytes},
    sections,
};
use crate::{
    base::{
        codec::{BitWriter, NumberCode},
        error::{Error, Result},
        files::SealedWriter,
        parallel,
    },
    index::posting::{BUCKETS, BucketRange, FINE_POSTINGS, Inverted, Key, first_blot},
};
use std::{borrow::Cow, fs::File, io::BufWriter, io::Write, ops::Range, path::Path};

/// Blots in a bucket: this many, up to twice that.
const BUCKET_BLOTS: u64 = 32;

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
    let bucket_of = |unit| inverted.bucket(unit);
    let writer = SectionWriter {
        bits: inverted.bits,
        buckets: buckets.clone(),
        bucket_of: &bucket_of,
        postings: inverted.postings,
        threads,
        failed: &failed,
    };
    let count = |kind: usize| units.clone().map(|unit| inverted.lengths(unit)[kind]).sum();
    let shared = writer.write(&mut out, set_numbers(inverted), &units, count(0), |unit| {
        inverted.shared(unit).map(Cow::Owned)
    })?;
    let single = writer.write(
        &mut out,
        document_code(inverted, &buckets)?,
        &units,
        count(1),
        |unit| inverted.single(unit),
    )?;
    let description = PartDescription {
        kind: sections::PART.kind.to_owned(),
        scheme: scheme.to_owned(),
        bits: inverted.bits,
        buckets: BucketRange::from(&buckets),
        shared,
        single,
    };
    out.finish(&description).map_err(failed)?;
    Ok(())
}

/// The code that fits how often each set is used.
fn set_numbers<K: Key>(inverted: &Inverted<K>) -> NumberCodec {
    NumberCodec::Code(NumberCode::for_counts(&inverted.sets.uses_by_length()))
}

pub(super) struct SectionWriter<'a> {
    /// How many bits a blot has.
    pub bits: u8,
    /// The range of the blots, by their top eight bits.
    pub buckets: Range<usize>,
    /// The bucket of a unit.
    pub bucket_of: &'a (dyn Fn(usize) -> usize + Sync),
    /// How many postings there are in all ranges; many of them need finer buckets.
    pub postings: u64,
    /// How many threads encode.
    pub threads: usize,
    /// Names the file in an error.
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
        let source = self.groups(units).into_iter();
        let (bucket_of, bits) = (self.bucket_of, self.bits);
        let encode = |group: Range<usize>| -> Result<EncodedUnit> {
            let first_blot = first_blot(bucket_of(group.start), bits);
            let mut all = keys(group.start)?;
            for unit in group.skip(1) {
                all.to_mut().extend_from_slice(&keys(unit)?);
            }
            Ok(encode(&all, first_blot, shift, u32::from(rice), &numbers))
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
        let places = match &numbers {
            NumberCodec::Ranked { places, .. } => {
                Some(section(out, &table_bytes(places)).map_err(self.failed)?)
            }
            NumberCodec::Code(_) | NumberCodec::Fixed(_) => None,
        };
        Ok(SectionLayout {
            blots,
            bucket_bits,
            rice,
            numbers: numbers.shape(),
            data: [start, length],
            directory,
            places,
        })
    }

    /// The units that are encoded together. Units were cut by the number of all postings; if few of
    /// these are left, a bucket may reach over several units.
    fn groups(&self, units: &Range<usize>) -> Vec<Range<usize>> {
        if self.postings >= FINE_POSTINGS {
            return units.clone().map(|unit| unit..unit + 1).collect();
        }
        let mut groups: Vec<Range<usize>> = Vec::new();
        for unit in units.clone() {
            match groups.last_mut() {
                Some(last) if (self.bucket_of)(last.start) == (self.bucket_of)(unit) => {
                    last.end = unit + 1;
                }
                _ => groups.push(unit..unit + 1),
            }
        }
        groups
    }

    /// How many top bits make a bucket, and the parameter of the Rice code: about log2 of 0.69
    /// times the mean gap.
    fn layout(&self, blots: u64) -> (u8, u8) {
        let all = blots * BUCKETS as u64 / self.buckets.len() as u64;
        let least = if self.postings >= FINE_POSTINGS {
            12
        } else {
            8
        };
        let bucket_bits =
            ((all / BUCKET_BLOTS).max(1).ilog2() as u8).clamp(least, self.bits.min(40));
        let gap = ((709_u128 << self.bits) / 1024 / u128::from(all.max(1))).max(1);
        (
            bucket_bits,
            gap.ilog2().min(u32::from(self.bits - bucket_bits)) as u8,
        )
    }
}

struct EncodedUnit {
    bytes: Vec<u8>,
    /// The number and length of each bucket that is not empty.
    buckets: Vec<(u64, u32)>,
}

/// Encodes the keys of a unit; `first_blot` is the least one of its bucket, whose bits the keys may
/// miss.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::files::TempDir,
        index::{
            posting::{Collector, Postings, invert},
            test_files,
        },
    };

    /// Many postings on disk are cut into finer units than the buckets of the few that are kept.
    #[test]
    fn few_kept_of_many_postings_are_written_as_from_memory() {
        let directory = tempfile::tempdir().unwrap();
        let written = |memory: u64| {
            let mut collector = Collector::<u64>::new(40, memory, 2, TempDir(None));
            for document in 0..2 {
                let blot = |number: u64| {
                    let is_shared = number.is_multiple_of(1000);
                    let own = if is_shared { 0 } else { 1 + document };
                    (3 * number + own).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24
                };
                let blots: Vec<u64> = (0..FINE_POSTINGS / 2 + 1000).map(blot).collect();
                let postings = Postings::new(&blots, &[blots.len()], 40);
                collector.add(&postings, &[Some(document as u32)]).unwrap();
            }
            let (inverted, _) = invert(collector, 2, memory, Some(&|_| false)).unwrap();
            assert!((2000..FINE_POSTINGS).contains(&inverted.shared));
            let path = directory.path().join(memory.to_string());
            write(&path, &inverted, test_files::SCHEME, 0..BUCKETS, 2).unwrap();
            std::fs::read(path).unwrap()
        };
        assert!(written(1 << 20) == written(1 << 30));
    }
}
