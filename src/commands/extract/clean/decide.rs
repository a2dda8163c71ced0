//! Which documents go, as exact or near duplicates, and for which document that stays.

use super::members::{Member, Members};
use crate::{
    base::{
        error::Result,
        ids::{ContentNo, DocNo},
        num::{ToU32, ToU64, ToUsize},
    },
    index::View,
    report::records::DropReason,
    similar::{CopyLists, Discovery, DuplicateDecision, DuplicateFilter, Measure, RankedSets},
    text::corpus::PlacedId,
};
use serde::{Deserialize, Serialize};

/// Why a document goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped {
    /// The document that stays instead.
    pub of: DocNo,
    /// Blots that both have.
    pub shared: u32,
    /// Why.
    pub reason: DropReason,
}

/// What was decided about each document of the input, by its place there. Memory: 16 bytes each.
#[derive(Debug, Default)]
pub struct Decisions {
    pub dropped: Vec<Option<Dropped>>,
}

/// Which levels are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Levels {
    /// Documents with the same tokens go.
    pub exact: bool,
    /// Documents go of which enough is in another one.
    pub near: bool,
}

/// The collection with which the documents of the input are compared, besides each other.
pub struct Compared<'c> {
    pub view: &'c View<'c>,
    pub discovery: &'c Discovery<'c>,
    pub sets: &'c RankedSets,
    /// The documents of other collections come first in the view: this many.
    pub against: usize,
    /// This many of them are of indexes that were given; the ids of the others tell their places.
    pub given: usize,
    pub members: &'c Members,
    /// Which documents have enough of which, if that was found in shares.
    pub copies: Option<&'c CopyLists>,
}

