//! The manifest of a history: as it comes, and its lists with a right checksum.
#![no_main]

mod made;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let directory = tempfile::tempdir().expect("a directory");
    made::write(directory.path(), "000001.journal", made::journal(0, std::iter::empty()));
    made::write(directory.path(), "manifest.json", bytes);
    made::ask(directory.path());
    let text = String::from_utf8_lossy(bytes);
    let (segments, removed) = text.split_once('\n').unwrap_or((&text, ""));
    made::write(directory.path(), "manifest.json", made::manifest(1, segments, removed));
    made::ask(directory.path());
});
