//! The files of one run on a host.
//!
//! ```text
//! DIR/SUM-OWNER/             the checksum of the plan, and whose run it is: two runs of one plan do not collide
//!     plan.json
//!     in/PATH                received files, PATH.items their checksums
//!     out/PATH               outputs of tasks, PATH.items their checksums
//!     documents/TASK/N       copies of the files of a slice
//!     view/TASK              the run directory as one task sees it: links to all of these
//!     logs/TASK.log
//! DIR/cache/SUM-BYTES        files that stay for later runs
//! ```
//!
//! A host that shares the directory of the run works in that, and nothing is copied.

use crate::base::{
    error::{Error, Place, Result},
    files::atomic_dir,
};
use crate::cluster::{
    plan::{PLAN_FILE, Plan, Task},
    run::output_state::{OutputState, output_state},
    scheduler::Inventory,
    worker::file_cache::FileCache,
    worker::protocol::{Parcel, TransferItem},
    worker::transfer::{Shelf, TransferError, below, checksum_of, list},
};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// The file with the mark of a directory.
const DIRECTORY_ID: &str = "directory.id";

/// The files of a run on a host.
pub struct HostStore {
    root: PathBuf,
    /// Whether this is the directory of the run itself.
    is_run: bool,
    cache: Option<FileCache>,
}

/// The directory that a task sees as the run, and copies of its documents.
pub struct TaskView {
    pub run: PathBuf,
    pub copies: Option<PathBuf>,
}

impl HostStore {
    /// The store of a run below the directory of a host.
    pub fn of_host(directory: &Path, run: &str) -> Self {
        Self {
            root: directory.join(run),
            is_run: false,
            cache: Some(FileCache::new(directory.join("cache"))),
        }
    }

    /// The directory of a run itself, where the host shares it.
    pub fn of_run(run: &Path) -> Self {
        Self {
            root: run.to_owned(),
            is_run: true,
            cache: None,
        }
    }

    /// The files that stay for later runs, unless the run's own directory is used.
    pub fn cache(&self) -> Option<&FileCache> {
        self.cache.as_ref()
    }

