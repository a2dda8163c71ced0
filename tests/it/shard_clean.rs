//! dedup-shard plan --clean: files, records and report have the bytes of dedup-extract clean.

use crate::{
    test_dir::{RunResult, TestDir, root},
    test_hosts::Hosts,
};
use serde_json::json;
use std::fs;

/// Words that look random, and are the same in every run.
struct Words(u64);

impl Words {
    fn below(&mut self, most: u64) -> u64 {
        // The generator of Knuth's MMIX; its upper bits are the better ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn text(&mut self, count: u64) -> String {
        let words: Vec<String> = (0..count)
            .map(|_| format!("w{}", self.below(900)))
            .collect();
        words.join(" ")
    }
}

/// Packed and plain files in `in`: copies, near copies, passages that many share, and two files that are one document each.
pub fn collection() -> TestDir {
    let (dir, mut words) = (TestDir::new(), Words(7));
    let shared = words.text(70);
    let mut texts: Vec<String> = Vec::new();
    for file in 0..7 {
        let mut lines = String::new();
        for number in 0..24 {
            let earlier = words.below(texts.len().max(1) as u64) as usize;
            let text = match (words.below(6), texts.get(earlier)) {
                (0, Some(earlier)) => earlier.to_uppercase(),
                (1, Some(earlier)) => format!("{earlier} {}", words.text(4)),
                (2, _) => format!("{} {shared} {}", words.text(9), words.text(12)),
                _ => {
                    let count = 20 + words.below(90);
                    words.text(count)
                }
            };
            let score = words.below(50);
            let line = json!({"id": format!("{file}-{number}"), "score": score, "text": text});
            lines += &format!("{line}\n");
            texts.push(text);
        }
        let parent = if file % 3 == 0 { "in/sub" } else { "in" };
        dir.write(&format!("{parent}/s{file}.jsonl"), lines);
    }
    let rows: Vec<String> = (0..9)
        .map(|row| format!("r{row},\"{}, and \"\"more\"\"\"\r\n", texts[row * 11]))
        .collect();
    dir.write("in/rows.csv", format!("id,text\r\n{}", rows.concat()));
    for name in ["snappy.parquet", "zstd.parquet"] {
        let sample = root().join("testdata/corpus-kinds").join(name);
        fs::copy(sample, dir.path("in").join(name)).unwrap();
    }
    dir.write("in/copy.txt", &texts[3]);
    dir.write("in/own.txt", words.text(60));
    dir.write("evaluation.txt", &texts[40]);
    dir.shell("zstd -q --rm in/s1.jsonl in/sub/s3.jsonl; gzip in/s2.jsonl in/sub/s6.jsonl")
        .ok();
    dir
}

/// Cleans on this machine, to `one`.
fn clean_here(dir: &TestDir, flags: &str) {
    let ran = dir.shell(&format!(
        "rm -rf one*; dedup-extract clean -q -o one --dropped one.dropped.gz --report one.json {flags} -- in"
    ));
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
}

/// Plans to clean to `two`.
fn plan(dir: &TestDir, hosts: &str, flags: &str) -> RunResult {
    dir.write("hosts", hosts);
    dir.shell(&format!(
        "rm -rf r two*; dedup-shard plan -o r --hosts hosts --clean two --dropped two.dropped.gz --report two.json {flags} -- in"
    ))
}

/// Both have the same files, and nothing was left beside them.
#[track_caller]
fn ensure_same(dir: &TestDir) {
    let ran = dir.shell(
        "cmp one.dropped.gz two.dropped.gz && cmp one.json two.json && diff -r -x .dedup-clean one two && test ! -e two/.dedup-clean",
    );
    assert_eq!(ran.code(), 0, "{}{}", ran.stdout(), ran.stderr());
}

const CUTS: &str = "--cut-spans 50 --keep longest";

