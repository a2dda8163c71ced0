//! An index that changes always equals a new index of the documents it holds.

use crate::test_dir::TestDir;
use dedup::base::ids::{ContentNo, DocNo, SetNo};
use dedup::{
    base::{error::Problem, files::TempDir, parallel::Limits},
    commands::{
        self, BlotOptions, BuildOptions, ChangeOptions, Extract, ExtractOptions, LeaveOut,
        MaxRemove, Observer, PartFiles, RowFormat, RunsOptions, Settings, StepOptions, SyncOptions,
    },
    index::{Index, Manifest, Resources, RowLocation, SegmentFiles, View, sweep, verify},
    report::Format,
    similar::Score,
    text::{corpus, stream::Form},
};
use proptest::prelude::*;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

pub struct Silent;

impl Observer for Silent {
    fn problem(&mut self, _: &Problem) {}
    fn progress(&mut self, _: u64, _: u64) {}
}

#[derive(Debug, Clone)]
pub enum Step {
    /// Ids and texts.
    Add(Vec<(u8, u8)>),
    Remove(Vec<u8>),
    /// The first segment to compact, in hundredths of the number of segments.
    Compact(u8),
    Merge,
    SplitAndMerge(u32),
    /// Documents that disappear from the synced directory, then ids and texts that appear.
    Sync(Vec<u8>, Vec<(u8, u8)>),
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let add = prop::collection::vec((0_u8..14, 0_u8..12), 0..6).prop_map(Step::Add);
    let remove = prop::collection::vec(0_u8..14, 0..5).prop_map(Step::Remove);
    let sync = (
        prop::collection::vec(0_u8..14, 0..5),
        prop::collection::vec((0_u8..14, 0_u8..12), 0..6),
    );
    let sync = sync.prop_map(|(gone, come)| Step::Sync(gone, come));
    let other = prop_oneof![
        (0_u8..100).prop_map(Step::Compact),
        Just(Step::Merge),
        (1_u32..6).prop_map(Step::SplitAndMerge)
    ];
    prop::collection::vec(
        prop_oneof![5 => add, 4 => remove, 2 => other, 3 => sync],
        1..14,
    )
}

/// A few texts that share passages; some differ only in commas, some are too short to have a blot.
pub fn text(number: u8) -> String {
    let words = |from: u32, count: u32| {
        (from..from + count)
            .map(|n| format!("w{n}"))
            .collect::<Vec<_>>()
    };
    let number = u32::from(number);
    let separator = if number % 4 == 3 { ", " } else { " " };
    let all = match number / 2 {
        0 => words(0, 2 * number),
        1 => Vec::new(),
        pair => [words(3 * pair, 9), words(100 * pair, 5 * pair), words(7, 8)].concat(),
    };
    all.join(separator)
}

pub fn resources(memory_bytes: u64) -> Resources {
    Resources {
        memory_bytes,
        threads: 2,
        tmp_dir: TempDir(None),
    }
}

pub fn settings(paths: Vec<PathBuf>) -> Settings {
    Settings {
        form: Form::Binary,
        limits: Limits::new(2, 1 << 16),
        corpus: corpus::Options::of_files(paths),
    }
}

fn blots() -> BlotOptions {
    BlotOptions {
        k: Some(4),
        bits: Some(24),
        ..BlotOptions::default()
    }
}

pub fn change() -> ChangeOptions {
    ChangeOptions {
        blots: BlotOptions::default(),
        resources: resources(1 << 20),
        compacts: false,
    }
}

pub fn write_documents(path: &Path, documents: impl Iterator<Item = (String, String)>) {
    let lines: Vec<_> = documents
        .map(|(id, text)| format!("{{\"id\":\"{id}\",\"text\":\"{text}\"}}\n"))
        .collect();
    fs::write(path, lines.concat()).unwrap();
}

/// Builds an index of some documents at once.
pub fn build(dir: &TestDir, name: &str, documents: &[(String, String)]) -> PathBuf {
    let (file, directory) = (dir.path(&format!("{name}.jsonl")), dir.path(name));
    write_documents(&file, documents.iter().cloned());
    let _ = fs::remove_dir_all(&directory);
    let options = BuildOptions {
        blots: blots(),
        parts: 3,
        dictionary: true,
        resources: resources(1),
    };
    commands::build(&options, &settings(vec![file]), &directory, &mut Silent).unwrap();
    directory
}

