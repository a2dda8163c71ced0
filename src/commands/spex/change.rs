//! Adds, replaces and removes documents of an index of shared chunks. The result is, byte for byte,
//! the index of a full run over the documents that there are then.
//!
//! No document of the index is read again. Which of its chunks were single, and are shared with the
//! new documents, is found in the stored tokens; all other chunks keep what they have. The postings of
//! the new documents and those that were found go to a segment of their own, which is merged with
//! that of the index.

use super::{
    SpexOptions, SpexSummary,
    chunk_stage::{ChunkBatch, ChunkStage, KeptOfDocuments},
    contents::Contents,
    index::StoredTokens,
    scan::{BlotSet, FoundBlots, TokenScan},
    sizes::IndexSizes,
    tokens::{ChunkScheme, chunks_of, open},
};
use crate::{
    base::{
        error::{Error, Place, Problem, Result},
        files::TempFile,
        ids::DocNo,
        num::{ToU32, ToUsize},
        setting::Setting,
    },
    commands::{
        Observer, Settings, StageOutput, Summary, index::commit::write_to, run, stage::IdsAndPlaces,
    },
    index::{
        DocumentRow, DocumentTable, Index, Manifest, SegmentBuilder, SegmentFiles, SharedRewrite,
        TOKENS, TokenSource, TokenStore, View,
        posting::{BUCKETS, Buckets, Key, NARROW_BITS, Postings, WordCounts, bucket_of},
    },
    text::scheme::WindowSchemes,
};
use std::{collections::HashMap, io::Write, ops::Range, path::Path};

/// Adds documents to an index of shared chunks. One that has the id of another takes its place, unless it is the same.
pub fn spex_add(
    options: &SpexOptions,
    settings: &Settings,
    directory: &Path,
    filter: Option<&mut dyn Write>,
    observer: &mut dyn Observer,
) -> Result<SpexSummary> {
    write_to(directory, |index| {
        let target = options.lengths.last().copied().unwrap_or_default();
        let scheme = &index.scheme;
        if scheme.windows != WindowSchemes::from(format!("ordered:{target}")) {
            return Err(Error::Usage(format!(
                "{}: an index of '{scheme}', where chunks of {target} tokens are asked for",
                directory.display()
            )));
        }
        if options.bits.is_some_and(|bits| bits != scheme.bits) {
            return Err(Error::Usage(format!(
                "{}: an index of '{scheme}', where blots of {} bits are asked for",
                directory.display(),
                options.bits.unwrap_or_default()
            )));
        }
        let options = options_of(options, &index);
        let mut change = Change::new(&options, &index)?;
        if scheme.bits <= NARROW_BITS {
            change.read::<u64>(settings, observer)?;
        } else {
            change.read::<u128>(settings, observer)?;
        }
        change.commit(filter)
    })
}

/// Removes documents of an index of shared chunks by id. Ids that the index does not have are reported to `observer`.
pub fn spex_remove(
    options: &SpexOptions,
    ids: impl Iterator<Item = Result<String>>,
    directory: &Path,
    observer: &mut dyn Observer,
) -> Result<SpexSummary> {
    write_to(directory, |index| {
        let options = options_of(options, &index);
        let mut change = Change::new(&options, &index)?;
        for id in ids {
            let id = id?;
            if !change.remove(&id)? {
                change.found.summary.problems += 1;
                observer.problem(&Problem::new(
                    Place::path(directory),
                    format!("has no document '{id}'"),
                ));
            }
        }
        change.commit(None)
    })
}

/// The options that the index was made with.
fn options_of(options: &SpexOptions, index: &Index) -> SpexOptions {
    SpexOptions {
        select: index.scheme.select.clone(),
        preset: index.manifest.preset.clone(),
        bits: Some(index.scheme.bits),
        ..options.clone()
    }
}

/// Blots that are looked up at a time.
const LOOK_UP_BLOTS: usize = 1 << 12;

/// What becomes of a document of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    Removed,
    /// This new document takes its place.
    Replaced(usize),
}

/// A document that was read.
struct NewDocument {
    id: String,
    row: DocumentRow,
}

/// The postings of new documents, and those of old ones that are shared now.
struct NewPostings {
    index: Index,
    /// The hash of the content that each place has postings of.
    hashes: Vec<u128>,
}

/// A change of the documents of an index.
struct Change<'i> {
    options: &'i SpexOptions,
    index: &'i Index,
    view: View<'i>,
    store: TokenStore,
    chunks: ChunkScheme,
    /// The documents of the index.
    rows: Vec<DocumentRow>,
    fates: Vec<Fate>,
    /// The number of each content of the index in the store.
    stored: HashMap<u128, usize>,
    new: Vec<NewDocument>,
    added: Vec<usize>,
    /// The tokens of new contents.
    texts: TempFile,
    /// Where the tokens of each new content are.
    places: HashMap<u128, Range<u64>>,
    postings: Option<NewPostings>,
    found: SpexSummary,
}

