//! A client of a server: asks over HTTP what a search of an index would answer.

use super::{http::API_SEARCH, tls::ClientTls};
use crate::{
    base::{
        error::{Error, Result},
        parallel::lock,
    },
    commands::{AskedMatches, DocumentAsker},
};
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, StatusCode,
    body::Bytes,
    client::conn::http1::{self, SendRequest},
    header,
};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    path::PathBuf,
    str::FromStr,
    sync::{Arc, Mutex},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    runtime::{Builder, Runtime},
};

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUrl {
    place: ServerPlace,
    /// What stands before the paths of its requests.
    prefix: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum ServerPlace {
    Unix(PathBuf),
    Tcp {
        host: String,
        port: u16,
        is_secret: bool,
    },
}

/// Parses `http://HOST[:PORT][/PREFIX]`, the same with `https`, and `unix:PATH`.
impl FromStr for ServerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is neither http://HOST:PORT nor unix:PATH, such as http://127.0.0.1:8080"
            )
        };
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self {
                place: ServerPlace::Unix(path.into()),
                prefix: String::new(),
            });
        }
        let (rest, is_secret, usual) = match text.split_once("://") {
            Some(("http", rest)) => (rest, false, 80),
            Some(("https", rest)) => (rest, true, 443),
            _ => return Err(wrong()),
        };
        let (host, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let has_port = host
            .rsplit_once(':')
            .filter(|(_, port)| !port.ends_with(']'));
        let (host, port) = match has_port {
            Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
            None => (host, usual),
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_plain) {
            return Err(wrong());
        }
        Ok(Self {
            place: ServerPlace::Tcp {
                host: host.to_owned(),
                port,
                is_secret,
            },
            prefix: prefix.trim_end_matches('/').to_owned(),
        })
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            ServerPlace::Unix(path) => write!(f, "unix:{}", path.display()),
            ServerPlace::Tcp {
                host,
                port,
                is_secret,
            } => {
                let scheme = if *is_secret { "https" } else { "http" };
                write!(f, "{scheme}://{host}:{port}{}", self.prefix)
            }
        }
    }
}

/// What is asked about each document; what is `None` is as the server has it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RemoteSearch {
    /// The name of the index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// The score.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<String>,
    /// The least score that counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// The most matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top: Option<u32>,
    /// Blots of more documents do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_df: Option<u64>,
    /// With passages.
    pub passages: bool,
    /// Offsets in characters.
    pub chars: bool,
    /// With p-values.
    pub p_values: bool,
    /// Whether quotations count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude_quotes: Option<bool>,
    /// Whether lists of references count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude_bibliography: Option<bool>,
    /// The least length of a passage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_match_words: Option<u32>,
}

/// Asks a server about documents, over as many connections as threads ask.
pub struct ServerSearch {
    template: ServerClient,
    idle: Mutex<Vec<ServerClient>>,
    search: RemoteSearch,
    accept: &'static str,
}

impl ServerSearch {
    /// Asks for answers in the format `accept`.
    pub fn new(template: ServerClient, search: RemoteSearch, accept: &'static str) -> Self {
        Self {
            template,
            idle: Mutex::default(),
            search,
            accept,
        }
    }
}

impl DocumentAsker for ServerSearch {
    fn ask(&self, id: &str, text: &str) -> Result<AskedMatches> {
        let idle = lock(&self.idle).pop();
        let mut client = idle.map_or_else(|| self.template.another(), Ok)?;
        let answer = client.search(&self.search, self.accept, id, text)?;
        lock(&self.idle).push(client);
        Ok(answer)
    }
}

/// A client of one server, with a connection of its own.
pub struct ServerClient {
    url: Arc<ServerUrl>,
    token: Option<Arc<str>>,
    tls: Option<ClientTls>,
    runtime: Runtime,
    sender: Option<SendRequest<Full<Bytes>>>,
}

#[derive(Serialize)]
struct RemoteRequest<'a> {
    id: &'a str,
    text: &'a str,
    #[serde(flatten)]
    search: &'a RemoteSearch,
}

impl ServerClient {
    /// A client that connects when it asks. `authorities`: a file with the certificates that vouch
    /// for servers.
    pub fn new(
        url: ServerUrl,
        token: Option<String>,
        authorities: Option<PathBuf>,
    ) -> Result<Self> {
        let is_secret = matches!(
            url.place,
            ServerPlace::Tcp {
                is_secret: true,
                ..
            }
        );
        Ok(Self {
            tls: is_secret
                .then(|| ClientTls::open(authorities.as_deref()))
                .transpose()?,
            url: Arc::new(url),
            token: token.map(Arc::from),
            runtime: runtime()?,
            sender: None,
        })
    }

