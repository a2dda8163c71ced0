//! Several tokenizers in one index: `code+code-norm`, `word+char:5`, `word+letters`.

use crate::{
    shard::{ensure_equals_build, plan},
    test_dir::{TestDir, records},
};
use proptest::prelude::*;
use std::collections::BTreeSet;

const ADD: &str = "static int add_all(const int *list, int count) {\n  int sum = 0;\n  for (int at = 0; at < count; at++) {\n    sum += list[at];\n  }\n  return sum;\n}\n";
const RENAMED: &str = "static int total(const int *values, int length) {\n  int result = 0;\n  for (int index = 0; index < length; index++) {\n    result += values[index];\n  }\n  return result;\n}\n";
const OTHER: &str = "int main(void) {\n  while (getchar() != EOF)\n    putchar('x');\n  if (ferror(stdin)) {\n    perror(\"stdin\");\n    return 1;\n  }\n  return 0;\n}\n";

fn programs() -> TestDir {
    TestDir::with(&[
        ("c/add.c", ADD),
        ("c/renamed.c", RENAMED),
        ("c/other.c", OTHER),
        ("c/again.c", OTHER),
        ("c/both.c", &format!("{OTHER}{ADD}")),
        ("c/empty.c", "/* nothing */"),
        ("copy.c", RENAMED.replace("static ", "").as_str()),
    ])
}

/// The blots of each document.
fn blots(dir: &TestDir, flags: &str, path: &str) -> Vec<(String, BTreeSet<u64>)> {
    let stream = dir.shell(&format!("dedup-blot {flags} {path}")).ok();
    let blots_of = |record: &serde_json::Value| {
        let blots = record["blots"].as_array().unwrap().iter();
        blots
            .map(|blot| u64::from_str_radix(blot.as_str().unwrap(), 16).unwrap())
            .collect()
    };
    records(&stream)
        .iter()
        .filter(|record| record["doc"].is_string())
        .map(|record| (record["doc"].as_str().unwrap().to_owned(), blots_of(record)))
        .collect()
}

/// What the blots of a further tokenizer are XORed with: the first 40 bits of `printf code-norm | xxhsum -H3`.
const SALT_OF_CODE_NORM: u64 = 0x55_31a0_fdf0;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    /// The index of several tokenizers has the union of the blots that each has alone.
    #[test]
    fn blots_are_the_union_of_those_of_each_tokenizer(
        texts in prop::collection::vec("([a-c]{1,2}( = |\\+|\\(|\\);\n|; )){0,60}", 1..5),
        flags in prop::sample::select(vec!["-k 4", "-k 3 --select mod:2", "--scheme sorted:3,ordered:5/winnow:3", "-k 6 --select winnow:4"]),
    ) {
        let dir = TestDir::new();
        for (number, text) in texts.iter().enumerate() {
            dir.write(&format!("c/{number}.c"), text);
        }
        let of = |tokenizer: &str| blots(&dir, &format!("--tokenizer {tokenizer} {flags}"), "c");
        for ((both, code), norm) in of("code+code-norm").iter().zip(of("code")).zip(of("code-norm")) {
            let salted = norm.1.iter().map(|blot| blot ^ SALT_OF_CODE_NORM);
            let union: BTreeSet<u64> = code.1.iter().copied().chain(salted).collect();
            prop_assert_eq!(both, &(code.0, union));
        }
    }
}

