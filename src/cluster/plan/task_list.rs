//! All tasks of a plan, each after those whose outputs it needs.

use super::{
    PlannedSlice,
    options::{BaseIndex, CleanPlan, ClusterOptions, PlanOptions, TableOptions, selection_file},
    task::{GatheredFiles, MappedSlice, SharedIndex, Task, TaskKind, TaskWork},
};
use crate::{
    base::{
        ids::PartNo,
        num::{ToU64, ToUsize},
    },
    commands::{numbers_name, range_name, sets_name},
    index::{DOCUMENTS, Manifest, PART, SETS},
};

const INDEX: &str = "index";
const USES: &str = "uses";
/// The output of the task that numbers sets.
const SET_DIRECTORY: &str = "sets";
/// Joining the sets of fewer bytes of documents would take less time than passing them on.
const SET_SHARE_BYTES: u64 = 4 << 20;

/// Lists the tasks for these slices.
pub(super) fn list_tasks(
    slices: &[PlannedSlice],
    ranges: usize,
    options: &PlanOptions,
) -> Vec<Task> {
    let list = TaskList {
        slices,
        ranges,
        options,
        bytes: slices.iter().map(|slice| slice.bytes).sum(),
    };
    let base = options.base.as_ref();
    let base_task = base.map(|base| list.stage_base(base));
    let commit = base.map(|_| list.commit());
    base_task
        .into_iter()
        .chain((0..slices.len()).map(|slice| list.map(slice)))
        .chain([list.number()])
        .chain((0..ranges).map(|range| list.reduce(range)))
        .chain((0..list.set_shares()).map(|share| list.join(share)))
        .chain([list.sets()])
        .chain((0..ranges).map(|range| list.part(range)))
        .chain([list.gather()])
        .chain(options.table.iter().flat_map(|table| list.table(table)))
        .chain(options.clusters.iter().flat_map(|of| list.clusters(of)))
        .chain(options.clean.iter().flat_map(|clean| list.clean(clean)))
        .chain(commit)
        .collect()
}

struct TaskList<'p> {
    slices: &'p [PlannedSlice],
    ranges: usize,
    options: &'p PlanOptions,
    /// The size of all documents.
    bytes: u64,
}

