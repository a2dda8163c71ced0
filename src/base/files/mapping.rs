//! Memory-mapped files, and which file an address belongs to.
//!
//! If a mapped file is truncated, the next access past its new end raises SIGBUS, which ends the program
//! without a message. Each mapping is therefore registered with the name of its file: a signal handler
//! finds it by the address of the fault ([`Mapped::at`]) and reports it.
//!
//! Within the last page of the truncated file there is no signal: the bytes that were cut off read as
//! zeros. The last bytes of each file are therefore remembered, and [`ensure_whole`] compares them before
//! results are returned.

use crate::base::error::{Error, Place, Result};
use memmap2::{Mmap, UncheckedAdvice};
use std::{
    ffi::{CStr, CString, OsStr},
    fs::File,
    io,
    ops::{Deref, Range},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    ptr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering},
    },
};

/// A file as memory. It must not be changed while it is mapped.
#[derive(Debug)]
pub struct Mapping {
    // Dropped in this order: the slot, the memory, the name.
    _slot: SlotGuard,
    map: Mmap,
    _name: CString,
}

impl Mapping {
    /// Maps all of a file; messages call it `name`.
    pub fn of(file: &File, name: &Path) -> io::Result<Self> {
        // SAFETY: no process writes to what we map: files of an index or a history are never changed once they are whole, and temporary files
        // have no name. If another program truncates one all the same, the fault is reported, not survived.
        let map = unsafe { Mmap::map(file) }?;
        Ok(Self::register(map, name, true))
    }

    /// Maps an unnamed file in `directory`, whose space is freed while it is read.
    pub fn of_temporary(file: &File, directory: &Path) -> io::Result<Self> {
        // SAFETY: as above.
        let map = unsafe { Mmap::map(file) }?;
        Ok(Self::register(
            map,
            &directory.join("a temporary file"),
            false,
        ))
    }

    fn register(map: Mmap, name: &Path, has_fixed_end: bool) -> Self {
        let name = CString::new(name.as_os_str().as_bytes()).unwrap_or_default();
        Self {
            _slot: SlotGuard::add(&map, &name, has_fixed_end),
            map,
            _name: name,
        }
    }

    /// Releases the memory of some bytes; they are read from the file again when they are used.
    pub fn release(&self, bytes: Range<usize>) {
        let end = bytes.end.min(self.map.len());
        if let Some(length) = end.checked_sub(bytes.start) {
            // SAFETY: pages of a file that is mapped for reading only come back as they were.
            let _ = unsafe {
                self.map
                    .unchecked_advise_range(UncheckedAdvice::DontNeed, bytes.start, length)
            };
        }
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}

/// A slot in the table of mappings; `start` is 0 if it is free.
#[derive(Debug)]
struct Slot {
    start: AtomicUsize,
    length: AtomicUsize,
    name: AtomicPtr<libc::c_char>,
    /// The last eight bytes, and whether they stay as they are: 0 or 1.
    end: AtomicU64,
    has_fixed_end: AtomicUsize,
}

impl Slot {
    const fn free() -> Self {
        Self {
            start: AtomicUsize::new(0),
            length: AtomicUsize::new(0),
            name: AtomicPtr::new(ptr::null_mut()),
            end: AtomicU64::new(0),
            has_fixed_end: AtomicUsize::new(0),
        }
    }

