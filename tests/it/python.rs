//! The Python module of python/, its types, and the notebook of docs/.

use crate::test_dir::{RunResult, TestDir, root};
use assert_cmd::cargo::cargo_bin;
use std::{
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

/// The Python of `scripts/dev/install-deps`, which has pyarrow, pandas and mypy.
fn python() -> Option<PathBuf> {
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("tools/python/bin/python");
    if !python.is_file() {
        eprintln!("no {}: the Python module was not tested", python.display());
        return None;
    }
    Some(python)
}

/// Runs Python with the module of python/ and the programs of this build.
fn run(python: &Path, dir: &TestDir, arguments: &[&str]) -> RunResult {
    let mut command = Command::new(python);
    command
        .args(arguments)
        .current_dir(dir.temp.path())
        .env("DEDUP_TOOLCHAIN_BIN", programs())
        .env("PYTHONPATH", root().join("python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("XDG_CACHE_HOME", dir.cache());
    RunResult(command.output().unwrap())
}

fn programs() -> PathBuf {
    cargo_bin("dedup-query").parent().unwrap().to_owned()
}

fn in_sources(path: &str) -> String {
    root().join(path).to_str().unwrap().to_owned()
}

#[test]
fn the_module_gives_what_the_programs_give() {
    let Some(python) = python() else { return };
    let tests = in_sources("tests/python/test_module.py");
    let ran = run(&python, &TestDir::new(), &["-W", "error", &tests]);
    assert_eq!(ran.code(), 0, "{}{}", ran.stdout(), ran.stderr());
    assert!(ran.stderr().ends_with("\nOK\n"), "{}", ran.stderr());
}

#[test]
fn the_module_has_strict_types() {
    let Some(python) = python() else { return };
    let dir = TestDir::new();
    let mut command = Command::new(python);
    command
        .args(["-m", "mypy", "--config-file", "pyproject.toml"])
        .arg("--cache-dir")
        .arg(dir.path("cache"))
        .current_dir(root().join("python"));
    let ran = RunResult(command.output().unwrap());
    assert_eq!(ran.code(), 0, "{}{}", ran.stdout(), ran.stderr());
}

#[test]
fn the_notebook_gives_what_it_shows() {
    let Some(python) = python() else { return };
    let dir = TestDir::new();
    symlink(root().join("testdata"), dir.path("testdata")).unwrap();
    let runner = in_sources("tests/python/run_notebook.py");
    let ran = run(&python, &dir, &[&runner, &in_sources("docs/python.ipynb")]);
    assert_eq!((ran.code(), ran.stderr().as_str()), (0, ""));
}
