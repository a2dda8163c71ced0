//! Numbers the documents of a segment: which of them are new, which share one content, and what
//! number each gets.

use super::{
    document_row::DocumentRow,
    document_table::DocumentTable,
    documents::CommitEffects,
    index_change::{IndexChange, IndexMatch},
    open::RowLocation,
};
use crate::{
    base::{
        error::{Error, Result},
        num::{ToU32, ToU64, ToUsize},
    },
    index::posting::DocumentBlots,
};
use hashbrown::{HashTable, hash_table::Entry};
use std::hash::{BuildHasher, RandomState};

/// What happened to a document that was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddOutcome {
    /// It is the next of the segment.
    Added,
    /// The index has this id with this text already.
    Unchanged,
}

/// Takes documents in order.
///
/// Memory: about seventy bytes a document, and its id, in large blocks: see [`DocumentTable`].
#[derive(Default)]
pub struct DocumentNumbering<'i> {
    /// Numbered by their place, for now.
    documents: DocumentTable,
    by_hash: ContentPlaces,
    /// Places of documents whose content is posted in an older segment, and its number; by rising place.
    posted_before: Vec<(u32, u32)>,
    change: Option<IndexChange<'i>>,
}

/// The first place of each content. The content itself stands in the row there: a table of places
/// alone takes a fifth of one that has the contents as well.
#[derive(Default)]
struct ContentPlaces {
    places: HashTable<u32>,
    /// Its keys are random: contents come from streams of other programs, too.
    hasher: RandomState,
}

impl ContentPlaces {
    /// The place of a content; `place` if it is a new one, whose row is not there yet.
    fn first(&mut self, documents: &DocumentTable, content: u128, place: u32) -> u32 {
        let hasher = &self.hasher;
        let content_at = |&place: &u32| documents.row(place.to_usize()).hash.unwrap_or_default();
        match self.places.entry(
            hasher.hash_one(content),
            |place| content_at(place) == content,
            |place| hasher.hash_one(content_at(place)),
        ) {
            Entry::Occupied(found) => *found.get(),
            Entry::Vacant(free) => *free.insert(place).get(),
        }
    }

    fn find(&self, documents: &DocumentTable, content: u128) -> Option<u32> {
        let content_at = |place: u32| documents.row(place.to_usize()).hash.unwrap_or_default();
        let is_it = |&place: &u32| content_at(place) == content;
        self.places
            .find(self.hasher.hash_one(content), is_it)
            .copied()
    }

    fn bytes(&self) -> u64 {
        self.places.allocation_size().to_u64()
    }
}

/// The documents of a segment, as they are to be written.
pub struct NumberedDocuments {
    /// The documents by rising number.
    pub documents: DocumentTable,
    /// What the commit does to older segments.
    pub effects: CommitEffects,
    /// The number of each document, in the order in which they were added.
    pub numbers: Vec<u32>,
    /// The first number that was never given.
    pub next: u32,
}

impl<'i> DocumentNumbering<'i> {
    /// The first segment of an index, or one that changes it.
    pub fn new(change: Option<IndexChange<'i>>) -> Self {
        Self {
            change,
            ..Self::default()
        }
    }

    /// Whether the index that is changed has a dictionary.
    pub fn has_dictionary(&self) -> bool {
        self.change
            .as_ref()
            .is_some_and(IndexChange::has_dictionary)
    }

    /// Takes the next document; gives the place under which it is posted, if it must be. Those
    /// whose content came before are aliases.
    pub fn add(&mut self, id: &str, row: DocumentRow) -> Result<(AddOutcome, Option<u32>)> {
        if self.documents.len() + 1 >= u32::MAX as usize {
            return Err(Error::Usage(
                "more than 4 G documents; split the collection".to_owned(),
            ));
        }
        let met = match &mut self.change {
            Some(change) => change.meet(id, &row)?,
            None => IndexMatch::New,
        };
        if met == IndexMatch::Unchanged {
            return Ok((AddOutcome::Unchanged, None));
        }
        let place = self.documents.len().to_u32();
        let (representative, row) = match met {
            IndexMatch::Posted {
                number,
                blots,
                posted,
            } => {
                self.posted_before.push((place, number));
                (None, row.with_posted(blots, posted))
            }
            _ => {
                let first = row.hash.map_or(place, |content| {
                    self.by_hash.first(&self.documents, content, place)
                });
                (Some(first), row)
            }
        };
        let numbered = row.numbered(place, representative.unwrap_or(place));
        self.documents.push(id, &numbered);
        Ok((
            AddOutcome::Added,
            (representative == Some(place)).then_some(place),
        ))
    }

    /// The place of the document that stands for a content in this segment.
    pub fn place_of(&self, hash: u128) -> Option<u32> {
        self.by_hash.find(&self.documents, hash)
    }

    /// Removes a document from the index; returns false if it has none with this id.
    pub fn remove(&mut self, id: &str) -> Result<bool> {
        self.change
            .as_mut()
            .map_or(Ok(false), |change| change.remove(id))
    }

    /// Removes the document of a row from the index.
    pub fn remove_at(&mut self, at: RowLocation) {
        if let Some(change) = &mut self.change {
            change.remove_at(at);
        }
    }

