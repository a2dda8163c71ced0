//! PowerPoint files (`.pptx`): PresentationML.
//!
//! The slides are read in the order of the presentation, the shapes of a slide in the order of the file, which programs
//! show from back to front; then the diagrams of the slide. Dates, footers and slide numbers are not text, and neither
//! are speaker notes: the audience does not see them.

use std::{collections::HashMap, path::Path};

use super::{
    DocumentKind, ExtractError,
    alternatives::Alternatives,
    flow::TextFlow,
    has_extension,
    ooxml::{self, COMPOUND_FILE},
    xml_text::{Element, Visit, XmlVisitor, walk},
    zip_member::{MOST_INDEX_BYTES, ZipPackage, is_zip},
};

pub struct Pptx;

impl DocumentKind for Pptx {
    fn name(&self) -> &'static str {
        "pptx"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["pptx", "pptm", "ppsx", "ppsm", "potx", "potm"]
    }

    fn recognises(&self, head: &[u8], name: &Path) -> bool {
        match ooxml::folder_in(head) {
            Some(folder) => folder == "ppt/",
            None => (is_zip(head) || head.starts_with(COMPOUND_FILE)) && has_extension(self, name),
        }
    }

    fn extract(&self, bytes: &[u8], most_bytes: u64) -> Result<String, ExtractError> {
        let (mut package, main) = ooxml::open(bytes, most_bytes, "ppt/presentation.xml")?;
        let mut list = SlideList::default();
        if let Some(member) = package.member(&main, MOST_INDEX_BYTES)? {
            walk(member, &main, &mut list)?;
        }
        if !list.is_presentation {
            let reason = "it is no presentation (p:presentation)";
            return Err(ExtractError::damaged(&main, reason));
        }
        let related = ooxml::relationships(&mut package, &main)?;
        let related: HashMap<&str, &str> = related
            .iter()
            .map(|relationship| (relationship.id.as_str(), relationship.target.as_str()))
            .collect();
        let mut reader = SlideReader::new(TextFlow::new(most_bytes));
        for id in &list.ids {
            let part = related.get(id.as_str()).copied().ok_or_else(|| {
                ExtractError::damaged(&main, format!("slide {id:?} has no relationship"))
            })?;
            read_slide(&mut package, part, &mut reader)?;
        }
        reader.flow.finish()
    }
}

fn read_slide(
    package: &mut ZipPackage<'_>,
    part: &str,
    reader: &mut SlideReader,
) -> Result<(), ExtractError> {
    let member = package.member(part, u64::MAX)?;
    let member =
        member.ok_or_else(|| ExtractError::damaged(part, "the archive has no such part"))?;
    walk(member, part, reader)?;
    reader.flow.end_paragraph();
    for relationship in ooxml::relationships(package, part)? {
        if relationship.kind != "diagramData" {
            continue;
        }
        if let Some(member) = package.member(&relationship.target, u64::MAX)? {
            walk(member, &relationship.target, reader)?;
        }
    }
    Ok(())
}

/// The relationships of the slides, in order.
#[derive(Default)]
struct SlideList {
    is_presentation: bool,
    ids: Vec<String>,
}

impl XmlVisitor for SlideList {
    fn open(&mut self, name: &str, element: &Element<'_>) -> Result<Visit, ExtractError> {
        self.is_presentation |= name == "presentation";
        if name == "sldId" {
            // The element has an `id` of its own before that of the relationship.
            self.ids.extend(element.prefixed_attribute("id"));
        }
        Ok(Visit::Enter)
    }
}

struct SlideReader {
    flow: TextFlow,
    alternatives: Alternatives,
    is_in_paragraph: bool,
    is_in_text: bool,
    /// The shape holds the date, the footer or the number of the slide.
    is_footer: bool,
}

impl SlideReader {
    fn new(flow: TextFlow) -> Self {
        Self {
            flow,
            alternatives: Alternatives::default(),
            is_in_paragraph: false,
            is_in_text: false,
            is_footer: false,
        }
    }
}

impl XmlVisitor for SlideReader {
    fn open(&mut self, name: &str, element: &Element<'_>) -> Result<Visit, ExtractError> {
        if let Some(visit) = self.alternatives.open(name) {
            return Ok(visit);
        }
        let attribute = |name| element.attribute(name).unwrap_or_default();
        match name {
            "sp" | "graphicFrame" => self.is_footer = false,
            "ph" => {
                self.is_footer =
                    matches!(attribute("type").as_str(), "ftr" | "sldNum" | "dt" | "hdr");
            }
            "txBody" if self.is_footer => return Ok(Visit::Skip),
            "fld" => {
                let kind = attribute("type");
                if kind.starts_with("slidenum") || kind.starts_with("datetime") {
                    return Ok(Visit::Skip);
                }
            }
            // An element `t` is around the paragraphs of a diagram as well.
            "t" => self.is_in_text = self.is_in_paragraph,
            "br" => self.flow.new_line(),
            "p" => self.is_in_paragraph = true,
            "pPr" | "rPr" | "endParaRPr" | "lstStyle" | "bodyPr" | "timing" => {
                return Ok(Visit::Skip);
            }
            _ => {}
        }
        Ok(Visit::Enter)
    }

    fn close(&mut self, name: &str) -> Result<(), ExtractError> {
        self.alternatives.close(name);
        match name {
            "t" => self.is_in_text = false,
            "p" => {
                self.is_in_paragraph = false;
                self.flow.end_paragraph();
            }
            _ => {}
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), ExtractError> {
        if self.is_in_text {
            // PowerPoint writes a line break inside of text as a vertical tab.
            self.flow.push(&text.replace('\u{b}', "\n"))?;
        }
        Ok(())
    }
}
