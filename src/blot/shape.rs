//! The names of schemes: `ordered:8`, `xor:10x2`, `spaced:110100101`, `context:3`,
//! `letters:16/winnow:15`, and several with commas.

use super::{INTERLEAVE, K, context, letters, ordered, sorted, spaced::Mask, xor};
use crate::text::{
    scheme::{SchemeTerm, SelectScheme, WindowScheme, WindowSchemes},
    stream::{Blots, Tokens},
};
use std::{fmt, ops::RangeInclusive};

/// All schemes of consecutive tokens.
static RUNS: &[&RunScheme] = &[&ordered::ORDERED, &xor::XOR, &sorted::SORTED];

/// A scheme of windows of consecutive tokens; its file holds it.
#[derive(Debug)]
pub struct RunScheme {
    /// The name in schemes.
    pub name: &'static str,
    /// What it does, for the help text; `K` stands for the number of tokens.
    pub help: &'static str,
    /// Appends a number for each window of `k` token hashes, or one for all of them if there are
    /// fewer.
    pub windows: Windows,
}

impl PartialEq for RunScheme {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for RunScheme {}

pub(super) type Windows = fn(hashes: &[u64], k: usize, out: &mut Vec<u64>);

/// All schemes of windows that count units of their own.
static UNITS: &[&UnitScheme] = &[&context::CONTEXT, &letters::LETTERS];

/// A scheme whose windows have N units, such as content words or letters, and span any number of
/// tokens; its file holds it.
#[derive(Debug)]
pub struct UnitScheme {
    /// The name in schemes.
    pub name: &'static str,
    /// What it does, for the help text; `N` stands for the number of units.
    pub help: &'static str,
    /// The number of units if the user sets none.
    pub default: u32,
    /// Makes what finds windows of this many units.
    pub build: fn(n: u32) -> Box<dyn UnitWindows>,
}

impl PartialEq for UnitScheme {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for UnitScheme {}

/// Finds the windows of a [`UnitScheme`]; owns the reused buffers.
pub trait UnitWindows: fmt::Debug + Send + Sync {
    /// Appends the number of each window of a document, with the position of its first token. The
    /// top bits of a number become the blot.
    fn blot(&mut self, tokens: &Tokens, out: &mut Blots);

    /// The last token that a window that starts with the token `first` can cover.
    fn last_token(&self, tokens: &Tokens, first: usize) -> usize;

    /// Frees large buffers.
    fn release_buffers(&mut self);

    /// A copy for another thread.
    fn boxed_clone(&self) -> Box<dyn UnitWindows>;
}

impl Clone for Box<dyn UnitWindows> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}

/// What the help says of a scheme: its name with its parameter, and what it does.
type HelpRow = (String, &'static str);

/// The name of each scheme with its parameter, and what it does.
fn names_and_help() -> Vec<HelpRow> {
    let runs = RUNS
        .iter()
        .map(|run| (format!("{}[:K]", run.name), run.help));
    let units = UNITS
        .iter()
        .map(|units| (format!("{}[:N]", units.name), units.help));
    let spaced = (
        format!("{SPACED}[:MASK]"),
        "the tokens of a window where MASK has a 1, in order [110100101]",
    );
    let minhash = (
        format!("{MINHASH}:256"),
        "no windows but one print of the whole document, 256 bits of MinHash over its tokens, for dedup-query history",
    );
    runs.chain([spaced]).chain(units).chain([minhash]).collect()
}

/// The name of the scheme of windows with gaps.
const SPACED: &str = "spaced";
/// The name of the prints of whole documents, which are no blots.
const MINHASH: &str = "minhash";

/// The names of the schemes of consecutive tokens, as a sentence lists them.
pub(super) fn run_names() -> String {
    let names: Vec<_> = RUNS.iter().map(|run| run.name).collect();
    let (others, last) = names.split_at(names.len().saturating_sub(1));
    format!("{} and {}", others.join(", "), last.concat())
}

/// The help text of the schemes.
pub fn help() -> String {
    let rows: Vec<_> = names_and_help()
        .into_iter()
        .map(|(name, what)| format!("{name}: {what}"))
        .collect();
    format!(
        "{};\nseveral with commas: the blots of all of them; NAME/SELECTION keeps of one scheme only what the selection keeps; TOKENIZER=NAME, with several tokenizers, is for the tokens of this one",
        rows.join(";\n")
    )
}

/// How windows are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WindowShape {
    /// `k` tokens in a row. Token i belongs to stream i mod `interleave`; each stream has its own
    /// windows.
    Run {
        /// How the tokens count.
        kind: &'static RunScheme,
        /// The number of tokens.
        k: u32,
        /// The number of interleaved streams.
        interleave: u32,
    },
    /// The tokens of a window where the mask has a 1.
    Spaced(Mask),
    /// Units that the scheme finds in the tokens.
    Units {
        /// How units are found, and how they count.
        kind: &'static UnitScheme,
        /// The number of units.
        n: u32,
    },
}

/// The valid numbers of units of a window.
const N: RangeInclusive<u32> = 1..=64;

/// The parameters of a run that its name may omit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The number of tokens of a window.
    pub k: u32,
    /// The number of interleaved streams.
    pub interleave: u32,
}

