//! Options for passages, and the passages that two documents share.

use crate::base::num::ToUsize;
use crate::{
    align::{
        self, Passage, PassageCoverage, PreparedText, align, exclusions::ExclusionRules,
        to_char_offsets, to_document_offsets,
    },
    base::{
        error::{Error, Place, Problem, Result},
        setting::Setting,
    },
    blot,
    index::Index,
    report::records::{PairPassages, PassageRecord},
    text::{
        corpus,
        stream::Span,
        token::{Rule, Tokenization},
    },
};
use std::path::{Path, PathBuf};

/// How passages are found and reported.
#[derive(Debug, Clone, Default)]
pub struct PassageOptions {
    /// How texts are aligned.
    pub passages: align::AlignOptions,
    /// Spans count Unicode characters instead of bytes.
    pub in_chars: bool,
    /// How files are read: the fields of NDJSON, what to do about text that is not UTF-8.
    pub reading: corpus::Options,
    /// Where the documents of an index are: directories below which their ids are paths, and files with a document a line.
    pub corpus: Vec<PathBuf>,
    /// What does not count in the document that is examined.
    pub rules: ExclusionRules,
    /// What does not count in the documents that it is compared with.
    pub source_rules: ExclusionRules,
    /// Passages of fewer words in common do not count.
    pub min_match_words: u32,
    /// Also say how each passage begins, for tables.
    pub with_excerpts: bool,
}

/// What two documents share.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedText {
    /// The share of its words that are in passages.
    pub a_in_b: f64,
    pub b_in_a: f64,
    pub passages: Vec<Passage>,
    /// How the words of each are counted.
    pub tallies: [PassageCoverage; 2],
    /// How each passage begins in both, if that is asked for.
    pub excerpts: Vec<[String; 2]>,
}

impl PassageOptions {
    /// These options with the tokenizer of an index and, unless its tokens are words, with its windows.
    pub fn of_index(mut self, index: &Index) -> Result<Self> {
        let scheme = &index.scheme.tokens;
        let foreign = || {
            let what = format!(
                "its tokens are of scheme '{scheme}', which this program cannot make; passages need them"
            );
            Error::Usage(format!("{}: {what}", index.directory.display()))
        };
        self.passages.tokenization = scheme.tokenization().ok_or_else(foreign)?;
        if !self.passages.tokenization.rule.is_words()
            && let Some((_, window_tokens)) = blot::verbatim(&index.scheme.windows)
        {
            self.passages.window_tokens = window_tokens;
        }
        self.reading.prefer_fasta |= self.passages.tokenization.rule == Rule::Dna;
        Ok(self)
    }

    /// These options with p-values. They are calibrated on words, so other tokens have none.
    pub fn with_p_values(mut self) -> Result<Self> {
        let rule = self.passages.tokenization.rule;
        if !rule.is_words() {
            return Err(Error::Usage(format!(
                "passages of the tokenizer {} have no p-values, only passages of words; leave out {}",
                rule.name(),
                Setting::PValues
            )));
        }
        self.passages.with_p_values = true;
        Ok(self)
    }

    /// The passages of two documents as a record.
    pub fn pair_passages(&self, shared: &SharedText) -> PairPassages {
        let [a_words, b_words] = shared
            .tallies
            .each_ref()
            .map(|tally| self.leaves_out().then(|| tally.into()));
        let mut passages: Vec<_> = shared.passages.iter().map(PassageRecord::from).collect();
        for (passage, excerpts) in passages.iter_mut().zip(&shared.excerpts) {
            passage.excerpts.clone_from(excerpts);
        }
        PairPassages {
            a_words,
            b_words,
            passages,
        }
    }

    /// Whether some text may not count; then records say how words were counted.
    pub fn leaves_out(&self) -> bool {
        self.min_match_words > 0 || !self.rules.is_empty() || !self.source_rules.is_empty()
    }

