//! Records of an index: what most verbs of dedup-extract write.

use super::{
    super::{
        exclusions::ExcludeArgs,
        exit_code,
        output::PackedOutput,
        progress::{Complaints, counting_bar},
        shared_only::tell_not_excluded,
        source::{Source, SourceArgs},
        value_help::format_names,
    },
    PROGRAM,
};
use crate::{
    base::error,
    commands::{ExtractOptions, LeaveOut, extract_without},
    report::Format,
};
use clap::{Args, ValueEnum, builder::PossibleValue};
use std::{path::PathBuf, process::ExitCode};

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Self] {
        Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

/// Where records go.
#[derive(Args, Debug, Clone)]
pub struct RecordOutputArgs {
    #[arg(long, help = format_names(), value_name = "FORMAT", hide_possible_values = true)]
    pub format: Option<Format>,
    #[command(flatten)]
    pub file: OutputArgs,
}

/// A file for results.
#[derive(Args, Debug, Clone)]
pub struct OutputArgs {
    /// Write to FILE, packed if its name ends with .gz or .zst
    ///
    /// The file appears under its name when it is complete. If its name ends with .tsv, .csv or .parquet, that is the format,
    /// unless --format names another.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

impl OutputArgs {
    /// The format that the name of the file says; NDJSON if it says none.
    pub fn format(&self) -> Format {
        let format = self.output.as_deref().and_then(Format::of_file);
        format.unwrap_or(Format::Ndjson)
    }

    /// Opens the file, or stdout, for records of a format.
    pub fn open(&self, format: Format) -> Result<PackedOutput, anyhow::Error> {
        PackedOutput::for_records(self.output.as_deref(), format)
    }
}

impl RecordOutputArgs {
    /// The format that is named, or else that of the name of the file.
    pub fn format(&self) -> Format {
        self.format.unwrap_or_else(|| self.file.format())
    }

    pub fn open(&self) -> Result<PackedOutput, anyhow::Error> {
        self.file.open(self.format())
    }
}

/// Writes the records that the options ask for.
pub fn write_records(
    args: &SourceArgs,
    source: &Source,
    options: &ExtractOptions,
    leave_out: &LeaveOut,
    output: PackedOutput,
) -> Result<ExitCode, anyhow::Error> {
    write_with(args, source, output, |out, complaints, done| {
        extract_without(options, leave_out, &source.index, out, complaints, done)
    })
}

/// Runs the work with a bar, and makes the output appear. The work returns the
/// number of inputs that could not be used.
pub fn write_with(
    args: &SourceArgs,
    source: &Source,
    mut out: PackedOutput,
    work: impl FnOnce(
        &mut PackedOutput,
        &mut Complaints,
        &mut dyn FnMut(u64, u64),
    ) -> error::Result<u64>,
) -> Result<ExitCode, anyhow::Error> {
    let problems = with_bar(args, |complaints, done| work(&mut out, complaints, done))?;
    out.commit()?;
    Ok(exit_code(problems + source.problems, args.read.skip_bad))
}

/// Runs work with a bar that counts documents.
pub fn with_bar<D>(
    args: &SourceArgs,
    work: impl FnOnce(&mut Complaints, &mut dyn FnMut(u64, u64)) -> error::Result<D>,
) -> error::Result<D> {
    let bar = counting_bar(args.common.quiet, "comparing", "documents");
    let mut complaints =
        Complaints::new(PROGRAM.to_owned(), args.is_silent()).quiet(args.common.quiet);
    let done = work(&mut complaints, &mut |done, all| {
        bar.set_total(all);
        bar.set_position(done);
    });
    bar.finish();
    done
}

/// Says what an index of shared chunks cannot leave out.
pub fn tell_what_stays(args: &SourceArgs, source: &Source, excluded: &ExcludeArgs) {
    if excluded.names_text() && !args.common.quiet {
        tell_not_excluded(PROGRAM, &source.index);
    }
}
