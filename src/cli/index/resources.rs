//! How much memory and which threads an index command may use.

use super::super::args::{machine_memory, parse_size, threads_of};
use crate::{base::files::TempDir, index::Resources};
use clap::Args;
use std::path::PathBuf;

/// Memory and temporary files.
#[derive(Args, Debug)]
pub struct ResourceArgs {
    /// Memory to use before data goes to temporary files: 256M, 4G [default: a quarter of what there is]
    ///
    /// Also what is kept of each document counts. Pages of mapped files, those of the index among them, do not: the
    /// system takes them back when it needs memory.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
    /// Where temporary files go [default: $TMPDIR or /tmp]
    ///
    /// On a disk: files in a directory that is held in memory take memory.
    #[arg(long, value_name = "DIR")]
    tmp_dir: Option<PathBuf>,
}

impl ResourceArgs {
    pub fn memory_bytes(&self) -> u64 {
        self.memory.unwrap_or_else(|| machine_memory() / 4)
    }

    pub fn resources(&self, threads: Option<u32>) -> Resources {
        Resources {
            memory_bytes: self.memory_bytes(),
            threads: threads_of(threads),
            tmp_dir: TempDir(self.tmp_dir.clone()),
        }
    }

    /// The memory for documents that are being read: a share of the whole, up to a limit that is always enough.
    pub fn under_way(&self) -> u64 {
        (self.memory_bytes() / 4).min(128 << 20)
    }
}
