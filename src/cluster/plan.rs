//! The plan: which task reads what, and writes what. The same corpus, hosts and options give the same bytes.

use super::{hosts::Host, owners::owners};
use crate::{
    base::error::{Error, Place, Result},
    commands::{BUILT, range_name},
    index::SegmentFiles,
    text::corpus::{CorpusSlice, WalkItem},
};
use serde::{Deserialize, Serialize};
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};
use xxhash_rust::xxh3::xxh3_64;

pub const NAME: &str = "plan.json";
const VERSION: u32 = 1;
/// Slices for each slot, where they are large enough: whoever is done early takes another.
const SLICES_A_SLOT: u64 = 2;
const LEAST_SLICE_BYTES: u64 = 16 << 20;
const MOST_SLICE_BYTES: u64 = 1 << 30;
/// The inputs of a task must fit on a command line.
const MOST_SLICES: u64 = 4096;
/// Ranges for each slot, where nothing else is asked for.
const RANGES_A_SLOT: u64 = 2;
const MOST_RANGES: u64 = 64;
/// What a file costs beside its bytes.
const FILE_BYTES: u64 = 512;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Always `plan`.
    pub dedup: String,
    pub version: u32,
    #[serde(flatten)]
    pub options: PlanOptions,
    pub hosts: Vec<Host>,
    pub ranges: Vec<RangeOf>,
    pub slices: Vec<SliceOf>,
    /// Each after those that it needs.
    pub tasks: Vec<Task>,
    #[serde(skip)]
    pub(super) sum: Sum,
}

/// The checksum of a plan, which does not change once it is made: it is asked for as often as there are tasks.
#[derive(Debug, Clone, Default)]
pub struct Sum(OnceLock<String>);

impl PartialEq for Sum {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Sum {}

/// What is the same for all tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanOptions {
    /// Where paths of documents start, and paths in flags.
    pub directory: String,
    pub scheme: String,
    /// Of `dedup-index build`, but for those below.
    pub flags: Vec<String>,
    pub dictionary: bool,
    /// Files that flags name, which stand in the run as `select/0` and so on.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub selects: usize,
    /// In how many parts the postings of the index will be: the ranges are these.
    pub parts: u32,
    /// For each task.
    pub memory: u64,
    pub skip_bad: bool,
    /// Also make a table of the most similar documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<TableOptions>,
    /// The index that is to follow its files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<BaseOf>,
}

// As serde calls it.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// An index, and the state it was in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseOf {
    pub index: String,
    /// Of its manifest.
    pub checksum: String,
    pub generation: u64,
    /// How `dedup-index sync` would be called.
    pub sync: Vec<String>,
    /// How many documents may be removed, in the words of `--max-remove`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_remove: Option<String>,
}

/// As `dedup-extract --as table` takes them, in its words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableOptions {
    pub threshold: String,
    pub top: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_df: Option<u64>,
    pub format: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rank: bool,
}

/// A range of blots, and who makes the part of the whole that has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeOf {
    /// The top eight bits of its blots are from the first to, but not including, the second.
    pub buckets: [u32; 2],
    /// By number among the hosts.
    pub host: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceOf {
    pub file: String,
    pub files: u64,
    pub bytes: u64,
    pub checksum: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// An index that is there to what the commit starts from.
    Base,
    /// A slice to its documents, and to sorted runs of each range.
    Map,
    /// The documents of all slices to those of the whole.
    Number,
    /// One range of all slices to its postings and sets.
    Reduce,
    /// The sets of all ranges to those of the whole.
    Sets,
    /// One range to the part of the index.
    Part,
    /// All of these to the index.
    Gather,
    /// An index that follows its files to what the owner of each range needs of it, old and new.
    Ranges,
    /// One range of the index to what pairs of documents share there.
    Count,
    /// The counts of all ranges to the table.
    Table,
    /// The index that was there becomes the new one.
    Commit,
}

