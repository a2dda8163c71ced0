mod bits;
mod blots;
mod escape;
mod header;
mod line;
mod print;
mod reader;
mod record;
mod sealed;
mod tokens;
mod varint;
mod writer;

pub use bits::{BitReader, BitWriter, NumberCode};
pub use blots::Blots;
pub use escape::{is_unsafe, put_escaped, put_json_string, shown, to_json};
pub use header::{Header, Kind, MAGIC, MAX_HEADER_BYTES, VERSION};
pub use line::{Line, LineParser, Parsed, field_names, parse_record};
pub use print::{PRINT_BITS, PRINT_BYTES, Print};
pub use reader::{Block, BlockReader};
pub use record::{BlotCodec, PrintCodec, Printed, Record, TokenCodec};
pub use sealed::{Sealed, SealedWriter, prefetch};
pub use tokens::{Span, Tokens};
pub use varint::{Fields, put as put_varint};
pub use writer::{Batch, Form, StreamWriter};

use xxhash_rust::xxh3::xxh3_64;

/// Past this a buffer is given back instead of kept for the next document: one giant must not be paid for ever after.
const KEPT_BYTES: usize = 4 << 20;

/// Empties a buffer that will be used again.
pub fn empty<T>(buffer: &mut Vec<T>) {
    buffer.clear();
    if buffer.capacity() * size_of::<T>() > KEPT_BYTES {
        *buffer = Vec::new();
    }
}

/// The checksum of every block and header.
fn checksum(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}
