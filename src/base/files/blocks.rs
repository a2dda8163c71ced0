//! Large blocks of memory, of which those beyond a limit are mapped from temporary files: see
//! [`SpillingAllocator`](super::SpillingAllocator).
//!
//! Nothing here may allocate once a limit is set: it runs inside of the allocator.

use super::{heap::Heap, temp::TempDir};
use crate::base::error::Error;
use std::{
    alloc::{GlobalAlloc, Layout},
    ffi::CString,
    io,
    os::unix::ffi::OsStrExt,
    path::Path,
    ptr,
    sync::{
        OnceLock,
        atomic::{AtomicI32, AtomicUsize, Ordering},
    },
};

/// Smaller blocks are left to the system.
pub const LEAST_BYTES: usize = 1 << 16;
/// Only blocks from this size on go to files, or from a smaller one where memory is very small.
const SPILLED_BYTES: usize = 4 << 20;
/// A block is large if it takes at least one in this many bytes of the limit.
const LARGE_SHARE: usize = 128;
/// Large blocks take at most one in this many bytes of the limit; the rest is for postings, for
/// documents that are being read, and for all that is small.
const BLOCKS_SHARE: usize = 4;
/// Mappings start at a multiple of this.
const PAGE_BYTES: usize = 1 << 12;
/// The most blocks in files: each has an open file, and a process may have 1024.
const MOST_FILES: usize = 512;
/// The start of a slot whose block is being made.
const RESERVED: usize = 1;

/// A block in a file; `start` is 0 if the slot is free.
struct FileBlock {
    start: AtomicUsize,
    file: AtomicI32,
}

/// The large blocks of a process.
pub struct Blocks {
    /// Bytes of blocks in memory.
    in_memory: AtomicUsize,
    limits: OnceLock<BlockLimits>,
    files: [FileBlock; MOST_FILES],
    /// Slots from here on were never used.
    used_slots: AtomicUsize,
    /// The number of the last error of the system; 0 if there was none.
    failure: AtomicI32,
}

struct BlockLimits {
    large_bytes: usize,
    blocks_bytes: usize,
    own_bytes: usize,
    directory: CString,
    /// The directory and a name, whose end is to be replaced: for file systems without files that
    /// have no name.
    template: CString,
    /// Where the system says how much memory the process has.
    statm: libc::c_int,
    page_bytes: usize,
}

impl BlockLimits {
    fn new(memory_bytes: u64, directory: &Path) -> Option<Self> {
        let memory = usize::try_from(memory_bytes).unwrap_or(usize::MAX);
        let template = directory.join("dedup-XXXXXX");
        // SAFETY: the path ends with a zero.
        let statm = unsafe {
            libc::open(
                c"/proc/self/statm".as_ptr(),
                libc::O_RDONLY | libc::O_CLOEXEC,
            )
        };
        // SAFETY: takes a number only.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        Some(Self {
            large_bytes: (memory / LARGE_SHARE).clamp(LEAST_BYTES, SPILLED_BYTES),
            blocks_bytes: memory / BLOCKS_SHARE,
            own_bytes: memory - memory / BLOCKS_SHARE,
            directory: CString::new(directory.as_os_str().as_bytes()).ok()?,
            template: CString::new(template.as_os_str().as_bytes()).ok()?,
            statm,
            page_bytes: usize::try_from(page_bytes).unwrap_or(PAGE_BYTES),
        })
    }

    /// The memory of the process that belongs to no file.
    fn own_memory(&self) -> usize {
        let mut text = [0_u8; 128];
        // SAFETY: the buffer has this length.
        let length = unsafe { libc::pread(self.statm, text.as_mut_ptr().cast(), text.len(), 0) };
        let text = &text[..usize::try_from(length).unwrap_or(0)];
        let mut numbers = text.split(|&byte| byte == b' ').map(|digits| {
            digits
                .iter()
                .filter(|digit| digit.is_ascii_digit())
                .fold(0, |number: usize, digit| {
                    number.saturating_mul(10) + usize::from(digit - b'0')
                })
        });
        // Size, resident pages, resident pages of files.
        let resident = numbers.nth(1).unwrap_or(0);
        let of_files = numbers.next().unwrap_or(0);
        resident.saturating_sub(of_files) * self.page_bytes
    }

    /// A new file, of no length and without a name.
    fn file(&self) -> io::Result<libc::c_int> {
        let how = libc::O_TMPFILE | libc::O_RDWR | libc::O_EXCL | libc::O_CLOEXEC;
        // SAFETY: the path ends with a zero.
        let file = unsafe { libc::open(self.directory.as_ptr(), how, 0o600) };
        if file >= 0 {
            return Ok(file);
        }
        let mut name = [0_u8; libc::PATH_MAX as usize];
        let template = self.template.to_bytes_with_nul();
        let Some(name) = name.get_mut(..template.len()) else {
            return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
        };
        name.copy_from_slice(template);
        // SAFETY: the name ends with six X and a zero, and is ours to change.
        let file = unsafe { libc::mkostemp(name.as_mut_ptr().cast(), libc::O_CLOEXEC) };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the name ends with a zero.
        unsafe { libc::unlink(name.as_ptr().cast()) };
        Ok(file)
    }
}

