//! An index back to blots.

use crate::{
    error::{Error, Result},
    format::{Batch, BlotCodec, Blots, Form, Header, Kind, Record, StreamWriter},
    index::{Index, Row, Segment},
};
use std::{io::Write, ops::Range};

/// Writes every document with its blots, in rising order, as a stream that `build` makes the same index of.
///
/// As many documents at a time as `memory_bytes` hold the blots of; the postings are read once for each such lot.
pub fn dump(index: &Index, memory_bytes: u64, out: &mut impl Write) -> Result<()> {
    let header = Header::new(Kind::Blots, index.manifest.scheme.clone());
    let mut stream = StreamWriter::new(out, Form::Ndjson, &header).map_err(Error::output)?;
    let codec = BlotCodec { bits: index.scheme.bits, with_positions: false };
    for segment in &index.segments {
        let rows = (0..segment.documents.len()).map(|place| segment.documents.row(place)).collect::<Result<Vec<Row>>>()?;
        for lot in lots(&rows, memory_bytes / 8) {
            let blots = blots_of(segment, &rows, &lot)?;
            for place in lot.clone() {
                let row = &rows[place];
                let id = segment.documents.id(place as u32)?;
                let values = blots[lot_place(&rows, &lot, row)].clone();
                let mut batch = Batch::default();
                let record = Record { doc: &id, bytes: row.bytes, hash: row.hash };
                codec.write_ndjson(&mut batch.bytes, &record, &Blots { values, positions: Vec::new(), tokens: u64::from(row.tokens) });
                batch.finish_record();
                stream.write(&batch).map_err(Error::output)?;
            }
        }
    }
    stream.finish().map_err(Error::output)?;
    Ok(())
}

/// Neighbouring documents that have no more than so many blots together, or one that has more.
fn lots(rows: &[Row], blots_limit: u64) -> Vec<Range<usize>> {
    let (mut lots, mut have) = (Vec::<Range<usize>>::new(), 0);
    for (place, row) in rows.iter().enumerate() {
        have += u64::from(row.blots);
        match lots.last_mut() {
            Some(lot) if have <= blots_limit => lot.end = place + 1,
            _ => {
                have = u64::from(row.blots);
                lots.push(place..place + 1);
            }
        }
    }
    lots
}

/// Where the blots of a row's representative are kept: by its place in the lot, or after all of the lot if it is an earlier one.
fn lot_place(rows: &[Row], lot: &Range<usize>, row: &Row) -> usize {
    wanted(rows, lot).binary_search(&row.representative).unwrap_or_default()
}

/// The documents whose postings a lot needs.
fn wanted(rows: &[Row], lot: &Range<usize>) -> Vec<u32> {
    let mut wanted: Vec<u32> = rows[lot.clone()].iter().map(|row| row.representative).collect();
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

fn blots_of(segment: &Segment, rows: &[Row], lot: &Range<usize>) -> Result<Vec<Vec<u64>>> {
    let wanted = wanted(rows, lot);
    let mut blots = vec![Vec::new(); wanted.len()];
    let mut add = |number: u32, blot: u64| {
        if let Ok(place) = wanted.binary_search(&number) {
            blots[place].push(blot);
        }
    };
    let mut set = Vec::new();
    for part in &segment.parts {
        part.for_each_shared(|blot, number| {
            segment.sets.read(u64::from(number), &mut set)?;
            set.iter().for_each(|&number| add(number, blot));
            Ok(())
        })?;
        part.for_each_single(|blot, number| {
            add(number, blot);
            Ok(())
        })?;
    }
    blots.iter_mut().for_each(|blots| blots.sort_unstable());
    Ok(blots)
}

/// Writes the documents of one blot, a line each, aliases included.
pub fn dump_blot(index: &Index, blot: u64, out: &mut impl Write) -> Result<()> {
    let mut found = Vec::new();
    for segment in &index.segments {
        segment.find(blot, index.scheme.bits, &mut found)?;
        for place in 0..segment.documents.len() {
            let row = segment.documents.row(place)?;
            if found.binary_search(&row.representative).is_ok() {
                let id = serde_json::to_string(&segment.documents.id(place)?).unwrap_or_default();
                writeln!(out, "{{\"blot\":\"{blot:0digits$x}\",\"doc\":{id}}}", digits = usize::from(index.scheme.bits.div_ceil(4)))
                    .map_err(Error::output)?;
            }
        }
    }
    Ok(())
}
