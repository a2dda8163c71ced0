//! What a commit does to the documents that an index has.
//!
//! A document that is removed or replaced loses its row. Its postings go with it, unless another
//! document has the same content: then the postings stay where they are, and keep their number.
//! Numbers that neither a document nor a content has any more are free; documents of later commits
//! get them, the least first.

use super::{
    document_row::DocumentRow,
    documents::CommitEffects,
    open::{Index, RowLocation},
};
use crate::base::error::{Error, Place, Result};
use std::collections::HashSet;

/// Memory: some bytes for each document that is removed, in large blocks.
pub struct IndexChange<'i> {
    index: &'i Index,
    removed: HashSet<RowLocation>,
}

/// How a document that is added stands to the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexMatch {
    /// The index already has it, with the same id and text.
    Unchanged,
    /// Its content is posted under this number.
    Posted {
        number: u32,
        blots: u32,
        posted: u32,
    },
    New,
}

impl<'i> IndexChange<'i> {
    /// Starts with no change.
    pub fn new(index: &'i Index) -> Self {
        Self {
            index,
            removed: HashSet::new(),
        }
    }

    /// Whether no document is removed or replaced.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty()
    }

    /// Looks at a document that is to be added; one of the same id and another text is removed.
    pub fn meet(&mut self, id: &str, row: &DocumentRow) -> Result<IndexMatch> {
        if let Some(at) = self.index.find_id(id)? {
            let old = self.index.row(at)?;
            if row.hash.is_some() && (old.hash, old.bytes) == (row.hash, row.bytes) {
                return Ok(IndexMatch::Unchanged);
            }
            self.removed.insert(at);
        }
        let content = row
            .hash
            .map(|hash| self.index.find_content(hash))
            .transpose()?
            .flatten();
        let Some(content) = content else {
            return Ok(IndexMatch::New);
        };
        let owner = self.index.row(content)?;
        Ok(IndexMatch::Posted {
            number: owner.number,
            blots: owner.blots,
            posted: owner.posted,
        })
    }

    /// Removes the document with an id; false if there is none.
    pub fn remove(&mut self, id: &str) -> Result<bool> {
        let found = self.index.find_id(id)?;
        self.removed.extend(found);
        Ok(found.is_some())
    }

    /// Whether the index has a dictionary.
    pub fn has_dictionary(&self) -> bool {
        self.index.manifest.dictionary
    }

    /// How many documents are removed or replaced.
    pub fn removals(&self) -> u64 {
        self.removed.len() as u64
    }

    /// Removes the document of a row.
    pub fn remove_at(&mut self, at: RowLocation) {
        self.removed.insert(at);
    }

    /// What happens to older segments, the numbers of `added` new documents, and the first number
    /// that was never given.
    ///
    /// `reused` are the numbers of posted contents that new documents have.
    pub fn settle(
        self,
        added: u32,
        reused: impl Iterator<Item = u32>,
    ) -> Result<(CommitEffects, Vec<u32>, u32)> {
        let reused: HashSet<u32> = reused.collect();
        let mut by_content = Vec::with_capacity(self.removed.len());
        for &at in &self.removed {
            let row = self.index.row(at)?;
            by_content.push((row.representative, row.number));
        }
        by_content.sort_unstable();
        let (mut retired, mut gone) = (Vec::new(), Vec::new());
        for of_content in by_content.chunk_by(|one, two| one.0 == two.0) {
            let content = of_content[0].0;
            let numbers = of_content.iter().map(|&(_, number)| number);
            if reused.contains(&content) || self.has_others(content)? {
                for number in numbers {
                    if number == content {
                        gone.push(number);
                    } else {
                        retired.push(number);
                    }
                }
            } else {
                retired.extend(numbers);
                retired.push(content);
            }
        }
        let mut free = self
            .index
            .free_numbers()?
            .iter()
            .collect::<Vec<_>>()
            .into_iter();
        let first_new = self.index.manifest.numbers;
        let numbers: Vec<u32> = free
            .by_ref()
            .chain(first_new..u32::MAX)
            .take(added as usize)
            .collect();
        if numbers.len() < added as usize {
            return Err(Error::Usage(
                "more than 4 G documents; split the collection".to_owned(),
            ));
        }
        let next = numbers
            .last()
            .map_or(first_new, |last| first_new.max(last + 1));
        let free = free.chain(retired.iter().copied()).collect();
        Ok((
            CommitEffects {
                retired: retired.into_iter().collect(),
                gone: gone.into_iter().collect(),
                free,
            },
            numbers,
            next,
        ))
    }

    /// Whether documents that are not removed have a content.
    fn has_others(&self, content: u32) -> Result<bool> {
        let Some(at) = self.index.find_number(content)? else {
            let what =
                format!("the postings of document {content} are not there; verify the index");
            return Err(Error::damaged(Place::path(&self.index.directory), what));
        };
        Ok(self
            .index
            .documents_of(at)?
            .iter()
            .any(|at| !self.removed.contains(at)))
    }
}
