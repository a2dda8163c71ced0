//! Who answers.

use super::{request_reader::ServiceRequest, server::ServiceOptions};
use crate::{
    base::error::{Error, Result},
    history::{
        PrintSimilarity, Ratio, Request,
        backend::{HistoryBackend, ReplyMatch, put_reply},
    },
    report::put_json_text,
};
use std::{
    panic::{self, AssertUnwindSafe},
    time::{Duration, Instant},
};

/// Requests that are answered together: many are cheaper, but each waits for all.
const LEAST_BATCH: usize = 16;
const MOST_BATCH: usize = 1024;
/// If it takes longer than that, there are too many.
const LONG: Duration = Duration::from_millis(40);

/// A request, and the number of the client who waits for its answer.
pub struct PendingRequest {
    pub client: usize,
    pub asked: ServiceRequest,
}

/// Answers as long as it can; after an error there is no other answer than that.
pub struct AnswerEngine<'o> {
    /// None when it has failed, or is closed.
    answering: Option<Box<dyn HistoryBackend>>,
    options: &'o ServiceOptions,
    /// So many are answered together.
    pub most: usize,
    failed: Option<Error>,
}

impl<'o> AnswerEngine<'o> {
    pub fn new(answering: Box<dyn HistoryBackend>, options: &'o ServiceOptions) -> Self {
        Self {
            answering: Some(answering),
            options,
            most: LEAST_BATCH,
            failed: None,
        }
    }

    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// A line for each.
    pub fn answer(&mut self, jobs: &[PendingRequest]) -> AnswerLines {
        if let Some(answering) = &mut self.answering {
            let start = Instant::now();
            let answered = panic::catch_unwind(AssertUnwindSafe(|| {
                answer(&mut **answering, self.options, jobs)
            }));
            match answered
                .unwrap_or_else(|_| Err(Error::Usage("the thread that answers died".to_owned())))
            {
                Ok(lines) => {
                    self.most = next_batch(self.most, jobs.len(), start.elapsed());
                    return lines;
                }
                // What may be half done is not used again.
                Err(error) => (self.answering, self.failed) = (None, Some(error)),
            }
        }
        let mut lines = AnswerLines::default();
        let error = self
            .failed
            .as_ref()
            .map(Error::to_string)
            .unwrap_or_default();
        jobs.iter()
            .for_each(|_| lines.put(|out| put_error(out, &error)));
        lines
    }

    /// Returns when all that was added is on disk; what went wrong is an error here, too.
    pub fn close(&mut self) -> Result<()> {
        match (self.failed.take(), self.answering.take()) {
            (Some(error), _) => Err(error),
            (None, answering) => answering.map_or(Ok(()), HistoryBackend::close),
        }
    }
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

/// Lines, and where each ends.
#[derive(Default)]
pub struct AnswerLines {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl AnswerLines {
    fn put(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        put(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// The lines from one to before another, counted from 0.
    pub fn range(&self, from: usize, to: usize) -> &[u8] {
        let start_of = |at: usize| if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start_of(from)..start_of(to)]
    }
}

fn answer(
    answering: &mut dyn HistoryBackend,
    options: &ServiceOptions,
    jobs: &[PendingRequest],
) -> Result<AnswerLines> {
    let mut lines = AnswerLines::default();
    let is_like = |job: &PendingRequest| matches!(job.asked, ServiceRequest::Like { .. });
    for run in jobs.chunk_by(|one, two| is_like(one) && is_like(two)) {
        match &run[0].asked {
            ServiceRequest::Like { .. } => ask(answering, options, run, &mut lines)?,
            ServiceRequest::Remove(_) if !options.add => lines.put(|out| {
                put_error(
                    out,
                    "nothing can be removed: the history is only read (--no-add)",
                )
            }),
            ServiceRequest::Remove(id) => {
                let removed = answering.remove(id)?;
                lines.put(|out| removed.put(out));
            }
            ServiceRequest::HelloReply => lines.put(|out| answering.hello().put(out)),
            ServiceRequest::Wrong(what) => lines.put(|out| put_error(out, what)),
        }
    }
    Ok(lines)
}

fn ask(
    answering: &mut dyn HistoryBackend,
    options: &ServiceOptions,
    run: &[PendingRequest],
    lines: &mut AnswerLines,
) -> Result<()> {
    let mut requests = Vec::with_capacity(run.len());
    let mut terms = Vec::with_capacity(run.len());
    for job in run {
        if let ServiceRequest::Like {
            id,
            print,
            add,
            min_similarity,
            top,
        } = &job.asked
        {
            requests.push(Request {
                id,
                print: *print,
                add: options.add && add.unwrap_or(true),
            });
            terms.push((*add == Some(true) && !options.add, *min_similarity, *top));
        }
    }
    let replies = answering.ask(&requests)?;
    for ((request, mut reply), (is_refused, min_similarity, top)) in
        requests.iter().zip(replies).zip(terms)
    {
        reply.is_left_out |= is_refused;
        if let Some(min_similarity) = min_similarity {
            reply.matches.retain(|found| reaches(found, min_similarity));
        }
        reply.matches.truncate(top.unwrap_or(usize::MAX));
        lines.put(|out| put_reply(out, request.id, &reply, options.limits.top > 1));
    }
    Ok(())
}

/// Exactly, though a similarity that a server has told has six decimals.
fn reaches(found: &ReplyMatch, min_similarity: Ratio) -> bool {
    PrintSimilarity::from_similarity(found.similarity)
        .is_none_or(|likeness| likeness.reaches(min_similarity))
}

/// `{"error":…}`
pub fn put_error(out: &mut Vec<u8>, what: &str) {
    out.extend_from_slice(b"{\"error\":");
    put_json_text(out, what);
    out.extend_from_slice(b"}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_long_for_others() {
        let after = |pace: Duration| {
            (0..20).fold(LEAST_BATCH, |most, _| {
                next_batch(most, most, pace * most as u32)
            })
        };
        assert_eq!(after(Duration::from_micros(20)), MOST_BATCH);
        assert_eq!(after(Duration::from_secs(1)), LEAST_BATCH);
        assert!((32..=64).contains(&after(Duration::from_millis(1))));
        // What takes as long for one as for many is asked together.
        assert_eq!(
            (0..20).fold(LEAST_BATCH, |most, _| next_batch(most, most, LONG)),
            MOST_BATCH
        );
        // Who asks little has no part in it.
        assert_eq!(next_batch(64, 3, Duration::from_millis(1)), 64);
    }
}
