//! The global dictionary filter: pairs of documents that have enough words in common to be
//! compared.
//!
//! Three steps, over tables of how often each word occurs in which document:
//!
//! 1. *Stop words* are removed: words of too many documents.
//! 2. *Match*: a pair has another word at least `n_match` times each, and at least `s_match` times
//!    together.
//! 3. *Common*: the other words that a pair has in common are at least a share `p_common` of the
//!    words of the document that has fewer.
//!
//! A pair that passes step 2 or step 3 is a candidate. With `d_a` = A B C C G C E D F and `d_b` = F
//! D E C C F A G G H, no stop words, `n_match` 2 and `s_match` 5, C is a match: it occurs 3 and 2
//! times. The common words are A C D E F G, 6 of 7 distinct words.
//!
//! The lists of all words are read once for each block of rows. A block has, for each of its
//! documents, a counter and a bit for every later document. So the work is that of joining the
//! tables, and the block size bounds the memory. Both grow with the square of the number of
//! documents, as does the result.

use crate::base::ids::ContentNo;
use crate::base::num::{ToF64, ToU32, ToU64, ToUsize};
use crate::{
    base::{error::Result, parallel},
    index::{
        View,
        posting::{BUCKETS, WordCount, WordLists},
    },
};
use rayon::prelude::*;
use std::{collections::BTreeMap, ops::Range};

/// How stop words are determined: what `p_stop` is a share of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopWordRule {
    /// A word of more than this share of all documents is a stop word: the formula of the paper.
    Documents,
    /// This share of all words, those of the most documents, are stop words: what the text of the
    /// paper says.
    Vocabulary,
}

impl StopWordRule {
    /// The rules by name.
    pub const NAMES: [(&'static str, Self); 2] = [
        ("documents", Self::Documents),
        ("vocabulary", Self::Vocabulary),
    ];
}

/// The parameters of the filter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GdicOptions {
    /// The share that decides which words are stop words.
    pub p_stop: f64,
    /// What `p_stop` is a share of.
    pub stop_of: StopWordRule,
    /// How often each document must have a matching word.
    pub n_match: u32,
    /// How often both documents together must have it.
    pub s_match: u32,
    /// The least share of common words; more than 0.
    pub p_common: f64,
}

/// Why a pair is a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GdicEvidence {
    /// A word matches.
    pub matches: bool,
    /// Enough words are common.
    pub common: bool,
}

impl GdicEvidence {
    fn is_any(self) -> bool {
        self.matches || self.common
    }
}

/// The filter over the dictionary of an index; contents stand for documents.
///
/// Memory: about 8 bytes per content, and [`Gdic::row_bytes`] for each row of a block.
pub struct Gdic<W> {
    words: W,
    options: GdicOptions,
    /// Words of more documents are stop words.
    most_documents: u64,
    /// The number of documents of each content.
    copies: Vec<u32>,
    /// The number of distinct words of each content.
    vocabulary: Vec<u32>,
}

/// Statistics of the words of some buckets.
struct WordStatistics {
    /// For each number of documents: how many words have it.
    words: BTreeMap<u64, u64>,
    /// The number of distinct words of each content.
    vocabulary: Vec<u32>,
}

impl WordStatistics {
    fn new(contents: usize) -> Self {
        Self {
            words: BTreeMap::new(),
            vocabulary: vec![0; contents],
        }
    }

    /// Reads the words of all buckets, on `threads` threads. Of several errors returns the first.
    fn read<W: WordLists + Sync>(words: &W, copies: &[u32], threads: usize) -> Result<Self> {
        let empty = || Ok(Self::new(copies.len()));
        let add = |sum: Result<Self>, bucket| sum?.with_bucket(words, bucket, copies);
        let merge = |one: Result<Self>, two: Result<Self>| Ok(one?.merge(two?));
        parallel::pool(threads).install(|| {
            (0..BUCKETS)
                .into_par_iter()
                .fold(empty, add)
                .reduce(empty, merge)
        })
    }

    fn with_bucket<W: WordLists>(
        mut self,
        words: &W,
        bucket: usize,
        copies: &[u32],
    ) -> Result<Self> {
        words.for_each_in(bucket, &mut |_, list| {
            *self.words.entry(documents_of(list, copies)).or_default() += 1;
            for of in list {
                self.vocabulary[of.place.to_usize()] += 1;
            }
            Ok(())
        })?;
        Ok(self)
    }

    fn merge(mut self, other: Self) -> Self {
        for (documents, words) in other.words {
            *self.words.entry(documents).or_default() += words;
        }
        for (sum, more) in self.vocabulary.iter_mut().zip(other.vocabulary) {
            *sum += more;
        }
        self
    }
}

