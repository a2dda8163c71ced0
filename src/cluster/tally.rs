//! What events add up to: who did what when, how fast, and how long the rest may take.

use super::{
    events::{Event, What},
    plan::{Plan, Task},
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// One attempt at a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub task: String,
    pub host: String,
    pub slot: u32,
    /// Among attempts of one slot that overlap: some engines do not tell their slots apart.
    pub lane: usize,
    pub start_ms: u64,
    pub end_ms: u64,
    pub end: End,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    Done {
        bytes_out: u64,
    },
    Lost(String),
    Failed(String),
    /// Not yet, as far as is known.
    Open,
}

/// Something that came to a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    pub from: String,
    pub to: String,
    pub goods: String,
    pub bytes: u64,
    /// From host to host.
    pub is_direct: bool,
    pub start_ms: u64,
    pub end_ms: u64,
}

/// All that came of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GoodsTally {
    pub moves: u64,
    pub bytes: u64,
    /// Of these, bytes that went from host to host.
    pub direct: u64,
}

/// What one host did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostTally {
    pub name: String,
    pub slots: usize,
    pub tasks: u64,
    pub lost: u64,
    pub busy_ms: u64,
    /// Of documents, as the plan counts them, of tasks that it did.
    pub bytes: u64,
    /// What came to it.
    pub moved: u64,
    /// Why it gets no more tasks.
    pub out: Option<String>,
}

impl HostTally {
    /// For each second of a slot.
    pub fn bytes_per_second(&self) -> u64 {
        per_second(self.bytes, self.busy_ms)
    }
}

fn per_second(bytes: u64, ms: u64) -> u64 {
    (u128::from(bytes) * 1000 / u128::from(ms.max(1)))
        .try_into()
        .unwrap_or(u64::MAX)
}

/// All of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// By host, slot, lane and start.
    pub spans: Vec<Span>,
    /// In the order of their ends.
    pub moves: Vec<Move>,
    /// By name.
    pub hosts: Vec<HostTally>,
}

impl Tally {
    /// Of events in the order of their times.
    pub fn new(plan: &Plan, events: &[Event]) -> Self {
        let mut spans = spans(events);
        put_lanes(&mut spans);
        let moves = moves(events);
        let hosts = hosts(plan, events, &spans);
        Self {
            spans,
            moves,
            hosts,
        }
    }

    pub fn moved(&self) -> u64 {
        self.moves
            .iter()
            .fold(0, |sum, moved| sum.saturating_add(moved.bytes))
    }

    /// What was moved, by kind.
    pub fn goods(&self) -> BTreeMap<&str, GoodsTally> {
        let mut goods = BTreeMap::<&str, GoodsTally>::new();
        for Move {
            goods: kind,
            bytes,
            is_direct,
            ..
        } in &self.moves
        {
            let of = goods.entry(kind).or_default();
            of.moves += 1;
            of.bytes = of.bytes.saturating_add(*bytes);
            of.direct = of
                .direct
                .saturating_add(if *is_direct { *bytes } else { 0 });
        }
        goods
    }

    /// Tasks whose outputs are on hosts, as far as is known: these did them, and were not lost since.
    pub fn done_on(&self, hosts: &[String]) -> HashSet<&str> {
        let is_there = |name: &String| {
            hosts.contains(name)
                && self
                    .hosts
                    .iter()
                    .any(|host| host.name == *name && host.out.is_none())
        };
        let is_done = |span: &&Span| matches!(span.end, End::Done { .. }) && is_there(&span.host);
        self.spans
            .iter()
            .filter(is_done)
            .map(|span| span.task.as_str())
            .collect()
    }

    /// When the first attempt or move began, and the last ended.
    pub fn times_ms(&self) -> Option<[u64; 2]> {
        let spans = || self.spans.iter().map(|span| [span.start_ms, span.end_ms]);
        let times = || {
            spans().chain(
                self.moves
                    .iter()
                    .map(|moved| [moved.start_ms, moved.end_ms]),
            )
        };
        let first = times().map(|[start, _]| start).min()?;
        Some([first, times().map(|[_, end]| end).max().unwrap_or(first)])
    }

