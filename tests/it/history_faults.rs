//! A history with small segment files under faults: writers killed at a system call, calls that
//! fail, when data is synced, and which files are dropped. Every answer is compared with a scan of
//! all prints.
//!
//! With `DEDUP_SOAK=1` writers are killed at every system call they make.

use crate::{
    service::Server,
    test_dir::{RunResult, TestDir, records},
};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::Stdio,
    time::{Duration, Instant},
};

const ASK: [&str; 4] = ["history", "h", "--min-similarity", "0.9"];
/// The number of entries per segment file.
const FILE: [&str; 2] = ["--file-entries", "50"];

/// Prints of which every fourth is near an earlier one, and the expected matches.
struct Prints {
    lines: Vec<String>,
    /// For each print, those that are near enough: shared bits, bits of both, and the number of the
    /// print.
    near: Vec<Vec<(u32, u32, usize)>>,
}

impl Prints {
    fn new(count: usize) -> Self {
        let mut state = 7_u64;
        let mut next = || {
            state = state
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            (state ^ state >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd)
        };
        let mut prints: Vec<[u64; 4]> = Vec::new();
        for number in 0..count {
            let mut print = [next(), next(), next(), next()];
            if number % 4 == 3 {
                print = prints[next() as usize % number];
                (0..=next() % 6).for_each(|_| print[next() as usize % 4] ^= 1 << (next() % 64));
            }
            prints.push(print);
        }
        let bits = |one: &[u64; 4], two: &[u64; 4], both: fn(u64, u64) -> u64| {
            one.iter()
                .zip(two)
                .map(|(one, two)| both(*one, *two).count_ones())
                .sum::<u32>()
        };
        let near = |one: &[u64; 4]| {
            let all = prints.iter().enumerate().map(|(at, two)| {
                (
                    bits(one, two, |a, b| a & b),
                    bits(one, two, |a, b| a | b),
                    at,
                )
            });
            all.filter(|(shared, union, _)| shared * 10 >= union * 9)
                .collect()
        };
        // The words of a print are written from its first byte on.
        let hex = |print: &[u64; 4]| {
            print
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        };
        let line = |(at, print): (usize, &[u64; 4])| {
            format!("{{\"doc\":\"p{at}\",\"print\":\"{}\"}}\n", hex(print))
        };
        Self {
            lines: prints.iter().enumerate().map(line).collect(),
            near: prints.iter().map(near).collect(),
        }
    }

    fn text(&self) -> String {
        self.lines.concat()
    }

    /// The best match of a print among those in the history.
    fn best(&self, of: usize, is_there: impl Fn(usize) -> bool) -> Option<usize> {
        let near = self.near[of].iter().filter(|(_, _, at)| is_there(*at));
        // The first of the best.
        near.min_by(|one, two| {
            (two.0 * one.1)
                .cmp(&(one.0 * two.1))
                .then(one.2.cmp(&two.2))
        })
        .map(|found| found.2)
    }

    /// Queries all prints under other names without adding them, so that each finds itself.
    #[track_caller]
    fn found(&self, dir: &TestDir, more: &[&str]) -> Vec<Option<usize>> {
        let asked = self.text().replace("{\"doc\":\"p", "{\"doc\":\"q");
        let ran = dir.run_with(
            "dedup-query",
            &[&ASK, &["--no-add"][..], more].concat(),
            asked.as_bytes(),
        );
        assert!(
            ran.code() < 2 && ran.stderr().is_empty(),
            "{}",
            ran.stderr()
        );
        found(&ran.stdout())
    }

    /// Checks that the history holds a prefix of the prints and answers correctly; returns the
    /// length of the prefix.
    #[track_caller]
    fn ensure_prefix(&self, dir: &TestDir) -> usize {
        let found = self.found(dir, &[]);
        let count = (0..found.len())
            .rev()
            .find(|&at| found[at] == Some(at))
            .map_or(0, |last| last + 1);
        self.ensure_has(&found, |at| at < count);
        count
    }

    #[track_caller]
    fn ensure_has(&self, found: &[Option<usize>], is_there: impl Fn(usize) -> bool) {
        let expected: Vec<_> = (0..self.lines.len())
            .map(|of| self.best(of, &is_there))
            .collect();
        assert_eq!(found, expected);
    }

    /// Adds all prints except for the first `skip`.
    fn add(&self, dir: &TestDir, skip: usize, more: &[&str]) -> RunResult {
        dir.run_with(
            "dedup-query",
            &[&ASK, &FILE[..], more].concat(),
            self.lines[skip..].concat().as_bytes(),
        )
    }
}

/// The documents that the answers name.
fn found(answers: &str) -> Vec<Option<usize>> {
    records(answers.as_bytes())
        .iter()
        .map(|answer| {
            answer["best"]["doc"]
                .as_str()
                .map(|doc| doc[1..].parse().unwrap())
        })
        .collect()
}

