//! Merges the blots of several segments into one rising stream.
//!
//! Most blots occur in one segment only: they keep their set, which is translated to new numbers
//! once. For a blot of several segments the merger builds the union of its sets. All windows of a
//! copied passage have the same sets in the same segments, so each union is built once and cached.

use super::{open::Segment, part::BlotTarget};
use crate::{
    base::{
        error::{Error, Result},
        ids::SetNo,
    },
    index::posting::{InvertRanges, InvertedRange, Key, SetDictionary, Sets, blots_of},
};
use std::{collections::HashMap, ops::Range};

/// Stands for "no new number": the document was removed, so its postings no longer count.
pub const NONE: u32 = u32::MAX;

/// The live documents or contents of a blot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergedTarget {
    /// The only document or content, by its new number.
    One(u32),
    /// A set of the merger's dictionary.
    Set(SetNo),
}

/// The result of translating a set to new numbers.
#[derive(Debug, Clone, Copy)]
enum TranslatedSet {
    NotYet,
    Nothing,
    MergedTarget(MergedTarget),
}

#[derive(Debug, Clone, Copy)]
struct MergeEntry {
    blot: u64,
    segment: u32,
    posted: BlotTarget,
}

impl MergeEntry {
    /// What it leads to, in its segment.
    fn key(&self) -> u64 {
        let (kind, number) = match self.posted {
            BlotTarget::One(place) => (0, place),
            BlotTarget::Set(set) => (1, set.get()),
        };
        u64::from(self.segment) << 33 | kind << 32 | u64::from(number)
    }
}

/// Memory: the sets, eight bytes for each set of each segment that is remembered, and some fifty
/// for each union of them.
pub struct Merger<'v> {
    bits: u8,
    segments: &'v [&'v Segment],
    /// For each segment and place, the new number, or `NONE`.
    targets: &'v [Vec<u32>],
    dictionary: SetDictionary,
    known: Vec<Vec<TranslatedSet>>,
    /// The merged target of a blot of several segments, by its targets in them.
    unions: HashMap<Box<[u64]>, Option<MergedTarget>>,
    most_unions: usize,
    key: Vec<u64>,
    list: Vec<u32>,
    entries: Vec<MergeEntry>,
}

