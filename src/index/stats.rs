//! What an index holds, in numbers.

use super::{Index, Segment};
use crate::error::Result;
use serde::Serialize;
use std::collections::BTreeMap;

/// All counts take aliases for the full documents they are, but for `postings_stored`.
#[derive(Debug, Default, Serialize)]
pub struct Stats {
    pub scheme: String,
    pub generation: u64,
    pub segments: u64,
    pub parts: u64,
    pub documents: u64,
    /// Documents that have the same content as another one, which stands for them.
    pub aliases: u64,
    pub bytes: u64,
    pub tokens: u64,
    /// Pairs of a document and a blot.
    pub postings: u64,
    pub postings_stored: u64,
    pub blots: u64,
    /// Blots of one document.
    pub singletons: u64,
    /// Distinct sets of two or more documents.
    pub sets: u64,
    pub set_members: u64,
    pub df: DfStats,
    pub disk: BTreeMap<&'static str, u64>,
    pub disk_total: u64,
    /// Bits on disk for each posting that is stored, and for each blot of a section.
    pub bits_per_posting: f64,
    pub bits_per_shared_blot: f64,
    pub bits_per_singleton: f64,
}

/// How many documents a blot has.
#[derive(Debug, Default, Serialize)]
pub struct DfStats {
    pub mean: f64,
    pub sigma: f64,
    /// The longest lists, and how many blots have them.
    pub top: Vec<(u64, u64)>,
}

const TOP: usize = 10;

/// Reads the sets and the rows; of the parts only what blots have which set.
pub fn stats(index: &Index) -> Result<Stats> {
    let mut stats = Stats { scheme: index.manifest.scheme.clone(), generation: index.manifest.generation, ..Stats::default() };
    let mut lengths = BTreeMap::new();
    for segment in &index.segments {
        stats.add_segment(segment, &mut lengths)?;
    }
    stats.disk_total = stats.disk.values().sum();
    let per = |bytes: u64, of: u64| if of == 0 { 0.0 } else { 8.0 * bytes as f64 / of as f64 };
    let section = |name: &str| stats.disk.get(name).copied().unwrap_or_default();
    stats.bits_per_posting = per(stats.disk_total - section("documents"), stats.postings_stored);
    stats.bits_per_shared_blot = per(section("shared blots") + section("shared directory"), stats.blots - stats.singletons);
    stats.bits_per_singleton = per(section("singletons") + section("singleton directory"), stats.singletons);
    stats.df = df_stats(&lengths);
    Ok(stats)
}

impl Stats {
    fn add_segment(&mut self, segment: &Segment, lengths: &mut BTreeMap<u64, u64>) -> Result<()> {
        self.segments += 1;
        self.parts += segment.parts.len() as u64;
        let mut weights = vec![0_u64; segment.documents.len() as usize];
        for place in 0..segment.documents.len() {
            let row = segment.documents.row(place)?;
            self.documents += 1;
            self.aliases += u64::from(row.is_alias());
            self.bytes += row.bytes.unwrap_or_default();
            self.tokens += u64::from(row.tokens);
            self.postings += u64::from(row.blots);
            self.postings_stored += if row.is_alias() { 0 } else { u64::from(row.blots) };
            if let Some(weight) = weights.get_mut(row.representative as usize) {
                *weight += 1;
            }
        }
        self.sets += segment.sets.len();
        self.set_members += segment.sets.numbers();
        self.add_lengths(segment, &weights, lengths)?;
        self.add_disk(segment);
        Ok(())
    }

    /// How long the lists are, when every alias counts.
    fn add_lengths(&mut self, segment: &Segment, weights: &[u64], lengths: &mut BTreeMap<u64, u64>) -> Result<()> {
        let weight = |number: u32| weights.get(number as usize).copied().unwrap_or_default();
        let mut of_set = Vec::with_capacity(segment.sets.len().min(1 << 24) as usize);
        segment.sets.for_each(|_, set| {
            of_set.push(set.iter().map(|&number| weight(number)).sum::<u64>());
            Ok(())
        })?;
        let mut uses = vec![0_u64; of_set.len()];
        for part in &segment.parts {
            self.blots += part.shared_blots() + part.single_blots();
            part.for_each_shared(|_, set| {
                match uses.get_mut(set as usize) {
                    Some(uses) => *uses += 1,
                    None => return Err(part.file().damaged(0, format!("a blot has set {set}, there are {}", of_set.len()))),
                }
                Ok(())
            })?;
            part.for_each_single(|_, number| {
                *lengths.entry(weight(number)).or_default() += 1;
                self.singletons += u64::from(weight(number) == 1);
                Ok(())
            })?;
        }
        of_set.iter().zip(uses).for_each(|(&length, uses)| *lengths.entry(length).or_default() += uses);
        Ok(())
    }

    fn add_disk(&mut self, segment: &Segment) {
        let mut add = |name, bytes| *self.disk.entry(name).or_default() += bytes;
        add("documents", segment.documents.file().file_bytes());
        add("sets", segment.sets.file().file_bytes());
        for part in &segment.parts {
            let names = ["shared blots", "shared directory", "singletons", "singleton directory"];
            names.into_iter().zip(part.section_bytes()).for_each(|(name, bytes)| add(name, bytes));
            add("checksums", part.file().file_bytes() - part.section_bytes().iter().sum::<u64>());
        }
    }
}

fn df_stats(lengths: &BTreeMap<u64, u64>) -> DfStats {
    let blots = lengths.values().sum::<u64>().max(1) as f64;
    let moment = |power: i32| lengths.iter().map(|(&length, &count)| (length as f64).powi(power) * count as f64).sum::<f64>() / blots;
    let mean = moment(1);
    let top = lengths.iter().rev().take(TOP).map(|(&length, &count)| (length, count)).collect();
    DfStats { mean, sigma: (moment(2) - mean * mean).max(0.0).sqrt(), top }
}
