//! Clusters: documents connected by pairs, and which document of each cluster to keep.

use super::{
    discovery::Discovery,
    join::{Join, JoinScratch, Neighbour},
    pair_filter::filtered_clusters,
    scores::{DocumentSize, Overlap},
};
use crate::base::ids::{ContentNo, DocNo, SetRank};
use crate::base::num::{ToU32, ToU64, ToUsize};
use crate::{
    base::{error::Result, share::Share},
    index::View,
};
use serde::{Deserialize, Serialize};
use std::{cmp::Reverse, collections::HashMap, ops::Range};

/// Which document of a cluster is kept. First and last refer to the order of the view, which is by
/// id if [`View::by_id`] made it. Length is in tokens; of equally long documents the first is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeepRule {
    /// The first document.
    First,
    /// The last document.
    Last,
    /// The longest document.
    Longest,
    /// The shortest document.
    Shortest,
}

impl KeepRule {
    /// The rules by name.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("first", Self::First),
        ("longest", Self::Longest),
        ("shortest", Self::Shortest),
        ("last", Self::Last),
    ];

    /// The rule of this name; the first document, if there is none.
    pub fn named(name: Option<&str>) -> Self {
        let row = Self::NAMES.iter().find(|row| Some(row.0) == name);
        row.map_or(Self::First, |row| row.1)
    }
}

/// A connected component of the graph of pairs, of two or more documents.
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    /// The document that is kept.
    pub kept: DocNo,
    /// All documents, in the order of the view.
    pub members: Vec<DocNo>,
    /// All documents except the kept one.
    pub dropped: Vec<ClusterDuplicate>,
}

/// A document that is dropped, and the document that makes it redundant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClusterDuplicate {
    /// The document.
    pub document: DocNo,
    /// The document that is kept, if the two are a pair; else the next document on a shortest path
    /// to it. Of several, the one with the highest score.
    pub duplicate_of: DocNo,
    /// The number of blots that the two share.
    pub shared: u32,
    /// The score of the two.
    pub score: f64,
}

/// Calls `sink` with every cluster, in the order of their first documents. Memory: sixteen bytes
/// per content, and the largest cluster for each thread.
pub fn clusters(
    discovery: &Discovery<'_>,
    keep: KeepRule,
    sink: impl FnMut(Cluster) -> Result<()>,
) -> Result<()> {
    if !discovery.pair_filter.is_empty() {
        return filtered_clusters(discovery, keep, sink);
    }
    let links = ClusterLinks::find(discovery, Share::WHOLE)?;
    let groups = links.groups();
    trace_clusters(discovery, &groups, 0..groups.len(), keep, sink)
}

/// Calls `sink` with the cluster of each of the wanted groups of contents, in their order.
pub fn trace_clusters(
    discovery: &Discovery<'_>,
    groups: &Groups<ContentNo>,
    wanted: Range<usize>,
    keep: KeepRule,
    mut sink: impl FnMut(Cluster) -> Result<()>,
) -> Result<()> {
    let group_of = |item: usize| groups.get(wanted.start + item);
    let contents_of = |item: usize, each: &mut dyn FnMut(ContentNo)| {
        group_of(item).iter().for_each(|&content| each(content))
    };
    let work = |join: &Join<'_>, scratch: &mut JoinScratch, item: usize, out: &mut Vec<Cluster>| {
        out.push(
            ClusterTracer {
                view: discovery.view,
                join,
                scratch,
            }
            .cluster(group_of(item), keep),
        );
    };
    let weigh = |made: &Vec<Cluster>| {
        made.iter()
            .map(|cluster| 40 * cluster.members.len().to_u64())
            .sum()
    };
    discovery.in_lots(
        wanted.len(),
        contents_of,
        work,
        weigh,
        |made: Vec<Cluster>| made.into_iter().try_for_each(&mut sink),
    )
}

/// Contents that are connected, as far as the links that were found tell: a forest, so it never has
/// more links than contents. The forests of all shares of an index together give its clusters.
pub struct ClusterLinks {
    pub(super) joined: UnionFind,
}

impl ClusterLinks {
    /// Finds the links of the contents of a share.
    ///
    /// If the smallest content of a set forms a pair with each other one by this set alone, the whole
    /// set is connected. It is joined in as many steps as it has members, and skipped when pairs are
    /// searched, as two contents that share it are in one group already. So a sentence that all
    /// documents share costs no pairs.
    pub fn find(discovery: &Discovery<'_>, share: Share) -> Result<Self> {
        let contents = discovery.contents_of(share);
        let mut found = Self {
            joined: UnionFind::new(discovery.sets.contents()),
        };
        found.join_sets(discovery, &contents)?;
        found.join_pairs(discovery, &contents)?;
        Ok(found)
    }

