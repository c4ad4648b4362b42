//! The time, read as cheaply as the processor allows.

use std::hint;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Units in one tick of the counter, so that parts of ticks add up.
const UNITS_PER_TICK: u64 = 16;

/// How the counter relates to time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    /// Units in a nanosecond.
    pub(crate) units_per_ns: f64,
}

impl Clock {
    /// Calibrated once, in some milliseconds.
    pub(crate) fn get() -> Self {
        static CLOCK: OnceLock<Clock> = OnceLock::new();
        *CLOCK.get_or_init(Self::calibrate)
    }

    fn calibrate() -> Self {
        let (begin, start) = (Instant::now(), now());
        while begin.elapsed() < Duration::from_millis(5) {
            hint::spin_loop();
        }
        let (ticks, time) = (now() - start, begin.elapsed());
        Self { units_per_ns: ticks as f64 / time.as_nanos() as f64 }
    }

    /// Nanoseconds in units.
    pub(crate) fn units(self, ns: f64) -> u64 {
        (ns * self.units_per_ns) as u64
    }
}

/// The time since some moment, in units.
#[inline]
pub(crate) fn now() -> u64 {
    counter() * UNITS_PER_TICK
}

/// Spins until `time`; returns late by half the cost of reading the clock, on average.
#[inline]
pub(crate) fn wait_until(time: u64) {
    while now() < time {}
}

/// The processor's counter, which runs at one speed on all processors of our time.
#[cfg(all(target_arch = "x86_64", not(halite_portable)))]
#[inline]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has this counter.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(all(target_arch = "x86_64", not(halite_portable))))]
fn counter() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}
