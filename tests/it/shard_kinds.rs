//! dedup-shard over files of many kinds: the same bytes as on one machine, and programs that hosts lack.

use crate::{
    shard::{ensure_equals_build, plan},
    test_dir::{TestDir, root},
    test_hosts::Hosts,
};
use std::fs;

/// Documents of many kinds, alone and in archives, and files that globs pass over.
fn mixed_corpus() -> TestDir {
    let dir = TestDir::new();
    let kinds = root().join("testdata/corpus-kinds");
    dir.shell(&format!(
        "mkdir c && cp {}/* c && rm c/README.md && cd c && mkdir sub skipped .hidden \
         && python3 -m zipfile -c sub/all.zip *.docx *.odt zstd.parquet python.csv \
         && tar cf sub/all.tar pandoc.pptx sub/all.zip && gzip -k python.csv \
         && printf 'caf\\351 au lait, une premi\\350re fois, et encore du caf\\351\\n' > latin.txt \
         && echo never read > skipped/a.txt && echo hidden text > .hidden/b.txt \
         && echo '*.log' > .gitignore && echo a log > x.log",
        kinds.display()
    ))
    .ok();
    dir
}

const READ: [&str; 3] = [
    "--skip-bad c",
    "--skip-bad --exclude skipped/ --gitignore --hidden --keep-markup --encoding windows-1252 c",
    "--skip-bad --include '*.docx' --include '*.zip' --include '*.txt' --relative --adapter '*.txt=tr a-z A-Z' c",
];

/// `dedup-index build` is called with `--skip-bad` already.
fn ensure_same(dir: &TestDir, flags: &str) {
    ensure_equals_build(dir, flags.trim_start_matches("--skip-bad "));
}

#[test]
fn tasks_of_this_machine_read_every_kind_as_build_does() {
    let dir = mixed_corpus();
    for flags in READ {
        plan(&dir, "a slots=2\nb\n", flags).ok();
        dir.shell("dedup-shard run -q r").ok();
        ensure_same(&dir, flags);
    }
}

#[test]
fn tasks_of_hosts_read_every_kind_as_build_does() {
    let dir = mixed_corpus();
    let hosts = Hosts::behind_rsh(&dir, 2);
    for flags in READ {
        plan(&dir, &hosts.list(""), flags).ok();
        hosts.run(&dir, "-q").ok();
        ensure_same(&dir, flags);
    }
}

/// The home of the user who plans means nothing elsewhere: each host keeps texts in its own.
#[test]
fn plans_do_not_name_the_cache_of_the_user() {
    let dir = mixed_corpus();
    let hosts = Hosts::behind_rsh(&dir, 1);
    let in_home = |name: &str| hosts.home(name).join(".cache/dedup");
    plan(&dir, &hosts.list(""), "--skip-bad c").ok();
    let text = String::from_utf8(dir.read("r/plan.json")).unwrap();
    assert!(!text.contains(".cache"), "{text}");
    hosts.run(&dir, "-q").ok();
    assert!(in_home("node1").is_dir());
    fs::remove_dir_all(in_home("node1")).unwrap();
    plan(&dir, &hosts.list(""), "--skip-bad --adapter-cache none c").ok();
    hosts.run(&dir, "-q").ok();
    assert!(!in_home("node1").exists());
    let kept = dir.path("kept");
    plan(
        &dir,
        &hosts.list(""),
        &format!("--skip-bad --adapter-cache {} c", kept.display()),
    )
    .ok();
    hosts.run(&dir, "-q").ok();
    assert!(kept.is_dir() && !in_home("node1").exists());
}

/// A program on the hosts that finds other programs in one directory only, on the nodes named.
fn with_path(hosts: &mut Hosts, nodes: &str, path: &str) {
    let real = assert_cmd::cargo::cargo_bin("dedup-shard");
    hosts.set_program(&format!(
        "#!/bin/sh\ncase $DEDUP_NODE in {nodes}) PATH={path}; export PATH;; esac\nexec {} \"$@\"\n",
        real.display()
    ));
}

#[test]
fn a_host_that_lacks_a_program_is_named_before_the_run() {
    let dir = TestDir::new();
    dir.shell("mkdir c bin some && echo a text > c/a.txt && echo %PDF-1.4 > c/b.pdf")
        .ok();
    // A stand-in, so that the test needs no poppler.
    dir.shell("printf '#!/bin/sh\\ncat > /dev/null; echo the text of a page\\n' > bin/pdftotext; chmod +x bin/pdftotext")
        .ok();
    let (with, without) = (dir.path("bin"), dir.path("some"));
    let mut hosts = Hosts::behind_rsh(&dir, 2);
    plan(&dir, &hosts.list(""), "c").ok();
    with_path(&mut hosts, "node2", without.to_str().unwrap());
    dir.shell(&format!(
        "sed -i 's|^exec sh|PATH={}:$PATH; exec sh|' hosts.d/rsh",
        with.display()
    ))
    .ok();
    let run = hosts.run(&dir, "-q");
    assert_eq!(run.code(), 2);
    assert_eq!(
        run.stderr(),
        "dedup-shard: run: node2: pdftotext is not installed there, and c/b.pdf needs it; install poppler-utils, or plan again without such files\n"
    );
    assert_eq!(dir.shell("ls r/map 2> /dev/null").stdout(), "");
    // If no host has it, the file is left out on all, and the run says why.
    with_path(&mut hosts, "node*", without.to_str().unwrap());
    let run = hosts.run(&dir, "");
    let stderr = run.stderr();
    for node in ["node1", "node2"] {
        let what = format!("{node}: pdftotext is not installed there, and c/b.pdf needs it");
        assert!(stderr.contains(&what), "{stderr}");
    }
    assert_eq!(run.code(), 2);
    let account = run.accounts().concat();
    assert!(account.contains("read 1 document in 1 file"), "{account}");
}

#[test]
fn this_machine_says_which_program_it_lacks() {
    let dir = TestDir::new();
    dir.shell("mkdir c && echo a text > c/a.txt && echo x > c/b.dvi")
        .ok();
    plan(
        &dir,
        "a\n",
        "--adapter '*.dvi=no-such-program' --skip-bad c",
    )
    .ok();
    let stderr = dir.shell("dedup-shard run r").stderr();
    let what = "this machine: no-such-program is not installed there, and c/b.dvi needs it";
    assert!(stderr.contains(what), "{stderr}");
}
