//! One phase of work as its reader sees it: a bar on a terminal, lines in a log, objects for a program, or nothing.

use super::console::{self, ProgressMode, put_line};
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use serde::Serialize;
use std::{
    fmt::Write,
    io::{IsTerminal, stderr},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// What a phase counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of input.
    Bytes,
    /// Anything else, by its plural.
    Items(&'static str),
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Items(name) => name,
        }
    }

    fn amount(self, number: u64) -> String {
        match self {
            Self::Bytes => indicatif::BinaryBytes(number).to_string(),
            Self::Items(name) => format!("{} {name}", indicatif::HumanCount(number)),
        }
    }

    fn rate(self, per_second: f64) -> String {
        let whole = per_second as u64;
        match self {
            Self::Bytes => format!("{}/s", indicatif::BinaryBytes(whole)),
            Self::Items(_) => format!("{}/s", indicatif::HumanCount(whole)),
        }
    }
}

/// A phase: what is done, how much of it there is, and how far it is.
pub struct Bar {
    what: &'static str,
    unit: Unit,
    drawn: ProgressBar,
    told: Option<Mutex<Told>>,
}

/// How far a phase is, for readers that get lines.
struct Told {
    is_json: bool,
    done: u64,
    total: Option<u64>,
    note: String,
    start: Instant,
    /// When the last line was written, and at which tenth.
    last: Option<Instant>,
    tenths: u64,
}

/// Objects come no more often.
const BETWEEN_OBJECTS: Duration = Duration::from_millis(200);
/// A terminal is drawn as often, in frames a second.
const FRAMES: u8 = 5;

/// A line of progress for a program.
#[derive(Serialize)]
struct ProgressLine<'l> {
    progress: ProgressObject<'l>,
}

#[derive(Serialize)]
struct ProgressObject<'l> {
    phase: &'l str,
    unit: &'l str,
    done: u64,
    /// `null` while it is not known.
    total: Option<u64>,
    seconds: f64,
    #[serde(skip_serializing_if = "str::is_empty")]
    note: &'l str,
}

impl Bar {
    /// A phase that is `what`, such as "reading". `is_wanted`: neither does `-q` silence it, nor would it be drawn amid results.
    pub fn new(what: &'static str, unit: Unit, total: Option<u64>, is_wanted: bool) -> Self {
        let mode = console::mode();
        let is_drawn = match mode {
            ProgressMode::Auto => is_wanted && stderr().is_terminal(),
            ProgressMode::Always => stderr().is_terminal(),
            ProgressMode::Never | ProgressMode::Json => false,
        };
        let drawn = if is_drawn {
            let target = ProgressDrawTarget::stderr_with_hz(FRAMES);
            ProgressBar::with_draw_target(total, target)
        } else {
            ProgressBar::hidden()
        };
        let has_lines = match mode {
            ProgressMode::Json => true,
            ProgressMode::Always => !is_drawn,
            ProgressMode::Auto | ProgressMode::Never => false,
        };
        let told = has_lines.then(|| Mutex::new(Told::new(mode == ProgressMode::Json, total)));
        let bar = Self {
            what,
            unit,
            drawn,
            told,
        };
        bar.set_style(total.is_some());
        if is_drawn {
            bar.drawn.enable_steady_tick(Duration::from_millis(200));
        }
        bar.tell(|told| told.done = 0);
        bar
    }

    /// Whether anything is shown.
    pub fn is_hidden(&self) -> bool {
        self.drawn.is_hidden() && self.told.is_none()
    }

    /// Sets how much there is to do.
    pub fn set_total(&self, total: u64) {
        if self.drawn.length() != Some(total) {
            self.drawn.set_length(total);
            self.set_style(true);
        }
        self.tell(|told| told.total = Some(total));
    }

    /// A handle by which another thread can set the total, as long as the bar is there.
    pub fn set_total_later(&self, total: impl FnOnce() -> Option<u64> + Send + 'static) {
        let (handle, what, unit) = (self.drawn.downgrade(), self.what, self.unit);
        if self.drawn.is_hidden() {
            return;
        }
        let work = move || {
            if let (Some(total), Some(bar)) = (total(), handle.upgrade()) {
                bar.set_length(total);
                bar.set_style(style(what, unit, true));
            }
        };
        // Without a thread there is no total.
        let _ = std::thread::Builder::new().spawn(work);
    }

    /// Adds to what is done.
    pub fn inc(&self, by: u64) {
        if self.drawn.position() == 0 && by > 0 {
            // What came before the first step tells nothing about the rate.
            self.drawn.reset_elapsed();
            self.drawn.reset_eta();
        }
        self.drawn.inc(by);
        self.tell(|told| told.done += by);
    }

    /// Sets what is done.
    pub fn set_position(&self, done: u64) {
        self.drawn.set_position(done);
        self.tell(|told| told.done = done);
    }

    /// Shows a few words beside the numbers.
    pub fn set_note(&self, note: String) {
        if let Some(told) = &self.told {
            lock(told).note.clone_from(&note);
        }
        self.drawn.set_message(format!(", {note}"));
    }

