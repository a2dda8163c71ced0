//! Against a look at every print.

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
        journal::{JournalDirectory, JournalRecord, SyncPolicy, replay},
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

/// All that is alike enough, the best first, of equals the first.
fn brute(
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

/// Looks for all that is asked in one place.
type Search<'s> = dyn Fn(&mut [SearchQuery<'_>]) + 's;

/// What all requests find, asked together.
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_segment_finds_what_a_look_at_all_finds(
        prints in prints(400), min_similarity in ratio(), top in 1_usize..4, cut in 0_usize..400, steps in any_steps(),
    ) {
        let cut = cut.min(prints.len());
        let (one, two) = (memtable(&prints[..cut]), memtable(&prints));
        let (directory, stop) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
        let path = |name: &str| directory.path().join(name);
        let first = write_segment(&[&one], &|_, _| true, 0, &path("a"), &stop).unwrap();
        // The rest, from a source in which what is in the first is not kept.
        let second = write_segment(&[&two], &|sequence, _| sequence >= cut.to_u64(), 0, &path("b"), &stop).unwrap();
        let sources: Vec<&dyn EntrySource> = first.iter().chain(&second).map(|segment| segment as &dyn EntrySource).collect();
        let mut merged = write_segment(&sources, &|_, _| true, 2, &path("c"), &stop).unwrap().unwrap();
        let all: Vec<_> = (0..).zip(prints.iter().copied()).collect();
        let expected: Vec<_> = prints.iter().map(|print| brute(&all, print, min_similarity, top)).collect();
        let parts: Vec<_> = first.iter().chain(&second).map(searching).collect();
        let parts: Vec<&Search> = parts.iter().map(|part| part as _).collect();
        prop_assert_eq!(&found(&prints, min_similarity, top, &[&searching(&merged)]), &expected);
        prop_assert_eq!(&found(&prints, min_similarity, top, &parts), &expected);
        prop_assert_eq!(&found(&prints, min_similarity, top, &[&searching(&two)]), &expected);
        // Whatever the plan, it finds the same.
        merged.steps = steps;
        prop_assert_eq!(&found(&prints, min_similarity, top, &[&searching(&merged)]), &expected);
        for (number, print) in prints.iter().enumerate() {
            let id = format!("d{number}");
            prop_assert_eq!(two.with_id(&id).unwrap(), [number.to_u32()]);
            let entries = merged.with_id(&id).unwrap();
            prop_assert_eq!(entries.len(), 1);
            prop_assert_eq!((merged.sequence(entries[0]).unwrap(), merged.time(entries[0]).unwrap()), (number.to_u64(), number.to_u32()));
            prop_assert_eq!(merged.print(entries[0]).unwrap(), *print);
        }
    }
}

