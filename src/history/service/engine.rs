//! Answers the requests of all clients together.

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

/// The limits of a batch: more requests are cheaper together, but each waits for all.
const LEAST_BATCH: usize = 16;
const MOST_BATCH: usize = 1024;
/// A batch that takes longer was too large.
const LONG: Duration = Duration::from_millis(40);

/// A request, and the number of the client that waits for its answer.
pub struct PendingRequest {
    pub client: usize,
    pub asked: ServiceRequest,
}

/// Answers requests; after a failure every answer is that error.
pub struct AnswerEngine<'o> {
    /// `None` after a failure, and when closed.
    answering: Option<Box<dyn HistoryBackend>>,
    options: &'o ServiceOptions,
    /// The size of the next batch.
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

    /// A line for each request.
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
                // Its state may be inconsistent, so it is not used again.
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

    /// Returns when all additions are on disk; returns the error of an earlier failure.
    pub fn close(&mut self) -> Result<()> {
        match (self.failed.take(), self.answering.take()) {
            (Some(error), _) => Err(error),
            (None, answering) => answering.map_or(Ok(()), HistoryBackend::close),
        }
    }
}

/// The size of the next batch, if at most `most` were allowed and `count` took so long: doubled or
/// halved.
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

    /// The lines from number `from` to before `to`.
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
            ServiceRequest::Remove(_) if !options.add => {
                lines.put(|out| put_error(out, "nothing can be removed: the history is read-only"))
            }
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

/// Compares exactly, though an upstream server gives six decimals only.
fn reaches(found: &ReplyMatch, min_similarity: Ratio) -> bool {
    PrintSimilarity::from_similarity(found.similarity)
        .is_none_or(|similarity| similarity.is_at_least(min_similarity))
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
    use crate::base::num::ToU32;

    #[test]
    fn batches_adapt_to_the_time_they_take() {
        let after = |pace: Duration| {
            (0..20).fold(LEAST_BATCH, |most, _| {
                next_batch(most, most, pace * most.to_u32())
            })
        };
        assert_eq!(after(Duration::from_micros(20)), MOST_BATCH);
        assert_eq!(after(Duration::from_secs(1)), LEAST_BATCH);
        assert!((32..=64).contains(&after(Duration::from_millis(1))));
        // If a large batch takes as long as a small one, batches grow.
        assert_eq!(
            (0..20).fold(LEAST_BATCH, |most, _| next_batch(most, most, LONG)),
            MOST_BATCH
        );
        // A small batch says nothing about the limit.
        assert_eq!(next_batch(64, 3, Duration::from_millis(1)), 64);
    }
}
