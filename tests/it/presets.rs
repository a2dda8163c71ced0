//! Presets: settings for a kind of text, which an index keeps; and text that is ignored because it is boilerplate.

use crate::test_dir::TestDir;

fn words(name: &str, count: usize) -> String {
    let words: Vec<String> = (0..count).map(|word| format!("{name}{word}")).collect();
    words.join(" ")
}

/// 110 pages with the same navigation, of which the last ten are copies of the first ten.
fn pages() -> TestDir {
    let lines: String = (0..110)
        .map(|page| {
            let text = format!(
                "{} {}",
                words("navigation", 40),
                words(&format!("p{}w", page % 100), 60)
            );
            let edited = if page < 100 {
                text
            } else {
                text.replace("w30 ", "changed ")
            };
            format!("{{\"id\":\"{page:03}\",\"text\":\"{edited}\"}}\n")
        })
        .collect();
    let dir = TestDir::new();
    dir.write("pages.jsonl", lines);
    dir
}

#[test]
fn boilerplate_is_ignored_counted_and_listed() {
    let dir = pages();
    dir.shell("dedup-index build -q -o i pages.jsonl").ok();
    let ran = dir.run("dedup-extract", &["i", "--format", "tsv"]);
    let pairs: Vec<String> = ran
        .stdout()
        .lines()
        .skip(1)
        .map(|line| line.split('\t').take(2).collect::<Vec<_>>().join(" "))
        .collect();
    let copies: Vec<String> = (0..10)
        .map(|page| format!("{page:03} {:03}", 100 + page))
        .collect();
    assert_eq!(pairs, copies);
    // 33 windows lie within the navigation; the seven at its end that lead into a page are shared by a page and its copy only.
    assert!(
        ran.stderr().contains("ignored as boilerplate: 33 of "),
        "{}",
        ran.stderr()
    );
    assert_eq!(dir.run("dedup-extract", &["i", "-q"]).stderr(), "");
    assert_eq!(
        dir.run("dedup-extract", &["blots", "--boilerplate", "i"])
            .ok_text(),
        "{\"df\":110,\"blots\":33,\"docs\":[\"000\",\"001\",\"002\",\"003\",\"004\"]}\n"
    );
    let all = dir.run("dedup-extract", &["i", "--max-df", "none"]);
    assert_eq!(
        (all.stdout().lines().count(), all.stderr().as_str()),
        (110 * 109 / 2, "")
    );
    for threads in ["1", "2", "7"] {
        assert_eq!(
            dir.run(
                "dedup-extract",
                &["i", "--format", "tsv", "--threads", threads]
            )
            .stdout(),
            ran.stdout()
        );
    }
    let refused = dir.run("dedup-extract", &["table", "i", "--max-df", "auto"]);
    assert_eq!(
        (refused.code(), refused.stderr().as_str()),
        (
            2,
            "dedup-extract: --max-df auto is for pairs, clusters, graph and report; give a number\n"
        )
    );
}

#[test]
fn an_index_keeps_its_preset() {
    let dir = pages();
    dir.shell(
        "dedup-index build -q -o web --preset web pages.jsonl
         dedup-index build -q -o plain -k 5 pages.jsonl
         dedup-tokenize -q --preset web pages.jsonl | dedup-blot -q --preset web | dedup-index build -q --preset web -o piped
         dedup-index split -q web -o parts --parts 3 && dedup-index merge -q -o joined parts/*
         dedup-index build -q -o text --preset text pages.jsonl && dedup-index build -q -o default pages.jsonl",
    )
    .ok();
    for same in ["piped", "joined"] {
        dir.shell(&format!("diff -r web {same}")).ok();
    }
    dir.shell("diff -r text default").ok();
    let stats = dir
        .run("dedup-index", &["stats", "--json", "web"])
        .ok_text();
    assert!(stats.contains("\"preset\":\"web\""), "{stats}");
    let pairs = |arguments: &[&str]| dir.run("dedup-extract", arguments).ok_text();
    // Pages with one word of 60 replaced: five of 96 windows are others, without the navigation more.
    let of_preset = pairs(&["web", "-q"]);
    assert_eq!(
        of_preset,
        pairs(&["plain", "-q", "--score", "jaccard", "--threshold", "80%"])
    );
    assert_eq!(of_preset.lines().count(), 10);
    assert_eq!(
        pairs(&["web", "-q", "--threshold", "0.1"]),
        pairs(&["plain", "-q", "--threshold", "0.1"])
    );
    dir.shell("dedup-index remove -q web 005 && dedup-index compact -q web")
        .ok();
    assert!(
        dir.run("dedup-index", &["stats", "web"])
            .ok_text()
            .contains("preset                  web\n")
    );
}

#[test]
fn documents_are_compared_by_the_preset() {
    let dir = pages();
    let pairs = |preset: &str| {
        dir.run("dedup-extract", &["pages.jsonl", "-q", "--preset", preset])
            .ok_text()
    };
    assert!(pairs("essays").lines().count() > 9);
    assert_ne!(pairs("essays"), pairs("text"));
    let ran = dir.run(
        "dedup-index",
        &["build", "-o", "i", "--preset", "books", "pages.jsonl"],
    );
    assert_eq!(ran.code(), 2);
    assert!(
        ran.stderr()
            .contains("there is no preset 'books'; there are text, essays, web, ocr, code, dna"),
        "{}",
        ran.stderr()
    );
    let ran = dir.run(
        "dedup-spex",
        &["--preset", "essays", "-o", "s", "pages.jsonl"],
    );
    assert!(
        ran.stderr().contains("use dedup-index build"),
        "{}",
        ran.stderr()
    );
    dir.shell("dedup-index build -q -o i pages.jsonl").ok();
    let ran = dir.run("dedup-extract", &["i", "--preset", "web"]);
    assert!(
        ran.stderr()
            .contains("--preset is for documents; i is an index"),
        "{}",
        ran.stderr()
    );
}

#[test]
fn a_run_on_many_hosts_keeps_the_preset() {
    let dir = pages();
    dir.shell(
        "dedup-index build -q -o whole --preset web pages.jsonl
         echo 'localhost slots=2' >hosts; dedup-shard plan -q -o run --parts 1 --hosts hosts --preset web pages.jsonl
         dedup-shard run -q run --engine local && dedup-shard gather -q run -o gathered && diff -r whole gathered -x owners.json",
    )
    .ok();
}
