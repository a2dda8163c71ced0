//! The options of a plan: what all of its tasks have in common.

use super::slices::SliceSize;
use crate::{
    base::{
        codec::exact_number,
        error::{Error, Result},
        files::TempDir,
        parallel::Limits,
    },
    blot::select,
    commands::{BlotOptions, CleanRules, Extract, ExtractOptions, MaxRemove, RowFormat, Settings},
    index::Resources,
    report::Format,
    similar::{CommonTextRule, KeepRule, Score},
    text::{corpus, stream::Form},
};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// What all tasks of a plan have in common.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlanOptions {
    /// The directory where the plan was made: relative paths of documents start there.
    pub directory: String,
    /// The blot scheme that every slice must give.
    pub scheme: String,
    /// How documents become blots. Files that the selection names are those of the run, see
    /// `selection_file`.
    pub blots: BlotOptions,
    /// How the files of a slice are read.
    pub reading: corpus::Options,
    /// Each machine keeps extracted texts in the cache directory of its own user; otherwise in the
    /// one that `reading` names, or nowhere.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_cache: bool,
    /// Whether the index gets a dictionary of words.
    pub dictionary: bool,
    /// How many files the selection of blots names.
    pub selection_files: usize,
    /// The number of range parts of the index; each is made by its own tasks.
    pub parts: u32,
    /// How many tasks run at a time, on all hosts together. It determines how finely the work is divided.
    pub slots: u32,
    /// The size of a slice in bytes; if not set, it follows from the slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_bytes: Option<u64>,
    /// The memory of each task in bytes.
    pub memory: u64,
    /// Inputs that cannot be used are warnings, not errors.
    pub skip_bad: bool,
    /// Also make a table of the most similar documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<TableOptions>,
    /// Also find groups of documents that are connected by pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<ClusterOptions>,
    /// The existing index to bring up to date; none to make a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<BaseIndex>,
    /// Also write the files again, without what is there twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean: Option<CleanPlan>,
}

/// How the files of the corpus are cleaned. Paths of outputs are absolute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CleanPlan {
    /// The directory that the cleaned files go to.
    pub output: String,
    /// Which documents and passages go.
    pub rules: CleanRules,
    /// Indexes of other collections, whose documents and passages go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub against: Vec<String>,
    /// The same as documents: files and directories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub against_documents: Vec<String>,
    /// Ids of these documents are paths below the directories that were given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub relative: bool,
    /// A file for a record of each document that goes; its name says how it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<String>,
    /// The same for each passage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuts: Option<String>,
    /// A file for the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
}

/// The index that a run brings up to date, and the state it was in.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BaseIndex {
    /// The directory of the index.
    pub index: String,
    /// The checksum of its manifest.
    pub checksum: String,
    /// Its generation.
    pub generation: u64,
    /// How the files that the index follows are found and read.
    pub corpus: corpus::Options,
    /// How many documents may be removed; none for the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_remove: Option<MaxRemove>,
}

/// How the table is made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableOptions {
    /// The least similarity that counts.
    #[serde(with = "exact_number")]
    pub threshold: f64,
    /// The number of rows for each document.
    pub top: u32,
    /// Ignore blots of more documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_df: Option<u64>,
    /// The format of the rows.
    pub format: TableFormat,
    /// Whether rows are numbered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rank: bool,
}

/// How clusters are made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClusterOptions {
    /// How similarity is computed.
    pub score: Score,
    /// The least score of a pair.
    #[serde(with = "exact_number")]
    pub threshold: f64,
    /// Which text is too common to count.
    pub common: CommonTextRule,
    /// Which document of a cluster stays.
    pub keep: KeepRule,
    /// The format of the clusters.
    pub format: TableFormat,
}

/// The format of the table and of the clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableFormat {
    /// A JSON object a line.
    Ndjson,
    /// Tab-separated values.
    Tsv,
}

impl TableFormat {
    /// The formats by name, which is also the extension of the file.
    pub const NAMES: [(&str, Self); 2] = [("ndjson", Self::Ndjson), ("tsv", Self::Tsv)];

    /// The name of the format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ndjson => "ndjson",
            Self::Tsv => "tsv",
        }
    }

    fn sink(self) -> Format {
        match self {
            Self::Ndjson => Format::Ndjson,
            Self::Tsv => Format::Tsv,
        }
    }
}

impl TableOptions {
    /// The name of the table below the run's directory.
    pub fn file_name(&self) -> String {
        format!("table.{}", self.format.name())
    }

    /// How rows are written.
    pub fn row_format(&self) -> RowFormat {
        RowFormat {
            format: self.format.sink(),
            ranks: self.rank,
        }
    }
}

impl ClusterOptions {
    /// The name of the file of clusters below the run's directory.
    pub fn file_name(&self) -> String {
        format!("clusters.{}", self.format.name())
    }

