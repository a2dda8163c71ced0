//! A document made ready to be aligned with others: everything that does not depend on the other one.

use super::{
    Options,
    sentence::{Sentence, sentences},
};
use crate::{
    blot::{Blotter, Kind, Shape, Window},
    format::{Blots, Span, Tokens},
    token::{Rule, Tokenizer},
};
use xxhash_rust::xxh3::xxh3_64;

/// A document's text with its words, its sentences and what they have in common.
///
/// Memory: about 60 bytes a word besides the text.
pub struct Prepared {
    pub(super) text: String,
    /// Of each word: its hash, and where it stands.
    pub(super) words: Vec<u64>,
    pub(super) spans: Vec<Span>,
    /// Each window of words and where it starts, sorted.
    pub(super) grams: Vec<(u64, u32)>,
    pub(super) sentences: Vec<Sentence>,
    /// The distinct terms, sorted; a term is known by its place here.
    pub(super) vocabulary: Vec<u64>,
    /// Of each word its term.
    pub(super) terms: Vec<u32>,
    /// The terms of each sentence, sorted, and how often they occur in it.
    pub(super) bags: Lists,
    /// The sentences of each term, and how often it occurs in them.
    pub(super) postings: Lists,
}

/// Lists of pairs, end to end.
#[derive(Debug, Clone, Default)]
pub(super) struct Lists {
    ends: Vec<u32>,
    entries: Vec<(u32, u32)>,
}

impl Lists {
    pub fn get(&self, list: usize) -> &[(u32, u32)] {
        let start = if list == 0 { 0 } else { self.ends[list - 1] as usize };
        &self.entries[start..self.ends[list] as usize]
    }

    /// Turns lists of (inner, count) by outer into lists of (outer, count) by inner.
    pub fn inverted(&self, inners: usize) -> Self {
        let mut ends = vec![0_u32; inners];
        for &(inner, _) in &self.entries {
            ends[inner as usize] += 1;
        }
        let mut sum = 0;
        for end in &mut ends {
            // For now where the list starts: it moves to the end as the list is filled.
            sum += std::mem::replace(end, sum);
        }
        let mut entries = vec![(0, 0); self.entries.len()];
        for outer in 0..self.ends.len() {
            for &(inner, count) in self.get(outer) {
                let end = &mut ends[inner as usize];
                entries[*end as usize] = (outer as u32, count);
                *end += 1;
            }
        }
        Self { ends, entries }
    }
}

/// Words are compared by so many of their first letters: enough for most endings to make no difference, in most languages.
const TERM_CHARS: usize = 6;

impl Prepared {
    /// Makes a text ready to be aligned with these options.
    pub fn of(text: impl Into<String>, options: &Options) -> Self {
        let text = text.into();
        let mut tokens = Tokens::new(true);
        Tokenizer::new(Rule::Word, false).tokenize(&text, &mut tokens);
        let words: Vec<u64> = tokens.iter().map(xxh3_64).collect();
        let spans = tokens.spans().unwrap_or_default().to_vec();
        let sentences = sentences(&text, &spans);
        let (vocabulary, terms) = terms(&tokens);
        let bags = bags(&sentences, &terms, |_| true);
        let postings = bags.inverted(vocabulary.len());
        Self { grams: grams(&tokens, options.window_tokens), text, words, spans, sentences, vocabulary, terms, bags, postings }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn tokens(&self) -> usize {
        self.words.len()
    }

    /// The share of its words that are in some stretches of it, which may overlap.
    pub fn share_in(&self, bytes: impl Iterator<Item = Span>) -> f64 {
        let mut stretches: Vec<Span> = bytes.map(|bytes| self.words_in(bytes)).collect();
        stretches.sort_unstable_by_key(|words| words.start);
        let (mut covered, mut end) = (0, 0);
        for words in stretches {
            covered += words.end.saturating_sub(words.start.max(end));
            end = end.max(words.end);
        }
        f64::from(covered) / self.words.len().max(1) as f64
    }

    /// The terms of each sentence without some words.
    pub(super) fn bags_without(&self, words: &[Span]) -> Lists {
        let mut is_kept = vec![true; self.words.len()];
        for span in words {
            is_kept[span.start as usize..span.end as usize].fill(false);
        }
        bags(&self.sentences, &self.terms, |word| is_kept[word])
    }

    /// The words that a stretch of the text has.
    pub fn words_in(&self, bytes: Span) -> Span {
        let start = self.spans.partition_point(|span| span.start < bytes.start) as u32;
        let end = self.spans.partition_point(|span| span.end <= bytes.end) as u32;
        Span { start, end: end.max(start) }
    }

    /// Where some words stand.
    pub(super) fn bytes_of(&self, words: Span) -> Span {
        Span { start: self.spans[words.start as usize].start, end: self.spans[words.end as usize - 1].end }
    }
}

/// The blots of all full windows, sorted.
fn grams(tokens: &Tokens, k: u32) -> Vec<(u64, u32)> {
    let mut blots = Blots::default();
    let window = Window { shape: Shape::Run { kind: Kind::Ordered, k, interleave: 1 }, bits: 64, is_dna: false };
    if let Ok(mut blotter) = Blotter::new(window).map_err(drop)
        && tokens.len() >= k as usize
    {
        blotter.blot(tokens, &mut blots);
    }
    let mut grams: Vec<_> = blots.values.iter().copied().zip(blots.positions.iter().copied()).collect();
    grams.sort_unstable();
    grams
}

/// The distinct terms, and of each token its term.
fn terms(tokens: &Tokens) -> (Vec<u64>, Vec<u32>) {
    let hashes: Vec<u64> = tokens.iter().map(|token| xxh3_64(stem(token))).collect();
    let mut vocabulary = hashes.clone();
    vocabulary.sort_unstable();
    vocabulary.dedup();
    let terms = hashes.iter().map(|hash| vocabulary.partition_point(|term| term < hash) as u32).collect();
    (vocabulary, terms)
}

/// The first letters of a word.
fn stem(token: &[u8]) -> &[u8] {
    let is_start = |&byte: &u8| byte & 0xc0 != 0x80;
    let chars = token.iter().enumerate().filter(|(_, byte)| is_start(byte));
    let end = chars.map(|(at, _)| at).nth(TERM_CHARS).unwrap_or(token.len());
    &token[..end]
}

fn bags(sentences: &[Sentence], terms: &[u32], is_kept: impl Fn(usize) -> bool) -> Lists {
    let mut bags = Lists::default();
    let mut sorted = Vec::new();
    for sentence in sentences {
        sorted.clear();
        let words = sentence.tokens.start as usize..sentence.tokens.end as usize;
        sorted.extend(words.filter(|&word| is_kept(word)).map(|word| terms[word]));
        sorted.sort_unstable();
        bags.entries.extend(sorted.chunk_by(|one, two| one == two).map(|same| (same[0], same.len() as u32)));
        bags.ends.push(bags.entries.len() as u32);
    }
    bags
}