    /// Bytes a second of a slot, by kind.
    pub fn rates(&self, plan: &Plan) -> BTreeMap<String, u64> {
        let tasks: HashMap<&str, &Task> = plan
            .tasks
            .iter()
            .map(|task| (task.id.as_str(), task))
            .collect();
        let mut sums = BTreeMap::<String, [u64; 2]>::new();
        for span in self
            .spans
            .iter()
            .filter(|span| matches!(span.end, End::Done { .. }))
        {
            if let Some(task) = tasks.get(span.task.as_str()) {
                let [bytes, ms] = sums.entry(task.kind().name().to_owned()).or_default();
                *bytes += task.bytes;
                *ms += span.end_ms - span.start_ms;
            }
        }
        sums.into_iter()
            .map(|(kind, [bytes, ms])| (kind, per_second(bytes, ms).max(1)))
            .collect()
    }

    /// How long what is missing may take at the rates so far, by the slots that are not out. None before any task is done.
    ///
    /// A stage takes its bytes ÷ (rate of a slot × slots); with fewer tasks than slots, only as many slots help. So 6 GB of map at 10 MB/s on 3 slots
    /// take 200 s.
    pub fn seconds_left(&self, plan: &Plan, missing: &[&Task]) -> Option<u64> {
        let rates = self.rates(plan);
        let slots = self
            .hosts
            .iter()
            .filter(|host| host.out.is_none())
            .map(|host| host.slots)
            .sum::<usize>()
            .max(1);
        // What was never done yet is taken for as slow as the slowest.
        let slowest = *rates.values().min()?;
        let mut stages = BTreeMap::<String, [u64; 2]>::new();
        for task in missing {
            let [bytes, tasks] = stages.entry(task.kind().name().to_owned()).or_default();
            *bytes += task.bytes;
            *tasks += 1;
        }
        let seconds = |(kind, [bytes, tasks]): (&String, &[u64; 2])| {
            bytes.div_ceil(
                rates
                    .get(kind)
                    .unwrap_or(&slowest)
                    .saturating_mul((slots as u64).min(*tasks))
                    .max(1),
            )
        };
        Some(stages.iter().map(seconds).sum())
    }
}

/// Each start with its end. One without an end was lost, if the task was begun or done again, else it is open.
fn spans(events: &[Event]) -> Vec<Span> {
    let mut spans = Vec::<Span>::new();
    let mut open = HashMap::<(&str, &str, u32), usize>::new();
    let last_ms = events.last().map_or(0, |event| event.time_ms);
    for event in events.iter().filter(|event| !event.task.is_empty()) {
        let end = match &event.what {
            What::Start => None,
            What::Done { bytes_out, .. } => Some(End::Done {
                bytes_out: *bytes_out,
            }),
            What::Lost(what) => Some(End::Lost(what.clone())),
            What::Failed(what) => Some(End::Failed(what.clone())),
            What::Moved { .. } | What::HostOut(_) => continue,
        };
        let key = (event.task.as_str(), event.host.as_str(), event.slot);
        match end {
            None => {
                let span = Span {
                    task: event.task.clone(),
                    host: event.host.clone(),
                    slot: event.slot,
                    lane: 0,
                    start_ms: event.time_ms,
                    end_ms: last_ms.max(event.time_ms),
                    end: End::Open,
                };
                open.insert(key, spans.len());
                spans.push(span);
            }
            Some(end) => {
                if let Some(at) = open.remove(&key) {
                    spans[at].end_ms = event.time_ms.max(spans[at].start_ms);
                    spans[at].end = end;
                }
            }
        }
    }
    close_forgotten(&mut spans);
    spans
}

/// Whoever wrote the start died before the end.
fn close_forgotten(spans: &mut [Span]) {
    let mut later = HashMap::<String, u64>::new();
    for at in (0..spans.len()).rev() {
        let ended = later.get(&spans[at].task).copied();
        if let (End::Open, Some(end_ms)) = (&spans[at].end, ended) {
            spans[at].end = End::Lost("nothing was heard of it again".to_owned());
            spans[at].end_ms = end_ms.max(spans[at].start_ms);
        }
        let again = if matches!(spans[at].end, End::Done { .. }) {
            spans[at].end_ms
        } else {
            spans[at].start_ms
        };
        later.insert(spans[at].task.clone(), again);
    }
}

