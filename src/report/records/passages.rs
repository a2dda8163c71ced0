//! Passages that documents share, and how their words were counted.

use crate::{
    align::{Passage, PassageCoverage, exclusions::ExclusionReason},
    report::three_digits,
};
use serde::{Serialize, Serializer};
use std::ops::Not;
use utoipa::ToSchema;

/// The passages of a query and a document, and how their words were counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct PairPassages {
    /// How the words of `a` were counted; left out if all of them count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a_words: Option<CountedWords>,
    /// The same of `b`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b_words: Option<CountedWords>,
    /// In the order of `a`.
    pub passages: Vec<PassageRecord>,
}

/// Two documents that were aligned, and the passages that they share.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct AlignedPair {
    /// The id of one document.
    pub a: String,
    /// The id of the other one.
    pub b: String,
    /// The share of the words of `a` that are in passages.
    pub a_in_b: f64,
    /// The share of the words of `b` that are in passages.
    pub b_in_a: f64,
    /// How the words of `a` were counted; left out if all of them count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a_words: Option<CountedWords>,
    /// The same of `b`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b_words: Option<CountedWords>,
    /// In the order of `a`.
    pub passages: Vec<PassageRecord>,
}

/// A passage of two documents.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct PassageRecord {
    /// Its start and end in `a`, in bytes or characters.
    pub a: [u32; 2],
    /// Its start and end in `b`.
    pub b: [u32; 2],
    /// Tokens that both have.
    pub tokens: u32,
    /// The share of its tokens that both have.
    pub score: f64,
    /// The probability that unrelated texts share a passage with as much in common; left out unless
    /// asked for. An `f32`, because numbers of type `f64` have six decimals and small ones would be 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p_value: Option<f32>,
    /// How it was taken over.
    pub kind: &'static str,
    /// `b` has the reverse complement; left out if not.
    #[serde(skip_serializing_if = "Not::not")]
    pub reverse: bool,
    /// How it begins in `a` and in `b`: columns of tables. Other records have none.
    #[serde(skip)]
    pub excerpts: [String; 2],
}

impl From<&Passage> for PassageRecord {
    fn from(passage: &Passage) -> Self {
        Self {
            a: [passage.a.start, passage.a.end],
            b: [passage.b.start, passage.b.end],
            tokens: passage.tokens,
            score: passage.score,
            p_value: passage.p_value.map(|p| three_digits(p) as f32),
            kind: passage.kind.name(),
            reverse: passage.is_reversed,
            excerpts: Default::default(),
        }
    }
}

/// A passage of an aligned pair as a row of a table.
#[derive(Debug, Default, Serialize)]
pub struct PassageRow<'r> {
    /// The id of one document.
    pub a: &'r str,
    /// The id of the other one.
    pub b: &'r str,
    /// Where the passage starts in `a`.
    pub a_start: u32,
    /// Where it ends in `a`.
    pub a_end: u32,
    /// Where it starts in `b`.
    pub b_start: u32,
    /// Where it ends in `b`.
    pub b_end: u32,
    /// Tokens that both have.
    pub tokens: u32,
    /// The share of its tokens that both have.
    pub score: f64,
    /// How it was taken over.
    pub kind: &'r str,
    /// `b` has the reverse complement.
    pub reverse: bool,
    /// How it begins in `a`.
    pub a_text: &'r str,
    /// How it begins in `b`.
    pub b_text: &'r str,
}

impl<'r> PassageRow<'r> {
    /// The rows of all passages of a pair.
    pub fn of_pair(
        a: &'r str,
        b: &'r str,
        passages: &'r [PassageRecord],
    ) -> impl Iterator<Item = Self> {
        passages.iter().map(move |passage| Self {
            a,
            b,
            a_start: passage.a[0],
            a_end: passage.a[1],
            b_start: passage.b[0],
            b_end: passage.b[1],
            tokens: passage.tokens,
            score: passage.score,
            kind: passage.kind,
            reverse: passage.reverse,
            a_text: &passage.excerpts[0],
            b_text: &passage.excerpts[1],
        })
    }
}

