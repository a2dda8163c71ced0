//! dedup-shard run --engine slurm gives the same index as a local run. These tests start real
//! clusters of three nodes, only with DEDUP_CLUSTER=1 (make test-cluster).

use crate::{
    test_cluster::{TestCluster, are_clusters_wanted},
    test_dir::{RunResult, TestDir, root},
};
use std::{
    fs, thread,
    time::{Duration, Instant},
};

/// A Slurm cluster.
struct Cluster(TestCluster);

impl Cluster {
    /// Starts a cluster; none, with a message, if DEDUP_CLUSTER is not set.
    fn start() -> Option<Self> {
        if !are_clusters_wanted() {
            return None;
        }
        let is_root = fs::metadata("/proc/self")
            .is_ok_and(|of| std::os::unix::fs::MetadataExt::uid(&of) == 0);
        let mode = if is_root { "netns" } else { "loopback" };
        let cluster = TestCluster::start("slurm", &["-m", mode], TestDir::new(), |up| up);
        Some(Self(cluster))
    }

    /// Runs a line of shell that sees this cluster.
    fn shell(&self, line: &str) -> RunResult {
        self.0
            .dir
            .shell(&format!(". {}/env.sh\n{line}", self.0.directory.display()))
    }

    /// Writes some documents, plans a run for six slots, and builds the expected index.
    fn plan(&self, bytes_each: usize) {
        for n in 0..12_usize {
            let words = (0..bytes_each / 8)
                .map(|at| format!("w{} ", (at * (n % 5 + 3)) % 40_009 + at / 700))
                .collect::<String>();
            self.0.dir.write(&format!("it's $(c)/{n:02}.txt"), words);
        }
        self.0.dir.write("hosts", "a slots=6\n");
        self.shell("dedup-index build -o i --parts 3 \"it's \\$(c)\" && dedup-shard plan -o 'r $(x)' --hosts hosts --parts 3 \"it's \\$(c)\" && ln -s 'r $(x)' r")
            .ok();
    }

    #[track_caller]
    fn ensure_equals_build(&self) {
        assert_eq!(self.shell("diff -r i r/index").ok_text(), "");
    }

    /// Waits, a minute at most, until a line of shell succeeds.
    #[track_caller]
    fn until(&self, line: &str) {
        let begun = Instant::now();
        while self.shell(line).code() != 0 {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "not within a minute: {line}"
            );
            thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn a_slurm_run_gives_the_bytes_of_a_build() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    cluster.plan(4000);
    cluster.shell("dedup-shard run r --engine slurm -j 4").ok();
    cluster.ensure_equals_build();
    // Nothing is left to do, and nothing is submitted.
    cluster
        .shell(
            "cp r/slurm.json before && dedup-shard run r --engine slurm && cmp before r/slurm.json",
        )
        .ok();
    // Only the missing tasks are submitted, packed.
    cluster.shell("rm -r r/index r/map/0001 r/map/0004 && dedup-shard run r --engine slurm --tasks-per-job 2").ok();
    cluster.ensure_equals_build();
    let arrays = cluster
        .shell("jq -c '.jobs[-2:][] | [.stage, .indices, .each]' r/slurm.json")
        .ok_text();
    assert_eq!(arrays, "[0,[0,2],2]\n[6,[0],2]\n");
    // Jobs start another command, as for a container.
    cluster.0.dir.write(
        "contained",
        "#!/bin/sh\necho \"$@\" >> contained.log\nexec unshare --mount \"$@\"\n",
    );
    cluster.shell("chmod +x contained; rm -r r/index r/map/0001 && DEDUP_SHARD=\"$PWD/contained dedup-shard\" dedup-shard run r --engine slurm && grep -q 'dedup-shard task --stage=map' contained.log").ok();
    cluster.ensure_equals_build();
    // The printed script does the same.
    cluster.shell("rm -r r/index r/reduce && dedup-shard run r --engine slurm --print > submit && sh submit").ok();
    cluster.until("test -e r/index/manifest.json");
    cluster.ensure_equals_build();
}

/// Nodes read every kind of file, and run the commands that the user gave for others.
#[test]
fn adapters_and_office_files_are_read_on_nodes() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let kinds = root().join("testdata/corpus-kinds");
    cluster
        .shell(&format!(
            "mkdir c && cp {0}/*.docx {0}/*.odt {0}/zstd.parquet c && (cd c && python3 -m zipfile -c all.zip *.docx) \
             && for n in 1 2 3 4 5 6; do echo \"words of number $n in a file of another kind\" > c/$n.up; done && echo 'a slots=6' > hosts",
            kinds.display()
        ))
        .ok();
    let flags = "--parts 3 --adapter '*.up=tr a-z A-Z' c";
    cluster
        .shell(&format!(
            "dedup-index build -q -o i {flags} && dedup-shard plan -q -o r --hosts hosts {flags} && dedup-shard run r -q --engine slurm -j 4 --account a.json"
        ))
        .ok();
    cluster.ensure_equals_build();
    let kinds = cluster.shell("jq -c .kinds a.json").ok_text();
    assert!(kinds.contains("\"adapter\":6"), "{kinds}");
}