impl Kind {
    /// In the order in which they are done: a task needs only what tasks of the kinds before it made.
    pub const ALL: [Self; 11] = [
        Self::Base,
        Self::Map,
        Self::Number,
        Self::Reduce,
        Self::Sets,
        Self::Part,
        Self::Gather,
        Self::Ranges,
        Self::Count,
        Self::Table,
        Self::Commit,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Map => "map",
            Self::Number => "number",
            Self::Reduce => "reduce",
            Self::Sets => "sets",
            Self::Part => "part",
            Self::Gather => "gather",
            Self::Ranges => "ranges",
            Self::Count => "count",
            Self::Table => "table",
            Self::Commit => "commit",
        }
    }

    /// What is wanted in the end; all else leads to it.
    pub fn is_result(self) -> bool {
        matches!(self, Self::Gather | Self::Table | Self::Commit)
    }

    /// Where its outputs are, below the run's directory, unless they are results.
    pub fn directory(self) -> Option<&'static str> {
        (!self.is_result()).then(|| self.name())
    }

    /// Whether it looks at what all slices, or all ranges, made: little of each, and best done where the run is.
    pub fn is_central(self) -> bool {
        !matches!(self, Self::Map | Self::Reduce | Self::Part | Self::Count)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    pub id: String,
    pub kind: Kind,
    /// Of its slice, or its range.
    pub number: usize,
    /// Below the run's directory.
    pub inputs: Vec<String>,
    pub output: String,
    /// Of documents, about.
    pub bytes: u64,
}

#[derive(Serialize, Deserialize)]
struct Checked {
    #[serde(flatten)]
    plan: Plan,
    checksum: String,
}

impl Plan {
    /// Also gives what stands in the files of the slices. `before` has the owners of the ranges of an index that is there, if they are known.
    pub fn new(
        found: Vec<WalkItem>,
        hosts: Vec<Host>,
        options: PlanOptions,
        before: &[String],
    ) -> Result<(Self, Vec<String>)> {
        let slots = hosts.iter().map(|host| u64::from(host.slots)).sum();
        let mut texts = Vec::new();
        let mut slices = Vec::new();
        for found in cut(found, slots) {
            let (text, file) = (
                CorpusSlice::write(&options.scheme, &found)?,
                slice_name(slices.len()),
            );
            let of_files = || {
                found.iter().filter_map(|found| {
                    if let WalkItem::File(entry) = found {
                        Some(entry.bytes)
                    } else {
                        None
                    }
                })
            };
            let (files, bytes) = (of_files().count() as u64, of_files().sum());
            slices.push(SliceOf {
                file,
                files,
                bytes,
                checksum: CorpusSlice::checksum_of(&text),
            });
            texts.push(text);
        }
        let buckets = SegmentFiles::parts(options.parts)?;
        let owners = owners(buckets.len(), &hosts, before);
        let range = |(buckets, host): (std::ops::Range<usize>, usize)| RangeOf {
            buckets: [buckets.start as u32, buckets.end as u32],
            host,
        };
        let ranges: Vec<RangeOf> = buckets.into_iter().zip(owners).map(range).collect();
        let tasks = tasks(&slices, ranges.len(), &options);
        Ok((
            Self {
                dedup: "plan".to_owned(),
                version: VERSION,
                options,
                hosts,
                ranges,
                slices,
                tasks,
                sum: Sum::default(),
            },
            texts,
        ))
    }

