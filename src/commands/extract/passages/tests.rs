use super::*;
use crate::base::num::{ToU32, ToUsize};
use crate::{
    base::{error::Problem, files::TempDir},
    commands::{BuildOptions, build},
    index::Resources,
    text::{
        corpus,
        stream::Form,
        token::{Rule, Tokenizer},
    },
};
use proptest::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    ops::Range,
    path::Path,
};

struct Quiet;

impl Observer for Quiet {
    fn problem(&mut self, problem: &Problem) {
        panic!("{problem}");
    }

    fn progress(&mut self, _: u64, _: u64) {}
}

/// How to build an index, and which passages to list.
#[derive(Debug, Clone)]
struct Ask {
    scheme: &'static str,
    k: u32,
    interleave: u32,
    bits: u8,
    more_tokens: u32,
    is_dna: bool,
}

impl Ask {
    fn min_tokens(&self) -> usize {
        ((self.k - 1) * self.interleave + 1 + self.more_tokens).to_usize()
    }
}

fn settings(paths: Vec<PathBuf>, threads: usize) -> Settings {
    Settings {
        form: Form::Ndjson,
        limits: Limits::new(threads, 1 << 10),
        corpus: corpus::Options::of_files(paths),
    }
}

fn index_of(ask: &Ask, directory: &Path, corpus: &Path) -> Index {
    let blots = BlotOptions {
        scheme: Some(ask.scheme.into()),
        k: Some(ask.k),
        interleave: Some(ask.interleave),
        bits: Some(ask.bits),
        tokenizer: ask.is_dna.then(|| Tokenizer::new(Rule::Dna, false)),
        ..BlotOptions::default()
    };
    let resources = Resources {
        memory_bytes: 1 << 20,
        threads: 1,
        tmp_dir: TempDir(None),
    };
    build(
        &BuildOptions {
            blots,
            parts: 1,
            dictionary: false,
            resources,
        },
        &settings(vec![corpus.to_owned()], 1),
        directory,
        &mut Quiet,
    )
    .unwrap();
    Index::open(directory).unwrap()
}

/// The documents that have each window, and where it is not excluded.
struct Brute<'d> {
    documents: &'d [Vec<u8>],
    taboo: &'d [Vec<u8>],
    min_tokens: usize,
    is_dna: bool,
}

impl Brute<'_> {
    /// A window; of the two strands of DNA the smaller one.
    fn window(&self, tokens: &[u8]) -> Vec<u8> {
        let own = tokens.to_vec();
        if !self.is_dna {
            return own;
        }
        own.iter()
            .rev()
            .map(|base| 3 - base)
            .collect::<Vec<_>>()
            .min(own)
    }

    fn windows(&self, documents: &[Vec<u8>]) -> BTreeMap<Vec<u8>, BTreeSet<usize>> {
        let mut found: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (number, document) in documents.iter().enumerate() {
            for window in document.windows(self.min_tokens) {
                found.entry(self.window(window)).or_default().insert(number);
            }
        }
        found
    }

    /// Every window that two documents share is in a listed place wherever it occurs, except near
    /// excluded windows, which are in none.
    fn ensure_all_are_listed(&self, listed: &[Family]) -> Result<(), TestCaseError> {
        let (shared, taboo) = (self.windows(self.documents), self.windows(self.taboo));
        let places: Vec<_> = listed.iter().flat_map(|family| &family.places).collect();
        for (number, document) in self.documents.iter().enumerate() {
            let windows: Vec<_> = document
                .windows(self.min_tokens)
                .map(|window| self.window(window))
                .collect();
            for (at, window) in windows.iter().enumerate() {
                let around = at.saturating_sub(self.min_tokens - 1)..=at + self.min_tokens - 1;
                let is_near_taboo = windows[*around.start()..windows.len().min(around.end() + 1)]
                    .iter()
                    .any(|window| taboo.contains_key(window));
                let is_listed = places.iter().any(|place| {
                    place.document == number
                        && (place.tokens.start..=place.tokens.end - self.min_tokens).contains(&at)
                });
                prop_assert!(
                    !is_listed || !taboo.contains_key(window),
                    "document {number}, token {at} is excluded: {listed:?}"
                );
                prop_assert!(
                    is_listed || is_near_taboo || shared[window].len() < 2,
                    "document {number}, token {at} is missing: {listed:?}"
                );
            }
        }
        Ok(())
    }

    /// Each family has places in two documents, and each place a shared window; and what families
    /// have in common is bounded.
    fn ensure_none_is_idle(&self, listed: &[Family]) -> Result<(), TestCaseError> {
        let shared = self.windows(self.documents);
        for family in listed {
            for place in &family.places {
                let tokens = &self.documents[place.document][place.tokens.clone()];
                prop_assert!(
                    tokens
                        .windows(self.min_tokens)
                        .any(|window| shared[&self.window(window)].len() > 1)
                );
            }
            let documents: BTreeSet<_> = family.places.iter().map(|place| place.document).collect();
            prop_assert!(documents.len() > 1, "{family:?}");
            prop_assert_eq!(family.documents, documents.len());
        }
        let tokens: usize = self.documents.iter().map(Vec::len).sum();
        let new: usize = listed.iter().map(|family| family.new).sum();
        prop_assert!(new <= tokens);
        Ok(())
    }
}

