//! Answers, removals and statistics of a history.

use super::*;

/// Through memtables, segments and merges, closed and reopened, with two threads and one.
#[test]
fn a_history_finds_the_same_as_brute_force() {
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
        // Every other time it is dropped without closing.
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
        let expected = brute_force(&all[..at], &prints[at], limits.min_similarity, limits.top);
        let found: Vec<_> = answer
            .matches
            .iter()
            .map(|found| (found.id[1..].parse::<u64>().unwrap(), found.similarity))
            .collect();
        assert_eq!(found, expected, "{at}");
    }
}

#[test]
fn removed_and_forgotten_entries_are_not_found() {
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
        // Empty files are deleted, also those that were being merged; entries in memory are still there.
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

/// A model of a history: a list that is searched completely for each request.
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
        let found = brute_force(&earlier, &print, limits.min_similarity, limits.top);
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

    /// Documents are repeated with the same text and with another, one by one and together, in memory and in files, also when few are remembered.
    #[test]
    fn a_repeated_document_gets_its_first_answer_and_is_stored_once(
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

/// Answers are delivered before their documents are stored: if that fails, nothing changes.
#[test]
fn documents_without_delivered_answers_are_not_stored() {
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

/// With several segments and every kind of entry.
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
    assert_eq!(stats, crate::history::stats(directory.path()).unwrap());
    assert_eq!(
        (stats.entries, stats.arrived, stats.scheme.as_str()),
        (2460, 2500, "words@18.0/49 minhash:256@2")
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

/// A commit may be on disk without the entry that it removes; another entry gets its number later.
#[test]
fn the_removal_of_a_lost_entry_does_not_remove_another() {
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
