//! The tokens of all contents of an index of shared chunks: which chunks are shared changes with
//! every document, and no document is read again for that. They also hold the text of chunks.
//!
//! Contents stand in the order of their first documents, in frames of about two million tokens
//! ([`frame`]). Which content ends a frame depends on its hash, so that a change of some documents
//! leaves the frames of others as they are, and yet gives the bytes of a full run.

mod chunk_texts;
mod frame;
mod store_writer;

pub use chunk_texts::ChunkTexts;
pub use frame::{Frame, FrameEncoder, FrameHashes};
pub use store_writer::{ContentTokens, TokenSource, TokenStoreWriter};

use super::{manifest::Manifest, sections, view::View};
use crate::base::{error::Result, files::Sealed, ids::ContentNo, num::ToUsize};
use serde::{Deserialize, Serialize};
use std::{ops::Range, path::Path};

#[derive(Debug, Serialize, Deserialize)]
struct TokenStoreDescription {
    kind: String,
    scheme: String,
    frames: Vec<FrameEntry>,
}

/// Where a frame is, and how much it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FrameEntry {
    start: u64,
    bytes: u64,
    contents: u64,
    tokens: u64,
}

/// The stored tokens of an index.
pub struct TokenStore {
    file: Sealed,
    frames: Vec<FrameEntry>,
    /// The contents of each frame.
    ranges: Vec<Range<usize>>,
    /// Where the tokens of each content end in its frame.
    ends: Vec<usize>,
}

impl TokenStore {
    /// Opens the tokens of an index, if it has any.
    pub fn of(manifest: &Manifest, directory: &Path, view: &View<'_>) -> Result<Option<Self>> {
        let Some(seal) = manifest.state.first().or(manifest.texts.as_ref()) else {
            return Ok(None);
        };
        let file = seal.open(directory)?;
        let tokens = view.contents().iter().map(|content| content.tokens);
        Self::new(file, tokens, &manifest.scheme).map(Some)
    }

    /// Checks the description against the number of tokens of each content.
    fn new(file: Sealed, tokens: impl Iterator<Item = u32>, scheme: &str) -> Result<Self> {
        let TokenStoreDescription {
            kind,
            scheme: found,
            frames,
        } = file.describe()?;
        let is_known = kind == sections::TOKENS.kind || kind == sections::TEXTS.kind;
        if !is_known || found != scheme {
            return Err(file.damaged(0, format!("not the tokens of an index of '{scheme}'")));
        }
        let wrong = || file.damaged(0, "the frames do not hold the tokens of the documents");
        let (mut tokens, mut ends) = (tokens, Vec::new());
        let mut ranges = Vec::with_capacity(frames.len());
        for frame in &frames {
            let (start, mut sum) = (ends.len(), 0_u64);
            for _ in 0..frame.contents {
                sum += u64::from(tokens.next().ok_or_else(wrong)?);
                ends.push(sum.to_usize());
            }
            if sum != frame.tokens {
                return Err(wrong());
            }
            ranges.push(start..ends.len());
        }
        if tokens.next().is_some() {
            return Err(wrong());
        }
        Ok(Self {
            file,
            frames,
            ranges,
            ends,
        })
    }

    /// The number of frames.
    pub fn frames(&self) -> usize {
        self.frames.len()
    }

    /// The contents of a frame.
    pub fn contents(&self, frame: usize) -> Range<usize> {
        self.ranges[frame].clone()
    }

    /// The frame of a content.
    pub fn frame_of(&self, content: usize) -> usize {
        self.ranges.partition_point(|range| range.end <= content)
    }

    /// The tokens of a content in its frame.
    pub fn place(&self, content: usize) -> Range<usize> {
        let first = self.ranges[self.frame_of(content)].start;
        let start = if content == first {
            0
        } else {
            self.ends[content - 1]
        };
        start..self.ends[content]
    }

    /// The packed bytes of a frame.
    fn packed(&self, frame: usize) -> Result<&[u8]> {
        let FrameEntry { start, bytes, .. } = self.frames[frame];
        self.file.bytes(start, bytes)
    }

