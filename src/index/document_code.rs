//! The code of the documents of single blots.
//!
//! Documents of equal length have as many single blots each, and a fixed width is best for their
//! numbers. Where a few long documents have most of the blots, documents are ranked by falling
//! number of single blots, and ranks are written in the prefix code of set numbers; a table leads
//! from a rank to its document. On 461 MB of documentation that takes 11 bits instead of 16.
//!
//! Ranks and code come from a sample of the blots, so that spilled postings need not be read twice:
//! one half of the sample gives the ranks, the other one the code and what it saves. With one
//! sample for both, documents of equal length would seem to differ, and the code would lose.

use super::bucket::NumberCodec;
use crate::{
    base::{
        codec::NumberCode,
        error::Result,
        num::{ToU64, ToUsize},
    },
    index::posting::{Inverted, Key},
};
use std::{cmp::Reverse, ops::Range};

/// Of this many buckets, one gives ranks, and one gives the code.
const SAMPLED_BUCKETS: usize = 16;
/// Ranks are used if they save more bytes than this. They make look-ups a step longer.
const LEAST_SAVED_BYTES: u64 = 1 << 16;
/// Below this many single blots for each document, no code saves as much as the table takes.
const LEAST_BLOTS: u64 = 8;
/// The bits of an entry of the table.
const ENTRY_BITS: u64 = 32;

/// The best code for the documents of the single blots of some buckets. It depends on these blots
/// alone, not on the units that they are in.
pub(super) fn document_code<K: Key>(
    inverted: &Inverted<K>,
    buckets: &Range<usize>,
) -> Result<NumberCodec> {
    let documents = inverted.documents;
    let fixed_bits = 32 - documents.saturating_sub(1).leading_zeros();
    let fixed = NumberCodec::Fixed(fixed_bits);
    let units = inverted.units_in(buckets);
    let blots: u64 = units.map(|unit| inverted.lengths(unit)[1]).sum();
    let stride = SAMPLED_BUCKETS.min(buckets.len());
    if blots < LEAST_BLOTS * u64::from(documents) || stride < 2 {
        return Ok(fixed);
    }
    let mut counts = vec![0_u32; documents.to_usize()];
    for_each_sampled(inverted, buckets, stride, 0, |document| {
        counts[document.to_usize()] += 1;
    })?;
    let mut places: Vec<u32> = (0..documents).collect();
    places.sort_by_key(|place| Reverse(counts[place.to_usize()]));
    let mut rank_of = counts;
    (0..)
        .zip(&places)
        .for_each(|(rank, place)| rank_of[place.to_usize()] = rank);
    // Every length must have a codeword, also one that is not in the sample.
    let mut lengths = [0_u64; 33];
    lengths[..=fixed_bits.to_usize()].fill(1);
    let mut sampled = 0;
    for_each_sampled(inverted, buckets, stride, stride / 2, |document| {
        lengths[bit_length(rank_of[document.to_usize()])] += 1;
        sampled += 1;
    })?;
    let code = NumberCode::for_counts(&lengths);
    let width =
        |length: usize| u64::from(code.widths()[length]) + length.to_u64().saturating_sub(1);
    let ranked_bits: u64 = (0..=fixed_bits.to_usize())
        .map(|length| (lengths[length] - 1) * width(length))
        .sum();
    let saved_bits = (sampled * u64::from(fixed_bits)).saturating_sub(ranked_bits);
    let saved_bits = u128::from(saved_bits) * u128::from(blots) / u128::from(sampled.max(1));
    let least_bits = ENTRY_BITS * u64::from(documents) + 8 * LEAST_SAVED_BYTES;
    if saved_bits < u128::from(least_bits) {
        return Ok(fixed);
    }
    Ok(NumberCodec::Ranked {
        code,
        rank_of,
        places,
    })
}

fn bit_length(number: u32) -> usize {
    (32 - number.leading_zeros()).to_usize()
}

