//! Pages that were made, for a while, under names that cannot be guessed.

use crate::base::{
    error::{Error, Result},
    parallel::lock,
};
use std::{
    collections::VecDeque,
    fmt::Write as _,
    fs::File,
    io::Read,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

/// How long a page is kept.
pub const KEPT: Duration = Duration::from_secs(24 * 3600);
/// The memory for all pages; the oldest ones give way.
const MOST_BYTES: usize = 256 << 20;
/// The bytes of a name before they are written in hexadecimal digits.
const NAME_BYTES: usize = 16;

/// Pages by name, in order of age.
pub struct PageStore {
    pages: Mutex<VecDeque<KeptPage>>,
    most_bytes: usize,
    kept: Duration,
}

struct KeptPage {
    name: String,
    made: Instant,
    html: Arc<[u8]>,
}

impl Default for PageStore {
    fn default() -> Self {
        Self::new(MOST_BYTES, KEPT)
    }
}

impl PageStore {
    fn new(most_bytes: usize, kept: Duration) -> Self {
        Self {
            pages: Mutex::default(),
            most_bytes,
            kept,
        }
    }

    /// Keeps a page; returns its name.
    pub fn keep(&self, html: Vec<u8>) -> Result<String> {
        let name = random_name()?;
        let mut pages = self.without_old();
        let mut used: usize = html.len() + pages.iter().map(|page| page.html.len()).sum::<usize>();
        while used > self.most_bytes
            && let Some(oldest) = pages.pop_front()
        {
            used -= oldest.html.len();
        }
        pages.push_back(KeptPage {
            name: name.clone(),
            made: Instant::now(),
            html: html.into(),
        });
        Ok(name)
    }

    /// A page, if it is still there.
    pub fn get(&self, name: &str) -> Option<Arc<[u8]>> {
        let pages = self.without_old();
        let page = pages.iter().find(|page| page.name == name)?;
        Some(page.html.clone())
    }

    fn without_old(&self) -> MutexGuard<'_, VecDeque<KeptPage>> {
        let mut pages = lock(&self.pages);
        while pages
            .front()
            .is_some_and(|page| page.made.elapsed() > self.kept)
        {
            pages.pop_front();
        }
        pages
    }
}

fn random_name() -> Result<String> {
    let mut bytes = [0; NAME_BYTES];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(|error| Error::io("/dev/urandom", error))?;
    Ok(bytes.iter().fold(String::new(), |mut name, byte| {
        // Writing to a string cannot fail.
        let _ = write!(name, "{byte:02x}");
        name
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_pages_give_way() {
        let store = PageStore::new(10, KEPT);
        let names: Vec<String> = (0..4_u8)
            .map(|page| store.keep(vec![page; 4]).unwrap())
            .collect();
        let kept: Vec<bool> = names.iter().map(|name| store.get(name).is_some()).collect();
        assert_eq!(kept, [false, false, true, true]);
        assert_eq!(store.get(&names[3]).as_deref(), Some(&[3; 4][..]));
        assert!(names[3].len() == 32 && store.get("").is_none());
        // A single page may be larger.
        let large = store.keep(vec![0; 100]).unwrap();
        assert!(store.get(&large).is_some() && store.get(&names[3]).is_none());
        let brief = PageStore::new(10, Duration::ZERO);
        let name = brief.keep(vec![1]).unwrap();
        std::hint::black_box(&name);
        while brief.get(&name).is_some() {}
    }
}
