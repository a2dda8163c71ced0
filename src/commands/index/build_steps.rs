//! The steps from the runs of several slices to one index. Any process on any host can do a step.
//!
//! ```text
//! slice ──► docs ─────────► number ──► docs, targets ─────────────────────────────────────────────► index
//!       └─► runs of a range ──────────────┴─► reduce ──► sets of shares ──► join ──► number sets ──►
//!                                                    └─► postings ────────────┴──────────┴─► part ──►
//! ```
//!
//! Numbering documents needs the documents of all slices. Sets are joined in shares of the documents, each from the sets of all ranges; then
//! it is enough to count them to number them all. Everything else is done range by range.

use crate::base::num::{ToU32, ToUsize};
use crate::base::setting::Setting;
use crate::{
    base::{
        error::{Error, Result},
        files::{Sealed, SealedWriter, atomic_dir},
        ids::PartNo,
        parallel::Limits,
    },
    commands::index::{build::write_new, build_record::BuildRecord},
    index::{
        DOCUMENTS, DocumentNumbering, DocumentRow, Documents, Index, IndexDiff, Manifest,
        NumberedDocuments, PART, RangePostings, Resources, SETS, SegmentEntry, SetFile, SetNumbers,
        SetOrder, SetUses, View, WORDS, join_words, make_part, merge_words,
        posting::{Key, NARROW_BITS, RangeRuns, RunFile, join_set_runs, write_set_runs},
        write_documents, write_range_postings, write_sets,
    },
    similar::{PairCountOptions, write_pair_counts},
    text::{
        corpus::{Account, IdSet},
        scheme::BlotScheme,
    },
};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    io::Write,
    ops::Range,
    path::{Path, PathBuf},
};

/// Options that all steps have.
#[derive(Debug, Clone)]
pub struct StepOptions {
    /// The task that the step belongs to; it goes into the [`BuildRecord`].
    pub of: Option<String>,
    /// Memory, threads and temporary files.
    pub resources: Resources,
}

impl StepOptions {
    /// Makes a directory of files, with a record of them.
    pub fn make(&self, output: &Path, work: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        self.make_with(output, |beside| {
            work(beside).map(|()| (Vec::new(), Account::default()))
        })
    }

    /// The same, where some of the input could not be used.
    pub fn make_with(
        &self,
        output: &Path,
        work: impl FnOnce(&Path) -> Result<(Vec<String>, Account)>,
    ) -> Result<()> {
        atomic_dir::create(output, |beside| {
            let (problems, account) = work(beside)?;
            BuildRecord {
                of: self.of.clone(),
                problems,
                account,
                ..BuildRecord::default()
            }
            .write(beside)
        })
    }

    /// Makes a directory of files without seals, with a record of them. `work` returns what to say about input that could not be used.
    pub fn make_plain(
        &self,
        output: &Path,
        work: impl FnOnce(&Path) -> Result<Vec<String>>,
    ) -> Result<()> {
        atomic_dir::create(output, |beside| {
            BuildRecord {
                of: self.of.clone(),
                problems: work(beside)?,
                ..BuildRecord::default()
            }
            .write_plain(beside)
        })
    }
}

/// No number: the document is not posted here.
const NONE: u32 = u32::MAX;

#[derive(Debug, Serialize, Deserialize)]
struct TargetsDescription {
    kind: String,
    /// How many documents each slice has.
    slices: Vec<u32>,
    /// The number of documents of all slices.
    documents: u32,
    postings: u64,
    /// The first number that was never given.
    numbers: u32,
    /// Of each slice, the ids of documents that are in an earlier one, and are not kept.
    repeated: Vec<Vec<String>>,
    /// There is nothing to write: the index is up to date.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_empty: bool,
}

pub(crate) const TARGETS: &str = "targets";

/// The number that each document of each slice has in the index.
pub struct Targets {
    file: Sealed,
    of: TargetsDescription,
}

impl Targets {
    /// Opens a file that [`number_documents`] wrote.
    pub fn open(path: &Path) -> Result<Self> {
        let file = Sealed::open(path)?;
        let of: TargetsDescription = file.describe()?;
        if of.kind != TARGETS || of.repeated.len() != of.slices.len() {
            return Err(file.damaged(0, "the description of the targets contradicts itself"));
        }
        Ok(Self { file, of })
    }

