//! Running a task: the library is called with what the task says.

use crate::cluster::{
    engines::Verdict,
    plan::{
        ClusterOptions, Plan, PlanOptions, SharedIndex, TableOptions, Task, TaskWork, write_owners,
    },
    run::cleaning::Cleaning,
    run::gather::{gather_index, number_changes, write_input},
    run::output_state::{OutputState, has_file, output_state, prepare},
};
use crate::{
    base::{
        error::{Error, Result},
        files::{self, TempDir, durable},
        parallel::Limits,
        share::Share,
    },
    commands::{
        BuildOptions, ClusterShare, CountRange, Extract, ExtractOptions, LeaveOut, NoObserver,
        RunsOptions, StepOptions, build_runs, commit_staged, count_range, extract_counted,
        extract_counted_share, extract_without, finish_part, join_cluster_links, join_sets,
        number_documents, number_sets, reduce_range, stage_base, stage_ranges, write_set_uses,
    },
    index::{Index, SegmentFiles},
    similar::Score,
    text::corpus::Account,
};
use std::{
    env,
    fs::File,
    io::{self, BufWriter, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Why a task was not done.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The directory where the plan was made is not on this machine, or not now.
    #[error("{directory}: {cause}; a machine that runs tasks must have it")]
    NoDirectory {
        /// The directory.
        directory: String,
        /// Why it cannot be entered.
        cause: io::Error,
    },
    /// The work failed.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl TaskError {
    /// Whether the machine failed, not the task: it may succeed elsewhere or later.
    pub fn is_of_machine(&self) -> bool {
        match self {
            Self::NoDirectory { .. } => true,
            Self::Failed(error) => error.is_of_machine(),
        }
    }
}

/// Runs a task of a plan unless its output is there already.
///
/// `copies`: where copies of its documents are, if they were sent to this machine. May change the
/// working directory of the process, as relative paths of documents start where the plan was made.
/// Limits the memory of the process, see [`files::limit_large_blocks`].
pub fn run_task(plan: &Plan, task: &Task, run: &Path, copies: Option<&Path>) -> Verdict {
    files::limit_large_blocks(plan.options.memory, &TempDir(None));
    let execution = TaskExecution {
        plan,
        task,
        run,
        copies,
    };
    let Err(error) = execution.run() else {
        return Verdict::Done;
    };
    // Another process that runs the same task may have been faster.
    if output_state(plan, task, run) == OutputState::Done {
        return Verdict::Done;
    }
    if error.is_of_machine() {
        Verdict::Lost(error.to_string())
    } else {
        Verdict::Failed(error.to_string())
    }
}

/// Changes to the directory where the plan was made: relative paths of documents start there.
pub fn enter_directory(plan: &Plan) -> Result<(), TaskError> {
    let directory = &plan.options.directory;
    env::set_current_dir(directory).map_err(|cause| TaskError::NoDirectory {
        directory: directory.clone(),
        cause,
    })
}

struct TaskExecution<'a> {
    plan: &'a Plan,
    task: &'a Task,
    run: &'a Path,
    copies: Option<&'a Path>,
}

