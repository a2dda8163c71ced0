//! What every page has: a head that lets nothing in from outside, one style, one script.

use super::{digest::source_hash, escape::put_html};

/// The parts of a page that are the same for all pages of a kind.
pub struct Frame {
    style: String,
    script: String,
    /// Where forms may be sent.
    form_action: &'static str,
}

impl Frame {
    /// A frame with a style and a script, in addition to the common ones.
    pub fn new(style: &str, script: &str) -> Self {
        Self {
            style: [include_str!("common.css"), style].concat(),
            script: [include_str!("common.js"), script].concat(),
            form_action: "'none'",
        }
    }

    /// With this script, and without the common one.
    pub fn with_script(self, script: &str) -> Self {
        Self {
            script: script.to_owned(),
            ..self
        }
    }

    /// Its forms may be sent to the server that the page is from.
    pub fn with_forms(self) -> Self {
        Self {
            form_action: "'self'",
            ..self
        }
    }

    /// For pages without a script.
    pub fn still(style: &str) -> Self {
        Self {
            style: [include_str!("common.css"), style].concat(),
            script: String::new(),
            form_action: "'none'",
        }
    }

    /// Appends everything up to the body's content.
    ///
    /// The policy names the style and the script by their hashes, so that script in a document can neither run nor fetch or send anything.
    pub fn put_head(&self, out: &mut Vec<u8>, title: &str) {
        let (style, script) = (
            source_hash(self.style.as_bytes()),
            source_hash(self.script.as_bytes()),
        );
        let form_action = self.form_action;
        let policy = format!(
            "default-src 'none'; style-src '{style}'; script-src '{script}'; base-uri 'none'; form-action {form_action}"
        );
        put(
            out,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
        );
        put(
            out,
            &format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n"),
        );
        put(
            out,
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n",
        );
        put(
            out,
            "<meta name=\"referrer\" content=\"no-referrer\">\n<title>",
        );
        put_html(out, title);
        put(
            out,
            &format!("</title>\n<style>{}</style>\n</head>\n", self.style),
        );
    }

    /// Appends the script, if there is one, and the end.
    pub fn put_foot(&self, out: &mut Vec<u8>) {
        if !self.script.is_empty() {
            put(out, &format!("<script>{}</script>\n", self.script));
        }
        put(out, "</body>\n</html>\n");
    }
}

/// Appends our own markup.
pub fn put(out: &mut Vec<u8>, markup: &str) {
    out.extend_from_slice(markup.as_bytes());
}

/// Appends an element with text from outside. It is set apart from the direction of the text around it.
pub fn put_element(out: &mut Vec<u8>, open: &str, text: &str, close: &str) {
    put(out, open);
    put_html(out, text);
    put(out, close);
}

/// The last component of a path, for titles; the whole where there is none.
pub fn short_name(id: &str) -> &str {
    id.trim_end_matches('/')
        .rsplit('/')
        .next()
        .filter(|name| !name.is_empty())
        .unwrap_or(id)
}

/// The last components of a path, as many as tell it from others: of `ann/1.txt` and `ben/1.txt` both.
pub fn name_among<'i, 'o>(id: &'i str, others: impl Iterator<Item = &'o str> + Clone) -> &'i str {
    let mut name = short_name(id);
    let is_taken = |name: &str| {
        others.clone().any(|other| {
            other != id
                && other
                    .strip_suffix(name)
                    .is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        })
    };
    while name.len() < id.len() && id.ends_with(name) && is_taken(name) {
        let before = &id[..id.len() - name.len()];
        let start = before
            .trim_end_matches('/')
            .rfind('/')
            .map_or(0, |slash| slash + 1);
        name = &id[start..];
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_documents_apart() {
        let ids = [
            "a/x/1.txt",
            "b/x/1.txt",
            "b/y/1.txt",
            "1.txt",
            "c/2.txt",
            "",
            "/",
            "c//2.txt",
        ];
        let names: Vec<&str> = ids
            .iter()
            .map(|id| name_among(id, ids.iter().copied()))
            .collect();
        assert_eq!(
            names,
            [
                "a/x/1.txt",
                "b/x/1.txt",
                "y/1.txt",
                "1.txt",
                "c/2.txt",
                "",
                "/",
                "c//2.txt"
            ]
        );
        assert_eq!(
            name_among("dir/one.txt", ["dir/one.txt", "dir/two.txt"].into_iter()),
            "one.txt"
        );
    }
}
