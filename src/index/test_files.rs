//! What the unit tests of the index share: small indexes, and damaged copies of files.

use super::{
    document_row::DocumentRow,
    index_change::IndexChange,
    manifest::Manifest,
    open::Index,
    posting::{Postings, WordCounts},
    segment::{Resources, SegmentBuilder, SegmentFiles},
};
use crate::base::files::{SealedWriter, TempDir};
use std::{
    fs,
    io::Write,
    ops::Range,
    path::{Path, PathBuf},
};

/// The scheme of the small indexes: blots of 32 bits.
pub const SCHEME: &str = "word@18.0 ordered:8:32 all";

/// The bytes of a sealed file between its magic bytes and its description.
pub fn body(path: &Path) -> Range<usize> {
    let bytes = fs::read(path).unwrap();
    8..usize::try_from(footer_number(&bytes, 1)).unwrap()
}

fn footer_number(bytes: &[u8], index: usize) -> u64 {
    let start = bytes.len() - 40 + 8 * index;
    u64::from_le_bytes(bytes[start..start + 8].try_into().unwrap())
}

/// A copy of a file in which one byte is another, so that a checksum fails.
pub fn with_flipped_byte(path: &Path, at: usize) -> PathBuf {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x55;
    let copy = path.with_extension("flipped");
    fs::write(&copy, bytes).unwrap();
    copy
}

/// A copy of a sealed file in which one byte of the body is another, with the checksums of what it
/// has: a file that another program could have made.
pub fn resealed_with_byte(path: &Path, at: usize, value: u8) -> PathBuf {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] = value;
    let end = usize::try_from(footer_number(&bytes, 0)).unwrap();
    let body = body(path);
    let description: serde_json::Value = serde_json::from_slice(&bytes[body.end..end]).unwrap();
    let copy = path.with_extension("resealed");
    let mut out = SealedWriter::create(&copy).unwrap();
    out.write_all(&bytes[body]).unwrap();
    out.finish(&description).unwrap();
    copy
}

/// Commits documents to an index of two parts, which is created if need be: of each its id, its
/// content, and distinct blots of 32 bits. Documents with the ids of `removed` go.
pub fn commit(directory: &Path, documents: &[(&str, u64, Vec<u64>)], removed: &[&str]) -> Manifest {
    let index = Index::open(directory).ok();
    let mut manifest = index.as_ref().map_or_else(
        || Manifest::new(&SCHEME.parse().unwrap()),
        |index| index.manifest.clone(),
    );
    let resources = Resources {
        memory_bytes: 1 << 24,
        threads: 1,
        tmp_dir: TempDir(None),
    };
    let mut builder =
        SegmentBuilder::<u64>::new(32, resources, index.as_ref().map(IndexChange::new));
    for id in removed {
        assert!(builder.remove(id).unwrap());
    }
    for (id, content, blots) in documents {
        let hash = Some(u128::from(*content) << 64 | 1);
        let row = DocumentRow::new(Some(blots.len() as u64), 9, hash);
        let postings = Postings::new(blots, &[blots.len()], 32);
        let document = vec![(Box::from(*id), row)];
        builder
            .add(document, &postings, &WordCounts::default())
            .unwrap();
    }
    manifest.generation += 1;
    let files = SegmentFiles {
        directory,
        name: &Manifest::segment_name(manifest.generation),
        changes: [manifest.generation; 2],
        manifest: &manifest,
        parts: SegmentFiles::parts(2).unwrap(),
    };
    let (entry, numbers, _) = builder.write(&files).unwrap();
    manifest.segments.push(entry);
    manifest.numbers = numbers;
    manifest.commit(directory).unwrap();
    manifest
}
