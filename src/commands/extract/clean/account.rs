//! The account of a whole run: what it read, decided and wrote.

use super::{Cleaned, WrittenShards};
use crate::base::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::io;

/// What a run read, decided and wrote.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CleanAccount {
    /// Files that take part.
    pub shards: u64,
    /// Their size on disk.
    pub bytes_read: u64,
    /// Files that were written.
    pub shards_written: u64,
    /// Their size on disk.
    pub bytes_written: u64,
    /// Files that take no part.
    pub shards_left_out: u64,
    /// Lines and rows that are no documents, and stay.
    pub other_records: u64,
    /// What was decided.
    #[serde(flatten)]
    pub cleaned: Cleaned,
}

impl CleanAccount {
    /// Notes what was written.
    pub fn finish(&mut self, written: WrittenShards) {
        self.shards_written = written.shards;
        self.bytes_written = written.bytes;
    }

    /// The account as JSON, for people and other programs.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        let failed = |error| Error::output(io::Error::other(error));
        let mut report = serde_json::to_value(self).map_err(failed)?;
        if let Some(fields) = report.as_object_mut() {
            // Of use to this program only.
            fields.remove("fates");
            let groups = self.cleaned.largest.iter();
            let group =
                |(id, dropped): &(String, u64)| serde_json::json!({"id": id, "dropped": dropped});
            fields.insert("largest".to_owned(), groups.map(group).collect());
        }
        let mut bytes = serde_json::to_vec_pretty(&report).map_err(failed)?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}
