//! The most similar documents of each document.

mod changes;
pub(super) mod full_diff;
pub(super) mod incremental_diff;

use super::{
    Progress, RowFormat, put,
    rows::{FlushRows, RowWriter, is_estimate},
};
use crate::{
    base::{
        error::Result,
        ids::{ContentNo, DocNo},
    },
    report::{EncodedIds, Format, Sink, field_names, put_count, put_number, records::TableRow},
    similar::{Discovery, Neighbour},
};
use std::{
    collections::HashMap,
    io::Write,
    sync::{Arc, Mutex, PoisonError},
};

/// Writes the table: for each document, in the order of ids, the `count` documents that share most
/// with it. `listed`: only for these documents, which ascend, and without the head of the table.
pub fn write_table(
    discovery: &Discovery<'_>,
    listed: Option<&[DocNo]>,
    count: usize,
    rows: RowFormat,
    out: &mut impl Write,
    progress: &mut Progress<'_>,
) -> Result<()> {
    let format = rows.format;
    let shape = row_shape(discovery, rows);
    if listed.is_none() {
        put_head(discovery, rows, out)?;
    }
    let table = TableWriter {
        discovery,
        count,
        ids: EncodedIds::read(discovery.view, format)?,
        frames: RowFrames::new(format, &shape)?,
        templates: Mutex::default(),
    };
    let put_rows = |document: DocNo,
                    neighbours: &Arc<[Neighbour]>,
                    out: &mut Vec<u8>,
                    _: &mut FlushRows<'_, Vec<u8>>| {
        table.put(document, neighbours, out);
        Ok(())
    };
    RowWriter::new(discovery, Some(count), &put_rows)
        .with_documents(listed)
        .write(|rows: &mut Vec<u8>| put(out, rows), progress)
}

/// Writes the head of a table.
pub fn put_head(discovery: &Discovery<'_>, rows: RowFormat, out: &mut impl Write) -> Result<()> {
    let mut head = Vec::new();
    let shape = row_shape(discovery, rows);
    rows.format.put_head(&shape, &mut head)?;
    put(out, &head)
}

/// A row with the fields that all rows of a table have.
fn row_shape(discovery: &Discovery<'_>, rows: RowFormat) -> TableRow<'static> {
    TableRow {
        rank: rows.ranks.then_some(1),
        estimate: is_estimate(discovery),
        ..TableRow::default()
    }
}

/// What stands before each field of a row, and after the last. Tables have millions of rows, so
/// that they are put together from these parts, which gives the bytes of [`TableRow`].
struct RowFrames {
    before_a: Vec<u8>,
    /// Unless rows are not numbered.
    before_rank: Option<Vec<u8>>,
    before_b: Vec<u8>,
    before_shared: Vec<u8>,
    before_a_in_b: Vec<u8>,
    before_b_in_a: Vec<u8>,
    /// All that stands after `b_in_a`.
    end: Vec<u8>,
}

impl RowFrames {
    fn new(format: Format, shape: &TableRow<'_>) -> Result<Self> {
        let names = field_names(shape)?;
        let (frames, end_of_row) = format.field_frames(&names);
        let before = |name: &str| {
            let place = names.iter().position(|field| field == name);
            place.map(|place| frames[place].clone())
        };
        let mut end = Vec::new();
        if let Some(frame) = before("estimate") {
            end.extend_from_slice(&frame);
            end.extend_from_slice(b"true");
        }
        end.extend_from_slice(end_of_row);
        Ok(Self {
            before_a: before("a").unwrap_or_default(),
            before_rank: before("rank"),
            before_b: before("b").unwrap_or_default(),
            before_shared: before("shared").unwrap_or_default(),
            before_a_in_b: before("a_in_b").unwrap_or_default(),
            before_b_in_a: before("b_in_a").unwrap_or_default(),
            end,
        })
    }
}

struct TableWriter<'d> {
    discovery: &'d Discovery<'d>,
    count: usize,
    ids: EncodedIds,
    frames: RowFrames,
    templates: Mutex<Templates>,
}

/// By the address of the neighbours, the number of blots of the document, and the length of its id.
type Templates = HashMap<(usize, u32, usize), Arc<Template>>;
/// The largest number of templates in memory: documents of one template mostly follow each other.
const MAX_TEMPLATES: usize = 64;
/// The largest number of rows of a template.
const MAX_TEMPLATE_ROWS: usize = 1 << 10;

/// The rows of a document as bytes, and where its id is in them: the rows of other documents with
/// the same neighbours differ in nothing else.
struct Template {
    bytes: Vec<u8>,
    id_places: Vec<usize>,
    /// Holds the memory, so that its address is not used for others.
    _neighbours: Arc<[Neighbour]>,
}

