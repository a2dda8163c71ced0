//! One document's tokens or blots as a record, in both forms.
//!
//! `man 5 dedup-stream` describes them byte by byte.

use super::{
    blots::Blots,
    output::RecordOutput,
    print::{PRINT_BYTES, Print},
    tokens::{Span, Tokens},
};
use crate::base::codec::{Fields, is_plain, put_json_string, put_signed_varint, put_varint};
use crate::base::num::{ToU64, ToUsize};
use std::io::Write;

/// What every record says of its document. Other programs may leave out size and hash.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record<'a> {
    /// The id of the document.
    pub doc: &'a str,
    /// The size of the document.
    pub bytes: Option<u64>,
    /// The hash over its tokens.
    pub hash: Option<u128>,
}

const HAS_BYTES: u8 = 1;
const HAS_HASH: u8 = 2;
const HAS_DETAIL: u8 = 4;
const HAS_DISTINCT: u8 = 8;
const HAS_OTHERS: u8 = 16;
/// More tokenizers than a scheme can name.
const MOST_LISTS: u64 = 256;

/// Token records: `{"doc":…,"bytes":…,"hash":…,"tokens":[…],"spans":[…]}`; of several tokenizers also
/// `"others":[{"tokens":[…],"spans":[…]},…]`.
#[derive(Debug, Clone, Copy)]
pub struct TokenCodec {
    /// Whether records have the spans of tokens.
    pub with_spans: bool,
}

impl TokenCodec {
    /// Appends a record as a line of JSON.
    pub fn write_ndjson(self, out: &mut impl RecordOutput, record: &Record<'_>, tokens: &Tokens) {
        open_json(out.buffer(), record);
        out.buffer().push(b',');
        self.write_json_list(out, tokens);
        for (at, list) in tokens.others().iter().enumerate() {
            let open: &[u8] = if at == 0 { b",\"others\":[{" } else { b",{" };
            out.buffer().extend_from_slice(open);
            self.write_json_list(out, list);
            out.buffer().push(b'}');
        }
        if !tokens.others().is_empty() {
            out.buffer().push(b']');
        }
        out.buffer().extend_from_slice(b"}\n");
    }

    /// Appends `"tokens":[…],"spans":[…]`.
    fn write_json_list(self, out: &mut impl RecordOutput, tokens: &Tokens) {
        out.buffer().extend_from_slice(b"\"tokens\":[");
        json_tokens(out, tokens);
        out.buffer().push(b']');
        if let Some(spans) = tokens.spans().filter(|_| self.with_spans) {
            out.buffer().extend_from_slice(b",\"spans\":[");
            comma_separated(out, spans, |out, span| {
                let _ = write!(out, "[{},{}]", span.start, span.end);
            });
            out.buffer().push(b']');
        }
    }

    /// Appends a record in the binary form.
    pub fn write_binary(self, out: &mut impl RecordOutput, record: &Record<'_>, tokens: &Tokens) {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let has_spans = self.with_spans && tokens.spans().is_some();
        let has_others = !tokens.others().is_empty();
        let flags = flag(has_spans, HAS_DETAIL) | flag(has_others, HAS_OTHERS);
        open_binary(out.buffer(), record, flags);
        write_list(out, tokens, has_spans);
        if has_others {
            put_varint(out.buffer(), tokens.others().len().to_u64());
        }
        for list in tokens.others() {
            write_list(out, list, has_spans);
        }
    }

    /// Reads one binary record into `tokens`.
    pub fn read_binary<'a>(
        self,
        fields: &mut Fields<'a>,
        tokens: &mut Tokens,
    ) -> Result<Record<'a>, String> {
        let (record, flags) = read_open(fields, HAS_DETAIL | HAS_OTHERS)?;
        let has_spans = flags & HAS_DETAIL != 0;
        read_list(fields, tokens, has_spans)?;
        if flags & HAS_OTHERS != 0 {
            let count = fields.varint("number of further tokenizers")?;
            if count > MOST_LISTS {
                return Err(format!("tokens of {count} further tokenizers"));
            }
            for _ in 0..count {
                let mut list = Tokens::default();
                read_list(fields, &mut list, has_spans)?;
                tokens.others.push(list);
            }
        }
        Ok(record)
    }
}

