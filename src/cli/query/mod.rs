//! dedup-query: what shares text with a document.

mod align;
mod between;
mod blot;
mod history;
mod history_manual;
mod history_tools;
mod notify;
mod search;
mod serve;
mod server;

use super::{
    Manual, Tool,
    exclusions::{COUNTED, GROUPS, PassageArgs, SHAPES, TEXTS},
    generate::What,
    main_of,
};
use crate::commands::QueryOutcome;
use clap::{Command, Parser, Subcommand};
use history_manual::{HIGH_AVAILABILITY, TOOLS};
use serve::{FRONT, SERVICE};
use std::process::ExitCode;

const PROGRAM: &str = "dedup-query";
/// The verbs, for messages about unknown ones.
const VERBS: &[&str] = &["search", "align", "blot", "between", "history", "serve"];

/// Find what shares text with a document
///
/// Prints the documents of SOURCE, an index or documents, that share text with each DOC, the most
/// similar first. Line breaks, case and punctuation make no difference. DOC need not be in the
/// index, and is not added to it. Verbs align two files, look at single blots, and compare documents
/// with all that came before them. A SOURCE that has the name of a verb is given as ./history.
#[derive(Parser, Debug)]
#[command(
    name = "dedup-query",
    version,
    override_usage = "dedup-query [VERB] SOURCE DOC… [OPTIONS]",
    arg_required_else_help = true,
    subcommand_value_name = "VERB",
    subcommand_help_heading = "Verbs (dedup-query VERB --help says more)"
)]
pub struct QueryCli {
    #[command(subcommand)]
    verb: Option<QueryVerb>,
    #[arg(long, value_name = "WHAT", hide = true)]
    generate: Option<What>,
}

#[derive(Subcommand, Debug)]
enum QueryVerb {
    /// Documents of SOURCE that share text with DOC, the best first (the default)
    Search(Box<search::SearchArgs>),
    /// The passages that two files share
    Align(Box<align::AlignArgs>),
    /// Documents that have a blot, and its text
    Blot(Box<blot::BlotQueryArgs>),
    /// Every blot that two documents of an index share
    Between(Box<between::BetweenArgs>),
    /// Each document against all that came before it
    History(Box<history::HistoryArgs>),
    /// Answer many clients from indexes and a history
    Serve(Box<serve::ServeArgs>),
}

