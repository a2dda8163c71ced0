//! dedup-extract: what is alike in an index.

use super::{
    Manual, Tool,
    args::{RunArgs, machine_memory, parse_size, score_help, threads_of},
    compare::{COMPARISON, CompareArgs, DICTIONARY},
    exit_code,
    generate::{What, examples},
    kind::{Kind, name},
    limits::tell_not_excluded,
    main_of,
    manners::{COUNTED, GROUPS, MannersArgs, SHAPES, TEXTS},
    name as tool_name,
    output::Packed,
    progress::{Complaints, counting_bar, say},
    threshold::{Threshold, parse_number},
    unique::{UNIQUE, judged_by, tell},
    watched,
};
use crate::{
    base::parallel::Limits,
    commands::{
        CleanOptions, CompareMethod, Extract, ExtractOptions, LeaveOut, NewDocuments,
        PassageOptions, PassagesOptions, ReportOptions, ReportSummary, RowFormat, Settings,
        WantedPairs, Watch, clean, compare, extract_aligned, extract_counted, extract_passages,
        extract_without, passages, spans, write_report,
    },
    index::{Index, Since},
    report::{Format, GraphFormat, PanXmlDirectory},
    similar::{KeepRule, Score},
    text::stream::Form,
};
use anyhow::{Context, bail};
use clap::{Parser, builder::PossibleValuesParser};
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Find everything that is alike in an index
///
/// Writes every pair of documents that share enough text, exactly: nothing is sampled and nothing is missed at the threshold. Or, of the same pairs, a table of the most similar
/// documents of each, clusters of documents that hang together, a graph; or exact duplicates, or the blots that most documents have. With --unique, a corpus
/// without what is alike; as spans, what of each document came before; as passages, each text that several documents share, once, with all its places.
#[derive(Parser, Debug)]
#[command(name = "dedup-extract", version, after_help = examples(&MANUAL), max_term_width = 110, arg_required_else_help = true)]
struct Arguments {
    /// The directory of the index
    #[arg(value_name = "IDX", required_unless_present = "generate")]
    index: Option<PathBuf>,
    /// What to write
    #[arg(long = "as", value_name = "WHAT", default_value = "pairs")]
    what: Kind,
    /// Copy the lines of NDJSON files, but for documents of which 80 % or more is in another one that is kept
    ///
    /// The files are PATH…, or stdin. Documents are found in the index by their ids; what it does not have, or has with another text, is kept, and counted on stderr.
    #[arg(long, conflicts_with_all = ["what", "format"])]
    unique: bool,
    /// With --unique, write a record for each document that is dropped to FILE
    #[arg(long, value_name = "FILE", requires = "unique")]
    dropped: Option<PathBuf>,
    /// How to write it: ndjson or tsv; for graph dot or graphml; with --passages also pan-xml, a file for each pair in the directory -o [default: ndjson, dot]
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(["ndjson", "tsv", "dot", "graphml", "pan-xml"]))]
    format: Option<String>,
    /// What a pair is judged by: containment, jaccard, s1, s2, s3, s4, rarity [default: containment]
    #[arg(long, value_name = "SCORE", value_parser = PossibleValuesParser::new(Score::NAMES.map(|(name, ..)| name)), long_help = score_help())]
    score: Option<String>,
    /// The least score that counts, such as 0.5 or 50% [default: with --unique 0.8; else 0.5 for containment and jaccard, 20 for s1, 0.1 for s2, s3 and table, 0.05 for s4, 2 for rarity]
    ///
    /// The defaults follow from how many versions of documents each score finds, and how much of what it finds is right (Versions and edits in BENCHMARKS.md). At them
    /// each finds 91 % or more of the versions in Linux documentation, and s4 is right most often, 94 %. Where many share templates or licences, s4 or --max-df does best.
    #[arg(long, value_name = "X|P%", allow_negative_numbers = true)]
    threshold: Option<Threshold>,
    /// Rows of the table for each document [default: 100]; pages, of the pairs with the highest scores [default: 500]; passages [default: every one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
    /// Only what changed in the table since a commit, by its generation or by a pin (see `dedup-index stats`): rows to delete, update and insert
    #[arg(long, value_name = "GEN|PIN")]
    since: Option<Since>,
    /// Number the rows of each document in the table and in its changes
    #[arg(long)]
    rank: bool,
    /// Make the table of what dedup-index step count counted, in all ranges; may be given several times
    #[arg(long, value_name = "FILE", conflicts_with_all = ["exclude", "exclude_index"])]
    counts: Vec<PathBuf>,
    /// Which documents are kept rather than others: of a cluster, by id, or with --unique those that are visited first, in the order of the lines; length is in tokens [default: first]
    #[arg(long, value_name = "WHICH", value_parser = PossibleValuesParser::new(KeepRule::NAMES.map(|(name, _)| name)))]
    keep: Option<String>,
    /// Only blots of so many standard deviations more documents than the mean
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = parse_number)]
    sigma: Option<f64>,
    /// Leave out blots of more than N documents: they count neither as shared nor as blots of a document [default: no limit]
    #[arg(long, value_name = "N", visible_alias = "ignore-df")]
    max_df: Option<u64>,
    /// Passages of fewer tokens do not count [default: the window of the index]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    min_tokens: Option<u32>,
    /// Passages that stand wholly in a document of PATH are not listed; may be given several times
    #[arg(long, value_name = "PATH")]
    taboo: Vec<PathBuf>,
    /// Text of FILE, such as a template, does not count; may be given several times
    #[arg(long, value_name = "FILE")]
    exclude: Vec<PathBuf>,
    /// Text that is in another index does not count; may be given several times
    #[arg(long, value_name = "IDX")]
    exclude_index: Vec<PathBuf>,
    /// Show the passages that the documents of each pair share, where their texts can be read
    #[arg(long)]
    passages: bool,
    /// Write pages for a browser into DIR: index.html, an overview of the pairs, and a page for each with both texts side by side
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "format", "passages", "unique"])]
    html: Option<PathBuf>,
    /// Where the documents of the index are, for passages, areas and --html: a directory, or NDJSON files; may be given several times
    #[arg(long, value_name = "PATH")]
    corpus: Vec<PathBuf>,
    /// Offsets of passages count Unicode characters instead of bytes
    #[arg(long, requires = "passages")]
    chars: bool,
    /// Only pairs of which one document or both are new: those whose ids begin with PREFIX; may be given several times
    #[arg(long, value_name = "PREFIX")]
    new: Vec<String>,
    /// The same, where the new documents are those whose ids are in LIST, one a line
    #[arg(long, value_name = "LIST")]
    new_from: Option<PathBuf>,
    /// The same, where the new documents are those that came or changed after a commit, by its generation or by a pin
    #[arg(long, value_name = "GEN|PIN")]
    new_since: Option<Since>,
    /// Write to FILE: beside it first, renamed when all is done; .gz and .zst are packed
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How much memory to aim at, the sets and documents of the index and the texts that are aligned (see TEXTS) aside: 64M, 1G [default: a quarter of what there is]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
    #[command(flatten)]
    manners: MannersArgs,
    #[command(flatten)]
    comparison: CompareArgs,
    #[command(flatten)]
    run: RunArgs,
    #[arg(long, value_name = "WHAT", hide = true)]
    generate: Option<What>,
}

