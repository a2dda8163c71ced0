//! Who does what next: an account of tasks, of places that run them, and of what lies where. Nothing here waits, reads or writes.
//!
//! Place 0 is this machine, the others are hosts. A task is run if what is wanted here cannot be had without it: so what a lost host had is made again only if
//! somebody still needs it.

use super::plan::{Plan, TaskKind};
use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

/// This machine, and its files.
pub const HERE: usize = 0;
/// A host that fails as often in a row gets no more tasks.
const STRIKES: u32 = 3;
/// How long nothing is looked at again if nobody rings.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// How long a host rests after its first strike, at least.
const REST: Duration = Duration::from_millis(300);
/// How much is brought ahead of time in one go.
const MOST_BROUGHT: usize = 64;

/// What a place may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    All,
    /// All but what must be run here.
    Common,
    /// Only that.
    Own,
}

/// A place, before anything is known of it.
#[derive(Debug, Clone)]
pub struct Place {
    pub name: String,
    pub slots: u32,
    pub takes: Takes,
    /// It works on the files of this machine.
    pub is_shared: bool,
}

/// What a mover does next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Bring what a task needs from these stores; then it can be run.
    Stage {
        task: usize,
        bring: Vec<(usize, Vec<String>)>,
    },
    /// Bring something that will be needed.
    Bring {
        from: usize,
        paths: Vec<String>,
    },
    Wait(Duration),
    End,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    Done,
    /// A task that will not do, and why.
    Failed(String, String),
    /// A task that was lost too often, and why.
    Lost(String, String),
    /// No host is left; what became of each.
    AllOut(Vec<String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Free,
    Claimed(usize),
    Staged(usize),
    Running(usize),
}

impl Turn {
    fn place(self) -> Option<usize> {
        match self {
            Self::Free => None,
            Self::Claimed(place) | Self::Staged(place) | Self::Running(place) => Some(place),
        }
    }
}

struct Need {
    path: String,
    /// The task whose output it is, or is in. What nobody makes is here.
    maker: Option<usize>,
}

struct Job {
    needs: Vec<Need>,
    turn: Turn,
    losses: u32,
    /// Where it was lost.
    avoid: BTreeSet<usize>,
    is_own: bool,
    home: Option<usize>,
    /// What it needs is large and stays at its home from run to run: it waits for a slot there while the host lives.
    is_rooted: bool,
    bytes: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum Standing {
    Unheard,
    Alive,
    Out(String),
}

struct Seat {
    place: Place,
    store: usize,
    standing: Standing,
    strikes: u32,
    rest_until: Option<Instant>,
}

pub struct Board {
    ids: Vec<String>,
    outputs: Vec<String>,
    jobs: Vec<Job>,
    seats: Vec<Seat>,
    retries: u32,
    /// How many tasks may be run at a time.
    most: usize,
    /// By task: the stores that have its output.
    made: Vec<BTreeSet<usize>>,
    /// By path: the stores that have a copy of it.
    copies: HashMap<String, BTreeSet<usize>>,
    /// Tasks whose outputs are wanted here.
    sinks: Vec<usize>,
    /// Tasks that are to be done whether or not anybody needs it.
    also: BTreeSet<usize>,
    end: Option<End>,
    /// When it was last looked at.
    now: Instant,
}

impl Board {
    /// `needs`: what tasks need beside their inputs.
    pub fn new(
        plan: &Plan,
        needs: &HashMap<String, Vec<String>>,
        places: Vec<Place>,
        retries: u32,
    ) -> Self {
        let makers: HashMap<&str, usize> = plan
            .tasks
            .iter()
            .enumerate()
            .map(|(number, task)| (task.output.as_str(), number))
            .collect();
        let hosts = places.len() - 1;
        let job = |task: &super::plan::Task| {
            let is_of_range = task.kind() != TaskKind::Map && !task.kind().is_central();
            let home = plan
                .ranges
                .get(task.number)
                .filter(|_| is_of_range)
                .map(|range| range.host + 1);
            let more = needs.get(&task.id).into_iter().flatten();
            let needs = task
                .inputs
                .iter()
                .chain(more)
                .map(|path| Need {
                    path: path.clone(),
                    maker: maker_of(&makers, path),
                })
                .collect();
            let home = home.filter(|&home| home <= hosts);
            let is_own = task.kind().is_central();
            let is_rooted = task.kind() == TaskKind::Count && plan.options.base.is_some();
            Job {
                needs,
                turn: Turn::Free,
                losses: 0,
                avoid: BTreeSet::new(),
                is_own,
                home,
                is_rooted,
                bytes: task.bytes,
            }
        };
        let jobs: Vec<Job> = plan.tasks.iter().map(job).collect();
        let needed: BTreeSet<usize> = jobs
            .iter()
            .flat_map(|job| &job.needs)
            .filter_map(|need| need.maker)
            .collect();
        let seat = |(number, place): (usize, Place)| {
            let store = if place.is_shared { HERE } else { number };
            Seat {
                place,
                store,
                standing: Standing::Unheard,
                strikes: 0,
                rest_until: None,
            }
        };
        Self {
            ids: plan.tasks.iter().map(|task| task.id.clone()).collect(),
            outputs: plan.tasks.iter().map(|task| task.output.clone()).collect(),
            made: vec![BTreeSet::new(); jobs.len()],
            sinks: (0..jobs.len())
                .filter(|task| {
                    !needed.contains(task) || plan.tasks[*task].kind() == TaskKind::Table
                })
                .collect(),
            jobs,
            seats: places.into_iter().enumerate().map(seat).collect(),
            retries,
            most: usize::MAX,
            copies: HashMap::new(),
            also: BTreeSet::new(),
            end: None,
            now: Instant::now(),
        }
    }