#[test]
fn fused_and_piped_give_the_same_index() {
    let dir = programs();
    for (tokenizers, flags) in [
        ("code+code-norm", ""),
        (
            "code-norm+code+word",
            "--scheme ordered:4,code=sorted:5/mod:2",
        ),
        ("word+letters", ""),
        ("word+char:5", "-k 3 --select winnow:3"),
        ("word+line+html", "--strip-html"),
    ] {
        let tokenizers = tokenizers.trim_end_matches("+html");
        let strips = flags.contains("--strip-html");
        let tokenize = format!(
            "dedup-tokenize --tokenizer {tokenizers}{} c",
            if strips { " --strip-html" } else { "" }
        );
        dir.shell(&format!(
            "rm -rf one && dedup-index build -q -o one --tokenizer {tokenizers} {flags} c && dedup-index verify one"
        ))
        .ok();
        let blot_flags = flags.replace("--strip-html", "");
        for form in ["", "--spans", "--binary", "--binary --spans"] {
            dir.shell(&format!(
                "rm -rf two && {tokenize} {form} | dedup-blot {blot_flags} | dedup-index build -q -o two && diff -r one two"
            ))
            .ok();
        }
        dir.shell(&format!(
            "for form in '' --spans; do {tokenize} $form > text; {tokenize} $form --binary > binary; \
             dedup-tokenize $form --binary text | cmp - binary && dedup-tokenize $form binary | cmp - text || exit 1; done"
        ))
        .ok();
    }
}

#[test]
fn any_threads_parts_and_hosts_give_the_same_index() {
    let dir = programs();
    let flags = "--tokenizer code+code-norm c";
    dir.shell(&format!(
        "dedup-index build -q -o one --threads 1 --parts 3 {flags}; dedup-index build -q -o two --threads 8 --memory 1M --parts 3 {flags}; diff -r one two"
    ))
    .ok();
    for (hosts, more) in [
        ("a\nb slots=2\n", "--parts 3"),
        ("a slots=4\n", "--dictionary"),
    ] {
        let more = format!(
            "{more} --tokenizer code+code-norm --scheme code=ordered:5,code-norm=ordered:9 c"
        );
        plan(&dir, hosts, &more).ok();
        dir.shell("dedup-shard run r -j 3").ok();
        ensure_equals_build(&dir, &more);
    }
}

#[test]
fn a_changed_index_equals_one_that_is_built_anew() {
    let dir = programs();
    let build = "dedup-index build -q --tokenizer code+code-norm -k 6";
    dir.shell(&format!("{build} -o one c")).ok();
    dir.shell(&format!(
        "{build} -o two c/a*.c && dedup-index add -q two c/both.c c/empty.c c/other.c copy.c && dedup-index add -q two c/renamed.c \
         && dedup-index remove -q two copy.c && dedup-index compact -q two && dedup-index verify two"
    ))
    .ok();
    let answers = |index: &str| dir.shell(&format!("dedup-query {index} copy.c")).ok_text();
    assert_eq!(answers("one"), answers("two"));
    dir.shell(&format!(
        "{build} -o left c/a*.c && {build} -o right c/both.c c/empty.c c/other.c c/renamed.c && dedup-index merge -q -o merged left right && diff -r one merged"
    ))
    .ok();
    dir.shell("cp -r one three && rm c/both.c && echo 'int more;' > c/more.c && dedup-index sync -q three c && dedup-index compact -q three && dedup-index verify three")
        .ok();
    assert_eq!(
        dir.shell("dedup-index dump three | head -1").ok_text(),
        "{\"dedup\":\"blots\",\"version\":1,\"scheme\":\"code+code-norm@18.0 code=ordered:6,code-norm=ordered:6:40 all\"}\n"
    );
    let ran = dir.shell(
        "dedup-index build -q -o single --tokenizer code c && dedup-index merge -o m one single",
    );
    assert!(
        ran.code() == 2 && ran.stderr().contains("scheme"),
        "{}",
        ran.stderr()
    );
}

#[test]
fn each_tokenizer_finds_its_kind_of_copy() {
    let dir = programs();
    for (tokenizer, finds) in [
        ("code", false),
        ("code-norm", true),
        ("code+code-norm", true),
    ] {
        dir.shell(&format!(
            "rm -rf i; dedup-index build -q -o i --tokenizer {tokenizer} c"
        ))
        .ok();
        let pairs = dir
            .shell("dedup-extract pairs i --score containment --threshold 0.4 --format tsv")
            .ok_text();
        assert_eq!(
            pairs
                .lines()
                .any(|line| line.contains("add.c\tc/renamed.c")),
            finds,
            "{tokenizer}\n{pairs}"
        );
        let found = records(&dir.run("dedup-query", &["i", "copy.c"]).0.stdout);
        assert!(found.iter().any(|found| found["doc"] == "c/renamed.c"));
    }
}