/// Lines that are read, judged and written take no more, but for the longest.
const LINES_BYTES: u64 = 64 << 20;
/// Nobody reads more pages, and a directory of a hundred thousand files is a nuisance.
const MOST_PAGES: u32 = 500;

const MANUAL: Manual = Manual {
    examples: &[
        (
            "dedup-extract my.idx",
            "Every pair of which one document is half in the other",
        ),
        (
            "dedup-extract my.idx --score jaccard --threshold 0.8 --format tsv",
            "Near-duplicates, as a table",
        ),
        (
            "dedup-extract my.idx --as table --top 10 --format tsv -o alike.tsv",
            "The ten most similar documents of each",
        ),
        (
            "dedup-extract my.idx --as table --since 1 --format tsv",
            "What to do to a table that was made after commit 1 (or a pin)",
        ),
        (
            "dedup-extract my.idx --as clusters --keep longest",
            "Groups of documents that hang together, with the longest of each",
        ),
        (
            "dedup-extract my.idx --unique articles.jsonl.zst -o clean.jsonl.zst",
            "A corpus without near-duplicates: what is dropped is, by 80 % or more, in a document that is kept",
        ),
        (
            "dedup-extract my.idx --as spans articles.jsonl.zst",
            "The bytes of each document that came before",
        ),
        (
            "dedup-extract my.idx --as passages --min-tokens 20 --top 100 articles.jsonl.zst",
            "What is copied most, each text once",
        ),
        (
            "dedup-extract my.idx --as graph --format graphml -o similar.graphml",
            "A graph for Gephi",
        ),
        (
            "dedup-extract my.idx --as blots --sigma 3 --format tsv",
            "The most repeated windows of text",
        ),
        (
            "dedup-extract my.idx --passages --corpus corpus/",
            "What the documents of each pair share, from where to where",
        ),
        (
            "dedup-extract my.idx --html report/ --corpus corpus/ --exclude-quotes",
            "For a browser: open report/index.html",
        ),
        (
            "dedup-extract my.idx --new essays/ --base template.txt",
            "New essays with each other and with all else, but for the template",
        ),
        (
            "dedup-extract my.idx --areas --min-similarity 500 articles.jsonl.zst",
            "Pairs that share text, and where they are alike",
        ),
        (
            "for i in 1 2; do dedup-extract my.idx --method exhaustive --slice $i/2 articles.jsonl.zst; done",
            "All pairs, in two parts that may be made by two hosts",
        ),
    ],
    sections: &[
        (
            "RECORDS",
            &[
                "With --passages, pairs also have passages, a list of a, b (bytes, or with --chars characters, where the passage starts and ends), tokens, score, kind; see dedup-query(1). Of a document whose text cannot be read there are no passages, it is named, and \
                 the status is 2; see TEXTS.",
                "Documents come in the byte order of their ids, and ties are broken by that order, so the same documents give the same records whatever commits brought them to the index.",
                "pairs: a, b (ids; a comes before b), shared (distinct blots that both have), a_in_b (shared ÷ blots of a), b_in_a, score. Ordered by a, then b.",
                "table: a, b, shared, a_in_b, b_in_a; with --rank also rank, after a. For each document those with the highest a_in_b, the best first; of equal ones those whose ids come first. Every pair that is near enough stands in both directions.",
                "table with --since: change (delete, update or insert), then as above; a deleted row as it was. Done to the old table, row by row, they give the new one; rows are known by a and b. With --rank every row that moves up or down is an update, \
                 which makes most changes several times as long. Commits whose segments were made into one \
                 cannot be told apart any more; a generation that was pinned with dedup-index pin stays for as long as it is pinned.",
                "clusters: cluster, size, kept, members, and dropped, a list of doc, duplicate_of, shared, score: what hangs together by pairs, and the one that --keep prefers. duplicate_of is that one, if they are a pair; else a document through \
                 which they hang together, and which is in dropped itself. Two documents of a cluster may have nothing in common: to clean a corpus use --unique, not clusters. In TSV a row for each document: cluster, doc, kept (1 or 0), duplicate_of, shared, score.",
                "exact: group, size, tokens, docs; in TSV a row for each document: group, doc. blots: blot, df, docs; in TSV, too, docs is a JSON array.",
                "spans: doc, bytes (of its text), spans (pairs of the first byte and the one after the last), seen (bytes in spans), for each document of PATH…, or of stdin, in their order. A window of k tokens, from the start of its first token to the \
                 end of its last, was seen if a document of the index with a lesser id, byte by byte, has the same blot, whether it is read or not; windows that touch or overlap are one span. Cut all spans, and no window is left in two documents. The documents must be those of the index, and the index \
                 one of all blots. In a large corpus two windows may share a blot of 32 bits by chance; --bits 64 makes that next to impossible.",
                "passages: passage (its number), tokens (its length), count (of places), documents (that have it), new (tokens of its places that are in none of the passages before), text (300 characters at most, as the first place has it; null \
                 if documents came as tokens), places, a list of doc, start, end (bytes), in the order in which documents are read. See PASSAGES.",
                "Exact duplicates are full documents everywhere: each is named, and counts, df and pairs are what they would be had every copy been indexed by itself. A document without tokens has no blots, and is no pair of any other; \
                 it is found by exact only.",
                "Numbers have six decimals at most. In TSV the first line names the columns, and a cell of text is the inside of a JSON string: \\t, \\n, \\r, \\\\, \\\" and \\uXXXX stand for characters that would end it, command a terminal or turn text around; see ESCAPES in dedup-stream(5). In DOT and GraphML these are character references, or U+FFFD where XML has none.",
            ],
        ),
        ("UNIQUE", UNIQUE),
        (
            "PASSAGES",
            &[
                "With --as passages what many documents share is listed once, with all its places, instead of pair by pair. A passage is a run of at least --min-tokens tokens that stands in two documents or more and is maximal: \
                 there is no token by which all its places could be made longer, to the left or to the right. It is found exactly, by tokens; blots that collide make none.",
                "Passages come by falling length in tokens × places; of equal ones the one with the first place. One is listed unless all of its places but one lie within places of those that were listed before it; new tells how much of it does not. \
                 So parts of what is listed are not told again, but where they stand elsewhere.",
                "Repeats within a document are places like others. Where text is repeated right after itself, as in a line of dashes, only the first and the last repetition count. Exact duplicates are places of their own; what stands only in copies of one \
                 text is listed as that whole text. Of bases, unknown ones are like no other, and the other strand is not looked at.",
                "A passage that stands wholly, with all its tokens, in a document of --taboo PATH (a file or a directory, NDJSON too; the flag may be given several times) is not listed. One that is there only in part is. With --taboo or --min-tokens, NDJSON \
                 begins with a line that says so: dedup, version, scheme, min_tokens, taboo.",
                "The documents are read again: those of PATH…, - for stdin; without PATH the files that the ids name, below --corpus if it is given, or the documents in the files that it names. They must be as they were indexed; what is not, or cannot be read, is named, and the status is 2. \
                 If only some are given, what these share is listed. The index must be one of all blots. Beside --memory it takes some 10 bytes for each blot that several documents have, 60 a document and an eighth a token, and \
                 temporary files of about four times the size of the texts, in the directory that TMPDIR names.",
            ],
        ),
        ("COMPARISON", COMPARISON),
        ("WORDS IN COMMON", DICTIONARY),
        (
            "THRESHOLDS",
            &[
                "Half of the smaller document is what most would call a copy. The thresholds of s1 to s4 are those with which Bernstein and Zobel (2005) found most pairs of Linux documentation at fewest wrong ones. \
                 A pair has at least one blot in common, even at threshold 0.",
                "--exclude, --exclude-index and --max-df (also called --ignore-df) leave out boilerplate: such blots count neither as shared nor as blots of a document. NDJSON then begins with a line that says so: dedup, version, scheme, \
                 max_df, exclude, exclude_index.",
                "--base takes files and directories, and words of base text are also in no passage and no share. The header then has base, too.",
                "--max-df is off unless asked for: text that many documents have is slow to compare only where the threshold lets it count.",
            ],
        ),
        ("TEXTS", &[TEXTS]),
        (
            "REPORT",
            &[
                "--html DIR writes DIR/index.html and DIR/pair-000001.html and so on, the pair with the highest score first; see dedup-query(1) for what is on them. There are pages for 500 pairs, or --top N, those with the highest scores: \
                 the overview says how many there are in all. It needs the texts, as --passages does. Pages of an earlier run with more pairs stay where they are.",
            ],
        ),
        (
            "WHAT DOES NOT COUNT",
            &[
                "--exclude-quotes, --exclude-bibliography and --min-match-words are about passages, and need --passages or --html: neither document is the source of the other, so they apply to both.",
                COUNTED,
                SHAPES,
                GROUPS,
                "--new PREFIX, --new-from LIST and --new-since GEN|PIN say which documents are new: pairs of two old ones are left out, pairs of a new one with any other are told. Documents are new by any of the rules that are given. \
                 All of these are for pairs, table, clusters and graph; clusters hang together by the pairs that are left.",
            ],
        ),
        (
            "ESTIMATES",
            &[
                "An index of shared chunks (dedup-spex, or --select spex:FILE) gives the same answers as one of all: it knows how many distinct blots each document has. Only with --exclude, --exclude-index and --base it does not know what of the text that a \
                 single document has is to be left out, and says so.",
                "An index of other selected blots gives estimates, and each record says so (\"estimate\":true). shared, s1 and rarity are multiplied by N for mod:N, by (W+1)/2 for winnow:W, by the product for chains; for every:N and anchor \
                 no factor is known, and there is none. The other scores are ratios and need none.",
            ],
        ),
        (
            "EXIT STATUS",
            &[
                "0: all was done, also if nothing was found. 2: there was an error, or some input could not be used.",
            ],
        ),
    ],
    see_also: &[("dedup", 7), ("dedup-index", 1), ("dedup-index", 5)],
};

