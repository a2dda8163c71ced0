//! Builds a [`View`] out of the rows of one index or several.

use super::{
    document_row::DocumentRow,
    merge::NONE,
    open::{Index, RowLocation},
    view::{ContentInfo, NO_CONTENT, Renumbering, View, ViewRow},
};
use crate::base::{
    error::{Error, Place, Result},
    ids::{ContentNo, DocNo},
};
use std::collections::HashMap;

/// Collects the live rows of one index after the other.
pub(super) struct ViewBuilder<'i> {
    /// Each with the first segment that is read.
    indexes: Vec<(&'i Index, usize)>,
    numbering: Renumbering,
    documents: Vec<ViewRow>,
    contents: Vec<ContentInfo>,
    /// For each index and number, the content whose postings it has.
    content_of: Vec<Vec<ContentNo>>,
    before: EarlierIndexes,
}

/// The documents and contents of the indexes that were read, each where it was first: a look-up in
/// each of many indexes would take long.
#[derive(Default)]
struct EarlierIndexes {
    /// By the hash of the id.
    documents: HashMap<u64, (usize, RowLocation)>,
    /// By the hash of the content: under what number it is posted.
    contents: HashMap<u128, (usize, u32)>,
}

/// A live row: its number comes first, for the order.
type LiveRow = (u32, RowLocation);

