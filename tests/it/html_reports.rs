//! HTML reports: the files that are written, and their behaviour in a real browser.

use crate::{
    browser::{browse, browse_quietly, prose},
    test_dir::TestDir,
};
use dedup::{
    align::{AlignOptions, PreparedText, align},
    report::html::DocumentPage,
};
use serde_json::json;
use std::fs;

/// Two long texts with three common passages of 60 words, in different order, and an unrelated
/// text.
fn fixture() -> TestDir {
    let [one, two, three] = [1, 2, 3].map(|seed| prose(seed, 60));
    let far = |seed| prose(seed, 900);
    TestDir::with(&[
        (
            "essay.txt",
            [&far(11), &one, &far(12), &two, &far(13), &three, &far(14)]
                .map(|part| part.as_str())
                .join("\n\n"),
        ),
        (
            "source.txt",
            [&far(21), &three, &far(22), &one, &far(23), &two, &far(24)]
                .map(|part| part.as_str())
                .join("\n\n"),
        ),
        ("short.txt", format!("{} {two}", prose(31, 20))),
        ("other.txt", prose(41, 300)),
        (
            "pairs",
            "essay.txt\tsource.txt\nessay.txt\tother.txt\nshort.txt\tessay.txt\n".to_owned(),
        ),
    ])
}

/// Checks that the directory has an overview and the pages of three pairs, and nothing else but these.
#[track_caller]
fn ensure_pages_of_three_pairs(dir: &TestDir, report: &str, others: &[&str]) {
    let entries = fs::read_dir(dir.path(report)).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    let pages = ["pair-000001.html", "pair-000002.html", "pair-000003.html"];
    assert_eq!(names, [others, &["index.html"], &pages[..]].concat());
}

#[test]
fn the_overview_shows_what_was_read_and_what_was_left_out() {
    let dir = TestDir::with(&[
        ("c/a.txt", prose(1, 200).into_bytes()),
        ("c/b.txt", prose(1, 200).into_bytes()),
        ("c/old.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".to_vec()),
    ]);
    dir.shell("dedup-extract report -q --skip-bad c -o report 2> /dev/null")
        .ok();
    let script = "const input = document.getElementById('input'); input.scrollIntoView(); await settled();
        const cells = [...input.querySelectorAll('td')].map((cell) => cell.innerText);
        const isWithin = [...input.querySelectorAll('td')].every((cell) => cell.getBoundingClientRect().right <= innerWidth);
        return [cells, isWithin, input.innerText.split('\\n')[0]];";
    let Some(value) = browse_quietly(&dir, "report/index.html", script) else {
        return;
    };
    let cells = json!([
        "text",
        "2",
        "read",
        "doc, xls or ppt",
        "1",
        "left out; save it as docx or PDF"
    ]);
    assert_eq!(value, json!([cells, true, "What was read"]));
}

#[test]
fn a_report_has_an_overview_and_one_page_per_pair() {
    let dir = fixture();
    let ran = dir.run(
        "dedup-query",
        &["align", "--pairs", "pairs", "--html", "new/report"],
    );
    assert_eq!(
        (ran.code(), ran.stderr().as_str(), ran.stdout().as_str()),
        (0, "", "")
    );
    ensure_pages_of_three_pairs(&dir, "new/report", &[]);
    for threads in ["1", "8"] {
        dir.run_with(
            "dedup-query",
            &[
                "align",
                "--pairs",
                "pairs",
                "--html",
                threads,
                "--threads",
                threads,
            ],
            b"",
        )
        .ok();
        for name in ["index.html", "pair-000003.html"] {
            assert_eq!(
                dir.read(&format!("{threads}/{name}")),
                dir.read(&format!("new/report/{name}")),
                "{threads} threads"
            );
        }
    }
    let page = String::from_utf8(dir.read("new/report/pair-000001.html")).unwrap();
    for address in ["http:", "https:", "src=", "url(", "@import"] {
        assert!(
            !page.contains(address),
            "a page must not fetch anything, but has {address}"
        );
    }
    let none = dir.run_with(
        "dedup-query",
        &["align", "--pairs", "-", "--html", "none"],
        b"essay.txt\tother.txt\n",
    );
    assert_eq!((none.code(), none.stderr().as_str()), (1, ""));
    assert!(dir.path("none/pair-000001.html").exists());
}

