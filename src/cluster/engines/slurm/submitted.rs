//! Submitting job arrays, and the record of what was submitted.

use super::{
    commands::{call, cancel},
    jobs::{JobArray, SlurmJobs, arrays_of_stage, before},
};
use crate::base::{
    error::{Error, Place, Result},
    files::durable,
};
use serde::{Deserialize, Serialize};
use std::{fs, path::Path};

/// The name of the record in the directory of a run.
const JOBS_FILE: &str = "slurm.json";

/// The arrays that were submitted, so that a run that is resumed finds the logs and submits nothing
/// twice.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SubmittedJobs {
    pub jobs: Vec<SubmittedArray>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SubmittedArray {
    pub id: String,
    pub stage: usize,
    pub first: usize,
    pub indices: Vec<usize>,
    pub each: usize,
}

impl SubmittedArray {
    pub fn array(&self) -> JobArray {
        JobArray {
            stage: self.stage,
            first: self.first,
            indices: self.indices.clone(),
            each: self.each,
        }
    }
}

impl SubmittedJobs {
    pub fn read(run: &Path) -> Result<Self> {
        let path = run.join(JOBS_FILE);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                Error::damaged(
                    Place::path(&path),
                    format!("not a list of jobs: {error}; remove it"),
                )
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Error::io(path.display(), error)),
        }
    }

    pub fn write(&self, run: &Path) -> Result<()> {
        let path = run.join(JOBS_FILE);
        let text =
            serde_json::to_vec(self).map_err(|error| Error::io(path.display(), error.into()))?;
        durable::replace(&path, &text)
    }
}

/// Submits arrays. Each id is on disk before the next array is submitted; if one is refused, those
/// before it are cancelled.
pub(super) fn submit(
    jobs: &SlurmJobs<'_>,
    arrays: &[JobArray],
    run: &Path,
    record: &mut SubmittedJobs,
) -> Result<Vec<SubmittedArray>> {
    let mut submitted = Vec::<SubmittedArray>::new();
    for array in arrays {
        let mut words = jobs.arguments(array, arrays_of_stage(arrays, array));
        let after: String = before(arrays, array)
            .iter()
            .map(|&number| format!(":{}", submitted[number].id))
            .collect();
        if !after.is_empty() {
            words.push(format!("--dependency=afterok{after}"));
        }
        let submission = call("sbatch", &words, &jobs.script(array)).and_then(|output| {
            // With several clusters: the id, a semicolon, the cluster.
            let id = output
                .lines()
                .last()
                .and_then(|line| line.split(';').next())
                .map(str::trim)
                .unwrap_or_default()
                .to_owned();
            let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
            if is_id {
                Ok(id)
            } else {
                Err(Error::Usage(format!(
                    "sbatch said '{}', which is not the number of a job",
                    output.trim()
                )))
            }
        });
        let id = submission
            .inspect_err(|_| cancel(submitted.iter().map(|job| job.id.as_str()), false))?;
        let JobArray {
            stage,
            first,
            indices,
            each,
        } = array.clone();
        submitted.push(SubmittedArray {
            id,
            stage,
            first,
            indices,
            each,
        });
        record.jobs.extend(submitted.last().cloned());
        record.write(run)?;
    }
    Ok(submitted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submitted_jobs_are_stored_and_read_back() {
        let run = tempfile::tempdir().unwrap();
        let mut record = SubmittedJobs::read(run.path()).unwrap();
        assert_eq!(record.jobs, []);
        record.jobs.push(SubmittedArray {
            id: "7".to_owned(),
            stage: 1,
            first: 1000,
            indices: vec![0, 2],
            each: 3,
        });
        record.write(run.path()).unwrap();
        assert_eq!(SubmittedJobs::read(run.path()).unwrap().jobs, record.jobs);
        assert_eq!(record.jobs[0].array().indices, [0, 2]);
        fs::write(run.path().join(JOBS_FILE), "{").unwrap();
        assert!(
            SubmittedJobs::read(run.path())
                .unwrap_err()
                .to_string()
                .contains("slurm.json: not a list of jobs")
        );
    }
}
