//! Clusters: documents connected by pairs, and which document of each cluster to keep.

use super::{
    discovery::Discovery,
    join::{Join, JoinScratch, Neighbour},
    pair_filter::filtered_clusters,
    scores::{DocumentSize, Overlap},
};
use crate::base::ids::{ContentNo, DocNo, SetRank};
use crate::base::num::{ToU32, ToU64, ToUsize};
use crate::{base::error::Result, index::View};
use std::{cmp::Reverse, collections::HashMap};

/// Which document of a cluster is kept. First and last refer to the order of the view, which is by
/// id if [`View::by_id`] made it. Length is in tokens; of equally long documents the first is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    mut sink: impl FnMut(Cluster) -> Result<()>,
) -> Result<()> {
    if !discovery.pair_filter.is_empty() {
        return filtered_clusters(discovery, keep, sink);
    }
    let groups = groups(discovery)?;
    let contents_of = |group: usize, each: &mut dyn FnMut(ContentNo)| {
        groups[group].iter().for_each(|&content| each(content))
    };
    let work =
        |join: &Join<'_>, scratch: &mut JoinScratch, group: usize, out: &mut Vec<Cluster>| {
            out.push(
                ClusterTracer {
                    view: discovery.view,
                    join,
                    scratch,
                }
                .cluster(&groups[group], keep),
            );
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

/// The connected contents, by the first one of each group.
///
/// If the smallest content of a set forms a pair with each other one by this set alone, the whole
/// set is connected. It is joined in as many steps as it has members, and skipped when pairs are
/// searched, as two contents that share it are in one group already. So a sentence that all
/// documents share costs no pairs.
fn groups(discovery: &Discovery<'_>) -> Result<Vec<Vec<ContentNo>>> {
    let lists = &discovery.sets;
    let mut groups = UnionFind::new(lists.contents());
    let measure = &discovery.options.measure;
    discovery.for_each_set(|overlap, contents| {
        let sizes = contents
            .iter()
            .map(|&content| lists.size(lists.rank_of(content)).blots);
        let (Some(smallest), Some(largest)) = (sizes.clone().min(), sizes.max()) else {
            return;
        };
        let [smallest, largest] = [smallest, largest].map(|blots| DocumentSize { blots });
        if measure.accepts(smallest, largest, overlap) {
            contents
                .iter()
                .for_each(|content| groups.join(contents[0].get(), content.get()));
        }
    })?;
    let itself =
        |content: usize, each: &mut dyn FnMut(ContentNo)| each(ContentNo::from_index(content));
    let work = |join: &Join<'_>,
                scratch: &mut JoinScratch,
                item: usize,
                edges: &mut Vec<(ContentNo, ContentNo)>| {
        let content = ContentNo::from_index(item);
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
        lists.contents(),
        itself,
        work,
        |edges| 8 * edges.len().to_u64(),
        |edges: Vec<(ContentNo, ContentNo)>| {
            edges
                .into_iter()
                .for_each(|(one, two)| groups.join(one.get(), two.get()));
            Ok(())
        },
    )?;
    Ok(groups.groups(ContentNo::new))
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
    pub fn groups<T>(mut self, typed: impl Fn(u32) -> T) -> Vec<Vec<T>> {
        let (mut groups, mut place): (Vec<Vec<T>>, HashMap<u32, usize>) =
            (Vec::new(), HashMap::new());
        for member in 0..self.parent.len().to_u32() {
            if self.is_joined[member.to_usize()] {
                let at = *place.entry(self.root(member)).or_insert(groups.len());
                if at == groups.len() {
                    groups.push(Vec::new());
                }
                groups[at].push(typed(member));
            }
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
