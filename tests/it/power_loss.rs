//! The power fails while a writer runs: what was there before is there, or what is to be, and what was reported as done.
//!
//! `power_loss.py` runs each writer once under strace, follows what it syncs, and builds disks as a power loss could leave them; the
//! real programs look at each of them and finish the work. Here some disks of each writer are tried, with `DEDUP_SOAK=1` all.

use crate::work::{Work, root};
use serde_json::{Value, json};

/// Disks that are tried of each writer, but for those that are possible when it has ended: these are all tried.
const DISKS: u32 = 20;

/// What an index holds, once it was found whole.
const INDEX: &str = "look() { if [[ -e $1/manifest.json ]]; then dedup-index verify $1 && md5sum < $1/manifest.json; else echo none; fi; }; ";

struct Case {
    work: Work,
    fields: Value,
}

impl Case {
    /// A writer, and a shell line that prints what it writes.
    fn new(name: &str, writer: &str, look: &str) -> Self {
        let work = Work::new();
        let text = |from: usize| {
            (from..from + 120)
                .map(|n| format!("word{} ", n * n % 977))
                .collect::<String>()
        };
        (0..8).for_each(|number| work.write(&format!("c/{number:02}.txt"), text(number * 13)));
        (0..4)
            .for_each(|number| work.write(&format!("more/{number:02}.txt"), text(number * 17 + 5)));
        std::fs::create_dir(work.path("r")).unwrap();
        let fields = json!({
            "name": name, "root": work.path("r"), "writer": words(writer), "look": format!("{INDEX}{look}"), "kind": "states",
        });
        Self { work, fields }
    }

    /// What is there before the writer comes.
    fn after(self, line: &str) -> Self {
        self.work.shell(&format!("cd r && {line}")).ok();
        self
    }

    fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.fields[field] = value.into();
        self
    }

    /// The writer, or another line, finishes the work on every disk.
    fn and_again(self) -> Self {
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
            .work
            .shell("strace -f --seccomp-bpf -qq -o /dev/null true")
            .code()
            != 0
        {
            return eprintln!("no strace here, or no right to use it: skipped");
        }
        let is_soak = std::env::var_os("DEDUP_SOAK").is_some();
        let case = self.with("limit", if is_soak { 0 } else { DISKS });
        case.work.write("case.json", case.fields.to_string());
        let ran = case.work.shell(&format!(
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
fn a_new_index_in_new_directories_lasts() {
    Case::new(
        "build",
        "dedup-index build --dictionary -o a/b/i ../c",
        "look a/b/i",
    )
    .and_again()
    .check();
}

#[test]
fn an_index_lasts_whatever_is_done_to_it() {
    let old = "dedup-index build -q -o i ../c && dedup-index add -q i ../more/00.txt";
    for (name, writer) in [
        ("add", "dedup-index add i ../more"),
        ("remove", "dedup-index remove i ../c/00.txt"),
        ("sync", "dedup-index sync i ../c"),
        ("compact", "dedup-index compact i"),
    ] {
        Case::new(name, writer, "look i")
            .after(old)
            .and_again()
            .check();
    }
}

#[test]
fn what_sync_knows_of_files_lasts() {
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
fn indexes_that_are_joined_or_cut_last() {
    let old = "dedup-index build -q -o i ../c && dedup-index build -q -o j ../more && dedup-index split --parts 3 -o old i";
    Case::new("merge", "dedup-index merge -o a/k i j", "look a/k")
        .after(old)
        .and_again()
        .check();
    Case::new(
        "merge of parts",
        "dedup-index merge -o a/k old/000 old/001 old/002",
        "look a/k",
    )
    .after(old)
    .and_again()
    .check();
    let parts = "for part in p/0*; do look $part; done | grep -vc none";
    let parts = format!("{{ {parts} || :; }}");
    Case::new("split", "dedup-index split --parts 3 -o p i", &parts)
        .after(old)
        .with("kind", "count")
        .check();
}

#[test]
fn an_index_of_shared_chunks_lasts() {
    Case::new("spex", "dedup-spex -q --memory 1M -o a/i ../c", "look a/i")
        .and_again()
        .check();
    Case::new(
        "spex --add",
        "dedup-spex -q --memory 1M --add i ../more",
        "look i",
    )
    .after("dedup-spex -q --memory 1M -o i ../c")
    .and_again()
    .check();
}

/// Prints of which no two are alike, and a line that counts how many of them a history holds, one after the other.
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
fn a_history_holds_what_was_acknowledged() {
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
        case.work.write("p.jsonl", lines.concat());
        case.with(
            "again",
            format!("{} < ../p.jsonl > /dev/null; (($? < 2))", writer("never")),
        )
        .with("status", vec![0, 1])
    };
    // Answers come when what they answer is on disk.
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
    // Answers come at once: what counts is the end.
    case("a history that is synced at the end", "never")
        .with("feed", vec![lines.concat()])
        .with("acknowledges", false)
        .check();
}

#[test]
fn a_run_of_tasks_lasts() {
    let hosts = "echo localhost slots=1 > hosts";
    let plan = "dedup-shard plan -o a/run --hosts hosts --parts 2 ../c";
    Case::new(
        "plan",
        plan,
        "if [[ -e a/run/plan.json ]]; then dedup-shard status a/run --missing; else echo none; fi",
    )
    .after(hosts)
    .and_again()
    .check();
    let old = format!("{hosts} && {plan}");
    Case::new("run", "dedup-shard run -q a/run", "look a/run/index")
        .after(&old)
        .and_again()
        .check();
    let gathered = format!("{old} && dedup-shard run -q a/run && rm -r a/run/index*");
    Case::new(
        "gather",
        "dedup-shard task a/run gather",
        "look a/run/index",
    )
    .after(&gathered)
    .and_again()
    .check();
    let owners = "cat a/run/index.owners 2> /dev/null || :";
    Case::new("owners", "dedup-shard task a/run gather", owners)
        .after(&gathered)
        .with("only_at_end", true)
        .check();
    let based = format!(
        "{hosts} && dedup-index build -q -o i ../c && dedup-shard plan -o b --hosts hosts --base i ../c ../more"
    );
    Case::new("run --base", "dedup-shard run -q b", "look i")
        .after(&based)
        .and_again()
        .check();
}

#[test]
fn a_file_that_is_written_with_an_option_lasts() {
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
            .and_again()
            .check();
    }
    // Many files, which are synced together when all are there.
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