    /// Does something that writes to the terminal.
    pub fn suspend(&self, work: impl FnOnce()) {
        self.drawn.suspend(work);
    }

    /// Removes the bar; a program receives where the phase ended.
    pub fn finish(&self) {
        self.drawn.finish_and_clear();
        if let Some(told) = &self.told {
            let mut told = lock(told);
            told.last = None;
            told.tenths = 0;
            self.put(&mut told);
        }
    }

    fn set_style(&self, has_total: bool) {
        self.drawn.set_style(style(self.what, self.unit, has_total));
    }

    fn tell(&self, change: impl FnOnce(&mut Told)) {
        if let Some(told) = &self.told {
            let mut told = lock(told);
            change(&mut told);
            if told.is_due() {
                self.put(&mut told);
            }
        }
    }

    fn put(&self, told: &mut Told) {
        told.last = Some(Instant::now());
        let seconds = told.start.elapsed().as_secs_f64();
        if !told.is_json {
            return put_line(&told.line(self.what, self.unit, seconds));
        }
        let object = ProgressObject {
            phase: self.what,
            unit: self.unit.name(),
            done: told.done,
            total: told.total,
            seconds: (1000.0 * seconds).round() / 1000.0,
            note: &told.note,
        };
        // Numbers and strings always become JSON.
        put_line(&serde_json::to_string(&ProgressLine { progress: object }).unwrap_or_default());
    }
}

impl Told {
    fn new(is_json: bool, total: Option<u64>) -> Self {
        Self {
            is_json,
            done: 0,
            total,
            note: String::new(),
            start: Instant::now(),
            last: None,
            tenths: 0,
        }
    }

    /// Objects come at intervals; lines of a log for each tenth.
    fn is_due(&mut self) -> bool {
        if self.is_json {
            return self
                .last
                .is_none_or(|last| last.elapsed() >= BETWEEN_OBJECTS);
        }
        let tenths = (10 * self.done)
            .checked_div(self.total.unwrap_or(0))
            .unwrap_or(0);
        let is_due = tenths > self.tenths;
        self.tenths = self.tenths.max(tenths);
        is_due
    }

    /// `reading: 40% of 3.1 MiB, 1.2 MiB/s, 2 seconds left`
    fn line(&self, what: &str, unit: Unit, seconds: f64) -> String {
        let rate = self.done as f64 / seconds.max(1e-3);
        let mut line = match self.total.filter(|&total| total > 0) {
            Some(total) => {
                let percent = (100 * self.done / total).min(100);
                format!("{what}: {percent}% of {}", unit.amount(total))
            }
            None => format!("{what}: {}", unit.amount(self.done)),
        };
        if !self.note.is_empty() {
            let _ = write!(line, ", {}", self.note);
        }
        let _ = write!(line, ", {}", unit.rate(rate));
        if let Some(left) = self.total.and_then(|total| total.checked_sub(self.done))
            && left > 0
            && self.done > 0
        {
            let left = Duration::from_secs_f64(left as f64 / rate.max(1e-9));
            let _ = write!(line, ", {} left", HumanDuration(left));
        }
        line
    }
}

fn lock(told: &Mutex<Told>) -> MutexGuard<'_, Told> {
    told.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A bar of 80 columns has room for all of it.
fn style(what: &'static str, unit: Unit, has_total: bool) -> ProgressStyle {
    let numbers = if has_total {
        "[{wide_bar}] {percent}% of {all}{msg}, {rate}, {eta} left"
    } else {
        "{spinner} {amount}{msg}, {rate}, {elapsed}"
    };
    ProgressStyle::with_template(&format!("{what} {numbers}"))
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
        .progress_chars("=> ")
        .with_key("rate", move |state: &ProgressState, out: &mut dyn Write| {
            let _ = write!(out, "{}", unit.rate(state.per_sec()));
        })
        .with_key("all", move |state: &ProgressState, out: &mut dyn Write| {
            let _ = write!(out, "{}", unit.amount(state.len().unwrap_or(0)));
        })
        .with_key(
            "amount",
            move |state: &ProgressState, out: &mut dyn Write| {
                let _ = write!(out, "{}", unit.amount(state.pos()));
            },
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(done: u64, total: Option<u64>) -> Told {
        Told {
            done,
            ..Told::new(false, total)
        }
    }

    #[test]
    fn lines_of_a_log() {
        let mut at = told(1 << 20, Some(4 << 20));
        at.note = "7 documents".to_owned();
        assert_eq!(
            at.line("reading", Unit::Bytes, 2.0),
            "reading: 25% of 4.00 MiB, 7 documents, 512.00 KiB/s, 6 seconds left"
        );
        let unknown = told(1500, None);
        assert_eq!(
            unknown.line("comparing", Unit::Items("pairs"), 1.0),
            "comparing: 1,500 pairs, 1,500/s"
        );
    }

    #[test]
    fn a_log_gets_a_line_for_each_tenth() {
        let mut at = told(0, Some(100));
        let due: Vec<u64> = (0..=100)
            .filter(|&done| {
                at.done = done;
                at.is_due()
            })
            .collect();
        assert_eq!(due, [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]);
    }
}
