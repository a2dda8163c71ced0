//! A document made ready to be aligned with others: everything that does not depend on the other one.

use super::{
    AlignOptions,
    sentence::{Sentence, sentences},
};
use crate::base::num::{ToU32, ToUsize};
use crate::{
    align::exclusions::{ExclusionReason, ExclusionRules},
    blot::{Blotter, Kind, Shape, Window},
    text::{
        stream::{Blots, Span, Tokens},
        token::{PlainText, Rule, dna},
    },
};
use std::sync::OnceLock;
use xxhash_rust::xxh3::xxh3_64;

/// A document's text with its words, its sentences and what they have in common. Words are the tokens of the tokenizer, whichever it is; all spans are in the
/// text as it is compared, see [`PlainText`].
///
/// Memory: about 60 bytes a word besides the text; twice that for bases, once the other strand was asked for.
pub struct PreparedText {
    plain: PlainText,
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
    pub(super) bags: SparseRows,
    /// The sentences of each term, and how often it occurs in them.
    pub(super) postings: SparseRows,
    /// Of each word why it does not count; empty if all do. Such a word is in no window, has the term [`NO_TERM`], and is like no other.
    reasons: Vec<Option<ExclusionReason>>,
    /// Of bases: the reverse complement.
    reverse: OnceLock<Option<Box<PreparedText>>>,
}

/// The term of a word that does not count.
pub(super) const NO_TERM: u32 = u32::MAX;

/// What the words of a document are counted as.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PassageCoverage {
    pub words: u32,
    /// Words that do not count, by [`ExclusionReason::ALL`].
    pub left_out: [u32; ExclusionReason::ALL.len()],
    /// Words that count and are in passages.
    pub matched: u32,
}

impl PassageCoverage {
    /// Words that count.
    pub fn counted(&self) -> u32 {
        self.words - self.left_out.iter().sum::<u32>()
    }

    /// Of the words that count, the share that is in passages.
    pub fn share(&self) -> f64 {
        f64::from(self.matched) / f64::from(self.counted().max(1))
    }
}

/// SparseRows of pairs, end to end.
#[derive(Debug, Clone, Default)]
pub(super) struct SparseRows {
    ends: Vec<u32>,
    entries: Vec<(u32, u32)>,
}

impl SparseRows {
    pub fn get(&self, list: usize) -> &[(u32, u32)] {
        let start = if list == 0 {
            0
        } else {
            self.ends[list - 1].to_usize()
        };
        &self.entries[start..self.ends[list].to_usize()]
    }

    /// Turns lists of (inner, count) by outer into lists of (outer, count) by inner.
    pub fn inverted(&self, inners: usize) -> Self {
        let mut ends = vec![0_u32; inners];
        for &(inner, _) in &self.entries {
            ends[inner.to_usize()] += 1;
        }
        let mut sum = 0;
        for end in &mut ends {
            // For now where the list starts: it moves to the end as the list is filled.
            sum += std::mem::replace(end, sum);
        }
        let mut entries = vec![(0, 0); self.entries.len()];
        for outer in 0..self.ends.len() {
            for &(inner, count) in self.get(outer) {
                let end = &mut ends[inner.to_usize()];
                entries[end.to_usize()] = (outer.to_u32(), count);
                *end += 1;
            }
        }
        Self { ends, entries }
    }
}

/// Words are compared by so many of their first letters: enough for most endings to make no difference, in most languages.
const TERM_CHARS: usize = 6;

impl PreparedText {
    /// Makes a text ready to be aligned with these options.
    pub fn new(text: impl Into<String>, options: &AlignOptions) -> Self {
        Self::with_exclusions(text, options, &ExclusionRules::default())
    }

    /// The same, without the words that do not count by some rules: they are in no passage, unless others around them are, and in no share.
    pub fn with_exclusions(
        text: impl Into<String>,
        options: &AlignOptions,
        rules: &ExclusionRules,
    ) -> Self {
        let tokenization = options.tokenization;
        let plain = tokenization.plain(text.into());
        let mut tokens = tokenization.tokens(&plain);
        let words = word_hashes(&tokens, tokenization.rule);
        let spans = tokens.spans.take().unwrap_or_default();
        let sentences = sentences(plain.text(), &spans);
        let reasons = rules.word_reasons(plain.text(), &words, &spans);
        let (vocabulary, terms) = terms(&tokens, tokenization.rule, &reasons);
        let mut grams = grams(&tokens, options.window_tokens);
        let window = |at: u32| {
            at.to_usize()..(at.to_usize() + options.window_tokens.to_usize()).min(words.len())
        };
        grams.retain(|&(_, at)| {
            reasons.is_empty() || reasons[window(at)].iter().all(Option::is_none)
        });
        if tokenization.rule == Rule::Dna {
            grams.retain(|&(_, at)| window(at).all(|base| tokens.get(base) != dna::UNKNOWN));
        }
        // The rest needs no tokens: of a large document they take more than its text.
        drop(tokens);
        let bags = bags(&sentences, &terms, |_| true);
        let postings = bags.inverted(vocabulary.len());
        let reverse = if tokenization.rule == Rule::Dna {
            OnceLock::new()
        } else {
            OnceLock::from(None)
        };
        Self {
            grams,
            plain,
            words,
            spans,
            sentences,
            vocabulary,
            terms,
            bags,
            postings,
            reasons,
            reverse,
        }
    }

