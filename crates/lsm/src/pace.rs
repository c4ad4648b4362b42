//! The pace of writers: room is let out in step with the flush that makes more.
//!
//! While nothing goes to the levels, writers go as fast as they can. While something does, the room that is left
//! has to last until that is done; how far the flush has come says how long that is, and both say how many bytes
//! a second writers may take. Each batch takes its part of that time from a clock that all writers share, and its
//! writer sleeps until then: so all are slowed alike, and none is stopped.
//!
//! The speed is found anew when a flush begins or ends, when a memtable is full, and every few milliseconds by
//! writers that are slowed. To one that is not it costs a load.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// What writers are held to while room is let out.
pub(crate) struct Pace {
    origin: Instant,
    flush: Mutex<Option<Flush>>,
    /// Keys of the flush that were passed.
    passed: AtomicU64,
    /// Nanoseconds that the last flush took a key.
    last_ns_per_key: AtomicU64,
    /// Nanoseconds that writers are to take for [`COST_UNIT`] bytes. 0: they are as fast as they can.
    cost: AtomicU64,
    /// When `cost` is found anew, in nanoseconds from the origin.
    renewal: AtomicU64,
    /// When the next batch may go, in nanoseconds from the origin.
    next: AtomicU64,
}

/// What is on its way to the levels.
struct Flush {
    began: Instant,
    keys: u64,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
            flush: Mutex::new(None),
            passed: AtomicU64::new(0),
            last_ns_per_key: AtomicU64::new(NS_PER_KEY),
            cost: AtomicU64::new(0),
            renewal: AtomicU64::new(0),
            next: AtomicU64::new(0),
        }
    }

    /// A flush of so many keys begins.
    pub(crate) fn begin(&self, keys: u64) {
        self.passed.store(0, Relaxed);
        *self.flush.lock() = Some(Flush { began: Instant::now(), keys: keys.max(1) });
    }

    /// The flush has passed so many more keys.
    pub(crate) fn pass(&self, keys: u64) {
        self.passed.fetch_add(keys, Relaxed);
    }

    /// The flush has ended: whether it `succeeded`, and so took as long as the next one will.
    pub(crate) fn end(&self, succeeded: bool) {
        let Some(flush) = self.flush.lock().take().filter(|_| succeeded) else { return };
        let took = flush.began.elapsed().as_nanos() as u64 / flush.keys;
        let last = self.last_ns_per_key.load(Relaxed);
        self.last_ns_per_key.store((last + took) / 2, Relaxed);
    }

    /// How long the flush that is on its way will still take; `None` if there is none.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let flush = self.flush.lock();
        let flush = flush.as_ref()?;
        Some(self.left(flush.keys, flush.began.elapsed()))
    }

    /// How long a flush of so many keys will still take that has taken so long.
    fn left(&self, keys: u64, elapsed: Duration) -> Duration {
        let passed = (self.passed.load(Relaxed) as f64 / keys as f64).min(1.0);
        let whole = if passed < KNOWN_FROM {
            let like_last = Duration::from_nanos(keys * self.last_ns_per_key.load(Relaxed));
            // It may wait for a compaction, nobody knows how long.
            like_last.max(elapsed * 2)
        } else {
            elapsed.div_f64(passed)
        };
        whole.mul_f64(END) - elapsed
    }

    /// Lets writers take so many bytes a second from now on.
    pub(crate) fn set_speed(&self, bytes_per_second: f64) {
        let cost = COST_UNIT as f64 * 1e9 / bytes_per_second.max(SPEED_MIN);
        self.cost.store(if bytes_per_second < SPEED_FULL { cost as u64 } else { 0 }, Relaxed);
        if bytes_per_second >= SPEED_FULL {
            self.next.store(0, Relaxed);
        }
    }

    /// Has a writer of so many bytes wait for its turn, if writers are slowed. `renew` finds the speed anew.
    #[inline]
    pub(crate) fn wait(&self, bytes: u64, renew: impl FnOnce()) {
        if self.cost.load(Relaxed) != 0 {
            self.wait_slowed(bytes, renew);
        }
    }

    fn wait_slowed(&self, bytes: u64, renew: impl FnOnce()) {
        let now = self.origin.elapsed().as_nanos() as u64;
        let renewal = self.renewal.load(Relaxed);
        let next = now + RENEWED_EVERY_NS;
        if now >= renewal && self.renewal.compare_exchange(renewal, next, Relaxed, Relaxed).is_ok()
        {
            renew();
        }
        let wait = self.take_turn(bytes, now);
        if wait >= SLEEP_MIN_NS {
            thread::sleep(Duration::from_nanos(wait.min(SLEEP_MAX_NS)));
        }
    }

    /// Takes the next turn for so many bytes. Returns how many nanoseconds are left until it is over.
    fn take_turn(&self, bytes: u64, now: u64) -> u64 {
        let turn = bytes.saturating_mul(self.cost.load(Relaxed)) / COST_UNIT;
        // Who slept for too long does not make all others late.
        let end = |next: u64| next.max(now.saturating_sub(LATE_MAX_NS)).saturating_add(turn);
        let next = self.next.fetch_update(Relaxed, Relaxed, |next| Some(end(next)));
        end(next.unwrap_or_else(|next| next)).saturating_sub(now)
    }
}

