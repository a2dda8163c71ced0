//! A record of a stream as a line of JSON: tokens, blots or a print.

use super::{
    blots::Blots,
    header::Header,
    json::{JsonId, JsonText, read_json},
    line::{Line, Parsed},
    print::Print,
    record::{BlotCodec, Printed},
    tokens::{Span, Tokens},
};
use crate::base::num::ToU64;
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use std::{borrow::Cow, fmt, marker::PhantomData};

pub(super) const NO_RECORD: &str = "neither tokens, blots nor a print";

/// Reads a line of a stream that opened with a header. Tokens and blots go into the buffers.
pub fn parse_record<'a>(
    line: &'a [u8],
    tokens: &mut Tokens,
    blots: &mut Blots,
) -> Result<Line<'a>, String> {
    tokens.clear();
    tokens.others.clear();
    blots.clear();
    let mut spans = Vec::new();
    let seed = RecordSeed {
        tokens: &mut *tokens,
        blots: &mut *blots,
        spans: &mut spans,
    };
    let mut fields = read_json(line, seed)?;
    if let Some(records) = fields.end {
        return Ok(Line::End { records });
    }
    if fields.has_dedup && Header::is_likely(line) {
        return Header::parse(line).map(Line::Header);
    }
    if fields.tokens.is_none() && !fields.has_blots && fields.print.is_none() {
        return Err(NO_RECORD.to_owned());
    }
    let doc = fields.doc.take().ok_or("a record without 'doc'")?;
    let record = Parsed {
        doc,
        bytes: fields.bytes,
        hash: fields.hash,
        digits: None,
    };
    if let Some(print) = fields.print {
        let tokens = fields.tokens.unwrap_or(u64::from(print.is_some()));
        return Ok(Line::Print(record, Printed { print, tokens }));
    }
    if fields.has_blots {
        finish_blots(&fields, blots)?;
        let digits = fields.digits;
        return Ok(Line::Blots(Parsed { digits, ..record }));
    }
    finish_tokens(&fields, spans, tokens)?;
    Ok(Line::Tokens(record))
}

/// Checks that the lists of a blot record fit together.
fn finish_blots(fields: &RecordFields<'_>, blots: &mut Blots) -> Result<(), String> {
    let values = blots.values.len();
    let positions = blots.positions.len();
    if fields.has_positions && positions != values {
        return Err(format!("{values} blots but {positions} positions"));
    }
    blots.tokens = fields.tokens.unwrap_or(values.to_u64());
    blots.distinct = fields.distinct;
    Ok(())
}

/// Checks that the lists of a token record fit together.
fn finish_tokens(
    fields: &RecordFields<'_>,
    spans: Vec<Span>,
    tokens: &mut Tokens,
) -> Result<(), String> {
    if fields.tokens != Some(tokens.len().to_u64()) {
        return Err("'tokens' is a number, but there are no 'blots'".to_owned());
    }
    if fields.has_spans && spans.len() != tokens.len() {
        return Err(format!("{} tokens but {} spans", tokens.len(), spans.len()));
    }
    tokens.spans = fields.has_spans.then_some(spans);
    Ok(())
}

struct RecordSeed<'b> {
    tokens: &'b mut Tokens,
    blots: &'b mut Blots,
    spans: &'b mut Vec<Span>,
}

#[derive(Default)]
struct RecordFields<'a> {
    doc: Option<Cow<'a, str>>,
    bytes: Option<u64>,
    hash: Option<u128>,
    /// Their number, whether they are listed or only counted.
    tokens: Option<u64>,
    has_spans: bool,
    has_blots: bool,
    distinct: Option<u64>,
    has_positions: bool,
    /// Whether it is given, and its value if that is not null.
    print: Option<Option<Print>>,
    digits: Option<(usize, usize)>,
    has_dedup: bool,
    end: Option<u64>,
}

#[derive(Deserialize)]
struct EndCount {
    records: u64,
}

