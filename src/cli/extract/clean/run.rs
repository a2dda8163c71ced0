//! Runs the steps of cleaning, and goes on where an interrupted run was.

use super::{
    account::print_account,
    rules::{RuleArgs, default_blots, ensure_shards},
    run_state::{Decided, Indexed, Progress, RunState, fingerprint},
};
use crate::{
    base::{
        error::Problem,
        files::{TempDir, durable},
        num::ToU64,
        parallel::Limits,
    },
    cli::{
        args::RunArgs,
        exclusions::ExcludeArgs,
        exit_code,
        extract::{PROGRAM, VERBS, scoring::leave_out},
        output::{Output, RecordFile},
        progress::{PhaseBar, say},
        source::{SourceArgs, TemporaryDirectory, ensure_exists, is_index},
        watched,
    },
    commands::{
        BlotOptions, BuildOptions, CleanAccount, CleanOptions, CleanRecords, Collection, Observer,
        Settings, Shard, ShardList, ShardWriter, Summary, WantedPairs, build, decide_fates,
        ensure_lines,
    },
    index::{Index, Resources},
    text::corpus::{self, Account, CorpusWalk, SkippedFile, WalkItem},
};
use anyhow::{Context, bail};
use clap::Args;
use indicatif::BinaryBytes;
use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};
use xxhash_rust::xxh3::Xxh3;

#[derive(Args, Debug)]
pub struct CleanArgs {
    /// Write the cleaned files into DIR [default: lines to stdout]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    rules: RuleArgs,
    #[command(flatten)]
    excluded: ExcludeArgs,
    #[command(flatten)]
    source: SourceArgs,
}

