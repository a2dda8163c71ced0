//! Every kind of file that people have: the same text gives the same tokens in each, and bad files are named.

use crate::test_dir::{RunResult, TestDir, records, root};
use serde_json::Value;
use std::fs;

/// A text of the samples, which many kinds of files hold.
const TEXT: &str = "Pilots of the old harbour kept a book of tides, and every captain who came in from the north asked to see it before he dropped anchor.";

fn sample(name: &str) -> Vec<u8> {
    fs::read(root().join("testdata/corpus-kinds").join(name)).unwrap()
}

/// Functions that make archives, for the scripts below.
const PYTHON: &str = r#"
import io, os, struct, sys, tarfile, zipfile
K = sys.argv[1] + "/"
def sample(name): return open(K + name, "rb").read()
def zipped(files):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files: archive.writestr(name, content)
    return made.getvalue()
def tarred(files, mode="w"):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as archive:
        for name, content in files:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return made.getvalue()
def write(name, content):
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    open(name, "wb").write(content if isinstance(content, bytes) else content.encode())
"#;

/// Runs a script of Python in the directory of a test.
fn python(dir: &TestDir, script: &str) {
    dir.write(".make.py", format!("{PYTHON}{script}"));
    let samples = root().join("testdata/corpus-kinds");
    dir.shell(&format!("python3 .make.py {}", samples.display()))
        .ok();
}

/// Whether a program is installed; a test that needs another one says that it was skipped.
fn has(dir: &TestDir, program: &str) -> bool {
    let is_there = dir.shell(&format!("command -v {program}")).code() == 0;
    if !is_there {
        eprintln!("skipped: no {program}; scripts/dev/install-deps installs it");
    }
    is_there
}

/// The ids and the hashes of the documents of a stream.
fn hashes(ran: &RunResult) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let of = |record: &Value| Some((text(&record["doc"])?, text(&record["hash"])?));
    records(&ran.0.stdout).iter().filter_map(of).collect()
}

#[track_caller]
fn assert_one_hash(ran: &RunResult, documents: usize) {
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    let hashes = hashes(ran);
    assert_eq!(hashes.len(), documents, "{hashes:?}");
    for (id, hash) in &hashes {
        assert_eq!(*hash, hashes[0].1, "{id}");
    }
}

#[test]
fn the_same_text_in_every_kind_has_the_same_hash() {
    let dir = TestDir::new();
    let kinds = [
        "ebooklib.epub",
        "expected.txt",
        "libreoffice.docx",
        "libreoffice.fodt",
        "libreoffice.odt",
        "libreoffice.rtf",
        "pandoc.docx",
        "pandoc.odt",
        "pandoc.rtf",
        "python-docx.docx",
        "python-pptx.pptx",
    ];
    for name in kinds {
        dir.write(&format!("c/{name}"), sample(name));
        // Without an ending the first bytes tell.
        dir.write(&format!("bare/{}", name.replace('.', "-")), sample(name));
    }
    assert_one_hash(&dir.run("dedup-tokenize", &["c"]), kinds.len());
    assert_one_hash(&dir.run("dedup-tokenize", &["bare"]), kinds.len());
    for name in kinds {
        let ran = dir.run_with("dedup-tokenize", &["c/expected.txt", "-"], &sample(name));
        assert_one_hash(&ran, 2);
    }
}

const ROW_IDS: [&str; 6] = ["plain", "quotes", "unicode", "empty", "again", "long"];

#[test]
fn rows_of_tables_are_the_same_in_every_format() {
    let dir = TestDir::new();
    let expected = hashes(&dir.run_with("dedup-tokenize", &[], &sample("compact.json")));
    let ids: Vec<_> = expected.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ROW_IDS);
    for name in [
        "indented.json",
        "zstd.parquet",
        "snappy.parquet",
        "gzip.parquet",
        "brotli.parquet",
        "lz4.parquet",
        "dictionary-v2.parquet",
        "delta-byte-array.parquet",
        "list.parquet",
        "pandas.csv",
        "pyarrow.csv",
        "python-excel.csv",
        "python.tsv",
    ] {
        dir.write(name, sample(name));
        let ran = dir.run("dedup-tokenize", &[name]);
        assert_eq!(
            (ran.code(), hashes(&ran)),
            (0, expected.clone()),
            "{name}: {}",
            ran.stderr()
        );
        // From a pipe, a table of text needs its format: any text has commas.
        let ending = name.rsplit('.').next().unwrap();
        let flags = match ending {
            "csv" | "tsv" => &["--records", ending][..],
            _ => &[],
        };
        let ran = dir.run_with("dedup-tokenize", flags, &sample(name));
        assert_eq!(
            (ran.code(), hashes(&ran)),
            (0, expected.clone()),
            "{name} from a pipe: {}",
            ran.stderr()
        );
    }
}

