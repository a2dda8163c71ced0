//! SSH by the crate ssh2, without an ssh program.
//!
//! Each connection has a session of its own, with blocking calls. A host key that is unknown or has
//! changed is refused. The kernel notices a host that is cut off (TCP_USER_TIMEOUT); a host that
//! hangs exceeds the limit of the connection.

use super::{
    Address, Canceller, RemoteProgram, Transport,
    known_hosts::{HostKeyStatus, KnownHosts, from_base64, to_base64},
    quote::quote,
    skip_rest,
    ssh_config::HostSettings,
    system::{end_group, set_tcp_limits},
};
use ssh2::{BlockDirections, Channel, HashType, HostKeyType, MethodType, Session};
use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, TcpStream, ToSocketAddrs},
    os::{
        fd::{AsRawFd, OwnedFd, RawFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, OnceLock},
    time::Duration,
};

/// Options that override the user's OpenSSH configuration.
#[derive(Debug, Clone)]
pub struct SshOptions {
    /// The private key.
    pub identity: Option<PathBuf>,
    /// The file of known host keys.
    pub known_hosts: Option<PathBuf>,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long the kernel waits for acknowledgement of packets before the connection fails.
    pub stall: Duration,
}

/// A host over SSH.
pub struct Ssh {
    to: Address,
    options: SshOptions,
    settings: OnceLock<HostSettings>,
}

fn refused(what: String) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, what)
}

impl Ssh {
    /// A host that is not connected yet.
    pub fn new(to: Address, options: SshOptions) -> Self {
        Self {
            to,
            options,
            settings: OnceLock::new(),
        }
    }

    fn settings(&self) -> &HostSettings {
        self.settings.get_or_init(|| {
            let mut settings = HostSettings::of(&self.to);
            if let Some(identity) = &self.options.identity {
                settings.identities = vec![identity.clone()];
            }
            if let Some(known) = &self.options.known_hosts {
                settings.known_hosts = vec![known.clone()];
            }
            settings
        })
    }

