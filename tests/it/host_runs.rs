//! dedup-shard run on hosts: its status and logs, its transfers, its failures, and the files it
//! leaves on hosts.

use crate::{
    shard::{corpus, ensure_equals_build, plan, small_corpus, two_indexed_copies},
    test_dir::TestDir,
    test_hosts::{Hosts, ensure_not_let_in},
};
use serde_json::Value;
use std::{
    fs,
    time::{Duration, Instant, SystemTime},
};

fn status(dir: &TestDir) -> Value {
    serde_json::from_slice(&dir.shell("dedup-shard status r --json").ok()).unwrap()
}

/// The tasks of each kind: name, done, all.
fn done(status: &Value) -> Vec<(String, u64, u64)> {
    let kinds = status["kinds"].as_array().unwrap().iter();
    kinds
        .map(|kind| {
            (
                kind["kind"].as_str().unwrap().to_owned(),
                kind["done"].as_u64().unwrap(),
                kind["tasks"].as_u64().unwrap(),
            )
        })
        .collect()
}

#[test]
fn status_counts_tasks_done_by_hosts_and_gather_can_be_repeated() {
    let dir = corpus();
    let mut hosts = Hosts::behind_rsh(&dir, 2);
    plan(&dir, &hosts.list(""), "--table c").ok();
    // Halfway, tasks done by hosts count as done, but `missing` lists them for a run without these
    // hosts.
    hosts.set_fault("fail part");
    assert_eq!(hosts.run(&dir, "-q").code(), 2);
    let half = status(&dir);
    let of = |name: &str| {
        done(&half)
            .into_iter()
            .find(|(kind, ..)| kind == name)
            .unwrap()
    };
    assert_eq!(
        (of("map").1, of("map").2, of("reduce").1, of("reduce").2),
        (2, 2, 4, 4),
        "{half}"
    );
    assert_eq!(
        (half["kinds"][0]["on_hosts"].as_u64(), &half["damaged"]),
        (Some(2), &serde_json::json!([])),
        "{half}"
    );
    assert!(
        half["missing"]
            .as_array()
            .unwrap()
            .contains(&"map-0000".into()),
        "{half}"
    );
    // Partial outputs are not visible to make.
    assert_eq!(
        dir.shell("ls r/map/*/built.json r/reduce/*/built.json 2> /dev/null")
            .stdout(),
        ""
    );
    hosts.run(&dir, "").ok();
    ensure_equals_build(&dir, "c");
    let whole = status(&dir);
    assert!(
        done(&whole).iter().all(|(_, done, all)| done == all),
        "{whole}"
    );
    assert_eq!(
        (&whole["missing"], &whole["damaged"]),
        (&serde_json::json!([]), &serde_json::json!([]))
    );
    assert_eq!(dir.shell("dedup-shard status r --missing").ok_text(), "");
    assert!(
        !dir.shell("dedup-shard status r")
            .ok_text()
            .contains("made again")
    );
    dir.shell("dedup-shard gather r -o again").ok();
    assert_eq!(dir.shell("diff -r again r/index").ok_text(), "");
    // Without the hosts, this machine runs all tasks again once an output that only the hosts had
    // is missing.
    dir.shell("rm -r r/index r/table.ndjson r/part r/rows && dedup-shard run r")
        .ok();
    ensure_equals_build(&dir, "c");
}