impl TaskExecution<'_> {
    fn run(&self) -> Result<(), TaskError> {
        if !prepare(self.plan, self.task, self.run)? {
            return Ok(());
        }
        let reads_corpus = match self.task.work {
            // With copies the directory need not exist on this machine.
            TaskWork::Map { .. } | TaskWork::Write { .. } => self.copies.is_none(),
            TaskWork::Decide { .. } => true,
            TaskWork::NumberChanges { .. } | TaskWork::Gather(_) | TaskWork::Commit { .. } => true,
            _ => false,
        };
        if reads_corpus {
            enter_directory(self.plan)?;
        }
        Ok(self.execute()?)
    }

    fn options(&self) -> &PlanOptions {
        &self.plan.options
    }

    fn path(&self, name: &str) -> PathBuf {
        self.run.join(name)
    }

    fn paths(&self, names: &[String]) -> Vec<PathBuf> {
        names.iter().map(|name| self.path(name)).collect()
    }

    fn output(&self) -> PathBuf {
        self.path(&self.task.output)
    }

    fn step(&self) -> StepOptions {
        StepOptions {
            of: Some(self.plan.output_label(self.task)),
            resources: self.options().resources(),
        }
    }

    fn execute(&self) -> Result<()> {
        let step = self.step();
        let output = self.output();
        match &self.task.work {
            TaskWork::Base { index, checksum } => {
                stage_base(&step, Path::new(index), checksum, &output)
            }
            TaskWork::Map {
                slice, with_files, ..
            } => self.map(slice, *with_files),
            TaskWork::Number { documents } => {
                number_documents(&step, &self.paths(documents), &output)
            }
            TaskWork::NumberChanges { base, slices } => {
                number_changes(self.plan, self.run, &step, base, slices, &output)
            }
            TaskWork::Reduce {
                targets,
                runs,
                words,
                shares,
            } => {
                let has_words = !words.is_empty();
                reduce_range(
                    &step,
                    &self.path(targets),
                    &self.paths(runs),
                    *shares,
                    has_words,
                    &output,
                )
            }
            TaskWork::Join { sets } => {
                let buckets = SegmentFiles::parts(self.options().parts)?;
                join_sets(&step, &buckets, &self.paths(sets), &output)
            }
            TaskWork::Sets { joined } => number_sets(&step, &self.paths(joined), &output),
            TaskWork::Part {
                order,
                numbers,
                postings,
            } => finish_part(
                &step,
                &self.path(order),
                &self.paths(numbers),
                &self.path(postings),
                &output,
            ),
            TaskWork::Gather(files) => {
                write_input(self.plan, self.run)?;
                gather_index(self.plan, self.run, files, &output)
            }
            TaskWork::Ranges { index } => {
                stage_ranges(&self.path(index), self.options().parts, &output)
            }
            TaskWork::Count {
                index,
                max_df,
                since,
                ..
            } => {
                let range = CountRange {
                    buckets: self.plan.ranges[self.task.number].buckets(),
                    max_df: *max_df,
                    since: *since,
                };
                count_range(&step, &self.path(index), &range, &output)
            }
            TaskWork::Rows {
                index,
                counts,
                options,
                ..
            } => self.rows(index, counts, options),
            TaskWork::Table { rows, .. } if !rows.is_empty() => self.join_files(rows),
            TaskWork::Table {
                index,
                counts,
                options,
                since,
                ..
            } => self.table(index, counts, options, *since),
            TaskWork::Uses { index, known } => {
                let is_known = has_file(self.plan, known, self.run);
                let known = is_known.then(|| self.path(known));
                write_set_uses(&step, &self.path(index), known.as_deref(), &output)
            }
            TaskWork::Links {
                of,
                shares,
                options,
            } => self.links(of, *shares, options),
            TaskWork::Groups { links } => step.make(&output, |directory| {
                join_cluster_links(&self.paths(links), &directory.join(LINKS))
            }),
            TaskWork::Members {
                of,
                groups,
                shares,
                options,
            } => self.members(of, groups, *shares, options),
            TaskWork::Clusters { members, .. } if !members.is_empty() => self.join_files(members),
            TaskWork::Clusters { index, options, .. } => {
                let options = options.extraction(self.options().memory);
                self.extract(index, &options)
            }
            TaskWork::Copies { of, shares } => {
                let share = self.share_of(*shares);
                self.cleaning()?.copies(&step, of, share, &output)
            }
            TaskWork::Decide {
                index,
                copies,
                slices,
            } => {
                let (index, copies) = (self.path(index), self.paths(copies));
                self.cleaning()?
                    .decide(&step, &index, &copies, slices, &output)
            }
            TaskWork::Write { slice, fates } => self.cleaning()?.write(
                &step,
                (self.task.number, slice),
                &self.path(fates),
                self.copies,
                &output,
            ),
            TaskWork::Place {
                decided,
                slices,
                written,
            } => self
                .cleaning()?
                .place(&step, &self.path(decided), slices, written, &output),
            TaskWork::Commit {
                gathered, known, ..
            } => self.commit(gathered, known),
        }
    }

    /// The share of the task, of this number of shares.
    fn share_of(&self, shares: usize) -> Share {
        Share {
            number: self.task.number,
            of: shares,
        }
    }

    fn cleaning(&self) -> Result<Cleaning<'_>> {
        Cleaning::new(self.plan, self.run)
    }

    fn map(&self, slice: &str, with_files: bool) -> Result<()> {
        let options = BuildOptions {
            blots: self.options().blots_in(self.run),
            parts: self.options().parts,
            dictionary: self.options().dictionary,
            resources: self.options().resources(),
        };
        let runs = RunsOptions {
            of: Some(self.plan.output_label(self.task)),
            with_files,
        };
        let settings = self.options().slice_settings(self.path(slice), self.copies);
        build_runs(&options, &runs, &settings, &self.output(), &mut NoObserver).map(drop)
    }

    /// Writes the rows of a share of the documents.
    fn rows(&self, index: &str, counts: &[String], options: &TableOptions) -> Result<()> {
        let buckets = self.plan.ranges[self.task.number].buckets();
        let index = Index::open_range(&self.path(index), buckets, None)?;
        let options = extract_options(options, None, self.options().memory);
        let share = self.share_of(self.plan.ranges.len());
        let counts = self.paths(counts);
        self.make_file(ROWS, |out| {
            extract_counted_share(&options, &counts, share, &index, out, &mut |_, _| ())
        })
    }

    /// Finds the links of a share of the documents.
    fn links(&self, of: &SharedIndex, shares: usize, options: &ClusterOptions) -> Result<()> {
        self.with_cluster_share(of, shares, options, |share| {
            let find = |directory: &Path| share.find_links(&directory.join(LINKS));
            self.step().make(&self.output(), find)
        })
    }

    /// Writes the clusters of a share.
    fn members(
        &self,
        of: &SharedIndex,
        groups: &str,
        shares: usize,
        options: &ClusterOptions,
    ) -> Result<()> {
        self.with_cluster_share(of, shares, options, |share| {
            self.make_file(MEMBERS, |out| share.write(&self.path(groups), out))
        })
    }

    fn with_cluster_share(
        &self,
        of: &SharedIndex,
        shares: usize,
        options: &ClusterOptions,
        work: impl FnOnce(&ClusterShare<'_>) -> Result<()>,
    ) -> Result<()> {
        work(&ClusterShare {
            options: &options.extraction(self.options().memory),
            share: self.share_of(shares),
            // No part is needed.
            index: &Index::open_range(&self.path(&of.index), 0..0, None)?,
            uses: &self.path(&of.uses),
        })
    }

    /// Makes an output that is one file of text in a directory.
    fn make_file(
        &self,
        name: &str,
        write: impl FnOnce(&mut BufWriter<File>) -> Result<()>,
    ) -> Result<()> {
        self.step().make_plain(&self.output(), |beside| {
            let path = beside.join(name);
            let failed = |error| Error::io(path.display(), error);
            let file = File::create(&path).map_err(failed)?;
            let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
            write(&mut out)?;
            out.flush().map_err(failed)?;
            Ok(Vec::new())
        })
    }

    /// Puts the rows or clusters of all shares together.
    fn join_files(&self, files: &[String]) -> Result<()> {
        write_atomically(&self.output(), |out| {
            for path in self.paths(files) {
                let failed = |error| Error::io(path.display(), error);
                let mut file = File::open(&path).map_err(failed)?;
                io::copy(&mut file, out).map_err(failed)?;
            }
            Ok(())
        })
    }

    fn table(
        &self,
        index: &str,
        counts: &[String],
        options: &TableOptions,
        since: Option<u64>,
    ) -> Result<()> {
        let options = extract_options(options, since, self.options().memory);
        if counts.is_empty() {
            return self.extract(index, &options);
        }
        let index = Index::open_whole(&self.path(index))?;
        write_atomically(&self.output(), |out| {
            extract_counted(&options, &self.paths(counts), &index, out, &mut |_, _| ())
        })
    }

    /// Writes what is found in the index alone.
    fn extract(&self, index: &str, options: &ExtractOptions) -> Result<()> {
        let index = Index::open_whole(&self.path(index))?;
        let (leave_out, observer) = (LeaveOut::default(), &mut NoObserver);
        write_atomically(&self.output(), |out| {
            extract_without(options, &leave_out, &index, out, observer, &mut |_, _| ()).map(drop)
        })
    }

    fn commit(&self, gathered: &str, known: &str) -> Result<()> {
        let base = self.plan.base()?;
        let index = Path::new(&base.index);
        self.step().make_with(&self.output(), |_| {
            commit_staged(
                &self.path(gathered),
                &self.path(known),
                index,
                &base.checksum,
            )?;
            let owners = self.plan.ranges.iter().map(|range| range.host);
            write_owners(index, owners, &self.plan.hosts)?;
            Ok((Vec::new(), Account::default()))
        })
    }
}

