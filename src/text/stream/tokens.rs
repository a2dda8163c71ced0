//! The tokens of one document, in one piece of memory.

use crate::base::{
    codec::clear_buffer,
    num::{ToU32, ToUsize},
};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Bytes `start..end` of the original text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The byte after the last one.
    pub end: u32,
}

impl Span {
    /// The span as the range of a slice.
    pub fn range(self) -> std::ops::Range<usize> {
        self.start.to_usize()..self.end.to_usize()
    }
}

/// The tokens of one document: their text one a line, and their spans where asked for.
///
/// The text is exactly what the document's hash is taken over, and what the binary stream carries:
/// each token followed by a line feed, which no token can contain. A buffer is reused from document
/// to document. It holds at most 4 GiB; what exceeds that is dropped and `overflowed` says so.
#[derive(Debug, Default, Clone)]
pub struct Tokens {
    pub(crate) text: Vec<u8>,
    /// Where in `text` each token's line feed stands.
    pub(crate) ends: Vec<u32>,
    pub(crate) spans: Option<Vec<Span>>,
    /// The tokens of the same document by each further tokenizer.
    pub(crate) others: Vec<Tokens>,
    overflowed: bool,
}

/// Ends a token in the text of tokens.
pub const SEPARATOR: u8 = b'\n';

impl Tokens {
    /// An empty buffer, with spans or without.
    pub fn new(with_spans: bool) -> Self {
        Self {
            spans: with_spans.then(Vec::new),
            ..Self::default()
        }
    }

    /// Removes all tokens, and frees large buffers.
    pub fn clear(&mut self) {
        clear_buffer(&mut self.text);
        clear_buffer(&mut self.ends);
        self.overflowed = false;
        if let Some(spans) = &mut self.spans {
            clear_buffer(spans);
        }
        self.others.iter_mut().for_each(Self::clear);
    }

    /// Bytes of memory, about.
    pub fn weight(&self) -> usize {
        self.text.len()
            + size_of_val(&self.ends[..])
            + size_of_val(self.spans().unwrap_or_default())
            + self.others.iter().map(Self::weight).sum::<usize>()
    }

    /// The tokens of the same document by each further tokenizer, where the scheme names several.
    pub fn others(&self) -> &[Self] {
        &self.others
    }

    /// The tokens by the tokenizer of this number.
    pub fn list(&self, number: usize) -> Option<&Self> {
        number
            .checked_sub(1)
            .map_or(Some(self), |other| self.others.get(other))
    }

    /// The number of tokens.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// True when the document has more than 4 GiB of tokens: it must not be used.
    pub fn overflowed(&self) -> bool {
        self.overflowed || self.others.iter().any(Self::overflowed)
    }

    /// Appends a token.
    pub fn push(&mut self, token: &str, span: Span) {
        self.text.extend_from_slice(token.as_bytes());
        self.finish(span);
    }

    /// Ends the token whose text was appended since the last one.
    pub(crate) fn finish(&mut self, span: Span) {
        if self.text.len() >= u32::MAX as usize {
            self.text.truncate(self.open_start());
            self.overflowed = true;
            return;
        }
        self.ends.push(self.text.len().to_u32());
        self.text.push(SEPARATOR);
        if let Some(spans) = &mut self.spans {
            spans.push(span);
        }
    }

    /// Where the text of the token under construction starts.
    pub(crate) fn open_start(&self) -> usize {
        self.ends.last().map_or(0, |&end| end.to_usize() + 1)
    }

    /// The bytes of a token.
    pub fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 {
            0
        } else {
            self.ends[index - 1].to_usize() + 1
        };
        &self.text[start..self.ends[index].to_usize()]
    }

    /// Some tokens, each followed by a line feed.
    pub fn joined(&self, tokens: std::ops::Range<usize>) -> &[u8] {
        let end_of = |token: usize| self.ends[token].to_usize() + 1;
        let start = if tokens.start == 0 {
            0
        } else {
            end_of(tokens.start - 1)
        };
        match tokens.end.checked_sub(1) {
            Some(last) if last >= tokens.start => &self.text[start..end_of(last)],
            _ => &[],
        }
    }

    /// The bytes of each token.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let token = &self.text[start..end.to_usize()];
            start = end.to_usize() + 1;
            token
        })
    }

    /// The span of each token, if the buffer has spans.
    pub fn spans(&self) -> Option<&[Span]> {
        self.spans.as_deref()
    }

    /// What makes two documents exact duplicates: XXH3, 128 bits, over the tokens one a line, of one tokenizer after the other.
    ///
    /// `printf 'lorem\nipsum\n' | xxhsum -H2` prints the same number.
    pub fn hash(&self) -> u128 {
        if self.others.is_empty() {
            return xxh3_128(&self.text);
        }
        let mut hash = Xxh3::new();
        hash.update(&self.text);
        self.others.iter().for_each(|list| hash.update(&list.text));
        hash.digest128()
    }

    /// Replaces the tokens by those in `text`, one a line.
    pub(crate) fn load(&mut self, text: &[u8]) -> Result<(), String> {
        self.clear();
        self.others.clear();
        if !text.is_empty() && text.last() != Some(&SEPARATOR) {
            return Err("token text does not end with a line feed".to_owned());
        }
        if text.len() > u32::MAX as usize {
            return Err("more than 4 GiB of tokens in one document".to_owned());
        }
        std::str::from_utf8(text).map_err(|error| {
            format!(
                "token text is not UTF-8 at its byte {}",
                error.valid_up_to()
            )
        })?;
        self.text.extend_from_slice(text);
        self.ends
            .extend(memchr::memchr_iter(SEPARATOR, text).map(|end| end.to_u32()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_again() {
        let mut tokens = Tokens::new(true);
        let span = Span { start: 3, end: 5 };
        ["lorem", "", "ipsum"]
            .iter()
            .for_each(|token| tokens.push(token, span));
        assert_eq!(
            tokens.iter().collect::<Vec<_>>(),
            [&b"lorem"[..], b"", b"ipsum"]
        );
        assert_eq!(
            (tokens.get(0), tokens.get(2)),
            (&b"lorem"[..], &b"ipsum"[..])
        );
        assert_eq!(tokens.spans(), Some(&[span; 3][..]));
        let mut copy = Tokens::default();
        copy.load(&tokens.text).unwrap();
        assert_eq!(
            (copy.text.clone(), copy.ends.clone()),
            (tokens.text.clone(), tokens.ends.clone())
        );
        assert!(copy.load(b"no end").is_err());
        assert!(copy.load(b"\xff\n").is_err());
    }

    /// As `printf 'lorem\nipsum\n' | xxhsum -H2` has it.
    #[test]
    fn the_hash_is_that_of_xxhsum() {
        let mut tokens = Tokens::default();
        ["lorem", "ipsum"]
            .iter()
            .for_each(|token| tokens.push(token, Span { start: 0, end: 0 }));
        assert_eq!(
            format!("{:032x}", tokens.hash()),
            "ee0f464e4cceef28aa1c6caef9a33d5b"
        );
    }
}