fn put_lanes(spans: &mut [Span]) {
    spans.sort_by(|a, b| {
        (&a.host, a.slot, a.start_ms, &a.task).cmp(&(&b.host, b.slot, b.start_ms, &b.task))
    });
    let mut ends = Vec::<u64>::new();
    for at in 0..spans.len() {
        if at == 0 || (&spans[at - 1].host, spans[at - 1].slot) != (&spans[at].host, spans[at].slot)
        {
            ends.clear();
        }
        let lane = ends
            .iter()
            .position(|&end| end <= spans[at].start_ms)
            .unwrap_or(ends.len());
        if lane == ends.len() {
            ends.push(0);
        }
        ends[lane] = spans[at].end_ms;
        spans[at].lane = lane;
    }
}

fn moves(events: &[Event]) -> Vec<Move> {
    let of = |event: &Event| match &event.what {
        What::Moved {
            from,
            goods,
            bytes,
            ms,
            direct,
        } => Some(Move {
            from: from.clone(),
            to: event.host.clone(),
            goods: goods.clone(),
            bytes: *bytes,
            is_direct: *direct,
            start_ms: event.time_ms.saturating_sub(*ms),
            end_ms: event.time_ms,
        }),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

fn hosts(plan: &Plan, events: &[Event], spans: &[Span]) -> Vec<HostTally> {
    let bytes: HashMap<&str, u64> = plan
        .tasks
        .iter()
        .map(|task| (task.id.as_str(), task.bytes))
        .collect();
    let mut hosts = BTreeMap::<&str, HostTally>::new();
    let mut slots = HashSet::new();
    for span in spans {
        let host = hosts.entry(&span.host).or_default();
        host.slots += usize::from(slots.insert((&span.host, span.slot, span.lane)));
        match &span.end {
            End::Done { .. } => {
                host.tasks += 1;
                host.busy_ms += span.end_ms - span.start_ms;
                host.bytes += bytes.get(span.task.as_str()).copied().unwrap_or(0);
            }
            End::Lost(_) | End::Failed(_) => host.lost += 1,
            End::Open => {}
        }
    }
    for event in events {
        match &event.what {
            What::HostOut(what) => hosts.entry(&event.host).or_default().out = Some(what.clone()),
            // It came back.
            What::Start | What::Done { .. } => hosts.entry(&event.host).or_default().out = None,
            What::Moved { bytes, .. } => {
                let host = hosts.entry(&event.host).or_default();
                host.moved = host.moved.saturating_add(*bytes);
            }
            What::Lost(_) | What::Failed(_) => {}
        }
    }
    hosts
        .into_iter()
        .map(|(name, host)| HostTally {
            name: name.to_owned(),
            ..host
        })
        .collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::cluster::Work;

    pub fn event(time_ms: u64, task: &str, host: &str, slot: u32, what: What) -> Event {
        Event {
            time_ms,
            task: task.to_owned(),
            host: host.to_owned(),
            slot,
            what,
        }
    }

    const DONE: What = What::Done {
        bytes_in: 1,
        bytes_out: 10,
    };

    fn moved(from: &str, goods: &str, bytes: u64, direct: bool) -> What {
        What::Moved {
            from: from.to_owned(),
            goods: goods.to_owned(),
            bytes,
            ms: 100,
            direct,
        }
    }

    /// Four maps of 6,000 bytes and a reduction of all.
    pub fn plan() -> Plan {
        let task = |id: &str, work, bytes| Task::example(id, work, 0, "", bytes);
        let map = || Work::Map {
            slice: String::new(),
            selection_files: Vec::new(),
            with_files: false,
        };
        let mut tasks: Vec<Task> = ["m0", "m1", "m2", "m3"]
            .iter()
            .map(|id| task(id, map(), 6000))
            .collect();
        let reduce = Work::Reduce {
            targets: String::new(),
            runs: Vec::new(),
            words: Vec::new(),
        };
        tasks.push(task("r0", reduce, 24_000));
        Plan::example(tasks)
    }

    pub fn events() -> Vec<Event> {
        vec![
            event(1000, "m0", "a", 0, What::Start),
            event(1050, "", "a", 0, moved("here", "runs", 5, false)),
            event(1000, "m1", "a", 1, What::Start),
            event(1500, "m2", "b", 0, What::Start),
            event(2000, "m0", "a", 0, DONE),
            event(2100, "", "a", 0, moved("b", "runs", 7, true)),
            event(2500, "m2", "b", 0, What::Lost("gone".to_owned())),
            event(2500, "", "b", 0, What::HostOut("it died".to_owned())),
            event(2600, "m2", "a", 0, What::Start),
            event(3000, "m1", "a", 1, DONE),
            event(4600, "m2", "a", 0, DONE),
        ]
    }

    #[test]
    fn attempts_are_told_apart_and_added_up() {
        let tally = Tally::new(&plan(), &events());
        let told: Vec<_> = tally
            .spans
            .iter()
            .map(|span| {
                (
                    span.task.as_str(),
                    span.host.as_str(),
                    span.start_ms,
                    span.end_ms,
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                ("m0", "a", 1000, 2000),
                ("m2", "a", 2600, 4600),
                ("m1", "a", 1000, 3000),
                ("m2", "b", 1500, 2500)
            ]
        );
        assert_eq!(tally.spans[3].end, End::Lost("gone".to_owned()));
        let a = HostTally {
            name: "a".to_owned(),
            slots: 2,
            tasks: 3,
            lost: 0,
            busy_ms: 5000,
            bytes: 18_000,
            moved: 12,
            out: None,
        };
        let b = HostTally {
            name: "b".to_owned(),
            slots: 1,
            lost: 1,
            out: Some("it died".to_owned()),
            ..HostTally::default()
        };
        assert_eq!(
            (
                tally.moved(),
                tally.hosts[0].bytes_per_second(),
                tally.times_ms()
            ),
            (12, 3600, Some([950, 4600]))
        );
        assert_eq!(
            tally.goods()["runs"],
            GoodsTally {
                moves: 2,
                bytes: 12,
                direct: 7
            }
        );
        assert_eq!(tally.done_on(&["a".to_owned(), "b".to_owned()]).len(), 3);
        assert_eq!(tally.hosts, [a, b]);
    }

    #[test]
    fn the_time_left_is_that_of_each_stage() {
        let plan = plan();
        let tally = Tally::new(&plan, &events());
        let left = |ids: &[&str]| {
            tally.seconds_left(
                &plan,
                &plan
                    .tasks
                    .iter()
                    .filter(|task| ids.contains(&task.id.as_str()))
                    .collect::<Vec<_>>(),
            )
        };
        // One map of 6,000 bytes at 3,600 a second; the reduction is taken for as slow.
        assert_eq!(
            (left(&[]), left(&["m3"]), left(&["m3", "r0"])),
            (Some(0), Some(2), Some(2 + 7))
        );
        assert_eq!(Tally::new(&plan, &[]).seconds_left(&plan, &[]), None);
    }

    #[test]
    fn what_was_not_heard_of_again_is_lost_and_what_overlaps_has_lanes() {
        let events = [
            event(1000, "m0", "a", 0, What::Start),
            event(1100, "m1", "a", 0, What::Start),
            event(2000, "m0", "a", 0, What::Start),
            event(900, "m0", "a", 0, DONE),
        ];
        let tally = Tally::new(&plan(), &events);
        let told: Vec<_> = tally
            .spans
            .iter()
            .map(|span| (span.lane, span.start_ms, span.end_ms, span.end.clone()))
            .collect();
        let lost = End::Lost("nothing was heard of it again".to_owned());
        let done = End::Done { bytes_out: 10 };
        assert_eq!(
            told,
            [
                (0, 1000, 2000, lost),
                (1, 1100, 1100, End::Open),
                (0, 2000, 2000, done)
            ]
        );
    }
}
