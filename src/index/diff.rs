//! Two states of one index as one, so that what changed between them is looked for once.
//!
//! What two contents share depends on nothing but these two: a pair that is there before and after
//! shares the same. So all documents that are there in either state stand side by side, and each
//! says in which it is.

use super::{
    merge::NONE,
    order_by_id::SortedIds,
    view::{ContentInfo, NO_CONTENT, View, ViewRow},
};
use crate::base::{
    error::{Error, Result},
    ids::ContentNo,
};

/// An earlier state and a later one. Contents whose documents changed come first, then the others;
/// documents stand in the order of their ids.
///
/// Memory: that of a view, and some 20 bytes a document more.
pub struct IndexDiff<'i> {
    /// All documents that are there in either state.
    pub view: View<'i>,
    /// For each document, whether it is there in the earlier state.
    pub is_old: Vec<bool>,
    /// For each document, whether it is there in the later state.
    pub is_new: Vec<bool>,
    /// How many contents have a document that is only in one of the states.
    pub changed: u32,
}

/// The contents of both states.
struct UnitedContents {
    /// Those of the later state, then those that only the earlier one has.
    contents: Vec<ContentInfo>,
    /// For each segment and place of the later state, its content here.
    content_at: Vec<Vec<u32>>,
    /// For each content of the earlier state, its number here.
    of_old: Vec<ContentNo>,
}

impl UnitedContents {
    fn new(old: &View<'_>, new: &View<'_>) -> Self {
        let mut contents = new.contents().to_vec();
        let mut content_at = new.content_at.clone();
        let mut of_old = vec![NO_CONTENT; old.contents().len()];
        for (was, is) in old.content_at.iter().zip(&mut content_at) {
            for (&was, is) in was.iter().zip(is).filter(|(was, _)| **was != NONE) {
                if *is == NONE {
                    *is = ContentNo::from_index(contents.len()).get();
                    contents.push(old.contents()[ContentNo::new(was).index()]);
                }
                of_old[ContentNo::new(was).index()] = ContentNo::new(*is);
            }
        }
        Self {
            contents,
            content_at,
            of_old,
        }
    }

    /// For each segment and place, whether its row is a document of a view.
    fn rows_of(&self, view: &View<'_>) -> Vec<Vec<bool>> {
        let mut rows: Vec<Vec<bool>> = self
            .content_at
            .iter()
            .map(|places| vec![false; places.len()])
            .collect();
        for row in &view.documents {
            rows[row.segment as usize][row.place as usize] = true;
        }
        rows
    }
}

impl<'i> IndexDiff<'i> {
    /// Compares two states; the segments of the earlier one must be the first of the later one.
    pub fn new(old: &View<'_>, new: &View<'i>) -> Result<Self> {
        if old.content_at.len() > new.content_at.len() {
            return Err(Error::Usage(
                "the earlier state has segments that the later one does not have".to_owned(),
            ));
        }
        let united = UnitedContents::new(old, new);
        let in_old = united.rows_of(old);
        let in_new = united.rows_of(new);
        let is_in =
            |rows: &[Vec<bool>], row: &ViewRow| rows[row.segment as usize][row.place as usize];
        let mut documents: Vec<ViewRow> = old
            .documents
            .iter()
            .filter(|row| !is_in(&in_new, row))
            .map(|row| ViewRow {
                content: united.of_old[row.content.index()],
                ..*row
            })
            .collect();
        documents.extend_from_slice(&new.documents);
        let UnitedContents {
            contents,
            content_at,
            ..
        } = united;
        // A replaced document occurs twice under one id: the old one, then the new one.
        let order =
            SortedIds::of(&new.with(documents.clone(), contents.clone(), content_at.clone()))?
                .order;
        let documents: Vec<ViewRow> = order
            .into_iter()
            .map(|document| documents[document.index()])
            .collect();
        let is_new: Vec<bool> = documents.iter().map(|row| is_in(&in_new, row)).collect();
        let is_old: Vec<bool> = documents.iter().map(|row| is_in(&in_old, row)).collect();
        Ok(Self::changed_first(
            new, documents, contents, content_at, is_old, is_new,
        ))
    }

    /// Renumbers the contents, so that those whose documents changed come first.
    fn changed_first(
        new: &View<'i>,
        mut documents: Vec<ViewRow>,
        contents: Vec<ContentInfo>,
        mut content_at: Vec<Vec<u32>>,
        is_old: Vec<bool>,
        is_new: Vec<bool>,
    ) -> Self {
        let mut is_changed = vec![false; contents.len()];
        for (listed, (old, new)) in documents.iter().zip(is_old.iter().zip(&is_new)) {
            is_changed[listed.content.index()] |= old != new;
        }
        let mut order: Vec<ContentNo> = ContentNo::first(contents.len()).collect();
        order.sort_by_key(|&content| !is_changed[content.index()]);
        let mut place = vec![ContentNo::default(); order.len()];
        ContentNo::first(order.len())
            .zip(&order)
            .for_each(|(number, &content)| place[content.index()] = number);
        documents
            .iter_mut()
            .for_each(|listed| listed.content = place[listed.content.index()]);
        content_at
            .iter_mut()
            .flatten()
            .filter(|content| **content != NONE)
            .for_each(|content| *content = place[ContentNo::new(*content).index()].get());
        let contents = order
            .iter()
            .map(|&content| contents[content.index()])
            .collect();
        let changed = is_changed
            .into_iter()
            .filter(|is_changed| *is_changed)
            .count() as u32;
        Self {
            view: new.with(documents, contents, content_at),
            is_old,
            is_new,
            changed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::ids::DocNo,
        index::{open::Index, test_files},
    };

    #[test]
    fn documents_of_both_states_stand_side_by_side() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        test_files::commit(
            path,
            &[("a", 1, vec![1, 2]), ("b", 2, vec![2]), ("c", 3, vec![7])],
            &[],
        );
        test_files::commit(path, &[("b", 4, vec![2, 5]), ("d", 1, vec![1, 2])], &["c"]);
        let old = Index::open_at(path, 1).unwrap();
        let new = Index::open(path).unwrap();
        let old = View::of(&old).unwrap();
        let new = View::of(&new).unwrap();
        let diff = IndexDiff::new(&old, &new).unwrap();
        let documents: Vec<(String, bool, bool)> = DocNo::first(diff.view.documents())
            .zip(diff.is_old.iter().zip(&diff.is_new))
            .map(|(document, (&old, &new))| (diff.view.id(document).unwrap(), old, new))
            .collect();
        let expected = [
            ("a", true, true),
            ("b", true, false),
            ("b", false, true),
            ("c", true, false),
            ("d", false, true),
        ];
        assert_eq!(
            documents,
            expected.map(|(id, old, new)| (id.to_owned(), old, new))
        );
        // The content of `a` changed, too: `d` has it now.
        assert_eq!((diff.changed, diff.view.contents().len()), (4, 4));
        assert!(IndexDiff::new(&new, &old).is_err());
    }

    #[test]
    fn equal_states_have_no_changes() {
        let directory = tempfile::tempdir().unwrap();
        test_files::commit(
            directory.path(),
            &[("a", 1, vec![1]), ("b", 1, vec![1])],
            &[],
        );
        let index = Index::open(directory.path()).unwrap();
        let view = View::of(&index).unwrap();
        let diff = IndexDiff::new(&view, &view).unwrap();
        assert_eq!((diff.changed, diff.view.documents()), (0, 2));
        assert!(
            diff.is_old
                .iter()
                .chain(&diff.is_new)
                .all(|&is_there| is_there)
        );
    }
}
