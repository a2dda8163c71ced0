//! Progress: bars on a terminal of 80 columns, lines in a log, objects for programs.

use crate::test_dir::{RunResult, TestDir, records, search_path};
use serde_json::{Value, json};
use std::{process::Command, thread, time::Duration};

/// All of stderr, the account included.
fn raw(ran: &RunResult) -> String {
    String::from_utf8(ran.0.stderr.clone()).unwrap()
}

fn documents() -> TestDir {
    let text =
        |seed: usize| -> String { (0..2000).map(|word| format!("w{} ", word * seed)).collect() };
    let files: Vec<(String, String)> = (1..=20)
        .map(|seed| (format!("docs/{seed:02}.txt"), text(seed)))
        .collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    TestDir::with(&files)
}

#[test]
fn a_program_reads_objects() {
    let dir = documents();
    dir.write("docs/x.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1");
    let ran = dir.shell("dedup-index build --progress json -o my.idx docs");
    assert_eq!(ran.code(), 2);
    let lines = records(ran.0.stderr.as_slice());
    let keys: Vec<&String> = lines
        .iter()
        .map(|line| {
            let object = line.as_object().unwrap();
            assert_eq!(object.len(), 1, "{line}");
            object.keys().next().unwrap()
        })
        .collect();
    let progress: Vec<&Value> = lines
        .iter()
        .filter_map(|line| line.get("progress"))
        .collect();
    assert_eq!(
        (
            &progress[0]["phase"],
            &progress[0]["unit"],
            &progress[0]["done"]
        ),
        (&json!("reading"), &json!("bytes"), &json!(0))
    );
    let last = progress
        .iter()
        .rfind(|object| object["phase"] == "reading")
        .unwrap();
    assert_eq!(last["note"], "20 documents");
    assert!(
        last["total"].as_u64().unwrap() >= last["done"].as_u64().unwrap(),
        "{last}"
    );
    assert!(last["done"].as_u64().unwrap() > 100_000, "{last}");
    let messages: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["message"].as_str())
        .collect();
    assert_eq!(
        messages,
        [
            "dedup-index: docs/x.doc: left out: doc, xls or ppt; save it as docx or PDF",
            "dedup-index: read 20 documents in 20 files (252.8 kB); left out 1 file: doc, xls or ppt 1 (save it as docx or PDF)"
        ]
    );
    assert_eq!(keys.last().unwrap().as_str(), "end");
    assert_eq!(lines.last().unwrap(), &json!({ "end": { "status": 2 } }));
    // Other verbs have phases, too, and results stay apart.
    let ran = dir.shell("dedup-extract pairs my.idx --progress json --score s1 --threshold 1");
    let lines = records(ran.0.stderr.as_slice());
    let last = lines
        .iter()
        .rfind(|line| line.get("progress").is_some())
        .unwrap();
    assert_eq!(last["progress"]["phase"], "comparing");
    assert_eq!(
        (&last["progress"]["done"], &last["progress"]["total"]),
        (&json!(20), &json!(20))
    );
    assert_eq!(lines.last().unwrap(), &json!({ "end": { "status": 0 } }));
}

#[test]
fn a_log_gets_lines_only_if_it_wants_them() {
    let dir = documents();
    let account = "dedup-index: read 20 documents in 20 files (252.8 kB)\n";
    for flags in ["", "--progress auto", "--progress never"] {
        let ran = dir.shell(&format!("dedup-index build {flags} -o $RANDOM.idx docs"));
        assert_eq!((ran.code(), raw(&ran).as_str()), (0, account), "{flags}");
    }
    let ran = dir.shell("dedup-index build --progress always -o my.idx docs");
    let stderr = raw(&ran);
    let lines: Vec<&str> = stderr.lines().collect();
    assert!(lines.len() > 1 && lines.len() < 20, "{stderr}");
    assert!(
        lines[..lines.len() - 1]
            .iter()
            .all(|line| line.starts_with("reading: ") && line.contains("% of ")),
        "{stderr}"
    );
    assert!(!stderr.contains(['\u{1b}', '\r']), "{stderr}");
    assert_eq!(format!("{}\n", lines[lines.len() - 1]), account);
    let ran = dir.shell("dedup-index build --progress sometimes -o my.idx docs");
    assert_eq!(ran.code(), 2);
    assert!(
        ran.stderr()
            .contains("[possible values: auto, always, never, json]"),
        "{}",
        ran.stderr()
    );
}