impl<'de> DeserializeSeed<'de> for RecordSeed<'_> {
    type Value = RecordFields<'de>;

    fn deserialize<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<RecordFields<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RecordSeed<'_> {
    type Value = RecordFields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RecordFields<'de>, A::Error> {
        let mut fields = RecordFields::default();
        while let Some(JsonText(key)) = map.next_key()? {
            match &*key {
                "doc" => fields.doc = Some(map.next_value::<JsonId<'de>>()?.0),
                "bytes" => fields.bytes = map.next_value()?,
                "hash" => {
                    fields.hash = map
                        .next_value::<Option<JsonText<'de>>>()?
                        .map(|hash| parse_hash(&hash.0))
                        .transpose()?
                }
                "tokens" => fields.tokens = Some(map.next_value_seed(TokensSeed(self.tokens))?),
                "distinct" => fields.distinct = map.next_value()?,
                "spans" => {
                    fields.has_spans = map.next_value_seed(each(|(start, end): (u32, u32)| {
                        push_span(self.spans, start, end)
                    }))?
                }
                "others" => {
                    let others = &mut self.tokens.others;
                    map.next_value_seed(each(|OtherTokens(list)| {
                        others.push(list);
                        Ok(())
                    }))?;
                }
                "blots" => {
                    fields.has_blots =
                        map.next_value_seed(each(|JsonText(hex): JsonText<'de>| {
                            let (least, greatest) = fields.digits.unwrap_or((hex.len(), hex.len()));
                            fields.digits = Some((least.min(hex.len()), greatest.max(hex.len())));
                            push_blot(self.blots, &hex)
                        }))?
                }
                "positions" => {
                    fields.has_positions = map.next_value_seed(each(|position| {
                        self.blots.positions.push(position);
                        Ok(())
                    }))?
                }
                "print" => {
                    let hex = map.next_value::<Option<JsonText<'de>>>()?;
                    fields.print = Some(
                        hex.map(|hex| hex.0.parse::<Print>())
                            .transpose()
                            .map_err(de::Error::custom)?,
                    );
                }
                "end" => fields.end = Some(map.next_value::<EndCount>()?.records),
                "dedup" => {
                    map.next_value::<IgnoredAny>()?;
                    fields.has_dedup = true;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(fields)
    }
}

fn parse_hash<E: de::Error>(hex: &str) -> Result<u128, E> {
    let is_hex = hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let hash = is_hex.then(|| u128::from_str_radix(hex, 16).ok()).flatten();
    hash.ok_or_else(|| E::custom(format_args!("hash '{hex}' is not 32 hex digits")))
}

fn push_span(spans: &mut Vec<Span>, start: u32, end: u32) -> Result<(), String> {
    if end < start {
        return Err(format!("span [{start},{end}] ends before it starts"));
    }
    spans.push(Span { start, end });
    Ok(())
}

/// A blot as text carries its width: `ensure_width` checks it against the scheme.
fn push_blot(blots: &mut Blots, hex: &str) -> Result<(), String> {
    let is_hex =
        !hex.is_empty() && hex.len() <= 16 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let value = is_hex.then(|| u64::from_str_radix(hex, 16).ok()).flatten();
    blots
        .values
        .push(value.ok_or_else(|| format!("blot '{hex}' is not 1 to 16 hex digits"))?);
    Ok(())
}

impl BlotCodec {
    /// Refuses blots that are wider than the scheme says.
    pub fn ensure_width(self, blots: &Blots) -> Result<(), String> {
        blots
            .values
            .iter()
            .try_for_each(|&value| self.ensure_fits(value).map(|_| ()))
    }
}

/// Tokens as a list of strings, or only their number.
struct TokensSeed<'b>(&'b mut Tokens);

impl<'de> DeserializeSeed<'de> for TokensSeed<'_> {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TokensSeed<'_> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of tokens, or their number")
    }

    fn visit_u64<E>(self, count: u64) -> Result<u64, E> {
        Ok(count)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<u64, A::Error> {
        while let Some(JsonText(token)) = list.next_element()? {
            if token.contains('\n') {
                return Err(de::Error::custom("a token contains a line feed"));
            }
            self.0.push(&token, Span { start: 0, end: 0 });
        }
        Ok(self.0.len().to_u64())
    }
}

/// The tokens of a further tokenizer: `{"tokens":[…],"spans":[…]}`.
struct OtherTokens(Tokens);

impl<'de> Deserialize<'de> for OtherTokens {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OtherTokensVisitor)
    }
}

struct OtherTokensVisitor;

impl<'de> Visitor<'de> for OtherTokensVisitor {
    type Value = OtherTokens;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the tokens of a further tokenizer")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OtherTokens, A::Error> {
        let mut tokens = Tokens::default();
        let mut spans = Vec::new();
        let mut fields = RecordFields::default();
        while let Some(JsonText(key)) = map.next_key()? {
            match &*key {
                "tokens" => fields.tokens = Some(map.next_value_seed(TokensSeed(&mut tokens))?),
                "spans" => {
                    fields.has_spans = map.next_value_seed(each(|(start, end): (u32, u32)| {
                        push_span(&mut spans, start, end)
                    }))?
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        finish_tokens(&fields, spans, &mut tokens).map_err(de::Error::custom)?;
        Ok(OtherTokens(tokens))
    }
}

/// Calls a function with each element of a list.
fn each<T, F: FnMut(T) -> Result<(), String>>(call: F) -> EachSeed<F, T> {
    EachSeed(call, PhantomData)
}

struct EachSeed<F, T>(F, PhantomData<T>);

impl<'de, T: Deserialize<'de>, F: FnMut(T) -> Result<(), String>> DeserializeSeed<'de>
    for EachSeed<F, T>
{
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(T) -> Result<(), String>> Visitor<'de> for EachSeed<F, T> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<bool, A::Error> {
        while let Some(element) = list.next_element()? {
            (self.0)(element).map_err(de::Error::custom)?;
        }
        Ok(true)
    }
}
