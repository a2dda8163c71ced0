//! Hosts: how dedup-shard reaches them, and the worker that runs there.

use super::{super::args::parse_size, engine::EngineFlags};
#[cfg(feature = "ssh")]
use crate::cluster::remote::{Ssh, SshOptions};
use crate::cluster::{
    Host, HostStore, Plan, SshEngineOptions, SshSetup, WorkerOptions, is_program,
    remote::{RemoteCommand, Transport, lower_own_priority, split_words},
    serve,
};
use anyhow::Context;
use clap::Args;
use std::{
    env,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// How to reach hosts, and which files stay there.
#[derive(Args, Debug)]
#[command(next_help_heading = "With --engine ssh")]
pub struct FleetArgs {
    /// Reach hosts with a command that accepts the arguments of ssh, such as 'ssh -J gate'
    #[arg(long, value_name = "CMD")]
    pub rsh: Option<String>,
    /// The private key; else the agent and the usual files
    #[arg(long, value_name = "FILE", conflicts_with = "rsh")]
    pub identity: Option<PathBuf>,
    /// The keys of hosts that are known; else the usual files
    #[arg(long, value_name = "FILE", conflicts_with = "rsh")]
    pub known_hosts: Option<PathBuf>,
    /// How hosts reach each other; none: all goes through this machine [default: ssh -o BatchMode=yes -o ConnectTimeout=5]
    #[arg(long, value_name = "CMD")]
    pub peer_rsh: Option<String>,
    /// Copy this program to hosts, instead of using theirs
    #[arg(long)]
    pub ship_binaries: bool,
    /// The program on hosts, if it is not on their path [default: dedup-shard]
    #[arg(long, value_name = "PATH", conflicts_with = "ship_binaries")]
    pub program: Option<String>,
    /// How long a host may take to answer a call [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub connect_timeout: Option<Duration>,
    /// A host that shows no sign of life for so long is lost [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub stall: Option<Duration>,
    /// How much stays on each host for later runs [default: 20G]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub cache_bytes: Option<u64>,
}

const PEER_RSH: &str = "ssh -o BatchMode=yes -o ConnectTimeout=5";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const STALL: Duration = Duration::from_secs(60);
const CACHE_BYTES: u64 = 20 << 30;

/// The worker that `run` starts on a host.
#[derive(Args, Debug)]
pub struct WorkerArgs {
    /// Where the host keeps files [default: ~/.cache/dedup-shard]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The checksum of the plan, and whose run it is
    #[arg(long, value_name = "SUM-OWNER", value_parser = parse_sum, required_unless_present_any = ["inside", "check"])]
    run: Option<String>,
    /// Work in the directory of a run itself
    #[arg(long = "in", value_name = "RUN", conflicts_with_all = ["run", "dir"])]
    inside: Option<PathBuf>,
    /// How often to show that it lives
    #[arg(long, value_name = "N", default_value_t = 5000)]
    beat_ms: u64,
    /// How much lower the priority of its tasks is
    #[arg(long, value_name = "N", default_value_t = 0)]
    nice: u8,
    /// What the checksum of this program must be
    #[arg(long = "self", value_name = "SUM")]
    own: Option<String>,
    /// Only check that, and print it
    #[arg(long, requires = "own")]
    check: bool,
}

/// The section of the manual on hosts.
pub const SECTION: (&str, &[&str]) = (
    "HOSTS",
    &[
        "run --engine ssh runs the tasks on the hosts of the plan. On each host it starts dedup-shard worker, over one \
         connection, whatever the number of slots; a worker ends with its connection, and leaves only files. They are in dir=PATH, or in \
         ~/.cache/dedup-shard, in a directory named by the checksum of the plan, the owner of the run and the host, which only the owner can \
         read. Hosts may share that directory, as with homes on NFS: they then link to each other's files instead of copying them. clean --engine ssh removes \
         it. Parts of the index stay in the directory cache beside it for later runs, up to --cache-bytes, until they have not been used \
         for 30 days; so do abandoned runs and programs.",
        "Before the run starts, each host is asked for the programs that the documents need, such as pdftotext for PDF. The names of files \
         tell which these are; archives are not opened for it. A PDF in an archive that comes to a host without pdftotext is left out there, \
         named in the account, and makes the exit status 2: install the programs on all hosts if archives hold such files.",
        "Documents are sent to the host that works on their slice, and removed when it is done. Outputs of tasks go directly from host to \
         host where these can reach each other (--peer-rsh), over one connection for each pair, otherwise through this machine, and a \
         message says so once. More than 8 hosts that have less than 4 MB for each other, and 1 GB in all, do not connect: this machine \
         collects the outputs of map tasks, and hands them out. Only files that a \
         task needs are moved, while other tasks run. With shared=PATH, if the directory of the run is below PATH, the host works in that \
         directory, and only documents from elsewhere are copied. With nice=N its tasks have a lower priority, as if nice -n N had \
         started them; run --engine local takes the largest N of all hosts, and jobs of Slurm have the priority that it gives them.",
        "A host must be known: its key must be in known_hosts, otherwise it is refused, with its fingerprint. Keys come from the agent, all \
         of which are tried (with IdentitiesOnly, those of the named files), from --identity, or from the usual files, with a certificate \
         KEY-cert.pub if there is one; a key with a passphrase must be in the agent. Names, users, ports, keys and jump hosts of \
         ~/.ssh/config are used, if the program ssh is installed, which is asked for them. For everything else there is --rsh: CMD \
         [user@]host [-p port] -- 'command'.",
        "A task that is lost with its host, disk or connection is run elsewhere, up to --retries times. A host that fails three times in a \
         row, or whose key is wrong, gets no more tasks, and outputs that only it had are made again if they are still needed. If no host \
         is left, run ends with 75; calling it again continues where it was, after asking all hosts what they have. A task that fails by \
         itself stops the run; its log is in RUN/logs. If it failed because its input was damaged on the host, that input is made again. If \
         the disk of this machine is full, run ends with 75, too.",
    ],
);

/// How long unused files stay on hosts.
const CACHE_AGE: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long a shell and a program may take to start, in addition to the connection.
const START: Duration = Duration::from_secs(30);

/// 60, 60s, 5m, 1h or 500ms.
fn parse_time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a time such as 60s, 5m, 1h or 500ms");
    let (number, unit) = text.split_at(
        text.find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len()),
    );
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let milliseconds = match unit {
        "" | "s" => 1000,
        "ms" => 1,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    let time = number
        .checked_mul(milliseconds)
        .filter(|time| (1..=7 * 24 * 3_600_000).contains(time));
    time.map(Duration::from_millis).ok_or_else(wrong)
}

