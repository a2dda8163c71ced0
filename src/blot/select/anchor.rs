//! Windows that start with one of the given phrases (Manber's anchors).
//!
//! Phrases are tokenised like documents. If a phrase ends with `*`, its last token is a prefix:
//! `the*` selects windows that start with the, these, theatre.

use super::{Select, SelectResult};
use crate::text::{
    stream::{Blots, Tokens},
    token::Tokenizer,
};
use std::{
    collections::{BTreeSet, HashMap},
    fs,
};
use xxhash_rust::xxh3::xxh3_64;

/// Selects windows that start with a phrase.
pub struct Anchor {
    /// The phrases by their first token, which may be a prefix.
    phrases: HashMap<Vec<u8>, Vec<Phrase>>,
    /// The lengths of the keys that are prefixes.
    open_lengths: BTreeSet<usize>,
    digest: u64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Phrase {
    tokens: Vec<Vec<u8>>,
    /// Whether the last token is a prefix.
    is_open: bool,
}

/// Reads a file of phrases, one per line.
pub fn read(path: &str, tokenizer: &Tokenizer) -> SelectResult {
    let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let phrases: BTreeSet<Phrase> = text
        .lines()
        .filter_map(|line| phrase(line, tokenizer))
        .collect();
    if phrases.is_empty() {
        return Err(format!("{path}: no phrases; write one per line"));
    }
    Ok(Box::new(Anchor::new(phrases)))
}

fn phrase(line: &str, tokenizer: &Tokenizer) -> Option<Phrase> {
    let mut tokens = Tokens::default();
    let (line, is_open) = line
        .trim_end()
        .strip_suffix('*')
        .map_or((line, false), |line| (line, true));
    tokenizer.clone().tokenize(line, &mut tokens);
    (!tokens.is_empty()).then(|| Phrase {
        tokens: tokens.iter().map(<[u8]>::to_vec).collect(),
        is_open,
    })
}

impl Anchor {
    fn new(list: BTreeSet<Phrase>) -> Self {
        let mut phrases = HashMap::<_, Vec<_>>::new();
        let mut open_lengths = BTreeSet::new();
        let mut lines = Vec::new();
        for phrase in list {
            let first = phrase.tokens[0].clone();
            if phrase.is_open && phrase.tokens.len() == 1 {
                open_lengths.insert(first.len());
            }
            lines.extend(phrase.tokens.join(&b'\n'));
            lines.extend(if phrase.is_open { b"*\n\n" } else { b"\n\n\n" });
            phrases.entry(first).or_default().push(phrase);
        }
        Self {
            phrases,
            open_lengths,
            digest: xxh3_64(&lines),
        }
    }

    fn starts_at(&self, tokens: &Tokens, at: usize) -> bool {
        let first = tokens.get(at);
        let beginnings = self
            .open_lengths
            .iter()
            .filter_map(|&length| first.get(..length));
        beginnings.chain([first]).any(|key| {
            self.phrases
                .get(key)
                .is_some_and(|phrases| phrases.iter().any(|phrase| phrase.starts_at(tokens, at)))
        })
    }
}

impl Phrase {
    fn starts_at(&self, tokens: &Tokens, at: usize) -> bool {
        let last = self.tokens.len() - 1;
        at + last < tokens.len()
            && self.tokens.iter().enumerate().all(|(index, token)| {
                let found = tokens.get(at + index);
                if self.is_open && index == last {
                    found.starts_with(token)
                } else {
                    found == token.as_slice()
                }
            })
    }
}

impl Select for Anchor {
    fn reject(&self, tokens: &Tokens, blots: &Blots, keep: &mut [bool]) {
        blots
            .positions
            .iter()
            .zip(keep)
            .for_each(|(&position, keep)| {
                *keep = *keep && self.starts_at(tokens, position as usize)
            });
    }

    fn name(&self) -> String {
        format!("anchor:={:016x}", self.digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::token::Rule;

    fn positions(anchors: &str, text: &str) -> Vec<u32> {
        let mut tokenizer = Tokenizer::new(Rule::Word, false);
        let anchor = Anchor::new(
            anchors
                .lines()
                .filter_map(|line| phrase(line, &tokenizer))
                .collect(),
        );
        let mut tokens = Tokens::default();
        tokenizer.tokenize(text, &mut tokens);
        let blots = Blots {
            values: vec![0; tokens.len()],
            positions: (0..tokens.len() as u32).collect(),
            ..Blots::default()
        };
        let mut keep = vec![true; tokens.len()];
        anchor.reject(&tokens, &blots, &mut keep);
        (0..)
            .zip(keep)
            .filter_map(|(at, keep)| keep.then_some(at))
            .collect()
    }

    #[test]
    fn windows_start_with_a_phrase() {
        let text = "The theatre, in part, is there; in PARTICULAR the end";
        assert_eq!(positions("the", text), [0, 8]);
        assert_eq!(positions("The*", text), [0, 1, 5, 8]);
        assert_eq!(positions("in part", text), [2]);
        assert_eq!(positions("in part*\n\nend", text), [2, 6, 9]);
        assert!(positions("end of", text).is_empty());
    }

    #[test]
    fn the_name_depends_on_the_phrases_only() {
        let tokenizer = Tokenizer::new(Rule::Word, false);
        let name = |text: &str| {
            Anchor::new(
                text.lines()
                    .filter_map(|line| phrase(line, &tokenizer))
                    .collect(),
            )
            .name()
        };
        assert_eq!(name("A\n b\n"), name("b\n\na"));
        assert_ne!(name("a\nb"), name("a b"));
        assert_ne!(name("a*"), name("a"));
    }
}