#[test]
fn status_reports_transferred_bytes_by_kind() {
    let dir = corpus();
    let hosts = Hosts::behind_rsh(&dir, 2);
    plan(&dir, &hosts.list(""), "--table c").ok();
    hosts.run(&dir, "").ok();
    let summary = status(&dir);
    let goods = summary["moved_by_goods"].as_array().unwrap();
    let bytes = |name: &str| {
        goods
            .iter()
            .find(|of| of["goods"] == name)
            .map_or(0, |of| of["bytes"].as_u64().unwrap())
    };
    let of_files = |glob: &str| -> u64 {
        let sizes = dir
            .shell(&format!("find hosts.d -path '{glob}' -printf '%s\\n'"))
            .ok_text();
        sizes.lines().map(|size| size.parse::<u64>().unwrap()).sum()
    };
    // Each file moves once: all documents, the inputs of tasks, and the outputs that the
    // coordinator collects.
    let corpus = dir
        .shell("find c -type f ! -name .hidden -printf '%s\\n'")
        .ok_text();
    assert_eq!(
        bytes("documents"),
        corpus
            .lines()
            .map(|size| size.parse::<u64>().unwrap())
            .sum::<u64>(),
        "{summary}"
    );
    assert_eq!(bytes("runs"), of_files("*/in/map/*.runs"), "{summary}");
    assert_eq!(
        bytes("numbers"),
        of_files("*/in/join/*.numbers") + of_files("*/in/sets/order"),
        "{summary}"
    );
    let parts = of_files("*/out/part/*/part") + of_files("*/out/part/*/built.json");
    assert_eq!(bytes("parts"), parts, "{summary}");
    assert_eq!(
        bytes("index"),
        of_files("*/in/index/*") - of_files("*/in/index/*.items"),
        "{summary}"
    );
    assert!(
        bytes("sets") > 0
            && bytes("docs") > 0
            && bytes("counts") > 0
            && bytes("slices") > 0
            && bytes("plan") > 0,
        "{summary}"
    );
    let sum: u64 = goods.iter().map(|of| of["bytes"].as_u64().unwrap()).sum();
    assert_eq!(summary["moved"].as_u64(), Some(sum));
    assert!(goods.iter().all(|of| of["direct"] == 0), "{summary}");
    let text = dir.shell("dedup-shard status r").ok_text();
    assert!(text.lines().any(|line| line.starts_with("runs ")), "{text}");
    let report = String::from_utf8(dir.read("r/report.html")).unwrap();
    assert!(
        report.contains("<h2>What was moved</h2>") && report.contains("<rect class=\"move\" x=")
    );
}

#[test]
fn every_key_of_an_ssh_agent_is_tried() {
    let dir = small_corpus();
    let hosts = Hosts::with_sshd(&dir, 1);
    ["a", "b"].iter().for_each(|name| hosts.make_key(name));
    let flags = hosts
        .flags()
        .replace(&format!("--identity {}", hosts.file("id").display()), "");
    let run = |keys: &[&str]| {
        plan(&dir, &hosts.list(""), "c").ok();
        dir.shell(&hosts.with_agent(keys, &format!("dedup-shard run r {flags}")))
    };
    run(&["a", "b", "id"]).ok();
    ensure_equals_build(&dir, "c");
    let ran = run(&["a", "b"]);
    ensure_not_let_in(&ran);
}

#[test]
fn files_move_between_hosts_without_the_coordinator() {
    let dir = small_corpus();
    let hosts = Hosts::with_sshd(&dir, 2);
    plan(&dir, &hosts.list(""), "c").ok();
    hosts.run(&dir, "").ok();
    ensure_equals_build(&dir, "c");
    let summary = status(&dir);
    let runs = summary["moved_by_goods"]
        .as_array()
        .unwrap()
        .iter()
        .find(|of| of["goods"] == "runs")
        .unwrap();
    assert!(
        runs["bytes"].as_u64() > Some(0) && runs["direct"] == runs["bytes"],
        "{summary}"
    );
    // Hosts that cannot reach each other are reported once, and the coordinator relays the files.
    plan(&dir, &hosts.list(""), "--parts 2 c").ok();
    let flags = hosts
        .flags()
        .replace("--peer-rsh 'ssh", "--peer-rsh 'false");
    let ran = dir.shell(&format!("dedup-shard run r {flags}"));
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    ensure_equals_build(&dir, "--parts 2 c");
    let detours: Vec<String> = ran
        .stderr()
        .lines()
        .map(|line| line.replace(char::is_numeric, ""))
        .collect();
    assert!(
        ran.stderr()
            .contains("; what goes between them goes through this machine"),
        "{}",
        ran.stderr()
    );
    assert!((1..=2).contains(&detours.len()), "{}", ran.stderr());
    assert!(
        status(&dir)["moved_by_goods"]
            .as_array()
            .unwrap()
            .iter()
            .all(|of| of["direct"] == 0)
    );
}

