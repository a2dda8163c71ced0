//! The thread that answers.

use super::{
    queue::{Job, Queue},
    request::Asked,
    server::Options,
};
use crate::{
    error::{Error, Result},
    history::Request,
    online::{Answering, put_reply},
    report::{Format, put_id},
};
use std::{
    panic::{self, AssertUnwindSafe},
    sync::Arc,
    time::{Duration, Instant},
};

/// Requests that are answered together: many are cheaper, but each waits for all.
const LEAST_BATCH: usize = 16;
const MOST_BATCH: usize = 1024;
/// If it takes longer than that, there are too many.
const LONG: Duration = Duration::from_millis(40);

/// Answers all that comes, and closes the history when nothing more will. After an error there is no other answer than that, and
/// `stop` is called.
pub fn answer_all(mut answering: Box<dyn Answering>, options: &Options, queue: &Queue, stop: impl Fn()) -> Result<()> {
    // However this ends, nobody must wait for it in vain.
    let end = OnEnd(stop, queue);
    let mut most = LEAST_BATCH;
    while let Some(jobs) = queue.take(most) {
        let start = Instant::now();
        // What may be half done after a panic is not used again.
        let answered = panic::catch_unwind(AssertUnwindSafe(|| answer(&mut *answering, options, &jobs)));
        match answered.unwrap_or_else(|_| Err(Error::Usage("the thread that answers died".to_owned()))) {
            Ok(lines) => {
                deliver(&jobs, &lines);
                most = next_batch(most, jobs.len(), start.elapsed());
            }
            Err(error) => {
                (end.0)();
                refuse(&jobs, &error);
                while let Some(jobs) = queue.take(MOST_BATCH) {
                    refuse(&jobs, &error);
                }
                return Err(error);
            }
        }
    }
    answering.close()
}

/// How many are answered together next, if up to `most` were to be, and `count` took so long: twice as many or half of them.
fn next_batch(most: usize, count: usize, took: Duration) -> usize {
    let next = if took > LONG {
        count / 2
    } else if count == most {
        2 * most
    } else {
        most
    };
    next.clamp(LEAST_BATCH, MOST_BATCH)
}

struct OnEnd<'q, F: Fn()>(F, &'q Queue);

impl<F: Fn()> Drop for OnEnd<'_, F> {
    fn drop(&mut self) {
        (self.0)();
        self.1.end();
    }
}

/// Lines, and where each ends.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Lines {
    fn put(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        put(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }
}

fn answer(answering: &mut dyn Answering, options: &Options, jobs: &[Job]) -> Result<Lines> {
    let mut lines = Lines::default();
    let is_like = |job: &Job| matches!(job.asked, Asked::Like { .. });
    for run in jobs.chunk_by(|one, two| is_like(one) && is_like(two)) {
        match &run[0].asked {
            Asked::Like { .. } => ask(answering, options, run, &mut lines)?,
            Asked::Remove(_) if !options.add => {
                lines.put(|out| put_error(out, "nothing can be removed: the history is only read (--no-add)"))
            }
            Asked::Remove(id) => {
                let removed = answering.remove(id)?;
                lines.put(|out| removed.put(out));
            }
            Asked::Hello => lines.put(|out| answering.hello().put(out)),
            Asked::Wrong(what) => lines.put(|out| put_error(out, what)),
        }
    }
    Ok(lines)
}

fn ask(answering: &mut dyn Answering, options: &Options, run: &[Job], lines: &mut Lines) -> Result<()> {
    let mut requests = Vec::with_capacity(run.len());
    let mut refused = Vec::with_capacity(run.len());
    for job in run {
        if let Asked::Like { id, print, add } = &job.asked {
            requests.push(Request { id, print: *print, add: options.add && add.unwrap_or(true) });
            refused.push(*add == Some(true) && !options.add);
        }
    }
    let replies = answering.ask(&requests)?;
    for ((request, mut reply), is_refused) in requests.iter().zip(replies).zip(refused) {
        reply.is_left_out |= is_refused;
        lines.put(|out| put_reply(out, request.id, &reply, options.with_all));
    }
    Ok(())
}

/// Hands the answers over, those of a client together.
fn deliver(jobs: &[Job], lines: &Lines) {
    let mut at = 0;
    for run in jobs.chunk_by(|one, two| Arc::ptr_eq(&one.answers, &two.answers)) {
        let start = if at == 0 { 0 } else { lines.ends[at - 1] };
        at += run.len();
        run[0].answers.append(&lines.bytes[start..lines.ends[at - 1]], run.len(), weight(run));
    }
}

fn refuse(jobs: &[Job], error: &Error) {
    let mut lines = Lines::default();
    jobs.iter().for_each(|_| lines.put(|out| put_error(out, &error.to_string())));
    deliver(jobs, &lines);
}

fn weight(run: &[Job]) -> usize {
    run.iter().map(|job| job.asked.weight()).sum()
}

/// `{"error":…}`
pub fn put_error(out: &mut Vec<u8>, what: &str) {
    out.extend_from_slice(b"{\"error\":");
    put_id(out, Format::Ndjson, what);
    out.extend_from_slice(b"}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_long_for_others() {
        let after = |pace: Duration| (0..20).fold(LEAST_BATCH, |most, _| next_batch(most, most, pace * most as u32));
        assert_eq!(after(Duration::from_micros(20)), MOST_BATCH);
        assert_eq!(after(Duration::from_secs(1)), LEAST_BATCH);
        assert!((32..=64).contains(&after(Duration::from_millis(1))));
        // What takes as long for one as for many is asked together.
        assert_eq!((0..20).fold(LEAST_BATCH, |most, _| next_batch(most, most, LONG)), MOST_BATCH);
        // Who asks little has no part in it.
        assert_eq!(next_batch(64, 3, Duration::from_millis(1)), 64);
    }
}
