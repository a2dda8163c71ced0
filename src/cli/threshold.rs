//! Thresholds as they are typed: `0.5` or `50%`.

use crate::{commands::Cutoff, similar::Score};
use anyhow::bail;
use std::{ops::RangeInclusive, str::FromStr};

/// A number that is not negative, or a percentage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    pub value: f64,
    /// As it was typed, if it was a percentage.
    percent: Option<f64>,
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, is_percent) = text
            .strip_suffix('%')
            .map_or((text, false), |number| (number, true));
        let value = number
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|value| value.is_finite());
        match value {
            Some(value) if value >= 0.0 => Ok(if is_percent {
                Self {
                    value: value / 100.0,
                    percent: Some(value),
                }
            } else {
                Self {
                    value,
                    percent: None,
                }
            }),
            Some(_) => Err(format!(
                "{text} is negative; give a number such as 0.5, or a percentage such as 50%"
            )),
            None => Err(format!(
                "'{text}' is not a number such as 0.5, or a percentage such as 50%"
            )),
        }
    }
}

impl Threshold {
    /// The least value of a score that counts. One that the score cannot have is an error.
    pub fn of_score(self, score: Score) -> Result<f64, anyhow::Error> {
        if !score.is_count() {
            return self.ensure_in(score_name(score), 0.0..=1.0);
        }
        match self.percent {
            Some(percent) => {
                let (name, usual) = (score_name(score), score.default_threshold());
                bail!(
                    "--threshold {percent}%: {name} is a count, not a share; give a number such as {usual}"
                )
            }
            None => Ok(self.value),
        }
    }

    fn ensure_in(self, name: &str, range: RangeInclusive<f64>) -> Result<f64, anyhow::Error> {
        if range.contains(&self.value) {
            return Ok(self.value);
        }
        let typed = self
            .percent
            .map_or_else(|| self.value.to_string(), |percent| format!("{percent}%"));
        let hint = if self.percent.is_none() && self.value <= 100.0 {
            format!("; did you mean {}%?", self.value)
        } else {
            String::new()
        };
        bail!(
            "--threshold {typed}: {name} ranges from {} to {}{hint}",
            range.start(),
            range.end()
        )
    }
}

/// The score of this name, or the default.
pub fn score_named(name: Option<&str>, default: Score) -> Score {
    Score::NAMES
        .iter()
        .find(|row| Some(row.0) == name)
        .map_or(default, |row| row.1)
}

/// A score with the threshold that was given; or that of `default`, if it is its score; or else
/// `least`.
pub fn cutoff(
    score: Score,
    threshold: Option<Threshold>,
    default: Cutoff,
    least: f64,
) -> Result<Cutoff, anyhow::Error> {
    let threshold = match threshold {
        Some(threshold) => threshold.of_score(score)?,
        None if score == default.score => default.threshold,
        None => least,
    };
    Ok(Cutoff { score, threshold })
}

/// What messages call a score; the one of a table has no name that could be typed.
pub fn score_name(score: Score) -> &'static str {
    Score::NAMES
        .iter()
        .find(|row| row.1 == score)
        .map_or("a_in_b", |row| row.0)
}

/// A share from 0 to 1, or from 0% to 100%.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let Threshold { value, .. } = text.parse()?;
    if value <= 1.0 {
        Ok(value)
    } else {
        Err(format!(
            "{text} is not a share from 0 to 1, or from 0% to 100%"
        ))
    }
}

/// A number that is not negative, or a percentage.
pub fn parse_number(text: &str) -> Result<f64, String> {
    text.parse().map(|Threshold { value, .. }| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_percentages_are_read() {
        for (text, value) in [
            ("0", 0.0),
            ("0.5", 0.5),
            ("50%", 0.5),
            ("1e2", 100.0),
            ("0.5%", 0.005),
            ("100%", 1.0),
            ("20", 20.0),
        ] {
            assert_eq!(parse_number(text), Ok(value), "{text}");
        }
        for text in [
            "", "%", "NaN", "inf", "-inf", "-1", "-0.5%", "0,5", "half", "5%%",
        ] {
            assert!(parse_number(text).is_err(), "{text}");
        }
        assert_eq!(
            (parse_share("99.5%"), parse_share("2").is_err()),
            (Ok(0.995), true)
        );
    }

    #[test]
    fn thresholds_are_in_the_range_of_the_score() {
        let of = |text: &str, score| {
            text.parse::<Threshold>()
                .unwrap()
                .of_score(score)
                .map_err(|error| error.to_string())
        };
        let wrong = |what: &str| Err(what.to_owned());
        assert_eq!(
            of("50", Score::Containment),
            wrong("--threshold 50: containment ranges from 0 to 1; did you mean 50%?")
        );
        assert_eq!(
            of("1.01", Score::Inclusion),
            wrong("--threshold 1.01: a_in_b ranges from 0 to 1; did you mean 1.01%?")
        );
        assert_eq!(
            of("101", Score::Jaccard),
            wrong("--threshold 101: jaccard ranges from 0 to 1")
        );
        assert_eq!(
            of("150%", Score::S3),
            wrong("--threshold 150%: s3 ranges from 0 to 1")
        );
        assert_eq!(
            of("50%", Score::S1),
            wrong("--threshold 50%: s1 is a count, not a share; give a number such as 20")
        );
        assert_eq!(
            (
                of("50%", Score::S4),
                of("500", Score::S1),
                of("2.5", Score::Rarity)
            ),
            (Ok(0.5), Ok(500.0), Ok(2.5))
        );
    }
}
