//! Documents to the chunks that occur more than once.

mod chunks;
mod documents;

use super::{Settings, Summary, Watch, build::write_new, run, tokenize::token_scheme};
use crate::{
    corpus::Source,
    error::{Error, Result},
    format::{Blots, Header, Kind, Tokens},
    index::{Manifest, Means, SegmentBuilder, SegmentFiles},
    posting::Postings,
    scheme::BlotScheme,
    select::{Of, Selection, write_filter},
    spex::{Counter, Pass, Sift, Stream},
    token::{Rule, Tokenizer},
};
use chunks::Chunks;
use documents::{Documents, Hash};
use std::{
    io::Write,
    path::Path,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Chunks are told apart by so many bits.
const BITS: u8 = 64;

#[derive(Debug, Clone)]
pub struct SpexOptions {
    pub tokenizer: Option<Tokenizer>,
    /// The lengths of chunks that are counted, rising; the last is that of the chunks which are looked for.
    pub lengths: Vec<u32>,
    /// Of one counter; two are in memory at a time.
    pub counter_bytes: u64,
    /// What is kept of what is shared: `spex`, `spex,mod:16`.
    pub select: String,
    /// Also chunks that one document has several times, and no other.
    pub within: bool,
    /// For what comes after the counting.
    pub means: Means,
}

/// Where the chunks go.
pub enum SpexOutput<'o> {
    /// An index of them.
    Index { directory: &'o Path, parts: u32 },
    /// A line of JSON each, by rising blot.
    Lines(&'o mut dyn Write),
    /// Nowhere: only a filter is wanted.
    Nothing,
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Spexed {
    pub summary: Summary,
    pub passes: Vec<Pass>,
    /// Chunks of all documents, and those of them that were left after all passes: places, not distinct ones.
    pub chunks: u64,
    pub survivors: u64,
}

/// Finds all chunks that occur more than once. `filter` gets the last counter, as a filter for blots.
pub fn spex(
    options: &SpexOptions,
    settings: &Settings,
    output: SpexOutput<'_>,
    filter: Option<&mut dyn Write>,
    watch: &mut dyn Watch,
) -> Result<Spexed> {
    match output {
        SpexOutput::Index { directory, parts } => write_new(directory, || {
            let sifted = Sifted::new(options, settings, false, watch)?;
            let manifest = sifted.write_index(options, directory, parts)?;
            Ok((manifest, sifted.finish(filter)?))
        }),
        SpexOutput::Lines(out) => {
            let sifted = Sifted::new(options, settings, true, watch)?;
            sifted.write_lines(options, out)?;
            sifted.finish(filter)
        }
        SpexOutput::Nothing => Sifted::new(options, settings, false, watch)?.finish(filter),
    }
}

/// What is left after all passes.
struct Sifted {
    documents: Documents,
    scheme: BlotScheme,
    selection: Selection,
    stream: Stream,
    counter: Counter,
    spexed: Spexed,
    survivors: AtomicU64,
}

impl Sifted {
    fn new(options: &SpexOptions, settings: &Settings, with_text: bool, watch: &mut dyn Watch) -> Result<Self> {
        let target = check_lengths(&options.lengths)?;
        let mut source = Source::new(settings.corpus.clone(), settings.limits.threads)?;
        let tokens = token_scheme(options.tokenizer.as_ref(), source.first_header())?;
        if Tokenizer::is_dna(&tokens) {
            return Err(Error::Usage("chunks of both strands are not found this way; use dedup-index".to_owned()));
        }
        source.expect(vec![Header::new(Kind::Tokens, tokens.to_string())]);
        let window = format!("ordered:{target}");
        let selection = parse_select(&options.select, &format!("{tokens} {window}"))?;
        let counter = Counter::new(options.counter_bytes);
        let (counted, mut documents) = (AtomicU64::new(0), Documents::new(&options.means.tmp_dir, with_text)?);
        let mut stream = Stream::new(&options.means.tmp_dir)?;
        let stage = Hash::new(&tokens, &counter, options.lengths[0], &counted, with_text);
        let summary = run(&stage, source, settings, watch, |hashed, ids| stream.push(&documents.add(hashed, ids)?))?;
        let mut sifted = Self {
            spexed: Spexed { summary, chunks: documents.chunks(target), ..Spexed::default() },
            scheme: BlotScheme { tokens, window, bits: BITS, select: selection.name() },
            documents,
            selection,
            stream: Stream::new(&options.means.tmp_dir)?,
            counter: Counter::new(0),
            survivors: AtomicU64::new(0),
        };
        let is_kept = |document: u32| sifted.documents.has_alias(document);
        let (stream, counter, passes) = sifted.sift(options, &is_kept).run(stream, counter, counted.into_inner())?;
        (sifted.stream, sifted.counter, sifted.spexed.passes) = (stream, counter, passes);
        Ok(sifted)
    }

    fn sift<'a>(&'a self, options: &'a SpexOptions, is_kept: &'a (dyn Fn(u32) -> bool + Sync)) -> Sift<'a> {
        let Means { tmp_dir, .. } = &options.means;
        Sift {
            lengths: &options.lengths,
            counter_bytes: options.counter_bytes,
            is_kept,
            limits: documents::block_limits(&options.means),
            directory: tmp_dir,
        }
    }

    /// Takes out what is not selected.
    fn select(&self, selection: &mut Selection, chunks: &[(u32, u64)], out: &mut Blots) {
        out.clear();
        chunks.iter().for_each(|&(position, chunk)| out.push(chunk, position));
        self.survivors.fetch_add(chunks.len() as u64, Relaxed);
        selection.apply(&Tokens::default(), out);
    }

    fn write_index(&self, options: &SpexOptions, directory: &Path, parts: u32) -> Result<Manifest> {
        let parts = SegmentFiles::parts(parts)?;
        let mut builder = SegmentBuilder::<u128>::new(BITS, options.means.clone(), None).keep_shared_only();
        let is_kept = |document: u32| self.documents.has_alias(document);
        let mut next = 0;
        let gather = |found: &mut dyn Iterator<Item = (u32, &[(u32, u64)])>| {
            let (mut selection, mut blots) = (self.selection.clone(), Blots::default());
            let chunks = found.map(|(document, chunks)| {
                self.select(&mut selection, chunks, &mut blots);
                blots.values.sort_unstable();
                blots.values.dedup();
                (document, blots.values.clone())
            });
            chunks.collect::<Vec<_>>()
        };
        let weigh = |found: &Vec<(u32, Vec<u64>)>| found.iter().map(|(_, chunks)| 32 + 8 * chunks.len() as u64).sum();
        self.sift(options, &is_kept).survivors(&self.stream, &self.counter, gather, weigh, |found| {
            let Some(&(last, _)) = found.last() else { return Ok(()) };
            let (mut blots, mut ends, mut found) = (Vec::new(), Vec::new(), found.iter().peekable());
            for document in next..=last {
                if let Some((_, chunks)) = found.next_if(|(of, _)| *of == document) {
                    blots.extend_from_slice(chunks);
                }
                ends.push(blots.len());
            }
            let rows = self.documents.rows(next..last + 1);
            next = last + 1;
            builder.add(rows, &Postings::new(&blots, &ends, BITS)).map(drop)
        })?;
        builder.add(self.documents.rows(next..self.documents.len()), &Postings::default())?;
        let (name, scheme) = (Manifest::segment_name(1), self.scheme.to_string());
        let (segment, numbers, _) = builder.write(&SegmentFiles { directory, name: &name, changes: [1, 1], scheme: &scheme, parts })?;
        Ok(Manifest { generation: 1, numbers, segments: vec![segment], ..Manifest::new(&self.scheme) })
    }

    fn write_lines(&self, options: &SpexOptions, out: &mut dyn Write) -> Result<()> {
        let is_kept = |document: u32| self.documents.has_alias(document);
        let mut chunks = Chunks::new(&options.means)?;
        let gather = |found: &mut dyn Iterator<Item = (u32, &[(u32, u64)])>| {
            let (mut selection, mut blots, mut keys) = (self.selection.clone(), Blots::default(), Vec::new());
            for (document, found) in found {
                self.select(&mut selection, found, &mut blots);
                keys.extend(blots.values.iter().zip(&blots.positions).map(|(&chunk, &position)| chunks::key(chunk, document, position)));
            }
            keys
        };
        let weigh = |keys: &Vec<u128>| 16 * keys.len() as u64;
        self.sift(options, &is_kept).survivors(&self.stream, &self.counter, gather, weigh, |keys| chunks.push(&keys))?;
        chunks.write(&self.documents, options.lengths.last().copied().unwrap_or(1), options.within, out)
    }

    fn finish(self, filter: Option<&mut dyn Write>) -> Result<Spexed> {
        if let Some(out) = filter {
            let scheme = format!("{} {}", self.scheme.tokens, self.scheme.window);
            write_filter(out, &scheme, self.counter.bits(), self.counter.repeats()).map_err(Error::output)?;
        }
        Ok(Spexed { survivors: self.survivors.into_inner(), ..self.spexed })
    }
}

/// The length that is looked for.
fn check_lengths(lengths: &[u32]) -> Result<u32> {
    let wrong = || Error::Usage("the lengths of a schedule must rise, from 1 or more to that of the chunks".to_owned());
    match lengths {
        [.., last] if lengths[0] > 0 && lengths.is_sorted_by(|one, two| one < two) => Ok(*last),
        _ => Err(wrong()),
    }
}

/// Only what is decided chunk by chunk can be combined with what is shared.
fn parse_select(select: &str, scheme: &str) -> Result<Selection> {
    if let Some(part) = select.split(',').find(|part| *part != "spex" && !part.starts_with("mod:")) {
        let what = "here there are spex and mod:N; for others write a filter with --filter-out FILE and build with --select spex:FILE,…";
        return Err(Error::Usage(format!("--select {part}: {what}")));
    }
    let tokenizer = Tokenizer::new(Rule::Word, false);
    Selection::parse(&format!("{select},spex"), Of { tokenizer: &tokenizer, scheme, bits: BITS }).map_err(Error::Usage)
}
