//! TLS for HTTP, with a certificate and a key from files. Without the feature `tls` it is an error
//! to ask for it.

#[cfg(not(feature = "tls"))]
mod missing;
#[cfg(feature = "tls")]
mod rustls;

#[cfg(not(feature = "tls"))]
pub use missing::{ClientTls, ServiceTls};
#[cfg(feature = "tls")]
pub use rustls::{ClientTls, ServiceTls};
