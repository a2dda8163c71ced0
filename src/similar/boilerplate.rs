//! Tells boilerplate from copied text: licences, navigation, skeletons of pages.
//!
//! Boilerplate is text that many documents have which have little else in common. How many are many
//! depends on the collection: in five releases of a manual most text is in five documents, and in
//! twenty releases in twenty. So the limit is found, not given.
//!
//! A set of documents are *near copies* if its documents, taken two by two, have at least 70 % of
//! their text in common: the blots that both have ÷ the blots that one of them has, each summed over
//! all pairs. Blots that more documents have than the set are not counted in this: boilerplate makes
//! no near copies.
//!
//! 1. Text of up to five documents counts, and so does text of near copies. In a collection of fewer
//!    than 100 documents all text counts: they are too few to tell, and have few pairs to read.
//! 2. Of that text, at least 95 % is in sets of at most *n* documents; *n* is the limit. It is five
//!    or more.
//! 3. Boilerplate is text of more than *n* documents that are no near copies.
//!
//! In 1,000 pages of which 100 are there twice, with the same navigation on all, the text of the 100
//! pairs counts, the limit is 5, and the navigation, which 1,100 documents have that share nothing
//! else, is boilerplate. In twelve releases of a manual the limit is 12, because most pages hardly
//! change: their text is in twelve documents that are near copies. A page that changes a lot counts
//! as well, as its text is in twelve documents at most.
//!
//! The numbers were chosen on manuals in five releases and checked on others in three and twelve
//! (`scripts/evaluate/templates`).
//!
//! # Bounds
//!
//! Whether a set are near copies is computed from counts per set, not pair by pair. Of sets of more
//! than 64 contents, 64 are compared: every nth in the order of the view, which is the order of ids.
//! Time is O(64 × sets of a document) for each set of more than five documents; memory is eight bytes
//! for each member of such a set, and of the other sets that two members of such a set have.

use crate::base::error::Result;
use crate::base::ids::{ContentNo, SetNo};
use crate::base::num::{ToU32, ToU64, ToUsize};
use crate::base::parallel;
use crate::index::{SetSource, View};
use rayon::prelude::*;
use std::ops::Range;

/// In fewer documents than this all text counts.
const LEAST_DOCUMENTS: usize = 100;
/// Text of at most this many documents always counts.
const FEW_DOCUMENTS: u64 = 5;
/// Near copies have at least this share of their text in common, in per cent.
const NEAR_COPIES_PERCENT: u128 = 70;
/// The limit leaves out at most one in this many blots of near copies.
const ONE_BEYOND_LIMIT: u64 = 20;
/// The number of contents of a set that are compared.
const COMPARED: usize = 64;

/// The boilerplate of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boilerplate {
    /// Text of more documents is boilerplate, unless they are near copies.
    pub max_documents: u64,
    /// The number of blots that are boilerplate.
    pub blots: u64,
    /// The number of blots that several documents have.
    pub shared_blots: u64,
    /// The sets that are boilerplate, in order.
    sets: Vec<SetNo>,
}

impl Boilerplate {
    /// Finds the boilerplate among the sets of an index.
    pub fn find(view: &View<'_>, sets: &SetSource<'_>, threads: usize) -> Result<Self> {
        let used = UsedSets::new(view, sets)?;
        let pool = parallel::pool(threads);
        let common = used.first_common..used.order.len();
        // Few pieces, as each needs counts of its own.
        let piece = common.len() / (4 * pool.threads()) + 1;
        let are_near_copies: Vec<bool> = pool.install(|| {
            common
                .clone()
                .into_par_iter()
                .with_min_len(piece)
                .map_init(
                    || vec![0_u32; used.order.len()],
                    |counts, at| used.are_near_copies(at, counts),
                )
                .collect()
        });
        let max_documents = if view.documents() < LEAST_DOCUMENTS {
            u64::MAX
        } else {
            used.limit(&are_near_copies)
        };
        let mut found = Self {
            max_documents,
            blots: 0,
            shared_blots: used.shared_blots,
            sets: Vec::new(),
        };
        for (set, are_near_copies) in used.order[common].iter().zip(are_near_copies) {
            if set.documents > max_documents && !are_near_copies {
                found.sets.push(set.number);
                found.blots += set.blots;
            }
        }
        found.sets.sort_unstable();
        Ok(found)
    }