    /// Joins the sets that connect all their contents, and whose least content is one of these.
    fn join_sets(&mut self, discovery: &Discovery<'_>, wanted: &Range<usize>) -> Result<()> {
        let lists = &discovery.sets;
        let measure = &discovery.options.measure;
        discovery.for_each_set(|overlap, contents| {
            let sizes = contents
                .iter()
                .map(|&content| lists.size(lists.rank_of(content)).blots);
            let (Some(smallest), Some(largest)) = (sizes.clone().min(), sizes.max()) else {
                return;
            };
            let [smallest, largest] = [smallest, largest].map(|blots| DocumentSize { blots });
            let least = contents.iter().min();
            let is_wanted = least.is_some_and(|least| wanted.contains(&least.index()));
            if is_wanted && measure.accepts(smallest, largest, overlap) {
                contents
                    .iter()
                    .for_each(|content| self.joined.join(contents[0].get(), content.get()));
            }
        })
    }

    /// Joins the pairs of these contents with later ones.
    fn join_pairs(&mut self, discovery: &Discovery<'_>, wanted: &Range<usize>) -> Result<()> {
        let content_of = |item: usize| ContentNo::from_index(wanted.start + item);
        let itself = |item: usize, each: &mut dyn FnMut(ContentNo)| each(content_of(item));
        let work = |join: &Join<'_>,
                    scratch: &mut JoinScratch,
                    item: usize,
                    edges: &mut Vec<(ContentNo, ContentNo)>| {
            let content = content_of(item);
            let mut neighbours = Vec::new();
            join.neighbours_in(
                scratch,
                content,
                |set| !joins_all(join, set),
                &mut neighbours,
            );
            // A content may be its own neighbour: its documents are a pair.
            edges.extend(
                neighbours
                    .iter()
                    .filter(|other| other.content >= content)
                    .map(|other| (content, other.content)),
            );
        };
        discovery.in_lots(
            wanted.len(),
            itself,
            work,
            |edges| 8 * edges.len().to_u64(),
            |edges: Vec<(ContentNo, ContentNo)>| {
                edges
                    .into_iter()
                    .for_each(|(one, two)| self.joined.join(one.get(), two.get()));
                Ok(())
            },
        )
    }

    /// The connected contents, by the first one of each group.
    pub fn groups(self) -> Groups<ContentNo> {
        self.joined.groups(ContentNo::new)
    }
}

/// Whether the smallest content of a set forms a pair with each other one by the blots of this set
/// alone. If it does with the largest, it does with all.
fn joins_all(join: &Join<'_>, set: SetRank) -> bool {
    let lists = join.ranked;
    let overlap = Overlap {
        shared: lists.weight(set),
        rarity: lists.rarity(set),
    };
    match lists.members(set) {
        [smallest, .., largest] => {
            join.measure
                .accepts(lists.size(*smallest), lists.size(*largest), overlap)
        }
        _ => false,
    }
}

/// Groups of contents or documents, without an allocation for each.
#[derive(Debug, PartialEq)]
pub struct Groups<T> {
    /// Those of all groups, one group after the other.
    members: Vec<T>,
    /// Where each group ends.
    ends: Vec<usize>,
}

impl<T> Groups<T> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The members of a group, by its number; they ascend.
    pub fn get(&self, group: usize) -> &[T] {
        let start = group.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.members[start..self.ends[group]]
    }
}

/// A union-find structure over contents or documents; the least member of a group is its root.
pub(super) struct UnionFind {
    parent: Vec<u32>,
    is_joined: Vec<bool>,
}

impl UnionFind {
    pub fn new(count: usize) -> Self {
        Self {
            parent: (0..count.to_u32()).collect(),
            is_joined: vec![false; count],
        }
    }

    /// The number of members, joined or not.
    pub fn len(&self) -> usize {
        self.parent.len()
    }

    /// Calls `each` with every member that was joined, and the least one of its group, in order.
    pub fn for_each_joined<E>(
        &mut self,
        mut each: impl FnMut(u32, u32) -> Result<(), E>,
    ) -> Result<(), E> {
        (0..self.len().to_u32())
            .filter(|member| self.is_joined[member.to_usize()])
            .collect::<Vec<_>>()
            .into_iter()
            .try_for_each(|member| each(member, self.root(member)))
    }

