//! After a power loss the disk has the old state or the new one, and everything that was reported
//! as done.
//!
//! `power_loss.py` runs each writer once under strace, tracks what it syncs, and builds disks as a
//! power loss could leave them. The real programs read each disk and finish the work. These tests
//! try some disks of each writer, with `DEDUP_SOAK=1` all.

use crate::test_dir::{TestDir, root};
use serde_json::{Value, json};

/// The number of disks to try for each writer. Disks that are possible after its end are always
/// tried.
const DISKS: u32 = 20;

/// Shell function that prints the content of an index after verifying it.
const INDEX: &str = "look() { if [[ -e $1/manifest.json ]]; then dedup-index verify $1 && md5sum < $1/manifest.json; else echo none; fi; }; ";

struct Case {
    dir: TestDir,
    fields: Value,
}

impl Case {
    /// A writer, and a line of shell that prints the state of its output.
    fn new(name: &str, writer: &str, look: &str) -> Self {
        let dir = TestDir::new();
        let text = |from: usize| {
            (from..from + 120)
                .map(|n| format!("word{} ", n * n % 977))
                .collect::<String>()
        };
        (0..8).for_each(|number| dir.write(&format!("c/{number:02}.txt"), text(number * 13)));
        (0..4)
            .for_each(|number| dir.write(&format!("more/{number:02}.txt"), text(number * 17 + 5)));
        std::fs::create_dir(dir.path("r")).unwrap();
        let fields = json!({
            "name": name, "root": dir.path("r"), "writer": words(writer), "look": format!("{INDEX}{look}"), "kind": "states",
        });
        Self { dir, fields }
    }

    /// Runs a line of shell before the writer.
    fn after(self, line: &str) -> Self {
        self.dir.shell(&format!("cd r && {line}")).ok();
        self
    }

    fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.fields[field] = value.into();
        self
    }

    /// Runs the writer again on every disk; it must finish the work.
    fn rerun(self) -> Self {
        let line = self.fields["writer"]
            .as_array()
            .unwrap()
            .iter()
            .map(|word| word.as_str().unwrap())
            .collect::<Vec<_>>()
            .join(" ");
        self.with("again", line)
    }

    fn check(self) {
        if self
            .dir
            .shell("strace -f --seccomp-bpf -qq -o /dev/null true")
            .code()
            != 0
        {
            return eprintln!("no strace here, or no right to use it: skipped");
        }
        let is_soak = std::env::var_os("DEDUP_SOAK").is_some();
        let case = self.with("limit", if is_soak { 0 } else { DISKS });
        case.dir.write("case.json", case.fields.to_string());
        let ran = case.dir.shell(&format!(
            "python3 {} case.json",
            root().join("tests/it/power_loss.py").display()
        ));
        eprint!("{}", ran.stdout());
        assert_eq!(
            (ran.code(), ran.stderr().as_str()),
            (0, ""),
            "{}",
            ran.stdout()
        );
    }
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

#[test]
fn a_new_index_in_new_directories_survives() {
    Case::new(
        "build",
        "dedup-index build --dictionary -o a/b/i ../c",
        "look a/b/i",
    )
    .rerun()
    .check();
}

#[test]
fn a_changed_index_survives() {
    let old = "dedup-index build -q -o i ../c && dedup-index add -q i ../more/00.txt";
    for (name, writer) in [
        ("add", "dedup-index add i ../more"),
        ("remove", "dedup-index remove i ../c/00.txt"),
        ("sync", "dedup-index sync i ../c"),
        ("compact", "dedup-index compact i"),
    ] {
        Case::new(name, writer, "look i").after(old).rerun().check();
    }
}

#[test]
fn the_state_of_sync_survives() {
    let old = "dedup-index build -q -o i ../c";
    Case::new(
        "sync state",
        "dedup-index sync --max-remove 100% i ../more",
        "ls i.sync 2> /dev/null; :",
    )
    .after(old)
    .with("only_at_end", true)
    .check();
}

