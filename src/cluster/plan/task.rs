//! A task: what it does, what it reads, what it writes.

use super::options::{ClusterOptions, TableOptions};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The kinds of tasks, in the order in which they run: a task needs only outputs of kinds before
/// its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskKind {
    /// Stages the index that a commit starts from.
    Base,
    /// Reads a slice: its documents, and the sorted postings of each range.
    Map,
    /// Numbers the documents of all slices.
    Number,
    /// Merges one range of all slices into its postings and sets.
    Reduce,
    /// Joins the document sets of all ranges that are in a share.
    Join,
    /// Numbers the document sets of all shares.
    Sets,
    /// Writes the part of the index that holds one range.
    Part,
    /// Puts the index together.
    Gather,
    /// Stages, for each range, the files that counting needs, old and new.
    Ranges,
    /// Counts the blots that pairs of documents share in one range.
    Count,
    /// Adds the counts of all ranges up to the rows of a share of the documents.
    Rows,
    /// Puts the rows together to the table, or makes it where the index is.
    Table,
    /// Takes over from sets how many blots each has, or counts them in the index.
    Uses,
    /// Finds the links of a share of the documents, which connect clusters.
    Links,
    /// Joins the links of all shares to groups.
    Groups,
    /// Writes the clusters of a share of the groups.
    Members,
    /// Puts the clusters of all shares together, or finds them where the index is.
    Clusters,
    /// Finds, for a share of the documents, which others have enough of each.
    Copies,
    /// Decides what becomes of each document.
    Decide,
    /// Writes the files of one slice again.
    Write,
    /// Puts the cleaned files into their directory.
    Place,
    /// Commits the new segment to the index.
    Commit,
}

impl TaskKind {
    /// All kinds, in order.
    pub const ALL: [Self; 22] = [
        Self::Base,
        Self::Map,
        Self::Number,
        Self::Reduce,
        Self::Join,
        Self::Sets,
        Self::Part,
        Self::Gather,
        Self::Ranges,
        Self::Count,
        Self::Rows,
        Self::Table,
        Self::Uses,
        Self::Links,
        Self::Groups,
        Self::Members,
        Self::Clusters,
        Self::Copies,
        Self::Decide,
        Self::Write,
        Self::Place,
        Self::Commit,
    ];

    /// The name that ids, messages and reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Map => "map",
            Self::Number => "number",
            Self::Reduce => "reduce",
            Self::Join => "join",
            Self::Sets => "sets",
            Self::Part => "part",
            Self::Gather => "gather",
            Self::Ranges => "ranges",
            Self::Count => "count",
            Self::Rows => "rows",
            Self::Table => "table",
            Self::Uses => "uses",
            Self::Links => "links",
            Self::Groups => "groups",
            Self::Members => "members",
            Self::Clusters => "clusters",
            Self::Copies => "copies",
            Self::Decide => "decide",
            Self::Write => "write",
            Self::Place => "place",
            Self::Commit => "commit",
        }
    }

    /// Whether its output is a result of the run, not an intermediate file.
    pub fn is_result(self) -> bool {
        matches!(
            self,
            Self::Gather | Self::Table | Self::Clusters | Self::Place | Self::Commit
        )
    }

    /// The directory of its outputs below that of the run; none for results.
    pub fn directory(self) -> Option<&'static str> {
        (!self.is_result()).then(|| self.name())
    }

    /// Whether its output is one file, which appears when it is complete, and has no record.
    pub fn is_one_file(self) -> bool {
        matches!(self, Self::Table | Self::Clusters)
    }

    /// Whether it reads a little of every slice or range, so that it runs where the run directory
    /// is.
    pub fn is_central(self) -> bool {
        let is_of_range = matches!(self, Self::Reduce | Self::Part | Self::Count);
        let is_of_share = matches!(
            self,
            Self::Join | Self::Rows | Self::Links | Self::Members | Self::Copies
        );
        !self.is_of_slice() && !is_of_range && !is_of_share
    }

    /// Whether it reads the documents of one slice, which its first input lists.
    pub fn is_of_slice(self) -> bool {
        matches!(self, Self::Map | Self::Write)
    }
}

/// One unit of work with one output, which appears when it is complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredTask")]
pub struct Task {
    /// The name of the task, unique in the plan.
    pub id: String,
    /// What the task does.
    #[serde(flatten)]
    pub work: TaskWork,
    /// The number of its slice or range; 0 for central tasks.
    pub number: usize,
    /// The files it needs, below the run's directory. Follows from `work`.
    #[serde(skip_serializing)]
    pub inputs: Vec<String>,
    /// The file or directory it makes, below the run's directory.
    pub output: String,
    /// The size of its documents in bytes, approximately.
    pub bytes: u64,
}

