//! An index to what is alike in it.

mod blots;
mod clusters;
mod pairs;
mod spans;
mod unique;

pub use spans::spans;
pub use unique::{Sifted, UniqueOptions, unique};

use crate::{
    error::{Error, Result},
    index::{Index, View},
    parallel::Limits,
    report::{Format, GraphFormat},
    select,
    similar::{Discovery, Keep, Measure, Options, Score},
};
use std::io::Write;

/// What to look for, and how to write it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Extract {
    /// Every pair, by the first document, then the second.
    Pairs(Format),
    /// The most similar documents of each document, by a→b.
    Table { top: usize, format: Format },
    /// Connected components of the pairs.
    Clusters { keep: Keep, format: Format },
    /// Documents with the same tokens.
    Exact(Format),
    /// The pairs as a graph.
    Graph(GraphFormat),
    /// Blots by falling df; with `sigma` only those at least so many standard deviations above the mean.
    Blots { sigma: Option<f64>, format: Format },
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

/// Is told how many documents are done, of how many.
pub type Done<'w> = dyn FnMut(u64, u64) + 'w;

/// Writes what is asked for. The same index and options give the same bytes, whatever the limits.
pub fn extract(options: &ExtractOptions, index: &Index, out: &mut impl Write, done: &mut Done<'_>) -> Result<()> {
    let view = View::of(index)?;
    match options.what {
        Extract::Exact(format) => clusters::write_exact(&view, format, out),
        Extract::Blots { sigma, format } => blots::write(&view, index.scheme.bits, sigma, options, format, out),
        Extract::Pairs(format) => pairs::write_pairs(&discovery(options, index, &view)?, format, out, done),
        Extract::Table { top, format } => pairs::write_table(&discovery(options, index, &view)?, top, format, out, done),
        Extract::Graph(format) => pairs::write_graph(&discovery(options, index, &view)?, format, out, done),
        Extract::Clusters { keep, format } => clusters::write(&discovery(options, index, &view)?, keep, format, out),
    }
}

fn discovery<'v>(options: &ExtractOptions, index: &Index, view: &'v View<'v>) -> Result<Discovery<'v>> {
    let score = if matches!(options.what, Extract::Table { .. }) { Score::Inclusion } else { options.score };
    let measure = Measure { score, threshold: options.threshold, selection: selection(&index.scheme.select) };
    Discovery::new(view, Options { measure, max_df: options.max_df.unwrap_or(u64::MAX), limits: options.limits })
}

/// What part of all blots an index has.
fn selection(name: &str) -> Option<f64> {
    (name != "all").then(|| select::rate(name))
}

fn put(out: &mut (impl Write + ?Sized), bytes: &[u8]) -> Result<()> {
    out.write_all(bytes).map_err(Error::output)
}
