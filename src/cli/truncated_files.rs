//! Reports a mapped file that was truncated while it was in use.
//!
//! The access that finds the file too short gets SIGBUS, whose default action ends the program without a message. A handler looks up
//! which file was mapped there, names it on stderr, and ends the program with status 2. Faults at any other address keep their default action.

use crate::base::files::Mapped;
use std::{
    ffi::CString,
    mem::MaybeUninit,
    os::unix::ffi::OsStrExt,
    path::Path,
    ptr,
    sync::atomic::{AtomicBool, AtomicPtr, Ordering},
};

/// The name of the program, for messages; leaked.
static PROGRAM: AtomicPtr<libc::c_char> = AtomicPtr::new(ptr::null_mut());
/// The previous action of SIGBUS; leaked.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());
/// Temporary files that the program would remove at its end; leaked. There are two at most: results, and what was dropped.
static TEMPORARIES: [AtomicPtr<libc::c_char>; 4] = [const { AtomicPtr::new(ptr::null_mut()) }; 4];
/// Set by the first thread that reports, so that only one does.
static IS_REPORTED: AtomicBool = AtomicBool::new(false);

/// Installs the handler; before any other thread runs.
pub fn report_truncated_files(program: &str) {
    PROGRAM.store(
        CString::new(program).unwrap_or_default().into_raw(),
        Ordering::Release,
    );
    let before = Box::leak(Box::new(MaybeUninit::<libc::sigaction>::uninit()));
    // SAFETY: an all-zero sigaction is a valid one, and both structures live as long as the calls. The handler only does what a signal
    // handler may; it runs on the alternate stack that the standard library gives each thread.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_bus_error
            as extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void)
            as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        if libc::sigaction(libc::SIGBUS, ptr::null(), before.as_mut_ptr()) == 0 {
            BEFORE.store(before.as_mut_ptr(), Ordering::Release);
            libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut());
        }
    }
}

/// Removes a temporary file when the program ends this way.
pub fn remove_on_fault(path: &Path) {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return;
    };
    let path = path.into_raw();
    let is_free = |slot: &&AtomicPtr<_>| {
        slot.compare_exchange(ptr::null_mut(), path, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    };
    let _ = TEMPORARIES.iter().find(is_free);
}

/// Async-signal-safe: reads atomics, and calls stat, write, unlink, sigaction, raise, pause and _exit only.
extern "C" fn on_bus_error(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    // SAFETY: the system passes a valid siginfo; si_addr is set for a fault, whose code is positive.
    let fault = unsafe { ((*info).si_code > 0).then(|| (*info).si_addr() as usize) };
    match fault.and_then(Mapped::at) {
        Some(file) if !IS_REPORTED.swap(true, Ordering::AcqRel) => report(&file),
        // Another thread is about to end the program.
        Some(_) => loop {
            // SAFETY: waits for a signal.
            unsafe { libc::pause() };
        },
        // The fault happens again when the handler returns, and the previous action handles it.
        // SAFETY: the previous action is a valid one.
        None if fault.is_some() => unsafe {
            libc::sigaction(signal, BEFORE.load(Ordering::Acquire), ptr::null_mut());
        },
        // A signal that another process sent does not happen again by itself.
        // SAFETY: puts back the default action, and sends the signal again; it comes when the handler returns.
        None => unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        },
    }
}

fn report(file: &Mapped) -> ! {
    // SAFETY: `name` is a C string of a mapping that this thread is reading; the structure lives as long as the call.
    let length = unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        (libc::stat(file.name, &raw mut status) == 0).then_some(status.st_size as u64)
    };
    // SAFETY: leaked, and set before the handler was.
    unsafe { put_c(PROGRAM.load(Ordering::Acquire)) };
    put(b": ");
    // SAFETY: as above.
    unsafe { put_c(file.name) };
    match length.filter(|&length| length < file.bytes as u64) {
        Some(length) => {
            put(b": file was truncated from ");
            put_number(file.bytes as u64);
            put(b" to ");
            put_number(length);
            put(b" bytes while in use; restore it from a copy, or make it again\n");
        }
        None => put(b": file could not be read while in use: it was replaced, or the disk or its server failed; check it and run again\n"),
    }
    for path in TEMPORARIES
        .iter()
        .map(|slot| slot.load(Ordering::Acquire))
        .filter(|path| !path.is_null())
    {
        // SAFETY: a C string that was leaked.
        unsafe { libc::unlink(path) };
    }
    // SAFETY: ends the process, and runs nothing else of it.
    unsafe { libc::_exit(2) }
}

fn put(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        // SAFETY: the bytes live as long as the call.
        let written = unsafe { libc::write(2, bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(written) {
            Ok(written) if written > 0 => bytes = &bytes[written..],
            _ => return,
        }
    }
}

/// # Safety
///
/// `text` must be a C string.
unsafe fn put_c(text: *const libc::c_char) {
    // SAFETY: a C string has as many bytes as strlen says.
    put(unsafe { std::slice::from_raw_parts(text.cast(), libc::strlen(text)) });
}

fn put_number(mut number: u64) {
    let (mut digits, mut at) = ([0; 20], 20);
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return put(&digits[at..]);
        }
    }
}
