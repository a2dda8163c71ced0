//! Turns tokens into blots: one file per scheme, one per selection, and SPEX.
//!
//! A token is hashed with XXH3 (64 bits, no seed). A scheme combines each window of `k` hashes into
//! one number; the blot is its top `bits` bits, so a narrow blot is a prefix of the wide one. Every
//! window has a blot. A document of fewer than `k` tokens has one blot of all its tokens, a
//! document without tokens none.
//!
//! To add a scheme, add a file here and a row in `shape::RUNS` (windows of consecutive tokens) or
//! `shape::UNITS` (windows of other units). The tests below fix the numbers for all versions.

mod context;
mod document_printer;
mod letters;
pub mod minhash;
mod ordered;
mod run;
pub mod select;
mod shape;
mod sorted;
mod spaced;
pub mod spex;
mod xor;

use crate::{
    base::codec::clear_buffer,
    text::stream::{Blots, Tokens},
};
pub use document_printer::DocumentPrinter;
pub use ordered::{ORDERED, windows as ordered_windows};
use ordered::{append, stir};
use run::Runs;
pub use shape::{
    NamedShape, Run, RunScheme, UnitScheme, UnitWindows, WindowShape, has_units, help,
    omits_window_length, parse, verbatim,
};
use spaced::Mask;
use std::ops::RangeInclusive;
use xxhash_rust::xxh3::xxh3_64;

/// The valid window lengths, in tokens.
pub const K: RangeInclusive<u32> = 1..=1024;
/// The valid numbers of interleaved streams.
pub const INTERLEAVE: RangeInclusive<u32> = 1..=64;

/// How blots are made of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Which tokens make a window, and how they count.
    pub shape: WindowShape,
    /// The bits of a blot.
    pub bits: u8,
    /// Whether tokens are bases: then both strands give the same blots.
    pub is_dna: bool,
}

/// The initial value of the hashes of a scheme, so that those of two schemes agree only by chance.
fn seed(name: &str) -> u64 {
    xxh3_64(name.as_bytes())
}

/// Turns tokens into blots; owns the reused buffers.
#[derive(Debug, Clone)]
pub struct Blotter {
    window: Window,
    windower: Windower,
    hashes: Vec<u64>,
    with_positions: bool,
}

/// The number of tokens whose hashes are in memory at a time.
const BLOCK_TOKENS: usize = 1 << 16;

/// The state of a scheme.
#[derive(Debug, Clone)]
enum Windower {
    Runs(Runs),
    Spaced(Mask),
    Units(Box<dyn UnitWindows>),
}

impl Blotter {
    /// A blotter for these windows, or why there is none.
    pub fn new(window: Window) -> Result<Self, String> {
        let windower = match &window.shape {
            WindowShape::Run {
                kind,
                k,
                interleave,
            } => Windower::Runs(Runs::new(kind.windows, *k, *interleave)),
            shape if window.is_dna => {
                return Err(format!(
                    "{shape}: of both strands of a sequence there are {} windows",
                    shape::run_names()
                ));
            }
            WindowShape::Spaced(mask) => Windower::Spaced(mask.clone()),
            WindowShape::Units { kind, n } => Windower::Units((kind.build)(*n)),
        };
        Ok(Self {
            window,
            windower,
            hashes: Vec::new(),
            with_positions: true,
        })
    }

    /// Omits positions that only count the windows, and marks the blots: see [`Blots::is_counted`].
    pub fn without_positions(&mut self) {
        self.with_positions = false;
    }

    /// The shape of the windows.
    pub fn shape(&self) -> &WindowShape {
        &self.window.shape
    }

    /// Replaces `out` by the blots of `tokens`.
    pub fn blot(&mut self, tokens: &Tokens, out: &mut Blots) {
        out.clear();
        out.tokens = tokens.len() as u64;
        clear_buffer(&mut self.hashes);
        let mut is_counted = false;
        match &mut self.windower {
            Windower::Runs(runs) if self.window.is_dna => runs.blot_strands(tokens, out),
            Windower::Runs(runs) => match runs.in_a_row() {
                Some((k, windows)) => {
                    by_blocks(tokens, k, &mut self.hashes, |hashes| {
                        windows(hashes, k, &mut out.values)
                    });
                    is_counted = true;
                }
                None => {
                    self.hashes.extend(tokens.iter().map(xxh3_64));
                    runs.blot_streams(&self.hashes, out);
                }
            },
            Windower::Spaced(mask) => {
                by_blocks(tokens, mask.length(), &mut self.hashes, |hashes| {
                    mask.windows(hashes, &mut out.values)
                });
                is_counted = true;
            }
            Windower::Units(units) => units.blot(tokens, out),
        }
        out.is_counted = is_counted && !self.with_positions;
        if is_counted && self.with_positions {
            out.positions.extend(0..out.values.len() as u32);
        }
        let shift = 64 - u32::from(self.window.bits);
        out.values.iter_mut().for_each(|value| *value >>= shift);
    }