pub fn dump(index: &Index) -> Vec<u8> {
    let mut out = Vec::new();
    commands::dump(index, 1 << 10, &mut out).unwrap();
    commands::dump_dictionary(index, &mut out).unwrap();
    out
}

/// The files of an index by their suffixes, without the manifest.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let names = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files = names.filter(|name| !name.contains("json")).map(|name| {
        (
            name[6..].to_owned(),
            fs::read(directory.join(&name)).unwrap(),
        )
    });
    files.collect()
}

pub type Model = BTreeMap<String, String>;

pub fn id(number: u8) -> String {
    format!("doc{number}")
}

/// Makes a directory hold these documents, half of them in their own files and half as lines.
/// Leaves unchanged files alone.
fn write_tree(directory: &Path, model: &Model) {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for (id, text) in model {
        let number: usize = id["doc".len()..].parse().unwrap();
        if number.is_multiple_of(2) {
            files.insert(id.clone(), text.clone());
        } else {
            *files.entry(format!("{}.jsonl", number % 3)).or_default() +=
                &format!("{{\"id\":\"{id}\",\"text\":\"{text}\"}}\n");
        }
    }
    fs::create_dir_all(directory).unwrap();
    let there = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let gone = there.filter(|entry| !files.contains_key(entry.file_name().to_str().unwrap()));
    gone.for_each(|entry| fs::remove_file(entry.path()).unwrap());
    for (name, content) in files {
        let path = directory.join(name);
        if fs::read(&path).ok().as_deref() != Some(content.as_bytes()) {
            fs::write(path, content).unwrap();
        }
    }
}

/// Syncs an index with a directory of its documents, after some disappeared and others appeared.
fn sync_directory(dir: &TestDir, index: &Path, model: &mut Model, gone: &[u8], come: &[(u8, u8)]) {
    let before = model.clone();
    gone.iter()
        .for_each(|&number| drop(model.remove(&id(number))));
    model.extend(come.iter().map(|&(number, of)| (id(number), text(of))));
    let tree = dir.path("tree");
    write_tree(&tree, model);
    let mut settings = settings(vec![tree]);
    settings.corpus.relative = true;
    let options = SyncOptions {
        change: change(),
        checksum: false,
        dry_run: false,
        max_remove: MaxRemove::Percent(100.0),
    };
    let changed = commands::sync(&options, &settings, index, &mut Silent).unwrap();
    let added = model
        .iter()
        .filter(|(id, text)| before.get(*id) != Some(text))
        .count();
    let removed = before.keys().filter(|id| !model.contains_key(*id)).count();
    assert_eq!(
        (
            changed.added as usize,
            changed.removed as usize,
            changed.problems
        ),
        (added, removed, 0)
    );
}

