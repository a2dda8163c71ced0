//! dedup-shard cuts large files into parts: the same bytes, records and messages as on one machine.

use crate::{
    shard::ensure_equals_build,
    test_dir::{RunResult, TestDir, root},
    test_hosts::Hosts,
};
use std::{fs, ops::Range};

fn words(from: usize, count: usize) -> String {
    let words: Vec<String> = (from..from + count).map(|n| format!("w{n}")).collect();
    words.join(" ")
}

/// Lines with and without an id, some with problems, some equal to others.
fn lines(name: &str, numbers: Range<usize>) -> String {
    let line = |n: usize| match n % 11 {
        3 => format!(
            "{{\"id\":\"{name} {n}\",\"text\":\"{}\"}}\r\n",
            words(n * 7 % 90, 12)
        ),
        5 => "\n".to_owned(),
        7 if n.is_multiple_of(3) => "no JSON\n".to_owned(),
        8 if n < 60 && n.is_multiple_of(4) => "{\"id\":\"no text\"}\n".to_owned(),
        _ => format!("{{\"text\":\"{}\"}}\n", words(n * 13 % 400, 9 + n % 30)),
    };
    numbers.map(line).collect()
}

/// Large files of every kind that is cut, and one that is not.
fn corpus() -> TestDir {
    let dir = TestDir::new();
    dir.write("c/a.txt", words(0, 30));
    dir.write("c/plain.jsonl", lines("plain", 0..300));
    let row = |n: usize| match n % 5 {
        0 => format!(
            "r{n},\"{},\r\n\"\"and\"\" {}\"\r\n",
            words(n, 9),
            words(n * 3, 7)
        ),
        1 => format!(",{}\n", words(n * 5, 12)),
        2 if n.is_multiple_of(3) => "too,many,fields\n\n".to_owned(),
        _ => format!("r{n},{} \" inch\n", words(n * 2 % 70, 14)),
    };
    dir.write(
        "c/rows.csv",
        format!(
            "\u{feff}id,text\r\n{}",
            (0..200).map(row).collect::<String>()
        ),
    );
    let types = root().join("testdata/corpus-kinds/types.parquet");
    fs::copy(types, dir.path("c/types.parquet")).unwrap();
    for number in 0..8 {
        // A record lies across each border.
        let all = lines("packed", 0..240);
        let piece = all.len() * number / 8..all.len() * (number + 1) / 8;
        dir.write(&format!("piece{number}"), &all[piece]);
    }
    dir.write("blocked", lines("blocked", 0..6000));
    dir.shell(
        "for piece in piece?; do zstd -q -c $piece >> c/frames.jsonl.zst; gzip -c $piece >> c/members.jsonl.gz; done
         bgzip -c blocked > c/blocked.jsonl.gz && gzip -c blocked > c/single.jsonl.gz",
    )
    .ok();
    dir
}

fn plan(dir: &TestDir, flags: &str) -> RunResult {
    dir.shell(&format!("rm -rf r && dedup-shard plan -o r {flags}"))
}

/// How many slices read a part of a file.
fn parts_of(dir: &TestDir, name: &str) -> usize {
    let found = dir.shell(&format!("cat r/slices/* | grep -c '{name}\".*\"part\":'"));
    found.stdout().trim().parse().unwrap()
}

/// All messages without the names of programs, sorted: those about ids that an earlier slice has come last in each slice.
fn said(ran: &RunResult) -> Vec<String> {
    let name = |line: &str| {
        line.split_once(": ")
            .map_or("", |(_, rest)| rest)
            .to_owned()
    };
    let mut lines: Vec<String> = ran.stderr().lines().map(name).collect();
    lines.sort();
    lines
}