impl Blocks {
    pub const fn new() -> Self {
        Self {
            in_memory: AtomicUsize::new(0),
            limits: OnceLock::new(),
            files: [const {
                FileBlock {
                    start: AtomicUsize::new(0),
                    file: AtomicI32::new(-1),
                }
            }; MOST_FILES],
            used_slots: AtomicUsize::new(0),
            failure: AtomicI32::new(0),
        }
    }

    pub fn limit(&self, memory_bytes: u64, directory: &TempDir) {
        if self.limits.get().is_none()
            && let Some(limits) = BlockLimits::new(memory_bytes, &directory.path())
        {
            let _ = self.limits.set(limits);
        }
    }

    pub fn failure(&self) -> Option<Error> {
        let number = self.failure.load(Ordering::Relaxed);
        let directory = self.limits.get()?.directory.to_string_lossy();
        (number != 0).then(|| Error::io(directory, io::Error::from_raw_os_error(number)))
    }

    /// How many blocks are in files.
    #[cfg(test)]
    pub fn file_blocks(&self) -> usize {
        let starts = self.files.iter();
        starts
            .filter(|block| block.start.load(Ordering::Acquire) > RESERVED)
            .count()
    }

    /// Where a block that grows by `more` to `bytes` must go to a file.
    fn limits_exceeded_by(&self, bytes: usize, more: usize) -> Option<&BlockLimits> {
        self.limits.get().filter(|limits| {
            bytes >= limits.large_bytes
                && (self.in_memory.load(Ordering::Relaxed).saturating_add(more)
                    > limits.blocks_bytes
                    || limits.own_memory().saturating_add(more) > limits.own_bytes)
        })
    }

    #[inline(never)]
    pub fn alloc(&self, layout: Layout, in_memory: impl Fn() -> *mut u8) -> *mut u8 {
        let bytes = layout.size();
        if let Some(limits) = self.limits_exceeded_by(bytes, bytes)
            && layout.align() <= PAGE_BYTES
            && let Some(block) = self.block_in_file(limits, bytes)
        {
            return block;
        }
        let block = in_memory();
        if !block.is_null() {
            self.in_memory.fetch_add(bytes, Ordering::Relaxed);
        }
        block
    }

    /// Frees a block if it is in a file.
    #[inline(never)]
    pub fn dealloc(&self, block: *mut u8, bytes: usize) -> bool {
        let Some(slot) = self.slot_of(block) else {
            self.in_memory.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        };
        let file = slot.file.load(Ordering::Relaxed);
        slot.start.store(0, Ordering::Release);
        // SAFETY: the caller frees the block, whose mapping and file are ours.
        unsafe {
            libc::munmap(block.cast(), bytes);
            libc::close(file);
        }
        true
    }

