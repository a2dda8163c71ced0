//! Writes families of passages.

use super::{
    super::{put, stored_tokens::Stored},
    PassagesOptions,
    read::MappedTexts,
};
use crate::base::num::{ToU32, ToU64, ToUsize};
use crate::{
    align::many::{Families, FamilyPlace, TextBounds, TokenHash, TokenSet, differing_tokens},
    base::error::Result,
    commands::blot::shown_text,
    index::Index,
    report::{
        Format, Sink,
        records::{PassageFamily, PassagePlace, PlaceRow},
    },
    text::stream::Span,
};
use std::{collections::HashMap, io::Write, ops::Range};
use xxhash_rust::xxh3::xxh3_128;

/// The most characters of a passage to show.
const TEXT_CHARS: usize = 300;
/// This many of the most frequent variants are compared with the representative.
const COMPARED_VARIANTS: usize = 32;

pub struct PassageList<'s> {
    index: &'s Index,
    stored: &'s Stored,
    mapped: &'s MappedTexts<'s>,
    texts: &'s TextBounds,
    /// The documents of all texts, one text after the other.
    documents: Vec<u32>,
    /// Where the documents of each text end.
    ends: Vec<usize>,
}

/// A place of a family in a document.
struct DocumentPlace {
    document: u32,
    /// Its first token in the document, and the number of tokens.
    first: u32,
    tokens: u32,
    /// The number of its variant, and whether it runs in the direction of the representative.
    variant: u32,
    is_reversed: bool,
}

/// The different texts of the places of a family.
struct Variants {
    /// The number of the variant of each place, from 0.
    of_places: Vec<u32>,
    /// The first place of each variant.
    first: Vec<usize>,
}

