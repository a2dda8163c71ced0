//! Hosts for tests: sshd processes on addresses of this machine, each with a home of its own; or none at all, behind a command that looks like ssh.

use crate::work::{Ran, Work};
use assert_cmd::cargo::cargo_bin;
use std::{
    fs,
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    thread,
    time::{Duration, Instant},
};

/// In place of ssh: runs the command here, with the home of a host.
const RSH: &str = r#"#!/bin/sh
host=$1; shift; case $1 in -p) shift 2;; esac; case $1 in --) shift;; esac
export HOME=HOMES/$host DEDUP_NODE=$host; unset XDG_CACHE_HOME; mkdir -p "$HOME"; cd "$HOME" || exit 255
test ! -e "$HOME/down" || { echo "$host is down" >&2; exit 255; }
echo "Welcome to $host."
exec sh -c "$*"
"#;

pub struct Hosts {
    pub names: Vec<String>,
    sshd: Vec<Child>,
    root: PathBuf,
    is_ssh: bool,
}

static PORT: AtomicU16 = AtomicU16::new(0);

impl Hosts {
    /// Hosts behind a command: fast, and just as far away.
    pub fn behind_rsh(work: &Work, count: usize) -> Self {
        let root = work.path("hosts.d");
        fs::create_dir_all(&root).unwrap();
        let rsh = root.join("rsh");
        fs::write(&rsh, RSH.replace("HOMES", root.to_str().unwrap())).unwrap();
        fs::set_permissions(&rsh, fs::Permissions::from_mode(0o700)).unwrap();
        let names = (1..=count).map(|number| format!("node{number}")).collect();
        let hosts = Self { names, sshd: Vec::new(), root, is_ssh: false };
        hosts.names.iter().for_each(|name| fs::create_dir_all(hosts.home(name)).unwrap());
        hosts
    }

    /// Hosts that run sshd.
    pub fn with_sshd(work: &Work, count: usize) -> Self {
        let root = work.path("hosts.d");
        fs::create_dir_all(&root).unwrap();
        // As root, sshd wants a directory that systemd would make.
        let _ = fs::create_dir_all("/run/sshd");
        keygen(&root.join("id"), "ed25519");
        let process = std::process::id();
        let port = 20_000 + PORT.fetch_add(1, Ordering::Relaxed);
        let address = |number: usize| format!("127.{}.{}.{number}", 64 + process / 256 % 64, process % 256);
        let names: Vec<String> = (1..=count).map(|number| format!("{}:{port}", address(number))).collect();
        let mut hosts = Self { names: names.clone(), sshd: Vec::new(), root, is_ssh: true };
        let mut known = String::new();
        for (name, number) in names.iter().zip(1..) {
            let home = hosts.home(name);
            fs::create_dir_all(&home).unwrap();
            let directory = hosts.root.join(format!("sshd{number}"));
            fs::create_dir_all(&directory).unwrap();
            // Two keys: the one that is not known must not be asked for.
            keygen(&directory.join("ecdsa"), "ecdsa");
            keygen(&directory.join("ed25519"), "ed25519");
            let public = fs::read_to_string(directory.join("ed25519.pub")).unwrap();
            known += &format!("[{}]:{port} {}\n", address(number), public.trim());
            let config = [
                format!("ListenAddress {}:{port}", address(number)),
                format!("HostKey {0}/ecdsa\nHostKey {0}/ed25519", directory.display()),
                format!("AuthorizedKeysFile {}/id.pub", hosts.root.display()),
                "PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nUseDNS no".to_owned(),
                format!("SetEnv HOME={} DEDUP_NODE={name}", home.display()),
            ];
            fs::write(directory.join("config"), config.join("\n") + "\n").unwrap();
            let log = fs::File::create(directory.join("log")).unwrap();
            let mut command = Command::new("/usr/sbin/sshd");
            command.args(["-D", "-e", "-f"]).arg(directory.join("config")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
            hosts.sshd.push(command.spawn().unwrap());
            let begin = Instant::now();
            while TcpStream::connect(name).is_err() {
                assert!(begin.elapsed() < Duration::from_secs(20), "{}", fs::read_to_string(directory.join("log")).unwrap());
                thread::sleep(Duration::from_millis(20));
            }
        }
        fs::write(hosts.root.join("known_hosts"), known).unwrap();
        let config = format!(
            "IdentityFile {0}/id\nIdentitiesOnly yes\nUserKnownHostsFile {0}/known_hosts\nGlobalKnownHostsFile /dev/null\nBatchMode yes\n",
            hosts.root.display()
        );
        fs::write(hosts.root.join("ssh_config"), config).unwrap();
        hosts
    }

    /// Where a host keeps its files.
    pub fn home(&self, name: &str) -> PathBuf {
        self.root.join(name.replace(':', "_"))
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The list of hosts, each with these words.
    pub fn list(&self, words: &str) -> String {
        self.names.iter().map(|name| format!("{name} {words}\n")).collect()
    }

    /// How run reaches them.
    pub fn flags(&self) -> String {
        let (root, program) = (self.root.display(), cargo_bin("dedup-shard"));
        let program = program.display();
        if self.is_ssh {
            format!(
                "--engine ssh --identity {root}/id --known-hosts {root}/known_hosts --program {program} --peer-rsh 'ssh -F {root}/ssh_config'"
            )
        } else {
            format!("--engine ssh --rsh {root}/rsh --program {program} --peer-rsh none")
        }
    }

    pub fn run(&self, work: &Work, more: &str) -> Ran {
        work.shell(&format!("dedup-shard run r {} {more}", self.flags()))
    }

    /// The worker on hosts is one that lets the real one down: see faulty.py. `fault`: what happens on a host, once.
    pub fn set_fault(&self, name: &str, fault: &str) {
        fs::write(self.home(name).join("fault"), fault).unwrap();
    }

    /// All files of a run on a host, below its directory.
    pub fn run_directory(&self, name: &str) -> Option<PathBuf> {
        let entries = fs::read_dir(self.home(name).join(".cache/dedup-shard")).ok()?;
        entries.flatten().map(|entry| entry.path()).find(|path| path.join("plan.json").exists())
    }

    /// Processes of workers and tasks that are still there: none after a second.
    pub fn orphans(&self) -> Vec<String> {
        let begin = Instant::now();
        loop {
            let left = processes(&self.root);
            if left.is_empty() || begin.elapsed() > Duration::from_secs(5) {
                return left;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The command lines of workers and tasks whose home is below a directory.
fn processes(root: &Path) -> Vec<String> {
    let mark = format!("HOME={}", root.display());
    let line = |process: PathBuf| {
        let environment = fs::read(process.join("environ")).ok()?;
        let is_ours = String::from_utf8_lossy(&environment).split('\0').any(|word| word.starts_with(&mark));
        let line = String::from_utf8_lossy(&fs::read(process.join("cmdline")).ok()?).replace('\0', " ");
        (is_ours && line.contains("dedup-shard")).then_some(line)
    };
    fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| line(entry.path())).collect()
}

fn keygen(path: &Path, kind: &str) {
    let made = Command::new("ssh-keygen").args(["-q", "-N", "", "-t", kind, "-f"]).arg(path).status().unwrap();
    assert!(made.success());
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for child in &mut self.sshd {
            // Sessions first: they outlive the one that listens.
            let parent = child.id().to_string();
            let _ = Command::new("pkill").args(["-KILL", "-P", &parent]).status();
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
