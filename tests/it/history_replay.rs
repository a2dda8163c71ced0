//! dedup-query history --only-new passes each document at least once: it is killed at a system
//! call, with readers that are slow, end early, lose everything or have a full disk, and runs again
//! on the same input.
//!
//! With `DEDUP_SOAK=1` it is killed at every system call.

use crate::test_dir::TestDir;
use std::{collections::BTreeSet, fs};

const COUNT: usize = 60;

/// Documents of which every third is an earlier one with one word changed, so it is not new if that
/// one is known.
fn documents(name: &str) -> String {
    let text = |seed: usize| {
        (0..80)
            .map(|n| format!("w{} ", (seed * 7919 + n * n * 31) % 5000))
            .collect::<String>()
    };
    let line = |number: usize| {
        let body = if number % 3 == 2 {
            text(number - 1).replacen('w', "changed", 1)
        } else {
            text(number)
        };
        format!("{{\"id\":\"{name}{number}\",\"text\":\"{body}\"}}\n")
    };
    (0..COUNT).map(line).collect()
}

/// Sends the lines in small groups, so that there are several writes.
const FEED: &str = "while mapfile -n 7 -t lines && ((${#lines[@]})); do printf '%s\\n' \"${lines[@]}\"; done < d.jsonl";
const SIFT: &str =
    "dedup-query history h --min-similarity 0.9 --only-new --file-entries 20 --sync-every 1ms";
const CALLS: &str =
    "read,write,pwrite64,fsync,fdatasync,rename,unlink,ftruncate,openat,mkdir,futex";

/// Reads a few bytes at a time from a pipe of 4 KiB (F_SETPIPE_SZ), so that the writer waits again
/// and again.
const SLOW: &str = "python3 -c '
import fcntl, os, sys
fcntl.fcntl(0, 1031, 4096)
open(\"ready\", \"w\").close()
while block := os.read(0, 300): sys.stdout.buffer.write(block)' > out";

/// The complete lines that the reader got.
fn whole_lines(dir: &TestDir) -> String {
    let got = fs::read_to_string(dir.path("out")).unwrap_or_default();
    got.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .collect()
}

fn texts(lines: &str) -> BTreeSet<&str> {
    lines
        .lines()
        .filter_map(|line| line.split_once(",\"text\""))
        .map(|(_, text)| text)
        .collect()
}

/// Kills the program at each of its system calls, one per run, and checks what the reader got and
/// what a second run passes.
fn kill_at_calls(reader: &str, check: impl Fn(&TestDir, &str, u32)) {
    let dir = TestDir::with(&[("d.jsonl", documents("d"))]);
    if dir.shell("strace -f -qq -o /dev/null true").code() != 0 {
        return eprintln!("no strace here, or no right to use it: skipped");
    }
    let whole = dir.shell(&format!("{SIFT} < d.jsonl; rm -r h")).ok_text();
    assert_eq!(whole.lines().count(), COUNT - COUNT / 3);
    let step = if std::env::var_os("DEDUP_SOAK").is_some() {
        1
    } else {
        17
    };
    for number in (1..).step_by(step) {
        dir.shell("rm -rf h out ready").ok();
        if !reader.contains(SLOW) {
            dir.write("ready", "");
        }
        let trace = format!(
            "strace -f -qq -o /dev/null -e trace={CALLS} -e inject={CALLS}:signal=KILL:when={number} {SIFT} 2> /dev/null"
        );
        dir.shell(&format!(
            "{FEED} | (until [ -e ready ]; do :; done; {trace}; echo $? > status) {reader}"
        ));
        check(&dir, &whole, number);
        dir.run("dedup-query", &["history", "verify", "h"]).ok();
        if dir.read("status") != b"137\n" {
            break;
        }
    }
}

/// The same input again passes exactly the lines of an undisturbed run, whatever the reader got,
/// and stores nothing twice.
fn ensure_replay_is_whole(dir: &TestDir, whole: &str, number: u32) {
    let again = dir.shell(&format!("{SIFT} < d.jsonl"));
    assert_eq!(
        (again.code(), again.stdout().as_str()),
        (0, whole),
        "killed at call {number}: {}",
        again.stderr()
    );
    let stderr = again.stderr();
    assert!(
        stderr
            .lines()
            .all(|line| line.ends_with("everything that was synced is there")),
        "killed at call {number}: {stderr}"
    );
    let stats = dir
        .run("dedup-query", &["history", "stats", "--json", "h"])
        .ok_text();
    assert!(
        stats.contains(&format!("\"entries\":{COUNT},")),
        "killed at call {number}: {stats}"
    );
}

#[test]
fn with_a_slow_reader_a_rerun_passes_all_new_documents() {
    kill_at_calls(&format!("| {SLOW}"), ensure_replay_is_whole);
}

#[test]
fn with_a_reader_that_ends_early_a_rerun_passes_all_new_documents() {
    kill_at_calls("| head -c 3000 > out", ensure_replay_is_whole);
}

#[test]
fn with_a_full_disk_a_rerun_passes_all_new_documents() {
    kill_at_calls("> /dev/full", ensure_replay_is_whole);
}

/// The reader died and lost the lines.
#[test]
fn with_a_reader_that_loses_lines_a_rerun_passes_all_new_documents() {
    kill_at_calls("| cat > /dev/null", ensure_replay_is_whole);
}

/// A document is stored only after its line was written, so it passed once even if it has another
/// name the next time.
#[test]
fn a_stored_document_has_passed() {
    kill_at_calls(&format!("| {SLOW}"), |dir, whole, number| {
        dir.write("other.jsonl", documents("other"));
        let again = dir.shell(&format!("{SIFT} < other.jsonl")).stdout();
        let first = whole_lines(dir);
        let both: BTreeSet<&str> = texts(&first).union(&texts(&again)).copied().collect();
        let lost: Vec<_> = texts(whole).difference(&both).copied().collect();
        assert!(
            lost.is_empty(),
            "killed at call {number}: {} were stored and never passed",
            lost.len()
        );
    });
}