    /// Sentences for a page on what does not count; `judged` is how the page calls the document that is examined.
    pub fn notes(&self, judged: &'static str) -> Vec<String> {
        let of = |is_given: bool, is_of_both: bool| match (is_given, is_of_both) {
            (false, _) => None,
            (true, true) => Some("either text"),
            (true, false) => Some(judged),
        };
        let mut notes = Vec::new();
        if let Some(of) = of(self.rules.quotes, self.source_rules.quotes) {
            notes.push(format!("Words of {of} that stand in quotation marks, or in lines that begin with “>”, do not count. A quotation has five words or more."));
        }
        if let Some(of) = of(self.rules.bibliography, self.source_rules.bibliography) {
            notes.push(format!("The list of references of {of} does not count. It is recognised by its heading and by its shape."));
        }
        if !self.rules.base.is_empty() {
            notes.push("Text that was handed out to all, such as a template, does not count in either text.".to_owned());
        }
        if !notes.is_empty() {
            notes.push(
                "What does not count is in no passage and in no share: shares are of the words that are left. It is shown in grey."
                    .to_owned(),
            );
        }
        let Tokenization { rule, strips_html } = self.passages.tokenization;
        if strips_html {
            notes.push(
                "Texts are shown and counted as a reader sees them: tags, comments, scripts and styles of HTML are left out.".to_owned(),
            );
        }
        if !rule.is_words() {
            notes.push(format!("Texts are compared by the tokenizer {}: the words that are counted here are its tokens.", rule.name()));
        }
        if self.min_match_words > 0 {
            notes.push(format!(
                "Passages of fewer than {} words in common are left out.",
                self.min_match_words
            ));
        }
        notes
    }

    /// The passages of two documents, with spans in the original documents, in bytes or characters.
    pub fn shared(&self, a: &PreparedText, b: &PreparedText) -> SharedText {
        let mut shared = self.shared_text(a, b);
        self.place(&mut shared.passages, a, b);
        shared
    }

    /// Converts byte spans of texts to spans of the original documents, in the unit of the options.
    pub fn place(&self, passages: &mut [Passage], a: &PreparedText, b: &PreparedText) {
        to_document_offsets(passages, a, b);
        if self.in_chars {
            to_char_offsets(passages, a.plain().document(), b.plain().document());
        }
    }

    /// The passages of two documents, with byte spans of their texts ([`PreparedText::text`]), as pages need them.
    pub fn shared_text(&self, a: &PreparedText, b: &PreparedText) -> SharedText {
        let mut passages = align(a, b, &self.passages);
        passages.retain(|passage| passage.tokens >= self.min_match_words);
        let tallies = [
            a.coverage(passages.iter().map(|passage| passage.a)),
            b.coverage(passages.iter().map(|passage| passage.b)),
        ];
        let excerpt = |passage: &Passage| [excerpt(a, passage.a), excerpt(b, passage.b)];
        SharedText {
            excerpts: if self.with_excerpts {
                passages.iter().map(excerpt).collect()
            } else {
                Vec::new()
            },
            a_in_b: tallies[0].share(),
            b_in_a: tallies[1].share(),
            passages,
            tallies,
        }
    }

    /// Reads a file, and marks what does not count by these rules.
    pub fn prepared(&self, path: &str, rules: &ExclusionRules) -> Result<PreparedText, Problem> {
        // Spans of a tokenizer that strips HTML refer to the markup.
        let reading = corpus::Options {
            keep_markup: self.reading.keep_markup || self.passages.tokenization.strips_html,
            ..self.reading.clone()
        };
        let text = corpus::read_text(Path::new(path), &reading);
        let mut text = text.map_err(|error| Problem::new(Place::file(path), error.to_string()))?;
        if self.passages.tokenization.rule == Rule::Dna {
            text = without_heads(text);
        }
        Ok(PreparedText::with_exclusions(text, &self.passages, rules))
    }
}

/// An excerpt has at most this many characters.
const EXCERPT_CHARS: usize = 300;

/// How a passage begins, on one line.
fn excerpt(document: &PreparedText, bytes: Span) -> String {
    let range = bytes.start.to_usize()..bytes.end.to_usize();
    let text = document.text().get(range).unwrap_or_default();
    // No more of it than is needed: white space may be long.
    let words = text.split_whitespace().take(EXCERPT_CHARS + 1);
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(EXCERPT_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Overwrites each header of FASTA with unknown bases, so that no passage crosses from one sequence to the next and every offset stays.
fn without_heads(mut fasta: String) -> String {
    if !fasta.starts_with('>') {
        return fasta;
    }
    let mut bytes = std::mem::take(&mut fasta).into_bytes();
    for line in bytes
        .split_mut(|&byte| byte == b'\n')
        .filter(|line| line.first() == Some(&b'>'))
    {
        line.iter_mut()
            .filter(|byte| byte.is_ascii())
            .for_each(|byte| *byte = b' ');
        line[0] = b'n';
    }
    // Only ASCII was replaced, by ASCII.
    String::from_utf8(bytes).unwrap_or_default()
}
