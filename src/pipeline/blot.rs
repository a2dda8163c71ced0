//! Documents or tokens to blots.

use super::{
    Settings, Stage, Summary, Watch, run,
    tokenize::{ToTokens, token_scheme},
};
use crate::{
    blot::{Blotter, Window},
    corpus::{Content, Item, Source},
    error::{Error, Place, Result},
    format::{BlotCodec, Blots, Form, Header, Kind, Record, Tokens},
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
    pub with_positions: bool,
}

/// Windows of words, and of bases.
const DEFAULT_K: u32 = 8;
const DEFAULT_K_DNA: u32 = 31;
const DEFAULT_BITS: u8 = 32;

/// Writes a blot record for each document. Blot streams pass through, which turns one form into the other.
pub fn blot(options: &BlotOptions, settings: &Settings, out: impl Write, watch: &mut dyn Watch) -> Result<Summary> {
    let mut source = Source::new(settings.corpus.clone(), settings.limits.threads)?;
    let first = source.first_header().cloned();
    let stage = Blot::new(options, first.as_ref(), settings.form)?;
    let header = match first.filter(|header| header.kind == Kind::Blots) {
        Some(header) => stage.ensure_compatible(options, header)?,
        None => Header::new(Kind::Blots, stage.scheme().to_string()),
    };
    source.expect(vec![Header::new(Kind::Tokens, stage.scheme().tokens.to_string()), header.clone()]);
    let bits = header.scheme.parse::<BlotScheme>().map_or(DEFAULT_BITS, |scheme| scheme.bits);
    let stage = Blot { codec: BlotCodec { bits, ..stage.codec }, ..stage };
    run(&stage, source, &header, settings, out, watch)
}

#[derive(Clone)]
struct Blot {
    tokenize: ToTokens,
    blotter: Blotter,
    selection: Selection,
    tokens: Tokens,
    blots: Blots,
    codec: BlotCodec,
    form: Form,
    scheme: BlotScheme,
}

impl Blot {
    fn new(options: &BlotOptions, first: Option<&Header>, form: Form) -> Result<Self> {
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
        Ok(Self {
            codec: BlotCodec { bits: window.bits, with_positions: options.with_positions },
            blotter: Blotter::new(window).map_err(Error::Usage)?,
            tokens: Tokens::default(),
            blots: Blots::default(),
            tokenize,
            selection,
            form,
            scheme,
        })
    }

    fn scheme(&self) -> &BlotScheme {
        &self.scheme
    }

    /// A blot stream comes in: its scheme counts, unless options ask for another one.
    fn ensure_compatible(&self, options: &BlotOptions, header: Header) -> Result<Header> {
        let place = Place::file("input");
        let found: BlotScheme = header.scheme.parse().map_err(|what: String| Error::damaged(place.clone(), what))?;
        let mut expected = self.scheme.clone();
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
            return Ok(header);
        }
        let remedy = "blots cannot be made into others: start from the documents";
        Err(Error::Scheme { place, found: header.scheme, expected: expected.to_string(), remedy })
    }
}

impl Stage for Blot {
    fn encode(&mut self, item: &Item<'_>, out: &mut Vec<u8>) -> Result<(), String> {
        let mut hash = item.hash;
        let blots = match item.content {
            Content::Text(text) => {
                self.tokenize.tokenize(text, &mut self.tokens)?;
                hash = Some(self.tokens.hash());
                self.blotter.blot(&self.tokens, &mut self.blots);
                self.selection.apply(&self.tokens, &mut self.blots);
                &self.blots
            }
            Content::Tokens(tokens) => {
                hash = hash.or_else(|| Some(tokens.hash()));
                self.blotter.blot(tokens, &mut self.blots);
                self.selection.apply(tokens, &mut self.blots);
                &self.blots
            }
            Content::Blots(blots) => {
                self.codec.ensure_width(blots)?;
                blots
            }
        };
        let record = Record { doc: item.id, bytes: item.bytes, hash };
        match self.form {
            Form::Ndjson => self.codec.write_ndjson(out, &record, blots),
            Form::Binary => self.codec.write_binary(out, &record, blots),
        }
        Ok(())
    }
}
