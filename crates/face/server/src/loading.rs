//! Partitions that are recovered while the server answers.
//!
//! Loader threads wait for one partition after the other, read the deadlines of its keys, and bring its [`Part`] to the
//! thread that owns it, which serves it from then on. Until then no thread has the part: a request that needs it waits
//! in its connection, moves it to the front of the queue, and is tried again when another partition is ready. Commands
//! without keys are not affected.
//!
//! A partition that could not be recovered, or read, has a part as well, which is marked as broken: its requests are
//! refused with the reason, and those of other partitions go on.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use crate::Error;
use crate::partition_set::PartitionSet;
use crate::service::unix_time;
use crate::shared::{FailsOnPanic, Shared, lock};
use crate::store::{Opened, Part};

/// How often the end of the server is looked for.
const PAUSE: Duration = Duration::from_millis(50);

/// Which partitions are ready, as all threads see it.
pub(crate) struct Loading {
    all: PartitionSet,
    /// The partitions that their threads serve.
    ready: AtomicU64,
    /// The partitions whose requests are refused.
    broken: AtomicU64,
    /// Those that no loader thread has begun to wait for, the next one first.
    queue: Mutex<VecDeque<usize>>,
    /// By thread: parts that it has yet to take.
    arrived: Vec<Mutex<Vec<Part>>>,
    /// In seconds since 1970.
    pub(crate) began_s: u64,
}

impl Loading {
    /// `ready` of so many partitions are ready, and the others to be waited for.
    pub(crate) fn new(threads: usize, partitions: usize, ready: PartitionSet) -> Self {
        let all = PartitionSet::first(partitions);
        Self {
            all,
            ready: AtomicU64::new(ready.bits()),
            broken: AtomicU64::new(0),
            queue: Mutex::new(all.without(ready).iter().collect()),
            arrived: (0..threads).map(|_| Mutex::default()).collect(),
            began_s: unix_time().as_secs(),
        }
    }

    /// All partitions.
    pub(crate) fn all(&self) -> PartitionSet {
        self.all
    }

    /// The partitions that are served.
    pub(crate) fn ready(&self) -> PartitionSet {
        PartitionSet::from_bits(self.ready.load(Ordering::Acquire))
    }

    /// The partitions that could not be recovered, and will not be.
    pub(crate) fn broken(&self) -> PartitionSet {
        PartitionSet::from_bits(self.broken.load(Ordering::Acquire))
    }

    /// INFO's name for the state of a partition.
    pub(crate) fn state(&self, number: usize) -> &'static str {
        let number = PartitionSet::only(number);
        match () {
            () if number.is_within(self.broken()) => "failed",
            () if number.is_within(self.ready()) => "ready",
            () => "recovering",
        }
    }

    /// Whether no partition is waited for any more.
    pub(crate) fn is_complete(&self) -> bool {
        self.ready() == self.all
    }

    /// A request waits for partitions: the first of them that no loader thread has begun to wait for is the next one.
    pub(crate) fn want(&self, partitions: PartitionSet) -> Option<usize> {
        let mut queue = lock(&self.queue);
        let place =
            queue.iter().position(|&number| PartitionSet::only(number).is_within(partitions));
        let wanted = place.and_then(|place| queue.remove(place))?;
        queue.push_front(wanted);
        Some(wanted)
    }

    /// The parts that have come for a thread, which serves them from now on and reports that.
    pub(crate) fn take(&self, thread: usize) -> Vec<Part> {
        std::mem::take(&mut lock(&self.arrived[thread]))
    }

    /// Some partitions are served.
    pub(crate) fn serve(&self, partitions: PartitionSet) {
        self.ready.fetch_or(partitions.bits(), Ordering::Release);
    }
}

/// The loader of partitions.
pub(crate) struct Loader {
    pub(crate) db: halite::Database,
    /// The databases to open.
    pub(crate) databases: usize,
    /// By partition: the thread that it belongs to.
    pub(crate) homes: Vec<usize>,
    pub(crate) opened: Arc<OnceLock<Opened>>,
    pub(crate) shared: Arc<Shared>,
}

impl Loader {
    /// Brings all parts to their threads, or ends when the server does.
    ///
    /// # Errors
    /// The error of opening the databases.
    pub(crate) fn run(&self) -> Result<(), Error> {
        let Some(opened) = self.open()? else { return Ok(()) };
        // As many threads as recover partitions.
        let cores = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 1..cores.min(self.homes.len()) {
                let builder = thread::Builder::new().name("halite-loader".to_owned());
                // If no more threads can be started, one is enough.
                drop(builder.spawn_scoped(scope, || {
                    let _guard = FailsOnPanic(&self.shared);
                    self.work(opened);
                }));
            }
            self.work(opened);
        });
        Ok(())
    }

    /// Opens the databases as soon as the partitions with their names and their order are recovered.
    fn open(&self) -> Result<Option<&Opened>, Error> {
        let mut needed = PartitionSet::only(0);
        needed.insert(self.db.partition_of(Opened::ORDER_KEY));
        for number in needed.iter() {
            self.db.wait_partition(number, Duration::ZERO)?;
        }
        for number in needed.iter() {
            if !self.wait(number)? {
                return Ok(None);
            }
        }
        if !Opened::exist(&self.db, self.databases)? {
            // To make key spaces takes all of them.
            for number in 0..self.homes.len() {
                if !self.wait(number)? {
                    return Ok(None);
                }
            }
        }
        let opened = Opened::open(&self.db, self.databases)?;
        Ok(Some(self.opened.get_or_init(|| opened)))
    }

    /// Waits for a partition. Returns false if the server ends.
    fn wait(&self, number: usize) -> halite::Result<bool> {
        while !self.shared.ending.has_begun() {
            if self.db.wait_partition(number, PAUSE)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn work(&self, opened: &Opened) {
        loop {
            let Some(number) = lock(&self.shared.loading.queue).pop_front() else { return };
            let mut part = opened.part(&self.db, number);
            let loaded = self.wait(number).and_then(|is_there| {
                Ok(is_there && opened.read_deadlines(&mut part, &self.shared.ending)?)
            });
            match loaded {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    part.break_down(&error);
                    let broken = PartitionSet::only(number).bits();
                    self.shared.loading.broken.fetch_or(broken, Ordering::Release);
                }
            }
            let home = self.homes[number];
            lock(&self.shared.loading.arrived[home]).push(part);
            self.shared.ring_one(home);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_waited_for_comes_next() {
        let loading = Loading::new(1, 5, PartitionSet::only(1));
        let mut wanted = PartitionSet::only(4);
        wanted.insert(1);
        assert_eq!(loading.want(wanted), Some(4));
        assert_eq!(loading.want(PartitionSet::only(1)), None);
        assert_eq!(*lock(&loading.queue), [4, 0, 2, 3]);
        assert!(!loading.is_complete());
        loading.serve(PartitionSet::first(4));
        assert!(!loading.is_complete());
        loading.serve(wanted);
        assert!(loading.is_complete());
    }
}