#[test]
fn errors_name_the_page_that_cannot_be_written() {
    let dir = fixture();
    dir.write("file", "");
    let ran = dir.run(
        "dedup-query",
        &["align", "--pairs", "pairs", "--html", "file"],
    );
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (2, "dedup-query: file: File exists (os error 17)\n")
    );
    for arguments in [
        &["--html", "x", "-o", "y"][..],
        &["--html", "x", "--format", "pan-xml"],
        &["--html", "x", "--chars"],
    ] {
        assert_eq!(
            dir.run(
                "dedup-query",
                &[&["align", "--pairs", "pairs"], arguments].concat()
            )
            .code(),
            2,
            "{arguments:?}"
        );
    }
    assert_eq!(dir.run("dedup-query", &["my.idx", "--html", "x"]).code(), 2);
    let ran = dir.run_with(
        "dedup-query",
        &["align", "--pairs", "-", "--html", "part"],
        b"essay.txt\tgone.txt\nshort.txt\tessay.txt\n",
    );
    assert_eq!(
        (ran.code(), ran.stderr().as_str()),
        (
            2,
            "dedup-query: gone.txt: No such file or directory (os error 2)\n"
        )
    );
    assert!(
        dir.path("part/pair-000001.html").exists() && !dir.path("part/pair-000002.html").exists()
    );
}

#[test]
fn clicking_a_passage_scrolls_the_other_side_to_it() {
    let dir = fixture();
    dir.run(
        "dedup-query",
        &["align", "--pairs", "pairs", "--html", "report"],
    )
    .ok();
    let script = "await settled();
        const seen = [];
        const note = () => seen.push(['left', 'right'].map((id) => [1, 2, 3].map((number) => {
            const at = place(id, number);
            return at && at.isSeen && at.isActive;
        }).indexOf(true) + 1));
        note();
        const click = (id, number) => {
            place(id, number).mark.scrollIntoView({ block: 'center' });
            const { mark } = place(id, number), clientY = mark.getBoundingClientRect().top + 1;
            mark.dispatchEvent(new MouseEvent('click', { clientY, bubbles: true }));
        };
        click('left', 2); await settled(); note();
        const level = Math.abs(place('left', 2).top - place('right', 2).top) <= 1;
        click('right', 3); await settled(); note();
        key('n'); await settled(); note();
        key('p'); await settled(); note();
        const tick = document.querySelector('#right .map i:nth-child(2)'), clientY = tick.getBoundingClientRect().top + 1;
        tick.dispatchEvent(new MouseEvent('click', { clientY, bubbles: true })); await settled(); note();
        return { seen, level, line: document.getElementById('passage').textContent, hash: location.hash };";
    let Some(value) = browse_quietly(&dir, "report/pair-000001.html", script) else {
        return;
    };
    assert_eq!(
        value["seen"],
        json!([[1, 1], [2, 2], [3, 3], [1, 1], [3, 3], [2, 2]])
    );
    assert_eq!(
        (&value["level"], &value["hash"]),
        (&json!(true), &json!("#2"))
    );
    assert_eq!(
        value["line"],
        "2 of 3 · verbatim · 60 words in common · 100% alike"
    );
}

