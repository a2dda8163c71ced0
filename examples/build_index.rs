//! Builds an index of files and directories: `cargo run --example build_index -- INDEX PATH…`.

use dedup::{
    base::{error::Problem, files::TempDir, parallel::Limits},
    commands::{BlotOptions, BuildOptions, Observer, Settings, build},
    index::Resources,
    text::{corpus, stream::Form},
};
use std::{env, error::Error, path::PathBuf};

/// Prints problems to stderr, and no progress.
struct PrintProblems;

impl Observer for PrintProblems {
    fn problem(&mut self, problem: &Problem) {
        eprintln!("build_index: {problem}");
    }

    fn progress(&mut self, _: u64, _: u64) {}
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args_os().skip(1).map(PathBuf::from);
    let index = arguments.next().ok_or("usage: build_index INDEX PATH…")?;
    let limits = Limits::new(2, 256 << 20);
    let settings = Settings {
        form: Form::Ndjson,
        limits,
        corpus: corpus::Options::of_files(arguments.collect()),
    };
    let options = BuildOptions {
        // The tokenizer is `word`, a blot the hash of eight words, unless something else is chosen.
        blots: BlotOptions::default(),
        parts: 1,
        dictionary: false,
        resources: Resources {
            memory_bytes: limits.memory_bytes,
            threads: limits.threads,
            tmp_dir: TempDir(None),
        },
    };
    let summary = build(&options, &settings, &index, &mut PrintProblems)?;
    println!(
        "{}: {} documents",
        index.display(),
        summary.account.documents
    );
    Ok(())
}
