//! Helper: hosts for tests, either sshd processes on addresses of this machine, each with its own
//! home, or a command in place of ssh.

use crate::test_dir::{RunResult, TestDir, root};
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

/// Takes the place of ssh: runs the command here, with the home directory of a host.
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
    /// The path of dedup-shard on the hosts.
    program: PathBuf,
    /// The prefix of the network namespaces, if the hosts have their own.
    tag: Option<String>,
    /// All hosts have the same home, as with NFS.
    shares_home: bool,
}

static PORT: AtomicU16 = AtomicU16::new(0);

impl Hosts {
    /// Hosts that are reached by a command instead of ssh: fast, and with the same protocol.
    pub fn behind_rsh(dir: &TestDir, count: usize) -> Self {
        Self::behind_rsh_with(dir, count, false)
    }

    /// The same with one home for all.
    pub fn behind_rsh_with_one_home(dir: &TestDir, count: usize) -> Self {
        let hosts = Self::behind_rsh_with(dir, count, true);
        let rsh = fs::read_to_string(hosts.file("rsh")).unwrap();
        fs::write(
            hosts.file("rsh"),
            rsh.replace("/$host DEDUP", "/home DEDUP"),
        )
        .unwrap();
        hosts
    }

    fn behind_rsh_with(dir: &TestDir, count: usize, shares_home: bool) -> Self {
        let root = dir.path("hosts.d");
        fs::create_dir_all(&root).unwrap();
        let rsh = root.join("rsh");
        fs::write(&rsh, RSH.replace("HOMES", root.to_str().unwrap())).unwrap();
        fs::set_permissions(&rsh, fs::Permissions::from_mode(0o700)).unwrap();
        let names = (1..=count).map(|number| format!("node{number}")).collect();
        let hosts = Self {
            names,
            sshd: Vec::new(),
            root,
            is_ssh: false,
            program: cargo_bin("dedup-shard"),
            tag: None,
            shares_home,
        };
        hosts
            .names
            .iter()
            .for_each(|name| fs::create_dir_all(hosts.home(name)).unwrap());
        hosts
    }

    /// Hosts that run sshd.
    pub fn with_sshd(dir: &TestDir, count: usize) -> Self {
        Self::start(dir, Self::loopback_addresses(count), None, false)
    }

    /// The same with one home for all.
    pub fn with_sshd_and_one_home(dir: &TestDir, count: usize) -> Self {
        Self::start(dir, Self::loopback_addresses(count), None, true)
    }

    fn loopback_addresses(count: usize) -> Vec<String> {
        let process = std::process::id();
        (1..=count)
            .map(|number| format!("127.{}.{}.{number}", 64 + process / 256 % 64, process % 256))
            .collect()
    }

    /// Hosts with their own network, processes and home, invisible to other processes. Needs root.
    pub fn in_namespaces(dir: &TestDir, count: usize) -> Self {
        let process = std::process::id();
        let (tag, net) = (
            format!("dd{:04x}", process % 65536),
            format!("198.18.{}", process % 256),
        );
        dir.shell(&format!("ip link add {tag}br type bridge && ip addr add {net}.254/24 dev {tag}br && ip link set {tag}br up")).ok();
        for number in 1..=count {
            let (space, link) = (format!("{tag}-{number}"), format!("{tag}v{number}"));
            dir.shell(&format!(
                "ip netns add {space} && ip link add {link} type veth peer name eth0 netns {space} && ip link set {link} master {tag}br up &&
                 ip -n {space} link set lo up && ip -n {space} addr add {net}.{number}/24 dev eth0 && ip -n {space} link set eth0 up"
            ))
            .ok();
        }
        Self::start(
            dir,
            (1..=count)
                .map(|number| format!("{net}.{number}"))
                .collect(),
            Some(tag),
            false,
        )
    }

    /// Disconnects a host from the network.
    pub fn cut_off(&self, number: usize) {
        let link = format!("{}v{number}", self.tag.as_deref().unwrap());
        assert!(
            Command::new("ip")
                .args(["link", "set", &link, "down"])
                .status()
                .unwrap()
                .success()
        );
    }

