//! Where the passages of given pairs are written.

use super::output::Output;
use crate::{
    base::{
        codec::is_unsafe,
        error::{Error, Result},
        files::durable,
    },
    commands::Aligned,
    report::{Format, Value, html, put_id, put_pan_xml, put_passages, put_record, put_tally},
    text::stream::Span,
};
use serde::Deserialize;
use std::{
    collections::HashMap,
    ffi::OsStr,
    fs,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

/// A line of JSON for each pair, or a file, or a page and an overview.
pub enum Destination {
    Lines(BufWriter<Output>),
    Files(XmlFiles),
    Pages(html::Directory),
}

/// A directory with a file of PAN's XML for each pair.
pub struct XmlFiles {
    directory: PathBuf,
    names: Names,
    /// What was written so far of a line that is not at its end.
    line: Vec<u8>,
}

impl XmlFiles {
    pub fn create(directory: &Path) -> Result<Self, anyhow::Error> {
        durable::create_dir_all(directory)?;
        Ok(Self {
            directory: directory.to_owned(),
            names: Names::default(),
            line: Vec::new(),
        })
    }

    fn put(&mut self, a: &str, b: &str, passages: &[[Span; 2]]) -> Result<()> {
        let path = self
            .directory
            .join(format!("{}.xml", self.names.of_pair(a, b)));
        let mut bytes = Vec::new();
        put_pan_xml(&mut bytes, [a, b], [file_name(a), file_name(b)], passages);
        write_file(&path, &bytes)
    }

    /// Returns when all files are on disk.
    pub fn finish(self) -> Result<()> {
        durable::sync_tree(&self.directory)
    }

    /// A pair as `dedup-extract --passages` writes it; other lines say something else.
    fn put_line(&mut self, line: &[u8]) -> Result<()> {
        let pair: Option<PairLine> = serde_json::from_slice(line).ok();
        let span = |[start, end]: [u32; 2]| Span { start, end };
        pair.map_or(Ok(()), |PairLine { a, b, passages }| {
            let passages: Vec<_> = passages
                .iter()
                .map(|passage| [span(passage.a), span(passage.b)])
                .collect();
            self.put(&a, &b, &passages)
        })
    }
}

/// Names of files, none of which is given twice.
///
/// A pair is called after the files of its documents, without directories, as the evaluations have it; of several pairs of one name the second has `~2` behind it, and
/// so on, in their order. Memory: each name once.
#[derive(Default)]
struct Names(HashMap<String, u32>);

impl Names {
    fn of_pair(&mut self, a: &str, b: &str) -> String {
        let name = format!("{}-{}", safe_name(stem(a)), safe_name(stem(b)));
        let count = self.0.entry(name.clone()).or_insert(0);
        *count += 1;
        // No name has a ~ of its own.
        if *count == 1 {
            name
        } else {
            format!("{name}~{count}")
        }
    }
}

/// So many bytes of a name: two of them, a number and an ending must not be too long for a file system.
const NAME_BYTES: usize = 100;

/// Part of a file's name: no hidden file, nothing that a terminal obeys, and not too long.
fn safe_name(stem: &str) -> String {
    let mut name = String::new();
    for (at, c) in stem.char_indices() {
        let start = name.len();
        if is_unsafe(c) || matches!(c, '/' | '%' | '~') || (at == 0 && c == '.') {
            c.encode_utf8(&mut [0; 4])
                .bytes()
                .for_each(|byte| name.push_str(&format!("%{byte:02X}")));
        } else {
            name.push(c);
        }
        if name.len() > NAME_BYTES {
            name.truncate(start);
            break;
        }
    }
    name
}

#[derive(Deserialize)]
struct PairLine {
    a: String,
    b: String,
    passages: Vec<PassageLine>,
}

#[derive(Deserialize)]
struct PassageLine {
    a: [u32; 2],
    b: [u32; 2],
}

/// Takes lines of JSON.
impl Write for XmlFiles {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(bytes);
        let end = line
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |at| at + 1);
        line[..end]
            .split_inclusive(|&byte| byte == b'\n')
            .try_for_each(|line| self.put_line(line))
            .map_err(io::Error::other)?;
        self.line = line.split_off(end);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Destination {
    pub fn lines(output: Option<&Path>) -> Result<Self, anyhow::Error> {
        Ok(Self::Lines(BufWriter::with_capacity(
            1 << 16,
            Output::open(output, false)?,
        )))
    }

    pub fn files(directory: &Path) -> Result<Self, anyhow::Error> {
        XmlFiles::create(directory).map(Self::Files)
    }

    /// Pages about the pairs of a list.
    pub fn pages(directory: &Path, list: &Path, notes: &[String]) -> Result<Self, anyhow::Error> {
        let title = if list.as_os_str() == "-" {
            "these pairs".to_owned()
        } else {
            list.display().to_string()
        };
        Ok(Self::Pages(html::Directory::create(
            directory, &title, notes,
        )?))
    }

    pub fn write(&mut self, aligned: &Aligned) -> Result<()> {
        let mut bytes = Vec::new();
        match self {
            Self::Lines(out) => {
                put_line(&mut bytes, aligned);
                out.write_all(&bytes).map_err(Error::output)
            }
            Self::Files(files) => {
                let passages: Vec<_> = aligned
                    .passages
                    .iter()
                    .map(|passage| [passage.a, passage.b])
                    .collect();
                files.put(&aligned.a, &aligned.b, &passages)
            }
            Self::Pages(directory) => aligned
                .page
                .as_ref()
                .map_or(Ok(()), |page| directory.add(page)),
        }
    }

    pub fn commit(self) -> Result<(), anyhow::Error> {
        match self {
            Self::Lines(out) => out
                .into_inner()
                .map_err(|error| error.into_error())?
                .commit(),
            Self::Files(files) => Ok(files.finish()?),
            Self::Pages(directory) => Ok(directory.finish()?),
        }
    }
}

/// Writes under another name first, so that a reader never sees half a file. There may be many: they are synced together at the end.
fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let beside = path.with_extension("xml.tmp");
    let written = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&beside);
        Error::io(path.display(), error)
    })
}

