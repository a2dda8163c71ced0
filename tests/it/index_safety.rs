//! Protection of an index against mistakes, and messages for unusable input.

use crate::test_dir::{RunResult, TestDir};

/// Five documents in two directories, and a synced index of them.
fn synced() -> TestDir {
    let text = |of: &str| (0..20).map(|n| format!("{of}{n} ")).collect::<String>();
    let dir = TestDir::with(&[
        ("c/a", text("a")),
        ("c/b", text("b")),
        ("c/c", text("c")),
        ("c/d", text("d")),
        ("e/e", text("e")),
    ]);
    dir.shell("dedup-index build -q -o i c e && dedup-index sync -q i c e")
        .ok();
    dir
}

/// The content of the index and of the state of sync.
fn state(dir: &TestDir) -> String {
    dir.shell("cat i/* i.sync | xxhsum").ok_text()
}

/// The messages of a successful command, without the count of known files: files written just now
/// are read again, which depends on timing.
#[track_caller]
fn messages(ran: &RunResult) -> String {
    let text = ran.ok_text();
    text.split(", ")
        .flat_map(|part| part.split("; "))
        .filter(|part| !part.ends_with(" known already"))
        .collect::<Vec<_>>()
        .join("; ")
}

#[track_caller]
fn ensure_refused(ran: &RunResult, what: &str) {
    assert_eq!(
        (ran.code(), ran.stdout().as_str(), ran.stderr()),
        (2, "", format!("{what}\n"))
    );
}

const REMEDY: &str = "nothing was changed; see that all files are there and read as they were (--relative, --records, --id-field), or allow it with --max-remove";

#[test]
fn sync_removes_more_than_half_of_an_index_only_if_allowed() {
    let dir = synced();
    dir.shell("rm c/a c/b c/c").ok();
    let before = state(&dir);
    let refusal = format!(
        "3 of 5 documents would be removed, as no file has them, and 50% may go; {REMEDY} 3"
    );
    ensure_refused(
        &dir.run("dedup-index", &["sync", "i", "c", "e"]),
        &format!("dedup-index: i: {refusal}"),
    );
    ensure_refused(
        &dir.run("dedup-index", &["sync", "i", "c", "e", "--max-remove", "2"]),
        &format!(
            "dedup-index: i: 3 of 5 documents would be removed, as no file has them, and 2 may go; {REMEDY} 3"
        ),
    );
    let ran = dir.run("dedup-index", &["sync", "-n", "i", "c", "e"]);
    assert_eq!(ran.code(), 2);
    assert!(
        ran.stdout().starts_with("i: 3 removed")
            && ran.stdout().ends_with("; nothing was written\n"),
        "{}",
        ran.stdout()
    );
    assert_eq!(
        ran.stderr(),
        format!("dedup-index: i: it would be refused: {refusal}\n")
    );
    let plan = ["plan", "-o", "r", "--hosts", "hosts", "--base", "i"];
    dir.write("hosts", "localhost slots=2\n");
    let ran = dir.run("dedup-shard", &[&plan[..], &["c", "e"]].concat());
    assert_eq!(
        (
            ran.code(),
            ran.stderr().ends_with(&format!("/i: {refusal}\n"))
        ),
        (2, true),
        "{}",
        ran.stderr()
    );
    assert_eq!((state(&dir), dir.path("r").exists()), (before, false));
    dir.run(
        "dedup-shard",
        &[&plan[..], &["--max-remove", "60%", "c", "e"]].concat(),
    )
    .ok();
    assert_eq!(
        messages(&dir.run(
            "dedup-index",
            &["sync", "i", "c", "e", "--max-remove", "60%"]
        )),
        "i: 3 removed; generation 2\n"
    );
    // One of two documents is half of the index.
    dir.shell("rm c/d && touch c/.hidden").ok();
    assert_eq!(
        messages(&dir.run("dedup-index", &["sync", "i", "c", "e"])),
        "i: 1 removed; generation 3\n"
    );
}

#[test]
fn sync_refuses_an_empty_or_missing_directory() {
    let dir = synced();
    let before = state(&dir);
    dir.shell("mv e away && mkdir e").ok();
    let what = format!(
        "1 of 5 documents would be removed, as no file has them, and e is empty: is it mounted?; {REMEDY} 1"
    );
    ensure_refused(
        &dir.run("dedup-index", &["sync", "i", "c", "e"]),
        &format!("dedup-index: i: {what}"),
    );
    dir.shell("rmdir e").ok();
    let ran = dir.run("dedup-index", &["sync", "i", "c", "e"]);
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (
            2,
            "dedup-index: e: No such file or directory (os error 2)\n"
        )
    );
    dir.shell("mv c other && mkdir c && mv away e").ok();
    let what = format!(
        "4 of 5 documents would be removed, as no file has them, and c is empty: is it mounted?; {REMEDY} 4"
    );
    ensure_refused(
        &dir.run("dedup-index", &["sync", "i", "c", "e"]),
        &format!("dedup-index: i: {what}"),
    );
    dir.shell("rmdir c && mv other c && dedup-index sync -q i c e")
        .ok();
    assert_eq!(
        dir.shell("cat i/* | xxhsum").ok_text(),
        dir.shell("dedup-index build -q -o j c e; cat j/* | xxhsum")
            .ok_text()
    );
    assert_ne!(before, "");
    dir.shell("mv c other && mkdir c").ok();
    assert_eq!(
        messages(&dir.run(
            "dedup-index",
            &["sync", "i", "c", "e", "--max-remove", "100%"]
        )),
        "i: 4 removed; generation 2\n"
    );
}

