//! Answers for many clients at once, over a socket.
//!
//! A client sends lines and gets one answer for each, in order. One thread has the history and all sockets: it reads what has come,
//! answers it together, writes what can be written without waiting, and never waits for a client. Long lines, which are documents, are
//! read by others, so that their prints are made on all processors and nobody waits for them but who sent them:
//!
//! ```text
//! client ◄─►┐
//! client ◄─►├── the server, which has the history
//! client ◄─►┘     │ long lines   ▲ requests
//!                 └─► readers ───┘
//! ```
//!
//! With a thread for each client, a request would wait for two or three of them to get a processor, one after the other: on a machine that
//! has other work, too, these are the slowest answers.
//!
//! A client that does not read its answers has a bounded number of them, and then is not read from: it stops only itself.
//!
//! Memory: for each client at most one line of [`crate::online::LINE_BYTES`], 1024 answers and those to what was read at once; for all
//! together no more than [`Options::client_bytes`], and 256 KiB for each.

mod client;
mod clients;
mod engine;
mod readers;
mod request;
mod server;

pub use server::{Options, Stop, serve};
