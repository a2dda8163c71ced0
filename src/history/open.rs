//! Opens a history, or makes one.

use super::{
    helpers::Helpers,
    journal::{Journal, Line, Replayed, altered, is_blank, replay},
    manifest::{Manifest, ensure_new, journal_path},
    merge::Worker,
    segment::{Entries, Segment},
    store::{ALONE, Held, History, Options, Writing},
    upkeep::{Upkeep, count_within},
    young::Young,
};
use crate::{
    error::{Error, Place, Problem, Result},
    files::durable,
    index::WriteLock,
    scheme::PrintScheme,
    token::{Rule, Tokenizer},
};
use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, atomic::AtomicBool},
};

/// How often a reader tries again, if a writer changes the history while it is opened.
const ATTEMPTS: u32 = 20;
/// Lines of a journal that are taken into memory together.
const TAKEN: usize = 16;

/// Refuses a directory that holds no history.
pub fn ensure_is(directory: &Path) -> Result<()> {
    let none = || Error::damaged(Place::path(directory), "no history is here (there is no manifest.json)");
    Manifest::read(directory)?.map(drop).ok_or_else(none)
}

impl History {
    /// Opens a history, or makes one where the directory is empty or not there; and says what of it was lost to a crash.
    ///
    /// Takes as long as reading the journal does, 262,144 entries or little more: segments are mapped.
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
        let (journals, blank) = history.journals()?;
        for path in blank {
            fs::remove_file(&path).map_err(|error| Error::io(path.display(), error))?;
        }
        let mut notes = Vec::new();
        let hurry = Arc::new(AtomicBool::new(false));
        let resting = || Worker::start(history.options.serves.then(|| hurry.clone()));
        let mut workers = Some((resting()?, [resting()?, resting()?], Worker::start(None)?, lock));
        let (count, replayed) = (journals.len(), history.replay(&journals)?);
        let first = replayed.first().map_or(0, |(_, replayed)| replayed.first_sequence);
        for (at, (number, replayed)) in replayed.into_iter().enumerate() {
            let path = journal_path(directory, number);
            if replayed.torn_bytes > 0 {
                notes.push(Problem::new(Place::path(&path), torn(&replayed)));
            }
            let journal = Journal::append_to(&path, &replayed, history.options.sync)?;
            if let Some((small, merges, commits, lock)) = workers.take() {
                let upkeep = Upkeep::default();
                let (journal_number, next_journal, hurry) = (number, None, hurry.clone());
                history.writing = Some(Writing { journal, journal_number, next_journal, small, merges, commits, hurry, upkeep, lock });
            } else {
                let writing = history.writing()?;
                (writing.journal, writing.journal_number) = (journal, number);
            }
            history.take_all(&replayed);
            if at + 1 < count {
                history.keep_young(number, None, Young::default());
            }
        }
        history.drop_stray_removals(first);
        history.forget();
        history.plan();
        if history.young.count() >= history.most_young() {
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
        durable::sync_ancestors(directory)?;
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
        let (journals, _) = history.journals()?;
        let count = journals.len();
        for (at, (number, replayed)) in history.replay(&journals)?.into_iter().enumerate() {
            history.take_all(&replayed);
            if at + 1 < count {
                history.keep_young(number, None, Young::default());
            }
        }
        Ok(history)
    }

    /// The segments, mapped.
    fn load(directory: &Path, options: Options, mut manifest: Manifest) -> Result<Self> {
        let place = || Place::path(directory);
        let scheme: PrintScheme = manifest.scheme.parse().map_err(|what: String| Error::damaged(place(), what))?;
        if let Some(asked) = options.scheme.as_ref().filter(|asked| **asked != scheme) {
            let remedy = "prints of two schemes cannot be compared; give the options that the history was made with, or use another one";
            return Err(Error::Scheme { place: place(), found: scheme.to_string(), expected: asked.to_string(), remedy });
        }
        let mut segments = Vec::new();
        for listed in &manifest.segments {
            let segment = Segment::open(&directory.join(&listed.file.name), listed.level)?;
            listed.file.ensure_is(&segment.file)?;
            segments.push(Held { segment: Arc::new(segment), is_busy: false, removed: 0 });
        }
        let next_sequence = segments.last().map_or(0, |held| held.segment.shape.sequences[1] + 1);
        let last_time = segments.iter().map(|held| held.segment.shape.times[1]).max().unwrap_or_default();
        // Of an entry that is in no file the journals tell: if it was lost with them, its number may be that of another one.
        let removed: HashSet<u64> = manifest.removed.drain(..).filter(|&sequence| sequence < next_sequence).collect();
        segments.iter_mut().for_each(|held| held.removed = count_within(&removed, held.segment.shape.sequences));
        let (removed, waiting, young, writing) = (Arc::new(removed), Vec::new(), Young::default(), None);
        let (directory, pace) = (directory.to_owned(), ALONE);
        let (helpers, scratches) = (Helpers::start(options.threads.saturating_sub(1))?, Mutex::default());
        Ok(Self {
            directory,
            options,
            manifest,
            scheme,
            segments,
            waiting,
            young,
            removed,
            next_sequence,
            last_time,
            helpers,
            scratches,
            pace,
            writing,
        })
    }

