//! The files of one run on a host.
//!
//! ```text
//! DIR/SUM-OWNER/             the checksum of the plan, and whose run it is: two runs of one plan do not meet
//!     plan.json
//!     in/PATH                what was brought, PATH.items its checksums
//!     out/PATH               what tasks made here, PATH.items its checksums
//!     documents/TASK/N       copies of the files of a slice
//!     view/TASK              what one task sees: links to all of these, as in the directory of a run
//!     logs/TASK.log
//! DIR/cache/SUM-BYTES        files that stay for later runs
//! ```
//!
//! A host that shares the directory of the run works in that, and nothing is copied.

use super::{
    cache::Cache,
    engine::Inventory,
    plan::{PLAN_FILE, Plan, Task},
    protocol::Item,
    state::{State, state},
    transfer::{Fault, below, list},
};
use crate::base::{
    error::{Error, Place, Result},
    files::atomic_dir,
};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

pub struct Store {
    root: PathBuf,
    /// It is the directory of the run itself.
    is_run: bool,
    cache: Option<Cache>,
}

/// What a task sees, and where what it needs of its documents is.
pub struct View {
    pub run: PathBuf,
    pub copies: Option<PathBuf>,
}

impl Store {
    /// Of a run in the directory of a host.
    pub fn of_host(directory: &Path, run: &str) -> Self {
        Self {
            root: directory.join(run),
            is_run: false,
            cache: Some(Cache::new(directory.join("cache"))),
        }
    }

    /// The directory of a run itself.
    pub fn of_run(run: &Path) -> Self {
        Self {
            root: run.to_owned(),
            is_run: true,
            cache: None,
        }
    }

    pub fn cache(&self) -> Option<&Cache> {
        self.cache.as_ref()
    }

    pub fn plan(&self) -> Result<Plan> {
        Plan::read(&self.root)
    }

    /// Where something that is brought goes.
    pub fn target(&self, path: &str) -> Result<PathBuf, Fault> {
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

    pub fn log(&self, task: &Task) -> Result<(PathBuf, File)> {
        super::engine::log_of(&self.root, &format!("{}-{}", task.id, std::process::id()))
    }

    fn output(&self, path: &str) -> Result<PathBuf, Fault> {
        below(&self.root.join("out"), path)
    }

    /// Where something is, made or brought.
    fn find(&self, path: &str) -> Result<PathBuf, Fault> {
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

    /// Where something is, and what it consists of: as it was when it was made or brought, if that is known.
    pub fn items(&self, path: &str) -> Result<(PathBuf, Vec<Item>), Fault> {
        let place = self.find(path)?;
        if !place.exists() {
            return Err(Fault::Damaged(format!("{}: is not there", place.display())));
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

    /// Notes what was brought, so that it is known again; `keep`: for later runs, too.
    pub fn brought(&self, path: &str, items: &[Item], keep: bool) -> Result<(), Fault> {
        let target = self.target(path)?;
        if !self.is_run && path != PLAN_FILE {
            write_items(&target, items)?;
        }
        if keep {
            self.keep(&target, items);
        }
        Ok(())
    }

    /// Keeps files for later runs.
    pub fn keep(&self, root: &Path, items: &[Item]) {
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

    /// What there is and is whole. What the dead left is removed.
    pub fn inventory(&self, plan: &Plan) -> Result<Inventory, Fault> {
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
            match state(plan, task, &self.root.join("out")) {
                State::Done => {
                    write_items(&output, &list(&output)?)?;
                    inventory.paths.push(task.output.clone());
                }
                State::Damaged(_) | State::Partial => remove(&output)?,
                State::Missing => {}
            }
        }
        let inputs: BTreeSet<&String> = plan.tasks.iter().flat_map(|task| &task.inputs).collect();
        let is_above = |path: &str| {
            inputs
                .iter()
                .any(|other| **other != path && Path::new(other).starts_with(path))
        };
        // What others lie in was not brought by itself.
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

    /// Removes the oldest of what is kept for later runs; and runs and programs that nobody came back to. `program`: the one that is at work.
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
        // The plan is written each time that somebody comes, a program is touched.
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

    /// Removes what only tasks that are run need.
    pub fn sweep(&self) {
        for name in ["view", "documents", "logs"] {
            if !self.is_run || name == "documents" {
                let _ = fs::remove_dir_all(self.root.join(name));
            }
        }
    }

    /// Lays out what a task sees. What is not there was lost.
    pub fn view(&self, task: &Task, is_staged: bool) -> Result<View, Fault> {
        let copies = is_staged.then(|| self.documents(task));
        if self.is_run {
            return Ok(View {
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
                return Err(Fault::Spoilt(
                    vec![input.clone()],
                    format!("{}: is not there", place.display()),
                ));
            }
            link(&place, &below(&run, input)?)?;
        }
        Ok(View { run, copies })
    }

    /// Which inputs of a task are not what they were when they came, or were made. They are removed, with all that was made with them.
    pub fn spoilt(&self, task: &Task) -> Result<Vec<String>, Fault> {
        let mut spoilt = Vec::new();
        for input in task.inputs.iter().filter(|_| !self.is_run) {
            let is_whole = self
                .items(input)
                .is_ok_and(|(place, items)| list(&place).is_ok_and(|found| found == items));
            if !is_whole {
                remove(&self.target(input)?)?;
                // What was made here goes as a whole: the record of it counts no more.
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

    /// Takes over what a task made, if it is whole. Gives its bytes.
    pub fn accept(&self, plan: &Plan, task: &Task, view: &View) -> Result<u64, Fault> {
        match state(plan, task, &view.run) {
            State::Done => {}
            State::Missing | State::Partial => {
                return Err(Fault::Damaged("its output is not there".to_owned()));
            }
            State::Damaged(what) => return Err(Fault::Damaged(what)),
        }
        let made = below(&view.run, &task.output)?;
        if self.is_run {
            return Ok(super::events::bytes_of(&made));
        }
        let items = list(&made)?;
        let output = self.output(&task.output)?;
        remove(&output)?;
        make_parent(&output)?;
        fs::rename(&made, &output).map_err(|error| Error::io(output.display(), error))?;
        write_items(&output, &items)?;
        Ok(items.iter().map(|item| item.bytes).sum())
    }

    /// Removes what a task saw and no other does.
    pub fn close(&self, task: &Task, view: &View) {
        if !self.is_run {
            let _ = fs::remove_dir_all(&view.run);
        }
        let _ = fs::remove_dir_all(self.documents(task));
    }

    pub fn is_output_there(&self, plan: &Plan, task: &Task) -> bool {
        !self.is_run && state(plan, task, &self.root.join("out")) == State::Done
    }

    /// Removes the run from the host.
    pub fn clean(&self) -> Result<()> {
        if self.is_run {
            Ok(())
        } else {
            remove(&self.root)
        }
    }

    /// That the plan which came is the one that this is the directory of.
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

/// Where the checksums of something are kept.
fn items_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".items");
    name.into()
}

fn read_items(path: &Path) -> Option<Vec<Item>> {
    fs::read(items_name(path))
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
}

fn write_items(path: &Path, items: &[Item]) -> Result<()> {
    let name = items_name(path);
    let json = serde_json::to_vec(items).unwrap_or_default();
    fs::write(&name, json).map_err(|error| Error::io(name.display(), error))
}

/// Those of a part of something.
fn items_below(items: &[Item], part: &Path) -> Vec<Item> {
    let below = |item: &Item| {
        let path = Path::new(&item.path).strip_prefix(part).ok()?;
        Some(Item {
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
