//! Archives in archives, through the same steps as a file of a corpus: any bytes give documents or a named problem.
//!
//! The first byte picks what is done with the rest: it is an archive as it stands (0), or becomes members of archives that are
//! right, or no input would get past their checksums.
#![no_main]

use dedup::text::corpus::{self, Content, DocumentReader, Source};
use libfuzzer_sys::fuzz_target;
use std::io::{Cursor, Write};
use zip::{ZipWriter, write::SimpleFileOptions};

const MOST_BYTES: u64 = 1 << 16;
const NAMES: [&str; 8] = ["a.txt", "../a.jsonl", "a.zip", "/a.tar", "b.docx", "d/c.csv", "e.gz", ".hidden"];

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let archive = match choice {
        0 => bytes.to_vec(),
        _ => nested(choice, bytes),
    };
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(&archive).expect("written");
    let mut options = corpus::Options::of_files(vec![file.path().to_owned()]);
    options.max_document = MOST_BYTES;
    options.gitignore = choice & 64 != 0;
    options.hidden = choice & 32 != 0;
    let source = Source::new(options, 1).expect("options");
    let mut reader = DocumentReader::new(&source.reading());
    for chunk in source {
        let Ok(chunk) = chunk else { return };
        let _ = reader.read(chunk.item, &mut |found| match found {
            Ok(document) => {
                if let Content::Text(text) = document.content {
                    assert!(text.len() as u64 <= 4 * MOST_BYTES, "{}", text.len());
                }
            }
            Err(skipped) => assert!(!skipped.place().to_string().is_empty()),
        });
    }
});

/// The bytes, cut into members at each 0xff, in one to six archives around them.
fn nested(choice: u8, bytes: &[u8]) -> Vec<u8> {
    let mut members: Vec<Vec<u8>> = bytes.split(|&byte| byte == 0xff).map(<[u8]>::to_vec).collect();
    for level in 0..=usize::from(choice % 6) {
        let archive = if (usize::from(choice) >> level) & 1 == 0 { zip_of(&members) } else { tar_of(&members) };
        members = vec![archive];
    }
    members.swap_remove(0)
}

fn zip_of(members: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (index, bytes) in members.iter().enumerate() {
        let name = format!("{index}/{}", NAMES[index % NAMES.len()]);
        writer.start_file(name, SimpleFileOptions::default()).expect("a member");
        writer.write_all(bytes).expect("written");
    }
    writer.finish().expect("an archive").into_inner()
}

fn tar_of(members: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, bytes) in members.iter().enumerate() {
        let mut head = [0_u8; 512];
        let name = NAMES[index % NAMES.len()].as_bytes();
        head[..name.len()].copy_from_slice(name);
        head[100..108].copy_from_slice(b"0000644\0");
        head[124..136].copy_from_slice(format!("{:011o}\0", bytes.len()).as_bytes());
        // The type of a member comes from its first byte, so that links, long names and sparse files are tried.
        head[156] = bytes.first().copied().filter(|kind| b"0127LKxgS".contains(kind)).unwrap_or(b'0');
        head[257..265].copy_from_slice(b"ustar\x0000");
        head[148..156].fill(b' ');
        let sum: u32 = head.iter().map(|&byte| u32::from(byte)).sum();
        head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        out.extend_from_slice(&head);
        out.extend_from_slice(bytes);
        out.resize(out.len().next_multiple_of(512), 0);
    }
    out.resize(out.len() + 1024, 0);
    out
}
