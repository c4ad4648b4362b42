//! The thread of automatic migration.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use halite_contract::Result;
use parking_lot::{Condvar, Mutex};

use crate::options::Migration;
use crate::store::Store;

/// The thread of an open store. It is stopped when this is dropped.
pub(crate) struct Migrator {
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Signal {
    is_stopping: Mutex<bool>,
    stop: Condvar,
}

impl Signal {
    /// Waits. Returns whether the thread is to go on.
    fn wait(&self, time: Duration) -> bool {
        let mut is_stopping = self.is_stopping.lock();
        self.stop.wait_while_for(&mut is_stopping, |is_stopping| !*is_stopping, time);
        !*is_stopping
    }
}

impl Migrator {
    /// Starts the thread, if migration is on and the store has threads.
    pub(crate) fn start(store: &Arc<Store>) -> Result<Option<Self>> {
        let Some(options) = store.settings.migration.filter(|_| store.settings.on_threads) else {
            return Ok(None);
        };
        let signal = Arc::new(Signal::default());
        let (store, of_thread) = (Arc::clone(store), Arc::clone(&signal));
        let builder = thread::Builder::new().name("betree migrate".into());
        let spawned = builder.spawn(move || {
            store.health.guard("the thread that migrates", || run(&store, &of_thread, options));
        });
        let thread = spawned.map_err(|source| halite_pmem::Error::Io {
            path: "betree".into(),
            action: "start a thread for",
            source,
        })?;
        Ok(Some(Self { signal, thread: Some(thread) }))
    }
}

impl Drop for Migrator {
    fn drop(&mut self) {
        *self.signal.is_stopping.lock() = true;
        self.signal.stop.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(store: &Store, signal: &Signal, options: Migration) {
    if !signal.wait(options.grace) {
        return;
    }
    loop {
        // Nothing was moved where a round fails, and the next one tries again; a store that is damaged says so to its
        // readers, and one that takes no more writes to its writers.
        let _ = store.migrate_round(&|| !*signal.is_stopping.lock());
        if !signal.wait(options.period) || store.health.check().is_err() {
            return;
        }
    }
}