const MANUAL: Manual = Manual {
    examples: &[
        (
            "dedup-query essays/ essay.txt",
            "Which of the essays share text with this one",
        ),
        (
            "dedup-query my.idx essay.txt --passages --corpus corpus/",
            "What was copied into it from the documents of an index, and from where",
        ),
        (
            "dedup-query my.idx essay.txt --html essay.html --corpus corpus/",
            "The essay and its sources side by side, for a browser",
        ),
        (
            "dedup-query my.idx essay.txt --exclude-text template.txt --threshold 10%",
            "Without the text of the template",
        ),
        (
            "dedup-query my.idx scans/ --format tsv --top 3",
            "The best three of each, as a table",
        ),
        (
            "zstdcat articles.jsonl.zst | dedup-query my.idx --stream",
            "An answer for each line, as they come",
        ),
        (
            "dedup-query align essay.txt source.txt",
            "Which passages of an essay are from a source",
        ),
        (
            "dedup-query align --pairs pairs.tsv --html report/",
            "Many pairs, both texts side by side: open report/index.html in a browser",
        ),
        (
            "dedup-query align --pairs pairs.tsv --format pan-xml -o detected/",
            "The same as XML, for an evaluation",
        ),
        (
            "dedup-query blot my.idx 2db9c479",
            "Which documents have this blot, and what text it is",
        ),
        (
            "dedup-query between shared.idx essay.txt source.txt",
            "Every chunk that two documents share",
        ),
        (
            "zstdcat articles.jsonl.zst | dedup-query history seen",
            "The best match of each document among all that came before",
        ),
        (
            "zstdcat articles.jsonl.zst | dedup-query history seen --only-new",
            "Only new documents pass, byte for byte",
        ),
        ("dedup-query history stats seen", "What a history holds"),
        (
            "dedup-query history verify seen",
            "Whether a history is undamaged",
        ),
        (
            "dedup-query history backup seen seen.backup",
            "A consistent copy, also while a server is writing",
        ),
        (
            "dedup-query history dump seen > seen.jsonl",
            "All prints, in order of arrival, for another program",
        ),
        (
            "dedup-query history split seen -o parts --parts 2",
            "Two histories of about the same size, for two machines",
        ),
        (
            "dedup-query history merge parts/000-129 parts/130-256 -o whole",
            "One history again, with the same answers",
        ),
        (
            "dedup-query history repair seen",
            "Keep what can be read of a damaged journal",
        ),
        (
            "dedup-query history remove seen article-17",
            "Remove a document from a history",
        ),
        (
            "dedup-query serve --history seen --lines unix:seen.sock --min-similarity 94%",
            "Answer many clients at once",
        ),
        (
            "dedup-query serve --index my.idx --corpus corpus/ --http 127.0.0.1:8080",
            "Answer over HTTP, from an index",
        ),
    ],
    sections: &[
        (
            "RECORDS",
            &[
                "query, rank, doc (ids), shared (distinct blots in both), a_in_b (shared ÷ blots of the query document), b_in_a (shared ÷ blots of the document found), score. Among equal scores the document that was indexed first comes first. Exact duplicates in the index are listed one by one.",
                "With --passages also passages, a list as with align, if the text of the document found can be read (see TEXTS). On a terminal, unless --format is given, excerpts instead: for each document found the \
                 share of the words of either that are in passages, and each passage with the lines that it is in.",
                "With --stream: doc, and matches, a list of doc, shared, a_in_b, b_in_a, score.",
                "blot writes blot, doc, and, where the text can be read, bytes (where the text starts and ends) and text. between writes blot, and text if the index has it.",
                "align writes for each pair: a, b (paths), a_in_b, b_in_a (the share of the words of each that are in passages), and passages, a list of a, b (where the passage starts and ends, in bytes or with --chars in characters), \
                 tokens (words in both), score (their weight ÷ the weight of all words, from 0 to 1), p_value with --p-values, kind.",
                "With an index of selected blots all scores are estimates (shared, s1 and rarity are scaled), and the records say so; see dedup-extract(1).",
                "An index of shared chunks (dedup-spex, or --select spex:FILE) holds only what at least two of its documents share: text that was copied from a single document is not found. A line on stderr says how much of its documents it holds. \
                 To query documents that are not in the collection, build a full index with dedup-index build. Shares refer to all distinct blots of both documents.",
            ],
        ),
        (
            "WHAT DOES NOT COUNT",
            &[
                "Text of --exclude-text files is ignored in both documents: it is neither shared nor part of the total that shares refer to. Text that --exclude-index or --max-df exclude is neither shared nor part of the query \
                 document; it still counts in the total of the documents of the index.",
                "--base extends --exclude-text: it also takes directories, and words of base text count neither in passages nor in shares, in both documents. --exclude-quotes and --exclude-bibliography apply to the query document, with align to the first \
                 of each pair: text that was copied without marks from a quotation in the source still counts. Percentages refer to the remaining text.",
                COUNTED,
                SHAPES,
                GROUPS,
            ],
        ),
        (
            "PASSAGES",
            &[
                "verbatim: word for word, 2·k words or more (k is 8, or -k), exact to the character except for white space, case and punctuation. edited: mostly word for word. reworded: whole sentences in other words, in another order, or translated and back. summary: a few \
                 sentences of a that summarize all of b.",
                "With --p-values each passage has p_value: the probability that unrelated texts of these lengths share a passage with as much in common. It is 1 − exp(−n·m·e^(−S/2)) for texts of n and m words; S, in nats, is the information of the words that \
                 both sides of the passage have, and rare words have much of it. Half of it counts because words that often stand together are not independent. Of unrelated pairs at most a share p has a passage with a p-value of p or less. P-values are \
                 too large rather than too small: a weak passage often has 1, and so have most summaries. A p-value is about one pair: among a million unrelated pairs expect up to ten below 0.00001. Text that many documents have, such as a licence or a template, has a small p-value too, because it was copied. Only passages of words have p-values.",
                "Case, punctuation and line breaks make no difference. No language is preferred: the weight of a word depends only on the two documents.",
                "Documents are compared as they were indexed, by the tokenizer of the index and without the HTML that it strips; align takes --tokenizer and --strip-html. Offsets are those of the documents as they were read, markup included; pages and excerpts show the \
                 text without it. With another tokenizer than word, everything said here about words applies to its tokens, k is that of the index (with align 8, for dna 31, or -k), and passages are verbatim or edited; reworded text is not searched. A passage has \
                 2·k tokens or more; with line k lines, with char:N 64 or more. With dna both strands are compared: a passage with reverse true is the reverse complement in b. Unknown bases match nothing.",
                "--format pan-xml writes a file for each pair, A-B.xml after the names of both files, with offsets in characters, as in the PAN evaluations of plagiarism detection. If several pairs have the same names, the second file is A-B~2.xml, and so on; id and source_id in the files are the full paths.",
            ],
        ),
        ("TEXTS", &[TEXTS]),
        (
            "REPORT",
            &[
                "--html FILE makes one page of the query and all documents found; the query must be one document. align --html DIR writes DIR/index.html, an overview with tables of documents and pairs, a histogram and a graph of the connected documents, and DIR/pair-000001.html and so on, one page for each pair in the order \
                 of the list: both texts side by side, a colour and a number for each passage, a click leads from one side to the other, and text that is not shared is folded. In passages that are not verbatim, words that the other side does not have are marked. Press ? on a page for its keys and for how its \
                 numbers are counted.",
                "Pages need no network and no server; they can be mailed, printed and kept. Nothing in a document or in its name can run in them: text stays text, and control characters and reversals of direction are made visible. Pages of an \
                 earlier run in DIR are removed.",
            ],
        ),
        (
            "HISTORY",
            &[
                "dedup-query history DIR keeps a print of 256 bits for each document, and answers each document with the most similar earlier one; \
                 among equals, with the first one. The answer is exact: the same as from a scan of all prints. Documents are given as to \
                 the other verbs, or as a stream of prints from dedup-blot --scheme minhash:256. Each document is compared with all that came \
                 before it, also in the same stream, regardless of the number of threads. A document without words has no match and is not stored.",
                "The similarity is the Jaccard coefficient of the bits of two prints. It follows the Jaccard coefficient of the sets of words, so \
                 order, repetition and layout make no difference; dedup-stream(5) says how closely. Documents that have nothing in common still \
                 have a similarity of 0.3 to 0.55. At 0.94 the history finds nine in ten texts in which one word in a hundred was changed, at 0.80 \
                 those in which one in twenty was.",
                "A document is not its own match. An entry with the same id and the same print is the document itself: it is compared only with \
                 entries that came before it, so it gets the same answer as the first time, and it is not stored again. It is therefore safe to \
                 send a document again if its answer got lost. The same id with another print is another version: it is compared with the older \
                 versions as with any other document, and stored in addition to them; nothing is replaced. A line of NDJSON without an id gets the \
                 id FILE:LINE. Other fields of a line are ignored, even if they are called add, min_similarity or top: only a service reads these. \
                 To compare documents without adding them, use --no-add.",
                "With --top N the answer also has matches, a list of the best N. --only-new writes no answers; it copies the lines of documents \
                 that are similar to no earlier one. All documents are stored in either case. A line that is not a document is reported, and \
                 copied.",
                "--only-new copies every new document at least once. A document is stored only after its line was written to stdout; so if the \
                 process is killed, if the reader goes away or if its disk is full, run it again on the same input. Lines that were written but did \
                 not arrive, because the reader died as well, are then copied again. Some lines may be copied twice, but never those of documents \
                 that are not new. If each line must come once, let the reader drop ids that it has. With --upstream, servers store documents \
                 before lines are written, and documents that came later to another server may count as earlier ones: a run that was killed may \
                 then lose documents that are similar to others of the same run.",
                "DIR holds journals, files of prints and a manifest. Every document that was answered is in a journal, so a process that is killed \
                 loses nothing. If the machine crashes, documents after the last sync are lost: at most as many as --sync-every allows, plus those \
                 that arrived during a sync. The next writer drops an incomplete group of entries at the end of a journal and reports it on stderr; \
                 readers skip it. A journal that lacks synced bytes is an error that names file and byte. One process can write at a time; --no-add \
                 takes no lock, and reads the state at its start. A history has one tokenizer.",
                "dedup-query history verify DIR checks every checksum, and that order, counts, addresses, ids and sequence numbers of all files \
                 agree; dedup-query history stats DIR shows figures. Both only read, take no lock, and can run while another process writes.",
                "--max-entries and --max-age drop old entries while documents arrive; files shrink when they are merged, or when less than half of \
                 one is left. dedup-query history remove removes all entries with an id.",
            ],
        ),
        ("COPIES AND PARTS OF A HISTORY", TOOLS),
        ("SERVICE", SERVICE),
        ("SEVERAL SERVERS", FRONT),
        ("HIGH AVAILABILITY", HIGH_AVAILABILITY),
        (
            "EXIT STATUS",
            &[
                "0: something was found. 1: nothing was found. 2: an error, or some input could not be used. With serve, --only-new and history remove 0 says that it was done; an unknown id is an input that could not be used.",
            ],
        ),
    ],
    see_also: &[
        ("dedup", 7),
        ("dedup-index", 1),
        ("dedup-extract", 1),
        ("dedup-history", 5),
    ],
};

