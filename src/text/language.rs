//! The language of a text, for messages to people: nothing is decided by it.

use whatlang::{Lang, detect};

/// Longer texts are judged by their first bytes.
const JUDGED_BYTES: usize = 8 << 10;
/// Fewer words say too little.
const LEAST_WORDS: usize = 30;

/// The English name of the language that a text is in, if that is beyond doubt.
///
/// ```
/// use dedup::text::language::language_of;
///
/// assert_eq!(language_of("Too short."), None);
/// ```
pub fn language_of(text: &str) -> Option<&'static str> {
    let end = (0..=JUDGED_BYTES.min(text.len())).rev();
    let text = end.filter_map(|end| text.get(..end)).next()?;
    let is_long =
        text.split_whitespace().nth(LEAST_WORDS).is_some() || text.chars().nth(400).is_some();
    let found = detect(text).filter(|found| is_long && found.is_reliable())?;
    Some(Lang::eng_name(found.lang()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_languages() {
        let english = "All human beings are born free and equal in dignity and rights. They are endowed with reason and conscience and should act towards one another in a spirit of brotherhood. Everyone is entitled to all the rights and freedoms set forth in this Declaration, without distinction of any kind.";
        let german = "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und Gewissen begabt und sollen einander im Geist der Brüderlichkeit begegnen. Jeder hat Anspruch auf die in dieser Erklärung verkündeten Rechte und Freiheiten ohne irgendeinen Unterschied, etwa nach Rasse, Hautfarbe, Geschlecht, Sprache oder Religion.";
        assert_eq!(language_of(english), Some("English"));
        assert_eq!(language_of(german), Some("German"));
        assert_eq!(language_of("0123 4567"), None);
        assert_eq!(language_of(""), None);
    }
}
