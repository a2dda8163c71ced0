//! The tasks that write the files of the corpus again: deciding for all documents, writing a slice, and placing all files.

use super::{execute::write_atomically, gather::input_of};
use crate::{
    base::{
        error::{Error, Place, Problem, Result},
        files::{TempDir, durable},
        num::ToU64,
        parallel::Limits,
        setting::Setting,
        share::Share,
    },
    cluster::plan::{CleanPlan, Plan, PlanOptions, SharedIndex, fates_name},
    commands::{
        BuildOptions, BuildRecord, CleanAccount, CleanOptions, CleanRecords, Cleaned, Collection,
        LeaveOut, NoObserver, Observer, Settings, Shard, ShardList, ShardWriter, SliceFates,
        SliceShard, StepOptions, WrittenShards, build, decide_fates, find_copies, split_fates,
    },
    index::{Index, Resources},
    report::PackedRecords,
    text::corpus::{self, CorpusSlice, FilePart, SkippedFile, SliceFile},
};
use std::{
    collections::BTreeSet,
    collections::HashMap,
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
    thread,
};

/// Files of the decide task besides the fates, and of the place task.
const ACCOUNT: &str = "account.json";
const DROPPED: &str = "dropped";
const CUTS: &str = "cuts";
/// The file of a copies task.
const COPIES: &str = "copies";
/// Files of the decide task while it runs.
const FATES: &str = "fates";
const AGAINST: &str = "against";
/// The directory for files that are being copied, in the directory for the cleaned files.
const PARTIAL: &str = ".dedup-clean";

/// The cleaning of a corpus by tasks.
pub struct Cleaning<'a> {
    plan: &'a Plan,
    clean: &'a CleanPlan,
    run: &'a Path,
}

/// What was decided and written, and what could not be used.
#[derive(Debug)]
pub struct CleanOutcome {
    /// What was read, decided and written.
    pub account: CleanAccount,
    /// Inputs that could not be used, besides those of the index.
    pub problems: Vec<String>,
}

impl CleanOutcome {
    /// Reads what the place task of a run noted; none if the run cleans nothing, or has not come so far.
    pub fn read(plan: &Plan, run: &Path) -> Result<Option<Self>> {
        let placed = run.join("place");
        if plan.options.clean.is_none() || !placed.exists() {
            return Ok(None);
        }
        Ok(Some(Self {
            account: read_account(&placed)?,
            problems: BuildRecord::read(&placed)?.problems,
        }))
    }
}

impl<'a> Cleaning<'a> {
    /// The cleaning that a plan asks for.
    pub fn new(plan: &'a Plan, run: &'a Path) -> Result<Self> {
        let clean = plan.options.clean.as_ref();
        let clean =
            clean.ok_or_else(|| Error::Usage("the plan does not clean the corpus".to_owned()))?;
        Ok(Self { plan, clean, run })
    }

    fn options(&self) -> &PlanOptions {
        &self.plan.options
    }

    fn slice(&self, number: usize, name: &str) -> Result<CorpusSlice> {
        let path = self.run.join(name);
        let slice = CorpusSlice::open(&path)?;
        let planned = self.plan.slices.get(number);
        if planned.is_some_and(|planned| planned.checksum == slice.checksum()) {
            return Ok(slice);
        }
        let what = "not the slice that was planned; it was altered; plan anew";
        Err(Error::damaged(Place::path(&path), what))
    }

    /// Finds, for a share of the documents, which others have enough of each.
    pub fn copies(
        &self,
        step: &StepOptions,
        of: &SharedIndex,
        share: Share,
        output: &Path,
    ) -> Result<()> {
        // No part is needed.
        let index = Index::open_range(&self.run.join(&of.index), 0..0, None)?;
        let (rules, limits) = (&self.clean.rules, Limits::new(1, self.options().memory));
        let uses = self.run.join(&of.uses);
        step.make(output, |directory| {
            find_copies(rules, limits, &index, &uses, share, &directory.join(COPIES))
        })
    }

