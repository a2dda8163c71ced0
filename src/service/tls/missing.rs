//! What stands for TLS in a program that was built without it.

use crate::{
    base::error::{Error, Result},
    service::{listener::ServiceStream, options::TlsFiles},
};
use std::{io, path::Path};
use tokio::net::TcpStream;

/// There is none.
pub struct ServiceTls(std::convert::Infallible);

impl ServiceTls {
    /// An error that says how to get it.
    pub fn open(_: &TlsFiles) -> Result<Self> {
        Err(without_tls())
    }

    pub fn reload(&self) -> Result<()> {
        match self.0 {}
    }

    pub async fn accept(&self, _: ServiceStream) -> io::Result<ServiceStream> {
        match self.0 {}
    }
}

/// The side of a client: there is none either.
#[derive(Clone)]
pub struct ClientTls(std::convert::Infallible);

impl ClientTls {
    /// An error that says how to get it.
    pub fn open(_: Option<&Path>) -> Result<Self> {
        Err(without_tls())
    }

    pub async fn connect(&self, _: &str, _: TcpStream) -> io::Result<TcpStream> {
        match self.0 {}
    }
}

fn without_tls() -> Error {
    Error::Usage(
        "this program was built without TLS; build it with cargo build --features tls".to_owned(),
    )
}
