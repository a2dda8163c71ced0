//! dedup-shard plan: what to read, and how to cut it.

use super::{
    super::{
        args::{BlotArgs, InputArgs, TokenArgs, parse_size},
        progress::say,
        threshold::Threshold,
    },
    PROGRAM,
    cleaning::{CleaningArgs, OutputNames},
    clusters::ClusterPlanArgs,
    plan_width::width_warning,
};
use crate::{
    cluster::{
        BaseIndex, Host, MOST_RANGES, Plan, PlanOptions, TableFormat, TableOptions,
        cut_large_files, default_parts, read_owners, size, write_plan,
    },
    commands::{BlotOptions, MaxRemove, Preset, TEXT, files_to_read, scheme_of},
    index::{Index, Manifest},
    similar::Score,
    text::{
        corpus::{self, CorpusWalk, UncutFile, WalkItem},
        token::{Rule, Tokenizer},
    },
};
use anyhow::Context;
use clap::{ArgGroup, Args, builder::PossibleValuesParser};
use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
};

#[derive(Args, Debug)]
#[command(group(ArgGroup::new("results").args(["table", "clusters"]).multiple(true)))]
pub struct PlanArgs {
    /// Print only errors, not which large files cannot be cut
    #[arg(short, long)]
    quiet: bool,
    /// The directory of the run, to be made
    #[arg(short, long, value_name = "RUN")]
    output: PathBuf,
    /// A file with a host a line: [user@]host[:port] [slots=N] [dir=PATH] [shared=PATH] [nice=N]
    #[arg(long, value_name = "HOSTS", required_unless_present = "slots")]
    hosts: Option<PathBuf>,
    /// How many tasks will run at a time, instead of HOSTS: for every engine but ssh
    #[arg(long, value_name = "N", conflicts_with = "hosts", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    slots: Option<u32>,
    /// Cut documents, and files of many, into slices of about SIZE [default: two for each slot, 16 MB to 1 GB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, hide_short_help = true)]
    slice_size: Option<u64>,
    /// Cut the postings of the index into N range parts, 1 to 256: these are the ranges that are worked on one by one [default: two for each slot, and more up to a power of two]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    parts: Option<u32>,
    /// Make this index follow its files, as dedup-index sync does: only new and changed files are read, and run ends with the commit
    #[arg(long, value_name = "IDX", conflicts_with_all = ["parts", "dictionary"])]
    base: Option<PathBuf>,
    /// With --base: how many documents may be removed, as a number or a share [default: 50%]
    #[arg(long, value_name = "N|P%", requires = "base", hide_short_help = true)]
    max_remove: Option<MaxRemove>,
    /// Also keep a dictionary: how often each word occurs in each document, for dedup-extract --method gdic
    #[arg(long, hide_short_help = true)]
    dictionary: bool,
    /// Also make a table of the most similar documents of each, as dedup-extract table does: RUN/table.ndjson
    #[arg(long)]
    table: bool,
    /// The least a→b that counts in the table, such as 0.1 or 10%
    #[arg(
        long,
        value_name = "X|P%",
        requires = "table",
        default_value = "0.1",
        allow_negative_numbers = true
    )]
    threshold: Threshold,
    /// Rows of the table for each document
    #[arg(long, value_name = "N", requires = "table", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    top: u32,
    /// For the table, leave out blots of more than N documents [default: no limit]
    #[arg(
        long,
        value_name = "N",
        requires = "table",
        visible_alias = "ignore-df",
        hide_short_help = true
    )]
    max_df: Option<u64>,
    /// Number the rows of each document in the table
    #[arg(long, requires = "table", hide_short_help = true)]
    rank: bool,
    /// How to write the table and the clusters
    #[arg(long, value_name = "FORMAT", requires = "results", default_value = "ndjson", value_parser = PossibleValuesParser::new(TableFormat::NAMES.map(|(name, _)| name)))]
    format: String,
    /// How much memory a task uses before sorted runs go to disk
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = parse_size)]
    memory: u64,
    #[command(flatten)]
    clusters: ClusterPlanArgs,
    #[command(flatten)]
    cleaning: CleaningArgs,
    #[command(flatten)]
    blots: BlotArgs,
    #[command(flatten)]
    tokens: TokenArgs,
    #[command(flatten)]
    input: InputArgs,
}

