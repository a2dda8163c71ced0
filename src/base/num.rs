//! Conversions between integer types that lose nothing, under names that say so.
//!
//! `as` also compiles where it cuts a value off. These do not: where a value could be too large,
//! debug builds check that it is not.

// Indexes are larger than 4 GiB, and are mapped: a 32-bit machine cannot hold them.
const _: () = assert!(usize::BITS == 64, "dedup needs a 64-bit machine");

/// To the type of indexes and lengths.
pub trait ToUsize {
    /// The same number.
    fn to_usize(self) -> usize;
}

/// To the type of sizes and offsets in files.
pub trait ToU64 {
    /// The same number.
    fn to_u64(self) -> u64;
}

/// To the type of most numbers in files.
pub trait ToU32 {
    /// The same number, which is below 2³².
    fn to_u32(self) -> u32;
}

/// To the type of shares and scores.
pub trait ToF64 {
    /// The nearest floating-point number: the same up to 2⁵³.
    fn to_f64(self) -> f64;
}

impl ToUsize for u32 {
    #[inline]
    fn to_usize(self) -> usize {
        self as usize
    }
}

impl ToUsize for u64 {
    #[inline]
    fn to_usize(self) -> usize {
        self as usize
    }
}

impl ToU64 for usize {
    #[inline]
    fn to_u64(self) -> u64 {
        self as u64
    }
}

impl ToU32 for usize {
    #[inline]
    fn to_u32(self) -> u32 {
        debug_assert!(self <= u32::MAX as usize, "{self} is above 2³²");
        self as u32
    }
}

impl ToU32 for u64 {
    #[inline]
    fn to_u32(self) -> u32 {
        debug_assert!(self <= u64::from(u32::MAX), "{self} is above 2³²");
        self as u32
    }
}

impl ToF64 for u64 {
    #[inline]
    fn to_f64(self) -> f64 {
        self as f64
    }
}

impl ToF64 for usize {
    #[inline]
    fn to_f64(self) -> f64 {
        self as f64
    }
}
