//! The postings of one range of the blots, complete except for the final numbers of its sets, which
//! depend on the sets of all ranges.
//!
//! Blots of one document are encoded as in the part, which gets a copy of these bytes. Blots of
//! several documents are runs of packed keys with the numbers that their sets have in this range; a
//! table has the bucket of each run, the number of its keys and where it ends, 8 bytes each.

use super::{
    bucket::NumberCodec,
    document_code::document_code,
    id_section::{Section, section},
    part::{PartDescription, SectionLayout},
    part_writer::SectionWriter,
    sections::PART,
    set_order::SetOrder,
};
use crate::{
    base::{
        codec::NumberCode,
        error::{Error, Result},
        files::{Sealed, SealedWriter},
        ids::SetNo,
        num::{ToU64, ToUsize},
    },
    index::posting::{
        BucketRange, Inverted, Key, NARROW_BITS, SharedSetNumbers, first_blot, put_keys, take_keys,
    },
};
use serde::{Deserialize, Serialize};
use std::{
    borrow::Cow,
    io::Write,
    ops::Range,
    path::{Path, PathBuf},
};

const KIND: &str = "reduced";
const NUMBERS: &str = "numbers";

#[derive(Debug, Serialize, Deserialize)]
struct RangePostingsDescription {
    kind: String,
    scheme: String,
    bits: u8,
    buckets: BucketRange,
    /// Of the whole.
    postings: u64,
    shared_blots: u64,
    shared: Section,
    #[serde(rename = "stretches")]
    key_runs: Section,
    single: SectionLayout,
}

/// Writes the postings of a range, with these numbers of its sets.
pub fn write_range_postings<K: Key>(
    path: &Path,
    inverted: &Inverted<K>,
    numbers: &SharedSetNumbers,
    scheme: &str,
    buckets: Range<usize>,
    threads: usize,
) -> Result<()> {
    let failed = |error| Error::io(path.display(), error);
    let mut out = SealedWriter::create(path).map_err(failed)?;
    let units = inverted.units_in(&buckets);
    let (start, mut key_runs, mut bytes) = (out.position(), Vec::new(), Vec::new());
    for unit in units.clone() {
        let mut keys = inverted.shared(unit)?;
        keys.iter_mut()
            .for_each(|key| *key = K::new(key.blot(), numbers.of(key.number())));
        bytes.clear();
        put_keys(&mut bytes, &keys);
        out.write_all(&bytes).map_err(failed)?;
        let row = [
            inverted.bucket(unit) as u64,
            keys.len() as u64,
            out.position() - start,
        ];
        key_runs.extend(row.iter().flat_map(|word| word.to_le_bytes()));
    }
    let shared = [start, out.position() - start];
    let key_runs = section(&mut out, &key_runs).map_err(failed)?;
    let bucket_of = |unit| inverted.bucket(unit);
    let writer = SectionWriter {
        bits: inverted.bits,
        buckets: buckets.clone(),
        bucket_of: &bucket_of,
        postings: inverted.postings,
        threads,
        failed: &failed,
    };
    let numbers = document_code(inverted, &buckets)?;
    let single = writer.write(&mut out, numbers, &units, inverted.single, |unit| {
        inverted.single(unit)
    })?;
    out.finish(&RangePostingsDescription {
        kind: KIND.to_owned(),
        scheme: scheme.to_owned(),
        bits: inverted.bits,
        buckets: BucketRange::from(&buckets),
        postings: inverted.postings,
        shared_blots: inverted.shared,
        shared,
        key_runs,
        single,
    })
    .map_err(failed)?;
    Ok(())
}

/// Packed keys of one bucket.
struct KeyRun {
    bucket: usize,
    keys: u64,
    place: Range<u64>,
}

/// An open file of the postings of a range; keys are read on demand.
pub struct RangePostings {
    file: Sealed,
    description: RangePostingsDescription,
    key_runs: Vec<KeyRun>,
}

impl RangePostings {
    /// Opens the file and checks that its description makes sense.
    pub fn open(path: &Path) -> Result<Self> {
        let file = Sealed::open(path)?;
        let description: RangePostingsDescription = file.describe()?;
        let wrong = || file.damaged(0, "the description of the postings contradicts itself");
        let RangePostingsDescription {
            kind,
            bits,
            buckets,
            shared,
            key_runs,
            ..
        } = &description;
        if kind != KIND || !buckets.is_valid_for(*bits) {
            return Err(wrong());
        }
        let (mut start, mut found) = (0, Vec::new());
        for row in file
            .bytes(key_runs[0], key_runs[1])?
            .as_chunks::<8>()
            .0
            .chunks_exact(3)
        {
            let [bucket, keys, end_at] = [row[0], row[1], row[2]].map(u64::from_le_bytes);
            let is_here = buckets.range().contains(&bucket.to_usize())
                && start <= end_at
                && end_at <= shared[1];
            if !is_here
                || found
                    .last()
                    .is_some_and(|before: &KeyRun| before.bucket.to_u64() > bucket)
            {
                return Err(wrong());
            }
            found.push(KeyRun {
                bucket: bucket.to_usize(),
                keys,
                place: shared[0] + start..shared[0] + end_at,
            });
            start = end_at;
        }
        if found
            .iter()
            .map(|run| run.keys)
            .fold(0, u64::saturating_add)
            != description.shared_blots
        {
            return Err(wrong());
        }
        Ok(Self {
            file,
            description,
            key_runs: found,
        })
    }

    /// The range of its blots, by their top eight bits.
    pub fn buckets(&self) -> Range<usize> {
        self.description.buckets.range()
    }

