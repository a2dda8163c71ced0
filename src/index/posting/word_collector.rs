//! How often each word stands in which document, sorted by word, in bounded memory.
//!
//! A word is a token as the tokenizer left it. It is told from others by its 64-bit hash; its text comes along once in a while, and is kept once.

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

/// How often a word stands in the document at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WordCount {
    pub place: u32,
    pub times: u32,
}

/// Is told a word, and where it stands how often: by rising place, never nowhere.
pub type WordSink<'s> = dyn FnMut(&[u8], &[WordCount]) -> Result<()> + 's;

/// Words by rising hash, in buckets by its top eight bits.
pub trait WordLists: Sync {
    fn for_each_in(&self, bucket: usize, each: &mut WordSink<'_>) -> Result<()>;
}

/// The bucket of a word.
pub fn bucket_of_word(hash: u64) -> usize {
    (hash >> 56) as usize
}

/// The words of a few documents.
#[derive(Debug, Default)]
pub struct WordCounts {
    /// The hash of a word; the number of the document, and how often it has it.
    counts: Vec<[u64; 2]>,
    texts: Vec<u8>,
    /// The hash of a text, and where it ends.
    text_ends: Vec<(u64, usize)>,
}

impl WordCounts {
    pub fn weight(&self) -> u64 {
        (self.texts.len() + size_of_val(&self.counts[..]) + size_of_val(&self.text_ends[..])) as u64
    }

    /// Gives documents other numbers, or takes them out.
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

/// So many words are known to have come with their text.
const KNOWN: usize = 1 << 16;

/// Counts the words of documents; owns what is used again and again.
#[derive(Debug, Clone, Default)]
pub struct WordCounter {
    hashes: Vec<u64>,
    /// By the low bits of their hashes: these words came with their text already.
    known: Vec<u64>,
}

impl WordCounter {
    /// Adds the words of a document.
    pub fn count(&mut self, tokens: &Tokens, number: u32, out: &mut WordCounts) {
        clear_buffer(&mut self.hashes);
        self.known.resize(KNOWN, 0);
        for token in tokens.iter() {
            let hash = xxh3_64(token);
            self.hashes.push(hash);
            let known = &mut self.known[hash as usize % KNOWN];
            if *known != hash {
                *known = hash;
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

/// Takes the words of documents, in any order.
///
/// Memory: about `limit_bytes`.
pub struct WordCollector {
    counts: Buckets<2>,
    /// The hash of a word, and where its text is.
    places: Buckets<2>,
    texts: Option<TempFile>,
    /// Texts after those on disk.
    held: Vec<u8>,
    most_held: usize,
    directory: TempDir,
}

impl WordCollector {
    pub fn new(limit_bytes: u64, directory: &TempDir) -> Self {
        let buckets =
            |share: u64| Buckets::new(BUCKETS, limit_bytes / 8 * share, directory.clone());
        let most_held = usize::try_from(limit_bytes / 16).unwrap_or(usize::MAX);
        Self {
            counts: buckets(6),
            places: buckets(1),
            texts: None,
            held: Vec::new(),
            most_held,
            directory: directory.clone(),
        }
    }

    /// `places` has the place of each document by its number, if its words are wanted.
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
        if self.held.len() > self.most_held {
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

    /// No more will come.
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

/// All words that were collected. Each bucket can be asked for once.
pub struct CollectedWords {
    counts: Buckets<2>,
    places: Buckets<2>,
    texts: Option<Mapping>,
    held: Vec<u8>,
}

impl CollectedWords {
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
        let (mut texts, mut list) = (
            places.chunk_by(|one, two| one[0] == two[0]).peekable(),
            Vec::new(),
        );
        for of_word in counts.chunk_by(|one, two| one[0] == two[0]) {
            list.clear();
            list.extend(of_word.iter().map(|[_, count]| WordCount {
                place: (count >> 32) as u32,
                times: *count as u32,
            }));
            // A text may come with a document that is not wanted.
            while texts.next_if(|texts| texts[0][0] < of_word[0][0]).is_some() {}
            // Which of them comes first depends on threads; if two words ever had one hash, it must not.
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
    fn words_are_counted_whatever_the_memory() {
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
                let (mut tokens, mut counts) = (Tokens::default(), WordCounts::default());
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
