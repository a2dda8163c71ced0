//! Where the passages of given pairs are written.

use super::output::PackedOutput;
use crate::{
    base::error::{Error, Result},
    commands::Aligned,
    report::{Format, PanXmlDirectory, Sink, html, records::PassageRow},
};
use clap::{ValueEnum, builder::PossibleValue};
use std::{io::Write, path::Path, sync::LazyLock};

/// How pairs and their passages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairFormat {
    Records(Format),
    PanXml,
}

impl ValueEnum for PairFormat {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<PairFormat>> = LazyLock::new(|| {
            let records = Format::ALL.iter().copied().map(PairFormat::Records);
            records.chain([PairFormat::PanXml]).collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Records(format) => format.to_possible_value(),
            Self::PanXml => Some(PossibleValue::new("pan-xml")),
        }
    }
}

/// Records, or a file for each pair, or a page for each and an overview.
pub enum Destination {
    Records(Format, Box<PackedOutput>),
    Files(PanXmlDirectory),
    Pages(Box<html::Directory>),
}

impl Destination {
    /// A record for each pair; in tables, a row for each passage.
    pub fn records(output: Option<&Path>, format: Format) -> Result<Self, anyhow::Error> {
        let mut out = PackedOutput::for_records(output, format)?;
        let mut head = Vec::new();
        format.put_head(&PassageRow::default(), &mut head)?;
        out.write_all(&head)?;
        Ok(Self::Records(format, Box::new(out)))
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
            Self::Records(format, out) => {
                let pair = &aligned.pair;
                if format.is_table() {
                    PassageRow::of_pair(&pair.a, &pair.b, &pair.passages)
                        .try_for_each(|row| format.put_record(&row, &mut bytes))?;
                } else {
                    format.put_record(pair, &mut bytes)?;
                }
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
            Self::Records(_, out) => out.commit(),
            Self::Files(files) => Ok(files.finish()?),
            Self::Pages(directory) => Ok(directory.finish()?),
        }
    }
}
