//! The threads of a store, which `signals` wake.
//!
//! Two threads move memtables on ([`crate::flush`]), so that merging, which takes milliseconds, does not wait for the
//! levels. With a log, the merging thread also shortens the log, so that removals do not wait for the levels to be
//! emptied. A store without threads (the crash lab's) does both where a writer would wake them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use halite_contract::Result;

use crate::signals::Task;
use crate::store::Store;

/// How long a thread waits before it tries a failed task again.
const RETRY: Duration = Duration::from_secs(1);

/// How long a thread waits for batches to be committed in a memtable that is full.
const SETTLING: Duration = Duration::from_millis(10);

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
                threads.extend(builder.spawn(move || run_guarded(&store, task)).ok());
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

/// Does the task, where there is something to do. Returns whether there was.
fn do_task(task: Task, store: &Store) -> Result<bool> {
    match task {
        Task::Merge => {
            Ok(store.prepare_log()? | store.merge_all()? | store.shorten_log_if_due()?)
        }
        Task::Flush => store.flush_all(),
    }
}

/// Does a task until the store is closed. After a panic, no batch is written any more, and no writer waits for the
/// task.
fn run_guarded(store: &Store, task: Task) {
    let what = format!("the thread {}", task.name());
    if store.health.guard(&what, || run(store, task)).is_none() {
        // Writers that wait for their pace find that there is none.
        store.set_pace();
        store.signals.note(task, u64::MAX, store.check_healthy().err());
    }
}

/// Does a task whenever there may be something to do.
fn run(store: &Store, task: Task) {
    let mut seen = 0;
    loop {
        let number = store.signals.begin();
        let outcome = do_task(task, store);
        let failed = outcome.is_err();
        match outcome {
            Ok(true) => {
                store.set_pace();
                store.signals.note(task, number, None);
                // The other thread may have something to do now.
                store.signals.wake();
            }
            Ok(false) => {}
            Err(error) => {
                store.set_pace();
                if task == Task::Flush {
                    store.give_up_tables();
                }
                store.signals.note(task, number, Some(error));
            }
        }
        let mut state = store.signals.state.lock();
        while state.due == seen && !state.stopping {
            if failed || task == Task::Flush && store.refusals.are_removals_due() {
                store.signals.work.wait_for(&mut state, RETRY);
                break;
            }
            if store.has_immutables() {
                // Batches that are being committed may be done by then; no signal tells.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::options::{Durable, LsmOptions};
    use halite_contract::{Direction, Durability, Engine, EngineOptions, Error, KeyRange, Op};
    use halite_pmem::PoolOptions;

    use super::*;
    use crate::Lsm;

    /// Batches of each writer: several times the pool, so each writer would wait for room.
    const BATCHES: u64 = 4_000;

    const WRITERS: u64 = 3;

    fn options(folder: &std::path::Path, durable: Durable) -> EngineOptions {
        let mut pool_options = PoolOptions::default();
        pool_options.size_max = 32 << 20;
        let lsm = LsmOptions {
            durable,
            memtable_bytes: Some(1 << 20),
            global_index_bytes: Some(4 << 20),
            table_bytes: Some(64 << 10),
            ..LsmOptions::default()
        };
        EngineOptions { pool_options, own: lsm.into(), ..EngineOptions::new(folder.join("pool")) }
    }

    fn key(writer: u64, batch: u64) -> [u8; 16] {
        let spread = (writer << 32 | batch).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (u128::from(spread) << 64 | u128::from(writer << 32 | batch)).to_be_bytes()
    }

    /// Has several threads write until they are refused. Returns how many batches of each were taken, and the error.
    fn write_until_refused(engine: &Lsm, space: halite_contract::KeySpaceId) -> Vec<(u64, String)> {
        let write = |writer| {
            for batch in 0..BATCHES {
                let key = key(writer, batch);
                let op = Op::Put { space, key: &key, value: &[batch as u8; 20_000] };
                match engine.write(&[op], Durability::Immediate) {
                    Ok(()) => {}
                    Err(Error::Poisoned { why }) => return (batch, why),
                    Err(other) => panic!("it is told that it was poisoned, not: {other}"),
                }
            }
            panic!("nobody refused to write");
        };
        thread::scope(|scope| {
            let writers = (0..WRITERS).map(|writer| scope.spawn(move || write(writer)));
            let writers: Vec<_> = writers.collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        })
    }

    #[test]
    fn a_panic_of_a_thread_is_told_to_every_writer_and_loses_nothing() {
        let places = [
            ("lsm-merge", Durable::Pool),
            ("lsm-flush", Durable::Pool),
            ("lsm-flush", Durable::Log),
            ("compaction", Durable::Pool),
            ("compaction", Durable::Log),
            ("a thread beside a compaction's", Durable::Pool),
            ("halite-levels", Durable::Log),
        ];
        for (place, durable) in places {
            let folder = tempfile::tempdir().unwrap();
            let engine = Lsm::open(&options(folder.path(), durable)).unwrap();
            let space = engine.key_space("space").unwrap();
            engine.store.health.plant(place);
            let refused = write_until_refused(&engine, space);
            for (_, why) in &refused {
                let message = format!("panicked: planted in {place}");
                assert!(why.contains(&message), "{place}, {durable:?}: {why}");
            }
            let model: BTreeMap<_, _> = (0..WRITERS)
                .zip(&refused)
                .flat_map(|(writer, (taken, _))| {
                    (0..*taken).map(move |n| (key(writer, n), n as u8))
                })
                .collect();
            for (key, first) in &model {
                let value = engine.get(space, key).unwrap();
                assert_eq!(value.map(|value| value[0]), Some(*first), "{place}, {durable:?}");
            }
            let removal = Op::DeleteRange { space, start: b"", end: None };
            let later = engine.write(&[removal], Durability::Deferred);
            assert!(matches!(later, Err(Error::Poisoned { .. })));
            // Another opening finds every acknowledged key, and may find refused ones.
            drop(engine);
            let engine = Lsm::open(&options(folder.path(), durable)).unwrap();
            for (key, first) in &model {
                let value = engine.get(space, key).unwrap();
                assert_eq!(value.map(|value| value[0]), Some(*first), "{place}, {durable:?}");
            }
            let scan = engine.scan(space, KeyRange::all(), Direction::Forward).unwrap();
            assert!(scan.count() - model.len() <= WRITERS as usize);
            engine.write(&[removal], Durability::Immediate).unwrap();
        }
    }
}
