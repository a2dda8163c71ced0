//! Books (`.epub`): pages of HTML in the order of the spine.
//!
//! Tables of contents are left out: they repeat the headings. Pages outside of the main order (`linear="no"`) are read,
//! since notes and answers are there.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use super::{
    DocumentKind, ExtractError,
    flow::TextFlow,
    has_extension,
    html::{body_text, decode_html},
    xml_text::{Element, Visit, XmlVisitor, walk},
    zip_member::{
        MOST_INDEX_BYTES, ZipPackage, is_zip, media_type, names_in, percent_decode, resolve,
    },
};

pub struct Epub;

const CONTAINER: &str = "META-INF/container.xml";

impl DocumentKind for Epub {
    fn name(&self) -> &'static str {
        "epub"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["epub"]
    }

    fn recognises(&self, head: &[u8], name: &Path) -> bool {
        if let Some(found) = media_type(head) {
            return found.starts_with(b"application/epub+zip");
        }
        is_zip(head)
            && (has_extension(self, name)
                || names_in(head).any(|name| name == CONTAINER.as_bytes()))
    }

    fn extract(&self, bytes: &[u8], most_bytes: u64) -> Result<String, ExtractError> {
        let mut package = ZipPackage::open(bytes, most_bytes)?;
        let mut container = Container::default();
        read_index(&mut package, CONTAINER, &mut container)?;
        let opf = container.root.ok_or_else(|| {
            ExtractError::damaged(CONTAINER, "it names no package document (rootfile)")
        })?;
        let mut book = Book::default();
        read_index(&mut package, &opf, &mut book)?;
        if book.spine.is_empty() {
            return Err(ExtractError::damaged(&opf, "its spine names no page"));
        }
        let encrypted = encrypted_parts(&mut package)?;
        let mut flow = TextFlow::new(most_bytes);
        for id in &book.spine {
            let item = book.items.get(id).ok_or_else(|| {
                ExtractError::damaged(
                    &opf,
                    format!("the spine names {id:?}, the manifest does not"),
                )
            })?;
            if !item.is_page {
                continue;
            }
            let part = part_of(&mut package, &opf, &item.href);
            if encrypted.contains(&part) {
                return Err(ExtractError::Encrypted);
            }
            let page = package
                .read(&part, most_bytes)?
                .ok_or_else(|| ExtractError::damaged(&part, "the archive has no such part"))?;
            flow.push(&body_text(&decode_html(&page)))?;
            flow.end_paragraph();
        }
        flow.finish()
    }
}

fn read_index(
    package: &mut ZipPackage<'_>,
    part: &str,
    visitor: &mut impl XmlVisitor,
) -> Result<(), ExtractError> {
    match package.member(part, MOST_INDEX_BYTES)? {
        Some(member) => walk(member, part, visitor),
        None => Err(ExtractError::damaged(part, "the archive has no such part")),
    }
}

/// The member that an address in the package document names; addresses are percent-encoded, by most programs.
fn part_of(package: &mut ZipPackage<'_>, opf: &str, href: &str) -> String {
    let decoded = resolve(opf, &percent_decode(href));
    if package.has(&decoded) {
        return decoded;
    }
    let raw = resolve(opf, href);
    if package.has(&raw) { raw } else { decoded }
}

/// Members that are encrypted, as copies bought from some shops are. Fonts are often among them, and no loss.
fn encrypted_parts(package: &mut ZipPackage<'_>) -> Result<HashSet<String>, ExtractError> {
    let mut list = EncryptedList::default();
    let part = "META-INF/encryption.xml";
    if package.has(part) {
        read_index(package, part, &mut list)?;
    }
    Ok(list.parts)
}

#[derive(Default)]
struct EncryptedList {
    parts: HashSet<String>,
}

impl XmlVisitor for EncryptedList {
    fn open(&mut self, name: &str, element: &Element<'_>) -> Result<Visit, ExtractError> {
        if name == "CipherReference" {
            let address = element.attribute("URI");
            self.parts
                .extend(address.map(|address| percent_decode(&address)));
        }
        Ok(Visit::Enter)
    }
}

/// Where the package document is.
#[derive(Default)]
struct Container {
    root: Option<String>,
}

impl XmlVisitor for Container {
    fn open(&mut self, name: &str, element: &Element<'_>) -> Result<Visit, ExtractError> {
        if name == "rootfile" && self.root.is_none() {
            let path = element.attribute("full-path");
            self.root = path.map(|path| resolve("", &path));
        }
        Ok(Visit::Enter)
    }
}

/// The package document: all items by id, and the order of those that are read.
#[derive(Default)]
struct Book {
    items: HashMap<String, BookItem>,
    spine: Vec<String>,
}

struct BookItem {
    href: String,
    /// A page with text, and not a table of contents.
    is_page: bool,
}

impl XmlVisitor for Book {
    fn open(&mut self, name: &str, element: &Element<'_>) -> Result<Visit, ExtractError> {
        let attribute = |name| element.attribute(name).unwrap_or_default();
        match name {
            "item" => {
                let media = attribute("media-type").to_ascii_lowercase();
                let is_navigation = attribute("properties")
                    .split_ascii_whitespace()
                    .any(|property| property == "nav");
                let is_html =
                    media.contains("html") || media.contains("dtbook") || media.is_empty();
                let item = BookItem {
                    href: attribute("href"),
                    is_page: is_html && !is_navigation,
                };
                self.items.insert(attribute("id"), item);
            }
            "itemref" => self.spine.extend(element.attribute("idref")),
            _ => {}
        }
        Ok(Visit::Enter)
    }
}