#[test]
fn web_archives_are_read_packed_and_plain() {
    let dir = TestDir::new();
    for name in ["pages.warc", "texts.warc.wet"] {
        dir.write(name, sample(name));
        let plain = hashes(&dir.run("dedup-tokenize", &[name]));
        assert!(plain.len() >= 6, "{name}: {plain:?}");
        assert_eq!(plain[0].0, "https://example.org/plain");
        dir.shell(&format!("gzip -k {name}")).ok();
        let packed = dir.run("dedup-tokenize", &[&format!("{name}.gz")]);
        assert_eq!((packed.code(), hashes(&packed)), (0, plain), "{name}");
    }
}

#[test]
fn archives_in_archives_are_read_to_a_depth() {
    let dir = TestDir::new();
    python(
        &dir,
        r#"
inner = zipped([("b/c.docx", sample("pandoc.docx")), ("b/t.txt", "some words")])
write("nest.tar.xz", tarred([("x/a.zip", inner), ("plain.txt", b"plain words")], "w:xz"))
deep = b"the deepest words"
for level in range(6): deep = zipped([("level-%d" % level, deep)])
write("deep.zip", deep)
"#,
    );
    let expected = [
        "nest.tar.xz!/x/a.zip!/b/c.docx",
        "nest.tar.xz!/x/a.zip!/b/t.txt",
        "nest.tar.xz!/plain.txt",
    ];
    let ran = dir.run("dedup-tokenize", &["nest.tar.xz"]);
    ran.ok();
    assert_eq!(ran.docs(), expected);
    assert_eq!(
        ran.accounts(),
        ["dedup-tokenize: read 3 documents in 3 files (500 bytes); kinds: docx 1, text 2"]
    );
    let piped = dir.run_with("dedup-tokenize", &[], &dir.read("nest.tar.xz"));
    piped.ok();
    assert_eq!(
        piped.docs(),
        expected.map(|id| id.replace("nest.tar.xz", "-"))
    );
    let ran = dir.run("dedup-tokenize", &["deep.zip"]);
    let first = "dedup-tokenize: deep.zip!/level-5!/level-4!/level-3!/level-2: left out: nested too deeply; unpack it first\n";
    assert!(
        ran.code() == 2 && ran.stderr().starts_with(first),
        "{}",
        ran.stderr()
    );
}

#[test]
fn every_compression_is_read_alone_in_members_and_in_layers() {
    let dir = TestDir::with(&[("a.txt", "some words"), ("p1", "some "), ("p2", "words")]);
    for (program, ending) in [
        ("gzip", "gz"),
        ("zstd -q", "zst"),
        ("xz", "xz"),
        ("bzip2", "bz2"),
        ("lz4 -q", "lz4"),
    ] {
        if !has(&dir, program.split(' ').next().unwrap()) {
            continue;
        }
        dir.shell(&format!(
            "rm -rf c && mkdir c && cp a.txt c && {program} -c a.txt > c/one.txt.{ending} && {program} -c a.txt > c/unnamed && \
             ({program} -c p1; {program} -c p2) > c/two.txt.{ending} && gzip -c c/one.txt.{ending} | xz > c/layers.txt.{ending}.gz.xz"
        ))
        .ok();
        assert_one_hash(&dir.run("dedup-tokenize", &["c"]), 5);
        let piped = dir.run_with(
            "dedup-tokenize",
            &["a.txt", "-"],
            &dir.read(&format!("c/two.txt.{ending}")),
        );
        assert_one_hash(&piped, 2);
    }
}

#[test]
fn fields_are_found_by_dotted_paths_in_lines_and_tables() {
    let dir = TestDir::with(&[(
        "a.jsonl",
        "{\"meta\":{\"body\":\"some words\",\"key\":\"x\"}}\n",
    )]);
    let flags = ["--text-field", "meta.body", "--id-field", "meta.key"];
    let ran = dir.run("dedup-tokenize", &[&flags[..], &["a.jsonl"]].concat());
    ran.ok();
    assert_eq!(ran.docs(), ["x"]);
    dir.write(
        "a.json",
        "[{\"meta\":{\"body\":\"some words\",\"key\":\"y\"}}]",
    );
    let ran = dir.run("dedup-tokenize", &[&flags[..], &["a.json"]].concat());
    ran.ok();
    assert_eq!(ran.docs(), ["y"]);
    if dir.shell("command -v duckdb").code() != 0 {
        return eprintln!("no duckdb here: nested columns were not tried");
    }
    dir.shell("duckdb -c \"COPY (SELECT {'body': 'some words', 'key': 'z'} AS meta) TO 'a.parquet'\" > /dev/null")
        .ok();
    let ran = dir.run("dedup-tokenize", &[&flags[..], &["a.parquet"]].concat());
    ran.ok();
    assert_eq!(ran.docs(), ["z"]);
}

