//! The account of a run: a table on stderr, and JSON.

use crate::{
    cli::progress::say,
    commands::{CleanWarning, Cleaned, WrittenShards},
};
use indicatif::{BinaryBytes, HumanCount};
use serde::{Deserialize, Serialize};

/// What a run read, decided and wrote.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CleanAccount {
    /// Files that take part.
    pub shards: u64,
    /// Their size on disk.
    pub bytes_read: u64,
    /// Files that were written.
    pub shards_written: u64,
    /// Their size on disk.
    pub bytes_written: u64,
    /// Files that take no part.
    pub shards_left_out: u64,
    /// Lines and rows that are no documents, and stay.
    pub other_records: u64,
    #[serde(flatten)]
    pub cleaned: Cleaned,
}

impl CleanAccount {
    pub fn finish(&mut self, written: WrittenShards) {
        self.shards_written = written.shards;
        self.bytes_written = written.bytes;
    }

    /// The account as JSON, for `--report`.
    pub fn to_json(&self) -> Result<Vec<u8>, anyhow::Error> {
        let mut report = serde_json::to_value(self)?;
        if let Some(fields) = report.as_object_mut() {
            // Of use to this program only.
            fields.remove("fates");
            let groups = self.cleaned.largest.iter();
            let group =
                |(id, dropped): &(String, u64)| serde_json::json!({"id": id, "dropped": dropped});
            fields.insert("largest".to_owned(), groups.map(group).collect());
        }
        let mut bytes = serde_json::to_vec_pretty(&report)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Prints the account on stderr.
    pub fn print(&self, program: &str) {
        for line in self.table() {
            say(&format!("{program}: {line}"));
        }
        for line in self.remarks() {
            say(&format!("{program}: {line}"));
        }
        for warning in &self.cleaned.warnings {
            say(&format!("{program}: warning: {warning}{}", remedy(warning)));
        }
    }

    fn table(&self) -> Vec<String> {
        let cleaned = &self.cleaned;
        let mut rows = vec![
            ("read", cleaned.read, Some(self.bytes_read)),
            ("kept", cleaned.kept, Some(self.bytes_written)),
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

    fn remarks(&self) -> Vec<String> {
        let cleaned = &self.cleaned;
        let mut lines = Vec::new();
        if cleaned
            .largest
            .first()
            .is_some_and(|(_, dropped)| *dropped > 1)
        {
            let group = |(id, dropped): &(String, u64)| {
                format!("'{}' ({})", id.escape_debug(), HumanCount(*dropped))
            };
            let groups: Vec<_> = cleaned.largest.iter().map(group).collect();
            lines.push(format!("largest groups: {}", groups.join(", ")));
        }
        if self.other_records > 0 {
            let count = HumanCount(self.other_records);
            lines.push(format!("{count} records are no documents, and stay"));
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
}

/// What to do about a warning.
fn remedy(warning: &CleanWarning) -> &'static str {
    match warning {
        CleanWarning::MostGo { .. } => "; --dropped FILE lists them, a higher --near keeps more",
        CleanWarning::LargeGroup { .. } => "; --dropped FILE lists them",
        CleanWarning::Boilerplate { .. } => "; --cut-spans 50 would cut it out",
    }
}