fn is_soak() -> bool {
    std::env::var_os("DEDUP_SOAK").is_some()
}

fn can_trace(dir: &TestDir) -> bool {
    let can = dir.shell("strace -f -qq -o /dev/null true").code() == 0;
    if !can {
        eprintln!("no strace here, or no right to use it: skipped");
    }
    can
}

/// Checks that there is no file that the manifest does not name.
#[track_caller]
fn ensure_no_leftover_files(dir: &TestDir) {
    let manifest = fs::read_to_string(dir.path("h/manifest.json")).unwrap();
    let names = fs::read_dir(dir.path("h"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let extra: Vec<String> = names
        .filter(|name| name.ends_with(".prints") && !manifest.contains(name.as_str()))
        .collect();
    assert!(
        extra.is_empty() && !dir.path("h/lock").exists(),
        "{extra:?}"
    );
}

/// Sends the prints in small groups, so that there are answers before the end.
const FEED: &str = "while mapfile -n 30 -t lines && ((${#lines[@]})); do printf '%s\\n' \"${lines[@]}\"; done < p.jsonl | ";

fn writer(sync: &str) -> String {
    format!("dedup-query history h --min-similarity 0.9 --file-entries 50 --sync-every {sync}")
}

#[test]
fn small_segments_are_written_and_merged() {
    let (dir, prints) = (TestDir::new(), Prints::new(2000));
    let ran = dir.run_with(
        "dedup-query",
        &[&ASK, &["--file-entries", "250"][..]].concat(),
        prints.text().as_bytes(),
    );
    assert_eq!((ran.code(), ran.stderr().as_str()), (0, ""));
    let expected: Vec<_> = (0..2000).map(|of| prints.best(of, |at| at < of)).collect();
    assert_eq!(found(&ran.stdout()), expected);
    // Eight segments of one journal each are merged into two of three each and two single ones.
    assert_eq!(
        dir.shell("cd h; ls *.journal; ls *.prints | wc -l")
            .ok_text(),
        "000009.journal\n4\n"
    );
    assert_eq!(
        fs::read_to_string(dir.path("h/manifest.json"))
            .unwrap()
            .matches("\"level\": 1")
            .count(),
        2
    );
    assert_eq!(prints.ensure_prefix(&dir), 2000);
    for wrong in ["0", "262145", "many"] {
        let ran = dir.shell(&format!(
            "dedup-query history h --min-similarity 1 --file-entries {wrong} x"
        ));
        assert!(
            ran.code() == 2
                && ran
                    .stderr()
                    .contains(&format!("invalid value '{wrong}' for '--file-entries <N>'")),
            "{}",
            ran.stderr()
        );
    }
}

/// Killed while journals are switched, segments are written and merged, manifests committed and
/// files removed: everything that was answered is there, nothing else is, all answers are right,
/// and the next run completes the work.
#[test]
fn a_writer_killed_at_a_system_call_leaves_right_answers() {
    let (dir, prints) = (TestDir::new(), Prints::new(450));
    if !can_trace(&dir) {
        return;
    }
    dir.write("p.jsonl", prints.text());
    let calls = "write,pwrite64,fsync,fdatasync,rename,unlink,ftruncate,openat,mkdir";
    for number in (1..).step_by(if is_soak() { 1 } else { 37 }) {
        let _ = fs::remove_dir_all(dir.path("h"));
        let ran = dir.shell(&format!(
            "set -o pipefail; {FEED} strace -f -qq -o /dev/null -e trace={calls} -e inject={calls}:signal=KILL:when={number} {}",
            writer("each")
        ));
        let answered = ran.stdout().lines().count();
        let count = if dir.path("h/manifest.json").exists() {
            prints.ensure_prefix(&dir)
        } else {
            0
        };
        assert!(
            count >= answered,
            "killed at call {number}: {answered} were answered, {count} are there"
        );
        if ran.code() == 0 {
            assert_eq!(count, 450);
            break;
        }
        let rest = prints.add(&dir, count, &[]);
        assert!(
            rest.code() < 2
                && rest
                    .stderr()
                    .lines()
                    .all(|line| line.ends_with("everything that was synced is there")),
            "{number}: {}",
            rest.stderr()
        );
        assert_eq!(prints.ensure_prefix(&dir), 450, "killed at call {number}");
        ensure_no_leftover_files(&dir);
    }
}

#[test]
fn a_failed_system_call_leaves_right_answers() {
    let (dir, prints) = (TestDir::new(), Prints::new(450));
    if !can_trace(&dir) {
        return;
    }
    dir.write("p.jsonl", prints.text());
    for (calls, error, step) in [
        ("write", "ENOSPC", 61),
        ("fsync", "EIO", 17),
        ("fdatasync", "EIO", 17),
        ("rename", "EIO", 7),
    ] {
        for number in (1..).step_by(if is_soak() { 1 } else { step }) {
            let _ = fs::remove_dir_all(dir.path("h"));
            let ran = dir.shell(&format!(
                "set -o pipefail; {FEED} strace -f -qq -o log -e trace={calls} -e inject={calls}:error={error}:when={number} {}",
                writer("each")
            ));
            let when = format!("{calls} {number}: {}", ran.stderr());
            assert!(!ran.stderr().contains("panicked"), "{when}");
            let answered = ran.stdout().lines().count();
            let count = if dir.path("h/manifest.json").exists() {
                prints.ensure_prefix(&dir)
            } else {
                0
            };
            assert!(
                count >= answered && (ran.code() == 2 || count == 450),
                "{when}: {answered} were answered, {count} are there"
            );
            if !fs::read_to_string(dir.path("log"))
                .unwrap()
                .contains("(INJECTED)")
            {
                break;
            }
        }
    }
}

/// The first write to a segment fails once: the failure is reported once and has no other effect.
#[test]
fn a_segment_that_cannot_be_written_is_written_later() {
    let (dir, prints) = (TestDir::new(), Prints::new(450));
    if !can_trace(&dir) {
        return;
    }
    dir.write("p.jsonl", prints.text());
    let trace = "strace -f -qq -o log -P $PWD/h/000001.prints -e trace=write -e inject=write:error=ENOSPC:when=1";
    let ran = dir.shell(&format!(
        "set -o pipefail; {FEED} {trace} {}",
        writer("100ms")
    ));
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (
            0,
            "dedup-query: h/000001.prints: No space left on device (os error 28); nothing is lost, and it is tried again\n"
        )
    );
    assert_eq!(prints.ensure_prefix(&dir), 450);
    ensure_no_leftover_files(&dir);
}

/// No segment can be written: the run ends with an error, but what was added is on disk before the
/// error is reported.
#[test]
fn the_journal_is_synced_before_waiting_for_segments() {
    let (dir, prints) = (TestDir::new(), Prints::new(70));
    if !can_trace(&dir) {
        return;
    }
    let trace = "strace -f -qq -o log -P $PWD/h/000001.prints -P $PWD/h/000002.prints -e trace=write -e inject=write:error=ENOSPC";
    dir.write("p.jsonl", prints.text());
    let ran = dir.shell(&format!("{trace} {} < p.jsonl", writer("never")));
    assert_eq!(ran.code(), 2);
    assert!(
        ran.stderr()
            .ends_with(".prints: No space left on device (os error 28)\n"),
        "{}",
        ran.stderr()
    );
    // Both journals are synced completely: not a byte may be missing.
    for journal in ["h/000001.journal", "h/000002.journal"] {
        let bytes = dir.read(journal);
        dir.write(journal, &bytes[..bytes.len() - 1]);
        let cut = dir.run("dedup-query", &["history", "verify", "h"]);
        assert!(
            cut.code() == 2
                && cut
                    .stderr()
                    .starts_with(&format!("dedup-query: {journal}: byte ")),
            "{}",
            cut.stderr()
        );
        dir.write(journal, &bytes);
    }
    // Bytes after the synced length were never acknowledged, in neither journal.
    for journal in ["h/000001.journal", "h/000002.journal"] {
        dir.shell(&format!("head -c 17 h/manifest.json >> {journal}"))
            .ok();
    }
    assert_eq!(prints.ensure_prefix(&dir), 70);
    let repaired = prints.add(&dir, 70, &[]).stderr();
    let dropped =
        |line: &str| line.contains(": dropped 17 bytes of an unfinished group from byte ");
    assert!(
        repaired.lines().count() == 2 && repaired.lines().all(dropped),
        "{repaired}"
    );
    // Now there is room, and the segments are written.
    assert_eq!(prints.add(&dir, 70, &[]).stderr(), "");
    assert_eq!(prints.ensure_prefix(&dir), 70);
    ensure_no_leftover_files(&dir);
}

/// The syncs and answers in the log of strace, in order.
fn events(log: &str) -> Vec<&'static str> {
    let event = |line: &str| match () {
        () if line.contains("fdatasync(") => Some("sync"),
        () if line.contains("write(") && line.contains("\"{\\\"doc\\\"") => Some("answer"),
        () => None,
    };
    log.lines().filter_map(event).collect()
}