impl<'v> Merger<'v> {
    /// Merges segments; `targets` has the new number of each place, or [`NONE`].
    pub fn new(bits: u8, segments: &'v [&'v Segment], targets: &'v [Vec<u32>]) -> Self {
        let known = segments
            .iter()
            .map(|segment| vec![TranslatedSet::NotYet; segment.sets.len() as usize])
            .collect();
        let (unions, key, list, entries) = (HashMap::new(), Vec::new(), Vec::new(), Vec::new());
        Self {
            bits,
            segments,
            targets,
            dictionary: SetDictionary::default(),
            known,
            unions,
            most_unions: usize::MAX,
            key,
            list,
            entries,
        }
    }

    /// Remembers what became of this many sets at most, and of fewer unions. Sets are numbered by
    /// falling use, so it is the first ones that are worth it.
    pub fn remembering(mut self, most: usize) -> Self {
        self.most_unions = most / 8;
        let most = most / self.known.len().max(1);
        for known in &mut self.known {
            known.truncate(most);
            known.shrink_to_fit();
        }
        self
    }

    /// Calls `each` with every blot of some slices that still leads to something, in rising order.
    pub fn for_each(
        &mut self,
        slices: &Range<usize>,
        mut each: impl FnMut(u64, MergedTarget, &SetDictionary) -> Result<()>,
    ) -> Result<()> {
        let mut entries = std::mem::take(&mut self.entries);
        let (first, last) = blots_of(slices, self.bits);
        self.collect(first, last, &mut entries, |_| true)?;
        for group in entries.chunk_by(|one, two| one.blot == two.blot) {
            let found = if let [entry] = group {
                self.translate(entry)?
            } else {
                self.unite_once(group)?
            };
            if let Some(found) = found {
                each(group[0].blot, found, &self.dictionary)?;
            }
        }
        self.entries = entries;
        Ok(())
    }

    /// As [`Merger::for_each`], where one segment has nearly all blots, and nearly all of these are
    /// shared: they are neither collected nor sorted.
    pub fn for_each_beside(
        &mut self,
        large: usize,
        slices: &Range<usize>,
        mut each: impl FnMut(u64, MergedTarget, &SetDictionary) -> Result<()>,
    ) -> Result<()> {
        let (first, last) = blots_of(slices, self.bits);
        let mut entries = std::mem::take(&mut self.entries);
        self.collect(first, last, &mut entries, |segment| {
            segment as usize != large
        })?;
        let (segments, segment) = (self.segments, large as u32);
        let entry = |blot: u64, posted: BlotTarget| MergeEntry {
            blot,
            segment,
            posted,
        };
        for part in &segments[large].parts {
            part.for_each_single_between(first, last, |blot, posted| {
                entries.push(entry(blot, posted));
                Ok(())
            })?;
        }
        entries.sort_by_key(|entry| entry.blot);
        let mut groups = entries.chunk_by(|one, two| one.blot == two.blot).peekable();
        let mut united = Vec::new();
        for part in &segments[large].parts {
            part.for_each_shared_between(first, last, |blot, posted| {
                while let Some(group) = groups.next_if(|group| group[0].blot < blot) {
                    if let Some(found) = self.unite_once(group)? {
                        each(group[0].blot, found, &self.dictionary)?;
                    }
                }
                let found = match groups.next_if(|group| group[0].blot == blot) {
                    None => self.translate(&entry(blot, posted))?,
                    Some(group) => {
                        united.clear();
                        united.push(entry(blot, posted));
                        united.extend_from_slice(group);
                        self.unite_once(&united)?
                    }
                };
                found.map_or(Ok(()), |found| each(blot, found, &self.dictionary))
            })?;
        }
        for group in groups {
            if let Some(found) = self.unite_once(group)? {
                each(group[0].blot, found, &self.dictionary)?;
            }
        }
        self.entries = entries;
        Ok(())
    }

    /// Replaces `entries` by what some segments have from one blot to another, in rising order.
    fn collect(
        &self,
        first: u64,
        last: u64,
        entries: &mut Vec<MergeEntry>,
        is_wanted: impl Fn(u32) -> bool,
    ) -> Result<()> {
        entries.clear();
        for (segment, searched) in (0..)
            .zip(self.segments)
            .filter(|(segment, _)| is_wanted(*segment))
        {
            for part in &searched.parts {
                part.for_each_between(first, last, |blot, posted| {
                    entries.push(MergeEntry {
                        blot,
                        segment,
                        posted,
                    });
                    Ok(())
                })?;
            }
        }
        // Runs that are sorted already: the stable sort finds and merges them.
        entries.sort_by_key(|entry| entry.blot);
        Ok(())
    }

    /// As [`Merger::for_each`], in any order: with one segment nothing must be sorted.
    pub fn for_each_unordered(
        &mut self,
        slices: &Range<usize>,
        mut each: impl FnMut(u64, MergedTarget, &SetDictionary),
    ) -> Result<()> {
        let [only] = self.segments else {
            return self.for_each(slices, |blot, found, dictionary| {
                each(blot, found, dictionary);
                Ok(())
            });
        };
        let (first, last) = blots_of(slices, self.bits);
        for part in &only.parts {
            part.for_each_between(first, last, |blot, posted| {
                if let Some(found) = self.translate(&MergeEntry {
                    blot,
                    segment: 0,
                    posted,
                })? {
                    each(blot, found, &self.dictionary);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Counts the blots of each set, without visiting blots of one document if it can.
    fn count_sets(&mut self, slices: &Range<usize>) -> Result<()> {
        let [only] = self.segments else {
            return self.for_each(slices, |_, _, _| Ok(()));
        };
        let (first, last) = blots_of(slices, self.bits);
        // What one document of a single segment has is in no set.
        for part in &only.parts {
            part.for_each_shared_between(first, last, |blot, posted| {
                self.translate(&MergeEntry {
                    blot,
                    segment: 0,
                    posted,
                })
                .map(drop)
            })?;
        }
        Ok(())
    }

    fn translate(&mut self, entry: &MergeEntry) -> Result<Option<MergedTarget>> {
        let set = match entry.posted {
            BlotTarget::One(place) => {
                let target = self.targets[entry.segment as usize].get(place as usize);
                let target = *target.ok_or_else(|| self.beyond(entry, place))?;
                return Ok((target != NONE).then_some(MergedTarget::One(target)));
            }
            BlotTarget::Set(set) => set.index(),
        };
        match self.known[entry.segment as usize].get(set).copied() {
            Some(TranslatedSet::Nothing) => Ok(None),
            Some(TranslatedSet::MergedTarget(found)) => {
                if let MergedTarget::Set(number) = found {
                    self.dictionary.again(number);
                }
                Ok(Some(found))
            }
            // A number beyond all sets is refused when it is read.
            Some(TranslatedSet::NotYet) | None => {
                let found = self.unite(std::slice::from_ref(entry))?;
                if let Some(known) = self.known[entry.segment as usize].get_mut(set) {
                    *known = found.map_or(TranslatedSet::Nothing, TranslatedSet::MergedTarget);
                }
                Ok(found)
            }
        }
    }

    fn unite_once(&mut self, entries: &[MergeEntry]) -> Result<Option<MergedTarget>> {
        self.key.clear();
        self.key.extend(entries.iter().map(MergeEntry::key));
        if let Some(&found) = self.unions.get(&self.key[..]) {
            if let Some(MergedTarget::Set(number)) = found {
                self.dictionary.again(number);
            }
            return Ok(found);
        }
        let found = self.unite(entries)?;
        if self.unions.len() < self.most_unions {
            self.unions.insert(self.key[..].into(), found);
        }
        Ok(found)
    }

    fn unite(&mut self, entries: &[MergeEntry]) -> Result<Option<MergedTarget>> {
        self.list.clear();
        for entry in entries {
            self.add_targets(entry)?;
        }
        self.list.sort_unstable();
        self.list.dedup();
        Ok(match *self.list {
            [] => None,
            [only] => Some(MergedTarget::One(only)),
            _ => Some(MergedTarget::Set(self.dictionary.number(&self.list))),
        })
    }

    fn add_targets(&mut self, entry: &MergeEntry) -> Result<()> {
        let (segment, targets) = (
            self.segments[entry.segment as usize],
            &self.targets[entry.segment as usize],
        );
        let start = self.list.len();
        match entry.posted {
            BlotTarget::One(place) => self.list.push(place),
            BlotTarget::Set(set) => {
                let mut places = Vec::new();
                segment.sets.read(set, &mut places)?;
                self.list.extend(places);
            }
        }
        for place in &mut self.list[start..] {
            match targets.get(*place as usize) {
                Some(target) => *place = *target,
                None => {
                    let place = *place;
                    return Err(self.beyond(entry, place));
                }
            }
        }
        self.list.retain(|&target| target != NONE);
        Ok(())
    }

    fn beyond(&self, entry: &MergeEntry, place: u32) -> Error {
        let what = format!(
            "blot {:x} leads to the document at place {place}, which is not there",
            entry.blot
        );
        self.segments[entry.segment as usize]
            .documents
            .file()
            .damaged(0, what)
    }
}

/// Rewrites postings with the new numbers.
impl<K: Key> InvertRanges<K> for Merger<'_> {
    fn unit(&mut self, slices: &Range<usize>) -> Result<InvertedRange<K>> {
        let mut unit = InvertedRange {
            shared: Vec::new(),
            single: Vec::new(),
        };
        self.for_each(slices, |blot, found, _| {
            match found {
                MergedTarget::One(number) => unit.single.push(K::new(blot, number)),
                MergedTarget::Set(set) => unit.shared.push(K::new(blot, set.get())),
            }
            Ok(())
        })?;
        Ok(unit)
    }

    fn dictionary(&self) -> &SetDictionary {
        &self.dictionary
    }

    fn take_dictionary(&mut self) -> SetDictionary {
        self.known
            .iter_mut()
            .for_each(|known| known.fill(TranslatedSet::NotYet));
        self.unions.clear();
        std::mem::take(&mut self.dictionary)
    }
}

/// Finds the sets and the number of blots of each, and no postings.
pub struct CountSets<'v>(pub Merger<'v>);

impl<K: Key> InvertRanges<K> for CountSets<'_> {
    fn unit(&mut self, slices: &Range<usize>) -> Result<InvertedRange<K>> {
        self.0.count_sets(slices)?;
        Ok(InvertedRange {
            shared: Vec::new(),
            single: Vec::new(),
        })
    }

    fn dictionary(&self) -> &SetDictionary {
        &self.0.dictionary
    }

    fn take_dictionary(&mut self) -> SetDictionary {
        InvertRanges::<K>::take_dictionary(&mut self.0)
    }
}

/// As [`CountSets`], where one segment has nearly all blots: those of the others are looked up in
/// it. For a blot of the large segment alone it reads only the set, and it sorts nothing.
///
/// Memory: 8 bytes for each set of the large segment.
pub struct CountSetsBesideLargest<'v> {
    merger: Merger<'v>,
    large: usize,
    /// The number of blots of each set of the large segment that no other segment has. Signed,
    /// because a blot may be subtracted before it is counted, or by another thread.
    uses: Vec<i64>,
}

