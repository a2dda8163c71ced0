//! What dedup-index does: one file per verb.

pub mod build;
pub mod built;
pub mod change;
pub mod dump;
pub mod find_ids;
pub mod follow;
pub mod removal;
pub mod reorganise;
pub mod steps;
pub mod sync;