    /// Whether a set is boilerplate.
    pub fn contains(&self, set: SetNo) -> bool {
        self.sets.binary_search(&set).is_ok()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.blots == 0
    }
}

/// A set of contents.
struct UsedSet {
    number: SetNo,
    documents: u64,
    blots: u64,
    /// Where its contents are.
    members: Range<usize>,
}

/// The sets that are needed to compare the documents of common sets, which are sets of more than
/// [`FEW_DOCUMENTS`], by rising number of documents, and those of each content.
///
/// Of the other sets only those are here of which two contents have a common set, as no others can
/// tell of near copies. So chance matches take hardly any memory.
struct UsedSets {
    order: Vec<UsedSet>,
    /// The first common set; all after it are common.
    first_common: usize,
    /// The contents of all sets.
    members: Vec<u32>,
    /// The places in `order` of the sets of all contents, one content after the other, ascending.
    of_contents: Vec<u32>,
    /// Where the sets of each content end.
    ends: Vec<usize>,
    /// The blots of each content that are not in common sets.
    other_blots: Vec<u64>,
    /// The number of blots that several documents have.
    shared_blots: u64,
    /// The number of them that are not in common sets.
    rare_blots: u64,
}

impl UsedSets {
    fn new(view: &View<'_>, sets: &SetSource<'_>) -> Result<Self> {
        let documents_of = |members: &[u32]| -> u64 {
            let documents = members
                .iter()
                .map(|&content| view.documents_of(ContentNo::new(content)).len().to_u64());
            documents.sum()
        };
        let contents = view.contents().iter();
        let mut used = Self {
            order: Vec::new(),
            first_common: 0,
            members: Vec::new(),
            of_contents: Vec::new(),
            ends: Vec::new(),
            other_blots: contents.map(|content| u64::from(content.blots)).collect(),
            shared_blots: 0,
            rare_blots: 0,
        };
        let mut has_common = vec![false; used.other_blots.len()];
        sets.for_each(|number, blots, members| {
            let documents = documents_of(members);
            used.shared_blots += blots;
            if documents <= FEW_DOCUMENTS {
                used.rare_blots += blots;
            } else if blots > 0 {
                used.push(number, documents, blots, members);
                for content in members.iter().map(|content| content.to_usize()) {
                    let other = &mut used.other_blots[content];
                    *other = other.saturating_sub(blots);
                    has_common[content] = true;
                }
            }
        })?;
        if !used.order.is_empty() {
            sets.for_each(|number, blots, members| {
                let compared = members
                    .iter()
                    .filter(|content| has_common[content.to_usize()]);
                if compared.count() > 1 && blots > 0 {
                    let documents = documents_of(members);
                    if documents <= FEW_DOCUMENTS {
                        used.push(number, documents, blots, members);
                    }
                }
            })?;
        }
        used.order.sort_by_key(|set| (set.documents, set.number));
        used.first_common = used
            .order
            .partition_point(|set| set.documents <= FEW_DOCUMENTS);
        used.list_sets_of_contents();
        Ok(used)
    }

    fn push(&mut self, number: SetNo, documents: u64, blots: u64, members: &[u32]) {
        let start = self.members.len();
        self.members.extend_from_slice(members);
        self.order.push(UsedSet {
            number,
            documents,
            blots,
            members: start..self.members.len(),
        });
    }

    fn list_sets_of_contents(&mut self) {
        let mut ends = vec![0_usize; self.other_blots.len()];
        for content in &self.members {
            ends[content.to_usize()] += 1;
        }
        let mut next = vec![0_usize; ends.len()];
        let mut sum = 0;
        for (end, next) in ends.iter_mut().zip(&mut next) {
            *next = sum;
            sum += *end;
            *end = sum;
        }
        self.of_contents = vec![0; sum];
        for (at, set) in self.order.iter().enumerate() {
            for content in &self.members[set.members.clone()] {
                let next = &mut next[content.to_usize()];
                self.of_contents[*next] = at.to_u32();
                *next += 1;
            }
        }
        self.ends = ends;
    }

