//! Messages while a program runs: problems as they occur, and a progress bar on a terminal.

use super::console::{ProgressMode, mode};
pub use super::console::{say, say_lines};
use super::{
    account_file,
    args::RunArgs,
    bar::{Bar, Unit},
    output::grouped,
};
use crate::{
    base::{
        codec::escape_unsafe,
        error::{At, Problem},
    },
    commands::Observer,
    report::html::counted,
    similar::Boilerplate,
    text::corpus::{Account, SkipReason, SkippedFile, SkippedKind, total_bytes},
};
use std::{
    collections::BTreeMap,
    io::{IsTerminal, stdin, stdout},
};

pub struct Progress {
    tool: String,
    quiet: bool,
    severity: &'static str,
    bar: Bar,
    documents: u64,
    account: Option<Account>,
    named: Named,
    records: BadRecords,
}

/// Records that could not be used are named up to a number, unless all are wanted.
#[derive(Default)]
pub struct BadRecords {
    all: bool,
    count: u64,
}

/// The number of bad records that are reported one by one: a file of another format would name each of its lines.
const NAMED_RECORDS: u64 = 20;

impl BadRecords {
    /// With -v, all are named.
    fn new(all: bool) -> Self {
        Self { all, count: 0 }
    }

    /// Whether to name a problem, if it is one of a record.
    fn is_named(&mut self, problem: &Problem) -> bool {
        if problem.place.at == At::Whole {
            return true;
        }
        self.count += 1;
        self.all || self.count <= NAMED_RECORDS
    }

    /// The message about the others.
    fn others(&self) -> Option<String> {
        let others = self.count.saturating_sub(NAMED_RECORDS);
        (others > 0 && !self.all).then(|| {
            format!(
                "and {} more {} like these; -v names them",
                grouped(others),
                if others == 1 { "problem" } else { "problems" }
            )
        })
    }
}

/// Which files that were left out are named: of each reason the first few, unless all are wanted.
struct Named {
    all: bool,
    of: BTreeMap<SkipReason, u64>,
}

/// The number of files left out for the same reason that are reported one by one.
const NAMED: u64 = 5;

impl Named {
    /// Whether to name another file.
    fn is_named(&mut self, left: &SkippedFile) -> bool {
        let count = self.of.entry(left.reason()).or_default();
        *count += 1;
        self.all || *count <= NAMED || left.kind == SkippedKind::Unreadable
    }

    /// The message about the files that were not reported one by one.
    fn others(&self) -> Vec<String> {
        let is_many = |(reason, count): &(&SkipReason, &u64)| {
            !self.all && **count > NAMED && reason.kind != SkippedKind::Unreadable
        };
        let say = |(reason, count): (&SkipReason, &u64)| {
            format!(
                "left out: {reason}: and {} more files; -v names them",
                count - NAMED
            )
        };
        self.of.iter().filter(is_many).map(say).collect()
    }
}

impl Progress {
    /// `has_results`: something goes to stdout meanwhile.
    pub fn new(tool: String, run: &RunArgs, has_results: bool) -> Self {
        let reads_terminal = run.input.reads_stdin() && stdin().is_terminal();
        if reads_terminal && !run.common.quiet {
            say(&format!(
                "{tool}: reading from the terminal; Ctrl-D ends it, --help tells more"
            ));
        }
        // No bar between results or typed input on the same terminal.
        let is_amid_results = has_results && stdout().is_terminal();
        let bar = reading_bar(run, !is_amid_results && !reads_terminal);
        let severity = if run.input.read.skip_bad {
            "warning: "
        } else {
            ""
        };
        let named = Named {
            all: run.common.verbose,
            of: BTreeMap::new(),
        };
        Self {
            tool,
            quiet: run.common.quiet,
            severity,
            bar,
            documents: 0,
            account: None,
            named,
            records: BadRecords::new(run.common.verbose),
        }
    }

    /// Whether input that could not be used is ignored silently.
    fn is_silent(&self) -> bool {
        self.quiet && !self.severity.is_empty()
    }

