//! What goes to stderr: messages, and how progress is shown.

use crate::base::codec::escape_unsafe;
use clap::ValueEnum;
use serde::Serialize;
use std::{
    io::{Write, stderr},
    sync::OnceLock,
};

/// How progress is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ProgressMode {
    /// A bar, if stderr is a terminal and has nothing else to show.
    #[default]
    Auto,
    /// A bar on a terminal, else a line for each tenth.
    Always,
    /// Nothing.
    Never,
    /// Everything on stderr as JSON, an object a line.
    Json,
}

static MODE: OnceLock<ProgressMode> = OnceLock::new();

/// Sets the mode of the process, once.
pub fn set_mode(mode: ProgressMode) {
    let _ = MODE.set(mode);
}

pub fn mode() -> ProgressMode {
    MODE.get().copied().unwrap_or_default()
}

/// A message for a program.
#[derive(Serialize)]
struct MessageLine<'l> {
    message: &'l str,
}

/// The end of a run for a program.
#[derive(Serialize)]
struct EndLine {
    end: EndObject,
}

#[derive(Serialize)]
struct EndObject {
    status: u8,
}

/// Prints a message on stderr; ignores a closed or full stderr. Escapes control characters, as ids and paths come from outside: they must not
/// control a terminal, or look like another line.
pub fn say(line: &str) {
    let line = escape_unsafe(line);
    if mode() == ProgressMode::Json {
        // A string always becomes JSON.
        put_line(&serde_json::to_string(&MessageLine { message: &line }).unwrap_or_default());
    } else {
        put_line(&line);
    }
}

/// Several lines.
pub fn say_lines(lines: &str) {
    lines.lines().for_each(say);
}

/// Tells a program that the run is over.
pub fn say_end(status: u8) {
    if mode() == ProgressMode::Json {
        let end = EndObject { status };
        put_line(&serde_json::to_string(&EndLine { end }).unwrap_or_default());
    }
}

/// In one piece, so that the lines of two programs of a pipe stay apart.
pub fn put_line(line: &str) {
    let _ = stderr().write_all(format!("{line}\n").as_bytes());
}