    /// Keys of a run, with the numbers that sets have in the whole.
    fn keys<K: Key>(&self, run: usize, numbers: &[SetNo]) -> Result<Vec<K>> {
        let KeyRun {
            keys: count,
            place,
            bucket,
        } = &self.key_runs[run];
        let (mut keys, bits) = (Vec::new(), self.description.bits);
        let rest = take_keys::<K>(
            self.file.bytes(place.start, place.end - place.start)?,
            &mut keys,
        );
        let is_here =
            |key: &K| (first_blot(*bucket, bits) | key.blot()) >> (bits - 8) == *bucket as u64;
        let are_keys = keys.is_sorted_by(|one, two| one.blot() < two.blot())
            && keys.last().is_none_or(is_here);
        if rest != Some(&[]) || keys.len() as u64 != *count || !are_keys {
            return Err(self.file.damaged(place.start, "not keys in their order"));
        }
        for key in &mut keys {
            let number = numbers.get(key.number() as usize);
            *key = K::new(
                key.blot(),
                number
                    .ok_or_else(|| self.file.damaged(place.start, "a missing set"))?
                    .get(),
            );
        }
        Ok(keys)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct NumbersDescription {
    kind: String,
    buckets: BucketRange,
    sets: u64,
}

/// The numbers that the sets of a range have in the whole.
pub struct SetNumbers {
    numbers: Vec<SetNo>,
    code: NumberCode,
}

impl SetNumbers {
    /// Writes the numbers that the sets of a range have in a share.
    pub fn write(path: &Path, numbers: &[SetNo], buckets: &Range<usize>) -> Result<()> {
        let failed = |error| Error::io(path.display(), error);
        let mut out = SealedWriter::create(path).map_err(failed)?;
        numbers
            .iter()
            .try_for_each(|number| out.write_all(&number.get().to_le_bytes()))
            .map_err(failed)?;
        let description = NumbersDescription {
            kind: NUMBERS.to_owned(),
            buckets: BucketRange::from(buckets),
            sets: numbers.len() as u64,
        };
        out.finish(&description).map(drop).map_err(failed)
    }

    /// Reads the files of a range, one of each share.
    pub fn of_range(order: &SetOrder, buckets: &Range<usize>, shares: &[PathBuf]) -> Result<Self> {
        if order.shares() != shares.len() {
            let what = format!("numbers of {} shares, of {}", shares.len(), order.shares());
            return Err(Error::Usage(what));
        }
        let mut numbers = Vec::new();
        for (share, path) in shares.iter().enumerate() {
            let file = Sealed::open(path)?;
            let of: NumbersDescription = file.describe()?;
            if of.kind != NUMBERS || of.buckets != BucketRange::from(buckets) {
                return Err(file.damaged(0, "not the set numbers of this range"));
            }
            let bytes = file.bytes(8, of.sets.saturating_mul(4))?;
            for bytes in bytes.as_chunks().0 {
                let number = SetNo::new(u32::from_le_bytes(*bytes));
                let number = order.number_of(share, number);
                numbers.push(number.ok_or_else(|| file.damaged(8, "a set that is not there"))?);
            }
        }
        Ok(Self {
            numbers,
            code: NumberCode::for_counts(&order.uses_by_length),
        })
    }
}

/// Writes the part of the index that has the postings of a range.
pub fn make_part(
    path: &Path,
    reduced: &RangePostings,
    numbers: &SetNumbers,
    threads: usize,
) -> Result<()> {
    if reduced.description.bits <= NARROW_BITS {
        make_part_as::<u64>(path, reduced, numbers, threads)
    } else {
        make_part_as::<u128>(path, reduced, numbers, threads)
    }
}

fn make_part_as<K: Key>(
    path: &Path,
    reduced: &RangePostings,
    numbers: &SetNumbers,
    threads: usize,
) -> Result<()> {
    let failed = |error| Error::io(path.display(), error);
    let mut out = SealedWriter::create(path).map_err(failed)?;
    let RangePostingsDescription {
        scheme,
        bits,
        buckets,
        postings,
        shared_blots,
        single,
        ..
    } = &reduced.description;
    let bucket_of = |run: usize| reduced.key_runs[run].bucket;
    let writer = SectionWriter {
        bits: *bits,
        buckets: reduced.buckets(),
        bucket_of: &bucket_of,
        postings: *postings,
        threads,
        failed: &failed,
    };
    let keys = |run: usize| reduced.keys::<K>(run, &numbers.numbers).map(Cow::Owned);
    let shared = writer.write(
        &mut out,
        NumberCodec::Code(numbers.code.clone()),
        &(0..reduced.key_runs.len()),
        *shared_blots,
        keys,
    )?;
    let mut copy = |[start, length]: Section| -> Result<Section> {
        let at = out.position();
        for piece in (0..length).step_by(COPY_BYTES as usize) {
            let bytes = reduced
                .file
                .bytes(start + piece, (length - piece).min(COPY_BYTES))?;
            out.write_all(bytes).map_err(failed)?;
        }
        Ok([at, length])
    };
    let mut single = single.clone();
    (single.data, single.directory) = (copy(single.data)?, copy(single.directory)?);
    single.places = single.places.map(copy).transpose()?;
    let (scheme, buckets) = (scheme.clone(), *buckets);
    out.finish(&PartDescription {
        kind: PART.kind.to_owned(),
        scheme,
        bits: *bits,
        buckets,
        shared,
        single,
    })
    .map_err(failed)?;
    Ok(())
}

const COPY_BYTES: u64 = 1 << 20;