    /// How many documents of the index are removed or replaced.
    pub fn removals(&self) -> u64 {
        self.change.as_ref().map_or(0, IndexChange::removals)
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty() && self.change.as_ref().is_none_or(IndexChange::is_empty)
    }

    /// Whether there is an index that it changes.
    pub fn is_change(&self) -> bool {
        self.change.is_some()
    }

    /// How many documents were added.
    pub fn len(&self) -> u32 {
        self.documents.len().to_u32()
    }

    /// Bytes of memory or of temporary files.
    pub fn bytes(&self) -> u64 {
        self.documents.bytes() + self.by_hash.bytes()
    }

    /// Places of aliases, each with the place of the document that stands for it.
    pub fn aliases(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..)
            .zip(self.documents.rows())
            .map(|(place, row)| (place, row.representative))
            .filter(|(place, first)| place != first)
    }

    /// Numbers all of them. `blots_of` counts the blots of each document, by its place, unless the
    /// rows said so already.
    pub fn settle(self, blots_of: Option<&DocumentBlots>) -> Result<NumberedDocuments> {
        let Self {
            mut documents,
            by_hash,
            posted_before,
            change,
            ..
        } = self;
        drop(by_hash);
        let count = documents.len().to_u32();
        let reused = posted_before.iter().map(|&(_, number)| number);
        let (effects, numbers, next) = match change {
            None => (CommitEffects::default(), (0..count).collect(), count),
            Some(change) => change.settle(count, reused)?,
        };
        let mut posted_before = posted_before.into_iter().peekable();
        for place in 0..documents.len() {
            let row = documents.row(place);
            let posted_as = posted_before.next_if(|&(other, _)| other.to_usize() == place);
            let row = match posted_as {
                Some((_, number)) => row.numbered(numbers[place], number),
                None => {
                    // Documents of one content have the blots of the first of them, whatever their
                    // records said.
                    let first = row.representative.to_usize();
                    let of_first = documents.row(first);
                    let (mut blots, mut posted) = (of_first.blots, of_first.posted);
                    if let Some(counts) = blots_of {
                        (blots, posted) = (blots.max(counts.distinct[first]), counts.posted[first]);
                    }
                    row.numbered(numbers[place], numbers[first])
                        .with_posted(blots, posted)
                }
            };
            documents.set_row(place, &row);
        }
        Ok(NumberedDocuments {
            documents,
            effects,
            numbers,
            next,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::Blot;
    use crate::index::{open::Index, test_files};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_document_of_a_content_stands_for_it(
            contents in prop::collection::vec(prop::option::of(0_u128..5), 0..30)
        ) {
            let mut numbering = DocumentNumbering::new(None);
            for (place, &content) in (0..).zip(&contents) {
                let hash = content.map(|content| content + 1);
                let row = DocumentRow::new(None, 1, hash);
                let (outcome, posted) = numbering.add(&format!("{place}"), row).unwrap();
                let is_first = content.is_none()
                    || !contents[..place as usize].contains(&content);
                prop_assert_eq!(outcome, AddOutcome::Added);
                prop_assert_eq!(posted, is_first.then_some(place));
            }
            let aliases = numbering.aliases().count();
            let blots_of: Vec<u32> = (0..numbering.len()).map(|place| place + 3).collect();
            let blots_of = DocumentBlots::all_posted(blots_of);
            let numbered = numbering.settle(Some(&blots_of)).unwrap();
            prop_assert_eq!(numbered.next as usize, contents.len());
            prop_assert_eq!(numbered.effects, CommitEffects::default());
            let rows: Vec<DocumentRow> = numbered.documents.rows().collect();
            prop_assert_eq!(rows.iter().filter(|row| row.is_alias()).count(), aliases);
            for (place, row) in (0..).zip(&rows) {
                let content = contents[place as usize];
                let first = contents.iter().position(|&other| content.is_some() && other == content);
                let first = first.map_or(place, |first| first as u32);
                prop_assert_eq!((row.number, row.representative, row.posted), (place, first, first + 3));
            }
        }
    }

    #[test]
    fn numbers_of_removed_documents_are_used_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        test_files::commit(
            path,
            &[("a", 1, vec![1]), ("b", 2, vec![2]), ("c", 1, vec![1])],
            &[],
        );
        // The content of `a` is still that of `c`: only its row goes, and its number stays taken.
        test_files::commit(path, &[], &["a", "b"]);
        let index = Index::open(path).unwrap();
        assert_eq!(
            index.free_numbers().unwrap().iter().collect::<Vec<_>>(),
            [1]
        );
        let manifest = test_files::commit(path, &[("d", 3, vec![3]), ("e", 1, vec![1])], &[]);
        assert_eq!(manifest.numbers, 4);
        let index = Index::open(path).unwrap();
        let row = |id: &str| index.row(index.find_id(id).unwrap().unwrap()).unwrap();
        assert_eq!((row("d").number, row("d").representative), (1, 1));
        assert_eq!((row("e").number, row("e").representative), (3, 0));
        assert_eq!(index.find_id("a").unwrap(), None);
        assert_eq!(index.ids_with(Blot::new(1)).unwrap(), ["c", "e"]);
        crate::index::verify(&index).unwrap();
    }
}
