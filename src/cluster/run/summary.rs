//! A summary of the events of a run: what each host did, how fast, and how long the rest may take.

use crate::base::num::ToU64;
use crate::cluster::{
    plan::{Plan, Task},
    run::event_log::{Event, EventKind},
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// One attempt at a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub task: String,
    pub host: String,
    pub slot: u32,
    /// The lane of overlapping attempts of one slot: some engines do not distinguish slots.
    pub lane: usize,
    pub start_ms: u64,
    pub end_ms: u64,
    pub end: AttemptEnd,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptEnd {
    Done {
        bytes_out: u64,
    },
    Lost(String),
    Failed(String),
    /// Still running, as far as is known.
    Open,
}

/// A transfer of files to a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    pub from: String,
    pub to: String,
    pub kind: String,
    pub bytes: u64,
    /// Whether the files went from host to host.
    pub is_direct: bool,
    pub start_ms: u64,
    pub end_ms: u64,
}

/// All transfers of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransferSummary {
    pub transfers: u64,
    pub bytes: u64,
    /// The bytes that went from host to host.
    pub direct: u64,
}

/// What one host did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostSummary {
    /// The name of the host.
    pub name: String,
    /// The number of slots that were used.
    pub slots: usize,
    /// The number of tasks that it did.
    pub tasks: u64,
    /// The number of attempts that were lost there.
    pub lost: u64,
    /// The time that its slots worked, in milliseconds.
    pub busy_ms: u64,
    /// The bytes of documents of the tasks that it did, as the plan counts them.
    pub bytes: u64,
    /// The bytes that were transferred to it.
    pub moved: u64,
    /// Why it gets no more tasks.
    pub out: Option<String>,
}

impl HostSummary {
    /// The bytes per second of one slot.
    pub fn bytes_per_second(&self) -> u64 {
        per_second(self.bytes, self.busy_ms)
    }
}

fn per_second(bytes: u64, ms: u64) -> u64 {
    (u128::from(bytes) * 1000 / u128::from(ms.max(1)))
        .try_into()
        .unwrap_or(u64::MAX)
}

/// The summary of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RunSummary {
    /// The attempts, by host, slot, lane and start.
    pub attempts: Vec<Attempt>,
    /// The transfers, by end.
    pub transfers: Vec<Transfer>,
    /// The hosts, by name.
    pub hosts: Vec<HostSummary>,
}

impl RunSummary {
    /// Adds up events, which are in order of time.
    pub fn new(plan: &Plan, events: &[Event]) -> Self {
        let mut attempts = attempts(events);
        put_lanes(&mut attempts);
        let transfers = transfers(events);
        let hosts = hosts(plan, events, &attempts);
        Self {
            attempts,
            transfers,
            hosts,
        }
    }

    /// The bytes of all transfers.
    pub fn moved(&self) -> u64 {
        self.transfers
            .iter()
            .fold(0, |sum, moved| sum.saturating_add(moved.bytes))
    }

    /// The transfers by kind of file.
    pub fn by_kind(&self) -> BTreeMap<&str, TransferSummary> {
        let mut kinds = BTreeMap::<&str, TransferSummary>::new();
        for Transfer {
            kind,
            bytes,
            is_direct,
            ..
        } in &self.transfers
        {
            let of = kinds.entry(kind).or_default();
            of.transfers += 1;
            of.bytes = of.bytes.saturating_add(*bytes);
            of.direct = of
                .direct
                .saturating_add(if *is_direct { *bytes } else { 0 });
        }
        kinds
    }

    /// The tasks whose outputs are on these hosts, as far as is known: the hosts did them, and were
    /// not lost since.
    pub fn done_on(&self, hosts: &[String]) -> HashSet<&str> {
        let is_there = |name: &String| {
            hosts.contains(name)
                && self
                    .hosts
                    .iter()
                    .any(|host| host.name == *name && host.out.is_none())
        };
        let is_done = |attempt: &&Attempt| {
            matches!(attempt.end, AttemptEnd::Done { .. }) && is_there(&attempt.host)
        };
        self.attempts
            .iter()
            .filter(is_done)
            .map(|attempt| attempt.task.as_str())
            .collect()
    }

