//! Earlier states of an index: which of them are still there, and which are kept by name.
//!
//! An earlier state is the first segments of the index, as long as none of them also holds a later
//! change. Compaction joins segments, and so loses the states between them; but it joins no
//! segments across a pinned generation. So a pin costs no more than the postings that were removed
//! since.

use super::manifest::Manifest;
use crate::base::error::{Error, Place, Result};
use std::{ops::Range, path::Path, str::FromStr};

/// The longest name of a pin, in characters.
const LONGEST_NAME: usize = 64;

/// An earlier state, as users name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Since {
    /// The number of a commit.
    Generation(u64),
    /// The name of a pin; [`check_pin_name`] has accepted it.
    Pin(String),
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text
                .parse()
                .map(Self::Generation)
                .map_err(|_| format!("generation {text} is too large"));
        }
        check_pin_name(text).map(|name| Self::Pin(name.to_owned()))
    }
}

/// Refuses names that could be taken for a generation, a flag or a path.
pub fn check_pin_name(name: &str) -> Result<&str, String> {
    let is_known = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let what = match () {
        () if name.is_empty() || name.chars().count() > LONGEST_NAME => {
            format!("has {} characters", name.chars().count())
        }
        () if !name.chars().all(is_known) => {
            "has other characters than letters, digits, '.', '_' and '-'".to_owned()
        }
        () if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) => {
            "begins with neither a letter nor a digit".to_owned()
        }
        () if name.bytes().all(|byte| byte.is_ascii_digit()) => {
            "could be taken for a generation".to_owned()
        }
        () => return Ok(name),
    };
    Err(format!(
        "the name of a pin has 1 to {LONGEST_NAME} ASCII letters, digits, '.', '_' and '-', and a letter among them; '{name}' {what}"
    ))
}

impl Manifest {
    /// The generations whose state is there, as ranges with both ends, the oldest first.
    pub fn generations(&self) -> Vec<[u64; 2]> {
        let mut found: Vec<[u64; 2]> = Vec::new();
        for (number, segment) in self.segments.iter().enumerate() {
            let last = self
                .segments
                .get(number + 1)
                .map_or(self.generation, |next| next.changes[0].saturating_sub(1));
            match found.last_mut() {
                Some(range) if range[1].saturating_add(1) >= segment.changes[1] => {
                    range[1] = last.max(range[1])
                }
                _ if last >= segment.changes[1] => found.push([segment.changes[1], last]),
                _ => {}
            }
        }
        found
    }

    /// The manifest of an earlier state.
    pub fn at(&self, directory: &Path, generation: u64) -> Result<Self> {
        let mut manifest = self.clone();
        manifest
            .segments
            .retain(|segment| segment.changes[0] <= generation);
        let is_there = generation <= self.generation
            && manifest
                .segments
                .last()
                .is_some_and(|segment| segment.changes[1] <= generation);
        if is_there {
            return Ok(manifest);
        }
        let what = if generation > self.generation {
            format!(
                "generation {generation} is not there yet: the index is at generation {}",
                self.generation
            )
        } else {
            let there = ranges_text(&self.generations());
            format!(
                "generation {generation} is no longer available: of earlier states the index has {there}; dedup-index pin keeps one for as long as it is pinned"
            )
        };
        Err(Error::damaged(Place::path(directory), what))
    }

    /// The generation of a state that a user named.
    pub fn resolve(&self, directory: &Path, since: &Since) -> Result<u64> {
        match since {
            Since::Generation(generation) => Ok(*generation),
            Since::Pin(name) => self
                .pins
                .get(name)
                .copied()
                .ok_or_else(|| self.no_pin(directory, name)),
        }
    }

    /// Says that there is no such pin, and which there are.
    pub fn no_pin(&self, directory: &Path, name: &str) -> Error {
        let pins: Vec<String> = self
            .pins
            .iter()
            .map(|(name, generation)| format!("{name} (generation {generation})"))
            .collect();
        let there = if pins.is_empty() {
            "it has none".to_owned()
        } else {
            format!("it has {}", pins.join(", "))
        };
        Error::damaged(
            Place::path(directory),
            format!("has no pin '{name}': {there}; dedup-index pin makes one"),
        )
    }

