//! Documents, tokens or blots to an index.

use super::{
    BlotOptions, Gathered, Settings, Stage, Summary, Watch,
    blot::{ToBlots, open},
    run,
};
use crate::{
    corpus::{Item, Source},
    error::Result,
    index::{Row, SegmentBuilder, WriteLock, ensure_new, first_manifest, sweep},
    posting::{Key, Postings, TempDir},
};
use std::{fs, path::Path, path::PathBuf};

#[derive(Debug, Clone)]
pub struct BuildOptions {
    pub blots: BlotOptions,
    pub parts: u32,
    pub memory_bytes: u64,
    /// Where temporary files go, if there must be any.
    pub tmp_dir: Option<PathBuf>,
}

/// Builds an index in a directory that has none. What a build that died left there is swept away.
pub fn build(options: &BuildOptions, settings: &Settings, directory: &Path, watch: &mut dyn Watch) -> Result<Summary> {
    ensure_new(directory)?;
    let lock = WriteLock::take(directory)?;
    // Again, now that nobody else can write.
    let summary = ensure_new(directory).and_then(|()| sweep(directory)).and_then(|()| build_locked(options, settings, directory, watch));
    lock.release(directory)?;
    summary.inspect_err(|_| leave_nothing(directory))
}

fn build_locked(options: &BuildOptions, settings: &Settings, directory: &Path, watch: &mut dyn Watch) -> Result<Summary> {
    let (source, blots) = open(&options.blots, settings)?;
    if blots.scheme.bits <= 32 {
        build_as::<u64>(options, settings, directory, source, blots, watch)
    } else {
        build_as::<u128>(options, settings, directory, source, blots, watch)
    }
}

/// A build that failed takes away what it made: there was nothing before.
fn leave_nothing(directory: &Path) {
    if ensure_new(directory).is_ok() {
        let _ = sweep(directory);
        let _ = fs::remove_dir(directory);
    }
}

fn build_as<K: Key>(
    options: &BuildOptions,
    settings: &Settings,
    directory: &Path,
    source: Source,
    blots: ToBlots,
    watch: &mut dyn Watch,
) -> Result<Summary> {
    let (scheme, threads) = (blots.scheme.clone(), settings.limits.threads);
    let mut builder =
        SegmentBuilder::<K>::new(scheme.bits, options.memory_bytes, threads, options.parts, TempDir(options.tmp_dir.clone()))?;
    let stage = Gather::<K> { blots, of: std::marker::PhantomData };
    let mut numbers = 0;
    let summary = run(&stage, source, settings, watch, |documents| {
        numbers += documents.rows.len() as u32;
        builder.add(documents.rows, &documents.postings)
    })?;
    let segment = builder.write(directory, "000001", &scheme)?;
    first_manifest(&scheme, segment, numbers).commit(directory)?;
    Ok(summary)
}

/// Rows and postings of some documents, numbered from 0.
struct Documents<K> {
    rows: Vec<(Box<str>, Row)>,
    keys: Vec<K>,
    postings: Postings<K>,
    bits: u8,
}

impl<K: Key> Default for Documents<K> {
    fn default() -> Self {
        Self { rows: Vec::new(), keys: Vec::new(), postings: Postings::default(), bits: 0 }
    }
}

impl<K: Key> Gathered for Documents<K> {
    fn weight(&self) -> u64 {
        (size_of_val(self.postings.keys()) + self.rows.len() * (size_of::<(Box<str>, Row)>() + 40)) as u64
    }

    fn drop_documents(&mut self, dropped: &[usize]) {
        let is_dropped = |number: u32| dropped.binary_search(&(number as usize)).is_ok();
        let before = |number: u32| dropped.partition_point(|&dropped| dropped < number as usize) as u32;
        let kept = self.postings.keys().iter().filter(|key| !is_dropped(key.number()));
        let keys: Vec<K> = kept.map(|key| K::new(key.blot(), key.number() - before(key.number()))).collect();
        self.postings = Postings::new(&keys, self.bits);
        let mut number = 0;
        self.rows.retain(|_| {
            number += 1;
            !is_dropped(number - 1)
        });
    }
}

struct Gather<K> {
    blots: ToBlots,
    of: std::marker::PhantomData<fn() -> K>,
}

impl<K> Clone for Gather<K> {
    fn clone(&self) -> Self {
        Self { blots: self.blots.clone(), of: self.of }
    }
}

impl<K: Key> Stage for Gather<K> {
    type Out = Documents<K>;

    fn take(&mut self, item: &Item<'_>, out: &mut Documents<K>) -> Result<(), String> {
        let (blots, hash) = self.blots.blots(item)?;
        let tokens = u32::try_from(blots.tokens).map_err(|_| "a document of more than 4 G tokens; split it")?;
        let number = out.rows.len() as u32;
        out.rows.push((item.id.into(), Row::new(item.bytes, tokens, hash)));
        out.keys.extend(blots.values.iter().map(|&blot| K::new(blot, number)));
        Ok(())
    }

    fn finish(&mut self, out: &mut Documents<K>) {
        self.blots.give_back();
        out.bits = self.blots.scheme.bits;
        out.postings = Postings::new(&std::mem::take(&mut out.keys), out.bits);
    }
}
