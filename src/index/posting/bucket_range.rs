//! A range of buckets as files store it.

use super::key::BUCKETS;
use crate::{
    base::num::{ToU32, ToUsize},
    text::scheme::BITS,
};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The first bucket, and the one after the last. What a file says may be any two numbers, so check
/// [`BucketRange::is_valid`] first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BucketRange([u32; 2]);

impl BucketRange {
    /// Whether it is a range of buckets that exist, and not empty.
    pub fn is_valid(self) -> bool {
        let range = self.range();
        range.start < range.end && range.end <= BUCKETS
    }

    /// Whether it is valid, and a blot may have this many bits.
    pub(in crate::index) fn is_valid_for(self, bits: u8) -> bool {
        self.is_valid() && BITS.contains(&bits)
    }

    /// The buckets, as the range of a slice.
    pub fn range(self) -> Range<usize> {
        self.0[0].to_usize()..self.0[1].to_usize()
    }
}

impl From<&Range<usize>> for BucketRange {
    fn from(range: &Range<usize>) -> Self {
        Self([range.start.to_u32(), range.end.to_u32()])
    }
}
