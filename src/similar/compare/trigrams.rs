//! Trigrams: the hashes of three tokens in a row, and the places of each in a document.

use super::{MOST_PLACES, SEED, TokenSequence};
use crate::base::num::{ToU32, ToUsize};

/// The bit of a trigram that marks it as too frequent in its document. The other bits are its hash.
pub const FREQUENT: u32 = 1;
/// No place.
const NONE: u32 = u32::MAX;

/// The hash of three tokens: all bits but [`FREQUENT`].
fn hash(tokens: &[[u8; 8]]) -> u32 {
    let mixed = tokens.iter().fold(0_u64, |sum, token| {
        (sum.rotate_left(23) ^ u64::from_le_bytes(*token)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    (mixed >> 32).to_u32() & !FREQUENT
}

/// Appends for each token the hash of the three tokens that begin with it, and whether it is too
/// frequent in the document; 0 for the last two tokens, which begin no trigram.
pub fn append_trigrams(tokens: &[[u8; 8]], out: &mut Vec<[u8; 4]>) {
    let first = out.len();
    let hashes: Vec<u32> = tokens.windows(SEED).map(hash).collect();
    let frequent = frequent(&hashes);
    let marked = |&hash: &u32| {
        hash | if frequent.binary_search(&hash).is_ok() {
            FREQUENT
        } else {
            0
        }
    };
    out.extend(hashes.iter().map(|hash| marked(hash).to_le_bytes()));
    out.resize(first + tokens.len(), [0; 4]);
}

/// The hashes that occur more than [`MOST_PLACES`] times, sorted. Few documents have any, and only
/// hashes that may be frequent are sorted.
fn frequent(hashes: &[u32]) -> Vec<u32> {
    if hashes.len() <= MOST_PLACES {
        return Vec::new();
    }
    let bits = hashes.len().ilog2() + 1;
    let mut counts = vec![0_u8; 1 << bits];
    let slot = |hash: u32| (hash >> (u32::BITS - bits.min(31))).to_usize();
    hashes
        .iter()
        .for_each(|&hash| counts[slot(hash)] = counts[slot(hash)].saturating_add(1));
    let mut often: Vec<u32> = hashes
        .iter()
        .copied()
        .filter(|&hash| usize::from(counts[slot(hash)]) > MOST_PLACES)
        .collect();
    often.sort_unstable();
    often
        .chunk_by(|one, two| one == two)
        .filter(|same| same.len() > MOST_PLACES)
        .map(|same| same[0])
        .collect()
}

/// The places of each trigram of a document.
#[derive(Default)]
pub struct TrigramTable {
    /// A bit for each class of trigrams that the document has: small enough to stay in the cache.
    presence: Vec<u64>,
    presence_shift: u32,
    /// The first place of each class of trigrams that may begin an area.
    first: Vec<u32>,
    first_shift: u32,
    /// For each place: the next place of its class. The places of a class ascend.
    next: Vec<u32>,
}

/// The bits of the smallest map and of the largest one: 256 KB.
const MAP_BITS: [u32; 2] = [10, 21];

impl TrigramTable {
    /// Replaces the table by the trigrams of a document.
    pub fn fill(&mut self, document: TokenSequence<'_>) {
        let trigrams = seeds(document);
        let bits_for = |count: usize| usize::BITS - count.saturating_sub(1).leading_zeros();
        let map_bits = bits_for(16 * trigrams.len()).clamp(MAP_BITS[0], MAP_BITS[1]);
        let first_bits = bits_for(2 * trigrams.len()).clamp(4, 30);
        (self.presence_shift, self.first_shift) = (u32::BITS - map_bits, u32::BITS - first_bits);
        self.presence.clear();
        self.presence.resize(1 << (map_bits - 6), 0);
        self.first.clear();
        self.first.resize(1 << first_bits, NONE);
        self.next.clear();
        self.next.resize(trigrams.len(), NONE);
        for (place, trigram) in trigrams.iter().enumerate().rev() {
            let trigram = u32::from_le_bytes(*trigram);
            let class = trigram >> self.presence_shift;
            self.presence[class.to_usize() >> 6] |= 1 << (class & 63);
            if trigram & FREQUENT == 0 {
                let first = &mut self.first[(trigram >> self.first_shift).to_usize()];
                self.next[place] = std::mem::replace(first, place.to_u32());
            }
        }
    }

    /// Writes the places of the trigrams that the document may have to the start of `out`, and
    /// returns their number: all that it has, and a few more.
    ///
    /// Comparing unrelated documents spends its time here: no branch depends on the data.
    pub fn find(&self, trigrams: &[[u8; 4]], out: &mut Vec<u32>) -> usize {
        let (map, shift) = (&self.presence[..], self.presence_shift);
        if out.len() <= trigrams.len() {
            out.resize(trigrams.len() + 1, 0);
        }
        let (places, mut count) = (&mut out[..], 0);
        for (place, trigram) in (0..).zip(trigrams) {
            let class = u32::from_le_bytes(*trigram) >> shift;
            places[count] = place;
            count += map
                .get(class.to_usize() >> 6)
                .map_or(0, |bits| bits >> (class & 63) & 1)
                .to_usize();
        }
        count
    }

    /// Replaces `out` by the places of a trigram, ascending; none if it is too frequent in either
    /// document.
    pub fn places(&self, document: TokenSequence<'_>, trigram: [u8; 4], out: &mut Vec<u32>) {
        out.clear();
        let number = u32::from_le_bytes(trigram);
        if number & FREQUENT != 0 {
            return;
        }
        let mut place = self.first[(number >> self.first_shift).to_usize()];
        while place != NONE {
            if document.trigrams[place.to_usize()] == trigram {
                out.push(place);
            }
            place = self.next[place.to_usize()];
        }
    }
}

/// The trigrams of a document, without those of its last two tokens.
pub fn seeds(document: TokenSequence<'_>) -> &[[u8; 4]] {
    &document.trigrams[..document.tokens.len().saturating_sub(SEED - 1)]
}
