//! The beginning of an input, from which its format is recognised.
//!
//! Of a file in a directory whose name is that of a text, or says nothing, only a few bytes are read, and more only if they
//! may begin records or an archive: this keeps trees of many small texts fast. Of a pipe only the
//! first line is waited for.

use super::{
    Options,
    archive::ArchiveFormat,
    chunk::READ_BYTES,
    skipped_kind::BOM,
    unpack::{Input, Once, Packing, peek, unpack},
    walk::FileEntry,
};
use crate::base::num::ToU64;
use crate::text::stream::MAGIC;
use encoding_rs::Encoding;
use serde::de::IgnoredAny;
use std::io::{self, BufRead, BufReader, Read};

/// How much of a file is read to tell what it holds; more if its first line is longer and may be JSON.
const SNIFF_BYTES: usize = 1 << 16;
/// How much of a file with the name of a text is read to tell whether more must be: the first block of a tar file.
const PEEK_BYTES: usize = 512;

/// What was learned of an input from its beginning.
pub struct Sniffed {
    /// The first bytes, the whole first line where it may be JSON; of a pipe no more than is needed to tell.
    pub head: Vec<u8>,
    /// A byte-order mark came before them, and was taken away.
    pub has_bom: bool,
    /// The head is all there is.
    is_whole: bool,
    /// What the input is packed in.
    pub packing: Packing,
    /// As if the head had not been read.
    pub input: Input,
}

impl Sniffed {
    /// Reads the beginning of a file or pipe. No more of a line is read to tell what it is than a document may have.
    pub fn open(entry: &FileEntry, options: &Options) -> io::Result<Self> {
        let most_bytes = options.max_document;
        let (packing, input) = if entry.is_stdin() {
            unpack(BufReader::with_capacity(READ_BYTES, Once::new(io::stdin())))?
        } else {
            unpack(BufReader::with_capacity(
                READ_BYTES,
                Once::new(entry.open()?),
            ))?
        };
        let sniffed = if entry.is_regular {
            Self::of_file(input, most_bytes)?
        } else {
            Self::of_pipe(input, most_bytes)?
        };
        Ok(Self { packing, ..sniffed })
    }

    /// Whether the first bytes of a file that is not packed let it be more than one document. A file that cannot be read is not one to look at here.
    pub fn may_hold_records(entry: &FileEntry) -> bool {
        may_begin_records(&first_bytes(entry))
    }

    /// The same of a file whose name says nothing.
    pub fn may_hold_anything(entry: &FileEntry) -> bool {
        may_begin_anything(&first_bytes(entry))
    }

    /// Reads the beginning of a regular file.
    pub fn of_file(mut input: Input, most_bytes: u64) -> io::Result<Self> {
        let mut head = Vec::new();
        let failed = input
            .by_ref()
            .take(SNIFF_BYTES.to_u64())
            .read_to_end(&mut head)
            .err();
        if let Some(error) = failed {
            if head.is_empty() {
                return Err(error);
            }
            // What came before the damage is good, and tells what the file is.
            input = Box::new(BufReader::new(Failing(Some(error))));
        }
        let mut is_whole = head.len() < SNIFF_BYTES;
        let has_bom = head.starts_with(BOM);
        if has_bom {
            head.drain(..BOM.len());
        }
        if !is_whole && !head.contains(&b'\n') && may_be_json(&head) {
            let room = (most_bytes + 1).saturating_sub(head.len().to_u64());
            input.by_ref().take(room).read_until(b'\n', &mut head)?;
            is_whole = head.last() != Some(&b'\n') && head.len().to_u64() <= most_bytes;
        }
        Ok(Self::with(head, has_bom, is_whole, input))
    }

    /// Waits for no byte that is not needed: a person who types a line expects an answer to it.
    fn of_pipe(mut input: Input, most_bytes: u64) -> io::Result<Self> {
        if is_container(input.fill_buf()?) {
            let mut head = Vec::new();
            input
                .by_ref()
                .take(SNIFF_BYTES.to_u64())
                .read_to_end(&mut head)?;
            let is_whole = head.len() < SNIFF_BYTES;
            return Ok(Self::with(head, false, is_whole, input));
        }
        let (mut head, mut input) = peek(input, is_undecided)?;
        let has_bom = head.starts_with(BOM);
        if has_bom {
            input.read_exact(&mut [0; BOM.len()])?;
            head.drain(..BOM.len());
        }
        if !head.trim_ascii_start().starts_with(b"{") {
            let is_whole = head.is_empty();
            return Ok(Self {
                head,
                has_bom,
                is_whole,
                packing: Packing::Plain,
                input: Box::new(input),
            });
        }
        head.clear();
        input
            .by_ref()
            .take(most_bytes + 1)
            .read_until(b'\n', &mut head)?;
        Ok(Self::with(head, has_bom, false, Box::new(input)))
    }

