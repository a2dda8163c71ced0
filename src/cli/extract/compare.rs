//! dedup-extract compare: pairs compared by alignment, token by token.

use super::{
    super::{
        args::MORE,
        exit_code,
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
        CompareMethod, CompareOptions, Cutoff, Extract, ExtractOptions, Observer, PairSlice, TEXT,
        compare,
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
    /// Add how likely unrelated texts are to be as similar
    ///
    /// It takes a sample of all pairs, a second or two for any collection. See COMPARISON.
    #[arg(long, conflicts_with = "candidates")]
    p_values: bool,
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
    /// Of the vocabulary: the words of the most documents, up to this share of all words.
    #[arg(long, value_name = "WHAT", hide_possible_values = true, value_parser = PossibleValuesParser::new(StopWordRule::NAMES.map(|(name, _)| name)))]
    p_stop_of: Option<String>,
    /// gdic: both documents of a pair have a word N times [default: 2]
    ///
    /// And both together have it --s-match times. 1 to 5 in the paper.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    n_match: Option<u32>,
    /// gdic: ... and both together have it N times [default: 7]
    ///
    /// 5 to 15 in the paper.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    s_match: Option<u32>,
    /// gdic: or share this part of the words of the smaller [default: 0.02]
    ///
    /// 0.2 to 0.5 in the paper, 0.02 in its experiments.
    #[arg(long, value_name = "X", value_parser = parse_share)]
    p_common: Option<f64>,
}

/// The values of the experiments in the paper.
const PUBLISHED: GdicOptions = GdicOptions {
    p_stop: 0.995,
    stop_of: StopWordRule::Documents,
    n_match: 2,
    s_match: 7,
    p_common: 0.02,
};

/// The filter, for the manual.
pub const DICTIONARY: &[&str] = &[
    "--method gdic finds pairs by the words that they have in common, as Park et al. do, and compares those pairs. The index must have a dictionary: dedup-index build --dictionary. Stop words do not count. By default these are the words that more than the share --p-stop of all documents contain. This is the formula of the paper; its text describes a share of the \
     vocabulary instead. With --p-stop-of vocabulary, that share of all distinct words, those of the most documents, are stop words; words that occur in the same number of documents are treated alike.",
    "A pair is found in two cases: if each document contains some word at least --n-match times, and both together at least --s-match times; or if the words that they have in common are at least the share --p-common of the distinct words of the document that has fewer. Stop words do not count in either case. Documents without words are in no pair.",
    "The defaults are those of the experiments in the paper. With them, hardly any pair of texts of the same kind and language is excluded. A lower --p-stop and the upper ends of the other ranges exclude more, and miss some copies: --p-stop 0.05 --n-match 5 --s-match 15 --p-common 0.2 leaves 0.6 % of the pairs of a plagiarism corpus, and 98 % of those with a similarity above 500. Blots find copied text faster and more reliably; words also find text whose order has \
     changed throughout. --method blots,gdic compares the pairs that either method finds. The work grows with the square of the number of documents.",
];

/// The definition, for the manual.
pub const COMPARISON: &[&str] = &[
    "compare aligns the tokens of two documents. By default it compares the pairs that share blots (at least one, unless --score or --threshold is given), with --method exhaustive all pairs. A token that both documents have scores 5, about the length of a word; a token that was replaced, removed or inserted costs 10. \
     An area is a local alignment: a span of each document. It starts where three consecutive tokens are the same, continues as long as its score stays above 0 and within 100 of its maximum, and ends at that maximum, which is its score. The similarity of a pair is the score of its best area, the absolute similarity of Park et al.: 100 corresponds to twenty consecutive words, 500 to a hundred. \
     Look at pairs above 100; above 500, text was copied.",
    "Of the plagiarism cases of PAN 2013, all 1,000 that were copied word for word reach 100, and 27 % reach 500; of 1,000 pairs without plagiarism none reaches 100, and of 20,000 random pairs 0.1 % do. Alignment does not find reworded text: 7 % of the randomly reworded texts reach 100, 23 % of the \
     translated ones, 5 % of the summaries. Use pairs --passages for these.",
    "With --p-values each record has p_value: the probability that two unrelated texts of the same lengths and of the same collection have this similarity or more. It comes from an extreme value distribution, 1 − exp(−K·(n·m)^γ·e^(−λ·x)) for texts of n and m tokens and the similarity x, whose three numbers are fitted to up to 16,384 pairs that are spread over the collection. A few copies among these pairs make no difference; if most texts have a template in \
     common, p-values are too large, never too small. Of unrelated pairs a share p has a p-value of at most p. A p-value is about one pair: among a million unrelated pairs expect ten below 0.00001. The collection must have at least 100 pairs of texts.",
    "Three tokens that occur more than 64 times in one of the documents start no area, and an area ends where it has passed 256 more tokens of one document than of the other; so no text takes long. Areas that overlap a better one in both documents are not listed, nor \
     more than 1000 areas. Exact duplicates are not aligned: they have one area with a score of 5 × their tokens.",
    "Records: a, b, similarity, p_value with --p-values, and areas, a list of a, b (bytes, where the area starts and ends), tokens (that both have), score; the best first. In TSV, areas is the number of areas. Pairs are ordered by a, then b; pairs of exact duplicates follow the pair of the first of them. With --candidates: a, b, \
     by (blots, gdic, exhaustive, several with commas; exact for exact duplicates). --max-df, --score and --threshold select the pairs that share enough blots; --new, --groups and similar flags select the documents to compare.",
    "--slice I/N compares the I-th of N equal parts of the pairs, in their order. The outputs of all parts, one after the other, are the output of a single run, byte for byte (in TSV, the first part has the names of the columns), whichever hosts made them.",
    "The documents are read again, as for passages. In addition to the memory for finding pairs this takes about 120 bytes for each document, and temporary files of 15 bytes for each token and two for each pair found, in the directory that TMPDIR names.",
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
            with_p_values: self.p_values,
            min_similarity: self.min_similarity.unwrap_or(WORTH_A_LOOK),
            slice: self.slice.unwrap_or(PairSlice::WHOLE),
            format: self.output.format(),
            by_id,
            wanted: self.which.pairs(),
        };
        let mut out = self.output.open()?;
        let bar = counting_bar(self.source.common.quiet, "comparing", "pairs");
        let mut done = |done, all| {
            bar.set_total(all);
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
        bar.finish();
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
        let one_blot = Cutoff {
            score: Score::S1,
            threshold: 1.0,
        };
        let Cutoff { score, threshold } = if self.scores.is_given() {
            self.scores.cutoff(TEXT.pairs)?
        } else {
            one_blot
        };
        Ok(ExtractOptions {
            what: Extract::Pairs(self.output.format()),
            score,
            threshold,
            common: self.max_df.into(),
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