    /// Decides what becomes of each document. It runs alone, so it uses all cores.
    pub fn decide(
        &self,
        step: &StepOptions,
        index: &Path,
        copies: &[PathBuf],
        slices: &[String],
        output: &Path,
    ) -> Result<()> {
        let input = input_of(self.run)?.ok_or_else(|| {
            let what =
                "the account of what was read is missing; remove the index there, and run it again";
            Error::damaged(Place::path(self.run), what)
        })?;
        if let (Some(first), false) = (input.damaged.first(), self.options().skip_bad) {
            return Err(Error::Usage(format!(
                "{} files could not be read to their ends (the first is {first}), so nothing is written; repair them, or plan anew with {}",
                input.damaged.len(),
                Setting::SkipBad
            )));
        }
        let reading = self.options().reading_here();
        let mut shards = ShardList::default();
        let mut of_slices: Vec<Vec<SliceShard>> = Vec::new();
        for (number, name) in slices.iter().enumerate() {
            let slice = self.slice(number, name)?;
            of_slices.push(shards.add_whole(slice, &reading, &input.damaged)?);
        }
        step.make_plain(output, |beside| {
            let mut problems: Vec<String> = shards
                .left_out
                .iter()
                .map(|skipped| skipped.problem.to_string())
                .collect();
            let against = self.against(beside, &mut problems)?;
            let collection = Collection {
                shards: &shards,
                index: &Index::open_whole(index)?,
                has_placed_ids: true,
                settings: &self.settings(reading),
                against: &against,
                given: self.clean.against.len(),
                copies,
            };
            let fates = beside.join(FATES);
            let mut cleaned = self.decide_fates(&collection, &fates, beside)?;
            let target = |slice: usize| beside.join(fates_name(slice));
            let ranges = std::mem::take(&mut cleaned.fates);
            split_fates(&fates, &ranges, &of_slices, target)?;
            drop(against);
            remove_work_files(beside)?;
            let account = CleanAccount {
                shards: shards.shards.len().to_u64(),
                bytes_read: shards.bytes(),
                shards_left_out: shards.left_out.len().to_u64() + input.damaged.len().to_u64(),
                other_records: input.account.records_left_out,
                cleaned,
                ..CleanAccount::default()
            };
            write_account(&account, beside)?;
            Ok(problems)
        })
    }

    fn decide_fates(
        &self,
        collection: &Collection<'_>,
        fates: &Path,
        directory: &Path,
    ) -> Result<Cleaned> {
        let options = CleanOptions {
            rules: self.clean.rules.clone(),
            max_df: None,
            limits: Limits::new(threads(), self.options().memory),
            leave_out: LeaveOut::default(),
            tmp_dir: TempDir(None),
        };
        let open = |name: &str, asked: &Option<String>| {
            let path = directory.join(name);
            let open = |asked: &String| {
                File::create(&path)
                    .and_then(|file| PackedRecords::new(Path::new(asked), file))
                    .map_err(|error| Error::io(path.display(), error))
            };
            asked.as_ref().map(open).transpose()
        };
        let mut dropped = open(DROPPED, &self.clean.dropped)?;
        let mut cuts = open(CUTS, &self.clean.cuts)?;
        let records = CleanRecords {
            dropped: dropped.as_mut().map(PackedRecords::target),
            cuts: cuts.as_mut().map(PackedRecords::target),
        };
        let cleaned = decide_fates(&options, collection, fates, records, &mut NoObserver)?;
        for records in dropped.into_iter().chain(cuts) {
            records.finish().map_err(Error::output)?;
        }
        Ok(cleaned)
    }

    /// How documents are read by the only task that runs.
    fn settings(&self, reading: corpus::Options) -> Settings {
        let settings = self.options().settings(reading);
        Settings {
            limits: Limits {
                threads: threads(),
                ..settings.limits
            },
            ..settings
        }
    }

    /// The indexes of other collections; those of documents are made.
    fn against(&self, directory: &Path, problems: &mut Vec<String>) -> Result<Vec<Index>> {
        let mut indexes = Vec::new();
        for path in &self.clean.against {
            indexes.push(Index::open_whole(Path::new(path))?);
        }
        if self.clean.against_documents.is_empty() {
            return Ok(indexes);
        }
        let options = BuildOptions {
            blots: self.options().blots_in(self.run),
            parts: 1,
            dictionary: false,
            resources: Resources {
                threads: threads(),
                ..self.options().resources()
            },
        };
        let settings = self.settings(corpus::Options {
            paths: self
                .clean
                .against_documents
                .iter()
                .map(PathBuf::from)
                .collect(),
            relative: self.clean.relative,
            placed_ids: true,
            ..self.options().reading_here()
        });
        let path = directory.join(AGAINST);
        build(&options, &settings, &path, &mut ProblemList(problems))?;
        indexes.push(Index::open_whole(&path)?);
        Ok(indexes)
    }

