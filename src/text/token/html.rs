//! Extracts the text that a reader sees from HTML, and maps it back to the bytes it came from.
//!
//! ```text
//! <p>one&nbsp;<b>t</b>wo<br>3 &lt; 4      becomes      ⏎one two⏎3 < 4
//! ```
//!
//! Tags inside a word (`INLINE`) vanish, any other tag becomes a line feed: `foo<b>bar</b>` is one word, `foo<td>bar`
//! is two. This is a scanner, not a parser: it knows where tags, comments and entities begin and end, and nothing of
//! which element may stand in which. Whatever it does not know is text.
//!
//! Linear in time: a search that finds nothing is not made again, see `MarkupScanner`.

use std::{borrow::Cow, ops::Range};

use memchr::{memchr, memchr_iter, memchr3, memmem};

use crate::{base::codec::clear_buffer, text::stream::Span};

/// The text of a page. A buffer is reused from document to document; besides the text it holds at most 32 bytes for each
/// tag or entity.
#[derive(Debug, Default, Clone)]
pub struct Stripped {
    /// The text without markup.
    pub text: String,
    /// What `text` is made of, in order and without gaps.
    pieces: Vec<StrippedPart>,
}

/// A part of the stripped text, and the bytes `start..end` of the original that it came from.
#[derive(Debug, Clone, Copy)]
struct StrippedPart {
    /// Where it begins in the stripped text.
    at: u32,
    start: u32,
    end: u32,
    /// Copied byte for byte; otherwise a decoded entity or the line feed of a tag, which have no inside.
    verbatim: bool,
}

impl Stripped {
    /// Replaces the text by that of `html`.
    pub fn strip(&mut self, html: &str) {
        let mut text = std::mem::take(&mut self.text).into_bytes();
        clear_buffer(&mut text);
        self.text = String::from_utf8(text).unwrap_or_default();
        clear_buffer(&mut self.pieces);
        let mut done = 0;
        for (markup, range) in (MarkupScanner {
            html,
            bytes: html.as_bytes(),
            ..MarkupScanner::default()
        }) {
            self.copy(html, done..range.start);
            done = range.end;
            match markup {
                Markup::Nothing => {}
                Markup::LineFeed => self.put("\n", range),
                Markup::Entity(decoded) => self.put(&decoded, range),
            }
        }
        self.copy(html, done..html.len());
    }

    /// The bytes of the original that the bytes `span` of the text came from.
    ///
    /// From `x<b>&lt;y</b>` comes `x<y`; its `<y`, bytes 1 to 3, are bytes 4 to 9: from the `&` to behind the `y`. A
    /// span that reaches across tags begins with the first byte of its first piece and ends with the last of its last.
    pub fn original(&self, span: Span) -> Span {
        let first =
            self.pieces[..self.pieces.partition_point(|piece| piece.at <= span.start)].last();
        let last = self.pieces[..self.pieces.partition_point(|piece| piece.at < span.end)].last();
        let start = first.map_or(0, |piece| {
            if piece.verbatim {
                piece.inside(span.start)
            } else {
                piece.start
            }
        });
        let end = last.map_or(0, |piece| {
            if piece.verbatim {
                piece.inside(span.end)
            } else {
                piece.end
            }
        });
        // Only an empty span can end before it starts: in front of a piece, behind the one before.
        Span {
            start,
            end: end.max(start),
        }
    }

    fn copy(&mut self, html: &str, range: Range<usize>) {
        if !range.is_empty() {
            self.pieces
                .push(StrippedPart::new(self.text.len(), &range, true));
            self.text.push_str(&html[range]);
        }
    }

    fn put(&mut self, text: &str, range: Range<usize>) {
        self.pieces
            .push(StrippedPart::new(self.text.len(), &range, false));
        self.text.push_str(text);
    }
}

impl StrippedPart {
    /// Offsets end at 4 GiB, and so do spans.
    fn new(at: usize, range: &Range<usize>, verbatim: bool) -> Self {
        let offset = |at| u32::try_from(at).unwrap_or(u32::MAX);
        Self {
            at: offset(at),
            start: offset(range.start),
            end: offset(range.end),
            verbatim,
        }
    }

    /// The byte of the original for the byte `at` of the stripped text, in a piece that is copied.
    fn inside(&self, at: u32) -> u32 {
        self.start.saturating_add(at - self.at).min(self.end)
    }
}

/// Elements that can stand inside a word, sorted. All names have at most eight letters, see [`key`].
const INLINE: [&str; 37] = [
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "blink", "cite", "code", "data", "del",
    "dfn", "em", "font", "i", "ins", "kbd", "label", "mark", "nobr", "q", "rb", "ruby", "s",
    "samp", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr",
];

