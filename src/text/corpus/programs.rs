//! Which programs files need to become text, as far as their names tell.
//!
//! A run on several machines asks each of them before it starts: a file must not be read on one machine and left out on another.

use super::{
    Options,
    adapter::{Adapter, find_program},
    skipped_kind::extension,
    unpack::inner_name,
};
use std::path::Path;

/// A program without which a file is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededProgram {
    /// The name of the program, or its path.
    pub program: String,
    /// The first file that needs it.
    pub file: String,
}

impl NeededProgram {
    /// The package that has it, as Debian calls it; the program itself if it is one of the user.
    pub fn package(&self) -> &str {
        match self.program.as_str() {
            "pdftotext" | "pdftoppm" => "poppler-utils",
            "tesseract" => "tesseract-ocr",
            program => program,
        }
    }
}

/// Whether this machine has a program.
pub fn is_program_installed(program: &str) -> bool {
    find_program(program).is_some()
}

/// The programs that files need, each once, in the order of the files. Members of archives are not looked at.
pub fn needed_programs<'f>(
    options: &Options,
    files: impl Iterator<Item = &'f Path>,
) -> Vec<NeededProgram> {
    let limits = options.adapter_limits;
    let adapters = options.adapters.iter();
    let adapters: Vec<_> = adapters
        .filter_map(|rule| Adapter::new(rule, limits).ok())
        .collect();
    let mut needed: Vec<NeededProgram> = Vec::new();
    for file in files {
        let name = inner_name(file);
        let programs = match adapters.iter().find(|adapter| adapter.matches(&name)) {
            Some(adapter) => vec![adapter.program()],
            None => built_in(&name, options.ocr.is_some()).to_vec(),
        };
        for program in programs {
            if !needed.iter().any(|known| known.program == program) {
                needed.push(NeededProgram {
                    program: program.to_owned(),
                    file: file.display().to_string(),
                });
            }
        }
    }
    needed
}

/// The programs for a file that no adapter of the user takes.
fn built_in(name: &Path, recognises: bool) -> &'static [&'static str] {
    const IMAGES: [&str; 7] = ["png", "jpg", "jpeg", "gif", "tif", "tiff", "webp"];
    match extension(name).as_deref() {
        Some("pdf") if recognises => &["pdftotext", "pdftoppm", "tesseract"],
        Some("pdf") => &["pdftotext"],
        Some(ending) if recognises && IMAGES.contains(&ending) => &["tesseract"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::{super::AdapterRule, *};

    fn names(options: &Options, files: &[&str]) -> Vec<String> {
        needed_programs(options, files.iter().map(Path::new))
            .into_iter()
            .map(|needed| format!("{} for {}", needed.program, needed.file))
            .collect()
    }

    #[test]
    fn names_tell_which_programs_are_needed() {
        let files = ["d/a.txt", "d/b.PDF.gz", "c.pdf", "e.png", "f.docx", "g.dvi"];
        let mut options = Options::default();
        assert_eq!(names(&options, &files), ["pdftotext for d/b.PDF.gz"]);
        options.ocr = Some("eng".to_owned());
        assert_eq!(
            names(&options, &files[2..]),
            [
                "pdftotext for c.pdf",
                "pdftoppm for c.pdf",
                "tesseract for c.pdf"
            ]
        );
        assert_eq!(names(&options, &files[3..]), ["tesseract for e.png"]);
        let rules = ["*.pdf=mutool draw -F txt -", "*.dvi=/opt/x/catdvi"];
        options.adapters = rules.map(|rule| AdapterRule::parse(rule).unwrap()).to_vec();
        assert_eq!(
            names(&options, &files[2..]),
            [
                "mutool for c.pdf",
                "tesseract for e.png",
                "/opt/x/catdvi for g.dvi"
            ]
        );
    }
}
