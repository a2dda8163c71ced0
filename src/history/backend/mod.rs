//! What answers requests: a local history, or several remote ones.
//!
//! [`HistoryBackend`] is their common trait. [`LocalHistory`] is a history in this process; an
//! [`UpstreamRouter`] asks servers, each of which keeps the prints of a range of cardinalities, and
//! combines their answers; several that follow one log are replicas.

mod address;
mod cardinality;
mod local;
mod reconnect;
mod reply;
mod router;
mod upstream;
mod upstream_server;

pub use address::{Connection, ServiceAddress, SocketListener};
pub use cardinality::CardinalityRange;
pub use local::LocalHistory;
pub use reply::{
    HelloReply, HistoryBackend, LogReply, MatchReply, RemovalReply, ReplyMatch, put_reply,
};
pub use router::UpstreamRouter;

use crate::{
    base::error::{Problem, Result},
    history::{
        self, MatchLimits,
        log::{LogAddress, LogOptions, ReplicatedHistory, ensure_supported, open_log},
    },
    text::scheme::PrintScheme,
};
use std::{path::PathBuf, sync::Arc};

/// Receives problems, and when they are over.
pub type ProblemReporter = Arc<dyn Fn(&Problem) + Send + Sync>;

/// The greatest length of a line of a request or an answer.
pub const LINE_BYTES: usize = 64 << 20;
/// The greatest length of an id.
pub const ID_BYTES: usize = 64 << 10;

/// Refuses a long id, which would be in memory and in answers many times.
pub fn ensure_id_is_short(id: &str) -> Result<(), String> {
    if id.len() > ID_BYTES {
        return Err(format!(
            "an id of {} bytes, {ID_BYTES} is the most; give it a shorter one",
            id.len()
        ));
    }
    Ok(())
}

/// Where answers come from.
#[derive(Debug, Clone)]
pub enum BackendSource {
    /// A local history that adds only prints of some cardinalities, with the scheme of the input.
    Directory {
        /// The directory of the history.
        directory: PathBuf,
        /// How to open and write it.
        options: history::StoreOptions,
        /// The log that it follows, if any.
        log: Option<Box<LogSource>>,
    },
    /// Servers.
    Upstreams(Vec<ServiceAddress>),
}

/// A log to follow.
#[derive(Debug, Clone)]
pub struct LogSource {
    /// Where it is.
    pub address: LogAddress,
    /// On how many nodes each entry is, if it has to be made.
    pub replicas: usize,
    /// How to follow it.
    pub options: LogOptions,
}

/// Opens a history or connects to servers. The scheme, if given, must be theirs.
pub fn open(
    of: &BackendSource,
    scheme: Option<PrintScheme>,
    limits: MatchLimits,
    tell: &ProblemReporter,
) -> Result<Box<dyn HistoryBackend>> {
    match of {
        BackendSource::Directory {
            directory,
            options,
            log,
        } => {
            let options = history::StoreOptions {
                scheme,
                ..options.clone()
            };
            if let Some(log) = log {
                ensure_supported(&log.address)?;
                let start = |events| open_log(&log.address, log.replicas, events);
                let (follow, tell) = (log.options.clone(), tell.clone());
                let history =
                    ReplicatedHistory::open(directory, options, follow, limits, tell, start)?;
                return Ok(Box::new(history));
            }
            Ok(Box::new(LocalHistory::open(
                directory,
                options,
                limits,
                tell.clone(),
            )?))
        }
        BackendSource::Upstreams(addresses) => Ok(Box::new(UpstreamRouter::connect(
            addresses,
            scheme.as_ref(),
            limits,
            tell.clone(),
        )?)),
    }
}
