//! Which host works on which range: the same as before, as far as slots allow. Files that it
//! has need not be sent again.

use super::hosts::Host;
use crate::base::{
    error::{Error, Result},
    files::durable,
    num::ToUsize,
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The name by which an owner is recognised in later runs.
fn name(host: &Host) -> String {
    host.port
        .map_or_else(|| host.name.clone(), |port| format!("{}:{port}", host.name))
}

/// Assigns each range to a host, given by its place in the list. Each host gets its share by slots,
/// and keeps as many of its previous ranges as that allows.
pub fn assign_owners(ranges: usize, hosts: &[Host], previous: &[String]) -> Vec<usize> {
    let previous_host = |range: usize| {
        previous
            .get(range)
            .and_then(|owner| hosts.iter().position(|host| name(host) == *owner))
    };
    let slots: usize = hosts.iter().map(|host| host.slots.to_usize()).sum();
    let mut room: Vec<usize> = hosts
        .iter()
        .map(|host| ranges * host.slots.to_usize() / slots.max(1))
        .collect();
    // Ranges that are left over go first to hosts that had more than their share.
    let count = |host: usize| {
        (0..ranges)
            .filter(|&range| previous_host(range) == Some(host))
            .count()
    };
    let mut order: Vec<usize> = (0..hosts.len()).collect();
    order.sort_by_key(|&host| count(host) <= room[host]);
    let over = ranges - room.iter().sum::<usize>();
    order
        .into_iter()
        .take(over)
        .for_each(|host| room[host] += 1);
    let mut keep = |range: usize| {
        let host = previous_host(range)?;
        room[host] = room[host].checked_sub(1)?;
        Some(host)
    };
    let kept: Vec<Option<usize>> = (0..ranges).map(&mut keep).collect();
    let mut next = 0;
    let mut next_with_room = || {
        while room.get(next) == Some(&0) {
            next += 1;
        }
        room.get_mut(next).map_or(0, |room| {
            *room -= 1;
            next
        })
    };
    kept.into_iter()
        .map(|kept| kept.unwrap_or_else(&mut next_with_room))
        .collect()
}

/// `my.idx.owners` for `my.idx`.
fn path_of(index: &Path) -> PathBuf {
    let mut name = index.components().collect::<PathBuf>().into_os_string();
    name.push(".owners");
    name.into()
}

/// Reads the names of the hosts that made the parts of an index; empty if they are not known, or
/// the file is damaged.
pub fn read_owners(index: &Path) -> Result<Vec<String>> {
    let path = path_of(index);
    match fs::read(&path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).unwrap_or_default()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::io(path.display(), error)),
    }
}

/// Writes beside an index which hosts made its parts.
pub fn write_owners(
    index: &Path,
    owners: impl Iterator<Item = usize>,
    hosts: &[Host],
) -> Result<()> {
    let path = path_of(index);
    let names: Vec<String> = owners
        .filter_map(|owner| hosts.get(owner))
        .map(name)
        .collect();
    let json = serde_json::to_string(&names).unwrap_or_default() + "\n";
    let mut beside = path.clone().into_os_string();
    beside.push(format!(".tmp-{}", std::process::id()));
    durable::replace_via(Path::new(&beside), &path, json.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hosts(of: &[(&str, u32)]) -> Vec<Host> {
        let host = |&(name, slots): &(&str, u32)| Host {
            name: name.to_owned(),
            user: None,
            port: None,
            slots,
            dir: None,
            shared: None,
            nice: 0,
        };
        of.iter().map(host).collect()
    }

    fn named(owners: &[usize], hosts: &[Host]) -> Vec<String> {
        owners
            .iter()
            .map(|&owner| hosts[owner].name.clone())
            .collect()
    }

    #[test]
    fn ranges_stay_on_their_hosts() {
        let two = hosts(&[("a", 1), ("b", 1)]);
        let first = assign_owners(8, &two, &[]);
        assert_eq!(first, [0, 0, 0, 0, 1, 1, 1, 1]);
        let first = named(&first, &two);
        // In another order, with another host, and without one.
        assert_eq!(
            assign_owners(8, &hosts(&[("b", 1), ("a", 1)]), &first),
            [1, 1, 1, 1, 0, 0, 0, 0]
        );
        assert_eq!(
            assign_owners(8, &hosts(&[("a", 1), ("b", 1), ("c", 2)]), &first),
            [0, 0, 2, 2, 1, 1, 2, 2]
        );
        assert_eq!(
            assign_owners(8, &hosts(&[("b", 1), ("c", 1)]), &first),
            [1, 1, 1, 1, 0, 0, 0, 0]
        );
    }

    #[test]
    fn a_damaged_file_counts_as_none() {
        let work = tempfile::tempdir().unwrap();
        let index = work.path().join("i");
        write_owners(&index, [1, 0].into_iter(), &hosts(&[("a", 1), ("b", 1)])).unwrap();
        assert_eq!(read_owners(&index).unwrap(), ["b", "a"]);
        assert_eq!(fs::read_dir(work.path()).unwrap().count(), 1);
        fs::write(path_of(&index), "[\"b\",").unwrap();
        assert_eq!(read_owners(&index).unwrap(), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn as_few_ranges_as_possible_change_their_owner(ranges in 1_usize..65, slots in prop::collection::vec(1_u32..5, 1..6), later in prop::collection::vec(0_u32..5, 1..6)) {
            const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
            let of = |slots: &[u32]| hosts(&NAMES.into_iter().zip(slots.iter().copied()).filter(|(_, slots)| *slots > 0).collect::<Vec<_>>());
            let (before, after) = (of(&slots), of(&later));
            prop_assume!(!after.is_empty());
            let first = named(&assign_owners(ranges, &before, &[]), &before);
            let second = named(&assign_owners(ranges, &after, &first), &after);
            let total: usize = after.iter().map(|host| host.slots.to_usize()).sum();
            let shares: Vec<usize> = after.iter().map(|host| ranges * host.slots.to_usize() / total).collect();
            let count = |owners: &[String], host: &Host| owners.iter().filter(|name| **name == host.name).count();
            let kept: usize = after.iter().zip(&shares).map(|(host, &share)| count(&first, host).min(share)).sum();
            let more = after.iter().zip(&shares).filter(|(host, share)| count(&first, host) > **share).count();
            let least = ranges - kept - more.min(ranges - shares.iter().sum::<usize>());
            prop_assert_eq!(first.iter().zip(&second).filter(|(one, two)| one != two).count(), least);
            prop_assert!(after.iter().zip(&shares).all(|(host, &share)| (share..=share + 1).contains(&count(&second, host))));
            // The same again changes nothing.
            prop_assert_eq!(&named(&assign_owners(ranges, &after, &second), &after), &second);
        }
    }
}