    /// Unpacks a frame.
    pub fn read(&self, frame: usize) -> Result<Frame> {
        let entry = &self.frames[frame];
        let read = Frame::decode(self.packed(frame)?, entry.tokens);
        let read = read.ok_or_else(|| {
            self.file
                .damaged(entry.start, "a frame of tokens does not fit")
        });
        self.file
            .release_bytes(entry.start..entry.start + entry.bytes);
        read
    }

    /// Calls `each` with the hashes of the tokens of every content of a frame, in order.
    pub fn for_each_content(
        &self,
        frame: usize,
        mut each: impl FnMut(usize, &[u64]),
    ) -> Result<()> {
        let entry = &self.frames[frame];
        let wrong = || {
            self.file
                .damaged(entry.start, "a frame of tokens does not fit")
        };
        let opened = FrameHashes::open(self.packed(frame)?, entry.tokens);
        let mut hashes = opened.ok_or_else(wrong)?;
        for content in self.contents(frame) {
            let tokens = self.place(content).len();
            each(content, hashes.take(tokens).ok_or_else(wrong)?);
        }
        self.file
            .release_bytes(entry.start..entry.start + entry.bytes);
        Ok(())
    }

    /// The tokens of a content, each as text.
    pub fn tokens(&self, content: ContentNo) -> Result<Vec<String>> {
        let place = self.place(content.index());
        let frame = self.read(self.frame_of(content.index()))?;
        let text = |&number: &u32| String::from_utf8_lossy(frame.word(number)).into_owned();
        Ok(frame.tokens[place].iter().map(text).collect())
    }

    /// The size of the file.
    pub fn bytes(&self) -> u64 {
        self.file.file_bytes()
    }
}

/// A frame has about this many tokens.
pub const FRAME_TOKENS: u64 = 1 << 21;
/// A frame ends when it has this many times as much, whatever the hashes say.
const LARGEST: u64 = 4;

/// Cuts contents, given by hash and number of tokens, into frames.
///
/// A content ends a frame with a probability of its tokens by those of a frame. So most frames that
/// a change does not touch stay as they are.
fn cut(contents: impl Iterator<Item = (u128, u32)>, frame_tokens: u64) -> Vec<Range<usize>> {
    let (mut frames, mut start, mut tokens) = (Vec::new(), 0, 0_u64);
    let mut end = 0;
    for (hash, more) in contents {
        end += 1;
        tokens += u64::from(more);
        let is_last = (hash % u128::from(frame_tokens)) < u128::from(more);
        if is_last || tokens >= LARGEST * frame_tokens {
            frames.push(start..end);
            (start, tokens) = (end, 0);
        }
    }
    if start < end {
        frames.push(start..end);
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_change_leaves_later_frames_as_they_are(
            contents in prop::collection::vec((any::<u128>(), 0_u32..9), 0..60), at: prop::sample::Index, frame_tokens in 1_u64..30,
        ) {
            let frames = cut(contents.iter().copied(), frame_tokens);
            let all: Vec<usize> = frames.iter().cloned().flatten().collect();
            prop_assert_eq!(all, (0..contents.len()).collect::<Vec<_>>());
            for frame in &frames {
                let tokens = |range: Range<usize>| contents[range].iter().map(|(_, tokens)| u64::from(*tokens)).sum::<u64>();
                prop_assert!(tokens(frame.start..frame.end - 1) < LARGEST * frame_tokens);
            }
            if contents.is_empty() {
                return Ok(());
            }
            // After the first end by hash that follows a change, everything is as before.
            let at = at.index(contents.len());
            let mut fewer = contents.clone();
            fewer.remove(at);
            let is_end = |(hash, tokens): &(u128, u32)| hash % u128::from(frame_tokens) < u128::from(*tokens);
            if let Some(end) = fewer[at..].iter().position(is_end) {
                let end = at + end + 1;
                let later = |frames: Vec<Range<usize>>, first: usize| frames.into_iter().filter(|frame| frame.start >= first).map(|frame| frame.len()).collect::<Vec<_>>();
                prop_assert_eq!(later(cut(fewer.into_iter(), frame_tokens), end), later(frames, end + 1));
            }
        }
    }
}