impl WindowShape {
    /// Reads a name; takes parameters that it omits from `run`.
    fn parse(term: &SchemeTerm, run: Run) -> Result<Self, String> {
        let name = term.name.as_str();
        let parameter = term.argument.as_deref();
        if let Some(&kind) = RUNS.iter().find(|run| run.name == name) {
            let Some(parameter) = parameter else {
                return Ok(Self::Run {
                    kind,
                    k: run.k,
                    interleave: run.interleave,
                });
            };
            let (k, interleave) = parameter
                .split_once('x')
                .map_or((parameter, None), |(k, interleave)| (k, Some(interleave)));
            let interleave = interleave.map_or(Ok(run.interleave), |interleave| {
                number(interleave, &INTERLEAVE)
            })?;
            return Ok(Self::Run {
                kind,
                k: number(k, &K)?,
                interleave,
            });
        }
        if let Some(&kind) = UNITS.iter().find(|units| units.name == name) {
            let n = parameter.map_or(Ok(kind.default), |n| number(n, &N))?;
            return Ok(Self::Units { kind, n });
        }
        match name {
            SPACED => Mask::parse(parameter.unwrap_or(super::spaced::DEFAULT)).map(Self::Spaced),
            MINHASH => Err("a print of the whole document, which has no blots; dedup-blot makes it, alone, for dedup-query history".to_owned()),
            _ => {
                let names = names_and_help().into_iter().map(|(name, _)| name);
                let names: Vec<_> = names.collect();
                Err(format!("no scheme '{term}'; there are {}", names.join(", ")))
            }
        }
    }

    /// The number of tokens from the first to the last, if all windows have the same.
    pub fn tokens(&self) -> Option<u32> {
        match self {
            Self::Run { k, interleave, .. } => Some((k - 1) * interleave + 1),
            Self::Spaced(mask) => Some(mask.length() as u32),
            Self::Units { .. } => None,
        }
    }

    /// Whether documents that share a blot share its text verbatim.
    pub fn is_verbatim(&self) -> bool {
        matches!(self, Self::Run { kind, .. } if **kind == ordered::ORDERED)
    }
}

impl fmt::Display for WindowShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run {
                kind,
                k,
                interleave: 1,
            } => write!(f, "{}:{k}", kind.name),
            Self::Run {
                kind,
                k,
                interleave,
            } => write!(f, "{}:{k}x{interleave}", kind.name),
            Self::Spaced(mask) => write!(f, "spaced:{}", mask.name()),
            Self::Units { kind, n } => write!(f, "{}:{n}", kind.name),
        }
    }
}

fn number(text: &str, range: &RangeInclusive<u32>) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| {
        format!(
            "'{text}' is not a number from {} to {}",
            range.start(),
            range.end()
        )
    })
}

/// A scheme, and its own selection if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedShape {
    /// The name of the tokenizer whose tokens they are windows of, where it is given.
    pub tokenizer: Option<String>,
    /// The shape of the windows.
    pub shape: WindowShape,
    /// The selection for this scheme only.
    pub select: Option<SelectScheme>,
}

/// Reads the names of one or several schemes.
pub fn parse(windows: &WindowSchemes, run: Run) -> Result<Vec<NamedShape>, String> {
    let mut schemes: Vec<NamedShape> = Vec::new();
    for window in &windows.0 {
        let WindowScheme {
            tokenizer,
            shape,
            select,
        } = window;
        let named = NamedShape {
            tokenizer: tokenizer.clone(),
            shape: WindowShape::parse(shape, run).map_err(|what| format!("{shape}: {what}"))?,
            select: select.clone(),
        };
        let is_same =
            |known: &NamedShape| known.tokenizer == named.tokenizer && known.shape == named.shape;
        if schemes.iter().any(is_same) {
            return Err(format!("{}: named twice", named.shape));
        }
        schemes.push(named);
    }
    Ok(schemes)
}

