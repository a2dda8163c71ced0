//! Answers for many clients at once, over a socket.
//!
//! A client sends lines and gets one answer for each, in order. For each there are two threads: one reads lines and makes prints of
//! documents, one writes the answers that the client does not take at once. A single thread has the history; it takes all requests that
//! wait as one batch, writes what can be written without waiting, and never waits for a client:
//!
//! ```text
//! client ──► reader ──┐               ┌────────────────► client
//! client ──► reader ──┼──► the queue ─┤
//! client ──► reader ──┘    one thread └──► writer ─ ─ ─► client that is slow
//! ```
//!
//! A client that does not read its answers has a bounded number of requests under way, and then is not read from: it stops only itself.
//!
//! Memory: for each client at most one line of [`crate::online::LINE_BYTES`], 1024 requests and their answers, and two threads; for all
//! together no more than [`Options::client_bytes`], and 256 KiB for each.

mod budget;
mod connection;
mod engine;
mod queue;
mod request;
mod server;
mod wait;

pub use server::{Options, Stop, serve};
