//! dedup-shard on this machine: an index built in slices and ranges equals the index of a single
//! build.

use crate::range_counts::{CountedTable, count};
use crate::test_dir::{RunResult, TestDir};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Files of all kinds; some are copies of others, some share passages, some are binary, hidden or
/// have odd names.
pub fn corpus() -> TestDir {
    let dir = TestDir::new();
    let words = |from: usize, count: usize| {
        (from..from + count)
            .map(|n| format!("w{n}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    for n in 0..24 {
        dir.write(
            &format!("c/{n:02}.txt"),
            format!(
                "{} {}",
                words(n * 7 % 50, 20),
                words(1000 * (n % 9), 15 + n)
            ),
        );
    }
    let line = |n: usize| {
        format!(
            "{{\"id\":\"line {n}\",\"text\":\"{}\"}}\n",
            words(n * 11 % 60, 14)
        )
    };
    dir.write("c/lines.jsonl", (0..20).map(line).collect::<String>());
    dir.write(
        "c/more.ndjson",
        (10..30)
            .map(|n| format!("{{\"id\":\"more {n}\",\"text\":\"{}\"}}\n", words(n, 12)))
            .collect::<String>(),
    );
    dir.write("c/binary", [0; 100]);
    dir.write("c/.hidden", "not to be read");
    dir.write("c/empty", "");
    dir
}

/// A smaller corpus of the same kinds, for faster tests.
pub fn small_corpus() -> TestDir {
    let dir = TestDir::new();
    let words = |from: usize, count: usize| {
        (from..from + count)
            .map(|n| format!("w{n}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    for n in 0..9 {
        dir.write(
            &format!("c/{n}.txt"),
            format!(
                "{} {}",
                words(n * 7 % 50, 20),
                words(1000 * (n % 4), 15 + n)
            ),
        );
    }
    dir.write(
        "c/lines.jsonl",
        (0..9)
            .map(|n| {
                format!(
                    "{{\"id\":\"line {n}\",\"text\":\"{}\"}}\n",
                    words(n * 11 % 60, 14)
                )
            })
            .collect::<String>(),
    );
    dir
}

pub fn plan(dir: &TestDir, hosts: &str, more: &str) -> RunResult {
    dir.write("hosts", hosts);
    dir.shell(&format!(
        "rm -rf r && dedup-shard plan -o r --hosts hosts {more}"
    ))
}

#[track_caller]
pub fn ensure_equals_build(dir: &TestDir, more: &str) {
    let plan: serde_json::Value = serde_json::from_slice(&dir.read("r/plan.json")).unwrap();
    let parts = if more.contains("--parts") {
        String::new()
    } else {
        format!("--parts {}", plan["parts"])
    };
    dir.shell(&format!(
        "rm -rf i && dedup-index build -q --skip-bad -o i {parts} {more}"
    ))
    .ok();
    assert_eq!(dir.shell("diff -r i r/index").ok_text(), "");
}

#[test]
fn any_hosts_slots_and_parts_give_the_same_bytes() {
    let dir = corpus();
    for (hosts, more) in [
        ("a\n", "c"),
        ("a slots=2\n", "--parts 2 --dictionary c"),
        ("a\nb slots=2\n", "--parts 7 c"),
        ("a\nb\nc\n", "--dictionary --relative c"),
        (
            "a\nb\nc\nd slots=2\ne\n",
            "--parts 7 --dictionary --tokenizer char:5 -k 12 --bits 48 c",
        ),
        (
            "a slots=3\n",
            "--scheme xor --select winnow:3 --strip-html --parts 2 c",
        ),
        (
            "a slots=2\n",
            "--scheme ordered,context:2 c/binary c/05.txt c/empty c/more.ndjson",
        ),
        ("a slots=12\n", "--tokenizer code-norm --records lines c"),
        (
            "a slots=2\n",
            "--records ndjson --text-field id c/lines.jsonl c/more.ndjson",
        ),
    ] {
        plan(&dir, hosts, more).ok();
        dir.shell("dedup-shard run r -j 3").ok();
        ensure_equals_build(&dir, more);
    }
}

/// Enough documents for several shares of the sets: whole copies, shared halves, and narrow blots,
/// which many documents share by chance.
#[test]
fn sets_joined_in_shares_give_the_same_bytes() {
    let dir = TestDir::new();
    let words = |from: usize, count: usize| {
        let words = (from..from + count).map(|word| format!("w{word}"));
        words.collect::<Vec<_>>().join(" ")
    };
    let mut lines = String::new();
    for n in 0..3000 {
        let of = if n % 3 == 0 { n / 7 } else { n };
        let text = format!("{} {}", words(of * 1000, 400), words(n / 5 * 500, 200));
        lines += &format!("{{\"text\":\"{text}\"}}\n");
    }
    assert!(lines.len() > 12 << 20);
    dir.write("c.jsonl", lines);
    for (slots, shares, more) in [
        (4, 3, "--parts 4 c.jsonl"),
        (4, 2, "--parts 2 --bits 32 --memory 64M c.jsonl"),
        (1, 1, "--parts 2 c.jsonl"),
    ] {
        plan(&dir, &format!("a slots={slots}\n"), more).ok();
        dir.shell("dedup-shard run r -j 2").ok();
        assert_eq!(
            dir.shell("ls r/join | wc -l").ok_text().trim(),
            shares.to_string()
        );
        ensure_equals_build(&dir, more);
    }
}

#[test]
fn streams_and_file_lists_are_accepted_and_an_empty_corpus_is_refused() {
    let dir = corpus();
    dir.shell("dedup-tokenize --tokenizer char:9 c/0*.txt > first.jsonl; find c -name '1*.txt' -print0 | sort -z > list; mkdir none").ok();
    for more in ["first.jsonl c/20.txt c/21.txt", "--files-from list -0"] {
        plan(&dir, "a slots=3\n", more).ok();
        dir.shell("dedup-shard run r").ok();
        ensure_equals_build(&dir, more);
    }
    plan(&dir, "a slots=3\n", "none").ok();
    let ran = dir.shell("dedup-shard run r");
    assert!(
        ran.code() == 2 && ran.stderr().contains("no document was read"),
        "{}",
        ran.stderr()
    );
    assert!(!dir.path("r/index").exists());
}

#[test]
fn make_and_manual_tasks_give_the_same_index() {
    let dir = corpus();
    plan(&dir, "a slots=3\n", "--parts 2 c").ok();
    let ran = dir.shell("make -s -C r -j2");
    assert_eq!(
        (ran.code(), ran.stdout(), ran.stderr()),
        (0, String::new(), String::new())
    );
    ensure_equals_build(&dir, "--parts 2 c");
    assert_eq!(
        dir.shell("make -C r -j2 2>&1 | grep -c 'up to date'")
            .stdout(),
        "1\n"
    );
    dir.shell("dedup-shard clean r && make -s -C r && test ! -e r/map && rm -r r/index")
        .ok();
    let missing = "map-0000\nmap-0001\nmap-0002\nnumber\nreduce-000\nreduce-001\njoin-000\nsets\npart-000\npart-001\ngather\n";
    assert_eq!(
        dir.shell("dedup-shard status r --missing").ok_text(),
        missing
    );
    let ran = dir.shell("dedup-shard task r reduce-001");
    assert_eq!(ran.code(), 1);
    assert!(
        ran.stderr()
            .contains("reduce-001 needs it, and it is not there; run task number first"),
        "{}",
        ran.stderr()
    );
    dir.shell("dedup-shard status r --missing | xargs dedup-shard task r")
        .ok();
    ensure_equals_build(&dir, "--parts 2 c");
    assert_eq!(dir.shell("dedup-shard status r --missing").ok_text(), "");
    let status = dir.shell("dedup-shard status r").ok_text();
    assert_eq!(
        status
            .lines()
            .map(|line| line
                .split_whitespace()
                .take(4)
                .collect::<Vec<_>>()
                .join(" "))
            .collect::<Vec<_>>(),
        [
            "map 3 of 3",
            "number 1 of 1",
            "reduce 2 of 2",
            "join 1 of 1",
            "sets 1 of 1",
            "part 2 of 2",
            "gather 1 of 1"
        ]
    );
    dir.shell("dedup-shard gather r -o elsewhere && diff -r i elsewhere && dedup-shard clean r && dedup-shard run r && diff -r i r/index")
        .ok();
    assert_eq!(dir.shell("dedup-shard task r map-9").code(), 2);
    assert_eq!(dir.shell("dedup-shard task r").code(), 2);
}

#[test]
fn hostile_file_names_are_not_interpreted() {
    let dir = TestDir::new();
    let odd = [
        "a b",
        "it's",
        "\"q\"",
        "$(touch pwned)",
        "`touch pwned`",
        "-rf",
        "new\nline",
        "#hash",
        "$HOME",
        "semi;colon",
        "back\\slash",
        "é",
        "%",
        "*",
    ];
    let directory = "$(touch pwned) d'\"#$x";
    for (n, name) in odd.iter().enumerate() {
        dir.write(
            &format!("{directory}/{name}"),
            format!(
                "some words of document number {n} that nobody else has, and some that all have"
            ),
        );
    }
    let inner = dir.path(directory);
    let run = |line: &str| {
        let bin = assert_cmd::cargo::cargo_bin("dedup-shard")
            .parent()
            .unwrap()
            .to_owned();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let output = std::process::Command::new("bash")
            .args(["-c", line])
            .env("PATH", path)
            .env("XDG_CACHE_HOME", dir.cache())
            .current_dir(&inner)
            .output()
            .unwrap();
        RunResult(output).ok();
    };
    run("echo 'a slots=4' > ../hosts; dedup-index build -o ../i --parts 8 ./*");
    for line in [
        "dedup-shard run '../the run'",
        "make -s -C '../the run' -j2",
    ] {
        run(
            "rm -rf '../the run'; dedup-shard plan -o '../the run' --hosts ../hosts --id-field \"\\$(touch pwned)'#\" ./*",
        );
        run(line);
        run("diff -r ../i '../the run/index'");
    }
    let text = String::from_utf8(dir.read("the run/Makefile")).unwrap();
    assert!(
        odd.iter().skip(4).take(4).all(|name| !text.contains(name)),
        "{text}"
    );
    assert!(
        !inner.join("pwned").exists()
            && !dir.path("the run/pwned").exists()
            && !dir.path("pwned").exists()
    );
    assert_eq!(
        fs::metadata(dir.path("the run"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o700
    );
}

/// The messages of dedup-index build, with the program name replaced.
pub fn messages_of_build(dir: &TestDir, more: &str) -> Vec<String> {
    let ran = dir.shell(&format!(
        "rm -rf i && dedup-index build -o i --parts 8 {more}"
    ));
    assert_eq!(ran.code(), 2);
    let mut lines: Vec<String> = ran
        .stderr()
        .lines()
        .map(|line| line.replace("dedup-index", "dedup-shard"))
        .collect();
    lines.sort();
    lines
}

#[test]
fn unusable_documents_are_reported_and_the_others_are_indexed() {
    let dir = corpus();
    dir.write("c/noise", b"caf\xff\x90\x81\xfe and \xa0\x8d\x9d words");
    dir.write("c/zz.jsonl", "{\"id\":\"line 3\",\"text\":\"another text\"}\nnot json\n{\"id\":\"zz\",\"text\":\"w1 w2\"}\n{\"id\":\"line 4\",\"text\":\"x\"}\n{\"id\":\"zz\",\"text\":\"again\"}\n");
    let more = "nowhere c c/03.txt";
    let expected = messages_of_build(&dir, more);
    assert!(expected.len() >= 7, "{expected:?}");
    plan(&dir, "a slots=4\n", more).ok();
    for line in [
        "dedup-shard run r",
        "dedup-shard run r",
        "dedup-shard clean r && dedup-shard run r",
    ] {
        let ran = dir.shell(line);
        let mut lines: Vec<String> = ran.stderr().lines().map(str::to_owned).collect();
        lines.sort();
        assert_eq!((ran.code(), lines), (2, expected.clone()), "{line}");
        assert_eq!(dir.shell("diff -r i r/index").ok_text(), "");
    }
    plan(&dir, "a slots=4\n", &format!("--skip-bad {more}")).ok();
    let ran = dir.shell("dedup-shard run r");
    assert_eq!(
        (
            ran.code(),
            ran.stderr()
                .lines()
                .filter(|line| line.starts_with("dedup-shard: warning: "))
                .count()
        ),
        (0, expected.len())
    );
    assert_eq!(dir.shell("diff -r i r/index").ok_text(), "");
}

#[test]
fn documents_that_changed_after_the_plan_are_refused() {
    let dir = corpus();
    plan(&dir, "a slots=2\n", "c").ok();
    let before = dir.read("r/plan.json");
    dir.shell(
        "dedup-shard plan -o r --hosts hosts c && rm -r r && dedup-shard plan -o r --hosts hosts c",
    )
    .ok();
    assert_eq!(dir.read("r/plan.json"), before);
    let ran = dir.shell("dedup-shard plan -o r --hosts hosts --parts 3 c");
    assert_eq!(
        (ran.code(), ran.stderr()),
        (
            2,
            "dedup-shard: r: holds another plan; choose another name, or remove it first\n"
                .to_owned()
        )
    );
    dir.write("c/03.txt", "changed");
    let ran = dir.shell("dedup-shard task r map-0000");
    let what = "dedup-shard: map-0000: c/03.txt: changed since the plan was made (it is another); plan anew\n";
    assert_eq!((ran.code(), ran.stderr().as_str()), (1, what));
    let ran = dir.shell("dedup-shard run r");
    assert_eq!(ran.code(), 2);
    assert!(
        ran.stderr()
            .contains("c/03.txt: changed since the plan was made")
            && !dir.path("r/index").exists(),
        "{}",
        ran.stderr()
    );
    for (line, what) in [
        (
            "dedup-shard plan -o x --hosts hosts < /dev/null",
            "dedup-shard: say which files and directories to read; stdin cannot be cut into slices\n",
        ),
        (
            "dedup-shard run c",
            "dedup-shard: c: no plan is here (there is no plan.json); make one with dedup-shard plan\n",
        ),
        (
            "sed -i s/map-0000/map-0009/ r/plan.json; dedup-shard run r",
            "dedup-shard: r/plan.json: the plan does not match its checksum; it was altered\n",
        ),
    ] {
        let ran = dir.shell(line);
        assert_eq!((ran.code(), ran.stderr().as_str()), (2, what), "{line}");
    }
}

/// All files below a directory.
fn files(directory: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, out)
        } else {
            out.push(path)
        }
    }
}

#[test]
fn damaged_outputs_are_made_again() {
    let dir = corpus();
    plan(&dir, "a slots=2\n", "--dictionary --parts 2 c").ok();
    dir.shell("dedup-shard run r").ok();
    ensure_equals_build(&dir, "--dictionary --parts 2 c");
    let mut made = Vec::new();
    [
        "r/map", "r/number", "r/reduce", "r/sets", "r/part", "r/index",
    ]
    .iter()
    .for_each(|part| files(&dir.path(part), &mut made));
    assert!(made.len() > 20);
    for (n, path) in made.iter().enumerate() {
        let whole = fs::read(path).unwrap();
        let mut altered = whole.clone();
        match n % 3 {
            // More than a line end is damaged as well.
            0 => altered.truncate(whole.len() - 2),
            1 => altered[whole.len() / 2] ^= 4,
            _ => altered.clear(),
        }
        fs::write(path, &altered).unwrap();
        let is_index = path.starts_with(dir.path("r/index"));
        let damaged = dir.shell("dedup-shard status r").ok_text();
        assert!(
            damaged.contains("it will be made again"),
            "{}: {damaged}",
            path.display()
        );
        if !is_index {
            fs::remove_dir_all(dir.path("r/index")).unwrap();
        }
        dir.shell("dedup-shard run r").ok();
        assert_eq!(fs::read(path).unwrap(), whole, "{}", path.display());
        assert_eq!(dir.shell("diff -r i r/index").ok_text(), "");
    }
}

/// The run is killed at some moment and started again once the killed process has released its
/// lock; finished tasks are not repeated.
#[test]
fn a_killed_run_continues() {
    let dir = corpus();
    plan(&dir, "a slots=6\n", "--dictionary c").ok();
    for n in 0..12 {
        let ran = dir.shell(&format!(
            "rm -rf r/map r/number r/reduce r/sets r/part r/index
             timeout -s KILL 0.{:02} dedup-shard run r -j 2; flock r/plan.json ls -d r/index/manifest.json 2> /dev/null
             ls -i r/map/????/built.json 2> /dev/null | sort > before
             dedup-shard run r -j 2 && ls -i r/map/????/built.json | sort > after && comm -23 before after",
            2 + 3 * n
        ));
        assert_eq!(ran.code(), 0, "{}", ran.stderr());
        assert!(!ran.stdout().contains("built.json"), "{}", ran.stdout());
        ensure_equals_build(&dir, "--dictionary c");
    }
    // The next run removes the leftovers of the killed one.
    dir.shell(
        "sleep 0.5; rm -r r/index; dedup-shard run r; find r -name '*.tmp-*' | grep . && exit 1; :",
    )
    .ok();
}

#[test]
fn a_full_disk_is_distinguished_from_a_failed_task() {
    let dir = corpus();
    plan(&dir, "a slots=2\n", "c").ok();
    let ran = dir.shell("ulimit -f 1; dedup-shard task r map-0000");
    assert_eq!(ran.code(), 75, "{}", ran.stderr());
    assert!(
        ran.stderr().contains("File too large") && !dir.path("r/map/0000").exists(),
        "{}",
        ran.stderr()
    );
    let ran = dir.shell("ulimit -f 1; dedup-shard run r");
    assert_eq!(ran.code(), 75, "{}", ran.stderr());
    dir.shell("dedup-shard run r").ok();
    ensure_equals_build(&dir, "c");
}

#[test]
fn a_second_run_of_a_plan_is_refused() {
    let dir = corpus();
    plan(&dir, "a slots=2\n", "c").ok();
    let ran = dir.shell("flock r/plan.json dedup-shard run r");
    let what = "another process is at work on this run; wait for it to end\n";
    assert_eq!(ran.code(), 2);
    assert!(ran.stderr().ends_with(what), "{}", ran.stderr());
    // Running a task twice at the same time is harmless.
    dir.shell(
        "for n in 1 2 3 4; do dedup-shard task r map-0000 map-0001 & done; wait; dedup-shard run r",
    )
    .ok();
    ensure_equals_build(&dir, "c");
}

#[test]
fn status_reports_who_ran_tasks_and_which_are_missing() {
    let dir = corpus();
    plan(&dir, "a slots=3\n", "c").ok();
    assert_eq!(
        dir.shell("dedup-shard status r --missing --as array")
            .ok_text(),
        "map 0-2\nnumber 0\nreduce 0-7\njoin 0\nsets 0\npart 0-7\ngather 0\n"
    );
    assert!(!dir.shell("dedup-shard status r").ok_text().contains("host"));
    dir.shell(
        "dedup-shard run r -j 2 && test -s r/report.html && rm -r r/index r/report.html r/map/0001",
    )
    .ok();
    assert_eq!(
        dir.shell("dedup-shard status r --missing --as array")
            .ok_text(),
        "map 1\ngather 0\n"
    );
    let summary: serde_json::Value =
        serde_json::from_slice(&dir.shell("dedup-shard status r --json --report").ok()).unwrap();
    assert_eq!(
        (&summary["missing"], &summary["moved"]),
        (
            &serde_json::json!(["map-0001", "gather"]),
            &serde_json::json!(0)
        )
    );
    assert_eq!(
        (&summary["hosts"][0]["host"], &summary["hosts"][0]["tasks"]),
        (&serde_json::json!("here"), &serde_json::json!(23))
    );
    assert_eq!(
        (&summary["kinds"][0]["kind"], &summary["kinds"][0]["done"]),
        (&serde_json::json!("map"), &serde_json::json!(2))
    );
    let page = String::from_utf8(dir.read("r/report.html")).unwrap();
    assert_eq!(
        (
            page.matches("<rect class=\"k0\" x=").count(),
            page.contains("<script")
        ),
        (3, false)
    );
    let status = dir.shell("dedup-shard status r").ok_text();
    assert!(
        status.contains("\nhere ") && status.ends_with(" left, at the rates so far\n"),
        "{status}"
    );
    assert_eq!(
        fs::metadata(dir.path("r/events.jsonl"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
}

/// The table of a run equals that of one machine, for any hosts, slots and parts.
#[test]
fn a_distributed_table_equals_that_of_one_machine() {
    let dir = corpus();
    dir.shell("cp c/03.txt c/copy-of-03; cp c/03.txt c/another-copy; cp c/lines.jsonl c/zz-lines.jsonl; sed -i 's/line /other /' c/zz-lines.jsonl; mkdir none").ok();
    for (hosts, more, table) in [
        ("a\n", "c", ""),
        ("a slots=2\n", "--parts 7 c", "--threshold 0"),
        (
            "a\nb slots=2\n",
            "c",
            "--top 3 --threshold 0.3 --format tsv",
        ),
        ("a slots=3\n", "--parts 5 --select winnow:3 c", "--max-df 4"),
        ("a slots=2\n", "--bits 48 c", "--max-df 1 --threshold 0"),
    ] {
        plan(&dir, hosts, &format!("--table {table} {more}")).ok();
        dir.shell("dedup-shard run r -j 2").ok();
        let one = dir
            .shell(&format!("dedup-extract table {table} r/index"))
            .ok_text();
        assert_eq!(dir.shell("cat r/table.*").ok_text(), one, "{more} {table}");
        dir.shell("dedup-shard clean r && test ! -e r/count && mv r/table.* before && dedup-shard run r && cmp before r/table.*").ok();
        assert_eq!(dir.shell("dedup-shard status r --missing").ok_text(), "");
        dir.shell("rm -r r/index r/table.*; make -s -C r -j2 && cmp before r/table.*")
            .ok();
    }
}

#[test]
fn counts_must_be_of_one_index_and_all_ranges() {
    let dir = corpus();
    dir.shell("dedup-index build -o i --parts 3 c/0*.txt").ok();
    for range in 0..5 {
        count(&dir, "i", (range, 5), None, &format!("n{range}")).unwrap();
    }
    let table = |max_df: Option<u64>, counts: &[&str]| {
        let table = CountedTable {
            top: 100,
            threshold: 0.1,
            max_df,
            since: None,
            ranks: false,
        };
        table.make(&dir, "i", counts)
    };
    assert_eq!(
        table(None, &["n3", "n4", "n0", "n1", "n2"]).unwrap(),
        dir.shell("dedup-extract table i --format tsv").ok_text()
    );
    for (max_df, counts, what) in [
        (
            None,
            &["n0", "n1", "n2", "n3"][..],
            "the counts of blots that begin with cc to ff are missing",
        ),
        (
            None,
            &["n0", "n1", "n3", "n4"],
            "n3/counts: byte 0: counts from 99 on; those from 66 on are expected",
        ),
        (
            Some(9),
            &["n0", "n1", "n2", "n3", "n4"],
            "n0/counts: byte 0: counted with another limit of documents per blot",
        ),
    ] {
        let error = table(max_df, counts).unwrap_err().to_string();
        assert!(error.ends_with(what), "{error}");
    }
    dir.shell("dedup-index remove -q i c/01.txt").ok();
    let error = table(None, &["n0", "n1", "n2", "n3", "n4"]).unwrap_err();
    let what = "n0/counts: byte 0: the counts of another index, or of an earlier state of it";
    assert!(error.to_string().ends_with(what), "{error}");
    // Counting needs only the documents, the sets and the parts of the range.
    dir.shell("cp -r i some; rm some/000001.00[02].part").ok();
    count(&dir, "some", (1, 3), None, "n").unwrap();
    assert!(count(&dir, "some", (1, 2), None, "m").is_err());
}

/// A directory and its copy, each with an index: one is updated by sync, the other by tasks.
pub fn two_indexed_copies() -> TestDir {
    let dir = corpus();
    dir.shell("dedup-index build -q --parts 2 -o one c; cp -r one two; find c -exec touch -d '2020-01-01' {} +").ok();
    dir
}

/// Makes the same commit by sync and by tasks, and checks for the same files.
#[track_caller]
fn ensure_synced(dir: &TestDir, hosts: &str, run: &str) {
    dir.write("hosts", hosts);
    dir.shell("rm -rf r && dedup-shard plan -o r --hosts hosts --base two c && cp -r two before")
        .ok();
    dir.shell(run).ok();
    dir.shell("dedup-index sync -q one c > said || [ $? = 2 ]")
        .ok();
    assert_eq!(dir.shell("diff -r one two && rm -rf before").ok_text(), "");
    // Nothing is left to do; files that changed a moment ago may be read once more.
    let output = dir
        .shell("dedup-shard status r --missing && dedup-shard run r && dedup-index sync -n two c")
        .ok_text();
    assert!(
        !output.contains("added") && !output.contains("removed") && output.lines().count() == 1,
        "{output}"
    );
}

#[test]
fn tasks_update_an_index_as_sync_does() {
    let dir = two_indexed_copies();
    for (n, change) in [
        ":",
        "echo some new words that nobody had so far >> c/05.txt; cp c/06.txt c/copy; rm c/07.txt",
        "rm c/06.txt c/08.txt c/09.txt; echo 'quite another text of some words in a new file' > c/new",
        "cp c/10.txt c/10b.txt; echo more and more words to be found here >> c/10.txt; sed -i 's/w1 /w2 /' c/lines.jsonl",
        "rm c/*.txt",
        "for n in 1 2 3; do echo \"text number $n of some that are alike in most of their words\" > c/$n.txt; done",
    ]
    .iter()
    .enumerate()
    {
        dir.shell(&format!("{change}; find c -newermt 2021-01-01 -exec touch -d '2020-01-0{}' {{}} +", n + 2)).ok();
        let (hosts, run) = [("a slots=2\n", "dedup-shard run r -j 2"), ("a\nb slots=2\n", "make -s -C r -j2")][n % 2];
        ensure_synced(&dir, hosts, run);
    }
}

/// The changes of the table, counted range by range, equal those of one machine.
#[test]
fn the_changes_of_a_distributed_table_equal_those_of_one_machine() {
    let dir = two_indexed_copies();
    for (n, (change, table)) in [
        ("echo some new words that nobody had so far >> c/05.txt; cp c/06.txt c/copy; rm c/07.txt", ""),
        (":", ""),
        ("rm c/06.txt c/08.txt; echo 'w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12' > c/new", "--threshold 0 --format tsv"),
        ("cp c/10.txt c/10b.txt; echo more and more words >> c/10.txt; sed -i 's/w1 /w2 /' c/lines.jsonl", "--top 2"),
        ("rm c/0*.txt", "--max-df 3 --format tsv"),
        ("cp c/11.txt c/01.txt; cp c/12.txt c/02.txt", "--top 3 --threshold 0.3"),
    ]
    .iter()
    .enumerate()
    {
        dir.shell(&format!("{change}; find c -newermt 2021-01-01 -exec touch -d '2020-01-0{}' {{}} +", n + 2)).ok();
        let generation = dir.shell("jq .generation two/manifest.json").ok_text();
        plan(&dir, "a\nb slots=2\n", &format!("--base two --table {table} c")).ok();
        dir.shell(["dedup-shard run r -j 2", "make -s -C r -j2"][n % 2]).ok();
        let one = dir.shell(&format!("dedup-extract table --since {} {table} two", generation.trim())).ok_text();
        assert_eq!(dir.shell("cat r/table.*").ok_text(), one, "{change}");
        let counts = dir.shell("ls r/count 2> /dev/null | wc -l").ok_text();
        assert_eq!(counts.trim(), if table.contains("max-df") { "0" } else { "2" }, "{change}");
    }
}

#[test]
fn tasks_compact_small_segments_as_sync_does() {
    let dir = two_indexed_copies();
    for n in 0..12 {
        dir.shell(&format!(
            "echo 'words of a file with the number {n} that all such files share' > c/x{n}; touch -d '2020-02-01' c/x{n}; rm -f c/x{}",
            n - 3
        ))
        .ok();
        ensure_synced(&dir, "a slots=2\n", "dedup-shard run r -j 2");
    }
    assert!(
        dir.shell("jq '.segments | length' two/manifest.json")
            .ok_text()
            .trim()
            .parse::<u32>()
            .unwrap()
            < 8
    );
}

#[test]
fn an_index_that_changed_since_the_plan_is_left_alone() {
    let dir = two_indexed_copies();
    dir.write("c/new", "some words that are new to all of them");
    plan(&dir, "a slots=2\n", "--base two --table c").ok();
    let before = dir.read("two/manifest.json");
    dir.shell("dedup-shard task r base map-0000; cp -r r part-done")
        .ok();
    assert_eq!(dir.read("two/manifest.json"), before);
    dir.shell("dedup-shard run r").ok();
    assert_eq!(
        dir.shell("dedup-extract table --since 1 two").ok_text(),
        dir.shell("cat r/table.ndjson").ok_text()
    );
    let ran =
        dir.shell("rm -r r; mv part-done r; dedup-index remove -q two c/new && dedup-shard run r");
    assert_eq!(ran.code(), 2, "{}", ran.stderr());
    assert!(
        ran.stderr().contains("changed since the plan was made"),
        "{}",
        ran.stderr()
    );
    let ran = dir.shell("dedup-shard plan -o x --hosts hosts --base nowhere c");
    assert_eq!(ran.code(), 2);
    assert!(
        ran.stderr()
            .contains("/nowhere: there is no such index; dedup-index build -o "),
        "{}",
        ran.stderr()
    );
    let ran =
        dir.shell("echo more >> c/new; dedup-shard plan -o y --hosts hosts --base two c && echo more >> c/05.txt && dedup-shard run y");
    assert_eq!(ran.code(), 2);
    assert!(
        ran.stderr().contains("changed since the plan was made"),
        "{}",
        ran.stderr()
    );
}

/// The commit waits for the table, and a deleted table is made again as long as the gathered index
/// is there.
#[test]
fn the_table_is_made_before_the_commit_and_again_if_deleted() {
    let dir = two_indexed_copies();
    dir.write("c/new", "w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12 w13 w14");
    plan(&dir, "a slots=2\n", "--base two --table c").ok();
    dir.shell(
        "dedup-shard status r --missing | grep -vx -e table -e commit | xargs dedup-shard task r",
    )
    .ok();
    let before = dir.read("two/manifest.json");
    let ran = dir.shell("dedup-shard task r commit");
    assert!(
        ran.code() == 1
            && ran
                .stderr()
                .contains("commit needs it, and it is not there; run task table first"),
        "{}",
        ran.stderr()
    );
    assert_eq!(dir.read("two/manifest.json"), before);
    dir.shell("dedup-shard run r && mv r/table.ndjson kept")
        .ok();
    assert_eq!(
        dir.shell("dedup-shard status r --missing").ok_text(),
        "table\n"
    );
    dir.shell("dedup-shard run r && cmp kept r/table.ndjson && test -s kept")
        .ok();
    // With the table in place, the inputs of the commit are not missed.
    assert_eq!(
        dir.shell("dedup-shard clean r; rm -r r/index; dedup-shard status r --missing")
            .ok_text(),
        ""
    );
}