    pub fn read(run: &Path) -> Result<Self> {
        let path = run.join(NAME);
        let bytes = fs::read(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::damaged(
                Place::path(run),
                "no plan is here (there is no plan.json); make one with dedup-shard plan",
            ),
            _ => Error::io(path.display(), error),
        })?;
        let wrong = |what: String| Error::damaged(Place::path(&path), what);
        let Checked { plan, checksum } = serde_json::from_slice(&bytes)
            .map_err(|error| wrong(format!("not a plan: {error}")))?;
        if plan.checksum() != checksum {
            return Err(wrong(
                "the plan does not match its checksum; it was altered".to_owned(),
            ));
        }
        if plan.dedup != "plan" || plan.version != VERSION {
            return Err(wrong(format!(
                "a plan of version {}, this program reads version {VERSION}",
                plan.version
            )));
        }
        if !plan.is_sound() {
            return Err(wrong(
                "the plan contradicts itself; it was not made by this program".to_owned(),
            ));
        }
        Ok(plan)
    }

    /// Whether slices, ranges and tasks are those that belong to each other: nothing else is written, or removed.
    fn is_sound(&self) -> bool {
        let are_named = self
            .slices
            .iter()
            .enumerate()
            .all(|(number, slice)| slice.file == slice_name(number));
        let buckets = SegmentFiles::parts(u32::try_from(self.ranges.len()).unwrap_or_default())
            .unwrap_or_default();
        let of_ranges = self
            .ranges
            .iter()
            .map(|range| range.buckets[0] as usize..range.buckets[1] as usize);
        let are_hosts = self.hosts.iter().all(Host::is_sound)
            && self
                .ranges
                .iter()
                .all(|range| range.host < self.hosts.len());
        are_named
            && are_hosts
            && !buckets.is_empty()
            && of_ranges.eq(buckets)
            && self.tasks == tasks(&self.slices, self.ranges.len(), &self.options)
    }

    /// As it is written.
    pub fn to_json(&self) -> String {
        let checked = Checked {
            plan: self.clone(),
            checksum: self.checksum(),
        };
        serde_json::to_string_pretty(&checked).unwrap_or_default() + "\n"
    }

    /// What tells it from all other plans.
    pub fn checksum(&self) -> String {
        self.sum
            .0
            .get_or_init(|| {
                format!(
                    "{:016x}",
                    xxh3_64(&serde_json::to_vec(self).unwrap_or_default())
                )
            })
            .clone()
    }

    pub fn task(&self, id: &str) -> Result<&Task> {
        let known = || self.tasks.iter().map(|task| task.id.as_str());
        self.tasks.iter().find(|task| task.id == id).ok_or_else(|| {
            let (first, last) = (
                known().next().unwrap_or_default(),
                known().next_back().unwrap_or_default(),
            );
            Error::Usage(format!(
                "the plan has no task '{id}'; it has {first} to {last}"
            ))
        })
    }

    /// Whose output a path is, or is in.
    pub fn maker(&self, path: &str) -> Option<&Task> {
        self.tasks
            .iter()
            .find(|task| Path::new(path).starts_with(&task.output))
    }

    /// Whether a host keeps something that was brought for later runs: what an index is made of, and what flags name.
    pub fn is_kept(&self, path: &str) -> bool {
        let is_of_index = |task: &Task| matches!(task.kind, Kind::Gather | Kind::Ranges);
        self.maker(path)
            .map_or(!path.starts_with("slices/"), is_of_index)
    }

    pub fn tasks_of(&self, kind: Kind) -> impl Iterator<Item = &Task> {
        self.tasks.iter().filter(move |task| task.kind == kind)
    }

    /// What a task's output says it is for.
    pub fn output_of(&self, task: &Task) -> String {
        format!("{}/{}", self.checksum(), task.id)
    }

    /// The command line of a task, with its files below `run`.
    pub fn command(&self, task: &Task, run: &Path) -> Vec<OsString> {
        let PlanOptions {
            flags,
            dictionary,
            parts,
            memory,
            ..
        } = &self.options;
        let path = |name: &String| run.join(name).into_os_string();
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let output = [OsString::from("-o"), path(&task.output)];
        let base = self.options.base.as_ref();
        let mut line = match task.kind {
            Kind::Gather | Kind::Commit => return self.own_command(task, run),
            Kind::Number if base.is_some() => return self.own_command(task, run),
            Kind::Map => words(&["dedup-index", "build", "-q", "--skip-bad", "--runs"]),
            Kind::Table => words(&["dedup-extract", "-q", "--as=table"]),
            kind => words(&["dedup-index", "step", kind.name()]),
        };
        line.extend([format!("--memory={memory}"), "--threads=1".to_owned()].map(OsString::from));
        line.extend(
            (task.kind != Kind::Table).then(|| format!("--of={}", self.output_of(task)).into()),
        );
        let index = || run.join("index").into_os_string();
        let max_df = self
            .options
            .table
            .as_ref()
            .and_then(|table| table.max_df)
            .map(|df| format!("--max-df={df}").into());
        let with_words = *dictionary && matches!(task.kind, Kind::Map | Kind::Reduce);
        line.extend(with_words.then(|| "--dictionary".into()));
        line.extend(output);
        match task.kind {
            Kind::Base => {
                let BaseOf {
                    index, checksum, ..
                } = base.cloned().unwrap_or_default();
                line.extend(
                    [format!("--checksum={checksum}"), "--".to_owned(), index].map(OsString::from),
                );
            }
            Kind::Map => {
                line.extend(base.map(|_| "--files".into()));
                line.extend(flags.iter().map(|flag| self.with_files(flag, run)));
                line.extend([format!("--parts={parts}").into(), "--slice".into()]);
                line.extend(task.inputs.first().map(path));
            }
            Kind::Ranges => line.extend([format!("--parts={parts}").into(), index()]),
            Kind::Reduce | Kind::Part => {
                // The first of its inputs is that of the whole; words stand beside their runs.
                line.push(
                    if task.kind == Kind::Part {
                        "--numbers"
                    } else {
                        "--targets"
                    }
                    .into(),
                );
                line.extend(
                    task.inputs
                        .iter()
                        .filter(|input| !input.ends_with(".words"))
                        .map(path),
                );
            }
            Kind::Count => {
                line.push(format!("--range={}/{parts}", task.number).into());
                line.extend(base.map(|base| format!("--since={}", base.generation).into()));
                let of = if base.is_some() {
                    path(&ranges_name(task.number))
                } else {
                    index()
                };
                line.extend(max_df.into_iter().chain([of]));
            }
            Kind::Table => {
                if let Some(TableOptions {
                    threshold,
                    top,
                    format,
                    rank,
                    ..
                }) = &self.options.table
                {
                    let flags = [
                        format!("--threshold={threshold}"),
                        format!("--top={top}"),
                        format!("--format={format}"),
                    ];
                    line.extend(flags.map(OsString::from));
                    line.extend(rank.then(|| "--rank".into()));
                }
                line.extend(base.map(|base| format!("--since={}", base.generation).into()));
                let counts = task
                    .inputs
                    .iter()
                    .filter(|input| input.ends_with("/counts"));
                line.extend(
                    max_df
                        .into_iter()
                        .chain(counts.flat_map(|input| ["--counts".into(), path(input)]))
                        .chain([index()]),
                );
            }
            _ => line.extend(task.inputs.iter().map(path)),
        }
        line
    }
}