impl Tool for QueryCli {
    const MANUAL: Manual = MANUAL;
    const DEFAULT_VERB: Option<&'static str> = Some("search");
    const RETIRED: &'static [(&'static str, &'static str)] = &[
        ("--pairs", "dedup-query align --pairs VALUE"),
        ("--blot", "dedup-query blot IDX VALUE"),
        ("--between", "dedup-query between IDX A B"),
        ("--history", "dedup-query history VALUE [PATH…]"),
        ("--remove", "dedup-query history remove DIR VALUE"),
        (
            "--remove-from",
            "dedup-query history remove DIR --files-from VALUE",
        ),
        ("--listen", "dedup-query serve --history DIR --lines VALUE"),
        ("--upstream", "dedup-query history --upstream VALUE [PATH…]"),
        ("--ignore-df", "--max-df"),
    ];

    fn adjust(command: Command) -> Command {
        command.mut_subcommand("search", |search| {
            // Only an index that is made for the occasion needs it; the manual has it.
            let search = search.mut_arg("tmp_dir", |flag| flag.hide_short_help(true));
            PassageArgs::IDS.iter().fold(search, |search, id| {
                search.mut_arg(id, |flag| flag.requires("shows_passages"))
            })
        })
    }

    fn generate(&self) -> Option<What> {
        self.generate
    }

    fn run(&self) -> Result<ExitCode, anyhow::Error> {
        match &self.verb {
            Some(QueryVerb::Search(args)) => args.run(),
            Some(QueryVerb::Align(args)) => args.run(),
            Some(QueryVerb::Blot(args)) => args.run(),
            Some(QueryVerb::Between(args)) => args.run(),
            Some(QueryVerb::History(args)) => args.run(),
            Some(QueryVerb::Serve(args)) => args.run(),
            None => anyhow::bail!("say which index or documents: dedup-query SOURCE DOC…"),
        }
    }
}

/// 0: something was found, 1: nothing was, 2: some input could not be used.
fn found_code(asked: &QueryOutcome, skip_bad: bool) -> ExitCode {
    let has_problems = asked.problems > 0 && !skip_bad;
    ExitCode::from(if has_problems {
        2
    } else {
        u8::from(asked.matches == 0)
    })
}

/// Runs dedup-query with the arguments of the process.
pub fn main() -> ExitCode {
    main_of::<QueryCli>()
}
