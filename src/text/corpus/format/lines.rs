//! A document per line, as it is.

use super::{DocumentReader, InputFormat, Probe, RecordPiece, Records, Visit};
use crate::{
    base::{
        error::{Place, Problem},
        num::ToU64,
    },
    text::corpus::document_reader::{ensure_size, visit_line},
};

/// A line is one document; its id is the file and the number of the line.
pub(super) struct TextLines;

impl InputFormat for TextLines {
    fn records(&self) -> Records {
        Records::Lines
    }

    /// Any text has lines: only the user can say that they are documents.
    fn recognises(&self, _: &Probe<'_>) -> bool {
        false
    }

    fn read(&self, mut piece: RecordPiece<'_>, reader: &mut DocumentReader, visit: &mut Visit<'_>) {
        let container = piece.container;
        let lines = piece.bytes.split_mut(|&byte| byte == b'\n');
        for (line, number) in lines.zip(piece.first_line..) {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let end = line.len() - usize::from(line.ends_with(b"\r"));
            if let Err(what) = ensure_size(end.to_u64(), reader.max_document) {
                let problem = Problem::new(Place::line(&container.file, number), what);
                visit(Err(problem.into()));
                continue;
            }
            let id = format!("{}:{number}", container.id);
            visit_line(
                &id,
                container,
                number,
                &mut line[..end],
                reader.lossy,
                visit,
            );
        }
    }
}