#[test]
fn sync_refuses_options_that_differ_from_the_last_call() {
    let dir = synced();
    let before = state(&dir);
    let refused = |words: &[&str], what: &str| {
        let rest =
            "call sync as before, or remove i.sync to follow files in another way from now on";
        ensure_refused(
            &dir.run("dedup-index", &[&["sync", "i"], words].concat()),
            &format!("dedup-index: i: synced in another way before: {what}; {rest}"),
        );
    };
    refused(
        &["c", "e", "--relative"],
        "--relative was not given, and is given now",
    );
    refused(
        &["c", "e", "--records", "ndjson"],
        "--records was not given, and is ndjson now",
    );
    refused(
        &["c", "e", "--id-field", "key", "--text-field", "body"],
        "--id-field was id, and is key now; --text-field was text, and is body now",
    );
    refused(
        &["c", "e", "--lossy"],
        "--lossy was not given, and is given now",
    );
    refused(&["c"], "e was given, and is not now (c)");
    refused(&["./c", "e"], "c was given, and is not now (./c e)");
    dir.write("hosts", "localhost slots=2\n");
    let ran = dir.run(
        "dedup-shard",
        &[
            "plan",
            "-o",
            "r",
            "--hosts",
            "hosts",
            "--base",
            "i",
            "--relative",
            "c",
            "e",
        ],
    );
    assert!(
        ran.code() == 2
            && ran
                .stderr()
                .contains("--relative was not given, and is given now"),
        "{}",
        ran.stderr()
    );
    assert_eq!(state(&dir), before);
    // Additional paths are accepted, and recorded.
    dir.write("f/f", "one more");
    assert_eq!(
        messages(&dir.run("dedup-index", &["sync", "i", "c/", "e", "f"])),
        "i: 1 added or replaced; generation 2\n"
    );
    refused(&["c", "e"], "f was given, and is not now (c e)");
    let ran = dir.shell("rm i.sync; dedup-index sync i c --relative --max-remove 100%");
    assert_eq!(
        messages(&ran),
        "i: 4 added or replaced; 6 removed; generation 3\n"
    );
    dir.shell("dedup-index sync -q i c --relative").ok();
    assert_eq!(
        dir.shell("dedup-index stats --json i | jq .generation")
            .ok_text(),
        "3\n"
    );
}

#[test]
fn a_dry_run_and_a_refusal_do_not_merge_segments() {
    let dir = synced();
    for number in 0..9 {
        dir.write(
            "c/new",
            format!(
                "text number {number} of a file that changes all the time, and of no other one"
            ),
        );
        dir.shell("dedup-index sync -q --no-compact --checksum i c e")
            .ok();
    }
    let before = state(&dir);
    dir.shell("dedup-index sync -n --checksum i c e > said")
        .ok();
    dir.shell("rm c/a c/b c/c c/d").ok();
    assert_eq!(dir.run("dedup-index", &["sync", "i", "c", "e"]).code(), 2);
    assert_eq!(state(&dir), before);
    dir.shell("dedup-index sync -q i c e --max-remove 4 && dedup-index verify i")
        .ok();
    assert_eq!(
        dir.shell("dedup-index stats --json i | jq -c '[.documents, .segments]'")
            .ok_text(),
        "[2,2]\n"
    );
}

