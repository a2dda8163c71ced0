//! Files with a record a line: NDJSON, or texts.

use super::{CopyError, PackedWriter, RecordCopier, RecordFate, RecordFates, json_record};
use crate::text::{
    corpus::unpack::Input,
    stream::{LineParser, Span},
};
use std::io::{BufRead, Write};

/// Copies lines. Blank lines stay.
pub struct Lines {
    /// The fields of a JSON object; none if the line itself is the text.
    pub fields: Option<LineParser>,
}

impl RecordCopier for Lines {
    fn copy(
        &self,
        mut input: Input,
        fates: &mut dyn RecordFates,
        mut out: PackedWriter<'_>,
    ) -> Result<(), CopyError> {
        let (mut line, mut changed) = (Vec::new(), Vec::new());
        for number in 1_u64.. {
            line.clear();
            let read = input.read_until(b'\n', &mut line);
            if read.map_err(|error| CopyError::reading(&error))? == 0 {
                break;
            }
            let written = match fates.fate(number)? {
                RecordFate::Drop => continue,
                RecordFate::Keep => &line,
                RecordFate::Change(change) => {
                    changed.clear();
                    let done = match &self.fields {
                        Some(fields) => json_record::change(&line, fields, &change, &mut changed),
                        None => {
                            cut_bytes(&line, change.cuts, &mut changed);
                            Ok(())
                        }
                    };
                    done.map_err(|what| CopyError::Input(format!("line {number}: {what}")))?;
                    &changed
                }
            };
            out.write_all(written).map_err(CopyError::Output)?;
        }
        out.finish().map_err(CopyError::Output)
    }
}

/// Appends a text without some of its bytes.
pub fn cut_bytes(text: &[u8], cuts: &[Span], out: &mut Vec<u8>) {
    let mut at = 0;
    for cut in cuts.iter().map(|cut| cut.range()) {
        let start = cut.start.clamp(at, text.len());
        out.extend_from_slice(&text[at..start]);
        at = cut.end.clamp(start, text.len());
    }
    out.extend_from_slice(&text[at..]);
}
