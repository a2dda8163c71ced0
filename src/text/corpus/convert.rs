//! Turns files that are not plain text into text.
//!
//! | file | conversion |
//! | --- | --- |
//! | one that a user has an adapter for | that command |
//! | an office document, a book, a notebook, a web page | code of ours (`document`) |
//! | PDF | `pdftotext`; pages without text through `pdftoppm` and `tesseract`, if a language is given |
//! | an image | `tesseract`, if a language is given |
//!
//! Texts that take time to make are kept in a cache.

use super::{
    Options, Records,
    adapter::{Adapter, AdapterLimits},
    document::{DocumentKind, ExtractError, KINDS, text_of_html},
    document_reader::ensure_utf8,
    encoding::TextEncoding,
    skipped_kind::{SkippedKind, TESSERACT, is_plain_text},
    text_cache::{CONVERSION_VERSION, CacheEntry, TextCache},
};
use std::{fs, path::Path, sync::Arc};

/// What accounts call web pages.
const HTML: &str = "html";

/// How a file becomes text.
#[derive(Clone, Copy)]
pub(super) enum Conversion {
    /// By code of ours.
    Document(&'static dyn DocumentKind),
    /// By a command of the user: its place in the list.
    Adapter(usize),
    /// By `pdftotext`.
    Pdf,
    /// By `tesseract`.
    Image(SkippedKind),
}

impl Conversion {
    /// What accounts call files of this kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Document(kind) => kind.name(),
            Self::Adapter(_) => "adapter",
            Self::Pdf => SkippedKind::Pdf.name(),
            Self::Image(kind) => kind.name(),
        }
    }
}

/// Chooses how files become text, and converts them.
#[derive(Clone)]
pub(super) struct Converter {
    records: Option<Records>,
    keep_markup: bool,
    most_bytes: u64,
    encoding: TextEncoding,
    programs: Arc<Programs>,
    cache: Option<TextCache>,
}

/// The programs that convert files, as far as they are installed.
struct Programs {
    adapters: Vec<Adapter>,
    pdf_to_text: Option<Adapter>,
    pdf_to_images: Option<Adapter>,
    recognise: Option<Adapter>,
}

impl Programs {
    fn new(options: &Options) -> Self {
        let limits = options.adapter_limits;
        let adapters = options.adapters.iter();
        let language = options.ocr.as_deref();
        Self {
            // Rules were checked when they were read.
            adapters: adapters
                .filter_map(|rule| Adapter::new(rule, limits).ok())
                .collect(),
            pdf_to_text: Adapter::built_in(&["pdftotext", "-enc", "UTF-8", "-", "-"], limits),
            pdf_to_images: language.and_then(|_| page_images(limits)),
            recognise: language.and_then(|language| {
                Adapter::built_in(&[TESSERACT, "stdin", "stdout", "-l", language], limits)
            }),
        }
    }
}

/// Whether a file can be one of [`KINDS`]: a quick look that spares most texts the others.
fn may_be_document(head: &[u8], name: &Path) -> bool {
    let starts_so = match head {
        [b'P', second, ..] => *second == b'K',
        [first, ..] => {
            matches!(first, b'<' | b'{' | 0xd0 | 0xef | 0xfe | 0xff) || first.is_ascii_whitespace()
        }
        [] => false,
    };
    let ending = name.extension().map_or(&[][..], |it| it.as_encoded_bytes());
    let is_ending = |known: &&str| known.as_bytes().eq_ignore_ascii_case(ending);
    starts_so
        || KINDS
            .iter()
            .any(|kind| kind.extensions().iter().any(is_ending))
}

/// Refuses what was recognised in an image if it has neither a letter nor a digit.
fn ensure_recognised(text: String) -> Result<String, ExtractError> {
    if text.contains(char::is_alphanumeric) {
        Ok(text)
    } else {
        Err(ExtractError::NothingRecognised)
    }
}

/// Renders the pages of a PDF in a directory of its own, and writes them one after the other.
fn page_images(limits: AdapterLimits) -> Option<Adapter> {
    Adapter::built_in(&["pdftoppm", "-r", "300", "-gray", "-", "{}"], limits)
}

impl Converter {
    pub fn new(options: &Options) -> Self {
        Self {
            records: options.records,
            keep_markup: options.keep_markup,
            most_bytes: options.max_document,
            encoding: TextEncoding::new(options),
            programs: Arc::new(Programs::new(options)),
            cache: options.adapter_cache.as_deref().map(TextCache::new),
        }
    }

    /// How a file becomes text, by its first bytes and its name; none if it is text already, or nothing here can convert it.
    ///
    /// What the user says of the format is believed of all that is text. `skipped`: the kind of a file that is not
    /// read otherwise.
    pub fn choose(
        &self,
        head: &[u8],
        name: &Path,
        skipped: Option<SkippedKind>,
    ) -> Option<Conversion> {
        let programs = &self.programs;
        if let Some(index) = programs.adapters.iter().position(|it| it.matches(name)) {
            return Some(Conversion::Adapter(index));
        }
        if self.records.is_some() && is_plain_text(head) {
            return None;
        }
        if may_be_document(head, name)
            && let Some(kind) = KINDS.into_iter().find(|kind| kind.recognises(head, name))
        {
            let is_kept = self.keep_markup && kind.name() == HTML;
            return (!is_kept).then_some(Conversion::Document(kind));
        }
        match skipped? {
            SkippedKind::Pdf if programs.pdf_to_text.is_some() => Some(Conversion::Pdf),
            kind if kind.is_image() && programs.recognise.is_some() => {
                Some(Conversion::Image(kind))
            }
            _ => None,
        }
    }