    /// No more tasks than this are run at a time.
    pub fn with_most(self, most: Option<usize>) -> Self {
        Self {
            most: most.unwrap_or(usize::MAX),
            ..self
        }
    }

    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    pub fn place(&self, place: usize) -> &Place {
        &self.seats[place].place
    }

    /// A place is there, with these outputs and inputs of tasks. `also`: tasks to be done in any case.
    pub fn begun(&mut self, place: usize, paths: &[String], also: &[usize]) {
        self.seats[place].standing = Standing::Alive;
        self.seats[place].strikes = 0;
        self.brought(self.seats[place].store, paths);
        self.also.extend(also);
        self.look_at_end();
    }

    /// A store has these now.
    pub fn brought(&mut self, store: usize, paths: &[String]) {
        for path in paths {
            let task = self.outputs.iter().position(|output| output == path);
            let stores = task.map_or_else(
                || self.copies.entry(path.clone()).or_default(),
                |task| &mut self.made[task],
            );
            stores.insert(store);
        }
        self.look_at_end();
    }

    /// All that a task needs is there.
    pub fn staged(&mut self, place: usize, task: usize) {
        if self.jobs[task].turn == Turn::Claimed(place) {
            self.jobs[task].turn = Turn::Staged(place);
        }
    }

    /// The next task of a slot, the largest first. None at the end: then the slot is closed.
    pub fn take(&mut self, place: usize, now: Instant) -> Option<usize> {
        let running = self
            .jobs
            .iter()
            .filter(|job| matches!(job.turn, Turn::Running(_)))
            .count();
        if self.rest(place, now).is_some() || self.end.is_some() || running >= self.most {
            return None;
        }
        let staged =
            (0..self.jobs.len()).filter(|&task| self.jobs[task].turn == Turn::Staged(place));
        let task = staged.max_by_key(|&task| (self.jobs[task].bytes, std::cmp::Reverse(task)))?;
        self.jobs[task].turn = Turn::Running(place);
        Some(task)
    }

    /// No more tasks will be run there.
    pub fn is_closed(&self, place: usize) -> bool {
        self.end.is_some() || self.is_out(place)
    }

    pub fn done(&mut self, place: usize, task: usize) {
        if !self.is_closed(place) {
            self.seats[place].strikes = 0;
            self.made[task].insert(self.seats[place].store);
        }
        self.release(place, task);
        self.also.remove(&task);
        self.look_at_end();
    }

    /// To run it again will not help.
    pub fn failed(&mut self, task: usize, why: &str) {
        let id = self.ids[task].clone();
        self.give_up(id, why);
    }

