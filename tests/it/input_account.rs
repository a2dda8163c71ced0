//! The account of the input: every file that was not read is counted and named.

use crate::test_dir::{TestDir, docs};
use std::{fs, path::Path};

/// The first bytes of a Word file of before 2007.
const OLE: &[u8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0\0\0";

/// A folder of files such as people hand in, made by the programs that make such files.
fn folder() -> TestDir {
    let dir = TestDir::with(&[
        ("c/a.txt", "A text that can be read."),
        ("c/b.md", "# Another one"),
    ]);
    dir.write("c/old.doc", OLE);
    dir.write("c/data.parquet", b"PAR1\x15\0\x15\x0c\0PAR1");
    dir.write("c/picture.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    dir.write("c/photo.jpg", b"\xff\xd8\xff\xe0\0\x10JFIF\0");
    dir.write(
        "c/crawl.warc",
        "WARC/1.0\r\nWARC-Type: response\r\n\r\ntext",
    );
    dir.write("c/note.rtf", "{\\rtf1\\ansi some words}");
    dir.write("c/table.csv", "id,text\n2,some words\n");
    dir.write(
        "c/list.json",
        "[\n  {\"id\": 1, \"text\": \"some words\"}\n]\n",
    );
    dir.write("c/book.ipynb", "{\"cells\": [], \"nbformat\": 4}");
    dir.write("c/blob", b"\0\x01\x02\x03\xff\xfe\0\0");
    dir.write("c/.hidden", "not looked at");
    let python = r#"
import zipfile, tarfile, sqlite3
def pack(name, files):
    with zipfile.ZipFile(name, "w") as z:
        for file, text in files: z.writestr(file, text)
pack("c/essay.docx", [("[Content_Types].xml", "<Types/>" * 2000), ("_rels/.rels", "<R/>"), ("word/document.xml", "<w><body/></w>")])
pack("c/slides.pptx", [("[Content_Types].xml", "<Types/>"), ("ppt/presentation.xml", "<presentation/>")])
pack("c/sheet.xlsx", [("[Content_Types].xml", "<Types/>"), ("xl/workbook.xml", "<x/>")])
pack("c/essay.odt", [("mimetype", "application/vnd.oasis.opendocument.text"), ("content.xml", "<o/>")])
pack("c/novel.epub", [("mimetype", "application/epub+zip"), ("content.opf", "<o/>")])
pack("c/some.zip", [("a.txt", "some words")])
with tarfile.open("c/some.tar", "w") as t: t.add("c/a.txt")
with tarfile.open("c/some.tar.gz", "w:gz") as t: t.add("c/a.txt")
sqlite3.connect("c/base.db").execute("create table t (a)").connection.commit()
"#;
    dir.write("make.py", python);
    dir.shell(
        "python3 make.py; xz -k c/a.txt; bzip2 -k c/a.txt; zstd -q c/sheet.xlsx -o c/packed.zst; \
         iconv -t UTF-16 c/a.txt > c/wide.txt; iconv -t UTF-16LE c/a.txt > c/wide-without-mark.txt; iconv -t UTF-32BE c/a.txt > c/wider.txt; \
         ln -s a.txt c/link; mkfifo c/pipe",
    )
    .ok();
    dir
}

const ACCOUNT: &str = "read 15 documents in 16 files (222 bytes); left out 14 files: \
    xlsx 1 (export it as CSV), xlsx in zstd 1 (export it as CSV), doc, xls or ppt 1 (save it as docx or PDF), \
    sqlite 1 (export its tables as CSV), png 1 (IMAGE), \
    jpeg 1 (IMAGE), \
    UTF-32 1 (convert it with iconv -f UTF-32 -t UTF-8), damaged 3, unknown binary 1, hidden 1, symbolic link 1, \
    not a regular file 1; left out 1 record; \
    kinds: csv 1, docx 1, ipynb 1, json 1, pptx 1, rtf 1, text 9, warc 1; decoded: UTF-16LE 2";

/// The account of the folder. What helps to read images depends on the programs that are installed.
fn account() -> String {
    let is_installed = TestDir::new().shell("command -v tesseract").code() == 0;
    let install = if is_installed {
        ""
    } else {
        "install tesseract-ocr and "
    };
    let remedy = format!("{install}read it with --ocr LANG, or --adapter");
    ACCOUNT.replace("IMAGE", &remedy)
}

const READ: [&str; 15] = [
    "c/a.txt",
    "c/a.txt.bz2",
    "c/a.txt.xz",
    "c/b.md",
    "c/book.ipynb",
    "c/essay.docx",
    "1",
    "c/note.rtf",
    "c/slides.pptx",
    "c/some.tar!/c/a.txt",
    "c/some.tar.gz!/c/a.txt",
    "c/some.zip!/a.txt",
    "2",
    "c/wide-without-mark.txt",
    "c/wide.txt",
];

#[test]
fn every_file_of_a_folder_is_read_or_accounted_for() {
    let dir = folder();
    for threads in ["1", "4"] {
        let ran = dir.run("dedup-tokenize", &["--threads", threads, "c"]);
        assert_eq!(
            (ran.code(), ran.docs()),
            (2, READ.map(str::to_owned).to_vec())
        );
        assert_eq!(ran.accounts(), [format!("dedup-tokenize: {}", account())]);
        // Files that may be documents are named, each with a remedy.
        assert_eq!(ran.stderr().lines().count(), 11);
        for line in ran.stderr().lines() {
            assert!(
                line.starts_with("dedup-tokenize: c/") && line.contains("left out"),
                "{line}"
            );
        }
        assert!(
            ran.stderr().contains(
                "dedup-tokenize: c/packed.zst: left out: xlsx in zstd; export it as CSV\n"
            )
        );
    }
    assert_eq!(dir.run("dedup-tokenize", &["--skip-bad", "c"]).code(), 0);
    let quiet = dir.run("dedup-tokenize", &["-q", "c"]);
    assert_eq!(
        (
            quiet.code(),
            quiet.accounts().len(),
            quiet.stderr().lines().count()
        ),
        (2, 0, 11)
    );
}

#[test]
fn every_program_that_reads_documents_gives_the_account() {
    let dir = folder();
    dir.shell("dedup-index build -q --skip-bad -o idx c 2> /dev/null; dedup-index build -q -o other c/a.txt").ok();
    for line in [
        "dedup-blot c",
        "dedup-blot --scheme minhash:256 c",
        "dedup-index build -o new.idx c",
        "dedup-index add other c",
        "dedup-spex -o spex.idx c",
        "dedup-query idx c",
        "dedup-query history h --min-similarity 94% c",
        "dedup-extract spans idx c",
    ] {
        let (tool, ran) = (
            line.split(' ').next().unwrap(),
            dir.shell(&format!("{line} > /dev/null")),
        );
        assert_eq!(
            (ran.code(), ran.accounts()),
            (2, vec![format!("{tool}: {}", account())]),
            "{line}: {}",
            ran.stderr()
        );
    }
}

#[test]
fn sync_counts_unchanged_files() {
    let dir = TestDir::with(&[
        ("c/a.txt", &b"one"[..]),
        ("c/b.txt", b"two"),
        ("c/d.doc", OLE),
    ]);
    dir.shell("dedup-index build -q -o idx c/a.txt").ok();
    let sync = || {
        let ran = dir.run("dedup-index", &["sync", "idx", "c"]);
        assert_eq!(
            (ran.code(), ran.stderr().as_str()),
            (
                2,
                "dedup-index: c/d.doc: left out: doc, xls or ppt; save it as docx or PDF\n"
            )
        );
        ran.accounts().concat()
    };
    let doc = "left out 1 file: doc, xls or ppt 1 (save it as docx or PDF)";
    assert_eq!(
        sync(),
        format!("dedup-index: read 2 documents in 2 files (6 bytes); {doc}")
    );
    // Files written within the last two seconds may change again without a new time, so they are
    // read again.
    let settled =
        format!("dedup-index: read 0 documents in 0 files (0 bytes); 2 files unchanged; {doc}");
    let start = std::time::Instant::now();
    while sync() != settled {
        assert!(start.elapsed().as_secs() < 60);
    }
    dir.write("c/b.txt", "two and three");
    assert_eq!(
        sync(),
        format!("dedup-index: read 1 document in 1 file (13 bytes); 1 file unchanged; {doc}")
    );
}

#[test]
fn a_sharded_build_gives_the_same_account_and_index() {
    let dir = folder();
    for number in 0..40 {
        dir.write(
            &format!("c/more/{number}.txt"),
            format!("text number {number} of many that are cut into slices"),
        );
    }
    dir.write(
        "c/more/a.jsonl",
        "{\"id\":\"c/a.txt\",\"text\":\"came before\"}\n{\"id\":\"x\",\"body\":\"no text\"}\n",
    );
    fs::remove_file(dir.path("c/pipe")).unwrap();
    dir.write("hosts", "one slots=2\ntwo\n");
    let one = dir.shell("dedup-index build --parts 2 -o one.idx c");
    let many = dir.shell(
        "dedup-shard plan -o run --hosts hosts --parts 2 c && { dedup-shard run run; code=$?; diff -r one.idx run/index; exit $code; }",
    );
    assert_eq!(
        (one.code(), many.code(), many.stdout().as_str()),
        (2, 2, ""),
        "{}",
        many.stderr()
    );
    let as_index = |text: String| text.replace("dedup-shard:", "dedup-index:");
    assert_eq!(
        as_index(many.accounts().join("\n")),
        one.accounts().join("\n")
    );
    // Documents whose id occurred in an earlier slice are reported after the other problems of
    // their slice.
    let sorted = |text: String| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(as_index(many.stderr())), sorted(one.stderr()));
}

#[test]
fn an_unreadable_named_file_is_an_error() {
    let dir = folder();
    for name in [
        "c/essay.odt",
        "c/packed.zst",
        "c/wider.txt",
        "c/data.parquet",
    ] {
        let ran = dir.run("dedup-tokenize", &["c/a.txt", name]);
        assert_eq!(
            (ran.code(), ran.docs()),
            (2, vec!["c/a.txt".to_owned()]),
            "{name}"
        );
        assert!(
            ran.stderr()
                .starts_with(&format!("dedup-tokenize: {name}: left out: ")),
            "{}",
            ran.stderr()
        );
    }
    // Unless the user gives its format.
    assert_eq!(
        docs(
            &dir.run("dedup-tokenize", &["--records", "text", "c/table.csv"])
                .ok()
        ),
        ["c/table.csv"]
    );
    assert_eq!(
        docs(
            &dir.run("dedup-tokenize", &["--records", "lines", "c/table.csv"])
                .ok()
        ),
        ["c/table.csv:1", "c/table.csv:2"]
    );
    // The same holds for a pipe.
    for name in ["c/essay.odt", "c/old.doc", "c/wider.txt"] {
        let ran = dir.run_with("dedup-tokenize", &[], &dir.read(name));
        assert_eq!(ran.code(), 2);
        assert!(
            ran.stderr()
                .starts_with("dedup-tokenize: stdin: left out: "),
            "{}",
            ran.stderr()
        );
    }
}

#[test]
fn at_most_five_files_of_a_kind_are_named_by_default() {
    let dir = TestDir::with(&[("c/a.txt", "some words")]);
    (0..9).for_each(|number| dir.write(&format!("c/{number}.doc"), OLE));
    let named = |lines: usize| {
        let line = |number| {
            format!(
                "dedup-tokenize: c/{number}.doc: left out: doc, xls or ppt; save it as docx or PDF\n"
            )
        };
        (0..lines).map(line).collect::<String>()
    };
    let others = "dedup-tokenize: left out: doc, xls or ppt: and 4 more files; -v names them\n";
    assert_eq!(
        dir.run("dedup-tokenize", &["c"]).stderr(),
        named(5) + others
    );
    assert_eq!(dir.run("dedup-tokenize", &["-v", "c"]).stderr(), named(9));
}

#[test]
fn reading_no_document_is_an_error_and_leaves_nothing() {
    let dir = TestDir::with(&[("empty/.keep", &b""[..]), ("only/a.doc", OLE)]);
    dir.write("some.txt", "some words");
    dir.shell("dedup-index build -q -o idx some.txt").ok();
    let what =
        "no document was read; name files or directories that hold some, or write some to stdin";
    for path in ["empty", "only", "nosuchdir"] {
        for line in [
            "dedup-index build -o new.idx",
            "dedup-tokenize -o new.idx",
            "dedup-index add idx",
            "dedup-query idx",
            "dedup-spex -o new.idx",
        ] {
            let ran = dir.shell(&format!("{line} {path}"));
            let last = format!("{}: {what}", line.split(' ').next().unwrap());
            assert_eq!(
                (ran.code(), ran.stderr().lines().last().unwrap_or_default()),
                (2, last.as_str()),
                "{line} {path}"
            );
            assert!(!dir.path("new.idx").exists(), "{line} {path}");
        }
    }
    let ran = dir.shell("dedup-index build -o new.idx empty");
    assert_eq!(
        ran.accounts(),
        ["dedup-index: read 0 documents in 0 files (0 bytes); left out 1 file: hidden 1"]
    );
}

fn eight_lines() -> String {
    (0..8)
        .map(|number| format!("{{\"id\":{number},\"text\":\"document {number}\"}}\n"))
        .collect()
}

/// File names of C4 and Dolma.
#[test]
fn ndjson_is_recognized_under_any_file_name() {
    let dir = TestDir::with(&[
        ("c4.json", eight_lines()),
        ("part-00000", eight_lines()),
        ("lines.dat", eight_lines()),
    ]);
    dir.shell("gzip -k c4.json; zstd -q c4.json -o dolma.json.zst")
        .ok();
    let expected: Vec<String> = (0..8).map(|number| number.to_string()).collect();
    for name in [
        "c4.json",
        "c4.json.gz",
        "dolma.json.zst",
        "part-00000",
        "lines.dat",
    ] {
        assert_eq!(
            docs(&dir.run("dedup-tokenize", &[name]).ok()),
            expected,
            "{name}"
        );
        assert_eq!(
            docs(
                &dir.shell(&format!(
                    "mkdir -p d && cp {name} d && dedup-tokenize d && rm d/*"
                ))
                .ok()
            ),
            expected,
            "{name} in a directory"
        );
        assert_eq!(
            docs(&dir.run_with("dedup-tokenize", &[], &dir.read(name)).ok()),
            expected,
            "{name} from a pipe"
        );
    }
    // A text stays a text, and a settings file stays one document.
    dir.write("c/a.txt", eight_lines().replace("text", "body"));
    dir.write("c/a.md", eight_lines() + "and then some text\n");
    dir.write(
        "c/b.json",
        "{\n  \"name\": \"settings\",\n  \"text\": \"a field\"\n}\n",
    );
    dir.write("c/c.json", "{\"name\":\"settings in one line\"}\n");
    dir.write("c/d.json", "{\"name\":1}\nand then some text\n");
    assert_eq!(
        docs(&dir.run("dedup-tokenize", &["c"]).ok()),
        ["c/a.md", "c/a.txt", "c/b.json", "c/c.json", "c/d.json"]
    );
}

/// The content of a file does not depend on whether it is named or found.
#[test]
fn ndjson_in_files_named_as_text_is_recognized_in_directories_too() {
    let dir = TestDir::with(&[
        ("d/x.txt", eight_lines()),
        (
            "d/y.md",
            "\u{feff}\n\n".to_owned() + &eight_lines().replace("\"id\":", "\"id\":1"),
        ),
    ]);
    dir.write("d/z.txt", "a text {in braces}");
    dir.write("d/{.txt", "{in braces} a text");
    dir.write(
        "d/spaces.txt",
        " ".repeat(200) + &eight_lines().replace("\"id\":", "\"id\":2"),
    );
    dir.shell("sed 's/:/:3/' d/x.txt | gzip > d/packed.txt.gz")
        .ok();
    let named = dir.shell("cd d && dedup-tokenize packed.txt.gz spaces.txt x.txt y.md z.txt {.txt");
    let found = dir.shell("cd d && dedup-tokenize --relative .");
    assert_eq!(
        (found.ok_text(), found.accounts()),
        (named.ok_text(), named.accounts())
    );
    assert_eq!(
        (found.docs().len(), found.accounts()),
        (
            34,
            vec!["dedup-tokenize: read 34 documents in 6 files (356 bytes)".to_owned()]
        )
    );
    let text = dir.shell("dedup-tokenize --records text d");
    assert_eq!((docs(&text.ok()).len(), text.accounts().len()), (6, 1));
    // A synced index of them has the same documents.
    dir.shell("dedup-index build -q -o i d && dedup-index sync -q i d && dedup-index verify i")
        .ok();
    assert_eq!(
        dir.shell("dedup-index stats --json i | jq .documents")
            .ok_text(),
        "34\n"
    );
}

#[test]
fn a_wrong_text_field_is_explained_once_per_file() {
    let lines: String = (0..2000)
        .map(|number| format!("{{\"id\":{number},\"body\":\"words\",\"lang\":\"en\"}}\n"))
        .collect();
    let dir = TestDir::with(&[
        ("a.jsonl", lines.as_str()),
        (
            "b.jsonl",
            &(lines.clone() + "{\"id\":\"ok\",\"text\":\"some words\"}\n"),
        ),
    ]);
    for threads in ["1", "4"] {
        let ran = dir.run(
            "dedup-tokenize",
            &["--threads", threads, "a.jsonl", "b.jsonl"],
        );
        let line = |place: &str| {
            format!(
                "dedup-tokenize: {place}: no field 'text' with a text; it has 'id', 'body', 'lang'\n"
            )
        };
        let expected = [
            line("a.jsonl:1") + &line("a.jsonl:2") + &line("a.jsonl:3"),
            "dedup-tokenize: a.jsonl: no document: each of its 2000 records has no field 'text' with a text, but 'body', 'id', 'lang'; \
             --text-field names the right one\n"
                .to_owned(),
            line("b.jsonl:1") + &line("b.jsonl:2") + &line("b.jsonl:3"),
            "dedup-tokenize: b.jsonl: 2000 of 2001 records have no field 'text' with a text, but 'body', 'id', 'lang'; \
             --text-field names the right one\n"
                .to_owned(),
        ];
        assert_eq!(
            (ran.code(), ran.stderr(), ran.docs()),
            (2, expected.concat(), vec!["ok".to_owned()])
        );
        assert_eq!(
            ran.accounts(),
            ["dedup-tokenize: read 1 document in 2 files (10 bytes); left out 4000 records"]
        );
    }
}

#[test]
fn a_document_that_is_too_large_is_left_out() {
    let long = "word ".repeat(100_000);
    let line = |id: &str, text: &str| format!("{{\"id\":\"{id}\",\"text\":\"{text}\"}}\n");
    let dir = TestDir::with(&[("a.txt", "short"), ("b.txt", &long)]);
    dir.write(
        "c.jsonl",
        line("c1", "short") + &line("c2", &long) + &line("c3", "short"),
    );
    dir.write(
        "d.fa",
        format!(">d1\nACGT\n>d2\n{}\n>d3\nACGT\n", "ACGT".repeat(100_000)),
    );
    dir.shell("gzip -k b.txt; gzip -k c.jsonl").ok();
    let too_large =
        "a document of more than 307200 bytes; raise --max-document (4G is the most), or split it";
    for (arguments, expected, errors) in [
        (&["a.txt", "b.txt"][..], &["a.txt"][..], &["b.txt"][..]),
        (&["b.txt.gz", "a.txt"], &["a.txt"], &["b.txt.gz"]),
        (
            &["c.jsonl", "c.jsonl.gz", "a.txt"],
            &["c1", "c3", "a.txt"],
            &["c.jsonl:2", "c.jsonl.gz:2"],
        ),
        (&["--records", "fasta", "d.fa"], &["d1", "d3"], &["d.fa:3"]),
    ] {
        let ran = dir.run(
            "dedup-tokenize",
            &[&["--max-document", "300K"], arguments].concat(),
        );
        assert_eq!(
            (ran.code(), ran.docs()),
            (2, expected.iter().map(|&id| id.to_owned()).collect()),
            "{arguments:?}"
        );
        let errors: Vec<_> = errors
            .iter()
            .map(|place| format!("dedup-tokenize: {place}: {too_large}"))
            .collect();
        let stderr = ran.stderr();
        assert_eq!(
            stderr
                .lines()
                .filter(|line| !line.contains("came before"))
                .collect::<Vec<_>>(),
            errors
        );
    }
    let ran = dir.run_with(
        "dedup-tokenize",
        &["--max-document", "300K", "-", "a.txt"],
        long.as_bytes(),
    );
    assert_eq!(
        ran.stderr(),
        format!("dedup-tokenize: stdin: {too_large}\n")
    );
    let account = "read 1 document in 1 file (5 bytes); left out 1 file: too large 1 (split it, or raise --max-document)";
    assert_eq!(ran.accounts(), [format!("dedup-tokenize: {account}")]);
}

/// Runs a line of shell; returns its peak memory in kB and its stderr.
fn peak(dir: &TestDir, line: &str) -> (u64, String) {
    let ran = dir.shell(&format!("/usr/bin/time -f %M -o peak {line} > /dev/null"));
    let peak = String::from_utf8(dir.read("peak")).unwrap();
    (
        peak.lines().last().unwrap().trim().parse().unwrap(),
        ran.stderr(),
    )
}

#[test]
fn memory_is_bounded_by_the_budget_and_the_largest_document() {
    const BYTES: u64 = 24 << 20;
    let dir = TestDir::new();
    let mut number = 1_u64;
    let mut text = String::new();
    while (text.len() as u64) < BYTES {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        text += &format!("{:x} ", number >> (36 + (number >> 60)));
    }
    dir.write("large.txt", &text);
    for number in 0..50 {
        dir.write(&format!("c/{number}.txt"), &text[number * 1000..][..10_000]);
    }
    // A debug build has larger stack frames, but no larger buffers.
    let most = |memory: u64| memory / 1024 + 4 * BYTES / 1024 + (16 << 10);
    for line in [
        "dedup-tokenize --memory 64M large.txt c",
        "dedup-tokenize --memory 64M --binary large.txt c",
        "dedup-tokenize --memory 16M --spans large.txt c",
        "dedup-tokenize --memory 16M --spans --binary large.txt c",
        "dedup-blot --memory 64M large.txt c",
        "dedup-blot --memory 16M --positions large.txt c",
        "dedup-blot --memory 16M --binary --positions large.txt c",
        "dedup-index build --memory 64M -o large.idx large.txt c",
        "dedup-query large.idx large.txt",
    ] {
        let most = most(if line.contains("16M") {
            16 << 20
        } else {
            64 << 20
        });
        let (peak, stderr) = peak(&dir, line);
        assert!(
            peak < most && stderr.is_empty(),
            "{line}: {peak} of {most} kB; {stderr}"
        );
    }
}

/// A document larger than the memory in flight is encoded while it is written, which must not
/// change the bytes.
#[test]
fn the_bytes_of_a_stream_do_not_depend_on_the_memory() {
    let words = |from: u32, count: u32| {
        (from..from + count)
            .map(|number| format!("w{} ", number % 70_001))
            .collect::<String>()
    };
    let dir = TestDir::with(&[
        ("a.txt", "a few words \u{1b}[0m"),
        ("c.txt", ""),
        ("f.txt", "the last words"),
    ]);
    for (name, count) in [("b.txt", 90_000), ("d.txt", 200_000), ("e.txt", 2_000)] {
        dir.write(name, words(count, count));
    }
    let line = |id: &str, text: &str| format!("{{\"id\":\"{id}\",\"text\":\"{text}\"}}\n");
    // A large document, another with its id, which is dropped, and large documents in one chunk
    // with small ones.
    dir.write(
        "g.jsonl",
        line("d.txt", &words(5, 90_000))
            + &line("g1", "some words")
            + &line("g2", &words(9, 90_000))
            + &line("g1", &words(1, 9_000)),
    );
    for line in [
        "dedup-tokenize",
        "dedup-tokenize --spans",
        "dedup-tokenize --tokenizer line --spans",
        "dedup-blot --positions",
        "dedup-blot --positions --scheme ordered,context",
        "dedup-blot --positions --select mod:3 --bits 64",
        "dedup-blot --interleave 2 -k 3",
    ] {
        for form in ["", "--binary"] {
            let made = |memory: &str, threads: u32| {
                let ran = dir.shell(&format!(
                    "{line} {form} --memory {memory} --threads {threads} ?.txt g.jsonl"
                ));
                (ran.code(), ran.0.stdout)
            };
            let expected = made("1G", 1);
            assert!(
                expected.0 == 2 && expected.1.len() > 1 << 16,
                "{line} {form}"
            );
            for (memory, threads) in [("64K", 1), ("64K", 3), ("4M", 2)] {
                assert!(
                    made(memory, threads) == expected,
                    "{line} {form} --memory {memory} --threads {threads}"
                );
            }
        }
    }
}

/// A few kilobytes that decompress to gigabytes: the program stops as soon as they cannot be a
/// document.
#[test]
fn a_decompression_bomb_is_left_out_in_little_memory() {
    let dir = TestDir::new();
    let a_gigabyte = |byte: &str| format!("head -c 1G /dev/zero | tr '\\0' '{byte}' | gzip -1");
    dir.shell(&format!(
        "{} > text.gz; {} > zero.gz; {} > line.jsonl.gz",
        a_gigabyte("a"),
        a_gigabyte("\\0"),
        a_gigabyte("{")
    ))
    .ok();
    for (file, most) in [
        ("text.gz", 100 << 10),
        ("zero.gz", 48 << 10),
        ("line.jsonl.gz", 120 << 10),
    ] {
        let (peak, stderr) = peak(&dir, &format!("dedup-tokenize --max-document 32M {file}"));
        assert!(peak < most, "{file}: {peak} of {most} kB");
        assert!(
            stderr.contains("raise --max-document") || Path::new(file) == Path::new("zero.gz"),
            "{file}: {stderr}"
        );
    }
}

fn json(dir: &TestDir, name: &str) -> serde_json::Value {
    serde_json::from_slice(&dir.read(name)).unwrap()
}

/// Ten files: two that are read, eight of four kinds that are not.
fn mixed_files() -> TestDir {
    let dir = TestDir::with(&[("c/a.txt", "some words"), ("c/.hidden", "x")]);
    dir.write("c/b.jsonl", "{\"id\":1,\"text\":\"more\"}\n{\"id\":2}\n");
    for number in 0..6 {
        dir.write(&format!("c/{number}.doc"), OLE);
    }
    dir.write("c/wide.txt", b"\xff\xfea\0b\0");
    dir.shell("gzip -k c/0.doc && mv c/0.doc.gz c/packed.gz")
        .ok();
    dir
}

#[test]
fn the_account_is_written_as_json_with_each_file_left_out() {
    let dir = mixed_files();
    for threads in ["1", "4"] {
        let ran = dir.run(
            "dedup-tokenize",
            &["-q", "--threads", threads, "--account", "account.json", "c"],
        );
        assert_eq!(ran.code(), 2);
        let account = json(&dir, "account.json");
        let expected = serde_json::json!({
            "complete": true, "documents": 3, "files": 3, "bytes": 16, "files_unchanged": 0, "records_left_out": 1,
            "kinds": {"ndjson": 1, "text": 2}, "decoded": {"UTF-16LE": 1}, "files_left_out": 8,
            "reasons": [
                {"kind": "doc, xls or ppt", "files": 6, "remedy": "save it as docx or PDF"},
                {"kind": "doc, xls or ppt", "packed_in": "gzip", "files": 1, "remedy": "save it as docx or PDF"},
                {"kind": "hidden", "files": 1}
            ]
        });
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(account[name], *value, "{name}");
        }
        let left_out = account["left_out"].as_array().unwrap();
        let files: Vec<&str> = left_out
            .iter()
            .map(|left| left["file"].as_str().unwrap())
            .collect();
        assert_eq!(
            files,
            [
                "c/.hidden",
                "c/0.doc",
                "c/1.doc",
                "c/2.doc",
                "c/3.doc",
                "c/4.doc",
                "c/5.doc",
                "c/packed.gz"
            ]
        );
        assert_eq!(
            left_out[7],
            serde_json::json!({"file": "c/packed.gz", "kind": "doc, xls or ppt", "packed_in": "gzip", "error": true, "message": "left out: doc, xls or ppt in gzip; save it as docx or PDF"})
        );
        assert_eq!(left_out[0]["error"], false);
    }
    let entries = fs::read_dir(dir.temp.path()).unwrap().count();
    assert_eq!(
        entries, 2,
        "nothing but the collection and the account remains"
    );
}

