//! Unchanged input lines, each with the id of its document: for commands that copy a corpus.

use super::{
    Options, Records,
    account::Account,
    chunk::{Chunk, Container, LEFT_OUT},
    document_reader::ensure_utf8,
};
use crate::base::num::ToU64;
use crate::base::setting::Setting;
use crate::{
    base::{
        codec::clear_buffer,
        error::{Error, Place, Problem, Result},
    },
    text::stream::{Blots, LineParser, Tokens},
};
use std::ops::Range;

/// A line of a piece.
#[derive(Debug)]
pub struct RawLine {
    /// Its line feed included, if it has one.
    pub bytes: Range<usize>,
    /// The file and the line.
    pub place: Place,
    /// None for a blank line.
    pub id: Result<Option<String>, String>,
    /// The whole line is the text of its document.
    pub is_text: bool,
}

/// Finds ids by the rules of [`super::DocumentReader`].
pub struct LineReader {
    fields: LineParser,
    lossy: bool,
    copy: Vec<u8>,
    tokens: Tokens,
    blots: Blots,
    account: Account,
}

impl LineReader {
    /// A reader with an empty account.
    pub fn new(options: &Options) -> Self {
        let (fields, lossy) = (options.fields.clone(), options.lossy);
        Self {
            fields,
            lossy,
            copy: Vec::new(),
            tokens: Tokens::default(),
            blots: Blots::default(),
            account: Account::default(),
        }
    }

    /// What was read since this was last asked. The bytes are those of the lines: texts are not decoded.
    pub fn take_account(&mut self) -> Account {
        std::mem::take(&mut self.account)
    }

    /// Visits every line of a chunk, and returns its bytes. Refuses what is not lines, and what cannot be
    /// read to its end.
    pub fn read(&mut self, chunk: Chunk, visit: &mut dyn FnMut(RawLine)) -> Result<Vec<u8>> {
        let (of, first_line, bytes) = match chunk {
            Chunk::Records {
                of,
                first_line,
                bytes,
            } if of.is_lines() => (of, first_line, bytes),
            Chunk::Problem(Problem { place, what }) => {
                return Err(Error::damaged(
                    place,
                    what.strip_suffix(LEFT_OUT).unwrap_or(&what),
                ));
            }
            Chunk::Passed(records) => {
                self.account.records_left_out += records;
                return Ok(Vec::new());
            }
            Chunk::Opened(_) => {
                self.account.files += 1;
                return Ok(Vec::new());
            }
            Chunk::Skipped(left) if left.is_error() => {
                return Err(Error::damaged(left.problem.place, left.problem.what));
            }
            Chunk::Skipped(left) => {
                self.account.leave_out(left.reason(), 1);
                return Ok(Vec::new());
            }
            Chunk::Files(entries) => {
                return Err(not_lines(
                    entries
                        .first()
                        .map_or_else(|| "a file".into(), |entry| entry.name()),
                ));
            }
            Chunk::Whole { file, .. } => return Err(not_lines(file)),
            Chunk::Records { of, .. } | Chunk::Rows { of, .. } | Chunk::Block { of, .. } => {
                return Err(not_lines(of.file.clone()));
            }
        };
        let mut start = 0;
        for (line, number) in bytes
            .split_inclusive(|&byte| byte == b'\n')
            .zip(first_line..)
        {
            let end = start + line.len();
            let id = self.id(&of, number, line);
            match &id {
                Ok(None) => {}
                Ok(Some(_)) => {
                    self.account.documents += 1;
                    self.account.bytes += line.len().to_u64();
                }
                Err(_) => self.account.records_left_out += 1,
            }
            let place = Place::line(&of.file, number);
            visit(RawLine {
                bytes: start..end,
                place,
                id,
                is_text: of.records == Records::Lines,
            });
            start = end;
        }
        clear_buffer(&mut self.copy);
        self.tokens.clear();
        self.blots.clear();
        Ok(bytes)
    }

    fn id(&mut self, of: &Container, number: u64, line: &[u8]) -> Result<Option<String>, String> {
        let Self {
            fields,
            lossy,
            copy,
            tokens,
            blots,
            ..
        } = self;
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        let mut line = line;
        if std::str::from_utf8(line).is_err() {
            copy.clear();
            copy.extend_from_slice(line);
            ensure_utf8(copy, *lossy)?;
            line = copy;
        }
        let found = if of.records == Records::Lines {
            None
        } else {
            fields.parse_id(line, tokens, blots)?
        };
        Ok(Some(
            found.map_or_else(|| format!("{}:{number}", of.id), Into::into),
        ))
    }
}

/// The bytes of a chunk, if it is lines that are a document each, and the number of the first. A stream of ours is not: what
/// passes of it would lack its end.
pub fn copy_lines(chunk: &Chunk) -> Result<(Vec<u8>, u64)> {
    let not_lines = |file: std::sync::Arc<str>| {
        let what = format!(
            "not a document a line; {} or {} reads it as if it were",
            Setting::Records.to("ndjson"),
            Setting::Records.to("lines")
        );
        Err(Error::damaged(Place::file(file), what))
    };
    match chunk {
        Chunk::Records { of, .. } | Chunk::Block { of, .. } if of.header.is_some() => {
            Err(Error::damaged(
                Place::file(of.file.clone()),
                "a stream of tokens or prints; only documents can be passed on as they came",
            ))
        }
        Chunk::Records {
            of,
            first_line,
            bytes,
        } if of.is_lines() => Ok((bytes.clone(), *first_line)),
        Chunk::Problem(Problem { place, what }) => Err(Error::damaged(
            place.clone(),
            what.strip_suffix(LEFT_OUT).unwrap_or(what),
        )),
        Chunk::Opened(_) | Chunk::Passed(_) => Ok((Vec::new(), 1)),
        Chunk::Skipped(left) if left.is_error() => Err(Error::damaged(
            left.problem.place.clone(),
            &*left.problem.what,
        )),
        Chunk::Skipped(_) => Ok((Vec::new(), 1)),
        Chunk::Files(entries) => {
            let first = entries.first();
            not_lines(first.map_or_else(|| "a file".into(), |entry| entry.name()))
        }
        Chunk::Whole { file, .. } => not_lines(file.clone()),
        Chunk::Records { of, .. } | Chunk::Rows { of, .. } | Chunk::Block { of, .. } => {
            not_lines(of.file.clone())
        }
    }
}

fn not_lines(file: impl Into<std::sync::Arc<str>>) -> Error {
    let what = format!(
        "not a document a line; {} reads it as if it were, dedup-extract pairs says which whole files are alike",
        Setting::Records.to("ndjson")
    );
    Error::damaged(Place::file(file), what)
}
