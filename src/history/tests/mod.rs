//! Tests of whole histories against a brute-force comparison with every print.

mod history;
mod journals;
mod search;
mod tools;

use super::{
    Answer, History, MatchLimits, PrintSimilarity, Ratio, Request, StoreOptions,
    search::{
        plan::tests::{any_steps, steps_by_three},
        print_halves::{BODY_BYTES, PrintBody, body_words, split_print},
        searchable::{LiveFilter, SearchQuery, SearchableEntries},
        searcher::{SearchScratch, search},
        similarity::BestMatches,
    },
    store::{
        journal::{JournalDirectory, SyncPolicy},
        journal_format::{JournalRecord, replay},
        manifest::{HistoryManifest, journal_path},
        memtable::{Memtable, NewEntry},
        segment_writer::write_segment,
        synced_lengths::SyncedLengths,
        verify::verify,
    },
};
use crate::{
    base::num::{ToF64, ToU32, ToU64, ToUsize},
    history::search::searchable::EntrySource,
    text::stream::Print,
};
use proptest::prelude::*;
use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

/// Prints that are near one another, near none, equal, empty and full.
fn prints(count: usize) -> impl Strategy<Value = Vec<Print>> {
    let kind = prop_oneof![
        3 => any::<[u64; 4]>().prop_map(|words| (0, words, Vec::new())),
        8 => (0_usize..6, any::<[u64; 4]>(), prop::collection::vec(0_usize..256, 0..40)),
    ];
    prop::collection::vec(kind, 1..count).prop_map(|kinds| {
        let mut prints: Vec<Print> = vec![Print([0; 4]), Print([u64::MAX; 4])];
        for (of, words, flips) in kinds {
            let mut print = if flips.is_empty() {
                Print(words)
            } else {
                prints[prints.len() - 1 - of.min(prints.len() - 1)]
            };
            flips
                .iter()
                .for_each(|&bit| print.0[bit / 64] ^= 1 << (bit % 64));
            prints.push(print);
        }
        prints
    })
}

fn ratio() -> impl Strategy<Value = Ratio> {
    prop::sample::select(vec!["1", "0.94", "0.9", "0.8", "0.6", "0.3", "0"])
        .prop_map(|text| text.parse().unwrap())
}

/// The expected hits: most similar first, equal ones in order.
fn brute_force(
    history: &[(u64, Print)],
    print: &Print,
    min_similarity: Ratio,
    top: usize,
) -> Vec<(u64, PrintSimilarity)> {
    let mut found: Vec<_> = history
        .iter()
        .map(|(number, other)| (*number, PrintSimilarity::of(print, other)))
        .filter(|(_, similarity)| similarity.is_at_least(min_similarity))
        .collect();
    found.sort_by(|(_, one), (_, two)| (two.shared * one.union).cmp(&(one.shared * two.union)));
    found.truncate(top);
    found
}

fn memtable(prints: &[Print]) -> Memtable {
    let mut memtable = Memtable::default();
    let added = |(&print, sequence)| NewEntry {
        print,
        sequence,
        time: sequence.to_u32(),
        id: format!("d{sequence}").into(),
    };
    prints
        .iter()
        .zip(0..)
        .map(added)
        .for_each(|added| memtable.push(&added));
    memtable
}

/// Searches one source for all queries.
type Search<'s> = dyn Fn(&mut [SearchQuery<'_>]) + 's;

/// The hits of all queries, searched together.
fn found(
    prints: &[Print],
    min_similarity: Ratio,
    top: usize,
    among: &[&Search],
) -> Vec<Vec<(u64, PrintSimilarity)>> {
    let none = HashSet::new();
    let live = LiveFilter {
        first_sequence: 0,
        end_sequence: u64::MAX,
        first_time: 0,
        removed: &none,
    };
    let mut asked: Vec<_> = prints
        .iter()
        .map(|&print| SearchQuery::new(print, live, BestMatches::new(min_similarity, top)))
        .collect();
    among.iter().for_each(|search| search(&mut asked));
    let of = |asked: SearchQuery<'_>| {
        asked
            .best
            .into_hits()
            .iter()
            .map(|found| (found.sequence, found.similarity))
            .collect()
    };
    asked.into_iter().map(of).collect()
}

fn searching<S: SearchableEntries>(source: &S) -> impl Fn(&mut [SearchQuery<'_>]) {
    |asked| search(source, 0, asked, &mut SearchScratch::default()).unwrap()
}

static NOW: AtomicU32 = AtomicU32::new(1000);

fn options(threads: usize) -> StoreOptions {
    StoreOptions {
        threads,
        memtable_entries: 300,
        clock: || NOW.load(Ordering::Relaxed),
        ..StoreOptions::default()
    }
}

/// Many prints of which every fifth is near an earlier one.
fn many(count: usize, seed: u64) -> Vec<Print> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (state ^ state >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd)
    };
    let mut prints: Vec<Print> = Vec::new();
    for number in 0..count {
        let mut print = Print([next(), next(), next(), next()]);
        if number % 5 == 4 {
            print = prints[next().to_usize() % prints.len()];
            (0..next() % 20).for_each(|_| print.0[next().to_usize() % 4] ^= 1 << (next() % 64));
        }
        prints.push(print);
    }
    prints
}

fn ask(history: &mut History, prints: &[Print], first: usize, limits: &MatchLimits) -> Vec<Answer> {
    let ids: Vec<String> = (first..first + prints.len())
        .map(|number| format!("d{number}"))
        .collect();
    let requests: Vec<_> = ids
        .iter()
        .zip(prints)
        .map(|(id, &print)| Request {
            id,
            print: Some(print),
            add: true,
        })
        .collect();
    history.ask(&requests, limits).unwrap()
}
