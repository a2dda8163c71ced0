//! The documents of the collection: where each is in the input, and which document of the index it is.

use super::shards::ShardList;
use crate::{
    base::{
        error::{Error, Place, Result},
        ids::DocNo,
        num::{ToU32, ToUsize},
    },
    commands::BlotOptions,
    commands::{DocumentStage, Observer, Settings, StageOutput, blot::DocumentBlotter, run},
    index::{Index, View},
    text::corpus::{InputDocument, PlacedId, Source},
};
use std::ops::Range;

/// A document of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its file.
    pub shard: u32,
    /// Its number in the view.
    pub document: DocNo,
    /// Which record of the file it is.
    pub record: u64,
}

/// All documents that take part, in the order of the input.
#[derive(Debug, Default)]
pub struct Members {
    /// 16 bytes each.
    pub list: Vec<Member>,
    /// Ids are [`PlacedId`]s.
    pub has_placed_ids: bool,
    /// Documents that an index does not have: they stay.
    pub unknown: u64,
    /// Documents whose text is not the one in the index: they stay, and nothing is dropped for them.
    pub changed: u64,
    /// Documents whose id came before: they stay.
    pub repeated: u64,
}

impl Members {
    /// The documents of an index that was made of the input with placed ids. `documents`: those of the view that are of this index.
    /// Those of files that are not listed take no part.
    pub fn of_placed(view: &View<'_>, documents: Range<usize>, shards: &ShardList) -> Result<Self> {
        let mut members = Self {
            has_placed_ids: true,
            ..Self::default()
        };
        let mut last: Option<(String, Option<usize>)> = None;
        for document in documents {
            let document = DocNo::from_index(document);
            let id = view.id(document)?;
            let placed = PlacedId::parse(&id).ok_or_else(|| {
                Error::damaged(
                    Place::file("the index"),
                    format!("the id '{id}' has no place"),
                )
            })?;
            if last.as_ref().is_none_or(|(file, _)| file != placed.file) {
                last = Some((placed.file.to_owned(), shards.find_file(placed.file)));
            }
            if let Some((_, Some(shard))) = last {
                members.list.push(Member {
                    shard: shard.to_u32(),
                    document,
                    record: placed.record,
                });
            }
        }
        Ok(members)
    }

    /// The documents of the input that an index, which was made before, has as they are.
    pub fn of_index(
        index: &Index,
        view: &View<'_>,
        shards: &ShardList,
        settings: &Settings,
        observer: &mut dyn Observer,
    ) -> Result<Self> {
        let mut document_of = vec![None; index.manifest.numbers.to_usize()];
        for document in DocNo::first(view.documents()) {
            document_of[view.row(document)?.number.to_usize()] = Some(document);
        }
        let blots = DocumentBlotter::for_comparison(&BlotOptions::default(), index)?.with_spans();
        let mut source = Source::new(settings.corpus.clone(), settings.limits.threads)?;
        blots.expect_in(&mut source);
        let stage = MatchStage {
            blots,
            index,
            shards,
            document_of: &document_of,
        };
        let mut members = Self::default();
        let mut is_seen = vec![false; view.documents()];
        run(&stage, source, settings, observer, |found: Matches, _| {
            members.unknown += found.unknown;
            members.changed += found.changed;
            for member in found.list {
                if std::mem::replace(&mut is_seen[member.document.index()], true) {
                    members.repeated += 1;
                } else {
                    members.list.push(member);
                }
            }
            Ok(())
        })?
        .ensure_documents(settings)?;
        Ok(members)
    }
}

/// Finds documents in an index.
#[derive(Clone)]
struct MatchStage<'s> {
    blots: DocumentBlotter,
    index: &'s Index,
    shards: &'s ShardList,
    /// By number in the index.
    document_of: &'s [Option<DocNo>],
}

#[derive(Default)]
struct Matches {
    list: Vec<Member>,
    unknown: u64,
    changed: u64,
}

impl StageOutput for Matches {
    fn drop_documents(&mut self, _: &[usize]) {}

    fn weight(&self) -> u64 {
        size_of_val(&self.list[..]) as u64
    }
}

impl DocumentStage for MatchStage<'_> {
    type Out = Matches;
    const IDS_ARE_UNIQUE: bool = false;

    fn take(&mut self, item: &InputDocument<'_>, out: &mut Matches) -> Result<(), String> {
        let said = |error: Error| error.to_string();
        let Some(at) = self.index.find_id(item.id).map_err(said)? else {
            out.unknown += 1;
            return Ok(());
        };
        let row = self.index.row(at).map_err(said)?;
        let hash = self.blots.located(item)?.1;
        let document = self
            .document_of
            .get(row.number.to_usize())
            .copied()
            .flatten();
        match (document, self.shards.find_file(item.file)) {
            (Some(_), _)
                if row
                    .hash
                    .zip(hash)
                    .is_some_and(|(indexed, found)| indexed != found) =>
            {
                out.changed += 1;
            }
            (Some(document), Some(shard)) => out.list.push(Member {
                shard: shard.to_u32(),
                document,
                record: item.record,
            }),
            _ => out.unknown += 1,
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut Matches) {
        self.blots.release_buffers();
    }
}