#[test]
fn sides_scroll_together_and_folds_open() {
    let dir = fixture();
    dir.run(
        "dedup-query",
        &["align", "--pairs", "pairs", "--html", "report"],
    )
    .ok();
    let script = "await settled();
        const folds = [...document.querySelectorAll('#left .fold')].map((fold) => fold.textContent);
        // A reader scrolls the left side until the second passage is at eye level.
        side('left').dispatchEvent(new WheelEvent('wheel'));
        const at = place('left', 2);
        side('left').scrollTop += at.top - 200;
        await settled(); await settled();
        const tops = ['left', 'right'].map((id) => place(id, 2).top);
        const isTogether = Math.abs(tops[0] - tops[1]) < 60;
        document.querySelector('#left .fold').click(); await settled();
        const isOpen = document.querySelectorAll('#left .fold').length === folds.length - 1;
        key('e'); await settled();
        const left = document.querySelectorAll('.fold').length;
        key('?');
        const [help, close] = ['#help', '#help form button'].map((name) => document.querySelector(name));
        const isHelp = help.open;
        close.click();
        key('t');
        return { folds, tops, isTogether, isOpen, left, help: isHelp && !help.open, theme: document.documentElement.dataset.theme, blocks: side('left').querySelectorAll('.block').length };";
    let Some(value) = browse_quietly(&dir, "report/pair-000001.html", script) else {
        return;
    };
    let words: Vec<u32> = value["folds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fold| {
            fold.as_str()
                .unwrap()
                .split(' ')
                .next()
                .unwrap()
                .parse()
                .unwrap()
        })
        .collect();
    assert_eq!(words.len(), 4);
    assert!(
        words.iter().all(|words| (750..900).contains(words)),
        "{words:?}"
    );
    assert_eq!(
        [&value["isTogether"], &value["isOpen"], &value["help"]],
        [&json!(true); 3],
        "{value}"
    );
    assert_eq!(
        (&value["left"], &value["theme"]),
        (&json!(0), &json!("dark"))
    );
}

/// The page of a document with many sources, made by the library.
#[test]
fn sources_are_chosen_from_a_list() {
    let (dir, options) = (TestDir::new(), AlignOptions::default());
    let [one, two] = [1, 2].map(|seed| prose(seed, 60));
    let document = PreparedText::new(
        format!(
            "{} {one} {} {two} {}",
            prose(11, 400),
            prose(12, 400),
            prose(13, 400)
        ),
        &options,
    );
    let mut page = DocumentPage::new("essay", &document);
    for (id, text) in [
        ("first", prose(1, 30)),
        ("second", format!("{} {two}", prose(22, 100))),
        ("third", format!("{one} {}", prose(23, 9))),
    ] {
        let source = PreparedText::new(text, &options);
        page.add_source(id, &source, &align(&document, &source, &options))
            .unwrap();
    }
    let mut html = Vec::new();
    page.write(&mut html).unwrap();
    dir.write("page.html", html);
    let script = "await settled();
        const seen = [];
        const note = () => seen.push([document.querySelector('#right h2 bdi').textContent, side('left').querySelectorAll('mark').length, document.getElementById('passage').textContent.slice(0, 12)]);
        note();
        document.querySelectorAll('.sources button')[1].click(); await settled(); note();
        // A passage of another source is underlined, and a click leads there.
        side('left').querySelector('.other').click(); await settled(); note();
        key(']'); await settled(); note();
        key(']'); await settled(); note();
        const names = [...document.querySelectorAll('.sources .name')].map((name) => name.textContent);
        dispatchEvent(new Event('beforeprint'));
        return { seen, names, printed: document.querySelectorAll('#printed .both p').length };";
    let Some(value) = browse_quietly(&dir, "page.html", script) else {
        return;
    };
    assert_eq!(
        value["names"],
        json!(["second", "third", "first"]),
        "what the first has, the third has as well"
    );
    let seen: Vec<&str> = value["seen"]
        .as_array()
        .unwrap()
        .iter()
        .map(|state| state[0].as_str().unwrap())
        .collect();
    assert_eq!(seen, ["second", "third", "second", "third", "first"]);
    assert!(
        value["seen"]
            .as_array()
            .unwrap()
            .iter()
            .all(|state| state[1].as_u64() > Some(0) && state[2] == "1 · verbatim"),
        "{value}"
    );
    assert_eq!(value["printed"], 2);
}