/// Appends the tokens of one tokenizer.
fn write_list(out: &mut impl RecordOutput, tokens: &Tokens, has_spans: bool) {
    put_varint(out.buffer(), tokens.text.len().to_u64());
    out.put_all(&tokens.text);
    let spans = tokens.spans().filter(|_| has_spans).unwrap_or_default();
    let mut last = 0;
    for span in spans {
        put_signed_varint(out.buffer(), i64::from(span.start) - last);
        put_varint(out.buffer(), u64::from(span.end.saturating_sub(span.start)));
        last = i64::from(span.start);
        out.may_flush();
    }
}

/// Replaces `tokens` by those of one tokenizer.
fn read_list(fields: &mut Fields<'_>, tokens: &mut Tokens, has_spans: bool) -> Result<(), String> {
    let text_bytes = fields.varint("length of the token text")?;
    tokens.spans = has_spans.then(|| tokens.spans.take().unwrap_or_default());
    tokens.load(fields.take(text_bytes, "token text")?)?;
    if let Some(spans) = &mut tokens.spans {
        let mut last = 0;
        for _ in 0..tokens.ends.len() {
            let span = read_span(fields, last)?;
            last = i64::from(span.start);
            spans.push(span);
        }
    }
    Ok(())
}

fn read_span(fields: &mut Fields<'_>, last: i64) -> Result<Span, String> {
    let start = last
        .checked_add(fields.signed("start of a span")?)
        .and_then(|start| u32::try_from(start).ok());
    let length = fields.varint("length of a span")?;
    let end = start.and_then(|start| u32::try_from(u64::from(start).checked_add(length)?).ok());
    match (start, end) {
        (Some(start), Some(end)) => Ok(Span { start, end }),
        _ => Err("a span lies outside of any document".to_owned()),
    }
}

/// Blot records: `{"doc":…,"bytes":…,"hash":…,"tokens":n,"distinct":n,"blots":["2db9c479",…],"positions":[…]}`.
#[derive(Debug, Clone, Copy)]
pub struct BlotCodec {
    /// The width of a blot.
    pub bits: u8,
    /// Whether records have the positions of blots.
    pub with_positions: bool,
}

impl BlotCodec {
    /// Hex digits of a blot.
    pub fn digits(self) -> usize {
        usize::from(self.bits.div_ceil(4))
    }

    /// Asked for, and there: a stream made without them cannot give them back.
    fn has_positions(self, blots: &Blots) -> bool {
        self.with_positions && blots.has_positions()
    }

    fn value_bytes(self) -> usize {
        usize::from(self.bits.div_ceil(8))
    }

    /// Appends a record as a line of JSON.
    pub fn write_ndjson(self, out: &mut impl RecordOutput, record: &Record<'_>, blots: &Blots) {
        open_json(out.buffer(), record);
        let _ = write!(out.buffer(), ",\"tokens\":{}", blots.tokens);
        if let Some(distinct) = blots.distinct {
            let _ = write!(out.buffer(), ",\"distinct\":{distinct}");
        }
        out.buffer().extend_from_slice(b",\"blots\":[");
        let digits = self.digits();
        comma_separated(out, &blots.values, |out, &value| {
            out.push(b'"');
            put_hex(out, value, digits);
            out.push(b'"');
        });
        out.buffer().push(b']');
        if self.has_positions(blots) {
            out.buffer().extend_from_slice(b",\"positions\":[");
            comma_separated(out, blots.positions(), |out, position| {
                let _ = write!(out, "{position}");
            });
            out.buffer().push(b']');
        }
        out.buffer().extend_from_slice(b"}\n");
    }

