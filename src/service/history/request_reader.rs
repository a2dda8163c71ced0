//! Parses the lines of clients into requests.

use crate::{
    base::{error::Result, parallel::lock},
    blot::DocumentPrinter,
    history::{MatchLimits, Ratio, backend::ensure_id_is_short},
    text::{
        corpus::{self, Content, InputDocument, ensure_utf8},
        scheme::PrintScheme,
        stream::{Blots, Header, Line, LineParser, Print, StreamKind, Tokens},
    },
};
use memchr::memmem::Finder;
use serde_json::value::RawValue;
use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, LazyLock, Mutex},
};

/// A request of a client.
#[derive(Debug, PartialEq)]
pub enum ServiceRequest {
    /// Find documents similar to this one. `add`: whether to add it, if the line says so.
    Like {
        /// The id of the document.
        id: Box<str>,
        /// Its print; `None` if it has no tokens.
        print: Option<Print>,
        /// Whether to add it, if the request says so.
        add: Option<bool>,
        /// A least similarity above that of the service.
        min_similarity: Option<Ratio>,
        /// A number of matches below that of the service.
        top: Option<usize>,
    },
    /// Remove all entries with this id.
    Remove(Box<str>),
    /// Say what the service is.
    Hello,
    /// A line that cannot be answered, and why.
    Wrong(String),
}

impl ServiceRequest {
    /// Removes all entries with an id.
    pub fn removal(id: &str) -> Result<Self, String> {
        ensure_id_is_short(id)?;
        Ok(Self::Remove(id.into()))
    }
}

/// Parses lines; owns buffers for reuse.
#[derive(Clone)]
pub struct RequestReader {
    fields: LineParser,
    lossy: bool,
    /// The limits of the service.
    limits: MatchLimits,
    prints: DocumentPrinter,
    tokens: Tokens,
    blots: Blots,
    file: Arc<str>,
}

impl RequestReader {
    /// A reader of documents in this scheme.
    pub fn new(
        options: &corpus::Options,
        scheme: &PrintScheme,
        limits: MatchLimits,
    ) -> Result<Self> {
        Ok(Self {
            fields: options.fields.clone(),
            lossy: options.lossy,
            limits,
            prints: DocumentPrinter::new(scheme.clone())?,
            tokens: Tokens::default(),
            blots: Blots::default(),
            file: "-".into(),
        })
    }

    /// `None` for a line without an answer: a blank line, the header of a stream, its end.
    pub fn read(&mut self, line: &mut [u8], number: u64) -> Option<ServiceRequest> {
        if line.trim_ascii().is_empty() {
            return None;
        }
        let asked = self.parse(line, number);
        asked.unwrap_or_else(|what| Some(ServiceRequest::Wrong(format!("line {number}: {what}"))))
    }

    /// Frees large buffers.
    pub fn release_buffers(&mut self) {
        self.tokens.clear();
        self.blots.clear();
        self.prints.release_buffers();
    }

    /// As [`Self::read`], for a line that stands by itself.
    pub fn parse(
        &mut self,
        line: &mut [u8],
        number: u64,
    ) -> Result<Option<ServiceRequest>, String> {
        ensure_utf8(line, self.lossy)?;
        let RequestTerms {
            add,
            min_similarity,
            top,
        } = match control(line)? {
            LineControl::Terms(terms) => terms,
            LineControl::Request(asked) => {
                if let ServiceRequest::Remove(id) = &asked {
                    ensure_id_is_short(id)?;
                }
                return Ok(Some(asked));
            }
        };
        self.ensure_is_less(min_similarity, top)?;
        let parsed = self.fields.parse(line, &mut self.tokens, &mut self.blots)?;
        let file = &self.file;
        let item = |id, content| InputDocument {
            id,
            file,
            line: Some(number),
            record: number,
            bytes: None,
            hash: None,
            content,
        };
        let like = |id: &str, print| {
            ensure_id_is_short(id).map(|()| {
                Some(ServiceRequest::Like {
                    id: id.into(),
                    print,
                    add,
                    min_similarity,
                    top,
                })
            })
        };
        match parsed {
            Line::Header(header) => self.ensure_scheme(&header).map(|()| None),
            Line::End { .. } => Ok(None),
            Line::Blots(_) => {
                Err("blots, where documents, tokens or prints are expected".to_owned())
            }
            Line::Print(found, printed) => like(&found.doc, printed.print),
            Line::Tokens(found) => {
                let (printed, _) = self
                    .prints
                    .print(&item(&found.doc, Content::Tokens(&self.tokens)))?;
                like(&found.doc, printed.print)
            }
            Line::Document { id, text } => {
                let id = id.unwrap_or_else(|| format!("-:{number}").into());
                let (printed, _) = self.prints.print(&item(&id, Content::Text(&text)))?;
                like(&id, printed.print)
            }
        }
    }