    /// The text of a file.
    pub fn convert(
        &self,
        conversion: Conversion,
        name: &Path,
        bytes: &[u8],
    ) -> Result<String, ExtractError> {
        let entry = self.cache_entry(conversion, bytes);
        if let Some(text) = entry.as_ref().and_then(CacheEntry::get) {
            return Ok(text);
        }
        let text = self.extract(conversion, name, bytes)?;
        // A cache that cannot be written costs time, not the answer.
        let _ = entry.map(|entry| entry.put(&text));
        Ok(text)
    }

    fn extract(
        &self,
        conversion: Conversion,
        name: &Path,
        bytes: &[u8],
    ) -> Result<String, ExtractError> {
        let programs = &self.programs;
        match conversion {
            Conversion::Document(kind) if kind.name() == HTML && self.encoding.is_named() => {
                self.page_text(bytes)
            }
            Conversion::Document(kind) => kind.extract(bytes, self.most_bytes),
            Conversion::Adapter(index) => self.run(&programs.adapters[index], bytes, name),
            Conversion::Image(_) => {
                ensure_recognised(self.run_some(programs.recognise.as_ref(), bytes, name)?)
            }
            Conversion::Pdf => {
                let text = self.run_some(programs.pdf_to_text.as_ref(), bytes, name)?;
                if text.contains(char::is_alphanumeric) {
                    return Ok(text.replace('\u{c}', "\n"));
                }
                self.recognise_pages(bytes, name)
            }
        }
    }

    /// The text of a page in the encoding that the user names, whatever the page says.
    fn page_text(&self, bytes: &[u8]) -> Result<String, ExtractError> {
        let mut page = bytes.to_vec();
        self.encoding
            .decode(&mut page)
            .map_err(ExtractError::Damaged)?;
        let page =
            String::from_utf8(page).map_err(|error| ExtractError::Damaged(error.to_string()))?;
        Ok(text_of_html(&page))
    }

    /// The text of a PDF whose pages are images.
    fn recognise_pages(&self, bytes: &[u8], name: &Path) -> Result<String, ExtractError> {
        let (Some(render), Some(recognise)) =
            (&self.programs.pdf_to_images, &self.programs.recognise)
        else {
            return Err(ExtractError::NoText);
        };
        let failed = |error: std::io::Error| ExtractError::Damaged(error.to_string());
        let directory = tempfile::tempdir().map_err(failed)?;
        render.run_into(&directory.path().join("page"), bytes)?;
        let pages = fs::read_dir(directory.path()).map_err(failed)?;
        let mut pages: Vec<_> = pages.flatten().map(|page| page.path()).collect();
        // pdftoppm numbers pages with leading zeros.
        pages.sort_unstable();
        let mut text = String::new();
        for page in pages {
            let image = fs::read(&page).map_err(failed)?;
            text += &self.run(recognise, &image, name)?;
            fs::remove_file(&page).map_err(failed)?;
        }
        ensure_recognised(text)
    }

    fn run_some(
        &self,
        adapter: Option<&Adapter>,
        bytes: &[u8],
        name: &Path,
    ) -> Result<String, ExtractError> {
        adapter.map_or(Err(ExtractError::NoText), |adapter| {
            self.run(adapter, bytes, name)
        })
    }

    fn run(&self, adapter: &Adapter, bytes: &[u8], name: &Path) -> Result<String, ExtractError> {
        let mut text = adapter.run(bytes, name, self.most_bytes)?;
        ensure_utf8(&mut text, true).map_err(ExtractError::Damaged)?;
        String::from_utf8(text).map_err(|error| ExtractError::Damaged(error.to_string()))
    }

    /// Where the text is kept; none if it is made as fast as it is read.
    fn cache_entry(&self, conversion: Conversion, bytes: &[u8]) -> Option<CacheEntry> {
        let programs = &self.programs;
        let identity = |adapter: Option<&Adapter>| adapter.map(Adapter::identity);
        let way = match conversion {
            Conversion::Document(kind) if matches!(kind.name(), HTML | "ipynb" | "rtf") => {
                return None;
            }
            Conversion::Document(kind) => format!("{} {CONVERSION_VERSION}", kind.name()),
            Conversion::Adapter(index) => programs.adapters[index].identity(),
            Conversion::Image(_) => identity(programs.recognise.as_ref())?,
            Conversion::Pdf => format!(
                "{:?} {:?} {:?}",
                identity(programs.pdf_to_text.as_ref()),
                identity(programs.pdf_to_images.as_ref()),
                identity(programs.recognise.as_ref())
            ),
        };
        Some(self.cache.as_ref()?.entry(bytes, &way))
    }
}
