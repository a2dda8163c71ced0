//! A batch of requests: which documents are stored already, and what each request sees of the
//! requests before it.

use super::{
    answer::Request,
    search::{
        print_halves::{PrintBody, PrintHead, join_print, split_print},
        scan::scan,
        searchable::SearchQuery,
        similarity::{Hit, HitLocation, PrintSimilarity},
    },
};
use crate::{
    base::{error::Result, num::ToU64},
    text::stream::Print,
};
use std::collections::HashMap;

/// For each request the sequence number of its document, if that is stored already or will be by an
/// earlier request of the batch.
pub struct StoredDocuments(Vec<Option<u64>>);

impl StoredDocuments {
    /// `stored` has the documents in the history. The next entry gets `next_sequence`, and only the
    /// newest `max_entries` count.
    pub fn new(
        batch: &[Request<'_>],
        stored: &[Option<u64>],
        next_sequence: u64,
        max_entries: u64,
    ) -> Self {
        let mut sequences = stored.to_vec();
        let mut next = next_sequence;
        let mut seen: HashMap<(&str, Print), u64> = HashMap::with_capacity(batch.len());
        for (request, stored) in batch.iter().zip(&mut sequences) {
            let Some(print) = request.print else { continue };
            if stored.is_none() {
                *stored = seen
                    .get(&(request.id, print))
                    .copied()
                    .filter(|&sequence| sequence >= next.saturating_sub(max_entries));
            }
            if let Some(sequence) = *stored {
                seen.insert((request.id, print), sequence);
            } else if request.add {
                seen.insert((request.id, print), next);
                next += 1;
            }
        }
        Self(sequences)
    }

    /// The sequence number of the document of a request, by its place in the batch.
    pub fn sequence(&self, at: usize) -> Option<u64> {
        self.0[at]
    }
}

/// The entries that a batch will add.
pub struct BatchEntries {
    /// The place of each in the batch.
    places: Vec<usize>,
    heads: Vec<PrintHead>,
    bodies: Vec<PrintBody>,
    first_sequence: u64,
    time: u32,
}

impl BatchEntries {
    /// The first of them gets the sequence number `first_sequence`.
    pub fn new(
        batch: &[Request<'_>],
        stored: &StoredDocuments,
        first_sequence: u64,
        time: u32,
    ) -> Self {
        let is_new =
            |(at, request): &(usize, &Request<'_>)| request.add && stored.sequence(*at).is_none();
        let added = batch
            .iter()
            .enumerate()
            .filter(is_new)
            .filter_map(|(at, request)| Some((at, request.print?)));
        let (places, (heads, bodies)) = added.map(|(at, print)| (at, split_print(&print))).unzip();
        Self {
            places,
            heads,
            bodies,
            first_sequence,
            time,
        }
    }

    /// The number of entries before a request.
    pub fn count_before(&self, at: usize) -> usize {
        self.places.partition_point(|&place| place < at)
    }

    /// Searches the first `count` entries.
    pub fn search(&self, count: usize, query: &mut SearchQuery<'_>) -> Result<()> {
        if query.best.is_final() {
            return Ok(());
        }
        let print = query.print;
        let cardinality = query.cardinality;
        scan(
            &self.bodies[..count],
            &print,
            query.max_distance(),
            &mut |number, _| {
                let other = join_print(self.heads[number], &self.bodies[number]);
                let bits = cardinality + other.cardinality();
                let hit = Hit {
                    similarity: PrintSimilarity::new(bits, other.distance(&print)),
                    sequence: self.first_sequence + number.to_u64(),
                    location: HitLocation::Batch(self.places[number]),
                };
                query.offer(hit, self.time);
                Ok(query.max_distance())
            },
        )
    }
}
