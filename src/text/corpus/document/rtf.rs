//! Rich Text Format (`.rtf`).
//!
//! Groups in braces, control words after backslashes, and text in between:
//!
//! ```text
//! {\rtf1\ansi\ansicpg1252 Gr\'f6\u223\'dfe{\footnote A note.}\par}      becomes      Größe⏎A note.⏎
//! ```
//!
//! Written for this program: the readers on crates.io decode bytes without the fonts' character sets, or do not know
//! footnotes, deleted text and shapes. What is not known is skipped as the format demands: words alone, groups that start
//! with `\*` as a whole.

use std::{collections::HashMap, path::Path};

use super::{DocumentKind, ExtractError, code_page::CodePage, flow::TextFlow};
use crate::text::corpus::skipped_kind::BOM;

pub struct Rtf;

impl DocumentKind for Rtf {
    fn name(&self) -> &'static str {
        "rtf"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["rtf"]
    }

    fn recognises(&self, head: &[u8], _: &Path) -> bool {
        without_mark(head).starts_with(b"{\\rtf")
    }

    fn extract(&self, bytes: &[u8], most_bytes: u64) -> Result<String, ExtractError> {
        let start = bytes.len() - without_mark(bytes).len();
        let mut reader = RtfReader::new(bytes, start, most_bytes);
        reader.read()?;
        reader.flow.finish()
    }
}

fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(BOM).unwrap_or(bytes).trim_ascii_start()
}

/// Files of Word stay below a hundred.
const MOST_DEPTH: usize = 4096;

/// What the text of a group is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Destination {
    Text,
    /// Not text, with all groups inside.
    Skipped,
    /// The properties of a shape, with its text box among them.
    Shape,
    /// Twice the same text, in a code page and in Unicode.
    Twice,
    Fonts,
}

/// What a group inherits, and forgets at its end.
#[derive(Debug, Clone, Copy)]
struct GroupState {
    destination: Destination,
    font: i32,
    /// How many characters follow `\u` for readers without Unicode.
    fallback_chars: usize,
    is_deleted: bool,
    /// The group is a note or a text box, which ends with it.
    is_part: bool,
}

/// A control word with its number, or a control symbol, or a byte of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RtfToken<'a> {
    Open,
    Close,
    Word(&'a [u8], Option<i32>),
    Symbol(u8),
    /// A byte of text, raw or as `\'xx`.
    Byte(u8),
}

struct RtfReader<'a> {
    bytes: &'a [u8],
    at: usize,
    flow: TextFlow,
    groups: Vec<GroupState>,
    state: GroupState,
    /// `\*` was read: the group may be skipped if the next word is not known.
    is_optional: bool,
    /// No control word was read in this group.
    is_group_start: bool,
    /// Characters that are still to be skipped after `\u`.
    skipped_chars: usize,
    /// The first half of a pair that makes one character.
    high_surrogate: Option<u16>,
    /// Text whose characters are not decoded yet: one may consist of several bytes.
    run: Vec<u8>,
    page: CodePage,
    fonts: HashMap<i32, CodePage>,
    default_font: i32,
    /// The font that the table describes.
    table_font: i32,
}

impl<'a> RtfReader<'a> {
    fn new(bytes: &'a [u8], at: usize, most_bytes: u64) -> Self {
        Self {
            bytes,
            at,
            flow: TextFlow::new(most_bytes),
            groups: Vec::new(),
            state: GroupState {
                destination: Destination::Text,
                font: -1,
                fallback_chars: 1,
                is_deleted: false,
                is_part: false,
            },
            is_optional: false,
            is_group_start: false,
            skipped_chars: 0,
            high_surrogate: None,
            run: Vec::new(),
            page: CodePage::ANSI,
            fonts: HashMap::new(),
            default_font: -1,
            table_font: -1,
        }
    }

    fn read(&mut self) -> Result<(), ExtractError> {
        while let Some(token) = self.next_token() {
            match token {
                RtfToken::Open => self.open()?,
                RtfToken::Close => {
                    self.close()?;
                    if self.groups.is_empty() {
                        return Ok(());
                    }
                }
                _ if self.skipped_chars > 0 => self.skipped_chars -= 1,
                RtfToken::Byte(byte) => self.byte(byte),
                RtfToken::Symbol(symbol) => self.symbol(symbol)?,
                RtfToken::Word(word, number) => self.word(word, number)?,
            }
        }
        let reason = format!("byte {}: the file ends inside a group", self.bytes.len());
        Err(ExtractError::Damaged(reason))
    }

