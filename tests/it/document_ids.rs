//! Ids are untrusted: they open and create no files outside of the given directories, and do not
//! act on terminals.

use crate::test_dir::{TestDir, records};
use serde_json::{Value, json};
use std::os::unix::fs::symlink;

const COPY: &str = "Ice that is pressed by its own weight begins to flow downhill, slowly, and carries the stones of the valley with it.";
const SECRET: &str = "the password of the vault is nine hundred swordfish and must never be shown on any page at all";

fn line(id: &str, text: &str) -> String {
    format!("{}\n", json!({"id": id, "text": text}))
}

fn path_outside(dir: &TestDir, name: &str) -> String {
    dir.path(name).to_str().unwrap().to_owned()
}

/// A secret beside a corpus, an essay, and an index of documents with these ids that share text
/// with the essay.
fn fixture(ids: &[&str]) -> TestDir {
    let dir = TestDir::with(&[
        ("secret.txt", SECRET),
        ("corpus/essay.txt", &format!("{COPY} {SECRET}")),
    ]);
    let lines: String = ids
        .iter()
        .map(|id| line(id, &format!("{COPY} {SECRET}")))
        .collect();
    dir.write("evil.jsonl", lines);
    dir.shell("dedup-index build -q -o idx evil.jsonl").ok();
    dir
}

#[test]
fn an_id_opens_nothing_outside_of_the_corpus() {
    let dir = TestDir::new();
    let absolute = path_outside(&dir, "secret.txt");
    drop(dir);
    for id in [
        "../secret.txt",
        "corpus/../secret.txt",
        "out",
        "up/secret.txt",
        "/etc/passwd",
        &absolute,
    ] {
        let dir = self::fixture(&[id]);
        let absolute = path_outside(&dir, "secret.txt");
        symlink("../secret.txt", dir.path("corpus/out")).unwrap();
        symlink("..", dir.path("corpus/up")).unwrap();
        for (tool, arguments) in [
            ("dedup-query", "../idx essay.txt --passages"),
            ("dedup-query", "../idx essay.txt --passages --corpus ."),
            ("dedup-query", "../idx essay.txt --html page.html"),
            (
                "dedup-query",
                "../idx essay.txt --html page.html --corpus .",
            ),
            ("dedup-extract", "passages ../idx"),
            ("dedup-extract", "passages ../idx --corpus ."),
            ("dedup-extract", "compare ../idx --corpus ."),
        ] {
            let ran =
                dir.shell(&format!("cd corpus && {tool} {arguments}; echo $? > ../status; cat page.html 2> /dev/null; rm -f page.html"));
            let shown = ran.stdout().replace(&format!("{COPY} {SECRET}"), "");
            assert!(
                !shown.contains("swordfish"),
                "{tool} {arguments} {id}: {shown}"
            );
            let status = String::from_utf8(dir.read("status")).unwrap();
            assert_eq!(
                status.trim(),
                "2",
                "{tool} {arguments} {id} ({absolute}): {}",
                ran.stderr()
            );
            let stderr = ran.stderr();
            assert!(
                stderr.contains("leads out of the directory") || stderr.contains("No such file"),
                "{tool} {arguments} {id}: {stderr}"
            );
        }
    }
}

