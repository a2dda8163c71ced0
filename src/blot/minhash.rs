//! Prints: 256 bits of MinHash over the set of a document's tokens, scheme 2.
//!
//! Each of 256 lanes orders the tokens in its own way; the first token wins the lane. The bit of
//! the lane is the lowest bit of an avalanche hash of the winner and the lane, so the bits of
//! different lanes are independent even if one token wins all lanes. The probability that two
//! documents have the same winner of a lane is the Jaccard coefficient J of their token sets;
//! otherwise their bits agree with probability ½. On average 128·(1 − J) bits differ. `man 5
//! dedup-stream` defines each step.
//!
//! Scheme 1 took the lowest bit of the number by which a lane orders tokens. That bit depends on 12
//! bits of the hash of a token, so one-word documents had at most 4,096 different prints.

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

/// Whether this is the scheme of prints.
pub fn is_named(windows: &WindowSchemes) -> bool {
    ["minhash", "minhash:256"]
        .map(WindowSchemes::from)
        .contains(windows)
}

type Lanes = [u32; PRINT_BITS];

/// How the lanes order tokens: token hashes of 32 bits are xored, then multiplied by an odd factor.
/// Both steps can be reversed.
struct Orders {
    xors: Lanes,
    factors: Lanes,
    /// The inverses of the factors, modulo 2^32.
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

/// The inverse of an odd number modulo 2^32, by Newton's method: each step doubles the number of
/// correct bits, starting from 3.
fn inverse(odd: u32) -> u32 {
    (0..4).fold(odd, |inverse, _| {
        inverse.wrapping_mul(2_u32.wrapping_sub(odd.wrapping_mul(inverse)))
    })
}

/// Hashes by identity: the keys are hashes already.
#[derive(Default, Clone)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes);
    }

    fn write_u32(&mut self, number: u32) {
        // The map uses the top bits, too.
        self.0 = u64::from(number) | u64::from(number) << 32;
    }
}

/// Turns tokens into prints; owns the reused buffers.
#[derive(Clone, Default)]
pub struct Printer {
    distinct: DistinctTokens,
}

/// The distinct tokens of a document: their 64-bit hashes by the lower 32 bits, by which lanes
/// order them. Of tokens with the same lower bits the one with the least hash counts.
#[derive(Clone, Default)]
struct DistinctTokens {
    hashes: HashMap<u32, u64, BuildHasherDefault<IdentityHasher>>,
    /// The keys of the map.
    lower: Vec<u32>,
}

impl DistinctTokens {
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

    /// Frees large buffers.
    pub fn release_buffers(&mut self) {
        if self.distinct.hashes.capacity() > 1 << 18 {
            self.distinct.hashes = HashMap::default();
        }
        clear_buffer(&mut self.distinct.lower);
    }
}

/// The print of a set of tokens.
fn print_of(distinct: &DistinctTokens) -> Print {
    let mut least = [u32::MAX; PRINT_BITS];
    least_numbers(&distinct.lower, &mut least);
    let mut print = Print::default();
    for (lane, &number) in least.iter().enumerate() {
        // Reverse the steps of the lane to find the token that won.
        let lower = number.wrapping_mul(ORDERS.inverses[lane]) ^ ORDERS.xors[lane];
        let winner = distinct.hashes.get(&lower).copied().unwrap_or_default();
        print.0[lane / 64] |= bit_of(winner, lane) << (lane % 64);
    }
    print
}

/// The bit of a lane that this token wins. The bits of all lanes are the lowest bits of the numbers
/// of a SplitMix64 generator that is seeded with the hash of the token.
fn bit_of(winner: u64, lane: usize) -> u64 {
    stir(winner.wrapping_add((lane as u64 + 1).wrapping_mul(M))) & 1
}

/// The least number of each lane.
fn least_numbers(hashes: &[u32], least: &mut Lanes) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, as just checked.
        return unsafe { least_numbers_avx2(hashes, least) };
    }
    least_numbers_anywhere(hashes, least);
}

/// The same code with instructions for eight lanes at a time: five times as fast.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn least_numbers_avx2(hashes: &[u32], least: &mut Lanes) {
    least_numbers_anywhere(hashes, least);
}

#[inline(always)]
fn least_numbers_anywhere(hashes: &[u32], least: &mut Lanes) {
    let Orders { xors, factors, .. } = &*ORDERS;
    // As many lanes at a time as fit into registers.
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
        let mut distinct = DistinctTokens::default();
        hashes.iter().for_each(|&hash| distinct.add(hash));
        print_of(&distinct)
    }

    /// A fixed sequence of pseudorandom numbers.
    fn numbers() -> impl FnMut() -> u64 {
        let mut state = 1_u64;
        move || {
            state = state.wrapping_add(0xd1b5_4a32_d192_ed03);
            stir(state)
        }
    }

    #[test]
    fn prints_are_the_same_in_all_versions() {
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

    /// The definition of the manual, without optimisation.
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

        /// Also if tokens have the lower half of their hash in common.
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

    /// Each bit of one-word documents is set in half of the prints, and no two bits are correlated.
    /// With 20,000 prints the standard deviation is 0.0035 for the share of ones and 0.0071 for a
    /// correlation; the largest of 32,640 correlations is about 4.5 standard deviations.
    #[test]
    fn bits_of_single_words_are_balanced_and_independent() {
        let count = 20_000;
        let prints: Vec<Print> = (0..count)
            .map(|word| print(&format!("word{word}")).unwrap())
            .collect();
        // For each bit, the prints that have it.
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
        // The mean of the squares is 1, with a standard deviation of (2/32,640)^½.
        let mean = squares / f64::from(32_640);
        assert!(
            (mean - 1.0).abs() < 5.0 * (2.0_f64 / 32_640.0).sqrt(),
            "{mean}"
        );
    }

    /// Prints of two words differ in 128 bits on average, as random bits do, and no two are close.
    #[test]
    fn prints_of_different_words_are_far_apart() {
        let prints: Vec<Print> = (0..2000)
            .map(|word| print(&format!("word{word}")).unwrap())
            .collect();
        let (mut sum, mut squares, mut pairs) = (0.0, 0.0, 0.0);
        for (at, one) in prints.iter().enumerate() {
            for two in &prints[..at] {
                let distance = one.distance(two);
                // Seven standard deviations; the largest of two million pairs is at about 5.5.
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

    /// By definition 128·(1 − J) bits differ, with the deviation of 256 independent bits.
    #[test]
    fn the_distance_estimates_the_jaccard_coefficient() {
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
