//! The most similar documents of each document.

use super::{
    Done, RowFormat,
    pairs::{Between, TABLE_FIELDS, table_fields, write_rows},
    put,
};
use crate::base::ids::{ContentNo, DocNo};
use crate::{
    base::error::Result,
    report::{Format, Ids, put_count, put_names, put_number},
    similar::{Discovery, Neighbour},
};
use std::{
    collections::HashMap,
    io::Write,
    sync::{Arc, Mutex, PoisonError},
};

/// What stands before each field of a row, and after the last.
const NDJSON: [&[u8]; 6] = [
    b"{\"a\":",
    b",\"rank\":",
    b",\"b\":",
    b",\"shared\":",
    b",\"a_in_b\":",
    b",\"b_in_a\":",
];
const TSV: [&[u8]; 6] = [b"", b"\t", b"\t", b"\t", b"\t", b"\t"];

/// Writes the table: for each document, in the order of ids, the `count` documents that share most with it.
pub fn write_table(
    discovery: &Discovery<'_>,
    count: usize,
    rows: RowFormat,
    out: &mut impl Write,
    done: &mut Done<'_>,
) -> Result<()> {
    let (RowFormat { format, ranks }, measure) = (rows, &discovery.options.measure);
    let (mut names, is_estimate) = (Vec::new(), measure.selection.is_some());
    put_names(
        &mut names,
        format,
        &table_fields(measure, ranks, TABLE_FIELDS),
    );
    put(out, &names)?;
    let (before, end): (_, &[u8]) = match (format, is_estimate) {
        (Format::Ndjson, false) => (NDJSON, b"}\n"),
        (Format::Ndjson, true) => (NDJSON, b",\"estimate\":true}\n"),
        (Format::Tsv, false) => (TSV, b"\n"),
        (Format::Tsv, true) => (TSV, b"\ttrue\n"),
    };
    let ids = Ids::new(discovery.view, format)?;
    let table = Table {
        discovery,
        count,
        ranks,
        ids,
        before,
        end,
        templates: Mutex::default(),
    };
    let put_rows =
        |document: usize, neighbours: &Arc<[Neighbour]>, out: &mut Vec<u8>, _: &mut Between<'_>| {
            table.put(document, neighbours, out);
            Ok(())
        };
    write_rows(
        discovery,
        Some(count),
        &put_rows,
        |bytes| put(out, bytes),
        done,
    )
}

struct Table<'d> {
    discovery: &'d Discovery<'d>,
    count: usize,
    /// Whether rows are numbered.
    ranks: bool,
    ids: Ids,
    before: [&'static [u8]; 6],
    end: &'static [u8],
    templates: Mutex<Templates>,
}

/// By where the neighbours are in memory, the number of blots of the document, and the length of its id.
type Templates = HashMap<(usize, u32, usize), Arc<Template>>;
/// No more templates are kept, nor any of more rows: documents of one template mostly stand near each other.
const MOST_TEMPLATES: usize = 64;
const MOST_ROWS: usize = 1 << 10;

/// The rows of a document as bytes, and where its id is in them: those of others with the same neighbours differ in nothing else.
struct Template {
    bytes: Vec<u8>,
    places: Vec<usize>,
    /// So that their place in memory stays theirs.
    _neighbours: Arc<[Neighbour]>,
}

impl Table<'_> {
    /// Appends the rows of a document. Where all documents share a sentence there may be thousands with the same neighbours.
    fn put(&self, document: usize, neighbours: &Arc<[Neighbour]>, out: &mut Vec<u8>) {
        let content = self.discovery.view.content_of(DocNo::from_index(document));
        let is_shared = Arc::strong_count(neighbours) > 1 && self.count <= MOST_ROWS;
        if !is_shared
            || neighbours
                .binary_search_by_key(&content, |neighbour| ContentNo::new(neighbour.content))
                .is_ok()
        {
            self.put_rows(document, neighbours, out);
            return;
        }
        let (id, lists) = (self.ids.get(document as u32), &self.discovery.lists);
        let key = (
            neighbours.as_ptr() as usize,
            lists.side(lists.rank_of(content.get())).blots,
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
        for &place in &template.places {
            out[start + place..start + place + id.len()].copy_from_slice(id);
        }
    }

    fn add_template(
        &self,
        key: (usize, u32, usize),
        document: usize,
        neighbours: &Arc<[Neighbour]>,
    ) -> Arc<Template> {
        let mut bytes = Vec::new();
        let starts = self.put_rows(document, neighbours, &mut bytes);
        let places = starts
            .into_iter()
            .map(|start| start + self.before[0].len())
            .collect();
        let template = Arc::new(Template {
            bytes,
            places,
            _neighbours: neighbours.clone(),
        });
        let mut templates = self
            .templates
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if templates.len() >= MOST_TEMPLATES {
            templates.clear();
        }
        templates.insert(key, template.clone());
        template
    }

    /// Appends the rows of a document, and gives where each starts. A row is put together of parts that most rows have in common.
    fn put_rows(&self, document: usize, neighbours: &[Neighbour], out: &mut Vec<u8>) -> Vec<usize> {
        let lists = &self.discovery.lists;
        let blots = |content: u32| lists.side(lists.rank_of(content)).blots;
        let own = blots(
            self.discovery
                .view
                .content_of(DocNo::from_index(document))
                .get(),
        );
        let rows = self.discovery.table_rows(document, neighbours, self.count);
        let mut head = self.before[0].to_vec();
        head.extend_from_slice(self.ids.get(document as u32));
        if self.ranks {
            head.extend_from_slice(self.before[1]);
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
                tail.extend_from_slice(self.end);
            }
            out.extend_from_slice(&head);
            if self.ranks {
                put_count(out, rank);
            }
            out.extend_from_slice(self.before[2]);
            out.extend_from_slice(self.ids.get(other));
            out.extend_from_slice(&middle);
            out.extend_from_slice(&tail);
        }
        starts
    }

    /// What is shared, and what part of the document that is.
    fn put_middle(&self, shared: u32, own: u32, middle: &mut Vec<u8>) {
        middle.clear();
        middle.extend_from_slice(self.before[3]);
        put_count(middle, self.discovery.options.measure.scaled(shared));
        middle.extend_from_slice(self.before[4]);
        put_number(middle, f64::from(shared) / f64::from(own));
        middle.extend_from_slice(self.before[5]);
    }
}