    fn root(&mut self, mut of: u32) -> u32 {
        while self.parent[of.to_usize()] != of {
            let above = self.parent[self.parent[of.to_usize()].to_usize()];
            self.parent[of.to_usize()] = above;
            of = above;
        }
        of
    }

    /// The groups of members that were joined, sorted by the first of each group. `typed` gives a
    /// member its type back.
    pub fn groups<T>(mut self, typed: impl Fn(u32) -> T) -> Groups<T> {
        let joined = (0..self.parent.len().to_u32()).filter(|at| self.is_joined[at.to_usize()]);
        let joined: Vec<u32> = joined.collect();
        // The least member of a group is its root.
        let mut by_root: Vec<[u32; 2]> = joined
            .into_iter()
            .map(|member| [self.root(member), member])
            .collect();
        by_root.sort_unstable();
        let mut groups = Groups {
            members: Vec::with_capacity(by_root.len()),
            ends: Vec::new(),
        };
        for of_root in by_root.chunk_by(|one, two| one[0] == two[0]) {
            let members = of_root.iter().map(|&[_, member]| typed(member));
            groups.members.extend(members);
            groups.ends.push(groups.members.len());
        }
        groups
    }

    /// Joins the groups of two members.
    pub fn join(&mut self, one: u32, two: u32) {
        [one, two]
            .iter()
            .for_each(|&member| self.is_joined[member.to_usize()] = true);
        let (one, two) = (self.root(one), self.root(two));
        self.parent[one.max(two).to_usize()] = one.min(two);
    }
}

/// Searches breadth first from the document that is kept, until every content of its cluster is
/// reached.
struct ClusterTracer<'t, 'l> {
    view: &'t View<'t>,
    join: &'t Join<'l>,
    scratch: &'t mut JoinScratch,
}

impl ClusterTracer<'_, '_> {
    fn cluster(&mut self, group: &[ContentNo], keep: KeepRule) -> Cluster {
        let mut members: Vec<DocNo> = group
            .iter()
            .flat_map(|&content| self.view.documents_of(content))
            .copied()
            .collect();
        members.sort_unstable();
        let kept = choose_kept(self.view, &members, keep);
        let reached = self.trace(group, kept);
        let dropped = members
            .iter()
            .filter(|&&document| document != kept)
            .map(|&document| {
                let content = self.view.content_of(document);
                let (duplicate_of, how) = reached
                    .get(&content)
                    .copied()
                    .unwrap_or_else(|| (kept, self.join.self_neighbour(content)));
                ClusterDuplicate {
                    document,
                    duplicate_of,
                    shared: how.shared,
                    score: how.score,
                }
            });
        Cluster {
            kept,
            dropped: dropped.collect(),
            members,
        }
    }

    /// For each content of a group: the document from which it was reached, and what the two share.
    fn trace(
        &mut self,
        group: &[ContentNo],
        kept: DocNo,
    ) -> HashMap<ContentNo, (DocNo, Neighbour)> {
        let centre = self.view.content_of(kept);
        let mut reached = HashMap::from([(centre, (kept, self.join.self_neighbour(centre)))]);
        let (mut frontier, mut from) = (vec![centre], HashMap::from([(centre, kept)]));
        while reached.len() < group.len() && !frontier.is_empty() {
            let mut found: HashMap<ContentNo, (DocNo, Neighbour)> = HashMap::new();
            let mut neighbours = Vec::new();
            for &content in &frontier {
                self.join.neighbours(self.scratch, content, &mut neighbours);
                for &how in neighbours
                    .iter()
                    .filter(|other| !reached.contains_key(&other.content))
                {
                    let way = (from[&content], how);
                    let best = found.entry(how.content).or_insert(way);
                    if (how.score, Reverse(way.0)) > (best.1.score, Reverse(best.0)) {
                        *best = way;
                    }
                }
            }
            frontier = found.keys().copied().collect();
            from = frontier
                .iter()
                .map(|&content| (content, self.view.documents_of(content)[0]))
                .collect();
            reached.extend(found);
        }
        reached
    }
}

/// The document that a rule keeps.
pub(super) fn choose_kept(view: &View<'_>, members: &[DocNo], keep: KeepRule) -> DocNo {
    let tokens = |document: DocNo| view.contents()[view.content_of(document).index()].tokens;
    let chosen = match keep {
        KeepRule::First => members.first(),
        KeepRule::Last => members.last(),
        KeepRule::Longest => members
            .iter()
            .min_by_key(|&&document| Reverse(tokens(document))),
        KeepRule::Shortest => members.iter().min_by_key(|&&document| tokens(document)),
    };
    chosen.copied().unwrap_or_default()
}