    /// Appends a record in the binary form.
    pub fn write_binary(self, out: &mut impl RecordOutput, record: &Record<'_>, blots: &Blots) {
        let detail = if self.has_positions(blots) {
            HAS_DETAIL
        } else {
            0
        };
        let distinct = if blots.distinct.is_some() {
            HAS_DISTINCT
        } else {
            0
        };
        open_binary(out.buffer(), record, detail | distinct);
        put_varint(out.buffer(), blots.tokens);
        if let Some(distinct) = blots.distinct {
            put_varint(out.buffer(), distinct);
        }
        put_varint(out.buffer(), blots.values.len().to_u64());
        let value_bytes = self.value_bytes();
        for value in &blots.values {
            out.buffer()
                .extend_from_slice(&value.to_le_bytes()[..value_bytes]);
            out.may_flush();
        }
        if self.has_positions(blots) {
            let mut last = 0;
            for position in blots.positions() {
                put_signed_varint(out.buffer(), i64::from(position) - last);
                last = i64::from(position);
                out.may_flush();
            }
        }
    }

    /// Reads one binary record into `blots`; the positions are left empty where it has none.
    pub fn read_binary<'a>(
        self,
        fields: &mut Fields<'a>,
        blots: &mut Blots,
    ) -> Result<Record<'a>, String> {
        blots.clear();
        let (record, flags) = read_open(fields, HAS_DETAIL | HAS_DISTINCT)?;
        let has_positions = flags & HAS_DETAIL != 0;
        blots.tokens = fields.varint("number of tokens")?;
        blots.distinct = (flags & HAS_DISTINCT != 0)
            .then(|| fields.varint("number of distinct blots"))
            .transpose()?;
        let count = fields.varint("number of blots")?;
        let value_bytes = self.value_bytes();
        let bytes = count
            .checked_mul(value_bytes.to_u64())
            .ok_or("more blots than can be")?;
        for value in fields.take(bytes, "blots")?.chunks_exact(value_bytes) {
            let mut wide = [0; 8];
            wide[..value_bytes].copy_from_slice(value);
            blots
                .values
                .push(self.ensure_fits(u64::from_le_bytes(wide))?);
        }
        let mut last = 0_i64;
        for _ in 0..if has_positions { count } else { 0 } {
            let position = last
                .checked_add(fields.signed("position of a blot")?)
                .and_then(|position| u32::try_from(position).ok());
            blots
                .positions
                .push(position.ok_or("a position lies outside of any document")?);
            last = position.map_or(0, i64::from);
        }
        Ok(record)
    }

    /// Refuses a blot that is wider than the scheme says.
    pub fn ensure_fits(self, value: u64) -> Result<u64, String> {
        if self.bits < 64 && value >> self.bits != 0 {
            return Err(format!("blot {value:x} is wider than {} bits", self.bits));
        }
        Ok(value)
    }
}

/// The print of a document, and how many tokens it has. A document without tokens has no print.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Printed {
    /// The print; none of a document without tokens.
    pub print: Option<Print>,
    /// The number of tokens.
    pub tokens: u64,
}

/// Print records: `{"doc":…,"bytes":…,"hash":…,"tokens":n,"print":"64 hex digits"}`.
#[derive(Debug, Clone, Copy)]
pub struct PrintCodec;

impl PrintCodec {
    /// Appends a record as a line of JSON.
    pub fn write_ndjson(self, out: &mut Vec<u8>, record: &Record<'_>, printed: &Printed) {
        open_json(out, record);
        let _ = write!(out, ",\"tokens\":{},\"print\":", printed.tokens);
        match printed.print {
            Some(print) => {
                out.push(b'"');
                print
                    .to_bytes()
                    .iter()
                    .for_each(|&byte| put_hex(out, u64::from(byte), 2));
                out.push(b'"');
            }
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b"}\n");
    }

    /// Appends a record in the binary form.
    pub fn write_binary(self, out: &mut Vec<u8>, record: &Record<'_>, printed: &Printed) {
        open_binary(
            out,
            record,
            if printed.print.is_some() {
                HAS_DETAIL
            } else {
                0
            },
        );
        put_varint(out, printed.tokens);
        if let Some(print) = printed.print {
            out.extend_from_slice(&print.to_bytes());
        }
    }