/// Like OpenSSH with MaxStartups, which drops some of many simultaneous connections.
#[test]
fn a_host_that_drops_connections_is_retried_by_few_at_once() {
    let dir = small_corpus();
    let hosts = Hosts::behind_rsh(&dir, 1);
    let rsh = fs::read_to_string(hosts.file("rsh")).unwrap();
    // The first connection is dropped. A login takes a while, and there are eight slots.
    let busy = r#"if mkdir "$HOME/busy" 2> /dev/null; then echo 'kex_exchange_identification: Connection closed by remote host' >&2; exit 255; fi
for n in 1 2 3 4 5 6 7 8 none; do mkdir "$HOME/door$n" 2> /dev/null && break; done
if [ $n = none ]; then touch "$HOME/crowd"; else sleep 0.05; rmdir "$HOME/door$n"; fi
echo "Welcome"#;
    fs::write(hosts.file("rsh"), rsh.replace("echo \"Welcome", busy)).unwrap();
    plan(&dir, &hosts.list("slots=12"), "--parts 32 c").ok();
    hosts.run(&dir, "").ok();
    ensure_equals_build(&dir, "--parts 32 c");
    assert!(
        hosts.home("node1").join("busy").exists() && !hosts.home("node1").join("crowd").exists()
    );
}

#[test]
fn two_runs_of_one_plan_do_not_collide_on_a_host() {
    let dir = small_corpus();
    let hosts = Hosts::behind_rsh(&dir, 2);
    plan(&dir, &hosts.list(""), "c").ok();
    let flags = hosts.flags();
    dir.shell(&format!(
        "cp -r r r2; dedup-shard run r {flags} & dedup-shard run r2 {flags} && wait $!"
    ))
    .ok();
    ensure_equals_build(&dir, "c");
    assert_eq!(
        dir.shell("diff -r r/index r2/index; ls hosts.d/node1/.cache/dedup-shard | grep -c -")
            .ok_text(),
        "2\n"
    );
}

#[test]
fn abandoned_runs_are_removed_from_hosts() {
    let dir = small_corpus();
    let hosts = Hosts::behind_rsh(&dir, 1);
    let directory = hosts.home("node1").join(".cache/dedup-shard");
    let old = SystemTime::now() - Duration::from_secs(40 * 24 * 3600);
    for (file, time) in [
        ("0-1/plan.json", old),
        ("0-2/plan.json", SystemTime::now()),
        ("bin/1/dedup-shard", old),
        ("mine/file", old),
    ] {
        fs::create_dir_all(directory.join(file).parent().unwrap()).unwrap();
        fs::write(directory.join(file), "").unwrap();
        fs::File::options()
            .append(true)
            .open(directory.join(file))
            .unwrap()
            .set_modified(time)
            .unwrap();
    }
    plan(&dir, &hosts.list(""), "c").ok();
    hosts.run(&dir, "").ok();
    let left = |name: &str| directory.join(name).exists();
    assert_eq!(
        (left("0-1"), left("0-2"), left("bin/1"), left("mine/file")),
        (false, true, false, true)
    );
    assert!(hosts.run_directory("node1").is_some());
}

/// A failure of the coordinator is neither the fault of a task nor of a host.
#[test]
fn a_run_continues_after_the_disk_of_the_coordinator_was_full() {
    let dir = corpus();
    let hosts = Hosts::behind_rsh(&dir, 2);
    plan(&dir, &hosts.list(""), "--parts 2 --table c").ok();
    // Less and less fits on the disk: a table, an index, files from hosts.
    for bytes in [6000, 3000, 1500] {
        let ran = dir.shell(&format!(
            "prlimit --fsize={bytes} dedup-shard run r -q {}",
            hosts.flags()
        ));
        assert_eq!(ran.code(), 75, "{bytes}: {}", ran.stderr());
    }
    hosts.run(&dir, "").ok();
    ensure_equals_build(&dir, "--parts 2 c");
    // A directory that is not mounted is not the fault of a task.
    dir.shell("mkdir d && cp c/0* d && cd d && dedup-shard plan -o ../s --hosts ../hosts . && mv ../d ../e").ok();
    let ran = dir.shell("dedup-shard task s map-0000");
    assert_eq!(ran.code(), 75, "{}", ran.stderr());
    assert!(
        ran.stderr().ends_with(
            "/d: No such file or directory (os error 2); a machine that runs tasks must have it\n"
        ),
        "{}",
        ran.stderr()
    );
}

