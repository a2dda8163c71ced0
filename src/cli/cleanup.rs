//! Temporary files and directories that are removed when a signal ends the program.

use signal_hook::{
    consts::{SIGHUP, TERM_SIGNALS},
    iterator::Signals,
    low_level::emulate_default_handler,
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, Once, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

static PATHS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static WATCHER: Once = Once::new();
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// A thread may create a file in a directory while it is being removed; then removal is tried again.
const ATTEMPTS: u32 = 20;

/// Removes a file or a directory if a signal ends the program before [`forget`] is called.
pub fn remove_on_signal(path: &Path) {
    paths().push(path.to_owned());
    WATCHER.call_once(watch_signals);
}

/// The path no longer needs to be removed.
pub fn forget(path: &Path) {
    paths().retain(|known| known != path);
}

/// Blocks forever if a signal is ending the program: errors that follow from the removal of
/// temporary files must not be reported.
pub fn wait_if_ending() {
    while IS_ENDING.load(Ordering::Acquire) {
        thread::park();
    }
}

fn paths() -> MutexGuard<'static, Vec<PathBuf>> {
    PATHS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watch_signals() {
    let Ok(mut signals) = Signals::new(TERM_SIGNALS.iter().chain(&[SIGHUP])) else {
        return;
    };
    let _ = thread::Builder::new().spawn(move || {
        if let Some(signal) = signals.forever().next() {
            IS_ENDING.store(true, Ordering::Release);
            paths().iter().for_each(|path| remove(path));
            let _ = emulate_default_handler(signal);
        }
    });
}

fn remove(path: &Path) {
    if !path.is_dir() {
        let _ = fs::remove_file(path);
        return;
    }
    for _ in 0..ATTEMPTS {
        let _ = fs::remove_dir_all(path);
        if !path.exists() {
            return;
        }
    }
}
