//! Unpacks pages, never to more than the size that they claim.

use crate::base::num::{ToU64, ToUsize};
use parquet::basic::Compression;
use std::io::Read;

/// How the pages of a column are packed.
pub enum PageCodec {
    Plain,
    Snappy(snap::raw::Decoder),
    Gzip,
    Brotli,
    Zstd(zstd::bulk::Decompressor<'static>),
    Lz4,
    /// LZ4 in the framing of Hadoop.
    Lz4Hadoop,
}

impl PageCodec {
    pub fn new(compression: Compression) -> Result<Self, String> {
        Ok(match compression {
            Compression::UNCOMPRESSED => Self::Plain,
            Compression::SNAPPY => Self::Snappy(snap::raw::Decoder::new()),
            Compression::GZIP(_) => Self::Gzip,
            Compression::BROTLI(_) => Self::Brotli,
            Compression::ZSTD(_) => {
                let decoder = zstd::bulk::Decompressor::new();
                Self::Zstd(decoder.map_err(|error| error.to_string())?)
            }
            Compression::LZ4_RAW => Self::Lz4,
            Compression::LZ4 => Self::Lz4Hadoop,
            Compression::LZO => {
                return Err("LZO is not supported; write the file with zstd".to_owned());
            }
        })
    }

    pub fn is_plain(&self) -> bool {
        matches!(self, Self::Plain)
    }

    /// Appends the unpacked bytes to `out`, which must then have `size` bytes.
    pub fn unpack(&mut self, packed: &[u8], out: &mut Vec<u8>, size: usize) -> Result<(), String> {
        let levels = out.len();
        // A page without values may have no bytes at all.
        if levels == size {
            return Ok(());
        }
        match self {
            Self::Plain => out.extend_from_slice(packed),
            Self::Gzip => read_most(flate2::read::MultiGzDecoder::new(packed), out, size)?,
            Self::Brotli => read_most(
                brotli_decompressor::Decompressor::new(packed, 4096),
                out,
                size,
            )?,
            Self::Zstd(decoder) => unpack_zstd(decoder, packed, out, size)?,
            Self::Snappy(decoder) => {
                let claimed =
                    snap::raw::decompress_len(packed).map_err(|error| error.to_string())?;
                ensure_size(levels + claimed, size)?;
                out.resize(size, 0);
                let unpacked = decoder.decompress(packed, &mut out[levels..]);
                unpacked.map_err(|error| error.to_string())?;
            }
            Self::Lz4 => {
                out.resize(size, 0);
                let unpacked = lz4_flex::block::decompress_into(packed, &mut out[levels..]);
                out.truncate(levels + unpacked.map_err(|error| error.to_string())?);
            }
            Self::Lz4Hadoop => unpack_hadoop(packed, out, size)?,
        }
        ensure_size(out.len(), size)
    }
}

fn ensure_size(unpacked: usize, claimed: usize) -> Result<(), String> {
    if unpacked == claimed {
        return Ok(());
    }
    Err(format!(
        "a page claims {claimed} bytes after unpacking, and has {unpacked} or more"
    ))
}

/// One byte more than is claimed tells a page that lies.
fn read_most(decoder: impl Read, out: &mut Vec<u8>, size: usize) -> Result<(), String> {
    let most = (size - out.len()).to_u64() + 1;
    let read = decoder.take(most).read_to_end(out);
    read.map(drop).map_err(|error| error.to_string())
}

fn unpack_zstd(
    decoder: &mut zstd::bulk::Decompressor<'_>,
    packed: &[u8],
    out: &mut Vec<u8>,
    size: usize,
) -> Result<(), String> {
    let levels = out.len();
    if levels == 0 {
        // Straight into the free part of the buffer, which is not cleared first.
        out.reserve_exact(size);
        let unpacked = decoder.decompress_to_buffer(packed, out);
        return unpacked.map(drop).map_err(|error| error.to_string());
    }
    out.resize(size, 0);
    let unpacked = decoder.decompress_to_buffer(packed, &mut out[levels..]);
    out.truncate(levels + unpacked.map_err(|error| error.to_string())?);
    Ok(())
}

/// Blocks, each with its size after and before unpacking in front, the most significant byte first. Old writers left the
/// framing out.
fn unpack_hadoop(packed: &[u8], out: &mut Vec<u8>, size: usize) -> Result<(), String> {
    let levels = out.len();
    out.resize(size, 0);
    let framed = hadoop_blocks(packed, &mut out[levels..]);
    let unpacked = match framed {
        Some(unpacked) => unpacked,
        None => lz4_flex::block::decompress_into(packed, &mut out[levels..])
            .map_err(|error| error.to_string())?,
    };
    out.truncate(levels + unpacked);
    Ok(())
}

fn hadoop_blocks(packed: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut rest = packed;
    let mut made = 0_usize;
    let number = |bytes: &[u8]| Some(u32::from_be_bytes(bytes.try_into().ok()?).to_usize());
    while !rest.is_empty() {
        let (head, after) = rest.split_at_checked(8)?;
        let unpacked = number(&head[..4])?;
        let (block, after) = after.split_at_checked(number(&head[4..])?)?;
        let into = out.get_mut(made..made.checked_add(unpacked)?)?;
        if lz4_flex::block::decompress_into(block, into).ok()? != unpacked {
            return None;
        }
        made += unpacked;
        rest = after;
    }
    Some(made)
}