    /// Refuses limits beyond those of the service.
    fn ensure_is_less(
        &self,
        min_similarity: Option<Ratio>,
        top: Option<usize>,
    ) -> Result<(), String> {
        let MatchLimits {
            min_similarity: from,
            top: most,
        } = self.limits;
        if let Some(min_similarity) =
            min_similarity.filter(|min_similarity| min_similarity.is_less_than(from))
        {
            let (min_similarity, from) = (min_similarity.to_f64(), from.to_f64());
            return Err(format!(
                "the field 'min_similarity' is {min_similarity}, the service answers from {from} on"
            ));
        }
        if let Some(top) = top.filter(|&top| top > most) {
            return Err(format!(
                "the field 'top' is {top}, the service gives the best {most}"
            ));
        }
        Ok(())
    }

    fn ensure_scheme(&self, header: &Header) -> Result<(), String> {
        let expected = match header.kind {
            StreamKind::Prints => {
                header.scheme.parse::<PrintScheme>()?;
                self.prints.scheme.to_string()
            }
            StreamKind::Tokens => self.prints.scheme.tokens.to_string(),
            StreamKind::Blots => {
                return Err(
                    "a stream of blots, where documents, tokens or prints are expected".to_owned(),
                );
            }
        };
        if header.scheme != expected {
            return Err(format!(
                "scheme is '{}', expected '{expected}'; prints of two schemes cannot be compared",
                header.scheme
            ));
        }
        Ok(())
    }
}

/// Readers that are not in use, so that their buffers serve all clients.
pub struct ReaderPool {
    idle: Mutex<Vec<RequestReader>>,
    template: RequestReader,
}

impl ReaderPool {
    /// Hands out copies of a reader.
    pub fn new(template: RequestReader) -> Self {
        Self {
            idle: Mutex::default(),
            template,
        }
    }

    /// Lends a reader. If the work panics, the reader is not used again.
    pub fn with<T>(&self, work: impl FnOnce(&mut RequestReader) -> T) -> T {
        let lent = lock(&self.idle).pop();
        let mut reader = lent.unwrap_or_else(|| self.template.clone());
        let result = work(&mut reader);
        lock(&self.idle).push(reader);
        result
    }
}

enum LineControl {
    /// A document, and how to answer it.
    Terms(RequestTerms),
    Request(ServiceRequest),
}

#[derive(Default)]
struct RequestTerms {
    add: Option<bool>,
    min_similarity: Option<Ratio>,
    top: Option<usize>,
}

type RequestFields<'l> = BTreeMap<Cow<'l, str>, &'l RawValue>;

