//! Counts each word of each document, and sorts the counts by word, in bounded memory.
//!
//! A word is a token as the tokenizer returns it, identified by its 64-bit hash. Its text comes
//! with some of the counts, and is stored once.

use super::{buckets::Buckets, key::BUCKETS};
use crate::{
    base::{
        codec::{Fields, clear_buffer, put_varint},
        error::Result,
        files::{Mapping, TempDir, TempFile},
    },
    text::stream::Tokens,
};
use xxhash_rust::xxh3::xxh3_64;

/// The occurrences of a word in one document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WordCount {
    /// The place of the document.
    pub place: u32,
    /// The number of occurrences.
    pub times: u32,
}

/// Receives a word and its counts, by rising place; there is at least one.
pub type WordSink<'s> = dyn FnMut(&[u8], &[WordCount]) -> Result<()> + 's;

/// Words with their counts by rising hash, in buckets by the top eight bits of the hash.
pub trait WordLists: Sync {
    /// Calls `each` with every word of a bucket.
    fn for_each_in(&self, bucket: usize, each: &mut WordSink<'_>) -> Result<()>;
}

/// The bucket of a word.
pub fn bucket_of_word(hash: u64) -> usize {
    (hash >> 56) as usize
}

/// The words of a few documents.
#[derive(Debug, Default)]
pub struct WordCounts {
    /// The hash of a word; the number of the document in the upper, the count in the lower 32 bits.
    counts: Vec<[u64; 2]>,
    texts: Vec<u8>,
    /// The hash of a text, and its end.
    text_ends: Vec<(u64, usize)>,
}

impl WordCounts {
    /// The size in memory.
    pub fn weight(&self) -> u64 {
        (self.texts.len() + size_of_val(&self.counts[..]) + size_of_val(&self.text_ends[..])) as u64
    }

    /// Renumbers the documents, and drops those without a new number.
    pub fn renumber(&mut self, number: impl Fn(u32) -> Option<u32>) {
        self.counts
            .retain_mut(|[_, count]| match number((*count >> 32) as u32) {
                Some(number) => {
                    *count = u64::from(number) << 32 | (*count & u64::from(u32::MAX));
                    true
                }
                None => false,
            });
    }
}

/// A counter remembers this many words whose text was already sent.
const SENT_TEXTS: usize = 1 << 16;

/// Counts the words of documents; owns the reused buffers.
#[derive(Debug, Clone, Default)]
pub struct WordCounter {
    hashes: Vec<u64>,
    /// The words whose text was already sent, by the low bits of their hashes.
    sent: Vec<u64>,
}

impl WordCounter {
    /// Adds the words of a document to `out`.
    pub fn count(&mut self, tokens: &Tokens, number: u32, out: &mut WordCounts) {
        clear_buffer(&mut self.hashes);
        self.sent.resize(SENT_TEXTS, 0);
        for token in tokens.iter() {
            let hash = xxh3_64(token);
            self.hashes.push(hash);
            let sent = &mut self.sent[hash as usize % SENT_TEXTS];
            if *sent != hash {
                *sent = hash;
                out.texts.extend_from_slice(token);
                out.text_ends.push((hash, out.texts.len()));
            }
        }
        self.hashes.sort_unstable();
        let counted = self
            .hashes
            .chunk_by(|one, two| one == two)
            .map(|same| [same[0], u64::from(number) << 32 | same.len() as u64]);
        out.counts.extend(counted);
    }
}

/// Collects the words of documents, in any order.
///
/// Memory: about `limit_bytes`.
pub struct WordCollector {
    counts: Buckets<2>,
    /// The hash of a word, and the offset of its text.
    places: Buckets<2>,
    texts: Option<TempFile>,
    /// The texts that follow those on disk.
    held: Vec<u8>,
    held_limit: usize,
    directory: TempDir,
}

impl WordCollector {
    /// An empty collector, which spills to `directory`.
    pub fn new(limit_bytes: u64, directory: &TempDir) -> Self {
        let buckets =
            |share: u64| Buckets::new(BUCKETS, limit_bytes / 8 * share, directory.clone());
        let held_limit = usize::try_from(limit_bytes / 16).unwrap_or(usize::MAX);
        Self {
            counts: buckets(6),
            places: buckets(1),
            texts: None,
            held: Vec::new(),
            held_limit,
            directory: directory.clone(),
        }
    }

