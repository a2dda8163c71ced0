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
//! With threads for each client, a request would wait for several of many to get a processor: the more clients, the slower the slowest
//! answers. A thread for the sockets beside the one with the history would spare that one a fifth of its work, and was slower all the same:
//! each answer waits for two more to be woken up.
//!
//! A client that does not read its answers has a bounded number of them, and then is not read from: it stops only itself.
//!
//! Memory: for each client at most one line of [`crate::history::backend::LINE_BYTES`], 1024 answers and those to what was read at once; for all
//! together no more than [`ServiceOptions::client_bytes`], and 256 KiB for each.

mod client;
mod clients;
mod engine;
mod line_readers;
mod request_reader;
mod server;

pub use server::{ServiceOptions, StopPipe, serve};
