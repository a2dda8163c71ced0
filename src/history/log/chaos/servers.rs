//! Three servers, each a process of its own: this test program, which runs [`serve`] only.

use super::{
    super::{LogAddress, LogOptions, ReplicatedHistory, WhenLost, open_log},
    limits,
};
use crate::{
    base::error::Problem,
    history::{Request, StoreOptions, backend::HistoryBackend},
    text::stream::Print,
};
use serde::{Deserialize, Serialize};
use std::{
    env, fs,
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

const DIRECTORY: &str = "DEDUP_CHAOS_HISTORY";
const LOG: &str = "DEDUP_CHAOS_LOG";
/// Answers stand after this, as the test program prints lines of its own.
const MARK: &str = "@";

/// The answer to a document.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Similarities as bits: text would round them.
    pub matches: Vec<(String, u64)>,
    pub is_left_out: bool,
    pub missing: Vec<String>,
}

struct Process {
    child: Child,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
}

pub struct Servers {
    work: PathBuf,
    log: String,
    processes: Vec<Mutex<Option<Process>>>,
    /// Their numbers, so that one that is busy can be signalled.
    pids: Vec<Mutex<Option<libc::pid_t>>>,
}

impl Servers {
    pub fn start_all(work: &Path, log: &LogAddress) -> Self {
        let servers = Self {
            work: work.to_owned(),
            log: log.to_string(),
            processes: (0..3).map(|_| Mutex::default()).collect(),
            pids: (0..3).map(|_| Mutex::default()).collect(),
        };
        (0..3).for_each(|of| servers.start(of));
        servers.wait_until_ready();
        servers
    }

    pub fn directory(&self, of: usize) -> PathBuf {
        self.work.join(format!("h{of}"))
    }

    pub fn start(&self, of: usize) {
        let mut child = Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "history::log::chaos::servers::serve",
                "--ignored",
                "--nocapture",
            ])
            .env(DIRECTORY, self.directory(of))
            .env(LOG, &self.log)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let requests = child.stdin.take().unwrap();
        let replies = BufReader::new(child.stdout.take().unwrap());
        *self.pids[of].lock().unwrap() = Some(child.id() as libc::pid_t);
        let mut process = self.processes[of].lock().unwrap();
        if let Some(mut old) = process.take() {
            let _ = old.child.wait();
        }
        *process = Some(Process {
            child,
            requests,
            replies,
        });
    }

    pub fn signal(&self, of: usize, signal: libc::c_int) {
        if let Some(pid) = *self.pids[of].lock().unwrap() {
            // SAFETY: a call without pointers, of a child that was not waited for.
            unsafe { libc::kill(pid, signal) };
        }
    }

    pub fn kill(&self, of: usize) {
        self.signal(of, libc::SIGKILL);
        *self.pids[of].lock().unwrap() = None;
        let mut process = self.processes[of].lock().unwrap();
        if let Some(mut old) = process.take() {
            let _ = old.child.wait();
        }
    }

    pub fn lose_disk(&self, of: usize) {
        let _ = fs::remove_dir_all(self.directory(of));
    }

    /// The answers of a server; `None` if it is dead, or dies meanwhile.
    pub fn ask(&self, of: usize, documents: &[(String, Print, bool)]) -> Option<Vec<Reply>> {
        let documents: Vec<(&str, String, bool)> = documents
            .iter()
            .map(|(id, print, add)| (id.as_str(), print.to_string(), *add))
            .collect();
        let mut process = self.processes[of].lock().unwrap();
        let process = process.as_mut()?;
        writeln!(
            process.requests,
            "{}",
            serde_json::to_string(&documents).unwrap()
        )
        .ok()?;
        process.requests.flush().ok()?;
        let mut line = String::new();
        loop {
            line.clear();
            if process.replies.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some((_, replies)) = line.split_once(MARK) {
                return serde_json::from_str(replies).ok();
            }
        }
    }

    /// Waits until all servers answer, and name nothing as missing.
    pub fn wait_until_ready(&self) {
        let deadline = Instant::now() + Duration::from_secs(180);
        for of in 0..3 {
            let ask = || self.ask(of, &[("?".to_owned(), Print([1; 4]), false)]);
            while ask().is_none_or(|replies| !replies[0].missing.is_empty()) {
                self.revive(of);
                assert!(Instant::now() < deadline, "server {of} does not get ready");
                thread::sleep(Duration::from_millis(50));
            }
        }
    }

    /// A server that ended by itself has applied an entry that the log lost, and starts afresh.
    pub fn revive(&self, of: usize) {
        let mut process = self.processes[of].lock().unwrap();
        let has_ended = |process: &mut Process| process.child.try_wait().unwrap().is_some();
        if process.as_mut().is_some_and(has_ended) {
            drop(process);
            eprintln!("server {of} refused to go on: it starts afresh");
            self.lose_disk(of);
            self.start(of);
        }
    }

    /// Ends all servers in peace.
    pub fn stop_all(&self) {
        for process in &self.processes {
            if let Some(mut process) = process.lock().unwrap().take() {
                drop(process.requests);
                assert!(process.child.wait().unwrap().success());
            }
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for process in &self.processes {
            if let Some(mut process) = process.lock().ok().and_then(|mut process| process.take()) {
                let _ = process.child.kill();
                let _ = process.child.wait();
            }
        }
    }
}

pub fn signal(child: &Child, signal: libc::c_int) {
    // SAFETY: a call without pointers, of a child that was not waited for.
    unsafe { libc::kill(child.id() as libc::pid_t, signal) };
}

/// A server: answers the lines of stdin on stdout.
#[test]
#[ignore = "it is a process of the other tests here"]
fn serve() {
    let (Some(directory), Ok(log)) = (env::var_os(DIRECTORY), env::var(LOG)) else {
        return;
    };
    let address: LogAddress = log.parse().unwrap();
    let options = LogOptions {
        name: log,
        when_lost: WhenLost::Say,
        patience: Duration::from_secs(2),
        cut_after: Duration::from_secs(30),
        begins: false,
    };
    let store = StoreOptions {
        memtable_entries: 3000,
        ..StoreOptions::default()
    };
    let tell: Arc<dyn Fn(&Problem) + Send + Sync> = Arc::new(|problem| eprintln!("{problem}"));
    let mut history = Box::new(
        ReplicatedHistory::open(
            Path::new(&directory),
            store,
            options,
            limits(),
            tell,
            |events| open_log(&address, 3, events),
        )
        .unwrap(),
    );
    for line in io::stdin().lock().lines() {
        let documents: Vec<(String, String, bool)> = serde_json::from_str(&line.unwrap()).unwrap();
        let requests: Vec<Request<'_>> = documents
            .iter()
            .map(|(id, print, add)| Request {
                id,
                print: Some(print.parse().unwrap()),
                add: *add,
            })
            .collect();
        let replies: Vec<Reply> = history
            .ask(&requests)
            .unwrap()
            .into_iter()
            .map(|reply| Reply {
                matches: reply
                    .matches
                    .into_iter()
                    .map(|found| (found.id, found.similarity.to_bits()))
                    .collect(),
                is_left_out: reply.is_left_out,
                missing: reply.missing.iter().map(|name| name.to_string()).collect(),
            })
            .collect();
        println!("{MARK}{}", serde_json::to_string(&replies).unwrap());
        io::stdout().flush().unwrap();
    }
    history.close().unwrap();
}