    /// Writes the files of a slice again, each named by its number there.
    pub fn write(
        &self,
        step: &StepOptions,
        (number, name): (usize, &str),
        fates: &Path,
        copies: Option<&Path>,
        output: &Path,
    ) -> Result<()> {
        let reading = self.options().reading_here();
        let mut shards = ShardList::default();
        shards.add_slice(
            self.slice(number, name)?,
            copies,
            &reading,
            &BTreeSet::new(),
        )?;
        let wanted = SliceFates::read(fates)?.shards;
        let (mut ranges, mut numbers) = (vec![0..0; shards.shards.len()], Vec::new());
        for (line, range) in wanted {
            let is_it = |shard: &Shard| shard.output.to_str() == Some(line.to_string().as_str());
            let Some(at) = shards.shards.iter().position(is_it) else {
                let what = format!("file {line} of the slice cannot be read on this machine");
                return Err(Error::damaged(Place::path(&self.run.join(name)), what));
            };
            ranges[at] = range;
            numbers.push(at);
        }
        let writer = ShardWriter {
            shards: &shards,
            fates,
            ranges: &ranges,
            reading: &reading,
            annotates: self.clean.rules.annotate,
        };
        step.make_plain(output, |beside| {
            for number in numbers {
                writer.write_one(number, beside, beside)?;
            }
            Ok(Vec::new())
        })
    }

    /// Puts all cleaned files into their directory, then the records and the report.
    pub fn place(
        &self,
        step: &StepOptions,
        decided: &Path,
        slices: &[String],
        written: &[String],
        output: &Path,
    ) -> Result<()> {
        step.make_plain(output, |beside| {
            let mut account = read_account(decided)?;
            account.finish(self.place_files(slices, written)?);
            for (name, asked) in [(DROPPED, &self.clean.dropped), (CUTS, &self.clean.cuts)] {
                if let Some(asked) = asked {
                    let (from, to) = (decided.join(name), Path::new(asked));
                    let failed = |error| Error::io(from.display(), error);
                    let mut file = File::open(&from).map_err(failed)?;
                    write_atomically(to, |out| io::copy(&mut file, out).map(drop).map_err(failed))?;
                }
            }
            if let Some(report) = &self.clean.report {
                let (path, json) = (Path::new(report), account.to_json()?);
                write_atomically(path, |out| out.write_all(&json).map_err(Error::output))?;
            }
            write_account(&account, beside)?;
            Ok(BuildRecord::read(decided)?.problems)
        })
    }

    fn place_files(&self, slices: &[String], written: &[String]) -> Result<WrittenShards> {
        let target = Path::new(&self.clean.output);
        let partial = target.join(PARTIAL);
        let mut sum = WrittenShards::default();
        let mut joined: Option<JoinedFile> = None;
        durable::create_dir_all(target)?;
        for (number, (name, written)) in slices.iter().zip(written).enumerate() {
            let slice = self.slice(number, name)?;
            let originals: HashMap<usize, SliceFile<'_>> =
                slice.documents().map(|file| (file.number, file)).collect();
            for (line, output) in slice.outputs() {
                let mut from = self.run.join(written).join(line.to_string());
                // A document that goes, or a file that takes no part.
                if !from.exists() {
                    continue;
                }
                let mut parts = Path::new(output).components();
                if !parts.all(|part| matches!(part, Component::Normal(_))) {
                    let what = format!("{output}: leads out of the directory; plan anew");
                    return Err(Error::damaged(Place::path(&self.run.join(name)), what));
                }
                let original = originals.get(&line);
                if let Some(part) = original.and_then(|file| file.part) {
                    match JoinedFile::add(&mut joined, part, &from, &partial)? {
                        Some(whole) => from = whole,
                        None => continue,
                    }
                }
                // A host has the mode of its copy.
                if let Some(Ok(original)) = original.map(|file| fs::metadata(file.path)) {
                    fs::set_permissions(&from, original.permissions())
                        .map_err(|error| Error::io(from.display(), error))?;
                }
                let metadata =
                    fs::metadata(&from).map_err(|error| Error::io(from.display(), error))?;
                place_file(&from, &target.join(output), &partial)?;
                sum.shards += 1;
                sum.bytes += metadata.len();
            }
        }
        match fs::remove_dir_all(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io(partial.display(), error));
            }
            _ => {}
        }
        durable::sync_tree(target)?;
        durable::sync_ancestors(target)?;
        Ok(sum)
    }
}

/// A file that was written in parts, and is put together.
struct JoinedFile {
    path: PathBuf,
    file: File,
    /// How many parts it has so far.
    parts: usize,
}

