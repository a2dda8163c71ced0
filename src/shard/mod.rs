//! A plan is a pure function of the corpus and the hosts; it is carried out task by task, and what is on disk says how far it got:
//!
//! ```text
//! slices of the corpus ──► map ──► range parts of each slice ──► reduce ──► a part of the whole for each range ──► gather ──► the index
//!                                  map/SLICE/RANGE                          reduce/RANGE                                    index
//! ```
//!
//! Each task is one command line with one output, which appears when it is whole. So a task can be run anywhere, twice, or by hand.

mod hosts;
mod plan;
mod makefile;
mod state;
mod write;
mod events;
mod engine;
mod run;
mod slurm;
mod tally;
mod report;
mod queue;
mod gather;

pub use engine::{Engine, LOST, Local, Verdict};
pub use events::{Event, Events, What, bytes_of};
pub use gather::{Reads, gather, problems, write_problems};
pub use hosts::Host;
pub use plan::{Kind, Plan, PlanOptions, Task};
pub use queue::{Outcome, Queued, Waiting, missing_arrays, run_slurm};
pub use report::{size, time, write_report};
pub use run::{Failure, RunLock, clean, run};
pub use slurm::{Jobs, SlurmOptions, Stage, kind_name, ranges};
pub use state::{State, prepare, state};
pub use tally::{HostTally, Tally};
pub use write::write_plan;
