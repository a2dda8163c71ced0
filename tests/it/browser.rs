//! Pages in a real browser, for tests of reports.

use crate::test_dir::{TestDir, root};
use serde_json::{Value, json};
use std::{
    io::Write,
    process::{Command, Stdio},
};

/// A text of this many words, different for each seed.
pub fn prose(seed: u64, words: usize) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = move |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut text = String::new();
    for word in 1..=words {
        for _ in 0..2 + random(3) {
            text.push(char::from(b"bdfgklmnprstvz"[random(14) as usize]));
            text.push(char::from(b"aeiou"[random(5) as usize]));
        }
        text.push_str(if word % 150 == 0 {
            ".\n\n"
        } else if word % 12 == 0 {
            ".\n"
        } else {
            " "
        });
    }
    text
}

/// A window of a size, light or dark.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    pub width: u32,
    pub height: u32,
    pub theme: &'static str,
}

/// What most tests look through.
pub const LAPTOP: Window = Window {
    width: 1200,
    height: 800,
    theme: "light",
};

/// Opens a page and runs the body of an async function in it. Returns its result and the messages
/// of the browser; prints a message and returns none where no browser is installed.
pub fn browse(dir: &TestDir, page: &str, script: &str) -> Option<(Value, Value)> {
    browse_in(LAPTOP, dir, page, script, None)
}

/// The same in another window; `file` gets a picture of the page, or the printed pages.
pub fn browse_in(
    window: Window,
    dir: &TestDir,
    page: &str,
    script: &str,
    file: Option<&str>,
) -> Option<(Value, Value)> {
    let url = format!("file://{}", dir.path(page).display());
    let size = [window.width, window.height].map(|pixels| pixels.to_string());
    let mut command = Command::new("python3");
    command
        .arg(root().join("tests/it/browser.py"))
        .args([&url, &size[0], &size[1], window.theme])
        .args(file)
        .current_dir(dir.temp.path());
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(script.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    if output.status.code() == Some(77) {
        eprintln!("skipped: no browser; scripts/dev/install-deps installs chromium");
        return None;
    }
    assert!(output.status.success());
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    Some((answer["value"].clone(), answer["said"].clone()))
}

/// The same, for a page that must not cause messages.
pub fn browse_quietly(dir: &TestDir, page: &str, script: &str) -> Option<Value> {
    let (value, messages) = browse(dir, page, &[TOOLS, script].concat())?;
    assert_eq!(messages, json!([]), "{page}");
    Some(value)
}

/// For scripts: waits until the page is drawn, and locates a passage.
pub const TOOLS: &str = "
    const settled = async () => { for (let frame = 0; frame < 6; frame++) await new Promise(requestAnimationFrame); };
    const side = (id) => document.querySelector(`#${id} .text`);
    const place = (id, number) => {
        const mark = [...side(id).querySelectorAll('mark')].find((mark) => Number(mark.dataset.passage) === number - 1);
        if (!mark) return null;
        const [at, box] = [mark.getBoundingClientRect(), side(id).getBoundingClientRect()];
        return { mark, top: Math.round(at.top - box.top), isSeen: at.top >= box.top && at.top < box.bottom, isActive: mark.classList.contains('active') };
    };
    const key = (key) => document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    const tableRows = (table) => [...document.querySelectorAll(`#${table} tbody tr`)].map((row) => [...row.cells].map((cell) => cell.innerText));
";
