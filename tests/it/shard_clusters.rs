//! dedup-shard plan --clusters: the clusters that dedup-extract finds on one machine.

use crate::{
    test_dir::{RunResult, TestDir},
    test_hosts::Hosts,
};

/// Releases of some manuals. Pages change a little in each release, all have the same navigation,
/// which is boilerplate, some are the same in several releases, and ids are not in the order of the
/// documents.
fn manuals() -> TestDir {
    let dir = TestDir::new();
    let words = |from: usize, count: usize| {
        let words = (from..from + count).map(|word| format!("w{word}"));
        words.collect::<Vec<_>>().join(" ")
    };
    let navigation = words(900_000, 20);
    for release in 0..4 {
        let mut lines = String::new();
        for page in 0..40 {
            // Unless it is the same in two releases.
            let changed = if page % 5 == 0 { release / 2 } else { release };
            let text = format!(
                "{navigation} {} {} {}",
                words(1_000 * page, 40),
                words(500_000 + 1_000 * page + 100 * changed, 3 + 5 * (page % 4)),
                words(1_000 * (page / 2) + 600, 25),
            );
            let id = format!("{page:02}-of-{}", 9 - release);
            lines += &format!("{{\"id\":\"{id}\",\"text\":\"{text}\"}}\n");
        }
        dir.write(&format!("c/{release}.jsonl"), lines);
    }
    dir
}

fn plan(dir: &TestDir, hosts: &str, flags: &str) -> RunResult {
    dir.write("hosts", hosts);
    dir.shell(&format!(
        "rm -rf r && dedup-shard plan -q -o r --hosts hosts --clusters {flags} c"
    ))
}

/// The clusters of the run are those of one machine.
#[track_caller]
fn ensure_same(dir: &TestDir, flags: &str) {
    let flags = flags.replace("--cluster-", "--");
    let one = dir
        .shell(&format!("dedup-extract clusters -q {flags} r/index"))
        .ok_text();
    assert_eq!(dir.shell("cat r/clusters.*").ok_text(), one, "{flags}");
    assert_eq!(dir.shell("dedup-shard status r --missing").ok_text(), "");
}

#[test]
fn any_number_of_slots_gives_the_clusters_of_one_machine() {
    let dir = manuals();
    for flags in [
        "",
        "--cluster-keep longest --format tsv",
        "--cluster-threshold 0.9 --cluster-keep last",
        "--cluster-score rarity --cluster-threshold 5",
        "--cluster-score containment --cluster-threshold 80% --cluster-max-df none",
        "--cluster-max-df 3",
        "--cluster-score s1 --cluster-threshold 20 --cluster-max-df none",
        "--cluster-threshold 100%",
    ] {
        for slots in [1, 3, 8] {
            plan(&dir, &format!("a slots={slots}\n"), flags).ok();
            dir.shell(&format!("dedup-shard run -q r -j {slots}")).ok();
            ensure_same(&dir, flags);
        }
    }
    // By default boilerplate connects nothing.
    let counts = |flags: &str| {
        let count = format!(
            "dedup-extract clusters -q {flags} --format tsv r/index | cut -f1 | sort -u | wc -l"
        );
        dir.shell(&count).ok_text()
    };
    assert_eq!(counts("--threshold 0.2"), "41\n");
    assert_eq!(counts("--threshold 0.2 --max-df none"), "31\n");
}

#[test]
fn clusters_and_a_table_are_made_together() {
    let dir = manuals();
    plan(
        &dir,
        "a\nb slots=2\n",
        "--table --top 3 --format tsv --preset web --parts 5",
    )
    .ok();
    dir.shell("make -s -C r -j2").ok();
    ensure_same(&dir, "--format tsv");
    dir.shell("dedup-extract table --top 3 --format tsv r/index | cmp - r/table.tsv")
        .ok();
    let status = dir.shell("dedup-shard status r").ok_text();
    for kind in [
        "uses        1 of 1",
        "links       3 of 3",
        "groups      1 of 1",
        "members     3 of 3",
        "clusters    1 of 1",
    ] {
        assert!(status.contains(kind), "{status}");
    }
    // What the tasks made on the way may go; clusters that are gone are found again.
    dir.shell("mv r/clusters.tsv before; dedup-shard clean r && test ! -e r/links && dedup-shard run -q r && cmp before r/clusters.tsv")
        .ok();
}