#[test]
fn merged_and_split_indexes_survive() {
    let old = "dedup-index build -q -o i ../c && dedup-index build -q -o j ../more && dedup-index split --parts 3 -o old i";
    Case::new("merge", "dedup-index merge -o a/k i j", "look a/k")
        .after(old)
        .rerun()
        .check();
    Case::new(
        "merge of parts",
        "dedup-index merge -o a/k old/000 old/001 old/002",
        "look a/k",
    )
    .after(old)
    .rerun()
    .check();
    let parts = "for part in p/0*; do look $part; done | grep -vc none";
    let parts = format!("{{ {parts} || :; }}");
    Case::new("split", "dedup-index split --parts 3 -o p i", &parts)
        .after(old)
        .with("kind", "count")
        .check();
}

#[test]
fn an_index_of_shared_chunks_survives() {
    Case::new("spex", "dedup-spex -q --memory 1M -o a/i ../c", "look a/i")
        .rerun()
        .check();
    Case::new(
        "spex --add",
        "dedup-spex -q --memory 1M --add i ../more",
        "look i",
    )
    .after("dedup-spex -q --memory 1M -o i ../c")
    .rerun()
    .check();
    Case::new(
        "spex --add that replaces",
        "dedup-spex -q --memory 1M --relative --add i ../changed",
        "look i",
    )
    .after("cp -r ../c ../changed && echo other words >> ../changed/00.txt && dedup-spex -q --relative -o i ../c")
    .rerun()
    .check();
    Case::new(
        "spex --remove",
        "dedup-spex -q --remove i ../c/00.txt",
        "look i",
    )
    .after("dedup-spex -q --memory 1M -o i ../c")
    .check();
}

/// Prints that all differ, and a line of shell that counts how many of them a history holds without
/// a gap.
fn prints(count: u64) -> (Vec<String>, String) {
    let mut state = 7_u64;
    let mut word = || {
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (state ^ state >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd)
    };
    let mut print = || {
        (0..4)
            .map(|_| format!("{:016x}", word()))
            .collect::<String>()
    };
    let lines: Vec<String> = (0..count)
        .map(|number| format!("{{\"doc\":\"p{number}\",\"print\":\"{}\"}}\n", print()))
        .collect();
    let look = "if [[ ! -e h/manifest.json ]]; then echo 0; else dedup-query history h --min-similarity 0.9 --no-add < <(sed 's/:\"p/:\"q/' ../p.jsonl) > ../answers; \
        (($? < 2)) && jq -se '[.[] | .best.doc == \"p\" + .doc[1:]] | (index(false) // length) as $n | if any(.[$n:][]; .) then error(\"a gap\") else $n end' \
        ../answers; fi";
    (lines, look.to_owned())
}

#[test]
fn acknowledged_entries_of_a_history_survive() {
    let (lines, look) = prints(60);
    let feed = |from: usize, of: usize| {
        lines[from..]
            .chunks(of)
            .map(|chunk| chunk.concat())
            .collect::<Vec<_>>()
    };
    let writer = |sync: &str| {
        format!("dedup-query history h --min-similarity 0.9 --file-entries 20 --sync-every {sync}")
    };
    let case = |name: &str, sync: &str| {
        let case = Case::new(name, &writer(sync), &look).with("kind", "count");
        case.dir.write("p.jsonl", lines.concat());
        case.with(
            "again",
            format!("{} < ../p.jsonl > /dev/null; (($? < 2))", writer("never")),
        )
        .with("status", vec![0, 1])
    };
    // Each answer waits for the sync of its entry.
    case("a new history", "each")
        .with("feed", feed(0, 7))
        .check();
    let old = format!(
        "head -n 25 ../p.jsonl | {} > /dev/null; (($? == 1))",
        writer("never")
    );
    case("a history that grows", "each")
        .after(&old)
        .with("feed", feed(25, 4))
        .check();
    // Answers do not wait for a sync, so only the end counts.
    case("a history that is synced at the end", "never")
        .with("feed", vec![lines.concat()])
        .with("acknowledges", false)
        .check();
}

