//! Files of cluster links, by which machines that each work on a share of the documents find the
//! clusters of all.
//!
//! A file lists, in ascending order, each content that is connected with others: the number of
//! contents skipped before it, and how far before it the first content of its group is, both as
//! varints. So it takes a few bytes for each content at most, however many pairs there are.

use super::clusters::{ClusterLinks, UnionFind};
use crate::base::{
    codec::{Fields, put_varint},
    error::{Error, Result},
    files::{Sealed, SealedWriter},
    num::{ToU32, ToU64, ToUsize},
    share::Share,
};
use serde::{Deserialize, Serialize};
use std::{
    io::Write,
    path::{Path, PathBuf},
};

const KIND: &str = "links";

/// What a file of links says about itself.
#[derive(Debug, Serialize, Deserialize)]
struct LinkDescription {
    kind: String,
    /// The checksum of the manifest of the index.
    index: String,
    /// The number of the share, and the number of shares.
    share: [u64; 2],
    contents: u64,
    /// The list: start and length.
    links: [u64; 2],
}

/// What a file of links is of.
#[derive(Debug, Clone, Copy)]
pub struct LinkFile<'a> {
    /// The checksum of the manifest of the index.
    pub index: &'a str,
    /// The documents whose links it has.
    pub share: Share,
}

impl LinkFile<'_> {
    /// Writes the links of a share.
    pub fn write(&self, path: &Path, mut links: ClusterLinks) -> Result<()> {
        let failed = |error| Error::io(path.display(), error);
        let mut out = SealedWriter::create(path).map_err(failed)?;
        let start = out.position();
        let (mut bytes, mut next) = (Vec::new(), 0);
        let contents = links.joined.len().to_u64();
        links
            .joined
            .for_each_joined(|content, first| {
                bytes.clear();
                put_varint(&mut bytes, u64::from(content - next));
                put_varint(&mut bytes, u64::from(content - first));
                next = content + 1;
                out.write_all(&bytes)
            })
            .map_err(failed)?;
        let description = LinkDescription {
            kind: KIND.to_owned(),
            index: self.index.to_owned(),
            share: [self.share.number, self.share.of].map(|number| number.to_u64()),
            contents,
            links: [start, out.position() - start],
        };
        out.finish(&description).map(drop).map_err(failed)
    }
}

impl ClusterLinks {
    /// Reads the links of all shares, in order. Memory: five bytes per content.
    pub fn join(paths: &[PathBuf]) -> Result<(Self, String)> {
        let mut all: Option<(Self, String)> = None;
        for (number, path) in paths.iter().enumerate() {
            let file = Sealed::open(path)?;
            let of: LinkDescription = file.describe()?;
            let share = [number, paths.len()].map(|number| number.to_u64());
            let is_it = of.kind == KIND && of.share == share;
            if !is_it || of.contents > u64::from(u32::MAX) {
                return Err(file.damaged(0, "the links of another share"));
            }
            let (links, index) = all.get_or_insert_with(|| {
                let joined = UnionFind::new(of.contents.to_usize());
                (Self { joined }, of.index.clone())
            });
            if of.index != *index || of.contents != links.joined.len().to_u64() {
                return Err(file.damaged(0, "the links of another index"));
            }
            links.add(&file, of.links)?;
        }
        all.ok_or_else(|| Error::Usage("no links to join".to_owned()))
    }

    /// Reads the joined links of an index.
    pub fn read(path: &Path, index: &str, contents: usize) -> Result<Self> {
        let (links, of) = Self::join(&[path.to_owned()])?;
        if of == index && links.joined.len() == contents {
            return Ok(links);
        }
        let what = "the links of another index, or of an earlier state of it";
        Err(Sealed::open(path)?.damaged(0, what))
    }

    fn add(&mut self, file: &Sealed, [start, length]: [u64; 2]) -> Result<()> {
        let contents = self.joined.len().to_u64();
        let mut fields = Fields::new(file.bytes(start, length)?);
        let mut next = 0;
        while !fields.is_empty() {
            let at = start + length - fields.left();
            let mut link = || {
                let skipped = fields.varint("content")?;
                Ok((skipped, fields.varint("first content of a group")?))
            };
            let (skipped, back) = link().map_err(|what: String| file.damaged(at, what))?;
            let content = u64::saturating_add(next, skipped);
            if content >= contents || back > content {
                let what =
                    format!("content {content} of {contents} is linked with one {back} before");
                return Err(file.damaged(at, what));
            }
            self.joined
                .join(content.to_u32(), (content - back).to_u32());
            next = content + 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CommonTextRule, Discovery, DiscoveryOptions, Measure, Score};
    use super::*;
    use crate::base::parallel::Limits;
    use crate::index::{Index, SetSource, SetUses, View, test_files};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn the_links_of_all_shares_make_the_groups_of_one(
            documents in prop::collection::vec(prop::collection::btree_set(0_u64..60, 1..20), 1..30),
            threshold in 0.0_f64..1.0, shares in 1_usize..6,
            score in prop::sample::select(vec![Score::Jaccard, Score::Containment, Score::S4]),
        ) {
            let directory = tempfile::tempdir().unwrap();
            let ids: Vec<String> = (0..documents.len()).map(|at| format!("{:05}", (at * 7) % 31)).collect();
            let rows: Vec<_> = ids.iter().zip(&documents).enumerate()
                .map(|(at, (id, blots))| (id.as_str(), at.to_u64() / 2, blots.iter().copied().collect()))
                .collect();
            test_files::commit(directory.path(), &rows, &[]);
            let index = Index::open(directory.path()).unwrap();
            let view = View::by_id(&index).unwrap();
            let options = DiscoveryOptions {
                measure: Measure { score, threshold, selection: None },
                common: CommonTextRule::Counts,
                limits: Limits::new(1, 1 << 30),
            };
            let one = Discovery::new(&view, options).unwrap();
            let expected = ClusterLinks::find(&one, Share::WHOLE).unwrap().groups();
            let uses = SetUses::of(&View::of(&index).unwrap().sets(1).unwrap());
            let paths: Vec<PathBuf> = (0..shares)
                .map(|number| {
                    let sets = SetSource::with_uses(&view, &uses, score.needs_rarity()).unwrap();
                    let discovery = Discovery::from_sets(&view, sets, options).unwrap();
                    let share = Share { number, of: shares };
                    let links = ClusterLinks::find(&discovery, share).unwrap();
                    let path = directory.path().join(format!("links-{number}"));
                    LinkFile { index: "x", share }.write(&path, links).unwrap();
                    path
                })
                .collect();
            let (joined, of) = ClusterLinks::join(&paths).unwrap();
            let path = directory.path().join("links");
            LinkFile { index: &of, share: Share::WHOLE }.write(&path, joined).unwrap();
            let contents = view.contents().len();
            let read = ClusterLinks::read(&path, "x", contents).unwrap();
            prop_assert_eq!(read.groups(), expected);
            prop_assert!(ClusterLinks::read(&path, "y", contents).is_err());
            prop_assert!(shares == 1 || ClusterLinks::join(&paths[1..]).is_err());
        }
    }
}
