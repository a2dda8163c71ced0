//! Rows of many documents, made on many threads and written in order.

use super::Progress;
use crate::{
    base::{
        error::{Error, Result},
        ids::{ContentNo, DocNo},
        num::ToU64,
        parallel::Limits,
    },
    report::records::AlignedPair,
    similar::{Discovery, Neighbour},
};
use std::sync::{Arc, Mutex, PoisonError};

/// How much two documents share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PairNumbers {
    /// Blots that both have; an estimate if the index has a selection of the blots.
    pub shared: u64,
    /// The share of the blots of one document that the other has.
    pub a_in_b: f64,
    /// The reverse.
    pub b_in_a: f64,
}

impl PairNumbers {
    /// Of a content and one of its neighbours.
    pub fn new(discovery: &Discovery<'_>, content: ContentNo, neighbour: &Neighbour) -> Self {
        let share_of = |content: ContentNo| {
            let side = discovery.sets.size(discovery.sets.rank_of(content));
            f64::from(neighbour.shared) / f64::from(side.blots)
        };
        Self {
            shared: discovery.options.measure.scaled(neighbour.shared),
            a_in_b: share_of(content),
            b_in_a: share_of(neighbour.content),
        }
    }
}

/// Whether numbers are estimates, because the index has a selection of the blots.
pub(super) fn is_estimate(discovery: &Discovery<'_>) -> bool {
    discovery.options.measure.selection.is_some()
}

/// Rows of some documents.
pub(super) trait RowBuffer: Default + Send {
    /// Bytes of memory in use, about.
    fn bytes(&self) -> usize;

    /// Bytes of memory that are reserved, about.
    fn reserved_bytes(&self) -> usize;

    /// Removes all rows, and keeps the memory.
    fn clear(&mut self);
}

impl RowBuffer for Vec<u8> {
    fn bytes(&self) -> usize {
        self.len()
    }

    fn reserved_bytes(&self) -> usize {
        self.capacity()
    }

    fn clear(&mut self) {
        self.clear();
    }
}

impl RowBuffer for Vec<AlignedPair> {
    fn bytes(&self) -> usize {
        self.iter()
            .map(|pair| size_of_val(pair) + size_of_val(&pair.passages[..]))
            .sum()
    }

    fn reserved_bytes(&self) -> usize {
        self.bytes()
    }

    fn clear(&mut self) {
        self.clear();
    }
}

/// Appends the rows of a document, given its neighbours. The last argument is called between rows,
/// if there may be many, and may write out and clear the buffer.
pub(super) type PutRows<'d, B> =
    dyn Fn(DocNo, &Arc<[Neighbour]>, &mut B, &mut FlushRows<'_, B>) -> Result<()> + Sync + 'd;
/// Called between rows.
pub(super) type FlushRows<'f, B> = dyn FnMut(&mut B) -> Result<()> + 'f;

/// The rows of a few documents.
#[derive(Default)]
struct RowBlock<B> {
    documents: u64,
    rows: B,
    error: Option<Error>,
    /// Documents with too many rows to keep, which are written piece by piece, and the documents after them.
    deferred: Vec<(DocNo, Arc<[Neighbour]>)>,
}

impl<B: RowBuffer> RowBlock<B> {
    fn weight(&self) -> u64 {
        let deferred: usize = self
            .deferred
            .iter()
            .map(|(_, neighbours)| size_of_val(&neighbours[..]))
            .sum();
        (self.rows.reserved_bytes() + deferred).to_u64()
    }
}

/// The size of a row, about.
const ROW_BYTES: u64 = 160;
/// Rows of documents that have many are written in pieces of about this size.
const PIECE_BYTES: usize = 1 << 18;
/// A limit of rows is taken to be at most this, to estimate memory.
const MAX_LIMIT: usize = 1 << 20;

/// Makes the rows of all documents, and writes them in order.
pub(super) struct RowWriter<'d, B> {
    discovery: &'d Discovery<'d>,
    /// If set: no document has more rows, and they are of the neighbours that share most.
    max_rows: Option<usize>,
    put_rows: &'d PutRows<'d, B>,
    /// If set: only the rows of these documents, which ascend.
    listed: Option<&'d [DocNo]>,
    /// Written buffers are used again: where each document has many rows, fresh memory would cost
    /// more than the rows.
    spare: Mutex<Vec<B>>,
}

