//! Which blots are made.

use super::DocumentBlotter;
use crate::base::setting::Setting;
use crate::{
    base::error::{Error, Place, Result},
    blot as schemes,
    blot::{Run, WindowShape, select::is_of_shared_chunks},
    commands::{Settings, tokenize::token_scheme},
    text::{
        corpus::{CorpusSlice, Source},
        scheme::{BlotScheme, SelectScheme, WindowSchemes},
        stream::{Header, StreamKind},
        token::{Rule, Tokenizer},
    },
};

/// How documents become blots. An option that is `None` is taken from the input stream, if that names one, and else has its default.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct BlotOptions {
    /// How texts become tokens.
    pub tokenizer: Option<Tokenizer>,
    /// How windows of tokens become blots.
    pub scheme: Option<WindowSchemes>,
    /// The number of tokens of a window, where `scheme` does not name it.
    pub k: Option<u32>,
    /// The number of interleaved streams of tokens.
    pub interleave: Option<u32>,
    /// The width of a blot.
    pub bits: Option<u8>,
    /// Which blots are kept.
    pub select: Option<SelectScheme>,
    /// The name of the preset that an index of these blots keeps; see [`crate::commands::Preset`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
}

impl BlotOptions {
    /// Options that make the blots of a scheme.
    pub fn of_scheme(scheme: &BlotScheme) -> Self {
        Self {
            tokenizer: scheme.tokens.tokenizer(),
            ..Self::default().completed_by(scheme)
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tokenizer.is_none()
            && self.scheme.is_none()
            && self.k.is_none()
            && self.interleave.is_none()
            && self.bits.is_none()
            && self.select.is_none()
    }
}

/// Windows of words, and of bases.
const DEFAULT_K: u32 = 8;
const DEFAULT_K_DNA: u32 = 31;
/// Windows of letters and of the few classes of normalized code, of which eight tell little.
const DEFAULT_K_SMALL: u32 = 16;
/// The default width of a blot. It is enough for some 80 GB of new text (see
/// [`crate::index::WidthFit`]), and as fast as fewer bits: a posting still fits into 64 bits. It is
/// the same for every size, as streams and slices name their width before the size of the
/// collection is known, and all ways in must give the same bytes.
pub(crate) const DEFAULT_BITS: u8 = 40;

/// The default number of tokens of a window.
pub fn default_window(rule: Rule) -> u32 {
    match rule {
        Rule::Dna => DEFAULT_K_DNA,
        Rule::Char(1) | Rule::CodeNorm => DEFAULT_K_SMALL,
        _ => DEFAULT_K,
    }
}

/// Opens a corpus, and decides how to make blots of it: a stream of blots or tokens fixes its own scheme.
pub(crate) fn open(
    options: &BlotOptions,
    settings: &Settings,
) -> Result<(Source, DocumentBlotter)> {
    let mut source = Source::new(settings.corpus.clone(), settings.limits.threads)?;
    if let Some(path) = &settings.corpus.slice {
        // The plan read the header of the whole corpus when it cut the slices.
        let slice = CorpusSlice::open(path)?;
        let header = Header::new(StreamKind::Blots, slice.scheme().to_owned());
        let blots =
            DocumentBlotter::as_stream(options, &header, &Place::file(slice.file().clone()))?;
        blots.expect_in(&mut source);
        return Ok((source, blots));
    }
    open_source(options, source)
}

pub(super) fn open_source(
    options: &BlotOptions,
    mut source: Source,
) -> Result<(Source, DocumentBlotter)> {
    let first = source.first_header().cloned();
    let blots = match first
        .as_ref()
        .filter(|(header, _)| header.kind == StreamKind::Blots)
    {
        Some((header, place)) => DocumentBlotter::as_stream(options, header, place)?,
        None if options.select.as_ref().is_some_and(is_of_shared_chunks) => {
            return Err(Error::Usage(format!(
                "{} needs a file: make it with dedup-spex {}, and say spex:FILE",
                Setting::Select.to("spex"),
                Setting::FilterOut.to("FILE")
            )));
        }
        None => DocumentBlotter::new(
            options,
            token_scheme(options.tokenizer.as_ref(), first.as_ref())?,
        )?,
    };
    blots.expect_in(&mut source);
    Ok((source, blots))
}

/// The scheme of the blots that a corpus would have.
pub fn scheme_of(options: &BlotOptions, settings: &Settings) -> Result<BlotScheme> {
    Ok(open(options, settings)?.1.scheme)
}

impl BlotOptions {
    /// Refuses options that have no meaning for prints.
    pub(crate) fn ensure_only_tokens(&self, with_positions: bool) -> Result<()> {
        for (setting, is_given) in [
            (Setting::WindowTokens, self.k.is_some()),
            (Setting::Interleave, self.interleave.is_some()),
            (Setting::Bits, self.bits.is_some()),
            (Setting::Select, self.select.is_some()),
            (Setting::Positions, with_positions),
        ] {
            if is_given {
                return Err(Error::Usage(format!(
                    "{setting} has no meaning with {}, which is one print of the whole document",
                    Setting::Scheme.to("minhash:256")
                )));
            }
        }
        Ok(())
    }

    /// These options, with the scheme of a stream for those that are not set.
    pub(super) fn completed_by(&self, found: &BlotScheme) -> Self {
        let Self {
            tokenizer,
            scheme,
            k,
            interleave,
            ..
        } = self.clone();
        let of_found = schemes::parse(
            &found.windows,
            Run {
                k: DEFAULT_K,
                interleave: 1,
            },
        )
        .unwrap_or_default();
        let (scheme, k, interleave) = match (scheme, &of_found[..]) {
            // One scheme of runs may be named in parts.
            (
                scheme,
                [
                    schemes::NamedShape {
                        shape:
                            WindowShape::Run {
                                kind,
                                k: k_found,
                                interleave: found,
                            },
                        select: None,
                        ..
                    },
                ],
            ) if scheme.as_ref().is_none_or(schemes::omits_window_length) => (
                scheme.unwrap_or_else(|| kind.name.into()),
                k.or(Some(*k_found)),
                interleave.or(Some(*found)),
            ),
            (scheme, _) => (
                scheme.unwrap_or_else(|| found.windows.clone()),
                k,
                interleave,
            ),
        };
        let (bits, select) = (
            self.bits.or(Some(found.bits)),
            self.select.clone().or_else(|| Some(found.select.clone())),
        );
        Self {
            tokenizer,
            scheme: Some(scheme),
            k,
            interleave,
            bits,
            select,
            preset: self.preset.clone(),
        }
    }
}
