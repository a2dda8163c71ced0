//! What changed in the table since an earlier commit, from the documents that were recomputed since: those that were added, replaced or removed.
//!
//! What two documents share, and what part of each that is, depends on these two only. So the rows of a document that was left as it is can change only if one of its pairs, before or
//! after, is with a recomputed one. First the pairs of recomputed documents are found; then, once for both states, the rows of all documents of these
//! pairs: a row may go, or make way for another, or move up where one went, so all rows of such a document are looked at, and no other document is.

use super::{
    Done, RowFormat,
    pairs::Numbers,
    put,
    since::{ChangeFormat, Row},
};
use crate::{
    error::Result,
    index::Both,
    similar::{Discovery, Measure, Neighbour, Overlap, Score},
};
use std::{cmp::Reverse, collections::HashMap, io::Write, sync::Arc};

/// Both states, and what is alike in either.
pub struct Recomputed<'v> {
    pub both: &'v Both<'v>,
    /// Of the view of both.
    pub discovery: &'v Discovery<'v>,
    pub top: usize,
}

/// Rows, the other document by its number.
type Rows = Vec<Row<u32>>;

/// What became of a few documents: their rows, or what to do to them.
type MadeRows = Vec<(usize, Rows)>;

/// Calls its argument with a recomputed content, another one, and what they share: all pairs that may count, each once or twice.
pub type Pairs<'p> = dyn FnMut(&mut dyn FnMut(u32, u32, u32)) -> Result<()> + 'p;

