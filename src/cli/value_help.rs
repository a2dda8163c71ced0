//! The help of flags whose values are the rows of a table: scores and output formats.

use crate::{
    report::{Format, GraphFormat},
    similar::Score,
};

/// The default of `--score`.
const DEFAULT: &str = "[default: containment]";

/// The help of scores: their names.
pub fn score_names() -> String {
    format!(
        "{} {DEFAULT}",
        Score::NAMES.map(|(name, ..)| name).join(", ")
    )
}

/// The long help of scores: what each is.
pub fn score_help() -> String {
    let rows = Score::NAMES.iter().zip(Score::HELP);
    let rows: Vec<_> = rows
        .map(|((name, ..), formula)| format!("{name}: {formula}"))
        .collect();
    format!("The score of a pair\n\n{}\n\n{DEFAULT}", rows.join(";\n"))
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
        "The least score that counts, such as 0.5 or 50% [default: 0.5]\n\n\
         The default depends on the score: {}. See THRESHOLDS.",
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
