//! Flags of dedup-query and dedup-extract that leave text, passages or pairs out.

use super::args::MORE;
use crate::{
    align::exclusions::ExclusionRules,
    base::error,
    commands::{Grouping, Observer, PassageOptions, Preset, Settings, base_text},
    similar::CommonTextRule,
};
use anyhow::bail;
use clap::Args;
use std::{path::PathBuf, str::FromStr};

/// Text that does not count in scores.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = MORE)]
pub struct ExcludeArgs {
    /// Ignore text of more than N documents; auto: boilerplate
    ///
    /// It counts neither as shared nor as text of a document. The default of pairs, clusters, graph
    /// and report is auto, unless the index was made with a preset that has none; see BOILERPLATE.
    #[arg(long, value_name = "N|auto|none")]
    pub max_df: Option<MaxDf>,
    /// Ignore the text of FILE, such as a template (repeatable)
    #[arg(long, value_name = "FILE")]
    pub exclude_text: Vec<PathBuf>,
    /// Ignore text that is in another index (repeatable)
    #[arg(long, value_name = "IDX")]
    pub exclude_index: Vec<PathBuf>,
    #[command(flatten)]
    pub base: BaseArgs,
}

/// The largest number of documents of text that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxDf(CommonTextRule);

impl MaxDf {
    /// Which text is too common to count.
    pub fn rule(self) -> CommonTextRule {
        self.0
    }
}

impl FromStr for MaxDf {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self(CommonTextRule::Boilerplate)),
            "none" => Ok(Self(CommonTextRule::Counts)),
            number => number
                .parse()
                .map(|documents| Self(CommonTextRule::MoreThan(documents)))
                .map_err(|_| format!("'{text}' is not a number of documents, auto or none")),
        }
    }
}

impl ExcludeArgs {
    /// Which text is too common to count; `default` if the user does not say.
    pub fn common_text(&self, default: CommonTextRule) -> CommonTextRule {
        self.max_df.map_or(default, MaxDf::rule)
    }

    /// The number of documents that was given, for verbs that do not look for boilerplate.
    pub fn max_df(&self) -> Result<Option<u64>, anyhow::Error> {
        match self.max_df {
            Some(MaxDf(CommonTextRule::Boilerplate)) => {
                bail!("--max-df auto is for pairs, clusters, graph and report; give a number")
            }
            other => Ok(other.and_then(|MaxDf(common)| common.max_df())),
        }
    }

    /// Whether text is left out that an index of shared chunks may not know.
    pub fn names_text(&self) -> bool {
        !self.exclude_text.is_empty()
            || !self.exclude_index.is_empty()
            || !self.base.base.is_empty()
    }
}

/// Base text, which all authors were given.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = MORE)]
pub struct BaseArgs {
    /// Ignore text of PATH, which all authors were given (repeatable)
    ///
    /// PATH is a file or a directory. Its text counts neither in scores nor in passages and shares.
    #[arg(long, value_name = "PATH")]
    pub base: Vec<PathBuf>,
}

/// Documents that are not compared with each other.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = MORE)]
pub struct GroupArgs {
    /// Do not compare documents of one group: FILE has "id TAB group" lines
    #[arg(long, value_name = "FILE", conflicts_with = "group_by")]
    pub groups: Option<PathBuf>,
    /// Do not compare documents with the same first DEPTH directories
    #[arg(long, value_name = "DEPTH", value_parser = clap::value_parser!(u32).range(1..))]
    pub group_by: Option<u32>,
}

impl GroupArgs {
    pub fn grouping(&self) -> Option<Grouping> {
        let by_file = self.groups.clone().map(Grouping::File);
        by_file.or_else(|| self.group_by.map(|depth| Grouping::Depth(depth as usize)))
    }
}

/// Words that do not count in passages and shares.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = MORE)]
pub struct PassageArgs {
    /// Ignore words in quotation marks, and lines that begin with >
    ///
    /// Quotation marks of many languages are known; apostrophes are not taken for them. A quotation
    /// has 5 words or more, and ends in the paragraph in which it begins: a mark without its
    /// counterpart makes no difference.
    #[arg(long)]
    pub exclude_quotes: bool,
    /// Ignore the list of references
    ///
    /// It is recognised by its shape: entries with years, names, numbers, pages, addresses; and by
    /// a heading such as References or Literatur.
    #[arg(long)]
    pub exclude_bibliography: bool,
    /// Count quotations and references, which the preset essays ignores
    #[arg(long, conflicts_with_all = ["exclude_quotes", "exclude_bibliography"])]
    pub count_quotes: bool,
    /// Ignore passages of fewer than N words in common
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub min_match_words: Option<u32>,
}