/// What a piece of markup leaves behind.
enum Markup<'a> {
    Nothing,
    LineFeed,
    Entity(Cow<'a, str>),
}

/// Finds one piece of markup after the other.
///
/// A search for an end that is not there would run to the end of the text each time, and make `<a <a <a …` cost the
/// square of its length. So either all up to the end is markup then, or the search is given up for good: that is what
/// the flags are for.
#[derive(Default)]
struct MarkupScanner<'a> {
    html: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// Between `<![CDATA[` and `]]>`.
    in_cdata: bool,
    /// There is no `>` any more.
    no_tags: bool,
    /// A tag was found that would never end if quoted values could hold `>`: from there on they cannot.
    no_quotes: bool,
}

/// Yields what each piece of markup becomes, and where it stands.
impl<'a> Iterator for MarkupScanner<'a> {
    type Item = (Markup<'a>, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let start = self.at + memchr3(b'<', b'&', b']', &self.bytes[self.at..])?;
            let found = match self.bytes[start] {
                b'<' => self.angle(start),
                b'&' => self.entity(start),
                _ => self.cdata_end(start),
            };
            if let Some((markup, end)) = found {
                self.at = end;
                return Some((markup, start..end));
            }
            self.at = start + 1;
        }
    }
}

impl<'a> MarkupScanner<'a> {
    /// What `<` begins, and where that ends.
    fn angle(&mut self, start: usize) -> Option<(Markup<'a>, usize)> {
        match &self.bytes[start + 1..] {
            [b'a'..=b'z' | b'A'..=b'Z', ..] => self.open_tag(start),
            [b'/', b'a'..=b'z' | b'A'..=b'Z', ..] => {
                let end = self.tag_end(start + 2)?;
                Some((trace(key(&self.bytes[start + 2..end])), end))
            }
            // `<!-->` is a comment too: its end may begin with the dashes of its start.
            [b'!', b'-', b'-', ..] => Some((Markup::Nothing, self.behind(start + 2, b"-->"))),
            [b'!', b'[', b'C', b'D', b'A', b'T', b'A', b'[', ..] => {
                self.in_cdata = true;
                Some((Markup::Nothing, start + 9))
            }
            [b'?', b'=', ..] | [b'?', b'p' | b'P', b'h' | b'H', b'p' | b'P', ..] => {
                Some((Markup::Nothing, self.behind(start + 2, b"?>")))
            }
            [b'?', ..] | [b'!', b'a'..=b'z' | b'A'..=b'Z' | b'[', ..] => {
                Some((Markup::Nothing, self.plain_end(start)?))
            }
            _ => None,
        }
    }

    /// An opening tag; of `script` and `style` the whole element, unless the tag closes itself.
    fn open_tag(&mut self, start: usize) -> Option<(Markup<'a>, usize)> {
        let end = self.tag_end(start + 1)?;
        let tag = &self.bytes[start + 1..end];
        let key = key(tag);
        let is_raw = (key == SCRIPT || key == STYLE) && !tag.ends_with(b"/>");
        let end = if is_raw {
            self.element_end(end, key)
        } else {
            end
        };
        Some((trace(key), end))
    }

    /// Behind the closing tag of `script` or `style`, or at the end of the text.
    fn element_end(&mut self, from: usize, name: u64) -> usize {
        let closes =
            |&at: &usize| self.bytes[at..].starts_with(b"</") && key(&self.bytes[at + 2..]) == name;
        let closer = memchr_iter(b'<', &self.bytes[from..])
            .map(|at| from + at)
            .find(closes);
        closer
            .and_then(|at| self.tag_end(at + 2))
            .unwrap_or(self.bytes.len())
    }

    /// Behind the `>` that ends the tag.
    fn tag_end(&mut self, from: usize) -> Option<usize> {
        if !self.no_tags && !self.no_quotes {
            let end = quoting_tag_end(self.bytes, from);
            self.no_quotes = end.is_none();
            if end.is_some() {
                return end;
            }
        }
        self.plain_end(from)
    }

    /// Behind the next `>`, whatever stands before it.
    fn plain_end(&mut self, from: usize) -> Option<usize> {
        let length = if self.no_tags {
            None
        } else {
            memchr(b'>', &self.bytes[from..])
        };
        self.no_tags = length.is_none();
        length.map(|length| from + length + 1)
    }

    /// Behind `closer`, or at the end of the text.
    fn behind(&self, from: usize, closer: &[u8]) -> usize {
        memmem::find(&self.bytes[from..], closer)
            .map_or(self.bytes.len(), |length| from + length + closer.len())
    }

    /// The `]]>` that ends a section of character data. Between its marks there is markup as elsewhere: feeds put whole
    /// pages there.
    fn cdata_end(&mut self, start: usize) -> Option<(Markup<'a>, usize)> {
        let found = self.in_cdata && self.bytes[start..].starts_with(b"]]>");
        self.in_cdata &= !found;
        found.then_some((Markup::Nothing, start + 3))
    }

