//! Very little memory: what is kept of each document is in temporary files, and every answer is the same.

use crate::test_dir::{RunResult, TestDir};
use std::{
    fmt::Write,
    fs,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

/// More than the smallest blocks that go to files, with four bytes for each.
const DOCUMENTS: u32 = 17_000;

/// Tiny documents in no order of their ids; a fifth are exact copies, a fifth have another last word than one before.
fn documents(changed_every: u32) -> String {
    let mut out = String::new();
    for number in 0..DOCUMENTS {
        let text = match number % 5 {
            3 | 4 if number > 40 => number - 3 - number % 7 * 5,
            _ => number,
        };
        let mut words: Vec<String> = (0..12)
            .map(|word| format!("w{}", (text * 31 + word * 7) % 9_973))
            .collect();
        if number % 5 == 4 {
            words[11] = format!("other{number}");
        }
        if changed_every > 0 && number % changed_every == 0 {
            words[0] = format!("changed{number}");
        }
        let id = number.wrapping_mul(2_654_435_761);
        writeln!(out, r#"{{"id":"p{id:08x}","text":"{}"}}"#, words.join(" ")).unwrap();
    }
    out
}

/// Limits of memory and threads: with the first one every array of 64 KiB is in a file.
const LIMITS: [&str; 3] = [
    "--memory 1M --threads 1",
    "--memory 16M --threads 3",
    "--memory 4G --threads 2",
];

/// Runs a line with each limit in the place of `@`, and a name of the limit in the place of `#`.
fn with_each_limit(dir: &TestDir, line: &str) -> Vec<RunResult> {
    let run = |(number, limit): (usize, &&str)| {
        let limit = format!("{limit} --tmp-dir tmp");
        let line = line.replace('@', &limit).replace('#', &number.to_string());
        let ran = dir.shell(&line);
        assert_eq!((ran.code(), ran.stderr().as_str()), (0, ""), "{line}");
        ran
    };
    LIMITS.iter().enumerate().map(run).collect()
}

#[track_caller]
fn ensure_same_directories(dir: &TestDir, name: &str) {
    for number in 1..LIMITS.len() {
        let compared = dir.shell(&format!("diff -r -x .dedup-clean {name}0 {name}{number}"));
        assert_eq!(compared.stdout(), "", "{name}{number}");
    }
}

fn ensure_no_temporary_files(dir: &TestDir) {
    let left: Vec<_> = fs::read_dir(dir.path("tmp")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

fn test_dir() -> TestDir {
    let dir = TestDir::with(&[("c/all.jsonl", documents(0))]);
    fs::create_dir(dir.path("tmp")).unwrap();
    dir
}

#[test]
fn indexes_are_the_same_however_little_memory_there_is() {
    let dir = test_dir();
    with_each_limit(&dir, "dedup-index build -q @ -o i# c");
    ensure_same_directories(&dir, "i");
    with_each_limit(
        &dir,
        "cp -r i# merged-of# && head -300 c/all.jsonl | sed 's/\"p/\"q/; s/w1/x1/g' | \
                           dedup-index build -q @ -o more# - && dedup-index merge -q @ -o m# merged-of# more#",
    );
    ensure_same_directories(&dir, "m");
    let ids = "head -2000 c/all.jsonl | grep -o 'p[0-9a-f]*' > ids";
    assert_eq!(dir.shell(ids).code(), 0);
    with_each_limit(
        &dir,
        "head -2500 c/all.jsonl | sed 's/w2/y/g' | dedup-index add -q @ i# - && \
         dedup-index remove -q i# --files-from ids && dedup-index compact -q @ i#",
    );
    ensure_same_directories(&dir, "i");
    ensure_no_temporary_files(&dir);
}

#[test]
fn sync_is_the_same_however_little_memory_there_is() {
    let dir = test_dir();
    dir.write(
        "c/one.txt",
        "a file of its own with a few words that no other one has",
    );
    with_each_limit(
        &dir,
        "dedup-index build -q @ -o i# c && dedup-index sync -q @ i# c && dedup-index sync -q @ i# c",
    );
    ensure_same_directories(&dir, "i");
    dir.write("c/all.jsonl", documents(100));
    with_each_limit(
        &dir,
        "dedup-index sync -q @ i# c && cp -r i# s# && dedup-index sync -q @ i# c",
    );
    ensure_same_directories(&dir, "i");
    // The remembered state is of an older one of the index: documents are looked up by their ids.
    with_each_limit(
        &dir,
        "dedup-index remove -q i# c/one.txt && dedup-index sync -q @ --checksum i# c && dedup-index sync -q @ i# c",
    );
    ensure_same_directories(&dir, "i");
    dir.write(
        "c/bad.jsonl",
        "{\"id\":\"bad\",\"text\":\"this one is read\"}\nno record\n",
    );
    for (number, limit) in LIMITS.iter().enumerate() {
        let line = format!("dedup-index sync -q {limit} i{number} c");
        assert_eq!(dir.shell(&line).code(), 2, "{line}");
    }
    ensure_same_directories(&dir, "i");
    ensure_no_temporary_files(&dir);
}

#[test]
fn answers_are_the_same_however_little_memory_there_is() {
    let dir = test_dir();
    dir.shell("dedup-index build -q -o i c").ok();
    for line in [
        "pairs i",
        "pairs i --max-df none --threshold 0.8 --format tsv",
        "pairs i --score containment --threshold 0.5",
        "table i --format tsv",
        "table i --rank --top 3",
        "clusters i",
        "clusters i --keep longest --threshold 0.8 --format tsv",
        "exact i",
        "exact i --format csv",
        "graph i",
        "blots i --format tsv",
    ] {
        let ran = with_each_limit(&dir, &format!("dedup-extract {line} -q @"));
        assert!(ran[0].0.stdout.len() > 1000, "{line}");
        for other in &ran[1..] {
            assert!(other.0.stdout == ran[0].0.stdout, "{line}");
        }
    }
    for line in [
        "dedup-extract clean c -o cleaned# --dropped dropped#",
        "dedup-extract clean c -o longest# --keep longest --near 80% --cut-spans 9",
        "dedup-extract clean c -o least# --keep id:min --prefer pf",
        "dedup-extract clean c -o no-copies# --keep none",
        "dedup-extract spans c > spans#",
    ] {
        with_each_limit(&dir, &line.replacen(" c ", " c -q @ ", 1));
    }
    for name in [
        "cleaned",
        "dropped",
        "longest",
        "least",
        "no-copies",
        "spans",
    ] {
        ensure_same_directories(&dir, name);
    }
    ensure_no_temporary_files(&dir);
}

#[test]
fn a_run_on_many_hosts_is_the_same_however_little_memory_there_is() {
    let dir = test_dir();
    dir.shell("dedup-index build -q -o i --parts 4 c").ok();
    for memory in ["1M", "4G"] {
        let line = format!(
            "dedup-shard plan -q -o r{memory} --slots 2 --parts 4 --slice-size 500K --memory {memory} --table c && \
             dedup-shard run -q r{memory} && dedup-shard gather -q r{memory} -o g{memory}"
        );
        let ran = dir.shell(&line);
        assert_eq!(ran.code(), 0, "{line}: {}", ran.stderr());
    }
    assert_eq!(
        dir.shell("diff -r i g1M; diff -r i g4G; cmp r1M/table.ndjson r4G/table.ndjson")
            .stdout(),
        ""
    );
}

#[test]
fn without_room_for_temporary_files_memory_is_used_and_that_is_said() {
    let dir = test_dir();
    dir.shell("dedup-index build -q -o i c").ok();
    let expected = dir.shell("dedup-extract exact -q i").ok();
    let ran = dir.shell("dedup-extract exact -q i --memory 1M --tmp-dir missing");
    assert_eq!(ran.code(), 0);
    assert!(ran.0.stdout == expected);
    assert_eq!(
        ran.stderr(),
        "dedup-extract: warning: missing: No such file or directory (os error 2); no temporary file could be made there, \
         so more memory than --memory was used\n"
    );
}

/// A writer that waits for more input has files in the directory, but none with a name.
#[test]
fn a_killed_writer_leaves_no_temporary_files() {
    if !Path::new("/proc/self/maps").exists() {
        return;
    }
    let dir = test_dir();
    let mut command = dir.command(
        "dedup-index",
        &[
            "build",
            "-q",
            "--memory",
            "1M",
            "--tmp-dir",
            "tmp",
            "-o",
            "i",
            "-",
        ],
    );
    let mut child = command
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        let _ = std::io::Write::write_all(&mut input, documents(0).as_bytes());
        input
    });
    let maps = format!("/proc/{}/maps", child.id());
    let tmp = dir.path("tmp").canonicalize().unwrap();
    let start = Instant::now();
    let is_mapped = |maps: &str| {
        maps.lines()
            .any(|line| line.contains(tmp.to_str().unwrap()))
    };
    while !is_mapped(&fs::read_to_string(&maps).unwrap()) {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::yield_now();
    }
    ensure_no_temporary_files(&dir);
    child.kill().unwrap();
    child.wait().unwrap();
    drop(writer.join().unwrap());
    ensure_no_temporary_files(&dir);
}
