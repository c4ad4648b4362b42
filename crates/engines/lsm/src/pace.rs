//! The pace of writers: room is given out in step with the flush that makes more.
//!
//! While nothing goes to the levels, writers go as fast as they can. During a flush, the room that is left has to
//! last until the flush is done; how far it has come says how long that is, and both say how many bytes a second
//! writers may take. Each batch takes its part of that time from a clock that all writers share, and its writer
//! sleeps until then: so all are slowed alike, and none is stopped.
//!
//! The speed is found anew when a flush begins or ends, when a memtable is full, and every few milliseconds by
//! writers while there is one. Where no flush is under way, all this costs a writer a load.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The speed limit of writers while room is given out.
pub(crate) struct Pace {
    origin: Instant,
    flush: Mutex<Option<Flush>>,
    /// Keys that the flush has passed.
    passed: AtomicU64,
    /// Nanoseconds that the last flush took a key.
    last_ns_per_key: AtomicU64,
    /// Nanoseconds that writers are to take for [`COST_UNIT`] bytes. 0: they are as fast as they can.
    cost: AtomicU64,
    /// Held by the thread that finds `cost`.
    renewing: Mutex<()>,
    /// When `cost` is found anew, in nanoseconds from the origin.
    renewal: AtomicU64,
    /// When the next batch may go, in nanoseconds from the origin.
    next: AtomicU64,
}

/// The flush that is on its way to the levels.
struct Flush {
    asked: Instant,
    /// When the first keys were passed: before, it may have waited for a compaction.
    began: Option<Instant>,
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
            renewing: Mutex::new(()),
            renewal: AtomicU64::new(0),
            next: AtomicU64::new(0),
        }
    }

    /// Notes that a flush of so many keys begins.
    pub(crate) fn begin(&self, keys: u64) {
        self.passed.store(0, Relaxed);
        let asked = Instant::now();
        *self.flush.lock() = Some(Flush { asked, began: None, keys: keys.max(1) });
    }

    /// Notes that the flush has passed so many more keys.
    pub(crate) fn pass(&self, keys: u64) {
        if self.passed.fetch_add(keys, Relaxed) == 0
            && let Some(flush) = &mut *self.flush.lock()
        {
            flush.began = Some(Instant::now());
        }
    }

    /// Notes that the flush has ended; if it `succeeded`, the next one is expected to take as long for a key.
    pub(crate) fn end(&self, succeeded: bool) {
        let flush = self.flush.lock().take().filter(|flush| succeeded && flush.keys >= TELLING);
        let Some((flush, began)) = flush.and_then(|flush| Some((flush.keys, flush.began?))) else {
            return;
        };
        let took =
            (began.elapsed().as_nanos() as u64 / flush).clamp(NS_PER_KEY_MIN, NS_PER_KEY_MAX);
        let last = self.last_ns_per_key.load(Relaxed);
        self.last_ns_per_key.store((last + took) / 2, Relaxed);
    }

    /// How long the flush that is on its way will still take; `None` if there is none.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let flush = self.flush.lock();
        let flush = flush.as_ref()?;
        let like_last = flush.keys.saturating_mul(self.last_ns_per_key.load(Relaxed));
        let like_last = Duration::from_nanos(like_last);
        Some(match flush.began {
            Some(began) => self.left(flush.keys, began.elapsed(), like_last),
            // How long it will wait is unknown.
            None => like_last.max(flush.asked.elapsed()),
        })
    }

    /// How long a flush of so many keys will still take that has taken so long, and was expected to take as long as
    /// the last.
    fn left(&self, keys: u64, elapsed: Duration, like_last: Duration) -> Duration {
        let passed = (self.passed.load(Relaxed) as f64 / keys as f64).min(1.0);
        let whole =
            if passed < KNOWN_FROM { like_last.max(elapsed * 2) } else { elapsed.div_f64(passed) };
        whole.mul_f64(END) - elapsed
    }

    /// Lets writers take so many bytes a second from now on. `find` says how many, at a time.
    pub(crate) fn renew(&self, find: impl FnOnce() -> f64) {
        let _alone = self.renewing.lock();
        let speed = find();
        let cost = (COST_UNIT as f64 * 1e9 / speed.max(SPEED_MIN)) as u64;
        let cost = if speed.is_finite() { cost.max(1) } else { 0 };
        let before = self.cost.swap(cost, Relaxed);
        if before > 0 && cost != before {
            // Reprices the turns that writers took before at the new cost.
            let now = self.now();
            let scaled = |next: u64| {
                let ahead = next.saturating_sub(now) as f64;
                Some(now + (ahead * cost as f64 / before as f64) as u64)
            };
            let _ = self.next.fetch_update(Relaxed, Relaxed, scaled);
        }
    }

    /// Nanoseconds from the origin.
    fn now(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    /// Has a writer of so many bytes wait for its turn, if writers are slowed. `renew` finds the speed anew.
    #[inline]
    pub(crate) fn wait(&self, bytes: u64, renew: impl Fn()) {
        if self.cost.load(Relaxed) != 0 {
            self.wait_slowed(bytes, renew);
        }
    }

    /// Takes a turn for a writer that cannot wait.
    pub(crate) fn charge(&self, bytes: u64) {
        if self.cost.load(Relaxed) != 0 {
            self.take_turn(bytes, self.now());
        }
    }

    fn wait_slowed(&self, bytes: u64, renew: impl Fn()) {
        let mut now = self.now();
        self.renew_if_due(now, &renew);
        let mut end = self.take_turn(bytes, now);
        while end >= now + SLEEP_MIN_NS && self.cost.load(Relaxed) != 0 {
            thread::sleep(Duration::from_nanos((end - now).min(SLEEP_MAX_NS)));
            now = self.now();
            self.renew_if_due(now, &renew);
            // The next turn began no earlier than this end. If it does now, all writers go faster.
            end = end.min(self.next.load(Relaxed));
        }
    }

    fn renew_if_due(&self, now: u64, renew: &impl Fn()) {
        let due = self.renewal.load(Relaxed);
        let next = now + RENEWED_EVERY_NS;
        if now >= due && self.renewal.compare_exchange(due, next, Relaxed, Relaxed).is_ok() {
            renew();
        }
    }

    /// Takes the next turn for so many bytes. Returns when it is over.
    fn take_turn(&self, bytes: u64, now: u64) -> u64 {
        let turn = bytes.saturating_mul(self.cost.load(Relaxed)) / COST_UNIT;
        // A writer that slept for too long does not make all others late.
        let end = |next: u64| next.max(now.saturating_sub(LATE_MAX_NS)).saturating_add(turn);
        let next = self.next.fetch_update(Relaxed, Relaxed, |next| Some(end(next)));
        end(next.unwrap_or_else(|next| next))
    }
}

