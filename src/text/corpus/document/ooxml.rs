//! What docx and pptx have in common: parts of a zip archive that refer to each other by relationships.

use memchr::memmem;

use super::{
    ExtractError,
    xml_text::{Element, Visit, XmlVisitor, walk},
    zip_member::{MOST_INDEX_BYTES, ZipPackage, is_zip, names_in, percent_decode, resolve},
};
use crate::text::corpus::skipped_kind::holds_encrypted_package;

/// A reference from one part to another.
pub struct Relationship {
    pub id: String,
    /// The last step of the type's address: `footnotes`, `slide`.
    pub kind: String,
    /// The name of the part in the archive.
    pub target: String,
}

/// Opens the archive, and finds its main part; `usual` is its name in most files.
pub fn open<'a>(
    bytes: &'a [u8],
    most_bytes: u64,
    usual: &str,
) -> Result<(ZipPackage<'a>, String), ExtractError> {
    ensure_is_no_compound_file(bytes)?;
    let mut package = ZipPackage::open(bytes, most_bytes)?;
    let main = relationships(&mut package, "")?
        .into_iter()
        .find(|relationship| relationship.kind == "officeDocument")
        .map_or_else(|| usual.to_owned(), |relationship| relationship.target);
    if !package.has(&main) {
        return Err(ExtractError::damaged(&main, "the archive has no such part"));
    }
    Ok((package, main))
}

/// The first bytes of an OLE compound file: old Office files, and new ones with a password.
pub const COMPOUND_FILE: &[u8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1";

fn ensure_is_no_compound_file(bytes: &[u8]) -> Result<(), ExtractError> {
    if !bytes.starts_with(COMPOUND_FILE) {
        return Ok(());
    }
    if holds_encrypted_package(bytes) {
        return Err(ExtractError::Encrypted);
    }
    Err(ExtractError::Damaged(
        "byte 0: an old Office file (doc, ppt) under a new name; save it in the new format"
            .to_owned(),
    ))
}

/// The folder of the main part, by the members that begin in `head`; `None` if it is not there, or this is no Office file.
pub fn folder_in(head: &[u8]) -> Option<&'static str> {
    let first = is_zip(head).then(|| names_in(head).next()).flatten()?;
    let folders = ["word/", "ppt/", "xl/"];
    let outer = ["[Content_Types].xml", "_rels/", "docProps/", "customXml/"];
    let is_office = outer
        .iter()
        .chain(&folders)
        .any(|start| first.starts_with(start.as_bytes()));
    let mut found = names_in(head).filter_map(|name| {
        folders
            .into_iter()
            .find(|folder| name.starts_with(folder.as_bytes()))
    });
    // A folder `word` alone may be anything; what makes an Office file is the list of content types.
    let has_types = || {
        memmem::find(head, b"[Content_Types].xml").is_some()
            || memmem::find(head, b"_rels/").is_some()
    };
    found.next().filter(|_| is_office && has_types())
}

/// The relationships of a part, or of the archive for an empty name.
pub fn relationships(
    package: &mut ZipPackage<'_>,
    part: &str,
) -> Result<Vec<Relationship>, ExtractError> {
    let (folder, name) = part.rsplit_once('/').unwrap_or(("", part));
    let separator = if folder.is_empty() { "" } else { "/" };
    let name = format!("{folder}{separator}_rels/{name}.rels");
    let mut list = RelationshipList {
        part,
        found: Vec::new(),
    };
    if let Some(member) = package.member(&name, MOST_INDEX_BYTES)? {
        walk(member, &name, &mut list)?;
    }
    let mut found = list.found;
    for relationship in &mut found {
        if relationship.target.contains('%') && !package.has(&relationship.target) {
            relationship.target = percent_decode(&relationship.target);
        }
    }
    Ok(found)
}

struct RelationshipList<'p> {
    part: &'p str,
    found: Vec<Relationship>,
}

impl XmlVisitor for RelationshipList<'_> {
    fn open(&mut self, name: &str, element: &Element<'_>) -> Result<Visit, ExtractError> {
        if name != "Relationship" || element.attribute("TargetMode").as_deref() == Some("External")
        {
            return Ok(Visit::Enter);
        }
        let kind = element.attribute("Type").unwrap_or_default();
        if let (Some(id), Some(target)) = (element.attribute("Id"), element.attribute("Target")) {
            self.found.push(Relationship {
                id,
                kind: kind.rsplit('/').next().unwrap_or_default().to_owned(),
                target: resolve(self.part, &target),
            });
        }
        Ok(Visit::Enter)
    }
}
