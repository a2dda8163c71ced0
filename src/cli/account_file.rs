//! `--account FILE`: the account of the input as JSON, with each file that was left out.
//!
//! A program may read documents in several steps, and may fail after any of them. So there is one file for the process: whatever
//! reports on the input adds to it, and it gets its name when the program ends, also with an error.

use super::output::Output;
use crate::text::corpus::{Account, LeftOutFile, Packing};
use anyhow::Context;
use serde::Serialize;
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufReader, BufWriter, Read, Seek, Write},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

static ACCOUNT_FILE: Mutex<Option<AccountFile>> = Mutex::new(None);

/// The file, the totals, and a temporary file with the entries that follow them. Memory does not grow with the number of entries.
struct AccountFile {
    path: PathBuf,
    output: Output,
    account: Account,
    left_out: EntryList,
    problems: EntryList,
}

/// Entries of a JSON array, in a temporary file.
struct EntryList {
    entries: BufWriter<File>,
    count: u64,
    /// The first error of writing, which ends the list.
    failed: Option<io::Error>,
}

/// What precedes the entries.
#[derive(Serialize)]
struct Totals<'a> {
    complete: bool,
    documents: u64,
    files: u64,
    bytes: u64,
    files_unchanged: u64,
    records_left_out: u64,
    kinds: &'a BTreeMap<String, u64>,
    decoded: &'a BTreeMap<String, u64>,
    files_left_out: u64,
    reasons: Vec<ReasonTotal>,
}

/// The files that were left out for one reason.
#[derive(Serialize)]
struct ReasonTotal {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    packed_in: Option<&'static str>,
    files: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

/// A file that was left out.
#[derive(Serialize)]
struct LeftOutEntry<'a> {
    file: &'a str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    packed_in: Option<&'static str>,
    /// Makes the exit status 2.
    error: bool,
    message: &'a str,
}

/// Starts the account of this process. The file appears when [`commit`] is called.
pub fn start(path: &Path) -> Result<(), anyhow::Error> {
    let started = AccountFile {
        path: path.to_owned(),
        output: Output::open(Some(path), false)?,
        account: Account::default(),
        left_out: EntryList::new()?,
        problems: EntryList::new()?,
    };
    *current() = Some(started);
    Ok(())
}

/// Adds the account of a part of the input.
pub fn add(account: &Account) {
    if let Some(file) = current().as_mut() {
        file.account.add(account);
    }
}

/// Adds a file that was left out.
pub fn leave_out(left: &LeftOutFile) {
    if let Some(file) = current().as_mut() {
        file.left_out.add(&LeftOutEntry {
            file: &left.file,
            kind: left.reason.kind.name(),
            packed_in: packed_in(left.reason.within),
            error: left.is_error,
            message: &left.message,
        });
    }
}

/// Adds a message about input of which only the message is known.
pub fn add_problem(message: &str) {
    if let Some(file) = current().as_mut() {
        file.problems.add(&message);
    }
}

/// Writes the account, if one is wanted. `complete`: the program did all of its work.
pub fn commit(complete: bool) -> Result<(), anyhow::Error> {
    let Some(file) = current().take() else {
        return Ok(());
    };
    let name = file.path.display().to_string();
    file.write(complete).context(name)
}

fn current() -> MutexGuard<'static, Option<AccountFile>> {
    ACCOUNT_FILE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn packed_in(packing: Packing) -> Option<&'static str> {
    (packing != Packing::Plain).then(|| packing.name())
}

impl AccountFile {
    fn write(self, complete: bool) -> Result<(), anyhow::Error> {
        let totals = serde_json::to_string_pretty(&self.totals(complete))?;
        let mut out = BufWriter::new(self.output);
        // The lists become the last fields of the same object.
        out.write_all(totals.trim_end_matches("\n}").as_bytes())?;
        if self.problems.count > 0 {
            self.problems.write("problems", &mut out)?;
        }
        self.left_out.write("left_out", &mut out)?;
        out.write_all(b"\n}\n")?;
        out.into_inner()
            .map_err(io::IntoInnerError::into_error)?
            .commit()
    }

    fn totals(&self, complete: bool) -> Totals<'_> {
        let account = &self.account;
        let reasons = account
            .left_out()
            .iter()
            .map(|&(reason, files)| ReasonTotal {
                kind: reason.kind.name(),
                packed_in: packed_in(reason.within),
                files,
                remedy: reason.kind.remedy(),
            });
        Totals {
            complete,
            documents: account.documents,
            files: account.files,
            bytes: account.bytes,
            files_unchanged: account.unchanged,
            records_left_out: account.records_left_out,
            kinds: &account.kinds,
            decoded: &account.decoded,
            files_left_out: account.files_left_out(),
            reasons: reasons.collect(),
        }
    }
}

impl EntryList {
    fn new() -> io::Result<Self> {
        Ok(Self {
            entries: BufWriter::new(tempfile::tempfile()?),
            count: 0,
            failed: None,
        })
    }

    fn add(&mut self, entry: &impl Serialize) {
        if self.failed.is_some() {
            return;
        }
        let separator: &[u8] = if self.count > 0 {
            b",\n    "
        } else {
            b"\n    "
        };
        let written = self
            .entries
            .write_all(separator)
            .and_then(|()| Ok(serde_json::to_writer(&mut self.entries, entry)?));
        self.failed = written.err();
        self.count += 1;
    }

    /// Appends the list as a field of an object.
    fn write(self, name: &str, out: &mut impl Write) -> io::Result<()> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let mut entries = self
            .entries
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        entries.rewind()?;
        write!(out, ",\n  \"{name}\": [")?;
        io::copy(&mut BufReader::new(entries).by_ref(), out)?;
        out.write_all(if self.count > 0 { b"\n  ]" } else { b"]" })
    }
}