    fn next_token(&mut self) -> Option<RtfToken<'a>> {
        loop {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            match byte {
                b'{' => return Some(RtfToken::Open),
                b'}' => return Some(RtfToken::Close),
                b'\\' => return self.control(),
                b'\r' | b'\n' | 0 => {}
                _ => return Some(RtfToken::Byte(byte)),
            }
        }
    }

    /// What follows a backslash.
    fn control(&mut self) -> Option<RtfToken<'a>> {
        let rest = &self.bytes[self.at..];
        let letters = rest.iter().take_while(|byte| byte.is_ascii_alphabetic());
        let letters = letters.count();
        if letters == 0 {
            let &symbol = rest.first()?;
            self.at += 1;
            return Some(match symbol {
                b'\'' => self.hex_byte(),
                b'\\' | b'{' | b'}' => RtfToken::Byte(symbol),
                _ => RtfToken::Symbol(symbol),
            });
        }
        let (word, rest) = rest.split_at(letters);
        let sign = usize::from(rest.first() == Some(&b'-'));
        let digits = rest[sign..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let length = if digits == 0 { 0 } else { sign + digits };
        let number = std::str::from_utf8(&rest[..length]).ok();
        let number = number.and_then(|number| number.parse().ok());
        self.at += letters + length;
        self.at += usize::from(rest.get(length) == Some(&b' '));
        if word == b"bin" {
            let length = number.and_then(|number: i32| usize::try_from(number).ok());
            self.at = self
                .at
                .saturating_add(length.unwrap_or(0))
                .min(self.bytes.len());
        }
        Some(RtfToken::Word(word, number))
    }

    /// `xx` of `\'xx`; what is no number is left out.
    fn hex_byte(&mut self) -> RtfToken<'a> {
        let digits = self.bytes.get(self.at..self.at + 2);
        let value = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match value {
            Some(value) => {
                self.at += 2;
                RtfToken::Byte(value)
            }
            None => RtfToken::Symbol(b'\''),
        }
    }

    fn open(&mut self) -> Result<(), ExtractError> {
        self.end_run()?;
        if self.groups.len() >= MOST_DEPTH {
            return Err(ExtractError::Damaged(format!(
                "byte {}: over {MOST_DEPTH} groups inside each other",
                self.at - 1
            )));
        }
        self.groups.push(self.state);
        self.state.is_part = false;
        self.is_optional = false;
        self.is_group_start = true;
        self.skipped_chars = 0;
        Ok(())
    }

    fn close(&mut self) -> Result<(), ExtractError> {
        self.end_run()?;
        if self.state.is_part {
            self.flow.end();
        }
        if let Some(state) = self.groups.pop() {
            self.state = state;
        }
        self.is_optional = false;
        self.is_group_start = false;
        self.skipped_chars = 0;
        Ok(())
    }

    fn is_text(&self) -> bool {
        self.state.destination == Destination::Text && !self.state.is_deleted
    }

    fn byte(&mut self, byte: u8) {
        self.is_group_start = false;
        self.is_optional = false;
        if self.is_text() {
            self.run.push(byte);
        }
    }

    /// Decodes what was collected. To be called before the font changes.
    fn end_run(&mut self) -> Result<(), ExtractError> {
        if self.run.is_empty() {
            return Ok(());
        }
        self.high_surrogate = None;
        let page = self.fonts.get(&self.state.font).copied();
        let text = page.unwrap_or(self.page).decode(&self.run);
        self.run.clear();
        self.flow.push(&text)
    }

    fn push(&mut self, text: &str) -> Result<(), ExtractError> {
        self.end_run()?;
        if self.is_text() {
            self.flow.push(text)?;
        }
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), ExtractError> {
        self.end_run()?;
        if self.is_text() {
            self.flow.end_paragraph();
        }
        Ok(())
    }

    fn symbol(&mut self, symbol: u8) -> Result<(), ExtractError> {
        match symbol {
            b'*' => {
                self.is_optional = self.is_group_start;
                return Ok(());
            }
            b'~' => self.push("\u{a0}")?,
            b'_' => self.push("\u{2011}")?,
            b'\r' | b'\n' => self.end_line()?,
            b'\t' => self.push("\t")?,
            // An optional hyphen, marks of indexes and formulas.
            _ => {}
        }
        self.is_group_start = false;
        Ok(())
    }

    fn word(&mut self, word: &[u8], number: Option<i32>) -> Result<(), ExtractError> {
        let is_optional = std::mem::take(&mut self.is_optional);
        let starts_group = std::mem::take(&mut self.is_group_start);
        if word == b"u" {
            return self.unicode(number.unwrap_or(0));
        }
        self.end_run()?;
        if self.destination(word) {
            return Ok(());
        }
        if is_optional && starts_group {
            self.state.destination = Destination::Skipped;
            return Ok(());
        }
        match char_of(word) {
            Some(text) => self.push(text),
            None if is_line_end(word) => self.end_line(),
            None => {
                self.setting(word, number);
                Ok(())
            }
        }
    }

    /// A UTF-16 unit, written as a signed number.
    fn unicode(&mut self, number: i32) -> Result<(), ExtractError> {
        self.end_run()?;
        self.skipped_chars = self.state.fallback_chars;
        if !self.is_text() {
            return Ok(());
        }
        let Ok(unit) = u16::try_from(number.rem_euclid(1 << 16)) else {
            return Ok(());
        };
        let pair = self.high_surrogate.take().map(|high| [high, unit]);
        if let Some(Ok(c)) = pair.and_then(|pair| char::decode_utf16(pair).next()) {
            return self.flow.push_char(c);
        }
        match char::decode_utf16([unit]).next() {
            Some(Ok(c)) if c != '\0' => self.flow.push_char(c),
            _ => {
                self.high_surrogate = Some(unit);
                Ok(())
            }
        }
    }

    /// Changes what the text of this group is for; `false` if the word does not.
    fn destination(&mut self, word: &[u8]) -> bool {
        let now = self.state.destination;
        let next = match word {
            b"fonttbl" => Destination::Fonts,
            b"shpinst" if now == Destination::Text => Destination::Shape,
            b"upr" if now == Destination::Text => Destination::Twice,
            b"ud" if now == Destination::Twice => Destination::Text,
            b"shptxt" | b"dptxbxtext" if now == Destination::Shape || now == Destination::Text => {
                self.flow.begin_box();
                self.state.is_part = true;
                Destination::Text
            }
            b"footnote" if now == Destination::Text => {
                self.flow.begin_note();
                self.state.is_part = true;
                Destination::Text
            }
            _ if is_aside(word) => Destination::Skipped,
            _ => return false,
        };
        // A group inside one that is skipped stays skipped.
        if now != Destination::Skipped {
            self.state.destination = next;
        }
        true
    }

    fn setting(&mut self, word: &[u8], number: Option<i32>) {
        let is_on = number != Some(0);
        match (word, number) {
            (b"ansicpg", Some(number)) => {
                self.page = CodePage::of_number(number).unwrap_or(self.page);
            }
            (b"mac", _) => self.page = CodePage::MAC,
            (b"pc", _) => self.page = CodePage::PC,
            (b"pca", _) => self.page = CodePage::PCA,
            (b"deff", Some(number)) => {
                self.default_font = number;
                self.state.font = number;
            }
            (b"f", Some(number)) if self.state.destination == Destination::Fonts => {
                self.table_font = number;
            }
            (b"f", Some(number)) => self.state.font = number,
            (b"fcharset", Some(number)) if self.state.destination == Destination::Fonts => {
                if let Some(page) = CodePage::of_charset(number) {
                    self.fonts.insert(self.table_font, page);
                }
            }
            (b"cpg", Some(number)) if self.state.destination == Destination::Fonts => {
                if let Some(page) = CodePage::of_number(number) {
                    self.fonts.entry(self.table_font).or_insert(page);
                }
            }
            (b"uc", Some(number)) => {
                self.state.fallback_chars = usize::try_from(number).unwrap_or(1);
            }
            (b"plain", _) => {
                self.state.font = self.default_font;
                self.state.is_deleted = false;
            }
            (b"deleted" | b"mvf", _) => self.state.is_deleted = is_on,
            _ => {}
        }
    }
}