impl<'i> Change<'i> {
    fn new(options: &'i SpexOptions, index: &'i Index) -> Result<Self> {
        let directory = &index.directory;
        if index.manifest.state.is_empty() {
            return Err(Error::Usage(format!(
                "{}: no index that dedup-spex can change: make it with dedup-spex {}, without {}",
                directory.display(),
                Setting::Output,
                Setting::Final
            )));
        }
        let view = View::of(index)?;
        let Some(store) = TokenStore::of(&index.manifest, directory, &view)? else {
            return Err(Error::Usage(format!(
                "{}: no tokens are kept",
                directory.display()
            )));
        };
        let rows = DocNo::first(view.documents())
            .map(|number| view.row(number))
            .collect::<Result<Vec<_>>>()?;
        let hashes = view.contents().iter().map(|content| content.hash);
        let stored = hashes
            .enumerate()
            .filter_map(|(number, hash)| Some((hash?, number)))
            .collect();
        Ok(Self {
            chunks: ChunkScheme::new(options, index.scheme.tokens.clone())?,
            texts: TempFile::new(&options.resources.tmp_dir)?,
            fates: vec![Fate::Kept; rows.len()],
            options,
            index,
            view,
            store,
            rows,
            stored,
            new: Vec::new(),
            added: Vec::new(),
            places: HashMap::new(),
            postings: None,
            found: SpexSummary::default(),
        })
    }

    /// The number of the document with this id.
    fn find(&self, id: &str) -> Result<Option<u32>> {
        // The index has one segment, where documents stand by number.
        Ok(self.index.find_id(id)?.map(|at| at.place))
    }

    /// Removes a document; false if there is none.
    fn remove(&mut self, id: &str) -> Result<bool> {
        let Some(number) = self.find(id)? else {
            return Ok(false);
        };
        self.found.removed += u64::from(self.fates[number.to_usize()] == Fate::Kept);
        self.fates[number.to_usize()] = Fate::Removed;
        Ok(true)
    }

    /// Reads new documents.
    fn read<K: Key>(&mut self, settings: &Settings, observer: &mut dyn Observer) -> Result<()> {
        let (source, _) = open(self.options, settings, Some(&self.index.scheme.tokens))?;
        let (bits, resources) = (self.chunks.scheme.bits, &self.options.resources);
        let mut builder = SegmentBuilder::<K>::new(bits, resources.clone(), None);
        let blots_bytes = resources.memory_bytes / 8;
        let mut blots = Buckets::<1>::new(BUCKETS, blots_bytes, resources.tmp_dir.clone());
        let stage = ChunkStage::<K>::new(
            &self.chunks,
            KeptOfDocuments {
                tokens: true,
                repeated: false,
                blots: true,
            },
        );
        let mut hashes = Vec::new();
        let summary = run(&stage, source, settings, observer, |mut batch, ids| {
            let ids = self.take_new(&mut batch, ids)?;
            for document in &batch.documents {
                hashes.push(document.row.hash.unwrap_or_default());
                let of = document.blots.iter();
                of.for_each(|&blot| blots.push(bucket_of(blot, bits), [blot]));
            }
            blots.settle()?;
            let named = batch.named(ids);
            builder
                .add(named, &batch.postings, &WordCounts::default())
                .map(drop)
        })?;
        self.found.summary = Summary {
            problems: summary.problems + self.found.summary.problems,
            ..summary.ensure_documents(settings)?
        };
        if self.new.is_empty() {
            return Ok(());
        }
        self.find_in_stored(&mut builder, &blots, &mut hashes)?;
        self.postings = Some(self.write_postings(builder, hashes)?);
        Ok(())
    }

    /// Drops documents that the index has already, and notes what becomes of the others. Returns their ids.
    fn take_new<K: Key>(
        &mut self,
        batch: &mut ChunkBatch<K>,
        ids: IdsAndPlaces,
    ) -> Result<IdsAndPlaces> {
        let (mut dropped, mut kept) = (Vec::new(), Vec::new());
        for (at, (id, place)) in ids.into_iter().enumerate() {
            let row = batch.documents[at].row;
            let known = self.find(&id)?;
            if known.is_some_and(|number| self.rows[number.to_usize()].hash == row.hash) {
                self.found.known += 1;
                dropped.push(at);
                continue;
            }
            let new = self.new.len();
            match known {
                Some(number) => {
                    self.fates[number.to_usize()] = Fate::Replaced(new);
                    self.found.replaced += 1;
                }
                None => {
                    self.added.push(new);
                    self.found.added += 1;
                }
            }
            let hash = row.hash.unwrap_or_default();
            if !self.stored.contains_key(&hash) && !self.places.contains_key(&hash) {
                let place = self.texts.append(&batch.documents[at].text)?;
                self.places.insert(hash, place);
            }
            self.new.push(NewDocument {
                id: id.clone().into(),
                row,
            });
            kept.push((id, place));
        }
        batch.drop_documents(&dropped);
        if self.rows.len() + self.new.len() >= u32::MAX.to_usize() {
            return Err(Error::Usage(
                "more than 4 G documents; split the collection".to_owned(),
            ));
        }
        Ok(kept)
    }

