//! The files of a collection that is cleaned, and where each is written.

use crate::{
    base::{
        error::{Error, Place, Result},
        files::durable,
        num::ToU64,
    },
    commands::Settings,
    text::corpus::{
        self, CorpusSlice, CorpusWalk, FileEntry, FilePart, Packing, SkippedFile, Source, WalkItem,
        rewrite::{ShardContent, ShardForm},
    },
};
use std::{
    collections::{BTreeSet, HashMap},
    ffi::OsStr,
    fs,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

/// Texts are often packed to about this part.
const PACKED_PART: u64 = 4;

/// A file of the collection.
#[derive(Debug, Clone)]
pub struct Shard {
    /// The file.
    pub entry: FileEntry,
    /// How it holds its documents.
    pub form: ShardForm,
    /// The path of the cleaned file, below the directory for all of them.
    pub output: PathBuf,
    /// What records call it, if not by its path.
    shown: Option<Arc<str>>,
}

impl Shard {
    /// What records call it.
    pub fn name(&self) -> Arc<str> {
        self.shown.clone().unwrap_or_else(|| self.entry.name())
    }

    /// Whether it is one document, which is copied or not.
    pub fn is_document(&self) -> bool {
        matches!(self.form.content, ShardContent::Document { .. })
    }

    /// Refuses a file that is not what it was when it was listed.
    pub fn ensure_unchanged(&self) -> Result<()> {
        let (path, id) = (self.entry.path.clone(), &self.entry.id);
        let now = match &self.entry.copy {
            Some(copy) => FileEntry::copied(path, id, copy.clone()),
            None => FileEntry::named(path, id),
        };
        let now = now.map_err(|problem| Error::damaged(problem.place, problem.what))?;
        if (now.bytes, now.modified) == (self.entry.bytes, self.entry.modified) {
            return Ok(());
        }
        Err(changed(&self.entry))
    }
}

/// The message about a file that changed between two readings.
pub fn changed(entry: &FileEntry) -> Error {
    let what = "changed while the collection was being cleaned; start again";
    Error::damaged(Place::file(entry.name()), what)
}

/// A shard of a slice, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceShard {
    /// The number of the shard in the list of all.
    pub number: usize,
    /// The number of its line in the slice.
    pub line: usize,
    /// The first record that another part has, if there is one behind this.
    pub records_end: Option<u64>,
}

/// The files of a collection, in the order in which they are read.
#[derive(Debug, Default)]
pub struct ShardList {
    /// Files that can be written again.
    pub shards: Vec<Shard>,
    /// Files that cannot: their documents take no part.
    pub left_out: Vec<SkippedFile>,
    /// How many files were taken out by [`without`](Self::without).
    pub taken_out: u64,
    /// What was passed over when directories were walked; reading reports it, too.
    pub passed: Vec<String>,
    by_name: HashMap<String, usize>,
}

impl ShardList {
    /// Lists the files that the options name. The paths of outputs keep the directories below a directory that was given; of several that
    /// were given each also keeps its own name.
    pub fn find(options: &corpus::Options) -> Result<Self> {
        let mut list = Self::default();
        for path in &options.paths {
            let prefix = if options.paths.len() > 1 && path.is_dir() {
                named_part(path)
            } else {
                PathBuf::new()
            };
            let of_path = corpus::Options {
                paths: vec![path.clone()],
                ..options.clone()
            };
            for item in CorpusWalk::new(&of_path)? {
                match item {
                    WalkItem::File(entry) => list.add(entry, path, &prefix, options)?,
                    WalkItem::Failed(error) => return Err(error),
                    WalkItem::Problem(problem) => list.passed.push(problem.to_string()),
                    WalkItem::Skipped(skipped) => list.passed.push(skipped.problem.to_string()),
                }
            }
        }
        list.ensure_outputs_differ()?;
        Ok(list)
    }

