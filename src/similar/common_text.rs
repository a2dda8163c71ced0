//! Text that too many documents have to tell of copying.

use super::boilerplate::Boilerplate;
use crate::base::error::Result;
use crate::base::ids::SetNo;
use crate::index::{SetSource, View};
use serde::{Deserialize, Serialize};

/// Which text is too common to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommonTextRule {
    /// All text counts.
    #[default]
    Counts,
    /// Text of more documents than this is ignored, copies of one text included.
    MoreThan(u64),
    /// Boilerplate is ignored; see [`Boilerplate`].
    Boilerplate,
}

impl CommonTextRule {
    /// Whether no text is ignored.
    pub fn counts(self) -> bool {
        self == Self::Counts
    }

    /// The largest number of documents of text that counts, if it was given.
    pub fn max_df(self) -> Option<u64> {
        match self {
            Self::MoreThan(documents) => Some(documents),
            Self::Counts | Self::Boilerplate => None,
        }
    }
}

impl From<Option<u64>> for CommonTextRule {
    fn from(max_df: Option<u64>) -> Self {
        max_df.map_or(Self::Counts, Self::MoreThan)
    }
}

/// The sets of an index that are too common to count.
pub enum CommonSets {
    /// Sets of more documents.
    MoreThan(u64),
    /// Boilerplate.
    Boilerplate(Boilerplate),
}

impl CommonSets {
    /// No sets.
    pub const NONE: Self = Self::MoreThan(u64::MAX);

    /// The sets that are too common.
    pub fn of(
        common: CommonTextRule,
        view: &View<'_>,
        sets: &SetSource<'_>,
        threads: usize,
    ) -> Result<Self> {
        Ok(match common {
            CommonTextRule::Counts => Self::NONE,
            CommonTextRule::MoreThan(documents) => Self::MoreThan(documents),
            CommonTextRule::Boilerplate => {
                Self::Boilerplate(Boilerplate::find(view, sets, threads)?)
            }
        })
    }

    /// The boilerplate, if it is ignored.
    pub fn boilerplate(&self) -> Option<&Boilerplate> {
        match self {
            Self::Boilerplate(boilerplate) => Some(boilerplate),
            Self::MoreThan(_) => None,
        }
    }

    pub(super) fn ignores_nothing(&self) -> bool {
        match self {
            Self::MoreThan(documents) => *documents == u64::MAX,
            Self::Boilerplate(boilerplate) => boilerplate.is_empty(),
        }
    }

    /// Whether a set of `df` documents is ignored.
    pub(super) fn are_ignored(&self, set: SetNo, df: u64) -> bool {
        match self {
            Self::MoreThan(documents) => df > *documents,
            Self::Boilerplate(boilerplate) => {
                df > boilerplate.max_documents && boilerplate.contains(set)
            }
        }
    }

    /// Whether the text of a content is ignored that has this many copies and that no other
    /// content has. Copies are no boilerplate, however many they are.
    pub(super) fn are_copies_ignored(&self, copies: u64) -> bool {
        matches!(self, Self::MoreThan(documents) if copies > *documents)
    }
}