impl Tool for Arguments {
    const MANUAL: Manual = MANUAL;

    fn generate(&self) -> Option<What> {
        self.generate
    }

    fn run(&self) -> Result<ExitCode, anyhow::Error> {
        self.ensure_flags_fit()?;
        let open = || {
            Ok::<_, anyhow::Error>(Index::open_whole(
                self.index.as_deref().context("say which index")?,
            )?)
        };
        if self.what == Kind::Spans {
            return self.run_spans(self.format()?, &open()?);
        }
        if self.what == Kind::Passages && !self.unique {
            return self.run_passages(&open()?);
        }
        if self.comparison.is_asked() {
            return self.run_comparison(&open()?);
        }
        if self.passages
            && self
                .format
                .as_deref()
                .is_some_and(|format| format != "ndjson" && format != "pan-xml")
        {
            bail!("--passages gives ndjson or pan-xml; leave out --format");
        }
        let index = open()?;
        let options = self.options(&index)?;
        let excludes = !self.exclude.is_empty()
            || !self.exclude_index.is_empty()
            || !self.manners.base.is_empty();
        if excludes && !self.run.quiet {
            tell_not_excluded(&tool_name::<Self>(), &index);
        }
        if self.unique {
            return self.run_unique(&options, &index);
        }
        let bar = counting_bar(self.run.quiet, "documents");
        let leave_out = self.leave_out();
        let mut complaints = Complaints::new(
            tool_name::<Self>(),
            self.run.quiet && self.run.input.skip_bad,
        );
        let mut tell = |done, all| {
            bar.set_length(all);
            bar.set_position(done);
        };
        if let Some(directory) = &self.html {
            let (top, passages) = (
                self.top.unwrap_or(MOST_PAGES) as usize,
                self.passages(&options, &index, &mut complaints)?,
            );
            let pages = ReportOptions {
                directory: directory.clone(),
                top,
                passages,
            };
            let paged = write_report(
                &options,
                &pages,
                &leave_out,
                &index,
                &mut complaints,
                &mut tell,
            );
            bar.finish_and_clear();
            return Ok(self.tell_pages(&paged?));
        }
        if self.is_xml() {
            let directory = self
                .output
                .as_deref()
                .context("pan-xml is a file for each pair; say where with -o DIR")?;
            let (mut out, passages) = (
                PanXmlDirectory::create(directory)?,
                self.passages(&options, &index, &mut complaints)?,
            );
            let unread = extract_aligned(
                &options,
                &passages,
                &leave_out,
                &index,
                &mut |pair| out.write(&pair),
                &mut complaints,
                &mut tell,
            );
            bar.finish_and_clear();
            return Ok(exit_code(
                unread.and_then(|unread| out.finish().map(|()| unread))?,
                self.run.input.skip_bad,
            ));
        }
        let mut out = Packed::open(self.output.as_deref())?;
        let unread = if self.passages {
            let passages = self.passages(&options, &index, &mut complaints)?;
            extract_passages(
                &options,
                &passages,
                &leave_out,
                &index,
                &mut out,
                &mut complaints,
                &mut tell,
            )
        } else if self.counts.is_empty() {
            extract_without(
                &options,
                &leave_out,
                &index,
                &mut out,
                &mut complaints,
                &mut tell,
            )
        } else {
            extract_counted(&options, &self.counts, &index, &mut out, &mut tell).map(|()| 0)
        };
        bar.finish_and_clear();
        let unread = unread?;
        out.commit()?;
        Ok(exit_code(unread, self.run.input.skip_bad))
    }
}

