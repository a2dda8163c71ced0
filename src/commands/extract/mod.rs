//! An index to what is alike in it.

mod blots;
mod clusters;
mod compare;
mod pages;
mod pairs;
mod passages;
mod recomputed;
mod since;
mod spans;
mod stored;
mod table;
mod unique;
mod which;

pub use compare::{CompareOptions, Method, Slice, compare};
pub use pages::{Paged, PagesOptions, extract_pages};
pub use passages::{PassagesOptions, passages};
pub use spans::spans;
pub use unique::{Cleaned, UniqueOptions, unique};
use which::Which;
pub use which::{New, WhichPairs};

use crate::{
    base::{
        codec::to_json,
        error::{Error, Result},
        parallel::Limits,
    },
    blot::select,
    commands::{
        BlotOptions, Settings, Watch,
        blot::ToBlots,
        query::{blots_of_files, open_reference},
        texts::{PassageOptions, Texts},
    },
    index::{Both, Index, LeftOut, View},
    report::{Format, GraphFormat},
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
}

/// Is told how many documents are done, of how many.
pub type Done<'w> = dyn FnMut(u64, u64) + 'w;

/// Text and pairs that do not count.
#[derive(Debug, Clone, Default)]
pub struct LeaveOut {
    /// Of these files, such as templates.
    pub files: Vec<PathBuf>,
    /// Of the documents of these indexes.
    pub indexes: Vec<PathBuf>,
    /// Of these files and directories, which were handed out to all.
    pub base: Vec<PathBuf>,
    pub pairs: WhichPairs,
}

