//! The account of the input: what was read, and what was skipped and why.

use super::{Options, document_reader::InputDocument, skipped_kind::SkippedKind, unpack::Packing};
use crate::base::error::{Error, Place, Problem, Result};
use crate::base::num::ToF64;
use crate::base::setting::Setting;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// A file that is not read, and why.
#[derive(Debug, Clone)]
pub struct SkippedFile {
    /// What a message says about it.
    pub problem: Problem,
    /// Why it is skipped.
    pub kind: SkippedKind,
    /// What the file is packed in.
    pub within: Packing,
    /// The user named it, so its absence is an error whatever it is.
    pub is_named: bool,
}

impl SkippedFile {
    /// A file of a kind that is not read.
    pub fn new(
        file: impl Into<Arc<str>>,
        kind: SkippedKind,
        within: Packing,
        is_named: bool,
    ) -> Self {
        let remedy = kind
            .remedy()
            .map_or_else(String::new, |remedy| format!("; {remedy}"));
        let what = format!("left out: {}{remedy}", SkipReason { kind, within });
        Self {
            problem: Problem::new(Place::file(file), what),
            kind,
            within,
            is_named,
        }
    }

    /// Whether it cannot be opened, or read to its end.
    pub fn is_damaged(&self) -> bool {
        matches!(self.kind, SkippedKind::Unreadable | SkippedKind::Damaged)
    }

    /// A file that cannot be opened or read to its end.
    pub fn unreadable(problem: Problem) -> Self {
        Self {
            problem,
            kind: SkippedKind::Unreadable,
            within: Packing::Plain,
            is_named: true,
        }
    }

    /// A file that is not what it should be.
    pub fn damaged(file: impl Into<Arc<str>>, what: &str, is_named: bool) -> Self {
        Self {
            problem: Problem::new(Place::file(file), format!("left out: {what}")),
            kind: SkippedKind::Damaged,
            within: Packing::Plain,
            is_named,
        }
    }

    /// A document that is longer than allowed.
    pub fn too_large(file: impl Into<Arc<str>>, most_bytes: u64) -> Self {
        let problem = Problem::new(Place::file(file), too_large(most_bytes));
        Self {
            problem,
            kind: SkippedKind::TooLarge,
            within: Packing::Plain,
            is_named: true,
        }
    }

    /// A document that is not UTF-8.
    pub fn not_utf8(file: impl Into<Arc<str>>, what: String) -> Self {
        Self {
            problem: Problem::new(Place::file(file), what),
            kind: SkippedKind::NotUtf8,
            within: Packing::Plain,
            is_named: true,
        }
    }

    /// Whether it makes the exit status 2: it was named, or it may well be a document.
    pub fn is_error(&self) -> bool {
        self.is_named || self.kind.is_likely_document()
    }

    /// Why it is skipped, and what it is packed in.
    pub fn reason(&self) -> SkipReason {
        SkipReason {
            kind: self.kind,
            within: self.within,
        }
    }
}

/// A file that is not read, as records of a run and accounts keep it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutFile {
    /// The name of the file.
    pub file: String,
    /// Why it is left out.
    pub reason: SkipReason,
    /// It makes the exit status 2.
    pub is_error: bool,
    /// What a message says about it.
    pub message: String,
}

impl From<&SkippedFile> for LeftOutFile {
    fn from(left: &SkippedFile) -> Self {
        Self {
            file: left.problem.place.file.to_string(),
            reason: left.reason(),
            is_error: left.is_error(),
            message: left.problem.what.clone(),
        }
    }
}

impl fmt::Display for LeftOutFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = Place::file(self.file.as_str());
        Problem::new(place, self.message.as_str()).fmt(f)
    }
}

/// The message about a document that is longer than allowed.
pub fn too_large(most_bytes: u64) -> String {
    format!(
        "a document of more than {most_bytes} bytes; raise {} (4G is the most), or split it",
        Setting::MaxDocument
    )
}

/// Why files are skipped; they are counted by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SkipReason {
    /// The kind of file.
    pub kind: SkippedKind,
    /// What the file is packed in.
    pub within: Packing,
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.within {
            Packing::Plain => f.write_str(self.kind.name()),
            packing => write!(f, "{} in {}", self.kind.name(), packing.name()),
        }
    }
}

/// A record without a text: it is no document.
#[derive(Debug, Clone)]
pub struct RecordWithoutText {
    /// Where it is.
    pub place: Place,
    /// What was looked for.
    pub what: String,
    /// The fields it has.
    pub fields: Vec<String>,
}

