//! dedup-shard export: the same index by make, by a real Snakemake and on a real Ray cluster of two nodes. The last two run only
//! with DEDUP_CLUSTER=1 (make test-cluster), from the environment that scripts/dev/install-deps --cluster makes.

use crate::{
    shard::{corpus, ensure_equals_build},
    test_cluster::{TestCluster, are_clusters_wanted},
    test_dir::{RunResult, TestDir, root},
};
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Snakemake and Ray; none, with a message, if DEDUP_CLUSTER is not set.
fn engines() -> Option<PathBuf> {
    if !are_clusters_wanted() {
        return None;
    }
    let home = PathBuf::from(env::var_os("HOME").unwrap());
    let cache = env::var_os("XDG_CACHE_HOME").map_or(home.join(".cache"), PathBuf::from);
    let engines = cache.join("dedup/engines-venv/bin");
    assert!(
        engines.join("snakemake").exists(),
        "run scripts/dev/install-deps --cluster"
    );
    Some(engines)
}

/// A corpus, a plan and its export; the command that runs it is in `command`.
fn exported(to: &str) -> TestDir {
    let dir = corpus();
    dir.shell(&format!(
        "dedup-shard plan -q -o r --slots 3 --slice-size 1K --table --clusters --skip-bad c && dedup-shard export r --to {to} > command"
    ))
    .ok();
    dir
}

#[track_caller]
fn ensure_same(dir: &TestDir) {
    ensure_equals_build(dir, "c");
    for result in ["table", "clusters"] {
        dir.shell(&format!(
            "dedup-extract {result} -q i | cmp - r/{result}.ndjson"
        ))
        .ok();
    }
    assert_eq!(dir.shell("dedup-shard status r --missing").ok_text(), "");
}

/// Stands for dedup-shard: some tasks end with an exit status, as often as `fail/TASK` has lines.
fn faulty_program(dir: &TestDir) {
    dir.write(
        "faulty",
        format!(
            "#!/bin/sh\nfor task; do :; done\nif [ \"$1\" = task ]; then echo $task >> {0}/attempts
             if [ -s {0}/fail/$task ]; then read -r status < {0}/fail/$task; sed -i 1d {0}/fail/$task; echo made to fail >&2; exit $status; fi; fi\nexec dedup-shard \"$@\"\n",
            dir.temp.path().display()
        ),
    );
    dir.shell("chmod +x faulty; mkdir -p fail").ok();
}

fn attempts(dir: &TestDir, task: &str) -> usize {
    let all = String::from_utf8(fs::read(dir.path("attempts")).unwrap_or_default()).unwrap();
    all.lines().filter(|line| *line == task).count()
}

#[test]
fn the_command_of_each_export_is_printed() {
    let dir = TestDir::with(&[("c/a.txt", "some words in a text that is read here")]);
    dir.shell("dedup-shard plan -o 'my run' --slots 5 c").ok();
    for (to, file, command) in [
        (
            "snakemake",
            "Snakefile",
            "snakemake --snakefile 'my run/Snakefile' --directory 'my run' --cores 5 --rerun-incomplete --rerun-triggers mtime\n",
        ),
        ("ray", "run_on_ray.py", "python3 'my run/run_on_ray.py'\n"),
        ("make", "Makefile", "make -C 'my run' -j5\n"),
    ] {
        let printed = dir.shell(&format!(
            "rm -f 'my run/{file}'; dedup-shard export 'my run' --to {to}"
        ));
        assert_eq!(printed.ok_text(), command);
        assert!(dir.path("my run").join(file).exists());
    }
    dir.shell("python3 -m py_compile 'my run/run_on_ray.py' && make -s -C 'my run' -j2 && dedup-shard status 'my run'")
        .ok();
    let ran = dir.shell("dedup-shard export 'my run' --to spark");
    assert!(ran.code() == 2 && ran.stderr().contains("snakemake, ray, make"));
}

fn snakemake(dir: &TestDir, engines: &Path, more: &str) -> RunResult {
    dir.shell(&format!(
        "PATH={}:$PATH; $(cat command) {more} 2> said",
        engines.display()
    ))
}

#[test]
fn snakemake_gives_the_same_bytes() {
    let Some(engines) = engines() else { return };
    let dir = exported("snakemake");
    snakemake(&dir, &engines, "").ok();
    ensure_same(&dir);
    // An output that is gone is made again, and what needs it.
    dir.shell("rm -r r/index r/reduce/002").ok();
    snakemake(&dir, &engines, "").ok();
    ensure_same(&dir);
}

