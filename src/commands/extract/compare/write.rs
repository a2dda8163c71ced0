//! Pairs of texts to records of documents.

use super::{
    super::put,
    CompareOptions, Similar, Slice,
    candidates::{Pairs, Partner},
    texts::Texts,
};
use crate::base::ids::ContentNo;
use crate::{
    base::error::Result,
    index::View,
    report::{Format, Ids, Value, put_names, put_record},
    similar::{PairFilter, compare::AlignedArea},
    text::stream::Span,
};
use std::io::Write;

/// Records are written in pieces of about so many bytes.
const PIECE_BYTES: usize = 1 << 18;

pub struct Writer<'w, W: Write> {
    view: &'w View<'w>,
    pair_filter: &'w PairFilter,
    ids: Ids,
    format: Format,
    is_first: bool,
    out: &'w mut W,
    piece: Vec<u8>,
    areas: Vec<u8>,
}

impl<'w, W: Write> Writer<'w, W> {
    pub fn new(
        view: &'w View<'w>,
        pair_filter: &'w PairFilter,
        options: &CompareOptions,
        out: &'w mut W,
    ) -> Result<Self> {
        let CompareOptions {
            format,
            slice: Slice { number, .. },
            ..
        } = *options;
        let (ids, is_first) = (Ids::new(view, format)?, number == 1);
        Ok(Self {
            view,
            pair_filter,
            ids,
            format,
            is_first,
            out,
            piece: Vec::new(),
            areas: Vec::new(),
        })
    }

    /// The names of columns stand in the first slice only.
    pub fn put_names(&mut self, names: &[&str]) -> Result<()> {
        if self.is_first {
            put_names(&mut self.piece, self.format, names);
        }
        Ok(())
    }

    /// Writes all pairs of documents of two texts that are candidates.
    pub fn put_candidate(&mut self, pairs: &Pairs, a: u32, partner: Partner) -> Result<()> {
        let mut by = Vec::new();
        let name = pairs.by(a, partner);
        if self.format == Format::Ndjson {
            by.extend(format!("\"{name}\"").bytes())
        } else {
            by.extend(name.bytes())
        }
        if partner.0 == a && self.view.contents()[a as usize].tokens == 0 {
            return Ok(());
        }
        self.for_each(a, partner.0, |writer, [one, other], _| {
            let [a, b] = [one, other].map(|document| Value::Id(writer.ids.get(document)));
            put_record(
                &mut writer.piece,
                writer.format,
                &[("a", a), ("b", b), ("by", Value::Ids(&by))],
            );
        })
    }

    /// Writes all pairs of documents of two texts that are similar.
    pub fn put(&mut self, texts: &Texts, Similar { a, b, areas }: &Similar) -> Result<()> {
        self.for_each(*a, *b, |writer, documents, is_turned| {
            if writer
                .put_areas(texts, documents, areas, is_turned)
                .is_none()
            {
                return;
            }
            let [a, b] = documents.map(|document| Value::Id(writer.ids.get(document)));
            let similarity = areas.first().map_or(0, |area| u64::from(area.score));
            let told = if writer.format == Format::Ndjson {
                Value::Ids(&writer.areas)
            } else {
                Value::Count(areas.len() as u64)
            };
            put_record(
                &mut writer.piece,
                writer.format,
                &[
                    ("a", a),
                    ("b", b),
                    ("similarity", Value::Count(similarity)),
                    ("areas", told),
                ],
            );
        })
    }

    /// Calls `each` with the pairs of documents of two texts that are wanted, the first in the corpus first, and with whether that one is of `b`.
    fn for_each(
        &mut self,
        a: u32,
        b: u32,
        mut each: impl FnMut(&mut Self, [u32; 2], bool),
    ) -> Result<()> {
        let view = self.view;
        for &one in view.documents_of(ContentNo::new(a)) {
            for &other in view.documents_of(ContentNo::new(b)) {
                if (a == b && other <= one) || !self.pair_filter.allows(one.get(), other.get()) {
                    continue;
                }
                each(
                    self,
                    [one.min(other).get(), one.max(other).get()],
                    other < one,
                );
                if self.piece.len() >= PIECE_BYTES {
                    self.flush()?;
                }
            }
        }
        Ok(())
    }

    /// Makes the list of areas, in bytes of the documents. None if either was not read.
    fn put_areas(
        &mut self,
        texts: &Texts,
        documents: [u32; 2],
        areas: &[AlignedArea],
        is_turned: bool,
    ) -> Option<()> {
        let [one, other] = documents.map(|document| texts.document(document));
        let (one, other) = (one?, other?);
        self.areas.clear();
        self.areas.push(b'[');
        for (at, area) in areas.iter().enumerate() {
            let [of_one, of_other] = if is_turned {
                [&area.b, &area.a]
            } else {
                [&area.a, &area.b]
            };
            let [a, b]: [Span; 2] = [texts.span(one, of_one)?, texts.span(other, of_other)?];
            let AlignedArea { tokens, score, .. } = area;
            let comma = if at > 0 { "," } else { "" };
            // Writing to a vector cannot fail.
            let _ = write!(
                self.areas,
                "{comma}{{\"a\":[{},{}],\"b\":[{},{}],\"tokens\":{tokens},\"score\":{score}}}",
                a.start, a.end, b.start, b.end
            );
        }
        self.areas.push(b']');
        Some(())
    }

    fn flush(&mut self) -> Result<()> {
        put(self.out, &self.piece)?;
        self.piece.clear();
        Ok(())
    }

    pub fn finish(mut self) -> Result<()> {
        self.flush()
    }
}
