//! Rewrites several segments, or several indexes, as one segment.
//!
//! If a whole index is rewritten, its documents are renumbered without gaps: the result is, byte for
//! byte, what `build` writes for the same documents.

use super::{
    documents::CommitEffects,
    manifest::{BlotRange, Manifest, SegmentEntry},
    merge::Merger,
    number_set::NumberSet,
    open::Index,
    segment::{Resources, SegmentFiles},
    view::View,
    word_file::WordMerger,
};
use crate::{
    base::error::Result,
    index::posting::{BUCKETS, Inversion, Key, NARROW_BITS, SLICES, SpillTo, WordLists},
    text::scheme::BlotScheme,
};
use std::{ops::Range, path::Path};

/// With this many segments between two pins, some of them are joined.
const MOST_SEGMENTS: usize = 8;

impl Index {
    /// The numbers that no document has.
    pub fn free_numbers(&self) -> Result<NumberSet> {
        Ok(match self.segments.last() {
            Some(newest) => newest.documents.effects()?.free.clone(),
            None => NumberSet::default(),
        })
    }

    /// Which neighbouring segments should be made into one, if they pile up: small ones go
    /// together, until the next one is more than twice as large as all that are newer. So a posting
    /// is written anew only as often as the index doubles. Segments before and after a pinned
    /// generation stay apart.
    pub fn piled_up(&self) -> Option<Range<usize>> {
        self.manifest
            .groups()
            .into_iter()
            .rev()
            .find_map(|group| self.pile_in(group))
    }

    fn pile_in(&self, group: Range<usize>) -> Option<Range<usize>> {
        let bytes =
            |segment: &SegmentEntry| segment.files.iter().map(|file| file.bytes).sum::<u64>();
        let sizes: Vec<u64> = self.manifest.segments[group.clone()]
            .iter()
            .map(bytes)
            .collect();
        if sizes.len() < MOST_SEGMENTS {
            return None;
        }
        let (mut from, mut newer) = (sizes.len() - 1, sizes[sizes.len() - 1]);
        while from > 0 && sizes[from - 1] <= 2 * newer {
            from -= 1;
            newer += sizes[from];
        }
        // With sizes that double from one to the next there is no pile, but the last two are still
        // one too many. Before a pin two may have to stay two.
        let least = if group.end == self.segments.len() {
            2
        } else {
            3
        };
        Some(group.start + from.min(sizes.len() - least)..group.end)
    }

    /// The oldest segments that compaction would make into one; none if it would change nothing.
    pub fn loose(&self) -> Result<Option<Range<usize>>> {
        for group in self.manifest.groups() {
            if !self.is_joined(&group)? {
                return Ok(Some(group));
            }
        }
        Ok(None)
    }

    /// Whether the segments of a group are what [`Index::compacted`] would leave of them.
    fn is_joined(&self, group: &Range<usize>) -> Result<bool> {
        if group.len() != 2 || group.end == self.segments.len() {
            return Ok(group.len() < 2);
        }
        // Contents whose documents are gone, and the documents.
        let (older, newer) = (
            &self.segments[group.start].documents,
            self.segments[group.start + 1].documents.effects()?,
        );
        Ok(newer.retired.is_empty() && newer.gone.len() == u64::from(older.len()))
    }

    /// Whether it is one segment.
    pub fn is_compact(&self) -> bool {
        self.segments.len() <= 1
    }

    /// Writes some neighbouring segments as one, and gives the manifest that names it. Of older
    /// ones than the newest two may be left, see `Index::joined`.
    pub fn compacted(&self, range: Range<usize>, resources: &Resources) -> Result<Manifest> {
        if range.end < self.segments.len() {
            return self.joined(range, resources);
        }
        let from = range.start;
        let view = View::of_newest(self, from)?;
        let generation = self.manifest.generation + 1;
        let effects = if from == 0 {
            CommitEffects::default()
        } else {
            self.effects_from(from)?
        };
        let segment = self.write_segment(
            generation,
            self.changes_of(&range),
            &view,
            &effects,
            resources,
        )?;
        let numbers = if from == 0 {
            view.documents() as u32
        } else {
            self.manifest.numbers
        };
        let segments = self.manifest.segments[..from]
            .iter()
            .cloned()
            .chain([segment])
            .collect();
        Ok(Manifest {
            generation,
            numbers,
            segments,
            ..self.manifest.clone()
        })
    }

