//! The prints of a history: a valid file with some bytes and some numbers of its description changed, and correct checksums.
#![no_main]

mod made;

use dedup::{text::stream::Print, base::files::{Sealed, SealedWriter}, history::{History, StoreOptions, Request, MatchLimits}, index::FileSeal};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use std::{io::Write, sync::OnceLock};

const NAME: &str = "000001.prints";
const ENTRIES: u64 = 300;

/// What a file has, and its description.
fn template() -> &'static (Vec<u8>, Value) {
    static TEMPLATE: OnceLock<(Vec<u8>, Value)> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let options = StoreOptions { memtable_entries: ENTRIES as u32, ..StoreOptions::default() };
        let (mut history, _) = History::open(directory.path(), options).expect("a history");
        let wanted = MatchLimits { min_similarity: "1".parse().expect("a ratio"), top: 1 };
        for number in 0..ENTRIES {
            let word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let print = Some(Print([word, !word, word.rotate_left(17), number]));
            history.ask(&[Request { id: &format!("d{number}"), print, add: true }], &wanted).expect("added");
        }
        history.close().expect("closed");
        let file = Sealed::open(&directory.path().join(NAME)).expect("a file");
        let length = (0..=file.file_bytes()).rev().find(|&length| file.bytes(0, length).is_ok()).expect("some bytes");
        (file.bytes(0, length).expect("all bytes").to_vec(), file.describe().expect("its description"))
    })
}

/// Changes the number that comes next, counted down to it.
fn change(value: &mut Value, left: &mut usize, to: u64) {
    match value {
        Value::Number(number) if *left == 0 => {
            *number = to.into();
            *left = usize::MAX;
        }
        Value::Number(_) => *left = left.saturating_sub(1),
        Value::Array(values) => values.iter_mut().for_each(|value| change(value, left, to)),
        Value::Object(fields) => fields.values_mut().for_each(|value| change(value, left, to)),
        _ => {}
    }
}

fuzz_target!(|bytes: &[u8]| {
    let (mut body, mut description) = template().clone();
    for edit in bytes.chunks_exact(4) {
        let number = u64::from(u16::from_le_bytes([edit[1], edit[2]]));
        if edit[0] < 128 {
            let at = (usize::from(edit[0]) << 16 | number as usize) % body.len();
            body[at] = edit[3];
        } else {
            let to = if edit[0] & 1 == 0 { number } else { u64::MAX >> (number % 64) };
            change(&mut description, &mut usize::from(edit[3]), to);
        }
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(NAME);
    let mut out = SealedWriter::create(&path).expect("a file");
    out.write_all(&body).and_then(|()| out.finish(&description)).and_then(|mut out| out.flush()).expect("written");
    let FileSeal { name, bytes, seal } = FileSeal::of(&path).expect("a file");
    let segment = format!(r#"{{"level":0,"name":"{name}","bytes":{bytes},"seal":"{seal}"}}"#);
    made::write(directory.path(), "manifest.json", made::manifest(1, &segment, ""));
    made::write(directory.path(), "000001.journal", made::journal(ENTRIES, std::iter::empty()));
    made::ask(directory.path());
});
