//! All commands read documents as the index did: with its tokenizer, and without the markup that it
//! strips.

use crate::test_dir::{RunResult, TestDir, records};
use serde_json::{Value, json};

const SENTENCE: &str = "Ice that is pressed by its own weight begins to flow downhill, slowly, and carries the stones of the valley with it.";

/// A page of a web site. All pages are the same except for the body.
fn page(body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title></title>\n<style>\n\
         body {{ margin: 0; padding: 0; font-family: serif; color: black; background: white; border: none }}\n\
         h1 {{ font-size: 2em; line-height: 1.2; text-align: center; margin: 1em 0 2em 0 }}\n</style>\n\
         <script>var one = 1, two = 2; function add(a, b) {{ return a + b; }} add(one, two);</script>\n</head>\n\
         <body class=\"page with-menu with-footer\">\n{body}\n</body>\n</html>\n"
    )
}

fn bread() -> String {
    page("<p>Bread was baked once a <b>week</b> in the village oven.</p>")
}

fn wool() -> String {
    page("<p>Wool is spun &amp; woven where sheep graze on salty meadows.</p>")
}

/// The same sentence in a paragraph of one page and in a list of the other, with different markup
/// inside.
fn ice() -> [String; 2] {
    let marked = SENTENCE
        .replace("weight begins", "<em>weight</em>\n<!-- really? -->begins")
        .replace("stones", "st<i>on</i>es");
    [
        page(&format!("<h1>Glaciers</h1><p>{SENTENCE}</p>")),
        page(&format!(
            "<ul><li>First&nbsp;of all.</li>\n<li>{marked}</li></ul>"
        )),
    ]
}

/// A directory of pages that are read with their markup, which the tokenizer strips.
struct MarkedPages(TestDir);

impl MarkedPages {
    fn run(&self, tool: &str, arguments: &[&str]) -> RunResult {
        let keep: &[&str] = match arguments[0] {
            "align" => &[],
            _ => &["--keep-markup"],
        };
        self.0.run(tool, &[arguments, keep].concat())
    }
}

impl std::ops::Deref for MarkedPages {
    type Target = TestDir;

    fn deref(&self) -> &TestDir {
        &self.0
    }
}

fn fixture() -> MarkedPages {
    let [one, two] = ice();
    MarkedPages(TestDir::with(&[
        ("bread.html", bread()),
        ("wool.html", wool()),
        ("one.html", one),
        ("two.html", two),
    ]))
}

/// The text of a passage in a document, from its first word to its last.
fn passage_text<'d>(document: &'d str, span: &Value) -> &'d str {
    &document[span[0].as_u64().unwrap() as usize..span[1].as_u64().unwrap() as usize]
}

#[test]
fn the_template_of_stripped_pages_is_not_a_passage() {
    let dir = fixture();
    dir.run(
        "dedup-index",
        &[
            "build",
            "-o",
            "idx",
            "--strip-html",
            "-k",
            "3",
            "bread.html",
            "wool.html",
            "one.html",
            "two.html",
        ],
    )
    .ok();
    for (name, command) in [
        (
            "query",
            &[
                "idx",
                "bread.html",
                "--passages",
                "--min-match-words",
                "1",
                "--threshold",
                "0",
            ][..],
        ),
        (
            "pairs",
            &[
                "align",
                "--pairs",
                "list",
                "--strip-html",
                "--min-match-words",
                "1",
            ],
        ),
    ] {
        dir.write("list", "bread.html\twool.html\n");
        let found = records(&dir.run("dedup-query", command).0.stdout);
        let others = found.iter().filter(|record| record["doc"] != "bread.html");
        assert!(
            others.clone().all(|record| record["passages"] == json!([])),
            "{name}: {found:?}"
        );
    }
    let found = records(
        &dir.run(
            "dedup-query",
            &[
                "align",
                "--pairs",
                "list",
                "--strip-html",
                "--min-match-words",
                "1",
            ],
        )
        .0
        .stdout,
    );
    let words = json!({"words": 10, "excluded": {"base": 0, "bibliography": 0, "quotes": 0}, "counted": 10, "matched": 0, "share": 0});
    assert_eq!(
        (&found[0]["a_words"], &found[0]["b_words"]),
        (&words, &words)
    );
    // The text of a page is extracted in any case.
    let ran = dir.run("dedup-query", &["align", "--pairs", "list"]);
    let found = records(&ran.0.stdout);
    assert!(found[0]["a_in_b"].as_f64().unwrap() < 0.1, "{found:?}");
}