    /// This machine cannot go on.
    pub fn give_up(&mut self, task: String, why: &str) {
        self.end
            .get_or_insert_with(|| End::Failed(task, why.to_owned()));
    }

    /// This machine cannot go on now.
    pub fn stop(&mut self, why: &str) {
        self.end.get_or_insert_with(|| {
            End::Lost(
                "run".to_owned(),
                format!("{why}; run it again when there is room"),
            )
        });
    }

    /// Whether a place does not answer any more.
    pub fn is_out(&self, place: usize) -> bool {
        matches!(self.seats[place].standing, Standing::Out(_))
    }

    /// It was lost there, and may be run again, elsewhere if there is an elsewhere.
    pub fn lost(&mut self, place: usize, task: usize, why: &str) {
        if self.jobs[task].turn.place() != Some(place) {
            return;
        }
        self.release(place, task);
        let job = &mut self.jobs[task];
        job.losses += 1;
        job.avoid.insert(place);
        if job.losses > self.retries {
            let what = format!(
                "lost {} times, the last time on {}: {why}",
                job.losses, self.seats[place].place.name
            );
            self.end
                .get_or_insert_with(|| End::Lost(self.ids[task].clone(), what));
        }
    }

    /// It can be run here only.
    pub fn keep_here(&mut self, place: usize, task: usize) {
        self.jobs[task].is_own = true;
        self.release(place, task);
    }

    /// What a store has of these is not whole, or cannot be had.
    pub fn unmade(&mut self, store: usize, paths: &[String]) {
        for path in paths {
            self.copies.entry(path.clone()).or_default().remove(&store);
            if let Some(task) = self
                .jobs
                .iter()
                .flat_map(|job| &job.needs)
                .find(|need| need.path == *path)
                .and_then(|need| need.maker)
            {
                self.made[task].remove(&store);
            } else if let Some(task) = self.outputs.iter().position(|output| output == path) {
                self.made[task].remove(&store);
            }
        }
    }

    /// The host failed, not the task. True if it gets no more tasks. What fails while it rests fails for the same reason.
    pub fn strike(&mut self, place: usize, why: &str, now: Instant) -> bool {
        if self.rest(place, now).is_some() {
            return false;
        }
        let seat = &mut self.seats[place];
        seat.strikes += 1;
        seat.rest_until = Some(now + REST * (1 << seat.strikes.min(6)));
        seat.strikes >= STRIKES && self.put_out(place, why)
    }

    /// No more tasks for it, and what it has is out of reach. False if that is so already.
    pub fn put_out(&mut self, place: usize, why: &str) -> bool {
        if matches!(self.seats[place].standing, Standing::Out(_)) {
            return false;
        }
        self.seats[place].standing = Standing::Out(why.to_owned());
        let store = self.seats[place].store;
        if store != HERE {
            for stores in self.made.iter_mut().chain(self.copies.values_mut()) {
                stores.remove(&store);
            }
        }
        for job in self
            .jobs
            .iter_mut()
            .filter(|job| job.turn.place() == Some(place))
        {
            job.turn = Turn::Free;
        }
        if place == HERE {
            self.end = Some(End::AllOut(
                self.seats.iter().filter_map(Seat::farewell).collect(),
            ));
        }
        true
    }

    /// What the mover of a place does now.
    pub fn next(&mut self, place: usize, now: Instant) -> Step {
        if self.is_closed(place) {
            return Step::End;
        }
        if let Some(rest) = self.rest(place, now) {
            return Step::Wait(rest);
        }
        // Before all were asked what they have, nobody knows what is missing.
        if self
            .seats
            .iter()
            .any(|seat| seat.standing == Standing::Unheard && seat.strikes == 0)
        {
            return Step::Wait(LOOK_AGAIN);
        }
        self.now = now;
        let wanted = self.wanted();
        if let Some(task) = self.pick(place, &wanted).or_else(|| self.steal(place)) {
            self.jobs[task].turn = Turn::Claimed(place);
            return Step::Stage {
                task,
                bring: self.missing(self.seats[place].store, self.jobs[task].needs.iter()),
            };
        }
        if let Some((from, mut paths)) = self.ahead(place, &wanted) {
            paths.truncate(MOST_BROUGHT);
            return Step::Bring { from, paths };
        }
        if place == HERE && self.is_stuck(&wanted) {
            self.end = Some(End::AllOut(
                self.seats.iter().filter_map(Seat::farewell).collect(),
            ));
            return Step::End;
        }
        Step::Wait(LOOK_AGAIN)
    }

