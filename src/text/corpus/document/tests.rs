//! Small files of each kind, made here, and files of the programs that people use, in testdata/corpus-kinds.

use std::io::{Cursor, Write};

use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use super::*;

const MOST: u64 = 1 << 20;

fn zip_of(parts: &[(&str, &str)], method: CompressionMethod) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in parts {
        let options = SimpleFileOptions::default().compression_method(method);
        writer.start_file(*name, options).unwrap();
        writer.write_all(text.as_bytes()).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn zip(parts: &[(&str, &str)]) -> Vec<u8> {
    zip_of(parts, CompressionMethod::Deflated)
}

fn kind_named(bytes: &[u8], name: &str) -> Option<&'static str> {
    let head = &bytes[..bytes.len().min(8192)];
    kind_of(head, Path::new(name)).map(DocumentKind::name)
}

fn extract(bytes: &[u8], name: &str) -> Result<String, ExtractError> {
    let head = &bytes[..bytes.len().min(8192)];
    let kind = kind_of(head, Path::new(name)).expect("a kind");
    kind.extract(bytes, MOST)
}

const RELS: &str = r#"<Relationships><Relationship Id="r1" Type="http://x/officeDocument" Target="/word/document.xml"/></Relationships>"#;

fn docx_with(body: &str, others: &[(&str, &str)]) -> Vec<u8> {
    let document = format!("<w:document xmlns:w='w'><w:body>{body}</w:body></w:document>");
    let mut parts = vec![("[Content_Types].xml", "<Types/>"), ("_rels/.rels", RELS)];
    parts.push(("word/document.xml", &document));
    parts.extend(others);
    zip(&parts)
}

fn docx(body: &str) -> String {
    extract(&docx_with(body, &[]), "a.docx").unwrap()
}

fn odt(body: &str) -> String {
    let content = format!(
        "<office:document-content xmlns:office='o'><office:automatic-styles><text:p>style</text:p></office:automatic-styles><office:body><office:text>{body}</office:text></office:body></office:document-content>"
    );
    let bytes = zip_of(
        &[
            ("mimetype", "application/vnd.oasis.opendocument.text"),
            ("content.xml", &content),
        ],
        CompressionMethod::Stored,
    );
    assert_eq!(kind_named(&bytes, "any"), Some("odt"));
    extract(&bytes, "any").unwrap()
}

fn rtf(body: &str) -> String {
    extract(
        format!("{{\\rtf1\\ansi\\ansicpg1252 {body}}}").as_bytes(),
        "a",
    )
    .unwrap()
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// The programs that wrote the samples put the same text into each; `scripts/dev/make-document-samples` makes them.
#[test]
fn samples_of_all_programs_have_the_same_words() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/corpus-kinds");
    let expected = std::fs::read_to_string(folder.join("expected.txt")).unwrap();
    let mut found = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        // The others are texts, tables and web archives.
        let Some(kind) = kind_named(&bytes, name) else {
            continue;
        };
        let extension = path.extension().unwrap().to_str().unwrap();
        assert!(extension == kind || extension == "fodt", "{name}: {kind}");
        if extension != "html" && extension != "ipynb" {
            assert_eq!(kind_named(&bytes, "no-extension"), Some(kind), "{name}");
        }
        let text = extract(&bytes, name).unwrap();
        let expected = match name {
            // The page with the title, the title of the page, and how pandoc writes notes on slides.
            "pandoc.epub" => format!("Another title\n{expected}"),
            "pandoc.html" => format!("Tides at the old harbour\n{expected}"),
            "pandoc.pptx" => expected
                .replace("in red.", "in red. 1")
                .replace("The tables of", "Notes 1 The tables of"),
            "jupyter.ipynb" => expected.replace("unusual", "un usual"),
            _ => expected.clone(),
        };
        assert_eq!(words(&text), words(&expected), "{name}: {text}");
        found += 1;
    }
    assert_eq!(found, 14);
}