    /// For each document of a slice its number in the index, or `u32::MAX` if it has no postings.
    fn of_slice(&self, slice: usize) -> Result<Vec<u32>> {
        let before: u64 = self.of.slices[..slice]
            .iter()
            .map(|&count| u64::from(count))
            .sum();
        let bytes = self
            .file
            .bytes(8 + 4 * before, 4 * u64::from(self.of.slices[slice]))?;
        let targets: Vec<u32> = bytes
            .as_chunks()
            .0
            .iter()
            .map(|bytes| u32::from_le_bytes(*bytes))
            .collect();
        if targets
            .iter()
            .any(|&target| target >= self.of.documents && target != NONE)
        {
            return Err(self
                .file
                .damaged(8 + 4 * before, "a document beyond all others"));
        }
        Ok(targets)
    }

    /// The first number that was never given.
    pub(crate) fn numbers(&self) -> u32 {
        self.of.numbers
    }

    /// Whether the index is up to date.
    pub(crate) fn is_empty(&self) -> bool {
        self.of.is_empty
    }

    /// Of each slice, the ids of documents that are in an earlier one.
    pub fn repeated(&self) -> &[Vec<String>] {
        &self.of.repeated
    }
}

/// Numbers the documents of all slices. Writes `docs`, and `targets`, which maps the documents of each slice to these numbers.
///
/// Of documents with one id the first is kept. Memory: about a hundred bytes and the id for each document, in large blocks.
pub fn number_documents(options: &StepOptions, slices: &[PathBuf], output: &Path) -> Result<()> {
    options.make(output, |directory| {
        let (mut numbering, mut seen, mut posted) = (
            DocumentNumbering::new(None),
            IdSet::default(),
            PostingOwners::default(),
        );
        for slice in slices {
            let documents = Documents::open(slice)?;
            posted.start();
            for place in 0..documents.len() {
                let (id, row) = (documents.id(place)?, documents.row(place)?);
                if seen.insert(IdSet::hash(&id))? {
                    posted.note(place, &row, numbering.add(&id, row)?.1);
                } else {
                    posted.repeat(id);
                }
            }
        }
        write_numbered(directory, slices, numbering, posted).map(drop)
    })
}

/// The targets of documents without a hash, whose content cannot be looked up.
#[derive(Default)]
pub(crate) struct PostingOwners {
    /// Of each slice, the documents without a hash, and their numbers in the index.
    alone: Vec<Vec<(u32, u32)>>,
    repeated: Vec<Vec<String>>,
}

impl PostingOwners {
    /// Another slice follows.
    pub fn start(&mut self) {
        self.alone.push(Vec::new());
        self.repeated.push(Vec::new());
    }

    /// A document was taken, with or without postings.
    pub fn note(&mut self, place: u32, row: &DocumentRow, posted: Option<u32>) {
        if let (None, Some(posted), Some(alone)) = (row.hash, posted, self.alone.last_mut()) {
            alone.push((place, posted));
        }
    }

    /// A document with this id came before.
    pub fn repeat(&mut self, id: String) {
        if let Some(repeated) = self.repeated.last_mut() {
            repeated.push(id);
        }
    }
}

/// Writes `docs` and `targets`; returns the number of each document.
pub(crate) fn write_numbered(
    directory: &Path,
    slices: &[PathBuf],
    numbering: DocumentNumbering<'_>,
    posted: PostingOwners,
) -> Result<Vec<u32>> {
    let (targets, counts) = targets_of(slices, &numbering, &posted.alone)?;
    let is_empty = numbering.is_empty() && numbering.is_change();
    let NumberedDocuments {
        documents,
        effects,
        numbers,
        next,
    } = numbering.settle(None)?;
    let own = documents.rows().filter(|row| !row.is_alias());
    let postings = own.map(|row| u64::from(row.posted)).sum();
    let count = documents.len().to_u32();
    write_documents(&directory.join("docs"), &documents, &effects)?;
    let (kind, repeated) = (TARGETS.to_owned(), posted.repeated);
    let of = TargetsDescription {
        kind,
        slices: counts,
        documents: count,
        postings,
        numbers: next,
        repeated,
        is_empty,
    };
    let path = directory.join(TARGETS);
    let failed = |error| Error::io(path.display(), error);
    let mut out = SealedWriter::create(&path).map_err(failed)?;
    targets
        .iter()
        .try_for_each(|target| out.write_all(&target.to_le_bytes()))
        .map_err(failed)?;
    out.finish(&of).map_err(failed)?;
    Ok(numbers)
}