impl CleanArgs {
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        self.rules.ensure_outputs_differ(self.output.is_some())?;
        let mut input = CleanInput::open(self)?;
        let mut shards = ShardList::find(&input.settings.corpus)?;
        if let Some(spool) = &input.spool {
            shards.rename(&spool.path, STDIN);
        }
        input.problems += ensure_shards(&shards, PROGRAM, self.source.is_silent())?;
        self.rules.ensure_records_have_fields(&shards)?;
        self.ensure_nothing_is_written_over(&input, &shards)?;
        match &self.output {
            None => self.run_to_pipe(&input, &shards),
            Some(target) => self.run_to_directory(&input, &shards, target),
        }
    }

    fn run_to_pipe(
        &self,
        input: &CleanInput,
        shards: &ShardList,
    ) -> Result<ExitCode, anyhow::Error> {
        ensure_lines(shards)?;
        let directory = TemporaryDirectory::create(self.source.making.tmp_dir.as_deref())?;
        self.tell_space(shards, &directory.path, None)?;
        let (indexed, index) = self.index(input, &directory.path)?;
        let fates = directory.path.join(FATES);
        let shards = &shards.without(&indexed.damaged);
        let mut decided = self.decide(input, shards, &index, indexed, &fates)?;
        let writer = ShardWriter {
            shards,
            fates: &fates,
            ranges: &decided.account.cleaned.fates,
            reading: &input.settings.corpus,
            annotates: self.rules.annotates(),
        };
        let Output::Stdout(mut out) = Output::open(None, false)? else {
            bail!("stdout is not open");
        };
        let written = writer.write_to_pipe(&mut out)?;
        decided.account.finish(written);
        self.finish(&decided)
    }

    fn run_to_directory(
        &self,
        input: &CleanInput,
        shards: &ShardList,
        target: &Path,
    ) -> Result<ExitCode, anyhow::Error> {
        shards.ensure_apart(&input.settings.corpus.paths, target)?;
        let own: Vec<_> = self.record_files().cloned().collect();
        let described = fingerprint(&self.described(input), shards, input.spool.as_ref());
        let mut state = RunState::open(target, described, &own)?;
        match self.run_steps(input, shards, target, &mut state) {
            Ok(decided) => {
                let code = self.finish(&decided)?;
                state.advance(Progress::Done(Box::new(decided)))?;
                state.finish()?;
                Ok(code)
            }
            Err(error) => {
                state.abandon();
                Err(error)
            }
        }
    }

    /// All steps that are still to be done.
    fn run_steps(
        &self,
        input: &CleanInput,
        shards: &ShardList,
        target: &Path,
        state: &mut RunState,
    ) -> Result<Decided, anyhow::Error> {
        if let Progress::Done(decided) = &state.progress {
            let is_there = |shard: &&Shard| target.join(&shard.output).exists();
            let there = shards.shards.iter().filter(is_there).count().to_u64();
            if there != decided.account.shards_written {
                bail!(
                    "{}: {there} of {} cleaned files are there; remove the directory, and start again",
                    target.display(),
                    decided.account.shards_written
                );
            }
            self.tell("all is done already");
            return Ok((**decided).clone());
        }
        let (work, fates) = (state.directory().to_owned(), state.directory().join(FATES));
        let decided = if let Progress::Decided(decided) = &state.progress {
            self.tell("going on with a run that was interrupted");
            (**decided).clone()
        } else {
            self.decide_anew(input, shards, target, state, &fates)?
        };
        let mut decided = decided;
        let shards = &shards.without(&decided.damaged);
        let writer = ShardWriter {
            shards,
            fates: &fates,
            ranges: &decided.account.cleaned.fates,
            reading: &input.settings.corpus,
            annotates: self.rules.annotates(),
        };
        let mut bar = PhaseBar::new(self.is_quiet(), "writing", shards.bytes());
        let written = writer.write_all(target, &work, self.limits().threads, |bytes| {
            bar.progress(bytes, 0);
        })?;
        bar.finish();
        decided.account.finish(written);
        Ok(decided)
    }

    fn decide_anew(
        &self,
        input: &CleanInput,
        shards: &ShardList,
        target: &Path,
        state: &mut RunState,
        fates: &Path,
    ) -> Result<Decided, anyhow::Error> {
        let elsewhere = self.source.making.tmp_dir.as_deref();
        let temporary = elsewhere.map(|parent| TemporaryDirectory::create(Some(parent)));
        let temporary = temporary.transpose()?;
        let work = match &temporary {
            Some(directory) => directory.path.clone(),
            None => state.directory().to_owned(),
        };
        let (indexed, index) = match &state.progress {
            Progress::Indexed(indexed) if temporary.is_none() => {
                self.tell("going on with a run that was interrupted; its index is complete");
                (indexed.clone(), input.open_indexes(&work)?)
            }
            _ => {
                self.tell_space(shards, &work, Some(target))?;
                // What is there is not complete.
                let _ = fs::remove_dir_all(work.join(INDEX));
                let _ = fs::remove_dir_all(work.join(AGAINST));
                self.index(input, &work)?
            }
        };
        if temporary.is_none() {
            state.advance(Progress::Indexed(indexed.clone()))?;
        }
        let shards = &shards.without(&indexed.damaged);
        let decided = self.decide(input, shards, &index, indexed, fates)?;
        durable::sync_dir(state.directory())?;
        state.advance(Progress::Decided(Box::new(decided.clone())))?;
        Ok(decided)
    }

    /// Makes the indexes that are not given.
    fn index(&self, input: &CleanInput, work: &Path) -> Result<(Indexed, Indexes), anyhow::Error> {
        let mut indexed = Indexed {
            problems: input.problems,
            ..Indexed::default()
        };
        if !input.against_paths.is_empty() {
            let run = self.source.run(input.against_paths.clone());
            self.tell("reading the collection to compare with");
            let summary = self.build(input, &run, &work.join(AGAINST), &mut indexed.damaged)?;
            indexed.problems += summary.problems;
        }
        if input.given.is_none() {
            let run = self.source.run(input.settings.corpus.paths.clone());
            let summary = self.build(input, &run, &work.join(INDEX), &mut indexed.damaged)?;
            indexed.problems += summary.problems;
            indexed.other_records = summary.account.records_left_out;
        }
        if !indexed.damaged.is_empty() && !self.source.read.skip_bad {
            bail!(
                "{} files could not be read to their ends, so nothing is written; repair them, or leave them out with --skip-bad or --exclude",
                indexed.damaged.len()
            );
        }
        Ok((indexed, input.open_indexes(work)?))
    }

    /// Makes an index of documents, with ids that tell their places. Adds the files that could not be read to their ends.
    fn build(
        &self,
        input: &CleanInput,
        run: &RunArgs,
        path: &Path,
        damaged: &mut BTreeSet<String>,
    ) -> Result<Summary, anyhow::Error> {
        let corpus = corpus::Options {
            placed_ids: true,
            paths: run.input.paths.clone(),
            ..input.settings.corpus.clone()
        };
        let settings = Settings {
            corpus,
            ..self.source.making.reading_settings(run)
        };
        let options = self.build_options(input, durable::parent_of(path));
        watched(PROGRAM, run, self.output.is_none(), |watch| {
            let mut watch = DamageWatch { watch, damaged };
            Ok(build(&options, &settings, path, &mut watch)?)
        })
    }

    fn decide(
        &self,
        input: &CleanInput,
        shards: &ShardList,
        indexes: &Indexes,
        indexed: Indexed,
        fates: &Path,
    ) -> Result<Decided, anyhow::Error> {
        indexes.ensure_one_scheme()?;
        let options = self.options();
        let collection = Collection {
            shards,
            index: &indexes.collection,
            has_placed_ids: input.given.is_none(),
            settings: &input.settings,
            against: &indexes.against,
            given: input.against_indexes.len(),
        };
        let open = |path: &Option<PathBuf>| path.as_deref().map(RecordFile::open).transpose();
        let (mut dropped, mut cuts) = (open(&self.rules.dropped)?, open(&self.rules.cuts)?);
        let what = if options.rules.cut.is_some() {
            "comparing passages"
        } else {
            "comparing"
        };
        let mut bar = PhaseBar::new(self.is_quiet(), what, shards.bytes());
        if input.given.is_some() {
            bar.complain(PROGRAM, self.source.read.skip_bad);
        }
        let records = CleanRecords {
            dropped: dropped.as_mut().map(RecordFile::target),
            cuts: cuts.as_mut().map(RecordFile::target),
        };
        let cleaned = decide_fates(&options, &collection, fates, records, &mut bar)?;
        let problems = indexed.problems + bar.problems();
        let mut other_records = indexed.other_records;
        bar.finish();
        if input.given.is_some() {
            other_records = bar.account().records_left_out;
            self.tell(&bar.account().to_string());
        }
        dropped.map_or(Ok(()), RecordFile::commit)?;
        cuts.map_or(Ok(()), RecordFile::commit)?;
        Ok(Decided {
            problems,
            damaged: indexed.damaged.clone(),
            account: CleanAccount {
                shards: shards.shards.len().to_u64(),
                bytes_read: shards.bytes(),
                shards_left_out: shards.left_out.len().to_u64() + indexed.damaged.len().to_u64(),
                other_records,
                cleaned,
                ..CleanAccount::default()
            },
        })
    }

    /// Writes the report, and prints the account.
    fn finish(&self, decided: &Decided) -> Result<ExitCode, anyhow::Error> {
        if let Some(path) = &self.rules.report {
            let mut out = Output::open(Some(path), false)?;
            out.write_all(&decided.account.to_json()?)?;
            out.commit()?;
        }
        if !self.is_quiet() {
            print_account(&decided.account, PROGRAM);
        }
        Ok(exit_code(decided.problems, self.source.read.skip_bad))
    }

    fn options(&self) -> CleanOptions {
        CleanOptions {
            rules: self.rules.rules(),
            max_df: self.excluded.max_df,
            limits: self.limits(),
            leave_out: leave_out(&self.excluded, WantedPairs::default()),
            tmp_dir: TempDir(self.source.making.tmp_dir.clone()),
        }
    }

    fn limits(&self) -> Limits {
        self.source.limits()
    }

    fn is_quiet(&self) -> bool {
        self.source.common.quiet
    }

    fn tell(&self, what: &str) {
        if !self.is_quiet() {
            say(&format!("{PROGRAM}: {what}"));
        }
    }

    fn build_options(&self, input: &CleanInput, work: &Path) -> BuildOptions {
        let making = &self.source.making;
        BuildOptions {
            blots: input.blots.clone(),
            parts: 1,
            dictionary: false,
            resources: Resources {
                memory_bytes: making.memory_bytes(),
                threads: self.limits().threads,
                tmp_dir: TempDir(Some(
                    making.tmp_dir.clone().unwrap_or_else(|| work.to_owned()),
                )),
            },
        }
    }

    /// Everything besides the files that the output depends on.
    fn described(&self, input: &CleanInput) -> String {
        let options = CleanOptions {
            limits: Limits::new(1, 0),
            tmp_dir: TempDir(None),
            ..self.options()
        };
        // The files are described by themselves.
        let corpus = corpus::Options {
            paths: Vec::new(),
            adapter_cache: None,
            ..input.settings.corpus.clone()
        };
        let others = (self.rules.against.iter())
            .chain(&self.excluded.exclude_text)
            .chain(&self.excluded.base.base);
        let others: Vec<_> = others.map(|path| stamps(path)).collect();
        format!(
            "{options:?} {corpus:?} {:?} {:?} {:?} {:?} {:?} {others:?}",
            input.blots,
            self.source.sources,
            self.source.read.skip_bad,
            self.rules.dropped,
            self.rules.cuts
        )
    }

    /// Refuses files for records that are a part of the input or of the output.
    fn ensure_nothing_is_written_over(
        &self,
        input: &CleanInput,
        shards: &ShardList,
    ) -> Result<(), anyhow::Error> {
        let read: Vec<_> = (input.settings.corpus.paths.iter())
            .chain(&self.source.sources)
            .chain(&self.rules.against)
            .chain(&self.excluded.exclude_text)
            .chain(&self.excluded.exclude_index)
            .chain(&self.excluded.base.base)
            .filter(|path| path.as_os_str() != "-")
            .cloned()
            .collect();
        for path in self.record_files() {
            shards.ensure_not_read(path, &read, self.output.as_deref())?;
        }
        Ok(())
    }

    /// The files for records, as they are given.
    fn record_files(&self) -> impl Iterator<Item = &PathBuf> {
        let files = [&self.rules.dropped, &self.rules.cuts, &self.rules.report];
        let is_file = |path: &&PathBuf| path.as_os_str() != "-";
        files.into_iter().flatten().filter(is_file)
    }

    /// About the room that temporary files take, for texts of this size: an index, the sorted runs that it is made of where they do not fit into the
    /// memory, and sequences of tokens that are compared.
    fn temporary_bytes(&self, text_bytes: u64) -> u64 {
        let has_runs = text_bytes > self.limits().memory_bytes / 4;
        let runs = if has_runs { text_bytes } else { 0 };
        let sequences = self.rules.cut_tokens().map_or(0, |_| text_bytes);
        text_bytes / 3 + runs + sequences
    }

    /// Says how much room is needed, and refuses to start if there is less.
    fn tell_space(
        &self,
        shards: &ShardList,
        work: &Path,
        target: Option<&Path>,
    ) -> Result<(), anyhow::Error> {
        let temporary = self.temporary_bytes(shards.unpacked_bytes());
        let mut needed = vec![(work, temporary, "temporary files")];
        if let Some(target) = target {
            needed.push((target, shards.bytes(), "the cleaned files"));
        }
        let parts: Vec<_> = needed
            .iter()
            .map(|(path, bytes, what)| {
                format!(
                    "up to about {} for {what} in {}",
                    BinaryBytes(*bytes),
                    path.display()
                )
            })
            .collect();
        if needed.iter().any(|(_, bytes, _)| *bytes >= LEAST_TOLD) {
            self.tell(&format!("needs {}", parts.join(", and ")));
        }
        for (path, bytes, what) in needed {
            let free = free_bytes(path)?;
            if free < bytes {
                bail!(
                    "{}: {} are free, and {what} may need {}; make room, or choose other directories with -o and --tmp-dir",
                    path.display(),
                    BinaryBytes(free),
                    BinaryBytes(bytes)
                );
            }
        }
        Ok(())
    }
}