/// Reads the fields that are not those of a document. `remove` and `hello` count only as the single
/// field of a line. The fields `add`, `min_similarity` and `top` of a document must be valid; all
/// other fields are ignored.
fn control(line: &[u8]) -> Result<LineControl, String> {
    static NAMES: LazyLock<[Finder<'static>; 5]> = LazyLock::new(|| {
        [
            "\"add\"",
            "\"remove\"",
            "\"hello\"",
            "\"min_similarity\"",
            "\"top\"",
        ]
        .map(Finder::new)
    });
    if NAMES.iter().all(|name| name.find(line).is_none()) {
        return Ok(LineControl::Terms(RequestTerms::default()));
    }
    // The parser of documents reports invalid JSON.
    let fields: RequestFields<'_> = serde_json::from_slice(line).unwrap_or_default();
    match fields.first_key_value() {
        Some((name, value)) if fields.len() == 1 && name == "remove" => {
            removal(value).map(LineControl::Request)
        }
        Some((name, _)) if fields.len() == 1 && name == "hello" => {
            field(&fields, "hello", "1", |value| (value == "1").then_some(()))?;
            Ok(LineControl::Request(ServiceRequest::Hello))
        }
        _ => Ok(LineControl::Terms(RequestTerms {
            add: field(&fields, "add", "true or false", |value| value.parse().ok())?,
            min_similarity: field(
                &fields,
                "min_similarity",
                "a similarity from 0 to 1, such as 0.94 or \"94%\"",
                |value| value.trim_matches('"').parse().ok(),
            )?,
            top: field(&fields, "top", "a whole number from 1 on", |value| {
                value.parse().ok().filter(|&top| top > 0)
            })?,
        })),
    }
}

/// The value of a field, if it exists; it must be valid.
fn field<T>(
    fields: &RequestFields<'_>,
    name: &str,
    expected: &str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, String> {
    let Some(value) = fields.get(name) else {
        return Ok(None);
    };
    let shown = || value.get().chars().take(SHOWN_CHARS).collect::<String>();
    read(value.get())
        .map(Some)
        .ok_or_else(|| format!("the field '{name}' is {}, it must be {expected}", shown()))
}

/// An id is a string, or the digits of a number.
fn removal(value: &RawValue) -> Result<ServiceRequest, String> {
    let text = value.get();
    if let Ok(id) = serde_json::from_str::<Cow<'_, str>>(text) {
        return Ok(ServiceRequest::Remove(id.into()));
    }
    if serde_json::from_str::<serde_json::Number>(text).is_ok() {
        return Ok(ServiceRequest::Remove(text.into()));
    }
    Err(format!(
        "the field 'remove' is {}, it must be an id",
        text.chars().take(SHOWN_CHARS).collect::<String>()
    ))
}

