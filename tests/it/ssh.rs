//! dedup-shard run --engine ssh: the index has the same bytes on any number of hosts, whatever
//! fails.

use crate::{
    shard::{corpus, ensure_equals_build, messages_of_build, plan, small_corpus},
    test_dir::{RunResult, TestDir},
    test_hosts::{Hosts, ensure_not_let_in},
};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::Command,
    thread,
    time::{Duration, Instant},
};

#[track_caller]
fn ensure_succeeded(ran: &RunResult) {
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
}

#[test]
fn any_number_of_hosts_gives_the_same_bytes() {
    let dir = corpus();
    for (count, words, more) in [
        (1, "", "--dictionary c"),
        (2, "slots=2", "c"),
        (3, "", "--parts 7 --dictionary --relative c"),
        (5, "", "--tokenizer char:5 c"),
    ] {
        let hosts = Hosts::behind_rsh(&dir, count);
        plan(&dir, &hosts.list(words), more).ok();
        hosts.run(&dir, "").ok();
        ensure_equals_build(&dir, more);
        assert_eq!(hosts.orphans(), Vec::<String>::new());
    }
}

#[test]
fn hosts_are_reached_over_ssh() {
    let dir = corpus();
    for (count, words) in [(1, "slots=2"), (2, ""), (3, ""), (5, "")] {
        let hosts = Hosts::with_sshd(&dir, count);
        plan(&dir, &hosts.list(words), "--dictionary c").ok();
        hosts.run(&dir, "").ok();
        ensure_equals_build(&dir, "--dictionary c");
        assert_eq!(hosts.orphans(), Vec::<String>::new());
        fs::remove_dir_all(dir.path("hosts.d")).unwrap();
    }
}

/// Homes on NFS: each host has files of its own in the directory that all of them see, and links to
/// those of others.
#[test]
fn hosts_that_share_a_home_give_the_same_bytes() {
    let dir = corpus();
    for round in 0..14 {
        let hosts = Hosts::behind_rsh_with_one_home(&dir, 2 + round % 3);
        let more = "--dictionary --table c";
        plan(&dir, &hosts.list(["", "slots=2"][round % 2]), more).ok();
        let ran = hosts.run(&dir, "");
        assert_eq!((ran.code(), ran.stderr()), (0, String::new()));
        ensure_equals_build(&dir, "--dictionary c");
        // Nothing is copied from host to host.
        assert_eq!(
            dir.shell("grep '\"moved\"' r/events.jsonl | grep runs; :")
                .ok_text(),
            ""
        );
        assert_eq!(hosts.orphans(), Vec::<String>::new());
        fs::remove_dir_all(dir.path("hosts.d")).unwrap();
    }
}

/// A home that was copied, with its mark, is not a shared one.
#[test]
fn copies_of_a_home_are_not_taken_for_a_shared_one() {
    let dir = corpus();
    let hosts = Hosts::behind_rsh(&dir, 2);
    for name in &hosts.names {
        let directory = hosts.home(name).join(".cache/dedup-shard");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("directory.id"), "the same mark").unwrap();
    }
    plan(&dir, &hosts.list(""), "c").ok();
    hosts.run(&dir, "").ok();
    ensure_equals_build(&dir, "c");
}

#[test]
fn hosts_of_a_cluster_may_share_a_home() {
    let dir = corpus();
    let is_long = std::env::var_os("DEDUP_CLUSTER").is_some();
    let hosts = Hosts::with_sshd_and_one_home(&dir, 3);
    for _ in 0..if is_long { 14 } else { 2 } {
        fs::remove_dir_all(hosts.home("").join(".cache")).unwrap_or_default();
        plan(&dir, &hosts.list("slots=2"), "--table c").ok();
        hosts.run(&dir, "").ok();
        ensure_equals_build(&dir, "c");
        assert_eq!(hosts.orphans(), Vec::<String>::new());
    }
}

