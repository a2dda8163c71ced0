//! Builds an index of documents, tokens or blots.

use crate::base::num::{ToU32, ToUsize};
use crate::{
    base::{
        error::{Error, Result},
        files::{WriteLock, atomic_dir, durable},
    },
    commands::{
        BlotOptions, DocumentStage, Observer, Settings, StageOutput, Summary,
        blot::{DocumentBlotter, open},
        index::build_record::{BuildRecord, ProblemRecorder},
        index::document_files::DocumentFiles,
        run,
        stage::IdsAndPlaces,
    },
    index::{
        DocumentRow, Manifest, Resources, RunFiles, SegmentBuilder, SegmentFiles, ensure_new,
        posting::{Key, NARROW_BITS, Postings, WordCounter, WordCounts},
        sweep,
    },
    text::{
        corpus::{Content, CorpusSlice, InputDocument, Source},
        scheme::BlotScheme,
    },
};
use std::{collections::BTreeSet, fs, marker::PhantomData, path::Path};

/// How to build an index.
#[derive(Debug, Clone)]
pub struct BuildOptions {
    /// How documents become blots.
    pub blots: BlotOptions,
    /// The number of range parts, 1 to 256.
    pub parts: u32,
    /// Also write a dictionary of words.
    pub dictionary: bool,
    /// Memory, threads and temporary files.
    pub resources: Resources,
}

/// Builds an index in a directory that has none. Removes what an interrupted build left there.
pub fn build(
    options: &BuildOptions,
    settings: &Settings,
    directory: &Path,
    observer: &mut dyn Observer,
) -> Result<Summary> {
    write_new(directory, || {
        let (source, blots) = open(&options.blots, settings)?;
        if blots.scheme.bits <= NARROW_BITS {
            build_as::<u64>(options, settings, directory, source, blots, observer)
        } else {
            build_as::<u128>(options, settings, directory, source, blots, observer)
        }
    })
}

/// How runs are written.
#[derive(Debug, Clone, Default)]
pub struct RunsOptions {
    /// The task that this is done for; it goes into the [`BuildRecord`].
    pub of: Option<String>,
    /// Also write which file each document is from.
    pub with_files: bool,
}

/// Reads documents as [`build`] does, and writes the input of the steps of `build_steps`: the documents, and the sorted postings of each range.
///
/// The directory appears under its name when it is complete; see [`BuildRecord`].
pub fn build_runs(
    options: &BuildOptions,
    runs: &RunsOptions,
    settings: &Settings,
    directory: &Path,
    observer: &mut dyn Observer,
) -> Result<Summary> {
    let slice = settings
        .corpus
        .slice
        .as_deref()
        .map(CorpusSlice::open)
        .transpose()?;
    atomic_dir::create(directory, |beside| {
        let opened = open(&options.blots, settings)?;
        let mut recorder = ProblemRecorder {
            observer,
            problems: Vec::new(),
            files: Vec::new(),
            left_out: Vec::new(),
            damaged: BTreeSet::new(),
        };
        let make = if opened.1.scheme.bits <= NARROW_BITS {
            build_runs_as::<u64>
        } else {
            build_runs_as::<u128>
        };
        let (summary, files) = make(options, settings, beside, opened, &mut recorder)?;
        if runs.with_files {
            files.write(&beside.join(DocumentFiles::NAME), &recorder.files)?;
        }
        let slice = slice.map(|slice| slice.checksum().to_owned());
        BuildRecord {
            of: runs.of.clone(),
            slice,
            problems: recorder.problems,
            left_out: recorder.left_out,
            account: summary.account.clone(),
            damaged: recorder.damaged,
            ..BuildRecord::default()
        }
        .write(beside)?;
        Ok(summary)
    })
}