/// The characters of an invalid value that a message shows.
const SHOWN_CHARS: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::token::{Rule, Tokenizer};

    fn read(line: &str) -> Option<ServiceRequest> {
        let scheme = PrintScheme {
            tokens: Tokenizer::new(Rule::Word, false).scheme(),
        };
        let limits = MatchLimits {
            min_similarity: "0.9".parse().unwrap(),
            top: 3,
        };
        RequestReader::new(&corpus::Options::default(), &scheme, limits)
            .unwrap()
            .read(&mut line.as_bytes().to_vec(), 7)
    }

    fn outcome(line: &str) -> String {
        match read(line) {
            Some(ServiceRequest::Like {
                id,
                print,
                add,
                min_similarity: None,
                top: None,
            }) => format!("{id} {} {add:?}", print.is_some()),
            Some(ServiceRequest::Like {
                id,
                min_similarity,
                top,
                ..
            }) => {
                format!("{id} {:?} {top:?}", min_similarity.map(Ratio::to_f64))
            }
            Some(ServiceRequest::Wrong(what)) => what,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_line_is_one_request() {
        let print = "0".repeat(64);
        assert_eq!(outcome(r#"{"id":"a","text":"b"}"#), "a true None");
        assert_eq!(
            outcome(r#"{"id":"a","text":"...","add":true}"#),
            "a false Some(true)"
        );
        assert_eq!(
            outcome(r#"{"text":"b", "add" : false}"#),
            "-:7 true Some(false)"
        );
        assert_eq!(
            outcome(&format!(r#"{{"doc":"a","print":"{print}","add":false}}"#)),
            "a true Some(false)"
        );
        assert_eq!(outcome(r#"{"doc":"a","tokens":["x"]}"#), "a true None");
        assert_eq!(
            read(r#"{"remove":"a"}"#),
            Some(ServiceRequest::Remove("a".into()))
        );
        assert_eq!(
            read(r#"{"remove":5}"#),
            Some(ServiceRequest::Remove("5".into()))
        );
        assert_eq!(read(r#"{"hello":1}"#), Some(ServiceRequest::Hello));
        for nothing in [
            "",
            " \r",
            r#"{"end":{"records":1}}"#,
            r#"{"dedup":"prints","version":1,"scheme":"word@18.0 minhash:256@2"}"#,
        ] {
            assert_eq!(read(nothing), None, "{nothing}");
        }
    }

    /// Documents may have any fields; only three of them say how to answer.
    #[test]
    fn fields_of_documents_are_not_commands() {
        assert_eq!(
            outcome(r#"{"id":"a","text":"b","remove":["c"],"hello":"d"}"#),
            "a true None"
        );
        assert_eq!(
            outcome(r#"{"id":"a","text":"say \"add\" and \"remove\""}"#),
            "a true None"
        );
    }

    #[test]
    fn a_request_may_restrict_the_answer() {
        assert_eq!(
            outcome(r#"{"id":"a","text":"b","min_similarity":0.95}"#),
            "a Some(0.95) None"
        );
        assert_eq!(
            outcome(r#"{"id":"a","text":"b","min_similarity":"90%","top":3}"#),
            "a Some(0.9) Some(3)"
        );
        assert_eq!(
            outcome(r#"{"id":"a","text":"b","min_similarity":1,"top":1}"#),
            "a Some(1.0) Some(1)"
        );
    }

    /// None of them is silently ignored.
    #[test]
    fn fields_with_an_invalid_value_are_named() {
        let print = "0".repeat(64);
        let similarity = "it must be a similarity from 0 to 1, such as 0.94 or \"94%\"";
        for (field, expected) in [
            (
                r#""add":"false""#,
                r#"the field 'add' is "false", it must be true or false"#.to_owned(),
            ),
            (
                r#""add":0"#,
                "the field 'add' is 0, it must be true or false".to_owned(),
            ),
            (
                r#""add":null"#,
                "the field 'add' is null, it must be true or false".to_owned(),
            ),
            (
                r#""min_similarity":94"#,
                format!("the field 'min_similarity' is 94, {similarity}"),
            ),
            (
                r#""min_similarity":"high""#,
                format!("the field 'min_similarity' is \"high\", {similarity}"),
            ),
            (
                r#""min_similarity":0.5"#,
                "the field 'min_similarity' is 0.5, the service answers from 0.9 on".to_owned(),
            ),
            (
                r#""top":4"#,
                "the field 'top' is 4, the service gives the best 3".to_owned(),
            ),
            (
                r#""top":"all""#,
                r#"the field 'top' is "all", it must be a whole number from 1 on"#.to_owned(),
            ),
            (
                r#""top":0"#,
                "the field 'top' is 0, it must be a whole number from 1 on".to_owned(),
            ),
            (
                r#""top":1.5"#,
                "the field 'top' is 1.5, it must be a whole number from 1 on".to_owned(),
            ),
        ] {
            assert_eq!(
                outcome(&format!(r#"{{"id":"a","text":"b",{field}}}"#)),
                format!("line 7: {expected}")
            );
            assert_eq!(
                outcome(&format!(r#"{{"doc":"a","print":"{print}",{field}}}"#)),
                format!("line 7: {expected}")
            );
        }
        assert_eq!(
            outcome(r#"{"remove":["a"]}"#),
            r#"line 7: the field 'remove' is ["a"], it must be an id"#
        );
        assert_eq!(
            outcome(r#"{"hello":"you"}"#),
            r#"line 7: the field 'hello' is "you", it must be 1"#
        );
    }

    #[test]
    fn errors_name_the_number_of_the_line() {
        assert_eq!(outcome("x"), "line 7: not JSON: expected value at column 1");
        assert_eq!(
            outcome(r#"{"id":"a"}"#),
            "line 7: no field 'text' with a text"
        );
        assert_eq!(
            outcome(r#"{"doc":"a","blots":["1"]}"#),
            "line 7: blots, where documents, tokens or prints are expected"
        );
        assert!(
            outcome(r#"{"dedup":"prints","version":1,"scheme":"line@18.0 minhash:256@2"}"#)
                .starts_with("line 7: scheme is 'line@18.0")
        );
        assert!(outcome(r#"{"add":true}"#).starts_with("line 7: no field"));
    }
}