    /// It is free again, through no fault of the place.
    pub fn let_go(&mut self, place: usize, task: usize) {
        self.release(place, task);
    }

    fn release(&mut self, place: usize, task: usize) {
        if self.jobs[task].turn.place() == Some(place) {
            self.jobs[task].turn = Turn::Free;
        }
    }

    fn look_at_end(&mut self) {
        if self.also.is_empty()
            && self
                .sinks
                .iter()
                .all(|&task| self.made[task].contains(&HERE))
        {
            self.end.get_or_insert(End::Done);
        }
    }

    /// How long a place is left alone.
    pub fn rest(&self, place: usize, now: Instant) -> Option<Duration> {
        self.seats[place]
            .rest_until
            .and_then(|until| until.checked_duration_since(now))
            .filter(|rest| !rest.is_zero())
    }

    fn is_alive(&self, place: usize) -> bool {
        self.seats[place].standing == Standing::Alive
    }

    /// Where something that is needed can be had.
    fn holders(&self, need: &Need) -> impl Iterator<Item = usize> {
        let here = need.maker.is_none().then_some(HERE);
        let made = need.maker.map(|task| &self.made[task]);
        let copies = self.copies.get(&need.path);
        made.into_iter()
            .chain(copies)
            .flatten()
            .copied()
            .chain(here)
    }

    /// Where it can be had now.
    fn within_reach(&self, need: &Need) -> impl Iterator<Item = usize> {
        self.holders(need)
            .filter(|&store| self.rest(store, self.now).is_none())
    }

    /// By task: whether it must be run, now or later.
    fn wanted(&self) -> Vec<bool> {
        let mut is_wanted = vec![false; self.jobs.len()];
        let sinks = self
            .sinks
            .iter()
            .copied()
            .filter(|&task| self.made[task].is_empty());
        let mut open: Vec<usize> = sinks.chain(self.also.iter().copied()).collect();
        while let Some(task) = open.pop() {
            if !std::mem::replace(&mut is_wanted[task], true) {
                let missing = self.jobs[task]
                    .needs
                    .iter()
                    .filter(|need| self.holders(need).next().is_none());
                open.extend(missing.filter_map(|need| need.maker));
            }
        }
        is_wanted
    }

    /// How many tasks a place has taken on.
    fn load(&self, place: usize) -> usize {
        self.jobs
            .iter()
            .filter(|job| job.turn.place() == Some(place))
            .count()
    }

    fn slots(&self, place: usize) -> usize {
        self.seats[place].place.slots as usize
    }

    fn fits(&self, task: usize, place: usize) -> bool {
        let job = &self.jobs[task];
        let may = |place: usize| match self.seats[place].place.takes {
            Takes::All => true,
            Takes::Common => !job.is_own,
            Takes::Own => job.is_own,
        };
        // Where it was lost it is run again only if there is no other place that would take it.
        let is_better =
            |other: usize| may(other) && self.is_alive(other) && !job.avoid.contains(&other);
        may(place) && (!job.avoid.contains(&place) || !(0..self.seats.len()).any(is_better))
    }

    /// The best of the tasks that could be begun; as many as there are slots may wait, so that what they need comes while others run.
    fn pick(&self, place: usize, wanted: &[bool]) -> Option<usize> {
        let load = self.load(place);
        if load >= 2 * self.slots(place) {
            return None;
        }
        let store = self.seats[place].store;
        let rank = |task: usize| {
            let job = &self.jobs[task];
            let is_crowded = |home: usize| !job.is_rooted && self.load(home) >= self.slots(home);
            let may = self.is_at_home(job, place)
                || load < self.slots(place) && job.home.is_some_and(is_crowded);
            let is_open = wanted[task] && job.turn == Turn::Free && may && self.fits(task, place);
            if !is_open
                || job
                    .needs
                    .iter()
                    .any(|need| self.within_reach(need).next().is_none())
            {
                return None;
            }
            let there = job
                .needs
                .iter()
                .filter(|need| self.holders(need).any(|holder| holder == store))
                .count();
            let share = (there * 8).checked_div(job.needs.len()).unwrap_or(8);
            Some((
                job.home == Some(place),
                share,
                job.bytes,
                std::cmp::Reverse(task),
            ))
        };
        let ranked = (0..self.jobs.len()).filter_map(|task| rank(task).map(|rank| (rank, task)));
        ranked.max().map(|(_, task)| task)
    }