    /// The entity that `&` begins. One without `;` must be all of its word, and not the name of a value in an address
    /// (`&copy=1`).
    fn entity(&self, start: usize) -> Option<(Markup<'a>, usize)> {
        let word = start + 1 + entity_len(&self.bytes[start + 1..]);
        if word == start + 1 {
            return None;
        }
        let end = match self.bytes.get(word) {
            Some(b'=') => return None,
            Some(b';') => word + 1,
            _ => word,
        };
        let source = &self.html[start..end];
        match source {
            "&nbsp;" => Some((Markup::Entity(Cow::Borrowed("\u{a0}")), end)),
            "&amp;" => Some((Markup::Entity(Cow::Borrowed("&")), end)),
            _ => {
                let decoded = htmlize::unescape_attribute(source);
                (decoded != source).then_some((Markup::Entity(decoded), end))
            }
        }
    }
}

/// Behind the `>` that ends the tag, which may hold others in its values. A quote opens a value only after `=`.
fn quoting_tag_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let found = at + memchr3(b'>', b'"', b'\'', &bytes[at..])?;
        at = found + 1;
        if bytes[found] == b'>' {
            return Some(at);
        }
        if bytes[from..found].trim_ascii_end().ends_with(b"=") {
            at += memchr(bytes[found], &bytes[at..])? + 1;
        }
    }
}

/// What is left of the tag with this name.
fn trace<'a>(key: u64) -> Markup<'a> {
    if INLINE_KEYS.binary_search(&key).is_ok() {
        Markup::Nothing
    } else {
        Markup::LineFeed
    }
}

/// The bytes behind `&` that can belong to an entity, without its `;`.
fn entity_len(rest: &[u8]) -> usize {
    let run = |from: usize, is: fn(&u8) -> bool| {
        from + rest[from..].iter().take_while(|&byte| is(byte)).count()
    };
    match rest {
        [b'#', b'x' | b'X', ..] => run(2, u8::is_ascii_hexdigit),
        [b'#', ..] => run(1, u8::is_ascii_digit),
        _ => rest
            .iter()
            .take(LONGEST_ENTITY)
            .take_while(|byte| byte.is_ascii_alphanumeric())
            .count(),
    }
}

/// The letters of `&CounterClockwiseContourIntegral;`.
const LONGEST_ENTITY: usize = 31;

const SCRIPT: u64 = key(b"script>");
const STYLE: u64 = key(b"style>");

/// The name at the start of `tag` in lower case as a number, in the order of the names; 0 if it has over eight letters.
///
/// `key(b"Br/>")` is `0x6272_0000_0000_0000`.
const fn key(tag: &[u8]) -> u64 {
    let mut key = 0;
    let mut len = 0;
    while len < tag.len() && !matches!(tag[len], b'\t'..=b'\r' | b' ' | b'/' | b'>') {
        if len == 8 {
            return 0;
        }
        key |= (tag[len].to_ascii_lowercase() as u64) << (56 - 8 * len);
        len += 1;
    }
    key
}

static INLINE_KEYS: [u64; INLINE.len()] = {
    let mut keys = [0; INLINE.len()];
    let mut i = 0;
    while i < keys.len() {
        keys[i] = key(INLINE[i].as_bytes());
        i += 1;
    }
    keys
};

#[cfg(test)]
mod tests {
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
    fn names_are_in_order() {
        assert!(INLINE.is_sorted() && INLINE_KEYS.is_sorted());
        assert_eq!(key(b"Br/>"), 0x6272_0000_0000_0000);
        assert_eq!(
            (key(b"fontsize"), key(b"blockquote"), key(b"")),
            (u64::from_be_bytes(*b"fontsize"), 0, 0)
        );
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
        // No second quote: the value ends with its tag. So do all values behind it.
        check("a<p title=\"b>c<p title='>'>d", "a\nc\n'>d");
        // A quote that follows no `=` opens no value.
        check("a<p title=\"b\"c\">d\"<p 'x>e'", "a\nd\"\ne'");
    }

    #[test]
    fn spans_lead_back() {
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
    fn a_buffer_is_used_again() {
        let mut stripped = strip("<p>long text &amp; more</p>");
        stripped.strip("a<b>b</b>");
        assert_eq!(stripped.text, "ab");
        assert_eq!(
            stripped.original(Span { start: 0, end: 2 }),
            Span { start: 0, end: 5 }
        );
    }

    /// Some of these take the square of their length if a failed search is made again: minutes instead of milliseconds.
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

    /// Pages made of what the scanner looks for, as a regular expression.
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
}
