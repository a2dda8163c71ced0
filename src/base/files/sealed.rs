//! Files of an index: written once, mapped by readers, every byte under a checksum.
//!
//! ```text
//! magic | body … | description (JSON) | a checksum for each 16 KiB of all that | footer
//! ```
//!
//! The footer is read when the file is opened; a block is checked when it is first touched. So opening costs the same
//! for any size, and every reader notices a flipped byte.

use crate::base::num::{ToU64, ToUsize};
use crate::base::{
    codec::checksum,
    error::{Error, Place, Result},
    files::Mapping,
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    fs::File,
    io::{self, Write},
    ops::Range,
    os::unix::fs::FileExt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// What every file of an index starts with; the last two bytes reveal a copy in text mode.
const MAGIC: [u8; 8] = *b"\x89DEDIX\r\n";
/// The version of the format.
pub const VERSION: u64 = 1;
const BLOCK_BYTES: usize = 1 << 14;
/// Body, description, version, checksum of the checksums, checksum of the four numbers before.
const FOOTER_BYTES: usize = 40;

/// Writes a sealed file. It has its final name at once: readers open only files that a manifest names.
pub struct SealedWriter<W> {
    out: W,
    block: Vec<u8>,
    checksums: Vec<u64>,
    written: u64,
}

impl SealedWriter<io::BufWriter<File>> {
    /// Creates the file.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::new(io::BufWriter::with_capacity(1 << 18, File::create(path)?))
    }
}

impl<W: Write> SealedWriter<W> {
    /// Writes the magic bytes.
    pub fn new(out: W) -> io::Result<Self> {
        let mut writer = Self {
            out,
            block: Vec::with_capacity(BLOCK_BYTES),
            checksums: Vec::new(),
            written: 0,
        };
        writer.write_all(&MAGIC)?;
        Ok(writer)
    }

    /// Where the next byte goes.
    pub fn position(&self) -> u64 {
        self.written
    }

