//! Which contents have enough of which others, found in shares: the work of deciding about near
//! duplicates, but for the order.
//!
//! A file lists the contents of a share that enough of is in others, in ascending order: the number
//! of contents skipped before it, the number of the others, and for each of these the number of
//! contents skipped before it and the number of blots that both have. All are varints.
//!
//! Where many contents may have enough of each other, as the pages of one template, listing all of
//! them would take the square of their number. Such a content has no others in the file, and is
//! *open*: the decision compares it with the few that stay.

use super::{
    discovery::Discovery,
    join::{Join, JoinScratch, Neighbour},
};
use crate::base::{
    codec::{Fields, put_varint},
    error::{Error, Result},
    files::{Sealed, SealedWriter},
    ids::ContentNo,
    num::{ToU32, ToU64, ToUsize},
    share::Share,
};
use serde::{Deserialize, Serialize};
use std::{
    io::Write,
    path::{Path, PathBuf},
};

const KIND: &str = "copies";
/// A content is open if finding the others visits more members of sets.
const MOST_VISITED: u64 = if cfg!(test) { 12 } else { 1 << 12 };
/// The place of a content that is not in the file.
const NOT_LISTED: u64 = u64::MAX;

/// What a file of copies says about itself.
#[derive(Debug, Serialize, Deserialize)]
struct CopyListDescription {
    kind: String,
    /// The checksum of the manifest of the index.
    index: String,
    /// The number of the share, and the number of shares.
    share: [u64; 2],
    contents: u64,
    /// The first content of the share, and the one after the last.
    range: [u64; 2],
    /// The list: start and length.
    copies: [u64; 2],
}

/// A content, and the others that have enough of it; none if it is open.
type Listed = (ContentNo, Option<Vec<Neighbour>>);

/// Finds the others that have enough of each content of a share, by the measure of the discovery,
/// and writes them to a file.
pub fn write_copies(
    discovery: &Discovery<'_>,
    share: Share,
    index: &str,
    path: &Path,
) -> Result<()> {
    let failed = |error| Error::io(path.display(), error);
    let mut out = SealedWriter::create(path).map_err(failed)?;
    let (start, range) = (out.position(), discovery.contents_of(share));
    let content_of = |item: usize| ContentNo::from_index(range.start + item);
    let itself = |item: usize, each: &mut dyn FnMut(ContentNo)| each(content_of(item));
    let work = |join: &Join<'_>, scratch: &mut JoinScratch, item: usize, out: &mut Vec<Listed>| {
        let content = content_of(item);
        let listed = copies_of(join, scratch, content);
        if listed.as_ref().is_none_or(|others| !others.is_empty()) {
            out.push((content, listed));
        }
    };
    let weigh = |listed: &Vec<Listed>| {
        let bytes = |(_, others): &Listed| 40 + 16 * others.as_ref().map_or(0, Vec::len).to_u64();
        listed.iter().map(bytes).sum()
    };
    let (mut bytes, mut next) = (Vec::new(), range.start.to_u32());
    let put = |listed: Vec<Listed>| {
        bytes.clear();
        for (content, others) in listed {
            put_varint(&mut bytes, u64::from(content.get() - next));
            next = content.get() + 1;
            put_others(&mut bytes, &others.unwrap_or_default());
        }
        out.write_all(&bytes).map_err(failed)
    };
    discovery.in_lots(range.len(), itself, work, weigh, put)?;
    let description = CopyListDescription {
        kind: KIND.to_owned(),
        index: index.to_owned(),
        share: [share.number, share.of].map(|number| number.to_u64()),
        contents: discovery.sets.contents().to_u64(),
        range: [range.start, range.end].map(|content| content.to_u64()),
        copies: [start, out.position() - start],
    };
    out.finish(&description).map(drop).map_err(failed)
}

/// The others that have enough of a content; none if it is open.
fn copies_of(
    join: &Join<'_>,
    scratch: &mut JoinScratch,
    content: ContentNo,
) -> Option<Vec<Neighbour>> {
    if !join.visits_at_most(content, MOST_VISITED) {
        return None;
    }
    let mut others = Vec::new();
    join.neighbours(scratch, content, &mut others);
    // Its documents are known to be the same.
    others.retain(|other| other.content != content);
    Some(others)
}

