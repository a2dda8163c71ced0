//! A run of dedup-extract clean that is killed, or that a disk fails, goes on where it was: the same command ends with the same files.
//!
//! With `DEDUP_SOAK=1` it is killed at every system call that it makes.

use crate::test_dir::{RunResult, TestDir};
use std::{collections::BTreeMap, fs, path::Path};

const CLEAN: &str =
    "dedup-extract clean in -o out --cut-spans 12 --dropped gone.jsonl --cuts cuts.jsonl";
const CALLS: &str = "write,fsync,fdatasync,rename,unlink,mkdir,ftruncate,openat,pwrite64";

/// Three packed files with copies and a passage that all documents share.
fn fixture() -> TestDir {
    let dir = TestDir::new();
    let passage: String = (0..15).map(|n| format!("banner{n} ")).collect();
    for shard in 0..3 {
        let record = |number: usize| {
            let text: String = (0..40).map(|n| format!("w{}x{n} ", number % 7)).collect();
            let record = serde_json::json!({ "id": format!("{shard}-{number}"), "text": format!("{text}{passage}") });
            format!("{record}\n")
        };
        let records: String = (shard * 5..shard * 5 + 5).map(record).collect();
        dir.write(&format!("in/{shard}.jsonl"), records);
    }
    dir.shell("gzip in/1.jsonl && zstd -q --rm in/2.jsonl").ok();
    dir
}

fn can_trace(dir: &TestDir) -> bool {
    let can = dir.shell("strace -f -qq -o /dev/null true").code() == 0;
    if !can {
        eprintln!("no strace here, or no right to use it: skipped");
    }
    can
}

fn step() -> usize {
    if std::env::var_os("DEDUP_SOAK").is_some() {
        1
    } else {
        29
    }
}

fn inject(dir: &TestDir, calls: &str, what: &str, number: usize) -> RunResult {
    dir.shell(&format!(
        "strace -f -qq -o /dev/null -e trace={calls} -e inject={calls}:{what}:when={number} {CLEAN}"
    ))
}

/// All files below a directory, but for the state of the run.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_file() {
            found.insert(name, fs::read(&path).unwrap());
        }
    }
    found
}

fn reset(dir: &TestDir) {
    let _ = fs::remove_dir_all(dir.path("out"));
    for name in ["gone.jsonl", "cuts.jsonl"] {
        let _ = fs::remove_file(dir.path(name));
    }
}

/// What an undisturbed run writes.
fn expected(dir: &TestDir) -> Vec<BTreeMap<String, Vec<u8>>> {
    let ran = dir.shell(CLEAN);
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    let all = result(dir);
    assert_eq!(all[0].len(), 3);
    all
}

fn result(dir: &TestDir) -> Vec<BTreeMap<String, Vec<u8>>> {
    let records = ["gone.jsonl", "cuts.jsonl"].map(|name| (name.to_owned(), dir.read(name)));
    vec![files(&dir.path("out")), records.into()]
}

/// No file of the output is ever incomplete, and the same command ends with what an undisturbed run writes.
fn ensure_goes_on(dir: &TestDir, expected: &[BTreeMap<String, Vec<u8>>], when: &str) {
    for (name, bytes) in files(&dir.path("out")) {
        assert!(expected[0][&name] == bytes, "{when}: {name} is incomplete");
    }
    let ran = dir.shell(CLEAN);
    assert_eq!(ran.code(), 0, "{when}: {}", ran.stderr());
    assert!(result(dir) == expected, "{when}");
    let left = fs::read_dir(dir.path("out/.dedup-clean")).unwrap().count();
    assert_eq!(left, 1, "{when}: more than the state is left");
}

#[test]
fn a_run_that_was_killed_goes_on() {
    let dir = fixture();
    if !can_trace(&dir) {
        return;
    }
    let (input, expected) = (files(&dir.path("in")), expected(&dir));
    for number in (1..).step_by(step()) {
        reset(&dir);
        let ran = inject(&dir, CALLS, "signal=KILL", number);
        let is_dead = ran.code() != 0;
        ensure_goes_on(&dir, &expected, &format!("killed at call {number}"));
        if !is_dead {
            break;
        }
    }
    assert!(files(&dir.path("in")) == input);
}

#[test]
fn a_failed_system_call_is_an_error_and_the_run_goes_on() {
    let dir = fixture();
    if !can_trace(&dir) {
        return;
    }
    let expected = expected(&dir);
    for (calls, error) in [("write", "ENOSPC"), ("fsync", "EIO"), ("rename", "EIO")] {
        for number in (1..).step_by(step().div_ceil(3)) {
            reset(&dir);
            let ran = inject(&dir, calls, &format!("error={error}"), number);
            let when = format!("{calls} {number} failed");
            assert!(
                !ran.stderr().contains("panicked"),
                "{when}: {}",
                ran.stderr()
            );
            if ran.code() == 0 {
                assert!(result(&dir) == expected, "{when}");
                break;
            }
            assert_eq!(ran.code(), 2, "{when}: {}", ran.stderr());
            ensure_goes_on(&dir, &expected, &when);
        }
    }
}
