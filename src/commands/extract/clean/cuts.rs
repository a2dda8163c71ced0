//! Passages that other documents have too, and that are cut out of all documents but one.
//!
//! *Within the collection*: a sequence of N tokens is cut out of every document that has it, except for the first one in order of
//! preference. A sequence of N tokens that two documents have consists of windows of k tokens that two documents have. So a bitmap over the
//! shared blots of the index rejects nearly all sequences, and only the rest is hashed, sorted by hash, and compared:
//!
//! 1. each document that stays: tokens and blots; runs of shared blots; a hash of 128 bits for each sequence of N tokens in them;
//! 2. the hashes, in 256 files by their first byte, each sorted: of equal ones the most preferred document keeps the sequence;
//! 3. the others, in files by document: neighbouring sequences become passages.
//!
//! *From another collection*: N tokens go if their windows are all in one document of that collection. It may be an index, which has no
//! positions, so that the windows need not stand in the same order there; for windows of several words they practically do.
//!
//! A passage reaches to the start of the token that follows it. Cutting it leaves what stood before and after it, which may be a new
//! sequence of N tokens: a second run would find it if another document had the same.

use super::{
    decide::{Compared, Decisions},
    shards::ShardList,
    sorted_buckets::SortedBuckets,
};
use crate::{
    base::{
        error::{Error, Result},
        files::TempDir,
        ids::{ContentNo, DocNo},
        num::{ToU32, ToU64, ToUsize},
    },
    blot as schemes,
    commands::{
        BlotOptions, DocumentStage, Observer, Settings, StageOutput,
        blot::{DocumentBlotter, DocumentParts},
        run,
    },
    index::{BlotTarget, Index},
    text::{
        corpus::InputDocument,
        stream::{Span, Tokens},
    },
};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_128;

/// How long passages are that are cut, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutLengths {
    /// Of passages that another document of the collection has.
    pub within: u32,
    /// Of passages that a document of another collection has.
    pub against: u32,
}

/// A passage that is cut out of a document of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The place of the document in the input.
    pub place: u32,
    /// The bytes of its text.
    pub span: Span,
    /// Its tokens.
    pub tokens: u32,
    /// The document that keeps the passage.
    pub of: DocNo,
}

/// What is needed to find passages.
pub struct CutSearch<'c> {
    pub compared: &'c Compared<'c>,
    pub decisions: &'c Decisions,
    /// The places of the documents in order of preference.
    pub order: &'c [u32],
    pub shards: &'c ShardList,
    /// The index of the input.
    pub index: &'c Index,
    /// The indexes of the other collections.
    pub against: &'c [Index],
    pub lengths: CutLengths,
    pub settings: &'c Settings,
    pub tmp_dir: &'c TempDir,
}

/// The passages that were found.
#[derive(Default)]
pub struct FoundCuts {
    /// By document, each document's in rising order.
    pub cuts: Option<SortedCuts>,
    /// Whether the document at a place keeps a passage that is cut out of others.
    pub keeps_others: Vec<bool>,
    /// Whether the document at a place has passages that cannot be cut out, because of the kind of its file.
    pub is_whole: Vec<bool>,
}

/// A sequence of tokens: two words of its hash, the rank of its document and the number of its first token, its span.
const SEQUENCE_WORDS: usize = 4;
/// A sequence that is cut: the place of its document and its first token, its span, the document that keeps it and the tokens.
const CUT_WORDS: usize = 3;

fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn halves(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

impl CutSearch<'_> {
    /// Finds all passages. Memory: a bit for sixteen of each shared blot, 6 bytes a document, 32 MiB of buffers, and a 256th of the sequences;
    /// these take 32 bytes each in temporary files.
    pub fn find(&self, observer: &mut dyn Observer) -> Result<FoundCuts> {
        let window = schemes::verbatim(&self.index.scheme.windows).map_or(0, |(_, length)| length);
        let blots =
            DocumentBlotter::for_comparison(&BlotOptions::default(), self.index)?.with_spans();
        let shared = SharedBlots::new(self, window)?;
        let mut source = self.shards.source(self.settings)?;
        blots.expect_in(&mut source);
        let rank_of = self.ranks();
        let document_at = self.compared.view.document_at();
        let stage = SequenceStage {
            search: self,
            shared: &shared,
            rank_of: &rank_of,
            others: OtherDocuments {
                indexes: self.against,
                document_at: &document_at,
                found: Vec::new(),
                places: Vec::new(),
            },
            window,
            blots,
        };
        let mut sequences = SortedBuckets::<SEQUENCE_WORDS>::new(self.tmp_dir);
        let mut cuts = SortedBuckets::<CUT_WORDS>::new(self.tmp_dir);
        let mut found = FoundCuts {
            cuts: None,
            keeps_others: vec![false; rank_of.len()],
            is_whole: vec![false; rank_of.len()],
        };
        let mut can_cut = vec![false; rank_of.len()];
        let places = rank_of.len().to_u64();
        run(
            &stage,
            source,
            self.settings,
            observer,
            |part: Sequences, _| {
                for place in part.cuttable {
                    can_cut[place.to_usize()] = true;
                }
                for sequence in part.list {
                    sequences.push((sequence[0] >> 56).to_usize(), sequence)?;
                }
                for cut in part.cuts {
                    let place = halves(cut[0]).0;
                    if can_cut[place.to_usize()] {
                        cuts.push(bucket_of(place, places), cut)?;
                    } else {
                        found.is_whole[place.to_usize()] = true;
                    }
                }
                Ok(())
            },
        )?;
        for bucket in 0..SortedBuckets::<SEQUENCE_WORDS>::COUNT {
            let sorted = sequences.take(bucket)?;
            for same in sorted.chunk_by(|a, b| a[..2] == b[..2]) {
                self.cut_all_but_first(same, &can_cut, &mut cuts, &mut found)?;
            }
        }
        found.cuts = Some(SortedCuts(cuts));
        Ok(found)
    }

    /// The rank of each place in the order of preference; none if the document goes.
    fn ranks(&self) -> Vec<Option<u32>> {
        let mut ranks = vec![None; self.order.len()];
        for (rank, &place) in self.order.iter().enumerate() {
            if self.decisions.stays(place.to_usize()) {
                ranks[place.to_usize()] = Some(rank.to_u32());
            }
        }
        ranks
    }

    /// `same`: equal sequences, the most preferred document first.
    fn cut_all_but_first(
        &self,
        same: &[[u64; SEQUENCE_WORDS]],
        can_cut: &[bool],
        cuts: &mut SortedBuckets<CUT_WORDS>,
        found: &mut FoundCuts,
    ) -> Result<()> {
        let (first, _) = halves(same[0][2]);
        let keeper = self.order[first.to_usize()];
        for sequence in same {
            let (rank, token) = halves(sequence[2]);
            let place = self.order[rank.to_usize()];
            if rank == first {
                continue;
            }
            if !can_cut[place.to_usize()] {
                found.is_whole[place.to_usize()] = true;
                continue;
            }
            found.keeps_others[keeper.to_usize()] = true;
            let of = self.compared.members.list[keeper.to_usize()].document;
            let cut = [
                pair(place, token),
                sequence[3],
                pair(of.get(), self.lengths.within),
            ];
            cuts.push(bucket_of(place, can_cut.len().to_u64()), cut)?;
        }
        Ok(())
    }

    /// Whether passages can be cut out of a document: not if its text was extracted or decoded.
    fn can_cut(&self, item: &InputDocument<'_>, place: u32) -> bool {
        let member = self.compared.members.list[place.to_usize()];
        let shard = &self.shards.shards[member.shard.to_usize()];
        shard.form.can_cut() && (item.record > 0 || item.bytes == Some(shard.entry.bytes))
    }
}

/// Documents of neighbouring places are in one bucket.
fn bucket_of(place: u32, places: u64) -> usize {
    (u64::from(place) * SortedBuckets::<CUT_WORDS>::COUNT.to_u64() / places.max(1)).to_usize()
}

/// The passages of all documents.
pub struct SortedCuts(SortedBuckets<CUT_WORDS>);

impl SortedCuts {
    /// Calls `each` with the passages of each document that has some, in the order of the input.
    pub fn for_each_document(
        mut self,
        mut each: impl FnMut(u32, &[Cut]) -> Result<()>,
    ) -> Result<()> {
        let mut cuts = Vec::new();
        for bucket in 0..SortedBuckets::<CUT_WORDS>::COUNT {
            let sorted = self.0.take(bucket)?;
            let place = |cut: &[u64; CUT_WORDS]| halves(cut[0]).0;
            for of_document in sorted.chunk_by(|a, b| place(a) == place(b)) {
                join_sequences(of_document, &mut cuts);
                each(place(&of_document[0]), &cuts)?;
            }
        }
        Ok(())
    }
}