#[test]
fn kinds_are_recognised_by_content_and_plain_archives_are_not() {
    let plain = zip(&[("password/list.txt", "word/ ppt/ xl/"), ("word/a.txt", "x")]);
    assert_eq!(kind_named(&plain, "a.zip"), None);
    assert_eq!(kind_named(&plain, "a.docx"), Some("docx"));
    let folder = zip(&[("word/a.txt", "x"), ("ppt/b.txt", "x")]);
    assert_eq!(kind_named(&folder, "a.zip"), None);
    assert_eq!(kind_named(&docx_with("", &[]), "a.zip"), Some("docx"));
    assert_eq!(kind_named(&docx_with("", &[]), "a.pptx"), Some("docx"));
    let sheet = zip(&[
        ("[Content_Types].xml", "<Types/>"),
        ("xl/workbook.xml", "<x/>"),
    ]);
    assert_eq!(kind_named(&sheet, "a.xlsx"), None);
    let book = zip(&[("META-INF/container.xml", "<container/>")]);
    assert_eq!(kind_named(&book, "a.zip"), Some("epub"));
    for (head, name, kind) in [
        ("<!DOCTYPE html><p>", "a", Some("html")),
        (
            "\u{feff} \n<!-- c --><HTML lang='en'>",
            "a.txt",
            Some("html"),
        ),
        (
            "<?xml version='1.0'?>\n<!DOCTYPE html PUBLIC \"\">",
            "a.xml",
            Some("html"),
        ),
        ("<?xml version='1.0'?><html xmlns='x'>", "a", Some("html")),
        ("<p>a fragment", "a.HTM", Some("html")),
        ("<p>a fragment", "a.txt", None),
        ("<htmlish>", "a", None),
        ("text", "a.docx", None),
        ("{\\rtf1 x}", "a.doc", Some("rtf")),
        (
            "{\"cells\": [{\"cell_type\": \"code\"}]}",
            "a.json",
            Some("ipynb"),
        ),
        (
            "{\"id\": 1, \"cells\": [{\"cell_type\": 1}]}",
            "a.json",
            None,
        ),
        ("{\"cells\": [{\"cell_type\": \"code\"}]}", "a.jsonl", None),
        ("{}", "a.ipynb", Some("ipynb")),
    ] {
        assert_eq!(kind_named(head.as_bytes(), name), kind, "{head} {name}");
    }
}

#[test]
fn words_of_a_docx_stay_whole_and_paragraphs_are_lines() {
    let body = "<w:p><w:pPr><w:tabs><w:tab/></w:tabs></w:pPr><w:r><w:t>foo</w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>bar</w:t></w:r>\
        <w:r><w:tab/><w:t>e</w:t><w:noBreakHyphen/><w:t>mail co</w:t><w:softHyphen/><w:t>op</w:t><w:br/><w:t>&lt;x&gt; &amp; &#xe9;&nbsp;&foo; R&D</w:t>\
        <w:sym w:font='Symbol' w:char='F0B7'/><w:instrText>PAGE</w:instrText></w:r></w:p>\
        <w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr></w:tbl>\
        <w:sdt><w:sdtPr><w:showingPlcHdr/></w:sdtPr><w:sdtContent><w:p><w:r><w:t>Click here</w:t></w:r></w:p></w:sdtContent></w:sdt>\
        <w:sdt><w:sdtPr/><w:sdtContent><w:p><w:r><w:t>typed</w:t></w:r></w:p></w:sdtContent></w:sdt>";
    assert_eq!(
        docx(body),
        "foobar\te\u{2011}mail coop\n<x> & é\u{a0}&foo; R&D\na\nb\ntyped\n"
    );
}

#[test]
fn deleted_and_moved_text_of_a_docx_is_left_out() {
    let body = "<w:p><w:pPr><w:rPr><w:del/></w:rPr></w:pPr><w:r><w:t>one </w:t></w:r><w:del><w:r><w:delText>two</w:delText></w:r></w:del>\
        <w:moveFrom><w:r><w:t>three</w:t></w:r></w:moveFrom></w:p><w:p><w:ins><w:r><w:t>four</w:t></w:r></w:ins></w:p>\
        <w:p><w:moveTo><w:r><w:t>three</w:t></w:r></w:moveTo></w:p>";
    assert_eq!(docx(body), "one four\nthree\n");
}

