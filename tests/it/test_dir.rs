//! Helper: a temporary directory for a test, and the result of running a program in it.

use assert_cmd::cargo::cargo_bin;
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};
use tempfile::TempDir;

pub struct TestDir {
    pub temp: TempDir,
}

impl TestDir {
    pub fn new() -> Self {
        Self {
            temp: TempDir::new().unwrap(),
        }
    }

    /// A directory with these files.
    pub fn with(files: &[(&str, impl AsRef<[u8]>)]) -> Self {
        let dir = Self::new();
        for (name, content) in files {
            dir.write(name, content);
        }
        dir
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// Where programs keep texts that they extracted: never in the home directory of a developer. It is hidden, so
    /// that a walk of the directory does not find it.
    pub fn cache(&self) -> PathBuf {
        self.path(".cache")
    }

    pub fn command(&self, tool: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(cargo_bin(tool));
        command
            .args(arguments)
            .env("XDG_CACHE_HOME", self.cache())
            .current_dir(self.temp.path());
        command
    }

    pub fn run(&self, tool: &str, arguments: &[&str]) -> RunResult {
        self.run_with(tool, arguments, b"")
    }

    /// Runs a program with this input on stdin.
    pub fn run_with(&self, tool: &str, arguments: &[&str], stdin: &[u8]) -> RunResult {
        let mut command = self.command(tool, arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut input, bytes) = (child.stdin.take().unwrap(), stdin.to_vec());
        // A program that ends early closes the pipe, which is not an error.
        let writer = std::thread::spawn(move || drop(input.write_all(&bytes)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        RunResult(output)
    }

    /// Runs a line of shell with the programs in PATH.
    pub fn shell(&self, line: &str) -> RunResult {
        RunResult(
            Command::new("bash")
                .args(["-c", line])
                .env("PATH", search_path())
                .env("XDG_CACHE_HOME", self.cache())
                .current_dir(self.temp.path())
                .stdin(Stdio::null())
                .output()
                .unwrap(),
        )
    }
}

/// The directory into which scripts/dev/install-deps puts what is not a Debian package.
pub fn tools() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("tools")
}

/// PATH with our programs, those of the machine, and those that scripts/dev/install-deps put into
/// the target directory.
pub fn search_path() -> String {
    let (bin, tools) = (cargo_bin("dedup-blot"), tools().join("bin"));
    format!(
        "{}:{}:{}",
        bin.parent().unwrap().display(),
        std::env::var("PATH").unwrap(),
        tools.display()
    )
}

pub struct RunResult(pub Output);

impl RunResult {
    /// The output of a program that ended with status 0 and an empty stderr.
    #[track_caller]
    pub fn ok(&self) -> Vec<u8> {
        assert_eq!(
            (self.code(), self.stderr().as_str()),
            (0, ""),
            "{}",
            self.stdout()
        );
        self.0.stdout.clone()
    }

    #[track_caller]
    pub fn ok_text(&self) -> String {
        String::from_utf8(self.ok()).unwrap()
    }

    pub fn code(&self) -> i32 {
        self.0.status.code().unwrap_or(-1)
    }

    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    /// stderr without the account of the input; see [`RunResult::accounts`].
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr)
            .split_inclusive('\n')
            .filter(|line| !is_account(line))
            .collect()
    }

    /// The lines of stderr that account for the input.
    pub fn accounts(&self) -> Vec<String> {
        String::from_utf8_lossy(&self.0.stderr)
            .lines()
            .filter(|line| is_account(line))
            .map(str::to_owned)
            .collect()
    }

    /// The ids of the documents in the output, in order.
    pub fn docs(&self) -> Vec<String> {
        docs(&self.0.stdout)
    }
}

/// `dedup-tokenize: read 12 documents in …`
fn is_account(line: &str) -> bool {
    let summary = line
        .strip_prefix("dedup-")
        .and_then(|line| line.split_once(": read "))
        .map(|(_, summary)| summary);
    summary.is_some_and(|summary| {
        summary.starts_with(|c: char| c.is_ascii_digit()) && summary.contains(" document")
    })
}

/// The records of an NDJSON stream.
pub fn records(stream: &[u8]) -> Vec<serde_json::Value> {
    stream
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

pub fn docs(stream: &[u8]) -> Vec<String> {
    records(stream)
        .iter()
        .filter_map(|record| record["doc"].as_str().map(str::to_owned))
        .collect()
}

/// The root of the project.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
