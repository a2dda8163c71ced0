//! The document sets and contents of an index, in the order in which a join visits them.
//!
//! Contents are ranked by ascending size, sets by ascending df. So the members of a set that can
//! still be partners are a range of it, and the sets of a content begin with those that few others
//! have.
//!
//! Sets are read several times from where they are ([`CountedSets`]): to count them, and to fill
//! the lists. If the lists would exceed the memory, only those of long sets are filled, and the
//! others are read again for each lot of contents.

use super::{
    counted_sets::CountedSets,
    scores::{DocumentSize, Measure},
};
use crate::base::error::Result;
use crate::base::ids::{ContentNo, ContentRank, SetRank};
use crate::base::num::{ToF64, ToU32, ToU64, ToUsize};
use crate::index::View;
use std::{ops::Range, sync::Arc};

/// The contents, and the sets that count: all of them, or long ones and those of a lot.
///
/// Memory: 4 bytes per member of a set, 12 per set (20 if the score needs rarity), and about
/// thirty per content.
pub struct RankedSets {
    contents: Arc<RankedContents>,
    /// The sets before the long ones; those of a lot, if not all are in memory.
    lists: SetLists,
    /// The sets that follow, which are in memory for all lots; empty if all sets are in `lists`.
    long: Arc<SetLists>,
    /// If `lists` has the sets of a lot only: those of this df and more are in `long`.
    long_df: Option<u64>,
}

/// The contents of an index by rank, the smallest first.
struct RankedContents {
    content_of_rank: Vec<ContentNo>,
    rank_of: Vec<ContentRank>,
    /// The size of each content, by rank, as in all fields below.
    sizes: Vec<DocumentSize>,
    /// The number of documents of each content.
    copies: Vec<u32>,
    /// The sum of 1/df over the blots that no other content has.
    own_rarity: Vec<f64>,
    /// The number of sets of each content, whether they are in memory or not.
    set_counts: Vec<u32>,
    /// Whether the score needs the rarity of sets.
    needs_rarity: bool,
}

/// Sets by ascending df.
#[derive(Default)]
struct SetLists {
    members: Vec<ContentRank>,
    ends: Vec<usize>,
    weights: Vec<u32>,
    /// The weight of each set ÷ its df.
    rarities: Vec<f64>,
}

/// The number of sets of each df, and of their members.
#[derive(Default)]
struct SetsByDf {
    counts: Vec<[usize; 2]>,
}

impl SetsByDf {
    fn count(&mut self, df: u64, members: usize) {
        let df = df.to_usize();
        if df >= self.counts.len() {
            self.counts.resize(df + 1, [0; 2]);
        }
        self.counts[df][0] += 1;
        self.counts[df][1] += members;
    }

    /// The number of sets, and of members.
    fn sums(&self) -> [usize; 2] {
        self.counts
            .iter()
            .fold([0; 2], |sum, more| [sum[0] + more[0], sum[1] + more[1]])
    }

    fn bytes(&self, with_rarity: bool) -> u64 {
        let [sets, members] = self.sums();
        (if with_rarity { 20 } else { 12 }) * sets.to_u64() + 4 * members.to_u64()
    }

    /// Where the sets of each df start, and their members.
    fn starts(mut self) -> Vec<[usize; 2]> {
        let mut sum = [0; 2];
        for count in &mut self.counts {
            let start = sum;
            sum = [sum[0] + count[0], sum[1] + count[1]];
            *count = start;
        }
        self.counts
    }
}

impl SetLists {
    /// The sets that are wanted, by their df and contents.
    fn collect(
        counted: &CountedSets<'_>,
        contents: &RankedContents,
        is_wanted: impl Fn(u64, &[u32]) -> bool,
    ) -> Result<Self> {
        let mut by_df = SetsByDf::default();
        counted.for_each(|df, _, members| {
            if is_wanted(df, members) {
                by_df.count(df, members.len());
            }
        })?;
        Self::fill(counted, contents, by_df, is_wanted)
    }

