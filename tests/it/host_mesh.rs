//! dedup-shard run --engine ssh: how many connections hosts need.

use crate::{
    shard::{corpus, ensure_equals_build, plan, small_corpus},
    test_dir::TestDir,
    test_hosts::Hosts,
};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

/// The pairs of hosts that sent files to each other.
fn pairs_used(dir: &TestDir) -> usize {
    let events = String::from_utf8(dir.read("r/events.jsonl")).unwrap();
    let pair = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap();
        let name = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let moved = &event["what"]["moved"];
        let (to, from) = (name(&event["host"]), name(&moved["from"]));
        (moved["direct"] == true).then(|| (to.clone().min(from.clone()), to.max(from)))
    };
    let pairs: BTreeSet<_> = events.lines().filter_map(pair).collect();
    pairs.len()
}

/// One login for each host, whatever its slots, and one for each pair that has files for each
/// other, in both directions.
#[test]
fn a_pair_of_hosts_has_one_connection() {
    let dir = corpus();
    let hosts = Hosts::with_sshd(&dir, 3);
    plan(&dir, &hosts.list("slots=3"), "--table c").ok();
    hosts.run(&dir, "").ok();
    ensure_equals_build(&dir, "c");
    let pairs = pairs_used(&dir);
    assert!((1..=3).contains(&pairs), "{pairs}");
    assert_eq!(hosts.logins(), 3 + pairs);
}

/// Many hosts with little for each other get it from this machine.
#[test]
fn many_hosts_with_few_documents_are_served_from_here() {
    let dir = corpus();
    let mut hosts = Hosts::behind_rsh(&dir, 12);
    plan(&dir, &hosts.list(""), "--dictionary --table c").ok();
    hosts.set_fault("kill map\nflip move\ncut targets\nkill reduce\nrot move\ncut gather");
    let ran = hosts.run(&dir, "--stall 5s --retries 9");
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    assert_eq!(hosts.faults_left(), "");
    ensure_equals_build(&dir, "--dictionary c");
    assert_eq!(hosts.orphans(), Vec::<String>::new());
}

/// By `make test-cluster`: as many hosts as theses.cz has.
#[test]
fn a_cluster_of_45_hosts_needs_few_logins() {
    if std::env::var_os("DEDUP_CLUSTER").is_none() {
        eprintln!("skipped: make test-cluster does it");
        return;
    }
    let dir = small_corpus();
    let hosts = Hosts::with_sshd(&dir, 45);
    let run = |flags: String| {
        plan(&dir, &hosts.list(""), "c").ok();
        dir.shell("rm -rf hosts.d/*/.cache").ok();
        let begin = Instant::now();
        dir.shell(&format!("dedup-shard run r {flags}")).ok();
        let taken = begin.elapsed();
        ensure_equals_build(&dir, "c");
        taken
    };
    let with_peers = run(hosts.flags());
    let logins = hosts.logins();
    assert!(logins <= 45 + pairs_used(&dir), "{logins}");
    let without_peers = run(format!(
        "{} none",
        hosts.flags().split("'ssh").next().unwrap()
    ));
    eprintln!(
        "{logins} logins; {with_peers:?}, without connections between hosts {without_peers:?}"
    );
    assert!(with_peers < without_peers * 3 / 2 + Duration::from_secs(5));
}