fn build_runs_as<K: Key>(
    options: &BuildOptions,
    settings: &Settings,
    directory: &Path,
    (source, blots): (Source, DocumentBlotter),
    observer: &mut dyn Observer,
) -> Result<(Summary, DocumentFiles)> {
    let (scheme, ranges) = (blots.scheme.clone(), SegmentFiles::parts(options.parts)?);
    let mut files = DocumentFiles::default();
    let (builder, summary) = gather::<K>(options, settings, source, blots, observer, |ids| {
        files.add(ids)
    })?;
    builder.write_runs(&RunFiles {
        directory,
        scheme: &scheme,
        ranges: &ranges,
    })?;
    Ok((summary, files))
}

/// The name of the directory of a range part.
pub fn range_name(range: usize) -> String {
    format!("{range:03}")
}

/// Makes an index in a directory that has none: `work` writes the files and returns the manifest.
pub(crate) fn write_new<T>(
    directory: &Path,
    work: impl FnOnce() -> Result<(Manifest, T)>,
) -> Result<T> {
    ensure_new(directory)?;
    let lock = WriteLock::take(directory)?;
    // Checked again, now that the lock keeps other writers out.
    let done = ensure_new(directory)
        .and_then(|()| sweep(directory, None))
        .and_then(|()| work())
        .and_then(|(manifest, done)| {
            manifest.commit(directory)?;
            durable::sync_ancestors(directory)?;
            Ok(done)
        });
    lock.release(directory)?;
    done.inspect_err(|_| leave_nothing(directory))
}

/// Refuses to write an empty index because no document could be read: it is of no use, and the corrected command would find its name taken.
pub(crate) fn ensure_some_read(summary: &Summary, is_empty: bool) -> Result<()> {
    if summary.problems > 0 && is_empty {
        return Err(Error::Usage(
            "no document could be read, so no index was made".to_owned(),
        ));
    }
    Ok(())
}

/// Removes the files of a failed build: the directory was empty before it.
fn leave_nothing(directory: &Path) {
    if ensure_new(directory).is_ok() {
        let _ = sweep(directory, None);
        let _ = fs::remove_dir(directory);
    }
}

fn build_as<K: Key>(
    options: &BuildOptions,
    settings: &Settings,
    directory: &Path,
    source: Source,
    blots: DocumentBlotter,
    observer: &mut dyn Observer,
) -> Result<(Manifest, Summary)> {
    let (scheme, parts) = (blots.scheme.clone(), SegmentFiles::parts(options.parts)?);
    let (builder, summary) = gather::<K>(options, settings, source, blots, observer, |_| {})?;
    let summary = summary.ensure_documents(settings)?;
    ensure_some_read(&summary, builder.is_empty())?;
    let manifest = Manifest {
        preset: options.blots.preset.clone(),
        ..first_manifest(&scheme, options.dictionary)
    };
    let (segment, numbers, _) = builder.write(&SegmentFiles {
        directory,
        name: &Manifest::segment_name(1),
        changes: [1, 1],
        manifest: &manifest,
        parts,
    })?;
    let manifest = Manifest {
        numbers,
        segments: vec![segment],
        ..manifest
    };
    Ok((manifest, summary))
}

/// The manifest of an index with a single commit, whose segment is still to be written.
fn first_manifest(scheme: &BlotScheme, dictionary: bool) -> Manifest {
    Manifest {
        generation: 1,
        dictionary,
        ..Manifest::new(scheme)
    }
}

/// Reads all documents, and calls `note` for each.
fn gather<K: Key>(
    options: &BuildOptions,
    settings: &Settings,
    source: Source,
    blots: DocumentBlotter,
    observer: &mut dyn Observer,
    mut note: impl FnMut(&IdsAndPlaces),
) -> Result<(SegmentBuilder<'static, K>, Summary)> {
    let mut builder = SegmentBuilder::<K>::new(blots.scheme.bits, options.resources.clone(), None);
    if options.dictionary {
        builder = builder.with_dictionary();
    }
    let summary = run(
        &IndexStage::new(blots, options.dictionary),
        source,
        settings,
        observer,
        |documents, ids| {
            note(&ids);
            builder
                .add(documents.named(ids), &documents.postings, &documents.words)
                .map(drop)
        },
    )?;
    Ok((builder, summary))
}

