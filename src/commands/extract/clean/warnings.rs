//! What a careful engineer would look at before the originals are thrown away.

use super::{CleanRules, Cleaned, Collection, decide::Compared, members::Member};
use crate::{
    base::{
        error::{Error, Result},
        ids::ContentNo,
        num::{ToU64, ToUsize},
    },
    commands::{BlotOptions, DocumentStage, Settings, StageOutput, blot::DocumentBlotter, run},
    index::{BlotTarget, Index},
    text::corpus::{Content, InputDocument, Source},
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Something that may be wrong with what was decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "warning")]
pub enum CleanWarning {
    /// More than half of the documents go.
    MostGo {
        /// Documents that go.
        dropped: u64,
        /// All documents.
        read: u64,
    },
    /// More than a hundredth of all documents go because of one.
    LargeGroup {
        /// The document that stays.
        id: String,
        /// How many go because of it.
        dropped: u64,
    },
    /// Many documents share a text that is a small part of each.
    Boilerplate {
        /// How many documents have it.
        documents: u64,
        /// Its first words.
        text: String,
    },
}

impl fmt::Display for CleanWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MostGo { dropped, read } => write!(
                f,
                "more than half of the documents go ({dropped} of {read}); look at the records of what is dropped before you throw the originals away"
            ),
            Self::LargeGroup { id, dropped } => write!(
                f,
                "{dropped} documents go because of '{}'; look at some of them",
                id.escape_debug()
            ),
            Self::Boilerplate { documents, text } => write!(
                f,
                "{documents} documents share a text that starts with \"{}\"",
                text.escape_debug()
            ),
        }
    }
}

/// A group that is smaller is not worth a word.
const LEAST_GROUP: u64 = 100;
/// A hundredth of the collection.
const LARGE_GROUP: u64 = 100;
/// A twentieth.
const COMMON: usize = 20;
/// Of a text that many share.
const LEAST_DOCUMENTS: usize = 20;

/// Everything that may be wrong.
pub fn warnings(
    rules: &CleanRules,
    cleaned: &Cleaned,
    compared: &Compared<'_>,
    collection: &Collection<'_>,
) -> Result<Vec<CleanWarning>> {
    let mut warnings = Vec::new();
    if cleaned.dropped() > cleaned.kept {
        warnings.push(CleanWarning::MostGo {
            dropped: cleaned.dropped(),
            read: cleaned.read,
        });
    }
    let is_large =
        |group: &&(String, u64)| group.1 >= LEAST_GROUP && group.1 * LARGE_GROUP > cleaned.read;
    let groups = cleaned.largest.iter().filter(is_large);
    warnings.extend(groups.map(|(id, dropped)| CleanWarning::LargeGroup {
        id: id.clone(),
        dropped: *dropped,
    }));
    let least = (compared.members.list.len() / COMMON).max(LEAST_DOCUMENTS);
    if rules.cut.is_none()
        && let Some((content, documents)) = compared.discovery.most_used(least)?
        && let Some(text) = first_words(content, least, compared, collection)?
    {
        warnings.push(CleanWarning::Boilerplate {
            documents: documents.to_u64(),
            text,
        });
    }
    Ok(warnings)
}

/// The first words of what a content shares with many others.
fn first_words(
    content: ContentNo,
    least: usize,
    compared: &Compared<'_>,
    collection: &Collection<'_>,
) -> Result<Option<String>> {
    let has_it = |member: &&Member| compared.view.content_of(member.document) == content;
    let Some(member) = compared.members.list.iter().find(has_it) else {
        return Ok(None);
    };
    let entry = &collection.shards.shards[member.shard.to_usize()].entry;
    let settings = Settings {
        corpus: collection.settings.corpus.clone(),
        ..collection.settings.clone()
    };
    let mut source = Source::of(vec![entry.clone()], settings.corpus.clone(), 1)?;
    let blots =
        DocumentBlotter::for_comparison(&BlotOptions::default(), collection.index)?.with_spans();
    blots.expect_in(&mut source);
    let stage = CommonText {
        blots,
        index: collection.index,
        record: member.record,
        least,
    };
    let mut text = None;
    run(
        &stage,
        source,
        &settings,
        &mut super::Quiet,
        |found: FoundText, _| {
            text = text.take().or(found.0);
            Ok(())
        },
    )?;
    Ok(text)
}

/// Finds the first window of a document that many others have.
#[derive(Clone)]
struct CommonText<'s> {
    blots: DocumentBlotter,
    index: &'s Index,
    record: u64,
    least: usize,
}

#[derive(Default)]
struct FoundText(Option<String>);

impl StageOutput for FoundText {
    fn drop_documents(&mut self, _: &[usize]) {}

    fn weight(&self) -> u64 {
        0
    }
}

/// Of the text that a message shows.
const SHOWN_BYTES: usize = 60;

impl DocumentStage for CommonText<'_> {
    type Out = FoundText;
    const IDS_ARE_UNIQUE: bool = false;

    fn take(&mut self, item: &InputDocument<'_>, out: &mut FoundText) -> Result<(), String> {
        let Content::Text(text) = item.content else {
            return Ok(());
        };
        if item.record != self.record {
            return Ok(());
        }
        // An index without windows of consecutive tokens has no text to show.
        let Ok(windows) = self.blots.windows(item) else {
            return Ok(());
        };
        for (blot, position) in windows.iter() {
            let count = contents_with(self.index, blot).map_err(|error| error.to_string())?;
            if count >= self.least {
                let span = windows.span(position, position);
                let shown = &text[span.start.to_usize()..];
                let end = (0..=SHOWN_BYTES.min(shown.len()))
                    .rev()
                    .find(|&at| shown.is_char_boundary(at));
                out.0 = Some(
                    shown[..end.unwrap_or(0)]
                        .split_whitespace()
                        .collect::<Vec<_>>()
                        .join(" "),
                );
                return Ok(());
            }
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut FoundText) {
        self.blots.release_buffers();
    }
}

/// In how many contents a blot is.
fn contents_with(index: &Index, blot: u64) -> Result<usize, Error> {
    let (mut count, mut places) = (0, Vec::new());
    for segment in &index.segments {
        let mut found: Vec<Option<BlotTarget>> = Vec::new();
        segment.find_all(&[blot], index.scheme.bits, &mut found)?;
        for target in found.into_iter().flatten() {
            segment.places(target, &mut places)?;
            count += places.len();
        }
    }
    Ok(count)
}