fn extract_options(table: &TableOptions, since: Option<u64>, memory_bytes: u64) -> ExtractOptions {
    let top = usize::try_from(table.top).unwrap_or(usize::MAX);
    let rows = table.row_format();
    let what = match since {
        None => Extract::Table { top, rows },
        Some(generation) => Extract::TableSince {
            top,
            rows,
            generation,
        },
    };
    ExtractOptions {
        what,
        score: Score::Inclusion,
        threshold: table.threshold,
        common: table.max_df.into(),
        limits: Limits::new(1, memory_bytes),
    }
}

/// The files of shares.
const ROWS: &str = "rows";
const LINKS: &str = "links";
const MEMBERS: &str = "members";

/// Many small records make few large writes.
const BUFFER_BYTES: usize = 1 << 18;

/// Writes a file under another name, and renames it when it is complete and on disk.
pub(super) fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<tempfile::NamedTempFile>) -> Result<()>,
) -> Result<()> {
    let failed = |error| Error::io(path.display(), error);
    let file = tempfile::Builder::new()
        .prefix(".dedup-")
        .suffix(".tmp")
        .permissions(PermissionsExt::from_mode(0o666))
        .tempfile_in(durable::parent_of(path))
        .map_err(failed)?;
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
    write(&mut out)?;
    out.flush().map_err(failed)?;
    let file = out
        .into_inner()
        .map_err(|error| failed(error.into_error()))?;
    files::ensure_whole()?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    durable::sync_dir(durable::parent_of(path))
}
