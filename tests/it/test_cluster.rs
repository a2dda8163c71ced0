//! Helper: clusters of several nodes on this machine, for tests that run only with DEDUP_CLUSTER=1 (make test-cluster).

use crate::test_dir::{TestDir, root};
use std::{env, path::PathBuf, process::Command};
use tempfile::TempDir;

/// Whether tests of clusters run; if not, a message says so.
pub fn are_clusters_wanted() -> bool {
    let are_wanted = env::var_os("DEDUP_CLUSTER").is_some();
    if !are_wanted {
        eprintln!("skipped: make test-cluster runs it");
    }
    are_wanted
}

/// A cluster that `tests/cluster/KIND-up` started, and a directory for a test on it. It is stopped when dropped.
pub struct TestCluster {
    kind: &'static str,
    _parent: TempDir,
    /// Where the cluster keeps its files.
    pub directory: PathBuf,
    pub dir: TestDir,
}

impl TestCluster {
    /// Starts a cluster. `prepare` completes the command, whose last argument so far is the directory.
    pub fn start(
        kind: &'static str,
        flags: &[&str],
        dir: TestDir,
        prepare: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Self {
        let parent = TempDir::new().unwrap();
        let directory = parent.path().join(&kind[..1]);
        let mut up = Command::new(script(kind, "up"));
        up.args(flags).arg(&directory);
        let up = prepare(&mut up).output().unwrap();
        let said = String::from_utf8_lossy(&up.stderr);
        assert!(up.status.success(), "{said}");
        Self {
            kind,
            _parent: parent,
            directory,
            dir,
        }
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        let mut down = Command::new(script(self.kind, "down"));
        let _ = down.arg(&self.directory).status();
    }
}

fn script(kind: &str, what: &str) -> PathBuf {
    root().join(format!("tests/cluster/{kind}-{what}"))
}
