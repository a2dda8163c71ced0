//! The names of schemes: `ordered:8`, `xor:10x2`, `spaced:110100101`, `context:3`,
//! `letters:16/winnow:15`, and several with commas.

use super::{INTERLEAVE, K, context, letters, ordered, sorted, spaced::Mask, xor};
use crate::text::scheme::{SchemeTerm, SelectScheme, WindowScheme, WindowSchemes};
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

/// A scheme of other windows: its name, its parameter, what it does, and how it is read.
type ShapeRow = (
    &'static str,
    &'static str,
    &'static str,
    fn(Option<&str>) -> Result<WindowShape, String>,
);

/// All other schemes.
const TABLE: &[ShapeRow] = &[
    (
        "spaced",
        "[:MASK]",
        "the tokens of a window where MASK has a 1, in order [110100101]",
        |mask| Mask::parse(mask.unwrap_or(super::spaced::DEFAULT)).map(WindowShape::Spaced),
    ),
    (
        "context",
        "[:N]",
        "N words of four letters or more, by their first five, in any order and with one left out, for reworded text [3]",
        |n| few(n, context::DEFAULT).map(WindowShape::Context),
    ),
    (
        "letters",
        "[:N]",
        "N letters in a row, whatever words they are of, for text from scanners; best with /winnow:8 [16]",
        |n| few(n, letters::DEFAULT).map(WindowShape::Letters),
    ),
    (
        "minhash",
        ":256",
        "no windows but one print of the whole document, 256 bits of MinHash over its tokens, for dedup-query history",
        |_| {
            Err("a print of the whole document, which has no blots; dedup-blot makes it, alone, for dedup-query history".to_owned())
        },
    ),
];

/// The name of each scheme with its parameter, and what it does.
fn names_and_help() -> impl Iterator<Item = (String, &'static str)> {
    let runs = RUNS
        .iter()
        .map(|run| (format!("{}[:K]", run.name), run.help));
    let others = TABLE
        .iter()
        .map(|(name, parameter, help, _)| (format!("{name}{parameter}"), *help));
    runs.chain(others)
}

/// The help text of the schemes.
pub fn help() -> String {
    let rows: Vec<_> = names_and_help()
        .map(|(name, what)| format!("{name}: {what}"))
        .collect();
    format!(
        "{};\nseveral with commas: the blots of all of them; NAME/SELECTION keeps of one scheme only what the selection keeps",
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
    /// This many content words, in any order.
    Context(u32),
    /// This many letters in a row.
    Letters(u32),
}

/// The valid numbers of words or letters of a window.
const FEW: RangeInclusive<u32> = 1..=64;

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
        let (.., read) = TABLE.iter().find(|row| row.0 == name).ok_or_else(|| {
            let names: Vec<_> = names_and_help().map(|(name, _)| name).collect();
            format!("no scheme '{term}'; there are {}", names.join(", "))
        })?;
        read(parameter)
    }

    /// The number of tokens from the first to the last, if all windows have the same.
    pub fn tokens(&self) -> Option<u32> {
        match self {
            Self::Run { k, interleave, .. } => Some((k - 1) * interleave + 1),
            Self::Spaced(mask) => Some(mask.length() as u32),
            Self::Context(_) | Self::Letters(_) => None,
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
            Self::Context(n) => write!(f, "context:{n}"),
            Self::Letters(n) => write!(f, "letters:{n}"),
        }
    }
}

/// A number of words or letters of a window.
fn few(parameter: Option<&str>, default: u32) -> Result<u32, String> {
    parameter.map_or(Ok(default), |parameter| number(parameter, &FEW))
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
    /// The shape of the windows.
    pub shape: WindowShape,
    /// The selection for this scheme only.
    pub select: Option<SelectScheme>,
}

/// Reads the names of one or several schemes.
pub fn parse(windows: &WindowSchemes, run: Run) -> Result<Vec<NamedShape>, String> {
    let mut schemes: Vec<NamedShape> = Vec::new();
    for WindowScheme { shape, select } in &windows.0 {
        let named = NamedShape {
            shape: WindowShape::parse(shape, run).map_err(|what| format!("{shape}: {what}"))?,
            select: select.clone(),
        };
        if schemes.iter().any(|known| known.shape == named.shape) {
            return Err(format!("{}: named twice", named.shape));
        }
        schemes.push(named);
    }
    Ok(schemes)
}

/// The index of the scheme that finds verbatim text, and the number of tokens of its windows.
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
        schemes
            .iter()
            .position(|named| named.shape.is_verbatim() && named.select.is_none())?
    };
    Some((at, schemes[at].shape.tokens()?))
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