    /// Puts each set where those of its df are, in the order in which they come.
    fn fill(
        counted: &CountedSets<'_>,
        contents: &RankedContents,
        by_df: SetsByDf,
        is_wanted: impl Fn(u64, &[u32]) -> bool,
    ) -> Result<Self> {
        let [sets, members] = by_df.sums();
        let mut lists = Self {
            members: vec![ContentRank::default(); members],
            ends: vec![0; sets],
            weights: vec![0; sets],
            rarities: vec![0.0; if contents.needs_rarity { sets } else { 0 }],
        };
        let mut starts = by_df.starts();
        counted.for_each(|df, weight, members| {
            if !is_wanted(df, members) {
                return;
            }
            let [set, start] = starts[df.to_usize()];
            let end = start + members.len();
            let ranks = &mut lists.members[start..end];
            for (rank, content) in ranks.iter_mut().zip(members) {
                *rank = contents.rank_of[content.to_usize()];
            }
            ranks.sort_unstable();
            lists.ends[set] = end;
            lists.weights[set] = weight;
            if let Some(rarity) = lists.rarities.get_mut(set) {
                *rarity = f64::from(weight) / df.to_f64();
            }
            starts[df.to_usize()] = [set + 1, end];
        })?;
        Ok(lists)
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn members(&self, set: usize) -> &[ContentRank] {
        let start = if set == 0 { 0 } else { self.ends[set - 1] };
        &self.members[start..self.ends[set]]
    }
}

impl RankedContents {
    fn new(view: &View<'_>, counted: &CountedSets<'_>) -> Self {
        let sizes = counted.sizes();
        let mut content_of_rank: Vec<_> = ContentNo::first(sizes.len()).collect();
        content_of_rank.sort_by_key(|content| sizes[content.index()].blots);
        let mut rank_of = vec![ContentRank::default(); content_of_rank.len()];
        ContentRank::first(content_of_rank.len())
            .zip(&content_of_rank)
            .for_each(|(rank, content)| rank_of[content.index()] = rank);
        // Blots that only one content has are in as many documents as the content has.
        let own_rarity = |&content: &ContentNo| {
            f64::from(counted.own_blots(content))
                / view.documents_of(content).len().to_u64().to_f64()
        };
        Self {
            sizes: content_of_rank
                .iter()
                .map(|content| sizes[content.index()])
                .collect(),
            copies: content_of_rank
                .iter()
                .map(|&content| view.documents_of(content).len().to_u32())
                .collect(),
            own_rarity: content_of_rank.iter().map(own_rarity).collect(),
            set_counts: vec![0; content_of_rank.len()],
            needs_rarity: false,
            content_of_rank,
            rank_of,
        }
    }
}

impl RankedSets {
    /// Ranks the sets of an index. Where their lists would take more than `memory_bytes`, only sets
    /// from the first one of more than `long` contents on are in memory; the others must be loaded
    /// for each lot.
    pub(super) fn new(
        view: &View<'_>,
        counted: &CountedSets<'_>,
        measure: &Measure,
        long: usize,
        memory_bytes: u64,
    ) -> Result<Self> {
        let mut contents = RankedContents::new(view, counted);
        let (mut by_df, mut long_df) = (SetsByDf::default(), u64::MAX);
        counted.for_each(|df, _, members| {
            by_df.count(df, members.len());
            if members.len() > long {
                long_df = long_df.min(df);
            }
            for content in members {
                contents.set_counts[contents.rank_of[content.to_usize()].index()] += 1;
            }
        })?;
        contents.needs_rarity = measure.score.needs_rarity();
        let bytes = by_df.bytes(contents.needs_rarity);
        let (lists, long, long_df) = if bytes <= memory_bytes {
            let lists = SetLists::fill(counted, &contents, by_df, |_, _| true)?;
            (lists, SetLists::default(), None)
        } else {
            let long = SetLists::collect(counted, &contents, |df, _| df >= long_df)?;
            (SetLists::default(), long, Some(long_df))
        };
        Ok(Self {
            contents: Arc::new(contents),
            lists,
            long: Arc::new(long),
            long_df,
        })
    }

    /// Whether sets must be loaded for each lot of contents.
    pub(super) fn is_partial(&self) -> bool {
        self.long_df.is_some()
    }

    /// The long sets, and those of the wanted contents.
    pub(super) fn load_lot(
        &self,
        counted: &CountedSets<'_>,
        is_wanted: impl Fn(ContentRank) -> bool,
    ) -> Result<Self> {
        let contents = self.contents.as_ref();
        let is_in_lot = |df: u64, members: &[u32]| {
            let is_wanted = |content: &u32| is_wanted(contents.rank_of[content.to_usize()]);
            self.long_df.is_none_or(|long_df| df < long_df) && members.iter().any(is_wanted)
        };
        Ok(Self {
            contents: self.contents.clone(),
            lists: SetLists::collect(counted, contents, is_in_lot)?,
            long: self.long.clone(),
            long_df: self.long_df,
        })
    }

    /// The number of contents.
    pub fn contents(&self) -> usize {
        self.contents.sizes.len()
    }

    /// All sets that are in memory, rarest first.
    pub(super) fn sets(&self) -> impl DoubleEndedIterator<Item = SetRank> + ExactSizeIterator {
        SetRank::first(self.lists.len() + self.long.len())
    }

