//! Files below a directory, by names that come from outside.
//!
//! An id may be anything: `/etc/passwd`, `../secret.txt`, the name of a pipe. So a file is opened only if its path, symbolic links included, stays below the
//! directory, and only if it is a regular file. The kernel resolves the path in one step (openat2, Linux 5.6), so no directory can be swapped in between;
//! where it cannot, no symbolic link is followed at all.

use rustix::{
    fd::OwnedFd,
    fs::{Mode, OFlags, open, openat},
    io::Errno,
};
use std::{
    fs::File,
    io,
    path::{Component, Path, PathBuf},
};

const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// Opens a regular file by its path from `root`, which is the current directory if it is empty. `root` itself may be a symbolic link.
pub fn open_beneath(root: &Path, name: &Path) -> io::Result<File> {
    if name
        .components()
        .any(|part| !matches!(part, Component::Normal(_) | Component::CurDir))
    {
        return Err(leads_out());
    }
    let root = if root.as_os_str().is_empty() {
        Path::new(".")
    } else {
        root
    };
    let root = open(root, DIRECTORY, Mode::empty())?;
    let opened = match resolve(&root, name) {
        Err(Errno::NOSYS | Errno::PERM) => step_by_step(root, name),
        opened => opened,
    };
    let file = opened.map(File::from).map_err(|error| match error {
        Errno::XDEV | Errno::LOOP => leads_out(),
        error => error.into(),
    })?;
    // Opening a pipe or a device did not wait, and nothing was read from it.
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ))
    }
}

fn leads_out() -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        "leads out of the directory",
    )
}

#[cfg(target_os = "linux")]
fn resolve(root: &OwnedFd, name: &Path) -> Result<OwnedFd, Errno> {
    use rustix::fs::{ResolveFlags, openat2};
    loop {
        match openat2(
            root,
            name,
            READ,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
        ) {
            // Something was renamed meanwhile.
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return opened,
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn resolve(_: &OwnedFd, _: &Path) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

/// Opens directory after directory, and follows no symbolic link.
fn step_by_step(mut directory: OwnedFd, name: &Path) -> Result<OwnedFd, Errno> {
    let mut parts = name
        .components()
        .filter(|part| *part != Component::CurDir)
        .peekable();
    while let Some(part) = parts.next() {
        let flags = if parts.peek().is_some() {
            DIRECTORY
        } else {
            READ
        };
        let next = openat(
            &directory,
            part.as_os_str(),
            flags | OFlags::NOFOLLOW,
            Mode::empty(),
        );
        // A link that should be a directory is not one.
        directory = next.map_err(|error| {
            if is_link(&directory, part) {
                Errno::LOOP
            } else {
                error
            }
        })?;
    }
    Ok(directory)
}

fn is_link(directory: &OwnedFd, part: Component<'_>) -> bool {
    rustix::fs::readlinkat(directory, part.as_os_str(), Vec::new()).is_ok()
}

/// A file that an id names.
pub struct FileBeneath {
    /// The directory.
    pub root: PathBuf,
    /// The way from the root.
    pub name: PathBuf,
    /// The open file.
    pub file: File,
}

/// Opens the file that an id names below the first directory that has it: the id is its path from there,
/// or begins with the directory. The error has the path; one that leads out of a directory is reported
/// rather than one that does not exist.
pub fn find_beneath(roots: &[PathBuf], id: &str) -> Result<FileBeneath, (PathBuf, io::Error)> {
    let ways = |root: &PathBuf| {
        [Some(Path::new(id)), Path::new(id).strip_prefix(root).ok()]
            .map(|way| way.map(Path::to_owned))
    };
    let mut missing: Option<(PathBuf, io::Error)> = None;
    for root in roots {
        for name in ways(root).into_iter().flatten() {
            match open_beneath(root, &name) {
                Ok(file) => {
                    return Ok(FileBeneath {
                        root: root.clone(),
                        name,
                        file,
                    });
                }
                Err(error)
                    if missing.as_ref().is_some_and(|(_, before)| {
                        before.kind() != io::ErrorKind::NotFound || is_missing(&error)
                    }) => {}
                Err(error) => missing = Some((root.join(name), error)),
            }
        }
    }
    Err(missing.unwrap_or_else(|| (PathBuf::from(id), io::ErrorKind::NotFound.into())))
}

fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, io::Read, os::unix::fs::symlink, process::Command};

    #[test]
    fn nothing_leads_out_and_nothing_hangs() {
        let work = tempfile::tempdir().unwrap();
        let root = work.path().join("root");
        fs::create_dir_all(root.join("deep")).unwrap();
        fs::write(work.path().join("secret"), "secret").unwrap();
        fs::write(root.join("deep/file"), "text").unwrap();
        for (to, link) in [
            ("../secret", "out"),
            ("/etc/passwd", "far"),
            ("deep", "in"),
            ("file", "deep/near"),
            ("..", "up"),
        ] {
            symlink(to, root.join(link)).unwrap();
        }
        assert!(
            Command::new("mkfifo")
                .arg(root.join("pipe"))
                .status()
                .unwrap()
                .success()
        );
        let read = |opened: io::Result<File>| {
            let mut text = String::new();
            opened
                .map_err(|error| error.to_string())?
                .read_to_string(&mut text)
                .map_err(|error| error.to_string())?;
            Ok::<_, String>(text)
        };
        let found = |name: &str| read(open_beneath(&root, Path::new(name)));
        for name in ["deep/file", "./deep/./file", "in/file", "deep/near"] {
            assert_eq!(found(name).as_deref(), Ok("text"), "{name}");
        }
        let out = "leads out of the directory";
        for name in [
            "../secret",
            "/etc/passwd",
            "deep/../../secret",
            "out",
            "far",
            "up/secret",
            "deep/../deep/file",
        ] {
            assert_eq!(found(name), Err(out.to_owned()), "{name}");
        }
        for name in ["pipe", "deep", ".", ""] {
            assert!(found(name).is_err_and(|what| what != out), "{name}");
        }
        let roots = [work.path().join("none"), root.clone()];
        let absolute = root.join("deep/file");
        for id in ["deep/file", absolute.to_str().unwrap()] {
            let named = find_beneath(&roots, id).unwrap();
            assert_eq!(
                (named.name.as_path(), read(Ok(named.file)).as_deref()),
                (Path::new("deep/file"), Ok("text")),
                "{id}"
            );
        }
        let refused = |id: &str| {
            find_beneath(&roots, id)
                .err()
                .map(|(_, error)| error.to_string())
        };
        assert_eq!(
            (
                refused("../secret"),
                refused("none").unwrap().contains("No such file")
            ),
            (Some(out.to_owned()), true)
        );
        // Where the kernel cannot do it.
        let stepped = |name: &str| {
            step_by_step(
                open(&root, DIRECTORY, Mode::empty()).unwrap(),
                Path::new(name),
            )
            .map(File::from)
        };
        assert_eq!(
            read(stepped("deep/file").map_err(io::Error::from)).as_deref(),
            Ok("text")
        );
        for name in ["in/file", "out", "far", "deep/near", "up/secret"] {
            assert_eq!(stepped(name).err(), Some(Errno::LOOP), "{name}");
        }
        let linked = work.path().join("linked");
        symlink(&root, &linked).unwrap();
        assert_eq!(
            read(open_beneath(&linked, Path::new("deep/file"))).as_deref(),
            Ok("text")
        );
    }
}
