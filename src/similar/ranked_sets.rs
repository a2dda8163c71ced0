//! The document sets and contents of an index, in the order in which a join visits them.
//!
//! Contents are ranked by ascending size, sets by ascending df. So the members of a set that can
//! still be partners are a range of it, and the sets of a content begin with those that few others
//! have.

use super::{
    common_text::CommonSets,
    scores::{DocumentSize, Measure},
};
use crate::base::ids::{ContentNo, ContentRank, SetNo, SetRank};
use crate::base::num::{ToF64, ToU32, ToU64, ToUsize};
use crate::index::{View, posting::Sets};
use std::ops::Range;

/// All contents and all sets that count. Memory: 8 bytes per member of a set, about thirty per set
/// and per content.
pub struct RankedSets {
    content_of_rank: Vec<ContentNo>,
    rank_of: Vec<ContentRank>,
    /// The size of each content, by rank, as in all fields below.
    sizes: Vec<DocumentSize>,
    /// The number of documents of each content.
    copies: Vec<u32>,
    /// The sum of 1/df over the blots that no other content has.
    own_rarity: Vec<f64>,
    set_counts: Vec<u32>,
    members: Vec<ContentRank>,
    ends: Vec<usize>,
    weights: Vec<u32>,
    /// The weight of each set ÷ its df.
    rarities: Vec<f64>,
}

impl RankedSets {
    /// Ranks the sets of an index. Common text counts neither as shared nor as blots of a document;
    /// `ignored` blots of each content are not in the sets and do not count either.
    pub fn new(
        view: &View<'_>,
        sets: &Sets,
        measure: &Measure,
        common: &CommonSets,
        ignored: &[u32],
    ) -> Self {
        let order = rarest_first(view, sets, common);
        let sizes = sizes(view, sets, common, ignored);
        let mut content_of_rank: Vec<_> = ContentNo::first(sizes.len()).collect();
        content_of_rank.sort_by_key(|content| sizes[content.index()].blots);
        let mut rank_of = vec![ContentRank::default(); content_of_rank.len()];
        ContentRank::first(content_of_rank.len())
            .zip(&content_of_rank)
            .for_each(|(rank, content)| rank_of[content.index()] = rank);
        let mut lists = Self {
            sizes: content_of_rank
                .iter()
                .map(|content| sizes[content.index()])
                .collect(),
            copies: content_of_rank
                .iter()
                .map(|&content| view.documents_of(content).len().to_u32())
                .collect(),
            own_rarity: vec![0.0; content_of_rank.len()],
            set_counts: vec![0; content_of_rank.len()],
            content_of_rank,
            rank_of,
            members: Vec::new(),
            ends: Vec::with_capacity(order.len()),
            weights: Vec::with_capacity(order.len()),
            rarities: Vec::new(),
        };
        for (df, set) in order {
            lists.push(
                sets.get(set),
                sets.uses()[set.index()].to_u32(),
                df,
                measure.score.needs_rarity(),
            );
        }
        lists.find_own_rarity();
        lists
    }

    fn push(&mut self, set: &[u32], weight: u32, df: u64, with_rarity: bool) {
        let start = self.members.len();
        self.members
            .extend(set.iter().map(|&content| self.rank_of[content.to_usize()]));
        self.members[start..].sort_unstable();
        self.members[start..]
            .iter()
            .for_each(|rank| self.set_counts[rank.index()] += 1);
        self.ends.push(self.members.len());
        self.weights.push(weight);
        if with_rarity {
            self.rarities.push(f64::from(weight) / df.to_f64());
        }
    }

    /// Blots that only one content has are in as many documents as the content has.
    fn find_own_rarity(&mut self) {
        let mut posted = vec![0_u32; self.sizes.len()];
        for set in self.sets() {
            let weight = self.weight(set);
            for rank in self.members(set) {
                posted[rank.index()] = posted[rank.index()].wrapping_add(weight);
            }
        }
        for (rank, posted) in posted.into_iter().enumerate() {
            self.own_rarity[rank] = f64::from(self.sizes[rank].blots.saturating_sub(posted))
                / f64::from(self.copies[rank]);
        }
    }

    /// The number of contents.
    pub fn contents(&self) -> usize {
        self.sizes.len()
    }

    /// All sets, rarest first.
    pub(super) fn sets(&self) -> impl DoubleEndedIterator<Item = SetRank> + ExactSizeIterator {
        SetRank::first(self.ends.len())
    }

    /// The first set of more than `members` contents, or the rank after the last set. This set and
    /// all after it count as long.
    pub(super) fn first_long(&self, members: usize) -> SetRank {
        self.sets()
            .find(|&set| self.members(set).len() > members)
            .unwrap_or(SetRank::from_index(self.ends.len()))
    }

    /// The number of members of all sets together.
    pub(super) fn members_count(&self) -> u64 {
        self.members.len().to_u64()
    }

