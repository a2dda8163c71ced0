//! Presets: settings that belong together, for one kind of text each.
//!
//! A preset says how documents become blots, and which score and threshold suit the questions that
//! are asked later. An index keeps the name of its preset, so later questions need no flags. Any flag
//! overrides the preset. To add one: a row of [`PRESETS`].

use crate::{
    base::error::{Error, Place, Result},
    index::Index,
    similar::{CommonTextRule, Score},
};

/// A score, and the least value that counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cutoff {
    /// The score.
    pub score: Score,
    /// The least value that counts.
    pub threshold: f64,
}

/// Settings for one kind of text. What is `None` has the default of its flag.
#[derive(Debug)]
pub struct Preset {
    /// The name by which users select it.
    pub name: &'static str,
    /// What it is for, and what it costs.
    pub help: &'static str,
    /// The tokenizer, as the user would give it.
    pub tokenizer: Option<&'static str>,
    /// How windows of tokens become blots.
    pub scheme: Option<&'static str>,
    /// The number of tokens of a window.
    pub k: Option<u32>,
    /// Which blots are kept.
    pub select: Option<&'static str>,
    /// Which pairs of documents are listed.
    pub pairs: Cutoff,
    /// Which pairs make clusters.
    pub clusters: Cutoff,
    /// Which documents answer a query.
    pub query: Cutoff,
    /// Which text is too common to count in pairs and clusters.
    pub common: CommonTextRule,
    /// Whether passages in quotation marks and lists of references are left out.
    pub excludes_quotes: bool,
}

const fn cutoff(score: Score, threshold: f64) -> Cutoff {
    Cutoff { score, threshold }
}

/// The preset of an index that has no other.
pub static TEXT: Preset = DEFAULT;

/// The settings that other presets start from.
const DEFAULT: Preset = Preset {
    name: "text",
    help: "versions and copies of documents; boilerplate does not count",
    tokenizer: None,
    scheme: None,
    k: None,
    select: None,
    pairs: cutoff(Score::Jaccard, 0.1),
    clusters: cutoff(Score::Jaccard, 0.5),
    query: cutoff(Score::Containment, 0.0),
    common: CommonTextRule::Boilerplate,
    excludes_quotes: false,
};

/// All presets, the default first.
pub static PRESETS: &[&Preset] = &[
    &TEXT,
    &Preset {
        name: "essays",
        help: "also reworded passages; quotations do not count in them (index × 2.4)",
        scheme: Some("ordered:8,context:3"),
        pairs: cutoff(Score::RelativeRarity, 0.95),
        clusters: cutoff(Score::RelativeRarity, 0.95),
        query: cutoff(Score::RelativeRarity, 0.95),
        common: CommonTextRule::Counts,
        excludes_quotes: true,
        ..DEFAULT
    },
    &Preset {
        name: "web",
        help: "near-duplicate pages, among navigation and banners (index × 1)",
        k: Some(5),
        pairs: cutoff(Score::Jaccard, 0.2),
        clusters: cutoff(Score::Jaccard, 0.5),
        ..DEFAULT
    },
    &Preset {
        name: "ocr",
        help: "text with misread letters (index × 1.1)",
        scheme: Some("letters:8/winnow:4"),
        pairs: cutoff(Score::Rarity, 7.0),
        clusters: cutoff(Score::Rarity, 7.0),
        query: cutoff(Score::Rarity, 7.0),
        common: CommonTextRule::Counts,
        ..DEFAULT
    },
    &Preset {
        name: "code",
        help: "source code, also with other names or moved parts (index × 2)",
        tokenizer: Some("code-norm+code"),
        k: Some(16),
        pairs: cutoff(Score::Containment, 0.15),
        clusters: cutoff(Score::Containment, 0.5),
        common: CommonTextRule::Counts,
        ..DEFAULT
    },
    &Preset {
        name: "dna",
        help: "DNA of FASTA files, both strands",
        tokenizer: Some("dna"),
        pairs: cutoff(Score::Containment, 0.1),
        clusters: cutoff(Score::Containment, 0.5),
        common: CommonTextRule::Counts,
        ..DEFAULT
    },
];

impl Preset {
    /// The preset of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().copied().find(|preset| preset.name == name)
    }

    /// The preset of an index.
    pub fn of_index(index: &Index) -> Result<&'static Self> {
        let Some(name) = &index.manifest.preset else {
            return Ok(&TEXT);
        };
        Self::named(name).ok_or_else(|| {
            Error::damaged(
                Place::path(&index.directory),
                format!("was made with the preset '{name}', which this version does not have; use the version that made it"),
            )
        })
    }

    /// The name that an index keeps: none for the default.
    pub fn kept_name(&self) -> Option<String> {
        (self.name != TEXT.name).then(|| self.name.to_owned())
    }
}