/// Rows and postings of some documents, numbered from 0.
pub(crate) struct DocumentBatch<K> {
    rows: Vec<DocumentRow>,
    /// The blots of all documents, and where those of each document end.
    blots: Vec<u64>,
    ends: Vec<usize>,
    pub postings: Postings<K>,
    pub words: WordCounts,
}

impl<K: Key> Default for DocumentBatch<K> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            blots: Vec::new(),
            ends: Vec::new(),
            postings: Postings::default(),
            words: WordCounts::default(),
        }
    }
}

impl<K> DocumentBatch<K> {
    /// The rows with their ids.
    pub fn named(&self, ids: IdsAndPlaces) -> Vec<(Box<str>, DocumentRow)> {
        ids.into_iter()
            .map(|(id, _)| id)
            .zip(self.rows.iter().copied())
            .collect()
    }
}

impl<K: Key> StageOutput for DocumentBatch<K> {
    fn weight(&self) -> u64 {
        (size_of_val(self.postings.keys()) + size_of_val(&self.rows[..])) as u64
            + self.words.weight()
    }

    fn drop_documents(&mut self, dropped: &[usize]) {
        let is_dropped = |number: u32| dropped.binary_search(&(number.to_usize())).is_ok();
        let before =
            |number: u32| dropped.partition_point(|&dropped| dropped < number.to_usize()) as u32;
        self.postings
            .renumber(|number| (!is_dropped(number)).then(|| number - before(number)));
        self.words
            .renumber(|number| (!is_dropped(number)).then(|| number - before(number)));
        let mut number = 0;
        self.rows.retain(|_| {
            number += 1;
            !is_dropped(number - 1)
        });
    }
}

/// Gathers rows and postings.
pub(crate) struct IndexStage<K> {
    blots: DocumentBlotter,
    /// The word counts, if a dictionary is wanted.
    words: Option<WordCounter>,
    of: PhantomData<fn() -> K>,
}

impl<K> IndexStage<K> {
    pub fn new(blots: DocumentBlotter, with_words: bool) -> Self {
        let blots = if with_words {
            blots
        } else {
            blots.only_blots()
        };
        Self {
            blots,
            words: with_words.then(WordCounter::default),
            of: PhantomData,
        }
    }
}

impl<K> Clone for IndexStage<K> {
    fn clone(&self) -> Self {
        Self {
            blots: self.blots.clone(),
            words: self.words.clone(),
            of: self.of,
        }
    }
}

impl<K: Key> DocumentStage for IndexStage<K> {
    type Out = DocumentBatch<K>;

    fn take(&mut self, item: &InputDocument<'_>, out: &mut DocumentBatch<K>) -> Result<(), String> {
        if self.words.is_some() && matches!(item.content, Content::Blots(_)) {
            return Err(
                "a blot stream has no words for the dictionary; start from documents or tokens"
                    .to_owned(),
            );
        }
        let (blots, hash) = self.blots.blots(item)?;
        let tokens = u32::try_from(blots.tokens)
            .map_err(|_| "a document of more than 4 G tokens; split it")?;
        let distinct = blots
            .distinct
            .map_or(Ok(0), u32::try_from)
            .map_err(|_| "a document of more than 4 G blots; split it")?;
        let row = DocumentRow::new(item.bytes, tokens, hash).with_blots(distinct);
        out.blots.extend_from_slice(&blots.values);
        if let (Some(words), Some(tokens)) = (&mut self.words, self.blots.tokens_of(item)) {
            words.count(tokens, out.rows.len().to_u32(), &mut out.words);
        }
        out.rows.push(row);
        out.ends.push(out.blots.len());
        Ok(())
    }

    fn finish(&mut self, out: &mut DocumentBatch<K>) {
        self.blots.release_buffers();
        let (blots, ends) = (
            std::mem::take(&mut out.blots),
            std::mem::take(&mut out.ends),
        );
        out.postings = Postings::new(&blots, &ends, self.blots.scheme.bits);
    }
}
