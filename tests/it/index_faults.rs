//! Writers of an index that are killed, and disks, directories and limits that fail them: the index
//! is complete, and either the old or the new one.
//!
//! With `DEDUP_SOAK=1` writers are killed at 200 instants each, and at every system call they make.

use crate::test_dir::{RunResult, TestDir};
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    time::{Duration, Instant},
};

fn is_soak() -> bool {
    std::env::var_os("DEDUP_SOAK").is_some()
}

/// Some documents, an index of them with several segments, and input that changes it.
fn fixture() -> TestDir {
    let dir = TestDir::new();
    let text = |from: usize, count: usize| {
        (from..from + count)
            .map(|n| format!("word{} ", n * n % 977))
            .collect::<String>()
    };
    for number in 0..40 {
        dir.write(&format!("c/{number:02}.txt"), text(number * 13, 300));
    }
    for number in 0..15 {
        dir.write(&format!("more/{number:02}.txt"), text(number * 17 + 5, 300));
    }
    dir.write("more/same.txt", text(13, 300));
    dir.shell("dedup-index build --dictionary -o old c && dedup-index remove -q old c/01.txt c/02.txt && dedup-index add -q old c/02.txt c/05.txt")
        .ok();
    dir.shell("dedup-spex -q -o shared c").ok();
    dir.shell("cp -r c s; cp more/0* s; rm s/03.txt; echo changed > s/04.txt")
        .ok();
    dir
}

/// A writer, and the index that it changes, or none if it creates one.
const WRITERS: [(&str, Option<&str>); 8] = [
    ("dedup-index build --dictionary -o i c more", None),
    ("dedup-index add i more", Some("old")),
    (
        "dedup-index sync i s --relative --max-remove 100%",
        Some("old"),
    ),
    ("dedup-index compact i", Some("old")),
    ("dedup-index merge -o i old old", None),
    ("dedup-spex -q -o i c", None),
    ("dedup-spex -q --add i more", Some("shared")),
    (
        "dedup-spex -q --skip-bad --remove i c/01.txt c/02.txt",
        Some("shared"),
    ),
];

/// A program and its arguments.
fn parts(writer: &str) -> (&str, Vec<&str>) {
    let (tool, arguments) = writer.split_once(' ').unwrap();
    (tool, arguments.split(' ').collect())
}

fn run(dir: &TestDir, writer: &str) -> RunResult {
    let (tool, arguments) = parts(writer);
    dir.run(tool, &arguments)
}

/// Restores the index to the state before the writer.
fn reset(dir: &TestDir, old: Option<&str>) {
    let _ = fs::remove_dir_all(dir.path("i"));
    let _ = fs::remove_file(dir.path("i.sync"));
    if let Some(old) = old {
        dir.shell(&format!("cp -r {old} i")).ok();
    }
}

/// The content of the index, which must be undamaged; none if there is no index.
fn state(dir: &TestDir) -> Option<Vec<u8>> {
    if !dir.path("i/manifest.json").exists() {
        return None;
    }
    dir.run("dedup-index", &["verify", "i"]).ok();
    let mut dumped = dir.run("dedup-index", &["dump", "i"]).ok();
    if fs::read_to_string(dir.path("i/manifest.json"))
        .unwrap()
        .contains("\"dictionary\": true")
    {
        dumped.extend(dir.run("dedup-index", &["dump", "--dictionary", "i"]).ok());
    }
    Some(dumped)
}

/// The content of the index before and after an undisturbed writer.
fn before_and_after(
    dir: &TestDir,
    writer: &str,
    old: Option<&str>,
) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    reset(dir, old);
    let before = state(dir);
    assert_eq!(run(dir, writer).code(), 0, "{writer}");
    (before, state(dir))
}