#[track_caller]
fn wait_until(holds: &dyn Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::yield_now();
    }
}

#[test]
fn entries_are_synced_within_the_promised_time() {
    let (dir, prints) = (TestDir::new(), Prints::new(3));
    if !can_trace(&dir) {
        return;
    }
    for sync in ["each", "never", "50ms"] {
        let _ = fs::remove_dir_all(dir.path("h"));
        let command = format!(
            "exec strace -f -qq -o log -e trace=fdatasync,write {}",
            writer(sync)
        );
        let mut command = {
            let path = format!(
                "{}:{}",
                assert_cmd::cargo::cargo_bin("dedup-query")
                    .parent()
                    .unwrap()
                    .display(),
                std::env::var("PATH").unwrap()
            );
            let mut shell = std::process::Command::new("bash");
            shell
                .args(["-c", &command])
                .env("PATH", path)
                .env("XDG_CACHE_HOME", dir.cache())
                .current_dir(dir.temp.path());
            shell
        };
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut input, mut output) = (
            child.stdin.take().unwrap(),
            BufReader::new(child.stdout.take().unwrap()),
        );
        let log = || events(&fs::read_to_string(dir.path("log")).unwrap());
        for (at, line) in prints.lines.iter().enumerate() {
            input.write_all(line.as_bytes()).unwrap();
            output.read_line(&mut String::new()).unwrap();
            match sync {
                "each" => {
                    wait_until(&|| log().len() >= 2 * at + 2);
                    assert_eq!(log(), ["sync", "answer"].repeat(at + 1));
                }
                "never" => assert!(!log().contains(&"sync")),
                // The sync happens without another request.
                _ => wait_until(&|| log().iter().filter(|event| **event == "sync").count() > at),
            }
        }
        drop(input);
        assert!(child.wait().unwrap().code().is_some_and(|code| code < 2));
        assert!(log().contains(&"sync"), "{sync}");
    }
}

