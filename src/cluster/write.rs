//! A plan on disk: the slices and the Makefile first, plan.json last.

use super::{
    makefile::makefile,
    plan::{NAME, Plan, select_name},
};
use crate::base::{
    error::{Error, Place, Result},
    files::durable,
};
use std::{fs, path::Path};

/// Makes the directory of a run, for its owner alone: `selects` are the files that flags name. The same plan may be written again; another one is refused.
pub fn write_plan(plan: &Plan, slices: &[String], selects: &[Vec<u8>], run: &Path) -> Result<()> {
    let (json, makefile) = (plan.to_json(), makefile(plan)?);
    let failed = |error| Error::io(run.display(), error);
    if let Ok(before) = fs::read_to_string(run.join(NAME)) {
        if before == json {
            return Ok(());
        }
        return Err(Error::damaged(
            Place::path(run),
            "holds another plan; choose another name, or remove it first",
        ));
    }
    let is_used = |name: &std::ffi::OsStr| {
        !["slices", "select", "Makefile", "plan.json.new"]
            .iter()
            .any(|ours| name == *ours)
    };
    let odd = fs::read_dir(run)
        .into_iter()
        .flatten()
        .flatten()
        .find(|entry| is_used(&entry.file_name()));
    if let Some(odd) = odd {
        let what = format!(
            "holds {:?}, which is not of a run; choose another name",
            odd.file_name()
        );
        return Err(Error::damaged(Place::path(run), what));
    }
    durable::create_private_dir_all(&run.join("slices"))?;
    fs::set_permissions(run, std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .map_err(failed)?;
    for (slice, text) in plan.slices.iter().zip(slices) {
        fs::write(run.join(&slice.file), text).map_err(failed)?;
    }
    if !selects.is_empty() {
        durable::create_dir_all(&run.join("select"))?;
    }
    for (number, bytes) in selects.iter().enumerate() {
        fs::write(run.join(select_name(number)), bytes).map_err(failed)?;
    }
    fs::write(run.join("Makefile"), makefile).map_err(failed)?;
    // The rest is on disk before the plan says that it is there.
    durable::sync_tree(run)?;
    durable::replace(&run.join(NAME), json.as_bytes())?;
    durable::sync_ancestors(run)
}