    fn sets_of(&self, content: usize) -> &[u32] {
        let start = content.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.of_contents[start..self.ends[content]]
    }

    /// Whether the documents of a common set are near copies. `counts` has a zero for each set,
    /// before and after.
    fn are_near_copies(&self, at: usize, counts: &mut [u32]) -> bool {
        let documents = self.order[at].documents;
        let members = &self.members[self.order[at].members.clone()];
        let compared = members.len().min(COMPARED);
        let (mut all_blots, mut seen) = (0_u128, Vec::new());
        for place in 0..compared {
            let content = members[place * members.len() / compared].to_usize();
            all_blots += u128::from(self.other_blots[content]);
            for &other in self.sets_of(content) {
                let set = &self.order[other.to_usize()];
                if set.documents > documents {
                    break;
                }
                if set.documents > FEW_DOCUMENTS {
                    all_blots += u128::from(set.blots);
                }
                let count = &mut counts[other.to_usize()];
                *count += 1;
                if *count == 1 {
                    seen.push(other);
                }
            }
        }
        let mut shared = 0_u128;
        for other in seen {
            let count = std::mem::take(&mut counts[other.to_usize()]);
            let pairs = u128::from(count) * u128::from(count.saturating_sub(1)) / 2;
            shared += pairs * u128::from(self.order[other.to_usize()].blots);
        }
        let in_either = all_blots * u128::from(compared.to_u64() - 1) - shared;
        shared * 100 >= NEAR_COPIES_PERCENT * in_either
    }

