//! Jupyter notebooks (`.ipynb`): the cells that people write, code as well as text. Outputs are left out.

use std::path::Path;

use memchr::memmem;
use serde::Deserialize;

use super::{DocumentKind, ExtractError, flow::TextFlow, has_extension};
use crate::text::corpus::skipped_kind::{BOM, extension};

pub struct Ipynb;

impl DocumentKind for Ipynb {
    fn name(&self) -> &'static str {
        "ipynb"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["ipynb"]
    }

    /// Under another name only what starts with the list of cells: a line of NDJSON may hold cells somewhere.
    fn recognises(&self, head: &[u8], name: &Path) -> bool {
        let head = head.strip_prefix(BOM).unwrap_or(head).trim_ascii_start();
        let Some(object) = head.strip_prefix(b"{") else {
            return false;
        };
        let is_lines = || matches!(extension(name).as_deref(), Some("jsonl" | "ndjson"));
        has_extension(self, name)
            || object.trim_ascii_start().starts_with(b"\"cells\"")
                && memmem::find(head, b"\"cell_type\"").is_some()
                && !is_lines()
    }

    fn extract(&self, bytes: &[u8], most_bytes: u64) -> Result<String, ExtractError> {
        let bytes = bytes.strip_prefix(BOM).unwrap_or(bytes);
        let notebook: Notebook = serde_json::from_slice(bytes).map_err(|error| {
            ExtractError::Damaged(format!(
                "line {}, column {}: {error}",
                error.line(),
                error.column()
            ))
        })?;
        if notebook.cells.is_none() && notebook.worksheets.is_none() {
            return Err(ExtractError::Damaged(
                "byte 0: a notebook has \"cells\", this object has none".to_owned(),
            ));
        }
        let sheets = notebook.worksheets.into_iter().flatten();
        let cells = sheets.flat_map(|sheet| sheet.cells);
        let mut flow = TextFlow::new(most_bytes);
        for cell in notebook.cells.into_iter().flatten().chain(cells) {
            for source in [cell.source, cell.input].into_iter().flatten() {
                source.write(&mut flow)?;
            }
            flow.end_paragraph();
        }
        flow.finish()
    }
}

#[derive(Deserialize)]
struct Notebook {
    cells: Option<Vec<NotebookCell>>,
    /// Where format 3 has its cells.
    worksheets: Option<Vec<Worksheet>>,
}

#[derive(Deserialize)]
struct Worksheet {
    #[serde(default)]
    cells: Vec<NotebookCell>,
}

#[derive(Deserialize)]
struct NotebookCell {
    source: Option<CellSource>,
    /// The source of a code cell in format 3.
    input: Option<CellSource>,
}

/// Lines with their line feeds, or all in one.
#[derive(Deserialize)]
#[serde(untagged)]
enum CellSource {
    Whole(String),
    Lines(Vec<String>),
}

impl CellSource {
    fn write(&self, flow: &mut TextFlow) -> Result<(), ExtractError> {
        match self {
            Self::Whole(text) => flow.push(text),
            Self::Lines(lines) => lines.iter().try_for_each(|line| flow.push(line)),
        }
    }
}