/// With so many entries that tables are used, in pieces and as a whole, asked together and one by one.
#[test]
fn tables_find_what_a_look_at_all_finds() {
    let mut prints = many(60_000, 9);
    // Some are there a hundred times, and some have few bits or many.
    for at in 0..100 {
        prints[50 * at + 7] = prints[3];
        prints[50 * at + 8].0[at % 4] = 0;
        prints[50 * at + 9].0[at % 4] = u64::MAX;
    }
    let (directory, stop) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
    let memtable = memtable(&prints);
    let build = |name: &str| {
        write_segment(
            &[&memtable],
            &|_, _| true,
            0,
            &directory.path().join(name),
            &stop,
        )
        .unwrap()
        .unwrap()
    };
    let (segment, mut looked_up) = (build("a"), build("b"));
    // Tables cost nothing, and part 0 is looked up for the last two bits.
    looked_up.steps = steps_by_three();
    let all: Vec<_> = (0..).zip(prints.iter().copied()).collect();
    let asked: Vec<Print> = prints[..20]
        .iter()
        .chain(&many(60, 10))
        .chain(&prints[3000..3070])
        .copied()
        .collect();
    for (min_similarity, top) in [
        ("1", 3),
        ("0.97", 1),
        ("0.94", 2),
        ("0.85", 1),
        ("0.8", 2),
        ("0.76", 1),
        ("0.7", 1),
    ] {
        let min_similarity: Ratio = min_similarity.parse().unwrap();
        let expected: Vec<_> = asked
            .iter()
            .map(|print| brute(&all, print, min_similarity, top))
            .collect();
        assert_eq!(
            found(&asked, min_similarity, top, &[&searching(&memtable)]),
            expected
        );
        assert_eq!(
            found(&asked, min_similarity, top, &[&searching(&segment)]),
            expected
        );
        assert_eq!(
            found(&asked, min_similarity, top, &[&searching(&looked_up)]),
            expected
        );
        let alone: Vec<_> = asked
            .iter()
            .flat_map(|print| found(&[*print], min_similarity, top, &[&searching(&segment)]))
            .collect();
        assert_eq!(alone, expected);
    }
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

/// Many prints of which every fifth is near one before it.
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

/// Through memory, files and merges, closed and opened again, with two threads and one.
#[test]
fn a_history_finds_what_a_look_at_all_finds() {
    let (prints, limits) = (
        many(9000, 1),
        MatchLimits {
            min_similarity: "0.85".parse().unwrap(),
            top: 2,
        },
    );
    let directory = tempfile::tempdir().unwrap();
    let (mut answers, mut other) = (Vec::new(), Vec::new());
    let mut alone = History::open(&directory.path().join("one"), options(1))
        .unwrap()
        .0;
    for (piece, at) in prints.chunks(700).zip((0..).step_by(700)) {
        let (mut history, notes) =
            History::open(&directory.path().join("two"), options(2)).unwrap();
        assert!(notes.is_empty());
        answers.extend(ask(&mut history, piece, at, &limits));
        // Every other time it is not closed in order.
        if at % 1400 == 0 {
            drop(history.close().unwrap())
        } else {
            drop(history)
        }
        other.extend(
            piece
                .chunks(13)
                .enumerate()
                .flat_map(|(number, piece)| ask(&mut alone, piece, at + 13 * number, &limits)),
        );
    }
    assert_eq!(answers, other);
    let all: Vec<_> = (0..).zip(prints.iter().copied()).collect();
    for (at, answer) in answers.iter().enumerate() {
        let expected = brute(&all[..at], &prints[at], limits.min_similarity, limits.top);
        let found: Vec<_> = answer
            .matches
            .iter()
            .map(|found| (found.id[1..].parse::<u64>().unwrap(), found.similarity))
            .collect();
        assert_eq!(found, expected, "{at}");
    }
}

#[test]
fn what_is_removed_or_forgotten_is_not_found() {
    let (prints, limits) = (
        many(5000, 2),
        MatchLimits {
            min_similarity: Ratio::ALL,
            top: 1,
        },
    );
    let directory = tempfile::tempdir().unwrap();
    let mut history = History::open(directory.path(), options(1)).unwrap().0;
    ask(&mut history, &prints, 0, &limits);
    let again = |history: &mut History, number: usize| {
        let request = Request {
            id: "again",
            print: Some(prints[number]),
            add: false,
        };
        history.ask(&[request], &limits).unwrap()[0]
            .matches
            .first()
            .map(|found| found.id.clone())
    };
    for number in [0, 3000, 4999] {
        assert_eq!(again(&mut history, number), Some(format!("d{number}")));
        assert_eq!(history.remove(&format!("d{number}")).unwrap(), 1);
        assert_eq!(again(&mut history, number), None);
        assert_eq!(history.remove(&format!("d{number}")).unwrap(), 0);
    }
    drop(history);
    let mut history = History::open(
        directory.path(),
        StoreOptions {
            max_entries: Some(1000),
            ..options(1)
        },
    )
    .unwrap()
    .0;
    assert_eq!(
        [4999, 4001, 3999, 0].map(|number| again(&mut history, number).is_some()),
        [false, true, false, false]
    );
    drop(history);
    NOW.store(2000, Ordering::Relaxed);
    for (age, is_found) in [(1001, true), (10, false)] {
        let mut history = History::open(
            directory.path(),
            StoreOptions {
                max_age_seconds: Some(age),
                ..options(1)
            },
        )
        .unwrap()
        .0;
        assert_eq!(again(&mut history, 4500).is_some(), is_found, "{age}");
        // Files of which nothing is left are gone, those that were being merged included; what is in memory is not yet.
        history.collect_finished_jobs(true).unwrap();
        assert_eq!(
            history.entries() < 300,
            !is_found,
            "{age}: {}",
            history.entries()
        );
    }
    NOW.store(1000, Ordering::Relaxed);
}

/// A model of a history: a list, and a look at all of it for each request.
#[derive(Default)]
struct Model {
    entries: Vec<(u64, String, Print)>,
    next: u64,
}

impl Model {
    fn ask(
        &mut self,
        request: &Request<'_>,
        limits: &MatchLimits,
        most: u64,
    ) -> Vec<(String, PrintSimilarity)> {
        let Some(print) = request.print else {
            return Vec::new();
        };
        let first = self.next.saturating_sub(most);
        let live = || {
            self.entries
                .iter()
                .filter(|(sequence, ..)| *sequence >= first)
        };
        let own = live()
            .find(|(_, id, of)| id == request.id && *of == print)
            .map(|entry| entry.0);
        let earlier: Vec<_> = live()
            .filter(|entry| own.is_none_or(|own| entry.0 < own))
            .map(|entry| (entry.0, entry.2))
            .collect();
        let found = brute(&earlier, &print, limits.min_similarity, limits.top);
        let id = |sequence| {
            self.entries
                .iter()
                .find(|entry| entry.0 == sequence)
                .map(|entry| entry.1.clone())
                .unwrap_or_default()
        };
        let answer = found
            .into_iter()
            .map(|(sequence, similarity)| (id(sequence), similarity))
            .collect();
        if request.add && own.is_none() {
            self.entries.push((self.next, request.id.to_owned(), print));
            self.next += 1;
        }
        answer
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Documents that come again, with the same text and with another, one by one and together, in memory and in files, also when few are remembered.
    #[test]
    fn a_document_that_comes_again_gets_its_first_answer_and_is_stored_once(
        prints in prints(12),
        asked in prop::collection::vec((0_usize..20, 0_usize..14, prop::bool::weighted(0.85), any::<bool>()), 1..250),
        most in prop_oneof![3 => Just(u64::MAX), 1 => 1_u64..40],
        removed in prop::collection::vec((0_usize..250, 0_usize..20), 0..4),
        batch in 1_usize..60, top in 1_usize..4, min_similarity in ratio(), memtable_entries in 5_u32..60,
    ) {
        let (directory, limits) = (tempfile::tempdir().unwrap(), MatchLimits { min_similarity, top });
        let max_entries = Some(most).filter(|&most| most < u64::MAX);
        let options = StoreOptions { threads: 2, memtable_entries, max_entries, ..options(2) };
        let (mut history, mut model) = (History::open(directory.path(), options.clone()).unwrap().0, Model::default());
        let ids: Vec<String> = (0..20).map(|id| format!("id{id}")).collect();
        for (number, some) in asked.chunks(batch).enumerate() {
            let request = |&(id, print, add, has_print): &(usize, usize, bool, bool)| Request {
                id: &ids[id],
                print: (has_print || id > 2).then(|| prints[print % prints.len()]),
                add,
            };
            let requests: Vec<_> = some.iter().map(request).collect();
            let answers = history.ask(&requests, &limits).unwrap();
            for (request, answer) in requests.iter().zip(answers) {
                let found: Vec<_> = answer.matches.into_iter().map(|found| (found.id, found.similarity)).collect();
                prop_assert_eq!(found, model.ask(request, &limits, most), "{} in batch {}", request.id, number);
            }
            for (_, id) in removed.iter().filter(|(at, _)| at / batch == number) {
                let live = |entry: &(u64, String, Print)| entry.0 >= model.next.saturating_sub(most) && entry.1 == ids[*id];
                let count = model.entries.iter().filter(|entry| live(entry)).count();
                prop_assert_eq!(history.remove(&ids[*id]).unwrap(), count.to_u64());
                model.entries.retain(|entry| entry.1 != ids[*id]);
            }
            if number % 5 == 4 {
                history.close().unwrap();
                history = History::open(directory.path(), options.clone()).unwrap().0;
            }
        }
        prop_assert_eq!(history.next_sequence, model.next);
        history.close().unwrap();
        verify(directory.path()).unwrap();
    }
}

/// Answers are delivered before anything of them is stored: if that fails, the history is as it was.
#[test]
fn what_was_not_delivered_is_not_stored() {
    let (prints, limits) = (
        many(9000, 5),
        MatchLimits {
            min_similarity: Ratio::ALL,
            top: 1,
        },
    );
    let directory = tempfile::tempdir().unwrap();
    let mut history = History::open(directory.path(), options(1)).unwrap().0;
    let ids: Vec<String> = (0..prints.len())
        .map(|number| format!("d{number}"))
        .collect();
    let requests: Vec<_> = ids
        .iter()
        .zip(&prints)
        .map(|(id, &print)| Request {
            id,
            print: Some(print),
            add: true,
        })
        .collect();
    let mut delivered = 0;
    let failed = history.ask_and_deliver(&requests, &limits, &mut |answers| {
        if delivered > 0 {
            return Err(crate::base::error::Error::ClosedPipe);
        }
        delivered = answers.len();
        Ok(())
    });
    assert!(failed.is_err() && (1..9000).contains(&delivered));
    assert_eq!(history.next_sequence, delivered.to_u64());
    drop(history);
    assert_eq!(
        verify(directory.path()).unwrap().arrived,
        delivered.to_u64()
    );
}

/// Of four journals none need be on disk when the machine dies: whatever is whole is there, numbers are not given twice, and all answers are right.
#[test]
fn every_journal_may_be_torn() {
    let (prints, limits) = (
        many(400, 4),
        MatchLimits {
            min_similarity: "0.85".parse().unwrap(),
            top: 1,
        },
    );
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let options = || StoreOptions {
        memtable_entries: 100,
        ..options(1)
    };
    History::open(directory, options())
        .unwrap()
        .0
        .close()
        .unwrap();
    let write = |number: usize, is_synced: bool| {
        let first = 100 * (number - 1);
        let synced_lengths = Arc::new(SyncedLengths::open(directory, 1).unwrap());
        let journals = JournalDirectory {
            directory: directory.to_owned(),
            sync: SyncPolicy::Never,
            synced_lengths,
        };
        let mut journal = journals.create(number.to_u64(), first.to_u64()).unwrap();
        for at in (first..first + 100).step_by(10) {
            let added = |at: usize| NewEntry {
                print: prints[at],
                sequence: at.to_u64(),
                time: 1000,
                id: format!("d{at}").into(),
            };
            journal
                .append(
                    &(at..at + 10)
                        .map(|at| JournalRecord::Add(added(at)))
                        .collect::<Vec<_>>(),
                )
                .unwrap();
            if is_synced {
                journal.sync().unwrap();
            }
        }
    };
    (1..=4).for_each(|number| write(number, false));
    let second = journal_path(directory, 2);
    let bytes = std::fs::read(&second).unwrap();
    std::fs::write(&second, &bytes[..bytes.len() / 2]).unwrap();
    let left = 100 + replay(&second, 0).unwrap().records.len();
    assert!((120..180).contains(&left));
    let all: Vec<_> = (0..)
        .zip(prints.iter().copied())
        .filter(|(at, _)| !(left.to_u64()..200).contains(at))
        .collect();
    let ensure_right = |history: &mut History| {
        for print in &prints {
            let answer = history
                .ask(
                    &[Request {
                        id: "x",
                        print: Some(*print),
                        add: false,
                    }],
                    &limits,
                )
                .unwrap()
                .remove(0);
            let found: Vec<_> = answer
                .matches
                .iter()
                .map(|found| (found.id[1..].parse::<u64>().unwrap(), found.similarity))
                .collect();
            assert_eq!(found, brute(&all, print, limits.min_similarity, limits.top));
        }
    };
    let (mut reader, notes) = History::open(
        directory,
        StoreOptions {
            read_only: true,
            ..options()
        },
    )
    .unwrap();
    assert!(notes.is_empty());
    ensure_right(&mut reader);
    let verified = verify(directory).unwrap();
    assert!(
        verified.entries == all.len().to_u64() && verified.journals[1].unfinished_bytes > 0,
        "{verified:?}"
    );
    let (mut history, notes) = History::open(directory, options()).unwrap();
    assert!(
        notes.len() == 1 && notes[0].to_string().contains("000002.journal: dropped "),
        "{notes:?}"
    );
    ensure_right(&mut history);
    assert_eq!(history.next_sequence, 400);
    history.close().unwrap();
    let (mut history, notes) = History::open(directory, options()).unwrap();
    assert!(notes.is_empty());
    ensure_right(&mut history);
    history.close().unwrap();
    verify(directory).unwrap();
}

/// JournalDirectory 1 to 3 of a history, all of them synced.
fn synced_journals(directory: &std::path::Path) {
    let options = || StoreOptions {
        memtable_entries: 100,
        ..options(1)
    };
    History::open(directory, options())
        .unwrap()
        .0
        .close()
        .unwrap();
    let synced_lengths = Arc::new(SyncedLengths::open(directory, 1).unwrap());
    let journals = JournalDirectory {
        directory: directory.to_owned(),
        sync: SyncPolicy::Never,
        synced_lengths,
    };
    for number in 1..=3 {
        let mut journal = journals.create(number, 10 * (number - 1)).unwrap();
        for at in 10 * (number - 1)..10 * number {
            let added = NewEntry {
                print: Print([at; 4]),
                sequence: at,
                time: 1000,
                id: format!("d{at}").into(),
            };
            journal.append(&[JournalRecord::Add(added)]).unwrap();
        }
        journal.finish().unwrap();
    }
}

/// Bytes that were never synced follow all that was, in a journal that is not the last one: nothing is lost, readers pass over them, and the next writer
/// drops them and says so.
#[test]
fn an_unfinished_group_makes_no_history_unreadable() {
    for number in 1..=3 {
        let directory = tempfile::tempdir().unwrap();
        synced_journals(directory.path());
        let path = journal_path(directory.path(), number);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&bytes[..], &bytes[32..49]].concat()).unwrap();
        assert_eq!(verify(directory.path()).unwrap().entries, 30);
        let (history, notes) = History::open(directory.path(), options(1)).unwrap();
        let expected = format!(
            "{}: dropped 17 bytes of an unfinished group from byte {} on; everything that was synced is there",
            path.display(),
            bytes.len()
        );
        assert_eq!(
            notes.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [expected]
        );
        assert_eq!(history.entries(), 30);
        history.close().unwrap();
        let (history, notes) = History::open(directory.path(), options(1)).unwrap();
        assert!(notes.is_empty() && history.entries() == 30);
    }
}

