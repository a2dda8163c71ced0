//! The lines of a chunk: which document of the index each is.

use super::NONE;
use crate::base::ids::DocNo;
use crate::base::num::{ToU32, ToUsize};
use crate::{
    base::error::{At, Place, Problem, Result},
    commands::Settings,
    index::{Index, View},
    text::{
        corpus::{Account, Chunk, LineReader, RawLine, ensure_utf8},
        stream::{Blots, Line, LineParser, Tokens},
        token::SchemeTokenizer,
    },
};
use std::{ops::Range, sync::Arc};

/// The lines of a chunk, and what is known of each.
#[derive(Default)]
pub struct ClassifiedLines {
    /// Of the first line.
    pub place: Option<Place>,
    pub bytes: Vec<u8>,
    pub lines: Vec<(Range<usize>, LineClass)>,
    pub problems: Vec<Problem>,
    pub account: Account,
}

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineClass {
    /// Blank, or not a document.
    Passed,
    /// Not in the index.
    Unknown,
    /// In the index, with another text.
    Changed,
    /// Its id came before.
    Repeated,
    /// In the index as it is here.
    Known(u32),
}

impl LineClass {
    pub fn is_document(&self) -> bool {
        !matches!(self, Self::Passed)
    }
}

impl ClassifiedLines {
    /// Bytes of memory, about: a place or a message takes some sixty on the heap.
    pub fn weight(&self) -> u64 {
        let parts = self.lines.len() * (size_of::<(Range<usize>, LineClass)>() + 60)
            + self.problems.len() * (size_of::<Problem>() + 120);
        (self.bytes.capacity() + parts) as u64
    }

    /// Documents that the index has as they are, in order.
    pub fn documents(&self) -> impl Iterator<Item = u32> {
        self.lines.iter().filter_map(|(_, class)| {
            if let LineClass::Known(document) = class {
                Some(*document)
            } else {
                None
            }
        })
    }

    /// Marks lines of documents that came before, here or earlier, and says so.
    pub fn mark_repeated(&mut self, view: &View<'_>, is_seen: &mut [bool]) -> Result<()> {
        for (number, (_, class)) in (0..).zip(&mut self.lines) {
            let LineClass::Known(document) = *class else {
                continue;
            };
            if std::mem::replace(&mut is_seen[document.to_usize()], true) {
                *class = LineClass::Repeated;
                let what = format!(
                    "a line with the id '{}' came before; this one is kept",
                    view.id(DocNo::new(document))?
                );
                self.problems.extend(
                    self.place
                        .as_ref()
                        .map(|first| Problem::new(nth_line(first, number), what)),
                );
            }
        }
        self.problems.sort_by_key(|problem| problem.place.at);
        Ok(())
    }
}

fn nth_line(first: &Place, number: u64) -> Place {
    match first.at {
        At::Line(line) => Place::line(&first.file, line + number),
        _ => first.clone(),
    }
}

/// Finds the documents of lines; each thread has its own.
#[derive(Clone)]
pub struct LineClassifier<'i> {
    index: &'i Index,
    settings: &'i Settings,
    /// The document of each number of the index.
    document_of: Arc<[u32]>,
    tokenize: SchemeTokenizer,
    tokens: Tokens,
    blots: Blots,
}

impl<'i> LineClassifier<'i> {
    pub fn new(index: &'i Index, view: &View<'_>, settings: &'i Settings) -> Result<Self> {
        let mut document_of = vec![NONE; index.manifest.numbers.to_usize()];
        for document in 0..view.documents() {
            document_of[view.row(DocNo::from_index(document))?.number as usize] = document.to_u32();
        }
        let (tokenize, tokens, blots) = (
            SchemeTokenizer::new(&index.scheme.tokens),
            Tokens::default(),
            Blots::default(),
        );
        Ok(Self {
            index,
            settings,
            document_of: document_of.into(),
            tokenize,
            tokens,
            blots,
        })
    }

    pub fn classify(&mut self, chunk: Chunk) -> Result<ClassifiedLines> {
        let (mut classified, mut found) = (ClassifiedLines::default(), Vec::new());
        let mut lines = LineReader::new(&self.settings.corpus);
        classified.bytes =
            lines.read(chunk, &mut |RawLine {
                                         bytes,
                                         place,
                                         id,
                                         is_text,
                                     }| match id {
                Ok(id) => {
                    classified.place.get_or_insert(place);
                    found.push((bytes, id, is_text));
                }
                Err(what) => {
                    classified.place.get_or_insert_with(|| place.clone());
                    classified
                        .problems
                        .push(Problem::new(place, format!("{what}; the line is kept")));
                    found.push((bytes, None, is_text));
                }
            })?;
        classified.account = lines.take_account();
        for (range, id, is_text) in found {
            let class = match id {
                None => LineClass::Passed,
                Some(id) => self.class(&id, &classified.bytes[range.clone()], is_text)?,
            };
            classified.lines.push((range, class));
        }
        self.tokens.clear();
        self.blots.clear();
        self.tokenize.release_buffers();
        Ok(classified)
    }

    fn class(&mut self, id: &str, line: &[u8], is_text: bool) -> Result<LineClass> {
        let Some(at) = self.index.find_id(id)? else {
            return Ok(LineClass::Unknown);
        };
        let row = self.index.row(at)?;
        let document = self
            .document_of
            .get(row.number.to_usize())
            .copied()
            .unwrap_or(NONE);
        let is_same = row
            .hash
            .zip(self.hash(line, is_text))
            .is_none_or(|(indexed, found)| indexed == found);
        Ok(match document {
            NONE => LineClass::Unknown,
            _ if !is_same => LineClass::Changed,
            _ => LineClass::Known(document),
        })
    }

    /// The hash over the tokens of a line's document; none if the line does not tell.
    fn hash(&mut self, line: &[u8], is_text: bool) -> Option<u128> {
        let mut copy;
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let mut line = line.strip_suffix(b"\r").unwrap_or(line);
        if std::str::from_utf8(line).is_err() {
            copy = line.to_vec();
            ensure_utf8(&mut copy, self.settings.corpus.lossy).ok()?;
            line = &copy;
        }
        if is_text {
            return self.hash_of(std::str::from_utf8(line).ok()?);
        }
        let fields: &LineParser = &self.settings.corpus.fields;
        match fields.parse(line, &mut self.tokens, &mut self.blots).ok()? {
            Line::Document { text, .. } => self.hash_of(&text),
            Line::Tokens(found) => Some(found.hash.unwrap_or_else(|| self.tokens.hash())),
            Line::Blots(found) | Line::Print(found, _) => found.hash,
            Line::Header(_) | Line::End { .. } => None,
        }
    }

    fn hash_of(&mut self, text: &str) -> Option<u128> {
        self.tokenize.tokenize(text, &mut self.tokens).ok()?;
        Some(self.tokens.hash())
    }
}
