//! Directories in DRAM: those of the runs that lookups and cursors have used last.
//!
//! Each lookup needs the directory of each run on its way, and one part of all parts. A directory is about a thirtieth of
//! its run, so a byte of it serves more lookups than a byte of a part, and directories go before parts ([`Shares`]). A run
//! has its directory itself, decoded, and a lookup takes it from there without a lock. This cache knows the runs that have one, in a ring, and
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
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwapOption, Guard};
use halite_sim::locks::Mutex;

use super::directory::Directory;
use crate::shares::Shares;

/// Bytes of an entry of the ring.
const ENTRY_BYTES: u64 = 16;

/// Runs that got a directory, the oldest first. Some have dropped theirs since, with themselves.
type Ring = VecDeque<Weak<dyn Keeper>>;

/// Entries of the ring beside those of runs that have a directory, before the ring is swept.
const DEAD_MAX: usize = 64;

/// The place in which a run has its directory, as long as there is memory.
pub(super) struct Kept {
    directory: ArcSwapOption<Directory>,
    /// Whether it was used since it came here, or since the ring passed the run.
    is_used: AtomicBool,
}

impl Kept {
    /// A place without a directory.
    pub(super) const fn empty() -> Self {
        Self { directory: ArcSwapOption::const_empty(), is_used: AtomicBool::new(false) }
    }

    /// The directory, if it is here.
    #[inline]
    pub(super) fn get(&self) -> Option<HeldDirectory> {
        let directory = self.directory.load();
        if directory.is_none() {
            return None;
        }
        // Most lookups find it so, and write nothing.
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
        Some(HeldDirectory(directory))
    }

    fn has_directory(&self) -> bool {
        self.directory.load().is_some()
    }
}

/// A run, as the ring knows it.
pub(super) trait Keeper: Send + Sync {
    fn kept(&self) -> &Kept;
}

/// A directory in use: it stays while the run loses it.
pub(crate) struct HeldDirectory(Guard<Option<Arc<Directory>>>);

impl HeldDirectory {
    /// A directory that was read.
    pub(super) fn of(directory: Arc<Directory>) -> Self {
        Self(Guard::from_inner(Some(directory)))
    }

    /// The directory, for longer use.
    pub(super) fn share(&self) -> Arc<Directory> {
        Arc::clone(self.0.as_ref().expect("there is one"))
    }
}

impl Deref for HeldDirectory {
    type Target = Directory;

    #[inline]
    fn deref(&self) -> &Directory {
        self.0.as_ref().expect("there is one")
    }
}

/// The directories in memory.
pub(crate) struct Directories {
    shares: Arc<Shares>,
    /// Bytes that directories may take, and those that they do.
    bytes_max: u64,
    bytes: AtomicU64,
    /// How many there are.
    count: AtomicU64,
    ring: Mutex<Ring>,
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
    pub(super) fn keep(&self, run: Arc<dyn Keeper>, directory: &Arc<Directory>) {
        let weight = weight_of(directory);
        if weight > self.bytes_max {
            return;
        }
        let mut ring = self.ring.lock();
        if run.kept().has_directory() {
            // Threads that read it at the same time drop theirs but one.
            return;
        }
        while self.used_bytes() + weight > self.bytes_max {
            if !self.evict(&mut ring) {
                return;
            }
        }
        if ring.len() > 2 * self.count.load(Ordering::Relaxed) as usize + DEAD_MAX {
            ring.retain(|run| run.upgrade().is_some_and(|run| run.kept().has_directory()));
        }
        self.shares.set_directories(self.used_bytes() + weight);
        self.bytes.fetch_add(weight, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
        run.kept().directory.store(Some(Arc::clone(directory)));
        ring.push_back(Arc::downgrade(&run));
    }

    /// Takes the oldest directory that was not used from its run. Returns whether there was any: threads may use them as
    /// fast as this one goes round.
    fn evict(&self, ring: &mut Ring) -> bool {
        for _ in 0..2 * ring.len() {
            let Some(oldest) = ring.pop_front() else { break };
            let Some(run) = oldest.upgrade() else { continue };
            let kept = run.kept();
            if kept.is_used.swap(false, Ordering::Relaxed) && kept.has_directory() {
                ring.push_back(oldest);
                continue;
            }
            if self.take_back(kept) {
                return true;
            }
        }
        false
    }

    /// Takes the directory of a run, which is evicted or goes. Returns whether it had one.
    pub(super) fn take_back(&self, kept: &Kept) -> bool {
        let Some(directory) = kept.directory.swap(None) else { return false };
        self.bytes.fetch_sub(weight_of(&directory), Ordering::Relaxed);
        self.count.fetch_sub(1, Ordering::Relaxed);
        true
    }
}

fn weight_of(directory: &Directory) -> u64 {
    directory.held_bytes() + ENTRY_BYTES
}