    fn connect(&self) -> io::Result<Socket> {
        let settings = self.settings();
        if let Some(words) = &settings.proxy {
            return Socket::through(words);
        }
        let mut last = io::Error::new(ErrorKind::NotFound, "has no address");
        for address in (settings.host.as_str(), settings.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, self.options.connect_timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    set_tcp_limits(stream.as_raw_fd(), self.options.stall)?;
                    return Ok(Socket::Tcp(stream));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn session(&self, line: &Socket, limit: Duration) -> io::Result<Session> {
        let settings = self.settings();
        let known = KnownHosts::read(&settings.known_hosts)?;
        let mut session = Session::new()?;
        session.set_timeout(milliseconds(limit));
        line.hand_to(&mut session)?;
        // Prefer the key types that are known: another type would look like a changed key.
        let types = known.types(&settings.key_name, settings.port);
        if !types.is_empty() {
            let names = types.iter().map(|&kind| {
                if kind == "ssh-rsa" {
                    "rsa-sha2-512,rsa-sha2-256,ssh-rsa"
                } else {
                    kind
                }
            });
            session.method_pref(MethodType::HostKey, &names.collect::<Vec<_>>().join(","))?;
        }
        session.handshake().map_err(|error| {
            // A server with too many connections closes new ones.
            let kind = if matches!(error.code(), ssh2::ErrorCode::Session(-43 | -13 | -2 | -7)) {
                ErrorKind::ConnectionReset
            } else {
                ErrorKind::Other
            };
            io::Error::new(kind, format!("the handshake failed: {error}"))
        })?;
        self.ensure_known(&session, &known)?;
        self.authenticate(&session)?;
        Ok(session)
    }

    fn ensure_known(&self, session: &Session, known: &KnownHosts) -> io::Result<()> {
        let settings = self.settings();
        let (key, kind) = session
            .host_key()
            .ok_or_else(|| io::Error::other("the host showed no key"))?;
        let print = session
            .host_key_hash(HashType::Sha256)
            .map(to_base64)
            .unwrap_or_default();
        let shown = format!("its {} key is SHA256:{print}", type_name(kind));
        let files: Vec<String> = settings
            .known_hosts
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        match known.check(&settings.key_name, settings.port, key) {
            HostKeyStatus::Known => Ok(()),
            HostKeyStatus::Unknown => Err(refused(format!(
                "the host is not known: {shown}; if that is right, add it to {}",
                files.join(" or ")
            ))),
            HostKeyStatus::Changed => Err(refused(format!(
                "the key of the host is not the known one: {shown}; somebody may intercept the connection"
            ))),
            HostKeyStatus::Revoked => {
                Err(refused(format!("the key of the host is revoked: {shown}")))
            }
        }
    }

    /// Tries each key of the agent; first those whose files were named, since servers limit the
    /// attempts.
    fn by_agent(&self, session: &Session) -> Result<bool, ssh2::Error> {
        let settings = self.settings();
        let named: Vec<Vec<u8>> = settings
            .identities
            .iter()
            .flat_map(|path| public_keys(path))
            .collect();
        let mut agent = session.agent()?;
        agent.connect()?;
        agent.list_identities()?;
        let (first, others): (Vec<_>, Vec<_>) = agent
            .identities()?
            .into_iter()
            .partition(|key| named.iter().any(|own| own == key.blob()));
        let others = others.into_iter().filter(|_| !settings.is_only_identities);
        let mut keys = first.into_iter().chain(others);
        Ok(keys.any(|key| agent.userauth(&settings.user, &key).is_ok() && session.authenticated()))
    }

    /// Authenticates with the agent and key files; a named file first.
    fn authenticate(&self, session: &Session) -> io::Result<()> {
        let settings = self.settings();
        let by_agent = || self.by_agent(session).is_ok_and(|is_in| is_in);
        let by_file = |key: &PathBuf| {
            let mut name = key.clone().into_os_string();
            name.push("-cert.pub");
            let certificate = PathBuf::from(name);
            let certificate = certificate.exists().then_some(certificate.as_path());
            session
                .userauth_pubkey_file(&settings.user, certificate, key, None)
                .is_ok()
                && session.authenticated()
        };
        let files: Vec<&PathBuf> = settings
            .identities
            .iter()
            .filter(|path| path.exists())
            .collect();
        let is_in = match self.options.identity {
            Some(_) => files.iter().any(|key| by_file(key)) || by_agent(),
            None => by_agent() || files.iter().any(|key| by_file(key)),
        };
        if is_in {
            return Ok(());
        }
        let tried: Vec<String> = files
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let tried = if tried.is_empty() {
            "no key file".to_owned()
        } else {
            tried.join(", ")
        };
        Err(refused(format!(
            "{} was not let in (tried the agent and {tried}; a key with a passphrase must be in the agent)",
            settings.user
        )))
    }
}

impl Transport for Ssh {
    fn spawn(&self, words: &[String], limit: Duration) -> io::Result<Box<dyn RemoteProgram>> {
        let line = self.connect()?;
        let canceller = line.canceller()?;
        let session = self.session(&line, limit).inspect_err(|_| canceller())?;
        let command = words
            .iter()
            .map(|word| quote(word))
            .collect::<Vec<_>>()
            .join(" ");
        let open = || {
            let mut channel = session.channel_session()?;
            channel.exec(&command)?;
            Ok::<_, ssh2::Error>(channel)
        };
        let channel = open().inspect_err(|_| canceller())?;
        Ok(Box::new(SshConnection {
            channel,
            session,
            canceller,
            line,
        }))
    }
}

/// The public key of a file and its certificate, if they are beside it: an agent lists keys by
/// these.
fn public_keys(path: &Path) -> Vec<Vec<u8>> {
    let of = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        let text = std::fs::read_to_string(name).ok()?;
        from_base64(text.split_whitespace().nth(1)?)
    };
    ["-cert.pub", ".pub"].into_iter().filter_map(of).collect()
}

fn milliseconds(limit: Duration) -> u32 {
    u32::try_from(limit.as_millis()).unwrap_or(u32::MAX).max(1)
}

fn type_name(kind: HostKeyType) -> &'static str {
    match kind {
        HostKeyType::Rsa => "RSA",
        HostKeyType::Ed25519 => "ED25519",
        HostKeyType::Ecdsa256 | HostKeyType::Ecdsa384 | HostKeyType::Ecdsa521 => "ECDSA",
        _ => "host",
    }
}