    /// Posts the chunks of new documents that documents of the index have, too. Reads the stored tokens
    /// once, or once for as many blots as fit into the memory.
    fn find_in_stored<K: Key>(
        &self,
        builder: &mut SegmentBuilder<'_, K>,
        blots: &Buckets<1>,
        hashes: &mut Vec<u128>,
    ) -> Result<()> {
        let contents = self.view.contents();
        let bits = self.chunks.scheme.bits;
        let is_live = self.live_contents();
        let mut post = |found: FoundBlots| {
            let (mut rows, mut all, mut ends) = (Vec::new(), Vec::new(), Vec::new());
            for (content, blots) in found {
                rows.push((content.to_string().into(), DocumentRow::new(None, 0, None)));
                hashes.push(contents[content].hash.unwrap_or_default());
                all.extend(blots);
                ends.push(all.len());
            }
            let postings = Postings::new(&all, &ends, bits);
            builder
                .add(rows, &postings, &WordCounts::default())
                .map(drop)
        };
        let limit = self.options.resources.memory_bytes / 4;
        let mut bucket = 0;
        while bucket < BUCKETS {
            let (mut wanted, mut bytes) = (Vec::new(), 0);
            while bucket < BUCKETS && (bytes == 0 || bytes + blots.bytes(bucket) <= limit) {
                bytes += blots.bytes(bucket);
                wanted.extend(blots.take(bucket)?.into_iter().map(|[blot]| blot));
                bucket += 1;
            }
            let wanted = BlotSet::new(self.not_posted(wanted)?, bits);
            if wanted.is_empty() {
                continue;
            }
            TokenScan {
                store: &self.store,
                wanted: &wanted,
                length: self.chunks.length.to_usize(),
                bits,
                is_live: &|content| is_live[content],
                threads: self.options.resources.threads,
            }
            .run(&mut post)?;
        }
        Ok(())
    }

    /// Those of some blots that the index does not have: of all others it has every document.
    fn not_posted(&self, mut blots: Vec<u64>) -> Result<Vec<u64>> {
        blots.sort_unstable();
        blots.dedup();
        let (mut kept, mut found) = (Vec::new(), Vec::new());
        for some in blots.chunks(LOOK_UP_BLOTS) {
            for segment in &self.index.segments {
                found.clear();
                segment.find_all(some, self.chunks.scheme.bits, &mut found)?;
                let pairs = some.iter().zip(&found);
                kept.extend(
                    pairs
                        .filter(|(_, found)| found.is_none())
                        .map(|(blot, _)| blot),
                );
            }
        }
        Ok(kept)
    }

    /// Which contents of the index some document keeps.
    fn live_contents(&self) -> Vec<bool> {
        let mut is_live = vec![false; self.view.contents().len()];
        for (number, fate) in DocNo::first(self.rows.len()).zip(&self.fates) {
            is_live[self.view.content_of(number).index()] |= *fate == Fate::Kept;
        }
        is_live
    }

    /// Writes a segment that the next commit does not name, so that it is removed with what the commit replaces.
    fn write_postings<K: Key>(
        &self,
        builder: SegmentBuilder<'_, K>,
        hashes: Vec<u128>,
    ) -> Result<NewPostings> {
        let mut manifest = Manifest {
            generation: self.index.manifest.generation + 2,
            ..Manifest::new(&self.chunks.scheme)
        };
        let (segment, numbers, _) = builder.write(&SegmentFiles {
            directory: &self.index.directory,
            name: &Manifest::segment_name(manifest.generation),
            changes: [manifest.generation; 2],
            manifest: &manifest,
            parts: SegmentFiles::parts(1)?,
        })?;
        manifest.numbers = numbers;
        manifest.segments.push(segment);
        let index = Index::open_as_of(&self.index.directory, &manifest)?;
        Ok(NewPostings { index, hashes })
    }

