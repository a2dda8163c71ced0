//! Selects the blots to keep: one file per heuristic.
//!
//! A heuristic rejects blots; a blot is kept if no heuristic of the chain rejects it. Each
//! heuristic sees all blots of the document, so the order of a chain does not count. To add a
//! heuristic, add a file here and a row in [`TABLE`].

mod anchor;
mod every;
mod modulo;
mod spex;
mod winnow;

use crate::{
    base::codec::clear_buffer,
    text::{
        scheme::{BlotScheme, SchemeTerm, SelectScheme},
        stream::{Blots, Tokens},
        token::Tokenizer,
    },
};
pub use spex::write_filter;
use std::sync::Arc;

/// A heuristic that selects blots.
pub trait Select: Send + Sync {
    /// Sets `keep` to false for each rejected blot.
    fn reject(&self, tokens: &Tokens, blots: &Blots, keep: &mut [bool]);

    /// The name of the selection in a scheme: it identifies the selected blots, without paths.
    fn name(&self) -> String;

    /// Whether it rejects only blots that occur in a single document of the collection.
    fn keeps_all_shared(&self) -> bool {
        false
    }
}

type SelectResult = Result<Box<dyn Select>, String>;

/// The properties of the blots that a selection depends on.
#[derive(Debug, Clone, Copy)]
pub struct SelectContext<'a> {
    /// The tokenizer of the documents.
    pub tokenizer: &'a Tokenizer,
    /// The scheme of the tokens and of the windows, such as `words@18.0/49 ordered:8`.
    pub scheme: &'a str,
    /// The bits of a blot.
    pub bits: u8,
}

/// A heuristic that users can choose.
pub struct SelectionEntry {
    /// The name, and what its argument is: `N`, `FILE`.
    pub name: &'static str,
    /// One line for the help.
    pub help: &'static str,
    /// Reads the argument.
    pub read: fn(&str, SelectContext<'_>) -> SelectResult,
    /// The mean number of blots for each kept blot, by the argument; 1 if the rate of shared blots
    /// is unknown.
    pub rate: fn(f64) -> f64,
}

/// All heuristics.
pub const TABLE: &[SelectionEntry] = &[
    SelectionEntry {
        name: "mod:N",
        help: "blots that N divides: one in N",
        read: |n, _| Ok(Box::new(modulo::Modulo(number(n)?))),
        rate: |n| n,
    },
    SelectionEntry {
        name: "every:N",
        help: "the first of each N blots",
        read: |n, _| Ok(Box::new(every::Every(number(n)?))),
        rate: |_| 1.0,
    },
    SelectionEntry {
        name: "winnow:W",
        help: "the least of each W neighbours; no shared run of W+k-1 tokens is missed (interleaved by N, of W+(k-1)*N)",
        read: |w, _| Ok(Box::new(winnow::Winnow(number(w)?))),
        rate: |w| (w + 1.0) / 2.0,
    },
    SelectionEntry {
        name: "anchor:FILE",
        help: "windows that start with a phrase of FILE, one a line (a last * stands for any ending)",
        read: |path, of| anchor::read(path, of.tokenizer),
        rate: |_| 1.0,
    },
    SelectionEntry {
        name: "spex:FILE",
        help: "chunks that occur more than once, by the filter FILE that dedup-spex wrote",
        read: spex::read,
        rate: |_| 1.0,
    },
];

impl SelectionEntry {
    fn find(term: &SchemeTerm) -> Option<&'static Self> {
        let is_it = |row: &&Self| row.name.split(':').next() == Some(term.name.as_str());
        TABLE.iter().find(is_it)
    }
}

/// Whether the argument of a selection names a file.
pub fn names_file(term: &SchemeTerm) -> bool {
    SelectionEntry::find(term).is_some_and(|row| row.name.ends_with(":FILE"))
}

/// The help text of the selections.
pub fn help() -> String {
    let rows = TABLE
        .iter()
        .map(|row| format!("{}: {}", row.name, row.help))
        .collect::<Vec<_>>();
    format!(
        "all: every blot;\n{};\nseveral with commas: what all of them keep",
        rows.join(";\n")
    )
}

