//! Finds the tags, comments and entities of HTML.

use std::{borrow::Cow, ops::Range};

use memchr::{memchr, memchr_iter, memchr3, memmem};

/// Elements that can occur inside a word, sorted. No name has more than eight letters, see [`key`].
const INLINE: [&str; 37] = [
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "blink", "cite", "code", "data", "del",
    "dfn", "em", "font", "i", "ins", "kbd", "label", "mark", "nobr", "q", "rb", "ruby", "s",
    "samp", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr",
];

/// What a piece of markup becomes.
pub enum Markup<'a> {
    Nothing,
    LineFeed,
    Entity(Cow<'a, str>),
}

/// Finds one piece of markup after the other.
///
/// A search for a missing end runs to the end of the text; repeated for each tag of `<a <a <a …`, it would take quadratic
/// time. So after a failed search, either the rest of the text is markup, or the scanner sets a flag and never searches
/// again.
#[derive(Default)]
pub struct MarkupScanner<'a> {
    html: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// Between `<![CDATA[` and `]]>`.
    in_cdata: bool,
    /// No `>` follows.
    no_tags: bool,
    /// Some tag would never end if quoted values could contain `>`; from there on they cannot.
    no_quotes: bool,
}

/// Yields what each piece of markup becomes, and its range.
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
    /// Starts at the beginning of a page.
    pub fn new(html: &'a str) -> Self {
        Self {
            html,
            bytes: html.as_bytes(),
            ..Self::default()
        }
    }

    /// The markup that starts with `<`, and its end.
    fn angle(&mut self, start: usize) -> Option<(Markup<'a>, usize)> {
        match &self.bytes[start + 1..] {
            [b'a'..=b'z' | b'A'..=b'Z', ..] => self.open_tag(start),
            [b'/', b'a'..=b'z' | b'A'..=b'Z', ..] => {
                let end = self.tag_end(start + 2)?;
                Some((trace(key(&self.bytes[start + 2..end])), end))
            }
            // `<!-->` is a comment too: the dashes of its start may belong to its end.
            [b'!', b'-', b'-', ..] => Some((Markup::Nothing, self.end_after(start + 2, b"-->"))),
            [b'!', b'[', b'C', b'D', b'A', b'T', b'A', b'[', ..] => {
                self.in_cdata = true;
                Some((Markup::Nothing, start + 9))
            }
            [b'?', b'=', ..] | [b'?', b'p' | b'P', b'h' | b'H', b'p' | b'P', ..] => {
                Some((Markup::Nothing, self.end_after(start + 2, b"?>")))
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

    /// The end of the closing tag of `script` or `style`, or of the text.
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

    /// The end of the tag, after its `>`.
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

    /// The offset after the next `>`, even if it is quoted.
    fn plain_end(&mut self, from: usize) -> Option<usize> {
        let length = if self.no_tags {
            None
        } else {
            memchr(b'>', &self.bytes[from..])
        };
        self.no_tags = length.is_none();
        length.map(|length| from + length + 1)
    }

    /// The offset after `closer`, or the end of the text.
    fn end_after(&self, from: usize, closer: &[u8]) -> usize {
        memmem::find(&self.bytes[from..], closer)
            .map_or(self.bytes.len(), |length| from + length + closer.len())
    }

    /// The `]]>` that ends a section of character data. Markup inside the section counts as markup: feeds put whole pages
    /// there.
    fn cdata_end(&mut self, start: usize) -> Option<(Markup<'a>, usize)> {
        let found = self.in_cdata && self.bytes[start..].starts_with(b"]]>");
        self.in_cdata &= !found;
        found.then_some((Markup::Nothing, start + 3))
    }

    /// The entity that starts with `&`. Without `;` it must be a whole word, and no parameter of a URL (`&copy=1`).
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

/// The offset after the `>` that ends the tag; its values may contain others. A quote starts a value only after `=`.
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

/// What the tag with this name becomes.
fn trace<'a>(key: u64) -> Markup<'a> {
    if INLINE_KEYS.binary_search(&key).is_ok() {
        Markup::Nothing
    } else {
        Markup::LineFeed
    }
}

/// The number of bytes after `&` that can belong to an entity, without its `;`.
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

/// The number of letters of `&CounterClockwiseContourIntegral;`.
const LONGEST_ENTITY: usize = 31;

const SCRIPT: u64 = key(b"script>");
const STYLE: u64 = key(b"style>");

/// The name at the start of `tag`, in lower case, as a number that sorts as the names do; 0 if it has more than eight
/// letters.
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
    use super::*;

    #[test]
    fn names_are_in_order() {
        assert!(INLINE.is_sorted() && INLINE_KEYS.is_sorted());
        assert_eq!(key(b"Br/>"), 0x6272_0000_0000_0000);
        assert_eq!(
            (key(b"fontsize"), key(b"blockquote"), key(b"")),
            (u64::from_be_bytes(*b"fontsize"), 0, 0)
        );
    }
}
