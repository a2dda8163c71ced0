//! Word files (`.docx`): WordprocessingML.
//!
//! Text is in `w:t`, in runs, in paragraphs. Deleted text is in `w:del`, moved text twice: in `w:moveFrom` and
//! `w:moveTo`. A text box is a paragraph inside a paragraph. Notes are in parts of their own, and are read when the body
//! refers to them. Hidden text is read; placeholders that ask for text are not.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use super::{
    DocumentKind, ExtractError,
    alternatives::Alternatives,
    flow::TextFlow,
    has_extension,
    html::{body_text, decode_html},
    ooxml::{self, COMPOUND_FILE, Relationship},
    xml_text::{Element, Visit, XmlVisitor, walk},
    zip_member::{ZipPackage, is_zip},
};

pub struct Docx;

impl DocumentKind for Docx {
    fn name(&self) -> &'static str {
        "docx"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["docx", "docm", "dotx", "dotm"]
    }

    fn recognises(&self, head: &[u8], name: &Path) -> bool {
        match ooxml::folder_in(head) {
            Some(folder) => folder == "word/",
            None => (is_zip(head) || head.starts_with(COMPOUND_FILE)) && has_extension(self, name),
        }
    }

    fn extract(&self, bytes: &[u8], most_bytes: u64) -> Result<String, ExtractError> {
        let (mut package, main) = ooxml::open(bytes, most_bytes, "word/document.xml")?;
        let related = ooxml::relationships(&mut package, &main)?;
        let mut body = WordReader::new(TextFlow::new(most_bytes));
        read_part(&mut package, &main, &mut body)?;
        if !body.has_body {
            return Err(ExtractError::damaged(&main, "it has no body (w:body)"));
        }
        for id in std::mem::take(&mut body.chunks) {
            read_chunk(&mut package, &main, &related, &id, &mut body.flow)?;
        }
        read_notes(&mut package, &related, body)
    }
}

fn read_part(
    package: &mut ZipPackage<'_>,
    part: &str,
    reader: &mut WordReader,
) -> Result<(), ExtractError> {
    let member = package.member(part, u64::MAX)?;
    let member =
        member.ok_or_else(|| ExtractError::damaged(part, "the archive has no such part"))?;
    walk(member, part, reader)
}

/// A part in another format that programs without a Word writer put into a file; its text goes after the body.
fn read_chunk(
    package: &mut ZipPackage<'_>,
    main: &str,
    related: &[Relationship],
    id: &str,
    flow: &mut TextFlow,
) -> Result<(), ExtractError> {
    let part = related.iter().find(|relationship| relationship.id == id);
    let part = part.map_or("", |relationship| relationship.target.as_str());
    let is_html = [".html", ".htm", ".xhtml"]
        .iter()
        .any(|extension| part.to_ascii_lowercase().ends_with(extension));
    if !is_html {
        let reason = format!(
            "text in the embedded file {part:?} cannot be read; save it again with Word or LibreOffice"
        );
        return Err(ExtractError::damaged(main, reason));
    }
    let bytes = package
        .read(part, u64::MAX)?
        .ok_or_else(|| ExtractError::damaged(part, "the archive has no such part"))?;
    flow.new_line();
    flow.push(&body_text(&decode_html(&bytes)))?;
    flow.end_paragraph();
    Ok(())
}

/// Appends the notes that the body refers to, in the order of their references.
fn read_notes(
    package: &mut ZipPackage<'_>,
    related: &[Relationship],
    body: WordReader,
) -> Result<String, ExtractError> {
    let mut flow = body.flow;
    let mut texts = HashMap::new();
    for kind in [NoteKind::Footnote, NoteKind::Endnote] {
        let part = related
            .iter()
            .find(|relationship| relationship.kind == kind.relationship());
        let Some(part) = part.filter(|_| body.notes.iter().any(|(found, _)| *found == kind)) else {
            continue;
        };
        let mut notes = WordReader::new(flow);
        notes.reads = Some(kind);
        notes.wanted = body.wanted.clone();
        read_part(package, &part.target, &mut notes)?;
        flow = notes.flow;
        texts.extend(notes.texts);
    }
    let mut text = flow.finish()?;
    for note in &body.notes {
        text.push_str(texts.get(note).map_or("", String::as_str));
    }
    Ok(text)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum NoteKind {
    Footnote,
    Endnote,
}

impl NoteKind {
    fn relationship(self) -> &'static str {
        match self {
            Self::Footnote => "footnotes",
            Self::Endnote => "endnotes",
        }
    }
}

/// Which note: its kind and its number.
type NoteId = (NoteKind, i64);