#[test]
fn spans_of_a_copy_in_other_markup_refer_to_the_original_document() {
    let (dir, [one, two]) = (fixture(), ice());
    dir.run(
        "dedup-index",
        &["build", "-o", "idx", "--strip-html", "one.html", "two.html"],
    )
    .ok();
    dir.write("list", "one.html\ttwo.html\n");
    let expected = |passage: &Value| {
        assert_eq!(
            (&passage["tokens"], &passage["kind"]),
            (&json!(22), &json!("verbatim")),
            "{passage}"
        );
        assert_eq!(passage_text(&one, &passage["a"]), SENTENCE);
        let copied = passage_text(&two, &passage["b"]);
        assert!(
            copied.starts_with("Ice that")
                && copied.ends_with("with it.")
                && copied.contains("<!-- really? -->begins"),
            "{copied}"
        );
    };
    let query = records(
        &dir.run("dedup-query", &["idx", "one.html", "--passages"])
            .ok(),
    );
    expected(
        &query
            .iter()
            .find(|record| record["doc"] == "two.html")
            .unwrap()["passages"][0],
    );
    expected(
        &records(
            &dir.run("dedup-query", &["align", "--pairs", "list", "--strip-html"])
                .ok(),
        )[0]["passages"][0],
    );
    expected(
        &records(
            &dir.run("dedup-extract", &["idx", "--passages", "--threshold", "0"])
                .ok(),
        )[0]["passages"][0],
    );
    let plain = records(
        &dir.run("dedup-query", &["align", "--pairs", "list", "--strip-html"])
            .ok(),
    );
    let chars = records(
        &dir.run(
            "dedup-query",
            &["align", "--pairs", "list", "--strip-html", "--chars"],
        )
        .ok(),
    );
    assert_eq!(plain, chars, "these pages are ASCII");
    // 22 of 23 words, and 22 of 25.
    assert_eq!(
        (&plain[0]["a_in_b"], &plain[0]["b_in_a"]),
        (&json!(0.956_522), &json!(0.88))
    );
}

#[test]
fn reports_show_no_markup() {
    let dir = fixture();
    dir.run(
        "dedup-index",
        &["build", "-o", "idx", "--strip-html", "one.html", "two.html"],
    )
    .ok();
    dir.write("list", "one.html\ttwo.html\n");
    dir.run("dedup-query", &["idx", "one.html", "--html", "query.html"])
        .ok();
    dir.run(
        "dedup-query",
        &[
            "align",
            "--pairs",
            "list",
            "--strip-html",
            "--html",
            "pairs",
        ],
    )
    .ok();
    dir.run(
        "dedup-extract",
        &["report", "-q", "idx", "-o", "report", "--threshold", "0"],
    )
    .ok();
    for page in [
        "query.html",
        "pairs/pair-000001.html",
        "report/pair-000001.html",
    ] {
        let page = String::from_utf8(dir.read(page)).unwrap();
        let texts: Vec<&str> = page
            .split("id=\"text-")
            .skip(1)
            .map(|text| text.split_once("</script>").unwrap().0)
            .collect();
        assert!(
            texts.iter().any(|text| text.contains("Glaciers\\n\\n\"")
                && text.contains(&format!("[[0],\"{SENTENCE}\"]"))),
            "{texts:?}"
        );
        for hidden in ["\\u003c", "font-family", "really?", "function", "utf-8"] {
            assert!(
                texts.iter().all(|text| !text.contains(hidden)),
                "{hidden}: {texts:?}"
            );
        }
        assert!(page.contains("tags, comments, scripts and styles of HTML are left out"));
    }
    let listed = records(
        &dir.run(
            "dedup-extract",
            &["passages", "idx", "one.html", "two.html"],
        )
        .ok(),
    );
    assert_eq!(listed[0]["text"], SENTENCE.trim_end_matches('.'));
    // The second place contains a comment, which no text output shows.
    let blots = records(&dir.run("dedup-extract", &["blots", "idx"]).ok());
    let of_two = |blot: &Value| {
        let found = records(
            &dir.run(
                "dedup-query",
                &["blot", "idx", blot["blot"].as_str().unwrap()],
            )
            .ok(),
        );
        found
            .iter()
            .find(|record| record["doc"] == "two.html")
            .unwrap()["text"]
            .to_string()
    };
    let texts: Vec<String> = blots.iter().map(of_two).collect();
    assert!(
        texts.iter().any(|text| text.contains("weight\\nbegins to"))
            && texts.iter().all(|text| !text.contains("really")),
        "{texts:?}"
    );
}