/// The same, ready to be used.
#[derive(Default)]
struct Without<'w> {
    text: LeftOut<'w>,
    pairs: Which,
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
        let mut header = serde_json::json!({
            "dedup": "extract", "version": 1, "scheme": index.manifest.scheme, "max_df": options.max_df, "exclude": self.files, "exclude_index": self.indexes,
        });
        if !self.base.is_empty() {
            header["base"] = serde_json::json!(self.base);
        }
        writeln!(out, "{}", to_json(&header)).map_err(Error::output)
    }

    /// Calls `work` with what does not count; gives what it made, and how many ids of lists are unknown.
    fn with<T>(
        &self,
        index: &Index,
        limits: Limits,
        watch: &mut dyn Watch,
        work: impl FnOnce(&Without<'_>) -> Result<T>,
    ) -> Result<(T, u64)> {
        let blots = ToBlots::for_comparison(&BlotOptions::default(), index)?;
        let settings = Settings {
            form: Form::Ndjson,
            limits,
            corpus: corpus::Options::of_files(Vec::new()),
        };
        let files = [&self.files[..], &self.base].concat();
        let mut found: Vec<u64> = blots_of_files(&files, &blots, &settings, watch)?
            .into_iter()
            .collect();
        found.sort_unstable();
        let references = self
            .indexes
            .iter()
            .map(|path| open_reference(path, index))
            .collect::<Result<Vec<_>>>()?;
        let views = references.iter().map(View::of).collect::<Result<_>>()?;
        let (pairs, unknown) = self.pairs.read(index, watch)?;
        Ok((
            work(&Without {
                text: LeftOut {
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
    done: &mut Done<'_>,
) -> Result<()> {
    extract_from(options, &Without::default(), index, out, done)
}

/// The same without some text and some pairs: with NDJSON the first line says what text was left out. Gives the number of ids that are not known.
pub fn extract_without(
    options: &ExtractOptions,
    leave_out: &LeaveOut,
    index: &Index,
    out: &mut impl Write,
    watch: &mut dyn Watch,
    done: &mut Done<'_>,
) -> Result<u64> {
    leave_out.put_header(options, index, out)?;
    let ((), unknown) = leave_out.with(index, options.limits, watch, |without| {
        extract_from(options, without, index, out, done)
    })?;
    Ok(unknown)
}

/// Writes the table, by counts of all ranges that [`super::count_range`] made: the same bytes as by the index alone, of which only the documents are read.
pub fn extract_counted(
    options: &ExtractOptions,
    counts: &[PathBuf],
    index: &Index,
    out: &mut impl Write,
    done: &mut Done<'_>,
) -> Result<()> {
    let (top, rows) = match options.what {
        Extract::Table { top, rows } => (top, rows),
        Extract::TableSince { .. } if options.max_df.is_none() => {
            return write_recomputed(options, Some(counts), index, out, done);
        }
        _ => {
            return Err(Error::Usage(
                "counts are for the table; with --since without --max-df".to_owned(),
            ));
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
    let discovery = Discovery::counted(
        &view,
        DiscoveryOptions {
            measure,
            max_df,
            limits: options.limits,
        },
        counted,
    );
    table::write_table(&discovery, top, rows, out, done)
}

/// Writes every pair with the passages that it shares, as NDJSON; gives the number of documents whose text could not be read, and of ids that are not
/// known.
pub fn extract_passages(
    options: &ExtractOptions,
    passages: &PassageOptions,
    leave_out: &LeaveOut,
    index: &Index,
    out: &mut impl Write,
    watch: &mut dyn Watch,
    done: &mut Done<'_>,
) -> Result<u64> {
    leave_out.put_header(options, index, out)?;
    let texts = Texts::new(passages, index, 4 * options.limits.threads);
    let view = View::by_id(index)?;
    let ((), unknown) = leave_out.with(index, options.limits, watch, |without| {
        pairs::write_pairs(
            &discovery(options, without, index, &view)?,
            Some(&texts),
            Format::Ndjson,
            out,
            done,
        )
    })?;
    Ok(unknown + texts.tell_unread(watch))
}

fn extract_from(
    options: &ExtractOptions,
    without: &Without<'_>,
    index: &Index,
    out: &mut impl Write,
    done: &mut Done<'_>,
) -> Result<()> {
    let view = View::by_id(index)?;
    let discovery = |index: &Index, view| discovery(options, without, index, view);
    match options.what {
        Extract::Exact(format) => clusters::write_exact(&view, format, out),
        Extract::Blots { sigma, format } => {
            blots::write(&view, index.scheme.bits, sigma, options, format, out)
        }
        Extract::Pairs(format) => {
            pairs::write_pairs(&discovery(index, &view)?, None, format, out, done)
        }
        Extract::Table { top, rows } => {
            table::write_table(&discovery(index, &view)?, top, rows, out, done)
        }
        Extract::TableSince { .. }
            if options.max_df.is_none() && without.text.is_empty() && without.pairs.is_empty() =>
        {
            write_recomputed(options, None, index, out, done)
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
            let tables = since::Tables {
                old,
                new,
                top,
                compares_all: options.max_df.is_some() || !text.is_empty(),
            };
            since::write_changes(&tables, rows, out, done)
        }
        Extract::Graph(format) => pairs::write_graph(&discovery(index, &view)?, format, out, done),
        Extract::Clusters { keep, format } => {
            clusters::write(&discovery(index, &view)?, keep, format, out)
        }
    }
}

/// Writes what changed in the table, where nothing is left out of it. `counts`: of all ranges, if [`super::count_range`] made them.
fn write_recomputed(
    options: &ExtractOptions,
    counts: Option<&[PathBuf]>,
    index: &Index,
    out: &mut impl Write,
    done: &mut Done<'_>,
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
    let both = Both::new(&View::by_id(&old)?, &view)?;
    drop(view);
    let discovery = discovery_of_text(options, &LeftOut::default(), index, &both.view)?;
    let of = recomputed::Recomputed {
        both: &both,
        discovery: &discovery,
        top,
    };
    let open =
        |counts| RecomputedPairs::open(&both.view, &index.manifest.checksum(), generation, counts);
    of.write_changes(counts.map(open).transpose()?.as_ref(), rows, out, done)
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
    left_out: &LeftOut<'_>,
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
    Discovery::without(
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