impl TableWriter<'_> {
    /// Appends the rows of a document. If all documents share a sentence, thousands may have the same
    /// neighbours.
    fn put(&self, document: DocNo, neighbours: &Arc<[Neighbour]>, out: &mut Vec<u8>) {
        let content = self.discovery.view.content_of(document);
        let is_shared = Arc::strong_count(neighbours) > 1 && self.count <= MAX_TEMPLATE_ROWS;
        if !is_shared
            || neighbours
                .binary_search_by_key(&content, |neighbour| neighbour.content)
                .is_ok()
        {
            self.put_rows(document, neighbours, out);
            return;
        }
        let id = self.ids.get(document);
        let lists = &self.discovery.sets;
        let key = (
            neighbours.as_ptr().addr(),
            lists.size(lists.rank_of(content)).blots,
            id.len(),
        );
        let known = self
            .templates
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
            .cloned();
        let template = known.unwrap_or_else(|| self.add_template(key, document, neighbours));
        let start = out.len();
        out.extend_from_slice(&template.bytes);
        for &place in &template.id_places {
            out[start + place..start + place + id.len()].copy_from_slice(id);
        }
    }

    fn add_template(
        &self,
        key: (usize, u32, usize),
        document: DocNo,
        neighbours: &Arc<[Neighbour]>,
    ) -> Arc<Template> {
        let mut bytes = Vec::new();
        let starts = self.put_rows(document, neighbours, &mut bytes);
        let id_places = starts
            .into_iter()
            .map(|start| start + self.frames.before_a.len())
            .collect();
        let template = Arc::new(Template {
            bytes,
            id_places,
            _neighbours: neighbours.clone(),
        });
        let mut templates = self
            .templates
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if templates.len() >= MAX_TEMPLATES {
            templates.clear();
        }
        templates.insert(key, template.clone());
        template
    }

    /// Appends the rows of a document, and returns where each starts. A row is put together from parts
    /// that most rows have in common.
    fn put_rows(&self, document: DocNo, neighbours: &[Neighbour], out: &mut Vec<u8>) -> Vec<usize> {
        let lists = &self.discovery.sets;
        let blots = |content: ContentNo| lists.size(lists.rank_of(content)).blots;
        let own = blots(self.discovery.view.content_of(document));
        let rows = self.discovery.table_rows(document, neighbours, self.count);
        let mut head = self.frames.before_a.clone();
        head.extend_from_slice(self.ids.get(document));
        if let Some(frame) = &self.frames.before_rank {
            head.extend_from_slice(frame);
        }
        let (mut middle, mut middle_of) = (Vec::new(), None);
        let (mut tail, mut tail_of) = (Vec::new(), None);
        let mut starts = Vec::with_capacity(rows.len());
        for (rank, (other, neighbour)) in (1..).zip(rows) {
            starts.push(out.len());
            let (shared, others) = (neighbour.shared, blots(neighbour.content));
            if middle_of.replace(shared) != Some(shared) {
                self.put_middle(shared, own, &mut middle);
            }
            if tail_of.replace((shared, others)) != Some((shared, others)) {
                tail.clear();
                put_number(&mut tail, f64::from(shared) / f64::from(others));
                tail.extend_from_slice(&self.frames.end);
            }
            out.extend_from_slice(&head);
            if self.frames.before_rank.is_some() {
                put_count(out, rank);
            }
            out.extend_from_slice(&self.frames.before_b);
            out.extend_from_slice(self.ids.get(other));
            out.extend_from_slice(&middle);
            out.extend_from_slice(&tail);
        }
        starts
    }

    /// Replaces `middle` by the number of shared blots, and its share of the document.
    fn put_middle(&self, shared: u32, own: u32, middle: &mut Vec<u8>) {
        middle.clear();
        middle.extend_from_slice(&self.frames.before_shared);
        put_count(middle, self.discovery.options.measure.scaled(shared));
        middle.extend_from_slice(&self.frames.before_a_in_b);
        put_number(middle, f64::from(shared) / f64::from(own));
        middle.extend_from_slice(&self.frames.before_b_in_a);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_give_the_bytes_of_a_record() {
        for format in [Format::Ndjson, Format::Tsv, Format::Csv] {
            for (rank, estimate) in [(None, false), (Some(1), true)] {
                let row = TableRow {
                    a: "x",
                    rank,
                    b: "y",
                    shared: 2,
                    a_in_b: 0.5,
                    b_in_a: 0.25,
                    estimate,
                };
                let frames = RowFrames::new(format, &row).unwrap();
                let rank_field = frames
                    .before_rank
                    .map(|frame| [frame, b"1".to_vec()].concat());
                let (mut a, mut b) = (Vec::new(), Vec::new());
                format.put_text(row.a, &mut a).unwrap();
                format.put_text(row.b, &mut b).unwrap();
                let joined = [
                    frames.before_a,
                    a,
                    rank_field.unwrap_or_default(),
                    frames.before_b,
                    b,
                    frames.before_shared,
                    b"2".to_vec(),
                    frames.before_a_in_b,
                    b"0.5".to_vec(),
                    frames.before_b_in_a,
                    b"0.25".to_vec(),
                    frames.end,
                ];
                let mut expected = Vec::new();
                format.put_record(&row, &mut expected).unwrap();
                assert_eq!(joined.concat(), expected);
            }
        }
    }
}