/// The ssh program transfers the same as the crate, and hosts reach each other with it.
#[test]
fn the_ssh_program_gives_the_same_bytes() {
    let dir = corpus();
    let hosts = Hosts::with_sshd(&dir, 2);
    plan(&dir, &hosts.list("slots=2"), "c").ok();
    let (config, program) = (
        hosts.file("ssh_config"),
        assert_cmd::cargo::cargo_bin("dedup-shard"),
    );
    let rsh = format!("ssh -F {}", config.display());
    dir.shell(&format!(
        "dedup-shard run r --engine ssh --rsh '{rsh}' --peer-rsh '{rsh}' --program {}",
        program.display()
    ))
    .ok();
    ensure_equals_build(&dir, "c");
}

#[test]
fn a_host_with_an_unknown_key_is_refused() {
    let dir = corpus();
    let hosts = Hosts::with_sshd(&dir, 2);
    plan(&dir, &hosts.list(""), "c").ok();
    let known = fs::read_to_string(hosts.file("known_hosts")).unwrap();
    let print = |name: &str| {
        let output = Command::new("ssh-keygen")
            .arg("-lf")
            .arg(hosts.file(name))
            .output()
            .unwrap();
        String::from_utf8(output.stdout)
            .unwrap()
            .split_whitespace()
            .nth(1)
            .unwrap()
            .to_owned()
    };
    // known_hosts is empty.
    fs::write(hosts.file("known_hosts"), "").unwrap();
    let ran = hosts.run(&dir, "");
    assert_eq!(ran.code(), 75, "{}", ran.stderr());
    assert!(
        ran.stderr().contains("the host is not known: its ")
            && ran.stderr().contains("no host is left"),
        "{}",
        ran.stderr()
    );
    // The first host has another key, the second is known and runs all tasks.
    let lines: Vec<&str> = known.lines().collect();
    let key = |line: &str| line.split_once(' ').unwrap().1.to_owned();
    let name = lines[0].split(' ').next().unwrap();
    fs::write(
        hosts.file("known_hosts"),
        format!("{name} {}\n{}\n", key(lines[1]), lines[1]),
    )
    .unwrap();
    let ran = hosts.run(&dir, "");
    ensure_succeeded(&ran);
    let what = format!(
        "the key of the host is not the known one: its ED25519 key is {}",
        print("sshd1/ed25519.pub")
    );
    assert!(ran.stderr().contains(&what), "{}", ran.stderr());
    assert!(
        hosts.run_directory(&hosts.names[0]).is_none()
            && hosts.run_directory(&hosts.names[1]).is_some()
    );
    ensure_equals_build(&dir, "c");
    // Names may be hashed, a key may be revoked, and a client without a key is refused.
    plan(&dir, &hosts.list(""), "--parts 2 c").ok();
    fs::write(
        hosts.file("known_hosts"),
        format!("{known}@revoked * {}\n", key(lines[0])),
    )
    .unwrap();
    let hashed = Command::new("ssh-keygen")
        .args(["-q", "-H", "-f"])
        .arg(hosts.file("known_hosts"))
        .output()
        .unwrap();
    assert!(hashed.status.success());
    let ran = hosts.run(&dir, "");
    ensure_succeeded(&ran);
    assert!(
        ran.stderr().contains("the key of the host is revoked"),
        "{}",
        ran.stderr()
    );
    plan(&dir, &hosts.list(""), "--parts 4 c").ok();
    dir.shell("rm hosts.d/id hosts.d/id.pub; ssh-keygen -q -t ed25519 -N '' -f hosts.d/id; echo none > hosts.d/id.pub").ok();
    let ran = hosts.run(&dir, "");
    ensure_not_let_in(&ran);
}