/// Calls `each` with the document of every single blot of some of the buckets.
fn for_each_sampled<K: Key>(
    inverted: &Inverted<K>,
    buckets: &Range<usize>,
    stride: usize,
    offset: usize,
    mut each: impl FnMut(u32),
) -> Result<()> {
    for bucket in buckets.clone().skip(offset).step_by(stride) {
        for unit in inverted.units_in(&(bucket..bucket + 1)) {
            inverted
                .peek_single(unit)?
                .iter()
                .for_each(|key| each(key.number()));
        }
    }
    Ok(())
}

/// The documents of ranks, as they are written.
pub(super) fn table_bytes(places: &[u32]) -> Vec<u8> {
    places
        .iter()
        .flat_map(|place| place.to_le_bytes())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::num::ToU32;
    use crate::{
        base::files::TempDir,
        index::{
            part::{BlotTarget, Part},
            part_writer,
            posting::{BUCKETS, Collector, Postings, invert},
            test_files,
        },
    };
    use std::collections::BTreeMap;

    const BITS: u8 = 32;

    /// Inverts documents with this many blots each, all of them single; also returns the blots.
    fn inverted(lengths: &[usize], memory: u64) -> (Inverted<u64>, BTreeMap<u64, u32>) {
        let mut collector = Collector::<u64>::new(BITS, memory, 2, TempDir(None));
        let (mut number, mut all) = (0_u64, BTreeMap::new());
        for (place, &length) in (0..).zip(lengths) {
            let blots: Vec<u64> = (0..length)
                .map(|_| {
                    number += 1;
                    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS)
                })
                .filter(|&blot| all.insert(blot, place).is_none())
                .collect();
            let postings = Postings::new(&blots, &[blots.len()], BITS);
            collector.add(&postings, &[Some(place)]).unwrap();
        }
        let inverted = invert(collector, lengths.len().to_u32(), memory, None)
            .unwrap()
            .0;
        (inverted, all)
    }

    #[test]
    fn long_documents_get_short_numbers_and_every_blot_is_found() {
        let mut lengths = vec![100; 1_000];
        lengths[777] = 150_000;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("part");
        let mut written = Vec::new();
        for memory in [1 << 26, 1 << 16] {
            let (inverted, blots) = inverted(&lengths, memory);
            let code = document_code(&inverted, &(0..BUCKETS)).unwrap();
            let NumberCodec::Ranked { places, .. } = &code else {
                panic!("the code is {code:?}");
            };
            assert_eq!(places[0], 777);
            part_writer::write(&path, &inverted, test_files::SCHEME, 0..BUCKETS, 2).unwrap();
            written.push(std::fs::read(&path).unwrap());
            let part = Part::open(&path).unwrap();
            let mut listed = BTreeMap::new();
            part.for_each_single(|blot, place| {
                listed.insert(blot, place);
                Ok(())
            })
            .unwrap();
            assert!(listed == blots);
            let sought: Vec<u64> = blots.keys().copied().step_by(97).collect();
            let mut found = Vec::new();
            part.find_all(&sought, &mut found).unwrap();
            for (blot, found) in sought.iter().zip(found) {
                assert_eq!(found, Some(BlotTarget::One(blots[blot])));
            }
        }
        assert!(written[0] == written[1]);
        let mut errors = 0;
        for at in test_files::body(&path).step_by(4_099) {
            let part = Part::open(&test_files::resealed_with_byte(&path, at, 0xff)).unwrap();
            errors += u32::from(part.for_each_single(|_, _| Ok(())).is_err());
        }
        assert!(errors > 0);
    }

    #[test]
    fn equal_documents_and_short_ones_have_a_fixed_width() {
        for lengths in [vec![400; 500], vec![5; 40_000], Vec::new()] {
            let (inverted, _) = inverted(&lengths, 1 << 26);
            let code = document_code(&inverted, &(0..BUCKETS)).unwrap();
            assert!(matches!(code, NumberCodec::Fixed(_)), "{code:?}");
        }
    }
}