pub fn apply_step(dir: &TestDir, index: &mut PathBuf, model: &mut Model, step: &Step) {
    match step {
        Step::Add(documents) => {
            // Of several documents with one id the first is kept.
            let mut added = Model::new();
            for &(number, of) in documents {
                added.entry(id(number)).or_insert_with(|| text(of));
            }
            let file = dir.path("add.jsonl");
            write_documents(
                &file,
                documents.iter().map(|&(number, of)| (id(number), text(of))),
            );
            let known = added
                .iter()
                .filter(|(id, text)| model.get(*id) == Some(text))
                .count();
            let changed =
                commands::add(&change(), &settings(vec![file]), index, &mut Silent).unwrap();
            assert_eq!(
                (changed.added as usize, changed.known as usize),
                (added.len() - known, known)
            );
            model.extend(added);
        }
        Step::Remove(numbers) => {
            let there: Vec<_> = numbers
                .iter()
                .filter_map(|&number| model.remove(&id(number)))
                .collect();
            let changed = commands::remove(
                &change(),
                numbers.iter().map(|&number| Ok(id(number))),
                index,
                &mut Silent,
            )
            .unwrap();
            assert_eq!(changed.removed as usize, there.len());
        }
        Step::Compact(share) => {
            let open = Index::open(index).unwrap();
            let from = open.segments.len() * usize::from(*share) / 100;
            let manifest = open
                .compacted(from..open.segments.len(), &resources(u64::from(*share)))
                .unwrap();
            manifest.commit(index).unwrap();
            sweep(index, Some(&manifest)).unwrap();
        }
        Step::Merge => {
            // Merges with another index that holds a document of this one under another name, one
            // under the same name, and a new one.
            let same = model
                .first_key_value()
                .map(|(id, text)| (id.clone(), text.clone()));
            let other: Vec<_> = [
                ("doc90".to_owned(), text(11)),
                ("doc91".to_owned(), text(9)),
            ]
            .into_iter()
            .chain(same)
            .collect();
            let (other, target) = (
                build(dir, "other", &other),
                dir.path(&format!("{}m", index.display())),
            );
            let summary = commands::merge(
                &[index.clone(), other],
                None,
                &target,
                &resources(1 << 20),
                &mut Silent,
            )
            .unwrap();
            let refused = [("doc90", 11), ("doc91", 9)]
                .iter()
                .filter(|(id, of)| model.get(*id).is_some_and(|known| *known != text(*of)))
                .count();
            assert_eq!(summary.problems as usize, refused);
            for (id, of) in [("doc90", 11), ("doc91", 9)] {
                model.entry(id.to_owned()).or_insert_with(|| text(of));
            }
            *index = target;
        }
        Step::SplitAndMerge(parts) => {
            let (pieces, target) = (
                dir.path(&format!("{}p", index.display())),
                dir.path(&format!("{}s", index.display())),
            );
            commands::split(index, *parts, &pieces, &resources(1 << 20)).unwrap();
            let inputs: Vec<_> = (0..*parts)
                .rev()
                .map(|part| pieces.join(format!("{part:03}")))
                .collect();
            inputs
                .iter()
                .for_each(|input| verify(&Index::open(input).unwrap()).unwrap());
            commands::merge(&inputs, None, &target, &resources(1), &mut Silent).unwrap();
            if Index::open(index).unwrap().is_compact() {
                assert_eq!(files(index), files(&target));
                assert_eq!(
                    fs::read(index.join("manifest.json")).unwrap(),
                    fs::read(target.join("manifest.json")).unwrap()
                );
            }
            *index = target;
        }
        Step::Sync(gone, come) => sync_directory(dir, index, model, gone, come),
    }
}

/// Checks that the index is undamaged and equals a new index of the same documents.
fn ensure_equals_new_build(dir: &TestDir, directory: &Path, model: &Model) {
    let index = Index::open(directory).unwrap();
    verify(&index).unwrap();
    let view = View::of(&index).unwrap();
    let ids: Vec<String> = (0..view.documents())
        .map(|document| view.id(DocNo::from_index(document)).unwrap())
        .collect();
    let documents: Vec<_> = ids
        .iter()
        .map(|id| (id.clone(), model[id].clone()))
        .collect();
    assert_eq!(documents.len(), model.len());
    let fresh = build(dir, "fresh", &documents);
    assert_eq!(
        String::from_utf8(dump(&index)).unwrap(),
        String::from_utf8(dump(&Index::open(&fresh).unwrap())).unwrap()
    );
    ensure_lookups(&index, &view);
    if index.is_compact() {
        assert_eq!(files(directory), files(&fresh));
    }
}