    /// The first set of more than `members` contents, or the rank after the last set. This set and
    /// all after it count as long.
    pub(super) fn first_long(&self, members: usize) -> SetRank {
        let is_long = |&set: &SetRank| self.members(set).len() > members;
        self.first_held().unwrap_or_else(|| {
            let first = self.sets().find(is_long);
            first.unwrap_or(SetRank::from_index(self.lists.len()))
        })
    }

    /// The first set that is in memory for all lots, if not all are: it is the first long one.
    pub(super) fn first_held(&self) -> Option<SetRank> {
        self.is_partial()
            .then(|| SetRank::from_index(self.lists.len()))
    }

    /// The number of members of all sets together, whether they are in memory or not.
    pub(super) fn members_count(&self) -> u64 {
        let counts = self.contents.set_counts.iter();
        counts.map(|&count| u64::from(count)).sum()
    }

    /// The rank of a content.
    pub fn rank_of(&self, content: ContentNo) -> ContentRank {
        self.contents.rank_of[content.index()]
    }

    /// The content of a rank.
    pub fn content_of_rank(&self, rank: ContentRank) -> ContentNo {
        self.contents.content_of_rank[rank.index()]
    }

    /// The size of a content.
    pub fn size(&self, rank: ContentRank) -> DocumentSize {
        self.contents.sizes[rank.index()]
    }

    /// The number of documents of a content.
    pub fn copies(&self, rank: ContentRank) -> u32 {
        self.contents.copies[rank.index()]
    }

    pub(super) fn own_rarity(&self, rank: ContentRank) -> f64 {
        self.contents.own_rarity[rank.index()]
    }

    /// The number of sets of a content, whether they are in memory or not.
    pub fn set_count(&self, rank: ContentRank) -> u32 {
        self.contents.set_counts[rank.index()]
    }

    /// The list of a set, and its place there.
    fn list_of(&self, set: SetRank) -> (&SetLists, usize) {
        match set.index().checked_sub(self.lists.len()) {
            None => (&self.lists, set.index()),
            Some(at) => (&self.long, at),
        }
    }

    /// The ranks of the contents of a set, ascending.
    pub(super) fn members(&self, set: SetRank) -> &[ContentRank] {
        let (list, at) = self.list_of(set);
        list.members(at)
    }

    /// The number of blots of a set.
    pub(super) fn weight(&self, set: SetRank) -> u32 {
        let (list, at) = self.list_of(set);
        list.weights[at]
    }

    /// The sum of 1/df over the blots of a set; 0 unless the score needs it.
    pub(super) fn rarity(&self, set: SetRank) -> f64 {
        let (list, at) = self.list_of(set);
        list.rarities.get(at).copied().unwrap_or_default()
    }

    /// The ranks of the contents that are not too small to be partners of `rank`.
    pub(super) fn large_enough(&self, rank: ContentRank, measure: &Measure) -> Range<ContentRank> {
        let size = self.size(rank);
        let sizes = &self.contents.sizes;
        let first = sizes.partition_point(|&other| measure.is_too_small(size, other));
        ContentRank::from_index(first)..ContentRank::from_index(sizes.len())
    }

    /// The sets of each wanted content, rarest first.
    pub fn content_sets(&self, is_wanted: impl Fn(ContentRank) -> bool) -> ContentSets {
        let mut ends = Vec::with_capacity(self.contents());
        let mut sum = 0;
        for rank in ContentRank::first(self.contents()) {
            // Until the content is filled this is its start; filling moves it to its end.
            ends.push(sum);
            sum += if is_wanted(rank) {
                self.set_count(rank).to_usize()
            } else {
                0
            };
        }
        let mut sets = vec![SetRank::default(); sum];
        for set in self.sets() {
            for &rank in self.members(set) {
                if is_wanted(rank) {
                    sets[ends[rank.index()]] = set;
                    ends[rank.index()] += 1;
                }
            }
        }
        ContentSets { sets, ends }
    }
}

/// The sets of some contents, by the rank of the content.
#[derive(Default)]
pub struct ContentSets {
    sets: Vec<SetRank>,
    ends: Vec<usize>,
}

impl ContentSets {
    /// As [`ContentSets::of`]; none if there are no contents yet.
    pub(super) fn of_known(&self, rank: ContentRank) -> &[SetRank] {
        if self.ends.is_empty() {
            &[]
        } else {
            self.of(rank)
        }
    }

    pub(super) fn of(&self, rank: ContentRank) -> &[SetRank] {
        let rank = rank.index();
        let start = if rank == 0 { 0 } else { self.ends[rank - 1] };
        &self.sets[start..self.ends[rank]]
    }
}