    /// Removes the bar, and prints the account of the input.
    pub fn finish(&self) {
        self.bar.finish();
        if !self.is_silent() {
            let records = self.records.others();
            self.named
                .others()
                .iter()
                .chain(&records)
                .for_each(|what| say(&format!("{}: {}{what}", self.tool, self.severity)));
        }
        if let Some(account) = self.account.as_ref().filter(|_| !self.quiet) {
            say(&format!("{}: {account}", self.tool));
        }
    }
}

impl Observer for Progress {
    fn problem(&mut self, problem: &Problem) {
        if !self.is_silent() && self.records.is_named(problem) {
            self.bar
                .suspend(|| say(&format!("{}: {}{problem}", self.tool, self.severity)));
        }
    }

    fn left_out(&mut self, left: &SkippedFile) {
        account_file::leave_out(&left.into());
        if left.is_error() && self.named.is_named(left) {
            self.problem(&left.problem);
        }
    }

    fn account(&mut self, account: &Account) {
        account_file::add(account);
        self.account.get_or_insert_default().add(account);
    }

    fn progress(&mut self, bytes: u64, documents: u64) {
        self.documents += documents;
        self.bar.inc(bytes);
        if !self.bar.is_hidden() {
            self.bar.set_note(counted(self.documents, "document"));
        }
    }
}

/// Reports problems, and the account of the input at the end; has no bar.
pub struct Complaints {
    tool: String,
    is_silent: bool,
    is_quiet: bool,
    /// There if the account of the input is wanted.
    account: Option<Account>,
    records: BadRecords,
}

impl Complaints {
    /// `is_silent`: ignore input that could not be used.
    pub fn new(tool: String, is_silent: bool) -> Self {
        Self {
            tool,
            is_silent,
            is_quiet: is_silent,
            account: None,
            // Only `watch` says how many were not named.
            records: BadRecords::new(true),
        }
    }

    /// Says only what could not be used.
    pub fn quiet(self, is_quiet: bool) -> Self {
        Self { is_quiet, ..self }
    }

    /// Runs `work`, and prints the account of its input.
    pub fn watch<D>(tool: String, run: &RunArgs, work: impl FnOnce(&mut dyn Observer) -> D) -> D {
        let mut complaints = Self {
            account: Some(Account::default()),
            records: BadRecords::new(run.common.verbose),
            ..Self::new(tool, run.common.quiet && run.input.read.skip_bad)
        };
        let done = work(&mut complaints);
        if let Some(others) = complaints.records.others() {
            say(&format!("{}: {others}", complaints.tool));
        }
        if let Some(account) = complaints.account.filter(|_| !run.common.quiet) {
            say(&format!("{}: {account}", complaints.tool));
        }
        done
    }
}

impl Observer for Complaints {
    fn problem(&mut self, problem: &Problem) {
        if !self.is_silent && self.records.is_named(problem) {
            say(&format!("{}: {problem}", self.tool));
        }
    }

    fn left_out(&mut self, left: &SkippedFile) {
        if self.account.is_some() {
            account_file::leave_out(&left.into());
        }
        if left.is_error() {
            self.problem(&left.problem);
        }
    }

    fn account(&mut self, account: &Account) {
        if let Some(sum) = &mut self.account {
            account_file::add(account);
            sum.add(account);
        }
    }

    fn boilerplate(&mut self, boilerplate: &Boilerplate) {
        if !self.is_quiet && !boilerplate.is_empty() {
            say(&format!(
                "{}: ignored as boilerplate: {} of {} shared blots, which more than {} documents have that share little else; --max-df none counts them, dedup-extract blots --boilerplate lists them",
                self.tool, boilerplate.blots, boilerplate.shared_blots, boilerplate.max_documents
            ));
        }
    }

    fn progress(&mut self, _: u64, _: u64) {}
}

/// A bar for a phase that counts documents, or pairs; not while results go to the same terminal.
pub fn counting_bar(quiet: bool, what: &'static str, items: &'static str) -> Bar {
    Bar::new(
        what,
        Unit::Items(items),
        None,
        !quiet && !stdout().is_terminal(),
    )
}

