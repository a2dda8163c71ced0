//! Answers requests: finds the most similar entries of each document, and stores the new documents.
//!
//! A document that the history already has, with the same id and the same print, is not an earlier
//! document but the same one. Only entries that arrived before it count, so it gets its first answer
//! again, and it is not stored twice. A client that lost an answer can therefore repeat its request.

use super::{
    batch::{BatchEntries, StoredDocuments},
    search::{
        searchable::{LiveFilter, SearchQuery},
        searcher::{SearchScratch, search},
        similarity::{BestMatches, Hit, HitLocation, PrintSimilarity, Ratio},
    },
    store::{
        history::{History, SOLO_SEARCH, SegmentState},
        journal::SyncPolicy,
        journal_format::JournalRecord,
        memtable::NewEntry,
    },
};
use crate::{
    base::{
        error::Result,
        num::{ToU32, ToU64, ToUsize},
    },
    history::search::searchable::EntrySource,
    text::stream::Print,
};
use rayon::prelude::*;
use std::{
    ops::Range,
    sync::{MutexGuard, PoisonError},
    time::Duration,
};

/// Requests answered together. A search that takes long looks deep into the tables; in a larger
/// batch, more requests share the cache lines it loads.
const BATCH: usize = 1024;
const LARGE_BATCH: usize = 4096;
/// The time per request from which batches are large.
const SLOW_REQUEST: Duration = Duration::from_micros(200);

/// A question about one document.
#[derive(Debug, Clone, Copy)]
pub struct Request<'r> {
    /// The id of the document.
    pub id: &'r str,
    /// Its print; `None` for a document without tokens, which matches nothing and is not added.
    pub print: Option<Print>,
    /// Whether to add the document, so that later requests find it.
    pub add: bool,
}

/// Which matches an answer contains.
#[derive(Debug, Clone, Copy)]
pub struct MatchLimits {
    /// The least similarity of a match.
    pub min_similarity: Ratio,
    /// The greatest number of matches: the best ones.
    pub top: usize,
}

/// The best matches, most similar first; equal ones in order of arrival.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// The matches, best first.
    pub matches: Vec<Match>,
}

/// A stored document that resembles the one in the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// The id of the stored document.
    pub id: String,
    /// How similar the two prints are.
    pub similarity: PrintSimilarity,
}

/// The hits of each request of a batch.
type BatchHits = Vec<Vec<Hit>>;

/// A batch of requests during the search: the entries of its documents, and the time.
struct SearchBatch<'b> {
    requests: &'b [Request<'b>],
    stored: &'b StoredDocuments,
    added: &'b BatchEntries,
    limits: &'b MatchLimits,
    now: u32,
}