/// Joins sequences of one document, in the order of their tokens, into passages. A new passage starts where another document keeps the sequence.
fn join_sequences(sequences: &[[u64; CUT_WORDS]], cuts: &mut Vec<Cut>) {
    cuts.clear();
    // The token after the last passage.
    let mut end_token = 0;
    for sequence in sequences {
        let (place, token) = halves(sequence[0]);
        let (start, end) = halves(sequence[1]);
        let (of, tokens) = halves(sequence[2]);
        let of = DocNo::new(of);
        let after = token + tokens;
        if after <= end_token && !cuts.is_empty() {
            continue;
        }
        match cuts.last_mut() {
            Some(last) if token <= end_token && last.of == of => {
                last.span.end = end;
                last.tokens += after - end_token;
            }
            Some(last) if token < end_token => {
                let span = Span {
                    start: last.span.end,
                    end,
                };
                let tokens = after - end_token;
                cuts.push(Cut {
                    place,
                    span,
                    tokens,
                    of,
                });
            }
            _ => cuts.push(Cut {
                place,
                span: Span { start, end },
                tokens,
                of,
            }),
        }
        end_token = after;
    }
}

/// Which blots two documents that stay have, or one that stays and one of the other collection.
struct SharedBlots {
    within: BlotBits,
    against: BlotBits,
}

impl SharedBlots {
    fn new(search: &CutSearch<'_>, window: u32) -> Result<Self> {
        let Compared {
            view,
            against,
            members,
            ..
        } = *search.compared;
        if window > search.lengths.within.min(search.lengths.against) {
            return Err(Error::Usage(format!(
                "passages that are cut have at least as many tokens as a window, and the windows here have {window}"
            )));
        }
        let (mut stays, mut is_other) = (
            vec![false; view.contents().len()],
            vec![false; view.contents().len()],
        );
        for place in search.decisions.staying() {
            let document = members.list[place.to_usize()].document;
            stays[view.content_of(document).index()] = true;
        }
        for document in DocNo::first(against) {
            is_other[view.content_of(document).index()] = true;
        }
        let count = |of: &[bool], contents: &[u32]| {
            let is_one = |content: &&u32| of[ContentNo::new(**content).index()];
            contents.iter().filter(is_one).take(2).count()
        };
        let bits = search.index.scheme.bits;
        let shared = view.stored_blots() / 4;
        let mut found = Self {
            within: BlotBits::new(bits, shared),
            against: BlotBits::new(bits, if against > 0 { shared } else { 0 }),
        };
        view.for_each_shared(
            search.settings.limits.threads,
            |contents| {
                let staying = count(&stays, contents);
                (staying > 1, staying > 0 && count(&is_other, contents) > 0)
            },
            |blot, (is_within, is_against)| {
                if is_within {
                    found.within.insert(blot.get());
                }
                if is_against {
                    found.against.insert(blot.get());
                }
                Ok(())
            },
        )?;
        Ok(found)
    }
}

/// A set of blots that may have a few more than were put into it. Blots are uniform, so their top bits serve as the hash.
struct BlotBits {
    words: Vec<u64>,
    shift: u8,
}

/// Bits for each blot: one in sixteen that is not there seems to be.
const BITS_PER_BLOT: u64 = 16;
const MOST_BITS: u32 = 33;

impl BlotBits {
    fn new(blot_bits: u8, blots: u64) -> Self {
        let wanted = (blots.max(64) * BITS_PER_BLOT).ilog2().min(MOST_BITS);
        let width = wanted.min(u32::from(blot_bits)).max(6);
        Self {
            words: vec![0; 1 << (width - 6)],
            shift: (u32::from(blot_bits).saturating_sub(width)) as u8,
        }
    }

    fn insert(&mut self, blot: u64) {
        let at = blot >> self.shift;
        self.words[(at >> 6).to_usize()] |= 1 << (at & 63);
    }

