//! Clusters: documents that are connected by pairs.

use super::{put, rows::is_estimate};
use crate::{
    base::{error::Result, ids::DocNo},
    report::{
        DocumentIds, Format, Sink,
        records::{ClusterRecord, ClusterRow, DroppedMember},
    },
    similar::{Cluster, Discovery, KeepRule, clusters},
};
use std::io::Write;

/// Writes every cluster: as one record, or in tables as a row for each document.
pub fn write_clusters(
    discovery: &Discovery<'_>,
    keep: KeepRule,
    format: Format,
    out: &mut impl Write,
) -> Result<()> {
    let writer = ClusterWriter {
        discovery,
        ids: DocumentIds::read(discovery.view)?,
    };
    let mut lines = Vec::new();
    format.put_head(&writer.row_shape(), &mut lines)?;
    put(out, &lines)?;
    let mut number = 0;
    clusters(discovery, keep, |cluster| {
        number += 1;
        lines.clear();
        if format.is_table() {
            writer.put_rows(number, &cluster, format, &mut lines)?;
        } else {
            format.put_record(&writer.record(number, &cluster), &mut lines)?;
        }
        put(out, &lines)
    })
}

struct ClusterWriter<'d> {
    discovery: &'d Discovery<'d>,
    ids: DocumentIds,
}

impl ClusterWriter<'_> {
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