#[test]
fn any_number_of_slots_gives_the_bytes_of_one_machine() {
    let dir = collection();
    for flags in [
        CUTS,
        "--keep score:max --by jaccard --near 60%",
        "--mode annotate --exclude '*.txt' --keep last",
        "--against evaluation.txt --cut-spans 20 --min-left 5 --prefer in/sub",
        "--keep none --exact off --relative -k 3",
    ] {
        clean_here(&dir, flags);
        for slots in [2, 8] {
            plan(&dir, &format!("a slots={slots}\n"), flags).ok();
            dir.shell(&format!("dedup-shard run -q r -j {slots}")).ok();
            ensure_same(&dir);
        }
    }
    assert!(dir.read("one.json").len() > 100);
}

#[test]
fn make_and_manual_tasks_clean_too() {
    let dir = collection();
    let flags = format!("{CUTS} --cuts cuts.tsv");
    clean_here(&dir, &flags);
    let cuts = dir.read("cuts.tsv");
    plan(&dir, "a slots=3\n", &flags).ok();
    dir.shell("rm cuts.tsv; make -s -C r -j2").ok();
    ensure_same(&dir);
    assert_eq!(dir.read("cuts.tsv"), cuts);
    let status = dir.shell("dedup-shard status r").ok_text();
    let kinds = [
        "decide      1 of 1",
        "write       3 of 3",
        "place       1 of 1",
    ];
    for kind in kinds {
        assert!(status.contains(kind), "{status}");
    }
    // What the tasks made on the way may go, and nothing is left to do.
    dir.shell("dedup-shard clean r && test ! -e r/write && dedup-shard run -q r")
        .ok();
    ensure_same(&dir);
    // Cleaned files that are gone are written again.
    dir.shell(
        "rm -r two && dedup-shard status r --missing > missing; xargs dedup-shard task r < missing",
    )
    .ok();
    let missing = String::from_utf8(dir.read("missing")).unwrap();
    assert!(
        missing.ends_with("decide\nwrite-0000\nwrite-0001\nwrite-0002\nplace\n"),
        "{missing}"
    );
    ensure_same(&dir);
}

#[test]
fn a_killed_run_goes_on() {
    let dir = collection();
    clean_here(&dir, CUTS);
    plan(&dir, "a slots=8\n", CUTS).ok();
    dir.shell("dedup-shard run -q r -j 2").ok();
    for n in 0..12 {
        let ran = dir.shell(&format!(
            "rm -rf two* r/decide r/write r/place
             timeout -s KILL 0.{:02} dedup-shard run -q r -j 2; flock r/plan.json ls -i r/write/????/built.json 2> /dev/null | sort > before
             dedup-shard run -q r -j 2 && ls -i r/write/????/built.json | sort > after && comm -23 before after",
            2 + 2 * n
        ));
        assert_eq!(ran.code(), 0, "{}", ran.stderr());
        assert_eq!(ran.stdout(), "", "a task that was done was run again");
        ensure_same(&dir);
    }
    // Some files were placed already; another one is in the way.
    dir.shell("rm -r r/place two/s4.jsonl && dedup-shard run -q r")
        .ok();
    ensure_same(&dir);
    let ran =
        dir.shell("rm -r r/place two/s4.jsonl; echo other > two/s4.jsonl; dedup-shard run -q r");
    assert_eq!(ran.code(), 2);
    assert!(
        ran.stderr()
            .contains("two/s4.jsonl: is there already, and is another file"),
        "{}",
        ran.stderr()
    );
}

#[test]
fn hosts_clean_copies_of_the_files() {
    let dir = collection();
    clean_here(&dir, CUTS);
    for (count, words) in [(1, "slots=2"), (3, "")] {
        let hosts = Hosts::behind_rsh(&dir, count);
        plan(&dir, &hosts.list(words), CUTS).ok();
        hosts.run(&dir, "-q").ok();
        ensure_same(&dir);
    }
    // A host that shares the directory reads and writes there.
    let hosts = Hosts::behind_rsh(&dir, 2);
    let shared = format!("shared={}", dir.path("").display());
    plan(&dir, &hosts.list(&shared), CUTS).ok();
    hosts.run(&dir, "-q").ok();
    ensure_same(&dir);
    // The hosts wrote the files: events name them.
    let wrote = "jq -r 'select(.task // \"\" | startswith(\"write-\")) | .host' r/events.jsonl | sort -u | grep -c node";
    assert_ne!(dir.shell(wrote).stdout(), "0\n");
}