impl PlanArgs {
    fn format(&self) -> TableFormat {
        TableFormat::NAMES
            .iter()
            .find(|(name, _)| *name == self.format)
            .map_or(TableFormat::Ndjson, |&(_, format)| format)
    }

    fn table(&self) -> Result<Option<TableOptions>, anyhow::Error> {
        let threshold = self.threshold.of_score(Score::Inclusion)?;
        Ok(self.table.then_some(TableOptions {
            threshold,
            top: self.top,
            max_df: self.max_df,
            format: self.format(),
            rank: self.rank,
        }))
    }

    /// The preset that the index has or gets.
    fn preset(&self) -> Result<&'static Preset, anyhow::Error> {
        match &self.base {
            Some(index) => Ok(Preset::of_index(&Index::open(index)?)?),
            None => Ok(self.tokens.preset.unwrap_or(&TEXT)),
        }
    }

    fn blots(&self) -> Result<BlotOptions, anyhow::Error> {
        let asked = self.blots.options(&self.tokens);
        self.cleaning.blots(asked, self.tokens.is_dna())
    }

    /// How the files of slices are read: as the corpus, but for where they are found.
    fn reading(&self, is_dna: bool) -> corpus::Options {
        corpus::Options {
            paths: Vec::new(),
            files_from: None,
            nul_separated: false,
            relative: false,
            placed_ids: self.cleaning.is_asked(),
            adapter_cache: self.cache(),
            ..self.input.options(is_dna)
        }
    }

    /// Where every machine keeps extracted texts, if the user says so: the cache directory of this
    /// user means nothing to another machine.
    fn cache(&self) -> Option<PathBuf> {
        let asked = self.input.read.convert.adapter_cache.clone();
        asked.filter(|path| path != Path::new("none"))
    }

    /// All documents, for a new index, and where the cleaned copies of files go.
    fn find_all(
        &self,
        options: &mut PlanOptions,
    ) -> Result<(Vec<WalkItem>, OutputNames), anyhow::Error> {
        let corpus = self.cleaning.corpus(&self.input, self.tokens.is_dna())?;
        let settings = options.settings(corpus);
        options.scheme = scheme_of(&self.blots()?, &settings)?.to_string();
        let found: Vec<WalkItem> = CorpusWalk::new(&settings.corpus)?.collect();
        ensure_some_found(&found, false)?;
        let clean = self
            .cleaning
            .plan(&self.input, &settings.corpus, &found, &self.output)?;
        let (clean, names) = clean.unzip();
        options.clean = clean;
        Ok((found, names.unwrap_or_default()))
    }

    /// The files that are new or have changed, for an index that is brought up to date.
    fn find_changes(
        &self,
        index: &Path,
        options: &mut PlanOptions,
    ) -> Result<Vec<WalkItem>, anyhow::Error> {
        let directory = std::path::absolute(index).with_context(|| index.display().to_string())?;
        let name = directory
            .to_str()
            .with_context(|| format!("{}: its name is not UTF-8", index.display()))?;
        let mut named = self.input.paths.iter().chain(&self.input.read.files_from);
        if named.any(|path| path.to_str().is_none()) {
            anyhow::bail!("a path is not UTF-8; it cannot stand in a plan")
        }
        let is_dna = Manifest::read(&directory)?
            .scheme(&directory)?
            .tokens
            .is_dna();
        let settings = options.settings(self.input.options(is_dna));
        let max_remove = self.max_remove.unwrap_or_default();
        let (manifest, found) = files_to_read(&directory, &self.blots()?, &settings, max_remove)?;
        if is_dna && !self.tokens.is_dna() {
            options.blots.tokenizer = Some(Tokenizer::new(Rule::Dna, self.tokens.strip_html));
            options.reading = self.reading(true);
        }
        options.parts = manifest.segments.first().map_or(1, |segment| segment.parts);
        options.dictionary = manifest.dictionary;
        options.scheme.clone_from(&manifest.scheme);
        options.base = Some(BaseIndex {
            index: name.to_owned(),
            checksum: manifest.checksum(),
            generation: manifest.generation,
            // The tasks that use it compare files, and extract nothing.
            corpus: corpus::Options {
                adapter_cache: self.cache(),
                ..settings.corpus
            },
            max_remove: self.max_remove,
        });
        Ok(found)
    }
}