/// Nanoseconds that a key of the first flush is taken to need.
const NS_PER_KEY: u64 = 5_000;

/// The part of a flush from which on its own pace says more than that of the last one.
const KNOWN_FROM: f64 = 0.05;

/// How long a flush takes, by how long it takes to pass its keys: its last tables are synced at its end.
const END: f64 = 1.15;

/// Bytes that have a cost.
const COST_UNIT: u64 = 1 << 10;

/// Bytes a second from which on nobody is slowed.
const SPEED_FULL: f64 = 2e9;

/// Bytes a second that writers have in any case, as long as there is room: what keeps it may never go.
const SPEED_MIN: f64 = 4e6;

const RENEWED_EVERY_NS: u64 = 5_000_000;

/// How far writers that are late may catch up.
const LATE_MAX_NS: u64 = 2_000_000;

/// A shorter sleep takes longer than asked for.
const SLEEP_MIN_NS: u64 = 100_000;

/// A longer one would not see that there is room again.
const SLEEP_MAX_NS: u64 = 50_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_flush_follows_from_how_far_it_is() {
        let pace = Pace::new();
        assert_eq!(pace.time_left(), None);
        pace.begin(1000);
        assert!(pace.time_left().is_some());
        let ms = Duration::from_millis;
        let like_last = Duration::from_nanos(1000 * NS_PER_KEY).mul_f64(END);
        assert_eq!(pace.left(1000, ms(0)), like_last);
        assert!(pace.left(1000, ms(100)) > ms(100), "nobody knows, but it is not done");
        pace.pass(500);
        assert_eq!(pace.left(1000, ms(20)), ms(40).mul_f64(END) - ms(20));
        pace.pass(5000);
        assert_eq!(pace.left(1000, ms(20)), ms(20).mul_f64(END) - ms(20));
        pace.end(false);
        assert_eq!(pace.time_left(), None);
        assert_eq!(pace.last_ns_per_key.load(Relaxed), NS_PER_KEY, "one that failed says nothing");
    }

    #[test]
    fn writers_share_one_clock() {
        const MS: u64 = 1_000_000;
        let pace = Pace::new();
        pace.wait(u64::MAX, || unreachable!("nobody is slowed"));
        pace.set_speed(1024e3 * 10.0);
        assert_eq!(pace.take_turn(51_200, 100 * MS) + LATE_MAX_NS, 5 * MS);
        assert_eq!(pace.take_turn(20_480, 100 * MS) + LATE_MAX_NS, 7 * MS, "behind the other");
        assert_eq!(pace.take_turn(20_480, 101 * MS) + LATE_MAX_NS, 8 * MS);
        assert_eq!(
            pace.take_turn(102_400, 200 * MS) + LATE_MAX_NS,
            10 * MS,
            "late, but not all that"
        );
        assert!(pace.take_turn(u64::MAX, 200 * MS) > 1000 * MS, "absurd, and no overflow");
        pace.set_speed(0.0);
        assert_eq!(pace.cost.load(Relaxed), (COST_UNIT as f64 * 1e9 / SPEED_MIN) as u64);
        pace.set_speed(f64::INFINITY);
        assert_eq!((pace.cost.load(Relaxed), pace.next.load(Relaxed)), (0, 0));
    }
}