fn put_others(bytes: &mut Vec<u8>, others: &[Neighbour]) {
    put_varint(bytes, others.len().to_u64());
    let mut next = 0;
    for other in others {
        put_varint(bytes, u64::from(other.content.get() - next));
        put_varint(bytes, other.shared.into());
        next = other.content.get() + 1;
    }
}

/// The files of all shares. Memory: 8 bytes per content.
pub struct CopyLists {
    shares: Vec<ShareOfCopies>,
    contents: u64,
}

struct ShareOfCopies {
    file: Sealed,
    /// The section of the list.
    list: [u64; 2],
    first: usize,
    /// For each content, where its others start in the list.
    places: Vec<u64>,
}

impl CopyLists {
    /// Opens the files of all shares, in order, and checks every number.
    pub fn open(paths: &[PathBuf], index: &str, contents: usize) -> Result<Self> {
        let contents = contents.to_u64();
        let mut lists = Self {
            shares: Vec::new(),
            contents,
        };
        let mut next = 0;
        for (number, path) in paths.iter().enumerate() {
            let file = Sealed::open(path)?;
            let of: CopyListDescription = file.describe()?;
            let share = [number, paths.len()].map(|number| number.to_u64());
            let [start, end] = of.range;
            let is_it = of.kind == KIND && of.share == share && of.index == index;
            let is_last = share[0] + 1 == share[1];
            let follows = start == next && (start..=contents).contains(&end);
            if !is_it || of.contents != contents || !follows || (is_last && end != contents) {
                return Err(file.damaged(0, "the copies of another share, or of another index"));
            }
            next = end;
            lists.add(file, of)?;
        }
        Ok(lists)
    }

    fn add(&mut self, file: Sealed, of: CopyListDescription) -> Result<()> {
        let ([start, end], list) = (of.range, of.copies);
        let mut places = vec![NOT_LISTED; (end - start).to_usize()];
        let mut fields = Fields::new(file.bytes(list[0], list[1])?);
        let (mut next, mut others) = (start, Vec::new());
        while !fields.is_empty() {
            let at = list[1] - fields.left();
            let damaged = |what: String| file.damaged(list[0] + at, what);
            let skipped = fields.varint("content").map_err(damaged)?;
            let content = next.saturating_add(skipped);
            if content >= end {
                return Err(damaged(format!("content {content}, of {start} to {end}")));
            }
            places[(content - start).to_usize()] = list[1] - fields.left();
            read_others(&mut fields, self.contents, &mut others).map_err(damaged)?;
            next = content + 1;
        }
        self.shares.push(ShareOfCopies {
            file,
            list,
            first: start.to_usize(),
            places,
        });
        Ok(())
    }

    /// Replaces `out` by the others that have enough of a content, and the blots that both have.
    /// False if the content is open.
    pub(super) fn read(&self, content: ContentNo, out: &mut Vec<(ContentNo, u32)>) -> bool {
        out.clear();
        let after = |share: &ShareOfCopies| share.first <= content.index();
        let at = self.shares.partition_point(after);
        let Some(share) = at.checked_sub(1).map(|at| &self.shares[at]) else {
            return false;
        };
        match share.places.get(content.index() - share.first) {
            None => false,
            Some(&NOT_LISTED) => true,
            Some(&place) => {
                // All numbers were checked; if a disk fails now, the content counts as open.
                let [start, length] = share.list;
                let bytes = share.file.bytes(start + place, length - place);
                let read = bytes.map(|bytes| {
                    let mut fields = Fields::new(bytes);
                    read_others(&mut fields, self.contents, out)
                });
                matches!(read, Ok(Ok(()))) && !out.is_empty()
            }
        }
    }
}

