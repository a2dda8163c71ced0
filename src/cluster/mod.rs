//! The same work on many machines. A plan is a pure function of the corpus, the hosts and the
//! options; what is on disk says how far it got:
//!
//! ```text
//! slices of the corpus ──► map ──► docs ──► number ──► docs, targets ─────────────────────────► gather ──► the index
//!                           │                           │
//!                           └────► runs of each range ──┴─► reduce ──► sets ──► sets, numbers ──►
//!                                                              └─► postings ─────────┴─► part ──►
//! ```
//!
//! If a table is wanted, each range of the index is then counted, the rows of each share of the
//! documents are made from the counts of all ranges, and the table is these rows in order. If the corpus is to be cleaned, one task decides about all documents of the index, one for
//! each slice writes its files again, and the last one places them. With an existing index only what changed is mapped, and the last task commits the new
//! segment. The ranges of blots are the parts of the index: a part is made where the runs of its
//! range are, and is not touched again.
//!
//! Each task has one output, which appears when it is complete. So a task can run anywhere, twice,
//! or by hand.
//!
//! | module | contents |
//! | --- | --- |
//! | `plan` | slices, ranges, typed tasks, the directory of a run |
//! | `run` | executing one task, the state of outputs, events, report |
//! | `remote` | programs on other machines, over SSH or a command |
//! | `worker` | the process on a host, and the protocol between it and the run |
//! | `scheduler` | which machine runs which task, and what is transferred |
//! | `engines` | local, ssh, slurm: one file each |

mod engines;
mod plan;
pub mod remote;
mod run;
mod scheduler;
mod worker;

pub use engines::{
    DEFAULT_RETRIES, ENGINES, EXIT_LOST, Engine, EngineEntry, EngineSetup, Failure, LocalEngine,
    LocalMachine, QueuedJob, RunObserver, RunOptions, RunOutcome, SlurmEngine, SlurmOptions,
    SshEngine, SshEngineOptions, SshSetup, TaskStage, Verdict, is_program, ranges,
};
pub use plan::{
    BaseIndex, BlotRange, CleanPlan, ClusterOptions, EXPORTS, ExportEntry, GatheredFiles, Host,
    MOST_RANGES, MappedSlice, Plan, PlanOptions, PlannedSlice, SliceSize, TableFormat,
    TableOptions, Task, TaskKind, TaskWork, cut_large_files, default_parts, read_owners,
    write_plan,
};
pub use run::{
    cleaning::CleanOutcome,
    event_log::{Event, EventKind, EventLog, bytes_of},
    execute::{TaskError, enter_directory, run_task},
    gather::{RunInput, gather_index, gather_needs, input_of, write_input},
    output_state::{OutputState, has_file, output_state, output_states},
    report::{size, time, write_report},
    run_lock::{RunLock, clean},
    summary::{HostSummary, RunSummary},
};
pub use worker::{HostStore, WorkerOptions, serve};