/// How many entries a server of the history `h` reports.
fn entries_served(dir: &TestDir) -> u64 {
    let flags = ["--min-similarity", "0.9", "--no-add", "--lines", "unix:s"];
    Server::start(dir, &[&["serve", "--history", "h"], &flags[..]].concat()).entries
}

/// Segments are removed as their entries are forgotten; a segment whose entries are mostly
/// forgotten is rewritten with the rest.
#[test]
fn segments_shrink_as_entries_are_forgotten() {
    let (dir, prints) = (TestDir::new(), Prints::new(900));
    let newest = ["--max-entries", "300"];
    assert_eq!(prints.add(&dir, 0, &newest).stderr(), "");
    prints.ensure_has(&prints.found(&dir, &newest), |at| at >= 600);
    let entries = || entries_served(&dir);
    assert!((300..=500).contains(&entries()), "{}", entries());
    // One segment, of which the first 120 entries are forgotten.
    fs::remove_dir_all(dir.path("h")).unwrap();
    let add = |more: &[&str], lines: &[String]| {
        let ran = dir.run_with(
            "dedup-query",
            &[&ASK, &["--file-entries", "200"][..], more].concat(),
            lines.concat().as_bytes(),
        );
        assert!(
            ran.code() < 2 && ran.stderr().is_empty(),
            "{}",
            ran.stderr()
        );
    };
    add(&[], &prints.lines[..200]);
    assert_eq!(
        (entries(), dir.shell("cd h; ls *.prints").ok_text().as_str()),
        (200, "000001.prints\n")
    );
    add(&["--max-entries", "80"], &[]);
    assert_eq!(
        (entries(), dir.shell("cd h; ls *.prints").ok_text().as_str()),
        (80, "000002.prints\n")
    );
    prints.ensure_has(&prints.found(&dir, &[]), |at| (120..200).contains(&at));
}

/// A segment whose entries were mostly removed is rewritten without them.
#[test]
fn segments_shrink_as_entries_are_removed() {
    let (dir, prints) = (TestDir::new(), Prints::new(200));
    assert_eq!(
        dir.run_with(
            "dedup-query",
            &[&ASK, &["--file-entries", "100"][..]].concat(),
            prints.text().as_bytes()
        )
        .stderr(),
        ""
    );
    let entries = || entries_served(&dir);
    let remove = |numbers: std::ops::Range<usize>| {
        dir.write(
            "list",
            numbers
                .map(|number| format!("p{number}\n"))
                .collect::<String>(),
        );
        dir.run(
            "dedup-query",
            &["history", "remove", "h", "--files-from", "list"],
        )
        .ok();
    };
    remove(0..50);
    assert_eq!(entries(), 150);
    remove(50..60);
    assert_eq!(
        (entries(), dir.shell("cd h; ls *.prints").ok_text().as_str()),
        (140, "000002.prints\n000003.prints\n")
    );
    prints.ensure_has(&prints.found(&dir, &[]), |at| at >= 60);
    remove(60..200);
    assert_eq!(prints.found(&dir, &[]), vec![None; 200]);
    assert_eq!(
        (
            entries(),
            dir.shell("ls h | grep -c prints").stdout().trim()
        ),
        (0, "0")
    );
    assert_eq!(
        records(&dir.shell("jq -c .removed h/manifest.json").ok()),
        [serde_json::json!([])]
    );
}
