//! Which repeats are listed, and how.

use super::{
    super::{put, stored::Stored},
    PassagesOptions, Repeats,
    read::Mapped,
    taboo::Taboo,
};
use crate::base::num::{ToU32, ToU64, ToUsize};
use crate::{
    align::repeat::TextBounds,
    base::error::Result,
    commands::blot::shown_text,
    index::Index,
    report::{
        Format, Sink,
        records::{PassageFamily, PassagePlace},
    },
    text::stream::Span,
};
use std::{io::Write, ops::Range};

/// So many characters of a passage are shown.
const TEXT_CHARS: usize = 300;

pub struct Listing<'s> {
    index: &'s Index,
    stored: &'s Stored,
    mapped: &'s Mapped<'s>,
    texts: &'s TextBounds,
    taboo: &'s Taboo,
    /// The documents of all texts, one after the other, and where those of each end.
    documents: Vec<u32>,
    ends: Vec<usize>,
}

/// A repeat as it was sorted.
struct Candidate<'p> {
    tokens: u32,
    places: &'p [[u8; 8]],
    before: u64,
}

impl<'p> Candidate<'p> {
    fn of([_, _, tokens, offset, count]: [u64; 5], places: &'p [[u8; 8]]) -> Self {
        let (offset, before) = (offset.to_usize(), count & u64::from(u32::MAX));
        Self {
            tokens: (!tokens).to_u32(),
            places: &places[offset..offset + (count >> 32).to_usize()],
            before,
        }
    }

    /// The tokens of each place.
    fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.places.iter().map(|place| {
            let start = u64::from_le_bytes(*place) - self.before;
            start..start + u64::from(self.tokens)
        })
    }
}

impl<'s> Listing<'s> {
    pub fn new(
        index: &'s Index,
        stored: &'s Stored,
        mapped: &'s Mapped<'s>,
        texts: &'s TextBounds,
        taboo: &'s Taboo,
    ) -> Self {
        let mut ends = Vec::with_capacity(stored.texts.len());
        let mut sum = 0;
        for text in 0..stored.texts.len().to_u32() {
            // For now where the list starts: it moves to the end as the list is filled.
            ends.push(sum);
            sum += texts.copies(text).to_usize();
        }
        let mut documents = vec![0; sum];
        for (number, document) in (0..).zip(&stored.documents) {
            let end = &mut ends[document.text.to_usize()];
            documents[*end] = number;
            *end += 1;
        }
        Self {
            index,
            stored,
            mapped,
            texts,
            taboo,
            documents,
            ends,
        }
    }

    pub fn write(
        &self,
        repeats: &Repeats,
        options: &PassagesOptions,
        out: &mut impl Write,
    ) -> Result<()> {
        let (places, tokens) = (repeats.places.as_chunks().0, self.mapped.tokens());
        let mut covered = Covered(vec![0; tokens.len().div_ceil(64)]);
        let (mut number, mut line) = (0, Vec::new());
        for class in 0..repeats.by_weight.len() {
            let mut records = repeats.by_weight.take(class)?;
            records.sort_unstable();
            for record in records {
                if options.top.is_some_and(|top| number >= top) {
                    return Ok(());
                }
                let candidate = Candidate::of(record, places);
                if !self.is_news(&candidate, &covered) || self.is_taboo(&candidate) {
                    continue;
                }
                number += 1;
                let new = candidate
                    .ranges()
                    .map(|range| self.cover(range, &mut covered))
                    .sum();
                line.clear();
                self.put([number, new], &candidate, options.format, &mut line)?;
                put(out, &line)?;
            }
        }
        Ok(())
    }

    /// Whether two places or more are not within what was listed.
    fn is_news(&self, candidate: &Candidate<'_>, covered: &Covered) -> bool {
        let mut left = 2_u32;
        candidate.ranges().any(|range| {
            if !covered.has(&range) {
                left = left.saturating_sub(self.texts.copies(self.texts.of(range.start)));
            }
            left == 0
        })
    }