/// Files that the manifest does not name.
fn leftovers(dir: &TestDir) -> BTreeSet<String> {
    let manifest = fs::read_to_string(dir.path("i/manifest.json")).unwrap();
    let names = fs::read_dir(dir.path("i"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name != "manifest.json" && !manifest.contains(name.as_str()))
        .collect()
}

/// Checks that the index is in the old or the new state, and that the next writer completes and
/// removes leftover files.
fn ensure_safe(
    dir: &TestDir,
    writer: &str,
    before: &Option<Vec<u8>>,
    after: &Option<Vec<u8>>,
    when: &str,
) -> bool {
    let now = state(dir);
    assert!(now == *before || now == *after, "{writer}, {when}");
    let is_done = now == *after;
    if now.is_some() && before.is_none() {
        assert_eq!(
            leftovers(dir)
                .into_iter()
                .filter(|name| name != "lock")
                .count(),
            0
        );
        return is_done;
    }
    let again = run(dir, writer);
    assert_eq!(
        (again.code(), again.stderr().as_str()),
        (0, ""),
        "{writer}, again, {when}"
    );
    assert_eq!(state(dir), *after, "{writer}, again, {when}");
    assert_eq!(leftovers(dir), BTreeSet::new(), "{writer}, {when}");
    is_done
}

#[test]
fn a_killed_writer_leaves_the_old_index_or_the_new_one() {
    let dir = fixture();
    let instants = if is_soak() { 200 } else { 12 };
    for (writer, old) in WRITERS {
        reset(&dir, old);
        let before = state(&dir);
        let (tool, arguments) = parts(writer);
        let started = Instant::now();
        assert_eq!(run(&dir, writer).code(), 0, "{writer}");
        let took = started.elapsed();
        let after = state(&dir);
        let mut done = 0;
        for instant in 0..instants {
            reset(&dir, old);
            let mut child = dir
                .command(tool, &arguments)
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(
                took.mul_f64(1.3 * f64::from(instant) / f64::from(instants))
                    .max(Duration::from_micros(50)),
            );
            child.kill().unwrap();
            child.wait().unwrap();
            done += u32::from(ensure_safe(
                &dir,
                writer,
                &before,
                &after,
                &format!("killed at instant {instant} of {instants}"),
            ));
        }
        eprintln!("{writer}: of {instants}, {done} had committed");
    }
}

/// Runs a writer under strace, which injects a fault at the Nth call of some kinds.
fn inject(dir: &TestDir, writer: &str, calls: &str, what: &str, number: u32) -> RunResult {
    dir.shell(&format!("strace -f -qq -o /dev/null -e trace={calls} -e inject={calls}:{what}:when={number} {writer}"))
}

fn can_trace(dir: &TestDir) -> bool {
    let can = dir.shell("strace -f -qq -o /dev/null true").code() == 0;
    if !can {
        eprintln!("no strace here, or no right to use it: skipped");
    }
    can
}

/// The kinds of system calls that change the disk.
const CALLS: &str =
    "write,pwrite64,fsync,rename,renameat,renameat2,unlink,unlinkat,ftruncate,openat,mkdir";

#[test]
fn a_writer_killed_at_a_system_call_leaves_the_old_index_or_the_new_one() {
    let dir = fixture();
    if !can_trace(&dir) {
        return;
    }
    for (writer, old) in WRITERS {
        let (before, after) = before_and_after(&dir, writer, old);
        let step = if is_soak() { 1 } else { 23 };
        for number in (1..).step_by(step) {
            reset(&dir, old);
            let ran = inject(&dir, writer, CALLS, "signal=KILL", number);
            let died = ran.code() != 0;
            ensure_safe(
                &dir,
                writer,
                &before,
                &after,
                &format!("killed at call {number}"),
            );
            if !died {
                break;
            }
        }
    }
}

#[test]
fn a_failed_system_call_is_an_error_and_leaves_the_old_index() {
    let dir = fixture();
    if !can_trace(&dir) {
        return;
    }
    for (writer, old) in WRITERS {
        let (before, after) = before_and_after(&dir, writer, old);
        for (calls, error) in [("write", "ENOSPC"), ("fsync", "EIO"), ("rename", "EIO")] {
            for number in (1..).step_by(if is_soak() { 1 } else { 13 }) {
                reset(&dir, old);
                let ran = inject(&dir, writer, calls, &format!("error={error}"), number);
                let now = state(&dir);
                assert!(now == before || now == after, "{writer}: {calls} {number}");
                assert!(
                    !ran.stderr().contains("panicked"),
                    "{writer}: {calls} {number}: {}",
                    ran.stderr()
                );
                if ran.code() == 0 && now == after {
                    break;
                }
                assert_eq!(
                    ran.code(),
                    2,
                    "{writer}: {calls} {number}: {}",
                    ran.stderr()
                );
            }
        }
    }
}

#[test]
fn exceeded_limits_are_errors_and_leave_the_old_index() {
    let dir = fixture();
    reset(&dir, Some("old"));
    let before = state(&dir);
    for (limit, writer, message) in [
        // A write that returns short and then fails.
        ("ulimit -f 2", "add i more", "File too large"),
        ("ulimit -f 2", "compact i", "File too large"),
        ("ulimit -n 4", "add i more", "Too many open files"),
        ("ulimit -n 4", "compact i", "Too many open files"),
    ] {
        let ran = dir.shell(&format!("{limit}; exec dedup-index {writer}"));
        assert_eq!(ran.code(), 2, "{limit}: {writer}: {}", ran.stderr());
        assert!(
            ran.stderr().starts_with("dedup-index: i") && ran.stderr().contains(message),
            "{limit}: {}",
            ran.stderr()
        );
        assert_eq!(state(&dir), before, "{limit}: {writer}");
        assert_eq!(leftovers(&dir), BTreeSet::new(), "{limit}: {writer}");
    }
}

/// Mounts a file system during a test, where that is allowed.
fn with_mount(dir: &TestDir, mount: &str, test: impl FnOnce()) {
    if dir
        .shell(&format!("mkdir -p disk && {mount} 2> /dev/null"))
        .code()
        != 0
    {
        return eprintln!("no right to mount here: skipped");
    }
    test();
    dir.shell("umount disk").ok();
}

#[test]
fn a_full_disk_leaves_the_old_index() {
    let dir = fixture();
    with_mount(&dir, "mount -t tmpfs -o size=320k none disk", || {
        dir.shell("cp -r old disk/i").ok();
        let before = bytes(&dir.path("disk/i"));
        // Some room is left, or none, not even for the lock.
        let writers = [
            "add disk/i more",
            "compact disk/i",
            "sync disk/i s --relative --max-remove 100%",
        ];
        for (ballast, writer) in ["250K", "400K"]
            .iter()
            .flat_map(|ballast| writers.map(|writer| (ballast, writer)))
        {
            dir.shell(&format!("head -c {ballast} /dev/zero > disk/ballast; :"));
            let ran = dir.run("dedup-index", &writer.split(' ').collect::<Vec<_>>());
            assert!(
                ran.stderr().starts_with("dedup-index: disk/i")
                    && ran.stderr().contains("No space left on device"),
                "{}",
                ran.stderr()
            );
            assert_eq!(
                (ran.code(), bytes(&dir.path("disk/i")) == before),
                (2, true),
                "{writer}"
            );
        }
    });
}

#[test]
fn only_writers_fail_in_a_read_only_directory() {
    let dir = fixture();
    with_mount(
        &dir,
        "mount --bind old disk && mount -o remount,ro,bind disk",
        || {
            for writer in [
                "add disk more",
                "remove disk c/00.txt",
                "compact disk",
                "sync disk s",
            ] {
                let ran = dir.run("dedup-index", &writer.split(' ').collect::<Vec<_>>());
                let expected = "dedup-index: disk/lock: Read-only file system (os error 30)\n";
                assert_eq!(
                    (ran.code(), ran.stderr().as_str()),
                    (2, expected),
                    "{writer}"
                );
            }
            dir.shell("dedup-index verify disk && dedup-index stats disk > /dev/null")
                .ok();
        },
    );
}

fn bytes(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            (
                path.file_name().unwrap().to_str().unwrap().to_owned(),
                fs::read(path).unwrap(),
            )
        })
        .collect();
    all.sort();
    all
}

