//! dedup-extract --unique: what documents are judged by, and the account at the end.

use super::{progress::say, threshold::Threshold};
use crate::{commands::Cleaned, similar::Score};
use anyhow::bail;
use indicatif::{BinaryBytes, HumanCount};

/// The share of a document that must be in another one for it to go, by default.
const THRESHOLD: f64 = 0.8;

/// The section of the manual.
pub const UNIQUE: &[&str] = &[
    "With --unique the lines of NDJSON files are copied as they are, byte for byte and in their order, but for those of duplicates. Documents are visited in order of preference (--keep: first, the order of the lines; last; longest; shortest; of equals \
                 the first line). Each is decided when it is visited: it is dropped if a document that stays has the same tokens (exact), or if at least 80 % (--threshold) of its own distinct blots are in a single document that stays (near). So \
                 a long document is never dropped because a short one is in it, there are no chains, and the answer is the same whatever commits made the index. With --score jaccard what both share is divided by what either has.",
    "Only documents of the input count: nothing is dropped because of a document that the index has and the input does not. Files may be packed (.gz, .zst); --records ndjson reads files of other names. --keep first needs no more than a look at each line; for the others all lines are \
                 stored in a temporary file first, packed, in the directory that TMPDIR names. --exclude, --exclude-index, --base and --max-df leave out boilerplate, which then counts on neither side.",
    "Nothing else is lost: a document that the index does not have, or has with another text, is kept and counted; a line that is no document (not JSON, no text) is kept and named, and the status is 2 (0 with --skip-bad); so is a \
                 second line with an id that came before. A blank line is kept. A last line without a line feed gets one. A file that is cut or damaged ends the run with status 2: -o leaves no file then.",
    "--dropped FILE gets for each line that was dropped doc, duplicate_of (a document that was kept: the one that has most of it, of equals the one visited first), reason (exact or near), shared (blots), share (shared ÷ blots of doc). \
                 At the end stderr has an account: documents and bytes read and kept, documents dropped as exact and near duplicates, those for which most others were dropped, and a warning if more than half went; -q silences it.",
];

/// What a document is judged by, and how much is enough to drop it.
pub fn judged_by(
    score: Option<&str>,
    threshold: Option<Threshold>,
) -> Result<(Score, f64), anyhow::Error> {
    let score = match score {
        None | Some("containment") => Score::Inclusion,
        Some("jaccard") => Score::Jaccard,
        Some(other) => {
            bail!(
                "--score {other} does not say how much of a document is in another one; --unique takes containment or jaccard"
            )
        }
    };
    let threshold = threshold.map_or(Ok(THRESHOLD), |threshold| threshold.of_score(score))?;
    if threshold == 0.0 {
        bail!("--threshold 0: with --unique it is the share of a document, above 0 and at most 1");
    }
    Ok((score, threshold))
}

/// Says on stderr what was read, kept and dropped, and what may be wrong.
pub fn tell(tool: &str, index: &str, cleaned: &Cleaned) {
    for line in account(index, cleaned) {
        say(&format!("{tool}: {line}"));
    }
}

fn account(index: &str, cleaned: &Cleaned) -> Vec<String> {
    let Cleaned {
        read,
        dropped_exact,
        dropped_near,
        unknown,
        changed,
        ..
    } = *cleaned;
    let mut lines = vec![format!(
        "{} documents read ({}), {} kept ({}), {} dropped as exact duplicates, {} as near duplicates",
        HumanCount(read),
        BinaryBytes(cleaned.bytes_read),
        HumanCount(cleaned.kept()),
        BinaryBytes(cleaned.bytes_kept),
        HumanCount(dropped_exact),
        HumanCount(dropped_near),
    )];
    if !cleaned.largest.is_empty() {
        let group = |(id, dropped): &(String, u64)| {
            format!("'{}' ({})", id.escape_debug(), HumanCount(*dropped))
        };
        lines.push(format!(
            "most were dropped for {}",
            cleaned
                .largest
                .iter()
                .map(group)
                .collect::<Vec<_>>()
                .join(", ")
        ));
    }
    if unknown > 0 {
        let hint = if unknown == read {
            "; is it the index of this corpus, and --id-field as it was built with?"
        } else {
            ""
        };
        lines.push(format!(
            "{unknown} of {read} documents are not in {index}, and are kept{hint}"
        ));
    }
    if changed > 0 {
        lines.push(format!("{changed} of {read} documents have another text than in {index}, and are kept; bring the index up to date"));
    }
    if cleaned.dropped() > cleaned.kept() {
        let remedy = "look at --dropped FILE before you throw the originals away; --threshold, --max-df or --exclude keep more";
        lines.push(format!(
            "warning: more than half of the documents were dropped; {remedy}"
        ));
    }
    lines
}
