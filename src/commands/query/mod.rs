//! The verbs of dedup-query.

pub mod align;
pub mod between;
pub mod blot;
pub mod history;
pub mod remote;
pub mod search;
pub mod searcher;
