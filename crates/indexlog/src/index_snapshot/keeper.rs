//! Taking snapshots of the index when they are due, beside those who write.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use crate::partition::Partition;

/// The thread that takes a store's snapshots; there is none before the first one is due.
pub(crate) struct Keeper {
    on_threads: bool,
    stop: Arc<AtomicBool>,
    worker: OnceLock<Option<Worker>>,
}

struct Worker {
    due: Sender<Arc<Partition>>,
    thread: JoinHandle<()>,
}

impl Keeper {
    /// One with a thread of its own, or one that lets those who write wait.
    pub(crate) fn new(on_threads: bool) -> Self {
        Self { on_threads, stop: Arc::default(), worker: OnceLock::new() }
    }

    /// Takes a snapshot of a partition for which it is due.
    #[cold]
    pub(crate) fn take(&self, partition: &Arc<Partition>) {
        match self.worker.get_or_init(|| self.begin()) {
            // If the thread is gone, there are no more snapshots.
            Some(worker) => drop(worker.due.send(Arc::clone(partition))),
            // What was wrong with the pool, the next write tells.
            None => drop(partition.snapshot_index(&self.stop)),
        }
    }

    fn begin(&self) -> Option<Worker> {
        if !self.on_threads {
            return None;
        }
        let (due, partitions) = channel();
        let stop = Arc::clone(&self.stop);
        let builder = thread::Builder::new().name("halite-snapshots".to_owned());
        let thread = builder.spawn(move || work(&partitions, &stop)).ok()?;
        Some(Worker { due, thread })
    }
}

fn work(due: &Receiver<Arc<Partition>>, stop: &AtomicBool) {
    for partition in due {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        // As above.
        drop(partition.snapshot_index(stop));
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(Worker { due, thread }) = self.worker.take().flatten() {
            drop(due);
            // Who panicked has said so.
            let _ = thread.join();
        }
    }
}
