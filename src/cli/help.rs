//! The help of programs and verbs: examples first, then flags, never more than a screen and a half.

use super::{Tool, args::MORE, console::ProgressMode, generate::Manual};
use clap::{
    Arg, ArgAction, Command, Error,
    builder::{EnumValueParser, Resettable, StyledStr, Styles},
    error::{ContextKind, ContextValue, ErrorKind},
};
use std::ffi::OsString;

/// Columns of help, on a terminal that has as many.
const WIDTH: usize = 100;
/// The examples that a verb shows.
const MOST_EXAMPLES: usize = 4;

const TEMPLATE: &str = "{about}\n\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}";

/// The command of a program, with the help that users see.
pub fn command_of<T: Tool>() -> Command {
    let command = whole_command::<T>();
    let name = command.get_name().to_owned();
    with_help(command, &name, &T::MANUAL, T::DEFAULT_VERB)
}

/// The command of a program with all of its flags.
pub fn whole_command<T: Tool>() -> Command {
    with_progress(T::adjust(T::command()))
}

/// Adds the flag for progress to each verb, or to a program that has none.
fn with_progress(command: Command) -> Command {
    let verbs = names(&command);
    if verbs.is_empty() {
        // The short help of the larger verbs has no line left; man says more.
        return command.arg(progress().hide_short_help(true));
    }
    verbs.iter().fold(command, |command, verb| {
        command.mut_subcommand(verb, with_progress)
    })
}

/// Sets the help of a command and of its verbs. `line`: how it is called.
fn with_help(command: Command, line: &str, manual: &Manual, default: Option<&str>) -> Command {
    let is_program = !line.contains(' ');
    let verbs: Vec<String> = names(&command);
    let command = verbs.iter().fold(command, |command, verb| {
        command.mut_subcommand(verb, |subcommand| {
            with_help(subcommand, &format!("{line} {verb}"), manual, default)
        })
    });
    let shown: Vec<_> = manual
        .examples
        .iter()
        .filter(|(example, _)| is_program || is_about(example, line, default))
        .take(if is_program {
            usize::MAX
        } else {
            MOST_EXAMPLES
        })
        .collect();
    let page = line.split(' ').next().unwrap_or(line);
    let help = Arg::new("help")
        .short('h')
        .long("help")
        .action(ArgAction::HelpShort)
        .help(format!("Print this help; man {page} says more"))
        .help_heading(if is_program { None } else { Some(MORE) });
    command
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .max_term_width(WIDTH)
        .styles(Styles::plain())
        .before_help(examples(&shown))
        .after_help(Resettable::<StyledStr>::Reset)
        .help_template(TEMPLATE)
        .arg(help)
}

/// Every verb has it; [`super::main_of`] finds it by its name.
fn progress() -> Arg {
    Arg::new("progress")
        .long("progress")
        .value_name("WHEN")
        .value_parser(EnumValueParser::<ProgressMode>::new())
        .hide_possible_values(true)
        .help("Show progress: auto, always, never, or json for programs [default: auto]")
        .long_help(
            "Show progress: auto, always, never, or json for programs [default: auto]\n\n\
             auto: a bar, if stderr is a terminal. always: without a terminal, a line for each tenth. json: every line on stderr \
             is an object; see PROGRESS in dedup(7).",
        )
        .help_heading(MORE)
}

/// The names of verbs.
pub fn names(command: &Command) -> Vec<String> {
    command
        .get_subcommands()
        .map(|verb| verb.get_name().to_owned())
        .collect()
}

/// Whether an example shows a verb: it names it, or no verb, and this is the default.
fn is_about(example: &str, line: &str, default: Option<&str>) -> bool {
    let is_named = |part: &str| part.trim_start().starts_with(&format!("{line} "));
    let parts: Vec<&str> = example.split(['|', ';', '&']).collect();
    let names_verb = parts
        .iter()
        .any(|part| is_named(part) || part.contains(&format!("do {line} ")) || part.trim() == line);
    let (program, verb) = line.split_once(' ').unwrap_or((line, ""));
    let is_default = default == Some(verb) && names_no_verb(&parts, program);
    names_verb || is_default
}

/// Whether the program is called with something that is not a single word, and so no verb.
fn names_no_verb(parts: &[&str], program: &str) -> bool {
    let first = |part: &&str| -> Option<String> {
        let rest = part.trim_start().strip_prefix(program)?.strip_prefix(' ')?;
        rest.split_whitespace().next().map(str::to_owned)
    };
    let is_path = |word: &str| word.contains(['.', '/', '-']);
    parts.iter().filter_map(first).any(|word| is_path(&word))
}

fn examples(shown: &[&(&str, &str)]) -> String {
    let lines = shown
        .iter()
        .map(|(command, what)| format!("  # {what}\n  {command}"));
    format!("Examples:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

/// Puts the default verb where none is given.
pub fn with_verb(command: &Command, default: &str, mut words: Vec<OsString>) -> Vec<OsString> {
    let is_of_program = |word: &str| {
        ["-h", "--help", "-V", "--version"].contains(&word) || word.starts_with("--generate")
    };
    let first = words.get(1).map(|word| word.to_string_lossy().into_owned());
    if let Some(first) = first
        && !is_of_program(&first)
        && !names(command).contains(&first)
    {
        words.insert(1, default.into());
    }
    words
}

/// Adds to an error about a flag of earlier versions what to write instead.
pub fn explain_retired<T: Tool>(mut error: Error, words: &[OsString]) -> Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let name = flag.split('=').next().unwrap_or(flag).to_owned();
    let Some((_, instead)) = T::RETIRED.iter().find(|(retired, _)| *retired == name) else {
        return error;
    };
    let instead = instead.replace(
        "VALUE",
        &value_of(&name, words).unwrap_or("VERB".to_owned()),
    );
    error.remove(ContextKind::SuggestedArg);
    error.remove(ContextKind::Usage);
    error.insert(
        ContextKind::Suggested,
        ContextValue::StyledStrs(vec![format!("use: {instead}").into()]),
    );
    error
}

/// The value that a flag was given.
fn value_of(flag: &str, words: &[OsString]) -> Option<String> {
    let texts: Vec<String> = words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let attached = texts
        .iter()
        .find_map(|text| text.strip_prefix(flag)?.strip_prefix('='));
    let next = || {
        let at = texts.iter().position(|text| text == flag)?;
        texts.get(at + 1)
    };
    attached.map(str::to_owned).or_else(|| next().cloned())
}
