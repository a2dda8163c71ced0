//! GraphML, the graphs of Gephi, yEd and NetworkX.

use super::{GraphSyntax, Sink};
use crate::{
    base::error::Result,
    report::{
        decimal::put_number,
        records::{GraphEdge, GraphElement, GraphNode},
        xml::xml_text,
    },
};

/// Writes nodes and edges as elements of XML, one a line.
pub struct Graphml;

impl GraphSyntax for Graphml {
    const NAME: &'static str = "graphml";
}

impl Sink<GraphElement<'_>> for Graphml {
    fn put_head(&self, _: &GraphElement<'_>, out: &mut Vec<u8>) -> Result<()> {
        let edges: String = GraphEdge::default()
            .attributes()
            .iter()
            .map(|(name, _)| key(name, "edge", "double"))
            .collect();
        let head = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n{}{}{edges}  <graph id=\"dedup\" edgedefault=\"undirected\">\n",
            key("label", "node", "string"),
            key("tokens", "node", "int"),
        );
        out.extend_from_slice(head.as_bytes());
        Ok(())
    }

    fn put_record(&self, element: &GraphElement<'_>, out: &mut Vec<u8>) -> Result<()> {
        match element {
            GraphElement::Node(node) => put_node(node, out),
            GraphElement::Edge(edge) => put_edge(edge, out),
        }
        Ok(())
    }

    fn put_foot(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"  </graph>\n</graphml>\n");
    }
}

/// The declaration of an attribute.
fn key(name: &str, element: &str, kind: &str) -> String {
    format!("  <key id=\"{name}\" for=\"{element}\" attr.name=\"{name}\" attr.type=\"{kind}\"/>\n")
}

fn put_node(node: &GraphNode<'_>, out: &mut Vec<u8>) {
    let GraphNode { number, id, tokens } = node;
    let line = format!(
        "    <node id=\"d{number}\"><data key=\"label\">{}</data><data key=\"tokens\">{tokens}</data></node>\n",
        xml_text(id)
    );
    out.extend_from_slice(line.as_bytes());
}

fn put_edge(edge: &GraphEdge, out: &mut Vec<u8>) {
    let [a, b] = edge.ends;
    out.extend_from_slice(format!("    <edge source=\"d{a}\" target=\"d{b}\">").as_bytes());
    for (name, number) in edge.attributes() {
        out.extend_from_slice(format!("<data key=\"{name}\">").as_bytes());
        put_number(out, number);
        out.extend_from_slice(b"</data>");
    }
    out.extend_from_slice(b"</edge>\n");
}