/// The targets of all documents. If several slices have postings of the same content, those of the first slice count.
fn targets_of(
    slices: &[PathBuf],
    numbering: &DocumentNumbering<'_>,
    alone: &[Vec<(u32, u32)>],
) -> Result<(Vec<u32>, Vec<u32>)> {
    let (mut targets, mut counts, mut is_taken) = (
        Vec::new(),
        Vec::new(),
        vec![false; numbering.len().to_usize()],
    );
    for (slice, alone) in slices.iter().zip(alone) {
        let documents = Documents::open(slice)?;
        let start = targets.len();
        for place in 0..documents.len() {
            let row = documents.row(place)?;
            let first = row
                .hash
                .filter(|_| !row.is_alias())
                .and_then(|hash| numbering.place_of(hash));
            let target =
                first.filter(|&first| !std::mem::replace(&mut is_taken[first.to_usize()], true));
            targets.push(target.unwrap_or(NONE));
        }
        alone
            .iter()
            .for_each(|&(place, target)| targets[start + place.to_usize()] = target);
        counts.push(documents.len());
    }
    Ok((targets, counts))
}

/// Joins one range of all slices: writes its `postings`, the sets of each of `shares`, and its `words` if there are any. The files of words
/// are beside those of runs.
pub fn reduce_range(
    options: &StepOptions,
    targets: &Path,
    runs: &[PathBuf],
    shares: usize,
    with_words: bool,
    output: &Path,
) -> Result<()> {
    let targets = Targets::open(targets)?;
    if runs.len() != targets.of.slices.len() {
        let what = format!(
            "{} files of runs, and {} slices",
            runs.len(),
            targets.of.slices.len()
        );
        return Err(targets.file.damaged(0, what));
    }
    let mut files = Vec::with_capacity(runs.len());
    for (slice, path) in runs.iter().enumerate() {
        files.push((RunFile::open(path)?, targets.of_slice(slice)?));
    }
    let Some((first, _)) = files.first() else {
        return Err(Error::Usage("no runs to reduce".to_owned()));
    };
    for (file, numbers) in &files {
        let is_same = (file.scheme(), file.buckets()) == (first.scheme(), first.buckets());
        if !is_same || file.documents().to_usize() != numbers.len() {
            return Err(file
                .file()
                .damaged(0, "the runs of another range, scheme or slice"));
        }
    }
    let (bits, buckets, scheme) = (first.bits(), first.buckets(), first.scheme().to_owned());
    let of = RangeRuns {
        files: &files,
        bits,
        buckets: buckets.clone(),
        documents: targets.of.documents,
        postings: targets.of.postings,
    };
    options.make(output, |directory| {
        let reduce = if bits <= NARROW_BITS {
            reduce_as::<u64>
        } else {
            reduce_as::<u128>
        };
        let sets: Vec<PathBuf> = (0..shares.max(1))
            .map(|share| directory.join(sets_name(share)))
            .collect();
        reduce(&of, &scheme, &options.resources, directory, &sets)?;
        if with_words {
            let words = runs
                .iter()
                .map(|path| path.with_extension("words"))
                .zip(files.iter().map(|(_, numbers)| numbers.clone()));
            merge_words(
                &directory.join("words"),
                buckets,
                &words.collect::<Vec<_>>(),
                options.resources.threads,
            )?;
        }
        Ok(())
    })
}

fn reduce_as<K: Key>(
    of: &RangeRuns<'_>,
    scheme: &str,
    resources: &Resources,
    directory: &Path,
    sets: &[PathBuf],
) -> Result<()> {
    let inverted = of.invert::<K>(
        resources.memory_bytes,
        &resources.tmp_dir,
        resources.threads,
    )?;
    let numbers = write_set_runs(sets, &inverted.sets, of.documents)?;
    write_range_postings(
        &directory.join("postings"),
        &inverted,
        &numbers,
        scheme,
        of.buckets.clone(),
        resources.threads,
    )
}