/// Checks that looking up blots one by one gives the same as reading all of them.
fn ensure_lookups(index: &Index, view: &View<'_>) {
    for document in 0..view.documents() {
        let (id, row) = (
            view.id(DocNo::from_index(document)).unwrap(),
            view.row(DocNo::from_index(document)).unwrap(),
        );
        let at = index.find_id(&id).unwrap().unwrap();
        assert_eq!(index.row(at).unwrap(), row);
        let content = index.find_content(row.hash.unwrap()).unwrap().unwrap();
        let name = |at: &RowLocation| index.id(*at).unwrap();
        let same: Vec<String> = index
            .documents_of(content)
            .unwrap()
            .iter()
            .map(name)
            .collect();
        let expected = view
            .documents_of(view.content_of(DocNo::from_index(document)))
            .iter()
            .map(|&document| view.id(DocNo::from_index(document.index())).unwrap());
        assert_eq!(same, expected.collect::<Vec<_>>());
    }
    let (mut found, mut seen) = (Vec::new(), 0);
    view.for_each_blot(|blot, contents| {
        index.find(blot, &mut found)?;
        let mut owners: Vec<_> = found
            .iter()
            .map(|&at| {
                index
                    .documents_of(at)
                    .unwrap()
                    .iter()
                    .map(|&at| index.id(at).unwrap())
                    .collect::<Vec<_>>()
            })
            .collect();
        owners.sort();
        let mut expected: Vec<_> = contents
            .iter()
            .map(|&content| {
                view.documents_of(ContentNo::new(content))
                    .iter()
                    .map(|&of| view.id(DocNo::from_index(of.index())).unwrap())
                    .collect::<Vec<_>>()
            })
            .collect();
        expected.sort();
        assert_eq!(owners, expected);
        seen += contents.len() as u64;
        Ok(())
    })
    .unwrap();
    assert_eq!(seen, view.postings());
    let sets = view.sets(2).unwrap();
    let shared: u64 = SetNo::first(sets.len())
        .map(|set| sets.uses()[set.index()] * sets.get(set).len() as u64)
        .sum();
    assert!(shared <= seen);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("DEDUP_SOAK").is_some() { 1000 } else { 24 }))]
    #[test]
    fn any_sequence_of_changes_equals_a_new_build(steps in steps()) {
        let dir = TestDir::new();
        let mut model = Model::new();
        let mut index = build(&dir, "i", &[]);
        for step in &steps {
            apply_step(&dir, &mut index, &mut model, step);
            ensure_equals_new_build(&dir, &index, &model);
        }
        commands::compact(&index, &resources(1 << 20)).unwrap();
        ensure_equals_new_build(&dir, &index, &model);
        prop_assert_eq!(Manifest::read(&index).unwrap().numbers as usize, model.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    /// The parts of one range of several indexes make the part of that range of all documents, and
    /// these parts make the index of all.
    #[test]
    fn merged_parts_of_several_indexes_equal_one_build(
        slices in prop::collection::vec(prop::collection::vec((0_u8..14, 0_u8..12), 0..6), 1..5), ranges in 1_u32..6, memory in prop::sample::select(vec![1, 1 << 20]),
    ) {
        let dir = TestDir::new();
        let named = |slice: &[(u8, u8)]| slice.iter().map(|&(number, of)| (id(number), text(of))).collect::<Vec<_>>();
        let expected = build(&dir, "all", &named(&slices.concat()));
        let resources = resources(memory);
        let parts: Vec<PathBuf> = (0..slices.len()).map(|slice| dir.path(&format!("p{slice}"))).collect();
        for (slice, parts) in slices.iter().zip(&parts) {
            commands::split(&build(&dir, "slice", &named(slice)), ranges, parts, &resources).unwrap();
        }
        let joined: Vec<PathBuf> = (0..ranges).map(|range| dir.path(&format!("j{range}"))).collect();
        for (range, joined) in joined.iter().enumerate() {
            let inputs: Vec<PathBuf> = parts.iter().map(|parts| parts.join(format!("{range:03}"))).collect();
            inputs.iter().for_each(|input| verify(&Index::open(input).unwrap()).unwrap());
            commands::merge(&inputs, None, joined, &resources, &mut Silent).unwrap();
            verify(&Index::open(joined).unwrap()).unwrap();
        }
        commands::merge(&joined, None, &dir.path("joined"), &resources, &mut Silent).unwrap();
        let read = |directory: &Path| (files(directory), fs::read_to_string(directory.join("manifest.json")).unwrap());
        prop_assert_eq!(read(&dir.path("joined")), read(&expected));
    }

    /// An index made step by step from slices and ranges equals the index of all documents.
    #[test]
    fn an_index_built_from_slices_and_ranges_equals_one_build(
        slices in prop::collection::vec(prop::collection::vec((0_u8..14, 0_u8..12), 0..6), 1..5), parts in 1_u32..6, memory in prop::sample::select(vec![1, 1 << 20]),
        bits in prop::sample::select(vec![16_u8, 32, 48]), shares in 1_usize..5,
    ) {
        let dir = TestDir::new();
        let options = BuildOptions { blots: BlotOptions { bits: Some(bits), ..blots() }, parts, dictionary: true, resources: resources(memory) };
        let path = |slice: usize| dir.path(&format!("{slice}.jsonl"));
        for (number, slice) in slices.iter().enumerate() {
            write_documents(&path(number), slice.iter().map(|&(number, of)| (id(number), text(of))));
            commands::build_runs(&options, &RunsOptions::default(), &settings(vec![path(number)]), &dir.path(&format!("m{number}")), &mut Silent).unwrap();
        }
        let step = StepOptions { of: None, resources: resources(memory) };
        let of_slices = |file: &str| (0..slices.len()).map(|slice| dir.path(&format!("m{slice}/{file}"))).collect::<Vec<_>>();
        let of_ranges = |file: &str| (0..parts).map(|range| dir.path(&format!("r{range}{file}"))).collect::<Vec<_>>();
        commands::number_documents(&step, &of_slices("docs"), &dir.path("n")).unwrap();
        for range in 0..parts {
            let output = dir.path(&format!("r{range}"));
            commands::reduce_range(&step, &dir.path("n/targets"), &of_slices(&format!("{range:03}.runs")), shares, true, &output).unwrap();
        }
        let of_shares = |file: &str| (0..shares).map(|share| dir.path(&format!("j{share}{file}"))).collect::<Vec<_>>();
        for (share, output) in of_shares("").iter().enumerate() {
            commands::join_sets(&step, &SegmentFiles::parts(parts).unwrap(), &of_ranges(&format!("/{share:03}.sets")), output).unwrap();
        }
        commands::number_sets(&step, &of_shares(""), &dir.path("s")).unwrap();
        for range in 0..parts {
            let numbers = of_shares(&format!("/{range:03}.numbers"));
            commands::finish_part(&step, &dir.path("s/order"), &numbers, &dir.path(&format!("r{range}/postings")), &dir.path(&format!("r{range}p"))).unwrap();
        }
        let made = PartFiles { documents: dir.path("n"), sets: dir.path("s"), parts: of_ranges("p"), words: of_ranges("/words") };
        commands::build(&options, &settings((0..slices.len()).map(path).collect()), &dir.path("all"), &mut Silent).unwrap();
        let scheme = Index::open(&dir.path("all")).unwrap().scheme;
        commands::place_parts(&made, &scheme, None, &dir.path("joined")).unwrap();
        let read = |directory: &Path| (files(directory), fs::read_to_string(directory.join("manifest.json")).unwrap());
        prop_assert_eq!(read(&dir.path("joined")), read(&dir.path("all")));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    /// Counts of ranges make the table of the whole index, with one segment or several.
    #[test]
    fn counts_of_ranges_give_the_table_of_the_index(
        documents in prop::collection::vec((0_u8..30, 0_u8..14), 0..20), more in prop::collection::vec((0_u8..30, 0_u8..14), 0..6), removed in prop::collection::vec(0_u8..30, 0..3),
        ranges in 1_u32..9, top in 1_usize..5, threshold in prop::sample::select(vec![0.0, 0.1, 0.6, 1.0]), max_df in prop::option::of(0_u64..6), memory in prop::sample::select(vec![1, 1 << 22]),
    ) {
        let dir = TestDir::new();
        let named = |of: &[(u8, u8)]| of.iter().map(|&(number, of)| (id(number), text(of))).collect::<Vec<_>>();
        let directory = build(&dir, "all", &named(&documents));
        write_documents(&dir.path("more.jsonl"), named(&more).into_iter());
        commands::add(&change(), &settings(vec![dir.path("more.jsonl")]), &directory, &mut Silent).unwrap();
        commands::remove(&change(), removed.iter().map(|&number| Ok(id(number))), &directory, &mut Silent).unwrap();
        let index = Index::open(&directory).unwrap();
        let what = Extract::Table { top, rows: RowFormat::new(Format::Ndjson) };
        let options = ExtractOptions { what, score: Score::Inclusion, threshold, common: max_df.into(), limits: Limits::new(2, memory) };
        let (mut one, mut all) = (Vec::new(), Vec::new());
        commands::extract_without(&options, &LeaveOut::default(), &index, &mut one, &mut Silent, &mut |_, _| {}).unwrap();
        let step = StepOptions { of: None, resources: resources(memory) };
        let mut counts = Vec::new();
        for (number, range) in SegmentFiles::parts(ranges).unwrap().into_iter().enumerate() {
            let output = dir.path(&format!("n{number}"));
            commands::count_range(&step, &directory, &commands::CountRange { buckets: range, max_df, since: None }, &output).unwrap();
            counts.push(output.join("counts"));
        }
        commands::extract_counted(&options, &counts, &index, &mut all, &mut |_, _| {}).unwrap();
        prop_assert_eq!(String::from_utf8(all).unwrap(), String::from_utf8(one).unwrap());
    }
}

fn small() -> TestDir {
    TestDir::with(&[
        (
            "c/a.txt",
            "one passage of quite some words that is copied here and there",
        ),
        (
            "c/b.txt",
            "see: one passage of quite some words that is copied here and there, too",
        ),
        (
            "c/sub/c.txt",
            "One passage of quite some words that is copied here and there!",
        ),
        (
            "c/lines.jsonl",
            "{\"id\":\"l1\",\"text\":\"a document of a few words in a line of its own\"}\n{\"id\":\"l2\",\"text\":\"another one\"}\n",
        ),
    ])
}

/// Makes all files old enough for sync to trust their times.
fn age(dir: &TestDir) {
    dir.shell("find c -exec touch -d '2020-01-01 00:00:00' {} +; sleep 2.1")
        .ok();
}

fn sync(dir: &TestDir, more: &str) -> String {
    let ran = dir.shell(&format!(
        "dedup-index sync i c {more} && dedup-index verify i"
    ));
    ran.ok_text()
}

/// Checks that the synced index equals a new build of the same files.
fn ensure_sync_equals_build(dir: &TestDir) {
    let ids = "dedup-index dump {} | jq -rc 'select(.doc) | [.doc, .bytes, .hash, .blots]' | LC_ALL=C sort";
    dir.shell("rm -rf new; dedup-index build -o new c").ok();
    assert_eq!(
        dir.shell(&ids.replace("{}", "i")).ok_text(),
        dir.shell(&ids.replace("{}", "new")).ok_text()
    );
}

#[test]
fn sync_gives_the_index_of_the_current_files() {
    let dir = small();
    dir.run("dedup-index", &["build", "-o", "i", "c"]).ok();
    assert_eq!(sync(&dir, ""), "i: 5 known already; generation 1\n");
    age(&dir);
    // Their times changed, so they are read once more and trusted from then on.
    assert_eq!(sync(&dir, ""), "i: 5 known already; generation 1\n");
    assert_eq!(sync(&dir, ""), "i: nothing to do; generation 1\n");
    // Sync does not open them again: an unreadable file causes no error.
    let traced = dir.shell("strace -f -e trace=openat -o trace dedup-index sync i c > /dev/null && ! grep -q '\"c/a.txt\"' trace");
    assert!(
        traced.code() == 0 || traced.stderr().contains("strace: command not found"),
        "{}",
        traced.stderr()
    );

    dir.write("c/a.txt", "another text altogether");
    dir.write(
        "c/lines.jsonl",
        "{\"id\":\"l2\",\"text\":\"another one\"}\n{\"id\":\"l3\",\"text\":\"a third\"}\n",
    );
    dir.write("c/new.txt", "something new");
    fs::remove_file(dir.path("c/sub/c.txt")).unwrap();
    assert_eq!(
        sync(&dir, "--dry-run"),
        "i: 3 added or replaced, 2 removed, 1 known already; nothing was written\n"
    );
    assert_eq!(
        sync(&dir, ""),
        "i: 3 added or replaced, 2 removed, 1 known already; generation 2\n"
    );
    ensure_sync_equals_build(&dir);
    assert_eq!(
        sync(&dir, "--checksum"),
        "i: 6 known already; generation 2\n".replace('6', "5")
    );

    // The index was changed by another command, so the recorded state is not trusted.
    dir.shell("dedup-index remove i c/new.txt && dedup-index add i /dev/stdin <<< '{\"id\":\"c/b.txt\",\"text\":\"forged\"}' && dedup-index compact i").ok_text();
    age(&dir);
    assert_eq!(sync(&dir, "-q"), "");
    ensure_sync_equals_build(&dir);
    // The index was built anew under the same name.
    dir.shell("rm -r i; mkdir d; echo x > d/x; dedup-index build -o i d")
        .ok();
    assert_eq!(sync(&dir, "-q --max-remove 1"), "");
    ensure_sync_equals_build(&dir);
}

#[test]
fn sync_notices_changes_that_keep_size_and_time() {
    let dir = small();
    dir.run("dedup-index", &["build", "-o", "i", "c"]).ok();
    age(&dir);
    sync(&dir, "");
    // The same size and time; the file system still records a change.
    dir.shell("printf 'One' | dd of=c/a.txt conv=notrunc status=none; touch -d '2020-01-01 00:00:00' c/a.txt").ok();
    assert_eq!(sync(&dir, ""), "i: 1 known already; generation 1\n");
    dir.shell("printf 'Two' | dd of=c/a.txt conv=notrunc status=none; touch -d '2020-01-01 00:00:00' c/a.txt").ok();
    assert_eq!(
        sync(&dir, "--checksum"),
        "i: 1 added or replaced, 4 known already; generation 2\n"
    );
    ensure_sync_equals_build(&dir);
}

#[test]
fn sync_keeps_documents_of_unreadable_files() {
    let dir = small();
    dir.run("dedup-index", &["build", "-o", "i", "c"]).ok();
    sync(&dir, "");
    let documents = |dir: &TestDir| {
        dir.shell("dedup-index stats --json i | jq .documents")
            .ok_text()
    };
    let ran = dir.run("dedup-index", &["sync", "i", "c", "not-there"]);
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (
            2,
            "dedup-index: not-there: No such file or directory (os error 2)\n"
        )
    );
    dir.shell("rm c/b.txt; mv c/sub away").ok();
    dir.run("dedup-index", &["sync", "i", "c", "not-there"]);
    assert_eq!(documents(&dir), "5\n");
    // A file that is no longer text, and a line that is not JSON: their documents are kept until
    // they can be read again.
    fs::write(dir.path("c/a.txt"), b"one \xff passage").unwrap();
    dir.write(
        "c/lines.jsonl",
        "{\"id\":\"l2\",\"text\":\"another one\"}\n{\"id\":\"l1\",\"te\n",
    );
    for _ in 0..2 {
        let ran = dir.run("dedup-index", &["sync", "i", "c"]);
        assert_eq!(ran.code(), 2);
        assert_eq!(ran.stderr().lines().count(), 2, "{}", ran.stderr());
        assert_eq!(documents(&dir), "3\n");
    }
    dir.write(
        "c/lines.jsonl",
        "{\"id\":\"l2\",\"text\":\"another one\"}\n",
    );
    dir.write("c/a.txt", "now it is");
    assert_eq!(
        sync(&dir, ""),
        "i: 1 added or replaced, 1 removed, 1 known already; generation 3\n"
    );
    ensure_sync_equals_build(&dir);
    let ran = dir.run("dedup-index", &["sync", "i"]);
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (
            2,
            "dedup-index: say which files and directories the index is to follow\n"
        )
    );
}