/// A task as the plan stores it: the inputs follow from the work.
#[derive(Deserialize)]
struct StoredTask {
    id: String,
    #[serde(flatten)]
    work: TaskWork,
    number: usize,
    output: String,
    bytes: u64,
}

impl From<StoredTask> for Task {
    fn from(stored: StoredTask) -> Self {
        Self {
            inputs: stored.work.inputs(),
            id: stored.id,
            work: stored.work,
            number: stored.number,
            output: stored.output,
            bytes: stored.bytes,
        }
    }
}

/// What a task does. Paths are below the run's directory unless they are of an existing index.
///
/// Options that all tasks share stand in [`super::PlanOptions`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TaskWork {
    /// Links to the files of an index; if segments pile up, they are compacted in the copy.
    Base {
        /// The index.
        index: String,
        /// The checksum that its manifest must have.
        checksum: String,
    },
    /// Reads a slice of the corpus and writes documents and sorted runs.
    Map {
        /// The slice.
        slice: String,
        /// Copies of the files that the selection of blots names.
        selection_files: Vec<String>,
        /// Also writes which file each document comes from.
        with_files: bool,
    },
    /// Numbers the documents of all slices.
    Number {
        /// The documents of each slice, in order.
        documents: Vec<String>,
    },
    /// Numbers the documents that were read beside those that the index has.
    NumberChanges {
        /// What the base task made.
        base: String,
        /// The slices that were read, in order.
        slices: Vec<MappedSlice>,
    },
    /// Merges one range of all slices.
    Reduce {
        /// Where documents of slices stand in the whole.
        targets: String,
        /// The runs of the range, of each slice, in order.
        runs: Vec<String>,
        /// The words of the range, of each slice, if there is a dictionary.
        words: Vec<String>,
        /// How many shares its sets are divided among.
        shares: usize,
    },
    /// Joins the document sets of a share.
    Join {
        /// The sets of each range that are in the share, in order.
        sets: Vec<String>,
    },
    /// Numbers the document sets of all shares.
    Sets {
        /// The outputs of the join tasks, in order.
        joined: Vec<String>,
    },
    /// Writes the part of the index of one range.
    Part {
        /// The numbers in the whole of the sets of each share.
        order: String,
        /// The numbers of the range's sets in each share, in order.
        numbers: Vec<String>,
        /// The postings of the range.
        postings: String,
    },
    /// Puts the index together.
    Gather(GatheredFiles),
    /// Stages the files that counting needs, for each range.
    Ranges {
        /// The index that was gathered.
        index: String,
    },
    /// Counts what pairs of documents share in one range.
    Count {
        /// The index, of which only `files` need be there.
        index: String,
        /// The files of the index that are needed; empty if all of the directory is.
        files: Vec<String>,
        /// Ignore blots of more documents.
        max_df: Option<u64>,
        /// Count only pairs with a document that changed since this generation.
        since: Option<u64>,
    },
    /// Writes the rows of a share of the documents; there are as many shares as ranges.
    Rows {
        /// The index, of which only `files` need be there.
        index: String,
        /// The files of the index that are needed.
        files: Vec<String>,
        /// The counts of all ranges.
        counts: Vec<String>,
        /// How the table is made.
        options: TableOptions,
    },
    /// Writes the table of the most similar documents, or what changed in it.
    Table {
        /// The index that was gathered.
        index: String,
        /// The rows of all shares, in order; if there are any, they are the table.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rows: Vec<String>,
        /// The counts of all ranges; if empty, the table is made from the index alone.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        counts: Vec<String>,
        /// How the table is made.
        options: TableOptions,
        /// Write only what changed since this generation.
        since: Option<u64>,
    },
    /// Writes how many blots each set of the index has. Only parts tell, which shares do not need.
    Uses {
        /// The index that was gathered.
        index: String,
        /// A file that has it already, unless intermediate outputs were removed.
        known: String,
    },
    /// Finds the links of a share of the documents.
    Links {
        /// The index.
        of: SharedIndex,
        /// The number of shares.
        shares: usize,
        /// How clusters are made.
        options: ClusterOptions,
    },
    /// Joins the links of all shares.
    Groups {
        /// The links of all shares, in order.
        links: Vec<String>,
    },
    /// Writes the clusters of a share of the groups.
    Members {
        /// The index.
        of: SharedIndex,
        /// The joined links.
        groups: String,
        /// The number of shares.
        shares: usize,
        /// How clusters are made.
        options: ClusterOptions,
    },
    /// Writes the clusters.
    Clusters {
        /// The index that was gathered.
        index: String,
        /// The clusters of all shares, in order; if empty, they are found in the index.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        members: Vec<String>,
        /// How clusters are made.
        options: ClusterOptions,
    },
    /// Finds, for a share of the documents, which others have enough of each.
    Copies {
        /// The index.
        of: SharedIndex,
        /// The number of shares.
        shares: usize,
    },
    /// Decides what becomes of each document.
    Decide {
        /// The index that was gathered.
        index: String,
        /// The copies of all shares, in order; if empty, they are found here.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        copies: Vec<String>,
        /// The slices, in order.
        slices: Vec<String>,
    },
    /// Writes the files of one slice again, without what goes.
    Write {
        /// The slice.
        slice: String,
        /// What becomes of its documents.
        fates: String,
    },
    /// Puts the cleaned files into their directory.
    Place {
        /// What the decide task made.
        decided: String,
        /// The slices, which say where files go, in order.
        slices: Vec<String>,
        /// What the write task of each slice made, in order.
        written: Vec<String>,
    },
    /// Commits what was gathered.
    Commit {
        /// The index that was gathered.
        gathered: String,
        /// The state of the files, for the next sync.
        known: String,
        /// The table, which must be there first: afterwards the old state cannot be compared.
        table: Option<String>,
    },
}