impl<'v> CountSetsBesideLargest<'v> {
    /// Counts beside the segment `large`.
    pub fn new(merger: Merger<'v>, large: usize) -> Self {
        let uses = vec![0; merger.segments[large].sets.len() as usize];
        Self {
            merger,
            large,
            uses,
        }
    }

    fn count(&mut self, slices: &Range<usize>) -> Result<()> {
        let Self {
            merger,
            large,
            uses,
        } = self;
        let (first, last) = blots_of(slices, merger.bits);
        let segment = merger.segments[*large];
        let mut is_past_end = false;
        for part in &segment.parts {
            part.for_each_set_between(first, last, |set| match uses.get_mut(set.index()) {
                Some(uses) => *uses += 1,
                None => is_past_end = true,
            })?;
        }
        if is_past_end {
            return Err(segment
                .sets
                .file()
                .damaged(0, "a blot refers to a missing set"));
        }
        let mut entries = std::mem::take(&mut merger.entries);
        merger.collect(first, last, &mut entries, |segment| {
            segment as usize != *large
        })?;
        let blots: Vec<u64> = entries
            .chunk_by(|one, two| one.blot == two.blot)
            .map(|group| group[0].blot)
            .collect();
        let mut found = Vec::with_capacity(blots.len());
        segment.find_all(&blots, merger.bits, &mut found)?;
        let mut group_and_large = Vec::new();
        for (group, found) in entries.chunk_by(|one, two| one.blot == two.blot).zip(found) {
            match (group, found) {
                ([entry], None) => drop(merger.translate(entry)?),
                (group, None) => drop(merger.unite_once(group)?),
                (group, Some(posted)) => {
                    if let BlotTarget::Set(set) = posted {
                        uses[set.index()] -= 1;
                    }
                    group_and_large.clear();
                    group_and_large.push(MergeEntry {
                        blot: group[0].blot,
                        segment: *large as u32,
                        posted,
                    });
                    group_and_large.extend_from_slice(group);
                    merger.unite_once(&group_and_large)?;
                }
            }
        }
        merger.entries = entries;
        Ok(())
    }