    /// Adds the files of a slice as a whole, even if the slice has only parts of them. `left_out`: files that take no part, by what
    /// messages call them. Returns what the slice has of which shard.
    pub fn add_whole(
        &mut self,
        slice: CorpusSlice,
        options: &corpus::Options,
        left_out: &BTreeSet<String>,
    ) -> Result<Vec<SliceShard>> {
        let mut of_slice = Vec::new();
        for (line, item) in slice.entries(None).enumerate() {
            let entry = match item {
                WalkItem::File(entry) => entry,
                WalkItem::Failed(error) => return Err(error),
                // Reading reports them.
                WalkItem::Problem(_) | WalkItem::Skipped(_) => continue,
            };
            if left_out.contains(&*entry.name()) {
                continue;
            }
            let part = entry.part.clone();
            let name = entry.name();
            if part.as_ref().is_none_or(|part| part.is_first()) {
                let entry = FileEntry {
                    part: None,
                    ..entry
                };
                self.add_as(entry, line.to_string().into(), options);
            }
            let ends = |part: &Arc<FilePart>| (!part.is_last()).then_some(part.numbers[1]);
            // A file that cannot be written again is not in the list.
            of_slice.extend(self.find_file(&name).map(|number| SliceShard {
                number,
                line,
                records_end: part.as_ref().and_then(ends),
            }));
        }
        Ok(of_slice)
    }

    /// Adds the files of a slice. The output of each is named by its number in the slice. `copies`: where copies of the files are, if
    /// they are read elsewhere; `left_out`: files that take no part, by what messages call them.
    pub fn add_slice(
        &mut self,
        slice: CorpusSlice,
        copies: Option<&Path>,
        options: &corpus::Options,
        left_out: &BTreeSet<String>,
    ) -> Result<()> {
        let entries = slice.entries(copies.map(Path::to_owned));
        for (number, item) in entries.enumerate() {
            match item {
                WalkItem::File(entry) if left_out.contains(&*entry.name()) => {}
                WalkItem::File(entry) => {
                    self.add_as(entry, number.to_string().into(), options);
                }
                WalkItem::Failed(error) => return Err(error),
                // Reading reports them.
                WalkItem::Problem(_) | WalkItem::Skipped(_) => {}
            }
        }
        Ok(())
    }

    /// Reads the documents of all files, in order.
    pub(super) fn source(&self, settings: &Settings) -> Result<Source> {
        let entries = self.shards.iter().map(|shard| shard.entry.clone());
        let options = settings.corpus.clone();
        Source::of(entries.collect(), options, settings.limits.threads)
    }

    fn add(
        &mut self,
        entry: FileEntry,
        root: &Path,
        prefix: &Path,
        options: &corpus::Options,
    ) -> Result<()> {
        if !entry.is_regular {
            let what =
                "not a regular file, and the collection is read twice; write it to a file first";
            return Err(Error::damaged(Place::file(entry.name()), what));
        }
        let below = entry.path.strip_prefix(root).ok();
        let output = match below.filter(|below| *below != Path::new("")) {
            Some(below) => prefix.join(below),
            None => PathBuf::from(entry.path.file_name().unwrap_or(OsStr::new("stdin"))),
        };
        self.add_as(entry, output, options);
        Ok(())
    }

    fn add_as(&mut self, entry: FileEntry, output: PathBuf, options: &corpus::Options) {
        match ShardForm::of(&entry, options) {
            // Reading reports it.
            Err(None) => {}
            Err(Some(skipped)) => self.left_out.push(skipped),
            Ok(form) => {
                self.by_name
                    .insert(entry.name().to_string(), self.shards.len());
                self.shards.push(Shard {
                    entry,
                    form,
                    output,
                    shown: None,
                });
            }
        }
    }

    /// Lets records call a file by another name.
    pub fn rename(&mut self, path: &Path, name: &str) {
        for shard in &mut self.shards {
            if shard.entry.path == path {
                shard.shown = Some(name.into());
            }
        }
    }

    /// What records call a file, by what messages call it.
    pub fn shown_name(&self, file: &str) -> String {
        let shard = self.find_file(file).map(|number| &self.shards[number]);
        shard.map_or_else(|| file.to_owned(), |shard| shard.name().to_string())
    }

