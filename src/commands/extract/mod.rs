//! The verbs of dedup-extract: what documents of an index have in common.

mod blots;
mod boilerplate;
mod clean;
mod cluster_shares;
mod clusters;
mod compare;
mod exact;
mod graph;
mod pairs;
mod passages;
mod report;
mod rows;
mod spans;
mod stored_tokens;
mod table;
mod wanted_pairs;

use crate::base::setting::Setting;
pub use clean::{
    CleanAccount, CleanOptions, CleanRecords, CleanRules, CleanWarning, Cleaned, Collection,
    CutLengths, Levels, Preference, Shard, ShardList, ShardWriter, SliceFates, SliceShard,
    WrittenShards, decide_fates, ensure_lines, find_copies, split_fates,
};
pub use cluster_shares::{ClusterShare, join_cluster_links};
pub use compare::{CompareMethod, CompareOptions, PairSlice, compare};
pub use passages::{PassagesOptions, passages};
pub use report::{ReportOptions, ReportSummary, date_of, write_report};
pub use spans::spans;
use wanted_pairs::PairRules;
pub use wanted_pairs::{NewDocuments, WantedPairs};

use crate::{
    base::{
        error::{Error, Result},
        ids::DocNo,
        parallel::Limits,
        share::Share,
    },
    blot::select,
    commands::{
        BlotOptions, NoObserver, Observer, Settings,
        blot::DocumentBlotter,
        excluded_text::{blots_of_files, open_reference},
        passage_options::PassageOptions,
        text_cache::TextCache,
    },
    index::{ExcludedBlots, Index, IndexDiff, View},
    report::{
        Format, GraphFormat, Ndjson, Sink,
        records::{AlignedPair, ExtractHeader},
    },
    similar::{
        CommonTextRule, Discovery, DiscoveryOptions, KeepRule, Measure, PairCounts,
        RecomputedPairs, Score,
    },
    text::{corpus, scheme::SelectScheme, stream::Form},
};
use std::{io::Write, path::PathBuf};

/// What to look for, and how to write it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Extract {
    /// Every pair, by the first document, then the second. Documents stand in the order of their ids, here and below.
    Pairs(Format),
    /// The most similar documents of each document, by a→b.
    Table {
        /// The number of rows of each document.
        top: usize,
        /// How rows are written.
        rows: RowFormat,
    },
    /// What changed in the table since an earlier commit.
    TableSince {
        /// The number of rows of each document.
        top: usize,
        /// How rows are written.
        rows: RowFormat,
        /// The number of the earlier commit.
        generation: u64,
    },
    /// Connected components of the pairs.
    Clusters {
        /// Which document of a cluster stays.
        keep: KeepRule,
        /// How records are written.
        format: Format,
    },
    /// Documents with the same tokens.
    Exact(Format),
    /// The pairs as a graph.
    Graph(GraphFormat),
    /// What is taken for boilerplate: sets of documents, those with the most text first.
    Boilerplate(Format),
    /// Blots by falling df.
    Blots {
        /// If set: only blots whose df is at least this many standard deviations above the mean.
        sigma: Option<f64>,
        /// How records are written.
        format: Format,
    },
}

/// How rows of the table are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowFormat {
    /// How records are written.
    pub format: Format,
    /// Number the rows of each document. A new row then changes the number of all rows below it, and a list of changes has to name them all.
    pub ranks: bool,
}

impl RowFormat {
    /// Rows without ranks.
    pub fn new(format: Format) -> Self {
        Self {
            format,
            ranks: false,
        }
    }
}

/// What to extract, and which pairs are similar enough.
#[derive(Debug, Clone, Copy)]
pub struct ExtractOptions {
    /// What to look for.
    pub what: Extract,
    /// How similarity is computed.
    pub score: Score,
    /// The least score of a pair.
    pub threshold: f64,
    /// Which text is too common to count.
    pub common: CommonTextRule,
    /// The number of threads, and the memory to aim at. What is kept of each document, about a hundred bytes and the id, goes to temporary files in a program that limits its large blocks (see [`limit_large_blocks`](crate::base::files::limit_large_blocks)).
    pub limits: Limits,
}

