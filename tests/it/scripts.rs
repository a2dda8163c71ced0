//! The scripts of scripts/evaluate and scripts/bench, with and without their corpora.

use crate::test_dir::{RunResult, TestDir, root};
use assert_cmd::cargo::cargo_bin;
use std::{fs, process::Command};

/// A sentence of both documents of the corpus.
const COPY: &str = "The keeper of the light wrote every evening into a large black book what ships had passed and how the wind had turned since noon.";

/// Runs a script of scripts/evaluate with its own cache and shared directory.
fn script(dir: &TestDir, name: &str, arguments: &[&str]) -> RunResult {
    let mut command = Command::new(root().join("scripts/evaluate").join(name));
    command.args(arguments).current_dir(dir.temp.path());
    command
        .env("DEDUP_BIN", cargo_bin("dedup-query").parent().unwrap())
        .env("XDG_CACHE_HOME", dir.cache())
        .env("DEDUP_CACHE", dir.path("cache"))
        .env("DEDUP_SHARED", dir.path("shared"));
    RunResult(command.output().unwrap())
}

/// A plagiarism corpus of one pair with one passage, in an archive like the real one.
fn with_archive() -> TestDir {
    let source =
        format!("Nobody remembers the name of that island. {COPY} In spring the boats came back.");
    let suspicious =
        format!("An essay begins with something else altogether. {COPY} Then it ends.");
    let (this, from) = (suspicious.find(COPY).unwrap(), source.find(COPY).unwrap());
    let case = format!(
        "<document reference=\"suspicious-document1.txt\"><feature name=\"plagiarism\" this_offset=\"{this}\" this_length=\"{length}\" \
         source_reference=\"source-document1.txt\" source_offset=\"{from}\" source_length=\"{length}\" /></document>",
        length = COPY.len()
    );
    let dir = TestDir::with(&[
        (
            "pan-13-train/susp/suspicious-document1.txt",
            suspicious.as_str(),
        ),
        ("pan-13-train/src/source-document1.txt", &source),
        (
            "pan-13-train/02-no-obfuscation/pairs",
            "suspicious-document1.txt source-document1.txt\n",
        ),
        (
            "pan-13-train/02-no-obfuscation/suspicious-document1-source-document1.xml",
            &case,
        ),
        ("shared/corpora/README", ""),
    ]);
    dir.shell(
        "tar --zstd -cf shared/corpora/pan13-train.tar.zst pan-13-train && rm -r pan-13-train",
    )
    .ok();
    dir
}

#[test]
fn a_section_without_its_corpus_is_skipped_with_a_message() {
    let dir = TestDir::new();
    let sections = ["lengths", "damaged", "passages", "sources", "calibrate"];
    let ran = script(&dir, "all", &sections);
    assert_eq!(
        (ran.code(), ran.stdout().as_str()),
        (0, ""),
        "{}",
        ran.stderr()
    );
    let looked_at = (
        dir.path("cache/pan13/pan-13-train"),
        dir.path("shared/corpora/pan13-train.tar.zst"),
    );
    let why = format!(
        "no plagiarism corpus in {}, nor {};",
        looked_at.0.display(),
        looked_at.1.display()
    );
    let stderr = ran.stderr();
    assert_eq!(stderr.lines().count(), sections.len(), "{stderr}");
    for (line, section) in stderr.lines().zip(sections) {
        assert!(
            line.starts_with(&format!("all: {section}: skipped: {why}")),
            "{line}"
        );
    }
    for name in ["damaged", "passages", "sources", "calibrate"] {
        let ran = script(&dir, name, &[]);
        assert_eq!((ran.code(), ran.stdout().as_str()), (0, ""), "{name}");
        assert!(
            ran.stderr()
                .starts_with(&format!("{name}: nothing is measured: {why}")),
            "{}",
            ran.stderr()
        );
    }
}

#[test]
fn the_plagiarism_corpus_is_unpacked_into_the_cache() {
    let dir = with_archive();
    let table = script(&dir, "all", &["passages"]).ok_text();
    let row = table
        .lines()
        .find(|line| line.starts_with("| 02-no-obfuscation | 1 | 1 | 1.0000 |"))
        .unwrap_or_else(|| panic!("{table}"));
    assert!(row.ends_with("| 0.962 (Glinos) |"), "{row}");
    assert!(
        table.contains("\n## passages\n\nMachine: ")
            && table.contains("Command: `scripts/evaluate/passages`, "),
        "{table}"
    );
    // After unpacking, the archive is not needed, and the cache has no other files.
    fs::remove_dir_all(dir.path("shared")).unwrap();
    let again = script(&dir, "passages", &[]).ok_text();
    assert!(again.contains("1 pairs in "), "{again}");
    let names: Vec<_> = fs::read_dir(dir.path("cache/pan13"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["pan-13-train"]);
}

/// The text of all results pages.
fn results() -> String {
    let mut pages: Vec<_> = ["scripts/bench/results", "scripts/evaluate/results"]
        .iter()
        .flat_map(|directory| fs::read_dir(root().join(directory)).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    pages.sort();
    pages
        .iter()
        .map(|page| fs::read_to_string(page).unwrap())
        .collect()
}

#[test]
fn an_empty_text_does_not_replace_a_table() {
    let before = results();
    let line = "import sys; sys.dont_write_bytecode = True; sys.path.insert(0, sys.argv[1]); import measure; measure.write('versions', ' \\n')";
    let ran = RunResult(
        Command::new("python3")
            .args(["-c", line])
            .arg(root().join("scripts/bench"))
            .output()
            .unwrap(),
    );
    assert!(
        ran.code() == 1
            && ran
                .stderr()
                .contains("nothing to write to section 'versions'"),
        "{}",
        ran.stderr()
    );
    assert_eq!(results(), before);
}

/// Each section that a script can write has its marks in exactly one results page.
#[test]
fn every_section_has_its_marks() {
    let page = results();
    let marks = |kind: &str| -> Vec<String> {
        page.split(&format!("<!-- {kind} "))
            .skip(1)
            .map(|rest| rest.split(" -->").next().unwrap().to_owned())
            .collect()
    };
    let (starts, ends) = (marks("bench"), marks("end"));
    assert_eq!(starts, ends);
    let help = RunResult(
        Command::new(root().join("scripts/evaluate/all"))
            .arg("--help")
            .output()
            .unwrap(),
    )
    .ok_text();
    let sections = help
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .filter_map(|line| line.split("  ").next())
        .filter(|name| !name.is_empty() && !name.contains(' '));
    let sections: Vec<&str> = sections.filter(|&name| name != "plots").collect();
    assert!(sections.len() >= 13, "{sections:?}");
    for name in sections.into_iter().chain([
        "history", "service", "spex", "pages", "peers", "table", "index", "shard",
    ]) {
        assert_eq!(
            starts.iter().filter(|start| *start == name).count(),
            1,
            "{name}"
        );
    }
}
