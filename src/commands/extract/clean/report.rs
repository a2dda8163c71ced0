//! Notes what becomes of each record, and why.

use super::{
    CleanRecords, CleanRules, Cleaned, Collection,
    cuts::{Cut, FoundCuts},
    decide::{Compared, Decisions, Dropped},
    fates::FateWriter,
    shards::ShardList,
};
use crate::{
    base::{
        error::Result,
        ids::DocNo,
        num::{ToU32, ToU64, ToUsize},
    },
    report::records::{CutPassage, CutRecord, DropReason, DroppedDocument, KeepNote},
    similar::Measure,
    text::stream::Span,
};
use std::{cmp::Reverse, path::Path};

/// Writes fates and records, document by document in the order of the input.
pub struct FateReport<'r> {
    rules: &'r CleanRules,
    measure: Measure,
    compared: &'r Compared<'r>,
    shards: &'r ShardList,
    writer: FateWriter,
    cleaned: Cleaned,
    /// For each document of the view, how many go because of it.
    groups: Vec<u32>,
}

/// Shares have six decimals, as in all records.
const SHARE_STEPS: f64 = 1e6;
/// How many groups are listed.
const LARGEST: usize = 5;

impl<'r> FateReport<'r> {
    pub fn new(
        rules: &'r CleanRules,
        measure: Measure,
        compared: &'r Compared<'r>,
        collection: &Collection<'r>,
        fates: &Path,
    ) -> Result<Self> {
        let members = compared.members;
        let cleaned = Cleaned {
            read: members.list.len().to_u64()
                + members.unknown
                + members.changed
                + members.repeated,
            unknown: members.unknown,
            changed: members.changed,
            repeated: members.repeated,
            ..Cleaned::default()
        };
        Ok(Self {
            rules,
            measure,
            compared,
            shards: collection.shards,
            writer: FateWriter::create(fates)?,
            cleaned,
            groups: vec![0; compared.view.documents()],
        })
    }

    pub fn write(
        mut self,
        decisions: &Decisions,
        found: FoundCuts,
        records: CleanRecords<'_>,
    ) -> Result<Cleaned> {
        let CleanRecords { dropped, cuts } = records;
        let mut records = CleanRecords {
            dropped: dropped
                .map(|target| target.begin(&DroppedDocument::default()))
                .transpose()?,
            cuts: cuts
                .map(|target| target.begin(&CutRecord::default()))
                .transpose()?,
        };
        let FoundCuts {
            cuts,
            keeps_others,
            is_whole,
        } = found;
        self.cleaned.whole = is_whole
            .iter()
            .filter(|is_whole| **is_whole)
            .count()
            .to_u64();
        let mut next = 0;
        if let Some(cuts) = cuts {
            cuts.for_each_document(|place, cuts| {
                self.put_uncut(next..place, decisions, &mut records)?;
                next = place + 1;
                let keeps = keeps_others[place.to_usize()];
                self.put_cut(place, cuts, keeps, &mut records)
            })?;
        }
        let places = self.compared.members.list.len().to_u32();
        self.put_uncut(next..places, decisions, &mut records)?;
        self.cleaned.kept = self.cleaned.read - self.cleaned.dropped();
        self.cleaned.largest = self.largest()?;
        self.cleaned.fates = self.writer.finish()?;
        Ok(self.cleaned)
    }

    fn put_uncut(
        &mut self,
        places: std::ops::Range<u32>,
        decisions: &Decisions,
        records: &mut CleanRecords<'_>,
    ) -> Result<()> {
        for place in places {
            match decisions.dropped[place.to_usize()] {
                Some(dropped) => self.drop(place, dropped, None, records)?,
                None if self.rules.annotate => self.note(
                    place,
                    &KeepNote {
                        keep: true,
                        ..KeepNote::default()
                    },
                )?,
                None => {}
            }
        }
        Ok(())
    }

    /// `share`: how much of it is elsewhere; by the blots that it shares if there is none.
    fn drop(
        &mut self,
        place: u32,
        dropped: Dropped,
        share: Option<f64>,
        records: &mut CleanRecords<'_>,
    ) -> Result<()> {
        let Dropped { of, shared, reason } = dropped;
        self.cleaned.count(reason);
        self.groups[of.index()] += 1;
        let member = self.compared.members.list[place.to_usize()];
        let (shard, record) = (member.shard.to_usize(), member.record);
        if !self.rules.annotate {
            self.writer.drop(shard, record)?;
            if records.dropped.is_none() {
                return Ok(());
            }
        }
        let share = share.unwrap_or_else(|| self.share(member.document, shared));
        let share = (share * SHARE_STEPS).round() / SHARE_STEPS;
        let (id, _) = self.name(member.document)?;
        let (duplicate_of, of_file) = self.name(of)?;
        if self.rules.annotate {
            let note = KeepNote {
                keep: false,
                reason: Some(reason),
                duplicate_of: Some(&duplicate_of),
                share: Some(share),
                spans: Vec::new(),
            };
            self.note(place, &note)?;
        }
        let record = DroppedDocument {
            id: &id,
            reason,
            duplicate_of: &duplicate_of,
            share,
            shared: self.measure.scaled(shared),
            file: &self.shards.shards[shard].name(),
            record,
            duplicate_of_file: of_file.as_deref(),
            estimate: self.measure.selection.is_some(),
        };
        records
            .dropped
            .as_mut()
            .map_or(Ok(()), |target| target.put(&record))
    }

