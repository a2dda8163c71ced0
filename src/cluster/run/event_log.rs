//! The log of events of a run: `RUN/events.jsonl`, a line an event, append-only.
//!
//! It is for people and for estimates; only outputs say which tasks are done. The process that
//! schedules the tasks writes this file; each process on another machine has a file of its own in
//! `RUN/events`, since appends of two machines to a shared file may mix.

use crate::base::error::{Error, Place, Result};
use crate::base::num::ToU64;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{ErrorKind, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

const EVENTS_FILE: &str = "events.jsonl";
const DIRECTORY: &str = "events";

/// An event of a task or a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Milliseconds since 1970, by the clock of the writer.
    pub time_ms: u64,
    /// The id of the task; empty for events of a host.
    pub task: String,
    /// The host.
    pub host: String,
    /// The slot of the host.
    pub slot: u32,
    /// What happened.
    pub what: EventKind,
}

/// What happened to a task or a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The task started.
    Start,
    /// The task is done.
    Done {
        /// The size of its documents.
        bytes_in: u64,
        /// The size of its output.
        bytes_out: u64,
    },
    /// Files were transferred to the host; through the machine of the run unless `direct`.
    Moved {
        /// The host that sent the files.
        from: String,
        /// The kind of files, see `transfer_kind`.
        #[serde(rename = "goods")]
        kind: String,
        /// The number of bytes.
        bytes: u64,
        /// The duration in milliseconds.
        ms: u64,
        /// Whether they went from host to host.
        direct: bool,
    },
    /// The task was lost and may run again; the reason.
    Lost(String),
    /// The task failed; the reason.
    Failed(String),
    /// The host gets no more tasks; the reason.
    HostOut(String),
}

impl Event {
    /// An event of this moment.
    pub fn now(task: &str, host: &str, slot: u32, what: EventKind) -> Self {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            time_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            task: task.to_owned(),
            host: host.to_owned(),
            slot,
            what,
        }
    }
}

/// A log that events are appended to, by any thread.
pub struct EventLog {
    file: File,
    path: PathBuf,
}

impl EventLog {
    /// Opens the log of the process that schedules the tasks. Removes an incomplete last line of a
    /// dead process.
    pub fn append(run: &Path) -> Result<Self> {
        Self::open(run.join(EVENTS_FILE))
    }

    /// Opens the log of another process, named `writer`.
    pub fn append_as(run: &Path, writer: &str) -> Result<Self> {
        let directory = run.join(DIRECTORY);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .map_err(|error| Error::io(directory.display(), error))?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let name: String = writer
            .chars()
            .map(|c| if is_plain(c) { c } else { '_' })
            .collect();
        Self::open(directory.join(format!("{name}.jsonl")))
    }

    fn open(path: PathBuf) -> Result<Self> {
        let failed = |error| Error::io(path.display(), error);
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let whole = bytes
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |end| end + 1);
        if whole < bytes.len() {
            file.set_len(whole.to_u64()).map_err(failed)?;
        }
        Ok(Self { file, path })
    }

    /// Appends an event as one line, by one write.
    pub fn write(&self, event: &Event) -> Result<()> {
        let mut line = serde_json::to_vec(event)
            .map_err(|error| Error::io(self.path.display(), error.into()))?;
        line.push(b'\n');
        (&self.file)
            .write_all(&line)
            .map_err(|error| Error::io(self.path.display(), error))
    }

    /// Reads all events of a run, in order of time.
    pub fn read(run: &Path) -> Result<Vec<Event>> {
        let mut events = read_file(&run.join(EVENTS_FILE))?;
        let directory = run.join(DIRECTORY);
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries.collect(),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        let entries = entries.map_err(|error| Error::io(directory.display(), error))?;
        let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
        paths.sort();
        for path in paths.iter().filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "jsonl")
        }) {
            events.extend(read_file(path)?);
        }
        events.sort_by_key(|event| event.time_ms);
        Ok(events)
    }
}

/// Ignores an incomplete last line, which may just be written.
fn read_file(path: &Path) -> Result<Vec<Event>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io(path.display(), error)),
    };
    let file: Arc<str> = path.display().to_string().into();
    let whole = bytes
        .split_inclusive(|&byte| byte == b'\n')
        .filter(|line| line.ends_with(b"\n"));
    let event = |(number, line)| {
        serde_json::from_slice(line).map_err(|error| {
            Error::damaged(Place::line(&file, number), format!("not an event: {error}"))
        })
    };
    (1..).zip(whole).map(event).collect()
}

