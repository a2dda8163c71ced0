//! The help of flags whose values are the rows of a table: scores and output formats.

use crate::{
    commands::PRESETS,
    report::{Format, GraphFormat},
    similar::Score,
};

/// The default of `--score`.
const DEFAULT: &str = "[default: jaccard]";

/// The help of presets: their names.
pub fn preset_names() -> String {
    let names: Vec<_> = PRESETS.iter().map(|preset| preset.name).collect();
    format!("Settings for {}", choice(&names))
}

/// The help of presets as a table, for the verb that makes an index.
pub fn preset_table() -> String {
    let rows: Vec<_> = PRESETS
        .iter()
        .map(|preset| format!("  {:<7} {}", preset.name, preset.help))
        .collect();
    format!(
        "Settings for a kind of text, which later questions use [default: text]:\n{}",
        rows.join("\n")
    )
}

/// The long help of presets: what each is for, and what it costs.
pub fn preset_help() -> String {
    let rows: Vec<_> = PRESETS
        .iter()
        .map(|preset| format!("{}: {}", preset.name, preset.help))
        .collect();
    format!(
        "Settings for a kind of text\n\n{}\n\nAn index keeps its preset: later questions use its score and threshold. Any other flag \
         overrides it. See PRESETS in dedup(7).",
        rows.join(";\n")
    )
}

/// The help of scores: their names.
pub fn score_names() -> String {
    format!(
        "{} {DEFAULT}",
        Score::NAMES
            .map(|(name, ..)| name)
            .join(", ")
            .replace("s1, s2, s3, s4", "s1 to s4")
    )
}

/// As [`score_names`], for queries: by default the first one.
pub fn query_score_names() -> String {
    let names = score_names();
    let names = names.trim_end_matches(DEFAULT).trim_end();
    names.replacen(',', " (the default),", 1)
}

/// The long help of scores: what each is.
pub fn score_help() -> String {
    let rows = Score::NAMES.iter().zip(Score::HELP);
    let rows: Vec<_> = rows
        .map(|((name, ..), formula)| format!("{name}: {formula}"))
        .collect();
    format!("The score of a pair\n\n{}", rows.join(";\n"))
}

/// The long help of thresholds: `0.5 for containment and jaccard, 20 for s1, …`.
pub fn threshold_help() -> String {
    let defaults: Vec<_> = Score::NAMES
        .chunk_by(|a, b| a.2 == b.2)
        .map(|alike| {
            let names: Vec<_> = alike.iter().map(|(name, ..)| *name).collect();
            format!("{} for {}", alike[0].2, names.join(" and "))
        })
        .collect();
    format!(
        "The least score that counts, such as 0.5 or 50% [default: that of the preset]\n\n\
         With another score than that of the preset, the default is {}. See THRESHOLDS.",
        defaults.join(", ")
    )
}

/// The names of the formats of records, the default first.
fn record_formats() -> Vec<&'static str> {
    Format::ALL.iter().map(|format| format.name()).collect()
}

/// The help of formats that any record can be written in.
pub fn format_names() -> String {
    choice(&record_formats())
}

/// The help of the formats of pairs.
pub fn pair_format_names() -> String {
    let names = record_formats();
    format!(
        "{}; with --passages pan-xml [default: {}]",
        names.join(", "),
        names[0]
    )
}

/// The help of the formats of aligned pairs.
pub fn align_format_names() -> String {
    let names = record_formats();
    format!(
        "{}, or pan-xml: a file for each pair in -o DIR [default: {}]",
        names.join(", "),
        names[0]
    )
}

/// The long help of the formats of pairs.
pub fn pair_format_help() -> String {
    format!(
        "{}\n\npan-xml writes a file for each pair into the directory -o.",
        pair_format_names()
    )
}

/// The help of the formats of graphs.
pub fn graph_format_names() -> String {
    choice(&GraphFormat::ALL.map(|format| format.name()))
}

/// `ndjson, tsv or csv [default: ndjson]`.
fn choice(names: &[&str]) -> String {
    format!("{} [default: {}]", one_of(names), names[0])
}

/// `ndjson, tsv or csv`.
pub fn one_of(names: &[&str]) -> String {
    let (others, last) = names.split_at(names.len().saturating_sub(1));
    format!("{} or {}", others.join(", "), last.concat())
}
