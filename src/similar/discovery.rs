//! Finds the neighbours of many contents: on many threads, in a fixed order, within bounded memory.

use super::{
    boilerplate::Boilerplate,
    common_text::{CommonSets, CommonTextRule},
    counted_sets::CountedSets,
    join::{Join, JoinScratch, Neighbour},
    long_sets::{LONG_SET_MEMBERS, LongSets, ShortSetPartners},
    pair_counts::PairCounts,
    pair_filter::PairFilter,
    ranked_sets::RankedSets,
    scores::{Measure, Overlap},
};
use crate::base::ids::{ContentNo, ContentRank, DocNo};
use crate::base::num::{ToF64, ToU64};
use crate::{
    base::{
        error::{Error, Result},
        parallel::{self, Budget, Limits, Weighted},
        share::Share,
    },
    index::{ExcludedBlots, SetSource, View},
};
use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

/// How to find similar documents.
#[derive(Debug, Clone, Copy)]
pub struct DiscoveryOptions {
    /// The score and its threshold.
    pub measure: Measure,
    /// Which text is too common to count.
    pub common: CommonTextRule,
    /// Threads, and the memory to aim at besides the view.
    pub limits: Limits,
}

/// An index, prepared to find similar documents in it.
pub struct Discovery<'v> {
    /// The documents and contents of the index.
    pub view: &'v View<'v>,
    /// Its sets, in the order in which they are worth visiting: all, or the long ones.
    pub sets: RankedSets,
    /// How to find similar documents.
    pub options: DiscoveryOptions,
    /// The boilerplate, if it is ignored.
    pub boilerplate: Option<Boilerplate>,
    /// The pairs to report. Neighbours ignore it: the code that makes pairs of them must apply it.
    pub pair_filter: PairFilter,
    /// Sets of more members are long: they are not walked when only the best partners are wanted.
    pub long_set: usize,
    /// The pair counts, if they were counted elsewhere; then `sets` holds the long sets only.
    pair_counts: Option<PairCounts>,
    /// The sets of all contents, if `sets` has long ones only.
    counted: Option<CountedSets<'v>>,
}

/// The lists of all sets are in memory if they take at most one in this many bytes of the limit.
const HELD_SHARE: u64 = 2;
/// The number of items that a thread takes at a time.
const CHUNK: usize = 16;
/// The most bytes of results that wait for their turn: writing results that are still cached costs
/// a third less.
const MOST_WAITING_BYTES: u64 = 4 << 20;
/// Each lot reads all sets. However little memory is allowed, a lot takes at least this fraction of
/// the memory of the sets.
const MOST_LOTS: u64 = 64;
/// A set that is loaded for a lot takes about this much: mostly two members, and its place in the
/// list of a content.
const LOADED_SET_BYTES: u64 = 28;

impl<'v> Discovery<'v> {
    /// Prepares an index.
    pub fn new(view: &'v View<'v>, options: DiscoveryOptions) -> Result<Self> {
        let is_ordered = options.measure.score.needs_rarity();
        let source = SetSource::of(view, options.limits, is_ordered)?;
        Self::of_sets(view, source, &[], options)
    }

    /// Prepares an index whose sets come from elsewhere.
    pub fn from_sets(
        view: &'v View<'v>,
        sets: SetSource<'v>,
        options: DiscoveryOptions,
    ) -> Result<Self> {
        Self::of_sets(view, sets, &[], options)
    }

    /// `ignored` blots of each content are not in the sets and do not count.
    fn of_sets(
        view: &'v View<'v>,
        source: SetSource<'v>,
        ignored: &[u32],
        options: DiscoveryOptions,
    ) -> Result<Self> {
        let Limits {
            threads,
            memory_bytes,
        } = options.limits;
        let measure = &options.measure;
        let common = CommonSets::of(options.common, view, &source, threads)?;
        let counted = CountedSets::new(view, source, measure, common, ignored, true)?;
        let memory_bytes = memory_bytes / HELD_SHARE;
        let sets = RankedSets::new(view, &counted, measure, LONG_SET_MEMBERS, memory_bytes)?;
        let boilerplate = counted.common().boilerplate().cloned();
        Ok(Self {
            view,
            counted: sets.is_partial().then_some(counted),
            sets,
            options,
            boilerplate,
            pair_filter: PairFilter::default(),
            long_set: LONG_SET_MEMBERS,
            pair_counts: None,
        })
    }

    /// Prepares an index, ignoring some blots: they count neither as shared nor as blots of a
    /// document.
    pub fn excluding(
        left_out: &ExcludedBlots<'_>,
        view: &'v View<'v>,
        options: DiscoveryOptions,
    ) -> Result<Self> {
        if left_out.is_empty() {
            return Self::new(view, options);
        }
        let (sets, ignored) = view.sets_without(left_out, options.limits.threads)?;
        Self::of_sets(view, SetSource::Held(sets), &ignored, options)
    }