impl<'i> ViewBuilder<'i> {
    /// Starts with no document.
    pub fn new(indexes: Vec<(&'i Index, usize)>, numbering: Renumbering) -> Self {
        let content_of = indexes
            .iter()
            .map(|(index, _)| vec![NO_CONTENT; index.manifest.numbers as usize])
            .collect();
        Self {
            indexes,
            numbering,
            documents: Vec::new(),
            contents: Vec::new(),
            content_of,
            before: EarlierIndexes::default(),
        }
    }

    /// Takes the documents of an index.
    pub fn list(&mut self, number: usize, refused: &mut dyn FnMut(&Index, &str)) -> Result<()> {
        let (index, from) = self.indexes[number];
        let first_segment: usize = self.indexes[..number]
            .iter()
            .map(|(index, from)| index.segments.len() - from)
            .sum();
        let (live, is_owned) = self.live_rows(index, from)?;
        for &(_, at) in &live {
            let row = index.row(at)?;
            if self.is_known(number, at, &row, refused)? {
                continue;
            }
            let content = match self.owner(number, &row) {
                owner if owner.0 != number || is_owned[row.representative as usize] => {
                    self.content(owner, &row)
                }
                _ if self.numbering != Renumbering::Dense => NO_CONTENT,
                _ => return Err(lost(index, at, &row)),
            };
            let segment = (first_segment + at.segment - from) as u32;
            self.documents.push(ViewRow {
                segment,
                place: at.place,
                content,
            });
        }
        if number + 1 < self.indexes.len() {
            self.remember(number, &live)?;
        }
        Ok(())
    }

    /// The live rows of an index by rising number, and for each number whether its postings are
    /// taken.
    fn live_rows(&self, index: &Index, from: usize) -> Result<(Vec<LiveRow>, Vec<bool>)> {
        let mut live = Vec::<LiveRow>::new();
        let mut is_owned = vec![false; index.manifest.numbers as usize];
        for segment in from..index.segments.len() {
            let documents = &index.segments[segment].documents;
            for place in 0..documents.len() {
                let row = documents.row(place)?;
                if row.number.max(row.representative) >= index.manifest.numbers {
                    return Err(documents
                        .file()
                        .damaged(0, format!("document {} is beyond all numbers", row.number)));
                }
                let is_posted = !row.is_alias() && index.is_posted(segment, row.number)?;
                let (owns, counts) = self
                    .numbering
                    .takes(is_posted, index.is_listed(segment, row.number)?);
                is_owned[row.number as usize] |= owns;
                if counts {
                    live.push((row.number, RowLocation { segment, place }));
                }
            }
        }
        live.sort_unstable();
        Ok((live, is_owned))
    }

    /// Remembers the documents and contents of an index for the indexes after it.
    fn remember(&mut self, number: usize, live: &[LiveRow]) -> Result<()> {
        let (index, from) = self.indexes[number];
        for &(_, at) in live {
            self.before
                .documents
                .entry(index.row(at)?.id_hash())
                .or_insert((number, at));
        }
        for segment in from..index.segments.len() {
            let documents = &index.segments[segment].documents;
            for place in 0..documents.len() {
                let row = documents.row(place)?;
                if let Some(hash) = row.hash
                    && !row.is_alias()
                    && index.is_posted(segment, row.number)?
                {
                    self.before
                        .contents
                        .entry(hash)
                        .or_insert((number, row.number));
                }
            }
        }
        Ok(())
    }

    /// Whether an earlier index has a document with this id.
    fn is_known(
        &self,
        number: usize,
        at: RowLocation,
        row: &DocumentRow,
        refused: &mut dyn FnMut(&Index, &str),
    ) -> Result<bool> {
        let Some(&(earlier, found)) = self.before.documents.get(&row.id_hash()) else {
            return Ok(false);
        };
        let id = self.indexes[number].0.id(at)?;
        let known = if self.indexes[earlier].0.id(found)? == id {
            Some((earlier, found))
        } else {
            self.search(number, &id)?
        };
        let Some((earlier, found)) = known else {
            return Ok(false);
        };
        if row.hash.is_none() || self.indexes[earlier].0.row(found)?.hash != row.hash {
            refused(self.indexes[number].0, &id);
        }
        Ok(true)
    }

    /// Looks an id up in every earlier index: another id had the same hash.
    fn search(&self, number: usize, id: &str) -> Result<Option<(usize, RowLocation)>> {
        for (earlier, (index, _)) in self.indexes[..number].iter().enumerate() {
            if let Some(at) = index.find_id(id)? {
                return Ok(Some((earlier, at)));
            }
        }
        Ok(None)
    }

    /// Which index has the postings of a content, and under what number.
    fn owner(&self, number: usize, row: &DocumentRow) -> (usize, u32) {
        let before = row.hash.and_then(|hash| self.before.contents.get(&hash));
        before.copied().unwrap_or((number, row.representative))
    }

    fn content(&mut self, (index, number): (usize, u32), row: &DocumentRow) -> ContentNo {
        let content = &mut self.content_of[index][number as usize];
        if *content == NO_CONTENT {
            *content = ContentNo::from_index(self.contents.len());
            self.contents.push(ContentInfo {
                tokens: row.tokens,
                blots: row.blots,
                posted: row.posted,
                hash: row.hash,
            });
        }
        *content
    }

    /// The view of all documents that were taken.
    pub fn finish(self) -> Result<View<'i>> {
        let mut content_at = Vec::new();
        for ((index, from), content_of) in self.indexes.iter().zip(&self.content_of) {
            for segment in *from..index.segments.len() {
                let documents = &index.segments[segment].documents;
                let content = |place: u32| -> Result<u32> {
                    let row = documents.row(place)?;
                    Ok(
                        if !row.is_alias() && index.is_posted(segment, row.number)? {
                            content_of[row.number as usize].get()
                        } else {
                            NONE
                        },
                    )
                };
                content_at.push((0..documents.len()).map(content).collect::<Result<_>>()?);
            }
        }
        let (members, ends) = members_of(&self.documents, self.contents.len());
        let segments = self
            .indexes
            .iter()
            .flat_map(|(index, from)| &index.segments[*from..])
            .collect();
        let bits = self
            .indexes
            .first()
            .map_or(32, |(index, _)| index.scheme.bits);
        Ok(View {
            bits,
            segments,
            documents: self.documents,
            contents: self.contents,
            members,
            ends,
            content_at,
            numbering: self.numbering,
        })
    }
}

fn lost(index: &Index, at: RowLocation, row: &DocumentRow) -> Error {
    let place = Place::file(index.segments[at.segment].documents.file().name().clone());
    Error::damaged(
        place,
        format!(
            "document {} stands for {}, and is not there",
            row.representative, row.number
        ),
    )
}

/// The documents of each content: counting, then placing.
pub(super) fn members_of(documents: &[ViewRow], contents: usize) -> (Vec<DocNo>, Vec<usize>) {
    let mut ends = vec![0; contents];
    let posted = || {
        DocNo::first(documents.len())
            .zip(documents)
            .filter(|(_, listed)| listed.content != NO_CONTENT)
    };
    posted().for_each(|(_, listed)| ends[listed.content.index()] += 1);
    let mut sum = 0;
    for end in &mut ends {
        sum += *end;
        *end = sum - *end;
    }
    let mut members = vec![DocNo::default(); sum];
    for (document, listed) in posted() {
        let end = &mut ends[listed.content.index()];
        members[*end] = document;
        *end += 1;
    }
    (members, ends)
}
