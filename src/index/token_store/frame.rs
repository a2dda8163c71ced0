//! A frame: the tokens of neighbouring contents, packed together.
//!
//! A frame has its own dictionary: the distinct tokens, the most frequent first. Each token of the
//! text is the number of its word in one to five bytes, so that common words take one byte. Both
//! are compressed with zstd, which finds what the contents of a frame have in common.
//!
//! Decoding takes a few nanoseconds a token: adding documents to an index reads all frames.

use crate::base::{
    codec::{Fields, put_varint},
    num::{ToU32, ToU64, ToUsize},
};
use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    io::Read,
};
use xxhash_rust::xxh3::xxh3_64;
use zstd::zstd_safe::CParameter;

/// The first byte of a code tells its length: below `TWO` one byte, then two, three, and five.
const TWO: u32 = 160;
const THREE: u32 = 224;
const FIVE: u32 = 255;
/// The first numbers that take two, three and five bytes.
const FIRST_OF_TWO: u32 = TWO;
const FIRST_OF_THREE: u32 = FIRST_OF_TWO + ((THREE - TWO) << 8);
const FIRST_OF_FIVE: u32 = FIRST_OF_THREE + ((FIVE - THREE) << 16);

/// The bytes of the longest code.
const MOST_CODE_BYTES: u64 = 5;

/// Ends a word in the dictionary; no token contains it.
const SEPARATOR: u8 = b'\n';
/// Higher levels save little, and cost more than everything else that dedup-spex does.
const LEVEL: i32 = 3;
/// Copies are found within 16 MiB: a frame is rarely larger.
const WINDOW_LOG: u32 = 24;

/// Uses a hash as it is.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|&byte| self.0 = self.0 << 8 | u64::from(byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Packs the tokens of a frame; its buffers are reused.
#[derive(Default)]
pub struct FrameEncoder {
    /// The number of each word, in the order of their first use. Words of one hash are one word to
    /// every scheme.
    numbers: HashMap<u64, u32, BuildHasherDefault<AsIs>>,
    /// All words, each followed by a separator, and where each ends.
    words: Vec<u8>,
    ends: Vec<u32>,
    counts: Vec<u32>,
    tokens: Vec<u32>,
}

impl FrameEncoder {
    /// Adds the next token.
    pub fn push(&mut self, token: &[u8]) {
        let next = self.counts.len().to_u32();
        let number = *self.numbers.entry(xxh3_64(token)).or_insert(next);
        if number == next {
            self.words.extend_from_slice(token);
            self.ends.push(self.words.len().to_u32());
            self.words.push(SEPARATOR);
            self.counts.push(0);
        }
        self.counts[number.to_usize()] += 1;
        self.tokens.push(number);
    }

    /// The bytes of the frame. Continues with an empty one.
    pub fn finish(&mut self) -> std::io::Result<Vec<u8>> {
        let order = self.order();
        let mut codes = vec![0; order.len()];
        let mut words = Vec::with_capacity(self.words.len());
        for (code, &number) in (0..).zip(&order) {
            codes[number.to_usize()] = code;
            words.extend_from_slice(self.word(number));
            words.push(SEPARATOR);
        }
        let mut tokens = Vec::with_capacity(2 * self.tokens.len());
        for number in &self.tokens {
            put_code(&mut tokens, codes[number.to_usize()]);
        }
        let packed = compress(&words)?;
        let mut bytes = Vec::new();
        for number in [
            order.len().to_u64(),
            words.len().to_u64(),
            packed.len().to_u64(),
            tokens.len().to_u64(),
        ] {
            put_varint(&mut bytes, number);
        }
        bytes.extend_from_slice(&packed);
        bytes.extend_from_slice(&compress(&tokens)?);
        self.clear();
        Ok(bytes)
    }

    /// The words in the order of their codes: by falling use, but words whose codes have three bytes
    /// or more by their letters, which compress better so.
    fn order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.counts.len().to_u32()).collect();
        order.sort_unstable_by(|&one, &two| {
            let count = |number: u32| self.counts[number.to_usize()];
            (count(two), self.word(one)).cmp(&(count(one), self.word(two)))
        });
        let rare = order.len().min(FIRST_OF_THREE.to_usize());
        order[rare..].sort_unstable_by_key(|&number| self.word(number));
        order
    }

    fn word(&self, number: u32) -> &[u8] {
        word(&self.words, &self.ends, number)
    }

    fn clear(&mut self) {
        self.numbers.clear();
        self.words.clear();
        self.ends.clear();
        self.counts.clear();
        self.tokens.clear();
    }
}

