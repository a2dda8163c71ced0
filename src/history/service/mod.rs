//! A socket server that answers many clients at once.
//!
//! A client sends lines and gets one answer for each, in order. One thread owns the history and all
//! sockets: it reads what has arrived, answers it as one batch, writes as far as the sockets take
//! it, and never waits for a client. Long lines, which are documents, are parsed by a thread pool,
//! so that all processors compute prints and only their sender waits for them:
//!
//! ```text
//! client ◄─►┐
//! client ◄─►├── the server, which has the history
//! client ◄─►┘     │ long lines   ▲ requests
//!                 └─► readers ───┘
//! ```
//!
//! With a thread for each client, a request would wait until several of many threads get a
//! processor: the more clients, the slower the slowest answers. A second thread for the sockets
//! would save the first one a fifth of its work, but was slower when measured: each answer waits
//! for two more wake-ups.
//!
//! A client that does not read its answers has a bounded number of them and then is not read from:
//! it stalls only itself.
//!
//! Memory: for each client at most one line of [`crate::history::backend::LINE_BYTES`], 1024
//! answers and those of one batch; for all together at most [`ServiceOptions::client_bytes`] plus
//! 256 KiB each.

mod client;
mod clients;
mod engine;
mod line_readers;
mod request_reader;
mod server;

pub use server::{ServiceOptions, StopPipe, serve};
