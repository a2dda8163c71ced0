//! Which task a machine takes next, and which files it needs for that.

use super::{
    schedule::{Accepts, LOCAL, Schedule},
    scheduled_task::{Assignment, Contact, Requirement, ScheduledTask},
};
use crate::base::num::ToUsize;

impl Schedule {
    fn is_alive(&self, machine: usize) -> bool {
        self.states[machine].contact == Contact::Alive
    }

    /// The stores that have a file.
    fn holders(&self, need: &Requirement) -> impl Iterator<Item = usize> {
        let here = need.maker.is_none().then_some(LOCAL);
        let made = need.maker.map(|task| &self.made[task]);
        let copies = self.copies.get(&need.path);
        made.into_iter()
            .chain(copies)
            .flatten()
            .copied()
            .chain(here)
    }

    /// The stores that have it and are not paused.
    fn within_reach(&self, need: &Requirement) -> impl Iterator<Item = usize> {
        self.holders(need)
            .filter(|&store| self.backoff(store, self.now).is_none())
    }

    /// By task: whether it must run, now or later.
    pub(super) fn wanted(&self) -> Vec<bool> {
        let mut is_wanted = vec![false; self.jobs.len()];
        let results = self
            .results
            .iter()
            .copied()
            .filter(|&task| self.made[task].is_empty());
        let mut open: Vec<usize> = results.chain(self.forced.iter().copied()).collect();
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

    /// The number of tasks that a machine has claimed, staged or running.
    fn load(&self, machine: usize) -> usize {
        self.jobs
            .iter()
            .filter(|job| job.assignment.machine() == Some(machine))
            .count()
    }

    fn slots(&self, machine: usize) -> usize {
        self.states[machine].machine.slots.to_usize()
    }

    fn fits(&self, task: usize, machine: usize) -> bool {
        let job = &self.jobs[task];
        let may = |machine: usize| match self.states[machine].machine.accepts {
            Accepts::Any => true,
            Accepts::Distributed => !job.is_central,
            Accepts::Central => job.is_central,
        };
        // A machine that lost it runs it again only if no other accepts it.
        let is_better =
            |other: usize| may(other) && self.is_alive(other) && !job.avoid.contains(&other);
        may(machine) && (!job.avoid.contains(&machine) || !(0..self.states.len()).any(is_better))
    }

    /// The best task to stage next. One task a slot may wait, so that its inputs arrive while
    /// others run.
    pub(super) fn pick(&self, machine: usize, wanted: &[bool]) -> Option<usize> {
        let load = self.load(machine);
        if load >= 2 * self.slots(machine) {
            return None;
        }
        let store = self.states[machine].store;
        let rank = |task: usize| {
            let job = &self.jobs[task];
            let is_crowded =
                |home: usize| !job.is_bound_to_home && self.load(home) >= self.slots(home);
            let may = self.is_at_home(job, machine)
                || load < self.slots(machine) && job.home.is_some_and(is_crowded);
            let is_open = wanted[task]
                && job.assignment == Assignment::Free
                && may
                && self.fits(task, machine);
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
                job.home == Some(machine),
                share,
                job.bytes,
                std::cmp::Reverse(task),
            ))
        };
        let ranked = (0..self.jobs.len()).filter_map(|task| rank(task).map(|rank| (rank, task)));
        ranked.max().map(|(_, task)| task)
    }

    /// Whether the machine is its home, or its home is not available.
    fn is_at_home(&self, job: &ScheduledTask, machine: usize) -> bool {
        job.home
            .is_none_or(|home| home == machine || !self.is_alive(home) || job.avoid.contains(&home))
    }

    /// A task that waits for a slot at another machine, if a slot is free at this one.
    pub(super) fn steal(&self, machine: usize) -> Option<usize> {
        if self.load(machine) >= self.slots(machine) {
            return None;
        }
        (0..self.jobs.len()).find(|&task| match self.jobs[task].assignment {
            Assignment::Staged(other) => {
                let running = self
                    .jobs
                    .iter()
                    .filter(|job| job.assignment == Assignment::Running(other))
                    .count();
                let is_had = || {
                    self.jobs[task]
                        .needs
                        .iter()
                        .all(|need| self.within_reach(need).next().is_some())
                };
                let may =
                    !self.jobs[task].is_bound_to_home || self.is_at_home(&self.jobs[task], machine);
                other != machine
                    && running >= self.slots(other)
                    && may
                    && self.fits(task, machine)
                    && is_had()
            }
            _ => false,
        })
    }

    /// Whether two hosts keep files in one directory, so that nothing has to be copied.
    fn is_near(&self, store: usize, other: usize) -> bool {
        let directory = &self.states[store].directory;
        directory.is_some() && *directory == self.states[other].directory
    }

    /// Whether a map task made a file.
    fn is_of_map(&self, need: &Requirement) -> bool {
        need.maker.is_some_and(|task| self.jobs[task].is_map)
    }

    /// Whether what a task needs of map tasks has been collected, if that is the way it goes: then
    /// it is sent in one go.
    fn is_collected(&self, job: &ScheduledTask) -> bool {
        let is_here = |need: &Requirement| self.holders(need).any(|holder| holder == LOCAL);
        let mut mapped = job.needs.iter().filter(|need| self.is_of_map(need));
        !self.is_hub || mapped.all(is_here)
    }

    /// The files that a store lacks, by the store that has them: hosts that share its directory
    /// first, then other hosts, then this machine; the other way round if this machine is the hub,
    /// which collects outputs of map tasks as a whole.
    pub(super) fn missing<'n>(
        &self,
        store: usize,
        needs: impl Iterator<Item = &'n Requirement>,
    ) -> Vec<(usize, Vec<String>)> {
        let mut from: Vec<(usize, Vec<String>)> = Vec::new();
        for need in needs {
            if self.holders(need).any(|holder| holder == store) {
                continue;
            }
            let holders = self.within_reach(need);
            let rank = |other: usize| (self.is_near(store, other), self.is_hub && other == LOCAL);
            let Some(holder) = holders.max_by_key(|&other| (rank(other), other)) else {
                continue;
            };
            let path = match need.maker {
                Some(task) if self.is_hub && store == LOCAL && self.jobs[task].is_map => {
                    &self.outputs[task]
                }
                _ => &need.path,
            };
            match from.iter_mut().find(|(other, _)| *other == holder) {
                Some((_, paths)) if paths.contains(path) => {}
                Some((_, paths)) => paths.push(path.clone()),
                None => from.push((holder, vec![path.clone()])),
            }
        }
        from
    }

    /// Files that tasks of this machine will need; for this machine also results.
    pub(super) fn prefetch(&self, machine: usize, wanted: &[bool]) -> Option<(usize, Vec<String>)> {
        let store = self.states[machine].store;
        if machine == LOCAL {
            let made = self
                .results
                .iter()
                .find(|&&task| !self.made[task].contains(&LOCAL) && !self.made[task].is_empty());
            let from = made.and_then(|&task| self.made[task].first().map(|&from| (from, task)));
            if let Some((from, task)) =
                from.filter(|&(from, _)| self.backoff(from, self.now).is_none())
            {
                return Some((from, vec![self.outputs[task].clone()]));
            }
        }
        let is_ours = |job: &ScheduledTask| {
            if machine == LOCAL {
                job.is_central
            } else {
                job.home == Some(machine)
            }
        };
        let ours = self.jobs.iter().zip(wanted).filter(|(job, wanted)| {
            **wanted
                && is_ours(job)
                && job.assignment == Assignment::Free
                && (machine == LOCAL || self.is_collected(job))
        });
        self.missing(store, ours.flat_map(|(job, _)| &job.needs))
            .into_iter()
            .next()
    }

    /// Whether tasks are missing and no machine is left for them.
    pub(super) fn is_stuck(&self, wanted: &[bool]) -> bool {
        let is_worker_left = self.states.iter().any(|state| {
            state.machine.accepts != Accepts::Central
                && !matches!(state.contact, Contact::GivenUp(_))
        });
        !is_worker_left
            && self
                .jobs
                .iter()
                .all(|job| job.assignment == Assignment::Free)
            && wanted.contains(&true)
    }
}
