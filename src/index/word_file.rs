//! The dictionary of a segment: how often each document has each word.
//!
//! Words are sorted by their hash, bucket by bucket. A word is the length of its text, the text, the
//! number of its documents less one, and for each document the gap to the one before, times four,
//! plus its count less one. A count of four or more is written as three there, and the rest of it
//! follows. All numbers are varints.

use super::{merge::NONE, open::Segment, sections, verify::SegmentCheck};
use crate::{
    base::{
        codec::{Fields, put_varint},
        error::{Error, Result},
        files::{Sealed, SealedWriter},
        parallel,
    },
    index::posting::{BucketRange, WordCount, WordLists, WordSink, bucket_of_word},
};
use serde::{Deserialize, Serialize};
use std::{
    io::Write,
    ops::Range,
    path::{Path, PathBuf},
};
use xxhash_rust::xxh3::xxh3_64;

/// Counts up to this are packed into the low two bits of the gap.
const SMALL: u64 = 3;

#[derive(Debug, Serialize, Deserialize)]
struct WordFileDescription {
    kind: String,
    /// The top eight bits of its hashes are from the first to, but not including, the second.
    buckets: BucketRange,
    words: u64,
    /// Pairs of a word and a document.
    pairs: u64,
    /// Where each bucket starts, and where the last one ends.
    starts: Vec<u64>,
}

/// Memory: a bucket for each thread.
pub fn write(
    path: &Path,
    buckets: Range<usize>,
    words: &dyn WordLists,
    threads: usize,
) -> Result<()> {
    let failed = |error| Error::io(path.display(), error);
    let mut out = SealedWriter::create(path).map_err(failed)?;
    let mut starts = vec![out.position()];
    let (mut all_words, mut all_pairs) = (0, 0);
    let source = buckets.clone();
    let encode = |bucket| -> Result<(Vec<u8>, u64, u64)> {
        let (mut bytes, mut count, mut pairs) = (Vec::new(), 0, 0);
        words.for_each_in(bucket, &mut |text, list| {
            put_word(&mut bytes, text, list);
            count += 1;
            pairs += list.len() as u64;
            Ok(())
        })?;
        Ok((bytes, count, pairs))
    };
    parallel::ordered_items(
        threads,
        source,
        || encode,
        |encoded| {
            let (bytes, words, pairs) = encoded?;
            all_words += words;
            all_pairs += pairs;
            out.write_all(&bytes).map_err(failed)?;
            starts.push(out.position());
            Ok(())
        },
    )?;
    out.finish(&WordFileDescription {
        kind: sections::WORDS.kind.to_owned(),
        buckets: BucketRange::from(&buckets),
        words: all_words,
        pairs: all_pairs,
        starts,
    })
    .map_err(failed)?;
    Ok(())
}

fn put_word(out: &mut Vec<u8>, text: &[u8], list: &[WordCount]) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text);
    put_varint(out, list.len() as u64 - 1);
    let mut next = 0;
    for &WordCount { place, times } in list {
        let more = u64::from(times) - 1;
        put_varint(out, u64::from(place - next) << 2 | more.min(SMALL));
        if more >= SMALL {
            put_varint(out, more - SMALL);
        }
        next = place + 1;
    }
}

/// The open dictionary of a segment; buckets are read as they are needed.
pub struct WordFile {
    file: Sealed,
    description: WordFileDescription,
}

impl WordFile {
    /// Opens the file and checks that its description makes sense.
    pub fn open(path: &Path) -> Result<Self> {
        let file = Sealed::open(path)?;
        let description: WordFileDescription = file.describe()?;
        let WordFileDescription {
            kind,
            buckets,
            starts,
            ..
        } = &description;
        let fits = kind == sections::WORDS.kind
            && buckets.is_valid()
            && starts.len() == buckets.range().len() + 1;
        if !fits || !starts.is_sorted() {
            return Err(file.damaged(0, "the description of the words contradicts itself"));
        }
        Ok(Self { file, description })
    }

    /// The file itself.
    pub fn file(&self) -> &Sealed {
        &self.file
    }

    /// Words, and pairs of a word and a document.
    pub fn counts(&self) -> (u64, u64) {
        (self.description.words, self.description.pairs)
    }

    /// The range of its hashes, by their top eight bits.
    pub fn buckets(&self) -> Range<usize> {
        self.description.buckets.range()
    }

    /// The words of a bucket; none if it is elsewhere.
    pub fn words_in(&self, bucket: usize, documents: u32) -> Result<WordCursor<'_>> {
        let bytes = match self
            .description
            .starts
            .get(bucket.wrapping_sub(self.buckets().start)..)
        {
            Some(&[start, end, ..]) => (start, self.file.bytes(start, end - start)?),
            _ => (0, &[][..]),
        };
        Ok(WordCursor {
            of: self,
            bucket,
            documents,
            end: bytes.0 + bytes.1.len() as u64,
            fields: Fields::new(bytes.1),
            word: None,
            list: Vec::new(),
        })
    }
}