/// Such a data set has its rows in numbered files below data/, and no column that is an id.
#[test]
fn rows_without_an_id_are_called_by_file_and_row() {
    let dir = TestDir::new();
    for number in 0..2 {
        let name = format!("set/data/train-{number:05}-of-00002.parquet");
        dir.write(&name, sample("zstd.parquet"));
    }
    dir.write("set/README.md", "A data set.");
    let ran = dir.run("dedup-tokenize", &["--id-field", "none", "set/data"]);
    ran.ok();
    let row = |file: u32, row: u32| format!("set/data/train-{file:05}-of-00002.parquet:{row}");
    let expected: Vec<_> = (0..2)
        .flat_map(|file| (1..=6).map(move |number| row(file, number)))
        .collect();
    assert_eq!(ran.docs(), expected);
}

const GERMAN: &str =
    "Die Prüfung der Größe: schöne Bücher über Österreich, während die Gäste Käse äßen.\n";
const CZECH: &str =
    "Příliš žluťoučký kůň úpěl ďábelské ódy, řekl učitel žákům v předminulém století.\n";
const RUSSIAN: &str = "Все люди рождаются свободными и равными в своем достоинстве и правах.\n";

#[test]
fn texts_in_other_encodings_are_decoded_and_counted() {
    for (text, encoding, counted) in [
        (GERMAN, "UTF-16", "UTF-16LE"),
        (GERMAN, "UTF-16BE", "UTF-16BE"),
        (GERMAN, "WINDOWS-1252", "windows-1252"),
        (CZECH, "WINDOWS-1250", "windows-1250"),
        (RUSSIAN, "KOI8-R", "KOI8-"),
    ] {
        let dir = TestDir::with(&[("c/a.txt", text)]);
        dir.shell(&format!(
            "iconv -t {encoding} c/a.txt > c/b.txt && (cd c && zip -q z.zip b.txt)"
        ))
        .ok();
        let ran = dir.run("dedup-tokenize", &["c"]);
        assert_one_hash(&ran, 3);
        let account = ran.accounts().concat();
        assert!(
            account.contains(&format!("; decoded: {counted}")),
            "{account}"
        );
        // A text is decoded once, wherever it is, and archives are not decoded.
        let flags = ["--encoding", encoding, "c/z.zip", "c/b.txt", "-"];
        let ran = dir.run_with("dedup-tokenize", &flags, &dir.read("c/b.txt"));
        assert_one_hash(&ran, 3);
        let plain = dir.run("dedup-tokenize", &["c/a.txt"]);
        assert_eq!(hashes(&ran)[0].1, hashes(&plain)[0].1, "{encoding}");
    }
    let ran = TestDir::new().run("dedup-tokenize", &["--encoding", "klingon"]);
    assert_eq!(ran.code(), 2);
    assert!(ran.stderr().contains("klingon"), "{}", ran.stderr());
}

/// Excel writes "Unicode text" as tab-separated UTF-16.
#[test]
fn a_table_in_utf16_is_read() {
    let dir = TestDir::with(&[("a.tsv", "id\ttext\n1\tgrößer\n2\t\"in\nlines\"\n")]);
    dir.shell("iconv -t UTF-16 a.tsv > wide.tsv").ok();
    let expected = hashes(&dir.run("dedup-tokenize", &["a.tsv"]));
    let ran = dir.run("dedup-tokenize", &["wide.tsv"]);
    assert_eq!((ran.code(), hashes(&ran)), (0, expected.clone()));
    assert!(ran.accounts().concat().contains("decoded: UTF-16LE 1"));
    let ran = dir.run_with(
        "dedup-tokenize",
        &["--records", "tsv"],
        &dir.read("wide.tsv"),
    );
    assert_eq!((ran.code(), hashes(&ran)), (0, expected));
}

