//! The graph of all pairs.
//!
//! Some readers of graphs expect nodes first, so edges wait in a temporary file until it is known
//! which documents have any.

use super::{
    Progress, put,
    rows::{PairNumbers, RowWriter, for_each_pair},
};
use crate::{
    base::{
        error::{Error, Result},
        ids::DocNo,
        num::ToF64,
    },
    report::{
        GraphFormat, Sink,
        records::{GraphEdge, GraphElement, GraphNode},
    },
    similar::{Discovery, Neighbour},
};
use std::{
    fs::File,
    io::{self, Seek, Write},
    sync::atomic::{AtomicBool, Ordering},
};

/// Writes documents as nodes and pairs as edges.
pub fn write_graph(
    discovery: &Discovery<'_>,
    format: GraphFormat,
    out: &mut impl Write,
    progress: &mut Progress<'_>,
) -> Result<()> {
    let mut edges = tempfile::tempfile().map_err(edges_failed)?;
    let has_edge: Vec<AtomicBool> = (0..discovery.view.documents())
        .map(|_| AtomicBool::new(false))
        .collect();
    let put_row = |rows: &mut Vec<u8>, document: DocNo, (other, neighbour): (DocNo, &Neighbour)| {
        let ends = [document, other];
        ends.iter()
            .for_each(|end| has_edge[end.index()].store(true, Ordering::Relaxed));
        let edge = edge(discovery, ends, neighbour);
        format.put_record(&GraphElement::Edge(edge), rows)
    };
    RowWriter::new(discovery, None, &for_each_pair(discovery, put_row)).write(
        |rows: &mut Vec<u8>| edges.write_all(rows).map_err(edges_failed),
        progress,
    )?;
    let nodes: Vec<DocNo> = DocNo::first(has_edge.len())
        .filter(|document| has_edge[document.index()].load(Ordering::Relaxed))
        .collect();
    write_nodes_and_edges(discovery, format, &nodes, edges, out)
}

fn edge(discovery: &Discovery<'_>, ends: [DocNo; 2], neighbour: &Neighbour) -> GraphEdge {
    let content = discovery.view.content_of(ends[0]);
    let numbers = PairNumbers::new(discovery, content, neighbour);
    GraphEdge {
        ends,
        shared: numbers.shared.to_f64(),
        a_in_b: numbers.a_in_b,
        b_in_a: numbers.b_in_a,
        score: neighbour.score,
    }
}

fn write_nodes_and_edges(
    discovery: &Discovery<'_>,
    format: GraphFormat,
    nodes: &[DocNo],
    mut edges: File,
    out: &mut impl Write,
) -> Result<()> {
    let mut bytes = Vec::new();
    format.put_head(&GraphElement::Edge(GraphEdge::default()), &mut bytes)?;
    for &number in nodes {
        let node = GraphNode {
            number,
            id: &discovery.view.id(number)?,
            tokens: discovery.view.row(number)?.tokens,
        };
        format.put_record(&GraphElement::Node(node), &mut bytes)?;
        put(out, &bytes)?;
        bytes.clear();
    }
    put(out, &bytes)?;
    edges.rewind().map_err(edges_failed)?;
    io::copy(&mut edges, out).map_err(Error::output)?;
    bytes.clear();
    format.put_foot(&mut bytes);
    put(out, &bytes)
}

fn edges_failed(error: io::Error) -> Error {
    Error::io("a temporary file for the edges", error)
}
