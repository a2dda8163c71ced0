//! Carries a plan out, or goes on with it: each place has a mover, which brings what tasks need, and a thread for each slot, which runs them.

use super::{
    board::{Board, End, HERE, Step},
    engine::{Brought, Crew, Trouble, Verdict},
    events::{Event, Events, What, goods},
    gather::gather_needs,
    plan::{self, Plan, TaskKind},
    state::left,
};
use crate::base::{
    error::{Error, Place, Result},
    files::atomic_dir,
};
use std::{
    fs::{self, File, TryLockError},
    path::Path,
    sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

/// A task that was not done, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub task: String,
    pub verdict: Verdict,
}

/// Held by the one process that hands out the tasks of a run.
pub struct RunLock {
    _file: File,
}

impl RunLock {
    pub fn take(run: &Path) -> Result<Self> {
        let path = run.join("plan.json");
        let file = File::open(&path).map_err(|error| Error::io(path.display(), error))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(Error::damaged(
                Place::path(run),
                "another process is at work on this run; wait for it to end",
            )),
            Err(TryLockError::Error(error)) => Err(Error::io(path.display(), error)),
        }
    }
}

/// How often a task may be lost before the run is given up, where nothing is said.
pub const RETRIES: u32 = 3;

/// How a run is carried out.
#[derive(Debug, Clone, Copy)]
pub struct RunOptions {
    /// How often a task may be lost before the run is given up.
    pub retries: u32,
    /// How many tasks are run at a time, at all places together; as many as there are slots, if nothing is said.
    pub most: Option<usize>,
}

/// What the threads of a run share.
struct Desk<'a> {
    plan: &'a Plan,
    crew: &'a dyn Crew,
    board: Mutex<Board>,
    bell: Condvar,
    events: Events,
    news: mpsc::Sender<News>,
}

/// What is told while a run goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// A task is done, by number, or was already.
    Done(usize),
    /// A host cannot be reached at first, and why.
    HostAway(String),
    /// A host gets no more tasks, and why.
    HostOut(String),
    /// Hosts do not reach each other: what goes between them goes through here.
    Detour(String),
    End,
}

/// Runs what is not done yet, and tells what happens.
///
/// After a failure no other task is begun. Gives what failed: nothing, if the index is there.
pub fn run(
    plan: &Plan,
    run: &Path,
    crew: &dyn Crew,
    options: RunOptions,
    tell: &mut dyn FnMut(&News),
) -> Result<Vec<Failure>> {
    atomic_dir::sweep(run);
    TaskKind::ALL
        .iter()
        .filter_map(|kind| kind.directory())
        .for_each(|name| atomic_dir::sweep(&run.join(name)));
    if left(plan, run).is_empty() {
        (0..plan.tasks.len()).for_each(|task| tell(&News::Done(task)));
        return Ok(Vec::new());
    }
    let places = crew.places();
    let slots: Vec<u32> = places.iter().map(|place| place.slots).collect();
    let (send, news) = mpsc::channel();
    let desk = Desk {
        plan,
        crew,
        board: Mutex::new(
            Board::new(plan, &gather_needs(plan), places, options.retries).with_most(options.most),
        ),
        bell: Condvar::new(),
        events: Events::append(run)?,
        news: send,
    };
    // What is here is known before anybody else is asked.
    desk.begin(HERE);
    thread::scope(|scope| {
        let desk = &desk;
        for (place, &slots) in slots.iter().enumerate() {
            scope.spawn(move || desk.serve(place, slots));
        }
        scope.spawn(move || desk.watch_end());
        news.iter()
            .take_while(|news| *news != News::End)
            .for_each(|news| tell(&news));
    });
    let end = desk.board().end().cloned();
    Ok(match end {
        None | Some(End::Done) => Vec::new(),
        Some(End::Failed(task, what)) => vec![Failure {
            task,
            verdict: Verdict::Failed(what),
        }],
        Some(End::Lost(task, what)) => vec![Failure {
            task,
            verdict: Verdict::Lost(what),
        }],
        Some(End::AllOut(hosts)) => {
            let what = format!(
                "no host is left; run it again when one is back ({})",
                hosts.join("; ")
            );
            vec![Failure {
                task: "run".to_owned(),
                verdict: Verdict::Lost(what),
            }]
        }
    })
}

