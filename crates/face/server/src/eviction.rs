//! Keys that go when the data take more than `maxmemory` allows: the policy, and when it acts.
//!
//! `maxmemory` limits the bytes of live records, INFO's `used_memory_dataset`. A command that takes room has its thread
//! evict keys of its own partitions first ([`Service::make_room`]), until the limit holds or the time for that is over; then
//! the thread goes on in its next turns. A thread that has no key which the policy lets go is *dry*, until one of its keys
//! changes. It wakes the others, and refuses the command if all are dry. Within a transaction or a script no key goes: room is
//! made before it begins.

use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::failure::{FULL, Outcome};
use crate::service::Service;

/// Keys of a database that are looked at for one that goes, whatever the setting is: a look at all would take too long.
const SAMPLES_MAX: usize = 64;

impl Service {
    /// Evicts keys of this thread until the limit holds, or goes on with that later.
    ///
    /// # Errors
    /// The limit does not hold, and no key may go.
    pub(crate) fn make_room(&mut self) -> Outcome {
        if self.settings.memory_max == 0 || self.store.is_paused || !self.is_full() {
            return Ok(());
        }
        let settings = self.settings.eviction;
        if !settings.policy.evicts() {
            return Err(FULL.into());
        }
        if self.store.in_transaction() {
            return if self.lacks_room() { Err(FULL.into()) } else { Ok(()) };
        }
        let (began, time) = (Instant::now(), settings.time());
        let samples = settings.samples.min(SAMPLES_MAX);
        while self.is_full() {
            // The elements of collections that are gone take room until they are removed.
            let has_reclaimed = self.store.has_dropped() && self.store.reclaim();
            let policy = settings.policy;
            if !has_reclaimed && !self.store.evict(policy.order(), policy.is_volatile(), samples) {
                return self.note_dry();
            }
            if time.is_some_and(|time| began.elapsed() >= time) || self.store.ending.breaks_off() {
                self.must_evict = true;
                break;
            }
        }
        self.note_latency("eviction-cycle", began.elapsed());
        Ok(())
    }

    /// Whether the limit does not hold, and no key may go.
    pub(crate) fn lacks_room(&self) -> bool {
        self.settings.memory_max > 0
            && self.is_full()
            && (!self.settings.eviction.policy.evicts() || self.shared.pressure.is_all_dry())
    }

    fn note_dry(&mut self) -> Outcome {
        if !self.own.is_within(self.store.here()) {
            // The parts that are lent may have keys that may go: a later command evicts them.
            return Ok(());
        }
        let pressure = &self.shared.pressure;
        pressure.dry[self.thread].store(true, Ordering::Relaxed);
        self.dry_at = self.store.changes;
        self.must_evict = false;
        if pressure.is_all_dry() {
            return Err(FULL.into());
        }
        pressure.is_asked.store(true, Ordering::Relaxed);
        for (thread, dry) in pressure.dry.iter().enumerate() {
            if !dry.load(Ordering::Relaxed) {
                self.shared.ring_one(thread);
            }
        }
        Ok(())
    }

    /// Goes on with evictions that were begun, or that other threads need.
    pub(crate) fn go_on_evicting(&mut self) {
        if self.settings.memory_max == 0 || !self.settings.eviction.policy.evicts() {
            self.must_evict = false;
            return;
        }
        if self.store.is_paused {
            return;
        }
        let pressure = &self.shared.pressure;
        let is_dry = pressure.dry[self.thread].load(Ordering::Relaxed);
        if is_dry && self.store.changes != self.dry_at {
            pressure.dry[self.thread].store(false, Ordering::Relaxed);
        }
        let is_asked = pressure.is_asked.load(Ordering::Relaxed) && !is_dry;
        if std::mem::take(&mut self.must_evict) || is_asked {
            // The next command that needs room is told of a lack of it.
            let _ = self.make_room();
            if !self.is_full() {
                self.shared.pressure.is_asked.store(false, Ordering::Relaxed);
            }
        }
    }
}