fn compress(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = zstd::bulk::Compressor::new(LEVEL)?;
    encoder.set_parameter(CParameter::WindowLog(WINDOW_LOG))?;
    encoder.set_parameter(CParameter::EnableLongDistanceMatching(true))?;
    encoder.compress(bytes)
}

/// Decompresses what should become `length` bytes.
fn decompress(bytes: &[u8], length: u64) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    // Bytes from disk may lie about the length: memory grows only with what there is.
    let decoder = zstd::Decoder::with_buffer(bytes).ok()?;
    decoder
        .take(length.checked_add(1)?)
        .read_to_end(&mut out)
        .ok()?;
    (out.len().to_u64() == length).then_some(out)
}

/// The same, where `length` was checked against `limit`.
fn decompress_at_once(bytes: &[u8], length: u64, limit: u64) -> Option<Vec<u8>> {
    if length > limit {
        return None;
    }
    let mut out = Vec::new();
    out.try_reserve_exact(length.to_usize()).ok()?;
    let mut decoder = zstd::bulk::Decompressor::new().ok()?;
    decoder.decompress_to_buffer(bytes, &mut out).ok()?;
    (out.len().to_u64() == length).then_some(out)
}

fn put_code(out: &mut Vec<u8>, code: u32) {
    if code < FIRST_OF_TWO {
        out.push(code as u8);
    } else if code < FIRST_OF_THREE {
        let rest = code - FIRST_OF_TWO;
        out.extend_from_slice(&[(TWO + (rest >> 8)) as u8, rest as u8]);
    } else if code < FIRST_OF_FIVE {
        let rest = code - FIRST_OF_THREE;
        let first = (THREE + (rest >> 16)) as u8;
        out.extend_from_slice(&[first, (rest >> 8) as u8, rest as u8]);
    } else {
        out.push(FIVE as u8);
        out.extend_from_slice(&code.to_be_bytes());
    }
}

/// The code at the start of some bytes, and its length.
fn take_code(bytes: &[u8]) -> Option<(u32, usize)> {
    let first = u32::from(*bytes.first()?);
    let byte = |at: usize| bytes.get(at).copied().map(u32::from);
    Some(if first < TWO {
        (first, 1)
    } else if first < THREE {
        (FIRST_OF_TWO + (((first - TWO) << 8) | byte(1)?), 2)
    } else if first < FIVE {
        let rest = ((first - THREE) << 16) | (byte(1)? << 8) | byte(2)?;
        (FIRST_OF_THREE + rest, 3)
    } else {
        let rest = bytes.get(1..5)?;
        (u32::from_be_bytes(rest.try_into().ok()?), 5)
    })
}

/// The words of a frame, and the codes of its tokens.
struct FrameCodes {
    words: Vec<u8>,
    ends: Vec<u32>,
    codes: Vec<u8>,
}

impl FrameCodes {
    /// Unpacks a frame of this many tokens; `None` if the bytes are none.
    fn open(bytes: &[u8], tokens: u64) -> Option<Self> {
        let mut fields = Fields::new(bytes);
        let mut number = || fields.varint("a number").ok();
        let (count, words_bytes) = (number()?, number()?);
        let (packed, codes_bytes) = (number()?, number()?);
        let words = decompress(fields.take(packed, "words").ok()?, words_bytes)?;
        let codes = fields.take(fields.left(), "tokens").ok()?;
        let codes = decompress_at_once(codes, codes_bytes, MOST_CODE_BYTES.checked_mul(tokens)?)?;
        let ends: Vec<u32> = memchr::memchr_iter(SEPARATOR, &words)
            .map(ToU32::to_u32)
            .collect();
        let is_whole = words.last().is_none_or(|&last| last == SEPARATOR);
        (ends.len().to_u64() == count && is_whole).then_some(Self { words, ends, codes })
    }

    fn word(&self, number: u32) -> &[u8] {
        word(&self.words, &self.ends, number)
    }

    /// Appends what `of` says of the next words, from the code at `at` on.
    fn read<T: Copy>(
        &self,
        at: &mut usize,
        count: usize,
        of: &[T],
        out: &mut Vec<T>,
    ) -> Option<()> {
        for _ in 0..count {
            let &first = self.codes.get(*at)?;
            let (code, length) = if u32::from(first) < TWO {
                (u32::from(first), 1)
            } else {
                take_code(&self.codes[*at..])?
            };
            out.push(*of.get(code.to_usize())?);
            *at += length;
        }
        Some(())
    }
}

fn word<'w>(words: &'w [u8], ends: &[u32], number: u32) -> &'w [u8] {
    let at = number.to_usize();
    let start = at.checked_sub(1).map_or(0, |before| ends[before] + 1);
    &words[start.to_usize()..ends[at].to_usize()]
}

