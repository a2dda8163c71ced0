use crate::base::num::{ToU32, ToUsize};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

fn strip(html: &str) -> Stripped {
    let mut stripped = Stripped::default();
    stripped.strip(html);
    stripped
}

#[track_caller]
fn check(html: &str, expected: &str) {
    assert_eq!(strip(html).text, expected, "{html}");
}

/// The part of `html` that the first `needle` in its text came from.
#[track_caller]
fn source<'a>(html: &'a str, needle: &str) -> &'a str {
    let stripped = strip(html);
    let start = stripped.text.find(needle).unwrap();
    let span = stripped.original(Span {
        start: start.to_u32(),
        end: (start + needle.len()).to_u32(),
    });
    &html[span.range()]
}

#[test]
fn a_page() {
    check(
        "<!DOCTYPE html>\n<html lang=en><head><title>T &amp; t</title>\
         <SCRIPT type='x'>if (a<b) document.write(\"</b>\");</Script >\
         <style>p > a { color: red }</style></head>\n<body><!-- <p>no</p> --><h1>H<sub>2</sub>O</h1>\
         <p class=\"a>b\" title='\">'>foo<b>bar</B>,<br/>a < b <3 <a href=x?y>&lt;i&gt;</a></p></body></html>",
        "\n\n\n\nT & t\n\n\n\n\n\n\nH2O\n\nfoobar,\na < b <3 <i>\n\n\n",
    );
    check(
        "<p>one&nbsp;<b>t</b>wo<br>3 &lt; 4",
        "\none\u{a0}two\n3 < 4",
    );
}

#[test]
fn entities() {
    check(
        "&eacute;&#233;&#xE9;&#XE9 &copy 2020 &copy",
        "éééé © 2020 ©",
    );
    check("&CounterClockwiseContourIntegral; &nGg; &acE;", "∳ ⋙̸ ∾̳");
    check(
        "&#0;&#x110000;&#99999999999999999999;&#150;",
        "\u{fffd}\u{fffd}\u{fffd}–",
    );
    let none = "& &; &# &#; &#x; &x; &unknown; &copyright &amp=1 AT&T &&; &lta a&";
    check(none, none);
    check("&amp;lt; &&lt;", "&lt; &<");
    check("&lt;b&gt;x&lt;/b&gt;", "<b>x</b>");
}

#[test]
fn other_markup() {
    check(
        "a<?xml version='1.0'?>b<?xml:namespace />c<?php if (1 > 0) echo '<p>'; ?>d<?= $x ?>e",
        "abcde",
    );
    check(
        "a<![CDATA[b & <i>c</i> x[y[0]] > ]]>d ]]>",
        "ab & c x[y[0]] > d ]]>",
    );
    check(
        "a<![if !IE]>b<![endif]>c<!-->d<!--->e<!----->f<!-- -- > -->g",
        "abcdefg",
    );
    check(
        "a<script src=x />b<style/>c</script>d<scripts>e</scripts>f",
        "a\nb\nc\nd\ne\nf",
    );
    check("x<script>a</scripts></script\n>y", "x\ny");
    check(
        "x<my-tag>y<o:p>z<blockquote>w<IMG src=\"\">v",
        "x\ny\nz\nw\nv",
    );
}

#[test]
fn no_markup() {
    for text in [
        "a < b > c",
        "<",
        "<>",
        "</>",
        "</ p>",
        "<!>",
        "<! x>",
        "<3",
        "<é>",
        "1<2",
        "->",
        "a <b",
        "]]>",
    ] {
        check(text, text);
    }
}

#[test]
fn markup_without_an_end() {
    check("a<script>b<p>c", "a\n");
    check("a<style>b</style", "a\n");
    check("a<!-- b <p> c", "a");
    check("a<?php b <p> c", "a");
    check("a<p>b<!doctype c", "a\nb<!doctype c");
    check("a<p>b<p title=\"c", "a\nb<p title=\"c");
    // No second quote: the value ends with its tag, and so do all later values.
    check("a<p title=\"b>c<p title='>'>d", "a\nc\n'>d");
    // A quote that does not follow a `=` starts no value.
    check("a<p title=\"b\"c\">d\"<p 'x>e'", "a\nd\"\ne'");
}

