//! Manual pages and completions, made from the same definitions that parse the arguments.

use super::{Tool, args::MORE, help::whole_command};
use clap::{Arg, Command, ValueEnum};
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

/// The parts of a manual page that `--help` does not have.
pub struct Manual {
    /// Command lines, each with an explanation.
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
    let command = whole_command::<T>();
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
    let common = common_options(&command);
    for subcommand in command.get_subcommands() {
        write_subcommand(command.get_name(), subcommand, &common, out)?;
    }
    write_common_options(&command, &common, out)?;
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

/// The ids of the options that one verb describes for several, and the name of that verb.
#[derive(Default)]
struct CommonOptions {
    verb: String,
    ids: Vec<String>,
}

impl CommonOptions {
    fn contains(&self, option: &Arg) -> bool {
        self.ids.iter().any(|id| option.get_id() == id.as_str())
    }
}

/// Among the rarely used options of the verb that has most of them, those that other verbs have, too.
fn common_options(command: &Command) -> CommonOptions {
    let rare = |verb: &Command| -> Vec<String> {
        verb.get_arguments()
            .filter(|option| option.get_help_heading() == Some(MORE))
            .map(|option| option.get_id().to_string())
            .collect()
    };
    let verbs: Vec<(String, Vec<String>)> = command
        .get_subcommands()
        .map(|verb| (verb.get_name().to_owned(), rare(verb)))
        .collect();
    let Some((verb, ids)) = verbs.iter().max_by_key(|(_, ids)| ids.len()) else {
        return CommonOptions::default();
    };
    let is_shared = |id: &&String| verbs.iter().filter(|(_, ids)| ids.contains(id)).count() > 1;
    CommonOptions {
        verb: verb.clone(),
        ids: ids.iter().filter(is_shared).cloned().collect(),
    }
}

/// The options that several verbs have, once.
fn write_common_options(
    command: &Command,
    common: &CommonOptions,
    out: &mut Vec<u8>,
) -> std::io::Result<()> {
    let Some(verb) = command
        .find_subcommand(&common.verb)
        .filter(|_| !common.ids.is_empty())
    else {
        return Ok(());
    };
    let only_common = verb
        .clone()
        .mut_args(|option| {
            let is_hidden = !common.contains(&option);
            option.hide(is_hidden).help_heading(None::<&str>)
        })
        .disable_help_flag(true);
    let mut options = Vec::new();
    Man::new(only_common).render_options_section(&mut options)?;
    let options = String::from_utf8_lossy(&options).replace("OPTIONS", "\"COMMON OPTIONS\"");
    out.write_all(options.as_bytes())
}

/// A section for each thing a tool can do, its options below.
fn write_subcommand(
    tool: &str,
    subcommand: &Command,
    common: &CommonOptions,
    out: &mut Vec<u8>,
) -> std::io::Result<()> {
    let title = format!("{tool} {}", subcommand.get_name());
    let about = subcommand
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    Roff::new()
        .control("SH", [title.to_uppercase().as_str()])
        .text([roman(about)])
        .to_writer(out)?;
    let own = subcommand
        .clone()
        .mut_args(|option| {
            let is_hidden = option.is_hide_set() || common.contains(&option);
            option.hide(is_hidden)
        })
        .disable_help_flag(true);
    let mut options = Vec::new();
    Man::new(own).render_options_section(&mut options)?;
    let options = String::from_utf8_lossy(&options)
        .replace(".SH OPTIONS\n", "")
        .replace(".SH ", ".SS ");
    out.write_all(options.as_bytes())?;
    let flags: Vec<String> = subcommand
        .get_arguments()
        .filter(|option| common.contains(option))
        .map(flag_of)
        .collect();
    if !flags.is_empty() {
        Roff::new()
            .control("PP", [])
            .text([roman(format!("Common options: {}.", flags.join(", ")))])
            .to_writer(out)?;
    }
    subcommand
        .get_subcommands()
        .try_for_each(|verb| write_subcommand(&title, verb, common, out))
}

/// A flag as users type it.
fn flag_of(option: &Arg) -> String {
    match (option.get_long(), option.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) => option.get_id().to_string(),
    }
}

/// The date of the release, in the head of each page.
const RELEASED: &str = "2026-11-16";

/// Paragraphs for every program that reads documents.
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
