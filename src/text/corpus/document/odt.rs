//! OpenDocument text and presentations (`.odt`, `.odp`), as archives and as single XML files (`.fodt`, `.fodp`).
//!
//! Text is in `text:p` and `text:h`, with white space folded. Comments are in `office:annotation`. Deleted text is in
//! `text:tracked-changes`; LibreOffice leaves it in the body of single XML files, between the marks of the change. A
//! paragraph inside a paragraph belongs to a text box or a shape.

use std::{collections::HashSet, path::Path};

use memchr::memmem;

use super::{
    DocumentKind, ExtractError,
    flow::TextFlow,
    has_extension,
    xml_text::{Element, Visit, XmlVisitor, walk},
    zip_member::{MOST_INDEX_BYTES, ZipPackage, is_zip, media_type},
};

/// Texts and presentations differ by their names only.
pub struct OpenDocument {
    name: &'static str,
    extensions: &'static [&'static str],
    /// What follows `application/vnd.oasis.opendocument.`
    media_type: &'static str,
}

pub const ODT: OpenDocument = OpenDocument {
    name: "odt",
    extensions: &["odt", "ott", "odm", "fodt"],
    media_type: "text",
};

pub const ODP: OpenDocument = OpenDocument {
    name: "odp",
    extensions: &["odp", "otp", "fodp"],
    media_type: "presentation",
};

const MEDIA_TYPE: &str = "application/vnd.oasis.opendocument.";

impl DocumentKind for OpenDocument {
    fn name(&self) -> &'static str {
        self.name
    }

    fn extensions(&self) -> &'static [&'static str] {
        self.extensions
    }

    fn recognises(&self, head: &[u8], name: &Path) -> bool {
        let media = [MEDIA_TYPE, self.media_type].concat();
        if let Some(found) = media_type(head) {
            return found.starts_with(media.as_bytes());
        }
        if is_zip(head) {
            return has_extension(self, name);
        }
        let is_named = |text: &[u8]| memmem::find(head, text).is_some();
        is_xml(head)
            && is_named(b":xmlns:office:1.0")
            && [b'"', b'\'']
                .iter()
                .any(|&quote| is_named(&[b"mimetype=", &[quote][..], media.as_bytes()].concat()))
    }

    fn extract(&self, bytes: &[u8], most_bytes: u64) -> Result<String, ExtractError> {
        let mut reader = OpenDocumentReader {
            flow: TextFlow::new(most_bytes),
            is_in_body: false,
            has_body: false,
            nesting: Vec::new(),
            region: None,
            deletions: HashSet::new(),
            deletion: None,
        };
        if !is_zip(bytes) {
            walk(bytes, "XML", &mut reader)?;
            return reader.finish("XML");
        }
        let mut package = ZipPackage::open(bytes, most_bytes)?;
        ensure_is_not_encrypted(&mut package)?;
        let Some(member) = package.member("content.xml", u64::MAX)? else {
            return Err(ExtractError::damaged(
                "content.xml",
                "the archive has no such part",
            ));
        };
        walk(member, "content.xml", &mut reader)?;
        reader.finish("content.xml")
    }
}

fn is_xml(head: &[u8]) -> bool {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    head.trim_ascii_start().starts_with(b"<")
}

/// The manifest tells for each encrypted member how to decrypt it.
fn ensure_is_not_encrypted(package: &mut ZipPackage<'_>) -> Result<(), ExtractError> {
    struct Manifest;
    impl XmlVisitor for Manifest {
        fn open(&mut self, name: &str, _: &Element<'_>) -> Result<Visit, ExtractError> {
            match name {
                "encryption-data" => Err(ExtractError::Encrypted),
                _ => Ok(Visit::Enter),
            }
        }
    }
    let part = "META-INF/manifest.xml";
    match package.member(part, MOST_INDEX_BYTES)? {
        Some(member) => walk(member, part, &mut Manifest),
        None => Ok(()),
    }
}

/// What a paragraph is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nesting {
    Paragraph,
    BoxParagraph,
    Note,
}

struct OpenDocumentReader {
    flow: TextFlow,
    is_in_body: bool,
    has_body: bool,
    nesting: Vec<Nesting>,
    /// The tracked change that is being described.
    region: Option<String>,
    /// The tracked changes that delete something.
    deletions: HashSet<String>,
    /// The deletion whose text is being read.
    deletion: Option<String>,
}

