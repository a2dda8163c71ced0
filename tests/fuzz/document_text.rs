//! The text of office files, books, notebooks and pages. The first byte picks the kind; for those in archives, bit 7 says that the
//! bytes are the main part, which is then packed, or no input would get past the checksums.
#![no_main]

use dedup::text::corpus::document::KINDS;
use libfuzzer_sys::fuzz_target;
use std::{io::{Cursor, Write}, path::Path};
use zip::{ZipWriter, write::SimpleFileOptions};

const MOST_BYTES: u64 = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let kind = KINDS[usize::from(choice & 127) % KINDS.len()];
    kind.recognises(&bytes[..bytes.len().min(8192)], Path::new("a.docx"));
    let packed = (choice & 128 != 0).then(|| packed(kind.name(), bytes));
    if let Ok(text) = kind.extract(packed.as_deref().unwrap_or(bytes), MOST_BYTES) {
        assert!(text.len() as u64 <= MOST_BYTES, "{}", text.len());
    }
});

fn packed(kind: &str, bytes: &[u8]) -> Vec<u8> {
    let rels = "<Relationships><Relationship Id='a' Type='x/footnotes' Target='document.xml'/><Relationship Id='b' Type='x/slide' Target='s.xml'/></Relationships>";
    let main = match kind {
        "docx" => "word/document.xml",
        "pptx" => "ppt/s.xml",
        "epub" => "OEBPS/book.opf",
        _ => "content.xml",
    };
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let mut add = |name: &str, bytes: &[u8]| {
        writer.start_file(name, SimpleFileOptions::default()).expect("a member");
        writer.write_all(bytes).expect("written");
    };
    add(main, bytes);
    add("word/_rels/document.xml.rels", rels.as_bytes());
    add("ppt/_rels/presentation.xml.rels", rels.as_bytes());
    add("ppt/presentation.xml", b"<presentation><sldId id='1' r:id='b'/></presentation>");
    add("META-INF/container.xml", b"<c><rootfile full-path='OEBPS/book.opf'/></c>");
    writer.finish().expect("an archive").into_inner()
}
