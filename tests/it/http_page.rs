//! The page of dedup-query serve: a document goes in, a report comes out.

use crate::{
    http_client::{HttpServer, Reply},
    test_dir::{TestDir, root},
};
use serde_json::{Value, json};
use std::{
    io::Write,
    process::{Command, Stdio},
};

const SHARED: &str = "it was the best of times it was the worst of times it was the age of wisdom it was the age of foolishness it was the epoch of belief";

fn served(more: &[&str]) -> (TestDir, HttpServer) {
    let dir = TestDir::with(&[
        (
            "docs/dickens.txt",
            format!("A tale. {SHARED}. And more of it."),
        ),
        (
            "docs/evil.txt",
            format!(
                "<script>document.title = 'ran'</script><img src=x onerror=\"document.title='ran'\"> {SHARED} indeed"
            ),
        ),
        (
            "docs/other.txt",
            "call me ishmael some years ago never mind how long precisely".to_owned(),
        ),
    ]);
    dir.run(
        "dedup-index",
        &["build", "-q", "-o", "my.idx", "--relative", "docs"],
    )
    .ok();
    let arguments = [&["--index", "my.idx", "--corpus", "docs"], more].concat();
    let server = HttpServer::start(&dir, &arguments);
    (dir, server)
}

/// Sends the form.
fn send(
    server: &HttpServer,
    fields: &[(&str, Option<&str>, &[u8])],
    headers: &[(&str, &str)],
) -> Reply {
    let mut body = Vec::new();
    for (name, file, content) in fields {
        let file = file
            .map(|file| format!("; filename=\"{file}\""))
            .unwrap_or_default();
        body.extend_from_slice(
            format!("--B\r\ncontent-disposition: form-data; name=\"{name}\"{file}\r\n\r\n")
                .as_bytes(),
        );
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--B--\r\n");
    let kind = [("content-type", "multipart/form-data; boundary=B")];
    server.request("POST", "/documents", &[&kind, headers].concat(), &body)
}

/// Opens a page and runs a script in it; none where no browser is installed.
fn browse(url: &str, size: [&str; 3], script: &str) -> Option<Value> {
    let mut command = Command::new("python3");
    command
        .arg(root().join("tests/it/browser.py"))
        .arg(url)
        .args(size);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(script.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    if output.status.code() == Some(77) {
        eprintln!("skipped: no browser; scripts/dev/install-deps installs chromium");
        return None;
    }
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["said"], json!([]), "{url}");
    Some(answer["value"].clone())
}

#[test]
fn a_document_becomes_a_page_of_its_sources() {
    let (_dir, server) = served(&[]);
    let essay = format!("My essay. {SHARED}! The end.");
    let sent = send(
        &server,
        &[
            ("index", None, b"my"),
            ("text", None, b""),
            (
                "file",
                Some("../essay.html"),
                format!("<p>{essay}</p>").as_bytes(),
            ),
        ],
        &[("sec-fetch-site", "same-origin")],
    );
    assert_eq!((sent.status, sent.text().as_str()), (303, ""));
    let page = sent.header("location").unwrap().to_owned();
    assert_eq!(page.len(), "/documents/".len() + 32);
    let reply = server.get(&page);
    let html = reply.text();
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    for part in [
        "essay.html (your document)",
        "dickens.txt",
        "evil.txt",
        "This page is kept for 24 hours",
        "Another document",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("other.txt") && !html.contains("<script>document.title"));
    let script = "await new Promise((done) => setTimeout(done, 0));
        for (let frame = 0; frame < 6; frame++) await new Promise(requestAnimationFrame);
        return [document.title, document.querySelectorAll('.sources li').length, document.querySelector('.kept').innerText.startsWith('This page is kept'),
            document.querySelectorAll('#left mark').length > 0, document.documentElement.scrollWidth <= innerWidth, document.querySelector('.back').getAttribute('href'),
            ['left', 'right'].every((side) => document.getElementById(side).offsetWidth > Math.min(innerWidth - 20, innerWidth / 4))];";
    let url = format!("http://{}{page}", server.address);
    for size in [
        ["1200", "800", "light"],
        ["1200", "800", "dark"],
        ["390", "800", "light"],
    ] {
        let Some(value) = browse(&url, size, script) else {
            return;
        };
        assert_eq!(
            value,
            json!([
                "essay.html (your document) and its sources",
                2,
                true,
                true,
                true,
                "/",
                true
            ]),
            "{size:?}"
        );
    }
}

#[test]
fn the_form_can_be_used_by_everyone() {
    let (_dir, server) = served(&["--index", "second=my.idx"]);
    let script = "
        const form = document.querySelector('form'), file = document.getElementById('file'), sent = [];
        form.requestSubmit = () => sent.push(file.files.length ? file.files[0].name : 'text');
        const labels = [...document.querySelectorAll('input:not([type=hidden]), textarea, select')].every((field) => field.labels.length === 1);
        const transfer = new DataTransfer();
        transfer.items.add(new File(['x'], 'dropped.txt'));
        window.dispatchEvent(new DragEvent('drop', { dataTransfer: transfer, cancelable: true }));
        file.value = '';
        document.getElementById('text').dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', ctrlKey: true }));
        const order = [...form.elements].filter((field) => field.tabIndex >= 0).map((field) => field.id || field.type);
        const isWithin = document.documentElement.scrollWidth <= innerWidth;
        return [document.documentElement.lang, labels, sent, order, [...document.querySelectorAll('option')].map((option) => option.value), isWithin, form.action.endsWith('/documents')];";
    let url = format!("http://{}/", server.address);
    for size in [["1200", "800", "light"], ["390", "800", "dark"]] {
        let Some(value) = browse(&url, size, script) else {
            return;
        };
        assert_eq!(
            value,
            json!([
                "en",
                true,
                ["dropped.txt", "text"],
                ["index", "file", "text", "submit"],
                ["my", "second"],
                true,
                true
            ])
        );
    }
}

#[test]
fn what_cannot_be_read_is_said_on_the_page() {
    let (_dir, server) = served(&[]);
    let refused = |fields: &[(&str, Option<&str>, &[u8])], status| {
        let reply = send(&server, fields, &[]);
        assert_eq!(reply.status, status);
        let html = reply.text();
        let start = html.find("<p role=\"alert\">").unwrap();
        html[start + "<p role=\"alert\">".len()..]
            .split("</p>")
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        refused(&[("text", None, b" \n")], 400),
        "there is no document: choose a file, or paste a text"
    );
    let image = refused(
        &[("file", Some("x.png"), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")],
        400,
    );
    assert!(image.starts_with("x.png: "), "{image}");
    let hostile = refused(&[("index", None, b"<script>"), ("text", None, b"a")], 400);
    assert!(
        hostile.contains("&lt;script&gt;") && !hostile.contains("<script>"),
        "{hostile}"
    );
    let other = send(
        &server,
        &[("text", None, b"a")],
        &[("sec-fetch-site", "cross-site")],
    );
    assert_eq!(other.status, 403);
    let gone = server.get("/documents/00000000000000000000000000000000");
    assert!(gone.status == 404 && gone.text().contains("This page is gone"));
    // Without texts there is nothing to show.
    let dir = TestDir::new();
    let server = HttpServer::start(&dir, &["--history", "h"]);
    assert!(
        server
            .get("/")
            .text()
            .contains("This server has no index whose documents it can show")
    );
}
