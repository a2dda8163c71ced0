//!
//! A token is hashed with XXH3 (64 bits, no seed). A scheme makes one number of each window of `k` hashes; the
//! blot is its top `bits` bits, so a narrow blot is the beginning of the wide one. Every window is emitted, the
//! first one too; a document of fewer than `k` tokens gives one blot of all it has, one without tokens none.
//!
//! To add a scheme: a file here and a row in [`TABLE`]. The numbers are fixed forever by the tests below.

mod ordered;
mod xor;

use crate::{
    format::{Blots, Tokens, empty},
    token::dna,
};
use std::ops::{Range, RangeInclusive};
use xxhash_rust::xxh3::xxh3_64;

/// Appends a number for each window of `k` token hashes, or one for all of them if there are fewer.
type Windows = fn(hashes: &[u64], k: usize, out: &mut Vec<u64>);

/// Name, what it does, how windows are hashed.
pub const TABLE: [(&str, &str, Windows); 2] = [
    ("ordered", "the order of tokens counts", ordered::windows),
    ("xor", "it does not, and words that occur twice in a window cancel (as dupi does it)", xor::windows),
];

/// Windows whose order counts, for whoever has hashes of tokens already.
pub const ORDERED: Windows = ordered::windows;

/// What there is, for a help text.
pub fn help() -> String {
    TABLE.map(|(name, what, _)| format!("{name}: {what}")).join(";\n")
}

/// The windows that make sense.
pub const K: RangeInclusive<u32> = 1..=1024;
pub const INTERLEAVE: RangeInclusive<u32> = 1..=64;

/// How windows are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    pub scheme: String,
    pub k: u32,
    /// Token i belongs to stream i mod this; windows are made within each stream.
    pub interleave: u32,
    pub bits: u8,
    /// Tokens are bases: both strands give the same blots.
    pub is_dna: bool,
}

impl Window {
    /// As the scheme has it: `ordered:8`, `xor:10x2`.
    pub fn name(&self) -> String {
        match self.interleave {
            1 => format!("{}:{}", self.scheme, self.k),
            streams => format!("{}:{}x{streams}", self.scheme, self.k),
        }
    }
}

impl Window {
    /// The scheme, k and interleaving of a name such as `ordered:8` or `xor:10x2`.
    pub fn parse_name(name: &str) -> Option<(&str, u32, u32)> {
        let (scheme, windows) = name.rsplit_once(':')?;
        let (k, interleave) = windows.split_once('x').unwrap_or((windows, "1"));
        Some((scheme, k.parse().ok()?, interleave.parse().ok()?))
    }
}

/// Turns tokens into blots; owns the buffers that are used again and again.
#[derive(Debug, Clone)]
pub struct Blotter {
    window: Window,
    windows: Windows,
    hashes: Vec<u64>,
    streams: Vec<Stream>,
    /// A stretch of a sequence, and of the other strand.
    strands: [Stream; 2],
}

/// Windows of a sequence that are made at a time.
const BLOCK_WINDOWS: usize = 1 << 12;

/// One of the interleaved streams of a document.
#[derive(Debug, Clone, Default)]
struct Stream {
    hashes: Vec<u64>,
    values: Vec<u64>,
}

impl Blotter {
    pub fn new(window: Window) -> Result<Self, String> {
        let found = TABLE.iter().find(|(name, ..)| *name == window.scheme);
        let names: Vec<_> = TABLE.iter().map(|(name, ..)| *name).collect();
        let &(.., windows) = found.ok_or_else(|| format!("no scheme '{}'; there are {}", window.scheme, names.join(", ")))?;
        let streams = vec![Stream::default(); window.interleave as usize];
        Ok(Self { window, windows, hashes: Vec::new(), streams, strands: Default::default() })
    }

    /// Replaces `out` by the blots of `tokens`.
    pub fn blot(&mut self, tokens: &Tokens, out: &mut Blots) {
        out.clear();
        out.tokens = tokens.len() as u64;
        if self.window.is_dna {
            self.blot_strands(tokens, out);
        } else {
            empty(&mut self.hashes);
            self.hashes.extend(tokens.iter().map(xxh3_64));
            if self.window.interleave == 1 {
                (self.windows)(&self.hashes, self.window.k as usize, &mut out.values);
                out.positions.extend(0..out.values.len() as u32);
            } else {
                self.blot_streams(out);
            }
        }
        let shift = 64 - u32::from(self.window.bits);
        out.values.iter_mut().for_each(|value| *value >>= shift);
    }

