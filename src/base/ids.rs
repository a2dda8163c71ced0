//! The numbers that name things, each a type of its own, so that the compiler tells a document from
//! a set.
//!
//! All but [`Blot`] are dense: numbers of documents run from 0 to the number of documents, and so on.
//! [`DocNo::index`] is the way into a slice, [`DocNo::from_index`] the way back, and
//! [`DocNo::first`] counts them up.
//!
//! ```
//! use dedup::base::ids::DocNo;
//! let names = ["one.txt", "two.txt"];
//! let second = DocNo::first(names.len()).nth(1).unwrap();
//! assert_eq!(names[second.index()], "two.txt");
//! assert_eq!(DocNo::from_index(1), second);
//! ```
//!
//! Places in a text are not here: [`Span`](crate::text::stream::Span) is a range of bytes, and
//! [`WordRange`](crate::align::WordRange) a range of words.

use super::num::{ToU32, ToUsize};
use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! dense_number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        #[repr(transparent)]
        pub struct $name(u32);

        impl $name {
            /// The thing with this number.
            #[inline]
            pub const fn new(number: u32) -> Self {
                Self(number)
            }

            /// The number itself, as in files.
            #[inline]
            pub const fn get(self) -> u32 {
                self.0
            }

            /// The number as the index of a slice.
            #[inline]
            pub fn index(self) -> usize {
                self.0.to_usize()
            }

            /// The number of the thing at this index, which is below 2³².
            #[inline]
            pub fn from_index(index: usize) -> Self {
                Self(index.to_u32())
            }

            /// The first `count` numbers, in order.
            pub fn first(count: usize) -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator {
                (0..count.to_u32()).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

dense_number! {
    /// A document of an index. The number of a removed document is given to a later one.
    DocNo
}
dense_number! {
    /// A distinct text: documents that are exact duplicates have one content.
    ContentNo
}
dense_number! {
    /// A document set of a segment or a view: a distinct posting list. The most used set has number 0.
    SetNo
}
dense_number! {
    /// A part of an index, which holds one range of the blots.
    PartNo
}
dense_number! {
    /// The place of a content in the order in which a join compares them: fewest blots first.
    ContentRank
}
dense_number! {
    /// The place of a document set in the order in which a join visits them: fewest documents first.
    /// Not a [`SetNo`]: sets that do not count have no rank.
    SetRank
}

/// The hash of one window of tokens. It has as many bits as its scheme says, the lowest of the 64.
///
/// A blot that is looked up, shown or visited has this type. The blots of a whole document are a
/// slice of `u64`: they are hashed, sorted, packed and written in loops that treat them as numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Blot(u64);

impl Blot {
    /// The blot with these bits.
    #[inline]
    pub const fn new(bits: u64) -> Self {
        Self(bits)
    }

    /// The bits, as they are written to files.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// As streams and messages show it.
impl fmt::LowerHex for Blot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}