    /// The same of segments that newer ones follow, which may say something of any number in them:
    /// documents and contents keep their numbers. A content whose first document is gone stands
    /// under the number of that, in a segment of its own, of which the next one says that its
    /// documents are gone.
    fn joined(&self, range: Range<usize>, resources: &Resources) -> Result<Manifest> {
        let end = self.manifest.segments[range.end - 1].changes[1];
        let then = Self::open_as_of(&self.directory, &self.manifest.at(&self.directory, end)?)?;
        let (without, with) = (
            View::of_undocumented(&then, range.start)?,
            View::of_documented(&then, range.start)?,
        );
        let (mut generation, mut changes) = (self.manifest.generation + 1, self.changes_of(&range));
        let mut effects = then.effects_on_older(range.start)?;
        let mut segments = self.manifest.segments[..range.start].to_vec();
        if without.documents() > 0 {
            segments.push(self.write_segment(generation, changes, &without, &effects, resources)?);
            (generation, changes) = (generation + 1, [end; 2]);
            effects = CommitEffects {
                gone: without.numbers()?.collect(),
                ..CommitEffects::default()
            };
        }
        effects.free = then.free_numbers()?;
        segments.push(self.write_segment(generation, changes, &with, &effects, resources)?);
        segments.extend_from_slice(&self.manifest.segments[range.end..]);
        Ok(Manifest {
            generation,
            segments,
            ..self.manifest.clone()
        })
    }

    fn changes_of(&self, range: &Range<usize>) -> [u64; 2] {
        let segments = &self.manifest.segments[range.clone()];
        [
            segments[0].changes[0],
            segments[segments.len() - 1].changes[1],
        ]
    }

    /// Writes the segment of a generation, with as many parts as the first one has.
    fn write_segment(
        &self,
        generation: u64,
        changes: [u64; 2],
        view: &View<'_>,
        effects: &CommitEffects,
        resources: &Resources,
    ) -> Result<SegmentEntry> {
        let parts = SegmentFiles::parts(
            self.manifest
                .segments
                .first()
                .map_or(1, |segment| segment.parts),
        )?;
        let name = Manifest::segment_name(generation);
        let files = SegmentFiles {
            directory: &self.directory,
            name: &name,
            changes,
            manifest: &self.manifest,
            parts,
        };
        write(view, &files, effects, resources)
    }

    /// What the segments from one on, which become the newest, together do to the older ones.
    fn effects_from(&self, from: usize) -> Result<CommitEffects> {
        let mut free: Vec<u32> = self.free_numbers()?.iter().collect();
        for (segment, newer) in self.segments.iter().enumerate().skip(from) {
            // Another document will represent the content that is posted under the number of a
            // removed document.
            for place in 0..newer.documents.len() {
                let row = newer.documents.row(place)?;
                if !row.is_alias()
                    && self.is_posted(segment, row.number)?
                    && !self.is_listed(segment, row.number)?
                {
                    free.push(row.number);
                }
            }
        }
        Ok(CommitEffects {
            free: free.into_iter().collect(),
            ..self.effects_on_older(from)?
        })
    }