    fn share(&self, document: DocNo, shared: u32) -> f64 {
        let sets = self.compared.sets;
        let size = sets.size(sets.rank_of(self.compared.view.content_of(document)));
        if size.blots == 0 {
            return 1.0;
        }
        f64::from(shared) / f64::from(size.blots)
    }

    fn put_cut(
        &mut self,
        place: u32,
        cuts: &[Cut],
        keeps_others: bool,
        records: &mut CleanRecords<'_>,
    ) -> Result<()> {
        let member = self.compared.members.list[place.to_usize()];
        let content = self.compared.view.content_of(member.document);
        let tokens = self.compared.view.contents()[content.index()].tokens;
        let cut: u32 = cuts.iter().map(|cut| cut.tokens).sum();
        if tokens.saturating_sub(cut) < self.rules.min_left && !keeps_others {
            let longest = cuts
                .iter()
                .max_by_key(|cut| (cut.tokens, Reverse(cut.span.start)));
            let dropped = Dropped {
                of: longest.map_or(member.document, |cut| cut.of),
                shared: 0,
                reason: DropReason::Short,
            };
            let share = f64::from(cut) / f64::from(tokens.max(1));
            return self.drop(place, dropped, Some(share), records);
        }
        self.cleaned.cut_documents += 1;
        self.cleaned.cut_passages += cuts.len().to_u64();
        self.cleaned.cut_tokens += u64::from(cut);
        let bytes = |cut: &Cut| u64::from(cut.span.end - cut.span.start);
        self.cleaned.cut_bytes += cuts.iter().map(bytes).sum::<u64>();
        if self.rules.annotate {
            let spans = cuts.iter().map(|cut| self.passage(cut));
            let note = KeepNote {
                keep: true,
                spans: spans.collect::<Result<_>>()?,
                ..KeepNote::default()
            };
            self.note(place, &note)?;
        } else {
            let spans: Vec<Span> = cuts.iter().map(|cut| cut.span).collect();
            self.writer
                .cut(member.shard.to_usize(), member.record, &spans)?;
        }
        if records.cuts.is_none() {
            return Ok(());
        }
        let (id, _) = self.name(member.document)?;
        for cut in cuts {
            let (duplicate_of, of_file) = self.name(cut.of)?;
            let record = CutRecord {
                id: &id,
                start: cut.span.start,
                end: cut.span.end,
                tokens: cut.tokens,
                duplicate_of: &duplicate_of,
                file: &self.shards.shards[member.shard.to_usize()].name(),
                record: member.record,
                duplicate_of_file: of_file.as_deref(),
            };
            if let Some(target) = &mut records.cuts {
                target.put(&record)?;
            }
        }
        Ok(())
    }

    fn passage(&self, cut: &Cut) -> Result<CutPassage> {
        Ok(CutPassage {
            start: cut.span.start,
            end: cut.span.end,
            tokens: cut.tokens,
            duplicate_of: self.name(cut.of)?.0,
        })
    }

    fn note(&mut self, place: u32, note: &KeepNote<'_>) -> Result<()> {
        let member = self.compared.members.list[place.to_usize()];
        self.writer
            .note(member.shard.to_usize(), member.record, note)
    }

    /// The id of a document, and its file, as the user knows them.
    fn name(&self, document: DocNo) -> Result<(String, Option<String>)> {
        let (id, file) = self.compared.name(document)?;
        Ok((id, file.map(|file| self.shards.shown_name(&file))))
    }

    fn largest(&self) -> Result<Vec<(String, u64)>> {
        let mut groups: Vec<_> = DocNo::first(self.groups.len())
            .zip(&self.groups)
            .filter(|(_, count)| **count > 0)
            .collect();
        groups.sort_by_key(|&(document, count)| (Reverse(*count), document));
        groups.truncate(LARGEST);
        let named =
            |(document, count): (DocNo, &u32)| Ok((self.name(document)?.0, u64::from(*count)));
        groups.into_iter().map(named).collect()
    }
}