#[test]
fn hosts_clean_over_ssh() {
    let dir = collection();
    clean_here(&dir, CUTS);
    let hosts = Hosts::with_sshd(&dir, 2);
    plan(&dir, &hosts.list("slots=2"), CUTS).ok();
    hosts.run(&dir, "-q").ok();
    ensure_same(&dir);
    assert_eq!(hosts.orphans(), Vec::<String>::new());
}

#[test]
fn a_damaged_file_ends_the_run_or_takes_no_part() {
    let dir = collection();
    // Large enough to look whole at its beginning.
    let lines: String = (0..9000)
        .map(|n| json!({"id": n, "text": Words(n).text(20)}).to_string() + "\n")
        .collect();
    dir.write("big", lines);
    dir.shell("zstd -q < big | head -c -900 > in/cut.jsonl.zst; rm big")
        .ok();
    plan(&dir, "a slots=2\n", "").ok();
    let ran = dir.shell("dedup-shard run -q r");
    assert_eq!(ran.code(), 2);
    let what = "1 files could not be read to their ends (the first is in/cut.jsonl.zst), so nothing is written";
    assert!(ran.stderr().contains(what), "{}", ran.stderr());
    assert!(!dir.path("two").exists());
    clean_here(&dir, "--skip-bad");
    plan(&dir, "a slots=2\n", "--skip-bad").ok();
    dir.shell("dedup-shard run -q r").ok();
    ensure_same(&dir);
    assert!(!dir.path("two/cut.jsonl.zst").exists() && dir.path("two/s4.jsonl").exists());
}

#[test]
fn plans_that_cannot_be_carried_out_are_refused() {
    let dir = collection();
    dir.write("hosts", "a\n");
    dir.write("full/file", "");
    fs::create_dir(dir.path("empty")).unwrap();
    for (flags, message) in [
        (
            "--near 80%",
            "--near says how files are cleaned; say where they go with --clean OUT",
        ),
        (
            "--clean full",
            "full: holds files already; give a directory that is empty or does not exist",
        ),
        (
            "--clean in/out",
            "it is inside of in, which is read; give a directory outside",
        ),
        (
            "--clean r/out",
            "the cleaned files and the run need a directory each, one beside the other",
        ),
        (
            "--clean out --dropped -",
            "--dropped: a task has no stdout that you would see; give a file",
        ),
        (
            "--clean out --cuts x",
            "--cuts lists passages that are cut out; say which with --cut-spans N",
        ),
        (
            "--clean out --dropped x --report x",
            "--report and --dropped name the same file; give each its own",
        ),
        ("--clean out --dropped no/x", "no/x: there is no directory"),
        (
            "--clean out --mode annotate",
            "in/copy.txt: its records have no fields",
        ),
        ("--clean out --against no", "no: no such file or directory"),
        ("--clean out --table", "cannot be used with '--table'"),
        ("--clean out --base i", "cannot be used with"),
    ] {
        let ran = dir.shell(&format!(
            "dedup-shard plan -o r --hosts hosts {flags} -- in"
        ));
        assert_eq!(ran.code(), 2, "{flags}");
        assert!(ran.stderr().contains(message), "{flags}: {}", ran.stderr());
        assert!(
            !dir.path("r").exists() && !dir.path("out").exists(),
            "{flags}"
        );
    }
    dir.shell("dedup-shard plan -o r --hosts hosts --clean empty in && dedup-shard run -q r && test -e empty/own.txt")
        .ok();
}