#[test]
fn sync_keeps_one_document_of_an_id_in_two_files() {
    let dir = TestDir::with(&[
        ("c/one.jsonl", "{\"id\":\"x\",\"text\":\"first\"}\n"),
        ("c/two.jsonl", "{\"id\":\"y\",\"text\":\"second\"}\n"),
    ]);
    dir.run("dedup-index", &["build", "-o", "i", "c"]).ok();
    age(&dir);
    sync(&dir, "");
    dir.write(
        "c/two.jsonl",
        "{\"id\":\"x\",\"text\":\"third\"}\n{\"id\":\"y\",\"text\":\"second\"}\n",
    );
    let ran = dir.run("dedup-index", &["sync", "i", "c"]);
    let expected = "dedup-index: c/two.jsonl:1: a document with the id 'x' is in another file, which did not change; that one is kept\n";
    assert_eq!((ran.code(), ran.stderr().as_str()), (2, expected));
    assert_eq!(ran.stdout(), "i: 1 known already; generation 1\n");
}

#[test]
fn accumulated_segments_are_merged() {
    let dir = small();
    dir.shell("dedup-index build -o i c && cp -r i loose").ok();
    for number in 0..12 {
        let line = format!(
            "echo 'a new text with number {number} in it' > n{number}; dedup-index add -q i n{number}; dedup-index add -q --no-compact loose n{number}"
        );
        dir.shell(&line).ok();
    }
    let segments = |name: &str| {
        dir.shell(&format!(
            "dedup-index verify {name}; dedup-index stats --json {name} | jq .segments"
        ))
        .ok_text()
    };
    assert_eq!(
        (
            segments("loose").as_str(),
            segments("i").trim().parse::<u32>().unwrap() < 8
        ),
        ("13\n", true)
    );
    dir.shell("dedup-index compact i; dedup-index compact loose")
        .ok();
    assert_eq!(
        (segments("loose"), files(&dir.path("i"))),
        ("1\n".to_owned(), files(&dir.path("loose")))
    );
    let sizes = dir
        .shell("ls i loose; dedup-index stats --json i | jq .generation")
        .ok_text();
    assert!(sizes.contains("000014.docs\n"), "{sizes}");
}

