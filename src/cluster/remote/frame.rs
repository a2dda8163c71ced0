//! Bytes in frames: length (u32), kind (u8), channel (u16), payload, xxh3-64 of all before.
//! Little-endian. A connection carries several conversations at a time, one for each channel.

use crate::base::num::{ToU32, ToUsize};
use std::io::{self, Read, Write};
use xxhash_rust::xxh3::Xxh3;

/// The longest payload.
pub const MOST_BYTES: usize = 16 << 20;
const HEAD_BYTES: usize = 7;
const SUM_BYTES: usize = 8;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// JSON.
    Message,
    /// Bytes of a file.
    Data,
    /// A sign of life of the worker.
    Beat,
    /// The end of the conversation of a channel.
    Close,
}

impl FrameKind {
    const ALL: [(u8, Self); 4] = [
        (1, Self::Message),
        (2, Self::Data),
        (3, Self::Beat),
        (4, Self::Close),
    ];

    fn number(self) -> u8 {
        Self::ALL
            .iter()
            .find(|(_, kind)| *kind == self)
            .map_or(0, |&(number, _)| number)
    }
}

/// A frame that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What it holds.
    pub kind: FrameKind,
    /// The conversation it belongs to.
    pub channel: u16,
    /// Its content.
    pub payload: Vec<u8>,
}

/// Does not flush.
pub fn write_frame(
    out: &mut (impl Write + ?Sized),
    kind: FrameKind,
    channel: u16,
    payload: &[u8],
) -> io::Result<()> {
    if payload.len() > MOST_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("a message of {} bytes is too long", payload.len()),
        ));
    }
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&payload.len().to_u32().to_le_bytes());
    head[4] = kind.number();
    head[5..].copy_from_slice(&channel.to_le_bytes());
    out.write_all(&head)?;
    out.write_all(payload)?;
    out.write_all(&checksum(&head, payload).to_le_bytes())
}

/// Reads the next frame.
pub fn read_frame(input: &mut (impl Read + ?Sized)) -> io::Result<Frame> {
    let mut bytes = vec![0; HEAD_BYTES];
    input.read_exact(&mut bytes)?;
    let (length, ..) = parse_head(&bytes)?;
    bytes.resize(HEAD_BYTES + length + SUM_BYTES, 0);
    input.read_exact(&mut bytes[HEAD_BYTES..])?;
    match parse_frame(&bytes)? {
        Some((frame, _)) => Ok(frame),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// The first frame of the bytes that have arrived, and its length; none if it is not complete.
pub fn parse_frame(bytes: &[u8]) -> io::Result<Option<(Frame, usize)>> {
    if bytes.len() < HEAD_BYTES {
        return Ok(None);
    }
    let (length, kind, channel) = parse_head(bytes)?;
    let end = HEAD_BYTES + length;
    let Some(sum) = bytes.get(end..end + SUM_BYTES) else {
        return Ok(None);
    };
    let (head, payload) = bytes[..end].split_at(HEAD_BYTES);
    if sum != checksum(head, payload).to_le_bytes() {
        return Err(wrong("what came does not match its checksum"));
    }
    let frame = Frame {
        kind,
        channel,
        payload: payload.to_vec(),
    };
    Ok(Some((frame, end + SUM_BYTES)))
}

/// The length of the payload, the kind and the channel. `head` has at least the bytes of a head.
fn parse_head(head: &[u8]) -> io::Result<(usize, FrameKind, u16)> {
    let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]).to_usize();
    let kind = FrameKind::ALL.iter().find(|(number, _)| *number == head[4]);
    match kind {
        Some(&(_, kind)) if length <= MOST_BYTES => {
            Ok((length, kind, u16::from_le_bytes([head[5], head[6]])))
        }
        _ => Err(wrong("what came is not of this protocol")),
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn checksum(head: &[u8], payload: &[u8]) -> u64 {
    let mut sum = Xxh3::new();
    sum.update(head);
    sum.update(payload);
    sum.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_back_and_damaged_ones_are_refused() {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, FrameKind::Data, 515, b"abc").unwrap();
        write_frame(&mut bytes, FrameKind::Beat, 0, b"").unwrap();
        let frame = |kind, channel, payload: &[u8]| Frame {
            kind,
            channel,
            payload: payload.to_vec(),
        };
        let mut input = &bytes[..];
        let expected = frame(FrameKind::Data, 515, b"abc");
        assert_eq!(read_frame(&mut input).unwrap(), expected);
        let last = frame(FrameKind::Beat, 0, b"");
        assert_eq!(read_frame(&mut input).unwrap(), last);
        let first = HEAD_BYTES + 3 + SUM_BYTES;
        assert_eq!(parse_frame(&bytes).unwrap(), Some((expected, first)));
        for length in 0..first {
            assert!(read_frame(&mut &bytes[..length]).is_err());
            assert_eq!(parse_frame(&bytes[..length]).unwrap(), None);
        }
        for byte in 0..first {
            let mut altered = bytes[..first].to_vec();
            altered[byte] ^= 1;
            assert!(read_frame(&mut &altered[..]).is_err(), "{byte}");
        }
    }
}
