//! The directory of a run: its outputs, its log of events, its report, and how a task is executed
//! in it.

pub mod cleaning;
pub mod event_log;
pub mod execute;
pub mod gather;
pub mod output_state;
pub mod programs;
pub mod report;
pub mod run_lock;
pub mod summary;