#[test]
fn a_text_box_is_read_once_and_behind_its_paragraph() {
    let text_box = "<w:txbxContent><w:p><w:r><w:t>box</w:t></w:r></w:p><w:p><w:r><w:t>more</w:t></w:r></w:p></w:txbxContent>";
    let body = format!(
        "<w:p><w:r><w:t>be</w:t></w:r><w:r><mc:AlternateContent><mc:Choice Requires='wps'>{text_box}</mc:Choice><mc:Choice>{text_box}</mc:Choice>\
        <mc:Fallback><w:pict>{text_box}</w:pict></mc:Fallback></mc:AlternateContent></w:r><w:r><w:t>fore</w:t></w:r></w:p><w:p><w:r><w:t>after</w:t></w:r></w:p>"
    );
    assert_eq!(docx(&body), "before\nbox\nmore\nafter\n");
}

#[test]
fn notes_of_a_docx_follow_the_body_in_the_order_of_references() {
    let note = |kind: &str, id: u32, text: &str| {
        format!(
            "<w:{kind} w:id='{id}'><w:p><w:r><w:footnoteRef/><w:t> {text}</w:t></w:r></w:p></w:{kind}>"
        )
    };
    let footnotes = format!(
        "<w:footnotes>{}{}{}</w:footnotes>",
        note("footnote", 1, "second"),
        note("footnote", 2, "first"),
        note("footnote", 3, "deleted")
    );
    let endnotes = format!("<w:endnotes>{}</w:endnotes>", note("endnote", 1, "last"));
    let rels = "<Relationships><Relationship Id='a' Type='x/footnotes' Target='footnotes.xml'/><Relationship Id='b' Type='x/endnotes' Target='../word/End%20notes.xml'/></Relationships>";
    let body = "<w:p><w:r><w:t>x</w:t><w:footnoteReference w:id='2'/><w:footnoteReference w:id='1'/><w:endnoteReference w:id='1'/></w:r>\
        <w:del><w:r><w:footnoteReference w:id='3'/></w:r></w:del></w:p><w:p><w:r><w:t>y</w:t></w:r></w:p>";
    let bytes = docx_with(
        body,
        &[
            ("word/_rels/document.xml.rels", rels),
            ("word/footnotes.xml", &footnotes),
            ("word/End notes.xml", &endnotes),
            (
                "word/header1.xml",
                "<w:hdr><w:p><w:r><w:t>header</w:t></w:r></w:p></w:hdr>",
            ),
            ("word/comments.xml", "<w:comments/>"),
        ],
    );
    assert_eq!(
        extract(&bytes, "a.docx").unwrap(),
        "x\ny\nfirst\nsecond\nlast\n"
    );
}

#[test]
fn an_embedded_page_of_a_docx_is_read_and_another_format_is_named() {
    let with = |target: &str| {
        let rels = format!(
            "<Relationships><Relationship Id='c' Type='x/aFChunk' Target='{target}'/></Relationships>"
        );
        let parts = [
            ("word/_rels/document.xml.rels", rels.as_str()),
            (
                "word/c.html",
                "<html><title>t</title><body><p>chunk</body></html>",
            ),
        ];
        extract(&docx_with("<w:altChunk r:id='c'/>", &parts), "a.docx")
    };
    assert_eq!(with("c.html").unwrap(), "chunk\n");
    assert!(
        matches!(with("c.mht"), Err(ExtractError::Damaged(reason)) if reason.starts_with("word/document.xml: "))
    );
}

#[test]
fn text_of_an_odt_follows_its_rules() {
    let body = "<text:tracked-changes><text:changed-region text:id='c1'><text:deletion><text:p>gone</text:p></text:deletion></text:changed-region></text:tracked-changes>\
        <text:h>Head</text:h>\n <text:p>  a \n b<text:s text:c='2'/>c<text:tab/>d<text:line-break/>un<text:span>usual</text:span>\
        <text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>note</text:p></text:note-body></text:note>\
        <office:annotation><text:p>comment</text:p></office:annotation><text:change-start text:change-id='c1'/>inline<text:change-end text:change-id='c1'/>\
        <draw:frame><draw:text-box><text:p>box</text:p></draw:text-box><svg:title>alt</svg:title></draw:frame> end <text:title>T</text:title></text:p>\
        <text:list><text:list-item><text:p><text:number>1.</text:number>item</text:p></text:list-item></text:list>\
        <table:table><table:table-row><table:table-cell><text:p>x</text:p></table:table-cell><table:table-cell><text:p>y</text:p></table:table-cell></table:table-row></table:table>\
        <text:table-of-content-source><text:index-title-template>Contents</text:index-title-template></text:table-of-content-source>";
    assert_eq!(
        odt(body),
        "Head\na b  c\td\nunusual end T\nbox\nitem\nx\ny\nnote\n"
    );
    let huge = odt("<text:p>a<text:s text:c='4000000000'/>b</text:p>");
    assert!(huge.len() < 300);
}