impl OpenDocumentReader {
    fn finish(self, part: &str) -> Result<String, ExtractError> {
        if !self.has_body {
            return Err(ExtractError::damaged(part, "it has no body (office:body)"));
        }
        self.flow.finish()
    }

    fn open_paragraph(&mut self) {
        let nesting = match self.nesting.last() {
            None | Some(Nesting::Note) => Nesting::Paragraph,
            Some(Nesting::Paragraph | Nesting::BoxParagraph) => {
                self.flow.begin_box();
                Nesting::BoxParagraph
            }
        };
        self.nesting.push(nesting);
    }

    fn close_paragraph(&mut self) {
        match self.nesting.pop() {
            Some(Nesting::BoxParagraph) => self.flow.end(),
            _ if self.deletion.is_some() => {}
            _ => self.flow.end_paragraph(),
        }
    }

    fn is_in_text(&self) -> bool {
        let is_in_paragraph = self
            .nesting
            .last()
            .is_some_and(|last| *last != Nesting::Note);
        is_in_paragraph && self.deletion.is_none()
    }

    /// Elements about tracked changes.
    fn change(&mut self, name: &str, element: &Element<'_>) -> Option<Visit> {
        match name {
            "changed-region" => self.region = element.attribute("id"),
            "deletion" => {
                self.deletions.extend(self.region.take());
                return Some(Visit::Skip);
            }
            "insertion" | "format-change" => return Some(Visit::Skip),
            "change-start" if self.deletion.is_none() => {
                let id = element.attribute("change-id");
                self.deletion = id.filter(|id| self.deletions.contains(id));
            }
            "change-end" if self.deletion == element.attribute("change-id") => self.deletion = None,
            _ => return None,
        }
        Some(Visit::Enter)
    }

    /// Spaces in a row; a number that is too high to be meant is not followed.
    fn spaces(&mut self, element: &Element<'_>) -> Result<(), ExtractError> {
        let count = element.attribute("c").and_then(|count| count.parse().ok());
        let count: usize = count.unwrap_or(1);
        self.flow.push(&" ".repeat(count.clamp(1, 256)))
    }
}

/// Elements whose text is not part of the body.
fn is_aside(name: &str, element: &Element<'_>) -> bool {
    match name {
        "annotation" | "note-citation" | "ruby-text" | "binary-data" | "desc" | "forms"
        | "scripts" | "event-listeners" | "number" => true,
        // Not the field with the title of the document.
        "title" => !element.has_prefix("text"),
        "notes" => element.has_prefix("presentation"),
        // Templates for indexes: `text:table-of-content-source`.
        _ => name.ends_with("-source"),
    }
}

impl XmlVisitor for OpenDocumentReader {
    fn open(&mut self, name: &str, element: &Element<'_>) -> Result<Visit, ExtractError> {
        if !self.is_in_body {
            self.is_in_body = name == "body";
            self.has_body |= self.is_in_body;
            return Ok(match name {
                "meta" | "settings" | "styles" | "automatic-styles" | "master-styles"
                | "font-face-decls" | "scripts" => Visit::Skip,
                _ => Visit::Enter,
            });
        }
        if is_aside(name, element) {
            return Ok(Visit::Skip);
        }
        if let Some(visit) = self.change(name, element) {
            return Ok(visit);
        }
        match name {
            "p" | "h" => self.open_paragraph(),
            "note-body" => {
                self.nesting.push(Nesting::Note);
                self.flow.begin_note();
            }
            "s" if self.is_in_text() => self.spaces(element)?,
            "tab" if self.is_in_text() => self.flow.push("\t")?,
            "line-break" => self.flow.new_line(),
            _ => {}
        }
        Ok(Visit::Enter)
    }

    fn close(&mut self, name: &str) -> Result<(), ExtractError> {
        match name {
            _ if !self.is_in_body => {}
            "body" => self.is_in_body = false,
            "p" | "h" => self.close_paragraph(),
            "note-body" => {
                self.nesting.pop();
                self.flow.end();
            }
            _ => {}
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), ExtractError> {
        if !self.is_in_text() {
            return Ok(());
        }
        let is_space = |c| matches!(c, ' ' | '\t' | '\r' | '\n');
        let mut rest = text;
        while !rest.is_empty() {
            let word = rest.find(is_space).unwrap_or(rest.len());
            self.flow.push(&rest[..word])?;
            rest = &rest[word..];
            if rest.is_empty() {
                break;
            }
            if !self.flow.is_after_space() {
                self.flow.push(" ")?;
            }
            rest = rest.trim_start_matches(is_space);
        }
        Ok(())
    }
}
