//! SOURCE: an index, or documents, of which a temporary index is made.

use super::{
    args::{BlotArgs, CommonArgs, InputArgs, MORE, ReadArgs, RunArgs, TokenArgs, machine_memory},
    args::{parse_size, read_list, threads_of},
    cleanup, watched,
    width::warn_of_width,
};
use crate::{
    base::{error::Problem, files, parallel::Limits},
    commands::{BuildOptions, Observer, Settings, build},
    index::{Index, Resources},
    similar::Boilerplate,
    text::{
        corpus::{Account, LeftOutFile, SkippedFile, did_you_mean},
        stream::Form,
    },
};
use anyhow::{Context, bail};
use clap::Args;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Documents that are being read and indexed take no more memory than this.
const READ_BYTES: u64 = 128 << 20;
/// Lines that are being read, judged and written take no more, except for the longest.
const LINES_BYTES: u64 = 64 << 20;

/// The source of a verb of dedup-extract.
#[derive(Args, Debug, Clone)]
pub struct SourceArgs {
    /// An index, or documents: files, directories, - for stdin
    ///
    /// A directory with a manifest.json of dedup-index is an index. Of anything else an index is
    /// made in a temporary directory, and removed at the end. Verbs that read texts also take
    /// documents after an index: those are read instead of the files that the ids name.
    #[arg(help_heading = None::<&str>, value_name = "SOURCE", required_unless_present = "files_from")]
    pub sources: Vec<PathBuf>,
    #[command(flatten)]
    pub making: MakingArgs,
    #[command(flatten)]
    pub read: ReadArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

/// How an index is made of documents.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = MORE)]
pub struct MakingArgs {
    #[command(flatten)]
    pub tokens: TokenArgs,
    #[command(flatten)]
    pub blots: BlotArgs,
    /// Memory to use, such as 256M or 4G [default: a quarter of all]
    ///
    /// Also what is kept of each document counts; beyond the limit it is in temporary files. The texts that are aligned (see TEXTS) are not
    /// counted, nor are pages of mapped files, those of the index among them: the system takes them back when it needs memory.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,
    /// Directory for temporary files [default: $TMPDIR or /tmp]
    #[arg(long, value_name = "DIR")]
    pub tmp_dir: Option<PathBuf>,
}

/// What a verb does with the documents of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Nothing: the index is enough.
    Never,
    /// It looks up some of the texts by id.
    ById,
    /// It reads all documents once more, and reports their problems then.
    Again,
}

/// An open source.
pub struct Source {
    pub index: Index,
    /// The documents: those the index was made of, or those that were given after it.
    pub paths: Vec<PathBuf>,
    /// The index was made of the documents.
    pub is_made: bool,
    /// Inputs that could not be used when the index was made, and were reported.
    pub problems: u64,
    /// What was read and left out when the index was made.
    pub account: Option<Account>,
    /// Files that were not read when the index was made, and may well be documents: the first of them.
    pub unread: Vec<LeftOutFile>,
    /// The name of the source, for titles.
    pub name: String,
    /// Removed last.
    _directory: Option<TemporaryDirectory>,
}

impl SourceArgs {
    /// Opens the index, or makes one. `dictionary`: with the words of each document.
    pub fn open(
        &self,
        program: &str,
        reading: Reading,
        dictionary: bool,
    ) -> Result<Source, anyhow::Error> {
        let paths = self.all_paths()?;
        if let Some(first) = paths.first() {
            ensure_exists(program, super::extract::VERBS, first)?;
        }
        if let Some(first) = paths.first().filter(|path| is_index(path)) {
            self.making.ensure_index_is_made(first)?;
            let rest = paths[1..].to_vec();
            if let Some(other) = rest.first().filter(|_| reading != Reading::Again) {
                bail!(
                    "{}: {} is an index, and the only source of this verb; leave out what follows",
                    other.display(),
                    first.display()
                );
            }
            let source = Source::of_index(first, rest)?;
            self.warn_of_width(program, &source)?;
            return Ok(source);
        }
        if let Some(index) = paths.iter().find(|path| is_index(path)) {
            bail!(
                "{}: an index among documents; give the index first",
                index.display()
            );
        }
        if reading != Reading::Never && paths.iter().any(|path| path.as_os_str() == "-") {
            bail!("this verb reads the documents twice, which stdin does not allow; give files");
        }
        let run = self.run(paths);
        let source = self.making.make_index(program, &run, reading, dictionary)?;
        self.warn_of_width(program, &source)?;
        Ok(source)
    }

