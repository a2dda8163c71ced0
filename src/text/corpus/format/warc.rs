//! Web archives: a document per record.

use super::{Container, FormatInput, InputFormat, Options, Parts, Probe, Records, one_part};
use crate::text::corpus::{
    rows::SequenceChunks,
    sequence::{RecordFault, WarcRecords},
};
use std::sync::Arc;

/// A record is one document; its id is the address of the page.
pub(super) struct Warc;

impl InputFormat for Warc {
    fn records(&self) -> Records {
        Records::Warc
    }

    fn recognises(&self, probe: &Probe<'_>) -> bool {
        let head = &probe.sniffed.head;
        head.starts_with(b"WARC/0.") || head.starts_with(b"WARC/1.")
    }

    fn open(
        &self,
        of: Arc<Container>,
        input: FormatInput,
        options: &Options,
    ) -> Result<Parts, RecordFault> {
        let records = WarcRecords::open(input.input, options.max_document);
        Ok(one_part(SequenceChunks::new(of, records)))
    }
}
