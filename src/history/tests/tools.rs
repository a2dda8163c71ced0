//! Copies, dumps, parts and repairs of histories.

use super::*;
use crate::history::{
    HistoryParts,
    backend::CardinalityRange,
    backup, dump, merge, repair, split,
    store::verify::{stats, verify_all},
};
use std::{fs, path::Path};

/// With a time of its own: other tests change theirs.
fn options(threads: usize) -> StoreOptions {
    StoreOptions {
        clock: || 5000,
        ..super::options(threads)
    }
}

fn limits() -> MatchLimits {
    MatchLimits {
        min_similarity: "0.8".parse().unwrap(),
        top: 3,
    }
}

/// A history of prints, some of them removed, in segments and journals.
fn filled(directory: &Path, prints: &[Print]) -> History {
    let mut history = History::open(directory, options(1)).unwrap().0;
    for (some, at) in prints.chunks(70).zip((0..).step_by(70)) {
        ask(&mut history, some, at, &limits());
    }
    for number in (5..prints.len()).step_by(50) {
        assert!(history.remove(&format!("d{number}")).unwrap() > 0);
    }
    history
}

fn dumped(directory: &Path) -> Vec<String> {
    let mut out = Vec::new();
    dump(directory, &mut out).unwrap();
    String::from_utf8(out)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

/// The answers to prints, without adding them.
fn answers(directory: &Path, prints: &[Print]) -> Vec<Answer> {
    let read_only = StoreOptions {
        read_only: true,
        ..options(1)
    };
    let mut history = History::open(directory, read_only).unwrap().0;
    let requests: Vec<_> = prints
        .iter()
        .map(|&print| Request {
            id: "?",
            print: Some(print),
            add: false,
        })
        .collect();
    history.ask(&requests, &limits()).unwrap()
}

/// What a dump says, fed to a new history.
fn restore(lines: &[String], directory: &Path) {
    let mut history = History::open(directory, options(1)).unwrap().0;
    for line in &lines[1..lines.len() - 1] {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        let request = Request {
            id: entry["doc"].as_str().unwrap(),
            print: Some(entry["print"].as_str().unwrap().parse().unwrap()),
            add: true,
        };
        history.ask(&[request], &limits()).unwrap();
    }
    history.close().unwrap();
}

#[test]
fn dumps_copies_and_joined_parts_give_the_same_answers() {
    let work = tempfile::tempdir().unwrap();
    let path = |name: &str| work.path().join(name);
    let prints = many(2000, 11);
    filled(&path("h"), &prints).close().unwrap();
    let (expected, lines) = (answers(&path("h"), &prints), dumped(&path("h")));
    assert_eq!(lines.len(), 2000 - 40 + 2);
    assert_eq!(stats(&path("h")).unwrap().entries, 1960);
    let same = |name: &str| {
        assert_eq!(answers(&path(name), &prints), expected, "{name}");
        assert_eq!(dumped(&path(name)), lines, "{name}");
        assert_eq!(verify(&path(name)).unwrap().entries, 1960);
    };
    assert_eq!(backup(&path("h"), &path("copy")).unwrap().entries, 1960);
    same("copy");
    restore(&lines, &path("restored"));
    assert_eq!(answers(&path("restored"), &prints), expected);
    // Parts of a number, and of given cardinalities, each of which a history of its own.
    let parts = split(&path("h"), &path("parts"), &HistoryParts::Number(3)).unwrap();
    assert_eq!(parts.iter().map(|part| part.entries).sum::<u64>(), 1960);
    assert!(parts.iter().all(|part| part.entries > 400), "{parts:?}");
    let directories: Vec<_> = parts.iter().map(|part| part.directory.clone()).collect();
    for part in &parts {
        assert_eq!(verify(&part.directory).unwrap().entries, part.entries);
    }
    merge(&path("joined"), &directories).unwrap();
    same("joined");
    let all = ["0..127", "128..256"].map(|range| range.parse::<CardinalityRange>().unwrap());
    split(
        &path("h"),
        &path("halves"),
        &HistoryParts::Ranges(all.to_vec()),
    )
    .unwrap();
    let halves = ["halves/128-256", "halves/000-127"].map(path);
    merge(&path("again"), &halves).unwrap();
    same("again");
    // It goes on where it was.
    let mut joined = History::open(&path("again"), options(1)).unwrap().0;
    assert_eq!(
        (joined.next_sequence(), joined.cardinalities()),
        (2000, CardinalityRange::ALL)
    );
    let fresh = many(100, 12);
    assert_eq!(ask(&mut joined, &fresh, 2000, &limits()).len(), 100);
    joined.close().unwrap();
    // A part keeps its cardinalities, and no other.
    let other = StoreOptions {
        cardinalities: Some(CardinalityRange::ALL),
        ..options(1)
    };
    let refused = History::open(&halves[0], other).err().unwrap().to_string();
    assert!(
        refused.contains("keeps cardinalities 128..256, expected 0..256"),
        "{refused}"
    );
    let twice = merge(&path("twice"), &[path("h"), path("copy")])
        .err()
        .unwrap()
        .to_string();
    assert!(twice.contains("of the same history as"), "{twice}");
}

/// Independent histories are joined as if their documents had come in the order of their times.
#[test]
fn independent_histories_are_joined_by_time() {
    let work = tempfile::tempdir().unwrap();
    let path = |name: &str| work.path().join(name);
    let prints = many(600, 13);
    filled(&path("b"), &prints[..400]).close().unwrap();
    filled(&path("c"), &prints[200..]).close().unwrap();
    merge(&path("all"), &[path("b"), path("c")]).unwrap();
    // Ids are numbers in each, so that d0 to d199 of both have different prints.
    let stats = verify(&path("all")).unwrap();
    assert_eq!((stats.entries, stats.arrived), (784, 784));
    let (b, c) = (dumped(&path("b")), dumped(&path("c")));
    let all = dumped(&path("all"));
    assert_eq!(all[1..=392], b[1..=392]);
    assert_eq!(all[393..785], c[1..=392]);
    // The same documents once more are stored once.
    restore(&b, &path("f"));
    merge(&path("g"), &[path("b"), path("f")]).unwrap();
    assert_eq!(dumped(&path("g"))[1..], b[1..]);
}

/// Copies made at any time while a writer adds are what the history was at some time.
#[test]
fn copies_of_a_growing_history_are_consistent() {
    let work = tempfile::tempdir().unwrap();
    let path = |name: &str| work.path().join(name);
    let prints = many(6000, 14);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let history = filled(&path("h"), &prints);
            done.store(true, Ordering::Relaxed);
            history
        });
        while !path("h").join("manifest.json").exists() {
            std::thread::yield_now();
        }
        let mut copies = Vec::new();
        while !done.load(Ordering::Relaxed) || copies.is_empty() {
            let name = format!("copy{}", copies.len());
            let copy = backup(&path("h"), &path(&name)).unwrap();
            verify(&copy.directory).unwrap();
            copies.push(dumped(&copy.directory));
            fs::remove_dir_all(&copy.directory).unwrap();
        }
        writer.join().unwrap().close().unwrap();
        for copy in copies {
            let ids: Vec<serde_json::Value> = copy[1..copy.len() - 1]
                .iter()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            // All up to the last, without gaps but for what was removed.
            let numbers = ids.iter().map(|entry| {
                entry["doc"].as_str().unwrap()[1..]
                    .parse::<usize>()
                    .unwrap()
            });
            let mut next = 0;
            for number in numbers {
                let gap = (next..number).all(|missing| missing % 50 == 5);
                assert!(number >= next && gap, "{next} {number}");
                next = number + 1;
            }
        }
    });
}