    /// When the first attempt or transfer started, and the last ended.
    pub fn times_ms(&self) -> Option<[u64; 2]> {
        let attempts = || {
            self.attempts
                .iter()
                .map(|attempt| [attempt.start_ms, attempt.end_ms])
        };
        let times = || {
            attempts().chain(
                self.transfers
                    .iter()
                    .map(|moved| [moved.start_ms, moved.end_ms]),
            )
        };
        let first = times().map(|[start, _]| start).min()?;
        Some([first, times().map(|[_, end]| end).max().unwrap_or(first)])
    }

    /// Bytes per second of a slot, by kind of task.
    pub fn rates(&self, plan: &Plan) -> BTreeMap<String, u64> {
        let tasks: HashMap<&str, &Task> = plan
            .tasks
            .iter()
            .map(|task| (task.id.as_str(), task))
            .collect();
        let mut sums = BTreeMap::<String, [u64; 2]>::new();
        for attempt in self
            .attempts
            .iter()
            .filter(|attempt| matches!(attempt.end, AttemptEnd::Done { .. }))
        {
            if let Some(task) = tasks.get(attempt.task.as_str()) {
                let [bytes, ms] = sums.entry(task.kind().name().to_owned()).or_default();
                *bytes += task.bytes;
                *ms += attempt.end_ms - attempt.start_ms;
            }
        }
        sums.into_iter()
            .map(|(kind, [bytes, ms])| (kind, per_second(bytes, ms).max(1)))
            .collect()
    }

    /// Estimates how long the missing tasks take at the rates so far, on the slots of hosts that
    /// are not given up. None before any task is done.
    ///
    /// A stage takes its bytes ÷ (rate of a slot × slots); with fewer tasks than slots, only as
    /// many slots help. So 6 GB of map at 10 MB/s on 3 slots take 200 s.
    pub fn seconds_left(&self, plan: &Plan, missing: &[&Task]) -> Option<u64> {
        let rates = self.rates(plan);
        let slots = self
            .hosts
            .iter()
            .filter(|host| host.out.is_none())
            .map(|host| host.slots)
            .sum::<usize>()
            .max(1);
        // A kind that was never done counts as slow as the slowest.
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
                    .saturating_mul(slots.to_u64().min(*tasks))
                    .max(1),
            )
        };
        Some(stages.iter().map(seconds).sum())
    }
}

/// Pairs each start with its end. One without an end was lost if the task started or ended again,
/// else it is open.
fn attempts(events: &[Event]) -> Vec<Attempt> {
    let mut attempts = Vec::<Attempt>::new();
    let mut open = HashMap::<(&str, &str, u32), usize>::new();
    let last_ms = events.last().map_or(0, |event| event.time_ms);
    for event in events.iter().filter(|event| !event.task.is_empty()) {
        let end = match &event.what {
            EventKind::Start => None,
            EventKind::Done { bytes_out, .. } => Some(AttemptEnd::Done {
                bytes_out: *bytes_out,
            }),
            EventKind::Lost(what) => Some(AttemptEnd::Lost(what.clone())),
            EventKind::Failed(what) => Some(AttemptEnd::Failed(what.clone())),
            EventKind::Moved { .. } | EventKind::HostOut(_) => continue,
        };
        let key = (event.task.as_str(), event.host.as_str(), event.slot);
        match end {
            None => {
                let attempt = Attempt {
                    task: event.task.clone(),
                    host: event.host.clone(),
                    slot: event.slot,
                    lane: 0,
                    start_ms: event.time_ms,
                    end_ms: last_ms.max(event.time_ms),
                    end: AttemptEnd::Open,
                };
                open.insert(key, attempts.len());
                attempts.push(attempt);
            }
            Some(end) => {
                if let Some(at) = open.remove(&key) {
                    attempts[at].end_ms = event.time_ms.max(attempts[at].start_ms);
                    attempts[at].end = end;
                }
            }
        }
    }
    close_forgotten(&mut attempts);
    attempts
}

/// The process that wrote the start died before the end.
fn close_forgotten(attempts: &mut [Attempt]) {
    let mut later = HashMap::<String, u64>::new();
    for at in (0..attempts.len()).rev() {
        let ended = later.get(&attempts[at].task).copied();
        if let (AttemptEnd::Open, Some(end_ms)) = (&attempts[at].end, ended) {
            attempts[at].end = AttemptEnd::Lost("nothing was heard of it again".to_owned());
            attempts[at].end_ms = end_ms.max(attempts[at].start_ms);
        }
        let again = if matches!(attempts[at].end, AttemptEnd::Done { .. }) {
            attempts[at].end_ms
        } else {
            attempts[at].start_ms
        };
        later.insert(attempts[at].task.clone(), again);
    }
}

