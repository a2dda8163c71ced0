//! Documents in the order of their ids, which no sequence of commits can change.
//!
//! A document's number depends on when it came, and on which numbers were free then. Answers must
//! not: they are made from a view whose documents stand in the byte order of their ids. Contents
//! are then numbered by their first id, sets are ordered by these numbers, and so every order,
//! every tie and every sum that is made from the view is the same for the same documents.

use super::{
    merge::NONE,
    open::Index,
    view::{ContentInfo, NO_CONTENT, View, ViewRow},
};
use crate::base::{
    error::Result,
    ids::{ContentNo, DocNo},
};

impl<'i> View<'i> {
    /// As [`View::of`], with documents in the byte order of their ids.
    ///
    /// Memory: while they are sorted, the ids and 20 bytes a document more.
    pub fn by_id(index: &'i Index) -> Result<Self> {
        Self::of(index)?.sorted_by_id()
    }

    fn sorted_by_id(self) -> Result<Self> {
        let order = SortedIds::of(&self)?.order;
        if order.is_sorted() {
            return Ok(self);
        }
        let mut renumbered = vec![NO_CONTENT; self.contents().len()];
        let mut contents: Vec<ContentInfo> = Vec::with_capacity(renumbered.len());
        let mut documents: Vec<ViewRow> = Vec::with_capacity(order.len());
        for document in order {
            let listed = self.documents[document.index()];
            let content = &mut renumbered[listed.content.index()];
            if *content == NO_CONTENT {
                *content = ContentNo::from_index(contents.len());
                contents.push(self.contents()[listed.content.index()]);
            }
            documents.push(ViewRow {
                content: *content,
                ..listed
            });
        }
        let renumber = |&content: &u32| {
            if content == NONE {
                NONE
            } else {
                renumbered[ContentNo::new(content).index()].get()
            }
        };
        let content_at = self
            .content_at
            .iter()
            .map(|places| places.iter().map(renumber).collect())
            .collect();
        Ok(self.with(documents, contents, content_at))
    }
}

/// The documents of a view in the byte order of their ids.
pub(super) struct SortedIds {
    /// The documents in the order of their ids.
    pub order: Vec<DocNo>,
}

impl SortedIds {
    /// Sorts the documents of a view.
    pub fn of(view: &View<'_>) -> Result<Self> {
        let ids = IdBytes::read(view)?;
        let mut order: Vec<DocNo> = DocNo::first(view.documents()).collect();
        if order.is_sorted_by(|&one, &two| ids.get(one) <= ids.get(two)) {
            return Ok(Self { order });
        }
        // Ids of one corpus mostly begin alike: what comes after that, as a number, tells most of
        // them apart.
        let skipped = ids.common_prefix();
        let mut keyed: Vec<(u64, DocNo)> = order
            .iter()
            .map(|&document| (key(&ids.get(document)[skipped..]), document))
            .collect();
        keyed.sort_unstable_by(|one, two| {
            one.0
                .cmp(&two.0)
                .then_with(|| ids.get(one.1).cmp(ids.get(two.1)))
                .then(one.1.cmp(&two.1))
        });
        order.clear();
        order.extend(keyed.into_iter().map(|(_, document)| document));
        Ok(Self { order })
    }
}

/// The first eight bytes, padded with zeros: it never says the contrary of the order of the whole.
fn key(bytes: &[u8]) -> u64 {
    let mut first = [0; 8];
    let length = bytes.len().min(8);
    first[..length].copy_from_slice(&bytes[..length]);
    u64::from_be_bytes(first)
}

/// The ids of all documents of a view, one after the other.
struct IdBytes {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl IdBytes {
    fn read(view: &View<'_>) -> Result<Self> {
        let mut ids = Self {
            bytes: Vec::new(),
            ends: Vec::with_capacity(view.documents()),
        };
        for document in DocNo::first(view.documents()) {
            ids.bytes.extend_from_slice(view.id(document)?.as_bytes());
            ids.ends.push(ids.bytes.len());
        }
        Ok(ids)
    }

    fn get(&self, document: DocNo) -> &[u8] {
        let at = document.index();
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start..self.ends[at]]
    }

    /// How many bytes all ids begin with.
    fn common_prefix(&self) -> usize {
        let mut documents = DocNo::first(self.ends.len());
        let first = documents
            .next()
            .map_or(&[][..], |document| self.get(document));
        documents.fold(first.len(), |most, document| {
            first[..most]
                .iter()
                .zip(self.get(document))
                .take_while(|(one, two)| one == two)
                .count()
        })
    }
}
