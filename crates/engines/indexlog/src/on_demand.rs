//! The partitions of a store, each of which is available as soon as it is recovered.
//!
//! Where the logs end is decided for all of them before a store opens (`recovery`). Their indexes are built by
//! threads of their own, as many as there are cores. A caller that needs a partition waits for it, parked, and that
//! partition is the next one that is begun. The first partition comes first, because it has the names of the key
//! spaces. If a partition cannot be recovered, every caller that asks for it gets the error.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use halite_contract::{Error, Health, Recovery, Result, panic_message};

use crate::batch::commit_record::{Batch, Numbers, check_whole};
use crate::catalogue::Names;
use crate::closing::Closing;
use crate::index_snapshot::Snapshots;
use crate::layout::{Layout, in_partition};
use crate::partition::Partition;
use crate::recovery::{Ended, Unbuilt};

/// The partitions of a store.
pub(crate) struct Partitions {
    shared: Arc<Shared>,
    /// All of them, once they are there.
    all: OnceLock<Vec<Arc<Partition>>>,
    threads: Vec<JoinHandle<()>>,
}

/// A partition, or the error of its recovery.
type Built = std::result::Result<Arc<Partition>, Arc<Error>>;

struct Shared {
    layout: Layout,
    closing: Arc<Closing>,
    health: Arc<Health>,
    snapshots: Snapshots,
    started: Instant,
    partitions: Vec<OnceLock<Built>>,
    names: OnceLock<std::result::Result<Names, Arc<Error>>>,
    numbers: Numbers,
    /// Whether recovery is to stop, because the store closes.
    stop: AtomicBool,
    state: Mutex<State>,
    /// Notified when a partition, or the names, are there.
    changed: Condvar,
    /// The partition whose recovery is to panic.
    #[cfg(test)]
    planted: Option<usize>,
}

struct State {
    unbuilt: VecDeque<Unbuilt>,
    report: Recovery,
    /// The newest batches on several partitions.
    batches: Vec<Option<Batch>>,
}

impl Partitions {
    /// Begins to build the partitions, and returns at once; without threads, when all of them are built.
    pub(crate) fn begin(
        ended: Ended,
        layout: Layout,
        closing: Arc<Closing>,
        snapshots: Snapshots,
        started: Instant,
        on_threads: bool,
    ) -> Self {
        let Ended { unbuilt, report } = ended;
        let count = unbuilt.len();
        let shared = Arc::new(Shared {
            layout,
            closing,
            health: Arc::default(),
            snapshots,
            started,
            partitions: (0..count).map(|_| OnceLock::new()).collect(),
            names: OnceLock::new(),
            numbers: Numbers::after(0),
            stop: AtomicBool::new(false),
            state: Mutex::new(State {
                unbuilt: unbuilt.into(),
                report,
                batches: vec![None; count],
            }),
            changed: Condvar::new(),
            #[cfg(test)]
            planted: tests::PLANTED.get(),
        });
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let mut threads = Vec::new();
        for _ in 0..if on_threads { cores.min(count) } else { 0 } {
            let shared = Arc::clone(&shared);
            let builder = thread::Builder::new().name("halite-recovery".to_owned());
            threads.extend(builder.spawn(move || shared.work()));
        }
        if threads.is_empty() {
            shared.work();
        }
        Self { shared, all: OnceLock::new(), threads }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.shared.partitions.len()
    }

    /// A partition. Waits until it is there.
    ///
    /// # Errors
    /// The error of its recovery.
    #[inline]
    pub(crate) fn get(&self, number: usize) -> Result<&Arc<Partition>> {
        let found = match self.shared.partitions[number].get() {
            Some(found) => Some(found),
            None => self.shared.wait(number, None),
        };
        let found = found.expect("a wait without an end ends with the partition");
        found.as_ref().map_err(|error| again(number, error))
    }

    /// Waits up to `time` for a partition; returns whether it is there.
    ///
    /// # Errors
    /// The error of its recovery.
    pub(crate) fn wait(&self, number: usize, time: Duration) -> Result<bool> {
        let until = Instant::now().checked_add(time);
        match self.shared.wait(number, until) {
            Some(found) => found.as_ref().map(|_| true).map_err(|error| again(number, error)),
            None => Ok(false),
        }
    }

    /// All partitions. Waits until they are there.
    ///
    /// # Errors
    /// The error of the first partition that could not be recovered; a batch that is in some partitions only.
    pub(crate) fn all(&self) -> Result<&[Arc<Partition>]> {
        if let Some(all) = self.all.get() {
            return Ok(all);
        }
        let all: Result<Vec<_>> = (0..self.len()).map(|at| self.get(at).cloned()).collect();
        let all = all?;
        check_whole(&self.shared.lock().batches)?;
        Ok(self.all.get_or_init(|| all))
    }

    /// A partition, if it is there.
    pub(crate) fn find(&self, number: usize) -> Option<&Arc<Partition>> {
        self.shared.partitions[number].get()?.as_ref().ok()
    }

    /// The partitions that are there.
    pub(crate) fn ready(&self) -> impl Iterator<Item = &Arc<Partition>> {
        (0..self.len()).filter_map(|number| self.find(number))
    }

    /// The numbers of batches on several partitions; right once all are there.
    pub(crate) fn numbers(&self) -> &Numbers {
        &self.shared.numbers
    }

    /// The recovery report so far.
    pub(crate) fn report(&self) -> Recovery {
        self.shared.lock().report.clone()
    }

    /// Changes the recovery report.
    pub(crate) fn change_report(&self, change: impl FnOnce(&mut Recovery)) {
        change(&mut self.shared.lock().report);
    }
}