    /// What is compared, and shown: the document, without its markup if that is stripped.
    pub fn text(&self) -> &str {
        self.plain.text()
    }

    /// The document, and where in it the spans of its text are.
    pub fn plain(&self) -> &PlainText {
        &self.plain
    }

    /// The other strand, if this is a sequence of bases: bases only, with the same ones left out.
    pub(super) fn reverse(&self, options: &AlignOptions) -> Option<&Self> {
        let of_bases = || {
            let base = |span: &Span| self.text().as_bytes()[span.start.to_usize()];
            let text: String = self
                .spans
                .iter()
                .rev()
                .map(|span| char::from(dna::complement_of(base(span))))
                .collect();
            let mut reverse = Self::new(text, options);
            reverse.leave_out(self.reasons.iter().rev().copied().collect(), options);
            Some(Box::new(reverse))
        };
        self.reverse.get_or_init(of_bases).as_deref()
    }

    /// Leaves out some words, by why they do not count.
    fn leave_out(&mut self, reasons: Vec<Option<ExclusionReason>>, options: &AlignOptions) {
        if reasons.is_empty() {
            return;
        }
        let window = |at: u32| {
            at.to_usize()..(at.to_usize() + options.window_tokens.to_usize()).min(reasons.len())
        };
        self.grams
            .retain(|&(_, at)| reasons[window(at)].iter().all(Option::is_none));
        for (term, _) in self
            .terms
            .iter_mut()
            .zip(&reasons)
            .filter(|(_, reason)| reason.is_some())
        {
            *term = NO_TERM;
        }
        self.reasons = reasons;
    }

    /// Where words of the other strand stand in this one.
    pub(super) fn facing(&self, words: Span) -> Span {
        let all = self.words.len().to_u32();
        self.bytes_of(Span {
            start: all - words.end,
            end: all - words.start,
        })
    }

    pub fn tokens(&self) -> usize {
        self.words.len()
    }

    /// Why a word does not count; none if it does.
    pub fn reason(&self, word: usize) -> Option<ExclusionReason> {
        self.reasons.get(word).copied().flatten()
    }

    /// Stretches of the text whose words do not count, by where they start, and why.
    pub fn left_out(&self) -> Vec<(Span, ExclusionReason)> {
        let mut found: Vec<(Span, ExclusionReason)> = Vec::new();
        let mut last = None;
        for (span, &reason) in self.spans.iter().zip(&self.reasons) {
            match (found.last_mut(), reason) {
                (Some((open, _)), Some(_)) if last == reason => open.end = span.end,
                (_, Some(reason)) => found.push((*span, reason)),
                (_, None) => {}
            }
            last = reason;
        }
        found
    }

    /// What its words are counted as, if some stretches of it, which may overlap, are in passages.
    pub fn tally(&self, bytes: impl Iterator<Item = Span>) -> PassageCoverage {
        let mut stretches: Vec<Span> = bytes.map(|bytes| self.words_in(bytes)).collect();
        stretches.sort_unstable_by_key(|words| words.start);
        let mut tally = PassageCoverage {
            words: self.words.len().to_u32(),
            ..PassageCoverage::default()
        };
        for reason in self.reasons.iter().flatten() {
            tally.left_out[reason.index()] += 1;
        }
        let mut end = 0;
        for words in stretches {
            let new = words.start.max(end)..words.end.max(end);
            tally.matched += if self.reasons.is_empty() {
                new.len()
            } else {
                new.filter(|&word| self.counts(word)).count()
            } as u32;
            end = end.max(words.end);
        }
        tally
    }

    /// The share of its words that are in some stretches of it, of those that count.
    pub fn share_in(&self, bytes: impl Iterator<Item = Span>) -> f64 {
        self.tally(bytes).share()
    }

    /// Whether there are words between two stretches that do not count: what stands on either side is not one passage.
    pub(super) fn is_parted(&self, one: Span, two: Span) -> bool {
        let between = Span {
            start: one.end.min(two.end),
            end: one.start.max(two.start),
        };
        if self.reasons.is_empty() || between.start >= between.end {
            return false;
        }
        let words = self.words_in(between);
        self.reasons[words.range()].iter().any(Option::is_some)
    }