#[test]
fn hostile_names_are_not_interpreted_on_hosts() {
    let dir = TestDir::new();
    let hosts = Hosts::behind_rsh(&dir, 2);
    for (n, name) in [
        "a b",
        "it's",
        "$(touch pwned)",
        "`touch pwned`",
        "-rf",
        "new\nline",
        "#x",
        "$HOME",
        ";touch pwned",
        "é",
        "*",
    ]
    .iter()
    .enumerate()
    {
        dir.write(
            &format!("c/{name}"),
            format!(
                "some words of document number {n} that nobody else has, and some that all have"
            ),
        );
    }
    dir.shell("mkdir 'x $(touch pwned)'; echo 'words of one that lies elsewhere, as others do' > 'x $(touch pwned)/../outside'").ok();
    let absolute = dir.path("c").display().to_string();
    let more = format!("--id-field '$(touch pwned)' {absolute} 'x $(touch pwned)/../outside'");
    plan(&dir, &hosts.list("dir=~/it's$(touch${IFS}pwned)"), &more).ok();
    hosts.run(&dir, "").ok();
    ensure_equals_build(&dir, &more);
    let found = dir
        .shell("find . -name 'pwned*'; find hosts.d -type d -name \"it's*\" | wc -l")
        .ok_text();
    assert_eq!(found, "2\n");
    let modes = dir
        .shell("find hosts.d/node1/it* -type f -perm /077 -o -type d -perm /077")
        .ok_text();
    assert_eq!(modes, "");
}

#[test]
fn unusable_documents_are_reported_as_on_one_machine() {
    let dir = corpus();
    dir.write("c/noise", b"caf\xff\x90\x81\xfe and \xa0\x8d\x9d words");
    dir.write(
        "c/zz.jsonl",
        "{\"id\":\"line 3\",\"text\":\"another text\"}\nnot json\n{\"id\":\"zz\",\"text\":\"w1 w2\"}\n{\"id\":\"zz\",\"text\":\"again\"}\n",
    );
    let more = "nowhere c c/03.txt";
    let hosts = Hosts::behind_rsh(&dir, 3);
    plan(&dir, &hosts.list(""), more).ok();
    let expected = messages_of_build(&dir, more);
    let ran = hosts.run(&dir, "");
    let mut lines: Vec<String> = ran.stderr().lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!((ran.code(), lines), (2, expected));
    assert_eq!(dir.shell("diff -r i r/index").ok_text(), "");
}

#[test]
fn a_document_that_changed_after_the_plan_is_reported() {
    let dir = corpus();
    let hosts = Hosts::behind_rsh(&dir, 2);
    plan(&dir, &hosts.list(""), "c").ok();
    dir.write("c/03.txt", "changed");
    let ran = hosts.run(&dir, "");
    assert_eq!(ran.code(), 2, "{}", ran.stderr());
    assert!(
        ran.stderr()
            .contains("c/03.txt: changed since the plan was made (it is another); plan anew"),
        "{}",
        ran.stderr()
    );
    assert!(!dir.path("r/index").exists());
}

/// Injects failures of one kind in some phases of a run: index and table are the same. One of three
/// hosts always remains: a host is given up after three failures in a row, and a full disk stays
/// full.
#[track_caller]
fn ensure_run_survives(kind: &str, runs: &[&str]) {
    let dir = small_corpus();
    for phases in runs {
        let mut hosts = Hosts::behind_rsh(&dir, 3);
        plan(&dir, &hosts.list(""), "--table c").ok();
        let faults: Vec<String> = phases
            .split_whitespace()
            .map(|phase| format!("{kind} {phase}"))
            .collect();
        hosts.set_fault(&faults.join("\n"));
        let ran = hosts.run(&dir, "--stall 1500ms --retries 9");
        assert_eq!(ran.code(), 0, "{kind} {phases}: {}", ran.stderr());
        assert_eq!(hosts.faults_left(), "", "{kind} {phases}");
        ensure_equals_build(&dir, "c");
        assert_eq!(
            dir.shell("dedup-extract table -q --threshold 0.1 --top 100 i | diff - r/table.ndjson")
                .ok_text(),
            ""
        );
        assert_eq!(hosts.orphans(), Vec::<String>::new(), "{kind} {phases}");
        fs::remove_dir_all(dir.path("hosts.d")).unwrap();
    }
}

