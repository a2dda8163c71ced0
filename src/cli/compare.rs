//! Which pairs dedup-extract compares by alignment, and what it tells of them.

use super::threshold::parse_share;
use crate::{
    commands::{CompareMethod, CompareOptions, ExtractOptions, PairSlice, WantedPairs},
    report::Format,
    similar::{GdicOptions, StopWordRule, compare::WORTH_A_LOOK},
};
use anyhow::bail;
use clap::{Args, builder::PossibleValuesParser};

#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Comparison")]
pub struct CompareArgs {
    /// How pairs are found: blots, those that share text; gdic, those that have words in common, by the dictionary of the index; exhaustive, all pairs; blots,gdic, those that either finds [default: blots]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = PossibleValuesParser::new(CompareMethod::NAMES.map(|(name, _)| name)))]
    method: Vec<String>,
    /// Compare the pairs that are found by alignment: tell the similar areas of each, and how similar they are
    #[arg(long)]
    areas: bool,
    /// Write the pairs that would be compared, and by which method each was found
    #[arg(long, conflicts_with = "areas")]
    candidates: bool,
    /// The least similarity that is told: 100 is twenty words in a row, 500 a hundred [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    min_similarity: Option<u32>,
    /// Stop words are those of more than this share of the documents; 0.995 or more in the paper [default: 0.995]
    #[arg(long, value_name = "X", value_parser = parse_share)]
    p_stop: Option<f64>,
    /// What --p-stop is a share of: documents, or the vocabulary, of which then this share, the words of the most documents, are stop words [default: documents]
    #[arg(long, value_name = "WHAT", value_parser = PossibleValuesParser::new(StopWordRule::NAMES.map(|(name, _)| name)))]
    p_stop_of: Option<String>,
    /// A word that both documents have N times or more, ... [1 to 5 in the paper; default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    n_match: Option<u32>,
    /// ... and N times or more together, makes a pair [5 to 15 in the paper; default: 7]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    s_match: Option<u32>,
    /// So does this share of the words of the document that has fewer, if the other has them, too [0.2 to 0.5 in the paper, 0.02 in its experiments; default: 0.02]
    #[arg(long, value_name = "X", value_parser = parse_share)]
    p_common: Option<f64>,
    /// Only the I-th of N equal parts of the pairs; all parts one after the other are the whole
    #[arg(long, value_name = "I/N", value_parser = PairSlice::parse)]
    slice: Option<PairSlice>,
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
    "--method exhaustive compares all pairs of documents, token by token, and so does --areas with the pairs that share blots (without --score and --threshold, those that share one). The tokens of both are aligned: one that both have counts 5, about its letters; one that was \
     replaced, left out or put in costs 10. An area is a local alignment: a stretch of either document, found where three tokens in a row are the same, as long as its score stays above 0 and within 100 of the best it had. \
     Its score is the best it had, and there it ends. The similarity of a pair is the score of its best area, the absolute similarity of Park et al.: 100 is twenty words in a row, or what amounts to it; 500 a hundred. Above 100 a person should look, above 500 text was copied.",
    "Of the plagiarism cases of PAN 2013, all 1,000 that were copied word by word reach 100 and 27 % reach 500, of 1,000 pairs without plagiarism none reaches 100, and of 20,000 pairs at random 0.1 %. Text in other words is not for alignment: 7 % of what was reworded at random reaches 100, 23 % of what was \
     translated, 5 % of summaries; see --passages.",
    "Three tokens that stand more than 64 times in one of the documents begin no area, and an area ends where it has passed 256 more tokens of one document than of the other: so no text takes long. Areas that overlap a better one in both documents are not told, nor \
     more than 1000. Exact duplicates are one area, 5 × their tokens, without being compared.",
    "Records: a, b, similarity, areas, a list of a, b (bytes, where the area starts and ends), tokens (that both have), score; the best first. In TSV areas is their number. Pairs come by a, then b, in the order of their ids; those of exact duplicates stand with the first of them. With --candidates: a, b, \
     by (blots, gdic, exhaustive, several with commas; exact for exact duplicates). --max-df, --score and --threshold say which pairs share enough blots; --new, --groups and the like which are wanted.",
    "--slice I/N compares the I-th of N equal parts of the pairs, in their order. The parts one after the other are the whole, byte for byte (the names of columns in TSV are in the first), whether they were made by one host or by many, today or tomorrow.",
    "The documents are read again, as for --as passages. Beside what it takes to find the pairs there are some 120 bytes a document in memory, and temporary files of 15 bytes a token and two a pair that was found, in the directory that TMPDIR names.",
];

impl CompareArgs {
    /// Whether pairs are compared, or would be.
    pub fn is_asked(&self) -> bool {
        self.areas
            || self.candidates
            || self
                .methods()
                .iter()
                .any(|method| *method != CompareMethod::Blots)
    }

    pub fn only_candidates(&self) -> bool {
        self.candidates
    }

    /// In the order of their names, each once.
    pub fn methods(&self) -> Vec<CompareMethod> {
        let asked = CompareMethod::NAMES
            .iter()
            .filter(|(name, _)| self.method.iter().any(|asked| asked == name));
        let methods: Vec<_> = asked.map(|&(_, method)| method).collect();
        if methods.is_empty() {
            vec![CompareMethod::Blots]
        } else {
            methods
        }
    }

    /// The options but for where the documents are.
    pub fn options(
        &self,
        blots: ExtractOptions,
        format: Format,
        which: WantedPairs,
    ) -> CompareOptions {
        CompareOptions {
            methods: self.methods(),
            blots,
            gdic: self.gdic(),
            only_candidates: self.candidates,
            min_similarity: self.min_similarity.unwrap_or(WORTH_A_LOOK),
            slice: self.slice.unwrap_or(PairSlice::WHOLE),
            format,
            by_id: None,
            wanted: which,
        }
    }

    fn gdic(&self) -> GdicOptions {
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

    /// What is about a comparison needs one.
    pub fn ensure_asked(&self) -> Result<(), anyhow::Error> {
        let methods = self.methods();
        if methods.contains(&CompareMethod::Exhaustive) && methods.len() > 1 {
            bail!("exhaustive compares all pairs; leave out the other methods");
        }
        for (flag, is_given) in [
            ("--p-stop", self.p_stop.is_some()),
            ("--p-stop-of", self.p_stop_of.is_some()),
            ("--n-match", self.n_match.is_some()),
            ("--s-match", self.s_match.is_some()),
            ("--p-common", self.p_common.is_some()),
        ] {
            if is_given && !methods.contains(&CompareMethod::Gdic) {
                bail!("{flag} is about words in common; add --method gdic");
            }
        }
        if self.p_common == Some(0.0) {
            bail!("--p-common 0 would take all pairs; for that there is --method exhaustive");
        }
        for (flag, is_given) in [
            ("--min-similarity", self.min_similarity.is_some()),
            ("--slice", self.slice.is_some()),
        ] {
            if is_given && !self.is_asked() {
                bail!(
                    "{flag} is about pairs that are compared; add --areas or --method exhaustive"
                );
            }
        }
        if self.candidates && self.min_similarity.is_some() {
            bail!("--candidates are not compared; leave out --min-similarity");
        }
        Ok(())
    }

    /// What was asked for, as it is named in messages.
    pub fn name(&self) -> String {
        match () {
            () if self.candidates => "--candidates".to_owned(),
            () if self.areas => "--areas".to_owned(),
            () => format!("--method {}", self.method.join(",")),
        }
    }
}