    /// The number of documents above which text is boilerplate, unless they are near copies. For
    /// each common set: whether it is of near copies; others count as such.
    fn limit(&self, are_near_copies: &[bool]) -> u64 {
        let counted: Vec<(u64, u64)> = self.order[self.first_common..]
            .iter()
            .zip(are_near_copies)
            .filter(|&(_, &counts)| counts)
            .map(|(set, _)| (set.documents, set.blots))
            .collect();
        let all = self.rare_blots + counted.iter().map(|&(_, blots)| blots).sum::<u64>();
        let mut beyond = 0;
        for &(documents, blots) in counted.iter().rev() {
            beyond += blots;
            if beyond * ONE_BEYOND_LIMIT > all {
                return documents;
            }
        }
        FEW_DOCUMENTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{Index, test_files};
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Finds the boilerplate of documents with these blots, which are in the order of their ids.
    fn boilerplate_of(documents: &[BTreeSet<u64>]) -> (Boilerplate, BTreeSet<u64>) {
        let directory = tempfile::tempdir().unwrap();
        let ids: Vec<String> = (0..documents.len()).map(|at| format!("{at:05}")).collect();
        let rows: Vec<_> = ids
            .iter()
            .zip(documents)
            .enumerate()
            .map(|(at, (id, blots))| (id.as_str(), at.to_u64(), blots.iter().copied().collect()))
            .collect();
        test_files::commit(directory.path(), &rows, &[]);
        let index = Index::open(directory.path()).unwrap();
        let view = View::by_id(&index).unwrap();
        let sets = view.sets(1).unwrap();
        let source = SetSource::Held(view.sets(1).unwrap());
        let found = Boilerplate::find(&view, &source, 2).unwrap();
        assert_eq!(found, Boilerplate::find(&view, &source, 1).unwrap());
        let mut blots = BTreeSet::new();
        view.for_each_blot(|blot, contents| {
            let set = SetNo::first(sets.len())
                .find(|&set| sets.get(set) == contents && contents.len() > 1);
            if set.is_some_and(|set| found.contains(set)) {
                blots.insert(blot.get());
            }
            Ok(())
        })
        .unwrap();
        (found, blots)
    }

    /// The same by the definition, pair by pair.
    fn by_definition(documents: &[BTreeSet<u64>]) -> (u64, BTreeSet<u64>) {
        let mut having: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (at, blots) in documents.iter().enumerate() {
            blots
                .iter()
                .for_each(|&blot| having.entry(blot).or_default().push(at));
        }
        having.retain(|_, documents| documents.len() > 1);
        let df = |blot: &u64| having.get(blot).map_or(1, Vec::len);
        let are_near_copies = |members: &[usize]| {
            let counted = |document: usize| {
                let blots = documents[document].iter();
                blots
                    .filter(|&blot| df(blot) <= members.len())
                    .collect::<BTreeSet<_>>()
            };
            let compared = members.len().min(COMPARED);
            let chosen: Vec<_> = (0..compared)
                .map(|place| counted(members[place * members.len() / compared]))
                .collect();
            let (mut shared, mut in_either) = (0, 0);
            for (at, a) in chosen.iter().enumerate() {
                for b in &chosen[at + 1..] {
                    shared += a.intersection(b).count();
                    in_either += a.union(b).count();
                }
            }
            members.len() <= 5 || shared * 100 >= 70 * in_either
        };
        let counts: BTreeMap<u64, bool> = having
            .iter()
            .map(|(&blot, members)| (blot, are_near_copies(members)))
            .collect();
        let counted: Vec<_> = having
            .iter()
            .filter(|(blot, _)| counts[blot])
            .map(|(_, members)| members.len())
            .collect();
        let limit = (5..=documents.len())
            .find(|&limit| {
                let beyond = counted.iter().filter(|&&df| df > limit).count();
                beyond * 20 <= counted.len()
            })
            .unwrap();
        let found = having
            .iter()
            .filter(|(blot, members)| members.len() > limit && !counts[blot])
            .map(|(&blot, _)| blot)
            .collect();
        (limit.to_u64(), found)
    }

    /// A page: navigation that all pages have, and text of its own.
    fn page(own: u64) -> BTreeSet<u64> {
        (0..30)
            .chain(own * 1_000 + 1_000..own * 1_000 + 1_070)
            .collect()
    }

    #[test]
    fn navigation_is_boilerplate_and_copies_are_not() {
        let mut pages: Vec<_> = (0..200).map(page).collect();
        pages.extend((0..20).map(page));
        let (found, blots) = boilerplate_of(&pages);
        assert_eq!(found.max_documents, 5);
        assert_eq!(blots, (0..30).collect());
        assert_eq!((found.blots, found.shared_blots), (30, 30 + 20 * 70));
    }

    #[test]
    fn the_limit_follows_the_number_of_releases() {
        // Twelve releases of 20 pages; in each release one blot of a page is another.
        let release = |release: u64| {
            (0..20).map(move |own| {
                let mut page = page(own);
                page.remove(&(own * 1_000 + 1_000 + release));
                page.insert(own * 1_000 + 1_500 + release);
                page
            })
        };
        let (found, blots) = boilerplate_of(&(0..12).flat_map(release).collect::<Vec<_>>());
        assert_eq!(found.max_documents, 12);
        assert_eq!(blots, (0..30).collect());
    }

    #[test]
    fn few_documents_have_no_boilerplate() {
        let pages: Vec<_> = (0..99).map(page).collect();
        assert!(boilerplate_of(&pages).0.is_empty());
        assert!(boilerplate_of(&[]).0.is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn boilerplate_is_as_defined(
            groups in prop::collection::vec((1_usize..12, 0_u64..40, 1_u64..30), 20..60),
            common in 0_u64..12, seed in any::<u64>(),
        ) {
            let mut documents = Vec::new();
            let mut random = seed;
            let mut next = |below: u64| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (random >> 33) % below
            };
            for (group, &(copies, own, changed)) in groups.iter().enumerate() {
                for _ in 0..copies {
                    let start = group.to_u64() * 1_000 + 1_000;
                    let mut blots: BTreeSet<u64> = (start..start + own).collect();
                    blots.extend((0..changed).map(|_| start + next(60)));
                    blots.extend((0..common).filter(|_| next(3) > 0));
                    documents.push(blots);
                }
            }
            let (found, blots) = boilerplate_of(&documents);
            if documents.len() < LEAST_DOCUMENTS {
                prop_assert!(found.is_empty());
            } else {
                prop_assert_eq!((found.max_documents, blots), by_definition(&documents));
            }
        }
    }
}
