//! The OpenSSH configuration of a host, as `ssh -G` prints it, if there is an ssh program.

use super::Address;
use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// How a host is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSettings {
    pub host: String,
    pub port: u16,
    pub user: String,
    /// The name that its key is known by.
    pub key_name: String,
    pub identities: Vec<PathBuf>,
    /// Use only those keys of the agent that are in these files.
    pub is_only_identities: bool,
    pub known_hosts: Vec<PathBuf>,
    /// A command whose stdin and stdout connect to the host.
    pub proxy: Option<Vec<String>>,
}

impl HostSettings {
    pub fn of(to: &Address) -> Self {
        let mut command = Command::new("ssh");
        command.arg("-G");
        if let Some(port) = to.port {
            command.args(["-p", &port.to_string()]);
        }
        if let Some(user) = &to.user {
            command.args(["-l", user]);
        }
        let output = command
            .arg("--")
            .arg(&to.name)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        let text = output
            .ok()
            .filter(|output| output.status.success())
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        Self::parse(to, &text.unwrap_or_default())
    }

    /// Parses the output of `ssh -G`, a name and its value a line. Missing values have the defaults
    /// of OpenSSH.
    fn parse(to: &Address, text: &str) -> Self {
        let values = |name: &'static str| {
            text.lines().filter_map(move |line| {
                line.split_once(' ')
                    .filter(|(key, _)| *key == name)
                    .map(|(_, value)| value.trim())
            })
        };
        let value = |name: &'static str| {
            values(name)
                .next()
                .filter(|value| !value.is_empty() && *value != "none")
        };
        let paths = |name: &'static str| {
            values(name)
                .flat_map(str::split_whitespace)
                .map(expand)
                .collect::<Vec<_>>()
        };
        let or = |found: Vec<PathBuf>, usual: &[&str]| {
            if found.is_empty() {
                usual.iter().map(|path| expand(path)).collect()
            } else {
                found
            }
        };
        let host = value("hostname").unwrap_or(&to.name).to_owned();
        let port = value("port")
            .and_then(|port| port.parse().ok())
            .or(to.port)
            .unwrap_or(22);
        let user = value("user")
            .map(str::to_owned)
            .or_else(|| to.user.clone())
            .or_else(|| env::var("USER").ok());
        let user = user
            .or_else(|| env::var("LOGNAME").ok())
            .unwrap_or_else(|| "root".to_owned());
        let known = [paths("userknownhostsfile"), paths("globalknownhostsfile")].concat();
        let identities = values("identityfile").map(expand).collect();
        Self {
            proxy: proxy(
                value("proxycommand"),
                value("proxyjump"),
                &host,
                port,
                &user,
            ),
            key_name: value("hostkeyalias").unwrap_or(&host).to_owned(),
            identities: or(
                identities,
                &["~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa"],
            ),
            is_only_identities: value("identitiesonly") == Some("yes"),
            known_hosts: or(known, &["~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts"]),
            host,
            port,
            user,
        }
    }
}

fn proxy(
    command: Option<&str>,
    jump: Option<&str>,
    host: &str,
    port: u16,
    user: &str,
) -> Option<Vec<String>> {
    if let Some(jump) = jump {
        // The last one reaches the host, through those before it.
        let (before, last) = jump
            .rsplit_once(',')
            .map_or((None, jump), |(before, last)| (Some(before), last));
        let target = if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        };
        let jumps = before
            .map(|before| ["-J".to_owned(), before.to_owned()])
            .into_iter()
            .flatten();
        let words = ["ssh", "-o", "BatchMode=yes"]
            .map(str::to_owned)
            .into_iter()
            .chain(jumps);
        let last = if last.contains("://") {
            last.to_owned()
        } else {
            format!("ssh://{last}")
        };
        return Some(words.chain(["-W".to_owned(), target, last]).collect());
    }
    let command = command?
        .replace("%%", "\0")
        .replace("%h", host)
        .replace("%p", &port.to_string())
        .replace("%r", user)
        .replace('\0', "%");
    Some(
        ["sh", "-c"]
            .into_iter()
            .map(str::to_owned)
            .chain([format!("exec {command}")])
            .collect(),
    )
}

fn expand(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), env::var_os("HOME")) {
        (Some(below), Some(home)) => Path::new(&home).join(below),
        _ => path.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_have_defaults() {
        let to = Address {
            name: "far".to_owned(),
            user: Some("me".to_owned()),
            port: None,
        };
        let text = "user you\nhostname far.example\nport 2200\nhostkeyalias known\nidentityfile /a b\nidentityfile /c\nuserknownhostsfile /k1 /k2\nproxyjump a,b:22\nidentitiesonly yes\n";
        let found = HostSettings::parse(&to, text);
        assert_eq!(
            (
                found.host.as_str(),
                found.port,
                found.user.as_str(),
                found.key_name.as_str()
            ),
            ("far.example", 2200, "you", "known")
        );
        assert_eq!(found.identities, ["/a b", "/c"].map(PathBuf::from));
        assert!(found.is_only_identities);
        assert_eq!(found.known_hosts, ["/k1", "/k2"].map(PathBuf::from));
        assert_eq!(
            found.proxy.unwrap().join(" "),
            "ssh -o BatchMode=yes -J a -W far.example:2200 ssh://b:22"
        );
        let plain = HostSettings::parse(&to, "proxycommand none\nproxyjump none\n");
        assert_eq!(
            (
                plain.host.as_str(),
                plain.port,
                plain.user.as_str(),
                plain.proxy
            ),
            ("far", 22, "me", None)
        );
        assert_eq!(
            (
                plain.identities.len(),
                plain.known_hosts.len(),
                plain.is_only_identities
            ),
            (3, 2, false)
        );
        let through = HostSettings::parse(&to, "proxycommand nc %h %p 100%%\n");
        assert_eq!(through.proxy.unwrap(), ["sh", "-c", "exec nc far 22 100%"]);
    }
}