/// For readers and writers alike: what was synced is there, or the error says what is missing, and where.
#[test]
fn journals_that_lack_what_was_synced_are_refused() {
    for number in 1..=3_u64 {
        let directory = tempfile::tempdir().unwrap();
        synced_journals(directory.path());
        let path = journal_path(directory.path(), number);
        let bytes = std::fs::read(&path).unwrap();
        let refused = || {
            let writer = History::open(directory.path(), options(1))
                .err()
                .unwrap()
                .to_string();
            assert_eq!(verify(directory.path()).unwrap_err().to_string(), writer);
            writer
        };
        std::fs::write(&path, &bytes[..32]).unwrap();
        let told = format!(
            "{}: byte 32: the journal ends here, but {} bytes of it were on disk; it was cut",
            path.display(),
            bytes.len()
        );
        assert_eq!(refused(), told);
        std::fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
        assert!(
            refused().ends_with(
                "a group of entries does not match its checksum; the journal was altered"
            )
        );
        std::fs::remove_file(&path).unwrap();
        let told = refused();
        let is_first = number == 1;
        assert!(
            told.contains(&format!("00000{number}.journal: "))
                || !is_first && told.contains("000003.journal: "),
            "{told}"
        );
        assert!(
            is_first || told.contains("the journal is missing, but "),
            "{told}"
        );
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(verify(directory.path()).unwrap().entries, 30);
    }
}

