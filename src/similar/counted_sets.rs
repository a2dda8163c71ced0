//! The sets of an index that count, read again whenever they are visited.

use super::{
    common_text::CommonSets,
    plausible_sets::PlausibleSets,
    scores::{DocumentSize, Measure},
};
use crate::base::error::Result;
use crate::base::ids::ContentNo;
use crate::base::num::{ToU32, ToU64, ToUsize};
use crate::index::{SetSource, View};

/// The sets that count, and what they mean for each content. Memory: up to 16 bytes per content,
/// while it is made 32.
pub(super) struct CountedSets<'v> {
    source: SetSource<'v>,
    view: &'v View<'v>,
    /// Sets that are too common do not count.
    common: CommonSets,
    /// Other sets do not matter.
    plausible: Option<PlausibleSets>,
    /// The size of each content, counting only blots that count.
    sizes: Vec<DocumentSize>,
    /// The number of blots of each content that are in sets that count.
    posted: Vec<u32>,
}

impl<'v> CountedSets<'v> {
    /// Common text counts neither as shared nor as blots of a document; `ignored` blots of each
    /// content are not in the sets and do not count either. If the source `has_all_sets`, those are
    /// left out that no pair above the threshold can share.
    pub fn new(
        view: &'v View<'v>,
        source: SetSource<'v>,
        measure: &Measure,
        common: CommonSets,
        ignored: &[u32],
        has_all_sets: bool,
    ) -> Result<Self> {
        let contents = view.contents().len();
        let mut posted = vec![0_u32; contents];
        let mut sums = if common.ignores_nothing() {
            Vec::new()
        } else {
            vec![[0_u64; 2]; contents]
        };
        let mut plausible = PlausibleSets::for_measure(measure, contents).filter(|_| has_all_sets);
        source.for_each(|set, uses, members| {
            let is_ignored =
                !common.ignores_nothing() && common.are_ignored(set, df(view, members));
            for content in members {
                if let Some([shared, left_out]) = sums.get_mut(content.to_usize()) {
                    *shared += uses;
                    *left_out += if is_ignored { uses } else { 0 };
                }
                if !is_ignored {
                    let posted = &mut posted[content.to_usize()];
                    *posted = posted.wrapping_add(uses.to_u32());
                }
            }
            if let (Some(plausible), false) = (&mut plausible, is_ignored) {
                plausible.count(uses.to_u32(), members);
            }
        })?;
        let sizes = sizes(view, &common, ignored, &sums);
        if let Some(plausible) = &mut plausible {
            plausible.set_sizes(&sizes);
        }
        Ok(Self {
            source,
            view,
            common,
            plausible,
            sizes,
            posted,
        })
    }

    /// Calls `each` with the df, the number of blots and the contents of every set that counts.
    pub fn for_each(&self, mut each: impl FnMut(u64, u32, &[u32])) -> Result<()> {
        self.source.for_each(|set, uses, members| {
            let is_plausible = |plausible: &PlausibleSets| plausible.contains(members);
            if uses == 0 || !self.plausible.as_ref().is_none_or(is_plausible) {
                return;
            }
            let df = df(self.view, members);
            if !self.common.are_ignored(set, df) {
                each(df, uses.to_u32(), members);
            }
        })
    }

    /// The size of each content, by its number.
    pub fn sizes(&self) -> &[DocumentSize] {
        &self.sizes
    }

    /// The number of blots that only this content has.
    pub fn own_blots(&self, content: ContentNo) -> u32 {
        let posted = self.posted[content.index()];
        self.sizes[content.index()].blots.saturating_sub(posted)
    }

    /// The sets that are ignored.
    pub fn common(&self) -> &CommonSets {
        &self.common
    }
}

/// The df of a set: the number of documents of its contents.
fn df(view: &View<'_>, set: &[u32]) -> u64 {
    set.iter()
        .map(|&content| view.documents_of(ContentNo::new(content)).len().to_u64())
        .sum()
}

/// The size of each content. `sums`: for each, its blots in sets, and those of them that are
/// ignored; empty if none are.
fn sizes(
    view: &View<'_>,
    common: &CommonSets,
    ignored: &[u32],
    sums: &[[u64; 2]],
) -> Vec<DocumentSize> {
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
    for (content, (size, [shared, left_out])) in sizes.iter_mut().zip(sums).enumerate() {
        let copies = view.documents_of(ContentNo::from_index(content)).len();
        let own = if common.are_copies_ignored(copies.to_u64()) {
            u64::from(size.blots).saturating_sub(*shared)
        } else {
            0
        };
        size.blots = u64::from(size.blots)
            .saturating_sub(left_out + own)
            .to_u32();
    }
    sizes
}