    /// Writes the index as it is after the change, if there is one.
    fn commit(mut self, filter: Option<&mut dyn Write>) -> Result<(Option<Manifest>, SpexSummary)> {
        let is_changed = self.fates.iter().any(|fate| *fate != Fate::Kept) || !self.new.is_empty();
        let is_sifted = self.options.with_figures || filter.is_some();
        if !is_changed && !is_sifted {
            return Ok((None, self.found));
        }
        let (documents, contents) = self.documents()?;
        let length = self.chunks.length;
        self.found.chunks = documents
            .rows()
            .map(|row| chunks_of(row.tokens, length))
            .sum();
        let manifest = is_changed
            .then(|| self.write(documents, &contents))
            .transpose()?;
        if is_sifted {
            (self.found.passes, self.found.survivors) =
                contents.sift(self.options, &self.chunks, Some(&self.store), filter)?;
        }
        if let Some(manifest) = &manifest {
            self.found.sizes = Some(IndexSizes::of(&self.index.directory, manifest)?);
        }
        Ok((manifest, self.found))
    }

    fn write(&self, documents: DocumentTable, contents: &Contents) -> Result<Manifest> {
        let Self { index, options, .. } = self;
        let generation = index.manifest.generation + 1;
        let name = Manifest::segment_name(generation);
        let mut manifest = Manifest {
            generation,
            numbers: documents.len().to_u32(),
            preset: index.manifest.preset.clone(),
            ..Manifest::new(&index.scheme)
        };
        let parts = index.manifest.segments.first();
        let files = SegmentFiles {
            directory: &index.directory,
            name: &name,
            changes: [1, generation],
            manifest: &manifest,
            parts: SegmentFiles::parts(parts.map_or(1, |segment| segment.parts))?,
        };
        let segment = self
            .rewrite(documents, contents)
            .write(&files, &options.resources)?;
        manifest.segments.push(segment);
        let kept = StoredTokens {
            directory: &index.directory,
            name: &name,
            section: &TOKENS,
            threads: options.resources.threads,
        };
        let file = kept.write(contents, Some(&self.store), &manifest.scheme)?;
        manifest.state.push(file);
        Ok(manifest)
    }

    /// All documents after the change, and their contents.
    fn documents(&mut self) -> Result<(DocumentTable, Contents)> {
        let mut contents = Contents::new(&self.options.resources.tmp_dir)?;
        std::mem::swap(&mut contents.texts, &mut self.texts);
        let mut documents = DocumentTable::default();
        for number in 0..self.rows.len() {
            let (id, row) = match self.fates[number] {
                Fate::Removed => continue,
                Fate::Kept => (self.view.id(DocNo::from_index(number))?, self.rows[number]),
                Fate::Replaced(new) => self.new_document(new)?,
            };
            self.push(&id, row, &mut documents, &mut contents)?;
        }
        for &new in &self.added {
            let (id, row) = self.new_document(new)?;
            self.push(&id, row, &mut documents, &mut contents)?;
        }
        Ok((documents, contents))
    }

    /// A new document, with the number of its blots.
    fn new_document(&self, new: usize) -> Result<(String, DocumentRow)> {
        let NewDocument { id, row } = &self.new[new];
        let blots = match &self.postings {
            Some(postings) => {
                postings.index.segments[0]
                    .documents
                    .row(new.to_u32())?
                    .blots
            }
            None => 0,
        };
        Ok((id.clone(), row.with_blots(blots)))
    }

    fn push(
        &self,
        id: &str,
        row: DocumentRow,
        documents: &mut DocumentTable,
        contents: &mut Contents,
    ) -> Result<()> {
        let number = documents.len().to_u32();
        let hash = row.hash.unwrap_or_default();
        let first = contents.add(number, &row, |_| {
            Ok(match self.stored.get(&hash) {
                Some(&content) => TokenSource::Stored(content),
                None => TokenSource::New(self.places.get(&hash).cloned().unwrap_or_default()),
            })
        })?;
        let mut numbered = row;
        numbered.number = number;
        numbered.representative = first;
        documents.push(id, &numbered);
        Ok(())
    }

    /// The postings of the index and of the change, for the documents after the change.
    fn rewrite(&self, documents: DocumentTable, contents: &Contents) -> SharedRewrite<'_> {
        let target = |hash: u128| contents.first_document(hash).unwrap_or(u32::MAX);
        let of_index = self.rows.iter().map(|row| row.hash.unwrap_or_default());
        let mut segments: Vec<_> = self.index.segments.iter().collect();
        let mut targets: Vec<Vec<u32>> = vec![of_index.map(target).collect()];
        if let Some(NewPostings { index, hashes }) = &self.postings {
            segments.extend(&index.segments);
            targets.push(hashes.iter().map(|&hash| target(hash)).collect());
        }
        SharedRewrite {
            bits: self.chunks.scheme.bits,
            segments,
            targets,
            documents,
        }
    }
}
