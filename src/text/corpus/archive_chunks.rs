//! The chunks of all files in an archive, in its order.

use super::{
    account::SkippedFile,
    archive::{
        ArchiveFormat, ArchiveInput, MEMBER_MARK, Member, MemberFault, Members, most_member_bytes,
    },
    chunk::{Chunk, ChunkIter, LEFT_OUT},
    format::{Parts, Records},
    opener::{Candidate, Opened, Opener, file_problem},
    skipped_kind::{SkippedKind, is_binary},
    sniff::{Sniffed, may_begin_records},
    spool::Spooled,
    unpack::{Packing, inner_name, read_bounded, unpack},
};
use crate::base::{error::Result, num::ToU64, parallel::Weighted};
use std::{io, path::Path, sync::Arc};

/// The chunks of all files in an archive.
///
/// Memory: the members that wait, each up to the size from which it is kept in a temporary file.
pub struct ArchiveChunks {
    opener: Arc<Opener>,
    /// What the ids of its members start with.
    id: Arc<str>,
    /// What messages call it.
    file: Arc<str>,
    depth: usize,
    members: Members,
    /// What is left of a member that holds many records.
    parts: Option<Parts>,
    chunks: Option<ChunkIter>,
    is_done: bool,
}

impl ArchiveChunks {
    /// `names`: the id and the name of the archive.
    pub fn open(
        opener: Arc<Opener>,
        format: ArchiveFormat,
        input: ArchiveInput,
        (id, file): (&Arc<str>, &Arc<str>),
        depth: usize,
    ) -> io::Result<Self> {
        let most_bytes = most_member_bytes(opener.options.max_document);
        let of = opener.clone();
        let is_wanted = Box::new(move |name: &Path, head: &[u8]| of.ensure_wanted(name, head));
        Ok(Self {
            id: id.clone(),
            file: file.clone(),
            depth,
            members: format.members(input, most_bytes, is_wanted)?,
            parts: None,
            chunks: None,
            is_done: false,
            opener,
        })
    }

    /// The chunk that a member begins with; none if it has its own chunks.
    fn open_member(&mut self, member: Member) -> Option<Weighted<Chunk>> {
        let path = member.name.display();
        let id: Arc<str> = format!("{}{MEMBER_MARK}{path}", self.id).into();
        let file: Arc<str> = format!("{}{MEMBER_MARK}{path}", self.file).into();
        let most_bytes = self.opener.options.max_document;
        let skipped = match member.content {
            Ok(content) => match self.open_content(&member.name, content, (&id, &file)) {
                Ok(Opened::Document(candidate)) => return Some(whole(candidate, most_bytes)),
                Ok(Opened::Records { parts, .. }) => {
                    self.parts = Some(parts);
                    return None;
                }
                Ok(Opened::Skipped(skipped)) => skipped,
                Ok(Opened::Failed(error)) => SkippedFile::damaged(file, &error.to_string(), false),
                Err(error) => SkippedFile::unreadable(file_problem(&file, error.to_string())),
            },
            Err(MemberFault::Skipped(kind)) => SkippedFile::new(file, kind, Packing::Plain, false),
            Err(MemberFault::TooLarge) => SkippedFile::too_large(file, most_bytes),
            Err(MemberFault::Damaged(what)) => SkippedFile::damaged(file, &what, false),
        };
        Some(weightless(Chunk::Skipped(skipped)))
    }

    fn open_content(
        &self,
        path: &Path,
        content: Spooled,
        (id, file): (&Arc<str>, &Arc<str>),
    ) -> io::Result<Opened> {
        let options = &self.opener.options;
        let (packing, input) = unpack(content.into_input()?)?;
        let sniffed = Sniffed::of_file(input, options.max_document)?;
        Ok(self.opener.open(Candidate {
            id: id.clone(),
            file: file.clone(),
            name: inner_name(path),
            sniffed: sniffed.packed_in(packing),
            disk: None,
            is_regular: true,
            is_named: false,
            depth: self.depth + 1,
        }))
    }
}

impl Opener {
    /// Refuses members of an archive that would be left out in a directory, before they are unpacked. Returns how many bytes a
    /// member may have: one document is not kept any further than it may be read.
    fn ensure_wanted(&self, name: &Path, head: &[u8]) -> Result<u64, SkippedKind> {
        if let Some(kind) = self.selection.skip_member(name) {
            return Err(kind);
        }
        let is_convertible = self.is_convertible(head, name);
        let is_known = Packing::of(head) != Packing::Plain
            || ArchiveFormat::of(head).is_some()
            || head.starts_with(b"PAR1")
            || is_convertible;
        if !is_known && is_binary(head) && SkippedKind::of(head, name, None).is_none() {
            return Err(SkippedKind::UnknownBinary);
        }
        let max_document = self.options.max_document;
        let is_one_document = match self.options.records {
            Some(records) => records == Records::Text,
            None => Records::of_name(name) == Some(Records::Text),
        };
        Ok(
            if is_convertible || is_one_document && !may_begin_records(head) {
                max_document
            } else {
                most_member_bytes(max_document)
            },
        )
    }
}

/// A member that is one document.
fn whole(candidate: Candidate, most_bytes: u64) -> Weighted<Chunk> {
    let Candidate {
        id,
        file,
        name,
        sniffed,
        ..
    } = candidate;
    let (within, has_bom) = (sniffed.packing, sniffed.has_bom);
    let mut bytes = if has_bom {
        super::skipped_kind::BOM.to_vec()
    } else {
        Vec::new()
    };
    match read_bounded(sniffed.input, most_bytes, &mut bytes) {
        Err(error) => weightless(Chunk::Skipped(SkippedFile::unreadable(file_problem(
            &file,
            error.to_string(),
        )))),
        Ok(false) => weightless(Chunk::Skipped(SkippedFile::too_large(file, most_bytes))),
        Ok(true) => Weighted {
            bytes: bytes.len().to_u64(),
            item: Chunk::Whole {
                id,
                file,
                name,
                within,
                is_named: false,
                bytes,
            },
        },
    }
}

fn weightless(item: Chunk) -> Weighted<Chunk> {
    Weighted { item, bytes: 0 }
}

impl Iterator for ArchiveChunks {
    type Item = Result<Weighted<Chunk>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(chunk) = self.chunks.as_mut().and_then(Iterator::next) {
                return Some(chunk);
            }
            self.chunks = self.parts.as_mut().and_then(Iterator::next);
            if self.chunks.is_some() {
                continue;
            }
            self.parts = None;
            if self.is_done {
                return None;
            }
            match self.members.next() {
                None => {
                    self.is_done = true;
                    return None;
                }
                Some(Err(what)) => {
                    self.is_done = true;
                    let problem = file_problem(&self.file, what + LEFT_OUT);
                    return Some(Ok(weightless(Chunk::Problem(problem))));
                }
                Some(Ok(member)) => {
                    if let Some(chunk) = self.open_member(member) {
                        return Some(Ok(chunk));
                    }
                }
            }
        }
    }
}
