//! What a line asks for.

use crate::{
    corpus::{self, Content, Item, ensure_utf8},
    error::Result,
    format::{Blots, Header, Kind, Line, LineParser, Print, Tokens},
    online::ensure_id_is_short,
    pipeline::ToPrints,
    scheme::PrintScheme,
};
use memchr::memmem::Finder;
use serde_json::value::RawValue;
use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

#[derive(Debug, PartialEq)]
pub enum Asked {
    /// What is a document like? It is added if that is said, or if nothing is said and that is usual.
    Like {
        id: Box<str>,
        print: Option<Print>,
        add: Option<bool>,
    },
    Remove(Box<str>),
    Hello,
    /// It cannot be answered, for this reason.
    Wrong(String),
}

/// Reads lines; owns the buffers that are used again and again.
#[derive(Clone)]
pub struct RequestReader {
    fields: LineParser,
    lossy: bool,
    prints: ToPrints,
    tokens: Tokens,
    blots: Blots,
    file: Arc<str>,
}

impl RequestReader {
    pub fn new(options: &corpus::Options, scheme: &PrintScheme) -> Result<Self> {
        Ok(Self {
            fields: options.fields.clone(),
            lossy: options.lossy,
            prints: ToPrints::new(scheme.clone())?,
            tokens: Tokens::default(),
            blots: Blots::default(),
            file: "-".into(),
        })
    }

    /// None for a line that needs no answer: a blank one, the header of a stream, its end.
    pub fn read(&mut self, line: &mut [u8], number: u64) -> Option<Asked> {
        if line.trim_ascii().is_empty() {
            return None;
        }
        let asked = self.parse(line, number);
        asked.unwrap_or_else(|what| Some(Asked::Wrong(format!("line {number}: {what}"))))
    }

    /// Gives back large buffers.
    pub fn give_back(&mut self) {
        self.tokens.clear();
        self.blots.clear();
        self.prints.give_back();
    }

    fn parse(&mut self, line: &mut [u8], number: u64) -> Result<Option<Asked>, String> {
        ensure_utf8(line, self.lossy)?;
        let add = match control(line) {
            Some(Control::Add(add)) => Some(add),
            Some(Control::Asked(asked)) => {
                if let Asked::Remove(id) = &asked {
                    ensure_id_is_short(id)?;
                }
                return Ok(Some(asked));
            }
            None => None,
        };
        let parsed = self.fields.parse(line, &mut self.tokens, &mut self.blots)?;
        let file = &self.file;
        let item = |id, content| Item { id, file, line: Some(number), bytes: None, hash: None, content };
        let like = |id: &str, print| ensure_id_is_short(id).map(|()| Some(Asked::Like { id: id.into(), print, add }));
        match parsed {
            Line::Header(header) => self.ensure_scheme(&header).map(|()| None),
            Line::End { .. } => Ok(None),
            Line::Blots(_) => Err("blots, where documents, tokens or prints are expected".to_owned()),
            Line::Print(found, printed) => like(&found.doc, printed.print),
            Line::Tokens(found) => {
                let (printed, _) = self.prints.print(&item(&found.doc, Content::Tokens(&self.tokens)))?;
                like(&found.doc, printed.print)
            }
            Line::Document { id, text } => {
                let id = id.unwrap_or_else(|| format!("-:{number}").into());
                let (printed, _) = self.prints.print(&item(&id, Content::Text(&text)))?;
                like(&id, printed.print)
            }
        }
    }

    fn ensure_scheme(&self, header: &Header) -> Result<(), String> {
        let expected = match header.kind {
            Kind::Prints => self.prints.scheme.to_string(),
            Kind::Tokens => self.prints.scheme.tokens.to_string(),
            Kind::Blots => return Err("a stream of blots, where documents, tokens or prints are expected".to_owned()),
        };
        if header.scheme != expected {
            return Err(format!("scheme is '{}', expected '{expected}'; prints of two schemes cannot be compared", header.scheme));
        }
        Ok(())
    }
}