/// Input that is not a document, and why.
#[derive(Debug, Clone)]
pub enum SkippedInput {
    /// A record, or the rest of a file, that cannot be used.
    Problem(Problem),
    /// A file that is not read.
    File(SkippedFile),
    /// A record without a text.
    NoText(RecordWithoutText),
}

impl SkippedInput {
    /// Where it is.
    pub fn place(&self) -> &Place {
        match self {
            Self::Problem(problem) => &problem.place,
            Self::File(left) => &left.problem.place,
            Self::NoText(record) => &record.place,
        }
    }
}

impl From<Problem> for SkippedInput {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

/// What was read, and what was not. Accounts of parts of the input add up to that of the whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Documents that were read.
    pub documents: u64,
    /// Files of which at least the beginning was read.
    pub files: u64,
    /// Those of the files that are streams of tokens, blots or prints.
    pub streams: u64,
    /// Of the texts of documents, as far as their sizes are known.
    pub bytes: u64,
    /// Files that were not read because they are as they were when they were read last.
    pub unchanged: u64,
    /// Lines and records that are no documents of this collection: without a text, damaged, or with an id that came before.
    pub records_left_out: u64,
    /// Files that were read, by kind: text, ndjson, docx …
    #[serde(default)]
    pub kinds: BTreeMap<String, u64>,
    /// Texts that were decoded, by their encoding.
    #[serde(default)]
    pub decoded: BTreeMap<String, u64>,
    /// Sorted by reason.
    left_out: Vec<(SkipReason, u64)>,
}

impl Account {
    /// The account of one skipped file.
    pub fn of_left_out(left: &SkippedFile) -> Self {
        Self {
            left_out: vec![(left.reason(), 1)],
            ..Self::default()
        }
    }

    /// Files that are as they were when they were read last.
    pub fn of_unchanged(files: u64) -> Self {
        Self {
            unchanged: files,
            ..Self::default()
        }
    }

    /// Counts a document, or the input that was skipped.
    pub fn count(&mut self, found: &Result<InputDocument<'_>, SkippedInput>) {
        match found {
            Ok(item) => {
                self.documents += 1;
                self.bytes += item.bytes.unwrap_or(0);
            }
            Err(SkippedInput::File(left)) => self.leave_out(left.reason(), 1),
            Err(SkippedInput::Problem(_) | SkippedInput::NoText(_)) => self.records_left_out += 1,
        }
    }

    /// Counts a file that was read, or of which at least the beginning was.
    pub fn count_kind(&mut self, kind: &str) {
        add_to(&mut self.kinds, kind, 1);
    }

    /// Counts a text that was decoded.
    pub fn count_decoded(&mut self, encoding: &str) {
        add_to(&mut self.decoded, encoding, 1);
    }

    /// Counts skipped files.
    pub fn leave_out(&mut self, reason: SkipReason, files: u64) {
        match self
            .left_out
            .binary_search_by_key(&reason, |(known, _)| *known)
        {
            Ok(at) => self.left_out[at].1 += files,
            Err(at) => self.left_out.insert(at, (reason, files)),
        }
    }

    /// A document that was counted is not kept after all.
    pub fn drop_document(&mut self, bytes: u64) {
        self.documents -= 1;
        self.bytes -= bytes;
        self.records_left_out += 1;
    }

    /// Adds the account of another part of the input.
    pub fn add(&mut self, more: &Self) {
        let Self {
            documents,
            files,
            streams,
            bytes,
            unchanged,
            records_left_out,
            kinds,
            decoded,
            left_out,
        } = more;
        kinds
            .iter()
            .for_each(|(kind, &files)| add_to(&mut self.kinds, kind, files));
        decoded
            .iter()
            .for_each(|(encoding, &texts)| add_to(&mut self.decoded, encoding, texts));
        self.documents += documents;
        self.files += files;
        self.streams += streams;
        self.bytes += bytes;
        self.unchanged += unchanged;
        self.records_left_out += records_left_out;
        left_out
            .iter()
            .for_each(|&(reason, files)| self.leave_out(reason, files));
    }

    /// Refuses an input without a document, if one is needed. An empty stream is accepted: the program that wrote it has reported that it found none.
    pub fn ensure_documents(&self, options: &Options) -> Result<()> {
        if !options.needs_documents || self.documents + self.unchanged + self.streams > 0 {
            return Ok(());
        }
        Err(Error::Usage("no document was read; name files or directories that hold some, or write some to stdin".to_owned()))
    }

