//! dedup-extract, called through the library, gives the results of brute force on random corpora
//! with copies and exact duplicates.

use crate::test_dir::TestDir;
use dedup::{
    base::{error::Problem, files::TempDir, ids::ContentNo, parallel::Limits},
    commands::{
        BlotOptions, BuildOptions, Extract, ExtractOptions, Observer, RowFormat, Settings, build,
        extract,
    },
    index::{Index, Resources, View},
    report::{Format, GraphFormat, put_number},
    similar::{Discovery, DiscoveryOptions, Join, JoinScratch, KeepRule, Measure, Score},
    text::{corpus, stream::Form},
};
use proptest::prelude::*;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

struct Silent;

impl Observer for Silent {
    fn problem(&mut self, problem: &Problem) {
        panic!("{problem}");
    }

    fn progress(&mut self, _: u64, _: u64) {}
}

/// The blots of a document and its number of tokens. Equal documents are exact duplicates.
type Document = (BTreeSet<u32>, u32);

/// Builds an index of documents d000, d001, … in this order.
pub fn index_of(dir: &TestDir, documents: &[Document]) -> Index {
    let mut stream = String::new();
    for (number, (blots, tokens)) in documents.iter().enumerate() {
        let first = documents
            .iter()
            .position(|other| *other == documents[number])
            .unwrap()
            + 1;
        let blots: Vec<_> = blots
            .iter()
            .map(|&blot| format!("\"{:08x}\"", spread(blot)))
            .collect();
        stream += &format!(
            "{{\"doc\":\"d{number:03}\",\"hash\":\"{first:032x}\",\"tokens\":{tokens},\"blots\":[{}]}}\n",
            blots.join(",")
        );
    }
    build_index(dir, &stream)
}

fn build_index(dir: &TestDir, stream: &str) -> Index {
    dir.write("stream.jsonl", stream);
    let corpus = corpus::Options::of_files(vec![dir.path("stream.jsonl")]);
    let settings = Settings {
        form: Form::Binary,
        limits: Limits::new(2, 1 << 20),
        corpus,
    };
    let options = BuildOptions {
        blots: BlotOptions::default(),
        parts: 3,
        dictionary: false,
        resources: Resources {
            memory_bytes: 1 << 24,
            threads: 2,
            tmp_dir: TempDir(None),
        },
    };
    build(&options, &settings, &dir.path("i"), &mut Silent).unwrap();
    Index::open(&dir.path("i")).unwrap()
}

fn spread(blot: u32) -> u32 {
    blot.wrapping_mul(0x9e37_79b9)
}

/// The expected results, computed by brute force.
struct BruteForce<'d> {
    documents: &'d [Document],
    /// The blots that count, each with the number of documents that have it.
    df: BTreeMap<u32, u64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Pair {
    a: usize,
    b: usize,
    shared: u32,
    a_in_b: f64,
    b_in_a: f64,
    score: f64,
}

impl<'d> BruteForce<'d> {
    fn new(documents: &'d [Document], max_df: u64) -> Self {
        let mut df = BTreeMap::new();
        documents
            .iter()
            .flat_map(|document| &document.0)
            .for_each(|&blot| *df.entry(blot).or_default() += 1);
        df.retain(|_, df| *df <= max_df);
        Self { documents, df }
    }

    fn blots(&self, document: usize) -> BTreeSet<u32> {
        self.documents[document]
            .0
            .iter()
            .copied()
            .filter(|blot| self.df.contains_key(blot))
            .collect()
    }

    /// The documents that have a blot; of exact duplicates only the first.
    fn contents(&self, blot: u32) -> Vec<usize> {
        let has = |document: &Document| document.0.contains(&blot);
        let is_first = |at: usize| !self.documents[..at].contains(&self.documents[at]);
        (0..self.documents.len())
            .filter(|&at| has(&self.documents[at]) && is_first(at))
            .collect()
    }

    /// The sum of 1/df, added in the order of the program: rarest set first, then the set with more
    /// blots, then the lesser list.
    fn rarity(&self, shared: &BTreeSet<u32>) -> f64 {
        let mut sets: BTreeMap<Vec<usize>, (u64, u64)> = BTreeMap::new();
        for (&blot, &df) in &self.df {
            let set = sets.entry(self.contents(blot)).or_default();
            (set.0, set.1) = (df, set.1 + 1);
        }
        let of: BTreeSet<Vec<usize>> = shared.iter().map(|&blot| self.contents(blot)).collect();
        let mut order: Vec<_> = of
            .iter()
            .map(|set| (sets[set].0, Reverse(sets[set].1), set))
            .collect();
        order.sort();
        order.iter().fold(0.0, |sum, (df, Reverse(count), _)| {
            sum + *count as f64 / *df as f64
        })
    }

