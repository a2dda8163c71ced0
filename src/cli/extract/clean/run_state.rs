//! What a run has done so far, so that the same command can go on with it.

use super::input::Spool;
use crate::{
    base::files::{LOCK, WriteLock, durable},
    commands::{CleanAccount, ShardList},
};
use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// The directory with the state, in the directory for the output.
const STATE_DIRECTORY: &str = ".dedup-clean";
const STATE_FILE: &str = "state.json";
/// Of the state file.
const VERSION: u32 = 1;

/// How far a run has come.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// It has begun.
    Begun,
    /// Its index is complete.
    Indexed(Indexed),
    /// It is known what becomes of each record.
    Decided(Box<Decided>),
    /// All is written.
    Done(Box<Decided>),
}

/// What was seen when the index was made.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Indexed {
    /// Inputs that could not be used.
    pub problems: u64,
    /// Lines and rows that are no documents.
    pub other_records: u64,
    /// Files that could not be read to their ends.
    pub damaged: BTreeSet<String>,
}

/// What was decided.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Decided {
    /// Inputs that could not be used.
    pub problems: u64,
    /// Files that could not be read to their ends, and take no part.
    pub damaged: BTreeSet<String>,
    pub account: CleanAccount,
}

#[derive(Serialize, Deserialize)]
struct StateFile {
    dedup: String,
    version: u32,
    /// Of the settings and the files.
    fingerprint: String,
    progress: Progress,
}

/// The state of a run in its output directory.
pub struct RunState {
    directory: PathBuf,
    fingerprint: String,
    pub progress: Progress,
    /// The directory for the output was not there before.
    is_new: bool,
    lock: WriteLock,
}

impl RunState {
    /// Begins a run, or goes on with one of the same settings and files.
    /// `own`: files for records, which may be in the directory.
    pub fn open(
        target: &Path,
        fingerprint: String,
        own: &[PathBuf],
    ) -> Result<Self, anyhow::Error> {
        let (directory, is_new) = (target.join(STATE_DIRECTORY), !target.exists());
        let is_begun = directory.join(STATE_FILE).exists();
        if !is_begun {
            ensure_no_other_files(target, own)?;
        }
        durable::create_dir_all(&directory)?;
        let lock = WriteLock::take_of(&directory, "directory")?;
        let mut state = Self {
            directory,
            fingerprint,
            progress: Progress::Begun,
            is_new,
            lock,
        };
        if is_begun {
            state.progress = state.read(target)?;
            if matches!(state.progress, Progress::Begun | Progress::Indexed(_)) {
                ensure_no_other_files(target, own)?;
            }
        } else {
            state.advance(Progress::Begun)?;
        }
        Ok(state)
    }

    fn read(&self, target: &Path) -> Result<Progress, anyhow::Error> {
        let path = self.directory.join(STATE_FILE);
        let context = || path.display().to_string();
        let bytes = fs::read(&path).with_context(context)?;
        let state: StateFile = serde_json::from_slice(&bytes).with_context(context)?;
        if state.version != VERSION {
            bail!(
                "{}: made by another version; remove {}, and start again",
                path.display(),
                target.display()
            );
        }
        let has_written = matches!(state.progress, Progress::Decided(_) | Progress::Done(_));
        if state.fingerprint != self.fingerprint && !has_written {
            // Nothing of that run is of use.
            self.remove_all_but_state()?;
            return Ok(Progress::Begun);
        }
        if state.fingerprint != self.fingerprint {
            bail!(
                "{}: holds a run with other settings or files; give another directory, or remove this one",
                target.display()
            );
        }
        Ok(state.progress)
    }

    /// Notes how far the run has come; that survives a crash.
    pub fn advance(&mut self, progress: Progress) -> Result<(), anyhow::Error> {
        let state = StateFile {
            dedup: "clean".to_owned(),
            version: VERSION,
            fingerprint: self.fingerprint.clone(),
            progress,
        };
        let bytes = serde_json::to_vec(&state)?;
        durable::replace(&self.directory.join(STATE_FILE), &bytes)?;
        self.progress = state.progress;
        Ok(())
    }

    /// The directory for what is removed in the end.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Removes all but the state itself.
    pub fn finish(self) -> Result<(), anyhow::Error> {
        self.remove_all_but_state()?;
        self.lock.release(&self.directory)?;
        Ok(())
    }

    /// Removes the state of a run that failed before it wrote anything, and the directory for the output if it made that.
    pub fn abandon(self) {
        if matches!(self.progress, Progress::Decided(_) | Progress::Done(_)) {
            return;
        }
        let _ = fs::remove_dir_all(&self.directory);
        if self.is_new {
            let _ = fs::remove_dir(durable::parent_of(&self.directory));
        }
    }

    fn remove_all_but_state(&self) -> Result<(), anyhow::Error> {
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == STATE_FILE || name == LOCK {
                continue;
            }
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

/// Refuses a directory that holds files.
pub fn ensure_empty(target: &Path) -> Result<(), anyhow::Error> {
    ensure_no_other_files(target, &[])
}

/// Refuses a directory with files that are not of this run.
fn ensure_no_other_files(target: &Path, own: &[PathBuf]) -> Result<(), anyhow::Error> {
    if !target.exists() {
        return Ok(());
    }
    let entries = fs::read_dir(target).with_context(|| target.display().to_string())?;
    for entry in entries {
        let entry = entry?;
        let is_own = |own: &PathBuf| {
            own.file_name() == Some(&entry.file_name()) && own.parent() == Some(target)
        };
        if entry.file_name() != STATE_DIRECTORY && !own.iter().any(is_own) {
            bail!(
                "{}: holds files already; give a directory that is empty or does not exist",
                target.display()
            );
        }
    }
    Ok(())
}

/// Tells settings and files from others.
pub fn fingerprint(settings: &str, shards: &ShardList, stdin: Option<&Spool>) -> String {
    let mut text = settings.to_owned();
    for shard in &shards.shards {
        let (name, bytes) = (shard.name(), shard.entry.bytes);
        // The copy of stdin is a new file each time.
        let stamp = match stdin.filter(|spool| spool.path == shard.entry.path) {
            Some(spool) => [spool.checksum.cast_signed(), 0],
            None => shard.entry.modified,
        };
        text.push_str(&format!("\n{name:?} {bytes} {stamp:?}"));
    }
    format!("{:032x}", xxhash_rust::xxh3::xxh3_128(text.as_bytes()))
}