#[test]
fn globs_choose_files_in_directories_and_archives() {
    let dir = TestDir::new();
    python(
        &dir,
        r#"
files = [("a.txt", "one"), ("b.md", "two"), ("sub/c.txt", "three"), ("sub/skip/d.txt", "four"), (".hidden.txt", "five")]
for name, text in files: write("c/" + name, text)
write("c/.gitignore", "skip/\n")
write("z.zip", zipped(files))
"#,
    );
    let docs = |flags: &[&str]| {
        let ran = dir.run(
            "dedup-tokenize",
            &[flags, &["--relative", "c", "z.zip"]].concat(),
        );
        assert_eq!(ran.code(), 0, "{flags:?}: {}", ran.stderr());
        ran.docs().join(" ")
    };
    assert_eq!(
        docs(&["--include", "*.txt", "--include", "*.zip"]),
        "a.txt sub/c.txt sub/skip/d.txt z.zip!/a.txt z.zip!/sub/c.txt z.zip!/sub/skip/d.txt"
    );
    assert_eq!(
        docs(&["--exclude", "sub/", "--exclude", "*.md"]),
        "a.txt z.zip!/a.txt"
    );
    assert!(docs(&["--gitignore"]).starts_with("a.txt b.md sub/c.txt z.zip"));
    assert!(docs(&["--hidden"]).contains(".hidden.txt"));
}

#[test]
fn sync_follows_members_of_archives_and_remembers_the_selection() {
    let dir = TestDir::new();
    let pack = |text: &str| {
        python(
            &dir,
            &format!(
                "write('c/z.zip', zipped([('a.txt', 'the first member'), ('b.txt', '{text}'), ('n.md', 'a note')]))"
            ),
        );
    };
    pack("before the change");
    dir.write("c/plain.txt", "a plain file");
    dir.run("dedup-index", &["build", "-q", "-o", "idx", "c/plain.txt"])
        .ok();
    let flags = [
        "sync",
        "idx",
        "--include",
        "*.txt",
        "--include",
        "*.zip",
        "c",
    ];
    dir.run("dedup-index", &flags).ok();
    let dump = || dir.run("dedup-index", &["dump", "idx"]).ok_text();
    let ids = || {
        let dump = dump();
        [
            "c/z.zip!/a.txt",
            "c/z.zip!/b.txt",
            "c/z.zip!/n.md",
            "c/plain.txt",
        ]
        .map(|id| dump.contains(&format!("\"{id}\"")))
    };
    assert_eq!(ids(), [true, true, false, true]);
    let before = dump();
    pack("after the change of this member");
    dir.run("dedup-index", &flags).ok();
    assert!(dump() != before);
    let ran = dir.run("dedup-index", &["sync", "idx", "--include", "*.md", "c"]);
    assert_eq!(ran.code(), 2, "{}", ran.stderr());
    assert!(ran.stderr().contains("include"), "{}", ran.stderr());
    assert_eq!(ids(), [true, true, false, true]);
}

/// Passages are found by the id of a document in every kind, and offsets refer to the extracted text.
#[test]
fn passages_are_found_in_every_kind() {
    let dir = TestDir::new();
    python(
        &dir,
        r#"
text = sample("expected.txt").decode()
line = " ".join(text.split())
write("query.txt", "Some words of my own come first. " + line)
write("docx/a.docx", sample("pandoc.docx"))
write("zip/a.zip", zipped([("in/a.txt", text), ("in/b.docx", sample("pandoc.docx"))]))
write("csv/a.csv", 'id,text\nrow1,"%s"\n' % line.replace('"', '""'))
write("wide/a.txt", text.encode("utf-16"))
body = line.encode()
write("warc/a.warc", b"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Type: text/plain\r\nWARC-Target-URI: https://example.org/a\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n" % (len(body), body))
"#,
    );
    dir.write("parquet/a.parquet", sample("zstd.parquet"));
    for (directory, ids) in [
        ("docx", &["docx/a.docx"][..]),
        ("zip", &["zip/a.zip!/in/a.txt", "zip/a.zip!/in/b.docx"]),
        ("csv", &["row1"]),
        ("wide", &["wide/a.txt"]),
        ("warc", &["https://example.org/a"]),
    ] {
        let ran = dir.shell(&format!(
            "dedup-index build -q -o {directory}.idx {directory} && dedup-query {directory}.idx query.txt --passages --corpus {directory}"
        ));
        let found = records(&ran.ok());
        let mut docs: Vec<_> = found
            .iter()
            .map(|record| record["doc"].as_str().unwrap().to_owned())
            .collect();
        docs.sort();
        assert_eq!(docs, ids, "{directory}");
        for record in &found {
            let tokens = record["passages"][0]["tokens"].as_u64().unwrap();
            assert!(tokens > 70, "{directory}: {record}");
        }
    }
    // A row of a table.
    dir.write(
        "long.txt",
        (0..60)
            .map(|n| format!("line {n} of the long document "))
            .collect::<String>(),
    );
    let ran = dir.shell(
        "dedup-index build -q -o parquet.idx parquet && dedup-query parquet.idx long.txt --passages --corpus parquet",
    );
    let found = records(&ran.ok());
    assert_eq!(found[0]["doc"], "long");
    assert!(
        found[0]["passages"][0]["tokens"].as_u64().unwrap() > 100,
        "{}",
        found[0]
    );
}