#[test]
fn a_run_of_tasks_survives() {
    let hosts = "echo localhost slots=1 > hosts";
    let plan = "dedup-shard plan -o a/run --hosts hosts --parts 2 ../c";
    Case::new(
        "plan",
        plan,
        "if [[ -e a/run/plan.json ]]; then dedup-shard status a/run --missing; else echo none; fi",
    )
    .after(hosts)
    .rerun()
    .check();
    let old = format!("{hosts} && {plan}");
    Case::new("run", "dedup-shard run -q a/run", "look a/run/index")
        .after(&old)
        .rerun()
        .check();
    let gathered = format!("{old} && dedup-shard run -q a/run && rm -r a/run/index*");
    Case::new(
        "gather",
        "dedup-shard task a/run gather",
        "look a/run/index",
    )
    .after(&gathered)
    .rerun()
    .check();
    let owners = "cat a/run/index.owners 2> /dev/null || :";
    Case::new("owners", "dedup-shard task a/run gather", owners)
        .after(&gathered)
        .with("only_at_end", true)
        .check();
    let cleaned =
        "dedup-shard plan -o d --hosts hosts --clean out --dropped gone --near 30% ../c ../more";
    let look = "if [[ -e d/place/built.json ]]; then cat gone; cd out && find . -type f | sort | xargs md5sum; else echo none; fi";
    Case::new("run --clean", "dedup-shard run -q d", look)
        .after(&format!("{hosts} && {cleaned}"))
        .rerun()
        .check();
    let based = format!(
        "{hosts} && dedup-index build -q -o i ../c && dedup-shard plan -o b --hosts hosts --base i ../c ../more"
    );
    Case::new("run --base", "dedup-shard run -q b", "look i")
        .after(&based)
        .rerun()
        .check();
}

#[test]
fn files_written_with_output_options_survive() {
    let index = "dedup-index build -q -o i ../c && echo old > out && cat ../c/*.txt > two.txt && cp two.txt one.txt && printf 'one.txt\\ttwo.txt\\n' > pairs";
    for writer in [
        "dedup-blot -q -o out ../c",
        "dedup-tokenize -q --binary -o out ../c",
        "dedup-extract -q i -o out",
        "dedup-spex -q --memory 1M --filter-out out ../c",
        "dedup-query -q i ../c/00.txt --corpus ../c --html out",
    ] {
        Case::new(writer, writer, "md5sum < out")
            .after(index)
            .rerun()
            .check();
    }
    // Many files, which are synced together at the end.
    let case = |writer: &str, look: &str| {
        Case::new(writer, writer, &format!("{{ {look}; }} || :"))
            .after(index)
            .with("only_at_end", true)
            .check()
    };
    case(
        "dedup-spex -q --memory 1M -o j --plot plot ../c",
        "if [[ -e plot ]]; then md5sum < plot; fi",
    );
    case(
        "dedup-query align --pairs pairs --html a/pages",
        "cat a/pages/* 2> /dev/null | md5sum",
    );
    case(
        "dedup-query align --pairs pairs --format pan-xml -o a/xml",
        "cat a/xml/* 2> /dev/null | md5sum",
    );
    case(
        "dedup-extract report -q i --corpus ../c -o a/pages",
        "cat a/pages/* 2> /dev/null | md5sum",
    );
}

#[test]
fn a_cleaned_collection_survives() {
    let writer = "dedup-extract clean -q ../c -o a/o --dropped gone.jsonl";
    Case::new(
        writer,
        writer,
        "{ cat a/o/*.txt gone.jsonl | md5sum; } || :",
    )
    .with("only_at_end", true)
    .rerun()
    .check();
}
