//! The journals of a history: groups of lines with right checksums, and what follows them with wrong ones.
#![no_main]

mod made;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let (whole, torn) = bytes.split_at(bytes.len() * usize::from(choice & 15) / 15);
    let mut journal = made::journal(u64::from(choice >> 4), whole.chunks(usize::from(choice).max(1)));
    journal.extend_from_slice(torn);
    made::write(directory.path(), "manifest.json", made::manifest(1, "", ""));
    made::write(directory.path(), "000001.journal", journal);
    if choice & 64 != 0 {
        made::write(directory.path(), "000002.journal", made::journal(u64::from(choice), std::iter::once(torn)));
    }
    made::ask(directory.path());
});
