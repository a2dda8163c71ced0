//! Text of a document that does not count: quotations, the list of references, what was handed out to all.
//!
//! Each word has one reason at most. Of several the first in the order of [`Reason::ALL`] is told, so that the numbers add up.

mod base;
mod quotes;
mod references;

pub use base::Base;
pub use quotes::quotations;
pub use references::bibliography;

use crate::text::stream::Span;

/// Why a word does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It is text that was handed out to all.
    Base,
    /// It is in a list of references.
    Bibliography,
    /// It is in a quotation.
    Quotes,
}

impl Reason {
    pub const ALL: [Self; 3] = [Self::Base, Self::Bibliography, Self::Quotes];

    /// As records call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Bibliography => "bibliography",
            Self::Quotes => "quotes",
        }
    }

    /// As a sentence calls it: "12 words in quotations".
    pub fn place(self) -> &'static str {
        match self {
            Self::Base => "of the base text",
            Self::Bibliography => "in the list of references",
            Self::Quotes => "in quotations",
        }
    }
}

/// What does not count in a document.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rules {
    pub quotes: bool,
    pub bibliography: bool,
    pub base: Base,
}

impl Rules {
    pub fn is_empty(&self) -> bool {
        !self.quotes && !self.bibliography && self.base.is_empty()
    }

    /// The same, but only what has nothing to do with who wrote the document.
    pub fn only_base(&self) -> Self {
        Self {
            base: self.base.clone(),
            ..Self::default()
        }
    }

    /// Of each word why it does not count; nothing at all if every word does. `words` are the hashes of the words, `spans` where they stand.
    pub fn reasons(&self, text: &str, words: &[u64], spans: &[Span]) -> Vec<Option<Reason>> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut reasons = vec![None; words.len()];
        let mut mark = |stretches: &[Span], reason: Reason| {
            for stretch in stretches {
                let start = spans.partition_point(|span| span.start < stretch.start);
                let end = spans
                    .partition_point(|span| span.end <= stretch.end)
                    .max(start);
                reasons[start..end].fill(Some(reason));
            }
        };
        if self.quotes {
            mark(&quotations(text), Reason::Quotes);
        }
        if self.bibliography {
            mark(&bibliography(text), Reason::Bibliography);
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
        let mut base = Base::new(Tokenization::default(), 3);
        base.add("seven eight nine ten eleven");
        let reasons = |rules: &Rules| rules.reasons(text, &words, &spans);
        let all = reasons(&Rules {
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
                of(Reason::Base),
                of(Reason::Quotes),
                of(Reason::Bibliography)
            ),
            (vec![6, 7, 8, 9], vec![3, 4, 5], vec![])
        );
        assert!(reasons(&Rules::default()).is_empty());
        assert!(
            reasons(&Rules {
                bibliography: true,
                ..Rules::default()
            })
            .is_empty()
        );
    }
}
