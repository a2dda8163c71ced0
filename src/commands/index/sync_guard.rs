//! Keeps `sync` from emptying an index by mistake: it must be called as before, and may remove only a limited number of documents.

use crate::base::num::ToF64;
use crate::base::setting::Setting;
use crate::{
    index::{SyncState, Walk},
    text::corpus::{self, Records},
};
use std::{
    fmt, fs,
    path::{Path, PathBuf},
    str::FromStr,
};

/// How many documents one run of `sync` may remove.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum MaxRemove {
    /// Half of the documents, the default.
    #[default]
    Half,
    /// This many documents.
    Documents(u64),
    /// This share of the documents.
    Percent(f64),
}

impl FromStr for MaxRemove {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is neither a number of documents nor a share such as 60%");
        match text.strip_suffix('%') {
            None => text.parse().map(Self::Documents).map_err(|_| wrong()),
            Some(share) => {
                let percent: f64 = share.parse().map_err(|_| wrong())?;
                if (0.0..=100.0).contains(&percent) {
                    Ok(Self::Percent(percent))
                } else {
                    Err(wrong())
                }
            }
        }
    }
}

impl TryFrom<String> for MaxRemove {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<MaxRemove> for String {
    fn from(max_remove: MaxRemove) -> Self {
        max_remove.to_string()
    }
}

impl fmt::Display for MaxRemove {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Half => out.write_str("50%"),
            Self::Documents(count) => write!(out, "{count}"),
            Self::Percent(percent) => write!(out, "{percent}%"),
        }
    }
}

impl MaxRemove {
    fn allows(self, removed: u64, documents: u64) -> bool {
        match self {
            Self::Half => removed.saturating_mul(2) <= documents,
            Self::Documents(most) => removed <= most,
            Self::Percent(percent) => removed.to_f64() * 100.0 <= percent * documents.to_f64(),
        }
    }

    /// Why this number of documents must not be removed; `None` if it may. An empty directory may be one that is not mounted.
    pub fn refusal(self, removed: u64, documents: u64, roots: &[PathBuf]) -> Option<String> {
        let is_empty =
            |root: &&PathBuf| fs::read_dir(root).is_ok_and(|mut entries| entries.next().is_none());
        let empty = roots
            .iter()
            .find(is_empty)
            .filter(|_| self == Self::Half && removed > 0);
        if empty.is_none() && self.allows(removed, documents) {
            return None;
        }
        let why = empty.map_or_else(
            || format!("{self} may go"),
            |root| format!("{} is empty: is it mounted?", root.display()),
        );
        Some(format!(
            "{removed} of {documents} documents would be removed, as no file has them, and {why}; nothing was changed; see that all files are there and read as they were ({}, {}, {}), or allow it with {}",
            Setting::Relative,
            Setting::Records,
            Setting::IdField,
            Setting::MaxRemove.to(removed)
        ))
    }
}

/// How these options find and read files.
pub fn walk_of(options: &corpus::Options, scheme: &str) -> Walk {
    let corpus::Options {
        paths,
        files_from,
        records,
        fields,
        relative,
        lossy,
        prefer_fasta,
        include,
        exclude,
        gitignore,
        hidden,
        encoding,
        keep_markup,
        adapters,
        ocr,
        ..
    } = options;
    let given = |is: bool| if is { "given" } else { "" }.to_owned();
    let rules: Vec<String> = adapters
        .iter()
        .map(|rule| format!("{}={}", rule.pattern, rule.command))
        .collect();
    let reading = [
        ("--include", include.join(" ")),
        ("--exclude", exclude.join(" ")),
        ("--gitignore", given(*gitignore)),
        ("--hidden", given(*hidden)),
        ("--encoding", encoding.clone().unwrap_or_default()),
        ("--keep-markup", given(*keep_markup)),
        ("--adapter", rules.join(" ")),
        ("--ocr", ocr.clone().unwrap_or_default()),
    ];
    let name = |records: Records| {
        Records::NAMES
            .iter()
            .find(|(_, known)| *known == records)
            .map_or("", |(name, _)| name)
            .to_owned()
    };
    let root = |path: &PathBuf| path.components().collect::<PathBuf>().display().to_string();
    Walk {
        scheme: scheme.to_owned(),
        roots: paths.iter().map(root).collect(),
        list: files_from.is_some(),
        relative: *relative,
        records: records.map(name),
        id_field: fields.id_field.clone(),
        text_field: fields.text_field.clone(),
        lossy: *lossy,
        fasta: *prefer_fasta,
        reading: reading
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(flag, value)| (flag.to_owned(), value))
            .collect(),
    }
}

