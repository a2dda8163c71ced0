//! Clusters: documents that are connected by pairs.

use super::{put, rows::is_estimate};
use crate::{
    base::{error::Result, ids::DocNo, num::ToU64, share::Share},
    report::{
        DocumentIds, Format, Sink,
        records::{ClusterRecord, ClusterRow, DroppedMember},
    },
    similar::{Cluster, ClusterLinks, Discovery, KeepRule, clusters, trace_clusters},
};
use std::io::Write;

/// Writes every cluster: as one record, or in tables as a row for each document.
pub fn write_clusters(
    discovery: &Discovery<'_>,
    keep: KeepRule,
    format: Format,
    out: &mut impl Write,
) -> Result<()> {
    let mut writer = ClusterWriter::new(discovery, format)?;
    writer.put_head(out)?;
    clusters(discovery, keep, |cluster| writer.write(&cluster, out))
}

/// Writes a share of the clusters, which all links together connect: all shares in order are what
/// [`write_clusters`] writes.
pub fn write_share(
    discovery: &Discovery<'_>,
    links: ClusterLinks,
    share: Share,
    keep: KeepRule,
    format: Format,
    out: &mut impl Write,
) -> Result<()> {
    let groups = links.groups();
    let members = |group: usize| groups.get(group).len().to_u64();
    let own = share.of_weights((0..groups.len()).map(members));
    let mut writer = ClusterWriter::new(discovery, format)?;
    writer.written = own.start.to_u64();
    if share.number == 0 {
        writer.put_head(out)?;
    }
    trace_clusters(discovery, &groups, own, keep, |cluster| {
        writer.write(&cluster, out)
    })
}

struct ClusterWriter<'d> {
    discovery: &'d Discovery<'d>,
    ids: DocumentIds,
    format: Format,
    /// The number of clusters before the next one.
    written: u64,
}

impl<'d> ClusterWriter<'d> {
    fn new(discovery: &'d Discovery<'d>, format: Format) -> Result<Self> {
        Ok(Self {
            discovery,
            ids: DocumentIds::read(discovery.view)?,
            format,
            written: 0,
        })
    }

    fn put_head(&self, out: &mut impl Write) -> Result<()> {
        let mut head = Vec::new();
        self.format.put_head(&self.row_shape(), &mut head)?;
        put(out, &head)
    }

    fn write(&mut self, cluster: &Cluster, out: &mut impl Write) -> Result<()> {
        self.written += 1;
        let mut lines = Vec::new();
        if self.format.is_table() {
            self.put_rows(self.written, cluster, self.format, &mut lines)?;
        } else {
            let record = self.record(self.written, cluster);
            self.format.put_record(&record, &mut lines)?;
        }
        put(out, &lines)
    }

    fn id(&self, document: DocNo) -> &str {
        self.ids.get(document)
    }

    fn scaled(&self, shared: u32) -> u64 {
        self.discovery.options.measure.scaled(shared)
    }

    fn record(&self, number: u64, cluster: &Cluster) -> ClusterRecord<'_> {
        let dropped = cluster.dropped.iter().map(|row| DroppedMember {
            doc: self.id(row.document),
            duplicate_of: self.id(row.duplicate_of),
            shared: self.scaled(row.shared),
            score: row.score,
        });
        ClusterRecord {
            cluster: number,
            size: cluster.members.len(),
            kept: self.id(cluster.kept),
            members: cluster
                .members
                .iter()
                .map(|&member| self.id(member))
                .collect(),
            dropped: dropped.collect(),
            estimate: is_estimate(self.discovery),
        }
    }

    fn row_shape(&self) -> ClusterRow<'_> {
        ClusterRow {
            shared: Some(0),
            score: Some(0.0),
            estimate: is_estimate(self.discovery),
            ..ClusterRow::default()
        }
    }

    /// Appends a row for each document, the one to keep first.
    fn put_rows(
        &self,
        number: u64,
        cluster: &Cluster,
        format: Format,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let kept = ClusterRow {
            cluster: number,
            doc: self.id(cluster.kept),
            kept: 1,
            shared: None,
            score: None,
            ..self.row_shape()
        };
        format.put_record(&kept, out)?;
        for dropped in &cluster.dropped {
            let row = ClusterRow {
                cluster: number,
                doc: self.id(dropped.document),
                kept: 0,
                duplicate_of: Some(self.id(dropped.duplicate_of)),
                shared: Some(self.scaled(dropped.shared)),
                score: Some(dropped.score),
                ..self.row_shape()
            };
            format.put_record(&row, out)?;
        }
        Ok(())
    }
}