impl<W: WordLists + Sync> Gdic<W> {
    /// Reads all words once.
    pub fn new(words: W, copies: Vec<u32>, options: GdicOptions, threads: usize) -> Result<Self> {
        let statistics = WordStatistics::read(&words, &copies, threads)?;
        let documents = copies.iter().map(|&copies| u64::from(copies)).sum();
        Ok(Self {
            words,
            options,
            most_documents: options.most_documents(documents, &statistics.words),
            copies,
            vocabulary: statistics.vocabulary,
        })
    }

    /// The bytes of a row.
    pub fn row_bytes(&self) -> u64 {
        5 * self.copies.len().to_u64()
    }

    /// Calls `each` with every candidate pair of a block of contents and those after them, sorted
    /// by the first, then the second.
    pub fn for_each_in(
        &self,
        rows: Range<u32>,
        mut each: impl FnMut(u32, u32, GdicEvidence) -> Result<()>,
    ) -> Result<()> {
        let mut block = RowBlock::new(rows.clone(), self.copies.len().to_u32(), self.options);
        for bucket in 0..BUCKETS {
            self.words.for_each_in(bucket, &mut |_, list| {
                let is_stop_word = list.last().is_none_or(|last| last.place < rows.start)
                    || documents_of(list, &self.copies) > self.most_documents;
                if !is_stop_word {
                    block.add(list);
                }
                Ok(())
            })?;
        }
        for a in rows.clone() {
            let (counts, matches) = block.row(a);
            for (b, (&count, &matches)) in (a + 1..).zip(counts.iter().zip(matches)) {
                let words = self.vocabulary[a.to_usize()].min(self.vocabulary[b.to_usize()]);
                let found = GdicEvidence {
                    matches,
                    common: self.options.is_common(count, words),
                };
                if found.is_any() {
                    each(a, b, found)?;
                }
            }
        }
        Ok(())
    }
}

/// The number of documents of a word, copies included.
fn documents_of(list: &[WordCount], copies: &[u32]) -> u64 {
    list.iter()
        .map(|of| u64::from(copies[of.place.to_usize()]))
        .sum()
}

impl GdicOptions {
    /// The most documents of a word that is no stop word. `words`: how many words have each number
    /// of documents.
    fn most_documents(&self, documents: u64, words: &BTreeMap<u64, u64>) -> u64 {
        match self.stop_of {
            StopWordRule::Documents => (0..=documents)
                .rev()
                .find(|&df| df.to_f64() / documents.to_f64() <= self.p_stop)
                .unwrap_or_default(),
            StopWordRule::Vocabulary => {
                let all: u64 = words.values().sum();
                let mut left = (self.p_stop * all.to_f64()).floor() as u64;
                // Words with the same number of documents stay together: they are stop words only
                // if all of them can be.
                for (&documents, &words) in words.iter().rev() {
                    match left.checked_sub(words) {
                        Some(rest) => left = rest,
                        None => return documents,
                    }
                }
                0
            }
        }
    }

    fn is_common(&self, count: u32, words: u32) -> bool {
        count > 0 && f64::from(count) / f64::from(words) >= self.p_common
    }
}

/// A word of at least one in this many documents is added to a whole row at once.
const DENSE: u32 = 16;

/// The rows of some documents: for every later document, the number of common words, and whether a
/// word matches.
struct RowBlock {
    options: GdicOptions,
    rows: Range<u32>,
    contents: u32,
    counts: Vec<u32>,
    matches: Vec<bool>,
    /// Buffers for a word of many documents: whether each has it, and how often.
    has: Vec<u32>,
    times: Vec<u32>,
}

impl RowBlock {
    fn new(rows: Range<u32>, contents: u32, options: GdicOptions) -> Self {
        let cells = rows.len() * contents.to_usize();
        Self {
            options,
            rows,
            contents,
            counts: vec![0; cells],
            matches: vec![false; cells],
            has: Vec::new(),
            times: Vec::new(),
        }
    }

    /// The start of the row of a document, at itself.
    fn start(&self, a: u32) -> usize {
        (a - self.rows.start).to_usize() * self.contents.to_usize()
    }

    /// The counts and matches of a document and those after it.
    fn row(&self, a: u32) -> (&[u32], &[bool]) {
        let (first, end) = (
            self.start(a) + a.to_usize() + 1,
            self.start(a) + self.contents.to_usize(),
        );
        (&self.counts[first..end], &self.matches[first..end])
    }

