//! The graph of connected documents. The layout is computed here, so that the same pairs give the same picture.

use super::{
    directory::{PageKind, page_name},
    frame::{name_among, put, put_element},
    number::{count, counted, percent},
};
use crate::base::num::{ToF64, ToU64, ToUsize};
use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    f64::consts::TAU,
};

/// A pair that is worth a line.
#[derive(Debug, Clone, Copy)]
pub struct Edge {
    pub ends: [u32; 2],
    pub share: f64,
    /// The number of its page, if it has one.
    pub page: Option<usize>,
}

/// The most documents that are drawn; of more, only the largest groups.
const MAX_NODES: usize = 240;
const MAX_EDGES: usize = 1500;
/// If there are more, each document keeps this many of its strongest lines, and those that hold a group together.
const MAX_NEIGHBOURS: usize = 4;
/// Names are drawn for at most this many documents.
const MAX_NAMED: usize = 40;
/// Of the picture, in its own units; more groups make it wider.
const WIDTHS: (f64, f64) = (640.0, 1600.0);

/// Appends the figure. Memory: O(edges).
pub fn put_graph(out: &mut Vec<u8>, ids: &[String], edges: &[Edge]) {
    let groups = groups(ids.len(), edges);
    let mut by_share: Vec<&Edge> = edges.iter().collect();
    by_share.sort_by(|one, two| {
        two.share
            .total_cmp(&one.share)
            .then(one.ends.cmp(&two.ends))
    });
    let mut drawn: Vec<Vec<u32>> = Vec::new();
    let mut nodes = 0;
    for group in &groups {
        if nodes + group.len() <= MAX_NODES || drawn.is_empty() {
            let group = strongest(group, &by_share);
            nodes += group.len();
            drawn.push(group);
        }
    }
    let shown = shown_edges(&drawn, &by_share);
    put(
        out,
        "<figure class=\"graph\">\n<figcaption><h2>Connected documents</h2><p>",
    );
    let are_all_shown = shown.len() == edges.len();
    put(out, &caption(&groups, drawn.len(), nodes, are_all_shown));
    put(out, "</p>");
    if !drawn.is_empty() {
        put(out, include_str!("zoom.html"));
    }
    put(out, "</figcaption>\n");
    if !drawn.is_empty() {
        put_picture(out, ids, &shown, &drawn, nodes <= MAX_NAMED);
    }
    put(out, "</figure>\n");
}

/// The documents of a group, or as many of the strongest pairs as are drawn.
fn strongest(group: &[u32], by_share: &[&Edge]) -> Vec<u32> {
    if group.len() <= MAX_NODES {
        return group.to_vec();
    }
    let mut left: HashSet<u32> = group.iter().copied().collect();
    let ends = by_share.iter().flat_map(|edge| edge.ends);
    let mut kept: Vec<u32> = ends
        .filter(|end| left.remove(end))
        .take(MAX_NODES)
        .collect();
    kept.sort_unstable();
    kept
}

/// The lines between documents that are drawn, the strongest first. A thousand lines between forty documents would hide each other, and
/// pull all dots to one place.
fn shown_edges<'e>(drawn: &[Vec<u32>], by_share: &[&'e Edge]) -> Vec<&'e Edge> {
    let nodes: HashSet<u32> = drawn.iter().flatten().copied().collect();
    let is_drawn = |edge: &&&Edge| edge.ends.iter().all(|end| nodes.contains(end));
    let between = || by_share.iter().filter(is_drawn).copied();
    if between().count() <= MAX_EDGES {
        return between().collect();
    }
    let mut parent: HashMap<u32, u32> = nodes.iter().map(|&node| (node, node)).collect();
    let mut neighbours: HashMap<u32, usize> = HashMap::new();
    let is_needed = |edge: &&Edge| {
        let [one, two] = edge.ends.map(|end| root_of(&mut parent, end));
        parent.insert(one.max(two), one.min(two));
        let has_room = |end| neighbours.get(end).copied().unwrap_or(0) < MAX_NEIGHBOURS;
        let is_needed = one != two || edge.ends.iter().all(has_room);
        if is_needed {
            for end in edge.ends {
                *neighbours.entry(end).or_default() += 1;
            }
        }
        is_needed
    };
    between().filter(is_needed).take(MAX_EDGES).collect()
}

