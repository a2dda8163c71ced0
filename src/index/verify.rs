//! Checks everything that can be checked: checksums, order, counts, cross-references.

use super::{Index, RowLocation, Segment, sections::SECTIONS};
use crate::base::{error::Result, files::Sealed};
use std::cmp::Ordering;
use xxhash_rust::xxh3::xxh3_64;

/// A segment that is being verified.
pub struct SegmentCheck<'i> {
    /// The segment.
    pub segment: &'i Segment,
    /// How many numbers of documents the index has given.
    pub numbers: u32,
    /// Whether the index holds only a range of the blots.
    pub is_part: bool,
}

/// Checks the whole index; an error says what is wrong, and where.
pub fn verify(index: &Index) -> Result<()> {
    for segment in &index.segments {
        segment.files().try_for_each(Sealed::verify)?;
        let check = SegmentCheck {
            segment,
            numbers: index.manifest.numbers,
            is_part: index.manifest.range.is_some(),
        };
        for reader in SECTIONS
            .iter()
            .filter_map(|section| section.reader.as_ref())
        {
            (reader.verify)(&check)?;
        }
    }
    for file in index.manifest.state.iter().chain(&index.manifest.texts) {
        file.open(&index.directory)?.verify()?;
    }
    for &generation in index.manifest.pins.values() {
        index.manifest.at(&index.directory, generation)?;
    }
    verify_numbers(index)?;
    verify_contents(index)
}

/// Every byte is as it was written; whether it makes sense is left to [`verify`].
pub fn verify_blocks(index: &Index) -> Result<()> {
    index
        .segments
        .iter()
        .flat_map(Segment::files)
        .try_for_each(Sealed::verify)
}

/// Checks that rows are in order, and that ids and contents are found.
pub(super) fn verify_documents(check: &SegmentCheck<'_>) -> Result<()> {
    let documents = &check.segment.documents;
    let numbers = check.numbers;
    let wrong = |what: String| documents.file().damaged(0, what);
    let mut last = None;
    for place in 0..documents.len() {
        let (row, id) = (documents.row(place)?, documents.id(place)?);
        if last >= Some(row.number) || row.number >= numbers {
            return Err(wrong(format!("document {} is out of order", row.number)));
        }
        last = Some(row.number);
        if documents.find_id(&id)? != Some(place) || xxh3_64(id.as_bytes()) != row.id_hash() {
            return Err(wrong(format!(
                "the id '{id}' is not found where it should be, or twice"
            )));
        }
        if let Some(hash) = row.hash.filter(|_| !row.is_alias())
            && documents.find_hash(hash)? != Some(place)
        {
            return Err(wrong(format!(
                "the content of document {} is not found, or twice",
                row.number
            )));
        }
        if row.is_alias() && !documents.has_alias(row.representative, place)? {
            return Err(wrong(format!(
                "document {} is not among the aliases of {}",
                row.number, row.representative
            )));
        }
    }
    Ok(())
}

/// Each number is that of one document, or of one content whose first document is gone, or free.
fn verify_numbers(index: &Index) -> Result<()> {
    let mut holders = vec![0_u8; index.manifest.numbers as usize];
    for (segment, searched) in index.segments.iter().enumerate() {
        let wrong = |what: String| searched.documents.file().damaged(0, what);
        for place in 0..searched.documents.len() {
            let row = searched.documents.row(place)?;
            let is_held = index.is_listed(segment, row.number)?
                || (!row.is_alias() && index.is_posted(segment, row.number)?);
            holders[row.number as usize] += u8::from(is_held);
            if holders[row.number as usize] > 1 {
                return Err(wrong(format!("number {} is given twice", row.number)));
            }
        }
        let effects = searched.documents.effects()?;
        let last = effects
            .retired
            .last()
            .max(effects.gone.last())
            .max(effects.free.last());
        if last >= Some(index.manifest.numbers) {
            return Err(wrong("a number is beyond all numbers".to_owned()));
        }
    }
    let free = index.free_numbers()?;
    match (0..)
        .zip(&holders)
        .find(|&(number, &held)| free.contains(number) == (held == 1))
    {
        None => Ok(()),
        Some((number, _)) => {
            let newest = &index.segments[index.segments.len() - 1].documents;
            Err(newest
                .file()
                .damaged(0, format!("number {number} is free and taken, or neither")))
        }
    }
}

