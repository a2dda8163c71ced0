//! Questions and answers: what each document of a batch is most like, which documents are new, and when they are stored.
//!
//! A document that the history already has, by its id and its print, is not an earlier document but the same one: only entries that came
//! before it count, so that it gets the answer that it got the first time, and it is not stored again. Whoever does not know
//! whether a document was answered can send it again.

use super::{
    batch::{BatchEntries, StoredDocuments},
    search::{
        searcher::{LiveFilter, SearchQuery, SearchScratch, search},
        similarity::{BestMatches, Hit, HitLocation, PrintSimilarity, Ratio},
    },
    search_threads::thread_time,
    store::{
        history::{ALONE, History, SegmentState},
        journal::{JournalRecord, SyncPolicy},
        memtable::NewEntry,
        segment::EntrySource,
    },
};
use crate::{base::error::Result, text::stream::Print};
use std::{
    ops::Range,
    sync::{
        MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Requests that are answered together. Those that take longer look deep into the tables, which then come into the cache once for many.
const BATCH: usize = 1024;
const LARGE_BATCH: usize = 4096;
const SLOW: Duration = Duration::from_micros(200);

/// A question about a document.
#[derive(Debug, Clone, Copy)]
pub struct Request<'r> {
    pub id: &'r str,
    /// None for a document without tokens: it is like nothing, and not added.
    pub print: Option<Print>,
    /// Whether the document is added, so that later requests see it.
    pub add: bool,
}

/// What an answer has.
#[derive(Debug, Clone, Copy)]
pub struct MatchLimits {
    pub min_similarity: Ratio,
    /// How many matches at most: the best.
    pub top: usize,
}

/// The best matches, the best first; of equals the one that came first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    pub matches: Vec<Match>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    pub id: String,
    pub likeness: PrintSimilarity,
}

