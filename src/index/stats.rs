//! What an index holds, in numbers.

use super::{
    Index, Part, Segment, View,
    merge::{MergedTarget, Merger},
    sections::{PART, SECTIONS, WORDS},
    set_source::StoredSetSource,
    width::WidthFit,
};
use crate::{
    base::{
        error::Result,
        ids::{ContentNo, DocNo, SetNo},
        parallel::Limits,
    },
    index::posting::{
        BUCKETS, Inversion, InvertRanges, InvertedRange, Key, SetDictionary, WordLists,
    },
};
use serde::Serialize;
use std::{collections::BTreeMap, ops::Range};

/// The figures of an index. An alias counts as a full document everywhere except in
/// `postings_stored`.
#[derive(Debug, Default, Serialize)]
pub struct Stats {
    /// The scheme of the blots.
    pub scheme: String,
    /// The preset that later questions use, if it is not the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// How many commits were made.
    pub generation: u64,
    /// The generations whose state can be opened, as ranges with both ends.
    pub generations: Vec<[u64; 2]>,
    /// Generations that are kept, by name.
    pub pins: BTreeMap<String, u64>,
    /// Segments.
    pub segments: u64,
    /// Parts of all segments.
    pub parts: u64,
    /// Live documents.
    pub documents: u64,
    /// Numbers of removed documents, which the next ones will get.
    pub free_numbers: u64,
    /// Documents that have the same content as another one, which stands for them.
    pub aliases: u64,
    /// Bytes of their texts, as far as they are known.
    pub bytes: u64,
    /// Tokens of all documents.
    pub tokens: u64,
    /// Pairs of a document and a blot.
    pub postings: u64,
    /// Postings on disk that still count.
    pub postings_stored: u64,
    /// Distinct blots.
    pub blots: u64,
    /// Blots of one document.
    pub singletons: u64,
    /// Distinct sets of two or more documents.
    pub sets: u64,
    /// Members of all sets.
    pub set_members: u64,
    /// How many matches by chance are to be expected, and whether blots are wide enough.
    pub width: WidthFit,
    /// Of the dictionary, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dictionary: Option<DictionaryStats>,
    /// How many documents blots have.
    pub df: DfStats,
    /// Bytes on disk, by section.
    pub disk: BTreeMap<&'static str, u64>,
    /// Bytes on disk.
    pub disk_total: u64,
    /// Bits on disk for each posting that is stored, and for each blot of a section.
    pub bits_per_posting: f64,
    /// Bits on disk for each blot of several documents.
    pub bits_per_shared_blot: f64,
    /// Bits on disk for each blot of one document.
    pub bits_per_singleton: f64,
}

/// How many documents a blot has.
#[derive(Debug, Default, Serialize)]
pub struct DfStats {
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub sigma: f64,
    /// The longest lists, and how many blots have them.
    pub top: Vec<(u64, u64)>,
}

/// Exact duplicates count, as everywhere.
#[derive(Debug, Default, Serialize)]
pub struct DictionaryStats {
    /// Distinct words.
    pub words: u64,
    /// Pairs of a word and a document.
    pub pairs: u64,
    /// Words of one document.
    pub singletons: u64,
}

const TOP: usize = 10;
/// An eighth of this counts the blots of sets.
const COUNTING_BYTES: u64 = 1 << 30;

/// Counts everything in an index, which is read once.
pub fn stats(index: &Index, threads: usize) -> Result<Stats> {
    let manifest = &index.manifest;
    let mut stats = Stats {
        scheme: manifest.scheme.clone(),
        preset: manifest.preset.clone(),
        generation: manifest.generation,
        generations: manifest.generations(),
        pins: manifest.pins.clone(),
        ..Stats::default()
    };
    for segment in &index.segments {
        stats.segments += 1;
        stats.parts += segment.parts.len() as u64;
        stats.add_disk(segment);
    }
    let view = View::of(index)?;
    stats.free_numbers = index.free_numbers()?.len();
    stats.add_documents(&view)?;
    stats.width = WidthFit::new(index.scheme.bits, stats.postings_stored);
    let lengths = stats.add_blots(&view, threads)?;
    stats.dictionary = view
        .words()
        .map(|words| dictionary_stats(&view, &words))
        .transpose()?;
    stats.disk_total = stats.disk.values().sum();
    stats.add_bits(index);
    stats.df = df_stats(&lengths);
    Ok(stats)
}