    /// Gives back large buffers.
    pub fn give_back(&mut self) {
        empty(&mut self.hashes);
        for stream in &mut self.streams {
            empty(&mut stream.hashes);
            empty(&mut stream.values);
        }
    }

    /// The blots of all streams, in the order of their first tokens.
    fn blot_streams(&mut self, out: &mut Blots) {
        let streams = self.streams.len();
        for (index, stream) in self.streams.iter_mut().enumerate() {
            empty(&mut stream.hashes);
            stream.hashes.extend(self.hashes.iter().skip(index).step_by(streams));
            empty(&mut stream.values);
            (self.windows)(&stream.hashes, self.window.k as usize, &mut stream.values);
        }
        for position in 0..self.hashes.len() {
            if let Some(&value) = self.streams[position % streams].values.get(position / streams) {
                out.push(value, position as u32);
            }
        }
    }

    /// For each window the smaller of two numbers: its own, and that of the window that faces it on the other strand.
    /// Windows with unknown bases are left out. Sequences are long, so this goes block by block.
    fn blot_strands(&mut self, tokens: &Tokens, out: &mut Blots) {
        let (streams, k) = (self.window.interleave as usize, self.window.k as usize);
        for first in 0..streams {
            let bases = (tokens.len().saturating_sub(first)).div_ceil(streams);
            let windows = if bases == 0 { 0 } else { (bases + 1).saturating_sub(k).max(1) };
            for start in (0..windows).step_by(BLOCK_WINDOWS) {
                let end = (start + BLOCK_WINDOWS.min(windows - start) + k - 1).min(bases);
                self.blot_block(tokens, first, start..end, out);
            }
        }
        sort_by_position(out);
    }

    /// The windows within some bases of a stream.
    fn blot_block(&mut self, tokens: &Tokens, first: usize, bases: Range<usize>, out: &mut Blots) {
        let (streams, k) = (self.window.interleave as usize, self.window.k as usize);
        let base = |at: usize| tokens.get(first + at * streams);
        let [own, other] = &mut self.strands;
        own.refill(bases.clone().map(|at| xxh3_64(base(at))), k, self.windows);
        other.refill(bases.clone().rev().map(|at| xxh3_64(dna::complement(base(at)))), k, self.windows);
        let width = k.min(bases.len());
        let unknown = xxh3_64(dna::UNKNOWN);
        // Behind the last unknown base.
        let mut known = (0..width - 1).rev().find(|&at| own.hashes[at] == unknown).map_or(0, |at| at + 1);
        for (at, (&one, &two)) in own.values.iter().zip(other.values.iter().rev()).enumerate() {
            if own.hashes[at + width - 1] == unknown {
                known = at + width;
            }
            if known <= at {
                out.push(one.min(two), (first + (bases.start + at) * streams) as u32);
            }
        }
    }
}

impl Stream {
    fn refill(&mut self, hashes: impl Iterator<Item = u64>, k: usize, windows: Windows) {
        self.hashes.clear();
        self.hashes.extend(hashes);
        self.values.clear();
        windows(&self.hashes, k, &mut self.values);
    }
}