/// A bar that counts tasks and the bytes of their documents, and says what runs.
pub struct TaskBar {
    bar: Bar,
    tasks: u64,
    all: u64,
    runs: String,
}

impl TaskBar {
    /// `bytes`: of all tasks together.
    pub fn new(quiet: bool, tasks: u64, bytes: u64) -> Self {
        let bar = Bar::new("running", Unit::Bytes, Some(bytes), !quiet);
        Self {
            bar,
            tasks: 0,
            all: tasks,
            runs: String::new(),
        }
    }

    pub fn done(&mut self, bytes: u64) {
        self.tasks += 1;
        self.bar.inc(bytes);
        self.show();
    }

    /// Shows which tasks run, and where.
    pub fn runs(&mut self, what: &str) {
        if self.runs != what {
            what.clone_into(&mut self.runs);
            self.show();
        }
    }

    fn show(&self) {
        if !self.bar.is_hidden() {
            let between = if self.runs.is_empty() { "" } else { "; " };
            self.bar.set_note(format!(
                "{} of {} tasks{between}{}",
                self.tasks,
                self.all,
                escape_unsafe(&self.runs)
            ));
        }
    }

    pub fn suspend(&self, work: impl FnOnce()) {
        self.bar.suspend(work);
    }

    pub fn finish(&self) {
        self.bar.finish();
    }
}

/// A bar for one of several steps, which all read the same bytes.
pub struct PhaseBar {
    bar: Bar,
    problems: u64,
    account: Account,
    /// What messages start with, if problems are reported.
    complains: Option<String>,
    records: BadRecords,
}

impl PhaseBar {
    /// `what`: what is done to these bytes.
    pub fn new(quiet: bool, what: &'static str, bytes: u64) -> Self {
        let bar = Bar::new(what, Unit::Bytes, Some(bytes), !quiet);
        Self {
            bar,
            problems: 0,
            account: Account::default(),
            complains: None,
            records: BadRecords::default(),
        }
    }

    /// Reports problems, and counts them.
    pub fn complain(&mut self, tool: &str, skip_bad: bool, names_all: bool) {
        self.records = BadRecords::new(names_all);
        let severity = if skip_bad { "warning: " } else { "" };
        self.complains = Some(format!("{tool}: {severity}"));
    }

    /// How many problems were reported.
    pub fn problems(&self) -> u64 {
        self.problems
    }

    /// What was read.
    pub fn account(&self) -> &Account {
        &self.account
    }

    pub fn finish(&self) {
        self.bar.finish();
        let start = self.complains.as_deref().unwrap_or_default();
        if let Some(others) = self.records.others() {
            say(&format!("{start}{others}"));
        }
    }
}

impl Observer for PhaseBar {
    fn problem(&mut self, problem: &Problem) {
        if let Some(start) = &self.complains {
            self.problems += 1;
            if !self.records.is_named(problem) {
                return;
            }
            self.bar.suspend(|| say(&format!("{start}{problem}")));
        }
    }

    fn progress(&mut self, bytes: u64, _: u64) {
        self.bar.inc(bytes);
    }

    fn account(&mut self, account: &Account) {
        self.account.add(account);
    }
}

/// The bar of a run that reads documents. The sizes of all files are added up meanwhile; from then on it says how much time is left.
fn reading_bar(run: &RunArgs, has_terminal: bool) -> Bar {
    let is_wanted = has_terminal && !run.common.quiet;
    let options = run.input.options(false);
    let total = move || total_bytes(&options).filter(|&total| total > 0);
    if mode() == ProgressMode::Auto || mode() == ProgressMode::Never {
        let bar = Bar::new("reading", Unit::Bytes, None, is_wanted);
        bar.set_total_later(total);
        return bar;
    }
    // Lines do not change afterwards, so they wait for the total.
    Bar::new("reading", Unit::Bytes, total(), is_wanted)
}
