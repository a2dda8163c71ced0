//! The list of hosts: one a line, `[user@]host[:port] [slots=N] [dir=PATH] [shared=PATH] [nice=N]`.

use crate::{
    base::error::{Error, Place, Result},
    cluster::remote::Address,
};
use serde::{Deserialize, Serialize};
use std::{fs, path::Path, sync::Arc};

/// A machine that runs tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The name or address.
    pub name: String,
    /// The user to log in as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The port of the SSH server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// How many tasks it runs at a time; each uses one core.
    pub slots: u32,
    /// The directory where it keeps files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    /// A directory that it shares with this machine, under the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<String>,
    /// How much lower the priority of its tasks is, as for the program nice.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub nice: u8,
}

const MOST_SLOTS: u32 = 1024;
const MOST_NICE: u8 = 19;

fn is_zero(nice: &u8) -> bool {
    *nice == 0
}

impl Host {
    /// The name that messages use.
    pub fn label(&self) -> String {
        self.port
            .map_or_else(|| self.name.clone(), |port| format!("{}:{port}", self.name))
    }

    /// The address to connect to: an IPv6 address without brackets.
    pub fn address(&self) -> Address {
        let name = self
            .name
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        Address {
            name,
            user: self.user.clone(),
            port: self.port,
        }
    }

    /// Whether its name and user are safe to pass to programs.
    pub fn is_sound(&self) -> bool {
        is_name(&self.name)
            && self.user.as_deref().is_none_or(is_name)
            && (1..=MOST_SLOTS).contains(&self.slots)
            && self.nice <= MOST_NICE
    }

    /// Reads a list of hosts.
    pub fn read(path: &Path) -> Result<Vec<Self>> {
        let text = fs::read_to_string(path).map_err(|error| Error::io(path.display(), error))?;
        Self::parse(&text, &path.display().to_string().into())
    }

    /// Parses a list of hosts. Empty lines, comments after # and a byte-order mark are ignored.
    pub(super) fn parse(text: &str, file: &Arc<str>) -> Result<Vec<Self>> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut hosts = Vec::<Self>::new();
        for (number, line) in (1..).zip(text.lines()) {
            let wrong = |what: String| Error::damaged(Place::line(file, number), what);
            let mut words = line
                .split('#')
                .next()
                .unwrap_or_default()
                .split_whitespace();
            let Some(address) = words.next() else {
                continue;
            };
            let mut host = Self::of_address(address).map_err(wrong)?;
            words.try_for_each(|word| host.set(word)).map_err(wrong)?;
            if hosts
                .iter()
                .any(|other| (&other.name, other.port) == (&host.name, host.port))
            {
                return Err(wrong(format!(
                    "'{address}' is there twice; give it more slots instead"
                )));
            }
            hosts.push(host);
        }
        if hosts.is_empty() {
            return Err(Error::damaged(
                Place::file(file.clone()),
                "names no host; write one a line, such as localhost slots=4",
            ));
        }
        Ok(hosts)
    }

    fn of_address(address: &str) -> Result<Self, String> {
        let (user, place) = match address.split_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, address),
        };
        let (name, port) = match place.rsplit_once(':') {
            // More than one colon is an IPv6 address, unless it is in brackets.
            Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, Some(port)),
            _ => (place, None),
        };
        if ![Some(name), user].into_iter().flatten().all(is_name) {
            return Err(format!(
                "'{address}' is not a host such as name, user@name or name:22"
            ));
        }
        let port = port
            .map(|port| port.parse().map_err(|_| format!("'{port}' is not a port")))
            .transpose()?;
        Ok(Self {
            name: name.to_owned(),
            user: user.map(str::to_owned),
            port,
            slots: 1,
            dir: None,
            shared: None,
            nice: 0,
        })
    }

    fn set(&mut self, word: &str) -> Result<(), String> {
        match word.split_once('=') {
            Some(("slots", slots)) => {
                let slots = slots
                    .parse()
                    .ok()
                    .filter(|slots| (1..=MOST_SLOTS).contains(slots));
                self.slots = slots
                    .ok_or_else(|| format!("'{word}': there can be 1 to {MOST_SLOTS} slots"))?;
            }
            Some(("dir", dir)) => self.dir = Some(dir.to_owned()),
            Some(("shared", shared)) => self.shared = Some(shared.to_owned()),
            Some(("nice", nice)) => {
                let nice = nice.parse().ok().filter(|nice| *nice <= MOST_NICE);
                self.nice = nice
                    .ok_or_else(|| format!("'{word}': nice is a number from 0 to {MOST_NICE}"))?;
            }
            _ => {
                return Err(format!(
                    "'{word}' is none of slots=N, dir=PATH, shared=PATH and nice=N"
                ));
            }
        }
        Ok(())
    }
}

