//! What hosts keep between runs: an index that follows its files moves little more than what changed.

use crate::{
    hosts::Hosts,
    shard::{corpus, ensure_as_built, plan},
    work::Work,
};

/// Documents with enough in them that what is small does not count; some share passages.
fn large_corpus() -> Work {
    let work = Work::new();
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

/// A file that has just changed would be read once more the next time: this is not what is measured here.
fn settle(work: &Work) {
    work.shell("until [ -z \"$(find c -newerct '3 seconds ago')\" ]; do sleep 0.1; done")
        .ok();
}

/// The bytes that moved in a run, as it says itself.
fn moved(work: &Work) -> u64 {
    let told: serde_json::Value =
        serde_json::from_slice(&work.shell("dedup-shard status r --json").ok()).unwrap();
    told["moved"].as_u64().unwrap()
}

/// A commit over hosts and its table, and the same on one machine: the same bytes. Gives the bytes that moved.
#[track_caller]
fn follow(work: &Work, hosts: &Hosts, list: &str) -> u64 {
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

/// One document is added, one is removed.
fn change(work: &Work, n: usize) {
    work.shell(&format!("head -c 1500 c/00{n} > c/new{n}; rm c/02{n}"))
        .ok();
}

#[test]
fn a_second_run_moves_little_of_what_the_first_moved() {
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
fn what_a_host_made_it_need_not_be_sent_and_only_what_changes_its_owner_moves() {
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
    // One leaves and another comes: two ranges of six change their owner, and nothing else of what is old moves.
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

/// What was brought for one task is known again when the run goes on.
#[test]
fn what_was_brought_is_not_brought_again() {
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

/// A file that a flag names is not on the hosts, and may not be here any more either.
#[test]
fn files_that_flags_name_go_with_the_run() {
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
        ensure_as_built(&work, "--select 'anchor:some phrases,mod:2' c");
    }
    let ran = plan(&work, &hosts.list(""), "--select anchor:nowhere c");
    assert!(
        ran.code() == 2 && ran.stderr().contains("nowhere: "),
        "{}",
        ran.stderr()
    );
}
