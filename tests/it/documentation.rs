//! The examples in README.md, help and man pages work as printed, and golden files are still read.

use crate::test_dir::{TestDir, root};
use std::{fs, os::unix::fs::symlink, path::Path};

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

/// The literal blocks of a man page, without the markup.
fn literals(page: &str) -> Vec<String> {
    page.split("\n.Bd -literal")
        .skip(1)
        .map(|rest| {
            rest.split_once('\n')
                .unwrap()
                .1
                .split("\n.Ed")
                .next()
                .unwrap()
                .to_owned()
                + "\n"
        })
        .collect()
}

/// The bytes of a block in the format of `hexdump -C`.
fn bytes_of(dump: &str) -> Vec<u8> {
    dump.lines()
        .flat_map(|line| {
            line.split_whitespace()
                .skip(1)
                .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        })
        .collect()
}

#[test]
fn programs_write_and_read_the_streams_of_the_format_page() {
    let page = read("man/dedup-stream.5");
    let [
        _,
        tokens,
        blots,
        prints,
        token_bytes,
        blot_bytes,
        print_bytes,
    ] = &literals(&page)[..]
    else {
        panic!("other blocks than there were")
    };
    let dir = TestDir::with(&[("a", "Lorem, ipsum!")]);
    let scheme = ["--scheme", "minhash:256"];
    assert_eq!(
        dir.run("dedup-blot", &[&scheme[..], &["a"]].concat())
            .ok_text(),
        *prints
    );
    assert_eq!(
        dir.run("dedup-blot", &[&scheme[..], &["--binary", "a"]].concat())
            .ok(),
        bytes_of(print_bytes)
    );
    assert_eq!(
        dir.run_with("dedup-blot", &[], &bytes_of(print_bytes))
            .ok_text(),
        *prints
    );
    for (tool, options, text, dump) in [
        ("dedup-tokenize", &["--spans"][..], tokens, token_bytes),
        ("dedup-blot", &["-k", "1", "--positions"], blots, blot_bytes),
    ] {
        assert_eq!(dir.run(tool, &[options, &["a"]].concat()).ok_text(), *text);
        assert_eq!(
            dir.run(tool, &[options, &["--binary", "a"]].concat()).ok(),
            bytes_of(dump)
        );
        assert_eq!(
            dir.run_with(tool, &options[options.len() - 1..], &bytes_of(dump))
                .ok_text(),
            *text
        );
    }
}

