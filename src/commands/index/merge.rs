//! Joins indexes, or the parts of one.

use crate::{
    base::{
        error::{Error, Place, Problem, Result},
        files::atomic_dir,
    },
    blot::select,
    commands::{
        Observer, Summary,
        index::{build::write_new, commit::refused},
    },
    index::{BlotRange, Index, IndexRewrite, Manifest, Resources, View, posting::BUCKETS},
};
use std::path::{Path, PathBuf};

/// Joins indexes of one scheme, all range parts of one index, or the parts of one range of several indexes. The last gives the part of
/// that range of the joined index.
pub fn merge(
    inputs: &[PathBuf],
    parts: Option<u32>,
    output: &Path,
    resources: &Resources,
    observer: &mut dyn Observer,
) -> Result<Summary> {
    let indexes = inputs
        .iter()
        .map(|input| Index::open(input))
        .collect::<Result<Vec<_>>>()?;
    let Some(first) = indexes.first() else {
        return Err(Error::Usage(
            "nothing to merge; name the indexes that become one".to_owned(),
        ));
    };
    for other in &indexes[1..] {
        ensure_same_scheme(first, other)?;
        if first.manifest.range.is_some() != other.manifest.range.is_some() {
            let (part, whole) = if first.manifest.range.is_some() {
                (first, other)
            } else {
                (other, first)
            };
            return Err(refused(
                &part.directory,
                format!(
                    "a part of an index, and {} a whole one",
                    whole.directory.display()
                ),
            ));
        }
        if first.manifest.dictionary != other.manifest.dictionary {
            let (with, without) = if first.manifest.dictionary {
                (first, other)
            } else {
                (other, first)
            };
            return Err(refused(
                &without.directory,
                format!(
                    "has no dictionary, and {} has one",
                    with.directory.display()
                ),
            ));
        }
    }
    if indexes.len() > 1 && (first.manifest.range.is_none() || is_one_range(&indexes)) {
        ensure_joinable(first)?;
    }
    match &first.manifest.range {
        None => {
            let parts = parts.unwrap_or_else(|| {
                first
                    .manifest
                    .segments
                    .first()
                    .map_or(1, |segment| segment.parts)
            });
            let shape = Shape { parts, range: None };
            write_new(output, || {
                join(&indexes, &shape, output, resources, observer)
            })
        }
        Some(range) if is_one_range(&indexes) => {
            let range = BlotRange {
                parts: parts.unwrap_or(range.parts),
                ..range.clone()
            };
            let shape = Shape {
                parts: 1,
                range: Some(range),
            };
            atomic_dir::create(output, |beside| {
                write_new(beside, || {
                    join(&indexes, &shape, beside, resources, observer)
                })
            })
        }
        Some(_) => join_parts(&indexes, parts, output, resources),
    }
}

/// Whether these are parts of one range, and not of the whole range of blots: a part with all blots is an index.
fn is_one_range(indexes: &[Index]) -> bool {
    let buckets = indexes[0].manifest.buckets();
    let is_whole = indexes.len() == 1 && buckets.len() == BUCKETS;
    !is_whole
        && indexes
            .iter()
            .all(|index| index.manifest.buckets() == buckets)
}

/// Refuses indexes of shared chunks: neither has a chunk that occurs once in each of them, although the joined index should.
fn ensure_joinable(index: &Index) -> Result<()> {
    if select::is_of_shared_chunks(&index.scheme.select) {
        let what = "an index of shared chunks, which lacks what its documents share with those of another index; make one of all documents with dedup-spex";
        return Err(refused(&index.directory, what));
    }
    Ok(())
}

fn ensure_same_scheme(one: &Index, other: &Index) -> Result<()> {
    if one.manifest.scheme == other.manifest.scheme {
        return Ok(());
    }
    let remedy = "only indexes of one scheme can be joined; build them with the same options";
    Err(Error::Scheme {
        place: Place::path(&other.directory),
        found: other.manifest.scheme.clone(),
        expected: one.manifest.scheme.clone(),
        remedy,
    })
}

/// How indexes are joined.
struct Shape {
    parts: u32,
    range: Option<BlotRange>,
}

/// Joins indexes of different documents. Of documents with one id the first is kept, the others are reported.
fn join(
    indexes: &[Index],
    shape: &Shape,
    output: &Path,
    resources: &Resources,
    observer: &mut dyn Observer,
) -> Result<(Manifest, Summary)> {
    let indexes: Vec<&Index> = indexes.iter().collect();
    let mut problems = 0;
    let view = View::over(&indexes, &mut |index, id| {
        problems += 1;
        let what = format!(
            "a document with the id '{id}' and another text came before; the first one is kept"
        );
        observer.problem(&Problem::new(Place::path(&index.directory), what));
    })?;
    let rewritten = IndexRewrite {
        directory: output,
        generation: 1,
        changes: [1, 1],
        scheme: &indexes[0].scheme,
        preset: indexes[0].manifest.preset.as_deref(),
        parts: shape.parts,
        range: shape.range.clone(),
    };
    Ok((
        rewritten.write(&view, resources)?,
        Summary {
            problems,
            ..Summary::default()
        },
    ))
}

/// Joins the parts of one index, in any order; together they must be the whole index.
fn join_parts(
    indexes: &[Index],
    parts: Option<u32>,
    output: &Path,
    resources: &Resources,
) -> Result<Summary> {
    let mut indexes: Vec<&Index> = indexes.iter().collect();
    indexes.sort_by_key(|index| index.manifest.buckets().start);
    let hex = |bucket: usize| format!("{bucket:02x}");
    let mut next = 0;
    for index in &indexes {
        let buckets = index.manifest.buckets();
        let what = match buckets.start.cmp(&next) {
            std::cmp::Ordering::Less => format!(
                "blots that begin with {} are in another part already",
                hex(buckets.start)
            ),
            std::cmp::Ordering::Greater => {
                format!(
                    "the blots that begin with {} to {} are missing: no part before this one has them",
                    hex(next),
                    hex(buckets.start - 1)
                )
            }
            std::cmp::Ordering::Equal => {
                next = buckets.end;
                continue;
            }
        };
        return Err(refused(&index.directory, what));
    }
    let last = indexes[indexes.len() - 1];
    if next < BUCKETS {
        let what = format!(
            "the blots that begin with {} to ff are missing: no part after this one has them",
            hex(next)
        );
        return Err(refused(&last.directory, what));
    }
    let documents = |index: &Index| {
        index
            .manifest
            .segments
            .first()
            .and_then(|segment| segment.files.first().map(|file| file.seal.clone()))
    };
    let first = indexes[0];
    if let Some(other) = indexes.iter().find(|index| {
        documents(index) != documents(first)
            || index.manifest.generation != first.manifest.generation
            || index.segments.len() != 1
    }) {
        return Err(refused(
            &other.directory,
            format!("a part of another index than {}", first.directory.display()),
        ));
    }
    let parts = parts
        .or(first.manifest.range.as_ref().map(|range| range.parts))
        .unwrap_or(1);
    let rewritten = IndexRewrite {
        directory: output,
        generation: first.manifest.generation,
        changes: first.manifest.segments[0].changes,
        scheme: &first.scheme,
        preset: first.manifest.preset.as_deref(),
        parts,
        range: None,
    };
    let view = View::of_parts(&indexes)?;
    write_new(output, || {
        Ok((rewritten.write(&view, resources)?, Summary::default()))
    })
}
