//! dedup-extract compare: pairs compared by alignment, token by token.

use super::{
    super::{
        args::MORE,
        exit_code,
        output::Packed,
        progress::{Complaints, counting_bar},
        source::{Reading, SourceArgs},
        threshold::parse_share,
    },
    PROGRAM,
    records::RecordOutputArgs,
    scoring::{CompareWhichArgs, ScoreArgs},
    texts::read_again,
};
use crate::{
    commands::{
        CompareMethod, CompareOptions, Extract, ExtractOptions, Observer, PairSlice, compare,
    },
    similar::{GdicOptions, Score, StopWordRule, compare::WORTH_A_LOOK},
};
use anyhow::bail;
use clap::{Args, builder::PossibleValuesParser};
use std::{path::PathBuf, process::ExitCode};

#[derive(Args, Debug)]
pub struct CompareArgs {
    /// Which pairs: blots, gdic, blots,gdic, exhaustive [default: blots]
    ///
    /// blots: those that share text; gdic: those that have words in common, by the dictionary of
    /// the index; exhaustive: all pairs; blots,gdic: those that either finds.
    #[arg(long, value_name = "LIST", hide_possible_values = true, value_delimiter = ',', value_parser = PossibleValuesParser::new(CompareMethod::NAMES.map(|(name, _)| name)))]
    method: Vec<String>,
    /// The least similarity to report: 5 for each word in a row [default: 100]
    ///
    /// 100 is twenty words in a row, 500 a hundred.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    min_similarity: Option<u32>,
    /// Write the pairs that would be compared, and by which method each was found
    #[arg(long, conflicts_with_all = ["min_similarity", "corpus"])]
    candidates: bool,
    /// Only the I-th of N equal parts of the pairs
    ///
    /// All parts one after the other are the whole.
    #[arg(long, value_name = "I/N", value_parser = PairSlice::parse)]
    slice: Option<PairSlice>,
    /// Where the documents of the index are: a directory, or files (repeatable)
    #[arg(long, value_name = "PATH")]
    corpus: Vec<PathBuf>,
    #[command(flatten)]
    output: RecordOutputArgs,
    #[command(flatten)]
    words: WordArgs,
    #[command(flatten)]
    scores: ScoreArgs,
    /// Ignore blots of more than N documents
    #[arg(long, value_name = "N", help_heading = MORE)]
    max_df: Option<u64>,
    #[command(flatten)]
    which: CompareWhichArgs,
    #[command(flatten)]
    source: SourceArgs,
}

/// When two documents have enough words in common for --method gdic.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = MORE)]
struct WordArgs {
    /// gdic: words of more than this share of documents are stop words [default: 0.995]
    #[arg(long, value_name = "X", value_parser = parse_share)]
    p_stop: Option<f64>,
    /// gdic: --p-stop is of documents or of the vocabulary [default: documents]
    ///
    /// Of the vocabulary this share, the words of the most documents, are stop words.
    #[arg(long, value_name = "WHAT", hide_possible_values = true, value_parser = PossibleValuesParser::new(StopWordRule::NAMES.map(|(name, _)| name)))]
    p_stop_of: Option<String>,
    /// gdic: a word that both have N times makes a pair [default: 2]
    ///
    /// If it also stands --s-match times in both together. 1 to 5 in the paper.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    n_match: Option<u32>,
    /// gdic: ... if it is there N times in both together [default: 7]
    ///
    /// 5 to 15 in the paper.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    s_match: Option<u32>,
    /// gdic: so does this share of the words of the smaller one [default: 0.02]
    ///
    /// 0.2 to 0.5 in the paper, 0.02 in its experiments.
    #[arg(long, value_name = "X", value_parser = parse_share)]
    p_common: Option<f64>,
}

/// As in the experiments of the paper.
const PUBLISHED: GdicOptions = GdicOptions {
    p_stop: 0.995,
    stop_of: StopWordRule::Documents,
    n_match: 2,
    s_match: 7,
    p_common: 0.02,
};

