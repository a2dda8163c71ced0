//! Graphs for Graphviz (DOT) and for Gephi, yEd, NetworkX (GraphML).
//!
//! Nodes come first, as some readers want it: edges wait in a temporary file until it is known which documents have any.

use super::{record::put_number, xml::xml_text};
use crate::base::{
    codec::is_unsafe,
    error::{Error, Result},
};
use std::{
    fs::File,
    io::{Read, Seek, Write},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphFormat {
    Dot,
    Graphml,
}

/// A graph whose edges are being gathered.
pub struct Graph {
    format: GraphFormat,
    edges: File,
}

/// The numbers of an edge.
const KEYS: [&str; 4] = ["shared", "a_in_b", "b_in_a", "score"];

impl Graph {
    pub fn new(format: GraphFormat) -> Result<Self> {
        Ok(Self {
            format,
            edges: tempfile::tempfile().map_err(failed)?,
        })
    }

    /// Appends an edge as it will be written.
    pub fn put_edge(format: GraphFormat, out: &mut Vec<u8>, a: u32, b: u32, numbers: [f64; 4]) {
        let (open, close) = match format {
            GraphFormat::Dot => (format!("  d{a} -- d{b} ["), "];\n"),
            GraphFormat::Graphml => (
                format!("    <edge source=\"d{a}\" target=\"d{b}\">"),
                "</edge>\n",
            ),
        };
        out.extend_from_slice(open.as_bytes());
        for (at, (key, number)) in KEYS.iter().zip(numbers).enumerate() {
            let before = match format {
                GraphFormat::Dot if at == 0 => format!("{key}="),
                GraphFormat::Dot => format!(" {key}="),
                GraphFormat::Graphml => format!("<data key=\"{key}\">"),
            };
            out.extend_from_slice(before.as_bytes());
            put_number(out, number);
            if format == GraphFormat::Graphml {
                out.extend_from_slice(b"</data>");
            }
        }
        out.extend_from_slice(close.as_bytes());
    }

    /// Takes edges that were put.
    pub fn add(&mut self, edges: &[u8]) -> Result<()> {
        self.edges.write_all(edges).map_err(failed)
    }

    /// Writes the whole. `nodes` are the documents at the ends of edges, `label` gives the id and the length in tokens of each.
    pub fn write(
        mut self,
        nodes: impl Iterator<Item = usize>,
        mut label: impl FnMut(usize) -> Result<(String, u32)>,
        out: &mut impl Write,
    ) -> Result<()> {
        let (head, foot) = match self.format {
            GraphFormat::Dot => ("graph dedup {\n".to_owned(), "}\n"),
            GraphFormat::Graphml => (graphml_head(), "  </graph>\n</graphml>\n"),
        };
        out.write_all(head.as_bytes()).map_err(Error::output)?;
        for document in nodes {
            let (id, tokens) = label(document)?;
            let node = match self.format {
                GraphFormat::Dot => format!(
                    "  d{document} [label=\"{}\" tokens={tokens}];\n",
                    dot_label(&id)
                ),
                GraphFormat::Graphml => format!(
                    "    <node id=\"d{document}\"><data key=\"label\">{}</data><data key=\"tokens\">{tokens}</data></node>\n",
                    xml_text(&id)
                ),
            };
            out.write_all(node.as_bytes()).map_err(Error::output)?;
        }
        self.edges.rewind().map_err(failed)?;
        let mut piece = vec![0; 1 << 18];
        loop {
            match self.edges.read(&mut piece).map_err(failed)? {
                0 => break,
                count => out.write_all(&piece[..count]).map_err(Error::output)?,
            }
        }
        out.write_all(foot.as_bytes()).map_err(Error::output)
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::io("a temporary file for the edges", error)
}

fn graphml_head() -> String {
    let key = |name: &str, of: &str, kind: &str| {
        format!("  <key id=\"{name}\" for=\"{of}\" attr.name=\"{name}\" attr.type=\"{kind}\"/>\n")
    };
    let edges: String = KEYS
        .iter()
        .map(|name| key(name, "edge", "double"))
        .collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n{}{}{edges}  <graph id=\"dedup\" edgedefault=\"undirected\">\n",
        key("label", "node", "string"),
        key("tokens", "node", "int"),
    )
}

/// Graphviz reads backslashes and entities in labels.
fn dot_label(text: &str) -> String {
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
            dot_label("a\"b\\N &lt;\n\u{9b}\u{202e}"),
            "a\\\"b\\\\N &amp;lt;\u{fffd}&#x9b;&#x202e;"
        );
    }
}