impl<'s> PassageList<'s> {
    pub fn new(
        index: &'s Index,
        stored: &'s Stored,
        mapped: &'s MappedTexts<'s>,
        texts: &'s TextBounds,
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
            documents,
            ends,
        }
    }

    pub fn write(
        &self,
        families: &Families<'_>,
        options: &PassagesOptions,
        out: &mut impl Write,
    ) -> Result<()> {
        let mut listed = TokenSet::new(self.mapped.tokens().len());
        let mut number = 0;
        let mut line = Vec::new();
        families.for_each(|places| {
            if options.top.is_some_and(|top| number >= top) {
                return Ok(false);
            }
            number += 1;
            let new = places
                .iter()
                .map(|place| self.add_listed(&place.range(), &mut listed))
                .sum();
            line.clear();
            self.put([number, new], places, options.format, &mut line)?;
            put(out, &line)?;
            Ok(true)
        })
    }

    /// Marks a place as listed; returns the number of its tokens that were not, in all documents
    /// with this text.
    fn add_listed(&self, range: &Range<u64>, listed: &mut TokenSet) -> u64 {
        let copies = self.texts.copies(self.texts.of(range.start));
        listed.insert(range) * u64::from(copies)
    }

    fn documents_of(&self, text: u32) -> &[u32] {
        let start = if text == 0 {
            0
        } else {
            self.ends[text.to_usize() - 1]
        };
        &self.documents[start..self.ends[text.to_usize()]]
    }

    /// The tokens of a place, in the direction of its family.
    fn tokens_of(&self, place: &FamilyPlace) -> &[TokenHash] {
        let range = if place.is_reversed {
            self.texts.to_opposite_strand(place.range())
        } else {
            place.range()
        };
        &self.mapped.tokens()[range.start.to_usize()..range.end.to_usize()]
    }

    /// Numbers the different texts of places: first that of the representative, then by falling
    /// frequency, then by their first places.
    fn variants(&self, places: &[FamilyPlace]) -> Variants {
        let mut numbers: HashMap<u128, usize> = HashMap::new();
        // The frequency and the first place of each variant, in the order of first places.
        let mut found: Vec<(u64, usize)> = Vec::new();
        let mut of_places = Vec::with_capacity(places.len());
        for (at, place) in places.iter().enumerate() {
            let hash = xxh3_128(self.tokens_of(place).as_flattened());
            let number = *numbers.entry(hash).or_insert_with(|| {
                found.push((0, at));
                found.len() - 1
            });
            found[number].0 += u64::from(self.copies(place));
            of_places.push(number);
        }
        let centrality = self.centrality(places);
        let best = (0..places.len()).max_by_key(|&at| {
            let number = of_places[at];
            (centrality[at], found[number].0, std::cmp::Reverse(at))
        });
        let representative = best.map(|at| of_places[at]);
        let mut order: Vec<usize> = (0..found.len()).collect();
        order.sort_by_key(|&number| {
            let is_other = Some(number) != representative;
            (is_other, std::cmp::Reverse(found[number].0), number)
        });
        let mut rank = vec![0; found.len()];
        for (at, &number) in (0..).zip(&order) {
            rank[number] = at;
        }
        Variants {
            of_places: of_places.into_iter().map(|number| rank[number]).collect(),
            first: order.into_iter().map(|number| found[number].1).collect(),
        }
    }

    fn copies(&self, place: &FamilyPlace) -> u32 {
        self.texts.copies(self.texts.of(place.start))
    }

    /// How much of what most places have each place has: for each of its tokens the number of places
    /// that have this token of the family, minus the number of those that have not.
    fn centrality(&self, places: &[FamilyPlace]) -> Vec<i64> {
        let end = |place: &FamilyPlace| place.offset + (place.end - place.start).cast_signed();
        let all: i64 = places
            .iter()
            .map(|place| i64::from(self.copies(place)))
            .sum();
        let mut borders: Vec<(i64, i64)> = places
            .iter()
            .flat_map(|place| {
                let copies = i64::from(self.copies(place));
                [(place.offset, copies), (end(place), -copies)]
            })
            .collect();
        borders.sort_unstable();
        // Up to each border: the sum of what its tokens count.
        let (mut sums, mut depth, mut sum) = (Vec::with_capacity(borders.len()), 0, 0_i64);
        let mut last = borders.first().map_or(0, |border| border.0);
        for (at, change) in borders {
            sum += (at - last) * (2 * depth - all);
            (last, depth) = (at, depth + change);
            sums.push((at, sum));
        }
        let sum_to = |at: i64| {
            let next = sums.partition_point(|&(border, _)| border < at);
            sums.get(next).map_or(0, |&(_, sum)| sum)
        };
        places
            .iter()
            .map(|place| sum_to(end(place)) - sum_to(place.offset))
            .collect()
    }

    /// All places, by document.
    fn document_places(&self, places: &[FamilyPlace], variants: &Variants) -> Vec<DocumentPlace> {
        let is_reversed = places[variants.first[0]].is_reversed;
        let mut found = Vec::new();
        for (place, &variant) in places.iter().zip(&variants.of_places) {
            let text = self.texts.of(place.start);
            let in_document = |&document: &u32| DocumentPlace {
                document,
                first: (place.start - self.texts.start(text)).to_u32(),
                tokens: (place.end - place.start).to_u32(),
                variant,
                is_reversed: place.is_reversed != is_reversed,
            };
            found.extend(self.documents_of(text).iter().map(in_document));
        }
        found.sort_by_key(|place| (place.document, place.first, place.tokens));
        found
    }

    fn span(&self, document: u32, first: u32, tokens: u32) -> Span {
        let document = &self.stored.documents[document.to_usize()];
        let (first, last) = (first.to_usize(), (first + tokens).to_usize() - 1);
        let span = self.mapped.span(document, first, last);
        span.unwrap_or(Span { start: 0, end: 0 })
    }

    fn put(
        &self,
        [number, new]: [u64; 2],
        places: &[FamilyPlace],
        format: Format,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let variants = self.variants(places);
        let found = self.document_places(places, &variants);
        let mut ids: Vec<String> = Vec::new();
        for same in found.chunk_by(|one, two| one.document == two.document) {
            let document = &self.stored.documents[same[0].document.to_usize()];
            ids.push(self.index.id(document.at)?);
        }
        let by_document = found.chunk_by(|one, two| one.document == two.document);
        let record = |place: &DocumentPlace, doc| {
            let Span { start, end } = self.span(place.document, place.first, place.tokens);
            PassagePlace {
                doc,
                start,
                end,
                variant: (place.variant > 0).then(|| u64::from(place.variant) + 1),
                reverse: place.is_reversed,
            }
        };
        let all: Vec<PassagePlace<'_>> = by_document
            .zip(&ids)
            .flat_map(|(same, doc)| same.iter().map(move |place| record(place, doc.as_str())))
            .collect();
        let at = found.iter().position(|place| place.variant == 0);
        let at = at.unwrap_or_default();
        let representative = &found[at];
        let text = self.text(representative);
        let family = PassageFamily {
            passage: number,
            tokens: representative.tokens,
            count: all.len(),
            documents: ids.len().to_u64(),
            variants: variants.first.len().to_u64(),
            new,
            text: text.as_deref(),
            representative: all[at].clone(),
            differs: self.differing(places, &variants, representative),
            places: all,
        };
        if !format.is_table() {
            return format.put_record(&family, out);
        }
        PlaceRow::of_family(&family).try_for_each(|row| format.put_record(&row, out))
    }

    /// Where the most frequent variants differ from the representative, in the bytes of its
    /// document.
    fn differing(
        &self,
        places: &[FamilyPlace],
        variants: &Variants,
        representative: &DocumentPlace,
    ) -> Vec<[u32; 2]> {
        let own = &places[variants.first[0]];
        let tokens = self.tokens_of(own);
        let mut differing: Vec<Range<usize>> = Vec::new();
        for &other in variants.first.iter().take(COMPARED_VARIANTS).skip(1) {
            let other = &places[other];
            let shift = other.offset - own.offset;
            let skip = |tokens: i64| usize::try_from(tokens).unwrap_or(0);
            let (skipped, other) = (skip(shift), self.tokens_of(other));
            let (Some(here), Some(there)) = (tokens.get(skipped..), other.get(skip(-shift)..))
            else {
                continue;
            };
            let found = differing_tokens(here, there);
            differing.extend(
                found
                    .into_iter()
                    .map(|range| range.start + skipped..range.end + skipped),
            );
        }
        differing.sort_unstable_by_key(|range| (range.start, range.end));
        let mut joined: Vec<Range<usize>> = Vec::new();
        for range in differing {
            match joined.last_mut() {
                Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        let bytes = |range: Range<usize>| {
            // Tokens of the other strand count from the end.
            let start = if own.is_reversed {
                tokens.len() - range.end
            } else {
                range.start
            };
            let first = representative.first + start.to_u32();
            let Span { start, end } =
                self.span(representative.document, first, range.len().to_u32());
            [start, end]
        };
        joined.into_iter().map(bytes).collect()
    }

    /// The start of a passage; none if its document did not come as text.
    fn text(&self, place: &DocumentPlace) -> Option<String> {
        let text = self.stored.documents[place.document.to_usize()].text;
        let span = self.span(place.document, place.first, place.tokens);
        let text = self.mapped.text(text, span)?;
        let text = shown_text(&self.index.scheme.tokens, text);
        Some(match text.char_indices().nth(TEXT_CHARS) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.to_string(),
        })
    }
}
