//! The limit of memory that a command line names, for the blocks that grow with the documents.

use super::{args::machine_memory, progress::say};
use crate::base::files::{TempDir, limit_large_blocks, spill_failure};
use clap::ArgMatches;
use std::path::PathBuf;

/// The values of `--memory` and `--tmp-dir`, of any verb.
pub struct MemoryLimit {
    memory_bytes: u64,
    tmp_dir: TempDir,
}

impl MemoryLimit {
    /// None if the verb has no such flags: it holds one document at a time.
    pub fn of(matches: &ArgMatches) -> Option<Self> {
        let of_verb = || {
            let (_, matches) = matches.subcommand()?;
            Self::of(matches)
        };
        let Ok(memory) = matches.try_get_one::<u64>("memory") else {
            return of_verb();
        };
        let tmp_dir = matches.try_get_one::<PathBuf>("tmp_dir").ok()?;
        Some(Self {
            memory_bytes: memory.copied().unwrap_or_else(|| machine_memory() / 4),
            tmp_dir: TempDir(tmp_dir.cloned()),
        })
    }

    /// From now on, large blocks beyond a share of the memory are in temporary files.
    pub fn apply(&self) {
        limit_large_blocks(self.memory_bytes, &self.tmp_dir);
    }
}

/// Says so if memory was used that should have been in temporary files.
pub fn report_spill_failure(program: &str) {
    if let Some(error) = spill_failure() {
        say(&format!(
            "{program}: warning: {error}; no temporary file could be made there, so more memory than --memory was used"
        ));
    }
}