/// A slice and what the map task made of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedSlice {
    /// The slice.
    pub slice: String,
    /// The output of its map task.
    pub output: String,
}

/// The files of a new index by which its documents are compared in shares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedIndex {
    /// The index, of which only `files` need be there.
    pub index: String,
    /// The files of the index that are needed.
    pub files: Vec<String>,
    /// How many blots each set of the index has.
    pub uses: String,
}

impl SharedIndex {
    fn inputs(&self) -> Vec<String> {
        let files = self.files.iter();
        files
            .map(|file| format!("{}/{file}", self.index))
            .chain([self.uses.clone()])
            .collect()
    }
}

/// The files that an index is put together from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatheredFiles {
    /// The output of the number task.
    pub documents: String,
    /// The output of the sets task.
    pub sets: String,
    /// The outputs of the part tasks, in order.
    pub parts: Vec<String>,
    /// The words of each range, if there is a dictionary.
    pub words: Vec<String>,
    /// What the base task made, if an existing index is changed.
    pub base: Option<String>,
}

impl TaskWork {
    /// The kind of the task.
    pub fn kind(&self) -> TaskKind {
        match self {
            Self::Base { .. } => TaskKind::Base,
            Self::Map { .. } => TaskKind::Map,
            Self::Number { .. } | Self::NumberChanges { .. } => TaskKind::Number,
            Self::Reduce { .. } => TaskKind::Reduce,
            Self::Join { .. } => TaskKind::Join,
            Self::Sets { .. } => TaskKind::Sets,
            Self::Part { .. } => TaskKind::Part,
            Self::Gather(_) => TaskKind::Gather,
            Self::Ranges { .. } => TaskKind::Ranges,
            Self::Count { .. } => TaskKind::Count,
            Self::Rows { .. } => TaskKind::Rows,
            Self::Table { .. } => TaskKind::Table,
            Self::Uses { .. } => TaskKind::Uses,
            Self::Links { .. } => TaskKind::Links,
            Self::Groups { .. } => TaskKind::Groups,
            Self::Members { .. } => TaskKind::Members,
            Self::Clusters { .. } => TaskKind::Clusters,
            Self::Copies { .. } => TaskKind::Copies,
            Self::Decide { .. } => TaskKind::Decide,
            Self::Write { .. } => TaskKind::Write,
            Self::Place { .. } => TaskKind::Place,
            Self::Commit { .. } => TaskKind::Commit,
        }
    }

