//! The threads of a store, and what wakes them.
//!
//! Two of them move memtables on ([`crate::flush`]), so that merging, which takes milliseconds, does not wait for the
//! levels. A store without threads (the crash lab's) does both where a writer would wake them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use halite_engine::{Error, Result};
use parking_lot::{Condvar, Mutex};

use crate::store::Store;

/// How long a thread waits before it tries again what failed.
const RETRY: Duration = Duration::from_secs(1);

/// How long a thread waits for batches to be committed in a memtable that is full.
const SETTLING: Duration = Duration::from_millis(10);

/// What wakes the threads, and those who wait for them.
#[derive(Default)]
pub(crate) struct Signals {
    state: Mutex<State>,
    work: Condvar,
    done: Condvar,
    are_threads_there: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Counts what there may be to do.
    due: u64,
    /// Counts what was done, or failed.
    done: u64,
    /// Counts what failed.
    failed: u64,
    stopping: bool,
    /// Writers that wait for room.
    waiting: u32,
    /// What failed the last time that it was tried, and why.
    failure: Option<(Task, Arc<Error>)>,
}

impl Signals {
    /// There may be something to do.
    pub(crate) fn wake(&self) {
        self.state.lock().due += 1;
        self.work.notify_all();
    }

    /// Something was done or, with `failure`, failed.
    fn note(&self, task: Task, failure: Option<Error>) {
        let mut state = self.state.lock();
        state.done += 1;
        state.failed += u64::from(failure.is_some());
        let is_over = state.failure.as_ref().is_none_or(|(failed, _)| *failed == task);
        if failure.is_some() || is_over {
            state.failure = failure.map(|error| (task, Arc::new(error)));
        }
        self.done.notify_all();
    }

    /// Whether somebody waits for room: the pool may have less than it seems, where its device is full.
    pub(crate) fn is_room_wanted(&self) -> bool {
        self.state.lock().waiting > 0
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.state.lock().stopping
    }

    /// Whether both threads are there.
    pub(crate) fn are_threads_there(&self) -> bool {
        self.are_threads_there.load(Ordering::Relaxed)
    }

    /// Says that somebody waits for room, until it is dropped.
    pub(crate) fn want_room(&self) -> Waiting<'_> {
        self.state.lock().waiting += 1;
        Waiting(self)
    }

    /// What the threads have done and failed.
    pub(crate) fn seen(&self) -> Seen {
        self.state.lock().seen()
    }

    /// Wakes the threads, and waits until they have done something or failed since `before`, but no longer than that.
    pub(crate) fn wake_and_wait(&self, before: &Seen, time: Duration) -> Seen {
        let mut state = self.state.lock();
        state.due += 1;
        self.work.notify_all();
        if state.done == before.done {
            self.done.wait_for(&mut state, time);
        }
        state.seen()
    }
}

impl State {
    fn seen(&self) -> Seen {
        let &Self { done, failed, stopping, .. } = self;
        let failure = self.failure.as_ref().map(|(_, error)| Arc::clone(error));
        Seen { done, failed, failure, stopping }
    }
}

/// Somebody waits for room.
pub(crate) struct Waiting<'a>(&'a Signals);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.state.lock().waiting -= 1;
    }
}

/// What the threads have done and failed, at one moment.
pub(crate) struct Seen {
    /// How often they did something, or failed.
    pub(crate) done: u64,
    /// How often they failed.
    pub(crate) failed: u64,
    /// What kept the levels from taking more, the last time it was tried.
    pub(crate) failure: Option<Arc<Error>>,
    pub(crate) stopping: bool,
}

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Merge,
    Flush,
}

impl Task {
    const ALL: [Self; 2] = [Self::Merge, Self::Flush];

    fn name(self) -> &'static str {
        match self {
            Self::Merge => "lsm-merge",
            Self::Flush => "lsm-flush",
        }
    }

    /// Does it, where there is something to do. Returns whether there was.
    fn run(self, store: &Store) -> Result<bool> {
        match self {
            Self::Merge => store.merge_all(),
            Self::Flush => store.flush_all(),
        }
    }
}

/// The threads of an open store.
pub(crate) struct Maintenance {
    store: Arc<Store>,
    threads: Vec<JoinHandle<()>>,
}

impl Maintenance {
    pub(crate) fn start(store: &Arc<Store>) -> Self {
        let mut threads = Vec::new();
        if store.on_threads {
            for task in Task::ALL {
                let store = Arc::clone(store);
                let builder = thread::Builder::new().name(task.name().into());
                threads.extend(builder.spawn(move || run(&store, task)).ok());
            }
            // Without one of them, writers do the work themselves when there is no room.
            let are_there = threads.len() == Task::ALL.len();
            store.signals.are_threads_there.store(are_there, Ordering::Relaxed);
        }
        Self { store: Arc::clone(store), threads }
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.store.signals.state.lock().stopping = true;
        self.store.signals.work.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Does a task whenever there may be something to do.
fn run(store: &Store, task: Task) {
    let mut seen = 0;
    loop {
        let outcome = task.run(store);
        let failed = outcome.is_err();
        match outcome {
            Ok(true) => {
                store.set_pace();
                store.signals.note(task, None);
                // Others may have something to do now.
                store.signals.wake();
            }
            Ok(false) => {}
            Err(error) => {
                store.set_pace();
                if task == Task::Flush {
                    store.give_up_tables();
                }
                store.signals.note(task, Some(error));
            }
        }
        let mut state = store.signals.state.lock();
        while state.due == seen && !state.stopping {
            if failed {
                store.signals.work.wait_for(&mut state, RETRY);
                break;
            }
            if store.has_immutables() {
                // What is still being committed may be settled by then; nobody tells.
                store.signals.work.wait_for(&mut state, SETTLING);
                break;
            }
            store.signals.work.wait(&mut state);
        }
        if state.stopping {
            return;
        }
        seen = state.due;
    }
}