#[test]
fn markup_is_stripped_from_base_text_quotations_and_exclusions() {
    let dir = fixture();
    let quoted = SENTENCE.trim_end_matches('.');
    dir.write(
        "quoted.html",
        page(&format!(
            "<p>They say: <q></q>&ldquo;{}&rdquo; Indeed so.</p>",
            quoted.replace("stones", "<b>stones</b>")
        )),
    );
    dir.write(
        "base.html",
        format!(
            "<div><div>{}</div></div>",
            SENTENCE.replace("flow", "<i>flow</i>")
        ),
    );
    dir.run(
        "dedup-index",
        &["build", "-o", "idx", "--strip-html", "one.html"],
    )
    .ok();
    let tally = |options: &[&str]| {
        let found = dir.run(
            "dedup-query",
            &[
                &["idx", "quoted.html", "--passages", "--min-match-words", "1"],
                options,
            ]
            .concat(),
        );
        records(&found.0.stdout)
            .first()
            .map(|record| record["a_words"]["excluded"].clone())
    };
    assert_eq!(
        tally(&[]),
        Some(json!({"base": 0, "bibliography": 0, "quotes": 0}))
    );
    // The exclusions leave nothing to report.
    for left_out in [
        &["--exclude-quotes"][..],
        &["--base", "base.html"],
        &["--exclude-text", "base.html"],
    ] {
        assert_eq!(tally(left_out), None, "{left_out:?}");
    }
}

/// Source code in which only names and layout were changed.
const CODE: [&str; 2] = [
    "int sum(int *list, int n) {\n  int all = 0;\n  for (int i = 0; i < n; i++) { all += list[i]; }\n  return all;\n}\n",
    "// adds\nint total(int *v, int len)\n{\n    int s = 0;   /* here */\n    for (int j = 0; j < len; j++) { s += v[j]; }\n    return s;\n}\n",
];

#[test]
fn passages_use_the_tokenizer_of_the_index() {
    let noisy = SENTENCE.replace("pressed by", "pres- sed hy");
    let lines: String = (0..9)
        .map(|line| format!("line {line} of many\n"))
        .collect();
    for (tokenizer, texts, kind, tokens) in [
        ("code-norm", CODE.map(str::to_owned), "verbatim", 43),
        ("char:5", [SENTENCE.to_owned(), noisy], "edited", 83),
        (
            "line",
            [
                format!("x\n{lines}y\n"),
                format!("{}z\n", lines.replace("of", " of ")),
            ],
            "verbatim",
            9,
        ),
    ] {
        let dir = TestDir::with(&[
            ("a", &texts[0]),
            ("b", &texts[1]),
            ("list", &"a\tb\n".to_owned()),
        ]);
        dir.run(
            "dedup-index",
            &["build", "-o", "idx", "--tokenizer", tokenizer, "a", "b"],
        )
        .ok();
        let query = records(&dir.run("dedup-query", &["idx", "a", "--passages"]).ok());
        let pairs = records(
            &dir.run(
                "dedup-query",
                &["align", "--pairs", "list", "--tokenizer", tokenizer],
            )
            .ok(),
        );
        let of_query = &query.iter().find(|record| record["doc"] == "b").unwrap()["passages"];
        assert_eq!(of_query, &pairs[0]["passages"], "{tokenizer}");
        let passages = of_query.as_array().unwrap();
        assert_eq!(
            (passages.len(), &passages[0]["kind"], &passages[0]["tokens"]),
            (1, &json!(kind), &json!(tokens)),
            "{tokenizer}"
        );
    }
    // By words, the two files are not similar.
    let dir = TestDir::with(&[("a", CODE[0]), ("b", CODE[1]), ("list", "a\tb\n")]);
    assert_eq!(
        records(
            &dir.run("dedup-query", &["align", "--pairs", "list"])
                .0
                .stdout
        )[0]["passages"],
        json!([])
    );
}