impl PassageArgs {
    /// The ids of the flags, for rules on what they require.
    pub const IDS: [&str; 4] = [
        "exclude_quotes",
        "exclude_bibliography",
        "count_quotes",
        "min_match_words",
    ];

    /// Whether quotations are left out, if the flags say so.
    pub fn quotes(&self) -> Option<bool> {
        (self.exclude_quotes || self.count_quotes).then_some(!self.count_quotes)
    }

    /// Whether lists of references are left out, if the flags say so.
    pub fn bibliography(&self) -> Option<bool> {
        (self.exclude_bibliography || self.count_quotes).then_some(!self.count_quotes)
    }

    /// Adds to the options what does not count: what the flags say, or else the preset.
    /// `is_of_both`: neither document is the source of the other.
    pub fn apply(
        &self,
        preset: &Preset,
        base: &BaseArgs,
        options: PassageOptions,
        is_of_both: bool,
        settings: &Settings,
        watch: &mut dyn Observer,
    ) -> error::Result<PassageOptions> {
        let base = base_text(
            &base.base,
            options.passages.tokenization,
            options.passages.window_tokens,
            settings,
            watch,
        )?;
        let of_preset = preset.excludes_quotes && !self.count_quotes;
        let rules = ExclusionRules {
            quotes: self.exclude_quotes || of_preset,
            bibliography: self.exclude_bibliography || of_preset,
            base,
        };
        let source_rules = if is_of_both {
            rules.clone()
        } else {
            rules.base_text_only()
        };
        Ok(PassageOptions {
            rules,
            source_rules,
            min_match_words: self.min_match_words.unwrap_or(0),
            ..options
        })
    }
}

/// For the manuals.
pub const COUNTED: &str = "With --exclude-quotes, --exclude-bibliography, --base or --min-match-words a record that has passages also has a_words and \
     b_words, for each document: words (all words), excluded (the number of words that do not count, as base, as bibliography, as \
     quotes; each word once, in this order), counted (words − those), matched (words that count and are in passages), share (matched ÷ \
     counted). A pair is left out if no passage of it counts.";
pub const GROUPS: &str = "--groups FILE and --group-by DEPTH keep the documents of one author, or one team, from being compared with each other. A document \
     that FILE does not name is compared with all others; an id of FILE that is not in the index is reported, and the status is 2. With \
     --group-by 1, ann/1.txt and ann/2.txt are in one group, ann/1.txt and ben/1.txt are not; a document whose id has no more than \
     DEPTH components is a group of its own.";
pub const SHAPES: &str = "Quotations: \"…\", “…”, „…“, „…”, ”…”, «…», »…«, ‹…›, ‘…’, ‚…‘, 「…」, ``…'' of 5 words or more and 4000 characters at most, inside a paragraph; a paragraph whose quotation goes on is \
     quoted to its end if the next one begins with the same mark; and lines that begin with >. The straight ' is an apostrophe. The list of references: a row of entries (a number, a key or \
     a name first, years, initials, pages, addresses) below a heading that is known in some twenty languages, or in the second half of the text below any other or none, if there are four or more. \
     Base text: words that are in a window of k words (8, or -k) of it, and whole lines of it that are shorter.";
pub const TEXTS: &str = "Passages need the texts, which an index does not have. Without --corpus an id is the path of a file below the current directory. \
     With --corpus DIR it is a path below DIR, or begins with DIR. Documents that are not found this way, and with --corpus FILE all \
     documents, are looked up in the documents of DIR or FILE, which are read as dedup-index would read them: NDJSON (--id-field, \
     --text-field; --records ndjson for files with other names), compressed or not. This takes one pass over the files, which remembers \
     where each document is, in about 40 bytes for each document of the index; lines of compressed files are kept in a temporary file \
     (in TMPDIR). As ids come from outside, none may lead out of these directories (absolute paths, .., symbolic links), and only \
     regular files are opened. A document whose text has changed since it was indexed is reported and left out, and the status is 2. \
     Aligning takes memory that --memory does not limit: about 20 times the size of each text in use. These are up to three texts for \
     each thread of dedup-query, and four of dedup-extract: --max-document limits their size, --threads 1 their number.";