/// The filter, for the manual.
pub const DICTIONARY: &[&str] = &[
    "--method gdic finds pairs by their words, as Park et al. do, and compares those. The index must have a dictionary: dedup-index build --dictionary. Stop words do not count: by default those of more than --p-stop of all documents. The formula of the paper is about documents, what it \
     says about the formula is about the vocabulary; --p-stop-of vocabulary takes it at its word: this share of all distinct words, those of the most documents, are stop words, where words of equally many documents go together.",
    "A pair is found if both documents have a word, no stop word, --n-match times or more, and --s-match times or more together; or if the words that both have, no stop words, are at least --p-common of the distinct words of the document that has fewer. Documents without words are in no pair.",
    "The defaults are those of the paper's experiments. They leave out hardly a pair of texts of one kind and language. A lower --p-stop, and the upper ends of the other ranges do, at some cost: --p-stop 0.05 --n-match 5 --s-match 15 --p-common 0.2 leave 0.6 % of the pairs of a plagiarism corpus, and 98 % of those with a similarity above 500. Text that was copied is found faster and more surely by blots; words also find what was put into another \
     order throughout. --method blots,gdic compares what either finds. The work grows with the square of the number of documents.",
];

/// The definition, for the manual.
pub const COMPARISON: &[&str] = &[
    "compare aligns the tokens of the documents of pairs: by default of those that share blots (without --score and --threshold, at least one), with --method exhaustive of all pairs. The tokens of both are aligned: one that both have counts 5, about its letters; one that was \
     replaced, left out or put in costs 10. An area is a local alignment: a stretch of either document, found where three tokens in a row are the same, as long as its score stays above 0 and within 100 of the best it had. \
     Its score is the best it had, and there it ends. The similarity of a pair is the score of its best area, the absolute similarity of Park et al.: 100 is twenty words in a row, or what amounts to it; 500 a hundred. Above 100 a person should look, above 500 text was copied.",
    "Of the plagiarism cases of PAN 2013, all 1,000 that were copied word by word reach 100 and 27 % reach 500, of 1,000 pairs without plagiarism none reaches 100, and of 20,000 pairs at random 0.1 %. Text in other words is not for alignment: 7 % of what was reworded at random reaches 100, 23 % of what was \
     translated, 5 % of summaries; see pairs --passages.",
    "Three tokens that stand more than 64 times in one of the documents begin no area, and an area ends where it has passed 256 more tokens of one document than of the other: so no text takes long. Areas that overlap a better one in both documents are not told, nor \
     more than 1000. Exact duplicates are one area, 5 × their tokens, without being compared.",
    "Records: a, b, similarity, areas, a list of a, b (bytes, where the area starts and ends), tokens (that both have), score; the best first. In TSV areas is their number. Pairs come by a, then b, in the order of their ids; those of exact duplicates stand with the first of them. With --candidates: a, b, \
     by (blots, gdic, exhaustive, several with commas; exact for exact duplicates). --max-df, --score and --threshold say which pairs share enough blots; --new, --groups and the like which are wanted.",
    "--slice I/N compares the I-th of N equal parts of the pairs, in their order. The parts one after the other are the whole, byte for byte (the names of columns in TSV are in the first), whether they were made by one host or by many, today or tomorrow.",
    "The documents are read again, as for passages. Beside what it takes to find the pairs there are some 120 bytes a document in memory, and temporary files of 15 bytes a token and two a pair that was found, in the directory that TMPDIR names.",
];