/// A scanner misread every few words, so that no eight of them are in a row.
#[test]
fn letters_beside_words_find_misread_text() {
    let dir = TestDir::with(&[
        (
            "source",
            "The old lighthouse keeper climbed the narrow stairs every evening to light the lamp that guided fishing boats safely",
        ),
        (
            "misread",
            "Tbe old Iighthouse kceper cl1mbed the narrow sta irs eve ry evening to l ight thelamp thatguided fishing boat5 safely",
        ),
    ]);
    for (tokenizer, answers) in [("word", 0), ("word+letters", 1), ("word+char:5", 1)] {
        let ran = dir.shell(&format!(
            "rm -rf i; dedup-index build -q -o i --tokenizer {tokenizer} source; dedup-query -q i misread"
        ));
        assert_eq!(records(&ran.0.stdout).len(), answers, "{tokenizer}");
    }
}

/// Passages, places of blots and verbatim spans are of the first tokenizer, or of the one whose blot it is.
#[test]
fn passages_are_of_the_first_tokenizer() {
    let dir = programs();
    dir.shell("dedup-index build -q -o code --tokenizer code -k 8 c && dedup-index build -q -o both --tokenizer code+code-norm -k 8 c")
        .ok();
    for command in [
        "dedup-extract passages {} --min-tokens 8 --corpus .",
        "dedup-extract spans {} c",
    ] {
        let [one, two] =
            ["code", "both"].map(|index| dir.shell(&command.replace("{}", index)).ok());
        let without_header = |stream: &[u8]| records(stream).split_off(1);
        assert!(!without_header(&one).is_empty());
        assert_eq!(without_header(&one), without_header(&two), "{command}");
    }
    let passages = |index: &str| {
        let stream = dir
            .shell(&format!("dedup-query {index} c/both.c --passages"))
            .ok();
        let found = records(&stream);
        let add = found.iter().find(|found| found["doc"] == "c/add.c");
        add.unwrap()["passages"].clone()
    };
    assert!(
        passages("code")
            .as_array()
            .is_some_and(|list| !list.is_empty())
    );
    assert_eq!(passages("code"), passages("both"));
    let stream = dir
        .shell("dedup-blot --tokenizer code+code-norm -k 8 --positions c/add.c")
        .ok();
    let record = &records(&stream)[1];
    let list = record["blots"].as_array().unwrap();
    assert_eq!(
        list.len() as u64,
        2 * (record["tokens"].as_u64().unwrap() - 7)
    );
    for (blot, documents, text) in [
        (&list[0], 2, "static int add_all(const int *list"),
        (&list[list.len() - 1], 3, "at];\n  }\n  return sum;\n}"),
    ] {
        let hex = blot.as_str().unwrap();
        let found = dir
            .shell(&format!("dedup-query blot both {hex} --corpus ."))
            .ok();
        let found = records(&found);
        assert_eq!((found.len(), &found[0]["text"]), (documents, &text.into()));
    }
}

/// A renamed copy has the same normalized tokens, but is no exact duplicate.
#[test]
fn exact_duplicates_are_equal_for_every_tokenizer() {
    let dir = programs();
    for tokenizers in ["code+code-norm", "code-norm+code"] {
        dir.shell(&format!(
            "rm -rf i; dedup-index build -q -o i --tokenizer {tokenizers} c"
        ))
        .ok();
        let exact = dir.shell("dedup-extract exact i --format tsv").ok_text();
        assert!(
            exact.contains("c/again.c") && !exact.contains("renamed"),
            "{exact}"
        );
    }
}

