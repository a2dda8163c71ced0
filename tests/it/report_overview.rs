//! The overview of a report: every document that was checked, in a real browser.

use crate::{
    browser::{LAPTOP, TOOLS, Window, browse_in, browse_quietly, prose},
    test_dir::{TestDir, tools},
};
use dedup::report::html::Overview;
use serde_json::json;
use std::fs;

/// English prose, which has a language.
const ENGLISH: &str = "All human beings are born free and equal in dignity and rights. They are endowed with reason and conscience and should act towards one another in a spirit of brotherhood. Everyone is entitled to all the rights and freedoms set forth in this Declaration, without distinction of any kind, such as race, colour, sex, language, religion, political or other opinion, national or social origin, property, birth or other status.";
const GERMAN: &str = "Jeder hat Anspruch auf die in dieser Erklärung verkündeten Rechte und Freiheiten ohne irgendeinen Unterschied, etwa nach Rasse, Hautfarbe, Geschlecht, Sprache, Religion, politischer oder sonstiger Überzeugung, nationaler oder sozialer Herkunft, Vermögen, Geburt oder sonstigem Stand. Niemand darf in Sklaverei oder Leibeigenschaft gehalten werden.";

/// Essays: ann copied a part of old, ben and cid are the same, dan is alone.
fn essays() -> TestDir {
    let [one, two] = [1, 2].map(|seed| prose(seed, 100));
    let dir = TestDir::with(&[
        (
            "e/ann.txt",
            [&one, &prose(11, 100)]
                .map(String::as_str)
                .join("\n\n")
                .into_bytes(),
        ),
        (
            "e/old.txt",
            [&prose(12, 100), &one]
                .map(String::as_str)
                .join("\n\n")
                .into_bytes(),
        ),
        ("e/ben.txt", two.clone().into_bytes()),
        ("e/cid.txt", two.into_bytes()),
        ("e/dan.txt", prose(13, 150).into_bytes()),
        ("e/eva.txt", ENGLISH.as_bytes()[..200].to_vec()),
        ("e/fay.txt", GERMAN.as_bytes().to_vec()),
        ("e/gus.txt", ENGLISH.as_bytes()[200..].to_vec()),
        ("e/scan.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".to_vec()),
    ]);
    dir.shell("touch -d 2026-11-01 e/*.txt && touch -d 2026-10-01 e/old.txt")
        .ok();
    dir
}

