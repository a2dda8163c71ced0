//! Adapters: programs that turn a file into text.
//!
//! The bytes of the file go to the program's standard input, or into a temporary file where the command says `{}`; its
//! standard output is the text. A program runs without a shell, in a process group of its own, with a limit on its
//! time and its memory; when it fails, its file is left out and the run goes on.

use super::document::ExtractError;
use crate::base::num::ToU64;
use globset::{Glob, GlobMatcher};
use serde::{Deserialize, Serialize};
use std::{
    env,
    io::{self, Read, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// Files whose names match a pattern go through a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdapterRule {
    /// A glob that is compared with the name of a file, without directories.
    pub pattern: String,
    /// A program and its arguments, in words as a shell splits them.
    pub command: String,
}

impl AdapterRule {
    /// Reads `GLOB=COMMAND`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (pattern, command) = text
            .split_once('=')
            .ok_or_else(|| format!("'{text}' is not of the form GLOB=COMMAND"))?;
        let rule = Self {
            pattern: pattern.to_owned(),
            command: command.to_owned(),
        };
        Adapter::new(&rule, AdapterLimits::default())?;
        Ok(rule)
    }
}

/// What an adapter may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdapterLimits {
    /// Seconds of time.
    pub seconds: u64,
    /// Bytes of address space.
    pub memory_bytes: u64,
}

impl Default for AdapterLimits {
    fn default() -> Self {
        Self {
            seconds: 120,
            memory_bytes: 4 << 30,
        }
    }
}

/// A program that turns a file into text.
#[derive(Debug, Clone)]
pub(super) struct Adapter {
    matcher: Option<GlobMatcher>,
    words: Vec<String>,
    limits: AdapterLimits,
}

/// Where the words of a command name the file.
const FILE: &str = "{}";
/// How much of what a program says about its failure is kept.
const MESSAGE_BYTES: u64 = 4096;
/// How often a program that runs is looked at.
const POLL: Duration = Duration::from_millis(5);

impl Adapter {
    /// An adapter for files whose names match.
    pub fn new(rule: &AdapterRule, limits: AdapterLimits) -> Result<Self, String> {
        let glob = Glob::new(&rule.pattern).map_err(|error| error.to_string())?;
        let words = shlex::split(&rule.command)
            .ok_or_else(|| format!("'{}': a quote is not closed", rule.command))?;
        if words.is_empty() {
            return Err(format!("no command for '{}'", rule.pattern));
        }
        Ok(Self {
            matcher: Some(glob.compile_matcher()),
            words,
            limits,
        })
    }

    /// An adapter of ours, if the program is installed.
    pub fn built_in(words: &[&str], limits: AdapterLimits) -> Option<Self> {
        find_program(words[0])?;
        Some(Self {
            matcher: None,
            words: words.iter().map(|&word| word.to_owned()).collect(),
            limits,
        })
    }

    /// Whether a user wants the file to go through it.
    pub fn matches(&self, name: &Path) -> bool {
        self.matcher
            .as_ref()
            .is_some_and(|matcher| matcher.is_match(name))
    }

    /// The program that it runs.
    pub fn program(&self) -> &str {
        &self.words[0]
    }

    /// What changes when the text may change: the command, and the program that runs.
    pub fn identity(&self) -> String {
        let program = find_program(&self.words[0]);
        let stamp = program.and_then(|path| {
            let metadata = path.metadata().ok()?;
            let modified = metadata
                .modified()
                .ok()?
                .duration_since(std::time::UNIX_EPOCH);
            Some((path, metadata.len(), modified.ok()?.as_nanos()))
        });
        format!("{:?} {stamp:?}", self.words)
    }

    /// The text of a file, of at most `most_bytes`.
    pub fn run(&self, bytes: &[u8], name: &Path, most_bytes: u64) -> Result<Vec<u8>, ExtractError> {
        let failed = |error: io::Error| {
            ExtractError::Damaged(format!("{} cannot be run: {error}", self.words[0]))
        };
        let file = self.spool(bytes, name).map_err(failed)?;
        let words = self.words.iter().map(|word| match &file {
            Some(file) => word.replace(FILE, &file.path().display().to_string()),
            None => word.clone(),
        });
        let words: Vec<String> = words.collect();
        let input = if file.is_some() { &[][..] } else { bytes };
        let output = run_limited(&words, input, most_bytes, self.limits).map_err(failed)?;
        output.into_text(&self.words[0], most_bytes, self.limits)
    }

