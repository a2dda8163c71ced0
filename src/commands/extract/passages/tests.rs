use super::*;
use crate::base::num::{ToU32, ToUsize};
use crate::{
    base::{error::Problem, files::TempDir},
    commands::{BuildOptions, build},
    index::Resources,
    text::{corpus, stream::Form},
};
use proptest::prelude::*;
use std::{collections::BTreeSet, fs, path::Path};

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

/// A passage: its length, and its places as documents and first tokens.
type Listed = (usize, Vec<(usize, usize)>);

/// The same without any cleverness.
struct Brute<'d> {
    documents: &'d [Vec<u8>],
    /// Distinct passages, in order, with their places.
    texts: Vec<(&'d [u8], Vec<usize>)>,
    min_tokens: usize,
}

type At = (usize, usize);

impl<'d> Brute<'d> {
    fn new(documents: &'d [Vec<u8>], min_tokens: usize) -> Self {
        let mut texts: Vec<(&[u8], Vec<usize>)> = Vec::new();
        for (number, document) in documents.iter().enumerate() {
            match texts.iter_mut().find(|(text, _)| text == document) {
                Some((_, copies)) => copies.push(number),
                None => texts.push((document, vec![number])),
            }
        }
        Self {
            documents,
            texts,
            min_tokens,
        }
    }

    fn rest(&self, (text, at): At) -> &[u8] {
        &self.texts[text].0[at..]
    }

    fn common(&self, one: At, two: At) -> usize {
        self.rest(one)
            .iter()
            .zip(self.rest(two))
            .take_while(|(one, two)| one == two)
            .count()
    }

    fn common_before(&self, (one, one_at): At, (two, two_at): At) -> usize {
        let (one, two) = (&self.texts[one].0[..one_at], &self.texts[two].0[..two_at]);
        one.iter()
            .rev()
            .zip(two.iter().rev())
            .take_while(|(one, two)| one == two)
            .count()
    }

    /// Places of a window, without repetitions but the first and the last; and which of them are last ones.
    fn places(&self, window: &[u8]) -> Vec<(At, bool)> {
        let mut kept = Vec::new();
        for (number, (text, _)) in self.texts.iter().enumerate() {
            let all: Vec<usize> = (0..text.len())
                .filter(|&at| text[at..].starts_with(window))
                .collect();
            let repeats = |one: usize, two: usize| text[two..].starts_with(&text[one..two]);
            for (index, &at) in all.iter().enumerate() {
                let after_same = index > 0 && repeats(all[index - 1], at);
                let before_same = index + 1 < all.len() && repeats(at, all[index + 1]);
                let is_even = index > 0
                    && index + 1 < all.len()
                    && all[index + 1] - at == at - all[index - 1];
                if !(after_same && before_same && is_even) {
                    kept.push(((number, at), after_same));
                }
            }
        }
        kept
    }

    fn candidates(&self) -> BTreeSet<(usize, Vec<At>)> {
        let windows: BTreeSet<&[u8]> = self
            .texts
            .iter()
            .flat_map(|(text, _)| text.windows(self.min_tokens))
            .collect();
        let mut found = BTreeSet::new();
        for window in windows {
            let all = |text: usize| {
                (0..self.texts[text].0.len())
                    .map(move |at| (text, at))
                    .filter(|at| self.rest(*at).starts_with(window))
            };
            let before = |(text, at): At| at.checked_sub(1).map(|at| self.texts[text].0[at]);
            let before: Vec<_> = (0..self.texts.len()).flat_map(all).map(before).collect();
            if before.len() < 2
                || (before[0].is_some() && before.iter().all(|one| *one == before[0]))
            {
                continue;
            }
            let kept = self.places(window);
            for (one, _) in &kept {
                for (two, _) in kept.iter().filter(|(two, _)| two > one) {
                    let tokens = self.common(*one, *two);
                    let same: Vec<_> = kept
                        .iter()
                        .filter(|(at, _)| at == one || self.common(*one, *at) >= tokens)
                        .collect();
                    let before = same
                        .iter()
                        .filter(|(at, _)| at != one)
                        .map(|(at, _)| self.common_before(*one, *at))
                        .min()
                        .unwrap();
                    let is_maximal = before == 0 || same.iter().any(|(_, is_last)| *is_last);
                    if is_maximal && same.iter().any(|(at, _)| at.0 != one.0) {
                        found.insert((
                            tokens + before,
                            same.iter()
                                .map(|((text, at), _)| (*text, at - before))
                                .collect(),
                        ));
                    }
                }
            }
        }
        let wholes = self
            .texts
            .iter()
            .enumerate()
            .filter(|(_, (text, copies))| copies.len() > 1 && text.len() >= self.min_tokens);
        found.extend(wholes.map(|(number, (text, _))| (text.len(), vec![(number, 0)])));
        found
    }

    fn copies(&self, at: &At) -> usize {
        self.texts[at.0].1.len()
    }

    fn listed(&self, taboo: &[Vec<u8>]) -> Vec<Listed> {
        let mut candidates: Vec<_> = self.candidates().into_iter().collect();
        let weight = |(tokens, places): &(usize, Vec<At>)| {
            tokens * places.iter().map(|at| self.copies(at)).sum::<usize>()
        };
        candidates.sort_by_key(|candidate| {
            (
                usize::MAX - weight(candidate),
                candidate.1[0],
                usize::MAX - candidate.0,
            )
        });
        let (mut covered, mut listed) = (BTreeSet::new(), Vec::new());
        for (tokens, places) in candidates {
            let is_new =
                |at: &&At| (at.1..at.1 + tokens).any(|token| !covered.contains(&(at.0, token)));
            let passage = &self.rest(places[0])[..tokens];
            let is_taboo = taboo
                .iter()
                .any(|document| document.windows(tokens).any(|window| window == passage));
            if places
                .iter()
                .filter(is_new)
                .map(|at| self.copies(at))
                .sum::<usize>()
                < 2
                || is_taboo
            {
                continue;
            }
            covered.extend(
                places
                    .iter()
                    .flat_map(|at| (at.1..at.1 + tokens).map(|token| (at.0, token))),
            );
            let mut all: Vec<_> = places
                .iter()
                .flat_map(|at| self.texts[at.0].1.iter().map(|&document| (document, at.1)))
                .collect();
            all.sort_unstable();
            listed.push((tokens, all));
        }
        listed
    }