#[test]
fn every_document_is_listed() {
    let dir = essays();
    let ran = dir.shell("dedup-extract report --skip-bad -q e -o report --date 2026-11-18");
    assert_eq!((ran.code(), ran.stderr().as_str()), (0, ""));
    let script = "await settled();
        return { documents: tableRows('documents'), pairs: tableRows('pairs'), tiles: [...document.querySelectorAll('.numbers div')].map((tile) => tile.innerText.split('\\n').reverse()),
                 unread: document.getElementById('unread').innerText.split('\\n').filter(Boolean), facts: [...document.querySelectorAll('.facts div')].map((fact) => fact.innerText.split('\\n')),
                 shown: document.getElementById('documents-shown').innerText };";
    let Some(value) = browse_quietly(&dir, "report/index.html", script) else {
        return;
    };
    let names: Vec<&str> = value["documents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row[0].as_str().unwrap())
        .collect();
    assert_eq!(names[0], "ben.txt\nthe same words: cid.txt", "{value}");
    assert_eq!(
        {
            let mut rest = names[1..].to_vec();
            rest.sort_unstable();
            rest
        },
        [
            "ann.txt", "dan.txt", "eva.txt", "fay.txt", "gus.txt", "old.txt"
        ]
    );
    let row = |name: &str| {
        let rows = value["documents"].as_array().unwrap();
        let row = rows.iter().find(|row| row[0] == name).unwrap();
        row.clone()
    };
    assert_eq!(
        row("ann.txt"),
        json!(["ann.txt", "50%", "old.txt 50%", "1", "200", ""])
    );
    assert_eq!(row("dan.txt")[1], "0%");
    assert_eq!(row("eva.txt")[5], "too short to judge");
    assert_eq!(row("fay.txt")[5], "too short to judgein German", "{value}");
    assert_eq!(value["shown"], "8 documents, below e/");
    assert_eq!(
        value["tiles"],
        json!([
            ["8", "documents checked"],
            ["4", "have a tenth or more in common with another"],
            ["100%", "the largest share"],
            ["3", "with a note"],
            ["1", "could not be read"]
        ])
    );
    assert_eq!(
        value["unread"],
        json!([
            "Not read, so not checked",
            "e/scan.doc – left out: doc, xls or ppt; save it as docx or PDF"
        ])
    );
    // The newer text is on the left.
    let pairs = &value["pairs"];
    assert_eq!(
        [&pairs[0][0], &pairs[0][1], &pairs[1][0], &pairs[1][1]],
        ["ben.txt", "cid.txt", "ann.txt", "old.txt"]
    );
    let facts: Vec<(&str, &str)> = value["facts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fact| (fact[0].as_str().unwrap(), fact[1].as_str().unwrap()))
        .collect();
    let program = format!("dedup-extract {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        facts,
        [
            ("Made by", program.as_str()),
            ("Date of the report", "2026-11-18"),
            ("Newest document", "2026-11-01"),
            ("Preset", "text"),
            ("Windows compared", "words@18.0/49 ordered:8:40 all"),
            ("Pairs listed", "jaccard of at least 0.1"),
        ]
    );
}

#[test]
fn the_new_document_is_on_the_left_and_the_only_one_listed() {
    let dir = essays();
    dir.shell("touch -d 2026-12-01 e/old.txt").ok();
    dir.shell("dedup-extract report --skip-bad -q e -o by-date && dedup-extract report --skip-bad -q e --new e/ann -o report")
        .ok();
    for (page, left) in [
        ("by-date/index.html", "old.txt"),
        ("report/index.html", "ann.txt"),
    ] {
        let script = "await settled(); const pair = tableRows('pairs').find((row) => [row[0], row[1]].includes('ann.txt')); return [pair[0], tableRows('documents').length];";
        let Some(value) = browse_quietly(&dir, page, script) else {
            return;
        };
        let documents = if left == "ann.txt" { 1 } else { 7 };
        assert_eq!(value, json!([left, documents]), "{page}");
    }
    let title = "return [...document.querySelectorAll('h2 bdi')].map((name) => name.textContent);";
    if let Some(value) = browse_quietly(&dir, "report/pair-000001.html", title) {
        assert_eq!(value, json!(["e/ann.txt", "e/old.txt"]));
    }
}

#[test]
fn a_document_leads_to_its_sources_and_their_pairs() {
    let dir = essays();
    dir.shell("dedup-extract report --skip-bad -q e -o report")
        .ok();
    let script = "await settled();
        return [...document.querySelectorAll('#documents a')].filter((link) => link.innerText === 'ann.txt').map((link) => link.getAttribute('href'));";
    let Some(value) = browse_quietly(&dir, "report/index.html", script) else {
        return;
    };
    let page = format!("report/{}", value[0].as_str().unwrap());
    let script = "await settled();
        return { title: document.querySelector('h1').innerText, source: document.querySelector('.sources button .name').innerText,
                 alone: document.querySelector('.alone').getAttribute('href'), back: document.querySelector('.back').getAttribute('href') };";
    let value = browse_quietly(&dir, &page, script).unwrap();
    assert_eq!(
        value,
        json!({ "title": "ann.txt and its sources", "source": "old.txt", "alone": "pair-000002.html", "back": "index.html" })
    );
    let script = "const all = document.querySelector('.all'); return [all.innerText, all.getAttribute('href')];";
    let value = browse_quietly(&dir, "report/pair-000002.html", script).unwrap();
    assert_eq!(value[0], "All sources of ann.txt");
    assert_eq!(format!("report/{}", value[1].as_str().unwrap()), page);
}

#[test]
fn words_that_differ_are_marked() {
    let words: Vec<String> = prose(5, 120)
        .split_whitespace()
        .map(|word| word.trim_matches('.').to_owned())
        .collect();
    let mut edited = words.clone();
    edited[30] = "umbrella".to_owned();
    edited.remove(70);
    edited.insert(90, "inserted".to_owned());
    edited[50] = edited[50].to_uppercase();
    let dir = TestDir::with(&[
        ("a.txt", words.join(" ")),
        ("b.txt", edited.join(" ")),
        ("pairs", "a.txt\tb.txt\n".to_owned()),
    ]);
    dir.shell("dedup-query align --pairs pairs --html report")
        .ok();
    let script = "await settled();
        const marked = (id) => [...document.querySelectorAll(`#${id} .differs`)].map((word) => word.textContent);
        const text = (id) => document.querySelector(`#${id} .text`).textContent.replace(/^\\d/, '').trim();
        dispatchEvent(new Event('beforeprint'));
        return { left: marked('left'), right: marked('right'), text: [text('left'), text('right')], kind: document.getElementById('passage').textContent,
                 printed: [...document.querySelectorAll('#printed .differs')].map((word) => word.textContent) };";
    let Some(value) = browse_quietly(&dir, "report/pair-000001.html", script) else {
        return;
    };
    assert!(
        value["kind"].as_str().unwrap().contains("edited"),
        "{value}"
    );
    assert_eq!(value["left"], json!([words[30], words[70]]));
    assert_eq!(value["right"], json!(["umbrella", "inserted"]));
    assert_eq!(value["text"], json!([words.join(" "), edited.join(" ")]));
    assert_eq!(
        value["printed"],
        json!([words[30], words[70], "umbrella", "inserted"])
    );
}

/// The overview of 50,000 pairs of 20,000 documents, made by the library; among them a family of 300.
fn large_overview() -> TestDir {
    let dir = TestDir::new();
    let mut overview = Overview::new("many", &[]);
    let name = |number: usize| format!("corpus/{:02}/document-{number:05}.txt", number % 40);
    for one in 0..300 {
        for two in 0..one.min(40) {
            overview.add_estimate([&name(one), &name(two)], [0.97, 0.95]);
        }
    }
    for at in 0..39_000 {
        let share = 0.1 + 0.8 * (at % 97) as f64 / 97.0;
        let (a, b) = (300 + at % 19_700, 300 + (at * 7919 + 1) % 19_700);
        overview.add_estimate([&name(a), &name(b)], [share, share / 2.0]);
    }
    overview.add_unlisted(2, 123_456);
    let mut page = Vec::new();
    overview.write(&mut page).unwrap();
    dir.write("index.html", page);
    dir
}

#[test]
fn fifty_thousand_pairs_stay_usable() {
    let dir = large_overview();
    let size = fs::metadata(dir.path("index.html")).unwrap().len();
    assert!(size < 8 << 20, "{size}");
    let script = "await settled();
        const drawn = () => document.querySelectorAll('#pairs tbody tr').length;
        const seen = { first: drawn(), bars: [...document.querySelectorAll('.bin[role]')].length, shown: document.getElementById('pairs-shown').innerText };
        document.getElementById('pairs-more').click(); seen.more = drawn();
        const search = document.getElementById('name');
        search.value = 'document-00777'; search.dispatchEvent(new Event('input')); await settled();
        seen.found = tableRows('documents').map((row) => row[0]);
        document.getElementById('clear').click();
        document.querySelector('.bin[data-bin=\"19\"]').dispatchEvent(new MouseEvent('click', { bubbles: true })); await settled();
        seen.family = [drawn(), document.querySelector('#pairs .open')?.innerText, tableRows('documents').length];
        document.querySelector('#pairs .open').click();
        seen.open = drawn();
        document.getElementById('families').click();
        seen.unfolded = drawn();
        // Names in the graph do not overlap.
        const boxes = [...document.querySelectorAll('.node text')].filter((text) => text.style.display !== 'none').map((text) => text.getBoundingClientRect());
        const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
        seen.names = boxes.length > 5;
        seen.overlaps = boxes.filter((box, at) => boxes.slice(at + 1).some((other) => meet(box, other))).length;
        const before = document.querySelector('.graph svg').getAttribute('viewBox');
        document.getElementById('zoom-in').click();
        seen.zoomed = document.querySelector('.graph svg').getAttribute('viewBox') !== before;
        document.getElementById('zoom-all').click();
        seen.whole = document.querySelector('.graph svg').getAttribute('viewBox') === before;
        return seen;";
    let Some(value) = browse_quietly(&dir, "index.html", script) else {
        return;
    };
    let family: usize = (0..300).map(|one: usize| one.min(40)).sum();
    assert_eq!(value["first"], 100);
    assert_eq!(value["more"], 200);
    assert!(value["bars"].as_u64().unwrap() > 10, "{value}");
    assert_eq!(
        value["found"],
        json!(["37/document-00777.txt".replace("37", "17")])
    );
    assert_eq!(
        value["family"],
        json!([1, format!("and {} more pairs of near copies", "11,179"), 1])
    );
    assert_eq!(family, 11_180);
    assert_eq!(
        (&value["open"], &value["unfolded"]),
        (&json!(11_180), &json!(100))
    );
    assert_eq!(
        (&value["overlaps"], &value["names"]),
        (&json!(0), &json!(true)),
        "{value}"
    );
    assert_eq!([&value["zoomed"], &value["whole"]], [true, true]);
}

#[test]
fn what_is_listed_becomes_csv() {
    let dir = TestDir::with(&[
        ("e/=cmd.txt", prose(1, 100)),
        (
            "e/b, \"c\".txt",
            format!("{} {}", prose(1, 100), prose(2, 60)),
        ),
        ("e/d.txt", prose(3, 90)),
    ]);
    dir.shell("dedup-extract report -q e -o report --relative")
        .ok();
    let script = "await settled();
        const made = [];
        URL.createObjectURL = (blob) => { made.push(blob.text()); return '#'; };
        document.getElementById('documents-csv').click();
        document.getElementById('name').value = 'cmd'; document.getElementById('name').dispatchEvent(new Event('input'));
        document.getElementById('documents-csv').click();
        document.getElementById('pairs-csv').click();
        return Promise.all(made);";
    let Some(value) = browse_quietly(&dir, "report/index.html", script) else {
        return;
    };
    let head =
        "document,share,estimate,others,best_source,best_source_adds,words,same_words_as,notes";
    let rows = [
        "\"'=cmd.txt\",1,false,1,\"b, \"\"c\"\".txt\",1,100,\"\",\"\"",
        "\"b, \"\"c\"\".txt\",0.625,false,1,\"'=cmd.txt\",0.625,160,\"\",\"\"",
        "\"d.txt\",0,false,0,,,90,\"\",\"\"",
    ];
    let text = |lines: &[&str]| {
        let lines: Vec<String> = lines.iter().map(|line| format!("{line}\r\n")).collect();
        // Blob.text() drops the byte-order mark.
        lines.concat()
    };
    let csv = |at: usize| {
        value[at]
            .as_str()
            .unwrap()
            .trim_start_matches('\u{feff}')
            .to_owned()
    };
    assert_eq!(
        csv(0),
        text(&[
            head,
            rows[0],
            rows[1],
            &rows[2].replace("0,false", "0,true")
        ])
    );
    assert_eq!(csv(1), text(&[head, rows[0]]));
    assert_eq!(
        csv(2),
        text(&[
            "first,second,of_first,of_second,estimate,passages,longest_words,words_in_common,page",
            "\"'=cmd.txt\",\"b, \"\"c\"\".txt\",1,0.625,false,1,100,100,\"pair-000001.html\"",
        ])
    );
}

#[test]
fn all_is_reached_with_keys() {
    let dir = essays();
    dir.shell("dedup-extract report --skip-bad -q e -o report")
        .ok();
    let script = "await settled();
        const seen = {};
        await press('/'); await settled();
        seen.search = document.activeElement.id;
        for (const letter of 'ann') await press(letter);
        await settled();
        seen.found = tableRows('documents').map((row) => row[0]);
        const until = async (test) => { for (let tab = 0; tab < 60 && !test(document.activeElement); tab++) await press('Tab'); return document.activeElement; };
        await until((element) => element.id === 'clear'); await press('Enter'); await settled();
        seen.cleared = tableRows('documents').length;
        const bar = await until((element) => element.classList.contains('bin'));
        seen.bar = bar.getAttribute('aria-label');
        await press('ArrowRight'); await settled();
        seen.next = document.activeElement.getAttribute('aria-label');
        await press('Enter'); await settled();
        seen.chosen = [document.activeElement.getAttribute('aria-pressed'), tableRows('pairs').length];
        await press('Enter');
        const node = await until((element) => element.classList.contains('node'));
        await press(' '); await settled();
        seen.node = [Boolean(node), document.getElementById('filtered').innerText.startsWith('Only pairs of ')];
        await press('?'); await settled();
        seen.help = document.getElementById('help').open;
        await press('Escape'); await settled();
        seen.closed = !document.getElementById('help').open;
        const link = await until((element) => element.matches('#pairs a'));
        seen.link = link.getAttribute('href');
        return seen;";
    let Some(value) = browse_quietly(&dir, "report/index.html", script) else {
        return;
    };
    assert_eq!(
        value,
        json!({
            "search": "name", "found": ["ann.txt"], "cleared": 7,
            "bar": "50 to 55%: 1 pair", "next": "95 to 100%: 1 pair", "chosen": ["true", 1],
            "node": [true, true], "help": true, "closed": true, "link": value["link"],
        })
    );
    assert!(value["link"].as_str().unwrap().starts_with("pair-00000"));
}

/// The source of axe-core, if scripts/dev/install-deps could fetch it.
fn axe() -> Option<String> {
    let source = fs::read_to_string(tools().join("axe-core/axe.min.js")).ok();
    if source.is_none() {
        eprintln!("skipped: no axe-core; scripts/dev/install-deps fetches it with npm");
    }
    source
}

#[test]
fn pages_are_accessible_at_every_size() {
    let Some(axe) = axe() else { return };
    let dir = essays();
    dir.shell("dedup-extract report --skip-bad -q e -o report")
        .ok();
    let run = "await settled();
        const found = await axe.run(document, { resultTypes: ['violations'], rules: { region: { enabled: true } } });
        const wide = document.documentElement.scrollWidth - innerWidth;
        return { violations: found.violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 120) + ' ' + (node.any[0]?.message ?? '')).join(' | ')}`), wide: Math.max(0, wide) };";
    let script = [axe.as_str(), ";", TOOLS, run].concat();
    for (width, height) in [(390, 844), (1366, 768), (3840, 2160)] {
        for theme in ["light", "dark"] {
            for page in ["index", "document-000001", "pair-000002"] {
                let window = Window {
                    width,
                    height,
                    theme,
                };
                let page = format!("report/{page}.html");
                let Some((value, said)) = browse_in(window, &dir, &page, &script, None) else {
                    return;
                };
                assert_eq!(said, json!([]), "{page}");
                assert_eq!(
                    value,
                    json!({ "violations": [], "wide": 0 }),
                    "{page} {window:?}"
                );
            }
        }
    }
}

#[test]
fn a_report_can_be_printed() {
    let dir = essays();
    dir.shell("dedup-extract report --skip-bad -q e -o report --date 2026-11-18 --title 'Essays of class 7'")
        .ok();
    for (page, wanted) in [
        (
            "index",
            &[
                "Essays of class 7",
                "2026-11-18",
                "dan.txt",
                "gus.txt",
                "could not be read",
                "How this report was made",
                "save it as docx or PDF",
                "How this is counted",
            ][..],
        ),
        (
            "document-000003",
            &["and its sources", "old.txt", "verbatim", "100% alike"],
        ),
        ("pair-000002", &["ann.txt", "old.txt", "verbatim"]),
    ] {
        let (url, pdf) = (format!("report/{page}.html"), format!("{page}.pdf"));
        let Some((_, said)) = browse_in(LAPTOP, &dir, &url, "", Some(&pdf)) else {
            return;
        };
        assert_eq!(said, json!([]), "{page}");
        let text = dir.shell(&format!("pdftotext -layout {pdf} -")).ok_text();
        let missing: Vec<&&str> = wanted
            .iter()
            .filter(|part| !text.contains(**part))
            .collect();
        assert_eq!(missing, Vec::<&&str>::new(), "{text}");
        assert!(
            !text.contains("Show more") && !text.contains("Save as CSV"),
            "{text}"
        );
    }
}

#[test]
fn the_same_documents_give_the_same_pages() {
    let dir = essays();
    let pages = |name: &str| -> Vec<(String, Vec<u8>)> {
        let entries = fs::read_dir(dir.path(name)).unwrap();
        let mut pages: Vec<_> = entries
            .map(|entry| {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                (name, fs::read(entry.path()).unwrap())
            })
            .collect();
        pages.sort();
        pages
    };
    for (directory, threads) in [("one", 1), ("eight", 8)] {
        let line = format!(
            "SOURCE_DATE_EPOCH=1795000000 dedup-extract report --skip-bad -q e -o {directory} --threads {threads}"
        );
        dir.shell(&line).ok();
    }
    assert_eq!(pages("one"), pages("eight"));
    let overview = String::from_utf8(dir.read("one/index.html")).unwrap();
    assert!(overview.contains("<dt>Date of the report</dt><dd><bdi>2026-11-18</bdi></dd>"));
    // Pages of an earlier report go, other files stay.
    dir.write("one/pair-000777.html", "old");
    dir.write("one/notes.html", "mine");
    dir.shell("dedup-extract report --skip-bad -q e -o one")
        .ok();
    assert!(!dir.path("one/pair-000777.html").exists() && dir.path("one/notes.html").exists());
    let ran = dir.shell("dedup-extract report -q e -o two --date yesterday");
    assert_eq!(ran.code(), 2);
    assert!(
        ran.stderr()
            .contains("write it as year-month-day, such as 2026-11-18"),
        "{}",
        ran.stderr()
    );
}

#[test]
fn pages_stop_at_a_size() {
    let dir = essays();
    let ran =
        dir.shell("dedup-extract report --skip-bad e -o report --max-size 1K 2>&1 | tail -n 1");
    assert_eq!(
        ran.ok_text(),
        "dedup-extract: checked 8 documents, found 2 pairs; pages for 1 pair and 1 document: open report/index.html\n"
    );
    let script = "await settled(); return [document.getElementById('notice').innerText, tableRows('pairs').map((row) => row[2])];";
    let Some(value) = browse_quietly(&dir, "report/index.html", script) else {
        return;
    };
    assert_eq!(value[1][0], "100%");
    assert!(
        value[1][1].as_str().unwrap().starts_with("about 4"),
        "{value}"
    );
    let notice = value[0].as_str().unwrap();
    assert!(notice.starts_with("The 1 pairs"), "{notice}");
}
