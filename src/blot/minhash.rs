//! Prints: 256 bits of MinHash over the set of a document's tokens, scheme 2.
//!
//! Each of 256 lanes orders the tokens in its own way; the first token wins the lane. The print's bit of the lane is the lowest bit of
//! an avalanche hash of the winner and the lane, so bits of different lanes have nothing to do with one another even where one token wins
//! them all. Two documents share a lane's winner with a probability that is the Jaccard coefficient J of their token sets, and
//! otherwise agree in every second lane by chance: 128·(1 − J) bits differ on average. `man 5 dedup-stream` defines it step by step.
//!
//! Scheme 1 took the lowest bit of the number by which a lane orders tokens. That bit depends on 12 bits of a token's hash, so one-word
//! documents had 4,096 different prints at most.

use super::ordered::{M, stir};
use crate::{
    base::codec::clear_buffer,
    text::{
        scheme::WindowSchemes,
        stream::{PRINT_BITS, Print, Tokens},
    },
};
use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{BuildHasherDefault, Hasher},
    sync::LazyLock,
};
use xxhash_rust::xxh3::xxh3_64;

/// Whether this names the scheme of prints.
pub fn is_named(windows: &WindowSchemes) -> bool {
    ["minhash", "minhash:256"]
        .map(WindowSchemes::from)
        .contains(windows)
}

type Lanes = [u32; PRINT_BITS];

/// How the lanes order tokens: token hashes of 32 bits are xored and then multiplied. The factors are odd, so both steps can be undone.
struct Orders {
    xors: Lanes,
    factors: Lanes,
    /// Of the factors, modulo 2^32.
    inverses: Lanes,
}

static ORDERS: LazyLock<Orders> = LazyLock::new(|| {
    let seed = |lane: usize| stir((lane as u64 + 1).wrapping_mul(M));
    let factors = std::array::from_fn(|lane| (seed(lane) >> 32) as u32 | 1);
    Orders {
        xors: std::array::from_fn(|lane| seed(lane) as u32),
        factors,
        inverses: factors.map(inverse),
    }
});

/// The inverse of an odd number modulo 2^32, by Newton's method: each step doubles the number of right bits, of which there are 3 at first.
fn inverse(odd: u32) -> u32 {
    (0..4).fold(odd, |inverse, _| {
        inverse.wrapping_mul(2_u32.wrapping_sub(odd.wrapping_mul(inverse)))
    })
}

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
    distinct: Distinct,
}

/// The distinct tokens of a document: their hashes of 64 bits by the lower 32, which alone are ordered. Of tokens that have these in
/// common the one with the least hash counts.
#[derive(Clone, Default)]
struct Distinct {
    hashes: HashMap<u32, u64, BuildHasherDefault<AsItIs>>,
    /// The keys, one after the other.
    lower: Vec<u32>,
}

impl Distinct {
    fn add(&mut self, hash: u64) {
        match self.hashes.entry(hash as u32) {
            Entry::Occupied(mut entry) => *entry.get_mut() = hash.min(*entry.get()),
            Entry::Vacant(entry) => {
                entry.insert(hash);
                self.lower.push(hash as u32);
            }
        }
    }

    fn clear(&mut self) {
        self.hashes.clear();
        self.lower.clear();
    }
}

impl Printer {
    /// The print of a document; none if it has no tokens.
    pub fn print(&mut self, tokens: &Tokens) -> Option<Print> {
        self.distinct.clear();
        tokens
            .iter()
            .for_each(|token| self.distinct.add(xxh3_64(token)));
        (!self.distinct.lower.is_empty()).then(|| print_of(&self.distinct))
    }

    /// Gives back large buffers.
    pub fn release_buffers(&mut self) {
        if self.distinct.hashes.capacity() > 1 << 18 {
            self.distinct.hashes = HashMap::default();
        }
        clear_buffer(&mut self.distinct.lower);
    }
}

/// The print of a set of tokens.
fn print_of(distinct: &Distinct) -> Print {
    let mut least = [u32::MAX; PRINT_BITS];
    least_numbers(&distinct.lower, &mut least);
    let mut print = Print::default();
    for (lane, &number) in least.iter().enumerate() {
        // The number that won is that of one token: undo what the lane did to it.
        let lower = number.wrapping_mul(ORDERS.inverses[lane]) ^ ORDERS.xors[lane];
        let winner = distinct.hashes.get(&lower).copied().unwrap_or_default();
        print.0[lane / 64] |= bit_of(winner, lane) << (lane % 64);
    }
    print
}