#[test]
fn slides_are_in_the_order_of_the_presentation() {
    let slide = |text: &str| {
        format!(
            "<p:sld><p:sp><p:nvPr><p:ph type='title'/></p:nvPr><p:txBody><a:p><a:pPr><a:tab/></a:pPr><a:r><a:t>{text}</a:t></a:r><a:br/><a:fld type='slidenum'><a:t>7</a:t></a:fld></a:p></p:txBody></p:sp>\
        <p:sp><p:nvPr><p:ph type='ftr'/></p:nvPr><p:txBody><a:p><a:r><a:t>footer</a:t></a:r></a:p></p:txBody></p:sp></p:sld>"
        )
    };
    let (first, second) = (slide("first"), slide("second"));
    let bytes = zip(&[
        ("[Content_Types].xml", "<Types/>"),
        (
            "ppt/presentation.xml",
            "<p:presentation><p:sldIdLst><p:sldId id='256' r:id='r2'/><p:sldId id='257' r:id='r1'/></p:sldIdLst></p:presentation>",
        ),
        (
            "ppt/_rels/presentation.xml.rels",
            "<Relationships><Relationship Id='r1' Type='x/slide' Target='slides/slide1.xml'/><Relationship Id='r2' Type='x/slide' Target='slides/slide2.xml'/></Relationships>",
        ),
        ("ppt/slides/slide1.xml", &second),
        ("ppt/slides/slide2.xml", &first),
        (
            "ppt/slides/_rels/slide2.xml.rels",
            "<Relationships><Relationship Id='r1' Type='x/diagramData' Target='../diagrams/data1.xml'/><Relationship Id='r2' Type='x/notesSlide' Target='../notes.xml'/></Relationships>",
        ),
        (
            "ppt/diagrams/data1.xml",
            "<dgm:dataModel><dgm:pt><dgm:t><a:bodyPr/> <a:p><a:r><a:t>diagram</a:t></a:r></a:p></dgm:t></dgm:pt></dgm:dataModel>",
        ),
        (
            "ppt/notes.xml",
            "<p:notes><a:p><a:r><a:t>notes</a:t></a:r></a:p></p:notes>",
        ),
    ]);
    assert_eq!(kind_named(&bytes, "x"), Some("pptx"));
    assert_eq!(extract(&bytes, "x").unwrap(), "first\ndiagram\nsecond\n");
}

fn epub_with(manifest: &str, others: &[(&str, &str)]) -> Vec<u8> {
    let opf = format!("<package>{manifest}</package>");
    let mut parts = vec![
        ("mimetype", "application/epub+zip"),
        (
            "META-INF/container.xml",
            "<container><rootfiles><rootfile full-path='OEBPS/book.opf'/></rootfiles></container>",
        ),
        ("OEBPS/book.opf", &opf),
    ];
    parts.extend(others);
    zip_of(&parts, CompressionMethod::Stored)
}

const SPINE: &str = "<manifest><item id='a' href='text/p%201.xhtml' media-type='application/xhtml+xml'/><item id='b' href='../b.html' media-type='text/html'/>\
    <item id='n' href='nav.xhtml' media-type='application/xhtml+xml' properties='scripted nav'/><item id='i' href='i.svg' media-type='image/svg+xml'/></manifest>\
    <spine><itemref idref='n'/><itemref idref='b'/><itemref idref='i'/><itemref idref='a' linear='no'/></spine>";