#[test]
fn letters_have_default_windows_of_their_own() {
    let dir = programs();
    let scheme = |flags: &str| {
        let line = format!("dedup-blot --tokenizer {flags} copy.c | head -1");
        records(&dir.shell(&line).ok())[0]["scheme"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        scheme("word+letters"),
        "word+char:1@18.0 word=ordered:8,char:1=ordered:16/winnow:8:40 all"
    );
    assert_eq!(
        scheme("word+letters --scheme letters=letters:20"),
        "word+char:1@18.0 word=ordered:8,char:1=letters:20:40 all"
    );
    assert_eq!(
        scheme("code+code-norm"),
        "code+code-norm@18.0 code=ordered:16,code-norm=ordered:16:40 all"
    );
    assert_eq!(
        scheme("code --scheme code=ordered:9"),
        "code@18.0 ordered:9:40 all"
    );
    assert_eq!(
        scheme("code+code-norm -k 7"),
        "code+code-norm@18.0 code=ordered:7,code-norm=ordered:7:40 all"
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    let dir = programs();
    dir.shell("dedup-tokenize --tokenizer code+code-norm c > tokens; sed 's/,\"others\":.*]}]}$/}/' tokens > short; sed 's/code+code-norm/code/' tokens > long; dedup-tokenize --tokenizer code+code-norm --binary c > binary").ok();
    dir.shell("dedup-index build -q -o i --tokenizer code+code-norm c")
        .ok();
    for (command, message) in [
        (
            "dedup-tokenize --tokenizer code+cod copy.c",
            "no tokenizer 'cod'; there are words, word, char:N",
        ),
        (
            "dedup-tokenize --tokenizer code+code copy.c",
            "code: named twice",
        ),
        (
            "dedup-tokenize --tokenizer word+dna copy.c",
            "make an index of its own",
        ),
        (
            "dedup-tokenize --tokenizer word+html copy.c",
            "'html' is not a tokenizer",
        ),
        (
            "dedup-blot --tokenizer code+code-norm --scheme line=ordered:3 copy.c",
            "line=ordered:3: 'line' is not a tokenizer of 'code+code-norm@18.0'",
        ),
        (
            "dedup-blot --scheme wrd=ordered:3 copy.c",
            "'wrd' is not a tokenizer of 'words@18.0/49'",
        ),
        (
            "dedup-blot --tokenizer code+code-norm --scheme ordered:3 -k 3 copy.c",
            "-k has no meaning with --scheme ordered:3",
        ),
        (
            "dedup-blot --tokenizer code+code-norm --scheme minhash:256 copy.c",
            "a print is of the tokens of one tokenizer",
        ),
        (
            "dedup-query history h --tokenizer code+code-norm copy.c",
            "a print is of the tokens of one tokenizer",
        ),
        (
            "dedup-spex -q --tokenizer code+code-norm -o s c",
            "shared chunks are of the tokens of one tokenizer",
        ),
        (
            "dedup-spex -q -o s tokens",
            "shared chunks are of the tokens of one tokenizer",
        ),
        (
            "dedup-blot short",
            "its record has the tokens of 1 tokenizers, scheme 'code+code-norm@18.0' names 2",
        ),
        (
            "dedup-tokenize short",
            "its record has the tokens of 1 tokenizers",
        ),
        (
            "dedup-index build -q -o x long",
            "its record has the tokens of 2 tokenizers, scheme 'code@18.0' names 1",
        ),
        (
            "dedup-index add i --tokenizer code copy.c",
            "scheme is 'code+code-norm@18.0 code=ordered:16,code-norm=ordered:16:40 all', expected 'code@18.0 ordered:8:40 all'",
        ),
        ("head -c 900 binary | dedup-blot", "binary"),
    ] {
        let ran = dir.shell(command);
        assert_ne!(ran.code(), 0, "{command}");
        assert!(
            ran.stderr().contains(message) || message == "binary",
            "{command}\n{}",
            ran.stderr()
        );
    }
}
