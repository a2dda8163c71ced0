//! Writes a history as a stream of prints.

use super::{
    backup::open_read_only,
    ordered_entries::{live_rows, sources_of},
};
use crate::{
    base::{
        error::{Error, Result},
        num::ToUsize,
    },
    report::put_json_text,
    text::stream::{Batch, Form, Header, StreamKind, StreamWriter},
};
use std::{io::Write, path::Path};

/// The records that are written together.
const TOGETHER: usize = 1 << 10;

/// Writes each entry that a search finds, in order of arrival, with its time: a stream from which
/// `dedup-query history` makes a history that gives the same answers. Returns their number.
///
/// Memory: 16 bytes an entry.
pub fn dump(directory: &Path, out: &mut impl Write) -> Result<u64> {
    let history = open_read_only(directory)?;
    let sources = sources_of(&history);
    let rows = live_rows(&sources, &history.live_now(), 0)?;
    let header = Header::new(StreamKind::Prints, history.scheme().to_string());
    let mut stream = StreamWriter::new(out, Form::Ndjson, &header).map_err(Error::output)?;
    for some in rows.chunks(TOGETHER) {
        let mut batch = Batch::default();
        for row in some {
            let source = sources[row.source.to_usize()];
            batch.bytes.extend_from_slice(b"{\"doc\":");
            put_json_text(&mut batch.bytes, source.id(row.entry)?);
            let (print, time) = (source.print(row.entry)?, source.time(row.entry)?);
            // Writing to a vector cannot fail.
            let _ = writeln!(batch.bytes, ",\"print\":\"{print}\",\"time\":{time}}}");
            batch.finish_record();
        }
        stream.write(&batch).map_err(Error::output)?;
    }
    stream.finish().map_err(Error::output)?;
    Ok(super::ordered_entries::count_of(&rows))
}