#[test]
fn pages_of_a_book_are_in_the_order_of_the_spine() {
    let pages = [
        (
            "OEBPS/text/p 1.xhtml",
            "<?xml version='1.0' encoding='utf-8'?><html><head><title>t</title></head><body><p>un<i>usual</i><a epub:type=\"noteref\" href='#n'><sup>1</sup></a> end</p></body></html>",
        ),
        (
            "b.html",
            "<html><body><script>x()</script><h1>Eins</h1><p>zwei</body></html>",
        ),
        ("OEBPS/nav.xhtml", "<html><body>contents</body></html>"),
    ];
    assert_eq!(
        extract(&epub_with(SPINE, &pages), "b").unwrap(),
        "Eins\nzwei\nunusual end\n"
    );
    let missing = extract(&epub_with(SPINE, &pages[..1]), "b");
    assert_eq!(
        missing,
        Err(ExtractError::Damaged(
            "b.html: the archive has no such part".to_owned()
        ))
    );
    let drm = (
        "META-INF/encryption.xml",
        "<encryption><EncryptedData><CipherData><CipherReference URI='b.html'/></CipherData></EncryptedData></encryption>",
    );
    let locked = [&pages[..], &[drm]].concat();
    assert_eq!(
        extract(&epub_with(SPINE, &locked), "b"),
        Err(ExtractError::Encrypted)
    );
}

#[test]
fn characters_of_rtf_come_in_many_ways() {
    for (source, text) in [
        (r"Gr\'f6\u223\'dfe", "Größe\n"),
        (
            r"\uc2\u8220 ??x\uc0\u8221 y\uc1\u-10179?\u-8694?",
            "“x”y😊\n",
        ),
        (
            r"{\fonttbl{\f0\fnil\fcharset0 A;}{\f1\fcharset238 B;}{\f2\fcharset128 C;}{\f3\cpg437 D;}}\f0\'e8{\f1\'e8}\'e8\f2\'83\'41\'83A\f3\'81",
            "èčèアアü\n",
        ),
        (
            r"a\~b\_c co\-op\tab x\line y\emdash\ldblquote q\rdblquote",
            "a\u{a0}b\u{2011}c coop\tx\ny—“q”\n",
        ),
        ("one\\\ntwo\r\nthree \\{\\}\\\\", "one\ntwothree {}\\\n"),
        (r"x\bin3 }}}y", "xy\n"),
        (r"a\par\par b\cell c\row", "a\nb\nc\n"),
    ] {
        assert_eq!(rtf(source), text, "{source}");
    }
    assert_eq!(extract(br"{\rtf1\mac \'8a}", "a").unwrap(), "ä\n");
    assert_eq!(
        extract(br"{\rtf1\ansi\ansicpg1251\'cf\'f0}", "a").unwrap(),
        "Пр\n"
    );
}

#[test]
fn destinations_of_rtf_that_are_not_the_body_are_left_out() {
    let source = r"{\stylesheet{\s0 Normal;}}{\*\unknown x{y}}{\info{\title t}}{\header h}{\pict 00ff}{\field{\*\fldinst HYPERLINK}{\fldrslt link}}
{\listtext 1.\tab}un{\b usual}{\*\annotation c}{\deleted gone}{\footnote {\super 1} Note.}{\upr{ansi}{\*\ud{ uni}}}\par{\*\footnote two\par}
{\shp{\*\shpinst{\sp{\sn name}{\sv value}}{\shptxt box\par}}{\shprslt box}}end";
    assert_eq!(rtf(source), "linkunusual uni\nend\nbox\n1 Note.\ntwo\n");
}

#[test]
fn cells_of_notebooks_are_read_without_outputs() {
    let modern = r##"{"cells": [{"cell_type": "markdown", "source": ["# A\n", "b"]}, {"cell_type": "code", "source": "x = 1", "outputs": [{"text": "out"}]}], "nbformat": 4}"##;
    assert_eq!(
        extract(modern.as_bytes(), "a.ipynb").unwrap(),
        "# A\nb\nx = 1\n"
    );
    let old = r#"{"worksheets": [{"cells": [{"cell_type": "heading", "source": "H"}, {"cell_type": "code", "input": ["y"], "outputs": []}]}], "nbformat": 3}"#;
    assert_eq!(extract(old.as_bytes(), "a.ipynb").unwrap(), "H\ny\n");
    for bad in ["{", "{}", "{\"cells\": 1}"] {
        assert!(
            matches!(
                extract(bad.as_bytes(), "a.ipynb"),
                Err(ExtractError::Damaged(_))
            ),
            "{bad}"
        );
    }
}