/// The bit that a token gives to a lane that it wins: those of all lanes are the lowest bits of the numbers of a SplitMix64 generator
/// that starts from the token's hash.
fn bit_of(winner: u64, lane: usize) -> u64 {
    stir(winner.wrapping_add((lane as u64 + 1).wrapping_mul(M))) & 1
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
    let Orders { xors, factors, .. } = &*ORDERS;
    // As many lanes at a time as keep their least numbers in registers.
    for ((least, xors), factors) in least
        .chunks_exact_mut(32)
        .zip(xors.chunks_exact(32))
        .zip(factors.chunks_exact(32))
    {
        let mut kept = [u32::MAX; 32];
        for &hash in hashes {
            for lane in 0..32 {
                kept[lane] = kept[lane].min((hash ^ xors[lane]).wrapping_mul(factors[lane]));
            }
        }
        least.copy_from_slice(&kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::stream::Span;
    use proptest::prelude::*;

    fn print(text: &str) -> Option<Print> {
        let mut tokens = Tokens::default();
        text.split_whitespace()
            .for_each(|word| tokens.push(word, Span { start: 0, end: 0 }));
        Printer::default().print(&tokens)
    }

    fn print_of_hashes(hashes: &[u64]) -> Print {
        let mut distinct = Distinct::default();
        hashes.iter().for_each(|&hash| distinct.add(hash));
        print_of(&distinct)
    }

    /// Numbers that look random, the same ones each time.
    fn numbers() -> impl FnMut() -> u64 {
        let mut state = 1_u64;
        move || {
            state = state.wrapping_add(0xd1b5_4a32_d192_ed03);
            stir(state)
        }
    }

    #[test]
    fn prints_are_fixed_forever() {
        assert_eq!(print(""), None);
        assert_eq!(
            print("lorem ipsum").unwrap().to_string(),
            "4d1a679fed514ebcdc9270513610a7c6a081a7711de5f013564be2bdd1c2c821"
        );
        assert_eq!(
            print("lorem ipsum dolor sit amet").unwrap().to_string(),
            "49137f9fe5546eb85a1a5310850aa546843ca3e101cfec69cdd3c3b97551ea03"
        );
    }

    #[test]
    fn neither_order_nor_number_of_words_counts() {
        assert_eq!(print("a b c"), print("c a b a a"));
        assert_ne!(print("a b c"), print("a b d"));
    }

    /// As the manual says it, without any haste.
    fn print_by_definition(hashes: &[u64]) -> Print {
        let mut print = Print::default();
        for lane in 0..PRINT_BITS {
            let seed = stir((lane as u64 + 1).wrapping_mul(M));
            let number =
                |hash: u64| (hash as u32 ^ seed as u32).wrapping_mul((seed >> 32) as u32 | 1);
            let winner = hashes
                .iter()
                .copied()
                .min_by_key(|&hash| (number(hash), hash))
                .unwrap_or_default();
            print.0[lane / 64] |=
                (stir(winner.wrapping_add((lane as u64 + 1).wrapping_mul(M))) & 1) << (lane % 64);
        }
        print
    }

    proptest! {
        #[test]
        fn every_processor_makes_the_same_prints(hashes in prop::collection::vec(any::<u32>(), 1..200)) {
            let (mut one, mut two) = ([u32::MAX; PRINT_BITS], [u32::MAX; PRINT_BITS]);
            least_numbers(&hashes, &mut one);
            least_numbers_anywhere(&hashes, &mut two);
            prop_assert_eq!(one, two);
        }

        /// Also where tokens have half of their hash in common.
        #[test]
        fn prints_follow_their_definition(hashes in prop::collection::vec(any::<u64>(), 1..60), twins in prop::collection::vec((0_usize..60, any::<u32>()), 0..20)) {
            let twin = |&(of, upper): &(usize, u32)| hashes[of % hashes.len()] as u32 as u64 | u64::from(upper) << 32;
            let all: Vec<u64> = hashes.iter().copied().chain(twins.iter().map(twin)).collect();
            prop_assert_eq!(print_of_hashes(&all), print_by_definition(&all));
        }

        #[test]
        fn odd_numbers_have_inverses(number: u32) {
            prop_assert_eq!((number | 1).wrapping_mul(inverse(number | 1)), 1);
        }
    }

    /// The bits of one-word documents: each set in half of the prints, and no two related. With 20,000 prints a share of ones is off by
    /// 0.0035 and a correlation by 0.0071, one standard deviation each; of 32,640 pairs the largest is some 4.5 of these.
    #[test]
    fn bits_of_single_words_are_balanced_and_independent() {
        let count = 20_000;
        let prints: Vec<Print> = (0..count)
            .map(|word| print(&format!("word{word}")).unwrap())
            .collect();
        // Of each bit, which prints have it.
        let columns: Vec<Vec<u64>> = (0..PRINT_BITS)
            .map(|bit| {
                prints
                    .chunks(64)
                    .map(|some| {
                        some.iter()
                            .rev()
                            .fold(0, |word, print| word << 1 | u64::from(print.bit(bit)))
                    })
                    .collect()
            })
            .collect();
        let count = f64::from(count);
        let mut squares = 0.0;
        for (bit, one) in columns.iter().enumerate() {
            let ones: u32 = one.iter().map(|word| word.count_ones()).sum();
            assert!(
                (f64::from(ones) / count - 0.5).abs() < 5.0 * 0.5 / count.sqrt(),
                "bit {bit}: {ones}"
            );
            for (other, two) in columns[..bit].iter().enumerate() {
                let apart: u32 = one
                    .iter()
                    .zip(two)
                    .map(|(one, two)| (one ^ two).count_ones())
                    .sum();
                let correlation = 1.0 - 2.0 * f64::from(apart) / count;
                assert!(
                    correlation.abs() < 5.5 / count.sqrt(),
                    "bits {bit} and {other}: {correlation}"
                );
                squares += correlation * correlation * count;
            }
        }
        // Their squares are 1 on average, and their average has a standard deviation of (2/32,640)^½.
        let mean = squares / f64::from(32_640);
        assert!(
            (mean - 1.0).abs() < 5.0 * (2.0_f64 / 32_640.0).sqrt(),
            "{mean}"
        );
    }

    /// Jointly, too: 128 bits of two words differ as often as those of a coin, and no two of many words are near each other.
    #[test]
    fn prints_of_different_words_are_far_apart() {
        let prints: Vec<Print> = (0..2000)
            .map(|word| print(&format!("word{word}")).unwrap())
            .collect();
        let (mut sum, mut squares, mut pairs) = (0.0, 0.0, 0.0);
        for (at, one) in prints.iter().enumerate() {
            for two in &prints[..at] {
                let distance = one.distance(two);
                // Seven standard deviations; of two million pairs the farthest is at five and a half.
                assert!((72..=184).contains(&distance), "{distance}");
                let off = f64::from(distance) - 128.0;
                (sum, squares, pairs) = (sum + off, squares + off * off, pairs + 1.0);
            }
        }
        // The distance of two prints of 256 independent bits has a variance of 64.
        assert!(
            (sum / pairs).abs() < 0.1 && (squares / pairs - 64.0).abs() < 0.7,
            "{} {}",
            sum / pairs,
            squares / pairs
        );
    }

    /// The definition's promise: 128·(1 − J) bits differ, with the spread of a coin that is thrown 256 times.
    #[test]
    fn bits_tell_the_jaccard_coefficient() {
        let mut next = numbers();
        for (common, own) in [
            (0, 100),
            (0, 1),
            (1, 1),
            (300, 10),
            (100, 100),
            (20, 2),
            (1000, 5),
        ] {
            let jaccard = f64::from(common) / f64::from(common + 2 * own);
            let (rounds, mut sum, mut squares) = (400, 0.0, 0.0);
            for _ in 0..rounds {
                let shared: Vec<u64> = (0..common).map(|_| next()).collect();
                let [one, two] = [(); 2].map(|()| {
                    print_of_hashes(
                        &[&shared[..], &(0..own).map(|_| next()).collect::<Vec<_>>()].concat(),
                    )
                });
                let error = 1.0 - f64::from(one.distance(&two)) / 128.0 - jaccard;
                (sum, squares) = (sum + error, squares + error * error);
            }
            let differs = (1.0 - jaccard) / 2.0;
            let expected = 2.0 * (differs * (1.0 - differs) / 256.0).sqrt();
            let (mean, deviation) = (
                sum / f64::from(rounds),
                (squares / f64::from(rounds)).sqrt(),
            );
            assert!(
                mean.abs() < 4.0 * expected / f64::from(rounds).sqrt(),
                "{common}+{own}: {mean}"
            );
            assert!(
                (0.86..1.14).contains(&(deviation / expected)),
                "{common}+{own}: {deviation} {expected}"
            );
        }
    }
}