impl Arguments {
    fn run_unique(
        &self,
        options: &ExtractOptions,
        index: &Index,
    ) -> Result<ExitCode, anyhow::Error> {
        let is_stdout = |path: Option<&Path>| path.is_none_or(|path| path.as_os_str() == "-");
        if let Some(dropped) = &self.dropped
            && (is_stdout(Some(dropped)) && is_stdout(self.output.as_deref())
                || self.output.as_ref() == Some(dropped))
        {
            bail!(
                "what is kept and what is dropped would go to one place; give -o and --dropped two files"
            );
        }
        let (score, threshold) = judged_by(self.score.as_deref(), self.threshold)?;
        let ExtractOptions { max_df, limits, .. } = *options;
        let options = CleanOptions {
            score,
            threshold,
            max_df,
            keep: self.keep(),
            limits,
            leave_out: self.leave_out(),
        };
        let mut out = Packed::open(self.output.as_deref())?;
        let mut dropped = self
            .dropped
            .as_deref()
            .map(|path| Packed::open(Some(path)))
            .transpose()?;
        let settings = self.run.settings(Form::Ndjson, LINES_BYTES, false);
        let cleaned = watched::<Self, _>(&self.run, true, |watch| {
            let dropped = dropped.as_mut().map(|dropped| dropped as &mut dyn Write);
            Ok(clean(&options, index, &settings, &mut out, dropped, watch)?)
        })?;
        dropped.map_or(Ok(()), Packed::commit)?;
        out.commit()?;
        if !self.run.quiet {
            tell(
                &tool_name::<Self>(),
                &index.directory.display().to_string(),
                &cleaned,
            );
        }
        Ok(exit_code(cleaned.problems, self.run.input.skip_bad))
    }