#[test]
fn the_end_of_a_run_does_not_wait_for_frozen_hosts() {
    let dir = small_corpus();
    let mut hosts = Hosts::behind_rsh(&dir, 2);
    plan(&dir, &hosts.list("slots=4"), "c").ok();
    // All hosts: each worker freezes at its first task, and waiting for them one by one would take
    // too long.
    hosts.set_fault(&["freeze map"; 4].join("\n"));
    let begin = Instant::now();
    let ran = hosts.run(&dir, "--stall 3s --retries 9");
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    assert!(
        begin.elapsed() < Duration::from_secs(20),
        "{:?}",
        begin.elapsed()
    );
    ensure_equals_build(&dir, "c");
    assert_eq!(hosts.orphans(), Vec::<String>::new());
}

#[test]
fn flags_of_another_engine_are_refused() {
    let dir = small_corpus();
    plan(&dir, "a\n", "c").ok();
    for (flags, what) in [
        ("--print", "--print is for --engine slurm only"),
        (
            "--engine ssh --requeues 1",
            "--requeues is for --engine slurm only",
        ),
        ("--sbatch-arg=-x", "--sbatch-arg is for --engine slurm only"),
        ("--rsh ssh", "--rsh is for --engine ssh only"),
        (
            "--engine slurm --ship-binaries",
            "--ship-binaries is for --engine ssh only",
        ),
        (
            "--engine slurm --retries 1",
            "--retries is not for --engine slurm, where --requeues says how often a job is run again",
        ),
    ] {
        let ran = dir.shell(&format!("dedup-shard run r {flags}"));
        assert_eq!(
            (ran.code(), ran.stderr()),
            (2, format!("dedup-shard: {what}\n"))
        );
    }
    let ran = dir.shell("dedup-shard clean r --identity x");
    assert_eq!(
        (ran.code(), ran.stderr()),
        (
            2,
            "dedup-shard: --identity is for --engine ssh only\n".to_owned()
        )
    );
    assert!(!dir.path("r/index").exists());
    dir.shell("dedup-shard run r -j 1 --retries 1").ok();
}

#[test]
fn each_attempt_has_a_log_and_hostile_messages_stay_on_one_line() {
    let dir = small_corpus();
    let mut hosts = Hosts::behind_rsh(&dir, 1);
    plan(&dir, &hosts.list(""), "c").ok();
    hosts.set_fault("fail reduce\nfail reduce");
    for _ in 0..2 {
        assert_eq!(hosts.run(&dir, "-j 1").code(), 2);
    }
    assert_eq!(
        dir.shell("ls r/logs | grep reduce | sed s/00.@/@/ | sort -u")
            .ok_text(),
        "reduce-@node1.2.log\nreduce-@node1.log\n"
    );
    hosts.set_program("#!/bin/sh\nprintf 'no\\033[2Jluck\\n' >&2; exit 1\n");
    let ran = hosts.run(&dir, "");
    assert!(
        ran.stderr()
            .contains("did not start there (no\\u001b[2Jluck)")
            && !ran.stderr().contains('\u{1b}'),
        "{}",
        ran.stderr()
    );
}

#[test]
fn syncing_on_hosts_survives_failures() {
    let dir = two_indexed_copies();
    dir.shell(
        "echo some new words that nobody had so far >> c/05.txt; cp c/06.txt c/copy; rm c/07.txt; touch -d 2020-01-02 c/05.txt c/copy",
    )
    .ok();
    let mut hosts = Hosts::behind_rsh(&dir, 3);
    plan(&dir, &hosts.list(""), "--base two --table c").ok();
    hosts.set_fault("kill map\nflip move\ncut targets\nkill reduce\ncut gather");
    let ran = hosts.run(&dir, "--stall 3s --retries 9");
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    assert_eq!(hosts.faults_left(), "");
    dir.shell("dedup-index sync -q one c > said").ok();
    assert_eq!(dir.shell("rm -f two.owners; diff -r one two").ok_text(), "");
    let table =
        "dedup-extract table -q --threshold 0.1 --top 100 --since 1 two | diff - r/table.ndjson";
    assert_eq!(dir.shell(table).ok_text(), "");
    assert!(done(&status(&dir)).iter().all(|(_, done, all)| done == all));
    assert_eq!(hosts.orphans(), Vec::<String>::new());
}