    /// The set with most blots of those that have at least `members` contents: one of its contents, and how many it has.
    pub fn most_used(&self, members: usize) -> Option<(ContentNo, usize)> {
        let common = self
            .sets()
            .filter(|&set| self.members(set).len() >= members);
        let set = common.max_by_key(|&set| self.weight(set))?;
        let first = self.members(set).first()?;
        Some((self.content_of_rank(*first), self.members(set).len()))
    }

    /// Marks the contents that share a blot with one of the marked contents, and these themselves.
    pub fn sharing_with(&self, is_one: &[bool]) -> Vec<bool> {
        let mut found = is_one.to_vec();
        for set in self.sets() {
            let members = self.members(set);
            if members
                .iter()
                .any(|&rank| is_one[self.content_of_rank(rank).index()])
            {
                members
                    .iter()
                    .for_each(|&rank| found[self.content_of_rank(rank).index()] = true);
            }
        }
        found
    }

    /// The rank of a content.
    pub fn rank_of(&self, content: ContentNo) -> ContentRank {
        self.rank_of[content.index()]
    }

    /// The content of a rank.
    pub fn content_of_rank(&self, rank: ContentRank) -> ContentNo {
        self.content_of_rank[rank.index()]
    }

    /// The size of a content.
    pub fn size(&self, rank: ContentRank) -> DocumentSize {
        self.sizes[rank.index()]
    }

    /// The number of documents of a content.
    pub fn copies(&self, rank: ContentRank) -> u32 {
        self.copies[rank.index()]
    }

    pub(super) fn own_rarity(&self, rank: ContentRank) -> f64 {
        self.own_rarity[rank.index()]
    }

    /// The number of sets of a content.
    pub fn set_count(&self, rank: ContentRank) -> u32 {
        self.set_counts[rank.index()]
    }

    /// The ranks of the contents of a set, ascending.
    pub(super) fn members(&self, set: SetRank) -> &[ContentRank] {
        let set = set.index();
        let start = if set == 0 { 0 } else { self.ends[set - 1] };
        &self.members[start..self.ends[set]]
    }

    /// The number of blots of a set.
    pub(super) fn weight(&self, set: SetRank) -> u32 {
        self.weights[set.index()]
    }

    /// The sum of 1/df over the blots of a set; 0 unless the score needs it.
    pub(super) fn rarity(&self, set: SetRank) -> f64 {
        self.rarities.get(set.index()).copied().unwrap_or_default()
    }

    /// The ranks of the contents that are not too small to be partners of `rank`.
    pub(super) fn large_enough(&self, rank: ContentRank, measure: &Measure) -> Range<ContentRank> {
        let size = self.size(rank);
        let first = self
            .sizes
            .partition_point(|&other| measure.is_too_small(size, other));
        ContentRank::from_index(first)..ContentRank::from_index(self.sizes.len())
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
    pub(super) fn of(&self, rank: ContentRank) -> &[SetRank] {
        let rank = rank.index();
        let start = if rank == 0 { 0 } else { self.ends[rank - 1] };
        &self.sets[start..self.ends[rank]]
    }
}

/// The df of a set: the number of documents of its contents.
fn df(view: &View<'_>, set: &[u32]) -> u64 {
    set.iter()
        .map(|&content| view.documents_of(ContentNo::new(content)).len().to_u64())
        .sum()
}

/// The sets that count with their df, sorted by df and number.
fn rarest_first(view: &View<'_>, sets: &Sets, common: &CommonSets) -> Vec<(u64, SetNo)> {
    let used = SetNo::first(sets.len()).filter(|set| sets.uses()[set.index()] > 0);
    let mut order: Vec<_> = used
        .map(|set| (df(view, sets.get(set)), set))
        .filter(|&(df, set)| !common.are_ignored(set, df))
        .collect();
    order.sort_unstable();
    order
}

/// The size of each content, counting only blots that count.
fn sizes(view: &View<'_>, sets: &Sets, common: &CommonSets, ignored: &[u32]) -> Vec<DocumentSize> {
    let mut sizes: Vec<DocumentSize> = view
        .contents()
        .iter()
        .map(|content| DocumentSize {
            blots: content.blots,
        })
        .collect();
    sizes
        .iter_mut()
        .zip(ignored)
        .for_each(|(size, ignored)| size.blots = size.blots.saturating_sub(*ignored));
    if common.ignores_nothing() {
        return sizes;
    }
    let (mut shared, mut left_out) = (vec![0_u64; sizes.len()], vec![0_u64; sizes.len()]);
    for (set, &uses) in SetNo::first(sets.len()).zip(sets.uses()) {
        let is_left_out = common.are_ignored(set, df(view, sets.get(set)));
        for &content in sets.get(set) {
            shared[content.to_usize()] += uses;
            left_out[content.to_usize()] += if is_left_out { uses } else { 0 };
        }
    }
    for (content, size) in sizes.iter_mut().enumerate() {
        let copies = view.documents_of(ContentNo::from_index(content)).len();
        let own = if common.are_copies_ignored(copies.to_u64()) {
            u64::from(size.blots).saturating_sub(shared[content])
        } else {
            0
        };
        size.blots = u64::from(size.blots)
            .saturating_sub(left_out[content] + own)
            .to_u32();
    }
    sizes
}
