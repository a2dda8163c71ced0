//! Cleans a collection: writes its files again, without documents and passages that are there twice.
//!
//! | step | file | what it does |
//! | --- | --- | --- |
//! | list | `shards` | the files of the collection, and where each is written |
//! | index | (the caller) | all documents, with ids that tell their places |
//! | number | `members` | which document of the index stands where in the input |
//! | order | `order` | which documents are preferred |
//! | decide | `decide` | which documents go, each because of a document that stays |
//! | cut | `cuts`, `sorted_buckets` | which passages go |
//! | note | `fates` | what becomes of each record, shard by shard, in a file |
//! | write | `write` | each shard again, by its fates |
//!
//! Deciding needs all documents at once; writing needs one shard and its fates. So a run that was interrupted goes on with the shards that
//! are not written yet, and shards can be written on many hosts.

mod account;
mod cuts;
mod decide;
mod fates;
mod members;
mod order;
mod report;
mod shards;
mod sorted_buckets;
mod warnings;
mod write;

pub use account::CleanAccount;
pub use cuts::CutLengths;
pub use decide::Levels;
pub use fates::{SliceFates, split_fates};
pub use order::Preference;
pub use shards::{Shard, ShardList, SliceShard};
pub use warnings::CleanWarning;
pub use write::{ShardWriter, WrittenShards, ensure_lines};

use super::{LeaveOut, selection};
use crate::{
    base::{
        codec::exact_number,
        error::{Error, Result},
        files::TempDir,
        parallel::Limits,
        setting::Setting,
        share::Share,
    },
    blot::{self as schemes, select},
    commands::{Observer, Settings},
    index::{Index, SetSource, SetUses, View},
    report::{RecordTarget, records::DropReason},
    similar::{
        CommonTextRule, CopyLists, Discovery, DiscoveryOptions, Measure, Score, write_copies,
    },
};
use cuts::{CutSearch, FoundCuts};
use decide::Compared;
use members::Members;
use order::{FieldValue, PreferredPrefixes};
use report::FateReport;
use serde::{Deserialize, Serialize};
use std::{
    ops::Range,
    path::{Path, PathBuf},
};

/// Which documents and passages go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CleanRules {
    /// Which documents go.
    pub levels: Levels,
    /// [`Score::Inclusion`], the share of a dropped document that is in the one that stays, or [`Score::Jaccard`].
    pub score: Score,
    /// The least score of a near duplicate.
    #[serde(with = "exact_number")]
    pub threshold: f64,
    /// Passages that go; none if there is no length.
    pub cut: Option<CutLengths>,
    /// A document goes if fewer tokens are left of it, unless it keeps a passage that is cut out of others.
    pub min_left: u32,
    /// Which of several documents stays.
    pub keep: Preference,
    /// Documents whose file or id starts with one of these are preferred, those of the first most.
    pub prefer: Vec<String>,
    /// Every record stays, and gets a field that says what would become of it.
    pub annotate: bool,
}

/// How a collection is cleaned.
#[derive(Debug, Clone)]
pub struct CleanOptions {
    /// Which documents and passages go.
    pub rules: CleanRules,
    /// Blots of more documents do not count.
    pub max_df: Option<u64>,
    /// As [`super::ExtractOptions::limits`].
    pub limits: Limits,
    /// Text that does not count.
    pub leave_out: LeaveOut,
    /// For temporary files.
    pub tmp_dir: TempDir,
}

/// The collection that is cleaned.
pub struct Collection<'c> {
    /// Its files. Documents of other files take no part, though the index may have them.
    pub shards: &'c ShardList,
    /// An index of its documents.
    pub index: &'c Index,
    /// The index was made with [`placed_ids`](crate::text::corpus::Options::placed_ids); otherwise documents are found in it by their ids.
    pub has_placed_ids: bool,
    /// How its documents are read.
    pub settings: &'c Settings,
    /// Other collections, whose documents and passages go.
    pub against: &'c [Index],
    /// The first ones of them were given; the others have placed ids.
    pub given: usize,
    /// What [`find_copies`] found in all shares of the index, in order; nothing if that is still to
    /// be found. Only where there are no other collections.
    pub copies: &'c [PathBuf],
}

