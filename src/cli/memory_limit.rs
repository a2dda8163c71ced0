//! The limit of memory that a command line names, for the blocks that grow with the documents.

use super::{args::machine_memory, progress::say, value_of_verb};
use crate::base::files::{TempDir, limit_large_blocks, spill_failure};
use clap::ArgMatches;

/// The values of `--memory` and `--tmp-dir`, of any verb.
pub struct MemoryLimit {
    memory_bytes: u64,
    tmp_dir: TempDir,
}

impl MemoryLimit {
    /// A verb without these flags holds one document at a time, and gets what is the default of others.
    pub fn of(matches: &ArgMatches) -> Self {
        let memory = value_of_verb(matches, "memory");
        Self {
            memory_bytes: memory.unwrap_or_else(|| machine_memory() / 4),
            tmp_dir: TempDir(value_of_verb(matches, "tmp_dir")),
        }
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
