//! Which files could not be read to their ends.

use crate::{
    base::error::Problem,
    commands::Observer,
    text::corpus::{self, Account, SkippedFile},
};
use std::collections::BTreeSet;

/// Notes which files could not be read to their ends.
pub struct DamageWatch<'w> {
    /// Receives all that is observed.
    pub watch: &'w mut dyn Observer,
    /// The files.
    pub damaged: &'w mut BTreeSet<String>,
}

impl Observer for DamageWatch<'_> {
    fn problem(&mut self, problem: &Problem) {
        if corpus::ends_a_file(problem) {
            self.damaged.insert(problem.place.file.to_string());
        }
        self.watch.problem(problem);
    }

    fn progress(&mut self, bytes: u64, documents: u64) {
        self.watch.progress(bytes, documents);
    }

    fn left_out(&mut self, left: &SkippedFile) {
        if left.is_damaged() {
            self.damaged.insert(left.problem.place.file.to_string());
        }
        self.watch.left_out(left);
    }

    fn account(&mut self, account: &Account) {
        self.watch.account(account);
    }
}