/// A reader that has an index open, or opens it while writers commit, sees one state or the other,
/// never a mixture.
#[test]
fn readers_keep_their_snapshot() {
    let dir = fixture();
    reset(&dir, Some("old"));
    let truth = |dir: &TestDir| dir.run("dedup-index", &["dump", "i"]).ok();
    let one = truth(&dir);
    // Its output is not read yet, so it stays in the middle of reading while the index is changed
    // and compacted.
    let script = "mkfifo p; dedup-index dump i > p & exec 3< p
         dedup-index add -q i more && dedup-index compact i && dedup-index remove -q i more/00.txt && dedup-index compact i
         cat <&3 > seen; wait $! && dedup-index dump i > now";
    dir.shell(script).ok();
    assert!(dir.read("seen") == one && dir.read("now") != one);
    let writer = "for n in 1 2 3 4 5 6; do dedup-index add -q i more/00.txt; dedup-index compact i; dedup-index remove -q i more/00.txt; dedup-index compact i; done; touch done";
    let readers = "until [ -e done ]; do dedup-index verify i || echo bad >> bad; dedup-index dump i | jq -c 'select(.end)' >> seen-ends; done";
    let ran = dir
        .shell(&format!("rm -f seen-ends; ({readers}) & ({readers}) & {writer}; wait; cat bad 2> /dev/null; sort -u seen-ends | wc -l"));
    assert_eq!(ran.ok_text(), "2\n");
}