/// The name of the file with the sets of a range that are in a share.
pub fn sets_name(share: usize) -> String {
    format!("{share:03}.sets")
}

/// The name of the file with the numbers that the sets of a range have in a share.
pub fn numbers_name(range: usize) -> String {
    format!("{range:03}.numbers")
}

/// The file with the sets of a share, or of the whole.
const SET_FILE: &str = "sets";
/// The file with the number of blots of each set.
const USES: &str = "uses";
/// The file with the number in the whole of each set of each share.
const ORDER: &str = "order";

/// Joins the sets of a share, which `inputs` has for each range: writes `sets` and `uses` of the share, and for each range the numbers that
/// its sets have there.
pub fn join_sets(
    options: &StepOptions,
    ranges: &[Range<usize>],
    inputs: &[PathBuf],
    output: &Path,
) -> Result<()> {
    if ranges.len() != inputs.len() {
        return Err(Error::Usage(format!(
            "sets of {} ranges, and there are {}",
            inputs.len(),
            ranges.len()
        )));
    }
    options.make(output, |directory| {
        let files: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
        let (sets, numbers) = join_set_runs(&files, &options.resources.tmp_dir)?;
        write_sets(&directory.join(SET_FILE), &sets)?;
        SetUses::of(&sets).write(&directory.join(USES))?;
        for (number, range) in ranges.iter().enumerate() {
            let path = directory.join(numbers_name(number));
            SetNumbers::write(&path, &numbers.of(number)?, range)?;
        }
        Ok(())
    })
}

/// Numbers the sets of all shares, which [`join_sets`] wrote to these directories: writes `sets` and `uses` of the whole, and `order`, which
/// has the number in the whole of each set of each share.
pub fn number_sets(options: &StepOptions, shares: &[PathBuf], output: &Path) -> Result<()> {
    let open = |share: &PathBuf| -> Result<(SetFile, SetUses)> {
        let sets = SetFile::open(&share.join(SET_FILE))?;
        let uses = SetUses::read(&share.join(USES))?;
        if uses.sets() != sets.len() {
            return Err(sets.file().damaged(0, "the uses are those of other sets"));
        }
        Ok((sets, uses))
    };
    let shares = shares.iter().map(open).collect::<Result<Vec<_>>>()?;
    options.make(output, |directory| {
        let (order, uses) = SetOrder::join(&shares, &directory.join(SET_FILE))?;
        uses.write(&directory.join(USES))?;
        order.write(&directory.join(ORDER))
    })
}

/// Writes `uses`, the number of blots of each set of an index that was made at once: those that
/// [`number_sets`] wrote for it, if these files are still there, or what the index tells.
pub fn write_set_uses(
    options: &StepOptions,
    index: &Path,
    known: Option<&Path>,
    output: &Path,
) -> Result<()> {
    let limits = Limits::new(options.resources.threads, options.resources.memory_bytes);
    options.make(output, |directory| {
        let uses = match known {
            Some(known) => SetUses::read(known)?,
            None => SetUses::count(&View::of(&Index::open_whole(index)?)?, limits)?,
        };
        uses.write(&directory.join(USES))
    })
}

/// Writes the `part` of the index for a range, from its reduced postings, and the numbers that its sets have in each share.
pub fn finish_part(
    options: &StepOptions,
    order: &Path,
    numbers: &[PathBuf],
    reduced: &Path,
    output: &Path,
) -> Result<()> {
    let (reduced, order) = (RangePostings::open(reduced)?, SetOrder::read(order)?);
    let numbers = SetNumbers::of_range(&order, &reduced.buckets(), numbers)?;
    options.make(output, |directory| {
        make_part(
            &directory.join("part"),
            &reduced,
            &numbers,
            options.resources.threads,
        )
    })
}

/// Which pairs of an index are counted.
#[derive(Debug, Clone)]
pub struct CountRange {
    /// The range, by the top eight bits of its blots.
    pub buckets: Range<usize>,
    /// Blots of more documents do not count.
    pub max_df: Option<u64>,
    /// If set: only pairs with a document that was recomputed since this commit, in either state of the index.
    pub since: Option<u64>,
}