/// The kind of a file that is transferred, by its path in the run.
pub fn transfer_kind(path: &str) -> &'static str {
    let (directory, name) = path.split_once('/').unwrap_or((path, ""));
    let has = |end: &str| name.ends_with(end);
    match directory {
        "slices" => "slices",
        // The whole output of a map task is mostly runs.
        "map" if has(".runs") || !name.contains('/') => "runs",
        "map" | "reduce" if has("words") => "words",
        "map" if has("/docs") || has("/files") => "docs",
        "number" => "targets",
        "reduce" if has("/postings") => "postings",
        "reduce" if has(".sets") => "sets",
        "join" if has("/sets") || has("/uses") => "sets",
        "join" | "sets" => "numbers",
        "part" => "parts",
        "index" | "ranges" => "index",
        "count" => "counts",
        "rows" => "rows",
        "uses" => "numbers",
        "links" | "groups" => "links",
        "members" => "clusters",
        "copies" => "copies",
        "decide" => "fates",
        "write" => "cleaned",
        "plan.json" => "plan",
        _ => "records",
    }
}

/// The size of an output: a file, or all files of a directory. Files that cannot be read do not
/// count.
pub fn bytes_of(path: &Path) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return 0;
    };
    if !metadata.is_dir() {
        return metadata.len();
    }
    fs::read_dir(path)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| bytes_of(&entry.path()))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn event(time_ms: u64, what: EventKind) -> Event {
        Event {
            time_ms,
            task: "map-0000".to_owned(),
            host: "\"é\n".to_owned(),
            slot: 1,
            what,
        }
    }

    #[test]
    fn events_are_read_back_as_written() {
        let run = tempfile::tempdir().unwrap();
        assert_eq!(EventLog::read(run.path()).unwrap(), []);
        let done = EventKind::Done {
            bytes_in: 1,
            bytes_out: 2,
        };
        let moved = EventKind::Moved {
            from: "a".to_owned(),
            kind: transfer_kind("map/0000/003.runs").to_owned(),
            bytes: 3,
            ms: 4,
            direct: true,
        };
        let all = [
            event(5, EventKind::Start),
            event(7, done),
            event(8, EventKind::Lost("x".to_owned())),
            event(9, moved),
        ];
        EventLog::append(run.path())
            .unwrap()
            .write(&all[0])
            .unwrap();
        EventLog::append_as(run.path(), "../n")
            .unwrap()
            .write(&all[2])
            .unwrap();
        let events = EventLog::append(run.path()).unwrap();
        [&all[1], &all[3]]
            .iter()
            .for_each(|event| events.write(event).unwrap());
        assert_eq!(EventLog::read(run.path()).unwrap(), all);
        let path = run.path().join(EVENTS_FILE);
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let text = "{\"time_ms\":5,\"task\":\"map-0000\",\"host\":\"\\\"é\\n\",\"slot\":1,\"what\":\"start\"}\n\
                    {\"time_ms\":7,\"task\":\"map-0000\",\"host\":\"\\\"é\\n\",\"slot\":1,\"what\":{\"done\":{\"bytes_in\":1,\"bytes_out\":2}}}\n";
        let written = fs::read_to_string(&path).unwrap();
        assert!(written.starts_with(text), "{written}");
        let last = "\"what\":{\"moved\":{\"from\":\"a\",\"goods\":\"runs\",\"bytes\":3,\"ms\":4,\"direct\":true}}}\n";
        assert!(written.ends_with(last), "{written}");
        assert!(run.path().join("events/.._n.jsonl").exists());
    }

    #[test]
    fn a_torn_line_is_ignored_and_an_invalid_one_is_reported() {
        let run = tempfile::tempdir().unwrap();
        let path = run.path().join(EVENTS_FILE);
        EventLog::append(run.path())
            .unwrap()
            .write(&event(5, EventKind::Start))
            .unwrap();
        let whole = fs::read(&path).unwrap();
        for end in 0..whole.len() {
            fs::write(&path, [&whole, &whole[..end]].concat()).unwrap();
            assert_eq!(EventLog::read(run.path()).unwrap().len(), 1);
            EventLog::append(run.path())
                .unwrap()
                .write(&event(6, EventKind::Start))
                .unwrap();
            assert_eq!(
                EventLog::read(run.path()).unwrap(),
                [event(5, EventKind::Start), event(6, EventKind::Start)]
            );
        }
        fs::write(&path, [whole.as_slice(), b"{}\n", &whole].concat()).unwrap();
        let error = EventLog::read(run.path()).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!(
                "{}:2: not an event: missing field",
                path.display()
            )),
            "{error}"
        );
    }
}
