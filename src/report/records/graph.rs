//! Graphs of documents.

use crate::base::ids::DocNo;

/// A part of a graph of documents.
#[derive(Debug)]
pub enum GraphElement<'r> {
    /// A document that has edges.
    Node(GraphNode<'r>),
    /// Two documents that share text.
    Edge(GraphEdge),
}

/// A document of a graph.
#[derive(Debug)]
pub struct GraphNode<'r> {
    /// Edges name it by its number.
    pub number: DocNo,
    /// The id of the document.
    pub id: &'r str,
    /// The number of its tokens.
    pub tokens: u32,
}

/// A pair of a graph.
#[derive(Debug, Default)]
pub struct GraphEdge {
    /// The documents.
    pub ends: [DocNo; 2],
    /// Blots that both have.
    pub shared: f64,
    /// The share of the blots of one that the other has.
    pub a_in_b: f64,
    /// The reverse.
    pub b_in_a: f64,
    /// How similar they are.
    pub score: f64,
}

impl GraphEdge {
    /// The numbers of the edge, with their names.
    pub fn attributes(&self) -> [(&'static str, f64); 4] {
        [
            ("shared", self.shared),
            ("a_in_b", self.a_in_b),
            ("b_in_a", self.b_in_a),
            ("score", self.score),
        ]
    }
}
