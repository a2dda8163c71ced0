//! Pairs of documents compared by alignment: all of them, or the candidates of cheaper methods.
//!
//! ```text
//! documents ──► tokens, trigrams, spans ──► on disk ─────────┐
//! index ──────► candidates ──► pairs, by number ──► a slice ──► areas ──► records
//!               [candidates]                                  [crate::similar::compare]
//! ```
//!
//! Each distinct text is compared once; records are of documents, and exact duplicates, which need not be compared, are one area each.

mod candidates;
mod chance;
mod texts;
mod writer;

pub use candidates::PairSlice;

use self::{
    candidates::{BlotCandidates, CandidatePairs, CandidateSource, EXHAUSTIVE, WordCandidates},
    texts::TokenizedTexts,
    writer::PairWriter,
};
use super::{ExtractOptions, Progress, WantedPairs, Without, discovery};
use crate::base::num::ToU32;
use crate::base::setting::Setting;
use crate::{
    base::{
        error::{Error, Place, Result},
        ids::ContentNo,
        parallel::{self, Budget, Limits, Weighted},
    },
    commands::{Observer, Settings},
    index::{ExcludedBlots, Index, View},
    report::{
        Format,
        records::{CandidatePair, ComparedPair},
    },
    similar::{
        Gdic, GdicOptions, PairFilter,
        compare::{AlignedArea, Comparer, SEED},
        documents_per_content,
    },
};
use std::{io::Write, ops::Range, path::PathBuf};

/// How candidates are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompareMethod {
    /// What shares blots.
    Blots,
    /// Pairs with enough words in common.
    Gdic,
    /// All pairs.
    Exhaustive,
}

impl CompareMethod {
    /// The methods by the names that users give.
    pub const NAMES: [(&str, Self); 3] = [
        ("blots", Self::Blots),
        ("gdic", Self::Gdic),
        (EXHAUSTIVE, Self::Exhaustive),
    ];
}

/// Which pairs to compare, and which of their fields to write.
#[derive(Debug, Clone)]
pub struct CompareOptions {
    /// How candidates are found; a pair that any of the methods finds is compared.
    pub methods: Vec<CompareMethod>,
    /// When a pair shares enough blots, and the limits on threads and memory.
    pub blots: ExtractOptions,
    /// When a pair has enough words in common.
    pub gdic: GdicOptions,
    /// Write the candidates without comparing them.
    pub only_candidates: bool,
    /// The least score of an area that counts.
    pub min_similarity: u32,
    /// Write how likely unrelated texts of the collection are to be as similar.
    pub with_p_values: bool,
    /// Which of the candidates are compared.
    pub slice: PairSlice,
    /// How records are written.
    pub format: Format,
    /// Documents are the files that their ids name, below the first of these that has them if any are given; else those of the settings.
    pub by_id: Option<Vec<PathBuf>>,
    /// Which pairs count.
    pub wanted: WantedPairs,
}

/// Compares pairs of documents of an index and writes those that are similar; returns the number of inputs that could not be used.
///
/// The same documents give the same bytes with any number of threads and any memory, and the slices one after the other give those of a single run. Pairs are in the order of the
/// first documents of their texts. Memory: some 120 bytes and its id for each document, 20 bytes a token of the longest for each thread, and what a search by blots takes;
/// temporary files take 15 bytes a token, and two for each candidate.
pub fn compare(
    index: &Index,
    options: &CompareOptions,
    settings: &Settings,
    out: &mut impl Write,
    observer: &mut dyn Observer,
    progress: &mut Progress<'_>,
) -> Result<u64> {
    if index.scheme.tokens.is_dna() {
        let what =
            "bases are no words: any three of them are everywhere, and none would begin an area";
        return Err(Error::Usage(format!(
            "{}: {what}; compare them with {}",
            index.directory.display(),
            Setting::Passages
        )));
    }
    let view = View::by_id(index)?;
    let (wanted, unknown) = options.wanted.read(index, observer)?;
    let without = Without {
        text: ExcludedBlots::default(),
        pairs: wanted,
    };
    let pairs = find_pairs(index, &view, options, &without, observer)?;
    let pair_filter = without.pairs.pair_filter(index, &view)?;
    let numbers = options.slice.of(pairs.count());
    if options.only_candidates {
        let mut writer = PairWriter::new(&view, &pair_filter, options, out)?;
        writer.write_head(&CandidatePair::default())?;
        pairs.for_each(numbers, |row, partners| {
            partners
                .iter()
                .try_for_each(|&partner| writer.write_candidate(&pairs, row, partner))
        })?;
        return writer.finish().map(|()| unknown);
    }
    let texts = TokenizedTexts::read(index, &view, options.by_id.as_deref(), settings, observer)?;
    let mut writer = PairWriter::new(&view, &pair_filter, options, out)?;
    if options.with_p_values {
        let contents = view.contents().len().to_u32();
        writer.chance = Some(chance::chance_model(&texts, contents)?);
    }
    writer.write_head(&ComparedPair {
        p_value: options.with_p_values.then_some(1.0),
        ..ComparedPair::default()
    })?;
    let comparison = Comparison {
        view: &view,
        texts: &texts,
        pairs: &pairs,
        pair_filter: &pair_filter,
        floor: options.min_similarity,
    };
    comparison.run(numbers, options.blots.limits, progress, |found| {
        found
            .iter()
            .try_for_each(|found| writer.write_similar(&texts, found))
    })?;
    writer.finish()?;
    Ok(unknown + texts.problems)
}

