//! Words of ASCII text, found 64 bytes at a time.
//!
//! A piece of text is folded to lower case eight bytes at a time, which also gives a bit for each byte that belongs to a word. Words
//! start and end where this bit changes. They are copied 16 bytes at a time. A loop over single bytes took three times as long,
//! because it guesses the end of every word wrong; it was a fifth of the time of an index build.

use crate::base::num::{ToU32, ToUsize};
use crate::text::stream::{Span, Tokens};

/// The number of bytes whose bits fill a number.
const BLOCK: usize = 64;
/// The number of bytes of a piece. Small, because text in other scripts has ASCII only in between.
const PIECE: usize = 16 * BLOCK;
/// The number of bytes that are copied at once; most words have fewer.
const COPIED: usize = 16;

/// Finds words of ASCII text; owns the reused buffers.
pub struct AsciiWords {
    /// The number of bytes of the piece.
    length: usize,
    /// The piece in lower case. More bytes follow, so that words can be copied without regard to their ends.
    folded: [u8; PIECE + COPIED],
    /// Where runs of letters and digits start and end, one after the other.
    borders: [u16; PIECE + 2],
    /// The number of borders.
    count: usize,
}

impl AsciiWords {
    /// Empty buffers.
    pub fn new() -> Self {
        Self {
            length: 0,
            folded: [0; PIECE + COPIED],
            borders: [0; PIECE + 2],
            count: 0,
        }
    }

    /// Appends words as long as the text is ASCII. Returns the start of the first word or separator that
    /// is not, or of a word that fills a piece.
    pub fn tokenize(&mut self, bytes: &[u8], mut at: usize, out: &mut Tokens) -> usize {
        loop {
            let next = self.tokenize_piece(bytes, at, out);
            if next == at || next == bytes.len() || !bytes[next].is_ascii() {
                return next;
            }
            at = next;
        }
    }

    /// Appends the words of one piece, except the last if it may go on. Returns where the next piece starts.
    fn tokenize_piece(&mut self, bytes: &[u8], at: usize, out: &mut Tokens) -> usize {
        self.fold(&bytes[at..]);
        let is_last = at + self.length == bytes.len();
        let base = out.text.len();
        if base + self.length >= u32::MAX as usize {
            return at;
        }
        // A word is followed by at least one separator, whose place its line feed takes; the last one may not be.
        out.text.resize(base + self.length + 1 + COPIED, 0);
        let words = &mut out.text[base..];
        let mut runs = self.borders[..self.count]
            .as_chunks::<2>()
            .0
            .iter()
            .peekable();
        let (mut next, mut written) = (self.length, 0);
        while let Some(&[start, mut end]) = runs.next() {
            let word = written;
            written += self.copy([start, end], words, written);
            // An apostrophe inside a word is dropped.
            while self.folded[usize::from(end)] == b'\''
                && let Some(&[start, next_end]) = runs.next_if(|[start, _]| *start == end + 1)
            {
                written += self.copy([start, next_end], words, written);
                end = next_end;
            }
            if !is_last && self.may_go_on(usize::from(end)) {
                (next, written) = (usize::from(start), word);
                break;
            }
            out.ends.push((base + written).to_u32());
            words[written] = b'\n';
            written += 1;
            if let Some(spans) = &mut out.spans {
                spans.push(Span {
                    start: (at + usize::from(start)).to_u32(),
                    end: (at + usize::from(end)).to_u32(),
                });
            }
        }
        out.text.truncate(base + written);
        at + next
    }

    /// Copies a run of letters and digits to `words[to..]`, and maybe more. Returns its length.
    fn copy(&self, [start, end]: [u16; 2], words: &mut [u8], to: usize) -> usize {
        let (start, length) = (usize::from(start), usize::from(end - start));
        let mut copied = 0;
        loop {
            words[to + copied..][..COPIED]
                .copy_from_slice(&self.folded[start + copied..][..COPIED]);
            copied += COPIED;
            if copied >= length {
                return length;
            }
        }
    }

    /// Whether a word that ends at `end` may go on after the piece.
    fn may_go_on(&self, end: usize) -> bool {
        end == self.length || end + 1 == self.length && self.folded[end] == b'\''
    }

    /// Takes the start of a text as the piece, as far as it is ASCII.
    fn fold(&mut self, bytes: &[u8]) {
        (self.length, self.count) = (0, 0);
        let (blocks, rest) = bytes[..bytes.len().min(PIECE)].as_chunks::<BLOCK>();
        let mut is_in_word = 0;
        let mut is_ascii = true;
        for block in blocks {
            is_ascii = self.fold_block(block, BLOCK, &mut is_in_word);
            if !is_ascii {
                break;
            }
        }
        if is_ascii && !rest.is_empty() {
            let mut block = [0; BLOCK];
            block[..rest.len()].copy_from_slice(rest);
            self.fold_block(&block, rest.len(), &mut is_in_word);
        }
        if is_in_word == 1 {
            self.borders[self.count] = self.length as u16;
            self.count += 1;
        }
    }