    /// The numbers of the journals: that of the manifest, and those after it; and the paths of those made ahead of their time.
    fn journals(&self) -> Result<(Vec<u64>, Vec<PathBuf>)> {
        let first = self.manifest.journal;
        let path = |number: u64| journal_path(&self.directory, number);
        let mut journals = Vec::new();
        for number in first.. {
            // One look tells whether it is there and what is in it: a writer may remove one that it made ahead at any time.
            match path(number).metadata() {
                Ok(file) => journals.push((number, file.len())),
                Err(error) if error.kind() == io::ErrorKind::NotFound && number > first => break,
                Err(error) => return Err(Error::io(path(number).display(), error)),
            }
        }
        let mut blank = Vec::new();
        while let [_, .., (last, bytes)] = journals[..]
            && is_blank(bytes)
        {
            blank.push(path(last));
            journals.pop();
        }
        Ok((journals.into_iter().map(|(number, _)| number).collect(), blank))
    }

    /// Reads the journals, at most as many as may wait to be made into files. Each may end in the middle of a group: none need have been
    /// on disk when the machine died, unless a later one says so.
    ///
    /// The last is read first: so whatever is in one is in what is read of those before it, even if somebody writes meanwhile.
    fn replay(&self, journals: &[u64]) -> Result<Vec<(u64, Replayed)>> {
        let (mut all, mut is_promised) = (Vec::new(), false);
        for &number in journals.iter().rev() {
            let path = journal_path(&self.directory, number);
            let replayed = replay(&path)?;
            if is_promised && replayed.torn_bytes > 0 {
                return Err(altered(&path, replayed.whole_bytes));
            }
            is_promised |= replayed.is_promised;
            all.push((number, replayed));
        }
        all.reverse();
        let mut expected = self.next_sequence;
        for (number, Replayed { first_sequence, lines, .. }) in &all {
            if *first_sequence < expected {
                let what = format!("starts with entry {first_sequence}, expected {expected}; it is of another history");
                return Err(Error::damaged(Place::path(&journal_path(&self.directory, *number)), what));
            }
            expected = first_sequence + lines.iter().filter(|line| matches!(line, Line::Add(_))).count() as u64;
        }
        Ok(all)
    }

    /// Takes what a journal has. Numbers of entries that were lost before it are not given again.
    fn take_all(&mut self, replayed: &Replayed) {
        self.next_sequence = replayed.first_sequence;
        self.take(&replayed.lines);
    }

    /// Takes lines of the journal into memory.
    pub(super) fn take(&mut self, lines: &[Line]) {
        for some in lines.chunks(TAKEN) {
            let print = |line: &Line| if let Line::Add(added) = line { Some(added.print) } else { None };
            self.young.prefetch_room(some.iter().filter_map(print));
            some.iter().for_each(|line| self.take_one(line));
        }
    }

    fn take_one(&mut self, line: &Line) {
        match line {
            Line::Remove(sequence) => {
                self.note_removed(*sequence);
            }
            Line::Add(added) => {
                self.next_sequence = added.sequence + 1;
                self.last_time = self.last_time.max(added.time);
                self.young.push(added);
            }
        }
    }
}

fn torn(replayed: &Replayed) -> String {
    let Replayed { whole_bytes, torn_bytes, .. } = replayed;
    format!(
        "{torn_bytes} bytes at its end, from byte {whole_bytes}, were not written to their end when the last run died; they are cut off"
    )
}
