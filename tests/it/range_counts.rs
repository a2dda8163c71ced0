//! Helper: counts what pairs share range by range, as dedup-shard does, and makes the table from
//! the counts.

use crate::test_dir::TestDir;
use dedup::{
    base::{error::Result, files::TempDir, parallel::Limits},
    commands::{
        CountRange, Extract, ExtractOptions, RowFormat, StepOptions, count_range, extract_counted,
    },
    index::{Index, Resources, SegmentFiles},
    report::Format,
    similar::Score,
};

const MEMORY_BYTES: u64 = 256 << 20;

/// Counts one of several ranges of an index into `OUTPUT/counts`.
pub fn count(
    dir: &TestDir,
    index: &str,
    (range, ranges): (usize, u32),
    since: Option<u64>,
    output: &str,
) -> Result<()> {
    let step = StepOptions {
        of: None,
        resources: Resources {
            memory_bytes: MEMORY_BYTES,
            threads: 1,
            tmp_dir: TempDir(None),
        },
    };
    let counted = CountRange {
        buckets: SegmentFiles::parts(ranges)?[range].clone(),
        max_df: None,
        since,
    };
    count_range(&step, &dir.path(index), &counted, &dir.path(output))
}

/// Options of a TSV table that is made from counts.
pub struct CountedTable {
    pub top: usize,
    pub threshold: f64,
    pub max_df: Option<u64>,
    pub since: Option<u64>,
    pub ranks: bool,
}

impl CountedTable {
    /// Makes the table from the counts in these directories.
    pub fn make(&self, dir: &TestDir, index: &str, counts: &[&str]) -> Result<String> {
        let rows = RowFormat {
            format: Format::Tsv,
            ranks: self.ranks,
        };
        let top = self.top;
        let options = ExtractOptions {
            what: self
                .since
                .map_or(Extract::Table { top, rows }, |generation| {
                    Extract::TableSince {
                        top,
                        rows,
                        generation,
                    }
                }),
            score: Score::Inclusion,
            threshold: self.threshold,
            common: self.max_df.into(),
            limits: Limits::new(1, MEMORY_BYTES),
        };
        let counts: Vec<_> = counts
            .iter()
            .map(|directory| dir.path(directory).join("counts"))
            .collect();
        let index = Index::open_whole(&dir.path(index))?;
        let mut table = Vec::new();
        extract_counted(&options, &counts, &index, &mut table, &mut |_, _| ())?;
        Ok(String::from_utf8(table).unwrap())
    }
}
