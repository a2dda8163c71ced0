mod bits;
mod escape;
pub mod exact_number;
mod varint;

pub use bits::{BitReader, BitWriter, NumberCode};
pub use escape::{escape_unsafe, is_plain, is_unsafe, put_escaped, put_json_string, to_json};
pub use varint::{Fields, put as put_varint, put_signed as put_signed_varint};

use xxhash_rust::xxh3::xxh3_64;

/// Larger buffers are freed when they are cleared.
const KEPT_BYTES: usize = 4 << 20;

/// Clears a buffer, and frees its memory if that is large.
pub fn clear_buffer<T>(buffer: &mut Vec<T>) {
    buffer.clear();
    if buffer.capacity() * size_of::<T>() > KEPT_BYTES {
        *buffer = Vec::new();
    }
}

/// The checksum of every block and file.
pub fn checksum(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}
