//! Prints: 256 bits of MinHash over the set of a document's tokens.
//!
//! Each of 256 lanes numbers the tokens anew and finds the least number; its lowest bit is the print's bit. Two documents have a
//! lane's least token in common with a probability that is the Jaccard coefficient J of their token sets, and else agree by chance in
//! one of two lanes: so 128·(1 − J) bits differ on average. `man 5 dedup-stream` has it step by step.

use super::ordered::{M, stir};
use crate::format::{PRINT_BITS, Print, Tokens, empty};
use std::{
    collections::HashSet,
    hash::{BuildHasherDefault, Hasher},
    sync::LazyLock,
};
use xxhash_rust::xxh3::xxh3_64;

/// Whether this names the scheme of prints.
pub fn is_named(scheme: &str) -> bool {
    ["minhash", "minhash:256"].contains(&scheme)
}

type Lanes = [u32; PRINT_BITS];

/// What the lanes number tokens with: an xor, and a factor, which is odd so that no two tokens get one number.
static LANES: LazyLock<(Lanes, Lanes)> = LazyLock::new(|| {
    let number = |lane: usize| stir((lane as u64 + 1).wrapping_mul(M));
    (std::array::from_fn(|lane| number(lane) as u32), std::array::from_fn(|lane| (number(lane) >> 32) as u32 | 1))
});

/// Hashes are spread evenly already.
#[derive(Default, Clone)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes);
    }

    fn write_u32(&mut self, number: u32) {
        // The set wants its top bits from somewhere, too.
        self.0 = u64::from(number) | u64::from(number) << 32;
    }
}

/// Turns tokens into prints; owns the buffers that are used again and again.
#[derive(Clone, Default)]
pub struct Printer {
    seen: HashSet<u32, BuildHasherDefault<AsItIs>>,
    distinct: Vec<u32>,
}

impl Printer {
    /// The print of a document; none if it has no tokens.
    pub fn print(&mut self, tokens: &Tokens) -> Option<Print> {
        self.seen.clear();
        self.distinct.clear();
        // 32 bits tell the tokens of a document apart well enough: of 10,000 words about one in 86,000 documents confuses two.
        let hashes = tokens.iter().map(|token| xxh3_64(token) as u32);
        self.distinct.extend(hashes.filter(|&hash| self.seen.insert(hash)));
        (!self.distinct.is_empty()).then(|| print_of(&self.distinct))
    }

    /// Gives back large buffers.
    pub fn give_back(&mut self) {
        if self.seen.capacity() > 1 << 18 {
            self.seen = HashSet::default();
        }
        empty(&mut self.distinct);
    }
}

/// The print of a set of token hashes.
fn print_of(hashes: &[u32]) -> Print {
    let mut least = [u32::MAX; PRINT_BITS];
    least_numbers(hashes, &mut least);
    let mut print = Print::default();
    for (lane, least) in least.iter().enumerate() {
        print.0[lane / 64] |= u64::from(least & 1) << (lane % 64);
    }
    print
}

fn least_numbers(hashes: &[u32], least: &mut Lanes) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor was just asked for it.
        return unsafe { least_numbers_avx2(hashes, least) };
    }
    least_numbers_anywhere(hashes, least);
}

/// The same code, with instructions that take eight lanes at a time: five times as fast.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn least_numbers_avx2(hashes: &[u32], least: &mut Lanes) {
    least_numbers_anywhere(hashes, least);
}

#[inline(always)]
fn least_numbers_anywhere(hashes: &[u32], least: &mut Lanes) {
    let (xors, factors) = &*LANES;
    // So many lanes at a time that their least numbers stay in registers.
    for ((least, xors), factors) in least.chunks_exact_mut(32).zip(xors.chunks_exact(32)).zip(factors.chunks_exact(32)) {
        let mut kept = [u32::MAX; 32];
        for &hash in hashes {
            for lane in 0..32 {
                let product = (hash ^ xors[lane]).wrapping_mul(factors[lane]);
                kept[lane] = kept[lane].min(product ^ product >> 11);
            }
        }
        least.copy_from_slice(&kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Span;
    use proptest::prelude::*;

    fn print(text: &str) -> Option<Print> {
        let mut tokens = Tokens::default();
        text.split_whitespace().for_each(|word| tokens.push(word, Span { start: 0, end: 0 }));
        Printer::default().print(&tokens)
    }

    #[test]
    fn prints_are_fixed_forever() {
        assert_eq!(print(""), None);
        assert_eq!(print("lorem ipsum").unwrap().to_string(), "4b51fe7a5db2cea0bc098ad7f304cbcf7c41341160853affb605e093f2cc6675");
        assert_eq!(
            print("lorem ipsum dolor sit amet").unwrap().to_string(),
            "cb98d67258b6cee09ba5eb966229edc45ce12c4178067d9a0f1461ab145c3e74"
        );
    }

    #[test]
    fn neither_order_nor_number_of_words_counts() {
        assert_eq!(print("a b c"), print("c a b a a"));
        assert_ne!(print("a b c"), print("a b d"));
    }

    proptest! {
        #[test]
        fn every_processor_makes_the_same_prints(hashes in prop::collection::vec(any::<u32>(), 1..200)) {
            let (mut one, mut two) = ([u32::MAX; PRINT_BITS], [u32::MAX; PRINT_BITS]);
            least_numbers(&hashes, &mut one);
            least_numbers_anywhere(&hashes, &mut two);
            prop_assert_eq!(one, two);
        }
    }

    /// The definition's promise: 128·(1 − J) bits differ, with the spread of a coin that is thrown 256 times.
    #[test]
    fn bits_tell_the_jaccard_coefficient() {
        let mut random = 1_u64;
        let mut next = || {
            random = stir(random.wrapping_add(M));
            random as u32
        };
        for (common, own) in [(0, 100), (300, 10), (100, 100), (20, 2), (1000, 5)] {
            let jaccard = f64::from(common) / f64::from(common + 2 * own);
            let (rounds, mut sum, mut squares) = (300, 0.0, 0.0);
            for _ in 0..rounds {
                let shared: Vec<u32> = (0..common).map(|_| next()).collect();
                let [one, two] = [(); 2].map(|()| print_of(&[&shared[..], &(0..own).map(|_| next()).collect::<Vec<_>>()].concat()));
                let error = 1.0 - f64::from(one.distance(&two)) / 128.0 - jaccard;
                (sum, squares) = (sum + error, squares + error * error);
            }
            let differs = (1.0 - jaccard) / 2.0;
            let expected = 2.0 * (differs * (1.0 - differs) / 256.0).sqrt();
            let (mean, deviation) = (sum / f64::from(rounds), (squares / f64::from(rounds)).sqrt());
            assert!(mean.abs() < 4.0 * expected / f64::from(rounds).sqrt(), "{common}+{own}: {mean}");
            assert!((0.85..1.15).contains(&(deviation / expected)), "{common}+{own}: {deviation} {expected}");
        }
    }
}