    /// Adds the description and the footer, and returns the output.
    pub fn finish(mut self, description: &impl Serialize) -> io::Result<W> {
        let described = self.written;
        self.write_all(&serde_json::to_vec(description)?)?;
        if !self.block.is_empty() {
            self.end_block()?;
        }
        let sums: Vec<u8> = self
            .checksums
            .iter()
            .flat_map(|sum| sum.to_le_bytes())
            .collect();
        let mut footer: Vec<u8> = [self.written, described, VERSION, checksum(&sums)]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        footer.extend_from_slice(&checksum(&footer).to_le_bytes());
        self.out.write_all(&sums)?;
        self.out.write_all(&footer)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn end_block(&mut self) -> io::Result<()> {
        self.checksums.push(checksum(&self.block));
        self.out.write_all(&self.block)?;
        self.block.clear();
        Ok(())
    }
}

impl<W: Write> Write for SealedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(BLOCK_BYTES - self.block.len());
        self.block.extend_from_slice(&bytes[..taken]);
        self.written += taken.to_u64();
        if self.block.len() == BLOCK_BYTES {
            self.end_block()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A sealed file that is mapped; each block is checked on its first use.
pub struct Sealed {
    map: Mapping,
    file: Arc<str>,
    body: usize,
    description: Range<usize>,
    /// A bit for each block whose checksum was verified.
    checked: Vec<AtomicU64>,
}

impl Sealed {
    /// Maps a file and checks its footer.
    pub fn open(path: &Path) -> Result<Self> {
        let name: Arc<str> = path.display().to_string().into();
        let file = File::open(path).map_err(|error| Error::io(&name, error))?;
        // Files of an index are never changed once a manifest names them; a writer makes new ones.
        let map = Mapping::of(&file, path).map_err(|error| Error::io(&name, error))?;
        let mut sealed = Self {
            map,
            file: name,
            body: 0,
            description: 0..0,
            checked: Vec::new(),
        };
        sealed.read_footer()?;
        Ok(sealed)
    }

    fn read_footer(&mut self) -> Result<()> {
        let short = || self.damaged(0, "not a file of a dedup index, or cut");
        let at = self.map.len().checked_sub(FOOTER_BYTES).ok_or_else(short)?;
        let [body, described, version, sums, own] = words(&self.map[at..]);
        if !self.map.starts_with(&MAGIC) || checksum(&self.map[at..at + FOOTER_BYTES - 8]) != own {
            return Err(short());
        }
        if version != VERSION {
            return Err(self.damaged(
                at.to_u64() + 16,
                format!("version {version}, this program reads version {VERSION}"),
            ));
        }
        let blocks = body.div_ceil(BLOCK_BYTES.to_u64());
        if body < described
            || blocks
                .checked_mul(8)
                .and_then(|bytes| bytes.checked_add(body))
                != Some(at.to_u64())
        {
            return Err(self.damaged(
                at.to_u64(),
                "the footer does not fit the file's size; the file was cut or joined",
            ));
        }
        if checksum(&self.map[body.to_usize()..at]) != sums {
            return Err(self.damaged(
                body,
                "the checksums do not match their own checksum; the file was altered",
            ));
        }
        self.body = body.to_usize();
        self.description = described.to_usize()..body.to_usize();
        self.checked = (0..blocks.div_ceil(64))
            .map(|_| AtomicU64::new(0))
            .collect();
        Ok(())
    }

    /// The path, for messages.
    pub fn name(&self) -> &Arc<str> {
        &self.file
    }

    /// Bytes of the whole file.
    pub fn file_bytes(&self) -> u64 {
        self.map.len().to_u64()
    }

    /// Identifies the content of the file: the checksum over the checksums of all blocks.
    pub fn seal(&self) -> String {
        let [own] = words(&self.map[self.map.len() - 8..]);
        format!("{own:016x}")
    }

    /// The description that the writer gave.
    pub fn describe<T: DeserializeOwned>(&self) -> Result<T> {
        let json = self.bytes(
            self.description.start.to_u64(),
            self.description.len().to_u64(),
        )?;
        serde_json::from_slice(json).map_err(|error| {
            self.damaged(
                self.description.start.to_u64(),
                format!("the file is whole, but another version of dedup made it: {error}"),
            )
        })
    }

    /// Bytes of the body, after checking their blocks.
    #[inline(always)]
    pub fn bytes(&self, start: u64, length: u64) -> Result<&[u8]> {
        // Nearly always the bytes lie in one block that was checked before.
        let (block, last) = (
            start / BLOCK_BYTES.to_u64(),
            start.wrapping_add(length).wrapping_sub(1),
        );
        if last / BLOCK_BYTES.to_u64() == block
            && last < self.body.to_u64()
            && start <= last
            && self.is_checked(block.to_usize())
        {
            return Ok(&self.map[start.to_usize()..=last.to_usize()]);
        }
        self.bytes_of_blocks(start, length)
    }

    fn bytes_of_blocks(&self, start: u64, length: u64) -> Result<&[u8]> {
        let end = start
            .checked_add(length)
            .filter(|&end| end <= self.body.to_u64());
        let Some(end) = end else {
            return Err(self.too_short(start, length));
        };
        let (start, end) = (start.to_usize(), end.to_usize());
        for block in blocks_of(start, end) {
            self.ensure_block(block)?;
        }
        Ok(&self.map[start..end])
    }

    #[cold]
    fn too_short(&self, start: u64, length: u64) -> Error {
        self.damaged(
            start,
            format!("{length} bytes are expected here, the file is too short"),
        )
    }

    /// Reads bytes of the body with pread, after checking their blocks: rarely used bytes should not
    /// stay mapped.
    pub fn read_from(&self, file: &File, start: u64, bytes: &mut [u8]) -> Result<()> {
        let end = start
            .checked_add(bytes.len().to_u64())
            .filter(|&end| end <= self.body.to_u64());
        let Some(end) = end else {
            return Err(self.too_short(start, bytes.len().to_u64()));
        };
        for block in blocks_of(start.to_usize(), end.to_usize()) {
            if !self.is_checked(block) {
                let mut whole = vec![0; self.block_range(block).len()];
                self.read_exact(file, self.block_range(block).start.to_u64(), &mut whole)?;
                self.check(block, &whole)?;
            }
        }
        self.read_exact(file, start, bytes)
    }

    fn read_exact(&self, file: &File, start: u64, bytes: &mut [u8]) -> Result<()> {
        file.read_exact_at(bytes, start)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => self.damaged(
                    start,
                    "file was truncated while in use; restore it from a copy, or make it again",
                ),
                _ => Error::io(&self.file, error),
            })
    }

    /// Touches offsets that will be read soon: faulting many pages at once takes little longer than one.
    pub fn touch(&self, places: impl Iterator<Item = u64>) {
        let fetched = places.fold(0, |sum, at| {
            sum ^ self.map.get(at.to_usize()).copied().unwrap_or_default()
        });
        // Keeps the compiler from removing the reads.
        std::hint::black_box(fetched);
    }

    /// Prefetches an offset into the cache.
    #[inline(always)]
    pub fn prefetch(&self, at: u64) {
        prefetch(&self.map, at);
    }

    /// Releases the mapped memory; bytes that are read again are mapped again.
    pub fn release(&self) {
        self.map.release(0..self.map.len());
    }

    /// The same, of some bytes only.
    pub fn release_bytes(&self, bytes: Range<u64>) {
        self.map
            .release(bytes.start.to_usize()..bytes.end.to_usize());
    }

    /// Checks every block.
    pub fn verify(&self) -> Result<()> {
        self.verify_and(|| ())
    }

    /// The same, and calls after each block.
    pub fn verify_and(&self, call: impl Fn()) -> Result<()> {
        (0..self.body.div_ceil(BLOCK_BYTES))
            .try_for_each(|block| self.ensure_block(block).map(|()| call()))
    }