    /// The numbers of older segments that those from one on retire, or let go.
    fn effects_on_older(&self, from: usize) -> Result<CommitEffects> {
        let is_older = |number: u32| -> Result<bool> {
            for segment in &self.segments[..from] {
                if segment.documents.place_of(number)?.is_some() {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        let (mut retired, mut gone) = (Vec::new(), Vec::new());
        for newer in &self.segments[from..] {
            let effects = newer.documents.effects()?;
            for (numbers, kept) in [(&effects.retired, &mut retired), (&effects.gone, &mut gone)] {
                for number in numbers.iter() {
                    if is_older(number)? {
                        kept.push(number);
                    }
                }
            }
        }
        Ok(CommitEffects {
            retired: retired.into_iter().collect(),
            gone: gone.into_iter().collect(),
            ..CommitEffects::default()
        })
    }
}

/// An index that is written from the documents of others.
pub struct IndexRewrite<'a> {
    /// Where the new files go.
    pub directory: &'a Path,
    /// The generation that the rewrite makes.
    pub generation: u64,
    /// The first and the last generation whose changes it holds.
    pub changes: [u64; 2],
    /// The scheme of the index.
    pub scheme: &'a BlotScheme,
    /// The preset of the index.
    pub preset: Option<&'a str>,
    /// How many parts the postings are cut into.
    pub parts: u32,
    /// Only a range of the blots.
    pub range: Option<BlotRange>,
}

impl IndexRewrite<'_> {
    /// Writes all files of the index, and gives the manifest that names them.
    pub fn write(&self, view: &View<'_>, resources: &Resources) -> Result<Manifest> {
        let parts = match &self.range {
            Some(range) => vec![range.buckets.range()],
            None => SegmentFiles::parts(self.parts)?,
        };
        let manifest = Manifest {
            generation: self.generation,
            numbers: view.documents() as u32,
            range: self.range.clone(),
            dictionary: view.words().is_some(),
            preset: self.preset.map(str::to_owned),
            ..Manifest::new(self.scheme)
        };
        let files = SegmentFiles {
            directory: self.directory,
            name: &Manifest::segment_name(self.generation),
            changes: self.changes,
            manifest: &manifest,
            parts,
        };
        let segment = write(view, &files, &CommitEffects::default(), resources)?;
        Ok(Manifest {
            segments: vec![segment],
            ..manifest
        })
    }
}

fn write(
    view: &View<'_>,
    files: &SegmentFiles<'_>,
    effects: &CommitEffects,
    resources: &Resources,
) -> Result<SegmentEntry> {
    if view.bits <= NARROW_BITS {
        write_as::<u64>(view, files, effects, resources)
    } else {
        write_as::<u128>(view, files, effects, resources)
    }
}

fn write_as<K: Key>(
    view: &View<'_>,
    files: &SegmentFiles<'_>,
    effects: &CommitEffects,
    resources: &Resources,
) -> Result<SegmentEntry> {
    let is_large =
        view.stored_blots().saturating_mul(size_of::<K>() as u64) > resources.memory_bytes / 2;
    let targets = view.targets()?;
    let (mut ranges, threads) = (view.ranges(), resources.threads);
    let is_wanted = |slices: &Range<usize>| {
        files
            .parts
            .iter()
            .any(|part| part.contains(&(slices.start / (SLICES / BUCKETS))))
    };
    ranges.retain(is_wanted);
    let share_bytes = resources.memory_bytes / (8 * threads as u64);
    let spill = is_large.then_some(SpillTo {
        directory: &resources.tmp_dir,
        set_bytes: share_bytes,
    });
    let most_known = if is_large {
        share_bytes as usize / 8
    } else {
        usize::MAX
    };
    let sorting = Inversion {
        bits: view.bits,
        documents: view.documents() as u32,
        threads,
        ranges: &ranges,
        spill,
    };
    let (mut inverted, _) = sorting
        .run::<K, _>(|| Merger::new(view.bits, &view.segments, &targets).remembering(most_known))?;
    inverted.postings = view.postings();
    let words = WordMerger::new(&view.segments, &targets);
    files.write(
        view.to_documents()?,
        effects,
        &inverted,
        words.as_ref().map(|words| words as &dyn WordLists),
        threads,
    )
}
