//! Prints the documents of an index that share text with some files, one JSON object per file:
//! `cargo run --example query_index -- INDEX FILE…`.

use dedup::{
    base::{error::Problem, parallel::Limits},
    commands::{AnswerFormat, BlotOptions, Observer, QueryOptions, Settings, query},
    index::Index,
    similar::Score,
    text::{corpus, stream::Form},
};
use std::{env, error::Error, io, path::PathBuf};

/// Prints problems to stderr, and no progress.
struct PrintProblems;

impl Observer for PrintProblems {
    fn problem(&mut self, problem: &Problem) {
        eprintln!("query_index: {problem}");
    }

    fn progress(&mut self, _: u64, _: u64) {}
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args_os().skip(1).map(PathBuf::from);
    let index = arguments.next().ok_or("usage: query_index INDEX FILE…")?;
    let index = Index::open(&index)?;
    let settings = Settings {
        form: Form::Ndjson,
        limits: Limits::new(2, 256 << 20),
        corpus: corpus::Options::of_files(arguments.collect()),
    };
    let options = QueryOptions {
        // Documents are cut into blots as those of the index were.
        blots: BlotOptions::default(),
        score: Score::Containment,
        threshold: 0.1,
        top: 10,
        max_df: None,
        exclude: Vec::new(),
        exclude_indexes: Vec::new(),
        base: Vec::new(),
        groups: None,
        answers: AnswerFormat::Documents,
        passages: None,
        compares_paths: false,
    };
    query(
        &options,
        &index,
        &settings,
        &mut io::stdout().lock(),
        &mut PrintProblems,
    )?;
    Ok(())
}