    fn start(
        dir: &TestDir,
        addresses: Vec<String>,
        tag: Option<String>,
        shares_home: bool,
    ) -> Self {
        let root = dir.path("hosts.d");
        fs::create_dir_all(&root).unwrap();
        // As root, sshd needs a directory that systemd usually creates.
        let _ = fs::create_dir_all("/run/sshd");
        keygen(&root.join("id"), "ed25519");
        let port = 20_000 + PORT.fetch_add(1, Ordering::Relaxed);
        let names = addresses
            .iter()
            .map(|address| format!("{address}:{port}"))
            .collect();
        let mut hosts = Self {
            names,
            sshd: Vec::new(),
            root,
            is_ssh: true,
            program: cargo_bin("dedup-shard"),
            tag,
            shares_home,
        };
        let mut known = String::new();
        for (number, address) in (1..).zip(&addresses) {
            let directory = hosts.root.join(format!("sshd{number}"));
            fs::create_dir_all(&directory).unwrap();
            // Two host keys: the client must not ask for the one that is not in known_hosts.
            keygen(&directory.join("ecdsa"), "ecdsa");
            keygen(&directory.join("ed25519"), "ed25519");
            let public = fs::read_to_string(directory.join("ed25519.pub")).unwrap();
            known += &format!("[{address}]:{port} {}\n", public.trim());
            let child = hosts.start_sshd(number, address, port);
            hosts.sshd.push(child);
        }
        fs::write(hosts.root.join("known_hosts"), known).unwrap();
        let config = format!(
            "IdentityFile {0}/id\nIdentitiesOnly yes\nUserKnownHostsFile {0}/known_hosts\nGlobalKnownHostsFile /dev/null\nBatchMode yes\n",
            hosts.root.display()
        );
        fs::write(hosts.root.join("ssh_config"), config).unwrap();
        hosts
    }

    fn start_sshd(&self, number: usize, address: &str, port: u16) -> Child {
        let (name, directory) = (
            format!("{address}:{port}"),
            self.root.join(format!("sshd{number}")),
        );
        let home = self.home(&name);
        fs::create_dir_all(&home).unwrap();
        let config = [
            format!("ListenAddress {name}"),
            format!("HostKey {0}/ecdsa\nHostKey {0}/ed25519", directory.display()),
            format!("AuthorizedKeysFile {}/id.pub", self.root.display()),
            "PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nUseDNS no".to_owned(),
            format!("SetEnv HOME={} DEDUP_NODE={name}", home.display()),
        ];
        let file = directory.join("config");
        fs::write(&file, config.join("\n") + "\n").unwrap();
        let log = fs::File::create(directory.join("log")).unwrap();
        let mut command = match &self.tag {
            None => Command::new("/usr/sbin/sshd"),
            Some(tag) => {
                let mut command = Command::new("ip");
                command.args([
                    "netns",
                    "exec",
                    &format!("{tag}-{number}"),
                    "unshare",
                    "--uts",
                    "--mount",
                    "--pid",
                    "--fork",
                ]);
                command.args([
                    "--kill-child",
                    "--mount-proc",
                    "sh",
                    "-c",
                    "mount -t tmpfs tmpfs \"$0\" && exec /usr/sbin/sshd \"$@\"",
                ]);
                command.arg(&home);
                command
            }
        };
        command
            .args(["-D", "-e", "-f"])
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let child = command.spawn().unwrap();
        let begin = Instant::now();
        while TcpStream::connect(&name).is_err() {
            assert!(
                begin.elapsed() < Duration::from_secs(20),
                "{}",
                fs::read_to_string(directory.join("log")).unwrap()
            );
            thread::sleep(Duration::from_millis(20));
        }
        child
    }

