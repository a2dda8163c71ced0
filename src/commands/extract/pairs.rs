//! Pairs, and the graph of them.

use super::{Done, put};
use crate::base::ids::{ContentNo, DocNo};
use crate::{
    base::{
        error::{Error, Result},
        parallel::Limits,
    },
    commands::texts::{PassageParts, Texts},
    report::{Format, Graph, GraphFormat, Ids, Value, put_names, put_record},
    similar::{Discovery, Measure, Neighbour},
};
use std::{
    io::Write,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// What is written of a pair, but for its ids.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Numbers {
    pub shared: u64,
    pub a_in_b: f64,
    pub b_in_a: f64,
}

impl Numbers {
    pub fn of(discovery: &Discovery<'_>, a: u32, neighbour: &Neighbour) -> Self {
        let part_of = |content: u32| {
            let side = discovery.lists.side(discovery.lists.rank_of(content));
            f64::from(neighbour.shared) / f64::from(side.blots)
        };
        let shared = discovery.options.measure.scaled(neighbour.shared);
        Self {
            shared,
            a_in_b: part_of(a),
            b_in_a: part_of(neighbour.content),
        }
    }
}

pub(super) const ESTIMATE: (&str, Value<'_>) = ("estimate", Value::Flag(true));

/// An estimate says so: the last field is for estimates only.
pub(super) fn shown<'f, T>(discovery: &Discovery<'_>, fields: &'f [T]) -> &'f [T] {
    shown_by(&discovery.options.measure, fields)
}

pub(super) fn shown_by<'f, T>(measure: &Measure, fields: &'f [T]) -> &'f [T] {
    &fields[..fields.len() - usize::from(measure.selection.is_none())]
}