/// How the words of a document were counted.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct CountedWords {
    /// All of them.
    pub words: u32,
    /// Those that do not count, by reason.
    #[schema(value_type = std::collections::BTreeMap<String, u32>)]
    pub excluded: ExcludedWords,
    /// Those that count.
    pub counted: u32,
    /// Those that count and are in passages.
    pub matched: u32,
    /// Their share of those that count.
    pub share: f64,
}

/// Words that do not count, by reason, in the order of [`ExclusionReason::ALL`].
#[derive(Debug, Clone, PartialEq)]
pub struct ExcludedWords([u32; ExclusionReason::ALL.len()]);

impl Serialize for ExcludedWords {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(
            ExclusionReason::ALL
                .map(ExclusionReason::name)
                .iter()
                .zip(self.0),
        )
    }
}

impl From<&PassageCoverage> for CountedWords {
    fn from(tally: &PassageCoverage) -> Self {
        Self {
            words: tally.words,
            excluded: ExcludedWords(tally.excluded),
            counted: tally.counted(),
            matched: tally.matched,
            share: tally.share(),
        }
    }
}

/// The byte ranges of a document that an earlier document has.
#[derive(Debug, Default, Serialize)]
pub struct SpansRecord<'r> {
    /// The id of the document.
    pub doc: &'r str,
    /// Its size, if it is known.
    pub bytes: Option<u64>,
    /// Starts and ends in bytes.
    pub spans: Vec<[u32; 2]>,
    /// Bytes in all spans.
    pub seen: u64,
}

/// A family of passages that several documents share.
#[derive(Debug, Default, Serialize)]
pub struct PassageFamily<'r> {
    /// Counts families, from 1.
    pub passage: u64,
    /// The length of its representative.
    pub tokens: u32,
    /// The number of its places.
    pub count: usize,
    /// The number of documents that have it.
    pub documents: u64,
    /// The number of different texts of its places.
    pub variants: u64,
    /// Tokens, of all its places, that no family before it has.
    pub new: u64,
    /// How its representative begins, if its text is known.
    pub text: Option<&'r str>,
    /// Its representative: the place that has most of what most places have, and least of the rest.
    pub representative: PassagePlace<'r>,
    /// Where other variants differ from the representative: starts and ends in its document, in
    /// bytes.
    pub differs: Vec<[u32; 2]>,
    /// Where it occurs.
    pub places: Vec<PassagePlace<'r>>,
}

/// A place of a family of passages as a row of a table.
#[derive(Debug, Default, Serialize)]
pub struct PlaceRow<'r> {
    /// The number of the family, from 1.
    pub passage: u64,
    /// The length of its representative.
    pub tokens: u32,
    /// The number of its places.
    pub count: usize,
    /// The number of documents that have it.
    pub documents: u64,
    /// The id of the document.
    pub doc: &'r str,
    /// Where the place starts, in bytes.
    pub start: u32,
    /// Where it ends, in bytes.
    pub end: u32,
    /// The number of its variant, by falling frequency; that of the representative is 1.
    pub variant: u64,
    /// It has the reverse complement of the representative.
    pub reverse: bool,
    /// How the representative begins, if its text is known.
    pub text: Option<&'r str>,
}

impl<'r> PlaceRow<'r> {
    /// The rows of all places of a family.
    pub fn of_family(family: &'r PassageFamily<'r>) -> impl Iterator<Item = Self> {
        family.places.iter().map(|place| Self {
            passage: family.passage,
            tokens: family.tokens,
            count: family.count,
            documents: family.documents,
            doc: place.doc,
            start: place.start,
            end: place.end,
            variant: place.variant.unwrap_or(1),
            reverse: place.reverse,
            text: family.text,
        })
    }
}

/// A place of a passage that several documents share.
#[derive(Debug, Default, Clone, Serialize)]
pub struct PassagePlace<'r> {
    /// The id of the document.
    pub doc: &'r str,
    /// Where it starts, in bytes.
    pub start: u32,
    /// Where it ends, in bytes.
    pub end: u32,
    /// The number of its variant, by falling frequency; left out if it is that of the
    /// representative, which is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<u64>,
    /// It has the reverse complement of the representative; left out if not.
    #[serde(skip_serializing_if = "Not::not")]
    pub reverse: bool,
}
