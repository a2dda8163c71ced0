//! Finds the chunks of text that occur more than once.

mod chunks;
mod documents;

use crate::base::ids::Blot;
use crate::base::num::{ToU64, ToUsize};
use crate::base::setting::Setting;
use crate::{
    base::{
        error::{Error, Result},
        files::durable,
    },
    blot::{
        select::{SelectContext, Selection, write_filter},
        spex::{ChunkCounter, Pass, Sift, TokenFile, TokenFileWriter, TokenStream},
    },
    commands::{
        Observer, Settings, Summary,
        index::{
            build::{ensure_some_read, write_new},
            commit::write_to,
        },
        run,
        tokenize::token_scheme,
    },
    index::{
        ChunkTextWriter, FileSeal, Manifest, Resources, SegmentBuilder, SegmentFiles, TEXTS,
        TOKENS, View,
        posting::{Postings, WordCounts},
    },
    text::{
        corpus::Source,
        scheme::{BlotScheme, SchemeTerm, SelectScheme, TokenScheme, WindowSchemes},
        stream::{Blots, Header, StreamKind, Tokens},
        token::{Rule, Tokenizer},
    },
};
use chunks::ChunkList;
use documents::{HashOptions, HashStage, SpexDocuments};
use std::{
    io::Write,
    ops::Range,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// The width of a chunk hash, in bits.
const BITS: u8 = 64;

/// Which chunks are looked for.
#[derive(Debug, Clone)]
pub struct SpexOptions {
    /// How texts become tokens; `None`: as in the input stream, or words.
    pub tokenizer: Option<Tokenizer>,
    /// The lengths of chunks that are counted in turn, rising; the last is the length of the chunks to find.
    pub lengths: Vec<u32>,
    /// The size of a counter; two are in memory at a time.
    pub counter_bytes: u64,
    /// Which of the shared chunks are kept: `spex`, `spex,mod:16`.
    pub select: SelectScheme,
    /// Also find chunks that occur several times in one document only.
    pub within: bool,
    /// The name of the preset that the index keeps.
    pub preset: Option<String>,
    /// Memory, threads and temporary files for the steps after counting.
    pub resources: Resources,
}

/// Where the chunks go.
pub enum SpexOutput<'o> {
    /// An index of them.
    Index {
        /// The directory to make.
        directory: &'o Path,
        /// The number of range parts.
        parts: u32,
        /// Do not keep the token hashes that adding documents needs. Implied by `within` and by `with_text`.
        is_final: bool,
        /// Also write the text of the chunks.
        with_text: bool,
    },
    /// A line of JSON for each chunk, by rising blot.
    Lines(&'o mut dyn Write),
    /// Nowhere: the caller wants only the filter.
    Nothing,
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct SpexSummary {
    /// The input that was read.
    pub summary: Summary,
    /// The figures of each pass.
    pub passes: Vec<Pass>,
    /// The number of chunks of all documents; a chunk that occurs twice counts twice.
    pub chunks: u64,
    /// The number of these that are left after all passes.
    pub survivors: u64,
}

/// Finds all chunks that occur more than once. Writes the last counter to `filter`, as a filter for blots.
pub fn spex(
    options: &SpexOptions,
    settings: &Settings,
    output: SpexOutput<'_>,
    filter: Option<&mut dyn Write>,
    observer: &mut dyn Observer,
) -> Result<SpexSummary> {
    let start = |with_text: bool, keeps: Option<PathBuf>| {
        let (documents, stream) = (
            SpexDocuments::new(&options.resources.tmp_dir, with_text)?,
            TokenStream::new(&options.resources.tmp_dir)?,
        );
        Ok::<_, Error>(SpexStart {
            tokens: None,
            documents,
            stream,
            keeps,
        })
    };
    match output {
        SpexOutput::Index {
            directory,
            parts,
            is_final,
            with_text,
        } => write_new(directory, || {
            // Adding documents later has neither the text of the earlier ones nor their counts.
            let is_final = is_final || with_text || options.within;
            let keeps = (!is_final).then(|| directory.join(state_name(1)));
            let sifted = SpexRun::new(options, settings, start(with_text, keeps)?, observer)?;
            ensure_some_read(&sifted.spexed.summary, sifted.documents.len() == 0)?;
            let manifest =
                sifted.write_index(options, directory, 1, SegmentFiles::parts(parts)?)?;
            Ok((manifest, sifted.finish(filter)?))
        }),
        SpexOutput::Lines(out) => {
            let sifted = SpexRun::new(options, settings, start(true, None)?, observer)?;
            sifted.write_lines(options, out)?;
            sifted.finish(filter)
        }
        SpexOutput::Nothing => {
            SpexRun::new(options, settings, start(false, None)?, observer)?.finish(filter)
        }
    }
}

/// Adds documents to an index of shared chunks; the result is the index of all documents together. Only the new ones are read: the index
/// has the token hashes of the others, which are sifted again.
pub fn spex_add(
    options: &SpexOptions,
    settings: &Settings,
    directory: &Path,
    filter: Option<&mut dyn Write>,
    observer: &mut dyn Observer,
) -> Result<SpexSummary> {
    write_to(directory, |index| {
        let Manifest {
            generation,
            state,
            segments,
            ..
        } = &index.manifest;
        if state.is_empty() {
            return Err(Error::Usage(format!(
                "{}: no index that dedup-spex can add to: make it with dedup-spex {}, without {}",
                directory.display(),
                Setting::Output,
                Setting::Final
            )));
        }
        let scheme = &index.scheme;
        let target = options.lengths.last().copied().unwrap_or_default();
        if scheme.windows != WindowSchemes::from(format!("ordered:{target}")) {
            return Err(Error::Usage(format!(
                "{}: an index of '{scheme}', where chunks of {target} tokens are asked for",
                directory.display()
            )));
        }
        let mut stream = TokenStream::new(&options.resources.tmp_dir)?;
        for file in state {
            stream.push_kept(TokenFile::new(
                file.open(directory)?,
                &scheme.tokens.to_string(),
            )?);
        }
        let known = View::of(&index)?.documents();
        let start = SpexStart {
            tokens: Some(scheme.tokens.clone()),
            documents: SpexDocuments::of_index(&index, &options.resources.tmp_dir)?,
            stream,
            keeps: Some(directory.join(state_name(generation + 1))),
        };
        let options = SpexOptions {
            select: scheme.select.clone(),
            preset: index.manifest.preset.clone(),
            ..options.clone()
        };
        let parts = SegmentFiles::parts(segments.first().map_or(1, |segment| segment.parts))?;
        let mut sifted = SpexRun::new(&options, settings, start, observer)?;
        if sifted.documents.len().to_usize() == known {
            // Nothing is new.
            return Ok((None, sifted.finish(filter)?));
        }
        sifted.state.splice(0..0, state.iter().cloned());
        let manifest = sifted.write_index(&options, directory, generation + 1, parts)?;
        Ok((Some(manifest), sifted.finish(filter)?))
    })
}

/// The name of the file with the token hashes of a commit.
fn state_name(generation: u64) -> String {
    TOKENS.file_name(&Manifest::segment_name(generation))
}

/// The state before the first document is read.
struct SpexStart {
    /// How documents must be tokenized, if an index prescribes it.
    tokens: Option<TokenScheme>,
    documents: SpexDocuments,
    stream: TokenStream,
    /// The directory to keep the hashes in.
    keeps: Option<PathBuf>,
}

/// The chunks of some documents, for an index.
#[derive(Default)]
struct FoundChunks {
    /// The chunks of each document.
    chunks: Vec<(u32, Vec<u64>)>,
    /// Chunks that a document has several times.
    repeated: Vec<u64>,
    /// The places of chunks, if their texts are wanted.
    places: Vec<chunks::Key>,
}

impl FoundChunks {
    fn bytes(&self) -> u64 {
        let chunks: usize = self
            .chunks
            .iter()
            .map(|(_, chunks)| 32 + 8 * chunks.len())
            .sum();
        (chunks + size_of_val(&self.repeated[..]) + size_of_val(&self.places[..])) as u64
    }
}

/// The chunks that are left after all passes.
struct SpexRun {
    documents: SpexDocuments,
    scheme: BlotScheme,
    selection: Selection,
    stream: TokenStream,
    counter: ChunkCounter,
    spexed: SpexSummary,
    survivors: AtomicU64,
    /// The token hashes to keep.
    state: Vec<FileSeal>,
}

impl SpexRun {
    fn new(
        options: &SpexOptions,
        settings: &Settings,
        start: SpexStart,
        observer: &mut dyn Observer,
    ) -> Result<Self> {
        let target = check_lengths(&options.lengths)?;
        let mut source = Source::new(settings.corpus.clone(), settings.limits.threads)?;
        let asked = options.tokenizer.as_ref().map(Tokenizer::scheme);
        let tokens = match start.tokens {
            Some(tokens) if asked.as_ref().is_none_or(|asked| *asked == tokens) => tokens,
            Some(tokens) => {
                return Err(Error::Usage(format!(
                    "the index has tokens of '{tokens}', not those that are asked for"
                )));
            }
            None => token_scheme(options.tokenizer.as_ref(), source.first_header())?,
        };
        if tokens.is_dna() {
            return Err(Error::Usage(
                "chunks of both strands are not found this way; use dedup-index".to_owned(),
            ));
        }
        if tokens.is_of_several() {
            return Err(Error::Usage(format!(
                "shared chunks are of the tokens of one tokenizer, not of '{tokens}'; name one of them, or use dedup-index"
            )));
        }
        source.expect(vec![Header::new(StreamKind::Tokens, tokens.to_string())]);
        let window = format!("ordered:{target}");
        let selection = parse_select(&options.select, &format!("{tokens} {window}"))?;
        let SpexStart {
            mut documents,
            mut stream,
            keeps,
            ..
        } = start;
        let counter = ChunkCounter::new(options.counter_bytes);
        let with_text = documents.has_texts();
        let never = |_: u32| false;
        let before = sift(options, &never).count_kept(&stream, &counter)?;
        let (counted, mut keeps) = (
            AtomicU64::new(before),
            keeps.map(TokenFileWriter::create).transpose()?,
        );
        let stage = HashStage::new(HashOptions {
            scheme: &tokens,
            counter: &counter,
            length: options.lengths[0],
            counted: &counted,
            target,
            selection: selection.clone(),
            with_text,
        });
        let summary = run(&stage, source, settings, observer, |hashed, ids| {
            let block = documents.add(hashed, ids)?;
            keeps
                .as_mut()
                .map_or_else(|| stream.push(&block), |keeps| keeps.push(&block))
        })?
        .ensure_documents(settings)?;
        let mut state = Vec::new();
        if let Some(keeps) = keeps {
            let (kept, path) = keeps.finish(&tokens.to_string())?;
            state.push(FileSeal::of(&path)?);
            stream.push_kept(kept);
        }
        let is_kept = |document: u32| documents.has_alias(document);
        let (stream, counter, passes) =
            sift(options, &is_kept).run(stream, counter, counted.into_inner())?;
        let spexed = SpexSummary {
            summary,
            passes,
            chunks: documents.chunks(target),
            survivors: 0,
        };
        let scheme = BlotScheme {
            tokens,
            windows: window.into(),
            bits: BITS,
            select: selection.scheme(),
        };
        Ok(Self {
            documents,
            scheme,
            selection,
            stream,
            counter,
            spexed,
            survivors: AtomicU64::new(0),
            state,
        })
    }

    /// Removes chunks that the selection does not keep.
    fn select(&self, selection: &mut Selection, chunks: &[(u32, u64)], out: &mut Blots) {
        out.clear();
        chunks
            .iter()
            .for_each(|&(position, chunk)| out.push(chunk, position));
        self.survivors.fetch_add(chunks.len().to_u64(), Relaxed);
        selection.apply(&Tokens::default(), out);
    }

    fn write_index(
        &self,
        options: &SpexOptions,
        directory: &Path,
        generation: u64,
        parts: Vec<Range<usize>>,
    ) -> Result<Manifest> {
        let mut builder = SegmentBuilder::<u128>::new(BITS, options.resources.clone(), None);
        let is_kept = |document: u32| self.documents.has_alias(document);
        let with_text = self.documents.has_texts();
        let (mut next, mut repeated, mut chunks) =
            (0, Vec::new(), ChunkList::new(&options.resources));
        let gather = |found: &mut dyn Iterator<Item = (u32, &[(u32, u64)])>| {
            let (mut selection, mut blots, mut gathered) = (
                self.selection.clone(),
                Blots::default(),
                FoundChunks::default(),
            );
            for (document, chunks) in found {
                self.select(&mut selection, chunks, &mut blots);
                if with_text {
                    let places = blots.values.iter().zip(&blots.positions);
                    gathered.places.extend(
                        places.map(|(&chunk, &position)| chunks::key(chunk, document, position)),
                    );
                }
                blots.values.sort_unstable();
                let same = blots
                    .values
                    .windows(2)
                    .filter(|two| options.within && two[0] == two[1]);
                gathered.repeated.extend(same.map(|two| two[0]));
                blots.values.dedup();
                gathered.chunks.push((document, blots.values.clone()));
            }
            gathered
        };
        sift(options, &is_kept).survivors(
            &self.stream,
            &self.counter,
            gather,
            FoundChunks::bytes,
            |found| {
                repeated.extend_from_slice(&found.repeated);
                chunks.push(&found.places)?;
                let Some(&(last, _)) = found.chunks.last() else {
                    return Ok(());
                };
                let (mut blots, mut ends, mut found) =
                    (Vec::new(), Vec::new(), found.chunks.iter().peekable());
                for document in next..=last {
                    if let Some((_, chunks)) = found.next_if(|(of, _)| *of == document) {
                        blots.extend_from_slice(chunks);
                    }
                    ends.push(blots.len());
                }
                let rows = self.documents.rows(next..last + 1);
                next = last + 1;
                builder
                    .add(
                        rows,
                        &Postings::new(&blots, &ends, BITS),
                        &WordCounts::default(),
                    )
                    .map(drop)
            },
        )?;
        builder.add(
            self.documents.rows(next..self.documents.len()),
            &Postings::default(),
            &WordCounts::default(),
        )?;
        repeated.sort_unstable();
        repeated.dedup();
        builder.keep_shared_and(repeated);
        let texts = with_text
            .then(|| self.write_texts(chunks, options, directory, generation))
            .transpose()?;
        let manifest = Manifest {
            generation,
            state: self.state.clone(),
            texts,
            preset: options.preset.clone(),
            ..Manifest::new(&self.scheme)
        };
        let (segment, numbers, _) = builder.write(&SegmentFiles {
            directory,
            name: &Manifest::segment_name(generation),
            changes: [1, generation],
            manifest: &manifest,
            parts,
        })?;
        let files = manifest.state.iter().chain(&manifest.texts);
        let files: Vec<_> = files.map(|file| directory.join(&file.name)).collect();
        durable::sync_files(directory, &files)?;
        Ok(Manifest {
            numbers,
            segments: vec![segment],
            ..manifest
        })
    }

    /// Writes the text of each shared chunk beside the index.
    fn write_texts(
        &self,
        chunks: ChunkList,
        options: &SpexOptions,
        directory: &Path,
        generation: u64,
    ) -> Result<FileSeal> {
        let path = directory.join(TEXTS.file_name(&Manifest::segment_name(generation)));
        let mut out = ChunkTextWriter::create(path, &options.resources.tmp_dir)?;
        let length = options.lengths.last().copied().unwrap_or(1);
        let worked = |places: &[chunks::Key], made: &mut Vec<(u64, Vec<u8>)>| {
            made.push((
                places[0][0],
                chunks::text_of(places, &self.documents, length)?,
            ));
            Ok(())
        };
        let put = |made: Vec<(u64, Vec<u8>)>| {
            made.iter()
                .try_for_each(|(blot, text)| out.push(Blot::new(*blot), text))
        };
        chunks.each_shared(&self.documents, options.within, worked, put)?;
        out.finish()
    }

    fn write_lines(&self, options: &SpexOptions, out: &mut dyn Write) -> Result<()> {
        let is_kept = |document: u32| self.documents.has_alias(document);
        let mut chunks = ChunkList::new(&options.resources);
        let gather = |found: &mut dyn Iterator<Item = (u32, &[(u32, u64)])>| {
            let (mut selection, mut blots, mut keys) =
                (self.selection.clone(), Blots::default(), Vec::new());
            for (document, found) in found {
                self.select(&mut selection, found, &mut blots);
                keys.extend(
                    blots
                        .values
                        .iter()
                        .zip(&blots.positions)
                        .map(|(&chunk, &position)| chunks::key(chunk, document, position)),
                );
            }
            keys
        };
        let weigh = |keys: &Vec<[u64; 2]>| 16 * keys.len().to_u64();
        sift(options, &is_kept).survivors(&self.stream, &self.counter, gather, weigh, |keys| {
            chunks.push(&keys)
        })?;
        let length = options.lengths.last().copied().unwrap_or(1);
        let worked = |places: &[chunks::Key], lines: &mut Vec<u8>| {
            chunks::put_chunk(lines, places, &self.documents, length)
        };
        chunks.each_shared(&self.documents, options.within, worked, |lines| {
            out.write_all(&lines).map_err(Error::output)
        })
    }

    fn finish(self, filter: Option<&mut dyn Write>) -> Result<SpexSummary> {
        if let Some(out) = filter {
            let scheme = format!("{} {}", self.scheme.tokens, self.scheme.windows);
            write_filter(out, &scheme, self.counter.bits(), self.counter.repeats())
                .map_err(Error::output)?;
        }
        Ok(SpexSummary {
            survivors: self.survivors.into_inner(),
            ..self.spexed
        })
    }
}

fn sift<'a>(options: &'a SpexOptions, is_kept: &'a (dyn Fn(u32) -> bool + Sync)) -> Sift<'a> {
    let SpexOptions {
        lengths,
        counter_bytes,
        resources,
        ..
    } = options;
    Sift {
        lengths,
        counter_bytes: *counter_bytes,
        is_kept,
        limits: documents::block_limits(resources),
        directory: &resources.tmp_dir,
    }
}

/// Checks the lengths, and returns that of the chunks to find.
fn check_lengths(lengths: &[u32]) -> Result<u32> {
    let wrong = || {
        Error::Usage(
            "the lengths of a schedule must rise, from 1 or more to that of the chunks".to_owned(),
        )
    };
    match lengths {
        [.., last] if lengths[0] > 0 && lengths.is_sorted_by(|one, two| one < two) => Ok(*last),
        _ => Err(wrong()),
    }
}

/// Parses a selection. Only selections that decide chunk by chunk can be combined with spex.
fn parse_select(select: &SelectScheme, scheme: &str) -> Result<Selection> {
    let is_known =
        |term: &SchemeTerm| term.is_plain("spex") || term.name == "mod" && term.argument.is_some();
    if let Some(term) = select.0.iter().find(|term| !is_known(term)) {
        return Err(Error::Usage(format!(
            "{}: here there are spex and mod:N; for others write a filter with {} and build with {}",
            Setting::Select.to(term),
            Setting::FilterOut.to("FILE"),
            Setting::Select.to("spex:FILE,…")
        )));
    }
    let tokenizer = Tokenizer::new(Rule::Word, false);
    Selection::parse(
        &SelectScheme([&select.0[..], &["spex".into()]].concat()),
        SelectContext {
            tokenizer: &tokenizer,
            scheme,
            bits: BITS,
        },
    )
    .map_err(Error::Usage)
}