fn parse_sum(text: &str) -> Result<String, String> {
    let is_sum = |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_run = text
        .split_once('-')
        .is_some_and(|(sum, owner)| is_sum(sum) && is_sum(owner));
    if is_run {
        Ok(text.to_owned())
    } else {
        Err(format!("'{text}' is not two checksums of 16 hex digits"))
    }
}

impl EngineFlags for FleetArgs {
    fn engine(&self) -> &'static str {
        "ssh"
    }

    fn flags(&self) -> Vec<(bool, &'static str)> {
        vec![
            (self.rsh.is_some(), "--rsh"),
            (self.identity.is_some(), "--identity"),
            (self.known_hosts.is_some(), "--known-hosts"),
            (self.peer_rsh.is_some(), "--peer-rsh"),
            (self.ship_binaries, "--ship-binaries"),
            (self.program.is_some(), "--program"),
            (self.connect_timeout.is_some(), "--connect-timeout"),
            (self.stall.is_some(), "--stall"),
            (self.cache_bytes.is_some(), "--cache-bytes"),
        ]
    }
}

impl FleetArgs {
    /// How to reach the hosts of a plan; `program` is the one to copy to them, if asked for.
    pub fn setup(&self, plan: &Plan, program: &Path) -> Result<SshSetup, anyhow::Error> {
        if plan.hosts.is_empty() {
            anyhow::bail!(
                "the plan was made with --slots, so it names no hosts, which --engine ssh needs; \
                 plan anew with --hosts FILE, a host a line"
            );
        }
        let words = |text: &str| split_words(text).map_err(anyhow::Error::msg);
        let peer_rsh = self.peer_rsh.as_deref().unwrap_or(PEER_RSH);
        let peer_rsh = (peer_rsh != "none").then(|| words(peer_rsh)).transpose()?;
        let options = SshEngineOptions {
            program: self
                .program
                .clone()
                .unwrap_or_else(|| "dedup-shard".to_owned()),
            ship: self.ship_binaries.then(|| program.to_owned()),
            peer_rsh,
            hello: self.connect_timeout.unwrap_or(CONNECT_TIMEOUT) + START,
            stall: self.stall.unwrap_or(STALL),
            cache_bytes: self.cache_bytes.unwrap_or(CACHE_BYTES),
            cache_age: CACHE_AGE,
        };
        let rsh = self.rsh.as_deref().map(words).transpose()?;
        let connect = |host: &Host| self.transport(host, rsh.as_deref());
        let transports = plan
            .hosts
            .iter()
            .map(connect)
            .collect::<Result<Vec<_>, _>>()?;
        Ok(SshSetup {
            options,
            transports,
        })
    }

