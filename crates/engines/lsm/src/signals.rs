//! The signals that wake the threads of a store, and the writers that wait for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use halite_contract::Error;
use parking_lot::{Condvar, Mutex};

/// Wakes the threads, and the writers that wait for them.
#[derive(Default)]
pub(crate) struct Signals {
    pub(crate) state: Mutex<State>,
    pub(crate) work: Condvar,
    done: Condvar,
    pub(crate) are_threads_there: AtomicBool,
}

#[derive(Default)]
pub(crate) struct State {
    /// Counts how often there may have been something to do.
    pub(crate) due: u64,
    /// Counts the tasks that were done, or failed.
    done: u64,
    pub(crate) stopping: bool,
    /// Writers that wait for room.
    waiting: u32,
    /// The task that failed the last time that it was tried, and why.
    failure: Option<(Task, Arc<Error>)>,
    /// Counts the tasks that were begun.
    begun: u64,
    /// The number of the task that failed last.
    failed_begun: u64,
}

impl Signals {
    /// Wakes the threads, as there may be something to do.
    pub(crate) fn wake(&self) {
        self.state.lock().due += 1;
        self.work.notify_all();
    }

    /// Notes that a task is begun, and returns its number.
    pub(crate) fn begin(&self) -> u64 {
        let mut state = self.state.lock();
        state.begun += 1;
        state.begun
    }

    /// Notes that the task with a number was done or, with `failure`, failed.
    pub(crate) fn note(&self, task: Task, number: u64, failure: Option<Error>) {
        let mut state = self.state.lock();
        if failure.is_some() {
            state.failed_begun = number;
        }
        state.done += 1;
        let is_over = state.failure.as_ref().is_none_or(|(failed, _)| *failed == task);
        if failure.is_some() || is_over {
            state.failure = failure.map(|error| (task, Arc::new(error)));
        }
        self.done.notify_all();
    }

    /// Whether a writer waits for room: the pool may have less than it seems, where its device is full.
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

    /// Notes that a writer waits for room, until the result is dropped.
    pub(crate) fn want_room(&self) -> Waiting<'_> {
        self.state.lock().waiting += 1;
        Waiting(self)
    }

    /// The counts of the threads' tasks.
    pub(crate) fn seen(&self) -> Seen {
        self.state.lock().seen()
    }

    /// Wakes the threads, and waits until a task was done or failed since `before`, but no longer than `time`.
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
        let &Self { done, begun, failed_begun, stopping, .. } = self;
        let failure = self.failure.as_ref().map(|(_, error)| Arc::clone(error));
        Seen { done, begun, failed_begun, failure, stopping }
    }
}

/// A writer waits for room as long as this lives.
pub(crate) struct Waiting<'a>(&'a Signals);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.state.lock().waiting -= 1;
    }
}

/// The counts of the threads' tasks, at one moment.
pub(crate) struct Seen {
    /// How often a task was done, or failed.
    pub(crate) done: u64,
    /// How often a task was begun.
    pub(crate) begun: u64,
    /// The number of the task that failed last.
    pub(crate) failed_begun: u64,
    /// The error that kept the levels from taking more, the last time it was tried.
    pub(crate) failure: Option<Arc<Error>>,
    pub(crate) stopping: bool,
}

/// The task of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    Merge,
    Flush,
}

impl Task {
    pub(crate) const ALL: [Self; 2] = [Self::Merge, Self::Flush];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Merge => "lsm-merge",
            Self::Flush => "lsm-flush",
        }
    }
}
