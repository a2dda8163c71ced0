//! Finds the places of a packed file where unpacking can start: blocks of bgzip, members of gzip, frames of Zstandard.
//!
//! Blocks and frames tell their length, so that finding them costs a small read each. Members of gzip do not: they are
//! searched for near the places where they are wanted, and unpacking what is between two of them tells whether
//! a member ends there.

use crate::{
    base::num::{ToU64, ToUsize},
    text::corpus::unpack::Packing,
};
use flate2::bufread::GzDecoder;
use memchr::memmem;
use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt,
};

/// How far behind the place where it is wanted a member of gzip is searched.
const SEARCHED_BYTES: u64 = 16 << 20;
/// Where no member was found, it is not searched in more places than this.
const MOST_MISSES: usize = 2;
/// What is unpacked of a member to see whether it is one.
const PROBED_BYTES: u64 = 1 << 16;
const SEARCH_BUFFER: usize = 1 << 20;

/// Where unpacking can start near each wanted place: rising, without repetitions. Empty if the file cannot be cut.
///
/// An error means that the file is damaged, or is not what it seems.
pub(super) fn starts_near(
    file: &File,
    bytes: u64,
    packing: Packing,
    wanted: &[u64],
) -> io::Result<Vec<u64>> {
    match packing {
        Packing::Zstd => Ok(pick(&zstd_frames(file, bytes)?, wanted)),
        Packing::Gzip => match bgzip_blocks(file, bytes)? {
            Some(blocks) => Ok(pick(&blocks, wanted)),
            None => gzip_members(file, bytes, wanted),
        },
        Packing::Plain | Packing::Xz | Packing::Bzip2 | Packing::Lz4 => Ok(Vec::new()),
    }
}

/// The first start at or behind each wanted place.
fn pick(starts: &[u64], wanted: &[u64]) -> Vec<u64> {
    let first = |&at: &u64| starts.get(starts.partition_point(|&start| start < at));
    let mut picked: Vec<u64> = wanted.iter().filter_map(first).copied().collect();
    picked.dedup();
    picked
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn read_some(file: &File, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match file.read_at(&mut buffer[count..], at + count.to_u64())? {
            0 => break,
            more => count += more,
        }
    }
    Ok(count)
}

/// The starts of the frames that hold data; RFC 8878.
fn zstd_frames(file: &File, bytes: u64) -> io::Result<Vec<u64>> {
    let (mut starts, mut at) = (Vec::new(), 0);
    while at < bytes {
        let mut head = [0; 8];
        if read_some(file, at, &mut head)? < head.len() {
            return Err(damaged("a frame is cut off"));
        }
        let number = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        at = if number & 0xffff_fff0 == 0x184d_2a50 {
            let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
            at + 8 + u64::from(length)
        } else if number == 0xfd2f_b528 {
            starts.push(at);
            zstd_frame_end(file, at, head[4])?
        } else {
            return Err(damaged("not a frame"));
        };
    }
    if at > bytes {
        return Err(damaged("a frame is cut off"));
    }
    Ok(starts)
}

/// `flags`: the byte behind the magic number.
fn zstd_frame_end(file: &File, start: u64, flags: u8) -> io::Result<u64> {
    let is_single = flags >> 5 & 1 == 1;
    let dictionary_bytes = [0, 1, 2, 4][usize::from(flags & 3)];
    let size_bytes = match flags >> 6 {
        0 => u64::from(is_single),
        exponent => 1 << exponent,
    };
    let window_bytes = u64::from(!is_single);
    let mut at = start + 5 + window_bytes + dictionary_bytes + size_bytes;
    loop {
        let mut head = [0; 4];
        if read_some(file, at, &mut head[..3])? < 3 {
            return Err(damaged("a block is cut off"));
        }
        let head = u32::from_le_bytes(head);
        let (is_last, kind, length) = (head & 1 == 1, head >> 1 & 3, u64::from(head >> 3));
        at += 3 + match kind {
            0 | 2 => length,
            1 => 1,
            _ => return Err(damaged("not a block")),
        };
        if is_last {
            // The checksum of the frame.
            return Ok(at + if flags >> 2 & 1 == 1 { 4 } else { 0 });
        }
    }
}

/// The starts of the blocks that bgzip writes: members of gzip that tell their length. None if the file has others.
fn bgzip_blocks(file: &File, bytes: u64) -> io::Result<Option<Vec<u64>>> {
    let (mut starts, mut at) = (Vec::new(), 0);
    while at < bytes {
        let mut head = [0; 18];
        let count = read_some(file, at, &mut head)?;
        let is_block = count == head.len()
            && head[..4] == [0x1f, 0x8b, 8, 4]
            && head[10..16] == [6, 0, b'B', b'C', 2, 0];
        if !is_block {
            return if at == 0 {
                Ok(None)
            } else {
                Err(damaged("not a block"))
            };
        }
        starts.push(at);
        at += u64::from(u16::from_le_bytes([head[16], head[17]])) + 1;
    }
    if at > bytes {
        return Err(damaged("a block is cut off"));
    }
    Ok(Some(starts))
}

fn gzip_members(file: &File, bytes: u64, wanted: &[u64]) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    let mut misses = 0;
    for &at in wanted {
        match find_member(file, bytes, at)? {
            Some(start) if found.last() != Some(&start) => found.push(start),
            Some(_) => {}
            None => misses += 1,
        }
        if found.is_empty() && misses > MOST_MISSES {
            break;
        }
    }
    Ok(found)
}

/// Finds a member that starts at or not far behind a place.
fn find_member(file: &File, bytes: u64, from: u64) -> io::Result<Option<u64>> {
    // Deflate is the only method there is.
    const MEMBER: &[u8] = &[0x1f, 0x8b, 8];
    let mut buffer = vec![0; SEARCH_BUFFER];
    let (mut at, end) = (from, bytes.min(from.saturating_add(SEARCHED_BYTES)));
    while at < end {
        let count = read_some(file, at, &mut buffer)?;
        for place in memmem::find_iter(&buffer[..count], MEMBER) {
            let start = at + place.to_u64();
            if is_member(file, start) {
                return Ok(Some(start));
            }
        }
        if count < buffer.len() {
            break;
        }
        // A signature may lie across two reads.
        at += (count - (MEMBER.len() - 1)).to_u64();
    }
    Ok(None)
}

/// Whether the first bytes of a member can be unpacked. Its end is not looked at.
fn is_member(file: &File, start: u64) -> bool {
    let mut head = vec![0; 2 * PROBED_BYTES.to_usize()];
    let Ok(count) = read_some(file, start, &mut head) else {
        return false;
    };
    let mut unpacked = Vec::new();
    let mut probe = GzDecoder::new(&head[..count]).take(PROBED_BYTES);
    // The flags beyond these five have no meaning.
    head.get(3).is_some_and(|flags| flags & 0xe0 == 0)
        && probe.read_to_end(&mut unpacked).is_ok()
        && !unpacked.is_empty()
}