    fn transport(
        &self,
        host: &Host,
        rsh: Option<&[String]>,
    ) -> Result<Box<dyn Transport>, anyhow::Error> {
        match rsh {
            Some(rsh) => Ok(Box::new(RemoteCommand::new(rsh, &host.address()))),
            None => self.ssh(host),
        }
    }

    #[cfg(feature = "ssh")]
    fn ssh(&self, host: &Host) -> Result<Box<dyn Transport>, anyhow::Error> {
        let options = SshOptions {
            identity: self.identity.clone(),
            known_hosts: self.known_hosts.clone(),
            connect_timeout: self.connect_timeout.unwrap_or(CONNECT_TIMEOUT),
            stall: self.stall.unwrap_or(STALL),
        };
        Ok(Box::new(Ssh::new(host.address(), options)))
    }

    #[cfg(not(feature = "ssh"))]
    fn ssh(&self, _: &Host) -> Result<Box<dyn Transport>, anyhow::Error> {
        anyhow::bail!(
            "this program was built without SSH; name a command with --rsh, such as --rsh ssh"
        )
    }
}

pub fn run_worker(args: &WorkerArgs) -> Result<ExitCode, anyhow::Error> {
    let program = env::current_exe().context("dedup-shard")?;
    if let Some(sum) = &args.own
        && !is_program(&program, sum)?
    {
        anyhow::bail!(
            "{}: is not the program that was sent; remove it",
            program.display()
        );
    }
    if args.check {
        let sum = args.own.as_deref().unwrap_or_default();
        return writeln!(io::stdout(), "{sum}")
            .map(|()| ExitCode::SUCCESS)
            .context("stdout");
    }
    lower_own_priority(args.nice);
    // Only the user may read the files that are kept here.
    #[cfg(unix)]
    // SAFETY: sets the mask of this process, before any other thread runs.
    unsafe {
        libc::umask(0o077);
    }
    let store = match (&args.inside, &args.run) {
        (Some(run), _) => HostStore::of_run(run),
        (None, Some(run)) => HostStore::of_host(&host_directory(args.dir.as_deref())?, run),
        (None, None) => anyhow::bail!("say which run, with --run or --in"),
    };
    serve(&WorkerOptions {
        program,
        store,
        beat: Duration::from_millis(args.beat_ms.max(10)),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Where a host keeps files.
fn host_directory(named: Option<&Path>) -> Result<PathBuf, anyhow::Error> {
    let home = || {
        env::var_os("HOME")
            .map(PathBuf::from)
            .context("HOME is not set; say dir=PATH in the list of hosts")
    };
    Ok(match named {
        Some(path) => match path.strip_prefix("~") {
            Ok(below) => home()?.join(below),
            Err(_) => std::path::absolute(path).with_context(|| path.display().to_string())?,
        },
        None => {
            match env::var_os("XDG_CACHE_HOME").filter(|cache| Path::new(cache).is_absolute()) {
                Some(cache) => PathBuf::from(cache).join("dedup-shard"),
                None => home()?.join(".cache/dedup-shard"),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        for (text, milliseconds) in [
            ("60", 60_000),
            ("60s", 60_000),
            ("500ms", 500),
            ("5m", 300_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(parse_time(text), Ok(Duration::from_millis(milliseconds)));
        }
        for text in ["", "s", "0", "-1", "1d", "99999999999999999999"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }
}