    /// Marks a place as listed; says how many tokens were not, in all documents that have it.
    fn cover(&self, range: Range<u64>, covered: &mut Covered) -> u64 {
        let copies = self.texts.copies(self.texts.of(range.start));
        covered.add(range) * u64::from(copies)
    }

    fn is_taboo(&self, candidate: &Candidate<'_>) -> bool {
        let tokens = candidate
            .ranges()
            .next()
            .map(|range| &self.mapped.tokens()[range.start.to_usize()..range.end.to_usize()]);
        tokens.is_some_and(|tokens| self.taboo.has(tokens))
    }

    fn documents_of(&self, text: u32) -> &[u32] {
        let start = if text == 0 {
            0
        } else {
            self.ends[text.to_usize() - 1]
        };
        &self.documents[start..self.ends[text.to_usize()]]
    }

    /// Documents and first tokens of all places, in order.
    fn places(&self, candidate: &Candidate<'_>) -> Vec<(u32, u32)> {
        let mut places = Vec::new();
        for range in candidate.ranges() {
            let text = self.texts.of(range.start);
            let first = (range.start - self.texts.start(text)).to_u32();
            places.extend(
                self.documents_of(text)
                    .iter()
                    .map(|&document| (document, first)),
            );
        }
        places.sort_unstable();
        places
    }

    fn span(&self, (document, first): (u32, u32), tokens: u32) -> Span {
        let document = &self.stored.documents[document.to_usize()];
        let (first, last) = (first.to_usize(), (first + tokens).to_usize() - 1);
        let span = self.mapped.span(document, first, last);
        span.unwrap_or(Span { start: 0, end: 0 })
    }

    fn put(
        &self,
        [number, new]: [u64; 2],
        candidate: &Candidate<'_>,
        format: Format,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let places = self.places(candidate);
        let mut ids: Vec<String> = Vec::new();
        for same in places.chunk_by(|one, two| one.0 == two.0) {
            let document = &self.stored.documents[same[0].0.to_usize()];
            ids.push(self.index.id(document.at)?);
        }
        let by_document = places.chunk_by(|one, two| one.0 == two.0).zip(&ids);
        let place = |place: (u32, u32), doc| {
            let Span { start, end } = self.span(place, candidate.tokens);
            PassagePlace { doc, start, end }
        };
        let text = places
            .first()
            .and_then(|&place| self.text(place, candidate.tokens));
        let record = PassageFamily {
            passage: number,
            tokens: candidate.tokens,
            count: places.len(),
            documents: ids.len().to_u64(),
            new,
            text: text.as_deref(),
            places: by_document
                .flat_map(|(same, doc)| same.iter().map(move |&at| place(at, doc.as_str())))
                .collect(),
        };
        format.put_record(&record, out)
    }

    /// The start of a passage; none if its document did not come as text. The first place is in the first document of its text.
    fn text(&self, place: (u32, u32), tokens: u32) -> Option<String> {
        let text = self.stored.documents[place.0.to_usize()].text;
        let text = self.mapped.text(text, self.span(place, tokens))?;
        let text = shown_text(&self.index.scheme.tokens, text);
        Some(match text.char_indices().nth(TEXT_CHARS) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.to_string(),
        })
    }
}

/// Which tokens are in places of what was listed: a bit each.
struct Covered(Vec<u64>);

impl Covered {
    fn has(&self, range: &Range<u64>) -> bool {
        words(range).all(|(word, mask)| self.0[word] & mask == mask)
    }

    /// Says how many are new.
    fn add(&mut self, range: Range<u64>) -> u64 {
        let mut new = 0;
        for (word, mask) in words(&range) {
            new += u64::from((mask & !self.0[word]).count_ones());
            self.0[word] |= mask;
        }
        new
    }
}

/// The words that bits are in, and which of each they are.
fn words(range: &Range<u64>) -> impl Iterator<Item = (usize, u64)> + use<> {
    let Range { start, end } = *range;
    (start / 64..end.div_ceil(64)).map(move |word| {
        let from = u64::MAX << start.saturating_sub(64 * word).min(63);
        let to = u64::MAX >> (64 * (word + 1)).saturating_sub(end).min(63);
        (word.to_usize(), from & to)
    })
}
