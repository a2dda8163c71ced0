//! Requests that are answered together: each sees those before it that are added.

use super::{
    likeness::{At, Found, Likeness},
    scan::scan,
    search::Asked,
    store::Request,
};
use crate::{
    error::Result,
    format::{PRINT_BYTES, Print},
};

/// Those of a batch that are to be added.
pub struct InBatch {
    /// Where in the batch.
    at: Vec<usize>,
    prints: Vec<u8>,
    first_sequence: u64,
    time: u32,
}

impl InBatch {
    pub fn new(batch: &[Request<'_>], first_sequence: u64, time: u32) -> Self {
        let added = batch.iter().enumerate().filter(|(_, request)| request.add).filter_map(|(at, request)| Some((at, request.print?)));
        let (at, prints): (Vec<_>, Vec<_>) = added.map(|(at, print)| (at, print.to_bytes())).unzip();
        Self { at, prints: prints.concat(), first_sequence, time }
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
        scan(&self.prints[..PRINT_BYTES * count], &print, reach, &mut |number, distance| {
            let other = Print::from_slice(&self.prints[PRINT_BYTES * number..]);
            let likeness = Likeness::new(cardinality + other.cardinality(), distance);
            asked.offer(Found { likeness, sequence: self.first_sequence + number as u64, at: At::Batch(self.at[number]) }, self.time);
            Ok(asked.reach())
        })
    }
}
