//! Programs on another machine, started by a command of this machine: `ssh`, or one with the same
//! arguments.

use super::{
    Address, Canceller, RemoteProgram, Transport,
    quote::quote,
    skip_rest,
    system::{end_group, set_blocking, wait_for},
};
use std::{
    io::{self, Read, Write},
    os::{
        fd::{AsRawFd, RawFd},
        unix::process::CommandExt,
    },
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// `CMD [user@]host [-p port] -- 'program' 'word'…`
pub struct RemoteCommand {
    command: Vec<String>,
}

/// How much of stderr is kept.
const STDERR_BYTES: usize = 4096;
/// How long a program may take to end once its stdin is closed.
const END_LIMIT: Duration = Duration::from_secs(10);

impl RemoteCommand {
    /// `rsh`: the words of the command.
    pub fn new(rsh: &[String], to: &Address) -> Self {
        let host = to
            .user
            .as_ref()
            .map_or_else(|| to.name.clone(), |user| format!("{user}@{}", to.name));
        let port = to.port.map(|port| ["-p".to_owned(), port.to_string()]);
        let words = rsh
            .iter()
            .cloned()
            .chain([host])
            .chain(port.into_iter().flatten())
            .chain(["--".to_owned()]);
        Self {
            command: words.collect(),
        }
    }
}

impl Transport for RemoteCommand {
    fn spawn(&self, words: &[String], limit: Duration) -> io::Result<Box<dyn RemoteProgram>> {
        let line = words
            .iter()
            .map(|word| quote(word))
            .collect::<Vec<_>>()
            .join(" ");
        let (program, arguments) = self
            .command
            .split_first()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the command is empty"))?;
        let mut command = Command::new(program);
        command.args(arguments).arg(line).process_group(0);
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child =
            child.map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::Error::other("a pipe is missing"));
        };
        // A write waits for as long as the limit says.
        set_blocking(stdin.as_raw_fd(), false)?;
        let stderr_end = Arc::new(Mutex::new(Vec::new()));
        let kept = stderr_end.clone();
        thread::Builder::new().spawn(move || keep_end(stderr, &kept))?;
        Ok(Box::new(PipedConnection {
            group: child.id(),
            child,
            stdin: Some(stdin),
            stdout,
            is_blocking: true,
            limit,
            stderr_end,
        }))
    }
}

struct PipedConnection {
    child: Child,
    group: u32,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    is_blocking: bool,
    limit: Duration,
    stderr_end: Arc<Mutex<Vec<u8>>>,
}

fn keep_end(mut stderr: ChildStderr, stderr_end: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 1024];
    while let Ok(length @ 1..) = stderr.read(&mut buffer) {
        let mut stderr_end = stderr_end.lock().unwrap_or_else(PoisonError::into_inner);
        stderr_end.extend_from_slice(&buffer[..length]);
        let excess = stderr_end.len().saturating_sub(STDERR_BYTES);
        stderr_end.drain(..excess);
    }
}

impl Read for PipedConnection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.is_blocking {
            wait_for(self.stdout.as_raw_fd(), false, self.limit)?;
        }
        self.stdout.read(buffer)
    }
}

impl Write for PipedConnection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let stdin = self.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        loop {
            match stdin.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && self.is_blocking => {
                    wait_for(stdin.as_raw_fd(), true, self.limit)?
                }
                done => return done,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl RemoteProgram for PipedConnection {
    fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    fn set_blocking(&mut self, is_blocking: bool) -> io::Result<()> {
        self.is_blocking = is_blocking;
        set_blocking(self.stdout.as_raw_fd(), is_blocking)
    }

    fn awaited(&self, to_write: bool) -> Vec<(RawFd, bool)> {
        let stdin = self.stdin.as_ref().filter(|_| to_write);
        let stdin = stdin.map(|stdin| (stdin.as_raw_fd(), true));
        [(self.stdout.as_raw_fd(), false)]
            .into_iter()
            .chain(stdin)
            .collect()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.stdin = None;
        skip_rest(self)?;
        let begin = Instant::now();
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(io::Error::other(format!("ended with {status}"))),
                None if begin.elapsed() > END_LIMIT => return Err(io::ErrorKind::TimedOut.into()),
                None => thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn canceller(&self) -> Canceller {
        let group = self.group;
        Arc::new(move || end_group(group))
    }

    fn stderr_tail(&mut self) -> String {
        // The last bytes of stderr may still be under way.
        let begin = Instant::now();
        while self.child.try_wait().is_ok_and(|status| status.is_none())
            && begin.elapsed() < Duration::from_secs(1)
        {
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(20));
        String::from_utf8_lossy(
            &self
                .stderr_end
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
        .trim()
        .to_owned()
    }
}

impl Drop for PipedConnection {
    fn drop(&mut self) {
        self.stdin = None;
        // A process that was waited for has no group any more, and its number may be reused.
        if matches!(self.child.try_wait(), Ok(None)) {
            end_group(self.group);
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spawn(script: &str, limit: Duration) -> Box<dyn RemoteProgram> {
        let rsh = ["sh", "-c", "eval \"$5\"", "sh"].map(str::to_owned);
        let to = Address {
            name: "far".to_owned(),
            user: Some("me".to_owned()),
            port: Some(22),
        };
        RemoteCommand::new(&rsh, &to)
            .spawn(
                &["sh".to_owned(), "-c".to_owned(), script.to_owned()],
                limit,
            )
            .unwrap()
    }

    #[test]
    fn bytes_are_sent_and_received() {
        let mut connection = spawn("cat", Duration::from_secs(20));
        connection.write_all(b"it's $(here)").unwrap();
        let mut back = [0; 12];
        connection.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"it's $(here)");
        connection.finish().unwrap();
    }

    #[test]
    fn silence_failure_and_stderr_are_reported() {
        let mut connection = spawn("sleep 100", Duration::from_millis(50));
        assert_eq!(
            connection.read(&mut [0; 9]).unwrap_err().kind(),
            io::ErrorKind::TimedOut
        );
        assert_eq!(
            connection.write_all(&[0; 1 << 20]).unwrap_err().kind(),
            io::ErrorKind::TimedOut
        );
        connection.canceller()();
        assert!(connection.finish().is_err());
        let mut connection = spawn("echo no such luck >&2; exit 3", Duration::from_secs(20));
        assert_eq!(
            connection.finish().unwrap_err().to_string(),
            "ended with exit status: 3"
        );
        assert_eq!(connection.stderr_tail(), "no such luck");
    }
}