impl ExtractOptions {
    fn is_ndjson(&self) -> bool {
        match self.what {
            Extract::Pairs(format) | Extract::Exact(format) | Extract::Boilerplate(format) => {
                format == Format::Ndjson
            }
            Extract::Table { rows, .. } | Extract::TableSince { rows, .. } => {
                rows.format == Format::Ndjson
            }
            Extract::Clusters { format, .. } | Extract::Blots { format, .. } => {
                format == Format::Ndjson
            }
            Extract::Graph(_) => false,
        }
    }

    fn pair_format(&self) -> Format {
        match self.what {
            Extract::Pairs(format) => format,
            _ => Format::Ndjson,
        }
    }
}

/// Receives the number of documents that are done, and the number of all documents.
pub type Progress<'w> = dyn FnMut(u64, u64) + 'w;

/// Text and pairs that do not count.
#[derive(Debug, Clone, Default)]
pub struct LeaveOut {
    /// Files whose text does not count, such as templates.
    pub files: Vec<PathBuf>,
    /// Indexes whose documents do not count.
    pub indexes: Vec<PathBuf>,
    /// Files and directories of base text, which all authors were given.
    pub base: Vec<PathBuf>,
    /// Pairs that do not count.
    pub pairs: WantedPairs,
}

/// A [`LeaveOut`] with its files and indexes read.
#[derive(Default)]
struct Without<'w> {
    text: ExcludedBlots<'w>,
    pairs: PairRules,
}

impl LeaveOut {
    fn is_empty(&self) -> bool {
        self.files.is_empty() && self.indexes.is_empty() && self.base.is_empty()
    }

    /// In NDJSON, the first line names the text that was left out, if any was.
    fn put_header(
        &self,
        options: &ExtractOptions,
        index: &Index,
        out: &mut impl Write,
    ) -> Result<()> {
        if !options.is_ndjson() || (options.common.max_df().is_none() && self.is_empty()) {
            return Ok(());
        }
        let header = ExtractHeader {
            base: &self.base,
            dedup: "extract",
            exclude: &self.files,
            exclude_index: &self.indexes,
            max_df: options.common.max_df(),
            scheme: &index.manifest.scheme,
            version: 1,
        };
        let mut line = Vec::new();
        Ndjson.put_record(&header, &mut line)?;
        put(out, &line)
    }

