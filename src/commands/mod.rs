//! What the programs do: one folder per program, one file per verb. Options in, records out.

mod base_text;
mod blot;
mod document_groups;
mod excluded_text;
mod extract;
mod index;
mod indexed_texts;
mod input_problems;
mod passage_options;
mod preset;
mod query;
mod spex;
mod stage;
mod text_cache;
mod tokenize;

pub use base_text::base_text;
pub use blot::{BlotOptions, blot, default_window, scheme_of};
pub use document_groups::Grouping;
pub use extract::{
    CleanAccount, CleanOptions, CleanRecords, CleanRules, CleanWarning, Cleaned, ClusterShare,
    Collection, CompareMethod, CompareOptions, CutLengths, Extract, ExtractOptions, LeaveOut,
    Levels, NewDocuments, PairSlice, PassagesOptions, Preference, ReportOptions, ReportSummary,
    RowFormat, Shard, ShardList, ShardWriter, SliceFates, SliceShard, WantedPairs, WrittenShards,
    compare, date_of, decide_fates, ensure_lines, extract, extract_aligned, extract_counted,
    extract_counted_share, extract_passages, extract_without, find_copies, join_cluster_links,
    passages, spans, split_fates, write_report,
};
pub use index::add::add;
pub use index::build::{BuildOptions, RunsOptions, build, build_runs, range_name};
pub use index::build_record::{BUILD_RECORD, BuildRecord, PARTIAL_BUILD_RECORD};
pub use index::build_steps::{
    CountRange, PartFiles, StepOptions, Targets, count_range, finish_part, join_sets,
    number_documents, number_sets, numbers_name, place_parts, reduce_range, sets_name,
    write_set_uses,
};
pub use index::commit::{ChangeOptions, ChangeSummary};
pub use index::compact::compact;
pub use index::dump::{dump, dump_blot, dump_dictionary};
pub use index::find_ids::find_ids;
pub use index::merge::merge;
pub use index::pin::{pin, unpin};
pub use index::remove::remove;
pub use index::split::split;
pub use index::sync::{SyncOptions, sync};
pub use index::sync_guard::MaxRemove;
pub use index::sync_steps::{
    ReadSlice, SyncTarget, commit_staged, files_to_read, number_changes, stage_base, stage_changes,
    stage_ranges,
};
pub use passage_options::PassageOptions;
pub use preset::{Cutoff, PRESETS, Preset, TEXT};
pub use query::align::{Aligned, PairsOptions, align_pairs, align_texts};
pub use query::between::between;
pub use query::blot::blot_text;
pub use query::history::{HistoryOptions, ask_history, filter_by_history, remove_from_history};
pub use query::remote::{AskedMatches, DocumentAsker, query_elsewhere};
pub use query::search::{AnswerFormat, QueryOptions, QueryOutcome, put_head, query};
pub use query::searcher::{
    IndexSearcher, QueryDocument, SearchOptions, SearchOutcome, SearchPassages,
};
pub use spex::{
    IndexSizes, SpexIndex, SpexOptions, SpexOutput, SpexSummary, spex, spex_add, spex_remove,
};
pub use stage::{NoObserver, Observer, Settings, Summary};
pub use tokenize::{TokenizeOptions, tokenize};

use stage::{DocumentStage, ProblemsOnly, StageOutput, run, run_to_stream};
