//! Writes an index as a stream of blots.

use crate::base::ids::{Blot, ContentNo, DocNo};
use crate::base::setting::Setting;
use crate::{
    base::error::{Error, Place, Result},
    blot::select::is_scheme_shared_only,
    index::{
        Index, View,
        posting::{BUCKETS, WordLists},
    },
    report::{
        Ndjson, Sink,
        records::{BlotPosting, DictionaryWord, hex_blot},
    },
    text::stream::{Batch, BlotCodec, Blots, Form, Header, Record, StreamKind, StreamWriter},
};
use std::{io::Write, ops::Range};

/// Writes every document with its blots, in the order of their numbers: a stream from which `build` makes the same index.
///
/// Works on as many documents at a time as have blots that fit into `memory_bytes`, and reads the postings once for each such batch.
pub fn dump(index: &Index, memory_bytes: u64, out: &mut impl Write) -> Result<()> {
    let header = Header::new(StreamKind::Blots, index.manifest.scheme.clone());
    let mut stream = StreamWriter::new(out, Form::Ndjson, &header).map_err(Error::output)?;
    let codec = BlotCodec {
        bits: index.scheme.bits,
        with_positions: false,
    };
    let (view, counts_distinct) = (View::of(index)?, is_scheme_shared_only(&index.scheme));
    for lot in lots(&view, memory_bytes / 8) {
        let wanted = contents_of(&view, &lot);
        let blots = blots_of(&view, &wanted)?;
        for document in lot.map(DocNo::from_index) {
            let (id, row) = (view.id(document)?, view.row(document)?);
            let content = wanted
                .binary_search(&view.content_of(document).get())
                .unwrap_or_default();
            let distinct = counts_distinct.then_some(u64::from(row.blots));
            let blots = Blots {
                values: blots[content].clone(),
                tokens: u64::from(row.tokens),
                distinct,
                ..Blots::default()
            };
            let mut batch = Batch::default();
            codec.write_ndjson(
                &mut batch.bytes,
                &Record {
                    doc: &id,
                    bytes: row.bytes,
                    hash: row.hash,
                },
                &blots,
            );
            batch.finish_record();
            stream.write(&batch).map_err(Error::output)?;
        }
    }
    stream.finish().map_err(Error::output)?;
    Ok(())
}

/// A batch: neighbouring documents with at most `most` blots together, or a single document with more.
fn lots(view: &View<'_>, blots_limit: u64) -> Vec<Range<usize>> {
    let (mut lots, mut have) = (Vec::<Range<usize>>::new(), 0);
    for document in 0..view.documents() {
        let blots =
            u64::from(view.contents()[view.content_of(DocNo::from_index(document)).index()].posted);
        have += blots;
        match lots.last_mut() {
            Some(lot) if have <= blots_limit => lot.end = document + 1,
            _ => {
                have = blots;
                lots.push(document..document + 1);
            }
        }
    }
    lots
}

/// The contents of a batch, in order.
fn contents_of(view: &View<'_>, lot: &Range<usize>) -> Vec<u32> {
    let mut wanted: Vec<u32> = lot
        .clone()
        .map(|document| view.content_of(DocNo::from_index(document)).get())
        .collect();
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

/// The blots of some contents, in rising order.
fn blots_of(view: &View<'_>, wanted: &[u32]) -> Result<Vec<Vec<u64>>> {
    let mut blots = vec![Vec::new(); wanted.len()];
    view.for_each_blot(|blot, contents| {
        for content in contents {
            if let Ok(place) = wanted.binary_search(content) {
                blots[place].push(blot.get());
            }
        }
        Ok(())
    })?;
    Ok(blots)
}

/// Writes the dictionary, a line for each word by rising hash: the number of documents that have it, these documents, and how often each
/// has it.
pub fn dump_dictionary(index: &Index, out: &mut impl Write) -> Result<()> {
    let view = View::of(index)?;
    let Some(words) = view.words() else {
        let what = format!(
            "has no dictionary; build it with dedup-index build {}",
            Setting::Dictionary
        );
        return Err(Error::damaged(Place::path(&index.directory), what));
    };
    let mut documents = Vec::new();
    let mut line = Vec::new();
    for bucket in 0..BUCKETS {
        words.for_each_in(bucket, &mut |word, list| {
            documents.clear();
            documents.extend(list.iter().flat_map(|of| {
                view.documents_of(ContentNo::new(of.place))
                    .iter()
                    .map(|&document| (document, of.times))
            }));
            documents.sort_unstable();
            let ids = documents
                .iter()
                .map(|&(document, _)| view.id(DocNo::from_index(document.index())))
                .collect::<Result<Vec<_>>>()?;
            let times: Vec<u32> = documents.iter().map(|&(_, times)| times).collect();
            let record = DictionaryWord {
                word: &String::from_utf8_lossy(word),
                df: ids.len(),
                docs: &ids,
                times: &times,
            };
            line.clear();
            Ndjson.put_record(&record, &mut line)?;
            out.write_all(&line).map_err(Error::output)
        })?;
    }
    Ok(())
}

/// Writes the documents of one blot, a line each, aliases included, in the order of their numbers.
pub fn dump_blot(index: &Index, blot: Blot, out: &mut impl Write) -> Result<()> {
    let hex = hex_blot(blot, index.scheme.bits);
    let mut lines = Vec::new();
    for id in index.ids_with(blot)? {
        let record = BlotPosting {
            blot: &hex,
            doc: &id,
        };
        Ndjson.put_record(&record, &mut lines)?;
    }
    out.write_all(&lines).map_err(Error::output)
}