/// A listed family.
#[derive(Debug)]
struct Family {
    documents: usize,
    new: usize,
    places: Vec<Place>,
}

#[derive(Debug)]
struct Place {
    document: usize,
    tokens: Range<usize>,
}

/// The text of a document: words of one letter, or bases.
fn text_of(document: &[u8], is_dna: bool) -> String {
    let word = |&word: &u8| match is_dna {
        true => char::from(b"acgt"[usize::from(word)]).to_string(),
        false => format!("{} ", char::from(b'a' + word)),
    };
    document.iter().map(word).collect()
}

fn run_with(
    index: &Index,
    corpus: &Path,
    taboo: Vec<PathBuf>,
    ask: &Ask,
    (threads, memory_bytes, most): (usize, u64, Option<u64>),
) -> Vec<u8> {
    let (min_tokens, by_id) = (
        (ask.more_tokens > 0).then(|| ask.min_tokens().to_u32()),
        None,
    );
    let options = PassagesOptions {
        min_tokens,
        taboo,
        top: None,
        format: Format::Ndjson,
        memory_bytes,
        by_id,
    };
    let mut out = Vec::new();
    passages_with(
        index,
        &options,
        &settings(vec![corpus.to_owned()], threads),
        most,
        &mut out,
        &mut Quiet,
    )
    .unwrap();
    out
}

fn check(documents: &[Vec<u8>], taboo: &[Vec<u8>], ask: &Ask) -> Result<(), TestCaseError> {
    let directory = tempfile::tempdir().unwrap();
    let [corpus, taboos, index] =
        ["c.jsonl", "t.jsonl", "i"].map(|name| directory.path().join(name));
    let lines = |documents: &[Vec<u8>]| -> String {
        let line = |(number, document): (usize, &Vec<u8>)| {
            format!(
                "{{\"id\":\"{number}\",\"text\":\"{}\"}}\n",
                text_of(document, ask.is_dna)
            )
        };
        documents.iter().enumerate().map(line).collect()
    };
    fs::write(&corpus, lines(documents)).unwrap();
    fs::write(&taboos, lines(taboo)).unwrap();
    let index = index_of(ask, &index, &corpus);
    for (paths, taboo) in [(Vec::new(), &[][..]), (vec![taboos], taboo)] {
        let [one, three, no_table] = [(1, 1 << 30, None), (3, 1, None), (2, 1000, Some(0))]
            .map(|how| run_with(&index, &corpus, paths.clone(), ask, how));
        prop_assert_eq!(&one, &three);
        prop_assert_eq!(&one, &no_table);
        let records = String::from_utf8(one).unwrap();
        let records = records
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .filter(|line| line["dedup"].is_null());
        let found: Vec<Family> = records
            .map(|record| family_of(&record, documents, ask.is_dna))
            .collect();
        let brute = Brute {
            documents,
            taboo,
            min_tokens: ask.min_tokens(),
            is_dna: ask.is_dna,
        };
        brute.ensure_all_are_listed(&found)?;
        brute.ensure_none_is_idle(&found)?;
    }
    Ok(())
}

