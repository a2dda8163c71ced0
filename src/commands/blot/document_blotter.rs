//! Makes the blots of documents.

use super::{
    options::BlotOptions,
    scheme_blotter::{SchemeBlotter, SchemeBlotters},
};
use crate::base::ids::Blot;
use crate::base::num::{ToU64, ToUsize};
use crate::base::setting::Setting;
use crate::{
    base::{
        codec::clear_buffer,
        error::{Error, Place, Result},
    },
    blot as schemes,
    blot::{
        Blotter, WindowShape,
        select::{is_scheme_shared_only, select_without_spex, without_spex},
    },
    index::{Index, Manifest},
    text::{
        corpus::{Content, InputDocument, Source},
        scheme::{BlotScheme, TokenScheme},
        stream::{BlotCodec, Blots, Header, Span, StreamKind, Tokens},
        token::{SchemeTokenizer, Tokenizer, squeeze},
    },
};
use std::{ops::Range, path::Path};

/// Makes blots of documents, which come as texts, tokens or blots.
#[derive(Clone)]
pub(crate) struct DocumentBlotter {
    pub scheme: BlotScheme,
    tokenize: SchemeTokenizer,
    can_blot: bool,
    /// Blots of single documents are left out, so each document says how many distinct ones it has in all.
    counts_distinct: bool,
    /// One for each scheme.
    blotters: Vec<SchemeBlotter>,
    tokens: Tokens,
    /// Those of all schemes, where there are several.
    blots: Blots,
    /// All blots of the document, where some are left out.
    all: Vec<u64>,
    /// The tokens of a document are given back once its blots are made.
    drops_tokens: bool,
}

/// What was made of a document.
pub(crate) struct DocumentParts<'s> {
    /// Its tokens, with their places in the text.
    pub tokens: &'s Tokens,
    pub blots: &'s Blots,
    /// The hash over its tokens.
    pub hash: Option<u128>,
    /// The XXH3 of each token, if making the blots has left them; else nothing.
    pub token_hashes: &'s [u64],
}

/// The windows of a document.
pub(crate) struct DocumentWindows<'s> {
    /// The hash over its tokens.
    pub hash: Option<u128>,
    blots: &'s Blots,
    /// The bytes of each token.
    spans: &'s [Span],
    /// The number of tokens of a window.
    tokens: usize,
}

impl<'s> DocumentWindows<'s> {
    /// The blot and the first token of each window.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u32)> + use<'s> {
        let Blots {
            values, positions, ..
        } = self.blots;
        values.iter().copied().zip(positions.iter().copied())
    }

    /// The bytes from the first token of a window to the last one of another, or the same.
    pub fn span(&self, first: u32, last: u32) -> Span {
        let end = (last.to_usize() + self.tokens - 1).min(self.spans.len() - 1);
        Span {
            start: self.spans[first.to_usize()].start,
            end: self.spans[end].end,
        }
    }

    /// Whether windows that start at neighbouring tokens have tokens in common.
    pub fn overlap(&self) -> bool {
        self.tokens > 1
    }
}

impl DocumentBlotter {
    /// As an index has it.
    pub fn as_index(options: &BlotOptions, manifest: &Manifest, directory: &Path) -> Result<Self> {
        let place = Place::path(directory);
        Self::as_stream(
            options,
            &Header::new(StreamKind::Blots, manifest.scheme.clone()),
            &place,
        )
    }

    /// For documents that are compared with an index but not added to it: blots that a filter of shared chunks would reject are made, too.
    /// They are not found, and no filter is needed.
    pub fn for_comparison(options: &BlotOptions, index: &Index) -> Result<Self> {
        let place = Place::path(&index.directory);
        let whole = without_spex(&index.scheme);
        let mut options = options.clone();
        options.select = options.select.as_ref().map(select_without_spex);
        let mut blots = Self::as_stream(
            &options,
            &Header::new(StreamKind::Blots, whole.to_string()),
            &place,
        )?;
        blots.counts_distinct = is_scheme_shared_only(&index.scheme);
        blots.scheme = index.scheme.clone();
        Ok(blots)
    }