#[test]
fn a_killed_run_goes_on() {
    let dir = manuals();
    plan(&dir, "a slots=8\n", "").ok();
    dir.shell("dedup-shard run -q r -j 2").ok();
    for n in 0..10 {
        let ran = dir.shell(&format!(
            "rm -rf r/uses r/links r/groups r/members r/clusters.ndjson
             timeout -s KILL 0.{:02} dedup-shard run -q r -j 2; flock r/plan.json ls -i r/links/???/built.json r/members/???/built.json 2> /dev/null | sort > before
             dedup-shard run -q r -j 2 && ls -i r/links/???/built.json r/members/???/built.json | sort > after && comm -23 before after",
            2 + 2 * n
        ));
        assert_eq!(ran.code(), 0, "{}", ran.stderr());
        assert_eq!(ran.stdout(), "", "a task that was done was run again");
        ensure_same(&dir, "");
    }
}

#[test]
fn damaged_links_and_links_of_another_index_are_found_again() {
    let dir = manuals();
    plan(&dir, "a slots=3\n", "").ok();
    dir.shell("dedup-shard run -q r -j 2").ok();
    let before = dir.read("r/clusters.ndjson");
    for damage in [
        "printf x | dd of=r/links/001/links bs=1 seek=30 conv=notrunc status=none; rm -r r/groups r/members",
        "truncate -s 40 r/groups/links; rm -r r/members",
        "cp -r r/links/000/. r/links/002; rm -r r/groups r/members",
        "printf x >> r/members/001/members",
    ] {
        dir.shell(&format!(
            "rm r/clusters.ndjson; {damage}; dedup-shard run -q r"
        ))
        .ok();
        assert_eq!(dir.read("r/clusters.ndjson"), before, "{damage}");
    }
}

#[test]
fn hosts_find_clusters() {
    let dir = manuals();
    for (hosts, words) in [
        (Hosts::behind_rsh(&dir, 3), ""),
        (Hosts::with_sshd(&dir, 2), "slots=2"),
    ] {
        plan(&dir, &hosts.list(words), "--cluster-keep longest").ok();
        hosts.run(&dir, "-q").ok();
        ensure_same(&dir, "--cluster-keep longest");
        let worked = "jq -r 'select(.task // \"\" | test(\"^(links|members)-\")) | .host | select(. and . != \"here\")' r/events.jsonl | sort -u";
        assert_ne!(dir.shell(worked).ok_text(), "");
        assert_eq!(hosts.orphans(), Vec::<String>::new());
    }
}

/// An index of several segments has no sets that shares could read: one task finds its clusters.
#[test]
fn an_index_that_is_brought_up_to_date_has_clusters() {
    let dir = manuals();
    dir.shell("dedup-index build -q -o i c; sed -i '3d;s/w2010/changed/' c/1.jsonl")
        .ok();
    plan(&dir, "a slots=2\n", "--base i --table").ok();
    dir.shell("dedup-shard run -q r").ok();
    let one = dir.shell("dedup-extract clusters -q i").ok_text();
    assert_eq!(dir.shell("cat r/clusters.ndjson").ok_text(), one);
    // Also when the commit is done.
    dir.shell("rm r/clusters.ndjson; dedup-shard run -q r").ok();
    assert_eq!(dir.shell("cat r/clusters.ndjson").ok_text(), one);
}

#[test]
fn flags_without_a_meaning_are_refused() {
    let dir = manuals();
    for (flags, what) in [
        ("--cluster-score s1", "--clusters"),
        ("--format tsv", "--table|--clusters"),
        ("--clusters --clean out", "cannot be used with"),
        (
            "--clusters --cluster-score jaccard --cluster-threshold 3",
            "3",
        ),
    ] {
        let ran = dir.shell(&format!("dedup-shard plan -o x --slots 2 {flags} c"));
        assert_eq!(ran.code(), 2, "{flags}");
        assert!(ran.stderr().contains(what), "{}", ran.stderr());
    }
}