/// The index of the scheme that finds verbatim text, and the number of tokens of its windows; of several tokenizers, for the first
/// one, whose schemes come first.
///
/// A single scheme is always accepted.
pub fn verbatim(windows: &WindowSchemes) -> Option<(usize, u32)> {
    let schemes = parse(
        windows,
        Run {
            k: 1,
            interleave: 1,
        },
    )
    .ok()?;
    let at = if schemes.len() == 1 {
        0
    } else {
        let is_of_first = |named: &&NamedShape| named.tokenizer == schemes[0].tokenizer;
        schemes
            .iter()
            .take_while(is_of_first)
            .position(|named| named.shape.is_verbatim() && named.select.is_none())?
    };
    Some((at, schemes[at].shape.tokens()?))
}

/// Whether a scheme has windows of letters or other units.
pub fn has_units(windows: &WindowSchemes) -> bool {
    let run = Run {
        k: 1,
        interleave: 1,
    };
    parse(windows, run).is_ok_and(|schemes| {
        schemes
            .iter()
            .any(|named| matches!(named.shape, WindowShape::Units { .. }))
    })
}

/// Whether some name omits the length of its windows.
pub fn omits_window_length(windows: &WindowSchemes) -> bool {
    let is_open = |shape: &SchemeTerm| RUNS.iter().any(|run| shape.is_plain(run.name));
    windows.0.iter().any(|window| is_open(&window.shape))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: Run = Run {
        k: 8,
        interleave: 1,
    };

    #[test]
    fn names_are_read_back_as_written() {
        for name in [
            "ordered:8",
            "xor:10x2",
            "sorted:5",
            "spaced:110100101",
            "context:3",
            "letters:16",
        ] {
            assert_eq!(
                WindowShape::parse(&name.into(), RUN).unwrap().to_string(),
                name
            );
        }
        let several = parse(&"ordered,context,letters:20/winnow:9".into(), RUN).unwrap();
        let names: Vec<_> = several
            .iter()
            .map(|named| named.shape.to_string())
            .collect();
        assert_eq!(names, ["ordered:8", "context:3", "letters:20"]);
        assert_eq!(several[2].select, Some("winnow:9".into()));
        let of_each = parse(&"code=ordered,code-norm=ordered:20".into(), RUN).unwrap();
        assert_eq!(of_each[1].tokenizer.as_deref(), Some("code-norm"));
        assert_eq!(of_each[1].shape.to_string(), "ordered:20");
    }

    #[test]
    fn passages_are_of_windows_of_the_first_tokenizer() {
        let verbatim = |text: &str| verbatim(&text.into());
        assert_eq!(verbatim("letters:16"), None);
        assert_eq!(verbatim("context:3,ordered:9"), Some((1, 9)));
        assert_eq!(verbatim("a=ordered:5,b=ordered:9"), Some((0, 5)));
        assert_eq!(
            verbatim("a=context:3,a=ordered:5,b=ordered:9"),
            Some((1, 5))
        );
        assert_eq!(verbatim("a=context:3,b=ordered:9"), None);
    }

    #[test]
    fn errors_name_the_valid_values() {
        let explain = |text: &str| parse(&text.into(), RUN).unwrap_err();
        assert!(
            explain("orderd:8")
                .starts_with("orderd:8: no scheme 'orderd:8'; there are ordered[:K], xor[:K], ")
        );
        assert_eq!(
            explain("ordered:0"),
            "ordered:0: '0' is not a number from 1 to 1024"
        );
        assert_eq!(
            explain("xor:5x99"),
            "xor:5x99: '99' is not a number from 1 to 64"
        );
        assert_eq!(
            explain("context:x"),
            "context:x: 'x' is not a number from 1 to 64"
        );
        assert_eq!(explain("ordered:8,ordered"), "ordered:8: named twice");
        assert!(explain("spaced:012").starts_with("spaced:012: '012' is not a mask "));
        assert!(explain("").contains("no scheme ''"));
    }
}