impl History {
    /// Answers requests in order, each as if all before it had been added already. When this
    /// returns, the new documents are in the journal.
    pub fn ask(&mut self, requests: &[Request<'_>], limits: &MatchLimits) -> Result<Vec<Answer>> {
        let mut answers = Vec::with_capacity(requests.len());
        self.ask_and_deliver(requests, limits, &mut |mut some| {
            answers.append(&mut some);
            Ok(())
        })?;
        Ok(answers)
    }

    /// As [`Self::ask`], but passes the answers to `deliver`, some at a time and in order, *before*
    /// it stores their documents. If the process dies or `deliver` fails, the history has no
    /// document whose answer was not delivered; the same request then gets the same answer.
    pub fn ask_and_deliver(
        &mut self,
        requests: &[Request<'_>],
        limits: &MatchLimits,
        deliver: &mut dyn FnMut(Vec<Answer>) -> Result<()>,
    ) -> Result<()> {
        let mut left = requests;
        while !left.is_empty() {
            let (batch, later) = left.split_at(self.batch_length(left.len()));
            left = later;
            self.collect_finished_jobs(false)?;
            let now = self.now();
            let (hits, stored) = self.find(batch, limits, now)?;
            let answers: Result<_> = hits.iter().map(|hits| self.answer(batch, hits)).collect();
            deliver(answers?)?;
            self.add(batch, &stored, now)?;
        }
        if self.options.sync == SyncPolicy::EveryBatch {
            self.sync()?;
        }
        Ok(())
    }

    /// The length of the next batch: batches of about equal length, none above the limit.
    fn batch_length(&self, requests: usize) -> usize {
        let limit = if self.time_per_request < SLOW_REQUEST {
            BATCH
        } else {
            LARGE_BATCH
        };
        requests.div_ceil(requests.div_ceil(limit))
    }

    /// Finds the best hits of each request, and which of their documents are stored already.
    ///
    /// A stored document finds an entry with its own print, so only requests with such a hit are
    /// looked up by id. If any of them is stored, the whole batch is searched again: sequence
    /// numbers of the others shift, and fewer entries count for the stored ones.
    fn find(
        &mut self,
        batch: &[Request<'_>],
        limits: &MatchLimits,
        now: u32,
    ) -> Result<(BatchHits, StoredDocuments)> {
        let max_entries = self.options.max_entries.unwrap_or(u64::MAX);
        let mut found_stored = vec![None; batch.len()];
        let mut time = Duration::ZERO;
        loop {
            let stored =
                StoredDocuments::new(batch, &found_stored, self.next_sequence, max_entries);
            let added = BatchEntries::new(batch, &stored, self.next_sequence, now);
            let (hits, search_time) = self.search(&SearchBatch {
                requests: batch,
                stored: &stored,
                added: &added,
                limits,
                now,
            })?;
            time += search_time;
            let mut is_complete = true;
            for (at, request) in batch.iter().enumerate() {
                let best = hits[at].first();
                if best.is_some_and(|best| best.similarity.is_identical())
                    && stored.sequence(at).is_none()
                    && let Some(print) = request.print
                {
                    let live = self.live_at(&added, at, now);
                    found_stored[at] = self.find_stored(request.id, &print, &live)?;
                    is_complete &= found_stored[at].is_none();
                }
            }
            if is_complete {
                self.time_per_request = time / batch.len().to_u32();
                return Ok((hits, stored));
            }
        }
    }

    /// The sequence number of the first live entry with this id and this print.
    fn find_stored(&self, id: &str, print: &Print, live: &LiveFilter<'_>) -> Result<Option<u64>> {
        for SegmentState { segment, .. } in &self.segments {
            if live.may_contain(segment.last_sequence(), segment.last_time()) {
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

    /// The entries that count for a request, as if those before it in its batch were added already.
    fn live_at(&self, added: &BatchEntries, at: usize, now: u32) -> LiveFilter<'_> {
        let max_entries = self.options.max_entries.unwrap_or(u64::MAX);
        let next_sequence = self.next_sequence + added.count_before(at).to_u64();
        let live = self.live(now);
        LiveFilter {
            first_sequence: (live.first_sequence).max(next_sequence.saturating_sub(max_entries)),
            ..live
        }
    }

    /// The best hits of each request, in the state before the batch and among the requests before
    /// it; and the processor time of all threads.
    ///
    /// Requests are divided into more pieces than there are threads, so that a thread that gets a
    /// processor late still finds work, and the search does not wait for it.
    fn search(&self, batch: &SearchBatch<'_>) -> Result<(BatchHits, Duration)> {
        let count = batch.requests.len();
        let threads = self.threads_for(count);
        if threads == 1 {
            return self.search_piece(batch, 0..count);
        }
        let pieces_per_thread = if self.time_per_request < SLOW_REQUEST {
            4
        } else {
            2
        };
        let piece = count.div_ceil(pieces_per_thread * threads).max(1);
        let search_piece = |at: usize| {
            let start = at * piece;
            self.search_piece(batch, start..count.min(start + piece))
        };
        let pieces: Vec<Result<(BatchHits, Duration)>> = self.pool.install(|| {
            (0..count.div_ceil(piece))
                .into_par_iter()
                .with_max_len(1)
                .map(search_piece)
                .collect()
        });
        let mut all = Vec::with_capacity(count);
        let mut time = Duration::ZERO;
        for piece in pieces {
            let (hits, piece_time) = piece?;
            all.extend(hits);
            time += piece_time;
        }
        Ok((all, time))
    }

    /// The number of threads that are worth waking for a batch.
    fn threads_for(&self, requests: usize) -> usize {
        let expected = self.time_per_request * requests.to_u32();
        let worth_it = expected.as_nanos() / SOLO_SEARCH.as_nanos();
        self.options
            .threads
            .min(requests)
            .min(usize::try_from(worth_it).unwrap_or(usize::MAX))
            .max(1)
    }

    /// Searches for some requests of a batch on this thread, and measures its processor time.
    fn search_piece(
        &self,
        batch: &SearchBatch<'_>,
        piece: Range<usize>,
    ) -> Result<(BatchHits, Duration)> {
        let start = thread_time();
        let mut scratch = self.lock_scratches().pop().unwrap_or_default();
        let queries = piece.clone().map(|at| self.query(batch, at)).collect();
        let hits = self.search_all_sources(batch, piece, queries, &mut scratch);
        self.lock_scratches().push(scratch);
        Ok((hits?, thread_time().saturating_sub(start)))
    }

    fn lock_scratches(&self) -> MutexGuard<'_, Vec<SearchScratch>> {
        self.scratches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The query of a request: for a stored document, only among the entries before it.
    fn query(&self, batch: &SearchBatch<'_>, at: usize) -> SearchQuery<'_> {
        let print = batch.requests[at].print;
        // A document without tokens matches nothing.
        let top = print.map_or(0, |_| batch.limits.top);
        let live = LiveFilter {
            end_sequence: batch.stored.sequence(at).unwrap_or(u64::MAX),
            ..self.live_at(batch.added, at, batch.now)
        };
        let best = BestMatches::new(batch.limits.min_similarity, top);
        SearchQuery::new(print.unwrap_or_default(), live, best)
    }

    /// Searches segments, memtables and the earlier requests of the batch, in this order.
    fn search_all_sources(
        &self,
        batch: &SearchBatch<'_>,
        piece: Range<usize>,
        mut queries: Vec<SearchQuery<'_>>,
        scratch: &mut SearchScratch,
    ) -> Result<BatchHits> {
        let Some(live) = queries.first().map(|query| query.live) else {
            return Ok(Vec::new());
        };
        for (number, SegmentState { segment, .. }) in self.segments.iter().enumerate() {
            if live.may_contain(segment.last_sequence(), segment.last_time()) {
                search(&**segment, number, &mut queries, scratch)?;
            }
        }
        for (number, memtable) in self.memtables().enumerate() {
            let last = memtable.last();
            if last.is_some_and(|(sequence, time)| live.may_contain(sequence, time)) {
                search(memtable, number, &mut queries, scratch)?;
            }
        }
        for (at, query) in piece.zip(&mut queries) {
            let count = batch.added.count_before(at);
            batch.added.search(count, query)?;
        }
        Ok(queries
            .into_iter()
            .map(|query| query.best.into_hits())
            .collect())
    }

    fn answer(&self, batch: &[Request<'_>], hits: &[Hit]) -> Result<Answer> {
        let matches: Result<_> = hits
            .iter()
            .map(|hit| {
                Ok(Match {
                    id: self.id_at(batch, hit.location)?,
                    similarity: hit.similarity,
                })
            })
            .collect();
        Ok(Answer { matches: matches? })
    }

    fn id_at(&self, batch: &[Request<'_>], location: HitLocation) -> Result<String> {
        match location {
            HitLocation::Segment(number, entry) => self.segments[number].segment.read_id(entry),
            HitLocation::Memtable(number, entry) => {
                let memtable = self.flushing.get(number).map_or(&self.memtable, |it| it);
                memtable.id(entry).map(str::to_owned)
            }
            HitLocation::Batch(number) => Ok(batch[number].id.to_owned()),
        }
    }

    /// Adds the new documents of a batch, to the journal first.
    fn add(&mut self, batch: &[Request<'_>], stored: &StoredDocuments, now: u32) -> Result<()> {
        let is_new = |at: usize| batch[at].add && stored.sequence(at).is_none();
        let new = (0..batch.len())
            .filter(|&at| is_new(at))
            .filter_map(|at| Some((batch[at].id, batch[at].print?)));
        let records: Vec<JournalRecord> = (self.next_sequence..)
            .zip(new)
            .map(|(sequence, (id, print))| {
                JournalRecord::Add(NewEntry {
                    print,
                    sequence,
                    time: now,
                    id: id.into(),
                })
            })
            .collect();
        if records.is_empty() {
            return Ok(());
        }
        self.last_time = now;
        self.append_and_apply(&records)?;
        self.prepare_next_journal();
        Ok(())
    }

    /// Appends new entries to the journal and the memtable. Both hold a fixed number of entries, so
    /// a batch may be divided between two of them.
    fn append_and_apply(&mut self, mut records: &[JournalRecord]) -> Result<()> {
        let limit = self.memtable_limit();
        while !records.is_empty() {
            let room = limit.saturating_sub(self.memtable.count()).to_usize();
            let (now, later) = records.split_at(room.min(records.len()));
            self.writer()?.journal.append(now)?;
            self.apply(now);
            if now.len() == room {
                self.rotate_journal()?;
            }
            records = later;
        }
        Ok(())
    }
}

/// The first sequence number of these entries that is live.
fn first_live(
    source: &dyn EntrySource,
    entries: &[u32],
    live: &LiveFilter<'_>,
) -> Result<Option<u64>> {
    let mut first = None;
    for &entry in entries {
        let sequence = source.sequence(entry)?;
        if live.contains(sequence, source.time(entry)?)
            && first.is_none_or(|first| sequence < first)
        {
            first = Some(sequence);
        }
    }
    Ok(first)
}

/// The processor time of this thread. Wall-clock time would include that of other processes.
fn thread_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes to a borrowed value. If it fails, that stays 0.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
