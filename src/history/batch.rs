//! Requests that are answered together: each sees those before it that are added.

use super::{
    body::{Body, Head, join, split},
    likeness::{At, Found, Likeness},
    scan::scan,
    search::Asked,
    store::Request,
};
use crate::error::Result;

/// Those of a batch that are to be added.
pub struct InBatch {
    /// Where in the batch.
    at: Vec<usize>,
    heads: Vec<Head>,
    bodies: Vec<Body>,
    first_sequence: u64,
    time: u32,
}

impl InBatch {
    pub fn new(batch: &[Request<'_>], first_sequence: u64, time: u32) -> Self {
        let added = batch.iter().enumerate().filter(|(_, request)| request.add).filter_map(|(at, request)| Some((at, request.print?)));
        let (at, (heads, bodies)) = added.map(|(at, print)| (at, split(&print))).unzip();
        Self { at, heads, bodies, first_sequence, time }
    }

    /// How many come before a request.
    pub fn before(&self, at: usize) -> usize {
        self.at.partition_point(|&other| other < at)
    }

    /// Looks at the first so many.
    pub fn search(&self, count: usize, asked: &mut Asked<'_>) -> Result<()> {
        if asked.best.is_full_of_equals() {
            return Ok(());
        }
        let (print, cardinality, reach) = (asked.print, asked.cardinality, asked.reach());
        scan(&self.bodies[..count], &print, reach, &mut |number, _| {
            let other = join(self.heads[number], &self.bodies[number]);
            let likeness = Likeness::new(cardinality + other.cardinality(), other.distance(&print));
            asked.offer(Found { likeness, sequence: self.first_sequence + number as u64, at: At::Batch(self.at[number]) }, self.time);
            Ok(asked.reach())
        })
    }
}
