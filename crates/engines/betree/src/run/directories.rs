//! Directories in DRAM: those of the runs that lookups and cursors have used last.
//!
//! Each lookup needs the directory of each run on its way, and one part: so a byte of a directory is used some fifty
//! times as often as a byte of a part, and directories go before parts ([`Shares`]). A run has its directory itself,
//! decoded, and a lookup takes it from there without a lock. This cache knows the runs that have one, in a ring, and
//! evicts by the CLOCK algorithm: the oldest directory goes, unless it was used since it came or since the last round.
//!
//! | a lookup finds the directory | locks | copies |
//! |---|---|---|
//! | in the run | none | none |
//! | nowhere | one for the ring, behind the read | 1, while it is decoded |
//!
//! Memory counts as given back when the run drops or is evicted; a cursor that uses the directory keeps it a little
//! longer.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use halite_sim::locks::Mutex;

use super::directory::Directory;
use super::reader::Run;
use crate::shares::Shares;

/// Bytes of an entry of the ring.
const ENTRY_BYTES: u64 = 16;

/// Entries of the ring beside those of runs that have a directory, before the ring is swept.
const DEAD_MAX: usize = 64;

/// The directories in memory.
pub(crate) struct Directories {
    shares: Arc<Shares>,
    /// Bytes that directories may take, and those that they do.
    bytes_max: u64,
    bytes: AtomicU64,
    /// How many there are.
    count: AtomicU64,
    /// Runs that got a directory, the oldest first. Some have dropped theirs since, with themselves.
    ring: Mutex<VecDeque<Weak<Run>>>,
}

impl Directories {
    pub(crate) fn new(shares: Arc<Shares>) -> Self {
        let bytes_max = shares.directory_bytes_max();
        let (bytes, count) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { shares, bytes_max, bytes, count, ring: Mutex::default() }
    }

    /// Bytes that the directories take.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Lets a run keep a directory that was read for it, unless that is longer than all may be.
    pub(super) fn keep(&self, run: &Arc<Run>, directory: &Arc<Directory>) {
        let weight = weight_of(directory);
        if weight > self.bytes_max {
            return;
        }
        let mut ring = self.ring.lock();
        if run.kept().load().is_some() {
            // Threads that read it at the same time drop theirs but one.
            return;
        }
        while self.used_bytes() + weight > self.bytes_max {
            if !self.evict(&mut ring) {
                return;
            }
        }
        if ring.len() > 2 * self.count.load(Ordering::Relaxed) as usize + DEAD_MAX {
            ring.retain(|run| run.upgrade().is_some_and(|run| run.kept().load().is_some()));
        }
        self.shares.set_directories(self.used_bytes() + weight);
        self.bytes.fetch_add(weight, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
        run.kept().store(Some(Arc::clone(directory)));
        ring.push_back(Arc::downgrade(run));
    }

    /// Takes the oldest directory that was not used from its run. Returns whether there was any: threads may use them as
    /// fast as this one goes round.
    fn evict(&self, ring: &mut VecDeque<Weak<Run>>) -> bool {
        for _ in 0..2 * ring.len() {
            let Some(oldest) = ring.pop_front() else { break };
            let Some(run) = oldest.upgrade() else { continue };
            if run.take_use() && run.kept().load().is_some() {
                ring.push_back(oldest);
                continue;
            }
            if let Some(directory) = run.kept().swap(None) {
                self.give_back(&directory);
                return true;
            }
        }
        false
    }

    /// Notes that a run has no directory any more.
    pub(super) fn give_back(&self, directory: &Directory) {
        self.bytes.fetch_sub(weight_of(directory), Ordering::Relaxed);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

fn weight_of(directory: &Directory) -> u64 {
    directory.held_bytes() + ENTRY_BYTES
}
