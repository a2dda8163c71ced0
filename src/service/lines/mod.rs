//! Clients that send lines of JSON to the history, and get a line for each, in order.
//!
//! Each connection is a task with two halves: one reads, parses and submits requests, the other
//! writes answers in the order of the requests. Short lines are parsed at once; long ones, which
//! are documents, by the workers.

mod connection;
mod input;
mod output;

pub use connection::{LineService, refuse_lines};
