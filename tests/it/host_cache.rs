//! Files that hosts keep between runs: a run on an updated corpus transfers little more than the
//! changes.

use crate::{
    shard::{corpus, ensure_equals_build, plan},
    test_dir::TestDir,
    test_hosts::Hosts,
};

/// Documents large enough that fixed costs do not matter; some share passages.
fn large_corpus() -> TestDir {
    let dir = TestDir::new();
    let word = |seed: u64, n: u64| {
        format!(
            "w{}",
            (seed * 1_000_003 + n).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48
        )
    };
    let words = |seed: u64, count: u64| {
        (0..count)
            .map(|n| word(seed, n))
            .collect::<Vec<_>>()
            .join(" ")
    };
    for n in 0..600 {
        dir.write(
            &format!("c/{n:03}"),
            format!("{} {}", words(n, 5000), words(1000 + n / 4, 300)),
        );
    }
    dir
}

/// Makes the files old. dedup-index reads a file that changed within the last two seconds once
/// more, which these tests do not measure.
fn settle(dir: &TestDir) {
    dir.shell("until [ -z \"$(find c -newerct '3 seconds ago')\" ]; do sleep 0.1; done")
        .ok();
}

/// The bytes transferred by the last run, as `status` reports them.
fn moved(dir: &TestDir) -> u64 {
    let summary: serde_json::Value =
        serde_json::from_slice(&dir.shell("dedup-shard status r --json").ok()).unwrap();
    summary["moved"].as_u64().unwrap()
}

/// Updates one index on hosts and another on this machine, checks that both and their tables have
/// the same bytes, and returns the bytes transferred.
#[track_caller]
fn follow(dir: &TestDir, hosts: &Hosts, list: &str) -> u64 {
    dir.write("hosts", list);
    settle(dir);
    let generation = dir.shell("jq .generation two/manifest.json").ok_text();
    dir.shell("rm -rf r && dedup-shard plan -o r --hosts hosts --base two --table c")
        .ok();
    hosts.run(dir, "").ok();
    dir.shell("dedup-index sync -q one c").ok();
    assert_eq!(dir.shell("diff -r one two").ok_text(), "");
    let one = dir
        .shell(&format!(
            "dedup-extract table --since {} one",
            generation.trim()
        ))
        .ok_text();
    assert!(one.lines().count() > 1);
    assert_eq!(dir.shell("cat r/table.ndjson").ok_text(), one);
    moved(dir)
}

/// Adds one document and removes another.
fn change(dir: &TestDir, n: usize) {
    dir.shell(&format!("head -c 1500 c/00{n} > c/new{n}; rm c/02{n}"))
        .ok();
}

#[test]
fn a_second_run_transfers_less_than_a_twentieth_of_the_first() {
    let dir = large_corpus();
    settle(&dir);
    dir.shell("dedup-index build -q --parts 6 -o one c && cp -r one two && dedup-index sync -q one c && dedup-index sync -q two c").ok();
    let hosts = Hosts::behind_rsh(&dir, 3);
    change(&dir, 1);
    let first = follow(&dir, &hosts, &hosts.list(""));
    change(&dir, 2);
    let second = follow(&dir, &hosts, &hosts.list(""));
    let index: u64 = dir
        .shell("du -sb one | cut -f1")
        .ok_text()
        .trim()
        .parse()
        .unwrap();
    assert!(
        first > index / 2 && second < first / 20,
        "{first} and {second}; the index has {index}"
    );
}

#[test]
fn old_parts_move_only_when_their_range_changes_its_owner() {
    let dir = large_corpus();
    let hosts = Hosts::behind_rsh(&dir, 4);
    let list = |of: &[usize]| of.iter().map(|n| format!("node{n}\n")).collect::<String>();
    dir.write("hosts", list(&[1, 2, 3]));
    dir.shell("dedup-shard plan -o r --hosts hosts --parts 6 --table c")
        .ok();
    hosts.run(&dir, "").ok();
    let full = moved(&dir);
    settle(&dir);
    dir.shell("mv r/index two; mv r/index.owners two.owners; cp -r two one; dedup-index sync -q one c; dedup-index sync -q two c").ok();
    let part: u64 = dir
        .shell("cat two/*.part | wc -c")
        .ok_text()
        .trim()
        .parse::<u64>()
        .unwrap()
        / 6;
    change(&dir, 1);
    let first = follow(&dir, &hosts, &list(&[1, 2, 3]));
    change(&dir, 2);
    let second = follow(&dir, &hosts, &list(&[1, 2, 3]));
    assert!(
        first < full / 20 && second < full / 20,
        "{full}, {first}, {second}; a part has {part}"
    );
    // One host leaves and another joins: two of six ranges change their owner, and only their old
    // parts move.
    change(&dir, 3);
    let owners = dir.read("two.owners");
    let moved = follow(&dir, &hosts, &list(&[1, 2, 4]));
    let after: Vec<String> = serde_json::from_slice(&dir.read("two.owners")).unwrap();
    let before: Vec<String> = serde_json::from_slice(&owners).unwrap();
    assert_eq!(
        before
            .iter()
            .zip(&after)
            .filter(|(before, after)| before != after)
            .count(),
        2
    );
    let shared: u64 = dir
        .shell("cat two/000001.docs two/000001.sets | wc -c")
        .ok_text()
        .trim()
        .parse()
        .unwrap();
    assert!(
        moved > 2 * part && moved < second + 3 * part + 2 * shared,
        "{moved}; {second}, parts of {part}, documents and sets of {shared}"
    );
}

/// A file fetched for one task is reused when the run continues.
#[test]
fn a_continued_run_does_not_fetch_files_again() {
    let dir = corpus();
    let hosts = Hosts::behind_rsh(&dir, 2);
    plan(&dir, &hosts.list(""), "--table c").ok();
    hosts.run(&dir, "").ok();
    let brought = || {
        dir.shell("ls -i hosts.d/node?/.cache/dedup-shard/*/in/index/000001.{docs,sets} | sort")
            .ok_text()
    };
    let before = brought();
    assert_eq!(before.lines().count(), 4, "{before}");
    dir.shell("rm -rf r/table.ndjson r/count hosts.d/node?/.cache/dedup-shard/*/out/count")
        .ok();
    hosts.run(&dir, "").ok();
    assert_eq!(brought(), before);
}

/// A file named by a flag is not on the hosts, and may be gone here when the run starts.
#[test]
fn files_named_by_flags_are_sent_to_the_hosts() {
    let dir = corpus();
    let hosts = Hosts::behind_rsh(&dir, 2);
    for is_make in [false, true] {
        dir.write("some phrases", "w1*\nw2*\nw3*\n");
        plan(
            &dir,
            &hosts.list(""),
            "--select 'anchor:some phrases,mod:2' c",
        )
        .ok();
        dir.shell("mv 'some phrases' elsewhere").ok();
        if is_make {
            dir.shell("make -s -C r -j2").ok();
        } else {
            hosts.run(&dir, "").ok();
        }
        dir.shell("mv elsewhere 'some phrases'").ok();
        ensure_equals_build(&dir, "--select 'anchor:some phrases,mod:2' c");
    }
    let ran = plan(&dir, &hosts.list(""), "--select anchor:nowhere c");
    assert!(
        ran.code() == 2 && ran.stderr().contains("nowhere: "),
        "{}",
        ran.stderr()
    );
}