    /// Prepares an index with pair counts that were made elsewhere. It only finds the best
    /// neighbours of documents.
    pub fn from_pair_counts(
        view: &'v View<'v>,
        options: DiscoveryOptions,
        mut pair_counts: PairCounts,
    ) -> Result<Self> {
        let long_sets = SetSource::Held(std::mem::take(&mut pair_counts.long_sets));
        let ignored = &pair_counts.ignored_blots;
        let measure = &options.measure;
        let counted = CountedSets::new(view, long_sets, measure, CommonSets::NONE, ignored, false)?;
        Ok(Self {
            view,
            sets: RankedSets::new(view, &counted, measure, 0, u64::MAX)?,
            counted: None,
            options,
            boilerplate: None,
            pair_filter: PairFilter::default(),
            long_set: 0,
            pair_counts: Some(pair_counts),
        })
    }

    /// Marks the contents that share a blot with one of the marked contents, and may be a pair with
    /// it, and these themselves.
    pub fn sharing_with(&self, is_one: &[bool]) -> Result<Vec<bool>> {
        let mut found = is_one.to_vec();
        self.for_each_set(|_, members| {
            if members.iter().any(|content| is_one[content.index()]) {
                members
                    .iter()
                    .for_each(|content| found[content.index()] = true);
            }
        })?;
        Ok(found)
    }

    /// The set with most blots of those that have at least `members` contents, and among equals the
    /// one of most documents: its smallest content, and how many it has.
    pub fn most_used(&self, members: usize) -> Result<Option<(ContentNo, usize)>> {
        let mut best: Option<((u32, u64), ContentNo, usize)> = None;
        self.for_each_set(|overlap, contents| {
            let documents = |content: &ContentNo| self.view.documents_of(*content).len().to_u64();
            let key = (overlap.shared, contents.iter().map(documents).sum());
            let is_better = best.is_none_or(|(other, ..)| key >= other);
            if contents.len() >= members && is_better {
                let smallest = contents
                    .iter()
                    .min_by_key(|content| self.sets.rank_of(**content));
                best = smallest.map(|&content| (key, content, contents.len()));
            }
        })?;
        Ok(best.map(|(_, content, count)| (content, count)))
    }

    /// Calls `each` with every set that counts: what its members share by it, and its contents in
    /// any order.
    pub(super) fn for_each_set(&self, mut each: impl FnMut(Overlap, &[ContentNo])) -> Result<()> {
        let mut contents = Vec::new();
        let needs_rarity = self.options.measure.score.needs_rarity();
        if let Some(counted) = &self.counted {
            return counted.for_each(|df, weight, members| {
                contents.clear();
                contents.extend(members.iter().map(|&content| ContentNo::new(content)));
                let rarity = if needs_rarity {
                    f64::from(weight) / df.to_f64()
                } else {
                    0.0
                };
                let shared = weight;
                each(Overlap { shared, rarity }, &contents);
            });
        }
        for set in self.sets.sets() {
            contents.clear();
            let members = self.sets.members(set).iter();
            contents.extend(members.map(|&rank| self.sets.content_of_rank(rank)));
            let (shared, rarity) = (self.sets.weight(set), self.sets.rarity(set));
            each(Overlap { shared, rarity }, &contents);
        }
        Ok(())
    }

    /// Reports only the pairs that a filter allows.
    pub fn with_pair_filter(self, pair_filter: PairFilter) -> Self {
        Self {
            pair_filter,
            ..self
        }
    }

    /// Calls `work` with every document and its neighbours. `sink` receives the results of each
    /// chunk of documents, in document order.
    pub fn for_each_document<R: Default + Send>(
        &self,
        work: impl Fn(DocNo, &Arc<[Neighbour]>, &mut R) + Sync,
        weigh: impl Fn(&R) -> u64 + Sync,
        sink: impl FnMut(R) -> Result<()>,
    ) -> Result<()> {
        self.for_each_of(
            self.view.documents(),
            DocNo::from_index,
            &[],
            work,
            weigh,
            sink,
        )
    }

    /// As [`Discovery::for_each_document`], for these documents only, which ascend. If there are
    /// orders, passes only the neighbours that can be among the first ones in one of them.
    pub fn for_each_listed<R: Default + Send>(
        &self,
        documents: &[DocNo],
        orders: &[LongSets],
        work: impl Fn(DocNo, &Arc<[Neighbour]>, &mut R) + Sync,
        weigh: impl Fn(&R) -> u64 + Sync,
        sink: impl FnMut(R) -> Result<()>,
    ) -> Result<()> {
        self.for_each_of(
            documents.len(),
            |item| documents[item],
            orders,
            work,
            weigh,
            sink,
        )
    }