    /// The directory of a host's files.
    pub fn home(&self, name: &str) -> PathBuf {
        if self.shares_home {
            return self.root.join("home");
        }
        self.root.join(name.replace(':', "_"))
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// A line of shell with an ssh-agent that holds these keys in this order. The agent ends with
    /// the line.
    pub fn with_agent(&self, keys: &[&str], line: &str) -> String {
        let add: String = keys
            .iter()
            .map(|key| format!("ssh-add -q {}/{key} && ", self.root.display()))
            .collect();
        format!(
            "eval $(ssh-agent -s) > /dev/null; ( {add}{line} ); code=$?; kill $SSH_AGENT_PID; exit $code"
        )
    }

    /// Makes a key that no host accepts.
    pub fn make_key(&self, name: &str) {
        keygen(&self.root.join(name), "ed25519");
    }

    /// The list of hosts for --hosts, each with these words.
    pub fn list(&self, words: &str) -> String {
        self.names
            .iter()
            .map(|name| format!("{name} {words}\n"))
            .collect()
    }

    /// The flags of `dedup-shard run` for these hosts.
    pub fn flags(&self) -> String {
        let (root, program) = (self.root.display(), self.program.display());
        if self.is_ssh {
            format!(
                "--engine ssh --identity {root}/id --known-hosts {root}/known_hosts --program {program} --peer-rsh 'ssh -F {root}/ssh_config'"
            )
        } else {
            format!("--engine ssh --rsh {root}/rsh --program {program} --peer-rsh none")
        }
    }

    pub fn run(&self, dir: &TestDir, more: &str) -> RunResult {
        dir.shell(&format!("dedup-shard run r {} {more}", self.flags()))
    }

    /// How often someone logged in, to all hosts together.
    pub fn logins(&self) -> usize {
        let log = |number| self.root.join(format!("sshd{number}/log"));
        let text = |number| fs::read_to_string(log(number)).unwrap();
        let count = |number| text(number).matches("Accepted publickey").count();
        (1..=self.names.len()).map(count).sum()
    }

    /// Makes the program on the hosts fail as faulty.py describes, once for each line of `fault`.
    pub fn set_fault(&mut self, fault: &str) {
        self.program = self.root.join("faulty.py");
        fs::copy(root().join("tests/it/faulty.py"), &self.program).unwrap();
        fs::set_permissions(&self.program, fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(
            self.root.join("real"),
            cargo_bin("dedup-shard").to_str().unwrap(),
        )
        .unwrap();
        fs::write(self.root.join("fault"), format!("{fault}\n")).unwrap();
    }

    /// The faults that have not happened yet.
    pub fn faults_left(&self) -> String {
        fs::read_to_string(self.root.join("fault")).unwrap()
    }

    /// Replaces the program on the hosts by a script.
    pub fn set_program(&mut self, script: &str) {
        self.program = self.root.join("program");
        fs::write(&self.program, script).unwrap();
        fs::set_permissions(&self.program, fs::Permissions::from_mode(0o700)).unwrap();
    }

    /// The directory of the run on a host.
    pub fn run_directory(&self, name: &str) -> Option<PathBuf> {
        let entries = fs::read_dir(self.home(name).join(".cache/dedup-shard")).ok()?;
        entries
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.join("plan.json").exists())
    }

    /// Processes of workers and tasks that are still running after at most five seconds.
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
        let is_ours = String::from_utf8_lossy(&environment)
            .split('\0')
            .any(|word| word.starts_with(&mark));
        let line =
            String::from_utf8_lossy(&fs::read(process.join("cmdline")).ok()?).replace('\0', " ");
        (is_ours && line.contains("dedup-shard")).then_some(line)
    };
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| line(entry.path()))
        .collect()
}

fn keygen(path: &Path, kind: &str) {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-N", "", "-t", kind, "-f"])
        .arg(path)
        .status()
        .unwrap();
    assert!(made.success());
}

/// Checks that the hosts refused all keys, and that the run can be tried again.
#[track_caller]
pub fn ensure_not_let_in(ran: &RunResult) {
    let stderr = ran.stderr();
    let is_refused = stderr.contains("was not let in (tried the agent and ");
    assert!(ran.code() == 75 && is_refused, "{stderr}");
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for child in &mut self.sshd {
            // The sessions first: they outlive the listening process.
            let parent = child.id().to_string();
            let _ = Command::new("pkill")
                .args(["-KILL", "-P", &parent])
                .status();
            let _ = child.kill();
            let _ = child.wait();
        }
        if let Some(tag) = &self.tag {
            for number in 1..=self.names.len() {
                let _ = Command::new("ip")
                    .args(["netns", "del", &format!("{tag}-{number}")])
                    .status();
            }
            let _ = Command::new("ip")
                .args(["link", "del", &format!("{tag}br")])
                .status();
        }
    }
}
