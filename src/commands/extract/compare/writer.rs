//! Writes the pairs of documents of two texts.

use super::{
    super::put,
    CompareOptions, SimilarTexts,
    candidates::{CandidatePairs, Partner},
    texts::TokenizedTexts,
};
use crate::{
    base::{
        error::Result,
        ids::{ContentNo, DocNo},
        num::ToUsize,
    },
    index::View,
    report::{
        DocumentIds, Format, Sink,
        records::{AreaList, AreaRecord, CandidatePair, ComparedPair},
        three_digits,
    },
    similar::{
        PairFilter,
        compare::{AlignedArea, ChanceModel},
    },
    text::stream::Span,
};
use serde::Serialize;
use std::io::Write;

/// Records are written in pieces of about this size.
const PIECE_BYTES: usize = 1 << 18;

/// Writes records of pairs of documents.
pub struct PairWriter<'w, W: Write> {
    view: &'w View<'w>,
    pair_filter: &'w PairFilter,
    ids: DocumentIds,
    format: Format,
    is_first_slice: bool,
    /// If set, records have p-values.
    pub(super) chance: Option<ChanceModel>,
    out: &'w mut W,
    piece: Vec<u8>,
}

impl<'w, W: Write> PairWriter<'w, W> {
    /// Writes the pairs that `pair_filter` wants.
    pub fn new(
        view: &'w View<'w>,
        pair_filter: &'w PairFilter,
        options: &CompareOptions,
        out: &'w mut W,
    ) -> Result<Self> {
        Ok(Self {
            view,
            pair_filter,
            ids: DocumentIds::read(view)?,
            format: options.format,
            is_first_slice: options.slice.number == 1,
            chance: None,
            out,
            piece: Vec::new(),
        })
    }

    /// Writes the names of columns, in the first slice only.
    pub fn write_head(&mut self, shape: &impl Serialize) -> Result<()> {
        if self.is_first_slice {
            self.format.put_head(shape, &mut self.piece)?;
        }
        Ok(())
    }

    /// Writes all pairs of documents of two texts that are candidates.
    pub fn write_candidate(
        &mut self,
        pairs: &CandidatePairs,
        a: u32,
        partner: Partner,
    ) -> Result<()> {
        if partner.0 == a && self.view.contents()[a.to_usize()].tokens == 0 {
            return Ok(());
        }
        let by = pairs.methods(a, partner);
        self.for_each(a, partner.0, |writer, documents, _| {
            let [a, b] = documents.map(|document| writer.ids.get(document));
            let record = CandidatePair { a, b, by: &by };
            writer.format.put_record(&record, &mut writer.piece)
        })
    }

    /// Writes all pairs of documents of two similar texts.
    pub fn write_similar(&mut self, texts: &TokenizedTexts, similar: &SimilarTexts) -> Result<()> {
        let SimilarTexts { a, b, areas } = similar;
        let similarity = areas.first().map_or(0, |area| area.score);
        let tokens = [*a, *b].map(|content| texts.tokens_of(content));
        let p_value = self
            .chance
            .map(|chance| three_digits(chance.p_value(tokens, similarity)));
        self.for_each(*a, *b, |writer, documents, is_swapped| {
            let Some(records) = area_records(texts, documents, areas, is_swapped) else {
                return Ok(());
            };
            let [a, b] = documents.map(|document| writer.ids.get(document));
            let record = ComparedPair {
                a,
                b,
                similarity,
                p_value,
                areas: if writer.format.is_table() {
                    AreaList::Count(areas.len())
                } else {
                    AreaList::All(records)
                },
            };
            writer.format.put_record(&record, &mut writer.piece)
        })
    }

    /// Calls `each` with the wanted pairs of documents of two texts, the earlier document first, and
    /// with whether that one has the text `b`.
    fn for_each(
        &mut self,
        a: u32,
        b: u32,
        mut each: impl FnMut(&mut Self, [DocNo; 2], bool) -> Result<()>,
    ) -> Result<()> {
        let view = self.view;
        for &one in view.documents_of(ContentNo::new(a)) {
            for &other in view.documents_of(ContentNo::new(b)) {
                if (a == b && other <= one) || !self.pair_filter.allows(one, other) {
                    continue;
                }
                let documents = [one.min(other), one.max(other)];
                each(self, documents, other < one)?;
                if self.piece.len() >= PIECE_BYTES {
                    self.flush()?;
                }
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        put(self.out, &self.piece)?;
        self.piece.clear();
        Ok(())
    }

    /// Writes the remaining records.
    pub fn finish(mut self) -> Result<()> {
        self.flush()
    }
}

/// The areas of two documents, in bytes; none if either was not read.
fn area_records(
    texts: &TokenizedTexts,
    documents: [DocNo; 2],
    areas: &[AlignedArea],
    is_swapped: bool,
) -> Option<Vec<AreaRecord>> {
    let [one, other] = documents.map(|document| texts.document(document.get()));
    let (one, other) = (one?, other?);
    let record = |area: &AlignedArea| {
        let [of_one, of_other] = if is_swapped {
            [&area.b, &area.a]
        } else {
            [&area.a, &area.b]
        };
        let range = |span: Span| [span.start, span.end];
        Some(AreaRecord {
            a: range(texts.span(one, of_one)?),
            b: range(texts.span(other, of_other)?),
            tokens: area.tokens,
            score: area.score,
        })
    };
    areas.iter().map(record).collect()
}