/// Where the records about what goes are written.
#[derive(Default)]
pub struct CleanRecords<'r> {
    /// For documents.
    pub dropped: Option<RecordTarget<'r>>,
    /// For passages.
    pub cuts: Option<RecordTarget<'r>>,
}

/// What was decided.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cleaned {
    /// Documents that were read.
    pub read: u64,
    /// Documents that stay.
    pub kept: u64,
    /// Documents that go because another one has the same tokens.
    pub exact: u64,
    /// Documents that go because enough of each is in another one.
    pub near: u64,
    /// Documents that go because of the other collection.
    pub against: u64,
    /// Documents that go because little was left when passages were cut out.
    pub short: u64,
    /// Documents that stay, out of which passages were cut.
    pub cut_documents: u64,
    /// Passages that were cut out.
    pub cut_passages: u64,
    /// The tokens of these.
    pub cut_tokens: u64,
    /// The bytes of these.
    pub cut_bytes: u64,
    /// Documents with passages that could not be cut out, because of the kind of their files.
    pub whole: u64,
    /// Documents without tokens: they stay.
    pub without_tokens: u64,
    /// Documents of other collections that are too short to be found inside of others.
    pub short_others: u64,
    /// Documents that the index, which was made before, does not have: they stay.
    pub unknown: u64,
    /// Documents whose text is not the one in the index: they stay.
    pub changed: u64,
    /// Documents whose id came before, where the index was made before: they stay.
    pub repeated: u64,
    /// The documents for which most others go, and how many each; at most five.
    pub largest: Vec<(String, u64)>,
    /// What the user should look at.
    pub warnings: Vec<CleanWarning>,
    /// Where the fates of each shard are in the file of all fates.
    pub fates: Vec<Range<u64>>,
}

impl Cleaned {
    /// Documents that go.
    pub fn dropped(&self) -> u64 {
        self.exact + self.near + self.against + self.short
    }

    fn count(&mut self, reason: DropReason) {
        match reason {
            DropReason::Exact => self.exact += 1,
            DropReason::Near => self.near += 1,
            DropReason::Against => self.against += 1,
            DropReason::Short => self.short += 1,
        }
    }
}

/// Decides what becomes of every record, and writes that to the file `fates`.
///
/// Memory: sets and documents of the index as for pairs, 8 bytes per member of a set in memory, about 60 bytes a document, and what
/// `CutSearch::find` takes.
pub fn decide_fates(
    options: &CleanOptions,
    collection: &Collection<'_>,
    fates: &Path,
    records: CleanRecords<'_>,
    observer: &mut dyn Observer,
) -> Result<Cleaned> {
    let Collection { index, against, .. } = *collection;
    let rules = &options.rules;
    let measure = rules.measure(index)?;
    rules.ensure_cuts_are_possible(index)?;
    let indexes: Vec<&Index> = against.iter().chain([index]).collect();
    let others = View::over(&indexes[..against.len()], &mut |_, _| {})?.documents();
    let given = View::over(&indexes[..collection.given], &mut |_, _| {})?.documents();
    let view = View::over(&indexes, &mut |_, _| {})?;
    let (discovery, _) =
        options
            .leave_out
            .with(index, options.limits, observer, |without, _| {
                let common = options.max_df.into();
                let limits = options.limits;
                let options = DiscoveryOptions {
                    measure,
                    common,
                    limits,
                };
                Discovery::excluding(&without.text, &view, options)
            })?;
    let members = collection.members(&view, others, observer)?;
    let copies = collection.copies(&view)?;
    let compared = Compared {
        view: &view,
        discovery: &discovery,
        sets: &discovery.sets,
        against: others,
        given,
        members: &members,
        copies: copies.as_ref(),
    };
    let order = rules.order(&compared, collection)?;
    let decisions = if rules.keep == Preference::None {
        compared.decide_all_copies(rules.levels, measure)?
    } else {
        compared.decide(&order, rules.levels, measure)?
    };
    let found = match rules.cut {
        None => FoundCuts::default(),
        Some(lengths) => CutSearch {
            compared: &compared,
            decisions: &decisions,
            order: &order,
            shards: collection.shards,
            index,
            against,
            lengths,
            settings: collection.settings,
            tmp_dir: &options.tmp_dir,
        }
        .find(observer)?,
    };
    let report = FateReport::new(rules, measure, &compared, collection, fates)?;
    let mut cleaned = report.write(&decisions, found, records)?;
    cleaned.without_tokens = compared.without_tokens();
    cleaned.short_others = rules
        .cut
        .map_or(0, |lengths| compared.short_others(lengths.against));
    cleaned.warnings = warnings::warnings(rules, &cleaned, &compared, collection)?;
    Ok(cleaned)
}

