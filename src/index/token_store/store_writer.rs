//! Writes the tokens of an index: new contents, and those of the index before a change.

use super::{Frame, FrameEncoder, FrameEntry, TokenStore, TokenStoreDescription, cut};
use crate::{
    base::{
        error::{Error, Result},
        files::{SealedWriter, TempFile},
        num::ToU64,
        parallel,
    },
    index::{manifest::FileSeal, sections::SectionKind},
    text::stream::SEPARATOR,
};
use std::{io::Write, ops::Range, path::PathBuf};

/// The tokens of a content, and where they are.
#[derive(Debug, Clone)]
pub struct ContentTokens {
    /// The hash of the tokens.
    pub hash: u128,
    /// Their number.
    pub tokens: u32,
    /// Where they are.
    pub source: TokenSource,
}

/// Where the tokens of a content are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// Under this number in the store of the index before the change.
    Stored(usize),
    /// At this place of the temporary file: each token, followed by a separator.
    New(Range<u64>),
}

/// Writes the tokens of an index.
pub struct TokenStoreWriter<'a> {
    /// The tokens before the change.
    pub old: Option<&'a TokenStore>,
    /// The tokens of new contents.
    pub texts: &'a TempFile,
    /// The scheme of the index.
    pub scheme: &'a str,
    /// What the file is for.
    pub section: &'static SectionKind,
    /// About as many tokens are in a frame.
    pub frame_tokens: u64,
    /// How many threads pack frames.
    pub threads: usize,
}

/// A frame to write.
enum FrameTask {
    /// One of the store before the change.
    Copy(usize),
    /// These contents.
    Pack(Range<usize>),
}

impl TokenStoreWriter<'_> {
    /// Writes the tokens of all contents, in order.
    pub fn write(&self, path: PathBuf, contents: &[ContentTokens]) -> Result<FileSeal> {
        let failed = |error| Error::io(path.display(), error);
        let mut out = SealedWriter::create(&path).map_err(failed)?;
        let mut frames = Vec::new();
        let ranges = cut(
            contents
                .iter()
                .map(|content| (content.hash, content.tokens)),
            self.frame_tokens,
        );
        let worker = || {
            let mut packer = FramePacker {
                encoder: FrameEncoder::default(),
                old: None,
                text: Vec::new(),
            };
            move |range: Range<usize>| -> Result<(Range<usize>, Vec<u8>)> {
                let bytes = match self.task(&contents[range.clone()], &range) {
                    FrameTask::Copy(frame) => match self.old {
                        Some(old) => old.packed(frame)?.to_vec(),
                        None => Vec::new(),
                    },
                    FrameTask::Pack(range) => packer.pack(self, &contents[range])?,
                };
                Ok((range, bytes))
            }
        };
        parallel::ordered_items(
            self.threads,
            ranges.into_iter(),
            worker,
            |packed: Result<_>| {
                let (range, bytes) = packed?;
                let tokens = contents[range.clone()]
                    .iter()
                    .map(|content| u64::from(content.tokens));
                frames.push(FrameEntry {
                    start: out.position(),
                    bytes: bytes.len().to_u64(),
                    contents: range.len().to_u64(),
                    tokens: tokens.sum(),
                });
                out.write_all(&bytes).map_err(failed)
            },
        )?;
        let description = TokenStoreDescription {
            kind: self.section.kind.to_owned(),
            scheme: self.scheme.to_owned(),
            frames,
        };
        out.finish(&description).map_err(failed)?;
        FileSeal::of(&path)
    }

    /// Whether a frame is one of the store before the change.
    fn task(&self, contents: &[ContentTokens], range: &Range<usize>) -> FrameTask {
        if let (Some(old), Some(TokenSource::Stored(first))) =
            (self.old, contents.first().map(|content| &content.source))
        {
            let frame = old.frame_of(*first);
            let is_same = old.contents(frame).len() == contents.len()
                && contents
                    .iter()
                    .zip(old.contents(frame))
                    .all(|(content, at)| content.source == TokenSource::Stored(at));
            if is_same {
                return FrameTask::Copy(frame);
            }
        }
        FrameTask::Pack(range.clone())
    }
}

