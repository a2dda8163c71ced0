//! Bytes from a source that cannot seek: a member of an archive, a pipe, a packed file.
//!
//! Archives and tables are read from their end, so these bytes are kept: in memory while they are few, and in a
//! temporary file without a name beyond that.

use super::unpack::Input;
use crate::base::num::ToU64;
use std::{
    fs::File,
    io::{self, BufReader, Cursor, Read, Seek, SeekFrom, Write},
};

/// What is kept in memory at most.
const MEMORY_BYTES: u64 = 8 << 20;

/// Bytes that can be read again, from any position.
#[derive(Debug)]
pub enum Spooled {
    /// Few bytes.
    Memory(Vec<u8>),
    /// Many bytes, in a temporary file that is removed with the last handle.
    File(File),
}

/// Bytes that can be read from any position.
pub trait ReadSeek: Read + Seek + Send {}

impl<T: Read + Seek + Send> ReadSeek for T {}

impl Spooled {
    /// Reads an input to its end; `None` if it has more than `most_bytes`.
    pub fn read(mut input: impl Read, most_bytes: u64) -> io::Result<Option<Self>> {
        let mut bytes = Vec::new();
        let in_memory = MEMORY_BYTES.min(most_bytes);
        input.by_ref().take(in_memory + 1).read_to_end(&mut bytes)?;
        if bytes.len().to_u64() <= in_memory {
            return Ok(Some(Self::Memory(bytes)));
        }
        if bytes.len().to_u64() > most_bytes {
            return Ok(None);
        }
        let mut file = tempfile::tempfile()?;
        file.write_all(&bytes)?;
        let room = most_bytes - bytes.len().to_u64();
        drop(bytes);
        let copied = io::copy(&mut input.take(room.saturating_add(1)), &mut file)?;
        Ok((copied <= room).then_some(Self::File(file)))
    }

    /// The bytes from their beginning, to be read once.
    pub fn into_input(self) -> io::Result<Input> {
        Ok(match self {
            Self::Memory(bytes) => Box::new(Cursor::new(bytes)),
            Self::File(mut file) => {
                file.seek(SeekFrom::Start(0))?;
                Box::new(BufReader::new(file))
            }
        })
    }

    /// The bytes, to be read from any position.
    pub fn into_seekable(self) -> io::Result<Box<dyn ReadSeek>> {
        Ok(match self {
            Self::Memory(bytes) => Box::new(Cursor::new(bytes)),
            Self::File(mut file) => {
                file.seek(SeekFrom::Start(0))?;
                Box::new(BufReader::new(file))
            }
        })
    }

    /// The bytes in a file.
    #[cfg(feature = "parquet")]
    pub fn into_file(self) -> io::Result<File> {
        match self {
            Self::File(file) => Ok(file),
            Self::Memory(bytes) => {
                let mut file = tempfile::tempfile()?;
                file.write_all(&bytes)?;
                Ok(file)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_the_same_in_memory_and_on_disk() {
        for length in [0, 1, MEMORY_BYTES - 1, MEMORY_BYTES, MEMORY_BYTES + 1] {
            let input = || io::repeat(7).take(length);
            let read = |most| Spooled::read(input(), most).unwrap();
            let mut bytes = Vec::new();
            let spooled = read(u64::MAX).unwrap();
            let is_on_disk = matches!(spooled, Spooled::File(_));
            assert_eq!(is_on_disk, length > MEMORY_BYTES, "{length}");
            spooled
                .into_seekable()
                .unwrap()
                .read_to_end(&mut bytes)
                .unwrap();
            assert_eq!(bytes.len().to_u64(), length);
            assert!(bytes.iter().all(|&byte| byte == 7));
            assert!(read(length).is_some(), "{length}");
            assert!(length == 0 || read(length - 1).is_none(), "{length}");
        }
    }
}
