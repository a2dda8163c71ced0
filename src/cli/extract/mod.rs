//! dedup-extract: what is similar in a collection.

mod blots;
mod clean;
mod clusters;
mod compare;
mod exact;
mod graph;
mod keep;
mod pairs;
mod passages;
mod records;
mod report;
mod scoring;
mod spans;
mod table;
mod texts;

pub(in crate::cli) use clean::{
    RuleArgs, default_blots, ensure_empty, ensure_shards, print_account,
};

use super::{
    Manual, Tool,
    exclusions::{COUNTED, GROUPS, PassageArgs, SHAPES, TEXTS},
    generate::What,
    main_of,
};
use clap::{Command, Parser, Subcommand};
use std::process::ExitCode;

const PROGRAM: &str = "dedup-extract";
/// The verbs, for messages about unknown ones.
pub const VERBS: &[&str] = &[
    "pairs", "table", "clusters", "graph", "exact", "blots", "passages", "spans", "compare",
    "report", "clean",
];

/// Find everything that is alike in a collection of documents
///
/// SOURCE is an index, or documents. Without a verb the verb is pairs: every pair of documents that
/// share enough text, exactly; nothing is sampled, and nothing is missed at the threshold. A file or
/// directory that has the name of a verb is given as ./pairs.
#[derive(Parser, Debug)]
#[command(
    name = "dedup-extract",
    version,
    override_usage = "dedup-extract [VERB] SOURCE… [OPTIONS]",
    arg_required_else_help = true,
    subcommand_value_name = "VERB",
    subcommand_help_heading = "Verbs (dedup-extract VERB --help says more)"
)]
pub struct ExtractCli {
    #[command(subcommand)]
    verb: Option<ExtractVerb>,
    #[arg(long, value_name = "WHAT", hide = true)]
    generate: Option<What>,
}

#[derive(Subcommand, Debug)]
enum ExtractVerb {
    /// Every pair of documents that share enough text (the default)
    Pairs(Box<pairs::PairsArgs>),
    /// The most similar documents of each document
    Table(Box<table::TableArgs>),
    /// Groups of documents that are connected by pairs
    Clusters(Box<clusters::ClustersArgs>),
    /// The pairs as a graph: DOT or GraphML
    Graph(Box<graph::GraphArgs>),
    /// Documents that are the same
    Exact(Box<exact::ExactArgs>),
    /// Blots by falling number of documents
    Blots(Box<blots::BlotsArgs>),
    /// What several documents share: each text once, with its variants and all its places
    Passages(Box<passages::PassagesArgs>),
    /// Byte ranges of each document that an earlier one has
    Spans(Box<spans::SpansArgs>),
    /// Pairs compared by alignment, token by token
    Compare(Box<compare::CompareArgs>),
    /// Pages for a browser, with both texts of each pair side by side
    Report(Box<report::ReportArgs>),
    /// The files of a collection without what is there twice
    Clean(Box<clean::CleanArgs>),
}

