//! Helper: a server for HTTP, and requests to it over plain sockets.

use crate::test_dir::TestDir;
use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    process::{Child, ChildStderr, Command, Stdio},
};

/// A running server, killed when dropped.
pub struct HttpServer {
    child: Child,
    /// `HOST:PORT` or the path of a socket.
    pub address: String,
    stderr: BufReader<ChildStderr>,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    /// With names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl HttpServer {
    /// Starts `dedup-query serve` on a free port and waits until it is ready.
    pub fn start(dir: &TestDir, arguments: &[&str]) -> Self {
        Self::on(dir, "127.0.0.1:0", arguments)
    }

    pub fn on(dir: &TestDir, address: &str, arguments: &[&str]) -> Self {
        let fixed = ["serve", "--http", address];
        Self::of(dir.command("dedup-query", &[&fixed[..], arguments].concat()))
    }

    pub fn of(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let mut server = Self {
            child,
            address: String::new(),
            stderr,
        };
        loop {
            let line = server.next_message();
            assert!(!line.is_empty(), "{command:?} ended");
            let Some(address) = line.strip_prefix("dedup-query: listening on ") else {
                continue;
            };
            let address = address.trim_end();
            if let Some(host) = address.split_once("://").map(|(_, host)| host) {
                server.address = host.to_owned();
                return server;
            }
            if let Some(path) = address.strip_suffix(" (HTTP)") {
                server.address = path.strip_prefix("unix:").unwrap().to_owned();
                return server;
            }
        }
    }

    /// The next line on stderr.
    pub fn next_message(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).unwrap();
        line
    }

    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.unwrap().success());
    }

    /// Sends a signal; returns the exit status and the rest of stderr.
    pub fn end(mut self, signal: &str) -> (Option<i32>, String) {
        self.signal(signal);
        let mut stderr = String::new();
        self.stderr.read_to_string(&mut stderr).unwrap();
        (self.child.wait().unwrap().code(), stderr)
    }

    pub fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).unwrap()
    }

    /// Sends a request and reads the answer to its end.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        exchange(self.connect(), method, path, headers, body)
    }

    pub fn get(&self, path: &str) -> Reply {
        self.request("GET", path, &[], b"")
    }

    pub fn post_json(&self, path: &str, body: &str) -> Reply {
        let headers = [("content-type", "application/json")];
        self.request("POST", path, &headers, body.as_bytes())
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request on a connection of its own.
pub fn exchange(
    mut stream: impl Read + Write,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Reply {
    let mut request =
        format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    request += &format!("content-length: {}\r\n\r\n", body.len());
    // A server may answer and close before it has read the whole body.
    let _ = stream
        .write_all(request.as_bytes())
        .and_then(|()| stream.write_all(body));
    Reply::read(&mut stream)
}

pub fn over_unix(dir: &TestDir, server: &HttpServer, path: &str) -> Reply {
    let stream = UnixStream::connect(dir.path(&server.address)).unwrap();
    exchange(stream, "GET", path, &[], b"")
}

impl Reply {
    /// Reads until the connection is closed.
    pub fn read(stream: &mut impl Read) -> Self {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no head: {:?}", String::from_utf8_lossy(&bytes)));
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap();
        let header = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_ascii_lowercase(), value.to_owned())
        };
        Self {
            status: status.parse().unwrap(),
            headers: lines.map(header).collect(),
            body: bytes[end + 4..].to_vec(),
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// The message of an answer with this status.
    #[track_caller]
    pub fn error(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/json"));
        self.json()["error"].as_str().unwrap().to_owned()
    }
}