    /// The files that must be there.
    pub fn inputs(&self) -> Vec<String> {
        match self {
            Self::Base { .. } => Vec::new(),
            Self::Map {
                slice,
                selection_files,
                ..
            } => [std::slice::from_ref(slice), &selection_files[..]].concat(),
            Self::Number { documents } => documents.clone(),
            Self::NumberChanges { base, slices } => {
                let files = |name: &'static str| {
                    slices
                        .iter()
                        .map(move |slice| format!("{}/{name}", slice.output))
                };
                files("docs")
                    .chain(files("files"))
                    .chain([manifest_of(base)])
                    .collect()
            }
            Self::Reduce {
                targets,
                runs,
                words,
                ..
            } => [std::slice::from_ref(targets), &runs[..], words].concat(),
            Self::Join { sets } => sets.clone(),
            Self::Sets { joined } => joined
                .iter()
                .flat_map(|share| [format!("{share}/sets"), format!("{share}/uses")])
                .collect(),
            Self::Part {
                order,
                numbers,
                postings,
            } => [&[order.clone(), postings.clone()], &numbers[..]].concat(),
            Self::Gather(files) => files.inputs(),
            Self::Ranges { index } => vec![manifest_of(index)],
            Self::Count { index, files, .. } if files.is_empty() => vec![index.clone()],
            Self::Count { index, files, .. } => {
                files.iter().map(|file| format!("{index}/{file}")).collect()
            }
            Self::Rows {
                index,
                files,
                counts,
                ..
            } => files
                .iter()
                .map(|file| format!("{index}/{file}"))
                .chain(counts.iter().cloned())
                .collect(),
            Self::Table {
                index,
                rows,
                counts,
                ..
            } => [&rows[..], counts, &[manifest_of(index)]].concat(),
            Self::Uses { index, .. } => vec![manifest_of(index)],
            Self::Links { of, .. } => of.inputs(),
            Self::Groups { links } => links.clone(),
            Self::Members { of, groups, .. } => [of.inputs(), vec![groups.clone()]].concat(),
            Self::Clusters { index, members, .. } => [&members[..], &[manifest_of(index)]].concat(),
            Self::Copies { of, .. } => of.inputs(),
            Self::Decide {
                index,
                copies,
                slices,
            } => [&[manifest_of(index)], &copies[..], slices].concat(),
            Self::Write { slice, fates } => vec![slice.clone(), fates.clone()],
            Self::Place {
                decided,
                slices,
                written,
            } => [std::slice::from_ref(decided), &slices[..], written].concat(),
            Self::Commit {
                gathered,
                known,
                table,
            } => [manifest_of(gathered), known.clone()]
                .into_iter()
                .chain(table.clone())
                .collect(),
        }
    }
}

impl GatheredFiles {
    fn inputs(&self) -> Vec<String> {
        let parts = self.parts.iter().map(|part| format!("{part}/part"));
        [
            format!("{}/docs", self.documents),
            format!("{}/sets", self.sets),
        ]
        .into_iter()
        .chain(parts)
        .chain(self.words.iter().cloned())
        .chain(self.base.as_deref().map(manifest_of))
        .collect()
    }
}

fn manifest_of(index: &str) -> String {
    format!("{index}/manifest.json")
}

impl Task {
    /// The kind of the task.
    pub fn kind(&self) -> TaskKind {
        self.work.kind()
    }

    /// The file whose presence says that the output is complete.
    pub fn marker(&self) -> PathBuf {
        let output = Path::new(&self.output);
        match self.kind() {
            kind if kind.is_one_file() => output.to_owned(),
            TaskKind::Gather | TaskKind::Base => output.join("manifest.json"),
            TaskKind::Ranges => output.join("000/manifest.json"),
            _ => output.join(crate::commands::BUILD_RECORD),
        }
    }
}

#[cfg(test)]
impl Task {
    /// A task without inputs, for tests.
    pub fn example(id: &str, work: TaskWork, number: usize, output: &str, bytes: u64) -> Self {
        Self {
            id: id.to_owned(),
            work,
            number,
            inputs: Vec::new(),
            output: output.to_owned(),
            bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_stored_without_the_inputs_that_follow_from_its_work() {
        let work = TaskWork::Part {
            order: "sets/order".to_owned(),
            numbers: vec!["join/000/000.numbers".to_owned()],
            postings: "reduce/000/postings".to_owned(),
        };
        let task = Task {
            inputs: work.inputs(),
            ..Task::example("part-000", work, 0, "part/000", 7)
        };
        let json = serde_json::to_string(&task).unwrap();
        assert_eq!(
            json,
            r#"{"id":"part-000","kind":"part","order":"sets/order","numbers":["join/000/000.numbers"],"postings":"reduce/000/postings","number":0,"output":"part/000","bytes":7}"#
        );
        assert_eq!(serde_json::from_str::<Task>(&json).unwrap(), task);
    }
}