/// A terminal of 80 columns.
struct Terminal {
    socket: String,
}

impl Terminal {
    /// None where there is no tmux.
    fn open(dir: &TestDir) -> Option<Self> {
        if dir.shell("tmux -V").code() != 0 {
            eprintln!("skipped: no tmux; scripts/dev/install-deps installs it");
            return None;
        }
        let socket = dir.path("tmux").display().to_string();
        let terminal = Self { socket };
        let shell = format!("env PS1='$ ' PATH='{}' sh", search_path());
        terminal.tmux(&[
            "new-session",
            "-d",
            "-x",
            "80",
            "-y",
            "24",
            "-c",
            &dir.path(".").display().to_string(),
            &shell,
        ]);
        terminal.until("the prompt", |lines| {
            lines.iter().any(|line| line.starts_with('$'))
        });
        Some(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command
            .args(["-f", "/dev/null", "-S", &self.socket])
            .args(arguments);
        let output = command.env_remove("TMUX").output().unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    fn enter(&self, line: &str) {
        self.tmux(&["send-keys", line, "Enter"]);
    }

    /// What is on the screen as soon as it is as wanted.
    fn until(&self, what: &str, is_there: impl Fn(&[String]) -> bool) -> Vec<String> {
        let mut lines = Vec::new();
        for _ in 0..600 {
            let screen = self.tmux(&["capture-pane", "-p", "-e"]);
            lines = screen.lines().map(str::to_owned).collect();
            if is_there(&lines) {
                return lines;
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("no {what}: {lines:#?}")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let mut command = Command::new("tmux");
        let _ = command.args(["-S", &self.socket, "kill-server"]).output();
    }
}

#[test]
fn a_bar_fits_into_eighty_columns_and_goes_away() {
    let dir = documents();
    let Some(terminal) = Terminal::open(&dir) else {
        return;
    };
    // The last document waits until the test lets it go on.
    dir.write("docs/z.slow", "slow");
    dir.write("slow", "cat; while [ ! -e go ]; do sleep 0.1; done");
    terminal
        .enter("dedup-index build --adapter '*.slow=sh slow' --adapter-cache none -o my.idx docs");
    let screen = terminal.until("bar with percent and the time left", |lines| {
        lines
            .iter()
            .any(|line| line.contains("% of ") && line.contains(" left"))
    });
    let bar = screen.iter().find(|line| line.contains("% of ")).unwrap();
    assert!(
        bar.starts_with("reading [") && bar.contains("/s, "),
        "{bar}"
    );
    assert!(
        bar.chars().count() <= 80 && bar.chars().count() > 70,
        "{bar}"
    );
    assert_eq!(
        screen
            .iter()
            .filter(|line| line.contains("reading ["))
            .count(),
        1
    );
    dir.write("go", "");
    let screen = terminal.until("account", |lines| {
        lines
            .iter()
            .any(|line| line.contains("read 21 documents in 21 files"))
    });
    assert!(
        !screen.iter().any(|line| line.contains("% of ")),
        "{screen:#?}"
    );
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let dir = documents();
    let Some(terminal) = Terminal::open(&dir) else {
        return;
    };
    dir.write("copy.txt", dir.read("docs/01.txt"));
    let escape = '\u{1b}';
    terminal.enter("clear; NO_COLOR=1 dedup-query docs copy.txt --passages -q; echo plain $?");
    let screen = terminal.until("answer", |lines| {
        lines.iter().any(|line| line.contains("plain 0"))
    });
    assert!(!screen.concat().contains(escape), "{screen:#?}");
    terminal.enter("clear; dedup-query docs copy.txt --passages -q; echo done $?");
    let screen = terminal.until("answer", |lines| {
        lines.iter().any(|line| line.contains("done 0"))
    });
    assert!(screen.concat().contains(escape), "{screen:#?}");
}