    /// The XXH3 of each token of the document that was worked on last. Of a large document, and where
    /// windows do not consist of tokens in a row, they are not kept: then some or all are missing.
    pub fn token_hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// The last token of the window that starts with `first`; the greatest one if there are
    /// several.
    pub fn last_token(&self, tokens: &Tokens, first: usize) -> usize {
        match &self.windower {
            Windower::Units(units) => units.last_token(tokens, first),
            Windower::Runs(_) | Windower::Spaced(_) => {
                (first + self.window.shape.tokens().unwrap_or(1) as usize - 1).min(tokens.len() - 1)
            }
        }
    }

    /// Frees large buffers.
    pub fn release_buffers(&mut self) {
        clear_buffer(&mut self.hashes);
        match &mut self.windower {
            Windower::Runs(runs) => runs.release_buffers(),
            Windower::Spaced(_) => {}
            Windower::Units(units) => units.release_buffers(),
        }
    }
}

/// Passes the hashes of all tokens to `windows` block by block, so that each window of `length`
/// tokens is in one block. A document that is shorter than a window is one block.
fn by_blocks(
    tokens: &Tokens,
    length: usize,
    hashes: &mut Vec<u64>,
    mut windows: impl FnMut(&[u64]),
) {
    let overlap = length - 1;
    for token in tokens.iter() {
        hashes.push(xxh3_64(token));
        if hashes.len() == BLOCK_TOKENS + overlap {
            windows(hashes);
            hashes.drain(..BLOCK_TOKENS);
        }
    }
    if hashes.len() > overlap || tokens.len() < length {
        windows(hashes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{stream::Span, token::dna};
    use proptest::prelude::*;

    fn tokens(words: &[impl AsRef<str>]) -> Tokens {
        let mut tokens = Tokens::default();
        words
            .iter()
            .for_each(|word| tokens.push(word.as_ref(), Span { start: 0, end: 0 }));
        tokens
    }

    fn window(scheme: &str, k: u32, interleave: u32, bits: u8) -> Window {
        let shape = parse(&scheme.into(), Run { k, interleave })
            .unwrap()
            .remove(0)
            .shape;
        Window {
            shape,
            bits,
            is_dna: false,
        }
    }

    fn blots_of(window: Window, words: &[impl AsRef<str>]) -> Blots {
        let mut out = Blots::default();
        Blotter::new(window).unwrap().blot(&tokens(words), &mut out);
        out
    }

    fn hex(window: Window, text: &str) -> String {
        let words: Vec<_> = text.split(' ').filter(|word| !word.is_empty()).collect();
        let digits = usize::from(window.bits.div_ceil(4));
        blots_of(window, &words)
            .values
            .iter()
            .map(|value| format!("{value:0digits$x}"))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn blots_are_the_same_in_all_versions() {
        let text = "lorem ipsum dolor sit amet";
        for (window, expected) in [
            (window("ordered", 3, 1, 32), "d96da365 17faaf25 68072423"),
            (
                window("ordered", 3, 1, 64),
                "d96da3656b6147c1 17faaf257698fed6 68072423781c3c6d",
            ),
            (window("ordered", 8, 1, 32), "32d770d7"),
            (window("ordered", 2, 2, 18), "28c89 01bfd 3186a"),
            (window("xor", 3, 1, 32), "91fefd89 22b44be8 30a82272"),
            (
                window("xor", 2, 2, 64),
                "719bb81042f4f19c 05f99c3cddc6da07 d534fbd7b47a5966",
            ),
            (window("sorted", 3, 1, 32), "b9678bf4 62363932 e7b280b9"),
            (window("spaced:1101", 0, 0, 32), "059353cf 7bddbc1e"),
            (
                window("context:3", 0, 0, 32),
                "9f925847 89b49ec6 b5cd654c 1c1af218",
            ),
            (
                window("letters:16", 0, 0, 32),
                "251aa966 ac5208e0 a147775a 9466d7fa 0c0540dd 62fa471c 8d2059f5",
            ),
        ] {
            assert_eq!(hex(window, text), expected);
        }
        assert_eq!(hex(window("ordered", 3, 1, 32), ""), "");
    }

    #[test]
    fn repeated_words_cancel_in_xor_only() {
        for scheme in ["ordered", "xor", "sorted"] {
            let of = |word| hex(window(scheme, 8, 1, 32), &[word; 8].join(" "));
            assert_eq!(of("ha") == of("ho"), scheme == "xor");
        }
        assert_eq!(hex(window("xor", 8, 1, 32), "a a a a a a a a"), "00000000");
        assert_ne!(
            hex(window("ordered", 4, 1, 32), "a b a b"),
            hex(window("ordered", 4, 1, 32), "a a b b")
        );
        assert_eq!(
            hex(window("sorted", 4, 1, 32), "a b a b"),
            hex(window("sorted", 4, 1, 32), "a a b b")
        );
        assert_ne!(
            hex(window("sorted", 4, 1, 32), "a b a b"),
            hex(window("sorted", 4, 1, 32), "a a a b")
        );
        assert_eq!(
            hex(window("xor", 4, 1, 32), "a b a c"),
            hex(window("xor", 4, 1, 32), "c a b a")
        );
    }

    /// The definition, without a rolling hash.
    fn simple(window: &Window, words: &[String]) -> Vec<(u32, u64)> {
        let WindowShape::Run {
            kind,
            k,
            interleave,
        } = window.shape
        else {
            panic!("{:?}", window.shape)
        };
        let (streams, k) = (interleave as usize, k as usize);
        let mut found = Vec::new();
        for first in 0..words.len() {
            let stream: Vec<_> = words[first..].iter().step_by(streams).collect();
            let whole = words[first % streams..].iter().step_by(streams).count();
            if stream.len() < k && (first >= streams || whole >= k) {
                continue;
            }
            let hashes = stream[..k.min(stream.len())]
                .iter()
                .map(|word| xxh3_64(word.as_bytes()));
            let value = match kind.name {
                "ordered" => ordered::simple(hashes),
                "xor" => hashes.fold(0, |a, b| a ^ b),
                "sorted" => stir(hashes.fold(seed("sorted"), u64::wrapping_add)),
                other => panic!("{other}"),
            };
            found.push((first as u32, value >> (64 - window.bits)));
        }
        found
    }

    fn run_scheme() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec!["ordered", "xor", "sorted"])
    }

    proptest! {
        #[test]
        fn the_rolling_hash_is_the_hash_of_each_window(
            words in prop::collection::vec("[ab]{1,2}", 0..40), k in 1_u32..9, interleave in 1_u32..4, bits in 16_u8..=64, scheme in run_scheme(),
        ) {
            let window = window(scheme, k, interleave, bits);
            let blots = blots_of(window.clone(), &words);
            let found: Vec<_> = blots.positions.iter().copied().zip(blots.values).collect();
            prop_assert_eq!(found, simple(&window, &words));
        }

        #[test]
        fn both_strands_give_the_same_blots(strand in "([acgt]{0,30}n?){0,8}", k in 1_u32..9, interleave in 1_u32..4, scheme in run_scheme()) {
            let window = Window { is_dna: true, ..window(scheme, k, interleave, 32) };
            let bases: Vec<_> = strand.chars().map(String::from).collect();
            let facing: Vec<_> = bases.iter().rev().map(|base| String::from_utf8_lossy(dna::complement(base.as_bytes())).into_owned()).collect();
            let [mut one, mut two] = [bases, facing].map(|bases| blots_of(window.clone(), &bases).values);
            one.sort_unstable();
            two.sort_unstable();
            prop_assert_eq!(one, two);
        }
    }

    /// Blocks do not affect the blots, neither at their ends nor at the end of the document.
    #[test]
    fn documents_of_several_blocks_have_all_windows() {
        for (scheme, k) in [
            ("ordered", 3),
            ("xor", 1),
            ("sorted", 8),
            ("spaced:1101", 4),
        ] {
            for length in [
                BLOCK_TOKENS - 1,
                BLOCK_TOKENS,
                BLOCK_TOKENS + k - 1,
                BLOCK_TOKENS + k,
                2 * BLOCK_TOKENS + k - 1,
                2 * BLOCK_TOKENS + 9,
            ] {
                let words: Vec<_> = (0..length)
                    .map(|number| format!("{}", number * 7919 % 10_007))
                    .collect();
                let found = blots_of(window(scheme, k as u32, 1, 64), &words);
                assert_eq!(
                    (found.values.len(), found.positions.len()),
                    (length + 1 - k, length + 1 - k),
                    "{scheme} {length}"
                );
                for first in [0, BLOCK_TOKENS - k, BLOCK_TOKENS - 1, length - k]
                    .into_iter()
                    .filter(|first| first + k <= length)
                {
                    let one = blots_of(window(scheme, k as u32, 1, 64), &words[first..first + k]);
                    assert_eq!(
                        found.values[first], one.values[0],
                        "{scheme} {length} {first}"
                    );
                }
            }
        }
    }

    #[test]
    fn no_window_holds_an_unknown_base() {
        let window = Window {
            is_dna: true,
            ..window("ordered", 3, 1, 32)
        };
        let bases: Vec<_> = "acgtnacg".chars().map(String::from).collect();
        assert_eq!(blots_of(window, &bases).positions, [0, 1, 5]);
    }
}