    /// Whether it belongs here, or has no home that it could go to.
    fn is_at_home(&self, job: &Job, place: usize) -> bool {
        job.home
            .is_none_or(|home| home == place || !self.is_alive(home) || job.avoid.contains(&home))
    }

    /// A task that waits at another place for a slot, if there is one free here.
    fn steal(&self, place: usize) -> Option<usize> {
        if self.load(place) >= self.slots(place) {
            return None;
        }
        (0..self.jobs.len()).find(|&task| match self.jobs[task].turn {
            Turn::Staged(other) => {
                let running = self
                    .jobs
                    .iter()
                    .filter(|job| job.turn == Turn::Running(other))
                    .count();
                let is_had = || {
                    self.jobs[task]
                        .needs
                        .iter()
                        .all(|need| self.within_reach(need).next().is_some())
                };
                let may = !self.jobs[task].is_rooted || self.is_at_home(&self.jobs[task], place);
                other != place
                    && running >= self.slots(other)
                    && may
                    && self.fits(task, place)
                    && is_had()
            }
            _ => false,
        })
    }

    /// What of this a store lacks, by where it can be had: from hosts rather than from here.
    fn missing<'n>(
        &self,
        store: usize,
        needs: impl Iterator<Item = &'n Need>,
    ) -> Vec<(usize, Vec<String>)> {
        let mut from: Vec<(usize, Vec<String>)> = Vec::new();
        for need in needs {
            if self.holders(need).any(|holder| holder == store) {
                continue;
            }
            let Some(holder) = self.within_reach(need).max() else {
                continue;
            };
            match from.iter_mut().find(|(other, _)| *other == holder) {
                Some((_, paths)) => paths.push(need.path.clone()),
                None => from.push((holder, vec![need.path.clone()])),
            }
        }
        from
    }

    /// What tasks of this place will need, and what is wanted here.
    fn ahead(&self, place: usize, wanted: &[bool]) -> Option<(usize, Vec<String>)> {
        let store = self.seats[place].store;
        if place == HERE {
            let made = self
                .sinks
                .iter()
                .find(|&&task| !self.made[task].contains(&HERE) && !self.made[task].is_empty());
            let from = made.and_then(|&task| self.made[task].first().map(|&from| (from, task)));
            if let Some((from, task)) =
                from.filter(|&(from, _)| self.rest(from, self.now).is_none())
            {
                return Some((from, vec![self.outputs[task].clone()]));
            }
        }
        let is_ours = |job: &Job| {
            if place == HERE {
                job.is_own
            } else {
                job.home == Some(place)
            }
        };
        let ours = self
            .jobs
            .iter()
            .zip(wanted)
            .filter(|(job, wanted)| **wanted && is_ours(job) && job.turn == Turn::Free);
        self.missing(store, ours.flat_map(|(job, _)| &job.needs))
            .into_iter()
            .next()
    }

    /// Nobody is left to do what is missing.
    fn is_stuck(&self, wanted: &[bool]) -> bool {
        let is_worker_left = self.seats.iter().any(|seat| {
            seat.place.takes != Takes::Own && !matches!(seat.standing, Standing::Out(_))
        });
        !is_worker_left
            && self.jobs.iter().all(|job| job.turn == Turn::Free)
            && wanted.contains(&true)
    }
}

impl Seat {
    fn farewell(&self) -> Option<String> {
        match &self.standing {
            Standing::Out(why) => Some(format!("{}: {why}", self.place.name)),
            _ => None,
        }
    }
}

/// Whose output a path is, or is in.
fn maker_of(makers: &HashMap<&str, usize>, path: &str) -> Option<usize> {
    std::path::Path::new(path)
        .ancestors()
        .find_map(|path| makers.get(path.to_str()?).copied())
}