/// Refuses to find and read files in another way than before: documents of files that are not found again would be removed, and ids might
/// change.
///
/// Additional roots are allowed. Returns the walk to remember.
pub fn ensure_walked_alike(
    known: Option<&SyncState>,
    now: Walk,
    state: &Path,
) -> Result<Walk, String> {
    let remembered = Walk {
        roots: now
            .roots
            .iter()
            .filter(|root| Path::new(root).exists())
            .cloned()
            .collect(),
        ..now.clone()
    };
    let Some(before) = known.map(SyncState::walk) else {
        return Ok(remembered);
    };
    let given = |is: bool| if is { "given" } else { "not given" }.to_owned();
    let records = |walk: &Walk| {
        walk.records
            .clone()
            .unwrap_or_else(|| "not given".to_owned())
    };
    let settings = [
        (
            Setting::Relative,
            given(before.relative),
            given(now.relative),
        ),
        (Setting::Records, records(before), records(&now)),
        (
            Setting::IdField,
            before.id_field.clone(),
            now.id_field.clone(),
        ),
        (
            Setting::TextField,
            before.text_field.clone(),
            now.text_field.clone(),
        ),
        (Setting::Lossy, given(before.lossy), given(now.lossy)),
    ];
    let mut differences: Vec<String> = settings
        .into_iter()
        .filter(|(_, then, now)| then != now)
        .map(|(setting, then, now)| format!("{setting} was {then}, and is {now} now"))
        .collect();
    differences.extend(other_readings(&before.reading, &now.reading));
    let missing: Vec<&str> = before
        .roots
        .iter()
        .filter(|root| !now.roots.contains(root))
        .map(String::as_str)
        .collect();
    if !missing.is_empty() && !now.list {
        differences.push(format!(
            "{} was given, and is not now ({})",
            missing.join(" "),
            now.roots.join(" ")
        ));
    }
    if differences.is_empty() {
        return Ok(Walk {
            roots: union(&before.roots, &remembered.roots),
            ..remembered
        });
    }
    Err(format!(
        "synced in another way before: {}; call sync as before, or remove {} to follow files in another way from now on",
        differences.join("; "),
        state.display()
    ))
}

/// Options that were given in another way before.
fn other_readings(before: &[(String, String)], now: &[(String, String)]) -> Vec<String> {
    let value = |of: &[(String, String)], flag: &str| {
        of.iter()
            .find(|(known, _)| known == flag)
            .map_or_else(|| "not given".to_owned(), |(_, value)| value.clone())
    };
    let mut flags: Vec<&str> = before.iter().chain(now).map(|(flag, _)| &**flag).collect();
    flags.sort_unstable();
    flags.dedup();
    flags
        .into_iter()
        .filter(|flag| value(before, flag) != value(now, flag))
        .map(|flag| {
            let (then, now) = (value(before, flag), value(now, flag));
            format!("{flag} was {then}, and is {now} now")
        })
        .collect()
}

fn union(before: &[String], now: &[String]) -> Vec<String> {
    before
        .iter()
        .chain(now.iter().filter(|root| !before.contains(root)))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_numbers_or_shares() {
        let allows = |text: &str, removed, documents| {
            text.parse::<MaxRemove>()
                .map(|max| max.allows(removed, documents))
        };
        assert_eq!(
            (allows("3", 3, 3), allows("3", 4, 100)),
            (Ok(true), Ok(false))
        );
        assert_eq!(
            (
                allows("60%", 6, 10),
                allows("60%", 7, 10),
                allows("0%", 0, 0)
            ),
            (Ok(true), Ok(false), Ok(true))
        );
        assert_eq!(
            (MaxRemove::Half.allows(1, 2), MaxRemove::Half.allows(2, 3)),
            (true, false)
        );
        for wrong in ["", "%", "-1", "101%", "NaN%", "1.5", "ten"] {
            assert!(wrong.parse::<MaxRemove>().is_err(), "{wrong}");
        }
    }
}
