//! XML as a walk over elements and text, without recursion and without expanding entities.

use std::{
    borrow::Cow,
    io::{BufRead, BufReader, Cursor, ErrorKind, Read},
};

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};
use quick_xml::{
    Reader, XmlVersion,
    escape::resolve_xml_entity,
    events::{BytesRef, BytesStart, Event, attributes::Attribute},
};

use super::{ExtractError, zip_member::of_io};

/// Office files stay below a hundred.
const MOST_DEPTH: usize = 4096;

/// The longest tag, comment or text without a tag in it.
const MOST_EVENT_BYTES: u64 = 64 << 20;

/// Whether to read what is in an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visit {
    Enter,
    Skip,
}

/// Receives the elements of a part. Names come without their prefix, since a prefix can be any.
pub trait XmlVisitor {
    fn open(&mut self, name: &str, element: &Element<'_>) -> Result<Visit, ExtractError>;

    /// The end of an element that was entered.
    fn close(&mut self, _name: &str) -> Result<(), ExtractError> {
        Ok(())
    }

    /// Text, as often as there is some without a tag or entity in it.
    fn text(&mut self, _text: &str) -> Result<(), ExtractError> {
        Ok(())
    }
}

/// An opening tag.
pub struct Element<'a>(&'a BytesStart<'a>);

impl Element<'_> {
    /// The value of the first attribute with this name, whatever its prefix.
    pub fn attribute(&self, name: &str) -> Option<String> {
        self.find(name, |_| true)
    }

    /// The value of the first attribute with this name after a prefix.
    pub fn prefixed_attribute(&self, name: &str) -> Option<String> {
        self.find(name, |attribute| attribute.key.prefix().is_some())
    }

    fn find(&self, name: &str, is_right: impl Fn(&Attribute<'_>) -> bool) -> Option<String> {
        let mut attributes = self.0.attributes();
        let mut attributes = attributes.with_checks(false).flatten();
        let found = attributes
            .find(|attribute| attribute.key.local_name().as_ref() == name && is_right(attribute))?;
        let value = found.normalized_value(XmlVersion::Explicit1_0);
        Some(value.map_or_else(|_| found.value.to_string(), Cow::into_owned))
    }

    /// Whether the name has this prefix.
    pub fn has_prefix(&self, prefix: &str) -> bool {
        self.0
            .name()
            .prefix()
            .is_some_and(|found| found.as_ref() == prefix)
    }
}

/// Walks over all elements; `part` names the XML in messages.
pub fn walk<'a>(
    source: impl Read + 'a,
    part: &str,
    visitor: &mut impl XmlVisitor,
) -> Result<(), ExtractError> {
    let source = decoded(source).map_err(|error| of_io(part, &error))?;
    let mut reader = Reader::from_reader(EventBound {
        source,
        event_bytes: 0,
    });
    let config = reader.config_mut();
    config.expand_empty_elements = true;
    config.allow_dangling_amp = true;
    let mut buffer = Vec::new();
    let mut depth: usize = 0;
    // The depth of an element that is skipped.
    let mut skipped: Option<usize> = None;
    loop {
        buffer.clear();
        reader.get_mut().event_bytes = 0;
        let event = match reader.read_event_into(&mut buffer) {
            Ok(event) => event,
            Err(error) => return Err(of_xml(part, reader.error_position(), error)),
        };
        match event {
            Event::Eof if depth > 0 => {
                return Err(ExtractError::damaged(part, "ends inside an element"));
            }
            Event::Eof => return Ok(()),
            // No program writes definitions of entities into office files and books; those that multiply are an attack.
            Event::DocType(declaration)
                if memchr::memmem::find(declaration.as_bytes(), b"<!ENTITY").is_some() =>
            {
                return Err(ExtractError::damaged(part, "defines XML entities"));
            }
            Event::Start(start) => {
                depth += 1;
                if depth > MOST_DEPTH {
                    let reason = format!("over {MOST_DEPTH} elements inside each other");
                    return Err(ExtractError::damaged(part, reason));
                }
                if skipped.is_none()
                    && visitor.open(start.local_name().as_ref(), &Element(&start))? == Visit::Skip
                {
                    skipped = Some(depth);
                }
            }
            Event::End(end) => {
                if skipped.is_none() {
                    visitor.close(end.local_name().as_ref())?;
                } else if skipped == Some(depth) {
                    skipped = None;
                }
                depth = depth.saturating_sub(1);
            }
            _ if skipped.is_some() => {}
            Event::Text(text) => visitor.text(&text.xml10_content())?,
            Event::CData(text) => visitor.text(&text.xml10_content())?,
            Event::GeneralRef(reference) => visitor.text(&resolve_entity(&reference))?,
            _ => {}
        }
    }
}