#[test]
fn spans_are_mapped_to_the_original() {
    let html = "<p>x<b>foo</b>b&auml;r</p>&lt;<i>z</i>&nGg;.";
    assert_eq!(source(html, "xfoobär"), "x<b>foo</b>b&auml;r");
    assert_eq!(source(html, "foo"), "foo");
    assert_eq!(source(html, "oo"), "oo");
    assert_eq!(source(html, "obä"), "o</b>b&auml;");
    assert_eq!(source(html, "är"), "&auml;r");
    assert_eq!(source(html, "r\n<"), "r</p>&lt;");
    assert_eq!(source(html, "z"), "z");
    assert_eq!(source(html, "\u{338}."), "&nGg;.");
    assert_eq!(source(html, "⋙"), "&nGg;");
    assert_eq!(source("a<script>b</script>c", "\n"), "<script>b</script>");
    let stripped = strip("x<b>&lt;y</b>");
    assert_eq!(
        stripped.original(Span { start: 1, end: 3 }),
        Span { start: 4, end: 9 }
    );
    assert_eq!(
        stripped.original(Span { start: 1, end: 1 }),
        Span { start: 4, end: 4 }
    );
    assert_eq!(
        stripped.original(Span {
            start: 7,
            end: u32::MAX
        }),
        Span { start: 9, end: 9 }
    );
    assert_eq!(
        strip("<b>").original(Span { start: 0, end: 0 }),
        Span { start: 0, end: 0 }
    );
}

#[test]
fn buffers_are_reused() {
    let mut stripped = strip("<p>long text &amp; more</p>");
    stripped.strip("a<b>b</b>");
    assert_eq!(stripped.text, "ab");
    assert_eq!(
        stripped.original(Span { start: 0, end: 2 }),
        Span { start: 0, end: 5 }
    );
}

/// Some of these take quadratic time if failed searches are repeated: minutes instead of milliseconds.
#[test]
fn hostile_text_takes_linear_time() {
    #[rustfmt::skip]
    let units = [
        "<a ", "<a b=\"", "<a b=\">\"", "<a b='\"", "<!--", "<!-", "<!a ", "<?", "<?php", "<script>", "<script></script",
        "</script", "<![CDATA[", "]]", "&", "&#", "&#1", "&a", "<a \"  ", "<", "</", "<a b=\"'>'<a b='\">\"",
    ];
    for unit in units {
        let mut html = unit.repeat(1_000_000 / unit.len());
        for closer in ["", "\"", ">", "'>"] {
            html.push_str(closer);
            let started = Instant::now();
            strip(&html);
            assert!(started.elapsed() < Duration::from_secs(3), "{unit}");
        }
    }
}

/// A regular expression for pages that consist of what the scanner looks for.
const PAGES: &str = concat!(
    r#"([a-z é\]>"'=/&;<!?-]|<p>|<b>|</b>|<a b="|'>|<!--|-->|<!\[CDATA\[|\]\]>|"#,
    r#"<\?php|\?>|<script>|</script|&lt;|&nGg;|&#|&#x41;|漢){0,30}"#
);

proptest! {
    #[test]
    fn any_text_is_stripped(html in PAGES) {
        let stripped = strip(&html);
        let mut last = Span { start: 0, end: 0 };
        for (at, c) in stripped.text.char_indices() {
            let span = Span { start: at.to_u32(), end: (at + c.len_utf8()).to_u32() };
            let mapped = stripped.original(span);
            prop_assert!(last.start <= mapped.start && last.end <= mapped.end && mapped.start < mapped.end);
            last = mapped;
            let Some(source) = html.get(mapped.range()) else {
                return Err(TestCaseError::fail("outside the text or inside a character"));
            };
            let is_markup = source.len() > 1 && source.starts_with(if c == '\n' { '<' } else { '&' });
            prop_assert!(is_markup || source == c.to_string(), "{c:?} from {source:?}");
        }
    }

    #[test]
    fn long_spans_are_made_of_the_first_and_the_last(html in PAGES, start: u32, end: u32) {
        let stripped = strip(&html);
        let len = stripped.text.len().to_u32() + 1;
        let (start, end) = ((start % len).min(end % len), (start % len).max(end % len));
        let mapped = stripped.original(Span { start, end });
        prop_assert!(mapped.start <= mapped.end && mapped.end.to_usize() <= html.len());
        if start < end {
            prop_assert_eq!(mapped.start, stripped.original(Span { start, end: start + 1 }).start);
            prop_assert_eq!(mapped.end, stripped.original(Span { start: end - 1, end }).end);
        }
    }

    #[test]
    fn text_without_markup_stays(text in "[^<&]{0,40}") {
        let stripped = strip(&text);
        let all = Span { start: 0, end: text.len().to_u32() };
        prop_assert_eq!(stripped.original(all), all);
        prop_assert_eq!(stripped.text, text);
    }
}