/// Nanoseconds that a key of the first flush is assumed to take.
const NS_PER_KEY: u64 = 5_000;

/// The bounds of the nanoseconds that a flush may be found to take for a key.
const NS_PER_KEY_MIN: u64 = 100;
const NS_PER_KEY_MAX: u64 = 10_000_000;

/// Keys that a flush must have for its time to count.
const TELLING: u64 = 100;

/// The part of a flush from which on its own pace is used, and no longer that of the last one.
const KNOWN_FROM: f64 = 0.05;

/// How long a flush takes, by how long it takes to pass its keys: its last tables are synced at its end.
const END: f64 = 1.15;

/// Bytes that the cost is for.
const COST_UNIT: u64 = 1 << 10;

/// Bytes a second that writers have in any case, as long as there is room: the shortage may never end.
const SPEED_MIN: f64 = 4e6;

const RENEWED_EVERY_NS: u64 = 5_000_000;

/// How far writers that are late may catch up.
const LATE_MAX_NS: u64 = 2_000_000;

/// A shorter sleep takes longer than asked for.
const SLEEP_MIN_NS: u64 = 100_000;

/// A longer sleep would notice too late that all may go faster.
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
        let left = |elapsed| pace.left(1000, elapsed, ms(5));
        assert_eq!(left(ms(0)), ms(5).mul_f64(END));
        assert!(left(ms(100)) > ms(100), "nobody knows, but it is not done");
        pace.pass(500);
        assert_eq!(left(ms(20)), ms(40).mul_f64(END) - ms(20));
        pace.pass(5000);
        assert_eq!(left(ms(20)), ms(20).mul_f64(END) - ms(20));
        pace.end(false);
        assert_eq!(pace.time_left(), None);
        assert_eq!(pace.last_ns_per_key.load(Relaxed), NS_PER_KEY, "one that failed says nothing");
        pace.begin(1);
        pace.pass(1);
        pace.end(true);
        assert_eq!(pace.last_ns_per_key.load(Relaxed), NS_PER_KEY, "nor one of a few keys");
        pace.begin(u64::MAX);
        assert!(pace.time_left().is_some(), "absurd, and no overflow");
        pace.pass(u64::MAX / 2);
        pace.end(true);
        let known = pace.last_ns_per_key.load(Relaxed);
        assert_eq!(known, (NS_PER_KEY + NS_PER_KEY_MIN) / 2);
    }

    #[test]
    fn writers_share_one_clock() {
        const MS: u64 = 1_000_000;
        let pace = Pace::new();
        pace.wait(u64::MAX, || unreachable!("nobody is slowed"));
        pace.renew(|| 1024e3 * 10.0);
        let start = 100 * MS - LATE_MAX_NS;
        assert_eq!(pace.take_turn(51_200, 100 * MS), start + 5 * MS);
        assert_eq!(pace.take_turn(20_480, 100 * MS), start + 7 * MS, "behind the other");
        assert_eq!(pace.take_turn(20_480, 101 * MS), start + 9 * MS);
        let late = 200 * MS - LATE_MAX_NS;
        assert_eq!(pace.take_turn(102_400, 200 * MS), late + 10 * MS, "late, but not all that");
        assert!(pace.take_turn(u64::MAX, 200 * MS) > 1000 * MS, "absurd, and no overflow");
        pace.renew(|| 0.0);
        assert_eq!(pace.cost.load(Relaxed), (COST_UNIT as f64 * 1e9 / SPEED_MIN) as u64);
        pace.renew(|| 1e30);
        assert_eq!(pace.cost.load(Relaxed), 1, "the speed is found anew while there is one");
        pace.renew(|| f64::INFINITY);
        assert_eq!(pace.cost.load(Relaxed), 0);
        pace.wait(u64::MAX, || unreachable!("nobody is slowed"));
    }
}
