//! A blot and a number, as one number that sorts by blot.

/// Ranges of the blot space that are kept apart from the start: by the top eight bits.
pub const BUCKETS: usize = 256;

/// The bucket of a blot.
pub fn bucket_of(blot: u64, bits: u8) -> usize {
    (blot >> (bits - 8)) as usize
}

/// Blots of at most this many bits fit, with a number, into a `u64`: the eight bits of the bucket need not be said.
pub const NARROW_BITS: u8 = 40;

/// A blot and the number of a document or set, among those of one bucket.
///
/// A `u64` holds what is below the bucket of a blot of up to [`NARROW_BITS`], at least; wider ones take a `u128`.
pub trait Key: Copy + Ord + Send + Sync + Default + std::fmt::Debug + 'static {
    fn new(blot: u64, number: u32) -> Self;

    /// The blot, of which the bits of the bucket may be missing; see [`first_blot`].
    fn blot(self) -> u64;

    fn number(self) -> u32;
}

/// The least blot of a bucket. It has just the bits that a key may miss.
pub fn first_blot(bucket: usize, bits: u8) -> u64 {
    (bucket as u64) << (bits - 8)
}

impl Key for u64 {
    fn new(blot: u64, number: u32) -> Self {
        blot << 32 | u64::from(number)
    }

    fn blot(self) -> u64 {
        self >> 32
    }

    fn number(self) -> u32 {
        self as u32
    }
}

impl Key for u128 {
    fn new(blot: u64, number: u32) -> Self {
        Self::from(blot) << 32 | Self::from(number)
    }

    fn blot(self) -> u64 {
        (self >> 32) as u64
    }

    fn number(self) -> u32 {
        self as u32
    }
}