    /// All sets of what several counted.
    pub fn join(mut counted: Vec<Self>) -> Result<Sets> {
        let Some(first) = counted.first() else {
            return Ok(Sets::default());
        };
        let (segment, targets) = (
            first.merger.segments[first.large],
            &first.merger.targets[first.large],
        );
        let (mut sets, mut list) = (SetDictionary::default(), Vec::new());
        segment.sets.for_each(|number, places| {
            let uses: i64 = counted
                .iter()
                .map(|counted| counted.uses[number.index()])
                .sum();
            if uses <= 0 {
                return Ok(());
            }
            list.clear();
            for &place in places {
                let Some(&target) = targets.get(place as usize) else {
                    return Err(segment.documents.file().damaged(
                        0,
                        format!("a set has the document at place {place}, which is not there"),
                    ));
                };
                list.extend((target != NONE).then_some(target));
            }
            list.sort_unstable();
            if list.len() > 1 {
                sets.add(&list, uses as u64);
            }
            Ok(())
        })?;
        let others = counted
            .iter_mut()
            .map(|counted| std::mem::take(&mut counted.merger.dictionary));
        Ok(Sets::join([sets].into_iter().chain(others).collect()).0)
    }
}

impl<K: Key> InvertRanges<K> for CountSetsBesideLargest<'_> {
    fn unit(&mut self, slices: &Range<usize>) -> Result<InvertedRange<K>> {
        self.count(slices)?;
        Ok(InvertedRange {
            shared: Vec::new(),
            single: Vec::new(),
        })
    }

    fn dictionary(&self) -> &SetDictionary {
        &self.merger.dictionary
    }

    /// It is joined with what was counted beside it.
    fn take_dictionary(&mut self) -> SetDictionary {
        SetDictionary::default()
    }
}