    fn contains(&self, blot: u64) -> bool {
        let at = blot >> self.shift;
        self.words[(at >> 6).to_usize()] >> (at & 63) & 1 == 1
    }
}

/// Finds the sequences of documents that may be in several.
#[derive(Clone)]
struct SequenceStage<'s> {
    search: &'s CutSearch<'s>,
    shared: &'s SharedBlots,
    /// Of each place of the input; none if the document goes.
    rank_of: &'s [Option<u32>],
    others: OtherDocuments<'s>,
    window: u32,
    blots: DocumentBlotter,
}

#[derive(Default)]
struct Sequences {
    list: Vec<[u64; SEQUENCE_WORDS]>,
    cuts: Vec<[u64; CUT_WORDS]>,
    /// The places of documents that can be cut.
    cuttable: Vec<u32>,
}

impl StageOutput for Sequences {
    fn drop_documents(&mut self, _: &[usize]) {}

    fn weight(&self) -> u64 {
        (size_of_val(&self.list[..]) + size_of_val(&self.cuts[..])) as u64
    }
}

impl DocumentStage for SequenceStage<'_> {
    type Out = Sequences;
    const IDS_ARE_UNIQUE: bool = false;

    fn take(&mut self, item: &InputDocument<'_>, out: &mut Sequences) -> Result<(), String> {
        let Some((place, rank)) = self.find_staying(item) else {
            return Ok(());
        };
        if self.search.can_cut(item, place) {
            out.cuttable.push(place);
        }
        let DocumentParts {
            tokens,
            blots: made,
            ..
        } = self.blots.parts(item)?;
        let document = PlacedTokens {
            tokens,
            blots: &made.values,
            window: self.window.to_usize(),
            text_bytes: item.bytes.unwrap_or(0).to_u32(),
        };
        let length = self.search.lengths.within;
        for token in document.sequences(&self.shared.within, length).flatten() {
            let hash = document.hash(token, length);
            let [high, low] = [(hash >> 64) as u64, hash as u64];
            let at = pair(rank, token.to_u32());
            out.list.push([high, low, at, document.span(token, length)]);
        }
        if self.search.against.is_empty() {
            return Ok(());
        }
        let length = self.search.lengths.against;
        let mut cut = |token: usize, of: u32| {
            let at = pair(place, token.to_u32());
            out.cuts
                .push([at, document.span(token, length), pair(of, length)]);
        };
        self.others
            .find(&document, &self.shared.against, length, &mut cut)
            .map_err(|error| error.to_string())
    }

    fn finish(&mut self, _: &mut Sequences) {
        self.blots.release_buffers();
    }
}

impl SequenceStage<'_> {
    /// The place and the rank of a document, if it stays.
    fn find_staying(&self, item: &InputDocument<'_>) -> Option<(u32, u32)> {
        let shard = self.search.shards.find_file(item.file)?.to_u32();
        let members = &self.search.compared.members.list;
        let place = members
            .binary_search_by_key(&(shard, item.record), |member| {
                (member.shard, member.record)
            })
            .ok()?;
        Some((place.to_u32(), self.rank_of[place]?))
    }
}

/// The tokens of a document, and the blots of all its windows.
struct PlacedTokens<'d> {
    tokens: &'d Tokens,
    blots: &'d [u64],
    /// The tokens of a window.
    window: usize,
    text_bytes: u32,
}

impl PlacedTokens<'_> {
    /// The first tokens of all sequences of a length whose windows are all in `bits`, in ranges.
    fn sequences<'b>(
        &'b self,
        bits: &'b BlotBits,
        length: u32,
    ) -> impl Iterator<Item = Range<usize>> + 'b {
        let windows = length.to_usize() + 1 - self.window;
        let mut at = 0;
        std::iter::from_fn(move || {
            loop {
                let start = at
                    + self.blots[at..]
                        .iter()
                        .position(|&blot| bits.contains(blot))?;
                let run = self.blots[start..]
                    .iter()
                    .take_while(|&&blot| bits.contains(blot));
                at = start + run.count();
                if at >= start + windows {
                    return Some(start..at + 1 - windows);
                }
            }
        })
    }

    fn hash(&self, first: usize, length: u32) -> u128 {
        let last = first + length.to_usize() - 1;
        xxh3_128(self.tokens.joined(first..last + 1))
    }

    /// From the start of the first token to the start of the token that follows the last, or to the end of the text.
    fn span(&self, first: usize, length: u32) -> u64 {
        let spans = self.tokens.spans().unwrap_or_default();
        let next = spans.get(first + length.to_usize());
        pair(
            spans[first].start,
            next.map_or(self.text_bytes, |next| next.start),
        )
    }
}