    #[inline(always)]
    fn ensure_block(&self, block: usize) -> Result<()> {
        if self.is_checked(block) {
            Ok(())
        } else {
            self.check_block(block)
        }
    }

    #[inline(always)]
    fn is_checked(&self, block: usize) -> bool {
        self.checked[block / 64].load(Ordering::Relaxed) & 1 << (block % 64) != 0
    }

    #[cold]
    fn check_block(&self, block: usize) -> Result<()> {
        self.check(block, &self.map[self.block_range(block)])
    }

    fn block_range(&self, block: usize) -> Range<usize> {
        block * BLOCK_BYTES..self.body.min((block + 1) * BLOCK_BYTES)
    }

    fn check(&self, block: usize, bytes: &[u8]) -> Result<()> {
        let [sum] = words(&self.map[self.body + 8 * block..]);
        if checksum(bytes) != sum {
            let what = format!(
                "a block of {} bytes does not match its checksum; the file was altered",
                bytes.len()
            );
            return Err(self.damaged(self.block_range(block).start.to_u64(), what));
        }
        self.checked[block / 64].fetch_or(1 << (block % 64), Ordering::Relaxed);
        Ok(())
    }

    /// An error at a byte of this file.
    pub fn damaged(&self, at: u64, what: impl Into<String>) -> Error {
        Error::damaged(Place::byte(&self.file, at), what)
    }
}

/// The blocks that hold some bytes.
#[inline(always)]
fn blocks_of(start: usize, end: usize) -> Range<usize> {
    start / BLOCK_BYTES..if start < end {
        (end - 1) / BLOCK_BYTES + 1
    } else {
        0
    }
}

fn words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    std::array::from_fn(|index| {
        u64::from_le_bytes(std::array::from_fn(|byte| bytes[8 * index + byte]))
    })
}

/// Prefetches one element of a slice into the cache.
#[inline(always)]
pub fn prefetch<T>(many: &[T], at: u64) {
    #[cfg(target_arch = "x86_64")]
    if let Some(one) = many.get(at.to_usize()) {
        // SAFETY: a hint, and the address is that of one of them.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
                std::ptr::from_ref(one).cast(),
            )
        };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (many, at);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, path::PathBuf};

    fn sealed(content: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let mut writer = SealedWriter::create(&path).unwrap();
        writer.write_all(content).unwrap();
        assert_eq!(writer.position(), 8 + content.len().to_u64());
        writer.finish(&vec![1, 2, 3]).unwrap();
        (directory, path)
    }

    #[test]
    fn content_is_read_back_as_written() {
        for length in [0, 1, BLOCK_BYTES - 8, BLOCK_BYTES, 3 * BLOCK_BYTES + 17] {
            let content: Vec<u8> = (0..length).map(|n| (n * 7) as u8).collect();
            let (_directory, path) = sealed(&content);
            let file = Sealed::open(&path).unwrap();
            assert_eq!(file.bytes(8, length.to_u64()).unwrap(), content);
            assert_eq!(file.describe::<Vec<u8>>().unwrap(), [1, 2, 3]);
            let (plain, mut read) = (File::open(&path).unwrap(), vec![0; length]);
            Sealed::open(&path)
                .unwrap()
                .read_from(&plain, 8, &mut read)
                .unwrap();
            assert_eq!(read, content);
            assert!(
                file.read_from(&plain, 9 + length.to_u64() + 100, &mut [0])
                    .is_err()
            );
            file.verify().unwrap();
            assert!(
                file.bytes(8, length.to_u64() + 100).is_err() && file.bytes(u64::MAX, 2).is_err()
            );
        }
    }

    /// Reading without the mapping checks as well.
    #[test]
    fn bytes_read_without_mapping_are_checked() {
        let (_directory, path) = sealed(b"some content");
        let mut bytes = fs::read(&path).unwrap();
        bytes[10] ^= 1;
        fs::write(&path, bytes).unwrap();
        let error = Sealed::open(&path)
            .unwrap()
            .read_from(&File::open(&path).unwrap(), 9, &mut [0; 2])
            .unwrap_err();
        assert!(
            error.to_string().contains("does not match its checksum"),
            "{error}"
        );
    }

    #[test]
    fn every_flipped_byte_and_every_cut_is_detected() {
        let (_directory, path) = sealed(b"some content");
        let bytes = fs::read(&path).unwrap();
        let is_refused = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            Sealed::open(&path).and_then(|file| file.verify()).is_err()
        };
        for at in 0..bytes.len() {
            let mut altered = bytes.clone();
            altered[at] ^= 1 << (at % 8);
            assert!(is_refused(&altered), "{at}");
            assert!(is_refused(&bytes[..at]), "{at}");
        }
        assert!(is_refused(&[bytes.clone(), bytes].concat()));
    }
}