/// Reads words front to back.
pub struct WordCursor<'f> {
    of: &'f WordFile,
    bucket: usize,
    documents: u32,
    fields: Fields<'f>,
    end: u64,
    /// The hash and the text of the word it is at.
    word: Option<(u64, &'f [u8])>,
    list: Vec<WordCount>,
}

impl WordCursor<'_> {
    /// Goes to the next word; false after the last one.
    fn advance(&mut self) -> Result<bool> {
        let last = self.word.take();
        if self.fields.is_empty() {
            return Ok(false);
        }
        let (at, file) = (self.end - self.fields.left(), &self.of.file);
        let word = self.read().map_err(|what| file.damaged(at, what))?;
        if bucket_of_word(word.0) != self.bucket || last.is_some_and(|(hash, _)| hash >= word.0) {
            return Err(file.damaged(at, "a word is out of order"));
        }
        self.word = Some(word);
        Ok(true)
    }
}

impl<'f> WordCursor<'f> {
    fn read(&mut self) -> Result<(u64, &'f [u8]), String> {
        let length = self.fields.varint("length of a word")?;
        let text = self.fields.take(length, "word")?;
        let more = self.fields.varint("number of documents")?;
        if more >= self.fields.left() {
            return Err(format!(
                "a word in {more} documents and one in {} bytes",
                self.fields.left()
            ));
        }
        self.list.clear();
        let mut next = 0_u64;
        for _ in 0..=more {
            let value = self.fields.varint("document of a word")?;
            let more = value & SMALL;
            let times = more
                + 1
                + if more == SMALL {
                    self.fields.varint("count of a word")?
                } else {
                    0
                };
            let place = next.saturating_add(value >> 2);
            let (place, times) = match (u32::try_from(place), u32::try_from(times)) {
                (Ok(place), Ok(times)) if place < self.documents => (place, times),
                _ => {
                    return Err(format!(
                        "a word stands {times} times at place {place}, of {}",
                        self.documents
                    ));
                }
            };
            self.list.push(WordCount { place, times });
            next = u64::from(place) + 1;
        }
        Ok((xxh3_64(text), text))
    }
}

/// The words of several segments as one, of what still counts, with other numbers for their places.
pub struct WordMerger<'v> {
    /// Each with, for each place, the new number, or `NONE`.
    files: Vec<(&'v WordFile, &'v [u32])>,
}

impl<'v> WordMerger<'v> {
    /// None if a segment has no dictionary.
    pub fn new(segments: &[&'v Segment], targets: &'v [Vec<u32>]) -> Option<Self> {
        let file = |(segment, targets): (&&'v Segment, &'v Vec<u32>)| {
            Some((segment.words.as_ref()?, &targets[..]))
        };
        Some(Self {
            files: segments
                .iter()
                .zip(targets)
                .map(file)
                .collect::<Option<_>>()?,
        })
    }
}

/// Writes the words of some files, in one range, as one, with other numbers for their places: for
/// each place the new number, or `u32::MAX`.
pub fn merge_words(
    path: &Path,
    buckets: Range<usize>,
    inputs: &[(PathBuf, Vec<u32>)],
    threads: usize,
) -> Result<()> {
    let files = inputs
        .iter()
        .map(|(path, _)| WordFile::open(path))
        .collect::<Result<Vec<_>>>()?;
    if let Some(other) = files.iter().find(|file| file.buckets() != buckets) {
        return Err(other.file().damaged(0, "the words of another range"));
    }
    write(
        path,
        buckets,
        &WordMerger {
            files: files
                .iter()
                .zip(inputs.iter().map(|(_, targets)| &targets[..]))
                .collect(),
        },
        threads,
    )
}

/// Puts the words of neighbouring ranges one after the other.
pub fn join_words(path: &Path, inputs: &[PathBuf]) -> Result<()> {
    let failed = |error| Error::io(path.display(), error);
    let mut out = SealedWriter::create(path).map_err(failed)?;
    let (mut starts, mut end, mut words, mut pairs) = (vec![out.position()], 0, 0, 0);
    for input in inputs {
        let file = WordFile::open(input)?;
        if file.buckets().start != end {
            return Err(file.file().damaged(0, "the words of another range"));
        }
        end = file.buckets().end;
        for borders in file.description.starts.windows(2) {
            out.write_all(file.file.bytes(borders[0], borders[1] - borders[0])?)
                .map_err(failed)?;
            starts.push(out.position());
        }
        words += file.description.words;
        pairs += file.description.pairs;
    }
    out.finish(&WordFileDescription {
        kind: sections::WORDS.kind.to_owned(),
        buckets: BucketRange::from(&(0..end)),
        words,
        pairs,
        starts,
    })
    .map_err(failed)?;
    Ok(())
}

impl WordLists for WordMerger<'_> {
    fn for_each_in(&self, bucket: usize, each: &mut WordSink<'_>) -> Result<()> {
        let mut cursors = Vec::new();
        for &(words, targets) in &self.files {
            let mut cursor = words.words_in(bucket, targets.len() as u32)?;
            if cursor.advance()? {
                cursors.push((cursor, targets));
            }
        }
        let (mut list, mut text) = (Vec::new(), Vec::new());
        while let Some(least) = cursors
            .iter()
            .filter_map(|(cursor, _)| cursor.word.map(|(hash, _)| hash))
            .min()
        {
            list.clear();
            for (cursor, targets) in &mut cursors {
                let Some((_, of_word)) = cursor.word.filter(|(hash, _)| *hash == least) else {
                    continue;
                };
                let live = |&WordCount { place, times }: &WordCount| {
                    let target = targets[place as usize];
                    (target != NONE).then_some(WordCount {
                        place: target,
                        times,
                    })
                };
                list.extend(cursor.list.iter().filter_map(live));
                text.clear();
                text.extend_from_slice(of_word);
                cursor.advance()?;
            }
            list.sort_unstable();
            if !list.is_empty() {
                each(&text, &list)?;
            }
        }
        Ok(())
    }
}