/// Looks windows up in the indexes of the other collections.
#[derive(Clone)]
struct OtherDocuments<'o> {
    indexes: &'o [Index],
    /// The document of the view at each place of each segment.
    document_at: &'o [Vec<u32>],
    found: Vec<Option<BlotTarget>>,
    places: Vec<u32>,
}

impl OtherDocuments<'_> {
    /// Calls `each` with the first token of every sequence whose windows are all in one document, and with the first such document.
    fn find(
        &mut self,
        document: &PlacedTokens<'_>,
        bits: &BlotBits,
        length: u32,
        each: &mut dyn FnMut(usize, u32),
    ) -> Result<()> {
        let windows = length.to_usize() + 1 - document.window;
        for run in document.sequences(bits, length) {
            let sets = self.documents_with(&document.blots[run.start..run.end + windows - 1])?;
            for (token, sets) in run.zip(sets.windows(windows)) {
                if let Some(of) = first_common(sets) {
                    each(token, of);
                }
            }
        }
        Ok(())
    }

    /// The documents that have each blot, in rising order.
    fn documents_with(&mut self, blots: &[u64]) -> Result<Vec<Vec<u32>>> {
        let mut sets = vec![Vec::new(); blots.len()];
        let segments = self.indexes.iter().flat_map(|index| {
            let bits = index.scheme.bits;
            index.segments.iter().map(move |segment| (segment, bits))
        });
        for ((segment, bits), document_at) in segments.zip(self.document_at) {
            self.found.clear();
            segment.find_all(blots, bits, &mut self.found)?;
            for (set, target) in sets.iter_mut().zip(&self.found) {
                let Some(target) = *target else { continue };
                segment.places(target, &mut self.places)?;
                let documents = self
                    .places
                    .iter()
                    .map(|place| document_at[place.to_usize()]);
                set.extend(documents.filter(|&document| document != u32::MAX));
            }
        }
        for set in &mut sets {
            set.sort_unstable();
            set.dedup();
        }
        Ok(sets)
    }
}

/// The first member that all sets have.
fn first_common(sets: &[Vec<u32>]) -> Option<u32> {
    let (first, rest) = sets.split_first()?;
    let is_in_all = |member: &&u32| rest.iter().all(|set| set.binary_search(member).is_ok());
    first.iter().find(is_in_all).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(place: u32, token: u32, span: [u32; 2], of: u32, tokens: u32) -> [u64; CUT_WORDS] {
        [pair(place, token), pair(span[0], span[1]), pair(of, tokens)]
    }

    #[test]
    fn neighbouring_sequences_become_one_passage() {
        let mut cuts = Vec::new();
        let sequences = [
            cut(7, 2, [10, 25], 1, 3),
            cut(7, 3, [15, 30], 1, 3),
            cut(7, 4, [20, 35], 2, 3),
            cut(7, 20, [90, 99], 2, 3),
        ];
        join_sequences(&sequences, &mut cuts);
        let found: Vec<_> = cuts
            .iter()
            .map(|cut| (cut.span.start, cut.span.end, cut.tokens, cut.of.get()))
            .collect();
        assert_eq!(found, [(10, 30, 4, 1), (30, 35, 1, 2), (90, 99, 3, 2)]);
    }

    #[test]
    fn bits_never_forget_a_blot() {
        for blot_bits in [8, 32, 64] {
            let mut bits = BlotBits::new(blot_bits, 1000);
            let blots = (0..1000_u64)
                .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - u32::from(blot_bits)));
            blots.clone().for_each(|blot| bits.insert(blot));
            assert!(blots.clone().all(|blot| bits.contains(blot)));
        }
    }

    #[test]
    fn the_first_common_member_is_found() {
        assert_eq!(
            first_common(&[vec![1, 4, 9], vec![4, 9], vec![2, 4, 9]]),
            Some(4)
        );
        assert_eq!(first_common(&[vec![1], vec![2]]), None);
        assert_eq!(first_common(&[]), None);
    }
}
