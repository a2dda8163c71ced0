//! The flags of dedup-shard plan that also clean the corpus.

use super::PROGRAM;
use crate::{
    cli::{
        args::{InputArgs, read_list},
        extract::{RuleArgs, default_blots, ensure_empty, ensure_shards},
    },
    cluster::CleanPlan,
    commands::{BlotOptions, ShardList},
    index::Index,
    text::corpus::{self, WalkItem},
};
use anyhow::{Context, bail};
use clap::Args;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

#[derive(Args, Debug)]
#[command(next_help_heading = "Cleaning")]
pub struct CleaningArgs {
    /// Also write the files into OUT without what is there twice
    ///
    /// As dedup-extract clean does, with its flags.
    #[arg(long, value_name = "OUT", conflicts_with_all = ["base", "table", "clusters", "threshold", "top", "max_df", "rank", "format"])]
    clean: Option<PathBuf>,
    #[command(flatten)]
    rules: RuleArgs,
}

/// Where the cleaned copies of files go, below the directory for all of them.
pub type OutputNames = HashMap<PathBuf, String>;

impl CleaningArgs {
    /// Whether the corpus is to be cleaned.
    pub fn is_asked(&self) -> bool {
        self.clean.is_some()
    }

    /// The blots to compare by: those of a given index, or of five tokens unless others are asked for.
    pub fn blots(&self, asked: BlotOptions, is_dna: bool) -> Result<BlotOptions, anyhow::Error> {
        if !self.is_asked() {
            return Ok(asked);
        }
        Ok(match self.rules.against().0.first() {
            Some(index) => BlotOptions::of_scheme(&Index::open_whole(index)?.scheme),
            None => default_blots(asked, is_dna),
        })
    }

    /// How the corpus is found: with the paths of the list, as each has its own place in the output.
    pub fn corpus(
        &self,
        input: &InputArgs,
        is_dna: bool,
    ) -> Result<corpus::Options, anyhow::Error> {
        let mut options = input.options(is_dna);
        if self.is_asked()
            && let Some(list) = options.files_from.take()
        {
            for path in read_list(&list, options.nul_separated)? {
                options.paths.push(path?.into());
            }
        }
        Ok(options)
    }

    /// How the files are cleaned, and where each goes; nothing if they are not to be. `run`: the directory of the run.
    pub fn plan(
        &self,
        input: &InputArgs,
        corpus: &corpus::Options,
        found: &[WalkItem],
        run: &Path,
    ) -> Result<Option<(CleanPlan, OutputNames)>, anyhow::Error> {
        let Some(target) = &self.clean else {
            if let Some(flag) = self.rules.first_given() {
                bail!("{flag} says how files are cleaned; say where they go with --clean OUT");
            }
            return Ok(None);
        };
        self.ensure_no_stdout()?;
        self.rules.ensure_outputs_differ(true)?;
        let is_damaged =
            |item: &&WalkItem| matches!(item, WalkItem::Skipped(left) if left.is_damaged());
        if let Some(WalkItem::Skipped(left)) = found.iter().find(is_damaged)
            && !input.read.skip_bad
        {
            bail!(
                "{}; nothing is written if a file cannot be read; leave it out with --skip-bad or --exclude",
                left.problem
            );
        }
        let shards = ShardList::find(corpus)?;
        ensure_shards(&shards, PROGRAM, input.read.skip_bad)?;
        self.rules.ensure_records_have_fields(&shards)?;
        shards.ensure_apart(&corpus.paths, target)?;
        ensure_empty(target)?;
        ensure_not_nested(run, target)?;
        let output = absolute(target)?;
        let file = |path: &Option<PathBuf>| {
            let path = path.as_deref().map(|path| record_file(path, &output));
            path.transpose()
        };
        let (indexes, documents) = self.rules.against();
        for path in &self.rules.against {
            if !path.exists() {
                bail!("{}: no such file or directory", path.display());
            }
        }
        let plan = CleanPlan {
            rules: self.rules.rules(),
            against: indexes
                .iter()
                .map(|path| utf8(path))
                .collect::<Result<_, _>>()?,
            against_documents: documents
                .iter()
                .map(|path| utf8(path))
                .collect::<Result<_, _>>()?,
            relative: input.read.relative,
            dropped: file(&self.rules.dropped)?,
            cuts: file(&self.rules.cuts)?,
            report: file(&self.rules.report)?,
            output,
        };
        let mut names = OutputNames::new();
        for shard in shards.shards {
            names.insert(shard.entry.path, utf8(&shard.output)?);
        }
        Ok(Some((plan, names)))
    }

    fn ensure_no_stdout(&self) -> Result<(), anyhow::Error> {
        let named = [
            ("--dropped", &self.rules.dropped),
            ("--cuts", &self.rules.cuts),
            ("--report", &self.rules.report),
        ];
        let is_stdout = |path: &&Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
        match named.iter().find(|(_, path)| is_stdout(path)) {
            Some((flag, _)) => {
                bail!("{flag}: a task has no stdout that you would see; give a file")
            }
            None => Ok(()),
        }
    }
}

fn utf8(path: &Path) -> Result<String, anyhow::Error> {
    let text = path.to_str().map(str::to_owned);
    text.with_context(|| {
        format!(
            "{}: its name is not UTF-8; it cannot stand in a plan",
            path.display()
        )
    })
}

fn absolute(path: &Path) -> Result<String, anyhow::Error> {
    let path = std::path::absolute(path).with_context(|| path.display().to_string())?;
    // Without the slash at the end that a directory may have.
    utf8(&path.components().collect::<PathBuf>())
}

/// A file that the last task writes: its directory must be there by then.
fn record_file(path: &Path, output: &str) -> Result<String, anyhow::Error> {
    let name = absolute(path)?;
    let parent = Path::new(&name).parent().unwrap_or(Path::new("/"));
    if path.is_dir() {
        bail!(
            "{}: is a directory; give the name of a file",
            path.display()
        );
    }
    if !parent.is_dir() && parent != Path::new(output) {
        bail!(
            "{}: there is no directory {}",
            path.display(),
            parent.display()
        );
    }
    Ok(name)
}

fn ensure_not_nested(run: &Path, target: &Path) -> Result<(), anyhow::Error> {
    let (run, target) = (absolute(run)?, absolute(target)?);
    if Path::new(&run).starts_with(&target) || Path::new(&target).starts_with(&run) {
        bail!(
            "{target}: the cleaned files and the run need a directory each, one beside the other"
        );
    }
    Ok(())
}
