//! dedup-index: every way to build gives the same correct bytes, and damage is detected.

use crate::test_dir::{TestDir, records};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::Duration,
};

/// A corpus with copies, exact duplicates, an empty document and a short one.
fn corpus() -> TestDir {
    let dir = TestDir::new();
    let mut seed = 11_u64;
    let mut number = |below: u64| {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (seed >> 33) % below
    };
    let passage: String = (0..60).map(|n| format!("copied{n} ")).collect();
    for n in 0..60 {
        let words: String = (0..number(400))
            .map(|_| format!("w{} ", number(300)))
            .collect();
        let copy = if n % 3 == 0 { passage.as_str() } else { "" };
        dir.write(&format!("c/{n:02}.txt"), format!("{words}{copy}{words}"));
    }
    dir.write("c/same-1.txt", passage.to_uppercase());
    dir.write("c/same-2.txt", passage.replace(' ', ", "));
    dir.write("c/empty-1.txt", "");
    dir.write("c/empty-2.txt", "…");
    dir.write("c/short.txt", "just three words");
    dir
}

/// The bytes of all files of an index, by name.
fn bytes_of(index: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(index)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            (
                path.file_name().unwrap().to_str().unwrap().to_owned(),
                fs::read(path).unwrap(),
            )
        })
        .collect()
}

#[test]
fn every_way_to_build_gives_the_same_bytes() {
    let dir = corpus();
    dir.run("dedup-index", &["build", "-o", "fused", "c"]).ok();
    let expected = bytes_of(&dir.path("fused"));
    assert_eq!(
        expected.keys().collect::<Vec<_>>(),
        [
            "000001.000.part",
            "000001.docs",
            "000001.sets",
            "manifest.json"
        ]
    );
    for (name, line) in [
        (
            "one-thread",
            "dedup-index build -o one-thread --threads 1 c",
        ),
        (
            "eight-threads",
            "dedup-index build -o eight-threads --threads 8 c",
        ),
        (
            "no-memory",
            "dedup-index build -o no-memory --memory 1 --tmp-dir . c",
        ),
        (
            "little-memory",
            "dedup-index build -o little-memory --memory 40K --threads 3 c",
        ),
        ("tokens", "dedup-tokenize c | dedup-index build -o tokens"),
        (
            "binary-tokens",
            "dedup-tokenize --binary c | dedup-index build -o binary-tokens",
        ),
        ("blots", "dedup-blot c | dedup-index build -o blots"),
        (
            "binary-blots",
            "dedup-blot --binary --positions c | dedup-index build -o binary-blots --memory 1",
        ),
        (
            "dumped",
            "dedup-index dump fused | dedup-index build -o dumped",
        ),
        (
            "dumped-by-lots",
            "dedup-index dump --memory 1K fused | dedup-index build -o dumped-by-lots",
        ),
    ] {
        dir.shell(&format!("set -o pipefail; {line}")).ok();
        assert!(bytes_of(&dir.path(name)) == expected, "{name}");
    }
    assert_eq!(dir.shell("ls -A | grep -v '^c$' | wc -l").ok_text(), "11\n");
}

/// The set of blots of each document, from dump.
fn dumped(dir: &TestDir, index: &str) -> BTreeMap<String, BTreeSet<String>> {
    blots(&dir.run("dedup-index", &["dump", index]).ok())
}

fn blots(stream: &[u8]) -> BTreeMap<String, BTreeSet<String>> {
    let found = records(stream)
        .into_iter()
        .filter(|record| record["doc"].is_string());
    found
        .map(|record| {
            let blots = record["blots"]
                .as_array()
                .unwrap()
                .iter()
                .map(|blot| blot.as_str().unwrap().to_owned())
                .collect();
            (record["doc"].as_str().unwrap().to_owned(), blots)
        })
        .collect()
}

#[test]
fn dump_gives_the_blots_of_the_stream() {
    let dir = corpus();
    for (number, options) in [
        "",
        "--parts 7",
        "--parts 256 --bits 16",
        "--bits 64 --parts 3",
        "--bits 33 -k 2",
        "--select winnow:4",
        "--tokenizer char:5 -k 1",
    ]
    .iter()
    .enumerate()
    {
        let stream = dir.shell(&format!(
            "dedup-blot {} c",
            options.split("--parts").next().unwrap().to_owned()
                + options.split("--parts").nth(1).map_or("", |rest| rest
                    .trim_start()
                    .split_once(' ')
                    .map_or("", |(_, more)| more))
        ));
        dir.shell(&format!(
            "dedup-index build -q -o i{number} {options} c && dedup-index verify i{number}"
        ))
        .ok();
        assert_eq!(
            dumped(&dir, &format!("i{number}")),
            blots(&stream.ok()),
            "{options}"
        );
    }
}