/// What is staged, beside what tasks made.
const DOCUMENTS: &str = "documents";
/// How long nothing is looked at again if nobody rings.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

impl Desk<'_> {
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run goes on even if nothing can be noted.
    fn note(&self, task: &str, place: usize, slot: u32, what: What) {
        let host = self.board().place(place).name.clone();
        let _ = self.events.write(&Event::now(task, &host, slot, what));
    }

    /// Wakes whoever waits for something to do when all is over.
    fn watch_end(&self) {
        let mut board = self.board();
        while board.end().is_none() {
            board = self
                .bell
                .wait_timeout(board, LOOK_AGAIN)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        drop(board);
        let _ = self.news.send(News::End);
    }

    /// Connects to a place, three times at most. False if it is of no use.
    fn begin(&self, place: usize) -> bool {
        let mut is_first = true;
        loop {
            let begun = Instant::now();
            match self.crew.begin(place) {
                Ok(inventory) => {
                    self.note_move(
                        place,
                        HERE,
                        goods(plan::PLAN_FILE),
                        begun,
                        &Brought::of(inventory.moved),
                    );
                    let mut board = self.board();
                    board.begun(place, &inventory.paths, &inventory.damaged);
                    drop(board);
                    let is_output = |path: &String| {
                        self.plan.tasks.iter().position(|task| task.output == *path)
                    };
                    for task in inventory.paths.iter().filter_map(is_output) {
                        let _ = self.news.send(News::Done(task));
                    }
                    self.bell.notify_all();
                    return true;
                }
                Err(Trouble::Failed(what)) => self.board().give_up("run".to_owned(), &what),
                Err(Trouble::NoRoom(what)) => self.board().stop(&what),
                Err(trouble) => {
                    if let Trouble::Lost(what) = &trouble
                        && std::mem::take(&mut is_first)
                    {
                        let _ = self.news.send(News::HostAway(what.clone()));
                    }
                    self.blame(place, &trouble);
                }
            }
            let mut board = self.board();
            while let Some(rest) = board
                .rest(place, Instant::now())
                .filter(|_| !board.is_closed(place))
            {
                board = self
                    .bell
                    .wait_timeout(board, rest)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
            if board.is_closed(place) {
                return false;
            }
        }
    }

    /// Notes that a place failed, and whether that was once too often.
    fn blame(&self, place: usize, trouble: &Trouble) {
        let (is_out, what) = match trouble {
            Trouble::Refused(what) => (self.board().put_out(place, what), what),
            Trouble::Lost(what) => (self.board().strike(place, what, Instant::now()), what),
            _ => return,
        };
        if is_out {
            let _ = self.news.send(News::HostOut(what.clone()));
            self.note("", place, 0, What::HostOut(what.clone()));
        }
        self.bell.notify_all();
    }

    /// A mover and slots; when all have ended, the place is left.
    fn serve(&self, place: usize, slots: u32) {
        thread::scope(|scope| {
            for slot in 0..slots {
                scope.spawn(move || self.run_for(place, slot));
            }
            self.move_for(place);
        });
        let is_out = self.board().is_out(place);
        self.crew.leave(place, is_out);
    }

    fn move_for(&self, place: usize) {
        if place == HERE || self.begin(place) {
            while self.move_once(place) {
                self.bell.notify_all();
            }
        }
        self.bell.notify_all();
    }

    fn move_once(&self, place: usize) -> bool {
        let mut board = self.board();
        let step = loop {
            match board.next(place, Instant::now()) {
                Step::Wait(limit) => {
                    board = self
                        .bell
                        .wait_timeout(board, limit)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
                step => break step,
            }
        };
        let store = if board.place(place).is_shared {
            HERE
        } else {
            place
        };
        drop(board);
        match step {
            Step::Stage { task, bring } => self.stage(place, store, task, &bring),
            Step::Bring { from, paths } => {
                if let Err(trouble) = self.bring(store, from, &paths) {
                    self.blame_either(place, from, &trouble);
                    match trouble {
                        Trouble::Failed(what) => self.board().give_up("run".to_owned(), &what),
                        Trouble::NoRoom(what) => self.board().stop(&what),
                        _ => {}
                    }
                }
            }
            Step::Wait(_) => {}
            Step::End => return false,
        }
        true
    }

    /// Brings what a task needs to a place, and hands it to its slots.
    fn stage(&self, place: usize, store: usize, task: usize, bring: &[(usize, Vec<String>)]) {
        let mut from = HERE;
        let brought = bring.iter().try_for_each(|(store_of, paths)| {
            from = *store_of;
            self.bring(store, *store_of, paths)
        });
        let begun = Instant::now();
        let staged = brought.and_then(|()| self.crew.stage(place, &self.plan.tasks[task]));
        match staged {
            Ok(bytes) => {
                self.note_move(place, HERE, DOCUMENTS, begun, &Brought::of(bytes));
                self.board().staged(place, task);
            }
            Err(trouble) => {
                self.blame_either(place, from, &trouble);
                self.settle(place, task, trouble);
            }
        }
    }

    /// One kind of thing after the other, so that it is known what each of them cost.
    fn bring(&self, to: usize, from: usize, paths: &[String]) -> Result<(), Trouble> {
        let mut rest = paths.to_vec();
        while let Some(first) = rest.first() {
            let kind = goods(first);
            let (these, others): (Vec<String>, Vec<String>) =
                rest.into_iter().partition(|path| goods(path) == kind);
            let begun = Instant::now();
            let brought = self.crew.bring(to, from, &these)?;
            self.note_move(to, from, kind, begun, &brought);
            self.board().brought(to, &these);
            rest = others;
        }
        Ok(())
    }

    fn note_move(&self, to: usize, from: usize, goods: &str, begun: Instant, brought: &Brought) {
        let &Brought {
            bytes,
            is_direct: direct,
            ref detour,
        } = brought;
        if let Some(what) = detour {
            let _ = self.news.send(News::Detour(what.clone()));
        }
        if bytes > 0 {
            let (from, ms) = (
                self.board().place(from).name.clone(),
                begun.elapsed().as_millis() as u64,
            );
            self.note(
                "",
                to,
                0,
                What::Moved {
                    from,
                    goods: goods.to_owned(),
                    bytes,
                    ms,
                    direct,
                },
            );
        }
    }

    fn blame_either(&self, place: usize, from: usize, trouble: &Trouble) {
        match trouble {
            Trouble::Source(paths, what) => {
                self.board().unmade(from, paths);
                self.blame(from, &Trouble::Lost(what.clone()));
            }
            Trouble::From(what) => self.blame(from, &Trouble::Lost(what.clone())),
            _ => self.blame(place, trouble),
        }
    }

    /// What becomes of a task that was not run to its end.
    fn settle(&self, place: usize, task: usize, trouble: Trouble) {
        let mut board = self.board();
        match trouble {
            Trouble::Lost(what) | Trouble::Refused(what) => board.lost(place, task, &what),
            Trouble::Source(..) | Trouble::From(_) => board.let_go(place, task),
            Trouble::Here => board.keep_here(place, task),
            Trouble::Failed(what) => board.failed(task, &what),
            Trouble::NoRoom(what) => board.stop(&what),
        }
    }

    fn run_for(&self, place: usize, slot: u32) {
        loop {
            let mut board = self.board();
            let task = loop {
                if let Some(task) = board.take(place, Instant::now()) {
                    break task;
                }
                if board.is_closed(place) {
                    return;
                }
                board = self
                    .bell
                    .wait_timeout(board, LOOK_AGAIN)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            };
            drop(board);
            self.run_once(place, slot, task);
            self.bell.notify_all();
        }
    }

    fn run_once(&self, place: usize, slot: u32, number: usize) {
        let task = &self.plan.tasks[number];
        self.note(&task.id, place, slot, What::Start);
        match self.crew.run(place, slot, task) {
            Ok(outcome) => match outcome.verdict {
                Verdict::Done => {
                    self.note(
                        &task.id,
                        place,
                        slot,
                        What::Done {
                            bytes_in: task.bytes,
                            bytes_out: outcome.bytes_out,
                        },
                    );
                    let _ = self.news.send(News::Done(number));
                    self.board().done(place, number);
                }
                Verdict::Lost(what) => {
                    self.note(&task.id, place, slot, What::Lost(what.clone()));
                    self.board().lost(place, number, &what);
                    self.blame(place, &Trouble::Lost(what));
                }
                Verdict::Failed(what) => {
                    self.note(&task.id, place, slot, What::Failed(what.clone()));
                    self.board().failed(number, &what);
                }
            },
            Err(trouble) => {
                if let Trouble::Lost(what)
                | Trouble::Refused(what)
                | Trouble::Source(_, what)
                | Trouble::NoRoom(what) = &trouble
                {
                    self.note(&task.id, place, slot, What::Lost(what.clone()));
                }
                self.blame_either(place, place, &trouble);
                self.settle(place, number, trouble);
            }
        }
    }
}

/// Removes what tasks made on the way to the index, and what dead ones left. The plan and the index stay.
pub fn clean(run: &Path) -> Result<()> {
    atomic_dir::sweep(run);
    for name in TaskKind::ALL
        .iter()
        .filter_map(|kind| kind.directory())
        .chain(["logs"])
    {
        let path = run.join(name);
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io(path.display(), error));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cluster::{
            Host, PlanOptions, Task,
            board::{Place as Seat, Takes},
            engine::{Inventory, Outcome},
        },
        text::corpus::{FileEntry, WalkItem},
    };
    use proptest::prelude::*;
    use std::{
        collections::HashSet,
        sync::atomic::{AtomicUsize, Ordering},
    };

    fn plan(files: usize, hosts: usize) -> Plan {
        let file = |number: usize| {
            let name = number.to_string();
            let (path, id) = (name.clone().into(), name.into());
            WalkItem::File(FileEntry {
                path,
                copy: None,
                beneath: None,
                id,
                is_named: false,
                is_regular: true,
                bytes: 1000,
                modified: [0; 2],
            })
        };
        let host = |number| Host {
            name: format!("h{number}"),
            user: None,
            port: None,
            slots: 2,
            dir: None,
            shared: None,
        };
        Plan::new(
            (0..files).map(file).collect(),
            (0..hosts).map(host).collect(),
            PlanOptions::example(4),
            &[],
        )
        .unwrap()
        .0
    }

    /// Hosts that only pretend, and fail as a list of numbers says.
    struct Pretence<'p> {
        plan: &'p Plan,
        stores: Vec<Mutex<HashSet<String>>>,
        /// The host that dies, and after how many calls.
        dies: (usize, usize),
        fails: Vec<u8>,
        calls: AtomicUsize,
        /// How often a task is lost that is run here.
        lost_here: AtomicUsize,
        running: AtomicUsize,
        runs: Mutex<Vec<String>>,
    }

    impl Pretence<'_> {
        fn has(&self, store: usize, path: &str) -> bool {
            let store = self.stores[store].lock().unwrap();
            store.contains(path)
                || self
                    .plan
                    .maker(path)
                    .is_some_and(|task| store.contains(&task.output))
                || path.starts_with("slices/")
        }

        fn call(&self, place: usize) -> Result<(), Trouble> {
            let call = self.calls.fetch_add(1, Ordering::Relaxed);
            let is_dead = place == self.dies.0 && call >= self.dies.1;
            let is_bad = place != HERE && self.fails.get(call).is_some_and(|&fails| fails == 0);
            if is_dead || is_bad {
                Err(Trouble::Lost(format!("call {call}")))
            } else {
                Ok(())
            }
        }
    }

    impl Crew for Pretence<'_> {
        fn places(&self) -> Vec<Seat> {
            let place = |number| Seat {
                name: format!("p{number}"),
                slots: 2,
                takes: if number == HERE {
                    Takes::Own
                } else {
                    Takes::Common
                },
                is_shared: number == HERE,
            };
            (0..self.stores.len()).map(place).collect()
        }

        fn begin(&self, place: usize) -> Result<Inventory, Trouble> {
            self.call(place).map(|()| Inventory::default())
        }

        fn bring(&self, to: usize, from: usize, paths: &[String]) -> Result<Brought, Trouble> {
            if from != HERE {
                self.call(from)
                    .map_err(|_| Trouble::From("the source".to_owned()))?;
            }
            self.call(to)?;
            for path in paths {
                assert!(self.has(from, path), "{from} has no {path}");
                self.stores[to].lock().unwrap().insert(path.clone());
            }
            Ok(Brought {
                bytes: 1,
                is_direct: true,
                detour: None,
            })
        }

        fn stage(&self, place: usize, _: &Task) -> Result<u64, Trouble> {
            self.call(place).map(|()| 1)
        }

        fn run(&self, place: usize, _: u32, task: &Task) -> Result<Outcome, Trouble> {
            self.call(place)?;
            let running = self.running.fetch_add(1, Ordering::SeqCst);
            thread::yield_now();
            self.running.fetch_sub(1, Ordering::SeqCst);
            assert!(
                running == 0 || self.dies.1 != ONE_AT_A_TIME,
                "{running} at a time"
            );
            if place == HERE
                && self
                    .lost_here
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                        left.checked_sub(1)
                    })
                    .is_ok()
            {
                return Ok(Outcome {
                    verdict: Verdict::Lost("killed".to_owned()),
                    bytes_out: 0,
                });
            }
            assert!(
                task.inputs.iter().all(|input| self.has(place, input)),
                "{} at {place}",
                task.id
            );
            self.stores[place]
                .lock()
                .unwrap()
                .insert(task.output.clone());
            self.runs.lock().unwrap().push(task.id.clone());
            Ok(Outcome {
                verdict: Verdict::Done,
                bytes_out: 1,
            })
        }

        fn leave(&self, _: usize, _: bool) {}
    }

    /// Nobody dies, and the first task that is run here is lost.
    const LOSES_ONE_HERE: usize = usize::MAX;

    /// Nobody dies, and no two tasks are run at the same time.
    const ONE_AT_A_TIME: usize = usize::MAX - 1;

    fn run_pretence(
        plan: &Plan,
        hosts: usize,
        dies: (usize, usize),
        fails: Vec<u8>,
    ) -> (Vec<Failure>, Vec<String>) {
        let directory = tempfile::tempdir().unwrap();
        let stores = (0..=hosts).map(|_| Mutex::default()).collect();
        let lost_here = AtomicUsize::new(usize::from(dies.1 == LOSES_ONE_HERE));
        let most = (dies.1 == ONE_AT_A_TIME).then_some(1);
        let crew = Pretence {
            plan,
            stores,
            dies,
            fails,
            calls: AtomicUsize::new(0),
            lost_here,
            running: AtomicUsize::new(0),
            runs: Mutex::default(),
        };
        let failures = run(
            plan,
            directory.path(),
            &crew,
            RunOptions { retries: 5, most },
            &mut |_| (),
        )
        .unwrap();
        (failures, crew.runs.into_inner().unwrap())
    }

    #[test]
    fn each_task_is_run_once_if_all_is_well() {
        let plan = plan(9, 3);
        let (failures, mut runs) = run_pretence(&plan, 3, (9, 0), Vec::new());
        let mut ids: Vec<String> = plan.tasks.iter().map(|task| task.id.clone()).collect();
        runs.sort();
        ids.sort();
        assert_eq!((failures, runs), (Vec::new(), ids));
    }

    #[test]
    fn no_more_tasks_are_run_at_a_time_than_was_said() {
        let plan = plan(6, 3);
        let (failures, runs) = run_pretence(&plan, 3, (2, ONE_AT_A_TIME), Vec::new());
        assert_eq!((failures, runs.len()), (Vec::new(), plan.tasks.len()));
    }

    #[test]
    fn what_was_lost_here_is_run_here_again() {
        let plan = plan(4, 2);
        let (failures, runs) = run_pretence(&plan, 2, (2, LOSES_ONE_HERE), Vec::new());
        assert_eq!((failures, runs.len()), (Vec::new(), plan.tasks.len()));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

        /// A host dies at some moment, and calls fail now and then: with the others all is done, and nothing is run without what it needs.
        #[test]
        fn a_host_that_dies_is_done_without(after in 0_usize..60, fails in prop::collection::vec(0_u8..40, 80)) {
            let plan = plan(6, 3);
            let (failures, runs) = run_pretence(&plan, 3, (2, after), fails);
            // Hosts may strike out one after the other: then it is told, and never a task that failed.
            prop_assert!(failures.iter().all(|failure| matches!(failure.verdict, Verdict::Lost(_))));
            prop_assert!(!failures.is_empty() || runs.iter().any(|id| id == "gather"));
        }
    }
}
