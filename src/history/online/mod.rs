//! Who answers: a history that is here, or several that are elsewhere.
//!
//! [`Answering`] is what both have in common. [`Kept`] is a history of this process; a [`Front`] asks servers, each of which keeps the
//! prints of a range of cardinalities, and makes one answer of theirs.

mod address;
mod answering;
mod buckets;
mod front;
mod kept;
mod mender;
mod upstream;

pub use address::{Address, Listener, Stream};
pub use answering::{Answering, Found, Hello, Removed, Reply, put_reply};
pub use buckets::Buckets;
pub use front::Front;
pub use kept::Kept;

use crate::{
    base::error::{Problem, Result},
    history::{self, Wanted},
    text::scheme::PrintScheme,
};
use std::{path::PathBuf, sync::Arc};

/// Is told what goes wrong meanwhile, and what is well again.
pub type Tell = Arc<dyn Fn(&Problem) + Send + Sync>;

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
pub enum Of {
    /// A history, of which this keeps only prints of some cardinalities. Its scheme is that of the input.
    Directory {
        directory: PathBuf,
        options: history::Options,
        buckets: Buckets,
    },
    /// Servers.
    Upstreams(Vec<Address>),
}

/// Opens a history, or connects to servers. The scheme, where it is known, must be theirs.
pub fn open(
    of: &Of,
    scheme: Option<PrintScheme>,
    wanted: Wanted,
    tell: &Tell,
) -> Result<Box<dyn Answering>> {
    match of {
        Of::Directory {
            directory,
            options,
            buckets,
        } => {
            let options = history::Options {
                scheme,
                ..options.clone()
            };
            Ok(Box::new(Kept::open(
                directory,
                options,
                *buckets,
                wanted,
                tell.clone(),
            )?))
        }
        Of::Upstreams(addresses) => Ok(Box::new(Front::connect(
            addresses,
            scheme.as_ref(),
            wanted,
            tell.clone(),
        )?)),
    }
}
