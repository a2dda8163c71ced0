//! Text in XML.

use crate::base::codec::is_unsafe;

/// Text as it stands between tags or quotes. XML 1.0 has no way to write most control characters.
pub(super) fn xml_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\t' => out.push_str("&#9;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if is_unsafe(c) => out.push_str(&format!("&#x{:x};", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_for_markup() {
        assert_eq!(
            xml_text("a<b>&\"\t\u{1}\u{ffff}ü\u{9b}\u{202e}"),
            "a&lt;b&gt;&amp;&quot;&#9;\u{fffd}\u{fffd}ü&#x9b;&#x202e;"
        );
    }
}
