//! Manual pages and completions, made from the same definitions that parse the arguments.

use super::Tool;
use clap::{Command, ValueEnum};
use clap_complete::Shell;
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};
use std::io::{Write, stdout};

/// What `--generate` prints.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum What {
    Man,
    Bash,
    Zsh,
    Fish,
}

/// What a manual page has that `--help` has not.
pub struct Manual {
    /// Command lines, each with what it does.
    pub examples: &'static [(&'static str, &'static str)],
    /// Sections of the tool's own, paragraph by paragraph.
    pub sections: &'static [(&'static str, &'static [&'static str])],
    pub see_also: &'static [(&'static str, u8)],
}

/// The end of `--help`: the examples.
pub fn examples(manual: &Manual) -> String {
    let lines = manual
        .examples
        .iter()
        .map(|(command, what)| format!("  {what}:\n    {command}"));
    format!("Examples:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

pub fn generate<T: Tool>(what: What) -> Result<(), anyhow::Error> {
    let command = T::adjust(T::command());
    let name = command.get_name().to_owned();
    let mut page = Vec::new();
    match what {
        What::Man => write_manual(command, &T::MANUAL, &mut page)?,
        What::Bash => clap_complete::generate(Shell::Bash, &mut command.clone(), name, &mut page),
        What::Zsh => clap_complete::generate(Shell::Zsh, &mut command.clone(), name, &mut page),
        What::Fish => clap_complete::generate(Shell::Fish, &mut command.clone(), name, &mut page),
    }
    Ok(stdout().write_all(&page)?)
}

fn write_manual(command: Command, manual: &Manual, out: &mut Vec<u8>) -> std::io::Result<()> {
    // The examples have a section of their own here.
    let command = command.after_help("").after_long_help("");
    let man = Man::new(command.clone())
        .section("1")
        .source("dedup")
        .manual("dedup")
        .date(RELEASED);
    man.render_title(out)?;
    man.render_name_section(out)?;
    man.render_synopsis_section(out)?;
    man.render_description_section(out)?;
    man.render_options_section(out)?;
    for subcommand in command.get_subcommands() {
        write_subcommand(command.get_name(), subcommand, out)?;
    }
    let mut roff = Roff::new();
    let common = if reads_documents(&command) {
        SECTIONS
    } else {
        &[]
    };
    for (title, paragraphs) in manual.sections.iter().chain(common) {
        roff.control("SH", [*title]);
        for (index, paragraph) in paragraphs.iter().enumerate() {
            if index > 0 {
                roff.control("PP", []);
            }
            roff.text([roman(*paragraph)]);
        }
    }
    roff.control("SH", ["EXAMPLES"]);
    for (command, what) in manual.examples {
        roff.control("TP", [])
            .text([roman(*what)])
            .control("EX", [])
            .text([bold(*command)])
            .control("EE", []);
    }
    roff.control("SH", ["SEE ALSO"]);
    let pages = manual
        .see_also
        .iter()
        .map(|(page, section)| format!("{page}({section})"));
    roff.text([roman(pages.collect::<Vec<_>>().join(", "))]);
    roff.to_writer(out)
}

fn reads_documents(command: &Command) -> bool {
    command
        .get_arguments()
        .any(|argument| argument.get_id() == "skip_bad")
        || command.get_subcommands().any(reads_documents)
}

/// A section for each thing a tool can do, its options below.
fn write_subcommand(tool: &str, subcommand: &Command, out: &mut Vec<u8>) -> std::io::Result<()> {
    let title = format!("{tool} {}", subcommand.get_name());
    let about = subcommand
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    Roff::new()
        .control("SH", [title.to_uppercase().as_str()])
        .text([roman(about)])
        .to_writer(out)?;
    let mut options = Vec::new();
    Man::new(subcommand.clone().disable_help_flag(true)).render_options_section(&mut options)?;
    let options = String::from_utf8_lossy(&options)
        .replace(".SH OPTIONS\n", "")
        .replace(".SH ", ".SS ");
    out.write_all(options.as_bytes())?;
    subcommand
        .get_subcommands()
        .try_for_each(|verb| write_subcommand(&title, verb, out))
}

/// The date of the release, in the head of each page.
const RELEASED: &str = "2026-11-16";

/// What holds for every tool that reads documents.
const SECTIONS: &[(&str, &[&str])] = &[
    (
        "DOCUMENTS",
        &[
            "A document is an id and a text. The id of a file is its path as it was given, or below the directory it was found in with --relative; the id of a line of NDJSON is its \
             id field, or FILE:LINE where it has none. Of two documents with one id the first is kept and the other reported.",
            "Documents are read in parallel and written in a fixed order: paths as given, directories sorted by name, byte by byte. Symbolic links in directories are not followed. A file in a \
             directory counts as binary when its first 8 KiB hold NUL bytes and are not UTF-8, or hold more than one NUL in 32 bytes; a file that is named is always read.",
            "NDJSON on stdin or another pipe is recognised by its first line, a JSON object; --records decides otherwise. A stdin without a single byte is no document; with --records text it is an empty \
             one.",
        ],
    ),
    (
        "EXIT STATUS",
        &[
            "0: all was done. 2: there was an error, or some input could not be used; each is named on stderr with file and line, and the rest was processed. With --skip-bad the latter is a warning, and the status 0.",
        ],
    ),
];