#[test]
fn the_table_sorts_and_filters() {
    let dir = fixture();
    dir.run(
        "dedup-query",
        &["align", "--pairs", "pairs", "--html", "report"],
    )
    .ok();
    let script = "const rows = () => [...document.querySelectorAll('#pairs tbody tr')].map((row) => row.cells[0].textContent + ' ' + row.cells[1].textContent);
        const sort = (name) => [...document.querySelectorAll('th button')].find((button) => button.textContent === name).click();
        const seen = [rows()];
        sort('Passages'); seen.push(rows());
        sort('Passages'); seen.push(rows());
        sort('Second text'); seen.push(rows());
        document.querySelector('.bin[data-bin=\"0\"]').dispatchEvent(new MouseEvent('click')); seen.push(rows());
        document.getElementById('clear').click();
        document.querySelectorAll('.node')[1].dispatchEvent(new MouseEvent('click')); seen.push(rows());
        document.getElementById('clear').click();
        const name = document.getElementById('name');
        name.value = 'SOUR'; name.dispatchEvent(new Event('input')); seen.push(rows());
        return { seen, shown: document.getElementById('pairs-shown').textContent, nodes: document.querySelectorAll('.node').length,
                 link: document.querySelector('#pairs tbody a').getAttribute('href') };";
    let Some(value) = browse_quietly(&dir, "report/index.html", script) else {
        return;
    };
    let (source, other, short) = (
        "essay.txt source.txt",
        "essay.txt other.txt",
        "short.txt essay.txt",
    );
    assert_eq!(
        value["seen"],
        json!([
            [short, source, other],
            [source, short, other],
            [other, short, source],
            [short, other, source],
            [source],
            [short],
            [source]
        ])
    );
    assert_eq!(
        (&value["shown"], &value["nodes"], &value["link"]),
        (
            &json!("1 of 3 pairs"),
            &json!(2),
            &json!("pair-000001.html")
        )
    );
}