    /// What the tasks of clusters look for, with this much memory.
    pub fn extraction(&self, memory_bytes: u64) -> ExtractOptions {
        ExtractOptions {
            what: Extract::Clusters {
                keep: self.keep,
                format: self.format.sink(),
            },
            score: self.score,
            threshold: self.threshold,
            common: self.common,
            limits: Limits::new(1, memory_bytes),
        }
    }
}

/// Documents under way take this share of the memory of a task, and no more than
/// [`MOST_UNDER_WAY`].
const UNDER_WAY_SHARE: u64 = 4;
const MOST_UNDER_WAY: u64 = 128 << 20;
/// A document takes about eight times its size while it is worked on.
const SIZE_FACTOR: u64 = 8;

impl PlanOptions {
    /// What a task may use: its memory and one thread.
    pub fn resources(&self) -> Resources {
        Resources {
            memory_bytes: self.memory,
            threads: 1,
            tmp_dir: TempDir(None),
        }
    }

    /// How finely the corpus is cut.
    pub(super) fn slice_size(&self) -> SliceSize {
        SliceSize {
            slots: self.slots,
            is_fine: self.clean.is_some(),
            asked_bytes: self.slice_bytes,
        }
    }

    /// How a task reads documents.
    pub fn settings(&self, corpus: corpus::Options) -> Settings {
        let under_way = (self.memory / UNDER_WAY_SHARE).min(MOST_UNDER_WAY);
        Settings {
            form: Form::Binary,
            limits: Limits::new(1, under_way / SIZE_FACTOR),
            corpus,
        }
    }

    /// How a task reads the files of a slice. `copies`: where copies of them are, if they were
    /// sent.
    pub fn slice_settings(&self, slice: PathBuf, copies: Option<&Path>) -> Settings {
        self.settings(corpus::Options {
            slice: Some(slice),
            copies: copies.map(Path::to_owned),
            ..self.reading_here()
        })
    }

    /// How a task of this machine reads files that it finds in another way.
    pub fn reading_here(&self) -> corpus::Options {
        corpus::Options {
            adapter_cache: if self.own_cache {
                corpus::default_cache()
            } else {
                self.reading.adapter_cache.clone()
            },
            ..self.reading.clone()
        }
    }

    /// How documents become blots, with the files that the selection names below `run`.
    pub fn blots_in(&self, run: &Path) -> BlotOptions {
        let mut blots = self.blots.clone();
        for term in blots.select.iter_mut().flat_map(|select| &mut select.0) {
            if let Some(file) = term
                .argument
                .as_mut()
                .filter(|name| is_selection_file(name))
            {
                *file = run.join(&*file).display().to_string();
            }
        }
        blots
    }

    /// Reads the files that the selection of blots names, and lets it name their copies in the run
    /// instead, which hosts have.
    pub fn take_selection_files(&mut self) -> Result<Vec<Vec<u8>>> {
        let mut files = Vec::new();
        for term in self
            .blots
            .select
            .iter_mut()
            .flat_map(|select| &mut select.0)
        {
            let names_file = select::names_file(term);
            if let Some(file) = term.argument.as_mut().filter(|_| names_file) {
                files.push(fs::read(&*file).map_err(|error| Error::io(&*file, error))?);
                *file = selection_file(files.len() - 1);
            }
        }
        self.selection_files = files.len();
        Ok(files)
    }

    /// Whether nothing in the plan leads out of the run's directory.
    pub(super) fn is_sound(&self) -> bool {
        self.reading.paths.is_empty() && self.reading.files_from.is_none()
    }
}

/// A copy of a file that the selection of blots names, below the run's directory.
pub fn selection_file(number: usize) -> String {
    format!("select/{number}")
}

fn is_selection_file(name: &str) -> bool {
    name.strip_prefix("select/")
        .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
impl PlanOptions {
    /// A plan for a new index of a few parts, for tests.
    pub fn example(parts: u32) -> Self {
        Self {
            directory: "/".to_owned(),
            scheme: "word@18.0 ordered:8:32 all".to_owned(),
            blots: BlotOptions::default(),
            reading: corpus::Options::default(),
            own_cache: false,
            dictionary: false,
            selection_files: 0,
            parts,
            slots: 2,
            slice_bytes: None,
            memory: 1,
            skip_bad: false,
            table: None,
            clusters: None,
            base: None,
            clean: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections_name_the_copies_in_the_run() {
        let mut options = PlanOptions::example(1);
        options.blots.select = Some("winnow:4,spex:select/0,anchor:select/1".into());
        assert_eq!(
            options.blots_in(Path::new("/r")).select,
            Some("winnow:4,spex:/r/select/0,anchor:/r/select/1".into())
        );
    }

    #[test]
    fn thresholds_are_read_back_exactly() {
        let table = TableOptions {
            threshold: 0.1 + 0.2,
            top: 3,
            max_df: None,
            format: TableFormat::Tsv,
            rank: false,
        };
        let json = serde_json::to_string(&table).unwrap();
        assert_eq!(serde_json::from_str::<TableOptions>(&json).unwrap(), table);
    }
}