#[test]
fn adapters_turn_files_into_text() {
    let dir = TestDir::with(&[("c/a.xyz", "some words"), ("c/b.txt", "some words")]);
    let run = |adapter: &str, more: &[&str]| {
        let flags = [&["--adapter", adapter], more, &["c"]].concat();
        dir.run("dedup-tokenize", &flags)
    };
    assert_one_hash(&run("*.xyz=cat", &[]), 2);
    assert_one_hash(&run("*.xyz=cat {}", &[]), 2);
    assert_one_hash(&run("*.xyz=sh -c 'cat; sleep 100 &'", &[]), 2);
    for (adapter, more, expected) in [
        (
            "*.xyz=sh -c 'echo no luck >&2; exit 3'",
            &[][..],
            "sh failed with exit status: 3: no luck",
        ),
        (
            "*.xyz=sleep 100",
            &["--adapter-timeout", "1"],
            "sleep was stopped after 1 seconds",
        ),
        (
            "*.xyz=python3 -c 'print(len(bytes(1 << 30)))'",
            &["--adapter-memory", "200M"],
            "python3 failed with ",
        ),
        (
            "*.xyz=no-such-program",
            &[],
            "no-such-program cannot be run: ",
        ),
    ] {
        let ran = run(adapter, more);
        assert_eq!((ran.code(), ran.docs()), (2, vec!["c/b.txt".to_owned()]));
        let stderr = ran.stderr();
        let start = format!("dedup-tokenize: c/a.xyz: left out: adapter: {expected}");
        assert!(stderr.starts_with(&start), "{adapter}: {stderr}");
    }
    // Bytes that are not UTF-8 become question marks.
    let ran = run("*.xyz=printf 'some \\377 words'", &[]);
    assert_one_hash(&ran, 2);
}

#[test]
fn an_adapter_runs_once_for_a_file() {
    let dir = TestDir::with(&[("c/a.xyz", "some words")]);
    let run = |more: &[&str]| {
        let flags = ["--adapter", "*.xyz=sh -c 'echo ran >> log; cat'", "c"];
        dir.run("dedup-tokenize", &[&flags[..], more].concat()).ok();
        String::from_utf8(dir.read("log")).unwrap().lines().count()
    };
    assert_eq!((run(&[]), run(&[])), (1, 1));
    assert!(dir.cache().join("dedup").is_dir());
    assert_eq!(run(&["--adapter-cache", "none"]), 2);
    assert_eq!(run(&["--adapter-cache", "other"]), 3);
    assert_eq!(run(&["--adapter-cache", "other"]), 3);
    dir.write("c/a.xyz", "other words");
    assert_eq!(run(&[]), 4);
}

/// Functions that make PDF files of one page: lines of text, or an image.
const PDF: &str = r#"
import textwrap
def pdf(objects):
    made, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n" % number + content + b"\nendobj\n"
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return made + b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + table + \
        b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(made))
