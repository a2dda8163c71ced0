//! dedup-tokenize: the tokens, spans and hashes it writes.

use crate::test_dir::{TestDir, records};

fn tokens(arguments: &[&str], text: &str) -> Vec<String> {
    let ran = TestDir::new().run_with("dedup-tokenize", arguments, text.as_bytes());
    records(&ran.ok())[1]["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .map(|token| token.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_stream_has_header_records_and_end() {
    let ran = TestDir::with(&[("a.txt", "Lorem IPSUM, lorem."), ("b.txt", "")])
        .run("dedup-tokenize", &["--spans", "a.txt", "b.txt"]);
    assert_eq!(
        ran.ok_text(),
        r#"{"dedup":"tokens","version":1,"scheme":"words@18.0/49"}
{"doc":"a.txt","bytes":19,"hash":"ce832fb55f576c52ce87e077c69d4987","tokens":["lorem","ipsum","lorem"],"spans":[[0,5],[6,11],[13,18]]}
{"doc":"b.txt","bytes":0,"hash":"99aa06d3014798d86001c324468d497f","tokens":[],"spans":[]}
{"end":{"records":2}}
"#
    );
}

#[test]
fn every_tokenizer_gives_the_expected_tokens() {
    assert_eq!(
        tokens(&["--tokenizer", "word"], "Don't PANIC"),
        ["dont", "panic"]
    );
    assert_eq!(
        tokens(&["--tokenizer", "char:4"], "On TV, a"),
        ["ontv", "ntva"]
    );
    assert_eq!(
        tokens(&["--tokenizer", "line"], " One  two\n\nThree"),
        ["One two", "Three"]
    );
    assert_eq!(
        tokens(
            &["--tokenizer", "code"],
            "if (x1 >= 0xff) s = \"a b\"; // why"
        ),
        ["if", "(", "x1", ">=", "0xff", ")", "s", "=", "\"a b\"", ";"]
    );
    assert_eq!(
        tokens(&["--tokenizer", "code-norm"], "if (x1 >= 0xff) s = 'a b';"),
        ["if", "(", "ID", ">=", "NUM", ")", "ID", "=", "STR", ";"]
    );
    assert_eq!(
        tokens(&["--tokenizer", "dna"], ">seq1 some words\nACGU\nnR\n"),
        ["a", "c", "g", "t", "n", "n"]
    );
}

#[test]
fn schemes_name_the_tokenizer() {
    let scheme = |arguments: &[&str]| {
        records(
            &TestDir::new()
                .run_with("dedup-tokenize", arguments, b"x")
                .ok(),
        )[0]["scheme"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(scheme(&["--tokenizer", "char:16"]), "char:16@18.0");
    assert_eq!(scheme(&["--tokenizer", "word"]), "word@18.0");
    assert_eq!(scheme(&["--strip-html"]), "words+html@18.0/49");
}

#[test]
fn html_is_stripped_and_spans_refer_to_the_original() {
    let page = "<html><head><title>A&amp;B</title><style>p {x}</style></head><p class='>'>caf&eacute; <b>bo</b>ld<script>no()</script> &lt;end";
    let dir = TestDir::with(&[("page.html", page)]);
    let ran = dir.run(
        "dedup-tokenize",
        &["--keep-markup", "--strip-html", "--spans", "page.html"],
    );
    let record = &records(&ran.ok())[1];
    let slices: Vec<_> = record["spans"]
        .as_array()
        .unwrap()
        .iter()
        .map(|span| &page[span[0].as_u64().unwrap() as usize..span[1].as_u64().unwrap() as usize])
        .collect();
    assert_eq!(
        record["tokens"].to_string(),
        r#"["a","b","café","bold","end"]"#
    );
    assert_eq!(slices, ["A", "B", "caf&eacute;", "bo</b>ld", "end"]);
    // By default the text is extracted first, and spans refer to that.
    let ran = dir.run("dedup-tokenize", &["--spans", "page.html"]);
    let extracted = &records(&ran.ok())[1];
    assert_eq!(extracted["tokens"], record["tokens"]);
    assert_eq!(extracted["spans"][0].to_string(), "[0,1]");
}

#[test]
fn documents_with_equal_tokens_have_equal_hashes() {
    let ran = TestDir::with(&[
        ("a", "It's The same\ntext."),
        ("b", "its THE same – text"),
        ("c", "its the other text"),
    ])
    .run("dedup-tokenize", &["a", "b", "c"]);
    let hashes: Vec<_> = records(&ran.ok())
        .iter()
        .filter_map(|record| record["hash"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(hashes[0], hashes[1]);
    assert_ne!(hashes[0], hashes[2]);
}

#[test]
fn the_hash_matches_xxhsum() {
    let dir = TestDir::with(&[("a.txt", "Příliš žluťoučký, KŮŇ!")]);
    let found = dir.shell("command -v xxhsum >/dev/null || exit 77; printf 'příliš\\nžluťoučký\\nkůň\\n' | xxhsum -H2 | cut -c1-32");
    if found.code() == 77 {
        return eprintln!("no xxhsum here: skipped");
    }
    assert_eq!(
        records(&dir.run("dedup-tokenize", &["a.txt"]).ok())[1]["hash"],
        found.ok_text().trim()
    );
}

#[test]
fn an_unknown_tokenizer_is_refused_with_the_known_ones() {
    let ran = TestDir::new().run("dedup-tokenize", &["--tokenizer", "stems"]);
    assert_eq!(ran.code(), 2);
    assert!(
        ran.stderr().contains(
            "no tokenizer 'stems'; there are words, word, char:N, line, code, code-norm, dna"
        ),
        "{}",
        ran.stderr()
    );
}