#[test]
fn the_suggested_flag_for_absolute_ids_works() {
    let dir = TestDir::with(&[
        ("c/a.txt", format!("One. {COPY}")),
        ("essay.txt", format!("Two. {COPY}")),
    ]);
    let root = path_outside(&dir, "c");
    dir.run("dedup-index", &["build", "-q", "-o", "idx", &root])
        .ok();
    let ran = dir.run("dedup-query", &["idx", "essay.txt", "--passages"]);
    let expected = format!(
        "dedup-query: {root}/a.txt: leads out of the directory; say where the documents are with --corpus PATH\n"
    );
    assert_eq!((ran.code(), ran.stderr()), (2, expected));
    let found = records(
        &dir.run(
            "dedup-query",
            &["idx", "essay.txt", "--passages", "--corpus", &root],
        )
        .ok(),
    );
    assert_eq!(found[0]["passages"][0]["tokens"], json!(22));
    // Relative paths without a flag, and paths through a link that was given.
    dir.run("dedup-index", &["build", "-q", "-o", "near", "c"])
        .ok();
    assert_eq!(
        records(
            &dir.run("dedup-query", &["near", "essay.txt", "--passages"])
                .ok()
        )[0]["passages"][0]["tokens"],
        json!(22)
    );
    symlink("c", dir.path("link")).unwrap();
    assert_eq!(
        records(
            &dir.run(
                "dedup-query",
                &["near", "essay.txt", "--passages", "--corpus", "."]
            )
            .ok()
        )[0]["passages"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    dir.run(
        "dedup-index",
        &["build", "-q", "-o", "relative", "--relative", "c"],
    )
    .ok();
    assert_eq!(
        records(
            &dir.run(
                "dedup-query",
                &["relative", "essay.txt", "--passages", "--corpus", "link"]
            )
            .ok()
        )[0]["passages"][0]["tokens"],
        json!(22)
    );
}

/// Reading any of these would never end, so the test is that the program ends.
#[test]
fn only_regular_files_are_opened() {
    let dir = fixture(&["pipe", "device", "corpus"]);
    dir.shell("mkfifo pipe").ok();
    symlink("/dev/zero", dir.path("device")).unwrap();
    for arguments in [
        "dedup-query idx corpus/essay.txt --passages",
        "dedup-extract passages idx",
        "dedup-query idx corpus/essay.txt --html page.html",
    ] {
        let ran = dir.shell(&format!("timeout 60 {arguments}"));
        assert_eq!(ran.code(), 2, "{}", ran.stderr());
        let stderr = ran.stderr();
        assert!(
            stderr.contains("pipe: not a regular file")
                && stderr.contains("corpus: not a regular file"),
            "{stderr}"
        );
        assert!(
            stderr.contains("device: leads out of the directory"),
            "{stderr}"
        );
    }
}

#[test]
fn a_text_that_differs_from_the_indexed_one_is_not_shown() {
    let dir = TestDir::with(&[
        ("a.txt", format!("One. {COPY}")),
        ("b.txt", format!("Two. {COPY}")),
        ("c.txt", format!("Three. {COPY}")),
    ]);
    dir.shell("dedup-index build -q -o idx a.txt b.txt").ok();
    dir.write("b.txt", format!("{COPY} {SECRET}"));
    let message = |tool: &str| {
        format!(
            "{tool}: b.txt: the text is not the one that was indexed, and is left out; dedup-index sync brings the index up to date\n"
        )
    };
    let ran = dir.run("dedup-query", &["idx", "c.txt", "--passages"]);
    assert_eq!((ran.code(), ran.stderr()), (2, message("dedup-query")));
    let of = |doc: &str| {
        records(&ran.0.stdout)
            .into_iter()
            .find(|record| record["doc"] == doc)
            .unwrap()
    };
    assert_eq!(
        (
            of("a.txt")["passages"].as_array().unwrap().len(),
            of("b.txt").get("passages").is_some()
        ),
        (1, false)
    );
    let ran = dir.run("dedup-query", &["idx", "c.txt", "--html", "page.html"]);
    assert_eq!((ran.code(), ran.stderr()), (2, message("dedup-query")));
    let page = String::from_utf8(dir.read("page.html")).unwrap();
    assert!(page.contains("One. ") && !page.contains("swordfish"));
    let ran = dir.run("dedup-extract", &["report", "idx", "-o", "report"]);
    assert_eq!(
        (
            ran.code(),
            ran.stderr(),
            dir.path("report/pair-000001.html").exists()
        ),
        (
            2,
            message("dedup-extract")
                + "dedup-extract: checked 2 documents, found 1 pair; pages for 0 pairs and 0 documents: open report/index.html\n",
            false
        )
    );
    assert!(
        String::from_utf8(dir.read("report/index.html"))
            .unwrap()
            .contains("or is not the one that was indexed")
    );
    let blot = records(&dir.run("dedup-blot", &["c.txt"]).ok())[1]["blots"][4]
        .as_str()
        .unwrap()
        .to_owned();
    let ran = dir.run("dedup-query", &["blot", "idx", &blot]);
    assert_eq!((ran.code(), ran.stderr()), (2, message("dedup-query")));
    assert_eq!(
        records(&ran.0.stdout)
            .iter()
            .map(|record| record.get("text").is_some())
            .collect::<Vec<_>>(),
        [true, false]
    );
}

/// A window title, a C1 control, a carriage return, a change of direction, and characters that
/// tables and JSON escape.
const HOSTILE: &str =
    "\u{1b}]0;owned\u{7}\u{9b}2J\r\n\tfake row\u{202e}gpj.exe\u{2066}\u{61c}\u{7f}\\\"'<&>";

fn acts_on_a_terminal(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\t')
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}')
}

#[test]
fn no_id_acts_on_a_terminal_or_leaves_its_cell() {
    let [one, two] = ["1", "2"].map(|end| format!("{HOSTILE}{end}"));
    let dir = TestDir::with(&[
        (
            "evil.jsonl",
            line(&one, COPY) + &line(&two, &format!("{COPY} Indeed.")) + &line("plain", COPY),
        ),
        ("doc.txt", COPY.to_owned()),
    ]);
    dir.shell("dedup-index build -q -o idx --dictionary evil.jsonl")
        .ok();
    let blot = records(&dir.run("dedup-blot", &["doc.txt"]).ok())[1]["blots"][0]
        .as_str()
        .unwrap()
        .to_owned();
    let queries = [
        "idx doc.txt",
        "idx doc.txt --format tsv",
        "idx doc.txt --stream",
        &format!("blot idx {blot}"),
        "idx doc.txt --passages --corpus evil.jsonl",
    ];
    let extracts = [
        "idx",
        "idx --format tsv",
        "table idx",
        "table idx --format tsv",
        "clusters idx",
        "clusters idx --format tsv",
        "exact idx",
        "exact idx --format tsv",
        "graph idx",
        "graph idx --format graphml",
        "blots idx",
        "blots idx --format tsv",
        "spans idx evil.jsonl",
        "spans idx --format tsv evil.jsonl",
        "passages idx evil.jsonl",
        "passages idx --format tsv evil.jsonl",
        "compare idx evil.jsonl",
        "compare idx --format tsv evil.jsonl",
        "idx --passages --corpus evil.jsonl",
        "idx --exclude-text doc.txt --threshold 0",
    ];
    let commands = queries
        .iter()
        .map(|arguments| format!("dedup-query {arguments}"));
    let commands = commands.chain(
        extracts
            .iter()
            .map(|arguments| format!("dedup-extract {arguments}")),
    );
    let others = [
        "dedup-tokenize evil.jsonl",
        "dedup-blot evil.jsonl",
        "dedup-index dump idx",
        "dedup-query history h --min-similarity 0.5 evil.jsonl",
    ];
    for command in commands.chain(others.map(str::to_owned)) {
        let ran = dir.shell(&command);
        assert_eq!(ran.stderr(), "", "{command}");
        let shown = ran.stdout();
        assert!(
            !shown.is_empty() && !shown.contains(acts_on_a_terminal),
            "{command}: {shown:?}"
        );
        if command.contains("--format tsv") {
            let columns = shown.lines().next().unwrap().split('\t').count();
            assert!(
                shown.lines().all(|row| row.split('\t').count() == columns),
                "{command}: {shown}"
            );
        } else if !command.contains("graph") {
            // The values are unchanged.
            let ids = |value: &Value| value.to_string();
            let found = records(shown.as_bytes())
                .iter()
                .map(ids)
                .collect::<String>();
            assert!(
                found.contains(&json!(one).to_string()) || command.contains("--exclude-text"),
                "{command}: {shown}"
            );
        }
    }
    // A cell is the inside of a JSON string.
    let table = dir
        .run("dedup-extract", &["exact", "idx", "--format", "tsv"])
        .ok_text();
    let cells: Vec<String> = table
        .lines()
        .skip(1)
        .map(|row| {
            serde_json::from_str(&format!("\"{}\"", row.split('\t').nth(1).unwrap())).unwrap()
        })
        .collect();
    assert_eq!(cells, [one.clone(), "plain".to_owned()]);
    // XML can express all but most control characters of ASCII, and escapes them.
    let graph = dir
        .run("dedup-extract", &["graph", "idx", "--format", "graphml"])
        .ok_text();
    assert!(
        graph
            .contains("\u{fffd}]0;owned\u{fffd}&#x9b;2J&#13;&#10;&#9;fake row&#x202e;gpj.exe&#x2066;&#x61c;&#x7f;\\&quot;'&lt;&amp;&gt;1<"),
        "{graph}"
    );
}

#[test]
fn messages_escape_hostile_ids() {
    let dir = TestDir::with(&[
        ("evil.jsonl", line(HOSTILE, COPY)),
        ("twice.jsonl", line(HOSTILE, COPY) + &line(HOSTILE, "x")),
        ("doc.txt", format!("So: {COPY}")),
    ]);
    dir.shell("dedup-index build -q -o idx evil.jsonl").ok();
    for command in [
        "dedup-query idx doc.txt --passages",
        "dedup-query idx doc.txt --passages --corpus doc.txt",
        "dedup-query idx doc.txt --html page.html",
        "dedup-extract passages idx",
        "dedup-index build -o other twice.jsonl",
        "dedup-index remove idx \"$(printf 'x\\033[2J')\"",
        "dedup-tokenize \"$(printf 'none\\033[2J\\n')\"",
        "dedup-index build -o idx2 \"$(printf 'none\\302\\233')\"",
        "dedup-query \"$(printf 'none\\342\\200\\256')\" doc.txt",
    ] {
        let ran = dir.shell(command);
        let stderr = ran.stderr();
        assert!(
            ran.code() == 2 && !stderr.contains(acts_on_a_terminal),
            "{command}: {stderr:?}"
        );
        assert!(
            stderr.lines().all(|line| line.starts_with("dedup-")),
            "{command}: {stderr}"
        );
    }
}

#[test]
fn pairs_of_files_with_equal_names_get_different_output_files() {
    let names = ["ann/essay.txt", "ben/essay.txt", "cid/essay.txt"];
    let dir = TestDir::with(&names.map(|name| (name, format!("{name} says. {COPY}"))));
    dir.write("pairs", "ann/essay.txt\tben/essay.txt\nann/essay.txt\tcid/essay.txt\nben/essay.txt\tcid/essay.txt\n");
    dir.shell("dedup-index build -q -o idx ann ben cid").ok();
    dir.run(
        "dedup-query",
        &[
            "align", "--pairs", "pairs", "--format", "pan-xml", "-o", "query",
        ],
    )
    .ok();
    dir.run(
        "dedup-extract",
        &[
            "idx",
            "--passages",
            "--threshold",
            "0",
            "--format",
            "pan-xml",
            "-o",
            "extract",
        ],
    )
    .ok();
    for directory in ["query", "extract"] {
        let mut ids = Vec::new();
        for name in ["essay-essay.xml", "essay-essay~2.xml", "essay-essay~3.xml"] {
            let xml = String::from_utf8(dir.read(&format!("{directory}/{name}"))).unwrap();
            let attribute = |name: &str| {
                xml.split_once(&format!(" {name}=\""))
                    .unwrap()
                    .1
                    .split_once('"')
                    .unwrap()
                    .0
                    .to_owned()
            };
            assert_eq!(
                (attribute("reference"), attribute("source_reference")),
                ("essay.txt".to_owned(), "essay.txt".to_owned())
            );
            ids.push([attribute("id"), attribute("source_id")]);
        }
        assert_eq!(
            ids,
            [
                [names[0], names[1]],
                [names[0], names[2]],
                [names[1], names[2]]
            ]
        );
        assert_eq!(std::fs::read_dir(dir.path(directory)).unwrap().count(), 3);
    }
}

#[test]
fn output_files_of_pairs_stay_in_their_directory() {
    let evil = "../../x/..\u{1b}[2J\u{202e}\n.txt";
    let dir = TestDir::with(&[(
        "evil.jsonl",
        line(evil, COPY)
            + &line("..", &format!("{COPY} So."))
            + &line("/etc/passwd", &format!("{COPY} No.")),
    )]);
    dir.shell("dedup-index build -q -o idx evil.jsonl").ok();
    dir.run(
        "dedup-extract",
        &[
            "idx",
            "--passages",
            "--corpus",
            "evil.jsonl",
            "--format",
            "pan-xml",
            "-o",
            "deep/xml",
        ],
    )
    .ok();
    let files = dir.shell("find . -name '*.xml' | LC_ALL=C sort").ok_text();
    assert_eq!(
        files,
        "./deep/xml/%2E.%1B[2J%E2%80%AE%0A-passwd.xml\n./deep/xml/--%2E.%1B[2J%E2%80%AE%0A.xml\n./deep/xml/--passwd.xml\n"
    );
}
