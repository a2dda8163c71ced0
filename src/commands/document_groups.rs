//! Which documents belong together, so that they are not compared: one author's, one team's.

use crate::base::error::{Error, Place, Problem, Result};
use crate::base::num::ToU32;
use std::{
    collections::HashMap,
    fs::File,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    sync::Arc,
};

/// How documents are grouped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grouping {
    /// A file with an id, a tab and a group a line. What it does not name is alone.
    File(PathBuf),
    /// By this many first components of the id's path. A document with no more components is a group of its own.
    Depth(usize),
}

/// The group of each document.
#[derive(Debug)]
pub enum DocumentGroups {
    /// Of each id its group, and the line that says so.
    Listed {
        file: Arc<str>,
        of: HashMap<String, (u32, u64)>,
    },
    Depth(usize),
}

impl DocumentGroups {
    /// Memory: with a file, its size and some fifty bytes a line.
    pub fn read(grouping: &Grouping) -> Result<Self> {
        match grouping {
            Grouping::Depth(depth) => Ok(Self::Depth(*depth)),
            Grouping::File(path) => Self::read_file(path),
        }
    }

    fn read_file(path: &Path) -> Result<Self> {
        let named = |error| Error::io(path.display(), error);
        let file: Arc<str> = path.display().to_string().into();
        let (mut of, mut numbers) = (HashMap::new(), HashMap::new());
        for (line, number) in BufReader::new(File::open(path).map_err(named)?)
            .split(b'\n')
            .zip(1..)
        {
            let wrong = |what: String| Error::damaged(Place::line(&file, number), what);
            let line = String::from_utf8(line.map_err(named)?).map_err(|_| {
                wrong("the line is not UTF-8; convert the file, for example with iconv".to_owned())
            })?;
            let line = line.trim_end_matches('\r');
            if line.is_empty() {
                continue;
            }
            let Some((id, group)) = line
                .rsplit_once('\t')
                .filter(|(id, group)| !id.is_empty() && !group.is_empty())
            else {
                return Err(wrong("expected an id, a tab and a group".to_owned()));
            };
            let next = numbers.len().to_u32();
            let group = *numbers.entry(group.to_owned()).or_insert(next);
            let (known, first) = *of.entry(id.to_owned()).or_insert((group, number));
            if known != group {
                return Err(wrong(format!(
                    "'{id}' is in another group in line {first}; a document has one"
                )));
            }
        }
        Ok(Self::Listed { file, of })
    }

    /// Whether two documents are of one group.
    pub fn are_together(&self, one: &str, two: &str) -> bool {
        match self {
            Self::Listed { of, .. } => {
                one == two
                    || of
                        .get(one)
                        .is_some_and(|group| of.get(two).is_some_and(|other| other.0 == group.0))
            }
            Self::Depth(depth) => first_components(one, *depth) == first_components(two, *depth),
        }
    }

    /// A number for the group of each document; those that are alone have their own.
    pub fn numbers(&self, ids: impl Iterator<Item = Result<String>>) -> Result<Vec<u32>> {
        let mut numbers = Vec::new();
        let mut next = if let Self::Listed { of, .. } = self {
            of.values().map(|group| group.0 + 1).max().unwrap_or(0)
        } else {
            0
        };
        let mut known: HashMap<String, u32> = HashMap::new();
        for id in ids {
            let id = id?;
            let new = || {
                next += 1;
                next - 1
            };
            numbers.push(match self {
                Self::Listed { of, .. } => of.get(&id).map_or_else(new, |group| group.0),
                Self::Depth(depth) => *known
                    .entry(first_components(&id, *depth))
                    .or_insert_with(new),
            });
        }
        Ok(numbers)
    }

    /// The lines whose ids are not known, in order.
    pub fn unknown(&self, mut is_known: impl FnMut(&str) -> Result<bool>) -> Result<Vec<Problem>> {
        let Self::Listed { file, of } = self else {
            return Ok(Vec::new());
        };
        let mut unknown = Vec::new();
        for (id, (_, line)) in of {
            if !is_known(id)? {
                unknown.push(Problem::new(
                    Place::line(file, *line),
                    format!("there is no document '{id}'"),
                ));
            }
        }
        unknown.sort_by_key(|problem| problem.place.at);
        Ok(unknown)
    }
}

fn first_components(id: &str, depth: usize) -> String {
    id.split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .take(depth)
        .collect::<Vec<_>>()
        .join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_path() {
        let groups = DocumentGroups::Depth(2);
        assert!(
            groups.are_together("a/b/1", "./a//b/2/3")
                && !groups.are_together("a/b/1", "a/c/1")
                && !groups.are_together("a/1", "a/2")
        );
        let ids = ["a/b/1", "a/c", "a/b/2", "x", "x/y"].map(|id| Ok(id.to_owned()));
        assert_eq!(groups.numbers(ids.into_iter()).unwrap(), [0, 1, 0, 2, 3]);
    }

    #[test]
    fn by_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("groups");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            DocumentGroups::read(&Grouping::File(path.clone()))
        };
        let groups = read("a\tx\nb\ty\r\n\nc\tx\nwith\ttab\tx\n").unwrap();
        assert!(
            groups.are_together("a", "c")
                && groups.are_together("a", "with\ttab")
                && !groups.are_together("a", "b")
        );
        assert!(!groups.are_together("d", "e") && groups.are_together("d", "d"));
        let ids = ["d", "a", "b", "c", "e"].map(|id| Ok(id.to_owned()));
        assert_eq!(groups.numbers(ids.into_iter()).unwrap(), [2, 0, 1, 0, 3]);
        let unknown = groups.unknown(|id| Ok(id == "a" || id == "b")).unwrap();
        let lines: Vec<String> = unknown
            .iter()
            .map(|problem| {
                problem
                    .to_string()
                    .rsplit_once("groups:")
                    .unwrap()
                    .1
                    .to_owned()
            })
            .collect();
        assert_eq!(
            lines,
            [
                "4: there is no document 'c'",
                "5: there is no document 'with\\ttab'"
            ]
        );
        for (text, what) in [
            ("a x\n", ":1: expected an id, a tab and a group"),
            ("a\tx\n\ta\n", ":2: expected"),
            ("a\tx\na\ty\n", ":2: 'a' is in another group in line 1"),
        ] {
            assert!(read(text).unwrap_err().to_string().contains(what), "{text}");
        }
    }
}