impl<'d, B: RowBuffer> RowWriter<'d, B> {
    pub fn new(
        discovery: &'d Discovery<'d>,
        max_rows: Option<usize>,
        put_rows: &'d PutRows<'d, B>,
    ) -> Self {
        Self {
            discovery,
            max_rows,
            put_rows,
            listed: None,
            spare: Mutex::default(),
        }
    }

    /// Restricts it to these documents, if any are given.
    pub fn with_documents(self, listed: Option<&'d [DocNo]>) -> Self {
        Self { listed, ..self }
    }

    /// Rows are made in parallel, except for those of documents that have too many to be kept.
    pub fn write(
        &self,
        mut emit: impl FnMut(&mut B) -> Result<()>,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let Limits {
            threads,
            memory_bytes,
        } = self.discovery.options.limits;
        let max_bytes = (memory_bytes / (8 * threads.to_u64())).min(8 << 20);
        let work = |document: DocNo, neighbours: &Arc<[Neighbour]>, block: &mut RowBlock<B>| {
            self.add(document, neighbours, block, max_bytes);
        };
        let all = self
            .listed
            .map_or(self.discovery.view.documents(), <[_]>::len);
        let all = all.to_u64();
        let mut documents = 0;
        let sink = |block: RowBlock<B>| {
            documents += block.documents;
            progress(documents, all);
            self.emit_block(block, &mut emit)
        };
        if let Some(listed) = self.listed {
            let orders = self.max_rows.map(|most| self.discovery.orders(most));
            let orders = orders.unwrap_or_default();
            let weight = RowBlock::weight;
            return self
                .discovery
                .for_each_listed(listed, &orders, work, weight, sink);
        }
        match self.max_rows {
            Some(most) => self
                .discovery
                .for_each_best(most, work, RowBlock::weight, sink),
            None => self
                .discovery
                .for_each_document(work, RowBlock::weight, sink),
        }
    }

    /// The number of rows of a document, at most.
    fn rows_of(&self, neighbours: &[Neighbour]) -> u64 {
        let documents =
            |of: &Neighbour| self.discovery.view.documents_of(of.content).len().to_u64();
        match self.max_rows {
            Some(most) => most.min(MAX_LIMIT).to_u64(),
            None => neighbours.iter().map(documents).sum(),
        }
    }

    fn add(
        &self,
        document: DocNo,
        neighbours: &Arc<[Neighbour]>,
        block: &mut RowBlock<B>,
        max_bytes: u64,
    ) {
        if block.documents == 0 {
            block.rows = self.spare().pop().unwrap_or_default();
        }
        block.documents += 1;
        let bytes = block.rows.bytes().to_u64() + self.rows_of(neighbours) * ROW_BYTES;
        if !block.deferred.is_empty() || bytes > max_bytes {
            block.deferred.push((document, neighbours.clone()));
            return;
        }
        let done = (self.put_rows)(document, neighbours, &mut block.rows, &mut |_| Ok(()));
        block.error = done.err().or(block.error.take());
    }

    fn emit_block(
        &self,
        mut block: RowBlock<B>,
        emit: &mut impl FnMut(&mut B) -> Result<()>,
    ) -> Result<()> {
        block.error.map_or(Ok(()), Err)?;
        emit(&mut block.rows)?;
        block.rows.clear();
        self.spare().push(block.rows);
        let mut piece = B::default();
        for (document, neighbours) in block.deferred {
            (self.put_rows)(document, &neighbours, &mut piece, &mut |piece| {
                if piece.bytes() >= PIECE_BYTES {
                    emit(piece)?;
                    piece.clear();
                }
                Ok(())
            })?;
        }
        emit(&mut piece)
    }

    fn spare(&self) -> std::sync::MutexGuard<'_, Vec<B>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls `put_row` for each pair of a document and a later one.
pub(super) fn for_each_pair<'d, B>(
    discovery: &'d Discovery<'d>,
    put_row: impl Fn(&mut B, DocNo, (DocNo, &Neighbour)) -> Result<()> + Sync + 'd,
) -> impl Fn(DocNo, &Arc<[Neighbour]>, &mut B, &mut FlushRows<'_, B>) -> Result<()> + Sync + 'd {
    move |document, neighbours, out, flush| {
        discovery
            .partners_after(document, neighbours)
            .into_iter()
            .try_for_each(|pair| {
                put_row(out, document, pair)?;
                flush(out)
            })
    }
}
