//! Who answers: a history that is here, or several that are elsewhere.
//!
//! [`HistoryBackend`] is what both have in common. [`LocalHistory`] is a history of this process; a [`UpstreamRouter`] asks servers, each of which keeps the
//! prints of a range of cardinalities, and makes one answer of theirs.

mod address;
mod cardinality;
mod local;
mod reconnect;
mod reply;
mod router;
mod upstream;

pub use address::{Connection, ServiceAddress, SocketListener};
pub use cardinality::CardinalityRange;
pub use local::LocalHistory;
pub use reply::{HelloReply, HistoryBackend, MatchReply, RemovalReply, ReplyMatch, put_reply};
pub use router::UpstreamRouter;

use crate::{
    base::error::{Problem, Result},
    history::{self, MatchLimits},
    text::scheme::PrintScheme,
};
use std::{path::PathBuf, sync::Arc};

/// Is told what goes wrong meanwhile, and what is well again.
pub type ProblemReporter = Arc<dyn Fn(&Problem) + Send + Sync>;

/// A line of a request or an answer has at most so many bytes.
pub const LINE_BYTES: usize = 64 << 20;
/// An id has at most so many bytes.
pub const ID_BYTES: usize = 64 << 10;

/// Refuses an id that is too long: it would be in memory, and in answers, again and again.
pub fn ensure_id_is_short(id: &str) -> Result<(), String> {
    if id.len() > ID_BYTES {
        return Err(format!(
            "an id of {} bytes, {ID_BYTES} is the most; give it a shorter one",
            id.len()
        ));
    }
    Ok(())
}

/// Whom to ask.
#[derive(Debug, Clone)]
pub enum BackendSource {
    /// A history, of which this keeps only prints of some cardinalities. Its scheme is that of the input.
    Directory {
        directory: PathBuf,
        options: history::StoreOptions,
        cardinalities: CardinalityRange,
    },
    /// Servers.
    Upstreams(Vec<ServiceAddress>),
}

/// Opens a history, or connects to servers. The scheme, where it is known, must be theirs.
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
            cardinalities,
        } => {
            let options = history::StoreOptions {
                scheme,
                ..options.clone()
            };
            Ok(Box::new(LocalHistory::open(
                directory,
                options,
                *cardinalities,
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