    /// The file, if its last bytes have changed. The caller holds [`CHANGING`] or owns the slot, so that the
    /// file stays mapped.
    fn truncated(&self) -> Option<PathBuf> {
        let (start, length) = (
            self.start.load(Ordering::Acquire),
            self.length.load(Ordering::Relaxed),
        );
        if start == 0 || length < 8 || self.has_fixed_end.load(Ordering::Relaxed) == 0 {
            return None;
        }
        // SAFETY: the mapping has this length, and the name lives as long as the mapping.
        let (end, name) = unsafe {
            (
                read_end(start, length),
                CStr::from_ptr(self.name.load(Ordering::Relaxed)),
            )
        };
        (end != self.end.load(Ordering::Relaxed))
            .then(|| Path::new(OsStr::from_bytes(name.to_bytes())).to_owned())
    }
}

/// # Safety
///
/// `length` bytes must be mapped from `start`, at least eight.
unsafe fn read_end(start: usize, length: usize) -> u64 {
    // SAFETY: these bytes are mapped. Volatile, as something else may have changed them.
    unsafe { ((start + length - 8) as *const [u8; 8]).read_volatile() }
        .iter()
        .fold(0, |end, &byte| end << 8 | u64::from(byte))
}

const SLOTS: usize = 256;

/// A part of the table. Parts are added, never removed: a signal handler may be reading them, and it must not wait for a lock.
#[derive(Debug)]
struct SlotBlock {
    slots: [Slot; SLOTS],
    next: AtomicPtr<Self>,
}

impl SlotBlock {
    const fn new() -> Self {
        Self {
            slots: [const { Slot::free() }; SLOTS],
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn next(&self) -> Option<&'static Self> {
        // SAFETY: null, or a block that was leaked.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }
}

static TABLE: SlotBlock = SlotBlock::new();
/// Held by threads that take or free a slot, or read mapped bytes. The signal handler needs no lock.
static CHANGING: Mutex<()> = Mutex::new(());
/// The first file that was truncated when its mapping was dropped.
static TRUNCATED: Mutex<Option<PathBuf>> = Mutex::new(None);

fn blocks() -> impl Iterator<Item = &'static SlotBlock> {
    std::iter::successors(Some(&TABLE), |block| block.next())
}

/// The slot of a mapping; dropping it frees the slot.
#[derive(Debug)]
struct SlotGuard(&'static Slot);

impl SlotGuard {
    fn add(map: &Mmap, name: &CStr, has_fixed_end: bool) -> Self {
        let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        let free = blocks()
            .flat_map(|block| &block.slots)
            .find(|slot| slot.start.load(Ordering::Acquire) == 0);
        let slot = free.unwrap_or_else(|| {
            let added: &'static SlotBlock = Box::leak(Box::new(SlotBlock::new()));
            let last = blocks().last().unwrap_or(&TABLE);
            last.next
                .store(ptr::from_ref(added).cast_mut(), Ordering::Release);
            &added.slots[0]
        });
        slot.length.store(map.len(), Ordering::Relaxed);
        slot.name.store(name.as_ptr().cast_mut(), Ordering::Relaxed);
        slot.has_fixed_end
            .store(usize::from(has_fixed_end), Ordering::Relaxed);
        if map.len() >= 8 {
            // SAFETY: the mapping has this length.
            slot.end.store(
                unsafe { read_end(map.as_ptr() as usize, map.len()) },
                Ordering::Relaxed,
            );
        }
        slot.start.store(map.as_ptr() as usize, Ordering::Release);
        Self(slot)
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = self.0.truncated() {
            TRUNCATED
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get_or_insert(path);
        }
        self.0.start.store(0, Ordering::Release);
    }
}

/// Fails if a file was truncated while it was mapped: what was read from it cannot be trusted. Reads one
/// page of each mapped file.
pub fn ensure_whole() -> Result<()> {
    let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut before = TRUNCATED.lock().unwrap_or_else(PoisonError::into_inner);
    let truncated = before.take().or_else(|| {
        blocks()
            .flat_map(|block| &block.slots)
            .find_map(Slot::truncated)
    });
    match truncated {
        Some(path) => Err(Error::damaged(
            Place::path(&path),
            "file was truncated while in use; restore it from a copy, or make it again",
        )),
        None => Ok(()),
    }
}

/// The mapped file that an address lies in.
#[derive(Debug, Clone, Copy)]
pub struct Mapped {
    /// The name of the file.
    pub name: *const libc::c_char,
    /// The length of the mapping.
    pub bytes: usize,
}

impl Mapped {
    /// The mapping at an address that the calling thread is reading; none if no file is mapped there. Neither allocates nor waits, so that
    /// a signal handler may call it. The name is valid as long as the thread uses the mapping.
    pub fn at(address: usize) -> Option<Self> {
        let slot = blocks().flat_map(|block| &block.slots).find(|slot| {
            let start = slot.start.load(Ordering::Acquire);
            start != 0 && address >= start && address - start < slot.length.load(Ordering::Relaxed)
        })?;
        Some(Self {
            name: slot.name.load(Ordering::Relaxed),
            bytes: slot.length.load(Ordering::Relaxed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn name_at(address: usize) -> Option<String> {
        // SAFETY: the mapping that is looked for lives.
        Mapped::at(address).map(|mapped| {
            unsafe { CStr::from_ptr(mapped.name) }
                .to_str()
                .unwrap()
                .to_owned()
        })
    }

    #[test]
    fn each_mapping_is_found_by_its_addresses_as_long_as_it_lives() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 10_000]).unwrap();
        let maps: Vec<Mapping> = (0..3 * SLOTS)
            .map(|n| Mapping::of(&file, Path::new(&format!("file {n}"))).unwrap())
            .collect();
        let start = |n: usize| maps[n].as_ptr() as usize;
        for n in 0..maps.len() {
            assert_eq!(
                [0, 9_999].map(|at| name_at(start(n) + at).unwrap()),
                [format!("file {n}"), format!("file {n}")]
            );
        }
        assert_eq!(Mapped::at(start(5)).unwrap().bytes, 10_000);
        let addresses: Vec<usize> = (0..maps.len()).map(start).collect();
        maps[0].release(0..20_000);
        assert_eq!(maps[0][9_999], 7);
        drop(maps);
        assert!(
            addresses
                .into_iter()
                .all(|address| name_at(address).is_none_or(|name| !name.starts_with("file ")))
        );
        assert!(Mapped::at(ptr::from_ref(&TABLE) as usize).is_none());
    }

    #[test]
    fn an_empty_file_is_mapped_as_nothing() {
        assert!(
            Mapping::of(&tempfile::tempfile().unwrap(), Path::new("empty"))
                .unwrap()
                .is_empty()
        );
    }
}