fn read_others(
    fields: &mut Fields<'_>,
    contents: u64,
    out: &mut Vec<(ContentNo, u32)>,
) -> Result<(), String> {
    out.clear();
    let count = fields.varint("number of copies")?;
    let mut next = 0_u64;
    for _ in 0..count {
        let other = next.saturating_add(fields.varint("copy")?);
        let shared = fields.varint("shared blots")?;
        match u32::try_from(shared) {
            Ok(shared) if other < contents => out.push((ContentNo::new(other.to_u32()), shared)),
            _ => return Err(format!("{shared} blots in content {other}, of {contents}")),
        }
        next = other + 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{
        CommonTextRule, DiscoveryOptions, DuplicateDecision, DuplicateFilter, Measure, Score,
    };
    use super::*;
    use crate::base::parallel::Limits;
    use crate::index::{Index, View, test_files};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// The decisions on all contents, in the order of their numbers or against it, each compared
    /// with those that stay, and then each with all.
    fn decisions(
        discovery: &Discovery<'_>,
        copies: Option<&CopyLists>,
        is_reversed: bool,
    ) -> Vec<DuplicateDecision> {
        let mut contents: Vec<_> = ContentNo::first(discovery.sets.contents()).collect();
        if is_reversed {
            contents.reverse();
        }
        let measure = discovery.options.measure;
        let mut decided = Vec::new();
        let mut filter = DuplicateFilter::new(discovery, measure).with_copies(copies);
        let visit = |filter: &mut DuplicateFilter<'_>, at: usize| {
            decided.push(filter.visit(contents[at]));
        };
        filter.in_lots(&contents, visit).unwrap();
        let mut filter = DuplicateFilter::new(discovery, measure).with_copies(copies);
        for &content in &contents {
            filter.keep_always(content);
        }
        let compare = |filter: &mut DuplicateFilter<'_>, at: usize| {
            decided.push(filter.nearest_other(contents[at]));
        };
        filter.in_lots(&contents, compare).unwrap();
        decided
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn lists_of_copies_change_no_decision(
            groups in prop::collection::vec((1_usize..7, 3_u64..30), 1..9),
            few_bits in 6_u32..14, seed in any::<u64>(), threshold in 0.05_f64..1.0,
            score in prop::sample::select(vec![Score::Inclusion, Score::Jaccard]), shares in 1_usize..5,
        ) {
            let mut random = seed;
            let mut next = |below: u64| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (random >> 33) % below
            };
            let mut documents: Vec<BTreeSet<u64>> = Vec::new();
            for &(copies, length) in &groups {
                let text: Vec<u64> = (0..length).map(|_| next(1 << few_bits)).collect();
                for _ in 0..copies {
                    let changed = |blot: &u64| if next(6) == 0 { next(1 << few_bits) } else { *blot };
                    documents.push(text.iter().map(changed).collect());
                }
            }
            let directory = tempfile::tempdir().unwrap();
            let ids: Vec<String> = (0..documents.len()).map(|at| format!("{at:05}")).collect();
            let rows: Vec<_> = ids.iter().zip(&documents).enumerate()
                .map(|(at, (id, blots))| (id.as_str(), at.to_u64(), blots.iter().copied().collect()))
                .collect();
            test_files::commit(directory.path(), &rows, &[]);
            let index = Index::open(directory.path()).unwrap();
            let view = View::of(&index).unwrap();
            for memory_bytes in [1, 1 << 30] {
                let options = DiscoveryOptions {
                    measure: Measure { score, threshold, selection: None },
                    common: CommonTextRule::Counts,
                    limits: Limits::new(1, memory_bytes),
                };
                let discovery = Discovery::new(&view, options).unwrap();
                let paths: Vec<_> = (0..shares)
                    .map(|number| {
                        let path = directory.path().join(format!("copies-{number}"));
                        write_copies(&discovery, Share { number, of: shares }, "x", &path).unwrap();
                        path
                    })
                    .collect();
                let contents = view.contents().len();
                let copies = CopyLists::open(&paths, "x", contents).unwrap();
                for is_reversed in [false, true] {
                    let expected = decisions(&discovery, None, is_reversed);
                    prop_assert_eq!(decisions(&discovery, Some(&copies), is_reversed), expected);
                }
                prop_assert!(CopyLists::open(&paths, "y", contents).is_err());
                prop_assert!(shares == 1 || CopyLists::open(&paths[1..], "x", contents).is_err());
            }
        }
    }
}
