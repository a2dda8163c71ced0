//! SSH without a program for it: the crate ssh2.
//!
//! Each wire has a session of its own, with plain blocking calls. Keys must be known: one that is not, or is another, is refused. A host that is cut off is noticed by the kernel
//! (TCP_USER_TIMEOUT), one that is frozen by the limit of the wire.

use super::{
    Address, Cutter, Transport, Wire,
    known_hosts::{Known, KnownHosts, from_base64, to_base64},
    quote::quote,
    ssh_config::HostSettings,
    system::{end_group, set_tcp_limits},
};
use ssh2::{Channel, HashType, HostKeyType, MethodType, Session};
use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, TcpStream, ToSocketAddrs},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, OnceLock},
    time::Duration,
};

/// What was said on the command line, and goes before a person's settings.
#[derive(Debug, Clone)]
pub struct SshOptions {
    pub identity: Option<PathBuf>,
    pub known_hosts: Option<PathBuf>,
    pub connect_timeout: Duration,
    /// After how long without an answer to its packets the kernel gives a host up.
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

    fn connect(&self) -> io::Result<Line> {
        let settings = self.settings();
        if let Some(words) = &settings.proxy {
            return Line::through(words);
        }
        let mut last = io::Error::new(ErrorKind::NotFound, "has no address");
        for address in (settings.host.as_str(), settings.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, self.options.connect_timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    set_tcp_limits(stream.as_raw_fd(), self.options.stall)?;
                    return Ok(Line::Tcp(stream));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn session(&self, line: &Line, limit: Duration) -> io::Result<Session> {
        let settings = self.settings();
        let known = KnownHosts::read(&settings.known_hosts)?;
        let mut session = Session::new()?;
        session.set_timeout(milliseconds(limit));
        line.hand_to(&mut session)?;
        // The type that is known is asked for: another one would look like a key that has changed.
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
            // What a server does that has too many guests: it hangs up.
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
            Known::Yes => Ok(()),
            Known::No => Err(refused(format!(
                "the host is not known: {shown}; if that is right, add it to {}",
                files.join(" or ")
            ))),
            Known::Changed => Err(refused(format!(
                "the key of the host is not the one that is known: {shown}; somebody may be in between"
            ))),
            Known::Revoked => Err(refused(format!("the key of the host is revoked: {shown}"))),
        }
    }

    /// By each key of the agent; those whose files were named first, since a server does not take many attempts.
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

    /// By agent and key files; by the file first, if one was named.
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
    fn spawn(&self, words: &[String], limit: Duration) -> io::Result<Box<dyn Wire>> {
        let line = self.connect()?;
        let cutter = line.cutter()?;
        let session = self.session(&line, limit).inspect_err(|_| cutter())?;
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
        let channel = open().inspect_err(|_| cutter())?;
        Ok(Box::new(Carried {
            channel,
            session,
            cutter,
            line,
        }))
    }
}

/// What an agent calls the keys of a file, if the public ones stand beside it: the key, and its certificate.
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

/// What a session goes over.
enum Line {
    Tcp(TcpStream),
    Proxy(UnixStream, Child),
}

impl Line {
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

    fn cutter(&self) -> io::Result<Cutter> {
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

impl Drop for Line {
    fn drop(&mut self) {
        if let Self::Proxy(_, child) = self
            && matches!(child.try_wait(), Ok(None))
        {
            end_group(child.id());
            let _ = child.wait();
        }
    }
}

struct Carried {
    channel: Channel,
    session: Session,
    cutter: Cutter,
    #[expect(dead_code, reason = "it ends what it goes through when it is dropped")]
    line: Line,
}

fn silence(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::TimedOut {
        io::Error::new(ErrorKind::TimedOut, "no sign of life for too long")
    } else {
        error
    }
}

impl Read for Carried {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.channel.read(buffer).map_err(silence)
    }
}

impl Write for Carried {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.channel.write(bytes).map_err(silence)
    }

    /// Nothing is held back; what libssh2 calls flushing throws away what was received.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Wire for Carried {
    fn set_limit(&mut self, limit: Duration) {
        self.session.set_timeout(milliseconds(limit));
    }

    /// A status of 0 alone says nothing: it is also what one reads when none came.
    fn finish(&mut self) -> io::Result<()> {
        self.channel.send_eof()?;
        let mut rest = [0];
        if self.channel.read(&mut rest)? != 0 {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                "more came than was asked for",
            ));
        }
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

    fn cutter(&self) -> Cutter {
        self.cutter.clone()
    }

    fn said(&mut self) -> String {
        self.session.set_timeout(1000);
        let (mut said, mut stderr) = (Vec::new(), self.channel.stderr().take(4096));
        let _ = stderr.read_to_end(&mut said);
        String::from_utf8_lossy(&said).trim().to_owned()
    }
}

impl Drop for Carried {
    /// A channel that is dropped waits for the end of the command: not without a connection.
    fn drop(&mut self) {
        (self.cutter)();
    }
}