fn sort_by_position(blots: &mut Blots) {
    if blots.positions.is_sorted() {
        return;
    }
    let mut both: Vec<_> = blots.positions.iter().copied().zip(blots.values.iter().copied()).collect();
    both.sort_unstable();
    (blots.positions, blots.values) = both.into_iter().unzip();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Span;
    use proptest::prelude::*;

    fn tokens(words: &[impl AsRef<str>]) -> Tokens {
        let mut tokens = Tokens::default();
        words.iter().for_each(|word| tokens.push(word.as_ref(), Span { start: 0, end: 0 }));
        tokens
    }

    fn window(scheme: &str, k: u32, interleave: u32, bits: u8) -> Window {
        Window { scheme: scheme.to_owned(), k, interleave, bits, is_dna: false }
    }

    fn blots_of(window: Window, words: &[impl AsRef<str>]) -> Blots {
        let mut out = Blots::default();
        Blotter::new(window).unwrap().blot(&tokens(words), &mut out);
        out
    }

    fn hex(window: Window, text: &str) -> String {
        let words: Vec<_> = text.split(' ').filter(|word| !word.is_empty()).collect();
        let digits = usize::from(window.bits.div_ceil(4));
        blots_of(window, &words).values.iter().map(|value| format!("{value:0digits$x}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn blots_are_fixed_forever() {
        let text = "lorem ipsum dolor sit amet";
        for (window, expected) in [
            (window("ordered", 3, 1, 32), "d96da365 17faaf25 68072423"),
            (window("ordered", 3, 1, 64), "d96da3656b6147c1 17faaf257698fed6 68072423781c3c6d"),
            (window("ordered", 8, 1, 32), "32d770d7"),
            (window("ordered", 2, 2, 18), "28c89 01bfd 3186a"),
            (window("xor", 3, 1, 32), "91fefd89 22b44be8 30a82272"),
            (window("xor", 2, 2, 64), "719bb81042f4f19c 05f99c3cddc6da07 d534fbd7b47a5966"),
        ] {
            assert_eq!(hex(window, text), expected);
        }
        assert_eq!(hex(window("ordered", 3, 1, 32), ""), "");
    }

    #[test]
    fn repeated_words_cancel_in_xor_only() {
        for scheme in ["ordered", "xor"] {
            let of = |word| hex(window(scheme, 8, 1, 32), &[word; 8].join(" "));
            assert_eq!(of("ha") == of("ho"), scheme == "xor");
        }
        assert_eq!(hex(window("xor", 8, 1, 32), "a a a a a a a a"), "00000000");
        assert_ne!(hex(window("ordered", 4, 1, 32), "a b a b"), hex(window("ordered", 4, 1, 32), "a a b b"));
        assert_eq!(hex(window("xor", 4, 1, 32), "a b a c"), hex(window("xor", 4, 1, 32), "c a b a"));
    }

    /// The definition, written down without rolling.
    fn simple(window: &Window, words: &[String]) -> Vec<(u32, u64)> {
        let streams = window.interleave as usize;
        let mut found = Vec::new();
        for first in 0..words.len() {
            let stream: Vec<_> = words[first..].iter().step_by(streams).collect();
            let whole = words[first % streams..].iter().step_by(streams).count();
            let k = window.k as usize;
            if stream.len() < k && (first >= streams || whole >= k) {
                continue;
            }
            let hashes = stream[..k.min(stream.len())].iter().map(|word| xxh3_64(word.as_bytes()));
            let value = if window.scheme == "xor" { hashes.fold(0, |a, b| a ^ b) } else { ordered::simple(hashes) };
            found.push((first as u32, value >> (64 - window.bits)));
        }
        found
    }

    proptest! {
        #[test]
        fn rolling_is_hashing_each_window(
            words in prop::collection::vec("[ab]{1,2}", 0..40), k in 1_u32..9, interleave in 1_u32..4, bits in 16_u8..=64, xor: bool,
        ) {
            let window = window(if xor { "xor" } else { "ordered" }, k, interleave, bits);
            let blots = blots_of(window.clone(), &words);
            let found: Vec<_> = blots.positions.iter().copied().zip(blots.values).collect();
            prop_assert_eq!(found, simple(&window, &words));
        }

        #[test]
        fn both_strands_give_the_same_blots(strand in "([acgt]{0,30}n?){0,8}", k in 1_u32..9, interleave in 1_u32..4, xor: bool) {
            let window = Window { is_dna: true, ..window(if xor { "xor" } else { "ordered" }, k, interleave, 32) };
            let bases: Vec<_> = strand.chars().map(String::from).collect();
            let facing: Vec<_> = bases.iter().rev().map(|base| String::from_utf8_lossy(dna::complement(base.as_bytes())).into_owned()).collect();
            let [mut one, mut two] = [bases, facing].map(|bases| blots_of(window.clone(), &bases).values);
            one.sort_unstable();
            two.sort_unstable();
            prop_assert_eq!(one, two);
        }
    }

    #[test]
    fn no_window_holds_an_unknown_base() {
        let window = Window { is_dna: true, ..window("ordered", 3, 1, 32) };
        let bases: Vec<_> = "acgtnacg".chars().map(String::from).collect();
        assert_eq!(blots_of(window, &bases).positions, [0, 1, 5]);
    }
}