impl Recomputed<'_> {
    /// Writes the rows to delete, to update and to insert, as [`super::since::write_changes`] does. `pairs`: those of recomputed contents, if they are known.
    pub fn write_changes(&self, pairs: Option<&mut Pairs<'_>>, rows: RowFormat, out: &mut impl Write, done: &mut Done<'_>) -> Result<()> {
        let format = ChangeFormat { rows, measure: &self.discovery.options.measure };
        put(out, &format.names())?;
        let is_affected = self.affected(pairs)?;
        let (view, Both { is_old, is_new, .. }) = (&self.both.view, self.both);
        let all = 0..view.documents();
        let names = self.names()?;
        // Those of documents that were replaced, by what they were replaced by.
        let mut before: HashMap<u32, Rows> = HashMap::new();
        let went: Vec<usize> = all.clone().filter(|&document| !is_new[document]).collect();
        let old_rows = |document: usize, neighbours: &Arc<[Neighbour]>, made: &mut MadeRows| {
            made.push((document, self.rows(document, neighbours, is_old, &names)));
        };
        let weigh = |made: &MadeRows| made.iter().map(|(_, rows)| 40 * rows.len() as u64).sum();
        self.discovery.for_each_listed(&went, old_rows, weigh, |made| {
            for (document, rows) in made {
                if names[document] == document as u32 {
                    put(out, &format.changes(&view.id(document)?, [&rows, &[]], |&b| view.id(b as usize))?)?;
                } else {
                    before.insert(names[document], rows);
                }
            }
            Ok(())
        })?;
        let listed: Vec<usize> = all.filter(|&document| is_new[document] && is_affected[view.content_of(document) as usize]).collect();
        let work = |document: usize, neighbours: &Arc<[Neighbour]>, made: &mut Made| {
            made.documents += 1;
            let was = is_old[document].then(|| self.rows(document, neighbours, is_old, &names));
            let was = was.as_deref().or_else(|| before.get(&(document as u32)).map(Vec::as_slice)).unwrap_or_default();
            let is = self.rows(document, neighbours, is_new, &names);
            let changed = view.id(document).and_then(|id| format.changes(&id, [was, &is], |&b| view.id(b as usize)));
            match (changed, &mut made.bytes) {
                (Ok(more), Ok(bytes)) => bytes.extend_from_slice(&more),
                (Err(error), bytes @ Ok(_)) => *bytes = Err(error),
                (_, Err(_)) => {}
            }
        };
        let weigh = |made: &Made| made.bytes.as_ref().map_or(0, |bytes| bytes.capacity() as u64);
        let mut compared = 0;
        self.discovery.for_each_listed(&listed, work, weigh, |made| {
            compared += made.documents;
            done(compared, listed.len() as u64);
            put(out, &made.bytes?)
        })
    }

    /// By content: whether its documents may have other rows than before.
    fn affected(&self, pairs: Option<&mut Pairs<'_>>) -> Result<Vec<bool>> {
        let (discovery, changed) = (self.discovery, self.both.changed);
        let side = |content: u32| discovery.lists.side(discovery.lists.rank_of(content));
        let measure = &discovery.options.measure;
        let accepts =
            |content: u32, recomputed: u32, shared: u32| measure.accepts(side(content), side(recomputed), Overlap { shared, rarity: 0.0 });
        let mut is_affected: Vec<bool> = (0..discovery.lists.contents() as u32).map(|content| content < changed).collect();
        if let Some(pairs) = pairs {
            pairs(&mut |one, two, shared| {
                for [one, two] in [[one, two], [two, one]] {
                    is_affected[one as usize] |= accepts(one, two, shared);
                }
            })?;
            return Ok(is_affected);
        }
        // What either has of the other: more than is wanted, and found by what the recomputed one has.
        let either = Measure { score: Score::Containment, ..*measure };
        let work = |recomputed: u32, neighbours: &[Neighbour], found: &mut Vec<u32>| {
            found.extend(neighbours.iter().filter(|other| accepts(other.content, recomputed, other.shared)).map(|other| other.content));
        };
        discovery.for_each_by(
            &either,
            0..changed,
            work,
            |found| 4 * found.len() as u64,
            |found| {
                found.into_iter().for_each(|content| is_affected[content as usize] = true);
                Ok(())
            },
        )?;
        Ok(is_affected)
    }

    /// By document: what it is known by in rows. One that was replaced is known by what it was replaced by.
    fn names(&self) -> Result<Vec<u32>> {
        let Both { view, is_old, is_new, .. } = self.both;
        let mut names: Vec<u32> = (0..view.documents() as u32).collect();
        let mut came = HashMap::new();
        for document in (0..view.documents()).filter(|&document| !is_old[document]) {
            came.insert(view.id(document)?, document as u32);
        }
        for document in (0..view.documents()).filter(|&document| !is_new[document]) {
            if let Some(&now) = came.get(&view.id(document)?) {
                names[document] = now;
            }
        }
        Ok(names)
    }

    /// The rows of a document in one state: those with most shared first, then in the order of documents.
    fn rows(&self, document: usize, neighbours: &[Neighbour], is_there: &[bool], names: &[u32]) -> Rows {
        let (view, count) = (&self.both.view, self.top);
        let content = view.content_of(document);
        let mut found: Vec<(Reverse<u32>, u32, &Neighbour)> = Vec::new();
        for neighbour in neighbours {
            let others =
                view.documents_of(neighbour.content).iter().filter(|&&other| is_there[other as usize] && other as usize != document);
            // The first of a content's documents come before its others.
            found.extend(others.take(count).map(|&other| (Reverse(neighbour.shared), other, neighbour)));
        }
        if found.len() > count {
            found.select_nth_unstable_by_key(count, |&(shared, other, _)| (shared, other));
            found.truncate(count);
        }
        found.sort_unstable_by_key(|&(shared, other, _)| (shared, other));
        let row = |(_, other, neighbour): (_, u32, &Neighbour)| Row {
            b: names[other as usize],
            numbers: Numbers::of(self.discovery, content, neighbour),
        };
        found.into_iter().map(row).collect()
    }
}

/// What to do to the rows of a few documents.
struct Made {
    documents: u64,
    bytes: Result<Vec<u8>>,
}

impl Default for Made {
    fn default() -> Self {
        Self { documents: 0, bytes: Ok(Vec::new()) }
    }
}