fn put_lanes(attempts: &mut [Attempt]) {
    attempts.sort_by(|a, b| {
        (&a.host, a.slot, a.start_ms, &a.task).cmp(&(&b.host, b.slot, b.start_ms, &b.task))
    });
    let mut ends = Vec::<u64>::new();
    for at in 0..attempts.len() {
        if at == 0
            || (&attempts[at - 1].host, attempts[at - 1].slot)
                != (&attempts[at].host, attempts[at].slot)
        {
            ends.clear();
        }
        let lane = ends
            .iter()
            .position(|&end| end <= attempts[at].start_ms)
            .unwrap_or(ends.len());
        if lane == ends.len() {
            ends.push(0);
        }
        ends[lane] = attempts[at].end_ms;
        attempts[at].lane = lane;
    }
}

fn transfers(events: &[Event]) -> Vec<Transfer> {
    let of = |event: &Event| match &event.what {
        EventKind::Moved {
            from,
            kind,
            bytes,
            ms,
            direct,
        } => Some(Transfer {
            from: from.clone(),
            to: event.host.clone(),
            kind: kind.clone(),
            bytes: *bytes,
            is_direct: *direct,
            start_ms: event.time_ms.saturating_sub(*ms),
            end_ms: event.time_ms,
        }),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

fn hosts(plan: &Plan, events: &[Event], attempts: &[Attempt]) -> Vec<HostSummary> {
    let bytes: HashMap<&str, u64> = plan
        .tasks
        .iter()
        .map(|task| (task.id.as_str(), task.bytes))
        .collect();
    let mut hosts = BTreeMap::<&str, HostSummary>::new();
    let mut slots = HashSet::new();
    for attempt in attempts {
        let host = hosts.entry(&attempt.host).or_default();
        host.slots += usize::from(slots.insert((&attempt.host, attempt.slot, attempt.lane)));
        match &attempt.end {
            AttemptEnd::Done { .. } => {
                host.tasks += 1;
                host.busy_ms += attempt.end_ms - attempt.start_ms;
                host.bytes += bytes.get(attempt.task.as_str()).copied().unwrap_or(0);
            }
            AttemptEnd::Lost(_) | AttemptEnd::Failed(_) => host.lost += 1,
            AttemptEnd::Open => {}
        }
    }
    for event in events {
        match &event.what {
            EventKind::HostOut(what) => {
                hosts.entry(&event.host).or_default().out = Some(what.clone())
            }
            // The host came back.
            EventKind::Start | EventKind::Done { .. } => {
                hosts.entry(&event.host).or_default().out = None
            }
            EventKind::Moved { bytes, .. } => {
                let host = hosts.entry(&event.host).or_default();
                host.moved = host.moved.saturating_add(*bytes);
            }
            EventKind::Lost(_) | EventKind::Failed(_) => {}
        }
    }
    hosts
        .into_iter()
        .map(|(name, host)| HostSummary {
            name: name.to_owned(),
            ..host
        })
        .collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::cluster::TaskWork;

    pub fn event(time_ms: u64, task: &str, host: &str, slot: u32, what: EventKind) -> Event {
        Event {
            time_ms,
            task: task.to_owned(),
            host: host.to_owned(),
            slot,
            what,
        }
    }

    const DONE: EventKind = EventKind::Done {
        bytes_in: 1,
        bytes_out: 10,
    };

    fn moved(from: &str, kind: &str, bytes: u64, direct: bool) -> EventKind {
        EventKind::Moved {
            from: from.to_owned(),
            kind: kind.to_owned(),
            bytes,
            ms: 100,
            direct,
        }
    }

    /// Four maps of 6,000 bytes and a reduction of all.
    pub fn plan() -> Plan {
        let task = |id: &str, work, bytes| Task::example(id, work, 0, "", bytes);
        let map = || TaskWork::Map {
            slice: String::new(),
            selection_files: Vec::new(),
            with_files: false,
        };
        let mut tasks: Vec<Task> = ["m0", "m1", "m2", "m3"]
            .iter()
            .map(|id| task(id, map(), 6000))
            .collect();
        let reduce = TaskWork::Reduce {
            targets: String::new(),
            runs: Vec::new(),
            words: Vec::new(),
            shares: 1,
        };
        tasks.push(task("r0", reduce, 24_000));
        Plan::example(tasks)
    }

    pub fn events() -> Vec<Event> {
        vec![
            event(1000, "m0", "a", 0, EventKind::Start),
            event(1050, "", "a", 0, moved("here", "runs", 5, false)),
            event(1000, "m1", "a", 1, EventKind::Start),
            event(1500, "m2", "b", 0, EventKind::Start),
            event(2000, "m0", "a", 0, DONE),
            event(2100, "", "a", 0, moved("b", "runs", 7, true)),
            event(2500, "m2", "b", 0, EventKind::Lost("gone".to_owned())),
            event(2500, "", "b", 0, EventKind::HostOut("it died".to_owned())),
            event(2600, "m2", "a", 0, EventKind::Start),
            event(3000, "m1", "a", 1, DONE),
            event(4600, "m2", "a", 0, DONE),
        ]
    }

    #[test]
    fn attempts_are_distinguished_and_added_up() {
        let summary = RunSummary::new(&plan(), &events());
        let described: Vec<_> = summary
            .attempts
            .iter()
            .map(|attempt| {
                (
                    attempt.task.as_str(),
                    attempt.host.as_str(),
                    attempt.start_ms,
                    attempt.end_ms,
                )
            })
            .collect();
        assert_eq!(
            described,
            [
                ("m0", "a", 1000, 2000),
                ("m2", "a", 2600, 4600),
                ("m1", "a", 1000, 3000),
                ("m2", "b", 1500, 2500)
            ]
        );
        assert_eq!(summary.attempts[3].end, AttemptEnd::Lost("gone".to_owned()));
        let a = HostSummary {
            name: "a".to_owned(),
            slots: 2,
            tasks: 3,
            lost: 0,
            busy_ms: 5000,
            bytes: 18_000,
            moved: 12,
            out: None,
        };
        let b = HostSummary {
            name: "b".to_owned(),
            slots: 1,
            lost: 1,
            out: Some("it died".to_owned()),
            ..HostSummary::default()
        };
        assert_eq!(
            (
                summary.moved(),
                summary.hosts[0].bytes_per_second(),
                summary.times_ms()
            ),
            (12, 3600, Some([950, 4600]))
        );
        assert_eq!(
            summary.by_kind()["runs"],
            TransferSummary {
                transfers: 2,
                bytes: 12,
                direct: 7
            }
        );
        assert_eq!(summary.done_on(&["a".to_owned(), "b".to_owned()]).len(), 3);
        assert_eq!(summary.hosts, [a, b]);
    }

    #[test]
    fn the_time_left_is_the_sum_of_the_stages() {
        let plan = plan();
        let summary = RunSummary::new(&plan, &events());
        let left = |ids: &[&str]| {
            summary.seconds_left(
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
        assert_eq!(RunSummary::new(&plan, &[]).seconds_left(&plan, &[]), None);
    }

    #[test]
    fn unfinished_attempts_are_lost_and_overlapping_ones_get_lanes() {
        let events = [
            event(1000, "m0", "a", 0, EventKind::Start),
            event(1100, "m1", "a", 0, EventKind::Start),
            event(2000, "m0", "a", 0, EventKind::Start),
            event(900, "m0", "a", 0, DONE),
        ];
        let summary = RunSummary::new(&plan(), &events);
        let described: Vec<_> = summary
            .attempts
            .iter()
            .map(|attempt| {
                (
                    attempt.lane,
                    attempt.start_ms,
                    attempt.end_ms,
                    attempt.end.clone(),
                )
            })
            .collect();
        let lost = AttemptEnd::Lost("nothing was heard of it again".to_owned());
        let done = AttemptEnd::Done { bytes_out: 10 };
        assert_eq!(
            described,
            [
                (0, 1000, 2000, lost),
                (1, 1100, 1100, AttemptEnd::Open),
                (0, 2000, 2000, done)
            ]
        );
    }
}