    /// Calls `work` with every document and the neighbours of its first `count` table rows, and
    /// maybe more.
    pub fn for_each_best<R: Default + Send>(
        &self,
        count: usize,
        work: impl Fn(DocNo, &Arc<[Neighbour]>, &mut R) + Sync,
        weigh: impl Fn(&R) -> u64 + Sync,
        sink: impl FnMut(R) -> Result<()>,
    ) -> Result<()> {
        self.for_each_of(
            self.view.documents(),
            DocNo::from_index,
            &self.orders(count),
            work,
            weigh,
            sink,
        )
    }

    /// The order of contents in a table of `count` rows per document. Empty if a filter excludes
    /// pairs: then the first rows may be anywhere.
    pub fn orders(&self, count: usize) -> Vec<LongSets> {
        if !self.pair_filter.is_empty() {
            return Vec::new();
        }
        vec![self.order(count, ContentNo::first(self.sets.contents()).collect())]
    }

    /// As [`Discovery::orders`], where only these contents are partners, and their order breaks
    /// ties.
    pub fn order(&self, count: usize, contents: Vec<ContentNo>) -> LongSets {
        LongSets::new(
            &self.sets,
            self.long_set,
            contents,
            count,
            self.options.limits.memory_bytes / 8,
        )
    }

    fn for_each_of<R: Default + Send>(
        &self,
        count: usize,
        document_at: impl Fn(usize) -> DocNo + Sync,
        orders: &[LongSets],
        work: impl Fn(DocNo, &Arc<[Neighbour]>, &mut R) + Sync,
        weigh: impl Fn(&R) -> u64 + Sync,
        sink: impl FnMut(R) -> Result<()>,
    ) -> Result<()> {
        let cache = NeighbourCache::new(self.options.limits.memory_bytes / 8);
        let find_neighbours =
            |join: &Join<'_>, scratch: &mut JoinScratch, content: ContentNo| match (
                orders,
                &self.pair_counts,
            ) {
                ([], None) => neighbours(join, scratch, content),
                (_, None) => {
                    join.best_neighbours(scratch, content, &ShortSetPartners::Joined, orders)
                }
                (_, Some(pair_counts)) => join.best_neighbours(
                    scratch,
                    content,
                    &ShortSetPartners::Counted(pair_counts),
                    orders,
                ),
            };
        let content_of = |item: usize, each: &mut dyn FnMut(ContentNo)| {
            each(self.view.content_of(document_at(item)))
        };
        let find = |join: &Join<'_>, scratch: &mut JoinScratch, item: usize, out: &mut R| {
            let document = document_at(item);
            let content = self.view.content_of(document);
            let documents = self.view.documents_of(content);
            let neighbours = cache
                .take(content)
                .unwrap_or_else(|| find_neighbours(join, scratch, content));
            if documents.last().is_some_and(|&last| last > document) {
                cache.put(content, &neighbours);
            }
            work(document, &neighbours, out);
        };
        self.in_lots(count, content_of, find, weigh, sink)
    }

    /// Calls `work` with every content and its neighbours, as [`Discovery::for_each_document`] does
    /// with documents.
    pub fn for_each_content<R: Default + Send>(
        &self,
        work: impl Fn(ContentNo, &[Neighbour], &mut R) + Sync,
        weigh: impl Fn(&R) -> u64 + Sync,
        sink: impl FnMut(R) -> Result<()>,
    ) -> Result<()> {
        let own_content =
            |content: usize, each: &mut dyn FnMut(ContentNo)| each(ContentNo::from_index(content));
        let find = |join: &Join<'_>, scratch: &mut JoinScratch, item: usize, out: &mut R| {
            let content = ContentNo::from_index(item);
            work(content, &neighbours(join, scratch, content), out);
        };
        self.in_lots(self.sets.contents(), own_content, find, weigh, sink)
    }

    /// Works on items `0..count` in parallel, lot by lot. Each item may ask for the neighbours of
    /// its contents; the sets of the contents of one lot are in memory at a time.
    pub(super) fn in_lots<R: Default + Send>(
        &self,
        count: usize,
        contents_of: impl Fn(usize, &mut dyn FnMut(ContentNo)) + Sync,
        work: impl Fn(&Join<'_>, &mut JoinScratch, usize, &mut R) + Sync,
        weigh: impl Fn(&R) -> u64 + Sync,
        mut sink: impl FnMut(R) -> Result<()>,
    ) -> Result<()> {
        let Limits {
            threads,
            memory_bytes,
        } = self.options.limits;
        let mut next = 0;
        while next < count {
            let (lot, is_wanted) = self.next_lot(next..count, &contents_of);
            next = lot.end;
            let is_wanted = |rank: ContentRank| is_wanted[rank.index()];
            let loaded = self.load_lot(is_wanted)?;
            let ranked = loaded.as_ref().unwrap_or(&self.sets);
            let content_sets = ranked.content_sets(is_wanted);
            let join = Join {
                ranked,
                content_sets: &content_sets,
                measure: &self.options.measure,
            };
            let worker = || {
                let mut scratch = JoinScratch::default();
                let (work, join) = (&work, &join);
                move |chunk: Range<usize>| {
                    let mut out = R::default();
                    chunk.for_each(|item| work(join, &mut scratch, item, &mut out));
                    out
                }
            };
            let chunks = lot
                .clone()
                .step_by(CHUNK)
                .map(|start| start..(start + CHUNK).min(lot.end));
            let source = chunks.map(|item| {
                Ok::<_, Error>(Weighted {
                    item,
                    bytes: 1 << 10,
                })
            });
            parallel::ordered(
                threads,
                Budget::Bytes((memory_bytes / 4).min(MOST_WAITING_BYTES)),
                source,
                worker,
                &weigh,
                &mut sink,
            )?;
        }
        Ok(())
    }

    /// The contents of a share, if all contents are divided by the number of their sets.
    pub(super) fn contents_of(&self, share: Share) -> Range<usize> {
        let sets_of = |content: usize| {
            let rank = self.sets.rank_of(ContentNo::from_index(content));
            self.sets.set_count(rank).into()
        };
        share.of_weights((0..self.sets.contents()).map(sets_of))
    }

    /// The sets of the wanted contents, unless all sets are in memory.
    pub(super) fn load_lot(
        &self,
        is_wanted: impl Fn(ContentRank) -> bool,
    ) -> Result<Option<RankedSets>> {
        let load = |counted| self.sets.load_lot(counted, is_wanted);
        self.counted.as_ref().map(load).transpose()
    }

    /// The next lot: as many items as memory allows for the sets of their contents, at least one;
    /// and the ranks of these contents.
    pub(super) fn next_lot(
        &self,
        items: Range<usize>,
        contents_of: &impl Fn(usize, &mut dyn FnMut(ContentNo)),
    ) -> (Range<usize>, Vec<bool>) {
        let set_bytes = if self.counted.is_some() {
            LOADED_SET_BYTES
        } else {
            4
        };
        let limit = (self.options.limits.memory_bytes / 4 / set_bytes)
            .max(self.sets.members_count() / MOST_LOTS);
        let (mut is_wanted, mut sum, mut end) = (vec![false; self.sets.contents()], 0, items.start);
        let mut added = Vec::new();
        for item in items.clone() {
            added.clear();
            contents_of(item, &mut |content| {
                let rank = self.sets.rank_of(content);
                if !std::mem::replace(&mut is_wanted[rank.index()], true) {
                    sum += u64::from(self.sets.set_count(rank));
                    added.push(rank);
                }
            });
            if sum > limit && end > items.start {
                added
                    .iter()
                    .for_each(|rank| is_wanted[rank.index()] = false);
                break;
            }
            end = item + 1;
        }
        (items.start..end, is_wanted)
    }
}