impl Compared<'_> {
    /// The id of a document, and its file, as the user knows them.
    pub fn name(&self, document: DocNo) -> Result<(String, Option<String>)> {
        let has_place = match document.index() {
            at if at < self.given => false,
            at if at < self.against => true,
            _ => self.members.has_placed_ids,
        };
        let id = self.view.id(document)?;
        let placed = PlacedId::parse(&id).filter(|_| has_place);
        Ok(match placed {
            Some(placed) => (placed.id.to_owned(), Some(placed.file.to_owned())),
            None => (id, None),
        })
    }

    /// How many documents of the other collection have fewer tokens.
    pub fn short_others(&self, tokens: u32) -> u64 {
        let is_short = |document: &DocNo| {
            let content = self.view.content_of(*document);
            self.view.contents()[content.index()].tokens < tokens
        };
        DocNo::first(self.against).filter(is_short).count().to_u64()
    }

    fn filter(&self, measure: Measure) -> DuplicateFilter<'_> {
        DuplicateFilter::new(self.discovery, measure).with_copies(self.copies)
    }

    /// Visits the documents in order of preference; each is decided at once.
    pub fn decide(&self, order: &[u32], levels: Levels, measure: Measure) -> Result<Decisions> {
        let mut filter = self.filter(measure);
        let mut kept = self.keep_others(&mut filter);
        let mut dropped = vec![None; self.members.list.len()];
        let document_at = |place: u32| self.members.list[place.to_usize()].document;
        let has_tokens = |place: &u32| !self.is_without_tokens(document_at(*place));
        let order: Vec<u32> = order.iter().copied().filter(has_tokens).collect();
        let content_at = |&place: &u32| self.view.content_of(document_at(place));
        let contents: Vec<ContentNo> = order.iter().map(content_at).collect();
        filter.in_lots(&contents, |filter, at| {
            let decision = filter.visit(contents[at]);
            if decision == DuplicateDecision::Keep {
                kept.push(document_at(order[at]));
            } else {
                dropped[order[at].to_usize()] = self.dropped(decision, levels, &kept);
            }
        })?;
        Ok(Decisions { dropped })
    }

    /// Drops all copies: a document goes if any other one has enough of it, whether that stays or not.
    pub fn decide_all_copies(&self, levels: Levels, measure: Measure) -> Result<Decisions> {
        let mut filter = self.filter(measure);
        let mut kept = self.keep_others(&mut filter);
        let mut copies = vec![0_u32; self.view.contents().len()];
        let mut first_two = vec![[None; 2]; self.view.contents().len()];
        for member in &self.members.list {
            let content = self.view.content_of(member.document);
            if filter.keep_always(content).to_usize() == kept.len() {
                kept.push(member.document);
            }
            if let Some(free) = first_two[content.index()]
                .iter_mut()
                .find(|of| of.is_none())
            {
                *free = Some(member.document);
            }
            copies[content.index()] += 1;
        }
        let decide = |filter: &mut DuplicateFilter<'_>, member: &Member| {
            let content = self.view.content_of(member.document);
            if self.is_without_tokens(member.document) {
                return None;
            }
            let goes = levels.exact || levels.near;
            if self.is_against(content) {
                let of = self.view.documents_of(content)[0];
                return goes.then(|| self.same(content, of, DropReason::Against));
            }
            if copies[content.index()] > 1 && goes {
                let reason = if levels.exact {
                    DropReason::Exact
                } else {
                    DropReason::Near
                };
                let others = first_two[content.index()].into_iter().flatten();
                let of = others.into_iter().find(|&of| of != member.document)?;
                return Some(self.same(content, of, reason));
            }
            let decision = filter.nearest_other(content);
            self.dropped(decision, levels, &kept)
        };
        let list = &self.members.list;
        let contents: Vec<ContentNo> = list
            .iter()
            .map(|member| self.view.content_of(member.document))
            .collect();
        let mut dropped = Vec::with_capacity(list.len());
        filter.in_lots(&contents, |filter, at| {
            dropped.push(decide(filter, &list[at]));
        })?;
        Ok(Decisions { dropped })
    }

    /// Keeps all documents of the other collection. Returns the documents that are kept, by their numbers.
    fn keep_others(&self, filter: &mut DuplicateFilter<'_>) -> Vec<DocNo> {
        let mut kept = Vec::new();
        for document in DocNo::first(self.against) {
            if filter
                .keep_always(self.view.content_of(document))
                .to_usize()
                == kept.len()
            {
                kept.push(document);
            }
        }
        kept
    }

    /// A document without tokens, such as one of signs only, is like every other such document by its tokens alone. It stays.
    fn is_without_tokens(&self, document: DocNo) -> bool {
        self.view.contents()[self.view.content_of(document).index()].tokens == 0
    }

    /// How many documents of the input have no tokens.
    pub fn without_tokens(&self) -> u64 {
        let is_it = |member: &&Member| self.is_without_tokens(member.document);
        self.members.list.iter().filter(is_it).count().to_u64()
    }

    fn is_against(&self, content: ContentNo) -> bool {
        self.view.documents_of(content)[0].index() < self.against
    }

    fn same(&self, content: ContentNo, of: DocNo, reason: DropReason) -> Dropped {
        let shared = self.sets.size(self.sets.rank_of(content)).blots;
        Dropped { of, shared, reason }
    }

    /// What a decision means, if its level is on.
    fn dropped(
        &self,
        decision: DuplicateDecision,
        levels: Levels,
        kept: &[DocNo],
    ) -> Option<Dropped> {
        let (of, shared, reason) = match decision {
            DuplicateDecision::Keep => return None,
            DuplicateDecision::ExactDuplicate { of, shared } if levels.exact => {
                (of, shared, DropReason::Exact)
            }
            DuplicateDecision::ExactDuplicate { of, shared } if levels.near => {
                (of, shared, DropReason::Near)
            }
            DuplicateDecision::ExactDuplicate { .. } => return None,
            DuplicateDecision::NearDuplicate { of, shared, .. } => (of, shared, DropReason::Near),
        };
        let of = kept[of.to_usize()];
        let reason = if of.index() < self.against {
            DropReason::Against
        } else {
            reason
        };
        Some(Dropped { of, shared, reason })
    }
}

impl Decisions {
    /// Whether the document at a place of the input stays.
    pub fn stays(&self, place: usize) -> bool {
        self.dropped[place].is_none()
    }

    /// The places of the documents that stay.
    pub fn staying(&self) -> impl Iterator<Item = u32> + '_ {
        let stays =
            |(place, dropped): (usize, &Option<Dropped>)| dropped.is_none().then(|| place.to_u32());
        self.dropped.iter().enumerate().filter_map(stays)
    }
}
