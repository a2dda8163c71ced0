//! What is cleaned, and what it is compared with.

use super::{rules::default_blots, run::CleanArgs};
use crate::{
    cli::{
        extract::{PROGRAM, VERBS},
        source::{TemporaryDirectory, ensure_exists, is_index},
    },
    commands::{BlotOptions, Settings},
    index::Index,
    text::corpus::{self, CorpusWalk, WalkItem},
};
use anyhow::{Context, bail};
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};
use xxhash_rust::xxh3::Xxh3;

/// The index of the documents, in the directory for what is removed in the end.
pub const INDEX: &str = "index";
/// The index of documents to compare with.
pub const AGAINST: &str = "against";
/// What a copy of stdin is called.
pub const STDIN: &str = "stdin";

/// What is cleaned.
pub struct CleanInput {
    /// How the documents are read.
    pub settings: Settings,
    /// The index that is given, if its blots serve.
    pub given: Option<PathBuf>,
    /// How the documents become blots.
    pub blots: BlotOptions,
    /// Indexes to compare with.
    pub against_indexes: Vec<PathBuf>,
    /// Documents to compare with.
    pub against_paths: Vec<PathBuf>,
    /// Inputs that could not be used so far.
    pub problems: u64,
    /// A copy of stdin.
    pub spool: Option<Spool>,
}

/// A copy of stdin.
pub struct Spool {
    /// The file.
    pub path: PathBuf,
    /// Of its bytes.
    pub checksum: u64,
    _directory: TemporaryDirectory,
}

impl CleanInput {
    pub fn open(args: &CleanArgs) -> Result<Self, anyhow::Error> {
        let source = &args.source;
        let mut paths = source.all_paths()?;
        if let Some(first) = paths.first() {
            ensure_exists(PROGRAM, VERBS, first)?;
        }
        if let Some(missing) = args.rules.against.iter().find(|path| !path.exists()) {
            bail!(
                "{}: no such file or directory (--against)",
                missing.display()
            );
        }
        let mut given = None;
        if paths.first().is_some_and(|path| is_index(path)) {
            let index = paths.remove(0);
            source.making.ensure_index_is_made(&index)?;
            if paths.is_empty() {
                bail!(
                    "{}: an index has no texts to write; give the files that it was made of, too",
                    index.display()
                );
            }
            given = Some(index);
        }
        if let Some(index) = paths.iter().find(|path| is_index(path)) {
            bail!(
                "{}: an index among documents; give the index first",
                index.display()
            );
        }
        let (against_indexes, against_paths) = args.rules.against();
        let blots = match given.iter().chain(&against_indexes).next() {
            Some(index) => BlotOptions::of_scheme(&Index::open_whole(index)?.scheme),
            None => {
                let making = &source.making;
                let blots = making.blots.options(&making.tokens);
                default_blots(blots, making.tokens.is_dna())
            }
        };
        if let (Some(cut), Some(window)) = (args.rules.cut_tokens(), blots.k)
            && cut < window
        {
            bail!(
                "--cut-spans {cut} is less than the {window} tokens of a window; give {window} or more, or a smaller -k"
            );
        }
        let needs_places = args.rules.cut_tokens().is_some() || !args.rules.against.is_empty();
        if let Some(index) = given.take_if(|_| needs_places) {
            args.tell(&format!(
                "with --cut-spans or --against the documents are indexed anew, as {} is",
                index.display()
            ));
        }
        let spool = spool_stdin(&mut paths, args)?;
        let mut settings = source.settings(paths, source.making.tokens.is_dna());
        settings.corpus.relative |= spool.is_some();
        Ok(Self {
            settings,
            given,
            blots,
            against_indexes,
            against_paths,
            problems: 0,
            spool,
        })
    }

    /// Opens the indexes that are given or were made.
    pub fn open_indexes(&self, work: &Path) -> Result<Indexes, anyhow::Error> {
        let made = work.join(INDEX);
        let collection = Index::open_whole(self.given.as_deref().unwrap_or(&made))?;
        let mut against = Vec::new();
        for path in &self.against_indexes {
            against.push(Index::open_whole(path)?);
        }
        if !self.against_paths.is_empty() {
            against.push(Index::open_whole(&work.join(AGAINST))?);
        }
        Ok(Indexes {
            collection,
            against,
        })
    }
}

/// Copies stdin to a file, if it is to be read: the documents are read twice.
fn spool_stdin(paths: &mut [PathBuf], args: &CleanArgs) -> Result<Option<Spool>, anyhow::Error> {
    let Some(stdin) = paths.iter_mut().find(|path| path.as_os_str() == "-") else {
        return Ok(None);
    };
    let directory = TemporaryDirectory::create(args.source.making.tmp_dir.as_deref())?;
    let spool = directory.path.join("spool");
    fs::create_dir(&spool)?;
    let path = spool.join(STDIN);
    let (mut file, mut hash) = (File::create(&path)?, Xxh3::new());
    let mut bytes = vec![0; 1 << 16];
    loop {
        match io::stdin().lock().read(&mut bytes) {
            Ok(0) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => {
                let bytes = &bytes[..read.context("stdin")?];
                hash.update(bytes);
                file.write_all(bytes)
                    .with_context(|| path.display().to_string())?;
            }
        }
    }
    if file.metadata()?.len() == 0 {
        bail!(
            "no document was read; name files or directories that hold some, or write some to stdin"
        );
    }
    *stdin = spool;
    Ok(Some(Spool {
        path,
        checksum: hash.digest(),
        _directory: directory,
    }))
}

/// The indexes of a run.
pub struct Indexes {
    /// Of what is cleaned.
    pub collection: Index,
    /// Of what it is compared with.
    pub against: Vec<Index>,
}

impl Indexes {
    /// Refuses indexes whose blots cannot be compared.
    pub fn ensure_one_scheme(&self) -> Result<(), anyhow::Error> {
        let scheme = &self.collection.scheme;
        match self.against.iter().find(|index| index.scheme != *scheme) {
            None => Ok(()),
            Some(other) => bail!(
                "{}: has the scheme '{}', but the collection has '{scheme}'; indexes that are compared have one scheme",
                other.directory.display(),
                other.scheme
            ),
        }
    }
}

/// What tells the files of a collection, or an index, from their earlier states.
pub fn stamps(path: &Path) -> Vec<(PathBuf, u64, [i64; 2])> {
    let path = if is_index(path) {
        path.join("manifest.json")
    } else {
        path.to_owned()
    };
    let walk = CorpusWalk::new(&corpus::Options::of_files(vec![path]));
    let entry = |item| match item {
        WalkItem::File(entry) => Some((entry.path, entry.bytes, entry.modified)),
        WalkItem::Problem(_) | WalkItem::Skipped(_) | WalkItem::Failed(_) => None,
    };
    walk.into_iter().flatten().filter_map(entry).collect()
}