impl JoinedFile {
    /// Appends a part, which must be the next one. Returns the file with its last part.
    fn add(
        joined: &mut Option<Self>,
        part: &FilePart,
        from: &Path,
        directory: &Path,
    ) -> Result<Option<PathBuf>> {
        if part.is_first() {
            durable::create_dir_all(directory)?;
            let path = directory.join(format!("{}.joined", std::process::id()));
            // An earlier file of this name may be linked to its place.
            remove_file(&path)?;
            let file = File::create(&path).map_err(|error| Error::io(path.display(), error))?;
            *joined = Some(Self {
                path,
                file,
                parts: 0,
            });
        }
        let Some(whole) = joined.as_mut().filter(|whole| whole.parts == part.number) else {
            let what = "a part of the file before this one is missing; remove the outputs of the write tasks, and run them again";
            return Err(Error::damaged(Place::path(from), what));
        };
        let failed = |error| Error::io(from.display(), error);
        let mut piece = File::open(from).map_err(failed)?;
        io::copy(&mut piece, &mut whole.file).map_err(failed)?;
        whole.parts += 1;
        if !part.is_last() {
            return Ok(None);
        }
        let path = whole.path.clone();
        whole
            .file
            .sync_all()
            .map_err(|error| Error::io(path.display(), error))?;
        *joined = None;
        Ok(Some(path))
    }
}

fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io(path.display(), error))
        }
        _ => Ok(()),
    }
}

/// All cores: for tasks that run alone.
fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Links a file to its place, or copies it if that is on another disk. A file that is there already must be the same: an earlier attempt
/// placed it.
fn place_file(from: &Path, to: &Path, partial: &Path) -> Result<()> {
    if fs::symlink_metadata(to).is_ok() {
        if is_same(from, to).map_err(|error| Error::io(to.display(), error))? {
            return Ok(());
        }
        let what =
            "is there already, and is another file; remove it, or plan anew with another directory";
        return Err(Error::damaged(Place::path(to), what));
    }
    durable::create_dir_all(durable::parent_of(to))?;
    if fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    durable::create_dir_all(partial)?;
    let copy = partial.join(format!("{}.partial", std::process::id()));
    let failed = |error| Error::io(copy.display(), error);
    fs::copy(from, &copy).map_err(failed)?;
    File::open(&copy)
        .and_then(|file| file.sync_all())
        .map_err(failed)?;
    durable::rename(&copy, to)
}

fn is_same(one: &Path, two: &Path) -> io::Result<bool> {
    let (first, second) = (fs::metadata(one)?, fs::metadata(two)?);
    if (first.dev(), first.ino()) == (second.dev(), second.ino()) {
        return Ok(true);
    }
    if first.len() != second.len() || !second.is_file() {
        return Ok(false);
    }
    let (mut one, mut two) = (File::open(one)?, File::open(two)?);
    let (mut left, mut right) = (vec![0; COMPARED_BYTES], vec![0; COMPARED_BYTES]);
    loop {
        let count = one.read(&mut left)?;
        if count == 0 {
            return Ok(true);
        }
        two.read_exact(&mut right[..count])?;
        if left[..count] != right[..count] {
            return Ok(false);
        }
    }
}

const COMPARED_BYTES: usize = 1 << 18;

/// Removes what only deciding needs.
fn remove_work_files(directory: &Path) -> Result<()> {
    let failed = |error| Error::io(directory.display(), error);
    fs::remove_file(directory.join(FATES)).map_err(failed)?;
    let against = directory.join(AGAINST);
    if against.exists() {
        fs::remove_dir_all(&against).map_err(failed)?;
    }
    Ok(())
}

fn write_account(account: &CleanAccount, directory: &Path) -> Result<()> {
    let path = directory.join(ACCOUNT);
    let json =
        serde_json::to_vec(account).map_err(|error| Error::output(io::Error::other(error)))?;
    fs::write(&path, json).map_err(|error| Error::io(path.display(), error))
}

fn read_account(directory: &Path) -> Result<CleanAccount> {
    let path = directory.join(ACCOUNT);
    let json = fs::read(&path).map_err(|error| Error::io(path.display(), error))?;
    serde_json::from_slice(&json)
        .map_err(|error| Error::damaged(Place::path(&path), error.to_string()))
}

/// Collects what could not be used.
struct ProblemList<'p>(&'p mut Vec<String>);

impl Observer for ProblemList<'_> {
    fn problem(&mut self, problem: &Problem) {
        self.0.push(problem.to_string());
    }

    fn progress(&mut self, _: u64, _: u64) {}

    fn left_out(&mut self, left: &SkippedFile) {
        if left.is_error() {
            self.0.push(left.problem.to_string());
        }
    }
}