#[test]
fn snakemake_goes_on_after_a_kill() {
    let Some(engines) = engines() else { return };
    let dir = exported("snakemake");
    // Killed with its jobs, in the middle: the lock stays.
    dir.shell(&format!(
        "PATH={}:$PATH; setsid $(cat command) --cores 1 2> said & run=$!
         until test -e r/map/0002 || ! kill -0 $run; do sleep 0.05; done; kill -9 -$run; wait $run 2> /dev/null; test ! -e r/index",
        engines.display()
    ))
    .ok();
    let ran = snakemake(&dir, &engines, "");
    assert!(
        ran.code() != 0
            && String::from_utf8(dir.read("said"))
                .unwrap()
                .contains("LockException")
    );
    snakemake(&dir, &engines, "--unlock").ok();
    snakemake(&dir, &engines, "").ok();
    ensure_same(&dir);
}

#[test]
fn snakemake_retries_what_was_lost_only() {
    let Some(engines) = engines() else { return };
    let dir = exported("snakemake");
    faulty_program(&dir);
    dir.write("fail/map-0001", "75\n75\n");
    dir.write("fail/reduce-001", "1\n");
    let ran = snakemake(&dir, &engines, "--config dedup_shard=../faulty");
    assert_eq!(ran.code(), 1);
    assert_eq!(
        (attempts(&dir, "map-0001"), attempts(&dir, "reduce-001")),
        (3, 1)
    );
    assert!(!dir.path("r/index").exists());
    snakemake(&dir, &engines, "--config dedup_shard=../faulty").ok();
    assert_eq!(
        (attempts(&dir, "map-0001"), attempts(&dir, "reduce-001")),
        (3, 2)
    );
    ensure_same(&dir);
}

/// A Ray cluster of two nodes.
struct RayCluster(TestCluster);

impl RayCluster {
    fn start() -> Option<Self> {
        let engines = engines()?;
        let ray = engines.join("ray");
        let cluster = TestCluster::start("ray", &[], exported("ray"), |up| {
            up.args(["2", "2"]).env("RAY", ray)
        });
        let python = engines.join("python");
        cluster.dir.write("python", python.to_str().unwrap());
        Some(Self(cluster))
    }

    /// Runs the driver in the network of the cluster. `before`: shell that runs beside it.
    fn run(&self, more: &str, beside: &str) -> RunResult {
        let script = format!(
            "{0}/tests/cluster/ray-run {1} $(cat python) r/run_on_ray.py {more} > out 2> said & run=$!\n{beside}\nwait $run",
            root().display(),
            self.0.directory.display()
        );
        self.0.dir.shell(&script)
    }

    fn said(&self) -> String {
        String::from_utf8(self.0.dir.read("said")).unwrap()
    }
}

#[test]
fn a_ray_cluster_gives_the_same_bytes_and_loses_nodes() {
    let Some(cluster) = RayCluster::start() else {
        return;
    };
    let dir = &cluster.0.dir;
    faulty_program(dir);
    let faulty = format!("--program {}", dir.path("faulty").display());
    // A task that fails ends the run; one that is lost is run again, elsewhere.
    dir.write("fail/map-0001", "75\n75\n");
    dir.write("fail/reduce-001", "1\n");
    assert_eq!(cluster.run(&faulty, "").code(), 1, "{}", cluster.said());
    assert_eq!(
        (attempts(dir, "map-0001"), attempts(dir, "reduce-001")),
        (3, 1)
    );
    assert!(
        cluster
            .said()
            .contains("reduce-001: exit status 1\nmade to fail\n")
    );
    assert!(!dir.path("r/index").exists());
    // The next run does what is missing.
    assert_eq!(cluster.run(&faulty, "").code(), 0, "{}", cluster.said());
    assert_eq!(
        (attempts(dir, "map-0001"), attempts(dir, "reduce-001")),
        (3, 2)
    );
    ensure_same(dir);
    // A node dies with its workers while they run tasks.
    dir.shell("rm -rf r/index r/table.ndjson r/links r/members r/clusters.ndjson r/map r/number r/reduce r/join r/sets r/part r/count")
        .ok();
    dir.write(
        "slow",
        "#!/bin/sh\ntest \"$1\" != task || sleep 0.3\nexec dedup-shard \"$@\"\n",
    );
    let kill = format!(
        "until test -e r/map/0001 || ! kill -0 $run; do sleep 0.05; done; {}/tests/cluster/ray-down -9 {} node1",
        root().display(),
        cluster.0.directory.display()
    );
    let slow = format!("--program {}", dir.path("slow").display());
    dir.shell("chmod +x slow").ok();
    assert_eq!(cluster.run(&slow, &kill).code(), 0, "{}", cluster.said());
    assert!(cluster.said().contains("was lost"), "{}", cluster.said());
    ensure_same(dir);
    // The driver dies; another one goes on.
    dir.shell("rm -rf r/index r/table.ndjson r/links r/members r/clusters.ndjson r/reduce r/join r/sets r/part r/count")
        .ok();
    let kill = "until test -e r/reduce/000 || ! kill -0 $run; do sleep 0.05; done; kill -9 $run";
    assert_ne!(cluster.run(&slow, kill).code(), 0);
    assert_eq!(cluster.run("", "").code(), 0, "{}", cluster.said());
    ensure_same(dir);
}