const MANUAL: Manual = Manual {
    examples: &[
        (
            "dedup-extract essays/",
            "Every pair that has a tenth of its text in common, boilerplate apart",
        ),
        (
            "dedup-extract my.idx --score jaccard --threshold 80% --format tsv",
            "Near-duplicates of an index, as a table",
        ),
        (
            "dedup-extract pairs essays/ --passages --exclude-quotes",
            "What the documents of each pair share, from where to where",
        ),
        (
            "dedup-extract pairs my.idx --new essays/ --base template.txt",
            "New essays compared with each other and all other documents, without the template",
        ),
        (
            "dedup-extract table my.idx --top 10 --format tsv -o alike.tsv",
            "The ten most similar documents of each document",
        ),
        (
            "dedup-extract table my.idx --since 1 --format tsv",
            "The changes to a table that was made after commit 1 (or a pin)",
        ),
        (
            "dedup-extract clusters my.idx --keep longest",
            "Groups of similar documents, with the longest of each",
        ),
        (
            "dedup-extract graph my.idx --format graphml -o similar.graphml",
            "A graph for Gephi",
        ),
        ("dedup-extract exact essays/", "Documents that are the same"),
        (
            "dedup-extract blots my.idx --sigma 3 --format tsv",
            "The most repeated windows of text",
        ),
        (
            "dedup-extract passages essays/ --min-tokens 20 --top 100",
            "The most copied texts, each once with its variants",
        ),
        (
            "dedup-extract spans my.idx articles.jsonl.zst",
            "The bytes of each document that are also in an earlier one",
        ),
        (
            "dedup-extract compare essays/ --min-similarity 500",
            "Pairs that share text, and which areas are similar",
        ),
        (
            "for i in 1 2; do dedup-extract compare essays/ --method exhaustive --slice $i/2; done",
            "All pairs, in two parts, for example for two hosts",
        ),
        (
            "dedup-extract report essays/ -o report/",
            "Pages for a browser: open report/index.html",
        ),
        (
            "dedup-extract clean crawl/ -o clean/ --dropped dropped.jsonl",
            "The same files without their duplicates, and what went and why",
        ),
        (
            "dedup-extract clean crawl/ -o longest/ --cut-spans 50 --keep longest",
            "Also cut out what is repeated; of copies the longest stays",
        ),
        (
            "dedup-extract clean crawl/ -o training/ --against eval/ --cut-spans 50",
            "Also without what is in evaluation sets",
        ),
    ],
    sections: &[
        (
            "RECORDS",
            &[
                "With --passages, the records of pairs also have passages, a list of a, b (bytes, or with --chars characters, where the passage starts and ends), tokens, score, p_value with --p-values, kind; see dedup-query(1). If the text of a document cannot be read, its pairs have no passages, the document is reported, and the status is 2; see TEXTS. In tables each passage is a row: a, b, a_start, a_end, b_start, b_end, tokens, score, kind, reverse.",
                "Documents come in the byte order of their ids, and ties are broken by that order, so the same documents give the same records, regardless of the commits that added them.",
                "pairs: a, b (ids; a comes before b), shared (distinct blots in both), a_in_b (shared ÷ blots of a), b_in_a, score. Ordered by a, then b.",
                "table: a, b, shared, a_in_b, b_in_a; with --rank also rank, after a. For each document the documents with the highest a_in_b, the best first; among equals those whose ids come first. Each similar pair is listed in both directions.",
                "table with --since: change (delete, update or insert), then as above; a deleted row has its old values. Applied to the old table, row by row, these changes give the new table; a and b identify a row. With --rank every row that moves up or down is an update, so that most lists of changes are several times as long. The state between commits whose segments were merged is no longer available; dedup-index pin keeps the state of a generation available.",
                "clusters: cluster, size, kept, members, and dropped, a list of doc, duplicate_of, shared, score: a group of documents that are connected by pairs, and the document that --keep prefers. duplicate_of is that document, if they are a pair; otherwise the document that connects them, which is in dropped itself. Two documents of a cluster may have nothing in common: to clean a corpus use clean, not clusters. In tables a row for each document: cluster, doc, kept (1 or 0), duplicate_of, shared, score.",
                "exact: group, size, tokens, docs; in tables a row for each document: group, doc. blots: blot, df, docs; in tables, too, docs is a JSON array.",
                "spans: doc, bytes (of its text), spans (pairs of the first byte and the one after the last), seen (bytes in spans), for each document, in the order of the input. A window of k tokens, from the start of its first token to the \
                 end of its last, was seen if a document of the index with a smaller id, in byte order, has the same blot; that document need not be in the input; windows that touch or overlap are one span. After cutting all spans, no window is in two documents. The documents must be those of the index, and the index must have all blots (--select all). In a large corpus two windows may share a blot of 40 bits by chance; --bits 64 makes that next to impossible.",
                "passages: passage (the number of the family), tokens (of its representative), count (of places), documents (that have it), variants (different texts of its places), new (tokens of its places that are in none of the earlier \
                 families), text (at most 300 characters of the representative; null if the documents were given as tokens), representative (doc, start, end: the place that has most of what most places have, and least of the rest), differs \
                 (where the 31 most frequent other variants differ from the representative: pairs of the first byte and the one after the last, in its document), places, a list of doc, start, end (bytes), variant (left out if the text is that of the \
                 representative) and, for DNA, reverse (true if it is the reverse complement of the representative; left out if not), in the order in which documents are read. In tables each place is a row: passage, tokens, count, documents, doc, start, end, variant, reverse, text. See PASSAGES.",
                "Exact duplicates count as separate documents everywhere: each is listed, and counts, df and pairs include every copy. A document without tokens has no blots and is in no pair; only exact finds it.",
                "Tables are TSV, CSV and Parquet. Parquet has typed columns (integer, double, boolean, string), compressed with zstd; it is written to a file or a pipe, not to a terminal. A value that is missing is an empty cell, or null.",
                "Numbers have six decimals at most. In TSV the first line names the columns, and a cell of text is the inside of a JSON string: \\t, \\n, \\r, \\\\, \\\" and \\uXXXX stand for characters that would end it, command a terminal or turn text around; see ESCAPES in dedup-stream(5). In DOT and GraphML these are character references, or U+FFFD where XML has none.",
            ],
        ),
        ("CLEANING", clean::CLEAN),
        ("PASSAGES", passages::PASSAGES),
        ("COMPARISON", compare::COMPARISON),
        ("WORDS IN COMMON", compare::DICTIONARY),
        (
            "THRESHOLDS",
            &[
                "By default, the score is jaccard and the threshold 0.1: of all text that one or both documents have, boilerplate apart, a tenth is in both. That finds versions of a document that was edited for years. For clusters the threshold is 0.5, as a cluster names \
                 one document of which the others are duplicates. An index that was made with a preset (dedup-index build --preset) has its own score and threshold; see PRESETS in dedup(7).",
                "To find short documents in long ones, use --score containment: shared text ÷ text of the shorter document, 0.5 or more. The default thresholds of s1 to s4 are those with which Bernstein and Zobel (2005) found the most pairs of Linux documentation with the fewest errors. \
                 A pair has at least one blot in common, even at threshold 0.",
                "--exclude-text, --exclude-index and --max-df N leave out text: such blots count neither as shared nor as blots of a document. NDJSON then starts with a header line: dedup, version, scheme, \
                 max_df, exclude, exclude_index.",
                "--base takes files and directories; words of base text also count neither in passages nor in shares. The header then has the field base.",
            ],
        ),
        (
            "BOILERPLATE",
            &[
                "Licences, navigation and skeletons of pages make documents similar that have nothing else in common. pairs, clusters, graph and report do not count such text (--max-df auto), say how much they ignored, and compute everything else exactly, as if it were not there. --max-df none counts all text.",
                "Boilerplate is found in the collection itself. A set of documents are near copies if its documents, two by two, have 70 % of their text in common; text that more documents have than the set does not count in this. Text of up to five documents is no boilerplate, nor is text of near copies. \
                 Of all that text, at least 95 % is in sets of at most n documents, and n is 5 or more: other text of more than n documents is boilerplate. In five releases of a manual n is 5, in twenty releases 20, as most text is in as many documents as there are releases. \
                 In a collection of fewer than 100 documents nothing is boilerplate.",
                "A paragraph that six or more authors copied looks like a template, if they copied nothing else. Where that can happen, as among essays, use --preset essays or --max-df none.",
                "dedup-extract blots --boilerplate SOURCE lists what was found: df (the number of documents), blots (how many they share) and docs (the first five of them), those with the most text first. dedup-extract passages shows the text itself.",
                "The tables of table, the answers of dedup-query and what clean removes count all text, unless --max-df N is given.",
            ],
        ),
        ("TEXTS", &[TEXTS]),
        (
            "REPORT",
            &[
                "report -o DIR writes DIR/index.html: every document that was checked, with the share of its words that others have, its best sources, and notes (too short to judge, in another language than most, text not \
                 found); the files that could not be read; a histogram of all pairs, a graph, a table of pairs; and how the report was made. DIR/document-000001.html and so on show a document beside all its sources (the best 12 with \
                 their texts), DIR/pair-000001.html two documents side by side; see dedup-query(1) for what is on them. It needs the texts, as pairs --passages does.",
                "There are pages for 500 pairs and 500 documents, or --top N, the best ones, as far as they fit into --max-size SIZE (100M): the overview says how many pairs have none. Pairs without a page have estimated shares, by common \
                 windows. The table lists up to 60,000 pairs; the histogram counts all. dedup-query align A B --html DIR shows any two documents, dedup-query SOURCE DOC --html FILE any document.",
                "On the left is the document that was examined: the new one (--new), or else the one whose file was changed on a later day. With --new only new documents are listed. Documents with the same words are one row, and \
                 so are three or more near copies. What the tables show can be saved as CSV, and the pages can be printed.",
                "The same documents and options give the same pages: the clock is not asked. --date DATE, or SOURCE_DATE_EPOCH, gives the report a date; the date of the newest document is always on it. Pages of an earlier report in DIR \
                 are removed.",
            ],
        ),
        (
            "WHAT DOES NOT COUNT",
            &[
                "--exclude-quotes, --exclude-bibliography and --min-match-words are about passages, for pairs --passages and report: neither document is the source of the other, so they apply to both.",
                COUNTED,
                SHAPES,
                GROUPS,
                "--new PREFIX, --new-from LIST and --new-since GEN|PIN say which documents are new: pairs of two old documents are left out, pairs of a new one with any other are listed. A document is new if any of the given rules says so. All of these apply to pairs, table, clusters, graph, compare and report; clusters are made of the remaining pairs.",
            ],
        ),
        (
            "ESTIMATES",
            &[
                "An index of shared chunks (dedup-spex, or --select spex:FILE) gives the same answers as one of all: it knows how many distinct blots each document has. The exception is --exclude-text, --exclude-index and --base: the index does not know which text of only one document they leave out, and the program says so.",
                "An index of other selected blots gives estimates, and each record says so (\"estimate\":true). shared, s1 and rarity are multiplied by N for mod:N, by (W+1)/2 for winnow:W, by the product for chains; for every:N and anchor \
                 the factor is unknown, and nothing is multiplied. The other scores are ratios and need no factor.",
            ],
        ),
        (
            "EXIT STATUS",
            &["0: done, even if nothing was found. 2: an error, or some input could not be used."],
        ),
    ],
    see_also: &[("dedup", 7), ("dedup-index", 1), ("dedup-index", 5)],
};