    /// Calls `work` with the text and pairs that do not count. Returns its result, and the number of listed ids that the index does not have.
    fn with<T>(
        &self,
        index: &Index,
        limits: Limits,
        observer: &mut dyn Observer,
        work: impl FnOnce(&Without<'_>, &mut dyn Observer) -> Result<T>,
    ) -> Result<(T, u64)> {
        let blots = DocumentBlotter::for_comparison(&BlotOptions::default(), index)?;
        let settings = Settings {
            form: Form::Ndjson,
            limits,
            corpus: corpus::Options::of_files(Vec::new()),
        };
        let files = [&self.files[..], &self.base].concat();
        let mut found: Vec<u64> = blots_of_files(&files, &blots, &settings, observer)?
            .into_iter()
            .collect();
        found.sort_unstable();
        let references = self
            .indexes
            .iter()
            .map(|path| open_reference(path, index))
            .collect::<Result<Vec<_>>>()?;
        let views = references.iter().map(View::of).collect::<Result<_>>()?;
        let (pairs, unknown) = self.pairs.read(index, observer)?;
        Ok((
            work(
                &Without {
                    text: ExcludedBlots {
                        blots: found,
                        views,
                    },
                    pairs,
                },
                observer,
            )?,
            unknown,
        ))
    }
}

/// Writes what `options.what` names. The same index and options give the same bytes with any limits.
pub fn extract(
    options: &ExtractOptions,
    index: &Index,
    out: &mut impl Write,
    progress: &mut Progress<'_>,
) -> Result<()> {
    extract_from(
        options,
        &Without::default(),
        index,
        out,
        &mut NoObserver,
        progress,
    )
}

/// As [`extract`], without some text and some pairs; the first line of NDJSON names the text that was left out. Returns the number of listed ids that the index does not have.
pub fn extract_without(
    options: &ExtractOptions,
    leave_out: &LeaveOut,
    index: &Index,
    out: &mut impl Write,
    observer: &mut dyn Observer,
    progress: &mut Progress<'_>,
) -> Result<u64> {
    leave_out.put_header(options, index, out)?;
    let ((), unknown) = leave_out.with(index, options.limits, observer, |without, observer| {
        extract_from(options, without, index, out, observer, progress)
    })?;
    Ok(unknown)
}

/// Writes the table from the counts that [`super::count_range`] made of all ranges: the same bytes as [`extract`], but only the documents of the index are read.
pub fn extract_counted(
    options: &ExtractOptions,
    counts: &[PathBuf],
    index: &Index,
    out: &mut impl Write,
    progress: &mut Progress<'_>,
) -> Result<()> {
    extract_counted_share(options, counts, Share::WHOLE, index, out, progress)
}

/// The same for a share of the documents: all shares in order are the table.
pub fn extract_counted_share(
    options: &ExtractOptions,
    counts: &[PathBuf],
    share: Share,
    index: &Index,
    out: &mut impl Write,
    progress: &mut Progress<'_>,
) -> Result<()> {
    let (top, rows) = match options.what {
        Extract::Table { top, rows } => (top, rows),
        Extract::TableSince { .. } if options.common.counts() => {
            return write_incremental_changes(options, Some(counts), index, out, progress);
        }
        _ => {
            return Err(Error::Usage(format!(
                "counts are for the table; with {} leave out {}",
                Setting::Since,
                Setting::MaxDf
            )));
        }
    };
    if share.number == 0 {
        LeaveOut::default().put_header(options, index, out)?;
    }
    let (view, max_df) = (View::by_id(index)?, options.common.max_df());
    let documents = share.of_items(view.documents());
    let documents: Vec<DocNo> = documents.map(DocNo::from_index).collect();
    let mut is_wanted = vec![false; view.contents().len()];
    for &document in &documents {
        is_wanted[view.content_of(document).index()] = true;
    }
    let measure = Measure {
        score: Score::Inclusion,
        threshold: options.threshold,
        selection: selection(&index.scheme.select),
    };
    let counted = PairCounts::read(
        &view,
        &index.manifest.checksum(),
        counts,
        &|content| is_wanted[content.index()],
        &measure,
        max_df.unwrap_or(u64::MAX),
        options.limits.memory_bytes / 2,
    )?;
    let discovery = Discovery::from_pair_counts(
        &view,
        DiscoveryOptions {
            measure,
            common: options.common,
            limits: options.limits,
        },
        counted,
    )?;
    if share.number == 0 {
        table::put_head(&discovery, rows, out)?;
    }
    table::write_table(&discovery, Some(&documents), top, rows, out, progress)
}

/// Writes every pair with the passages that it shares; a table has a row for each passage. Returns
/// the number of documents whose text could not be read, plus that of unknown ids.
pub fn extract_passages(
    options: &ExtractOptions,
    passages: &PassageOptions,
    leave_out: &LeaveOut,
    index: &Index,
    out: &mut impl Write,
    observer: &mut dyn Observer,
    progress: &mut Progress<'_>,
) -> Result<u64> {
    leave_out.put_header(options, index, out)?;
    let texts = TextCache::new(passages, index, 4 * options.limits.threads);
    let view = View::by_id(index)?;
    let format = options.pair_format();
    let ((), unknown) = leave_out.with(index, options.limits, observer, |without, observer| {
        let discovery = discovery(options, without, index, &view, observer)?;
        pairs::write_aligned(&discovery, &texts, format, out, progress)
    })?;
    Ok(unknown + texts.report_unread(observer))
}

/// Calls `sink` with every pair whose texts can be read, and the passages that it shares. Returns the
/// same number as [`extract_passages`].
pub fn extract_aligned(
    options: &ExtractOptions,
    passages: &PassageOptions,
    leave_out: &LeaveOut,
    index: &Index,
    sink: &mut dyn FnMut(AlignedPair) -> Result<()>,
    observer: &mut dyn Observer,
    progress: &mut Progress<'_>,
) -> Result<u64> {
    let texts = TextCache::new(passages, index, 4 * options.limits.threads);
    let view = View::by_id(index)?;
    let ((), unknown) = leave_out.with(index, options.limits, observer, |without, observer| {
        let discovery = discovery(options, without, index, &view, observer)?;
        pairs::for_each_aligned(&discovery, &texts, sink, progress)
    })?;
    Ok(unknown + texts.report_unread(observer))
}

fn extract_from(
    options: &ExtractOptions,
    without: &Without<'_>,
    index: &Index,
    out: &mut impl Write,
    observer: &mut dyn Observer,
    progress: &mut Progress<'_>,
) -> Result<()> {
    let view = View::by_id(index)?;
    let mut discovery = |index: &Index, view| discovery(options, without, index, view, observer);
    match options.what {
        Extract::Exact(format) => exact::write_exact(&view, format, out),
        Extract::Blots { sigma, format } => {
            blots::write_blots(&view, index.scheme.bits, sigma, options, format, out)
        }
        Extract::Boilerplate(format) => {
            boilerplate::write_boilerplate(&view, options.limits, format, out)
        }
        Extract::Pairs(format) => {
            pairs::write_pairs(&discovery(index, &view)?, format, out, progress)
        }
        Extract::Table { top, rows } => {
            table::write_table(&discovery(index, &view)?, None, top, rows, out, progress)
        }
        Extract::TableSince { .. }
            if options.common.counts() && without.text.is_empty() && without.pairs.is_empty() =>
        {
            write_incremental_changes(options, None, index, out, progress)
        }
        Extract::TableSince {
            top,
            rows,
            generation,
        } => {
            let old = Index::open_at(&index.directory, generation)?;
            let old_view = View::by_id(&old)?;
            let text = &without.text;
            let old_filter = without.pairs.pair_filter_in(&old, &old_view)?;
            let (old, new) = (
                &discovery_of_text(options, text, &old, &old_view)?.with_pair_filter(old_filter),
                &discovery(index, &view)?,
            );
            let tables = table::full_diff::TablePair {
                old,
                new,
                top,
                compares_all: !options.common.counts() || !text.is_empty(),
            };
            table::full_diff::write_changes(&tables, rows, out, progress)
        }
        Extract::Graph(format) => {
            graph::write_graph(&discovery(index, &view)?, format, out, progress)
        }
        Extract::Clusters { keep, format } => {
            clusters::write_clusters(&discovery(index, &view)?, keep, format, out)
        }
    }
}

/// Writes what changed in the table, where nothing is left out of it. `counts`: of all ranges, if [`super::count_range`] made them.
fn write_incremental_changes(
    options: &ExtractOptions,
    counts: Option<&[PathBuf]>,
    index: &Index,
    out: &mut impl Write,
    progress: &mut Progress<'_>,
) -> Result<()> {
    let Extract::TableSince {
        top,
        rows,
        generation,
    } = options.what
    else {
        return Err(Error::Usage(
            "only a table is compared with what it was".to_owned(),
        ));
    };
    let (old, view) = (
        Index::open_at(&index.directory, generation)?,
        View::by_id(index)?,
    );
    let both = IndexDiff::new(&View::by_id(&old)?, &view)?;
    drop(view);
    let discovery = discovery_of_text(options, &ExcludedBlots::default(), index, &both.view)?;
    let of = table::incremental_diff::IncrementalDiff {
        both: &both,
        discovery: &discovery,
        top,
    };
    let open =
        |counts| RecomputedPairs::open(&both.view, &index.manifest.checksum(), generation, counts);
    of.write_changes(counts.map(open).transpose()?.as_ref(), rows, out, progress)
}

fn discovery<'v>(
    options: &ExtractOptions,
    without: &Without<'_>,
    index: &Index,
    view: &'v View<'v>,
    observer: &mut dyn Observer,
) -> Result<Discovery<'v>> {
    let discovery = discovery_of_text(options, &without.text, index, view)?;
    if let Some(boilerplate) = &discovery.boilerplate {
        observer.boilerplate(boilerplate);
    }
    Ok(discovery.with_pair_filter(without.pairs.pair_filter(index, view)?))
}

fn discovery_of_text<'v>(
    options: &ExtractOptions,
    left_out: &ExcludedBlots<'_>,
    index: &Index,
    view: &'v View<'v>,
) -> Result<Discovery<'v>> {
    let score = if matches!(
        options.what,
        Extract::Table { .. } | Extract::TableSince { .. }
    ) {
        Score::Inclusion
    } else {
        options.score
    };
    let measure = Measure {
        score,
        threshold: options.threshold,
        selection: selection(&index.scheme.select),
    };
    Discovery::excluding(
        left_out,
        view,
        DiscoveryOptions {
            measure,
            common: options.common,
            limits: options.limits,
        },
    )
}

/// What part of all blots an index has.
fn selection(scheme: &SelectScheme) -> Option<f64> {
    (!select::is_complete(scheme)).then(|| select::rate(scheme))
}

fn put(out: &mut (impl Write + ?Sized), bytes: &[u8]) -> Result<()> {
    out.write_all(bytes).map_err(Error::output)
}