    /// Whether a word counts.
    pub(super) fn counts(&self, word: u32) -> bool {
        self.reason(word.to_usize()).is_none()
    }

    /// The terms of each sentence without some words.
    pub(super) fn bags_without(&self, words: &[Span]) -> SparseRows {
        let mut is_kept = vec![true; self.words.len()];
        for span in words {
            is_kept[span.range()].fill(false);
        }
        bags(&self.sentences, &self.terms, |word| is_kept[word])
    }

    /// The words that a stretch of the text has.
    pub fn words_in(&self, bytes: Span) -> Span {
        let start = self
            .spans
            .partition_point(|span| span.start < bytes.start)
            .to_u32();
        let end = self
            .spans
            .partition_point(|span| span.end <= bytes.end)
            .to_u32();
        Span {
            start,
            end: end.max(start),
        }
    }

    /// Where some words stand.
    pub(super) fn bytes_of(&self, words: Span) -> Span {
        Span {
            start: self.spans[words.start.to_usize()].start,
            end: self.spans[words.end.to_usize() - 1].end,
        }
    }
}

/// A hash for each token. Of bases, those that are not known are like none of another sequence.
fn word_hashes(tokens: &Tokens, rule: Rule) -> Vec<u64> {
    let mut hashes: Vec<u64> = tokens.iter().map(xxh3_64).collect();
    if rule == Rule::Dna {
        let sequence = tokens.hash().to_le_bytes();
        for (place, hash) in hashes
            .iter_mut()
            .enumerate()
            .filter(|(place, _)| tokens.get(*place) == dna::UNKNOWN)
        {
            *hash = xxh3_64(&[&sequence[..], &place.to_le_bytes()].concat());
        }
    }
    hashes
}

/// The blots of all full windows, sorted.
fn grams(tokens: &Tokens, k: u32) -> Vec<(u64, u32)> {
    let mut blots = Blots::default();
    let window = Window {
        shape: Shape::Run {
            kind: Kind::Ordered,
            k,
            interleave: 1,
        },
        bits: 64,
        is_dna: false,
    };
    if let Ok(mut blotter) = Blotter::new(window).map_err(drop)
        && tokens.len() >= k.to_usize()
    {
        blotter.without_positions();
        blotter.blot(tokens, &mut blots);
    }
    let mut grams: Vec<_> = blots
        .values
        .iter()
        .copied()
        .zip(blots.positions())
        .collect();
    grams.sort_unstable();
    grams
}

/// The distinct terms of the words that count, and of each token its term.
fn terms(tokens: &Tokens, rule: Rule, reasons: &[Option<ExclusionReason>]) -> (Vec<u64>, Vec<u32>) {
    let term = |token| {
        if rule == Rule::Word {
            stem(token)
        } else {
            token
        }
    };
    let hashes: Vec<u64> = tokens.iter().map(|token| xxh3_64(term(token))).collect();
    let counts = |at: usize| reasons.get(at).is_none_or(Option::is_none);
    let mut vocabulary: Vec<u64> = hashes
        .iter()
        .enumerate()
        .filter(|(at, _)| counts(*at))
        .map(|(_, &hash)| hash)
        .collect();
    vocabulary.sort_unstable();
    vocabulary.dedup();
    vocabulary.shrink_to_fit();
    let number = |hash: &u64| vocabulary.partition_point(|term| term < hash).to_u32();
    let terms = hashes
        .iter()
        .enumerate()
        .map(|(at, hash)| if counts(at) { number(hash) } else { NO_TERM })
        .collect();
    (vocabulary, terms)
}

/// The first letters of a word.
fn stem(token: &[u8]) -> &[u8] {
    let is_start = |&byte: &u8| byte & 0xc0 != 0x80;
    let chars = token.iter().enumerate().filter(|(_, byte)| is_start(byte));
    let end = chars
        .map(|(at, _)| at)
        .nth(TERM_CHARS)
        .unwrap_or(token.len());
    &token[..end]
}

fn bags(sentences: &[Sentence], terms: &[u32], is_kept: impl Fn(usize) -> bool) -> SparseRows {
    let mut bags = SparseRows::default();
    let mut sorted = Vec::new();
    for sentence in sentences {
        sorted.clear();
        let words = sentence.tokens.range();
        sorted.extend(
            words
                .filter(|&word| is_kept(word))
                .map(|word| terms[word])
                .filter(|&term| term != NO_TERM),
        );
        sorted.sort_unstable();
        bags.entries.extend(
            sorted
                .chunk_by(|one, two| one == two)
                .map(|same| (same[0], same.len().to_u32())),
        );
        bags.ends.push(bags.entries.len().to_u32());
    }
    bags
}