    /// The segments between pinned generations, the oldest first, none empty.
    pub(super) fn groups(&self) -> Vec<Range<usize>> {
        let mut ends: Vec<usize> = self
            .pins
            .values()
            .map(|&pinned| {
                self.segments
                    .partition_point(|segment| segment.changes[0] <= pinned)
            })
            .collect();
        ends.push(self.segments.len());
        ends.sort_unstable();
        ends.dedup();
        let starts = [0].into_iter().chain(ends.iter().copied());
        starts
            .zip(ends.iter().copied())
            .filter(|(start, end)| start < end)
            .map(|(start, end)| start..end)
            .collect()
    }
}

/// `2, 5 to 8`.
pub fn ranges_text(ranges: &[[u64; 2]]) -> String {
    let text = |[first, last]: &[u64; 2]| {
        if first == last {
            first.to_string()
        } else {
            format!("{first} to {last}")
        }
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{index::SegmentEntry, text::scheme::BlotScheme};

    fn manifest(changes: &[[u64; 2]], generation: u64) -> Manifest {
        let entry = |&changes: &[u64; 2]| SegmentEntry {
            name: String::new(),
            changes,
            parts: 1,
            files: Vec::new(),
        };
        let scheme: BlotScheme = "word@18.0 ordered:8:32 all".parse().unwrap();
        Manifest {
            generation,
            segments: changes.iter().map(entry).collect(),
            ..Manifest::new(&scheme)
        }
    }

    #[test]
    fn generations_that_are_there_are_those_that_can_be_opened() {
        for (changes, generation) in [
            (&[[1, 1]][..], 1),
            (&[[1, 5], [7, 7], [8, 11]], 12),
            (&[[1, 2], [3, 3]], 4),
            (&[[2, 9], [10, 10]], 10),
        ] {
            let manifest = manifest(changes, generation);
            let listed: Vec<u64> = manifest
                .generations()
                .iter()
                .flat_map(|&[first, last]| first..=last)
                .collect();
            let opened: Vec<u64> = (0..=generation + 2)
                .filter(|&at| manifest.at(Path::new("i"), at).is_ok())
                .collect();
            assert_eq!(listed, opened, "{changes:?}");
        }
    }

    #[test]
    fn names_of_pins_are_no_generations_and_no_paths() {
        for name in ["a", "2026-11-18", "v1.0_b", &"x".repeat(64)] {
            assert_eq!(name.parse(), Ok(Since::Pin(name.to_owned())));
        }
        assert_eq!("17".parse(), Ok(Since::Generation(17)));
        for name in [
            "",
            "a/b",
            "..",
            "-a",
            ".a",
            "a b",
            "a\n",
            "é",
            &"x".repeat(65),
            "99999999999999999999",
        ] {
            assert!(name.parse::<Since>().is_err(), "{name}");
        }
        assert_eq!(
            check_pin_name("12"),
            Err("the name of a pin has 1 to 64 ASCII letters, digits, '.', '_' and '-', and a letter among them; '12' could be taken for a generation".to_owned())
        );
    }

    #[test]
    fn segments_are_grouped_between_pins() {
        let mut manifest = manifest(&[[1, 1], [2, 2], [3, 5], [6, 6]], 7);
        assert_eq!(manifest.groups(), vec![Range { start: 0, end: 4 }]);
        for (name, pinned) in [("a", 2), ("b", 5), ("c", 7)] {
            manifest.pins.insert(name.to_owned(), pinned);
        }
        assert_eq!(manifest.groups(), [0..2, 2..3, 3..4]);
    }

    #[test]
    fn a_state_is_named_by_its_generation_or_its_pin() {
        let mut manifest = manifest(&[[1, 1], [2, 2]], 2);
        manifest.pins.insert("first".to_owned(), 1);
        let resolve = |since: &str| manifest.resolve(Path::new("i"), &since.parse().unwrap());
        assert_eq!(resolve("2").unwrap(), 2);
        assert_eq!(resolve("first").unwrap(), 1);
        let error = resolve("second").unwrap_err().to_string();
        assert!(error.contains("it has first (generation 1)"), "{error}");
        assert_eq!(ranges_text(&[[2, 2], [5, 8]]), "2, 5 to 8");
    }
}