impl Stats {
    fn add_documents(&mut self, view: &View<'_>) -> Result<()> {
        self.documents = view.documents() as u64;
        self.aliases = self.documents - view.contents().len() as u64;
        self.postings_stored = view.postings();
        for document in DocNo::first(view.documents()) {
            let row = view.row(document)?;
            self.bytes += row.bytes.unwrap_or_default();
            self.tokens += u64::from(row.tokens);
            self.postings += u64::from(row.posted);
        }
        Ok(())
    }

    /// The number of blots by df, where every alias counts as a document.
    fn add_blots(&mut self, view: &View<'_>, threads: usize) -> Result<BTreeMap<u64, u64>> {
        let weights: Vec<u64> = ContentNo::first(view.contents().len())
            .map(|content| view.documents_of(content).len() as u64)
            .collect();
        if let Some(lengths) = self.add_stored(view, &weights, threads)? {
            return Ok(lengths);
        }
        let ranges = view.ranges();
        let sorting = Inversion {
            bits: view.bits,
            documents: 0,
            threads,
            ranges: &ranges,
            spill: None,
        };
        let counter = || DfCounter {
            merger: view.merger(),
            weights: &weights,
            of_set: Vec::new(),
            short: vec![0; SHORT],
            long: BTreeMap::new(),
        };
        let (inverted, counters) = sorting.run::<u64, _>(counter)?;
        let mut lengths = BTreeMap::new();
        for counter in counters {
            let short = (0..).zip(counter.short).filter(|&(_, blots)| blots > 0);
            short
                .chain(counter.long)
                .for_each(|(length, blots)| *lengths.entry(length).or_default() += blots);
        }
        self.add_lengths(&lengths);
        self.sets = inverted.sets.len() as u64;
        self.set_members = SetNo::first(inverted.sets.len())
            .map(|set| inverted.sets.get(set).len() as u64)
            .sum();
        Ok(lengths)
    }

    fn add_lengths(&mut self, lengths: &BTreeMap<u64, u64>) {
        self.blots = lengths.values().sum();
        self.singletons = lengths.get(&1).copied().unwrap_or_default();
    }

    /// As [`Stats::add_blots`], from the stored sets: a blot of a content that is in no set belongs
    /// to this content alone.
    fn add_stored(
        &mut self,
        view: &View<'_>,
        weights: &[u64],
        threads: usize,
    ) -> Result<Option<BTreeMap<u64, u64>>> {
        let (mut lengths, mut own) = (
            BTreeMap::new(),
            view.contents()
                .iter()
                .map(|content| u64::from(content.posted))
                .collect::<Vec<_>>(),
        );
        let (mut sets, mut members) = (0, 0);
        let limits = Limits::new(threads, COUNTING_BYTES);
        let Some(stored) = StoredSetSource::of(view, limits)? else {
            return Ok(None);
        };
        stored.for_each(|_, uses, contents| {
            *lengths
                .entry(
                    contents
                        .iter()
                        .map(|&content| weights[content as usize])
                        .sum(),
                )
                .or_default() += uses;
            contents.iter().for_each(|&content| {
                own[content as usize] = own[content as usize].saturating_sub(uses)
            });
            sets += 1;
            members += contents.len() as u64;
        })?;
        own.into_iter()
            .zip(weights)
            .filter(|&(blots, _)| blots > 0)
            .for_each(|(blots, &weight)| *lengths.entry(weight).or_default() += blots);
        (self.sets, self.set_members) = (sets, members);
        self.add_lengths(&lengths);
        Ok(Some(lengths))
    }

    /// Divides bytes on disk by what they hold.
    fn add_bits(&mut self, index: &Index) {
        let bits_per = |bytes: u64, count: u64| {
            if count == 0 {
                0.0
            } else {
                8.0 * bytes as f64 / count as f64
            }
        };
        let section = |name: &str| self.disk.get(name).copied().unwrap_or_default();
        let parts = || index.segments.iter().flat_map(|segment| &segment.parts);
        let bits_per_posting = bits_per(
            self.disk_total - section("documents") - section("dictionary"),
            self.postings_stored,
        );
        let bits_per_shared_blot = bits_per(
            section("shared blots") + section("shared directory"),
            parts().map(Part::shared_blots).sum(),
        );
        let bits_per_singleton = bits_per(
            section("singletons") + section("singleton directory"),
            parts().map(Part::single_blots).sum(),
        );
        self.bits_per_posting = bits_per_posting;
        self.bits_per_shared_blot = bits_per_shared_blot;
        self.bits_per_singleton = bits_per_singleton;
    }