#[test]
fn a_run_survives_killed_workers() {
    ensure_run_survives(
        "kill",
        &[
            "stage map move targets",
            "reduce sets numbers part",
            "gather index",
            "count counts",
        ],
    );
}

#[test]
fn a_run_survives_hosts_with_a_full_disk() {
    // Sending a file needs no room.
    ensure_run_survives(
        "full",
        &[
            "stage reduce",
            "map part",
            "move count",
            "targets numbers",
            "index",
        ],
    );
}

#[test]
fn a_run_survives_frozen_workers() {
    ensure_run_survives(
        "freeze",
        &[
            "stage move sets gather",
            "map reduce part count",
            "targets numbers",
            "index counts",
        ],
    );
}

#[test]
fn truncated_transfers_are_refused() {
    ensure_run_survives(
        "cut",
        &["stage move targets sets", "numbers gather", "index counts"],
    );
}

#[test]
fn altered_transfers_are_refused() {
    ensure_run_survives(
        "flip",
        &["stage move targets sets", "numbers gather", "index counts"],
    );
}

/// A damaged file on a host is made again, whether the host sends it or a task reads it.
#[test]
fn files_damaged_on_a_disk_are_made_again() {
    ensure_run_survives("rot", &["move sets gather counts", "reduce part count"]);
}

#[test]
fn failures_over_ssh_are_detected() {
    let dir = corpus();
    for fault in ["kill map", "freeze reduce", "cut move"] {
        let mut hosts = Hosts::with_sshd(&dir, 2);
        plan(&dir, &hosts.list(""), "c").ok();
        hosts.set_fault(fault);
        let ran = hosts.run(&dir, "--stall 2s");
        ensure_succeeded(&ran);
        assert_eq!(hosts.faults_left(), "", "{fault}");
        ensure_equals_build(&dir, "c");
        assert_eq!(hosts.orphans(), Vec::<String>::new(), "{fault}");
        fs::remove_dir_all(dir.path("hosts.d")).unwrap();
    }
}

#[test]
fn hosts_that_are_down_are_left_out() {
    let dir = corpus();
    let hosts = Hosts::behind_rsh(&dir, 3);
    plan(&dir, &hosts.list(""), "c").ok();
    fs::write(hosts.home("node2").join("down"), "").unwrap();
    let ran = hosts.run(&dir, "");
    ensure_succeeded(&ran);
    let what = "dedup-shard: warning: node2: dedup-shard did not start there (node2 is down); trying again\n";
    assert!(ran.stderr().starts_with(what), "{}", ran.stderr());
    ensure_equals_build(&dir, "c");
    // If all hosts are down, the run can continue later.
    plan(&dir, &hosts.list(""), "--parts 2 c").ok();
    hosts
        .names
        .iter()
        .for_each(|name| fs::write(hosts.home(name).join("down"), "").unwrap());
    let ran = hosts.run(&dir, "-q");
    assert_eq!(ran.code(), 75);
    assert!(
        ran.stderr().starts_with(
            "dedup-shard: run: no host is left; run it again when one is back (node1: "
        ),
        "{}",
        ran.stderr()
    );
    fs::remove_file(hosts.home("node3").join("down")).unwrap();
    ensure_succeeded(&hosts.run(&dir, "-q"));
    ensure_equals_build(&dir, "--parts 2 c");
}

#[test]
fn a_failed_task_stops_the_run() {
    let dir = corpus();
    let mut hosts = Hosts::behind_rsh(&dir, 2);
    plan(&dir, &hosts.list(""), "c").ok();
    hosts.set_fault("fail reduce");
    let ran = hosts.run(&dir, "");
    assert!(
        ran.code() == 2 && !dir.path("r/index").exists(),
        "{}",
        ran.stderr()
    );
    let (before, log) = ran
        .stderr()
        .trim_end()
        .rsplit_once("; see ")
        .map(|(before, log)| (before.to_owned(), log.to_owned()))
        .unwrap();
    assert!(
        before.starts_with("dedup-shard: reduce-00")
            && before.contains(": on node")
            && before.ends_with(": no luck"),
        "{before}"
    );
    assert_eq!(fs::read_to_string(log).unwrap(), "first\nno luck");
    ensure_succeeded(&hosts.run(&dir, ""));
    ensure_equals_build(&dir, "c");
}