    /// Runs a command that writes files whose names begin with a path.
    pub fn run_into(&self, path: &Path, bytes: &[u8]) -> Result<(), ExtractError> {
        let prefix = path.display().to_string();
        let words: Vec<String> = self
            .words
            .iter()
            .map(|word| word.replace(FILE, &prefix))
            .collect();
        let output = run_limited(&words, bytes, MESSAGE_BYTES, self.limits);
        let output = output.map_err(|error| ExtractError::Damaged(error.to_string()))?;
        output
            .into_text(&self.words[0], MESSAGE_BYTES, self.limits)
            .map(drop)
    }

    /// A temporary file for a command that names its file; it has the ending that programs go by.
    fn spool(&self, bytes: &[u8], name: &Path) -> io::Result<Option<tempfile::NamedTempFile>> {
        if !self.words.iter().any(|word| word.contains(FILE)) {
            return Ok(None);
        }
        let suffix = name
            .extension()
            .map_or_else(String::new, |ending| format!(".{}", ending.display()));
        let mut file = tempfile::Builder::new().suffix(&suffix).tempfile()?;
        file.write_all(bytes)?;
        Ok(Some(file))
    }
}

/// The path of a program that can be run.
pub(super) fn find_program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    let directories = env::var_os("PATH")?;
    env::split_paths(&directories)
        .map(|directory| directory.join(name))
        .find(|path| path.is_file())
}

/// How a program ended.
pub(super) struct ProgramOutput {
    status: Option<ExitStatus>,
    output: Vec<u8>,
    messages: Vec<u8>,
}

impl ProgramOutput {
    fn into_text(
        self,
        program: &str,
        most_bytes: u64,
        limits: AdapterLimits,
    ) -> Result<Vec<u8>, ExtractError> {
        if self.output.len().to_u64() > most_bytes {
            return Err(ExtractError::TooLarge);
        }
        let messages = String::from_utf8_lossy(&self.messages);
        let Some(status) = self.status else {
            let what = format!("{program} was stopped after {} seconds", limits.seconds);
            return Err(ExtractError::Damaged(what));
        };
        if status.success() {
            return Ok(self.output);
        }
        if messages.to_ascii_lowercase().contains("password") {
            return Err(ExtractError::Encrypted);
        }
        let first = messages.lines().find(|line| !line.trim().is_empty());
        let said = first.map_or_else(String::new, |line| format!(": {line}"));
        Err(ExtractError::Damaged(format!(
            "{program} failed with {status}{said}"
        )))
    }
}

/// Runs a program within its limits. Its output is read to one byte more than is allowed.
pub(super) fn run_limited(
    words: &[String],
    input: &[u8],
    most_bytes: u64,
    limits: AdapterLimits,
) -> io::Result<ProgramOutput> {
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .env("OMP_THREAD_LIMIT", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    limit_memory(&mut command, limits.memory_bytes);
    let mut child = command.spawn()?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let deadline = Instant::now() + Duration::from_secs(limits.seconds);
    thread::scope(|scope| {
        scope.spawn(move || {
            // A program need not read all of its input.
            let _ = stdin.map(|mut stdin| stdin.write_all(input));
        });
        let output = read_on_thread(scope, stdout, most_bytes.saturating_add(1));
        let messages = read_on_thread(scope, stderr, MESSAGE_BYTES);
        let status = wait_until(&mut child, deadline);
        // What it started must not hold its pipes open.
        kill_group(&child);
        let status = status?;
        Ok(ProgramOutput {
            status,
            output: output.recv().unwrap_or_default(),
            messages: messages.recv().unwrap_or_default(),
        })
    })
}

/// Reads the beginning of a pipe, and closes it.
fn read_on_thread<'s>(
    scope: &'s thread::Scope<'s, '_>,
    pipe: Option<impl Read + Send + 's>,
    most_bytes: u64,
) -> mpsc::Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    scope.spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            // What came before an error is kept; the status of the program tells of it.
            let _ = pipe.take(most_bytes).read_to_end(&mut bytes);
        }
        let _ = send.send(bytes);
    });
    receive
}

/// Waits for a program, and stops it at the deadline: then there is no status.
fn wait_until(child: &mut Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            kill_group(child);
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(POLL);
    }
}

fn kill_group(child: &Child) {
    if let Ok(group) = i32::try_from(child.id()) {
        // SAFETY: kill takes numbers only; the group is that of a child which was started as its leader.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
}

fn limit_memory(command: &mut Command, bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: bytes,
    };
    // SAFETY: setrlimit is safe to call between fork and exec, and `limit` is a copy that the closure owns.
    unsafe {
        command.pre_exec(move || {
            if libc::setrlimit(libc::RLIMIT_AS, &raw const limit) == 0 {
                Ok(())
            } else {
                Err(io::Error::last_os_error())
            }
        });
    }
}