/// Whether this can be the name of a host or user: no option of a program, and nothing special to a
/// shell.
fn is_name(text: &str) -> bool {
    let is_safe = |c: char| c.is_alphanumeric() || "._-:[]%".contains(c);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(is_safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_lists_are_parsed() {
        let text = "\u{feff}# ours\nlocalhost slots=4\n\nme@far:2222 dir=/scratch shared=/home nice=10 # slow\n[::1]:22\nfe80::1\n";
        let hosts = Host::parse(text, &"hosts".into()).unwrap();
        let plain = |name: &str, slots| Host {
            name: name.to_owned(),
            user: None,
            port: None,
            slots,
            dir: None,
            shared: None,
            nice: 0,
        };
        let far = Host {
            user: Some("me".to_owned()),
            port: Some(2222),
            dir: Some("/scratch".to_owned()),
            shared: Some("/home".to_owned()),
            nice: 10,
            ..plain("far", 1)
        };
        assert_eq!(
            hosts,
            [
                plain("localhost", 4),
                far,
                Host {
                    port: Some(22),
                    ..plain("[::1]", 1)
                },
                plain("fe80::1", 1)
            ]
        );
    }

    #[test]
    fn unsafe_names_are_not_valid_hosts() {
        let host = |name: &str, user: Option<&str>| {
            Host {
                user: user.map(str::to_owned),
                ..Host::of_address("a").unwrap()
            }
            .named(name)
        };
        assert!(host("a", None).is_sound() && host("fe80::1", Some("me")).is_sound());
        assert!(
            !host("-oProxyCommand=x", None).is_sound()
                && !host("a", Some("-x")).is_sound()
                && !host("", None).is_sound()
        );
    }

    impl Host {
        fn named(self, name: &str) -> Self {
            Self {
                name: name.to_owned(),
                ..self
            }
        }
    }

    #[test]
    fn invalid_host_lines_are_refused() {
        for (text, what) in [
            (
                "",
                "hosts: names no host; write one a line, such as localhost slots=4",
            ),
            (
                "a\n-oProxyCommand=x",
                "hosts:2: '-oProxyCommand=x' is not a host such as name, user@name or name:22",
            ),
            (
                "a$(x)",
                "hosts:1: 'a$(x)' is not a host such as name, user@name or name:22",
            ),
            ("a:b", "hosts:1: 'b' is not a port"),
            (
                "a slots=0",
                "hosts:1: 'slots=0': there can be 1 to 1024 slots",
            ),
            (
                "a cores=2",
                "hosts:1: 'cores=2' is none of slots=N, dir=PATH, shared=PATH and nice=N",
            ),
            (
                "a nice=20",
                "hosts:1: 'nice=20': nice is a number from 0 to 19",
            ),
            (
                "a\nb\na slots=2",
                "hosts:3: 'a' is there twice; give it more slots instead",
            ),
        ] {
            assert_eq!(
                Host::parse(text, &"hosts".into()).unwrap_err().to_string(),
                what
            );
        }
    }
}