/// The tokens of a frame.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    words: Vec<u8>,
    ends: Vec<u32>,
    /// The number of the word of each token.
    pub tokens: Vec<u32>,
}

impl Frame {
    /// Unpacks a frame of this many tokens; `None` if the bytes are none.
    pub fn decode(bytes: &[u8], tokens: u64) -> Option<Self> {
        let frame = FrameCodes::open(bytes, tokens)?;
        let numbers: Vec<u32> = (0..frame.ends.len().to_u32()).collect();
        let (mut at, mut read) = (0, Vec::new());
        frame.read(&mut at, tokens.to_usize(), &numbers, &mut read)?;
        (at == frame.codes.len()).then_some(Self {
            words: frame.words,
            ends: frame.ends,
            tokens: read,
        })
    }

    /// The bytes of a word.
    pub fn word(&self, number: u32) -> &[u8] {
        word(&self.words, &self.ends, number)
    }

    /// The hash of each word.
    pub fn hashes(&self) -> Vec<u64> {
        (0..self.ends.len().to_u32())
            .map(|number| xxh3_64(self.word(number)))
            .collect()
    }
}

/// Reads the hashes of the tokens of a frame, content by content: they fit into the cache.
pub struct FrameHashes {
    frame: FrameCodes,
    words: Vec<u64>,
    at: usize,
    hashes: Vec<u64>,
}

impl FrameHashes {
    /// Unpacks a frame of this many tokens; `None` if the bytes are none.
    pub fn open(bytes: &[u8], tokens: u64) -> Option<Self> {
        let frame = FrameCodes::open(bytes, tokens)?;
        let numbers = 0..frame.ends.len().to_u32();
        let words = numbers.map(|number| xxh3_64(frame.word(number)));
        Some(Self {
            words: words.collect(),
            frame,
            at: 0,
            hashes: Vec::new(),
        })
    }

    /// The hashes of the next tokens; `None` if there are fewer.
    pub fn take(&mut self, tokens: usize) -> Option<&[u64]> {
        self.hashes.clear();
        self.frame
            .read(&mut self.at, tokens, &self.words, &mut self.hashes)?;
        Some(&self.hashes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(tokens: &[String]) -> Vec<u8> {
        let mut encoder = FrameEncoder::default();
        tokens
            .iter()
            .for_each(|token| encoder.push(token.as_bytes()));
        encoder.finish().unwrap()
    }

    fn tokens_of(frame: &Frame) -> Vec<String> {
        let word = |&number: &u32| String::from_utf8(frame.word(number).to_vec()).unwrap();
        frame.tokens.iter().map(word).collect()
    }

    proptest! {
        #[test]
        fn tokens_are_read_back(tokens in prop::collection::vec("[a-c]{1,3}|é", 0..80)) {
            let bytes = encoded(&tokens);
            let frame = Frame::decode(&bytes, tokens.len() as u64).unwrap();
            prop_assert_eq!(tokens_of(&frame), tokens.clone());
            let mut hashes = FrameHashes::open(&bytes, tokens.len() as u64).unwrap();
            for token in &tokens {
                prop_assert_eq!(hashes.take(1), Some(&[xxh3_64(token.as_bytes())][..]));
            }
            prop_assert_eq!(hashes.take(1), None);
            prop_assert_eq!(Frame::decode(&bytes, tokens.len() as u64 + 1), None);
            // Damage never causes a panic.
            for end in 0..bytes.len() {
                let _ = Frame::decode(&bytes[..end], tokens.len() as u64);
                let mut flipped = bytes.clone();
                flipped[end] ^= 1 << (end % 8);
                let _ = Frame::decode(&flipped, tokens.len() as u64);
            }
        }
    }

    #[test]
    fn codes_of_all_lengths_are_read_back() {
        for code in [
            0,
            FIRST_OF_TWO - 1,
            FIRST_OF_TWO,
            FIRST_OF_THREE - 1,
            FIRST_OF_THREE,
            FIRST_OF_FIVE - 1,
            FIRST_OF_FIVE,
            u32::MAX,
        ] {
            let mut bytes = Vec::new();
            put_code(&mut bytes, code);
            assert_eq!(take_code(&bytes), Some((code, bytes.len())));
            assert_eq!(take_code(&bytes[..bytes.len() - 1]), None);
        }
    }

    #[test]
    fn many_words_are_read_back() {
        let tokens: Vec<String> = (0..60_000_u32)
            .map(|n| format!("w{}", (n * n) % 40_009))
            .collect();
        let bytes = encoded(&tokens);
        let frame = Frame::decode(&bytes, tokens.len() as u64).unwrap();
        assert_eq!(tokens_of(&frame), tokens);
    }
}