/// Counts the blots that pairs of documents share in a range of an index: writes `counts`. Only the documents, the sets and the parts of the range need to be present.
pub fn count_range(
    options: &StepOptions,
    index: &Path,
    of: &CountRange,
    output: &Path,
) -> Result<()> {
    let open = |generation| Index::open_range(index, of.buckets.clone(), generation);
    let index = open(None)?;
    let new = View::by_id(&index)?;
    let limits = Limits::new(options.resources.threads, options.resources.memory_bytes);
    let write = |view: &View<'_>, since: Option<(u64, u32)>| {
        let (checksum, buckets, max_df) = (
            index.manifest.checksum(),
            of.buckets.clone(),
            of.max_df.unwrap_or(u64::MAX),
        );
        let counting = PairCountOptions {
            index: &checksum,
            buckets,
            max_df,
            since,
            limits,
        };
        options.make(output, |directory| {
            write_pair_counts(&directory.join("counts"), view, &counting)
        })
    };
    let Some(generation) = of.since else {
        return write(&new, None);
    };
    if of.max_df.is_some() {
        return Err(Error::Usage(format!(
            "{} changes what all documents are measured by; with {} leave it out",
            Setting::MaxDf,
            Setting::Since
        )));
    }
    let both = IndexDiff::new(&View::by_id(&open(Some(generation))?)?, &new)?;
    write(&both.view, Some((generation, both.changed)))
}

/// The outputs of the steps, of which an index is assembled.
pub struct PartFiles {
    /// The output of [`number_documents`].
    pub documents: PathBuf,
    /// The output of [`number_sets`].
    pub sets: PathBuf,
    /// The output of [`finish_part`] for each range.
    pub parts: Vec<PathBuf>,
    /// The words that [`reduce_range`] wrote, if there is a dictionary.
    pub words: Vec<PathBuf>,
}

/// Assembles an index: verifies the files, then links them where that is possible, and else copies them.
pub fn place_parts(
    files: &PartFiles,
    scheme: &BlotScheme,
    preset: Option<&str>,
    output: &Path,
) -> Result<()> {
    atomic_dir::create(output, |directory| {
        write_new(directory, || {
            let segment = place_segment(files, 1, directory)?;
            let numbers = Targets::open(&files.documents.join(TARGETS))?.numbers();
            let dictionary = !files.words.is_empty();
            Ok((
                Manifest {
                    generation: 1,
                    numbers,
                    dictionary,
                    preset: preset.map(str::to_owned),
                    segments: vec![segment],
                    ..Manifest::new(scheme)
                },
                (),
            ))
        })
    })
}

/// Puts the files of a segment in a directory.
pub(crate) fn place_segment(
    files: &PartFiles,
    generation: u64,
    directory: &Path,
) -> Result<SegmentEntry> {
    let name = Manifest::segment_name(generation);
    let mut placed = [&DOCUMENTS, &SETS]
        .map(|kind| directory.join(kind.file_name(&name)))
        .to_vec();
    place(&files.documents.join(DOCUMENTS.ending), &placed[0])?;
    place(&files.sets.join(SETS.ending), &placed[1])?;
    for (number, part) in PartNo::first(files.parts.len()).zip(&files.parts) {
        placed.push(directory.join(PART.range_file_name(&name, number)));
        place(&part.join(PART.ending), &placed[placed.len() - 1])?;
    }
    if !files.words.is_empty() {
        placed.push(directory.join(WORDS.file_name(&name)));
        join_words(&placed[placed.len() - 1], &files.words)?;
    }
    let parts = files.parts.len().to_u32();
    SegmentEntry::of_files(name, [generation; 2], parts, directory, &placed)
}

/// Links or copies a file, after verifying it.
pub(crate) fn place(from: &Path, to: &Path) -> Result<()> {
    Sealed::open(from)?.verify()?;
    if fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    fs::copy(from, to).map(drop).map_err(|error| {
        Error::io(
            format!("{}: not copied from {}", to.display(), from.display()),
            error,
        )
    })
}