#[test]
fn a_run_continues_after_the_coordinator_is_killed() {
    let dir = corpus();
    let hosts = Hosts::behind_rsh(&dir, 2);
    let made = || {
        dir.shell(
            "ls -i hosts.d/node?/.cache/dedup-shard/*/out/*/*/built.json 2> /dev/null | sort; :",
        )
        .ok_text()
    };
    for delay in [0.15, 0.3, 0.5, 0.8, 1.2] {
        plan(&dir, &hosts.list(""), "c").ok();
        dir.shell("rm -rf hosts.d/node?/.cache").ok();
        dir.shell(&format!(
            "timeout -s KILL {delay} dedup-shard run r {}; :",
            hosts.flags()
        ));
        assert_eq!(hosts.orphans(), Vec::<String>::new());
        let before = made();
        ensure_succeeded(&hosts.run(&dir, ""));
        let after = made();
        // Finished tasks are not repeated.
        let is_there = |line: &&str| !after.lines().any(|other| other == *line);
        assert_eq!(
            before.lines().filter(is_there).collect::<Vec<_>>(),
            Vec::<&str>::new()
        );
        ensure_equals_build(&dir, "c");
    }
}

#[test]
fn hosts_that_share_the_directory_transfer_nothing() {
    let dir = corpus();
    let hosts = Hosts::behind_rsh(&dir, 2);
    let shared = dir.path("").canonicalize().unwrap();
    plan(
        &dir,
        &hosts.list(&format!("shared={}", shared.display())),
        "--dictionary c",
    )
    .ok();
    hosts.run(&dir, "").ok();
    ensure_equals_build(&dir, "--dictionary c");
    assert_eq!(
        dir.shell("find hosts.d -name dedup-shard -o -name documents")
            .ok_text(),
        ""
    );
    assert_eq!(
        dir.shell("grep '\"moved\"' r/events.jsonl; :").ok_text(),
        ""
    );
    // One host shares the directory, the other does not.
    let list = format!("node1 shared={}\nnode2\n", shared.display());
    plan(&dir, &list, "c").ok();
    hosts.run(&dir, "").ok();
    ensure_equals_build(&dir, "c");
}

#[test]
fn clean_removes_a_run_from_hosts_and_keeps_other_files() {
    let dir = corpus();
    let hosts = Hosts::behind_rsh(&dir, 2);
    plan(&dir, &hosts.list(""), "c").ok();
    hosts.run(&dir, "").ok();
    assert!(hosts.run_directory("node1").is_some());
    dir.shell(&format!("dedup-shard clean r {}", hosts.flags()))
        .ok();
    assert!(hosts.run_directory("node1").is_none() && hosts.run_directory("node2").is_none());
    assert_eq!(
        dir.shell("ls r/map 2>/dev/null; test -e r/index && echo there")
            .stdout(),
        "there\n"
    );
}