    /// Streams of another scheme will be refused.
    pub fn expect_in(&self, source: &mut Source) {
        let expected = [
            (StreamKind::Tokens, self.scheme.tokens.to_string()),
            (StreamKind::Blots, self.scheme.to_string()),
        ];
        source.expect(
            expected
                .map(|(kind, scheme)| Header::new(kind, scheme))
                .to_vec(),
        );
    }

    /// As a stream of blots has it, which comes first: documents that follow must give the same kind of blots.
    pub(super) fn as_stream(options: &BlotOptions, header: &Header, place: &Place) -> Result<Self> {
        let found: BlotScheme = header
            .scheme
            .parse()
            .map_err(|what: String| Error::damaged(place.clone(), what))?;
        let tokens = options
            .tokenizer
            .as_ref()
            .map_or_else(|| found.tokens.clone(), Tokenizer::scheme);
        // Windows that name one of several tokenizers are of no use to others.
        let completed = if tokens == found.tokens || !found.tokens.is_of_several() {
            options.completed_by(&found)
        } else {
            options.clone()
        };
        match Self::new(&completed, tokens.clone()) {
            Ok(blots) if blots.scheme == found => Ok(blots),
            // Blots that this program cannot make, such as those of phrases in a file it was not given, can still pass.
            Err(_) if options.is_empty() => {
                let mut blots = Self::new(&BlotOptions::default(), tokens)?;
                blots.tokenize = SchemeTokenizer::refusing(format!(
                    "this program cannot make blots of scheme '{found}' without its options"
                ));
                blots.can_blot = false;
                blots.counts_distinct = is_scheme_shared_only(&found);
                blots.scheme = found;
                Ok(blots)
            }
            Err(error) => Err(error),
            Ok(blots) => {
                let remedy = "blots cannot be made into others: start from the documents";
                Err(Error::Scheme {
                    place: place.clone(),
                    found: header.scheme.clone(),
                    expected: blots.scheme.to_string(),
                    remedy,
                })
            }
        }
    }

    pub(super) fn new(options: &BlotOptions, tokens: TokenScheme) -> Result<Self> {
        let SchemeBlotters {
            blotters,
            windows,
            bits,
            select,
        } = SchemeBlotters::new(options, &tokens)?;
        let tokenize = SchemeTokenizer::new(&tokens);
        let scheme = BlotScheme {
            tokens,
            windows,
            bits,
            select,
        };
        let counts_distinct = is_scheme_shared_only(&scheme);
        let (tokens, blots, all) = (Tokens::default(), Blots::default(), Vec::new());
        Ok(Self {
            scheme,
            tokenize,
            can_blot: true,
            counts_distinct,
            blotters,
            tokens,
            blots,
            all,
            drops_tokens: false,
        })
    }

    /// Only the blots of a document are wanted. Its tokens are given back once they are made, and positions that only count the windows
    /// are left out, see [`Blots::is_counted`]: of a large document that is half of the memory.
    pub fn only_blots(self) -> Self {
        let mut blots = Self {
            drops_tokens: true,
            ..self
        };
        if let [maker] = &mut blots.blotters[..]
            && maker.selection.is_all()
        {
            maker.blotter.without_positions();
        }
        blots
    }

    /// Releases large buffers.
    pub fn release_buffers(&mut self) {
        self.tokens.clear();
        self.blots.clear();
        clear_buffer(&mut self.all);
        self.tokenize.release_buffers();
        for maker in &mut self.blotters {
            maker.blots.clear();
            maker.blotter.release_buffers();
        }
    }

    /// Where a blot comes from in a document, and the text there, without the markup that is stripped.
    pub fn text_of(&mut self, text: &str, blot: Blot) -> Option<(Range<usize>, String)> {
        let mut tokens = Tokens::new(true);
        self.tokenize.tokenize(text, &mut tokens).ok()?;
        self.blotters.iter_mut().find_map(|maker| {
            let tokens = tokens.list(maker.list)?;
            let spans = tokens.spans()?;
            let (first, last) = maker.window_of(tokens, blot.get())?;
            let bytes = spans.get(first)?.start as usize..spans.get(last)?.end as usize;
            Some((
                bytes.clone(),
                shown_text(&self.scheme.tokens, text.get(bytes)?),
            ))
        })
    }

    /// So that windows can be asked for.
    pub fn with_spans(mut self) -> Self {
        self.tokens = Tokens::new(true);
        self
    }