    /// Says if there are more pairs than pages.
    fn tell_pages(&self, paged: &ReportSummary) -> ExitCode {
        let most = u64::from(self.top.unwrap_or(MOST_PAGES));
        if paged.pairs > most && !self.run.quiet {
            let tool = tool_name::<Self>();
            say(&format!(
                "{tool}: pages for the {most} pairs with the highest scores; there are {} in all, --top N gives more",
                paged.pairs
            ));
        }
        exit_code(paged.problems, self.run.input.skip_bad)
    }

    fn run_spans(&self, format: Format, index: &Index) -> Result<ExitCode, anyhow::Error> {
        let is_dna = index.scheme.tokens.is_dna();
        let settings = self.run.settings(Form::Ndjson, LINES_BYTES, is_dna);
        let mut out = Packed::open(self.output.as_deref())?;
        let summary = watched::<Self, _>(&self.run, true, |watch| {
            Ok(spans(index, format, &settings, &mut out, watch)?)
        })?;
        out.commit()?;
        Ok(exit_code(summary.problems, self.run.input.skip_bad))
    }

    /// How the documents of an index are read again; and if they are the files that ids name, below which directories.
    fn reading(&self, index: &Index) -> (Settings, Option<Vec<PathBuf>>) {
        let input = &self.run.input;
        let mut settings =
            self.run
                .settings(Form::Ndjson, LINES_BYTES, index.scheme.tokens.is_dna());
        let has_paths = !input.paths.is_empty() || input.files_from.is_some();
        // Files with a document a line are read as if they were named behind the index.
        let has_files = !has_paths && self.corpus.iter().any(|path| !path.is_dir());
        if has_files {
            settings.corpus.paths = self.corpus.clone();
        }
        (
            settings,
            (!has_paths && !has_files).then(|| self.corpus.clone()),
        )
    }

