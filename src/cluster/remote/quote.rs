//! Quoting words for a shell, and splitting a command into words.

/// Quotes a word for sh.
pub fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Splits a command into words at blanks, with quotes and backslashes as in sh; nothing else is
/// special.
pub fn split_words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match c {
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters
                        .next()
                        .ok_or_else(|| format!("'{text}': a quote is not closed"))?
                    {
                        end if end == c => break,
                        '\\' if c == '"' => word.extend(characters.next()),
                        inner => word.push(inner),
                    }
                }
            }
            '\\' => word.get_or_insert_default().extend(characters.next()),
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted() {
        for (word, quoted) in [
            ("a/b-1", "a/b-1"),
            ("", "''"),
            ("it's", "'it'\\''s'"),
            ("$(x) `y`;\n", "'$(x) `y`;\n'"),
            ("~", "'~'"),
            ("é", "'é'"),
        ] {
            assert_eq!(quote(word), quoted);
        }
    }

    #[test]
    fn commands_are_split() {
        assert_eq!(
            split_words(" ssh -o 'A b'  x\\ y \"q\\\"\"z '' ").unwrap(),
            ["ssh", "-o", "A b", "x y", "q\"z", ""]
        );
        assert_eq!(split_words("").unwrap(), Vec::<String>::new());
        assert_eq!(
            split_words("ssh 'x").unwrap_err(),
            "'ssh 'x': a quote is not closed"
        );
    }
}
