//! DOT, the graphs of Graphviz.

use super::{GraphSyntax, Sink};
use crate::{
    base::{codec::is_unsafe, error::Result},
    report::{
        decimal::put_number,
        records::{GraphEdge, GraphElement, GraphNode},
    },
};

/// Writes nodes and edges, one a line.
pub struct Dot;

impl GraphSyntax for Dot {
    const NAME: &'static str = "dot";
}

impl Sink<GraphElement<'_>> for Dot {
    fn put_head(&self, _: &GraphElement<'_>, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(b"graph dedup {\n");
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
        out.extend_from_slice(b"}\n");
    }
}

fn put_node(node: &GraphNode<'_>, out: &mut Vec<u8>) {
    let GraphNode { number, id, tokens } = node;
    let line = format!("  d{number} [label=\"{}\" tokens={tokens}];\n", label(id));
    out.extend_from_slice(line.as_bytes());
}

fn put_edge(edge: &GraphEdge, out: &mut Vec<u8>) {
    let [a, b] = edge.ends;
    out.extend_from_slice(format!("  d{a} -- d{b} [").as_bytes());
    for (place, (name, number)) in edge.attributes().into_iter().enumerate() {
        let space = if place > 0 { " " } else { "" };
        out.extend_from_slice(format!("{space}{name}=").as_bytes());
        put_number(out, number);
    }
    out.extend_from_slice(b"];\n");
}

/// Graphviz reads backslashes and entities in labels.
fn label(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '&' => out.push_str("&amp;"),
            '\0'..='\u{1f}' => out.push('\u{fffd}'),
            c if is_unsafe(c) => out.push_str(&format!("&#x{:x};", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_escaped() {
        assert_eq!(
            label("a\"b\\N &lt;\n\u{9b}\u{202e}"),
            "a\\\"b\\\\N &amp;lt;\u{fffd}&#x9b;&#x202e;"
        );
    }
}