    /// # Safety
    ///
    /// As for [`GlobalAlloc::realloc`].
    #[inline(never)]
    pub unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let old_bytes = layout.size();
        let slot = self.slot_of(block);
        if let Some(slot) = slot
            && bytes >= LEAST_BYTES
            && let Some(moved) = self.resize(slot, block, old_bytes, bytes)
        {
            return moved;
        }
        let more = bytes.saturating_sub(old_bytes);
        let spills = slot.is_none()
            && more > 0
            && layout.align() <= PAGE_BYTES
            && self.limits_exceeded_by(bytes, more).is_some();
        if slot.is_some() || spills {
            // SAFETY: the caller gave a valid layout and a new size for it.
            return unsafe { self.replace(block, layout, bytes) };
        }
        // SAFETY: the block is one of the system.
        let moved = unsafe { Heap.realloc(block, layout, bytes) };
        if !moved.is_null() {
            self.count_in_memory(old_bytes, bytes);
        }
        moved
    }

    /// A block in memory has another size now.
    fn count_in_memory(&self, old_bytes: usize, bytes: usize) {
        let counted = |bytes: usize| if bytes < LEAST_BYTES { 0 } else { bytes };
        self.in_memory.fetch_add(counted(bytes), Ordering::Relaxed);
        self.in_memory
            .fetch_sub(counted(old_bytes), Ordering::Relaxed);
    }

    /// Copies a block into a new one.
    unsafe fn replace(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the layout is valid with the new size, as the caller ensures; blocks do not overlap, and have at least these bytes.
        unsafe {
            let new = Layout::from_size_align_unchecked(bytes, layout.align());
            let moved = if bytes < LEAST_BYTES {
                Heap.alloc(new)
            } else {
                self.alloc(new, || Heap.alloc(new))
            };
            if !moved.is_null() {
                ptr::copy_nonoverlapping(block, moved, bytes.min(layout.size()));
                if layout.size() < LEAST_BYTES || !self.dealloc(block, layout.size()) {
                    Heap.dealloc(block, layout);
                }
            }
            moved
        }
    }

    fn slot_of(&self, block: *mut u8) -> Option<&FileBlock> {
        let start = block.addr();
        if !start.is_multiple_of(PAGE_BYTES) {
            return None;
        }
        self.files[..self.used_slots.load(Ordering::Acquire)]
            .iter()
            .find(|slot| slot.start.load(Ordering::Acquire) == start)
    }

    /// A new block of zeros in a file; none if that fails.
    fn block_in_file(&self, limits: &BlockLimits, bytes: usize) -> Option<*mut u8> {
        let is_free = |slot: &FileBlock| {
            slot.start
                .compare_exchange(0, RESERVED, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        };
        let Some(number) = self.files.iter().position(is_free) else {
            self.failure.store(libc::EMFILE, Ordering::Relaxed);
            return None;
        };
        self.used_slots.fetch_max(number + 1, Ordering::AcqRel);
        let slot = &self.files[number];
        let made = limits.file().and_then(|file| {
            map(file, bytes)
                .map(|block| (file, block))
                // SAFETY: the file is ours.
                .inspect_err(|_| unsafe {
                    libc::close(file);
                })
        });
        match made {
            Ok((file, block)) => {
                slot.file.store(file, Ordering::Relaxed);
                slot.start.store(block.addr(), Ordering::Release);
                Some(block)
            }
            Err(error) => {
                slot.start.store(0, Ordering::Release);
                self.remember(&error);
                None
            }
        }
    }

    fn remember(&self, error: &io::Error) {
        self.failure
            .store(error.raw_os_error().unwrap_or(libc::EIO), Ordering::Relaxed);
    }

    /// Changes the length of a block in a file, which may move; none if the disk is full.
    fn resize(
        &self,
        slot: &FileBlock,
        block: *mut u8,
        old_bytes: usize,
        bytes: usize,
    ) -> Option<*mut u8> {
        let file = slot.file.load(Ordering::Relaxed);
        if let Err(error) = reserve(file, old_bytes, bytes) {
            self.remember(&error);
            return None;
        }
        // Once it has moved, its old address may be that of another block.
        slot.start.store(RESERVED, Ordering::Release);
        // SAFETY: the mapping is ours, has the old length, and nothing refers to it but the caller.
        let moved = unsafe { libc::mremap(block.cast(), old_bytes, bytes, libc::MREMAP_MAYMOVE) };
        if moved == libc::MAP_FAILED {
            slot.start.store(block.addr(), Ordering::Release);
            self.remember(&io::Error::last_os_error());
            return None;
        }
        slot.start.store(moved.addr(), Ordering::Release);
        if bytes < old_bytes {
            // SAFETY: takes numbers only; what is cut off is not mapped any more.
            unsafe { libc::ftruncate(file, bytes as libc::off_t) };
        }
        Some(moved.cast())
    }
}

/// Maps this many bytes of a new file.
fn map(file: libc::c_int, bytes: usize) -> io::Result<*mut u8> {
    reserve(file, 0, bytes)?;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping of a file that nothing else knows.
    let block = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            protection,
            libc::MAP_SHARED,
            file,
            0,
        )
    };
    if block == libc::MAP_FAILED {
        Err(io::Error::last_os_error())
    } else {
        Ok(block.cast())
    }
}

