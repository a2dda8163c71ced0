//! Opens a history, or makes one.

use super::{
    journal::{Journal, Line, Replayed, replay},
    manifest::{Manifest, ensure_new, journal_path},
    merge::Worker,
    segment::Segment,
    store::{Held, History, Options, Writing},
    tail::Tail,
};
use crate::{
    error::{Error, Place, Problem, Result},
    index::WriteLock,
    scheme::PrintScheme,
    token::{Rule, Tokenizer},
};
use std::{path::Path, sync::Arc};

/// How often a reader tries again, if a writer changes the history while it is opened.
const ATTEMPTS: u32 = 20;

/// Refuses a directory that holds no history.
pub fn ensure_is(directory: &Path) -> Result<()> {
    let none = || Error::damaged(Place::path(directory), "no history is here (there is no manifest.json)");
    Manifest::read(directory)?.map(drop).ok_or_else(none)
}

impl History {
    /// Opens a history, or makes one where the directory is empty or not there; and says what of it was lost to a crash.
    ///
    /// Takes as long as reading the journal does, 131,072 entries or little more: segments are mapped.
    pub fn open(directory: &Path, options: Options) -> Result<(Self, Vec<Problem>)> {
        if options.read_only {
            return Self::open_to_read(directory, &options);
        }
        if Manifest::read(directory)?.is_none() {
            ensure_new(directory)?;
        }
        let lock = WriteLock::take_of(directory, "history")?;
        let manifest = match Manifest::read(directory)? {
            Some(manifest) => manifest,
            None => Self::make(directory, &options)?,
        };
        manifest.sweep(directory)?;
        let mut history = Self::load(directory, options, manifest)?;
        let journals = history.journals();
        let mut notes = Vec::new();
        let (small, large) = (Worker::start()?, Worker::start()?);
        let last = journals.len() as u64 - 1 + history.manifest.journal;
        let mut entries = 0;
        let mut writing = Some((small, large, lock));
        for (number, is_last) in journals.into_iter().map(|number| (number, number == last)) {
            let path = journal_path(directory, number);
            let mut replayed = replay(&path, is_last)?;
            history.ensure_follows(&path, &replayed)?;
            if replayed.torn_bytes > 0 {
                notes.push(Problem::new(Place::path(&path), torn(&replayed)));
            }
            entries = replayed.lines.iter().filter(|line| matches!(line, Line::Add(_))).count() as u64;
            let lines = std::mem::take(&mut replayed.lines);
            if let Some((small, large, lock)) = writing.take_if(|_| is_last) {
                let journal = Journal::append_to(&path, &replayed, history.options.sync)?;
                history.writing = Some(Writing { journal, journal_number: number, journal_entries: entries, small, large, lock });
            }
            for line in lines {
                history.take(line)?;
            }
        }
        history.plan()?;
        if entries >= super::store::JOURNAL_ENTRIES {
            history.next_journal()?;
        }
        Ok((history, notes))
    }

    fn make(directory: &Path, options: &Options) -> Result<Manifest> {
        ensure_new(directory)?;
        let words = || PrintScheme { tokens: Tokenizer::new(Rule::Word, false).scheme() };
        let manifest = Manifest::new(options.scheme.clone().unwrap_or_else(words).to_string());
        drop(Journal::create(&journal_path(directory, manifest.journal), 0, super::SyncEvery::Never)?);
        manifest.commit(directory)?;
        Ok(manifest)
    }

    fn open_to_read(directory: &Path, options: &Options) -> Result<(Self, Vec<Problem>)> {
        let mut attempt = 0;
        loop {
            let none = || Error::damaged(Place::path(directory), "no history is here (there is no manifest.json)");
            let manifest = Manifest::read(directory)?.ok_or_else(none)?;
            match Self::read_all(directory, options, manifest.clone()) {
                Err(_) if attempt < ATTEMPTS && Manifest::read(directory)?.as_ref() != Some(&manifest) => attempt += 1,
                other => return other.map(|history| (history, Vec::new())),
            }
        }
    }

    /// What is whole; a group that is just being written is not there yet.
    fn read_all(directory: &Path, options: &Options, manifest: Manifest) -> Result<Self> {
        let mut history = Self::load(directory, options.clone(), manifest)?;
        let journals = history.journals();
        for (at, &number) in journals.iter().enumerate() {
            let path = journal_path(directory, number);
            let replayed = replay(&path, at + 1 == journals.len())?;
            history.ensure_follows(&path, &replayed)?;
            for line in replayed.lines {
                history.take(line)?;
            }
        }
        Ok(history)
    }

    /// The segments, mapped.
    fn load(directory: &Path, options: Options, manifest: Manifest) -> Result<Self> {
        let place = || Place::path(directory);
        let scheme: PrintScheme = manifest.scheme.parse().map_err(|what: String| Error::damaged(place(), what))?;
        if let Some(asked) = options.scheme.as_ref().filter(|asked| **asked != scheme) {
            let remedy = "prints of two schemes cannot be compared; give the options that the history was made with, or use another one";
            return Err(Error::Scheme { place: place(), found: scheme.to_string(), expected: asked.to_string(), remedy });
        }
        let mut segments = Vec::new();
        for listed in &manifest.segments {
            let segment = Segment::open(listed.file.open(directory)?, listed.level)?;
            segments.push(Held { segment: Arc::new(segment), is_busy: false });
        }
        let next_sequence = segments.last().map_or(0, |held| held.segment.shape.sequences[1] + 1);
        let last_time = segments.iter().map(|held| held.segment.shape.times[1]).max().unwrap_or_default();
        let (removed, tail, writing) = (manifest.removed.iter().copied().collect(), Tail::default(), None);
        let directory = directory.to_owned();
        Ok(Self { directory, options, manifest, scheme, segments, tail, removed, next_sequence, last_time, writing })
    }

    /// The numbers of the journals: that of the manifest, and those after it.
    fn journals(&self) -> Vec<u64> {
        let first = self.manifest.journal;
        let later = (first + 1..).take_while(|&number| journal_path(&self.directory, number).exists());
        std::iter::once(first).chain(later).collect()
    }

    fn ensure_follows(&mut self, path: &Path, replayed: &Replayed) -> Result<()> {
        if replayed.first_sequence < self.next_sequence {
            let what = format!("starts with entry {}, expected {}; it is of another history", replayed.first_sequence, self.next_sequence);
            return Err(Error::damaged(Place::path(path), what));
        }
        self.next_sequence = replayed.first_sequence;
        Ok(())
    }
}

fn torn(replayed: &Replayed) -> String {
    let Replayed { whole_bytes, torn_bytes, .. } = replayed;
    format!(
        "{torn_bytes} bytes at its end, from byte {whole_bytes}, were not written to their end when the last run died; they are cut off"
    )
}