impl CompareArgs {
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let methods = self.methods();
        self.ensure_methods_fit(&methods)?;
        let reading = if self.candidates {
            Reading::Never
        } else {
            Reading::Again
        };
        let needs_words = methods.contains(&CompareMethod::Gdic);
        let source = self.source.open(PROGRAM, reading, needs_words)?;
        let (settings, by_id) = read_again(&self.source, &source, &self.corpus);
        let options = CompareOptions {
            methods,
            blots: self.blot_options()?,
            gdic: self.words.options(),
            only_candidates: self.candidates,
            min_similarity: self.min_similarity.unwrap_or(WORTH_A_LOOK),
            slice: self.slice.unwrap_or(PairSlice::WHOLE),
            format: self.output.format(),
            by_id,
            wanted: self.which.pairs(),
        };
        let mut out = Packed::open(self.output.file.output.as_deref())?;
        let bar = counting_bar(self.source.common.quiet, "pairs");
        let mut done = |done, all| {
            bar.set_length(all);
            bar.set_position(done);
        };
        let run = self.source.run(settings.corpus.paths.clone());
        let work = |watch: &mut dyn Observer| {
            compare(
                &source.index,
                &options,
                &settings,
                &mut out,
                watch,
                &mut done,
            )
        };
        let problems = Complaints::watch(PROGRAM.to_owned(), &run, work);
        bar.finish_and_clear();
        let problems = problems? + source.problems;
        out.commit()?;
        Ok(exit_code(problems, self.source.read.skip_bad))
    }

    /// In the order of their names, each once.
    fn methods(&self) -> Vec<CompareMethod> {
        let named = CompareMethod::NAMES
            .iter()
            .filter(|(name, _)| self.method.iter().any(|method| method == name));
        let methods: Vec<_> = named.map(|&(_, method)| method).collect();
        if methods.is_empty() {
            vec![CompareMethod::Blots]
        } else {
            methods
        }
    }

    /// Which pairs share enough blots: one, unless something else is said.
    fn blot_options(&self) -> Result<ExtractOptions, anyhow::Error> {
        let (score, threshold) = if self.scores.is_given() {
            self.scores.score_and_threshold()?
        } else {
            (Score::S1, 1.0)
        };
        Ok(ExtractOptions {
            what: Extract::Pairs(self.output.format()),
            score,
            threshold,
            max_df: self.max_df,
            limits: self.source.limits(),
        })
    }

    /// Flags of one method have no meaning with another.
    fn ensure_methods_fit(&self, methods: &[CompareMethod]) -> Result<(), anyhow::Error> {
        if methods.contains(&CompareMethod::Exhaustive) && methods.len() > 1 {
            bail!("exhaustive compares all pairs; leave out the other methods");
        }
        if !methods.contains(&CompareMethod::Gdic) && self.words.is_given() {
            bail!(
                "--p-stop, --p-stop-of, --n-match, --s-match and --p-common are about words in common; add --method gdic"
            );
        }
        if !methods.contains(&CompareMethod::Blots)
            && (self.scores.is_given() || self.max_df.is_some())
        {
            bail!("--score, --threshold and --max-df are about blots; add --method blots");
        }
        if self.words.p_common == Some(0.0) {
            bail!("--p-common 0 would take all pairs; for that there is --method exhaustive");
        }
        Ok(())
    }
}

impl WordArgs {
    fn is_given(&self) -> bool {
        self.p_stop.is_some()
            || self.p_stop_of.is_some()
            || self.n_match.is_some()
            || self.s_match.is_some()
            || self.p_common.is_some()
    }

    fn options(&self) -> GdicOptions {
        let stop_of = StopWordRule::NAMES
            .iter()
            .find(|(name, _)| Some(*name) == self.p_stop_of.as_deref());
        GdicOptions {
            p_stop: self.p_stop.unwrap_or(PUBLISHED.p_stop),
            stop_of: stop_of.map_or(PUBLISHED.stop_of, |&(_, stop_of)| stop_of),
            n_match: self.n_match.unwrap_or(PUBLISHED.n_match),
            s_match: self.s_match.unwrap_or(PUBLISHED.s_match),
            p_common: self.p_common.unwrap_or(PUBLISHED.p_common),
        }
    }
}