    fn run_comparison(&self, index: &Index) -> Result<ExitCode, anyhow::Error> {
        let (settings, by_id) = self.reading(index);
        let mut options =
            self.comparison
                .options(self.options(index)?, self.format()?, self.leave_out().pairs);
        options.by_id = by_id;
        if self.score.is_none() && self.threshold.is_none() {
            (options.blots.score, options.blots.threshold) = (Score::S1, 1.0);
        }
        let mut out = Packed::open(self.output.as_deref())?;
        let bar = counting_bar(self.run.quiet, "pairs");
        let mut tell = |done, all| {
            bar.set_length(all);
            bar.set_position(done);
        };
        let mut work =
            |watch: &mut dyn Watch| compare(index, &options, &settings, &mut out, watch, &mut tell);
        let problems = Complaints::watch(tool_name::<Self>(), &self.run, &mut work);
        bar.finish_and_clear();
        let problems = problems?;
        out.commit()?;
        Ok(exit_code(problems, self.run.input.skip_bad))
    }

    fn run_passages(&self, index: &Index) -> Result<ExitCode, anyhow::Error> {
        let (settings, by_id) = self.reading(index);
        let options = PassagesOptions {
            min_tokens: self.min_tokens,
            taboo: self.taboo.clone(),
            top: self.top.map(u64::from),
            format: self.format()?,
            memory_bytes: self.memory.unwrap_or_else(|| machine_memory() / 4),
            by_id,
        };
        let mut out = Packed::open(self.output.as_deref())?;
        let work = |watch: &mut dyn Watch| {
            Ok::<_, anyhow::Error>(passages(index, &options, &settings, &mut out, watch)?)
        };
        // Without PATH stdin is not read, and nobody need be told of it.
        let summary = match options.by_id {
            Some(_) => Complaints::watch(tool_name::<Self>(), &self.run, work)?,
            None => watched::<Self, _>(&self.run, true, work)?,
        };
        out.commit()?;
        Ok(exit_code(summary.problems, self.run.input.skip_bad))
    }