#[test]
fn files_of_many_records_are_many_slices() {
    let dir = corpus();
    let built = dir.shell("dedup-index build -v -o whole --parts 2 c");
    for (slots, size) in [(1, "3K"), (4, "11K")] {
        let flags = format!("-q --slots {slots} --slice-size {size} --parts 2 c");
        plan(&dir, &flags).ok();
        let ran = dir.shell("dedup-shard run r");
        assert_eq!(ran.code(), built.code());
        let (ours, theirs) = (said(&ran), said(&built));
        let odd = ours.iter().zip(&theirs).find(|(one, two)| one != two);
        assert_eq!((odd, ours.len()), (None, theirs.len()));
        assert_eq!(dir.shell("diff -r whole r/index").ok_text(), "");
    }
    plan(&dir, "-q --slots 3 --slice-size 2K --parts 2 c").ok();
    let is_cut = |name: &str| (name.to_owned(), parts_of(&dir, name) > 1);
    for name in [
        "plain.jsonl",
        "rows.csv",
        "types.parquet",
        "frames.jsonl.zst",
        "members.jsonl.gz",
        "blocked.jsonl.gz",
    ] {
        assert_eq!(is_cut(name), (name.to_owned(), true));
    }
    assert_eq!(parts_of(&dir, "single.jsonl.gz"), 0);
}

#[test]
fn a_stream_that_cannot_be_cut_is_named() {
    let dir = corpus();
    let planned = plan(&dir, "--slots 2 --slice-size 2K c");
    let bytes = fs::metadata(dir.path("c/single.jsonl.gz")).unwrap().len();
    let size = format!("{:.1} kB", bytes as f64 / 1000.0);
    assert_eq!(
        planned.stderr(),
        format!(
            "dedup-shard: c/single.jsonl.gz: one stream that cannot be cut: one task of {size}; \
             pack it with bgzip, or as several files, for more tasks\n"
        )
    );
    assert_eq!(plan(&dir, "-q --slots 2 --slice-size 2K c").stderr(), "");
}

#[test]
fn lines_and_sequences_are_cut() {
    let dir = TestDir::new();
    let text: String = (0..200).map(|n| words(n * 7 % 60, n % 20) + "\n").collect();
    dir.write("c/lines", text);
    let bases = |n: usize, at: usize| char::from(b"ACGT"[(n * n + at * (n % 7 + 3)) / 5 % 4]);
    let sequence = |n: usize| {
        let bases: String = (0..90).map(|at| bases(n % 40, at)).collect();
        format!(">s{n} some name\n{}\n{}\n", &bases[..60], &bases[60..])
    };
    dir.write("f/a.fa", (0..99).map(sequence).collect::<String>());
    for flags in ["--records lines c", "--tokenizer dna -k 20 f"] {
        plan(&dir, &format!("--slots 3 --slice-size 1K {flags}")).ok();
        dir.shell("dedup-shard run r").ok();
        ensure_equals_build(&dir, flags);
    }
}

#[test]
fn hosts_get_only_the_bytes_of_their_parts() {
    let dir = corpus();
    let hosts = Hosts::behind_rsh(&dir, 2);
    dir.write("hosts", hosts.list("slots=2"));
    plan(
        &dir,
        "-q --hosts hosts --slice-size 5K --parts 2 --skip-bad c",
    )
    .ok();
    hosts.run(&dir, "-q").ok();
    ensure_equals_build(&dir, "c");
    let sent = dir
        .shell("jq -s '[.[] | .. | objects | select(.goods == \"documents\") | .bytes] | add // 0' r/events.jsonl")
        .ok_text();
    let whole = dir.shell("cat c/* | wc -c").ok_text();
    let number = |text: &str| text.trim().parse::<u64>().unwrap();
    assert!(
        number(&sent) > 0 && number(&sent) < number(&whole) * 3 / 2,
        "{sent} {whole}"
    );
}

