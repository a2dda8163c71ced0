//! FASTA: sequences, each after a line that starts with `>`.

use super::{Container, DocumentReader, InputFormat, Probe, RecordPiece, Records, Visit};
use crate::base::num::ToU64;
use crate::base::setting::Setting;
use crate::{
    base::error::{Place, Problem},
    text::corpus::document_reader::{ensure_size, visit_line},
};

/// A sequence is one document; its id is the first word of the line before it.
pub(super) struct Fasta;

impl InputFormat for Fasta {
    fn records(&self) -> Records {
        Records::Fasta
    }

    /// A `>` is also how quoted mail begins, so it counts only where bases are expected.
    fn recognises(&self, probe: &Probe<'_>) -> bool {
        probe.options.prefer_fasta && probe.sniffed.head.starts_with(b">")
    }

    fn border(&self) -> &'static [u8] {
        b"\n>"
    }

    fn read(&self, mut piece: RecordPiece<'_>, reader: &mut DocumentReader, visit: &mut Visit<'_>) {
        let limits = RecordLimits {
            lossy: reader.lossy,
            max_document: reader.max_document,
        };
        read_fasta(
            piece.container,
            piece.first_line,
            &mut piece.bytes,
            limits,
            visit,
        );
    }
}

/// What a record may be: as in the options of a corpus.
#[derive(Debug, Clone, Copy)]
pub struct RecordLimits {
    /// Replace bytes that are not UTF-8.
    pub lossy: bool,
    /// The most bytes of a record.
    pub max_document: u64,
}

/// Visits the records of some bytes of FASTA.
pub fn read_fasta(
    container: &Container,
    first_line: u64,
    bytes: &mut [u8],
    limits: RecordLimits,
    visit: &mut Visit<'_>,
) {
    let (mut at, mut line) = (0, first_line);
    while at < bytes.len() {
        let next =
            memchr::memmem::find(&bytes[at..], b"\n>").map_or(bytes.len(), |found| at + found + 1);
        let record = &mut bytes[at..next];
        let lines = memchr::memchr_iter(b'\n', record).count().to_u64();
        let problem =
            |what: String| Err(Problem::new(Place::line(&container.file, line), what).into());
        if let Err(what) = ensure_size(record.len().to_u64(), limits.max_document) {
            visit(problem(what));
        } else if record.first() == Some(&b'>') {
            read_sequence(container, line, record, limits.lossy, visit);
        } else if !record.trim_ascii().is_empty() {
            let remedy = Setting::Records.to("text");
            visit(problem(format!(
                "text before the first '>'; for plain sequences use {remedy}"
            )));
        }
        at = next;
        line += lines;
    }
}

/// One record of FASTA, its head included: the first word of that is the id.
fn read_sequence(
    container: &Container,
    line: u64,
    record: &mut [u8],
    lossy: bool,
    visit: &mut Visit<'_>,
) {
    let head_end = memchr::memchr(b'\n', record).map_or(record.len(), |end| end + 1);
    let (head, sequence) = record.split_at_mut(head_end);
    if let Err(what) = container.ensure_utf8(head, lossy) {
        return visit(Err(
            Problem::new(Place::line(&container.file, line), what).into()
        ));
    }
    // Checked right above.
    let name = std::str::from_utf8(&head[1..]).unwrap_or_default();
    let id = name
        .split_ascii_whitespace()
        .next()
        .map_or_else(|| format!("{}:{line}", container.id), str::to_owned);
    visit_line(&id, container, line, sequence, lossy, visit);
}
