//! An index to what is alike in it.

mod blots;
mod clean;
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
pub use clean::{CleanOptions, Cleaned, clean};
pub use compare::{CompareMethod, CompareOptions, PairSlice, compare};
pub use passages::{PassagesOptions, passages};
pub use report::{ReportOptions, ReportSummary, write_report};
pub use spans::spans;
use wanted_pairs::PairRules;
pub use wanted_pairs::{NewDocuments, WantedPairs};

use crate::{
    base::{
        error::{Error, Result},
        parallel::Limits,
    },
    blot::select,
    commands::{
        BlotOptions, Observer, Settings,
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
    similar::{Discovery, DiscoveryOptions, KeepRule, Measure, PairCounts, RecomputedPairs, Score},
    text::{corpus, scheme::SelectScheme, stream::Form},
};
use std::{io::Write, path::PathBuf};

/// What to look for, and how to write it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Extract {
    /// Every pair, by the first document, then the second. Documents stand in the order of their ids, here and below.
    Pairs(Format),
    /// The most similar documents of each document, by a→b.
    Table { top: usize, rows: RowFormat },
    /// What changed in the table since an earlier commit.
    TableSince {
        top: usize,
        rows: RowFormat,
        generation: u64,
    },
    /// Connected components of the pairs.
    Clusters { keep: KeepRule, format: Format },
    /// Documents with the same tokens.
    Exact(Format),
    /// The pairs as a graph.
    Graph(GraphFormat),
    /// Blots by falling df; with `sigma` only those at least so many standard deviations above the mean.
    Blots { sigma: Option<f64>, format: Format },
}

/// How rows of the table are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowFormat {
    pub format: Format,
    /// Number the rows of each document. One row that enters a list then changes all rows below it, which a list of changes has to name.
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

#[derive(Debug, Clone, Copy)]
pub struct ExtractOptions {
    pub what: Extract,
    pub score: Score,
    pub threshold: f64,
    /// Blots of more documents do not count.
    pub max_df: Option<u64>,
    /// How many threads, and how much memory to aim at, besides what an index of this size takes anyway: its sets, and some hundred bytes and its id for each document.
    pub limits: Limits,
}

