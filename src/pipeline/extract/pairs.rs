//! Pairs, the table, the graph.

use super::put;
use crate::{
    error::Result,
    report::{Format, Graph, GraphFormat, Ids, Value, put_names, put_record},
    similar::{Discovery, Neighbour, top},
};
use std::io::Write;

/// What is written of a pair, but for its ids.
pub(super) struct Numbers {
    pub shared: u64,
    pub a_in_b: f64,
    pub b_in_a: f64,
}

impl Numbers {
    pub fn of(discovery: &Discovery<'_>, a: u32, neighbour: &Neighbour) -> Self {
        let part_of = |content: u32| {
            let side = discovery.lists.side(discovery.lists.rank_of(content));
            f64::from(neighbour.shared) / f64::from(side.blots)
        };
        let shared = discovery.options.measure.scaled(neighbour.shared);
        Self { shared, a_in_b: part_of(a), b_in_a: part_of(neighbour.content) }
    }
}

/// An estimate says so.
pub(super) fn with_estimate<T: Copy>(discovery: &Discovery<'_>, fields: &[T], estimate: T) -> Vec<T> {
    let more = discovery.options.measure.selection.map(|_| estimate);
    fields.iter().copied().chain(more).collect()
}

/// The documents after `document` that are its pairs, in order, each with the neighbour it is of.
fn partners<'n>(discovery: &Discovery<'_>, document: usize, neighbours: &'n [Neighbour]) -> Vec<(u32, &'n Neighbour)> {
    let mut partners = Vec::new();
    for neighbour in neighbours {
        let documents = discovery.view.documents_of(neighbour.content);
        let after = documents.partition_point(|&other| other as usize <= document);
        partners.extend(documents[after..].iter().map(|&other| (other, neighbour)));
    }
    partners.sort_unstable_by_key(|partner| partner.0);
    partners
}

pub fn write_pairs(discovery: &Discovery<'_>, format: Format, out: &mut impl Write) -> Result<()> {
    let ids = Ids::new(discovery.view, format)?;
    let mut names = Vec::new();
    put_names(&mut names, format, &with_estimate(discovery, &["a", "b", "shared", "a_in_b", "b_in_a", "score"], "estimate"));
    put(out, &names)?;
    discovery.for_each_document(
        |document, neighbours, out: &mut Vec<u8>| {
            let content = discovery.view.content_of(document);
            for (other, neighbour) in partners(discovery, document, neighbours) {
                let numbers = Numbers::of(discovery, content, neighbour);
                let fields = [
                    ("a", Value::Id(ids.get(document as u32))),
                    ("b", Value::Id(ids.get(other))),
                    ("shared", Value::Count(numbers.shared)),
                    ("a_in_b", Value::Number(numbers.a_in_b)),
                    ("b_in_a", Value::Number(numbers.b_in_a)),
                    ("score", Value::Number(neighbour.score)),
                ];
                put_record(out, format, &with_estimate(discovery, &fields, ("estimate", Value::Flag(true))));
            }
        },
        |bytes| bytes.capacity() as u64,
        |bytes| put(out, &bytes),
    )
}

pub fn write_table(discovery: &Discovery<'_>, count: usize, format: Format, out: &mut impl Write) -> Result<()> {
    let ids = Ids::new(discovery.view, format)?;
    let mut names = Vec::new();
    put_names(&mut names, format, &with_estimate(discovery, &["a", "rank", "b", "shared", "a_in_b", "b_in_a"], "estimate"));
    put(out, &names)?;
    discovery.for_each_document(
        |document, neighbours, out: &mut Vec<u8>| {
            let content = discovery.view.content_of(document);
            for (at, (other, neighbour)) in top(discovery.view, neighbours, document, count).into_iter().enumerate() {
                let numbers = Numbers::of(discovery, content, neighbour);
                let fields = [
                    ("a", Value::Id(ids.get(document as u32))),
                    ("rank", Value::Count(at as u64 + 1)),
                    ("b", Value::Id(ids.get(other))),
                    ("shared", Value::Count(numbers.shared)),
                    ("a_in_b", Value::Number(numbers.a_in_b)),
                    ("b_in_a", Value::Number(numbers.b_in_a)),
                ];
                put_record(out, format, &with_estimate(discovery, &fields, ("estimate", Value::Flag(true))));
            }
        },
        |bytes| bytes.capacity() as u64,
        |bytes| put(out, &bytes),
    )
}

pub fn write_graph(discovery: &Discovery<'_>, format: GraphFormat, out: &mut impl Write) -> Result<()> {
    let mut graph = Graph::new(format, discovery.view.documents())?;
    discovery.for_each_document(
        |document, neighbours, (edges, ends): &mut (Vec<u8>, Vec<u32>)| {
            let content = discovery.view.content_of(document);
            for (other, neighbour) in partners(discovery, document, neighbours) {
                let Numbers { shared, a_in_b, b_in_a } = Numbers::of(discovery, content, neighbour);
                Graph::put_edge(format, edges, document as u32, other, [shared as f64, a_in_b, b_in_a, neighbour.score]);
                ends.extend([document as u32, other]);
            }
        },
        |(edges, ends)| (edges.capacity() + 4 * ends.capacity()) as u64,
        |(edges, ends)| graph.add(&edges, &ends),
    )?;
    graph.write(|document| Ok((discovery.view.id(document)?, discovery.view.row(document)?.tokens)), out)
}