/// What is noted of the journals may be lost; then that is said, and the next writer notes it anew.
#[test]
fn promises_that_are_missing_or_altered_are_made_again() {
    for is_missing in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        synced_journals(directory.path());
        let path = directory.path().join(super::store::synced_lengths::NAME);
        if is_missing {
            std::fs::remove_file(&path).unwrap()
        } else {
            std::fs::write(&path, [7; 1024]).unwrap()
        }
        assert!(
            verify(directory.path())
                .unwrap_err()
                .to_string()
                .contains(": ")
        );
        let (history, notes) = History::open(directory.path(), options(1)).unwrap();
        let why = if is_missing {
            "is missing"
        } else {
            "was altered"
        };
        let expected = format!(
            "{}: the file {why} and was made again; if journals were cut before now, that is not noticed",
            path.display()
        );
        assert_eq!(
            (
                notes.iter().map(ToString::to_string).collect::<Vec<_>>(),
                history.entries()
            ),
            (vec![expected], 30)
        );
        drop(history);
        assert_eq!(verify(directory.path()).unwrap().entries, 30);
        std::fs::write(
            journal_path(directory.path(), 3),
            &std::fs::read(journal_path(directory.path(), 3)).unwrap()[..32],
        )
        .unwrap();
        assert!(
            verify(directory.path())
                .unwrap_err()
                .to_string()
                .contains("000003.journal: byte 32: the journal ends here")
        );
    }
}

