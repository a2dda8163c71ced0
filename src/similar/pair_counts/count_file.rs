//! Reads a file of pair counts.

use super::{CountDescription, KIND};
use crate::base::{
    codec::Fields,
    error::Result,
    files::Sealed,
    ids::ContentNo,
    num::{ToU32, ToU64},
};
use std::path::Path;

/// What a file of counts must have been made for.
pub struct ExpectedCounts<'a> {
    /// The checksum of the manifest.
    pub index: &'a str,
    /// The commit since which contents were recomputed, if only their pairs are counted.
    pub since: Option<u64>,
    /// The number of contents.
    pub contents: usize,
    /// Blots of more documents are ignored.
    pub max_df: u64,
}

impl ExpectedCounts<'_> {
    /// The contradiction in the counts of a file, if there is one.
    fn mismatch(&self, found: &CountDescription) -> Option<String> {
        let CountDescription { kind, buckets, .. } = found;
        let side_bytes = if self.max_df == u64::MAX {
            0
        } else {
            8 * self.contents.to_u64()
        };
        if kind != KIND {
            Some(format!(
                "this is '{kind}', not '{KIND}': another version counted; count again"
            ))
        } else if !buckets.is_valid() {
            Some("the description of the counts contradicts itself".to_owned())
        } else if found.max_df != self.max_df {
            Some("counted with another limit of documents per blot".to_owned())
        } else if found.since != self.since {
            let shown = |since: Option<u64>| {
                since.map_or_else(
                    || "all contents".to_owned(),
                    |since| format!("contents that changed since commit {since}"),
                )
            };
            Some(format!(
                "has the counts of {}, not of {}",
                shown(found.since),
                shown(self.since)
            ))
        } else if found.index != self.index
            || found.contents != self.contents.to_u64()
            || found.sides[1] != side_bytes
        {
            Some("the counts of another index, or of an earlier state of it".to_owned())
        } else {
            None
        }
    }
}

/// The counts of one range.
pub struct CountFile {
    pub file: Sealed,
    pub description: CountDescription,
}

impl CountFile {
    pub fn open(path: &Path, expected: &ExpectedCounts<'_>) -> Result<Self> {
        let file = Sealed::open(path)?;
        let description: CountDescription = file.describe()?;
        match expected.mismatch(&description) {
            Some(what) => Err(file.damaged(0, what)),
            None => Ok(Self { file, description }),
        }
    }

    /// Calls `each` with every long set, and the number of blots that lead to it.
    pub fn for_each_long_set(&self, mut each: impl FnMut(&[u32], u64)) -> Result<()> {
        let [start, length] = self.description.long_sets;
        let mut fields = Fields::new(self.file.bytes(start, length)?);
        let mut contents = Vec::new();
        while !fields.is_empty() {
            let at = start + length - fields.left();
            let uses = self
                .read_long_set(&mut fields, &mut contents)
                .map_err(|what| self.file.damaged(at, what))?;
            each(&contents, uses);
        }
        Ok(())
    }

    fn read_long_set(
        &self,
        fields: &mut Fields<'_>,
        contents: &mut Vec<u32>,
    ) -> Result<u64, String> {
        let uses = fields.varint("uses of a set")?;
        let count = fields.varint("length of a set")?;
        let all = self.description.contents;
        let mut next = 0_u64;
        contents.clear();
        for _ in 0..count.min(fields.left()) {
            let content = next.saturating_add(fields.varint("content of a set")?);
            if content >= all {
                return Err(format!("a set has content {content}, of {all}"));
            }
            contents.push(content.to_u32());
            next = content + 1;
        }
        if contents.len().to_u64() == count && count > 1 {
            Ok(uses)
        } else {
            Err(format!("a set of {count} contents is cut short"))
        }
    }

    /// The contents and their partners, from the first on.
    pub fn rows(&self) -> Result<CountRows<'_>> {
        let [start, length] = self.description.pairs;
        let mut rows = CountRows {
            file: self,
            fields: Fields::new(self.file.bytes(start, length)?),
            next: 0,
            content: None,
            partners: Vec::new(),
        };
        rows.advance()?;
        Ok(rows)
    }
}

/// Reads the pairs of a file, content by content.
pub struct CountRows<'f> {
    file: &'f CountFile,
    fields: Fields<'f>,
    next: u64,
    /// The current content; `None` at the end of the file.
    pub content: Option<ContentNo>,
    /// The partners of the current content, and the number of blots that each shares with it.
    pub partners: Vec<(ContentNo, u32)>,
}

impl CountRows<'_> {
    /// Reads the next content.
    pub fn advance(&mut self) -> Result<()> {
        self.content = None;
        if self.fields.is_empty() {
            return Ok(());
        }
        let [start, length] = self.file.description.pairs;
        let at = start + length - self.fields.left();
        self.read().map_err(|what| self.file.file.damaged(at, what))
    }

    fn read(&mut self) -> Result<(), String> {
        let contents = self.file.description.contents;
        let content = self.next.saturating_add(self.fields.varint("content")?);
        let count = self.fields.varint("number of partners")?;
        self.partners.clear();
        let mut next = content.saturating_add(1);
        for _ in 0..=count.min(self.fields.left()) {
            let partner = next.saturating_add(self.fields.varint("partner")?);
            let shared = self.fields.varint("shared blots")?.saturating_add(1);
            match (u32::try_from(partner), u32::try_from(shared)) {
                (Ok(partner), Ok(shared)) if u64::from(partner) < contents => {
                    self.partners.push((ContentNo::new(partner), shared))
                }
                _ => {
                    return Err(format!(
                        "content {content} shares {shared} blots with {partner}, of {contents}"
                    ));
                }
            }
            next = partner + 1;
        }
        self.content = Some(ContentNo::new(content.to_u32()));
        self.next = content + 1;
        Ok(())
    }
}
