//! How the words of a document were counted, in words.

use crate::align::{PassageCoverage, exclusions::ExclusionReason};

/// A sentence such as "of 120 words of essay.txt 100 count; left out: 20 in quotations"; none if
/// all words count.
pub fn describe_tally(id: &str, tally: &PassageCoverage) -> Option<String> {
    let left_out = ExclusionReason::ALL
        .iter()
        .zip(tally.excluded)
        .filter(|(_, words)| *words > 0);
    let parts: Vec<String> = left_out
        .map(|(reason, words)| format!("{words} {}", reason.place()))
        .collect();
    let counted = tally.counted();
    (!parts.is_empty()).then(|| {
        format!(
            "of {} words of {id} {counted} count; left out: {}",
            tally.words,
            parts.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_that_do_not_count_are_mentioned() {
        let tally = PassageCoverage {
            words: 120,
            excluded: [10, 0, 20],
            matched: 30,
        };
        assert_eq!(
            describe_tally("a.txt", &tally).unwrap(),
            "of 120 words of a.txt 90 count; left out: 10 of the base text, 20 in quotations"
        );
        let all_count = PassageCoverage {
            words: 9,
            ..PassageCoverage::default()
        };
        assert_eq!(describe_tally("a.txt", &all_count), None);
    }
}
