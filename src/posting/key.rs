//! A blot and a number, as one number that sorts by blot.

/// Ranges of the blot space that are kept apart from the start: by the top eight bits.
pub const BUCKETS: usize = 256;

/// The bucket of a blot.
pub fn bucket_of(blot: u64, bits: u8) -> usize {
    (blot >> (bits - 8)) as usize
}

/// A blot and the number of a document or set. Blots of up to 32 bits fit, with the number, into a `u64`; wider ones take a `u128`.
pub trait Key: Copy + Ord + Send + Sync + Default + std::fmt::Debug + 'static {
    /// On disk.
    const BYTES: usize;

    fn new(blot: u64, number: u32) -> Self;
    fn blot(self) -> u64;
    fn number(self) -> u32;
    fn append_to(self, out: &mut Vec<u8>);
    fn read(bytes: &[u8]) -> Self;
}

impl Key for u64 {
    const BYTES: usize = 8;

    fn new(blot: u64, number: u32) -> Self {
        blot << 32 | u64::from(number)
    }

    fn blot(self) -> u64 {
        self >> 32
    }

    fn number(self) -> u32 {
        self as u32
    }

    fn append_to(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }

    fn read(bytes: &[u8]) -> Self {
        Self::from_le_bytes(std::array::from_fn(|index| bytes[index]))
    }
}

impl Key for u128 {
    /// 64 bits of blot, 32 of number.
    const BYTES: usize = 12;

    fn new(blot: u64, number: u32) -> Self {
        Self::from(blot) << 32 | Self::from(number)
    }

    fn blot(self) -> u64 {
        (self >> 32) as u64
    }

    fn number(self) -> u32 {
        self as u32
    }

    fn append_to(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes()[..Self::BYTES]);
    }

    fn read(bytes: &[u8]) -> Self {
        let mut wide = [0; 16];
        wide[..Self::BYTES].copy_from_slice(&bytes[..Self::BYTES]);
        Self::from_le_bytes(wide)
    }
}