#[test]
fn pages_are_decoded_by_what_they_declare() {
    for page in [
        &b"<html><meta charset=\"iso-8859-2\"><title>T</title><style>x</style><p>\xe8e</html>"[..],
        b"\xef\xbb\xbf<html><title>T</title><p>\xc4\x8de<script>y</script></html>",
        b"<?xml version='1.0' encoding='windows-1250'?><html><title>T</title><p>\xe8e</p></html>",
    ] {
        assert_eq!(extract(page, "a").unwrap(), "T\nče\n");
    }
    let wide: Vec<u8> = "\u{feff}<html><p>če</p></html>"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    assert_eq!(extract(&wide, "a.html").unwrap(), "če\n");
    assert_eq!(extract(b"<html>caf\xe9", "a").unwrap(), "café\n");
}

#[test]
fn parts_in_utf_16_and_names_with_backslashes_are_read() {
    let text = "\u{feff}<?xml version='1.0' encoding='UTF-16'?><w:document><w:body><w:p><w:r><w:t>wide é</w:t></w:r></w:p></w:body></w:document>";
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    writer
        .start_file(
            "Word\\Document.xml",
            SimpleFileOptions::default().large_file(true),
        )
        .unwrap();
    let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
    writer.write_all(&wide).unwrap();
    let bytes = writer.finish().unwrap().into_inner();
    assert_eq!(extract(&bytes, "a.docx").unwrap(), "wide é\n");
}

#[test]
fn sizes_behind_the_data_of_a_member_are_no_obstacle() {
    let mut writer = ZipWriter::new_stream(Vec::new());
    for (name, text) in [
        ("[Content_Types].xml", "<Types/>"),
        (
            "word/document.xml",
            "<w:document><w:body><w:p><w:r><w:t>x</w:t></w:r></w:p></w:body></w:document>",
        ),
    ] {
        writer
            .start_file(name, SimpleFileOptions::default())
            .unwrap();
        writer.write_all(text.as_bytes()).unwrap();
    }
    let bytes = writer.finish().unwrap().into_inner();
    assert_eq!(kind_named(&bytes, "a"), Some("docx"));
    assert_eq!(extract(&bytes, "a").unwrap(), "x\n");
}

#[test]
fn files_without_a_body_are_damaged() {
    let damaged = |files: &[(&str, &str)], name: &str| match extract(&zip(files), name) {
        Err(ExtractError::Damaged(what)) => what,
        other => panic!("{name}: {other:?}"),
    };
    let document = [("word/document.xml", "<w:document xmlns:w='w'/>")];
    assert_eq!(
        damaged(&document, "a.docx"),
        "word/document.xml: it has no body (w:body)"
    );
    assert_eq!(docx(""), "");
    let slides = [("ppt/presentation.xml", "<p:other/>")];
    assert_eq!(
        damaged(&slides, "a.pptx"),
        "ppt/presentation.xml: it is no presentation (p:presentation)"
    );
    let book = [
        (
            "META-INF/container.xml",
            "<container><rootfile full-path='b.opf'/></container>",
        ),
        ("b.opf", "<package><manifest/></package>"),
    ];
    assert_eq!(damaged(&book, "a.epub"), "b.opf: its spine names no page");
}

