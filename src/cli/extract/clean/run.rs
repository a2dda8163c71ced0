//! Runs the steps of cleaning, and goes on where an interrupted run was.

use super::{
    account::print_account,
    damage_watch::DamageWatch,
    input::{AGAINST, CleanInput, INDEX, Indexes, STDIN, stamps},
    rules::{RuleArgs, ensure_shards},
    run_state::{Decided, Indexed, Progress, RunState, fingerprint},
};
use crate::{
    base::{
        files::{TempDir, durable},
        num::ToU64,
        parallel::Limits,
    },
    cli::{
        args::RunArgs,
        exclusions::ExcludeArgs,
        exit_code,
        extract::{PROGRAM, scoring::leave_out},
        output::{Output, RecordFile},
        progress::{PhaseBar, say},
        source::{SourceArgs, TemporaryDirectory},
        watched,
        width::warn_of_width,
    },
    commands::{
        BuildOptions, CleanAccount, CleanOptions, CleanRecords, Collection, Observer, Settings,
        Shard, ShardList, ShardWriter, Summary, WantedPairs, build, decide_fates, ensure_lines,
    },
    index::Resources,
    text::corpus,
};
use anyhow::bail;
use clap::Args;
use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

#[derive(Args, Debug)]
pub struct CleanArgs {
    /// Write the cleaned files into DIR [default: lines to stdout]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    pub rules: RuleArgs,
    #[command(flatten)]
    excluded: ExcludeArgs,
    #[command(flatten)]
    pub source: SourceArgs,
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
        let writer = self.writer(input, shards, &fates, &decided);
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
        let described = fingerprint(&self.described(input)?, shards, input.spool.as_ref());
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
        let writer = self.writer(input, shards, &fates, &decided);
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
        let names: Vec<String> = input
            .settings
            .corpus
            .paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        warn_of_width(
            PROGRAM,
            &indexes.collection,
            &names.join(", "),
            self.is_quiet(),
        )?;
        let options = self.options()?;
        let collection = Collection {
            shards,
            index: &indexes.collection,
            has_placed_ids: input.given.is_none(),
            settings: &input.settings,
            against: &indexes.against,
            given: input.against_indexes.len(),
            copies: &[],
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
            bar.complain(
                PROGRAM,
                self.source.read.skip_bad,
                self.source.common.verbose,
            );
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
                shards_left_out: shards.left_out.len().to_u64() + shards.taken_out,
                other_records,
                cleaned,
                ..CleanAccount::default()
            },
        })
    }

    fn writer<'w>(
        &self,
        input: &'w CleanInput,
        shards: &'w ShardList,
        fates: &'w Path,
        decided: &'w Decided,
    ) -> ShardWriter<'w> {
        ShardWriter {
            shards,
            fates,
            ranges: &decided.account.cleaned.fates,
            reading: &input.settings.corpus,
            annotates: self.rules.annotates(),
        }
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

    fn options(&self) -> Result<CleanOptions, anyhow::Error> {
        Ok(CleanOptions {
            rules: self.rules.rules(),
            max_df: self.excluded.max_df()?,
            limits: self.limits(),
            leave_out: leave_out(&self.excluded, WantedPairs::default()),
            tmp_dir: TempDir(self.source.making.tmp_dir.clone()),
        })
    }

    pub fn limits(&self) -> Limits {
        self.source.limits()
    }

    fn is_quiet(&self) -> bool {
        self.source.common.quiet
    }

    pub fn tell(&self, what: &str) {
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
    fn described(&self, input: &CleanInput) -> Result<String, anyhow::Error> {
        let options = CleanOptions {
            limits: Limits::new(1, 0),
            tmp_dir: TempDir(None),
            ..self.options()?
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
        Ok(format!(
            "{options:?} {corpus:?} {:?} {:?} {:?} {:?} {:?} {others:?}",
            input.blots,
            self.source.sources,
            self.source.read.skip_bad,
            self.rules.dropped,
            self.rules.cuts
        ))
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
}

const FATES: &str = "fates.jsonl";