    /// `read 12 documents in 12 files (3.1 MB)`
    pub fn read_totals(&self) -> String {
        format!(
            "read {} in {} ({})",
            count(self.documents, "document"),
            count(self.files, "file"),
            size(self.bytes)
        )
    }

    /// The number of skipped files for each reason, in the order of the reasons.
    pub fn left_out(&self) -> &[(SkipReason, u64)] {
        &self.left_out
    }

    /// The number of skipped files.
    pub fn files_left_out(&self) -> u64 {
        self.left_out.iter().map(|(_, files)| files).sum()
    }
}

/// `read 12 documents in 12 files (3.1 MB); left out 9 files: pdf 6 (install poppler-utils, or --adapter), unknown binary 3`
impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.read_totals())?;
        if self.unchanged > 0 {
            write!(f, "; {} unchanged", count(self.unchanged, "file"))?;
        }
        if !self.left_out.is_empty() {
            write!(f, "; left out {}: ", count(self.files_left_out(), "file"))?;
        }
        for (index, (reason, files)) in self.left_out.iter().enumerate() {
            write!(f, "{}{reason} {files}", if index > 0 { ", " } else { "" })?;
            if let Some(remedy) = reason.kind.remedy() {
                write!(f, " ({remedy})")?;
            }
        }
        if self.records_left_out > 0 {
            write!(f, "; left out {}", count(self.records_left_out, "record"))?;
        }
        // Where all is plain text or NDJSON there is nothing to tell.
        if self
            .kinds
            .keys()
            .any(|kind| !matches!(kind.as_str(), "text" | "ndjson"))
        {
            write!(f, "; kinds: {}", list(&self.kinds))?;
        }
        if !self.decoded.is_empty() {
            write!(f, "; decoded: {}", list(&self.decoded))?;
        }
        Ok(())
    }
}

/// docx 3, text 9
fn list(counts: &BTreeMap<String, u64>) -> String {
    let parts: Vec<String> = counts
        .iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    parts.join(", ")
}

fn add_to(counts: &mut BTreeMap<String, u64>, name: &str, count: u64) {
    match counts.get_mut(name) {
        Some(known) => *known += count,
        None => drop(counts.insert(name.to_owned(), count)),
    }
}

fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// 812 bytes, 3.1 MB: in thousands.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return count(bytes, "byte");
    }
    let (mut value, mut unit) = (bytes.to_f64() / 1000.0, 0);
    // What would be shown as 1000.0 is one of the next unit.
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_is_one_line_of_a_fixed_shape() {
        let mut account = Account {
            documents: 12,
            files: 12,
            bytes: 3_100_000,
            ..Account::default()
        };
        assert_eq!(
            account.to_string(),
            "read 12 documents in 12 files (3.1 MB)"
        );
        account.leave_out(
            SkipReason {
                kind: SkippedKind::UnknownBinary,
                within: Packing::Plain,
            },
            3,
        );
        account.leave_out(
            SkipReason {
                kind: SkippedKind::Pdf,
                within: Packing::Plain,
            },
            4,
        );
        account.add(&Account::of_left_out(&SkippedFile::new(
            "a",
            SkippedKind::Pdf,
            Packing::Plain,
            true,
        )));
        account.add(&Account::of_left_out(&SkippedFile::new(
            "a",
            SkippedKind::Pdf,
            Packing::Plain,
            false,
        )));
        let left_out =
            "left out 9 files: pdf 6 (install poppler-utils, or adapter), unknown binary 3";
        assert_eq!(
            account.to_string(),
            format!("read 12 documents in 12 files (3.1 MB); {left_out}")
        );
        let one = Account {
            documents: 1,
            files: 1,
            bytes: 1,
            unchanged: 1,
            records_left_out: 1,
            ..Account::default()
        };
        assert_eq!(
            one.to_string(),
            "read 1 document in 1 file (1 byte); 1 file unchanged; left out 1 record"
        );
    }

    #[test]
    fn sizes_are_short() {
        let sizes = [0, 999, 1000, 999_949, 999_950, 1_000_000, 12_345_678_901].map(size);
        assert_eq!(
            sizes,
            [
                "0 bytes",
                "999 bytes",
                "1.0 kB",
                "999.9 kB",
                "1.0 MB",
                "1.0 MB",
                "12.3 GB"
            ]
        );
    }
}