fn neighbours(join: &Join<'_>, scratch: &mut JoinScratch, content: ContentNo) -> Arc<[Neighbour]> {
    let mut found = Vec::new();
    join.neighbours(scratch, content, &mut found);
    found.into()
}

/// Neighbours of contents that have more documents to come. Those that do not fit are found again.
struct NeighbourCache {
    bytes_limit: u64,
    cache: Mutex<CachedNeighbours>,
}

/// The neighbours of each content, and their size.
#[derive(Default)]
struct CachedNeighbours {
    bytes: u64,
    neighbours: HashMap<ContentNo, Arc<[Neighbour]>>,
}

impl NeighbourCache {
    fn new(bytes_limit: u64) -> Self {
        Self {
            bytes_limit,
            cache: Mutex::default(),
        }
    }

    fn take(&self, content: ContentNo) -> Option<Arc<[Neighbour]>> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let found = cache.neighbours.remove(&content)?;
        cache.bytes -= size_of_val(&found[..]).to_u64();
        Some(found)
    }

    fn put(&self, content: ContentNo, neighbours: &Arc<[Neighbour]>) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = size_of_val(&neighbours[..]).to_u64();
        if cache.bytes + bytes <= self.bytes_limit
            && cache
                .neighbours
                .insert(content, neighbours.clone())
                .is_none()
        {
            cache.bytes += bytes;
        }
    }
}