/// The document that stands for those that are connected with one.
fn root_of(parent: &mut HashMap<u32, u32>, mut of: u32) -> u32 {
    while parent[&of] != of {
        let above = parent[&parent[&of]];
        parent.insert(of, above);
        of = above;
    }
    of
}

fn caption(groups: &[Vec<u32>], drawn: usize, nodes: usize, are_all_shown: bool) -> String {
    let all: usize = groups.iter().map(Vec::len).sum();
    let lines = if are_all_shown {
        "A line joins two documents if a tenth or more of one is in the other"
    } else {
        "A line joins two documents if a tenth or more of one is in the other; of many, the strongest of each document are shown"
    };
    match groups.len() {
        0 => "No pair shares a tenth of either text.".to_owned(),
        number if nodes == all => format!(
            "{} in {}. {lines}. Choose a line to open the pair, a dot to see the pairs of a document.",
            counted(nodes as u64, "document"),
            counted(number as u64, "group")
        ),
        number => format!(
            "{} of {} groups, with {} of {} documents: the largest. {lines}.",
            count(drawn.to_u64()),
            count(number as u64),
            count(nodes as u64),
            count(all as u64)
        ),
    }
}

/// Connected groups of documents, the largest first; among equals the one with the first document.
fn groups(documents: usize, edges: &[Edge]) -> Vec<Vec<u32>> {
    let mut parent: Vec<u32> = (0..documents as u32).collect();
    let root = |parent: &mut Vec<u32>, mut of: u32| {
        while parent[of.to_usize()] != of {
            let above = parent[parent[of.to_usize()] as usize];
            parent[of.to_usize()] = above;
            of = above;
        }
        of
    };
    for edge in edges {
        let (one, two) = (
            root(&mut parent, edge.ends[0]),
            root(&mut parent, edge.ends[1]),
        );
        parent[one.max(two).to_usize()] = one.min(two);
    }
    let mut members: HashMap<u32, Vec<u32>> = HashMap::new();
    for document in 0..documents as u32 {
        members
            .entry(root(&mut parent, document))
            .or_default()
            .push(document);
    }
    let mut groups: Vec<Vec<u32>> = members
        .into_values()
        .filter(|group| group.len() > 1)
        .collect();
    groups.sort_unstable_by_key(|group| (Reverse(group.len()), group[0]));
    groups
}

fn put_picture(
    out: &mut Vec<u8>,
    ids: &[String],
    edges: &[&Edge],
    groups: &[Vec<u32>],
    is_named: bool,
) {
    let (places, width, height) = packed(groups, edges, is_named);
    put(
        out,
        &format!(
            "<svg viewBox=\"0 0 {width:.0} {height:.0}\" role=\"group\" aria-label=\"Graph of documents\">\n"
        ),
    );
    // The strongest are drawn last, on top.
    for edge in edges.iter().rev() {
        let ends = edge.ends.map(|end| places[&end]);
        put_edge(out, edge, ends, ids);
    }
    let drawn = groups
        .iter()
        .flatten()
        .map(|&document| ids[document.to_usize()].as_str());
    for &document in groups.iter().flatten() {
        let id = &ids[document.to_usize()];
        let name = shortened(name_among(id, drawn.clone()));
        put_node(out, document, places[&document], id, &name);
    }
    put(out, "</svg>\n");
}