#[test]
fn a_cut_file_that_changes_is_read_again() {
    let dir = corpus();
    dir.shell("rm c/rows.csv; dedup-index build -q --skip-bad --parts 2 -o one c; cp -r one two; find c -exec touch -d 2020-01-01 {} +")
        .ok();
    for (day, change) in [
        ":",
        "sed -i 's/w12 /w99 /' c/plain.jsonl",
        "head -c 2000 piece3 >> c/plain.jsonl; rm c/frames.jsonl.zst",
        "sed -i 100,200d c/plain.jsonl; gzip -c piece0 >> c/members.jsonl.gz",
    ]
    .iter()
    .enumerate()
    {
        dir.shell(&format!(
            "{change}; find c -newermt 2021-01-01 -exec touch -d 2020-01-0{} {{}} +",
            day + 2
        ))
        .ok();
        plan(&dir, "-q --slots 3 --slice-size 6K --skip-bad --base two c").ok();
        dir.shell("dedup-shard run -q r; dedup-index sync -q --skip-bad one c")
            .ok();
        assert_eq!(dir.shell("diff -r one two").ok_text(), "", "{change}");
    }
}

#[test]
fn cut_files_are_cleaned_and_joined() {
    let dir = corpus();
    dir.shell("mv c/rows.csv c/plain.jsonl . && mkdir c/sub && cp plain.jsonl c/sub/again.jsonl && mv rows.csv plain.jsonl c && chmod 640 c/plain.jsonl")
        .ok();
    for flags in [
        "--near 70%",
        "--cut-spans 8 --min-left 0 --keep longest",
        "--mode annotate --keep last --exclude '*.txt'",
    ] {
        dir.shell(&format!(
            "rm -rf one* two*; dedup-extract clean -q --skip-bad -o one --dropped one.dropped --report one.json {flags} -- c"
        ))
        .ok();
        for size in ["3K", "9K"] {
            dir.shell("rm -rf two*").ok();
            plan(&dir, &format!("-q --slots 3 --parts 2 --slice-size {size} --skip-bad --clean two --dropped two.dropped --report two.json {flags} -- c")).ok();
            assert!(parts_of(&dir, "plain.jsonl") > 1 && parts_of(&dir, "rows.csv") > 1);
            dir.shell("dedup-shard run -q r -j 3").ok();
            let same = dir.shell("cmp one.dropped two.dropped && cmp one.json two.json && diff -r -x .dedup-clean one two && stat -c %a two/plain.jsonl");
            assert_eq!(same.ok_text(), "640\n");
            // What was placed before stays.
            dir.shell("rm -r r/place && dedup-shard run -q r && diff -r -x .dedup-clean one two")
                .ok();
        }
    }
}

#[test]
fn slots_stand_for_hosts() {
    let dir = TestDir::with(&[("c/a.txt", words(0, 40)), ("c/b.txt", words(20, 40))]);
    plan(&dir, "--slots 3 c").ok();
    dir.shell("dedup-shard run -q r && dedup-shard status r")
        .ok();
    ensure_equals_build(&dir, "c");
    dir.shell("rm -r r/index && dedup-shard run r --engine slurm --print | grep -q sbatch && make -s -C r -j2")
        .ok();
    ensure_equals_build(&dir, "c");
    let ran = dir.shell("dedup-shard run r --engine ssh");
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (
            2,
            "dedup-shard: the plan was made with --slots, so it names no hosts, which --engine ssh needs; \
             plan anew with --hosts FILE, a host a line\n"
        )
    );
    for flags in ["c", "--slots 2 --hosts hosts c", "--slots 0 c"] {
        assert_eq!(plan(&dir, flags).code(), 2, "{flags}");
    }
    let parts = |slots: u32| {
        let planned = plan(&dir, &format!("--slots {slots} c"));
        let plan: serde_json::Value = serde_json::from_slice(&dir.read("r/plan.json")).unwrap();
        (plan["parts"].as_u64().unwrap(), planned.stderr())
    };
    for (slots, ranges) in [(1, 2), (3, 8), (32, 64), (90, 256), (256, 256)] {
        assert_eq!(parts(slots), (ranges, String::new()));
    }
    let what = "dedup-shard: 300 slots are planned, but there are 256 ranges at most: 44 slots have no range to work on; all of them read documents\n";
    assert_eq!(parts(300), (256, what.to_owned()));
}
