//! Where the passages of given pairs are written.

use super::output::Output;
use crate::{
    base::error::{Error, Result},
    commands::Aligned,
    report::{Ndjson, PanXmlDirectory, Sink, html},
};
use std::{
    io::{BufWriter, Write},
    path::Path,
};

/// A line of JSON for each pair, or a file, or a page and an overview.
pub enum Destination {
    Lines(BufWriter<Output>),
    Files(PanXmlDirectory),
    Pages(Box<html::Directory>),
}

impl Destination {
    pub fn lines(output: Option<&Path>) -> Result<Self, anyhow::Error> {
        Ok(Self::Lines(BufWriter::with_capacity(
            1 << 16,
            Output::open(output, false)?,
        )))
    }

    pub fn files(directory: &Path) -> Result<Self, anyhow::Error> {
        Ok(Self::Files(PanXmlDirectory::create(directory)?))
    }

    /// Pages, with an overview of this title.
    pub fn pages(directory: &Path, title: &str, notes: &[String]) -> Result<Self, anyhow::Error> {
        let pages = html::Directory::create(directory, title, notes)?;
        Ok(Self::Pages(Box::new(pages)))
    }

    pub fn write(&mut self, aligned: &Aligned) -> Result<()> {
        let mut bytes = Vec::new();
        match self {
            Self::Lines(out) => {
                Ndjson.put_record(&aligned.pair, &mut bytes)?;
                out.write_all(&bytes).map_err(Error::output)
            }
            Self::Files(files) => files.write(&aligned.pair),
            Self::Pages(directory) => aligned
                .page
                .as_ref()
                .map_or(Ok(()), |page| directory.add(page)),
        }
    }

    pub fn commit(self) -> Result<(), anyhow::Error> {
        match self {
            Self::Lines(out) => out
                .into_inner()
                .map_err(|error| error.into_error())?
                .commit(),
            Self::Files(files) => Ok(files.finish()?),
            Self::Pages(directory) => Ok(directory.finish()?),
        }
    }
}
