//! Excluded text of a document: quotations, lists of references, base text.
//!
//! Each word has at most one reason, the first in the order of [`ExclusionReason::ALL`], so that
//! the counts add up.

mod base_text;
mod quotes;
mod references;

pub use base_text::BaseText;
pub use quotes::quotations;
pub use references::bibliography;

use crate::text::stream::Span;

/// Why a word is excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExclusionReason {
    /// It belongs to text that was handed out to all authors.
    BaseText,
    /// It is in a list of references.
    Bibliography,
    /// It is in a quotation.
    Quotes,
}

impl ExclusionReason {
    /// All reasons, in order of precedence.
    pub const ALL: [Self; 3] = [Self::BaseText, Self::Bibliography, Self::Quotes];

    /// Its place in [`ExclusionReason::ALL`].
    pub fn index(self) -> usize {
        match self {
            Self::BaseText => 0,
            Self::Bibliography => 1,
            Self::Quotes => 2,
        }
    }

    /// The name that records use.
    pub fn name(self) -> &'static str {
        match self {
            Self::BaseText => "base",
            Self::Bibliography => "bibliography",
            Self::Quotes => "quotes",
        }
    }

    /// The words that messages use: "12 words in quotations".
    pub fn place(self) -> &'static str {
        match self {
            Self::BaseText => "of the base text",
            Self::Bibliography => "in the list of references",
            Self::Quotes => "in quotations",
        }
    }
}

/// What to exclude from a document.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExclusionRules {
    /// Excludes quotations.
    pub quotes: bool,
    /// Excludes lists of references.
    pub bibliography: bool,
    /// Excludes text that was handed out to all authors.
    pub base: BaseText,
}

impl ExclusionRules {
    /// Whether nothing is excluded.
    pub fn is_empty(&self) -> bool {
        !self.quotes && !self.bibliography && self.base.is_empty()
    }

    /// These rules with the base text only, which is excluded from every document.
    pub fn base_text_only(&self) -> Self {
        Self {
            base: self.base.clone(),
            ..Self::default()
        }
    }

    /// Why each word is excluded; empty if none is. `words`: the hashes of the words; `spans`:
    /// their places in the text.
    pub fn word_reasons(
        &self,
        text: &str,
        words: &[u64],
        spans: &[Span],
    ) -> Vec<Option<ExclusionReason>> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut reasons = vec![None; words.len()];
        let mut mark = |excluded: &[Span], reason: ExclusionReason| {
            for part in excluded {
                let start = spans.partition_point(|span| span.start < part.start);
                let end = spans
                    .partition_point(|span| span.end <= part.end)
                    .max(start);
                reasons[start..end].fill(Some(reason));
            }
        };
        if self.quotes {
            mark(&quotations(text), ExclusionReason::Quotes);
        }
        if self.bibliography {
            mark(&bibliography(text), ExclusionReason::Bibliography);
        }
        self.base.mark(text, words, spans, &mut reasons);
        if reasons.iter().all(Option::is_none) {
            Vec::new()
        } else {
            reasons
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{
        stream::Tokens,
        token::{Rule, Tokenization, Tokenizer},
    };
    use xxhash_rust::xxh3::xxh3_64;

    #[test]
    fn each_word_has_one_reason() {
        let text = "One two three. “Four five six seven eight nine.” Ten.";
        let mut tokens = Tokens::new(true);
        Tokenizer::new(Rule::Word, false).tokenize(text, &mut tokens);
        let words: Vec<u64> = tokens.iter().map(xxh3_64).collect();
        let spans = tokens.spans().unwrap().to_vec();
        let mut base = BaseText::new(Tokenization::default(), 3);
        base.add("seven eight nine ten eleven");
        let reasons = |rules: &ExclusionRules| rules.word_reasons(text, &words, &spans);
        let all = reasons(&ExclusionRules {
            quotes: true,
            bibliography: true,
            base,
        });
        let of = |reason| {
            all.iter()
                .enumerate()
                .filter(|(_, found)| **found == Some(reason))
                .map(|(at, _)| at)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (
                of(ExclusionReason::BaseText),
                of(ExclusionReason::Quotes),
                of(ExclusionReason::Bibliography)
            ),
            (vec![6, 7, 8, 9], vec![3, 4, 5], vec![])
        );
        assert!(reasons(&ExclusionRules::default()).is_empty());
        assert!(
            reasons(&ExclusionRules {
                bibliography: true,
                ..ExclusionRules::default()
            })
            .is_empty()
        );
    }
}