/// The socket or process that carries a session.
enum Socket {
    Tcp(TcpStream),
    Proxy(UnixStream, Child),
}

impl Socket {
    fn through(words: &[String]) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let (program, arguments) = words.split_first().ok_or(ErrorKind::InvalidInput)?;
        let input: OwnedFd = theirs.try_clone()?.into();
        let output: OwnedFd = theirs.into();
        let mut command = Command::new(program);
        command
            .args(arguments)
            .process_group(0)
            .stdin(Stdio::from(input))
            .stdout(Stdio::from(output))
            .stderr(Stdio::null());
        Ok(Self::Proxy(ours, command.spawn()?))
    }

    fn hand_to(&self, session: &mut Session) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => session.set_tcp_stream(stream.try_clone()?),
            Self::Proxy(stream, _) => session.set_tcp_stream(stream.try_clone()?),
        }
        Ok(())
    }

    fn descriptor(&self) -> RawFd {
        match self {
            Self::Tcp(stream) => stream.as_raw_fd(),
            Self::Proxy(stream, _) => stream.as_raw_fd(),
        }
    }

    fn canceller(&self) -> io::Result<Canceller> {
        Ok(match self {
            Self::Tcp(stream) => {
                let stream = stream.try_clone()?;
                Arc::new(move || drop(stream.shutdown(Shutdown::Both)))
            }
            Self::Proxy(stream, _) => {
                let stream = stream.try_clone()?;
                Arc::new(move || drop(stream.shutdown(Shutdown::Both)))
            }
        })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Self::Proxy(_, child) = self
            && matches!(child.try_wait(), Ok(None))
        {
            end_group(child.id());
            let _ = child.wait();
        }
    }
}

struct SshConnection {
    channel: Channel,
    session: Session,
    canceller: Canceller,
    /// Ends what it goes through when it is dropped.
    line: Socket,
}

fn silence(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::TimedOut {
        io::Error::new(ErrorKind::TimedOut, "no sign of life for too long")
    } else {
        error
    }
}

impl Read for SshConnection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.channel.read(buffer).map_err(silence)
    }
}

impl Write for SshConnection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.channel.write(bytes).map_err(silence)
    }

    /// Nothing is buffered; flushing in libssh2 would discard received data.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl RemoteProgram for SshConnection {
    fn set_limit(&mut self, limit: Duration) {
        self.session.set_timeout(milliseconds(limit));
    }

    fn set_blocking(&mut self, is_blocking: bool) -> io::Result<()> {
        self.session.set_blocking(is_blocking);
        Ok(())
    }

    /// A write may also wait for what the other end sends: room in its window.
    fn awaited(&self, to_write: bool) -> Vec<(RawFd, bool)> {
        let socket = self.line.descriptor();
        let is_full = matches!(
            self.session.block_directions(),
            BlockDirections::Outbound | BlockDirections::Both
        );
        let writable = (to_write && is_full).then_some((socket, true));
        [(socket, false)].into_iter().chain(writable).collect()
    }

    /// A status of 0 proves nothing by itself: libssh2 also returns it when none was received.
    fn finish(&mut self) -> io::Result<()> {
        self.channel.send_eof()?;
        skip_rest(self)?;
        self.channel.wait_eof()?;
        self.channel.close()?;
        self.channel.wait_close()?;
        if let Some(signal) = self.channel.exit_signal()?.exit_signal {
            return Err(io::Error::other(format!("ended by signal {signal}")));
        }
        match self.channel.exit_status()? {
            0 => Ok(()),
            status => Err(io::Error::other(format!(
                "ended with exit status: {status}"
            ))),
        }
    }

    fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    fn stderr_tail(&mut self) -> String {
        self.session.set_timeout(1000);
        let (mut bytes, mut stderr) = (Vec::new(), self.channel.stderr().take(4096));
        let _ = stderr.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }
}

impl Drop for SshConnection {
    /// Dropping a channel waits for the command to end, which never happens without a connection.
    fn drop(&mut self) {
        (self.canceller)();
    }
}
