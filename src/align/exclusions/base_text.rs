//! Text that was handed out to all authors: a template, the questions of an exercise.

use super::ExclusionReason;
use crate::base::num::ToUsize;
use crate::text::{stream::Span, token::Tokenization};
use std::{collections::HashSet, ops::Range};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// The windows of the base texts.
///
/// A word of a document belongs to the base text if one of the windows of `k` words around it does;
/// so does a whole line of fewer words that the base text has. Text written into a template, and
/// around it, is the author's own. Memory: about sixteen bytes per word.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BaseText {
    tokenization: Tokenization,
    window_words: usize,
    windows: HashSet<u64>,
    /// Hashes of the lines that are too short for a window.
    lines: HashSet<u64>,
}

impl BaseText {
    /// An empty base text, for documents of this tokenizer.
    pub fn new(tokenization: Tokenization, window_words: u32) -> Self {
        Self {
            tokenization,
            window_words: window_words.max(1).to_usize(),
            ..Self::default()
        }
    }

    /// Whether it has no words.
    pub fn is_empty(&self) -> bool {
        self.windows.is_empty() && self.lines.is_empty()
    }

    /// Adds a text.
    pub fn add(&mut self, text: &str) {
        let plain = self.tokenization.plain(text.to_owned());
        let tokens = self.tokenization.tokens(&plain);
        let words: Vec<u64> = tokens.iter().map(xxh3_64).collect();
        self.windows
            .extend(words.windows(self.window_words).map(hash));
        let short = short_lines(
            plain.text(),
            tokens.spans().unwrap_or_default(),
            self.window_words,
        );
        self.lines.extend(short.map(|line| hash(&words[line])));
    }

    /// Adds all texts of another base text.
    pub fn extend(&mut self, other: Self) {
        self.windows.extend(other.windows);
        self.lines.extend(other.lines);
    }

    /// Marks the words of a document that belong to the base text.
    pub(super) fn mark(
        &self,
        text: &str,
        words: &[u64],
        spans: &[Span],
        reasons: &mut [Option<ExclusionReason>],
    ) {
        if self.is_empty() {
            return;
        }
        let mut end = 0;
        for (start, window) in words.windows(self.window_words).enumerate() {
            if self.windows.contains(&hash(window)) {
                reasons[start.max(end)..start + self.window_words]
                    .fill(Some(ExclusionReason::BaseText));
                end = start + self.window_words;
            }
        }
        for line in short_lines(text, spans, self.window_words) {
            if self.lines.contains(&hash(&words[line.clone()])) {
                reasons[line].fill(Some(ExclusionReason::BaseText));
            }
        }
    }
}

fn hash(words: &[u64]) -> u64 {
    let mut state = Xxh3::new();
    words
        .iter()
        .for_each(|word| state.update(&word.to_le_bytes()));
    state.digest()
}

/// The words of each line that has some, but fewer than a window.
fn short_lines(
    text: &str,
    spans: &[Span],
    window_words: usize,
) -> impl Iterator<Item = Range<usize>> {
    let (mut start, mut word) = (0, 0);
    let lines = text.split_inclusive('\n').map(move |line| {
        start += line.len();
        let first = word;
        while spans
            .get(word)
            .is_some_and(|span| (span.start.to_usize()) < start)
        {
            word += 1;
        }
        first..word
    });
    lines.filter(move |line| !line.is_empty() && line.len() < window_words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::num::ToU32;
    use crate::text::{
        stream::Tokens,
        token::{Rule, Tokenizer},
    };
    use proptest::prelude::*;

    fn marked(base: &[&str], text: &str, window_words: u32) -> Vec<bool> {
        let mut all = BaseText::new(Tokenization::default(), window_words);
        base.iter().for_each(|base| all.add(base));
        let mut tokens = Tokens::new(true);
        Tokenizer::new(Rule::Word, false).tokenize(text, &mut tokens);
        let words: Vec<u64> = tokens.iter().map(xxh3_64).collect();
        let mut reasons = vec![None; words.len()];
        all.mark(text, &words, tokens.spans().unwrap(), &mut reasons);
        reasons.iter().map(Option::is_some).collect()
    }

    fn shown(base: &[&str], text: &str) -> String {
        marked(base, text, 4)
            .into_iter()
            .map(|is_base| if is_base { '#' } else { '.' })
            .collect()
    }

    #[test]
    fn what_was_written_into_a_template_is_ones_own() {
        let base = "Name:\nQuestion one: why does ice flow?\nAnswer:";
        assert_eq!(
            shown(
                &[base],
                "Name: Ann\nQuestion one: Why does ice flow?\nAnswer:\nIt is pressed."
            ),
            "..#######..."
        );
        assert_eq!(
            shown(
                &[base],
                "Name:\nAnn. Question one, why DOES\nice flow! Pressed."
            ),
            "#.######."
        );
        assert_eq!(
            shown(&[base, "It is pressed hard."], "it is pressed hard it is"),
            "####.."
        );
        assert_eq!(shown(&[], "Name:"), ".");
        assert_eq!(shown(&[""], ""), "");
    }

    proptest! {
        /// Compares every window with every other.
        #[test]
        fn as_by_hand(base in "[abc \n]{0,40}", text in "[abc \n]{0,60}", k in 1_usize..5) {
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let (of_base, of_text) = (words(&base), words(&text));
            let mut expected = vec![false; of_text.len()];
            for start in 0..(of_text.len() + 1).saturating_sub(k) {
                if of_base.windows(k).any(|window| window == &of_text[start..start + k]) {
                    expected[start..start + k].fill(true);
                }
            }
            let mut at = 0;
            for line in text.lines().map(words) {
                let is_base = base.lines().map(words).any(|other| other == line);
                if is_base && line.len() < k {
                    expected[at..at + line.len()].fill(true);
                }
                at += line.len();
            }
            prop_assert_eq!(marked(&[&base], &text, k.to_u32()), expected);
        }
    }
}
