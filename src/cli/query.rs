//! dedup-query: what in an index shares text with a document.

use super::{
    Manual, Tool,
    args::{BlotArgs, RunArgs, TokenArgs},
    generate::{What, examples},
    history::{HistoryArgs, HistoryVerb},
    limits::{tell_not_excluded, tell_unseen},
    main_of,
    manners::{COUNTED, GROUPS, MannersArgs, SHAPES, TEXTS},
    name,
    output::Output,
    pairs::Destination,
    progress::Complaints,
    service::{FRONT, SERVICE, ServiceArgs, tell},
    threshold::Threshold,
    watched,
};
use crate::{
    align,
    commands::{
        Answers, Asked, PairsOptions, PassageOptions, QueryOptions, align_pairs, between,
        blot_text, default_window, query,
    },
    index::Index,
    report::Format,
    similar::Score,
    text::{stream::Form, token::Tokenization},
};
use anyhow::{Context, bail};
use clap::{Parser, Subcommand, builder::PossibleValuesParser};
use std::{
    io::{BufWriter, IsTerminal, Write, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Find what in an index shares text with a document
///
/// Prints the documents of an index that share text with each document that is given, the most similar first. Line breaks, case and punctuation make no difference. The
/// documents that are asked about need not be in the index, and are not added to it. With --history there is no index: documents are compared with all that came before them.
#[derive(Parser, Debug)]
#[command(name = "dedup-query", version, after_help = examples(&MANUAL), max_term_width = 110, arg_required_else_help = true, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// The directory of the index
    #[arg(value_name = "IDX", required_unless_present_any = ["generate", "pairs", "online"])]
    index: Option<PathBuf>,
    /// Align given pairs of files, one "a TAB b" a line (- for stdin), and show the passages that they share; no index is needed
    #[arg(long, value_name = "FILE", conflicts_with_all = ["index", "paths", "files_from", "records", "top", "score", "threshold", "stream", "exclude", "exclude_index", "ignore_df", "groups", "group_by", "blot", "scheme", "interleave", "bits", "select"])]
    pairs: Option<PathBuf>,
    /// Show the passages that a document shares with each one found: as excerpts on a terminal, in the records otherwise
    #[arg(long, conflicts_with_all = ["pairs", "stream", "blot"])]
    passages: bool,
    /// Offsets of passages count Unicode characters instead of bytes
    #[arg(long)]
    chars: bool,
    /// Write to a file, or for pan-xml into a directory: beside first, renamed when done
    #[arg(short, long, value_name = "PATH", requires = "pairs")]
    output: Option<PathBuf>,
    /// Make a page for a browser with the document and all that was found side by side; with --pairs PATH is a directory, with an overview in index.html and a page for each pair
    #[arg(long, value_name = "PATH", conflicts_with_all = ["output", "format", "chars", "stream", "blot"])]
    html: Option<PathBuf>,
    /// The best N documents for each that is asked about [default: 10, with --history 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
    /// What a document is judged by: containment, jaccard, s1, s2, s3, s4, rarity
    #[arg(long, value_name = "SCORE", default_value = "containment", value_parser = PossibleValuesParser::new(Score::NAMES.map(|(name, ..)| name)))]
    score: String,
    /// The least score that counts, such as 0.5 or 50%; a document has at least one blot in common
    #[arg(
        long,
        value_name = "X|P%",
        default_value = "0",
        allow_negative_numbers = true
    )]
    threshold: Threshold,
    /// ndjson or tsv, with --pairs ndjson or pan-xml [default: ndjson]
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(["ndjson", "tsv", "pan-xml"]))]
    format: Option<String>,
    /// One line of JSON for each document, in their order and as they come, also if nothing is found
    #[arg(long)]
    stream: bool,
    /// Text of FILE, such as a template, does not count; may be given several times
    #[arg(long, value_name = "FILE")]
    exclude: Vec<PathBuf>,
    /// Text that is in another index does not count; may be given several times
    #[arg(long, value_name = "IDX")]
    exclude_index: Vec<PathBuf>,
    /// Text that more than N documents have does not count
    #[arg(long, value_name = "N", visible_alias = "max-df")]
    ignore_df: Option<u64>,
    /// Show the documents that have this blot, and the text behind it
    #[arg(long, value_name = "HEX", conflicts_with_all = ["stream", "format"])]
    blot: Option<String>,
    /// Show every blot that two documents of the index share, by their ids, and the text behind it if the index has it (dedup-spex --with-text)
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with_all = ["stream", "format", "blot", "pairs", "passages", "html"])]
    between: Vec<String>,
    /// Where the documents of the index are, for --passages, --html and --blot: a directory, or NDJSON files; may be given several times
    #[arg(long, value_name = "PATH", conflicts_with_all = ["pairs", "stream"])]
    corpus: Vec<PathBuf>,
    #[command(flatten)]
    history: HistoryArgs,
    #[command(flatten)]
    service: ServiceArgs,
    #[command(flatten)]
    manners: MannersArgs,
    #[command(flatten)]
    blots: BlotArgs,
    #[command(flatten)]
    tokens: TokenArgs,
    #[command(flatten)]
    run: RunArgs,
    #[arg(long, value_name = "WHAT", hide = true)]
    generate: Option<What>,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Look after a history of prints; to ask it, use --history. An index of this name is given as ./history
    #[command(arg_required_else_help = true, disable_help_subcommand = true)]
    History {
        #[command(subcommand)]
        verb: HistoryVerb,
    },
}

