//! Numbers that may also be given as a percentage.

use crate::similar::Score;
use serde::Deserialize;

/// The largest number of words in common that a passage can be asked to have.
pub const MOST_MATCH_WORDS: u32 = 1_000_000;

/// `0.5` or `"50%"`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged, expecting = "it must be a number such as 0.5, or \"50%\"")]
pub enum JsonNumber {
    /// A number.
    Number(f64),
    /// A number, or a percentage.
    Text(String),
}

impl JsonNumber {
    /// The least value of a score that counts. One that the score cannot have is an error.
    pub fn of_score(&self, score: Score) -> Result<f64, String> {
        let (shown, value, is_percent) = match self {
            Self::Number(value) => (value.to_string(), Some(*value), false),
            Self::Text(text) => {
                let percent = text.strip_suffix('%');
                let value = percent.unwrap_or(text).trim().parse::<f64>().ok();
                let value = value.map(|value| {
                    if percent.is_some() {
                        value / 100.0
                    } else {
                        value
                    }
                });
                (text.escape_debug().to_string(), value, percent.is_some())
            }
        };
        let name = Score::NAMES
            .iter()
            .find(|row| row.1 == score)
            .map_or("this score", |row| row.0);
        let is_right = |value: &f64| value.is_finite() && *value >= 0.0;
        let value = value.filter(is_right).ok_or_else(|| {
            format!("the field 'threshold' is {shown}, it must be a number such as 0.5, or \"50%\"")
        })?;
        match score.is_count() {
            true if is_percent => Err(format!(
                "the field 'threshold' is {shown}, and {name} is a count, not a share"
            )),
            false if value > 1.0 => Err(format!(
                "the field 'threshold' is {shown}, and {name} ranges from 0 to 1"
            )),
            _ => Ok(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_in_the_range_of_the_score() {
        let of = |json: &str, score| {
            serde_json::from_str::<JsonNumber>(json)
                .map_err(|error| error.to_string())
                .and_then(|number| number.of_score(score))
        };
        assert_eq!(of("0.5", Score::Containment), Ok(0.5));
        assert_eq!(of("\"50%\"", Score::Jaccard), Ok(0.5));
        assert_eq!(of("20", Score::S1), Ok(20.0));
        for (json, score) in [
            ("50", Score::Containment),
            ("-1", Score::S1),
            ("\"NaN\"", Score::S1),
            ("\"50%\"", Score::S1),
            ("\"half\"", Score::Jaccard),
            ("true", Score::Jaccard),
        ] {
            assert!(of(json, score).is_err(), "{json}");
        }
    }
}
