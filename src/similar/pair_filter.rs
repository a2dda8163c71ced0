//! The pairs to report: not those within a group, and not those of two old documents.

use super::{
    clusters::{Cluster, ClusterDuplicate, KeepRule, UnionFind, choose_kept},
    discovery::Discovery,
    join::{Join, JoinScratch, Neighbour},
    table_rows::table_rows,
};
use crate::base::ids::{ContentNo, DocNo};
use crate::base::num::ToU64;
use crate::{base::error::Result, index::View};
use std::{cmp::Reverse, collections::HashMap};

/// Rules by document; an empty list means no rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PairFilter {
    /// The group of each document: documents of one group are not compared. A document alone has a
    /// group of its own.
    pub groups: Vec<u32>,
    /// Whether each document is new: a pair must have a new one.
    pub is_new: Vec<bool>,
}

impl PairFilter {
    /// Whether all pairs are allowed.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.is_new.is_empty()
    }

    /// Whether to report a pair of documents.
    pub fn allows(&self, a: DocNo, b: DocNo) -> bool {
        let is_apart = self.groups.is_empty() || self.groups[a.index()] != self.groups[b.index()];
        is_apart && (self.is_new.is_empty() || self.is_new[a.index()] || self.is_new[b.index()])
    }

    /// All partners of a document that the filter allows, in document order, each with its
    /// neighbour.
    pub fn partners<'n>(
        &self,
        view: &View<'_>,
        neighbours: &'n [Neighbour],
        document: DocNo,
    ) -> Vec<(DocNo, &'n Neighbour)> {
        let is_wanted = |other: DocNo| other != document && self.allows(document, other);
        let documents = |neighbour: &'n Neighbour| {
            view.documents_of(neighbour.content)
                .iter()
                .map(move |&other| (other, neighbour))
        };
        let mut partners: Vec<_> = neighbours
            .iter()
            .flat_map(documents)
            .filter(|&(other, _)| is_wanted(other))
            .collect();
        partners.sort_unstable_by_key(|partner| partner.0);
        partners
    }
}

/// As [`super::clusters`], with a filter: documents of one content need not be connected.
///
/// Memory: eight bytes per document, and the largest cluster for each thread. Visits every pair,
/// also those of exact duplicates.
pub(super) fn filtered_clusters(
    discovery: &Discovery<'_>,
    keep: KeepRule,
    mut sink: impl FnMut(Cluster) -> Result<()>,
) -> Result<()> {
    let view = discovery.view;
    let mut sets = UnionFind::new(view.documents());
    discovery.for_each_document(
        |document, neighbours, edges: &mut Vec<(DocNo, DocNo)>| {
            let partners = discovery.pair_filter.partners(view, neighbours, document);
            edges.extend(
                partners
                    .iter()
                    .filter(|&&(other, _)| other > document)
                    .map(|&(other, _)| (document, other)),
            );
        },
        |edges| 8 * edges.len().to_u64(),
        |edges| {
            edges
                .into_iter()
                .for_each(|(one, two)| sets.join(one.get(), two.get()));
            Ok(())
        },
    )?;
    let groups = sets.groups(DocNo::new);
    let contents_of = |group: usize, each: &mut dyn FnMut(ContentNo)| {
        groups
            .get(group)
            .iter()
            .for_each(|&document| each(view.content_of(document)))
    };
    let work =
        |join: &Join<'_>, scratch: &mut JoinScratch, group: usize, out: &mut Vec<Cluster>| {
            out.push(cluster(discovery, join, scratch, groups.get(group), keep));
        };
    let weigh = |made: &Vec<Cluster>| {
        made.iter()
            .map(|cluster| 40 * cluster.members.len().to_u64())
            .sum()
    };
    discovery.in_lots(
        groups.len(),
        contents_of,
        work,
        weigh,
        |made: Vec<Cluster>| made.into_iter().try_for_each(&mut sink),
    )
}

fn cluster(
    discovery: &Discovery<'_>,
    join: &Join<'_>,
    scratch: &mut JoinScratch,
    members: &[DocNo],
    keep: KeepRule,
) -> Cluster {
    let kept = choose_kept(discovery.view, members, keep);
    let mut reached: HashMap<DocNo, (DocNo, Neighbour)> = HashMap::new();
    let (mut frontier, mut neighbours) = (vec![kept], Vec::new());
    while reached.len() + 1 < members.len() && !frontier.is_empty() {
        let mut found: HashMap<DocNo, (DocNo, Neighbour)> = HashMap::new();
        for &from in &frontier {
            join.neighbours(scratch, discovery.view.content_of(from), &mut neighbours);
            for (document, &how) in
                discovery
                    .pair_filter
                    .partners(discovery.view, &neighbours, from)
            {
                if document == kept || reached.contains_key(&document) {
                    continue;
                }
                let best = found.entry(document).or_insert((from, how));
                if (how.score, Reverse(from)) > (best.1.score, Reverse(best.0)) {
                    *best = (from, how);
                }
            }
        }
        frontier = found.keys().copied().collect();
        reached.extend(found);
    }
    let dropped = members.iter().filter_map(|&document| {
        let (duplicate_of, how) = reached.get(&document)?;
        Some(ClusterDuplicate {
            document,
            duplicate_of: *duplicate_of,
            shared: how.shared,
            score: how.score,
        })
    });
    Cluster {
        kept,
        dropped: dropped.collect(),
        members: members.to_vec(),
    }
}

impl Discovery<'_> {
    /// The partners of a document that come after it, in order, each with its neighbour.
    pub fn partners_after<'n>(
        &self,
        document: DocNo,
        neighbours: &'n [Neighbour],
    ) -> Vec<(DocNo, &'n Neighbour)> {
        let mut partners = Vec::new();
        for neighbour in neighbours {
            let documents = self.view.documents_of(neighbour.content);
            let after = documents.partition_point(|&other| other <= document);
            partners.extend(documents[after..].iter().map(|&other| (other, neighbour)));
        }
        if !self.pair_filter.is_empty() {
            partners.retain(|&(other, _)| self.pair_filter.allows(document, other));
        }
        partners.sort_unstable_by_key(|partner| partner.0);
        partners
    }

    /// The rows of a document's table.
    pub fn table_rows<'n>(
        &self,
        document: DocNo,
        neighbours: &'n [Neighbour],
        count: usize,
    ) -> Vec<(DocNo, &'n Neighbour)> {
        if self.pair_filter.is_empty() {
            return table_rows(self.view, neighbours, document, count);
        }
        let mut rows = self.pair_filter.partners(self.view, neighbours, document);
        rows.sort_by_key(|(_, neighbour)| Reverse(neighbour.shared));
        rows.truncate(count);
        rows
    }
}