fn find_pairs(
    index: &Index,
    view: &View<'_>,
    options: &CompareOptions,
    without: &Without<'_>,
    observer: &mut dyn Observer,
) -> Result<CandidatePairs> {
    let contents = view.contents().len().to_u32();
    if options.methods.contains(&CompareMethod::Exhaustive) {
        return Ok(CandidatePairs::All { contents });
    }
    let mut sources: Vec<Box<dyn CandidateSource + '_>> = Vec::new();
    for method in &options.methods {
        sources.push(match method {
            CompareMethod::Blots => Box::new(BlotCandidates(discovery(
                &options.blots,
                without,
                index,
                view,
                observer,
            )?)),
            CompareMethod::Gdic => Box::new(by_words(index, view, options)?),
            CompareMethod::Exhaustive => continue,
        });
    }
    CandidatePairs::found(
        &sources.iter().map(|source| &**source).collect::<Vec<_>>(),
        contents,
    )
}

fn by_words<'v>(
    index: &Index,
    view: &'v View<'v>,
    options: &CompareOptions,
) -> Result<WordCandidates<'v>> {
    let Some(words) = view.words() else {
        let what = format!(
            "has no dictionary, which {} needs; build it with dedup-index build {}",
            Setting::Method.to("gdic"),
            Setting::Dictionary
        );
        return Err(Error::damaged(Place::path(&index.directory), what));
    };
    let limits = options.blots.limits;
    Ok(WordCandidates {
        gdic: Gdic::new(
            words,
            documents_per_content(view),
            options.gdic,
            limits.threads,
        )?,
        limits,
    })
}

/// Two texts that are similar, or copies of one.
struct SimilarTexts {
    a: u32,
    b: u32,
    /// The best first.
    areas: Vec<AlignedArea>,
}

struct Comparison<'c> {
    view: &'c View<'c>,
    texts: &'c TokenizedTexts,
    pairs: &'c CandidatePairs,
    pair_filter: &'c PairFilter,
    floor: u32,
}

/// A thread takes pairs of about this many tokens at a time, and at most this many pairs.
const BLOCK_TOKENS: u64 = 4 << 20;
const BLOCK_PAIRS: u64 = 4096;

impl Comparison<'_> {
    /// Compares pairs on many threads; the sink gets those that are similar in their order.
    fn run(
        &self,
        numbers: Range<u64>,
        limits: Limits,
        progress: &mut Progress<'_>,
        mut sink: impl FnMut(Vec<SimilarTexts>) -> Result<()>,
    ) -> Result<()> {
        let (start, count) = (numbers.start, numbers.end - numbers.start);
        let step = (BLOCK_TOKENS / (self.texts.mean_tokens() + 1)).clamp(1, BLOCK_PAIRS);
        let blocks = (0..count.div_ceil(step))
            .map(|block| start + block * step..(start + (block + 1) * step).min(numbers.end));
        let source = blocks.map(|item| {
            Ok::<_, Error>(Weighted {
                item,
                bytes: 1 << 16,
            })
        });
        let worker = || {
            let mut comparer = Comparer::default();
            move |block: Range<u64>| (block.end, self.block(&mut comparer, block))
        };
        let weigh = |(_, found): &(u64, Result<Vec<SimilarTexts>>)| {
            let bytes =
                |found: &SimilarTexts| size_of::<SimilarTexts>() + size_of_val(&found.areas[..]);
            found
                .as_ref()
                .map_or(0, |found| found.iter().map(bytes).sum::<usize>() as u64)
        };
        parallel::ordered(
            limits.threads,
            Budget::Bytes(limits.memory_bytes / 4),
            source,
            worker,
            weigh,
            |(end, found)| {
                sink(found?)?;
                progress(end - start, count);
                Ok(())
            },
        )
    }

    fn block(&self, comparer: &mut Comparer, block: Range<u64>) -> Result<Vec<SimilarTexts>> {
        let mut found = Vec::new();
        self.pairs.for_each(block, |a, partners| {
            let (text, mut is_prepared) = (self.texts.get(a), false);
            for &(b, _) in partners {
                if self.texts.tokens_of(a).min(self.texts.tokens_of(b)) == 0
                    || !self.is_wanted(a, b)
                {
                    continue;
                }
                if a == b {
                    let whole = AlignedArea::whole(self.texts.tokens_of(a));
                    found.extend((whole.score >= self.floor).then(|| SimilarTexts {
                        a,
                        b,
                        areas: vec![whole],
                    }));
                    continue;
                }
                if text.tokens.len() < SEED {
                    continue;
                }
                if !std::mem::replace(&mut is_prepared, true) {
                    comparer.prepare(text);
                }
                let areas = comparer.areas(text, self.texts.get(b), self.floor);
                if !areas.is_empty() {
                    found.push(SimilarTexts {
                        a,
                        b,
                        areas: areas.to_vec(),
                    });
                }
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Whether any two documents of two texts are to be compared.
    fn is_wanted(&self, a: u32, b: u32) -> bool {
        let (of_a, of_b) = (
            self.view.documents_of(ContentNo::new(a)),
            self.view.documents_of(ContentNo::new(b)),
        );
        if a == b {
            return of_a.len() > 1;
        }
        self.pair_filter.is_empty()
            || of_a.iter().any(|&one| {
                of_b.iter()
                    .any(|&other| self.pair_filter.allows(one, other))
            })
    }
}