    /// Adds a word.
    fn add(&mut self, list: &[WordCount]) {
        let first = list.partition_point(|of| of.place < self.rows.start);
        let list = &list[first..];
        let in_rows = list.partition_point(|of| of.place < self.rows.end);
        if list.len().to_u64() * u64::from(DENSE) < u64::from(self.contents) {
            (0..in_rows).for_each(|row| self.add_sparse(list[row], &list[row + 1..]));
        } else if in_rows > 0 {
            self.add_dense(&list[..in_rows], list);
        }
    }

    /// How often the other document must have a word that this one has `times` times; `None` if it
    /// can never match.
    fn needed(&self, times: u32) -> Option<u32> {
        (times >= self.options.n_match).then(|| {
            self.options
                .n_match
                .max(self.options.s_match.saturating_sub(times))
        })
    }

    fn add_sparse(&mut self, a: WordCount, after: &[WordCount]) {
        let (start, needed) = (self.start(a.place), self.needed(a.times));
        for b in after {
            let cell = start + b.place.to_usize();
            self.counts[cell] += 1;
            self.matches[cell] |= needed.is_some_and(|needed| b.times >= needed);
        }
    }

    /// As [`RowBlock::add_sparse`], for all documents at once.
    fn add_dense(&mut self, rows: &[WordCount], list: &[WordCount]) {
        let base = self.rows.start.to_usize();
        let (mut has, mut times) = (
            std::mem::take(&mut self.has),
            std::mem::take(&mut self.times),
        );
        let columns = self.contents.to_usize() - base;
        for column in [&mut has, &mut times] {
            column.clear();
            column.resize(columns, 0);
        }
        for of in list {
            has[of.place.to_usize() - base] = 1;
            times[of.place.to_usize() - base] = of.times;
        }
        for a in rows {
            let (start, skipped) = (self.start(a.place), (a.place + 1).to_usize() - base);
            let cells = start + a.place.to_usize() + 1..start + self.contents.to_usize();
            self.counts[cells.clone()]
                .iter_mut()
                .zip(&has[skipped..])
                .for_each(|(sum, has)| *sum += has);
            if let Some(needed) = self.needed(a.times) {
                self.matches[cells]
                    .iter_mut()
                    .zip(&times[skipped..])
                    .for_each(|(found, &times)| *found |= times >= needed);
            }
        }
        (self.has, self.times) = (has, times);
    }
}