/// Through several files, with every kind of entry in them.
#[test]
fn a_whole_history_is_verified_and_counted() {
    let (mut prints, limits) = (
        many(2500, 6),
        MatchLimits {
            min_similarity: Ratio::ALL,
            top: 1,
        },
    );
    (0..200).for_each(|at| prints[10 * at + 1] = prints[3]);
    let directory = tempfile::tempdir().unwrap();
    let mut history = History::open(directory.path(), options(2)).unwrap().0;
    ask(&mut history, &prints, 0, &limits);
    (0..40).for_each(|number| assert_eq!(history.remove(&format!("d{}", 60 * number)).unwrap(), 1));
    history.close().unwrap();
    let stats = verify(directory.path()).unwrap();
    assert_eq!(stats, super::stats(directory.path()).unwrap());
    assert_eq!(
        (stats.entries, stats.arrived, stats.scheme.as_str()),
        (2460, 2500, "word@18.0 minhash:256@2")
    );
    assert!(
        !stats.segments.is_empty() && stats.journals.len() == 1,
        "{stats:?}"
    );
    let on_disk: u64 = stats
        .segments
        .iter()
        .map(|segment| u64::from(segment.entries))
        .sum();
    assert_eq!(
        on_disk + u64::from(stats.journals[0].entries),
        stats.entries + stats.removed
    );
    assert!(stats.removed <= 40, "{stats:?}");
}

