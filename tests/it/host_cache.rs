//! Files that hosts keep between runs: a run on an updated corpus transfers little more than the
//! changes.

use crate::{
    shard::{corpus, ensure_equals_build, plan},
    test_dir::TestDir,
    test_hosts::Hosts,
};

/// Documents large enough that fixed costs do not matter; some share passages.
fn large_corpus() -> TestDir {
    let work = TestDir::new();
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
        work.write(
            &format!("c/{n:03}"),
            format!("{} {}", words(n, 5000), words(1000 + n / 4, 300)),
        );
    }
    work
}

/// Makes the files old. dedup-index reads a file that changed within the last two seconds once
/// more, which these tests do not measure.
fn settle(work: &TestDir) {
    work.shell("until [ -z \"$(find c -newerct '3 seconds ago')\" ]; do sleep 0.1; done")
        .ok();
}

/// The bytes transferred by the last run, as `status` reports them.
fn moved(work: &TestDir) -> u64 {
    let told: serde_json::Value =
        serde_json::from_slice(&work.shell("dedup-shard status r --json").ok()).unwrap();
    told["moved"].as_u64().unwrap()
}

/// Updates one index on hosts and another on this machine, checks that both and their tables have
/// the same bytes, and returns the bytes transferred.
#[track_caller]
fn follow(work: &TestDir, hosts: &Hosts, list: &str) -> u64 {
    work.write("hosts", list);
    settle(work);
    let generation = work.shell("jq .generation two/manifest.json").ok_text();
    work.shell("rm -rf r && dedup-shard plan -o r --hosts hosts --base two --table c")
        .ok();
    hosts.run(work, "").ok();
    work.shell("dedup-index sync -q one c").ok();
    assert_eq!(work.shell("diff -r one two").ok_text(), "");
    let one = work
        .shell(&format!(
            "dedup-extract table --since {} one",
            generation.trim()
        ))
        .ok_text();
    assert!(one.lines().count() > 1);
    assert_eq!(work.shell("cat r/table.ndjson").ok_text(), one);
    moved(work)
}

/// Adds one document and removes another.
fn change(work: &TestDir, n: usize) {
    work.shell(&format!("head -c 1500 c/00{n} > c/new{n}; rm c/02{n}"))
        .ok();
}

#[test]
fn a_second_run_transfers_less_than_a_twentieth_of_the_first() {
    let work = large_corpus();
    settle(&work);
    work.shell("dedup-index build -q --parts 6 -o one c && cp -r one two && dedup-index sync -q one c && dedup-index sync -q two c").ok();
    let hosts = Hosts::behind_rsh(&work, 3);
    change(&work, 1);
    let first = follow(&work, &hosts, &hosts.list(""));
    change(&work, 2);
    let second = follow(&work, &hosts, &hosts.list(""));
    let index: u64 = work
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
    let work = large_corpus();
    let hosts = Hosts::behind_rsh(&work, 4);
    let list = |of: &[usize]| of.iter().map(|n| format!("node{n}\n")).collect::<String>();
    work.write("hosts", list(&[1, 2, 3]));
    work.shell("dedup-shard plan -o r --hosts hosts --parts 6 --table c")
        .ok();
    hosts.run(&work, "").ok();
    let full = moved(&work);
    settle(&work);
    work.shell("mv r/index two; mv r/index.owners two.owners; cp -r two one; dedup-index sync -q one c; dedup-index sync -q two c").ok();
    let part: u64 = work
        .shell("cat two/*.part | wc -c")
        .ok_text()
        .trim()
        .parse::<u64>()
        .unwrap()
        / 6;
    change(&work, 1);
    let first = follow(&work, &hosts, &list(&[1, 2, 3]));
    change(&work, 2);
    let second = follow(&work, &hosts, &list(&[1, 2, 3]));
    assert!(
        first < full / 20 && second < full / 20,
        "{full}, {first}, {second}; a part has {part}"
    );
    // One host leaves and another joins: two of six ranges change their owner, and only their old
    // parts move.
    change(&work, 3);
    let owners = work.read("two.owners");
    let moved = follow(&work, &hosts, &list(&[1, 2, 4]));
    let after: Vec<String> = serde_json::from_slice(&work.read("two.owners")).unwrap();
    let before: Vec<String> = serde_json::from_slice(&owners).unwrap();
    assert_eq!(
        before
            .iter()
            .zip(&after)
            .filter(|(before, after)| before != after)
            .count(),
        2
    );
    let shared: u64 = work
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
    let work = corpus();
    let hosts = Hosts::behind_rsh(&work, 2);
    plan(&work, &hosts.list(""), "--table c").ok();
    hosts.run(&work, "").ok();
    let brought = || {
        work.shell("ls -i hosts.d/node?/.cache/dedup-shard/*/in/index/000001.{docs,sets} | sort")
            .ok_text()
    };
    let before = brought();
    assert_eq!(before.lines().count(), 4, "{before}");
    work.shell("rm -rf r/table.ndjson r/count hosts.d/node?/.cache/dedup-shard/*/out/count")
        .ok();
    hosts.run(&work, "").ok();
    assert_eq!(brought(), before);
}

/// A file named by a flag is not on the hosts, and may be gone here when the run starts.
#[test]
fn files_named_by_flags_are_sent_to_the_hosts() {
    let work = corpus();
    let hosts = Hosts::behind_rsh(&work, 2);
    for is_make in [false, true] {
        work.write("some phrases", "w1*\nw2*\nw3*\n");
        plan(
            &work,
            &hosts.list(""),
            "--select 'anchor:some phrases,mod:2' c",
        )
        .ok();
        work.shell("mv 'some phrases' elsewhere").ok();
        if is_make {
            work.shell("make -s -C r -j2").ok();
        } else {
            hosts.run(&work, "").ok();
        }
        work.shell("mv elsewhere 'some phrases'").ok();
        ensure_equals_build(&work, "--select 'anchor:some phrases,mod:2' c");
    }
    let ran = plan(&work, &hosts.list(""), "--select anchor:nowhere c");
    assert!(
        ran.code() == 2 && ran.stderr().contains("nowhere: "),
        "{}",
        ran.stderr()
    );
}