    fn pair(&self, score: Score, a: usize, b: usize) -> Option<Pair> {
        let [one, two] = [a, b].map(|document| self.blots(document));
        let common: BTreeSet<u32> = &one & &two;
        if common.is_empty() {
            return None;
        }
        let [shared, left, right] = [&common, &one, &two].map(|blots| blots.len() as f64);
        let (a_in_b, b_in_a, mean) = (shared / left, shared / right, (left + right) / 2.0);
        let score = match score {
            Score::Containment => a_in_b.max(b_in_a),
            Score::Jaccard => shared / (&one | &two).len() as f64,
            Score::S1 => shared,
            Score::S2 => shared / left.min(right),
            Score::S3 => shared / mean,
            Score::S4 => self.rarity(&common) / mean,
            Score::Rarity => self.rarity(&common),
            Score::RelativeRarity => {
                let product = (left / 1000.0) * (right / 1000.0);
                self.rarity(&common) / product.sqrt().sqrt()
            }
            Score::Inclusion => a_in_b,
        };
        Some(Pair {
            a,
            b,
            shared: common.len() as u32,
            a_in_b,
            b_in_a,
            score,
        })
    }

    fn pairs(&self, score: Score, threshold: f64) -> Vec<Pair> {
        let all = (0..self.documents.len())
            .flat_map(|a| (a + 1..self.documents.len()).map(move |b| (a, b)));
        all.filter_map(|(a, b)| self.pair(score, a, b))
            .filter(|pair| pair.score >= threshold)
            .collect()
    }
}

fn number(number: f64) -> String {
    let mut out = Vec::new();
    put_number(&mut out, number);
    String::from_utf8(out).unwrap()
}

fn pair_lines(pairs: &[Pair]) -> String {
    let line = |pair: &Pair| {
        format!(
            "d{:03}\td{:03}\t{}\t{}\t{}\t{}\n",
            pair.a,
            pair.b,
            pair.shared,
            number(pair.a_in_b),
            number(pair.b_in_a),
            number(pair.score)
        )
    };
    "a\tb\tshared\ta_in_b\tb_in_a\tscore\n".to_owned() + &pairs.iter().map(line).collect::<String>()
}

/// Extracts with several memory limits and thread counts and checks that the output is the same.
fn extracted(
    index: &Index,
    what: Extract,
    score: Score,
    threshold: f64,
    max_df: Option<u64>,
) -> String {
    let mut all: Vec<String> = Vec::new();
    for limits in [
        Limits::new(1, 1 << 24),
        Limits::new(3, 1 << 24),
        Limits::new(2, 64),
        Limits::new(1, 0),
    ] {
        let mut out = Vec::new();
        extract(
            &ExtractOptions {
                what,
                score,
                threshold,
                common: max_df.into(),
                limits,
            },
            index,
            &mut out,
            &mut |_, _| (),
        )
        .unwrap();
        all.push(String::from_utf8(out).unwrap());
    }
    assert!(
        all.iter().all(|out| *out == all[0]),
        "{what:?} depends on threads or memory"
    );
    all.swap_remove(0)
}

/// Passages are runs of blots. Documents consist of passages and some text of their own; some are
/// whole copies.
fn documents() -> impl Strategy<Value = Vec<Document>> {
    let made = (
        prop::collection::vec(0_u32..9, 0..5),
        0_u32..6,
        0_u32..4,
        any::<prop::sample::Index>(),
        0_u8..4,
    );
    prop::collection::vec(made, 0..14).prop_map(|made| {
        let mut documents: Vec<Document> = Vec::new();
        for (number, (passages, own, extra, copied, kind)) in (0_u32..).zip(made) {
            let passage = |passage: u32| (0..passage % 4 * 3 + 1).map(move |at| passage * 20 + at);
            let blots: BTreeSet<u32> = passages
                .into_iter()
                .flat_map(passage)
                .chain((0..own).map(|at| 1000 + number * 20 + at))
                .collect();
            let tokens = blots.len() as u32 + extra;
            let copy = (kind == 0 && !documents.is_empty()).then(|| copied.get(&documents).clone());
            documents.push(copy.unwrap_or((blots, tokens)));
        }
        documents
    })
}