impl Plan {
    pub(super) fn base(&self) -> Result<&BaseOf> {
        self.options
            .base
            .as_ref()
            .ok_or_else(|| Error::Usage("the plan has no base; that is for plan --base".to_owned()))
    }

    /// A flag, with the files it names below `run`.
    fn with_files(&self, flag: &str, run: &Path) -> OsString {
        let named = |flag: String, number: usize| {
            let (before, after) = (
                format!(":{}", select_name(number)),
                format!(":{}", run.join(select_name(number)).display()),
            );
            flag.split(',')
                .map(|part| {
                    part.strip_suffix(&before)
                        .map_or_else(|| part.to_owned(), |name| format!("{name}{after}"))
                })
                .collect::<Vec<_>>()
                .join(",")
        };
        let is_select = self.options.selects > 0 && flag.starts_with("--select=");
        if is_select {
            (0..self.options.selects)
                .fold(flag.to_owned(), named)
                .into()
        } else {
            flag.into()
        }
    }

    /// That of a task which looks at the plan itself.
    fn own_command(&self, task: &Task, run: &Path) -> Vec<OsString> {
        let output = run.join(&task.output).into_os_string();
        vec![
            "dedup-shard".into(),
            task.kind.name().into(),
            run.into(),
            "-o".into(),
            output,
        ]
    }
}

/// As many ranges as there are enough of for so many slots: a power of two.
pub fn usual_parts(hosts: &[Host]) -> u32 {
    let slots: u64 = hosts.iter().map(|host| u64::from(host.slots)).sum();
    (RANGES_A_SLOT * slots).next_power_of_two().min(MOST_RANGES) as u32
}

/// The file whose presence says that the output of a task is whole.
pub fn marker(task: &Task) -> PathBuf {
    match task.kind {
        Kind::Table => task.output.clone().into(),
        Kind::Gather | Kind::Base => Path::new(&task.output).join("manifest.json"),
        Kind::Ranges => Path::new(&ranges_name(0)).join("manifest.json"),
        _ => Path::new(&task.output).join(BUILT),
    }
}

