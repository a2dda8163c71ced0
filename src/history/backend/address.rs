//! Addresses and sockets: Unix sockets and TCP ports.

use crate::base::error::{Error, Place, Result};
use std::{
    fmt, fs,
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::{
            ffi::OsStrExt,
            fs::{FileTypeExt, MetadataExt, PermissionsExt},
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

/// The timeout of the check whether a process listens.
const LOOK: Duration = Duration::from_secs(1);

/// The address of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceAddress {
    /// The path of a Unix socket.
    Unix(PathBuf),
    /// A host and a port.
    Tcp(String),
    /// A listening socket that the process was started with, by its file descriptor.
    Inherited(RawFd),
}

impl fmt::Display for ServiceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(host) => write!(f, "tcp:{host}"),
            Self::Inherited(number) => write!(f, "fd:{number}"),
        }
    }
}

/// Parses `unix:/run/dedup.sock` and `tcp:127.0.0.1:7000`.
impl FromStr for ServiceAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_host = |host: &str| {
            host.rsplit_once(':')
                .is_some_and(|(name, port)| !name.is_empty() && port.parse::<u16>().is_ok())
        };
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(path.into())),
            Some(("tcp", host)) if is_host(host) => Ok(Self::Tcp(host.to_owned())),
            // Lower numbers are stdin, stdout and stderr.
            Some(("fd", number)) if number.parse().is_ok_and(|number: RawFd| number > 2) => number
                .parse()
                .map(Self::Inherited)
                .map_err(|_| String::new()),
            _ => Err(format!(
                "'{text}' is neither unix:PATH nor tcp:HOST:PORT, such as tcp:127.0.0.1:7000"
            )),
        }
    }
}

/// A connection; one thread may read while another writes.
#[derive(Debug)]
pub enum Connection {
    /// Over a Unix socket.
    Unix(UnixStream),
    /// Over TCP.
    Tcp(TcpStream),
}

impl Connection {
    /// Connects within a time limit.
    pub fn connect(address: &ServiceAddress, limit: Duration) -> io::Result<Self> {
        match address {
            ServiceAddress::Unix(path) => connect_unix(path, limit).map(Self::Unix),
            ServiceAddress::Tcp(host) => {
                let mut failed = io::Error::other("the name of the host has no address");
                for socket in host.to_socket_addrs()? {
                    match TcpStream::connect_timeout(&socket, limit) {
                        Ok(stream) => return Self::over_tcp(stream),
                        Err(error) => failed = error,
                    }
                }
                Err(failed)
            }
            ServiceAddress::Inherited(_) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a socket that listens; give the address that clients connect to",
            )),
        }
    }

    /// Lines are short and latency matters. A vanished peer is noticed after about 90 seconds.
    fn over_tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        keep_alive(&stream)?;
        Ok(Self::Tcp(stream))
    }

    /// Limits the time that a read may block.
    pub fn set_read_limit(&self, limit: Duration) -> io::Result<()> {
        // A timeout of 0 would mean none.
        let limit = Some(limit.max(Duration::from_millis(1)));
        match self {
            Self::Unix(stream) => stream.set_read_timeout(limit),
            Self::Tcp(stream) => stream.set_read_timeout(limit),
        }
    }

    /// Limits the time that a write may block.
    pub fn set_write_limit(&self, limit: Duration) -> io::Result<()> {
        let limit = Some(limit.max(Duration::from_millis(1)));
        match self {
            Self::Unix(stream) => stream.set_write_timeout(limit),
            Self::Tcp(stream) => stream.set_write_timeout(limit),
        }
    }

    /// Closes one or both directions of the connection.
    pub fn shut(&self, how: Shutdown) {
        // The peer may be gone already.
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(how),
            Self::Tcp(stream) => stream.shutdown(how),
        };
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl Read for &Connection {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Connection::Unix(stream) => (&*stream).read(bytes),
            Connection::Tcp(stream) => (&*stream).read(bytes),
        }
    }
}

