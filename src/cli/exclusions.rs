//! Flags of dedup-query and dedup-extract that leave text, passages or pairs out.

use super::args::MORE;
use crate::{
    align::exclusions::ExclusionRules,
    base::error::Result,
    commands::{Grouping, Observer, PassageOptions, Settings, base_text},
};
use clap::Args;
use std::path::PathBuf;

/// Text that does not count in scores.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = MORE)]
pub struct ExcludeArgs {
    /// Ignore text that more than N documents have
    ///
    /// Blots of more than N documents count neither as shared nor as blots of a document.
    #[arg(long, value_name = "N")]
    pub max_df: Option<u64>,
    /// Ignore the text of FILE, such as a template (repeatable)
    #[arg(long, value_name = "FILE")]
    pub exclude_text: Vec<PathBuf>,
    /// Ignore text that is in another index (repeatable)
    #[arg(long, value_name = "IDX")]
    pub exclude_index: Vec<PathBuf>,
    #[command(flatten)]
    pub base: BaseArgs,
}

impl ExcludeArgs {
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
    /// Do not compare documents whose ids share their first DEPTH directories
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
    /// Ignore passages of fewer than N words in common
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub min_match_words: Option<u32>,
}

impl PassageArgs {
    /// The ids of the flags, for rules on what they require.
    pub const IDS: [&str; 3] = ["exclude_quotes", "exclude_bibliography", "min_match_words"];

    /// Adds to the options what does not count. `is_of_both`: neither document is the source of
    /// the other.
    pub fn apply(
        &self,
        base: &BaseArgs,
        options: PassageOptions,
        is_of_both: bool,
        settings: &Settings,
        watch: &mut dyn Observer,
    ) -> Result<PassageOptions> {
        let base = base_text(
            &base.base,
            options.passages.tokenization,
            options.passages.window_tokens,
            settings,
            watch,
        )?;
        let rules = ExclusionRules {
            quotes: self.exclude_quotes,
            bibliography: self.exclude_bibliography,
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