/// Packs frames on one thread.
struct FramePacker {
    encoder: FrameEncoder,
    /// The frame of the old store that was read last.
    old: Option<(usize, Frame)>,
    text: Vec<u8>,
}

impl FramePacker {
    fn pack(
        &mut self,
        writer: &TokenStoreWriter<'_>,
        contents: &[ContentTokens],
    ) -> Result<Vec<u8>> {
        for content in contents {
            match (&content.source, writer.old) {
                (TokenSource::New(range), _) => self.push_text(writer.texts, range)?,
                (TokenSource::Stored(content), Some(old)) => self.push_stored(old, *content)?,
                (TokenSource::Stored(_), None) => {}
            }
        }
        let failed = |error| Error::io("packing tokens", error);
        self.encoder.finish().map_err(failed)
    }

    fn push_text(&mut self, texts: &TempFile, range: &Range<u64>) -> Result<()> {
        self.text.resize((range.end - range.start) as usize, 0);
        texts.read_at(&mut self.text, range.start)?;
        let mut start = 0;
        for end in memchr::memchr_iter(SEPARATOR, &self.text) {
            self.encoder.push(&self.text[start..end]);
            start = end + 1;
        }
        Ok(())
    }

    fn push_stored(&mut self, old: &TokenStore, content: usize) -> Result<()> {
        let number = old.frame_of(content);
        let frame = match self.old.take() {
            Some((read, frame)) if read == number => frame,
            _ => old.read(number)?,
        };
        for &token in &frame.tokens[old.place(content)] {
            self.encoder.push(frame.word(token));
        }
        self.old = Some((number, frame));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::files::{Sealed, TempDir},
        index::sections::TOKENS,
    };
    use proptest::prelude::*;
    use xxhash_rust::xxh3::xxh3_128;

    const SCHEME: &str = "word@18.0 ordered:8:40 spex";

    fn write(
        path: PathBuf,
        texts: &[String],
        old: Option<(&TokenStore, &[String])>,
        frame_tokens: u64,
    ) -> Vec<u8> {
        let mut file = TempFile::new(&TempDir(None)).unwrap();
        let contents: Vec<ContentTokens> = texts
            .iter()
            .map(|text| {
                let lines: String = text.split(' ').map(|word| format!("{word}\n")).collect();
                let known = old.and_then(|(_, texts)| texts.iter().position(|known| known == text));
                ContentTokens {
                    hash: xxh3_128(lines.as_bytes()),
                    tokens: lines.lines().count() as u32,
                    source: match known {
                        Some(at) => TokenSource::Stored(at),
                        None => TokenSource::New(file.append(lines.as_bytes()).unwrap()),
                    },
                }
            })
            .collect();
        TokenStoreWriter {
            old: old.map(|(store, _)| store),
            texts: &file,
            scheme: SCHEME,
            section: &TOKENS,
            frame_tokens,
            threads: 2,
        }
        .write(path.clone(), &contents)
        .unwrap();
        std::fs::read(path).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// However a store came to hold its contents, it has the same bytes.
        #[test]
        fn a_changed_store_is_a_new_one(
            one in prop::collection::btree_set("[a-d]( [a-d]){0,9}", 0..20), two in prop::collection::btree_set("[a-e]( [a-e]){0,9}", 0..20), frame_tokens in 1_u64..40,
        ) {
            let directory = tempfile::tempdir().unwrap();
            let path = |name: &str| directory.path().join(name);
            let (one, two): (Vec<String>, Vec<String>) = (one.into_iter().collect(), two.into_iter().collect());
            write(path("one"), &one, None, frame_tokens);
            let tokens = one.iter().map(|text| text.split(' ').count() as u32);
            let old = TokenStore::new(Sealed::open(&path("one")).unwrap(), tokens, SCHEME).unwrap();
            for (number, text) in one.iter().enumerate() {
                let read = old.tokens(crate::base::ids::ContentNo::from_index(number)).unwrap();
                prop_assert_eq!(&read.join(" "), text);
            }
            let whole = write(path("two"), &two, None, frame_tokens);
            prop_assert_eq!(write(path("changed"), &two, Some((&old, &one)), frame_tokens), whole);
        }
    }
}