enum Control {
    Add(bool),
    Asked(Asked),
}

/// What a line says beside, or instead of, a document. Other fields of a document are its own business: only the one field of a
/// line can ask for something else, and `add` counts only if it is true or false.
fn control(line: &[u8]) -> Option<Control> {
    static NAMES: LazyLock<[Finder<'static>; 3]> = LazyLock::new(|| ["\"add\"", "\"remove\"", "\"hello\""].map(Finder::new));
    if NAMES.iter().all(|name| name.find(line).is_none()) {
        return None;
    }
    let fields: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_slice(line).ok()?;
    match fields.first_key_value() {
        Some((name, value)) if fields.len() == 1 && name == "remove" => {
            let id: Cow<'_, str> = serde_json::from_str(value.get()).unwrap_or_else(|_| value.get().into());
            Some(Control::Asked(Asked::Remove(id.into())))
        }
        Some((name, _)) if fields.len() == 1 && name == "hello" => Some(Control::Asked(Asked::Hello)),
        _ => serde_json::from_str(fields.get("add")?.get()).ok().map(Control::Add),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::{Rule, Tokenizer};

    fn read(line: &str) -> Option<Asked> {
        let scheme = PrintScheme { tokens: Tokenizer::new(Rule::Word, false).scheme() };
        RequestReader::new(&corpus::Options::default(), &scheme).unwrap().read(&mut line.as_bytes().to_vec(), 7)
    }

    fn told(line: &str) -> String {
        match read(line) {
            Some(Asked::Like { id, print, add }) => format!("{id} {} {add:?}", print.is_some()),
            Some(Asked::Wrong(what)) => what,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn lines_ask_for_one_thing() {
        let print = "0".repeat(64);
        assert_eq!(told(r#"{"id":"a","text":"b"}"#), "a true None");
        assert_eq!(told(r#"{"id":"a","text":"...","add":true}"#), "a false Some(true)");
        assert_eq!(told(r#"{"text":"b", "add" : false}"#), "-:7 true Some(false)");
        assert_eq!(told(&format!(r#"{{"doc":"a","print":"{print}","add":false}}"#)), "a true Some(false)");
        assert_eq!(told(r#"{"doc":"a","tokens":["x"]}"#), "a true None");
        assert_eq!(read(r#"{"remove":"a"}"#), Some(Asked::Remove("a".into())));
        assert_eq!(read(r#"{"remove":5}"#), Some(Asked::Remove("5".into())));
        assert_eq!(read(r#"{"hello":1}"#), Some(Asked::Hello));
        for nothing in ["", " \r", r#"{"end":{"records":1}}"#, r#"{"dedup":"prints","version":1,"scheme":"word@18.0 minhash:256"}"#] {
            assert_eq!(read(nothing), None, "{nothing}");
        }
    }

    /// A corpus may have any fields.
    #[test]
    fn fields_of_documents_are_their_own() {
        assert_eq!(told(r#"{"id":"a","text":"b","remove":"c","hello":1,"add":"some"}"#), "a true None");
        assert_eq!(told(r#"{"id":"a","text":"say \"add\" and \"remove\""}"#), "a true None");
    }

    #[test]
    fn wrong_lines_are_told_by_their_number() {
        assert_eq!(told("x"), "line 7: not JSON: expected value at column 1");
        assert_eq!(told(r#"{"id":"a"}"#), "line 7: no field 'text' with a text");
        assert_eq!(told(r#"{"doc":"a","blots":["1"]}"#), "line 7: blots, where documents, tokens or prints are expected");
        assert!(told(r#"{"dedup":"prints","version":1,"scheme":"line@18.0 minhash:256"}"#).starts_with("line 7: scheme is 'line@18.0"));
        assert!(told(r#"{"add":true}"#).starts_with("line 7: no field"));
    }
}
