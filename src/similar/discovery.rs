//! Neighbours of many contents: on many threads, in a fixed order, within bounded memory.

use super::{
    join::{Join, JoinScratch, Neighbour},
    long_sets::{LONG_SET_MEMBERS, LongSets, ShortSetPartners},
    pair_counts::PairCounts,
    pair_filter::PairFilter,
    ranked_sets::{ContentSets, RankedSets},
    scores::Measure,
};
use crate::base::ids::DocNo;
use crate::base::num::{ToU32, ToU64, ToUsize};
use crate::{
    base::{
        error::{Error, Result},
        parallel::{self, Budget, Limits, Weighted},
    },
    index::{LeftOut, View},
};
use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

#[derive(Debug, Clone, Copy)]
pub struct DiscoveryOptions {
    pub measure: Measure,
    /// Blots of more documents do not count; `u64::MAX` for no such limit.
    pub max_df: u64,
    /// How many threads, and how much memory to aim at besides the sets and what a view takes.
    pub limits: Limits,
}

/// An index made ready to find what is alike in it.
pub struct Discovery<'v> {
    pub view: &'v View<'v>,
    pub lists: RankedSets,
    pub options: DiscoveryOptions,
    /// Which pairs are wanted. Neighbours are not asked: who makes pairs of them must.
    pub pair_filter: PairFilter,
    /// Sets of more members are not walked where only the best partners are wanted.
    pub long_set: usize,
    /// What was counted elsewhere, if that is what it is made of: then the lists have the long sets only.
    counted: Option<PairCounts>,
}

/// Items that a thread takes at a time.
const CHUNK: usize = 16;
/// Results that wait for their turn take no more: what is written while the caches still hold it costs a third less.
const MOST_WAITING_BYTES: u64 = 4 << 20;
/// Each lot reads all sets. However little memory is asked for, a lot has one part in so many of what the sets take anyway.
const MOST_LOTS: u64 = 64;

impl<'v> Discovery<'v> {
    pub fn new(view: &'v View<'v>, options: DiscoveryOptions) -> Result<Self> {
        let sets = view.sets(options.limits.threads)?;
        let lists = RankedSets::new(view, &sets, &options.measure, options.max_df);
        Ok(Self {
            view,
            lists,
            options,
            pair_filter: PairFilter::default(),
            long_set: LONG_SET_MEMBERS,
            counted: None,
        })
    }

    /// Some blots do not count, neither as shared nor as blots of a document.
    pub fn without(
        left_out: &LeftOut<'_>,
        view: &'v View<'v>,
        options: DiscoveryOptions,
    ) -> Result<Self> {
        if left_out.is_empty() {
            return Self::new(view, options);
        }
        let (sets, of) = view.sets_without(left_out, options.limits.threads)?;
        let lists = RankedSets::with_less(view, &sets, &options.measure, options.max_df, &of);
        Ok(Self {
            view,
            lists,
            options,
            pair_filter: PairFilter::default(),
            long_set: LONG_SET_MEMBERS,
            counted: None,
        })
    }

    /// What is alike by counts that were made elsewhere. It finds the best neighbours of documents, and nothing else.
    pub fn counted(view: &'v View<'v>, options: DiscoveryOptions, counted: PairCounts) -> Self {
        let lists = RankedSets::with_less(
            view,
            &counted.long_sets,
            &options.measure,
            u64::MAX,
            &counted.less,
        );
        Self {
            view,
            lists,
            options,
            pair_filter: PairFilter::default(),
            long_set: 0,
            counted: Some(counted),
        }
    }

    /// The same, where only some pairs are wanted.
    pub fn with_pair_filter(self, pair_filter: PairFilter) -> Self {
        Self {
            pair_filter,
            ..self
        }
    }

    /// Calls `work` with every document and its neighbours; `sink` gets what was made of each few of them, in the order of documents.
    pub fn for_each_document<R: Default + Send>(
        &self,
        work: impl Fn(usize, &Arc<[Neighbour]>, &mut R) + Sync,
        weigh: impl Fn(&R) -> u64 + Sync,
        sink: impl FnMut(R) -> Result<()>,
    ) -> Result<()> {
        self.for_each_of(
            self.view.documents(),
            |document| document,
            &[],
            work,
            weigh,
            sink,
        )
    }