impl TaskList<'_> {
    fn has_base(&self) -> bool {
        self.options.base.is_some()
    }

    fn of_slices(&self, file: &str) -> Vec<String> {
        (0..self.slices.len())
            .map(|slice| format!("{}/{file}", map_output(slice)))
            .collect()
    }

    /// A file of the output of each task that works on a range.
    fn of_ranges(&self, kind: TaskKind, file: &str) -> Vec<String> {
        (0..self.ranges)
            .map(|range| format!("{}/{file}", range_output(kind, range)))
            .collect()
    }

    /// The words of each range, if there is a dictionary.
    fn reduced_words(&self) -> Vec<String> {
        if self.options.dictionary {
            self.of_ranges(TaskKind::Reduce, "words")
        } else {
            Vec::new()
        }
    }

    fn central(&self, work: TaskWork, output: &str) -> Task {
        Task {
            id: work.kind().name().to_owned(),
            number: 0,
            inputs: work.inputs(),
            work,
            output: output.to_owned(),
            bytes: self.bytes,
        }
    }

    fn of_range(&self, work: TaskWork, range: usize) -> Task {
        let kind = work.kind();
        Task {
            id: format!("{}-{range:03}", kind.name()),
            number: range,
            inputs: work.inputs(),
            work,
            output: range_output(kind, range),
            bytes: self.bytes / self.ranges.to_u64(),
        }
    }

    fn stage_base(&self, base: &BaseIndex) -> Task {
        let work = TaskWork::Base {
            index: base.index.clone(),
            checksum: base.checksum.clone(),
        };
        self.central(work, "base")
    }

    fn map(&self, slice: usize) -> Task {
        let work = TaskWork::Map {
            slice: self.slices[slice].file.clone(),
            selection_files: (0..self.options.selection_files)
                .map(selection_file)
                .collect(),
            with_files: self.has_base(),
        };
        Task {
            id: format!("map-{slice:04}"),
            number: slice,
            inputs: work.inputs(),
            work,
            output: map_output(slice),
            bytes: self.slices[slice].bytes,
        }
    }

    fn number(&self) -> Task {
        let mapped = |(number, slice): (usize, &PlannedSlice)| MappedSlice {
            slice: slice.file.clone(),
            output: map_output(number),
        };
        let work = if self.has_base() {
            TaskWork::NumberChanges {
                base: "base".to_owned(),
                slices: self.slices.iter().enumerate().map(mapped).collect(),
            }
        } else {
            TaskWork::Number {
                documents: self.of_slices("docs"),
            }
        };
        self.central(work, "number")
    }

    fn reduce(&self, range: usize) -> Task {
        let of_slices = |ending: &str| self.of_slices(&format!("{}.{ending}", range_name(range)));
        let words = if self.options.dictionary {
            of_slices("words")
        } else {
            Vec::new()
        };
        let work = TaskWork::Reduce {
            targets: "number/targets".to_owned(),
            runs: of_slices("runs"),
            words,
            shares: self.set_shares(),
        };
        self.of_range(work, range)
    }

    /// How many tasks join a share of the sets each.
    fn set_shares(&self) -> usize {
        let most = (self.bytes / SET_SHARE_BYTES).to_usize().max(1);
        self.shares().min(most)
    }

    fn join(&self, share: usize) -> Task {
        let work = TaskWork::Join {
            sets: self.of_ranges(TaskKind::Reduce, &sets_name(share)),
        };
        self.of_range(work, share)
    }

    /// The outputs of the join tasks.
    fn joined(&self) -> impl Iterator<Item = String> {
        (0..self.set_shares()).map(|share| range_output(TaskKind::Join, share))
    }

    fn sets(&self) -> Task {
        let work = TaskWork::Sets {
            joined: self.joined().collect(),
        };
        self.central(work, SET_DIRECTORY)
    }

    fn part(&self, range: usize) -> Task {
        let numbers = numbers_name(range);
        let work = TaskWork::Part {
            order: format!("{SET_DIRECTORY}/order"),
            numbers: self
                .joined()
                .map(|share| format!("{share}/{numbers}"))
                .collect(),
            postings: format!("{}/postings", range_output(TaskKind::Reduce, range)),
        };
        self.of_range(work, range)
    }

    fn gather(&self) -> Task {
        let work = TaskWork::Gather(GatheredFiles {
            documents: "number".to_owned(),
            sets: SET_DIRECTORY.to_owned(),
            parts: (0..self.ranges)
                .map(|range| range_output(TaskKind::Part, range))
                .collect(),
            words: self.reduced_words(),
            base: self.has_base().then(|| "base".to_owned()),
        });
        self.central(work, INDEX)
    }

    /// The tasks from the index to the table.
    fn table(&self, table: &TableOptions) -> Vec<Task> {
        let since = self.options.base.as_ref().map(|base| base.generation);
        // With a limit of df every row may change with every document: then both tables are made,
        // where the index is.
        let is_counted = since.is_none() || table.max_df.is_none();
        let counted_ranges = if is_counted { self.ranges } else { 0 };
        let stage_ranges = (since.is_some() && is_counted).then(|| {
            let index = INDEX.to_owned();
            self.central(TaskWork::Ranges { index }, TaskKind::Ranges.name())
        });
        let counts: Vec<String> = (0..counted_ranges)
            .map(|range| format!("{}/counts", range_output(TaskKind::Count, range)))
            .collect();
        // What changed is little, and needs the rows before and after.
        let shares = if since.is_none() { self.ranges } else { 0 };
        let rows: Vec<Task> = (0..shares)
            .map(|share| self.rows(share, table, &counts))
            .collect();
        let file = |task: &Task| format!("{}/rows", task.output);
        let work = TaskWork::Table {
            index: INDEX.to_owned(),
            rows: rows.iter().map(file).collect(),
            counts: if shares == 0 { counts } else { Vec::new() },
            options: table.clone(),
            since,
        };
        stage_ranges
            .into_iter()
            .chain((0..counted_ranges).map(|range| self.count(range, table, since)))
            .chain(rows)
            .chain([self.central(work, &table.file_name())])
            .collect()
    }

    fn count(&self, range: usize, table: &TableOptions, since: Option<u64>) -> Task {
        let (index, files) = match since {
            Some(_) => (range_output(TaskKind::Ranges, range), Vec::new()),
            None => (INDEX.to_owned(), files_of_range(range)),
        };
        let work = TaskWork::Count {
            index,
            files,
            max_df: table.max_df,
            since,
        };
        self.of_range(work, range)
    }

    fn rows(&self, share: usize, table: &TableOptions, counts: &[String]) -> Task {
        let work = TaskWork::Rows {
            index: INDEX.to_owned(),
            files: files_of_range(share),
            counts: counts.to_vec(),
            options: table.clone(),
        };
        self.of_range(work, share)
    }

    /// How many tasks compare a share of the documents each. Each reads all sets, so there are no
    /// more than slots.
    fn shares(&self) -> usize {
        self.ranges.min(self.options.slots.to_usize()).max(1)
    }

    /// The task that shares need besides the index.
    fn uses(&self) -> Task {
        let work = TaskWork::Uses {
            index: INDEX.to_owned(),
            known: format!("{SET_DIRECTORY}/{USES}"),
        };
        self.central(work, TaskKind::Uses.name())
    }

    /// The tasks from the index to the clusters.
    fn clusters(&self, options: &ClusterOptions) -> Vec<Task> {
        // An index of several segments has no sets of the whole that shares could read.
        let shares = if self.has_base() { 0 } else { self.shares() };
        let links: Vec<Task> = (0..shares)
            .map(|share| {
                let (of, options) = (shared_index(), options.clone());
                self.of_range(
                    TaskWork::Links {
                        of,
                        shares,
                        options,
                    },
                    share,
                )
            })
            .collect();
        let file = |task: &Task, name: &str| format!("{}/{name}", task.output);
        let groups = TaskWork::Groups {
            links: links.iter().map(|task| file(task, "links")).collect(),
        };
        let members: Vec<Task> = (0..shares)
            .map(|share| {
                let work = TaskWork::Members {
                    of: shared_index(),
                    groups: "groups/links".to_owned(),
                    shares,
                    options: options.clone(),
                };
                self.of_range(work, share)
            })
            .collect();
        let clusters = TaskWork::Clusters {
            index: INDEX.to_owned(),
            members: members.iter().map(|task| file(task, "members")).collect(),
            options: options.clone(),
        };
        let groups = (shares > 0).then(|| self.central(groups, TaskKind::Groups.name()));
        let uses = (shares > 0).then(|| self.uses());
        uses.into_iter()
            .chain(links)
            .chain(groups)
            .chain(members)
            .chain([self.central(clusters, &options.file_name())])
            .collect()
    }

    /// The tasks from the index to the cleaned files.
    fn clean(&self, options: &CleanPlan) -> Vec<Task> {
        let copies: Vec<Task> = (0..self.shares_of_copies(options))
            .map(|share| {
                let (of, shares) = (shared_index(), self.shares());
                self.of_range(TaskWork::Copies { of, shares }, share)
            })
            .collect();
        let decided = TaskKind::Decide.name();
        let slices: Vec<String> = self.slices.iter().map(|slice| slice.file.clone()).collect();
        let decide = TaskWork::Decide {
            index: INDEX.to_owned(),
            copies: copies
                .iter()
                .map(|task| format!("{}/copies", task.output))
                .collect(),
            slices: slices.clone(),
        };
        let write = |number: usize| {
            let work = TaskWork::Write {
                slice: self.slices[number].file.clone(),
                fates: format!("{decided}/{}", fates_name(number)),
            };
            Task {
                id: format!("write-{number:04}"),
                number,
                inputs: work.inputs(),
                work,
                output: write_output(number),
                bytes: self.slices[number].bytes,
            }
        };
        let place = TaskWork::Place {
            decided: decided.to_owned(),
            slices,
            written: (0..self.slices.len()).map(write_output).collect(),
        };
        let uses = (!copies.is_empty()).then(|| self.uses());
        uses.into_iter()
            .chain(copies)
            .chain([self.central(decide, decided)])
            .chain((0..self.slices.len()).map(write))
            .chain([self.central(place, TaskKind::Place.name())])
            .collect()
    }

    /// How many tasks find copies: none where only documents that are the same go. Other collections
    /// are not in the index, so documents are compared with them where all collections are.
    fn shares_of_copies(&self, options: &CleanPlan) -> usize {
        let has_others = !options.against.is_empty() || !options.against_documents.is_empty();
        if options.rules.levels.near && !has_others {
            self.shares()
        } else {
            0
        }
    }

    fn commit(&self) -> Task {
        let work = TaskWork::Commit {
            gathered: INDEX.to_owned(),
            known: "number/known".to_owned(),
            table: self.options.table.as_ref().map(TableOptions::file_name),
        };
        self.central(work, "commit")
    }
}

/// The files of a new index that counting in a range needs.
fn files_of_range(range: usize) -> Vec<String> {
    let segment = Manifest::segment_name(1);
    let part = PART.range_file_name(&segment, PartNo::from_index(range));
    let mut files = shared_index().files;
    files.push(part);
    files
}

/// A new index, and its files that comparing a share of the documents needs.
fn shared_index() -> SharedIndex {
    let segment = Manifest::segment_name(1);
    SharedIndex {
        index: INDEX.to_owned(),
        files: vec![
            "manifest.json".to_owned(),
            DOCUMENTS.file_name(&segment),
            SETS.file_name(&segment),
        ],
        uses: format!("{}/{USES}", TaskKind::Uses.name()),
    }
}

fn map_output(slice: usize) -> String {
    format!("map/{slice:04}")
}

fn write_output(slice: usize) -> String {
    format!("write/{slice:04}")
}

/// The file of a decide task with the fates of a slice.
pub(crate) fn fates_name(slice: usize) -> String {
    format!("{slice:04}.fates")
}

fn range_output(kind: TaskKind, range: usize) -> String {
    format!("{}/{}", kind.name(), range_name(range))
}