/// What an owner of a range needs of an index that follows its files.
pub(super) fn ranges_name(range: usize) -> String {
    format!("ranges/{}", range_name(range))
}

/// A file that flags name.
pub fn select_name(number: usize) -> String {
    format!("select/{number}")
}

fn slice_name(number: usize) -> String {
    format!("slices/{number:04}")
}

fn table_name(table: &TableOptions) -> String {
    format!("table.{}", table.format)
}

fn tasks(slices: &[SliceOf], ranges: usize, options: &PlanOptions) -> Vec<Task> {
    let dictionary = options.dictionary;
    let bytes: u64 = slices.iter().map(|slice| slice.bytes).sum();
    let all_slices = |file: &str| {
        (0..slices.len())
            .map(|slice| format!("map/{slice:04}/{file}"))
            .collect::<Vec<_>>()
    };
    let all_ranges = |directory: &str, file: &str| {
        (0..ranges)
            .map(|range| format!("{directory}/{}{file}", range_name(range)))
            .collect()
    };
    let map = |(number, slice): (usize, &SliceOf)| Task {
        id: format!("map-{number:04}"),
        kind: Kind::Map,
        number,
        inputs: [slice.file.clone()]
            .into_iter()
            .chain((0..options.selects).map(select_name))
            .collect(),
        output: format!("map/{number:04}"),
        bytes: slice.bytes,
    };
    let of_range = |kind: Kind, range: usize, inputs: Vec<String>| Task {
        id: format!("{}-{range:03}", kind.name()),
        kind,
        number: range,
        inputs,
        output: format!("{}/{}", kind.name(), range_name(range)),
        bytes: bytes / ranges as u64,
    };
    let reduce = |range: usize| {
        let of_slices = |ending: &str| all_slices(&format!("{}.{ending}", range_name(range)));
        let words = if dictionary {
            of_slices("words")
        } else {
            Vec::new()
        };
        of_range(
            Kind::Reduce,
            range,
            [vec!["number/targets".to_owned()], of_slices("runs"), words].concat(),
        )
    };
    let part = |range: usize| {
        let name = range_name(range);
        of_range(
            Kind::Part,
            range,
            vec![
                format!("sets/{name}.numbers"),
                format!("reduce/{name}/postings"),
            ],
        )
    };
    let central = |kind: Kind, inputs: Vec<String>, output: &str| Task {
        id: kind.name().to_owned(),
        kind,
        number: 0,
        inputs,
        output: output.to_owned(),
        bytes,
    };
    let words: Vec<String> = if dictionary {
        all_ranges("reduce", "/words")
    } else {
        Vec::new()
    };
    let own = |file: &str| vec![file.to_owned()];
    let has_base = options.base.is_some();
    let of_base = if has_base {
        own("base/manifest.json")
    } else {
        Vec::new()
    };
    let of_files = if has_base {
        all_slices("files")
    } else {
        Vec::new()
    };
    let gathered = [
        own("number/docs"),
        own("sets/sets"),
        all_ranges("part", "/part"),
        words,
        of_base.clone(),
    ]
    .concat();
    let mut tasks: Vec<Task> = options
        .base
        .iter()
        .map(|_| central(Kind::Base, Vec::new(), "base"))
        .collect();
    tasks.extend(slices.iter().enumerate().map(map));
    tasks.push(central(
        Kind::Number,
        [all_slices("docs"), of_files, of_base].concat(),
        "number",
    ));
    tasks.extend((0..ranges).map(reduce));
    tasks.push(central(Kind::Sets, all_ranges("reduce", "/sets"), "sets"));
    tasks.extend((0..ranges).map(part));
    tasks.push(central(Kind::Gather, gathered, "index"));
    if let Some(table) = &options.table {
        let of_index = |files: &[&str]| {
            files
                .iter()
                .map(|file| format!("index/{file}"))
                .collect::<Vec<_>>()
        };
        let of_all = of_index(&["manifest.json", "000001.docs", "000001.sets"]);
        let count = |range: usize| match has_base {
            true => of_range(Kind::Count, range, vec![ranges_name(range)]),
            false => of_range(
                Kind::Count,
                range,
                [
                    &of_all[..],
                    &of_index(&[&format!("000001.{range:03}.part")]),
                ]
                .concat(),
            ),
        };
        // What is left out changes with every document, and with it all rows: then both tables are made, where the index is.
        let is_counted = !has_base || table.max_df.is_none();
        let counted: Vec<String> = if is_counted {
            all_ranges("count", "/counts")
        } else {
            Vec::new()
        };
        tasks.extend(
            (has_base && is_counted)
                .then(|| central(Kind::Ranges, own("index/manifest.json"), "ranges")),
        );
        tasks.extend((0..counted.len()).map(count));
        tasks.push(central(
            Kind::Table,
            [counted, own("index/manifest.json")].concat(),
            &table_name(table),
        ));
    }
    // What is committed cannot be compared with what it was any more: the table comes first.
    let table: Vec<String> = options.table.iter().map(table_name).collect();
    let committed = [own("index/manifest.json"), own("number/known"), table].concat();
    tasks.extend(
        options
            .base
            .iter()
            .map(|_| central(Kind::Commit, committed.clone(), "commit")),
    );
    tasks
}