    fn passages(
        &self,
        options: &ExtractOptions,
        index: &Index,
        watch: &mut dyn Watch,
    ) -> Result<PassageOptions, anyhow::Error> {
        let (corpus, reading, in_chars) = (
            self.corpus.clone(),
            self.run.input.options(false),
            self.chars || self.is_xml(),
        );
        let passages = PassageOptions {
            corpus,
            in_chars,
            reading,
            ..PassageOptions::default()
        }
        .of_index(index)?;
        let settings = Settings {
            limits: options.limits,
            ..self.run.settings(Form::Ndjson, LINES_BYTES, false)
        };
        Ok(self.manners.apply(passages, true, &settings, watch)?)
    }

    fn leave_out(&self) -> LeaveOut {
        let prefixes = self.new.iter().cloned().map(NewDocuments::Prefix);
        let new = prefixes
            .chain(self.new_from.clone().map(NewDocuments::Listed))
            .chain(self.new_since.clone().map(NewDocuments::Since))
            .collect();
        let pairs = WantedPairs {
            groups: self.manners.grouping(),
            new,
        };
        LeaveOut {
            files: self.exclude.clone(),
            indexes: self.exclude_index.clone(),
            base: self.manners.base.clone(),
            pairs,
        }
    }

    /// Whether some text or some pairs do not count.
    fn leaves_out(&self) -> bool {
        let manners = &self.manners;
        let picks = !self.new.is_empty() || self.new_from.is_some() || self.new_since.is_some();
        picks || !manners.base.is_empty() || manners.groups.is_some() || manners.group_by.is_some()
    }

    fn keep(&self) -> KeepRule {
        KeepRule::NAMES
            .iter()
            .find(|row| Some(row.0) == self.keep.as_deref())
            .map_or(KeepRule::First, |row| row.1)
    }

    fn ensure_flags_fit(&self) -> Result<(), anyhow::Error> {
        // What is dropped is what clusters drop.
        let what = if self.unique {
            Kind::Clusters
        } else {
            self.what
        };
        let is = |kinds: &[Kind]| kinds.contains(&what);
        let compares = self.comparison.is_asked();
        let (finds, aligns) = (
            !compares || self.comparison.methods().contains(&CompareMethod::Blots),
            compares && !self.comparison.only_candidates(),
        );
        let (input, reads) = (
            &self.run.input,
            self.unique || aligns || is(&[Kind::Spans, Kind::Passages]),
        );
        let pairs = [Kind::Pairs, Kind::Clusters, Kind::Graph];
        let scores = is(&pairs) || is(&[Kind::Table]);
        let (leaves_out, picks) = (scores && !compares, scores && !self.unique);
        let shows_passages = self.passages || self.html.is_some();
        self.manners.ensure_passages(shows_passages)?;
        self.comparison.ensure_asked()?;
        if !self.corpus.is_empty() && !shows_passages && !aligns && !is(&[Kind::Passages]) {
            bail!(
                "--corpus says where the texts are, for passages; add --passages, --as passages, --areas or --html"
            );
        }
        if compares && (self.unique || self.what != Kind::Pairs) {
            bail!(
                "{} has no meaning with {}; leave it out",
                self.comparison.name(),
                self.asked(what, false)
            );
        }
        for (flag, is_given, fits) in [
            ("--score", self.score.is_some(), is(&pairs) && finds),
            ("--threshold", self.threshold.is_some(), scores && finds),
            (
                "--top",
                self.top.is_some(),
                is(&[Kind::Table, Kind::Passages]) || self.html.is_some(),
            ),
            (
                "--html",
                self.html.is_some(),
                is(&[Kind::Pairs]) && !compares,
            ),
            (
                "--min-tokens",
                self.min_tokens.is_some(),
                is(&[Kind::Passages]),
            ),
            ("--taboo", !self.taboo.is_empty(), is(&[Kind::Passages])),
            ("--since", self.since.is_some(), is(&[Kind::Table])),
            ("--rank", self.rank, is(&[Kind::Table])),
            (
                "--counts",
                !self.counts.is_empty(),
                is(&[Kind::Table]) && !self.leaves_out(),
            ),
            ("--passages", self.passages, is(&[Kind::Pairs]) && !compares),
            ("--keep", self.keep.is_some(), is(&[Kind::Clusters])),
            ("--sigma", self.sigma.is_some(), is(&[Kind::Blots])),
            (
                "--max-df",
                self.max_df.is_some(),
                finds && !is(&[Kind::Exact, Kind::Spans, Kind::Passages]),
            ),
            ("PATH", !input.paths.is_empty(), reads),
            ("--files-from", input.files_from.is_some(), reads),
            ("--exclude", !self.exclude.is_empty(), leaves_out),
            (
                "--exclude-index",
                !self.exclude_index.is_empty(),
                leaves_out,
            ),
            ("--base", !self.manners.base.is_empty(), leaves_out),
            ("--groups", self.manners.groups.is_some(), picks),
            ("--group-by", self.manners.group_by.is_some(), picks),
            ("--new", !self.new.is_empty(), picks),
            ("--new-from", self.new_from.is_some(), picks),
            ("--new-since", self.new_since.is_some(), picks),
        ] {
            if is_given && !fits {
                bail!(
                    "{flag} has no meaning with {}; leave it out",
                    self.asked(what, compares)
                );
            }
        }
        Ok(())
    }

