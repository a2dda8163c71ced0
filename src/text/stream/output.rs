//! Where records are encoded to: into memory, or piece by piece to the output.

use std::io;

/// Receives the bytes of a record.
pub trait RecordOutput {
    /// Where to append.
    fn buffer(&mut self) -> &mut Vec<u8>;

    /// About this many bytes will follow.
    fn expect(&mut self, bytes: usize);

    /// Marks a point where appended bytes may be passed on.
    fn may_flush(&mut self);

    /// Appends bytes that may be many.
    fn put_all(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(PIECE_BYTES) {
            self.buffer().extend_from_slice(piece);
            self.may_flush();
        }
    }
}

impl RecordOutput for Vec<u8> {
    fn buffer(&mut self) -> &mut Vec<u8> {
        self
    }

    fn expect(&mut self, bytes: usize) {
        self.reserve(bytes);
    }

    fn may_flush(&mut self) {}

    fn put_all(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// About the bytes in memory at a time.
const PIECE_BYTES: usize = 1 << 16;

/// Forwards the written bytes piece by piece, until the first error.
pub(super) struct Pieces<F> {
    buffer: Vec<u8>,
    to: F,
    result: io::Result<()>,
}

impl<F: FnMut(&[u8]) -> io::Result<()>> Pieces<F> {
    /// Passes pieces on to `to`.
    pub fn new(to: F) -> Self {
        Self {
            buffer: Vec::with_capacity(2 * PIECE_BYTES),
            to,
            result: Ok(()),
        }
    }

    /// Passes on the last piece, and returns the first error.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush();
        self.result
    }

    fn flush(&mut self) {
        if self.result.is_ok() {
            self.result = (self.to)(&self.buffer);
        }
        self.buffer.clear();
    }
}

impl<F: FnMut(&[u8]) -> io::Result<()>> RecordOutput for Pieces<F> {
    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    fn expect(&mut self, _: usize) {}

    fn may_flush(&mut self) {
        if self.buffer.len() >= PIECE_BYTES {
            self.flush();
        }
    }
}