    fn with(head: Vec<u8>, has_bom: bool, is_whole: bool, rest: Input) -> Self {
        let input = Box::new(io::Cursor::new(head.clone()).chain(rest));
        Self {
            head,
            has_bom,
            is_whole,
            packing: Packing::Plain,
            input,
        }
    }

    /// The beginning alone, decoded.
    pub fn decoded(&self, encoding: &'static Encoding) -> Self {
        let (head, _, _) = encoding.decode(&self.head);
        Self {
            head: head.into_owned().into_bytes(),
            input: Box::new(io::empty()),
            ..*self
        }
    }

    /// The same, of an input that was packed.
    pub fn packed_in(self, packing: Packing) -> Self {
        Self { packing, ..self }
    }

    /// Not a byte.
    pub fn is_empty(&self) -> bool {
        self.is_whole && self.head.is_empty() && !self.has_bom
    }

    /// The lines that are known to be whole, blank ones left out.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        let end = if self.is_whole {
            self.head.len()
        } else {
            memchr::memrchr(b'\n', &self.head).map_or(self.head.len(), |at| at + 1)
        };
        self.head[..end]
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.trim_ascii().is_empty())
    }
}

/// A few bytes of a file; none if it cannot be read.
fn first_bytes(entry: &FileEntry) -> Vec<u8> {
    let mut head = vec![0; PEEK_BYTES];
    // A regular file gives them in one read.
    let count = entry.open().and_then(|mut file| file.read(&mut head));
    head.truncate(count.unwrap_or(0));
    head
}

/// Whether the first bytes of a file with the name of a text let it be more than one document.
pub fn may_begin_records(head: &[u8]) -> bool {
    let text = head.strip_prefix(BOM).unwrap_or(head).trim_ascii_start();
    text.starts_with(b"{") || (text.is_empty() && !head.is_empty()) || is_container(head)
}

/// The same of a file whose name says nothing: whatever is no ASCII may be UTF-16 or binary, and must be looked at more closely.
fn may_begin_anything(head: &[u8]) -> bool {
    let is_ascii_text = head.is_ascii() && !head.contains(&0);
    !is_ascii_text || may_begin_records(head) || head.trim_ascii_start().starts_with(b"[")
}

/// Whether bytes begin something that is no text and holds documents. Of a pipe as many are known as came at once:
/// programs that write archives and tables do not write them byte by byte.
fn is_container(head: &[u8]) -> bool {
    const SIGNATURES: [&[u8]; 5] = [&MAGIC, b"PK\x03\x04", b"PAR1", b"WARC/", b"%PDF-"];
    SIGNATURES
        .iter()
        .any(|signature| head.starts_with(signature))
        || Packing::of(head) != Packing::Plain
        || ArchiveFormat::of(head).is_some()
}

/// An input that cannot be read on.
struct Failing(Option<io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// Whether a line is a JSON object.
pub fn is_object(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

/// Whether a line may go on so that it is an object.
fn may_be_json(head: &[u8]) -> bool {
    head.trim_ascii_start().starts_with(b"{")
        && serde_json::from_slice::<IgnoredAny>(head).map_or_else(|error| error.is_eof(), |_| true)
}

/// Whether more bytes are needed to tell what an input is: a binary stream, something that may be JSON, or neither.
fn is_undecided(head: &[u8]) -> bool {
    let rest = head.strip_prefix(BOM).unwrap_or(head);
    let may_be_bom = head.len() < BOM.len() && BOM.starts_with(head);
    // What follows a bracket tells an array of objects from a text.
    let may_be_array = rest
        .trim_ascii_start()
        .strip_prefix(b"[")
        .is_some_and(|rest| rest.trim_ascii().is_empty());
    // The mark of UTF-16.
    let may_be_wide = matches!(head, [0xff] | [0xfe]);
    may_be_bom
        || may_be_wide
        || may_be_array
        || (rest.len() < MAGIC.len() && (MAGIC.starts_with(rest) || rest.trim_ascii().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one line, and must not be asked for another.
    struct OneLine(Option<&'static [u8]>);

    impl Read for OneLine {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let line = self.0.take().expect("a read too many");
            buffer[..line.len()].copy_from_slice(line);
            Ok(line.len())
        }
    }

    #[test]
    fn a_line_that_has_come_is_enough_to_tell() {
        for (line, head, has_bom) in [
            (&b"x\n"[..], &b"x"[..], false),
            (b"{}\n", b"{}\n", false),
            (b"\xef\xbb\xbf{}\n", b"{}\n", true),
            (b"\xef\xbb\xbfx", b"x", true),
            (b"\x89D\n", b"\x89D\n", false),
        ] {
            let sniffed =
                Sniffed::of_pipe(Box::new(BufReader::new(OneLine(Some(line)))), 1 << 20).unwrap();
            assert_eq!((&sniffed.head[..], sniffed.has_bom), (head, has_bom));
        }
    }
}