/// Less is not worth a word.
const LEAST_TOLD: u64 = 16 << 20;
/// What a copy of stdin is called.
const STDIN: &str = "stdin";
const INDEX: &str = "index";
const AGAINST: &str = "against";
const FATES: &str = "fates.jsonl";

/// What tells the files of a collection, or an index, from their earlier states.
fn stamps(path: &Path) -> Vec<(PathBuf, u64, [i64; 2])> {
    let path = if is_index(path) {
        path.join("manifest.json")
    } else {
        path.to_owned()
    };
    let walk = CorpusWalk::new(&corpus::Options::of_files(vec![path]));
    let entry = |item| match item {
        WalkItem::File(entry) => Some((entry.path, entry.bytes, entry.modified)),
        WalkItem::Problem(_) | WalkItem::Skipped(_) | WalkItem::Failed(_) => None,
    };
    walk.into_iter().flatten().filter_map(entry).collect()
}

fn free_bytes(path: &Path) -> Result<u64, anyhow::Error> {
    let existing = path.ancestors().find(|path| path.exists());
    let existing = existing
        .filter(|path| !path.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let stat = rustix::fs::statvfs(existing).with_context(|| existing.display().to_string())?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// What is cleaned.
struct CleanInput {
    /// How the documents are read.
    settings: Settings,
    /// The index that is given, if its blots serve.
    given: Option<PathBuf>,
    blots: BlotOptions,
    against_indexes: Vec<PathBuf>,
    against_paths: Vec<PathBuf>,
    /// Inputs that could not be used so far.
    problems: u64,
    /// A copy of stdin.
    spool: Option<Spool>,
}

/// A copy of stdin.
pub struct Spool {
    /// The file.
    pub path: PathBuf,
    /// Of its bytes.
    pub checksum: u64,
    _directory: TemporaryDirectory,
}

impl CleanInput {
    fn open(args: &CleanArgs) -> Result<Self, anyhow::Error> {
        let source = &args.source;
        let mut paths = source.all_paths()?;
        if let Some(first) = paths.first() {
            ensure_exists(PROGRAM, VERBS, first)?;
        }
        if let Some(missing) = args.rules.against.iter().find(|path| !path.exists()) {
            bail!(
                "{}: no such file or directory (--against)",
                missing.display()
            );
        }
        let mut given = None;
        if paths.first().is_some_and(|path| is_index(path)) {
            let index = paths.remove(0);
            source.making.ensure_index_is_made(&index)?;
            if paths.is_empty() {
                bail!(
                    "{}: an index has no texts to write; give the files that it was made of, too",
                    index.display()
                );
            }
            given = Some(index);
        }
        if let Some(index) = paths.iter().find(|path| is_index(path)) {
            bail!(
                "{}: an index among documents; give the index first",
                index.display()
            );
        }
        let (against_indexes, against_paths) = args.rules.against();
        let blots = match given.iter().chain(&against_indexes).next() {
            Some(index) => BlotOptions::of_scheme(&Index::open_whole(index)?.scheme),
            None => {
                let making = &source.making;
                let blots = making.blots.options(&making.tokens);
                default_blots(blots, making.tokens.is_dna())
            }
        };
        if let (Some(cut), Some(window)) = (args.rules.cut_tokens(), blots.k)
            && cut < window
        {
            bail!(
                "--cut-spans {cut} is less than the {window} tokens of a window; give {window} or more, or a smaller -k"
            );
        }
        let needs_places = args.rules.cut_tokens().is_some() || !args.rules.against.is_empty();
        if let Some(index) = given.take_if(|_| needs_places) {
            args.tell(&format!(
                "with --cut-spans or --against the documents are indexed anew, as {} is",
                index.display()
            ));
        }
        let spool = spool_stdin(&mut paths, args)?;
        let mut settings = source.settings(paths, source.making.tokens.is_dna());
        settings.corpus.relative |= spool.is_some();
        Ok(Self {
            settings,
            given,
            blots,
            against_indexes,
            against_paths,
            problems: 0,
            spool,
        })
    }

    /// Opens the indexes that are given or were made.
    fn open_indexes(&self, work: &Path) -> Result<Indexes, anyhow::Error> {
        let made = work.join(INDEX);
        let collection = Index::open_whole(self.given.as_deref().unwrap_or(&made))?;
        let mut against = Vec::new();
        for path in &self.against_indexes {
            against.push(Index::open_whole(path)?);
        }
        if !self.against_paths.is_empty() {
            against.push(Index::open_whole(&work.join(AGAINST))?);
        }
        Ok(Indexes {
            collection,
            against,
        })
    }
}

/// Copies stdin to a file, if it is to be read: the documents are read twice.
fn spool_stdin(paths: &mut [PathBuf], args: &CleanArgs) -> Result<Option<Spool>, anyhow::Error> {
    let Some(stdin) = paths.iter_mut().find(|path| path.as_os_str() == "-") else {
        return Ok(None);
    };
    let directory = TemporaryDirectory::create(args.source.making.tmp_dir.as_deref())?;
    let spool = directory.path.join("spool");
    fs::create_dir(&spool)?;
    let path = spool.join(STDIN);
    let (mut file, mut hash) = (File::create(&path)?, Xxh3::new());
    let mut bytes = vec![0; 1 << 16];
    loop {
        match io::stdin().lock().read(&mut bytes).context("stdin")? {
            0 => break,
            count => {
                hash.update(&bytes[..count]);
                file.write_all(&bytes[..count])
                    .with_context(|| path.display().to_string())?;
            }
        }
    }
    if file.metadata()?.len() == 0 {
        bail!(
            "no document was read; name files or directories that hold some, or write some to stdin"
        );
    }
    *stdin = spool;
    Ok(Some(Spool {
        path,
        checksum: hash.digest(),
        _directory: directory,
    }))
}

struct Indexes {
    collection: Index,
    against: Vec<Index>,
}

impl Indexes {
    fn ensure_one_scheme(&self) -> Result<(), anyhow::Error> {
        let scheme = &self.collection.scheme;
        match self.against.iter().find(|index| index.scheme != *scheme) {
            None => Ok(()),
            Some(other) => bail!(
                "{}: has the scheme '{}', but the collection has '{scheme}'; indexes that are compared have one scheme",
                other.directory.display(),
                other.scheme
            ),
        }
    }
}

/// Notes which files could not be read to their ends.
struct DamageWatch<'w> {
    watch: &'w mut dyn Observer,
    damaged: &'w mut BTreeSet<String>,
}

impl Observer for DamageWatch<'_> {
    fn problem(&mut self, problem: &Problem) {
        if corpus::ends_a_file(problem) {
            self.damaged.insert(problem.place.file.to_string());
        }
        self.watch.problem(problem);
    }

    fn progress(&mut self, bytes: u64, documents: u64) {
        self.watch.progress(bytes, documents);
    }

    fn left_out(&mut self, left: &SkippedFile) {
        if left.is_damaged() {
            self.damaged.insert(left.problem.place.file.to_string());
        }
        self.watch.left_out(left);
    }

    fn account(&mut self, account: &Account) {
        self.watch.account(account);
    }
}
