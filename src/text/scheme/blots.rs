//! The scheme of a blot stream or an index, and the names it is made of.

use super::TokenScheme;
use crate::base::ids::Blot;
use serde::{Deserialize, Serialize};
use std::{convert::Infallible, fmt, ops::RangeInclusive, str::FromStr};

/// The scheme of a blot stream or an index, for example `words@18.0/49 ordered:8:32 all`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlotScheme {
    /// The scheme of the tokens that the blots are made from.
    pub tokens: TokenScheme,
    /// How windows are made: `ordered:8`, `xor:10x2`.
    pub windows: WindowSchemes,
    /// The width of a blot.
    pub bits: u8,
    /// Which blots are kept.
    pub select: SelectScheme,
}

/// The valid widths of a blot, in bits.
pub const BITS: RangeInclusive<u8> = 16..=64;

impl BlotScheme {
    /// Parses a blot in hexadecimal digits, as in streams.
    pub fn parse_blot(&self, hex: &str) -> Result<Blot, String> {
        let blot = u64::from_str_radix(hex, 16)
            .ok()
            .filter(|&blot| self.bits == 64 || blot >> self.bits == 0);
        blot.map(Blot::new)
            .ok_or_else(|| format!("'{hex}' is not a blot of {} bits in hex", self.bits))
    }
}

impl fmt::Display for BlotScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            tokens,
            windows,
            bits,
            select,
        } = self;
        write!(f, "{tokens} {windows}:{bits} {select}")
    }
}

impl FromStr for BlotScheme {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is not the scheme of a blot stream, such as 'words@18.0/49 ordered:8:32 all'"
            )
        };
        let words: Vec<&str> = text.split(' ').collect();
        let [tokens, windows, select] = words[..] else {
            return Err(wrong());
        };
        let (windows, bits) = windows.rsplit_once(':').ok_or_else(wrong)?;
        let bits = bits.parse().ok().filter(|bits| BITS.contains(bits));
        Ok(Self {
            bits: bits.ok_or_else(wrong)?,
            tokens: tokens.parse()?,
            windows: windows.into(),
            select: select.into(),
        })
    }
}

/// A name in a scheme with its argument, if it has one: `all`, `winnow:4`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemeTerm {
    /// `winnow`
    pub name: String,
    /// `4`
    pub argument: Option<String>,
}

impl SchemeTerm {
    /// Whether this is the name alone, without an argument.
    pub fn is_plain(&self, name: &str) -> bool {
        self.name == name && self.argument.is_none()
    }
}

impl From<&str> for SchemeTerm {
    fn from(text: &str) -> Self {
        let (name, argument) = match text.split_once(':') {
            Some((name, argument)) => (name, Some(argument.to_owned())),
            None => (text, None),
        };
        Self {
            name: name.to_owned(),
            argument,
        }
    }
}

impl fmt::Display for SchemeTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.argument {
            Some(argument) => write!(f, "{}:{argument}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Which blots are kept: a chain of terms, `all` or `winnow:4,mod:16`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct SelectScheme(pub Vec<SchemeTerm>);

impl Default for SelectScheme {
    fn default() -> Self {
        Self::from("all")
    }
}

/// One kind of window, and optionally its tokenizer and its own selection: `letters:16/winnow:8`, `code-norm=ordered:20`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowScheme {
    /// The name of the tokenizer whose tokens they are windows of; a scheme of several tokenizers names it for each kind.
    pub tokenizer: Option<String>,
    /// How windows are made: `letters:16`.
    pub shape: SchemeTerm,
    /// The selection of this kind, instead of that of the whole scheme.
    pub select: Option<SelectScheme>,
}

impl From<&str> for WindowScheme {
    fn from(text: &str) -> Self {
        let (windows, select) = text
            .split_once('/')
            .map_or((text, None), |(windows, select)| (windows, Some(select)));
        let (tokenizer, shape) = windows
            .split_once('=')
            .map_or((None, windows), |(name, shape)| (Some(name), shape));
        Self {
            tokenizer: tokenizer.map(str::to_owned),
            shape: shape.into(),
            select: select.map(Into::into),
        }
    }
}

impl fmt::Display for WindowScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(tokenizer) = &self.tokenizer {
            write!(f, "{tokenizer}=")?;
        }
        self.shape.fmt(f)?;
        match &self.select {
            Some(select) => write!(f, "/{select}"),
            None => Ok(()),
        }
    }
}

/// One or several kinds of windows: `ordered:8`, `ordered:8,letters:16/winnow:8`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct WindowSchemes(pub Vec<WindowScheme>);

/// Lists that are separated by commas.
macro_rules! comma_list {
    ($list:ident) => {
        impl From<&str> for $list {
            fn from(text: &str) -> Self {
                Self(text.split(',').map(Into::into).collect())
            }
        }

        impl From<String> for $list {
            fn from(text: String) -> Self {
                text.as_str().into()
            }
        }

        impl From<$list> for String {
            fn from(list: $list) -> Self {
                list.to_string()
            }
        }

        impl FromStr for $list {
            type Err = Infallible;

            fn from_str(text: &str) -> Result<Self, Infallible> {
                Ok(text.into())
            }
        }

        impl fmt::Display for $list {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                for (at, item) in self.0.iter().enumerate() {
                    f.write_str(if at > 0 { "," } else { "" })?;
                    item.fmt(f)?;
                }
                Ok(())
            }
        }
    };
}

comma_list!(SelectScheme);
comma_list!(WindowSchemes);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blot_scheme_is_read_back_as_written() {
        for text in [
            "word@18.0 ordered:8:32 all",
            "word+html@18.0 xor:10x2:18 winnow:4,mod:16",
            "stems ordered:8,letters:16/winnow:8:40 spex:00ff,mod:2",
            "code+code-norm@18.0 code=ordered:8,code-norm=ordered:20/mod:4:32 all",
            "stems ,/,a::,b/c/d:e,=,a=b=c/d=e:40 ,x::",
        ] {
            assert_eq!(text.parse::<BlotScheme>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_blot_scheme_is_parsed_into_its_terms() {
        let scheme: BlotScheme = "w@1 ordered:8,letters/winnow:8:40 all".parse().unwrap();
        assert_eq!(scheme.bits, 40);
        let [ordered, letters] = &scheme.windows.0[..] else {
            panic!("two kinds of windows");
        };
        assert_eq!(ordered.shape.argument.as_deref(), Some("8"));
        assert!(letters.shape.is_plain("letters"));
        assert_eq!(letters.select, Some("winnow:8".into()));
        assert!(scheme.select.0[0].is_plain("all"));
    }

    #[test]
    fn other_text_is_refused() {
        for text in [
            "",
            "word",
            "word ordered:8 all",
            "word ordered:8:99 all",
            "a b:32 c d",
            " b:32 c",
        ] {
            assert!(text.parse::<BlotScheme>().is_err(), "{text}");
        }
    }
}
