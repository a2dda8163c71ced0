//! Clusters that many machines find together: each finds the links of a share of the documents, one
//! joins these, and each writes a share of the clusters.

use super::{Extract, ExtractOptions, LeaveOut, clusters, selection};
use crate::{
    base::{
        error::{Error, Result},
        share::Share,
    },
    index::{Index, SetSource, SetUses, View},
    similar::{ClusterLinks, Discovery, DiscoveryOptions, LinkFile, Measure},
};
use std::{
    io::Write,
    path::{Path, PathBuf},
};

/// A share of the documents of an index, or of its clusters.
pub struct ClusterShare<'a> {
    /// [`Extract::Clusters`], and which pairs count.
    pub options: &'a ExtractOptions,
    /// The share.
    pub share: Share,
    /// An index that was made at once; of its parts those of a range suffice.
    pub index: &'a Index,
    /// How many blots each of its sets has.
    pub uses: &'a Path,
}

impl ClusterShare<'_> {
    /// Finds the links of the documents of the share, and writes them to a file.
    pub fn find_links(&self, path: &Path) -> Result<()> {
        let view = View::by_id(self.index)?;
        let links = ClusterLinks::find(&self.discovery(&view)?, self.share)?;
        let index = self.index.manifest.checksum();
        let (index, share) = (index.as_str(), self.share);
        LinkFile { index, share }.write(path, links)
    }

    /// Writes the clusters of the share, by the joined links: all shares in order are what
    /// [`super::extract`] writes.
    pub fn write(&self, links: &Path, out: &mut impl Write) -> Result<()> {
        let Extract::Clusters { keep, format } = self.options.what else {
            return Err(Error::Usage("links are for clusters".to_owned()));
        };
        let view = View::by_id(self.index)?;
        let index = self.index.manifest.checksum();
        let links = ClusterLinks::read(links, &index, view.contents().len())?;
        if self.share.number == 0 {
            LeaveOut::default().put_header(self.options, self.index, out)?;
        }
        let discovery = self.discovery(&view)?;
        clusters::write_share(&discovery, links, self.share, keep, format, out)
    }

    fn discovery<'v>(&self, view: &'v View<'v>) -> Result<Discovery<'v>> {
        let ExtractOptions {
            score,
            threshold,
            common,
            limits,
            ..
        } = *self.options;
        let measure = Measure {
            score,
            threshold,
            selection: selection(&self.index.scheme.select),
        };
        let uses = SetUses::read(self.uses)?;
        let sets = SetSource::with_uses(view, &uses, score.needs_rarity())?;
        let options = DiscoveryOptions {
            measure,
            common,
            limits,
        };
        Discovery::from_sets(view, sets, options)
    }
}

/// Joins the links of all shares, in order, to one file.
pub fn join_cluster_links(links: &[PathBuf], path: &Path) -> Result<()> {
    let (links, index) = ClusterLinks::join(links)?;
    let (index, share) = (index.as_str(), Share::WHOLE);
    LinkFile { index, share }.write(path, links)
}