#[test]
fn stats_count_aliases_as_documents() {
    let dir = corpus();
    dir.run("dedup-index", &["build", "-o", "i", "c"]).ok();
    let stats: serde_json::Value =
        serde_json::from_slice(&dir.run("dedup-index", &["stats", "--json", "i"]).ok()).unwrap();
    let truth = blots(&dir.run("dedup-blot", &["c"]).ok());
    let mut df: BTreeMap<&String, u64> = BTreeMap::new();
    truth
        .values()
        .flatten()
        .for_each(|blot| *df.entry(blot).or_default() += 1);
    assert_eq!(
        (stats["documents"].as_u64(), stats["aliases"].as_u64()),
        (Some(65), Some(2))
    );
    assert_eq!(
        stats["postings"],
        truth.values().map(|blots| blots.len() as u64).sum::<u64>()
    );
    assert_eq!(stats["blots"], df.len());
    assert_eq!(
        stats["singletons"],
        df.values().filter(|&&df| df == 1).count()
    );
    assert_eq!(stats["df"]["top"][0][0], *df.values().max().unwrap());
    let table = dir.run("dedup-index", &["stats", "i"]).ok_text();
    assert!(
        table.starts_with("scheme                  words@18.0/49 ordered:8:40 all\n")
            && table.contains("documents                             65\n"),
        "{table}"
    );
}

#[test]
fn dump_of_a_blot_lists_its_documents() {
    let dir = corpus();
    dir.run("dedup-index", &["build", "-o", "i", "--parts", "5", "c"])
        .ok();
    let truth = blots(&dir.run("dedup-blot", &["c"]).ok());
    for blot in truth.values().flatten().step_by(397) {
        let expected: Vec<_> = truth
            .iter()
            .filter(|(_, blots)| blots.contains(blot))
            .map(|(doc, _)| doc.clone())
            .collect();
        let found = records(&dir.run("dedup-index", &["dump", "--blot", blot, "i"]).ok());
        assert_eq!(
            found
                .iter()
                .map(|record| record["doc"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>(),
            expected,
            "{blot}"
        );
    }
    assert_eq!(
        dir.run("dedup-index", &["dump", "--blot", "0000000000", "i"])
            .ok(),
        b""
    );
    let ran = dir.run("dedup-index", &["dump", "--blot", "12345678901", "i"]);
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (
            2,
            "dedup-index: '12345678901' is not a blot of 40 bits in hex\n"
        )
    );
}

#[test]
fn every_flip_and_every_truncation_is_reported() {
    let dir = TestDir::with(&[
        ("c/a", "some words that are copied into another text"),
        ("c/b", "some words that are copied into another text too"),
        ("c/c", "Some words that are copied into another text!"),
    ]);
    // Two segments: a document is replaced, a representative is removed, an alias is added.
    dir.run("dedup-index", &["build", "-o", "i", "c"]).ok();
    dir.shell("cp c/b c/d; echo other words > c/b; rm c/a; dedup-index sync -q i c")
        .ok();
    let truth = dumped(&dir, "i");
    let step = if std::env::var_os("DEDUP_SOAK").is_some() {
        1
    } else {
        13
    };
    for (name, bytes) in bytes_of(&dir.path("i")) {
        let path = dir.path("i").join(&name);
        for at in (0..bytes.len()).step_by(step) {
            let mut altered = bytes.clone();
            altered[at] ^= 1 << (at % 8);
            for damage in [altered, bytes[..at].to_vec()] {
                fs::write(&path, damage).unwrap();
                let ran = dir.run("dedup-index", &["verify", "i"]);
                // Other white space in JSON is not damage.
                let is_harmless =
                    name == "manifest.json" && ran.code() == 0 && dumped(&dir, "i") == truth;
                if is_harmless {
                    continue;
                }
                assert_eq!(ran.code(), 2, "{name} {at}");
                assert!(
                    ran.stderr().starts_with("dedup-index: i")
                        && !ran.stderr().contains("panicked"),
                    "{name} {at}: {}",
                    ran.stderr()
                );
                let dump = dir.run("dedup-index", &["dump", "i"]);
                assert!(
                    dump.code() == 2 || blots(&dump.0.stdout) == truth,
                    "{name} {at}"
                );
            }
        }
        fs::write(&path, bytes).unwrap();
    }
    dir.run("dedup-index", &["verify", "i"]).ok();
}

#[test]
fn build_and_stats_refuse_directories_that_are_not_an_index() {
    let dir = TestDir::with(&[("c/a", "some words"), ("full/x", "")]);
    let ran = dir.run("dedup-index", &["stats", "c"]);
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (
            2,
            "dedup-index: c: a directory of documents or of something else, not an index (it has no manifest.json); dedup-index build -o IDX c makes one\n"
        )
    );
    let ran = dir.run("dedup-index", &["build", "-o", "full", "c"]);
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (
            2,
            "dedup-index: full: holds 'x', which is not of an index; choose another name\n"
        )
    );
    dir.run("dedup-index", &["build", "-o", "there", "c"]).ok();
    let ran = dir.run("dedup-index", &["build", "-o", "there", "c"]);
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (
            2,
            "dedup-index: there: holds an index already; choose another name, or remove it first\n"
        )
    );
    let ran = dir.run_with(
        "dedup-index",
        &["build", "-o", "i", "-k", "4"],
        &dir.run("dedup-blot", &["c"]).ok(),
    );
    assert_eq!(ran.code(), 2);
    assert!(
        ran.stderr().contains(
            "scheme is 'words@18.0/49 ordered:8:40 all', expected 'words@18.0/49 ordered:4:40 all'"
        ),
        "{}",
        ran.stderr()
    );
    assert!(!dir.path("i").exists());
    dir.run("dedup-index", &["build", "-o", "empty", "-q", "/dev/null"])
        .ok();
    dir.run("dedup-index", &["verify", "empty"]).ok();
}