/// A commit may be on disk, and the entry that it says is removed not: its number is that of another one later.
#[test]
fn the_removal_of_a_lost_entry_is_not_that_of_another() {
    let directory = tempfile::tempdir().unwrap();
    History::open(directory.path(), options(1))
        .unwrap()
        .0
        .close()
        .unwrap();
    let manifest = HistoryManifest {
        removed: vec![0, 1],
        ..HistoryManifest::read(directory.path()).unwrap().unwrap()
    };
    manifest.commit(directory.path()).unwrap();
    let (mut history, _) = History::open(directory.path(), options(1)).unwrap();
    let limits = MatchLimits {
        min_similarity: Ratio::ALL,
        top: 1,
    };
    let answers = ask(&mut history, &[Print([5; 4]), Print([5; 4])], 0, &limits);
    assert_eq!(answers[1].matches[0].id, "d0");
    history.close().unwrap();
}

/// A measurement, not a test: `cargo test --release --lib scan_against_memory -- --ignored --nocapture`.
#[test]
#[ignore = "it measures; see scripts/bench/history"]
fn scan_against_memory() {
    let some: Vec<PrintBody> = many(1 << 20, 3)
        .iter()
        .map(|print| split_print(print).1)
        .collect();
    let bodies: Vec<PrintBody> = some
        .iter()
        .copied()
        .cycle()
        .take((1 << 28) / BODY_BYTES)
        .collect();
    let best = |work: &mut dyn FnMut()| {
        let one = |work: &mut dyn FnMut()| {
            let start = std::time::Instant::now();
            work();
            start.elapsed().as_secs_f64()
        };
        (0..7).map(|_| one(work)).fold(f64::INFINITY, f64::min)
    };
    let sum = best(&mut || {
        let add = |sum: u64, body: &PrintBody| {
            body_words(body)
                .iter()
                .fold(sum, |sum, word| sum.wrapping_add(*word))
        };
        std::hint::black_box(bodies.iter().fold(0, add));
    });
    let asked = Print([5; 4]);
    let scan =
        best(&mut || super::search::scan::scan(&bodies, &asked, 8, &mut |_, _| Ok(8)).unwrap());
    let rate = |seconds: f64| (BODY_BYTES * bodies.len()).to_f64() / seconds / 1e9;
    eprintln!(
        "| a plain sum, GB/s | the scan, GB/s | the scan takes |\n| ---: | ---: | ---: |\n| {:.1} | {:.1} | {:.2} × |",
        rate(sum),
        rate(scan),
        scan / sum
    );
}