#[test]
fn golden_streams_are_read_and_written_unchanged() {
    let dir = TestDir::new();
    symlink(root().join("testdata"), dir.path("testdata")).unwrap();
    for (tool, name, options) in [
        ("dedup-tokenize", "words-spans.tokens", &["--spans"][..]),
        (
            "dedup-tokenize",
            "word-spans.tokens",
            &["--tokenizer", "word", "--spans"],
        ),
        (
            "dedup-tokenize",
            "char-16.tokens",
            &["--tokenizer", "char:16"],
        ),
        (
            "dedup-tokenize",
            "code-norm.tokens",
            &["--tokenizer", "code-norm"],
        ),
        (
            "dedup-tokenize",
            "html.tokens",
            &["--tokenizer", "word", "--strip-html", "--spans"],
        ),
        (
            "dedup-blot",
            "ordered-8-32.blots",
            &["--tokenizer", "word", "--bits", "32", "--positions"],
        ),
        (
            "dedup-tokenize",
            "code-code-norm.tokens",
            &["--tokenizer", "code+code-norm", "--spans"],
        ),
        (
            "dedup-blot",
            "code-code-norm.blots",
            &[
                "--tokenizer",
                "code+code-norm",
                "--bits",
                "32",
                "--positions",
            ],
        ),
        (
            "dedup-blot",
            "xor-10x2-18-winnow.blots",
            &[
                "--tokenizer",
                "word",
                "--scheme",
                "xor",
                "-k",
                "10",
                "--interleave",
                "2",
                "--bits",
                "18",
                "--select",
                "winnow:4",
            ],
        ),
        (
            "dedup-blot",
            "minhash-256-2.prints",
            &["--tokenizer", "word", "--scheme", "minhash:256"],
        ),
        (
            "dedup-blot",
            "dna-31-64.blots",
            &["--tokenizer", "dna", "--records", "fasta", "--bits", "64"],
        ),
    ] {
        let corpus = if name.starts_with("dna") {
            "testdata/corpus/formats/strands.fa"
        } else {
            "testdata/corpus"
        };
        let golden = root().join("testdata/golden/v1").join(name);
        let made = dir
            .run(
                tool,
                &[options, &["--keep-markup", "--binary", corpus]].concat(),
            )
            .ok();
        if std::env::var_os("UPDATE_GOLDEN").is_some() && !golden.exists() {
            fs::create_dir_all(golden.parent().unwrap()).unwrap();
            fs::write(&golden, &made).unwrap();
        }
        assert!(
            made == fs::read(&golden).unwrap(),
            "{name} is not what it was; golden files are never edited"
        );
        let detail = options
            .iter()
            .filter(|option| ["--spans", "--positions"].contains(option))
            .copied()
            .collect::<Vec<_>>();
        let text = dir
            .run(tool, &[options, &["--keep-markup", corpus]].concat())
            .ok();
        assert!(
            dir.run(tool, &[detail, vec![golden.to_str().unwrap()]].concat())
                .ok()
                == text,
            "{name}"
        );
    }
}

/// Every program that reads prints of version 1 refuses them.
#[test]
fn prints_of_version_1_are_refused_with_a_remedy() {
    let dir = TestDir::new();
    let golden = root().join("testdata/golden/v1/minhash-256.prints");
    fs::copy(golden, dir.path("old.prints")).unwrap();
    let message = "old.prints: scheme is 'word@18.0 minhash:256', version 1 of the prints, whose bits depend on one another; \
                this program reads version 2 (minhash:256@2): make the prints again from the documents\n";
    for (tool, arguments) in [
        ("dedup-blot", &["old.prints"][..]),
        (
            "dedup-query",
            &["history", "h", "--min-similarity", "1", "old.prints"],
        ),
    ] {
        let ran = dir.run(tool, arguments);
        assert_eq!(
            (ran.code(), ran.stderr()),
            (2, format!("{tool}: {message}"))
        );
    }
    assert!(!dir.path("h").exists());
}

/// The golden index is read, and a new build has its bytes.
#[test]
fn the_golden_index_is_read_and_reproduced() {
    let (dir, golden) = (TestDir::new(), root().join("testdata/golden/v3/corpus.idx"));
    symlink(root().join("testdata/corpus"), dir.path("corpus")).unwrap();
    dir.run(
        "dedup-index",
        &[
            "build",
            "-o",
            "made.idx",
            "--parts",
            "2",
            "--tokenizer",
            "word",
            "--keep-markup",
            "--bits",
            "32",
            "corpus/",
        ],
    )
    .ok();
    if std::env::var_os("UPDATE_GOLDEN").is_some() && !golden.exists() {
        dir.shell(&format!(
            "mkdir -p {0} && rmdir {0} && cp -r made.idx {0}",
            golden.display()
        ))
        .ok();
    }
    dir.shell(&format!(
        "diff -r made.idx {0} && dedup-index verify {0}",
        golden.display()
    ))
    .ok();
    dir.shell(&format!("dedup-index dump {0} | dedup-index build -o again.idx --parts 2 && diff -r made.idx again.idx", golden.display()))
        .ok();
}

