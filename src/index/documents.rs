//! The documents of a segment: a row each, their ids, and the orders in which they are looked up.
//!
//! A row has 52 bytes: number, representative, size, tokens, blots, hash, hash of the id, posted
//! blots. Rows stand by rising number. Two lists of row numbers, by the hash of the id and by the
//! hash of the content, find a document without reading the rest. What the commit did to documents
//! of older segments stands here as well: see [`CommitEffects`].

use super::{
    document_row::{DocumentRow, ROW_BYTES},
    document_table::DocumentTable,
    id_section::{IdSection, Section, section, section_of},
    number_set::NumberSet,
    sections,
};
use crate::base::{
    error::{Error, Result},
    files::{Sealed, SealedWriter},
    num::ToUsize,
};
use serde::{Deserialize, Serialize};
use std::{cmp::Ordering, io, path::Path, sync::OnceLock};
use xxhash_rust::xxh3::xxh3_64;

/// Rows of version 2 of the index did not say how many blots are posted.
const OLD_ROW_BYTES: u64 = 48;
/// Steps of an interpolation search, before a bisection takes over.
const GUESSES: u32 = 12;

#[derive(Debug, Serialize, Deserialize)]
struct DocumentsDescription {
    kind: String,
    rows: u64,
    row_section: Section,
    #[serde(flatten)]
    ids: IdSection,
    by_id: Section,
    by_hash: Section,
    aliases: Section,
    retired: Section,
    gone: Section,
    free: Section,
}

/// What a commit does to older segments, and to the numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommitEffects {
    /// In older segments neither the rows nor the postings of these numbers count any more.
    pub retired: NumberSet,
    /// In older segments the rows of these numbers do not count any more, but their postings do:
    /// other documents have the same content.
    pub gone: NumberSet,
    /// The numbers that no document has, after this commit.
    pub free: NumberSet,
}

/// Writes the documents of a segment.
///
/// Memory: 24 bytes a document, in one large block at a time.
pub fn write_documents(
    path: &Path,
    documents: &DocumentTable,
    effects: &CommitEffects,
) -> Result<()> {
    write(path, documents, effects).map_err(|error| Error::io(path.display(), error))
}

fn write(path: &Path, documents: &DocumentTable, effects: &CommitEffects) -> io::Result<()> {
    let mut out = SealedWriter::create(path)?;
    let row_section = section(&mut out, documents.row_bytes())?;
    let ids = IdSection::write(&mut out, documents.ids())?;
    let by_id = section_of(&mut out, places_by_id(documents))?;
    let by_hash = section_of(&mut out, places_by_hash(documents))?;
    let aliases = section_of(&mut out, alias_pairs(documents).into_iter().flatten())?;
    let retired = section(&mut out, &effects.retired.to_bytes())?;
    let gone = section(&mut out, &effects.gone.to_bytes())?;
    let free = section(&mut out, &effects.free.to_bytes())?;
    let (kind, rows) = (sections::DOCUMENTS.kind.to_owned(), documents.len() as u64);
    out.finish(&DocumentsDescription {
        kind,
        rows,
        row_section,
        ids,
        by_id,
        by_hash,
        aliases,
        retired,
        gone,
        free,
    })?;
    Ok(())
}

/// All places, by the hash of the id. Hashes are sorted together with places: looking each up in its
/// row would read rows that are on disk at random.
fn places_by_id(documents: &DocumentTable) -> impl Iterator<Item = u32> {
    let hashes = documents.rows().map(|row| row.id_hash);
    let mut order: Vec<(u64, u32)> = hashes.zip(0..).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, place)| place)
}

/// The places of representatives by their content; of one content, by the hash of the id.
fn places_by_hash(documents: &DocumentTable) -> impl Iterator<Item = u32> {
    let halves = |hash: u128| [(hash >> 64) as u64, hash as u64];
    let mut order: Vec<([u64; 2], u32)> = documents
        .rows()
        .zip(0..)
        .filter(|(row, _)| !row.is_alias())
        .filter_map(|(row, place)| row.hash.map(|hash| (halves(hash), place)))
        .collect();
    let id_hash = |place: u32| documents.row(place.to_usize()).id_hash;
    order.sort_unstable_by(|(one, first), (two, second)| {
        let by_id = || (id_hash(*first), first).cmp(&(id_hash(*second), second));
        one.cmp(two).then_with(by_id)
    });
    order.into_iter().map(|(_, place)| place)
}