fn put_line(out: &mut Vec<u8>, aligned: &Aligned) {
    let (mut a, mut b, mut passages, mut words) =
        (Vec::new(), Vec::new(), Vec::new(), [Vec::new(), Vec::new()]);
    put_id(&mut a, Format::Ndjson, &aligned.a);
    put_id(&mut b, Format::Ndjson, &aligned.b);
    put_passages(&mut passages, &aligned.passages);
    let mut fields = vec![
        ("a", Value::Id(&a)),
        ("b", Value::Id(&b)),
        ("a_in_b", Value::Number(aligned.a_in_b)),
        ("b_in_a", Value::Number(aligned.b_in_a)),
    ];
    if let Some(tallies) = &aligned.tallies {
        words
            .iter_mut()
            .zip(tallies)
            .for_each(|(out, tally)| put_tally(out, tally));
        fields.extend([
            ("a_words", Value::Ids(&words[0])),
            ("b_words", Value::Ids(&words[1])),
        ]);
    }
    fields.push(("passages", Value::Ids(&passages)));
    put_record(out, Format::Ndjson, &fields);
}

fn file_name(path: &str) -> &str {
    Path::new(path)
        .file_name()
        .and_then(OsStr::to_str)
        .unwrap_or(path)
}

fn stem(path: &str) -> &str {
    Path::new(path)
        .file_stem()
        .and_then(OsStr::to_str)
        .unwrap_or("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_given_twice_or_leads_elsewhere() {
        let mut names = Names::default();
        let long = "x".repeat(300);
        for (a, b, expected) in [
            ("susp/one.txt", "src/two.txt", "one-two".to_owned()),
            ("ann/essay.txt", "ben/essay.txt", "essay-essay".to_owned()),
            ("ann/essay.txt", "cid/essay.txt", "essay-essay~2".to_owned()),
            ("ann/essay.txt", "essay~2.txt", "essay-essay%7E2".to_owned()),
            ("ben/essay.txt", "cid/essay.txt", "essay-essay~3".to_owned()),
            ("..", "../../x.txt", "--x".to_owned()),
            (
                "a/.b\u{1b}\u{202e}%\u{9b}",
                "\n",
                "%2Eb%1B%E2%80%AE%25%C2%9B-%0A".to_owned(),
            ),
            (&long, "y", format!("{}-y", "x".repeat(100))),
        ] {
            assert_eq!(names.of_pair(a, b), expected);
        }
    }
}
