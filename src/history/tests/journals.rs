//! Torn, truncated and altered journals.

use super::*;

/// None of four journals needs to be on disk when the machine dies: complete groups are kept, no number is given twice, and all answers are right.
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
            assert_eq!(
                found,
                brute_force(&all, print, limits.min_similarity, limits.top)
            );
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

/// Writes journals 1 to 3 of a history, all of them synced.
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

/// Unsynced bytes follow the synced ones in a journal that is not the last: nothing is lost, readers skip them, and the next writer
/// drops and reports them.
#[test]
fn unfinished_groups_are_dropped_and_reported() {
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

/// For readers and writers alike: an error says which synced bytes are missing, and where.
#[test]
fn journals_without_synced_bytes_are_refused() {
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
        let message = format!(
            "{}: byte 32: the journal ends here, but {} bytes of it were on disk; it was cut",
            path.display(),
            bytes.len()
        );
        assert_eq!(refused(), message);
        std::fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
        assert!(
            refused().ends_with(
                "a group of entries does not match its checksum; the journal was altered"
            )
        );
        std::fs::remove_file(&path).unwrap();
        let message = refused();
        let is_first = number == 1;
        assert!(
            message.contains(&format!("00000{number}.journal: "))
                || !is_first && message.contains("000003.journal: "),
            "{message}"
        );
        assert!(
            is_first || message.contains("the journal is missing, but "),
            "{message}"
        );
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(verify(directory.path()).unwrap().entries, 30);
    }
}

/// The file may be lost; that is reported, and the next writer creates it anew.
#[test]
fn a_missing_or_altered_file_of_synced_lengths_is_created_anew() {
    for is_missing in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        synced_journals(directory.path());
        let path = directory
            .path()
            .join(crate::history::store::synced_lengths::NAME);
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
