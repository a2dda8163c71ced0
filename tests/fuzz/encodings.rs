//! Texts and records in any encoding: none gives a replacement character that the input does not have, unless wrong bytes
//! are allowed.
#![no_main]

use dedup::text::corpus::{self, Content, DocumentReader, Records, Source, parse_encoding};
use libfuzzer_sys::fuzz_target;
use std::io::Write;

const LABELS: [&str; 12] = [
    "auto", "utf-8", "utf-16le", "utf-16be", "windows-1252", "windows-1250", "iso-8859-2", "shift_jis", "euc-jp", "gb18030", "big5",
    "iso-2022-jp",
];
/// U+FFFD in UTF-8, UTF-16 in both orders, and GB 18030, which can write it.
const REPLACEMENTS: [&[u8]; 4] = [b"\xef\xbf\xbd", b"\xfd\xff", b"\xff\xfd", b"\x84\x31\xa4\x37"];

fuzz_target!(|bytes: &[u8]| {
    let [choice, layout, bytes @ ..] = bytes else { return };
    let records = [None, Some(Records::Text), Some(Records::Ndjson), Some(Records::Lines), Some(Records::Csv), Some(Records::Json)];
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(bytes).expect("written");
    let mut options = corpus::Options::of_files(vec![file.path().to_owned()]);
    options.encoding = parse_encoding(LABELS[usize::from(*choice) % LABELS.len()]).expect("a name");
    options.records = records[usize::from(*layout) % records.len()];
    options.lossy = layout & 128 != 0;
    let has_replacement = bytes.contains(&b'\\')
        || REPLACEMENTS.iter().any(|known| bytes.windows(known.len()).any(|window| window == *known));
    let may_replace = options.lossy || has_replacement;
    let source = Source::new(options, 1).expect("options");
    let mut reader = DocumentReader::new(&source.reading());
    for chunk in source {
        let Ok(chunk) = chunk else { return };
        let _ = reader.read(chunk.item, &mut |found| {
            if let Ok(document) = found
                && let Content::Text(text) = document.content
            {
                assert!(may_replace || !text.contains('\u{fffd}'), "{text:?}");
            }
        });
    }
});