/// Reads the body, or a part with notes.
struct WordReader {
    flow: TextFlow,
    alternatives: Alternatives,
    /// For each open paragraph, whether it is in a text box.
    paragraphs: Vec<bool>,
    /// The part has a `w:body`, though it may be empty.
    has_body: bool,
    /// Inside `w:t`.
    is_in_text: bool,
    /// Inside the properties of a paragraph, this many elements deep.
    properties_depth: usize,
    /// The mark at the end of this paragraph is deleted: the next one continues it.
    is_mark_deleted: bool,
    is_placeholder: bool,
    /// Notes that are referred to, in order and each once.
    notes: Vec<NoteId>,
    wanted: HashSet<NoteId>,
    /// Relationships to parts in other formats.
    chunks: Vec<String>,
    /// Set if this is a part with notes.
    reads: Option<NoteKind>,
    note: Option<NoteId>,
    texts: HashMap<NoteId, String>,
}

impl WordReader {
    fn new(flow: TextFlow) -> Self {
        Self {
            flow,
            alternatives: Alternatives::default(),
            paragraphs: Vec::new(),
            has_body: false,
            is_in_text: false,
            properties_depth: 0,
            is_mark_deleted: false,
            is_placeholder: false,
            notes: Vec::new(),
            wanted: HashSet::new(),
            chunks: Vec::new(),
            reads: None,
            note: None,
            texts: HashMap::new(),
        }
    }

    fn refer(&mut self, kind: NoteKind, element: &Element<'_>) {
        let id = element.attribute("id").and_then(|id| id.parse().ok());
        if let Some(id) = id.filter(|_| self.reads.is_none())
            && self.wanted.insert((kind, id))
        {
            self.notes.push((kind, id));
        }
    }

    fn open_paragraph(&mut self) {
        let is_inside = !self.paragraphs.is_empty();
        if is_inside {
            self.flow.begin_box();
        }
        self.paragraphs.push(is_inside);
        self.is_mark_deleted = false;
    }

    fn close_paragraph(&mut self) {
        let is_continued = std::mem::take(&mut self.is_mark_deleted);
        match self.paragraphs.pop() {
            Some(true) => self.flow.end(),
            _ if is_continued => {}
            _ => self.flow.end_paragraph(),
        }
    }

    fn open_note(&mut self, kind: NoteKind, element: &Element<'_>) -> Visit {
        let id = element.attribute("id").and_then(|id| id.parse().ok());
        self.note = id
            .map(|id| (kind, id))
            .filter(|note| self.reads == Some(kind) && self.wanted.contains(note));
        if self.note.is_none() {
            return Visit::Skip;
        }
        self.flow.begin_note();
        Visit::Enter
    }

    fn symbol(&mut self, element: &Element<'_>) -> Result<(), ExtractError> {
        let code = element.attribute("char").unwrap_or_default();
        let c = u32::from_str_radix(&code, 16).ok().and_then(char::from_u32);
        // A private character is a place in a font of symbols, and no text.
        match c {
            Some(c) if !('\u{e000}'..='\u{f8ff}').contains(&c) && c != '\0' => {
                self.flow.push_char(c)
            }
            _ => Ok(()),
        }
    }
}

impl XmlVisitor for WordReader {
    fn open(&mut self, name: &str, element: &Element<'_>) -> Result<Visit, ExtractError> {
        if self.properties_depth > 0 {
            self.properties_depth += 1;
            self.is_mark_deleted |= matches!(name, "del" | "moveFrom");
            return Ok(Visit::Enter);
        }
        if let Some(visit) = self.alternatives.open(name) {
            return Ok(visit);
        }
        match name {
            "body" => self.has_body = true,
            "t" => self.is_in_text = true,
            "p" => self.open_paragraph(),
            "pPr" => self.properties_depth = 1,
            "tab" | "ptab" => self.flow.push("\t")?,
            "br" | "cr" => self.flow.new_line(),
            "noBreakHyphen" => self.flow.push("\u{2011}")?,
            "sym" => self.symbol(element)?,
            "footnoteReference" => self.refer(NoteKind::Footnote, element),
            "endnoteReference" => self.refer(NoteKind::Endnote, element),
            "footnote" => return Ok(self.open_note(NoteKind::Footnote, element)),
            "endnote" => return Ok(self.open_note(NoteKind::Endnote, element)),
            "altChunk" => self.chunks.extend(element.attribute("id")),
            "sdt" => self.is_placeholder = false,
            "showingPlcHdr" => self.is_placeholder = true,
            "sdtContent" if std::mem::take(&mut self.is_placeholder) => return Ok(Visit::Skip),
            "del" | "moveFrom" | "rPr" | "tblPr" | "tblGrid" | "trPr" | "tcPr" | "sectPr"
            | "rt" => {
                return Ok(Visit::Skip);
            }
            _ => {}
        }
        Ok(Visit::Enter)
    }

    fn close(&mut self, name: &str) -> Result<(), ExtractError> {
        if self.properties_depth > 0 {
            self.properties_depth -= 1;
            return Ok(());
        }
        self.alternatives.close(name);
        match name {
            "t" => self.is_in_text = false,
            "p" => self.close_paragraph(),
            "footnote" | "endnote" => {
                if let Some(note) = self.note.take() {
                    let text = self.flow.take_note();
                    self.texts.insert(note, text);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), ExtractError> {
        if self.is_in_text {
            self.flow.push(text)?;
        }
        Ok(())
    }
}