    /// Adds the words of the documents that have a place in `places`, by their numbers.
    pub fn add(&mut self, words: &WordCounts, places: &[Option<u32>]) -> Result<()> {
        for &[hash, count] in &words.counts {
            if let Some(place) = places[(count >> 32) as usize] {
                self.counts.push(
                    bucket_of_word(hash),
                    [hash, u64::from(place) << 32 | (count & u64::from(u32::MAX))],
                );
            }
        }
        let mut start = 0;
        for &(hash, end) in &words.text_ends {
            self.places.push(
                bucket_of_word(hash),
                [
                    hash,
                    self.texts.as_ref().map_or(0, TempFile::bytes) + self.held.len() as u64,
                ],
            );
            put_varint(&mut self.held, (end - start) as u64);
            self.held.extend_from_slice(&words.texts[start..end]);
            start = end;
        }
        if self.held.len() > self.held_limit {
            let texts = match &mut self.texts {
                Some(texts) => texts,
                none => none.insert(TempFile::new(&self.directory)?),
            };
            texts.append(&self.held)?;
            clear_buffer(&mut self.held);
        }
        self.counts.settle()?;
        self.places.settle()
    }

    /// Ends the collection.
    pub fn close(self) -> Result<CollectedWords> {
        let texts = self.texts.as_ref().map(TempFile::map).transpose()?;
        Ok(CollectedWords {
            counts: self.counts,
            places: self.places,
            texts,
            held: self.held,
        })
    }
}

/// All collected words. Each bucket can be read once.
pub struct CollectedWords {
    counts: Buckets<2>,
    places: Buckets<2>,
    texts: Option<Mapping>,
    held: Vec<u8>,
}

impl CollectedWords {
    /// The text at an offset.
    fn text(&self, at: u64) -> &[u8] {
        let on_disk = self.texts.as_deref().unwrap_or_default();
        let held = || self.held.get((at as usize).saturating_sub(on_disk.len())..);
        let mut fields = Fields::new(
            on_disk
                .get(at as usize..)
                .filter(|rest| !rest.is_empty())
                .or_else(held)
                .unwrap_or_default(),
        );
        fields
            .varint("length")
            .and_then(|length| fields.take(length, "text"))
            .unwrap_or_default()
    }
}

impl WordLists for CollectedWords {
    fn for_each_in(&self, bucket: usize, each: &mut WordSink<'_>) -> Result<()> {
        let [mut counts, mut places] = [self.counts.take(bucket)?, self.places.take(bucket)?];
        counts.sort_unstable();
        places.sort_unstable();
        let mut texts = places.chunk_by(|one, two| one[0] == two[0]).peekable();
        let mut list = Vec::new();
        for of_word in counts.chunk_by(|one, two| one[0] == two[0]) {
            list.clear();
            list.extend(of_word.iter().map(|[_, count]| WordCount {
                place: (count >> 32) as u32,
                times: *count as u32,
            }));
            // Skip texts of documents that were left out.
            while texts.next_if(|texts| texts[0][0] < of_word[0][0]).is_some() {}
            // Their order depends on the threads; if two words have the same hash, the result must
            // not.
            let text = texts
                .next_if(|texts| texts[0][0] == of_word[0][0])
                .and_then(|texts| texts.iter().map(|[_, at]| self.text(*at)).min());
            each(text.unwrap_or_default(), &list)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::stream::Span;
    use std::collections::BTreeMap;

    #[test]
    fn word_counts_do_not_depend_on_the_memory() {
        let documents = ["a b c c g c e d f", "", "f d e c c f a g g h", "c"];
        let mut expected = BTreeMap::<String, Vec<WordCount>>::new();
        for (place, text) in (0..).zip(documents) {
            for word in text.split_whitespace() {
                let list = expected.entry(word.to_owned()).or_default();
                match list.last_mut().filter(|last| last.place == place) {
                    Some(last) => last.times += 1,
                    None => list.push(WordCount { place, times: 1 }),
                }
            }
        }
        for limit_bytes in [1 << 20, 0] {
            let mut collector = WordCollector::new(limit_bytes, &TempDir(None));
            let mut counter = WordCounter::default();
            for (place, text) in (0..).zip(documents) {
                let mut tokens = Tokens::default();
                let mut counts = WordCounts::default();
                text.split_whitespace()
                    .for_each(|word| tokens.push(word, Span { start: 0, end: 0 }));
                counter.count(&tokens, 1, &mut counts);
                counts.renumber(|number| (number == 1).then_some(0));
                collector.add(&counts, &[Some(place)]).unwrap();
            }
            let words = collector.close().unwrap();
            let mut found = BTreeMap::new();
            for bucket in 0..BUCKETS {
                let mut each = |text: &[u8], list: &[WordCount]| {
                    found.insert(String::from_utf8_lossy(text).into_owned(), list.to_vec());
                    Ok(())
                };
                words.for_each_in(bucket, &mut each).unwrap();
            }
            assert_eq!(found, expected);
        }
    }
}