/// The number of documents of each content of an index.
pub fn documents_per_content(view: &View<'_>) -> Vec<u32> {
    (0..view.contents().len().to_u32())
        .map(|content| view.documents_of(ContentNo::new(content)).len().to_u32())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use xxhash_rust::xxh3::xxh3_64;

    /// Words of documents in memory.
    struct Texts(Vec<Vec<u8>>);

    impl WordLists for Texts {
        fn for_each_in(
            &self,
            bucket: usize,
            each: &mut crate::index::posting::WordSink<'_>,
        ) -> Result<()> {
            let words: BTreeSet<u8> = self.0.iter().flatten().copied().collect();
            for word in words
                .into_iter()
                .filter(|word| crate::index::posting::bucket_of_word(xxh3_64(&[*word])) == bucket)
            {
                let list: Vec<WordCount> = (0..)
                    .zip(&self.0)
                    .map(|(place, text)| WordCount {
                        place,
                        times: times(text, word),
                    })
                    .filter(|of| of.times > 0)
                    .collect();
                each(&[word], &list)?;
            }
            Ok(())
        }
    }

    fn times(text: &[u8], word: u8) -> u32 {
        text.iter().filter(|&&other| other == word).count().to_u32()
    }

    fn unique(text: &[u8]) -> BTreeSet<u8> {
        text.iter().copied().collect()
    }

    /// Applies the definition, pair by pair.
    fn simple(
        texts: &[Vec<u8>],
        copies: &[u32],
        options: GdicOptions,
    ) -> Vec<(u32, u32, bool, bool)> {
        let documents: u32 = copies.iter().sum();
        let df = |word: u8| {
            (0..texts.len())
                .filter(|&text| texts[text].contains(&word))
                .map(|text| copies[text])
                .sum::<u32>()
        };
        let vocabulary: BTreeSet<u8> = texts.iter().flatten().copied().collect();
        let is_stop = |word: u8| match options.stop_of {
            StopWordRule::Documents => f64::from(df(word)) / f64::from(documents) > options.p_stop,
            StopWordRule::Vocabulary => {
                let as_frequent = vocabulary
                    .iter()
                    .filter(|&&other| df(other) >= df(word))
                    .count();
                as_frequent.to_f64() <= (options.p_stop * vocabulary.len().to_f64()).floor()
            }
        };
        let mut found = Vec::new();
        for a in 0..texts.len() {
            for b in a + 1..texts.len() {
                let [one, two] = [a, b].map(|text| unique(&texts[text]));
                let common: Vec<u8> = one
                    .intersection(&two)
                    .copied()
                    .filter(|&word| !is_stop(word))
                    .collect();
                let matches = common.iter().any(|&word| {
                    let [x, y] = [a, b].map(|text| times(&texts[text], word));
                    x >= options.n_match && y >= options.n_match && x + y >= options.s_match
                });
                let least = one.len().min(two.len());
                let is_common = !common.is_empty()
                    && common.len().to_f64() / least.to_f64() >= options.p_common;
                if matches || is_common {
                    found.push((a.to_u32(), b.to_u32(), matches, is_common));
                }
            }
        }
        found
    }

    fn by_joins(
        texts: &[Vec<u8>],
        copies: &[u32],
        options: GdicOptions,
        rows: u32,
    ) -> Vec<(u32, u32, bool, bool)> {
        let gdic = Gdic::new(Texts(texts.to_vec()), copies.to_vec(), options, 2).unwrap();
        let contents = texts.len().to_u32();
        let mut found = Vec::new();
        for start in (0..contents).step_by(rows.to_usize()) {
            let block = start..(start + rows).min(contents);
            let each = |a, b, by: GdicEvidence| {
                found.push((a, b, by.matches, by.common));
                Ok(())
            };
            gdic.for_each_in(block, each).unwrap();
        }
        found
    }

    const PUBLISHED: GdicOptions = GdicOptions {
        p_stop: 0.995,
        stop_of: StopWordRule::Documents,
        n_match: 2,
        s_match: 7,
        p_common: 0.02,
    };

    #[test]
    fn the_example_of_the_paper() {
        let texts = [b"abccgcedf".to_vec(), b"fdeccfaggh".to_vec()];
        let options = GdicOptions {
            p_stop: 1.0,
            s_match: 5,
            p_common: 0.9,
            ..PUBLISHED
        };
        let pair = |options| by_joins(&texts, &[1, 1], options, 1).pop();
        assert_eq!(pair(options), Some((0, 1, true, false)));
        // 6 words of 7 are common.
        assert_eq!(
            pair(GdicOptions {
                s_match: 6,
                p_common: 6.0 / 7.0,
                ..options
            }),
            Some((0, 1, false, true))
        );
        assert_eq!(
            pair(GdicOptions {
                s_match: 6,
                p_common: 0.86,
                ..options
            }),
            None
        );
        // With the published parameters words of both documents are stop words, as they are two of two.
        assert_eq!(pair(PUBLISHED), None);
    }

    #[test]
    fn nothing_is_found_where_there_is_nothing() {
        for texts in [
            vec![],
            vec![vec![]],
            vec![vec![], vec![]],
            vec![b"a".to_vec(), vec![]],
            vec![b"a".to_vec(), b"b".to_vec()],
        ] {
            let copies = vec![1; texts.len()];
            for stop_of in [StopWordRule::Documents, StopWordRule::Vocabulary] {
                let found = by_joins(
                    &texts,
                    &copies,
                    GdicOptions {
                        p_stop: 0.5,
                        stop_of,
                        s_match: 1,
                        n_match: 1,
                        p_common: 0.1,
                    },
                    1,
                );
                assert_eq!(found, []);
            }
        }
        // One word, then only stop words.
        let texts = [b"a".to_vec(), b"aa".to_vec(), b"b".to_vec()];
        let options = GdicOptions {
            p_stop: 0.9,
            ..PUBLISHED
        };
        assert_eq!(by_joins(&texts, &[1; 3], options, 2), [(0, 1, false, true)]);
        assert_eq!(by_joins(&texts[..2], &[1; 2], options, 2), []);
    }

    proptest! {
        #[test]
        fn joins_find_what_the_definition_says(
            texts in prop::collection::vec(prop::collection::vec(prop_oneof![b'a'..b'e', b'a'..=b'z'], 0..30), 0..40), copies in prop::collection::vec(1_u32..4, 40),
            p_stop in prop_oneof![Just(0.0), Just(0.5), Just(0.995), Just(1.0), 0.0..1.0], by_vocabulary: bool,
            n_match in 1_u32..5, s_match in 1_u32..12, p_common in 0.01..1.0, rows in 1_u32..50,
        ) {
            let stop_of = if by_vocabulary { StopWordRule::Vocabulary } else { StopWordRule::Documents };
            let options = GdicOptions { p_stop, stop_of, n_match, s_match, p_common };
            let copies = &copies[..texts.len()];
            prop_assert_eq!(by_joins(&texts, copies, options, rows), simple(&texts, copies, options));
        }
    }
}
