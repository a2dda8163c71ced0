//! Makes an index of shared chunks: sorts the chunks of all documents, and keeps those of several.
//!
//! The passes of SPEX would save the sorting of most chunks, but cost more than it takes. They run
//! only if their figures or the filter are asked for.

use super::{
    SpexIndex, SpexOptions, SpexSummary,
    chunk_stage::{ChunkStage, KeptOfDocuments},
    contents::Contents,
    sizes::IndexSizes,
    tokens::{ChunkScheme, chunks_of, open},
};
use crate::{
    base::{error::Result, files::durable},
    commands::{
        Observer, Settings,
        index::build::{ensure_some_read, write_new},
        run,
    },
    index::{
        FRAME_TOKENS, FileSeal, Manifest, SectionKind, SegmentBuilder, SegmentFiles, TEXTS, TOKENS,
        TokenSource, TokenStore, TokenStoreWriter,
        posting::{Key, NARROW_BITS, WordCounts},
    },
    text::corpus::Source,
};
use std::{io::Write, path::Path};

/// Makes an index in a directory that has none.
pub fn write(
    options: &SpexOptions,
    settings: &Settings,
    index: &SpexIndex<'_>,
    filter: Option<&mut dyn Write>,
    observer: &mut dyn Observer,
) -> Result<SpexSummary> {
    write_new(index.directory, || {
        let (source, tokens) = open(options, settings, None)?;
        let chunks = ChunkScheme::new(options, tokens)?;
        let build = IndexBuild {
            options,
            settings,
            index,
            chunks,
        };
        // Blots that one document repeats are looked up with all their bits.
        if build.chunks.scheme.bits <= NARROW_BITS && !options.within {
            build.write_as::<u64>(source, filter, observer)
        } else {
            build.write_as::<u128>(source, filter, observer)
        }
    })
}

struct IndexBuild<'a> {
    options: &'a SpexOptions,
    settings: &'a Settings,
    index: &'a SpexIndex<'a>,
    chunks: ChunkScheme,
}

impl IndexBuild<'_> {
    /// What the tokens are kept for, if they are.
    fn section(&self) -> Option<&'static SectionKind> {
        // Chunks that one document repeats are not known of documents that are not read again.
        if self.index.is_final || self.options.within {
            return self.index.with_text.then_some(&TEXTS);
        }
        Some(&TOKENS)
    }

    fn write_as<K: Key>(
        &self,
        source: Source,
        filter: Option<&mut dyn Write>,
        observer: &mut dyn Observer,
    ) -> Result<(Manifest, SpexSummary)> {
        let Self {
            options,
            settings,
            chunks,
            ..
        } = self;
        let is_sifted = options.with_figures || filter.is_some();
        let stage = ChunkStage::<K>::new(
            chunks,
            KeptOfDocuments {
                tokens: is_sifted || self.section().is_some(),
                repeated: options.within,
                blots: false,
            },
        );
        let bits = chunks.scheme.bits;
        let mut builder = SegmentBuilder::<K>::new(bits, options.resources.clone(), None);
        let mut contents = Contents::new(&options.resources.tmp_dir)?;
        let (mut number, mut repeated, mut found) = (0, Vec::new(), SpexSummary::default());
        let summary = run(&stage, source, settings, observer, |batch, ids| {
            for document in &batch.documents {
                contents.add(number, &document.row, |texts| {
                    texts.append(&document.text).map(TokenSource::New)
                })?;
                number += 1;
                repeated.extend_from_slice(&document.repeated);
                found.chunks += chunks_of(document.row.tokens, chunks.length);
            }
            let postings = &batch.postings;
            builder
                .add(batch.named(ids), postings, &WordCounts::default())
                .map(drop)
        })?;
        found.summary = summary.ensure_documents(settings)?;
        ensure_some_read(&found.summary, builder.is_empty())?;
        repeated.sort_unstable();
        repeated.dedup();
        builder.keep_shared_and(repeated);
        let manifest = self.commit(builder, &contents)?;
        found.sizes = Some(IndexSizes::of(self.index.directory, &manifest)?);
        if is_sifted {
            (found.passes, found.survivors) = contents.sift(options, chunks, None, filter)?;
        }
        Ok((manifest, found))
    }

    /// Writes all files.
    fn commit<K: Key>(
        &self,
        builder: SegmentBuilder<'_, K>,
        contents: &Contents,
    ) -> Result<Manifest> {
        let directory = self.index.directory;
        let mut manifest = Manifest {
            generation: 1,
            preset: self.options.preset.clone(),
            ..Manifest::new(&self.chunks.scheme)
        };
        let name = Manifest::segment_name(1);
        let (segment, numbers, _) = builder.write(&SegmentFiles {
            directory,
            name: &name,
            changes: [1, 1],
            manifest: &manifest,
            parts: SegmentFiles::parts(self.index.parts)?,
        })?;
        manifest.numbers = numbers;
        manifest.segments.push(segment);
        if let Some(section) = self.section() {
            let kept = StoredTokens {
                directory,
                name: &name,
                section,
                threads: self.options.resources.threads,
            };
            let file = kept.write(contents, None, &manifest.scheme)?;
            if section.kind == TOKENS.kind {
                manifest.state.push(file);
            } else {
                manifest.texts = Some(file);
            }
        }
        Ok(manifest)
    }
}

/// Where the tokens of contents are kept.
pub struct StoredTokens<'a> {
    pub directory: &'a Path,
    /// The segment.
    pub name: &'a str,
    pub section: &'static SectionKind,
    pub threads: usize,
}

impl StoredTokens<'_> {
    /// Writes the tokens of all contents, and syncs the file.
    pub fn write(
        &self,
        contents: &Contents,
        old: Option<&TokenStore>,
        scheme: &str,
    ) -> Result<FileSeal> {
        let path = self.directory.join(self.section.file_name(self.name));
        let file = TokenStoreWriter {
            old,
            texts: &contents.texts,
            scheme,
            section: self.section,
            frame_tokens: FRAME_TOKENS,
            threads: self.threads,
        }
        .write(path.clone(), &contents.list)?;
        durable::sync_files(self.directory, &[path])?;
        Ok(file)
    }
}