def stream(content, more=b""): return b"<< /Length %d %s >>\nstream\n" % (len(content), more) + content + b"\nendstream"
def page(resources, content, more):
    return pdf([b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources << " + resources + b" >> >>", stream(content), more])
def text_page(lines):
    shown = b"".join(b"(" + line.encode() + b") Tj T* " for line in lines)
    return page(b"/Font << /F 5 0 R >>", b"BT /F 14 Tf 20 TL 60 760 Td " + shown + b"ET", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
def image_page(jpeg):
    at = next(at for at in range(len(jpeg)) if jpeg[at] == 0xff and jpeg[at + 1] in (0xc0, 0xc2))
    height, width, parts = struct.unpack(">HHB", jpeg[at + 5:at + 10])
    more = b"/Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /%s /BitsPerComponent 8 /Filter /DCTDecode" % (width, height, b"DeviceRGB" if parts == 3 else b"DeviceGray")
    return page(b"/XObject << /I 5 0 R >>", b"595 0 0 842 0 0 cm /I Do", stream(jpeg, more))
"#;

#[test]
fn the_text_of_a_pdf_is_read() {
    let dir = TestDir::with(&[("c/a.txt", TEXT)]);
    if !has(&dir, "pdftotext") {
        return;
    }
    python(
        &dir,
        &format!("{PDF}\nwrite('c/a.pdf', text_page(textwrap.wrap('{TEXT}', 60)))"),
    );
    dir.shell("cd c && zip -q a.zip a.pdf").ok();
    let ran = dir.run("dedup-tokenize", &["c"]);
    assert_one_hash(&ran, 3);
    let account = ran.accounts().concat();
    assert!(account.ends_with("kinds: pdf 2, text 1"), "{account}");
    assert_one_hash(
        &dir.run_with("dedup-tokenize", &["c/a.txt", "-"], &dir.read("c/a.pdf")),
        2,
    );
    if has(&dir, "qpdf") {
        dir.shell("qpdf --encrypt user owner 256 -- c/a.pdf secret.pdf")
            .ok();
        let ran = dir.run("dedup-tokenize", &["secret.pdf", "c/a.txt"]);
        assert_eq!(
            (ran.code(), ran.stderr().as_str()),
            (
                2,
                "dedup-tokenize: secret.pdf: left out: encrypted; save it without a password\n"
            )
        );
    }
}

#[test]
fn images_and_scanned_pages_are_read_with_ocr() {
    let dir = TestDir::with(&[("a.txt", TEXT), ("c/a.txt", TEXT)]);
    if !has(&dir, "tesseract") || !has(&dir, "pdftoppm") {
        return;
    }
    python(
        &dir,
        &format!(
            "{PDF}\nwrite('a.pdf', text_page(textwrap.wrap('{TEXT}', 60)))\n\
             os.system('pdftoppm -r 200 -jpeg -singlefile a.pdf scan && pdftoppm -r 200 -png -singlefile a.pdf scan')\n\
             write('scan.pdf', image_page(open('scan.jpg', 'rb').read()))\n\
             write('a.pdf', text_page([]))\n\
             os.system('pdftoppm -r 100 -png -singlefile a.pdf c/blank')"
        ),
    );
    let files = ["a.txt", "scan.jpg", "scan.png", "scan.pdf"];
    let ran = dir.run("dedup-tokenize", &[&["--ocr", "eng"], &files[..]].concat());
    assert_one_hash(&ran, 4);
    let ran = dir.run("dedup-tokenize", &files);
    assert_eq!((ran.code(), ran.docs()), (2, vec!["a.txt".to_owned()]));
    assert!(
        ran.stderr()
            .contains("scan.pdf: left out: pdf without text; read its pages with --ocr LANG\n"),
        "{}",
        ran.stderr()
    );
    // The program that reads images is here; only the language is missing.
    assert!(
        ran.stderr()
            .contains("scan.png: left out: png; read it with --ocr LANG, or --adapter\n"),
        "{}",
        ran.stderr()
    );
    let ran = dir.run("dedup-tokenize", &["--ocr", "eng", "c"]);
    assert_eq!((ran.code(), ran.docs()), (0, vec!["c/a.txt".to_owned()]));
    let account = ran.accounts().concat();
    assert!(
        account.contains("left out 1 file: no text recognised 1"),
        "{account}"
    );
    let ran = dir.run("dedup-tokenize", &["--ocr", "eng", "c/blank.png"]);
    assert_eq!(ran.code(), 2);
    assert!(
        ran.stderr()
            .contains("c/blank.png: left out: no text recognised\n"),
        "{}",
        ran.stderr()
    );
}

/// Bytes that a named encoding does not have are an error of their record, or a question mark.
#[test]
fn wrong_bytes_in_records_of_a_named_encoding_are_named() {
    let dir = TestDir::with(&[
        (
            "a.jsonl",
            &b"{\"id\":\"1\",\"text\":\"a \x82\xa0\"}\n{\"id\":\"2\",\"text\":\"b \xff c\"}\n"[..],
        ),
        ("a.csv", b"id,text\n3,d \x82\xa0\n4,e \xff f\n"),
        (
            "a.json",
            b"[{\"id\":\"5\",\"text\":\"g \xff\"},\n {\"id\":\"6\",\"text\":\"h\"}]",
        ),
    ]);
    let files = ["a.jsonl", "a.csv", "a.json"];
    let flags = ["--encoding", "shift_jis"];
    let ran = dir.run("dedup-tokenize", &[&flags, &files[..]].concat());
    assert_eq!(
        (ran.code(), ran.docs()),
        (2, ["1", "3", "6"].map(str::to_owned).to_vec())
    );
    let what = "some bytes are not Shift_JIS; name another --encoding, or read it with --lossy, which puts ? for each wrong byte";
    let expected = ["a.jsonl:2", "a.csv:3", "a.json:1"]
        .map(|place| format!("dedup-tokenize: {place}: {what}\n"))
        .concat();
    assert_eq!(ran.stderr(), expected);
    let account = ran.accounts().concat();
    assert!(account.contains("left out 3 records"), "{account}");
    let lossy = dir.run(
        "dedup-tokenize",
        &[&flags[..], &["--lossy"], &files[..]].concat(),
    );
    assert_eq!(
        (lossy.code(), lossy.docs().len()),
        (0, 6),
        "{}",
        lossy.stderr()
    );
    let table = dir.run("dedup-tokenize", &["--lossy", "a.csv"]);
    assert_eq!(
        (table.code(), table.docs().len()),
        (0, 2),
        "{}",
        table.stderr()
    );
}

/// What the user says of the encoding counts more than what a page says.
#[test]
fn pages_are_read_in_the_encoding_that_the_user_names() {
    let page = b"<html><head><meta charset=windows-1252></head><body>a\xb1b \xe6ska</body></html>";
    let dir = TestDir::with(&[("a.html", &page[..]), ("b.txt", "aąb ćska".as_bytes())]);
    let ran = dir.run("dedup-tokenize", &["--encoding", "iso-8859-2", "a.html"]);
    let plain = dir.run("dedup-tokenize", &["b.txt"]);
    assert_eq!(hashes(&ran)[0].1, hashes(&plain)[0].1);
}

/// Bad files of each kind, beside a good one.
fn bad_files() -> TestDir {
    let dir = TestDir::with(&[("c/zz.txt", "the rest is read")]);
    python(
        &dir,
        r#"
two = zipped([("a.txt", "one two " * 500), ("b.txt", "three " * 900)])
write("c/cut.zip", two[:len(two) // 2])
write("c/cut.tar", tarred([("a.txt", b"one " * 300), ("b.txt", b"two " * 300)])[:2500])
docx, table = sample("pandoc.docx"), sample("zstd.parquet")
write("c/cut.docx", docx[:len(docx) // 2])
write("c/cut.parquet", table[:len(table) // 2])
write("c/lie.parquet", table[:-8] + struct.pack("<I", 0x7ffffff0) + b"PAR1")
import lzma, random
noise = bytes(random.Random(1).choices(b"abcdefgh ", k=9000))
packed = lzma.compress(noise)
write("c/cut.txt.xz", packed[:len(packed) // 2])
write("c/zip.txt", zipped([("a.txt", "a zip named as a text")]))
write("c/word.pdf", docx)
write("c/image.docx", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
outside = [("../../../evil.txt", b"evil words"), ("/evil.txt", b"more evil words")]
write("c/out.zip", zipped(outside))
write("c/out.tar", tarred(outside))
"#,
    );
    dir
}

#[test]
fn bad_files_are_named_and_the_others_are_read() {
    let dir = bad_files();
    let ran = dir.run("dedup-tokenize", &["-v", "c"]);
    assert_eq!(ran.code(), 2);
    let stderr = ran.stderr();
    let expected = [
        "c/cut.docx: left out: docx: ",
        "c/cut.parquet: left out: ",
        "c/cut.tar: ",
        "c/cut.txt.xz: ",
        "c/cut.zip: left out: zip: ",
        "c/image.docx: left out: png; ",
        "c/lie.parquet: left out: the footer claims 2147483632 bytes, ",
    ];
    for start in expected {
        let line = format!("dedup-tokenize: {start}");
        let count = stderr
            .lines()
            .filter(|printed| printed.starts_with(&line))
            .count();
        assert!(count > 0, "{start}: {stderr}");
    }
    let docs = ran.docs();
    for id in [
        "c/zip.txt!/a.txt",
        "c/word.pdf",
        "c/zz.txt",
        "c/out.zip!/../../../evil.txt",
    ] {
        assert!(docs.contains(&id.to_owned()), "{id}: {docs:?}");
    }
    // Nothing is written under the names in an archive.
    let found = dir.shell("ls /evil.txt ../evil.txt ../../evil.txt ../../../evil.txt 2> /dev/null");
    assert_eq!(found.stdout(), "");
}

#[test]
fn files_that_need_a_password_are_named() {
    let dir = TestDir::with(&[("a.txt", "secret words"), ("b.txt", "plain words")]);
    if !has(&dir, "zip") {
        return;
    }
    dir.shell("zip -q -P word a.zip a.txt && zip -q a.zip b.txt")
        .ok();
    let ran = dir.run("dedup-tokenize", &["a.zip"]);
    assert_eq!(
        (ran.code(), ran.docs()),
        (2, vec!["a.zip!/b.txt".to_owned()])
    );
    assert_eq!(
        ran.stderr(),
        "dedup-tokenize: a.zip!/a.txt: left out: encrypted; save it without a password\n"
    );
}

/// Word puts a file with a password into a compound file; msoffcrypto-tool made this one.
#[test]
fn office_files_with_a_password_are_named() {
    let encrypted = fs::read(root().join("testdata/locked/encrypted.docx")).unwrap();
    let dir = TestDir::with(&[
        ("c/a.docx", encrypted.clone()),
        ("c/a.txt", b"plain words".to_vec()),
        // The same under a name that says nothing, and cut.
        ("c/noname", encrypted.clone()),
        ("c/old.doc", encrypted[..1024].to_vec()),
    ]);
    let ran = dir.run("dedup-tokenize", &["c"]);
    assert_eq!((ran.code(), ran.docs()), (2, vec!["c/a.txt".to_owned()]));
    let remedy = "encrypted; save it without a password";
    for (file, what) in [
        ("a.docx", remedy),
        ("noname", remedy),
        ("old.doc", "doc, xls or ppt; save it as docx or PDF"),
    ] {
        let said = format!("dedup-tokenize: c/{file}: left out: {what}\n");
        assert!(ran.stderr().contains(&said), "{said}{}", ran.stderr());
    }
}

/// Gigabytes in a few megabytes, as a ZIP file that tells its size, as one that lies, and as a text; and entities that would
/// expand to ten gigabytes.
#[test]
fn bombs_stay_within_memory() {
    let dir = TestDir::with(&[("b.txt", "some words")]);
    python(
        &dir,
        r#"
with zipfile.ZipFile("bomb.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
    with archive.open("zeros.txt", "w", force_zip64=True) as member:
        block = b"a" * (1 << 20)
        for _ in range(2100): member.write(block)
    archive.writestr("after.txt", "the words after the bomb")
honest = open("bomb.zip", "rb").read()
# In the directory both sizes are in an extra field, as they need 64 bits there.
size = struct.pack("<Q", 2100 << 20)
write("lie.zip", honest.replace(size, struct.pack("<Q", 1000)))
assert open("lie.zip", "rb").read() != honest
import gzip
write("bomb.txt.gz", gzip.compress(b"a" * (64 << 20), 1) * 40)
source = zipfile.ZipFile(io.BytesIO(sample("pandoc.docx")))
entities = "".join('<!ENTITY %s "%s">' % (chr(98 + n), ("&%s;" % chr(97 + n)) * 10) for n in range(9))
document = '<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "aaaaaaaaaa">' + entities + \
    ']><w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r><w:t>&j;</w:t></w:r></w:p></w:body></w:document>'
write("bomb.docx", zipped([(name, document if name == "word/document.xml" else source.read(name)) for name in source.namelist()]))
"#,
    );
    let ran = dir.shell(
        "/usr/bin/time -f '%M %U' -o peak dedup-tokenize --max-document 16M bomb.zip lie.zip bomb.txt.gz bomb.docx b.txt",
    );
    assert_eq!(ran.code(), 2);
    let docs = ran.docs();
    assert!(
        docs.contains(&"bomb.zip!/after.txt".to_owned()) && docs.contains(&"b.txt".to_owned()),
        "{docs:?}"
    );
    for said in [
        "bomb.zip!/zeros.txt: a document of more than 16777216 bytes",
        "lie.zip!/zeros.txt: ",
        "bomb.txt.gz: a document of more than 16777216 bytes",
        "bomb.docx: left out: docx: word/document.xml: defines XML entities",
    ] {
        assert!(ran.stderr().contains(said), "{said}: {}", ran.stderr());
    }
    let used = String::from_utf8(dir.read("peak")).unwrap();
    let (peak, seconds) = used.lines().last().unwrap().split_once(' ').unwrap();
    let (peak, seconds): (u64, f64) = (peak.parse().unwrap(), seconds.parse().unwrap());
    assert!(peak < 150 << 10, "{peak} kB");
    // A build that is not optimized takes a second.
    assert!(seconds < 20.0, "{seconds} s");
}

#[test]
fn the_output_is_the_same_for_one_thread_and_for_many() {
    let dir = bad_files();
    let samples = root().join("testdata/corpus-kinds");
    dir.shell(&format!(
        "cp -r {} c/kinds && (cd c && zip -qr ../all.zip . && tar -cf ../all.tar .) && mv all.zip all.tar c",
        samples.display()
    ))
    .ok();
    let run = |threads: &str| {
        let ran = dir.run("dedup-tokenize", &["--threads", threads, "-v", "c"]);
        assert_eq!(ran.code(), 2);
        ran
    };
    let (one, many) = (run("1"), run("8"));
    assert!(one.docs().len() > 100, "{}", one.docs().len());
    assert!(one.0.stdout == many.0.stdout);
    assert_eq!(one.stderr(), many.stderr());
    assert_eq!(one.accounts(), many.accounts());
}
