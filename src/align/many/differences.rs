//! Where two passages of a family differ.

use super::repeat::{TokenHash, common};
use std::ops::Range;

/// Two texts agree again where this many tokens are equal.
const AGAIN: usize = 3;
/// The most tokens that one of them leaves out or inserts at a time.
const SKIPPED: usize = 48;

/// The tokens of `one` that `two` has not, as far as both go on: a passage may be a part of another.
///
/// Compares from the left, and resumes after a difference where the fewest tokens are skipped; from a
/// difference of more than 48 tokens on, all tokens differ. For `a b c X d e f g` and
/// `a b c Y Z d e f g` that is token 3.
pub fn differing_tokens(one: &[TokenHash], two: &[TokenHash]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let (mut at, mut other) = (0, 0);
    loop {
        let same = common(&one[at..], &two[other..]);
        (at, other) = (at + same, other + same);
        if at == one.len() || other == two.len() {
            return found;
        }
        let Some((skip, skip_other)) = resume(&one[at..], &two[other..]) else {
            found.push(at..one.len());
            return found;
        };
        if skip > 0 {
            found.push(at..at + skip);
        }
        (at, other) = (at + skip, other + skip_other);
    }
}

/// How many tokens to skip on both sides so that both agree again.
fn resume(one: &[TokenHash], two: &[TokenHash]) -> Option<(usize, usize)> {
    let is_same = |(skip, skip_other): &(usize, usize)| {
        let (Some(one), Some(two)) = (one.get(*skip..), two.get(*skip_other..)) else {
            return false;
        };
        let tokens = AGAIN.min(one.len()).min(two.len());
        tokens > 0 && one[..tokens] == two[..tokens]
    };
    (1..=2 * SKIPPED)
        .flat_map(|sum| (0..=sum).map(move |skip| (skip, sum - skip)))
        .find(is_same)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differing(one: &str, two: &str) -> Vec<(usize, usize)> {
        let tokens = |text: &str| -> Vec<TokenHash> {
            text.bytes()
                .map(|byte| u64::from(byte).to_le_bytes())
                .collect()
        };
        let found = differing_tokens(&tokens(one), &tokens(two));
        found
            .into_iter()
            .map(|range| (range.start, range.end))
            .collect()
    }

    #[test]
    fn only_what_differs_is_found() {
        assert_eq!(differing("abcXdefg", "abcYZdefg"), [(3, 4)]);
        assert_eq!(differing("abcdefg", "abcYdefg"), []);
        assert_eq!(differing("abcXXdefgYhij", "abcdefghij"), [(3, 5), (9, 10)]);
        assert_eq!(differing("abcdefg", "abcd"), []);
        assert_eq!(differing("abcd", "uvwx"), [(0, 4)]);
        assert_eq!(differing("", "a"), []);
    }
}