    fn warn_of_width(&self, program: &str, source: &Source) -> Result<(), anyhow::Error> {
        let is_quiet = self.common.quiet;
        Ok(warn_of_width(
            program,
            &source.index,
            &source.name,
            is_quiet,
        )?)
    }

    /// Paths that were given, and those of the list.
    pub fn all_paths(&self) -> Result<Vec<PathBuf>, anyhow::Error> {
        let mut paths = self.sources.clone();
        if let Some(list) = &self.read.files_from {
            for path in read_list(list, self.read.null)? {
                paths.push(path?.into());
            }
        }
        Ok(paths)
    }

    /// How to run on these documents.
    pub fn run(&self, paths: Vec<PathBuf>) -> RunArgs {
        RunArgs {
            input: InputArgs {
                paths,
                read: ReadArgs {
                    files_from: None,
                    null: false,
                    ..self.read.clone()
                },
            },
            common: self.common.clone(),
        }
    }

    /// How documents are read, line by line.
    pub fn settings(&self, paths: Vec<PathBuf>, prefer_fasta: bool) -> Settings {
        self.run(paths)
            .settings(Form::Ndjson, LINES_BYTES, prefer_fasta)
    }

    pub fn limits(&self) -> Limits {
        Limits::new(threads_of(self.common.threads), self.making.memory_bytes())
    }

    /// Whether input that could not be used is ignored silently.
    pub fn is_silent(&self) -> bool {
        self.common.quiet && self.read.skip_bad
    }
}

impl MakingArgs {
    pub fn memory_bytes(&self) -> u64 {
        self.memory.unwrap_or_else(|| machine_memory() / 4)
    }

    /// Makes an index of documents in a temporary directory.
    pub fn make_index(
        &self,
        program: &str,
        run: &RunArgs,
        reading: Reading,
        dictionary: bool,
    ) -> Result<Source, anyhow::Error> {
        let directory = TemporaryDirectory::create(self.tmp_dir.as_deref())?;
        let options = BuildOptions {
            blots: self.blots.options(&self.tokens),
            parts: 1,
            dictionary,
            resources: Resources {
                memory_bytes: self.memory_bytes(),
                threads: threads_of(run.common.threads),
                tmp_dir: files::TempDir(self.tmp_dir.clone()),
            },
        };
        let settings = self.reading_settings(run);
        let path = directory.path.join("index");
        let mut unread = Vec::new();
        let summary = if reading == Reading::Again {
            build(&options, &settings, &path, &mut Silent)?
        } else {
            watched(program, run, true, |watch| {
                let mut noting = NoteUnread {
                    watch,
                    unread: &mut unread,
                };
                Ok(build(&options, &settings, &path, &mut noting)?)
            })?
        };
        let problems = if reading == Reading::Again {
            0
        } else {
            summary.problems
        };
        Ok(Source {
            index: Index::open_whole(&path)?,
            paths: run.input.paths.clone(),
            is_made: true,
            problems,
            account: Some(summary.account),
            unread,
            name: joined(&run.input.paths),
            _directory: Some(directory),
        })
    }

    /// How documents are read that are indexed.
    pub fn reading_settings(&self, run: &RunArgs) -> Settings {
        let memory_bytes = (self.memory_bytes() / 4).min(READ_BYTES);
        run.settings(Form::Binary, memory_bytes, self.tokens.is_dna())
    }

    /// Flags that say how an index is made have no meaning when there is one.
    pub fn ensure_index_is_made(&self, index: &Path) -> Result<(), anyhow::Error> {
        let blots = &self.blots;
        let given = [
            ("--tokenizer", self.tokens.tokenizer.is_some()),
            ("--strip-html", self.tokens.strip_html),
            ("--preset", self.tokens.preset.is_some()),
            ("-k", blots.k.is_some()),
            ("--scheme", blots.scheme.is_some()),
            ("--interleave", blots.interleave.is_some()),
            ("--bits", blots.bits.is_some()),
            ("--select", blots.select.is_some()),
        ];
        if let Some((flag, _)) = given.iter().find(|(_, is_given)| *is_given) {
            bail!(
                "{flag} is for documents; {} is an index, which has its scheme already",
                index.display()
            );
        }
        Ok(())
    }
}

impl Source {
    /// An existing index, and documents that were given after it.
    pub fn of_index(directory: &Path, paths: Vec<PathBuf>) -> Result<Self, anyhow::Error> {
        Ok(Self {
            index: Index::open_whole(directory)?,
            paths,
            is_made: false,
            problems: 0,
            account: None,
            unread: Vec::new(),
            name: directory.display().to_string(),
            _directory: None,
        })
    }