/// Reads a record, and checks its representative and its variants.
fn family_of(record: &serde_json::Value, documents: &[Vec<u8>], is_dna: bool) -> Family {
    let number = |value: &serde_json::Value| value.as_u64().unwrap().to_usize();
    let width = if is_dna { 1 } else { 2 };
    let place = |place: &serde_json::Value| {
        let (start, end) = (number(&place["start"]), number(&place["end"]));
        assert_eq!(start % width, 0);
        Place {
            document: place["doc"].as_str().unwrap().parse().unwrap(),
            tokens: start / width..end.div_ceil(width),
        }
    };
    let records = record["places"].as_array().unwrap();
    let places: Vec<Place> = records.iter().map(place).collect();
    let representative = place(&record["representative"]);
    let tokens_of = |place: &Place| &documents[place.document][place.tokens.clone()];
    let text = text_of(tokens_of(&representative), is_dna);
    assert_eq!(record["text"].as_str().unwrap(), text.trim_end());
    assert_eq!(number(&record["tokens"]), representative.tokens.len());
    assert_eq!(number(&record["count"]), places.len());
    let mut variants: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    for (place, record) in places.iter().zip(records) {
        let mut tokens = tokens_of(place).to_vec();
        if record["reverse"] == true {
            tokens = tokens.iter().rev().map(|base| 3 - base).collect();
        }
        let variant = record["variant"].as_u64().unwrap_or(1);
        assert_eq!(variants.entry(variant).or_insert(tokens.clone()), &tokens);
    }
    assert_eq!(variants[&1], tokens_of(&representative));
    assert_eq!(number(&record["variants"]), variants.len());
    Family {
        documents: number(&record["documents"]),
        new: number(&record["new"]),
        places,
    }
}

fn asks() -> impl Strategy<Value = Ask> {
    let scheme = prop::sample::select(vec!["ordered", "xor"]);
    (
        scheme,
        1_u32..5,
        1_u32..3,
        prop::sample::select(vec![16_u8, 32, 64]),
        0_u32..4,
        any::<bool>(),
    )
        .prop_map(|(scheme, k, interleave, bits, more_tokens, is_dna)| Ask {
            scheme,
            k,
            interleave,
            bits,
            more_tokens,
            is_dna,
        })
}

/// Documents made of a few pieces, some of them copies of others.
fn documents() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let pieces = prop::collection::vec(prop::collection::vec(0_u8..3, 0..9), 1..4);
    let document = prop::collection::vec((0_usize..4, prop::collection::vec(0_u8..4, 0..3)), 0..5);
    (
        pieces,
        prop::collection::vec(document, 0..6),
        prop::collection::vec(0_usize..6, 0..3),
    )
        .prop_map(|(pieces, documents, copied)| {
            let written = |document: Vec<(usize, Vec<u8>)>| -> Vec<u8> {
                document
                    .into_iter()
                    .flat_map(|(piece, more)| {
                        pieces
                            .get(piece)
                            .into_iter()
                            .flatten()
                            .copied()
                            .chain(more)
                            .collect::<Vec<_>>()
                    })
                    .collect()
            };
            let mut documents: Vec<Vec<u8>> = documents.into_iter().map(written).collect();
            let copies: Vec<_> = copied
                .iter()
                .filter_map(|&number| documents.get(number).cloned())
                .collect();
            documents.extend(copies);
            documents
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn passages_are_those_of_the_definition(documents in documents(), taboo in documents(), ask in asks()) {
        check(&documents, &taboo, &ask)?;
    }
}

const PLAIN: Ask = Ask {
    scheme: "ordered",
    k: 8,
    interleave: 1,
    bits: 32,
    more_tokens: 0,
    is_dna: false,
};

#[test]
fn an_empty_index_has_no_passage() {
    check(&[], &[], &PLAIN).unwrap();
    check(&[vec![], vec![], vec![1; 3], vec![1; 3]], &[vec![]], &PLAIN).unwrap();
}