#[test]
fn a_killed_build_leaves_no_index_and_the_next_one_cleans_up() {
    let dir = corpus();
    dir.run("dedup-index", &["build", "-o", "whole", "c"]).ok();
    let expected = bytes_of(&dir.path("whole"));
    let (mut died, mut done) = (0, 0);
    // Instants to kill the build at, from the first system call to well after the end, which comes
    // late on a busy machine.
    let mut instant = Duration::ZERO;
    while died + done < 40 || done == 0 {
        let mut child = dir
            .command("dedup-index", &["build", "-o", "i", "c"])
            .spawn()
            .unwrap();
        std::thread::sleep(instant);
        instant += Duration::from_micros(1500) + instant / 20;
        child.kill().unwrap();
        child.wait().unwrap();
        if dir.path("i/manifest.json").exists() {
            done += 1;
            dir.run("dedup-index", &["verify", "i"]).ok();
            fs::remove_dir_all(dir.path("i")).unwrap();
        } else {
            died += 1;
        }
    }
    assert!(died > 0 && done > 0, "{died} {done}");
    if dir.path("i").exists() {
        dir.run("dedup-index", &["build", "-o", "i", "c"]).ok();
        assert!(bytes_of(&dir.path("i")) == expected);
    }
}

#[test]
fn a_second_writer_is_refused_with_the_first_ones_pid() {
    let dir = TestDir::with(&[("c/a", "some words")]);
    let ran = dir.shell(
        "mkfifo p; dedup-index build -o i p & first=$!; exec 3> p
         until [ -s i/lock ]; do :; done
         dedup-index build -o i c 2>&1 | sed \"s/process $first /process FIRST /\"
         echo some words >&3; exec 3>&-; wait $first && dedup-index verify i && ls i",
    );
    assert_eq!(
        ran.stdout(),
        "dedup-index: i: process FIRST is writing this index; wait for it to end\n000001.000.part\n000001.docs\n000001.sets\nmanifest.json\n"
    );
}

#[test]
fn a_full_disk_is_an_error_and_leaves_nothing() {
    let dir = corpus();
    let mounted = dir.shell("mkdir small && mount -t tmpfs -o size=24k none small 2>/dev/null");
    if mounted.code() != 0 {
        return eprintln!("no right to mount a small disk here: skipped");
    }
    let ran = dir.run("dedup-index", &["build", "-o", "small/i", "c"]);
    let left = dir.shell("ls -A small");
    dir.shell("umount small").ok();
    assert_eq!(ran.code(), 2);
    assert!(
        ran.stderr().starts_with("dedup-index: small/i/")
            && ran.stderr().contains("No space left on device"),
        "{}",
        ran.stderr()
    );
    assert_eq!(left.ok_text(), "");
}