impl Write for &Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Connection::Unix(stream) => (&*stream).write(bytes),
            Connection::Tcp(stream) => (&*stream).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A listening socket.
#[derive(Debug)]
pub enum SocketListener {
    /// With its path, and the device and inode of its file.
    Unix(UnixListener, PathBuf, (u64, u64)),
    /// On a TCP port.
    Tcp(TcpListener),
}

impl SocketListener {
    /// Listens. Only this machine, or with a Unix socket only this user, can connect, unless
    /// `allow_remote`.
    pub fn bind(address: &ServiceAddress, allow_remote: bool) -> Result<Self> {
        match address {
            ServiceAddress::Unix(path) => Self::bind_unix(path),
            ServiceAddress::Tcp(host) => {
                Self::bind_tcp(host, allow_remote).map_err(|error| Error::io(address, error))
            }
            ServiceAddress::Inherited(number) => {
                Self::inherit(*number).map_err(|error| Error::io(address, error))
            }
        }
    }

    /// Takes over a socket that listens already. Who may connect was decided by the process that
    /// opened it.
    fn inherit(number: RawFd) -> io::Result<Self> {
        let option = |name| {
            let (mut value, mut length): (libc::c_int, _) = (0, size_of::<libc::c_int>() as _);
            // SAFETY: the pointers are to values of this call, and the length is that of the value.
            let got = unsafe {
                libc::getsockopt(
                    number,
                    libc::SOL_SOCKET,
                    name,
                    (&raw mut value).cast(),
                    &raw mut length,
                )
            };
            if got == 0 {
                Ok(value)
            } else {
                Err(io::Error::last_os_error())
            }
        };
        if option(libc::SO_ACCEPTCONN)? == 0 {
            return Err(io::Error::other("the socket does not listen"));
        }
        let domain = option(libc::SO_DOMAIN)?;
        // SAFETY: the descriptor is open, as it has options; the process got it to listen on, and
        // nothing else here uses it.
        let socket = unsafe {
            libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC);
            OwnedFd::from_raw_fd(number)
        };
        if domain == libc::AF_UNIX {
            let listener = UnixListener::from(socket);
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            let path = address.as_pathname().unwrap_or(Path::new("@")).to_owned();
            // No file has this inode: the socket stays with the process that opened it.
            return Ok(Self::Unix(listener, path, (0, 0)));
        }
        let listener = TcpListener::from(socket);
        listener.set_nonblocking(true)?;
        Ok(Self::Tcp(listener))
    }

    fn bind_tcp(host: &str, allow_remote: bool) -> io::Result<Self> {
        let sockets: Vec<_> = host.to_socket_addrs()?.collect();
        if !allow_remote && sockets.iter().any(|socket| !socket.ip().is_loopback()) {
            return Err(io::Error::other(
                "other machines could connect, and there are no passwords; use 127.0.0.1, or allow remote clients",
            ));
        }
        let listener = TcpListener::bind(&sockets[..])?;
        listener.set_nonblocking(true)?;
        Ok(Self::Tcp(listener))
    }

    /// Creates the socket in a private directory and renames it, so that it appears when it is
    /// usable and belongs to this user only.
    fn bind_unix(path: &Path) -> Result<Self> {
        ensure_free(path)?;
        let failed = |error| Error::io(path.display(), error);
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let private = tempfile::Builder::new()
            .prefix(".s")
            .rand_bytes(4)
            .tempdir_in(parent)
            .map_err(failed)?;
        let beside = private.path().join("s");
        let listener = UnixListener::bind(&beside).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        fs::set_permissions(&beside, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        fs::rename(&beside, path).map_err(failed)?;
        let file = fs::symlink_metadata(path).map_err(failed)?;
        Ok(Self::Unix(
            listener,
            path.to_owned(),
            (file.dev(), file.ino()),
        ))
    }

    /// The address it listens on: the system has replaced port 0.
    pub fn address(&self) -> io::Result<ServiceAddress> {
        match self {
            Self::Unix(_, path, _) => Ok(ServiceAddress::Unix(path.clone())),
            Self::Tcp(listener) => Ok(ServiceAddress::Tcp(listener.local_addr()?.to_string())),
        }
    }

    /// The next connection, non-blocking; an error of the kind `WouldBlock` if there is none.
    pub fn accept(&self) -> io::Result<Connection> {
        match self {
            Self::Unix(listener, ..) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(Connection::Unix(stream))
            }
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Connection::over_tcp(stream)
            }
        }
    }
}