#[test]
fn a_failed_command_leaves_nothing_and_the_corrected_one_works() {
    let dir = TestDir::with(&[
        ("c/a", "one two three four five six seven eight nine"),
        ("hosts", "localhost slots=2\n"),
    ]);
    let not_there = "nosuchdir: No such file or directory (os error 2)";
    for (tool, wrong, right) in [
        (
            "dedup-index",
            "build -o q.idx nosuchdir",
            "build -o q.idx c",
        ),
        ("dedup-spex", "-o s.idx nosuchdir", "-o s.idx c"),
        (
            "dedup-index",
            "merge -o m.idx q.idx nosuchdir",
            "merge -o m.idx q.idx",
        ),
        (
            "dedup-index",
            "split --parts 2 -o parts nosuchdir",
            "split --parts 2 -o parts q.idx",
        ),
        (
            "dedup-shard",
            "plan -o run --hosts hosts nosuchdir",
            "plan -o run --hosts hosts c",
        ),
        (
            "dedup-extract",
            "report nosuchdir -o report",
            "report q.idx -o report",
        ),
    ] {
        let before = dir.shell("ls").ok_text();
        let ran = dir.shell(&format!("{tool} {wrong}"));
        assert_eq!(ran.code(), 2, "{tool} {wrong}");
        let expected = match tool {
            "dedup-shard" => format!("dedup-shard: {not_there}; there is nothing to plan for\n"),
            _ if wrong.contains("build") || tool == "dedup-spex" => {
                format!(
                    "{tool}: {not_there}\n{tool}: no document was read; name files or directories that hold some, or write some to stdin\n"
                )
            }
            "dedup-extract" => "dedup-extract: nosuchdir: no such file or directory\n".to_owned(),
            _ => format!(
                "{tool}: nosuchdir: there is no such index; dedup-index build -o nosuchdir PATH makes one\n"
            ),
        };
        assert_eq!(ran.stderr(), expected);
        assert_eq!(dir.shell("ls").ok_text(), before, "{tool} {wrong}");
        assert_eq!(
            dir.shell(&format!("{tool} {right}")).code(),
            0,
            "{tool} {right}"
        );
    }
}

#[test]
fn files_that_are_not_an_index_are_named_by_their_kind() {
    let dir = TestDir::with(&[
        ("doc.txt", "one two three four five six seven eight nine"),
        ("dir/a", "ten"),
        ("empty/x", ""),
    ]);
    dir.shell("rm empty/x").ok();
    let file = "doc.txt: a file, not an index: the index comes first, then documents; dedup-index build -o IDX doc.txt makes one";
    let documents = "dir: a directory of documents or of something else, not an index (it has no manifest.json); dedup-index build -o IDX dir makes one";
    let empty =
        "empty: an empty directory, not an index; dedup-index build -o empty PATH makes one";
    let none = "none: there is no such index; dedup-index build -o none PATH makes one";
    for (tool, words, what) in [
        ("dedup-index", &["stats", "doc.txt"][..], file),
        ("dedup-index", &["stats", "dir"], documents),
        ("dedup-index", &["add", "dir", "doc.txt"], documents),
        ("dedup-index", &["sync", "empty", "dir"], empty),
        ("dedup-index", &["pin", "none", "x"], none),
    ] {
        ensure_refused(&dir.run(tool, words), &format!("{tool}: {what}"));
    }
    assert_eq!(
        dir.shell("ls -A . dir empty | xargs").ok_text(),
        ".: dir doc.txt empty dir: a empty:\n"
    );
}

#[test]
fn missing_documents_are_reported_with_a_hint_at_corpus() {
    let text = "one two three four five six seven eight nine ten";
    let dir = TestDir::with(&[("c/a", text), ("c/b", text), ("elsewhere/x", "")]);
    dir.shell("dedup-index build -q -o i --relative c").ok();
    let hint =
        "No such file or directory (os error 2); say where the documents are with --corpus PATH";
    let ran = dir.shell("cd elsewhere && dedup-extract ../i --passages > /dev/null");
    assert_eq!(
        (ran.code(), ran.stderr()),
        (
            2,
            format!("dedup-extract: a: {hint}\ndedup-extract: b: {hint}\n")
        )
    );
    dir.shell("cd elsewhere && dedup-extract ../i --passages --corpus ../c > /dev/null")
        .ok();
}

#[test]
fn quiet_is_accepted_by_every_verb() {
    let dir = TestDir::new();
    let mut verbs: Vec<Vec<String>> = ["tokenize", "blot", "spex"]
        .map(|tool| vec![format!("dedup-{tool}")])
        .to_vec();
    for words in ["dedup-index", "dedup-shard"] {
        let help = dir.shell(&format!("{words} --help")).ok_text();
        let commands = help
            .split("\nCommands:\n")
            .nth(1)
            .unwrap()
            .split("\n\n")
            .next()
            .unwrap();
        let names = commands
            .lines()
            .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        let names = names
            .map(|line| line.split_whitespace().next().unwrap())
            .filter(|name| *name != "help");
        verbs.extend(names.map(|name| words.split(' ').chain([name]).map(str::to_owned).collect()));
    }
    for (program, names) in crate::verbs::PROGRAMS {
        let names = names
            .iter()
            .filter(|_| ["dedup-extract", "dedup-query"].contains(&program));
        verbs.extend(names.map(|name| vec![program.to_owned(), (*name).to_owned()]));
    }
    assert!(verbs.len() > 30, "{verbs:?}");
    for verb in verbs {
        let help = dir.shell(&format!("{} --help", verb.join(" "))).ok_text();
        assert!(help.contains("-q, --quiet"), "{verb:?}");
    }
}