    /// Where texts are looked up: the documents of the source, unless a corpus was given.
    pub fn corpus(&self, given: &[PathBuf]) -> Vec<PathBuf> {
        if self.is_made && given.is_empty() {
            self.paths.clone()
        } else {
            given.to_vec()
        }
    }
}

/// Whether a path is the directory of an index. A manifest.json of another kind, as browsers and
/// package managers have, does not make one.
pub fn is_index(path: &Path) -> bool {
    let manifest = path.join("manifest.json");
    match fs::read(&manifest) {
        Ok(bytes) => !serde_json::from_slice(&bytes)
            .is_ok_and(|manifest: serde_json::Value| manifest.get("dedup").is_none()),
        Err(_) => manifest.exists(),
    }
}

/// Refuses paths that do not exist, and says what may have been meant: a path or, where no verb was given, a verb.
pub fn ensure_exists(program: &str, verbs: &[&str], path: &Path) -> Result<(), anyhow::Error> {
    if path.as_os_str() == "-" || path.exists() {
        return Ok(());
    }
    let name = path.display();
    if verbs.iter().any(|verb| Path::new(verb) == path) {
        bail!("{name}: no such file or directory; a verb comes first: {program} {name} …");
    }
    let first = std::env::args_os().nth(1).unwrap_or_default();
    if verbs.iter().any(|verb| first == *verb) {
        bail!("{name}: no such file or directory{}", did_you_mean(path));
    }
    let likely = match similar_verb(verbs, &name.to_string()) {
        Some(verb) => format!("; did you mean {verb}?"),
        None => did_you_mean(path),
    };
    if !likely.is_empty() {
        bail!("{name}: no such file or directory, and no verb{likely}");
    }
    bail!(
        "{name}: no such file or directory, and no verb; give an index or documents, after one of the verbs {}",
        verbs.join(", ")
    )
}

/// The verb that a misspelt word is closest to.
fn similar_verb<'v>(verbs: &[&'v str], word: &str) -> Option<&'v str> {
    let distances = verbs
        .iter()
        .map(|verb| (strsim::damerau_levenshtein(verb, word), *verb));
    // One letter in three may be wrong.
    distances
        .min()
        .filter(|&(distance, verb)| 3 * distance <= verb.len().max(3))
        .map(|(_, verb)| verb)
}

fn joined(paths: &[PathBuf]) -> String {
    let names: Vec<_> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    names.join(", ")
}

/// A directory that is removed when it goes out of scope, and when a signal ends the program.
pub struct TemporaryDirectory {
    pub path: PathBuf,
}

impl TemporaryDirectory {
    pub fn create(parent: Option<&Path>) -> Result<Self, anyhow::Error> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let directory = tempfile::Builder::new()
            .prefix("dedup-")
            .tempdir_in(&parent)
            .with_context(|| parent.display().to_string())?;
        cleanup::remove_on_signal(directory.path());
        Ok(Self {
            path: directory.keep(),
        })
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        cleanup::forget(&self.path);
    }
}

/// Files that were left out are kept up to this number.
const NOTED_FILES: usize = 1000;

/// Keeps the files that were left out, and hands everything on.
struct NoteUnread<'w> {
    watch: &'w mut dyn Observer,
    unread: &'w mut Vec<LeftOutFile>,
}

impl Observer for NoteUnread<'_> {
    fn problem(&mut self, problem: &Problem) {
        self.watch.problem(problem);
    }

    fn progress(&mut self, bytes: u64, documents: u64) {
        self.watch.progress(bytes, documents);
    }

    fn left_out(&mut self, left: &SkippedFile) {
        if left.is_error() && self.unread.len() < NOTED_FILES {
            self.unread.push(left.into());
        }
        self.watch.left_out(left);
    }

    fn account(&mut self, account: &Account) {
        self.watch.account(account);
    }

    fn boilerplate(&mut self, boilerplate: &Boilerplate) {
        self.watch.boilerplate(boilerplate);
    }
}

/// Reports nothing.
struct Silent;

impl Observer for Silent {
    fn problem(&mut self, _: &Problem) {}

    fn progress(&mut self, _: u64, _: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_verbs() {
        let verbs = ["pairs", "table", "clusters", "exact", "clean", "blots"];
        let likely = |word| similar_verb(&verbs, word);
        assert_eq!(likely("pars"), Some("pairs"));
        assert_eq!(likely("cluster"), Some("clusters"));
        assert_eq!(likely("tabel"), Some("table"));
        assert_eq!(likely("claen"), Some("clean"));
        assert_eq!(likely("my.idx"), None);
        assert_eq!(likely("essay.txt"), None);
    }
}