#[test]
fn document_numbers_are_reused_and_an_alias_replaces_its_representative() {
    let dir = small();
    dir.run("dedup-index", &["build", "-o", "i", "c"]).ok();
    let blot = dir
        .shell("dedup-blot c/a.txt | jq -r 'select(.doc) | .blots[0]'")
        .ok_text();
    let holders = |dir: &TestDir| {
        dir.shell(&format!(
            "dedup-index dump --blot {} i | jq -r .doc",
            blot.trim()
        ))
        .ok_text()
    };
    assert_eq!(holders(&dir), "c/a.txt\nc/b.txt\nc/sub/c.txt\n");
    // Removal reads no documents: the files do not exist any more.
    dir.shell("rm -r c; dedup-index remove i c/a.txt").ok_text();
    assert_eq!(holders(&dir), "c/b.txt\nc/sub/c.txt\n");
    dir.shell("dedup-index remove i l1 l2 && dedup-index verify i")
        .ok_text();
    let numbers = |dir: &TestDir| {
        dir.shell("dedup-index stats --json i | jq -c '[.documents, .free_numbers]'; jq .numbers i/manifest.json").ok_text()
    };
    assert_eq!(numbers(&dir), "[2,2]\n5\n");
    dir.shell("for n in 1 2 3; do echo \"text number $n\" > n$n; done; dedup-index add i n1 n2 n3 && dedup-index verify i").ok_text();
    assert_eq!(numbers(&dir), "[5,0]\n6\n");
    let ran = dir.run("dedup-index", &["remove", "i", "n1", "nobody"]);
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (
            2,
            "dedup-index: i: has no document 'nobody'; dedup-index dump lists the ids\n"
        )
    );
    assert_eq!(ran.stdout(), "i: 1 removed; generation 5\n");
    let ran = dir.shell("printf 'n2\\0n3\\0' | dedup-index remove i --files-from - -0");
    assert_eq!(ran.ok_text(), "i: 2 removed; generation 6\n");
}