impl AsRawFd for SocketListener {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl AsFd for SocketListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener, ..) => listener.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
        }
    }
}

/// Deletes a Unix socket, unless another process has replaced it.
impl Drop for SocketListener {
    fn drop(&mut self) {
        if let Self::Unix(_, path, own) = self
            && fs::symlink_metadata(&*path).is_ok_and(|file| (file.dev(), file.ino()) == *own)
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// Lets the system probe a silent peer: after 60 seconds, then every 10, three times.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    let mut options = vec![(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)];
    #[cfg(target_os = "linux")]
    options.extend([
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 60),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 10),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3),
    ]);
    for (level, name, value) in options {
        let (value, length): (libc::c_int, _) =
            (value, size_of::<libc::c_int>() as libc::socklen_t);
        // SAFETY: the descriptor is open while the stream is borrowed, and the length is that of
        // the value.
        let set = unsafe {
            libc::setsockopt(
                stream.as_raw_fd(),
                level,
                name,
                (&raw const value).cast(),
                length,
            )
        };
        if set != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Connects within a time limit: a listener that does not accept may have a full backlog.
fn connect_unix(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    let bytes = path.as_os_str().as_bytes();
    // SAFETY: all zeros are a valid address, without a name.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    if bytes.len() >= address.sun_path.len() {
        let what = format!(
            "a path of {} bytes, sockets have less than {}",
            bytes.len(),
            address.sun_path.len()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    address
        .sun_path
        .iter_mut()
        .zip(bytes)
        .for_each(|(to, from)| *to = *from as libc::c_char);
    // SAFETY: calls without pointers; the descriptor is new and owned here.
    let stream = unsafe {
        let descriptor = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC);
        UnixStream::from_raw_fd(descriptor)
    };
    // The write timeout also limits `connect`.
    stream.set_write_timeout(Some(limit.max(Duration::from_millis(1))))?;
    // SAFETY: the length is that of the address.
    let connected = unsafe {
        libc::connect(
            stream.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_un>() as libc::socklen_t,
        )
    };
    if connected != 0 {
        return Err(match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => {
                io::Error::new(io::ErrorKind::TimedOut, "it accepts no connection")
            }
            error => error,
        });
    }
    stream.set_write_timeout(None)?;
    Ok(stream)
}

/// Refuses a socket that a process listens on, and a file that is no socket. The socket of a dead
/// process may be replaced.
fn ensure_free(path: &Path) -> Result<()> {
    let refused = |what: &str| Err(Error::damaged(Place::path(path), what));
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io(path.display(), error)),
        Ok(file) if !file.file_type().is_socket() => {
            return refused("is no socket; choose another name");
        }
        Ok(_) => {}
    }
    match connect_unix(path, LOOK) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) if error.kind() != io::ErrorKind::TimedOut => {
            Err(Error::io(path.display(), error))
        }
        _ => refused("another process listens on it; stop that one, or choose another name"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_back_as_written() {
        for text in [
            "unix:a b",
            "unix:/x:y",
            "tcp:127.0.0.1:0",
            "tcp:[::1]:7000",
            "tcp:localhost:65535",
            "fd:3",
        ] {
            assert_eq!(text.parse::<ServiceAddress>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "unix:",
            "tcp:",
            "tcp:localhost",
            "tcp::7000",
            "tcp:x:65536",
            "udp:x:1",
            "/run/x",
            "127.0.0.1:80",
            "fd:2",
            "fd:x",
        ] {
            assert!(text.parse::<ServiceAddress>().is_err(), "{text}");
        }
    }
}