/// As [`CountSets`], but for blots that do not count.
pub struct CountSetsWithout<'v> {
    /// Merges the segments.
    pub merger: Merger<'v>,
    /// The blots that are not counted.
    pub left_out: &'v ExcludedBlots<'v>,
    /// Of each content, how many of its blots do not count.
    pub of: Vec<u32>,
}

/// Blots that do not count: given ones, and those of other indexes.
#[derive(Default)]
pub struct ExcludedBlots<'v> {
    /// In rising order.
    pub blots: Vec<u64>,
    /// The indexes whose blots are left out.
    pub views: Vec<super::view::View<'v>>,
}

impl ExcludedBlots<'_> {
    /// Whether no blot is left out.
    pub fn is_empty(&self) -> bool {
        self.blots.is_empty() && self.views.is_empty()
    }

    /// Those of some slices, in rising order.
    fn blots_in(&self, slices: &Range<usize>, bits: u8) -> Result<Vec<u64>> {
        let (first, last) = blots_of(slices, bits);
        let place = |blot: u64| self.blots.partition_point(|&other| other < blot);
        let mut blots =
            self.blots[place(first)..self.blots.partition_point(|&other| other <= last)].to_vec();
        for view in &self.views {
            view.merger().for_each(slices, |blot, _, _| {
                blots.push(blot);
                Ok(())
            })?;
        }
        blots.sort_unstable();
        Ok(blots)
    }
}

impl<K: Key> InvertRanges<K> for CountSetsWithout<'_> {
    fn unit(&mut self, slices: &Range<usize>) -> Result<InvertedRange<K>> {
        let blots = self.left_out.blots_in(slices, self.merger.bits)?;
        let mut dropped = Vec::new();
        self.merger.for_each(slices, |blot, found, _| {
            if blots.binary_search(&blot).is_ok() {
                dropped.push(found);
            }
            Ok(())
        })?;
        for found in dropped {
            match found {
                MergedTarget::One(content) => self.of[content as usize] += 1,
                MergedTarget::Set(set) => {
                    self.merger.dictionary.once_less(set);
                    self.merger
                        .dictionary
                        .get(set)
                        .iter()
                        .for_each(|&content| self.of[content as usize] += 1);
                }
            }
        }
        Ok(InvertedRange {
            shared: Vec::new(),
            single: Vec::new(),
        })
    }

    fn dictionary(&self) -> &SetDictionary {
        &self.merger.dictionary
    }

    fn take_dictionary(&mut self) -> SetDictionary {
        std::mem::take(&mut self.merger.dictionary)
    }
}
