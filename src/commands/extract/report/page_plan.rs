//! Which pairs and documents get a page: the best ones, as far as they fit into a number and a size.
//!
//! It is decided before any page is made, from the sizes that the index knows, so that pages can link to each other and the result
//! does not depend on threads.

use super::found_pairs::FoundPair;
use crate::base::ids::DocNo;
use crate::base::num::ToU32;
use std::collections::HashMap;

/// Sources with more in common come first; a page with the texts of many more would be slow.
const SOURCES: usize = 12;
/// Style, script and explanations of a page.
const FRAME_BYTES: u64 = 40 << 10;

/// How many pages there may be, and how large they may be together.
#[derive(Debug, Clone, Copy)]
pub struct PageLimits {
    /// Of pairs, and of documents.
    pub pages: usize,
    /// Of both together.
    pub bytes: u64,
}

/// The pages to make.
#[derive(Debug, Default, PartialEq)]
pub struct PagePlan {
    /// This number of the best pairs.
    pub pairs: usize,
    /// The documents; the first gets the page with number 1.
    pub documents: Vec<PlannedDocument>,
    numbers: HashMap<DocNo, usize>,
}

/// A document that gets a page, and its sources.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedDocument {
    /// The document.
    pub document: DocNo,
    /// Its best pairs, by their places in the list of pairs.
    pub pairs: Vec<u32>,
    /// How many more pairs of the list it is in.
    pub more: u64,
}

impl PagePlan {
    /// `best`: pairs, the best first. Documents that were not checked get no page. `bytes`: the size of a text.
    pub fn make(
        best: &[FoundPair],
        limits: PageLimits,
        is_checked: impl Fn(DocNo) -> bool,
        bytes: impl Fn(DocNo) -> u64,
    ) -> Self {
        let pair_bytes = |pair: &FoundPair| FRAME_BYTES + bytes(pair.a) + bytes(pair.b);
        let pairs = fitting(best.iter().map(pair_bytes), limits.pages, limits.bytes / 2);
        let mut documents = with_pairs(best, &is_checked);
        let page_bytes = |planned: &PlannedDocument| {
            let sources = planned.pairs.iter().map(|&pair| {
                let FoundPair { a, b, .. } = *super::place_in(best, pair);
                bytes(if a == planned.document { b } else { a })
            });
            FRAME_BYTES + bytes(planned.document) + sources.sum::<u64>()
        };
        let rest = limits.bytes - limits.bytes / 2;
        let fitting = fitting(documents.iter().map(page_bytes), limits.pages, rest);
        documents.truncate(fitting);
        let numbers = documents
            .iter()
            .enumerate()
            .map(|(at, planned)| (planned.document, at + 1))
            .collect();
        Self {
            pairs,
            documents,
            numbers,
        }
    }

    /// The number of a document's page.
    pub fn page_of(&self, document: DocNo) -> Option<usize> {
        self.numbers.get(&document).copied()
    }
}

/// How many pages fit; the first always does.
fn fitting(sizes: impl Iterator<Item = u64>, most: usize, bytes: u64) -> usize {
    let mut sum = 0;
    let fits = |&(at, size): &(usize, u64)| {
        sum += size;
        at == 0 || sum <= bytes
    };
    sizes.take(most).enumerate().take_while(fits).count()
}

/// The documents of pairs, in the order of their best pair.
fn with_pairs(best: &[FoundPair], is_checked: &impl Fn(DocNo) -> bool) -> Vec<PlannedDocument> {
    let mut documents: Vec<PlannedDocument> = Vec::new();
    let mut places: HashMap<DocNo, usize> = HashMap::new();
    for (at, pair) in best.iter().enumerate() {
        for document in [pair.a, pair.b] {
            if !is_checked(document) {
                continue;
            }
            let place = *places.entry(document).or_insert_with(|| {
                documents.push(PlannedDocument {
                    document,
                    pairs: Vec::new(),
                    more: 0,
                });
                documents.len() - 1
            });
            let planned = &mut documents[place];
            if planned.pairs.len() < SOURCES {
                planned.pairs.push(at.to_u32());
            } else {
                planned.more += 1;
            }
        }
    }
    documents
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(a: u32, b: u32) -> FoundPair {
        FoundPair {
            score: 0.5,
            a: DocNo::new(a),
            b: DocNo::new(b),
            shares: [0.5; 2],
        }
    }

    fn plan(best: &[FoundPair], pages: usize, bytes: u64) -> PagePlan {
        // The document 9 was not checked.
        let checked = |document| document != DocNo::new(9);
        PagePlan::make(best, PageLimits { pages, bytes }, checked, |_| 1000)
    }

    #[test]
    fn the_best_come_first() {
        let best = [pair(3, 9), pair(1, 3), pair(1, 2)];
        let all = plan(&best, 10, u64::MAX);
        assert_eq!(all.pairs, 3);
        let numbers = [3, 1, 2, 9].map(|document| all.page_of(DocNo::new(document)));
        assert_eq!(numbers, [Some(1), Some(2), Some(3), None]);
        assert_eq!(all.documents[0].pairs, [0, 1]);
        let two = plan(&best, 2, u64::MAX);
        assert_eq!((two.pairs, two.documents.len()), (2, 2));
    }

    #[test]
    fn pages_fit_into_the_size() {
        let best = [pair(0, 1), pair(2, 3), pair(4, 5)];
        let page = FRAME_BYTES + 2000;
        assert_eq!(plan(&best, 10, 4 * page).pairs, 2);
        assert_eq!(plan(&best, 10, 4 * page).documents.len(), 2);
        assert_eq!(plan(&best, 10, 0).pairs, 1, "the first is always shown");
        assert_eq!(plan(&[], 10, 0), PagePlan::default());
    }

    #[test]
    fn sources_beyond_the_best_are_counted() {
        let best: Vec<FoundPair> = (1..=20).map(|other| pair(0, other)).collect();
        let planned = &plan(&best, 1, u64::MAX).documents[0];
        assert_eq!((planned.pairs.len(), planned.more), (SOURCES, 8));
    }
}