#[test]
fn hostile_documents_are_shown_as_text() {
    let attack = "</script><script>window.owned = 1</script><!--<script><img src=x onerror='window.owned = 2'>\"'><svg onload=alert(3)> ]]> \u{2028} \0 \u{202e}";
    let text = format!("{attack} {} {attack}", prose(7, 40));
    let (one, two) = (
        "x</script><script>window.owned=4<!--<img src=x onerror=alert(5)>\"'.txt",
        "\u{202e}txt.b<svg onload=alert(6)>",
    );
    let dir = TestDir::with(&[
        (one, &text),
        (two, &text),
        ("pairs", &format!("{one}\t{two}\n")),
    ]);
    dir.run(
        "dedup-query",
        &["align", "--pairs", "pairs", "--html", "report"],
    )
    .ok();
    let names: Vec<_> = fs::read_dir(dir.path("report"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    for page in ["report/pair-000001.html", "report/index.html"] {
        let script = "await settled();
            document.querySelector('mark, .node')?.dispatchEvent(new MouseEvent('click', { bubbles: true })); await settled();
            dispatchEvent(new Event('beforeprint')); await settled();
            const count = (name) => document.querySelectorAll(name).length;
            return { owned: window.owned ?? 0, images: count('img'), loads: count('[onload], [onerror]'), scripts: count('script:not([type])'),
                     text: document.querySelector('#left .text, tbody').textContent };";
        let Some(value) = browse_quietly(&dir, page, script) else {
            return;
        };
        assert_eq!(value["scripts"], 1, "our own");
        assert_eq!(
            [&value["owned"], &value["images"], &value["loads"]],
            [&json!(0); 3],
            "{page}"
        );
        let shown = value["text"].as_str().unwrap();
        assert!(
            shown.contains("<script>window.owned")
                && shown.contains("⟦RLO⟧")
                && !shown.contains('\u{202e}'),
            "{shown}"
        );
    }
    // If a script had got through, the content security policy would have stopped it.
    let script = "const script = document.createElement('script');
        script.textContent = 'window.owned = 7';
        document.body.append(script);
        document.body.insertAdjacentHTML('beforeend', '<p onclick=\"window.owned = 8\">');
        document.body.lastChild.click();
        const fetched = await fetch('index.html').then(() => true, () => false);
        return [window.owned ?? 0, fetched];";
    let Some((value, messages)) = browse(&dir, "report/pair-000001.html", script) else {
        return;
    };
    assert_eq!(value, json!([0, false]));
    assert!(
        !messages.as_array().unwrap().is_empty(),
        "a script was not refused"
    );
}

#[test]
fn a_query_makes_a_page_of_one_document() {
    let dir = fixture();
    dir.shell("dedup-index build -q -o my.idx source.txt short.txt other.txt")
        .ok();
    dir.run(
        "dedup-query",
        &["my.idx", "essay.txt", "--html", "essay.html"],
    )
    .ok();
    let page = fs::read_to_string(dir.path("essay.html")).unwrap();
    assert!(
        ["essay.txt", "source.txt", "short.txt"]
            .iter()
            .all(|id| page.contains(id))
            && !page.contains("other.txt")
    );
    let ran = dir.run(
        "dedup-query",
        &["my.idx", "essay.txt", "short.txt", "--html", "two.html"],
    );
    assert_eq!(
        (
            ran.code(),
            ran.stderr().contains("a page is of one document")
        ),
        (2, true),
        "{}",
        ran.stderr()
    );
    assert!(!dir.path("two.html").exists());
}

#[test]
fn pairs_of_an_index_become_pages() {
    let dir = fixture();
    dir.shell("dedup-index build -q -o my.idx essay.txt source.txt short.txt other.txt")
        .ok();
    let extract = |arguments: &[&str]| {
        dir.run(
            "dedup-extract",
            &[
                arguments,
                &["my.idx", "--score", "containment", "--threshold", "0.01"],
            ]
            .concat(),
        )
    };
    let ran = extract(&["report", "-o", "report"]);
    let summary = "dedup-extract: checked 4 documents, found 3 pairs; pages for 3 pairs and 3 documents: open report/index.html\n";
    assert_eq!(
        (ran.code(), ran.stderr().as_str(), ran.stdout().as_str()),
        (0, summary, "")
    );
    let documents = [
        "document-000001.html",
        "document-000002.html",
        "document-000003.html",
    ];
    ensure_pages_of_three_pairs(&dir, "report", &documents);
    for threads in ["1", "8"] {
        extract(&["report", "-q", "-o", threads, "--threads", threads]).ok();
        for name in ["index.html", "pair-000002.html", "document-000001.html"] {
            assert_eq!(
                dir.read(&format!("{threads}/{name}")),
                dir.read(&format!("report/{name}")),
                "{threads} threads"
            );
        }
    }
    let script = "await settled();
        const rows = [...document.querySelectorAll('#pairs tbody tr')].map((row) => row.cells[0].textContent + ' ' + row.cells[1].textContent);
        return { rows, notice: document.getElementById('notice')?.textContent ?? null, nodes: document.querySelectorAll('.node').length,
                 title: document.querySelector('h1').textContent, bars: document.querySelectorAll('.bin').length };";
    let Some(value) = browse_quietly(&dir, "report/index.html", script) else {
        return;
    };
    assert_eq!(
        value["rows"],
        json!([
            "essay.txt short.txt",
            "short.txt source.txt",
            "essay.txt source.txt"
        ])
    );
    assert_eq!(
        (&value["notice"], &value["nodes"], &value["bars"]),
        (&json!(null), &json!(3), &json!(20))
    );
    assert_eq!(value["title"], "Shared passages in my.idx");
    // The first page is that of the pair with the highest score.
    let script = "await settled(); return [document.title, [...document.querySelectorAll('h2 bdi')].map((name) => name.textContent), document.querySelector('.back').getAttribute('href')];";
    let Some(value) = browse_quietly(&dir, "report/pair-000001.html", script) else {
        return;
    };
    assert_eq!(
        value,
        json!([
            "essay.txt and short.txt",
            ["essay.txt", "short.txt"],
            "index.html"
        ])
    );
    let cut = extract(&["report", "-o", "cut", "--top", "1"]);
    assert_eq!(
        (cut.code(), cut.stderr().as_str()),
        (
            0,
            "dedup-extract: checked 4 documents, found 3 pairs; pages for 1 pair and 1 document: open cut/index.html\n"
        )
    );
    assert!(!dir.path("cut/pair-000002.html").exists());
    let Some(value) = browse_quietly(
        &dir,
        "cut/index.html",
        "return document.getElementById('notice').getBoundingClientRect().height > 10 && document.getElementById('notice').textContent;",
    ) else {
        return;
    };
    assert!(
        value.as_str().unwrap().starts_with(
            "The 1 pairs with the highest scores have a page, of 3; --top and --max-size make more"
        ),
        "{value}"
    );
}

#[test]
fn hostile_documents_of_an_index_are_shown_as_text() {
    let attack = "</script><script>window.owned = 1</script><!--<script><img src=x onerror='window.owned = 2'>\"'>";
    let text = format!("{attack} {} “{} {attack}”", prose(7, 40), prose(8, 12));
    let (one, two) = (
        "x<svg onload=alert(6)>\"'.txt",
        "\u{202e}txt.b<img src=x onerror=alert(5)>",
    );
    let dir = TestDir::with(&[(one, &text), (two, &text)]);
    dir.run(
        "dedup-index",
        &["build", "-q", "-o", "<script>alert(7)<!--.idx", one, two],
    )
    .ok();
    dir.run(
        "dedup-extract",
        &[
            "report",
            "<script>alert(7)<!--.idx",
            "-q",
            "-o",
            "report",
            "--exclude-quotes",
        ],
    )
    .ok();
    for page in ["report/index.html", "report/pair-000001.html"] {
        let script = "await settled();
            const count = (name) => document.querySelectorAll(name).length;
            return [window.owned ?? 0, count('img'), count('[onload], [onerror]'), count('script:not([type])')];";
        let Some(value) = browse_quietly(&dir, page, script) else {
            return;
        };
        assert_eq!(value, json!([0, 0, 0, 1]), "{page}");
    }
}

#[test]
fn excluded_text_is_grey_and_explained() {
    let (quoted, copied) = (prose(1, 30), prose(2, 40));
    let dir = TestDir::with(&[
        (
            "a.txt",
            format!("{} “{}” {copied}", prose(11, 20), quoted.trim()),
        ),
        ("b.txt", format!("{} {quoted} {copied}", prose(12, 20))),
        ("pairs", "a.txt\tb.txt\n".to_owned()),
    ]);
    dir.run(
        "dedup-query",
        &[
            "align",
            "--pairs",
            "pairs",
            "--html",
            "report",
            "--exclude-quotes",
        ],
    )
    .ok();
    let script = "await settled();
        const out = [...document.querySelectorAll('#left .out')];
        const colour = (element) => getComputedStyle(element).color;
        return { text: out.map((part) => part.textContent).join(''), why: out[0].title, right: document.querySelectorAll('#right .out').length,
                 isGrey: colour(out[0]) !== colour(document.querySelector('#left .text')), tiles: [...document.querySelectorAll('.numbers dd')].map((tile) => tile.textContent), words: [...document.querySelectorAll('h2 small')].map((words) => words.textContent) };";
    let Some(value) = browse_quietly(&dir, "report/pair-000001.html", script) else {
        return;
    };
    assert_eq!(
        value["text"].as_str().unwrap().split_whitespace().count(),
        30
    );
    assert_eq!(
        (&value["why"], &value["right"], &value["isGrey"]),
        (
            &json!("Not counted: in quotations"),
            &json!(0),
            &json!(true)
        )
    );
    // 40 of the 60 remaining words; 40 of 90; one passage of 40 words.
    assert_eq!(value["tiles"], json!(["67%", "44%", "1", "40"]));
    assert_eq!(value["words"], json!(["60 of 90 words count", "90 words"]));
}