impl ExtractOptions {
    fn is_ndjson(&self) -> bool {
        match self.what {
            Extract::Pairs(format) | Extract::Exact(format) => format == Format::Ndjson,
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

/// Receives the number of documents that are done, and of all.
pub type Progress<'w> = dyn FnMut(u64, u64) + 'w;

/// Text and pairs that do not count.
#[derive(Debug, Clone, Default)]
pub struct LeaveOut {
    /// Of these files, such as templates.
    pub files: Vec<PathBuf>,
    /// Of the documents of these indexes.
    pub indexes: Vec<PathBuf>,
    /// Of these files and directories, which were handed out to all.
    pub base: Vec<PathBuf>,
    pub pairs: WantedPairs,
}

/// The same, ready to be used.
#[derive(Default)]
struct Without<'w> {
    text: ExcludedBlots<'w>,
    pairs: PairRules,
}

impl LeaveOut {
    fn is_empty(&self) -> bool {
        self.files.is_empty() && self.indexes.is_empty() && self.base.is_empty()
    }

    /// With NDJSON, and if anything is left out, the first line says what.
    fn put_header(
        &self,
        options: &ExtractOptions,
        index: &Index,
        out: &mut impl Write,
    ) -> Result<()> {
        if !options.is_ndjson() || (options.max_df.is_none() && self.is_empty()) {
            return Ok(());
        }
        let header = ExtractHeader {
            base: &self.base,
            dedup: "extract",
            exclude: &self.files,
            exclude_index: &self.indexes,
            max_df: options.max_df,
            scheme: &index.manifest.scheme,
            version: 1,
        };
        let mut line = Vec::new();
        Ndjson.put_record(&header, &mut line)?;
        put(out, &line)
    }

    /// Calls `work` with what does not count; gives what it made, and how many ids of lists are unknown.
    fn with<T>(
        &self,
        index: &Index,
        limits: Limits,
        observer: &mut dyn Observer,
        work: impl FnOnce(&Without<'_>) -> Result<T>,
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
            work(&Without {
                text: ExcludedBlots {
                    blots: found,
                    views,
                },
                pairs,
            })?,
            unknown,
        ))
    }
}

/// Writes what is asked for. The same index and options give the same bytes, whatever the limits.
pub fn extract(
    options: &ExtractOptions,
    index: &Index,
    out: &mut impl Write,
    progress: &mut Progress<'_>,
) -> Result<()> {
    extract_from(options, &Without::default(), index, out, progress)
}

/// The same without some text and some pairs: with NDJSON the first line says what text was left out. Gives the number of ids that are not known.
pub fn extract_without(
    options: &ExtractOptions,
    leave_out: &LeaveOut,
    index: &Index,
    out: &mut impl Write,
    observer: &mut dyn Observer,
    progress: &mut Progress<'_>,
) -> Result<u64> {
    leave_out.put_header(options, index, out)?;
    let ((), unknown) = leave_out.with(index, options.limits, observer, |without| {
        extract_from(options, without, index, out, progress)
    })?;
    Ok(unknown)
}

/// Writes the table, by counts of all ranges that [`super::count_range`] made: the same bytes as by the index alone, of which only the documents are read.
pub fn extract_counted(
    options: &ExtractOptions,
    counts: &[PathBuf],
    index: &Index,
    out: &mut impl Write,
    progress: &mut Progress<'_>,
) -> Result<()> {
    let (top, rows) = match options.what {
        Extract::Table { top, rows } => (top, rows),
        Extract::TableSince { .. } if options.max_df.is_none() => {
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
    LeaveOut::default().put_header(options, index, out)?;
    let (view, max_df) = (View::by_id(index)?, options.max_df.unwrap_or(u64::MAX));
    let measure = Measure {
        score: Score::Inclusion,
        threshold: options.threshold,
        selection: selection(&index.scheme.select),
    };
    let counted = PairCounts::read(
        &view,
        &index.manifest.checksum(),
        counts,
        &measure,
        max_df,
        options.limits.memory_bytes / 2,
    )?;
    let discovery = Discovery::from_pair_counts(
        &view,
        DiscoveryOptions {
            measure,
            max_df,
            limits: options.limits,
        },
        counted,
    );
    table::write_table(&discovery, top, rows, out, progress)
}

/// Writes every pair with the passages that it shares, in tables a row for each passage; gives the
/// number of documents whose text could not be read, and of unknown ids.
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
    let ((), unknown) = leave_out.with(index, options.limits, observer, |without| {
        let discovery = discovery(options, without, index, &view)?;
        pairs::write_aligned(&discovery, &texts, format, out, progress)
    })?;
    Ok(unknown + texts.report_unread(observer))
}

/// Calls `sink` with every pair whose texts can be read, and the passages that it shares; gives the
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
    let ((), unknown) = leave_out.with(index, options.limits, observer, |without| {
        let discovery = discovery(options, without, index, &view)?;
        pairs::for_each_aligned(&discovery, &texts, sink, progress)
    })?;
    Ok(unknown + texts.report_unread(observer))
}

fn extract_from(
    options: &ExtractOptions,
    without: &Without<'_>,
    index: &Index,
    out: &mut impl Write,
    progress: &mut Progress<'_>,
) -> Result<()> {
    let view = View::by_id(index)?;
    let discovery = |index: &Index, view| discovery(options, without, index, view);
    match options.what {
        Extract::Exact(format) => exact::write_exact(&view, format, out),
        Extract::Blots { sigma, format } => {
            blots::write_blots(&view, index.scheme.bits, sigma, options, format, out)
        }
        Extract::Pairs(format) => {
            pairs::write_pairs(&discovery(index, &view)?, format, out, progress)
        }
        Extract::Table { top, rows } => {
            table::write_table(&discovery(index, &view)?, top, rows, out, progress)
        }
        Extract::TableSince { .. }
            if options.max_df.is_none() && without.text.is_empty() && without.pairs.is_empty() =>
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
                compares_all: options.max_df.is_some() || !text.is_empty(),
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
) -> Result<Discovery<'v>> {
    Ok(discovery_of_text(options, &without.text, index, view)?
        .with_pair_filter(without.pairs.pair_filter(index, view)?))
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
            max_df: options.max_df.unwrap_or(u64::MAX),
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