    /// The mark of the directory of the host, which is written once: hosts that find the same mark
    /// share the directory, as with homes on NFS. None where the directory of the run is used.
    ///
    /// A mark may also have been copied with a home, so files of another host are looked for before
    /// they are relied on.
    pub fn directory_id(&self) -> Result<Option<String>> {
        let Some(directory) = self.root.parent().filter(|_| !self.is_run) else {
            return Ok(None);
        };
        let path = directory.join(DIRECTORY_ID);
        let failed = |error| Error::io(path.display(), error);
        if !path.exists() {
            // The file appears whole, and the first one stays.
            let beside = tempfile::NamedTempFile::new_in(directory).map_err(failed)?;
            let name = beside.path().file_name().unwrap_or_default();
            let mark = format!("{}{}", name.to_string_lossy(), std::process::id());
            fs::write(beside.path(), mark).map_err(failed)?;
            match fs::hard_link(beside.path(), &path) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(failed(error));
                }
                _ => {}
            }
        }
        fs::read_to_string(&path).map(Some).map_err(failed)
    }

    /// The files that another host with the same directory has of the run.
    pub fn neighbour(&self, run: &str) -> Result<Self, TransferError> {
        let directory = self.root.parent().unwrap_or(Path::new(""));
        Ok(Self {
            root: below(directory, run)?,
            is_run: false,
            cache: None,
        })
    }

    /// Links to a path of a neighbour, after checking that it is whole.
    pub fn link(&self, neighbour: &Self, path: &str, keep: bool) -> Result<(), TransferError> {
        let (place, items) = neighbour.items(path)?;
        let target = self.target(path)?;
        remove(&target)?;
        for item in &items {
            let join = |root: &Path| match item.path.as_str() {
                "" => Ok(root.to_owned()),
                path => below(root, path),
            };
            let (from, to) = (join(&place)?, join(&target)?);
            let is_whole =
                checksum_of(&from).is_ok_and(|(bytes, sum)| bytes == item.bytes && sum == item.sum);
            make_parent(&to)?;
            if !is_whole || fs::hard_link(&from, &to).is_err() {
                remove(&target)?;
                return Err(TransferError::Damaged(format!(
                    "{}: is not whole",
                    from.display()
                )));
            }
        }
        self.brought(path, &items, keep)
    }

    /// Reads the plan.
    pub fn plan(&self) -> Result<Plan> {
        Plan::read(&self.root)
    }

    /// Where a file that is received goes.
    pub fn target(&self, path: &str) -> Result<PathBuf, TransferError> {
        if path == PLAN_FILE || self.is_run {
            below(&self.root, path)
        } else {
            below(&self.root.join("in"), path)
        }
    }

    /// Where documents of a task are copied to.
    pub fn documents(&self, task: &Task) -> PathBuf {
        self.root.join("documents").join(&task.id)
    }

    /// Creates the log of a task.
    pub fn log(&self, task: &Task) -> Result<(PathBuf, File)> {
        crate::cluster::engines::open_log(
            &self.root,
            &format!("{}-{}", task.id, std::process::id()),
        )
    }

    fn output(&self, path: &str) -> Result<PathBuf, TransferError> {
        below(&self.root.join("out"), path)
    }

    /// Where a path is, whether it was made here or received.
    fn find(&self, path: &str) -> Result<PathBuf, TransferError> {
        if self.is_run {
            return below(&self.root, path);
        }
        let made = self.output(path)?;
        if made.exists() {
            Ok(made)
        } else {
            self.target(path)
        }
    }

    /// Where a path is, and its list of files: as recorded when it was made or received, if there
    /// is a record.
    pub fn items(&self, path: &str) -> Result<(PathBuf, Vec<TransferItem>), TransferError> {
        let place = self.find(path)?;
        if !place.exists() {
            return Err(TransferError::Damaged(format!(
                "{}: is not there",
                place.display()
            )));
        }
        for whole in Path::new(path)
            .ancestors()
            .filter(|whole| !whole.as_os_str().is_empty())
        {
            let root = self.find(&whole.to_string_lossy())?;
            if let Some(items) = read_items(&root) {
                return Ok((
                    place.clone(),
                    items_below(&items, place.strip_prefix(&root).unwrap_or(Path::new(""))),
                ));
            }
        }
        let items = list(&place)?;
        Ok((place, items))
    }

    /// Paths that are here, each with its files, to be sent. `keep`: where they go, also for later
    /// runs.
    pub fn shelves(&self, paths: &[String], keep: bool) -> Result<Vec<Shelf>, TransferError> {
        let shelf = |path: &String| {
            let (root, items) = self.items(path).map_err(|fault| match fault {
                TransferError::Damaged(what) => {
                    TransferError::DamagedFiles(vec![path.clone()], what)
                }
                fault => fault,
            })?;
            let path = path.clone();
            let parcel = Parcel { path, items, keep };
            Ok(Shelf { root, parcel })
        };
        paths.iter().map(shelf).collect()
    }

    /// Records the files that were received. `keep`: also for later runs.
    pub fn brought(
        &self,
        path: &str,
        items: &[TransferItem],
        keep: bool,
    ) -> Result<(), TransferError> {
        let target = self.target(path)?;
        if !self.is_run && path != PLAN_FILE {
            write_items(&target, items)?;
        }
        if keep {
            self.keep(&target, items);
        }
        Ok(())
    }

    /// Keeps files in the cache, for later runs.
    pub fn keep(&self, root: &Path, items: &[TransferItem]) {
        for item in items {
            if let Some(cache) = &self.cache {
                cache.keep(
                    item,
                    &if item.path.is_empty() {
                        root.to_owned()
                    } else {
                        root.join(&item.path)
                    },
                );
            }
        }
    }

    /// Lists the files that are intact. Removes leftovers of dead processes.
    pub fn inventory(&self, plan: &Plan) -> Result<Inventory, TransferError> {
        let mut inventory = Inventory::default();
        if self.is_run {
            return Ok(inventory);
        }
        self.sweep();
        for task in &plan.tasks {
            let output = self.output(&task.output)?;
            output
                .parent()
                .iter()
                .for_each(|parent| atomic_dir::sweep(parent));
            match output_state(plan, task, &self.root.join("out")) {
                OutputState::Done => {
                    write_items(&output, &list(&output)?)?;
                    inventory.paths.push(task.output.clone());
                }
                OutputState::Damaged(_) | OutputState::Partial => remove(&output)?,
                OutputState::Missing => {}
            }
        }
        let inputs: BTreeSet<&String> = plan.tasks.iter().flat_map(|task| &task.inputs).collect();
        let is_above = |path: &str| {
            inputs
                .iter()
                .any(|other| **other != path && Path::new(other).starts_with(path))
        };
        // A directory that other inputs are in was not received as a whole.
        for path in inputs.iter().copied().filter(|path| !is_above(path)) {
            let target = self.target(path)?;
            target
                .parent()
                .iter()
                .for_each(|parent| atomic_dir::sweep(parent));
            match read_items(&target) {
                Some(items) if target.exists() && list(&target)? == items => {
                    inventory.paths.push(path.clone())
                }
                _ => remove(&target)?,
            }
        }
        Ok(inventory)
    }

    /// Removes the oldest files of the cache, and runs and programs that were not used for longer
    /// than `age`, but for `program`.
    pub fn prune(&self, bytes: u64, age: Duration, program: &Path) {
        let Some(cache) = &self.cache else { return };
        cache.prune(bytes, age);
        let Some(directory) = self.root.parent() else {
            return;
        };
        let is_old = |path: &Path| {
            let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
            modified.is_ok_and(|modified| {
                SystemTime::now()
                    .duration_since(modified)
                    .is_ok_and(|since| since > age)
            })
        };
        let below = |directory: &Path| {
            fs::read_dir(directory)
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.path())
                .collect::<Vec<_>>()
        };
        // A plan is written each time that a run connects, and a program is touched.
        let runs = below(directory)
            .into_iter()
            .filter(|path| *path != self.root && is_old(&path.join(PLAN_FILE)));
        let programs = below(&directory.join("bin")).into_iter().filter(|path| {
            let shipped = path.join("dedup-shard");
            shipped != program && is_old(&shipped)
        });
        runs.chain(programs)
            .for_each(|path| drop(fs::remove_dir_all(path)));
    }

    /// Removes what only running tasks need.
    pub fn sweep(&self) {
        for name in ["view", "documents", "logs"] {
            if !self.is_run || name == "documents" {
                let _ = fs::remove_dir_all(self.root.join(name));
            }
        }
    }

    /// Lays out the directory that a task sees. An input that is missing was lost.
    pub fn view(&self, task: &Task, is_staged: bool) -> Result<TaskView, TransferError> {
        let copies = is_staged.then(|| self.documents(task));
        if self.is_run {
            return Ok(TaskView {
                run: self.root.clone(),
                copies,
            });
        }
        let run = self
            .root
            .join("view")
            .join(format!("{}-{}", task.id, std::process::id()));
        remove(&run)?;
        link(&self.root.join(PLAN_FILE), &run.join(PLAN_FILE))?;
        for input in &task.inputs {
            let place = self.find(input)?;
            if !place.exists() {
                return Err(TransferError::DamagedFiles(
                    vec![input.clone()],
                    format!("{}: is not there", place.display()),
                ));
            }
            link(&place, &below(&run, input)?)?;
        }
        Ok(TaskView { run, copies })
    }

    /// The inputs of a task that have changed since they were received or made. They are removed,
    /// with the whole output they belong to.
    pub fn spoilt(&self, task: &Task) -> Result<Vec<String>, TransferError> {
        let mut spoilt = Vec::new();
        for input in task.inputs.iter().filter(|_| !self.is_run) {
            let is_whole = self
                .items(input)
                .is_ok_and(|(place, items)| list(&place).is_ok_and(|found| found == items));
            if !is_whole {
                remove(&self.target(input)?)?;
                // An output that was made here is removed as a whole, since its record is wrong.
                let made = Path::new(input)
                    .ancestors()
                    .filter_map(Path::to_str)
                    .filter(|path| !path.is_empty());
                for output in made
                    .map(|path| self.output(path))
                    .collect::<Result<Vec<_>, _>>()?
                {
                    if read_items(&output).is_some() {
                        remove(&output)?;
                        remove(&items_name(&output))?;
                    }
                }
                spoilt.push(input.clone());
            }
        }
        Ok(spoilt)
    }

    /// Takes over the output of a task, if it is complete. Returns its size.
    pub fn accept(&self, plan: &Plan, task: &Task, view: &TaskView) -> Result<u64, TransferError> {
        match output_state(plan, task, &view.run) {
            OutputState::Done => {}
            OutputState::Missing | OutputState::Partial => {
                return Err(TransferError::Damaged("its output is not there".to_owned()));
            }
            OutputState::Damaged(what) => return Err(TransferError::Damaged(what)),
        }
        let made = below(&view.run, &task.output)?;
        if self.is_run {
            return Ok(crate::cluster::run::event_log::bytes_of(&made));
        }
        let items = list(&made)?;
        let output = self.output(&task.output)?;
        remove(&output)?;
        make_parent(&output)?;
        fs::rename(&made, &output).map_err(|error| Error::io(output.display(), error))?;
        write_items(&output, &items)?;
        Ok(items.iter().map(|item| item.bytes).sum())
    }

    /// Removes the directory that a task saw, and its documents.
    pub fn close(&self, task: &Task, view: &TaskView) {
        if !self.is_run {
            let _ = fs::remove_dir_all(&view.run);
        }
        let _ = fs::remove_dir_all(self.documents(task));
    }

    /// Whether the output of a task is complete.
    pub fn is_output_there(&self, plan: &Plan, task: &Task) -> bool {
        !self.is_run && output_state(plan, task, &self.root.join("out")) == OutputState::Done
    }

    /// Removes the run from the host.
    pub fn clean(&self) -> Result<()> {
        if self.is_run {
            Ok(())
        } else {
            remove(&self.root)
        }
    }

    /// Ensures that this directory is named after the received plan.
    pub fn ensure_plan(&self, plan: &Plan) -> Result<()> {
        let name = self.root.file_name().unwrap_or_default().to_string_lossy();
        let is_ours = self.is_run || name.split('-').next() == Some(plan.checksum().as_str());
        if is_ours {
            Ok(())
        } else {
            Err(Error::damaged(
                Place::path(&self.root),
                "holds another plan",
            ))
        }
    }
}

