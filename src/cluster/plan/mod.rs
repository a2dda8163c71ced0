//! The plan: which tasks there are, what each reads and writes. The same corpus, hosts and options
//! give the same bytes.

mod export;
mod hosts;
mod options;
mod range_owners;
mod run_directory;
mod slices;
mod task;
mod task_list;

pub use export::{EXPORTS, ExportEntry};
pub use hosts::Host;
pub use options::{
    BaseIndex, CleanPlan, ClusterOptions, PlanOptions, TableFormat, TableOptions, selection_file,
};
pub use range_owners::{read_owners, write_owners};
pub use run_directory::write_plan;
pub use task::{GatheredFiles, MappedSlice, SharedIndex, Task, TaskKind, TaskWork};

use crate::{
    base::{
        error::{Error, Place, Result},
        num::{ToU32, ToU64, ToUsize},
    },
    index::SegmentFiles,
    text::corpus::{CorpusSlice, WalkItem},
};
use range_owners::assign_owners;
use serde::{Deserialize, Serialize};
pub use slices::{SliceSize, cut_large_files};
use slices::{cut_corpus, file_bytes};
use std::{
    collections::HashMap,
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
    sync::OnceLock,
};
pub(crate) use task_list::fates_name;
use task_list::list_tasks;
use xxhash_rust::xxh3::xxh3_64;

/// The name of the plan in the directory of a run.
pub const PLAN_FILE: &str = "plan.json";
/// 1 had command lines instead of typed tasks, 2 always had hosts, and whole files only, 3 decided in
/// one task which documents go.
const VERSION: u32 = 4;
/// Ranges for each slot, unless the user says otherwise.
const RANGES_PER_SLOT: u32 = 2;
/// A range has at least one of the 256 buckets.
pub const MOST_RANGES: u32 = 256;

/// All tasks of a run, with their options.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// Always `plan`.
    dedup: String,
    version: u32,
    /// What all tasks have in common.
    #[serde(flatten)]
    pub options: PlanOptions,
    /// The hosts that run the tasks; none if only their number of slots is known.
    pub hosts: Vec<Host>,
    /// The ranges of blots: one for each part of the index.
    pub ranges: Vec<BlotRange>,
    /// The slices of the corpus.
    pub slices: Vec<PlannedSlice>,
    /// The tasks, each after those that it needs.
    pub tasks: Vec<Task>,
    #[serde(skip)]
    checksum: OnceLock<String>,
}

/// A range of blots, and the host that works on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlotRange {
    /// The top eight bits of its blots: the first value, and the one after the last.
    pub buckets: [u32; 2],
    /// The place of the host in the list of hosts.
    pub host: usize,
}

impl BlotRange {
    /// The top eight bits of its blots.
    pub fn buckets(&self) -> Range<usize> {
        self.buckets[0].to_usize()..self.buckets[1].to_usize()
    }
}

/// A slice of the corpus: a file of the run that lists the documents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedSlice {
    /// Its path below the run's directory.
    pub file: String,
    /// The number of files it lists.
    pub files: u64,
    /// The size of these files.
    pub bytes: u64,
    /// The checksum of the slice.
    pub checksum: String,
}

/// A plan as a file.
#[derive(Serialize, Deserialize)]
struct StoredPlan {
    #[serde(flatten)]
    plan: Plan,
    checksum: String,
}

/// What every version of a plan has.
#[derive(Deserialize)]
struct PlanHeader {
    dedup: String,
    version: u32,
}

impl Plan {
    /// Plans a run. Also returns the contents of the slice files.
    ///
    /// `previous_owners`: the names of the hosts that worked on the ranges of an existing index, if
    /// known; `outputs`: where the cleaned copies of files go, if they are to be cleaned.
    pub fn new(
        found: Vec<WalkItem>,
        hosts: Vec<Host>,
        options: PlanOptions,
        previous_owners: &[String],
        outputs: &HashMap<PathBuf, String>,
    ) -> Result<(Self, Vec<String>)> {
        let mut texts = Vec::new();
        let mut slices = Vec::new();
        for found in cut_corpus(found, options.slice_size()) {
            let text = CorpusSlice::write(&options.scheme, &found, outputs)?;
            let sizes = || found.iter().filter_map(file_bytes);
            slices.push(PlannedSlice {
                file: slice_name(slices.len()),
                files: sizes().count().to_u64(),
                bytes: sizes().sum(),
                checksum: CorpusSlice::checksum_of(&text),
            });
            texts.push(text);
        }
        let buckets = SegmentFiles::parts(options.parts)?;
        let owners = assign_owners(buckets.len(), &hosts, previous_owners);
        let range = |(buckets, host): (Range<usize>, usize)| BlotRange {
            buckets: [buckets.start.to_u32(), buckets.end.to_u32()],
            host,
        };
        let ranges: Vec<BlotRange> = buckets.into_iter().zip(owners).map(range).collect();
        let plan = Self {
            dedup: "plan".to_owned(),
            version: VERSION,
            tasks: list_tasks(&slices, ranges.len(), &options),
            options,
            hosts,
            ranges,
            slices,
            checksum: OnceLock::new(),
        };
        Ok((plan, texts))
    }

