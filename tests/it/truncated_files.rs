//! A program whose mapped file is truncated meanwhile names the file and ends with status 2.

use crate::{service::Server, test_dir::TestDir};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    os::unix::process::ExitStatusExt,
    process::{Child, ChildStdin, Command, Stdio},
};

/// A document that shares text with some others.
fn document(number: usize) -> String {
    let text: String = (0..400)
        .map(|n| format!("word{} ", (number / 10 * 13 + n).pow(2) % 977))
        .collect();
    format!("{{\"id\":\"d{number}\",\"text\":\"{text}\"}}\n")
}

fn documents() -> String {
    (0..200).map(document).collect()
}

fn index() -> TestDir {
    let dir = TestDir::with(&[("c.jsonl", documents())]);
    dir.run("dedup-index", &["build", "-q", "-o", "i", "c.jsonl"])
        .ok();
    dir
}

/// Truncates all files of a directory with one of these endings; returns the length of the last
/// one.
fn truncate(dir: &TestDir, directory: &str, endings: &[&str]) -> u64 {
    let mut length = 0;
    for entry in fs::read_dir(dir.path(directory))
        .unwrap()
        .map(Result::unwrap)
    {
        if endings
            .iter()
            .any(|ending| entry.file_name().to_str().unwrap().ends_with(ending))
        {
            length = entry.metadata().unwrap().len();
            File::options()
                .write(true)
                .open(entry.path())
                .unwrap()
                .set_len(0)
                .unwrap();
        }
    }
    assert!(length > 0);
    length
}

/// The expected message for a truncated file.
fn message(tool: &str, file: &str, length: u64) -> String {
    format!(
        "{tool}: {file}: file was truncated from {length} to 0 bytes while in use; restore it from a copy, or make it again\n"
    )
}

struct Running {
    child: Child,
    input: ChildStdin,
}

impl Running {
    fn start(dir: &TestDir, tool: &str, arguments: &[&str]) -> Self {
        let mut command = dir.command(tool, arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        Self { child, input }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        BufReader::with_capacity(1, self.child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        line
    }

    /// Sends the last input; returns the exit status and stderr.
    fn end(mut self, last: &str) -> (Option<i32>, String) {
        // A program that has ended has closed the pipe.
        let _ = self.input.write_all(last.as_bytes());
        drop(self.input);
        let output = self.child.wait_with_output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    }
}

#[test]
fn a_stream_of_queries_names_the_truncated_part() {
    let dir = index();
    let mut running = Running::start(&dir, "dedup-query", &["i", "--stream"]);
    running.input.write_all(document(1).as_bytes()).unwrap();
    assert!(
        running
            .line()
            .starts_with("{\"doc\":\"d1\",\"matches\":[{\"doc\":")
    );
    let length = truncate(&dir, "i", &["part"]);
    assert_eq!(
        running.end(&document(50)),
        (Some(2), message("dedup-query", "i/000001.000.part", length))
    );
}

/// Within the last page of the file, the lost bytes read as zeros, and no signal comes.
#[test]
fn a_file_that_lost_its_last_bytes_is_named_before_the_next_answer() {
    let dir = index();
    let mut running = Running::start(&dir, "dedup-query", &["-q", "i", "--stream"]);
    running.input.write_all(document(1).as_bytes()).unwrap();
    assert!(
        running
            .line()
            .starts_with("{\"doc\":\"d1\",\"matches\":[{\"doc\":")
    );
    let part = dir.path("i/000001.000.part");
    let file = File::options().write(true).open(&part).unwrap();
    file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    running.input.write_all(document(1).as_bytes()).unwrap();
    assert_eq!(running.line(), "");
    let message = "dedup-query: i/000001.000.part: file was truncated while in use; restore it from a copy, or make it again\n";
    assert_eq!(running.end(""), (Some(2), message.to_owned()));
}

#[test]
fn an_extraction_names_the_truncated_file_and_leaves_no_partial_output() {
    let dir = index();
    let mut running = Running::start(
        &dir,
        "dedup-extract",
        &["spans", "i", "-", "-o", "spans.jsonl"],
    );
    // More than a pipe holds: once all of it is written, the index has been opened.
    running.input.write_all(documents().as_bytes()).unwrap();
    let length = truncate(&dir, "i", &["docs"]);
    assert_eq!(
        running.end(&document(201)),
        (Some(2), message("dedup-extract", "i/000001.docs", length))
    );
    let mut names: Vec<_> = fs::read_dir(dir.temp.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["c.jsonl", "i"]);
}

#[test]
fn a_dump_names_the_truncated_file() {
    let dir = index();
    let mut running = Running::start(&dir, "dedup-index", &["dump", "i"]);
    assert!(running.line().starts_with("{\"dedup\":\"blots\""));
    let length = truncate(&dir, "i", &["docs"]);
    assert_eq!(
        running.end(""),
        (Some(2), message("dedup-index", "i/000001.docs", length))
    );
}

const HISTORY: [&str; 6] = [
    "history",
    "h",
    "--min-similarity",
    "0.9",
    "--file-entries",
    "50",
];

/// A history with a segment.
fn history() -> TestDir {
    let dir = TestDir::new();
    assert!(
        dir.run_with("dedup-query", &HISTORY, documents().as_bytes())
            .code()
            < 2
    );
    dir
}

#[test]
fn a_history_names_the_truncated_segment() {
    let dir = history();
    let mut running = Running::start(
        &dir,
        "dedup-query",
        &[&HISTORY[..4], &["--no-add"]].concat(),
    );
    running.input.write_all(document(1).as_bytes()).unwrap();
    assert!(running.line().starts_with("{\"doc\":\"d1\""));
    truncate(&dir, "h", &["prints"]);
    let (code, stderr) = running.end(&document(150));
    assert!(
        code == Some(2) && stderr.starts_with("dedup-query: h/") && stderr.contains(".prints: "),
        "{code:?} {stderr}"
    );
    assert!(
        stderr.contains("file was truncated")
            && stderr.ends_with("while in use; restore it from a copy, or make it again\n"),
        "{stderr}"
    );
}

#[test]
fn a_service_names_the_truncated_segment() {
    let dir = history();
    let server = Server::start(
        &dir,
        &[
            "serve",
            "--history",
            "h",
            "--min-similarity",
            "0.9",
            "--lines",
            "unix:s",
        ],
    );
    let mut client = server.connect(&dir);
    client.send(&document(1));
    assert!(client.line().starts_with("{\"doc\":\"d1\""));
    truncate(&dir, "h", &["prints"]);
    client.send(&document(150));
    let (code, stderr) = server.wait();
    assert!(
        code == Some(2)
            && stderr.starts_with("dedup-query: h/")
            && stderr.contains(".prints: file was truncated from "),
        "{code:?} {stderr}"
    );
}

#[test]
fn a_bus_error_of_another_cause_keeps_its_default_action() {
    let dir = index();
    let mut running = Running::start(&dir, "dedup-query", &["i", "--stream"]);
    running.input.write_all(document(1).as_bytes()).unwrap();
    running.line();
    assert!(
        Command::new("kill")
            .args(["-s", "BUS", &running.child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    let status = running.child.wait().unwrap();
    let mut stderr = String::new();
    running
        .child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert_eq!((status.signal(), stderr.as_str()), (Some(libc::SIGBUS), ""));
}