const MANUAL: Manual = Manual {
    examples: &[
        (
            "dedup-query my.idx essay.txt",
            "What shares text with an essay",
        ),
        (
            "dedup-query my.idx essay.txt --passages",
            "What was copied into it, from where",
        ),
        (
            "dedup-query my.idx essay.txt --exclude template.txt --threshold 0.1",
            "Leaving out what the template gave",
        ),
        (
            "dedup-query my.idx essay.txt --passages --exclude-quotes --exclude-bibliography",
            "Not what is quoted, nor the references",
        ),
        (
            "zstdcat articles.jsonl.zst | dedup-query my.idx --stream",
            "An answer for each line, as they come",
        ),
        (
            "dedup-query my.idx --format tsv --top 3 scans/",
            "The best three of each, as a table",
        ),
        (
            "dedup-query my.idx --blot 2db9c479",
            "Who has this blot, and what text it is",
        ),
        (
            "dedup-query shared.idx --between essay.txt source.txt",
            "Every chunk that two documents share",
        ),
        (
            "printf 'essay.txt\\tsource.txt\\n' | dedup-query --pairs -",
            "Which passages of an essay are from a source",
        ),
        (
            "zstdcat articles.jsonl.zst | dedup-query --history seen --min-similarity 94%",
            "The best match of each among all that ever came",
        ),
        (
            "zstdcat articles.jsonl.zst | dedup-query --history seen --min-similarity 94% --only-new",
            "Only what is new passes, byte for byte",
        ),
        (
            "dedup-query history verify seen",
            "Whether a history is whole",
        ),
        (
            "dedup-query my.idx essay.txt --html essay.html",
            "An essay and its sources side by side, for a browser",
        ),
        (
            "dedup-query --pairs pairs.tsv --html report/",
            "Both texts of each pair side by side: open report/index.html in a browser",
        ),
        (
            "dedup-query --pairs pairs.tsv --format pan-xml -o detected/",
            "The same for many pairs, as XML for an evaluation",
        ),
    ],
    sections: &[
        (
            "RECORDS",
            &[
                "query, rank, doc (ids), shared (distinct blots that both have), a_in_b (shared ÷ blots of the document that is asked about), b_in_a (shared ÷ blots of the one that was found), score. Of equal scores the document that \
                 the index has longer comes first. Exact duplicates in the index are named one by one.",
                "With --passages also passages, a list as with --pairs, where the text of the document that was found can be read (see TEXTS). On a terminal, unless --format is given, excerpts instead: for each document found the \
                 share of the words of either that are in passages, and each passage with the lines that it is in.",
                "With --stream: doc, and matches, a list of doc, shared, a_in_b, b_in_a, score.",
                "With --blot: blot, doc, and, where the text can be read, bytes (where the text starts and ends) and text. With --between: blot, and text if the index has it.",
                "With --pairs, for each pair: a, b (paths), a_in_b, b_in_a (the share of the words of each that are in passages), and passages, a list of a, b (where the passage starts and ends, in bytes or with --chars in characters), \
                 tokens (words that both have), score (what they weigh ÷ what all words weigh, from 0 to 1), kind.",
                "On an index of selected blots all scores are estimates, shared, s1 and rarity scaled ones, and the records say so; see dedup-extract(1).",
                "An index of shared chunks (dedup-spex, or --select spex:FILE) holds only what at least two of its documents share: text that was copied from a single one is not found. A line on stderr says how much of its documents it holds. \
                 To ask about documents that are not in the collection build a full index with dedup-index build. Shares are of all distinct blots of both documents.",
            ],
        ),
        (
            "WHAT DOES NOT COUNT",
            &[
                "Text of --exclude files counts on neither side: not as shared, not in what the shares are of. Text that --exclude-index or --ignore-df take out is not counted as shared, nor as part of the document that is asked \
                 about; the documents of the index are still measured by all they have.",
                "--base is --exclude and more: it also takes directories, and words of base text are in no passage and no share, on either side. --exclude-quotes and --exclude-bibliography are about the document that is asked about, with --pairs the first \
                 of each pair: what is copied from a quotation in the source without marks still counts. Percentages are of what is left.",
                COUNTED,
                SHAPES,
                GROUPS,
            ],
        ),
        (
            "PASSAGES",
            &[
                "verbatim: word by word, 2·k words or more (k is 8, or -k), exact to the character; white space, case and punctuation aside. edited: most of it word by word. reworded: in other words, in another order, translated there and back; whole sentences. summary: few \
                 sentences of a that say what is in all of b.",
                "Case, punctuation and line breaks make no difference, and no language is preferred: what a word weighs follows from the two documents.",
                "Documents are compared as they were indexed, by the tokenizer of the index and without the HTML that it strips; --pairs takes --tokenizer and --strip-html. Offsets are those of the documents as they were read, markup included; pages and excerpts show the \
                 text without it. With another tokenizer than word, what is said of words holds for its tokens, k is that of the index (with --pairs 8, for dna 31, or -k), and passages are verbatim or edited: nothing is looked for in other words. A passage has \
                 2·k tokens or more; of line k lines, of char:N 64 or more. Of dna both strands are compared: a passage with reverse true is the reverse complement in b. Unknown bases are like no other.",
                "--format pan-xml writes a file for each pair, A-B.xml after the names of both files, with offsets in characters, as the PAN evaluations of plagiarism detection have it. Of pairs of one name the second is A-B~2.xml, and so on; id and source_id in them are the whole paths.",
            ],
        ),
        ("TEXTS", &[TEXTS]),
        (
            "REPORT",
            &[
                "--html FILE makes one page of the document that is asked about and all that was found; it must be one document. With --pairs, --html DIR writes DIR/index.html, an overview with a table that can be sorted, a histogram and a graph of the documents that hang together, and DIR/pair-000001.html and so on, one page for each pair in the order \
                 of the list: both texts side by side, a colour and a number for each passage, a click leads from one side to the other, what is not shared is folded. Press ? on a page for its keys and for how its \
                 numbers are counted.",
                "Pages need no network and no server; they can be mailed, printed and kept. Nothing in a document or in its name can run in them: text is only ever text, and control characters and reversals of direction are shown. Pages of an \
                 earlier run with more pairs stay where they are.",
            ],
        ),
        (
            "HISTORY",
            &[
                "--history keeps a print of 256 bits of each document that comes, and answers with the one before it that is most alike; of equals, the one that came first. The answer is exact: what a look at every print would give. Documents come as anywhere else, or as a \
                 stream of prints from dedup-blot --scheme minhash:256. Each sees all that came before it, in the same stream, too, whatever the number of threads. A document without words is like none, and is not kept.",
                "The similarity is the Jaccard coefficient of the bits of two prints. It follows the Jaccard coefficient of the sets of words, so order, repetition and layout make no difference; how closely is in dedup-stream(5). Documents that have \
                 nothing in common are still alike by 0.3 to 0.55. At 0.94 nine in ten texts are found of which one word in a hundred was changed, at 0.80 of which one in twenty was.",
                "A document is not its own match. An entry with the same id and the same print is the document itself: only entries that came before it count, so that it gets the answer that it got the first time, and it is not stored again. So a document may be sent again \
                 whenever it is not known whether it was answered. The same id with another print is another version: it is compared with the older ones as with any other document, and stored beside them; nothing is replaced. A line of NDJSON without an id is called FILE:LINE. Its other \
                 fields are its own business, also if they are called add, min_similarity or top: only a service takes orders from its clients by them. What is to be compared and not added goes to a run with --no-add.",
                "With --top N there is also matches, a list of the best N. --only-new writes no answers but the lines of documents that are like none before them; all are stored all the same. A line that is no document is told, and passed on.",
                "--only-new passes every new document at least once. A document is stored only after its line was written to stdout; so if the process is killed at any instant, if the reader goes away or its disk is full, run it again on the same input. Lines that were written and did not arrive, \
                 because the reader died as well, pass again, too, as each of them is the same document as before. Some lines may pass twice, those of documents that are not new never. To have a line once, let the reader drop ids that it has. \
                 With --upstream servers store documents before lines are written, and those of another server may count although they came later: there a run that was killed may lose documents that are like others of the same run.",
                "DIR holds journals, files of prints and a manifest. Whatever was answered is in the journal, so that a process that is killed loses nothing. If the machine dies, what came after the last sync is lost: at most what --sync-every says, and what comes while the disk is at it. A group of entries at the end of a journal that was not \
                 written to its end is dropped by the next writer, with a word on stderr; those who only read pass over it. A journal that lacks anything that was synced is an error that names file and byte. One process writes at a time; --no-add takes no lock, and sees what was there when it started. A history is of one tokenizer.",
                "dedup-query history verify DIR checks every checksum, and that order, counts, addresses, ids and sequence numbers of all files say the same; dedup-query history stats DIR shows what there is. Both only read, take no lock, and may run beside a writer.",
                "--max-entries and --max-age forget as documents come; files shrink as they are merged, or when less than half of one is left. --remove and --remove-from remove all entries that have an id.",
            ],
        ),
        ("SERVICE", SERVICE),
        ("SEVERAL SERVERS", FRONT),
        (
            "EXIT STATUS",
            &[
                "0: something was found. 1: nothing was found. 2: an error, or some input could not be used. With --listen, --only-new, --remove and --remove-from 0 says that it was done; an id that is not there is an input that could not be used.",
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

impl Tool for Arguments {
    const MANUAL: Manual = MANUAL;

    fn generate(&self) -> Option<What> {
        self.generate
    }

    fn run(&self) -> Result<ExitCode, anyhow::Error> {
        if let Some(Verb::History { verb }) = &self.verb {
            verb.run()?;
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(list) = &self.pairs {
            return self.align(list);
        }
        if self.history.history.is_some() || !self.service.upstream.is_empty() {
            return self.ask_history();
        }
        if self.format.as_deref() == Some("pan-xml") {
            bail!("pan-xml is for --pairs; a query gives ndjson or tsv");
        }
        let shows = self.shows_passages();
        self.manners.ensure_passages(shows)?;
        for (flag, is_given, needs) in [
            ("--chars", self.chars, shows),
            (
                "--corpus",
                !self.corpus.is_empty(),
                shows || self.blot.is_some(),
            ),
        ] {
            if is_given && !needs {
                bail!("{flag} has no meaning here; it is for passages");
            }
        }
        let path = self.index.as_deref().context("say which index")?;
        if path.is_file() {
            let name = path.display();
            bail!(
                "{name}: a document, not an index; the index comes first: dedup-query IDX {name}, where dedup-index build -o IDX PATH makes IDX"
            );
        }
        let index = Index::open_whole(path)?;
        let mut out = BufWriter::with_capacity(1 << 16, Output::open(self.html.as_deref(), false)?);
        if let Some(hex) = &self.blot {
            let blot = index.scheme.parse_blot(hex).map_err(anyhow::Error::msg)?;
            let (blots, reading) = (
                self.blots.options(&self.tokens),
                self.run.input.options(index.scheme.tokens.is_dna()),
            );
            let mut complaints = Complaints::new(name::<Self>(), self.run.quiet);
            let found = blot_text(
                &index,
                &blots,
                blot,
                (&self.corpus, &reading),
                &mut out,
                &mut complaints,
            )?;
            out.flush()?;
            return Ok(self.exit_code(&found));
        }
        if let [a, b] = &self.between[..] {
            let is_found = between(&index, [a, b], &mut out)?;
            out.flush()?;
            return Ok(ExitCode::from(u8::from(!is_found)));
        }
        if !self.run.quiet {
            self.tell_limits(&index)?;
        }
        let is_dna = index.scheme.tokens.is_dna();
        let settings = self.run.settings(Form::Ndjson, 64 << 20, is_dna);
        let mut options = self.options()?;
        let asked = watched::<Self, _>(&self.run, true, |watch| {
            let apply = |options: PassageOptions| {
                self.manners
                    .apply(options.of_index(&index)?, false, &settings, watch)
            };
            options.passages = options.passages.take().map(apply).transpose()?;
            Ok(query(&options, &index, &settings, &mut out, watch)?)
        })?;
        out.into_inner()
            .map_err(|error| error.into_error())?
            .commit()?;
        Ok(self.exit_code(&asked))
    }
}

impl Arguments {
    fn tell_limits(&self, index: &Index) -> Result<(), anyhow::Error> {
        tell_unseen(&name::<Self>(), index)?;
        if !self.exclude.is_empty()
            || !self.exclude_index.is_empty()
            || !self.manners.base.is_empty()
        {
            tell_not_excluded(&name::<Self>(), index);
        }
        Ok(())
    }

    fn exit_code(&self, asked: &Asked) -> ExitCode {
        let has_problems = asked.problems > 0 && !self.run.input.skip_bad;
        ExitCode::from(if has_problems {
            2
        } else {
            u8::from(asked.matches == 0)
        })
    }

    /// Asks a history, lets pass what is new in it, removes from it, or serves it.
    fn ask_history(&self) -> Result<ExitCode, anyhow::Error> {
        if let Some(directory) = self
            .history
            .history
            .as_deref()
            .filter(|_| self.history.removes())
        {
            let (_, unknown) = watched::<Self, _>(&self.run, false, |watch| {
                self.history.remove(directory, watch)
            })?;
            return Ok(super::exit_code(unknown, self.run.input.skip_bad));
        }
        // What would be the index is the first document.
        let mut run = self.run.clone();
        run.input.paths = self
            .index
            .iter()
            .chain(&self.run.input.paths)
            .cloned()
            .collect();
        let settings = run.settings(Form::Ndjson, 64 << 20, self.tokens.is_dna());
        let (top, tokenizer) = (self.top.unwrap_or(1) as usize, self.tokens.tokenizer());
        let asked = self.history.asked(
            &self.service,
            top,
            settings.limits.threads,
            tokenizer.as_ref(),
        )?;
        if let Some(address) = &self.service.listen {
            self.service.serve(
                address,
                asked,
                (settings.corpus, settings.limits.threads),
                (&name::<Self>(), self.run.quiet),
            )?;
            return Ok(ExitCode::SUCCESS);
        }
        let (mut out, tell) = (
            BufWriter::with_capacity(1 << 16, Output::open(None, false)?),
            tell(&name::<Self>(), self.run.quiet),
        );
        let asked = watched::<Self, _>(&run, true, |watch| {
            Ok(self
                .history
                .ask(asked, tokenizer, &settings, &mut out, (watch, tell))?)
        })?;
        if self.history.only_new {
            Ok(super::exit_code(asked.problems, self.run.input.skip_bad))
        } else {
            Ok(self.exit_code(&asked))
        }
    }

    /// Shows the passages of given pairs.
    fn align(&self, list: &Path) -> Result<ExitCode, anyhow::Error> {
        let is_xml = match self.format.as_deref() {
            Some("pan-xml") => true,
            None | Some("ndjson") => false,
            Some(format) => bail!("--pairs gives ndjson or pan-xml, not {format}"),
        };
        // The list is what is read, line by line.
        let mut run = self.run.clone();
        run.input.paths = vec![list.to_owned()];
        let settings = run.settings(Form::Ndjson, 256 << 20, false);
        let mut passages = PassageOptions {
            in_chars: self.chars || is_xml,
            ..self.passage_options()
        };
        passages.passages.tokenization = self
            .tokens
            .tokenizer()
            .map_or_else(Tokenization::default, |tokenizer| tokenizer.tokenization());
        passages.passages.window_tokens = self
            .blots
            .k
            .unwrap_or_else(|| default_window(passages.passages.tokenization.rule));
        let asked = watched::<Self, _>(&run, true, |watch| {
            let passages = self.manners.apply(passages, false, &settings, watch)?;
            let mut out = match (&self.html, &self.output, is_xml) {
                (Some(directory), ..) => {
                    Destination::pages(directory, list, &passages.notes("the first text"))?
                }
                (None, Some(directory), true) => Destination::files(directory)?,
                (None, None, true) => {
                    bail!("pan-xml is a file for each pair; say where with -o DIR")
                }
                (None, output, false) => Destination::lines(output.as_deref())?,
            };
            let options = PairsOptions {
                list: list.to_owned(),
                passages,
                with_pages: self.html.is_some(),
            };
            let asked = align_pairs(
                &options,
                settings.limits,
                |aligned| out.write(&aligned),
                watch,
            )?;
            out.commit()?;
            Ok(asked)
        })?;
        Ok(self.exit_code(&asked))
    }

    fn options(&self) -> Result<QueryOptions, anyhow::Error> {
        let answers = match (self.stream, self.format.as_deref()) {
            (true, None | Some("ndjson")) => Answers::Documents,
            (true, Some(_)) => {
                bail!("--stream answers with a line of JSON for each document; leave out --format")
            }
            (false, None) if self.html.is_some() => Answers::Page,
            (false, Some("tsv")) if self.passages => bail!("--passages gives ndjson, not tsv"),
            (false, Some("tsv")) => Answers::Matches(Format::Tsv),
            (false, None) if self.passages && stdout().is_terminal() => Answers::Excerpts {
                with_color: wants_color(),
            },
            (false, _) => Answers::Matches(Format::Ndjson),
        };
        let passages = self.shows_passages().then(|| self.passage_options());
        let score = Score::NAMES
            .iter()
            .find(|row| row.0 == self.score)
            .map_or(Score::Containment, |row| row.1);
        Ok(QueryOptions {
            blots: self.blots.options(&self.tokens),
            score,
            threshold: self.threshold.of_score(score)?,
            top: self.top.unwrap_or(10) as usize,
            max_df: self.ignore_df,
            exclude: self.exclude.clone(),
            exclude_indexes: self.exclude_index.clone(),
            base: self.manners.base.clone(),
            groups: self.manners.grouping(),
            answers,
            passages,
        })
    }

    fn shows_passages(&self) -> bool {
        self.passages || self.html.is_some()
    }

    fn passage_options(&self) -> PassageOptions {
        let window_tokens = self.blots.k.unwrap_or(align::WINDOW_TOKENS);
        PassageOptions {
            passages: align::AlignOptions {
                window_tokens,
                ..align::AlignOptions::default()
            },
            in_chars: self.chars,
            reading: self.run.input.options(false),
            corpus: self.corpus.clone(),
            ..PassageOptions::default()
        }
    }
}

/// <https://no-color.org>
fn wants_color() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

pub fn main() -> ExitCode {
    main_of::<Arguments>()
}
