//! How a server listens, and how it is stopped.

use super::indexes::IndexOptions;
use crate::{history::backend::ServiceAddress, text::corpus};
use std::{fmt, path::PathBuf, sync::Arc, time::Duration};
use tokio::sync::watch;

/// How a server listens, and how it reads and answers requests.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// The address for clients that speak HTTP.
    pub http: Option<ServiceAddress>,
    /// The address for clients that send lines to the history.
    pub lines: Option<ServiceAddress>,
    /// Whether other machines may connect.
    pub allow_remote: bool,
    /// The indexes that can be searched.
    pub indexes: Vec<IndexOptions>,
    /// The greatest number of clients at a time.
    pub max_clients: usize,
    /// The memory for requests and answers of all clients together.
    pub client_bytes: usize,
    /// The greatest length of the body of a request.
    pub max_body_bytes: usize,
    /// How long a request may take to arrive, and how long a silent client keeps its place when
    /// others wait for one.
    pub idle_timeout: Duration,
    /// Who may ask, and how it is kept secret.
    pub security: ServiceSecurity,
    /// How documents are read.
    pub reading: corpus::Options,
    /// The number of threads that read documents and search indexes.
    pub threads: usize,
}

/// Who may ask over HTTP, and how that is kept secret.
#[derive(Debug, Clone, Default)]
pub struct ServiceSecurity {
    /// A certificate and a key: HTTP is spoken over TLS.
    pub tls: Option<TlsFiles>,
    /// A file with a token that requests must have.
    pub token_file: Option<PathBuf>,
    /// Names of this server, besides localhost and addresses.
    pub hosts: Vec<String>,
}

/// The files that TLS needs, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of the server, then those that vouch for it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// An address that a server listens on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListeningAddress {
    /// For HTTP.
    Http(ServiceAddress),
    /// For HTTP over TLS.
    Https(ServiceAddress),
    /// For lines.
    Lines(ServiceAddress),
}

/// `tcp:127.0.0.1:7000`, `http://127.0.0.1:8080`, or `unix:PATH (HTTP)`.
impl fmt::Display for ListeningAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lines(address) => address.fmt(f),
            Self::Http(ServiceAddress::Tcp(host)) => write!(f, "http://{host}"),
            Self::Https(ServiceAddress::Tcp(host)) => write!(f, "https://{host}"),
            Self::Http(other) => write!(f, "{other} (HTTP)"),
            Self::Https(other) => write!(f, "{other} (HTTPS)"),
        }
    }
}

/// Stops a server, or makes it read its files again; from any thread.
#[derive(Debug, Clone)]
pub struct ServiceControl {
    is_stopped: Arc<watch::Sender<bool>>,
    reloads: Arc<watch::Sender<u64>>,
}

impl Default for ServiceControl {
    fn default() -> Self {
        Self {
            is_stopped: Arc::new(watch::Sender::new(false)),
            reloads: Arc::new(watch::Sender::new(0)),
        }
    }
}

impl ServiceControl {
    /// Stops the server: it answers what it has read, and ends.
    pub fn stop(&self) {
        self.is_stopped.send_replace(true);
    }

    /// Makes the server look for new generations of its indexes, and read its other files again.
    pub fn reload(&self) {
        self.reloads.send_modify(|count| *count += 1);
    }

    /// Whether the server is to stop.
    pub fn is_stopped(&self) -> bool {
        *self.is_stopped.borrow()
    }

    /// Returns when the server is to stop.
    pub async fn stopped(&self) {
        // The sender lives as long as `self`.
        let _ = self
            .is_stopped
            .subscribe()
            .wait_for(|stopped| *stopped)
            .await;
    }

    /// Notices each call of [`Self::reload`].
    pub fn reloads(&self) -> watch::Receiver<u64> {
        self.reloads.subscribe()
    }
}
