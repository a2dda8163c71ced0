//! A file that a client sent: converted to text as a file of a corpus is.

use super::error::ApiError;
use crate::text::corpus;
use std::{fs, io};

/// The bytes of a name that are kept.
const NAME_BYTES: usize = 100;

/// The text of a file. Its kind is told by its bytes and its name.
pub fn text_of_file(
    name: &str,
    bytes: &[u8],
    reading: &corpus::Options,
) -> Result<String, ApiError> {
    let name = plain_name(name);
    let unread = |error: io::Error| ApiError::wrong(format!("{name}: {error}"));
    let directory = tempfile::tempdir().map_err(unread)?;
    let path = directory.path().join(&name);
    fs::write(&path, bytes).map_err(unread)?;
    corpus::read_text(&path, reading).map_err(unread)
}

/// The last component of a name, without what has a meaning in a path or on a terminal.
pub fn plain_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let kept = |character: &char| !character.is_control();
    let mut plain: String = last.trim_start_matches('.').chars().filter(kept).collect();
    // What tells the kind of a file is at its end.
    while plain.len() > NAME_BYTES {
        plain.remove(0);
    }
    if plain.is_empty() {
        "document".to_owned()
    } else {
        plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_lead_nowhere() {
        for (name, plain) in [
            ("essay.docx", "essay.docx"),
            ("../../etc/passwd", "passwd"),
            ("C:\\docs\\é.txt", "é.txt"),
            ("..", "document"),
            ("a/", "document"),
            ("\u{1b}[31mred.txt", "[31mred.txt"),
        ] {
            assert_eq!(plain_name(name), plain, "{name:?}");
        }
        assert!(plain_name(&"é".repeat(300)).len() <= NAME_BYTES);
    }

    #[test]
    fn files_are_converted() {
        let reading = corpus::Options::default();
        let text = text_of_file("a.html", b"<p>one</p>", &reading).unwrap();
        assert_eq!(text.trim(), "one");
        assert!(text_of_file("a.png", b"\x89PNG\r\n\x1a\n\0\0", &reading).is_err());
    }
}