    /// What is asked for, as messages name it.
    fn asked(&self, what: Kind, compares: bool) -> String {
        match () {
            () if self.unique => "--unique".to_owned(),
            () if compares => self.comparison.name(),
            () => format!("--as {}", name(what)),
        }
    }

    fn options(&self, index: &Index) -> Result<ExtractOptions, anyhow::Error> {
        let is_table = self.what == Kind::Table;
        let find = |given: &Option<String>| {
            Score::NAMES
                .iter()
                .find(|row| Some(row.0) == given.as_deref())
                .map(|row| row.1)
        };
        let score = find(&self.score).unwrap_or(if is_table {
            Score::Inclusion
        } else {
            Score::Containment
        });
        let threshold = self
            .threshold
            .map_or(Ok(score.default_threshold()), |threshold| {
                threshold.of_score(score)
            })?;
        let limits = Limits::new(
            threads_of(self.run.threads),
            self.memory.unwrap_or_else(|| machine_memory() / 4),
        );
        Ok(ExtractOptions {
            what: self.extract(index)?,
            score,
            threshold,
            max_df: self.max_df,
            limits,
        })
    }

    fn extract(&self, index: &Index) -> Result<Extract, anyhow::Error> {
        Ok(match self.what {
            Kind::Pairs => Extract::Pairs(self.format()?),
            Kind::Table => {
                let (top, rows) = (
                    self.top.unwrap_or(100) as usize,
                    RowFormat {
                        format: self.format()?,
                        ranks: self.rank,
                    },
                );
                let since = self
                    .since
                    .as_ref()
                    .map(|since| index.manifest.resolve(&index.directory, since))
                    .transpose()?;
                since.map_or(Extract::Table { top, rows }, |generation| {
                    Extract::TableSince {
                        top,
                        rows,
                        generation,
                    }
                })
            }
            Kind::Clusters => Extract::Clusters {
                keep: self.keep(),
                format: self.format()?,
            },
            Kind::Exact => Extract::Exact(self.format()?),
            Kind::Graph => Extract::Graph(self.graph_format()?),
            Kind::Blots => Extract::Blots {
                sigma: self.sigma,
                format: self.format()?,
            },
            Kind::Spans | Kind::Passages => {
                bail!("spans are of documents, not of an index alone; say which")
            }
        })
    }

    fn format(&self) -> Result<Format, anyhow::Error> {
        match self.format.as_deref() {
            None | Some("ndjson") => Ok(Format::Ndjson),
            Some("pan-xml") if self.is_xml() => Ok(Format::Ndjson),
            Some("tsv") => Ok(Format::Tsv),
            Some(other) => bail!(
                "--as {} is written as ndjson or tsv, not as {other}",
                name(self.what)
            ),
        }
    }

    fn is_xml(&self) -> bool {
        self.passages && self.format.as_deref() == Some("pan-xml")
    }

    fn graph_format(&self) -> Result<GraphFormat, anyhow::Error> {
        match self.format.as_deref() {
            None | Some("dot") => Ok(GraphFormat::Dot),
            Some("graphml") => Ok(GraphFormat::Graphml),
            Some(other) => bail!("--as graph is written as dot or graphml, not as {other}"),
        }
    }
}

pub fn main() -> ExitCode {
    main_of::<Arguments>()
}