/// Appends the rows of a document, given its neighbours. The last argument is called between rows, if there may be many, and may empty the bytes.
type PutRows<'d> =
    dyn Fn(usize, &Arc<[Neighbour]>, &mut Vec<u8>, &mut Between<'_>) -> Result<()> + Sync + 'd;
pub(super) type Between<'b> = dyn FnMut(&mut Vec<u8>) -> Result<()> + 'b;

/// What became of a few documents.
#[derive(Default)]
struct Made {
    documents: u64,
    bytes: Vec<u8>,
    failed: Option<Error>,
    /// Documents with so many rows that they are written piece by piece; and those after them.
    late: Vec<(usize, Arc<[Neighbour]>)>,
}

/// A row has about so many bytes.
const ROW_BYTES: u64 = 160;
/// Rows are handed on in pieces of about so many bytes.
const PIECE_BYTES: usize = 1 << 18;

/// Writes the rows of all documents in order. Rows are made in parallel, but for those of documents that have too many to be kept.
///
/// `most_rows`: each document has no more, and they are of the neighbours that share most; else each neighbour is given.
pub(super) fn write_rows(
    discovery: &Discovery<'_>,
    most_rows: Option<usize>,
    put_rows: &PutRows<'_>,
    mut emit: impl FnMut(&[u8]) -> Result<()>,
    done: &mut Done<'_>,
) -> Result<()> {
    let Limits {
        threads,
        memory_bytes,
    } = discovery.options.limits;
    let limit = (memory_bytes / (8 * threads as u64)).min(8 << 20);
    // Written buffers are used again: where each document has many rows, fresh memory would cost more than the rows.
    let spare = Mutex::new(Vec::<Vec<u8>>::new());
    let work = |document: usize, neighbours: &Arc<[Neighbour]>, made: &mut Made| {
        if made.documents == 0 {
            made.bytes = spare
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop()
                .unwrap_or_default();
        }
        made.documents += 1;
        let documents = |neighbour: &Neighbour| {
            discovery
                .view
                .documents_of(ContentNo::new(neighbour.content))
                .len() as u64
        };
        let rows = most_rows.map_or_else(
            || neighbours.iter().map(documents).sum(),
            |most| most.min(1 << 20) as u64,
        );
        if !made.late.is_empty() || made.bytes.len() as u64 + rows * ROW_BYTES > limit {
            made.late.push((document, neighbours.clone()));
        } else {
            made.failed = put_rows(document, neighbours, &mut made.bytes, &mut |_| Ok(()))
                .err()
                .or(made.failed.take());
        }
    };
    let weigh = |made: &Made| {
        let late: usize = made
            .late
            .iter()
            .map(|(_, neighbours)| size_of_val(&neighbours[..]))
            .sum();
        (made.bytes.capacity() + late) as u64
    };
    let mut documents = 0;
    let sink = |mut made: Made| {
        documents += made.documents;
        done(documents, discovery.view.documents() as u64);
        made.failed.map_or(Ok(()), Err)?;
        emit(&made.bytes)?;
        made.bytes.clear();
        spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(made.bytes);
        let mut piece = Vec::new();
        for (document, neighbours) in made.late {
            put_rows(document, &neighbours, &mut piece, &mut |piece| {
                if piece.len() >= PIECE_BYTES {
                    emit(piece)?;
                    piece.clear();
                }
                Ok(())
            })?;
        }
        emit(&piece)
    };
    match most_rows {
        Some(most) => discovery.for_each_best(most, work, weigh, sink),
        None => discovery.for_each_document(work, weigh, sink),
    }
}

/// Writes every pair; with `texts` as NDJSON, and with the passages of those whose texts can be read.
pub fn write_pairs(
    discovery: &Discovery<'_>,
    texts: Option<&Texts<'_>>,
    format: Format,
    out: &mut impl Write,
    done: &mut Done<'_>,
) -> Result<()> {
    let ids = Ids::new(discovery.view, format)?;
    let shared = |document: usize, other: u32| {
        let text =
            |document: usize| texts?.get(&discovery.view.id(DocNo::from_index(document)).ok()?);
        // Both are asked for, so that both are named if they cannot be read.
        let (a, b) = (text(document), text(other as usize));
        Some(texts?.options.shared(&*a?, &*b?))
    };
    let leaves_out = texts.is_some_and(|texts| texts.options.leaves_out());
    let mut names = Vec::new();
    put_names(
        &mut names,
        format,
        shown(
            discovery,
            &["a", "b", "shared", "a_in_b", "b_in_a", "score", "estimate"],
        ),
    );
    put(out, &names)?;
    let put_row = |out: &mut Vec<u8>, document: usize, (other, neighbour): (u32, &Neighbour)| {
        let numbers = Numbers::of(
            discovery,
            discovery.view.content_of(DocNo::from_index(document)).get(),
            neighbour,
        );
        let fields = [
            ("a", Value::Id(ids.get(document as u32))),
            ("b", Value::Id(ids.get(other))),
            ("shared", Value::Count(numbers.shared)),
            ("a_in_b", Value::Number(numbers.a_in_b)),
            ("b_in_a", Value::Number(numbers.b_in_a)),
            ("score", Value::Number(neighbour.score)),
            ESTIMATE,
        ];
        let mut fields = shown(discovery, &fields).to_vec();
        let (mut parts, shared) = (PassageParts::default(), shared(document, other));
        if let Some(shared) = &shared {
            // All that they share is left out.
            if leaves_out && shared.passages.is_empty() {
                return;
            }
            parts.put(shared, leaves_out);
            parts.add_to(&mut fields);
        }
        put_record(out, format, &fields);
    };
    write_rows(
        discovery,
        None,
        &each_pair(discovery, put_row),
        |bytes| put(out, bytes),
        done,
    )
}

/// The fields of a row of the table: without its rank where that is not wanted, and marked where numbers are estimates.
pub(super) fn table_fields<T: Clone>(
    measure: &Measure,
    ranks: bool,
    [a, rank, b, shared, a_in_b, b_in_a, estimate]: [T; 7],
) -> Vec<T> {
    let rank = ranks.then_some(rank);
    let estimate = measure.selection.map(|_| estimate);
    [a].into_iter()
        .chain(rank)
        .chain([b, shared, a_in_b, b_in_a])
        .chain(estimate)
        .collect()
}

/// The names of these fields.
pub(super) const TABLE_FIELDS: [&str; 7] =
    ["a", "rank", "b", "shared", "a_in_b", "b_in_a", "estimate"];

/// Puts a row for each pair of a document and a later one.
fn each_pair<'d>(
    discovery: &'d Discovery<'d>,
    put_row: impl Fn(&mut Vec<u8>, usize, (u32, &Neighbour)) + Sync + 'd,
) -> impl Fn(usize, &Arc<[Neighbour]>, &mut Vec<u8>, &mut Between<'_>) -> Result<()> + Sync + 'd {
    move |document, neighbours, out, between| {
        discovery
            .partners_after(document, neighbours)
            .into_iter()
            .try_for_each(|row| {
                put_row(out, document, row);
                between(out)
            })
    }
}

pub fn write_graph(
    discovery: &Discovery<'_>,
    format: GraphFormat,
    out: &mut impl Write,
    done: &mut Done<'_>,
) -> Result<()> {
    let mut graph = Graph::new(format)?;
    let has_edge: Vec<AtomicBool> = (0..discovery.view.documents())
        .map(|_| AtomicBool::new(false))
        .collect();
    let put_row = |out: &mut Vec<u8>, document: usize, (other, neighbour): (u32, &Neighbour)| {
        let Numbers {
            shared,
            a_in_b,
            b_in_a,
        } = Numbers::of(
            discovery,
            discovery.view.content_of(DocNo::from_index(document)).get(),
            neighbour,
        );
        Graph::put_edge(
            format,
            out,
            document as u32,
            other,
            [shared as f64, a_in_b, b_in_a, neighbour.score],
        );
        [document, other as usize]
            .iter()
            .for_each(|&end| has_edge[end].store(true, Ordering::Relaxed));
    };
    write_rows(
        discovery,
        None,
        &each_pair(discovery, put_row),
        |bytes| graph.add(bytes),
        done,
    )?;
    let nodes = (0..has_edge.len()).filter(|&document| has_edge[document].load(Ordering::Relaxed));
    graph.write(
        nodes,
        |document| {
            Ok((
                discovery.view.id(DocNo::from_index(document))?,
                discovery.view.row(DocNo::from_index(document))?.tokens,
            ))
        },
        out,
    )
}