#[test]
fn an_index_of_an_older_version_is_refused_with_a_remedy() {
    let old = root().join("testdata/golden/v2/corpus.idx");
    for (tool, arguments) in [
        ("dedup-index", &["verify"][..]),
        ("dedup-extract", &[]),
        ("dedup-query", &["--stream"]),
    ] {
        let ran = TestDir::new().run(tool, &[arguments, &[old.to_str().unwrap()]].concat());
        let expected = "manifest.json: an index of version 2, this program reads version 3; build it again with dedup-index build";
        assert!(
            ran.code() == 2 && ran.stderr().contains(expected),
            "{tool}: {}",
            ran.stderr()
        );
    }
}

#[test]
fn golden_damaged_files_are_refused_with_the_right_message() {
    let mut names: Vec<_> = fs::read_dir(root().join("testdata/damaged"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.sort();
    assert!(names.len() >= 6);
    for path in names {
        let flaw = path
            .file_stem()
            .unwrap()
            .to_str()
            .unwrap()
            .replace('-', " ");
        let ran = TestDir::new().run("dedup-blot", &[path.to_str().unwrap()]);
        assert_eq!(ran.code(), 2, "{flaw}");
        assert!(ran.stderr().contains(&flaw), "{flaw}: {}", ran.stderr());
    }
}

/// Commands and their output in ```console blocks: `$ ` starts a command, the next lines are its
/// output.
fn sessions(page: &str) -> Vec<(String, String)> {
    let blocks = page
        .split("```console\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap());
    let mut found: Vec<(String, String)> = Vec::new();
    for line in blocks.flat_map(str::lines) {
        match (
            line.strip_prefix("$ "),
            line.strip_prefix("> "),
            found.last_mut(),
        ) {
            (Some(command), ..) => found.push((command.to_owned(), String::new())),
            (None, Some(more), Some((command, output))) if output.is_empty() => {
                *command += &format!("\n{more}")
            }
            (None, _, Some((_, output))) => *output += &format!("{line}\n"),
            _ => panic!("output before a command: {line}"),
        }
    }
    found
}

/// Runs the sessions of a page one after the other, in a directory that has `testdata` and `scripts`.
fn assert_sessions_give_the_output_shown(page: &str) {
    let dir = TestDir::new();
    for name in ["testdata", "scripts"] {
        symlink(root().join(name), dir.path(name)).unwrap();
    }
    for (command, expected) in sessions(&read(page)) {
        let ran = dir.shell(&format!("set -o pipefail; {command}"));
        // `stderr` leaves out the account of the input.
        let expected: String = expected
            .split_inclusive('\n')
            .filter(|line| !(line.contains(": read ") && line.contains(" document")))
            .collect();
        assert_eq!(
            ran.stdout() + &ran.stderr(),
            expected,
            "{page}: $ {command}"
        );
    }
}

#[test]
fn the_examples_of_the_readme_give_the_output_shown() {
    assert!(sessions(&read("README.md")).len() > 5);
    assert_sessions_give_the_output_shown("README.md");
}

#[test]
fn the_examples_of_the_guides_give_the_output_shown() {
    let mut pages: Vec<_> = fs::read_dir(root().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".md"))
        .collect();
    pages.sort();
    assert!(pages.len() >= 8);
    for page in pages {
        assert_sessions_give_the_output_shown(&format!("docs/{page}"));
    }
}

/// The commands in the examples of a program's help.
pub fn examples(dir: &TestDir, tool: &str) -> Vec<String> {
    let help = dir.run(tool, &["--help"]).ok_text();
    let examples = help.split("Examples:\n").nth(1).unwrap().lines();
    examples
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_examples_of_help_and_manual_run() {
    let files = [
        ("corpus/a", "words and words"),
        (
            "essay.txt",
            "words of an essay that is longer than a window of eight",
        ),
        ("source.txt", "other words"),
        ("pairs.tsv", "essay.txt\tsource.txt\n"),
        (
            "scans/x",
            "words of a page that is longer than a window of eight",
        ),
        ("essays/x", "words of an essay"),
        ("essays/y", "other words"),
        ("src/a.rs", "fn a() {}"),
        ("genomes.fa", ">a\nACGT\n"),
        ("new/old.txt", "new words"),
        ("template.txt", "some words"),
    ];
    for tool in [
        "dedup-tokenize",
        "dedup-blot",
        "dedup-index",
        "dedup-query",
        "dedup-shard",
    ] {
        let dir = TestDir::with(&files);
        dir.shell("echo '{\"id\":\"article-17\",\"text\":\"x\"}' | zstd -q > articles.jsonl.zst; gzip genomes.fa")
            .ok();
        if tool == "dedup-query" {
            dir.shell("dedup-index build -o my.idx corpus").ok();
            dir.shell("dedup-spex -q -o shared.idx essay.txt source.txt")
                .ok();
        }
        let examples = examples(&dir, tool);
        assert!(examples.len() >= 4);
        for example in examples {
            if example.contains(" serve ") {
                continue;
            }
            // These say what they made.
            let says_what_it_made = ["backup", "split", "merge", "repair"]
                .iter()
                .any(|verb| example.contains(&format!(" history {verb} ")));
            let output = dir
                .shell(&format!("set -o pipefail; {example} > /dev/null"))
                .stderr();
            assert!(
                output.is_empty() || says_what_it_made,
                "{example}: {output}"
            );
        }
        let page = dir.run(tool, &["--generate", "man"]).ok_text();
        assert!(
            page == read(&format!("man/{tool}.1")),
            "man/{tool}.1 is not current; run make man"
        );
    }
}

#[test]
fn every_man_page_that_is_mentioned_exists() {
    for entry in fs::read_dir(root().join("man")).unwrap() {
        let page = fs::read_to_string(entry.unwrap().path()).unwrap();
        for word in page.split(|c: char| !(c.is_alphanumeric() || "-()\\".contains(c))) {
            let word = word.replace('\\', "");
            if let Some((name, section)) = word
                .strip_suffix(')')
                .and_then(|word| word.split_once('('))
                .filter(|(name, _)| name.starts_with("dedup"))
            {
                assert!(
                    Path::new(&root().join(format!("man/{name}.{section}"))).exists(),
                    "{word}"
                );
            }
        }
    }
}

/// The targets of links in Markdown that lead to files of this repository, with the page.
fn links(page: &str) -> Vec<String> {
    let text = read(page);
    let targets = text.split("](").skip(1);
    targets
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.to_owned())
        .filter(|target| !target.contains("://") && !target.contains(' '))
        .collect()
}

/// The anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading
        .trim_start_matches('#')
        .trim()
        .to_lowercase()
        .replace(' ', "-");
    kept.chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
        .collect()
}

#[test]
fn links_of_the_guides_lead_somewhere() {
    let mut pages: Vec<String> = fs::read_dir(root().join("docs"))
        .unwrap()
        .map(|entry| format!("docs/{}", entry.unwrap().file_name().to_str().unwrap()))
        .filter(|name| name.ends_with(".md"))
        .collect();
    let others = ["README", "CONTRIBUTING", "ARCHITECTURE", "BENCHMARKS"];
    pages.extend(others.map(|name| format!("{name}.md")));
    let mut checked = 0;
    for page in &pages {
        for target in links(page) {
            let (path, at) = target.split_once('#').unwrap_or((&target, ""));
            let directory = root().join(page).parent().unwrap().to_owned();
            let file = if path.is_empty() {
                root().join(page)
            } else {
                directory.join(path)
            };
            assert!(file.exists(), "{page}: {target}");
            if !at.is_empty() {
                let text = fs::read_to_string(&file).unwrap();
                let mut headings = text.lines().filter(|line| line.starts_with('#'));
                assert!(
                    headings.any(|heading| anchor(heading) == at),
                    "{page}: {target}"
                );
            }
            checked += 1;
        }
    }
    assert!(checked > 40, "{checked}");
}