impl History {
    /// Answers requests in their order, each as if all before it had been added already. When it returns, the documents are in the journal.
    pub fn ask(&mut self, requests: &[Request<'_>], limits: &MatchLimits) -> Result<Vec<Answer>> {
        let mut answers = Vec::with_capacity(requests.len());
        self.ask_and_deliver(requests, limits, &mut |mut some| {
            answers.append(&mut some);
            Ok(())
        })?;
        Ok(answers)
    }

    /// The same, but hands answers to `deliver`, some at a time and in order, *before* their documents are stored. If the process dies, or
    /// `deliver` fails, a document is not in the history unless its answer was delivered: asked again, it is as new as it was.
    pub fn ask_and_deliver(
        &mut self,
        requests: &[Request<'_>],
        limits: &MatchLimits,
        deliver: &mut dyn FnMut(Vec<Answer>) -> Result<()>,
    ) -> Result<()> {
        let mut left = requests;
        while !left.is_empty() {
            let most = if self.pace < SLOW { BATCH } else { LARGE_BATCH };
            let (batch, later) = left.split_at(left.len().div_ceil(left.len().div_ceil(most)));
            left = later;
            self.settle(false)?;
            let now = (self.options.clock)().max(self.last_time);
            let (found, known) = self.find(batch, limits, now)?;
            deliver(
                found
                    .iter()
                    .map(|found| self.answer(batch, found))
                    .collect::<Result<_>>()?,
            )?;
            self.add(batch, &known, now)?;
        }
        if self.options.sync == SyncPolicy::Each {
            self.sync()?;
        }
        Ok(())
    }

    /// The best of each request, and which of their documents the history has already.
    ///
    /// A document that is stored finds an entry with its own print, so only who finds one is looked up by id. If some are
    /// stored, all are searched for again: other sequence numbers follow from it, and less counts for those.
    fn find(
        &mut self,
        batch: &[Request<'_>],
        limits: &MatchLimits,
        now: u32,
    ) -> Result<(Vec<Vec<Hit>>, StoredDocuments)> {
        let most = self.options.max_entries.unwrap_or(u64::MAX);
        let mut stored = vec![None; batch.len()];
        let mut spent = Duration::ZERO;
        loop {
            let known = StoredDocuments::new(batch, &stored, self.next_sequence, most);
            let added = BatchEntries::new(batch, &known, self.next_sequence, now);
            let (found, took) = self.search(batch, &known, &added, limits, now)?;
            spent += took;
            let mut is_settled = true;
            for (at, request) in batch.iter().enumerate() {
                let has_equal = found[at]
                    .first()
                    .is_some_and(|best| best.likeness.is_whole());
                if let Some(print) = request
                    .print
                    .filter(|_| has_equal && known.at(at).is_none())
                {
                    stored[at] =
                        self.find_stored(request.id, &print, &self.live_at(&added, at, now))?;
                    is_settled &= stored[at].is_none();
                }
            }
            if is_settled {
                self.pace = spent / batch.len() as u32;
                return Ok((found, known));
            }
        }
    }

    /// The sequence number of the first entry that has this id and this print.
    fn find_stored(&self, id: &str, print: &Print, live: &LiveFilter<'_>) -> Result<Option<u64>> {
        for SegmentState { segment, .. } in &self.segments {
            if segment.description.sequences[1] >= live.first_sequence
                && segment.description.times[1] >= live.first_time
            {
                let entries = segment.with_id_and_print(id, print)?;
                if let Some(first) = first_live(&**segment, &entries, live)? {
                    return Ok(Some(first));
                }
            }
        }
        for memtable in self.memtables() {
            let mut entries = memtable.with_id(id)?;
            entries.retain(|&entry| memtable.print(entry).is_ok_and(|other| other == *print));
            if let Some(first) = first_live(memtable, &entries, live)? {
                return Ok(Some(first));
            }
        }
        Ok(None)
    }

    /// What counts for a request, as if those before it in its batch were added already.
    fn live_at(&self, added: &BatchEntries, at: usize, now: u32) -> LiveFilter<'_> {
        let most = self.options.max_entries.unwrap_or(u64::MAX);
        LiveFilter {
            first_sequence: (self.next_sequence + added.before(at) as u64).saturating_sub(most),
            ..self.live(now)
        }
    }

    /// The best of each request, in the state before the batch and among the requests before it; and the processor time that all threads took.
    fn search(
        &self,
        batch: &[Request<'_>],
        known: &StoredDocuments,
        added: &BatchEntries,
        limits: &MatchLimits,
        now: u32,
    ) -> Result<(Vec<Vec<Hit>>, Duration)> {
        let threads = self.threads_for(batch);
        // Those who come late find something to do.
        let shares = if self.pace < SLOW {
            4 * threads
        } else {
            2 * threads
        };
        let piece = if threads == 1 {
            batch.len()
        } else {
            batch.len().div_ceil(shares)
        }
        .max(1);
        let found: Vec<OnceLock<Result<Vec<Vec<Hit>>>>> = (0..batch.len().div_ceil(piece))
            .map(|_| OnceLock::new())
            .collect();
        let (next, nanoseconds) = (AtomicUsize::new(0), AtomicU64::new(0));
        self.helpers.work(threads - 1, &|| {
            let (start, mut scratch) = (
                thread_time(),
                self.lock_scratches().pop().unwrap_or_default(),
            );
            while let at = next.fetch_add(1, Ordering::Relaxed)
                && let Some(found) = found.get(at)
            {
                let some = at * piece..batch.len().min((at + 1) * piece);
                let asked = some
                    .clone()
                    .map(|at| {
                        self.asked(
                            &batch[at],
                            known.at(at),
                            self.live_at(added, at, now),
                            limits,
                        )
                    })
                    .collect();
                // Nobody else has this one.
                let _ = found.set(self.search_some(some, asked, added, &mut scratch));
            }
            self.lock_scratches().push(scratch);
            nanoseconds.fetch_add(
                thread_time().saturating_sub(start).as_nanos() as u64,
                Ordering::Relaxed,
            );
        })?;
        let mut all = Vec::with_capacity(batch.len());
        for found in found {
            all.extend(found.into_inner().unwrap_or_else(|| Ok(Vec::new()))?);
        }
        Ok((all, Duration::from_nanos(nanoseconds.into_inner())))
    }

    fn threads_for(&self, batch: &[Request<'_>]) -> usize {
        let pieces = (self.pace * batch.len() as u32).as_nanos() / ALONE.as_nanos();
        self.options
            .threads
            .min(batch.len())
            .min(pieces as usize)
            .max(1)
    }

    fn lock_scratches(&self) -> MutexGuard<'_, Vec<SearchScratch>> {
        self.scratches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What is looked for: of a document that is known, only what came before it.
    fn asked<'l>(
        &self,
        request: &Request<'_>,
        known: Option<u64>,
        live: LiveFilter<'l>,
        limits: &MatchLimits,
    ) -> SearchQuery<'l> {
        // A document without tokens is like nothing.
        let top = if request.print.is_some() {
            limits.top
        } else {
            0
        };
        let live = LiveFilter {
            end_sequence: known.unwrap_or(u64::MAX),
            ..live
        };
        SearchQuery::new(
            request.print.unwrap_or_default(),
            live,
            BestMatches::new(limits.min_similarity, top),
        )
    }

    fn search_some(
        &self,
        some: Range<usize>,
        mut asked: Vec<SearchQuery<'_>>,
        added: &BatchEntries,
        scratch: &mut SearchScratch,
    ) -> Result<Vec<Vec<Hit>>> {
        let (first_sequence, first_time) = asked.first().map_or((0, 0), |asked| {
            (asked.live.first_sequence, asked.live.first_time)
        });
        let is_alive = |last_sequence: u64, last_time: u32| {
            last_sequence >= first_sequence && last_time >= first_time
        };
        for (number, SegmentState { segment, .. }) in self.segments.iter().enumerate() {
            if is_alive(
                segment.description.sequences[1],
                segment.description.times[1],
            ) {
                search(&**segment, number, &mut asked, scratch)?;
            }
        }
        for (number, memtable) in self.memtables().enumerate() {
            if memtable
                .last()
                .is_some_and(|(sequence, time)| is_alive(sequence, time))
            {
                search(memtable, number, &mut asked, scratch)?;
            }
        }
        for (at, asked) in some.zip(&mut asked) {
            added.search(added.before(at), asked)?;
        }
        Ok(asked
            .into_iter()
            .map(|asked| asked.best.into_hits())
            .collect())
    }

    fn answer(&self, batch: &[Request<'_>], found: &[Hit]) -> Result<Answer> {
        let id = |found: &Hit| match found.at {
            HitLocation::Segment(number, entry) => self.segments[number].segment.read_id(entry),
            HitLocation::Memtable(number, entry) => self
                .waiting
                .get(number)
                .map_or(&self.memtable, |memtable| memtable)
                .id(entry)
                .map(str::to_owned),
            HitLocation::Batch(number) => Ok(batch[number].id.to_owned()),
        };
        let matches = found
            .iter()
            .map(|found| {
                Ok(Match {
                    id: id(found)?,
                    likeness: found.likeness,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Answer { matches })
    }

    /// Adds those that are to be added and are not there yet, to the journal first.
    fn add(&mut self, batch: &[Request<'_>], known: &StoredDocuments, now: u32) -> Result<()> {
        let mut lines = Vec::new();
        for (at, request) in batch.iter().enumerate() {
            if let Some(print) = request
                .print
                .filter(|_| request.add && known.at(at).is_none())
            {
                let sequence = self.next_sequence + lines.len() as u64;
                lines.push(JournalRecord::Add(NewEntry {
                    print,
                    sequence,
                    time: now,
                    id: request.id.into(),
                }));
            }
        }
        if lines.is_empty() {
            return Ok(());
        }
        self.last_time = now;
        let (most, mut lines) = (self.memtable_limit(), &lines[..]);
        // A journal has a fixed number of entries: the batch may be for two.
        while !lines.is_empty() {
            let room = most.saturating_sub(self.memtable.count()) as usize;
            let (now, later) = lines.split_at(room.min(lines.len()));
            self.writing()?.journal.append(now)?;
            self.take(now);
            if now.len() == room {
                self.next_journal()?;
            }
            lines = later;
        }
        self.look_ahead();
        Ok(())
    }
}

/// The first sequence number of these entries that counts.
fn first_live(
    source: &dyn EntrySource,
    entries: &[u32],
    live: &LiveFilter<'_>,
) -> Result<Option<u64>> {
    let mut first = None;
    for &entry in entries {
        let sequence = source.sequence(entry)?;
        if live.has(sequence, source.time(entry)?) && first.is_none_or(|first| sequence < first) {
            first = Some(sequence);
        }
    }
    Ok(first)
}