fn scores() -> impl Iterator<Item = Score> {
    Score::NAMES.into_iter().map(|(_, score, _)| score)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn pairs_match_brute_force(documents in documents(), at in any::<prop::sample::Index>(), limit in 0_u64..9) {
        let dir = TestDir::new();
        let index = index_of(&dir, &documents);
        for score in scores() {
            for max_df in [None, (limit > 0).then_some(limit)] {
                let truth = BruteForce::new(&documents, max_df.unwrap_or(u64::MAX));
                let all = truth.pairs(score, 0.0);
                // A threshold that one pair just reaches and others just miss, and the usual
                // thresholds.
                let reached = if all.is_empty() { 0.3 } else { at.get(&all).score };
                for threshold in [0.0, reached, reached * (1.0 + f64::EPSILON), score.default_threshold(), 1.0, 5.0] {
                    let found = extracted(&index, Extract::Pairs(Format::Tsv), score, threshold, max_df);
                    prop_assert_eq!(found, pair_lines(&truth.pairs(score, threshold)), "{:?} {} {:?}", score, threshold, max_df);
                }
            }
        }
    }

    #[test]
    fn the_table_matches_brute_force(documents in documents(), top in 1_usize..6, threshold in prop::sample::select(vec![0.0, 0.1, 0.25, 0.5, 1.0])) {
        let dir = TestDir::new();
        let index = index_of(&dir, &documents);
        let truth = BruteForce::new(&documents, u64::MAX);
        let mut expected = [false, true].map(|ranks| if ranks { "a\trank\tb\tshared\ta_in_b\tb_in_a\n" } else { "a\tb\tshared\ta_in_b\tb_in_a\n" }.to_owned());
        for a in 0..documents.len() {
            let mut rows: Vec<Pair> = (0..documents.len()).filter(|&b| b != a).filter_map(|b| truth.pair(Score::Inclusion, a, b)).collect();
            rows.retain(|pair| pair.a_in_b >= threshold);
            rows.sort_by(|one, two| two.a_in_b.total_cmp(&one.a_in_b).then(one.b.cmp(&two.b)));
            for (rank, pair) in rows.iter().take(top).enumerate() {
                let row = format!("d{:03}\t{}\t{}\t{}\n", pair.b, pair.shared, number(pair.a_in_b), number(pair.b_in_a));
                expected[0] += &format!("d{a:03}\t{row}");
                expected[1] += &format!("d{a:03}\t{}\t{row}", rank + 1);
            }
        }
        for (ranks, expected) in [false, true].into_iter().zip(expected) {
            let what = Extract::Table { top, rows: RowFormat { format: Format::Tsv, ranks } };
            prop_assert_eq!(extracted(&index, what, Score::Inclusion, threshold, None), expected);
        }
    }

    #[test]
    fn clusters_are_connected_components_and_name_the_kept_document(documents in documents(), score in prop::sample::select(scores().collect::<Vec<_>>()), which in 0_usize..4) {
        let dir = TestDir::new();
        let index = index_of(&dir, &documents);
        let (truth, threshold, keep) = (BruteForce::new(&documents, u64::MAX), score.default_threshold(), KeepRule::NAMES[which].1);
        let pairs = truth.pairs(score, threshold);
        let found = extracted(&index, Extract::Clusters { keep, format: Format::Tsv }, score, threshold, None);
        let rows: Vec<Vec<&str>> = found.lines().skip(1).map(|line| line.split('\t').collect()).collect();
        let number_of = |id: &str| id[1..].parse::<usize>().unwrap();
        let expected = components(documents.len(), &pairs);
        let mut clusters: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        rows.iter().for_each(|row| clusters.entry(row[0].parse().unwrap()).or_default().push(number_of(row[1])));
        for (cluster, members) in &mut clusters {
            let kept = rows.iter().find(|row| row[0] == cluster.to_string() && row[2] == "1").map(|row| number_of(row[1])).unwrap();
            let length = |&document: &usize| documents[document].1;
            members.sort_unstable();
            let expected = match keep {
                KeepRule::First => members[0],
                KeepRule::Last => members[members.len() - 1],
                KeepRule::Longest => *members.iter().rev().max_by_key(|&document| length(document)).unwrap(),
                KeepRule::Shortest => *members.iter().min_by_key(|&document| length(document)).unwrap(),
            };
            prop_assert_eq!(kept, expected);
            let steps = steps_from(kept, documents.len(), &pairs);
            for row in rows.iter().filter(|row| row[0] == cluster.to_string() && row[2] == "0") {
                let [document, of] = [row[1], row[3]].map(number_of);
                let pair = truth.pair(score, document.min(of), document.max(of)).unwrap();
                prop_assert_eq!(row[4..].join(" "), format!("{} {}", pair.shared, number(pair.score)));
                prop_assert!(documents[document] == documents[kept] && of == kept || steps[of] + 1 == steps[document], "{} of {}", document, of);
            }
        }
        prop_assert_eq!(clusters.into_values().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_graph_has_the_pairs_as_edges(documents in documents(), threshold in prop::sample::select(vec![0.0, 0.3, 1.0])) {
        let dir = TestDir::new();
        let index = index_of(&dir, &documents);
        let pairs = BruteForce::new(&documents, u64::MAX).pairs(Score::Jaccard, threshold);
        let nodes: BTreeSet<usize> = pairs.iter().flat_map(|pair| [pair.a, pair.b]).collect();
        let node = |document: &usize| format!("  d{document} [label=\"d{document:03}\" tokens={}];\n", documents[*document].1);
        let edge = |pair: &Pair| {
            let numbers = [pair.a_in_b, pair.b_in_a, pair.score].map(number);
            format!("  d{} -- d{} [shared={} a_in_b={} b_in_a={} score={}];\n", pair.a, pair.b, pair.shared, numbers[0], numbers[1], numbers[2])
        };
        let expected = ["graph dedup {\n".to_owned(), nodes.iter().map(node).collect(), pairs.iter().map(edge).collect(), "}\n".to_owned()].concat();
        prop_assert_eq!(extracted(&index, Extract::Graph(GraphFormat::Dot), Score::Jaccard, threshold, None), expected);
    }

    #[test]
    fn exact_groups_and_blots_match_brute_force(documents in documents(), sigma in prop::option::of(-1.0..3.0)) {
        let dir = TestDir::new();
        let index = index_of(&dir, &documents);
        let mut exact = "group\tdoc\n".to_owned();
        let groups: BTreeSet<Vec<usize>> = (0..documents.len()).map(|at| (0..documents.len()).filter(|&other| documents[other] == documents[at]).collect()).collect();
        for (number, group) in groups.iter().filter(|group| group.len() > 1).enumerate() {
            group.iter().for_each(|document| exact += &format!("{}\td{document:03}\n", number + 1));
        }
        prop_assert_eq!(extracted(&index, Extract::Exact(Format::Tsv), Score::Containment, 0.5, None), exact);

        let truth = BruteForce::new(&documents, u64::MAX);
        let count = truth.df.len().max(1) as f64;
        let mean = truth.df.values().sum::<u64>() as f64 / count;
        let deviation = (truth.df.values().map(|&df| (df as f64 - mean).powi(2)).sum::<f64>() / count).sqrt();
        let mut blots: Vec<_> = truth.df.iter().filter(|(_, df)| **df >= 2 && sigma.is_none_or(|sigma| **df as f64 >= mean + sigma * deviation)).map(|(&blot, &df)| (Reverse(df), spread(blot), blot)).collect();
        blots.sort_unstable();
        let line = |&(Reverse(df), name, blot): &(Reverse<u64>, u32, u32)| {
            let docs: Vec<_> = (0..documents.len()).filter(|&document| documents[document].0.contains(&blot)).map(|document| format!("\"d{document:03}\"")).collect();
            format!("{{\"blot\":\"{name:010x}\",\"df\":{df},\"docs\":[{}]}}\n", docs.join(","))
        };
        let expected: String = blots.iter().map(line).collect();
        prop_assert_eq!(extracted(&index, Extract::Blots { sigma, format: Format::Ndjson }, Score::Containment, 0.5, None), expected);
    }
}

/// Connected components of two or more documents, in the order of their first documents.
fn components(documents: usize, pairs: &[Pair]) -> Vec<Vec<usize>> {
    let mut found: Vec<Vec<usize>> = Vec::new();
    for start in 0..documents {
        let steps = steps_from(start, documents, pairs);
        let members: Vec<usize> = (0..documents)
            .filter(|&document| steps[document] < usize::MAX)
            .collect();
        if members.len() > 1 && members[0] == start {
            found.push(members);
        }
    }
    found
}

/// The number of pairs on the shortest path from a document to each other document.
fn steps_from(start: usize, documents: usize, pairs: &[Pair]) -> Vec<usize> {
    let mut steps = vec![usize::MAX; documents];
    steps[start] = 0;
    for _ in 0..documents {
        for pair in pairs {
            for (one, two) in [(pair.a, pair.b), (pair.b, pair.a)] {
                steps[one] = steps[one].min(steps[two].saturating_add(1));
            }
        }
    }
    steps
}

/// The number of set members visited to find the neighbours of all contents, and the number of
/// members of all sets.
fn visited_members(index: &Index, score: Score, threshold: f64) -> (u64, usize) {
    let view = View::of(index).unwrap();
    let measure = Measure {
        score,
        threshold,
        selection: None,
    };
    let discovery = Discovery::new(
        &view,
        DiscoveryOptions {
            measure,
            common: None.into(),
            limits: Limits::new(1, 1 << 30),
        },
    )
    .unwrap();
    let content_sets = discovery.sets.content_sets(|_| true);
    let join = Join {
        ranked: &discovery.sets,
        content_sets: &content_sets,
        measure: &measure,
    };
    let (mut scratch, mut found, mut pairs) = (JoinScratch::default(), Vec::new(), 0);
    for content in ContentNo::first(view.contents().len()) {
        join.neighbours(&mut scratch, content, &mut found);
        pairs += found.len();
    }
    (scratch.work, pairs)
}

#[test]
fn a_blot_of_20000_documents_is_not_visited_if_the_threshold_excludes_it() {
    let mut stream = String::new();
    for document in 0..20_000_u32 {
        // Each document has 30 blots of all documents, 60 that it shares with its neighbour, and 10
        // of its own.
        let all = 0..30;
        let both = (0..60).map(|at| 1000 + document / 2 * 100 + at);
        let own = (0..10).map(|at| 2_000_000 + document * 100 + at);
        let blots: Vec<_> = all
            .chain(both)
            .chain(own)
            .map(|blot: u32| format!("\"{:08x}\"", spread(blot)))
            .collect();
        stream += &format!(
            "{{\"doc\":\"d{document}\",\"tokens\":110,\"blots\":[{}]}}\n",
            blots.join(",")
        );
    }
    let dir = TestDir::new();
    let index = build_index(&dir, &stream);
    for (score, threshold) in [
        (Score::Containment, 0.5),
        (Score::Jaccard, 0.5),
        (Score::S1, 40.0),
        (Score::S2, 0.4),
        (Score::S3, 0.4),
        (Score::S4, 0.2),
    ] {
        let (steps, pairs) = visited_members(&index, score, threshold);
        assert_eq!(pairs, 20_000, "{score:?}");
        assert!(steps < 50 * 20_000, "{score:?}: {steps}");
    }
}

#[test]
fn identical_documents_form_all_pairs_without_visiting_sets() {
    let dir = TestDir::new();
    let index = index_of(&dir, &vec![((0..50).collect(), 57); 300]);
    let pairs = extracted(
        &index,
        Extract::Pairs(Format::Tsv),
        Score::Jaccard,
        1.0,
        None,
    );
    assert_eq!(pairs.lines().count(), 1 + 300 * 299 / 2);
    assert!(
        pairs
            .lines()
            .skip(1)
            .all(|line| line.ends_with("\t50\t1\t1\t1"))
    );
    let table = extracted(
        &index,
        Extract::Table {
            top: 3,
            rows: RowFormat::new(Format::Tsv),
        },
        Score::Inclusion,
        0.1,
        None,
    );
    assert_eq!(table.lines().take(4).last(), Some("d000\td003\t50\t1\t1"));
    assert_eq!(visited_members(&index, Score::Containment, 0.5).0, 0);
}

#[test]
fn an_empty_index_has_no_results() {
    let dir = TestDir::new();
    let index = index_of(&dir, &[]);
    for what in [
        Extract::Pairs(Format::Ndjson),
        Extract::Table {
            top: 9,
            rows: RowFormat::new(Format::Ndjson),
        },
        Extract::Clusters {
            keep: KeepRule::First,
            format: Format::Ndjson,
        },
        Extract::Exact(Format::Ndjson),
        Extract::Blots {
            sigma: None,
            format: Format::Ndjson,
        },
    ] {
        assert_eq!(extracted(&index, what, Score::Containment, 0.5, None), "");
    }
}