/// The file that records the checksums of a path.
fn items_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".items");
    name.into()
}

fn read_items(path: &Path) -> Option<Vec<TransferItem>> {
    fs::read(items_name(path))
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
}

fn write_items(path: &Path, items: &[TransferItem]) -> Result<()> {
    let name = items_name(path);
    let json = serde_json::to_vec(items).unwrap_or_default();
    fs::write(&name, json).map_err(|error| Error::io(name.display(), error))
}

/// The files below a part of a path.
fn items_below(items: &[TransferItem], part: &Path) -> Vec<TransferItem> {
    let below = |item: &TransferItem| {
        let path = Path::new(&item.path).strip_prefix(part).ok()?;
        Some(TransferItem {
            path: path.to_str()?.to_owned(),
            ..item.clone()
        })
    };
    items.iter().filter_map(below).collect()
}

fn make_parent(path: &Path) -> Result<()> {
    path.parent().map_or(Ok(()), |parent| {
        fs::create_dir_all(parent).map_err(|error| Error::io(parent.display(), error))
    })
}

fn link(to: &Path, at: &Path) -> Result<()> {
    make_parent(at)?;
    symlink(to, at).map_err(|error| Error::io(at.display(), error))
}

/// Removes a file or a directory, if there is one.
pub fn remove(path: &Path) -> Result<()> {
    let done = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match done {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io(path.display(), error))
        }
        _ => Ok(()),
    }
}
