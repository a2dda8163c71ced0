//! Files with a record a line: NDJSON, or texts.

use super::{
    CopyError, CopyStart, PackedWriter, RecordCopier, RecordFate, RecordFates, json_record,
};
use crate::text::{
    corpus::unpack::Input,
    stream::{LineParser, Span},
};
use memchr::memchr;
use std::io::{self, BufRead, Write};

/// Copies lines. Blank lines stay. Memory: a line that is changed.
pub struct Lines {
    /// The fields of a JSON object; none if the line itself is the text.
    pub fields: Option<LineParser>,
}

impl RecordCopier for Lines {
    fn copy(
        &self,
        mut input: Input,
        start: CopyStart,
        fates: &mut dyn RecordFates,
        mut out: PackedWriter<'_>,
    ) -> Result<(), CopyError> {
        let (mut line, mut changed) = (Vec::new(), Vec::new());
        for number in start.line.. {
            if is_at_end(&mut input)? {
                break;
            }
            match fates.fate(number)? {
                RecordFate::Drop => pass_line(&mut input, &mut io::sink())?,
                RecordFate::Keep => pass_line(&mut input, &mut out)?,
                RecordFate::Change(change) => {
                    line.clear();
                    changed.clear();
                    pass_line(&mut input, &mut line)?;
                    let done = match &self.fields {
                        Some(fields) => json_record::change(&line, fields, &change, &mut changed),
                        None => {
                            cut_bytes(&line, change.cuts, &mut changed);
                            Ok(())
                        }
                    };
                    done.map_err(|what| CopyError::Input(format!("line {number}: {what}")))?;
                    out.write_all(&changed).map_err(CopyError::Output)?;
                }
            }
        }
        out.finish().map_err(CopyError::Output)
    }
}

fn is_at_end(input: &mut Input) -> Result<bool, CopyError> {
    let rest = input.fill_buf();
    Ok(rest.map_err(|error| CopyError::reading(&error))?.is_empty())
}

/// Writes the rest of a line, however long it is, with its line feed.
fn pass_line(input: &mut Input, out: &mut impl Write) -> Result<(), CopyError> {
    loop {
        let bytes = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(|error| CopyError::reading(&error))?,
        };
        let end = memchr(b'\n', bytes).map(|at| at + 1);
        let count = end.unwrap_or(bytes.len());
        out.write_all(&bytes[..count]).map_err(CopyError::Output)?;
        input.consume(count);
        if end.is_some() || count == 0 {
            return Ok(());
        }
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
