//! Requests that are answered together: which of them are of documents that the history has, and what each sees of those before it.

use super::{
    answer::Request,
    search::{
        print_halves::{PrintBody, PrintHead, join, split},
        scan::scan,
        searcher::SearchQuery,
        similarity::{Hit, HitLocation, PrintSimilarity},
    },
};
use crate::{base::error::Result, text::stream::Print};
use std::collections::HashMap;

/// Of each request the sequence number of the entry that is its document, if there is one: in the history, or of a request before it.
pub struct StoredDocuments(Vec<Option<u64>>);

impl StoredDocuments {
    /// `stored` has those that are in the history; the next entry gets `next_sequence`, and only the newest `most` are remembered.
    pub fn new(
        batch: &[Request<'_>],
        stored: &[Option<u64>],
        next_sequence: u64,
        most: u64,
    ) -> Self {
        let (mut known, mut next) = (stored.to_vec(), next_sequence);
        let mut seen: HashMap<(&str, Print), u64> = HashMap::with_capacity(batch.len());
        for (request, known) in batch.iter().zip(&mut known) {
            let Some(print) = request.print else { continue };
            if known.is_none() {
                *known = seen
                    .get(&(request.id, print))
                    .copied()
                    .filter(|&sequence| sequence >= next.saturating_sub(most));
            }
            if let Some(sequence) = *known {
                seen.insert((request.id, print), sequence);
            } else if request.add {
                seen.insert((request.id, print), next);
                next += 1;
            }
        }
        Self(known)
    }

    pub fn at(&self, at: usize) -> Option<u64> {
        self.0[at]
    }
}

/// Those of a batch that will be added.
pub struct BatchEntries {
    /// Where in the batch.
    at: Vec<usize>,
    heads: Vec<PrintHead>,
    bodies: Vec<PrintBody>,
    first_sequence: u64,
    time: u32,
}

impl BatchEntries {
    pub fn new(
        batch: &[Request<'_>],
        known: &StoredDocuments,
        first_sequence: u64,
        time: u32,
    ) -> Self {
        let is_new = |(at, request): &(usize, &Request<'_>)| request.add && known.at(*at).is_none();
        let added = batch
            .iter()
            .enumerate()
            .filter(is_new)
            .filter_map(|(at, request)| Some((at, request.print?)));
        let (at, (heads, bodies)) = added.map(|(at, print)| (at, split(&print))).unzip();
        Self {
            at,
            heads,
            bodies,
            first_sequence,
            time,
        }
    }

    /// How many come before a request.
    pub fn before(&self, at: usize) -> usize {
        self.at.partition_point(|&other| other < at)
    }

    /// Looks at the first so many.
    pub fn search(&self, count: usize, asked: &mut SearchQuery<'_>) -> Result<()> {
        if asked.best.is_full_of_equals() {
            return Ok(());
        }
        let (print, cardinality, reach) = (asked.print, asked.cardinality, asked.reach());
        scan(&self.bodies[..count], &print, reach, &mut |number, _| {
            let other = join(self.heads[number], &self.bodies[number]);
            let likeness =
                PrintSimilarity::new(cardinality + other.cardinality(), other.distance(&print));
            asked.offer(
                Hit {
                    likeness,
                    sequence: self.first_sequence + number as u64,
                    at: HitLocation::Batch(self.at[number]),
                },
                self.time,
            );
            Ok(asked.reach())
        })
    }
}