/// The text of a reference. XML has five names and numbers; those of HTML are taken as well, any other name stays as it
/// is written: parts that define entities are refused, so nothing multiplies.
fn resolve_entity(reference: &BytesRef<'_>) -> String {
    if let Ok(Some(c)) = reference.resolve_char_ref() {
        return c.to_string();
    }
    let name = reference.xml10_content();
    if let Some(text) = resolve_xml_entity(&name) {
        return text.to_owned();
    }
    htmlize::unescape(format!("&{name};")).into_owned()
}

fn of_xml(part: &str, at: u64, error: quick_xml::Error) -> ExtractError {
    match error {
        quick_xml::Error::Io(error) => of_io(part, &error),
        error => ExtractError::Damaged(format!("{part}: byte {at}: {error}")),
    }
}

/// Ends in an error when one event takes too many bytes, since events are held in memory.
struct EventBound<R> {
    source: R,
    event_bytes: u64,
}

impl<R: BufRead> Read for EventBound<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.fill_buf()?.read(buffer)?;
        self.consume(read);
        Ok(read)
    }
}

impl<R: BufRead> BufRead for EventBound<R> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        if self.event_bytes > MOST_EVENT_BYTES {
            return Err(ErrorKind::FileTooLarge.into());
        }
        self.source.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.event_bytes += amount as u64;
        self.source.consume(amount);
    }
}

/// XML in UTF-8 as it comes; in another encoding, which is rare, all of it is decoded first.
fn decoded<'a>(source: impl Read + 'a) -> std::io::Result<Box<dyn BufRead + 'a>> {
    let mut source = BufReader::with_capacity(32 << 10, source);
    let encoding = encoding_of_xml(source.fill_buf()?);
    if encoding == UTF_8 {
        return Ok(Box::new(source));
    }
    let mut bytes = Vec::new();
    source.read_to_end(&mut bytes)?;
    let (text, _, _) = encoding.decode(&bytes);
    Ok(Box::new(Cursor::new(text.into_owned().into_bytes())))
}

/// The encoding that a byte-order mark or the XML declaration names.
pub fn encoding_of_xml(head: &[u8]) -> &'static Encoding {
    if let Some((encoding, _)) = Encoding::for_bom(head) {
        return encoding;
    }
    match head {
        [b'<', 0, ..] => return UTF_16LE,
        [0, b'<', ..] => return UTF_16BE,
        _ => {}
    }
    declared(head).unwrap_or(UTF_8)
}

/// What `<?xml … encoding="…"?>` says. UTF-16 cannot be true of bytes in which the declaration could be read.
fn declared(head: &[u8]) -> Option<&'static Encoding> {
    let declaration = head.trim_ascii_start().strip_prefix(b"<?xml")?;
    let declaration = &declaration[..memchr::memmem::find(declaration, b"?>")?];
    let value = &declaration[memchr::memmem::find(declaration, b"encoding")? + 8..];
    let value = value
        .trim_ascii_start()
        .strip_prefix(b"=")?
        .trim_ascii_start();
    let (&quote, value) = value.split_first()?;
    let label = &value[..memchr::memchr(quote, value)?];
    Encoding::for_label(label).filter(|encoding| encoding.is_ascii_compatible())
}
