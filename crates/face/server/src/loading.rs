//! Which partitions are recovered, while the server answers.
//!
//! The loader (`loader`) brings the part of each partition that is there to the thread that owns it, which serves it
//! from then on. Until then no thread has the part: a request that needs it waits in its connection, moves it to the
//! front of the queue, and is tried again when another partition is ready. Commands without keys are not affected.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::unix_time;
use crate::lock::lock;
use crate::partition_set::PartitionSet;
use crate::store::Part;

/// Which partitions are ready, as all threads see it.
pub(crate) struct Loading {
    all: PartitionSet,
    /// The partitions that their threads serve.
    ready: AtomicU64,
    /// The partitions whose requests are refused.
    broken: AtomicU64,
    /// The partitions that no loader thread has begun to wait for, the next one first.
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

    /// The next partition for a loader thread to wait for.
    pub(crate) fn take_wanted(&self) -> Option<usize> {
        lock(&self.queue).pop_front()
    }

    /// A partition's part goes to the thread that it belongs to.
    pub(crate) fn bring(&self, part: Part, home: usize) {
        if part.broken().is_some() {
            let broken = PartitionSet::only(part.number()).bits();
            self.broken.fetch_or(broken, Ordering::Release);
        }
        lock(&self.arrived[home]).push(part);
    }

    /// Some partitions are served.
    pub(crate) fn serve(&self, partitions: PartitionSet) {
        self.ready.fetch_or(partitions.bits(), Ordering::Release);
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
