//! A document prepared for alignment: everything that does not depend on the other document.

use super::{
    AlignOptions,
    sentence::{Sentence, sentences},
    word_range::WordRange,
    word_weight::WordWeights,
};
use crate::base::num::{ToU32, ToUsize};
use crate::{
    align::exclusions::{ExclusionReason, ExclusionRules},
    blot::{Blotter, ORDERED, Window, WindowShape},
    text::{
        stream::{Blots, Span, Tokens},
        token::{PlainText, Rule, dna},
    },
};
use std::sync::OnceLock;
use xxhash_rust::xxh3::xxh3_64;

/// A text with its words and sentences. *Words* are the tokens of whichever tokenizer is used. All
/// spans refer to the compared text; see [`PlainText`].
///
/// Memory: about 60 bytes per word besides the text, and twice that for DNA once the other strand
/// is compared.
pub struct PreparedText {
    plain: PlainText,
    /// The hash of each word.
    pub(super) words: Vec<u64>,
    /// The span of each word.
    pub(super) spans: Vec<Span>,
    pub(super) weights: WordWeights,
    /// The number of words of a window; of heavy words, fewer that weigh as much.
    window_words: usize,
    /// The hash and first word of each window, sorted.
    pub(super) grams: Vec<(u64, u32)>,
    pub(super) sentences: Vec<Sentence>,
    /// The distinct terms, sorted; a term is identified by its place here.
    pub(super) vocabulary: Vec<u64>,
    /// The letters of each term, as [`letters`] counts them.
    pub(super) letters: Vec<u8>,
    /// The term of each word.
    pub(super) terms: Vec<u32>,
    /// The terms of each sentence, sorted, and their counts.
    pub(super) bags: SparseRows,
    /// The sentences of each term, and its count in each.
    pub(super) postings: SparseRows,
    /// Why each word is excluded; empty if none is. An excluded word is in no window, has the term
    /// [`NO_TERM`] and matches no other word.
    reasons: Vec<Option<ExclusionReason>>,
    /// For DNA: the reverse complement.
    reverse: OnceLock<Option<Box<PreparedText>>>,
}

/// The term of an excluded word.
pub(super) const NO_TERM: u32 = u32::MAX;

/// How many words of a document are in passages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PassageCoverage {
    /// All words.
    pub words: u32,
    /// Excluded words, by [`ExclusionReason::ALL`].
    pub excluded: [u32; ExclusionReason::ALL.len()],
    /// Words in passages that are not excluded.
    pub matched: u32,
}

impl PassageCoverage {
    /// The number of words that are not excluded.
    pub fn counted(&self) -> u32 {
        self.words - self.excluded.iter().sum::<u32>()
    }

    /// The share of the words in passages, without excluded words.
    pub fn share(&self) -> f64 {
        f64::from(self.matched) / f64::from(self.counted().max(1))
    }
}