#[test]
fn parts_that_do_not_fit_together_are_refused() {
    let dir = small();
    dir.shell("dedup-index build -o i c && dedup-index build -o other -k 5 c && dedup-index split i --parts 3 -o p").ok();
    for (inputs, message) in [
        (
            "p/000 p/002",
            "p/002: the blots that begin with 55 to a9 are missing: no part before this one has them",
        ),
        (
            "p/000 p/001",
            "p/001: the blots that begin with aa to ff are missing: no part after this one has them",
        ),
        (
            "p/000 p/001 p/001 p/002",
            "p/001: blots that begin with 55 are in another part already",
        ),
        ("p/000 i", "p/000: a part of an index, and i a whole one"),
        (
            "i other",
            "other: scheme is 'words@18.0/49 ordered:5:40 all', expected 'words@18.0/49 ordered:8:40 all'; only indexes of one scheme can be joined; build them with the same options",
        ),
    ] {
        let ran = dir.shell(&format!("dedup-index merge -o m {inputs}"));
        assert_eq!(
            (ran.code(), ran.stderr()),
            (2, format!("dedup-index: {message}\n")),
            "{inputs}"
        );
        assert!(!dir.path("m").exists());
    }
    dir.shell("dedup-index merge -o m p/002 p/000 p/001 && diff -r i m")
        .ok();
}