#[test]
fn every_program_writes_the_account_as_json() {
    let dir = mixed_files();
    dir.shell("dedup-index build -q -o idx c/a.txt; dedup-index build -q -o other c/a.txt")
        .ok();
    for line in [
        "dedup-blot c",
        "dedup-index build -o new.idx c",
        "dedup-index add other c",
        "dedup-index sync idx c",
        "dedup-spex -o spex.idx c",
        "dedup-query history h c",
        "dedup-extract pairs c",
        "dedup-extract spans c",
        "dedup-extract passages c",
        "dedup-extract report c -o pages",
    ] {
        let ran = dir.shell(&format!("{line} -q --account account.json > /dev/null"));
        assert_eq!(ran.code(), 2, "{line}: {}", ran.stderr());
        let account = json(&dir, "account.json");
        let counts = ["documents", "files_left_out", "records_left_out"]
            .map(|name| account[name].as_u64().unwrap());
        assert_eq!(counts, [3, 8, 1], "{line}: {account}");
        assert_eq!(account["left_out"].as_array().unwrap().len(), 8, "{line}");
        fs::remove_file(dir.path("account.json")).unwrap();
    }
    let page = String::from_utf8(dir.read("pages/index.html")).unwrap();
    assert!(page.contains("<p>read 3 documents in 3 files (16 bytes); left out 8 files; left out 1 record; decoded 1 text from UTF-16LE</p>"));
    assert!(page.contains("<tr><td>doc, xls or ppt in gzip</td><td class=\"number\">1</td><td>left out; save it as docx or PDF</td></tr>"));
    dir.shell("dedup-index build -q --skip-bad -o whole.idx c && dedup-extract report -q whole.idx --corpus c -o of-index").ok();
    assert!(
        !String::from_utf8(dir.read("of-index/index.html"))
            .unwrap()
            .contains("id=\"input\"")
    );
}