/// Each document has its content, and each content that is posted has a document.
fn verify_contents(index: &Index) -> Result<()> {
    for (segment, searched) in index.segments.iter().enumerate() {
        let documents = &searched.documents;
        let wrong = |what: String| documents.file().damaged(0, what);
        for place in 0..documents.len() {
            let (at, row) = (RowLocation { segment, place }, documents.row(place)?);
            if !row.is_alias()
                && index.is_posted(segment, row.number)?
                && index.documents_of(at)?.is_empty()
            {
                return Err(wrong(format!(
                    "the content of document {} is posted, and no document has it",
                    row.number
                )));
            }
            if !index.is_listed(segment, row.number)? {
                continue;
            }
            if index.find_id(&documents.id(place)?)? != Some(at) {
                return Err(wrong(format!(
                    "the id of document {} is not found, or twice",
                    row.number
                )));
            }
            let Some(content) = index.find_number(row.representative)? else {
                return Err(wrong(format!(
                    "document {} stands for {}, and is not there",
                    row.representative, row.number
                )));
            };
            let other = index.row(content)?;
            if other.is_alias()
                || (other.hash, other.blots, other.posted, other.tokens)
                    != (row.hash, row.blots, row.posted, row.tokens)
            {
                return Err(wrong(format!(
                    "documents {} and {} are said to be equal, and are not",
                    row.number, other.number
                )));
            }
            if let Some(hash) = row.hash
                && index.find_content(hash)? != Some(content)
            {
                return Err(wrong(format!(
                    "the content of document {} is posted twice",
                    row.number
                )));
            }
        }
    }
    Ok(())
}

/// The members of each set are documents, and there are as many as the description says.
pub(super) fn verify_sets(check: &SegmentCheck<'_>) -> Result<()> {
    let segment = check.segment;
    let mut members = 0;
    segment.sets.for_each(|number, set| {
        if set
            .last()
            .is_some_and(|&last| last >= segment.documents.len())
        {
            return Err(segment
                .sets
                .file()
                .damaged(0, format!("set {number} holds a missing document")));
        }
        members += set.len() as u64;
        Ok(())
    })?;
    if members != segment.sets.numbers() {
        return Err(segment.sets.file().damaged(
            0,
            format!(
                "the sets have {members} members, the description says {}",
                segment.sets.numbers()
            ),
        ));
    }
    Ok(())
}

/// Each blot leads to a set or a document that is there, and each document has as many blots as its
/// row says, or fewer in an index of a range of the blots.
///
/// The sets have been verified before: there are as many as their description says.
pub(super) fn verify_postings(check: &SegmentCheck<'_>) -> Result<()> {
    let segment = check.segment;
    let is_part = check.is_part;
    let sets = segment.sets.len();
    let mut uses = vec![0_u64; sets as usize];
    let mut blots_of = vec![0_u64; segment.documents.len() as usize];
    for part in &segment.parts {
        let mut shared = Vec::new();
        part.for_each_shared(|blot, set| {
            let uses = uses.get_mut(set.index());
            *uses.ok_or_else(|| {
                part.file()
                    .damaged(0, format!("blot {blot:x} has set {set}, there are {sets}"))
            })? += 1;
            shared.push(blot);
            Ok(())
        })?;
        part.for_each_single(|blot, number| {
            if shared.binary_search(&blot).is_ok() {
                return Err(part
                    .file()
                    .damaged(0, format!("blot {blot:x} is both shared and not")));
            }
            count(segment, &mut blots_of, number, 1)
        })?;
    }
    verify_order(segment, &uses)?;
    segment.sets.for_each(|set, numbers| {
        numbers
            .iter()
            .try_for_each(|&number| count(segment, &mut blots_of, number, uses[set.index()]))
    })?;
    for place in 0..segment.documents.len() {
        let row = segment.documents.row(place)?;
        let expected = if row.is_alias() {
            0
        } else {
            u64::from(row.posted)
        };
        let found = blots_of[place as usize];
        if found > expected || (found < expected && !is_part) {
            let what = format!(
                "document {} has {found} blots, its row says {expected}",
                row.number
            );
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
        None => Err(segment.documents.file().damaged(
            0,
            format!("a blot leads to the document at place {place}, which is not there"),
        )),
    }
}

/// Numbers fall with use; of equal ones the lesser list comes first. No two sets are equal.
fn verify_order(segment: &Segment, uses: &[u64]) -> Result<()> {
    let mut last: Option<(u64, Vec<u32>)> = None;
    segment.sets.for_each(|number, set| {
        let used = uses[number.index()];
        let is_right = used > 0
            && last
                .as_ref()
                .is_none_or(|(before, list)| match before.cmp(&used) {
                    Ordering::Greater => true,
                    Ordering::Equal => list.as_slice() < set,
                    Ordering::Less => false,
                });
        if !is_right {
            return Err(segment
                .sets
                .file()
                .damaged(0, format!("set {number} is out of order, or not used")));
        }
        last = Some((used, set.to_vec()));
        Ok(())
    })
}
