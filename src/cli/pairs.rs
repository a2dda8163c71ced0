//! Where the passages of given pairs are written.

use super::output::Output;
use crate::{
    error::{Error, Result},
    pipeline::Aligned,
    report::{Format, Value, html, put_id, put_pan_xml, put_passages, put_record, put_tally},
};
use anyhow::Context;
use std::{
    collections::HashSet,
    ffi::OsStr,
    fs,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

/// A line of JSON for each pair, or a file, or a page and an overview.
pub enum Destination {
    Lines(BufWriter<Output>),
    Files { directory: PathBuf, written: HashSet<String> },
    Pages(html::Directory),
}

impl Destination {
    pub fn lines(output: Option<&Path>) -> Result<Self, anyhow::Error> {
        Ok(Self::Lines(BufWriter::with_capacity(1 << 16, Output::open(output, false)?)))
    }

    pub fn files(directory: &Path) -> Result<Self, anyhow::Error> {
        fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        Ok(Self::Files { directory: directory.to_owned(), written: HashSet::new() })
    }

    /// Pages about the pairs of a list.
    pub fn pages(directory: &Path, list: &Path, notes: &[String]) -> Result<Self, anyhow::Error> {
        let title = if list.as_os_str() == "-" { "these pairs".to_owned() } else { list.display().to_string() };
        Ok(Self::Pages(html::Directory::create(directory, &title, notes)?))
    }

    pub fn write(&mut self, aligned: &Aligned) -> Result<()> {
        let mut bytes = Vec::new();
        match self {
            Self::Lines(out) => {
                put_line(&mut bytes, aligned);
                out.write_all(&bytes).map_err(Error::output)
            }
            Self::Files { directory, written } => {
                let name = format!("{}-{}.xml", stem(&aligned.a), stem(&aligned.b));
                let path = directory.join(&name);
                if !written.insert(name) {
                    let what = format!("{}: two pairs of this name; align them one list after the other", path.display());
                    return Err(Error::Usage(what));
                }
                put_pan_xml(&mut bytes, file_name(&aligned.a), file_name(&aligned.b), &aligned.passages);
                write_file(&path, &bytes)
            }
            Self::Pages(directory) => aligned.page.as_ref().map_or(Ok(()), |page| directory.add(page)),
        }
    }

    pub fn commit(self) -> Result<(), anyhow::Error> {
        match self {
            Self::Lines(out) => out.into_inner().map_err(|error| error.into_error())?.commit(),
            Self::Files { .. } => Ok(()),
            Self::Pages(directory) => Ok(directory.finish()?),
        }
    }
}

/// Beside first, so that there is no half file. There are many of them: none waits for the disk.
fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let beside = path.with_extension("xml.tmp");
    let written = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&beside);
        Error::io(path.display(), error)
    })
}

fn put_line(out: &mut Vec<u8>, aligned: &Aligned) {
    let (mut a, mut b, mut passages, mut words) = (Vec::new(), Vec::new(), Vec::new(), [Vec::new(), Vec::new()]);
    put_id(&mut a, Format::Ndjson, &aligned.a);
    put_id(&mut b, Format::Ndjson, &aligned.b);
    put_passages(&mut passages, &aligned.passages);
    let mut fields = vec![
        ("a", Value::Id(&a)),
        ("b", Value::Id(&b)),
        ("a_in_b", Value::Number(aligned.a_in_b)),
        ("b_in_a", Value::Number(aligned.b_in_a)),
    ];
    if let Some(tallies) = &aligned.tallies {
        words.iter_mut().zip(tallies).for_each(|(out, tally)| put_tally(out, tally));
        fields.extend([("a_words", Value::Ids(&words[0])), ("b_words", Value::Ids(&words[1]))]);
    }
    fields.push(("passages", Value::Ids(&passages)));
    put_record(out, Format::Ndjson, &fields);
}

fn file_name(path: &str) -> &str {
    Path::new(path).file_name().and_then(OsStr::to_str).unwrap_or(path)
}

fn stem(path: &str) -> &str {
    Path::new(path).file_stem().and_then(OsStr::to_str).unwrap_or("-")
}
