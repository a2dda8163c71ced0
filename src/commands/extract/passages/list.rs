//! Chooses the repeats to list, and writes them.

use super::{
    super::{put, stored_tokens::Stored},
    PassagesOptions,
    read::MappedTexts,
};
use crate::base::num::{ToU32, ToU64, ToUsize};
use crate::{
    align::many::{ExcludedTexts, RankedRepeat, RankedRepeats, TextBounds, TokenSet},
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

/// The most characters of a passage to show.
const TEXT_CHARS: usize = 300;

pub struct PassageList<'s> {
    index: &'s Index,
    stored: &'s Stored,
    mapped: &'s MappedTexts<'s>,
    texts: &'s TextBounds,
    excluded: &'s ExcludedTexts,
    /// The documents of all texts, one text after the other.
    documents: Vec<u32>,
    /// Where the documents of each text end.
    ends: Vec<usize>,
}

impl<'s> PassageList<'s> {
    pub fn new(
        index: &'s Index,
        stored: &'s Stored,
        mapped: &'s MappedTexts<'s>,
        texts: &'s TextBounds,
        excluded: &'s ExcludedTexts,
    ) -> Self {
        let mut ends = Vec::with_capacity(stored.texts.len());
        let mut sum = 0;
        for text in 0..stored.texts.len().to_u32() {
            // Until the list is filled this is its start; filling moves it to its end.
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
            excluded,
            documents,
            ends,
        }
    }

    pub fn write(
        &self,
        repeats: &RankedRepeats,
        options: &PassagesOptions,
        out: &mut impl Write,
    ) -> Result<()> {
        let mut listed = TokenSet::new(self.mapped.tokens().len());
        let mut number = 0;
        let mut line = Vec::new();
        repeats.for_each(|repeat| {
            if options.top.is_some_and(|top| number >= top) {
                return Ok(false);
            }
            if self.has_new_places(&repeat, &listed) && !self.is_excluded(&repeat) {
                number += 1;
                let new = repeat
                    .ranges()
                    .map(|range| self.add_listed(&range, &mut listed))
                    .sum();
                line.clear();
                self.put([number, new], &repeat, options.format, &mut line)?;
                put(out, &line)?;
            }
            Ok(true)
        })
    }

    /// Whether two or more places are not within listed ones.
    fn has_new_places(&self, repeat: &RankedRepeat<'_>, listed: &TokenSet) -> bool {
        let mut left = 2_u32;
        repeat.ranges().any(|range| {
            if !listed.contains(&range) {
                left = left.saturating_sub(self.texts.copies(self.texts.of(range.start)));
            }
            left == 0
        })
    }

    /// Marks a place as listed; returns the number of its tokens that were not, in all documents
    /// with this text.
    fn add_listed(&self, range: &Range<u64>, listed: &mut TokenSet) -> u64 {
        let copies = self.texts.copies(self.texts.of(range.start));
        listed.insert(range) * u64::from(copies)
    }

    fn is_excluded(&self, repeat: &RankedRepeat<'_>) -> bool {
        let tokens = repeat
            .ranges()
            .next()
            .map(|range| &self.mapped.tokens()[range.start.to_usize()..range.end.to_usize()]);
        tokens.is_some_and(|tokens| self.excluded.contains(tokens))
    }

    fn documents_of(&self, text: u32) -> &[u32] {
        let start = if text == 0 {
            0
        } else {
            self.ends[text.to_usize() - 1]
        };
        &self.documents[start..self.ends[text.to_usize()]]
    }

    /// The document and first token of each place, sorted.
    fn places(&self, repeat: &RankedRepeat<'_>) -> Vec<(u32, u32)> {
        let mut places = Vec::new();
        for range in repeat.ranges() {
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
        repeat: &RankedRepeat<'_>,
        format: Format,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let places = self.places(repeat);
        let mut ids: Vec<String> = Vec::new();
        for same in places.chunk_by(|one, two| one.0 == two.0) {
            let document = &self.stored.documents[same[0].0.to_usize()];
            ids.push(self.index.id(document.at)?);
        }
        let by_document = places.chunk_by(|one, two| one.0 == two.0).zip(&ids);
        let place = |place: (u32, u32), doc| {
            let Span { start, end } = self.span(place, repeat.tokens);
            PassagePlace { doc, start, end }
        };
        let text = places
            .first()
            .and_then(|&place| self.text(place, repeat.tokens));
        let record = PassageFamily {
            passage: number,
            tokens: repeat.tokens,
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
