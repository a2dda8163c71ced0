//! How likely unrelated texts are to share a passage with as much in common.
//!
//! A passage with an information of S nats ([`information`](super::information)) is one of many that
//! could have been found: it may start at any word of both texts. As in the statistics of Karlin and
//! Altschul for sequences, unrelated texts of n and m words are expected to have
//!
//! ```text
//! E = n · m · e^(−S/2)          p = 1 − e^(−E)
//! ```
//!
//! passages with as much information, and p is the probability that they have one: the *p-value*. If
//! words were independent of each other, it would be e^(−S). They are not: phrases and the subject
//! bring words that often stand together, so that two of them say about as much as one. With the
//! half, at most a share p of unrelated pairs has a passage with a p-value of p or less, in all
//! corpora tried; with the whole, up to nine times as many have one of 0.001 or less. P-values are
//! too large rather than too small: weak passages are not reported at all, and the words of a summary
//! may be anywhere in the other text, so that few summaries have a small one.
//!
//! Worked example: texts of 500 words share a reworded passage of 40 nats. E = 250,000 · e^(−20) =
//! 0.000515, and p is 0.000515 as well. With 20 nats E is 11.35, and p is 0.99999.

/// The share of the information that counts, because words are not independent of each other.
const INDEPENDENT_SHARE: f64 = 0.5;

/// The least p-value, which single precision can hold.
const LEAST: f64 = 2e-38;

/// The probability that unrelated texts of these numbers of words share a passage with this
/// information or more; above 0.
pub(super) fn p_value(nats: f32, words: [usize; 2]) -> f64 {
    let places: f64 = words.map(|count| count.max(1) as f64).iter().product();
    let expected = places * (-INDEPENDENT_SHARE * f64::from(nats)).exp();
    (-(-expected).exp_m1()).clamp(LEAST, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn worked_example() {
        let is_near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.001;
        assert!(is_near(p_value(40.0, [500, 500]), 0.000_515));
        assert!(is_near(p_value(20.0, [500, 500]), 0.999_99));
    }

    proptest! {
        /// More information and shorter texts are less likely; every p-value is a probability.
        #[test]
        fn p_values_are_monotonic(nats in 0.0_f32..10_000.0, a in 0_usize..1 << 32, b in 0_usize..1 << 32) {
            let here = p_value(nats, [a, b]);
            prop_assert!(here > 0.0 && here <= 1.0);
            prop_assert!(p_value(nats + 1.0, [a, b]) <= here);
            prop_assert!(p_value(nats, [a + 1, b]) >= here);
            prop_assert_eq!(here, p_value(nats, [b, a]));
        }
    }
}