/// Whether the selection keeps every blot that two documents of the collection share.
pub fn is_complete(select: &SelectScheme) -> bool {
    let keeps_shared = |term: &SchemeTerm| term.is_plain("all") || is_spex(term);
    select.0.iter().all(keeps_shared)
}

/// Whether the selection leaves out blots that occur in a single document.
pub fn is_shared_only(select: &SelectScheme) -> bool {
    select.0.iter().any(is_spex)
}

/// Whether records of this scheme leave out the blots of single documents, and have a count of all.
pub fn is_scheme_shared_only(scheme: &BlotScheme) -> bool {
    let selects = scheme
        .windows
        .0
        .iter()
        .filter_map(|window| window.select.as_ref());
    selects.chain([&scheme.select]).any(is_shared_only)
}

/// The scheme of the same blots including those that occur in a single document.
pub fn without_spex(scheme: &BlotScheme) -> BlotScheme {
    let mut scheme = scheme.clone();
    scheme.select = select_without_spex(&scheme.select);
    for window in &mut scheme.windows.0 {
        window.select.take_if(|select| is_shared_only(select));
    }
    scheme
}

/// The selection without the terms that leave out blots of single documents.
pub fn select_without_spex(select: &SelectScheme) -> SelectScheme {
    let terms: Vec<_> = select
        .0
        .iter()
        .filter(|term| !is_spex(term))
        .cloned()
        .collect();
    if terms.is_empty() {
        return SelectScheme::default();
    }
    SelectScheme(terms)
}

/// Whether this is the selection of an index of shared chunks, as dedup-spex writes it.
pub fn is_of_shared_chunks(select: &SelectScheme) -> bool {
    select.0.iter().any(|term| term.is_plain("spex"))
}

fn is_spex(term: &SchemeTerm) -> bool {
    term.name == "spex"
}

/// The mean number of blots for each kept blot: 16 for `mod:16`, 5/2 for `winnow:4`, the product
/// for a chain.
///
/// 1 if the rate of shared blots is unknown: it does not depend on the anchors, nor on the first
/// blot that `every` counts.
pub fn rate(select: &SelectScheme) -> f64 {
    let rate_of = |term: &SchemeTerm| {
        let argument = term.argument.as_ref()?.parse().ok()?;
        SelectionEntry::find(term).map(|row| (row.rate)(argument))
    };
    let rate_of = |term| rate_of(term).unwrap_or(1.0);
    select.0.iter().map(rate_of).product()
}

fn number(text: &str) -> Result<u64, String> {
    text.parse()
        .ok()
        .filter(|&n| n > 0)
        .ok_or_else(|| format!("'{text}' is not a number above 0"))
}

/// A chain of heuristics.
#[derive(Clone, Default)]
pub struct Selection {
    chain: Arc<[Box<dyn Select>]>,
    keep: Vec<bool>,
}

impl Selection {
    /// Reads `all`, `mod:16`, `winnow:4,mod:2`, …
    pub fn parse(select: &SelectScheme, of: SelectContext<'_>) -> Result<Self, String> {
        let mut chain = Vec::new();
        for term in select.0.iter().filter(|term| !term.is_plain("all")) {
            let name = term.name.as_str();
            let argument = term.argument.as_deref().unwrap_or_default();
            let row = SelectionEntry::find(term).ok_or_else(|| {
                let names: Vec<_> = TABLE.iter().map(|row| row.name).collect();
                format!("no selection '{term}'; there are all, {}", names.join(", "))
            })?;
            chain.push((row.read)(argument, of).map_err(|what| format!("{name}: {what}"))?);
        }
        chain.sort_by_key(|select| select.name());
        chain.dedup_by_key(|select| select.name());
        Ok(Self {
            chain: chain.into(),
            keep: Vec::new(),
        })
    }

    /// Whether every blot is kept.
    pub fn is_all(&self) -> bool {
        self.chain.is_empty()
    }

    /// The selection as a part of a scheme.
    pub fn scheme(&self) -> SelectScheme {
        if self.chain.is_empty() {
            return SelectScheme::default();
        }
        let terms = self
            .chain
            .iter()
            .map(|select| select.name().as_str().into());
        SelectScheme(terms.collect())
    }

