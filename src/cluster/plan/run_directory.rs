//! The directory of a run as `plan` writes it: slices and Makefile first, plan.json last.

use super::{PLAN_FILE, Plan, export::makefile, selection_file};
use crate::base::{
    error::{Error, Place, Result},
    files::durable,
};
use std::{ffi::OsStr, fs, os::unix::fs::PermissionsExt, path::Path};

/// What a plan that was not completed may leave.
const UNFINISHED: [&str; 4] = ["slices", "select", "Makefile", "plan.json.new"];

/// Makes the directory of a run, readable for its owner only. The same plan may be written again;
/// another one is refused.
///
/// `slices`: the contents of the slice files; `selection_files`: of the files that the selection of
/// blots names.
pub fn write_plan(
    plan: &Plan,
    slices: &[String],
    selection_files: &[Vec<u8>],
    run: &Path,
) -> Result<()> {
    let json = plan.to_json();
    if let Ok(before) = fs::read_to_string(run.join(PLAN_FILE)) {
        if before == json {
            return Ok(());
        }
        return Err(Error::damaged(
            Place::path(run),
            "holds another plan; choose another name, or remove it first",
        ));
    }
    ensure_unused(run)?;
    let failed = |error| Error::io(run.display(), error);
    durable::create_private_dir_all(&run.join("slices"))?;
    fs::set_permissions(run, fs::Permissions::from_mode(0o700)).map_err(failed)?;
    for (slice, text) in plan.slices.iter().zip(slices) {
        fs::write(run.join(&slice.file), text).map_err(failed)?;
    }
    if !selection_files.is_empty() {
        durable::create_dir_all(&run.join("select"))?;
    }
    for (number, bytes) in selection_files.iter().enumerate() {
        fs::write(run.join(selection_file(number)), bytes).map_err(failed)?;
    }
    fs::write(run.join("Makefile"), makefile(plan)).map_err(failed)?;
    // The rest is on disk before the plan says that it is there.
    durable::sync_tree(run)?;
    durable::replace(&run.join(PLAN_FILE), json.as_bytes())?;
    durable::sync_ancestors(run)
}

/// Refuses a directory that holds other files.
fn ensure_unused(run: &Path) -> Result<()> {
    let is_ours = |name: &OsStr| UNFINISHED.iter().any(|ours| name == *ours);
    let other = fs::read_dir(run)
        .into_iter()
        .flatten()
        .flatten()
        .find(|entry| !is_ours(&entry.file_name()));
    other.map_or(Ok(()), |other| {
        let what = format!(
            "holds {:?}, which does not belong to a run; choose another name",
            other.file_name()
        );
        Err(Error::damaged(Place::path(run), what))
    })
}
