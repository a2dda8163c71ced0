//! Files that flags of a plan name: they go with the run.

use crate::cluster::{PlanOptions, select_name};
use anyhow::Context;
use std::fs;

/// Reads the files that --select names, and lets the flag name what stands in the run instead: hosts have no others.
pub fn take_files(options: &mut PlanOptions) -> Result<Vec<Vec<u8>>, anyhow::Error> {
    let mut files = Vec::new();
    for flag in options
        .flags
        .iter_mut()
        .filter(|flag| flag.starts_with("--select="))
    {
        let mut parts = Vec::new();
        for part in flag["--select=".len()..].split(',') {
            let named = part
                .split_once(':')
                .filter(|(name, _)| ["anchor", "spex"].contains(name));
            parts.push(match named {
                Some((name, file)) => {
                    files.push(fs::read(file).with_context(|| file.to_owned())?);
                    format!("{name}:{}", select_name(files.len() - 1))
                }
                None => part.to_owned(),
            });
        }
        *flag = format!("--select={}", parts.join(","));
    }
    options.selects = files.len();
    Ok(files)
}
