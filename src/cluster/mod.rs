//! A plan is a pure function of the corpus and the hosts; it is carried out task by task, and what is on disk says how far it got:
//!
//! ```text
//! slices of the corpus ──► map ──► docs ──► number ──► docs, targets ─────────────────────────► gather ──► the index
//!                           │                           │
//!                           └────► runs of each range ──┴─► reduce ──► sets ──► sets, numbers ──►
//!                                                              └─► postings ─────────┴─► part ──►
//! ```
//!
//! If a table is wanted, each range of the index is then compared: count, and table.
//!
//! With an index that is there, only what changed is mapped, the new segment goes beside what it has, and the last task commits.
//!
//! The ranges of blots are the parts of the index: a part is made where the runs of its range are, and is not touched again.
//!
//! Each task is one command line with one output, which appears when it is whole. So a task can be run anywhere, twice, or by hand.

mod board;
mod cache;
mod client;
mod engine;
mod events;
mod execute;
mod fleet;
mod gather;
mod plan;
mod protocol;
mod queue;
pub mod remote;
mod report;
mod run;
mod ship;
mod slurm;
mod state;
mod store;
mod tally;
mod transfer;
mod worker;

pub use engine::{Crew, LOST, Local, Verdict};
pub use events::{Event, Events, What, bytes_of};
pub use execute::{TaskError, enter_directory, run_task};
pub use fleet::{Fleet, FleetOptions};
pub use gather::{Input, gather_index, gather_needs, input_of, write_input};
pub use plan::{
    BaseIndex, Host, Plan, PlanOptions, TableFormat, TableOptions, Task, TaskKind, Work,
    default_parts, read_owners, selection_file, write_plan,
};
pub use queue::{Outcome, Queued, Waiting, missing_arrays, run_slurm};
pub use report::{size, time, write_report};
pub use run::{Failure, News, RETRIES, RunLock, RunOptions, clean, run};
pub use ship::is_self;
pub use slurm::{Jobs, SlurmOptions, Stage, ranges};
pub use state::{State, has_file, left, prepare, state, states};
pub use store::Store;
pub use tally::{HostTally, Tally};
pub use worker::{WorkerOptions, serve};