impl Tool for ExtractCli {
    const MANUAL: Manual = MANUAL;
    const DEFAULT_VERB: Option<&'static str> = Some("pairs");
    const RETIRED: &'static [(&'static str, &'static str)] = &[
        ("--as", "dedup-extract VALUE SOURCE…"),
        ("--unique", "dedup-extract clean SOURCE…"),
        ("--html", "dedup-extract report SOURCE… -o DIR"),
        ("--areas", "dedup-extract compare SOURCE…"),
        ("--method", "dedup-extract compare SOURCE… --method VALUE"),
        ("--ignore-df", "--max-df"),
    ];

    fn adjust(command: Command) -> Command {
        let command = command.mut_subcommand("pairs", |pairs| {
            PassageArgs::IDS.iter().fold(pairs, |pairs, id| {
                pairs.mut_arg(id, |flag| flag.requires("passages"))
            })
        });
        command.mut_subcommand("clean", |clean| {
            clean.mut_arg("k", |flag| {
                flag.help("Tokens in a window [default: 5, for dna 31]")
            })
        })
    }

    fn generate(&self) -> Option<What> {
        self.generate
    }

    fn run(&self) -> Result<ExitCode, anyhow::Error> {
        match &self.verb {
            Some(ExtractVerb::Pairs(args)) => args.run(),
            Some(ExtractVerb::Table(args)) => args.run(),
            Some(ExtractVerb::Clusters(args)) => args.run(),
            Some(ExtractVerb::Graph(args)) => args.run(),
            Some(ExtractVerb::Exact(args)) => args.run(),
            Some(ExtractVerb::Blots(args)) => args.run(),
            Some(ExtractVerb::Passages(args)) => args.run(),
            Some(ExtractVerb::Spans(args)) => args.run(),
            Some(ExtractVerb::Compare(args)) => args.run(),
            Some(ExtractVerb::Report(args)) => args.run(),
            Some(ExtractVerb::Clean(args)) => args.run(),
            None => anyhow::bail!("say which index or documents: dedup-extract SOURCE…"),
        }
    }
}

/// Runs dedup-extract with the arguments of the process.
pub fn main() -> ExitCode {
    main_of::<ExtractCli>()
}