    /// Reads the plan of a run, and refuses one that was altered or is of another version.
    pub fn read(run: &Path) -> Result<Self> {
        let path = run.join(PLAN_FILE);
        let bytes = fs::read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::damaged(
                Place::path(run),
                "no plan is here (there is no plan.json); make one with dedup-shard plan",
            ),
            _ => Error::io(path.display(), error),
        })?;
        Self::parse(&bytes).map_err(|what| Error::damaged(Place::path(&path), what))
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let not_a_plan = |error: serde_json::Error| format!("not a plan: {error}");
        let header: PlanHeader = serde_json::from_slice(bytes).map_err(not_a_plan)?;
        if header.dedup != "plan" || header.version != VERSION {
            return Err(format!(
                "a plan of version {}, this program runs plans of version {VERSION}; \
                 make the plan again with dedup-shard plan, in another directory",
                header.version
            ));
        }
        let StoredPlan { plan, checksum } = serde_json::from_slice(bytes).map_err(not_a_plan)?;
        if plan.checksum() != checksum {
            return Err("the plan does not match its checksum; it was altered".to_owned());
        }
        if !plan.is_sound() {
            return Err("the plan contradicts itself; it was not made by this program".to_owned());
        }
        Ok(plan)
    }

    /// Whether slices, ranges and tasks belong together, so that no task writes outside of the run.
    fn is_sound(&self) -> bool {
        let are_slices_named = self
            .slices
            .iter()
            .enumerate()
            .all(|(number, slice)| slice.file == slice_name(number));
        let buckets = SegmentFiles::parts(u32::try_from(self.ranges.len()).unwrap_or_default())
            .unwrap_or_default();
        // Without hosts, a plan is for any machine.
        let has_host = |range: &BlotRange| range.host < self.hosts.len().max(1);
        are_slices_named
            && self.options.is_sound()
            && self.hosts.iter().all(Host::is_sound)
            && self.ranges.iter().all(has_host)
            && !buckets.is_empty()
            && self.ranges.iter().map(BlotRange::buckets).eq(buckets)
            && self.tasks == list_tasks(&self.slices, self.ranges.len(), &self.options)
    }

    /// The text of the file that stores it.
    pub fn to_json(&self) -> String {
        let stored = StoredPlan {
            plan: self.clone(),
            checksum: self.checksum(),
        };
        serde_json::to_string_pretty(&stored).unwrap_or_default() + "\n"
    }

    /// The checksum that tells it from all other plans.
    pub fn checksum(&self) -> String {
        let compute = || {
            let json = serde_json::to_vec(self).unwrap_or_default();
            format!("{:016x}", xxh3_64(&json))
        };
        self.checksum.get_or_init(compute).clone()
    }

    /// The task with this id.
    pub fn task(&self, id: &str) -> Result<&Task> {
        self.tasks.iter().find(|task| task.id == id).ok_or_else(|| {
            let id_of = |task: Option<&Task>| task.map(|task| task.id.clone()).unwrap_or_default();
            Error::Usage(format!(
                "the plan has no task '{id}'; it has {} to {}",
                id_of(self.tasks.first()),
                id_of(self.tasks.last())
            ))
        })
    }

    /// The task whose output a path is, or is in.
    pub fn maker(&self, path: &str) -> Option<&Task> {
        self.tasks
            .iter()
            .find(|task| Path::new(path).starts_with(&task.output))
    }

    /// Whether a host keeps a file that it was sent for later runs: files of an index, and files
    /// that options name.
    pub fn is_kept(&self, path: &str) -> bool {
        let is_of_index = |task: &Task| matches!(task.kind(), TaskKind::Gather | TaskKind::Ranges);
        self.maker(path)
            .map_or(!path.starts_with("slices/"), is_of_index)
    }

    /// The tasks of one kind, in order.
    pub fn tasks_of(&self, kind: TaskKind) -> impl Iterator<Item = &Task> {
        self.tasks.iter().filter(move |task| task.kind() == kind)
    }

    /// The label that the output of a task carries: which task of which plan made it.
    pub fn output_label(&self, task: &Task) -> String {
        format!("{}/{}", self.checksum(), task.id)
    }

    /// The index that the run brings up to date.
    pub fn base(&self) -> Result<&BaseIndex> {
        self.options
            .base
            .as_ref()
            .ok_or_else(|| Error::Usage("the plan makes a new index; it has no base".to_owned()))
    }
}

/// The default number of ranges for a number of slots: a power of two, so that all have the same number of buckets.
pub fn default_parts(slots: u32) -> u32 {
    slots
        .saturating_mul(RANGES_PER_SLOT)
        .checked_next_power_of_two()
        .map_or(MOST_RANGES, |ranges| ranges.min(MOST_RANGES))
}

fn slice_name(number: usize) -> String {
    format!("slices/{number:04}")
}

#[cfg(test)]
impl Plan {
    /// A plan of these tasks and nothing else, for tests.
    pub fn example(tasks: Vec<Task>) -> Self {
        Self {
            dedup: "plan".to_owned(),
            version: VERSION,
            options: PlanOptions::example(1),
            hosts: Vec::new(),
            ranges: Vec::new(),
            slices: Vec::new(),
            tasks,
            checksum: OnceLock::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_back_as_written() {
        let hosts = Host::parse("a slots=2", &"hosts".into()).unwrap();
        let (plan, slices) = Plan::new(
            Vec::new(),
            hosts,
            PlanOptions::example(2),
            &[],
            &HashMap::new(),
        )
        .unwrap();
        assert_eq!(slices.len(), 1);
        let read = Plan::parse(plan.to_json().as_bytes()).unwrap();
        assert_eq!(read.to_json(), plan.to_json());
        let older = plan.to_json().replace("\"version\": 4", "\"version\": 1");
        let what = Plan::parse(older.as_bytes()).unwrap_err();
        assert!(
            what.contains("version 1") && what.contains("make the plan again"),
            "{what}"
        );
    }
}
