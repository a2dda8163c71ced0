//! Documents or tokens to blots.

use super::{
    Settings, Stage, Summary, Watch, run_to_stream,
    tokenize::{ToTokens, token_scheme},
};
use crate::{
    blot::{Blotter, Window},
    corpus::{Content, Item, Source},
    error::{Error, Place, Result},
    format::{Batch, BlotCodec, Blots, Form, Header, Kind, Record, Tokens},
    scheme::BlotScheme,
    select::Selection,
    token::{Rule, Tokenizer},
};
use std::io::Write;

/// What is None is taken from the stream that comes in, or is the default.
#[derive(Debug, Clone, Default)]
pub struct BlotOptions {
    pub tokenizer: Option<Tokenizer>,
    pub scheme: Option<String>,
    pub k: Option<u32>,
    pub interleave: Option<u32>,
    pub bits: Option<u8>,
    pub select: Option<String>,
}

/// Windows of words, and of bases.
const DEFAULT_K: u32 = 8;
const DEFAULT_K_DNA: u32 = 31;
const DEFAULT_BITS: u8 = 32;

/// Writes a blot record for each document. Blot streams pass through, which turns one form into the other.
pub fn blot(options: &BlotOptions, with_positions: bool, settings: &Settings, out: impl Write, watch: &mut dyn Watch) -> Result<Summary> {
    let (source, blots) = open(options, settings)?;
    let header = Header::new(Kind::Blots, blots.scheme.to_string());
    let codec = BlotCodec { bits: blots.scheme.bits, with_positions };
    run_to_stream(&Encode { blots, codec, form: settings.form }, source, &header, settings, out, watch)
}

/// Opens a corpus, and finds out what blots to make of it.
pub(super) fn open(options: &BlotOptions, settings: &Settings) -> Result<(Source, ToBlots)> {
    let mut source = Source::new(settings.corpus.clone(), settings.limits.threads)?;
    let first = source.first_header().cloned();
    let mut blots = ToBlots::new(options, first.as_ref())?;
    if let Some(header) = first.filter(|header| header.kind == Kind::Blots) {
        blots.scheme = scheme_of_stream(options, &blots.scheme, &header)?;
    }
    let expected = [(Kind::Tokens, blots.scheme.tokens.to_string()), (Kind::Blots, blots.scheme.to_string())];
    source.expect(expected.map(|(kind, scheme)| Header::new(kind, scheme)).to_vec());
    Ok((source, blots))
}

/// A blot stream comes in: its scheme counts, unless options ask for another one.
fn scheme_of_stream(options: &BlotOptions, asked: &BlotScheme, header: &Header) -> Result<BlotScheme> {
    let place = Place::file("input");
    let found: BlotScheme = header.scheme.parse().map_err(|what: String| Error::damaged(place.clone(), what))?;
    let mut expected = asked.clone();
    if options.tokenizer.is_none() {
        expected.tokens = found.tokens.clone();
    }
    if options.scheme.is_none() && options.k.is_none() && options.interleave.is_none() {
        expected.window.clone_from(&found.window);
    }
    if options.bits.is_none() {
        expected.bits = found.bits;
    }
    if options.select.is_none() {
        expected.select.clone_from(&found.select);
    }
    if expected == found {
        return Ok(found);
    }
    let remedy = "blots cannot be made into others: start from the documents";
    Err(Error::Scheme { place, found: header.scheme.clone(), expected: expected.to_string(), remedy })
}

/// Makes blots of whatever a document comes as.
#[derive(Clone)]
pub(super) struct ToBlots {
    pub scheme: BlotScheme,
    tokenize: ToTokens,
    blotter: Blotter,
    selection: Selection,
    tokens: Tokens,
    blots: Blots,
}

impl ToBlots {
    fn new(options: &BlotOptions, first: Option<&Header>) -> Result<Self> {
        let tokens = token_scheme(options.tokenizer.as_ref(), first)?;
        let is_dna = Tokenizer::of_scheme(&tokens).is_some_and(|tokenizer| tokenizer.rule() == Rule::Dna);
        let window = Window {
            scheme: options.scheme.clone().unwrap_or_else(|| "ordered".to_owned()),
            k: options.k.unwrap_or(if is_dna { DEFAULT_K_DNA } else { DEFAULT_K }),
            interleave: options.interleave.unwrap_or(1),
            bits: options.bits.unwrap_or(DEFAULT_BITS),
            is_dna,
        };
        // Phrases are tokenised as the documents are; by words if those came from a program we do not know.
        let tokenizer = Tokenizer::of_scheme(&tokens).unwrap_or_else(|| Tokenizer::new(Rule::Word, false));
        let selection = Selection::parse(options.select.as_deref().unwrap_or("all"), &tokenizer).map_err(Error::Usage)?;
        let tokenize = ToTokens::new(&tokens);
        let scheme = BlotScheme { tokens, window: window.name(), bits: window.bits, select: selection.name() };
        let blotter = Blotter::new(window).map_err(Error::Usage)?;
        Ok(Self { scheme, tokenize, blotter, selection, tokens: Tokens::default(), blots: Blots::default() })
    }

    /// The blots of a document, and the hash over its tokens.
    pub fn blots<'s>(&'s mut self, item: &'s Item<'_>) -> Result<(&'s Blots, Option<u128>), String> {
        let tokens = match item.content {
            Content::Blots(blots) => {
                BlotCodec { bits: self.scheme.bits, with_positions: false }.ensure_width(blots)?;
                return Ok((blots, item.hash));
            }
            Content::Tokens(tokens) => tokens,
            Content::Text(text) => {
                self.tokenize.tokenize(text, &mut self.tokens)?;
                &self.tokens
            }
        };
        self.blotter.blot(tokens, &mut self.blots);
        self.selection.apply(tokens, &mut self.blots);
        Ok((&self.blots, Some(item.hash.unwrap_or_else(|| tokens.hash()))))
    }
}

#[derive(Clone)]
struct Encode {
    blots: ToBlots,
    codec: BlotCodec,
    form: Form,
}

impl Stage for Encode {
    type Out = Batch;

    fn take(&mut self, item: &Item<'_>, out: &mut Batch) -> Result<(), String> {
        let (blots, hash) = self.blots.blots(item)?;
        let record = Record { doc: item.id, bytes: item.bytes, hash };
        match self.form {
            Form::Ndjson => self.codec.write_ndjson(&mut out.bytes, &record, blots),
            Form::Binary => self.codec.write_binary(&mut out.bytes, &record, blots),
        }
        out.finish_record();
        Ok(())
    }
}
