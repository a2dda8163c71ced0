//! Checks everything that can be checked: checksums, order, counts, cross-references.

use super::{Documents, Index, Segment};
use crate::error::{Error, Result};
use std::cmp::Ordering;
use xxhash_rust::xxh3::xxh3_64;

/// Nothing is wrong, or what is.
pub fn verify(index: &Index) -> Result<()> {
    for segment in &index.segments {
        segment.files().try_for_each(|file| file.verify())?;
        verify_documents(&segment.documents, index.manifest.numbers)?;
        let lengths = verify_sets(segment)?;
        verify_postings(segment, &lengths)?;
    }
    Ok(())
}

fn verify_documents(documents: &Documents, numbers: u32) -> Result<()> {
    let wrong = |what: String| documents.file().damaged(0, what);
    let mut last = None;
    for place in 0..documents.len() {
        let row = documents.row(place)?;
        let id = documents.id(place)?;
        if last >= Some(row.number) || row.number >= numbers {
            return Err(wrong(format!("document {} is out of order", row.number)));
        }
        last = Some(row.number);
        if documents.find_id(&id)? != Some(place) || xxh3_64(id.as_bytes()) != documents.row(place)?.id_hash() {
            return Err(wrong(format!("the id '{id}' is not found where it should be, or twice")));
        }
        verify_alias(documents, place, &wrong)?;
    }
    Ok(())
}

fn verify_alias(documents: &Documents, place: u32, wrong: &dyn Fn(String) -> Error) -> Result<()> {
    let row = documents.row(place)?;
    let representative = documents.place_of(row.representative)?;
    let Some(other) = representative.map(|place| documents.row(place)).transpose()? else {
        return Err(wrong(format!("document {} stands for {}, and is not there", row.representative, row.number)));
    };
    if other.is_alias() || other.hash != row.hash || other.blots != row.blots {
        return Err(wrong(format!("documents {} and {} are said to be equal, and are not", row.number, other.number)));
    }
    match row.hash.map(|hash| documents.find_hash(hash)).transpose()?.flatten() {
        found if row.hash.is_some() && found != representative => {
            Err(wrong(format!("the content of document {} is not found, or twice", row.number)))
        }
        _ => Ok(()),
    }
}

/// The length of each set.
fn verify_sets(segment: &Segment) -> Result<Vec<u32>> {
    let (mut lengths, mut members) = (Vec::new(), 0);
    segment.sets.for_each(|number, set| {
        if set.last().is_some_and(|&last| last >= segment.documents.len()) {
            return Err(segment.sets.file().damaged(0, format!("set {number} holds a document that is not there")));
        }
        lengths.push(set.len() as u32);
        members += set.len() as u64;
        Ok(())
    })?;
    if members != segment.sets.numbers() {
        return Err(segment
            .sets
            .file()
            .damaged(0, format!("the sets have {members} members, the description says {}", segment.sets.numbers())));
    }
    Ok(lengths)
}

fn verify_postings(segment: &Segment, lengths: &[u32]) -> Result<()> {
    let mut uses = vec![0_u64; lengths.len()];
    let mut blots_of = vec![0_u64; segment.documents.len() as usize];
    for part in &segment.parts {
        let mut shared = Vec::new();
        part.for_each_shared(|blot, set| {
            let uses = uses.get_mut(set as usize);
            *uses.ok_or_else(|| part.file().damaged(0, format!("blot {blot:x} has set {set}, there are {}", lengths.len())))? += 1;
            shared.push(blot);
            Ok(())
        })?;
        part.for_each_single(|blot, number| {
            if shared.binary_search(&blot).is_ok() {
                return Err(part.file().damaged(0, format!("blot {blot:x} is both shared and not")));
            }
            count(segment, &mut blots_of, number, 1)
        })?;
    }
    verify_order(segment, &uses)?;
    segment
        .sets
        .for_each(|set, numbers| numbers.iter().try_for_each(|&number| count(segment, &mut blots_of, number, uses[set as usize])))?;
    for place in 0..segment.documents.len() {
        let row = segment.documents.row(place)?;
        let expected = if row.is_alias() { 0 } else { u64::from(row.blots) };
        if blots_of[place as usize] != expected {
            let what = format!("document {} has {} blots, its row says {expected}", row.number, blots_of[place as usize]);
            return Err(segment.documents.file().damaged(0, what));
        }
    }
    Ok(())
}

fn count(segment: &Segment, blots_of: &mut [u64], place: u32, blots: u64) -> Result<()> {
    match blots_of.get_mut(place as usize) {
        Some(sum) => {
            *sum += blots;
            Ok(())
        }
        None => Err(segment.documents.file().damaged(0, format!("a blot leads to the document at place {place}, which is not there"))),
    }
}

/// Numbers fall with use; of equal ones the lesser list comes first. No two sets are equal.
fn verify_order(segment: &Segment, uses: &[u64]) -> Result<()> {
    let mut last: Option<(u64, Vec<u32>)> = None;
    segment.sets.for_each(|number, set| {
        let used = uses[number as usize];
        let is_right = used > 0
            && last.as_ref().is_none_or(|(before, list)| match before.cmp(&used) {
                Ordering::Greater => true,
                Ordering::Equal => list.as_slice() < set,
                Ordering::Less => false,
            });
        if !is_right {
            return Err(segment.sets.file().damaged(0, format!("set {number} is out of order, or not used")));
        }
        last = Some((used, set.to_vec()));
        Ok(())
    })
}