    /// The windows of a document. Of several schemes, those of the one that finds verbatim text.
    pub fn windows<'s>(
        &'s mut self,
        item: &'s InputDocument<'_>,
    ) -> Result<DocumentWindows<'s>, String> {
        let (_, tokens) =
            schemes::verbatim(&self.scheme.windows).ok_or_else(|| self.no_windows())?;
        let parts = self.parts(item)?;
        Ok(DocumentWindows {
            hash: parts.hash,
            blots: parts.blots,
            spans: parts.tokens.spans().unwrap_or_default(),
            tokens: tokens.to_usize(),
        })
    }

    fn no_windows(&self) -> String {
        format!(
            "no windows of a length in '{}'; build with {}",
            self.scheme.windows,
            Setting::Scheme.to("ordered")
        )
    }

    /// The parts of a document. Of several schemes, the blots are as in `windows`.
    pub fn parts<'s>(
        &'s mut self,
        item: &'s InputDocument<'_>,
    ) -> Result<DocumentParts<'s>, String> {
        let (at, _) = schemes::verbatim(&self.scheme.windows).ok_or_else(|| self.no_windows())?;
        let hash = self.blots(item)?.1;
        let tokens = self.placed(item)?;
        let SchemeBlotter { blotter, blots, .. } = &self.blotters[at];
        Ok(DocumentParts {
            tokens,
            blots,
            hash,
            token_hashes: blotter.token_hashes(),
        })
    }

    /// A document's tokens, which have their places in the text, the blots of the first scheme of letters or other units, what made them,
    /// and the hash over its tokens.
    pub fn unit_parts<'s>(
        &'s mut self,
        item: &'s InputDocument<'_>,
    ) -> Result<(&'s Tokens, &'s Blots, &'s Blotter, Option<u128>), String> {
        // Places are those of the first tokenizer.
        let is_units = |maker: &SchemeBlotter| {
            maker.list == 0 && matches!(maker.blotter.shape(), WindowShape::Units { .. })
        };
        let at = self.blotters.iter().position(is_units);
        let at = at.ok_or_else(|| self.no_windows())?;
        let hash = self.blots(item)?.1;
        let tokens = self.placed(item)?;
        let SchemeBlotter { blotter, blots, .. } = &self.blotters[at];
        Ok((tokens, blots, blotter, hash))
    }

    /// A document's tokens, which have their places in the text, and the hash over them. No blots are made.
    pub fn located<'s>(
        &'s mut self,
        item: &'s InputDocument<'_>,
    ) -> Result<(&'s Tokens, Option<u128>), String> {
        if let Content::Text(text) = item.content {
            self.tokenize.tokenize(text, &mut self.tokens)?;
        }
        let tokens = self.placed(item)?;
        Ok((tokens, Some(item.hash.unwrap_or_else(|| tokens.hash()))))
    }

    /// The same of the document that was worked on last.
    fn placed<'s>(&'s self, item: &'s InputDocument<'_>) -> Result<&'s Tokens, String> {
        let tokens = self
            .tokens_of(item)
            .filter(|tokens| tokens.spans().unwrap_or_default().len() == tokens.len());
        Ok(tokens.ok_or(
            "it came without the places of its tokens in the text; start from the documents",
        )?)
    }

    /// The tokens of the document that was worked on last; none if it came as blots.
    pub fn tokens_of<'s>(&'s self, item: &'s InputDocument<'_>) -> Option<&'s Tokens> {
        match item.content {
            Content::Text(_) => Some(&self.tokens),
            Content::Tokens(tokens) => Some(tokens),
            Content::Blots(_) | Content::Print(_) => None,
        }
    }

    /// The distinct blots of a document in rising order, and how many it has in all. The buffer is exchanged for that of its blots.
    pub fn distinct(
        &mut self,
        item: &InputDocument<'_>,
        out: &mut Vec<u64>,
    ) -> Result<u64, String> {
        let all = self.blots(item)?.0.distinct;
        match (&item.content, &mut self.blotters[..]) {
            (Content::Text(_) | Content::Tokens(_), [maker]) => {
                std::mem::swap(out, &mut maker.blots.values)
            }
            (Content::Text(_) | Content::Tokens(_), _) => {
                std::mem::swap(out, &mut self.blots.values)
            }
            (Content::Blots(Blots { values, .. }), _) => {
                clear_buffer(out);
                out.extend_from_slice(values);
            }
            (Content::Print(_), _) => {}
        }
        self.blotters
            .iter_mut()
            .for_each(|maker| maker.blots.clear());
        out.sort_unstable();
        out.dedup();
        Ok(all.unwrap_or(0).max(out.len().to_u64()))
    }

    /// The blots of a document, and the hash over its tokens.
    pub fn blots<'s>(
        &'s mut self,
        item: &'s InputDocument<'_>,
    ) -> Result<(&'s Blots, Option<u128>), String> {
        let tokens = match item.content {
            Content::Blots(blots) => {
                BlotCodec {
                    bits: self.scheme.bits,
                    with_positions: false,
                }
                .ensure_width(blots)?;
                self.ensure_distinct(blots)?;
                return Ok((blots, item.hash));
            }
            Content::Tokens(tokens) if self.can_blot => tokens,
            Content::Tokens(_) => {
                return Err(format!(
                    "this program cannot make blots of scheme '{}' without its options",
                    self.scheme
                ));
            }
            Content::Text(text) => {
                self.tokenize.tokenize(text, &mut self.tokens)?;
                &self.tokens
            }
            Content::Print(_) => {
                return Err("a print, where documents, tokens or blots are expected".to_owned());
            }
        };
        self.scheme.tokens.ensure_lists(tokens)?;
        let hash = Some(item.hash.unwrap_or_else(|| tokens.hash()));
        self.all.clear();
        self.blotters
            .iter_mut()
            .for_each(|maker| maker.make(tokens, self.counts_distinct, &mut self.all));
        let count = tokens.len().to_u64();
        if self.drops_tokens {
            self.tokens.clear();
        }
        let distinct = self.counts_distinct.then(|| {
            self.all.sort_unstable();
            self.all.dedup();
            self.all.len().to_u64()
        });
        if self.blotters.len() == 1 {
            self.blotters[0].blots.distinct = distinct;
            return Ok((&self.blotters[0].blots, hash));
        }
        self.blots.clear();
        (self.blots.tokens, self.blots.distinct) = (count, distinct);
        merge(&self.blotters, &mut self.blots);
        Ok((&self.blots, hash))
    }

    /// Takes out the blots that were made last.
    pub(super) fn take_blots(&mut self) -> Blots {
        match &mut self.blotters[..] {
            [maker] => std::mem::take(&mut maker.blots),
            _ => std::mem::take(&mut self.blots),
        }
    }

    /// A record says how many distinct blots the document has in all if, and only if, some may be left out.
    fn ensure_distinct(&self, blots: &Blots) -> Result<(), String> {
        match blots.distinct {
            None if self.counts_distinct => Err(format!(
                "its record lacks 'distinct', the number of all its distinct blots, which a record of scheme '{}' has; make the stream anew",
                self.scheme
            )),
            Some(_) if !self.counts_distinct => Err(format!(
                "'distinct' has no meaning in scheme '{}', which leaves no blots out",
                self.scheme
            )),
            _ => Ok(()),
        }
    }
}

/// The text of a document from one token to another, without the markup that is stripped to make tokens.
pub(crate) fn shown_text(scheme: &TokenScheme, stretch: &str) -> String {
    match scheme
        .tokenization()
        .filter(|tokenization| tokenization.strips_html)
    {
        Some(tokenization) => squeeze(tokenization.plain(stretch.to_owned()).text()),
        None => stretch.to_owned(),
    }
}

/// The blots of all schemes: tokenizer after tokenizer, in the order of their first tokens, and then of the schemes.
fn merge(blotters: &[SchemeBlotter], out: &mut Blots) {
    let pairs = |blots: &'_ Blots| {
        blots
            .positions
            .iter()
            .copied()
            .zip(blots.values.iter().copied())
            .collect::<Vec<_>>()
    };
    for of_list in blotters.chunk_by(|one, other| one.list == other.list) {
        let makers = of_list.iter();
        let mut all: Vec<(u32, u64)> = makers.flat_map(|maker| pairs(&maker.blots)).collect();
        // Stable, and fast for stretches that are in order already.
        all.sort_by_key(|&(position, _)| position);
        out.positions
            .extend(all.iter().map(|&(position, _)| position));
        out.values.extend(all.iter().map(|&(_, value)| value));
    }
}