    fn add_disk(&mut self, segment: &Segment) {
        let mut add = |name, bytes| *self.disk.entry(name).or_default() += bytes;
        for (section, reader) in SECTIONS
            .iter()
            .filter_map(|it| Some((it, it.reader.as_ref()?)))
        {
            let name = match section.ending {
                ending if ending == PART.ending => continue,
                ending if ending == WORDS.ending => "dictionary",
                _ => section.kind,
            };
            for file in (reader.files)(segment) {
                add(name, file.file_bytes());
            }
        }
        for part in &segment.parts {
            let names = [
                "shared blots",
                "shared directory",
                "singletons",
                "singleton directory",
            ];
            names
                .into_iter()
                .zip(part.section_bytes())
                .for_each(|(name, bytes)| add(name, bytes));
            add(
                "checksums",
                part.file().file_bytes() - part.section_bytes().iter().sum::<u64>(),
            );
        }
    }
}

/// Counts blots by how many documents they have.
struct DfCounter<'v> {
    merger: Merger<'v>,
    /// How many documents a content has.
    weights: &'v [u64],
    /// How many documents the contents of a set have, as far as the dictionary goes.
    of_set: Vec<u64>,
    /// How many blots have how many documents, few and many.
    short: Vec<u64>,
    long: BTreeMap<u64, u64>,
}

const SHORT: usize = 1 << 12;

impl<K: Key> InvertRanges<K> for DfCounter<'_> {
    fn unit(&mut self, slices: &Range<usize>) -> Result<InvertedRange<K>> {
        let Self {
            merger,
            weights,
            of_set,
            short,
            long,
        } = self;
        let weight = |content: u32| weights.get(content as usize).copied().unwrap_or_default();
        merger.for_each_unordered(slices, |_, found, dictionary| {
            let length = match found {
                MergedTarget::One(content) => weight(content),
                MergedTarget::Set(set) => {
                    while of_set.len() <= set.index() {
                        of_set.push(
                            dictionary
                                .get(SetNo::from_index(of_set.len()))
                                .iter()
                                .map(|&content| weight(content))
                                .sum(),
                        );
                    }
                    of_set[set.index()]
                }
            };
            *short
                .get_mut(length as usize)
                .unwrap_or_else(|| long.entry(length).or_default()) += 1;
        })?;
        Ok(InvertedRange {
            shared: Vec::new(),
            single: Vec::new(),
        })
    }

    fn dictionary(&self) -> &SetDictionary {
        InvertRanges::<K>::dictionary(&self.merger)
    }

    fn take_dictionary(&mut self) -> SetDictionary {
        InvertRanges::<K>::take_dictionary(&mut self.merger)
    }
}

fn dictionary_stats(view: &View<'_>, words: &dyn WordLists) -> Result<DictionaryStats> {
    let mut stats = DictionaryStats::default();
    for bucket in 0..BUCKETS {
        words.for_each_in(bucket, &mut |_, list| {
            let df: u64 = list
                .iter()
                .map(|times| view.documents_of(ContentNo::new(times.place)).len() as u64)
                .sum();
            stats.words += 1;
            stats.pairs += df;
            stats.singletons += u64::from(df == 1);
            Ok(())
        })?;
    }
    Ok(stats)
}

fn df_stats(lengths: &BTreeMap<u64, u64>) -> DfStats {
    let blots = lengths.values().sum::<u64>().max(1) as f64;
    let moment = |power: i32| {
        lengths
            .iter()
            .map(|(&length, &count)| (length as f64).powi(power) * count as f64)
            .sum::<f64>()
            / blots
    };
    let mean = moment(1);
    let top = lengths
        .iter()
        .rev()
        .take(TOP)
        .map(|(&length, &count)| (length, count))
        .collect();
    DfStats {
        mean,
        sigma: (moment(2) - mean * mean).max(0.0).sqrt(),
        top,
    }
}
