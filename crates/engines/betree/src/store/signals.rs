//! The thread that flushes, and the writers that wait for it.
//!
//! A store without threads (the crash lab's) flushes where a writer would wait.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use halite_contract::{Error, Result};
use parking_lot::{Condvar, Mutex};

use crate::store::Store;
use crate::store::view::View;

/// How long the thread waits before it tries again what failed.
const RETRY: Duration = Duration::from_secs(1);

/// The signals between the thread and the writers.
#[derive(Default)]
pub(crate) struct Signals {
    state: Mutex<State>,
    /// The thread waits for work.
    work: Condvar,
    /// Writers wait for room.
    done: Condvar,
}

#[derive(Default)]
struct State {
    /// How often there was work.
    due: u64,
    /// How often the thread was through.
    rounds: u64,
    /// The failure of the last round.
    failure: Option<Error>,
    stopping: bool,
}

impl Signals {
    /// Wakes the thread: there is something to do.
    pub(crate) fn wake(&self) {
        self.state.lock().due += 1;
        self.work.notify_all();
    }

    /// Wakes the writers that wait for room in memory.
    pub(crate) fn let_writers_on(&self) {
        self.done.notify_all();
    }
}

/// The thread of an open store.
pub(crate) struct Maintenance {
    store: Arc<Store>,
    thread: Option<JoinHandle<()>>,
}

impl Maintenance {
    pub(crate) fn start(store: &Arc<Store>) -> Result<Self> {
        let mut thread = None;
        if store.settings.on_threads {
            let store = Arc::clone(store);
            let builder = thread::Builder::new().name("betree flush".into());
            let spawned = builder.spawn(move || run_guarded(&store));
            thread = Some(spawned.map_err(|source| halite_pmem::Error::Io {
                path: "betree".into(),
                action: "start a thread for",
                source,
            })?);
        }
        Ok(Self { store: Arc::clone(store), thread })
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.store.signals.state.lock().stopping = true;
        self.store.signals.work.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Flushes until the store is closed. After a panic, no batch is committed any more, and no writer waits.
fn run_guarded(store: &Store) {
    if store.health.guard("the thread that flushes", || run(store)).is_none() {
        let mut state = store.signals.state.lock();
        state.failure = store.health.check().err();
        state.rounds = u64::MAX;
        store.signals.done.notify_all();
    }
}

fn run(store: &Store) {
    let signals = &store.signals;
    loop {
        let seen = signals.state.lock().due;
        let done = store.move_on();
        let mut state = signals.state.lock();
        let has_failed = done.is_err();
        state.failure = done.err();
        state.rounds += 1;
        signals.done.notify_all();
        while state.due == seen && !state.stopping {
            if has_failed {
                signals.work.wait_for(&mut state, RETRY);
                break;
            }
            signals.work.wait(&mut state);
        }
        if state.stopping {
            return;
        }
    }
}

/// An error for one more writer.
fn again(error: &Error) -> Error {
    match error {
        Error::Own(own) => Error::Own(own.clone()),
        Error::Disk(reason) => Error::Disk(Arc::clone(reason)),
        Error::Damaged { what, why } => Error::Damaged { what: what.clone(), why: why.clone() },
        other => Error::Poisoned { why: other.to_string() },
    }
}

impl Store {
    /// Flushes what is frozen, and makes a checkpoint if one is due.
    ///
    /// A failure for lack of room, or of descriptors, may pass. After any other one no batch is committed any more: the
    /// kernel reports a sync that failed once, and what it was for need not be durable.
    pub(crate) fn move_on(&self) -> Result<()> {
        self.try_to_move_on().inspect_err(|error| {
            if !error.lacks_space() && !error.lacks_descriptors() {
                self.health.poison(error.to_string());
            }
        })
    }

    fn try_to_move_on(&self) -> Result<()> {
        self.flush_frozen()?;
        self.log.prepare_ahead()
    }

    /// Waits until the flushes of what is frozen have led to something.
    pub(crate) fn wait_until(&self, is_done: &dyn Fn(&View) -> bool) -> Result<()> {
        if !self.settings.on_threads {
            return self.move_on();
        }
        let mut state = self.signals.state.lock();
        // A round that is under way may have begun before the memtable was frozen.
        let enough = state.rounds.saturating_add(2);
        state.due += 1;
        self.signals.work.notify_all();
        while !is_done(&self.view()) {
            if state.stopping {
                // The turn refuses the writer: it is one of objects, whose handles may outlive the engine's.
                return Ok(());
            }
            if state.rounds >= enough
                && let Some(failure) = &state.failure
            {
                return Err(again(failure));
            }
            self.signals.done.wait_for(&mut state, RETRY);
        }
        Ok(())
    }
}