/// Takes the space of a longer file: were it taken by the first write to a page, a full disk would
/// end the process.
fn reserve(file: libc::c_int, old_bytes: usize, bytes: usize) -> io::Result<()> {
    if bytes <= old_bytes {
        return Ok(());
    }
    let more = bytes - old_bytes;
    // SAFETY: takes numbers only.
    let failed =
        unsafe { libc::fallocate(file, 0, old_bytes as libc::off_t, more as libc::off_t) != 0 };
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        _ if !failed => Ok(()),
        Some(libc::EINTR) => reserve(file, old_bytes, bytes),
        Some(libc::EOPNOTSUPP) => write_zeros(file, old_bytes, bytes),
        _ => Err(error),
    }
}

fn write_zeros(file: libc::c_int, mut from: usize, to: usize) -> io::Result<()> {
    static ZEROS: [u8; LEAST_BYTES] = [0; LEAST_BYTES];
    while from < to {
        let length = ZEROS.len().min(to - from);
        // SAFETY: the buffer has at least this length.
        let written =
            unsafe { libc::pwrite(file, ZEROS.as_ptr().cast(), length, from as libc::off_t) };
        if written <= 0 {
            return Err(io::Error::last_os_error());
        }
        from += written.unsigned_abs();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the allocator does.
    unsafe fn release(blocks: &Blocks, block: *mut u8, layout: Layout) {
        if layout.size() < LEAST_BYTES || !blocks.dealloc(block, layout.size()) {
            // SAFETY: as the caller ensures.
            unsafe { Heap.dealloc(block, layout) }
        }
    }

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, 16).unwrap()
    }

    fn limited(memory_bytes: u64, directory: &Path) -> Box<Blocks> {
        let blocks = Box::new(Blocks::new());
        blocks.limit(memory_bytes, &TempDir(Some(directory.to_owned())));
        blocks
    }

    #[test]
    fn blocks_beyond_the_limit_are_in_files_and_keep_their_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let blocks = limited(1 << 20, directory.path());
        let mut made = Vec::new();
        for number in 0..20_u8 {
            let layout = layout(LEAST_BYTES + usize::from(number) * 5000);
            // SAFETY: a valid layout; a new block is written within its length.
            unsafe {
                let block = blocks.alloc(layout, || Heap.alloc_zeroed(layout));
                let bytes = std::slice::from_raw_parts_mut(block, layout.size());
                assert!(bytes.iter().all(|&byte| byte == 0));
                bytes.fill(number);
                made.push((block, layout, number));
            }
        }
        assert!(blocks.file_blocks() > 10);
        assert!(
            std::fs::read_dir(directory.path())
                .unwrap()
                .next()
                .is_none()
        );
        for sizes in [[300_000, 900_000], [70_000, 1_000], [65_536, 2_000_000]] {
            for (place, (block, old, number)) in made.iter_mut().enumerate() {
                let size = sizes[place % 2] + place;
                // SAFETY: the block has this layout, and the new one has this size.
                unsafe {
                    *block = if old.size().max(size) < LEAST_BYTES {
                        Heap.realloc(*block, *old, size)
                    } else {
                        blocks.realloc(*block, *old, size)
                    };
                    let bytes = std::slice::from_raw_parts_mut(*block, size);
                    let kept = old.size().min(size);
                    assert!(bytes[..kept].iter().all(|byte| byte == number));
                    bytes.fill(*number);
                }
                *old = layout(size);
            }
            assert!(blocks.in_memory.load(Ordering::Relaxed) <= 1 << 18);
        }
        for (block, layout, _) in made {
            // SAFETY: the block has this layout.
            unsafe { release(&blocks, block, layout) }
        }
        assert_eq!(blocks.file_blocks(), 0);
        assert_eq!(blocks.in_memory.load(Ordering::Relaxed), 0);
        assert!(blocks.failure().is_none());
    }

    #[test]
    fn without_a_place_for_files_blocks_stay_in_memory_and_the_reason_is_kept() {
        let blocks = limited(1 << 20, Path::new("/missing directory"));
        let layout = layout(8 << 20);
        // SAFETY: a valid layout.
        unsafe {
            let block = blocks.alloc(layout, || Heap.alloc(layout));
            block.add(layout.size() - 1).write(1);
            release(&blocks, block, layout);
        }
        assert_eq!(blocks.file_blocks(), 0);
        let failure = blocks.failure().unwrap().to_string();
        assert!(
            failure.starts_with("/missing directory: No such file"),
            "{failure}"
        );
    }

    #[test]
    fn without_a_limit_all_blocks_are_in_memory() {
        let blocks = Box::new(Blocks::new());
        let layout = layout(8 << 20);
        // SAFETY: a valid layout.
        unsafe {
            let block = blocks.alloc(layout, || Heap.alloc(layout));
            release(&blocks, block, layout);
        }
        assert!(blocks.failure().is_none());
    }
}
