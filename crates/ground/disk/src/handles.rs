//! Descriptors of files that stay open for reading, of which at most a fixed number are open at once.
//!
//! A process may have few descriptors (1,024 by default on most systems), and an engine has a file for each
//! table. So a file that was opened by [`Disk::open_shared`](crate::Disk::open_shared) has a descriptor
//! while it is read, and afterwards until it is evicted: where a descriptor is to be opened and the limit
//! is reached, CLOCK chooses the one that is closed (a ring with a hand: a file that was read since the
//! hand last passed stays for another round). The next read opens the file again by its name, and makes
//! sure that it is the same file.
//!
//! A reader holds a reference of its own, so it keeps reading through a descriptor that was evicted
//! meanwhile. So at most as many are open as the limit, and one for each read under way.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use arc_swap::{ArcSwapOption, Guard};
use halite_sim::locks::Mutex;
use rustix::process::{Resource, getrlimit};

use crate::{Error, Result};

/// The descriptor of a file, while it has one.
#[derive(Default)]
pub(crate) struct Slot {
    file: ArcSwapOption<fs::File>,
    /// Whether it was read since the hand passed.
    was_read: AtomicBool,
}

impl Slot {
    /// The descriptor, if it is open.
    #[inline]
    pub(crate) fn file(&self) -> Guard<Option<Arc<fs::File>>> {
        let file = self.file.load();
        if file.is_some() && !self.was_read.load(Relaxed) {
            self.was_read.store(true, Relaxed);
        }
        file
    }
}

/// The descriptors of a folder's files that may be closed.
pub(crate) struct Handles {
    limit: AtomicUsize,
    clock: Mutex<Clock>,
}

#[derive(Default)]
struct Clock {
    /// The slots that have a descriptor.
    ring: Vec<Arc<Slot>>,
    hand: usize,
}

impl Clock {
    /// Closes the next one that was not read lately. Returns whether there was one.
    fn close_one(&mut self) -> bool {
        while !self.ring.is_empty() {
            self.hand %= self.ring.len();
            if self.ring[self.hand].was_read.swap(false, Relaxed) {
                self.hand += 1;
                continue;
            }
            self.ring.swap_remove(self.hand).file.store(None);
            return true;
        }
        false
    }
}

impl Handles {
    /// Creates the handles; a quarter of the process's present limit of descriptors may be open.
    pub(crate) fn new() -> Self {
        const LEAST: u64 = 16;
        const MOST: u64 = 4096;
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let limit = AtomicUsize::new((limit / 4).clamp(LEAST, MOST) as usize);
        Self { limit, clock: Mutex::default() }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Relaxed)
    }

    /// Keeps no more open than `limit`, and at least one, from now on.
    pub(crate) fn set_limit(&self, limit: usize) {
        self.limit.store(limit.max(1), Relaxed);
        let mut clock = self.clock.lock();
        while clock.ring.len() > self.limit() {
            clock.close_one();
        }
    }

    /// How many are open.
    pub(crate) fn open_count(&self) -> usize {
        self.clock.lock().ring.len()
    }

    /// The descriptor of a file, opened if it has none.
    pub(crate) fn open(
        &self,
        slot: &Arc<Slot>,
        open: impl Fn() -> Result<fs::File>,
    ) -> Result<Arc<fs::File>> {
        let mut clock = self.clock.lock();
        if let Some(file) = slot.file.load_full() {
            return Ok(file);
        }
        while clock.ring.len() >= self.limit() {
            clock.close_one();
        }
        let file = Arc::new(give_way(|| clock.close_one(), open)?);
        slot.file.store(Some(Arc::clone(&file)));
        slot.was_read.store(true, Relaxed);
        clock.ring.push(Arc::clone(slot));
        Ok(file)
    }

    /// Opens another file; closes a few of these descriptors if the kernel has none left.
    pub(crate) fn give_way<T>(&self, open: impl Fn() -> Result<T>) -> Result<T> {
        give_way(|| self.clock.lock().close_one(), open)
    }

    /// Closes a file that is not read any more.
    pub(crate) fn close(&self, slot: &Arc<Slot>) {
        let mut clock = self.clock.lock();
        if slot.file.swap(None).is_some() {
            clock.ring.retain(|other| !Arc::ptr_eq(other, slot));
        }
    }
}

/// How many descriptors are closed for one opening. Where so many do not suffice, the descriptors are in
/// use elsewhere in the process or the system, and closing all of these would only have each of them opened
/// again.
const GIVEN_WAY_MAX: usize = 4;

/// Calls `open`, and closes a few descriptors while the kernel has none left.
fn give_way<T>(mut close_one: impl FnMut() -> bool, open: impl Fn() -> Result<T>) -> Result<T> {
    let mut opened = open();
    for _ in 0..GIVEN_WAY_MAX {
        if !matches!(opened, Err(Error::TooManyFiles { .. })) || !close_one() {
            break;
        }
        opened = open();
    }
    opened
}