#[test]
fn a_run_that_fails_writes_its_account() {
    let dir = TestDir::with(&[("c/a.doc", OLE)]);
    let ran = dir.run(
        "dedup-index",
        &["build", "-o", "idx", "--account", "account.json", "c"],
    );
    assert_eq!(ran.code(), 2);
    let account = json(&dir, "account.json");
    assert_eq!(
        (
            &account["complete"],
            &account["documents"],
            &account["left_out"][0]["file"]
        ),
        (&false.into(), &0.into(), &"c/a.doc".into())
    );
    // Before a run that takes hours, not after it.
    dir.write("b.txt", "some words");
    let ran = dir.run(
        "dedup-index",
        &["build", "-o", "idx", "--account", "no/such/file", "b.txt"],
    );
    assert_eq!((ran.code(), dir.path("idx").exists()), (2, false));
    assert!(
        ran.stderr().starts_with("dedup-index: no/such/file: "),
        "{}",
        ran.stderr()
    );
}

#[test]
fn a_sharded_run_writes_the_account_that_build_writes() {
    let dir = mixed_files();
    let ran = dir.shell(
        "dedup-index build -q --account one.json -o one.idx c; \
         echo 'a slots=2' > hosts && dedup-shard plan -q -o run --hosts hosts c && dedup-shard run -q run --account many.json",
    );
    assert_eq!(ran.code(), 2, "{}", ran.stderr());
    let one = json(&dir, "one.json");
    let mut many = json(&dir, "many.json");
    assert_eq!(one["left_out"].as_array().unwrap().len(), 8);
    // Records are problems of a run, which has no other list of them.
    let problems = many.as_object_mut().unwrap().remove("problems").unwrap();
    assert_eq!(problems.as_array().unwrap().len(), 1, "{problems}");
    assert_eq!(many, one);
}