impl Drop for Partitions {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a partition, until some time or as long as it takes. It is the next one to be begun, but for the
    /// first partition, whose names the others wait for. `None` if it is not there in time.
    #[cold]
    fn wait(&self, number: usize, until: Option<Instant>) -> Option<&Built> {
        let mut state = self.lock();
        let place = state.unbuilt.iter().position(|unbuilt| unbuilt.number() == number);
        if let Some(wanted) = place.and_then(|place| state.unbuilt.remove(place)) {
            let first = state.unbuilt.front().is_some_and(|first| first.number() == 0);
            state.unbuilt.insert(usize::from(first), wanted);
        }
        loop {
            if let Some(found) = self.partitions[number].get() {
                return Some(found);
            }
            let Some(until) = until else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Builds partitions while there are any left.
    fn work(&self) {
        loop {
            let Some(unbuilt) = self.lock().unbuilt.pop_front() else { return };
            let number = unbuilt.number();
            // The callers that wait for it must be told, even if its recovery panics.
            let build = std::panic::AssertUnwindSafe(|| self.build(unbuilt));
            let built = std::panic::catch_unwind(build).unwrap_or_else(|panic| {
                let why = format!("its recovery has panicked: {}", panic_message(&*panic));
                Err(Error::Poisoned { why })
            });
            let built = built.map_err(|error| Arc::new(in_partition(self.name(number), error)));
            let mut state = self.lock();
            if let (0, Err(error)) = (number, &built) {
                let _ = self.names.set(Err(Arc::clone(error)));
            }
            state.report.partitions_ready += usize::from(built.is_ok());
            state.report.duration = self.started.elapsed();
            let _ = self.partitions[number].set(built);
            drop(state);
            self.changed.notify_all();
        }
    }

    fn name(&self, number: usize) -> Option<usize> {
        self.layout.is_named(number)
    }

    fn build(&self, unbuilt: Unbuilt) -> Result<Arc<Partition>> {
        let number = unbuilt.number();
        #[cfg(test)]
        assert_ne!(self.planted, Some(number), "planted in a recovery");
        let mut built = unbuilt.build(self.layout.changes, &self.snapshots, &self.stop)?;
        if number == 0 {
            let names = Names::read(&built.writer, &mut built.view)?;
            let _ = self.names.set(Ok(names));
            // Under the lock, so that no thread begins to wait in between.
            drop(self.lock());
            self.changed.notify_all();
        }
        self.names()?.give(&mut built.writer, &mut built.view)?;
        if self.partitions.len() > 1 || self.layout.changes.is_some() {
            built.writer.storage.space.share_pool()?;
        }
        let reclaimed = built.writer.storage.space.release_empty_segments()?;
        let batch = Batch::newest(&built.view)?;
        self.numbers.raise(batch.map_or(0, |batch| batch.number));
        let mut state = self.lock();
        state.batches[number] = batch;
        state.report.records_read += built.records_read;
        state.report.records_replayed += built.records_replayed;
        state.report.segments_reclaimed += reclaimed;
        drop(state);
        let (closing, health) = (Arc::clone(&self.closing), Arc::clone(&self.health));
        let name = self.name(number);
        Ok(Arc::new(Partition::new(built.writer, built.view, name, closing, health)))
    }

    /// The names of the key spaces. Waits for the first partition, which is being built by then.
    fn names(&self) -> Result<&Names> {
        let mut state = self.lock();
        loop {
            if let Some(names) = self.names.get() {
                return names.as_ref().map_err(|error| again(0, error));
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The error of a partition's recovery, for another caller.
fn again(partition: usize, error: &Arc<Error>) -> Error {
    match &**error {
        Error::Damaged { what, why } => Error::Damaged { what: what.clone(), why: why.clone() },
        _ => Error::NotRecovered { partition, reason: Arc::clone(error) },
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use halite_contract::{Durability, Engine, EngineOptions, Op, Partitioned, Partitioning};

    use crate::IndexLog;

    thread_local! {
        /// The partition whose recovery is to panic, of a store that this thread opens.
        pub(super) static PLANTED: Cell<Option<usize>> = const { Cell::new(None) };
    }

    #[test]
    fn a_panic_of_a_recovery_is_told_to_those_who_need_the_partition() {
        let folder = tempfile::tempdir().unwrap();
        let partitioning = Some(Partitioning::Hash(4));
        let options = EngineOptions {
            partitioning,
            on_demand: true,
            ..EngineOptions::new(folder.path().join("pool"))
        };
        let engine = IndexLog::open(&options).unwrap();
        let space = engine.key_space("space").unwrap();
        let keys: Vec<_> = (0..100_u8).map(|key| [key]).collect();
        for key in &keys {
            engine
                .write(&[Op::Put { space, key, value: b"value" }], Durability::Immediate)
                .unwrap();
        }
        drop(engine);
        let message = "its recovery has panicked: assertion";
        for planted in [2, 0] {
            PLANTED.set(Some(planted));
            let engine = IndexLog::open(&options).unwrap();
            PLANTED.set(None);
            for key in &keys {
                let got = engine.get(space, key);
                // The first partition has the names of the key spaces, which all others need.
                if planted == 0 || engine.partition_of(key) == planted {
                    let error = got.unwrap_err().to_string();
                    assert!(error.contains(message) && error.contains("planted"), "{error}");
                    let put = Op::Put { space, key, value: b"new" };
                    assert!(engine.write(&[put], Durability::Immediate).is_err());
                } else {
                    assert_eq!(got.unwrap().as_deref(), Some(&b"value"[..]));
                }
            }
        }
        let engine = IndexLog::open(&options).unwrap();
        for key in &keys {
            assert_eq!(engine.get(space, key).unwrap().as_deref(), Some(&b"value"[..]));
        }
    }
}
