//! Which documents were checked, which of two is the one that is examined, and what the reader should know about each.

use super::{days::Day, found_pairs::FoundPair};
use crate::{
    base::{
        error::Result,
        ids::{ContentNo, DocNo},
        parallel::{self, Limits},
    },
    commands::text_cache::TextCache,
    index::View,
    similar::Discovery,
    text::language::language_of,
};
use rayon::prelude::*;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Of more documents, only those of the best pairs are asked for their dates.
const DATED_DOCUMENTS: usize = 20_000;
/// Of more documents no languages are told: that would mean to read all texts once more.
const JUDGED_DOCUMENTS: usize = 5_000;
/// Documents with fewer words hardly have a passage, whatever they are copied from.
const SHORT_WORDS: u32 = 50;

/// The documents that were checked, and their dates.
#[derive(Debug, Default)]
pub struct Examined {
    /// Whether each document is new; empty if all are checked alike.
    is_new: Vec<bool>,
    days: HashMap<DocNo, Day>,
}

impl Examined {
    /// `best`: pairs whose order will be asked for.
    pub fn of(
        discovery: &Discovery<'_>,
        texts: &TextCache<'_>,
        best: &[FoundPair],
    ) -> Result<Self> {
        let view = discovery.view;
        let documents: Vec<DocNo> = if view.documents() <= DATED_DOCUMENTS {
            DocNo::first(view.documents()).collect()
        } else {
            let of_pairs: HashSet<DocNo> = best.iter().flat_map(|pair| [pair.a, pair.b]).collect();
            of_pairs.into_iter().collect()
        };
        let mut days = HashMap::new();
        for document in documents {
            let modified = texts.modified(&view.id(document)?);
            if let Some(day) = modified.and_then(Day::of) {
                days.insert(document, day);
            }
        }
        Ok(Self {
            is_new: discovery.pair_filter.is_new.clone(),
            days,
        })
    }

    /// Whether a document was compared with all others.
    pub fn is_checked(&self, document: DocNo) -> bool {
        self.is_new.is_empty() || self.is_new[document.index()]
    }

    /// Puts the document that is examined first: the new one; of two that are new, the one whose file was changed on a later day.
    pub fn turn(&self, pair: &mut FoundPair) {
        let rank = |document| (self.is_checked(document), self.days.get(&document));
        let (a, b) = (rank(pair.a), rank(pair.b));
        let is_known = a.0 != b.0 || a.1.is_some() && b.1.is_some();
        if is_known && b > a {
            std::mem::swap(&mut pair.a, &mut pair.b);
            pair.shares.swap(0, 1);
        }
    }

    /// The date of the newest document that was checked.
    pub fn newest(&self) -> Option<String> {
        let checked = self
            .days
            .iter()
            .filter(|(document, _)| self.is_checked(**document));
        checked.map(|(_, day)| *day).max().map(Day::date)
    }

    /// The documents that were checked, those with the same words together; first those of the best pairs, then the others in their order.
    pub fn groups(&self, view: &View<'_>, best: &[FoundPair]) -> Vec<Vec<DocNo>> {
        let mut seen = vec![false; view.contents().len()];
        let of_pairs = best.iter().flat_map(|pair| [pair.a, pair.b]);
        let documents = of_pairs.chain(DocNo::first(view.documents()));
        let contents = documents.map(|document| view.content_of(document));
        contents
            .filter(|content| !std::mem::replace(&mut seen[content.index()], true))
            .map(|content| self.checked_of(view, content))
            .filter(|group| !group.is_empty())
            .collect()
    }

    fn checked_of(&self, view: &View<'_>, content: ContentNo) -> Vec<DocNo> {
        let all = view.documents_of(content).iter().copied();
        all.filter(|&document| self.is_checked(document)).collect()
    }

    /// The languages of documents that are not in the language of most: text that was translated is not found.
    pub fn other_languages(
        &self,
        view: &View<'_>,
        texts: &TextCache<'_>,
        limits: Limits,
    ) -> Result<HashMap<DocNo, &'static str>> {
        let documents: Vec<DocNo> = DocNo::first(view.documents())
            .filter(|&document| self.is_checked(document))
            .collect();
        let is_words = texts.options.passages.tokenization.rule.is_words();
        if documents.len() > JUDGED_DOCUMENTS || !is_words {
            return Ok(HashMap::new());
        }
        let ids = documents
            .iter()
            .map(|&document| Ok((document, view.id(document)?)))
            .collect::<Result<Vec<_>>>()?;
        let judged: Vec<(DocNo, &'static str)> = parallel::pool(limits.threads).install(|| {
            ids.par_iter()
                .filter_map(|(document, id)| Some((*document, language_of(&texts.peek(id)?)?)))
                .collect()
        });
        let Some(most) = language_of_most(&judged) else {
            return Ok(HashMap::new());
        };
        Ok(judged.into_iter().filter(|found| found.1 != most).collect())
    }
}

/// The language of more than half of the documents.
fn language_of_most(judged: &[(DocNo, &'static str)]) -> Option<&'static str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, language) in judged {
        *counts.entry(language).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|&(_, documents)| documents);
    most.filter(|&(_, documents)| 2 * documents > judged.len())
        .map(|(language, _)| language)
}

/// What the reader should know about a document.
pub fn flags(id: &str, words: u32, texts: &TextCache<'_>) -> Vec<String> {
    let is_words = texts.options.passages.tokenization.rule.is_words();
    let mut flags = Vec::new();
    if words == 0 {
        flags.push("no words".to_owned());
    } else if is_words && words < SHORT_WORDS {
        flags.push("too short to judge".to_owned());
    }
    if texts.is_unread(id) {
        flags.push("text not found, or changed since".to_owned());
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn turned(is_new: &[bool], days: &[Option<u64>]) -> [u32; 2] {
        let day = |days: u64| Day::of(UNIX_EPOCH + Duration::from_secs(86_400 * days)).unwrap();
        let dated = days.iter().zip(0..);
        let examined = Examined {
            is_new: is_new.to_vec(),
            days: dated
                .filter_map(|(days, document)| Some((DocNo::new(document), day((*days)?))))
                .collect(),
        };
        let mut pair = FoundPair {
            score: 1.0,
            a: DocNo::new(0),
            b: DocNo::new(1),
            shares: [0.0, 1.0],
        };
        examined.turn(&mut pair);
        assert_eq!(
            pair.shares[0],
            f64::from(pair.a.get()),
            "shares turn with ids"
        );
        [pair.a.get(), pair.b.get()]
    }

    #[test]
    fn the_examined_document_comes_first() {
        assert_eq!(turned(&[], &[Some(3), Some(4)]), [1, 0], "later");
        assert_eq!(turned(&[], &[Some(4), Some(4)]), [0, 1], "the same day");
        assert_eq!(turned(&[], &[None, Some(4)]), [0, 1], "not known");
        assert_eq!(turned(&[false, true], &[Some(9), Some(4)]), [1, 0], "new");
        assert_eq!(turned(&[true, true], &[Some(4), Some(9)]), [1, 0]);
        assert_eq!(turned(&[true, false], &[None, Some(9)]), [0, 1]);
    }

    #[test]
    fn most_is_more_than_half() {
        let judged = |languages: &[&'static str]| -> Vec<(DocNo, &'static str)> {
            (0..)
                .map(DocNo::new)
                .zip(languages.iter().copied())
                .collect()
        };
        let of = |languages: &[&'static str]| language_of_most(&judged(languages));
        assert_eq!(of(&["English", "German", "English"]), Some("English"));
        assert_eq!(of(&["English", "German"]), None);
        assert_eq!(of(&[]), None);
    }
}