#[test]
fn a_slurm_run_cleans_the_files() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    cluster.plan(4000);
    let again =
        "cat it*/0[0-5].txt > copies.txt; gzip -k copies.txt; mkdir in; mv copies.txt* it*/* in";
    let flags = "--cut-spans 50 --keep longest";
    cluster
        .shell(&format!(
            "{again}; dedup-extract clean -q -o one {flags} in && dedup-shard plan -o clean.run --hosts hosts --clean two {flags} in"
        ))
        .ok();
    cluster
        .shell("dedup-shard run -q clean.run --engine slurm -j 4")
        .ok();
    let differing = cluster.shell("diff -r -x .dedup-clean one two").ok_text();
    assert_eq!(differing, "");
}

#[test]
fn a_run_completes_after_a_node_dies() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    cluster.plan(1_500_000);
    let nodes = cluster.0.directory.join("nodes");
    let ran = cluster.shell(&format!(
        "dedup-shard run r --engine slurm & run=$!
         until grep -q . r/events/*.node2.* || ! kill -0 $run; do sleep 0.05; done 2> /dev/null
         read -r pid _ < {0}/node2/pid; kill -9 $pid; ls r/map > at-death; wait $run",
        nodes.display()
    ));
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    cluster.ensure_equals_build();
    let again = cluster.shell("grep -h 'attempt 2' r/logs/*").stdout();
    assert!(!again.is_empty(), "no job was on the node that died");
}

#[test]
fn a_failed_task_is_named() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    cluster.plan(4000);
    cluster.0.dir.write("it's $(c)/07.txt", "another text");
    let ran = cluster.shell("dedup-shard run r --engine slurm");
    assert_eq!(ran.code(), 2, "{}", ran.stderr());
    let stderr = ran.stderr();
    for part in [
        "dedup-shard: map-0003: job ",
        "on node",
        "/logs/slurm-map-",
        "07.txt: changed since the plan was made",
    ] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    assert_eq!(cluster.shell("squeue -h").ok_text(), "");
    assert_eq!(
        cluster
            .shell("dedup-shard status r --missing | grep -c map")
            .stdout(),
        "1\n"
    );
}

#[test]
fn a_job_with_a_full_disk_is_requeued_a_limited_number_of_times() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    cluster.plan(4000);
    let ran = cluster.shell(
        "ulimit -f 1; dedup-shard run r --engine slurm --requeues 1 --sbatch-arg=--propagate=FSIZE",
    );
    assert_eq!(ran.code(), 75, "{}", ran.stderr());
    assert!(ran.stderr().contains("File too large"), "{}", ran.stderr());
    assert_eq!(
        cluster
            .shell("grep -h -o 'attempt .' r/logs/slurm-map-*_0.log")
            .ok_text(),
        "attempt 1\nattempt 2\n"
    );
    cluster.shell("dedup-shard run r --engine slurm").ok();
    cluster.ensure_equals_build();
}

#[test]
fn a_waiting_run_can_be_killed_or_stopped() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    cluster.plan(400_000);
    // Killed: the jobs continue, and the next run, which starts when the lock is free, waits for
    // them.
    let ran = cluster.shell(
        "dedup-shard run r --engine slurm & run=$!; until test -e r/map/0000 || ! kill -0 $run; do sleep 0.05; done; kill -9 $run; wait $run
         cp r/slurm.json before; dedup-shard run r --engine slurm; code=$?; cmp before r/slurm.json && exit $code",
    );
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    assert!(
        ran.stderr()
            .contains("jobs of this run are in the queue already; waiting for them"),
        "{}",
        ran.stderr()
    );
    cluster.ensure_equals_build();
    // Stopped: the jobs end, and the next run continues.
    let ran = cluster.shell(
        "rm -r r/index r/map r/reduce; dedup-shard run r --engine slurm & run=$!; until test -e r/map || ! kill -0 $run; do sleep 0.05; done; kill -INT $run; wait $run",
    );
    assert_eq!(ran.code(), 75, "{}", ran.stderr());
    assert_eq!(
        ran.stderr(),
        "dedup-shard: stopped; the jobs are cancelled, and run goes on where it was\n"
    );
    cluster.until("test -z \"$(squeue -h)\"");
    cluster.shell("dedup-shard run r --engine slurm").ok();
    cluster.ensure_equals_build();
}

/// Needs no cluster.
#[test]
fn the_script_can_be_printed_without_slurm() {
    let dir = TestDir::with(&[
        ("c/a.txt", "some words of a text"),
        ("c/b.txt", "and some of another"),
        ("hosts", "a slots=2\n"),
    ]);
    dir.shell("dedup-shard plan -o r --hosts hosts c").ok();
    let printed = dir
        .shell("dedup-shard run r --engine slurm --print --sbatch-arg '--comment=a; touch x'")
        .ok_text();
    assert_eq!(
        printed.matches("=$(sbatch --parsable ").count(),
        7,
        "{printed}"
    );
    assert!(
        printed.contains(" --array=0-1 ")
            && printed.contains("'--comment=a; touch x' --dependency=\"afterok:$job_0\""),
        "{printed}"
    );
    // The scripts are complete: with an sbatch that runs its script, they do all the work.
    let sbatch = "#!/bin/sh\ncat > job\nfor SLURM_ARRAY_TASK_ID in 0 1 2 3; do export SLURM_ARRAY_TASK_ID; sh job >> said 2>&1; done; echo 7\n";
    dir.write("bin/sbatch", sbatch);
    dir.write("submit", printed);
    dir.shell(
        "chmod +x bin/sbatch && PATH=$PWD/bin:$PATH sh submit && dedup-index build --parts 4 -o i c && diff -r i r/index && test ! -e x",
    )
    .ok();
    assert_eq!(
        dir.shell("dedup-shard run r --engine slurm --print")
            .ok_text()
            .matches("sbatch --parsable")
            .count(),
        0
    );
    assert_eq!(dir.shell("dedup-shard task r --stage map --element 1 && dedup-shard task r --stage map --element 0 --each 9").code(), 0);
    for (line, what) in [
        (
            "--stage map --element 2",
            "dedup-shard: map has 2 tasks: with 1 each there is no element 2\n",
        ),
        (
            "--stage m --element 2",
            "dedup-shard: the plan has no tasks of the kind 'm'; it has map, number, reduce, join, sets, part, gather\n",
        ),
    ] {
        let ran = dir.shell(&format!("dedup-shard task r {line}"));
        assert_eq!((ran.code(), ran.stderr().as_str()), (2, what));
    }
    let ran = dir.shell("cp -r r 'r%a' && dedup-shard run r%a --engine slurm --print");
    assert!(
        ran.code() == 2
            && ran
                .stderr()
                .ends_with("which Slurm would misread; rename it\n"),
        "{}",
        ran.stderr()
    );
    let ran = dir.shell(
        "rm -r r/index; PATH=$(dirname $(command -v dedup-shard)) dedup-shard run r --engine slurm",
    );
    let what = "dedup-shard: squeue is not on the PATH; is this a machine of a Slurm cluster?\n";
    assert_eq!((ran.code(), ran.stderr().as_str()), (2, what));
}
