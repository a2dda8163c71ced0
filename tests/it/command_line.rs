//! Behaviour common to all programs: closed pipes, output files, signals, help, completions.

use crate::test_dir::TestDir;

#[test]
fn a_closed_pipe_ends_the_program_without_a_message() {
    let dir = TestDir::with(&[("a", "word ".repeat(500_000))]);
    for n in 0..40 {
        dir.write(&format!("c/{n}"), "word ".repeat(50_000));
    }
    for line in [
        "dedup-tokenize c | head -c 100",
        "dedup-blot --binary c | head -c 1",
        "dedup-tokenize a | dedup-blot | true",
    ] {
        let ran = dir.shell(&format!(
            "set -o pipefail; {line} > /dev/null; echo ${{PIPESTATUS[0]}}"
        ));
        assert_eq!(
            (ran.stdout().as_str(), ran.stderr().as_str()),
            ("0\n", ""),
            "{line}"
        );
    }
}

#[test]
fn output_files_appear_whole_or_not_at_all() {
    let dir = TestDir::with(&[("a", "some words")]);
    dir.run("dedup-tokenize", &["-o", "t", "a"]).ok();
    assert_eq!(dir.read("t"), dir.run("dedup-tokenize", &["a"]).ok());
    dir.write(
        "bad",
        "{\"dedup\":\"tokens\",\"version\":1,\"scheme\":\"words@18.0/49\"}\n",
    );
    assert_eq!(dir.run("dedup-tokenize", &["-o", "t", "bad"]).code(), 2);
    assert_eq!(dir.read("t"), dir.run("dedup-tokenize", &["a"]).ok());
    let mut names: Vec<_> = std::fs::read_dir(dir.temp.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["a", "bad", "t"]);
    let umask = dir.shell("umask 022; dedup-tokenize -o u a; stat -c %a u");
    assert_eq!(umask.ok_text(), "644\n");
}

#[test]
fn errors_name_output_that_cannot_be_written() {
    let dir = TestDir::with(&[("a", "some words")]);
    for (output, what) in [
        ("no/t", "dedup-tokenize: no/t: No such file or directory"),
        (
            "/dev/full",
            "dedup-tokenize: /dev/full: No space left on device",
        ),
        (
            ".",
            "dedup-tokenize: .: is a directory; give -o the name of a file",
        ),
    ] {
        let ran = dir.run("dedup-tokenize", &["-o", output, "a"]);
        assert_eq!(ran.code(), 2);
        assert!(ran.stderr().starts_with(what), "{}", ran.stderr());
    }
    let ran = dir.shell("dedup-blot a > /dev/full");
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (
            2,
            "dedup-blot: stdout: No space left on device (os error 28)\n"
        )
    );
    assert_eq!(
        dir.run("dedup-tokenize", &["-o", "/dev/null", "a"]).ok(),
        b""
    );
}

#[test]
fn an_interrupted_run_leaves_nothing_behind() {
    let dir = TestDir::with(&[("a", "some words")]);
    let ran = dir.shell(
        "mkfifo p; dedup-tokenize -o out a p & tool=$!
         exec 3> p; until ls -A | grep -q '^[.]dedup-'; do :; done
         kill -INT $tool; kill -TERM $tool; wait $tool; echo $?; ls -A",
    );
    assert!(
        ["143\na\np\n", "130\na\np\n"].contains(&ran.stdout().as_str()),
        "{}{}",
        ran.stdout(),
        ran.stderr()
    );
}

#[test]
fn help_has_usage_examples_and_lines_of_at_most_110_columns() {
    for tool in ["dedup-tokenize", "dedup-blot"] {
        for flag in ["-h", "--help"] {
            let help = TestDir::new().run(tool, &[flag]).ok_text();
            for part in [
                "Usage: ",
                "Examples:",
                "--files-from",
                "--threads",
                "--binary",
                "dedup-tokenize corpus/ | dedup-blot",
            ] {
                assert!(help.contains(part), "{tool} {flag}: {part}");
            }
            assert!(
                !help.contains("--generate")
                    && help.lines().all(|line| line.chars().count() <= 110),
                "{tool} {flag}"
            );
        }
        let version = TestDir::new().run(tool, &["--version"]).ok_text();
        assert_eq!(version, format!("{tool} {}\n", env!("CARGO_PKG_VERSION")));
        assert_eq!(TestDir::new().run(tool, &["--no-such-flag"]).code(), 2);
    }
}

#[test]
fn completions_are_generated_for_three_shells() {
    for tool in ["dedup-tokenize", "dedup-blot"] {
        for (shell, part) in [
            ("bash", "complete -F"),
            ("zsh", "#compdef"),
            ("fish", "complete -c"),
        ] {
            let script = TestDir::new().run(tool, &["--generate", shell]).ok_text();
            assert!(
                script.contains(part) && script.contains("files-from"),
                "{tool} {shell}"
            );
        }
    }
}

#[test]
fn a_closed_pipe_ends_a_program_that_waits_for_input() {
    // The fifo stays open for writing to the end, so only the closed output can end the program.
    let ran = TestDir::new().shell(
        "mkfifo p; exec 3<> p; seq 100000 >&3 2>&1 & writer=$!
         timeout 20 dedup-tokenize --records lines p | head -1; echo ${PIPESTATUS[0]}; kill $writer; wait",
    );
    assert!(ran.stdout().ends_with("}\n0\n"), "{}", ran.stdout());
}

#[test]
fn a_closed_stderr_causes_no_panic() {
    for redirect in ["2>/dev/full", "2>&-"] {
        let ran = TestDir::new().shell(&format!(
            "dedup-tokenize /nonexistent {redirect} > /dev/null; echo $?"
        ));
        assert_eq!(ran.stdout(), "2\n", "{redirect}");
    }
}
