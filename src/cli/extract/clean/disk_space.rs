//! How much room a run needs, and whether there is as much.

use super::run::CleanArgs;
use crate::commands::ShardList;
use anyhow::{Context, bail};
use indicatif::BinaryBytes;
use std::path::Path;

/// Less is not worth a word.
const LEAST_TOLD: u64 = 1 << 30;

impl CleanArgs {
    /// About the room that temporary files take, for texts of this size: an index, the sorted runs that it is made of where they do not fit into the
    /// memory, and sequences of tokens that are compared.
    fn temporary_bytes(&self, text_bytes: u64) -> u64 {
        let has_runs = text_bytes > self.limits().memory_bytes / 4;
        let runs = if has_runs { text_bytes } else { 0 };
        let sequences = self.rules.cut_tokens().map_or(0, |_| text_bytes);
        text_bytes / 3 + runs + sequences
    }

    /// Says how much room is needed, and refuses to start if there is less.
    pub fn tell_space(
        &self,
        shards: &ShardList,
        work: &Path,
        target: Option<&Path>,
    ) -> Result<(), anyhow::Error> {
        let temporary = self.temporary_bytes(shards.unpacked_bytes());
        let mut needed = vec![(work, temporary, "temporary files")];
        if let Some(target) = target {
            needed.push((target, shards.bytes(), "the cleaned files"));
        }
        let parts: Vec<_> = needed
            .iter()
            .map(|(path, bytes, what)| {
                format!(
                    "up to about {} for {what} in {}",
                    BinaryBytes(*bytes),
                    path.display()
                )
            })
            .collect();
        if needed.iter().any(|(_, bytes, _)| *bytes >= LEAST_TOLD) {
            self.tell(&format!("needs {}", parts.join(", and ")));
        }
        for (path, bytes, what) in needed {
            let free = free_bytes(path)?;
            if free < bytes {
                bail!(
                    "{}: {} are free, and {what} may need {}; make room, or choose other directories with -o and --tmp-dir",
                    path.display(),
                    BinaryBytes(free),
                    BinaryBytes(bytes)
                );
            }
        }
        Ok(())
    }
}

fn free_bytes(path: &Path) -> Result<u64, anyhow::Error> {
    let existing = path.ancestors().find(|path| path.exists());
    let existing = existing
        .filter(|path| !path.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let stat = rustix::fs::statvfs(existing).with_context(|| existing.display().to_string())?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}
