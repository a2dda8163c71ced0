//! An array of JSON objects, each a document.

use super::{
    Container, DocumentReader, FormatInput, InputFormat, Options, Parts, Probe, RecordPiece,
    Records, Visit, lines_of, ndjson::Ndjson,
};
use crate::text::corpus::{
    sequence::{JsonArrayLines, RecordFault},
    skipped_kind::extension,
};
use std::{io::BufReader, sync::Arc};

/// An element of the array is one document.
pub(super) struct JsonArray;

impl InputFormat for JsonArray {
    fn records(&self) -> Records {
        Records::Json
    }

    /// The name of a file must end in `.json`: many texts begin with a bracket.
    fn recognises(&self, probe: &Probe<'_>) -> bool {
        let head = probe.sniffed.head.trim_ascii_start();
        let is_array_of_objects = head
            .strip_prefix(b"[")
            .is_some_and(|rest| rest.trim_ascii_start().starts_with(b"{"));
        let is_named_so = extension(probe.name).as_deref() == Some("json");
        is_array_of_objects && (is_named_so || !probe.is_file)
    }

    /// Elements become lines on the way, so that they are cut and read like those of NDJSON.
    fn open(
        &self,
        of: Arc<Container>,
        input: FormatInput,
        options: &Options,
    ) -> Result<Parts, RecordFault> {
        let lines = BufReader::new(JsonArrayLines::new(input.input));
        Ok(lines_of(of, Box::new(lines), options.max_document))
    }

    fn read(&self, piece: RecordPiece<'_>, reader: &mut DocumentReader, visit: &mut Visit<'_>) {
        Ndjson.read(piece, reader, visit);
    }
}