/// A plan for nothing, because nothing is there to be read, is a slip.
fn ensure_some_found(found: &[WalkItem], has_base: bool) -> Result<(), anyhow::Error> {
    let problem = found.iter().find_map(|found| {
        if let WalkItem::Problem(problem) = found {
            Some(problem)
        } else {
            None
        }
    });
    if let (Some(problem), false) = (
        problem,
        has_base || found.iter().any(|found| matches!(found, WalkItem::File(_))),
    ) {
        anyhow::bail!("{problem}; there is nothing to plan for");
    }
    Ok(())
}

fn uncut_message(file: &UncutFile) -> String {
    let UncutFile {
        file,
        bytes,
        why,
        remedy,
    } = file;
    format!("{file}: {why}: one task of {}; {remedy}", size(*bytes))
}

/// Some slots have nothing to do where the work is divided by ranges.
fn idle_message(options: &PlanOptions, slots: u32) -> Option<String> {
    let ranges = options.parts;
    (slots > ranges && ranges == MOST_RANGES).then(|| {
        format!(
            "{slots} slots are planned, but there are {MOST_RANGES} ranges at most: \
             {} slots have no range to work on; all of them read documents",
            slots - ranges
        )
    })
}

pub fn run_plan(args: &PlanArgs) -> Result<ExitCode, anyhow::Error> {
    if args.input.reads_stdin() {
        anyhow::bail!("say which files and directories to read; stdin cannot be cut into slices");
    }
    let directory = env::current_dir().context("the working directory")?;
    let Some(directory) = directory.to_str() else {
        anyhow::bail!(
            "{}: the name of the working directory is not UTF-8; call plan from another",
            directory.display()
        );
    };
    let hosts = match &args.hosts {
        Some(hosts) => Host::read(hosts)?,
        None => Vec::new(),
    };
    let slots = args
        .slots
        .unwrap_or_else(|| hosts.iter().map(|host| host.slots).sum());
    let mut options = PlanOptions {
        directory: directory.to_owned(),
        scheme: String::new(),
        blots: args.blots()?,
        reading: args.reading(args.tokens.is_dna()),
        own_cache: args.input.read.convert.adapter_cache.is_none(),
        dictionary: args.dictionary,
        selection_files: 0,
        parts: args.parts.unwrap_or_else(|| default_parts(slots)),
        slots,
        slice_bytes: args.slice_size.map(|bytes| bytes.max(1)),
        memory: args.memory,
        skip_bad: args.input.read.skip_bad,
        table: args.table()?,
        clusters: None,
        base: None,
        clean: None,
    };
    let selection_files = options.take_selection_files()?;
    let (found, outputs) = match &args.base {
        Some(index) => (
            args.find_changes(index, &mut options)?,
            OutputNames::default(),
        ),
        None => args.find_all(&mut options)?,
    };
    ensure_some_found(&found, args.base.is_some())?;
    options.clusters = args.clusters.plan(args.preset()?, args.format())?;
    let before = args
        .base
        .as_ref()
        .map_or_else(|| Ok(Vec::new()), |index| read_owners(index))?;
    let (found, uncut) = cut_large_files(found, &options);
    if !args.quiet {
        let messages = uncut.iter().map(uncut_message);
        let idle = idle_message(&options, slots);
        messages
            .chain(idle)
            .for_each(|message| say(&format!("{PROGRAM}: {message}")));
    }
    let (plan, slices) = Plan::new(found, hosts, options, &before, &outputs)?;
    if let Some(what) = width_warning(&plan).filter(|_| !args.quiet) {
        say(&format!("{PROGRAM}: {}: {what}", args.output.display()));
    }
    write_plan(&plan, &slices, &selection_files, &args.output)?;
    Ok(ExitCode::SUCCESS)
}