    /// The same without some files, given by what messages call them.
    pub fn without(&self, files: &BTreeSet<String>) -> Self {
        let stays = |shard: &&Shard| !files.contains(&*shard.entry.name());
        let shards: Vec<_> = self.shards.iter().filter(stays).cloned().collect();
        let numbers = shards.iter().enumerate();
        let by_name = numbers.map(|(number, shard)| (shard.entry.name().to_string(), number));
        Self {
            by_name: by_name.collect(),
            left_out: self.left_out.clone(),
            passed: self.passed.clone(),
            taken_out: self.taken_out + self.shards.len().to_u64() - shards.len().to_u64(),
            shards,
        }
    }

    /// The number of a file, by what messages call it.
    pub fn find_file(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The bytes of all files together, on disk.
    pub fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.entry.bytes).sum()
    }

    /// What they hold, unpacked: a guess, as packed files need not say.
    pub fn unpacked_bytes(&self) -> u64 {
        let unpacked = |shard: &Shard| match shard.form.packing {
            Packing::Plain => shard.entry.bytes,
            _ => shard.entry.bytes * PACKED_PART,
        };
        self.shards.iter().map(unpacked).sum()
    }

    fn ensure_outputs_differ(&self) -> Result<()> {
        let mut files: HashMap<PathBuf, &FileEntry> = HashMap::new();
        for shard in &self.shards {
            if let Some(other) = files.insert(absolute(&shard.entry.path)?, &shard.entry) {
                let what = format!("the same file as {}; give it once", other.name());
                return Err(Error::damaged(Place::file(shard.entry.name()), what));
            }
        }
        let mut seen: HashMap<&Path, &FileEntry> = HashMap::new();
        for shard in &self.shards {
            if let Some(other) = seen.insert(&shard.output, &shard.entry) {
                let what = format!(
                    "would be written to {}, as would {}; give the directory that holds both",
                    shard.output.display(),
                    other.name()
                );
                return Err(Error::damaged(Place::file(shard.entry.name()), what));
            }
        }
        Ok(())
    }

    /// Refuses a file for records that is one of the input or of the output, or in a directory that is read.
    pub fn ensure_not_read(
        &self,
        file: &Path,
        read: &[PathBuf],
        target: Option<&Path>,
    ) -> Result<()> {
        let file = absolute(file)?;
        let is_output = |target: &Path, shard: &Shard| {
            absolute(target).is_ok_and(|target| target.join(&shard.output) == file)
        };
        let name = file.display();
        if let Some(target) = target
            && self.shards.iter().any(|shard| is_output(target, shard))
        {
            return Err(Error::Usage(format!(
                "{name}: a cleaned file goes there; give the records another name"
            )));
        }
        for path in read {
            if file.starts_with(absolute(path)?) {
                return Err(Error::Usage(format!(
                    "{name}: is read, as {} is; give the records another place",
                    path.display()
                )));
            }
        }
        Ok(())
    }

    /// Refuses a directory for the output that is a part of the input, or holds it.
    pub fn ensure_apart(&self, roots: &[PathBuf], target: &Path) -> Result<()> {
        let target = absolute(target)?;
        for root in roots.iter().filter(|root| root.is_dir()) {
            if target.starts_with(absolute(root)?) {
                return Err(Error::Usage(format!(
                    "{}: it is inside of {}, which is read; give a directory outside",
                    target.display(),
                    root.display()
                )));
            }
        }
        for shard in &self.shards {
            if absolute(&shard.entry.path)? == target.join(&shard.output) {
                return Err(Error::Usage(format!(
                    "{}: would be written over; give another directory for the output",
                    shard.entry.path.display()
                )));
            }
        }
        Ok(())
    }
}

/// The path without links and dots, as far as it exists.
pub fn absolute(path: &Path) -> Result<PathBuf> {
    let failed = |error| Error::io(path.display(), error);
    if let Ok(path) = fs::canonicalize(path) {
        return Ok(path);
    }
    let path = std::path::absolute(path).map_err(failed)?;
    let parent = absolute(durable::parent_of(&path))?;
    Ok(parent.join(path.file_name().unwrap_or_default()))
}

/// The last name of a path: `b` of `a/b/`.
fn named_part(path: &Path) -> PathBuf {
    let mut names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    names.next_back().map_or_else(PathBuf::new, PathBuf::from)
}