    /// A client of the same server.
    pub fn another(&self) -> Result<Self> {
        Ok(Self {
            url: self.url.clone(),
            token: self.token.clone(),
            tls: self.tls.clone(),
            runtime: runtime()?,
            sender: None,
        })
    }

    /// Returns an error if the server does not answer.
    pub fn ensure_ready(&mut self) -> Result<()> {
        let request = self.request("GET", "/readyz", "application/json", Bytes::new())?;
        self.exchange(request).map(drop)
    }

    /// What a server finds for a document, as `accept` says.
    pub fn search(
        &mut self,
        search: &RemoteSearch,
        accept: &str,
        id: &str,
        text: &str,
    ) -> Result<AskedMatches> {
        let body = serde_json::to_vec(&RemoteRequest { id, text, search });
        let body = body.map_err(|error| Error::Usage(error.to_string()))?;
        let request = self.request("POST", API_SEARCH, accept, body.into())?;
        let (headers, bytes) = self.exchange(request)?;
        let number = |name: &str| {
            let value = headers.get(name).and_then(|value| value.to_str().ok());
            value.and_then(|value| value.parse().ok()).unwrap_or(0)
        };
        Ok(AskedMatches {
            matches: number("dedup-matches"),
            unread: number("dedup-unread"),
            bytes: bytes.into(),
        })
    }

    fn request(
        &self,
        method: &str,
        path: &str,
        accept: &str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>> {
        let host = match &self.url.place {
            ServerPlace::Unix(_) => "localhost".to_owned(),
            ServerPlace::Tcp { host, port, .. } => format!("{host}:{port}"),
        };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url.prefix))
            .header(header::HOST, host)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, accept);
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        request
            .body(Full::new(body))
            .map_err(|error| Error::Usage(format!("{}: {error}", self.url)))
    }

    /// Sends a request. A connection that the server has closed meanwhile is opened again.
    fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<(header::HeaderMap, Bytes)> {
        let Self {
            url,
            tls,
            runtime,
            sender,
            ..
        } = self;
        let failed = |what: String| Error::Usage(format!("{url}: {what}"));
        let (status, headers, body) = runtime.block_on(async {
            let is_open = match sender {
                Some(sender) => sender.ready().await.is_ok(),
                None => false,
            };
            if !is_open {
                *sender = Some(
                    connect(url, tls.as_ref())
                        .await
                        .map_err(|error| failed(error.to_string()))?,
                );
            }
            let Some(sender) = sender else {
                return Err(failed("not connected".to_owned()));
            };
            let answer = sender.send_request(request).await;
            let answer = answer.map_err(|error| failed(error.to_string()))?;
            let (head, body) = answer.into_parts();
            let body = body
                .collect()
                .await
                .map_err(|error| failed(error.to_string()))?;
            Ok((head.status, head.headers, body.to_bytes()))
        })?;
        if status == StatusCode::OK {
            return Ok((headers, body));
        }
        #[derive(Deserialize)]
        struct Refusal {
            error: String,
        }
        let refusal = serde_json::from_slice::<Refusal>(&body);
        Err(failed(refusal.map_or_else(
            |_| status.to_string(),
            |refusal| refusal.error,
        )))
    }
}

fn runtime() -> Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::io("the runtime of the client", error))
}

async fn connect(
    url: &ServerUrl,
    tls: Option<&ClientTls>,
) -> std::io::Result<SendRequest<Full<Bytes>>> {
    match (&url.place, tls) {
        (ServerPlace::Unix(path), _) => speak(UnixStream::connect(path).await?).await,
        (ServerPlace::Tcp { host, port, .. }, tls) => {
            let name = host.trim_start_matches('[').trim_end_matches(']');
            let stream = TcpStream::connect((name, *port)).await?;
            stream.set_nodelay(true)?;
            match tls {
                Some(tls) => speak(tls.connect(name, stream).await?).await,
                None => speak(stream).await,
            }
        }
    }
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> std::io::Result<SendRequest<Full<Bytes>>> {
    let spoken = http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = spoken.map_err(std::io::Error::other)?;
    // It ends with the connection; errors reach the request.
    tokio::spawn(connection);
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_servers_are_read() {
        for (text, shown) in [
            ("unix:/run/dedup.sock", "unix:/run/dedup.sock"),
            ("http://localhost", "http://localhost:80"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
            ("https://[::1]/a/b/", "https://[::1]:443/a/b"),
            ("http://[::1]:8080", "http://[::1]:8080"),
        ] {
            assert_eq!(text.parse::<ServerUrl>().unwrap().to_string(), shown);
        }
        for text in [
            "",
            "unix:",
            "localhost:8080",
            "ftp://x",
            "http://",
            "http://a b",
            "http://x:y",
        ] {
            assert!(text.parse::<ServerUrl>().is_err(), "{text}");
        }
    }
}