    /// Reads one binary record.
    pub fn read_binary<'a>(self, fields: &mut Fields<'a>) -> Result<(Record<'a>, Printed), String> {
        let (record, flags) = read_open(fields, HAS_DETAIL)?;
        let has_print = flags & HAS_DETAIL != 0;
        let tokens = fields.varint("number of tokens")?;
        let bytes = has_print
            .then(|| fields.take(PRINT_BYTES.to_u64(), "print"))
            .transpose()?;
        let print = bytes
            .and_then(|bytes| bytes.try_into().ok())
            .map(Print::from_bytes);
        Ok((record, Printed { print, tokens }))
    }
}

fn open_json(out: &mut Vec<u8>, record: &Record<'_>) {
    out.extend_from_slice(b"{\"doc\":");
    put_json_string(out, record.doc);
    if let Some(bytes) = record.bytes {
        let _ = write!(out, ",\"bytes\":{bytes}");
    }
    if let Some(hash) = record.hash {
        let _ = write!(out, ",\"hash\":\"{hash:032x}\"");
    }
}

/// Writes what all records begin with; `flags` are those of what follows.
fn open_binary(out: &mut Vec<u8>, record: &Record<'_>, flags: u8) {
    put_varint(out, record.doc.len().to_u64());
    out.extend_from_slice(record.doc.as_bytes());
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    out.push(
        flag(record.bytes.is_some(), HAS_BYTES) | flag(record.hash.is_some(), HAS_HASH) | flags,
    );
    if let Some(bytes) = record.bytes {
        put_varint(out, bytes);
    }
    if let Some(hash) = record.hash {
        out.extend_from_slice(&hash.to_be_bytes());
    }
}

/// Reads what all records begin with, and its flags; `known` are those that may say what follows.
fn read_open<'a>(fields: &mut Fields<'a>, known: u8) -> Result<(Record<'a>, u8), String> {
    let length = fields.varint("length of the document id")?;
    let doc = std::str::from_utf8(fields.take(length, "document id")?)
        .map_err(|_| "document id is not UTF-8")?;
    let flags = fields.byte("flags")?;
    if flags & !(HAS_BYTES | HAS_HASH | known) != 0 {
        return Err(format!("unknown flags {flags:#x}"));
    }
    let bytes = (flags & HAS_BYTES != 0)
        .then(|| fields.varint("size of the document"))
        .transpose()?;
    let hash = (flags & HAS_HASH != 0)
        .then(|| fields.take(16, "document hash"))
        .transpose()?;
    let hash = hash
        .and_then(|hash| hash.try_into().ok())
        .map(u128::from_be_bytes);
    Ok((Record { doc, bytes, hash }, flags))
}

fn comma_separated<T>(
    out: &mut impl RecordOutput,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut Vec<u8>, T),
) {
    for (index, item) in items.into_iter().enumerate() {
        let buffer = out.buffer();
        if index > 0 {
            buffer.push(b',');
        }
        write(buffer, item);
        out.may_flush();
    }
}

/// The tokens as JSON strings. Most documents need no escapes at all: one look decides that for all of them.
fn json_tokens(out: &mut impl RecordOutput, tokens: &Tokens) {
    let plain = tokens.iter().all(is_plain);
    out.expect(tokens.text.len() + 2 * tokens.len());
    comma_separated(out, tokens.iter(), |out, token| {
        if plain {
            out.push(b'"');
            out.extend_from_slice(token);
            out.push(b'"');
        } else {
            put_json_string(out, &String::from_utf8_lossy(token));
        }
    });
}