#[test]
fn the_program_on_hosts_is_checked_or_shipped() {
    let dir = corpus();
    let mut hosts = Hosts::behind_rsh(&dir, 1);
    plan(&dir, &hosts.list("slots=2"), "c").ok();
    hosts.set_program("#!/bin/sh\necho 'dedup-shard-worker 3 9.9.9'; cat > /dev/null\n");
    let ran = hosts.run(&dir, "");
    let what = format!(
        "node1: dedup-shard there is version 9.9.9, build unknown, protocol 3, here it is version {}, build ",
        env!("CARGO_PKG_VERSION")
    );
    assert!(
        ran.code() == 75 && ran.stderr().contains(&what),
        "{}",
        ran.stderr()
    );
    // Another build of the same version and protocol.
    let worker =
        dir.shell("dedup-shard worker --run 0123456789abcdef-0123456789abcdef < /dev/null");
    let hello = worker.stdout().lines().next().unwrap().to_owned();
    let (same, build) = hello.rsplit_once(' ').unwrap();
    hosts.set_program(&format!(
        "#!/bin/sh\necho '{same} 00c0ffee00c0ffee'; cat > /dev/null\n"
    ));
    let said = hosts.run(&dir, "").stderr();
    assert!(
        said.contains("build 00c0ffee00c0ffee, protocol")
            && said.contains(&format!("build {build}, protocol"))
            && said.contains("; install the same build there, or use --ship-binaries"),
        "{said}"
    );
    // No program at all.
    let ran = dir.shell(&format!(
        "dedup-shard run r --engine ssh --rsh {} --program nowhere/dedup-shard",
        hosts.file("rsh").display()
    ));
    let what = "not found); install it there, or use --ship-binaries";
    assert!(
        ran.code() == 75 && ran.stderr().contains(what),
        "{}",
        ran.stderr()
    );
    let ran = dir.shell(&format!(
        "dedup-shard run r --engine ssh --rsh {} --ship-binaries",
        hosts.file("rsh").display()
    ));
    ran.ok();
    ensure_equals_build(&dir, "c");
    let shipped = dir
        .shell("find hosts.d/node1/.cache/dedup-shard/bin -type f")
        .ok_text();
    let mode = fs::metadata(dir.path(shipped.trim()))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!((shipped.lines().count(), mode & 0o777), (1, 0o700));
    // A damaged copy of the program is sent again, and an interrupted transfer leaves nothing.
    fs::write(dir.path(shipped.trim()), "#!/bin/sh\n").unwrap();
    plan(&dir, &hosts.list("slots=2"), "--parts 2 c").ok();
    dir.shell(&format!(
        "dedup-shard run r --engine ssh --rsh {} --ship-binaries",
        hosts.file("rsh").display()
    ))
    .ok();
    ensure_equals_build(&dir, "--parts 2 c");
    assert_eq!(
        dir.shell("find hosts.d/node1/.cache/dedup-shard/bin -type f")
            .ok_text(),
        shipped
    );
}

#[test]
fn a_host_with_a_wrong_program_is_given_up() {
    let dir = corpus();
    let mut hosts = Hosts::behind_rsh(&dir, 1);
    plan(&dir, &hosts.list(""), "c").ok();
    hosts.set_program("#!/bin/sh\nyes | head -c 100000; sleep 100\n");
    let ran = hosts.run(&dir, "-q");
    assert!(
        ran.code() == 75 && ran.stderr().contains("something else answers there"),
        "{}",
        ran.stderr()
    );
}

/// For root, by `make test-cluster`: hosts that share nothing, one of which is disconnected during
/// the run.
#[test]
fn a_cluster_completes_the_run_without_a_disconnected_host() {
    let is_root =
        fs::metadata("/proc/self").is_ok_and(|of| std::os::unix::fs::MetadataExt::uid(&of) == 0);
    if std::env::var_os("DEDUP_CLUSTER").is_none() || !is_root {
        eprintln!("skipped: make test-cluster does it, for root, who alone can make networks");
        return;
    }
    let dir = corpus();
    let hosts = Hosts::in_namespaces(&dir, 3);
    plan(&dir, &hosts.list("slots=2"), "--dictionary c").ok();
    thread::scope(|scope| {
        let running = scope.spawn(|| hosts.run(&dir, "--stall 3s --connect-timeout 2s"));
        // As soon as the first task is done.
        let is_begun = || {
            fs::read_to_string(dir.path("r/events.jsonl"))
                .is_ok_and(|events| events.contains("done"))
        };
        let begin = Instant::now();
        while !is_begun() && begin.elapsed() < Duration::from_secs(30) {
            thread::sleep(Duration::from_millis(1));
        }
        hosts.cut_off(2);
        ensure_succeeded(&running.join().unwrap());
    });
    ensure_equals_build(&dir, "--dictionary c");
}
