//! The account of a run: a table on stderr.

use crate::{
    cli::progress::say,
    commands::{CleanAccount, CleanWarning},
};
use indicatif::{BinaryBytes, HumanCount};

/// Prints the account on stderr.
pub fn print_account(account: &CleanAccount, program: &str) {
    for line in table(account) {
        say(&format!("{program}: {line}"));
    }
    for line in remarks(account) {
        say(&format!("{program}: {line}"));
    }
    for warning in &account.cleaned.warnings {
        say(&format!("{program}: warning: {warning}{}", remedy(warning)));
    }
}

fn table(account: &CleanAccount) -> Vec<String> {
    let cleaned = &account.cleaned;
    let mut rows = vec![
        ("read", cleaned.read, Some(account.bytes_read)),
        ("kept", cleaned.kept, Some(account.bytes_written)),
        ("exact", cleaned.exact, None),
        ("near", cleaned.near, None),
    ];
    if cleaned.against > 0 {
        rows.push(("against", cleaned.against, None));
    }
    if cleaned.short > 0 {
        rows.push(("short", cleaned.short, None));
    }
    if cleaned.cut_passages > 0 {
        rows.push(("cut", cleaned.cut_documents, Some(cleaned.cut_bytes)));
    }
    let share = |count: u64| 100.0 * count as f64 / cleaned.read.max(1) as f64;
    let row = |(name, count, bytes): (&str, u64, Option<u64>)| {
        let bytes = bytes.map_or_else(String::new, |bytes| BinaryBytes(bytes).to_string());
        let count_text = HumanCount(count).to_string();
        format!(
            "{name:<8}{count_text:>14} {:>6.1}% {bytes:>12}",
            share(count)
        )
    };
    let mut lines = vec![format!(
        "{:<8}{:>14} {:>7} {:>12}",
        "", "documents", "", "bytes"
    )];
    lines.extend(rows.into_iter().map(row));
    lines
        .iter()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// Of the largest groups, how many the summary names; `--report` has more.
const GROUPS_SHOWN: usize = 3;

fn remarks(account: &CleanAccount) -> Vec<String> {
    let cleaned = &account.cleaned;
    let mut lines = Vec::new();
    if cleaned
        .largest
        .first()
        .is_some_and(|(_, dropped)| *dropped > 1)
    {
        let group = |(id, dropped): &(String, u64)| {
            format!("'{}' ({})", id.escape_debug(), HumanCount(*dropped))
        };
        let groups: Vec<_> = cleaned
            .largest
            .iter()
            .take(GROUPS_SHOWN)
            .map(group)
            .collect();
        lines.push(format!("largest groups: {}", groups.join(", ")));
    }
    if account.other_records > 0 {
        let count = HumanCount(account.other_records);
        let (records, stay) = if account.other_records == 1 {
            ("record is no document", "stays")
        } else {
            ("records are no documents", "stay")
        };
        lines.push(format!("{count} {records}, and {stay}"));
    }
    let counted = [
        (
            cleaned.unknown,
            "are not in the index, and stay; is it the index of these files, and --id-field as it was built with?",
        ),
        (
            cleaned.changed,
            "have another text than in the index, and stay; bring the index up to date",
        ),
        (cleaned.repeated, "have an id that came before, and stay"),
        (
            cleaned.without_tokens,
            "have no tokens to compare, and stay",
        ),
        (
            cleaned.short_others,
            "to compare with have too few tokens to be found inside of others (--against-span)",
        ),
        (
            cleaned.whole,
            "have passages that cannot be cut out, because of the kind of their files, and stay whole",
        ),
    ];
    for (count, what) in counted {
        if count > 0 {
            lines.push(format!("{} documents {what}", HumanCount(count)));
        }
    }
    lines
}

/// What to do about a warning.
fn remedy(warning: &CleanWarning) -> &'static str {
    match warning {
        CleanWarning::MostGo { .. } => "; --dropped FILE lists them, a higher --near keeps more",
        CleanWarning::LargeGroup { .. } => "; --dropped FILE lists them",
        CleanWarning::Boilerplate { .. } => "; --cut-spans 50 would cut it out",
    }
}