/// A sparse matrix of counts: for each row, its columns and their counts.
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

    /// Transposes the matrix.
    pub fn inverted(&self, inners: usize) -> Self {
        let mut ends = vec![0_u32; inners];
        for &(inner, _) in &self.entries {
            ends[inner.to_usize()] += 1;
        }
        let mut sum = 0;
        for end in &mut ends {
            // Until the row is filled this is its start; filling moves it to its end.
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

/// Words are compared by their first letters: enough that most endings make no difference, in most
/// languages.
const TERM_CHARS: usize = 6;

impl PreparedText {
    /// Prepares a text.
    pub fn new(text: impl Into<String>, options: &AlignOptions) -> Self {
        Self::with_exclusions(text, options, &ExclusionRules::default())
    }

    /// Prepares a text and excludes words by rules. Excluded words count in no share, and are in a
    /// passage only if the words around them are.
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
        let (vocabulary, letters, terms) = terms(&tokens, tokenization.rule, &reasons);
        let weights = WordWeights::new(&tokens, tokenization.rule);
        let window_words = options.window_tokens.to_usize();
        let mut grams = grams(&tokens, options.window_tokens);
        if !weights.are_equal() {
            grams = weighed_grams(grams, &words, &weights, window_words);
        }
        let window = |at: u32| {
            at.to_usize()
                ..weights
                    .window_end(at.to_usize(), window_words)
                    .min(words.len())
        };
        grams.retain(|&(_, at)| {
            reasons.is_empty() || reasons[window(at)].iter().all(Option::is_none)
        });
        if tokenization.rule == Rule::Dna {
            grams.retain(|&(_, at)| window(at).all(|base| tokens.get(base) != dna::UNKNOWN));
        }
        // The tokens of a large document take more memory than its text.
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
            weights,
            window_words,
            sentences,
            vocabulary,
            letters,
            terms,
            bags,
            postings,
            reasons,
            reverse,
        }
    }

    /// The text that is compared and shown: the document, without markup if that is stripped.
    pub fn text(&self) -> &str {
        self.plain.text()
    }

    /// The text with its mapping to the document.
    pub fn plain(&self) -> &PlainText {
        &self.plain
    }

    /// The other strand, for DNA: bases only, with the same ones excluded.
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
            reverse.exclude(self.reasons.iter().rev().copied().collect(), options);
            Some(Box::new(reverse))
        };
        self.reverse.get_or_init(of_bases).as_deref()
    }

    /// Excludes words.
    fn exclude(&mut self, reasons: Vec<Option<ExclusionReason>>, options: &AlignOptions) {
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

    /// The span of this strand that corresponds to words of the other one.
    pub(super) fn opposite_span(&self, words: WordRange) -> Span {
        let all = self.words.len().to_u32();
        self.bytes_of(WordRange {
            start: all - words.end,
            end: all - words.start,
        })
    }

    /// The end of the window that starts with this word; past the last word if the document ends before.
    pub(super) fn window_end(&self, at: usize) -> usize {
        self.weights.window_end(at, self.window_words)
    }

    /// The number of words.
    pub fn tokens(&self) -> usize {
        self.words.len()
    }

    /// Why a word is excluded; `None` if it is not.
    pub fn reason(&self, word: usize) -> Option<ExclusionReason> {
        self.reasons.get(word).copied().flatten()
    }

    /// The excluded spans of the text, in order, and why each is excluded.
    pub fn excluded(&self) -> Vec<(Span, ExclusionReason)> {
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

    /// Counts the words that are in passages with these spans, which may overlap.
    pub fn coverage(&self, bytes: impl Iterator<Item = Span>) -> PassageCoverage {
        let mut ranges: Vec<WordRange> = bytes.map(|bytes| self.words_in(bytes)).collect();
        ranges.sort_unstable_by_key(|words| words.start);
        let mut coverage = PassageCoverage {
            words: self.words.len().to_u32(),
            ..PassageCoverage::default()
        };
        for reason in self.reasons.iter().flatten() {
            coverage.excluded[reason.index()] += 1;
        }
        let mut end = 0;
        for words in ranges {
            let new = words.start.max(end)..words.end.max(end);
            coverage.matched += if self.reasons.is_empty() {
                new.len()
            } else {
                new.filter(|&word| self.counts(word)).count()
            } as u32;
            end = end.max(words.end);
        }
        coverage
    }

    /// The share of the words that are in these spans, without excluded words.
    pub fn matched_share(&self, bytes: impl Iterator<Item = Span>) -> f64 {
        self.coverage(bytes).share()
    }

    /// Whether excluded words lie between two spans: then they are not one passage.
    pub(super) fn is_separated(&self, one: Span, two: Span) -> bool {
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

    /// Whether a word is not excluded.
    pub(super) fn counts(&self, word: u32) -> bool {
        self.reason(word.to_usize()).is_none()
    }

    /// The terms of each sentence without some words.
    pub(super) fn bags_without(&self, copied: &[WordRange]) -> SparseRows {
        let mut is_kept = vec![true; self.words.len()];
        for words in copied {
            is_kept[words.range()].fill(false);
        }
        bags(&self.sentences, &self.terms, |word| is_kept[word])
    }

    /// The words that lie within a span of the text.
    pub fn words_in(&self, bytes: Span) -> WordRange {
        let start = self
            .spans
            .partition_point(|span| span.start < bytes.start)
            .to_u32();
        let end = self
            .spans
            .partition_point(|span| span.end <= bytes.end)
            .to_u32();
        WordRange {
            start,
            end: end.max(start),
        }
    }

    /// The span of some words in the text.
    pub(super) fn bytes_of(&self, words: WordRange) -> Span {
        Span {
            start: self.spans[words.start.to_usize()].start,
            end: self.spans[words.end.to_usize() - 1].end,
        }
    }
}

/// The hash of each token. Unknown bases get hashes that no other sequence has.
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
        shape: WindowShape::Run {
            kind: &ORDERED,
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

/// The hashes of all full windows where words differ in weight, sorted. Windows of `window_words` words keep the
/// hash they have where words do not differ, as the other document may.
fn weighed_grams(
    grams: Vec<(u64, u32)>,
    words: &[u64],
    weights: &WordWeights,
    window_words: usize,
) -> Vec<(u64, u32)> {
    let mut hashes = vec![0; words.len()];
    for (hash, at) in grams {
        hashes[at.to_usize()] = hash;
    }
    let mut bytes = Vec::new();
    let mut weighed = Vec::with_capacity(words.len());
    for (at, &hash) in hashes.iter().enumerate() {
        let end = weights.window_end(at, window_words);
        let Some(window) = words.get(at..end) else {
            break;
        };
        let hash = if window.len() == window_words {
            hash
        } else {
            bytes.clear();
            bytes.extend(window.iter().flat_map(|word| word.to_le_bytes()));
            xxh3_64(&bytes)
        };
        weighed.push((hash, at.to_u32()));
    }
    weighed.sort_unstable();
    weighed
}

/// The distinct terms that are not excluded, their letters, and the term of each token.
fn terms(
    tokens: &Tokens,
    rule: Rule,
    reasons: &[Option<ExclusionReason>],
) -> (Vec<u64>, Vec<u8>, Vec<u32>) {
    let term = |token| {
        if rule.is_words() { stem(token) } else { token }
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
    let terms: Vec<u32> = hashes
        .iter()
        .enumerate()
        .map(|(at, hash)| if counts(at) { number(hash) } else { NO_TERM })
        .collect();
    let mut letters_of = vec![0; vocabulary.len()];
    for (at, &number) in terms.iter().enumerate() {
        if let Some(count) = letters_of.get_mut(number.to_usize())
            && *count == 0
        {
            *count = letters(term(tokens.get(at)));
        }
    }
    (vocabulary, letters_of, terms)
}

/// The number of letters of an alphabet that say as much as a term does: a Chinese character stands
/// for a word or half of one, a Hangul syllable has two or three letters.
fn letters(term: &[u8]) -> u8 {
    let letters = |c: char| match u32::from(c) {
        0xac00..=0xd7a3 => 2,
        0x3400..=0x9fff | 0xf900..=0xfaff | 0x2_0000..=0x3_ffff => 3,
        _ => 1,
    };
    let chars = String::from_utf8_lossy(term);
    chars
        .chars()
        .take(TERM_CHARS)
        .map(letters)
        .fold(0, u8::saturating_add)
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

/// The terms of each sentence and their counts.
fn bags(sentences: &[Sentence], terms: &[u32], is_kept: impl Fn(usize) -> bool) -> SparseRows {
    let mut bags = SparseRows::default();
    let mut sorted = Vec::new();
    for sentence in sentences {
        sorted.clear();
        let words = sentence.words.range();
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
