//! Blots by falling df, as dupi extracts them: a blot of many documents is likely to be copied text.

use super::{ExtractOptions, put};
use crate::base::ids::{Blot, ContentNo, DocNo};
use crate::base::num::{ToF64, ToU64};
use crate::{
    base::error::Result,
    index::{
        View,
        posting::{SetDictionary, Sets},
    },
    report::{
        DocumentIds, Format, Sink,
        records::{BlotRecord, hex_blot},
    },
};
use std::{collections::BTreeMap, io::Write, ops::RangeInclusive};

/// Writes every blot of two or more documents with all its documents: most documents first, then by blot.
///
/// The postings are read once to count, and once for each range of dfs whose blots fit into memory. Blots of one df are read in order,
/// so a df with too many blots is a range of its own, and its blots are written at once.
pub fn write_blots(
    view: &View<'_>,
    bits: u8,
    sigma: Option<f64>,
    options: &ExtractOptions,
    format: Format,
    out: &mut impl Write,
) -> Result<()> {
    let counts = counts(view)?;
    let least = least_df(&counts, sigma).max(2);
    let most = options.common.max_df().unwrap_or(u64::MAX);
    let writer = BlotWriter {
        view,
        bits,
        ids: DocumentIds::read(view)?,
        format,
    };
    let mut line = Vec::new();
    format.put_head(&BlotRecord::default(), &mut line)?;
    put(out, &line)?;
    for (lot, is_sorted) in lots(
        &counts,
        least..=most,
        options.limits.memory_bytes / KEPT_BYTES,
    ) {
        if is_sorted {
            writer.write_sorted(lot, out)?
        } else {
            writer.write_as_read(lot, out)?
        }
    }
    Ok(())
}

/// Bytes of a blot in memory, its share of the sets included.
const KEPT_BYTES: u64 = 48;

fn df(view: &View<'_>, contents: &[u32]) -> u64 {
    contents
        .iter()
        .map(|&content| view.documents_of(ContentNo::new(content)).len().to_u64())
        .sum()
}

/// How many blots have each df.
fn counts(view: &View<'_>) -> Result<BTreeMap<u64, u64>> {
    let mut counts = BTreeMap::new();
    view.for_each_blot(|_, contents| {
        *counts.entry(df(view, contents)).or_default() += 1;
        Ok(())
    })?;
    Ok(counts)
}

/// The mean df over all blots plus `sigma` standard deviations.
///
/// Nine blots of one document and one of 11: mean 2, sigma 3, so that with sigma 2 the least df is 8.
fn least_df(counts: &BTreeMap<u64, u64>, sigma: Option<f64>) -> u64 {
    let Some(sigma) = sigma else { return 0 };
    let blots = counts.values().sum::<u64>().max(1) as f64;
    let mean = counts
        .iter()
        .map(|(&df, &count)| df.to_f64() * count.to_f64())
        .sum::<f64>()
        / blots;
    let variance = counts
        .iter()
        .map(|(&df, &count)| (df.to_f64() - mean).powi(2) * count.to_f64())
        .sum::<f64>()
        / blots;
    (mean + sigma * variance.sqrt()).ceil().max(0.0) as u64
}

/// Ranges of df, falling, and whether their blots are to be sorted.
fn lots(
    counts: &BTreeMap<u64, u64>,
    range: RangeInclusive<u64>,
    limit: u64,
) -> Vec<(RangeInclusive<u64>, bool)> {
    if range.is_empty() {
        return Vec::new();
    }
    let mut lots: Vec<(RangeInclusive<u64>, u64)> = Vec::new();
    for (&df, &count) in counts.range(range).rev() {
        match lots.last_mut() {
            Some((lot, have)) if *have + count <= limit => {
                *lot = df..=*lot.end();
                *have += count;
            }
            _ => lots.push((df..=df, count)),
        }
    }
    lots.into_iter()
        .map(|(lot, _)| (lot.clone(), lot.start() < lot.end()))
        .collect()
}

struct BlotWriter<'v> {
    view: &'v View<'v>,
    bits: u8,
    ids: DocumentIds,
    format: Format,
}

impl BlotWriter<'_> {
    fn write_as_read(&self, lot: RangeInclusive<u64>, out: &mut impl Write) -> Result<()> {
        self.view.for_each_blot(|blot, contents| {
            let df = df(self.view, contents);
            if lot.contains(&df) {
                self.write_blot(blot, df, contents, out)
            } else {
                Ok(())
            }
        })
    }

    fn write_sorted(&self, lot: RangeInclusive<u64>, out: &mut impl Write) -> Result<()> {
        let (mut blots, mut dictionary) = (Vec::new(), SetDictionary::default());
        self.view.for_each_blot(|blot, contents| {
            let df = df(self.view, contents);
            if lot.contains(&df) {
                blots.push((std::cmp::Reverse(df), blot, dictionary.number(contents)));
            }
            Ok(())
        })?;
        blots.sort_unstable();
        let (sets, numbers) = Sets::join(vec![dictionary]);
        blots.iter().try_for_each(|&(df, blot, set)| {
            self.write_blot(blot, df.0, sets.get(numbers[0][set.index()]), out)
        })
    }

    fn write_blot(
        &self,
        blot: Blot,
        df: u64,
        contents: &[u32],
        out: &mut impl Write,
    ) -> Result<()> {
        let mut documents: Vec<u32> = contents
            .iter()
            .flat_map(|&content| self.view.documents_of(ContentNo::new(content)))
            .map(|document| document.get())
            .collect();
        documents.sort_unstable();
        let record = BlotRecord {
            blot: hex_blot(blot, self.bits),
            df,
            docs: documents
                .iter()
                .map(|&document| self.ids.get(DocNo::new(document)))
                .collect(),
        };
        let mut line = Vec::new();
        self.format.put_record(&record, &mut line)?;
        put(out, &line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example_of_sigma() {
        let counts = BTreeMap::from([(1, 9), (11, 1)]);
        assert_eq!(
            (
                least_df(&counts, Some(2.0)),
                least_df(&counts, None),
                least_df(&counts, Some(-9.0))
            ),
            (8, 0, 0)
        );
    }

    #[test]
    fn lots_fit_or_have_one_df() {
        let counts = BTreeMap::from([(1, 90), (2, 50), (3, 7), (4, 3), (9, 1)]);
        assert_eq!(
            lots(&counts, 2..=u64::MAX, 10),
            [(4..=9, true), (3..=3, false), (2..=2, false)]
        );
        assert_eq!(
            lots(&counts, 2..=u64::MAX, 11),
            [(3..=9, true), (2..=2, false)]
        );
        assert_eq!(lots(&counts, RangeInclusive::new(5, 4), 11), []);
    }
}