/// Finds, for a share of the documents of an index, which others have enough of each: what
/// [`decide_fates`] else finds itself. `uses`: how many blots each set of the index has.
///
/// Of the parts of the index those of any range suffice. It must have been made at once.
pub fn find_copies(
    rules: &CleanRules,
    limits: Limits,
    index: &Index,
    uses: &Path,
    share: Share,
    path: &Path,
) -> Result<()> {
    let view = View::over(&[index], &mut |_, _| {})?;
    let sets = SetSource::with_uses(&view, &SetUses::read(uses)?, false)?;
    let options = DiscoveryOptions {
        measure: rules.measure(index)?,
        common: CommonTextRule::Counts,
        limits,
    };
    let discovery = Discovery::from_sets(&view, sets, options)?;
    write_copies(&discovery, share, &index.manifest.checksum(), path)
}

impl CleanRules {
    fn measure(&self, index: &Index) -> Result<Measure> {
        if !matches!(self.score, Score::Inclusion | Score::Jaccard) {
            return Err(Error::Usage(
                "documents are dropped by their share in another one, or by jaccard; other scores have no such meaning".to_owned(),
            ));
        }
        // No share reaches the threshold if the level is off.
        let threshold = if self.levels.near {
            self.threshold
        } else {
            2.0
        };
        Ok(Measure {
            score: self.score,
            threshold,
            selection: selection(&index.scheme.select),
        })
    }

    /// The index must have all windows of consecutive tokens.
    fn ensure_cuts_are_possible(&self, index: &Index) -> Result<()> {
        let has_all = select::is_complete(&index.scheme.select)
            && schemes::verbatim(&index.scheme.windows).is_some();
        if self.cut.is_none() || has_all {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "passages are cut by windows of consecutive tokens, and this index has '{} {}'; build it with {} and {}",
            index.scheme.windows,
            index.scheme.select,
            Setting::Scheme.to("ordered"),
            Setting::Select.to("all")
        )))
    }

    /// The places of the documents in order of preference.
    fn order(&self, compared: &Compared<'_>, collection: &Collection<'_>) -> Result<Vec<u32>> {
        let keys = match self.keep.field() {
            None => Vec::new(),
            Some(field) => order::field_values(
                field,
                compared.members,
                collection.shards,
                collection.settings,
                &mut Quiet,
            )?,
        };
        let prefixes = PreferredPrefixes {
            prefixes: &self.prefer,
            shards: collection.shards,
        };
        if let Some(field) = self.keep.field()
            && keys.iter().all(|value| *value == FieldValue::Missing)
        {
            return Err(Error::Usage(format!(
                "no document has a field '{field}' to choose by"
            )));
        }
        self.keep.order(compared, &keys, &prefixes)
    }
}

impl Collection<'_> {
    fn copies(&self, view: &View<'_>) -> Result<Option<CopyLists>> {
        let open = || {
            let index = self.index.manifest.checksum();
            CopyLists::open(self.copies, &index, view.contents().len())
        };
        (!self.copies.is_empty()).then(open).transpose()
    }

    fn members(
        &self,
        view: &View<'_>,
        others: usize,
        observer: &mut dyn Observer,
    ) -> Result<Members> {
        if self.has_placed_ids {
            return Members::of_placed(view, others..view.documents(), self.shards);
        }
        Members::of_index(self.index, view, self.shards, self.settings, observer)
    }
}

/// Problems were reported when the collection was indexed.
struct Quiet;

impl Observer for Quiet {
    fn problem(&mut self, _: &crate::base::error::Problem) {}

    fn progress(&mut self, _: u64, _: u64) {}
}