/// Words that stand for characters.
fn char_of(word: &[u8]) -> Option<&'static str> {
    Some(match word {
        b"tab" => "\t",
        b"emdash" => "—",
        b"endash" => "–",
        b"lquote" => "‘",
        b"rquote" => "’",
        b"ldblquote" => "“",
        b"rdblquote" => "”",
        b"bullet" => "•",
        b"emspace" | b"enspace" | b"qmspace" => " ",
        b"zwj" => "\u{200d}",
        b"zwnj" => "\u{200c}",
        b"ltrmark" => "\u{200e}",
        b"rtlmark" => "\u{200f}",
        _ => return None,
    })
}

fn is_line_end(word: &[u8]) -> bool {
    matches!(
        word,
        b"par"
            | b"line"
            | b"sect"
            | b"page"
            | b"column"
            | b"softline"
            | b"softpage"
            | b"cell"
            | b"nestcell"
            | b"row"
            | b"nestrow"
    )
}

/// Destinations that are not part of the body, where they are not marked by `\*`.
fn is_aside(word: &[u8]) -> bool {
    matches!(
        word,
        b"colortbl"
            | b"stylesheet"
            | b"info"
            | b"pict"
            | b"objdata"
            | b"filetbl"
            | b"revtbl"
            | b"listtable"
            | b"listoverridetable"
            | b"header"
            | b"headerl"
            | b"headerr"
            | b"headerf"
            | b"footer"
            | b"footerl"
            | b"footerr"
            | b"footerf"
            | b"ftnsep"
            | b"ftnsepc"
            | b"ftncn"
            | b"aftnsep"
            | b"aftnsepc"
            | b"aftncn"
            | b"annotation"
            | b"atnid"
            | b"atnauthor"
            | b"atndate"
            | b"atnicn"
            | b"atnref"
            | b"fldinst"
            | b"listtext"
            | b"pntext"
            | b"pntxtb"
            | b"pntxta"
            | b"nonshppict"
            | b"shprslt"
            | b"nonesttables"
            | b"tc"
            | b"tcn"
            | b"xe"
            | b"rxe"
            | b"txe"
            | b"bkmkstart"
            | b"bkmkend"
            | b"generator"
            | b"themedata"
            | b"colorschememapping"
            | b"latentstyles"
            | b"datastore"
            | b"private"
    )
}
