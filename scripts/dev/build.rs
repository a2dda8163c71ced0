//! Identifies the build: a checksum of all sources, the versions of all dependencies, and the features.
//!
//! Programs of one version can differ. Hosts that work on one index must have the same program, so that they make the same bytes.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

fn main() -> io::Result<()> {
    let mut files = vec![PathBuf::from("Cargo.lock"), PathBuf::from("Cargo.toml")];
    add_files(Path::new("src"), &mut files)?;
    files.sort();
    let mut sum = Fnv::default();
    for file in files.iter().filter(|file| file.exists()) {
        sum.add(file.to_string_lossy().as_bytes());
        sum.add(&fs::read(file)?);
    }
    let mut features: Vec<String> = env::vars()
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("CARGO_FEATURE_"))
        .collect();
    features.sort();
    features
        .iter()
        .for_each(|feature| sum.add(feature.as_bytes()));
    println!("cargo::rustc-env=DEDUP_BUILD={:016x}", sum.0);
    for path in ["src", "Cargo.lock", "Cargo.toml", "scripts/dev/build.rs"] {
        println!("cargo::rerun-if-changed={path}");
    }
    Ok(())
}

fn add_files(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            add_files(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// FNV-1a with 64 bits: the same in every version of the compiler.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Adds some bytes, and their number, so that two pieces are not one.
    fn add(&mut self, bytes: &[u8]) {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes();
        for byte in length.iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
