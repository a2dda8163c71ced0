//! How the documents of a collection become tokens, and tokens chunks.

use super::SpexOptions;
use crate::{
    base::{
        error::{Error, Result},
        setting::Setting,
    },
    blot::select::{SelectContext, Selection},
    commands::{Settings, blot::DEFAULT_BITS, tokenize::token_scheme},
    text::{
        corpus::{Content, InputDocument, Source},
        scheme::{BlotScheme, SchemeTerm, SelectScheme, TokenScheme},
        stream::{Header, StreamKind, Tokens},
        token::{Rule, SchemeTokenizer, Tokenizer},
    },
};

/// The scheme of the chunks, and which of them are kept if they are shared.
pub struct ChunkScheme {
    pub scheme: BlotScheme,
    pub selection: Selection,
    /// The number of tokens of a chunk.
    pub length: u32,
}

impl ChunkScheme {
    /// The chunks that the options ask for, of these tokens.
    pub fn new(options: &SpexOptions, tokens: TokenScheme) -> Result<Self> {
        let length = check_lengths(&options.lengths)?;
        let bits = options.bits.unwrap_or(DEFAULT_BITS);
        let windows = format!("ordered:{length}");
        let selection = parse_select(&options.select, &format!("{tokens} {windows}"), bits)?;
        let scheme = BlotScheme {
            tokens,
            windows: windows.into(),
            bits,
            select: selection.scheme(),
        };
        Ok(Self {
            scheme,
            selection,
            length,
        })
    }
}

impl ChunkScheme {
    /// Whether only some of the shared chunks are kept.
    pub fn is_sample(&self) -> bool {
        self.scheme
            .select
            .0
            .iter()
            .any(|term| !term.is_plain("spex"))
    }
}

/// Opens the input, whose tokens are those that the options ask for, or those of an index.
pub fn open(
    options: &SpexOptions,
    settings: &Settings,
    of_index: Option<&TokenScheme>,
) -> Result<(Source, TokenScheme)> {
    let mut source = Source::new(settings.corpus.clone(), settings.limits.threads)?;
    let asked = options.tokenizer.as_ref().map(Tokenizer::scheme);
    let tokens = match of_index {
        Some(tokens) if asked.as_ref().is_none_or(|asked| asked == tokens) => tokens.clone(),
        Some(tokens) => {
            return Err(Error::Usage(format!(
                "the index has tokens of '{tokens}', not those that are asked for"
            )));
        }
        None => token_scheme(options.tokenizer.as_ref(), source.first_header())?,
    };
    if tokens.is_dna() {
        return Err(Error::Usage(
            "chunks of both strands are not found this way; use dedup-index".to_owned(),
        ));
    }
    if tokens.is_of_several() {
        return Err(Error::Usage(format!(
            "shared chunks are of the tokens of one tokenizer, not of '{tokens}'; name one of them, or use dedup-index"
        )));
    }
    source.expect(vec![Header::new(StreamKind::Tokens, tokens.to_string())]);
    Ok((source, tokens))
}

/// The tokens of a document, in a buffer if it is a text.
pub fn tokens_of<'t>(
    item: &InputDocument<'t>,
    tokenize: &mut SchemeTokenizer,
    buffer: &'t mut Tokens,
) -> Result<&'t Tokens, String> {
    match item.content {
        Content::Text(text) => {
            tokenize.tokenize(text, buffer)?;
            Ok(buffer)
        }
        Content::Tokens(tokens) => Ok(tokens),
        Content::Blots(_) => Err("blots, where documents or tokens are expected".to_owned()),
        Content::Print(_) => Err("a print, where documents or tokens are expected".to_owned()),
    }
}

/// The number of tokens of a document, as an index counts it.
pub fn token_count(tokens: &Tokens) -> Result<u32, String> {
    Ok(u32::try_from(tokens.len()).map_err(|_| "a document of more than 4 G tokens; split it")?)
}

/// The number of chunks of a text.
pub fn chunks_of(tokens: u32, length: u32) -> u64 {
    if tokens == 0 {
        return 0;
    }
    u64::from((tokens + 1).saturating_sub(length).max(1))
}

/// Checks the lengths, and returns that of the chunks to find.
pub fn check_lengths(lengths: &[u32]) -> Result<u32> {
    match lengths {
        [.., last] if lengths[0] > 0 && lengths.is_sorted_by(|one, two| one < two) => Ok(*last),
        _ => Err(Error::Usage(
            "the lengths of a schedule must rise, from 1 or more to that of the chunks".to_owned(),
        )),
    }
}

/// Parses a selection. Only selections that decide chunk by chunk can be combined with spex.
fn parse_select(select: &SelectScheme, scheme: &str, bits: u8) -> Result<Selection> {
    let is_known =
        |term: &SchemeTerm| term.is_plain("spex") || term.name == "mod" && term.argument.is_some();
    if let Some(term) = select.0.iter().find(|term| !is_known(term)) {
        return Err(Error::Usage(format!(
            "{}: here there are spex and mod:N; for others write a filter with {} and build with {}",
            Setting::Select.to(term),
            Setting::FilterOut.to("FILE"),
            Setting::Select.to("spex:FILE,…")
        )));
    }
    let tokenizer = Tokenizer::new(Rule::Word, false);
    Selection::parse(
        &SelectScheme([&select.0[..], &["spex".into()]].concat()),
        SelectContext {
            tokenizer: &tokenizer,
            scheme,
            bits,
        },
    )
    .map_err(Error::Usage)
}
