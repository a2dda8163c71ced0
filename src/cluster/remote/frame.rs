//! Bytes in frames: length (u32), kind (u8), payload, xxh3-64 of all before. Little-endian.

use crate::base::num::{ToU32, ToU64, ToUsize};
use std::io::{self, Read, Write};
use xxhash_rust::xxh3::Xxh3;

/// The longest payload.
pub const MOST_BYTES: usize = 16 << 20;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// JSON.
    Message,
    /// Bytes of a file.
    Data,
    /// A sign of life of the worker.
    Beat,
}

impl FrameKind {
    const ALL: [(u8, Self); 3] = [(1, Self::Message), (2, Self::Data), (3, Self::Beat)];

    fn number(self) -> u8 {
        Self::ALL
            .iter()
            .find(|(_, kind)| *kind == self)
            .map_or(0, |&(number, _)| number)
    }
}

/// Does not flush.
pub fn write_frame(
    out: &mut (impl Write + ?Sized),
    kind: FrameKind,
    payload: &[u8],
) -> io::Result<()> {
    if payload.len() > MOST_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("a message of {} bytes is too long", payload.len()),
        ));
    }
    let mut head = [0; 5];
    head[..4].copy_from_slice(&payload.len().to_u32().to_le_bytes());
    head[4] = kind.number();
    out.write_all(&head)?;
    out.write_all(payload)?;
    out.write_all(&checksum(head, payload).to_le_bytes())
}

/// Reads the payload into `buffer`.
pub fn read_frame(input: &mut (impl Read + ?Sized), buffer: &mut Vec<u8>) -> io::Result<FrameKind> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut head = [0; 5];
    input.read_exact(&mut head)?;
    let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]).to_usize();
    let kind = FrameKind::ALL
        .iter()
        .find(|(number, _)| *number == head[4])
        .map(|&(_, kind)| kind);
    let kind = kind
        .filter(|_| length <= MOST_BYTES)
        .ok_or_else(|| wrong("what came is not of this protocol"))?;
    buffer.clear();
    input.take(length.to_u64()).read_to_end(buffer)?;
    let mut sum = [0; 8];
    input.read_exact(&mut sum)?;
    if buffer.len() != length || u64::from_le_bytes(sum) != checksum(head, buffer) {
        return Err(wrong("what came does not match its checksum"));
    }
    Ok(kind)
}

fn checksum(head: [u8; 5], payload: &[u8]) -> u64 {
    let mut sum = Xxh3::new();
    sum.update(&head);
    sum.update(payload);
    sum.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_back_and_damaged_ones_are_refused() {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, FrameKind::Data, b"abc").unwrap();
        write_frame(&mut bytes, FrameKind::Beat, b"").unwrap();
        let (mut input, mut payload) = (&bytes[..], Vec::new());
        assert_eq!(
            (read_frame(&mut input, &mut payload).unwrap(), &payload[..]),
            (FrameKind::Data, &b"abc"[..])
        );
        assert_eq!(
            (read_frame(&mut input, &mut payload).unwrap(), &payload[..]),
            (FrameKind::Beat, &b""[..])
        );
        let first = 5 + 3 + 8;
        for length in 0..first {
            assert!(read_frame(&mut &bytes[..length], &mut payload).is_err());
        }
        for byte in 0..first {
            let mut altered = bytes[..first].to_vec();
            altered[byte] ^= 1;
            assert!(
                read_frame(&mut &altered[..], &mut payload).is_err(),
                "{byte}"
            );
        }
    }
}
