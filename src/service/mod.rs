//! A server that answers many clients at once, from indexes and a history.
//!
//! One tokio runtime has all sockets. Clients speak HTTP (`http`) or lines of JSON (`lines`).
//! Nothing that takes long runs on the threads of the runtime:
//!
//! ```text
//! clients ◄─► connections ──► workers: tokenize, search indexes, align, convert documents
//!             (one task    ──► history: one thread that has it, or something else that
//!              each)           implements HistoryService
//! ```
//!
//! Requests to the history that wait are answered together, as one batch, in the order of their
//! arrival; so each request sees every document that was answered before it. A client that does not
//! read its answers has a bounded number of them and then is not read from: it stalls only itself.
//!
//! Memory: for each client at most one line or body, 1024 answers and those of one batch; for all
//! together at most [`ServiceOptions::client_bytes`] plus 256 KiB each; and what
//! [`ServiceOptions::threads`] workers use.

mod auth;
mod client;
mod clients;
pub mod history;
mod http;
mod indexes;
mod lines;
mod listener;
mod memory;
mod metrics;
mod options;
mod run;
mod tls;
mod workers;

pub use auth::read_token;
pub use client::{RemoteSearch, ServerClient, ServerSearch, ServerUrl};
pub use indexes::IndexOptions;
pub use options::{ListeningAddress, ServiceControl, ServiceOptions, ServiceSecurity, TlsFiles};
pub use run::serve;