#[test]
fn encrypted_files_say_so() {
    let mut ole = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".to_vec();
    ole.extend([0; 600]);
    assert!(
        matches!(extract(&ole, "a.docx"), Err(ExtractError::Damaged(reason)) if reason.contains("old Office"))
    );
    ole.extend("EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes));
    assert_eq!(extract(&ole, "a.docx"), Err(ExtractError::Encrypted));
    assert_eq!(extract(&ole, "a.pptx"), Err(ExtractError::Encrypted));
    assert_eq!(kind_named(&ole, "a.doc"), None);
    let odt = zip(&[
        ("mimetype", "application/vnd.oasis.opendocument.text"),
        (
            "META-INF/manifest.xml",
            "<m:manifest><m:file-entry><m:encryption-data/></m:file-entry></m:manifest>",
        ),
        ("content.xml", "\u{1}\u{2}"),
    ]);
    assert_eq!(extract(&odt, "a.odt"), Err(ExtractError::Encrypted));
    // The flag of encryption in both headers of the member.
    let mut locked = zip(&[("word/document.xml", "<w:document/>")]);
    let directory = memchr::memmem::find(&locked, b"PK\x01\x02").unwrap();
    locked[6] |= 1;
    locked[directory + 8] |= 1;
    assert_eq!(extract(&locked, "a.docx"), Err(ExtractError::Encrypted));
}

#[test]
fn bombs_are_stopped() {
    // 88 MB of markup without text in 90 kB.
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    writer
        .start_file("word/document.xml", SimpleFileOptions::default())
        .unwrap();
    let chunk = "<w:p></w:p>".repeat(100_000);
    for _ in 0..80 {
        writer.write_all(chunk.as_bytes()).unwrap();
    }
    let bomb = writer.finish().unwrap().into_inner();
    assert_eq!(extract(&bomb, "a.docx"), Err(ExtractError::TooLarge));
    // Text above the bound.
    let long = format!("<w:p><w:r><w:t>{}</w:t></w:r></w:p>", "x".repeat(1 << 21));
    assert_eq!(
        extract(&docx_with(&long, &[]), "a.docx"),
        Err(ExtractError::TooLarge)
    );
    // Entities that would multiply.
    let body = "<w:body><w:p><w:r><w:t>x&b;y</w:t></w:r></w:p></w:body>";
    let entities = format!(
        "<?xml version='1.0'?><!DOCTYPE d [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;&a;'>]><w:document>{body}</w:document>"
    );
    assert_eq!(
        extract(&zip(&[("word/document.xml", &entities)]), "a.docx"),
        Err(ExtractError::Damaged(
            "word/document.xml: defines XML entities".to_owned()
        ))
    );
    // An entity that nothing defines stays as it is written.
    assert_eq!(docx("<w:p><w:r><w:t>x&b;y</w:t></w:r></w:p>"), "x&b;y\n");
    // Depth.
    let deep = "<w:p>".repeat(100_000);
    assert!(matches!(
        extract(&docx_with(&deep, &[]), "a.docx"),
        Err(ExtractError::Damaged(_))
    ));
    assert!(matches!(
        extract(format!("{{\\rtf1{}", "{".repeat(100_000)).as_bytes(), "a"),
        Err(ExtractError::Damaged(_))
    ));
    let nested = format!("{{\"cells\": [], \"x\": {}", "[".repeat(100_000));
    assert!(matches!(
        extract(nested.as_bytes(), "a.ipynb"),
        Err(ExtractError::Damaged(_))
    ));
}

#[test]
fn any_cut_of_a_file_is_an_error_or_less_text_but_no_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/corpus-kinds");
    for name in [
        "pandoc.docx",
        "pandoc.odt",
        "ebooklib.epub",
        "pandoc.rtf",
        "jupyter.ipynb",
        "pandoc.html",
    ] {
        let bytes = std::fs::read(folder.join(name)).unwrap();
        let kind = kind_of(&bytes[..bytes.len().min(8192)], Path::new(name)).unwrap();
        for length in (0..bytes.len() - 2).step_by(97) {
            let result = kind.extract(&bytes[..length], MOST);
            assert!(kind.name() == "html" || result.is_err(), "{name} {length}");
        }
        for at in (0..bytes.len()).step_by(53) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            let _ = kind.extract(&damaged, MOST);
        }
    }
}

#[test]
fn paths_in_archives_never_leave_them() {
    use super::zip_member::{percent_decode, resolve};
    assert_eq!(
        resolve("ppt/slides/a.xml", "../../../../etc/passwd"),
        "etc/passwd"
    );
    assert_eq!(
        resolve("OEBPS/book.opf", "text/./a.xhtml#x"),
        "OEBPS/text/a.xhtml"
    );
    assert_eq!(percent_decode("a%20b%zz%"), "a b%zz%");
    assert_eq!(percent_decode("%ff"), "%ff");
}