/// Of each alias the representative and its own place, in that order.
fn alias_pairs(documents: &DocumentTable) -> Vec<[u32; 2]> {
    let aliases = documents.rows().zip(0..).filter(|(row, _)| row.is_alias());
    let mut pairs: Vec<[u32; 2]> = aliases
        .map(|(row, place)| [row.representative, place])
        .collect();
    pairs.sort_unstable();
    pairs
}

/// The documents of a segment, read on demand.
pub struct Documents {
    file: Sealed,
    description: DocumentsDescription,
    effects: OnceLock<CommitEffects>,
}

impl Documents {
    /// Opens the file and checks that its description makes sense.
    pub fn open(path: &Path) -> Result<Self> {
        let file = Sealed::open(path)?;
        let description: DocumentsDescription = file.describe()?;
        let DocumentsDescription {
            rows,
            row_section,
            ids,
            by_id,
            by_hash,
            aliases,
            ..
        } = &description;
        if description.kind == sections::DOCUMENTS.kind
            && row_section[1] == OLD_ROW_BYTES * rows
            && *rows > 0
        {
            return Err(file.damaged(
                0,
                "the documents of an older version of this program; make them anew",
            ));
        }
        let fits = description.kind == sections::DOCUMENTS.kind
            && row_section[1].checked_div(ROW_BYTES as u64) == Some(*rows)
            && ids.fits(*rows)
            && by_id[1] == 4 * rows
            && by_hash[1] <= 4 * rows
            && aliases[1] <= 8 * rows
            && *rows <= u64::from(u32::MAX);
        if !fits {
            return Err(file.damaged(0, "the description of the documents contradicts itself"));
        }
        Ok(Self {
            file,
            description,
            effects: OnceLock::new(),
        })
    }

    /// The file itself.
    pub fn file(&self) -> &Sealed {
        &self.file
    }

    /// What the commit did to older segments; read on first use.
    pub fn effects(&self) -> Result<&CommitEffects> {
        if let Some(effects) = self.effects.get() {
            return Ok(effects);
        }
        let DocumentsDescription {
            retired,
            gone,
            free,
            ..
        } = &self.description;
        let set = |[start, length]: Section| -> Result<NumberSet> {
            NumberSet::read(self.file.bytes(start, length)?)
                .map_err(|what| self.file.damaged(start, what))
        };
        let effects = CommitEffects {
            retired: set(*retired)?,
            gone: set(*gone)?,
            free: set(*free)?,
        };
        Ok(self.effects.get_or_init(|| effects))
    }

    /// How many documents there are.
    pub fn len(&self) -> u32 {
        self.description.rows as u32
    }

    /// Whether there is no document.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The row at a place, which may be any below `len`.
    pub fn row(&self, place: u32) -> Result<DocumentRow> {
        Ok(DocumentRow::read(self.file.bytes(
            self.description.row_section[0] + u64::from(place) * ROW_BYTES as u64,
            ROW_BYTES as u64,
        )?))
    }

