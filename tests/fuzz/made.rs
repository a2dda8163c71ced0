//! A history whose checksums are right, whatever is in it: or no input would get past them.

use dedup::{text::stream::Print, history::{History, StoreOptions, Request, MatchLimits}};
use std::{fs, path::Path};
use xxhash_rust::xxh3::xxh3_64;

/// A manifest with these lists, as JSON.
pub fn manifest(journal: u64, segments: &str, removed: &str) -> String {
    let body = format!(
        r#"{{"dedup":"history","version":2,"scheme":"word@18.0 minhash:256@2","next_segment":9,"journal":{journal},"segments":[{segments}],"removed":[{removed}]"#
    );
    let sum = xxh3_64(format!("{body}}}").as_bytes());
    format!(r#"{body},"checksum":"{sum:016x}"}}"#)
}

/// A journal that starts with this entry and has these groups of lines.
pub fn journal<'g>(first_sequence: u64, groups: impl Iterator<Item = &'g [u8]>) -> Vec<u8> {
    let mut out = b"\x89DEDHJ\r\n".to_vec();
    out.extend_from_slice(&1_u64.to_le_bytes());
    out.extend_from_slice(&first_sequence.to_le_bytes());
    out.extend_from_slice(&xxh3_64(&out).to_le_bytes());
    for lines in groups {
        let mut head = b"HNXGROUP".to_vec();
        for word in [lines.len() as u64, 32, xxh3_64(lines)] {
            head.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&head);
        out.extend_from_slice(&xxh3_64(&head).to_le_bytes());
        out.extend_from_slice(lines);
    }
    out
}

/// A slot that promises nothing, twice.
fn synced() -> Vec<u8> {
    let mut slot = b"\x89DEDHS\r\n".to_vec();
    slot.resize(504, 0);
    slot.extend_from_slice(&xxh3_64(&slot).to_le_bytes());
    slot.repeat(2)
}

/// Opens the history, verifies it, and searches it. Damage must give an error, not a panic.
pub fn ask(directory: &Path) {
    if !directory.join("synced").exists() {
        write(directory, "synced", synced());
    }
    let _ = dedup::history::verify(directory);
    let options = StoreOptions { read_only: true, ..StoreOptions::default() };
    let Ok((mut history, _)) = History::open(directory, options) else { return };
    let prints = [Print([0; 4]), Print([5; 4]), Print([u64::MAX; 4])];
    let requests = prints.map(|print| Request { id: "x", print: Some(print), add: false });
    for min_similarity in ["0", "0.8", "1"] {
        let Ok(min_similarity) = min_similarity.parse() else { return };
        let _ = history.ask(&requests, &MatchLimits { min_similarity, top: 2 });
    }
}

pub fn write(directory: &Path, name: &str, bytes: impl AsRef<[u8]>) {
    fs::write(directory.join(name), bytes).expect("written");
}