    /// Whether the selection leaves out blots that occur in a single document.
    pub fn is_shared_only(&self) -> bool {
        self.chain.iter().any(|select| select.keeps_all_shared())
    }

    /// Removes the rejected blots.
    pub fn apply(&mut self, tokens: &Tokens, blots: &mut Blots) {
        self.apply_counting(tokens, blots, &mut Vec::new());
    }

    /// As [`Selection::apply`]; also appends to `all` the blots that would be kept if those of
    /// single documents counted. Only for a selection of shared blots.
    pub fn apply_counting(&mut self, tokens: &Tokens, blots: &mut Blots, all: &mut Vec<u64>) {
        if self.chain.is_empty() {
            return;
        }
        clear_buffer(&mut self.keep);
        self.keep.resize(blots.len(), true);
        let (spex, others): (Vec<_>, Vec<_>) = self
            .chain
            .iter()
            .partition(|select| select.keeps_all_shared());
        others
            .iter()
            .for_each(|select| select.reject(tokens, blots, &mut self.keep));
        if !spex.is_empty() {
            all.extend(
                blots
                    .values
                    .iter()
                    .zip(&self.keep)
                    .filter(|(_, keep)| **keep)
                    .map(|(value, _)| *value),
            );
        }
        spex.iter()
            .for_each(|select| select.reject(tokens, blots, &mut self.keep));
        let (mut values, mut positions) = (self.keep.iter(), self.keep.iter());
        blots.values.retain(|_| values.next() == Some(&true));
        blots.positions.retain(|_| positions.next() == Some(&true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::token::Rule;

    fn parse(text: &str) -> Result<Selection, String> {
        Selection::parse(
            &text.into(),
            SelectContext {
                tokenizer: &Tokenizer::new(Rule::Word, false),
                scheme: "word@18.0 ordered:8",
                bits: 32,
            },
        )
    }

    fn select(text: &str, values: &[u64]) -> Vec<u64> {
        let mut blots = Blots {
            values: values.to_vec(),
            positions: (0..values.len() as u32).collect(),
            ..Blots::default()
        };
        parse(text).unwrap().apply(&Tokens::default(), &mut blots);
        blots.values
    }

    #[test]
    fn a_chain_keeps_the_blots_that_all_heuristics_keep() {
        let values: Vec<u64> = (0..24).collect();
        assert_eq!(select("all", &values), values);
        assert_eq!(select("mod:4", &values), [0, 4, 8, 12, 16, 20]);
        assert_eq!(select("every:3", &values), [0, 3, 6, 9, 12, 15, 18, 21]);
        assert_eq!(select("mod:4,every:3", &values), [0, 12]);
        assert_eq!(select("every:3,mod:4", &values), [0, 12]);
    }

    #[test]
    fn names_are_canonical() {
        for (text, name) in [
            ("all", "all"),
            ("winnow:4,mod:2", "mod:2,winnow:4"),
            ("all,mod:07,mod:7", "mod:7"),
        ] {
            assert_eq!(parse(text).unwrap().scheme().to_string(), name);
        }
    }

    #[test]
    fn rates_are_the_inverse_of_the_kept_share() {
        for (name, expected) in [
            ("all", 1.0),
            ("mod:16", 16.0),
            ("winnow:4", 2.5),
            ("mod:2,winnow:4", 5.0),
            ("every:3", 1.0),
            ("anchor:x", 1.0),
        ] {
            assert_eq!(rate(&name.into()), expected, "{name}");
        }
    }

    #[test]
    fn errors_name_the_valid_values() {
        let explain = |text| parse(text).err().unwrap();
        assert_eq!(
            explain("mood:4"),
            "no selection 'mood:4'; there are all, mod:N, every:N, winnow:W, anchor:FILE, spex:FILE"
        );
        assert_eq!(explain("mod:0"), "mod: '0' is not a number above 0");
        assert_eq!(explain("mod"), "mod: '' is not a number above 0");
        assert!(explain("anchor:/no/such/file").starts_with("anchor: /no/such/file: "));
    }
}
