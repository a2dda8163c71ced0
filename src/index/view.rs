//! What is live of an index, whatever it is stored as: contents, their documents, and blots with their sets.

use super::{
    Index, Segment,
    documents::Row,
    part::{Part, Posted},
};
use crate::{
    error::Result,
    parallel::{self, Limits, Weighted},
    posting::Sets,
};

/// Contents are distinct texts. A document has one; exact duplicates have the same.
///
/// Memory: some forty bytes a document.
pub struct View<'i> {
    index: &'i Index,
    contents: Vec<Content>,
    /// By number of a representative; [`NO_CONTENT`] for the other documents.
    content_at: Vec<u32>,
    content_of: Vec<u32>,
    /// The documents of all contents, one content after the other.
    documents: Vec<u32>,
    ends: Vec<u32>,
}

/// A distinct text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    pub tokens: u32,
    /// Distinct ones.
    pub blots: u32,
    /// Over the tokens; none if it was not told.
    pub hash: Option<u128>,
}

const NO_CONTENT: u32 = u32::MAX;

impl<'i> View<'i> {
    /// Reads the rows of all documents.
    pub fn of(index: &'i Index) -> Result<Self> {
        let (mut contents, mut content_at, mut content_of) = (Vec::new(), Vec::new(), Vec::new());
        for segment in &index.segments {
            content_at.resize(segment.documents.len() as usize, NO_CONTENT);
            for place in 0..segment.documents.len() {
                let row = segment.documents.row(place)?;
                if !row.is_alias() {
                    content_at[place as usize] = contents.len() as u32;
                    contents.push(Content { tokens: row.tokens, blots: row.blots, hash: row.hash });
                }
                content_of.push(find_content(segment, &content_at, row.representative)?);
            }
        }
        let (documents, ends) = by_content(&content_of, contents.len());
        Ok(Self { index, contents, content_at, content_of, documents, ends })
    }

    /// By number, in the order of their first documents.
    pub fn contents(&self) -> &[Content] {
        &self.contents
    }

    /// How many documents there are; they are numbered in the order of the corpus.
    pub fn documents(&self) -> usize {
        self.content_of.len()
    }

    pub fn content_of(&self, document: usize) -> u32 {
        self.content_of[document]
    }

    /// Rising, and never none; the first is the representative.
    pub fn documents_of(&self, content: u32) -> &[u32] {
        let start = if content == 0 { 0 } else { self.ends[content as usize - 1] };
        &self.documents[start as usize..self.ends[content as usize] as usize]
    }

    pub fn id(&self, document: usize) -> Result<String> {
        self.segment().documents.id(document as u32)
    }

    pub fn row(&self, document: usize) -> Result<Row> {
        self.segment().documents.row(document as u32)
    }

    /// All sets of two or more contents, each with the number of blots that lead to it. Members are contents.
    pub fn sets(&self, limits: Limits) -> Result<Sets> {
        let mut sets = Sets::default();
        for segment in &self.index.segments {
            let uses = uses_of(segment, limits)?;
            let mut members = Vec::new();
            segment.sets.for_each(|number, set| {
                self.contents_of(set, &mut members)?;
                sets.push(&members, uses[number as usize]);
                Ok(())
            })?;
        }
        Ok(sets)
    }

    /// Calls `each` with every blot and its contents, one or more, in rising order of blots.
    pub fn for_each_blot(&self, mut each: impl FnMut(u64, &[u32]) -> Result<()>) -> Result<()> {
        for segment in &self.index.segments {
            let (mut sets, mut members) = (Sets::default(), Vec::new());
            segment.sets.for_each(|_, set| {
                self.contents_of(set, &mut members)?;
                sets.push(&members, 0);
                Ok(())
            })?;
            for part in &segment.parts {
                part.for_each_posted(|blot, posted| match posted {
                    Posted::One(number) => each(blot, &[find_content(segment, &self.content_at, number)?]),
                    Posted::Set(set) if (set as usize) < sets.len() => each(blot, sets.get(set as usize)),
                    Posted::Set(set) => Err(no_such_set(part, set, sets.len())),
                })?;
            }
        }
        Ok(())
    }

    /// There is one segment; with no documents nobody asks for it.
    fn segment(&self) -> &Segment {
        &self.index.segments[0]
    }

    fn contents_of(&self, set: &[u32], out: &mut Vec<u32>) -> Result<()> {
        out.clear();
        set.iter().try_for_each(|&number| {
            out.push(find_content(self.segment(), &self.content_at, number)?);
            Ok(())
        })
    }
}

fn find_content(segment: &Segment, content_at: &[u32], number: u32) -> Result<u32> {
    let found = content_at.get(number as usize).copied().filter(|&content| content != NO_CONTENT);
    found.ok_or_else(|| segment.documents.file().damaged(0, format!("document {number} is referred to, and has no postings")))
}

fn no_such_set(part: &Part, set: u32, sets: usize) -> crate::error::Error {
    part.file().damaged(0, format!("a blot has set {set}, there are {sets}"))
}

/// The documents of each content: counting, then placing.
fn by_content(content_of: &[u32], contents: usize) -> (Vec<u32>, Vec<u32>) {
    let mut ends = vec![0_u32; contents];
    content_of.iter().for_each(|&content| ends[content as usize] += 1);
    let mut sum = 0;
    for end in &mut ends {
        // For now where the content starts; it moves on to its end.
        (*end, sum) = (sum, sum + *end);
    }
    let mut documents = vec![0; content_of.len()];
    for (document, &content) in content_of.iter().enumerate() {
        documents[ends[content as usize] as usize] = document as u32;
        ends[content as usize] += 1;
    }
    (documents, ends)
}

/// How many blots lead to each set: pieces of the parts are counted in parallel.
fn uses_of(segment: &Segment, limits: Limits) -> Result<Vec<u64>> {
    let sets = segment.sets.len() as usize;
    let pieces = segment.parts.iter().flat_map(|part| part.pieces(limits.threads).into_iter().map(move |piece| (part, piece)));
    let worker = || {
        |(part, piece): (&Part, std::ops::Range<u64>)| -> Result<Vec<u64>> {
            let mut uses = vec![0_u64; sets];
            part.for_each_shared_in(piece, |_, set| {
                *uses.get_mut(set as usize).ok_or_else(|| no_such_set(part, set, sets))? += 1;
                Ok(())
            })?;
            Ok(uses)
        }
    };
    let mut sum = vec![0_u64; sets];
    let source = pieces.map(|item| Ok(Weighted { item, bytes: 1 }));
    parallel::ordered(
        Limits::new(limits.threads, 2 * limits.threads as u64),
        source,
        worker,
        |_| 1,
        |uses: Result<Vec<u64>>| {
            sum.iter_mut().zip(uses?).for_each(|(sum, uses)| *sum += uses);
            Ok(())
        },
    )?;
    Ok(sum)
}