/// A line, which leads to the page of the pair if there is one.
fn put_edge(out: &mut Vec<u8>, edge: &Edge, ends: [(f64, f64); 2], ids: &[String]) {
    let [(x1, y1), (x2, y2)] = ends;
    let line = format!("x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"");
    let [a, b] = edge.ends.map(|end| ids[end.to_usize()].as_str());
    let what = format!("{a} and {b}: {}", percent(edge.share));
    // Keys reach the pairs in the table.
    let close = match edge.page {
        Some(page) => {
            let page = page_name(PageKind::Pair, page);
            put_element(
                out,
                &format!("<a class=\"edge\" href=\"{page}\" tabindex=\"-1\" aria-label=\""),
                &what,
                "\">",
            );
            "</a>\n"
        }
        None => {
            put(out, "<g class=\"edge\">");
            "</g>\n"
        }
    };
    // A thin line is hard to point at.
    put(out, &format!("<line class=\"hit\" {line}/>"));
    let width = 1.0 + 4.0 * edge.share;
    put(out, &format!("<line {line} stroke-width=\"{width:.1}\"/>"));
    put_element(out, "<title>", &what, "</title>");
    put(out, close);
}

/// A dot and its name. The script places names so that none hides another.
fn put_node(out: &mut Vec<u8>, document: u32, (x, y): (f64, f64), id: &str, name: &str) {
    put_element(
        out,
        &format!(
            "<g class=\"node\" data-document=\"{document}\" data-x=\"{x:.1}\" data-y=\"{y:.1}\" tabindex=\"-1\" role=\"button\" aria-pressed=\"false\" aria-label=\""
        ),
        id,
        "\">",
    );
    put_element(out, "<title>", id, "</title>");
    put(
        out,
        &format!(
            "<circle class=\"hit\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"11\"/><circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5.5\"/>"
        ),
    );
    put_element(
        out,
        &format!("<text x=\"{x:.1}\" y=\"{:.1}\">", y + 19.0),
        name,
        "</text></g>\n",
    );
}

fn shortened(name: &str) -> String {
    const MOST: usize = 22;
    if name.chars().count() <= MOST {
        return name.to_owned();
    }
    // Versions differ at their ends.
    let chars: Vec<char> = name.chars().collect();
    chars[..MOST / 2]
        .iter()
        .chain(&['…'])
        .chain(&chars[chars.len() - MOST / 2 + 1..])
        .collect()
}

type Places = HashMap<u32, (f64, f64)>;

/// Places the groups in rows, from left to right and from top to bottom; returns the total width and height.
fn packed(groups: &[Vec<u32>], edges: &[&Edge], is_named: bool) -> (Places, f64, f64) {
    let (margin, spread) = if is_named {
        ((64.0, 26.0), 90.0)
    } else {
        ((18.0, 18.0), 39.0)
    };
    let side = |group: &[u32]| spread * (group.len().to_f64()).sqrt();
    // About five units wide for three high.
    let area: f64 = groups
        .iter()
        .map(|group| (side(group) + 2.0 * margin.0) * (side(group) + 2.0 * margin.1))
        .sum();
    let width = (area * 5.0 / 3.0).sqrt().clamp(WIDTHS.0, WIDTHS.1);
    let mut places = Places::new();
    let (mut x, mut y, mut shelf) = (0.0, 0.0, 0.0_f64);
    for group in groups {
        let size = side(group).min(width - 2.0 * margin.0);
        // Two need no height.
        let high = if group.len() == 2 { 0.0 } else { size };
        if x > 0.0 && x + size + 2.0 * margin.0 > width {
            (x, y, shelf) = (0.0, y + shelf, 0.0);
        }
        for (&document, (at_x, at_y)) in group.iter().zip(laid_out(group, edges)) {
            places.insert(
                document,
                (x + margin.0 + at_x * size, y + margin.1 + at_y * high),
            );
        }
        (x, shelf) = (x + size + 2.0 * margin.0, shelf.max(high + 2.0 * margin.1));
    }
    (places, width, y + shelf)
}

/// The documents of a group in a square from 0 to 1: on a circle first, then neighbours pull and all push each other (Fruchterman and Reingold, 1991).
fn laid_out(group: &[u32], edges: &[&Edge]) -> Vec<(f64, f64)> {
    let count = group.len();
    if count == 2 {
        return vec![(0.0, 0.5), (1.0, 0.5)];
    }
    let place: HashMap<u32, usize> = group
        .iter()
        .enumerate()
        .map(|(at, &document)| (document, at))
        .collect();
    let ends = |edge: &&Edge| Some((*place.get(&edge.ends[0])?, *place.get(&edge.ends[1])?));
    let pulls: Vec<(usize, usize)> = edges.iter().filter_map(ends).collect();
    let mut at: Vec<(f64, f64)> = (0..count)
        .map(|node| (TAU * node.to_f64() / count.to_f64()).sin_cos())
        .collect();
    let (near, steps) = (1.6 / (count.to_f64()).sqrt(), 160);
    for step in 0..steps {
        let mut moved = vec![(0.0, 0.0); count];
        for one in 0..count {
            for two in 0..one {
                push(&mut moved, &at, (one, two), |distance| {
                    near * near / distance
                });
            }
        }
        for &pair in &pulls {
            push(&mut moved, &at, pair, |distance| {
                -distance * distance / near
            });
        }
        let heat = 0.12 * (1.0 - f64::from(step) / f64::from(steps)) + 0.002;
        for (place, (x, y)) in at.iter_mut().zip(moved) {
            let length = x.hypot(y).max(1e-9);
            *place = (
                place.0 + x / length * length.min(heat),
                place.1 + y / length * length.min(heat),
            );
        }
    }
    unit(&at)
}

/// Moves two nodes apart by a force that depends on their distance; together if it is negative.
fn push(
    moved: &mut [(f64, f64)],
    at: &[(f64, f64)],
    (one, two): (usize, usize),
    force: impl Fn(f64) -> f64,
) {
    let (x, y) = (at[one].0 - at[two].0, at[one].1 - at[two].1);
    let distance = x.hypot(y).max(1e-3);
    let by = force(distance) / distance;
    moved[one] = (moved[one].0 + x * by, moved[one].1 + y * by);
    moved[two] = (moved[two].0 - x * by, moved[two].1 - y * by);
}

/// The same picture, in a square from 0 to 1.
fn unit(at: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let range = |of: fn(&(f64, f64)) -> f64| {
        let (least, most) = at
            .iter()
            .map(of)
            .fold((f64::MAX, f64::MIN), |(least, most), x| {
                (least.min(x), most.max(x))
            });
        (least, (most - least).max(1e-9))
    };
    let ((left, width), (top, height)) = (range(|place| place.0), range(|place| place.1));
    at.iter()
        .map(|&(x, y)| ((x - left) / width, (y - top) / height))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(a: u32, b: u32, share: f64) -> Edge {
        Edge {
            ends: [a, b],
            share,
            page: Some(1),
        }
    }

    #[test]
    fn the_largest_groups_come_first() {
        let edges = [
            edge(5, 6, 0.2),
            edge(0, 1, 0.5),
            edge(3, 4, 1.0),
            edge(4, 2, 0.3),
        ];
        assert_eq!(groups(8, &edges), [vec![2, 3, 4], vec![0, 1], vec![5, 6]]);
    }

    #[test]
    fn each_document_of_a_dense_group_has_a_line() {
        let edges: Vec<Edge> = (0..400)
            .flat_map(|b| (0..b).map(move |a| edge(a, b, 1.0 / f64::from(1 + b))))
            .collect();
        let by_share: Vec<&Edge> = edges.iter().collect();
        let group = strongest(&(0..400).collect::<Vec<_>>(), &by_share);
        assert_eq!(group, (0..240).collect::<Vec<_>>());
        let shown = shown_edges(&[group], &by_share);
        let ends: HashSet<u32> = shown.iter().flat_map(|edge| edge.ends).collect();
        assert_eq!(ends.len(), 240);
        assert!(shown.len() < 240 * MAX_NEIGHBOURS, "{}", shown.len());
    }

    #[test]
    fn a_picture_of_any_size() {
        for documents in [2, 3, 50, 1000] {
            let ids: Vec<String> = (0..documents)
                .map(|number| format!("dir/<{number}>"))
                .collect();
            let edges: Vec<Edge> = (1..documents)
                .map(|other| edge(other / 3, other, 1.0 / f64::from(other)))
                .collect();
            let (mut one, mut two) = (Vec::new(), Vec::new());
            put_graph(&mut one, &ids, &edges);
            put_graph(&mut two, &ids, &edges);
            let text = String::from_utf8(one).unwrap();
            assert_eq!(text.as_bytes(), two);
            assert_eq!(
                text.matches("class=\"node\"").count(),
                (documents.to_usize()).min(MAX_NODES)
            );
            assert!(!text.contains("NaN") && !text.contains("<0>"));
        }
        let mut none = Vec::new();
        put_graph(&mut none, &[], &[]);
        assert!(String::from_utf8(none).unwrap().contains("No pair shares"));
    }
}