/// Words in order, and of each document as many as it has tokens, unless some are elsewhere.
pub fn verify(check: &SegmentCheck<'_>) -> Result<()> {
    let segment = check.segment;
    let is_part = check.is_part;
    let Some(words) = &segment.words else {
        return Ok(());
    };
    let documents = &segment.documents;
    let (mut tokens, mut count, mut pairs) = (vec![0_u64; documents.len() as usize], 0, 0);
    for bucket in words.buckets() {
        let mut cursor = words.words_in(bucket, documents.len())?;
        while cursor.advance()? {
            count += 1;
            pairs += cursor.list.len() as u64;
            cursor
                .list
                .iter()
                .for_each(|times| tokens[times.place as usize] += u64::from(times.times));
        }
    }
    if (count, pairs) != words.counts() {
        let what = format!(
            "{count} words in {pairs} pairs with documents; the description says {:?}",
            words.counts()
        );
        return Err(words.file.damaged(0, what));
    }
    for (place, found) in (0..).zip(tokens) {
        let row = documents.row(place)?;
        let expected = if row.is_alias() {
            0
        } else {
            u64::from(row.tokens)
        };
        if found > expected || (found < expected && !is_part) {
            return Err(words.file.damaged(
                0,
                format!(
                    "document {} has {found} words, its row says {expected}",
                    row.number
                ),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::posting::BUCKETS;

    struct TestWordLists(Vec<(&'static str, Vec<WordCount>)>);

    impl WordLists for TestWordLists {
        fn for_each_in(&self, bucket: usize, each: &mut WordSink<'_>) -> Result<()> {
            let mut words: Vec<_> = self
                .0
                .iter()
                .map(|(text, list)| (xxh3_64(text.as_bytes()), text, list))
                .collect();
            words.sort_unstable();
            words
                .iter()
                .filter(|(hash, ..)| bucket_of_word(*hash) == bucket)
                .try_for_each(|(_, text, list)| each(text.as_bytes(), list))
        }
    }

    #[test]
    fn words_are_read_as_they_were_written() {
        let list = |list: &[(u32, u32)]| {
            list.iter()
                .map(|&(place, times)| WordCount { place, times })
                .collect::<Vec<_>>()
        };
        let lists = TestWordLists(vec![
            ("the", list(&[(0, 1), (1, 3), (2, 4), (900, u32::MAX)])),
            ("", list(&[(7, 2)])),
            ("plagiát", list(&[(899, 5)])),
        ]);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("words");
        write(&path, 0..BUCKETS, &lists, 2).unwrap();
        let file = WordFile::open(&path).unwrap();
        assert_eq!(file.counts(), (3, 6));
        let mut found = Vec::new();
        for bucket in 0..BUCKETS {
            let mut cursor = file.words_in(bucket, 901).unwrap();
            while cursor.advance().unwrap() {
                found.push((
                    std::str::from_utf8(cursor.word.unwrap().1).unwrap(),
                    cursor.list.clone(),
                ));
            }
        }
        found.sort_unstable();
        let mut expected = lists.0;
        expected.sort_unstable();
        assert_eq!(found, expected);
        // A place beyond the last document.
        let is_refused = |bucket| {
            file.words_in(bucket, 900)
                .and_then(|mut cursor| cursor.advance())
                .is_err()
        };
        assert_eq!((0..BUCKETS).filter(|&bucket| is_refused(bucket)).count(), 1);
    }
}