#[test]
fn passages_on_the_reverse_strand_are_found() {
    let mut state = 7_u64;
    let mut bases = |count: usize| -> String {
        let next = |_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            char::from(b"ACGT"[(state >> 60) as usize & 3])
        };
        (0..count).map(next).collect()
    };
    let (shared, other) = (bases(100), bases(70));
    let complement = |sequence: &str| -> String {
        let facing = |base| "ACGT".find(base).map_or('N', |at| char::from(b"TGCA"[at]));
        sequence.chars().rev().map(facing).collect()
    };
    let (before, after) = (bases(40), bases(40));
    let fasta = [
        format!(">a first\n{before}{shared}\nNNNN{other}\n"),
        format!(
            ">b second\n{}{}\n{other}NNNN{after}\n",
            bases(30),
            complement(&shared)
        ),
    ];
    let dir = TestDir::with(&[
        ("a.fa", &fasta[0]),
        ("b.fa", &fasta[1]),
        ("list", &"a.fa\tb.fa\n".to_owned()),
    ]);
    dir.run(
        "dedup-index",
        &["build", "-o", "idx", "--tokenizer", "dna", "a.fa", "b.fa"],
    )
    .ok();
    let found = records(
        &dir.run(
            "dedup-query",
            &[
                "idx",
                "a.fa",
                "--passages",
                "--corpus",
                "b.fa",
                "--corpus",
                "a.fa",
            ],
        )
        .ok(),
    );
    let passages = &found.iter().find(|record| record["doc"] == "b").unwrap()["passages"];
    let expected = json!([
        {"a": [40, 140], "b": [30, 130], "tokens": 100, "score": 1, "kind": "verbatim", "reverse": true},
        {"a": [145, 215], "b": [131, 201], "tokens": 70, "score": 1, "kind": "verbatim"},
    ]);
    assert_eq!(passages, &expected);
    // A FASTA file with its header lines.
    let pairs = records(
        &dir.run(
            "dedup-query",
            &["align", "--pairs", "list", "--tokenizer", "dna"],
        )
        .ok(),
    );
    let moved = |span: &Value, by: usize| {
        json!([
            span[0].as_u64().unwrap() + by as u64,
            span[1].as_u64().unwrap() + by as u64
        ])
    };
    for (found, expected) in pairs[0]["passages"]
        .as_array()
        .unwrap()
        .iter()
        .zip(expected.as_array().unwrap())
    {
        assert_eq!(
            (&found["a"], &found["b"]),
            (&moved(&expected["a"], 9), &moved(&expected["b"], 10))
        );
    }
}

#[test]
fn every_command_reads_the_stripped_text_of_an_index() {
    let (dir, [one, two]) = (fixture(), ice());
    dir.write(
        "taboo.html",
        format!("<div>{}</div>", SENTENCE.replace("flow", "<i>flow</i>")),
    );
    dir.run(
        "dedup-index",
        &[
            "build",
            "-q",
            "--dictionary",
            "-o",
            "idx",
            "--strip-html",
            "bread.html",
            "one.html",
            "two.html",
            "wool.html",
        ],
    )
    .ok();
    let extract = |arguments: &[&str]| {
        records(
            &dir.run(
                "dedup-extract",
                &[&arguments[..1], &["idx", "-q"], &arguments[1..]].concat(),
            )
            .ok(),
        )
    };
    for method in [
        &["compare"][..],
        &["compare", "--method", "exhaustive"],
        &["compare", "--method", "gdic"],
    ] {
        let found = extract(method);
        assert_eq!(
            (found.len(), &found[0]["a"], &found[0]["b"]),
            (1, &json!("one.html"), &json!("two.html")),
            "{method:?}: {found:?}"
        );
        let area = &found[0]["areas"][0];
        assert!(
            passage_text(&one, &area["a"]).starts_with("Ice that")
                && passage_text(&two, &area["b"]).ends_with("with it"),
            "{area}"
        );
    }
    let spans = extract(&["spans", "bread.html", "one.html", "two.html", "wool.html"]);
    let seen: Vec<&str> = spans
        .iter()
        .filter(|record| record["spans"] != json!([]))
        .map(|record| record["doc"].as_str().unwrap())
        .collect();
    assert_eq!(seen, ["two.html"]);
    assert!(passage_text(&two, &spans[2]["spans"][0]).starts_with("Ice that"));
    assert_eq!(
        extract(&["passages"])
            .iter()
            .map(|passage| passage["tokens"].clone())
            .collect::<Vec<_>>(),
        [json!(22)]
    );
    for left_out in [
        &["passages", "--taboo"][..],
        &["pairs", "--threshold", "0", "--exclude-text"],
        &["pairs", "--threshold", "0", "--base"],
    ] {
        // Only the line that counts what was left out.
        let found = extract(&[left_out, &["taboo.html"]].concat());
        assert_eq!(
            (found.len(), &found[0]["dedup"]),
            (1, &json!("extract")),
            "{found:?}"
        );
    }
}
