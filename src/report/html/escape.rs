//! Escapes text from documents and ids for a page.
//!
//! Nothing of a document or an id reaches a page but through these two functions. They keep text apart from markup and script, and they make
//! visible what would otherwise act unseen: control characters, and characters that turn the direction of the text around.

/// Appends text as HTML, for an element or for an attribute in double quotes.
pub fn put_html(out: &mut Vec<u8>, text: &str) {
    for c in text.chars() {
        let escaped = match c {
            '&' => "&amp;",
            '<' => "&lt;",
            '>' => "&gt;",
            '"' => "&quot;",
            '\'' => "&#39;",
            c => {
                put_shown(out, c);
                continue;
            }
        };
        out.extend_from_slice(escaped.as_bytes());
    }
}

/// Appends text as a JSON string that may stand in a `<script>` element: it holds neither `<` nor `>` nor `&`, so that no `</script>` ends it
/// and no `<!--` begins anything.
pub fn put_json(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\r' if chars.peek() == Some(&'\n') => {}
            // All line breaks of the text break lines in the page.
            '\n' | '\r' | '\u{2028}' | '\u{2029}' => out.extend_from_slice(b"\\n"),
            '<' => out.extend_from_slice(b"\\u003c"),
            '>' => out.extend_from_slice(b"\\u003e"),
            '&' => out.extend_from_slice(b"\\u0026"),
            c => put_shown(out, c),
        }
    }
    out.push(b'"');
}

/// Appends a character, or a visible replacement if it is invisible and has an effect.
fn put_shown(out: &mut Vec<u8>, c: char) {
    let shown = match c {
        '\n' | '\t' => c,
        // There are pictures of the control characters of ASCII.
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        '\u{80}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        c => match name(c) {
            Some(name) => return out.extend_from_slice(format!("⟦{name}⟧").as_bytes()),
            None => c,
        },
    };
    out.extend_from_slice(shown.encode_utf8(&mut [0; 4]).as_bytes());
}

/// The name of a character that changes how others are shown, or is invisible. Joiners and marks that some scripts need are not among
/// them.
fn name(c: char) -> Option<&'static str> {
    Some(match c {
        '\u{200b}' => "ZWSP",
        '\u{2060}' => "WJ",
        '\u{feff}' => "BOM",
        '\u{202a}' => "LRE",
        '\u{202b}' => "RLE",
        '\u{202c}' => "PDF",
        '\u{202d}' => "LRO",
        '\u{202e}' => "RLO",
        '\u{2066}' => "LRI",
        '\u{2067}' => "RLI",
        '\u{2068}' => "FSI",
        '\u{2069}' => "PDI",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn html(text: &str) -> String {
        let mut out = Vec::new();
        put_html(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    fn json(text: &str) -> String {
        let mut out = Vec::new();
        put_json(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn markup_is_text() {
        assert_eq!(
            html("<b a=\"x\" b='y'>&amp;</b>"),
            "&lt;b a=&quot;x&quot; b=&#39;y&#39;&gt;&amp;amp;&lt;/b&gt;"
        );
        assert_eq!(
            json("</script><!-- \"\\ & 'é"),
            "\"\\u003c/script\\u003e\\u003c!-- \\\"\\\\ \\u0026 'é\""
        );
    }

    #[test]
    fn what_acts_unseen_is_shown() {
        let text = "\0\u{1b}\u{7f}\u{9b}\u{202e}gpj.exe\u{2066}\u{200b}";
        let shown = "␀␛␡\u{fffd}⟦RLO⟧gpj.exe⟦LRI⟧⟦ZWSP⟧";
        assert_eq!(
            (html(text), json(text)),
            (shown.to_owned(), format!("\"{shown}\""))
        );
        assert_eq!(json("a\r\nb\rc\u{2028}d\te"), "\"a\\nb\\nc\\nd\\te\"");
        // Persian and emoji need their joiners, Hebrew its marks.
        assert_eq!(
            html("می\u{200c}خواهم 👩\u{200d}🌾 \u{200f}"),
            "می\u{200c}خواهم 👩\u{200d}🌾 \u{200f}"
        );
    }

    proptest! {
        #[test]
        fn nothing_leaves_its_place(text in "(?s:.|[<>&\"'\\\\\0-\u{1f}\u{2028}]){0,60}") {
            let (html, json) = (html(&text), json(&text));
            prop_assert!(!html.contains(['<', '>', '"', '\'']));
            let may_not = ['<', '>', '&', '\n', '\r', '\u{2028}', '\u{2029}'];
            prop_assert!(!json.contains(may_not));
            prop_assert!(serde_json::from_str::<String>(&json).is_ok());
        }
    }
}