    /// Whether something stands three times on end, so that the second time does not count.
    fn has_repetitions(&self) -> bool {
        let is_thrice = |text: &[u8], length: usize| {
            text.windows(3 * length)
                .any(|some| some[length..] == some[..2 * length])
        };
        self.texts
            .iter()
            .any(|(text, _)| (1..=text.len() / 3).any(|length| is_thrice(text, length)))
    }

    /// Of any two places of different documents that have enough in common, one is in a listed passage, as far as they have.
    fn ensure_none_is_missed(&self, listed: &[Listed]) -> Result<(), TestCaseError> {
        let places = listed
            .iter()
            .flat_map(|(tokens, places)| places.iter().map(move |place| (place, tokens)));
        let covered: BTreeSet<_> = places
            .flat_map(|(&(document, first), tokens)| {
                (first..first + tokens).map(move |at| (document, at))
            })
            .collect();
        let is_listed = |document: usize, at: usize, tokens: usize| {
            (at..at + tokens).all(|at| covered.contains(&(document, at)))
        };
        for (one, first) in self.documents.iter().enumerate() {
            for (two, second) in self
                .documents
                .iter()
                .enumerate()
                .filter(|(two, _)| *two != one)
            {
                for at in 0..first.len() {
                    for other in (0..second.len()).filter(|&other| {
                        at == 0 || other == 0 || first[at - 1] != second[other - 1]
                    }) {
                        let common = first[at..]
                            .iter()
                            .zip(&second[other..])
                            .take_while(|(one, two)| one == two)
                            .count();
                        prop_assert!(
                            common < self.min_tokens
                                || is_listed(one, at, common)
                                || is_listed(two, other, common)
                        );
                    }
                }
            }
        }
        Ok(())
    }
}

fn text_of(document: &[u8]) -> String {
    document
        .iter()
        .map(|&word| format!("{} ", char::from(b'a' + word)))
        .collect()
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
                text_of(document)
            )
        };
        documents.iter().enumerate().map(line).collect()
    };
    fs::write(&corpus, lines(documents)).unwrap();
    fs::write(&taboos, lines(taboo)).unwrap();
    let index = index_of(ask, &index, &corpus);
    let brute = Brute::new(documents, ask.min_tokens());
    let expected = brute.listed(&[]);
    if !brute.has_repetitions() {
        brute.ensure_none_is_missed(&expected)?;
    }
    for (taboos, expected) in [(Vec::new(), expected), (vec![taboos], brute.listed(taboo))] {
        let [one, three, no_table] = [(1, 1 << 30, None), (3, 1, None), (2, 1000, Some(0))]
            .map(|how| run_with(&index, &corpus, taboos.clone(), ask, how));
        prop_assert_eq!(&one, &three);
        prop_assert_eq!(&one, &no_table);
        let records = String::from_utf8(one).unwrap();
        let records = records
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .filter(|line| line["dedup"].is_null());
        let found: Vec<Listed> = records
            .map(|record| listed_of(&record, documents))
            .collect();
        prop_assert_eq!(&found, &expected);
    }
    Ok(())
}

/// Reads a record, and checks its counts.
fn listed_of(record: &serde_json::Value, documents: &[Vec<u8>]) -> Listed {
    let number = |value: &serde_json::Value| value.as_u64().unwrap().to_usize();
    let tokens = number(&record["tokens"]);
    let place = |place: &serde_json::Value| {
        let (start, end) = (number(&place["start"]), number(&place["end"]));
        assert_eq!((start % 2, end), (0, start + 2 * tokens - 1));
        (place["doc"].as_str().unwrap().parse().unwrap(), start / 2)
    };
    let places: Vec<(usize, usize)> = record["places"]
        .as_array()
        .unwrap()
        .iter()
        .map(place)
        .collect();
    let distinct: BTreeSet<_> = places.iter().map(|place| place.0).collect();
    assert_eq!(
        (number(&record["count"]), number(&record["documents"])),
        (places.len(), distinct.len())
    );
    assert!((1..=tokens * places.len()).contains(&number(&record["new"])));
    let text = text_of(&documents[places[0].0][places[0].1..places[0].1 + tokens]);
    assert_eq!(record["text"].as_str().unwrap(), text.trim_end());
    (tokens, places)
}

fn asks() -> impl Strategy<Value = Ask> {
    let scheme = prop::sample::select(vec!["ordered", "xor"]);
    (
        scheme,
        1_u32..5,
        1_u32..3,
        prop::sample::select(vec![16_u8, 32, 64]),
        0_u32..4,
    )
        .prop_map(|(scheme, k, interleave, bits, more_tokens)| Ask {
            scheme,
            k,
            interleave,
            bits,
            more_tokens,
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
};

#[test]
fn an_empty_index_has_no_passage() {
    check(&[], &[], &PLAIN).unwrap();
    check(&[vec![], vec![], vec![1; 3], vec![1; 3]], &[vec![]], &PLAIN).unwrap();
}
