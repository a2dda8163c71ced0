//! Which pairs are wanted: rules as the user gives them, and the same rules for the documents of an index.

use crate::base::ids::DocNo;
use crate::base::num::ToU64;
use crate::{
    base::error::{Error, Place, Problem, Result},
    commands::{
        Observer,
        document_groups::{DocumentGroups, Grouping},
    },
    index::{Index, Since, View},
    similar::PairFilter,
};
use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

/// Rules that leave pairs out.
#[derive(Debug, Clone, Default)]
pub struct WantedPairs {
    /// If set: pairs of documents of one group are left out.
    pub groups: Option<Grouping>,
    /// If not empty: only pairs with at least one new document count.
    pub new: Vec<NewDocuments>,
}

/// Which documents are new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewDocuments {
    /// Documents whose ids begin with this.
    Prefix(String),
    /// Documents whose ids are in this file, one a line.
    Listed(PathBuf),
    /// Documents that were added or changed after the commit with this number.
    Since(Since),
}

/// [`WantedPairs`] with all files read.
#[derive(Debug, Default)]
pub(super) struct PairRules {
    groups: Option<DocumentGroups>,
    new: Vec<NewRule>,
}

impl PairRules {
    /// Whether all pairs are wanted.
    pub fn is_empty(&self) -> bool {
        self.groups.is_none() && self.new.is_empty()
    }
}

#[derive(Debug)]
enum NewRule {
    Prefix(String),
    Listed(HashSet<String>),
    Since(u64),
}

impl WantedPairs {
    /// Whether there are no rules, so that all pairs are wanted.
    pub fn is_empty(&self) -> bool {
        self.groups.is_none() && self.new.is_empty()
    }

    /// Reads the files. Reports listed ids that the index does not have to `observer`, and returns their number.
    pub(super) fn read(
        &self,
        index: &Index,
        observer: &mut dyn Observer,
    ) -> Result<(PairRules, u64)> {
        let groups = self.groups.as_ref().map(DocumentGroups::read).transpose()?;
        let is_known = |id: &str| Ok(index.find_id(id)?.is_some());
        let mut unknown = groups
            .as_ref()
            .map_or(Ok(Vec::new()), |groups| groups.unknown(is_known))?;
        let mut new = Vec::new();
        for rule in &self.new {
            new.push(match rule {
                NewDocuments::Prefix(prefix) => NewRule::Prefix(prefix.clone()),
                NewDocuments::Since(since) => {
                    NewRule::Since(index.manifest.resolve(&index.directory, since)?)
                }
                NewDocuments::Listed(path) => NewRule::Listed(listed(path, |line, id| {
                    if !is_known(id)? {
                        let place = Place::line(&path.display().to_string().into(), line);
                        unknown.push(Problem::new(place, format!("there is no document '{id}'")));
                    }
                    Ok(())
                })?),
            });
        }
        unknown.iter().for_each(|problem| observer.problem(problem));
        Ok((PairRules { groups, new }, unknown.len().to_u64()))
    }
}

fn listed(path: &Path, mut each: impl FnMut(u64, &str) -> Result<()>) -> Result<HashSet<String>> {
    let text = fs::read_to_string(path).map_err(|error| Error::io(path.display(), error))?;
    let mut ids = HashSet::new();
    for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.is_empty()) {
        each(number, line)?;
        ids.insert(line.to_owned());
    }
    Ok(ids)
}

impl PairRules {
    /// The rules for the documents of the whole index. If none of its documents is new, that is an error, as it is probably a mistake.
    pub fn pair_filter(&self, index: &Index, view: &View<'_>) -> Result<PairFilter> {
        let pair_filter = self.pair_filter_in(index, view)?;
        let is_empty = !pair_filter.is_new.is_empty() && !pair_filter.is_new.contains(&true);
        if is_empty {
            Err(Error::Usage(
                "no document of the index is new, so there is nothing to compare".to_owned(),
            ))
        } else {
            Ok(pair_filter)
        }
    }

    /// The rules for the documents of a view. Memory: five bytes a document, and the ids of a list.
    pub fn pair_filter_in(&self, index: &Index, view: &View<'_>) -> Result<PairFilter> {
        let ids = || (0..view.documents()).map(|document| view.id(DocNo::from_index(document)));
        let groups = self
            .groups
            .as_ref()
            .map_or(Ok(Vec::new()), |groups| groups.numbers(ids()))?;
        let mut is_new = vec![
            false;
            if self.new.is_empty() {
                0
            } else {
                view.documents()
            }
        ];
        for rule in &self.new {
            let mut mark = |document: usize, is: bool| is_new[document] |= is;
            match rule {
                NewRule::Prefix(prefix) => {
                    for (document, id) in ids().enumerate() {
                        mark(document, id?.starts_with(prefix.as_str()));
                    }
                }
                NewRule::Listed(listed) => {
                    for (document, id) in ids().enumerate() {
                        mark(document, listed.contains(&id?));
                    }
                }
                NewRule::Since(generation) => {
                    let old = Index::open_at(&index.directory, *generation)?;
                    let old = View::of(&old)?;
                    let places: HashSet<_> = (0..old.documents())
                        .map(|document| old.at(DocNo::from_index(document)))
                        .collect();
                    (0..view.documents()).for_each(|document| {
                        mark(
                            document,
                            !places.contains(&view.at(DocNo::from_index(document))),
                        )
                    });
                }
            }
        }
        Ok(PairFilter { groups, is_new })
    }
}