fn put_hex(out: &mut Vec<u8>, value: u64, digits: usize) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for digit in (0..digits).rev() {
        out.push(DIGITS[(value >> (4 * digit)).to_usize() & 15]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::stream::{Line, parse_record};
    use proptest::prelude::*;

    fn record(doc: &str, bytes: Option<u64>, hash: Option<u128>) -> Record<'_> {
        Record { doc, bytes, hash }
    }

    proptest! {
        #[test]
        fn token_records_are_twins(
            doc in ".{0,20}", bytes: Option<u64>, hash: Option<u128>, with_spans: bool,
            lists in prop::collection::vec(prop::collection::vec(("[^\n]{0,12}", any::<u32>(), any::<u32>()), 0..30), 1..4),
        ) {
            let mut lists = lists.iter().map(|list| {
                let mut tokens = Tokens::new(with_spans);
                list.iter().for_each(|(token, one, two)| tokens.push(token, Span { start: *one.min(two), end: *one.max(two) }));
                tokens
            });
            let mut tokens = lists.next().unwrap();
            tokens.others = lists.collect();
            let (codec, record) = (TokenCodec { with_spans }, record(&doc, bytes, hash));
            let (mut text, mut binary, mut again) = (Vec::new(), Vec::new(), Vec::new());
            codec.write_ndjson(&mut text, &record, &tokens);
            codec.write_binary(&mut binary, &record, &tokens);
            let mut read = Tokens::default();
            let found = codec.read_binary(&mut Fields::new(&binary), &mut read).unwrap();
            codec.write_ndjson(&mut again, &found, &read);
            prop_assert_eq!(&text, &again);
            let mut read = Tokens::default();
            let Ok(Line::Tokens(found)) = parse_record(&text, &mut read, &mut Blots::default()) else { panic!("not read") };
            again.clear();
            codec.write_binary(&mut again, &Record { doc: &found.doc, bytes: found.bytes, hash: found.hash }, &read);
            prop_assert_eq!(binary, again);
        }

        #[test]
        fn print_records_are_twins(doc in ".{0,20}", bytes: Option<u64>, hash: Option<u128>, tokens: u64, words: Option<[u64; 4]>) {
            let (printed, record) = (Printed { print: words.map(Print), tokens }, record(&doc, bytes, hash));
            let (mut text, mut binary, mut again) = (Vec::new(), Vec::new(), Vec::new());
            PrintCodec.write_ndjson(&mut text, &record, &printed);
            PrintCodec.write_binary(&mut binary, &record, &printed);
            let (found, read) = PrintCodec.read_binary(&mut Fields::new(&binary)).unwrap();
            PrintCodec.write_ndjson(&mut again, &found, &read);
            prop_assert_eq!(&text, &again);
            let Ok(Line::Print(found, read)) = parse_record(&text, &mut Tokens::default(), &mut Blots::default()) else { panic!("not read") };
            again.clear();
            PrintCodec.write_binary(&mut again, &Record { doc: &found.doc, bytes: found.bytes, hash: found.hash }, &read);
            prop_assert_eq!(binary, again);
        }

        #[test]
        fn blot_records_are_twins(
            doc in ".{0,20}", bytes: Option<u64>, hash: Option<u128>, with_positions: bool, bits in 16_u8..=64, count: u64, distinct: Option<u64>,
            list in prop::collection::vec((any::<u64>(), any::<u32>()), 0..30),
        ) {
            let mut blots = Blots { tokens: count, distinct, ..Blots::default() };
            list.iter().for_each(|&(value, position)| blots.push(value >> (64 - bits), position));
            let (codec, record) = (BlotCodec { bits, with_positions }, record(&doc, bytes, hash));
            let (mut text, mut binary, mut again) = (Vec::new(), Vec::new(), Vec::new());
            codec.write_ndjson(&mut text, &record, &blots);
            codec.write_binary(&mut binary, &record, &blots);
            let mut read = Blots::default();
            let found = codec.read_binary(&mut Fields::new(&binary), &mut read).unwrap();
            codec.write_ndjson(&mut again, &found, &read);
            prop_assert_eq!(&text, &again);
            let Ok(Line::Blots(found)) = parse_record(&text, &mut Tokens::default(), &mut read) else { panic!("not read") };
            again.clear();
            codec.write_binary(&mut again, &Record { doc: &found.doc, bytes: found.bytes, hash: found.hash }, &read);
            prop_assert_eq!(binary, again);
        }
    }
}
