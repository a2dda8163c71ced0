//! Clusters, and groups of exact duplicates.

use super::{
    pairs::{ESTIMATE, shown},
    put,
};
use crate::base::ids::ContentNo;
use crate::{
    base::error::Result,
    index::View,
    report::{Format, Ids, Value, put_names, put_record},
    similar::{Cluster, Discovery, KeepRule, clusters},
};
use std::io::Write;

pub fn write(
    discovery: &Discovery<'_>,
    keep: KeepRule,
    format: Format,
    out: &mut impl Write,
) -> Result<()> {
    let writer = Writer {
        discovery,
        ids: Ids::new(discovery.view, format)?,
    };
    let mut lines = Vec::new();
    put_names(
        &mut lines,
        format,
        shown(
            discovery,
            &[
                "cluster",
                "doc",
                "kept",
                "duplicate_of",
                "shared",
                "score",
                "estimate",
            ],
        ),
    );
    put(out, &lines)?;
    let mut number = 0;
    clusters(discovery, keep, |cluster| {
        number += 1;
        lines.clear();
        match format {
            Format::Ndjson => writer.put_object(&mut lines, number, &cluster),
            Format::Tsv => writer.put_rows(&mut lines, number, &cluster),
        }
        put(out, &lines)
    })
}

struct Writer<'d> {
    discovery: &'d Discovery<'d>,
    ids: Ids,
}

impl Writer<'_> {
    /// A cluster as one object, with what was dropped as objects inside.
    fn put_object(&self, out: &mut Vec<u8>, number: u64, cluster: &Cluster) {
        let (mut members, mut dropped) = (Vec::new(), vec![b'[']);
        self.ids
            .put_list(&mut members, cluster.members.iter().copied());
        for (at, row) in cluster.dropped.iter().enumerate() {
            if at > 0 {
                dropped.push(b',');
            }
            let fields = [
                ("doc", Value::Id(self.ids.get(row.document))),
                ("duplicate_of", Value::Id(self.ids.get(row.duplicate_of))),
                (
                    "shared",
                    Value::Count(self.discovery.options.measure.scaled(row.shared)),
                ),
                ("score", Value::Number(row.score)),
            ];
            put_record(&mut dropped, Format::Ndjson, &fields);
            dropped.pop();
        }
        dropped.push(b']');
        let fields = [
            ("cluster", Value::Count(number)),
            ("size", Value::Count(cluster.members.len() as u64)),
            ("kept", Value::Id(self.ids.get(cluster.kept))),
            ("members", Value::Ids(&members)),
            ("dropped", Value::Ids(&dropped)),
            ESTIMATE,
        ];
        put_record(out, Format::Ndjson, shown(self.discovery, &fields));
    }

    /// A row for each document, the one that is kept first.
    fn put_rows(&self, out: &mut Vec<u8>, number: u64, cluster: &Cluster) {
        let row = |out: &mut Vec<u8>, document: u32, rest: [(&str, Value<'_>); 4]| {
            let fields = [
                ("cluster", Value::Count(number)),
                ("doc", Value::Id(self.ids.get(document))),
                rest[0],
                rest[1],
                rest[2],
                rest[3],
                ESTIMATE,
            ];
            put_record(out, Format::Tsv, shown(self.discovery, &fields));
        };
        let nothing = Value::None;
        row(
            out,
            cluster.kept,
            [
                ("kept", Value::Count(1)),
                ("duplicate_of", nothing),
                ("shared", nothing),
                ("score", nothing),
            ],
        );
        for dropped in &cluster.dropped {
            let rest = [
                ("kept", Value::Count(0)),
                (
                    "duplicate_of",
                    Value::Id(self.ids.get(dropped.duplicate_of)),
                ),
                (
                    "shared",
                    Value::Count(self.discovery.options.measure.scaled(dropped.shared)),
                ),
                ("score", Value::Number(dropped.score)),
            ];
            row(out, dropped.document, rest);
        }
    }
}

/// Groups of documents with the same tokens, by their first.
pub fn write_exact(view: &View<'_>, format: Format, out: &mut impl Write) -> Result<()> {
    let ids = Ids::new(view, format)?;
    let mut lines = Vec::new();
    put_names(&mut lines, format, &["group", "doc"]);
    put(out, &lines)?;
    let mut number = 0;
    for (content, about) in ContentNo::first(view.contents().len()).zip(view.contents()) {
        let documents = view.documents_of(content);
        if documents.len() < 2 {
            continue;
        }
        number += 1;
        lines.clear();
        match format {
            Format::Tsv => documents.iter().for_each(|&document| {
                put_record(
                    &mut lines,
                    format,
                    &[
                        ("group", Value::Count(number)),
                        ("doc", Value::Id(ids.get(document.get()))),
                    ],
                );
            }),
            Format::Ndjson => {
                let mut list = Vec::new();
                ids.put_list(&mut list, documents.iter().map(|document| document.get()));
                let fields = [
                    ("group", Value::Count(number)),
                    ("size", Value::Count(documents.len() as u64)),
                    ("tokens", Value::Count(u64::from(about.tokens))),
                    ("docs", Value::Ids(&list)),
                ];
                put_record(&mut lines, format, &fields);
            }
        }
        put(out, &lines)?;
    }
    Ok(())
}