/// Cuts a corpus into slices of about the same size, each of files that follow each other. Never none.
fn cut(found: Vec<WalkItem>, slots: u64) -> Vec<Vec<WalkItem>> {
    let weight = |found: &WalkItem| {
        FILE_BYTES
            + if let WalkItem::File(entry) = found {
                entry.bytes
            } else {
                0
            }
    };
    let total: u64 = found.iter().map(weight).sum();
    let slice_bytes = total
        .div_ceil(SLICES_A_SLOT * slots)
        .clamp(LEAST_SLICE_BYTES, MOST_SLICE_BYTES);
    let count = total.div_ceil(slice_bytes).max(slots).min(MOST_SLICES);
    let (mut slices, mut last, mut before) = (vec![Vec::new()], 0, 0);
    for found in found {
        let weight = weight(&found);
        let slice = u128::from(2 * before + weight) * u128::from(count) / u128::from(2 * total);
        if slice != last && !slices[slices.len() - 1].is_empty() {
            slices.push(Vec::new());
        }
        last = slice;
        before += weight;
        let end = slices.len() - 1;
        slices[end].push(found);
    }
    slices
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::corpus::FileEntry;
    use proptest::prelude::*;

    fn files(sizes: &[u64]) -> Vec<WalkItem> {
        let entry = |(number, &bytes): (usize, &u64)| {
            let name = number.to_string();
            WalkItem::File(FileEntry {
                path: name.clone().into(),
                copy: None,
                beneath: None,
                id: name.into(),
                is_named: false,
                is_regular: true,
                bytes,
                modified: [0; 2],
            })
        };
        sizes.iter().enumerate().map(entry).collect()
    }

    fn sizes(slices: &[Vec<WalkItem>]) -> Vec<Vec<u64>> {
        let bytes = |found: &WalkItem| {
            if let WalkItem::File(entry) = found {
                entry.bytes
            } else {
                0
            }
        };
        slices
            .iter()
            .map(|slice| slice.iter().map(bytes).collect())
            .collect()
    }

    #[test]
    fn slices_are_balanced_by_bytes() {
        assert_eq!(
            sizes(&cut(files(&[5, 5, 5, 5, 5, 5]), 3)),
            [[5, 5], [5, 5], [5, 5]]
        );
        assert_eq!(
            sizes(&cut(files(&[1, 1, 1, 90_000, 1, 1]), 2)),
            [vec![1, 1, 1], vec![90_000, 1, 1]]
        );
        assert_eq!(sizes(&cut(Vec::new(), 3)), [Vec::<u64>::new()]);
        // Of 1 GiB at most, and a little for each file.
        assert_eq!(cut(files(&[1 << 29; 40]), 2).len(), 21);
    }

    proptest! {
        #[test]
        fn slices_are_the_corpus_in_order(sizes_of in prop::collection::vec(0_u64..100_000, 0..60), slots in 1_u64..9) {
            let slices = sizes(&cut(files(&sizes_of), slots));
            prop_assert_eq!(slices.concat(), sizes_of);
            prop_assert!(slices.len() as u64 <= slots && !slices.is_empty());
        }
    }
}