    /// The same with some documents only, given in rising order. If there are orders, only neighbours that can be among the first ones in one of them.
    pub fn for_each_listed<R: Default + Send>(
        &self,
        documents: &[usize],
        orders: &[LongSets],
        work: impl Fn(usize, &Arc<[Neighbour]>, &mut R) + Sync,
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

    /// Calls `work` with every document and the neighbours that its first `count` rows in a table are of, and maybe more.
    pub fn for_each_best<R: Default + Send>(
        &self,
        count: usize,
        work: impl Fn(usize, &Arc<[Neighbour]>, &mut R) + Sync,
        weigh: impl Fn(&R) -> u64 + Sync,
        sink: impl FnMut(R) -> Result<()>,
    ) -> Result<()> {
        self.for_each_of(
            self.view.documents(),
            |document| document,
            &self.orders(count),
            work,
            weigh,
            sink,
        )
    }

    /// The order of contents in a table of `count` rows a document. None where some pairs are not wanted: the first rows may then be anywhere.
    pub fn orders(&self, count: usize) -> Vec<LongSets> {
        if !self.pair_filter.is_empty() {
            return Vec::new();
        }
        vec![self.order(count, (0..self.lists.contents().to_u32()).collect())]
    }

    /// As [`Discovery::orders`], where only these contents are partners, and ties are broken in their order.
    pub fn order(&self, count: usize, contents: Vec<u32>) -> LongSets {
        LongSets::new(
            &self.lists,
            self.long_set,
            contents,
            count,
            self.options.limits.memory_bytes / 8,
        )
    }

    fn for_each_of<R: Default + Send>(
        &self,
        count: usize,
        document_at: impl Fn(usize) -> usize + Sync,
        orders: &[LongSets],
        work: impl Fn(usize, &Arc<[Neighbour]>, &mut R) + Sync,
        weigh: impl Fn(&R) -> u64 + Sync,
        sink: impl FnMut(R) -> Result<()>,
    ) -> Result<()> {
        let kept = NeighbourCache::new(self.options.limits.memory_bytes / 8);
        let find_neighbours = |join: &Join<'_>, scratch: &mut JoinScratch, content: u32| match (
            orders,
            &self.counted,
        ) {
            ([], None) => neighbours(join, scratch, content),
            (_, None) => join.best_neighbours(scratch, content, &ShortSetPartners::Joined, orders),
            (_, Some(counted)) => join.best_neighbours(
                scratch,
                content,
                &ShortSetPartners::Counted(counted),
                orders,
            ),
        };
        let content_of = |item: usize, each: &mut dyn FnMut(u32)| {
            each(
                self.view
                    .content_of(DocNo::from_index(document_at(item)))
                    .get(),
            )
        };
        let find = |join: &Join<'_>, scratch: &mut JoinScratch, item: usize, out: &mut R| {
            let document = document_at(item);
            let content = self.view.content_of(DocNo::from_index(document));
            let documents = self.view.documents_of(content);
            let neighbours = kept
                .take(content.get())
                .unwrap_or_else(|| find_neighbours(join, scratch, content.get()));
            if documents
                .last()
                .is_some_and(|&last| last.index() > document)
            {
                kept.put(content.get(), &neighbours);
            }
            work(document, &neighbours, out);
        };
        self.in_lots(count, content_of, find, weigh, sink)
    }

    /// Calls `work` with every content and its neighbours, as [`Discovery::for_each_document`] does with documents.
    pub fn for_each_content<R: Default + Send>(
        &self,
        work: impl Fn(u32, &[Neighbour], &mut R) + Sync,
        weigh: impl Fn(&R) -> u64 + Sync,
        sink: impl FnMut(R) -> Result<()>,
    ) -> Result<()> {
        let itself = |content: usize, each: &mut dyn FnMut(u32)| each(content.to_u32());
        let find = |join: &Join<'_>, scratch: &mut JoinScratch, content: usize, out: &mut R| {
            work(
                content.to_u32(),
                &neighbours(join, scratch, content.to_u32()),
                out,
            );
        };
        self.in_lots(self.lists.contents(), itself, find, weigh, sink)
    }

    /// Works on items `0..count` in parallel. Each may ask for the neighbours of its contents: those of a lot of items have their lists in memory at a time.
    pub(super) fn in_lots<R: Default + Send>(
        &self,
        count: usize,
        contents_of: impl Fn(usize, &mut dyn FnMut(u32)) + Sync,
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
            let (lot, forward) = self.next_lot(next..count, &contents_of);
            next = lot.end;
            let join = Join {
                lists: &self.lists,
                forward: &forward,
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

    /// As many items as there is memory for the lists of their contents, and these lists. At least one.
    fn next_lot(
        &self,
        items: Range<usize>,
        contents_of: &impl Fn(usize, &mut dyn FnMut(u32)),
    ) -> (Range<usize>, ContentSets) {
        let limit =
            (self.options.limits.memory_bytes / 4 / 4).max(self.lists.members_count() / MOST_LOTS);
        let (mut is_wanted, mut sum, mut end) =
            (vec![false; self.lists.contents()], 0, items.start);
        let mut added = Vec::new();
        for item in items.clone() {
            added.clear();
            contents_of(item, &mut |content| {
                let rank = self.lists.rank_of(content);
                if !std::mem::replace(&mut is_wanted[rank.to_usize()], true) {
                    sum += u64::from(self.lists.set_count(rank));
                    added.push(rank);
                }
            });
            if sum > limit && end > items.start {
                added
                    .iter()
                    .for_each(|&rank| is_wanted[rank.to_usize()] = false);
                break;
            }
            end = item + 1;
        }
        (
            items.start..end,
            self.lists.forward(|rank| is_wanted[rank.to_usize()]),
        )
    }
}

fn neighbours(join: &Join<'_>, scratch: &mut JoinScratch, content: u32) -> Arc<[Neighbour]> {
    let mut found = Vec::new();
    join.neighbours(scratch, content, &mut found);
    found.into()
}

/// Neighbours of contents that have more documents to come. What does not fit is found again.
struct NeighbourCache {
    bytes_limit: u64,
    kept: Mutex<CachedNeighbours>,
}

#[derive(Default)]
struct CachedNeighbours {
    bytes: u64,
    neighbours: HashMap<u32, Arc<[Neighbour]>>,
}

impl NeighbourCache {
    fn new(bytes_limit: u64) -> Self {
        Self {
            bytes_limit,
            kept: Mutex::default(),
        }
    }

    fn take(&self, content: u32) -> Option<Arc<[Neighbour]>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.neighbours.remove(&content)?;
        kept.bytes -= size_of_val(&found[..]).to_u64();
        Some(found)
    }

    fn put(&self, content: u32, neighbours: &Arc<[Neighbour]>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = size_of_val(&neighbours[..]).to_u64();
        if kept.bytes + bytes <= self.bytes_limit
            && kept
                .neighbours
                .insert(content, neighbours.clone())
                .is_none()
        {
            kept.bytes += bytes;
        }
    }
}
