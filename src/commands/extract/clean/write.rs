//! Writes the shards of a collection again.

use super::{
    fates::ShardFates,
    shards::{Shard, ShardList},
};
use crate::{
    base::{
        error::{Error, Result},
        files::durable,
        num::ToU64,
        parallel,
    },
    text::corpus::{self, Packing, Records, rewrite},
};
use std::{
    fs::{self, File},
    io::{self, Write},
    ops::Range,
    path::Path,
};

/// How shards are written.
#[derive(Clone, Copy)]
pub struct ShardWriter<'w> {
    /// The files of the collection.
    pub shards: &'w ShardList,
    /// The file of all fates.
    pub fates: &'w Path,
    /// Where the fates of each shard are in it.
    pub ranges: &'w [Range<u64>],
    /// How the shards are read.
    pub reading: &'w corpus::Options,
    /// Every record gets a field.
    pub annotates: bool,
}

/// The result of writing shards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WrittenShards {
    /// Shards that were written, now or by a run that was interrupted.
    pub shards: u64,
    /// Their size on disk.
    pub bytes: u64,
}

impl ShardWriter<'_> {
    /// Writes all shards into a directory. One that is there was written by a run that was interrupted, and is left as it is. `beside`: a
    /// directory for files that are not complete.
    ///
    /// Shards are written on all threads, one each. Memory: see [`rewrite::rewrite`].
    pub fn write_all(
        &self,
        target: &Path,
        beside: &Path,
        threads: usize,
        mut progress: impl FnMut(u64),
    ) -> Result<WrittenShards> {
        let mut sum = WrittenShards::default();
        let numbers = 0..self.shards.shards.len();
        let worker = || |number: usize| (number, self.write_one(number, target, beside));
        parallel::ordered_items(threads, numbers, worker, |(number, written)| {
            if let Some(bytes) = written? {
                sum.shards += 1;
                sum.bytes += bytes;
            }
            progress(self.shards.shards[number].entry.bytes);
            Ok::<_, Error>(())
        })?;
        durable::sync_tree(target)?;
        Ok(sum)
    }

    /// Writes one shard beside, syncs it, and renames it. Returns its size; none if it is a document that goes.
    pub fn write_one(&self, number: usize, target: &Path, beside: &Path) -> Result<Option<u64>> {
        let shard = &self.shards.shards[number];
        let path = target.join(&shard.output);
        if let Ok(metadata) = fs::symlink_metadata(&path) {
            return Ok(Some(metadata.len()));
        }
        let mut fates = self.open_fates(number, shard)?;
        shard.ensure_unchanged()?;
        if fates.is_dropped() {
            return Ok(None);
        }
        let temporary = beside.join(format!("{number}.partial"));
        let failed = |error| Error::io(temporary.display(), error);
        let mut file = File::create(&temporary).map_err(failed)?;
        rewrite::rewrite(
            &shard.entry,
            shard.form,
            self.reading,
            &mut fates,
            &mut file,
        )?;
        fates.ensure_all_used()?;
        shard.ensure_unchanged()?;
        // What was private stays private.
        let mode = shard.entry.open().and_then(|file| file.metadata());
        let mode = mode.map_err(failed)?.permissions();
        file.set_permissions(mode).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        durable::create_dir_all(durable::parent_of(&path))?;
        durable::rename(&temporary, &path)?;
        Ok(Some(bytes))
    }

    /// Writes the records of all shards, one after the other, unpacked. All must be lines.
    pub fn write_to_pipe(&self, out: &mut (dyn Write + Send)) -> Result<WrittenShards> {
        let mut out = LineEnds {
            out,
            last: b'\n',
            bytes: 0,
        };
        for (number, shard) in self.shards.shards.iter().enumerate() {
            let mut fates = self.open_fates(number, shard)?;
            let form = rewrite::ShardForm {
                packing: Packing::Plain,
                ..shard.form
            };
            rewrite::rewrite(&shard.entry, form, self.reading, &mut fates, &mut out)?;
            fates.ensure_all_used()?;
            out.end_line().map_err(Error::output)?;
        }
        out.flush().map_err(Error::output)?;
        Ok(WrittenShards {
            shards: self.shards.shards.len().to_u64(),
            bytes: out.bytes,
        })
    }

    fn open_fates<'s>(&self, number: usize, shard: &'s Shard) -> Result<ShardFates<'s>> {
        let range = self.ranges.get(number);
        ShardFates::open(self.fates, shard, range, self.annotates)
    }
}

/// Counts bytes, and ends the last line.
struct LineEnds<'o> {
    out: &'o mut (dyn Write + Send),
    last: u8,
    bytes: u64,
}

impl LineEnds<'_> {
    /// The next file must not go on in the last line of this one.
    fn end_line(&mut self) -> io::Result<()> {
        if self.last == b'\n' {
            return Ok(());
        }
        self.write_all(b"\n")
    }
}

impl Write for LineEnds<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.bytes += count.to_u64();
        self.last = bytes[..count].last().copied().unwrap_or(self.last);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Refuses shards whose records are not lines: those of several cannot follow each other in a pipe.
pub fn ensure_lines(shards: &ShardList) -> Result<()> {
    let is_lines = |shard: &Shard| {
        matches!(
            shard.form.content,
            rewrite::ShardContent::Records {
                records: Records::Ndjson | Records::Lines,
                ..
            }
        )
    };
    match shards.shards.iter().find(|shard| !is_lines(shard)) {
        None => Ok(()),
        Some(shard) => Err(Error::Usage(format!(
            "{}: not lines, which is what a pipe takes; give a directory for the output",
            shard.entry.name()
        ))),
    }
}