    /// Adds the first `length` bytes of a block, or those before the first that is not ASCII; then it returns false. `is_in_word`
    /// tells of the last byte, as 0 or 1.
    fn fold_block(&mut self, block: &[u8; BLOCK], length: usize, is_in_word: &mut u64) -> bool {
        let (mut in_word, mut not_ascii) = (0, 0);
        let folded = &mut self.folded[self.length..self.length + BLOCK];
        let eights = block.as_chunks::<8>().0.iter();
        for (at, (eight, folded)) in eights.zip(folded.as_chunks_mut::<8>().0).enumerate() {
            let eight = u64::from_le_bytes(*eight);
            let (lower, tops) = fold(eight & !TOPS);
            *folded = lower.to_le_bytes();
            in_word |= to_bits(tops) << (8 * at);
            not_ascii |= eight & TOPS;
        }
        let mut ascii = length;
        if not_ascii != 0 {
            ascii = block.iter().take_while(|byte| byte.is_ascii()).count();
        }
        if ascii < BLOCK {
            in_word &= (1 << ascii) - 1;
        }
        let mut changes = in_word ^ (in_word << 1 | *is_in_word);
        while changes != 0 {
            self.borders[self.count] = (self.length + changes.trailing_zeros().to_usize()) as u16;
            self.count += 1;
            changes &= changes - 1;
        }
        *is_in_word = in_word >> (BLOCK - 1);
        self.length += ascii;
        not_ascii == 0
    }
}

/// The top bit of each of eight bytes.
const TOPS: u64 = each(0x80);

/// The same byte eight times.
const fn each(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// Eight ASCII bytes in lower case, and the top bit of each that is a letter or a digit.
///
/// To add 0x80 − x to an ASCII byte sets its top bit if it is x or more, and never carries into the next byte.
fn fold(bytes: u64) -> (u64, u64) {
    let at_least = |bytes: u64, least: u8| bytes + each(0x80 - least);
    // This maps upper to lower case, and makes no letter of what is none.
    let lower = bytes | each(0x20);
    let letters = at_least(lower, b'a') & !at_least(lower, b'z' + 1) & TOPS;
    let digits = at_least(bytes, b'0') & !at_least(bytes, b'9' + 1) & TOPS;
    (bytes | letters >> 2, letters | digits)
}

/// The top bits of eight bytes, the first byte's lowest. The multiplication moves the bit of byte i from place 8 i to place 56 + i.
fn to_bits(tops: u64) -> u64 {
    (tops >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ascii_byte_is_folded() {
        for byte in 0..128_u8 {
            let (folded, tops) = fold(each(byte));
            let is_in_word = byte.is_ascii_alphanumeric();
            assert_eq!(to_bits(tops), if is_in_word { 255 } else { 0 }, "{byte}");
            if is_in_word || byte == b'\'' {
                assert_eq!(folded, each(byte.to_ascii_lowercase()), "{byte}");
            }
        }
        assert_eq!(to_bits(0x80 << 16 | 0x80), 0b101);
    }

    /// The definition, byte by byte.
    fn words_of(text: &str) -> Vec<(String, [usize; 2])> {
        let bytes = text.as_bytes();
        let is_letter = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_alphanumeric);
        let mut words: Vec<(String, [usize; 2])> = Vec::new();
        for at in (0..bytes.len()).filter(|&at| is_letter(at)) {
            let letter = char::from(bytes[at].to_ascii_lowercase());
            match words.last_mut() {
                Some((word, [_, end]))
                    if *end == at || (*end + 1 == at && bytes[*end] == b'\'') =>
                {
                    word.push(letter);
                    *end = at + 1;
                }
                _ => words.push((letter.to_string(), [at, at + 1])),
            }
        }
        words
    }

    fn check(text: &str) {
        let mut tokens = Tokens::new(true);
        let next = AsciiWords::new().tokenize(text.as_bytes(), 0, &mut tokens);
        let spans = tokens.spans().unwrap().iter();
        let found: Vec<_> = tokens
            .iter()
            .zip(spans)
            .map(|(token, span)| {
                let token = String::from_utf8(token.to_vec()).unwrap();
                (token, [span.start, span.end].map(|at| at as usize))
            })
            .collect();
        let expected = words_of(text);
        let before = expected.iter().take_while(|word| word.1[0] < next).count();
        assert_eq!(found, expected[..before], "{text}");
        // A word that fills a piece, maybe with an apostrophe, is left to the general path.
        let longest = expected.iter().map(|(_, span)| span[1] - span[0]).max();
        assert!(next == text.len() || longest >= Some(PIECE - 1), "{text}");
    }

    #[test]
    fn words_may_lie_across_blocks_and_pieces() {
        for length in [
            1, 2, 15, 16, 17, 63, 64, 65, 200, 1020, 1023, 1024, 1025, 3000,
        ] {
            for before in [0, 1, 7, 62, 63, 64, 960, 1000, 1021, 1022, 1023, 1024, 1025] {
                let word: String = ('a'..='z').cycle().take(length).collect();
                let dots = ".".repeat(before);
                for end in ["", ".", "'", "' ", "'S", "'s end", "''s", " 2'"] {
                    check(&format!("{dots}{word}{end}"));
                    check(&format!("One'S{dots}{word}{end}{word} x"));
                }
            }
        }
    }
}
