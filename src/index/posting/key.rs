//! A blot and a document or set number, packed into one integer that sorts by blot.

/// Postings are divided into this many buckets, by the top eight bits of the blot.
pub const BUCKETS: usize = 256;

/// The bucket of a blot.
pub fn bucket_of(blot: u64, bits: u8) -> usize {
    (blot >> (bits - 8)) as usize
}

/// Blots of at most this many bits fit, with a number, into a `u64`: the bucket implies eight bits.
pub const NARROW_BITS: u8 = 40;

/// A blot and the number of a document or set, within one bucket.
///
/// A `u64` holds at least the bits below the bucket of a blot of up to [`NARROW_BITS`]; wider blots
/// take a `u128`.
pub trait Key: Copy + Ord + Send + Sync + Default + std::fmt::Debug + 'static {
    /// Packs a blot and a number.
    fn new(blot: u64, number: u32) -> Self;

    /// The blot. The bits of the bucket may be missing; see [`first_blot`].
    fn blot(self) -> u64;

    /// The number of the document or set.
    fn number(self) -> u32;
}

/// The least blot of a bucket: the bits that a key may lack.
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