    /// The place of a document by its number.
    pub fn place_of(&self, number: u32) -> Result<Option<u32>> {
        // Most segments hold neighbouring numbers: the guess is right at once.
        if let Some(guess) = self.len().checked_sub(1).map(|last| last.min(number))
            && self.row(guess)?.number == number
        {
            return Ok(Some(guess));
        }
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.row(middle)?.number.cmp(&number) {
                Ordering::Equal => return Ok(Some(middle)),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }

    /// The place of a document by its id.
    pub fn find_id(&self, id: &str) -> Result<Option<u32>> {
        let hash = xxh3_64(id.as_bytes());
        self.find_by_hash(
            &self.description.by_id,
            hash,
            |row| row.id_hash,
            |place, _| Ok(self.id(place)? == id),
        )
    }

    /// The place of the representative with this content.
    pub fn find_hash(&self, hash: u128) -> Result<Option<u32>> {
        let top = |hash: u128| (hash >> 64) as u64;
        let top_of = |row: &DocumentRow| row.hash.map_or(0, top);
        self.find_by_hash(&self.description.by_hash, top(hash), top_of, |_, row| {
            Ok(row.hash == Some(hash))
        })
    }

    /// The first place of a list, sorted by a hash, that has this hash and is the right one.
    fn find_by_hash(
        &self,
        list: &Section,
        hash: u64,
        hash_of: impl Fn(&DocumentRow) -> u64,
        is_right: impl Fn(u32, &DocumentRow) -> Result<bool>,
    ) -> Result<Option<u32>> {
        let count = (list[1] / 4) as u32;
        for at in self.first_by_hash(list, count, hash, &hash_of)?..count {
            let place = self.listed(list, at)?;
            let row = self.row(place)?;
            if hash_of(&row) != hash {
                break;
            }
            if is_right(place, &row)? {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// The first of a list with at least this hash. Hashes are spread evenly, so that the hash
    /// itself says about where: a few steps instead of a bisection. Should they not be, bisection
    /// ends it.
    fn first_by_hash(
        &self,
        list: &Section,
        count: u32,
        hash: u64,
        hash_of: impl Fn(&DocumentRow) -> u64,
    ) -> Result<u32> {
        let (mut low, mut high, mut least, mut most) = (0, count, 0, u64::MAX);
        for step in 0.. {
            let span = high - low;
            if span == 0 {
                break;
            }
            let share =
                u128::from(hash - least) * u128::from(span) / (u128::from(most - least) + 1);
            let middle = low
                + if step < GUESSES {
                    (share as u32).min(span - 1)
                } else {
                    span / 2
                };
            let found = hash_of(&self.row(self.listed(list, middle)?)?);
            if found >= hash {
                (high, most) = (middle, found);
            } else {
                (low, least) = (middle + 1, found);
            }
        }
        Ok(low)
    }

    /// Calls `each` with the place of every alias of a representative, which may be of another
    /// segment.
    pub fn for_each_alias(
        &self,
        representative: u32,
        mut each: impl FnMut(u32) -> Result<()>,
    ) -> Result<()> {
        for at in self.first_alias([representative, 0])?..self.aliases() {
            match self.alias(at)? {
                [found, place] if found == representative && place < self.len() => each(place)?,
                [found, _] if found == representative => {
                    return Err(self.damaged(self.description.aliases[0] + 8 * at));
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// Whether the document at a place is found as an alias of a representative.
    pub fn has_alias(&self, representative: u32, place: u32) -> Result<bool> {
        let at = self.first_alias([representative, place])?;
        Ok(at < self.aliases() && self.alias(at)? == [representative, place])
    }

    fn aliases(&self) -> u64 {
        self.description.aliases[1] / 8
    }

    fn alias(&self, at: u64) -> Result<[u32; 2]> {
        let both = self.word(self.description.aliases[0] + 8 * at)?;
        Ok([both as u32, (both >> 32) as u32])
    }

    /// The first alias that is not less.
    fn first_alias(&self, alias: [u32; 2]) -> Result<u64> {
        let (mut low, mut high) = (0, self.aliases());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.alias(middle)? < alias {
                low = middle + 1
            } else {
                high = middle
            }
        }
        Ok(low)
    }

    /// The id of the document at a place.
    pub fn id(&self, place: u32) -> Result<String> {
        self.description.ids.get(&self.file, place)
    }

    fn word(&self, at: u64) -> Result<u64> {
        let bytes = self.file.bytes(at, 8)?;
        Ok(u64::from_le_bytes(std::array::from_fn(|index| {
            bytes[index]
        })))
    }

    fn listed(&self, list: &Section, at: u32) -> Result<u32> {
        let bytes = self.file.bytes(list[0] + 4 * u64::from(at), 4)?;
        let place = u32::from_le_bytes(std::array::from_fn(|index| bytes[index]));
        if place < self.len() {
            Ok(place)
        } else {
            Err(self.damaged(list[0] + 4 * u64::from(at)))
        }
    }

    fn damaged(&self, at: u64) -> crate::base::error::Error {
        self.file.damaged(
            at,
            "a reference leads out of its section; the file was not made by this program",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::test_files;
    use proptest::prelude::*;

    /// Documents by rising number: of each the gap before its number, and its content. Documents of
    /// one content are aliases of the first of them.
    fn test_documents(gaps_and_contents: &[(u32, u128)]) -> DocumentTable {
        let mut documents = DocumentTable::default();
        let mut next = 0;
        for (place, &(gap, content)) in gaps_and_contents.iter().enumerate() {
            let number = next + gap;
            next = number + 1;
            let hash = Some(content).filter(|&content| content != 0);
            let first = documents
                .rows()
                .find(|row| hash.is_some() && row.hash == hash)
                .map_or(number, |row| row.number);
            let bytes = Some(u64::from(number)).filter(|bytes| bytes % 3 > 0);
            let row = DocumentRow::new(bytes, number / 2, hash)
                .numbered(number, first)
                .with_posted(7, number % 9);
            documents.push(&format!("directory/{}/file {place}", place % 7), &row);
        }
        documents
    }

    /// Hashes that are spread evenly, and hashes that are not.
    fn any_content() -> impl Strategy<Value = u128> {
        prop_oneof![
            any::<u128>(),
            0_u128..6,
            (0_u128..6).prop_map(|content| content << 64)
        ]
    }

    proptest! {
        #[test]
        fn documents_are_found_by_place_number_id_and_content(
            all in prop::collection::vec((0_u32..3, any_content()), 0..60)
        ) {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("docs");
            let written = test_documents(&all);
            let effects = CommitEffects {
                retired: [3, 4, 9].into_iter().collect(),
                gone: [5].into_iter().collect(),
                free: NumberSet::default(),
            };
            write_documents(&path, &written, &effects).unwrap();
            let documents = Documents::open(&path).unwrap();
            prop_assert_eq!(documents.len() as usize, written.len());
            prop_assert_eq!(documents.effects().unwrap(), &effects);
            for ((place, id), row) in (0..).zip(written.ids()).zip(written.rows()) {
                prop_assert_eq!(documents.row(place).unwrap(), row);
                prop_assert_eq!(documents.id(place).unwrap(), id);
                prop_assert_eq!(documents.find_id(id).unwrap(), Some(place));
                prop_assert_eq!(documents.find_id(&format!("{id}x")).unwrap(), None);
                if let Some(hash) = row.hash.filter(|_| !row.is_alias()) {
                    prop_assert_eq!(documents.find_hash(hash).unwrap(), Some(place));
                }
                let mut aliases = Vec::new();
                documents.for_each_alias(row.number, |alias| {
                    aliases.push(alias);
                    Ok(())
                }).unwrap();
                let expected: Vec<u32> = (0..).zip(written.rows())
                    .filter(|(_, other)| other.is_alias() && other.representative == row.number)
                    .map(|(place, _)| place)
                    .collect();
                prop_assert!(expected.iter().all(|&alias| documents.has_alias(row.number, alias).unwrap()));
                prop_assert_eq!(aliases, expected);
            }
            let last = written.rows().last().map_or(0, |row| row.number);
            for number in 0..last + 2 {
                let expected = (0..).zip(written.rows())
                    .find(|(_, row)| row.number == number)
                    .map(|(place, _)| place);
                prop_assert_eq!(documents.place_of(number).unwrap(), expected);
            }
        }
    }

    #[test]
    fn damaged_documents_are_errors() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("docs");
        let all: Vec<(u32, u128)> = (0..20)
            .map(|number| (number % 2, 1 << (number * 6)))
            .collect();
        write_documents(&path, &test_documents(&all), &CommitEffects::default()).unwrap();
        for at in test_files::body(&path) {
            let flipped = test_files::with_flipped_byte(&path, at);
            let error = Documents::open(&flipped).and_then(|file| file.file().verify());
            let text = error.unwrap_err().to_string();
            assert!(text.contains("flipped: byte "), "{text}");
            let resealed = test_files::resealed_with_byte(&path, at, 0xff);
            let documents = Documents::open(&resealed).unwrap();
            // Any answer is fine, as long as nothing panics.
            for place in 0..20 {
                let _ = documents.row(place);
                let _ = documents.id(place);
                let _ = documents.find_id(&format!("directory/{}/file {place}", place % 7));
                let _ = documents.find_hash(1 << (place * 6));
                let _ = documents.for_each_alias(place, |_| Ok(()));
            }
            let _ = documents.effects();
        }
    }

    #[test]
    fn rows_of_an_older_version_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("docs");
        let mut out = SealedWriter::create(&path).unwrap();
        let row_section = section(&mut out, &[0; 48]).unwrap();
        let ids = IdSection::write(&mut out, ["a"].into_iter()).unwrap();
        let by_id = section(&mut out, &[0; 4]).unwrap();
        let empty = section(&mut out, &[]).unwrap();
        out.finish(&DocumentsDescription {
            kind: sections::DOCUMENTS.kind.to_owned(),
            rows: 1,
            row_section,
            ids,
            by_id,
            by_hash: empty,
            aliases: empty,
            retired: empty,
            gone: empty,
            free: empty,
        })
        .unwrap();
        let error = Documents::open(&path).err().unwrap().to_string();
        assert!(error.contains("an older version"), "{error}");
    }
}