/// Every damaged file is named, with its byte.
#[test]
fn verification_names_every_damaged_file() {
    let work = tempfile::tempdir().unwrap();
    let directory = work.path().join("h");
    filled(&directory, &many(2500, 15)).close().unwrap();
    let mut altered = Vec::new();
    for segment in stats(&directory).unwrap().segments {
        let path = directory.join(&segment.file);
        let mut bytes = fs::read(&path).unwrap();
        bytes[20_000] ^= 1;
        fs::write(&path, bytes).unwrap();
        altered.push(segment.file);
    }
    assert!(altered.len() >= 2);
    let mut problems = Vec::new();
    verify_all(&directory, &mut |problem| {
        problems.push(problem.to_string())
    })
    .unwrap();
    assert_eq!(problems.len(), altered.len());
    for (problem, file) in problems.iter().zip(&altered) {
        assert!(
            problem.contains(file) && problem.contains("byte 16384"),
            "{problem}"
        );
    }
    let unrepairable = repair(&directory).err().unwrap().to_string();
    assert!(unrepairable.contains("restore a backup"), "{unrepairable}");
}

/// A journal that was cut, altered or lost is refused; repaired, all readable entries are there.
#[test]
fn damaged_journals_are_repaired() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage, usize); 4] = [
        (
            "cut",
            |path| {
                let file = fs::OpenOptions::new().write(true).open(path).unwrap();
                file.set_len(fs::metadata(path).unwrap().len() - 5).unwrap();
            },
            1,
        ),
        (
            "altered",
            |path| {
                let mut bytes = fs::read(path).unwrap();
                let at = bytes.len() - 9;
                bytes[at] ^= 1;
                fs::write(path, bytes).unwrap();
            },
            1,
        ),
        (
            "without header",
            |path| {
                let mut bytes = fs::read(path).unwrap();
                bytes[3] ^= 1;
                fs::write(path, bytes).unwrap();
            },
            3,
        ),
        ("missing", |path| fs::remove_file(path).unwrap(), 3),
    ];
    for (name, damage, lost) in damages {
        let work = tempfile::tempdir().unwrap();
        let directory = work.path().join("h");
        let mut history = History::open(&directory, options(1)).unwrap().0;
        for (at, print) in (0..).zip(many(3, 16)) {
            ask(&mut history, &[print], at, &limits());
        }
        history.close().unwrap();
        assert!(repair(&directory).unwrap().is_empty());
        damage(&journal_path(&directory, 1));
        assert!(History::open(&directory, options(1)).is_err(), "{name}");
        let done = repair(&directory).unwrap();
        assert_eq!(done.len(), 1, "{name}: {done:?}");
        assert!(
            done[0].to_string().contains("000001.journal"),
            "{name}: {done:?}"
        );
        assert_eq!(dumped(&directory).len(), 3 - lost + 2, "{name}: {done:?}");
        let mut history = History::open(&directory, options(1)).unwrap().0;
        ask(&mut history, &many(1, 17), 9, &limits());
        history.close().unwrap();
        assert_eq!(dumped(&directory).len(), 3 - lost + 3, "{name}");
    }
}
