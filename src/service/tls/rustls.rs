//! TLS by rustls.

use crate::{
    base::error::{Error, Place, Result},
    service::{listener::ServiceStream, options::TlsFiles},
};
use std::{
    io,
    path::Path,
    sync::{Arc, PoisonError, RwLock},
};
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsAcceptor, TlsConnector, client,
    rustls::{
        ClientConfig, RootCertStore, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    },
    server::TlsStream,
};

/// A certificate and its key.
pub struct ServiceTls {
    files: TlsFiles,
    config: RwLock<Arc<ServerConfig>>,
}

impl ServiceTls {
    /// Reads the files.
    pub fn open(files: &TlsFiles) -> Result<Self> {
        Ok(Self {
            config: RwLock::new(Arc::new(read_config(files)?)),
            files: files.clone(),
        })
    }

    /// Reads the files again, for new connections. After an error the old ones stay valid.
    pub fn reload(&self) -> Result<()> {
        let config = Arc::new(read_config(&self.files)?);
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// Shakes hands with a client.
    pub async fn accept(&self, stream: ServiceStream) -> io::Result<TlsStream<ServiceStream>> {
        let config = self.config.read();
        let config = config.unwrap_or_else(PoisonError::into_inner).clone();
        TlsAcceptor::from(config).accept(stream).await
    }
}

fn read_config(files: &TlsFiles) -> Result<ServerConfig> {
    let damaged = |path, what: String| Error::damaged(Place::path(path), what);
    let (cert, key) = (&files.certificate, &files.key);
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
        .map_err(|error| damaged(cert, error.to_string()))?;
    if chain.is_empty() {
        return Err(damaged(cert, "has no certificate in PEM".to_owned()));
    }
    let private =
        PrivateKeyDer::from_pem_file(key).map_err(|error| damaged(key, error.to_string()))?;
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| damaged(cert, error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| damaged(cert, format!("{error} ({})", key.display())))?;
    Ok(config)
}

/// The certificates of the system, where most have them.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The side of a client.
#[derive(Clone)]
pub struct ClientTls(TlsConnector);

impl ClientTls {
    /// Reads the certificates that vouch for servers, by default those of the system.
    pub fn open(authorities: Option<&Path>) -> Result<Self> {
        let path = authorities.unwrap_or(Path::new(AUTHORITIES));
        let damaged = |what: String| Error::damaged(Place::path(path), what);
        let mut roots = RootCertStore::empty();
        let certificates =
            CertificateDer::pem_file_iter(path).map_err(|error| damaged(error.to_string()))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| damaged(error.to_string()))?;
            roots
                .add(certificate)
                .map_err(|error| damaged(error.to_string()))?;
        }
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| damaged(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    pub async fn connect(
        &self,
        name: &str,
        stream: TcpStream,
    ) -> io::Result<client::TlsStream<TcpStream>> {
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        self.0.connect(name, stream).await
    }
}
